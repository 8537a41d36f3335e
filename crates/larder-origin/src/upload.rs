//! Sends a request to the origin: its head, then its body as fast as the origin reads it.
//!
//! ```text
//! Source --fill--> queue --write--> connection
//! ```

use std::{
    fs::File,
    io::{self, IoSlice},
    os::unix::fs::FileExt,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use tokio::sync::mpsc;

use crate::{
    connection::Connection,
    error::FetchError,
    fastcgi,
    pieces::Pieces,
    purpose::Speaks,
    request_body::{BodyPiece, RequestBody},
};

/// What is still to be sent, and how.
pub(crate) struct Upload {
    /// What comes before the body, and for FastCGI without a body also its end; kept, as it may have to be sent again.
    opening: Bytes,
    opening_sent: usize,
    /// Framed pieces of the body.
    queue: Pieces,
    queued_bytes: usize,
    source: Source,
    framing: Framing,
    sent_bytes: u64,
    going: Going,
}

enum Going {
    Sending,
    /// The connection is broken. The origin may have answered all the same, so this is only reported if it has not.
    Broken(io::Error),
    Stopped,
}

/// Where the rest of the body comes from.
enum Source {
    /// All of it is in the queue, its end included.
    Drained,
    Memory(Bytes),
    File {
        file: Arc<File>,
        at: u64,
        len: u64,
    },
    Stream(Box<Stream>),
}

/// A body that is passed on as the client sends it.
struct Stream {
    first: Bytes,
    rx: mpsc::Receiver<io::Result<BodyPiece>>,
    len: Option<u64>,
    /// How many bytes of it were framed.
    framed: u64,
    taken: Taken,
}

/// How much was taken of a body that is passed on as the client sends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Taken {
    Nothing,
    /// Only what had arrived when the request began. That is kept, so the request can be sent again.
    First,
    /// More than that.
    More,
}

enum Framing {
    /// STDIN records, and an empty one at the end.
    FastCgi,
    /// As it is; the head says how long it is.
    Plain,
    Chunked,
}

/// What the upload waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waits {
    /// Nothing: everything is sent, or nothing more will be.
    Done,
    /// The origin does not read more now.
    ForOrigin,
    /// The client has not sent the next piece of its body.
    ForClient,
}

/// How many bytes are framed ahead of the write.
const QUEUE_BYTES_MAX: usize = 128 << 10;
/// The most pieces in one write.
const GATHER_MAX: usize = 32;
/// How many bytes are read from a file at a time; a multiple of 8, so that a FastCGI record needs no padding.
const FILE_PIECE_BYTES: u64 = 64 << 10;

impl Upload {
    /// A request that begins with `opening`: the head of HTTP, or [`fastcgi::opening`] of this body.
    pub(crate) fn new(speaks: Speaks, opening: Bytes, body: RequestBody) -> Upload {
        let framing = match (speaks, &body) {
            (Speaks::FastCgi, _) => Framing::FastCgi,
            (Speaks::Http, RequestBody::Stream { len: None, .. }) => Framing::Chunked,
            (Speaks::Http, _) => Framing::Plain,
        };
        let source = match body {
            RequestBody::None => Source::Drained,
            RequestBody::Memory(bytes) => Source::Memory(bytes),
            RequestBody::File { file, len } => Source::File { file, at: 0, len },
            RequestBody::Stream { first, rx, len } => {
                Source::Stream(Box::new(Stream { first, rx, len, framed: 0, taken: Taken::Nothing }))
            }
        };
        Upload {
            opening,
            opening_sent: 0,
            queue: Pieces::default(),
            queued_bytes: 0,
            source,
            framing,
            sent_bytes: 0,
            going: Going::Sending,
        }
    }

