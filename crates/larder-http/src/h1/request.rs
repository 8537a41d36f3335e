//! The head of a request.

use crate::field::Fields;
use crate::field::known::Known;
use crate::field::list::is_token_byte;
use crate::method::Method;
use crate::scan;

use super::error::{HeadError, excerpt};
use super::line::{self, BadByte, FieldLine, Letters, Line, Sender};
use super::{Version, version_of_minor};

/// The head of a request. A connection reuses one, so that parsing allocates nothing once the buffers have grown.
#[derive(Clone, Default, Debug)]
pub struct RequestHead {
    /// The method; [`RequestHead::method_name`] has its name.
    pub method: Method,
    /// The version.
    pub version: Version,
    /// The fields.
    pub fields: Fields,
    pub(crate) line: Vec<u8>,
    pub(crate) parts: LineParts,
    pub(crate) bytes: usize,
    pub(crate) ignored: Fields,
}

/// The positions of the parts of a request line.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct LineParts {
    pub method_len: usize,
    pub target: (usize, usize),
    pub host: Option<(usize, usize)>,
    /// HTTP/2 data that the line does not have is stored after it: its length. Then the position of the scheme in it.
    pub beside_len: usize,
    pub scheme: Option<(usize, usize)>,
}

/// The limits of request heads.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HeadLimits {
    /// The longest request line with its line end; the size of one of `large_client_header_buffers`.
    pub line_bytes: usize,
    /// The largest head from the request line to the empty line; the size of all those buffers.
    pub head_bytes: usize,
    /// The longest field line with its line end.
    pub field_bytes: usize,
    /// `max_headers`: the most fields, not counting ignored ones.
    pub max_fields: usize,
    /// `ignore_invalid_headers`: fields with odd names are skipped, not kept.
    pub ignore_invalid: bool,
    /// `underscores_in_headers`: a name with an underscore is not odd.
    pub underscores: bool,
    /// As Varnish, and not nginx: a name that is no token is refused, and so is a control character but a tab in a value.
    pub strict_fields: bool,
}

impl Default for HeadLimits {
    /// nginx's defaults.
    fn default() -> HeadLimits {
        HeadLimits {
            line_bytes: 8192,
            head_bytes: 4 * 8192,
            field_bytes: 8192,
            max_fields: 1000,
            ignore_invalid: true,
            underscores: false,
            strict_fields: false,
        }
    }
}

/// Whether a head is complete.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HeadStatus {
    /// It is valid so far; when more has arrived, parse it again from the start.
    Partial,
    /// The head is complete; the body starts after this many bytes.
    Complete {
        /// The bytes of the head, empty lines before it included.
        consumed: usize,
    },
}

impl RequestHead {
    /// An empty head.
    pub fn new() -> RequestHead {
        RequestHead::default()
    }

    /// Empties it but keeps the memory.
    pub fn clear(&mut self) {
        self.method = Method::default();
        self.version = Version::default();
        self.fields.clear();
        self.line.clear();
        self.parts = LineParts::default();
        self.bytes = 0;
        self.ignored.clear();
    }

    /// The method as sent.
    pub fn method_name(&self) -> &[u8] {
        self.line.get(..self.parts.method_len).unwrap_or_default()
    }

    /// Path and arguments as sent: nginx's `$request_uri`. For `http://host/path` it is `/path`; for a target without a
    /// path `/`; for one with only arguments `?args`.
    pub fn target(&self) -> &[u8] {
        self.part(self.parts.target)
    }

    /// Host and port of the target, if it has them: of `http://host:port/path`, or `host:port` with CONNECT. They
    /// override the `Host` field. Over HTTP/2 it is `:authority`.
    pub fn target_host(&self) -> Option<&[u8]> {
        self.parts.host.map(|host| self.part(host))
    }

    /// Over HTTP/2, the scheme that the client claims to use: `:scheme`.
    pub fn scheme(&self) -> Option<&[u8]> {
        self.parts.scheme.map(|scheme| self.part(scheme))
    }

    /// The request line as sent, without its line end: nginx's `$request`. For a refused head, as much as arrived. Over
    /// HTTP/2 it is composed, as in nginx: `GET /path HTTP/2.0`.
    pub fn line(&self) -> &[u8] {
        let len = self.line.len().saturating_sub(self.parts.beside_len);
        self.line.get(..len).unwrap_or_default()
    }

