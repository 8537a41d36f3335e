//! Makes a request head from a field block, by nginx's rules and RFC 9113 §8.

use std::ops::Range;

use crate::field::known::Known;
use crate::field::list::is_token_byte;
use crate::h1::Version;
use crate::h1::error::{HeadError, excerpt};
use crate::h1::request::{HeadLimits, LineParts, RequestHead, comes_once, is_method};
use crate::method::Method;
use crate::scan;

use super::config::LIST_FACTOR;
use super::error::ConnectionError;
use super::hpack::{Class, Decoded, Decoder, is_of_connection};

/// A request that was read.
#[derive(Default, Debug)]
pub(super) struct Request {
    /// Why it has to be answered with an error.
    pub refused: Option<HeadError>,
    pub content_length: Option<u64>,
    /// Whether there is a `Priority` field.
    pub has_priority: bool,
    /// How many `Cookie` fields there are.
    crumbs: usize,
    /// Whether it is malformed (RFC 9113 §8.1.1).
    pub is_malformed: bool,
}

impl Request {
    /// Marks it as malformed: it is answered with an error, and then its stream is reset.
    pub fn refuse(&mut self, Malformed(what): Malformed) {
        self.is_malformed = true;
        self.refused = Some(HeadError::Malformed { what });
    }
}

/// The request is malformed, for this reason: it gets an error, and its stream is reset with PROTOCOL_ERROR (RFC 9113
/// §8.1.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Malformed(pub &'static str);

/// Reads a request from a whole field block into `head`.
pub(super) fn read_request(
    decoder: &mut Decoder,
    block: &[u8],
    head: &mut RequestHead,
    limits: &HeadLimits,
) -> Result<Request, ConnectionError> {
    head.clear();
    head.version = Version::Http2;
    head.bytes = block.len();
    let mut text = head.fields.take_text();
    let mut reader = Reader {
        head,
        limits,
        pseudo: Pseudo::default(),
        list_bytes: 0,
        fields: 0,
        crumbs: 0,
        has_fields: false,
        malformed: None,
        refused: None,
        host: None,
        content_length: None,
        has_priority: false,
    };
    let result = decoder.decode(block, &mut text, |text, field| reader.take(text, field));
    let finished = result.map(|()| reader.finish(&mut text));
    head.fields.return_text(text);
    let request = finished?.unwrap_or_else(|malformed| {
        let mut request = Request::default();
        request.refuse(malformed);
        request
    });
    if request.refused.is_some() {
        head.fields.clear();
    } else if request.crumbs > 1 {
        // RFC 9113 §8.2.3.
        head.fields.join(Known::Cookie, b"; ");
    }
    Ok(request)
}

/// Reads and drops trailers, or the head of a refused stream. `head` only lends its memory.
pub(super) fn skip_fields(
    decoder: &mut Decoder,
    block: &[u8],
    head: &mut RequestHead,
    limits: &HeadLimits,
) -> Result<Result<(), Malformed>, ConnectionError> {
    head.clear();
    let mut text = head.fields.take_text();
    let (mut list_bytes, mut is_malformed) = (0, false);
    let result = decoder.decode(block, &mut text, |text, field| {
        list_bytes += text.len();
        is_malformed |= field.kind.class > Class::Odd || !field.is_value_clean || is_of_connection(field.kind.known);
        text.clear();
        bounded(list_bytes, limits)
    });
    text.clear();
    head.fields.return_text(text);
    result?;
    Ok(if is_malformed { Err(Malformed("malformed trailers")) } else { Ok(()) })
}

fn bounded(list_bytes: usize, limits: &HeadLimits) -> Result<(), ConnectionError> {
    if list_bytes > limits.head_bytes.saturating_mul(LIST_FACTOR) {
        return Err(ConnectionError::calm("much too large field section"));
    }
    Ok(())
}

/// Where the values of the pseudo fields are.
#[derive(Default)]
struct Pseudo {
    method: Option<Range<usize>>,
    scheme: Option<Range<usize>>,
    authority: Option<Range<usize>>,
    path: Option<Range<usize>>,
}

/// What a field needs when it is kept.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Treatment {
    Nothing,
    /// It affects how others are read, or has to be counted.
    Noted,
    /// It may come only once; some of these are noted too.
    Once,
    /// It is not allowed in HTTP/2.
    OfConnection,
    Te,
}

static TREATMENTS: [Treatment; 256] = {
    let mut treatments = [Treatment::Nothing; 256];
    let mut at = 0;
    while at < Known::ALL.len() {
        let known = Known::ALL[at];
        treatments[known as usize] = match known {
            Known::Te => Treatment::Te,
            Known::Cookie | Known::Priority => Treatment::Noted,
            known if is_of_connection(known) => Treatment::OfConnection,
            known if comes_once(known) => Treatment::Once,
            _ => Treatment::Nothing,
        };
        at += 1;
    }
    treatments
};

