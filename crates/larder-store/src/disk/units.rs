//! The time of a shelf: the last `now` that it was told, and in the coarse units of the index.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use super::index::UNIT_MASK;

/// The last `now`, and the units in which the index notes the last use of a page. Units count passed time and never go
/// back, even if the clock is set back. Otherwise the noted times would be in the future, and no page would age until
/// the clock reached them.
pub(super) struct Units {
    now: AtomicU64,
    /// The time of unit 0; `UNSET` until a first `now` is told.
    base: AtomicI64,
    /// Seconds in a unit.
    step: AtomicU64,
    /// [`Units::tick`] was called; from then on only it sets the time.
    has_ticked: AtomicBool,
}

impl Units {
    pub(super) fn new(inactive: Duration) -> Self {
        Self {
            now: AtomicU64::new(0),
            base: AtomicI64::new(UNSET),
            step: AtomicU64::new(step_of(inactive)),
            has_ticked: AtomicBool::new(false),
        }
    }

    /// Returns the current unit. Notes `now` only until the first tick, because it may be the old time of a page that
    /// took long, or a time from before the clock was set back.
    pub(super) fn tell(&self, now: u64) -> u16 {
        if !self.has_ticked.load(Ordering::Relaxed) {
            self.advance(now);
        }
        self.unit()
    }

    /// Notes `now`, the time of the clock at this moment.
    pub(super) fn tick(&self, now: u64) {
        self.has_ticked.store(true, Ordering::Relaxed);
        let back = self.now().saturating_sub(now);
        if back <= TICKS_APART_MAX || self.base.load(Ordering::Relaxed) == UNSET {
            return self.advance(now);
        }
        // In this order: a reader in between may see uses in the future, and takes them for current ones.
        self.now.store(now, Ordering::Relaxed);
        self.base.fetch_sub(back as i64, Ordering::Relaxed);
    }

    fn advance(&self, now: u64) {
        if self.now.load(Ordering::Relaxed) < now {
            self.now.fetch_max(now, Ordering::Relaxed);
        }
        if self.base.load(Ordering::Relaxed) == UNSET {
            let first = now.min(i64::MAX as u64) as i64;
            let _ = self.base.compare_exchange(UNSET, first, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// The last `now` told, or 0.
    pub(super) fn now(&self) -> u64 {
        self.now.load(Ordering::Relaxed)
    }

    /// The unit of the last `now`; 0 before there was any.
    pub(super) fn unit(&self) -> u16 {
        self.count() as u16 & UNIT_MASK
    }

    /// Whether a page that was last used at `used_at` was unused for all of `inactive`.
    pub(super) fn is_inactive(&self, used_at: u16) -> bool {
        let age = self.unit().wrapping_sub(used_at) & UNIT_MASK;
        // An age of more than half of all units means a use just after the unit that is known here.
        age > UNITS_INACTIVE && age <= UNIT_MASK / 2
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

/// Whether `seconds` have passed since `since`. If `since` is in the future, the clock was set back, and it counts as
/// passed.
pub(super) fn have_passed(seconds: u64, since: u64, now: u64) -> bool {
    now < since || now - since >= seconds
}

fn step_of(inactive: Duration) -> u64 {
    inactive.as_secs().div_ceil(u64::from(UNITS_INACTIVE)).max(1)
}

/// A page is inactive if it was unused for more units than this, wherever in its unit the last use was.
const UNITS_INACTIVE: u16 = 16;
const UNSET: i64 = i64::MIN;
/// The most seconds between the times that two threads tell at once.
const TICKS_APART_MAX: u64 = 5;

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

    #[test]
    fn a_clock_that_is_set_back_makes_nothing_older_and_stops_no_age() {
        for back in [6, 101, 500, 3600, 1_000_000, 4_999_000] {
            let units = Units::new(Duration::from_secs(1600));
            units.tick(5_000_000);
            let first = units.tell(5_000_000);
            units.tick(5_000_800);
            let last = units.tell(5_000_800);
            let now = 5_000_800 - back;
            units.tick(now);
            assert!(!units.is_inactive(first) && !units.is_inactive(last), "{back}");
            // A request of before.
            assert_eq!(units.tell(5_000_800), last, "{back}");
            units.tick(now + 801);
            assert!(!units.is_inactive(first), "{back}");
            units.tick(now + 900);
            assert!(units.is_inactive(first) && !units.is_inactive(last), "{back}");
            units.tick(now + 1700);
            assert!(units.is_inactive(last), "{back}");
        }
    }

    #[test]
    fn threads_that_tell_a_second_apart_make_nothing_older() {
        let units = Units::new(Duration::from_secs(16));
        let used_at = units.tell(1000);
        for now in 1001..1016 {
            units.tick(now);
            units.tick(now - 1);
        }
        assert!(!units.is_inactive(used_at));
        assert_eq!(units.now(), 1015);
    }

    #[test]
    fn a_wait_ends_when_the_clock_is_set_back() {
        for (since, now, expected) in
            [(1000, 1000, false), (1000, 1009, false), (1000, 1010, true), (1000, 999, true), (u64::MAX, 0, true)]
        {
            assert_eq!(have_passed(10, since, now), expected, "{since} {now}");
        }
    }
}
