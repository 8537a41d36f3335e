//! TLS below HTTP, and headers of the PROXY protocol, from the side of a scripted origin.

use std::{
    io,
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use larder_origin::{BodyPiece, FailKind, Fetch, Group, Limits, Protocol, RequestBody, Tls, fetch};
use larder_tls::{CertifiedKey, ClientConfig, ClientOptions, Clock, Verify};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        self, RootCertStore, ServerConfig,
        pki_types::{CertificateDer, PrivateKeyDer},
        server::WebPkiClientVerifier,
    },
};

use crate::origin::*;

/// An authority, and certificates by it.
struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new(name: &str) -> Authority {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Authority(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    fn der(&self) -> Vec<u8> {
        self.0.der().to_vec()
    }

    fn issue(&self, name: &str) -> (CertificateDer<'static>, PrivateKeyDer<'static>, String) {
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new([name.to_owned()]).unwrap().signed_by(&key, &self.0).unwrap();
        let pem = certificate.pem() + &key.serialize_pem();
        (certificate.der().clone(), PrivateKeyDer::Pkcs8(key.serialize_der().into()), pem)
    }

    fn server(&self, name: &str) -> ServerConfig {
        let (certificate, key, _) = self.issue(name);
        ServerConfig::builder().with_no_client_auth().with_single_cert(vec![certificate], key).unwrap()
    }

    fn verify(&self) -> Option<Verify> {
        Some(Verify { depth: 1, trusted: vec![self.der()], ..Verify::default() })
    }
}

/// 2026, of which the certificates made here are.
fn options() -> ClientOptions {
    ClientOptions::new(Clock::new(|| 1_790_000_000))
}

fn tls(options: ClientOptions, name: &str) -> Option<Tls> {
    Some(Tls { config: ClientConfig::new(options).unwrap().0, name: name.into() })
}

/// What an origin saw of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Seen {
    name: Option<String>,
    version: &'static str,
    resumed: bool,
    certificates: usize,
}

/// An origin in TLS that answers every request with `answer`, or with the request where that is empty.
async fn secure(config: ServerConfig, answer: &str) -> (Origin, Arc<Mutex<Vec<Seen>>>) {
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (writes, answer) = (seen.clone(), answer.to_owned());
    let origin = Origin::tcp(move |_, peer| {
        let (acceptor, writes, answer) = (acceptor.clone(), writes.clone(), answer.clone());
        async move {
            let Ok(stream) = acceptor.accept(peer).await else {
                return;
            };
            let end = stream.get_ref().1;
            writes.lock().unwrap().push(Seen {
                name: end.server_name().map(str::to_owned),
                version: end.protocol_version().and_then(|version| version.as_str()).unwrap_or(""),
                resumed: end.handshake_kind() == Some(rustls::HandshakeKind::Resumed),
                certificates: end.peer_certificates().map_or(0, <[_]>::len),
            });
            let mut peer: Peer = Box::new(stream);
            while let Some(request) = read_http(&mut peer).await {
                if answer.is_empty() {
                    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", request.len());
                    write(&mut peer, [head.as_bytes(), &request].concat()).await;
                } else {
                    write(&mut peer, &answer).await;
                }
                if answer.contains("Connection: close") {
                    let _ = peer.shutdown().await;
                    return;
                }
            }
        }
    })
    .await;
    (origin, seen)
}

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc";

async fn fetch_whole(wanted: Fetch) -> Vec<u8> {
    let mut answer = fetch(wanted).await.result.unwrap();
    read_all(&mut answer.body).await.unwrap()
}

#[tokio::test]
async fn an_origin_is_asked_in_tls_and_told_a_name_when_that_is_on() {
    let authority = Authority::new("one");
    for (send_server_name, name, told) in [
        (false, "a.example", None),
        (true, "a.example", Some("a.example")),
        (true, "a.example:8443", Some("a.example")),
        (true, "127.0.0.1", None),
        (true, "not a name", None),
    ] {
        for versions in [&[&rustls::version::TLS12][..], &[&rustls::version::TLS13][..]] {
            let (certificate, key, _) = authority.issue("b.example");
            let config = ServerConfig::builder_with_protocol_versions(versions)
                .with_no_client_auth()
                .with_single_cert(vec![certificate], key)
                .unwrap();
            let (origin, seen) = secure(config, OK).await;
            let group = Group::single(origin.address.clone());
            let tls = tls(ClientOptions { send_server_name, ..options() }, name);
            assert_eq!(fetch_whole(Fetch { tls, ..get(&group) }).await, b"abc", "{name}");
            assert_eq!(seen.lock().unwrap()[0].name.as_deref(), told, "{name}");
        }
    }
}

