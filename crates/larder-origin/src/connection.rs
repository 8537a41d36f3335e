//! A connection to an origin: a socket, perhaps TLS on it, and bytes that are sent before anything else.

use std::{
    future::poll_fn,
    io::{self, IoSlice},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::{BufMut as _, BytesMut};
use rustix::io::Errno;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    runtime::{Handle, Id},
    time::{Instant, timeout_at},
};

use crate::{
    address::Address,
    alarm::Alarm,
    error::FetchError,
    limits::Limits,
    purpose::{Layers, Purpose},
    socket::{Begun, Came, Socket},
    tls::{Link, Tls, TlsError},
};

/// A connection, registered with a runtime.
#[derive(Debug)]
pub(crate) struct Connection {
    wire: Wire,
    /// The runtime that it is registered with.
    home: Id,
    pub(crate) alarm: Alarm,
    /// Which requests it may be kept for.
    purpose: Option<Arc<Purpose>>,
    tls: Option<Box<Link>>,
    /// What is sent first: a PROXY header, or TLS records.
    unsent: Unsent,
    made_at: Instant,
    /// Requests sent on it, this one included.
    served: u64,
}

/// The socket, and how much was sent on it.
#[derive(Debug)]
struct Wire {
    socket: Socket,
    /// Bytes the socket has taken.
    moved_bytes: u64,
    /// Whether nothing was written since it was made or taken from the pool. The socket then has room, but the runtime
    /// does not know that yet: the first write does not ask it, which saves a turn of the event loop.
    untouched: bool,
    begun: Begun,
    /// Whether TCP sends at once. A request that is one write needs no `TCP_NODELAY`.
    no_delay: bool,
}

/// Bytes that the socket has not taken, from `sent` on.
#[derive(Debug, Default)]
struct Unsent {
    bytes: Vec<u8>,
    sent: usize,
}

/// How many bytes of records may wait for the socket before no more is encrypted.
const UNSENT_BYTES_MAX: usize = 64 << 10;
/// The most pieces that are encrypted at once.
const GATHER_MAX: usize = 32;
/// How often a kept connection is read before it is given up as noisy.
const QUIET_READS_MAX: usize = 4;

impl Connection {
    /// Begins a connection without TLS. The first write tells whether it is made.
    pub(crate) fn begin(address: &Address, layers: &Layers, limits: &Limits, now: Instant) -> io::Result<Connection> {
        let (socket, begun) = Socket::begin(address, limits)?;
        Ok(Connection::new(Wire { begun, ..Wire::new(socket) }, layers, now))
    }

    /// Connects and makes the TLS handshake, within `limits.connect`. With `patient`, it waits for a place in the full
    /// queue of a Unix socket, which is right if there is no other origin to ask.
    pub(crate) async fn open(
        address: &Address,
        layers: &Layers,
        limits: &Limits,
        patient: bool,
    ) -> Result<Connection, FetchError> {
        let until = Instant::now() + limits.connect;
        let socket = match timeout_at(until, Socket::connect(address, limits, patient)).await {
            Ok(socket) => socket.map_err(|source| FetchError::connecting(address, source))?,
            Err(_) => return Err(FetchError::ConnectTimeout),
        };
        let mut connection = Connection::new(Wire::new(socket), layers, Instant::now());
        if let Some(tls) = &layers.tls {
            match timeout_at(until, connection.shake_hands(tls)).await {
                Ok(done) => done?,
                Err(_) => return Err(FetchError::TlsTimeout),
            }
        }
        Ok(connection)
    }

    fn new(wire: Wire, layers: &Layers, now: Instant) -> Connection {
        let unsent = layers.preface.as_ref().map_or_else(Vec::new, |preface| preface.to_vec());
        Connection {
            wire,
            home: Handle::current().id(),
            alarm: Alarm::default(),
            purpose: None,
            tls: None,
            unsent: Unsent { bytes: unsent, sent: 0 },
            made_at: now,
            served: 1,
        }
    }

    /// Whether it is not known yet that the origin has accepted it.
    pub(crate) fn is_connecting(&self) -> bool {
        self.wire.begun == Begun::Connecting
    }

    /// Makes the TLS handshake. Its last message is sent together with the first write.
    async fn shake_hands(&mut self, tls: &Tls) -> Result<(), TlsError> {
        let mut link = Box::new(Link::new(tls));
        let mut is_answered = false;
        loop {
            match link.advance(self.unsent.end()) {
                Ok(true) => break,
                Ok(false) => {}
                Err(error) => {
                    // Tell the origin by an alert, if the socket takes it at once.
                    let _ = poll_fn(|cx| Poll::Ready(self.poll_flush(cx))).await;
                    return Err(tls.blame(error));
                }
            }
            poll_fn(|cx| self.poll_flush(cx)).await.map_err(TlsError::Broken)?;
            match poll_fn(|cx| link.poll_fill(cx, &mut self.wire.socket)).await {
                Ok(0) => return Err(TlsError::Closed),
                Ok(_) if is_answered || link.may_be_tls() => is_answered = true,
                Ok(_) => return Err(TlsError::Else),
                Err(error) => return Err(TlsError::Broken(error)),
            }
        }
        self.tls = Some(link);
        Ok(())
    }

