//! A task's handle to its stream of HTTP/2.

use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use larder_http::h2::{ErrorCode, StreamId};

use crate::net::io::ReadError;

use super::shared::{Shared, Tried};

/// The stream that a task answers. If the handle is dropped before the response has ended, the stream is reset.
pub struct Handle {
    shared: Rc<Shared>,
    id: StreamId,
    /// The code of that reset.
    code: Cell<ErrorCode>,
}

impl Handle {
    /// Takes a stream over from the driver; `body_ended` says that the request has no body.
    pub fn new(shared: &Rc<Shared>, id: StreamId, body_ended: bool) -> Self {
        shared.open(id, body_ended);
        Self { shared: Rc::clone(shared), id, code: Cell::new(ErrorCode::INTERNAL_ERROR) }
    }

    /// Sends the head of the response; returns its length in frames, bytes.
    pub fn send_head(&self, block: &[u8], ends: bool) -> u64 {
        self.shared.send_head(self.id, block, ends)
    }

    /// Writes as much as the windows allow now.
    pub fn try_write(&self, data: &[u8]) -> io::Result<usize> {
        match self.shared.send(self.id, data) {
            Tried::Done(sent) => Ok(sent),
            Tried::Wait => Err(io::ErrorKind::WouldBlock.into()),
            Tried::Gone => Err(io::ErrorKind::ConnectionReset.into()),
        }
    }

    /// How much could be written now, bytes.
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

    /// How far the connection has come, if this stream waits for other streams and not for its client; else `None`.
    pub fn progress_of_others(&self) -> Option<u64> {
        self.shared.is_crowded_out(self.id).then(|| self.shared.progress() + self.shared.steps())
    }

    /// Ends the response; `trailers` is a field block, or empty. If the request's body is still arriving, it is not
    /// needed any more, which is no error (RFC 9113 §8.1).
    pub fn finish(&mut self, trailers: &[u8]) {
        self.shared.finish(self.id, trailers);
        self.code.set(ErrorCode::NO_ERROR);
    }

    /// Notes that the head was the whole response.
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

    /// Notes that the client was too slow: as in nginx, the reset says that this is the client's fault.
    pub fn timed_out(&self) {
        self.code.set(ErrorCode::PROTOCOL_ERROR);
    }

    /// Sets the largest piece of a body in one frame: `http2_chunk_size`.
    pub fn set_chunk(&self, bytes: usize) {
        self.shared.set_chunk(self.id, bytes);
    }

    /// What has arrived of the request's body and was not read yet; `None` when nothing has, `None` inside at its end.
    pub fn try_read(&self) -> Option<Result<Option<Bytes>, ReadError>> {
        match self.shared.read(self.id, Waker::noop()) {
            Tried::Done(piece) => Some(Ok(piece)),
            Tried::Wait => None,
            Tried::Gone => Some(Err(self.lost())),
        }
    }

    /// Whether the whole body of the request was read.
    pub fn has_ended(&self) -> bool {
        self.shared.has_ended_body(self.id)
    }

    /// Why the request's body brings no more.
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
