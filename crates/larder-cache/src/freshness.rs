//! How long a response is fresh, as nginx reads it from what the origin sent. `X-Accel-Expires` goes before
//! `Cache-Control`, and that before `Expires`, in whatever order they come (nginx 1.23 and later). nginx searches a
//! line of `Cache-Control` for words and does not parse directives, so `no-cache="set-cookie"` forbids storing. larder
//! does the same, because sites depend on it. If a field comes twice, the later line counts.

use std::time::Duration;

use larder_http::date::parse_date;
use larder_http::{Fields, Known, Time};

use crate::storable::{Ignore, personal};

/// What the fields of a response say about storing it, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OriginTtl {
    /// Not to be stored. The text names the field or directive that says so, for `$larder_cache_detail`.
    NotCacheable(&'static str),
    /// To be stored, until its time is over.
    Ttl {
        /// Until when it is fresh; may be in the past.
        fresh_until: Time,
        /// How long after that it may be served while it is refetched.
        stale_while_revalidate: Duration,
        /// How long after that it may be served instead of an error.
        stale_if_error: Duration,
    },
    /// The fields say nothing: `*_cache_valid` decides.
    Unset {
        /// As in `Ttl`.
        stale_while_revalidate: Duration,
        /// As in `Ttl`.
        stale_if_error: Duration,
    },
}

/// Reads `X-Accel-Expires`, `Cache-Control` and `Expires` of a response, except those in `ignore`.
pub fn origin_ttl(fields: &Fields, ignore: &Ignore, now: Time) -> OriginTtl {
    if let Some(reason) = personal(fields, ignore) {
        return OriginTtl::NotCacheable(reason);
    }
    let accel = match ignore.x_accel_expires {
        true => Accel::Silent,
        false => accel_expires(fields, now),
    };
    let mut said = Said::default();
    if !ignore.cache_control {
        for line in fields.all_known(Known::CacheControl) {
            said.read(line, now, accel == Accel::Silent);
        }
    }
    if let Some(reason) = said.broken {
        return OriginTtl::NotCacheable(reason);
    }
    let expires = match ignore.expires {
        true => None,
        false => fields.get_known(Known::Expires),
    };
    let fresh_until = match (accel, said.denied, said.fresh_until, expires) {
        (Accel::No, ..) => return OriginTtl::NotCacheable("X-Accel-Expires"),
        (Accel::Until(until), ..) => until,
        (Accel::Silent, Some(reason), ..) => return OriginTtl::NotCacheable(reason),
        (Accel::Silent, None, Some(until), _) => Some(until),
        (Accel::Silent, None, None, None) => None,
        (Accel::Silent, None, None, Some(date)) => match parse_date(date) {
            Some(secs) if secs >= now.secs() => Some(Time::from_secs(secs)),
            Some(_) | None => return OriginTtl::NotCacheable("Expires"),
        },
    };
    let stale_while_revalidate = Duration::from_secs(said.updating_secs);
    let stale_if_error = Duration::from_secs(said.error_secs);
    match fresh_until {
        Some(fresh_until) => OriginTtl::Ttl { fresh_until, stale_while_revalidate, stale_if_error },
        None => OriginTtl::Unset { stale_while_revalidate, stale_if_error },
    }
}

/// The meaning of `X-Accel-Expires`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accel {
    /// Absent or unreadable: the other fields decide.
    Silent,
    /// Not to be stored.
    No,
    /// Fresh until then, whatever the other fields say. `None` for `@0`: `*_cache_valid` decides.
    Until(Option<Time>),
}

/// Reads `X-Accel-Expires`.
pub fn accel_expires(fields: &Fields, now: Time) -> Accel {
    let mut said = Accel::Silent;
    for line in fields.all_known(Known::XAccelExpires) {
        said = match line.split_first() {
            Some((b'@', date)) => match number(date) {
                Some(0) => Accel::Until(None),
                Some(secs) => Accel::Until(Some(Time::from_secs(secs))),
                None => said,
            },
            Some(_) => match number(line) {
                Some(0) => return Accel::No,
                Some(secs) => Accel::Until(Some(after(now, secs))),
                None => said,
            },
            None => said,
        };
    }
    said
}

