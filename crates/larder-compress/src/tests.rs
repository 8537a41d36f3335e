//! What holds for all codings.

use larder_http::Coding;

use crate::*;

/// Bodies of all kinds, by name.
fn bodies() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("nothing", Vec::new()),
        ("one byte", b"x".to_vec()),
        ("a word", b"hello".to_vec()),
        ("noise", noise(70_000)),
        ("zeros", vec![0; 100_000]),
        ("a page", page(40_000)),
    ]
}

/// HTML, as far as a compressor sees.
fn page(len: usize) -> Vec<u8> {
    let mut random = random(7);
    let mut page = b"<!DOCTYPE html><html lang=\"en\"><head><title>A page</title></head><body>".to_vec();
    while page.len() < len {
        let number = random(500);
        let line =
            format!("<li class=\"item item-{number}\"><a href=\"/items/{number}\">Item {}</a></li>\n", random(9999));
        page.extend_from_slice(line.as_bytes());
    }
    page.truncate(len);
    page
}

fn noise(len: usize) -> Vec<u8> {
    let mut random = random(3);
    (0..len).map(|_| random(256) as u8).collect()
}

/// Numbers below what is asked for, the same ones every time.
fn random(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut state = seed;
    move |below| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    }
}

fn one(body: &[u8]) -> std::iter::Once<&[u8]> {
    std::iter::once(body)
}

fn made(body: &[u8], coding: Coding, effort: Effort) -> Vec<u8> {
    compress(one(body), coding, effort).expect("a body of any bytes can be compressed")
}

/// All that a decoder gives, fed with pieces of `step` bytes and asked for `bytes_max` at a time.
fn decoded(stream: &[u8], coding: Coding, step: usize, bytes_max: usize) -> Result<Vec<u8>, DecodeError> {
    let mut decoder = Decoder::new(coding)?;
    let mut all = Vec::new();
    for mut piece in stream.chunks(step) {
        loop {
            let mut out = Vec::new();
            let state = decoder.decode(&mut piece, &mut out, bytes_max)?;
            assert!(out.len() <= bytes_max);
            all.extend_from_slice(&out);
            match state {
                Decoded::NeedsInput => break,
                Decoded::Full => assert_eq!(out.len(), bytes_max),
            }
        }
        assert!(piece.is_empty());
    }
    decoder.finish().map(|()| all)
}

#[test]
fn what_was_compressed_is_restored() {
    for (name, body) in bodies() {
        for coding in Coding::ALL {
            for effort in [0, 1, 5, 9].map(Effort::Quick).into_iter().chain([Effort::Hard]) {
                let stream = made(&body, coding, effort);
                let back = restore(one(&stream), coding, body.len());
                assert!(back.as_ref() == Ok(&body), "{name}, {coding}, {effort:?}: {:?}", back.map(|b| b.len()));
            }
        }
    }
}

#[test]
fn what_others_made_is_restored() {
    for (coding, stream) in [
        (
            Coding::Gzip,
            &[
                0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0x03, 0xcb, 0x48, 0xcd, 0xc9, 0xc9, 0x07, 0x00,
                0x86, 0xa6, 0x10, 0x36, 0x05, 0x00, 0x00, 0x00,
            ][..],
        ),
        (Coding::Brotli, &[0x0b, 0x02, 0x80, 0x68, 0x65, 0x6c, 0x6c, 0x6f, 0x03]),
        (
            Coding::Zstd,
            &[
                0x28, 0xb5, 0x2f, 0xfd, 0x04, 0x58, 0x29, 0x00, 0x00, 0x68, 0x65, 0x6c, 0x6c, 0x6f, 0xa3, 0x6d, 0x9f,
                0x88,
            ],
        ),
    ] {
        assert_eq!(restore(one(stream), coding, 5).as_deref(), Ok(&b"hello"[..]), "{coding}");
    }
}

#[test]
fn a_big_body_is_restored_too() {
    let body = page(10 << 20);
    for coding in Coding::ALL {
        let stream = compress(body.chunks(256 * 1024), coding, Effort::Quick(1)).expect("it can be compressed");
        assert!(stream.len() < body.len() / 3, "{coding}: {}", stream.len());
        assert!(restore(stream.chunks(1000), coding, body.len()).as_ref() == Ok(&body), "{coding}");
    }
}

#[test]
fn any_split_of_the_input_gives_a_valid_stream() {
    for (name, body) in bodies() {
        for coding in Coding::ALL {
            for step in [1, 7, 1000, 65_536] {
                // A byte at a time takes its time.
                let body = if step == 1 { &body[..body.len().min(5000)] } else { &body[..] };
                let mut encoder = Encoder::new(coding, Params::new(coding, 4)).expect("there is memory");
                let mut stream = Vec::new();
                for piece in body.chunks(step) {
                    encoder.encode(piece, &mut stream).expect("it takes everything");
                }
                encoder.finish(&mut stream).expect("it can end at any place");
                assert!(restore(one(&stream), coding, body.len()).as_deref() == Ok(body), "{name}, {coding}, {step}");
            }
        }
    }
}

