//! The head of a response as it goes out.

use larder_cache::Prepared;
use larder_conf::model::{ServerTokens, Settings};
use larder_http::digits::{DIGITS_MAX, digits};
use larder_http::h2::hpack;
use larder_http::{Fields, Known, Run, Time, Version, reason, status};

use crate::clock;

use super::synth;

pub use larder_http::append_decimal;

/// Writes a head to the end of a buffer, in the form that the client's protocol has for it.
pub struct HeadWriter<'a> {
    out: &'a mut Vec<u8>,
    wire: Wire,
}

/// What a head looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wire {
    /// Lines: HTTP/1.
    Lines,
    /// A field block: HTTP/2.
    Block,
}

impl Wire {
    /// What a client of this version reads.
    pub fn of(version: Version) -> Self {
        match version {
            Version::Http2 => Self::Block,
            Version::Http10 | Version::Http11 => Self::Lines,
        }
    }
}

impl<'a> HeadWriter<'a> {
    /// A writer that appends to `out`.
    pub fn new(out: &'a mut Vec<u8>, wire: Wire) -> Self {
        Self { out, wire }
    }

    /// The status, which comes first; `sent` is the reason as the origin gave it.
    pub fn status(&mut self, status: u16, sent: &[u8]) {
        match self.wire {
            Wire::Lines if status == 200 && matches!(sent, b"" | b"OK") => {
                self.out.extend_from_slice(b"HTTP/1.1 200 OK\r\n");
            }
            Wire::Lines => {
                self.out.extend_from_slice(b"HTTP/1.1 ");
                self.out.extend_from_slice(&digits_of_status(status));
                self.out.push(b' ');
                self.out.extend_from_slice(if sent.is_empty() { reason(status).as_bytes() } else { sent });
                self.out.extend_from_slice(b"\r\n");
            }
            Wire::Block => hpack::encode_status(status, self.out),
        }
    }

    /// A field.
    pub fn field(&mut self, name: &[u8], value: &[u8]) {
        match self.wire {
            Wire::Lines => append_line(name, value, self.out),
            Wire::Block => append_field(name, value, self.out),
        }
    }

    /// All fields of a head.
    pub fn fields(&mut self, fields: &Fields) {
        match self.wire {
            Wire::Lines => append_lines(fields, |_, _| true, self.out),
            Wire::Block => fields.iter().for_each(|(name, value)| append_field(name, value, self.out)),
        }
    }

    /// `Server`.
    pub fn server(&mut self, tokens: ServerTokens) {
        match self.wire {
            Wire::Lines => self.out.extend_from_slice(synth::server_line(tokens).as_bytes()),
            Wire::Block => hpack::encode_field(b"Server", synth::server_name(tokens).as_bytes(), self.out),
        }
    }

    /// `Date`.
    pub fn date(&mut self, now: Time) {
        match self.wire {
            Wire::Lines => clock::append_date_line(now, self.out),
            Wire::Block => clock::append_date_field(now, self.out),
        }
    }

    /// `Content-Length`.
    pub fn length(&mut self, length: u64) {
        match self.wire {
            Wire::Lines => {
                self.out.extend_from_slice(b"Content-Length: ");
                append_decimal(length, self.out);
                self.out.extend_from_slice(b"\r\n");
            }
            Wire::Block => {
                let mut room = [0; DIGITS_MAX];
                hpack::encode_field(b"content-length", digits(length, &mut room), self.out);
            }
        }
    }

    /// What says how the body is delimited and whether the connection goes on; HTTP/1 alone has it.
    pub fn connection(&mut self, status: u16, keep_alive: bool, chunked: bool, settings: &Settings) {
        if self.wire == Wire::Block {
            return;
        }
        if chunked {
            self.out.extend_from_slice(b"Transfer-Encoding: chunked\r\n");
        }
        if status == status::SWITCHING_PROTOCOLS {
            self.out.extend_from_slice(b"Connection: upgrade\r\n");
            return;
        }
        if !keep_alive {
            self.out.extend_from_slice(b"Connection: close\r\n");
            return;
        }
        self.out.extend_from_slice(b"Connection: keep-alive\r\n");
        if let Some(seconds) = settings.connection.keepalive_header {
            self.out.extend_from_slice(b"Keep-Alive: timeout=");
            append_decimal(seconds, self.out);
            self.out.extend_from_slice(b"\r\n");
        }
    }

