//! The origin behind every server: pages of a size named in their path, made the same every time, and counted.

use super::php::HELLO;
use super::prepared::{self, Answers};
use super::{LoadError, cannot, included};
use std::io::{self, BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::thread;
use std::time::Duration;

/// Largest request head the origin reads; our own servers send less.
const HEAD_BYTES_MAX: usize = 64 * 1024;

/// An answer up to this goes out in one write.
const SMALL_BYTES_MAX: usize = 16 * 1024;

/// Where a backend is asked how it is. That is no request of a visitor, and is not counted.
pub const PROBED: &str = "/health_check.php";

/// What pages consist of.
const SENTENCE: &[u8] = b"<p>The quick brown fox jumps over the lazy dog.</p>\n";

/// A page of the origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Page {
    /// So many bytes of one sentence: `/page/BYTES`.
    Plain(usize),
    /// So many bytes of HTML that compress as a page of a site does, to a sixth or so: `/html/BYTES`.
    Html(usize),
    /// So many bytes of HTML, and what they include by ESI: `/esi/BYTES`.
    Esi(usize),
    /// So many bytes that no other number has: `/unique/NUMBER/BYTES`.
    Unique(u64, usize),
    /// What PHP says, which no origin of ours does: `/hello.php`.
    Hello,
}

impl Page {
    /// How long its body is.
    pub fn bytes(self) -> usize {
        match self {
            Page::Plain(bytes) | Page::Html(bytes) | Page::Unique(_, bytes) => bytes,
            Page::Esi(bytes) => bytes + included::sizes().sum::<usize>(),
            Page::Hello => HELLO.len(),
        }
    }

    /// Where it is.
    pub fn path(self) -> String {
        match self {
            Page::Plain(bytes) => format!("/page/{bytes}"),
            Page::Html(bytes) => format!("/html/{bytes}"),
            Page::Esi(bytes) => format!("/esi/{bytes}"),
            Page::Unique(number, bytes) => format!("/unique/{number}/{bytes}"),
            Page::Hello => "/hello.php".into(),
        }
    }

    /// How long it is at the origin.
    fn source_bytes(self) -> usize {
        if let Page::Esi(_) = self { self.source().len() } else { self.bytes() }
    }

    /// What the origin has of it.
    fn source(self) -> Vec<u8> {
        let Page::Esi(bytes) = self else { return self.body() };
        let element = |bytes| format!("<esi:include src=\"{}\"/>", Page::Html(bytes).path()).into_bytes();
        included::woven(&html(bytes), included::sizes().map(element))
    }

    /// Its body, as visitors get it.
    pub fn body(self) -> Vec<u8> {
        match self {
            Page::Plain(bytes) => SENTENCE.iter().copied().cycle().take(bytes).collect(),
            Page::Html(bytes) => html(bytes),
            Page::Esi(bytes) => included::woven(&html(bytes), included::sizes().map(html)),
            Page::Unique(number, bytes) => {
                let mut body = unique_start(number);
                body.extend(SENTENCE.iter().copied().cycle().take(bytes.saturating_sub(body.len())));
                body.truncate(bytes);
                body
            }
            Page::Hello => HELLO.into(),
        }
    }

    fn at(path: &str) -> Option<Page> {
        if let Some((number, bytes)) = path.strip_prefix("/unique/").and_then(|rest| rest.split_once('/')) {
            return Some(Page::Unique(number.parse().ok()?, bytes.parse().ok()?));
        }
        let plain = path.strip_prefix("/page/").map(|bytes| bytes.parse().map(Page::Plain));
        let html = || path.strip_prefix("/html/").map(|bytes| bytes.parse().map(Page::Html));
        let esi = || path.strip_prefix("/esi/").map(|bytes| bytes.parse().map(Page::Esi));
        plain.or_else(html).or_else(esi)?.ok()
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
    counts: Arc<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    requests: AtomicU64,
    is_closed: AtomicBool,
}

impl Origin {
    /// Listens on 127.0.0.1.
    pub fn start(work: Work) -> Result<Origin, LoadError> {
        let listener = TcpListener::bind("127.0.0.1:0").map_err(cannot("start the origin"))?;
        let port = listener.local_addr().map_err(cannot("start the origin"))?.port();
        let counts = Arc::new(Counts::default());
        let counter = Arc::clone(&counts);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let counter = Arc::clone(&counter);
                thread::spawn(move || {
                    // A server that goes away in the middle of an answer is its own concern.
                    let _ = answer(stream, work, &counter);
                });
            }
        });
        Ok(Origin { port, counts })
    }

    /// The same with answers to requests for these pages alone, which nobody may keep, at the least cost.
    pub fn start_prepared(pages: &[Page]) -> Result<Origin, LoadError> {
        let listener = TcpListener::bind("127.0.0.1:0").map_err(cannot("start the origin"))?;
        let port = listener.local_addr().map_err(cannot("start the origin"))?.port();
        let counts = Arc::new(Counts::default());
        let (counter, answers) =
            (Arc::clone(&counts), Answers::of(pages.iter().map(|page| (page.path(), page.body()))));
        thread::spawn(move || {
            let count = || {
                counter.requests.fetch_add(1, Ordering::Relaxed);
            };
            if let Err(error) = prepared::serve(&listener, &answers, count) {
                eprintln!("the origin ended: {error}");
            }
        });
        Ok(Origin { port, counts })
    }

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// How many requests it has had. While hits are measured this must not move.
    pub fn requests(&self) -> u64 {
        self.counts.requests.load(Ordering::Relaxed)
    }

    /// Has every further request answered with a 503 that nobody may store, or no longer: then what a server answers
    /// with status 200 comes from its cache.
    pub fn close(&self, is_closed: bool) {
        self.counts.is_closed.store(is_closed, Ordering::Relaxed);
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

/// Answers the requests of one connection until the peer wants no more; HTTP/1.0 is one request.
fn answer(mut stream: TcpStream, work: Work, counts: &Counts) -> io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream.try_clone()?);
    let (mut first, mut line) = (String::new(), String::new());
    loop {
        first.clear();
        let mut read = reader.read_line(&mut first)?;
        let mut stays = first.trim_end().ends_with("HTTP/1.1");
        line.clear();
        while !matches!(line.as_str(), "\r\n" | "\n") {
            line.clear();
            let count = reader.read_line(&mut line)?;
            read += count;
            if count == 0 || read > HEAD_BYTES_MAX {
                return Ok(());
            }
            let field = line.split_once(':').filter(|(name, _)| name.eq_ignore_ascii_case("connection"));
            stays &= !field.is_some_and(|(_, value)| value.trim().eq_ignore_ascii_case("close"));
        }
        let path = first.split_whitespace().nth(1);
        let is_probe = path == Some(PROBED);
        if !is_probe {
            counts.requests.fetch_add(1, Ordering::Relaxed);
        }
        if !work.delay.is_zero() {
            thread::sleep(work.delay);
        }
        let page = match path.and_then(Page::at) {
            _ if is_probe => Ok(Page::Plain(1)),
            _ if counts.is_closed.load(Ordering::Relaxed) => Err(("503 Service Unavailable", "closed\n")),
            Some(page) => Ok(page),
            None => Err(("404 Not Found", "no such page\n")),
        };
        let (status, length, lasts) = match page {
            Ok(page) => ("200 OK", page.source_bytes(), format!("max-age={}", work.fresh_seconds)),
            Err((status, text)) => (status, text.len(), "no-store".into()),
        };
        let connection = if stays { "" } else { "Connection: close\r\n" };
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: text/html\r\nContent-Length: {length}\r\nCache-Control: {lasts}\r\n{connection}\r\n",
        );
        match page {
            Ok(Page::Unique(number, bytes)) => send_unique(&mut stream, head.into_bytes(), number, bytes)?,
            Ok(page) => stream.write_all(&[head.into_bytes(), page.source()].concat())?,
            Err((_, text)) => stream.write_all(format!("{head}{text}").as_bytes())?,
        }
        if !stays {
            return Ok(());
        }
    }
}

