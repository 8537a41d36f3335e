//! What a fetch is for, and the right to store what it brings.

use std::sync::Arc;

use larder_cache::{Object, Permit, Rules};
use larder_http::Time;

use crate::context::Cx;
use crate::exchange::Exchange;
use crate::site::OriginPolicy;

/// What a fetch is for.
pub struct Plan {
    /// Where its answer may be stored.
    pub storing: Option<Storing>,
    /// The stale page that is there, to be revalidated or delivered when the origin fails.
    pub stale: Option<Arc<Object>>,
}

/// The right to store the answer.
pub struct Storing {
    zone: usize,
    right: Right,
}

enum Right {
    Permit(Permit),
    /// To be asked for when there is something to store, under the exchange's key.
    Unasked,
}

impl Storing {
    /// By a permit that lookup gave.
    pub fn new(permit: Permit, zone: usize) -> Self {
        Self { zone, right: Right::Permit(permit) }
    }

    /// Without one: nobody waits for the answer.
    pub fn unasked(zone: usize) -> Self {
        Self { zone, right: Right::Unasked }
    }

    /// The zone.
    pub fn zone(&self) -> usize {
        self.zone
    }

    /// The permit; asked for now where there is none yet. `None` when the zone gives none.
    pub fn permit(self, policy: &OriginPolicy, ex: &Exchange, cx: &Cx) -> Option<Permit> {
        match self.right {
            Right::Permit(permit) => Some(permit),
            Right::Unasked => {
                let key = larder_cache::KeyRef::new(&ex.upstream.cache_key);
                let zone = cx.zone(self.zone);
                zone.permit(&mut cx.local.fronts[self.zone].borrow_mut(), &key, &rules(policy, ex, cx.now()), cx.now())
            }
        }
    }

    /// Tells those who wait that there will be nothing to share.
    pub fn uncacheable(self, cx: &Cx) {
        match self.right {
            Right::Permit(permit) => permit.uncacheable(cx.now()),
            Right::Unasked => {}
        }
    }
}

/// The rules of lookup in this location.
pub fn rules(policy: &OriginPolicy, ex: &Exchange, now: Time) -> Rules {
    let model = &policy.settings.model;
    Rules {
        min_uses: model.cache_min_uses,
        lock: model.cache_lock,
        lock_age: model.cache_lock_age,
        // One who has waited before waits no longer than what is left.
        lock_timeout: ex.upstream.lock_until.map_or(model.cache_lock_timeout, |until| until.since(now)),
        ignore_vary: model.ignore_headers.vary,
        ..Rules::default()
    }
}
