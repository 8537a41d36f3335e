//! The time of day.

use std::time::Duration;

/// Milliseconds since 1970; the one type of time of day in larder.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Time(pub u64);

impl Time {
    /// The start of the second `secs` after 1970.
    pub fn from_secs(secs: u64) -> Time {
        Time(secs.saturating_mul(1000))
    }

    /// Whole seconds since 1970.
    pub fn secs(self) -> u64 {
        self.0 / 1000
    }

    /// Seconds since 1970, with their parts.
    pub fn secs_f64(self) -> f64 {
        self.0 as f64 / 1000.0
    }

    /// This time plus `by`, saturating.
    pub fn plus(self, by: Duration) -> Time {
        let millis = u64::try_from(by.as_millis()).unwrap_or(u64::MAX);
        Time(self.0.saturating_add(millis))
    }

    /// How long after `earlier` this is; zero if it is before.
    pub fn since(self, earlier: Time) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_stops_at_the_ends() {
        assert_eq!(Time::from_secs(2).plus(Duration::from_millis(1500)), Time(3500));
        assert_eq!((Time(3500).secs(), Time(3500).secs_f64()), (3, 3.5));
        assert_eq!(Time(5).since(Time(3)), Duration::from_millis(2));
        assert_eq!(Time(3).since(Time(5)), Duration::ZERO);
        assert_eq!(Time(u64::MAX).plus(Duration::MAX), Time(u64::MAX));
        assert_eq!(Time::from_secs(u64::MAX), Time(u64::MAX));
    }
}
