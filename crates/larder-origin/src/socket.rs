//! A socket to an origin, TCP or unix, registered with a runtime.

use std::{
    io::{self, IoSlice},
    net::SocketAddr,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::net::UnixStream as StdUnixStream,
    },
    path::Path,
    pin::{Pin, pin},
    task::{Context, Poll},
    time::Duration,
};

use bytes::BufMut;
use rustix::{
    io::Errno,
    net::{RecvFlags, SendFlags},
};
use socket2::{Domain, Protocol, SockAddr, Type};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, Interest, ReadBuf},
    net::{TcpStream, UnixStream},
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
    /// Not registered yet: the first write is tried before that, and often succeeds though TCP has just begun to connect.
    NewTcp(socket2::Socket),
    /// As the above.
    NewUnix(socket2::Socket),
    /// The runtime did not take it.
    Lost,
}

/// How far a socket came at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Begun {
    Connected,
    Connecting,
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
    /// Begins to connect.
    pub(crate) fn begin(address: &Address, limits: &Limits) -> io::Result<(Socket, Begun)> {
        match address {
            Address::Tcp(address) => begin_tcp(*address, limits),
            Address::Unix(path) => begin_unix(path),
        }
    }

    /// Connects. With `patient`, it waits for a place in the full queue of a Unix socket.
    pub(crate) async fn connect(address: &Address, limits: &Limits, patient: bool) -> io::Result<Socket> {
        let (mut socket, begun) = loop {
            match Socket::begin(address, limits) {
                Err(error) if patient && is_queue_full(address, &error) => sleep(FULL_QUEUE_PAUSE).await,
                begun => break begun?,
            }
        };
        socket.register()?;
        if let (Begun::Connecting, Socket::Tcp(stream)) = (begun, &socket) {
            stream.writable().await?;
            if let Some(error) = stream.take_error()? {
                return Err(error);
            }
        }
        Ok(socket)
    }

    /// Attaches it to the runtime of this thread, if it is new.
    pub(crate) fn register(&mut self) -> io::Result<()> {
        *self = match std::mem::replace(self, Socket::Lost) {
            Socket::NewTcp(socket) => Socket::Tcp(TcpStream::from_std(socket.into())?),
            Socket::NewUnix(socket) => Socket::Unix(UnixStream::from_std(StdUnixStream::from(OwnedFd::from(socket)))?),
            Socket::Lost => return Err(io::ErrorKind::NotConnected.into()),
            known @ (Socket::Tcp(_) | Socket::Unix(_)) => known,
        };
        Ok(())
    }

    /// Attaches it to the runtime of this thread; it belonged to another.
    pub(crate) fn rehome(self) -> io::Result<Socket> {
        Ok(match self {
            Socket::Tcp(stream) => Socket::Tcp(TcpStream::from_std(stream.into_std()?)?),
            Socket::Unix(stream) => Socket::Unix(UnixStream::from_std(stream.into_std()?)?),
            mut new @ (Socket::NewTcp(_) | Socket::NewUnix(_) | Socket::Lost) => {
                new.register()?;
                new
            }
        })
    }

    /// Sends what is written at once, also while earlier bytes are under way.
    pub(crate) fn set_no_delay(&self) {
        // It only costs time if it fails.
        let _ = match self {
            Socket::Tcp(stream) => stream.set_nodelay(true),
            Socket::NewTcp(socket) => socket.set_tcp_nodelay(true),
            Socket::Unix(_) | Socket::NewUnix(_) | Socket::Lost => Ok(()),
        };
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
            Socket::NewTcp(_) | Socket::NewUnix(_) | Socket::Lost => Poll::Ready(Err(unregistered())),
        }
    }

    /// Reads once.
    pub(crate) fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self {
            Socket::Tcp(stream) => Pin::new(stream).poll_read(cx, buffer),
            Socket::Unix(stream) => Pin::new(stream).poll_read(cx, buffer),
            Socket::NewTcp(_) | Socket::NewUnix(_) | Socket::Lost => Poll::Ready(Err(unregistered())),
        }
    }

    /// Writes once, from many pieces.
    pub(crate) fn poll_write(&mut self, cx: &mut Context<'_>, pieces: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        match self {
            Socket::Tcp(stream) => Pin::new(stream).poll_write_vectored(cx, pieces),
            Socket::Unix(stream) => Pin::new(stream).poll_write_vectored(cx, pieces),
            Socket::NewTcp(_) | Socket::NewUnix(_) | Socket::Lost => Poll::Ready(Err(unregistered())),
        }
    }

    /// Writes once, without asking the runtime whether there is room.
    pub(crate) fn write_now(&self, pieces: &[IoSlice<'_>]) -> Result<usize, Errno> {
        let fd = self.fd().ok_or(Errno::NOTCONN)?;
        match pieces {
            [all] => rustix::net::send(fd, all, SendFlags::NOSIGNAL),
            several => rustix::io::writev(fd, several),
        }
    }

    /// Says that nothing more will be written.
    pub(crate) fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Socket::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
            Socket::Unix(stream) => Pin::new(stream).poll_shutdown(cx),
            Socket::NewTcp(_) | Socket::NewUnix(_) | Socket::Lost => Poll::Ready(Err(unregistered())),
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
            Socket::NewTcp(_) | Socket::NewUnix(_) | Socket::Lost => Err(unregistered()),
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
        let Some(fd) = self.fd() else {
            return Came::End;
        };
        match rustix::net::recv(fd, buffer, flags | RecvFlags::DONTWAIT) {
            Ok((_, count @ 1..)) => Came::Bytes(count),
            Err(Errno::AGAIN) => Came::Nothing,
            Ok(_) | Err(_) => Came::End,
        }
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Socket::Tcp(stream) => Some(stream.as_fd()),
            Socket::Unix(stream) => Some(stream.as_fd()),
            Socket::NewTcp(socket) | Socket::NewUnix(socket) => Some(socket.as_fd()),
            Socket::Lost => None,
        }
    }
}

