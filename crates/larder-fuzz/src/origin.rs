//! What origins and name servers send.

use larder_origin::fuzzing;

use crate::pieces::pieces;

/// A response in FastCGI records: in pieces as at once.
pub fn fastcgi(data: &[u8]) {
    for is_head in [false, true] {
        let whole = fuzzing::fastcgi(&[data], is_head);
        fuzzing::fastcgi(&pieces(data), is_head).assert_same(whole);
    }
}

/// Answers of name servers: bytes behind one mean nothing, and our questions are read as we asked them.
pub fn dns(data: &[u8]) {
    for by_tcp in [false, true] {
        let reply = fuzzing::dns_reply(data, by_tcp);
        if let Ok(reply) = &reply {
            assert_eq!(fuzzing::dns_reply(&[data, b"more"].concat(), by_tcp).as_ref(), Ok(reply));
        }
        for len in 0..data.len().min(64) {
            drop(fuzzing::dns_reply(&data[..len], by_tcp));
        }
    }
    let name = String::from_utf8_lossy(data).to_ascii_lowercase();
    for kind in 0..3 {
        let Some(mut message) = fuzzing::dns_question(7, &name, kind) else {
            continue;
        };
        message[2] |= 0x80;
        let Ok((id, asked, of)) = fuzzing::dns_reply(&message, false).map(|(id, name, kind, _)| (id, name, kind))
        else {
            continue;
        };
        assert_eq!((id, of), (7, kind));
        assert!(asked == name || name.len() > 253 || !name.is_ascii(), "{asked:?} for {name:?}");
    }
}
