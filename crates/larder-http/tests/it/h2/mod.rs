//! An HTTP/2 connection from outside: frames in, events and frames out.

mod attacks;
mod frames;
mod priority;
mod request;
mod robust;
mod send;
mod windows;

use larder_http::h2::{Config, Connection, Event, PREFACE, StreamId, hpack};
use larder_http::{RequestHead, Time};

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const PRIORITY: u8 = 2;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PUSH_PROMISE: u8 = 5;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;
const PRIORITY_UPDATE: u8 = 16;

const ACK: u8 = 1;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const PADDED: u8 = 8;
const WITH_PRIORITY: u8 = 0x20;

/// A request for `/`.
const GET: &[(&str, &str)] = &[(":method", "GET"), (":scheme", "https"), (":path", "/"), (":authority", "a.b")];
/// A request with a body.
const POST: &[(&str, &str)] = &[(":method", "POST"), (":scheme", "https"), (":path", "/"), (":authority", "a.b")];

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    bytes.extend_from_slice(&[kind, flags]);
    bytes.extend_from_slice(&stream.to_be_bytes());
    bytes.extend_from_slice(payload);
    bytes
}

fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, value) in fields {
        // Written by hand, because the encoder would make names small.
        out.extend_from_slice(&[0, name.len() as u8]);
        out.extend_from_slice(name.as_bytes());
        let mut len = value.len();
        if len < 127 {
            out.push(len as u8);
        } else {
            out.push(127);
            len -= 127;
            while len >= 128 {
                out.push(len as u8 | 128);
                len >>= 7;
            }
            out.push(len as u8);
        }
        out.extend_from_slice(value.as_bytes());
    }
    out
}

fn headers(stream: u32, flags: u8, fields: &[(&str, &str)]) -> Vec<u8> {
    frame(HEADERS, flags | END_HEADERS, stream, &block(fields))
}

fn get(stream: u32) -> Vec<u8> {
    headers(stream, END_STREAM, GET)
}

fn post(stream: u32) -> Vec<u8> {
    headers(stream, 0, POST)
}

fn data(stream: u32, len: usize) -> Vec<u8> {
    frame(DATA, 0, stream, &vec![b'd'; len])
}

fn last_data(stream: u32, len: usize) -> Vec<u8> {
    frame(DATA, END_STREAM, stream, &vec![b'd'; len])
}

fn reset(stream: u32) -> Vec<u8> {
    frame(RST_STREAM, 0, stream, &8u32.to_be_bytes())
}

fn window_update(stream: u32, bytes: u32) -> Vec<u8> {
    frame(WINDOW_UPDATE, 0, stream, &bytes.to_be_bytes())
}

fn settings(settings: &[(u16, u32)]) -> Vec<u8> {
    let payload: Vec<u8> =
        settings.iter().flat_map(|(id, value)| [&id.to_be_bytes()[..], &value.to_be_bytes()].concat()).collect();
    frame(SETTINGS, 0, 0, &payload)
}

/// What a client begins with.
fn hello() -> Vec<u8> {
    [PREFACE, &settings(&[]), &frame(SETTINGS, ACK, 0, &[])].concat()
}

/// So many heads are kept for a test to look at.
const HEADS_KEPT: usize = 8;

/// A connection and what belongs to it.
struct Server {
    connection: Connection,
    head: RequestHead,
    /// The heads of the last requests.
    heads: Vec<RequestHead>,
    out: Vec<u8>,
    now: Time,
    left: Vec<u8>,
}

impl Server {
    /// A connection on which nothing has been received.
    fn silent(config: &Config) -> Server {
        let mut out = Vec::new();
        let connection = Connection::new(config, &mut out);
        let now = Time::from_secs(1_000_000);
        Server { connection, head: RequestHead::new(), heads: Vec::new(), out, now, left: Vec::new() }
    }

    /// A connection on which both sides have said what they want.
    fn with(config: &Config) -> Server {
        let mut server = Server::silent(config);
        assert_eq!(server.take(&hello()), [""; 0]);
        server.out.clear();
        server
    }

