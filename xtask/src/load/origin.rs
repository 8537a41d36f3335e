//! The origin behind every server: pages of a size named in their path, made the same every time, and counted.

use super::{LoadError, cannot};
use std::io::{self, BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

/// Largest request head the origin reads; our own servers send less.
const HEAD_BYTES_MAX: usize = 64 * 1024;

/// A page of the origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Page {
    /// So many bytes of one sentence: `/page/BYTES`.
    Plain(usize),
    /// So many bytes of HTML that compress as a page of a site does, to a sixth or so: `/html/BYTES`.
    Html(usize),
}

impl Page {
    /// How long its body is.
    pub fn bytes(self) -> usize {
        match self {
            Page::Plain(bytes) | Page::Html(bytes) => bytes,
        }
    }

    /// Where it is.
    pub fn path(self) -> String {
        match self {
            Page::Plain(bytes) => format!("/page/{bytes}"),
            Page::Html(bytes) => format!("/html/{bytes}"),
        }
    }

    /// Its body.
    pub fn body(self) -> Vec<u8> {
        match self {
            Page::Plain(bytes) => {
                b"<p>The quick brown fox jumps over the lazy dog.</p>\n".iter().copied().cycle().take(bytes).collect()
            }
            Page::Html(bytes) => html(bytes),
        }
    }

    fn at(path: &str) -> Option<Page> {
        let plain = path.strip_prefix("/page/").map(|bytes| bytes.parse().map(Page::Plain));
        plain.or_else(|| path.strip_prefix("/html/").map(|bytes| bytes.parse().map(Page::Html)))?.ok()
    }
}

/// How the origin makes its pages.
#[derive(Debug, Clone, Copy)]
pub struct Work {
    /// How long a page takes.
    pub delay: Duration,
    /// How long it says a page is fresh.
    pub fresh_seconds: u32,
}

impl Work {
    /// At once, and the page stays for the whole measurement.
    pub const NONE: Work = Work { delay: Duration::ZERO, fresh_seconds: 3600 };
}

/// Answers until the process ends.
pub struct Origin {
    port: u16,
    requests: Arc<AtomicU64>,
}

impl Origin {
    /// Listens on 127.0.0.1.
    pub fn start(work: Work) -> Result<Origin, LoadError> {
        let listener = TcpListener::bind("127.0.0.1:0").map_err(cannot("start the origin"))?;
        let port = listener.local_addr().map_err(cannot("start the origin"))?.port();
        let requests = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&requests);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let counter = Arc::clone(&counter);
                thread::spawn(move || {
                    // A server that goes away in the middle of an answer is its own concern.
                    let _ = answer(stream, work, &counter);
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

/// Articles in a list, as a magazine's front page has them: the tags repeat, the words do not.
fn html(bytes: usize) -> Vec<u8> {
    const WORDS: [&str; 48] = [
        "river", "garden", "winter", "the", "of", "a", "and", "in", "morning", "letter", "village", "quiet", "bread",
        "to", "with", "harbour", "stone", "paper", "window", "for", "on", "evening", "orchard", "bridge", "lantern",
        "market", "is", "was", "that", "candle", "meadow", "music", "north", "old", "new", "story", "road", "silver",
        "by", "from", "sailor", "teacher", "kitchen", "summer", "clock", "mountain", "between", "never",
    ];
    const SYLLABLES: [&str; 40] = [
        "ba", "cor", "den", "el", "fi", "gra", "hen", "is", "jo", "ka", "lo", "mar", "ne", "or", "pi", "que", "ra",
        "sto", "ta", "ul", "ver", "wi", "xa", "ya", "zo", "ing", "ed", "ly", "tion", "ment", "ness", "al", "ous",
        "ist", "ity", "en", "ber", "ma", "si", "tu",
    ];
    let mut chance = 0x2545_f491_4f6c_dd1d_u64;
    let mut pick = |from: &[&'static str]| {
        chance ^= chance << 13;
        chance ^= chance >> 7;
        chance ^= chance << 17;
        from[(chance >> 32) as usize % from.len()]
    };
    // Half of the words of a page occur once or twice in it.
    let mut words = |count: usize| {
        let mut text = String::new();
        for number in 0..count {
            if number % 2 == 0 {
                text.push_str(pick(&WORDS));
            } else {
                (0..3).for_each(|_| text.push_str(pick(&SYLLABLES)));
            }
            text.push(if number + 1 == count { '.' } else { ' ' });
        }
        text
    };
    let mut out = String::from(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\"><title>The harbour</title></head>\n<body class=\"home blog\">\n",
    );
    let mut number = 1000;
    while out.len() < bytes {
        number += 1;
        out.push_str(&format!(
            "<article id=\"post-{number}\" class=\"post-{number} post type-post status-publish format-standard hentry category-news\">\n  <header class=\"entry-header\"><h2 class=\"entry-title\"><a href=\"https://example.com/news/{number}/\" rel=\"bookmark\">{}</a></h2>\n    <div class=\"entry-meta\"><span class=\"posted-on\"><time class=\"entry-date published\" datetime=\"2026-01-01T00:00:00+00:00\">1 January</time></span> <span class=\"byline\">by <a class=\"url fn n\" href=\"https://example.com/author/{number}/\">{}</a></span></div></header>\n  <div class=\"entry-content\"><p>{}</p></div>\n  <footer class=\"entry-footer\"><a class=\"comments-link\" href=\"https://example.com/news/{number}/#comments\">{} comments</a></footer>\n</article>\n",
            words(5),
            words(2),
            words(40),
            number % 37,
        ));
    }
    out.truncate(bytes);
    out.into_bytes()
}

fn answer(mut stream: TcpStream, work: Work, requests: &AtomicU64) -> io::Result<()> {
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
    thread::sleep(work.delay);
    let page = first.split_whitespace().nth(1).and_then(Page::at);
    let (status, body) = match page {
        Some(page) => ("200 OK", page.body()),
        None => ("404 Not Found", b"no such page\n".to_vec()),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/html\r\nContent-Length: {}\r\nCache-Control: max-age={}\r\nConnection: close\r\n\r\n",
        body.len(),
        work.fresh_seconds,
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(&body)
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::read::GzEncoder;
    use std::io::Read;

    #[test]
    fn a_page_is_found_by_its_path_and_has_its_length() {
        for page in [Page::Plain(1), Page::Plain(10_240), Page::Html(1), Page::Html(40_960)] {
            assert_eq!(Page::at(&page.path()), Some(page));
            assert_eq!(page.body().len(), page.bytes(), "{page:?}");
        }
        for path in ["/", "/page/", "/page/x", "/html/-1", "/other/1"] {
            assert_eq!(Page::at(path), None, "{path}");
        }
    }

    #[test]
    fn the_html_page_compresses_as_pages_do() {
        let body = Page::Html(40 * 1024).body();
        let mut packed = Vec::new();
        GzEncoder::new(&body[..], Compression::new(6)).read_to_end(&mut packed).expect("it is in memory");
        let ratio = body.len() as f64 / packed.len() as f64;
        assert!((5.0..8.0).contains(&ratio), "{ratio}");
    }
}
