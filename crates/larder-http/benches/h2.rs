//! What a small answer over HTTP/2 costs in the codec. `cargo bench -p larder-http --bench h2`.

use std::hint::black_box;
use std::time::Instant;

use larder_http::h2::{Config, Connection, Event, PREFACE, hpack};
use larder_http::{RequestHead, Time};

const BATCHES: u32 = 300;
const REQUESTS: u32 = 2000;

/// What a browser sends with every request, besides the path.
const BROWSER: &[(&str, &str)] = &[
    ("user-agent", "Mozilla/5.0 (X11; Linux x86_64; rv:126.0) Gecko/20100101 Firefox/126.0"),
    ("accept", "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8"),
    ("accept-language", "en-US,en;q=0.5"),
    ("accept-encoding", "gzip, deflate, br, zstd"),
    ("referer", "https://www.example.org/"),
    ("cookie", "consent=1"),
    ("cookie", "theme=dark"),
    ("upgrade-insecure-requests", "1"),
    ("sec-fetch-dest", "document"),
    ("sec-fetch-mode", "navigate"),
    ("sec-fetch-site", "same-origin"),
    ("priority", "u=0, i"),
    ("te", "trailers"),
];

/// Fields of an answer as they are kept with a page.
const STORED: &[u8] = b"Server: larder\r\nContent-Type: text/html; charset=UTF-8\r\nContent-Length: 1024\r\n\
    Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\nETag: \"5e7a-1f40\"\r\nVary: Accept-Encoding\r\n";

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let len = (payload.len() as u32).to_be_bytes();
    [&len[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// Marks the last field of a block to be kept in the table.
fn kept(name: &str, value: &str, block: &mut Vec<u8>) {
    let mut field = Vec::new();
    hpack::encode_field(name.as_bytes(), value.as_bytes(), &mut field);
    // The index of the name has six bits instead of four.
    let index = if field[0] == 15 { 15 + field.remove(1) } else { field[0] };
    field[0] = 0x40 | index;
    block.extend(field);
}

/// The requests of a connection: all but the first are nearly all indices, as those of browsers are.
fn input(requests: u32) -> Vec<Vec<u8>> {
    (0..requests)
        .map(|number| {
            let mut block = vec![0x82, 0x87];
            hpack::encode_field(b":path", format!("/2024/05/a-post/?page={number}").as_bytes(), &mut block);
            if number == 0 {
                kept(":authority", "www.example.org", &mut block);
                BROWSER.iter().for_each(|(name, value)| kept(name, value, &mut block));
            } else {
                let fields = BROWSER.len() as u8;
                block.extend((0..=fields).rev().map(|index| 0x80 | (62 + index)));
            }
            frame(1, 5, 2 * number + 1, &block)
        })
        .collect()
}

fn main() {
    let requests = input(REQUESTS);
    println!("a request of {} bytes, the first of {}", requests[1].len(), requests[0].len());
    let mut stored = Vec::new();
    hpack::encode_lines(STORED, &mut stored);
    let body = [b'x'; 1024];
    let mut head = RequestHead::new();
    let mut out = Vec::with_capacity(64 * 1024);
    let mut block = Vec::new();
    let update = frame(8, 0, 0, &1024u32.to_be_bytes());

    let mut answer = |connection: &mut Connection, bytes: &[u8], is_answered: bool| {
        let mut rest = bytes;
        while let Ok(Some(event)) = connection.next(&mut rest, &mut head, &mut out, Time(1)) {
            let Event::Head { stream, .. } = event else { continue };
            if !is_answered {
                connection.send_head(stream, &[0x88], true, &mut out);
                continue;
            }
            block.clear();
            hpack::encode_status(200, &mut block);
            block.extend_from_slice(&stored);
            hpack::encode_field(b"Date", b"Sun, 06 Nov 1994 08:49:37 GMT", &mut block);
            hpack::encode_field(b"Age", b"17", &mut block);
            connection.send_head(stream, &block, false, &mut out);
            connection.send_data(stream, &body, true, &mut out);
        }
        black_box(&out);
        out.clear();
    };
    for (name, is_answered) in [("a request and its answer of 1 KB", true), ("the request only", false)] {
        measure(name, REQUESTS, || {
            let mut connection = begin();
            for request in &requests {
                answer(&mut connection, request, is_answered);
                answer(&mut connection, &update, is_answered);
            }
            assert_eq!(connection.open_streams(), 0);
        });
    }
    let mut ten = Vec::new();
    for requests in requests.chunks(10) {
        ten.push(requests.concat());
    }
    measure("the same, ten requests at once", REQUESTS, || {
        let mut connection = begin();
        for requests in &ten {
            answer(&mut connection, requests, true);
            for _ in 0..10 {
                answer(&mut connection, &update, true);
            }
        }
    });
    measure("encode Date", 1000, || {
        for _ in 0..1000 {
            block.clear();
            hpack::encode_field(b"Date", black_box(b"Sun, 06 Nov 1994 08:49:37 GMT"), &mut block);
            black_box(&block);
        }
    });
    let mut huffman = Vec::new();
    hpack::encode_field(b"user-agent", BROWSER[0].1.as_bytes(), &mut huffman);
    let mut decoder = hpack::Decoder::new();
    let mut text = Vec::new();
    measure("decode User-Agent", 1000, || {
        for _ in 0..1000 {
            text.clear();
            let decoded = decoder.decode::<hpack::HpackError>(black_box(&huffman), &mut text, |_, _| Ok(()));
            assert!(decoded.is_ok());
            black_box(&text);
        }
    });
}

/// A connection on which both sides have said what they want.
fn begin() -> Connection {
    let mut out = Vec::new();
    let mut connection = Connection::new(&Config::default(), &mut out);
    let hello = [PREFACE, &frame(4, 0, 0, &[]), &frame(4, 1, 0, &[])].concat();
    let began = connection.next(&mut &hello[..], &mut RequestHead::new(), &mut out, Time(1));
    assert_eq!(began, Ok(None));
    connection
}

/// Prints the best of many batches of `count` turns, because the machine may have other things to do.
fn measure(name: &str, count: u32, mut run: impl FnMut()) {
    let batch = |_| {
        let start = Instant::now();
        run();
        start.elapsed()
    };
    let best = (0..BATCHES).map(batch).min().unwrap_or_default();
    println!("{name}: {:.0} ns", best.as_nanos() as f64 / f64::from(count));
}
