//! A fetch that other requests wait for (`*_cache_lock`), and how they wait.
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
    /// What its variant is expected to vary by, until the response says.
    known: VaryKey,
    inner: Mutex<Inner>,
    /// Notified when the stage changes.
    changed: Notify,
}

struct Inner {
    stage: Stage,
    /// When the last fetch began.
    started_at: Time,
    /// How many permits for it are out that have brought nothing yet.
    fetchers: usize,
    /// How much of the body had arrived, and when, at the last look that found more than the one before.
    progress: (u64, Time),
    /// The lowest rank of those who have come to wait.
    rank: Option<u8>,
    /// Who is told of a lower one.
    leaders: Vec<Hurry>,
}

/// Hears the lowest rank, which is the best, of those who wait for a fetch. What a rank is, its callers know.
pub type Hurry = Arc<dyn Fn(u8) + Send + Sync>;

enum Stage {
    Fetching,
    Filling(Arc<Object>),
    Over(Outcome),
}

/// Why a flight ended without an object to share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The fetch failed: the next waiting request tries.
    Failed,
    /// The response may not be stored: every waiting request fetches for itself.
    Uncacheable,
}

/// What a flight can do for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Offer {
    /// A response to wait for; it may turn out to vary by more than is known now.
    Wait,
    /// A response that has arrived and is known to answer the request.
    Stream,
}

impl Flight {
    pub(crate) fn start(known: VaryKey, now: Time) -> Arc<Self> {
        Arc::new(Self {
            known,
            inner: Mutex::new(Inner {
                stage: Stage::Fetching,
                started_at: now,
                fetchers: 1,
                progress: (0, now),
                rank: None,
                leaders: Vec::new(),
            }),
            changed: Notify::new(),
        })
    }

    /// Notes one more fetch for it, because the last takes too long.
    pub(crate) fn join(&self, now: Time) {
        let mut inner = self.inner.lock();
        inner.started_at = now;
        inner.fetchers += 1;
    }

    /// Has a fetch hear how good those are who wait for it.
    pub(crate) fn hear(&self, leader: Hurry) {
        let mut inner = self.inner.lock();
        let rank = inner.rank;
        inner.leaders.push(Arc::clone(&leader));
        drop(inner);
        if let Some(rank) = rank {
            leader(rank);
        }
    }

    fn hurry(&self, rank: u8) {
        let mut inner = self.inner.lock();
        if inner.rank.is_some_and(|known| known <= rank) || !matches!(inner.stage, Stage::Fetching) {
            return;
        }
        inner.rank = Some(rank);
        let leaders = inner.leaders.clone();
        drop(inner);
        leaders.iter().for_each(|leader| leader(rank));
    }

    /// Notes that one of the fetches brought nothing. True if it was the last one, and none brought anything.
    pub(crate) fn give_up(&self) -> bool {
        let mut inner = self.inner.lock();
        inner.fetchers = inner.fetchers.saturating_sub(1);
        inner.fetchers == 0 && matches!(inner.stage, Stage::Fetching)
    }

    /// The response head has arrived: wakes all waiting requests. If there were several fetches, the first counts.
    pub(crate) fn fill(&self, object: &Arc<Object>) {
        let mut inner = self.inner.lock();
        if matches!(inner.stage, Stage::Fetching) {
            inner.stage = Stage::Filling(Arc::clone(object));
        }
        drop(inner);
        self.changed.notify_waiters();
    }

    /// There is nothing to share: wakes all waiting requests.
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

    /// Whether the body has not grown for `limit`, judged by the calls of this function. True at most once in each
    /// `limit`.
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

    /// Whether requests may still wait for it.
    pub(crate) fn is_open(&self) -> bool {
        self.inner.lock().stage.is_open()
    }

    /// What it can do for this request; `None` if its variant does not answer it.
    pub(crate) fn offer(&self, request: &Selecting<'_>) -> Option<Offer> {
        let inner = self.inner.lock();
        let (vary, offer) = match &inner.stage {
            Stage::Filling(object) => (&object.vary, Offer::Stream),
            Stage::Fetching | Stage::Over(_) => (&self.known, Offer::Wait),
        };
        (inner.stage.is_open() && vary.matches(request)).then_some(offer)
    }

    /// What a waiting request gets now, if anything.
    fn look(&self, offer: Offer) -> Option<Woken> {
        let inner = self.inner.lock();
        match &inner.stage {
            Stage::Fetching => None,
            Stage::Over(Outcome::Failed) => Some(Woken::Ready),
            Stage::Over(Outcome::Uncacheable) => Some(Woken::Uncacheable),
            Stage::Filling(object) => match offer {
                // The response varies by more than was known: only a new lookup can tell whether it answers the
                // request.
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
    // Checked after the reader was made: from then on the start of the body is not dropped.
    if !object.body.has_its_start() {
        return Woken::Uncacheable;
    }
    Woken::Filling { object: Arc::clone(object), reader }
}

/// What a request does after it waited.
#[derive(Debug)]
pub enum Woken {
    /// The response has begun to arrive: deliver it from the reader.
    Filling {
        /// Its body may still be filling.
        object: Arc<Object>,
        /// Stands at the start of the body.
        reader: BodyReader,
    },
    /// Look up again, with the rest of `lock_timeout`.
    Ready,
    /// The response may not be shared: fetch, without waiting for others. A new lookup gives a permit to store.
    Uncacheable,
    /// `lock_timeout` is over: fetch, and do not store.
    GaveUp,
}

/// A request's place among those that wait for another's fetch.
pub struct Waiter {
    flight: Arc<Flight>,
    offer: Offer,
    timeout: Duration,
    /// The rest of `lock_age`: after it, one more request may fetch.
    age_left: Duration,
}

impl Waiter {
    pub(crate) fn new(flight: &Arc<Flight>, offer: Offer, rules: &Rules, age_left: Duration) -> Self {
        Self { offer, flight: Arc::clone(flight), timeout: rules.lock_timeout, age_left }
    }

    /// Tells the fetch how good the request is that waits for it.
    pub fn hurry(&self, rank: u8) {
        self.flight.hurry(rank);
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
            // Enabled before the check, so that a change in between is not missed.
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
