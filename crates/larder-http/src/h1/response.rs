//! The head of a response from an HTTP or FastCGI origin.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use crate::field::Fields;
use crate::field::known::Known;
use crate::method::Method;
use crate::status;

use super::error::excerpt;
use super::framing::keeps_alive;
use super::line::{self, BadByte, Line, Sender};
use super::request::HeadStatus;
use super::{Version, version_of_minor};

/// The head of a response.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct ResponseHead {
    /// The status, 100 to 999; 0 in an empty head.
    pub status: u16,
    /// The reason phrase as the origin wrote it, perhaps empty. The usual one is not copied.
    pub reason: Cow<'static, [u8]>,
    /// The version; always 1.1 for a CGI response.
    pub version: Version,
    /// The fields; for a CGI response including `Status`. They can be shared, as an answer is of use to many.
    pub fields: Arc<Fields>,
}

impl ResponseHead {
    /// An empty head.
    pub fn new() -> ResponseHead {
        ResponseHead::default()
    }

    /// Empties it but keeps the memory, unless others share the fields. Returns the fields.
    pub fn clear(&mut self) -> &mut Fields {
        self.status = 0;
        self.reason = Cow::Borrowed(b"");
        self.version = Version::default();
        if Arc::get_mut(&mut self.fields).is_none() {
            self.fields = Arc::default();
        }
        let fields = Arc::get_mut(&mut self.fields).expect("nobody shares them now");
        fields.clear();
        fields
    }
}

/// Why the head of a response was refused. The texts are nginx's.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum ResponseError {
    /// nginx takes such a response for HTTP/0.9, which no origin sends any more.
    #[error("upstream sent no valid HTTP/1.0 header: \"{line}\"")]
    InvalidStatusLine { line: Box<str> },
    #[error("upstream sent invalid status \"{value}\"")]
    InvalidStatus { value: Box<str> },
    /// The line up to the invalid byte.
    #[error("upstream sent invalid header: \"{line}\\x{byte:02x}...\"")]
    InvalidHeader { line: Box<str>, byte: u8 },
    #[error("upstream sent too many header lines, more than {limit}")]
    TooManyFields { limit: usize },
    #[error("upstream sent duplicate header line: \"{name}: {value}\", previous value: \"{name}: {previous}\"")]
    DuplicateField { name: &'static str, value: Box<str>, previous: Box<str> },
    #[error("upstream sent invalid \"Content-Length\" header: \"{value}\"")]
    InvalidContentLength { value: Box<str> },
    #[error("upstream sent \"Content-Length\" and \"Transfer-Encoding\" headers at the same time")]
    BothLengths,
    #[error("upstream sent unknown \"Transfer-Encoding\": \"{value}\"")]
    UnknownTransferEncoding { value: Box<str> },
}

/// How the body of a response ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ResponseFraming {
    /// There is none, whatever the fields say.
    None,
    /// After this many bytes.
    Length(u64),
    /// As a [`ChunkedDecoder`](super::chunked::ChunkedDecoder) says.
    Chunked,
    /// When the origin closes the connection, or ends the FastCGI request.
    UntilClose,
}

/// The most fields of a CGI response.
pub const CGI_FIELDS_MAX: usize = 1000;

/// Reads the head of an HTTP response from the start of `buf` into `head`. An interim response (1xx) is a head like any
/// other.
///
/// As in nginx, lines may end with LF alone, a line without a colon is a field with an empty value, and a second status
/// line among the fields is skipped.
pub fn parse_response(buf: &[u8], head: &mut ResponseHead, max_fields: usize) -> Result<HeadStatus, ResponseError> {
    let fields = head.clear();
    let Some(line_len) = memchr::memchr(b'\n', buf) else {
        return match buf.iter().zip(b"HTTP/").all(|(byte, wanted)| byte == wanted) {
            true => Ok(HeadStatus::Partial),
            false => Err(ResponseError::InvalidStatusLine { line: excerpt(buf) }),
        };
    };
    let line = &buf[..line_len];
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let (version, status, reason) =
        parse_status_line(line).ok_or_else(|| ResponseError::InvalidStatusLine { line: excerpt(line) })?;
    let Some(consumed) = parse_fields(buf, line_len + 1, fields, max_fields)? else {
        return Ok(HeadStatus::Partial);
    };
    head.version = version;
    head.status = status;
    head.reason = reason_of(status, reason);
    Ok(HeadStatus::Complete { consumed })
}

