//! Flow control, in both directions.

use super::*;

const ID: StreamId = StreamId(1);

fn small() -> Config {
    Config { stream_window_bytes: 100, connection_window_bytes: 65_535, ..Config::default() }
}

#[test]
fn a_window_is_given_back_by_halves() {
    let mut server = Server::with(&small());
    assert_eq!(server.take(&[post(1), data(1, 60)].concat()), ["head 1", "data 1 60"]);
    server.connection.consumed(ID, 49, &mut server.out);
    assert_eq!(server.replies(), [""; 0]);
    server.connection.consumed(ID, 1, &mut server.out);
    assert_eq!(server.replies(), ["WINDOW_UPDATE 1 50"]);
    server.connection.consumed(ID, 1000, &mut server.out);
    assert_eq!(server.take(&data(1, 91)), ["reset 1 3"], "only what was held is given back");
    assert_eq!(server.replies(), ["RST_STREAM 1 3"]);
}

#[test]
fn padding_is_given_back_at_once() {
    let mut server = Server::with(&small());
    server.take(&post(1));
    assert_eq!(server.take(&frame(DATA, PADDED, 1, &[&[49][..], &[0; 50]].concat())), ["data 1 1"]);
    assert_eq!(server.replies(), ["WINDOW_UPDATE 1 50"]);
}

#[test]
fn nobody_hears_of_the_window_of_a_body_that_is_complete() {
    let mut server = Server::with(&small());
    server.take(&[post(1), last_data(1, 100)].concat());
    server.connection.consumed(ID, 100, &mut server.out);
    assert_eq!(server.replies(), [""; 0]);
}

#[test]
fn the_window_of_the_connection_never_leaks() {
    let mut server = Server::with(&Config { connection_window_bytes: 65_535, ..Config::default() });
    let mut granted: i64 = 65_535;
    let mut sent: i64 = 0;
    for round in 0..2000_u32 {
        let stream = 2 * round + 1;
        // Bodies that are consumed, held, refused, reset by either side, late, padded.
        let frame = match round % 7 {
            0 => [post(stream), last_data(stream, 1000)].concat(),
            1 => [post(stream), data(stream, 1000), reset(stream)].concat(),
            2 => [get(stream), data(stream, 1000)].concat(),
            3 => [post(stream), reset(stream), data(stream, 1000)].concat(),
            4 => [post(stream), frame(DATA, PADDED, stream, &[&[99][..], &[0; 999]].concat())].concat(),
            5 => [headers(stream, 0, &[(":method", "GET")]), data(stream, 1000)].concat(),
            _ => {
                let with_length: Vec<(&str, &str)> = POST.iter().copied().chain([("content-length", "1")]).collect();
                [headers(stream, 0, &with_length), data(stream, 1000)].concat()
            }
        };
        server.now = server.now.plus(std::time::Duration::from_secs(1));
        let events = server.take(&frame);
        assert!(!events.iter().any(|event| event.starts_with("error")), "{events:?}");
        sent += 1000;
        if round % 2 == 0 {
            server.connection.consumed(StreamId(stream), 700, &mut server.out);
        }
        server.answer(stream);
        server.connection.reset(StreamId(stream), larder_http::h2::ErrorCode::NO_ERROR, &mut server.out);
        server.connection.consumed(StreamId(stream), 1000, &mut server.out);
        for reply in server.replies() {
            if let Some(bytes) = reply.strip_prefix("WINDOW_UPDATE 0 ") {
                granted += bytes.parse::<i64>().expect("we wrote it");
            }
        }
        assert_eq!(server.connection.open_streams(), 0);
        assert!(granted - sent > 65_535 / 2 - 1000 && granted - sent <= 65_535, "{round}: {}", granted - sent);
    }
}

#[test]
fn what_is_sent_past_a_window_is_an_error() {
    let mut server = Server::with(&small());
    assert_eq!(server.take(&[post(1), data(1, 101)].concat()), ["head 1", "reset 1 3"]);
    let mut server = Server::with(&Config { connection_window_bytes: 65_535, ..Config::default() });
    server.take(&[post(1), post(3)].concat());
    for _ in 0..3 {
        server.take(&data(1, 16_384));
    }
    assert_eq!(server.take(&data(3, 16_384)), ["error 3: more DATA than the connection may take"]);
}