    /// The size of the received head, without empty lines before it; over HTTP/2 the size of the field block.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The fields that were skipped because of their names, for the log message
    /// `client sent invalid header line: "name: value"`.
    pub fn ignored(&self) -> &Fields {
        &self.ignored
    }

    /// Makes this head the same as another, in the memory that it has.
    pub fn copy_from(&mut self, other: &RequestHead) {
        self.clear();
        self.method = other.method;
        self.version = other.version;
        self.fields.copy_from(&other.fields);
        self.line.extend_from_slice(&other.line);
        self.parts = other.parts;
        self.bytes = other.bytes;
        self.ignored.copy_from(&other.ignored);
    }

    /// Asks for something else: another method, another target. What the old target said beside its path, host and
    /// scheme, is forgotten.
    pub fn ask(&mut self, method: &[u8], target: &[u8]) {
        self.method = Method::of(method);
        self.line.clear();
        self.line.extend_from_slice(method);
        self.line.push(b' ');
        let start = self.line.len();
        self.line.extend_from_slice(target);
        self.parts = LineParts { method_len: method.len(), target: (start, self.line.len()), ..LineParts::default() };
        self.line.extend_from_slice(match self.version {
            Version::Http10 => b" HTTP/1.0",
            Version::Http11 => b" HTTP/1.1",
            Version::Http2 => b" HTTP/2.0",
        });
    }

    /// Forgets the target, which cannot be trusted; the line stays, for the log.
    pub fn forget_target(&mut self) {
        self.parts.target = (0, 0);
        self.parts.host = None;
    }

    fn part(&self, (start, end): (usize, usize)) -> &[u8] {
        self.line.get(start..end).unwrap_or_default()
    }
}

/// Reads a request head from the start of `buf` into `head`, by nginx's rules. A few empty lines before it are skipped.
/// Lines may end with LF alone. Values are not checked, only that certain fields come at most once: call
/// [`check_host`](super::framing::check_host) and [`body_framing`](super::framing::body_framing) next. On an error,
/// `head` has what came before it: the request line for the log, and fields, of which `Host` decides which server
/// answers.
pub fn parse_request(buf: &[u8], head: &mut RequestHead, limits: &HeadLimits) -> Result<HeadStatus, HeadError> {
    head.clear();
    let Some(start) = buf.iter().position(|byte| !matches!(byte, b'\r' | b'\n')) else {
        return if buf.len() > BLANK_BYTES_MAX { Err(HeadError::InvalidMethod) } else { Ok(HeadStatus::Partial) };
    };
    if start > BLANK_BYTES_MAX {
        return Err(HeadError::InvalidMethod);
    }
    let text = &buf[start..];
    let Some(line_len) = memchr::memchr(b'\n', &text[..text.len().min(limits.line_bytes)]) else {
        return partial_line(text, head, limits);
    };
    let line = &text[..line_len];
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    head.line.extend_from_slice(line);
    let (parts, version) = parse_line(line)?;
    head.parts = parts;
    head.version = version;
    head.method = Method::of(head.method_name());
    let start_of_fields = line_len + 1;
    let mut at = start_of_fields;
    match parse_fields(text, &mut at, head, limits) {
        Ok(Some(len)) => {
            head.bytes = len;
            Ok(HeadStatus::Complete { consumed: start + len })
        }
        Ok(None) => {
            head.clear();
            Ok(HeadStatus::Partial)
        }
        Err(error) => {
            head.fields.fill(&text[start_of_fields..at]);
            Err(error)
        }
    }
}

/// How many bytes of empty lines may come before a request line. Old browsers send CR LF after a POST body.
const BLANK_BYTES_MAX: usize = 64;

/// Checks an incomplete request line. Bytes that cannot be HTTP, such as a TLS handshake on a port without TLS, are
/// refused at once, because their sender waits for an answer.
fn partial_line(text: &[u8], head: &mut RequestHead, limits: &HeadLimits) -> Result<HeadStatus, HeadError> {
    let is_too_long = text.len() >= limits.line_bytes;
    let text = &text[..text.len().min(limits.line_bytes)];
    let result = match text.iter().position(|&byte| !is_method(byte)) {
        Some(end) if end == 0 || text[end] != b' ' => Err(HeadError::InvalidMethod),
        Some(end) if has_control(&text[end..]) => Err(HeadError::InvalidRequest),
        _ if is_too_long => Err(HeadError::LineTooLong),
        _ => return Ok(HeadStatus::Partial),
    };
    let end = memchr::memchr(b'\r', text).unwrap_or(text.len());
    head.line.extend_from_slice(&text[..end]);
    result
}

