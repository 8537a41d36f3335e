//! Who waits until an origin has one request less.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    sync::atomic::{AtomicU32, Ordering},
    task::{Context, Poll},
    time::Duration,
};

use tokio::{
    sync::Notify,
    time::{Instant, timeout_at},
};

use super::Group;

/// Those who wait for an origin of a group, in the order in which they came.
#[derive(Default)]
pub(super) struct Queue {
    waiting: AtomicU32,
    freed: Notify,
}

impl Queue {
    /// How many wait.
    pub(super) fn len(&self) -> usize {
        self.waiting.load(Ordering::Relaxed) as usize
    }

    /// A request to an origin of the group has ended.
    #[inline]
    pub(super) fn one_is_free(&self) {
        if self.waiting.load(Ordering::SeqCst) > 0 {
            self.freed.notify_one();
        }
    }
}

/// A place in the queue of a group. It is given up when dropped.
pub(crate) struct Place {
    group: Arc<Group>,
    deadline: Instant,
    turn: Pin<Box<dyn Future<Output = bool> + Send>>,
}

impl Place {
    /// A place for this time, if fewer than `most` wait. Who has one looks once more whether an origin is free before
    /// waiting: one may have become free meanwhile.
    pub(crate) fn take(group: &Arc<Group>, most: u32, time: Duration, now: Instant) -> Option<Place> {
        let waiting = &group.queue.waiting;
        waiting.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |count| (count < most).then_some(count + 1)).ok()?;
        let deadline = now.checked_add(time).unwrap_or(now + FOREVER);
        let turn = turn(Arc::clone(group), deadline);
        Some(Place { group: Arc::clone(group), deadline, turn })
    }

    /// Ready with true when an origin may be free, and with false when the time is over.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        let ready = self.turn.as_mut().poll(cx);
        if ready == Poll::Ready(true) {
            self.turn = turn(Arc::clone(&self.group), self.deadline);
        }
        ready
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.group.queue.waiting.fetch_sub(1, Ordering::SeqCst);
    }
}

fn turn(group: Arc<Group>, deadline: Instant) -> Pin<Box<dyn Future<Output = bool> + Send>> {
    Box::pin(async move { timeout_at(deadline, group.queue.freed.notified()).await.is_ok() })
}

/// As long as no request waits.
const FOREVER: Duration = Duration::from_secs(365 * 24 * 60 * 60);
