//! The client's side of a request: where its body comes from, and whether somebody still waits for the answer.

use std::time::Duration;

use bytes::Bytes;
use tokio::sync::watch;

use super::h2::Handle;
use super::io::{Io, ReadError};

/// The client's side of one request: its body, and whether somebody still waits for the answer.
pub enum Inbound<'a> {
    /// A connection of its own.
    Connection(&'a mut Io),
    /// A stream of a shared one.
    Stream(&'a Handle),
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
    pub fn source(&self) -> Option<BodySource<'_>> {
        match self {
            Self::Connection(io) => Some(BodySource::Connection(io)),
            Self::Stream(handle) => Some(BodySource::Stream(handle)),
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
pub enum BodySource<'a> {
    /// A connection of its own.
    Connection(&'a Io),
    /// A stream of a shared one.
    Stream(&'a Handle),
}

impl BodySource<'_> {
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
