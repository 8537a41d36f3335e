//! The client's side of a request: the source of its body, and whether anybody still waits for the answer.

use std::time::Duration;

use bytes::Bytes;
use tokio::sync::watch;

use super::h2::Handle;
use super::io::{Io, ReadError};

/// The client's side of one request: the source of its body, and whether anybody still waits for the answer.
pub enum Inbound<'a> {
    /// A connection of HTTP/1.
    Connection(&'a mut Io),
    /// A stream of HTTP/2.
    Stream(&'a Handle),
    /// A connection of HTTP/1 whose request contains this subrequest: it is watched for the client's leaving, and not
    /// read.
    Watched(&'a Io),
    /// A composed page that contains this subrequest; the channel closes when the page is given up.
    Inside(&'a watch::Receiver<()>),
    /// None, as for a refetch: nobody waits for the answer.
    Nobody,
}

impl Inbound<'_> {
    /// Reads at least one byte of the body, at most `max`, within `timeout`.
    pub async fn read_some(&mut self, max: usize, timeout: Duration) -> Result<Bytes, ReadError> {
        match self {
            Self::Connection(io) => io.read_some(max, timeout).await.map(Bytes::from),
            Self::Stream(handle) => handle.read(timeout).await?.ok_or(ReadError::Closed),
            Self::Watched(_) | Self::Inside(_) | Self::Nobody => Err(ReadError::Closed),
        }
    }

    /// The same for a subrequest, which reads no body.
    pub fn of_inside(&self) -> Inbound<'_> {
        match self {
            Self::Connection(io) => Inbound::Watched(io),
            Self::Watched(io) => Inbound::Watched(io),
            Self::Stream(handle) => Inbound::Stream(handle),
            Self::Inside(leave) => Inbound::Inside(leave),
            Self::Nobody => Inbound::Nobody,
        }
    }

    /// Reads what has arrived of the body, from a connection of HTTP/1 at most `max` bytes. `None` when nothing has;
    /// `None` inside at the end of a stream.
    pub fn try_read(&self, max: usize) -> Option<Result<Option<Bytes>, ReadError>> {
        match self {
            Self::Connection(io) => Some(io.try_read(max)?.map(|bytes| Some(Bytes::from(bytes)))),
            Self::Stream(handle) => handle.try_read(),
            Self::Watched(_) | Self::Inside(_) | Self::Nobody => None,
        }
    }

    /// The source of the body, to be read while others write or wait; `None` if there is none.
    pub fn source(&self) -> Option<BodySource<'_>> {
        match self {
            Self::Connection(io) => Some(BodySource::Connection(io)),
            Self::Stream(handle) => Some(BodySource::Stream(handle)),
            Self::Watched(_) | Self::Inside(_) | Self::Nobody => None,
        }
    }

    /// Waits until the client has left. A client that has sent more bytes meanwhile is not gone.
    pub async fn gone(&self) {
        match self {
            Self::Connection(io) => io.gone().await,
            Self::Watched(io) => io.gone().await,
            Self::Stream(handle) => handle.gone().await,
            Self::Inside(leave) => {
                // Nothing is ever sent here; the channel closes when the page is given up.
                let mut leave = (*leave).clone();
                while leave.changed().await.is_ok() {}
            }
            Self::Nobody => std::future::pending().await,
        }
    }
}

/// The source of a body that is read while others write or wait.
#[derive(Clone, Copy)]
pub enum BodySource<'a> {
    /// A connection of HTTP/1.
    Connection(&'a Io),
    /// A stream of HTTP/2.
    Stream(&'a Handle),
}

impl BodySource<'_> {
    /// Reads at least one byte of the body within `timeout`, from a connection of HTTP/1 at most `max`; `None` at the
    /// end of a stream. Skips bytes that were read before and are pending.
    pub async fn read(self, max: usize, timeout: Duration) -> Result<Option<Bytes>, ReadError> {
        match self {
            Self::Connection(io) => io.read_beside(max, timeout).await.map(|bytes| Some(Bytes::from(bytes))),
            Self::Stream(handle) => handle.read(timeout).await,
        }
    }

    /// Whether the whole body was read, where the protocol marks its end.
    pub fn has_ended(self) -> bool {
        match self {
            Self::Connection(_) => false,
            Self::Stream(handle) => handle.has_ended(),
        }
    }
}
