//! How a `Range` is answered: by one slice, or several as `multipart/byteranges`, byte for byte as in nginx.

use std::ops::Range;

use larder_http::Ranges;

/// How a body of known length is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Plan {
    /// The whole body, with 200.
    Whole,
    /// 416, with this `Content-Range`.
    Unsatisfiable {
        /// `bytes */LENGTH`.
        content_range: String,
    },
    /// 206 with a slice.
    Single {
        /// `bytes FIRST-LAST/LENGTH`.
        content_range: String,
        /// The bytes of the body to send.
        slice: Range<u64>,
    },
    /// 206 with several slices.
    Multipart(Multipart),
}

/// A body of type `multipart/byteranges`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Multipart {
    /// The `Content-Type` of the response.
    pub content_type: String,
    /// The parts in order.
    pub parts: Vec<Part>,
    /// What follows the last part.
    pub tail: Vec<u8>,
    /// The length of the whole body in bytes: heads, slices and tail.
    pub len: u64,
}

/// One slice, and the head before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The boundary and the fields of the part, from the line break to the empty line.
    pub head: Vec<u8>,
    /// The bytes of the body to send.
    pub slice: Range<u64>,
}

/// Decides how a body of `len` bytes is sent.
///
/// `content_type` is that of the whole body with its charset, and may be empty. `boundary` should be a new number each
/// time; it is written with 20 digits.
pub fn plan(ranges: &Ranges, len: u64, content_type: &[u8], boundary: u64) -> Plan {
    match ranges {
        Ranges::None => Plan::Whole,
        Ranges::Unsatisfiable => Plan::Unsatisfiable { content_range: format!("bytes */{len}") },
        Ranges::Ok(ranges) => match &**ranges {
            [] => Plan::Whole,
            [only] => Plan::Single {
                content_range: format!("bytes {}", position(&(only.start..only.end), len)),
                slice: only.start..only.end,
            },
            several => {
                let slices = several.iter().map(|range| range.start..range.end);
                Plan::Multipart(multipart(slices, len, content_type, boundary))
            }
        },
    }
}

fn multipart(slices: impl Iterator<Item = Range<u64>>, len: u64, content_type: &[u8], boundary: u64) -> Multipart {
    let mut start = format!("\r\n--{boundary:020}\r\n").into_bytes();
    if !content_type.is_empty() {
        start.extend_from_slice(b"Content-Type: ");
        start.extend_from_slice(content_type);
        start.extend_from_slice(b"\r\n");
    }
    start.extend_from_slice(b"Content-Range: bytes ");
    let parts: Vec<Part> = slices
        .map(|slice| {
            let mut head = start.clone();
            head.extend_from_slice(position(&slice, len).as_bytes());
            head.extend_from_slice(b"\r\n\r\n");
            Part { head, slice }
        })
        .collect();
    let tail = format!("\r\n--{boundary:020}--\r\n").into_bytes();
    let parts_len: u64 = parts.iter().map(|part| part.head.len() as u64 + (part.slice.end - part.slice.start)).sum();
    Multipart {
        content_type: format!("multipart/byteranges; boundary={boundary:020}"),
        len: parts_len + tail.len() as u64,
        parts,
        tail,
    }
}

/// Writes `FIRST-LAST/LENGTH`. Ranges are never empty, so there is a last byte.
fn position(slice: &Range<u64>, len: u64) -> String {
    format!("{}-{}/{len}", slice.start, slice.end.saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use larder_http::parse_ranges;

    use super::*;

    fn plan_of(header: &str, len: u64) -> Plan {
        plan(&parse_ranges(header.as_bytes(), len, None), len, b"text/plain", 7)
    }

    #[test]
    fn one_range_is_a_slice() {
        for (header, content_range, slice) in [
            ("bytes=0-3", "bytes 0-3/10", 0..4),
            ("bytes=4-", "bytes 4-9/10", 4..10),
            ("bytes=-2", "bytes 8-9/10", 8..10),
            ("bytes=0-99", "bytes 0-9/10", 0..10),
        ] {
            let expected = Plan::Single { content_range: content_range.to_owned(), slice };
            assert_eq!(plan_of(header, 10), expected, "{header}");
        }
    }

    #[test]
    fn what_cannot_be_had_says_how_much_there_is() {
        assert_eq!(plan_of("bytes=10-", 10), Plan::Unsatisfiable { content_range: "bytes */10".to_owned() });
        assert_eq!(plan_of("pages=1-2", 10), Plan::Whole);
    }

    /// nginx 1.22's answer to `curl -r 0-1,-2` for a file `0123456789`, except for the number.
    #[test]
    fn several_ranges_are_parts() {
        let Plan::Multipart(multipart) = plan_of("bytes=0-1,-2", 10) else {
            panic!("two ranges make a multipart body");
        };
        assert_eq!(multipart.content_type, "multipart/byteranges; boundary=00000000000000000007");
        let mut body = Vec::new();
        for part in &multipart.parts {
            body.extend_from_slice(&part.head);
            body.extend_from_slice(&b"0123456789"[part.slice.start as usize..part.slice.end as usize]);
        }
        body.extend_from_slice(&multipart.tail);
        let expected = "\r\n--00000000000000000007\r\nContent-Type: text/plain\r\nContent-Range: bytes 0-1/10\r\n\r\n01\
                        \r\n--00000000000000000007\r\nContent-Type: text/plain\r\nContent-Range: bytes 8-9/10\r\n\r\n89\
                        \r\n--00000000000000000007--\r\n";
        assert_eq!(String::from_utf8_lossy(&body), expected);
        assert_eq!(multipart.len, expected.len() as u64);
    }

    #[test]
    fn a_body_without_a_type_has_parts_without_one() {
        let ranges = parse_ranges(b"bytes=0-0,2-2", 10, None);
        let Plan::Multipart(multipart) = plan(&ranges, 10, b"", u64::MAX) else {
            panic!("two ranges make a multipart body");
        };
        assert_eq!(multipart.parts[0].head, b"\r\n--18446744073709551615\r\nContent-Range: bytes 0-0/10\r\n\r\n");
    }
}
