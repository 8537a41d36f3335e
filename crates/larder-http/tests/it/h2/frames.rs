//! Which frames may come when, and what is answered to the others.

use super::*;

#[test]
fn a_connection_begins_with_settings_on_both_sides() {
    let mut server = Server::silent(&Config::default());
    assert_eq!(server.replies(), ["SETTINGS 3=128 4=65536", "WINDOW_UPDATE 0 983041"]);
    assert_eq!(server.take(&hello()), [""; 0]);
    assert_eq!(server.replies(), ["SETTINGS ack"]);
    let plain = Config {
        max_concurrent_streams: u32::MAX,
        stream_window_bytes: 65_535,
        connection_window_bytes: 0,
        max_frame_bytes: 20_000,
        ..Config::default()
    };
    assert_eq!(Server::silent(&plain).replies(), ["SETTINGS 5=20000"]);
    let mut acknowledging = Server::silent(&Config::default());
    assert_eq!(acknowledging.take(&[PREFACE, &frame(SETTINGS, ACK, 0, &[]), &get(1)].concat()), ["head 1 ends"]);
    let mut hasty = Server::silent(&Config::default());
    assert_eq!(hasty.take(&[PREFACE, &get(1)].concat()), ["head 1 ends"], "there are clients without settings");
    for (bytes, error) in [
        (b"GET / HTTP/1.1\r\n".to_vec(), "error 1: invalid connection preface"),
        (b"PRI * HTTP/2.0\r\n\r\nXX".to_vec(), "error 1: invalid connection preface"),
    ] {
        let mut server = Server::silent(&Config::default());
        server.out.clear();
        assert_eq!(server.take(&bytes), [error]);
        assert_eq!(server.replies(), ["GOAWAY 0 1"]);
        assert_eq!(server.take(&[]), [error], "an error stays");
        assert_eq!(server.replies(), [""; 0], "a GOAWAY is written once");
    }
}

#[test]
fn frames_that_end_the_connection() {
    let long_frame = vec![0; 16_385];
    let broken = "HEADERS with a broken block";
    for (name, bytes, code) in [
        ("DATA on the connection", frame(DATA, 0, 0, b"x"), 1),
        ("DATA before the stream", data(3, 1), 1),
        ("DATA with too much padding", frame(DATA, PADDED, 1, &[5, 0, 0, 0, 0]), 1),
        ("DATA without its padding", frame(DATA, PADDED, 1, &[]), 6),
        ("HEADERS on the connection", headers(0, END_STREAM, GET), 1),
        ("HEADERS with an even number", get(2), 1),
        ("HEADERS too short for a priority", frame(HEADERS, END_HEADERS | WITH_PRIORITY, 3, &[0; 4]), 6),
        ("HEADERS that depend on themselves", frame(HEADERS, END_HEADERS | WITH_PRIORITY, 3, &[0, 0, 0, 3, 1]), 1),
        (broken, frame(HEADERS, END_HEADERS, 3, &[0x80]), 9),
        ("PRIORITY on the connection", frame(PRIORITY, 0, 0, &[0, 0, 0, 1, 1]), 1),
        ("PRIORITY on itself", frame(PRIORITY, 0, 1, &[0, 0, 0, 1, 1]), 1),
        ("PRIORITY of four bytes", frame(PRIORITY, 0, 1, &[0; 4]), 6),
        ("RST_STREAM on the connection", reset(0), 1),
        ("RST_STREAM before the stream", reset(3), 1),
        ("RST_STREAM of three bytes", frame(RST_STREAM, 0, 1, &[0; 3]), 6),
        ("SETTINGS on a stream", frame(SETTINGS, 0, 1, &[]), 1),
        ("SETTINGS of five bytes", frame(SETTINGS, 0, 0, &[0; 5]), 6),
        ("SETTINGS that acknowledge and set", frame(SETTINGS, ACK, 0, &[0; 6]), 6),
        ("ENABLE_PUSH=2", settings(&[(2, 2)]), 1),
        ("INITIAL_WINDOW_SIZE=2^31", settings(&[(4, 1 << 31)]), 3),
        ("MAX_FRAME_SIZE=16383", settings(&[(5, 16_383)]), 1),
        ("MAX_FRAME_SIZE=2^24", settings(&[(5, 1 << 24)]), 1),
        ("NO_RFC7540_PRIORITIES=2", settings(&[(9, 2)]), 1),
        ("PUSH_PROMISE", frame(PUSH_PROMISE, END_HEADERS, 1, &[0, 0, 0, 2]), 1),
        ("the head of a PUSH_PROMISE", frame(PUSH_PROMISE, END_HEADERS, 1, &[0, 0, 0, 2])[..9].to_vec(), 1),
        ("PING on a stream", frame(PING, 0, 1, &[0; 8]), 1),
        ("PING of seven bytes", frame(PING, 0, 0, &[0; 7]), 6),
        ("GOAWAY on a stream", frame(GOAWAY, 0, 1, &[0; 8]), 1),
        ("GOAWAY of seven bytes", frame(GOAWAY, 0, 0, &[0; 7]), 6),
        ("WINDOW_UPDATE of nothing", window_update(0, 0), 1),
        ("WINDOW_UPDATE past the end", window_update(0, i32::MAX as u32), 3),
        ("WINDOW_UPDATE before the stream", window_update(3, 1), 1),
        ("WINDOW_UPDATE of five bytes", frame(WINDOW_UPDATE, 0, 0, &[0; 5]), 6),
        ("CONTINUATION of nothing", frame(CONTINUATION, END_HEADERS, 1, &[]), 1),
        ("PRIORITY_UPDATE on a stream", frame(PRIORITY_UPDATE, 0, 1, &[0, 0, 0, 1]), 1),
        ("PRIORITY_UPDATE of no stream", frame(PRIORITY_UPDATE, 0, 0, &[0; 4]), 1),
        ("PRIORITY_UPDATE of three bytes", frame(PRIORITY_UPDATE, 0, 0, &[0; 3]), 6),
        ("a frame within a block", [frame(HEADERS, 0, 3, &[0x82]), frame(PING, 0, 0, &[0; 8])].concat(), 1),
        ("CONTINUATION of another stream", [frame(HEADERS, 0, 3, &[]), frame(CONTINUATION, 4, 1, &[])].concat(), 1),
        ("a long frame", frame(DATA, 0, 1, &long_frame), 6),
        ("a long frame of unknown type", frame(99, 0, 1, &long_frame), 6),
    ] {
        let mut server = Server::new();
        assert_eq!(server.take(&post(1)), ["head 1"]);
        let events = server.take(&bytes);
        assert!(events[0].starts_with(&format!("error {code}: ")), "{name}: {events:?}");
        let last = if name == broken { 3 } else { 1 };
        assert_eq!(server.replies().last(), Some(&format!("GOAWAY {last} {code}")), "{name}");
    }
}

