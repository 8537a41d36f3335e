//! Dates in texts: what `std.time("...")` reads and `std.strftime()` writes.

use std::borrow::Cow;
use std::fmt::Write as _;

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{Timestamp, fmt::strtime};
use larder_http::{format_date, parse_date};

use super::numbers;

/// Seconds since 1970 of a date in one of HTTP's three forms (RFC 9110 §5.6.7), of `1994-11-06T08:49:37` in UTC, or of
/// a number above 0. As in Varnish, the second with which 1970 begins is none.
pub fn time(text: &[u8]) -> Option<f64> {
    date(text).map(|secs| secs as f64).or_else(|| numbers::real(text).filter(|secs| *secs > 0.0))
}

/// The same, but for numbers.
pub fn date(text: &[u8]) -> Option<i64> {
    let text = without_leap_second(text.trim_ascii());
    let text = &text[..];
    let secs = iso(text).or_else(|| parse_date(text).and_then(|secs| i64::try_from(secs).ok()))?;
    (secs != 0 && names_its_day(text, secs)).then_some(secs)
}

/// A date whose second 60 is the second 59, as in Varnish.
fn without_leap_second(text: &[u8]) -> Cow<'_, [u8]> {
    let is_leap = |time: &[u8]| time[0] == b':' && time[3] == b':' && &time[4..] == b"60";
    let Some(at) = text.windows(6).position(is_leap) else { return Cow::Borrowed(text) };
    Cow::Owned([&text[..at + 4], b"59", &text[at + 6..]].concat())
}

/// A TIME in HTTP's form, as Varnish writes it; `None` behind the year 9999.
pub fn http(seconds: f64) -> Option<String> {
    // The last second of the year 9999: behind that, HTTP has no dates.
    const LAST: f64 = 253_402_300_799.0;
    match seconds.trunc() {
        seconds if (0.0..=LAST).contains(&seconds) => {
            Some(format_date(seconds as u64).iter().map(|byte| char::from(*byte)).collect())
        }
        seconds if seconds.abs() <= LAST => formatted(seconds as i64, "%a, %d %b %Y %H:%M:%S GMT"),
        _ => None,
    }
}

/// ISO 8601 without a zone.
fn iso(text: &[u8]) -> Option<i64> {
    const FORM: &[u8] = b"0000-00-00T00:00:00";
    let fits = |(byte, form): (&u8, &u8)| if *form == b'0' { byte.is_ascii_digit() } else { byte == form };
    if text.len() != FORM.len() || !text.iter().zip(FORM).all(fits) {
        return None;
    }
    let time: DateTime = std::str::from_utf8(text).ok()?.parse().ok()?;
    Some(time.to_zoned(TimeZone::UTC).ok()?.timestamp().as_second())
}

/// Whether a date that begins with a day of the week begins with the right one, and in the usual form has the right
/// letters.
fn names_its_day(text: &[u8], secs: i64) -> bool {
    let is_ended = !text.contains(&b',') || text.ends_with(b" GMT");
    // Only numbers name times before 1970.
    text.first().is_none_or(u8::is_ascii_digit)
        || is_ended
            && u64::try_from(secs).is_ok_and(|secs| {
                let date = format_date(secs);
                // The usual form is that to the letter.
                if text.len() == date.len() { text == date } else { text.starts_with(&date[..3]) }
            })
}

/// A time in seconds since 1970, in UTC, in a format of jiff's `strtime`. `None` for a time or a format that cannot be.
pub fn formatted(secs: i64, format: &str) -> Option<String> {
    let time = Timestamp::from_second(secs).ok()?.to_zoned(TimeZone::UTC);
    strtime::format(format, &time).ok()
}

/// A format of strftime(3) in the C locale, as jiff's `strtime` understands it: what there is no conversion for stands for
/// itself.
pub fn plain_format(format: &str) -> String {
    const KNOWN: &str = "aAbBCdDeFGgHIjklmMnpRsStTuUVwWyYz";
    let mut plain = String::new();
    let mut rest = format;
    while let Some((before, behind)) = rest.split_once('%') {
        plain.push_str(before);
        // Other forms of numbers and eras, which the C locale does not have.
        let conversion = behind.strip_prefix(['E', 'O']).filter(|rest| !rest.is_empty()).unwrap_or(behind);
        let Some(letter) = conversion.chars().next() else {
            plain.push_str("%%");
            return plain;
        };
        rest = &conversion[letter.len_utf8()..];
        match letter {
            'c' => plain.push_str("%a %b %e %H:%M:%S %Y"),
            'x' => plain.push_str("%m/%d/%y"),
            'X' => plain.push_str("%H:%M:%S"),
            'r' => plain.push_str("%I:%M:%S %p"),
            'h' => plain.push_str("%b"),
            'Z' => plain.push_str("GMT"),
            '%' => plain.push_str("%%"),
            known if KNOWN.contains(known) => {
                let _ = write!(plain, "%{known}");
            }
            other => {
                let _ = write!(plain, "%%{other}");
            }
        }
    }
    plain + rest
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
            ("Mon, 06 Nov 1994 08:49:37 GMT", None),
            ("Sun, 06 Nov 1994 08:49:60 GMT", Some(784_111_799.0)),
            ("Sun, 06 Nov 1994 08:60:00 GMT", None),
            ("Sun, 06 Nov 1994 08:49:37 GMT x", None),
            ("Sunx 06 Nov 1994 08:49:37 GMT", None),
            ("1994-11-06T08:49:37", Some(784_111_777.0)),
            ("1960-01-01T00:00:00", Some(-315_619_200.0)),
            ("1970-01-01T00:00:00", None),
            ("Thu, 01 Jan 1970 00:00:00 GMT", None),
            ("2000-02-29T23:59:60", Some(951_868_799.0)),
            ("2100-03-01T00:00:00", Some(4_107_542_400.0)),
            ("784111777.5", Some(784_111_777.5)),
            ("784111777", Some(784_111_777.0)),
            ("0", None),
            ("-1", None),
            ("2001-02-29T00:00:00", None),
            ("2001-13-01T00:00:00", None),
            ("2001-01-01T24:00:00", None),
            ("2001-1-01T00:00:00", None),
            ("2001-01-01T00:00", None),
            ("2001-01-01T00:00:00Z", None),
            ("2001-01-01 00:00:00", None),
            ("soon", None),
            ("", None),
        ] {
            assert_eq!(time(text.as_bytes()), secs, "{text:?}");
        }
    }

    #[test]
    fn formats_are_those_of_the_c_library() {
        for (format, expected) in [
            ("%Y%m%dT%H%M%SZ", "19941106T084937Z"),
            ("%a, %d %b %Y %T %Z", "Sun, 06 Nov 1994 08:49:37 GMT"),
            ("%c", "Sun Nov  6 08:49:37 1994"),
            ("%x %X", "11/06/94 08:49:37"),
            ("%r", "08:49:37 AM"),
            ("%OH %Ey", "08 94"),
            ("100% %%", "100% %"),
            ("100%", "100%"),
            ("%Q%q", "%Q%q"),
            ("%j %u %h", "310 7 Nov"),
            ("", ""),
        ] {
            assert_eq!(formatted(784_111_777, &plain_format(format)).as_deref(), Some(expected), "{format}");
        }
        assert_eq!(formatted(i64::MAX, "%Y"), None);
    }
}
