//! How long an answer is fresh, how long after that it may be delivered stale, and how long it stays to be revalidated:
//! what Varnish sets before `vcl_backend_response` (`RFC2616_Ttl`), and what `std.rfc_ttl()` sets again.

use larder_http::{Fields, Known};

use crate::functions::dates;

/// What holds where an answer says nothing, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Defaults {
    /// The parameter `default_ttl`.
    pub ttl: f64,
    /// The parameter `default_grace`.
    pub grace: f64,
    /// The parameter `default_keep`.
    pub keep: f64,
    /// The parameter `clock_skew`: how far an origin's clock may be off for its `Expires` to be believed.
    pub clock_skew: f64,
}

/// The times of an answer, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lifetime {
    /// When the origin made it, since 1970: now, less what `Age` says.
    pub origin: f64,
    /// `beresp.ttl`; below 0 for an answer that is not stored.
    pub ttl: f64,
    /// `beresp.grace`
    pub grace: f64,
    /// `beresp.keep`
    pub keep: f64,
}

/// The times of an answer that has arrived at `now`. One to a request that was passed has none.
pub fn lifetime(status: u16, fields: &Fields, is_passed: bool, defaults: &Defaults, now: f64) -> Lifetime {
    let age = fields.get_known(Known::Age).map_or(0.0, seconds);
    let origin = now - age;
    if is_passed {
        return Lifetime { origin, ttl: -1.0, grace: 0.0, keep: 0.0 };
    }
    let ttl = match status {
        200 | 203 | 204 | 300 | 301 | 304 | 404 | 410 | 414 => said(fields, defaults, now).unwrap_or(defaults.ttl),
        302 | 307 => said(fields, defaults, now).unwrap_or(-1.0),
        _ => -1.0,
    };
    let grace = directive(fields, b"stale-while-revalidate").filter(|_| ttl >= 0.0);
    Lifetime { origin, ttl, grace: grace.unwrap_or(defaults.grace), keep: defaults.keep }
}

/// The ttl that the answer names: by `Cache-Control`, or else by `Expires`.
fn said(fields: &Fields, defaults: &Defaults, now: f64) -> Option<f64> {
    if let Some(seconds) = max_age(fields) {
        return Some(seconds);
    }
    let date = |known| fields.get_known(known).and_then(dates::date).map(|secs| secs as f64);
    let expires = date(Known::Expires)?;
    Some(match date(Known::Date) {
        Some(date) if expires < date => 0.0,
        // A clock that is off: what counts is the time between the two.
        Some(date) if (date - now).abs() >= defaults.clock_skew => expires - date,
        Some(_) | None => (expires - now).max(0.0),
    })
}

/// `s-maxage`, or else `max-age`. As in Varnish, an `s-maxage` without a value hides a `max-age`.
fn max_age(fields: &Fields) -> Option<f64> {
    let list = fields.get_known(Known::CacheControl)?;
    let value = value_of(list, b"s-maxage").or_else(|| value_of(list, b"max-age"))?;
    value.map(seconds)
}

fn directive(fields: &Fields, name: &[u8]) -> Option<f64> {
    value_of(fields.get_known(Known::CacheControl)?, name)?.map(seconds)
}

/// What stands behind `name =` in a list; `Some(None)` if the name is there and no `=` is.
fn value_of<'a>(list: &'a [u8], name: &[u8]) -> Option<Option<&'a [u8]>> {
    list.split(|byte| *byte == b',').find_map(|item| {
        let (word, behind) = item.trim_ascii_start().split_at_checked(name.len())?;
        let is_it = word.eq_ignore_ascii_case(name) && matches!(behind, [] | [b'=' | b' ' | b'\t', ..]);
        is_it.then(|| behind.trim_ascii_start().strip_prefix(b"=").map(<[u8]>::trim_ascii_start))
    })
}

