//! Sessions that go on: tickets, the cache, early data.

use crate::ends::{Ends, TLS12, TLS13, clock, ends, site};
use larder_tls::{ServerConfig, ServerOptions, SessionCache, State, TicketKeys, Verify, VerifyMode};
use rustls::ClientConfig;
use std::io::Write;
use std::sync::Arc;

fn twice(client: &Arc<ClientConfig>, first: &Arc<ServerConfig>, second: &Arc<ServerConfig>) -> Ends {
    ends(client, first).converse();
    let mut again = ends(client, second);
    again.converse();
    again
}

#[test]
fn a_session_is_resumed_by_ticket_or_cache() {
    let tickets = |options: &mut ServerOptions| options.tickets = Some(TicketKeys::random(300, clock()).unwrap());
    let cache = |options: &mut ServerOptions| options.session_cache = Some(SessionCache::new(1 << 20, clock()));
    let neither = |_: &mut ServerOptions| {};
    for (name, change, is_resumed) in [
        ("tickets", &tickets as &dyn Fn(&mut ServerOptions), true),
        ("cache", &cache, true),
        ("neither", &neither, false),
    ] {
        for versions in [TLS12, TLS13] {
            let site = site(change);
            let client = Arc::new(site.client(versions));
            let mut again = twice(&client, &site.config, &site.config);
            assert_eq!(again.server().is_resumed(), is_resumed, "{name} {versions:?}");
            // A session id exists where the server remembers sessions by it, or echoes that of a ticket's client.
            assert_eq!(again.server().session_id().len(), if is_resumed { 64 } else { 0 });
            twice(&client, &site.config, &site.config);
        }
    }
}

#[test]
fn a_session_does_not_go_on_with_other_demands_on_clients() {
    for by_cache in [true, false] {
        let cache = SessionCache::new(1 << 20, clock());
        let keys = TicketKeys::random(300, clock()).unwrap();
        let authority = crate::ends::authority("Test Authority");
        let key = authority.certified("example.com");
        let config = |mode, depth| {
            let mut options = ServerOptions::new(vec![key.clone()], clock());
            options.session_cache = by_cache.then(|| cache.clone());
            options.tickets = (!by_cache).then(|| keys.clone());
            options.verify = Verify { mode, depth, ..Verify::default() };
            ServerConfig::new(options).unwrap().0
        };
        let open = config(VerifyMode::Off, 1);
        let site = crate::ends::Site { authority, config: open.clone() };
        for (other, is_resumed) in [
            (config(VerifyMode::Off, 1), true),
            (config(VerifyMode::Off, 9), true),
            (config(VerifyMode::Optional, 1), false),
            (config(VerifyMode::On, 1), false),
        ] {
            let client = Arc::new(site.client(TLS13));
            assert_eq!(twice(&client, &open, &other).server().is_resumed(), is_resumed, "{by_cache}");
        }
    }
}

#[test]
fn early_data_is_read_and_answered_before_the_handshake_is_over() {
    let site = site(|options| options.early_data_bytes_max = 16 * 1024);
    let mut client = site.client(TLS13);
    client.enable_early_data = true;
    let client = Arc::new(client);
    ends(&client, &site.config).converse();

    let mut ends = ends(&client, &site.config);
    ends.client.early_data().expect("the ticket allows it").write_all(b"early").unwrap();
    ends.carry_to_server();
    assert_eq!(ends.plain, b"early");
    assert!(ends.server().is_early() && ends.server().is_handshaking());
    assert_eq!(ends.state, Some(State::Handshaking));
    ends.write(&[b"ans", b"wer"]);
    ends.carry_to_client().unwrap();
    assert_eq!(ends.answer, b"answer", "it did not wait for the client's Finished");
    assert!(ends.client.is_early_data_accepted());
    ends.plain.clear();
    ends.answer.clear();
    ends.converse();
    assert!(ends.server().had_early_data() && !ends.server().is_early() && ends.server().is_resumed());
}

#[test]
fn early_data_cannot_be_replayed() {
    let site = site(|options| options.early_data_bytes_max = 16 * 1024);
    let mut client = site.client(TLS13);
    client.enable_early_data = true;
    let client = Arc::new(client);
    ends(&client, &site.config).converse();
    let mut first = ends(&client, &site.config);
    first.client.early_data().unwrap().write_all(b"early").unwrap();
    let mut wire = Vec::new();
    while first.client.wants_write() {
        first.client.write_tls(&mut wire).unwrap();
    }
    for (times, plain) in [&b"early"[..], b""].into_iter().enumerate() {
        let mut replay = ends(&client, &site.config);
        replay.incoming.clone_from(&wire);
        replay.serve();
        assert_eq!(replay.plain, plain, "time {times}");
    }
}

#[test]
fn early_data_that_is_refused_comes_again_after_the_handshake() {
    let site = site(|options| {
        options.early_data_bytes_max = 16 * 1024;
        options.session_cache = Some(SessionCache::new(1 << 20, clock()));
    });
    let mut client = site.client(TLS13);
    client.enable_early_data = true;
    let client = Arc::new(client);
    ends(&client, &site.config).converse();
    let other = self::site(|options| options.early_data_bytes_max = 0);
    let mut ends = ends(&client, &other.config);
    ends.client.early_data().unwrap().write_all(b"early").unwrap();
    // The client does not trust the other site; what matters is that the data is skipped and not read.
    let _ = ends.settle();
    assert_eq!(ends.plain, b"");
    assert!(!ends.client.is_early_data_accepted());
}
