//! Passes the body of a request to the origin as it arrives: `*_request_buffering off`.
//!
//! ```text
//! client -> Inbound -> Feed -> channel -> upload of the fetch -> origin
//! ```
//! The client is read only when the origin has room, so that the client's window or socket tells it how fast to send.
//! The bytes that had arrived when the request began are sent with its head, and are kept: until more was read, another
//! origin can be tried.

use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use larder_conf::model::LogLevel;
use larder_http::{ChunkedDecoder, status};
use larder_origin::BodyPiece;
use tokio::sync::mpsc;

use crate::net::{BodySource, Inbound, ReadError};
use crate::turns::{Transfer, Turns};

/// How many pieces fit between the client and the origin: one, and the end.
const PIECES: usize = 2;

/// A body that is passed on as it arrives.
pub struct Feed {
    /// Its length, if the client declared it.
    announced: Option<u64>,
    rest: Rest,
    /// The bytes that had arrived when the request began.
    first: Bytes,
    /// Bytes that were read and not decoded yet: a part of a chunk's head, or the next request.
    ahead: Vec<u8>,
    received: u64,
    framing_bytes: u64,
    limit: Option<u64>,
    timeout: Duration,
    to: To,
    is_broken: bool,
    transfer: Transfer,
}

/// What is still to arrive from the client.
pub enum Rest {
    /// This many bytes.
    Length(u64),
    /// Chunks.
    Chunked(Box<ChunkedDecoder>),
    /// The DATA frames of an HTTP/2 stream, until it ends.
    Stream,
    /// Nothing.
    Nothing,
}

/// Who receives the body.
enum To {
    /// No origin was tried yet.
    Nobody,
    Origin(mpsc::Sender<std::io::Result<BodyPiece>>),
    /// A part went to an origin, so that no other can have the whole body.
    Spent,
}

impl Feed {
    /// A body of which nothing has been read. `announced` is its declared length; a body without one is chunked, or is
    /// a stream of HTTP/2.
    pub fn new(
        announced: Option<u64>,
        from: &Inbound<'_>,
        limit: Option<u64>,
        timeout: Duration,
        turns: &Rc<Turns>,
    ) -> Self {
        let rest = match (announced, from) {
            (_, Inbound::Stream(_)) => Rest::Stream,
            (Some(0), Inbound::Connection(_)) => Rest::Nothing,
            (Some(bytes), Inbound::Connection(_)) => Rest::Length(bytes),
            (None, Inbound::Connection(_)) => Rest::Chunked(Box::default()),
            (_, Inbound::Watched(_) | Inbound::Inside(_) | Inbound::Nobody) => Rest::Nothing,
        };
        Self {
            announced,
            rest,
            first: Bytes::new(),
            ahead: Vec::new(),
            received: 0,
            framing_bytes: 0,
            limit,
            timeout,
            to: To::Nobody,
            is_broken: false,
            transfer: Transfer::new(turns),
        }
    }

    /// Takes the bytes that have already arrived, up to about `bytes_max`. Returns the body if that is all of it.
    pub fn begin(&mut self, from: &mut Inbound<'_>, bytes_max: usize) -> Result<Option<Bytes>, Refused> {
        let mut first = Vec::new();
        if !self.is_whole()
            && let Inbound::Connection(io) = from
        {
            let mut pending = io.take_pending();
            if let Rest::Length(left) = self.rest {
                let fits = usize::try_from(left).unwrap_or(usize::MAX).min(pending.len());
                io.unread(&pending.split_off(fits));
            }
            first = self.understand(pending)?;
        }
        while !self.is_whole() && first.len() < bytes_max {
            let Some(raw) = from.try_read(self.wanted()) else { break };
            match raw? {
                Some(raw) => first.append(&mut self.understand(raw.into())?),
                None => self.ended()?,
            }
        }
        self.give_back(from);
        self.first = Bytes::from(first);
        Ok(self.is_whole().then(|| self.first.clone()))
    }

    /// The body's length, if it is declared or the whole body has arrived.
    pub fn announced(&self) -> Option<u64> {
        if self.is_whole() { Some(self.received) } else { self.announced }
    }

