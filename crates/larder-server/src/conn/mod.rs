//! A client's connection: its stream, what was read and not yet used, waiting with a limit.

pub mod at_once;
pub mod h1;
pub mod h2;
pub mod memory;
pub mod open;
pub mod pace;
pub mod send;
pub mod sink;
pub mod small;
pub mod socket;
pub mod stream;
pub mod tls;
pub mod tunnel;

use std::io;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::watch;
use tokio::time::Instant;

use stream::Stream;

/// How much is read at once from a request's body.
const BODY_READ_BYTES: usize = 64 * 1024;

/// How much of what nobody wants is read at once.
const LINGER_BYTES: usize = 16 * 1024;

/// The client's side of one request: its body, and whether somebody still waits for the answer.
pub enum Inbound<'a> {
    /// A connection of its own.
    Connection(&'a mut Io),
    /// A stream of a shared one.
    Stream(&'a h2::Handle),
    /// A connection of its own, for a request inside the one that came by it: its body is not to be read.
    Watched(&'a Io),
    /// A page that a request is inside of, and that may be given up.
    Inside(&'a watch::Receiver<()>),
    /// None: nobody waits for the answer.
    Nobody,
}

impl Inbound<'_> {
    /// Reads at least a byte of the body, which is `max` bytes at most, within `timeout`.
    pub async fn read_some(&mut self, max: usize, timeout: Duration) -> Result<Bytes, ReadError> {
        match self {
            Self::Connection(io) => io.read_some(max, timeout).await.map(Bytes::from),
            Self::Stream(handle) => handle.read(timeout).await?.ok_or(ReadError::Closed),
            Self::Watched(_) | Self::Inside(_) | Self::Nobody => Err(ReadError::Closed),
        }
    }

    /// The same for a request inside this one, which reads no body.
    pub fn of_inside(&self) -> Inbound<'_> {
        match self {
            Self::Connection(io) => Inbound::Watched(io),
            Self::Watched(io) => Inbound::Watched(io),
            Self::Stream(handle) => Inbound::Stream(handle),
            Self::Inside(leave) => Inbound::Inside(leave),
            Self::Nobody => Inbound::Nobody,
        }
    }

    /// Reads what has come of the body and was not read yet, `max` bytes at most of a connection of its own; `None` when
    /// nothing has, and `None` inside at the end of a stream.
    pub fn try_read(&self, max: usize) -> Option<Result<Option<Bytes>, ReadError>> {
        match self {
            Self::Connection(io) => Some(io.try_read(max)?.map(|bytes| Some(Bytes::from(bytes)))),
            Self::Stream(handle) => handle.try_read(),
            Self::Watched(_) | Self::Inside(_) | Self::Nobody => None,
        }
    }

    /// The same, to be read from while others write or wait; `None` where no body comes from.
    pub fn source(&self) -> Option<Source<'_>> {
        match self {
            Self::Connection(io) => Some(Source::Connection(io)),
            Self::Stream(handle) => Some(Source::Stream(handle)),
            Self::Watched(_) | Self::Inside(_) | Self::Nobody => None,
        }
    }

    /// Waits until the client has left. One that has sent more meanwhile is not gone.
    pub async fn gone(&self) {
        match self {
            Self::Connection(io) => io.gone().await,
            Self::Watched(io) => io.gone().await,
            Self::Stream(handle) => handle.gone().await,
            Self::Inside(leave) => {
                // It is never sent to; it closes when the page is given up.
                let mut leave = (*leave).clone();
                while leave.changed().await.is_ok() {}
            }
            Self::Nobody => std::future::pending().await,
        }
    }
}

/// Where a body comes from that is read while others write or wait.
#[derive(Clone, Copy)]
pub enum Source<'a> {
    /// A connection of its own.
    Connection(&'a Io),
    /// A stream of a shared one.
    Stream(&'a h2::Handle),
}

impl Source<'_> {
    /// Reads at least a byte of the body within `timeout`, `max` at most of a connection of its own; `None` at the end
    /// of a stream. What was read before and not yet used is not looked at.
    pub async fn read(self, max: usize, timeout: Duration) -> Result<Option<Bytes>, ReadError> {
        match self {
            Self::Connection(io) => io.read_beside(max, timeout).await.map(|bytes| Some(Bytes::from(bytes))),
            Self::Stream(handle) => handle.read(timeout).await,
        }
    }

    /// Whether all of the body has come and been read, where the end shows by itself.
    pub fn has_ended(self) -> bool {
        match self {
            Self::Connection(_) => false,
            Self::Stream(handle) => handle.has_ended(),
        }
    }
}

