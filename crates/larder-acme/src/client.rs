//! HTTP/1.1 over TLS to the CA: one connection, kept for as long as it answers.

mod reply;
mod trust;

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, HOST, RETRY_AFTER, USER_AGENT};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Full};
use instant_acme::{BodyWrapper, BytesResponse, HttpClient};
use parking_lot::Mutex;
use reply::{Malformed, Reader};
use rustls::pki_types::ServerName;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

pub(crate) use trust::TrustError;

/// Speaks to one CA for one attempt; clones share the connection.
#[derive(Clone)]
pub(crate) struct Client(Arc<Shared>);

struct Shared {
    tls: TlsConnector,
    /// The connection of the last exchange, if the CA keeps it open.
    kept: Mutex<Option<Connection>>,
    last: Mutex<Option<Answer>>,
}

/// What a CA's problem document does not say, of the last response.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    /// `Retry-After`, as it stands.
    pub(crate) retry_after: Option<String>,
}

impl Answer {
    /// How long the CA wants to be left alone.
    pub(crate) fn wait(&self, now: SystemTime) -> Option<Duration> {
        let text = self.retry_after.as_deref()?.trim();
        match text.parse() {
            Ok(seconds) => Some(Duration::from_secs(seconds)),
            Err(_) => httpdate::parse_http_date(text).ok()?.duration_since(now).ok(),
        }
    }
}

/// Why an exchange brought no response.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HttpError {
    #[error("`{uri}` is no https:// URL")]
    NotHttps { uri: Uri },
    #[error("cannot look up {host}: {source}")]
    LookUp { host: String, source: io::Error },
    #[error("{host} has no address")]
    NoAddress { host: String },
    #[error("cannot connect to {host} at {address}: {source}")]
    Connect { host: String, address: SocketAddr, source: io::Error },
    #[error("cannot speak TLS with {host}: {source}")]
    Tls { host: String, source: io::Error },
    #[error("the connection to {host} broke: {source}")]
    Broken { host: String, source: io::Error },
    #[error("{host} closed the connection before its response was complete")]
    Cut { host: String },
    #[error("{host} sent what is no HTTP response: {source}")]
    Malformed { host: String, source: Malformed },
    #[error("{host} did not answer within {limit:?}")]
    Late { host: String, limit: Duration },
}

impl Client {
    /// `trusted` is PEM; without it the certificates of the system are read, anew each time, since they are updated.
    pub(crate) fn new(trusted: Option<&[u8]>) -> Result<Self, TrustError> {
        let tls = TlsConnector::from(Arc::new(trust::config(trusted)?));
        Ok(Self(Arc::new(Shared { tls, kept: Mutex::default(), last: Mutex::default() })))
    }

    /// What the CA said last.
    pub(crate) fn last_answer(&self) -> Option<Answer> {
        self.0.last.lock().clone()
    }
}

impl HttpClient for Client {
    fn request(
        &self,
        request: Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, instant_acme::Error>> + Send>> {
        let shared = self.0.clone();
        Box::pin(async move {
            *shared.last.lock() = None;
            let (parts, body) = request.into_parts();
            let body = match body.collect().await {
                Ok(body) => body.to_bytes(),
                Err(never) => match never {},
            };
            let response = shared.exchange(parts, body).await;
            let mut response = response.map_err(|error| instant_acme::Error::Other(Box::new(error)))?;
            bound_retry_after(response.headers_mut());
            let retry_after = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok());
            let answer = Answer { status: response.status(), retry_after: retry_after.map(String::from) };
            *shared.last.lock() = Some(answer);
            Ok(BytesResponse::from(response.map(Full::new)))
        })
    }
}

impl Shared {
    async fn exchange(&self, parts: http::request::Parts, body: Bytes) -> Result<Response<Bytes>, HttpError> {
        let peer = Peer::of(&parts.uri)?;
        let head_only = parts.method == Method::HEAD;
        let request = serialised(&parts, &peer, &body);
        let kept = self.kept.lock().take().filter(|kept| kept.peer == peer);
        let exchange = async {
            if let Some(mut kept) = kept {
                // A kept connection may have been closed by the CA meanwhile; a response that began is never asked for
                // twice.
                match kept.exchange(&request, head_only).await {
                    Err(Unanswered::Untouched(_)) => {}
                    Err(Unanswered::Begun(error)) => return Err(error),
                    Ok((response, reuse)) => return Ok((response, reuse.then_some(kept))),
                }
            }
            let mut connection = Connection::open(&self.tls, peer.clone()).await?;
            match connection.exchange(&request, head_only).await {
                Err(Unanswered::Untouched(error) | Unanswered::Begun(error)) => Err(error),
                Ok((response, reuse)) => Ok((response, reuse.then_some(connection))),
            }
        };
        let late = || HttpError::Late { host: peer.host.clone(), limit: EXCHANGE_MAX };
        let (response, kept) = timeout(EXCHANGE_MAX, exchange).await.map_err(|_| late())??;
        *self.kept.lock() = kept;
        Ok(response)
    }
}

