//! HTTP/1.1 messages off a socket, for a peer that is not in a hurry and believes nothing.

use std::io::{self, Read};

/// The most a head or a chunk line may have.
const HEAD_BYTES_MAX: usize = 1 << 20;
/// The most a body may have.
const BODY_BYTES_MAX: usize = 256 << 20;

/// A socket with the bytes that were read and not yet used.
#[derive(Debug)]
pub(crate) struct Incoming<S> {
    pub(crate) stream: S,
    buffer: Vec<u8>,
}

/// The start line and the fields of a message, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) start_line: String,
    pub(crate) fields: Vec<(String, String)>,
}

impl<S: Read> Incoming<S> {
    pub(crate) fn new(stream: S) -> Incoming<S> {
        Incoming { stream, buffer: Vec::new() }
    }

    /// Reads once more; `false` at the end of the stream.
    fn fill(&mut self) -> io::Result<bool> {
        let mut piece = [0; 16 * 1024];
        loop {
            match self.stream.read(&mut piece) {
                Ok(0) => return Ok(false),
                Ok(count) => {
                    self.buffer.extend_from_slice(piece.get(..count).unwrap_or_default());
                    return Ok(true);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Through the empty line; `None` when the stream ended before the first byte.
    pub(crate) fn head(&mut self) -> io::Result<Option<Head>> {
        let mut lines = Vec::new();
        let mut size = 0;
        loop {
            if lines.is_empty() && self.buffer.is_empty() && !self.fill()? {
                return Ok(None);
            }
            let line = self.line()?;
            size += line.len() + 2;
            if size > HEAD_BYTES_MAX {
                return Err(io::Error::other("the head is too long"));
            }
            if line.is_empty() {
                break;
            }
            lines.push(line);
        }
        let mut lines = lines.into_iter();
        let start_line = lines.next().map(|line| text_of(&line)).unwrap_or_default();
        let fields = lines.map(|line| field_of(&line)).collect();
        Ok(Some(Head { start_line, fields }))
    }

    /// One line, without its end.
    pub(crate) fn line(&mut self) -> io::Result<Vec<u8>> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let mut line: Vec<u8> = self.buffer.drain(..=end).collect();
                line.pop();
                if line.last() == Some(&b'\r') {
                    line.pop();
                }
                return Ok(line);
            }
            if self.buffer.len() > HEAD_BYTES_MAX {
                return Err(io::Error::other("a line is too long"));
            }
            if !self.fill()? {
                let rest = text_of(&self.buffer);
                return Err(io::Error::new(io::ErrorKind::InvalidData, format!("the stream ended in {rest:?}")));
            }
        }
    }

    /// Up to `count` bytes: fewer when the stream ends first.
    pub(crate) fn up_to(&mut self, count: usize) -> io::Result<Vec<u8>> {
        while self.buffer.len() < count {
            if self.buffer.len() > BODY_BYTES_MAX {
                return Err(io::Error::other("the body is too long"));
            }
            if !self.fill()? {
                break;
            }
        }
        let count = count.min(self.buffer.len());
        Ok(self.buffer.drain(..count).collect())
    }

    /// Exactly `count` bytes.
    pub(crate) fn exactly(&mut self, count: usize) -> io::Result<Vec<u8>> {
        let bytes = self.up_to(count)?;
        if bytes.len() == count {
            return Ok(bytes);
        }
        Err(io::Error::new(io::ErrorKind::UnexpectedEof, format!("{} of {count} bytes", bytes.len())))
    }

    /// A chunked body and its trailers; the flag says whether it was complete.
    pub(crate) fn chunked(&mut self) -> (Vec<u8>, Vec<(String, String)>, bool) {
        let mut body = Vec::new();
        loop {
            let Ok(line) = self.line() else {
                return (body, Vec::new(), false);
            };
            let size = text_of(&line);
            let size = size.split(';').next().unwrap_or_default().trim();
            let Ok(size) = usize::from_str_radix(size, 16) else {
                return (body, Vec::new(), false);
            };
            if size == 0 {
                break;
            }
            let Ok(piece) = self.up_to(size) else {
                return (body, Vec::new(), false);
            };
            let is_whole = piece.len() == size;
            body.extend_from_slice(&piece);
            if !is_whole || !matches!(self.line(), Ok(line) if line.is_empty()) {
                return (body, Vec::new(), false);
            }
        }
        let mut trailers = Vec::new();
        loop {
            match self.line() {
                Ok(line) if line.is_empty() => return (body, trailers, true),
                Ok(line) => trailers.push(field_of(&line)),
                Err(_) => return (body, trailers, false),
            }
        }
    }
}

/// `name: value`; a line without a colon is all name.
fn field_of(line: &[u8]) -> (String, String) {
    let line = text_of(line);
    match line.split_once(':') {
        Some((name, value)) => (name.to_owned(), value.trim_matches([' ', '\t']).to_owned()),
        None => (line, String::new()),
    }
}

/// The first field of this name, in any case.
pub(crate) fn field<'a>(fields: &'a [(String, String)], name: &str) -> Option<&'a str> {
    fields.iter().find(|(have, _)| have.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
}

/// Bytes as text, losing nothing: UTF-8 where they are that, else one character a byte.
pub fn text_of(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => bytes.iter().map(|byte| char::from(*byte)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_cut_where_they_end() {
        let mut incoming = Incoming::new(&b"GET / HTTP/1.1\r\nA: b \r\nbad\r\n\r\nNEXT"[..]);
        let head = incoming.head().unwrap().unwrap();
        assert_eq!(head.start_line, "GET / HTTP/1.1");
        assert_eq!(head.fields, [("A".into(), "b".into()), ("bad".into(), String::new())]);
        assert_eq!(incoming.exactly(4).unwrap(), b"NEXT");
        assert_eq!(incoming.head().unwrap(), None);
    }

    #[test]
    fn a_chunked_body_says_whether_it_is_whole() {
        for (wire, body, is_whole) in [
            ("3\r\nabc\r\n0\r\n\r\n", "abc", true),
            ("3;x=y\r\nabc\r\n2\r\nde\r\n0\r\nT: v\r\n\r\n", "abcde", true),
            ("3\r\nab", "ab", false),
            ("3\r\nabc\r\n", "abc", false),
            ("x\r\n", "", false),
        ] {
            let (got, _, whole) = Incoming::new(wire.as_bytes()).chunked();
            assert_eq!((text_of(&got).as_str(), whole), (body, is_whole), "{wire:?}");
        }
    }
}
