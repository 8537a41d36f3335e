//! A well-behaved HTTP/2 client: the `h2` crate on a thread of its own, blocking for who uses it.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use bytes::Bytes;
use h2::client::{Builder, Connection, ResponseFuture, SendRequest};
use h2::{RecvStream, SendStream};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::runtime::{Handle, Runtime};
use tokio::sync::{Notify, oneshot};

use crate::PATIENCE;
use crate::client::{Framing, Response};
use crate::tls::{Tls, TlsFacts};

/// A connection. Dropping it closes it.
#[derive(Debug)]
pub struct Http2Client {
    handle: Handle,
    sender: SendRequest<Bytes>,
    scheme: &'static str,
    facts: Option<TlsFacts>,
    fate: Arc<Fate>,
    stop: Option<oneshot::Sender<()>>,
    driver: Option<JoinHandle<()>>,
}

/// What the client allows the server.
#[derive(Clone, Copy, Debug)]
pub struct Http2Options {
    /// What a stream may hold.
    pub stream_window_bytes: u32,
    /// What the connection may hold.
    pub connection_window_bytes: u32,
}

impl Default for Http2Options {
    fn default() -> Http2Options {
        Http2Options { stream_window_bytes: 1 << 20, connection_window_bytes: 8 << 20 }
    }
}

/// A request.
#[derive(Clone, Debug)]
pub struct Http2Request {
    /// The method.
    pub method: String,
    /// The path with its query.
    pub target: String,
    /// What stands in `:authority`.
    pub authority: String,
    /// The other fields, in order.
    pub fields: Vec<(String, String)>,
    /// The body; `None` ends the stream with its head, and `Some` needs no length.
    pub body: Option<Vec<u8>>,
}

impl Http2Request {
    /// GET from `site.test`.
    pub fn get(target: &str) -> Http2Request {
        Http2Request {
            method: "GET".to_owned(),
            target: target.to_owned(),
            authority: "site.test".to_owned(),
            fields: Vec::new(),
            body: None,
        }
    }

    /// Another method.
    pub fn method(mut self, method: &str) -> Http2Request {
        self.method = method.to_owned();
        self
    }

    /// Another authority.
    pub fn authority(mut self, authority: &str) -> Http2Request {
        self.authority = authority.to_owned();
        self
    }

    /// One field more.
    pub fn field(mut self, name: &str, value: &str) -> Http2Request {
        self.fields.push((name.to_owned(), value.to_owned()));
        self
    }

    /// A body without a `content-length`.
    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Http2Request {
        self.body = Some(body.into());
        self
    }
}

/// How a connection ended, seen from here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Http2End {
    /// As it should.
    Graceful,
    /// By a GOAWAY or an error with this code.
    Code(u32),
    /// The transport failed.
    Broken(String),
}

/// Why there is no response.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Http2Error {
    /// The server reset the stream with this code.
    #[error("the stream was reset with code {0}")]
    Reset(u32),
    /// The server ended the connection with this code before it took the stream.
    #[error("the connection was ended with code {0}")]
    GoAway(u32),
    /// Nothing for as long as the client is patient.
    #[error("the server sent nothing for too long")]
    Silent,
    /// Anything else.
    #[error("{0}")]
    Other(String),
}

impl From<h2::Error> for Http2Error {
    fn from(error: h2::Error) -> Http2Error {
        match error.reason().map(u32::from) {
            Some(code) if error.is_reset() => Http2Error::Reset(code),
            Some(code) if error.is_go_away() => Http2Error::GoAway(code),
            _ => Http2Error::Other(error.to_string()),
        }
    }
}

/// What the driver leaves behind when a connection has ended.
#[derive(Debug, Default)]
struct Fate {
    end: Mutex<Option<Http2End>>,
    changed: Notify,
}

impl Http2Client {
    /// Connects in the clear, knowing that the server speaks HTTP/2.
    pub fn connect(address: SocketAddr) -> io::Result<Http2Client> {
        Http2Client::connect_with(address, None, Http2Options::default())
    }

    /// Connects with TLS, offering `h2`.
    pub fn connect_tls(address: SocketAddr, tls: &Tls) -> io::Result<Http2Client> {
        Http2Client::connect_with(address, Some(tls), Http2Options::default())
    }