/// A number of seconds, with what follows a point or a comma cut off; 0 for what is no number.
fn seconds(text: &[u8]) -> f64 {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let behind = text[digits..].trim_ascii_start();
    if !matches!(behind, [] | [b',' | b'.', ..]) {
        return 0.0;
    }
    let value = text[..digits]
        .iter()
        .fold(0u64, |value, digit| value.saturating_mul(10).saturating_add(u64::from(digit - b'0')));
    value.min(u64::from(u32::MAX)) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEFAULTS: Defaults = Defaults { ttl: 120.0, grace: 10.0, keep: 0.0, clock_skew: 10.0 };
    /// Sun, 06 Nov 1994 08:49:37 GMT
    const NOW: f64 = 784_111_777.0;

    fn times(status: u16, lines: &str) -> Lifetime {
        let mut fields = Fields::new();
        for line in lines.lines() {
            let (name, value) = line.split_once(": ").expect("lines are fields");
            fields.push(name.as_bytes(), value.as_bytes());
        }
        lifetime(status, &fields, false, &DEFAULTS, NOW)
    }

    #[test]
    fn the_ttl_is_what_the_answer_says_or_the_default() {
        for (status, lines, ttl) in [
            (200, "", 120.0),
            (404, "", 120.0),
            (302, "", -1.0),
            (302, "Cache-Control: max-age=5", 5.0),
            (307, "Expires: Sun, 06 Nov 1994 08:50:37 GMT", 60.0),
            (500, "Cache-Control: max-age=5", -1.0),
            (206, "Cache-Control: max-age=5", -1.0),
            (200, "Cache-Control: public, max-age=5", 5.0),
            (200, "Cache-Control: max-age=5, s-maxage=60", 60.0),
            (200, "Cache-Control: S-MaxAge=60", 60.0),
            (200, "Cache-Control: x-max-age=7, max-age = 5", 5.0),
            (200, "Cache-Control: s-maxage, max-age=5", 120.0),
            (200, "Cache-Control: public max-age=5", 120.0),
            (200, "Expires: 1960-01-01T00:00:00", 0.0),
            (200, "Cache-Control: max-age", 120.0),
            (200, "Cache-Control: max-age=", 0.0),
            (200, "Cache-Control: max-age=-5", 0.0),
            (200, "Cache-Control: max-age=5x", 0.0),
            (200, "Cache-Control: max-age=5.9", 5.0),
            (200, "Cache-Control: max-age=\"5\"", 0.0),
            (200, "Cache-Control: max-age=99999999999999999999", 4_294_967_295.0),
            (200, "Cache-Control: private, no-store", 120.0),
            (200, "Expires: Sun, 06 Nov 1994 08:50:37 GMT", 60.0),
            (200, "Expires: Sun, 06 Nov 1994 08:48:37 GMT", 0.0),
            (200, "Expires: 0", 120.0),
            (200, "Expires: Sun, 06 Nov 1994 08:50:37 GMT\nDate: Sun, 06 Nov 1994 08:49:30 GMT", 60.0),
            (200, "Expires: Sun, 06 Nov 1994 08:50:37 GMT\nDate: Sun, 06 Nov 1994 08:51:37 GMT", 0.0),
            (200, "Expires: Sun, 06 Nov 1994 07:50:37 GMT\nDate: Sun, 06 Nov 1994 07:49:37 GMT", 60.0),
            (200, "Cache-Control: max-age=5\nExpires: Sun, 06 Nov 1994 08:50:37 GMT", 5.0),
        ] {
            assert_eq!(times(status, lines).ttl, ttl, "{status} {lines}");
        }
    }

    #[test]
    fn grace_and_origin_are_what_the_answer_says() {
        for (status, lines, grace, age) in [
            (200, "", 10.0, 0.0),
            (200, "Cache-Control: stale-while-revalidate=30\nAge: 7", 30.0, 7.0),
            (500, "Cache-Control: stale-while-revalidate=30", 10.0, 0.0),
            (200, "Cache-Control: max-age=5, stale-while-revalidate\nAge: -7", 10.0, 0.0),
            (200, "Age: 7, 8", 10.0, 7.0),
        ] {
            let times = times(status, lines);
            assert_eq!((times.grace, times.keep, NOW - times.origin), (grace, 0.0, age), "{lines}");
        }
        let mut fields = Fields::new();
        fields.push(b"Age", b"5");
        let passed = lifetime(200, &fields, true, &DEFAULTS, NOW);
        assert_eq!(passed, Lifetime { origin: NOW - 5.0, ttl: -1.0, grace: 0.0, keep: 0.0 });
    }
}
