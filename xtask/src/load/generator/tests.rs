//! The generator against small servers of its own.

use super::super::certificate::Certificate;
use super::tls::{Client, Group};
use super::*;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::thread;

#[test]
fn visitors_begin_when_they_should() {
    for (start, offsets_ms) in
        [(Start::AtOnce, [0, 0, 0, 0]), (Start::Evenly(1000), [0, 1, 2, 3]), (Start::Bursts(2), [0, 0, 1000, 1000])]
    {
        let found = [0, 1, 2, 3].map(|number| start.offset(number).as_millis());
        assert_eq!(found, offsets_ms, "{start:?}");
    }
}

#[test]
fn an_answer_is_right_or_has_a_fault() {
    let answer = |status, bytes, is_gzip| Answer { status, bytes, is_gzip, ..Answer::default() };
    for (expect, answer, is_right) in [
        (Expect::Bytes(7), answer(200, 7, false), true),
        (Expect::Bytes(7), answer(200, 6, false), false),
        (Expect::Bytes(7), answer(503, 7, false), false),
        (Expect::Bytes(7), answer(200, 7, true), false),
        (Expect::Gzip(7), answer(200, 6, true), true),
        (Expect::Gzip(7), answer(200, 7, true), false),
        (Expect::Gzip(7), answer(200, 6, false), false),
        (Expect::Gzip(7), answer(200, 0, true), false),
    ] {
        assert_eq!(expect.find_fault(&answer).is_none(), is_right, "{expect:?} {answer:?}");
    }
}

/// A server that gives `answer` to every request on any number of connections, and closes where the request asks for it.
fn serve(certificate: Option<&Certificate>, answer: &'static str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().expect("it is bound");
    let config = certificate.map(|certificate| {
        let chain = CertificateDer::pem_slice_iter(certificate.chain_pem().as_bytes()).collect::<Result<Vec<_>, _>>();
        let key = PrivateKeyDer::from_pem_slice(certificate.key_pem().as_bytes()).expect("it is a key");
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let builder = builder.expect("TLS 1.3 is there").with_no_client_auth();
        let mut config =
            builder.with_single_cert(chain.expect("it is a chain"), key).expect("the key is the certificate's");
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Arc::new(config)
    });
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let config = config.clone();
            thread::spawn(move || match config {
                None => speak(stream, answer),
                Some(config) => {
                    let connection = ServerConnection::new(config).expect("the configuration is valid");
                    speak(StreamOwned::new(connection, stream), answer);
                }
            });
        }
    });
    address
}

fn speak(mut stream: impl Read + Write, answer: &str) {
    let mut request = Vec::new();
    let mut part = [0; 1024];
    while let Ok(count @ 1..) = stream.read(&mut part) {
        request.extend_from_slice(&part[..count]);
        if request.ends_with(b"\r\n\r\n") {
            let closes = request.windows(17).any(|text| text == b"Connection: close");
            let sent = stream.write_all(answer.as_bytes()).and_then(|()| stream.flush());
            if closes || answer.is_empty() || sent.is_err() {
                return;
            }
            request.clear();
        }
    }
}

fn plan(address: SocketAddr, tls: Option<Client>) -> Plan<'static> {
    Plan {
        address,
        tls,
        protocol: Protocol::Http1,
        path: "/",
        accepts_gzip: false,
        expect: Expect::Bytes(2),
        visitors: 3,
        requests_each: 7,
        requests_per_connection: u64::MAX,
        pause: None,
        start: Start::AtOnce,
        keeps_bodies: false,
    }
}

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
const OK_CLOSE: &str = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok";

fn count(plan: Plan<'_>) -> Tally {
    let mut visitors = Generator::new(plan).expect("there is an epoll");
    visitors.run(DRAIN_LIMIT).and_then(|()| visitors.drain()).expect("nothing is refused");
    visitors.take_tally()
}

#[test]
fn every_visitor_has_all_answers_over_as_few_connections_as_asked_for() {
    let certificate = Certificate::make().expect("keys can be made");
    for with_tls in [false, true] {
        let client = || Client::quick(&certificate, Group::X25519, b"http/1.1", false).expect("it is valid");
        let server = |answer| serve(with_tls.then_some(&certificate), answer);
        let tls = || with_tls.then(client);
        for (per_connection, answer, connections) in [(u64::MAX, OK, 3), (3, OK, 9), (1, OK_CLOSE, 21)] {
            let plan = Plan { requests_per_connection: per_connection, ..plan(server(answer), tls()) };
            let tally = count(plan);
            assert_eq!((tally.answers, tally.failures), (21, 0), "{per_connection} {:?}", tally.reasons);
            assert_eq!((tally.connections, tally.resumed), (connections, 0), "{per_connection}");
        }
    }
}

#[test]
fn a_visitor_with_a_ticket_resumes() {
    let certificate = Certificate::make().expect("keys can be made");
    let client = Client::quick(&certificate, Group::X25519, b"http/1.1", true).expect("it is valid");
    let plan = Plan { requests_per_connection: 1, ..plan(serve(Some(&certificate), OK_CLOSE), Some(client)) };
    let mut visitors = Generator::new(plan).expect("there is an epoll");
    visitors.warm_up().expect("the server answers");
    visitors.run(DRAIN_LIMIT).expect("nothing is refused");
    let tally = visitors.take_tally();
    assert_eq!((tally.connections, tally.resumed, tally.failures), (21, 21, 0), "{:?}", tally.reasons);
    assert_eq!(tally.agreement.map(|agreed| agreed.group).as_deref(), Some("X25519"));
}

#[test]
fn nothing_fails_silently() {
    let certificate = Certificate::make().expect("keys can be made");
    let other = Certificate::make().expect("keys can be made");
    let careful = |known| Client::careful(known, Group::X25519, b"http/1.1").expect("it is valid");
    let quick = |known| Client::quick(known, Group::X25519, b"http/1.1", false).expect("it is valid");
    for (what, address, tls) in [
        ("another length", serve(None, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nno!"), None),
        ("another status", serve(None, "HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno"), None),
        ("no answer", serve(None, ""), None),
        ("no HTTP", serve(None, "hello\r\n\r\n"), None),
        ("nobody there", TcpListener::bind("127.0.0.1:0").and_then(|gone| gone.local_addr()).expect("a port"), None),
        ("TLS that is not expected", serve(Some(&other), OK), None),
        ("another's certificate", serve(Some(&other), OK), Some(quick(&certificate))),
        ("an unknown root", serve(Some(&other), OK), Some(careful(&certificate))),
    ] {
        let tally = count(Plan { visitors: 1, requests_each: 1, ..plan(address, tls) });
        assert_eq!((tally.answers, tally.failures), (0, 1), "{what}: {:?}", tally.reasons);
        assert_eq!(tally.reasons.len(), 1, "{what}");
    }
}

#[test]
fn a_careful_client_trusts_the_chain() {
    let certificate = Certificate::make().expect("keys can be made");
    let client = Client::careful(&certificate, Group::X25519MlKem768, b"http/1.1").expect("it is valid");
    let plan = Plan { keeps_bodies: true, ..plan(serve(Some(&certificate), OK), Some(client)) };
    let mut visitors = Generator::new(plan).expect("there is an epoll");
    visitors.warm_up().expect("the server answers");
    assert_eq!(visitors.last_body(), b"ok");
}
