//! What a client may not do for long, and that others may do what looks like it.

use std::time::Duration;

use super::*;

const CALM: &str = "error 11: ";

/// Sends frames until the connection ends, and says after how many.
fn lasts(server: &mut Server, mut frame: impl FnMut(u32) -> Vec<u8>) -> u32 {
    for round in 0..200_000 {
        let events = server.take(&frame(round));
        assert!(server.out.len() < 200);
        server.out.clear();
        if let Some(event) = events.last()
            && event.starts_with("error")
        {
            assert!(event.starts_with(CALM), "{event}");
            return round;
        }
    }
    panic!("the connection lasts");
}

#[test]
fn floods_end() {
    let late = |server: &mut Server| {
        server.take(&get(1));
        server.answer(1);
    };
    type Prepare = fn(&mut Server);
    let open: Prepare = |server| drop(server.take(&post(1)));
    let nothing: Prepare = |_| {};
    let late: Prepare = late;
    for (name, prepare, frame, rounds) in [
        ("SETTINGS", nothing, settings(&[]), 100),
        ("acknowledged SETTINGS", nothing, frame(SETTINGS, ACK, 0, &[]), 100),
        ("PING", nothing, frame(PING, 0, 0, &[0; 8]), 2500),
        ("answers to PING", nothing, frame(PING, ACK, 0, &[0; 8]), 2500),
        ("PRIORITY", nothing, frame(PRIORITY, 0, 1, &[0, 0, 0, 3, 1]), 3333),
        ("PRIORITY_UPDATE", nothing, frame(PRIORITY_UPDATE, 0, 0, &[0, 0, 0, 1]), 3333),
        ("empty DATA", open, data(1, 0), 1000),
        ("DATA with padding only", open, frame(DATA, PADDED, 1, &[3, 0, 0, 0]), 1000),
        ("WINDOW_UPDATE of 1", open, window_update(1, 1), 10_000),
        ("WINDOW_UPDATE of 1 on the connection", open, window_update(0, 1), 10_000),
        ("RST_STREAM when all is over", late, reset(1), 5000),
        ("DATA when all is over", late, data(1, 1), 5000),
        ("unknown frames", nothing, frame(99, 0, 0, b"x"), 5000),
        ("large unknown frames", nothing, frame(99, 0, 0, &[0; 16_384]), 560),
        ("GOAWAY", nothing, frame(GOAWAY, 0, 0, &[0; 8]), 100),
    ] {
        let mut server = Server::new();
        prepare(&mut server);
        // The SETTINGS of the beginning, and what the request earned.
        let lasted = lasts(&mut server, |_| frame.clone());
        assert!(lasted <= rounds && lasted + 2 + rounds / 50 >= rounds, "{name}: {lasted}");
    }
}

#[test]
fn a_body_sent_into_windows_of_one_byte_earns_nothing() {
    let mut server = Server::new();
    server.take(&[settings(&[(4, 0)]), get(1)].concat());
    for round in 0.. {
        assert!(round < 11_000, "the connection lasts");
        let events = server.take(&window_update(1, 1));
        if events != ["window"] {
            assert!(events[0].starts_with(CALM), "{events:?}");
            break;
        }
        assert_eq!(server.connection.send_data(StreamId(1), b"x", false, &mut server.out), 1);
        server.out.clear();
    }
}

#[test]
fn rapid_resets_end() {
    // CVE-2023-44487: a request and at once its reset.
    let mut server = Server::new();
    let rounds = lasts(&mut server, |round| {
        let stream = 2 * round + 1;
        [get(stream), reset(stream)].concat()
    });
    assert!(rounds <= 256, "{rounds}");
    // The same when the application lets go of them at once.
    let mut server = Server::new();
    for round in 0.. {
        let stream = 2 * round + 1;
        let events = server.take(&[get(stream), reset(stream)].concat());
        server.connection.release(StreamId(stream));
        if events.last().is_some_and(|event| event.starts_with(CALM)) {
            assert_eq!(round, 256);
            break;
        }
        assert_eq!(events, [format!("head {stream} ends"), format!("reset {stream} 8")]);
    }
}

