//! When to renew, and when to try again. Arithmetic only: time and chance come in as arguments.

use crate::certificate::Validity;
use std::hash::BuildHasher;
use std::time::{Duration, SystemTime};

/// How long to wait for what. The default is what CAs ask for; tests are in more of a hurry.
#[derive(Debug, Clone)]
pub struct Timing {
    /// The wait after the first failure; it doubles with each further one.
    pub retry_first: Duration,
    /// The longest wait after a failure, unless the CA asks for more.
    pub retry_last: Duration,
    /// How often the clock is looked at while waiting, since it may be set meanwhile; and with a valid certificate, what
    /// other hosts have.
    pub look_every: Duration,
    /// Within this time after the start the CA is first asked when it wants a certificate to be renewed.
    pub first_ask_within: Duration,
    /// How often it is asked again when it does not say.
    pub ask_every: Duration,
    /// How often it is looked whether another host has got a certificate that it orders; five times as long while this one
    /// waits after a failure and has no valid one.
    pub peers_every: Duration,
    /// How often the right to order is kept.
    pub keep_every: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            retry_first: Duration::from_secs(60),
            retry_last: 12 * HOUR,
            look_every: Duration::from_secs(60),
            first_ask_within: HOUR,
            ask_every: 6 * HOUR,
            peers_every: Duration::from_secs(1),
            keep_every: Duration::from_secs(10),
        }
    }
}

/// The wait after the `failures`th failure in a row: `first`, doubling, at most `last`, and up to a quarter more than
/// that by chance, so that hosts which failed together do not come back together.
pub(crate) fn backoff(failures: u32, first: Duration, last: Duration, chance: f64) -> Duration {
    let doublings = failures.saturating_sub(1).min(31);
    let doubled = first.saturating_mul(1 << doublings).min(last.mul_f64(1.0 / 1.25));
    doubled.max(first).mul_f64(1.0 + chance / 4.0).min(last.max(first))
}

/// How long the CA's `Retry-After` is obeyed: a week is the longest window of Let's Encrypt's limits.
pub(crate) fn obeyed(retry_after: Duration) -> Duration {
    retry_after.min(7 * 24 * HOUR)
}

/// When to renew if the CA has no opinion: at two thirds of the lifetime, up to a thirtieth earlier by chance.
pub(crate) fn renew_at(validity: Validity, chance: f64) -> SystemTime {
    validity.not_before + validity.lifetime().mul_f64(2.0 / 3.0 - chance / 30.0)
}

/// When to order though nobody knows whether another host does, if there is a certificate: with a sixth of its lifetime
/// left, up to a thirtieth earlier by chance.
pub(crate) fn alone_at(validity: Validity, chance: f64) -> SystemTime {
    validity.not_before + validity.lifetime().mul_f64(5.0 / 6.0 - chance / 30.0)
}

/// How long to wait with that if there is none: by chance, so that hosts do not come together.
pub(crate) fn alone_after(first: Duration, chance: f64) -> Duration {
    first.mul_f64(1.0 + 2.0 * chance)
}

/// When to renew if the CA suggests a window (RFC 9773 §4.2): anywhere in it, but not so late that a failure could not
/// be made good.
pub(crate) fn renew_in(window: Window, validity: Validity, chance: f64) -> SystemTime {
    let length = window.end.duration_since(window.start).unwrap_or_default();
    let latest = validity.not_after.checked_sub(validity.lifetime() / 10).unwrap_or(validity.not_before);
    (window.start + length.mul_f64(chance)).min(latest)
}

/// When the CA would like a certificate to be renewed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) start: SystemTime,
    pub(crate) end: SystemTime,
}

impl Window {
    /// From seconds since 1970; what is before that, or beyond what the system counts, is no window.
    pub(crate) fn of_timestamps(start: i64, end: i64) -> Option<Self> {
        let time = |seconds: i64| SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds.try_into().ok()?));
        let window = Self { start: time(start)?, end: time(end)? };
        (window.start <= window.end).then_some(window)
    }
}

/// When to ask the CA again for its window (RFC 9773 §4.3.2).
pub(crate) fn ask_again_after(retry_after: Duration) -> Duration {
    retry_after.clamp(Duration::from_secs(60), 24 * HOUR)
}

/// How long a certificate is kept at least before the CA's wish for its renewal is followed: a CA that always says
/// "now" must not get an order a minute.
pub(crate) fn kept_at_least(validity: Validity) -> Duration {
    (validity.lifetime() / 10).min(24 * HOUR)
}

/// A number from 0 up to but not including 1, for spreading load; not for secrets.
pub(crate) fn chance() -> f64 {
    let word = std::hash::RandomState::new().hash_one(0u8);
    (word >> 11) as f64 / (1u64 << 53) as f64
}

/// `duration` as people say it, in one unit.
pub(crate) fn said(duration: Duration) -> String {
    match duration.as_secs() {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds @ 120..7200 => format!("{} min", (seconds + 30) / 60),
        seconds @ 7200..172_800 => format!("{} h", (seconds + 1800) / 3600),
        seconds => format!("{} days", (seconds + 43_200) / 86_400),
    }
}

