//! The `slice` module: which slice of a page is requested, and which one an answer is.

use std::ops::Range;

use larder_http::{Fields, Known, status};

/// Where an exchange is in the slices of its page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Slicing {
    /// `$slice_range` was not read.
    #[default]
    Unasked,
    /// This slice is requested, or was the last that was.
    At(Slice),
    /// The response's head is made and it is not in slices, or all slices were sent.
    Over,
}

/// A slice that is requested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slice {
    start: u64,
    /// Its length, unless the page ends in it.
    bytes: u64,
    turn: Turn,
}

/// Whether a slice is the first of its response.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Turn {
    /// The first; the answer may show that the page is not in slices.
    First,
    /// A later one; it must have this `ETag` if the first had any.
    Next(Option<Box<[u8]>>),
}

/// Why an answer is not the slice that was requested. The words are nginx's.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum SliceError {
    /// An error, though the slices before it could be fetched.
    #[error("unexpected status code {0} in slice response")]
    Status(u16),
    /// A slice of another version of the page.
    #[error("etag mismatch in slice response")]
    Etag,
    /// `Content-Range` is missing or malformed.
    #[error("invalid range in slice response")]
    InvalidRange,
    /// `Content-Range` has a `*` as the length.
    #[error("no complete length in slice response")]
    NoLength,
    /// Another part of the page.
    #[error("unexpected range in slice response: {}-{}, expected: {}-{}", got.0, got.1, expected.0, expected.1)]
    Range {
        /// Its first byte, and one past its last.
        got: (u64, u64),
        /// What was requested.
        expected: (u64, u64),
    },
    /// The body's length differs from the range's.
    #[error("unexpected length in slice response: {got}, expected: {expected}")]
    Length {
        /// The body's length, bytes.
        got: u64,
        /// The range's length, bytes.
        expected: u64,
    },
    /// No answer that could be a slice, such as a redirect.
    #[error("missing slice response")]
    Missing,
}

/// The place of a slice in its page.
#[derive(Debug, PartialEq, Eq)]
pub struct Place {
    /// The range of its bytes.
    pub lies: Range<u64>,
    /// The length of the page.
    pub total: u64,
}

impl Slicing {
    /// The slice that is to be requested. The first call chooses the one in which the client's range begins; once the
    /// response's head is made it is too late to begin.
    ///
    /// `bytes` is the length of a slice, 0 in a location without slices; `request` holds the client's fields, if its
    /// range counts.
    pub fn ask(&mut self, bytes: u64, request: Option<&Fields>) -> Option<&Slice> {
        if *self == Self::Unasked && bytes > 0 {
            let start = request.map_or(0, first_byte) / bytes * bytes;
            *self = Self::At(Slice { start, bytes, turn: Turn::First });
        }
        match self {
            Self::At(slice) => Some(slice),
            Self::Unasked | Self::Over => None,
        }
    }

    /// The same slice for a refetch in the background. The page may have changed: a slice of a new version is fine.
    pub fn for_refetch(self) -> Self {
        match self {
            Self::At(Slice { start, bytes, turn: Turn::Next(_) }) => {
                Self::At(Slice { start, bytes, turn: Turn::Next(None) })
            }
            other => other,
        }
    }
}

impl Slice {
    /// The slice at `start` of a page whose first slice has this `ETag`, if any.
    pub fn next(start: u64, bytes: u64, etag: Option<Box<[u8]>>) -> Self {
        Self { start, bytes, turn: Turn::Next(etag) }
    }

    /// Its length, unless the page ends in it.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Its first byte, and its last one unless the page ends in it.
    pub fn ends(&self) -> (u64, u64) {
        (self.start, self.start.saturating_add(self.bytes - 1))
    }

