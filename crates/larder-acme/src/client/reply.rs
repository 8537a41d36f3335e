//! An HTTP/1.1 response out of bytes as they come. No socket here.

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};

/// Collects one response.
pub(crate) struct Reader {
    head_only: bool,
    bytes: Vec<u8>,
    state: State,
}

/// ```text
/// Head --final head--> Exact | ToEnd | Chunks --last byte--> the response
/// ```
enum State {
    Head,
    Exact { head: Head, bytes: usize },
    ToEnd { head: Head },
    Chunks { head: Head, body: Vec<u8> },
}

#[derive(Clone)]
struct Head {
    status: StatusCode,
    fields: HeaderMap,
    /// Whether the peer keeps the connection open.
    is_kept: bool,
}

/// Why bytes are no response.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Malformed {
    #[error("its head has more than {HEAD_BYTES_MAX} bytes")]
    LongHead,
    #[error("its body has more than {BODY_BYTES_MAX} bytes")]
    LongBody,
    #[error("it begins with `{0}`")]
    StatusLine(String),
    #[error("`{0}` is no header field")]
    Field(String),
    #[error("its length is unclear")]
    Length,
    #[error("its chunks are not in order")]
    Chunk,
}

impl Reader {
    /// `head_only` is said of the response to `HEAD`, whose lengths are those of another response.
    pub(crate) fn new(head_only: bool) -> Self {
        Self { head_only, bytes: Vec::new(), state: State::Head }
    }

    /// Takes what came, and returns the response when it is complete, with whether the connection can be used again.
    pub(crate) fn take(&mut self, bytes: &[u8]) -> Result<Option<(Response<Bytes>, bool)>, Malformed> {
        self.bytes.extend_from_slice(bytes);
        loop {
            match &mut self.state {
                State::Head => match self.head()? {
                    Some(next) => self.state = next,
                    None => return Ok(None),
                },
                State::Exact { head, bytes } => {
                    if self.bytes.len() < *bytes {
                        return Ok(None);
                    }
                    let rest = self.bytes.split_off(*bytes);
                    // More than was asked for: whose that would be is unclear.
                    let is_kept = head.is_kept && rest.is_empty();
                    return Ok(Some((response(head, std::mem::take(&mut self.bytes)), is_kept)));
                }
                State::ToEnd { .. } => {
                    return if self.bytes.len() > BODY_BYTES_MAX { Err(Malformed::LongBody) } else { Ok(None) };
                }
                State::Chunks { head, body } => match next_chunk(&self.bytes)? {
                    Chunk::More => return Ok(None),
                    Chunk::There { begin, end, next } => {
                        body.extend_from_slice(self.bytes.get(begin..end).unwrap_or_default());
                        if body.len() > BODY_BYTES_MAX {
                            return Err(Malformed::LongBody);
                        }
                        self.bytes.drain(..next);
                    }
                    Chunk::Last { next } => {
                        let is_kept = head.is_kept && self.bytes.len() == next;
                        return Ok(Some((response(head, std::mem::take(body)), is_kept)));
                    }
                },
            }
        }
    }

    /// The peer has closed: the response if that completes it.
    pub(crate) fn end(&mut self) -> Result<Option<Response<Bytes>>, Malformed> {
        match &self.state {
            State::ToEnd { head } => Ok(Some(response(head, std::mem::take(&mut self.bytes)))),
            State::Head | State::Exact { .. } | State::Chunks { .. } => Ok(None),
        }
    }

    /// Cuts the final head off the bytes, and interim ones before it.
    fn head(&mut self) -> Result<Option<State>, Malformed> {
        let Some(end) = end_of_head(&self.bytes) else {
            return if self.bytes.len() > HEAD_BYTES_MAX { Err(Malformed::LongHead) } else { Ok(None) };
        };
        if end > HEAD_BYTES_MAX {
            return Err(Malformed::LongHead);
        }
        let text: Vec<u8> = self.bytes.drain(..end).collect();
        let head = parse_head(&text)?;
        if head.status.is_informational() {
            return Ok(Some(State::Head));
        }
        let is_bodiless = matches!(head.status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
        if self.head_only || is_bodiless {
            return Ok(Some(State::Exact { head, bytes: 0 }));
        }
        let mut codings = head.fields.get_all(TRANSFER_ENCODING).iter();
        if let Some(coding) = codings.next() {
            let is_chunked = coding.as_bytes().eq_ignore_ascii_case(b"chunked") && codings.next().is_none();
            return if is_chunked {
                Ok(Some(State::Chunks { head, body: Vec::new() }))
            } else {
                Err(Malformed::Length)
            };
        }
        let mut lengths = head.fields.get_all(CONTENT_LENGTH).iter();
        let Some(length) = lengths.next() else {
            return Ok(Some(State::ToEnd { head }));
        };
        let digits = length.to_str().ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
        let bytes: usize = digits.and_then(|digits| digits.parse().ok()).ok_or(Malformed::Length)?;
        if lengths.any(|other| other != length) {
            return Err(Malformed::Length);
        }
        if bytes > BODY_BYTES_MAX {
            return Err(Malformed::LongBody);
        }
        Ok(Some(State::Exact { head, bytes }))
    }
}

/// A directory or a chain of certificates has some kilobytes.
const BODY_BYTES_MAX: usize = 1 << 20;
const HEAD_BYTES_MAX: usize = 32 << 10;
const CHUNK_LINE_BYTES_MAX: usize = 256;

fn response(head: &Head, body: Vec<u8>) -> Response<Bytes> {
    let mut response = Response::new(Bytes::from(body));
    *response.status_mut() = head.status;
    *response.headers_mut() = head.fields.clone();
    response
}

/// Just past the empty line.
fn end_of_head(bytes: &[u8]) -> Option<usize> {
    let mut line = 0;
    for (at, _) in bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n') {
        if matches!(bytes.get(line..at), Some(b"" | b"\r")) {
            return Some(at + 1);
        }
        line = at + 1;
    }
    None
}

