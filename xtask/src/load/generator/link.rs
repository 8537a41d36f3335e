//! One connection of the generator: a socket that never waits, TLS if there is any, and a protocol above it.

use super::h2::Event;
use super::tls::{Agreement, Progress, Session};
use super::{Answer, Plan, Protocol, h1, h2};
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, ipproto, socket_with};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Instant;

/// A connection on which at least the first packet has been sent.
pub struct Link {
    socket: TcpStream,
    tls: Option<Session>,
    codec: Codec,
    is_announced: bool,
    /// What the protocol wants to send.
    plain: Vec<u8>,
    /// What goes to the socket, from `sent` on.
    wire: Vec<u8>,
    sent: usize,
}

enum Codec {
    Http1 { reader: h1::Reader, asked: Option<Instant> },
    Http2(h2::Client),
}

/// What a link has to tell.
pub enum Happening {
    /// The connection is there, and its handshake is over.
    Opened(Option<Agreement>),
    /// An answer is whole.
    Answer(Instant, Answer),
    /// So many requests have to be asked elsewhere.
    NotTaken(usize),
    /// The peer has closed.
    Ended,
}

impl Link {
    /// Begins a connection as `plan` says.
    pub fn open(plan: &Plan<'_>) -> Result<Link, String> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::INET, SocketType::STREAM, flags, Some(ipproto::TCP))
            .map_err(|error| format!("no socket: {error}"))?;
        match connect(&socket, &plan.address) {
            Ok(()) | Err(rustix::io::Errno::INPROGRESS) => {}
            Err(error) => return Err(format!("cannot connect: {error}")),
        }
        let socket = TcpStream::from(socket);
        socket.set_nodelay(true).map_err(|error| format!("cannot set an option: {error}"))?;
        let (mut plain, mut wire) = (Vec::new(), Vec::new());
        let tls = match &plan.tls {
            Some(client) => Some(Session::begin(client, &mut wire).map_err(|error| format!("TLS: {error}"))?),
            None => None,
        };
        let codec = match plan.protocol {
            Protocol::Http1 => Codec::Http1 { reader: h1::Reader::new(plan.keeps_bodies), asked: None },
            Protocol::Http2 { .. } => Codec::Http2(h2::Client::new(plan.keeps_bodies, &mut plain)),
        };
        Ok(Link { socket, tls, codec, is_announced: false, plain, wire, sent: 0 })
    }

    /// The socket, for waiting on it.
    pub fn socket(&self) -> &TcpStream {
        &self.socket
    }

    /// Whether the peer takes another request here at some time.
    pub fn may_ask(&self) -> bool {
        match &self.codec {
            Codec::Http1 { .. } => true,
            Codec::Http2(client) => client.may_ask(),
        }
    }

    /// Asks for the page; over HTTP/1.1 only when nothing is asked already. `send` brings it under way.
    pub fn ask(&mut self, request: &Request, now: Instant, is_last: bool) {
        match &mut self.codec {
            Codec::Http1 { asked, .. } => {
                *asked = Some(now);
                self.plain.extend_from_slice(if is_last { &request.last } else { &request.again });
            }
            Codec::Http2(client) => client.ask(&request.stream, now, &mut self.plain),
        }
    }

    /// Sends what the socket takes now.
    pub fn send(&mut self) -> Result<(), String> {
        match &mut self.tls {
            None => self.wire.append(&mut self.plain),
            Some(session) if session.is_open() && !self.plain.is_empty() => {
                session.send(&self.plain, &mut self.wire).map_err(|error| format!("TLS: {error}"))?;
                self.plain.clear();
            }
            Some(_) => {}
        }
        while let Some(left) = self.wire.get(self.sent..).filter(|left| !left.is_empty()) {
            match (&self.socket).write(left) {
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(format!("cannot send: {error}")),
            }
        }
        self.wire.clear();
        self.sent = 0;
        Ok(())
    }

    /// Reads what is there, and tells what came of it. With `to_its_end` it reads on after a read that was not full.
    pub fn receive(
        &mut self,
        buffer: &mut [u8],
        to_its_end: bool,
        happenings: &mut Vec<Happening>,
    ) -> Result<(), String> {
        loop {
            let count = match (&self.socket).read(buffer) {
                Ok(0) => {
                    happenings.push(Happening::Ended);
                    return Ok(());
                }
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(format!("cannot read: {error}")),
            };
            self.take(buffer.get_mut(..count).unwrap_or_default(), happenings)?;
            // A read that was not full has emptied the socket.
            if count < buffer.len() && !to_its_end {
                return Ok(());
            }
        }
    }

    fn take(&mut self, came: &mut [u8], happenings: &mut Vec<Happening>) -> Result<(), String> {
        let Link { tls, codec, plain: replies, wire, is_announced, .. } = self;
        let Some(session) = tls else {
            if !std::mem::replace(is_announced, true) {
                happenings.push(Happening::Opened(None));
            }
            return codec.take(came, replies, happenings);
        };
        let progress =
            session.take(came, wire, |bytes| codec.take(bytes, replies, happenings).map_err(rustls::Error::General));
        match progress.map_err(|error| format!("TLS: {error}"))? {
            Progress::Opened => happenings.insert(0, Happening::Opened(session.agreement())),
            Progress::Closed => happenings.push(Happening::Ended),
            Progress::Shaking | Progress::Open => {}
        }
        Ok(())
    }

    /// Says goodbye as far as the socket takes it, and closes.
    pub fn close(mut self) {
        if let Some(session) = &mut self.tls {
            // The connection ends either way.
            let _ = session.close(&mut self.wire);
        }
        let _ = self.send();
    }
}

impl Codec {
    fn take(&mut self, mut input: &[u8], replies: &mut Vec<u8>, happenings: &mut Vec<Happening>) -> Result<(), String> {
        match self {
            Codec::Http1 { reader, asked } => {
                while let Some(answer) = reader.take(&mut input)? {
                    let asked = asked.take().ok_or("an answer to no request")?;
                    happenings.push(Happening::Answer(asked, answer));
                }
            }
            Codec::Http2(client) => {
                while let Some(event) = client.take(&mut input, replies)? {
                    happenings.push(match event {
                        Event::Answer(asked, answer) => Happening::Answer(asked, answer),
                        Event::NotTaken(count) => Happening::NotTaken(count),
                    });
                }
            }
        }
        Ok(())
    }
}

/// The request of a plan, as bytes.
pub struct Request {
    again: Vec<u8>,
    last: Vec<u8>,
    stream: h2::Ask,
}

impl Request {
    /// The request that `plan` makes.
    pub fn of(plan: &Plan<'_>) -> Request {
        let coding = if plan.accepts_gzip { "Accept-Encoding: gzip\r\n" } else { "" };
        // Without TLS as wrk has it, and whoever fetches a page before: for Varnish, another host has other pages.
        let host = if plan.tls.is_some() { "localhost".to_string() } else { plan.address.to_string() };
        let head = format!("GET {} HTTP/1.1\r\nHost: {host}\r\n{coding}", plan.path);
        Request {
            again: format!("{head}\r\n").into_bytes(),
            last: format!("{head}Connection: close\r\n\r\n").into_bytes(),
            stream: h2::Ask::new(plan.tls.is_some(), "localhost", plan.path),
        }
    }
}
