//! A connection to an origin, over TCP or a Unix socket.

use std::{
    io::{self, IoSlice},
    net::SocketAddr,
    os::{fd::AsFd, unix::net::UnixStream as StdUnixStream},
    path::Path,
    pin::{Pin, pin},
    task::{Context, Poll},
    time::Duration,
};

use bytes::BytesMut;
use socket2::{Domain, SockAddr, Socket, Type};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf},
    net::{TcpSocket, TcpStream, UnixStream},
    time::{Instant, sleep, timeout},
};

use crate::{address::Address, error::FetchError, request::Limits};

/// A connection that belongs to the runtime of this thread.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: Stream,
    made_at: Instant,
    /// Requests sent on it, this one included.
    served: u64,
    /// Whether nothing was written since it was made or taken from the pool. The socket then has room, though the
    /// runtime has not been told so yet: the first write goes straight to it and saves a turn of the loop.
    untouched: bool,
}

#[derive(Debug)]
enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// A connection that belongs to no runtime, so that any worker may take it.
#[derive(Debug)]
pub(crate) struct Parked {
    stream: ParkedStream,
    made_at: Instant,
    served: u64,
}

#[derive(Debug)]
enum ParkedStream {
    Tcp(std::net::TcpStream),
    Unix(StdUnixStream),
}

/// How long to wait before a Unix socket whose queue is full is tried again. Such a connect fails at once, where
/// TCP would wait; php-fpm with all children busy and a short backlog is met often.
const FULL_QUEUE_PAUSE: Duration = Duration::from_millis(5);

impl Connection {
    /// Connects within `limits.connect`. `patient` waits for a place in the queue of a Unix socket, which is right
    /// when there is no other origin to ask.
    pub(crate) async fn open(address: &Address, limits: &Limits, patient: bool) -> Result<Connection, FetchError> {
        let opened = timeout(limits.connect, async {
            match address {
                Address::Tcp(address) => connect_tcp(*address, limits).await.map(Stream::Tcp),
                Address::Unix(path) => connect_unix(path, patient).await.map(Stream::Unix),
            }
        });
        match opened.await {
            Ok(Ok(stream)) => Ok(Connection { stream, made_at: Instant::now(), served: 1, untouched: true }),
            Ok(Err(source)) if source.kind() == io::ErrorKind::TimedOut => Err(FetchError::ConnectTimeout),
            Ok(Err(source)) => Err(FetchError::Connect { origin: address.to_string(), source }),
            Err(_) => Err(FetchError::ConnectTimeout),
        }
    }

    /// Takes it from its runtime.
    pub(crate) fn park(self) -> io::Result<Parked> {
        let stream = match self.stream {
            Stream::Tcp(stream) => ParkedStream::Tcp(stream.into_std()?),
            Stream::Unix(stream) => ParkedStream::Unix(stream.into_std()?),
        };
        Ok(Parked { stream, made_at: self.made_at, served: self.served })
    }

    /// Requests sent on it.
    pub(crate) fn served(&self) -> u64 {
        self.served
    }

    /// When it was made.
    pub(crate) fn made_at(&self) -> Instant {
        self.made_at
    }

    /// Reads once into the spare room of `buffer`; 0 bytes is the end.
    pub(crate) fn poll_read_into(&mut self, cx: &mut Context<'_>, buffer: &mut BytesMut) -> Poll<io::Result<usize>> {
        // `read_buf` does one read and keeps nothing between polls, so a future made anew each time loses nothing.
        match &mut self.stream {
            Stream::Tcp(stream) => pin!(stream.read_buf(buffer)).poll(cx),
            Stream::Unix(stream) => pin!(stream.read_buf(buffer)).poll(cx),
        }
    }

    /// Writes once, from many pieces.
    pub(crate) fn poll_write_from(&mut self, cx: &mut Context<'_>, pieces: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        if std::mem::take(&mut self.untouched) {
            let written = match &self.stream {
                Stream::Tcp(stream) => rustix::io::writev(stream.as_fd(), pieces),
                Stream::Unix(stream) => rustix::io::writev(stream.as_fd(), pieces),
            };
            match written {
                Ok(count) => return Poll::Ready(Ok(count)),
                Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {}
                Err(error) => return Poll::Ready(Err(error.into())),
            }
        }
        match &mut self.stream {
            Stream::Tcp(stream) => Pin::new(stream).poll_write_vectored(cx, pieces),
            Stream::Unix(stream) => Pin::new(stream).poll_write_vectored(cx, pieces),
        }
    }
}

impl Parked {
    /// Whether the origin has neither closed it nor sent anything. A response nobody asked for would be taken for
    /// the answer to the next request.
    pub(crate) fn is_quiet(&self) -> bool {
        let mut byte = [0u8; 1];
        let flags = rustix::net::RecvFlags::PEEK | rustix::net::RecvFlags::DONTWAIT;
        let peeked = match &self.stream {
            ParkedStream::Tcp(stream) => rustix::net::recv(stream.as_fd(), &mut byte, flags),
            ParkedStream::Unix(stream) => rustix::net::recv(stream.as_fd(), &mut byte, flags),
        };
        matches!(peeked, Err(rustix::io::Errno::AGAIN))
    }

    /// Gives it to the runtime of this thread, for one more request.
    pub(crate) fn unpark(self) -> io::Result<Connection> {
        let stream = match self.stream {
            ParkedStream::Tcp(stream) => Stream::Tcp(TcpStream::from_std(stream)?),
            ParkedStream::Unix(stream) => Stream::Unix(UnixStream::from_std(stream)?),
        };
        Ok(Connection { stream, made_at: self.made_at, served: self.served + 1, untouched: true })
    }
}

async fn connect_tcp(address: SocketAddr, limits: &Limits) -> io::Result<TcpStream> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.set_nodelay(true)?;
    if limits.tcp_keepalive {
        socket.set_keepalive(true)?;
    }
    if let Some(ours) = limits.bind {
        socket.bind(SocketAddr::new(ours, 0))?;
    }
    socket.connect(address).await
}

/// Connecting to a Unix socket is done or refused at once, so no readiness is waited for.
async fn connect_unix(path: &Path, patient: bool) -> io::Result<UnixStream> {
    let address = SockAddr::unix(path)?;
    loop {
        let socket = Socket::new(Domain::UNIX, Type::STREAM.nonblocking().cloexec(), None)?;
        match socket.connect(&address) {
            Ok(()) => {
                return UnixStream::from_std(StdUnixStream::from(std::os::fd::OwnedFd::from(socket)));
            }
            Err(error) if patient && error.kind() == io::ErrorKind::WouldBlock => sleep(FULL_QUEUE_PAUSE).await,
            Err(error) => return Err(error),
        }
    }
}

impl AsyncRead for Connection {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Stream::Tcp(stream) => Pin::new(stream).poll_read(cx, buffer),
            Stream::Unix(stream) => Pin::new(stream).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match &mut self.stream {
            Stream::Tcp(stream) => Pin::new(stream).poll_write(cx, bytes),
            Stream::Unix(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Nothing is held back here.
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Stream::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
            Stream::Unix(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
