//! One GET, read to its end: for warm-up and for checking answers, not for load.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Only guards against hanging.
const READ_LIMIT: Duration = Duration::from_secs(30);

/// A response.
#[derive(Debug, PartialEq, Eq)]
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// The body, whole.
    pub body: Vec<u8>,
}

/// Fetches `path` over a connection of its own.
pub fn get(address: SocketAddr, path: &str) -> io::Result<Answer> {
    let mut stream = TcpStream::connect_timeout(&address, READ_LIMIT)?;
    stream.set_read_timeout(Some(READ_LIMIT))?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")?;
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes)?;
    parse(&bytes)
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "no complete response with a Content-Length"))
}

/// How long the response at the start of `bytes` is: head and body; `None` while the head is incomplete.
///
/// Only `Content-Length` is understood, which is what a stored page of known size has.
pub fn length(bytes: &[u8]) -> Option<usize> {
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
    Some(end + content_length(bytes.get(..end)?)?)
}

fn content_length(head: &[u8]) -> Option<usize> {
    let head = std::str::from_utf8(head).ok()?;
    let fields = head.lines().skip(1).filter_map(|line| line.split_once(':'));
    let mut lengths = fields.filter(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    lengths.next()?.1.trim().parse().ok()
}

/// The status code of the response at the start of `bytes`.
pub fn status(bytes: &[u8]) -> Option<u16> {
    let line = bytes.strip_prefix(b"HTTP/1.")?.get(2..5)?;
    std::str::from_utf8(line).ok()?.parse().ok()
}

/// Whether the connection stays after the answer to a request with this head.
pub fn keeps_connection(head: &[u8]) -> bool {
    let mut lines = head.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii_end);
    let is_close = |line: &[u8]| {
        let mut parts = line.splitn(2, |byte| *byte == b':');
        let (name, value) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        name.eq_ignore_ascii_case(b"connection") && value.trim_ascii().eq_ignore_ascii_case(b"close")
    };
    lines.next().is_some_and(|first| first.ends_with(b" HTTP/1.1")) && !lines.any(is_close)
}

fn parse(bytes: &[u8]) -> Option<Answer> {
    let total = length(bytes)?;
    let head = bytes.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
    let body = bytes.get(head..total)?.to_vec();
    (bytes.len() == total).then_some(Answer { status: status(bytes)?, body })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_stays_unless_the_request_says_otherwise() {
        for (head, stays) in [
            ("GET / HTTP/1.1\r\nHost: a", true),
            ("GET / HTTP/1.1\r\nHost: a\r\nconnection:CLOSE ", false),
            ("GET / HTTP/1.1\r\nX: Connection: close", true),
            ("GET / HTTP/1.0\r\nHost: a", false),
            ("", false),
        ] {
            assert_eq!(keeps_connection(head.as_bytes()), stays, "{head}");
        }
    }

    #[test]
    fn a_response_is_read_only_when_whole() {
        let whole = b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nabc";
        assert_eq!(parse(whole), Some(Answer { status: 200, body: b"abc".to_vec() }));
        for end in 0..whole.len() {
            assert_eq!(parse(&whole[..end]), None, "{end}");
        }
        assert_eq!(parse(b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nabcd"), None);
        assert_eq!(parse(b"HTTP/1.1 200 OK\r\n\r\nabc"), None);
    }
}