    fn new() -> Server {
        Server::with(&Config::default())
    }

    /// What happens when this comes.
    fn take(&mut self, bytes: &[u8]) -> Vec<String> {
        let mut bytes = [std::mem::take(&mut self.left), bytes.to_vec()].concat();
        let mut rest = &bytes[..];
        let mut events = Vec::new();
        loop {
            let event = match self.connection.next(&mut rest, &mut self.head, &mut self.out, self.now) {
                Ok(Some(event)) => event,
                Ok(None) => break,
                Err(error) => {
                    events.push(format!("error {}: {}", error.code.0, error.debug));
                    return events;
                }
            };
            events.push(match event {
                Event::Head { stream, ends, refused } => {
                    self.heads.push(self.head.clone());
                    self.heads.drain(..self.heads.len().saturating_sub(HEADS_KEPT));
                    let refused = refused.map(|error| format!(" refused {}", error.status())).unwrap_or_default();
                    format!("head {}{}{refused}", stream.0, if ends { " ends" } else { "" })
                }
                Event::Data { stream, data, ends } => {
                    format!("data {} {}{}", stream.0, data.len(), if ends { " ends" } else { "" })
                }
                Event::Trailers { stream } => format!("trailers {}", stream.0),
                Event::WrongLength { stream } => format!("wrong length {}", stream.0),
                Event::Reset { stream, code } => format!("reset {} {}", stream.0, code.0),
                Event::Window => "window".into(),
                Event::GoAway => "go away".into(),
            });
        }
        let left = bytes.split_off(bytes.len() - rest.len());
        self.left = left;
        events
    }

    /// What has been written since the last call, a frame a line.
    fn replies(&mut self) -> Vec<String> {
        let bytes = std::mem::take(&mut self.out);
        frames(&bytes).iter().map(shown).collect()
    }

    /// Answers a stream without a body.
    fn answer(&mut self, stream: u32) {
        let mut block = Vec::new();
        hpack::encode_status(204, &mut block);
        self.connection.send_head(StreamId(stream), &block, true, &mut self.out);
    }
}

/// Type, flags, stream and payload of each frame.
fn frames(mut bytes: &[u8]) -> Vec<(u8, u8, u32, Vec<u8>)> {
    let mut frames = Vec::new();
    while let Some((head, rest)) = bytes.split_first_chunk::<9>() {
        let len = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        frames.push((head[3], head[4], stream, rest[..len].to_vec()));
        bytes = &rest[len..];
    }
    assert!(bytes.is_empty(), "only whole frames are written");
    frames
}

fn shown((kind, flags, stream, payload): &(u8, u8, u32, Vec<u8>)) -> String {
    let number = |at: usize| payload.get(at..at + 4).map_or(0, |b| u32::from_be_bytes([b[0], b[1], b[2], b[3]]));
    let end = if flags & END_STREAM != 0 { " ends" } else { "" };
    let more = if flags & END_HEADERS == 0 { " more" } else { "" };
    match *kind {
        DATA => format!("DATA {stream} {}{end}", payload.len()),
        HEADERS => format!("HEADERS {stream} {}{end}{more}", payload.len()),
        CONTINUATION => format!("CONTINUATION {stream} {}{more}", payload.len()),
        RST_STREAM => format!("RST_STREAM {stream} {}", number(0)),
        SETTINGS if flags & ACK != 0 => "SETTINGS ack".into(),
        SETTINGS => {
            let pairs = payload.chunks(6).map(|s| {
                format!(" {}={}", u16::from_be_bytes([s[0], s[1]]), u32::from_be_bytes([s[2], s[3], s[4], s[5]]))
            });
            format!("SETTINGS{}", pairs.collect::<String>())
        }
        PING => format!("PING {flags} {}", number(4)),
        GOAWAY => format!("GOAWAY {} {}", number(0), number(4)),
        WINDOW_UPDATE => format!("WINDOW_UPDATE {stream} {}", number(0)),
        kind => format!("{kind} {flags} {stream}"),
    }
}
