//! Heads and chunked bodies of HTTP/1, and PROXY headers.

use larder_http::proxy_protocol::{self, Parsed, V2_BYTES_MAX};
use larder_http::{
    ChunkError, ChunkedDecoder, Fields, HeadLimits, HeadStatus, LAST_CHUNK, Method, RequestHead, ResponseHead,
    body_framing, check_host, chunk_head, keep_alive_offered, keep_alive_wanted, normalise_host, parse_cgi,
    parse_request, parse_response, response_framing,
};

use crate::pieces::{pieces, prefixes};

/// More fields than any input here has.
const FIELDS_MAX: usize = 100_000;

/// What a parser that is asked again when more has come says of the whole, it says of no less than it read.
///
/// `parse` says how much it consumed and what it found, `None` for more to come, `Err` for never.
fn agrees_with_itself<T: PartialEq + std::fmt::Debug>(
    data: &[u8],
    parse: impl Fn(&[u8]) -> Result<Option<(usize, T)>, ()>,
) -> Option<(usize, T)> {
    let whole = parse(data);
    for len in prefixes(data) {
        match parse(&data[..len]) {
            Ok(None) => {}
            part => assert_eq!(part, whole, "after {len} of {} bytes", data.len()),
        }
    }
    let (consumed, found) = whole.ok()??;
    assert!(0 < consumed && consumed <= data.len());
    let again = parse(&data[..consumed]);
    assert_eq!(again.as_ref().ok().and_then(Option::as_ref), Some(&(consumed, found)), "the bytes behind it matter");
    assert_eq!(parse(&data[..consumed - 1]), Ok(None), "it is complete before its end");
    again.ok()?
}

fn all_of(fields: &Fields) -> Vec<(Vec<u8>, Vec<u8>)> {
    fields.iter().map(|(name, value)| (name.to_vec(), value.to_vec())).collect()
}

/// Request heads: in pieces as at once, and written again they say the same.
pub fn request_head(data: &[u8]) {
    let parse = |data: &[u8], limits: &HeadLimits| {
        let mut head = RequestHead::new();
        match parse_request(data, &mut head, limits) {
            Ok(HeadStatus::Partial) => Ok(None),
            Ok(HeadStatus::Complete { consumed }) => Ok(Some((consumed, head))),
            Err(_) => Err(()),
        }
    };
    let shown = |head: &RequestHead| {
        let host = head.target_host().map(<[u8]>::to_vec);
        (head.method_name().to_vec(), head.target().to_vec(), host, head.version, all_of(&head.fields))
    };
    let limits = HeadLimits::default();
    let found =
        agrees_with_itself(data, |data| Ok(parse(data, &limits)?.map(|(consumed, head)| (consumed, shown(&head)))));
    let Some((_, (method, target, host, version, fields))) = found else {
        return;
    };
    let Ok(Some((_, head))) = parse(data, &limits) else {
        panic!("it was complete");
    };
    assert!(!target.iter().any(|byte| *byte <= b' ' || *byte == 0x7f), "a target with {target:?}");
    for (name, value) in &fields {
        assert!(!name.is_empty() && !name.iter().any(|byte| b":\r\n\0 ".contains(byte)), "{name:?}");
        assert!(!value.iter().any(|byte| b"\r\n\0".contains(byte)), "{value:?}");
    }
    let (_, framing) = (keep_alive_wanted(&head), body_framing(&head));
    if check_host(&head).is_ok()
        && let Some(host) = head.target_host().or(head.fields.get("Host"))
    {
        let mut out = Vec::new();
        let parts = normalise_host(host, &mut out).expect("a checked host");
        let once = out[parts.host].to_vec();
        let parts = normalise_host(&once, &mut out).expect("a host in normal form");
        // Of two dots at its end, which cannot be, one would go each time.
        assert_eq!(out[parts.host], once[..], "a host is normal once it is");
    }
    if host.is_some() || !target.starts_with(b"/") {
        return;
    }
    let mut written = [&method[..], b" ", &target, b" ", version.name().as_bytes(), b"\r\n"].concat();
    for (name, value) in &fields {
        written.extend([name, &b": "[..], value, b"\r\n"].concat());
    }
    written.extend(b"\r\n");
    let much = HeadLimits { line_bytes: 1 << 20, head_bytes: 1 << 24, field_bytes: 1 << 20, ..HeadLimits::default() };
    let Ok(Some((consumed, again))) = parse(&written, &much) else {
        panic!("{:?} is no head", written.escape_ascii().to_string());
    };
    assert_eq!((consumed, shown(&again)), (written.len(), (method, target, host, version, fields)));
    assert_eq!(body_framing(&again), framing);
}

