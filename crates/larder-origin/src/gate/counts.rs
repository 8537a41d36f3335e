//! What is counted at a gate.

use std::collections::BTreeMap;
use std::time::Duration;

use super::class::{CLASSES, Class};

/// The upper bounds of how long was waited, milliseconds; what is longer is in the last bucket.
pub const WAIT_BOUNDS_MILLIS: [u64; 10] = [5, 10, 50, 100, 500, 1000, 2000, 5000, 10_000, 30_000];

/// What was counted at a gate since it is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GateCounts {
    /// Requests that came in, at once or after waiting.
    pub admitted: u64,
    /// Those of them that had waited.
    pub waited: u64,
    /// Requests for which there was no room to wait.
    pub refused: u64,
    /// Requests that gave up their place to one of a better class.
    pub displaced: u64,
    /// Requests that waited as long as they might.
    pub expired: u64,
    /// Requests that were given up while they waited: the client has left.
    pub left: u64,
    /// How long those that came in after waiting had waited, all together.
    pub wait: Duration,
    /// The same, by [`WAIT_BOUNDS_MILLIS`].
    pub waits: [u64; WAIT_BOUNDS_MILLIS.len() + 1],
}

impl GateCounts {
    /// Requests that did not come in, and did not leave by themselves.
    pub fn overflows(&self) -> u64 {
        self.refused + self.displaced + self.expired
    }

    /// One has come in after waiting.
    pub(super) fn waited(&mut self, time: Duration) {
        self.admitted += 1;
        self.waited += 1;
        self.wait += time;
        let within = |bound: &u64| time <= Duration::from_millis(*bound);
        let bucket = WAIT_BOUNDS_MILLIS.iter().position(within).unwrap_or(WAIT_BOUNDS_MILLIS.len());
        self.waits[bucket] += 1;
    }

    /// It goes on waiting.
    pub(super) fn waits_on(&mut self, time: Duration) {
        let mut one = GateCounts::default();
        one.waited(time);
        self.admitted -= one.admitted;
        self.waited -= one.waited;
        self.wait -= one.wait;
        self.waits.iter_mut().zip(one.waits).for_each(|(all, one)| *all -= one);
    }
}

/// A gate at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GateStatus {
    /// How many requests may be at the origins at once; `None` where the `max_conns` of the servers say it.
    pub limit: Option<u32>,
    /// How many there are.
    pub running: u32,
    /// How many of each class wait.
    pub waiting: [u32; CLASSES],
    /// How many may wait.
    pub queue_max: usize,
    /// How long a request is at an origin, on an average of the last ones.
    pub time: Duration,
    /// What was counted.
    pub counts: GateCounts,
}

impl GateStatus {
    /// Those of whom some wait, with how many.
    pub fn by_class(&self) -> BTreeMap<&'static str, u32> {
        let all = Class::all().zip(self.waiting).map(|(class, count)| (class.name(), count));
        all.filter(|(_, count)| *count > 0).collect()
    }

    /// How many wait.
    pub fn waiting_all(&self) -> u32 {
        self.waiting.iter().sum()
    }

    /// Whether there is room for what nobody waits for: no request waits, and less than half of the places are taken.
    pub fn is_idle(&self) -> bool {
        self.waiting_all() == 0 && self.limit.is_none_or(|limit| self.running.saturating_mul(2) < limit)
    }
}
