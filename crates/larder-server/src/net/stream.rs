//! A stream of bytes to a client, in the clear or in TLS.

use std::io::{self, IoSlice};
use std::task::{Context, Poll, ready};

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
    /// Reads what is there. If the buffer is not full afterwards, there is no more for now: no second read is needed.
    pub fn poll_read(&mut self, task: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Plain(socket) => socket.poll_read(task, buf),
            Self::Tls(tls) => tls.poll_read(task, buf),
        }
    }

    /// Waits for bytes and reads them.
    pub async fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let mut buf = ReadBuf::new(buf);
        std::future::poll_fn(|task| self.poll_read(task, &mut buf)).await?;
        Ok(buf.filled().len())
    }

    /// Reads what is there now; others may wait to write at the same time.
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

    /// Writes what fits now of several buffers.
    pub fn try_write_vectored(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.try_write_vectored(slices),
            Self::Tls(tls) => tls.try_write(slices),
        }
    }

    /// Whether all that was written has left larder: encrypted bytes that do not fit the socket are held here.
    pub fn is_flushed(&self) -> bool {
        match self {
            Self::Plain(_) => true,
            Self::Tls(tls) => tls.is_flushed(),
        }
    }

    /// How many written bytes have not left larder.
    pub fn held_bytes(&self) -> usize {
        match self {
            Self::Plain(_) => 0,
            Self::Tls(tls) => tls.held_bytes(),
        }
    }

    /// Ready when all that was written has left larder.
    pub fn poll_flush(&self, task: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Plain(_) => Poll::Ready(Ok(())),
            Self::Tls(tls) => tls.poll_flush(task),
        }
    }

    /// Ready when more may be written.
    pub fn poll_write_ready(&self, task: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Plain(socket) => socket.poll_write_ready(task),
            Self::Tls(tls) => tls.poll_flush(task).map_ok(|()| ()),
        }
    }

    /// Waits until more may be written, or some of the held bytes have left.
    pub async fn writable(&self) -> io::Result<()> {
        match self {
            Self::Plain(socket) => socket.writable().await,
            Self::Tls(tls) => tls.writable().await,
        }
    }

    /// The socket, if bytes written to it reach the client unchanged; then files may be sent by `sendfile`.
    pub fn plain(&self) -> Option<&Socket> {
        match self {
            Self::Plain(socket) => Some(socket),
            Self::Tls(_) => None,
        }
    }

    /// Waits until the peer has closed the connection. Waits for ever if it sends something first.
    pub async fn gone(&self) {
        loop {
            if self.socket().readable().await.is_err() {
                return;
            }
            match self.peek() {
                Peeked::Gone => return,
                Peeked::Bytes => return std::future::pending().await,
                Peeked::Nothing => {}
            }
        }
    }

    /// Ready when the peer has closed the connection; not if it has sent something first. Costs no system call as long
    /// as nothing has arrived.
    pub fn poll_gone(&self, task: &mut Context<'_>) -> Poll<()> {
        loop {
            if ready!(self.socket().poll_read_ready(task)).is_err() {
                return Poll::Ready(());
            }
            match self.peek() {
                Peeked::Gone => return Poll::Ready(()),
                Peeked::Bytes => return Poll::Pending,
                Peeked::Nothing => {}
            }
        }
    }

    /// Whether something lies in the socket that was not read. Asks the system, whatever the reactor has said.
    pub fn has_unread(&self) -> bool {
        self.socket().has_unread()
    }

    /// Looks at what a read would find now.
    pub fn peek(&self) -> Peeked {
        match self {
            Self::Plain(socket) => socket.peek(),
            Self::Tls(tls) => tls.peek(),
        }
    }

    /// Marks the end of all that was written, so that the peer can tell it from a cut connection.
    pub fn close(&self) {
        if let Self::Tls(tls) = self {
            tls.close();
        }
    }

    /// Tells the peer that nothing more will be written.
    pub fn shutdown_write(&self) {
        self.close();
        self.socket().shutdown_write();
    }

    /// Says whether what is written from now on is the end, and the connection is closed right after it: one packet has
    /// both.
    pub fn leave_with_close(&self, is_end: bool) {
        self.socket().leave_with_close(is_end);
    }

    /// Makes closing reset the connection, so that the kernel keeps nothing for a client that does not respond.
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
