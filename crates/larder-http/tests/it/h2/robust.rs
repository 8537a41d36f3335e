//! That bytes arrive in pieces makes no difference, and nothing that arrives does harm.

use super::*;

/// A sequence of numbers that look random, the same every time.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() >> 32) as usize % end
    }
}

/// A connection on which nearly everything happens.
fn story() -> Vec<u8> {
    let block = block(GET);
    [
        hello(),
        get(1),
        post(3),
        frame(DATA, PADDED, 3, &[2, 1, 2, 3, 0, 0]),
        settings(&[(4, 0), (1, 0)]),
        window_update(1, 10),
        frame(HEADERS, END_STREAM, 5, &block[..7]),
        frame(CONTINUATION, 0, 5, &block[7..9]),
        frame(CONTINUATION, END_HEADERS, 5, &block[9..]),
        frame(PING, 0, 0, &[0; 8]),
        data(3, 700),
        frame(PRIORITY, 0, 5, &[0, 0, 0, 1, 1]),
        headers(3, END_STREAM, &[("x", "y")]),
        headers(7, 0, &[("X", "y")]),
        headers(9, 0, &[("host", "other")]),
        headers(11, END_STREAM, &[GET, &[("host", "other")]].concat()),
        frame(99, 0, 0, b"what?"),
        reset(5),
        data(5, 3),
        frame(GOAWAY, 0, 0, &[0; 8]),
        window_update(0, 1),
        frame(PING, 0, 1, &[0; 8]),
        get(13),
    ]
    .concat()
}

/// The events and replies when the bytes come in such pieces.
fn told(bytes: &[u8], mut piece: impl FnMut() -> usize) -> (Vec<String>, Vec<u8>, Vec<String>) {
    let mut server = Server::silent(&Config::default());
    let mut events = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() && !events.last().is_some_and(|event: &String| event.starts_with("error")) {
        let (now, later) = rest.split_at(piece().clamp(1, rest.len()));
        events.extend(server.take(now));
        rest = later;
    }
    let heads = server.heads.iter().map(|head| crate::text(head.line()) + &crate::shown(&head.fields)).collect();
    (events, server.out, heads)
}

#[test]
fn pieces_make_no_difference() {
    let story = story();
    let whole = told(&story, || usize::MAX);
    assert_eq!(
        whole.0,
        [
            "head 1 ends",
            "head 3",
            "data 3 3",
            "window",
            "head 5 ends",
            "data 3 700",
            "trailers 3",
            "head 7 refused 400",
            "head 9 refused 400",
            "head 11 ends refused 400",
            "reset 5 8",
            "go away",
            "error 1: PING with an incorrect identifier"
        ]
    );
    for len in 1..40 {
        assert_eq!(told(&story, || len), whole, "pieces of {len}");
    }
    let mut random = Random(7);
    for _ in 0..200 {
        assert_eq!(told(&story, || random.below(60)), whole);
    }
}

/// Frames of all kinds with contents that are nearly right.
fn some_frame(random: &mut Random, stream: u32) -> Vec<u8> {
    let id = if random.below(8) == 0 { random.below(40) as u32 } else { stream };
    let noise: Vec<u8> = (0..random.below(40)).map(|_| random.next() as u8).collect();
    match random.below(16) {
        0 => get(id),
        1 => post(id),
        2 => headers(id, random.below(2) as u8, &[GET, &[("content-length", "3"), ("priority", "u=1")]].concat()),
        3 => data(id, random.below(300)),
        4 => last_data(id, random.below(5)),
        5 => reset(id),
        6 => window_update(id, 1 << random.below(31)),
        7 => settings(&[(random.below(10) as u16, random.next() as u32 >> random.below(32))]),
        8 => frame(PRIORITY, 0, id, &noise),
        9 => frame(HEADERS, random.next() as u8, id, &noise),
        10 => frame(CONTINUATION, random.next() as u8, id, &noise),
        11 => frame(PRIORITY_UPDATE, 0, 0, &noise),
        12 => frame(random.below(20) as u8, random.next() as u8, id, &noise),
        13 => frame(HEADERS, END_HEADERS | WITH_PRIORITY, id, &[&noise[..noise.len().min(5)], &block(GET)].concat()),
        14 => noise,
        _ => frame(PING, 0, 0, &[0; 8]),
    }
}

#[test]
fn nothing_that_comes_does_harm() {
    let mut random = Random(0x1234_5678_9abc_def1);
    let mut ends = std::collections::BTreeMap::new();
    for _ in 0..20_000 {
        let mut server = Server::new();
        let mut taken = 0;
        let mut stream = 1;
        for _ in 0..60 {
            stream += 2 * (random.below(3) as u32 / 2);
            let mut bytes = some_frame(&mut random, stream);
            if random.below(10) == 0 && !bytes.is_empty() {
                let at = random.below(bytes.len());
                bytes[at] ^= 1 << random.below(8);
            }
            taken += bytes.len();
            let events = server.take(&bytes);
            assert!(server.out.len() <= 2 * taken + 200, "{} for {taken}", server.out.len());
            assert!(server.left.len() <= 9 + 16_384);
            if let Some(error) = events.last().filter(|event| event.starts_with("error")) {
                *ends.entry(error.clone()).or_insert(0) += 1;
                break;
            }
            // An application that does something now and then.
            let id = StreamId(1 + 2 * random.below(20) as u32);
            let mut sent = Vec::new();
            match random.below(6) {
                0 => server.connection.send_head(id, &[0x88], random.below(2) == 0, &mut sent),
                1 => drop(server.connection.send_data(id, &[0; 500], random.below(2) == 0, &mut sent)),
                2 => server.connection.consumed(id, random.below(500), &mut sent),
                3 => server.connection.release(id),
                4 => server.connection.reset(id, larder_http::h2::ErrorCode::CANCEL, &mut sent),
                _ => drop(server.connection.order(id, StreamId(stream))),
            }
            let _ = frames(&sent);
            assert!(server.connection.open_streams() <= 128);
            assert!(server.connection.heap_bytes() < 100_000);
        }
    }
    assert!(ends.len() > 25, "many ways were tried: {ends:#?}");
}

#[test]
fn noise_after_the_beginning_ends_the_connection_or_waits() {
    let mut random = Random(42);
    for _ in 0..5_000 {
        let noise: Vec<u8> = (0..random.below(400)).map(|_| (random.next() & random.next()) as u8).collect();
        let mut server = Server::new();
        server.take(&noise);
        assert!(server.out.len() <= 2 * noise.len() + 100);
    }
}

#[test]
fn field_blocks_of_noise_do_no_harm() {
    let mut random = Random(99);
    for _ in 0..20_000 {
        let mut decoder = hpack::Decoder::new();
        let mut text = Vec::new();
        for _ in 0..5 {
            let noise: Vec<u8> = (0..random.below(80)).map(|_| random.next() as u8).collect();
            text.clear();
            let result = decoder.decode::<hpack::HpackError>(&noise, &mut text, |text, field| {
                assert!(field.name_at <= field.value_at && field.value_at <= field.end);
                assert_eq!(field.end, text.len());
                Ok(())
            });
            if result.is_err() {
                break;
            }
        }
    }
}
