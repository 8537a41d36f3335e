//! A request over HTTP/2 allocates nothing once a connection has seen a few.
//!
//! In a test binary of its own, as the counting allocator counts for the whole process.

use std::alloc::System;

use larder_http::h2::{Config, Connection, Event, PREFACE, StreamId, hpack};
use larder_http::{RequestHead, Time};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static COUNTING: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// A frame.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let len = (payload.len() as u32).to_be_bytes();
    [&len[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// A request with fields that go into the table, a cookie in crumbs, and a path of its own.
fn request(stream: u32) -> Vec<u8> {
    let mut block = vec![0x82, 0x87];
    hpack::encode_field(b":path", format!("/page/{stream}").as_bytes(), &mut block);
    // Kept under their static names: `:authority`, `user-agent` and `cookie`; and under a new one.
    for (name, value) in [(1, &b"www.example.org"[..]), (58, b"Mozilla/5.0"), (32, b"a=1")] {
        block.extend_from_slice(&[0x40 | name, value.len() as u8]);
        block.extend_from_slice(value);
    }
    block.extend_from_slice(b"\x40\x07x-other\x011");
    hpack::encode_field(b"cookie", b"b=2", &mut block);
    hpack::encode_field(b"priority", b"u=1, i", &mut block);
    frame(1, 5, stream, &block)
}

#[test]
fn a_request_allocates_nothing() {
    let mut out = Vec::new();
    let mut connection = Connection::new(&Config::default(), &mut out);
    let mut head = RequestHead::new();
    let hello = [PREFACE, &frame(4, 0, 0, &[]), &frame(4, 1, 0, &[])].concat();
    let requests: Vec<Vec<u8>> = (0..2000).map(|number| request(2 * number + 1)).collect();
    let mut answer = Vec::new();
    let body = [b'x'; 1024];
    let mut serve = |bytes: &[u8], connection: &mut Connection| {
        let mut rest = bytes;
        let mut served = 0;
        while let Some(event) = connection.next(&mut rest, &mut head, &mut out, Time(1)).expect("nothing is wrong") {
            let Event::Head { stream, ends: true, refused: None } = event else { continue };
            assert!(head.target().starts_with(b"/page/"));
            answer.clear();
            hpack::encode_status(200, &mut answer);
            hpack::encode_lines(b"Server: larder\r\nContent-Type: text/html\r\n", &mut answer);
            connection.send_head(stream, &answer, false, &mut out);
            assert_eq!(connection.send_data(stream, &body, true, &mut out), body.len());
            served += 1;
        }
        out.clear();
        // The client reads, and says so.
        let update = [0, 0, 4, 8, 0, 0, 0, 0, 0, 0, 0, 16, 0];
        for _ in 0..served {
            assert!(connection.next(&mut &update[..], &mut head, &mut out, Time(1)).is_ok());
        }
        served
    };
    assert_eq!(serve(&hello, &mut connection), 0);
    for request in &requests[..200] {
        assert_eq!(serve(request, &mut connection), 1);
    }
    let region = Region::new(COUNTING);
    for request in &requests[200..] {
        serve(request, &mut connection);
    }
    assert_eq!(region.change().allocations, 0);
    assert_eq!(connection.open_streams(), 0);
    assert!(connection.capacity(StreamId(1)) == 0 && connection.heap_bytes() < 8192, "{}", connection.heap_bytes());
}
