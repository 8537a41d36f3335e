//! How old a response is: RFC 9111 §4.2.3.

use std::time::Duration;

use larder_http::date::parse_date;
use larder_http::{Fields, Known, Time};

/// When a response was asked for and when it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fetched {
    /// When the request was sent.
    pub requested_at: Time,
    /// When the head of the response came.
    pub received_at: Time,
}

/// The age of a response with these fields at `now`, by what its origin and the way here say of it.
///
/// An `Age` that cannot be read counts as none (§5.1), a `Date` that is absent or cannot be read as the
/// time of receipt (RFC 9110 §6.6.1).
pub fn current_age(fields: &Fields, fetched: Fetched, now: Time) -> Duration {
    let Fetched { requested_at, received_at } = fetched;
    let date = fields.get_known(Known::Date).and_then(parse_date).map_or(received_at, Time::from_secs);
    let apparent_age = received_at.since(date);
    let response_delay = received_at.since(requested_at);
    let corrected_age = age_value(fields).saturating_add(response_delay);
    let resident = now.since(received_at);
    apparent_age.max(corrected_age).saturating_add(resident)
}

/// The first `Age`, if it is a number; at most 2^31, which stands for more (§1.2.2).
fn age_value(fields: &Fields) -> Duration {
    let value = fields.get_known(Known::Age).and_then(|value| {
        let first = value.split(|&b| b == b',').next()?.trim_ascii();
        delta_seconds(first)
    });
    Duration::from_secs(value.unwrap_or(0))
}

/// Digits only; what is too big is 2^31.
fn delta_seconds(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0_u64, |sum, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        Some((sum * 10 + digit).min(DELTA_MAX))
    })
}

/// What a number of seconds counts as that is too big.
const DELTA_MAX: u64 = 1 << 31;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_age_is_what_the_greater_of_two_clocks_says_and_the_time_here() {
        // 1994-11-06 08:49:37 is 784111777.
        let base = 784_111_777;
        let date = "Sun, 06 Nov 1994 08:49:37 GMT";
        for (date, age, requested, received, now, expected) in [
            (date, "", 0, 0, 0, 0),
            (date, "", 0, 0, 10, 10),
            (date, "", 0, 2, 10, 10),
            (date, "30", 0, 0, 5, 35),
            (date, "30", 0, 3, 5, 35),
            (date, "1", 58, 60, 60, 60),
            (date, "100, 3", 0, 0, 0, 100),
            (date, "-4", 0, 0, 1, 1),
            (date, "4 s", 0, 0, 1, 1),
            (date, "99999999999999999999", 0, 0, 0, 1 << 31),
            ("", "", 7, 9, 12, 5),
            ("soon", "", 7, 9, 12, 5),
            (date, "", 5, 5, 0, 5),
        ] {
            let mut fields = Fields::new();
            if !date.is_empty() {
                fields.push(b"Date", date.as_bytes());
            }
            if !age.is_empty() {
                fields.push(b"Age", age.as_bytes());
            }
            let fetched = Fetched {
                requested_at: Time::from_secs(base + requested),
                received_at: Time::from_secs(base + received),
            };
            let now = Time::from_secs(base + now);
            assert_eq!(
                current_age(&fields, fetched, now),
                Duration::from_secs(expected),
                "Date {date:?} Age {age:?} {requested} {received} {now:?}"
            );
        }
    }
}