    /// Fields that were made ready when the page was stored.
    pub fn ready(&mut self, prepared: &Prepared) {
        self.out.extend_from_slice(match self.wire {
            Wire::Lines => &prepared.lines,
            Wire::Block => &prepared.block,
        });
    }

    /// The end of the head.
    pub fn end(self) {
        if self.wire == Wire::Lines {
            self.out.extend_from_slice(b"\r\n");
        }
    }
}

/// A field as HTTP/2 writes it. As in [`append_one_line`], a line break becomes a space.
pub fn append_field(name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    if memchr::memchr3(b'\r', b'\n', 0, value).is_none() {
        hpack::encode_field(name, value, out);
    } else {
        let mut one_line = Vec::with_capacity(value.len());
        append_one_line(value, &mut one_line);
        hpack::encode_field(name, &one_line, out);
    }
}

fn digits_of_status(status: u16) -> [u8; 3] {
    [b'0' + (status / 100 % 10) as u8, b'0' + (status / 10 % 10) as u8, b'0' + (status % 10) as u8]
}

/// The fields for which `is_wanted` is true, as HTTP/1 writes them. What is kept as lines is copied.
pub fn append_lines(fields: &Fields, is_wanted: impl FnMut(Known, &[u8]) -> bool, out: &mut Vec<u8>) {
    fields.each_run(is_wanted, |run| match run {
        Run::Lines(lines) => out.extend_from_slice(lines),
        Run::Field(name, value) => append_line(name, value, out),
    });
}

/// A field as HTTP/1 writes it.
pub fn append_line(name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    out.reserve(name.len() + value.len() + 4);
    out.extend_from_slice(name);
    out.extend_from_slice(b": ");
    append_one_line(value, out);
    out.extend_from_slice(b"\r\n");
}

/// A value of a field. A line break from a variable such as `$uri` would begin another field, so it becomes a space
/// (RFC 9110 §5.5).
pub fn append_one_line(value: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(value);
    make_one_line(&mut out[start..]);
}

/// The same for a value that is there already.
pub fn make_one_line(mut value: &mut [u8]) {
    while let Some(at) = memchr::memchr3(b'\r', b'\n', 0, value) {
        value[at] = b' ';
        value = &mut value[at + 1..];
    }
}

#[cfg(test)]
mod tests {
    use larder_http::{ResponseHead, Written, parse_response};

    use super::*;

    #[test]
    fn lines_are_copied_as_they_would_be_written() {
        let text = "HTTP/1.1 200 OK\r\nA: 1\r\nB:2\r\nC: 3 \r\nD: \r\nE\r\nHTTP/1.1 200 OK\r\nF: 6\nG: 7\r\nH: 8\r\nI: 9\r\n\r\n";
        let mut head = ResponseHead::new();
        parse_response(text.as_bytes(), &mut head, 100).expect("the head is valid");
        let mut fields = Fields::new();
        fields.push(b"Before", b"a\r\nb\0");
        fields.extend_from(&head.fields, |_, _| Written::AsItIs);
        fields.set("G", b"\n");
        let (mut copied, mut written) = (Vec::new(), Vec::new());
        append_lines(&fields, |_, name| name != b"H", &mut copied);
        for (name, value) in fields.iter().filter(|(name, _)| *name != b"H") {
            append_line(name, value, &mut written);
        }
        assert_eq!(copied.escape_ascii().to_string(), written.escape_ascii().to_string());
        assert!(copied.starts_with(b"Before: a  b \r\nA: 1\r\nB: 2\r\n"));
    }
}