#[test]
fn resets_that_a_client_makes_us_send_end() {
    // CVE-2025-8671.
    let with_length: Vec<(&str, &str)> = POST.iter().copied().chain([("content-length", "1")]).collect();
    type Frames = Box<dyn Fn(u32) -> Vec<u8>>;
    let cases: [(&str, Frames); 7] = [
        ("an update of nothing", Box::new(|id| [get(id), window_update(id, 0)].concat())),
        ("a window too large", Box::new(|id| [get(id), window_update(id, i32::MAX as u32)].concat())),
        ("DATA after the end", Box::new(|id| [get(id), data(id, 1)].concat())),
        ("HEADERS after the end", Box::new(|id| [get(id), headers(id, END_STREAM, &[])].concat())),
        ("a body too long", Box::new(move |id| [headers(id, 0, &with_length), data(id, 2)].concat())),
        ("no request", Box::new(|id| headers(id, END_STREAM, &[]))),
        ("trailers that do not end", Box::new(|id| [post(id), headers(id, 0, &[])].concat())),
    ];
    for (name, frames) in cases {
        let mut server = Server::new();
        for round in 0.. {
            let id = 2 * round + 1;
            let events = server.take(&frames(id));
            if events.last().is_some_and(|event| event.starts_with("wrong length")) {
                server.connection.reset(StreamId(id), larder_http::h2::ErrorCode::PROTOCOL_ERROR, &mut server.out);
            }
            server.connection.release(StreamId(id));
            server.connection.send_head(StreamId(id), &[0x8c], true, &mut server.out);
            if events.last().is_some_and(|event| event.starts_with(CALM)) {
                assert_eq!(round, 256, "{name}");
                break;
            }
            assert_eq!(server.connection.open_streams(), 0, "{name}");
        }
    }
    // Streams past the limit.
    let mut server = Server::with(&Config { max_concurrent_streams: 1, ..Config::default() });
    server.take(&get(1));
    assert_eq!(lasts(&mut server, |round| get(2 * round + 3)), 256);
}

#[test]
fn blocks_without_end_end() {
    for (name, part, rounds) in
        [("empty frames", &b""[..], 63), ("small frames", b"\x82", 63), ("large frames", &[0x82; 16_000], 9)]
    {
        let mut server = Server::new();
        server.take(&frame(HEADERS, END_STREAM, 1, &[]));
        assert_eq!(lasts(&mut server, |_| frame(CONTINUATION, 0, 1, part)), rounds, "{name}");
    }
}

#[test]
fn a_small_block_cannot_become_a_large_head() {
    // An entry of nearly the whole table, taken again and again.
    let mut kept = block(&[("x", &"y".repeat(3900))]);
    kept[0] = 0x40;
    let bomb = [block(GET), kept].concat();
    let mut server = Server::new();
    let first = frame(HEADERS, END_STREAM | END_HEADERS, 1, &bomb);
    assert_eq!(server.take(&first), ["head 1 ends"]);
    // Ten times is refused and leaves the connection alone; forty times is not borne.
    let again = |times| [block(GET), vec![0xbe; times]].concat();
    assert_eq!(server.take(&frame(HEADERS, END_STREAM | END_HEADERS, 3, &again(10))), ["head 3 ends refused 494"]);
    assert_eq!(server.take(&get(5)), ["head 5 ends"]);
    let events = server.take(&frame(HEADERS, END_STREAM | END_HEADERS, 7, &again(16_000)));
    assert_eq!(events, ["error 11: much too large field section"]);
    // In trailers, too.
    let mut server = Server::new();
    server.take(&[frame(HEADERS, END_HEADERS, 1, &bomb)].concat());
    let events = server.take(&frame(HEADERS, END_STREAM | END_HEADERS, 1, &[0xbe; 16_000]));
    assert_eq!(events, ["error 11: much too large field section"]);
}

