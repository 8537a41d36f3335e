//! Sending a response: at once where the socket takes it, else piece by piece as it drains.
//!
//! Memory goes by one `writev` of head and body (small bodies are copied behind the head, as a copy is cheaper than
//! a second buffer), files, those in memory too, go by `sendfile`. What has to be encrypted or put in frames is read
//! from them through a buffer of the worker's.

use std::fs::File;
use std::io::{self, IoSlice};
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use larder_cache::Form;
use larder_http::{LAST_CHUNK, chunk_head};
use larder_store::{Body, Piece, Place, Whole};
use tokio::io::Interest;

use crate::context::Cx;
use crate::exchange::Exchange;
use crate::request::adorn;
use crate::request::compose::Composed;
use crate::request::deliver::{Outgoing, Source};
use crate::request::recode::{Fed, Recoding};
use crate::request::slice::{SliceBody, Slices, Slicing};
use crate::request::wire::Wire;
use crate::worker::{TRANSFER_STEP_BYTES, Worker};

use super::ensure;
use super::memory::part;
use super::pace::Limit;
use super::sink::Sink;
use super::small::{SMALL_BYTES_MAX, is_small};
use super::socket::Socket;
use super::stream::Stream;

/// Bodies up to this size are copied behind the head: measured, `send` of one buffer costs 0.24 µs less than
/// `writev` of two, and copying 8 KB less than that.
const COPIED_BYTES_MAX: u64 = 8 * 1024;
/// How many pieces one `writev` takes.
const SLICES_MAX: usize = 16;
/// So many times as much as of what is copied twice goes out of a file in a turn, by `sendfile` and through a buffer:
/// each then takes about as long. Measured, a page of 1 MB that gives way every 64 KB costs twice as much.
const SENT_TIMES: usize = 8;
/// See [`SENT_TIMES`].
const READ_TIMES: usize = 4;
/// What fits into a packet; nginx's `postpone_output`.
const PACKET_BYTES: u64 = 1460;
/// How much of a compressed body is gathered before it is sent, and how much is compressed until others get a turn.
const RECODED_BYTES: usize = 16 * 1024;
/// How much is taken at once of a body that arrives: what goes out in a turn at the most.
const PIECE_BYTES: usize = TRANSFER_STEP_BYTES * SENT_TIMES;
/// How much of a file is copied at once, where `sendfile` cannot be used: as much as is encrypted at once.
const COPY_BYTES: usize = 64 * 1024;

/// Why a response did not reach the client whole.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// The client took nothing for `send_timeout`.
    #[error("client timed out")]
    TimedOut,
    /// The client closed the connection, or the system said no.
    #[error("send() failed: {0}")]
    Io(#[from] io::Error),
    /// The body ended before its end: the origin failed.
    #[error("the response is incomplete: {0}")]
    Incomplete(String),
}

/// A response of which some bytes may have been sent.
pub struct Rest {
    head: Vec<u8>,
    outgoing: Outgoing,
    /// Bytes of the body that have been sent.
    body_sent: u64,
}

impl Rest {
    /// A response of which nothing has been sent.
    pub fn unsent(head: &[u8], outgoing: Outgoing) -> Self {
        Self { head: head.to_vec(), outgoing, body_sent: 0 }
    }
}

