//! How transactions go over the socket of a server, to `larder varnishlog` and `larder varnishncsa`.
//!
//! ```text
//! reader: one byte: [`Asked`]
//! server: GREETING, then frames: length (4 bytes, little-endian), what (1 byte), content
//! ```
//! What is kept ends with a frame that says so. A file of `varnishlog -w` is what the server says, without that.

use std::io::{self, Read};

use super::record::{RecordError, Transaction};

/// What a server says first. The number changes with the form of what follows, or with the list of tags.
pub const GREETING: &[u8; 8] = b"LVSL 01\n";

/// The longest frame: a transaction that has more is cut by the server.
pub const FRAME_BYTES_MAX: usize = 16 << 20;

/// What a reader wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Asked {
    /// What comes from now on.
    Coming = b'c',
    /// What is kept; the connection ends behind it.
    Kept = b'k',
}

/// What a frame has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// A transaction.
    Transaction(Transaction),
    /// How many transactions this reader has missed here, as it was too slow.
    Lost(u64),
    /// That was all that is kept.
    End,
}

/// Why a stream of frames cannot be read on.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// It cannot be read.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// It does not begin as it should.
    #[error("this is no log of a larder of this version")]
    Greeting,
    /// It is longer than any.
    #[error("a frame of the log has {0} bytes")]
    Long(usize),
    /// It is of a kind that is not known, or too short for its own.
    #[error("a frame of the log is of the unknown kind {0}")]
    Kind(u8),
    /// What it has is no transaction.
    #[error(transparent)]
    Record(#[from] RecordError),
}

const TRANSACTION: u8 = b't';
const LOST: u8 = b'l';
const END: u8 = b'e';

impl Asked {
    /// What the byte of a reader means.
    pub fn of_byte(byte: u8) -> Option<Self> {
        [Self::Coming, Self::Kept].into_iter().find(|asked| *asked as u8 == byte)
    }
}

impl Frame {
    /// Appends the frame of a transaction.
    pub fn append_transaction(transaction: &Transaction, out: &mut Vec<u8>) {
        append(TRANSACTION, transaction.bytes(), out);
    }

    /// Appends that what is kept ends here.
    pub fn append_end(out: &mut Vec<u8>) {
        append(END, &[], out);
    }

    /// Appends that transactions were lost.
    pub fn append_lost(count: u64, out: &mut Vec<u8>) {
        append(LOST, &count.to_le_bytes(), out);
    }
}

impl Frame {
    /// The frame that has this behind its length.
    fn of_content(content: &[u8]) -> Result<Self, FrameError> {
        match content.split_first() {
            Some((&TRANSACTION, content)) => Ok(Self::Transaction(Transaction::from_bytes(content.to_vec())?)),
            Some((&END, [])) => Ok(Self::End),
            Some((&LOST, content)) => {
                let count = content.try_into().map_err(|_| FrameError::Kind(LOST))?;
                Ok(Self::Lost(u64::from_le_bytes(count)))
            }
            other => Err(FrameError::Kind(other.map_or(0, |(what, _)| *what))),
        }
    }
}

fn append(what: u8, content: &[u8], out: &mut Vec<u8>) {
    let length = u32::try_from(content.len() + 1).unwrap_or(u32::MAX);
    out.extend_from_slice(&length.to_le_bytes());
    out.push(what);
    out.extend_from_slice(content);
}

/// Reads frames.
#[derive(Debug)]
pub struct Reader<R>(R);

impl<R: Read> Reader<R> {
    /// Reads the greeting.
    pub fn new(mut from: R) -> Result<Self, FrameError> {
        let mut greeting = [0; GREETING.len()];
        match from.read_exact(&mut greeting) {
            Ok(()) if greeting == *GREETING => Ok(Self(from)),
            Ok(()) => Err(FrameError::Greeting),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Err(FrameError::Greeting),
            Err(error) => Err(error.into()),
        }
    }

    /// The next frame; `None` at the end of the stream.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, FrameError> {
        let mut length = [0; 4];
        // An end between two frames is that of the log.
        if self.0.read(&mut length[..1])? == 0 {
            return Ok(None);
        }
        self.0.read_exact(&mut length[1..])?;
        let length = u32::from_le_bytes(length) as usize;
        if length > FRAME_BYTES_MAX {
            return Err(FrameError::Long(length));
        }
        let mut content = vec![0; length];
        self.0.read_exact(&mut content)?;
        Frame::of_content(&content).map(Some)
    }
}

/// What has come of a stream, in pieces of any length.
#[derive(Debug, Default)]
pub struct Pieces {
    bytes: Vec<u8>,
    /// How many bytes of these are read.
    read: usize,
    is_greeted: bool,
}

impl Pieces {
    /// Takes a piece.
    pub fn push(&mut self, piece: &[u8]) {
        if self.read == self.bytes.len() {
            self.bytes.clear();
            self.read = 0;
        } else if self.read >= PIECE_BYTES {
            self.bytes.drain(..self.read);
            self.read = 0;
        }
        self.bytes.extend_from_slice(piece);
    }

