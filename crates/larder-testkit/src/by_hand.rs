//! An HTTP origin that does nothing by itself: the test takes each connection and sends each byte.

use std::io::{self, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use crate::PATIENCE;
use crate::origin::{OriginSeen, read_body};
use crate::wire::Incoming;

/// How often the listener is asked for a connection.
const POLL: Duration = Duration::from_millis(1);

/// A listening socket whose connections the test takes.
#[derive(Debug)]
pub struct HandOrigin {
    listener: TcpListener,
    accepted: usize,
}

/// One connection to a [`HandOrigin`]. Dropping it closes it.
#[derive(Debug)]
pub struct HandConnection {
    incoming: Incoming<TcpStream>,
    number: usize,
}

impl HandOrigin {
    /// Listens on a free port of 127.0.0.1.
    pub fn start() -> io::Result<HandOrigin> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        Ok(HandOrigin { listener, accepted: 0 })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.listener.local_addr().expect("a listening socket has an address")
    }

    /// The next connection, waited for.
    pub fn accept(&mut self) -> io::Result<HandConnection> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(connection) = self.try_accept()? {
                return Ok(connection);
            }
            if Instant::now() >= deadline {
                return Err(io::ErrorKind::TimedOut.into());
            }
            thread::sleep(POLL);
        }
    }

    /// A connection that is there already.
    pub fn try_accept(&mut self) -> io::Result<Option<HandConnection>> {
        let stream = match self.listener.accept() {
            Ok((stream, _)) => stream,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            Err(error) => return Err(error),
        };
        stream.set_nonblocking(false)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let number = self.accepted;
        self.accepted += 1;
        Ok(Some(HandConnection { incoming: Incoming::new(stream), number }))
    }
}

impl HandConnection {
    /// The next request, whole; `None` when the peer closed instead.
    pub fn request(&mut self) -> io::Result<Option<OriginSeen>> {
        let Some(head) = self.incoming.head()? else {
            return Ok(None);
        };
        let body = read_body(&head, &mut self.incoming)?;
        Ok(Some(OriginSeen { request_line: head.start_line, fields: head.fields, body, connection: self.number }))
    }

    /// The head of the next request; what follows it is left unread.
    pub fn request_head(&mut self) -> io::Result<Option<OriginSeen>> {
        let head = self.incoming.head()?;
        Ok(head.map(|head| OriginSeen {
            request_line: head.start_line,
            fields: head.fields,
            body: Vec::new(),
            connection: self.number,
        }))
    }

    /// Reads `count` bytes as they come: fewer when the peer closes first.
    pub fn read_bytes(&mut self, count: usize) -> io::Result<Vec<u8>> {
        self.incoming.up_to(count)
    }

    /// Sends these bytes.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        self.incoming.stream.write_all(bytes.as_ref())
    }

    /// Says that nothing more will be sent.
    pub fn finish(&mut self) -> io::Result<()> {
        self.incoming.stream.shutdown(Shutdown::Write)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Client;

    #[test]
    fn an_answer_goes_out_when_the_test_sends_it() {
        let mut origin = HandOrigin::start().unwrap();
        assert!(origin.try_accept().unwrap().is_none());
        let mut client = Client::connect(origin.address()).unwrap();
        client.send(b"POST /a HTTP/1.1\r\nContent-Length: 2\r\n\r\nhi").unwrap();
        let mut connection = origin.accept().unwrap();
        let request = connection.request().unwrap().unwrap();
        assert_eq!((request.request_line.as_str(), &request.body[..]), ("POST /a HTTP/1.1", &b"hi"[..]));
        connection.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nab").unwrap();
        let head = client.read_head().unwrap();
        assert_eq!((head.status, head.body), (200, Vec::new()));
        assert_eq!(client.read_bytes(2).unwrap(), b"ab");
        connection.send("cd").unwrap();
        connection.finish().unwrap();
        assert_eq!(client.read_bytes(9).unwrap(), b"cd");
    }
}
