//! Origins that rest after failures, their own or those that visitors met: a second, and twice as long after each further
//! one, until a refill has succeeded.

use std::collections::HashMap;
use std::time::Duration;

use larder_http::Time;

/// The rests, by origin.
#[derive(Default)]
pub(super) struct Rests(HashMap<usize, Rest>);

struct Rest {
    until: Time,
    length: Duration,
}

impl Rests {
    /// Notes a failure, and returns until when the origin rests. Failures while it rests are those of one trouble: they do
    /// not make it longer, or visitors could keep an origin at rest.
    pub(super) fn failed(&mut self, origin: usize, now: Time) -> Time {
        if self.0.len() >= ORIGINS_MAX {
            self.0.retain(|_, rest| rest.until > now);
        }
        let rest = self.0.entry(origin).or_insert(Rest { until: Time(0), length: Duration::ZERO });
        if now >= rest.until {
            rest.length = (rest.length * 2).clamp(REST_MIN, REST_MAX);
            rest.until = now.plus(rest.length);
        }
        rest.until
    }

    /// Notes that an origin has enough to do: its pages wait for a moment, and a rest after a failure stays as long.
    pub(super) fn busy(&mut self, origin: usize, now: Time) {
        let rest = self.0.entry(origin).or_insert(Rest { until: Time(0), length: Duration::ZERO });
        rest.until = rest.until.max(now.plus(BUSY));
    }

    pub(super) fn succeeded(&mut self, origin: usize) {
        self.0.remove(&origin);
    }

    pub(super) fn resting(&self, origin: usize, now: Time) -> Option<Time> {
        self.0.get(&origin).map(|rest| rest.until).filter(|until| *until > now)
    }
}

/// How long the pages of an origin wait that has enough to do.
const BUSY: Duration = Duration::from_millis(100);
/// How long the first rest after a failure is; each further one is twice as long.
const REST_MIN: Duration = Duration::from_secs(1);
/// How long a rest is at most.
const REST_MAX: Duration = Duration::from_secs(60);
/// With so many origins those that rest no more are forgotten.
const ORIGINS_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rests_grow_until_a_refill_succeeds() {
        let mut rests = Rests::default();
        let mut now = 1000;
        for length in [1, 2, 4, 8, 16, 32, 60, 60] {
            let until = Time(now + length * 1000);
            assert_eq!(rests.failed(1, Time(now)), until);
            // What fails meanwhile makes it no longer.
            assert_eq!(rests.failed(1, Time(now + 10)), until);
            now += length * 1000;
            assert!(rests.resting(1, Time(now - 1)).is_some() && rests.resting(1, Time(now)).is_none());
            assert_eq!(rests.resting(2, Time(now - 1)), None);
        }
        rests.succeeded(1);
        assert_eq!(rests.failed(1, Time(now)), Time(now + 1000));
    }
}
