//! An HTTP/2 client that sends the frames it is told to, sensible or not, and reads what comes back.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::stream::Stream;
use crate::tls::Tls;
use crate::wire::Incoming;
use crate::{PATIENCE, text_of};

/// What a client says first.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// END_STREAM of DATA and HEADERS, and ACK of SETTINGS and PING.
const END_STREAM: u8 = 1;
/// END_HEADERS of HEADERS and CONTINUATION.
const END_HEADERS: u8 = 4;

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum FrameKind {
    /// A part of a body.
    Data = 0,
    /// A head, or its beginning.
    Headers = 1,
    /// Who goes first.
    Priority = 2,
    /// The end of a stream.
    Reset = 3,
    /// What a peer allows.
    Settings = 4,
    /// A head of the server's own making.
    Push = 5,
    /// Is anybody there?
    Ping = 6,
    /// The end of a connection.
    GoAway = 7,
    /// Room for more.
    WindowUpdate = 8,
    /// More of a head.
    Continuation = 9,
    /// Any that is not known.
    Other = 255,
}

/// A frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Its type.
    pub kind: FrameKind,
    /// Its flags.
    pub flags: u8,
    /// Its stream; 0 is the connection.
    pub stream: u32,
    /// What it carries.
    pub payload: Vec<u8>,
}

impl Frame {
    /// A frame with these parts.
    pub fn new(kind: FrameKind, flags: u8, stream: u32, payload: impl Into<Vec<u8>>) -> Frame {
        Frame { kind, flags, stream, payload: payload.into() }
    }

    /// HEADERS with a whole GET, which ends its stream.
    pub fn get(stream: u32, path: &str) -> Frame {
        Frame::new(FrameKind::Headers, END_STREAM | END_HEADERS, stream, get_block(path))
    }

    /// RST_STREAM.
    pub fn reset(stream: u32, code: u32) -> Frame {
        Frame::new(FrameKind::Reset, 0, stream, code.to_be_bytes())
    }

    /// WINDOW_UPDATE.
    pub fn window_update(stream: u32, by: u32) -> Frame {
        Frame::new(FrameKind::WindowUpdate, 0, stream, by.to_be_bytes())
    }

    /// SETTINGS with these pairs.
    pub fn settings(pairs: &[(u16, u32)]) -> Frame {
        let payload: Vec<u8> =
            pairs.iter().flat_map(|(name, value)| [&name.to_be_bytes()[..], &value.to_be_bytes()].concat()).collect();
        Frame::new(FrameKind::Settings, 0, 0, payload)
    }

    /// Its bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let length = u32::try_from(self.payload.len()).unwrap_or(u32::MAX).to_be_bytes();
        let mut bytes = vec![length[1], length[2], length[3], self.kind as u8, self.flags];
        bytes.extend_from_slice(&self.stream.to_be_bytes());
        bytes.extend_from_slice(&self.payload);
        bytes
    }

    /// Whether it ends its stream.
    pub fn ends_stream(&self) -> bool {
        matches!(self.kind, FrameKind::Data | FrameKind::Headers) && self.flags & END_STREAM != 0
    }
}

/// An HPACK block that needs no table: every field a literal, without Huffman.
pub fn request_block(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in fields {
        block.push(0);
        for text in [name, value] {
            integer(text.len(), 7, &mut block);
            block.extend_from_slice(text.as_bytes());
        }
    }
    block
}

/// An integer of HPACK behind a prefix of so many bits, the rest of which are 0.
fn integer(value: usize, bits: u32, block: &mut Vec<u8>) {
    let most = (1_usize << bits) - 1;
    if value < most {
        block.push(u8::try_from(value).unwrap_or(u8::MAX));
        return;
    }
    block.push(u8::try_from(most).unwrap_or(u8::MAX));
    let mut rest = value - most;
    while rest >= 128 {
        block.push(u8::try_from(rest % 128 + 128).unwrap_or(u8::MAX));
        rest /= 128;
    }
    block.push(u8::try_from(rest).unwrap_or(u8::MAX));
}

fn get_block(path: &str) -> Vec<u8> {
    request_block(&[(":method", "GET"), (":scheme", "http"), (":authority", "site.test"), (":path", path)])
}

/// A connection whose every frame the test sends.
#[derive(Debug)]
pub struct RawHttp2 {
    incoming: Incoming<Stream>,
}

/// What came back on one stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RawAnswer {
    /// The status, where the head could be read without a table.
    pub status: Option<u16>,
    /// The body.
    pub body: Vec<u8>,
    /// The code of RST_STREAM, when the stream was reset.
    pub reset: Option<u32>,
}

