//! What an idle session holds, and that writing to one allocates nothing.

use larder_tls::{CertifiedKey, Clock, Hello, ServerConfig, ServerOptions, Session, State, TicketKeys};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use std::alloc::System;
use std::io::IoSlice;
use std::sync::Arc;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// What an idle session may hold on the heap.
const IDLE_BYTES_MAX: usize = 8 * 1024;

const SESSIONS: usize = 50;

/// The two measurements share the allocator, so they share a test.
#[test]
fn an_idle_session_is_small_and_a_write_allocates_nothing() {
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate = rcgen::CertificateParams::new(vec!["example.com".to_owned()]).unwrap().self_signed(&key).unwrap();
    let certified = CertifiedKey::from_der(vec![certificate.der().to_vec()], &key.serialize_der()).unwrap();
    let clock = Clock::new(|| rustls::pki_types::UnixTime::now().as_secs());
    let mut options = ServerOptions::new(vec![certified], clock.clone());
    options.tickets = Some(TicketKeys::random(300, clock).unwrap());
    let (config, _) = ServerConfig::new(options).unwrap();
    for version in [&rustls::version::TLS13, &rustls::version::TLS12] {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(certificate.der().clone()).unwrap();
        let client =
            rustls::ClientConfig::builder_with_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
                .with_protocol_versions(&[version])
                .unwrap()
                .with_root_certificates(roots)
                .with_no_client_auth();
        let client = Arc::new(client);
        let mut sessions: Vec<Session> = Vec::with_capacity(SESSIONS);
        let mut held = 0;
        for _ in 0..SESSIONS {
            let name = rustls::pki_types::ServerName::try_from("example.com").unwrap();
            let mut end = rustls::ClientConnection::new(client.clone(), name).unwrap();
            let mut session: Option<Session> = None;
            let (mut wire, mut plain, mut out) =
                (Vec::with_capacity(1 << 16), Vec::with_capacity(1 << 16), Vec::with_capacity(1 << 16));
            loop {
                while end.wants_write() {
                    end.write_tls(&mut wire).unwrap();
                }
                let region = Region::new(ALLOCATOR);
                let session =
                    session.get_or_insert_with(|| Session::accept(&config, Hello::read(&wire).unwrap().unwrap()));
                let read = session.read(&mut wire, &mut plain, &mut out).unwrap();
                let change = region.change();
                held += change.bytes_allocated as isize + change.bytes_reallocated - change.bytes_deallocated as isize;
                wire.drain(..read.consumed);
                end.read_tls(&mut std::mem::take(&mut out).as_slice()).unwrap();
                end.process_new_packets().unwrap();
                if read.state == State::Open && !end.wants_write() {
                    break;
                }
                out.reserve(1 << 16);
            }
            sessions.push(session.unwrap());
        }
        let idle = held / SESSIONS as isize;
        println!("{version:?}: an idle session holds {idle} bytes, and {} in place", size_of::<Session>());
        assert!(idle + size_of::<Session>() as isize <= IDLE_BYTES_MAX as isize, "{idle} bytes");

        let mut out = Vec::with_capacity(64 * 1024);
        let (head, body) = ([b'h'; 300], vec![b'b'; 40_000]);
        let session = &mut sessions[0];
        let region = Region::new(ALLOCATOR);
        for _ in 0..100 {
            out.clear();
            session.write(&[IoSlice::new(&head), IoSlice::new(&body)], &mut out).unwrap();
        }
        let change = region.change();
        assert_eq!((change.allocations, change.reallocations), (0, 0));
    }
}