#[test]
fn frames_that_nobody_minds() {
    for (name, bytes, events, replies) in [
        ("a PING", frame(PING, 0, 0, &[0, 0, 0, 0, 0, 0, 0, 7]), &[][..], &["PING 1 7"][..]),
        ("the answer to a PING", frame(PING, ACK, 0, &[0; 8]), &[], &[]),
        ("SETTINGS that nobody knows", settings(&[(99, 1), (6, 1), (3, 0), (8, 1)]), &[], &["SETTINGS ack"]),
        ("a type that nobody knows", frame(99, 255, 77, b"abc"), &[], &[]),
        ("flags that nobody knows", frame(WINDOW_UPDATE, 255, 0, &[0, 0, 0, 1]), &[], &[]),
        ("the reserved bit", window_update(1 << 31, 1 << 31 | 5), &[], &[]),
        ("PRIORITY of a stream to come", frame(PRIORITY, 0, 99, &[0, 0, 0, 1, 1]), &[], &[]),
        ("PRIORITY_UPDATE of a stream to come", frame(PRIORITY_UPDATE, 0, 0, &[0, 0, 0, 99, b'i']), &[], &[]),
        ("GOAWAY", frame(GOAWAY, 0, 0, &[0; 20]), &["go away"], &[]),
        ("DATA with padding only", frame(DATA, PADDED, 1, &[3, 0, 0, 0]), &[], &[]),
        ("DATA with padding", frame(DATA, PADDED | END_STREAM, 1, &[1, 7, 0]), &["data 1 1 ends"], &[]),
        ("no DATA at the end", last_data(1, 0), &["data 1 0 ends"], &[]),
    ] {
        let mut server = Server::new();
        assert_eq!(server.take(&post(1)), ["head 1"]);
        assert_eq!(server.take(&bytes), events, "{name}");
        assert_eq!(server.replies(), replies, "{name}");
        assert!(server.connection.is_open(StreamId(1)));
    }
}

