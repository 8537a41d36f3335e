//! Parses a response in FastCGI records: a CGI head, the body, stderr, and the end.

use std::{ops::Range, sync::Arc};

use larder_http::{HeadStatus, Method, ResponseFraming, ResponseHead, parse_cgi, response_framing};

use super::records::{Part, Records};
use crate::{
    error::FetchError,
    piece::{Piece, Reuse, check_head_size, too_big},
};

/// The parser of a FastCGI response.
pub(crate) struct Response {
    records: Records,
    stage: Stage,
    head_bytes_max: usize,
    catch_stderr: Option<Arc<[Vec<u8>]>>,
    method_is_head: bool,
    /// Made when something is written to it.
    stderr: Option<Box<Stderr>>,
    notes: Vec<String>,
}

enum Stage {
    /// The beginning of the head, if it does not arrive in one piece.
    Head(Vec<u8>),
    Body {
        left: Left,
    },
}

/// How much of the body is to come.
#[derive(Clone, Copy)]
enum Left {
    /// Until the end of the request.
    Unknown,
    /// This much, as announced.
    Bytes(u64),
    /// None, for the answer to a HEAD; what arrives is dropped.
    None,
}

/// Stderr, one message a record.
#[derive(Default)]
struct Stderr {
    messages: Vec<Vec<u8>>,
    open: Vec<u8>,
    bytes: usize,
}

/// How much stderr is kept of one response; a script in a loop may write without end.
const STDERR_BYTES_MAX: usize = 64 << 10;

impl Response {
    pub(crate) fn new(head_bytes_max: usize, catch_stderr: Option<Arc<[Vec<u8>]>>, method_is_head: bool) -> Response {
        Response {
            records: Records::new(),
            stage: Stage::Head(Vec::new()),
            head_bytes_max,
            catch_stderr,
            method_is_head,
            stderr: None,
            notes: Vec::new(),
        }
    }

    /// The head, once it is complete. Reads `input` from `at`, which it moves.
    pub(crate) fn head(&mut self, input: &[u8], at: &mut usize) -> Result<Option<ResponseHead>, FetchError> {
        loop {
            match self.part(input, at, true)? {
                Part::More => return Ok(None),
                Part::Stdout(content) => {
                    if let Some((head, consumed)) = self.head_from(&input[content.clone()])? {
                        self.records.give_back(content.len() - consumed, at);
                        return Ok(Some(head));
                    }
                }
                Part::Stderr { content, is_last } => {
                    self.stderr.get_or_insert_default().add(&input[content], is_last);
                    self.check_stderr()?;
                }
                Part::StdoutEnd | Part::End { protocol: 0, .. } => {
                    let what = "upstream prematurely closed FastCGI stdout".to_owned();
                    return Err(FetchError::Protocol { what, before_head: true });
                }
                Part::End { protocol, .. } => return Err(refusal(protocol, true)),
            }
        }
    }

    /// The next piece of the body, in `input` from `at`, which it moves.
    pub(crate) fn body(&mut self, input: &[u8], at: &mut usize) -> Result<Piece, FetchError> {
        loop {
            match self.part(input, at, false)? {
                Part::More => return Ok(Piece::More),
                Part::Stdout(content) => {
                    if let Some(piece) = self.admit(content, at) {
                        return Ok(piece);
                    }
                }
                Part::StdoutEnd => {}
                Part::Stderr { content, is_last } => {
                    self.stderr.get_or_insert_default().add(&input[content], is_last);
                }
                Part::End { exit, protocol } => return self.end(exit, protocol),
            }
        }
    }

    /// Whether the end of the request is in `input` from `at`, which it moves; what comes before it is dropped.
    pub(crate) fn is_done(&mut self, input: &[u8], at: &mut usize) -> Result<bool, FetchError> {
        loop {
            match self.part(input, at, false)? {
                Part::More => return Ok(false),
                Part::Stdout(_) | Part::StdoutEnd | Part::Stderr { .. } => {}
                Part::End { .. } => return Ok(true),
            }
        }
    }

    /// How much of the body is to come, if that is known.
    pub(crate) fn content_length(&self) -> Option<u64> {
        match self.stage {
            Stage::Body { left: Left::None } => Some(0),
            Stage::Body { left: Left::Bytes(len) } => Some(len),
            Stage::Body { left: Left::Unknown } | Stage::Head(_) => None,
        }
    }

    /// The error if the origin closes the connection before END_REQUEST.
    pub(crate) fn closed(&self) -> FetchError {
        match self.stage {
            Stage::Head(_) => FetchError::Closed { before_head: true },
            Stage::Body { .. } => FetchError::Incomplete { what: "no FastCGI END_REQUEST" },
        }
    }

    /// Frees what a response that is over holds.
    pub(crate) fn rest(&mut self) {
        self.stage = Stage::Head(Vec::new());
        self.catch_stderr = None;
        self.stderr = None;
        self.notes = Vec::new();
    }

    /// The stderr since the last call.
    pub(crate) fn take_stderr(&mut self) -> Vec<String> {
        self.stderr.as_mut().map_or_else(Vec::new, |stderr| stderr.take())
    }

