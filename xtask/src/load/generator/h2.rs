//! The client side of HTTP/2, as much as it takes to ask for one page again and again and to count the answers.
//!
//! Of a response head it reads the status alone, so it needs no table of fields and no Huffman code.

use super::Answer;
use std::time::Instant;

/// Largest frame a peer may send while we do not allow more (RFC 9113 §4.2).
const FRAME_BYTES_MAX: usize = 16 * 1024;
/// What may come on a stream before we say more: above the largest page that is asked for, so we never have to.
const STREAM_WINDOW_BYTES: u32 = 128 * 1024 * 1024;
/// What may come on the connection before we say more: what Chromium allows.
const CONNECTION_WINDOW_BYTES: u32 = 15 * 1024 * 1024;
/// The connection's window before anybody says anything (RFC 9113 §6.9.2).
const INITIAL_WINDOW_BYTES: u32 = 65_535;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PUSH_PROMISE: u8 = 5;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;

const END_STREAM: u8 = 1;
const ACK: u8 = 1;
const END_HEADERS: u8 = 4;
const PADDED: u8 = 8;
const PRIORITY: u8 = 0x20;

/// What a client asks for on every stream, as field blocks.
pub struct Ask {
    first: Vec<u8>,
    again: Vec<u8>,
}

impl Ask {
    /// A GET. The authority and the path go into the server's table once, and are named by their place after that, as
    /// browsers do.
    pub fn new(scheme_is_https: bool, authority: &str, path: &str) -> Ask {
        let scheme = if scheme_is_https { 0x87 } else { 0x86 };
        let mut first = vec![0x82, scheme];
        for (name, value) in [(0x41, authority), (0x44, path)] {
            first.push(name);
            // Seven bits hold the lengths of what this tool asks for.
            first.push(u8::try_from(value.len().min(126)).unwrap_or(126));
            first.extend_from_slice(value.as_bytes().get(..126).unwrap_or(value.as_bytes()));
        }
        // The newest entry is 62: the path. The one before it is the authority.
        Ask { first, again: vec![0x82, scheme, 0x80 | 63, 0x80 | 62] }
    }
}

/// One connection.
pub struct Client {
    frame: Frame,
    streams: Vec<Stream>,
    next_stream: u32,
    /// Set by GOAWAY: streams above it were not and will not be answered.
    last_stream: Option<u32>,
    unacknowledged_bytes: u32,
    keeps_bodies: bool,
}

struct Stream {
    id: u32,
    asked: Instant,
    answer: Answer,
}

/// Where in a frame the input is.
///
/// ```text
/// Header --DATA--> Data --all read--> Header
///    `--any other--> Held --all read--> Header
/// ```
enum Frame {
    Header { bytes: [u8; 9], length: usize },
    Data { stream: u32, ends: bool, left: usize },
    Held { kind: u8, flags: u8, stream: u32, length: usize, payload: Vec<u8> },
}

impl Frame {
    const START: Frame = Frame::Header { bytes: [0; 9], length: 0 };
}

/// Something a caller has to know.
pub enum Event {
    /// An answer is whole: when it was asked for, and what it is.
    Answer(Instant, Answer),
    /// This many requests will not be answered here and may be asked again elsewhere.
    NotTaken(usize),
}

