//! A socket to a client, TCP or unix.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::pin::Pin;
use std::task::{Context, Poll};

use rustix::net::RecvFlags;
use tokio::io::{AsyncRead as _, Interest, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

/// A socket to a client.
#[derive(Debug)]
pub enum Socket {
    /// TCP.
    Tcp(TcpStream),
    /// A unix socket.
    Unix(UnixStream),
}

/// What a look at a socket found, without reading anything from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peeked {
    /// The peer has closed it, or it is broken.
    Gone,
    /// The peer has sent something.
    Bytes,
    /// Nothing.
    Nothing,
}

impl Socket {
    /// Reads what is there. If the buffer is not full afterwards, there is no more for now: no second read is needed.
    pub fn poll_read(&mut self, task: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Tcp(stream) => Pin::new(stream).poll_read(task, buf),
            Self::Unix(stream) => Pin::new(stream).poll_read(task, buf),
        }
    }

    /// Reads what is there now.
    pub fn try_read(&self, buf: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.try_read(buf),
            Self::Unix(stream) => stream.try_read(buf),
        }
    }

    /// Reads what is there now, at most `bytes`, and appends it to `buf`.
    pub fn try_read_more(&self, buf: &mut Vec<u8>, bytes: usize) -> io::Result<usize> {
        let held = buf.len();
        buf.resize(held + bytes, 0);
        let read = self.try_read(&mut buf[held..]);
        buf.truncate(held + *read.as_ref().unwrap_or(&0));
        read
    }

    /// Writes what fits now.
    pub fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.try_write(bytes),
            Self::Unix(stream) => stream.try_write(bytes),
        }
    }

    /// Writes what fits now of several buffers.
    pub fn try_write_vectored(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.try_write_vectored(slices),
            Self::Unix(stream) => stream.try_write_vectored(slices),
        }
    }

    /// Calls `f` on the socket, if it may be ready for `interest`.
    pub fn try_io<R>(&self, interest: Interest, f: impl FnOnce(BorrowedFd<'_>) -> io::Result<R>) -> io::Result<R> {
        match self {
            Self::Tcp(stream) => stream.try_io(interest, || f(stream.as_fd())),
            Self::Unix(stream) => stream.try_io(interest, || f(stream.as_fd())),
        }
    }

    /// Ready when something may be written.
    pub fn poll_write_ready(&self, task: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Tcp(stream) => stream.poll_write_ready(task),
            Self::Unix(stream) => stream.poll_write_ready(task),
        }
    }

    /// Ready when something may be read.
    pub fn poll_read_ready(&self, task: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Tcp(stream) => stream.poll_read_ready(task),
            Self::Unix(stream) => stream.poll_read_ready(task),
        }
    }

    /// Waits until something may be written.
    pub async fn writable(&self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.writable().await,
            Self::Unix(stream) => stream.writable().await,
        }
    }

    /// Waits until something may be read.
    pub async fn readable(&self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.readable().await,
            Self::Unix(stream) => stream.readable().await,
        }
    }

    /// Looks at what a read would find now.
    pub fn peek(&self) -> Peeked {
        let peeked = self.try_io(Interest::READABLE, |fd| {
            let mut byte = [0; 1];
            let (n, _) = rustix::net::recv(fd, &mut byte, RecvFlags::PEEK | RecvFlags::DONTWAIT)?;
            Ok(n)
        });
        match peeked {
            Ok(0) => Peeked::Gone,
            Ok(_) => Peeked::Bytes,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Peeked::Nothing,
            Err(_) => Peeked::Gone,
        }
    }

    /// Tells the peer that nothing more will be written.
    pub fn shutdown_write(&self) {
        let fd = match self {
            Self::Tcp(stream) => stream.as_fd(),
            Self::Unix(stream) => stream.as_fd(),
        };
        // If the peer is gone, there is nothing to tell it.
        let _ = rustix::net::shutdown(fd, rustix::net::Shutdown::Write);
    }

    /// Makes closing reset the connection, so that the kernel keeps nothing for a client that does not respond.
    pub fn reset_on_close(&self) {
        if let Self::Tcp(stream) = self {
            let _ = stream.set_zero_linger();
        }
    }
}