    /// Sends as much as the origin reads now.
    ///
    /// Only a failure of the client is an error. A failure of the origin is kept for [`Upload::take_broken`].
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>, connection: &mut Connection) -> Result<Sent, FetchError> {
        let before = connection.moved_bytes();
        let waits = loop {
            if !matches!(self.going, Going::Sending) {
                break Waits::Done;
            }
            let filled = self.fill(cx)?;
            let opening = &self.opening[self.opening_sent..];
            if opening.is_empty() && self.queue.is_empty() {
                break match (connection.poll_flush(cx), filled) {
                    (Poll::Ready(Ok(())), Poll::Ready(())) => Waits::Done,
                    (Poll::Ready(Ok(())), Poll::Pending) => Waits::ForClient,
                    (Poll::Pending, _) => Waits::ForOrigin,
                    (Poll::Ready(Err(error)), _) => {
                        self.going = Going::Broken(error);
                        Waits::Done
                    }
                };
            }
            let written = match self.queue.is_empty() {
                true => connection.poll_write_from(cx, &[IoSlice::new(opening)]),
                false => self.write_pieces(cx, connection),
            };
            match written {
                Poll::Ready(Ok(written)) if written > 0 => self.written(written),
                Poll::Ready(Ok(_)) => self.going = Going::Broken(io::ErrorKind::WriteZero.into()),
                Poll::Ready(Err(error)) => self.going = Going::Broken(error),
                Poll::Pending => break Waits::ForOrigin,
            }
        };
        Ok(Sent { waits, moved: connection.moved_bytes() > before })
    }

    /// Frees what a request that is over holds.
    pub(crate) fn rest(&mut self) {
        self.opening = Bytes::new();
        self.opening_sent = 0;
        self.queue = Pieces::default();
        self.source = Source::Drained;
    }

    /// Sends no more, and drops the body. The request stays incomplete, unless all of it was sent.
    pub(crate) fn stop(&mut self) {
        if !self.is_complete() {
            self.going = Going::Stopped;
            self.source = Source::Drained;
        }
    }

    /// Whether all of the request was sent.
    pub(crate) fn is_complete(&self) -> bool {
        matches!(self.going, Going::Sending)
            && self.opening_sent == self.opening.len()
            && self.queue.is_empty()
            && matches!(self.source, Source::Drained)
    }

    /// Bytes the connection has taken.
    pub(crate) fn sent_bytes(&self) -> u64 {
        self.sent_bytes
    }

    /// Those of what comes before the body.
    pub(crate) fn sent_head_bytes(&self) -> u64 {
        self.opening_sent as u64
    }

    /// Why the connection broke, if it did.
    pub(crate) fn take_broken(&mut self) -> Option<io::Error> {
        match std::mem::replace(&mut self.going, Going::Stopped) {
            Going::Broken(error) => Some(error),
            going @ (Going::Sending | Going::Stopped) => {
                self.going = going;
                None
            }
        }
    }

    /// Whether the body is a stream of which nothing was taken that is not kept.
    pub(crate) fn is_untouched(&self) -> bool {
        match &self.source {
            Source::Stream(stream) => stream.taken != Taken::More,
            Source::Drained | Source::Memory(_) | Source::File { .. } => false,
        }
    }

    /// The opening, and the body if it is a stream of which nothing was taken that is not kept: it can be sent to
    /// another origin.
    pub(crate) fn take_untouched(&mut self) -> (Bytes, Option<RequestBody>) {
        let body = match std::mem::replace(&mut self.source, Source::Drained) {
            Source::Stream(stream) if stream.taken != Taken::More => {
                let Stream { first, rx, len, .. } = *stream;
                Some(RequestBody::Stream { first, rx, len })
            }
            Source::Stream(_) | Source::Drained | Source::Memory(_) | Source::File { .. } => None,
        };
        let opening = std::mem::take(&mut self.opening);
        self.opening_sent = 0;
        (opening, body)
    }

    /// Frames more of the body. Only pending while the client has to send first.
    fn fill(&mut self, cx: &mut Context<'_>) -> Result<Poll<()>, FetchError> {
        while self.queued_bytes < QUEUE_BYTES_MAX && self.queue.len() < GATHER_MAX - 4 {
            match &mut self.source {
                Source::Drained => break,
                Source::Memory(bytes) if bytes.is_empty() => self.end(),
                Source::Memory(bytes) => {
                    let piece = match self.framing {
                        Framing::FastCgi => bytes.split_to(bytes.len().min(fastcgi::CONTENT_BYTES_MAX)),
                        Framing::Plain | Framing::Chunked => bytes.split_to(bytes.len()),
                    };
                    self.push_framed(piece);
                }
                Source::File { at, len, .. } if at == len => self.end(),
                Source::File { file, at, len } => {
                    let piece = read_piece(file, *at, *len - *at).map_err(FetchError::Body)?;
                    *at += piece.len() as u64;
                    self.push_framed(piece);
                }
                Source::Stream(stream) if stream.len == Some(stream.framed) => self.end(),
                Source::Stream(stream) if stream.taken == Taken::Nothing => {
                    stream.taken = Taken::First;
                    stream.framed = stream.first.len() as u64;
                    let first = stream.first.clone();
                    self.push_framed(first);
                }
                // The head is sent before more is taken: so if the connection is dead, the body is not lost.
                Source::Stream(stream)
                    if stream.taken == Taken::First
                        && (self.opening_sent < self.opening.len() || !self.queue.is_empty()) =>
                {
                    break;
                }
                Source::Stream(stream) => match stream.rx.poll_recv(cx) {
                    Poll::Pending => return Ok(Poll::Pending),
                    Poll::Ready(Some(Ok(BodyPiece::Bytes(piece)))) => {
                        stream.taken = Taken::More;
                        stream.framed += piece.len() as u64;
                        if stream.len.is_some_and(|len| stream.framed > len) {
                            return Err(FetchError::Body(io::ErrorKind::InvalidData.into()));
                        }
                        self.push_framed(piece);
                    }
                    Poll::Ready(Some(Ok(BodyPiece::End))) if stream.len.is_none() => self.end(),
                    Poll::Ready(Some(Ok(BodyPiece::End)) | None) => {
                        return Err(FetchError::Body(io::ErrorKind::UnexpectedEof.into()));
                    }
                    Poll::Ready(Some(Err(error))) => return Err(FetchError::Body(error)),
                },
            }
        }
        Ok(Poll::Ready(()))
    }

    fn push_framed(&mut self, mut piece: Bytes) {
        match self.framing {
            Framing::Plain => self.push(piece),
            Framing::Chunked if piece.is_empty() => {} // An empty chunk would be the last one.
            Framing::Chunked => {
                let head = format!("{:x}\r\n", piece.len());
                self.push(Bytes::from(head));
                self.push(piece);
                self.push(Bytes::from_static(b"\r\n"));
            }
            Framing::FastCgi => {
                while !piece.is_empty() {
                    let content = piece.split_to(piece.len().min(fastcgi::CONTENT_BYTES_MAX));
                    let (head, padding) = fastcgi::stdin_frame(content.len());
                    self.push(head);
                    self.push(content);
                    self.push(padding);
                }
            }
        }
    }

    /// All of the body is in the queue: adds its end.
    fn end(&mut self) {
        self.source = Source::Drained;
        match self.framing {
            Framing::Plain => {}
            Framing::Chunked => self.push(Bytes::from_static(b"0\r\n\r\n")),
            Framing::FastCgi => self.push(fastcgi::stdin_end()),
        }
    }

    fn push(&mut self, piece: Bytes) {
        if !piece.is_empty() {
            self.queued_bytes += piece.len();
            self.queue.push(piece);
        }
    }

    /// Writes once, of what was framed.
    fn write_pieces(&self, cx: &mut Context<'_>, connection: &mut Connection) -> Poll<io::Result<usize>> {
        let mut pieces = [IoSlice::new(&[]); GATHER_MAX];
        let mut count = 0;
        let opening = Some(&self.opening[self.opening_sent..]).filter(|opening| !opening.is_empty());
        let queue = opening.into_iter().chain(self.queue.iter().map(|piece| &**piece));
        for (slot, piece) in pieces.iter_mut().zip(queue) {
            *slot = IoSlice::new(piece);
            count += 1;
        }
        connection.poll_write_from(cx, &pieces[..count])
    }

    fn written(&mut self, count: usize) {
        self.sent_bytes += count as u64;
        let of_opening = count.min(self.opening.len() - self.opening_sent);
        self.opening_sent += of_opening;
        self.queued_bytes -= count - of_opening;
        self.queue.advance(count - of_opening);
    }
}

/// What a poll of the upload did.
pub(crate) struct Sent {
    pub(crate) waits: Waits,
    /// Whether any byte was taken.
    pub(crate) moved: bool,
}

/// Reads a piece of a file. Request bodies in files were written moments ago, so this does not wait for a disk.
fn read_piece(file: &File, at: u64, left: u64) -> io::Result<Bytes> {
    let mut piece = vec![0; left.min(FILE_PIECE_BYTES) as usize];
    let count = file.read_at(&mut piece, at)?;
    if count == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    piece.truncate(count);
    Ok(Bytes::from(piece))
}
