//! An origin that costs little: one thread waits for all connections, answers are made before, and each is one write.
//!
//! Where every request goes to the origin, it shares a CPU with the generator, and may not be what is measured.

use super::fetch;
use memchr::memmem;
use rustix::event::epoll::{self, EventData, EventFlags};
use std::collections::HashMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Room for what one read brings.
const BUFFER_BYTES: usize = 64 * 1024;
/// Largest request head that is read; our own servers send less.
const HEAD_BYTES_MAX: usize = 64 * 1024;
/// Events taken from the kernel at once.
const EVENTS_MAX: usize = 256;
/// The listener among the connections' numbers.
const LISTENER: u64 = u64::MAX;

const NOT_FOUND: &[u8] =
    b"HTTP/1.1 404 Not Found\r\nServer: origin\r\nContent-Type: text/plain\r\nContent-Length: 13\r\n\r\nno such page\n";

/// What is answered, by path.
pub struct Answers(HashMap<Vec<u8>, Arc<[u8]>>);

impl Answers {
    /// Answers with these bodies, by path: with the fields that a page of an application has, and nobody may keep it.
    pub fn of(bodies: impl Iterator<Item = (String, Vec<u8>)>) -> Answers {
        let answer = |(path, body): (String, Vec<u8>)| {
            let head = format!(
                "HTTP/1.1 200 OK\r\nServer: origin\r\nDate: Mon, 23 Nov 2026 00:00:00 GMT\r\n\
                 Content-Type: text/html; charset=utf-8\r\nContent-Length: {}\r\n\
                 Cache-Control: private, no-cache\r\nConnection: keep-alive\r\n\r\n",
                body.len()
            );
            (path.into_bytes(), Arc::from([head.into_bytes(), body].concat()))
        };
        Answers(bodies.map(answer).collect())
    }

    fn to(&self, head: &[u8]) -> Arc<[u8]> {
        let path = head.split(|byte| *byte == b' ').nth(1).unwrap_or_default();
        self.0.get(path).map_or_else(|| Arc::from(NOT_FOUND), Arc::clone)
    }
}

/// Answers on `listener` until the process ends; `count` is told of each request.
pub fn serve(listener: &TcpListener, answers: &Answers, count: impl Fn()) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    epoll::add(&poll, listener, EventData::new_u64(LISTENER), EventFlags::IN)?;
    let mut peers = Peers::default();
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut events = Vec::with_capacity(EVENTS_MAX);
    loop {
        events.clear();
        match epoll::wait(&poll, rustix::buffer::spare_capacity(&mut events), None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        for event in &events {
            match event.data.u64() {
                LISTENER => peers.accept(listener, &poll)?,
                number => peers.go_on(number as usize, &mut buffer, answers, &count, &poll),
            }
        }
    }
}

/// The connections, each at its number; a number that is free again is taken first.
#[derive(Default)]
struct Peers {
    places: Vec<Option<Peer>>,
    free: Vec<usize>,
}

impl Peers {
    fn accept(&mut self, listener: &TcpListener, poll: &OwnedFd) -> io::Result<()> {
        loop {
            let stream = match listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                // The peer has left again, or there is no descriptor now: the next event tries again.
                Err(_) => return Ok(()),
            };
            stream.set_nonblocking(true)?;
            stream.set_nodelay(true)?;
            let number = self.free.pop().unwrap_or(self.places.len());
            if number == self.places.len() {
                self.places.push(None);
            }
            epoll::add(poll, &stream, EventData::new_u64(number as u64), EventFlags::IN)?;
            if let Some(place) = self.places.get_mut(number) {
                *place = Some(Peer { stream, came: Vec::new(), out: Vec::new(), stays: true });
            }
        }
    }

    /// The connection of this number can be read or written.
    fn go_on(&mut self, number: usize, buffer: &mut [u8], answers: &Answers, count: &impl Fn(), poll: &OwnedFd) {
        let Some(place) = self.places.get_mut(number) else {
            return;
        };
        let Some(peer) = place else {
            return;
        };
        let was_held_up = !peer.out.is_empty();
        let result = if was_held_up { peer.send() } else { peer.receive(buffer, answers, count) };
        let is_held_up = !peer.out.is_empty();
        let is_over = match result {
            // A peer that goes away in the middle of an answer is its own concern.
            Err(error) => error.kind() != ErrorKind::WouldBlock,
            Ok(()) => !peer.stays && !is_held_up,
        };
        if is_over {
            // Closing it also ends its events.
            *place = None;
            self.free.push(number);
        } else if was_held_up != is_held_up {
            let flags = if is_held_up { EventFlags::OUT } else { EventFlags::IN };
            // What cannot be waited for says nothing more; then the measurement sees that it stands still.
            let _ = epoll::modify(poll, &peer.stream, EventData::new_u64(number as u64), flags);
        }
    }
}