/// What all lines of `Cache-Control` say together.
#[derive(Debug, Default)]
struct Said {
    /// The directive whose number cannot be read; nginx then does not store the response.
    broken: Option<&'static str>,
    /// The directive that forbids storing, unless `X-Accel-Expires` allows it.
    denied: Option<&'static str>,
    fresh_until: Option<Time>,
    updating_secs: u64,
    error_secs: u64,
}

impl Said {
    /// Reads one line. `age_counts` is false if `X-Accel-Expires` has decided about storing and age.
    fn read(&mut self, line: &[u8], now: Time, age_counts: bool) {
        if age_counts && !self.read_age(line, now) {
            return;
        }
        match seconds_after(line, b"stale-while-revalidate=") {
            Seconds::Absent => {}
            Seconds::Of(secs) => {
                self.updating_secs = secs;
                self.error_secs = secs;
            }
            Seconds::Broken => {
                self.broken = Some("Cache-Control: stale-while-revalidate");
                return;
            }
        }
        match seconds_after(line, b"stale-if-error=") {
            Seconds::Absent => {}
            Seconds::Of(secs) => self.error_secs = secs,
            Seconds::Broken => self.broken = Some("Cache-Control: stale-if-error"),
        }
    }

    /// Reads what a line says about storing and age. False if the rest of the line does not matter.
    fn read_age(&mut self, line: &[u8], now: Time) -> bool {
        for (word, reason) in [
            (&b"no-cache"[..], "Cache-Control: no-cache"),
            (b"no-store", "Cache-Control: no-store"),
            (b"private", "Cache-Control: private"),
        ] {
            if find(line, word).is_some() {
                self.denied = Some(reason);
                return false;
            }
        }
        let age = match seconds_after(line, b"s-maxage=") {
            Seconds::Absent => seconds_after(line, b"max-age="),
            found => found,
        };
        match age {
            Seconds::Absent => true,
            Seconds::Broken => {
                self.broken = Some("Cache-Control: max-age");
                false
            }
            Seconds::Of(0) => {
                self.denied = Some("Cache-Control: max-age=0");
                false
            }
            Seconds::Of(secs) => {
                self.fresh_until = Some(after(now, secs));
                true
            }
        }
    }
}

/// A number of seconds in a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seconds {
    Absent,
    Of(u64),
    Broken,
}

/// The digits after the first `word` in `line`, up to a comma, semicolon, space or the end. No digits mean zero.
fn seconds_after(line: &[u8], word: &[u8]) -> Seconds {
    let Some(at) = find(line, word) else {
        return Seconds::Absent;
    };
    let rest = line.get(at + word.len()..).unwrap_or_default();
    let digits = rest.split(|byte| matches!(byte, b',' | b';' | b' ')).next().unwrap_or_default();
    match digits {
        [] => Seconds::Of(0),
        _ => number(digits).map_or(Seconds::Broken, Seconds::Of),
    }
}

/// Decimal digits and nothing else, at most [`SECS_MAX`].
fn number(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0_u64, |sum, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        Some((sum.saturating_mul(10).saturating_add(digit)).min(SECS_MAX))
    })
}

/// Where `word` is in `line`, ignoring case.
fn find(line: &[u8], word: &[u8]) -> Option<usize> {
    line.windows(word.len()).position(|part| part.eq_ignore_ascii_case(word))
}

fn after(now: Time, secs: u64) -> Time {
    now.plus(Duration::from_secs(secs))
}

/// The longest time in seconds: as good as for ever, and in milliseconds it still fits a `u64`.
const SECS_MAX: u64 = 1 << 50;