/// What a page that is like no other begins with.
fn unique_start(number: u64) -> Vec<u8> {
    format!("<p>{number:016x}</p>\n").into_bytes()
}

/// Sends a page that is like no other without making it: all but its beginning is the same for all.
fn send_unique(stream: &mut TcpStream, mut out: Vec<u8>, number: u64, bytes: usize) -> io::Result<()> {
    static SENTENCES: LazyLock<Vec<u8>> = LazyLock::new(|| SENTENCE.repeat(8 * 1024));
    let mut start = unique_start(number);
    start.truncate(bytes);
    out.extend_from_slice(&start);
    let mut left = bytes - start.len();
    while left > 0 {
        let part = SENTENCES.get(..left).unwrap_or(&SENTENCES);
        left -= part.len();
        if out.len() + part.len() <= SMALL_BYTES_MAX {
            out.extend_from_slice(part);
        } else {
            stream.write_all(&out)?;
            out.clear();
            stream.write_all(part)?;
        }
    }
    stream.write_all(&out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::read::GzEncoder;
    use std::io::Read;

    #[test]
    fn a_page_is_found_by_its_path_and_has_its_length() {
        for page in [
            Page::Plain(1),
            Page::Plain(10_240),
            Page::Html(1),
            Page::Html(40_960),
            Page::Esi(40_960),
            Page::Unique(7, 1),
            Page::Unique(7, 10_240),
        ] {
            assert_eq!(Page::at(&page.path()), Some(page));
            assert_eq!(page.body().len(), page.bytes(), "{page:?}");
        }
        for path in ["/", "/page/", "/page/x", "/html/-1", "/other/1", "/unique/1", "/unique/x/1"] {
            assert_eq!(Page::at(path), None, "{path}");
        }
    }

    #[test]
    fn a_connection_brings_page_after_page_until_the_origin_is_closed() {
        let origin = Origin::start(Work::NONE).expect("a port is free");
        let stream = TcpStream::connect(("127.0.0.1", origin.port())).expect("it listens");
        let mut reader = BufReader::new(stream.try_clone().expect("a second descriptor"));
        let mut ask = |page: Page| {
            write!(&stream, "GET {} HTTP/1.1\r\nHost: a\r\n\r\n", page.path()).expect("it reads");
            let (mut status, mut line) = (String::new(), String::new());
            reader.read_line(&mut status).expect("it answers");
            while line != "\r\n" {
                line.clear();
                reader.read_line(&mut line).expect("it answers");
            }
            let mut body = vec![0; if status.contains("200") { page.bytes() } else { "closed\n".len() }];
            reader.read_exact(&mut body).expect("the body is as long as the page");
            (status, body)
        };
        for page in [Page::Unique(1, 10), Page::Unique(2, 1024), Page::Unique(3, 1 << 20), Page::Plain(100)] {
            let (status, body) = ask(page);
            assert_eq!(status, "HTTP/1.1 200 OK\r\n");
            assert!(body == page.body(), "{page:?}");
        }
        origin.close(true);
        assert_eq!(ask(Page::Plain(7)).0, "HTTP/1.1 503 Service Unavailable\r\n");
        assert_eq!(origin.requests(), 5);
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
