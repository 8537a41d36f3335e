//! FastCGI: writes a request as records, and parses the records of the response.

mod params;
mod records;
mod response;

use bytes::{BufMut, Bytes, BytesMut};

pub use params::{ParamStart, append_param, params};
use records::{Part, Records};
pub(crate) use response::Response;

/// Encodes the parameters of a request as name-value pairs, in this order.
pub fn encode_params<N: AsRef<[u8]>, V: AsRef<[u8]>>(pairs: impl IntoIterator<Item = (N, V)>) -> Bytes {
    let mut out = Vec::with_capacity(1024);
    for (name, value) in pairs {
        append_param(name.as_ref(), value.as_ref(), &mut out);
    }
    out.into()
}

/// A whole request without a body, for who asks once and reads until the connection is closed.
pub fn whole_request(params: &[u8]) -> Bytes {
    opening(params, false, false)
}

/// A whole request for a status page as JSON, which php-fpm answers itself at this `pm.status_path`.
pub fn status_request(path: &str) -> Bytes {
    whole_request(&encode_params([
        ("REQUEST_METHOD", "GET"),
        ("SCRIPT_NAME", path),
        ("SCRIPT_FILENAME", path),
        ("REQUEST_URI", path),
        ("QUERY_STRING", "json"),
        ("SERVER_PROTOCOL", "HTTP/1.1"),
        ("GATEWAY_INTERFACE", "CGI/1.1"),
        ("REMOTE_ADDR", "127.0.0.1"),
    ]))
}

/// What stands behind the head in what a script wrote; empty if the head has no end.
pub fn body_of(stdout: &[u8]) -> &[u8] {
    let end = |mark: &[u8]| stdout.windows(mark.len()).position(|window| window == mark).map(|at| at + mark.len());
    end(b"\r\n\r\n").or_else(|| end(b"\n\n")).and_then(|at| stdout.get(at..)).unwrap_or_default()
}

/// What the script wrote to stdout, in all the bytes of a response. `None` if the response is cut or is no FastCGI.
pub fn whole_stdout(response: &[u8]) -> Option<Vec<u8>> {
    let (mut records, mut at, mut stdout) = (Records::new(), 0, Vec::new());
    loop {
        match records.next(response, &mut at).ok()? {
            Part::Stdout(content) => stdout.extend_from_slice(response.get(content)?),
            Part::StdoutEnd | Part::Stderr { .. } => {}
            Part::End { protocol: 0, .. } => return Some(stdout),
            Part::End { .. } | Part::More => return None,
        }
    }
}

/// The records before the body: BEGIN_REQUEST, PARAMS and the empty PARAMS. If there is no body, its end follows.
pub(crate) fn opening(params: &[u8], keep: bool, has_body: bool) -> Bytes {
    let mut out = Vec::with_capacity(opening_bytes(params, has_body));
    put_head(&mut out, BEGIN_REQUEST, 8, 0);
    out.put_u16(ROLE_RESPONDER);
    out.put_u8(if keep { FLAG_KEEP_CONN } else { 0 });
    out.put_slice(&[0; 5]);
    let mut rest = params;
    while !rest.is_empty() {
        let (content, after) = rest.split_at(params_that_fit(rest));
        let padding = padding(content.len());
        put_head(&mut out, PARAMS, content.len(), padding);
        out.put_slice(content);
        out.put_slice(&PADDING[..padding]);
        rest = after;
    }
    put_head(&mut out, PARAMS, 0, 0);
    if !has_body {
        out.put_slice(&STDIN_END);
    }
    Bytes::from(out)
}

/// How many bytes [`opening`] takes, if the parameters fit into one record: then it is exactly as large as its buffer.
fn opening_bytes(params: &[u8], has_body: bool) -> usize {
    let params_bytes = match params.len() {
        0 => 0,
        len => HEAD_BYTES + len + padding(len),
    };
    2 * HEAD_BYTES + params_bytes + HEAD_BYTES + if has_body { 0 } else { STDIN_END.len() }
}

