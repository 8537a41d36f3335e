//! Ranges of pages that are still arriving.

use std::sync::LazyLock;

use larder_testkit::{Client, HandConnection, HandOrigin};

use crate::site::{Setup, Site, cached};

const SITE: &str = "
    proxy_cache_path {DIR}/pages keys_zone=pages:1m max_size=100m;
    server {
        listen 127.0.0.1:{PORT};
        add_header X-Cache $upstream_cache_status;
        proxy_http_version 1.1;
        proxy_cache pages;
        proxy_cache_key film;
        proxy_cache_valid 200 1h;
        proxy_cache_lock on; proxy_cache_lock_timeout 1m; proxy_cache_lock_age 1m;
        location / { proxy_pass http://{ORIGIN}; }
        location /whole { proxy_pass http://{ORIGIN}; proxy_set_header Range ''; }
        location /gzip { proxy_pass http://{ORIGIN}; gzip on; gzip_types *; }
        location /none { proxy_pass http://{ORIGIN}; max_ranges 0; }
    }";

const TOTAL: usize = 3 << 20;
/// What of the page has come when others ask for it.
const HERE: usize = 300_000;

fn film() -> &'static [u8] {
    static FILM: LazyLock<Vec<u8>> =
        LazyLock::new(|| (0..TOTAL as u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect());
    &FILM
}

fn request(path: &str, fields: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: a\r\n{fields}\r\n")
}

struct Parts {
    origin: HandOrigin,
    site: Site,
    first: Client,
    fetch: HandConnection,
}

/// A site whose page is being fetched for somebody who wants `range` of it; `HERE` bytes have come.
fn arriving(more: &str, range: &str) -> Parts {
    let mut origin = HandOrigin::start().unwrap();
    let site = Setup::new().one_worker().name("ORIGIN", origin.address()).start(SITE);
    let mut first = site.client();
    first.send(request("/film", range).as_bytes()).unwrap();
    let mut fetch = origin.accept().unwrap();
    let asked = fetch.request().unwrap().unwrap();
    assert_eq!(asked.field("Range"), None, "what is stored is fetched whole");
    fetch.send(format!("HTTP/1.1 200 OK\r\nETag: \"1\"\r\n{more}Content-Length: {TOTAL}\r\n\r\n")).unwrap();
    fetch.send(&film()[..HERE]).unwrap();
    Parts { origin, site, first, fetch }
}

/// The first client has seen what is there, so that larder has too.
fn arriving_and_seen(more: &str) -> Parts {
    let mut parts = arriving(more, "");
    assert_eq!(parts.first.read_head().unwrap().status, 200);
    assert!(parts.first.read_bytes(HERE).unwrap() == film()[..HERE]);
    parts
}

impl Parts {
    /// Sends the rest of the page.
    fn finish(&mut self) {
        self.fetch.send(&film()[HERE..]).unwrap();
    }
}

/// Answers the request for the range `start-end` (both included) by itself.
fn answer_range(origin: &mut HandOrigin, start: usize, end: usize) {
    let mut fetch = origin.accept().unwrap();
    let asked = fetch.request().unwrap().unwrap();
    assert_eq!(asked.field("Range"), Some(&*format!("bytes={start}-{end}")));
    let len = end + 1 - start;
    fetch
        .send(format!(
            "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes {start}-{end}/{TOTAL}\r\nContent-Length: {len}\r\n\r\n"
        ))
        .unwrap();
    fetch.send(&film()[start..=end]).unwrap();
}

#[test]
fn a_range_far_ahead_of_a_fetch_is_asked_for_by_itself() {
    let mut parts = arriving_and_seen("Accept-Ranges: bytes\r\n");
    for if_range in ["", "If-Range: \"1\"\r\n"] {
        let mut second = parts.site.client();
        second.send(request("/film", &format!("Range: bytes=2000000-2000999\r\n{if_range}")).as_bytes()).unwrap();
        answer_range(&mut parts.origin, 2_000_000, 2_000_999);
        let response = second.read_response("GET").unwrap();
        assert_eq!((response.status, cached(&response)), (206, "MISS"));
        assert!(response.body == film()[2_000_000..2_001_000], "{if_range}");
    }
    parts.finish();
    assert!(parts.first.read_bytes(TOTAL - HERE).unwrap() == film()[HERE..], "the fetch went on");
    let stored = parts.site.get_until("/film", "the page is stored", |response| cached(response) == "HIT");
    assert!(stored.body == film());
    assert!(parts.origin.try_accept().unwrap().is_none());
}

#[test]
fn whoever_began_the_fetch_does_not_wait_for_it_either() {
    let mut parts = arriving("Accept-Ranges: bytes\r\n", "Range: bytes=2000000-2000999\r\n");
    answer_range(&mut parts.origin, 2_000_000, 2_000_999);
    let response = parts.first.read_response("GET").unwrap();
    assert_eq!((response.status, cached(&response)), (206, "MISS"));
    assert!(response.body == film()[2_000_000..2_001_000]);
    // The page goes on arriving, for the cache alone.
    parts.finish();
    let stored = parts.site.get_until("/film", "the page is stored", |response| cached(response) == "HIT");
    assert!(stored.body == film());
    assert!(parts.origin.try_accept().unwrap().is_none());
}

#[test]
fn other_ranges_come_from_the_fetch() {
    for (more, path, fields, part) in [
        ("Accept-Ranges: bytes\r\n", "/film", "Range: bytes=1000000-1000009\r\n", 1_000_000..1_000_010),
        ("Accept-Ranges: bytes\r\n", "/film", "Range: bytes=5-9\r\n", 5..10),
        ("Accept-Ranges: bytes\r\n", "/whole", "Range: bytes=2000000-2000009\r\n", 2_000_000..2_000_010),
        ("Accept-Ranges: bytes\r\n", "/none", "Range: bytes=2000000-2000009\r\n", 0..TOTAL),
        ("Accept-Ranges: bytes\r\n", "/film", "If-Range: \"2\"\r\nRange: bytes=2000000-2000009\r\n", 0..TOTAL),
        (
            "Accept-Ranges: bytes\r\n",
            "/film",
            "If-Match: \"1\"\r\nRange: bytes=2000000-2000009\r\n",
            2_000_000..2_000_010,
        ),
        ("Accept-Ranges: bytes\r\n", "/film", "Range: bytes=2000000-2000009,1-2\r\n", 0..TOTAL),
        ("Accept-Ranges: none\r\n", "/film", "Range: bytes=2000000-2000009\r\n", 2_000_000..2_000_010),
        ("", "/film", "Range: bytes=2000000-2000009\r\n", 2_000_000..2_000_010),
    ] {
        let mut parts = arriving_and_seen(more);
        let mut second = parts.site.client();
        second.send(request(path, fields).as_bytes()).unwrap();
        let mut response = second.read_head().unwrap();
        parts.finish();
        second.read_body(&mut response).unwrap();
        assert!(response.body == film()[part], "{more} {path} {fields}");
        assert_eq!(cached(&response), "HIT", "{more} {path} {fields}");
        assert!(parts.origin.try_accept().unwrap().is_none(), "{more} {path} {fields}");
    }
}

#[test]
fn a_page_that_is_to_be_compressed_is_waited_for_whole() {
    let mut parts = arriving_and_seen("Accept-Ranges: bytes\r\nContent-Type: text/plain\r\n");
    let mut second = parts.site.client();
    second.send(request("/gzip", "Accept-Encoding: gzip\r\nRange: bytes=2000000-2000009\r\n").as_bytes()).unwrap();
    let response = second.read_head().unwrap();
    assert_eq!((response.status, response.field("Content-Encoding")), (200, Some("gzip")));
    parts.finish();
}