    /// Whether the client's bytes can no longer be decoded, so that what follows them is no request.
    pub fn is_broken(&self) -> bool {
        self.is_broken
    }

    /// How many bytes of it have arrived.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// How many bytes the heads and ends of the chunks took.
    pub fn framing_bytes(&self) -> u64 {
        self.framing_bytes
    }

    /// Whether an origin can still get the whole body.
    pub fn is_fresh(&self) -> bool {
        self.received == self.first.len() as u64 && !matches!(self.to, To::Spent)
    }

    /// Whether all declared bytes have arrived, and only the end of their stream has not.
    pub fn lacks_only_its_end(&self) -> bool {
        matches!(self.rest, Rest::Stream) && self.announced == Some(self.received)
    }

    /// The body for a fetch; empty if a part went to another origin. With `announces`, the origin is told the length if
    /// we know it; otherwise the protocol tells it the end when we learn of it.
    pub fn open(&mut self, announces: bool) -> larder_origin::RequestBody {
        match (self.is_fresh(), self.is_whole()) {
            (false, _) => return larder_origin::RequestBody::None,
            (true, true) => return larder_origin::RequestBody::Memory(self.first.clone()),
            (true, false) => {}
        }
        let (tx, rx) = mpsc::channel(PIECES);
        self.to = To::Origin(tx);
        larder_origin::RequestBody::Stream { first: self.first.clone(), rx, len: self.announced.filter(|_| announces) }
    }

    /// Passes on the body to its end, or until the origin wants no more. May be dropped and called again.
    pub async fn run(&mut self, from: BodySource<'_>) -> Result<(), Refused> {
        while !self.is_whole() {
            self.transfer.give_way_beside_others().await;
            let To::Origin(tx) = &self.to else { return Ok(()) };
            let tx = tx.clone();
            let Ok(mut room) = tx.reserve_many(PIECES).await else {
                // A stream may still turn out to be longer than declared.
                if self.lacks_only_its_end() {
                    from.read(self.wanted(), self.timeout).await?;
                    return self.ended();
                }
                return Ok(());
            };
            let piece = match from.read(self.wanted(), self.timeout).await? {
                Some(raw) => {
                    self.transfer.count(raw.len());
                    self.understand(raw.into())?
                }
                None => {
                    self.ended()?;
                    Vec::new()
                }
            };
            // If the stream has ended too, its end goes with the last piece.
            if matches!(self.rest, Rest::Stream) && from.has_ended() {
                self.ended()?;
            }
            let end = self.is_whole().then_some(BodyPiece::End);
            let piece = (!piece.is_empty()).then(|| BodyPiece::Bytes(piece.into()));
            for (permit, piece) in (&mut room).zip(piece.into_iter().chain(end)) {
                permit.send(Ok(piece));
            }
        }
        Ok(())
    }

    /// What is still to arrive, and the bytes that were read beyond this body.
    pub fn into_rest(self) -> (Rest, Vec<u8>) {
        (self.rest, self.ahead)
    }

    fn is_whole(&self) -> bool {
        matches!(self.rest, Rest::Nothing)
    }

    /// How much may be read without taking bytes of the next request, as far as that is known.
    fn wanted(&self) -> usize {
        match self.rest {
            Rest::Length(left) => usize::try_from(left).unwrap_or(usize::MAX),
            Rest::Chunked(_) | Rest::Stream => usize::MAX,
            Rest::Nothing => 0,
        }
    }

    /// Returns the bytes that were read beyond the body: they belong to the next request.
    fn give_back(&mut self, from: &mut Inbound<'_>) {
        if self.is_whole()
            && let Inbound::Connection(io) = from
        {
            io.unread(&std::mem::take(&mut self.ahead));
        }
    }

