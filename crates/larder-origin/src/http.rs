//! Parses a response of HTTP/1.0 or 1.1 (RFC 9112).

use std::sync::Arc;

use larder_http::{
    ChunkedDecoder, Fields, HeadStatus, Known, Method, ResponseFraming, ResponseHead, keep_alive_offered,
    parse_response, response_framing, unfold,
};
use tokio::sync::mpsc;

use crate::{
    error::FetchError,
    limits::Limits,
    piece::{Piece, Reuse, check_head_size, too_big},
};

/// An interim response of an origin but for a 100, which answers larder itself (RFC 9110 §15.2).
pub struct Interim {
    /// Its status, such as 103.
    pub status: u16,
    /// Its fields.
    pub fields: Fields,
}

/// The parser of an HTTP response.
pub(crate) struct Response {
    stage: Stage,
    head_bytes_max: usize,
    method_is_head: bool,
    upgrade: bool,
    line_bytes_max: Option<usize>,
    unfolds: bool,
    interim: u32,
    hints: Option<mpsc::UnboundedSender<Interim>>,
    /// The size of all interim responses that were passed on together.
    hint_bytes: usize,
    reuse: Reuse,
    notes: Vec<String>,
    trailers: Option<Box<Fields>>,
}

enum Stage {
    Head,
    /// This much is to come.
    Length(u64),
    Chunked(Box<ChunkedDecoder>),
    UntilClose,
    /// The connection is a tunnel from here on.
    Tunnel,
}

/// The most interim responses (1xx) before the final one.
const INTERIM_MAX: u32 = 32;
/// The most fields of a response.
const FIELDS_MAX: usize = 1000;

impl Response {
    /// `upgrade` says whether the request asked for a 101.
    pub(crate) fn new(head_bytes_max: usize, method_is_head: bool, upgrade: bool) -> Response {
        Response {
            stage: Stage::Head,
            head_bytes_max,
            method_is_head,
            upgrade,
            line_bytes_max: None,
            unfolds: false,
            interim: 0,
            hints: None,
            hint_bytes: 0,
            reuse: Reuse::Close,
            notes: Vec::new(),
            trailers: None,
        }
    }

    /// The parser, with a channel for interim responses.
    pub(crate) fn hinting(self, hints: Option<mpsc::UnboundedSender<Interim>>) -> Response {
        Response { hints, ..self }
    }

    /// The parser, with what else is asked of heads.
    pub(crate) fn within(self, limits: &Limits) -> Response {
        Response { unfolds: limits.unfolds, line_bytes_max: limits.line_bytes_max, ..self }
    }

    /// The final head, once it is complete. Interim ones are skipped. Reads `input` from `at`, which it moves.
    pub(crate) fn head(&mut self, input: &[u8], at: &mut usize) -> Result<Option<ResponseHead>, FetchError> {
        loop {
            let mut head = ResponseHead::new();
            let buffer = &input[*at..];
            let mut parsed = parse_response(buffer, &mut head, FIELDS_MAX);
            if parsed.is_err()
                && self.unfolds
                && let Some(unfolded) = unfold(buffer)
            {
                parsed = parse_response(&unfolded, &mut head, FIELDS_MAX);
            }
            let consumed = match parsed? {
                HeadStatus::Partial if buffer.len() > self.head_bytes_max => {
                    return Err(too_big(buffer, self.head_bytes_max));
                }
                HeadStatus::Partial => return Ok(None),
                HeadStatus::Complete { consumed } => consumed,
            };
            check_head_size(buffer, consumed, self.head_bytes_max)?;
            if let Some(limit) = self.line_bytes_max {
                check_lines(&head, limit)?;
            }
            *at += consumed;
            match head.status {
                101 if self.upgrade => self.stage = Stage::Tunnel,
                // A proxy in front of larder would take the connection for a tunnel.
                101 => return Err(protocol("upstream switched protocols unasked")),
                100..=199 if self.interim < INTERIM_MAX => {
                    self.interim += 1;
                    if head.status != 100 {
                        let fields = Arc::unwrap_or_clone(head.fields);
                        self.hint(Interim { status: head.status, fields }, consumed);
                    }
                    continue;
                }
                100..=199 => return Err(protocol("upstream sent too many interim responses")),
                _ => self.frame(&head)?,
            }
            return Ok(Some(head));
        }
    }