    /// The next frame, if it has come as a whole.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, FrameError> {
        let mut rest = &self.bytes[self.read..];
        if !self.is_greeted {
            let length = rest.len().min(GREETING.len());
            if rest[..length] != GREETING[..length] {
                return Err(FrameError::Greeting);
            }
            if length < GREETING.len() {
                return Ok(None);
            }
            self.is_greeted = true;
            self.read += length;
            rest = &rest[length..];
        }
        let Some((length, rest)) = rest.split_first_chunk() else { return Ok(None) };
        let length = u32::from_le_bytes(*length) as usize;
        if length > FRAME_BYTES_MAX {
            return Err(FrameError::Long(length));
        }
        let Some(content) = rest.get(..length) else { return Ok(None) };
        let frame = Frame::of_content(content)?;
        self.read += 4 + length;
        Ok(Some(frame))
    }

    /// Whether a stream that ends now ends where it should: behind its greeting and whole frames.
    pub fn is_whole(&self) -> bool {
        self.is_greeted && self.read == self.bytes.len()
    }
}

/// How much is copied at most to make room for a piece.
const PIECE_BYTES: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Kind, Tag, Writer};

    fn stream() -> (Vec<u8>, Transaction) {
        let mut writer = Writer::new(Kind::BeReq, 7);
        writer.record(Tag::BereqUrl, 10, |out| out.push(b'/'));
        let transaction = writer.finish();
        let mut out = GREETING.to_vec();
        Frame::append_transaction(&transaction, &mut out);
        Frame::append_lost(3, &mut out);
        Frame::append_end(&mut out);
        (out, transaction)
    }

    #[test]
    fn frames_are_read_as_they_were_written() {
        let (bytes, transaction) = stream();
        let mut reader = Reader::new(&bytes[..]).unwrap();
        assert_eq!(reader.next_frame().unwrap(), Some(Frame::Transaction(transaction)));
        assert_eq!(reader.next_frame().unwrap(), Some(Frame::Lost(3)));
        assert_eq!(reader.next_frame().unwrap(), Some(Frame::End));
        assert_eq!(reader.next_frame().unwrap(), None);
    }

    #[test]
    fn pieces_of_any_length_are_the_same_frames() {
        let (bytes, transaction) = stream();
        for length in 1..=bytes.len() {
            let (mut pieces, mut frames) = (Pieces::default(), Vec::new());
            for piece in bytes.chunks(length) {
                assert!(pieces.next_frame().unwrap().is_none());
                pieces.push(piece);
                frames.extend(std::iter::from_fn(|| pieces.next_frame().unwrap()));
            }
            assert_eq!(frames, [Frame::Transaction(transaction.clone()), Frame::Lost(3), Frame::End], "{length}");
            assert!(pieces.is_whole());
        }
        let after = |bytes: &[u8]| {
            let mut pieces = Pieces::default();
            pieces.push(bytes);
            let frame = pieces.next_frame();
            (frame, pieces.is_whole())
        };
        assert!(matches!(after(b""), (Ok(None), false)));
        assert!(matches!(after(&GREETING[..3]), (Ok(None), false)));
        assert!(matches!(after(GREETING), (Ok(None), true)));
        assert!(matches!(after(&bytes[..20]), (Ok(None), false)));
        assert!(matches!(after(b"HTTP"), (Err(FrameError::Greeting), _)));
        assert!(matches!(after(&[GREETING, &[255; 4][..]].concat()), (Err(FrameError::Long(_)), _)));
        assert!(matches!(after(&[GREETING, &[1, 0, 0, 0, b'x'][..]].concat()), (Err(FrameError::Kind(b'x')), _)));
        assert!(matches!(after(&[GREETING, &[0; 4][..]].concat()), (Err(FrameError::Kind(0)), _)));
    }

    #[test]
    fn what_is_no_stream_of_frames_is_an_error() {
        let (bytes, _) = stream();
        assert!(matches!(Reader::new(&b"HTTP/1.1 400"[..]), Err(FrameError::Greeting)));
        assert!(matches!(Reader::new(&bytes[..5]), Err(FrameError::Greeting)));
        let read = |bytes: &[u8]| Reader::new(bytes).unwrap().next_frame();
        assert!(matches!(read(&bytes[..20]), Err(FrameError::Io(_))));
        assert!(matches!(read(&[GREETING, &[255, 255, 255, 255][..]].concat()), Err(FrameError::Long(_))));
        assert!(matches!(read(&[GREETING, &[1, 0, 0, 0, b'x'][..]].concat()), Err(FrameError::Kind(b'x'))));
        assert!(matches!(read(&[GREETING, &[2, 0, 0, 0, b'l', 1][..]].concat()), Err(FrameError::Kind(b'l'))));
        assert!(matches!(read(&[GREETING, &[0, 0, 0, 0][..]].concat()), Err(FrameError::Kind(0))));
        assert!(matches!(read(&[GREETING, &[1, 0, 0, 0, b't'][..]].concat()), Err(FrameError::Record(_))));
    }
}