#[test]
fn a_client_that_does_not_know_that_it_may_send_less_is_to_try_again() {
    let mut server = Server::silent(&small());
    server.take(&[PREFACE, &settings(&[])].concat());
    server.out.clear();
    assert_eq!(server.take(&[post(1), data(1, 16_000)].concat()), [""; 0]);
    assert_eq!(server.replies(), ["RST_STREAM 1 7"]);
    assert_eq!(server.take(&get(3)), ["head 3 ends"], "without a body there is nothing to know");
    server.take(&frame(SETTINGS, ACK, 0, &[]));
    assert_eq!(server.take(&post(5)), ["head 5"]);
    assert_eq!(server.take(&data(5, 101)), ["reset 5 3"]);
    let mut server = Server::silent(&Config::default());
    server.take(&[PREFACE, &settings(&[]), &post(1)].concat());
    assert_eq!(server.take(&data(1, 16_000)), ["data 1 16000"], "as much as everybody may");
}

#[test]
fn a_window_can_be_widened_once_somebody_reads() {
    let mut server = Server::with(&small());
    server.take(&[post(1), data(1, 60)].concat());
    server.connection.widen(ID, 50, &mut server.out);
    assert_eq!(server.replies(), [""; 0]);
    server.connection.widen(ID, 10_000, &mut server.out);
    assert_eq!(server.replies(), ["WINDOW_UPDATE 1 9900"]);
    assert_eq!(server.take(&data(1, 9_940)), ["data 1 9940"]);
    server.connection.consumed(ID, 5000, &mut server.out);
    assert_eq!(server.replies(), ["WINDOW_UPDATE 1 5000"]);
    server.connection.widen(ID, u32::MAX, &mut server.out);
    assert_eq!(server.replies(), ["WINDOW_UPDATE 1 2147473647"]);
    server.connection.consumed(ID, 5000, &mut server.out);
    server.connection.widen(StreamId(77), 10_000, &mut server.out);
    assert_eq!(server.replies(), [""; 0]);
}

#[test]
fn we_send_what_stream_and_connection_allow() {
    let mut server = Server::new();
    server.take(&[settings(&[(4, 10)]), get(1), get(3)].concat());
    server.out.clear();
    assert_eq!(server.connection.capacity(ID), 10);
    assert_eq!(server.connection.send_data(ID, &[b'x'; 15], true, &mut server.out), 10);
    assert_eq!(server.replies(), ["DATA 1 10"], "the end comes with the last byte");
    assert_eq!(server.connection.capacity(ID), 0);
    assert_eq!(server.connection.send_data(ID, b"x", true, &mut server.out), 0);
    assert_eq!(server.take(&window_update(1, 3)), ["window"]);
    assert_eq!(server.take(&window_update(1, 3)), [""; 0], "it could send before");
    assert_eq!(server.connection.send_data(ID, &[b'x'; 5], true, &mut server.out), 5);
    assert_eq!(server.replies(), ["DATA 1 5 ends"]);
    assert_eq!(server.connection.capacity(ID), 0);
    // Up to the window of the connection.
    let three = StreamId(3);
    server.take(&window_update(3, 100_000));
    assert_eq!(server.connection.capacity(three), 65_535 - 15);
    let sent = server.connection.send_data(three, &[b'x'; 100_000], true, &mut server.out);
    assert_eq!(sent, 65_520);
    assert_eq!(server.replies(), ["DATA 3 16384", "DATA 3 16384", "DATA 3 16384", "DATA 3 16368"]);
    assert_eq!(server.take(&window_update(3, 1)), [""; 0], "the connection still cannot");
    assert_eq!(server.take(&window_update(0, 1)), ["window"]);
    assert_eq!(server.connection.capacity(three), 1);
}

#[test]
fn settings_change_the_windows_of_all_streams() {
    let mut server = Server::new();
    server.take(&[get(1), get(3)].concat());
    assert_eq!(server.connection.send_data(ID, &[0; 100], false, &mut server.out), 100);
    assert_eq!(server.take(&settings(&[(4, 50)])), [""; 0]);
    assert_eq!((server.connection.capacity(ID), server.connection.capacity(StreamId(3))), (0, 50));
    assert_eq!(server.take(&window_update(1, 50)), [""; 0], "the window was below zero");
    assert_eq!(server.take(&settings(&[(4, 10), (4, 51)])), ["window"]);
    assert_eq!((server.connection.capacity(ID), server.connection.capacity(StreamId(3))), (1, 51));
    assert_eq!(server.take(&settings(&[(4, 0), (4, 51)])), [""; 0]);
    server.take(&window_update(3, i32::MAX as u32 - 51));
    assert_eq!(server.take(&settings(&[(4, 52)])), ["error 3: SETTINGS that make a window too large"]);
}
