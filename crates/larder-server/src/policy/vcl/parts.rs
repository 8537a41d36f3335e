//! Whether a part is the one that was asked for: a backend that sends another would have it taken for that.

use larder_http::{Fields, Known, status};

/// What is wrong with the `Content-Range` of an answer to this request (RFC 9110 §14.4), as far as Varnish looks at it.
/// Of a request for several ranges, or in another unit, nothing is said.
pub fn fault(request: &Fields, answer_status: u16, answer: &Fields) -> Option<String> {
    let told = answer.get_known(Known::ContentRange).filter(|told| has_unit(told, b" "))?;
    let Some(part) = Part::of(&told[UNIT.len() + 1..]) else {
        return Some(format!("Invalid content-range header \"{}\"", told.escape_ascii()));
    };
    let Some(range) = request.get_known(Known::Range) else {
        return Some("Unexpected content-range header".to_owned());
    };
    let (first, last) = match part {
        Part::Unsatisfied(_) if answer_status == status::RANGE_NOT_SATISFIABLE => return None,
        Part::Unsatisfied(length) => (0, length.checked_sub(1)?),
        Part::Of(first, last) => (first, last),
    };
    let length = answer.content_length();
    if length.is_some_and(|length| last - first != length.wrapping_sub(1)) {
        return Some(format!("Content-Range is of {first}-{last}, and the length {}", length.unwrap_or_default()));
    }
    // A part at the end has no place that the request says.
    let (from, to) = asked(range)?;
    match (from == first, to.is_none_or(|to| to >= last)) {
        (true, true) => None,
        _ => Some(format!("The part {first}-{last} is not the one that was asked for")),
    }
}

/// The unit of all ranges that larder knows.
const UNIT: &[u8] = b"bytes";

fn has_unit(text: &[u8], behind: &[u8]) -> bool {
    let is_unit = text.get(..UNIT.len()).is_some_and(|unit| unit.eq_ignore_ascii_case(UNIT));
    is_unit && text[UNIT.len()..].starts_with(behind)
}

/// What a `Content-Range` tells.
enum Part {
    /// First and last byte.
    Of(u64, u64),
    /// None, of so many.
    Unsatisfied(u64),
}

impl Part {
    fn of(text: &[u8]) -> Option<Self> {
        let slash = text.iter().position(|byte| *byte == b'/')?;
        let (part, length) = (&text[..slash], &text[slash + 1..]);
        let length = match length {
            b"*" => None,
            length => Some(larder_http::decimal(length).filter(|length| *length > 0)?),
        };
        if part == b"*" {
            return Some(Self::Unsatisfied(length?));
        }
        let (first, last) = first_and_last(part)?;
        let is_within = first <= last && length.is_none_or(|length| last < length);
        is_within.then_some(Self::Of(first, last))
    }
}

fn first_and_last(text: &[u8]) -> Option<(u64, u64)> {
    let dash = text.iter().position(|byte| *byte == b'-')?;
    Some((larder_http::decimal(&text[..dash])?, larder_http::decimal(&text[dash + 1..])?))
}

/// From where to where one range is asked for, the end perhaps being that of the whole.
fn asked(range: &[u8]) -> Option<(u64, Option<u64>)> {
    let range = range.get(UNIT.len() + 1..).filter(|_| has_unit(range, b"="))?;
    match range.strip_suffix(b"-") {
        Some(first) => Some((larder_http::decimal(first)?, None)),
        None => first_and_last(range).map(|(first, last)| (first, Some(last))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_the_one_that_was_asked_for() {
        for (range, status, told, length, fault_begins) in [
            ("bytes=0-4", 206, "bytes 0-4/10", "5", None),
            ("bytes=0-4", 206, "BYTES 0-4/*", "5", None),
            ("bytes=0-99", 206, "bytes 0-9/10", "10", None),
            ("bytes=3-", 206, "bytes 3-9/10", "7", None),
            ("bytes=-3", 206, "bytes 7-9/10", "3", None),
            ("bytes=0-4", 206, "bytes 0-4/10", "", None),
            ("bytes=20-", 416, "bytes */10", "0", None),
            ("bytes=0-1,3-4", 206, "bytes 0-4/10", "5", None),
            ("lines=0-1", 206, "lines 0-1/2", "9", None),
            ("bytes=0-4", 200, "", "10", None),
            ("bytes=0-4", 206, "bytes 0-5/10", "6", Some("The part 0-5")),
            ("bytes=0-4", 206, "bytes 1-4/10", "4", Some("The part 1-4")),
            ("bytes=0-4", 206, "bytes 0-4/10", "6", Some("Content-Range is of 0-4")),
            ("bytes=0-4", 206, "bytes 0-4/10", "0", Some("Content-Range is of 0-4")),
            ("bytes=0-4", 206, "bytes 4-0/10", "5", Some("Invalid")),
            ("bytes=0-4", 206, "bytes 0-10/10", "11", Some("Invalid")),
            ("bytes=0-4", 206, "bytes 0-4", "5", Some("Invalid")),
            ("bytes=0-4", 206, "bytes 0-4/0", "5", Some("Invalid")),
            ("bytes=0-4", 206, "bytes */*", "5", Some("Invalid")),
            ("bytes=0-4", 206, "bytes 0-99999999999999999999/*", "5", Some("Invalid")),
            ("", 206, "bytes 0-4/10", "5", Some("Unexpected")),
            ("", 200, "bytes */10", "10", Some("Unexpected")),
        ] {
            let of =
                |pairs: &[(&str, &str)]| pairs.iter().copied().filter(|pair| !pair.1.is_empty()).collect::<Fields>();
            let answer = of(&[("Content-Range", told), ("Content-Length", length)]);
            let found = fault(&of(&[("Range", range)]), status, &answer);
            match fault_begins {
                None => assert_eq!(found, None, "{range} {told} {length}"),
                Some(begins) => {
                    let found = found.unwrap_or_else(|| panic!("{range} {told} {length} is wrong"));
                    assert!(found.starts_with(begins), "{range} {told} {length}: {found}");
                }
            }
        }
    }
}
