//! A socket to a client, TCP or unix.
//!
//! A new socket is only a descriptor. It is registered with the reactor when somebody first waits for it: a connection
//! whose request is there when it is accepted, and that is closed after the answer, needs neither the two calls of
//! `epoll_ctl` nor another turn of the loop. Where requests come later than that, a read before the wait would be in
//! vain; [`Haste`] learns which of the two pays.

use std::cell::{Cell, OnceCell, RefCell};
use std::io::{self, IoSlice};
use std::net::TcpStream as PlainStream;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags};
use tokio::io::{AsyncRead as _, Interest, ReadBuf};
use tokio::net::TcpStream;

/// A socket to a client.
#[derive(Debug)]
pub struct Socket {
    /// The descriptor, until it is registered.
    new: RefCell<Option<OwnedFd>>,
    /// The registered socket. A unix socket too: tokio's type only registers, reads and closes it.
    registered: OnceCell<TcpStream>,
    /// Whether what is written waits for the close.
    leaves_with_close: Cell<bool>,
    haste: Rc<Haste>,
}

/// Whether a new socket is read before it is waited for, learned from the ones before it at the same listener.
#[derive(Debug, Default)]
pub struct Haste {
    /// How many sockets are not to be read at once.
    skips: Cell<u32>,
    /// How many were not, after the last vain read.
    skipped: Cell<u32>,
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
    /// Takes over a socket that does not block.
    pub fn new(fd: OwnedFd, haste: &Rc<Haste>) -> Self {
        Self {
            new: RefCell::new(Some(fd)),
            registered: OnceCell::new(),
            leaves_with_close: Cell::new(false),
            haste: Rc::clone(haste),
        }
    }

    /// The socket, registered with the reactor from now on.
    fn registered(&self) -> io::Result<&TcpStream> {
        if let Some(stream) = self.registered.get() {
            return Ok(stream);
        }
        let fd = self.new.take().ok_or(io::ErrorKind::NotConnected)?;
        let stream = TcpStream::from_std(PlainStream::from(fd))?;
        Ok(self.registered.get_or_init(|| stream))
    }

    /// Reads what is there. If the buffer is not full afterwards, there is no more for now: no second read is needed.
    pub fn poll_read(&mut self, task: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.registered.get().is_none()
            && self.haste.reads()
            && let Some(read) = self.read_new(buf)
        {
            return Poll::Ready(read);
        }
        self.registered()?;
        match self.registered.get_mut() {
            Some(stream) => Pin::new(stream).poll_read(task, buf),
            None => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
        }
    }

    /// Reads a socket that was not waited for; `None` if nothing has arrived.
    fn read_new(&self, buf: &mut ReadBuf<'_>) -> Option<io::Result<()>> {
        let read = self.try_read(buf.initialize_unfilled());
        let is_in_vain = matches!(&read, Err(error) if error.kind() == io::ErrorKind::WouldBlock);
        self.haste.learn(is_in_vain);
        (!is_in_vain).then(|| read.map(|n| buf.advance(n)))
    }

    /// Reads what is there now.
    pub fn try_read(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.try_io(Interest::READABLE, |fd| Ok(rustix::net::recv(fd, buf, RecvFlags::empty())?.0))
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
        let flags = self.send_flags();
        self.try_io(Interest::WRITABLE, |fd| Ok(rustix::net::send(fd, bytes, flags)?))
    }

    /// Writes what fits now of several buffers.
    pub fn try_write_vectored(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let (flags, mut control) = (self.send_flags(), SendAncillaryBuffer::default());
        self.try_io(Interest::WRITABLE, |fd| Ok(rustix::net::sendmsg(fd, slices, &mut control, flags)?))
    }

    fn send_flags(&self) -> SendFlags {
        match self.leaves_with_close.get() {
            true => SendFlags::NOSIGNAL | SendFlags::MORE,
            false => SendFlags::NOSIGNAL,
        }
    }

    /// Says whether what is written from now on is the end, and the socket is closed right after it: then the kernel
    /// holds the last bytes until the close, and one packet has both.
    pub fn leave_with_close(&self, is_end: bool) {
        self.leaves_with_close.set(is_end);
    }

