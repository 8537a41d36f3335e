//! Chunked bodies (RFC 9112 §7.1).

use std::ops::Range;

use crate::field::Fields;

use super::line::{self, Line, Sender};

/// The end of a chunked body without trailers.
pub const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// Writes the line before a chunk of `len` bytes; after the chunk the caller writes CR LF. Do not send a chunk with a
/// `len` of 0: it would end the body.
pub fn chunk_head(len: usize, out: &mut [u8; 18]) -> &[u8] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    out[16..].copy_from_slice(b"\r\n");
    let mut start = 16;
    let mut rest = len;
    loop {
        start -= 1;
        out[start] = DIGITS[rest & 15];
        rest >>= 4;
        if rest == 0 {
            return &out[start..];
        }
    }
}

/// Why a chunked body was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ChunkError {
    /// The size of a chunk is missing, has other characters, or does not end as a line does.
    #[error("the size of a chunk is invalid")]
    InvalidSize,
    /// The size of a chunk is 2^63 or more, or has more digits than such a number.
    #[error("the size of a chunk is too large")]
    SizeTooLarge,
    /// After the data of a chunk there is something else than the end of a line.
    #[error("a chunk is longer than its size")]
    Overlong,
    /// The extensions of all chunks together are too long.
    #[error("the chunk extensions are too long")]
    ExtensionsTooLong,
    /// A CR without LF or an LF without CR in an extension.
    #[error("a chunk extension is invalid")]
    InvalidExtension,
    /// A trailer is not a field.
    #[error("a trailer is invalid")]
    InvalidTrailer,
    /// The trailers together are too long, or too many.
    #[error("the trailers are too large")]
    TrailersTooLarge,
}

/// What one call of [`ChunkedDecoder::decode`] found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Decoded {
    /// How much of the input was used.
    pub consumed: usize,
    /// Where in the input the bytes of the body are; perhaps empty.
    pub data: Range<usize>,
    /// Whether the body has ended. What follows in the input belongs to the next message.
    pub done: bool,
}

/// The most bytes of all chunk extensions of a body together. Only attackers send them.
const EXTENSION_BYTES_MAX: usize = 16 * 1024;
/// The most digits of the size of a chunk, leading zeros included.
const SIZE_DIGITS_MAX: u32 = 16;
/// The most bytes of all trailers of a body together, with their line ends.
const TRAILER_BYTES_MAX: usize = 16 * 1024;
/// The most trailers of a body.
const TRAILERS_MAX: usize = 100;

/// Decodes a chunked body as it arrives.
///
/// ```text
/// Size --LF--> Data --size bytes--> DataEnd --LF--> Size
///    `- 0, LF -> Trailers --empty line--> Done
/// ```
#[derive(Clone, Debug)]
pub struct ChunkedDecoder {
    state: State,
    line_ends: LineEnds,
    extension_bytes: usize,
    trailer_text: Vec<u8>,
    trailers: Fields,
}

/// Whether an LF without CR ends a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum LineEnds {
    CrLf,
    LfToo,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// In the digits of a size.
    Size {
        size: u64,
        digits: u32,
    },
    /// In what follows the digits.
    Extension {
        size: u64,
    },
    /// After the CR of a size line.
    SizeLf {
        size: u64,
    },
    /// In the data of a chunk; this much is to come, at least 1.
    Data {
        left: u64,
    },
    /// After the data of a chunk.
    DataEnd,
    /// After the CR that ends a chunk.
    DataLf,
    /// After the last chunk.
    Trailers,
    Done,
}

const START: State = State::Size { size: 0, digits: 0 };

impl Default for ChunkedDecoder {
    fn default() -> ChunkedDecoder {
        ChunkedDecoder::new()
    }
}

impl ChunkedDecoder {
    /// A decoder for bodies of clients and modern origins: every line ends in CR LF, as in nginx. If two proxies
    /// disagree about a lone LF here, an attacker can smuggle requests.
    pub fn new() -> ChunkedDecoder {
        ChunkedDecoder::with(LineEnds::CrLf)
    }

    /// A decoder for origins that end lines with LF alone, as nginx long accepted; not for clients. An LF inside an
    /// extension is refused here too.
    pub fn lenient() -> ChunkedDecoder {
        ChunkedDecoder::with(LineEnds::LfToo)
    }

    fn with(line_ends: LineEnds) -> ChunkedDecoder {
        ChunkedDecoder {
            state: START,
            line_ends,
            extension_bytes: 0,
            trailer_text: Vec::new(),
            trailers: Fields::new(),
        }
    }

