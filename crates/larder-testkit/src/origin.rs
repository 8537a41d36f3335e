//! An HTTP origin that answers from a script.

use std::io::{self, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crate::script::{Hold, Route, Script};
use crate::wire::{Head, Incoming, field};

/// An HTTP/1.1 origin on the loopback address. It records every request, whole, before it answers.
#[derive(Debug)]
pub struct Origin {
    address: SocketAddr,
    script: Arc<Script<Answer, OriginSeen>>,
    connections: Arc<Mutex<Vec<TcpStream>>>,
    acceptor: Option<thread::JoinHandle<()>>,
}

/// What an origin sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Status line and fields, through the empty line; sent as it is.
    pub head: Vec<u8>,
    /// What follows; left out where the request is a HEAD.
    pub body: Vec<u8>,
    /// What happens to the connection then.
    pub then: Then,
}

/// What an origin does once its answer is out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// Waits for the next request.
    Keep,
    /// Closes the connection.
    Close,
    /// Sends nothing more and stays, until the origin is dropped.
    Hang,
}

impl Answer {
    /// A response with a status such as `200 OK`, no fields, no body.
    pub fn status(status: &str) -> Answer {
        Answer { head: format!("HTTP/1.1 {status}\r\n\r\n").into_bytes(), body: Vec::new(), then: Then::Keep }
    }

    /// `200 OK` with a body and its Content-Length.
    pub fn ok(body: impl Into<Vec<u8>>) -> Answer {
        Answer::status("200 OK").body(body)
    }

    /// These bytes, then close.
    pub fn raw(bytes: impl Into<Vec<u8>>) -> Answer {
        Answer { head: bytes.into(), body: Vec::new(), then: Then::Close }
    }

    /// Adds a field.
    pub fn field(mut self, name: &str, value: &str) -> Answer {
        let end = self.head.len().saturating_sub(2);
        self.head.splice(end.., format!("{name}: {value}\r\n\r\n").into_bytes());
        self
    }

    /// Sets the body and adds its Content-Length.
    pub fn body(self, body: impl Into<Vec<u8>>) -> Answer {
        let body = body.into();
        let mut answer = self.field("Content-Length", &body.len().to_string());
        answer.body = body;
        answer
    }

    /// Sets what happens then.
    pub fn then(mut self, then: Then) -> Answer {
        self.then = then;
        self
    }
}

/// A request as an origin received it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OriginSeen {
    /// `GET /path HTTP/1.0`.
    pub request_line: String,
    /// The fields in order.
    pub fields: Vec<(String, String)>,
    /// The body without its transfer coding.
    pub body: Vec<u8>,
    /// The connection it came on, counted from 0 since the origin started.
    pub connection: usize,
}

impl OriginSeen {
    /// The first field of this name, in any case.
    pub fn field(&self, name: &str) -> Option<&str> {
        field(&self.fields, name)
    }
}