/// Whom a connection is with.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Peer {
    /// Without the brackets of an IPv6 address.
    host: String,
    port: u16,
    /// For the field `Host`.
    authority: String,
}

impl Peer {
    fn of(uri: &Uri) -> Result<Self, HttpError> {
        let not_https = || HttpError::NotHttps { uri: uri.clone() };
        if uri.scheme_str() != Some("https") {
            return Err(not_https());
        }
        let authority = uri.authority().ok_or_else(not_https)?;
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_string();
        let after_user = authority.as_str().rsplit('@').next().unwrap_or_default().to_string();
        Ok(Self { host, port: authority.port_u16().unwrap_or(443), authority: after_user })
    }
}

struct Connection {
    peer: Peer,
    stream: TlsStream<TcpStream>,
}

/// An exchange that failed.
enum Unanswered {
    /// Not one byte came back.
    Untouched(HttpError),
    /// The response began.
    Begun(HttpError),
}

impl Connection {
    async fn open(tls: &TlsConnector, peer: Peer) -> Result<Self, HttpError> {
        let host = &peer.host;
        let looked_up = tokio::net::lookup_host((host.as_str(), peer.port)).await;
        let addresses = looked_up.map_err(|source| HttpError::LookUp { host: host.clone(), source })?;
        let mut outcome = Err(HttpError::NoAddress { host: host.clone() });
        for address in addresses.take(ADDRESSES_MAX) {
            let connected = match timeout(CONNECT_MAX, TcpStream::connect(address)).await {
                Ok(connected) => connected,
                Err(_) => Err(io::ErrorKind::TimedOut.into()),
            };
            outcome = connected.map_err(|source| HttpError::Connect { host: host.clone(), address, source });
            if outcome.is_ok() {
                break;
            }
        }
        let tcp = outcome?;
        let failed = |source| HttpError::Tls { host: host.clone(), source };
        tcp.set_nodelay(true).map_err(failed)?;
        let name = ServerName::try_from(host.clone());
        let name = name.map_err(|error| failed(io::Error::new(io::ErrorKind::InvalidInput, error)))?;
        let stream = match timeout(CONNECT_MAX, tls.connect(name, tcp)).await {
            Ok(connected) => connected.map_err(failed)?,
            Err(_) => return Err(failed(io::ErrorKind::TimedOut.into())),
        };
        Ok(Self { peer, stream })
    }

    /// The response, and whether the connection may be used again.
    async fn exchange(&mut self, request: &[u8], head_only: bool) -> Result<(Response<Bytes>, bool), Unanswered> {
        let host = || self.peer.host.clone();
        let broken = |source| HttpError::Broken { host: host(), source };
        let sent = async {
            self.stream.write_all(request).await?;
            self.stream.flush().await
        };
        sent.await.map_err(|source| Unanswered::Untouched(broken(source)))?;

        let mut reader = Reader::new(head_only);
        let mut buffer = vec![0; READ_BYTES];
        let mut begun = false;
        loop {
            let read = match self.stream.read(&mut buffer).await {
                Ok(read) => read,
                // A server that closes without TLS's goodbye has closed all the same; the reader knows what is missing.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => 0,
                Err(source) if begun => return Err(Unanswered::Begun(broken(source))),
                Err(source) => return Err(Unanswered::Untouched(broken(source))),
            };
            let malformed = |source| Unanswered::Begun(HttpError::Malformed { host: host(), source });
            if read == 0 {
                let ended = reader.end().map_err(malformed)?;
                let cut = HttpError::Cut { host: host() };
                return ended.map(|response| (response, false)).ok_or(match begun {
                    true => Unanswered::Begun(cut),
                    false => Unanswered::Untouched(cut),
                });
            }
            begun = true;
            let bytes = buffer.get(..read).unwrap_or_default();
            if let Some(complete) = reader.take(bytes).map_err(malformed)? {
                return Ok(complete);
            }
        }
    }
}

