//! An origin's answer: its head, and the body, which the caller pulls from the connection.

use std::{
    fmt,
    fs::File,
    future::poll_fn,
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use std::os::unix::fs::FileExt as _;

use bytes::{Buf, Bytes, BytesMut};
use larder_http::{Fields, ResponseHead};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::Instant,
};

use crate::{
    connection::Connection, error::FetchError, exchange::Exchange, group::Pick, linger::linger, piece::Reuse,
    pieces::Pieces,
};

/// The answer of an origin.
#[derive(Debug)]
pub struct Answer {
    /// Its head, as sent.
    pub head: ResponseHead,
    /// Its body.
    pub body: AnswerBody,
    /// The tunnel after a 101, if the request asked for an upgrade. The body is then empty.
    pub upgraded: Option<Upgraded>,
    /// When this origin was chosen; `$upstream_response_time` counts from here.
    pub attempt_started: Instant,
}

impl Answer {
    /// An answer that no origin has sent.
    pub fn made(head: ResponseHead, body: Bytes) -> Answer {
        Answer { head, body: AnswerBody::of(body), upgraded: None, attempt_started: Instant::now() }
    }

    /// An answer whose body is a file of this length.
    pub fn of_file(head: ResponseHead, file: Arc<File>, len: u64) -> Answer {
        let mut body = AnswerBody::ended();
        body.content_length = Some(len);
        if len > 0 {
            body.state = State::File(FileBody { file, at: 0, len });
        }
        Answer { head, body, upgraded: None, attempt_started: Instant::now() }
    }
}

/// What the connection of an answer was used for; nothing, for one that no origin has sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Bytes received, head and framing included.
    pub received: u64,
    /// Those of the head, and of heads before it.
    pub received_head: u64,
    /// Bytes of the request that were sent.
    pub sent: u64,
    /// Those of its head; with FastCGI, of its parameters.
    pub sent_head: u64,
    /// Whether the answer is over, and the connection free for other requests.
    pub is_kept: bool,
}

impl Usage {
    fn of(exchange: &Exchange) -> Usage {
        Usage {
            received: exchange.received_bytes(),
            received_head: exchange.head_bytes(),
            sent: exchange.upload.sent_bytes(),
            sent_head: exchange.upload.sent_head_bytes(),
            is_kept: false,
        }
    }
}

/// The body of an answer, pulled from its connection.
///
/// ```text
/// Open --end--> Ended      the connection is kept or closed
///  `---fail---> Failed     the connection is closed, as it is when this is dropped; behind a gate when the origin is done
/// ```
/// `File` goes the same ways, and has no connection.
pub struct AnswerBody {
    state: State,
    /// Pieces that were read but not yet returned.
    ready: Pieces,
    content_length: Option<u64>,
    /// What the connection was used for, once that is over.
    usage: Usage,
    told: Option<Box<Told>>,
}

enum State {
    Open {
        exchange: Box<Exchange>,
        pick: Pick,
    },
    File(FileBody),
    Ended,
    /// The error, until it was returned.
    Failed(Option<Box<FetchError>>),
}

/// A file, of which the bytes before `at` were read.
struct FileBody {
    file: Arc<File>,
    at: u64,
    len: u64,
}

/// How much of a file is read at once.
const FILE_PIECE_BYTES: usize = 64 * 1024;

impl FileBody {
    /// The next piece; `None` at the end.
    fn read(&mut self) -> io::Result<Option<Bytes>> {
        let left = usize::try_from(self.len - self.at).unwrap_or(usize::MAX);
        let mut piece = vec![0; left.min(FILE_PIECE_BYTES)];
        let read = loop {
            match self.file.read_at(&mut piece, self.at) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => break read?,
            }
        };
        match read {
            0 if left > 0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            0 => return Ok(None),
            _ => {}
        }
        piece.truncate(read);
        self.at += read as u64;
        Ok(Some(piece.into()))
    }
}

/// What outlives the connection, if anything was told.
#[derive(Default)]
struct Told {
    stderr: Vec<String>,
    notes: Vec<String>,
    trailers: Option<Box<Fields>>,
}

