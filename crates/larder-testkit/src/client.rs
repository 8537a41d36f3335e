//! An HTTP/1.1 client that sends what it is told and reads exactly one response at a time.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::time::Duration;

use crate::PATIENCE;
use crate::stream::Stream;
use crate::tls::{Tls, TlsFacts};
use crate::wire::{Incoming, field};

/// A connection to a server.
#[derive(Debug)]
pub struct Client {
    incoming: Incoming<Stream>,
    patience: Duration,
}

/// What a server sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// `HTTP/1.1 200 OK`.
    pub status_line: String,
    /// 200; 0 when the line has no number.
    pub status: u16,
    /// Names as sent and values, in order.
    pub fields: Vec<(String, String)>,
    /// Without the transfer coding.
    pub body: Vec<u8>,
    /// How the end of the body was told.
    pub framing: Framing,
    /// Fields after a chunked body.
    pub trailers: Vec<(String, String)>,
}

/// How the end of a body was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// The status or the method says that there is none.
    None,
    /// Content-Length.
    Length,
    /// Chunked.
    Chunked,
    /// The end of a stream of HTTP/2.
    Stream,
    /// The end of the connection.
    Close,
    /// The connection ended before the body did.
    Cut,
}

/// Why no response was read.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// An end where a response was due.
    #[error("the server closed the connection instead of answering")]
    Closed,
    /// Bytes that are no response.
    #[error("not a response: {0:?}")]
    NotHttp(String),
    /// Nothing for as long as the client is patient.
    #[error("the server sent nothing for too long")]
    Silent,
    /// The socket failed.
    #[error("{0}")]
    Io(io::Error),
}

impl From<io::Error> for ClientError {
    fn from(error: io::Error) -> ClientError {
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => ClientError::Silent,
            io::ErrorKind::InvalidData => ClientError::NotHttp(error.to_string()),
            io::ErrorKind::ConnectionReset | io::ErrorKind::UnexpectedEof => ClientError::Closed,
            _ => ClientError::Io(error),
        }
    }
}

impl Response {
    /// The first field of this name, in any case.
    pub fn field(&self, name: &str) -> Option<&str> {
        field(&self.fields, name)
    }

    /// Whether the server keeps the connection after this response.
    pub fn keeps_connection(&self) -> bool {
        let closes = self.field("Connection").is_some_and(|value| value.eq_ignore_ascii_case("close"));
        !closes && !matches!(self.framing, Framing::Close | Framing::Cut)
    }
}

impl Client {
    /// Connects.
    pub fn connect(address: SocketAddr) -> io::Result<Client> {
        Ok(Client::over(Stream::connect(address)?))
    }

    /// Connects with TLS, through the end of the handshake.
    pub fn connect_tls(address: SocketAddr, tls: &Tls) -> io::Result<Client> {
        Client::connect_tls_after(address, tls, b"")
    }

    /// The same, behind bytes that are sent before the handshake, such as a PROXY protocol header.
    pub fn connect_tls_after(address: SocketAddr, tls: &Tls, first: &[u8]) -> io::Result<Client> {
        Ok(Client::over(Stream::connect_tls(address, tls, first)?))
    }

    /// Connects with TLS and sends `early` as early data, where a session resumed by [`Tls::early`] allows it.
    ///
    /// The flag says whether the server took it; when it did not, `early` is still to be sent.
    pub fn connect_early(address: SocketAddr, tls: &Tls, early: &[u8]) -> io::Result<(Client, bool)> {
        let (stream, is_taken) = Stream::connect_early(address, tls, early)?;
        Ok((Client::over(stream), is_taken))
    }

    fn over(stream: Stream) -> Client {
        Client { incoming: Incoming::new(stream), patience: PATIENCE }
    }

    /// What the handshake came to; `None` without TLS.
    pub fn tls(&self) -> Option<TlsFacts> {
        self.incoming.stream.facts()
    }

    /// Waits this long for bytes that are due, instead of [`PATIENCE`].
    pub fn set_patience(&mut self, patience: Duration) {
        self.patience = patience;
        self.incoming.stream.set_read_timeout(patience);
    }

