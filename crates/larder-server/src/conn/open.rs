//! Opens a connection: reads the PROXY protocol, does the TLS handshake, and detects the version of HTTP.

use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;

use larder_acme::ChallengeCertificate;
use larder_conf::model::LogLevel;
use larder_http::Time;
use larder_http::h2;
use larder_http::proxy_protocol::{self, Header, Parsed};
use larder_tls::{ACME_TLS, Hello, HelloError, State};

use crate::context::Cx;
use crate::exchange::{Client, Secured};
use crate::net::socket::Socket;
use crate::net::stream::Stream;
use crate::net::tls::Tls;
use crate::request::receive;
use crate::seats::Seat;
use crate::site::{Listener, NamedRegex};
use crate::worker::Worker;

use super::shake::Shake;
use super::{h1, h2 as h2_conn};

/// How much is read at once before the protocol is known.
const FIRST_BYTES: usize = 4096;

/// A connection whose protocol is known.
struct Opened {
    stream: Stream,
    client: Client,
    /// Bytes that were read and belong to what follows.
    first: Vec<u8>,
    protocol: Protocol,
}

enum Protocol {
    Http1,
    Http2(h2::Config),
}

/// Why a connection ends before its first request.
enum Refused {
    /// A failure that the error log is told, at this level.
    Because(LogLevel, String),
    /// The client wanted nothing but the handshake: it was the challenge of a certificate authority.
    Done,
    /// The client has left or the socket is broken. Browsers do this all the time, so it is not logged.
    Gone,
}

impl From<io::Error> for Refused {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => Self::Gone,
            _ => Self::Because(LogLevel::Info, format!("{error} while SSL handshaking")),
        }
    }
}

/// Serves a connection that does not begin with a request of HTTP/1.
pub async fn run(socket: Socket, client: Client, worker: Rc<Worker>, seat: Seat) {
    let address = client.address();
    let opened = Box::pin(open(socket, client, &worker, &seat)).await;
    match opened {
        Ok(Opened { stream, client, first, protocol: Protocol::Http1 }) => {
            h1::Connection::new(stream, first, Rc::new(client), worker, seat).run().await;
        }
        Ok(Opened { stream, client, first, protocol: Protocol::Http2(config) }) => {
            Box::pin(h2_conn::Connection::new(stream, first, &config, Rc::new(client), worker, seat).run()).await;
        }
        Err(Refused::Because(level, why)) => {
            let cx = worker.cx();
            cx.local.logs.main(level, format_args!("{why}, client: {address}"));
        }
        Err(Refused::Gone | Refused::Done) => {}
    }
}

/// Detects what the client speaks, within `client_header_timeout`.
async fn open(socket: Socket, client: Client, worker: &Rc<Worker>, seat: &Seat) -> Result<Opened, Refused> {
    let cx = worker.cx();
    let Some(listener) = client.listener(cx.site()) else { return Err(Refused::Gone) };
    let limit = cx.site().servers[listener.default].client.header_timeout;
    match tokio::time::timeout(limit, begin(socket, client, listener, &cx, seat)).await {
        Ok(opened) => opened,
        Err(_) => Err(Refused::Because(LogLevel::Info, "client timed out while the connection was opened".into())),
    }
}

async fn begin(
    socket: Socket,
    mut client: Client,
    listener: &Listener,
    cx: &Cx,
    seat: &Seat,
) -> Result<Opened, Refused> {
    let mut first = Vec::new();
    // A client that has sent nothing yet, such as a browser's preconnect, does not delay a stop.
    tokio::select! {
        biased;
        read = more(&socket, &mut first) => read?,
        () = closing(&cx.worker, seat, client.began) => return Err(Refused::Gone),
    }
    if listener.proxy_protocol {
        client.proxy = Some(Box::new(proxy_header(&socket, &mut first).await?));
    }
    if !listener.tls {
        let is_http2 = listener.http2 || cx.site().servers[listener.default].http2.enabled;
        let protocol = if is_http2 && has_preface(&socket, &mut first).await? {
            Protocol::Http2(http2(listener.default, cx))
        } else {
            Protocol::Http1
        };
        return Ok(Opened { stream: Stream::Plain(socket), client, first, protocol });
    }
    let hello = loop {
        match Hello::read(&first) {
            Ok(Some(hello)) => break hello,
            Ok(None) => more(&socket, &mut first).await?,
            Err(HelloError::PlainHttp) => {
                client.secured = Secured::PlainOnTls;
                return Ok(Opened { stream: Stream::Plain(socket), client, first, protocol: Protocol::Http1 });
            }
            Err(error) => {
                if let Some(alert) = error.alert() {
                    // A peer that does not speak TLS may not read the alert.
                    let _ = socket.try_write(&alert);
                }
                cx.local.counts.tls.failed.add(1);
                return Err(Refused::Because(LogLevel::Info, format!("{error} while SSL handshaking")));
            }
        }
    };
    handshake(socket, client, hello, first, listener, cx).await
}

