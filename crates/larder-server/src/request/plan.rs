//! What a fetch is for, and the right to store what it brings.

use std::sync::Arc;
use std::time::Duration;

use larder_cache::{Hurry, Moment, Object, Permit};

use crate::context::Cx;
use crate::exchange::Exchange;

use super::{Slow, Step};

/// What a fetch is for.
pub struct Plan {
    /// Where its answer may be stored.
    pub storing: Option<Storing>,
    /// The stale page that is there, to be revalidated or delivered when the origin fails.
    pub stale: Option<Arc<Object>>,
    /// A part of the page, which is to be completed.
    pub part: Option<Arc<Object>>,
}

impl Plan {
    /// A pass: no stale page, and the answer is not stored.
    pub fn pass() -> Self {
        Self::new(None, None)
    }

    /// A fetch of all that is asked for.
    pub fn new(storing: Option<Storing>, stale: Option<Arc<Object>>) -> Self {
        Self { storing, stale, part: None }
    }
}

impl From<Plan> for Step {
    fn from(plan: Plan) -> Self {
        Self::Slow(Slow::Fetch(plan))
    }
}

/// The right to store the answer.
pub struct Storing {
    zone: usize,
    right: Right,
}

enum Right {
    Permit(Permit),
    /// A bypass has none: it is asked for when there is an answer to store, under the exchange's key.
    Unasked {
        /// When the fetch began; a permit knows that itself.
        since: Moment,
    },
}

impl Storing {
    /// By a permit that lookup gave.
    pub fn new(permit: Permit, zone: usize) -> Self {
        Self { zone, right: Right::Permit(permit) }
    }

    /// Without one: nobody waits for the answer.
    pub fn unasked(zone: usize, cx: &Cx) -> Self {
        Self::unasked_since(zone, cx.zone(zone).moment())
    }

    /// The same for a fetch that began then.
    pub fn unasked_since(zone: usize, since: Moment) -> Self {
        Self { zone, right: Right::Unasked { since } }
    }

    /// When the fetch began.
    pub fn since(&self) -> Moment {
        match &self.right {
            Right::Permit(permit) => permit.since(),
            Right::Unasked { since } => *since,
        }
    }

    /// Whether requests wait for the answer.
    pub fn is_awaited(&self) -> bool {
        match &self.right {
            Right::Permit(permit) => permit.is_awaited(),
            Right::Unasked { .. } => false,
        }
    }

    /// Has `leader` hear how good those are who wait for the answer.
    pub fn hear(&self, leader: Hurry) {
        match &self.right {
            Right::Permit(permit) => permit.hear(leader),
            Right::Unasked { .. } => {}
        }
    }

    /// The zone.
    pub fn zone(&self) -> usize {
        self.zone
    }

    /// The permit; asked for now where there is none yet. `None` when the zone gives none.
    pub fn permit(self, ex: &Exchange, cx: &Cx) -> Option<Permit> {
        let mut permit = match self.right {
            Right::Permit(permit) => permit,
            Right::Unasked { since } => {
                let key = larder_cache::KeyRef::new(&ex.upstream.cache_key);
                let mut front = cx.local.fronts[self.zone].borrow_mut();
                let mut permit = cx.zone(self.zone).permit(&mut front, &key, cx.now())?;
                permit.fetched_since(since);
                permit
            }
        };
        if let Some((first, last)) = ex.vcl.fetch.bans {
            permit.spare(first..=last);
        }
        Some(permit)
    }

    /// Wakes the waiters, as the answer is not shared; requests within `time` do not wait either.
    pub fn uncacheable(self, time: Duration, cx: &Cx) {
        match self.right {
            Right::Permit(permit) => permit.uncacheable(time, cx.now()),
            Right::Unasked { .. } => {}
        }
    }
}
