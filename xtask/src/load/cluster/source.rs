//! The origin, whose pages say their version.

use super::pages;
use super::versions::Versions;
use crate::load::{LoadError, cannot};
use std::io::{self, BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

/// How long a body is.
const BODY_BYTES: usize = 2048;
/// Largest request head that is read; larder sends less.
const HEAD_BYTES_MAX: usize = 64 * 1024;

/// Answers until the process ends.
pub struct Source {
    port: u16,
    requests: Arc<AtomicU64>,
}

impl Source {
    /// Listens on 127.0.0.1.
    pub fn start(versions: &Arc<Versions>) -> Result<Source, LoadError> {
        let listener = TcpListener::bind("127.0.0.1:0").map_err(cannot("start the origin"))?;
        let port = listener.local_addr().map_err(cannot("start the origin"))?.port();
        let requests = Arc::<AtomicU64>::default();
        let (counter, versions) = (Arc::clone(&requests), Arc::clone(versions));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (counter, versions) = (Arc::clone(&counter), Arc::clone(&versions));
                // A node that goes away in the middle of an answer is its own concern.
                thread::spawn(move || drop(answer(&stream, &versions, &counter)));
            }
        });
        Ok(Source { port, requests })
    }

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// How many requests it has answered.
    pub fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }
}

/// The version that a body says.
pub fn version_of(body: &[u8]) -> Option<u32> {
    let text = std::str::from_utf8(body).ok()?;
    text.split_whitespace().next()?.parse().ok()
}

/// Answers the requests of one connection.
fn answer(mut stream: &TcpStream, versions: &Versions, requests: &AtomicU64) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream.try_clone()?);
    let (mut first, mut line) = (String::new(), String::new());
    loop {
        first.clear();
        let mut read = reader.read_line(&mut first)?;
        line.clear();
        while line != "\r\n" {
            line.clear();
            let count = reader.read_line(&mut line)?;
            read += count;
            if count == 0 || read > HEAD_BYTES_MAX {
                return Ok(());
            }
        }
        requests.fetch_add(1, Ordering::Relaxed);
        let page = first.split_whitespace().nth(1).and_then(pages::at);
        let out = match page {
            Some(page) => {
                let version = versions.newest(page);
                format!(
                    "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {BODY_BYTES}\r\n{}\r\n{version:<BODY_BYTES$}",
                    pages::fields(page)
                )
            }
            None => "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n".to_owned(),
        };
        stream.write_all(out.as_bytes())?;
    }
}