impl AnswerBody {
    /// The body of an exchange whose head was read. If all of it came with the head, the connection is free from now on.
    pub(crate) fn new(exchange: Box<Exchange>, pick: Pick, now: Instant) -> AnswerBody {
        note(&exchange, &pick);
        let mut body = AnswerBody::ended();
        body.content_length = exchange.content_length();
        if exchange.over.is_some() {
            body.end(exchange, pick, now);
        } else {
            body.state = State::Open { exchange, pick };
        }
        body
    }

    /// A body that no origin has sent.
    fn of(bytes: Bytes) -> AnswerBody {
        let mut body = AnswerBody::ended();
        body.content_length = Some(bytes.len() as u64);
        body.ready.push(bytes);
        body
    }

    /// An empty body.
    fn ended() -> AnswerBody {
        AnswerBody {
            state: State::Ended,
            ready: Pieces::default(),
            content_length: Some(0),
            usage: Usage::default(),
            told: None,
        }
    }

    /// The next piece, none empty; `None` when the body is complete. The future may be dropped and `next` called again;
    /// nothing is lost.
    pub async fn next(&mut self) -> Result<Option<Bytes>, FetchError> {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    /// [`AnswerBody::next`], for callers that poll.
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, FetchError>> {
        loop {
            if let Some(piece) = self.ready.pop() {
                return Poll::Ready(Ok(Some(piece)));
            }
            let (exchange, pick) = match &mut self.state {
                State::Open { exchange, pick } => (exchange, pick),
                State::File(body) => {
                    let read = body.read();
                    self.state = match &read {
                        Ok(Some(_)) => return Poll::Ready(read.map_err(FetchError::File)),
                        Ok(None) => State::Ended,
                        Err(_) => State::Failed(None),
                    };
                    return Poll::Ready(read.map_err(FetchError::File));
                }
                State::Ended => return Poll::Ready(Ok(None)),
                State::Failed(error) => {
                    let error = error.take().map(|error| *error);
                    return Poll::Ready(Err(error.unwrap_or(FetchError::Closed { before_head: false })));
                }
            };
            if let Some(piece) = exchange.ready.pop() {
                return Poll::Ready(Ok(Some(piece)));
            }
            let now = Instant::now();
            let polled = exchange.poll_more(cx, now);
            note(exchange, pick);
            ready!(polled);
            if exchange.over.is_some()
                && let State::Open { exchange, pick } = std::mem::replace(&mut self.state, State::Ended)
            {
                self.end(exchange, pick, now);
            }
        }
    }

    /// Offers memory for what is read next; asked only if that is to be found, and for a body whose bytes fill it
    /// without gaps. The pieces then lie in it one after the other.
    pub fn read_into(&mut self, buffer: impl FnOnce() -> Option<BytesMut>) {
        if self.ready.is_empty()
            && let State::Open { exchange, .. } = &mut self.state
            && exchange.needs_buffer()
            && let Some(buffer) = buffer()
        {
            exchange.lend(buffer);
        }
    }

    /// The body, if all of it has arrived and it has at most `bytes_max`; it is over then.
    pub fn take_whole(&mut self, bytes_max: usize) -> Option<Bytes> {
        // What is read together with a head is one piece.
        let is_whole = self.is_complete() && self.ready.len() <= 1;
        let bytes = self.ready.iter().next().map_or(0, Bytes::len);
        (is_whole && bytes <= bytes_max).then(|| self.ready.pop().unwrap_or_default())
    }

    /// The file that the body is, with its length, if none of it was read; it is over then.
    pub fn take_file(&mut self) -> Option<(Arc<File>, u64)> {
        match std::mem::replace(&mut self.state, State::Ended) {
            State::File(FileBody { file, at: 0, len }) => Some((file, len)),
            other => {
                self.state = other;
                None
            }
        }
    }

    /// How long the body is, if the head says so. Zero for a response that has no body by its method or status.
    pub fn content_length(&self) -> Option<u64> {
        self.content_length
    }

    /// Whether all of it was read from the origin, though perhaps not yet returned.
    pub fn is_complete(&self) -> bool {
        matches!(self.state, State::Ended)
    }

    /// Gives the slot at the gate of its group back before it is complete. Returns whether it had one.
    pub fn leave_gate(&mut self) -> bool {
        match &mut self.state {
            State::Open { pick, .. } => pick.take_slot().is_some(),
            State::File(_) | State::Ended | State::Failed(_) => false,
        }
    }

    /// Whether it holds a slot at the gate of its group.
    pub fn is_counted(&self) -> bool {
        matches!(&self.state, State::Open { pick, .. } if pick.has_slot())
    }

    /// The trailers of a chunked body, once it is complete.
    pub fn trailers(&self) -> Option<&Fields> {
        self.told.as_ref()?.trailers.as_deref()
    }

    /// Whether [`AnswerBody::stderr`] and [`AnswerBody::notes`] have nothing for sure, and no more comes.
    pub fn is_silent(&self) -> bool {
        self.told.is_none() && !matches!(self.state, State::Open { .. })
    }

    /// The stderr of a FastCGI origin since the last call, one message a record.
    pub fn stderr(&mut self) -> Vec<String> {
        let mut lines = self.told.as_mut().map_or_else(Vec::new, |told| std::mem::take(&mut told.stderr));
        if let State::Open { exchange, .. } = &mut self.state {
            lines.extend(exchange.download.take_stderr());
        }
        lines
    }

    /// Other messages for the error log since the last call, such as about a body that is longer than announced.
    pub fn notes(&mut self) -> Vec<String> {
        let mut notes = self.told.as_mut().map_or_else(Vec::new, |told| std::mem::take(&mut told.notes));
        if let State::Open { exchange, .. } = &mut self.state {
            notes.extend(exchange.download.take_notes());
        }
        notes
    }

    /// What its connection was used for so far.
    pub fn usage(&self) -> Usage {
        match &self.state {
            State::Open { exchange, .. } => Usage::of(exchange),
            State::File(_) | State::Ended | State::Failed(_) => self.usage,
        }
    }

    /// All was read, or nothing more can be.
    fn end(&mut self, mut exchange: Box<Exchange>, mut pick: Pick, now: Instant) {
        self.hear(&mut exchange);
        self.ready = std::mem::take(&mut exchange.ready);
        match exchange.over.take() {
            Some(Ok(reuse)) => {
                pick.done();
                self.state = State::Ended;
                let is_clean = reuse == Reuse::Keep && exchange.upload.is_complete() && exchange.buffer.is_empty();
                self.usage.is_kept = is_clean;
                if is_clean { pick.group().pool().put(exchange, now) } else { exchange.connection.close() }
            }
            over @ (Some(Err(_)) | None) => {
                let error = over.and_then(Result::err);
                if let Some(FetchError::BodyTimeout) = error {
                    leave(exchange, pick);
                }
                self.state = State::Failed(error.map(Box::new));
            }
        }
    }

    fn hear(&mut self, exchange: &mut Exchange) {
        self.usage = Usage::of(exchange);
        let download = &mut exchange.download;
        let (stderr, notes, trailers) = (download.take_stderr(), download.take_notes(), download.take_trailers());
        if !stderr.is_empty() || !notes.is_empty() || trailers.is_some() {
            self.told = Some(Box::new(Told { stderr, notes, trailers }));
        }
    }
}

impl Drop for AnswerBody {
    fn drop(&mut self) {
        if let State::Open { exchange, pick } = std::mem::replace(&mut self.state, State::Ended) {
            leave(exchange, pick);
        }
    }
}

/// Gives up a request at whose answer its origin still works.
fn leave(exchange: Box<Exchange>, mut pick: Pick) {
    match pick.take_slot() {
        Some(slot) => linger(exchange, slot, Some(pick)),
        None => drop(exchange),
    }
}

/// Notes for the counts what the connection has moved.
fn note(exchange: &Exchange, pick: &Pick) {
    pick.note_bytes(exchange.upload.sent_bytes(), exchange.received_bytes());
}

impl fmt::Debug for AnswerBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match self.state {
            State::Open { .. } => "open",
            State::File(_) => "a file",
            State::Ended => "ended",
            State::Failed(_) => "failed",
        };
        f.debug_struct("AnswerBody").field("state", &state).finish_non_exhaustive()
    }
}