fn parse_head(text: &[u8]) -> Result<Head, Malformed> {
    let mut lines = text.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    let line = lines.next().unwrap_or_default();
    let wrong = || Malformed::StatusLine(shown(line));
    let (version, rest) = line.split_at_checked(9).ok_or_else(wrong)?;
    let status = rest.get(..3).and_then(|digits| StatusCode::from_bytes(digits).ok()).ok_or_else(wrong)?;
    if !matches!(version, b"HTTP/1.1 " | b"HTTP/1.0 ") || rest.get(3).is_some_and(|byte| *byte != b' ') {
        return Err(wrong());
    }
    let mut fields = HeaderMap::new();
    for line in lines.take_while(|line| !line.is_empty()) {
        let wrong = || Malformed::Field(shown(line));
        let colon = line.iter().position(|byte| *byte == b':').ok_or_else(wrong)?;
        let (name, value) = line.split_at(colon);
        let name = HeaderName::from_bytes(name).map_err(|_| wrong())?;
        let value = HeaderValue::from_bytes(value.get(1..).unwrap_or_default().trim_ascii()).map_err(|_| wrong())?;
        fields.append(name, value);
    }
    let is_closed = fields.get_all(CONNECTION).iter().any(|value| value.as_bytes().eq_ignore_ascii_case(b"close"));
    Ok(Head { status, fields, is_kept: version == b"HTTP/1.1 " && !is_closed })
}

enum Chunk {
    More,
    There { begin: usize, end: usize, next: usize },
    Last { next: usize },
}

fn next_chunk(bytes: &[u8]) -> Result<Chunk, Malformed> {
    let Some(line_end) = bytes.iter().position(|byte| *byte == b'\n') else {
        return if bytes.len() > CHUNK_LINE_BYTES_MAX { Err(Malformed::Chunk) } else { Ok(Chunk::More) };
    };
    let line = bytes.get(..line_end).unwrap_or_default();
    let digits = line.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    let digits = std::str::from_utf8(digits).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_hexdigit()));
    let size = digits.and_then(|digits| usize::from_str_radix(digits, 16).ok()).ok_or(Malformed::Chunk)?;
    if size > BODY_BYTES_MAX {
        return Err(Malformed::LongBody);
    }
    let begin = line_end + 1;
    let rest = bytes.get(begin..).unwrap_or_default();
    if size == 0 {
        // Trailers end as a head does; none are expected, so the usual case is the empty line alone.
        return match end_of_head(rest) {
            Some(end) => Ok(Chunk::Last { next: begin + end }),
            None if rest.len() > HEAD_BYTES_MAX => Err(Malformed::Chunk),
            None => Ok(Chunk::More),
        };
    }
    let end = begin + size;
    match bytes.get(end..) {
        Some([b'\r', b'\n', ..]) => Ok(Chunk::There { begin, end, next: end + 2 }),
        Some([b'\n', ..]) => Ok(Chunk::There { begin, end, next: end + 1 }),
        None | Some([] | [b'\r']) => Ok(Chunk::More),
        Some(_) => Err(Malformed::Chunk),
    }
}