    /// The address of this end.
    pub fn local_address(&self) -> io::Result<SocketAddr> {
        self.incoming.stream.socket().local_addr()
    }

    /// Sends these bytes.
    pub fn send(&mut self, bytes: &[u8]) -> Result<(), ClientError> {
        self.incoming.stream.write_all(bytes)?;
        Ok(self.incoming.stream.flush()?)
    }

    /// Says that nothing more will be sent.
    pub fn finish(&mut self) -> Result<(), ClientError> {
        Ok(self.incoming.stream.finish()?)
    }

    /// Reads one response to a request with `method`; a response of status 1xx counts as one.
    pub fn read_response(&mut self, method: &str) -> Result<Response, ClientError> {
        let mut response = self.read_head()?;
        let status = response.status;
        if method != "HEAD" && status >= 200 && status != 204 && status != 304 {
            self.read_body(&mut response)?;
        }
        Ok(response)
    }

    /// Reads a response through its head; what follows is left for [`Client::read_bytes`].
    pub fn read_head(&mut self) -> Result<Response, ClientError> {
        let head = self.incoming.head()?.ok_or(ClientError::Closed)?;
        if !head.start_line.starts_with("HTTP/") {
            return Err(ClientError::NotHttp(head.start_line));
        }
        let status = head.start_line.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or(0);
        Ok(Response {
            status_line: head.start_line,
            status,
            fields: head.fields,
            body: Vec::new(),
            framing: Framing::None,
            trailers: Vec::new(),
        })
    }

    /// Reads `count` bytes as they come: fewer when the server closes first.
    pub fn read_bytes(&mut self, count: usize) -> Result<Vec<u8>, ClientError> {
        Ok(self.incoming.up_to(count)?)
    }

    /// Reads the body that belongs to a head read before, by its framing.
    pub fn read_body(&mut self, response: &mut Response) -> Result<(), ClientError> {
        if response.field("Transfer-Encoding").is_some() {
            let (body, trailers, is_whole) = self.incoming.chunked();
            (response.body, response.trailers) = (body, trailers);
            response.framing = if is_whole { Framing::Chunked } else { Framing::Cut };
        } else if let Some(length) = response.field("Content-Length").and_then(|value| value.parse().ok()) {
            response.body = self.incoming.up_to(length)?;
            response.framing = if response.body.len() == length { Framing::Length } else { Framing::Cut };
        } else {
            response.body = self.read_to_end()?;
            response.framing = Framing::Close;
        }
        Ok(())
    }

    /// Everything until the server closes.
    pub fn read_to_end(&mut self) -> Result<Vec<u8>, ClientError> {
        Ok(self.incoming.up_to(usize::MAX)?)
    }

    /// Whether the server closes within `limit`, with nothing more to say.
    pub fn is_closed_within(&mut self, limit: Duration) -> bool {
        self.incoming.stream.set_read_timeout(limit);
        let closed = match self.incoming.up_to(1) {
            Ok(bytes) => bytes.is_empty(),
            Err(error) => matches!(error.kind(), io::ErrorKind::ConnectionReset | io::ErrorKind::UnexpectedEof),
        };
        self.incoming.stream.set_read_timeout(self.patience);
        closed
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_response_is_read_to_its_end_and_no_further() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let wire = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n\
                    HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n\
                    HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc";
        let server = std::thread::spawn(move || listener.accept().unwrap().0.write_all(wire.as_bytes()));
        let mut client = Client::connect(address).unwrap();
        for (method, status, body, framing) in [
            ("GET", 100, "", Framing::None),
            ("GET", 304, "", Framing::None),
            ("GET", 200, "ab", Framing::Chunked),
            ("HEAD", 200, "", Framing::None),
            ("GET", 200, "abc", Framing::Cut),
        ] {
            let response = client.read_response(method).unwrap();
            assert_eq!((response.status, response.framing), (status, framing));
            assert_eq!(response.body, body.as_bytes());
        }
        assert!(matches!(client.read_response("GET"), Err(ClientError::Closed)));
        server.join().unwrap().unwrap();
    }
}