const HOUR: Duration = Duration::from_secs(3600);

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);
    const DAY: Duration = Duration::from_secs(24 * 3600);

    fn day(n: u32) -> SystemTime {
        SystemTime::UNIX_EPOCH + n * DAY
    }

    #[test]
    fn waits_double_up_to_the_last() {
        for (failures, chance, minutes) in [
            (0, 0.0, 1.0),
            (1, 0.0, 1.0),
            (1, 0.999_999, 1.25),
            (2, 0.0, 2.0),
            (5, 0.5, 18.0),
            (10, 0.0, 512.0),
            (11, 0.0, 576.0),
            (11, 0.999_999, 720.0),
            (u32::MAX, 0.0, 576.0),
            (u32::MAX, 0.999_999, 720.0),
        ] {
            let wait = backoff(failures, MINUTE, 12 * HOUR, chance).as_secs_f64() / 60.0;
            assert!((wait - minutes).abs() < 0.01, "{failures} {chance}: {wait} is not {minutes}");
        }
        assert_eq!(backoff(3, HOUR, MINUTE, 0.9), HOUR);
        assert_eq!(backoff(u32::MAX, Duration::MAX / 2, Duration::MAX / 2, 0.5), Duration::MAX / 2);
    }

    #[test]
    fn a_certificate_is_renewed_at_two_thirds_of_its_lifetime() {
        for (not_after, chance, hours) in [(90, 0.0, 60 * 24), (90, 1.0, 57 * 24), (6, 0.0, 4 * 24), (0, 0.5, 0)] {
            let validity = Validity { not_before: day(1000), not_after: day(1000 + not_after) };
            let after = renew_at(validity, chance).duration_since(day(1000)).expect("it is later");
            assert!(after.abs_diff(hours * HOUR) < MINUTE, "{not_after} {chance}: {after:?}");
        }
        let backwards = Validity { not_before: day(1000), not_after: day(10) };
        assert_eq!(renew_at(backwards, 0.5), day(1000));
    }

    #[test]
    fn a_host_that_knows_nothing_of_the_others_orders_later_than_it_would_with_them() {
        let validity = Validity { not_before: day(1000), not_after: day(1090) };
        for (chance, after) in [(0.0, 75), (1.0, 72)] {
            let alone = alone_at(validity, chance).duration_since(day(1000)).expect("it is later");
            assert!(alone.abs_diff(after * DAY) < MINUTE, "{chance}: {alone:?}");
            assert!(alone_at(validity, chance) > renew_at(validity, 0.0));
        }
        assert_eq!((alone_after(MINUTE, 0.0), alone_after(MINUTE, 1.0)), (MINUTE, 3 * MINUTE));
    }

    #[test]
    fn a_window_of_the_ca_is_followed_but_not_past_the_end() {
        let validity = Validity { not_before: day(1000), not_after: day(1090) };
        for (start, end, chance, expected) in [
            (1060, 1062, 0.0, day(1060)),
            (1060, 1062, 0.5, day(1061)),
            (900, 901, 0.5, day(900) + DAY / 2),
            (2000, 2001, 0.5, day(1081)),
        ] {
            let window = Window { start: day(start), end: day(end) };
            assert_eq!(renew_in(window, validity, chance), expected, "{start} {end} {chance}");
        }
        assert_eq!(Window::of_timestamps(10, 5), None);
        assert_eq!(Window::of_timestamps(-10, 5), None);
        assert!(Window::of_timestamps(5, i64::MAX).is_none_or(|window| window.end > window.start));
    }

    #[test]
    fn what_a_ca_asks_for_is_bounded() {
        assert_eq!(obeyed(Duration::from_secs(u64::MAX)), 7 * DAY);
        assert_eq!(obeyed(36 * HOUR), 36 * HOUR);
        assert_eq!(ask_again_after(Duration::ZERO), MINUTE);
        assert_eq!(ask_again_after(100 * DAY), DAY);
        assert_eq!(kept_at_least(Validity { not_before: day(0), not_after: day(90) }), DAY);
        assert_eq!(kept_at_least(Validity { not_before: day(0), not_after: day(5) }), DAY / 2);
    }

    #[test]
    fn chance_is_spread_over_the_unit() {
        let drawn: Vec<f64> = (0..1000).map(|_| chance()).collect();
        assert!(drawn.iter().all(|chance| (0.0..1.0).contains(chance)));
        let mean = drawn.iter().sum::<f64>() / 1000.0;
        assert!((0.4..0.6).contains(&mean), "{mean}");
    }

    #[test]
    fn durations_are_said_in_one_unit() {
        for (seconds, text) in [(0, "0 s"), (119, "119 s"), (120, "2 min"), (7200, "2 h"), (172_800, "2 days")] {
            assert_eq!(said(Duration::from_secs(seconds)), text);
        }
    }
}
