//! HTTP/2: frames, and the compression of fields.

use larder_http::h2::hpack::{Decoder, HpackError, encode_field};
use larder_http::h2::{Config, Connection, Event, FRAME_HEAD_BYTES, PREFACE};
use larder_http::{RequestHead, Time};

use crate::pieces::pieces;

/// A GOAWAY with the longest of our reasons, and more.
const GO_AWAY_BYTES: usize = 256;

/// The client's side of a connection: in pieces as at once, and what we send is bounded by what we read.
///
/// The bytes come behind the preface; with the preface, they are all there is.
pub fn h2_frames(data: &[u8]) {
    let begun = [PREFACE, data].concat();
    let data = if data.starts_with(b"PRI") { data } else { &begun };
    let whole = play(&[data]);
    assert_eq!(play(&pieces(data)), whole);
}

/// What happened on a connection, and what we sent.
fn play(pieces: &[&[u8]]) -> (Vec<String>, Vec<u8>) {
    let config = Config { max_concurrent_streams: 4, ..Config::default() };
    let (mut events, mut out, mut head) = (Vec::new(), Vec::new(), RequestHead::new());
    let mut connection = Connection::new(&config, &mut out);
    let now = Time(1_000_000);
    let mut buffer = Vec::new();
    for piece in pieces {
        buffer.extend_from_slice(piece);
        let mut rest = &buffer[..];
        loop {
            let (before, sent) = (rest.len(), out.len());
            let result = connection.next(&mut rest, &mut head, &mut out, now);
            let (taken, replied) = (before - rest.len(), out.len() - sent);
            assert!(replied <= 2 * taken + GO_AWAY_BYTES, "{replied} bytes for {taken}");
            match result {
                Ok(None) => break,
                Err(error) => {
                    events.push(format!("{error:?}"));
                    let again = connection.next(&mut &b"\0\0\0\x04\0\0\0\0\0"[..], &mut head, &mut out, now);
                    assert_eq!(again, Err(error), "it has failed for good");
                    return (events, out);
                }
                Ok(Some(event)) => {
                    events.push(format!("{event:?}"));
                    match event {
                        Event::Head { stream, refused, .. } => {
                            events.push(format!("{} {:?}", head.line().escape_ascii(), head.fields));
                            let block: &[u8] = if refused.is_some() { &[0x8c] } else { &[0x88] };
                            connection.send_head(stream, block, false, &mut out);
                            connection.send_data(stream, b"body", true, &mut out);
                            head.clear();
                        }
                        Event::Data { stream, data, .. } => connection.consumed(stream, data.len(), &mut out),
                        Event::Reset { stream, .. } => connection.release(stream),
                        Event::WrongLength { .. } | Event::Trailers { .. } | Event::Window | Event::GoAway => {}
                    }
                }
            }
        }
        assert!(rest.len() < FRAME_HEAD_BYTES + config.max_frame_bytes as usize, "more than a frame is left lying");
        let left = rest.to_vec();
        buffer = left;
    }
    (events, out)
}

/// The most text of all blocks of an input: a byte may ask for all of the table.
const TEXT_BYTES_MAX: usize = 256 << 10;

/// Field blocks: what they say is within the text, and written again they say the same.
pub fn hpack(data: &[u8]) {
    let (mut decoder, mut text, mut fields) = (Decoder::new(), Vec::new(), Vec::new());
    for block in pieces(data) {
        let done = decoder.decode::<Stop>(block, &mut text, |text, field| {
            assert!(field.name_at <= field.value_at && field.value_at <= field.end && field.end == text.len());
            let value = text[field.value()].to_vec();
            assert_eq!(field.is_value_clean, !value.iter().any(|byte| b"\r\n\0".contains(byte)));
            fields.push((text[field.name()].to_vec(), value));
            if text.len() < TEXT_BYTES_MAX { Ok(()) } else { Err(Stop) }
        });
        assert!(decoder.heap_bytes() <= 64 << 10, "the table has {} bytes", decoder.heap_bytes());
        if done.is_err() {
            break;
        }
    }
    let mut block = Vec::new();
    for (name, value) in &mut fields {
        name.make_ascii_lowercase();
        encode_field(name, value, &mut block);
    }
    let (mut again, mut text) = (Vec::new(), Vec::new());
    let done = Decoder::new().decode::<HpackError>(&block, &mut text, |text, field| {
        again.push((text[field.name()].to_vec(), text[field.value()].to_vec()));
        Ok(())
    });
    assert_eq!((done, again), (Ok(()), fields));
}

/// A block that is wrong, or too long.
struct Stop;

impl From<HpackError> for Stop {
    fn from(_: HpackError) -> Stop {
        Stop
    }
}
