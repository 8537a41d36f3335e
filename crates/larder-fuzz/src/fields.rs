//! Values of header fields.

use larder_cache::litespeed::{Storing, storing, varies_by};
use larder_cache::{VaryKey, selecting};
use larder_http::vary::{self, Vary};
use larder_http::{Accepted, Fields, Known, Ranges, cache_control, cookie, dictionary, format_date, list};
use larder_http::{parse_date, parse_exact_date, parse_ranges};

/// Fields of which each line is one: several lines say what one line with commas says.
pub fn fields(data: &[u8]) {
    let lines: Vec<&[u8]> = data.split(|byte| *byte == b'\n').collect();
    let joined = lines.join(&b", "[..]);
    let is_quoted = data.contains(&b'"');

    let accepted = Accepted::parse(lines.iter().copied());
    assert!(is_quoted || accepted == Accepted::parse([&joined[..]]));

    let varies = vary::parse(lines.iter().copied());
    assert!(is_quoted || varies == vary::parse([&joined[..]]));
    if let Vary::Names(names) = varies {
        for (at, name) in names.iter().enumerate() {
            assert!(!name.is_empty() && *name != b"*" && list::trim(name) == *name);
            assert!(!names[..at].iter().any(|other| other.eq_ignore_ascii_case(name)));
        }
    }

    litespeed(&lines);
    for line in lines {
        ranges(line);
        let _ = cookie([line].into_iter(), b"a");
        let known = Known::of(line);
        assert!(known == Known::Other || known.name().as_bytes().eq_ignore_ascii_case(line));
        if let Some(seconds) = parse_date(line) {
            assert_eq!(parse_date(&format_date(seconds)), Some(seconds));
        }
        if let Some(seconds) = parse_exact_date(line, 0) {
            assert_eq!(parse_exact_date(&format_date(seconds), 0), Some(seconds));
        }
        cache_control(line);
    }
    if let Some(members) = dictionary::dictionary(data.split(|byte| *byte == b'\n')) {
        for (at, member) in members.iter().enumerate() {
            assert!(!member.key.is_empty() && !member.key.bytes().any(|byte| byte.is_ascii_uppercase()));
            assert!(!members[..at].iter().any(|other| other.key == member.key), "a key comes once");
        }
    }
}

/// What forbids storing does so whatever else is said, and a variant answers the request that it was made for.
fn litespeed(lines: &[&[u8]]) {
    let mut fields = Fields::new();
    for line in lines {
        for name in ["X-LiteSpeed-Cache-Control", "X-LiteSpeed-Vary", "Cookie"] {
            fields.push(name.as_bytes(), line);
        }
    }
    if let Ok(cookies) = varies_by(&fields) {
        let request = selecting(&fields);
        assert!(VaryKey::of_cookies(cookies, &request).matches(&request));
    }
    fields.push(b"X-LiteSpeed-Cache-Control", b"private");
    assert!(matches!(storing(&fields), Storing::Not(_)));
}

/// Nothing before a directive hides it, nor anything behind it.
fn cache_control(line: &[u8]) {
    let before = [b"no-store, ", line].concat();
    assert!(cache_control::directives(&before).next().is_some_and(|first| first.is("no-store")));
    let behind = [line, b", no-store"].concat();
    assert!(cache_control::directives(&behind).last().is_some_and(|last| last.is("no-store")));
    for directive in cache_control::directives(line) {
        assert!(!directive.name.contains(&b','));
        let names = directive.names().unwrap_or_default();
        assert!(names.iter().all(|name| !name.is_empty() && !name.contains(&b',')));
        assert!(directive.seconds().is_none_or(|seconds| seconds <= cache_control::SECONDS_MAX));
    }
}

/// Ranges lie within the body, are as many as may be, and written again they are the same.
fn ranges(line: &[u8]) {
    for len in [0, 1, 10, 1000, u64::from(u32::MAX), i64::MAX as u64] {
        for most in [None, Some(0), Some(1), Some(3)] {
            let Ranges::Ok(found) = parse_ranges(line, len, most) else {
                continue;
            };
            assert!(!found.is_empty() && most.is_none_or(|most| found.len() <= most as usize));
            assert!(found.iter().all(|range| range.start < range.end && range.end <= len), "{found:?} of {len}");
            let asked = found.iter().fold(0, |sum: u64, range| sum.saturating_add(range.end - range.start));
            assert!(found.len() == 1 || asked <= len, "{found:?} ask for more than {len}");
            let specs: Vec<String> = found.iter().map(|range| format!("{}-{}", range.start, range.end - 1)).collect();
            let written = format!("bytes={}", specs.join(","));
            assert_eq!(parse_ranges(written.as_bytes(), len, most), Ranges::Ok(found), "{written}");
        }
    }
}
