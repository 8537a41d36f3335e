//! What TLS costs the server in processor time: handshakes, writes and reads.
//!
//! `cargo bench -p larder-tls --bench handshakes`

use larder_tls::{CertifiedKey, Clock, Hello, ServerConfig, ServerOptions, Session, SessionCache, State, TicketKeys};
use rustls::pki_types::{ServerName, UnixTime};
use std::io::{IoSlice, Write};
use std::sync::Arc;
use std::time::Duration;

const HANDSHAKES: u32 = 2000;
const BODY_BYTES: usize = 10 * 1024;
const WRITES: u32 = 50_000;

fn main() {
    let clock = Clock::new(|| UnixTime::now().as_secs());
    let key = rcgen::KeyPair::generate().expect("a key");
    let params = rcgen::CertificateParams::new(vec!["example.com".to_owned()]).expect("a name");
    let certificate = params.self_signed(&key).expect("a certificate");
    let certified = CertifiedKey::from_der(vec![certificate.der().to_vec()], &key.serialize_der()).expect("a pair");
    let config = |change: &dyn Fn(&mut ServerOptions)| {
        let mut options = ServerOptions::new(vec![certified.clone()], clock.clone());
        change(&mut options);
        ServerConfig::new(options).expect("a configuration").0
    };
    let plain = config(&|_| {});
    let classic = config(&|options| options.curves = Some("X25519".into()));
    let tickets = config(&|options| options.tickets = TicketKeys::random(300, clock.clone()).ok());
    let cached = config(&|options| options.session_cache = Some(SessionCache::new(10 << 20, clock.clone())));
    let client = |version, resumption: bool| {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(certificate.der().clone()).expect("a root");
        let mut config = rustls::ClientConfig::builder_with_protocol_versions(&[version])
            .with_root_certificates(roots)
            .with_no_client_auth();
        if !resumption {
            config.resumption = rustls::client::Resumption::disabled();
        }
        Arc::new(config)
    };
    for (name, server, client) in [
        ("full, TLS 1.3, X25519MLKEM768", &plain, client(&rustls::version::TLS13, false)),
        ("full, TLS 1.3, X25519", &classic, client(&rustls::version::TLS13, false)),
        ("full, TLS 1.3, X25519MLKEM768, with tickets", &tickets, client(&rustls::version::TLS13, false)),
        ("full, TLS 1.2, X25519", &plain, client(&rustls::version::TLS12, false)),
        ("resumed by ticket, TLS 1.3, X25519MLKEM768", &tickets, client(&rustls::version::TLS13, true)),
        ("resumed by cache, TLS 1.3, X25519MLKEM768", &cached, client(&rustls::version::TLS13, true)),
        ("resumed by ticket, TLS 1.2", &tickets, client(&rustls::version::TLS12, true)),
    ] {
        let mut spent = Duration::ZERO;
        let mut resumed = 0;
        for _ in 0..HANDSHAKES {
            let (_, session, time) = handshake(&client, server);
            spent += time;
            resumed += u32::from(session.is_resumed());
        }
        println!(
            "{:7.1} us  {name} ({resumed} of {HANDSHAKES} resumed)",
            spent.as_secs_f64() * 1e6 / f64::from(HANDSHAKES)
        );
    }
    for version in [&rustls::version::TLS13, &rustls::version::TLS12] {
        let (mut end, mut session, _) = handshake(&client(version, false), &plain);
        writes(&mut session);
        reads(&mut end, &mut session);
    }
}

/// A handshake, and how long the server's end worked on it.
fn handshake(
    client: &Arc<rustls::ClientConfig>,
    server: &Arc<ServerConfig>,
) -> (rustls::ClientConnection, Session, Duration) {
    let name = ServerName::try_from("example.com").expect("a name");
    let mut end = rustls::ClientConnection::new(client.clone(), name).expect("a client");
    let mut session: Option<Session> = None;
    let (mut wire, mut plain, mut out) = (Vec::new(), Vec::with_capacity(1024), Vec::with_capacity(8192));
    let mut spent = Duration::ZERO;
    loop {
        while end.wants_write() {
            end.write_tls(&mut wire).expect("a vector takes anything");
        }
        let start = spent_so_far();
        let at_work = session
            .get_or_insert_with(|| Session::accept(server, Hello::read(&wire).expect("a hello").expect("all of it")));
        let read = at_work.read(&mut wire, &mut plain, &mut out).expect("a handshake");
        spent += spent_so_far() - start;
        wire.drain(..read.consumed);
        end.read_tls(&mut out.as_slice()).expect("bytes");
        end.process_new_packets().expect("a handshake");
        out.clear();
        if read.state == State::Open && !end.wants_write() {
            return (end, session.expect("it is open"), spent);
        }
    }
}

/// The processor time of this thread, which other work on the machine does not change much.
fn spent_so_far() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

fn writes(session: &mut Session) {
    let (head, body) = ([b'h'; 300], [b'b'; BODY_BYTES]);
    let mut out = Vec::with_capacity(BODY_BYTES + 1024);
    let start = spent_so_far();
    for _ in 0..WRITES {
        out.clear();
        session.write(&[IoSlice::new(&head), IoSlice::new(&body)], &mut out).expect("a write");
    }
    report(session, "written", spent_so_far() - start);
}

fn reads(end: &mut rustls::ClientConnection, session: &mut Session) {
    let mut wire = Vec::new();
    let mut plain = Vec::with_capacity(BODY_BYTES);
    let mut spent = Duration::ZERO;
    for _ in 0..WRITES {
        end.writer().write_all(&[b'b'; BODY_BYTES]).expect("a write");
        wire.clear();
        while end.wants_write() {
            end.write_tls(&mut wire).expect("a vector takes anything");
        }
        plain.clear();
        let start = spent_so_far();
        session.read(&mut wire, &mut plain, &mut Vec::new()).expect("records");
        spent += spent_so_far() - start;
    }
    report(session, "read", spent);
}

fn report(session: &Session, verb: &str, spent: Duration) {
    let rate = (BODY_BYTES as f64 * f64::from(WRITES)) / spent.as_secs_f64() / 1e9;
    let each = spent.as_secs_f64() * 1e6 / f64::from(WRITES);
    println!("{each:7.2} us  10 KB {verb}, {} {}: {rate:.2} GB/s", session.protocol(), session.cipher());
}
