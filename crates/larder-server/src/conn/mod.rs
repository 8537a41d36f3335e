//! A client's connection: its stream, what was read and not yet used, waiting with a limit.

pub mod h1;
pub mod send;
pub mod tunnel;

use std::io::{self, IoSlice};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use rustix::net::RecvFlags;
use tokio::io::{AsyncRead as _, Interest, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

/// How much is read at once from a request's body.
const BODY_READ_BYTES: usize = 64 * 1024;

/// A stream to a client.
#[derive(Debug)]
pub enum Stream {
    /// TCP.
    Tcp(TcpStream),
    /// A unix socket.
    Unix(UnixStream),
}

impl Stream {
    /// Reads what is there. A read that does not fill the buffer needs no second one to learn that there is no more.
    pub fn poll_read(&mut self, task: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Tcp(stream) => Pin::new(stream).poll_read(task, buf),
            Self::Unix(stream) => Pin::new(stream).poll_read(task, buf),
        }
    }

    /// Writes what fits now.
    pub fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.try_write(bytes),
            Self::Unix(stream) => stream.try_write(bytes),
        }
    }

    /// Writes of several buffers what fits now.
    pub fn try_write_vectored(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.try_write_vectored(slices),
            Self::Unix(stream) => stream.try_write_vectored(slices),
        }
    }

    /// Does something with the socket when it may be ready for it.
    pub fn try_io<R>(&self, interest: Interest, f: impl FnOnce(BorrowedFd<'_>) -> io::Result<R>) -> io::Result<R> {
        match self {
            Self::Tcp(stream) => stream.try_io(interest, || f(stream.as_fd())),
            Self::Unix(stream) => stream.try_io(interest, || f(stream.as_fd())),
        }
    }

    async fn writable(&self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.writable().await,
            Self::Unix(stream) => stream.writable().await,
        }
    }

    async fn readable(&self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.readable().await,
            Self::Unix(stream) => stream.readable().await,
        }
    }

    /// Waits until the peer has closed the connection, and for ever when it sends something.
    pub async fn gone(&self) {
        loop {
            if self.readable().await.is_err() {
                return;
            }
            let peeked = self.try_io(Interest::READABLE, |fd| {
                let mut byte = [0; 1];
                let (n, _) = rustix::net::recv(fd, &mut byte, RecvFlags::PEEK | RecvFlags::DONTWAIT)?;
                Ok(n)
            });
            match peeked {
                Ok(0) => return,
                Ok(_) => return std::future::pending().await,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => return,
            }
        }
    }

    fn shutdown_write(&self) {
        let fd = match self {
            Self::Tcp(stream) => stream.as_fd(),
            Self::Unix(stream) => stream.as_fd(),
        };
        // The peer may be gone; then there is nothing to tell it.
        let _ = rustix::net::shutdown(fd, rustix::net::Shutdown::Write);
    }

    /// Makes closing reset the connection, so that the kernel keeps nothing for a client that does not answer.
    fn reset_on_close(&self) {
        if let Self::Tcp(stream) = self {
            let _ = stream.set_zero_linger();
        }
    }
}

/// A stream, and what was read from it and not yet used.
#[derive(Debug)]
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
    /// The system said no.
    #[error("recv() failed: {0}")]
    Io(#[from] io::Error),
}

impl Io {
    /// A stream that nothing was read from.
    pub fn new(stream: Stream) -> Self {
        Self { stream, pending: Vec::new() }
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
        let read = std::future::poll_fn(|task| {
            let mut buf = ReadBuf::new(&mut room);
            match self.stream.poll_read(task, &mut buf) {
                Poll::Ready(Ok(())) => Poll::Ready(Ok(buf.filled().len())),
                Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
                Poll::Pending => Poll::Pending,
            }
        });
        match tokio::time::timeout(timeout, read).await {
            Err(_) => Err(ReadError::TimedOut),
            Ok(Ok(0)) => Err(ReadError::Closed),
            Ok(Ok(n)) => {
                room.truncate(n);
                Ok(room)
            }
            Ok(Err(error)) => Err(ReadError::Io(error)),
        }
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

    /// Waits until the client has closed the connection. A client that has sent more meanwhile is not gone.
    pub async fn gone(&self) {
        if !self.pending.is_empty() {
            return std::future::pending().await;
        }
        self.stream.gone().await;
    }
}