#[test]
fn late_frames_are_told_from_wrong_ones() {
    // The stream 1 runs, 3 is complete on the client's side, 5 and 7 are over, 9 was reset by the client and is not
    // released, 11 was reset by us.
    let begun = || {
        let mut server = Server::new();
        for stream in [1, 3, 5, 7, 9, 11] {
            server.take(&if stream == 3 || stream == 5 || stream == 7 { get(stream) } else { post(stream) });
        }
        server.answer(5);
        server.answer(7);
        server.take(&reset(9));
        server.connection.reset(StreamId(11), larder_http::h2::ErrorCode::NO_ERROR, &mut server.out);
        server.out.clear();
        server
    };
    let ok: &[&str] = &[];
    for (name, bytes, events, replies) in [
        ("DATA after the end", data(3, 1), &["reset 3 5"][..], &["RST_STREAM 3 5"][..]),
        ("HEADERS after the end", headers(3, END_STREAM, &[]), &["reset 3 5"], &["RST_STREAM 3 5"]),
        ("DATA when all is over", data(5, 1), ok, &["RST_STREAM 5 5"]),
        ("DATA after a reset", data(9, 1), ok, &["RST_STREAM 9 5"]),
        ("DATA after our reset", data(11, 1), ok, ok),
        ("trailers after our reset", headers(11, END_STREAM, &[]), ok, ok),
        ("WINDOW_UPDATE when all is over", window_update(5, 1), ok, ok),
        ("WINDOW_UPDATE of nothing when all is over", window_update(5, 0), ok, ok),
        ("WINDOW_UPDATE after a reset", window_update(9, 1), ok, ok),
        ("RST_STREAM when all is over", reset(5), ok, ok),
        ("RST_STREAM twice", reset(9), ok, ok),
        ("RST_STREAM after our reset", reset(11), ok, ok),
        ("PRIORITY when all is over", frame(PRIORITY, 0, 5, &[0, 0, 0, 1, 1]), ok, ok),
        (
            "HEADERS when all is over",
            headers(5, END_STREAM, &[]),
            &["error 5: HEADERS on a stream that is closed"],
            &["GOAWAY 11 5"],
        ),
        (
            "HEADERS after a reset",
            headers(9, END_STREAM, &[]),
            &["error 5: HEADERS on a stream that is closed"],
            &["GOAWAY 11 5"],
        ),
        ("a window that is too large", window_update(1, i32::MAX as u32), &["reset 1 3"], &["RST_STREAM 1 3"]),
        ("a window update of nothing", window_update(1, 0), &["reset 1 1"], &["RST_STREAM 1 1"]),
    ] {
        let mut server = begun();
        assert_eq!(server.take(&bytes), events, "{name}");
        assert_eq!(server.replies(), replies, "{name}");
    }
    let mut server = begun();
    server.take(&get(15));
    assert_eq!(server.take(&get(13)), ["error 1: HEADERS with an identifier that is too low"], "it never began");
}

#[test]
fn trailers_end_a_body() {
    let with_length: Vec<(&str, &str)> = POST.iter().copied().chain([("content-length", "3")]).collect();
    for (name, first, bytes, events) in [
        ("in order", POST, headers(1, END_STREAM, &[("x", "y")]), &["trailers 1"][..]),
        ("without fields", POST, headers(1, END_STREAM, &[]), &["trailers 1"]),
        ("that do not end", POST, headers(1, 0, &[("x", "y")]), &["reset 1 1"]),
        ("with a pseudo field", POST, headers(1, END_STREAM, &[(":path", "/")]), &["reset 1 1"]),
        ("with a capital letter", POST, headers(1, END_STREAM, &[("X", "y")]), &["reset 1 1"]),
        ("with a line end", POST, headers(1, END_STREAM, &[("x", "y\n")]), &["reset 1 1"]),
        ("before the length", &with_length, headers(1, END_STREAM, &[]), &["reset 1 1"]),
        (
            "at the length",
            &with_length,
            [data(1, 3), headers(1, END_STREAM, &[])].concat(),
            &["data 1 3", "trailers 1"],
        ),
    ] {
        let mut server = Server::new();
        server.take(&headers(1, 0, first));
        assert_eq!(server.take(&bytes), events, "{name}");
    }
}

#[test]
fn more_streams_than_allowed_are_refused_and_counted_until_released() {
    let mut server = Server::with(&Config { max_concurrent_streams: 2, ..Config::default() });
    server.take(&[get(1), post(3)].concat());
    assert_eq!(server.take(&get(5)), [""; 0]);
    assert_eq!(server.replies(), ["RST_STREAM 5 7"]);
    assert_eq!(server.take(&reset(3)), ["reset 3 8"]);
    assert_eq!(server.connection.open_streams(), 2, "the application has not let go of it");
    assert_eq!(server.take(&get(7)), [""; 0]);
    server.connection.release(StreamId(3));
    assert_eq!(server.take(&get(9)), ["head 9 ends"]);
    server.connection.release(StreamId(9));
    assert!(server.connection.is_open(StreamId(9)), "a stream that runs is not let go of");
    server.answer(1);
    server.answer(9);
    assert_eq!(server.connection.open_streams(), 0);
}

#[test]
fn who_goes_away_finishes_what_has_begun() {
    let mut server = Server::new();
    server.take(&[get(1), post(3)].concat());
    server.connection.go_away(&mut server.out);
    server.connection.go_away(&mut server.out);
    assert_eq!(server.replies(), ["GOAWAY 3 0"]);
    assert!(server.connection.is_draining());
    // Late streams are not answered at all, but what they put into the table of fields stays known.
    let mut late = block(GET);
    late.extend_from_slice(&[0x40, 1, b'x', 1, b'y']);
    let late = [frame(HEADERS, END_HEADERS, 5, &late), data(5, 3), reset(5), window_update(5, 1)].concat();
    assert_eq!(server.take(&late), [""; 0]);
    assert_eq!(server.replies(), [""; 0]);
    assert_eq!(server.take(&frame(HEADERS, END_HEADERS | END_STREAM, 3, &[0xbe])), ["trailers 3"]);
    server.answer(1);
    server.answer(3);
    assert_eq!(server.connection.open_streams(), 0);
    let mut server = Server::new();
    server.take(&frame(GOAWAY, 0, 0, &[0; 8]));
    assert!(server.connection.is_draining());
}
