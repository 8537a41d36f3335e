//! A socket to an origin, TCP or unix, registered with a runtime.

use std::{
    io::{self, IoSlice},
    net::SocketAddr,
    os::{
        fd::{AsFd, BorrowedFd},
        unix::net::UnixStream as StdUnixStream,
    },
    path::Path,
    pin::{Pin, pin},
    task::{Context, Poll},
    time::Duration,
};

use bytes::BufMut;
use rustix::net::RecvFlags;
use socket2::{Domain, SockAddr, SockRef, Type};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, Interest, ReadBuf},
    net::{TcpSocket, TcpStream, UnixStream},
    time::sleep,
};

use crate::{
    address::Address,
    limits::{Bind, Limits},
};

/// A socket that is registered with a runtime: of this thread, or while idle perhaps of another.
#[derive(Debug)]
pub(crate) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// What has arrived on an idle socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Came {
    Nothing,
    Bytes(usize),
    /// The origin has closed it, or it is broken.
    End,
}

/// How long to wait before connecting again to a Unix socket with a full queue. Such a connect fails at once, where TCP
/// would wait. It is common: php-fpm with a short backlog and all children busy.
const FULL_QUEUE_PAUSE: Duration = Duration::from_millis(5);

impl Socket {
    /// Connects. With `patient`, it waits for a place in the full queue of a Unix socket.
    pub(crate) async fn connect(address: &Address, limits: &Limits, patient: bool) -> io::Result<Socket> {
        match address {
            Address::Tcp(address) => connect_tcp(*address, limits).await.map(Socket::Tcp),
            Address::Unix(path) => connect_unix(path, patient).await.map(Socket::Unix),
        }
    }

    /// Attaches it to the runtime of this thread; it belonged to another.
    pub(crate) fn rehome(self) -> io::Result<Socket> {
        Ok(match self {
            Socket::Tcp(stream) => Socket::Tcp(TcpStream::from_std(stream.into_std()?)?),
            Socket::Unix(stream) => Socket::Unix(UnixStream::from_std(stream.into_std()?)?),
        })
    }

    /// Reads once into the spare room of `buffer`; 0 bytes means the end.
    pub(crate) fn poll_read_into(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut (impl BufMut + ?Sized),
    ) -> Poll<io::Result<usize>> {
        // `read_buf` does one read and keeps nothing between polls, so a new future each time loses nothing.
        match self {
            Socket::Tcp(stream) => pin!(stream.read_buf(buffer)).poll(cx),
            Socket::Unix(stream) => pin!(stream.read_buf(buffer)).poll(cx),
        }
    }

    /// Reads once.
    pub(crate) fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self {
            Socket::Tcp(stream) => Pin::new(stream).poll_read(cx, buffer),
            Socket::Unix(stream) => Pin::new(stream).poll_read(cx, buffer),
        }
    }

    /// Writes once, from many pieces.
    pub(crate) fn poll_write(&mut self, cx: &mut Context<'_>, pieces: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        match self {
            Socket::Tcp(stream) => Pin::new(stream).poll_write_vectored(cx, pieces),
            Socket::Unix(stream) => Pin::new(stream).poll_write_vectored(cx, pieces),
        }
    }

    /// Writes once, without asking the runtime whether there is room.
    pub(crate) fn write_now(&self, pieces: &[IoSlice<'_>]) -> Result<usize, rustix::io::Errno> {
        rustix::io::writev(self.fd(), pieces)
    }

    /// Says that nothing more will be written.
    pub(crate) fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Socket::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
            Socket::Unix(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }

    /// Looks at what has arrived, without reading it. Asks the system.
    pub(crate) fn peek(&self) -> Came {
        self.receive(&mut [0], RecvFlags::PEEK)
    }

    /// [`Socket::peek`] on the socket's own runtime, which usually knows that nothing has arrived.
    pub(crate) fn peek_at_home(&self) -> Came {
        let look = || match self.peek() {
            Came::Nothing => Err(io::ErrorKind::WouldBlock.into()),
            came @ (Came::Bytes(_) | Came::End) => Ok(came),
        };
        let came = match self {
            Socket::Tcp(stream) => stream.try_io(Interest::READABLE, look),
            Socket::Unix(stream) => stream.try_io(Interest::READABLE, look),
        };
        match came {
            Ok(came) => came,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Came::Nothing,
            Err(_) => Came::End,
        }
    }

    /// Reads what has arrived.
    pub(crate) fn read_now(&self, buffer: &mut [u8]) -> Came {
        self.receive(buffer, RecvFlags::empty())
    }

    fn receive(&self, buffer: &mut [u8], flags: RecvFlags) -> Came {
        match rustix::net::recv(self.fd(), buffer, flags | RecvFlags::DONTWAIT) {
            Ok((_, count @ 1..)) => Came::Bytes(count),
            Err(rustix::io::Errno::AGAIN) => Came::Nothing,
            Ok(_) | Err(_) => Came::End,
        }
    }

    fn fd(&self) -> BorrowedFd<'_> {
        match self {
            Socket::Tcp(stream) => stream.as_fd(),
            Socket::Unix(stream) => stream.as_fd(),
        }
    }
}

async fn connect_tcp(address: SocketAddr, limits: &Limits) -> io::Result<TcpStream> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.set_nodelay(true)?;
    if limits.tcp_keepalive {
        socket.set_keepalive(true)?;
    }
    if let Some(ours) = limits.bind {
        bind(&socket, ours)?;
    }
    socket.connect(address).await
}

/// Binds the socket to our address.
fn bind(socket: &TcpSocket, ours: Bind) -> io::Result<()> {
    let raw = SockRef::from(socket);
    if ours.transparent {
        match ours.address {
            SocketAddr::V4(_) => raw.set_ip_transparent_v4(true)?,
            SocketAddr::V6(_) => raw.set_ip_transparent_v6(true)?,
        }
    }
    if ours.address.port() != 0 {
        // An earlier connection from this address may still be closing.
        socket.set_reuseaddr(true)?;
    }
    socket.bind(ours.address)
}

/// Connects to a Unix socket. That succeeds or fails at once, so it does not wait for readiness.
async fn connect_unix(path: &Path, patient: bool) -> io::Result<UnixStream> {
    let address = SockAddr::unix(path)?;
    loop {
        let socket = socket2::Socket::new(Domain::UNIX, Type::STREAM.nonblocking().cloexec(), None)?;
        match socket.connect(&address) {
            Ok(()) => {
                return UnixStream::from_std(StdUnixStream::from(std::os::fd::OwnedFd::from(socket)));
            }
            Err(error) if patient && error.kind() == io::ErrorKind::WouldBlock => sleep(FULL_QUEUE_PAUSE).await,
            Err(error) => return Err(error),
        }
    }
}
