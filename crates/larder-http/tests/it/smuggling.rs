//! Requests about which two servers in a row might disagree. Every one is refused.

use larder_http::{ChunkedDecoder, HeadLimits, HeadStatus, RequestHead, body_framing, check_host, parse_request};

/// The status that a head is refused with, by whichever step refuses it; `None` when none does.
fn refusal(input: &[u8]) -> Option<u16> {
    let mut head = RequestHead::new();
    let read = parse_request(input, &mut head, &HeadLimits::default());
    let checked = read.and_then(|status| {
        assert!(matches!(status, HeadStatus::Complete { .. }), "{:?} is not complete", crate::text(input));
        check_host(&head)?;
        body_framing(&head)
    });
    checked.err().map(|error| error.status())
}

#[test]
fn heads_that_hide_where_the_body_ends_are_refused() {
    for (fields, status) in [
        // Two lengths.
        ("Content-Length: 4\r\nTransfer-Encoding: chunked", 400),
        ("Transfer-Encoding: chunked\r\nContent-Length: 4", 400),
        ("Content-Length: 4\r\nTransfer-Encoding: identity", 400),
        ("Content-Length: 4\r\nContent-Length: 5", 400),
        ("Content-Length: 4\r\nContent-Length: 4", 400),
        ("Content-Length: 4\r\ncontent-length: 5", 400),
        ("Content-Length: 4, 5", 400),
        ("Content-Length: 4, 4", 400),
        ("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", 400),
        ("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity", 400),
        // Lengths that are read in several ways.
        ("Content-Length: +4", 400),
        ("Content-Length: -4", 400),
        ("Content-Length: 0x4", 400),
        ("Content-Length: 4 4", 400),
        ("Content-Length: 4.0", 400),
        ("Content-Length: 4e0", 400),
        ("Content-Length: 1_0", 400),
        ("Content-Length: \u{0664}", 400),
        ("Content-Length:", 400),
        ("Content-Length: \u{b}4", 400),
        ("Content-Length: 4;", 400),
        ("Content-Length: \"4\"", 400),
        ("Content-Length: 18446744073709551620", 400),
        ("Content-Length: 9223372036854775808", 400),
        // Codings that are read in several ways.
        ("Transfer-Encoding: xchunked", 501),
        ("Transfer-Encoding: chunkedx", 501),
        ("Transfer-Encoding: chunked, identity", 501),
        ("Transfer-Encoding: identity, chunked", 501),
        ("Transfer-Encoding: gzip, chunked", 501),
        ("Transfer-Encoding: chunked, chunked", 501),
        ("Transfer-Encoding: chunked;q=1", 501),
        ("Transfer-Encoding: ,chunked", 501),
        ("Transfer-Encoding: \"chunked\"", 501),
        ("Transfer-Encoding: \u{b}chunked", 501),
        ("Transfer-Encoding: chunked\u{c}", 501),
        ("Transfer-Encoding: identity", 501),
        ("Transfer-Encoding:", 501),
        ("Transfer-Encoding: c\u{200b}hunked", 501),
        // Names that are read in several ways.
        ("Transfer-Encoding : chunked", 400),
        ("Transfer-Encoding\t: chunked", 400),
        ("Transfer-Encoding\u{b}: chunked", 400),
        ("Transfer-Encoding\0: chunked", 400),
        ("Content-Length : 4", 400),
        (" Content-Length: 4", 400),
        ("\tTransfer-Encoding: chunked", 400),
        (": chunked", 400),
        ("Transfer-Encoding", 400),
        ("Transfer-Encoding chunked", 400),
        // Lines that are read in several ways.
        ("X: y\r\n Transfer-Encoding: chunked", 400),
        ("Transfer-Encoding:\r\n chunked", 400),
        ("X: y\rTransfer-Encoding: chunked", 400),
        ("X: y\r\rTransfer-Encoding: chunked", 400),
        ("X: y\r\r\nTransfer-Encoding: chunked", 400),
        ("\rTransfer-Encoding: chunked", 400),
        ("X: y\0\r\nTransfer-Encoding: chunked", 400),
        ("Transfer-Encoding: chunked\0", 400),
        ("Transfer-Encoding: chunked\rX: y", 400),
        // Two hosts.
        ("Host: b", 400),
        ("host: a", 400),
    ] {
        let input = format!("POST / HTTP/1.1\r\nHost: a\r\n{fields}\r\n\r\n");
        assert_eq!(refusal(input.as_bytes()), Some(status), "{fields:?}");
    }
    let in_10 = "POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    assert_eq!(refusal(in_10.as_bytes()), Some(400));
}

#[test]
fn fields_whose_names_only_look_alike_do_not_frame_the_body() {
    for field in
        ["Content_Length: 4", "Transfer_Encoding: chunked", "X-Content-Length: 4", "Transfer-Encoding\u{200b}: x"]
    {
        let mut head = RequestHead::new();
        let input = format!("POST / HTTP/1.1\r\nHost: a\r\n{field}\r\n\r\n");
        parse_request(input.as_bytes(), &mut head, &HeadLimits::default()).expect("the head is valid");
        assert_eq!(body_framing(&head), Ok(larder_http::Framing::None), "{field}");
    }
}

#[test]
fn chunks_whose_ends_are_in_doubt_are_refused() {
    for body in [
        "\r\n0\r\n\r\n",
        " 4\r\nabcd\r\n",
        "+4\r\nabcd\r\n",
        "-4\r\nabcd\r\n",
        "0x4\r\nabcd\r\n",
        "4_\r\nabcd\r\n",
        "4\nabcd\r\n",
        "4\r\nabcd\n",
        "4\r\nabcdX\r\n",
        "4\r\nabcdXX",
        "4\r\nabcd\r\r\n",
        "4\r\rabcd\r\n",
        "4\rabcd",
        "4;x\nabcd\r\n",
        "4;x=\"\n\"\r\nabcd\r\n",
        "4;x\rabcd\r\n",
        "10000000000000000\r\n",
        "00000000000000004\r\nabcd\r\n",
        "8000000000000000\r\n",
        "fffffffffffffffff\r\n",
        "g\r\n",
        ";x\r\n",
        "0\n\n",
        "0\r\n\n",
        "0\r\nX: y\n\r\n",
        "0\r\n X: y\r\n\r\n",
        "0\r\nX : y\r\n\r\n",
        "0\r\nX\r\n\r\n",
        "0\r\nX: \0\r\n\r\n",
        "0\r\nX: y\rz\r\n\r\n",
        "0;\nGET / HTTP/1.1\r\n",
    ] {
        let mut decoder = ChunkedDecoder::new();
        let mut rest = body.as_bytes();
        let is_refused = loop {
            match decoder.decode(rest) {
                Err(_) => break true,
                Ok(decoded) if decoded.done || decoded.consumed == rest.len() => break false,
                Ok(decoded) => rest = &rest[decoded.consumed..],
            }
        };
        assert!(is_refused, "{body:?}");
    }
}
