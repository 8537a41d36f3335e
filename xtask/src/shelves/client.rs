//! A client with a kept connection, which asks for a page and waits for the answer.

use crate::load::generator::Answer;
use crate::load::generator::h1::Reader;
use crate::load::origin::Page;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

/// Only guards against hanging: a server may be held up by its disk for a long time.
const ANSWER_LIMIT: Duration = Duration::from_secs(60);

/// Room for what one read brings.
const BUFFER_BYTES: usize = 256 * 1024;

/// One connection.
pub struct Client {
    stream: TcpStream,
    reader: Reader,
    buffer: Vec<u8>,
    /// What has been read and not been taken.
    unread: std::ops::Range<usize>,
}

impl Client {
    /// Opens a connection. Bodies are counted; with `keeps_bodies` they are in the answers.
    pub fn connect(address: SocketAddr, keeps_bodies: bool) -> io::Result<Client> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(ANSWER_LIMIT))?;
        stream.set_write_timeout(Some(ANSWER_LIMIT))?;
        Ok(Client { stream, reader: Reader::new(keeps_bodies), buffer: vec![0; BUFFER_BYTES], unread: 0..0 })
    }

    /// Asks for a page and waits for the whole answer.
    ///
    /// One at a time: several in a write end in packets that wait 40 ms for an acknowledgement, with nginx at least.
    pub fn ask(&mut self, page: Page) -> io::Result<Answer> {
        self.stream.write_all(format!("GET {} HTTP/1.1\r\nHost: localhost\r\n\r\n", page.path()).as_bytes())?;
        loop {
            let mut input = self.buffer.get(self.unread.clone()).unwrap_or_default();
            let before = input.len();
            let taken = self.reader.take(&mut input);
            self.unread.start += before - input.len();
            if let Some(answer) = taken.map_err(|fact| io::Error::new(ErrorKind::InvalidData, fact))? {
                return Ok(answer);
            }
            let count = self.stream.read(&mut self.buffer)?;
            if count == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            self.unread = 0..count;
        }
    }
}

/// Asks once for each page below `count` that `page` makes, over so many connections. Every answer has to have status 200
/// and the page's length. `answered` hears how many have been answered.
pub fn ask_each(
    address: SocketAddr,
    connections: usize,
    count: u64,
    page: impl Fn(u64) -> Page + Sync,
    answered: impl Fn(u64) + Sync,
) -> io::Result<()> {
    let (next, answers) = (AtomicU64::new(0), AtomicU64::new(0));
    let one = || {
        let mut client = Client::connect(address, false)?;
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= count {
                return Ok(());
            }
            let page = page(number);
            let answer = client.ask(page)?;
            if (answer.status, answer.bytes) != (200, page.bytes()) {
                let fact = format!("status {} and {} bytes for {}", answer.status, answer.bytes, page.path());
                return Err(io::Error::new(ErrorKind::InvalidData, fact));
            }
            answered(answers.fetch_add(1, Ordering::Relaxed) + 1);
        }
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..connections).map(|_| scope.spawn(one)).collect();
        let ended: Vec<_> = threads.into_iter().map(ScopedJoinHandle::join).collect();
        ended.into_iter().try_for_each(|result| result.unwrap_or_else(|_| Err(io::Error::other("a thread ended"))))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::origin::{Origin, Work};

    #[test]
    fn answers_are_read_to_their_end() {
        let origin = Origin::start(Work::NONE).expect("a port is free");
        let address = SocketAddr::from(([127, 0, 0, 1], origin.port()));
        let mut client = Client::connect(address, true).expect("it listens");
        for page in [Page::Unique(1, 100), Page::Unique(2, 1 << 20), Page::Unique(3, 1024), Page::Plain(5)] {
            let answer = client.ask(page).expect("it answers");
            assert_eq!((answer.status, answer.is_hit), (200, false));
            assert!(answer.body == page.body(), "{page:?}");
        }
    }

    #[test]
    fn each_page_is_asked_for_once_and_a_missing_one_is_an_error() {
        let origin = Origin::start(Work::NONE).expect("a port is free");
        let address = SocketAddr::from(([127, 0, 0, 1], origin.port()));
        let most = AtomicU64::new(0);
        let answered = |count| {
            most.fetch_max(count, Ordering::Relaxed);
        };
        ask_each(address, 3, 100, |number| Page::Unique(number, 10), answered).expect("all are there");
        assert_eq!((origin.requests(), most.into_inner()), (100, 100));
        origin.close(true);
        ask_each(address, 3, 100, |number| Page::Unique(number, 10), |_| ()).expect_err("none is there");
    }
}
