//! A leaky bucket for what a client may do without making useful requests.

use crate::time::Time;

use super::config::Rate;

/// How much of a [`Rate`] is spent.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Allowance {
    spent: u32,
    /// Up to when passed time has been credited.
    counted: Time,
}

/// The allowance is used up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct UsedUp;

/// Nothing spent at this time.
impl From<Time> for Allowance {
    fn from(now: Time) -> Allowance {
        Allowance { spent: 0, counted: now }
    }
}

impl Allowance {
    /// Spends `points`.
    #[inline]
    pub fn spend(&mut self, points: u32, rate: Rate, now: Time) -> Result<(), UsedUp> {
        self.spent = self.spent.saturating_add(points);
        if self.spent <= rate.burst {
            return Ok(());
        }
        // Passed time is only credited when the allowance would be used up.
        let millis = u64::try_from(now.since(self.counted).as_millis()).unwrap_or(u64::MAX);
        let forgiven = millis.saturating_mul(u64::from(rate.per_second)) / 1000;
        if forgiven > 0 {
            self.counted = now;
            self.earn(u32::try_from(forgiven).unwrap_or(u32::MAX));
        }
        if self.spent <= rate.burst { Ok(()) } else { Err(UsedUp) }
    }

    /// Gives `points` back, at most all that were spent.
    #[inline]
    pub fn earn(&mut self, points: u32) {
        self.spent = self.spent.saturating_sub(points);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_and_use_forgive() {
        let rate = Rate { burst: 10, per_second: 5 };
        let start = Time::from_secs(100);
        let mut allowance = Allowance { spent: 0, counted: start };
        for _ in 0..10 {
            assert_eq!(allowance.spend(1, rate, start), Ok(()));
        }
        assert_eq!(allowance.spend(1, rate, start), Err(UsedUp));
        let mut allowance = Allowance { spent: 10, counted: start };
        assert_eq!(allowance.spend(5, rate, Time::from_secs(101)), Ok(()));
        assert_eq!(allowance.spend(1, rate, Time::from_secs(101)), Err(UsedUp));
        let mut allowance = Allowance { spent: 10, counted: start };
        allowance.earn(100);
        assert_eq!(allowance.spend(10, rate, start), Ok(()));
        assert_eq!(allowance.spend(1, rate, start), Err(UsedUp));
    }
}
