//! The origin behind every server: pages of a size named in their path, counted.

use super::{LoadError, cannot};
use std::io::{self, BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

/// Largest request head the origin reads; our own servers send less.
const HEAD_BYTES_MAX: usize = 64 * 1024;

/// Answers `/page/BYTES` until the process ends.
pub struct Origin {
    port: u16,
    requests: Arc<AtomicU64>,
}

impl Origin {
    /// Listens on 127.0.0.1.
    pub fn start() -> Result<Origin, LoadError> {
        let listener = TcpListener::bind("127.0.0.1:0").map_err(cannot("start the origin"))?;
        let port = listener.local_addr().map_err(cannot("start the origin"))?.port();
        let requests = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&requests);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let counter = Arc::clone(&counter);
                thread::spawn(move || {
                    // A server that goes away in the middle of an answer is its own concern.
                    let _ = answer(stream, &counter);
                });
            }
        });
        Ok(Origin { port, requests })
    }

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// How many requests it has had. While hits are measured this must not move.
    pub fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }
}

/// The path of a page of `bytes` bytes.
pub fn path(bytes: usize) -> String {
    format!("/page/{bytes}")
}

/// The body of the page of `bytes` bytes: text, the same every time.
pub fn body(bytes: usize) -> Vec<u8> {
    b"<p>The quick brown fox jumps over the lazy dog.</p>\n".iter().copied().cycle().take(bytes).collect()
}

fn answer(mut stream: TcpStream, requests: &AtomicU64) -> io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut first = String::new();
    reader.read_line(&mut first)?;
    let mut read = first.len();
    let mut line = String::new();
    while !matches!(line.as_str(), "\r\n" | "\n") {
        line.clear();
        let count = reader.read_line(&mut line)?;
        read += count;
        if count == 0 || read > HEAD_BYTES_MAX {
            return Ok(());
        }
    }
    requests.fetch_add(1, Ordering::Relaxed);
    let page = first.split_whitespace().nth(1).and_then(|path| path.strip_prefix("/page/")?.parse::<usize>().ok());
    let (status, body) = match page {
        Some(bytes) => ("200 OK", body(bytes)),
        None => ("404 Not Found", b"no such page\n".to_vec()),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/html\r\nContent-Length: {}\r\nCache-Control: max-age=3600\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(&body)
}