    /// Decodes the bytes that were read, and returns the body's data in them.
    fn understand(&mut self, raw: Vec<u8>) -> Result<Vec<u8>, Refused> {
        let data = match &mut self.rest {
            Rest::Length(left) => {
                *left = left.saturating_sub(raw.len() as u64);
                if *left == 0 {
                    self.rest = Rest::Nothing;
                }
                raw
            }
            Rest::Chunked(decoder) => {
                self.ahead.extend_from_slice(&raw);
                let raw = std::mem::take(&mut self.ahead);
                let (data, used, done) = decode(decoder, &raw)?;
                self.ahead = raw[used..].to_vec();
                self.framing_bytes += (used - data.len()) as u64;
                if done {
                    self.rest = Rest::Nothing;
                }
                data
            }
            Rest::Stream | Rest::Nothing => raw,
        };
        self.received += data.len() as u64;
        if self.announced.is_none() && self.limit.is_some_and(|limit| self.received > limit) {
            return Err(Refused::too_large("chunked body", self.received));
        }
        Ok(data)
    }

    /// Handles the end of the stream.
    fn ended(&mut self) -> Result<(), Refused> {
        match self.rest {
            Rest::Stream | Rest::Nothing => {
                self.rest = Rest::Nothing;
                Ok(())
            }
            Rest::Length(_) | Rest::Chunked(_) => Err(ReadError::Closed.into()),
        }
    }
}

/// Why a body is refused.
pub enum Refused {
    /// The client is answered with this status; the error log gets the message at this level.
    Status(u16, LogLevel, String),
    /// The client has left.
    Gone,
    /// The client has left, and no other request waits for the answer of the origin.
    Unwanted,
}

impl Refused {
    /// The body grew larger than `client_max_body_size` without declaring its length.
    pub fn too_large(what: &str, bytes: u64) -> Self {
        let why = format!("client intended to send too large {what}: {bytes} bytes");
        Self::Status(status::CONTENT_TOO_LARGE, LogLevel::Error, why)
    }

    /// The chunks are malformed.
    pub fn bad_chunks() -> Self {
        Self::Status(status::BAD_REQUEST, LogLevel::Error, "client sent invalid chunked body".to_owned())
    }

    /// The body cannot be stored.
    pub fn failed(what: &str, error: &std::io::Error) -> Self {
        Self::Status(status::INTERNAL_SERVER_ERROR, LogLevel::Error, format!("{what} ({error})"))
    }
}

impl From<ReadError> for Refused {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::TimedOut => Self::Status(status::REQUEST_TIMEOUT, LogLevel::Info, "client timed out".to_owned()),
            ReadError::WrongLength => Self::Status(status::BAD_REQUEST, LogLevel::Info, error.to_string()),
            ReadError::Closed | ReadError::Io(_) => Self::Gone,
        }
    }
}

/// Whether these bytes can be the beginning of a chunked body.
pub fn begins_in_chunks(raw: &[u8]) -> bool {
    decode(&mut ChunkedDecoder::new(), raw).is_ok()
}

/// The data of all chunks in `raw`, how many bytes were decoded, and whether the last chunk was among them.
fn decode(decoder: &mut ChunkedDecoder, raw: &[u8]) -> Result<(Vec<u8>, usize, bool), Refused> {
    let (mut data, mut at) = (Vec::new(), 0);
    while at < raw.len() {
        let decoded = decoder.decode(&raw[at..]).map_err(|_| Refused::bad_chunks())?;
        data.extend_from_slice(&raw[at..][decoded.data.clone()]);
        at += decoded.consumed;
        if decoded.done {
            return Ok((data, at, true));
        }
        if decoded.consumed == 0 {
            break;
        }
    }
    Ok((data, at, false))
}

/// Runs `sending` to its end, and `feed` beside it while there is something to pass on. If the client sends a bad body,
/// the origin's upload fails, and with it the answer.
pub async fn beside<T>(feed: &mut Feed, from: BodySource<'_>, sending: impl Future<Output = T>) -> T {
    tokio::pin!(sending);
    let fed = tokio::select! {
        biased;
        sent = &mut sending => return sent,
        fed = feed.run(from) => fed,
    };
    if fed.is_err() {
        feed.is_broken = true;
        // Without the body's end the upload fails, and so does the answer, unless that is complete already.
        feed.to = To::Spent;
    }
    sending.await
}
