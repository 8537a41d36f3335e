//! Who sends first.

use super::*;

/// The streams in the order in which they send.
fn order(server: &Server, streams: &[u32]) -> Vec<u32> {
    let mut streams: Vec<StreamId> = streams.iter().map(|&stream| StreamId(stream)).collect();
    streams.sort_by(|&a, &b| server.connection.order(a, b));
    streams.iter().map(|stream| stream.0).collect()
}

fn dependent(stream: u32, on: u32, weight: u8) -> Vec<u8> {
    let payload = [&on.to_be_bytes()[..], &[weight], &block(GET)].concat();
    frame(HEADERS, END_STREAM | END_HEADERS | WITH_PRIORITY, stream, &payload)
}

#[test]
fn without_a_word_all_take_turns() {
    let mut server = Server::new();
    server.take(&[get(1), get(3)].concat());
    assert_eq!(server.connection.order(StreamId(1), StreamId(3)), std::cmp::Ordering::Equal);
}

#[test]
fn the_tree_decides() {
    let mut server = Server::new();
    server.take(&[dependent(1, 0, 10), dependent(3, 0, 200), dependent(5, 3, 255), get(7)].concat());
    assert_eq!(order(&server, &[1, 3, 5, 7]), [3, 7, 1, 5]);
    // 3 moves below 5, which takes its place.
    server.take(&frame(PRIORITY, 0, 3, &[0, 0, 0, 5, 0]));
    assert_eq!(order(&server, &[1, 3, 5, 7]), [5, 7, 1, 3]);
    // A stream that is over keeps its place for those that depend on it.
    server.answer(5);
    assert_eq!(order(&server, &[1, 3, 7]), [7, 1, 3]);
    // A stream may be given a place before it begins.
    server.take(&[frame(PRIORITY, 0, 9, &[0, 0, 0, 0, 255]), get(9)].concat());
    assert_eq!(order(&server, &[1, 3, 7, 9]), [9, 7, 1, 3]);
}

#[test]
fn urgency_decides_once_the_client_speaks_of_it() {
    let with = |stream, value| headers(stream, END_STREAM, &[GET, &[("priority", value)]].concat());
    let mut server = Server::new();
    server.take(&[dependent(1, 0, 255), with(3, "u=5"), with(5, "u=1, i"), with(7, "u=1"), get(9)].concat());
    assert_eq!(order(&server, &[1, 3, 5, 7, 9]), [7, 5, 1, 9, 3]);
    let update = |stream: u32, value: &str| {
        frame(PRIORITY_UPDATE, 0, 0, &[&stream.to_be_bytes()[..], value.as_bytes()].concat())
    };
    server.take(&[update(3, "u=0"), update(11, "u=0, i"), update(11, "u=0"), with(11, "u=7")].concat());
    assert_eq!(order(&server, &[1, 3, 5, 7, 9, 11]), [3, 11, 7, 5, 1, 9]);
    let mut server = Server::new();
    server.take(&[settings(&[(9, 1)]), dependent(1, 0, 1), dependent(3, 0, 255)].concat());
    assert_eq!(order(&server, &[3, 1]), [1, 3], "the client said that the tree does not count");
}