    /// Which part of the page an answer is. `None` if the page is not in slices: the answer is passed on as it is.
    pub fn place(&self, status: u16, fields: &Fields, length: Option<u64>) -> Result<Option<Place>, SliceError> {
        match &self.turn {
            Turn::First if status != status::PARTIAL_CONTENT => return Ok(None),
            Turn::Next(_) if status != status::PARTIAL_CONTENT => return Err(SliceError::Status(status)),
            Turn::Next(Some(etag)) if fields.get_known(Known::Etag) != Some(&**etag) => return Err(SliceError::Etag),
            Turn::First | Turn::Next(_) => {}
        }
        let value = fields.get_known(Known::ContentRange).unwrap_or_default();
        let (start, end, total) = content_range(value).ok_or(SliceError::InvalidRange)?;
        let total = total.ok_or(SliceError::NoLength)?;
        let expected = (self.start, start.saturating_add(self.bytes).min(total));
        if (start, end) != expected || start >= end {
            return Err(SliceError::Range { got: (start, end), expected });
        }
        match length {
            Some(got) if got != end - start => Err(SliceError::Length { got, expected: end - start }),
            Some(_) | None => Ok(Some(Place { lies: start..end, total })),
        }
    }
}

/// Where the body of a 206 lies in its page; `None` if the head does not say it, or what cannot be.
pub fn place_in(fields: &Fields) -> Option<Place> {
    match content_range(fields.get_known(Known::ContentRange)?)? {
        (start, end, Some(total)) if start < end && end <= total => Some(Place { lies: start..end, total }),
        _ => None,
    }
}

/// The first byte of the client's range. It is 0 with several ranges, with one that counts from the end, and with
/// `If-Range`, which may ask for the whole page.
fn first_byte(request: &Fields) -> u64 {
    if request.contains_known(Known::IfRange) {
        return 0;
    }
    let Some(range) = request.get_known(Known::Range) else { return 0 };
    let Some((unit, rest)) = range.split_at_checked(6) else { return 0 };
    if !unit.eq_ignore_ascii_case(b"bytes=") || rest.contains(&b',') {
        return 0;
    }
    number(&mut trim_spaces(rest)).unwrap_or(0)
}

/// Parses `bytes FIRST-LAST/LENGTH`: the first byte, one past the last, and the length unless it is `*`.
fn content_range(value: &[u8]) -> Option<(u64, u64, Option<u64>)> {
    let mut rest = trim_spaces(value.strip_prefix(b"bytes ")?);
    let start = number(&mut rest)?;
    rest = trim_spaces(trim_spaces(rest).strip_prefix(b"-")?);
    let last = number(&mut rest)?;
    rest = trim_spaces(trim_spaces(rest).strip_prefix(b"/")?);
    let total = match rest.strip_prefix(b"*") {
        Some(after) => {
            rest = after;
            None
        }
        None => Some(number(&mut rest)?),
    };
    trim_spaces(rest).is_empty().then_some((start, last + 1, total))
}

fn trim_spaces(text: &[u8]) -> &[u8] {
    let spaces = text.iter().take_while(|&&byte| byte == b' ').count();
    &text[spaces..]
}