#[test]
fn a_client_that_does_not_read_makes_us_write_no_more_than_it_writes() {
    let mut server = Server::new();
    let mut taken = 0;
    for round in 0..100 {
        let stream = 2 * round + 1;
        for bytes in [frame(PING, 0, 0, &[0; 8]), get(stream), data(stream, 0), reset(stream), data(stream, 1)] {
            taken += bytes.len();
            server.take(&bytes);
        }
        server.connection.release(StreamId(stream));
    }
    assert!(server.out.len() <= 2 * taken, "{} for {taken}", server.out.len());
}

#[test]
fn a_long_connection_is_no_attack() {
    let mut server = Server::new();
    for round in 0..25_000 {
        let stream = 2 * round + 1;
        // Even if no time passes: a request, its priority, the windows of its answer, a PING now and then.
        let mut bytes = [frame(PRIORITY, 0, stream, &[0, 0, 0, 0, 1]), get(stream)].concat();
        bytes.extend(window_update(0, 1024));
        bytes.extend(window_update(stream, 1024));
        if round % 4 == 0 {
            bytes.extend(frame(PING, 0, 0, &[0; 8]));
        }
        assert_eq!(server.take(&bytes), [format!("head {stream} ends")]);
        let id = StreamId(stream);
        server.connection.send_head(id, &[0x88], false, &mut server.out);
        assert_eq!(server.connection.send_data(id, &[0; 1024], true, &mut server.out), 1024);
        server.out.clear();
        // A late update.
        server.take(&window_update(stream, 1024));
    }
    assert!(server.connection.heap_bytes() < 4096, "{}", server.connection.heap_bytes());
}

#[test]
fn a_visitor_who_leaves_many_answers_is_no_attack() {
    let mut server = Server::new();
    let mut stream = 1;
    for _ in 0..100 {
        // A page of a hundred images, of which half are cancelled.
        for image in 0..100 {
            let events = server.take(&if image % 2 == 0 { get(stream) } else { [get(stream), reset(stream)].concat() });
            assert_eq!(events[0], format!("head {stream} ends"));
            server.answer(stream);
            server.connection.release(StreamId(stream));
            server.out.clear();
            stream += 2;
        }
    }
    // And one who only cancels, but slowly.
    for _ in 0..5_000 {
        server.now = server.now.plus(Duration::from_millis(200));
        assert_eq!(server.take(&[get(stream), reset(stream)].concat()).len(), 2);
        server.connection.release(StreamId(stream));
        stream += 2;
    }
}

#[test]
fn a_large_upload_in_small_frames_is_no_attack() {
    let mut server = Server::new();
    server.take(&post(1));
    let mut updates = 0;
    for _ in 0..100_000 {
        assert_eq!(server.take(&data(1, 50)), ["data 1 50"]);
        server.connection.consumed(StreamId(1), 50, &mut server.out);
        updates += server.replies().len();
    }
    assert!((150..180).contains(&updates), "{updates}");
    assert_eq!(server.take(&last_data(1, 0)), ["data 1 0 ends"]);
}

#[test]
fn a_large_download_with_many_updates_is_no_attack() {
    let mut server = Server::new();
    server.take(&get(1));
    let body = [0; 16_384];
    for _ in 0..20_000 {
        let mut rest = &body[..];
        while !rest.is_empty() {
            rest = &rest[server.connection.send_data(StreamId(1), rest, false, &mut server.out)..];
            if rest.is_empty() {
                break;
            }
            server.take(&[window_update(1, 16_384), window_update(0, 16_384)].concat());
        }
        server.out.clear();
        // One PING an answer, as gRPC clients do.
        server.take(&[window_update(1, 16_384), window_update(0, 16_384), frame(PING, 0, 0, &[0; 8])].concat());
    }
}
