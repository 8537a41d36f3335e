//! Whatever comes, nothing panics, and it makes no difference in how many pieces it comes.

use larder_http::{
    ChunkedDecoder, Escape, HeadLimits, HeadStatus, Method, RequestHead, ResponseHead, body_framing, check_host,
    cookie, date, escape_uri, keep_alive_wanted, normalise, normalise_host, parse_cgi, parse_ranges, parse_request,
    parse_response, response_framing, unescape, vary,
};

use crate::shown;

const REQUESTS: [&[u8]; 4] = [
    b"GET /a%20b/../c?d=e HTTP/1.1\r\nHost: www.example.org:80\r\nAccept: */*\r\nCookie: a=1; b=\"2\"\r\nRange: bytes=0-9, -5\r\nCache-Control: max-age=0, no-cache=\"x, y\"\r\nIf-None-Match: W/\"a\", \"b\"\r\nConnection: keep-alive, Upgrade\r\n\r\n",
    b"\r\n\r\nPOST http://[::1]:8080?x HTTP/1.0\nX_Odd: 1\nX(odder: 2\nHost: [::1]\nContent-Length: 12\n\n",
    b"PUT / HTTP/1.1\r\nHost:a\r\nTransfer-Encoding: chunked\r\nEmpty:\r\nExpect: 100-continue\r\n\r\n",
    b"CONNECT example.org:443 HTTP/1.1\r\nHost: example.org\r\nUser-Agent: \xff\xfe\r\n\r\n",
];

const RESPONSES: [&[u8]; 3] = [
    b"HTTP/1.1 200 OK\r\nServer: x\r\nSet-Cookie: a=b\r\nSet-Cookie: c=d\r\nVary: Accept-Encoding, *\r\nContent-Length: 10\r\n\r\n",
    b"HTTP/1.0 403.1 No\nHTTP/1.1 200 OK\nA\nB_c:  d  \nTransfer-Encoding: chunked\n\n",
    b"HTTP/1.1 304\r\nETag: \"x\"\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\r\nExpires: 0\r\n\r\n",
];

const CGI: [&[u8]; 2] =
    [b"Status: 404 Not Found\r\nContent-type: text/html\r\nX-Powered-By: PHP\r\n\r\n", b"Location: /a\nA\n\n"];

#[test]
fn every_prefix_of_a_head_is_partial() {
    for input in REQUESTS {
        let (mut head, mut whole) = (RequestHead::new(), RequestHead::new());
        let limits = HeadLimits::default();
        let complete = Ok(HeadStatus::Complete { consumed: input.len() });
        assert_eq!(parse_request(input, &mut whole, &limits), complete);
        for end in 0..input.len() {
            assert_eq!(parse_request(&input[..end], &mut head, &limits), Ok(HeadStatus::Partial), "{end}");
            assert!(head.fields.is_empty() && head.line().is_empty());
        }
        assert_eq!(parse_request(input, &mut head, &limits), complete);
        assert_eq!(
            (shown(&head.fields), head.line(), head.bytes()),
            (shown(&whole.fields), whole.line(), whole.bytes())
        );
    }
    let mut head = ResponseHead::new();
    for input in RESPONSES {
        for end in 0..input.len() {
            assert_eq!(parse_response(&input[..end], &mut head, 100), Ok(HeadStatus::Partial), "{end}");
            assert!(head.fields.is_empty());
        }
        let followed = [input, b"HTTP/1.1"].concat();
        assert_eq!(parse_response(&followed, &mut head, 100), Ok(HeadStatus::Complete { consumed: input.len() }));
    }
    for input in CGI {
        for end in 0..input.len() {
            assert_eq!(parse_cgi(&input[..end], &mut head), Ok(HeadStatus::Partial), "{end}");
        }
        assert_eq!(parse_cgi(input, &mut head), Ok(HeadStatus::Complete { consumed: input.len() }));
    }
}

/// Random numbers from a seed (xorshift), so that a failure can be repeated.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }

    /// Changes, drops, doubles or cuts a few places of `input`.
    fn mutate(&mut self, input: &[u8]) -> Vec<u8> {
        const TELLING: &[u8] = b"\r\n\0\t :,;=\"%/.?#-_0af9Z\x7f\xff[]@*";
        let mut bytes = input.to_vec();
        for _ in 0..=self.below(4) {
            if bytes.is_empty() {
                break;
            }
            let at = self.below(bytes.len());
            match self.below(6) {
                0 => bytes[at] = self.below(256) as u8,
                1 | 2 => bytes[at] = TELLING[self.below(TELLING.len())],
                3 => drop(bytes.remove(at)),
                4 => bytes.insert(at, TELLING[self.below(TELLING.len())]),
                _ => bytes.truncate(at),
            }
        }
        bytes
    }
}