/// A stream, and what was read from it and not yet used.
pub struct Io {
    /// The stream.
    pub stream: Stream,
    pending: Vec<u8>,
}

/// Why nothing could be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The client was silent for too long.
    #[error("client timed out")]
    TimedOut,
    /// The client closed the connection.
    #[error("client prematurely closed connection")]
    Closed,
    /// The body of a request is not as long as its head says; only by HTTP/2, where its end shows by itself.
    #[error("client sent a body of another length than declared")]
    WrongLength,
    /// The system said no.
    #[error("recv() failed: {0}")]
    Io(#[from] io::Error),
}

impl Io {
    /// A stream from which `pending` has been read.
    pub fn new(stream: Stream, pending: Vec<u8>) -> Self {
        Self { stream, pending }
    }

    /// Whether something was read and not yet used.
    pub fn has_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Gives bytes back, to be read again before what the stream holds.
    pub fn unread(&mut self, bytes: &[u8]) {
        self.pending.splice(0..0, bytes.iter().copied());
    }

    /// Takes what was read and not yet used.
    pub fn take_pending(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.pending)
    }

    /// Reads at least a byte and at most `max`, within `timeout`.
    pub async fn read_some(&mut self, max: usize, timeout: Duration) -> Result<Vec<u8>, ReadError> {
        if !self.pending.is_empty() {
            let rest = if max < self.pending.len() { self.pending.split_off(max) } else { Vec::new() };
            return Ok(std::mem::replace(&mut self.pending, rest));
        }
        let mut room = vec![0; max.min(BODY_READ_BYTES)];
        match tokio::time::timeout(timeout, self.stream.read(&mut room)).await {
            Err(_) => Err(ReadError::TimedOut),
            Ok(Ok(0)) => Err(ReadError::Closed),
            Ok(Ok(n)) => {
                room.truncate(n);
                Ok(room)
            }
            Ok(Err(error)) => Err(ReadError::Io(error)),
        }
    }

    /// Reads what the stream holds now, at most `max` bytes; `None` when that is nothing.
    fn try_read(&self, max: usize) -> Option<Result<Vec<u8>, ReadError>> {
        let mut room = vec![0; max.min(BODY_READ_BYTES)];
        match self.stream.try_read(&mut room) {
            Ok(0) => Some(Err(ReadError::Closed)),
            Ok(n) => {
                room.truncate(n);
                Some(Ok(room))
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
            Err(error) => Some(Err(ReadError::Io(error))),
        }
    }

    /// Reads at least a byte and at most `max` of what the stream brings, within `timeout`.
    async fn read_beside(&self, max: usize, timeout: Duration) -> Result<Vec<u8>, ReadError> {
        let reading = async {
            loop {
                self.stream.readable().await?;
                if let Some(read) = self.try_read(max) {
                    return read;
                }
            }
        };
        tokio::time::timeout(timeout, reading).await.unwrap_or(Err(ReadError::TimedOut))
    }

    /// Writes all of `bytes`, which are few: a `100 Continue`.
    pub async fn write_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.stream.try_write(bytes) {
                Ok(n) => bytes = &bytes[n..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.stream.writable().await?,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Writes all of `bytes`, and takes away what has been written. May be dropped and called again.
    pub async fn write_out(&self, bytes: &mut Vec<u8>) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.stream.try_write(bytes) {
                Ok(n) => drop(bytes.drain(..n)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.stream.writable().await?,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Waits until the client has closed the connection. A client that has sent more meanwhile is not gone.
    pub async fn gone(&self) {
        if !self.pending.is_empty() {
            return std::future::pending().await;
        }
        self.stream.gone().await;
    }
}

/// Closes our side and reads what still comes, so that a client which is still sending gets to read the answer.
async fn linger(stream: &mut Stream, total: Duration, each: Duration) {
    stream.shutdown_write();
    let began = Instant::now();
    let mut room = vec![0; LINGER_BYTES];
    while began.elapsed() < total {
        let left = each.min(total.saturating_sub(began.elapsed()));
        match tokio::time::timeout(left, stream.read(&mut room)).await {
            Ok(Ok(1..)) => {}
            Ok(Ok(0) | Err(_)) | Err(_) => return,
        }
    }
}