    /// Lets it be kept for such requests.
    pub(crate) fn dedicate(&mut self, purpose: Purpose) {
        self.purpose = Some(Arc::new(purpose));
    }

    /// Which requests it may be kept for. `None` if it is not to be kept.
    pub(crate) fn purpose(&self) -> Option<&Purpose> {
        self.purpose.as_deref()
    }

    /// Whether it is registered with this runtime.
    pub(crate) fn is_at_home(&self, here: Id) -> bool {
        self.home == here
    }

    /// Frees its buffers: an idle connection holds none.
    pub(crate) fn rest(&mut self) {
        self.unsent.end().shrink_to_fit();
        if let Some(link) = &mut self.tls {
            link.shrink();
        }
    }

    /// Makes it ready for one more request, on this runtime. An error means that it is broken.
    pub(crate) fn wake(&mut self, here: Id) -> io::Result<()> {
        self.served += 1;
        if self.is_at_home(here) {
            self.wire.untouched = true;
            return Ok(());
        }
        let socket = std::mem::replace(&mut self.wire.socket, Socket::Lost);
        self.wire = Wire { no_delay: self.wire.no_delay, ..Wire::new(socket.rehome()?) };
        self.home = here;
        self.alarm = Alarm::default();
        Ok(())
    }

    /// Whether the origin has neither closed it nor sent anything. An unrequested response would be taken for the
    /// answer to the next request. On its own runtime this usually needs no system call.
    pub(crate) fn is_quiet(&mut self, here: Option<Id>) -> bool {
        let socket = &self.wire.socket;
        let is_home = here.is_some_and(|here| self.home == here);
        let peek = || if is_home { socket.peek_at_home() } else { socket.peek() };
        let Some(link) = &mut self.tls else {
            return peek() == Came::Nothing;
        };
        // What has arrived may only concern TLS, such as session tickets.
        for _ in 0..QUIET_READS_MAX {
            match peek() {
                Came::Nothing => {
                    link.shrink();
                    return true;
                }
                Came::End => return false,
                Came::Bytes(_) => {}
            }
            link.fill_now(socket);
            if link.advance(self.unsent.end()).is_err() || !link.is_idle() {
                return false;
            }
        }
        false
    }

    /// Closes it when it is no longer needed; over TLS the origin gets a `close_notify`.
    pub(crate) fn close(&mut self) {
        if let Some(link) = &mut self.tls
            && self.unsent.is_empty()
        {
            link.close(self.unsent.end());
            // It does not matter whether it arrives.
            let _ = self.wire.socket.write_now(&[IoSlice::new(self.unsent.rest())]);
        }
    }

    /// Requests sent on it.
    pub(crate) fn served(&self) -> u64 {
        self.served
    }

    /// When it was made.
    pub(crate) fn made_at(&self) -> Instant {
        self.made_at
    }

    /// Bytes that the socket has taken; it grows while anything is sent.
    pub(crate) fn moved_bytes(&self) -> u64 {
        self.wire.moved_bytes
    }

    /// Whether everything that was written is sent, and everything that arrived was read.
    pub(crate) fn is_idle(&self) -> bool {
        self.unsent.is_empty() && self.tls.as_ref().is_none_or(|link| link.is_idle())
    }

    /// Reads once into the spare room of `buffer`, at most `count_max` bytes; 0 bytes is the end.
    pub(crate) fn poll_read_into(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut BytesMut,
        count_max: usize,
    ) -> Poll<io::Result<usize>> {
        let count_max = count_max.min(buffer.capacity() - buffer.len());
        if self.tls.is_none() {
            return self.wire.socket.poll_read_into(cx, &mut buffer.limit(count_max));
        }
        ready!(self.poll_decrypt(cx))?;
        let plain = self.plain();
        let count = plain.len().min(count_max);
        buffer.extend_from_slice(&plain[..count]);
        self.consume(count);
        Poll::Ready(Ok(count))
    }

    /// Reads once into `slice`; 0 bytes is the end.
    pub(crate) fn poll_read_slice(&mut self, cx: &mut Context<'_>, slice: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut buffer = ReadBuf::new(slice);
        ready!(Pin::new(self).poll_read(cx, &mut buffer))?;
        Poll::Ready(Ok(buffer.filled().len()))
    }