/// Nothing is read before the first write, which registers.
fn unregistered() -> io::Error {
    io::ErrorKind::NotConnected.into()
}

/// Whether connecting failed because the queue of a Unix socket is full.
pub(crate) fn is_queue_full(address: &Address, error: &io::Error) -> bool {
    matches!(address, Address::Unix(_)) && error.kind() == io::ErrorKind::WouldBlock
}

fn begin_tcp(address: SocketAddr, limits: &Limits) -> io::Result<(Socket, Begun)> {
    let stream = Type::STREAM.nonblocking().cloexec();
    let socket = socket2::Socket::new(Domain::for_address(address), stream, Some(Protocol::TCP))?;
    if limits.tcp_keepalive {
        socket.set_keepalive(true)?;
    }
    if let Some(ours) = limits.bind {
        bind(&socket, ours)?;
    }
    match socket.connect(&address.into()) {
        Ok(()) => Ok((Socket::NewTcp(socket), Begun::Connected)),
        Err(error) if error.raw_os_error() == Some(Errno::INPROGRESS.raw_os_error()) => {
            Ok((Socket::NewTcp(socket), Begun::Connecting))
        }
        Err(error) => Err(error),
    }
}

/// Binds the socket to our address.
fn bind(socket: &socket2::Socket, ours: Bind) -> io::Result<()> {
    if ours.transparent {
        match ours.address {
            SocketAddr::V4(_) => socket.set_ip_transparent_v4(true)?,
            SocketAddr::V6(_) => socket.set_ip_transparent_v6(true)?,
        }
    }
    if ours.address.port() != 0 {
        // An earlier connection from this address may still be closing.
        socket.set_reuse_address(true)?;
    }
    socket.bind(&ours.address.into())
}

/// Connects to a Unix socket. That succeeds or fails at once.
fn begin_unix(path: &Path) -> io::Result<(Socket, Begun)> {
    let address = SockAddr::unix(path)?;
    let socket = socket2::Socket::new(Domain::UNIX, Type::STREAM.nonblocking().cloexec(), None)?;
    socket.connect(&address)?;
    Ok((Socket::NewUnix(socket), Begun::Connected))
}