/// Whether there is a control character, except for a CR at the end.
fn has_control(text: &[u8]) -> bool {
    let text = text.strip_suffix(b"\r").unwrap_or(text);
    text.iter().any(|byte| byte.is_ascii_control())
}

/// Parses a request line without its line end.
fn parse_line(line: &[u8]) -> Result<(LineParts, Version), HeadError> {
    let method_len = line.iter().position(|&byte| !is_method(byte)).ok_or(HeadError::InvalidMethod)?;
    if method_len == 0 || line[method_len] != b' ' {
        return Err(HeadError::InvalidMethod);
    }
    let start = skip_spaces(line, method_len);
    let end = scan::space_or_control(line, start).unwrap_or(line.len());
    let version_at = skip_spaces(line, end);
    let target = parse_target(line, method_len, (start, end), version_at)?;
    if version_at == line.len() {
        return Err(if start == end { HeadError::InvalidRequest } else { HeadError::Http09 });
    }
    if version_at == end {
        // The target ends at something that is not a space.
        return Err(HeadError::InvalidRequest);
    }
    Ok((target, parse_version(&line[version_at..])?))
}

fn skip_spaces(line: &[u8], mut at: usize) -> usize {
    while line.get(at) == Some(&b' ') {
        at += 1;
    }
    at
}

