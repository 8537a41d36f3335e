//! Conditional requests: `If-Modified-Since`, `If-None-Match` and the like.
//!
//! The rules are nginx's. They differ from RFC 9110 §13.2.2: `If-Unmodified-Since` is checked even with `If-Match`;
//! with both `If-Modified-Since` and `If-None-Match`, both must say "not modified".

use larder_conf::model::IfModifiedSince;
use larder_http::date::parse_date;
use larder_http::{Fields, Known};

/// The result of a request's conditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// Answer as if there were no conditions.
    Go,
    /// Answer 304.
    NotModified,
    /// Answer 412.
    PreconditionFailed,
}

/// The answer to `request`, if without conditions it were a 200 with this `Last-Modified` (in seconds) and `ETag`.
pub fn decide(request: &Fields, last_modified: Option<u64>, etag: Option<&[u8]>, ims: IfModifiedSince) -> Condition {
    if let Some(date) = request.get_known(Known::IfUnmodifiedSince) {
        let unmodified = last_modified.is_some_and(|modified| parse_date(date).is_some_and(|date| date >= modified));
        if !unmodified {
            return Condition::PreconditionFailed;
        }
    }
    if let Some(list) = request.get_known(Known::IfMatch)
        && !is_listed(list, etag, Compare::Strong)
    {
        return Condition::PreconditionFailed;
    }

    let since = request.get_known(Known::IfModifiedSince);
    let none_match = request.get_known(Known::IfNoneMatch);
    if since.is_none() && none_match.is_none() {
        return Condition::Go;
    }
    if since.is_some_and(|date| is_modified(date, last_modified, ims)) {
        return Condition::Go;
    }
    if none_match.is_some_and(|list| !is_listed(list, etag, Compare::Weak)) {
        return Condition::Go;
    }
    Condition::NotModified
}

/// The same by RFC 9110 §13.2.2 for a page of a cache, whose `Date` takes the place of a missing `Last-Modified`
/// (RFC 9111 §4.3.2). `If-Match` and `If-Unmodified-Since` are for the origin.
pub fn decide_for_cache(request: &Fields, page: &Fields) -> Condition {
    let is_not_modified = match request.contains_known(Known::IfNoneMatch) {
        true => {
            let etag = page.get_known(Known::Etag);
            request.all_known(Known::IfNoneMatch).any(|list| names_tag(list, etag))
        }
        false => {
            let modified = page.get_known(Known::LastModified).or_else(|| page.get_known(Known::Date));
            let date = |text: Option<&[u8]>| text.and_then(parse_date);
            let since = date(request.get_known(Known::IfModifiedSince));
            since.zip(date(modified)).is_some_and(|(since, modified)| modified <= since)
        }
    };
    if is_not_modified { Condition::NotModified } else { Condition::Go }
}

/// Whether a list of entity tags has `etag` by weak comparison, or is `*` (RFC 9110 §13.1.2). Commas inside a tag do not
/// end it.
fn names_tag(list: &[u8], etag: Option<&[u8]>) -> bool {
    if trim(list, b" \t") == b"*" {
        return true;
    }
    let strong = |tag| <[u8]>::strip_prefix(tag, b"W/").unwrap_or(tag);
    etag.is_some_and(|etag| larder_http::list::members(list).any(|tag| strong(tag) == strong(etag)))
}

/// Whether `Range` applies by RFC 9110 §13.1.5: a tag is compared strongly.
pub fn range_applies_strongly(request: &Fields, last_modified: Option<u64>, etag: Option<&[u8]>) -> bool {
    let is_weak = request.get_known(Known::IfRange).is_some_and(|tag| tag.starts_with(b"W/"));
    !is_weak && range_applies(request, last_modified, etag)
}

/// Whether `Range` applies, given `If-Range`.
///
/// A value that ends in a quote is a tag and must equal ours byte for byte. Any other value is a date and must equal
/// ours to the second.
pub fn range_applies(request: &Fields, last_modified: Option<u64>, etag: Option<&[u8]>) -> bool {
    let Some(value) = request.get_known(Known::IfRange) else {
        return true;
    };
    if value.len() >= 2 && value.ends_with(b"\"") {
        return etag == Some(value);
    }
    last_modified.is_some() && parse_date(value) == last_modified
}

fn is_modified(date: &[u8], last_modified: Option<u64>, ims: IfModifiedSince) -> bool {
    let Some(modified) = last_modified else {
        return true;
    };
    let date = parse_date(date);
    match ims {
        IfModifiedSince::Off => true,
        IfModifiedSince::Exact => date != Some(modified),
        IfModifiedSince::Before => date.is_none_or(|date| date < modified),
    }
}

/// How tags are compared (RFC 9110 §8.8.3.2).
#[derive(Clone, Copy, PartialEq, Eq)]
enum Compare {
    Strong,
    Weak,
}

/// Whether `etag` is in `list`. `*` matches any page, even one without a tag.
fn is_listed(list: &[u8], etag: Option<&[u8]>, compare: Compare) -> bool {
    if list == b"*" {
        return true;
    }
    let Some(etag) = etag else {
        return false;
    };
    let opaque = |tag: &mut &[u8]| {
        if compare == Compare::Weak && tag.len() > 2 {
            *tag = tag.strip_prefix(b"W/").unwrap_or(tag);
        }
    };
    let mut wanted = etag;
    opaque(&mut wanted);
    let mut rest = list;
    while !rest.is_empty() {
        opaque(&mut rest);
        if let Some(after) = rest.strip_prefix(wanted)
            && matches!(trim(after, b" \t"), [] | [b',', ..])
        {
            return true;
        }
        // As in nginx, a comma within a tag ends it here, so such a tag is never found.
        let comma = memchr::memchr(b',', rest).unwrap_or(rest.len());
        rest = trim(&rest[comma..], b" \t,");
    }
    false
}