    /// Writes once, from many pieces. Over TLS it encrypts them; what the socket does not take now is sent by the next
    /// write, or by [`Connection::poll_flush`].
    pub(crate) fn poll_write_from(&mut self, cx: &mut Context<'_>, pieces: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        if self.tls.is_none() || self.unsent.len() >= UNSENT_BYTES_MAX {
            ready!(self.poll_flush(cx))?;
        }
        let Some(link) = &mut self.tls else {
            return self.wire.poll_write(cx, pieces);
        };
        let taken = encrypt(link, pieces, self.unsent.end())?;
        match self.poll_flush(cx) {
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Ready(Ok(())) | Poll::Pending => Poll::Ready(Ok(taken)),
        }
    }

    /// Ready when everything that was written is sent.
    pub(crate) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.unsent.is_empty() {
            match ready!(self.wire.poll_write(cx, &[IoSlice::new(self.unsent.rest())]))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                count => self.unsent.advance(count),
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Ready when there is plaintext, or when there will be no more.
    fn poll_decrypt(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while let Some(link) = &mut self.tls
            && link.plain().is_empty()
            && !link.is_ended()
        {
            if ready!(link.poll_fill(cx, &mut self.wire.socket))? == 0 {
                link.end()?;
                break;
            }
            let advanced = link.advance(self.unsent.end());
            // An answer to a key update, or an alert. Nothing waits until it is sent.
            let _ = self.poll_flush(cx)?;
            advanced.map_err(io::Error::other)?;
        }
        Poll::Ready(Ok(()))
    }

    fn plain(&self) -> &[u8] {
        self.tls.as_ref().map_or(&[], |link| link.plain())
    }

    fn consume(&mut self, count: usize) {
        if let Some(link) = &mut self.tls {
            link.consume(count);
        }
    }
}

impl Wire {
    fn new(socket: Socket) -> Wire {
        Wire { socket, moved_bytes: 0, untouched: true, begun: Begun::Connected, no_delay: false }
    }

    /// Writes to the socket once.
    fn poll_write(&mut self, cx: &mut Context<'_>, pieces: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        if std::mem::take(&mut self.untouched) {
            let written = self.socket.write_now(pieces);
            // Also where the write failed: the origin may have answered all the same.
            let registered = self.socket.register();
            match written {
                // What was sent counts: without a registration the read fails, and nothing is sent again.
                Ok(count) => return Poll::Ready(Ok(self.moved(count))),
                Err(Errno::AGAIN | Errno::INTR) => {
                    registered?;
                }
                Err(error) => return Poll::Ready(Err(error.into())),
            }
        } else if !self.no_delay {
            self.no_delay = true;
            self.socket.set_no_delay();
        }
        let count = ready!(self.socket.poll_write(cx, pieces))?;
        Poll::Ready(Ok(self.moved(count)))
    }

    fn moved(&mut self, count: usize) -> usize {
        self.begun = Begun::Connected;
        self.moved_bytes += count as u64;
        count
    }
}

impl Unsent {
    fn rest(&self) -> &[u8] {
        &self.bytes[self.sent..]
    }

    fn len(&self) -> usize {
        self.bytes.len() - self.sent
    }

    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn advance(&mut self, count: usize) {
        self.sent += count;
        if self.is_empty() {
            self.bytes.clear();
            self.sent = 0;
        }
    }

    /// The buffer for more bytes, after those that were already sent are removed from it.
    fn end(&mut self) -> &mut Vec<u8> {
        self.bytes.drain(..self.sent);
        self.sent = 0;
        &mut self.bytes
    }
}

/// Encrypts as much of `pieces` as one write takes, and returns how much that is.
fn encrypt(link: &mut Link, pieces: &[IoSlice<'_>], records: &mut Vec<u8>) -> io::Result<usize> {
    let mut left = UNSENT_BYTES_MAX;
    let mut few = [IoSlice::new(&[]); GATHER_MAX];
    let mut count = 0;
    for (slot, piece) in few.iter_mut().zip(pieces) {
        let part = &piece[..piece.len().min(left)];
        *slot = IoSlice::new(part);
        count += 1;
        left -= part.len();
    }
    link.write(&few[..count], records).map_err(io::Error::other)?;
    Ok(UNSENT_BYTES_MAX - left)
}

impl AsyncRead for Connection {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.tls.is_none() {
            return self.wire.socket.poll_read(cx, buffer);
        }
        ready!(self.poll_decrypt(cx))?;
        let count = self.plain().len().min(buffer.remaining());
        buffer.put_slice(&self.plain()[..count]);
        self.consume(count);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_from(cx, &[IoSlice::new(bytes)])
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Connection::poll_flush(&mut self, cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let connection = &mut *self;
        if let Some(link) = &mut connection.tls {
            link.close(connection.unsent.end());
        }
        ready!(connection.poll_flush(cx))?;
        connection.wire.socket.poll_shutdown(cx)
    }
}
