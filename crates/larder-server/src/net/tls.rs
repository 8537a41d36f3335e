//! A TLS connection to a client: decrypts records that arrive, encrypts those that are sent.
//!
//! The buffers are the worker's, lent for a turn. A connection keeps only leftovers: an incomplete record, plaintext
//! that was not read yet, records that the socket did not take.

use std::cell::RefCell;
use std::io::{self, IoSlice};
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use larder_tls::{Session, State as Progress};
use tokio::io::ReadBuf;

use super::buffers::{Buffers, Records, ensure};
use super::socket::{Peeked, Socket};

/// How much plaintext is encrypted at once, so that little is held for a client that does not read.
const WRITE_BYTES: usize = 64 * 1024;
/// The largest record: 2^14 bytes of plaintext, what encryption adds, and the header (RFC 8446 §5.2, RFC 5246 §6.2.3).
const RECORD_BYTES_MAX: usize = 5 + (1 << 14) + 2048;
/// The most that may have arrived of an incomplete message: a client's certificates may take several records.
const PARTIAL_BYTES_MAX: usize = 128 * 1024;
/// While more than this is unsent, nothing is read that could add to it.
const UNSENT_BYTES_MAX: usize = 2 * WRITE_BYTES;
/// While more plaintext than this is unread, no more records are decrypted.
const PLAIN_BYTES_MAX: usize = 64 * 1024;

/// A TLS connection to a client.
pub struct Tls {
    /// The socket that carries the records.
    pub socket: Socket,
    buffers: Rc<Buffers>,
    /// The TLS session; variables read it too.
    pub session: Rc<RefCell<Session>>,
    state: RefCell<State>,
}

struct State {
    /// The beginning of a record.
    partial: Vec<u8>,
    /// Plaintext that was not read yet.
    plain: Vec<u8>,
    /// Records that the socket has not taken.
    unsent: Vec<u8>,
    /// Whether the peer has said that it sends no more.
    ended: bool,
    /// Whether the connection below has ended too. A client that has only said that it sends no more may still wait for
    /// an answer.
    has_left: bool,
}

impl Records {
    /// Copies the beginning of a record to the start of the buffer, with room for a whole record behind it; returns its
    /// length.
    fn begin_with(&mut self, partial: &[u8]) -> usize {
        ensure(&mut self.incoming, partial.len() + RECORD_BYTES_MAX);
        self.incoming[..partial.len()].copy_from_slice(partial);
        partial.len()
    }
}

impl Tls {
    /// Wraps a connection whose handshake has not begun; `first` is what the client has sent so far.
    pub fn new(socket: Socket, session: Session, first: Vec<u8>, buffers: Rc<Buffers>) -> Self {
        let state = State { partial: first, plain: Vec::new(), unsent: Vec::new(), ended: false, has_left: false };
        Self { socket, buffers, session: Rc::new(RefCell::new(session)), state: RefCell::new(state) }
    }

    /// Whether plaintext has arrived that was not read yet.
    pub fn has_plaintext(&self) -> bool {
        !self.state.borrow().plain.is_empty()
    }

    /// Handles the bytes that have arrived, and returns the state of the handshake. May take as long as a signature.
    pub fn advance(&self) -> io::Result<Progress> {
        let mut state = self.state.borrow_mut();
        let mut lent = self.buffers.records.borrow_mut();
        let lent = &mut *lent;
        let held = lent.begin_with(&state.partial);
        state.partial = Vec::new();
        let progress = state.take(held, lent, &self.session, &self.socket)?;
        state.plain.extend_from_slice(&lent.plain);
        Ok(progress)
    }