impl Client {
    /// Begins a connection: writes the preface, our settings and the connection's window to `out`.
    pub fn new(keeps_bodies: bool, out: &mut Vec<u8>) -> Client {
        out.extend_from_slice(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
        let [a, b, c, d] = STREAM_WINDOW_BYTES.to_be_bytes();
        // SETTINGS_ENABLE_PUSH 0, SETTINGS_INITIAL_WINDOW_SIZE.
        write_frame(out, SETTINGS, 0, 0, &[0, 2, 0, 0, 0, 0, 0, 4, a, b, c, d]);
        write_frame(out, WINDOW_UPDATE, 0, 0, &(CONNECTION_WINDOW_BYTES - INITIAL_WINDOW_BYTES).to_be_bytes());
        Client {
            frame: Frame::START,
            streams: Vec::new(),
            next_stream: 1,
            last_stream: None,
            unacknowledged_bytes: 0,
            keeps_bodies,
        }
    }

    /// Whether the peer takes more requests on this connection.
    pub fn may_ask(&self) -> bool {
        self.last_stream.is_none() && self.next_stream < 1 << 30
    }

    /// Asks on a new stream.
    pub fn ask(&mut self, ask: &Ask, asked: Instant, out: &mut Vec<u8>) {
        let block = if self.next_stream == 1 { &ask.first } else { &ask.again };
        write_frame(out, HEADERS, END_STREAM | END_HEADERS, self.next_stream, block);
        self.streams.push(Stream { id: self.next_stream, asked, answer: Answer::default() });
        self.next_stream += 2;
    }

    /// Takes bytes off `input` until there is an event or there are no more; replies go to `out`.
    pub fn take(&mut self, input: &mut &[u8], out: &mut Vec<u8>) -> Result<Option<Event>, String> {
        loop {
            let event = match &mut self.frame {
                Frame::Header { bytes, length } => {
                    let part = split(input, 9 - *length);
                    if let Some(space) = bytes.get_mut(*length..*length + part.len()) {
                        space.copy_from_slice(part);
                    }
                    *length += part.len();
                    if *length < 9 {
                        return Ok(None);
                    }
                    let header = *bytes;
                    self.begin_frame(header)?
                }
                Frame::Data { stream, ends, left } => {
                    if input.is_empty() {
                        return Ok(None);
                    }
                    let part = split(input, *left);
                    *left -= part.len();
                    let (stream, ends) = (*stream, *left == 0 && *ends);
                    if *left == 0 {
                        self.frame = Frame::START;
                    }
                    self.data(stream, part, ends, out)?
                }
                Frame::Held { length, payload, .. } => {
                    let part = split(input, *length - payload.len());
                    payload.extend_from_slice(part);
                    if payload.len() < *length {
                        return Ok(None);
                    }
                    self.end_frame(out)?
                }
            };
            if event.is_some() {
                return Ok(event);
            }
        }
    }

    fn begin_frame(&mut self, header: [u8; 9]) -> Result<Option<Event>, String> {
        let [l2, l1, l0, kind, flags, s3, s2, s1, s0] = header;
        let length = u32::from_be_bytes([0, l2, l1, l0]) as usize;
        let stream = u32::from_be_bytes([s3 & 0x7f, s2, s1, s0]);
        if length > FRAME_BYTES_MAX {
            return Err(format!("a frame of {length} bytes"));
        }
        if kind != DATA {
            self.frame = Frame::Held { kind, flags, stream, length, payload: Vec::with_capacity(length) };
            return Ok(None);
        }
        if flags & PADDED != 0 {
            return Err("padded DATA, which is not counted rightly here".into());
        }
        let ends = flags & END_STREAM != 0;
        self.frame = if length > 0 { Frame::Data { stream, ends, left: length } } else { Frame::START };
        if length == 0 && ends { self.finish(stream).map(Some) } else { Ok(None) }
    }

    fn data(&mut self, id: u32, part: &[u8], ends: bool, out: &mut Vec<u8>) -> Result<Option<Event>, String> {
        self.unacknowledged_bytes += part.len() as u32;
        if self.unacknowledged_bytes >= CONNECTION_WINDOW_BYTES / 2 {
            write_frame(out, WINDOW_UPDATE, 0, 0, &self.unacknowledged_bytes.to_be_bytes());
            self.unacknowledged_bytes = 0;
        }
        let keeps = self.keeps_bodies;
        let answer = &mut self.stream(id)?.answer;
        answer.bytes += part.len();
        if keeps {
            answer.body.extend_from_slice(part);
        }
        if ends { self.finish(id).map(Some) } else { Ok(None) }
    }

    /// Acts on a frame that was held until it was whole.
    fn end_frame(&mut self, out: &mut Vec<u8>) -> Result<Option<Event>, String> {
        let Frame::Held { kind, flags, stream, payload, .. } = std::mem::replace(&mut self.frame, Frame::START) else {
            return Ok(None);
        };
        match kind {
            HEADERS => {
                let block = block_in(&payload, flags).ok_or("a HEADERS frame is shorter than its padding")?;
                let answer = &mut self.stream(stream)?.answer;
                // A second block is trailers.
                if answer.status == 0 {
                    answer.status = status_in(block).ok_or("a status that is not understood")?;
                }
                if flags & END_STREAM != 0 {
                    return self.finish(stream).map(Some);
                }
            }
            RST_STREAM => return Err(format!("stream {stream} is reset with code {}", number_at(&payload, 0))),
            SETTINGS if flags & ACK == 0 => {
                for setting in payload.chunks_exact(6) {
                    // The blocks we send rely on the server's table of 4,096 bytes being there.
                    if setting.starts_with(&[0, 1]) && number_at(setting, 2) < 4096 {
                        return Err(format!("a header table of {} bytes", number_at(setting, 2)));
                    }
                }
                write_frame(out, SETTINGS, ACK, 0, &[]);
            }
            PING if flags & ACK == 0 => write_frame(out, PING, ACK, 0, &payload),
            PUSH_PROMISE => return Err("a push we did not allow".into()),
            GOAWAY => {
                let (last, code) = (number_at(&payload, 0) & 0x7fff_ffff, number_at(&payload, 4));
                if code != 0 {
                    return Err(format!("GOAWAY with code {code}"));
                }
                self.last_stream = Some(last);
                let before = self.streams.len();
                self.streams.retain(|stream| stream.id <= last);
                return Ok(Some(Event::NotTaken(before - self.streams.len())));
            }
            // WINDOW_UPDATE: our requests have no body. CONTINUATION: the status is in the first frame. Others: §4.1.
            _ => {}
        }
        Ok(None)
    }

    fn stream(&mut self, id: u32) -> Result<&mut Stream, String> {
        self.streams.iter_mut().find(|stream| stream.id == id).ok_or_else(|| format!("a frame on stream {id}"))
    }

    fn finish(&mut self, id: u32) -> Result<Event, String> {
        let at = self.streams.iter().position(|stream| stream.id == id);
        let stream = at.map(|at| self.streams.swap_remove(at)).ok_or_else(|| format!("an end on stream {id}"))?;
        Ok(Event::Answer(stream.asked, stream.answer))
    }
}

/// The field block in the payload of a HEADERS frame.
fn block_in(payload: &[u8], flags: u8) -> Option<&[u8]> {
    let mut block = payload;
    let mut padding = 0;
    if flags & PADDED != 0 {
        let (length, rest) = block.split_first()?;
        (padding, block) = (usize::from(*length), rest);
    }
    if flags & PRIORITY != 0 {
        block = block.get(5..)?;
    }
    block.get(..block.len().checked_sub(padding)?)
}

/// The status at the start of a response's field block, which is where it has to be (RFC 9113 §8.3).
fn status_in(mut block: &[u8]) -> Option<u16> {
    // Updates of the table's size come first: 001, then a number with a prefix of five bits (RFC 7541 §6.3).
    while let Some((first, rest)) = block.split_first().filter(|(first, _)| **first & 0xe0 == 0x20) {
        block = rest;
        if first & 0x1f == 0x1f {
            let more = block.iter().position(|byte| byte & 0x80 == 0)?;
            block = block.get(more + 1..)?;
        }
    }
    let (first, rest) = block.split_first()?;
    match first {
        0x88 => Some(200),
        0x89 => Some(204),
        0x8a => Some(206),
        0x8b => Some(304),
        0x8c => Some(400),
        0x8d => Some(404),
        0x8e => Some(500),
        // A literal with the name of entry 8 to 14; three digits that are not Huffman-coded.
        0x08..=0x0e | 0x18..=0x1e | 0x48..=0x4e if rest.first() == Some(&3) => {
            std::str::from_utf8(rest.get(1..4)?).ok()?.parse().ok()
        }
        _ => None,
    }
}

fn write_frame(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    let [_, l2, l1, l0] = (payload.len() as u32).to_be_bytes();
    out.extend_from_slice(&[l2, l1, l0, kind, flags]);
    out.extend_from_slice(&stream.to_be_bytes());
    out.extend_from_slice(payload);
}

/// The number of four bytes at `at`; what is not there counts as zeros.
fn number_at(bytes: &[u8], at: usize) -> u32 {
    let four = bytes.get(at..at + 4).and_then(|four| four.try_into().ok()).unwrap_or([0; 4]);
    u32::from_be_bytes(four)
}

fn split<'a>(input: &mut &'a [u8], most: usize) -> &'a [u8] {
    let (part, rest) = input.split_at(most.min(input.len()));
    *input = rest;
    part
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(streams: usize) -> (Client, Vec<u8>) {
        let mut out = Vec::new();
        let mut client = Client::new(true, &mut out);
        let ask = Ask::new(true, "localhost", "/page/1");
        for _ in 0..streams {
            client.ask(&ask, Instant::now(), &mut out);
        }
        out.clear();
        (client, out)
    }

    fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        write_frame(&mut out, kind, flags, stream, payload);
        out
    }

    #[test]
    fn answers_of_several_streams_are_told_apart_in_any_pieces() {
        let wire = [
            frame(SETTINGS, 0, 0, &[0, 3, 0, 0, 0, 128]),
            frame(HEADERS, END_HEADERS, 3, &[0x20, 0x88]),
            frame(HEADERS, END_HEADERS, 1, &[0x3f, 0xe1, 0x1f, 0x48, 3, b'4', b'0', b'3']),
            frame(DATA, 0, 3, b"abc"),
            frame(DATA, END_STREAM, 1, b"no"),
            frame(PING, 0, 0, b"12345678"),
            frame(DATA, END_STREAM, 3, &[]),
        ]
        .concat();
        for step in 1..=wire.len() {
            let (mut client, mut out) = client(2);
            let mut answers = Vec::new();
            for piece in wire.chunks(step) {
                let mut input = piece;
                while let Some(event) = client.take(&mut input, &mut out).expect("it is valid") {
                    let Event::Answer(_, answer) = event else { panic!("nothing else comes") };
                    answers.push((answer.status, String::from_utf8_lossy(&answer.body).into_owned()));
                }
            }
            assert_eq!(answers, [(403, "no".to_string()), (200, "abc".to_string())], "in pieces of {step}");
            let replies = [frame(SETTINGS, ACK, 0, &[]), frame(PING, ACK, 0, b"12345678")].concat();
            assert_eq!(out, replies, "in pieces of {step}");
        }
    }

    #[test]
    fn after_goaway_nothing_is_asked_and_the_rest_is_given_back() {
        let (mut client, mut out) = client(3);
        let wire = frame(GOAWAY, 0, 0, &[0, 0, 0, 3, 0, 0, 0, 0]);
        let event = client.take(&mut &wire[..], &mut out).expect("it is valid");
        assert!(matches!(event, Some(Event::NotTaken(1))));
        assert!(!client.may_ask());
    }

    #[test]
    fn the_connection_window_is_opened_again_before_it_is_used_up() {
        let (mut client, mut out) = client(1);
        let mut wire = frame(HEADERS, END_HEADERS, 1, &[0x88]);
        let part = vec![0; FRAME_BYTES_MAX];
        while wire.len() < CONNECTION_WINDOW_BYTES as usize / 2 + FRAME_BYTES_MAX {
            wire.extend(frame(DATA, 0, 1, &part));
        }
        assert!(client.take(&mut &wire[..], &mut out).expect("it is valid").is_none());
        assert_eq!((out.len(), out[3]), (13, WINDOW_UPDATE));
    }

    #[test]
    fn what_cannot_be_counted_is_refused() {
        for (what, wire) in [
            ("a stream nobody asked on", frame(DATA, END_STREAM, 9, b"x")),
            ("a reset", frame(RST_STREAM, 0, 1, &[0, 0, 0, 8])),
            ("an error", frame(GOAWAY, 0, 0, &[0, 0, 0, 1, 0, 0, 0, 11])),
            ("padding", frame(DATA, PADDED, 1, &[0, 1])),
            ("a small table", frame(SETTINGS, 0, 0, &[0, 1, 0, 0, 0, 0])),
            ("a large frame", vec![1, 0, 0, DATA, 0, 0, 0, 0, 1]),
            ("no status", frame(HEADERS, END_HEADERS, 1, &[0x82])),
        ] {
            let (mut client, mut out) = client(1);
            assert!(client.take(&mut &wire[..], &mut out).is_err(), "{what}");
        }
    }
}