/// The tunnel after a 101. Reads first return what the origin sent after its head.
///
/// Dropping it closes the connection. It has no timeouts of its own.
pub struct Upgraded {
    first: Bytes,
    connection: Box<Connection>,
    /// Counts as running while the tunnel is open.
    _pick: Pick,
}

impl Upgraded {
    /// Makes a tunnel of an exchange whose head was a 101. Also returns the empty body of the answer.
    pub(crate) fn new(mut exchange: Box<Exchange>, mut pick: Pick) -> (Upgraded, AnswerBody) {
        pick.is_tunnel();
        let mut body = AnswerBody::ended();
        body.hear(&mut exchange);
        let first = exchange.buffer.split().freeze();
        let connection = Box::new(exchange.connection);
        (Upgraded { first, connection, _pick: pick }, body)
    }

    /// How many bytes that came with the head, and are counted with it, have not been read here yet.
    pub fn early_bytes(&self) -> u64 {
        self.first.len() as u64
    }
}

impl AsyncRead for Upgraded {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.first.is_empty() {
            return Pin::new(&mut *self.connection).poll_read(cx, buffer);
        }
        let count = self.first.len().min(buffer.remaining());
        buffer.put_slice(&self.first[..count]);
        self.first.advance(count);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Upgraded {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.connection).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.connection).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.connection).poll_shutdown(cx)
    }
}

