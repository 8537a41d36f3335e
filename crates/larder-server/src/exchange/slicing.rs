//! Where a request is with the slices of its page, and which slice an answer is.

use std::ops::Range;

use larder_http::{Fields, Known, status};

/// Where an exchange is with the slices of its page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Slicing {
    /// Nobody has asked for `$slice_range`.
    #[default]
    Unasked,
    /// This one is asked for, or was the last that was.
    At(Slice),
    /// The response has its head, and is not in slices, or all of them have been sent.
    Over,
}

/// A slice that is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slice {
    start: u64,
    /// How long it is, unless the page ends in it.
    bytes: u64,
    turn: Turn,
}

/// When a slice's turn comes.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Turn {
    /// It is the first of its response, which may turn out to be none.
    First,
    /// It follows another, and has this `ETag` if that one had any.
    Next(Option<Box<[u8]>>),
}

/// Why an answer is not the slice that was asked for. The words are nginx's.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum SliceError {
    /// The slices before it were there.
    #[error("unexpected status code {0} in slice response")]
    Status(u16),
    /// It is of another version of the page.
    #[error("etag mismatch in slice response")]
    Etag,
    /// `Content-Range` is not there or cannot be read.
    #[error("invalid range in slice response")]
    InvalidRange,
    /// `Content-Range` has a `*` for the length.
    #[error("no complete length in slice response")]
    NoLength,
    /// It is another part of the page.
    #[error("unexpected range in slice response: {}-{}, expected: {}-{}", got.0, got.1, expected.0, expected.1)]
    Range {
        /// Where it begins, and one past its end.
        got: (u64, u64),
        /// Where it should.
        expected: (u64, u64),
    },
    /// Its body has another length than its range.
    #[error("unexpected length in slice response: {got}, expected: {expected}")]
    Length {
        /// How long it is.
        got: u64,
        /// How long its range is.
        expected: u64,
    },
    /// No answer that could be a slice, but for example a redirect.
    #[error("missing slice response")]
    Missing,
}

/// Where a slice lies in its page.
#[derive(Debug, PartialEq, Eq)]
pub struct Place {
    /// Its bytes.
    pub lies: Range<u64>,
    /// The length of the page.
    pub total: u64,
}

impl Slicing {
    /// The slice that is asked for. Who asks first, asks for that in which the range of the client begins; once the
    /// response has its head it is too late.
    ///
    /// `bytes` is how long a slice is, 0 for a location without slices, `request` the fields of a client whose range is looked at.
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

    /// The same for a refetch in the background. The page may have changed: a slice of the new version is as good.
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
    /// The slice at `start` of a page whose other slices have this `ETag`, if they have any.
    pub fn next(start: u64, bytes: u64, etag: Option<Box<[u8]>>) -> Self {
        Self { start, bytes, turn: Turn::Next(etag) }
    }

    /// How long it is, unless the page ends in it.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Its first byte, and its last unless the page ends in it.
    pub fn ends(&self) -> (u64, u64) {
        (self.start, self.start.saturating_add(self.bytes - 1))
    }

    /// Which part of the page an answer is. `None`: the page is not in slices, and the answer is passed on as it is.
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

/// Where the client's range begins. With several ranges, one that counts from the end, or one under a condition,
/// which may lead to the whole page, that is the beginning.
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

/// `bytes FIRST-LAST/LENGTH` as the first byte, the one past the last, and the length unless that is `*`.
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

/// Takes a number off the beginning; `None` where there is none, or one that no file could have as its length.
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
        let mut fields = Fields::new();
        for (name, value) in lines {
            fields.push(name.as_bytes(), value.as_bytes());
        }
        fields
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
            // nginx expects the end that goes with the start that it got.
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
