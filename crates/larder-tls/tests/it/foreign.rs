//! Bytes of nobody we know: none may panic, and an error always says something to the peer.

use crate::ends::{TLS12, TLS13, ends, site};
use larder_tls::{
    Hello, HelloError, Session, SessionError, State, TicketKeys, VerifyMode, internal_error_alert,
    unrecognized_name_alert,
};
use std::sync::Arc;

/// Numbers without a pattern, the same every time (xorshift64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }
}

/// What a client sends in a handshake and after, each flight by itself.
fn flights(
    versions: &[&'static rustls::SupportedProtocolVersion],
) -> (crate::ends::Site, Arc<rustls::ClientConfig>, Vec<u8>) {
    let site = site(|options| {
        options.early_data_bytes_max = 1000;
        options.verify.mode = VerifyMode::Optional;
    });
    let mut client = site.client(versions);
    client.enable_early_data = true;
    let client = Arc::new(client);
    let mut ends = ends(&client, &site.config);
    let mut hello = Vec::new();
    ends.client.write_tls(&mut hello).unwrap();
    (site, client, hello)
}

#[test]
fn what_is_no_client_hello_is_told_apart() {
    for (bytes, result) in [
        (&b""[..], Ok(None)),
        (b"\x16", Ok(None)),
        (b"\x16\x03\x01\x00\x05\x01\x00", Ok(None)),
        (b"GET / HTTP/1.1\r\n", Err(HelloError::PlainHttp)),
        (b"\r\nPOST / HTTP/1.1\r\n", Err(HelloError::PlainHttp)),
        (b"\x80\x2e\x01\x00\x02", Err(HelloError::NotTls)),
        (b"\x00", Err(HelloError::NotTls)),
        (b"\x16\x02\x00\x00\x05", Err(HelloError::Malformed)),
        (b"\x16\x03\x01\x00\x00\x01", Err(HelloError::Malformed)),
        (b"\x16\x03\x01\x00\x05\x02", Err(HelloError::Malformed)),
        (b"\x16\x03\x01\x00\x05\x01\xff\xff\xff", Err(HelloError::TooLong)),
        (b"\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00", Err(HelloError::Malformed)),
    ] {
        assert_eq!(Hello::read(bytes), result, "{bytes:?}");
    }
    assert_eq!(HelloError::PlainHttp.alert(), None);
    assert_eq!(HelloError::Malformed.alert(), Some([21, 3, 3, 0, 2, 2, 50]));
    assert_eq!(unrecognized_name_alert(), [21, 3, 3, 0, 2, 2, 112]);
    assert_eq!(internal_error_alert(), [21, 3, 3, 0, 2, 2, 80]);
}

#[test]
fn a_hello_reads_the_same_however_it_is_cut_into_records() {
    let (_, _, hello) = flights(TLS13);
    let whole = Hello::read(&hello).unwrap().unwrap();
    assert_eq!(whole.server_name.as_deref(), Some("example.com"));
    assert_eq!(whole.versions[..], [0x0304]);
    assert!(whole.cipher_names().contains("TLS_AES_128_GCM_SHA256"));
    for length in 0..hello.len() {
        assert_eq!(Hello::read(&hello[..length]), Ok(None), "{length}");
    }
    for size in [1, 3, 4, 100, 1000] {
        let cut: Vec<u8> = hello[5..]
            .chunks(size)
            .flat_map(|piece| [&[22, 3, 1][..], &(piece.len() as u16).to_be_bytes(), piece].concat())
            .collect();
        assert_eq!(Hello::read(&cut).unwrap().unwrap(), whole, "{size}");
        assert_eq!(Hello::read(&cut[..cut.len() - 1]), Ok(None), "{size}");
    }
}

#[test]
fn damaged_handshakes_end_with_an_alert() {
    for versions in [TLS12, TLS13] {
        let (site, client, _) = flights(versions);
        let mut random = Random(0x9e37_79b9_7f4a_7c15);
        for _ in 0..300 {
            let mut ends = ends(&client, &site.config);
            if let Some(mut early) = ends.client.early_data() {
                std::io::Write::write_all(&mut early, &[b'e'; 700]).unwrap();
            }
            let damaged_flight = random.below(3);
            for flight in 0..3 {
                let mut wire = Vec::new();
                while ends.client.wants_write() {
                    ends.client.write_tls(&mut wire).unwrap();
                }
                if flight == damaged_flight && !wire.is_empty() {
                    let at = random.below(wire.len());
                    match random.below(3) {
                        0 => wire[at] ^= 1 << random.below(8),
                        1 => wire.truncate(at),
                        _ => wire[at] = random.next() as u8,
                    }
                }
                ends.incoming.extend_from_slice(&wire);
                let before = ends.sent.len();
                ends.serve();
                if let Some(error) = &ends.error {
                    let is_said = ends.sent.len() > before || matches!(error, SessionError::Alert(_));
                    assert!(is_said, "{error:?} without an alert");
                    break;
                }
                if ends.carry_to_client().is_err() {
                    break;
                }
            }
        }
    }
}

#[test]
fn damaged_answers_of_an_origin_are_refused() {
    let site = site(|options| options.tickets = Some(TicketKeys::random(300, crate::ends::clock()).unwrap()));
    let options = larder_tls::ClientOptions::new(crate::ends::clock());
    let (config, _) = larder_tls::ClientConfig::new(options).unwrap();
    let mut random = Random(7);
    for round in 0..300 {
        let mut client = larder_tls::ClientSession::connect(&config, "example.com");
        let mut server: Option<Session> = None;
        let (mut to_server, mut to_client) = (Vec::new(), Vec::new());
        let mut plain = Vec::new();
        client.read(&mut [], &mut plain, &mut to_server).unwrap();
        for turn in 0..3 {
            if !to_server.is_empty() {
                let session = server.get_or_insert_with(|| {
                    Session::accept(&site.config, Hello::read(&to_server).unwrap().expect("a whole ClientHello"))
                });
                let Ok(read) = session.read(&mut to_server, &mut plain, &mut to_client) else {
                    break;
                };
                to_server.drain(..read.consumed);
                if read.state == State::Open {
                    session.write(&[std::io::IoSlice::new(b"answer")], &mut to_client).unwrap();
                }
            }
            if turn == round % 2 && !to_client.is_empty() {
                let at = random.below(to_client.len());
                to_client[at] ^= 1 << random.below(8);
            }
            let before = to_server.len();
            match client.read(&mut to_client, &mut plain, &mut to_server) {
                Ok(read) => drop(to_client.drain(..read.consumed)),
                Err(SessionError::Alert(_)) => break,
                Err(error) => {
                    assert!(to_server.len() > before, "{error:?} without an alert");
                    break;
                }
            }
        }
    }
}

#[test]
fn noise_is_refused_at_every_step() {
    let (site, client, hello) = flights(TLS13);
    let mut random = Random(42);
    for round in 0..300 {
        let mut ends = ends(&client, &site.config);
        if round % 3 == 0 {
            ends.settle().unwrap();
        } else if round % 3 == 1 {
            ends.incoming.clone_from(&hello);
            ends.serve();
        }
        let mut noise: Vec<u8> = (0..random.below(600)).map(|_| random.next() as u8).collect();
        if random.below(2) == 0 && noise.len() > 5 {
            // A header that fits, so that the noise reaches the ciphers.
            let length = (noise.len() - 5) as u16;
            noise[..3].copy_from_slice(&[20 + random.below(4) as u8, 3, 3]);
            noise[3..5].copy_from_slice(&length.to_be_bytes());
        }
        let before = ends.sent.len();
        ends.incoming.extend_from_slice(&noise);
        ends.serve();
        match &ends.error {
            // What looks like HTTP is answered in HTTP; an alert is not answered.
            Some(_) if ends.server.is_none() && Hello::read(&ends.incoming) == Err(HelloError::PlainHttp) => {}
            None | Some(SessionError::Alert(_)) => {}
            Some(error) => assert!(ends.sent.len() > before, "{error:?} without an alert"),
        }
    }
}

#[test]
fn a_client_of_long_ago_is_told_the_version() {
    let hello = [&[3, 2][..], &[7; 32], &[0, 0, 2, 0, 47, 1, 0]].concat();
    let mut wire = [&[22, 3, 1, 0, 45, 1, 0, 0, 41][..], &hello].concat();
    let mut session = Session::accept(&site(|_| {}).config, Hello::read(&wire).unwrap().unwrap());
    let mut out = Vec::new();
    assert!(session.read(&mut wire, &mut Vec::new(), &mut out).is_err());
    assert_eq!(out, [21, 3, 3, 0, 2, 2, 70]);
}

#[test]
fn a_session_takes_any_hello_for_any_bytes() {
    // Whoever holds the session may be wrong about where the ClientHello begins.
    let (site, _, hello) = flights(TLS13);
    for at in 0..hello.len() {
        let mut session = Session::accept(&site.config, Hello::default());
        let (mut plain, mut out) = (Vec::new(), Vec::new());
        if session.read(&mut hello[at..].to_vec(), &mut plain, &mut out).is_err() {
            assert!(!out.is_empty(), "{at}");
            assert!(!session.is_handshaking());
        }
        assert!(plain.is_empty());
    }
}
