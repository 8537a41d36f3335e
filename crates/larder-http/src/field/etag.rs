//! Entity tags (RFC 9110 §8.8.3) and the two conditions on them.

use super::list::{members, trim};

/// Whether both tags are strong and the same.
pub fn strong_eq(one: &[u8], other: &[u8]) -> bool {
    !is_weak(one) && !is_weak(other) && one == other
}

/// Whether the tags are the same when `W/` is left out.
pub fn weak_eq(one: &[u8], other: &[u8]) -> bool {
    opaque(one) == opaque(other)
}

/// Whether the tag says that the same tag need not mean the same bytes.
pub fn is_weak(tag: &[u8]) -> bool {
    tag.starts_with(b"W/")
}

/// Whether an `If-Match` lets the request go on: it is `*`, or lists the current tag, both strong (§13.1.1).
///
/// `current` is the tag of what we would send, if it has one. Tags without quotes, which some origins make,
/// are compared as they are.
pub fn if_match<'a>(lines: impl IntoIterator<Item = &'a [u8]>, current: Option<&[u8]>) -> bool {
    lists(lines, current, strong_eq)
}

/// Whether an `If-None-Match` says that the client has it already: it is `*`, or lists the current tag,
/// weak or strong (§13.1.2). Then the answer is 304, or 412 when the method changes things.
pub fn if_none_match<'a>(lines: impl IntoIterator<Item = &'a [u8]>, current: Option<&[u8]>) -> bool {
    lists(lines, current, weak_eq)
}

fn lists<'a>(
    lines: impl IntoIterator<Item = &'a [u8]>,
    current: Option<&[u8]>,
    is_same: fn(&[u8], &[u8]) -> bool,
) -> bool {
    lines
        .into_iter()
        .any(|line| trim(line) == b"*" || current.is_some_and(|current| members(line).any(|tag| is_same(tag, current))))
}

fn opaque(tag: &[u8]) -> &[u8] {
    tag.strip_prefix(b"W/").unwrap_or(tag)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_compare_as_the_table_of_rfc_9110_says() {
        for (one, other, strong, weak) in [
            ("W/\"1\"", "W/\"1\"", false, true),
            ("W/\"1\"", "W/\"2\"", false, false),
            ("W/\"1\"", "\"1\"", false, true),
            ("\"1\"", "\"1\"", true, true),
        ] {
            assert_eq!(strong_eq(one.as_bytes(), other.as_bytes()), strong, "{one} {other}");
            assert_eq!(weak_eq(one.as_bytes(), other.as_bytes()), weak, "{one} {other}");
        }
    }

    #[test]
    fn a_list_matches_when_one_of_its_tags_does() {
        for (lines, current, matches, none_matches) in [
            (&["*"][..], None, true, true),
            (&[" * "], Some("\"1\""), true, true),
            (&["\"1\""], None, false, false),
            (&["\"1\", \"2\""], Some("\"2\""), true, true),
            (&["\"1\"", "W/\"2\""], Some("\"2\""), false, true),
            (&["\"2\""], Some("W/\"2\""), false, true),
            (&["\"a,b\", \"c\""], Some("\"a,b\""), true, true),
            (&["\"a,b\""], Some("\"a"), false, false),
            (&["abc"], Some("abc"), true, true),
            (&["\"12\""], Some("\"1\""), false, false),
            (&[], Some("\"1\""), false, false),
        ] {
            let each = || lines.iter().map(|line| line.as_bytes());
            let current = current.map(str::as_bytes);
            assert_eq!(if_match(each(), current), matches, "{lines:?}");
            assert_eq!(if_none_match(each(), current), none_matches, "{lines:?}");
        }
    }
}
