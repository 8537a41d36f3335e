//! A task's hold of its stream.

use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use larder_http::h2::{ErrorCode, StreamId};

use crate::net::io::ReadError;

use super::shared::{Shared, Tried};

/// A stream that a task works on. Dropped before the response has ended, it resets the stream.
pub struct Handle {
    shared: Rc<Shared>,
    id: StreamId,
    /// What a reset says.
    code: Cell<ErrorCode>,
}

impl Handle {
    /// Takes a stream over from the driver; `body_ended` says that the request has no body.
    pub fn new(shared: &Rc<Shared>, id: StreamId, body_ended: bool) -> Self {
        shared.open(id, body_ended);
        Self { shared: Rc::clone(shared), id, code: Cell::new(ErrorCode::INTERNAL_ERROR) }
    }

    /// Sends the head of the response; returns how many bytes that took.
    pub fn send_head(&self, block: &[u8], ends: bool) -> u64 {
        self.shared.send_head(self.id, block, ends)
    }

    /// Writes what the windows allow now.
    pub fn try_write(&self, data: &[u8]) -> io::Result<usize> {
        match self.shared.send(self.id, data) {
            Tried::Done(sent) => Ok(sent),
            Tried::Wait => Err(io::ErrorKind::WouldBlock.into()),
            Tried::Gone => Err(io::ErrorKind::ConnectionReset.into()),
        }
    }

    /// How much would be written now.
    pub fn room(&self) -> usize {
        self.shared.room(self.id)
    }

    /// Waits until something may be written.
    pub async fn writable(&self) -> io::Result<()> {
        std::future::poll_fn(|task| match self.shared.may_send(self.id, task.waker()) {
            Tried::Done(()) => Poll::Ready(Ok(())),
            Tried::Wait => Poll::Pending,
            Tried::Gone => Poll::Ready(Err(io::ErrorKind::ConnectionReset.into())),
        })
        .await
    }

    /// How far the connection has come, while this stream waits for others and not for its client; else `None`.
    pub fn progress_of_others(&self) -> Option<u64> {
        self.shared.is_crowded_out(self.id).then(|| self.shared.progress() + self.shared.steps())
    }

    /// Ends the response: with `trailers`, a field block, if there are any. A body of the request that is still coming
    /// is not wanted any more, which is no error (RFC 9113 §8.1).
    pub fn finish(&mut self, trailers: &[u8]) {
        self.shared.finish(self.id, trailers);
        self.code.set(ErrorCode::NO_ERROR);
    }

    /// The head was all of the response.
    pub fn finished(&mut self) {
        self.code.set(ErrorCode::NO_ERROR);
    }

    /// Reads a piece of the request's body within `timeout`; `None` at its end.
    pub async fn read(&self, timeout: Duration) -> Result<Option<Bytes>, ReadError> {
        let read = std::future::poll_fn(|task| match self.shared.read(self.id, task.waker()) {
            Tried::Done(piece) => Poll::Ready(Ok(piece)),
            Tried::Wait => Poll::Pending,
            Tried::Gone => Poll::Ready(Err(self.lost())),
        });
        tokio::time::timeout(timeout, read).await.unwrap_or_else(|_| {
            self.timed_out();
            Err(ReadError::TimedOut)
        })
    }

    /// The client was too slow: a reset says that it is its own fault, as nginx's does.
    pub fn timed_out(&self) {
        self.code.set(ErrorCode::PROTOCOL_ERROR);
    }

    /// How much of the body a frame holds at most: `http2_chunk_size`.
    pub fn set_chunk(&self, bytes: usize) {
        self.shared.set_chunk(self.id, bytes);
    }

    /// What has come of the request's body and was not read yet; `None` when nothing has, `None` inside at its end.
    pub fn try_read(&self) -> Option<Result<Option<Bytes>, ReadError>> {
        match self.shared.read(self.id, Waker::noop()) {
            Tried::Done(piece) => Some(Ok(piece)),
            Tried::Wait => None,
            Tried::Gone => Some(Err(self.lost())),
        }
    }

    /// Whether all of the request's body has come and been read.
    pub fn has_ended(&self) -> bool {
        self.shared.has_ended_body(self.id)
    }

    /// Why no more of the request's body comes.
    fn lost(&self) -> ReadError {
        match self.shared.is_wrong(self.id) {
            true => ReadError::WrongLength,
            false => ReadError::Closed,
        }
    }

    /// Waits until the client has left.
    pub async fn gone(&self) {
        std::future::poll_fn(|task| match self.shared.has_left(self.id, task.waker()) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        })
        .await;
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.shared.close(self.id, self.code.get());
    }
}
