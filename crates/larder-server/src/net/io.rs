//! A connection of HTTP/1: its stream, the bytes that were read and not yet used, and reads with a timeout.

use std::io;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::Instant;

use super::socket::Peeked;
use super::stream::Stream;

/// How much of a request's body is read at once.
const BODY_READ_BYTES: usize = 64 * 1024;

/// How much of what is dropped is read at once.
const LINGER_BYTES: usize = 16 * 1024;

/// A stream, and the bytes that were read from it and not yet used.
pub struct Io {
    /// The client's stream.
    pub stream: Stream,
    /// Bytes that were read and not yet used; they come before those of `stream`.
    pub pending: Vec<u8>,
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
    /// A request's body is not as long as its head says. Only in HTTP/2, where the body's end is marked.
    #[error("client sent a body of another length than declared")]
    WrongLength,
    /// The system call failed.
    #[error("recv() failed{}", crate::log::io_error_text(.0))]
    Io(#[from] io::Error),
}

impl Io {
    /// Wraps a stream from which `pending` has been read.
    pub fn new(stream: Stream, pending: Vec<u8>) -> Self {
        Self { stream, pending }
    }

    /// Whether bytes were read and not yet used.
    pub fn has_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Whether the client has sent more than was used: to close the socket now would reset the connection. Costs a system
    /// call only if something has come.
    pub fn has_more(&self) -> bool {
        self.has_pending() || self.stream.peek() == Peeked::Bytes
    }

    /// Gives bytes back, to be read again before what the stream holds.
    pub fn unread(&mut self, bytes: &[u8]) {
        self.pending.splice(0..0, bytes.iter().copied());
    }

    /// Takes the bytes that were read and not yet used.
    pub fn take_pending(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.pending)
    }

    /// Reads at least one byte and at most `max`, within `timeout`.
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

    /// Reads what the stream has now, at most `max` bytes; `None` if that is nothing.
    pub fn try_read(&self, max: usize) -> Option<Result<Vec<u8>, ReadError>> {
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

    /// Reads at least one byte and at most `max` from the stream itself, within `timeout`.
    pub async fn read_beside(&self, max: usize, timeout: Duration) -> Result<Vec<u8>, ReadError> {
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

    /// Writes all of `bytes`, which are few, as in a `100 Continue`.
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

    /// Writes all of `bytes`, and removes what was written from it. May be dropped and called again.
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

    /// Ready when the client has closed the connection. A client that has sent more bytes meanwhile is not gone.
    pub fn poll_gone(&self, task: &mut Context<'_>) -> Poll<()> {
        if self.has_pending() { Poll::Pending } else { self.stream.poll_gone(task) }
    }

    /// Waits until the client has closed the connection. A client that has sent more bytes meanwhile is not gone.
    pub async fn gone(&self) {
        if !self.pending.is_empty() {
            return std::future::pending().await;
        }
        self.stream.gone().await;
    }
}

/// Closes our side and drops what still arrives, so that a client that is still sending can read the answer.
pub async fn linger(stream: &mut Stream, total: Duration, each: Duration) {
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