/// Parses the target at `start..end`: a path, a URI, or a host with CONNECT.
fn parse_target(
    line: &[u8],
    method_len: usize,
    (start, end): (usize, usize),
    version_at: usize,
) -> Result<LineParts, HeadError> {
    let target = &line[start..end];
    if target.first() == Some(&b'/') {
        return Ok(LineParts { method_len, target: (start, end), ..LineParts::default() });
    }
    if &line[..method_len] == b"CONNECT" {
        return match host_len(target) {
            Some(len) if len == target.len() => {
                // The slash of "HTTP/1.1" is the path, as in nginx.
                let slash = version_at + 4;
                let host = Some((start, end));
                Ok(LineParts { method_len, target: (slash, slash + 1), host, ..LineParts::default() })
            }
            _ => Err(HeadError::InvalidRequest),
        };
    }
    let scheme_len = target
        .iter()
        .position(|byte| !(byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.')))
        .filter(|_| target.first().is_some_and(u8::is_ascii_alphabetic))
        .ok_or(HeadError::InvalidRequest)?;
    let after_scheme = target[scheme_len..].strip_prefix(b"://").ok_or(HeadError::InvalidRequest)?;
    let host_start = start + scheme_len + 3;
    let host_len = host_len(after_scheme).ok_or(HeadError::InvalidRequest)?;
    let host_end = host_start + host_len;
    let target = match after_scheme.get(host_len) {
        Some(b'/' | b'?') => (host_end, end),
        // The target has no path: a slash of "://" is used as the path "/".
        None => (host_start - 2, host_start - 1),
        Some(_) => return Err(HeadError::InvalidRequest),
    };
    Ok(LineParts { method_len, target, host: Some((host_start, host_end)), ..LineParts::default() })
}

/// The length of the host and port at the start of `text`. `None` if a bracket is not closed.
fn host_len(text: &[u8]) -> Option<usize> {
    let name_len = if text.first() == Some(&b'[') {
        memchr::memchr(b']', text)? + 1
    } else {
        text.iter()
            .position(|byte| !(byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-')))
            .unwrap_or(text.len())
    };
    let Some(b':') = text.get(name_len) else {
        return Some(name_len);
    };
    let digits = text[name_len + 1..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    Some(name_len + 1 + digits)
}

/// `HTTP/1.1`, perhaps with spaces after it.
fn parse_version(text: &[u8]) -> Result<Version, HeadError> {
    match text {
        b"HTTP/1.1" => return Ok(Version::Http11),
        b"HTTP/1.0" => return Ok(Version::Http10),
        _ => {}
    }
    let number = text.strip_prefix(b"HTTP/").ok_or(HeadError::InvalidRequest)?;
    let number = &number[..number.iter().rposition(|&byte| byte != b' ').map_or(0, |last| last + 1)];
    match number {
        [b'2'..=b'9', ..] | [b'1', b'0'..=b'9', ..] => Err(HeadError::InvalidVersion),
        [b'1', b'.', minor @ ..] if (1..=MINOR_DIGITS_MAX).contains(&minor.len()) => {
            let minor = crate::decimal(minor).ok_or(HeadError::InvalidRequest)?;
            Ok(version_of_minor(minor as u32))
        }
        _ => Err(HeadError::InvalidRequest),
    }
}

/// nginx accepts minor versions of up to three digits.
const MINOR_DIGITS_MAX: usize = 3;

/// Reads the fields that start at `next_line` of `text`. Returns the length of the whole head, or `None` if it is
/// incomplete. The fields are copied into `head` as one block, with their positions noted. On an error, the fields
/// before it are noted.
fn parse_fields(
    text: &[u8],
    next_line: &mut usize,
    head: &mut RequestHead,
    limits: &HeadLimits,
) -> Result<Option<usize>, HeadError> {
    let start = *next_line;
    loop {
        let at = *next_line;
        let line = line::read(text, at, Sender::Client)
            .map_err(|BadByte(bad)| HeadError::InvalidField { line: excerpt(&text[at..bad]), byte: text[bad] })?;
        let (Line::Field(FieldLine { next, .. }) | Line::End { next } | Line::SecondStatus { next }) = line else {
            return match text.len() {
                len if len - at >= limits.field_bytes => Err(field_too_long(&text[at..])),
                len if len >= limits.head_bytes => Err(HeadError::HeadTooLarge),
                _ => Ok(None),
            };
        };
        if next - at > limits.field_bytes {
            return Err(field_too_long(&text[at..next]));
        }
        if next > limits.head_bytes {
            return Err(HeadError::HeadTooLarge);
        }
        let Line::Field(field) = line else {
            head.fields.fill(&text[start..next]);
            return Ok(Some(next));
        };
        if limits.strict_fields
            && let Some(bad) = unfit(text, &field)
        {
            return Err(HeadError::InvalidField { line: excerpt(&text[at..bad]), byte: text[bad] });
        }
        if limits.ignore_invalid && is_odd(&field, limits) {
            head.ignored.push(&text[field.name], &text[field.value]);
        } else {
            if comes_once(field.known) && head.fields.contains_known(field.known) {
                return Err(HeadError::DuplicateField { name: field.known.name() });
            }
            if head.fields.len() == limits.max_fields {
                return Err(HeadError::TooManyFields);
            }
            let in_block = |range: std::ops::Range<usize>| range.start - start..range.end - start;
            head.fields.note(field.known, in_block(field.name), in_block(field.value), field.is_plain);
        }
        *next_line = next;
    }
}

fn field_too_long(line: &[u8]) -> HeadError {
    HeadError::FieldTooLong { line: excerpt(line) }
}

/// Where a name is no token (RFC 9110 §5.6.2), or a value has a control character but a tab.
fn unfit(text: &[u8], field: &FieldLine) -> Option<usize> {
    let in_name = match field.letters {
        Letters::Plain | Letters::Underscores => None,
        Letters::Odd => field.name.clone().find(|&at| !is_token_byte(text[at])),
    };
    in_name.or_else(|| scan::control(&text[..field.value.end], field.value.start))
}

fn is_odd(field: &FieldLine, limits: &HeadLimits) -> bool {
    match field.letters {
        Letters::Plain => false,
        Letters::Underscores => !limits.underscores,
        Letters::Odd => true,
    }
}

/// The fields that nginx accepts only once; it answers 400 if they come again.
pub(crate) const fn comes_once(known: Known) -> bool {
    matches!(
        known,
        Known::Host
            | Known::IfModifiedSince
            | Known::IfUnmodifiedSince
            | Known::IfMatch
            | Known::IfNoneMatch
            | Known::IfRange
            | Known::ContentLength
            | Known::ContentRange
            | Known::TransferEncoding
            | Known::Expect
            | Known::Authorization
            | Known::ProxyAuthorization
    )
}

pub(crate) fn is_method(byte: u8) -> bool {
    matches!(byte, b'A'..=b'Z' | b'_' | b'-')
}