#[cfg(test)]
mod tests {
    use super::*;

    /// A quarter to nine on a Sunday in 1994.
    const NOW: u64 = 784_111_777;

    #[derive(Debug, PartialEq)]
    enum Is {
        No(&'static str),
        For(i64),
        Unset,
    }
    use Is::{For, No, Unset};

    fn fields(lines: &str) -> Fields {
        let mut fields = Fields::new();
        for line in lines.lines() {
            let (name, value) = line.split_once(": ").unwrap_or((line, ""));
            fields.push(name.trim().as_bytes(), value.as_bytes());
        }
        fields
    }

    fn read(lines: &str, ignore: &Ignore) -> (Is, u64, u64) {
        match origin_ttl(&fields(lines), ignore, Time::from_secs(NOW)) {
            OriginTtl::NotCacheable(reason) => (No(reason), 0, 0),
            OriginTtl::Ttl { fresh_until, stale_while_revalidate, stale_if_error } => {
                let ttl = fresh_until.secs() as i64 - NOW as i64;
                (For(ttl), stale_while_revalidate.as_secs(), stale_if_error.as_secs())
            }
            OriginTtl::Unset { stale_while_revalidate, stale_if_error } => {
                (Unset, stale_while_revalidate.as_secs(), stale_if_error.as_secs())
            }
        }
    }

    #[test]
    fn the_strongest_field_decides_in_whatever_order() {
        let cc_no = |word| No(word);
        for (lines, is) in [
            ("", Unset),
            ("Content-Type: text/html", Unset),
            // X-Accel-Expires
            ("X-Accel-Expires: 60", For(60)),
            ("X-Accel-Expires: 0", No("X-Accel-Expires")),
            ("X-Accel-Expires: off", Unset),
            ("X-Accel-Expires: -1", Unset),
            ("X-Accel-Expires: ", Unset),
            ("X-Accel-Expires: @784111877", For(100)),
            ("X-Accel-Expires: @784111677", For(-100)),
            ("X-Accel-Expires: @0", Unset),
            ("X-Accel-Expires: @soon", Unset),
            ("X-Accel-Expires: 60\nCache-Control: no-store", For(60)),
            ("Cache-Control: private\nX-Accel-Expires: 60", For(60)),
            ("Cache-Control: max-age=5\nX-Accel-Expires: 60", For(60)),
            ("Expires: 0\nX-Accel-Expires: 60", For(60)),
            ("X-Accel-Expires: 0\nCache-Control: max-age=60", No("X-Accel-Expires")),
            ("X-Accel-Expires: off\nCache-Control: max-age=60", For(60)),
            // Cache-Control
            ("Cache-Control: max-age=60", For(60)),
            ("cache-control: PUBLIC, MAX-AGE=60", For(60)),
            ("Cache-Control: max-age=60;s-maxage=7", For(7)),
            ("Cache-Control: s-maxage=7, max-age=60", For(7)),
            ("Cache-Control: s-maxage=0, max-age=60", cc_no("Cache-Control: max-age=0")),
            ("Cache-Control: max-age=0", cc_no("Cache-Control: max-age=0")),
            ("Cache-Control: max-age=", cc_no("Cache-Control: max-age=0")),
            ("Cache-Control: max-age=\"60\"", cc_no("Cache-Control: max-age")),
            ("Cache-Control: max-age=-1", cc_no("Cache-Control: max-age")),
            ("Cache-Control: max-age=1x", cc_no("Cache-Control: max-age")),
            ("Cache-Control: public", Unset),
            ("Cache-Control: ", Unset),
            ("Cache-Control: no-cache", cc_no("Cache-Control: no-cache")),
            ("Cache-Control: No-Store, max-age=60", cc_no("Cache-Control: no-store")),
            ("Cache-Control: max-age=60, private", cc_no("Cache-Control: private")),
            ("Cache-Control: private=\"x\", max-age=60", cc_no("Cache-Control: private")),
            ("Cache-Control: max-age=60\nCache-Control: private", cc_no("Cache-Control: private")),
            ("Cache-Control: private\nCache-Control: max-age=60", cc_no("Cache-Control: private")),
            ("Cache-Control: public\nCache-Control: max-age=60", For(60)),
            ("Cache-Control: max-age=5\nCache-Control: max-age=60", For(60)),
            // Expires
            ("Expires: Sun, 06 Nov 1994 08:50:37 GMT", For(60)),
            ("Expires: Sun, 06 Nov 1994 08:49:37 GMT", For(0)),
            ("Expires: Sun, 06 Nov 1994 08:49:36 GMT", No("Expires")),
            ("Expires: 0", No("Expires")),
            ("Expires: ", No("Expires")),
            ("Expires: 0\nCache-Control: max-age=60", For(60)),
            ("Cache-Control: public\nExpires: 0", No("Expires")),
            ("Cache-Control: no-cache\nExpires: Sun, 06 Nov 1994 08:50:37 GMT", cc_no("Cache-Control: no-cache")),
            // personal
            ("Set-Cookie: a=1\nX-Accel-Expires: 60", No("Set-Cookie")),
            ("Vary: *\nX-Accel-Expires: 60", No("Vary: *")),
            ("Vary: Accept\nX-Accel-Expires: 60", For(60)),
            ("Pragma: no-cache", Unset),
        ] {
            assert_eq!(read(lines, &Ignore::default()).0, is, "{lines}");
        }
    }