#[tokio::test]
async fn a_certificate_is_verified_when_that_is_on() {
    let (authority, other) = (Authority::new("one"), Authority::new("another"));
    let close = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nabc";
    let (origin, _) = secure(authority.server("a.example"), close).await;
    let group = Group::single(origin.address.clone());
    for (verify, name, told) in [
        (None, "b.example", None),
        (authority.verify(), "a.example", None),
        (authority.verify(), "b.example", Some("upstream SSL certificate does not match \"b.example\"")),
        (
            other.verify(),
            "a.example",
            Some("upstream SSL certificate verify error: (21:unable to verify the first certificate)"),
        ),
    ] {
        let outcome = fetch(Fetch { tls: tls(ClientOptions { verify, ..options() }, name), ..get(&group) }).await;
        match (outcome.result, told) {
            (Ok(mut answer), None) => assert_eq!(read_all(&mut answer.body).await.unwrap(), b"abc"),
            (Err(error), Some(told)) => {
                assert_eq!(error.to_string(), format!("{told} while SSL handshaking to upstream"));
                assert_eq!(error.kind(), FailKind::Error);
                assert_eq!((outcome.attempts[0].status, outcome.attempts[0].connect), (Some(502), None));
            }
            (result, told) => panic!("{name}: {result:?} is not {told:?}"),
        }
    }
}

#[tokio::test]
async fn a_kept_connection_serves_requests_of_the_same_name_and_configuration() {
    let authority = Authority::new("one");
    let (origin, seen) = secure(authority.server("a.example"), OK).await;
    let group = keeping(&origin, 8);
    let (first, second) = (tls(options(), "a.example"), tls(options(), "a.example"));
    let renamed = first.clone().map(|tls| Tls { name: "b.example".into(), ..tls });
    for (tls, connections) in [(&first, 1), (&first, 1), (&second, 2), (&renamed, 3), (&first, 3), (&second, 3)] {
        assert_eq!(fetch_whole(Fetch { tls: tls.clone(), ..get(&group) }).await, b"abc");
        // Tickets that come late leave a connection quiet.
        tokio::time::sleep(Duration::from_millis(10)).await;
        assert_eq!(origin.connections(), connections);
    }
    assert_eq!(seen.lock().unwrap().iter().filter(|seen| seen.resumed).count(), 0);
}

#[tokio::test]
async fn sessions_are_resumed_when_that_is_on() {
    let authority = Authority::new("one");
    for (session_reuse, resumed) in [(true, vec![false, true]), (false, vec![false, false])] {
        let (origin, seen) = secure(authority.server("a.example"), OK).await;
        let group = Group::single(origin.address.clone());
        let tls = tls(ClientOptions { session_reuse, ..options() }, "a.example");
        for _ in 0..2 {
            fetch_whole(Fetch { tls: tls.clone(), ..get(&group) }).await;
        }
        let seen: Vec<bool> = seen.lock().unwrap().iter().map(|seen| seen.resumed).collect();
        assert_eq!(seen, resumed);
    }
}

#[tokio::test]
async fn our_certificate_is_shown() {
    let authority = Authority::new("one");
    let mut roots = RootCertStore::empty();
    roots.add(authority.der().into()).unwrap();
    let verifier = WebPkiClientVerifier::builder(Arc::new(roots)).build().unwrap();
    let (certificate, key, _) = authority.issue("a.example");
    let config =
        ServerConfig::builder().with_client_cert_verifier(verifier).with_single_cert(vec![certificate], key).unwrap();
    let (origin, seen) = secure(config, OK).await;
    let group = Group::single(origin.address.clone());
    let (_, _, pem) = authority.issue("client");
    let certificate = Some(CertifiedKey::from_pem(pem.as_bytes(), pem.as_bytes(), &[]).unwrap());
    let shown = tls(ClientOptions { certificate, ..options() }, "a.example");
    assert_eq!(fetch_whole(Fetch { tls: shown, ..get(&group) }).await, b"abc");
    assert_eq!(seen.lock().unwrap()[0].certificates, 1);
    // In TLS 1.3 the origin refuses when the handshake is over for us.
    let error = fetch(Fetch { tls: tls(options(), "a.example"), ..get(&group) }).await.result.unwrap_err();
    assert!(error.to_string().starts_with("SSL_read() failed (the peer sent the alert \"certificate"), "{error}");
}

