//! Dates in texts: what `std.time("...")` reads.

use larder_http::parse_date;

use super::numbers;

/// Seconds since 1970 of a date in one of HTTP's three forms (RFC 9110 §5.6.7), of `1994-11-06T08:49:37` in UTC, or of
/// a number above 0.
pub fn time(text: &[u8]) -> Option<f64> {
    date(text).map(|secs| secs as f64).or_else(|| numbers::real(text).filter(|secs| *secs > 0.0))
}

/// The same, but for numbers.
pub fn date(text: &[u8]) -> Option<u64> {
    iso(text).or_else(|| parse_date(text.trim_ascii()))
}

/// ISO 8601 without a zone, by way of HTTP's form.
fn iso(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text.trim_ascii()).ok()?;
    let (date, time) = text.split_once('T')?;
    let (year, month_day) = date.split_once('-')?;
    let (month, day) = month_day.split_once('-')?;
    let number = |text: &str, len: usize| -> Option<u64> {
        (text.len() == len && text.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse().ok()).flatten()
    };
    let (year, month, day) = (number(year, 4)?, number(month, 2)?, number(day, 2)?);
    let mut parts = time.split(':').map(|part| number(part, 2));
    let (hour, minute, second) = (parts.next()??, parts.next()??, parts.next()??);
    let is_clock = hour < 24 && minute < 60 && second <= 60 && parts.next().is_none();
    let days = days_since_1970(year, month, day).filter(|_| is_clock)?;
    // A leap second is the one before it.
    Some(days * 86_400 + hour * 3600 + minute * 60 + second.min(59))
}

/// The days from 1970-01-01 to a date of the Gregorian calendar; `None` before that, and for a day that there is not.
fn days_since_1970(year: u64, month: u64, day: u64) -> Option<u64> {
    let is_leap = |year: u64| year.is_multiple_of(4) && !year.is_multiple_of(100) || year.is_multiple_of(400);
    let lengths = [31, if is_leap(year) { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let month = usize::try_from(month).ok()?.checked_sub(1)?;
    if year < 1970 || !(1..=*lengths.get(month)?).contains(&day) {
        return None;
    }
    let leap_days = |year: u64| year / 4 - year / 100 + year / 400;
    let years = (year - 1970) * 365 + leap_days(year - 1) - leap_days(1969);
    Some(years + lengths[..month].iter().sum::<u64>() + day - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_come_in_many_forms() {
        for (text, secs) in [
            ("Sun, 06 Nov 1994 08:49:37 GMT", Some(784_111_777.0)),
            ("Sunday, 06-Nov-94 08:49:37 GMT", Some(784_111_777.0)),
            ("Sun Nov  6 08:49:37 1994", Some(784_111_777.0)),
            ("1994-11-06T08:49:37", Some(784_111_777.0)),
            ("1970-01-01T00:00:00", Some(0.0)),
            ("2000-02-29T23:59:60", Some(951_868_799.0)),
            ("2100-03-01T00:00:00", Some(4_107_542_400.0)),
            ("784111777.5", Some(784_111_777.5)),
            ("784111777", Some(784_111_777.0)),
            ("0", None),
            ("-1", None),
            ("2001-02-29T00:00:00", None),
            ("2001-13-01T00:00:00", None),
            ("2001-00-01T00:00:00", None),
            ("2001-01-01T24:00:00", None),
            ("2001-1-01T00:00:00", None),
            ("2001-01-01T00:00", None),
            ("2001-01-01T00:00:00:00", None),
            ("2001-01-01 00:00:00", None),
            ("soon", None),
            ("", None),
        ] {
            assert_eq!(time(text.as_bytes()), secs, "{text:?}");
        }
    }
}
