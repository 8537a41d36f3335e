//! What a fetch is for, and the right to store what it brings.

use std::sync::Arc;
use std::time::Duration;

use larder_cache::{Hurry, Moment, Object, Permit};
use larder_http::Time;

use crate::context::Cx;
use crate::exchange::Exchange;

use super::for_all::ForAll;
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
    /// The right to fetch the page for other nodes, too.
    for_all: Option<Box<ForAll>>,
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
        Self { zone, right: Right::Permit(permit), for_all: None }
    }

    /// Without one: nobody waits for the answer.
    pub fn unasked(zone: usize, cx: &Cx) -> Self {
        Self::unasked_since(zone, cx.zone(zone).moment())
    }

    /// The same for a fetch that began then.
    pub fn unasked_since(zone: usize, since: Moment) -> Self {
        Self { zone, right: Right::Unasked { since }, for_all: None }
    }

    /// Whether it has a permit of the zone.
    pub fn has_permit(&self) -> bool {
        matches!(self.right, Right::Permit(_))
    }

    /// Has what the fetch brings be for other nodes, too.
    pub fn fetch_for_all(&mut self, for_all: Option<Box<ForAll>>) {
        self.for_all = for_all;
    }

    /// The right to hand it to other nodes.
    pub fn take_for_all(&mut self) -> Option<Box<ForAll>> {
        self.for_all.take()
    }

    /// Has other nodes fetch for themselves, as the page cannot be shared.
    pub fn give_up_for_all(&mut self) {
        if let Some(for_all) = self.for_all.take() {
            for_all.give_up();
        }
    }

    /// Stores a page of another node, if it counts here: see [`Permit::take_in`].
    pub fn take_in(self, object: Object, since: Moment, now: Time) -> Result<(), Self> {
        let Self { zone, right: Right::Permit(permit), .. } = self else { return Err(self) };
        permit.take_in(object, since, now).map_err(|permit| Self::new(permit, zone))
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

    /// Wakes the waiters, here and on other nodes, as the answer is not shared; requests within `time` do not wait either.
    pub fn uncacheable(mut self, time: Duration, cx: &Cx) {
        self.give_up_for_all();
        match self.right {
            Right::Permit(permit) => permit.uncacheable(time, cx.now()),
            Right::Unasked { .. } => {}
        }
    }
}