/// The record header before, and the padding after, a piece of the body of at most [`CONTENT_BYTES_MAX`].
pub(crate) fn stdin_frame(content_bytes: usize) -> (Bytes, Bytes) {
    let padding = padding(content_bytes);
    let mut head = BytesMut::with_capacity(HEAD_BYTES);
    put_head(&mut head, STDIN, content_bytes, padding);
    (head.freeze(), Bytes::from_static(&PADDING[..padding]))
}

/// The end of the body.
pub(crate) fn stdin_end() -> Bytes {
    Bytes::from_static(&STDIN_END)
}

/// The largest content of a record that we send: the largest multiple of 8 below 65535. PHP reads content and padding
/// into 65535 bytes, and fails if there is more.
pub(crate) const CONTENT_BYTES_MAX: usize = 65_528;

/// How much of `params` goes into one record. Only whole pairs, because PHP parses each record alone and refuses a pair
/// that goes on in the next. A pair that is larger than a record is split all the same.
fn params_that_fit(params: &[u8]) -> usize {
    if params.len() <= CONTENT_BYTES_MAX {
        return params.len();
    }
    let mut fits = 0;
    while let Some(len) = first_pair(&params[fits..]) {
        if fits + len > CONTENT_BYTES_MAX {
            break;
        }
        fits += len;
    }
    if fits == 0 { CONTENT_BYTES_MAX } else { fits }
}

/// The length of the first pair in bytes; `None` if there is no whole one.
fn first_pair(params: &[u8]) -> Option<usize> {
    let (name, name_at) = read_length(params)?;
    let (value, value_at) = read_length(params.get(name_at..)?)?;
    let len = name_at.checked_add(value_at)?.checked_add(name)?.checked_add(value)?;
    (len <= params.len()).then_some(len)
}

fn read_length(bytes: &[u8]) -> Option<(usize, usize)> {
    match *bytes {
        [short, ..] if short < 0x80 => Some((short.into(), 1)),
        [a, b, c, d, ..] => Some((u32::from_be_bytes([a & 0x7f, b, c, d]) as usize, 4)),
        _ => None,
    }
}

fn put_head(out: &mut impl BufMut, kind: u8, content_bytes: usize, padding_bytes: usize) {
    debug_assert!(content_bytes <= CONTENT_BYTES_MAX && padding_bytes < 8);
    out.put_u8(VERSION);
    out.put_u8(kind);
    out.put_u16(REQUEST_ID);
    out.put_u16(content_bytes as u16);
    out.put_u8(padding_bytes as u8);
    out.put_u8(0);
}

/// Records are padded to 8 bytes, as the specification recommends.
fn padding(content_bytes: usize) -> usize {
    content_bytes.wrapping_neg() % 8
}

static PADDING: [u8; 8] = [0; 8];
static STDIN_END: [u8; HEAD_BYTES] = [VERSION, STDIN, 0, REQUEST_ID as u8, 0, 0, 0, 0];

