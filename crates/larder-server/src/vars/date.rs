//! `$date_local` and `$date_gmt`, in the format of `config timefmt`: C's strftime(3).

use jiff::fmt::strtime::{BrokenDownTime, Config};
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use larder_http::Time;

/// The format of a page that sets none.
pub const DEFAULT_FORMAT: &str = "%A, %d-%b-%Y %H:%M:%S %Z";
/// As in nginx, a longer date is empty.
const DATE_BYTES_MAX: usize = 2048;

/// The time zone of a date.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// That of this machine.
    Local,
    /// GMT.
    Gmt,
}

/// The time `now` in `format`; `None` if the result is empty or too long.
pub fn date(now: Time, place: Place, format: &str) -> Option<String> {
    let secs = i64::try_from(now.secs()).unwrap_or(i64::MAX);
    let stamp = Timestamp::from_second(secs).unwrap_or(Timestamp::MAX);
    let zone = match place {
        Place::Local => TimeZone::system(),
        Place::Gmt => TimeZone::UTC,
    };
    let zoned = Zoned::new(stamp, zone);
    let config = Config::new().lenient(true);
    let date = BrokenDownTime::from(&zoned).to_string_with_config(&config, spelled_out(format, place)).ok()?;
    Some(date).filter(|date| !date.is_empty() && date.len() < DATE_BYTES_MAX)
}

/// The format with locale-dependent parts as in the C locale, and with the zone name that C libraries give to GMT.
fn spelled_out(format: &str, place: Place) -> String {
    let mut out = String::with_capacity(format.len());
    let mut chars = format.chars();
    while let Some(char) = chars.next() {
        if char != '%' {
            out.push(char);
            continue;
        }
        match chars.next() {
            Some('c') => out.push_str("%a %b %e %H:%M:%S %Y"),
            Some('x') => out.push_str("%m/%d/%y"),
            Some('X') => out.push_str("%H:%M:%S"),
            Some('r') => out.push_str("%I:%M:%S %p"),
            Some('Z') if place == Place::Gmt => out.push_str("GMT"),
            Some(other) => out.extend(['%', other]),
            None => out.push_str("%%"),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_date_has_the_form_that_is_asked_for() {
        let now = Time::from_secs(1_000_000_000);
        for (format, date_of) in [
            (DEFAULT_FORMAT, "Sunday, 09-Sep-2001 01:46:40 GMT"),
            ("%s", "1000000000"),
            ("%c", "Sun Sep  9 01:46:40 2001"),
            ("%x %X %r", "09/09/01 01:46:40 01:46:40 AM"),
            ("%D %e %j %y %z", "09/09/01  9 252 01 +0000"),
            ("100%%", "100%"),
            ("as it is", "as it is"),
        ] {
            assert_eq!(date(now, Place::Gmt, format).as_deref(), Some(date_of), "{format}");
        }
        assert_eq!(date(now, Place::Gmt, ""), None);
    }
}