/// The reason phrase of this status, copied only if it is not the usual one.
fn reason_of(status: u16, reason: &[u8]) -> Cow<'static, [u8]> {
    let usual = status::reason(status).as_bytes();
    if usual == reason { Cow::Borrowed(usual) } else { Cow::Owned(reason.to_vec()) }
}

/// `HTTP/1.1 200 OK` as version, status and reason.
fn parse_status_line(line: &[u8]) -> Option<(Version, u16, &[u8])> {
    match usual_status_line(line) {
        Some((status, reason)) => Some((Version::Http11, status, reason)),
        None => parse_any_status_line(line),
    }
}

/// Status and reason of a line as nearly all origins write it.
fn usual_status_line(line: &[u8]) -> Option<(u16, &[u8])> {
    let (status, reason) = line.strip_prefix(b"HTTP/1.1 ")?.split_first_chunk::<3>()?;
    let reason = reason.strip_prefix(b" ")?;
    let is_plain = |byte: &u8| byte.is_ascii_alphabetic() || *byte == b' ';
    (reason.iter().all(is_plain) && reason.last() != Some(&b' ')).then_some((parse_status(status)?, reason))
}

fn parse_any_status_line(line: &[u8]) -> Option<(Version, u16, &[u8])> {
    let rest = line.strip_prefix(b"HTTP/")?;
    let space = memchr::memchr(b' ', rest)?;
    let dot = memchr::memchr(b'.', &rest[..space])?;
    let (major, minor) = (&rest[..dot], &rest[dot + 1..space]);
    if major.first() == Some(&b'0') || major.len() > VERSION_DIGITS_MAX || minor.len() > VERSION_DIGITS_MAX {
        return None;
    }
    let (major, minor) = (crate::decimal(major)?, crate::decimal(minor)?);
    let version = if major > 1 { Version::Http11 } else { version_of_minor(minor as u32) };
    let rest = crate::field::list::trim(&rest[space..]);
    let (status, rest) = rest.split_at_checked(3)?;
    let reason = match rest {
        [] => rest,
        [b' ', reason @ ..] => reason,
        // IIS writes 403.1 and the like.
        [b'.', ..] => rest,
        _ => return None,
    };
    if memchr::memchr2(0, b'\r', reason).is_some() {
        return None;
    }
    Some((version, parse_status(status)?, reason))
}

/// nginx accepts version numbers of up to three digits.
const VERSION_DIGITS_MAX: usize = 3;

fn parse_status(digits: &[u8]) -> Option<u16> {
    let status = u16::try_from(crate::decimal(digits)?).ok()?;
    (100..=999).contains(&status).then_some(status)
}

/// Reads the head of a FastCGI or CGI response from the start of `buf` into `head`. The status is that of the `Status`
/// field; without one it is 302 if there is a `Location`, else 200 (RFC 3875 §6.3). Lines are read as in
/// [`parse_response`].
pub fn parse_cgi(buf: &[u8], head: &mut ResponseHead) -> Result<HeadStatus, ResponseError> {
    let fields = head.clear();
    let Some(consumed) = parse_fields(buf, 0, fields, CGI_FIELDS_MAX)? else {
        return Ok(HeadStatus::Partial);
    };
    let (status, reason) = match fields.get_known(Known::Status) {
        Some(value) => {
            let invalid = || ResponseError::InvalidStatus { value: excerpt(value) };
            let (digits, rest) = value.split_at_checked(3).ok_or_else(invalid)?;
            let status = parse_status(digits).ok_or_else(invalid)?;
            (status, reason_of(status, rest.strip_prefix(b" ").unwrap_or(rest)))
        }
        None => {
            let is_redirect = fields.contains_known(Known::Location);
            let status = if is_redirect { status::MOVED_TEMPORARILY } else { status::OK };
            (status, Cow::Borrowed(status::reason(status).as_bytes()))
        }
    };
    head.version = Version::Http11;
    head.status = status;
    head.reason = reason;
    Ok(HeadStatus::Complete { consumed })
}

