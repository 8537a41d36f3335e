//! One request and its response on a connection: sends and reads at the same time, and applies the timeouts.

use std::{
    io,
    ops::Range,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::{Buf, Bytes, BytesMut};
use larder_http::ResponseHead;
use tokio::{io::AsyncWrite as _, time::Instant};

use crate::{
    connection::Connection,
    download::Download,
    error::FetchError,
    limits::Limits,
    piece::{Piece, Reuse},
    pieces::Pieces,
    scratch::Scratch,
    upload::{Upload, Waits},
};

/// A connection, with the request that is being sent on it and its response. Dropping it closes the connection.
///
/// It stays with its connection from one request to the next: so what is passed on is a pointer, and a request on a kept
/// connection allocates none.
pub(crate) struct Exchange {
    pub(crate) connection: Connection,
    pub(crate) upload: Upload,
    pub(crate) download: Download,
    /// Pieces of the body that were read but not yet taken.
    pub(crate) ready: Pieces,
    /// How the body ended, once it has.
    pub(crate) over: Option<Result<Reuse, FetchError>>,
    /// Bytes that were read and not yet parsed.
    pub(crate) buffer: BytesMut,
    /// The buffer was given by the caller, who wants it filled without gaps.
    is_lent: bool,
    limits: TimeLimits,
    progress: Progress,
}

/// How long an exchange may wait for the origin.
struct TimeLimits {
    connect: Duration,
    send: Duration,
    read: Duration,
    read_body: Duration,
}

/// How far an exchange has come.
struct Progress {
    /// How long the body is, if the head says so.
    content_length: Option<u64>,
    received_bytes: u64,
    /// How many bytes the head had.
    head_bytes: u64,
    /// How many bytes the last read brought.
    last_read: usize,
    /// When a byte was last sent or received, or when the upload last waited for the client.
    moved_at: Instant,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Head,
    Body,
}

/// What a read brought, and where it is to be parsed.
enum Filled {
    /// The origin sends nothing more.
    End,
    /// So many bytes of the scratch, with those that were left in the buffer.
    Scratch(usize),
    Buffer,
}

/// What comes of a request that nobody wants any more.
pub(crate) enum Left {
    /// So many bytes.
    Bytes(usize),
    /// The origin says that it is done.
    Done,
    /// It has closed the connection, or sends what cannot be read.
    Closed,
}

/// How much is read of an answer that is probably small; most heads and many pages fit.
const SMALL_READ_BYTES: usize = 16 << 10;
/// The buffer for further reads: a whole FastCGI record.
const READ_BYTES: usize = 64 << 10;
/// A smaller room in the buffer is not worth a read.
const READ_BYTES_MIN: usize = 4 << 10;
/// Pieces smaller than this are joined with others of the same read: an origin may send chunks or records of one byte,
/// and each piece costs a chunk and a write to every client.
const SMALL_PIECE_BYTES: usize = 1024;

impl Exchange {
    pub(crate) fn new(
        connection: Connection,
        upload: Upload,
        download: Download,
        limits: &Limits,
        now: Instant,
    ) -> Box<Exchange> {
        Box::new(Exchange {
            connection,
            upload,
            download,
            ready: Pieces::default(),
            over: None,
            buffer: BytesMut::new(),
            is_lent: false,
            limits: TimeLimits::of(limits),
            progress: Progress::since(now),
        })
    }

    /// Begins the next request on the connection, after [`Exchange::rest`].
    pub(crate) fn renew(&mut self, upload: Upload, download: Download, limits: &Limits, now: Instant) {
        self.upload = upload;
        self.download = download;
        self.limits = TimeLimits::of(limits);
        self.progress = Progress::since(now);
    }

    /// Frees what a request that is over has left, and the buffers: an idle connection holds none.
    pub(crate) fn rest(&mut self) {
        self.upload.rest();
        self.download.rest();
        self.ready = Pieces::default();
        self.over = None;
        self.buffer = BytesMut::new();
        self.is_lent = false;
        self.connection.rest();
    }

    /// Bytes the origin sent.
    pub(crate) fn received_bytes(&self) -> u64 {
        self.progress.received_bytes
    }

    /// Those of the head, once it is read.
    pub(crate) fn head_bytes(&self) -> u64 {
        self.progress.head_bytes
    }

    /// How long the body is, if the head says so.
    pub(crate) fn content_length(&self) -> Option<u64> {
        self.progress.content_length
    }

    /// Sends the request, and reads until the response head is complete. What came of the body with it is ready then.
    pub(crate) fn poll_head(&mut self, cx: &mut Context<'_>, now: Instant) -> Poll<Result<ResponseHead, FetchError>> {
        let mut scratch = Scratch::lend();
        loop {
            let mut at = 0;
            match ready!(self.poll_fill(cx, Phase::Head, &mut scratch, now))? {
                Filled::End => {
                    return Poll::Ready(Err(match self.upload.take_broken() {
                        Some(source) => FetchError::Send { source },
                        None => FetchError::Closed { before_head: true },
                    }));
                }
                Filled::Scratch(end) => match self.download.head(&scratch[..end], &mut at)? {
                    Some(head) => {
                        self.progress.head_bytes = self.progress.received_bytes.saturating_sub((end - at) as u64);
                        self.progress.content_length = self.download.content_length();
                        self.drain_scratch(&mut scratch[..end], at);
                        return Poll::Ready(Ok(head));
                    }
                    None => self.buffer.extend_from_slice(&scratch[at..end]),
                },
                Filled::Buffer => {
                    let head = self.download.head(&self.buffer, &mut at)?;
                    self.buffer.advance(at);
                    if let Some(head) = head {
                        self.progress.head_bytes =
                            self.progress.received_bytes.saturating_sub(self.buffer.len() as u64);
                        self.progress.content_length = self.download.content_length();
                        self.drain_buffer();
                        return Poll::Ready(Ok(head));
                    }
                }
            }
        }
    }

    /// Reads more of the body, and sends the rest of the request meanwhile. Ready when a piece is, or the end.
    pub(crate) fn poll_more(&mut self, cx: &mut Context<'_>, now: Instant) -> Poll<()> {
        let mut scratch = Scratch::lend();
        while self.ready.is_empty() && self.over.is_none() {
            match ready!(self.poll_fill(cx, Phase::Body, &mut scratch, now)) {
                Ok(Filled::End) => self.over = Some(self.download.closed().map(|()| Reuse::Close)),
                Ok(Filled::Scratch(end)) => self.drain_scratch(&mut scratch[..end], 0),
                Ok(Filled::Buffer) => self.drain_buffer(),
                Err(error) => self.over = Some(Err(error)),
            }
        }
        Poll::Ready(())
    }

    /// Whether the next read would be of a body without framing, to memory that is still to be found.
    pub(crate) fn needs_buffer(&self) -> bool {
        let is_bare = matches!(self.download, Download::Http(_)) && self.progress.content_length.is_some();
        is_bare && self.ready.is_empty() && self.over.is_none() && self.buffer.is_empty() && !self.has_lent_room()
    }

    /// Reads what comes next into `buffer`. Only if it [needs](Self::needs_buffer) one.
    pub(crate) fn lend(&mut self, buffer: BytesMut) {
        self.buffer = buffer;
        self.is_lent = true;
    }

    /// Frees all that is for who wanted the answer.
    pub(crate) fn forsake(&mut self) {
        self.upload.rest();
        self.ready = Pieces::default();
        if self.is_lent {
            self.buffer = BytesMut::from(&self.buffer[..]);
            self.is_lent = false;
        }
    }

    /// Reads, for nobody, what the origin still sends after [`Exchange::forsake`], and tells it by the end of our side
    /// that nobody listens.
    pub(crate) fn poll_left(&mut self, cx: &mut Context<'_>) -> Poll<Left> {
        // Where that fails, the read fails, too.
        let _ = Pin::new(&mut self.connection).poll_shutdown(cx);
        let mut scratch = Scratch::lend();
        let count = match ready!(self.connection.poll_read_slice(cx, &mut scratch)) {
            Ok(0) | Err(_) => return Poll::Ready(Left::Closed),
            Ok(count) => count,
        };
        self.buffer.extend_from_slice(&scratch[..count]);
        let mut at = 0;
        let is_done = self.download.is_done(&self.buffer, &mut at);
        self.buffer.advance(at);
        Poll::Ready(match is_done {
            Ok(true) => Left::Done,
            Ok(false) => Left::Bytes(count),
            Err(_) => Left::Closed,
        })
    }

    fn has_lent_room(&self) -> bool {
        self.is_lent && self.buffer.capacity() > self.buffer.len()
    }

    /// Sends what the origin takes, then reads once.
    fn poll_fill(
        &mut self,
        cx: &mut Context<'_>,
        phase: Phase,
        scratch: &mut [u8],
        now: Instant,
    ) -> Poll<Result<Filled, FetchError>> {
        let sent = self.upload.poll(cx, &mut self.connection)?;
        // The task that reads from the client applies the timeout for a slow client.
        if sent.moved || sent.waits == Waits::ForClient {
            self.progress.moved_at = now;
        }
        if self.connection.is_connecting() {
            if let Some(source) = self.upload.take_broken() {
                return Poll::Ready(Err(FetchError::Send { source }));
            }
            ready!(self.connection.alarm.poll(cx, self.progress.moved_at + self.limits.connect));
            return Poll::Ready(Err(FetchError::ConnectTimeout));
        }
        let held = self.buffer.len();
        let small = self.small_read(phase, scratch.len());
        let read = match small {
            Some(count_max) => {
                scratch[..held].copy_from_slice(&self.buffer);
                self.connection.poll_read_slice(cx, &mut scratch[held..held + count_max])
            }
            None => {
                let room = self.make_room(phase);
                self.connection.poll_read_into(cx, &mut self.buffer, room)
            }
        };
        match read {
            Poll::Ready(Ok(count)) => {
                self.progress.received_bytes += count as u64;
                self.progress.last_read = count;
                self.progress.moved_at = now;
                Poll::Ready(Ok(match small {
                    _ if count == 0 => Filled::End,
                    None => Filled::Buffer,
                    Some(_) => {
                        self.buffer.clear();
                        Filled::Scratch(held + count)
                    }
                }))
            }
            Poll::Ready(Err(source)) => Poll::Ready(Err(self.read_error(source, phase))),
            Poll::Pending if sent.waits == Waits::ForClient => Poll::Pending,
            Poll::Pending => {
                let (limit, late) = match (phase, sent.waits) {
                    (Phase::Head, Waits::ForOrigin) => (self.limits.send, FetchError::SendTimeout),
                    (Phase::Head, _) => (self.limits.read, FetchError::HeadTimeout),
                    // An origin may answer without reading the rest of the request; then only its answer has a timeout.
                    (Phase::Body, _) => (self.limits.read_body, FetchError::BodyTimeout),
                };
                ready!(self.connection.alarm.poll(cx, self.progress.moved_at + limit));
                Poll::Ready(Err(late))
            }
        }
    }

    /// How much to read into the scratch of `scratch_bytes`, from where small bodies are copied into allocations of
    /// their own size. `None` if a big body goes on: that is read into memory of its own.
    fn small_read(&self, phase: Phase, scratch_bytes: usize) -> Option<usize> {
        if self.has_lent_room() {
            return None;
        }
        let probably_small = phase == Phase::Head
            || match self.download.content_length() {
                Some(left) => left <= SMALL_READ_BYTES as u64,
                None => self.progress.last_read < SMALL_READ_BYTES,
            };
        let count_max = match self.download {
            Download::Http(_) => SMALL_READ_BYTES,
            // Its records have to be put together in any case.
            Download::FastCgi(_) => scratch_bytes.saturating_sub(self.buffer.len()),
        };
        (probably_small && self.buffer.len() + count_max <= scratch_bytes && count_max >= READ_BYTES_MIN)
            .then_some(count_max)
    }

    /// Makes room for a read, and returns how much to read.
    ///
    /// Bodies are read up to multiples of [`READ_BYTES`], so that each read fills whole pages of memory, in which a big
    /// body is kept and sent. (Not for FastCGI, where record headers are in between.)
    fn make_room(&mut self, phase: Phase) -> usize {
        if self.has_lent_room() {
            return self.buffer.capacity() - self.buffer.len();
        }
        self.is_lent = false;
        let is_aligned = phase == Phase::Body && matches!(self.download, Download::Http(_));
        let beyond = if is_aligned {
            (self.progress.received_bytes - self.progress.head_bytes) as usize % READ_BYTES
        } else {
            0
        };
        let wanted = match READ_BYTES - beyond {
            little if little < READ_BYTES_MIN => little + READ_BYTES,
            wanted => wanted,
        };
        if self.buffer.capacity() - self.buffer.len() < READ_BYTES_MIN {
            self.buffer.reserve(wanted);
        }
        wanted
    }

    /// Parses what was read into the scratch, all of it, so that if the end has arrived the connection is free at once.
    /// The data is put together at its beginning, and then copied into one piece.
    fn drain_scratch(&mut self, input: &mut [u8], mut at: usize) {
        let mut gathered = at..at;
        while !self.download.is_tunnel() {
            let piece = self.download.body(input, &mut at);
            let Some(data) = self.data_of(piece) else { break };
            if gathered.is_empty() {
                gathered = data;
            } else {
                let len = data.len();
                input.copy_within(data, gathered.end);
                gathered.end += len;
            }
        }
        if !gathered.is_empty() {
            self.ready.push(Bytes::copy_from_slice(&input[gathered]));
        }
        self.buffer.extend_from_slice(&input[at..]);
    }

    /// Parses what was read into the buffer, all of it. Big pieces stay where they are.
    fn drain_buffer(&mut self) {
        let mut gathered = BytesMut::new();
        while !self.download.is_tunnel() {
            let mut at = 0;
            let piece = self.download.body(&self.buffer, &mut at);
            let mut parsed = self.buffer.split_to(at);
            let Some(data) = self.data_of(piece) else { break };
            if data.len() < SMALL_PIECE_BYTES && !self.is_lent {
                gathered.extend_from_slice(&parsed[data]);
            } else {
                parsed.truncate(data.end);
                parsed.advance(data.start);
                self.ready.push(gathered.split().freeze());
                self.ready.push(parsed.freeze());
            }
        }
        self.ready.push(gathered.freeze());
    }

    /// Where the data of a piece lies; `None` if nothing more comes of what was read. Notes the end of the body.
    fn data_of(&mut self, piece: Result<Piece, FetchError>) -> Option<Range<usize>> {
        match piece {
            Ok(Piece::Data(data)) => return Some(data),
            Ok(Piece::More) => {}
            Ok(Piece::End(reuse)) => self.over = Some(Ok(reuse)),
            Err(error) => self.over = Some(Err(error)),
        }
        None
    }

    fn read_error(&mut self, source: io::Error, phase: Phase) -> FetchError {
        match self.upload.take_broken() {
            Some(source) if self.progress.received_bytes == 0 => FetchError::Send { source },
            _ => FetchError::Receive { source, before_head: phase == Phase::Head },
        }
    }
}

impl TimeLimits {
    fn of(limits: &Limits) -> TimeLimits {
        TimeLimits { connect: limits.connect, send: limits.send, read: limits.read, read_body: limits.read_body }
    }
}

impl Progress {
    fn since(now: Instant) -> Progress {
        Progress { content_length: None, received_bytes: 0, head_bytes: 0, last_read: 0, moved_at: now }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        future::poll_fn,
        io::Write,
        net::{TcpListener, TcpStream},
    };

    use super::*;
    use crate::{
        address::Address,
        http,
        purpose::{Layers, Speaks},
        request_body::RequestBody,
    };

    /// A GET, and the origin's end of its connection.
    async fn begun(now: Instant) -> (Box<Exchange>, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address = Address::Tcp(listener.local_addr().expect("it is bound"));
        let limits = Limits::default();
        let connection = Connection::open(&address, &Layers::default(), &limits, true).await.expect("it listens");
        let (origin, _) = listener.accept().expect("it is connected");
        let opening = Bytes::from_static(b"GET / HTTP/1.1\r\n\r\n");
        let upload = Upload::new(Speaks::Http, opening, RequestBody::None);
        let download = Download::Http(http::Response::new(4096, false, false));
        (Exchange::new(connection, upload, download, &limits, now), origin)
    }

    #[tokio::test]
    async fn a_lent_buffer_is_filled_without_gaps() {
        let now = Instant::now();
        let (mut exchange, mut origin) = begun(now).await;
        assert!(!exchange.needs_buffer(), "there may be no body");
        origin.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 3010\r\n\r\nhead").expect("larder reads");
        poll_fn(|cx| exchange.poll_head(cx, now)).await.expect("it is a head");
        assert!(!exchange.needs_buffer(), "what came with the head is taken first");
        assert_eq!(exchange.ready.pop().as_deref(), Some(&b"head"[..]));
        assert!(exchange.needs_buffer());
        let buffer = BytesMut::with_capacity(3000);
        let start = buffer.as_ptr().addr();
        exchange.lend(buffer);
        let mut at = 0;
        for count in [1, 1500, 400, 1099] {
            assert!(!exchange.needs_buffer(), "it has room");
            origin.write_all(&vec![b'x'; count]).expect("larder reads");
            poll_fn(|cx| exchange.poll_more(cx, now)).await;
            let piece = exchange.ready.pop().expect("it has arrived");
            assert_eq!((piece.as_ptr().addr(), piece.len()), (start + at, count));
            at += count;
        }
        assert!(exchange.needs_buffer(), "it is full");
        origin.write_all(b"theend").expect("larder reads");
        poll_fn(|cx| exchange.poll_more(cx, now)).await;
        assert_eq!(exchange.ready.pop().as_deref(), Some(&b"theend"[..]));
        assert!(exchange.over.is_some() && !exchange.needs_buffer());
    }

    #[tokio::test]
    async fn who_waits_for_an_origin_to_begin_holds_no_buffer() {
        let now = Instant::now();
        let (mut exchange, mut origin) = begun(now).await;
        poll_fn(|cx| {
            assert!(exchange.poll_head(cx, now).is_pending(), "the origin has said nothing");
            assert_eq!(exchange.buffer.capacity(), 0);
            Poll::Ready(())
        })
        .await;
        origin.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc").expect("larder reads");
        let head = poll_fn(|cx| exchange.poll_head(cx, now)).await.expect("it is a head");
        assert_eq!((head.status, exchange.ready.pop().as_deref()), (200, Some(&b"abc"[..])));
        assert!(exchange.over.is_some() && exchange.buffer.capacity() == 0);
    }
}