#[tokio::test]
async fn bodies_of_any_size_go_both_ways() {
    let authority = Authority::new("one");
    let (origin, _) = secure(authority.server("a.example"), "").await;
    let group = keeping(&origin, 1);
    let tls = tls(options(), "a.example");
    for len in [0, 1, 16_384, 16_385, 100_000, 3 << 20] {
        let head = format!("POST / HTTP/1.1\r\nContent-Length: {len}\r\n\r\n");
        let content: Vec<u8> = (0..len).map(|at| (at % 251) as u8).collect();
        let (sender, rx) = tokio::sync::mpsc::channel(1);
        let streamed = content.clone();
        tokio::spawn(async move {
            for piece in streamed.chunks(40_000) {
                let _ = sender.send(Ok(BodyPiece::Bytes(Bytes::copy_from_slice(piece)))).await;
            }
        });
        for body in [
            RequestBody::Memory(content.clone().into()),
            RequestBody::Stream { first: Bytes::new(), rx, len: Some(len) },
        ] {
            let got = fetch_whole(Fetch { protocol: http(&head), body, tls: tls.clone(), ..get(&group) }).await;
            assert!(got == [head.as_bytes(), &content].concat(), "{len}");
        }
    }
    assert_eq!((origin.connections(), group.idle()), (1, 1));
}

#[tokio::test]
async fn an_origin_without_tls_fails_the_handshake() {
    for (answer, kind, told) in [
        (Some(""), FailKind::Error, "peer closed connection in SSL handshake"),
        (
            Some("HTTP/1.1 400 Bad Request\r\n\r\n"),
            FailKind::Error,
            "SSL_do_handshake() failed (SSL: wrong version number",
        ),
        (None, FailKind::Timeout, "upstream timed out (110: Connection timed out) while SSL handshaking to upstream"),
    ] {
        let origin = Origin::tcp(move |_, mut peer| async move {
            let mut hello = [0; 4096];
            let _ = peer.read(&mut hello).await;
            match answer {
                Some(answer) => write(&mut peer, answer).await,
                None => std::future::pending().await,
            }
        })
        .await;
        let group = Group::single(origin.address.clone());
        let limits = Limits { connect: Duration::from_millis(300), ..get(&group).limits };
        let error = fetch(Fetch { tls: tls(options(), "a"), limits, ..get(&group) }).await.result.unwrap_err();
        assert!(error.to_string().starts_with(told), "{error}");
        assert!(error.to_string().ends_with(" while SSL handshaking to upstream"), "{error}");
        assert_eq!(error.kind(), kind, "{error}");
    }
}

/// A connection that sends its bytes in small pieces.
struct Trickle(Peer);