/// Waits until the worker stops and closes idle connections that began at `began`.
async fn closing(worker: &Worker, seat: &Seat, began: Time) {
    std::future::poll_fn(|task| {
        seat.park(task.waker());
        if worker.seats.is_over(began) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

/// Reads more bytes into `first`.
async fn more(socket: &Socket, first: &mut Vec<u8>) -> Result<(), Refused> {
    loop {
        socket.readable().await?;
        match socket.try_read_more(first, FIRST_BYTES) {
            Ok(0) => return Err(Refused::Gone),
            Ok(_) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Reads the header of the PROXY protocol; what follows it is left in `first`.
async fn proxy_header(socket: &Socket, first: &mut Vec<u8>) -> Result<Header, Refused> {
    loop {
        if !first.is_empty() {
            match proxy_protocol::parse(first) {
                Ok(Parsed::Complete { consumed, header }) => {
                    first.drain(..consumed);
                    return Ok(header);
                }
                Ok(Parsed::Partial) => {}
                Err(error) => return Err(Refused::Because(LogLevel::Error, error.to_string())),
            }
        }
        more(socket, first).await?;
    }
}

/// Whether the client begins with the preface of HTTP/2 (RFC 9113 §3.4), as one does that knows that we speak it.
async fn has_preface(socket: &Socket, first: &mut Vec<u8>) -> Result<bool, Refused> {
    loop {
        let n = first.len().min(h2::PREFACE.len());
        if first[..n] != h2::PREFACE[..n] {
            return Ok(false);
        }
        if n == h2::PREFACE.len() {
            return Ok(true);
        }
        more(socket, first).await?;
    }
}

/// The HTTP/2 settings of a virtual server.
fn http2(server: usize, cx: &Cx) -> h2::Config {
    let server = &cx.site().servers[server];
    h2::Config {
        max_concurrent_streams: server.http2.max_concurrent_streams,
        stream_window_bytes: server.http2.body_preread_bytes,
        head: receive::limits(server),
        ..h2::Config::default()
    }
}

/// Does the TLS handshake as the virtual server that the client names by SNI.
async fn handshake(
    socket: Socket,
    client: Client,
    hello: Hello,
    first: Vec<u8>,
    listener: &Listener,
    cx: &Cx,
) -> Result<Opened, Refused> {
    let server = match &hello.server_name {
        Some(name) => {
            let mut failed = None;
            let found = listener.names.find(name.as_bytes(), |regex: &NamedRegex| {
                failed.is_none()
                    && regex.regex.is_match(name.as_bytes()).unwrap_or_else(|error| {
                        failed = Some(error);
                        false
                    })
            });
            if let Some(error) = failed {
                let _ = socket.try_write(&larder_tls::internal_error_alert());
                return Err(Refused::Because(LogLevel::Alert, format!("{error} while SSL handshaking")));
            }
            found.unwrap_or(listener.default)
        }
        None => listener.default,
    };
    if let Some(answer) = challenged(&hello, cx).await {
        return answer_challenge(socket, hello, first, &answer, [server, listener.default], cx).await;
    }
    let shake = Shake::begin(&cx.site().servers[server], cx);
    let opened = shaken(socket, client, hello, first, (server, listener), &shake, cx).await;
    match &opened {
        Ok(Opened { stream: Stream::Tls(tls), .. }) => shake.over(Some(&tls.session.borrow())),
        Ok(_) | Err(_) => shake.over(None),
    }
    opened
}

/// Does the handshake as this server.
async fn shaken(
    socket: Socket,
    mut client: Client,
    hello: Hello,
    first: Vec<u8>,
    (server, listener): (usize, &Listener),
    shake: &Shake<'_>,
    cx: &Cx,
) -> Result<Opened, Refused> {
    let virtual_server = &cx.site().servers[server];
    // A virtual server without a certificate of its own shows the default server's.
    let shown = match virtual_server.tls {
        Some(_) => virtual_server,
        None => &cx.site().servers[listener.default],
    };
    let Some(tls) = shown.tls.as_ref().filter(|tls| !tls.rejects) else {
        let _ = socket.try_write(&larder_tls::unrecognized_name_alert());
        return Err(Refused::Because(LogLevel::Info, "handshake rejected while SSL handshaking".into()));
    };
    tls.staples.iter().for_each(|staple| staple.look(&cx.site().logs.main));
    let offers_http2 = listener.http2 || virtual_server.http2.enabled;
    let session = tls.session(hello, offers_http2, &client, server, cx);
    let session = session.map_err(|why| {
        let _ = socket.try_write(&larder_tls::internal_error_alert());
        Refused::Because(LogLevel::Error, format!("{why} while SSL handshaking"))
    })?;
    let stream = Tls::new(socket, session, first, Rc::clone(&cx.worker.buffers));
    shake_hands(&stream, cx, |error| shake.fails(error)).await?;
    if let Some(ocsp) = &tls.ocsp {
        ocsp.check(&stream.session, &cx.site().logs.main).await;
    }
    let is_h2 = stream.session.borrow().alpn() == Some(b"h2");
    let session = Rc::clone(&stream.session);
    client.secured = Secured::tls(session, virtual_server, shown);
    let protocol = if is_h2 { Protocol::Http2(http2(server, cx)) } else { Protocol::Http1 };
    Ok(Opened { stream: Stream::Tls(Box::new(stream)), client, first: Vec::new(), protocol })
}

/// Runs a handshake until it is complete, or until a request has arrived as early data.
async fn shake_hands(stream: &Tls, cx: &Cx, fails: impl Fn(&io::Error)) -> Result<(), Refused> {
    loop {
        // A failure sends its alert before the error is reported.
        let state = cx.worker.handshakes.take(|| stream.advance()).await.map_err(|error| {
            fails(&error);
            Refused::Because(LogLevel::Info, format!("SSL_do_handshake() failed ({error}) while SSL handshaking"))
        })?;
        match state {
            State::Open => return Ok(()),
            State::Closed => return Err(Refused::Gone),
            // A request in early data is answered before the handshake is complete (RFC 8470).
            State::Handshaking if stream.has_plaintext() => return Ok(()),
            State::Handshaking => stream.receive().await?,
        }
    }
}

/// The certificate for an authority that checks a name by tls-alpn-01, which offers that protocol and no other. `None`
/// for everybody else, and for an authority whose challenge is not ours: it then finds no protocol to agree on.
async fn challenged(hello: &Hello, cx: &Cx) -> Option<Arc<ChallengeCertificate>> {
    let [only] = &*hello.alpn else { return None };
    let name = hello.server_name.as_deref().filter(|_| **only == *ACME_TLS)?;
    match cx.worker.shared.challenges.tls_alpn01(name) {
        Some(answer) => Some(answer),
        None => cx.worker.shared.acme_sharing.tls_alpn01(name).await.map(Arc::new),
    }
}

/// Answers a challenge by the handshake alone, as the first of `servers` that speaks TLS (RFC 8737 §3).
async fn answer_challenge(
    socket: Socket,
    hello: Hello,
    first: Vec<u8>,
    answer: &ChallengeCertificate,
    servers: [usize; 2],
    cx: &Cx,
) -> Result<Opened, Refused> {
    let Some(tls) = servers.iter().find_map(|&server| cx.site().servers[server].tls.as_ref()) else {
        return Err(Refused::Because(LogLevel::Error, "no server here speaks TLS, where a challenge came".into()));
    };
    let session = tls.challenge_session(hello, answer).map_err(|why| Refused::Because(LogLevel::Error, why))?;
    let stream = Tls::new(socket, session, first, Rc::clone(&cx.worker.buffers));
    shake_hands(&stream, cx, |_| {}).await?;
    stream.close();
    std::future::poll_fn(|task| stream.poll_flush(task)).await?;
    Err(Refused::Done)
}
