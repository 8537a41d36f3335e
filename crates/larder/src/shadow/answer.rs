//! Asks a server for a page: one request, one connection, its whole answer.

use std::io::{self, IoSlice, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use larder_http::Method;
use larder_http::h1::chunked::ChunkedDecoder;
use larder_http::h1::request::HeadStatus;
use larder_http::h1::response::{ResponseFraming, ResponseHead, parse_response, response_framing};
use larder_server::clock;
use larder_tls::{ClientConfig, ClientOptions, ClientSession, Clock, State};

use super::wanted::Wanted;

/// A server, and how it is spoken to.
#[derive(Clone, Debug)]
pub struct Server {
    /// Where it listens.
    pub address: SocketAddr,
    /// The host of requests that name none.
    pub host: Vec<u8>,
    /// Fields that are added to each request.
    pub added: Arc<[(String, Vec<u8>)]>,
    /// With TLS; its certificate is not looked at.
    pub tls: Option<Arc<ClientConfig>>,
}

/// What it answered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// Fields, with names in lower case, in order.
    pub fields: Vec<(String, String)>,
    /// The body, or the first [`BODY_BYTES_MAX`] of it.
    pub body: Vec<u8>,
    /// How long it took.
    pub took: Duration,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// The connection.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// TLS.
    #[error("TLS: {0}")]
    Tls(String),
    /// What came is no HTTP.
    #[error("{0}")]
    Malformed(String),
    /// It closed before its answer was whole.
    #[error("it closed the connection before its answer was whole")]
    Cut,
    /// It takes too long.
    #[error("its answer was not whole within {} s", ASK_MAX.as_secs())]
    Late,
}

/// TLS as a client that lets any certificate pass: the name of a site leads to this machine here.
pub fn tls() -> Result<Arc<ClientConfig>, AskError> {
    let mut options = ClientOptions::new(Clock::new(|| clock::now().secs()));
    options.send_server_name = true;
    ClientConfig::new(options).map(|(config, _)| config).map_err(|error| AskError::Tls(error.to_string()))
}

impl Server {
    /// Asks for a page.
    pub fn ask(&self, wanted: &Wanted) -> Result<Answer, AskError> {
        let began = Instant::now();
        let host = wanted.host.as_deref().unwrap_or(&self.host);
        let mut wire = Wire::connect(self, host, began)?;
        wire.send(&wanted.bytes(host, &self.added))?;
        let mut reader = Reader::new(if wanted.is_head { Method::Head } else { Method::Get });
        loop {
            let is_end = wire.receive()?;
            let done = reader.take(&mut wire.plain)? || (is_end && reader.end()?);
            if done {
                return Ok(Answer { took: began.elapsed(), ..reader.answer });
            }
        }
    }
}

/// A connection, with or without TLS.
struct Wire {
    socket: TcpStream,
    tls: Option<ClientSession>,
    began: Instant,
    /// Records that have not been read.
    sealed: Vec<u8>,
    /// What was received and not taken.
    plain: Vec<u8>,
}

impl Wire {
    fn connect(server: &Server, host: &[u8], began: Instant) -> Result<Wire, AskError> {
        let socket = TcpStream::connect_timeout(&server.address, CONNECT_MAX)?;
        socket.set_nodelay(true)?;
        socket.set_write_timeout(Some(ASK_MAX))?;
        let name = String::from_utf8_lossy(host);
        let tls = server.tls.as_ref().map(|config| ClientSession::connect(config, &name));
        Ok(Wire { socket, tls, began, sealed: Vec::new(), plain: Vec::new() })
    }

    /// Sends a request; with TLS, it leaves when the handshake is over.
    fn send(&mut self, bytes: &[u8]) -> Result<(), AskError> {
        let Some(session) = &mut self.tls else { return Ok(self.socket.write_all(bytes)?) };
        let mut out = Vec::new();
        let failed = |error: larder_tls::SessionError| AskError::Tls(error.to_string());
        session.write(&[IoSlice::new(bytes)], &mut out).map_err(failed)?;
        session.read(&mut [], &mut self.plain, &mut out).map_err(failed)?;
        Ok(self.socket.write_all(&out)?)
    }

