//! Open connections: large writes, key updates, the end, and records that are wrong.

use crate::ends::{Ends, TLS12, TLS13, ends, site};
use larder_tls::{SessionError, State};
use std::io::Write;
use std::sync::Arc;

fn opened(versions: &[&'static rustls::SupportedProtocolVersion], record_bytes_max: usize) -> Ends {
    let site = site(|options| options.record_bytes_max = record_bytes_max);
    let mut ends = ends(&Arc::new(site.client(versions)), &site.config);
    ends.converse();
    ends
}

#[test]
fn a_large_write_fills_records_and_gathers_slices() {
    for versions in [TLS12, TLS13] {
        for (record_bytes_max, head, body) in
            [(16_384, 300, 100_000), (4096, 5000, 5000), (1, 3, 2), (usize::MAX, 0, 16_384)]
        {
            let mut ends = opened(versions, record_bytes_max);
            let (head, body) = (vec![b'h'; head], vec![b'b'; body]);
            ends.write(&[&head, &body]);
            let full = record_bytes_max.min(16_384);
            let mut records = 0;
            let mut wire = &ends.sent[..];
            while let [_, _, _, high, low, rest @ ..] = wire {
                wire = &rest[usize::from(u16::from_be_bytes([*high, *low]))..];
                records += 1;
            }
            assert_eq!(records, (head.len() + body.len()).div_ceil(full));
            ends.settle().unwrap();
            assert!(ends.answer == [head, body].concat());
        }
    }
}

#[test]
fn keys_are_updated_in_both_directions() {
    let mut ends = opened(TLS13, 16_384);
    for _ in 0..5 {
        ends.client.refresh_traffic_keys().unwrap();
        ends.client.writer().write_all(b"new keys").unwrap();
        ends.settle().unwrap();
        assert_eq!(ends.error, None);
        assert_eq!(ends.plain, b"new keys");
        ends.plain.clear();
        ends.converse();
    }
    for _ in 0..40 {
        ends.client.refresh_traffic_keys().unwrap();
    }
    ends.carry_to_server();
    assert_eq!(ends.error, Some(SessionError::Refused("unexpected message")), "a flood of them");
}

#[test]
fn a_key_update_right_behind_the_handshake_is_answered() {
    let site = site(|_| {});
    let mut ends = ends(&Arc::new(site.client(TLS13)), &site.config);
    ends.carry_to_server();
    ends.carry_to_client().unwrap();
    ends.client.refresh_traffic_keys().unwrap();
    ends.client.writer().write_all(b"early bird").unwrap();
    ends.settle().unwrap();
    assert_eq!(ends.plain, b"early bird");
    ends.plain.clear();
    ends.converse();
    ends.converse();
}

#[test]
fn each_side_closes_by_itself() {
    for versions in [TLS12, TLS13] {
        let mut ends = opened(versions, 16_384);
        ends.client.writer().write_all(b"last").unwrap();
        ends.client.send_close_notify();
        ends.carry_to_server();
        assert_eq!((ends.state, &ends.plain[..]), (Some(State::Closed), &b"last"[..]));
        ends.write(&[b"still"]);
        let mut sent = std::mem::take(&mut ends.sent);
        ends.server().close(&mut sent);
        let length = sent.len();
        ends.server().close(&mut sent);
        assert_eq!(sent.len(), length, "said once");
        assert_eq!(ends.server().write(&[std::io::IoSlice::new(b"x")], &mut sent), Err(SessionError::Closed));
        ends.sent = sent;
        ends.carry_to_client().unwrap();
        assert_eq!(ends.answer, b"still");
        assert_eq!(std::io::Read::read(&mut ends.client.reader(), &mut [0; 1]).unwrap(), 0, "a clean end");
    }
}

#[test]
fn a_record_that_is_wrong_is_answered_with_an_alert() {
    for versions in [TLS12, TLS13] {
        let is_13 = versions == TLS13;
        type Damage = fn(&mut Vec<u8>);
        let damages: [(&str, Damage, &str, &str); 6] = [
            ("a flipped bit", |wire| wire[20] ^= 1, "bad record mac", "bad record mac"),
            ("a flipped tag", |wire| *wire.last_mut().unwrap() ^= 1, "bad record mac", "bad record mac"),
            ("another type", |wire| wire[0] = 22, "unexpected message", "bad record mac"),
            ("another protocol", |wire| wire[1] = 0x20, "decode error", "decode error"),
            ("too long", |wire| (wire[3], wire[4]) = (0x60, 0), "record overflow", "record overflow"),
            ("empty", |wire| (wire[3], wire[4]) = (0, 0), "bad record mac", "bad record mac"),
        ];
        for (name, damage, in_13, in_12) in damages {
            let mut ends = opened(versions, 16_384);
            ends.client.writer().write_all(b"question").unwrap();
            ends.client.write_tls(&mut ends.incoming).unwrap();
            damage(&mut ends.incoming);
            ends.serve();
            assert_eq!(ends.error, Some(SessionError::Refused(if is_13 { in_13 } else { in_12 })), "{name}");
            assert!(matches!(ends.carry_to_client(), Err(rustls::Error::AlertReceived(_))), "{name}");
            let mut nothing = Vec::new();
            let session = ends.server.as_mut().unwrap();
            assert_eq!(session.read(&mut [], &mut nothing, &mut Vec::new()), Err(SessionError::Closed));
            assert!(session.write(&[std::io::IoSlice::new(b"x")], &mut nothing).is_err());
        }
    }
}

#[test]
fn a_record_replayed_is_no_record() {
    for versions in [TLS12, TLS13] {
        let mut ends = opened(versions, 16_384);
        ends.client.writer().write_all(b"question").unwrap();
        let mut wire = Vec::new();
        ends.client.write_tls(&mut wire).unwrap();
        ends.incoming = [&wire[..], &wire].concat();
        ends.serve();
        assert_eq!(ends.plain, b"question");
        assert_eq!(ends.error, Some(SessionError::Refused("bad record mac")));
    }
}