/// How a server ended a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RawEnd {
    /// GOAWAY with this code, then the end.
    GoAway(u32),
    /// The end, without a GOAWAY that could still be read.
    Closed,
    /// It did not, in the time it was given.
    Open,
}

impl RawHttp2 {
    /// Connects in the clear and sends nothing.
    pub fn connect(address: SocketAddr) -> io::Result<RawHttp2> {
        Ok(RawHttp2 { incoming: Incoming::new(Stream::connect(address)?) })
    }

    /// Connects with TLS, offering `h2`, and sends nothing.
    pub fn connect_tls(address: SocketAddr, tls: &Tls) -> io::Result<RawHttp2> {
        let tls = tls.clone().alpn(&["h2"]);
        Ok(RawHttp2 { incoming: Incoming::new(Stream::connect_tls(address, &tls, b"")?) })
    }

    /// Connects in the clear and begins as it should, with these settings.
    pub fn open(address: SocketAddr, settings: &[(u16, u32)]) -> io::Result<RawHttp2> {
        let mut raw = RawHttp2::connect(address)?;
        raw.send(PREFACE)?;
        raw.send_frame(&Frame::settings(settings))?;
        Ok(raw)
    }

    /// Sends bytes.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.incoming.stream.write_all(bytes)?;
        self.incoming.stream.flush()
    }

    /// Sends a frame.
    pub fn send_frame(&mut self, frame: &Frame) -> io::Result<()> {
        self.send(&frame.to_bytes())
    }

    /// Sends a frame of this many bytes again and again, until `times` or until the server takes no more for `limit`.
    ///
    /// How many times it was sent.
    pub fn flood(&mut self, times: usize, limit: Duration, mut next: impl FnMut(usize) -> Vec<u8>) -> usize {
        /// How many frames go into one write.
        const AT_ONCE: usize = 64;
        drop(self.incoming.stream.socket().set_write_timeout(Some(limit)));
        let mut sent = 0;
        while sent < times {
            let count = AT_ONCE.min(times - sent);
            let bytes: Vec<u8> = (sent..sent + count).flat_map(&mut next).collect();
            if self.send(&bytes).is_err() {
                break;
            }
            sent += count;
        }
        drop(self.incoming.stream.socket().set_write_timeout(Some(PATIENCE)));
        sent
    }

    /// The next frame; `None` at the end of the connection.
    pub fn read_frame(&mut self) -> io::Result<Option<Frame>> {
        let head = self.incoming.up_to(9)?;
        let [a, b, c, kind, flags, s1, s2, s3, s4] = head[..] else {
            return Ok(None);
        };
        let length = usize::try_from(u32::from_be_bytes([0, a, b, c])).unwrap_or(usize::MAX);
        let payload = self.incoming.exactly(length)?;
        let stream = u32::from_be_bytes([s1, s2, s3, s4]) & 0x7fff_ffff;
        Ok(Some(Frame { kind: FrameKind::of(kind), flags, stream, payload }))
    }

    /// Acknowledges the server's settings once they have come.
    pub fn acknowledge(&mut self) -> io::Result<()> {
        while let Some(frame) = self.read_frame()? {
            if frame.kind == FrameKind::Settings && frame.flags & END_STREAM == 0 {
                return self.send_frame(&Frame::new(FrameKind::Settings, END_STREAM, 0, Vec::new()));
            }
        }
        Err(io::ErrorKind::UnexpectedEof.into())
    }

    /// Reads until `stream` has ended, and gives what came on it; makes no room in the windows.
    pub fn answer(&mut self, stream: u32) -> io::Result<RawAnswer> {
        let mut answer = RawAnswer::default();
        while let Some(frame) = self.read_frame()? {
            if frame.stream != stream {
                continue;
            }
            match frame.kind {
                FrameKind::Headers if answer.status.is_none() => answer.status = status_of(&frame.payload),
                FrameKind::Data => answer.body.extend_from_slice(&frame.payload),
                FrameKind::Reset => {
                    answer.reset = Some(code_of(&frame.payload));
                    return Ok(answer);
                }
                _ => {}
            }
            if frame.ends_stream() {
                return Ok(answer);
            }
        }
        Err(io::ErrorKind::UnexpectedEof.into())
    }

    /// Reads until the server ends the connection, at most for `limit`.
    pub fn end_within(&mut self, limit: Duration) -> RawEnd {
        let deadline = Instant::now() + limit;
        let mut code = None;
        loop {
            let left = deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
            self.incoming.stream.set_read_timeout(left);
            match self.read_frame() {
                Ok(Some(frame)) if frame.kind == FrameKind::GoAway => {
                    code = Some(code_of(frame.payload.get(4..).unwrap_or_default()));
                }
                Ok(Some(_)) if Instant::now() < deadline => {}
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                    return RawEnd::Open;
                }
                Ok(Some(_)) => return RawEnd::Open,
                Ok(None) | Err(_) => return code.map_or(RawEnd::Closed, RawEnd::GoAway),
            }
        }
    }

    /// Reads what is no HTTP/2, such as the answer of a server that took the preface for something else.
    pub fn read_text(&mut self) -> String {
        self.incoming.stream.set_read_timeout(PATIENCE);
        text_of(&self.incoming.up_to(usize::MAX).unwrap_or_default())
    }
}

