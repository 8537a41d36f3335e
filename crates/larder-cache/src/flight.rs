//! A fetch that others wait for, and how they wait.
//!
//! ```text
//! Fetching --begin--> Filling      the waiters stream from the object
//!    `------ end ---> Over         they look up again, or fetch for themselves
//! ```

use std::sync::Arc;
use std::time::Duration;

use larder_http::Time;
use larder_store::{BodyReader, BodyState};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::object::Object;
use crate::rules::Rules;
use crate::vary::{Selecting, VaryKey};

/// A fetch for one variant.
pub(crate) struct Flight {
    /// The values its variant is taken to have, before the response says what it varies by.
    known: VaryKey,
    inner: Mutex<Inner>,
    /// Told when the stage changes.
    changed: Notify,
}

struct Inner {
    stage: Stage,
    /// When the last one set out.
    started_at: Time,
    /// Those with a permit for it who brought nothing yet.
    fetchers: usize,
    /// How much of the body had come when somebody last looked and found more than before, and when that was.
    progress: (u64, Time),
}

enum Stage {
    Fetching,
    Filling(Arc<Object>),
    Over(Outcome),
}

/// How a flight ended that brought no object to share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It failed: the next one tries.
    Failed,
    /// The response is not to be stored: everyone fetches for himself.
    Uncacheable,
}

/// What a flight has for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Offer {
    /// A response, if it varies by no more than is known.
    Wait,
    /// A response that is known to answer the request.
    Stream,
}

impl Flight {
    pub(crate) fn start(known: VaryKey, now: Time) -> Arc<Self> {
        Arc::new(Self {
            known,
            inner: Mutex::new(Inner { stage: Stage::Fetching, started_at: now, fetchers: 1, progress: (0, now) }),
            changed: Notify::new(),
        })
    }

    /// One more sets out for it, as the last takes too long.
    pub(crate) fn join(&self, now: Time) {
        let mut inner = self.inner.lock();
        inner.started_at = now;
        inner.fetchers += 1;
    }

    /// One of those who set out is back with nothing. True when it was the last, and nothing came.
    pub(crate) fn give_up(&self) -> bool {
        let mut inner = self.inner.lock();
        inner.fetchers = inner.fetchers.saturating_sub(1);
        inner.fetchers == 0 && matches!(inner.stage, Stage::Fetching)
    }

    /// The head is here: wakes all who wait. Of several the first counts.
    pub(crate) fn fill(&self, object: &Arc<Object>) {
        let mut inner = self.inner.lock();
        if matches!(inner.stage, Stage::Fetching) {
            inner.stage = Stage::Filling(Arc::clone(object));
        }
        drop(inner);
        self.changed.notify_waiters();
    }

    /// Nothing to share: wakes all who wait.
    pub(crate) fn end(&self, outcome: Outcome) {
        let mut inner = self.inner.lock();
        if matches!(inner.stage, Stage::Fetching) {
            inner.stage = Stage::Over(outcome);
        }
        drop(inner);
        self.changed.notify_waiters();
    }

    pub(crate) fn started_at(&self) -> Time {
        self.inner.lock().started_at
    }

    /// Whether its body has not grown for `limit`, as far as those who looked could see; true once in that time.
    pub(crate) fn has_stalled(&self, limit: Duration, now: Time) -> bool {
        let mut inner = self.inner.lock();
        let Stage::Filling(object) = &inner.stage else { return false };
        let so_far = match object.body.state() {
            BodyState::Filling { so_far } => so_far,
            BodyState::Complete { .. } | BodyState::Failed(_) => return false,
        };
        let (seen, since) = inner.progress;
        if so_far == seen && now.since(since) < limit {
            return false;
        }
        inner.progress = (so_far, now);
        so_far == seen
    }

    /// Whether a request may wait for it.
    pub(crate) fn is_open(&self) -> bool {
        self.inner.lock().stage.is_open()
    }

    /// What it offers this request: nothing when its variant is for others.
    pub(crate) fn offer(&self, request: &Selecting<'_>) -> Option<Offer> {
        let inner = self.inner.lock();
        let (vary, offer) = match &inner.stage {
            Stage::Filling(object) => (&object.vary, Offer::Stream),
            Stage::Fetching | Stage::Over(_) => (&self.known, Offer::Wait),
        };
        (inner.stage.is_open() && vary.matches(request)).then_some(offer)
    }

    /// What one who waits gets now, if anything.
    fn look(&self, offer: Offer) -> Option<Woken> {
        let inner = self.inner.lock();
        match &inner.stage {
            Stage::Fetching => None,
            Stage::Over(Outcome::Failed) => Some(Woken::Ready),
            Stage::Over(Outcome::Uncacheable) => Some(Woken::Uncacheable),
            Stage::Filling(object) => match offer {
                // The response varies by more than was known: only a new look at the request can tell.
                Offer::Wait if !self.known.covers(&object.vary) => Some(Woken::Ready),
                Offer::Wait | Offer::Stream => Some(attach(object)),
            },
        }
    }
}

impl Stage {
    fn is_open(&self) -> bool {
        match self {
            Stage::Fetching => true,
            Stage::Filling(object) => {
                object.body.is_stored() && matches!(object.body.state(), BodyState::Filling { .. })
            }
            Stage::Over(_) => false,
        }
    }
}

fn attach(object: &Arc<Object>) -> Woken {
    let reader = object.body.reader();
    if let BodyState::Failed(_) = object.body.state() {
        return Woken::Ready;
    }
    // Asked after the reader is there, which keeps the start from being let go.
    if !object.body.has_its_start() {
        return Woken::Uncacheable;
    }
    Woken::Filling { object: Arc::clone(object), reader }
}

/// What one who waited does next.
#[derive(Debug)]
pub enum Woken {
    /// The response is here, complete or not: deliver it from the reader.
    Filling {
        /// The response.
        object: Arc<Object>,
        /// At the start of its body.
        reader: BodyReader,
    },
    /// Look up again, with what is left of `lock_timeout`.
    Ready,
    /// The response is not to be shared: fetch, all at once. A new lookup gives a permit to store.
    Uncacheable,
    /// `lock_timeout` is over: fetch, and do not store.
    GaveUp,
}

/// A place in the queue for another's fetch.
pub struct Waiter {
    flight: Arc<Flight>,
    offer: Offer,
    timeout: Duration,
    /// What is left until one more may fetch.
    age_left: Duration,
}

impl Waiter {
    pub(crate) fn new(flight: &Arc<Flight>, offer: Offer, rules: &Rules, age_left: Duration) -> Self {
        Self { offer, flight: Arc::clone(flight), timeout: rules.lock_timeout, age_left }
    }

    /// Waits until the fetch has brought something, or `lock_timeout` or `lock_age` is over.
    pub async fn wait(self) -> Woken {
        let patience = self.timeout.min(self.age_left);
        match timeout(patience, self.change()).await {
            Ok(woken) => woken,
            Err(_) if self.age_left < self.timeout => Woken::Ready,
            Err(_) => Woken::GaveUp,
        }
    }

    async fn change(&self) -> Woken {
        loop {
            let changed = self.flight.changed.notified();
            tokio::pin!(changed);
            // Before the look, so that a change after it is not missed.
            changed.as_mut().enable();
            if let Some(woken) = self.flight.look(self.offer) {
                return woken;
            }
            changed.await;
        }
    }
}

impl std::fmt::Debug for Waiter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Waiter").field("timeout", &self.timeout).finish_non_exhaustive()
    }
}