    /// Connects, with or without TLS, and with other windows.
    pub fn connect_with(address: SocketAddr, tls: Option<&Tls>, options: Http2Options) -> io::Result<Http2Client> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let socket = runtime.block_on(TcpStream::connect(address))?;
        socket.set_nodelay(true)?;
        match tls {
            None => Http2Client::over(runtime, handle, socket, "http", None, options),
            Some(tls) => {
                // The clone shares the sessions.
                let tls = tls.clone().alpn(&["h2"]);
                let connector = tokio_rustls::TlsConnector::from(tls.config());
                let stream = runtime.block_on(connector.connect(tls.server_name(), socket))?;
                let facts = TlsFacts::of(stream.get_ref().1);
                Http2Client::over(runtime, handle, stream, "https", Some(facts), options)
            }
        }
    }

    fn over<S>(
        runtime: Runtime,
        handle: Handle,
        stream: S,
        scheme: &'static str,
        facts: Option<TlsFacts>,
        options: Http2Options,
    ) -> io::Result<Http2Client>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let handshake = async {
            Builder::new()
                .initial_window_size(options.stream_window_bytes)
                .initial_connection_window_size(options.connection_window_bytes)
                .enable_push(false)
                .handshake::<S, Bytes>(stream)
                .await
        };
        let (sender, connection) = runtime.block_on(handshake).map_err(io::Error::other)?;
        let fate = Arc::new(Fate::default());
        let (stop, stopped) = oneshot::channel();
        let driver = std::thread::spawn({
            let fate = Arc::clone(&fate);
            move || runtime.block_on(drive(connection, &fate, stopped))
        });
        Ok(Http2Client { handle, sender, scheme, facts, fate, stop: Some(stop), driver: Some(driver) })
    }

    /// What the handshake came to; `None` without TLS.
    pub fn tls(&self) -> Option<&TlsFacts> {
        self.facts.as_ref()
    }

    /// Sends a GET to `site.test` and reads its whole response.
    pub fn get(&mut self, target: &str) -> Result<Response, Http2Error> {
        self.exchange(&Http2Request::get(target))
    }

    /// Sends a request and reads its whole response.
    pub fn exchange(&mut self, request: &Http2Request) -> Result<Response, Http2Error> {
        self.start(request)?.finish()
    }

    /// Sends a request, its body with it, and goes on.
    pub fn start(&mut self, request: &Http2Request) -> Result<Http2Exchange, Http2Error> {
        let mut exchange = self.start_open(request)?;
        if let Some(body) = &request.body {
            exchange.send(body, true)?;
        }
        Ok(exchange)
    }

    /// Sends the head of a request; where it has a body, that is left to [`Http2Exchange::send`].
    pub fn start_open(&mut self, request: &Http2Request) -> Result<Http2Exchange, Http2Error> {
        let uri = format!("{}://{}{}", self.scheme, request.authority, request.target);
        let mut head = http::Request::builder().method(request.method.as_str()).uri(uri).version(http::Version::HTTP_2);
        for (name, value) in &request.fields {
            head = head.header(name, value);
        }
        let head = head.body(()).map_err(|error| Http2Error::Other(error.to_string()))?;
        let sender = &mut self.sender;
        patiently(&self.handle, poll_fn(|context| sender.poll_ready(context)))??;
        let (response, body) = self.sender.send_request(head, request.body.is_none())?;
        Ok(Http2Exchange {
            handle: self.handle.clone(),
            waiting: Some(response),
            upload: body,
            head: None,
            download: None,
        })
    }

    /// Waits for the end of the connection; `None` when patience ran out.
    pub fn wait_for_end(&self) -> Option<Http2End> {
        let wait = async {
            loop {
                let changed = self.fate.changed.notified();
                if let Some(end) = self.end() {
                    return end;
                }
                changed.await;
            }
        };
        patiently(&self.handle, wait).ok()
    }

    /// How the connection ended, when it has.
    pub fn end(&self) -> Option<Http2End> {
        self.fate.end.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Http2Client {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(driver) = self.driver.take() {
            drop(driver.join());
        }
    }
}

/// Drives a connection until it ends, and its thread's timers until nobody needs them.
async fn drive<S>(connection: Connection<S, Bytes>, fate: &Fate, mut stopped: oneshot::Receiver<()>)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let end = tokio::select! {
        ended = connection => match ended {
            Ok(()) => Http2End::Graceful,
            Err(error) => match error.reason() {
                Some(reason) => Http2End::Code(reason.into()),
                None => Http2End::Broken(error.to_string()),
            },
        },
        _ = &mut stopped => return,
    };
    *fate.end.lock().unwrap_or_else(PoisonError::into_inner) = Some(end);
    fate.changed.notify_waiters();
    drop(stopped.await);
}