    /// Reads records of the handshake until there is something new to handle.
    pub async fn receive(&self) -> io::Result<()> {
        loop {
            std::future::poll_fn(|task| self.poll_flush(task)).await?;
            self.socket.readable().await?;
            let mut state = self.state.borrow_mut();
            state.check_partial()?;
            match self.socket.try_read_more(&mut state.partial, RECORD_BYTES_MAX) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(_) => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Reads plaintext.
    pub fn poll_read(&mut self, task: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let state = self.state.get_mut();
        // Send what we owe the peer first: it may wait for that before it sends more. We do not read from a peer that
        // makes us answer, as by updating keys, and does not read.
        if !state.unsent.is_empty()
            && state.poll_flush(&self.socket, task)?.is_pending()
            && state.unsent.len() > UNSENT_BYTES_MAX
        {
            return Poll::Pending;
        }
        loop {
            if !state.plain.is_empty() {
                let n = state.plain.len().min(buf.remaining());
                buf.put_slice(&state.plain[..n]);
                state.plain.drain(..n);
                if state.plain.is_empty() {
                    state.plain = Vec::new();
                }
                return Poll::Ready(Ok(()));
            }
            if state.ended {
                return Poll::Ready(Ok(()));
            }
            let mut lent = self.buffers.records.borrow_mut();
            let lent = &mut *lent;
            state.check_partial()?;
            let held = lent.begin_with(&state.partial);
            let mut read = ReadBuf::new(&mut lent.incoming[held..held + RECORD_BYTES_MAX]);
            ready!(self.socket.poll_read(task, &mut read))?;
            let n = read.filled().len();
            if n == 0 {
                state.ended = true;
                continue;
            }
            state.partial = Vec::new();
            state.take(held + n, lent, &self.session, &self.socket)?;
            let fits = lent.plain.len().min(buf.remaining());
            buf.put_slice(&lent.plain[..fits]);
            state.plain.extend_from_slice(&lent.plain[fits..]);
            if fits > 0 {
                return Poll::Ready(Ok(()));
            }
        }
    }

    /// Reads the plaintext that is there now.
    pub fn try_read(&self, buf: &mut [u8]) -> io::Result<usize> {
        if !self.has_plaintext() && !self.state.borrow().ended && self.peek() == Peeked::Gone && !self.has_plaintext() {
            // An end that TLS announced is the end of the stream; any other end is a broken connection.
            return if self.state.borrow().ended { Ok(0) } else { Err(io::ErrorKind::ConnectionReset.into()) };
        }
        let state = &mut *self.state.borrow_mut();
        if state.plain.is_empty() {
            return if state.ended { Ok(0) } else { Err(io::ErrorKind::WouldBlock.into()) };
        }
        let n = state.plain.len().min(buf.len());
        buf[..n].copy_from_slice(&state.plain[..n]);
        state.plain.drain(..n);
        if state.plain.is_empty() {
            state.plain = Vec::new();
        }
        Ok(n)
    }

    /// Waits until something may be read.
    pub async fn readable(&self) -> io::Result<()> {
        if self.has_plaintext() || self.state.borrow().ended {
            return Ok(());
        }
        self.socket.readable().await
    }

    /// Encrypts and writes. Bytes that count as written may still be held here ([`Tls::is_flushed`]).
    pub fn try_write(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut state = self.state.borrow_mut();
        if !state.unsent.is_empty() && !state.flush(&self.socket)? {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        if self.session.borrow().queued_bytes() > 0 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let mut lent = self.buffers.records.borrow_mut();
        let out = &mut lent.outgoing;
        out.clear();
        let taken = if slices.iter().map(|slice| slice.len()).sum::<usize>() <= WRITE_BYTES {
            self.session.borrow_mut().write(slices, out).map_err(io::Error::other)?;
            slices.iter().map(|slice| slice.len()).sum()
        } else {
            let mut left = WRITE_BYTES;
            let mut few = [IoSlice::new(&[]); SLICES_MAX];
            let mut count = 0;
            for slice in slices.iter().take(SLICES_MAX) {
                let part = &slice[..slice.len().min(left)];
                few[count] = IoSlice::new(part);
                count += 1;
                left -= part.len();
                if left == 0 {
                    break;
                }
            }
            self.session.borrow_mut().write(&few[..count], out).map_err(io::Error::other)?;
            WRITE_BYTES - left
        };
        state.send(out, &self.socket)?;
        Ok(taken)
    }

    /// Whether the socket has taken all that was written.
    pub fn is_flushed(&self) -> bool {
        self.held_bytes() == 0
    }

    /// How many encrypted bytes the socket has not taken.
    pub fn held_bytes(&self) -> usize {
        self.state.borrow().unsent.len() + self.session.borrow().queued_bytes()
    }

    /// Ready when the socket has taken all that was written. The answer to early data may have to wait for the
    /// handshake, so this reads too.
    pub fn poll_flush(&self, task: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            ready!(self.state.borrow_mut().poll_flush(&self.socket, task))?;
            if self.session.borrow().queued_bytes() == 0 {
                return Poll::Ready(Ok(()));
            }
            ready!(self.socket.poll_read_ready(task))?;
            if self.peek() == Peeked::Gone {
                return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
            }
        }
    }

    /// Waits until the socket has taken some of the held bytes, or can take more.
    pub async fn writable(&self) -> io::Result<()> {
        if self.session.borrow().queued_bytes() > 0 {
            return std::future::poll_fn(|task| self.poll_flush(task)).await;
        }
        self.socket.writable().await?;
        self.state.borrow_mut().flush(&self.socket).map(drop)
    }

    /// Whether plaintext has arrived or the peer has closed. Decrypts the records that are there, as one may say so.
    pub fn peek(&self) -> Peeked {
        let mut state = self.state.borrow_mut();
        if state.plain.len() > PLAIN_BYTES_MAX || state.unsent.len() > UNSENT_BYTES_MAX {
            return Peeked::Bytes;
        }
        let mut lent = self.buffers.records.borrow_mut();
        let lent = &mut *lent;
        if state.check_partial().is_err() {
            return Peeked::Gone;
        }
        let held = lent.begin_with(&state.partial);
        match self.socket.try_read(&mut lent.incoming[held..held + RECORD_BYTES_MAX]) {
            Ok(0) => (state.ended, state.has_left) = (true, true),
            Ok(n) => {
                state.partial = Vec::new();
                if state.take(held + n, lent, &self.session, &self.socket).is_err() {
                    return Peeked::Gone;
                }
                state.plain.extend_from_slice(&lent.plain);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => return Peeked::Gone,
        }
        match (state.plain.is_empty(), state.has_left) {
            (false, _) => Peeked::Bytes,
            (true, true) => Peeked::Gone,
            (true, false) => Peeked::Nothing,
        }
    }

    /// Tells the peer that nothing more follows (RFC 8446 §6.1).
    pub fn close(&self) {
        let mut state = self.state.borrow_mut();
        let mut lent = self.buffers.records.borrow_mut();
        lent.outgoing.clear();
        self.session.borrow_mut().close(&mut lent.outgoing);
        // A peer that has left does not need to be told.
        let _ = state.send(&lent.outgoing, &self.socket);
    }
}

/// How many slices are encrypted at once.
const SLICES_MAX: usize = 16;

impl State {
    /// Refuses a message that grows and grows without becoming complete.
    fn check_partial(&self) -> io::Result<()> {
        match self.partial.len() {
            ..=PARTIAL_BYTES_MAX => Ok(()),
            _ => Err(io::Error::other("a handshake message is too long")),
        }
    }

    /// Handles the records in the first `len` bytes of the lent buffer; their plaintext is left in the lent one.
    fn take(
        &mut self,
        len: usize,
        lent: &mut Records,
        session: &RefCell<Session>,
        socket: &Socket,
    ) -> io::Result<Progress> {
        lent.plain.clear();
        lent.outgoing.clear();
        let result = session.borrow_mut().read(&mut lent.incoming[..len], &mut lent.plain, &mut lent.outgoing);
        // An alert is sent too.
        self.send(&lent.outgoing, socket)?;
        let read = result.map_err(io::Error::other)?;
        self.partial.extend_from_slice(&lent.incoming[read.consumed..len]);
        self.ended |= read.state == Progress::Closed;
        Ok(read.state)
    }

    /// Sends records, and keeps what the socket does not take.
    fn send(&mut self, records: &[u8], socket: &Socket) -> io::Result<()> {
        let mut at = 0;
        if self.unsent.is_empty() {
            while at < records.len() {
                match socket.try_write(&records[at..]) {
                    Ok(n) => at += n,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Err(error) => return Err(error),
                }
            }
        }
        self.unsent.extend_from_slice(&records[at..]);
        Ok(())
    }

    /// Writes the held records; false when the socket takes no more.
    fn flush(&mut self, socket: &Socket) -> io::Result<bool> {
        let unsent = std::mem::take(&mut self.unsent);
        self.send(&unsent, socket)?;
        Ok(self.unsent.is_empty())
    }

    fn poll_flush(&mut self, socket: &Socket, task: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.unsent.is_empty() {
            ready!(socket.poll_write_ready(task))?;
            self.flush(socket)?;
        }
        Poll::Ready(Ok(()))
    }
}
