//! Chunked bodies, in both directions.

use larder_http::{ChunkError, ChunkedDecoder, LAST_CHUNK, chunk_head};

use crate::{shown, text};

/// Decodes `body`, handed over in pieces of `step` bytes: the data, and how many bytes belonged to the body.
fn decode(decoder: &mut ChunkedDecoder, body: &[u8], step: usize) -> Result<(Vec<u8>, usize), ChunkError> {
    let (mut data, mut at) = (Vec::new(), 0);
    for piece in body.chunks(step) {
        let mut rest = piece;
        while !rest.is_empty() {
            let decoded = decoder.decode(rest)?;
            data.extend_from_slice(&rest[decoded.data.clone()]);
            at += decoded.consumed;
            if decoded.done {
                return Ok((data, at));
            }
            assert!(decoded.consumed > 0, "decoding goes on");
            rest = &rest[decoded.consumed..];
        }
    }
    panic!("{:?} does not end", text(body));
}

#[test]
fn bodies_are_the_same_however_they_arrive() {
    for (body, expected, trailers) in [
        ("0\r\n\r\n", "", ""),
        ("5\r\nhello\r\n0\r\n\r\n", "hello", ""),
        ("5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n", "hello world", ""),
        ("A\r\n0123456789\r\n0\r\n\r\n", "0123456789", ""),
        ("00a\r\n0123456789\r\n000\r\n\r\n", "0123456789", ""),
        ("1;a=b;c=\"d\"\r\nx\r\n0;e\r\n\r\n", "x", ""),
        ("1 \r\nx\r\n0\t;e\r\n\r\n", "x", ""),
        ("2\r\n\r\n\r\n0\r\n\r\n", "\r\n", ""),
        ("1\r\nx\r\n0\r\nA: b\r\nC_d:e\r\n\r\n", "x", "A: b, C_d: e"),
    ] {
        let input = format!("{body}GET / HTTP/1.1\r\n");
        for step in 1..=input.len() {
            let mut decoder = ChunkedDecoder::new();
            let (data, consumed) = decode(&mut decoder, input.as_bytes(), step).expect("the body is valid");
            assert_eq!((text(&data), consumed), (expected.into(), body.len()), "{body:?} by {step}");
            assert_eq!(shown(decoder.trailers()), trailers);
            let after = decoder.decode(b"more").expect("the body has ended");
            assert_eq!((after.consumed, after.data.len(), after.done), (0, 0, true));
        }
    }
}

#[test]
fn a_lenient_decoder_takes_lone_line_feeds_but_not_in_extensions() {
    let mut decoder = ChunkedDecoder::lenient();
    let body = b"5\nhello\n1\r\nx\r\n0\nA: b\n\n";
    let (data, consumed) = decode(&mut decoder, body, 3).expect("the body is valid");
    assert_eq!((text(&data), consumed), ("hellox".into(), body.len()));
    assert_eq!(shown(decoder.trailers()), "A: b");
    assert_eq!(ChunkedDecoder::lenient().decode(b"5;x\nhello"), Err(ChunkError::InvalidExtension));
    assert_eq!(ChunkedDecoder::lenient().decode(b"\n"), Err(ChunkError::InvalidSize));
}

#[test]
fn every_error_says_what_is_wrong() {
    let extensions = format!("1;{}", "x".repeat(20_000));
    let many_extensions = format!("1;{}\r\nx\r\n", "x".repeat(1000)).repeat(20);
    let trailers = format!("0\r\nA: {}", "x".repeat(20_000));
    let many_trailers = format!("0\r\n{}", "A: b\r\n".repeat(101));
    for (body, error) in [
        ("x", ChunkError::InvalidSize),
        ("1\rx", ChunkError::InvalidSize),
        ("8000000000000000", ChunkError::SizeTooLarge),
        ("00000000000000001", ChunkError::SizeTooLarge),
        ("1\r\nxy", ChunkError::Overlong),
        ("1;\n", ChunkError::InvalidExtension),
        (&extensions, ChunkError::ExtensionsTooLong),
        (&many_extensions, ChunkError::ExtensionsTooLong),
        ("0\r\nA\r\n", ChunkError::InvalidTrailer),
        (&trailers, ChunkError::TrailersTooLarge),
        (&many_trailers, ChunkError::TrailersTooLarge),
    ] {
        for step in [1, 7, body.len()] {
            let found = decode(&mut ChunkedDecoder::new(), body.as_bytes(), step);
            assert_eq!(found, Err(error), "{:.20} by {step}", body);
        }
    }
}

#[test]
fn the_largest_size_is_counted_down_without_overflow() {
    let mut decoder = ChunkedDecoder::new();
    let head = decoder.decode(b"7fffffffffffffff\r\nabc").expect("the size fits");
    assert_eq!((head.consumed, head.data), (21, 18..21));
    assert!(!decoder.decode(&[0; 4096]).expect("data is never wrong").done);
}

#[test]
fn chunk_heads_are_hexadecimal() {
    for (len, expected) in
        [(1, "1\r\n"), (10, "a\r\n"), (16, "10\r\n"), (65535, "ffff\r\n"), (usize::MAX, "ffffffffffffffff\r\n")]
    {
        assert_eq!(text(chunk_head(len, &mut [0; 18])), expected);
    }
    assert_eq!(LAST_CHUNK, b"0\r\n\r\n");
}