impl AsyncRead for Trickle {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Trickle {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let piece = bytes.len().min(7);
        ready!(Pin::new(&mut self.0).poll_write(cx, &bytes[..piece]))?;
        // What went out leaves on its own before the next piece.
        cx.waker().wake_by_ref();
        Poll::Ready(Ok(piece))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

#[tokio::test]
async fn records_and_messages_may_come_in_pieces() {
    let authority = Authority::new("one");
    for versions in [&[&rustls::version::TLS12][..], &[&rustls::version::TLS13][..]] {
        let (certificate, key, _) = authority.issue("a.example");
        // A chain so long that it takes several records.
        let chain = std::iter::repeat_n(certificate, 60).collect();
        let builder = ServerConfig::builder_with_protocol_versions(versions).with_no_client_auth();
        let mut config = builder.with_single_cert(chain, key).unwrap();
        config.max_fragment_size = Some(512);
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let origin = Origin::tcp(move |_, peer| {
            let acceptor = acceptor.clone();
            async move {
                let mut peer: Peer = Box::new(acceptor.accept(Trickle(peer)).await.unwrap());
                read_http(&mut peer).await.unwrap();
                write(&mut peer, OK).await;
            }
        })
        .await;
        let group = Group::single(origin.address.clone());
        let tls = tls(ClientOptions { verify: authority.verify(), ..options() }, "a.example");
        assert_eq!(fetch_whole(Fetch { tls, ..get(&group) }).await, b"abc");
    }
}

#[tokio::test]
async fn an_end_that_tls_was_not_told_of_ends_what_has_no_other() {
    let authority = Authority::new("one");
    for (answer, body) in [
        ("HTTP/1.1 200 OK\r\n\r\nabc", Some("abc")),
        ("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", Some("abc")),
        ("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nabc", None),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", None),
    ] {
        let acceptor = TlsAcceptor::from(Arc::new(authority.server("a.example")));
        let origin = Origin::tcp(move |_, peer| {
            let acceptor = acceptor.clone();
            async move {
                let mut peer: Peer = Box::new(acceptor.accept(peer).await.unwrap());
                read_http(&mut peer).await.unwrap();
                write(&mut peer, answer).await;
            }
        })
        .await;
        let group = keeping(&origin, 1);
        let mut got = fetch(Fetch { tls: tls(options(), "a.example"), ..get(&group) }).await.result.unwrap();
        let got = read_all(&mut got.body).await;
        assert_eq!(got.ok().as_deref(), body.map(str::as_bytes), "{answer}");
    }
}

#[tokio::test]
async fn a_failed_handshake_asks_the_next_origin() {
    let (authority, other) = (Authority::new("one"), Authority::new("another"));
    let (bad, _) = secure(other.server("a.example"), OK).await;
    let (good, _) = secure(authority.server("a.example"), OK).await;
    let servers = [&bad, &good].map(|origin| larder_origin::Server::new(origin.address.clone())).into_iter().collect();
    let group = Group::new("a", servers, larder_origin::Balance::RoundRobin, larder_origin::Keepalive::NONE);
    let tls = tls(ClientOptions { verify: authority.verify(), ..options() }, "a.example");
    let body = || RequestBody::Memory("abc".into());
    for attempts in [2, 1, 1] {
        let outcome = fetch(Fetch { tls: tls.clone(), body: body(), ..get(&group) }).await;
        assert!(outcome.result.is_ok());
        // The first failure marked it as bad.
        assert_eq!(outcome.attempts.len(), attempts);
    }
}

#[tokio::test]
async fn a_tunnel_may_be_in_tls() {
    let authority = Authority::new("one");
    let acceptor = TlsAcceptor::from(Arc::new(authority.server("a.example")));
    let origin = Origin::tcp(move |_, peer| {
        let acceptor = acceptor.clone();
        async move {
            let mut peer: Peer = Box::new(acceptor.accept(peer).await.unwrap());
            read_http(&mut peer).await.unwrap();
            write(&mut peer, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: echo\r\n\r\nfirst;").await;
            let mut text = Vec::new();
            peer.read_to_end(&mut text).await.unwrap();
            write(&mut peer, &text).await;
            let _ = peer.shutdown().await;
        }
    })
    .await;
    let group = Group::single(origin.address.clone());
    let head = Bytes::from_static(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n");
    let wanted =
        Fetch { protocol: Protocol::Http { head, upgrade: true }, tls: tls(options(), "a.example"), ..get(&group) };
    let tunnel = fetch(wanted).await.result.unwrap().upgraded.unwrap();
    let (mut from, mut to) = tokio::io::split(tunnel);
    let sent: Vec<u8> = (0..300_000).map(|at| (at % 251) as u8).collect();
    to.write_all(&sent).await.unwrap();
    // Says in TLS that nothing more comes, which the origin waits for.
    to.shutdown().await.unwrap();
    let mut text = Vec::new();
    from.read_to_end(&mut text).await.unwrap();
    assert!(text == [b"first;", &sent[..]].concat());
}

#[tokio::test]
async fn a_preface_comes_before_everything_and_keeps_connections_apart() {
    let authority = Authority::new("one");
    let acceptor = TlsAcceptor::from(Arc::new(authority.server("a.example")));
    let prefaces = Arc::new(Mutex::new(Vec::new()));
    let seen = prefaces.clone();
    let origin = Origin::tcp(move |_, mut peer| {
        let (acceptor, seen) = (acceptor.clone(), seen.clone());
        async move {
            let mut line = Vec::new();
            while !line.ends_with(b"\r\n") {
                line.push(peer.read_u8().await.unwrap());
            }
            let line = String::from_utf8(line).unwrap();
            let mut peer: Peer =
                if line.contains("TCP6") { Box::new(acceptor.accept(peer).await.unwrap()) } else { peer };
            seen.lock().unwrap().push(line);
            while read_http(&mut peer).await.is_some() {
                write(&mut peer, OK).await;
            }
        }
    })
    .await;
    let group = keeping(&origin, 8);
    let (one, two) = ("PROXY TCP4 10.0.0.1 10.0.0.9 1 80\r\n", "PROXY TCP4 10.0.0.2 10.0.0.9 1 80\r\n");
    let six = "PROXY TCP6 ::1 ::1 1 80\r\n";
    let secure = tls(options(), "a.example");
    for (line, tls) in [(one, None), (two, None), (one, None), (six, secure.clone()), (two, None), (six, secure)] {
        let preface = Some(Bytes::from_static(line.as_bytes()));
        let wanted = Fetch { preface, tls, ..get(&group) };
        assert_eq!(fetch_whole(wanted).await, b"abc");
    }
    assert_eq!(*prefaces.lock().unwrap(), [one, two, six]);
}