    #[test]
    fn stale_use_comes_from_cache_control_alone() {
        for (lines, expected) in [
            ("Cache-Control: max-age=60, stale-while-revalidate=5", (For(60), 5, 5)),
            ("Cache-Control: stale-while-revalidate=5, stale-if-error=9, max-age=60", (For(60), 5, 9)),
            ("Cache-Control: stale-if-error=9", (Unset, 0, 9)),
            ("X-Accel-Expires: 60\nCache-Control: no-cache, stale-if-error=9", (For(60), 0, 9)),
            ("Cache-Control: max-age=60, stale-if-error=x", (No("Cache-Control: stale-if-error"), 0, 0)),
            (
                "Cache-Control: max-age=60, stale-while-revalidate=x",
                (No("Cache-Control: stale-while-revalidate"), 0, 0),
            ),
        ] {
            assert_eq!(read(lines, &Ignore::default()), expected, "{lines}");
        }
    }

    #[test]
    fn an_ignored_field_says_nothing() {
        let all = Ignore { x_accel_expires: true, expires: true, cache_control: true, set_cookie: true, vary: true };
        for line in [
            "X-Accel-Expires: 0",
            "X-Accel-Expires: 60",
            "Cache-Control: private",
            "Cache-Control: max-age=x",
            "Expires: 0",
            "Set-Cookie: a=1",
            "Vary: *",
        ] {
            assert_eq!(read(line, &all), (Unset, 0, 0), "{line}");
        }
        let lines = "X-Accel-Expires: 60\nCache-Control: max-age=50\nExpires: Sun, 06 Nov 1994 08:50:17 GMT";
        let one = Ignore { x_accel_expires: true, ..Ignore::default() };
        assert_eq!(read(lines, &one).0, For(50));
        let two = Ignore { cache_control: true, ..one };
        assert_eq!(read(lines, &two).0, For(40));
    }

    #[test]
    fn no_number_is_too_big() {
        let digits = "9".repeat(40);
        for line in ["X-Accel-Expires: ", "X-Accel-Expires: @", "Cache-Control: max-age="] {
            let (is, ..) = read(&format!("{line}{digits}"), &Ignore::default());
            assert!(matches!(is, For(secs) if secs > 1 << 40), "{line}: {is:?}");
        }
    }
}
