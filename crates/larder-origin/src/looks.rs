//! How often the runtime of this thread has looked at its sockets. What it knows of a connection is as old as that.
//!
//! The runtime counts its looks before it sleeps, but not those between two pieces of work. [`after_next`] counts one of
//! these when somebody waits for it.

use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::{Context, Wake, Waker},
};

use tokio::{runtime::Handle, task::yield_now};

/// The looks that [`after_next`] counted, as something that the runtime wakes.
#[derive(Default)]
struct Counter {
    looks: AtomicU64,
    /// Whether it is woken after the next look.
    is_set: AtomicBool,
}

impl Wake for Counter {
    fn wake(self: Arc<Self>) {
        self.looks.fetch_add(1, Ordering::Relaxed);
        self.is_set.store(false, Ordering::Relaxed);
    }
}

thread_local! {
    static COUNTER: Arc<Counter> = Arc::default();
}

/// The count so far. If it has changed, the runtime has looked; if not, it may have.
pub(crate) fn count(handle: &Handle) -> u64 {
    handle.metrics().worker_park_count(0) + COUNTER.with(|counter| counter.looks.load(Ordering::Relaxed))
}

/// Wakes this task when the runtime has looked once more, before which other tasks may run. [`count`] has changed then.
pub(crate) fn after_next(cx: &Context<'_>) {
    COUNTER.with(|counter| {
        if !counter.is_set.swap(true, Ordering::Relaxed) {
            wake_after_look(&Waker::from(Arc::clone(counter)));
        }
    });
    wake_after_look(cx.waker());
}

/// The runtime wakes who yields after it has looked, before any task runs.
fn wake_after_look(waker: &Waker) {
    let _pending = pin!(yield_now()).poll(&mut Context::from_waker(waker));
}