#[test]
fn any_split_of_a_stream_gives_the_same_body() {
    for (name, body) in bodies() {
        for coding in Coding::ALL {
            for (step, bytes_max) in [(1, 100_000), (7, 5), (1000, 16_384), (1 << 20, 16_385), (1 << 20, 1000)] {
                // A byte at a time takes its time.
                let body = if step.min(bytes_max) < 10 { &body[..body.len().min(5000)] } else { &body[..] };
                let stream = made(body, coding, Effort::Quick(5));
                let back = decoded(&stream, coding, step, bytes_max);
                assert!(back.as_deref() == Ok(body), "{name}, {coding}, {step}, {bytes_max}");
            }
        }
    }
}

#[test]
fn a_flush_makes_everything_so_far_visible() {
    let body = page(100_000);
    for coding in Coding::ALL {
        for level in [0, 1, 5, 11] {
            let mut encoder = Encoder::new(coding, Params::new(coding, level)).expect("there is memory");
            let mut decoder = Decoder::new(coding).expect("there is memory");
            let (mut stream, mut seen, mut sent) = (Vec::new(), Vec::new(), 0);
            for (number, piece) in body.chunks(9000).enumerate() {
                encoder.encode(piece, &mut stream).expect("it takes everything");
                sent += piece.len();
                if number % 3 == 1 {
                    continue;
                }
                encoder.flush(&mut stream).expect("it can be flushed");
                encoder.flush(&mut stream).expect("also twice");
                let state = decoder.decode(&mut &stream[..], &mut seen, usize::MAX);
                assert_eq!(state, Ok(Decoded::NeedsInput), "{coding} {level}");
                assert!(seen == body[..sent], "{coding} {level}: {} of {sent}", seen.len());
                assert!(!decoder.is_at_end());
                stream.clear();
            }
            encoder.finish(&mut stream).expect("it can end");
            assert_eq!(decoder.decode(&mut &stream[..], &mut seen, usize::MAX), Ok(Decoded::NeedsInput));
            assert!(seen == body && decoder.finish() == Ok(()), "{coding} {level}");
        }
    }
}

#[test]
fn what_is_cut_short_is_noticed() {
    let body = page(5000);
    for coding in Coding::ALL {
        let stream = made(&body, coding, Effort::Quick(5));
        for len in 0..stream.len() {
            let back = decoded(&stream[..len], coding, 1 << 20, 1 << 20);
            assert_eq!(back, Err(DecodeError::Truncated(coding)), "{coding} after {len} of {}", stream.len());
        }
    }
}

#[test]
fn no_byte_that_is_wrong_does_harm() {
    for body in [page(3000), noise(300), vec![b'a'; 5000]] {
        for coding in Coding::ALL {
            let stream = made(&body, coding, Effort::Quick(5));
            let mut random = random(11);
            for _ in 0..1500 {
                let mut broken = stream.clone();
                for _ in 0..=random(3) {
                    let at = random(broken.len() as u64) as usize;
                    broken[at] ^= 1 << random(8);
                }
                let back = restore(one(&broken), coding, 1 << 20);
                // The others have no checksum: another body is all that can be promised.
                if coding == Coding::Gzip {
                    assert!(back.is_err() || back.as_ref() == Ok(&body));
                }
            }
        }
    }
}

#[test]
fn noise_is_no_stream() {
    let noise = noise(4000);
    for coding in Coding::ALL {
        for at in 0..500 {
            let _ = restore(one(&noise[at..]), coding, 1 << 16);
        }
    }
    assert_eq!(decoded(&noise, Coding::Gzip, 4000, 1 << 16), Err(DecodeError::Corrupt(Coding::Gzip)));
    assert_eq!(decoded(&noise, Coding::Zstd, 4000, 1 << 16), Err(DecodeError::Corrupt(Coding::Zstd)));
}

#[test]
fn several_members_are_one_body_and_anything_else_behind_one_is_an_error() {
    use Coding::*;
    let corrupt = |coding| Err(DecodeError::Corrupt(coding));
    for (coding, second, expected) in [
        (Gzip, made(b"two", Gzip, Effort::Hard), Ok(b"one two".to_vec())),
        (Zstd, made(b"two", Zstd, Effort::Hard), Ok(b"one two".to_vec())),
        (Brotli, made(b"two", Brotli, Effort::Hard), Err(DecodeError::Trailing(Brotli))),
        (Gzip, b"garbage".to_vec(), corrupt(Gzip)),
        (Gzip, vec![0; 20], corrupt(Gzip)),
        (Zstd, b"garbage".to_vec(), corrupt(Zstd)),
        (Brotli, b"garbage".to_vec(), Err(DecodeError::Trailing(Brotli))),
        (Gzip, vec![0x1f], Err(DecodeError::Truncated(Gzip))),
        (Zstd, vec![0x28], Err(DecodeError::Truncated(Zstd))),
    ] {
        let stream = [made(b"one ", coding, Effort::Hard), second].concat();
        for step in [1, 5, 1000] {
            assert_eq!(decoded(&stream, coding, step, 1000), expected, "{coding} by {step}");
            assert_eq!(decoded(&stream, coding, step, 1), expected, "{coding} by {step}, out by 1");
        }
    }
}