    /// Messages for the error log about the response since the last call.
    pub(crate) fn take_notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes)
    }

    fn part(&mut self, input: &[u8], at: &mut usize, before_head: bool) -> Result<Part, FetchError> {
        let part = self.records.next(input, at);
        part.map_err(|error| FetchError::Protocol { what: error.to_string(), before_head })
    }

    /// The head, if `bytes` complete it, and how many of them belong to it.
    fn head_from(&mut self, bytes: &[u8]) -> Result<Option<(ResponseHead, usize)>, FetchError> {
        let Stage::Head(gathered) = &mut self.stage else {
            return Ok(None);
        };
        let before = gathered.len();
        // The head nearly always arrives in one piece, and is then parsed in place.
        let text: &[u8] = if before == 0 {
            bytes
        } else {
            gathered.extend_from_slice(bytes);
            gathered
        };
        let mut head = ResponseHead::new();
        match parse_cgi(text, &mut head)? {
            HeadStatus::Partial if text.len() > self.head_bytes_max => Err(too_big(text, self.head_bytes_max)),
            HeadStatus::Partial => {
                if before == 0 {
                    gathered.extend_from_slice(bytes);
                }
                Ok(None)
            }
            HeadStatus::Complete { consumed } => {
                check_head_size(text, consumed, self.head_bytes_max)?;
                // The client would take what comes next for the answer to this request.
                if matches!(head.status, 100 | 102..=199) {
                    let what = "upstream sent an interim status as its answer".to_owned();
                    return Err(FetchError::Protocol { what, before_head: true });
                }
                self.stage = Stage::Body { left: self.left(&head)? };
                Ok(Some((head, consumed.saturating_sub(before))))
            }
        }
    }

    fn left(&self, head: &ResponseHead) -> Result<Left, FetchError> {
        let framing = response_framing(head, Method::Get)?;
        Ok(match framing {
            _ if self.method_is_head => Left::None,
            ResponseFraming::None => Left::Bytes(0),
            ResponseFraming::Length(len) => Left::Bytes(len),
            // A script may say that its body is chunked, but it is not: FastCGI frames the body.
            ResponseFraming::Chunked | ResponseFraming::UntilClose => Left::Unknown,
        })
    }

    /// The part of `content` that belongs to the body.
    fn admit(&mut self, content: Range<usize>, at: &mut usize) -> Option<Piece> {
        let Stage::Body { left } = &mut self.stage else {
            return None;
        };
        match left {
            Left::None => None,
            Left::Unknown => Some(Piece::Data(content)),
            Left::Bytes(0) => {
                let note = "upstream sent more data than specified in \"Content-Length\" header while reading upstream";
                self.notes.push(note.to_owned());
                Some(Piece::End(Reuse::Close))
            }
            Left::Bytes(left) => {
                let fits = usize::try_from(*left).unwrap_or(usize::MAX).min(content.len());
                *left -= fits as u64;
                self.records.give_back(content.len() - fits, at);
                Some(Piece::Data(content.start..content.start + fits))
            }
        }
    }

    fn end(&mut self, exit: u32, protocol: u8) -> Result<Piece, FetchError> {
        if protocol != 0 {
            return Err(refusal(protocol, false));
        }
        if exit != 0 {
            self.notes.push(format!("FastCGI request ended with exit status {exit}"));
        }
        match &self.stage {
            Stage::Body { left: Left::Bytes(1..) } => {
                Err(FetchError::Incomplete { what: "less than its Content-Length" })
            }
            Stage::Body { .. } | Stage::Head(_) => Ok(Piece::End(Reuse::Keep)),
        }
    }

    fn check_stderr(&self) -> Result<(), FetchError> {
        let (Some(patterns), Some(stderr)) = (&self.catch_stderr, &self.stderr) else {
            return Ok(());
        };
        let found = patterns.iter().find(|pattern| stderr.has(pattern));
        match found {
            Some(pattern) => Err(FetchError::CaughtStderr { pattern: String::from_utf8_lossy(pattern).into_owned() }),
            None => Ok(()),
        }
    }
}

impl Stderr {
    fn add(&mut self, bytes: &[u8], is_last: bool) {
        let room = STDERR_BYTES_MAX - self.bytes;
        let kept = &bytes[..bytes.len().min(room)];
        self.bytes += kept.len();
        self.open.extend_from_slice(kept);
        if is_last && !self.open.is_empty() {
            self.messages.push(std::mem::take(&mut self.open));
        }
    }

    fn has(&self, pattern: &[u8]) -> bool {
        let texts = self.messages.iter().chain(Some(&self.open));
        !pattern.is_empty() && texts.into_iter().any(|text| memchr::memmem::find(text, pattern).is_some())
    }

    fn take(&mut self) -> Vec<String> {
        let messages = std::mem::take(&mut self.messages);
        messages.iter().map(|message| String::from_utf8_lossy(message.trim_ascii_end()).into_owned()).collect()
    }
}

fn refusal(protocol: u8, before_head: bool) -> FetchError {
    let why = match protocol {
        1 => "it does not multiplex",
        2 => "it is overloaded",
        3 => "it does not know the role of a responder",
        _ => "for no known reason",
    };
    FetchError::Protocol { what: format!("upstream refused the FastCGI request ({protocol}: {why})"), before_head }
}