    /// Calls `f` on the socket, if it may be ready for `interest`.
    pub fn try_io<R>(&self, interest: Interest, f: impl FnOnce(BorrowedFd<'_>) -> io::Result<R>) -> io::Result<R> {
        match self.registered.get() {
            Some(stream) => stream.try_io(interest, || f(stream.as_fd())),
            None => f(self.new.borrow().as_ref().ok_or(io::ErrorKind::NotConnected)?.as_fd()),
        }
    }

    /// Ready when something may be written.
    pub fn poll_write_ready(&self, task: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.registered()?.poll_write_ready(task)
    }

    /// Ready when something may be read.
    pub fn poll_read_ready(&self, task: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.registered()?.poll_read_ready(task)
    }

    /// Waits until something may be written.
    pub async fn writable(&self) -> io::Result<()> {
        self.registered()?.writable().await
    }

    /// Waits until something may be read.
    pub async fn readable(&self) -> io::Result<()> {
        self.registered()?.readable().await
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

    /// Whether something has come that was not read. Asks the system, whatever the reactor has said.
    pub fn has_unread(&self) -> bool {
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        self.with_fd(|fd| rustix::net::recv(fd, &mut [0], flags)).is_some_and(|peeked| matches!(peeked, Ok((_, 1..))))
    }

    /// Tells the peer that nothing more will be written.
    pub fn shutdown_write(&self) {
        // If the peer is gone, there is nothing to tell it.
        let _ = self.with_fd(|fd| rustix::net::shutdown(fd, rustix::net::Shutdown::Write));
    }

    /// Makes closing reset the connection, so that the kernel keeps nothing for a client that does not respond. A unix
    /// socket keeps nothing anyway.
    pub fn reset_on_close(&self) {
        let _ = self.with_fd(|fd| rustix::net::sockopt::set_socket_linger(fd, Some(std::time::Duration::ZERO)));
    }

    /// Calls `f` on the socket, ready or not; `None` if it could not be registered.
    fn with_fd<R>(&self, f: impl FnOnce(BorrowedFd<'_>) -> R) -> Option<R> {
        match self.registered.get() {
            Some(stream) => Some(f(stream.as_fd())),
            None => self.new.borrow().as_ref().map(|fd| f(fd.as_fd())),
        }
    }
}

/// How many new sockets are waited for, after reads in vain, before the next one is read at once. A read in vain costs a
/// fraction of what a read in time saves.
const SKIPS_MAX: u32 = 31;

impl Haste {
    /// Whether the next new socket is read at once.
    fn reads(&self) -> bool {
        let skips = self.skips.get();
        self.skips.set(skips.saturating_sub(1));
        skips == 0
    }

    /// Notes what came of such a read.
    fn learn(&self, is_in_vain: bool) {
        let skips = if is_in_vain { (2 * self.skipped.get() + 1).min(SKIPS_MAX) } else { 0 };
        self.skipped.set(skips);
        self.skips.set(skips);
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::os::unix::net::UnixStream;
    use std::task::Waker;

    use super::*;

    fn pair() -> (std::net::TcpStream, Socket) {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let client = std::net::TcpStream::connect(listener.local_addr().expect("it is bound")).expect("it listens");
        let (server, _) = listener.accept().expect("a client has connected");
        server.set_nonblocking(true).expect("it takes options");
        (client, Socket::new(server.into(), &Rc::default()))
    }

    fn read(socket: &mut Socket) -> Poll<io::Result<Vec<u8>>> {
        let mut room = [0; 64];
        let mut buf = ReadBuf::new(&mut room);
        let read = socket.poll_read(&mut Context::from_waker(Waker::noop()), &mut buf);
        read.map_ok(|()| buf.filled().to_vec())
    }

    #[test]
    fn what_has_arrived_is_read_and_answered_without_the_reactor() {
        // There is none here: to register would fail.
        let (mut client, mut socket) = pair();
        client.write_all(b"request").expect("the socket has room");
        // Loopback delivers within the call of the sender.
        assert!(matches!(read(&mut socket), Poll::Ready(Ok(bytes)) if bytes == b"request"));
        assert_eq!(socket.peek(), Peeked::Nothing);
        assert_eq!(socket.try_write(b"answer").expect("the socket has room"), 6);
        drop(socket);
        let mut answer = String::new();
        client.read_to_string(&mut answer).expect("it is closed in order");
        assert_eq!(answer, "answer");
    }

    #[tokio::test]
    async fn a_socket_is_registered_when_it_is_waited_for() {
        let (mut client, mut socket) = pair();
        assert!(read(&mut socket).is_pending());
        client.write_all(b"late").expect("the socket has room");
        socket.readable().await.expect("it is registered");
        assert!(matches!(read(&mut socket), Poll::Ready(Ok(bytes)) if bytes == b"late"));
        assert!(read(&mut socket).is_pending());
        drop(client);
        socket.readable().await.expect("it is registered");
        assert!(matches!(read(&mut socket), Poll::Ready(Ok(bytes)) if bytes.is_empty()));
    }

    #[tokio::test]
    async fn a_unix_socket_is_as_good() {
        let (mut client, server) = UnixStream::pair().expect("there are descriptors");
        server.set_nonblocking(true).expect("it takes options");
        let mut socket = Socket::new(server.into(), &Rc::default());
        assert!(read(&mut socket).is_pending());
        client.write_all(b"request").expect("the socket has room");
        socket.readable().await.expect("it is registered");
        assert!(matches!(read(&mut socket), Poll::Ready(Ok(bytes)) if bytes == b"request"));
        socket.leave_with_close(true);
        let slices = [IoSlice::new(b"ans"), IoSlice::new(b"wer")];
        assert_eq!(socket.try_write_vectored(&slices).expect("the socket has room"), 6);
        socket.reset_on_close();
        drop(socket);
        let mut answer = String::new();
        client.read_to_string(&mut answer).expect("it is closed in order");
        assert_eq!(answer, "answer");
    }

    #[test]
    fn the_end_leaves_with_the_close() {
        let (mut client, socket) = pair();
        client.set_nonblocking(true).expect("it takes options");
        socket.leave_with_close(true);
        assert_eq!(socket.try_write(b"answer").expect("the socket has room"), 6);
        let early = client.read(&mut [0; 64]);
        assert!(early.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock), "the kernel holds it");
        drop(socket);
        client.set_nonblocking(false).expect("it takes options");
        let mut answer = String::new();
        client.read_to_string(&mut answer).expect("it is closed in order");
        assert_eq!(answer, "answer");
    }

    #[test]
    fn reads_in_vain_become_rare() {
        for (in_time, sockets, read_at_once) in [
            (vec![true; 100], 100, 100),
            // 1, and after 1, 3, 7, 15, 31, 31 others each
            (vec![false; 100], 100, 7),
            ([vec![false; 5], vec![true; 95]].concat(), 100, 100 - 1 - 3 - 7 - 15 - 31),
        ] {
            let haste = Haste::default();
            let mut in_time = in_time.into_iter();
            let reads = (0..sockets).filter(|_| {
                let reads = haste.reads();
                if reads && let Some(in_time) = in_time.next() {
                    haste.learn(!in_time);
                }
                reads
            });
            assert_eq!(reads.count(), read_at_once);
        }
    }
}