/// Takes a number off the beginning; `None` if there is none, or none that could be the length of a file.
fn number(text: &mut &[u8]) -> Option<u64> {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (number, rest) = text.split_at(digits);
    *text = rest;
    std::str::from_utf8(number).ok()?.parse::<i64>().ok().and_then(|number| u64::try_from(number).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(lines: &[(&str, &str)]) -> Fields {
        lines.iter().copied().collect()
    }

    #[test]
    fn the_first_slice_is_that_in_which_the_range_begins() {
        for (range, start) in [
            ("bytes=5-6", 5),
            ("Bytes= 5-6", 5),
            ("bytes=5-", 5),
            ("bytes=5", 5),
            ("bytes=-5", 0),
            ("bytes=5-6,9-", 0),
            ("bytes=x", 0),
            ("bytes=", 0),
            ("items=5-6", 0),
            ("bytes=9223372036854775807-", i64::MAX as u64),
            ("bytes=9223372036854775808-", 0),
            ("", 0),
        ] {
            assert_eq!(first_byte(&fields(&[("Range", range)])), start, "{range}");
        }
        assert_eq!(first_byte(&fields(&[])), 0);
        assert_eq!(first_byte(&fields(&[("Range", "bytes=5-6"), ("If-Range", "\"x\"")])), 0);
    }

    #[test]
    fn content_range_is_read_as_nginx_reads_it() {
        for (value, read) in [
            ("bytes 0-3/10", Some((0, 4, Some(10)))),
            ("bytes  0 - 3 / 10 ", Some((0, 4, Some(10)))),
            ("bytes 0-3/*", Some((0, 4, None))),
            ("bytes 0-3/ * ", Some((0, 4, None))),
            ("bytes 0-9223372036854775807/1", Some((0, 1 << 63, Some(1)))),
            ("bytes 0-9223372036854775808/1", None),
            ("bytes 0-3/10x", None),
            ("bytes 0-3", None),
            ("bytes */10", None),
            ("bytes -3/10", None),
            ("Bytes 0-3/10", None),
            ("bytes", None),
            ("", None),
        ] {
            assert_eq!(content_range(value.as_bytes()), read, "{value}");
        }
    }

    #[test]
    fn an_answer_is_the_slice_that_was_asked_for_or_none() {
        let first = Slice { start: 4, bytes: 4, turn: Turn::First };
        let next = Slice { turn: Turn::Next(Some(Box::from(&b"\"a\""[..]))), ..first.clone() };
        let untold = Slice { turn: Turn::Next(None), ..first.clone() };
        let place = |lies, total| Ok(Some(Place { lies, total }));
        let range = |got, expected| Err(SliceError::Range { got, expected });
        for (slice, status, value, etag, length, expected) in [
            (&first, 206, "bytes 4-7/10", "", Some(4), place(4..8, 10)),
            (&first, 206, "bytes 4-7/8", "", None, place(4..8, 8)),
            (&first, 206, "bytes 4-5/6", "\"b\"", None, place(4..6, 6)),
            (&first, 200, "", "", Some(10), Ok(None)),
            (&first, 404, "bytes 4-7/10", "", None, Ok(None)),
            (&first, 206, "", "", None, Err(SliceError::InvalidRange)),
            (&first, 206, "bytes 4-7/*", "", None, Err(SliceError::NoLength)),
            // nginx expects the end that belongs to the start it received.
            (&first, 206, "bytes 0-3/10", "", None, range((0, 4), (4, 4))),
            (&first, 206, "bytes 4-6/10", "", None, range((4, 7), (4, 8))),
            (&first, 206, "bytes 4-9/10", "", None, range((4, 10), (4, 8))),
            (&first, 206, "bytes 4-3/4", "", None, range((4, 4), (4, 4))),
            (&first, 206, "bytes 4-7/10", "", Some(5), Err(SliceError::Length { got: 5, expected: 4 })),
            (&next, 206, "bytes 4-7/10", "\"a\"", None, place(4..8, 10)),
            (&next, 206, "bytes 4-7/10", "\"b\"", None, Err(SliceError::Etag)),
            (&next, 206, "bytes 4-7/10", "", None, Err(SliceError::Etag)),
            (&next, 200, "", "\"a\"", None, Err(SliceError::Status(200))),
            (&untold, 206, "bytes 4-7/10", "\"b\"", None, place(4..8, 10)),
            (&untold, 416, "", "", None, Err(SliceError::Status(416))),
        ] {
            let lines: Vec<_> =
                [("Content-Range", value), ("ETag", etag)].into_iter().filter(|(_, value)| !value.is_empty()).collect();
            let got = slice.place(status, &fields(&lines), length);
            assert_eq!(got, expected, "{status} {value} {etag} {length:?}");
        }
    }

    #[test]
    fn a_refetch_takes_a_slice_of_the_new_version_too() {
        let etag = Some(Box::from(&b"\"a\""[..]));
        let at = |turn| Slicing::At(Slice { start: 4, bytes: 4, turn });
        assert_eq!(at(Turn::Next(etag)).for_refetch(), at(Turn::Next(None)));
        assert_eq!(at(Turn::First).for_refetch(), at(Turn::First));
    }
}
