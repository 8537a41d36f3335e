//! What we send.

use larder_http::h2::ErrorCode;

use super::*;

const ID: StreamId = StreamId(1);

#[test]
fn an_answer_is_a_head_a_body_and_perhaps_trailers() {
    let mut server = Server::new();
    server.take(&get(1));
    let connection = &mut server.connection;
    connection.send_head(ID, &[0x88], false, &mut server.out);
    assert_eq!(connection.send_data(ID, b"abc", false, &mut server.out), 3);
    assert!(connection.can_send(ID));
    connection.send_trailers(ID, &[0, 1, b'x', 1, b'y'], &mut server.out);
    assert!(!connection.can_send(ID) && !connection.is_open(ID));
    assert_eq!(server.replies(), ["HEADERS 1 1", "DATA 1 3", "HEADERS 1 5 ends"]);
}

#[test]
fn a_head_may_end_an_answer_and_come_before_another() {
    let mut server = Server::new();
    server.take(&get(1));
    server.connection.send_head(ID, &[8, 3, b'1', b'0', b'3'], false, &mut server.out);
    server.connection.send_head(ID, &[0x8b], true, &mut server.out);
    assert_eq!(server.replies(), ["HEADERS 1 5", "HEADERS 1 1 ends"]);
    assert_eq!(server.connection.open_streams(), 0);
}

#[test]
fn an_empty_end_may_follow() {
    let mut server = Server::new();
    server.take(&get(1));
    server.connection.send_head(ID, &[0x88], false, &mut server.out);
    assert_eq!(server.connection.send_data(ID, b"", false, &mut server.out), 0);
    assert_eq!(server.connection.send_data(ID, b"abc", false, &mut server.out), 3);
    assert_eq!(server.connection.send_data(ID, b"", true, &mut server.out), 0);
    assert_eq!(server.replies(), ["HEADERS 1 1", "DATA 1 3", "DATA 1 0 ends"]);
    assert!(!server.connection.is_open(ID));
}

#[test]
fn nothing_is_sent_on_streams_that_are_over() {
    let mut server = Server::new();
    server.take(&[get(1), get(3), reset(3)].concat());
    server.answer(1);
    server.out.clear();
    for stream in [1, 3, 5] {
        server.answer(stream);
        let stream = StreamId(stream);
        let connection = &mut server.connection;
        assert_eq!(connection.send_data(stream, b"abc", true, &mut server.out), 0);
        assert_eq!(connection.send_data(stream, b"", true, &mut server.out), 0);
        connection.send_trailers(stream, b"", &mut server.out);
        connection.reset(stream, ErrorCode::CANCEL, &mut server.out);
        connection.consumed(stream, 10, &mut server.out);
        assert!(!connection.can_send(stream) && !connection.is_open(stream));
    }
    assert_eq!(server.replies(), [""; 0]);
    assert_eq!(server.connection.open_streams(), 0, "resetting lets go");
}

#[test]
fn an_answer_before_the_end_of_the_body_leaves_the_stream_to_the_client() {
    let mut server = Server::new();
    server.take(&[post(1), post(3)].concat());
    server.answer(1);
    server.answer(3);
    server.out.clear();
    assert!(server.connection.is_open(ID));
    assert_eq!(server.take(&data(1, 5)), ["data 1 5"]);
    assert_eq!(server.take(&last_data(1, 5)), ["data 1 5 ends"]);
    assert!(!server.connection.is_open(ID));
    server.connection.reset(StreamId(3), ErrorCode::NO_ERROR, &mut server.out);
    assert_eq!(server.replies(), ["RST_STREAM 3 0"]);
    assert_eq!(server.connection.open_streams(), 0);
}

#[test]
fn large_heads_go_into_as_many_frames_as_the_client_takes() {
    for (frame_bytes, len, replies) in [
        (16_384, 16_384, &["HEADERS 1 16384 ends"][..]),
        (16_384, 16_385, &["HEADERS 1 16384 ends more", "CONTINUATION 1 1"]),
        (16_384, 40_000, &["HEADERS 1 16384 ends more", "CONTINUATION 1 16384 more", "CONTINUATION 1 7232"]),
        (50_000, 40_000, &["HEADERS 1 40000 ends"]),
    ] {
        let mut server = Server::new();
        server.take(&[settings(&[(5, frame_bytes)]), get(1)].concat());
        server.out.clear();
        server.connection.send_head(ID, &vec![0x88; len], true, &mut server.out);
        assert_eq!(server.replies(), replies);
    }
}

#[test]
fn a_client_that_wants_a_smaller_table_is_told_once_that_there_is_none() {
    let mut server = Server::new();
    server.take(&[settings(&[(1, 4096)]), get(1), get(3), get(5), get(7)].concat());
    server.out.clear();
    let send = |server: &mut Server, stream: u32, len: usize| {
        server.connection.send_head(StreamId(stream), &vec![0x88; len], true, &mut server.out);
        frames(&std::mem::take(&mut server.out))
    };
    assert_eq!(send(&mut server, 1, 1)[0].3, [0x88]);
    server.take(&settings(&[(1, 0), (1, 65_536)]));
    server.out.clear();
    let split = send(&mut server, 3, 16_384);
    assert_eq!((split[0].3.len(), split[0].3[0], split[0].3[1], split[1].3.len()), (16_384, 0x20, 0x88, 1));
    assert_eq!(send(&mut server, 5, 1)[0].3, [0x88]);
    server.take(&settings(&[(1, 10)]));
    server.out.clear();
    assert_eq!(send(&mut server, 7, 1)[0].3, [0x88]);
}
