//! The time as a shelf knows it: what it was last told, and in the coarse units of the index.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use super::index::UNIT_MASK;

/// The last `now`, and the units in which the index notes the last use of a page.
pub(super) struct Units {
    now: AtomicU64,
    /// The time of unit 0; `UNSET` until a first `now` is told.
    base: AtomicI64,
    /// Seconds in a unit.
    step: AtomicU64,
}

impl Units {
    pub(super) fn new(inactive: Duration) -> Self {
        Self { now: AtomicU64::new(0), base: AtomicI64::new(UNSET), step: AtomicU64::new(step_of(inactive)) }
    }

    /// Notes `now` and gives the unit it is in.
    pub(super) fn tell(&self, now: u64) -> u16 {
        // Read first: most callers tell the second that is known, and a line that is only read is shared.
        if self.now.load(Ordering::Relaxed) != now {
            self.now.store(now, Ordering::Relaxed);
        }
        if self.base.load(Ordering::Relaxed) == UNSET {
            let first = now.min(i64::MAX as u64) as i64;
            let _ = self.base.compare_exchange(UNSET, first, Ordering::Relaxed, Ordering::Relaxed);
        }
        self.unit()
    }

    /// The last `now` told, or 0.
    pub(super) fn now(&self) -> u64 {
        self.now.load(Ordering::Relaxed)
    }

    /// The unit of the last `now`; 0 before there was any.
    pub(super) fn unit(&self) -> u16 {
        self.count() as u16 & UNIT_MASK
    }

    /// Whether what was last used in `used_at` has been unused for the whole time.
    pub(super) fn is_inactive(&self, used_at: u16) -> bool {
        self.unit().wrapping_sub(used_at) & UNIT_MASK > UNITS_INACTIVE
    }

    /// Changes the length of a unit. The current one keeps its number, so ages in units stay.
    pub(super) fn adjust(&self, inactive: Duration) {
        let step = step_of(inactive);
        if self.base.load(Ordering::Relaxed) != UNSET {
            let passed = self.count().saturating_mul(step);
            self.base.store(self.now() as i64 - passed as i64, Ordering::Relaxed);
        }
        self.step.store(step, Ordering::Relaxed);
    }

    /// Units since unit 0, without wrapping.
    fn count(&self) -> u64 {
        let base = self.base.load(Ordering::Relaxed);
        if base == UNSET {
            return 0;
        }
        let passed = (self.now() as i64).saturating_sub(base).max(0) as u64;
        passed / self.step.load(Ordering::Relaxed).max(1)
    }
}

fn step_of(inactive: Duration) -> u64 {
    inactive.as_secs().div_ceil(u64::from(UNITS_INACTIVE)).max(1)
}

/// Unused for more units than this is unused for the whole time, wherever in its unit the last use was.
const UNITS_INACTIVE: u16 = 16;
const UNSET: i64 = i64::MIN;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_inactive_after_the_time_and_not_before() {
        let units = Units::new(Duration::from_secs(1600));
        assert_eq!(units.unit(), 0);
        let used_at = units.tell(5_000_099);
        assert_eq!(used_at, 0);
        for (now, is_inactive) in [(5_000_099, false), (5_001_698, false), (5_001_799, true), (5_100_000, true)] {
            units.tell(now);
            assert_eq!(units.is_inactive(used_at), is_inactive, "{now}");
        }
    }

    #[test]
    fn another_time_keeps_ages_in_units() {
        let units = Units::new(Duration::from_secs(160));
        let used_at = units.tell(1000);
        units.tell(1085);
        assert_eq!(units.unit(), 8);
        units.adjust(Duration::from_secs(16));
        assert_eq!(units.unit(), 8);
        units.tell(1093);
        assert!(!units.is_inactive(used_at));
        units.tell(1094);
        assert!(units.is_inactive(used_at));
    }
}