impl fmt::Debug for Upgraded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upgraded").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    /// A file of these bytes that has no name.
    fn file(bytes: &[u8]) -> Arc<File> {
        let path = std::env::temp_dir().join(format!("larder-answer-{}-{}", std::process::id(), bytes.len()));
        let mut file = File::options().read(true).write(true).create(true).truncate(true).open(&path).expect("made");
        std::fs::remove_file(path).expect("it is there");
        file.write_all(bytes).expect("there is room");
        Arc::new(file)
    }

    async fn read(mut body: AnswerBody) -> (Vec<u8>, Option<String>) {
        let mut whole = Vec::new();
        loop {
            match body.next().await {
                Ok(Some(piece)) => whole.extend_from_slice(&piece),
                Ok(None) => return (whole, None),
                Err(error) => return (whole, Some(error.to_string())),
            }
        }
    }

    #[tokio::test]
    async fn a_file_is_read_to_its_length_or_fails() {
        let bytes: Vec<u8> = (0..200_000_u32).map(|at| at as u8).collect();
        for (there, announced, is_whole) in
            [(0, 0, true), (1, 1, true), (200_000, 200_000, true), (100_000, 150_000, false)]
        {
            let answer = Answer::of_file(ResponseHead::default(), file(&bytes[..there]), announced);
            assert_eq!(answer.body.content_length(), Some(announced));
            let (read, error) = read(answer.body).await;
            assert!(read == bytes[..there], "{there} of {announced}");
            assert_eq!(error.is_none(), is_whole, "{there} of {announced}: {error:?}");
        }
    }

    #[tokio::test]
    async fn a_file_is_given_away_until_it_is_read() {
        let mut body = Answer::of_file(ResponseHead::default(), file(b"abc"), 3).body;
        assert_eq!(body.take_file().map(|(_, len)| len), Some(3));
        assert_eq!(read(body).await, (Vec::new(), None));
        let mut body = Answer::of_file(ResponseHead::default(), file(&[b'a'; 100_000]), 100_000).body;
        assert!(body.next().await.is_ok_and(|piece| piece.is_some()));
        assert!(body.take_file().is_none());
        assert_eq!(read(body).await.0.len(), 100_000 - FILE_PIECE_BYTES);
    }
}