/// Response heads of HTTP and CGI: in pieces as at once; and a whole response, from its head to its end.
pub fn response_head(data: &[u8]) {
    let parse = |data: &[u8], is_cgi: bool| {
        let mut head = ResponseHead::new();
        let status = match is_cgi {
            true => parse_cgi(data, &mut head),
            false => parse_response(data, &mut head, FIELDS_MAX),
        };
        match status {
            Ok(HeadStatus::Partial) => Ok(None),
            Ok(HeadStatus::Complete { consumed }) => Ok(Some((consumed, head))),
            Err(_) => Err(()),
        }
    };
    for is_cgi in [false, true] {
        let Some((_, head)) = agrees_with_itself(data, |data| parse(data, is_cgi)) else {
            continue;
        };
        assert!((100..=999).contains(&head.status));
        for (name, value) in head.fields.iter().chain([(&b"reason"[..], &head.reason[..])]) {
            assert!(!name.iter().chain(value).any(|byte| b"\r\n\0".contains(byte)), "{name:?}: {value:?}");
        }
        drop(response_framing(&head, Method::Get));
        keep_alive_offered(&head);
    }
    for is_head in [false, true] {
        let whole = larder_origin::fuzzing::http(&[data], is_head);
        larder_origin::fuzzing::http(&pieces(data), is_head).assert_same(whole);
    }
}

/// What a chunked body came to: its bytes, how many of the input are its, and whether it ended.
type Body = (Vec<u8>, Result<Option<usize>, ChunkError>, Vec<(Vec<u8>, Vec<u8>)>);

fn body_of(pieces: &[&[u8]], mut decoder: ChunkedDecoder) -> Body {
    let (mut body, mut consumed) = (Vec::new(), 0);
    for piece in pieces {
        let mut rest = *piece;
        while !rest.is_empty() {
            let decoded = match decoder.decode(rest) {
                Ok(decoded) => decoded,
                Err(error) => return (body, Err(error), Vec::new()),
            };
            assert!(decoded.data.end <= decoded.consumed && decoded.consumed <= rest.len());
            body.extend(&rest[decoded.data]);
            consumed += decoded.consumed;
            if decoded.done {
                return (body, Ok(Some(consumed)), all_of(decoder.trailers()));
            }
            assert!(decoded.consumed > 0, "no way on");
            rest = &rest[decoded.consumed..];
        }
    }
    (body, Ok(None), Vec::new())
}

/// Chunked bodies: in pieces as at once; and what is sent in chunks comes back.
pub fn chunked(data: &[u8]) {
    let strict = body_of(&[data], ChunkedDecoder::new());
    assert_eq!(body_of(&pieces(data), ChunkedDecoder::new()), strict);
    let lenient = body_of(&[data], ChunkedDecoder::lenient());
    assert_eq!(body_of(&pieces(data), ChunkedDecoder::lenient()), lenient);
    if strict.1.is_ok() {
        assert_eq!(strict, lenient, "what is right is read alike");
    }

    let mut sent = Vec::new();
    for piece in pieces(data).into_iter().filter(|piece| !piece.is_empty()) {
        sent.extend_from_slice(chunk_head(piece.len(), &mut [0; 18]));
        sent.extend_from_slice(piece);
        sent.extend_from_slice(b"\r\n");
    }
    sent.extend_from_slice(LAST_CHUNK);
    let len = sent.len();
    sent.extend_from_slice(data);
    assert_eq!(body_of(&[&sent], ChunkedDecoder::new()), (data.to_vec(), Ok(Some(len)), Vec::new()));
}

/// PROXY headers: in pieces as at once, and bounded.
pub fn proxy_header(data: &[u8]) {
    let found = agrees_with_itself(data, |data| match proxy_protocol::parse(data) {
        Ok(Parsed::Partial) => Ok(None),
        Ok(Parsed::Complete { consumed, header }) => Ok(Some((consumed, header))),
        Err(_) => Err(()),
    });
    if let Ok(Parsed::Partial) = proxy_protocol::parse(data) {
        assert!(data.len() < V2_BYTES_MAX, "a header without end");
    }
    let Some((consumed, header)) = found else {
        return;
    };
    assert!(consumed <= V2_BYTES_MAX);
    for name in ["alpn", "authority", "ssl", "ssl_verify", "ssl_cn", "0x01", "0xEA", "ssl_0x21", "no", ""] {
        assert!(header.tlv(name).is_none_or(|value| value.len() <= consumed));
    }
}