/// Reads the fields that start at `start` of `buf`. Returns where the body starts, or `None` if the fields are
/// incomplete; then `fields` is empty.
fn parse_fields(
    buf: &[u8],
    start: usize,
    fields: &mut Fields,
    max_fields: usize,
) -> Result<Option<usize>, ResponseError> {
    let mut at = start;
    fields.expect_head();
    loop {
        let line = line::read(buf, at, Sender::Origin).map_err(|BadByte(bad)| {
            fields.clear();
            ResponseError::InvalidHeader { line: excerpt(&buf[at..bad]), byte: buf[bad] }
        })?;
        match line {
            Line::Partial => {
                fields.clear();
                return Ok(None);
            }
            Line::End { next } => {
                fields.fill(&buf[start..at]);
                return Ok(Some(next));
            }
            Line::SecondStatus { next } => at = next,
            Line::Field(_) if fields.len() == max_fields => {
                fields.clear();
                return Err(ResponseError::TooManyFields { limit: max_fields });
            }
            Line::Field(field) => {
                let in_block = |range: Range<usize>| range.start - start..range.end - start;
                fields.note(field.known, in_block(field.name), in_block(field.value), field.is_plain);
                at = field.next;
            }
        }
    }
}

/// Decides how the body of a response ends (RFC 9112 §6.3). As nginx, it refuses every head about which two readers
/// might disagree: with both `Content-Length` and `Transfer-Encoding`, two lengths, a length that is not just digits,
/// or codings other than `chunked`.
pub fn response_framing(head: &ResponseHead, request_method: Method) -> Result<ResponseFraming, ResponseError> {
    let length = content_length(&head.fields)?;
    let is_chunked = is_chunked(&head.fields)?;
    let has_no_body = request_method == Method::Head || matches!(head.status, 100..=199 | 204 | 304);
    match (length, is_chunked) {
        (Some(_), true) => Err(ResponseError::BothLengths),
        _ if has_no_body => Ok(ResponseFraming::None),
        (Some(length), false) => Ok(ResponseFraming::Length(length)),
        (None, true) => Ok(ResponseFraming::Chunked),
        (None, false) => Ok(ResponseFraming::UntilClose),
    }
}

/// Whether the origin offers to keep the connection, if the body does not end by closing it.
pub fn keep_alive_offered(head: &ResponseHead) -> bool {
    keeps_alive(head.version, &head.fields)
}

fn content_length(fields: &Fields) -> Result<Option<u64>, ResponseError> {
    let mut values = fields.all_known(Known::ContentLength);
    let Some(first) = values.next() else {
        return Ok(None);
    };
    if let Some(other) = values.next() {
        return Err(duplicate(Known::ContentLength, other, first));
    }
    match crate::decimal(first) {
        Some(length) => Ok(Some(length)),
        None => Err(ResponseError::InvalidContentLength { value: excerpt(first) }),
    }
}

fn is_chunked(fields: &Fields) -> Result<bool, ResponseError> {
    let mut values = fields.all_known(Known::TransferEncoding);
    let Some(first) = values.next() else {
        return Ok(false);
    };
    if let Some(other) = values.next() {
        return Err(duplicate(Known::TransferEncoding, other, first));
    }
    match first.eq_ignore_ascii_case(b"chunked") {
        true => Ok(true),
        false => Err(ResponseError::UnknownTransferEncoding { value: excerpt(first) }),
    }
}

fn duplicate(known: Known, value: &[u8], previous: &[u8]) -> ResponseError {
    ResponseError::DuplicateField { name: known.name(), value: excerpt(value), previous: excerpt(previous) }
}