impl Origin {
    /// Listens on a free port of 127.0.0.1 and answers 404 until told otherwise.
    pub fn start() -> io::Result<Origin> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let script = Script::new();
        let connections = Arc::new(Mutex::new(Vec::new()));
        let acceptor = thread::spawn({
            let (script, connections) = (Arc::clone(&script), Arc::clone(&connections));
            move || accept(&listener, &script, &connections)
        });
        Ok(Origin { address, script, connections, acceptor: Some(acceptor) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// From now on `route` answers this.
    pub fn answer(&self, route: impl Into<Route>, answer: Answer) {
        self.script.answer(route.into(), answer);
    }

    /// `route` answers this when what it was told before is used up; the last answer stays.
    pub fn answer_then(&self, route: impl Into<Route>, answer: Answer) {
        self.script.answer_then(route.into(), answer);
    }

    /// Requests of `path` (`*`: all that have no hold of their own) are recorded, then wait for the release.
    pub fn hold(&self, path: &str) -> Hold {
        self.script.hold(path);
        let (script, path) = (Arc::clone(&self.script), path.to_owned());
        Hold::new(move || script.release(&path))
    }

    /// Everything asked so far, in order of arrival.
    pub fn requests(&self) -> Vec<OriginSeen> {
        self.script.seen()
    }

    /// How many requests there were.
    pub fn count(&self) -> usize {
        self.script.seen().len()
    }

    /// Waits until `count` requests have arrived; `false` when patience ran out.
    pub fn wait_for(&self, count: usize) -> bool {
        self.script.wait_for(count)
    }

    /// Forgets what was asked and starts the script anew.
    pub fn rewind(&self) {
        self.script.rewind();
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        self.script.stop();
        // The acceptor sits in accept(); a connection is what wakes it.
        let is_woken = TcpStream::connect_timeout(&self.address, Duration::from_secs(1)).is_ok();
        if let Some(acceptor) = self.acceptor.take().filter(|_| is_woken) {
            drop(acceptor.join());
        }
        for stream in self.connections.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            drop(stream.shutdown(Shutdown::Both));
        }
    }
}

fn accept(listener: &TcpListener, script: &Arc<Script<Answer, OriginSeen>>, connections: &Mutex<Vec<TcpStream>>) {
    for (connection, stream) in listener.incoming().enumerate() {
        if script.is_stopped() {
            return;
        }
        let Ok(stream) = stream else { continue };
        if let Ok(clone) = stream.try_clone() {
            connections.lock().unwrap_or_else(PoisonError::into_inner).push(clone);
        }
        let script = Arc::clone(script);
        // A peer that goes away ends its thread; that is no event for the test.
        thread::spawn(move || drop(serve(stream, connection, &script)));
    }
}

fn serve(stream: TcpStream, connection: usize, script: &Script<Answer, OriginSeen>) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut incoming = Incoming::new(stream);
    while let Some(head) = incoming.head()? {
        let body = read_body(&head, &mut incoming)?;
        let seen = OriginSeen { request_line: head.start_line, fields: head.fields, body, connection };
        let mut words = seen.request_line.split(' ');
        let is_head = words.next() == Some("HEAD");
        let target = words.next().unwrap_or_default().to_owned();
        let fields = seen.fields.clone();
        let answer = script
            .exchange(&target, |name| field(&fields, name).is_some(), seen)
            .unwrap_or_else(|| Answer::status("404 Not Found").body("nothing is scripted here\n"));
        let mut bytes = answer.head;
        if !is_head {
            bytes.extend_from_slice(&answer.body);
        }
        incoming.stream.write_all(&bytes)?;
        match answer.then {
            Then::Keep => {}
            Then::Close => return close(&mut incoming),
            Then::Hang => {
                while !incoming.up_to(1)?.is_empty() {}
                return Ok(());
            }
        }
    }
    Ok(())
}

/// Ends our side and reads the other's to its end, lest unread bytes turn the close into a reset.
fn close(incoming: &mut Incoming<TcpStream>) -> io::Result<()> {
    incoming.stream.shutdown(Shutdown::Write)?;
    incoming.stream.set_read_timeout(Some(Duration::from_secs(1)))?;
    while !incoming.up_to(1)?.is_empty() {}
    Ok(())
}

/// The body of a request, by its framing.
pub(crate) fn read_body(head: &Head, incoming: &mut Incoming<TcpStream>) -> io::Result<Vec<u8>> {
    if field(&head.fields, "Transfer-Encoding").is_some_and(|coding| coding.eq_ignore_ascii_case("chunked")) {
        let (body, _, is_whole) = incoming.chunked();
        return if is_whole { Ok(body) } else { Err(io::Error::other("the request's body is not whole")) };
    }
    match field(&head.fields, "Content-Length").map(str::parse) {
        Some(Ok(length)) => incoming.exactly(length),
        _ => Ok(Vec::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Client;

    #[test]
    fn an_origin_answers_its_script_and_remembers_what_it_was_asked() {
        let origin = Origin::start().unwrap();
        origin.answer("/a", Answer::ok("one").field("X-A", "b"));
        origin.answer_then("/a", Answer::raw("HTTP/1.1 200 OK\r\n\r\ntwo"));
        let mut client = Client::connect(origin.address()).unwrap();
        client.send(b"POST /a?q HTTP/1.1\r\nContent-Length: 2\r\n\r\nhiHEAD /none HTTP/1.1\r\n\r\n").unwrap();
        let first = client.read_response("POST").unwrap();
        assert_eq!((first.status, first.field("x-a"), &first.body[..]), (200, Some("b"), &b"one"[..]));
        assert_eq!(client.read_response("HEAD").unwrap().status, 404);
        client.send(b"GET /a HTTP/1.1\r\n\r\n").unwrap();
        assert_eq!(client.read_response("GET").unwrap().body, b"two");
        let seen = origin.requests();
        assert_eq!(seen[0].body, b"hi");
        assert_eq!(seen[2].request_line, "GET /a HTTP/1.1");
    }

    #[test]
    fn a_held_answer_comes_after_its_release() {
        let origin = Origin::start().unwrap();
        origin.answer("/a", Answer::ok("x"));
        let hold = origin.hold("/a");
        let mut client = Client::connect(origin.address()).unwrap();
        client.send(b"GET /a HTTP/1.1\r\n\r\n").unwrap();
        assert!(origin.wait_for(1));
        hold.release();
        assert_eq!(client.read_response("GET").unwrap().body, b"x");
    }
}