/// Sends what the socket takes now. `None` when that was all.
///
/// `head` is the worker's own buffer; what is left of it is copied. Counts what was sent in `ex`.
pub fn try_now(
    stream: &Stream,
    head: &mut Vec<u8>,
    outgoing: Outgoing,
    ex: &mut Exchange,
    worker: &Worker,
) -> io::Result<Option<Rest>> {
    if !ex.guards.is_empty() && is_small(&outgoing) {
        ex.guards.clear();
    }
    let head_len = head.len();
    let (wrote, body_len) = match &outgoing {
        Outgoing::Nothing => (retried(stream.try_write(head))?, 0),
        Outgoing::Bytes(bytes) => (write_two(stream, head, bytes)?, bytes.len() as u64),
        Outgoing::Hit(object, range) => match object.body.whole() {
            Some(whole) => (write_whole(stream, head, whole, range, worker)?, range.end - range.start),
            None => (0, u64::MAX),
        },
        Outgoing::Stored(object, range) => match object.body.whole() {
            Some(whole) => (write_whole(stream, head, whole, range, worker)?, range.end - range.start),
            None => (0, u64::MAX),
        },
        Outgoing::HitForm(form) => write_form(stream, head, form, worker)?,
        Outgoing::Form(form) => write_form(stream, head, form, worker)?,
        // These wait; their head goes out with the first piece, or with MSG_MORE before a file.
        Outgoing::File(..)
        | Outgoing::Spliced(..)
        | Outgoing::Stream { .. }
        | Outgoing::Recoded { .. }
        | Outgoing::Trailed(..)
        | Outgoing::Slices(_)
        | Outgoing::Parts(..) => (0, u64::MAX),
    };
    let head_sent = wrote.min(head_len);
    let body_sent = (wrote - head_sent) as u64;
    ex.sent = (wrote as u64, body_sent);
    if body_len != u64::MAX && wrote as u64 == head_len as u64 + body_len && stream.is_flushed() {
        return Ok(None);
    }
    let left = head[head_sent..head_len].to_vec();
    Ok(Some(Rest { head: left, outgoing, body_sent }))
}

fn retried(result: io::Result<usize>) -> io::Result<usize> {
    match result {
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => Ok(0),
        other => other,
    }
}

fn write_two(stream: &Stream, head: &mut Vec<u8>, body: &[u8]) -> io::Result<usize> {
    if body.len() as u64 <= COPIED_BYTES_MAX {
        let len = head.len();
        head.extend_from_slice(body);
        let wrote = retried(stream.try_write(head));
        head.truncate(len);
        return wrote;
    }
    retried(stream.try_write_vectored(&[IoSlice::new(head), IoSlice::new(body)]))
}

fn write_whole(
    stream: &Stream,
    head: &mut Vec<u8>,
    whole: &Whole,
    range: &Range<u64>,
    worker: &Worker,
) -> io::Result<usize> {
    let pieces = match whole.place() {
        Place::Pieces([piece]) => return write_two(stream, head, part(piece, range, 0)),
        Place::Pieces(pieces) => pieces,
        Place::File { file, offset } => {
            let range = offset + range.start..offset + range.end;
            return match stream.plain() {
                Some(socket) => write_file(socket, head, file, range),
                None => write_copied(stream, head, file, range, worker),
            };
        }
    };
    let mut slices = [IoSlice::new(&[]); SLICES_MAX];
    slices[0] = IoSlice::new(head);
    let count = 1 + fill(&mut slices[1..], pieces, range);
    retried(stream.try_write_vectored(&slices[..count]))
}

/// Writes a head and a part of a memory file, up to a step's worth.
fn write_file(socket: &Socket, head: &[u8], file: &File, range: Range<u64>) -> io::Result<usize> {
    let mut wrote = if range.is_empty() { retried(socket.try_write(head))? } else { retried(send_more(socket, head))? };
    let mut at = range.start;
    if wrote < head.len() {
        return Ok(wrote);
    }
    let end = range.end.min(at + (TRANSFER_STEP_BYTES * SENT_TIMES) as u64);
    while at < end {
        match retried(send_file(socket, file, at, (end - at) as usize))? {
            0 => break,
            n => {
                at += n as u64;
                wrote += n;
            }
        }
    }
    Ok(wrote)
}

