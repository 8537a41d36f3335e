//! `Range`: which bytes of a body a client wants, by nginx's rules.

/// Bytes `start..end` of a body.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ByteRange {
    /// The first byte.
    pub start: u64,
    /// One past the last byte; above `start`.
    pub end: u64,
}

/// What a `Range` header asks for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Ranges {
    /// Nothing, or something to ignore: send the whole body with 200.
    None,
    /// Only bytes that the body does not have: answer 416.
    Unsatisfiable,
    /// At least one range, in the order asked for: answer 206.
    Ok(Vec<ByteRange>),
}

/// How nginx limits several ranges without `max_ranges`: all parts together may be 4096 bytes longer than the body, and
/// the head of each part counts as 256 bytes.
const PART_BYTES: u64 = 256;
const PARTS_BYTES_FREE: u64 = 4096;

/// Reads a `Range` header for a body of `len` bytes. It is ignored if the unit is not `bytes`, if there are more ranges
/// than `max_ranges` (`Some(0)` turns ranges off), if several ranges together ask for more bytes than there are, or if
/// the body is empty. It is unsatisfiable if a range is invalid, or if none begins within the body. A range beyond the
/// end is cut.
pub fn parse_ranges(header: &[u8], len: u64, max_ranges: Option<u32>) -> Ranges {
    let Some(unit) = header.get(..6) else {
        return Ranges::None;
    };
    if !unit.eq_ignore_ascii_case(b"bytes=") || header.len() == 6 || max_ranges == Some(0) {
        return Ranges::None;
    }
    let mut found: Vec<ByteRange> = Vec::new();
    let mut asked: u64 = 0;
    for spec in header[6..].split(|&byte| byte == b',') {
        let Some((start, end)) = bounds(spec, len) else {
            return Ranges::Unsatisfiable;
        };
        if start < end {
            if max_ranges.is_some_and(|max| found.len() >= max as usize) {
                return Ranges::None;
            }
            asked = asked.saturating_add(end - start);
            found.push(ByteRange { start, end });
        } else if start == 0 {
            return Ranges::None;
        }
    }
    match found.len() {
        0 => Ranges::Unsatisfiable,
        1 => Ranges::Ok(found),
        _ if asked > len => Ranges::None,
        parts => {
            let heads = (parts as u64).saturating_mul(PART_BYTES);
            let is_too_much =
                max_ranges.is_none() && asked.saturating_add(heads) > len.saturating_add(PARTS_BYTES_FREE);
            if is_too_much { Ranges::None } else { Ranges::Ok(found) }
        }
    }
}

/// One `first-last`, `first-` or `-suffix` as `start..end` within `len` bytes, perhaps empty. `None` if it is invalid.
fn bounds(spec: &[u8], len: u64) -> Option<(u64, u64)> {
    let spec = trim_spaces(spec);
    let dash = memchr::memchr(b'-', spec)?;
    let (first, last) = (&spec[..dash], &spec[dash + 1..]);
    if first.is_empty() {
        // A suffix; nginx takes no space after the dash here.
        let suffix = crate::decimal(last)?;
        return Some((len.saturating_sub(suffix), len));
    }
    let start = crate::decimal(trim_spaces(first))?;
    let last = trim_spaces(last);
    if last.is_empty() {
        return Some((start, len));
    }
    let end = crate::decimal(last)?;
    Some((start, end.saturating_add(1).min(len)))
}

fn trim_spaces(mut text: &[u8]) -> &[u8] {
    while let [b' ', rest @ ..] | [rest @ .., b' '] = text {
        text = rest;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(header: &str, len: u64, max: Option<u32>) -> String {
        match parse_ranges(header.as_bytes(), len, max) {
            Ranges::None => "ignored".into(),
            Ranges::Unsatisfiable => "416".into(),
            Ranges::Ok(ranges) => {
                ranges.iter().map(|range| format!("{}..{}", range.start, range.end)).collect::<Vec<_>>().join(" ")
            }
        }
    }

    #[test]
    fn ranges_are_read_as_nginx_reads_them() {
        for (header, len, max, expected) in [
            ("bytes=0-9", 100, None, "0..10"),
            ("Bytes=0-9", 100, None, "0..10"),
            ("bytes=90-", 100, None, "90..100"),
            ("bytes=-10", 100, None, "90..100"),
            ("bytes=-1000", 100, None, "0..100"),
            ("bytes=90-1000", 100, None, "90..100"),
            ("bytes= 0 - 9 ", 100, None, "0..10"),
            ("bytes=0-0, 50-59,-1", 100, None, "0..1 50..60 99..100"),
            ("bytes=0-9,200-300", 100, None, "0..10"),
            ("bytes=100-", 100, None, "416"),
            ("bytes=200-300", 100, None, "416"),
            ("bytes=5-2", 100, None, "416"),
            ("bytes=-0", 100, None, "416"),
            ("bytes=0-9", 0, None, "ignored"),
            ("bytes=-5", 0, None, "ignored"),
            ("bytes=5-", 0, None, "416"),
            ("bytes=", 100, None, "ignored"),
            ("bytes=a-b", 100, None, "416"),
            ("bytes=0-9,", 100, None, "416"),
            ("bytes=0", 100, None, "416"),
            ("bytes=0-9-", 100, None, "416"),
            ("bytes=--1", 100, None, "416"),
            ("bytes=- 1", 100, None, "416"),
            ("bytes=-", 100, None, "416"),
            ("bytes=0-99999999999999999999", 100, None, "416"),
            ("bytes=9223372036854775807-", 100, None, "416"),
            ("bytes 0-9", 100, None, "ignored"),
            ("items=0-9", 100, None, "ignored"),
            ("", 100, None, "ignored"),
            ("bytes=0-9", 100, Some(0), "ignored"),
            ("bytes=0-9", 100, Some(1), "0..10"),
            ("bytes=0-9,20-29", 100, Some(1), "ignored"),
            ("bytes=0-9,20-29", 100, Some(2), "0..10 20..30"),
            ("bytes=0-,0-", 100, None, "ignored"),
            ("bytes=0-59,40-99", 100, None, "ignored"),
        ] {
            assert_eq!(asked(header, len, max), expected, "{header} of {len}, at most {max:?}");
        }
    }

    #[test]
    fn many_small_ranges_are_ignored_unless_max_ranges_allows_them() {
        let header = format!("bytes={}", vec!["0-0"; 50].join(","));
        assert_eq!(asked(&header, 1000, None), "ignored");
        assert_eq!(asked(&header, 1000, Some(50)), vec!["0..1"; 50].join(" "));
    }
}