fn trim<'a>(mut text: &'a [u8], what: &[u8]) -> &'a [u8] {
    while let [first, rest @ ..] = text
        && what.contains(first)
    {
        text = rest;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATE: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
    const EARLIER: &str = "Sun, 06 Nov 1994 08:49:36 GMT";
    const LATER: &str = "Sun, 06 Nov 1994 08:49:38 GMT";
    const SECS: u64 = 784_111_777;

    fn fields(lines: &[(&str, &str)]) -> Fields {
        let mut fields = Fields::new();
        for (name, value) in lines {
            fields.push(name.as_bytes(), value.as_bytes());
        }
        fields
    }

    #[test]
    fn conditions_come_to_what_nginx_makes_of_them() {
        use Condition::{Go, NotModified, PreconditionFailed};
        use IfModifiedSince::{Before, Exact, Off};
        let (ims, inm, ius, im) = ("If-Modified-Since", "If-None-Match", "If-Unmodified-Since", "If-Match");
        let tag = "\"a-5\"";
        for (lines, mode, expected) in [
            (&[][..], Exact, Go),
            (&[(ims, DATE)], Exact, NotModified),
            (&[(ims, EARLIER)], Exact, Go),
            (&[(ims, LATER)], Exact, Go),
            (&[(ims, LATER)], Before, NotModified),
            (&[(ims, EARLIER)], Before, Go),
            (&[(ims, DATE)], Off, Go),
            (&[(ims, "yesterday")], Before, Go),
            (&[(inm, tag)], Exact, NotModified),
            (&[(inm, "W/\"a-5\"")], Exact, NotModified),
            (&[(inm, "\"x\", \"a-5\"")], Exact, NotModified),
            (&[(inm, "\"x\",,W/\"a-5\" , \"y\"")], Exact, NotModified),
            (&[(inm, "\"a-5")], Exact, Go),
            (&[(inm, "\"a-5\"x")], Exact, Go),
            (&[(inm, "a-5")], Exact, Go),
            (&[(inm, "*")], Exact, NotModified),
            (&[(inm, "*, \"x\"")], Exact, Go),
            (&[(inm, "")], Exact, Go),
            (&[(inm, tag), (ims, DATE)], Exact, NotModified),
            (&[(inm, tag), (ims, EARLIER)], Exact, Go),
            (&[(inm, "\"x\""), (ims, DATE)], Exact, Go),
            (&[(ius, DATE)], Exact, Go),
            (&[(ius, LATER)], Exact, Go),
            (&[(ius, EARLIER)], Exact, PreconditionFailed),
            (&[(ius, "never")], Exact, PreconditionFailed),
            (&[(im, tag)], Exact, Go),
            (&[(im, "*")], Exact, Go),
            (&[(im, "W/\"a-5\"")], Exact, PreconditionFailed),
            (&[(im, "\"x\"")], Exact, PreconditionFailed),
            (&[(im, tag), (ius, EARLIER)], Exact, PreconditionFailed),
            (&[(im, tag), (inm, tag)], Exact, NotModified),
        ] {
            assert_eq!(decide(&fields(lines), Some(SECS), Some(tag.as_bytes()), mode), expected, "{lines:?} {mode:?}");
        }
    }

    #[test]
    fn a_weak_tag_of_ours_matches_weakly_only() {
        let ours = Some(&b"W/\"a\""[..]);
        for (name, value, expected) in [
            ("If-None-Match", "\"a\"", Condition::NotModified),
            ("If-None-Match", "W/\"a\"", Condition::NotModified),
            ("If-Match", "\"a\"", Condition::PreconditionFailed),
            ("If-Match", "W/\"a\"", Condition::Go),
        ] {
            let request = fields(&[(name, value)]);
            assert_eq!(decide(&request, None, ours, IfModifiedSince::Exact), expected, "{name}: {value}");
        }
    }

    #[test]
    fn without_a_date_or_a_tag_of_ours_nothing_is_known_to_be_unchanged() {
        for (name, value, expected) in [
            ("If-Modified-Since", DATE, Condition::Go),
            ("If-None-Match", "\"a\"", Condition::Go),
            ("If-None-Match", "*", Condition::NotModified),
            ("If-Unmodified-Since", LATER, Condition::PreconditionFailed),
            ("If-Match", "\"a\"", Condition::PreconditionFailed),
        ] {
            let request = fields(&[(name, value)]);
            assert_eq!(decide(&request, None, None, IfModifiedSince::Exact), expected, "{name}: {value}");
        }
    }

    #[test]
    fn a_range_applies_to_the_very_same_page() {
        for (if_range, applies) in [
            (None, true),
            (Some("\"a-5\""), true),
            (Some("W/\"a-5\""), false),
            (Some("\"b\""), false),
            (Some("\""), false),
            (Some(DATE), true),
            (Some(EARLIER), false),
            (Some(LATER), false),
            (Some("soon"), false),
        ] {
            let request = if_range.map_or_else(Fields::new, |value| fields(&[("If-Range", value)]));
            assert_eq!(range_applies(&request, Some(SECS), Some(b"\"a-5\"")), applies, "{if_range:?}");
        }
        assert!(!range_applies(&fields(&[("If-Range", "soon")]), None, None), "no date is not an equal date");
    }
}
