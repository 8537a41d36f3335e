//! Where a response is written to: a connection of its own (HTTP/1), or a stream of a shared one (HTTP/2).

use std::io::{self, IoSlice};

use super::h2::Handle;
use super::socket::Socket;
use super::stream::Stream;

/// Where a response is written to.
#[derive(Clone, Copy)]
pub enum Sink<'a> {
    /// A connection.
    Connection(&'a Stream),
    /// A stream of HTTP/2, whose head has been sent.
    Stream(&'a Handle),
}

impl<'a> Sink<'a> {
    /// Writes what fits now of `head`, then of `body`.
    pub fn try_write(self, head: &[u8], body: &[u8]) -> io::Result<usize> {
        match self {
            Self::Connection(stream) => stream.try_write_vectored(&[IoSlice::new(head), IoSlice::new(body)]),
            Self::Stream(handle) => handle.try_write(body),
        }
    }

    /// How much is worth offering at once, as far as that is known.
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

    /// Waits until the client has left, and for ever when it sends something.
    pub async fn gone(self) {
        match self {
            Self::Connection(stream) => stream.gone().await,
            Self::Stream(handle) => handle.gone().await,
        }
    }

    /// The socket, when a file may go to it by `sendfile`.
    pub fn socket(self) -> Option<&'a Socket> {
        match self {
            Self::Connection(stream) => stream.plain(),
            Self::Stream(_) => None,
        }
    }

    /// How far others have come for whom this response waits; `None` where there are none.
    pub fn progress_of_others(self) -> Option<u64> {
        match self {
            Self::Connection(_) => None,
            Self::Stream(handle) => handle.progress_of_others(),
        }
    }

    /// Whether nothing of what was written is held here any more.
    pub fn is_flushed(self) -> bool {
        match self {
            Self::Connection(stream) => stream.is_flushed(),
            // The connection's driver sends what its streams have written.
            Self::Stream(_) => true,
        }
    }
}