/// The same to a stream that encrypts.
fn write_copied(stream: &Stream, head: &[u8], file: &File, range: Range<u64>, worker: &Worker) -> io::Result<usize> {
    let mut buffer = worker.file_buffer.borrow_mut();
    ensure(&mut buffer, COPY_BYTES);
    let (mut at, mut wrote) = (range.start, 0);
    let end = range.end.min(at + (TRANSFER_STEP_BYTES * READ_TIMES) as u64);
    loop {
        let head = &head[wrote.min(head.len())..];
        let room = buffer.len().min(COPY_BYTES).saturating_sub(head.len());
        let count = room.min((end - at) as usize);
        file.read_exact_at(&mut buffer[..count], at)?;
        let n = retried(stream.try_write_vectored(&[IoSlice::new(head), IoSlice::new(&buffer[..count])]))?;
        at += n.saturating_sub(head.len()) as u64;
        wrote += n;
        if n == 0 || at == end || !stream.is_flushed() {
            return Ok(wrote);
        }
    }
}

/// Sends bytes so that the kernel waits for what follows, and both leave in one packet.
fn send_more(socket: &Socket, bytes: &[u8]) -> io::Result<usize> {
    let flags = rustix::net::SendFlags::MORE | rustix::net::SendFlags::NOSIGNAL;
    socket.try_io(Interest::WRITABLE, |fd| Ok(rustix::net::send(fd, bytes, flags)?))
}

/// Sends up to `count` bytes of a file, which must have some at `offset`.
fn send_file(socket: &Socket, file: &File, offset: u64, count: usize) -> io::Result<usize> {
    let sent = socket.try_io(Interest::WRITABLE, |fd| {
        let mut at = offset;
        Ok(rustix::fs::sendfile(fd, file, Some(&mut at), count)?)
    })?;
    match sent {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        n => Ok(n),
    }
}

/// Writes a form, which is always whole; returns what was written, and the length of the body.
fn write_form(stream: &Stream, head: &mut Vec<u8>, form: &Form, worker: &Worker) -> io::Result<(usize, u64)> {
    match form.body.whole() {
        Some(whole) => Ok((write_whole(stream, head, whole, &(0..whole.len()), worker)?, whole.len())),
        None => Ok((0, u64::MAX)),
    }
}

/// Puts the pieces of a body that lie in `range` into `slices`; returns how many.
fn fill<'a>(slices: &mut [IoSlice<'a>], pieces: &'a [Bytes], range: &Range<u64>) -> usize {
    let mut at = 0;
    let mut count = 0;
    for piece in pieces {
        let data = part(piece, range, at);
        at += piece.len() as u64;
        if data.is_empty() {
            continue;
        }
        if count == slices.len() {
            break;
        }
        slices[count] = IoSlice::new(data);
        count += 1;
    }
    count
}

/// Sends the rest of a response, waiting for the client where it is slow.
pub async fn rest<'a>(sink: Sink<'a>, rest: Rest, ex: &'a mut Exchange, cx: &'a Cx) -> Result<(), SendError> {
    let loc = &cx.site().locations[ex.location];
    let mut sender = Sender {
        sink,
        cx,
        timeout: loc.settings.send_timeout,
        limit: Limit::of(ex, cx),
        watches: watches(ex, cx),
        composed: ex.composed.clone(),
        recoding: None,
        head: rest.head,
        sent: ex.sent,
        // What has gone out at once was a turn's worth.
        step_bytes: if ex.sent.0 < TRANSFER_STEP_BYTES as u64 { 0 } else { TRANSFER_STEP_BYTES },
        ex,
    };
    let mut result = sender.body(rest.outgoing, rest.body_sent).await;
    if result.is_ok() {
        result = sender.flush().await;
        sender.ex.slicing = Slicing::Over;
    }
    let Sender { ex, sent, recoding, .. } = sender;
    ex.sent = sent;
    if let Some(recoding) = recoding {
        ex.squeezed = Some((recoding.taken, recoding.made));
    }
    result
}

/// Whether nobody but this client wants the response: it is not for the cache, and `*_ignore_client_abort` is off.
fn watches(ex: &Exchange, cx: &Cx) -> bool {
    let policy = crate::request::lookup::policy(ex, cx);
    if ex.composed.is_some() {
        // What is put together is put together for this client.
        return policy.is_none_or(|policy| !policy.settings.model.ignore_client_abort);
    }
    ex.cache_status.is_none() && policy.is_some_and(|policy| !policy.settings.model.ignore_client_abort)
}