/// Waits for something, as long as tests are patient.
fn patiently<T>(handle: &Handle, work: impl Future<Output = T>) -> Result<T, Http2Error> {
    // The limit is made inside, where the runtime's clock is.
    handle.block_on(async { tokio::time::timeout(PATIENCE, work).await }).map_err(|_| Http2Error::Silent)
}

/// A request under way. Dropping it resets its stream.
#[derive(Debug)]
pub struct Http2Exchange {
    handle: Handle,
    waiting: Option<ResponseFuture>,
    upload: SendStream<Bytes>,
    head: Option<Response>,
    download: Option<RecvStream>,
}

impl Http2Exchange {
    /// Sends a part of the body as the windows allow, and ends it where `is_last`.
    pub fn send(&mut self, bytes: &[u8], is_last: bool) -> Result<(), Http2Error> {
        let upload = &mut self.upload;
        let work = async {
            let mut rest = Bytes::copy_from_slice(bytes);
            while !rest.is_empty() {
                upload.reserve_capacity(rest.len());
                let room = match poll_fn(|context| upload.poll_capacity(context)).await {
                    Some(Ok(room)) => room,
                    Some(Err(error)) => return Err(Http2Error::from(error)),
                    None => return Err(Http2Error::Other("the stream takes no more".to_owned())),
                };
                let piece = rest.split_to(room.min(rest.len()));
                upload.send_data(piece, is_last && rest.is_empty())?;
            }
            if is_last && bytes.is_empty() {
                upload.send_data(Bytes::new(), true)?;
            }
            Ok(())
        };
        patiently(&self.handle, work)?
    }

    /// Gives the stream up, with CANCEL.
    pub fn cancel(mut self) {
        self.upload.send_reset(h2::Reason::CANCEL);
    }

    /// Reads through the head of the response.
    pub fn head(&mut self) -> Result<&Response, Http2Error> {
        if let Some(waiting) = self.waiting.take() {
            let response = patiently(&self.handle, waiting)??;
            let (head, body) = response.into_parts();
            self.head = Some(Response {
                status_line: format!("HTTP/2 {}", head.status.as_u16()),
                status: head.status.as_u16(),
                fields: fields_of(&head.headers),
                body: Vec::new(),
                framing: Framing::None,
                trailers: Vec::new(),
            });
            self.download = Some(body);
        }
        self.head.as_ref().ok_or_else(|| Http2Error::Other("the head was not read".to_owned()))
    }

    /// The next piece of the body as it came, and room for as much again; `None` at its end.
    pub fn piece(&mut self) -> Result<Option<Vec<u8>>, Http2Error> {
        let piece = self.piece_kept()?;
        if let (Some(piece), Some(body)) = (&piece, &mut self.download) {
            body.flow_control().release_capacity(piece.len())?;
        }
        Ok(piece)
    }

    /// The same, without making room: the server may send until the windows are full.
    pub fn piece_kept(&mut self) -> Result<Option<Vec<u8>>, Http2Error> {
        self.head()?;
        let Some(body) = &mut self.download else {
            return Ok(None);
        };
        match patiently(&self.handle, body.data())? {
            None => Ok(None),
            Some(piece) => Ok(Some(piece?.to_vec())),
        }
    }

    /// Reads the response to its end.
    pub fn finish(mut self) -> Result<Response, Http2Error> {
        self.head()?;
        let mut whole = Vec::new();
        while let Some(piece) = self.piece()? {
            whole.extend_from_slice(&piece);
        }
        let trailers = match &mut self.download {
            Some(body) => patiently(&self.handle, body.trailers())??,
            None => None,
        };
        let mut response = self.head.take().ok_or_else(|| Http2Error::Other("the head was not read".to_owned()))?;
        response.framing = Framing::Stream;
        response.body = whole;
        response.trailers = trailers.as_ref().map(fields_of).unwrap_or_default();
        Ok(response)
    }
}

fn fields_of(fields: &http::HeaderMap) -> Vec<(String, String)> {
    fields.iter().map(|(name, value)| (name.to_string(), crate::text_of(value.as_bytes()))).collect()
}