/// The library adds the seconds to the time of day, which ends in a panic when that is past what a system counts.
fn bound_retry_after(fields: &mut HeaderMap) {
    let is_number = |value: &HeaderValue| value.as_bytes().trim_ascii().iter().all(u8::is_ascii_digit);
    let Some(value) = fields.get_mut(RETRY_AFTER).filter(|value| is_number(value)) else {
        return;
    };
    let seconds = value.to_str().ok().and_then(|text| text.trim().parse().ok()).unwrap_or(u64::MAX);
    *value = HeaderValue::from(seconds.min(RETRY_AFTER_SECONDS_MAX));
}

fn serialised(parts: &http::request::Parts, peer: &Peer, body: &Bytes) -> Vec<u8> {
    let target = parts.uri.path_and_query().map_or("/", |target| target.as_str());
    let mut bytes = format!("{} {target} HTTP/1.1\r\n", parts.method).into_bytes();
    let mut field = |name: &str, value: &[u8]| {
        bytes.extend_from_slice(name.as_bytes());
        bytes.extend_from_slice(b": ");
        bytes.extend_from_slice(value);
        bytes.extend_from_slice(b"\r\n");
    };
    field(HOST.as_str(), peer.authority.as_bytes());
    let library = parts.headers.get(USER_AGENT).map_or(&b""[..], HeaderValue::as_bytes);
    field(USER_AGENT.as_str(), &[concat!("larder/", env!("CARGO_PKG_VERSION"), " ").as_bytes(), library].concat());
    for (name, value) in parts.headers.iter().filter(|(name, _)| **name != USER_AGENT) {
        field(name.as_str(), value.as_bytes());
    }
    if parts.method == Method::POST {
        field(CONTENT_LENGTH.as_str(), body.len().to_string().as_bytes());
    }
    bytes.extend_from_slice(b"\r\n");
    bytes.extend_from_slice(body);
    bytes
}

/// A CA that is far away and busy takes seconds.
const EXCHANGE_MAX: Duration = Duration::from_secs(60);
const CONNECT_MAX: Duration = Duration::from_secs(10);
/// A year.
const RETRY_AFTER_SECONDS_MAX: u64 = 366 * 24 * 3600;
const ADDRESSES_MAX: usize = 4;
const READ_BYTES: usize = 16 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_plain_http_1_1() {
        let request = Request::builder().method("POST").uri("https://ca.example:14000/a?b").header("user-agent", "x/1");
        let (parts, ()) = request.body(()).expect("it is in order").into_parts();
        let peer = Peer::of(&parts.uri).expect("it is https");
        let bytes = serialised(&parts, &peer, &Bytes::from_static(b"{}"));
        let version = env!("CARGO_PKG_VERSION");
        let expected = format!(
            "POST /a?b HTTP/1.1\r\nhost: ca.example:14000\r\nuser-agent: larder/{version} x/1\r\ncontent-length: \
             2\r\n\r\n{{}}"
        );
        assert_eq!(String::from_utf8(bytes).expect("it is ASCII"), expected);
    }

    #[test]
    fn only_https_is_spoken() {
        for (uri, host, port) in [
            ("https://ca.example/dir", Some("ca.example"), 443),
            ("https://user@[::1]:14000/dir", Some("::1"), 14000),
            ("http://ca.example/dir", None, 0),
            ("/dir", None, 0),
        ] {
            let peer = Peer::of(&uri.parse().expect("it is a URI")).ok();
            assert_eq!(peer.map(|peer| (peer.host, peer.port)), host.map(|host| (host.into(), port)), "{uri}");
        }
    }

    #[test]
    fn nobody_is_told_to_wait_for_ever() {
        for (text, bounded) in [
            ("120", "120"),
            (" 7 ", "7"),
            ("18446744073709551615", "31622400"),
            ("99999999999999999999999", "31622400"),
            ("soon", "soon"),
            ("Sun, 06 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:49:37 GMT"),
        ] {
            let mut fields = HeaderMap::new();
            fields.insert(RETRY_AFTER, HeaderValue::from_static(text));
            bound_retry_after(&mut fields);
            assert_eq!(fields.get(RETRY_AFTER), Some(&HeaderValue::from_static(bounded)), "{text}");
        }
    }

    #[test]
    fn the_ca_says_how_long_to_wait_in_seconds_or_as_a_date() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777 - 60);
        for (text, seconds) in [
            (Some("120"), Some(120)),
            (Some("Sun, 06 Nov 1994 08:49:37 GMT"), Some(60)),
            (Some("Sun, 06 Nov 1983 08:49:37 GMT"), None),
            (Some("soon"), None),
            (Some("-5"), None),
            (None, None),
        ] {
            let answer = Answer { status: StatusCode::TOO_MANY_REQUESTS, retry_after: text.map(String::from) };
            assert_eq!(answer.wait(now), seconds.map(Duration::from_secs), "{text:?}");
        }
    }
}
