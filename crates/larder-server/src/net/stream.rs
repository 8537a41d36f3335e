//! The bytes of a client's connection, whether they travel in the clear or in TLS.

use std::io::{self, IoSlice};
use std::task::{Context, Poll};

use tokio::io::ReadBuf;

use super::socket::{Peeked, Socket};
use super::tls::Tls;

/// A stream to a client.
pub enum Stream {
    /// In the clear.
    Plain(Socket),
    /// In TLS.
    Tls(Box<Tls>),
}

impl Stream {
    /// Reads what is there. A read that does not fill the buffer needs no second one to learn that there is no more.
    pub fn poll_read(&mut self, task: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Plain(socket) => socket.poll_read(task, buf),
            Self::Tls(tls) => tls.poll_read(task, buf),
        }
    }

    /// Reads what comes next.
    pub async fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let mut buf = ReadBuf::new(buf);
        std::future::poll_fn(|task| self.poll_read(task, &mut buf)).await?;
        Ok(buf.filled().len())
    }

    /// Reads what is there now, while others may be waiting to write.
    pub fn try_read(&self, buf: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.try_read(buf),
            Self::Tls(tls) => tls.try_read(buf),
        }
    }

    /// Waits until something may be read.
    pub async fn readable(&self) -> io::Result<()> {
        match self {
            Self::Plain(socket) => socket.readable().await,
            Self::Tls(tls) => tls.readable().await,
        }
    }

    /// Writes what fits now.
    pub fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.try_write(bytes),
            Self::Tls(tls) => tls.try_write(&[IoSlice::new(bytes)]),
        }
    }

    /// Writes of several buffers what fits now.
    pub fn try_write_vectored(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.try_write_vectored(slices),
            Self::Tls(tls) => tls.try_write(slices),
        }
    }

    /// Whether what was written has left larder; what is encrypted and does not fit the socket is held here.
    pub fn is_flushed(&self) -> bool {
        match self {
            Self::Plain(_) => true,
            Self::Tls(tls) => tls.is_flushed(),
        }
    }

    /// How many bytes were written that have not left.
    pub fn held_bytes(&self) -> usize {
        match self {
            Self::Plain(_) => 0,
            Self::Tls(tls) => tls.held_bytes(),
        }
    }

    /// Is ready when what was written has left larder.
    pub fn poll_flush(&self, task: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Plain(_) => Poll::Ready(Ok(())),
            Self::Tls(tls) => tls.poll_flush(task),
        }
    }

    /// Is ready when more may be written.
    pub fn poll_write_ready(&self, task: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Plain(socket) => socket.poll_write_ready(task),
            Self::Tls(tls) => tls.poll_flush(task).map_ok(|()| ()),
        }
    }

    /// Waits until more may be written, or some of what was has left.
    pub async fn writable(&self) -> io::Result<()> {
        match self {
            Self::Plain(socket) => socket.writable().await,
            Self::Tls(tls) => tls.writable().await,
        }
    }

    /// The socket, when what is sent by it reaches the client as it is: files may go by `sendfile` then.
    pub fn plain(&self) -> Option<&Socket> {
        match self {
            Self::Plain(socket) => Some(socket),
            Self::Tls(_) => None,
        }
    }

    /// Waits until the peer has closed the connection, and for ever when it sends something.
    pub async fn gone(&self) {
        loop {
            if self.socket().readable().await.is_err() {
                return;
            }
            let peeked = match self {
                Self::Plain(socket) => socket.peek(),
                Self::Tls(tls) => tls.peek(),
            };
            match peeked {
                Peeked::Gone => return,
                Peeked::Bytes => return std::future::pending().await,
                Peeked::Nothing => {}
            }
        }
    }

    /// Says that all has been written that was to be, so that a reader can tell the end from a cut.
    pub fn close(&self) {
        if let Self::Tls(tls) = self {
            tls.close();
        }
    }

    /// Says that nothing more will be written.
    pub fn shutdown_write(&self) {
        self.close();
        self.socket().shutdown_write();
    }

    /// Makes closing reset the connection, so that the kernel keeps nothing for a client that does not answer.
    pub fn reset_on_close(&self) {
        self.socket().reset_on_close();
    }

    fn socket(&self) -> &Socket {
        match self {
            Self::Plain(socket) => socket,
            Self::Tls(tls) => &tls.socket,
        }
    }
}
