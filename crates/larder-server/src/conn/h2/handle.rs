//! A task's hold of its stream.

use std::io;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use larder_http::h2::{ErrorCode, StreamId};

use crate::conn::ReadError;

use super::shared::{Shared, Tried};

/// A stream that a task works on. Dropped before the response has ended, it resets the stream.
pub struct Handle {
    shared: Rc<Shared>,
    id: StreamId,
    /// What a reset says.
    code: ErrorCode,
}

impl Handle {
    /// Takes a stream over from the driver; `body_ended` says that the request has no body.
    pub fn new(shared: &Rc<Shared>, id: StreamId, body_ended: bool) -> Self {
        shared.open(id, body_ended);
        Self { shared: Rc::clone(shared), id, code: ErrorCode::INTERNAL_ERROR }
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
        self.code = ErrorCode::NO_ERROR;
    }

    /// The head was all of the response.
    pub fn finished(&mut self) {
        self.code = ErrorCode::NO_ERROR;
    }

    /// Reads a piece of the request's body within `timeout`; `None` at its end.
    pub async fn read(&self, timeout: Duration) -> Result<Option<Bytes>, ReadError> {
        let read = std::future::poll_fn(|task| match self.shared.read(self.id, task.waker()) {
            Tried::Done(piece) => Poll::Ready(Ok(piece)),
            Tried::Wait => Poll::Pending,
            Tried::Gone => Poll::Ready(Err(ReadError::Closed)),
        });
        tokio::time::timeout(timeout, read).await.unwrap_or(Err(ReadError::TimedOut))
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
        self.shared.close(self.id, self.code);
    }
}
