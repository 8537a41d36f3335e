//! A client with a kept connection, which sends any request and waits for the answer.

use crate::load::generator::Answer;
use crate::load::generator::h1::Reader;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Only guards against hanging: longer than a node is stopped.
const ANSWER_LIMIT: Duration = Duration::from_secs(60);
/// Room for what one read brings.
const BUFFER_BYTES: usize = 16 * 1024;
/// The site.
const HOST: &str = "site.test";

/// A client of one node.
pub struct Asker {
    address: SocketAddr,
    open: Option<Open>,
}

struct Open {
    stream: TcpStream,
    reader: Reader,
}

impl Asker {
    /// Nothing is opened yet.
    pub fn new(address: SocketAddr) -> Asker {
        Asker { address, open: None }
    }

    /// Gets a page.
    pub fn get(&mut self, path: &str) -> io::Result<Answer> {
        self.ask("GET", path, "", "")
    }

    /// Sends a request, and waits for its answer. A connection that has failed is replaced by the next request.
    pub fn ask(&mut self, method: &str, path: &str, fields: &str, body: &str) -> io::Result<Answer> {
        self.send(method, path, fields, body)?;
        self.receive()
    }

    /// Closes its connection. The next request opens another.
    pub fn close(&mut self) {
        self.open = None;
    }

    /// Sends a request.
    pub fn send(&mut self, method: &str, path: &str, fields: &str, body: &str) -> io::Result<()> {
        let length = if body.is_empty() { String::new() } else { format!("Content-Length: {}\r\n", body.len()) };
        let request = format!("{method} {path} HTTP/1.1\r\nHost: {HOST}\r\n{fields}{length}\r\n{body}");
        let open = match &mut self.open {
            Some(open) => open,
            none => none.insert(Open::to(self.address)?),
        };
        let sent = open.stream.write_all(request.as_bytes());
        self.note(sent)
    }

    /// Waits for the answer to what was sent.
    pub fn receive(&mut self) -> io::Result<Answer> {
        let Some(open) = &mut self.open else { return Err(ErrorKind::NotConnected.into()) };
        let answer = open.receive();
        let closes = answer.as_ref().is_ok_and(|answer| answer.closes);
        let answer = self.note(answer);
        if closes {
            self.open = None;
        }
        answer
    }

    fn note<T>(&mut self, result: io::Result<T>) -> io::Result<T> {
        if result.is_err() {
            self.open = None;
        }
        result
    }
}

impl Open {
    fn to(address: SocketAddr) -> io::Result<Open> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(ANSWER_LIMIT))?;
        stream.set_write_timeout(Some(ANSWER_LIMIT))?;
        Ok(Open { stream, reader: Reader::new(true) })
    }

    fn receive(&mut self) -> io::Result<Answer> {
        let mut buffer = [0; BUFFER_BYTES];
        loop {
            let count = self.stream.read(&mut buffer)?;
            if count == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            let mut input = buffer.get(..count).unwrap_or_default();
            let taken = self.reader.take(&mut input);
            if let Some(answer) = taken.map_err(|fact| io::Error::new(ErrorKind::InvalidData, fact))? {
                return Ok(answer);
            }
        }
    }
}
