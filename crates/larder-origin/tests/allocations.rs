//! A fetch on a kept connection allocates what its caller gets, and little else.
//!
//! In a test binary of its own, as the counting allocator counts for the whole process.

use std::{
    alloc::System,
    io::{Read, Write},
    net::TcpListener,
    sync::Arc,
};

use bytes::Bytes;
use larder_origin::{
    Address, Balance, Fetch, Group, Keepalive, Limits, Protocol, RequestBody, Retry, RetryRules, Server, fetch,
};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, Stats, StatsAlloc};

#[global_allocator]
static COUNTING: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Fetches in one measurement.
const FETCHES: usize = 200;
/// How often it is measured: the sweep of the pool, every second, may fall into one.
const ROUNDS: usize = 8;
const BODY_BYTES: usize = 1000;

/// An origin that answers what it reads, on each of its connections in turn, without an allocation.
fn origin(answer: Vec<u8>) -> Address {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = Address::Tcp(listener.local_addr().expect("it is bound"));
    std::thread::spawn(move || {
        let mut request = [0; 4096];
        while let Ok((mut peer, _)) = listener.accept() {
            while let Ok(1..) = peer.read(&mut request) {
                peer.write_all(&answer).expect("it reads");
            }
        }
    });
    address
}

fn wanted(group: &Arc<Group>, protocol: Protocol) -> Fetch {
    Fetch {
        group: group.clone(),
        hash_key: Vec::new(),
        protocol,
        body: RequestBody::None,
        limits: Limits::default(),
        tls: None,
        preface: None,
        retry: Retry { rules: RetryRules::default(), tries: 0, timeout: None, is_idempotent: true },
        keep: true,
        gate: larder_origin::gate::Asks::default(),
        method_is_head: false,
    }
}

/// The fewest allocations of a measurement.
fn measured(answer: Vec<u8>, protocol: Protocol) -> Stats {
    let servers = vec![Server::new(origin(answer))];
    let group = Group::new("a", servers, Balance::RoundRobin, Keepalive { requests: u64::MAX, ..Keepalive::of(4) });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let fetch_many = || {
        let region = Region::new(COUNTING);
        runtime.block_on(async {
            for _ in 0..FETCHES {
                let mut answer = fetch(wanted(&group, protocol.clone())).await.result.expect("it answers");
                assert!(answer.body.is_complete());
                let body = answer.body.next().await.expect("it is whole").expect("one piece");
                assert_eq!(body.len(), BODY_BYTES);
            }
        });
        region.change()
    };
    let rounds = (0..ROUNDS).map(|_| fetch_many());
    rounds.min_by_key(|stats| stats.allocations).expect("some rounds")
}

#[test]
fn a_fetch_on_a_kept_connection_allocates_its_head_its_body_and_what_is_told_of_it() {
    let body = "x".repeat(BODY_BYTES);
    let fields = format!("Content-Type: text/html\r\nContent-Length: {BODY_BYTES}\r\n\r\n");
    let http = format!("HTTP/1.1 200 OK\r\n{fields}{body}").into_bytes();
    let stdout = format!("{fields}{body}").into_bytes();
    let [high, low] = (stdout.len() as u16).to_be_bytes();
    let mut records = vec![1, 6, 0, 1, high, low, 0, 0];
    records.extend(stdout);
    records.extend([1, 3, 0, 1, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    let head = Protocol::Http { head: Bytes::from_static(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"), upgrade: false };
    let params = Bytes::from_static(b"\x01\x01Ab");
    let records_head = Protocol::FastCgi { params, catch_stderr: Vec::new() };
    // The head takes three (reason, fields and their index), the body one, the list of attempts one. FastCGI needs one
    // more, in which the parameters are put into records.
    for (name, answer, protocol, allocations) in [("http", http, head, 5), ("fastcgi", records, records_head, 6)] {
        let stats = measured(answer, protocol);
        // One more a round: the runtime's list of who waits for its next look at the sockets.
        assert!(stats.allocations <= allocations * FETCHES + 1, "{name}: {stats:?} in {FETCHES} fetches");
        let bytes = stats.bytes_allocated / FETCHES;
        assert!(bytes <= BODY_BYTES + 2048, "{name}: {bytes} bytes a fetch");
    }
}