/// One connection.
struct Peer {
    stream: TcpStream,
    /// A request that is not whole yet.
    came: Vec<u8>,
    /// What the socket did not take yet.
    out: Vec<u8>,
    /// Whether another request may come.
    stays: bool,
}

impl Peer {
    fn receive(&mut self, buffer: &mut [u8], answers: &Answers, count: &impl Fn()) -> io::Result<()> {
        let length = self.stream.read(buffer)?;
        if length == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        let new = buffer.get(..length).unwrap_or_default();
        if self.came.is_empty() {
            let used = self.answer_all(new, answers, count)?;
            self.came.extend_from_slice(new.get(used..).unwrap_or_default());
        } else {
            let mut came = std::mem::take(&mut self.came);
            came.extend_from_slice(new);
            let used = self.answer_all(&came, answers, count)?;
            came.drain(..used);
            self.came = came;
        }
        if self.came.len() > HEAD_BYTES_MAX { Err(ErrorKind::InvalidData.into()) } else { Ok(()) }
    }

    /// Answers the whole requests at the start of `input`, and says how long they are.
    fn answer_all(&mut self, input: &[u8], answers: &Answers, count: &impl Fn()) -> io::Result<usize> {
        let mut used = 0;
        while self.stays {
            let rest = input.get(used..).unwrap_or_default();
            let Some(end) = memmem::find(rest, b"\r\n\r\n") else {
                break;
            };
            let head = rest.get(..end).unwrap_or_default();
            used += end + 4;
            count();
            self.stays = fetch::keeps_connection(head);
            self.answer(&answers.to(head))?;
        }
        Ok(used)
    }

    fn answer(&mut self, answer: &[u8]) -> io::Result<()> {
        let sent = if self.out.is_empty() {
            match self.stream.write(answer) {
                Ok(sent) => sent,
                Err(error) if error.kind() == ErrorKind::WouldBlock => 0,
                Err(error) => return Err(error),
            }
        } else {
            0
        };
        self.out.extend_from_slice(answer.get(sent..).unwrap_or_default());
        Ok(())
    }

    fn send(&mut self) -> io::Result<()> {
        let sent = self.stream.write(&self.out)?;
        self.out.drain(..sent);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::thread;

    fn started(bodies: &[(&str, &[u8])]) -> (TcpStream, mpsc::Receiver<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let stream = TcpStream::connect(listener.local_addr().expect("it is bound")).expect("it listens");
        let (answers, (sender, counted)) =
            (Answers::of(bodies.iter().map(|(path, body)| (path.to_string(), body.to_vec()))), mpsc::channel());
        thread::spawn(move || serve(&listener, &answers, || sender.send(()).expect("the test counts")));
        (stream, counted)
    }

    /// The bodies of the answers up to the end of the connection.
    fn bodies(stream: &mut TcpStream) -> Vec<Vec<u8>> {
        let mut all = Vec::new();
        stream.read_to_end(&mut all).expect("it answers and closes");
        let mut bodies = Vec::new();
        while !all.is_empty() {
            let length = fetch::length(&all).expect("an answer is whole");
            let head = memmem::find(&all, b"\r\n\r\n").expect("it has a head") + 4;
            bodies.push(all[head..length].to_vec());
            all.drain(..length);
        }
        bodies
    }

    #[test]
    fn requests_in_any_pieces_have_their_answers() {
        let (small, large) = (vec![b'x'; 1024], vec![b'y'; 20 << 20]);
        let heads = "GET /small HTTP/1.1\r\nHost: a\r\n\r\n\
                     GET /large HTTP/1.1\r\nHost: a\r\n\r\n\
                     GET /other HTTP/1.1\r\nHost: a\r\n\r\n\
                     GET /small HTTP/1.1\r\nHost: a\r\nconnection: close\r\n\r\n";
        // It stands behind the last request only where one read brings both: what is not read when a connection is
        // closed resets it.
        let never = "GET /never HTTP/1.1\r\nHost: a\r\n\r\n";
        for (step, behind) in [(1, ""), (30, ""), (usize::MAX, never)] {
            let (mut stream, counted) = started(&[("/small", &small), ("/large", &large)]);
            for piece in [heads, behind].concat().as_bytes().chunks(step) {
                stream.write_all(piece).expect("it reads");
            }
            let bodies = bodies(&mut stream);
            let expected = [&small[..], &large, b"no such page\n", &small];
            assert!(bodies == expected, "in pieces of {step}");
            assert_eq!(counted.try_iter().count(), 4);
        }
    }
}