struct Sender<'a> {
    sink: Sink<'a>,
    /// What the slices of a page are asked for under, and whose buffers are lent.
    cx: &'a Cx,
    timeout: Duration,
    limit: Option<Limit>,
    /// Whether a client that leaves ends the sending, though the origin is silent.
    watches: bool,
    /// Whether the head waits for the first bytes of the body: what is put together may turn out to be impossible.
    composed: Option<Rc<Composed>>,
    /// What is done to the body on its way.
    recoding: Option<Recoding>,
    /// What is left of the head; goes out before anything else.
    head: Vec<u8>,
    sent: (u64, u64),
    /// Bytes since others had a turn.
    step_bytes: usize,
    /// Whose response it is, for trailers, which are made when the body has gone.
    ex: &'a mut Exchange,
}

impl Sender<'_> {
    async fn body(&mut self, outgoing: Outgoing, done: u64) -> Result<(), SendError> {
        match outgoing {
            Outgoing::Nothing => self.memory(&[]).await,
            Outgoing::Bytes(bytes) => self.memory(&bytes[done as usize..]).await,
            Outgoing::Hit(object, range) => {
                let object = object.to_arc();
                self.stored(&object.body, range.start + done..range.end).await
            }
            Outgoing::Stored(object, range) => self.stored(&object.body, range.start + done..range.end).await,
            Outgoing::HitForm(form) => self.form(&form.to_arc(), done).await,
            Outgoing::Form(form) => self.form(&form, done).await,
            Outgoing::Recoded { body, recoder, chunked } => {
                self.recoding = Some(Recoding::new(*recoder, RECODED_BYTES));
                self.recoded(*body, chunked).await
            }
            Outgoing::File(file, range) => self.file(&file, range.start + done..range.end).await,
            Outgoing::Spliced(bytes, file, range) => {
                self.memory(&bytes).await?;
                self.file(&file, range).await
            }
            Outgoing::Stream { reader, range, chunked } => self.stream(reader, range, chunked).await,
            // Of its own, so that the others stay small.
            Outgoing::Slices(slices) => Box::pin(self.slices(*slices, false)).await,
            Outgoing::Trailed(inner) => {
                Box::pin(self.body(*inner, 0)).await?;
                let trailers = self.trailers();
                self.uncounted(&[b"\r\n0\r\n", &trailers[..], b"\r\n"].concat()).await
            }
            Outgoing::Parts(multipart, source) => {
                for part in &multipart.parts {
                    self.memory(&part.head).await?;
                    match &source {
                        Source::Bytes(bytes) => {
                            self.memory(&bytes[part.slice.start as usize..part.slice.end as usize]).await?
                        }
                        Source::File(file) => self.file(file, part.slice.clone()).await?,
                        Source::Stored(object) => self.stored(&object.body, part.slice.clone()).await?,
                    }
                }
                self.memory(&multipart.tail).await
            }
        }
    }

    async fn form(&mut self, form: &Form, done: u64) -> Result<(), SendError> {
        self.stored(&form.body, done..form.body.whole().map_or(u64::MAX, Whole::len)).await
    }

    /// Sends a body that is compressed or restored on its way.
    async fn recoded(&mut self, body: Outgoing, chunked: bool) -> Result<(), SendError> {
        match body {
            Outgoing::Stream { reader, range, .. } => return self.stream(reader, range, chunked).await,
            Outgoing::File(file, range) => self.file_in_pieces(&file, range, chunked).await?,
            Outgoing::Spliced(bytes, file, range) => {
                self.piece(&bytes, chunked).await?;
                self.file_in_pieces(&file, range, chunked).await?;
            }
            Outgoing::Bytes(bytes) => self.piece(&bytes, chunked).await?,
            Outgoing::Stored(object, range) => {
                let reader = object.body.reader();
                return self.stream(reader, range, chunked).await;
            }
            Outgoing::Hit(object, range) => {
                let reader = object.to_arc().body.reader();
                return self.stream(reader, range, chunked).await;
            }
            Outgoing::Slices(slices) => return Box::pin(self.slices(*slices, chunked)).await,
            // Only bytes that stay in their places are changed in parts; the heads of the parts are not.
            Outgoing::Parts(multipart, source) => {
                for part in &multipart.parts {
                    self.memory(&part.head).await?;
                    match &source {
                        Source::Bytes(bytes) => {
                            self.piece(&bytes[part.slice.start as usize..part.slice.end as usize], false).await?;
                        }
                        Source::File(file) => self.file_in_pieces(file, part.slice.clone(), false).await?,
                        Source::Stored(object) => {
                            self.passing(object.body.reader(), part.slice.clone(), false).await?;
                        }
                    }
                    self.flush_recoding(false).await?;
                }
                self.memory(&multipart.tail).await?;
            }
            Outgoing::Nothing
            | Outgoing::HitForm(_)
            | Outgoing::Form(_)
            | Outgoing::Recoded { .. }
            | Outgoing::Trailed(..) => {}
        }
        self.end(chunked).await
    }

    async fn stored(&mut self, body: &Body, range: Range<u64>) -> Result<(), SendError> {
        let Some(whole) = body.whole() else {
            return self.stream(body.reader(), range, false).await;
        };
        let pieces = match whole.place() {
            Place::Pieces(pieces) => pieces,
            Place::File { file, offset } => {
                return self.file(file, offset + range.start..offset + range.end).await;
            }
        };
        let mut at = 0;
        for piece in pieces {
            self.memory(part(piece, &range, at)).await?;
            at += piece.len() as u64;
        }
        Ok(())
    }

    /// Sends bytes, after what is left of the head.
    async fn memory(&mut self, body: &[u8]) -> Result<(), SendError> {
        let head = std::mem::take(&mut self.head);
        let mut at = 0;
        let total = head.len() + body.len();
        while at < total {
            let allowed = self.turn(1).await?;
            let from_head = at.min(head.len());
            // A pace is the head's too.
            let head_end = head.len().min(from_head.saturating_add(allowed));
            let from_body = at.saturating_sub(head.len());
            let body_end = body.len().min(from_body.saturating_add(allowed - (head_end - from_head)));
            match self.sink.try_write(&head[from_head..head_end], &body[from_body..body_end]) {
                Ok(n) => {
                    let body_part = (at + n).saturating_sub(head.len()) - from_body;
                    self.count(n, body_part, 1);
                    at += n;
                }
                Err(error) => self.wait(error).await?,
            }
        }
        Ok(())
    }

    /// Sends a part of a file as it is.
    async fn file(&mut self, file: &File, range: Range<u64>) -> Result<(), SendError> {
        let socket = self.sink.socket();
        if self.limit.is_some() {
            self.memory(&[]).await?;
        } else if let Some(socket) = socket.filter(|_| !range.is_empty()) {
            self.head_before_more(socket).await?;
        }
        let mut offset = range.start;
        let times = if socket.is_some() { SENT_TIMES } else { READ_TIMES };
        while offset < range.end {
            let allowed = self.turn(times).await?;
            let count = usize::try_from(range.end - offset).unwrap_or(usize::MAX).min(allowed);
            let sent = match socket {
                Some(socket) => send_file(socket, file, offset, count).map(|n| (n, n)).map_err(SendError::from),
                None => self.copy(file, offset, count),
            };
            match sent {
                Ok((all, body)) => {
                    offset += body as u64;
                    self.count(all, body, times);
                }
                Err(SendError::Io(error)) if error.kind() == io::ErrorKind::UnexpectedEof => return Err(shorter()),
                Err(SendError::Io(error)) => self.wait(error).await?,
                Err(error @ (SendError::Incomplete(_) | SendError::TimedOut)) => return Err(error),
            }
        }
        self.memory(&[]).await
    }

    /// Writes what is left of the head, and what fits of a file, through the worker's buffer. Returns how much that
    /// was, all and of the file.
    fn copy(&mut self, file: &File, offset: u64, count: usize) -> Result<(usize, usize), SendError> {
        let mut buffer = self.cx.worker.file_buffer.borrow_mut();
        ensure(&mut buffer, COPY_BYTES);
        let room = self.sink.room().min(COPY_BYTES);
        if room == 0 {
            return Err(SendError::Io(io::ErrorKind::WouldBlock.into()));
        }
        let count = count.min(room.saturating_sub(self.head.len()));
        let read = match file.read_at(&mut buffer[..count], offset) {
            Ok(0) if count > 0 => return Err(shorter()),
            Ok(n) => n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok((0, 0)),
            Err(error) => return Err(unreadable(&error)),
        };
        let wrote = self.sink.try_write(&self.head, &buffer[..read])?;
        let of_head = wrote.min(self.head.len());
        self.head.drain(..of_head);
        Ok((wrote, wrote - of_head))
    }

    /// Sends a file that is changed on its way.
    async fn file_in_pieces(&mut self, file: &File, range: Range<u64>, chunked: bool) -> Result<(), SendError> {
        let mut buffer = vec![0; COPY_BYTES.min(usize::try_from(range.end - range.start).unwrap_or(COPY_BYTES))];
        let mut offset = range.start;
        while offset < range.end {
            let count = usize::try_from(range.end - offset).unwrap_or(COPY_BYTES).min(buffer.len());
            match file.read_at(&mut buffer[..count], offset) {
                Ok(0) => return Err(shorter()),
                Ok(n) => {
                    self.piece(&buffer[..n], chunked).await?;
                    offset += n as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(unreadable(&error)),
            }
        }
        self.memory(&[]).await
    }

    /// Sends what is left of the head, ahead of a file.
    async fn head_before_more(&mut self, socket: &Socket) -> Result<(), SendError> {
        let head = std::mem::take(&mut self.head);
        let mut at = 0;
        while at < head.len() {
            match send_more(socket, &head[at..]) {
                Ok(n) => {
                    at += n;
                    self.count(n, 0, 1);
                }
                Err(error) => self.wait(error).await?,
            }
        }
        Ok(())
    }

    async fn stream(
        &mut self,
        reader: larder_store::BodyReader,
        range: Range<u64>,
        chunked: bool,
    ) -> Result<(), SendError> {
        self.passing(reader, range, chunked).await?;
        self.end(chunked).await
    }

    /// Sends a page in slices, each once the one before has been sent.
    async fn slices(&mut self, mut slices: Slices, chunked: bool) -> Result<(), SendError> {
        let mut after = None;
        while after.is_some() || !slices.is_over() {
            let (body, part) = match after.take() {
                Some(slice) => slice,
                None => {
                    if !slices.has_next() {
                        // What is there goes out before we wait for more.
                        self.flush_recoding(chunked).await?;
                        self.memory(&[]).await?;
                    }
                    self.slice(&mut slices).await?
                }
            };
            // One that does not fill a packet waits for the next, and does not go out if that cannot be had.
            if part.end - part.start < PACKET_BYTES && !slices.is_over() {
                after = Some(self.slice(&mut slices).await?);
            }
            match body {
                SliceBody::Stored(object) if self.recoding.is_none() => self.stored(&object.body, part).await?,
                body => self.passing(body.into_reader(), part, chunked).await?,
            }
        }
        self.end(chunked).await
    }

    /// The next slice of a page, and which part of it is to be sent.
    async fn slice(&self, slices: &mut Slices) -> Result<(SliceBody, Range<u64>), SendError> {
        let slice = tokio::select! {
            biased;
            slice = slices.next(self.cx) => slice,
            () = self.sink.gone(), if self.watches => {
                return Err(SendError::Io(io::ErrorKind::ConnectionReset.into()));
            }
        };
        slice.ok_or_else(|| SendError::Incomplete("a slice of the page is missing".to_owned()))
    }

    /// Sends a part of a body that may still arrive.
    async fn passing(
        &mut self,
        mut reader: larder_store::BodyReader,
        range: Range<u64>,
        chunked: bool,
    ) -> Result<(), SendError> {
        reader.skip_to(range.start);
        loop {
            let left = usize::try_from(range.end.saturating_sub(reader.at())).unwrap_or(usize::MAX);
            if left == 0 {
                break;
            }
            let piece = match reader.try_next(PIECE_BYTES.min(left)) {
                Piece::Pending => {
                    // What the origin has sent so far goes out before we wait for more.
                    self.flush_recoding(chunked).await?;
                    let is_held = self.composed.is_some() && reader.at() == 0;
                    if !self.head.is_empty() && !is_held {
                        self.memory(&[]).await?;
                    }
                    // A client that leaves while its origin is silent must not keep the origin at work.
                    tokio::select! {
                        biased;
                        piece = reader.next(PIECE_BYTES.min(left)) => piece,
                        () = self.sink.gone(), if self.watches => {
                            return Err(SendError::Io(io::ErrorKind::ConnectionReset.into()));
                        }
                    }
                }
                piece => piece,
            };
            match piece {
                Piece::Data(bytes) => {
                    if bytes.len() == left && left as u64 <= SMALL_BYTES_MAX {
                        self.ex.guards.clear();
                    }
                    self.piece(&bytes, chunked).await?;
                }
                Piece::File { file, offset, len } => {
                    let whole = offset..offset + len as u64;
                    if self.recoding.is_some() {
                        self.file_in_pieces(&file, whole, chunked).await?;
                    } else if chunked {
                        let mut room = [0; 18];
                        let line = chunk_head(len, &mut room).to_vec();
                        self.uncounted(&line).await?;
                        self.file(&file, whole).await?;
                        self.uncounted(b"\r\n").await?;
                    } else {
                        self.file(&file, whole).await?;
                    }
                }
                Piece::End if range.end < u64::MAX => return Err(shorter()),
                Piece::End => break,
                Piece::Failed(why) => {
                    // What has come goes out, so that the client has as much as nginx would give it; of a whole that
                    // could not be put together not even the head.
                    if reader.at() > 0 || self.composed.as_ref().is_none_or(|composed| composed.is_cut_off.get()) {
                        self.flush_recoding(chunked).await?;
                        self.memory(&[]).await?;
                    }
                    return Err(SendError::Incomplete(why.to_string()));
                }
                Piece::Pending => {}
            }
        }
        Ok(())
    }

    /// Ends a body, and says so where its length was not said.
    async fn end(&mut self, chunked: bool) -> Result<(), SendError> {
        if let Some(recoding) = &mut self.recoding {
            recoding.finish().map_err(SendError::Incomplete)?;
            let last = recoding.take();
            if !last.is_empty() {
                self.raw_piece(&last, chunked).await?;
            }
        }
        // Limits are let go before the client can see the end.
        self.ex.guards.clear();
        if !chunked {
            return self.memory(&[]).await;
        }
        match &self.trailers()[..] {
            [] => self.uncounted(LAST_CHUNK).await,
            trailers => self.uncounted(&[b"0\r\n", trailers, b"\r\n"].concat()).await,
        }
    }

    /// Trailers with the values of now.
    fn trailers(&mut self) -> Vec<u8> {
        let loc = &self.cx.site().locations[self.ex.location];
        adorn::trailers(loc, self.ex.out.status, Wire::Lines, self.ex, self.cx)
    }

    /// Sends what was compressed and is held back.
    async fn flush_recoding(&mut self, chunked: bool) -> Result<(), SendError> {
        let Some(recoding) = &mut self.recoding else { return Ok(()) };
        recoding.flush().map_err(SendError::Incomplete)?;
        let made = recoding.take();
        if made.is_empty() { Ok(()) } else { self.raw_piece(&made, chunked).await }
    }

    /// Sends a piece of a body, changed as it has to be.
    async fn piece(&mut self, bytes: &[u8], chunked: bool) -> Result<(), SendError> {
        if self.recoding.is_none() {
            return self.raw_piece(bytes, chunked).await;
        }
        // Changing bytes takes far longer than sending them.
        for part in bytes.chunks(RECODED_BYTES) {
            let mut input = part;
            loop {
                let Some(recoding) = &mut self.recoding else { return Ok(()) };
                let fed = recoding.feed(&mut input).map_err(SendError::Incomplete)?;
                if recoding.out.len() >= RECODED_BYTES || fed == Fed::Some {
                    let made = recoding.take();
                    self.raw_piece(&made, chunked).await?;
                }
                if fed == Fed::All {
                    break;
                }
            }
            if part.len() == RECODED_BYTES {
                self.cx.worker.transfers.next().await;
            }
        }
        Ok(())
    }

    async fn raw_piece(&mut self, bytes: &[u8], chunked: bool) -> Result<(), SendError> {
        if !chunked {
            return self.memory(bytes).await;
        }
        let mut room = [0; 18];
        let line = chunk_head(bytes.len(), &mut room);
        self.head.extend_from_slice(line);
        self.memory(bytes).await?;
        self.head.extend_from_slice(b"\r\n");
        // The line break goes out with the next chunk's head.
        Ok(())
    }

    /// Sends bytes that are not of the body: chunk heads and ends.
    async fn uncounted(&mut self, bytes: &[u8]) -> Result<(), SendError> {
        self.head.extend_from_slice(bytes);
        self.memory(&[]).await
    }

    /// Counts what went out, of which a turn takes so many times as much as of what is copied twice.
    fn count(&mut self, all: usize, body: usize, times: usize) {
        self.sent.0 += all as u64;
        self.sent.1 += body as u64;
        self.step_bytes += all / times;
    }

    /// Lets others go first when it is time, and waits as long as the pace demands; returns how many bytes may go out
    /// then.
    async fn turn(&mut self, times: usize) -> Result<usize, SendError> {
        if self.step_bytes >= TRANSFER_STEP_BYTES {
            self.step_bytes = 0;
            self.cx.worker.transfers.next().await;
        }
        Ok(self.pace().await?.min(TRANSFER_STEP_BYTES * times))
    }

    /// Waits as long as `limit_rate` demands; returns how many bytes may go out then.
    async fn pace(&self) -> Result<usize, SendError> {
        let Some(limit) = &self.limit else { return Ok(usize::MAX) };
        if let Some(wait) = limit.wait(self.sent.0) {
            // A client that leaves meanwhile is not waited for.
            tokio::select! {
                biased;
                () = tokio::time::sleep(wait) => {}
                () = self.sink.gone() => return Err(SendError::Io(io::ErrorKind::ConnectionReset.into())),
            }
        }
        Ok(limit.at_once(self.sent.0))
    }

    /// Waits until the socket takes more, unless `error` is another than that it does not.
    async fn wait(&self, error: io::Error) -> Result<(), SendError> {
        match error.kind() {
            io::ErrorKind::WouldBlock => {}
            io::ErrorKind::Interrupted => return Ok(()),
            _ => return Err(SendError::Io(error)),
        }
        loop {
            let before = self.sink.progress_of_others();
            match tokio::time::timeout(self.timeout, self.sink.writable()).await {
                Ok(ready) => return Ok(ready?),
                // The client takes what it wants first.
                Err(_) if before.is_some() && self.sink.progress_of_others() > before => {}
                Err(_) => return Err(SendError::TimedOut),
            }
        }
    }

    /// Waits until the last byte has left larder.
    async fn flush(&self) -> Result<(), SendError> {
        while !self.sink.is_flushed() {
            self.wait(io::ErrorKind::WouldBlock.into()).await?;
        }
        Ok(())
    }
}

fn unreadable(error: &io::Error) -> SendError {
    SendError::Incomplete(format!("the file cannot be read: {error}"))
}

fn shorter() -> SendError {
    SendError::Incomplete("the file became shorter while it was sent".to_owned())
}