struct Reader<'h> {
    head: &'h mut RequestHead,
    limits: &'h HeadLimits,
    pseudo: Pseudo,
    /// The bytes of names and values so far.
    list_bytes: usize,
    /// Fields that count for `max_fields`.
    fields: usize,
    crumbs: usize,
    /// Whether a field came that is not a pseudo field.
    has_fields: bool,
    malformed: Option<Malformed>,
    refused: Option<HeadError>,
    host: Option<Range<usize>>,
    content_length: Option<Range<usize>>,
    has_priority: bool,
}

impl Reader<'_> {
    /// Processes a field that was appended to `text`.
    #[inline]
    fn take(&mut self, text: &mut Vec<u8>, field: Decoded) -> Result<(), ConnectionError> {
        let bytes = field.end - field.name_at;
        self.list_bytes += bytes;
        if self.list_bytes > self.limits.head_bytes {
            bounded(self.list_bytes, self.limits)?;
            self.refuse(HeadError::HeadTooLarge);
        }
        let is_plain = field.kind.class == Class::Plain
            && field.is_value_clean
            && !(self.limits.strict_fields && scan::control(text, field.value_at).is_some())
            && bytes <= self.limits.field_bytes
            && self.refused.is_none();
        let is_kept = if is_plain && TREATMENTS[field.kind.known as usize] == Treatment::Nothing {
            self.has_fields = true;
            self.keep(text, field, Known::Other)
        } else {
            self.keep_special(text, field)
        };
        if !is_kept {
            text.truncate(field.name_at);
        }
        Ok(())
    }

    #[cold]
    fn refuse(&mut self, error: HeadError) {
        self.refused.get_or_insert(error);
    }

    /// Checks and notes a field that needs special treatment. True if it is kept.
    fn keep_special(&mut self, text: &[u8], field: Decoded) -> bool {
        match field.kind.class {
            Class::Plain | Class::Underscores | Class::Odd => {}
            Class::Method => return self.keep_pseudo(field, |pseudo| &mut pseudo.method),
            Class::Scheme => return self.keep_pseudo(field, |pseudo| &mut pseudo.scheme),
            Class::Authority => return self.keep_pseudo(field, |pseudo| &mut pseudo.authority),
            Class::Path => return self.keep_pseudo(field, |pseudo| &mut pseudo.path),
            Class::OtherPseudo => return self.is_none_for("unknown pseudo-header"),
            Class::Malformed => return self.is_none_for("invalid header name"),
        }
        self.has_fields = true;
        let treatment = TREATMENTS[field.kind.known as usize];
        let is_other_te = || !text[trimmed(text, field.value())].eq_ignore_ascii_case(b"trailers");
        if treatment == Treatment::OfConnection || treatment == Treatment::Te && is_other_te() {
            return self.is_none_for("header of a connection over HTTP/2");
        }
        if self.refused.is_some() {
            return false;
        }
        let bad = match self.limits.strict_fields {
            false if field.is_value_clean => None,
            false => scan::line_end_or_nul(text, field.value_at),
            true if field.kind.class == Class::Odd => {
                field.name().find(|&at| !is_token_byte(text[at])).or_else(|| scan::control(text, field.value_at))
            }
            true => scan::control(text, field.value_at),
        };
        if let Some(at) = bad {
            self.refuse(HeadError::InvalidField { line: excerpt(&text[field.name_at..at]), byte: text[at] });
            return false;
        }
        if field.end - field.name_at > self.limits.field_bytes {
            self.refuse(HeadError::FieldTooLong { line: excerpt(&text[field.name_at..]) });
            return false;
        }
        let is_odd = match field.kind.class {
            Class::Underscores => !self.limits.underscores,
            class => class != Class::Plain,
        };
        if is_odd && self.limits.ignore_invalid {
            self.head.ignored.push(&text[field.name()], &text[trimmed(text, field.value())]);
            return false;
        }
        if treatment == Treatment::Once && self.head.fields.contains_known(field.kind.known) {
            self.refuse(HeadError::DuplicateField { name: field.kind.known.name() });
            return false;
        }
        self.keep(text, field, field.kind.known)
    }

    /// Keeps a pseudo field, which must come once, before all fields, and not be empty (RFC 9113 §8.3).
    #[inline]
    fn keep_pseudo(&mut self, field: Decoded, place: impl Fn(&mut Pseudo) -> &mut Option<Range<usize>>) -> bool {
        let place = place(&mut self.pseudo);
        let what = match () {
            () if self.has_fields => "out of order pseudo-headers",
            () if place.is_some() => "duplicate pseudo-header",
            () if field.value().is_empty() => "empty pseudo-header",
            () if !field.is_value_clean => "invalid pseudo-header",
            () => {
                *place = Some(field.value());
                return true;
            }
        };
        self.is_none_for(what)
    }

    /// Notes that the request is malformed; the field is not kept.
    #[cold]
    fn is_none_for(&mut self, what: &'static str) -> bool {
        self.malformed.get_or_insert(Malformed(what));
        false
    }

    /// Keeps a valid field, and notes its position if it is a `special` one.
    #[inline]
    fn keep(&mut self, text: &[u8], field: Decoded, special: Known) -> bool {
        let value = trimmed(text, field.value());
        match special {
            Known::Cookie => self.crumbs += 1,
            Known::Host => self.host = Some(value.clone()),
            Known::ContentLength => self.content_length = Some(value.clone()),
            Known::Priority => self.has_priority = true,
            _ => {}
        }
        if special != Known::Cookie {
            if self.fields == self.limits.max_fields {
                self.refuse(HeadError::TooManyFields);
                return false;
            }
            self.fields += 1;
        }
        self.head.fields.note(field.kind.known, field.name(), value, false);
        true
    }

    /// Composes what HTTP/1 would have: the request line, the host, one `Cookie` field.
    fn finish(mut self, text: &mut Vec<u8>) -> Result<Request, Malformed> {
        if let Some(malformed) = self.malformed {
            return Err(malformed);
        }
        let method = self.pseudo.method.clone().ok_or(Malformed("no :method header"))?;
        self.head.method = Method::of(&text[method.clone()]);
        if self.head.method == Method::Other && !text[method.clone()].iter().all(|&byte| is_method(byte)) {
            self.refuse(HeadError::InvalidMethod);
        }
        self.write_line(text, method)?;
        self.name_host(text);
        let content_length = match self.content_length.take() {
            None => None,
            Some(digits) => match crate::decimal(&text[digits]) {
                Some(length) => Some(length),
                None => {
                    self.refuse(HeadError::InvalidContentLength);
                    None
                }
            },
        };
        Ok(Request {
            refused: self.refused,
            content_length,
            has_priority: self.has_priority,
            crumbs: self.crumbs,
            is_malformed: false,
        })
    }

    /// Writes the request line, and after it the scheme and the authority.
    fn write_line(&mut self, text: &[u8], method: Range<usize>) -> Result<(), Malformed> {
        let Pseudo { scheme, authority, path, .. } = &self.pseudo;
        // CONNECT only names a host (RFC 9113 §8.5). nginx, which does not support it, requires all pseudo fields.
        let is_connect = self.head.method == Method::Connect && scheme.is_none() && path.is_none();
        let target = if is_connect { authority } else { path };
        let target = target.clone().ok_or(Malformed("no :path header"))?;
        if scheme.is_none() && !is_connect {
            return Err(Malformed("no :scheme header"));
        }
        let line = &mut self.head.line;
        line.extend_from_slice(&text[method]);
        let method_len = line.len();
        line.push(b' ');
        line.extend_from_slice(&text[target.clone()]);
        let target_end = line.len();
        line.extend_from_slice(b" HTTP/2.0");
        let line_len = line.len();
        let mut beside = |part: &Option<Range<usize>>| {
            let part = part.clone()?;
            let start = line.len();
            line.extend_from_slice(&text[part]);
            Some((start, line.len()))
        };
        let (scheme_at, host) = (beside(scheme), beside(authority));
        self.head.parts = LineParts {
            method_len,
            // The slash of "HTTP/2.0" is the path of CONNECT, as in HTTP/1.
            target: if is_connect { (target_end + 5, target_end + 6) } else { (method_len + 1, target_end) },
            host,
            beside_len: line.len() - line_len,
            scheme: scheme_at,
        };
        let is_scheme_valid = scheme.clone().is_none_or(|scheme| is_scheme(&text[scheme]));
        let target = &text[target];
        let is_target_valid = is_connect || target.first() == Some(&b'/');
        if line_len > self.limits.line_bytes {
            self.refuse(HeadError::LineTooLong);
        } else if !is_scheme_valid || !is_target_valid || scan::space_or_control(target, 0).is_some() {
            self.refuse(HeadError::InvalidRequest);
        }
        Ok(())
    }

    /// Makes sure that there is one `Host` field: the client's, or a new one with the authority.
    fn name_host(&mut self, text: &mut Vec<u8>) {
        match (&self.host, &self.pseudo.authority) {
            (None, None) => self.refuse(HeadError::MissingAuthority),
            (Some(host), Some(authority)) if text[host.clone()] != text[authority.clone()] => {
                self.refuse(HeadError::HostsDiffer);
            }
            (None, Some(authority)) => {
                let name = text.len();
                text.extend_from_slice(b"host");
                self.head.fields.note(Known::Host, name..text.len(), authority.clone(), false);
            }
            (Some(_), _) => {}
        }
    }
}

/// A value without white space at its ends, as HTTP/1 reads it.
#[inline]
fn trimmed(text: &[u8], value: Range<usize>) -> Range<usize> {
    let bytes = &text[value.clone()];
    match bytes {
        [] => value,
        [first, .., last] if !matches!(first, b' ' | b'\t') && !matches!(last, b' ' | b'\t') => value,
        _ => {
            let is_text = |byte: &u8| !matches!(byte, b' ' | b'\t');
            let start = value.start + bytes.iter().position(is_text).unwrap_or(bytes.len());
            let end = bytes.iter().rposition(is_text).map_or(start, |last| value.start + last + 1);
            start..end
        }
    }
}

/// RFC 3986 §3.1.
fn is_scheme(text: &[u8]) -> bool {
    matches!(text, b"https" | b"http")
        || text.first().is_some_and(u8::is_ascii_alphabetic)
            && text.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'))
}