    /// Waits for bytes; whether they have ended.
    fn receive(&mut self) -> Result<bool, AskError> {
        let left = ASK_MAX.checked_sub(self.began.elapsed()).filter(|left| !left.is_zero()).ok_or(AskError::Late)?;
        self.socket.set_read_timeout(Some(left))?;
        let mut bytes = [0; READ_BYTES];
        let count = match self.socket.read(&mut bytes) {
            Ok(count) => count,
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                return Err(AskError::Late);
            }
            Err(error) => return Err(error.into()),
        };
        let came = bytes.get(..count).unwrap_or_default();
        let Some(session) = &mut self.tls else {
            self.plain.extend_from_slice(came);
            return Ok(count == 0);
        };
        self.sealed.extend_from_slice(came);
        let mut out = Vec::new();
        loop {
            let read = session.read(&mut self.sealed, &mut self.plain, &mut out);
            let read = read.map_err(|error| AskError::Tls(error.to_string()))?;
            self.sealed.drain(..read.consumed.min(self.sealed.len()));
            if !out.is_empty() {
                self.socket.write_all(&out)?;
                out.clear();
            }
            if read.state == State::Closed {
                return Ok(true);
            }
            if read.consumed == 0 || self.sealed.is_empty() {
                return Ok(count == 0);
            }
        }
    }
}

/// Collects an answer.
struct Reader {
    method: Method,
    answer: Answer,
    body: Option<Body>,
}

enum Body {
    Length(u64),
    Chunked(ChunkedDecoder),
    UntilClose,
}

impl Reader {
    fn new(method: Method) -> Reader {
        Reader { method, answer: Answer::default(), body: None }
    }

    /// Takes what came; whether the answer is whole.
    fn take(&mut self, bytes: &mut Vec<u8>) -> Result<bool, AskError> {
        while self.body.is_none() {
            match self.head(bytes)? {
                Some(true) => return Ok(true),
                Some(false) => {}
                None => return Ok(false),
            }
        }
        let mut at = 0;
        let done = loop {
            let rest = bytes.get(at..).unwrap_or_default();
            match &mut self.body {
                None => break false,
                Some(Body::UntilClose) => {
                    keep(&mut self.answer.body, rest);
                    at = bytes.len();
                    break false;
                }
                Some(Body::Length(left)) => {
                    let here = usize::try_from(*left).unwrap_or(usize::MAX).min(rest.len());
                    keep(&mut self.answer.body, rest.get(..here).unwrap_or_default());
                    *left -= here as u64;
                    at += here;
                    break *left == 0;
                }
                Some(Body::Chunked(decoder)) => {
                    let decoded = decoder.decode(rest).map_err(|error| AskError::Malformed(error.to_string()))?;
                    keep(&mut self.answer.body, rest.get(decoded.data).unwrap_or_default());
                    at += decoded.consumed;
                    if decoded.done || at >= bytes.len() {
                        break decoded.done;
                    }
                }
            }
        };
        bytes.drain(..at.min(bytes.len()));
        // A page that is cut here is compared as far as it goes.
        Ok(done || self.answer.body.len() >= BODY_BYTES_MAX)
    }

    /// Cuts a head off the bytes: `Some` whether the answer is whole with it, `None` if more has to come.
    fn head(&mut self, bytes: &mut Vec<u8>) -> Result<Option<bool>, AskError> {
        let mut head = ResponseHead::new();
        let malformed = |error: larder_http::h1::response::ResponseError| AskError::Malformed(error.to_string());
        let HeadStatus::Complete { consumed } = parse_response(bytes, &mut head, FIELDS_MAX).map_err(malformed)? else {
            let is_long = bytes.len() > HEAD_BYTES_MAX;
            return if is_long { Err(AskError::Malformed("its head is too long".to_owned())) } else { Ok(None) };
        };
        let framing = response_framing(&head, self.method).map_err(malformed)?;
        bytes.drain(..consumed.min(bytes.len()));
        if (100..200).contains(&head.status) {
            return Ok(Some(false));
        }
        self.answer.status = head.status;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        self.answer.fields =
            head.fields.iter().map(|(name, value)| (text(name).to_ascii_lowercase(), text(value))).collect();
        self.body = Some(match framing {
            ResponseFraming::None | ResponseFraming::Length(0) => return Ok(Some(true)),
            ResponseFraming::Length(length) => Body::Length(length),
            ResponseFraming::Chunked => Body::Chunked(ChunkedDecoder::lenient()),
            ResponseFraming::UntilClose => Body::UntilClose,
        });
        Ok(Some(false))
    }

    /// The server closed; whether that makes the answer whole.
    fn end(&self) -> Result<bool, AskError> {
        match &self.body {
            Some(Body::UntilClose) => Ok(true),
            Some(Body::Length(_) | Body::Chunked(_)) | None => Err(AskError::Cut),
        }
    }
}