#[test]
fn mutated_heads_never_panic_and_are_judged_the_same_in_pieces() {
    let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
    let limits =
        HeadLimits { line_bytes: 120, field_bytes: 100, head_bytes: 400, max_fields: 8, ..HeadLimits::default() };
    let (mut head, mut piece) = (RequestHead::new(), RequestHead::new());
    for round in 0..60_000 {
        let bytes = dice.mutate(REQUESTS[dice.0 as usize % REQUESTS.len()]);
        let result = parse_request(&bytes, &mut head, &limits);
        let end = dice.below(bytes.len() + 1);
        match parse_request(&bytes[..end], &mut piece, &limits) {
            Ok(HeadStatus::Partial) => {}
            // What is complete, or wrong for good, stays so when more comes.
            Ok(complete) => assert_eq!(result, Ok(complete), "round {round}"),
            Err(_) => assert!(result.is_err(), "round {round}: {:?} by {end}", crate::text(&bytes)),
        }
        if matches!(result, Ok(HeadStatus::Complete { .. })) {
            look_at(&head);
        }
    }
}

/// Calls everything that looks into a head.
fn look_at(head: &RequestHead) {
    let mut out = Vec::new();
    let _ = (check_host(head), body_framing(head), keep_alive_wanted(head));
    if let Ok(parts) = normalise(head.target(), true, &mut out) {
        assert_eq!(out.first(), Some(&b'/'));
        assert!(parts.args.is_none_or(|args| head.target().get(args).is_some()));
        assert!(parts.extension.is_none_or(|range| out.get(range).is_some()));
        assert!(!parts.plain || head.target().starts_with(&out));
    }
    for (_, value) in head.fields.iter() {
        let _ = (normalise_host(value, &mut out), vary::parse([value]));
        let _ = cookie([value].into_iter(), b"b");
        let _ = (parse_ranges(value, 100, None), date::parse_date(value));
        escape_uri(value, Escape::Args, &mut out);
        unescape(value, &mut out);
    }
}

#[test]
fn mutated_responses_never_panic() {
    let mut dice = Dice(42);
    let mut head = ResponseHead::new();
    for _ in 0..40_000 {
        let bytes = dice.mutate(RESPONSES[dice.0 as usize % RESPONSES.len()]);
        if parse_response(&bytes, &mut head, 5).is_ok() {
            let _ = response_framing(&head, Method::Get);
        }
        let bytes = dice.mutate(CGI[dice.0 as usize % CGI.len()]);
        let _ = parse_cgi(&bytes, &mut head);
    }
}

#[test]
fn mutated_paths_stay_below_the_root() {
    let mut dice = Dice(7);
    let mut out = Vec::new();
    for _ in 0..100_000 {
        let target = dice.mutate(b"/a/%2e%2e/.././b//%2f..%2Fc/.d/...?e/../f#g");
        for merge_slashes in [true, false] {
            if normalise(&target, merge_slashes, &mut out).is_err() {
                continue;
            }
            assert_eq!(out.first(), Some(&b'/'), "{:?}", crate::text(&target));
            let has_dots = out.split(|&byte| byte == b'/').any(|segment| segment == b"." || segment == b"..");
            assert!(!has_dots, "{:?} became {:?}", crate::text(&target), crate::text(&out));
            assert!(!merge_slashes || !out.windows(2).any(|pair| pair == b"//"), "{:?}", crate::text(&target));
        }
    }
}

#[test]
fn mutated_chunks_decode_the_same_in_pieces() {
    let body = b"5;a=\"b\"\r\nhello\r\n1a\r\nabcdefghijklmnopqrstuvwxyz\r\n0\r\nA: b\r\n\r\n";
    let run = |bytes: &[u8], step: usize, mut decoder: ChunkedDecoder| {
        let mut data = Vec::new();
        for piece in bytes.chunks(step) {
            let mut rest = piece;
            while !rest.is_empty() {
                match decoder.decode(rest) {
                    Err(error) => return (data, Some(error), false),
                    Ok(decoded) => {
                        data.extend_from_slice(&rest[decoded.data]);
                        if decoded.done {
                            return (data, None, true);
                        }
                        rest = &rest[decoded.consumed..];
                    }
                }
            }
        }
        (data, None, false)
    };
    let mut dice = Dice(99);
    for _ in 0..20_000 {
        let bytes = dice.mutate(body);
        let step = 1 + dice.below(9);
        for decoder in [ChunkedDecoder::new(), ChunkedDecoder::lenient()] {
            let whole = run(&bytes, usize::MAX, decoder.clone());
            assert_eq!(run(&bytes, step, decoder), whole, "{:?} by {step}", crate::text(&bytes));
        }
    }
}