impl FrameKind {
    fn of(kind: u8) -> FrameKind {
        use FrameKind::{Continuation, Data, GoAway, Headers, Ping, Priority, Push, Reset, Settings, WindowUpdate};
        let all = [Data, Headers, Priority, Reset, Settings, Push, Ping, GoAway, WindowUpdate, Continuation];
        all.get(usize::from(kind)).copied().unwrap_or(FrameKind::Other)
    }
}

/// The big-endian number that a payload begins with.
fn code_of(payload: &[u8]) -> u32 {
    payload.first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes))
}

/// The status that a block of a response begins with, behind changes of the table's size.
fn status_of(block: &[u8]) -> Option<u16> {
    let size_updates = block.iter().take_while(|byte| **byte & 0xe0 == 0x20).count();
    match block.get(size_updates..)? {
        [indexed @ 0x88..=0x8e, ..] => [200, 204, 206, 304, 400, 404, 500].get(usize::from(indexed - 0x88)).copied(),
        // A literal, indexed or not, whose name is that of one of these entries.
        [0x48..=0x4e | 0x08..=0x0e | 0x18..=0x1e, length, value @ ..] => {
            let bytes = value.get(..usize::from(length & 0x7f))?;
            let digits = if length & 0x80 == 0 { text_of(bytes) } else { huffman_digits(bytes) };
            digits.parse().ok()
        }
        _ => None,
    }
}

/// Digits by HPACK's Huffman code: five bits for 0 to 2, six for the others.
fn huffman_digits(bytes: &[u8]) -> String {
    let bits: String = bytes.iter().map(|byte| format!("{byte:08b}")).collect();
    let mut digits = String::new();
    let mut rest = bits.as_str();
    for _ in 0..3 {
        let (five, six) = (rest.get(..5).unwrap_or_default(), rest.get(..6).unwrap_or_default());
        let short = u8::from_str_radix(five, 2).ok().filter(|code| five.len() == 5 && *code <= 2);
        let long = u8::from_str_radix(six, 2).ok().and_then(|code| code.checked_sub(22)).filter(|digit| *digit <= 9);
        let (digit, used) = match (short, long) {
            (Some(digit), _) => (digit, 5),
            (None, Some(digit)) => (digit, 6),
            (None, None) => break,
        };
        digits.push_str(&digit.to_string());
        rest = rest.get(used..).unwrap_or_default();
    }
    digits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_read_in_every_form_that_needs_no_table() {
        for (block, status) in [
            (&[0x88][..], Some(200)),
            (&[0x20, 0x8d], Some(404)),
            (&[0x48, 3, b'4', b'2', b'1'], Some(421)),
            (&[0x08, 3, b'3', b'0', b'1'], Some(301)),
            // 5 0 3, and 3 0 1 as of RFC 7541 C.6.
            (&[0x48, 0x83, 0b0110_1100, 0b0000_1100, 0b1111_1111], Some(503)),
            (&[0x48, 0x82, 0x64, 0x02], Some(302)),
            (&[0xbe], None),
            (&[], None),
        ] {
            assert_eq!(status_of(block), status, "{block:x?}");
        }
    }

    #[test]
    fn a_frame_has_nine_bytes_before_its_payload() {
        let frame = Frame::settings(&[(4, 65_535)]);
        assert_eq!(frame.to_bytes(), [0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 4, 0, 0, 255, 255]);
        assert_eq!(request_block(&[("a", "b")]), [0, 1, b'a', 1, b'b']);
        let long = "c".repeat(300);
        assert_eq!(request_block(&[("a", &long)])[3..6], [127, 0xad, 1]);
    }
}