const VERSION: u8 = 1;
/// One request at a time on a connection, always with this number.
const REQUEST_ID: u16 = 1;
const HEAD_BYTES: usize = 8;
const BEGIN_REQUEST: u8 = 1;
const END_REQUEST: u8 = 3;
const PARAMS: u8 = 4;
const STDIN: u8 = 5;
const STDOUT: u8 = 6;
const STDERR: u8 = 7;
const ROLE_RESPONDER: u16 = 1;
const FLAG_KEEP_CONN: u8 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    /// The records in `bytes`: kind and content. Fails where a record is cut or unpadded.
    fn records(mut bytes: &[u8]) -> Vec<(u8, Vec<u8>)> {
        let mut found = Vec::new();
        while !bytes.is_empty() {
            let len = u16::from_be_bytes([bytes[4], bytes[5]]) as usize;
            let padding = bytes[6] as usize;
            assert_eq!((bytes[0], bytes[2], bytes[3]), (1, 0, 1));
            assert_eq!((len + padding) % 8, 0);
            found.push((bytes[1], bytes[8..8 + len].to_vec()));
            bytes = &bytes[8 + len + padding..];
        }
        found
    }

    #[test]
    fn a_length_takes_one_byte_or_four() {
        for (len, head) in [(0, vec![1, 0]), (127, vec![1, 127]), (128, vec![1, 0x80, 0, 0, 128])] {
            let encoded = encode_params([("a", vec![b'x'; len])]);
            assert_eq!(encoded[..head.len()], head, "{len}");
            assert_eq!(encoded.len(), head.len() + 1 + len);
        }
    }

    #[test]
    fn a_request_opens_with_its_role_and_parameters() {
        for (keep, flag) in [(false, 0), (true, 1)] {
            let opened = records(&opening(&encode_params([("A", "bc")]), keep, true));
            let begin = (1, vec![0, 1, flag, 0, 0, 0, 0, 0]);
            assert_eq!(opened, [begin, (4, b"\x01\x02Abc".to_vec()), (4, vec![])]);
        }
        assert_eq!(records(&opening(&[], false, true)).len(), 2);
    }

    #[test]
    fn a_request_without_a_body_opens_with_its_end_too_and_fits_its_buffer() {
        for params in [&[][..], &encode_params([("A", "bc")]), &encode_params([("A", "bcdef")])] {
            for has_body in [false, true] {
                let opened = opening(params, false, has_body);
                assert_eq!(opened.len(), opening_bytes(params, has_body));
                assert_eq!(records(&opened).last(), Some(&if has_body { (4, vec![]) } else { (5, vec![]) }));
            }
        }
    }

    #[test]
    fn a_whole_response_has_a_stdout() {
        let stdout = |text: &str| [&[1, 6, 0, 1, 0, text.len() as u8, 2, 0], text.as_bytes(), &[0, 0]].concat();
        let stderr = [1, 7, 0, 1, 0, 1, 0, 0, b'e'].to_vec();
        let end = |protocol: u8| vec![1, 3, 0, 1, 0, 8, 0, 0, 0, 0, 0, 0, protocol, 0, 0, 0];
        for (records, expected) in [
            (vec![stdout("Status: 200"), stderr.clone(), stdout("\r\n\r\nx"), end(0)], Some("Status: 200\r\n\r\nx")),
            (vec![end(0)], Some("")),
            (vec![stdout("a")], None),
            (vec![stdout("a"), end(2)], None),
            (vec![b"HTTP/1.1 400 Bad Request\r\n".to_vec()], None),
            (vec![], None),
        ] {
            let found = whole_stdout(&records.concat()).map(|bytes| String::from_utf8(bytes).expect("it is text"));
            assert_eq!(found.as_deref(), expected);
        }
        assert_eq!(whole_request(b""), opening(b"", false, false));
    }

    #[test]
    fn a_record_of_parameters_holds_whole_pairs() {
        let pairs: Vec<(String, Vec<u8>)> = (0..9).map(|n| (format!("NAME_{n}"), vec![b'v'; 30_000])).collect();
        let encoded = encode_params(pairs.iter().map(|(name, value)| (name, value)));
        let opened = records(&opening(&encoded, false, true));
        let params: Vec<&Vec<u8>> = opened.iter().filter(|record| record.0 == PARAMS).map(|record| &record.1).collect();
        assert_eq!(params.len(), 6); // Two pairs a record, then one, then the empty one.
        for content in &params {
            let mut rest: &[u8] = content;
            while !rest.is_empty() {
                rest = &rest[first_pair(rest).expect("a pair that goes on in the next record")..];
            }
        }
        assert_eq!(params.into_iter().flatten().copied().collect::<Vec<u8>>(), encoded);
    }

    #[test]
    fn a_pair_larger_than_a_record_is_split() {
        for len in [65_519, 65_520, 65_535, 65_536, 200_000] {
            let encoded = encode_params([("A", vec![b'x'; len]), ("B", vec![b'y'; 3])]);
            let params = records(&opening(&encoded, false, true)).into_iter().filter(|record| record.0 == PARAMS);
            assert_eq!(params.flat_map(|record| record.1).collect::<Vec<u8>>(), encoded, "{len}");
        }
    }

    #[test]
    fn the_body_ends_with_an_empty_record() {
        assert_eq!(records(&stdin_end()), [(5, vec![])]);
    }
}