fn keep(body: &mut Vec<u8>, bytes: &[u8]) {
    let room = BODY_BYTES_MAX.saturating_sub(body.len());
    body.extend_from_slice(bytes.get(..room.min(bytes.len())).unwrap_or_default());
}

impl Answer {
    /// Whether it has a field.
    pub fn has(&self, name: &str) -> bool {
        self.fields.iter().any(|(it, _)| it == name)
    }

    /// Where a redirect leads.
    pub fn location(&self) -> Option<String> {
        if is_redirect(self.status) { self.field("location") } else { None }
    }

    /// Takes a text out of the body and the fields.
    pub fn forget(&mut self, text: &str) {
        let wanted = text.as_bytes();
        if memmem(&self.body, wanted).is_some() {
            let mut kept = Vec::with_capacity(self.body.len());
            let mut rest = self.body.as_slice();
            while let Some(at) = memmem(rest, wanted) {
                kept.extend_from_slice(&rest[..at]);
                rest = &rest[at + wanted.len()..];
            }
            kept.extend_from_slice(rest);
            self.body = kept;
        }
        for (_, value) in &mut self.fields {
            *value = value.replace(text, "");
        }
    }

    /// The values of a field, joined.
    pub fn field(&self, name: &str) -> Option<String> {
        let values: Vec<&str> =
            self.fields.iter().filter(|(it, _)| it == name).map(|(_, value)| value.as_str()).collect();
        (!values.is_empty()).then(|| values.join(", "))
    }
}

/// Whether a status leads elsewhere.
pub fn is_redirect(status: u16) -> bool {
    matches!(status, 301 | 302 | 303 | 307 | 308)
}

/// Where a text begins.
fn memmem(text: &[u8], wanted: &[u8]) -> Option<usize> {
    text.windows(wanted.len().max(1)).position(|part| part == wanted)
}

const CONNECT_MAX: Duration = Duration::from_secs(5);
const ASK_MAX: Duration = Duration::from_secs(60);
const READ_BYTES: usize = 16 << 10;
const FIELDS_MAX: usize = 1000;
const HEAD_BYTES_MAX: usize = 1 << 20;
/// How much of a page is compared.
pub const BODY_BYTES_MAX: usize = 8 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    /// What is read when the bytes come in pieces of every size.
    fn read(method: Method, bytes: &[u8]) -> Result<Answer, String> {
        let mut last = None;
        for size in 1..=bytes.len() {
            let mut reader = Reader::new(method);
            let mut pending = Vec::new();
            let mut outcome = Ok(false);
            for piece in bytes.chunks(size) {
                pending.extend_from_slice(piece);
                outcome = reader.take(&mut pending);
                if !matches!(outcome, Ok(false)) {
                    break;
                }
            }
            let outcome = outcome.and_then(|done| if done { Ok(true) } else { reader.end() });
            let now = outcome.map(|_| reader.answer).map_err(|error| error.to_string());
            // What an error shows of the bytes depends on how many there are.
            let is_same = |last: Result<Answer, String>| last.as_ref().ok() == now.as_ref().ok();
            assert!(last.is_none_or(is_same), "in pieces of {size}");
            last = Some(now);
        }
        last.unwrap()
    }

    #[test]
    fn answers_are_read_to_their_end() {
        for (bytes, body) in [
            ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab", "ab"),
            (
                "HTTP/1.1 103 Early\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n2\r\nbc\r\n0\r\n\r\n",
                "abc",
            ),
            ("HTTP/1.0 200 OK\r\n\r\nall of it", "all of it"),
            ("HTTP/1.1 204 No Content\r\n\r\n", ""),
        ] {
            assert_eq!(String::from_utf8(read(Method::Get, bytes.as_bytes()).unwrap().body).unwrap(), body, "{bytes}");
        }
        let head = read(Method::Head, b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\nX-A: b\r\n\r\n").unwrap();
        assert_eq!((head.body.len(), head.field("x-a").as_deref()), (0, Some("b")));
        for (bytes, error) in [
            ("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab", "before its answer was whole"),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na", "before its answer was whole"),
            ("SSH-2.0\r\n\r\n", "no valid HTTP"),
        ] {
            let said = read(Method::Get, bytes.as_bytes()).unwrap_err();
            assert!(said.contains(error), "{bytes}: {said}");
        }
    }
}
