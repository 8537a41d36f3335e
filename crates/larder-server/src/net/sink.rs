//! Where a response is written: to a connection of HTTP/1, or to a stream of HTTP/2.

use std::io::{self, IoSlice};

use super::h2::Handle;
use super::socket::Socket;
use super::stream::Stream;

/// Where a response is written.
#[derive(Clone, Copy)]
pub enum Sink<'a> {
    /// A connection of HTTP/1.
    Connection(&'a Stream),
    /// A stream of HTTP/2 whose response head has been sent.
    Stream(&'a Handle),
}

impl<'a> Sink<'a> {
    /// Writes what fits now: first of `head`, then of `body`.
    pub fn try_write(self, head: &[u8], body: &[u8]) -> io::Result<usize> {
        match self {
            Self::Connection(stream) => stream.try_write_vectored(&[IoSlice::new(head), IoSlice::new(body)]),
            Self::Stream(handle) => handle.try_write(body),
        }
    }

    /// How many bytes are worth offering at once, as far as that is known.
    pub fn room(self) -> usize {
        match self {
            Self::Connection(_) => usize::MAX,
            Self::Stream(handle) => handle.room(),
        }
    }

    /// Waits until more may be written.
    pub async fn writable(self) -> io::Result<()> {
        match self {
            Self::Connection(stream) => stream.writable().await,
            Self::Stream(handle) => handle.writable().await,
        }
    }

    /// Waits until the client has left. Waits for ever if the client sends something first.
    pub async fn gone(self) {
        match self {
            Self::Connection(stream) => stream.gone().await,
            Self::Stream(handle) => handle.gone().await,
        }
    }

    /// The socket, if a file may be sent to it by `sendfile`.
    pub fn socket(self) -> Option<&'a Socket> {
        match self {
            Self::Connection(stream) => stream.plain(),
            Self::Stream(_) => None,
        }
    }

    /// How far the client's other streams are, if this response waits for them; else `None`.
    pub fn progress_of_others(self) -> Option<u64> {
        match self {
            Self::Connection(_) => None,
            Self::Stream(handle) => handle.progress_of_others(),
        }
    }

    /// Whether nothing that was written is held in larder any more.
    pub fn is_flushed(self) -> bool {
        match self {
            Self::Connection(stream) => stream.is_flushed(),
            // The connection's driver sends what its streams have written.
            Self::Stream(_) => true,
        }
    }
}