    /// The next piece of the body, in `input` from `at`, which it moves.
    pub(crate) fn body(&mut self, input: &[u8], at: &mut usize) -> Result<Piece, FetchError> {
        let (start, rest) = (*at, &input[*at..]);
        match &mut self.stage {
            Stage::Length(0) => Ok(Piece::End(self.end(rest))),
            _ if rest.is_empty() => Ok(Piece::More),
            Stage::Length(left) => {
                let fits = usize::try_from(*left).unwrap_or(usize::MAX).min(rest.len());
                *left -= fits as u64;
                *at += fits;
                Ok(Piece::Data(start..*at))
            }
            Stage::Chunked(decoder) => {
                let decoded = decoder.decode(rest).map_err(|error| FetchError::Protocol {
                    what: format!("upstream sent invalid chunked response: {error}"),
                    before_head: false,
                })?;
                if decoded.done {
                    let trailers = decoder.trailers();
                    self.trailers = (!trailers.is_empty()).then(|| Box::new(trailers.clone()));
                    self.stage = Stage::Length(0);
                }
                *at += decoded.consumed;
                match (decoded.data.is_empty(), decoded.done) {
                    (false, _) => Ok(Piece::Data(start + decoded.data.start..start + decoded.data.end)),
                    (true, true) => Ok(Piece::End(self.end(&input[*at..]))),
                    (true, false) => Ok(Piece::More),
                }
            }
            Stage::UntilClose | Stage::Tunnel => {
                *at = input.len();
                Ok(Piece::Data(start..*at))
            }
            Stage::Head => Ok(Piece::More),
        }
    }

    /// The origin closed the connection. An error, unless that is the end of the body.
    pub(crate) fn closed(&self) -> Result<(), FetchError> {
        match self.stage {
            Stage::UntilClose | Stage::Tunnel | Stage::Length(0) => Ok(()),
            Stage::Head => Err(FetchError::Closed { before_head: true }),
            Stage::Length(_) => Err(FetchError::Incomplete { what: "less than its Content-Length" }),
            Stage::Chunked(_) => Err(FetchError::Incomplete { what: "no last chunk" }),
        }
    }

    /// Whether what follows the head is a tunnel, not a body.
    pub(crate) fn is_tunnel(&self) -> bool {
        matches!(self.stage, Stage::Tunnel)
    }

    /// How much of the body is to come, if that is known.
    pub(crate) fn content_length(&self) -> Option<u64> {
        match self.stage {
            Stage::Length(len) => Some(len),
            Stage::Head | Stage::Chunked(_) | Stage::UntilClose | Stage::Tunnel => None,
        }
    }

    /// Frees what a response that is over holds.
    pub(crate) fn rest(&mut self) {
        self.stage = Stage::Head;
        self.hints = None;
        self.notes = Vec::new();
        self.trailers = None;
    }

    pub(crate) fn take_notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes)
    }

    pub(crate) fn take_trailers(&mut self) -> Option<Box<Fields>> {
        self.trailers.take()
    }

    /// Passes an interim response on, unless all of them together are larger than a head may be.
    fn hint(&mut self, interim: Interim, bytes: usize) {
        self.hint_bytes = self.hint_bytes.saturating_add(bytes);
        if let Some(hints) = self.hints.as_ref().filter(|_| self.hint_bytes <= self.head_bytes_max) {
            // The client may be gone.
            let _ = hints.send(interim);
        }
    }

    fn frame(&mut self, head: &ResponseHead) -> Result<(), FetchError> {
        let method = if self.method_is_head { Method::Head } else { Method::Get };
        let framing = response_framing(head, method)?;
        // Some origins announce a body where there may be none, and send it, sometimes late: the next request on the
        // connection would take it for its answer.
        let is_risky = framing == ResponseFraming::None && announces_body(&head.fields);
        if keep_alive_offered(head) && !is_risky {
            self.reuse = Reuse::Keep;
        }
        self.stage = match framing {
            ResponseFraming::None => Stage::Length(0),
            ResponseFraming::Length(len) => Stage::Length(len),
            ResponseFraming::Chunked => Stage::Chunked(Box::new(ChunkedDecoder::lenient())),
            ResponseFraming::UntilClose => Stage::UntilClose,
        };
        Ok(())
    }

    fn end(&mut self, rest: &[u8]) -> Reuse {
        if rest.is_empty() {
            return self.reuse;
        }
        let note = "upstream sent more data than specified in \"Content-Length\" header while reading upstream";
        self.notes.push(note.to_owned());
        Reuse::Close
    }
}

/// Refuses a head with a field of more bytes, name and all.
fn check_lines(head: &ResponseHead, limit: usize) -> Result<(), FetchError> {
    let is_long = |&(name, value): &(&[u8], &[u8])| name.len() + ": ".len() + value.len() > limit;
    match head.fields.iter().find(is_long) {
        None => Ok(()),
        Some((name, value)) => Err(too_big(&[name, b": ", value].concat(), limit)),
    }
}

/// Whether a head says that there is a body.
fn announces_body(fields: &Fields) -> bool {
    fields.contains_known(Known::TransferEncoding)
        || fields.get_known(Known::ContentLength).is_some_and(|bytes| bytes.trim_ascii() != b"0")
}

fn protocol(what: &str) -> FetchError {
    FetchError::Protocol { what: what.to_owned(), before_head: true }
}