#[test]
fn a_bomb_gives_no_more_than_asked_for() {
    let body = vec![0; 20 << 20];
    for coding in Coding::ALL {
        let stream = made(&body, coding, Effort::Quick(5));
        assert!(stream.len() < body.len() / 500, "{coding}: {}", stream.len());
        let mut decoder = Decoder::new(coding).expect("there is memory");
        let (mut input, mut out) = (&stream[..], Vec::new());
        assert_eq!(decoder.decode(&mut input, &mut out, 5000), Ok(Decoded::Full));
        assert!(out.len() == 5000 && out.capacity() <= 16_384, "{coding}: {}", out.capacity());
        let too_long = Err(RestoreError::TooLong { bytes_max: 100_000 });
        assert_eq!(restore(one(&stream), coding, 100_000), too_long, "{coding}");
        assert_eq!(restore(one(&stream), coding, body.len()).map(|back| back.len()), Ok(body.len()), "{coding}");
    }
}

#[test]
fn the_head_of_gzip_says_nothing_but_what_it_is() {
    for (effort, speed) in [(Effort::Quick(1), 4), (Effort::Quick(5), 0), (Effort::Hard, 2)] {
        let stream = made(b"hello", Coding::Gzip, effort);
        assert_eq!(stream[..10], [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, speed, 3], "{effort:?}");
    }
}

#[test]
fn no_window_is_bigger_than_browsers_allow() {
    // Longer than any window.
    let body = page(9 << 20);
    for coding in Coding::ALL {
        let params = Params { level: 1, window_bits: 200 };
        for known in [false, true] {
            let encoder = match known {
                true => Encoder::of_len(coding, params, body.len() as u64),
                false => Encoder::new(coding, params),
            };
            let mut encoder = encoder.expect("there is memory");
            let mut stream = Vec::new();
            encoder.encode(&body, &mut stream).expect("it takes everything");
            encoder.finish(&mut stream).expect("it can end");
            // The decoders here are as strict as browsers.
            assert!(restore(one(&stream), coding, body.len()).as_ref() == Ok(&body), "{coding}");
        }
    }
    // A frame head of zstd for a window of 16 MB.
    let big = [0x28, 0xb5, 0x2f, 0xfd, 0x00, 14 << 3, 0, 0, 0];
    assert_eq!(decoded(&big, Coding::Zstd, 100, 100), Err(DecodeError::Window(Coding::Zstd)));
    // brotli's large windows are another format.
    assert_eq!(decoded(&[0x11, 0x1e, 0, 0], Coding::Brotli, 100, 100), Err(DecodeError::Corrupt(Coding::Brotli)));
}

#[test]
fn params_are_those_of_the_coding() {
    use Coding::*;
    let params = |level, window_bits| Params { level, window_bits };
    for (coding, level, len, expected) in [
        (Gzip, 0, None, params(1, 15)),
        (Gzip, 300, None, params(9, 15)),
        (Gzip, 6, Some(0), params(6, 9)),
        (Gzip, 6, Some(10_000), params(6, 14)),
        (Gzip, 6, Some(u64::MAX), params(6, 15)),
        (Brotli, 0, None, params(0, 19)),
        (Brotli, 12, Some(1000), params(11, 17)),
        (Zstd, 0, None, params(1, 20)),
        (Zstd, 22, Some(5000), params(19, 13)),
        (Zstd, 3, Some(1 << 30), params(3, 20)),
    ] {
        let found = Params::new(coding, level);
        assert_eq!(len.map_or(found, |len| found.for_len(coding, len)), expected, "{coding} {level} {len:?}");
    }
    for (coding, len, window_bits) in
        [(Gzip, 1 << 20, 15), (Brotli, 1 << 20, 21), (Brotli, 1 << 30, 22), (Zstd, 1 << 30, 23)]
    {
        assert_eq!(Effort::Hard.params(coding, len).window_bits, window_bits, "{coding} {len}");
    }
}

#[test]
fn more_effort_gives_no_more_bytes() {
    for len in [2000, 40_000, 300_000] {
        let body = page(len);
        for coding in Coding::ALL {
            let (quick, hard) = (made(&body, coding, Effort::Quick(1)), made(&body, coding, Effort::Hard));
            assert!(hard.len() < quick.len(), "{coding} of {len}: {} and {}", hard.len(), quick.len());
        }
    }
}

#[test]
fn an_encoder_and_a_decoder_may_go_to_another_thread() {
    fn goes<T: Send>() {}
    goes::<Encoder>();
    goes::<Decoder>();
}