/// The beginning of a line, for an error.
fn shown(line: &[u8]) -> String {
    line.get(..80.min(line.len())).unwrap_or_default().escape_ascii().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Status, body, whether the connection is kept; or the error; or nothing if more is needed.
    fn read(head_only: bool, pieces: &[&[u8]], ends: bool) -> Result<Option<(u16, String, bool)>, Malformed> {
        let mut reader = Reader::new(head_only);
        let said = |response: Response<Bytes>, kept| {
            (response.status().as_u16(), String::from_utf8_lossy(response.body()).into_owned(), kept)
        };
        for piece in pieces {
            if let Some((response, kept)) = reader.take(piece)? {
                return Ok(Some(said(response, kept)));
            }
        }
        if !ends {
            return Ok(None);
        }
        Ok(reader.end()?.map(|response| said(response, false)))
    }

    #[test]
    fn a_response_is_read_however_it_is_cut_up() {
        for (text, expected) in [
            ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", Some((200, "hi", true))),
            ("HTTP/1.1 200\r\ncontent-length: 2\r\ncontent-length: 2\r\n\r\nhi", Some((200, "hi", true))),
            ("HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nhi", Some((200, "hi", false))),
            ("HTTP/1.1 429 Slow down\r\nContent-Length: 0\r\nConnection: Close\r\n\r\n", Some((429, "", false))),
            ("HTTP/1.1 100 Go on\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx", Some((200, "x", true))),
            ("HTTP/1.1 204 None\r\n\r\n", Some((204, "", true))),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;a=b\r\nhi\r\nA\r\n0123456789\r\n0\r\n\r\n",
                Some((200, "hi0123456789", true)),
            ),
            ("HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n0\nTrailer: x\n\n", Some((200, "", true))),
            ("HTTP/1.1 200 OK\r\n\r\nto the end", Some((200, "to the end", false))),
            ("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nhi", None),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n", None),
            ("HTTP/1.1 200 OK\r\n", None),
            ("", None),
        ] {
            let expected = expected.map(|(status, body, kept)| (status, body.to_string(), kept));
            let bytes = text.as_bytes();
            assert_eq!(read(false, &[bytes], true), Ok(expected.clone()), "{text}");
            let single: Vec<&[u8]> = bytes.chunks(1).collect();
            assert_eq!(read(false, &single, true), Ok(expected), "byte for byte: {text}");
        }
        let head = b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n";
        assert_eq!(read(true, &[head], false), Ok(Some((200, String::new(), true))), "the response to HEAD");
        let more = b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nxHTTP/1.1 200 OK\r\n";
        assert_eq!(read(false, &[more], false), Ok(Some((200, "x".into(), false))), "more than was asked for");
    }

    #[test]
    fn what_is_no_response_is_refused() {
        let long = format!("HTTP/1.1 200 OK\r\nA: {}\r\n\r\n", "x".repeat(HEAD_BYTES_MAX));
        let endless = "x".repeat(HEAD_BYTES_MAX + 1);
        let body = format!("HTTP/1.1 200 OK\r\n\r\n{}", "x".repeat(BODY_BYTES_MAX + 1));
        let chunk = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        for (text, error) in [
            ("SSH-2.0-OpenSSH\r\n\r\n", Malformed::StatusLine("SSH-2.0-OpenSSH".into())),
            ("HTTP/1.1 2000 OK\r\n\r\n", Malformed::StatusLine("HTTP/1.1 2000 OK".into())),
            ("HTTP/2 200\r\n\r\n", Malformed::StatusLine("HTTP/2 200".into())),
            ("HTTP/1.1 200 OK\r\nno field\r\n\r\n", Malformed::Field("no field".into())),
            ("HTTP/1.1 200 OK\r\nA: b\r\n folded\r\n\r\n", Malformed::Field(" folded".into())),
            ("HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", Malformed::Length),
            ("HTTP/1.1 200 OK\r\nContent-Length: +1\r\n\r\n", Malformed::Length),
            ("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", Malformed::Length),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n", Malformed::Length),
            ("HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n", Malformed::LongBody),
            (&long, Malformed::LongHead),
            (&endless, Malformed::LongHead),
            (&body, Malformed::LongBody),
            (&format!("{chunk}x\r\n"), Malformed::Chunk),
            (&format!("{chunk}\r\n"), Malformed::Chunk),
            (&format!("{chunk}1\r\nhi\r\n"), Malformed::Chunk),
            (&format!("{chunk}ffffffffffffffffff\r\n"), Malformed::Chunk),
            (&format!("{chunk}ffffffff\r\n"), Malformed::LongBody),
        ] {
            assert_eq!(read(false, &[text.as_bytes()], true), Err(error), "{}", &text[..60.min(text.len())]);
        }
    }

    #[test]
    fn foreign_bytes_never_panic() {
        let text = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nA: b\r\n\r\n2;a=b\r\nhi\r\n0\r\nT: x\r\n\r\n";
        for at in 0..text.len() {
            for flip in [0x01, 0x20, 0x80, 0xff] {
                let mut flipped = text.to_vec();
                flipped[at] ^= flip;
                let _ = read(false, &[&flipped[..at], &flipped[at..]], true);
            }
        }
    }
}