    /// Decodes the next bytes of the body, up to the end of one piece of data or of `input`. Call it again with the
    /// rest after `consumed`. Do not use the decoder after an error; after the end it consumes nothing.
    pub fn decode(&mut self, input: &[u8]) -> Result<Decoded, ChunkError> {
        let mut at = 0;
        loop {
            if self.state == State::Done {
                return Ok(Decoded { consumed: at, data: at..at, done: true });
            }
            if at == input.len() {
                return Ok(Decoded { consumed: at, data: at..at, done: false });
            }
            match self.state {
                State::Data { left } => {
                    let here = left.min((input.len() - at) as u64);
                    let end = at + here as usize;
                    self.state = if here == left { State::DataEnd } else { State::Data { left: left - here } };
                    return Ok(Decoded { consumed: end, data: at..end, done: false });
                }
                State::Trailers => at += self.trailer_bytes(&input[at..])?,
                _ => {
                    self.state = self.framing_byte(input[at])?;
                    at += 1;
                }
            }
        }
    }

    /// The trailers, once the body has ended. They are kept apart from the fields of the head, which they must
    /// not overrule.
    pub fn trailers(&self) -> &Fields {
        &self.trailers
    }

    /// Processes a byte that is neither data nor trailer.
    fn framing_byte(&mut self, byte: u8) -> Result<State, ChunkError> {
        let takes_lf = self.line_ends == LineEnds::LfToo;
        Ok(match (self.state, byte) {
            (State::Size { size, digits: 1.. }, b'\r') => State::SizeLf { size },
            (State::Size { size, digits: 1.. }, b'\n') if takes_lf => after_size(size),
            (State::Size { size, digits: 1.. }, b';' | b' ' | b'\t') => State::Extension { size },
            (State::Size { size, digits }, _) => next_digit(size, digits, byte)?,
            (State::Extension { size }, b'\r') => State::SizeLf { size },
            (State::Extension { .. }, b'\n') => return Err(ChunkError::InvalidExtension),
            (State::Extension { size }, _) => {
                self.extension_bytes += 1;
                if self.extension_bytes > EXTENSION_BYTES_MAX {
                    return Err(ChunkError::ExtensionsTooLong);
                }
                State::Extension { size }
            }
            (State::SizeLf { size }, b'\n') => after_size(size),
            (State::SizeLf { .. }, _) => return Err(ChunkError::InvalidSize),
            (State::DataEnd, b'\r') => State::DataLf,
            (State::DataEnd, b'\n') if takes_lf => START,
            (State::DataLf, b'\n') => START,
            (State::DataEnd | State::DataLf, _) => return Err(ChunkError::Overlong),
            (state @ (State::Data { .. } | State::Trailers | State::Done), _) => state,
        })
    }

    /// Processes bytes of trailers, and returns how many. A line is parsed when it is complete.
    fn trailer_bytes(&mut self, input: &[u8]) -> Result<usize, ChunkError> {
        let line_end = memchr::memchr(b'\n', input).map(|lf| lf + 1);
        let taken = line_end.unwrap_or(input.len());
        if self.trailer_text.len() + taken > TRAILER_BYTES_MAX {
            return Err(ChunkError::TrailersTooLarge);
        }
        let line_start = memchr::memrchr(b'\n', &self.trailer_text).map_or(0, |lf| lf + 1);
        self.trailer_text.extend_from_slice(&input[..taken]);
        if line_end.is_none() {
            return Ok(taken);
        }
        if self.line_ends == LineEnds::CrLf && !self.trailer_text.ends_with(b"\r\n") {
            return Err(ChunkError::InvalidTrailer);
        }
        match line::read(&self.trailer_text, line_start, Sender::Client) {
            Ok(Line::Field(_)) if self.trailers.len() == TRAILERS_MAX => {
                return Err(ChunkError::TrailersTooLarge);
            }
            Ok(Line::Field(field)) => {
                self.trailers.push(&self.trailer_text[field.name], &self.trailer_text[field.value]);
            }
            Ok(Line::End { .. }) => self.state = State::Done,
            Ok(Line::Partial | Line::SecondStatus { .. }) | Err(_) => {
                return Err(ChunkError::InvalidTrailer);
            }
        }
        Ok(taken)
    }
}

fn after_size(size: u64) -> State {
    if size == 0 { State::Trailers } else { State::Data { left: size } }
}

fn next_digit(size: u64, digits: u32, byte: u8) -> Result<State, ChunkError> {
    let digit = crate::uri::hex(byte).ok_or(ChunkError::InvalidSize)?;
    if digits == SIZE_DIGITS_MAX || size > i64::MAX as u64 >> 4 {
        return Err(ChunkError::SizeTooLarge);
    }
    Ok(State::Size { size: size << 4 | u64::from(digit), digits: digits + 1 })
}
