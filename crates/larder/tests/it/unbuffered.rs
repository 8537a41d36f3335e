//! `*_request_buffering off`: the body goes to the origin as the client sends it.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use larder_testkit::{Client, HandConnection, HandOrigin, Http2Client, Http2Exchange, Http2Request, PATIENCE, Tls};

use crate::site::{Setup, Site, text};
use crate::tls::certified;

const SITE: &str = "
    upstream two { server {ORIGIN}; server {OTHER}; }
    client_body_buffer_size 4k;
    proxy_http_version 1.1;
    server {
        listen 127.0.0.1:{PORT} ssl; {ONE} http2 on;
        listen 127.0.0.1:{PORT2};
        proxy_request_buffering off;
        fastcgi_request_buffering off;
        location / { proxy_pass http://{ORIGIN}; client_max_body_size 1k; }
        location /old { proxy_pass http://{ORIGIN}; proxy_http_version 1.0; }
        location /large { proxy_pass http://{ORIGIN}; client_max_body_size 0; }
        location /next { proxy_pass http://two; proxy_next_upstream error non_idempotent; }
        location /again { proxy_pass http://{ORIGIN}; error_page 502 = @other; }
        location @other { proxy_pass http://{OTHER}; proxy_http_version 1.0; }
        location /impatient { proxy_pass http://{ORIGIN}; client_body_timeout 1s; }
        location /php { fastcgi_pass {ORIGIN}; fastcgi_param CONTENT_LENGTH $content_length; {PARAMS} }
        location /local { return 200 local; }
        location /log { access_log {DIR}/log.txt said; proxy_pass http://{ORIGIN}; }
    }
    log_format said '$status $request_length $upstream_bytes_sent';";

/// A site before an origin by hand, and another one.
struct Parts {
    origin: HandOrigin,
    other: HandOrigin,
    site: Site,
    tls: Tls,
}

fn parts() -> Parts {
    let (authority, setup) = certified();
    let (origin, other) = (HandOrigin::start().unwrap(), HandOrigin::start().unwrap());
    let setup: Setup = setup.name("ORIGIN", origin.address()).name("OTHER", other.address());
    let site = setup.start(SITE);
    Parts { origin, other, site, tls: Tls::new("site.test", &authority) }
}

/// A client of one of the protocols, which sends a body in pieces.
enum Uploader {
    Http1 { client: Client, in_chunks: bool },
    Http2 { _client: Http2Client, exchange: Box<Http2Exchange> },
}

/// How a body is sent.
#[derive(Clone, Copy, Debug)]
struct Way {
    http2: bool,
    tls: bool,
    length: Option<usize>,
}

/// Every way to send a body of `length` bytes.
fn ways(length: usize) -> Vec<Way> {
    let mut ways = Vec::new();
    for http2 in [false, true] {
        for tls in [false, true] {
            for length in [Some(length), None] {
                ways.push(Way { http2, tls, length });
            }
        }
    }
    ways
}

impl Uploader {
    /// Sends the head of a POST.
    fn begin(parts: &Parts, target: &str, way: Way) -> Self {
        let (plain, secure) = (parts.site.setup().other_address(), parts.site.setup().address());
        if way.http2 {
            let mut client = match way.tls {
                true => Http2Client::connect_tls(secure, &parts.tls).unwrap(),
                false => Http2Client::connect(plain).unwrap(),
            };
            let mut request = Http2Request::get(target).method("POST").body("x");
            if let Some(length) = way.length {
                request = request.field("content-length", &length.to_string());
            }
            let exchange = client.start_open(&request).unwrap();
            return Self::Http2 { _client: client, exchange: Box::new(exchange) };
        }
        let mut client = match way.tls {
            true => Client::connect_tls(secure, &parts.tls).unwrap(),
            false => Client::connect(plain).unwrap(),
        };
        let framing = match way.length {
            Some(length) => format!("Content-Length: {length}"),
            None => "Transfer-Encoding: chunked".to_owned(),
        };
        client.send(format!("POST {target} HTTP/1.1\r\nHost: site.test\r\n{framing}\r\n\r\n").as_bytes()).unwrap();
        Self::Http1 { client, in_chunks: way.length.is_none() }
    }

    fn send(&mut self, piece: &str, is_last: bool) {
        match self {
            Self::Http1 { client, in_chunks: false } => client.send(piece.as_bytes()).unwrap(),
            Self::Http1 { client, in_chunks: true } => {
                let end = if is_last { "0\r\n\r\n" } else { "" };
                client.send(format!("{:x}\r\n{piece}\r\n{end}", piece.len()).as_bytes()).unwrap();
            }
            Self::Http2 { exchange, .. } => exchange.send(piece.as_bytes(), is_last).unwrap(),
        }
    }

    /// Reads a head and `count` bytes of the body.
    fn begin_response(&mut self, count: usize) -> (u16, Vec<u8>) {
        match self {
            Self::Http1 { client, .. } => {
                let status = client.read_head().unwrap().status;
                (status, client.read_bytes(count).unwrap())
            }
            Self::Http2 { exchange, .. } => {
                let status = exchange.head().unwrap().status;
                (status, self.more(count))
            }
        }
    }

    fn more(&mut self, count: usize) -> Vec<u8> {
        match self {
            Self::Http1 { client, .. } => client.read_bytes(count).unwrap(),
            Self::Http2 { exchange, .. } => {
                let mut got = Vec::new();
                while got.len() < count {
                    got.extend(exchange.piece().unwrap().expect("there is more"));
                }
                got
            }
        }
    }
}

/// What the origin gets of a piece of a body: chunks, where the length is not known.
fn framed(piece: &str, way: Way) -> Vec<u8> {
    match way.length {
        Some(_) => piece.as_bytes().to_vec(),
        None => format!("{:x}\r\n{piece}\r\n", piece.len()).into_bytes(),
    }
}

fn reads(connection: &mut HandConnection, bytes: &[u8]) -> bool {
    connection.read_bytes(bytes.len()).unwrap() == bytes
}

#[test]
fn a_body_reaches_the_origin_piece_by_piece() {
    let mut parts = parts();
    for way in ways(7) {
        let mut upload = Uploader::begin(&parts, "/", way);
        let mut asked = parts.origin.accept().unwrap();
        let head = asked.request_head().unwrap().unwrap();
        let length = way.length.map(|length| length.to_string());
        assert_eq!(head.field("Content-Length"), length.as_deref(), "{way:?}");
        assert_eq!(head.field("Transfer-Encoding"), way.length.is_none().then_some("chunked"), "{way:?}");
        upload.send("one", false);
        assert!(reads(&mut asked, &framed("one", way)), "{way:?}");
        upload.send("last", true);
        assert!(reads(&mut asked, &framed("last", way)), "{way:?}");
        if way.length.is_none() {
            assert!(reads(&mut asked, b"0\r\n\r\n"), "{way:?}");
        }
        asked.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").unwrap();
        assert_eq!(upload.begin_response(2), (200, b"ok".to_vec()), "{way:?}");
        if let Uploader::Http1 { mut client, .. } = upload {
            client.send(b"GET /local HTTP/1.1\r\nHost: site.test\r\n\r\n").unwrap();
            assert_eq!(text(&client.read_response("GET").unwrap()), "local", "the connection goes on: {way:?}");
        }
    }
}

#[test]
fn an_origin_may_answer_while_it_still_gets_the_body() {
    let mut parts = parts();
    for way in ways(9) {
        let mut upload = Uploader::begin(&parts, "/", way);
        let mut asked = parts.origin.accept().unwrap();
        asked.request_head().unwrap().unwrap();
        upload.send("one", false);
        assert!(reads(&mut asked, &framed("one", way)), "{way:?}");
        asked.send("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nONE").unwrap();
        assert_eq!(upload.begin_response(3), (200, b"ONE".to_vec()), "{way:?}");
        upload.send("two", false);
        assert!(reads(&mut asked, &framed("two", way)), "{way:?}");
        asked.send("TWO").unwrap();
        assert_eq!(upload.more(3), b"TWO", "{way:?}");
        upload.send("end", true);
        assert!(reads(&mut asked, &framed("end", way)), "{way:?}");
        asked.send("END").unwrap();
        assert_eq!(upload.more(3), b"END", "{way:?}");
    }
}

#[test]
fn an_early_no_is_told_and_the_connection_goes_on() {
    let mut parts = parts();
    for way in ways(8) {
        let mut upload = Uploader::begin(&parts, "/", way);
        let mut asked = parts.origin.accept().unwrap();
        asked.request_head().unwrap().unwrap();
        upload.send("half", false);
        assert!(reads(&mut asked, &framed("half", way)), "{way:?}");
        asked.send("HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno").unwrap();
        assert_eq!(upload.begin_response(2), (403, b"no".to_vec()), "{way:?}");
        assert_eq!(asked.read_bytes(1).unwrap(), b"", "nobody sends it the rest: {way:?}");
        if let Uploader::Http1 { .. } = upload {
            upload.send("half", true);
            let Uploader::Http1 { mut client, .. } = upload else { continue };
            client.send(b"GET /local HTTP/1.1\r\nHost: site.test\r\n\r\n").unwrap();
            assert_eq!(text(&client.read_response("GET").unwrap()), "local", "{way:?}");
        }
    }
}

#[test]
fn a_client_that_leaves_never_makes_a_part_look_like_the_whole() {
    let mut parts = parts();
    for way in ways(100) {
        let mut upload = Uploader::begin(&parts, "/", way);
        let mut asked = parts.origin.accept().unwrap();
        asked.request_head().unwrap().unwrap();
        upload.send("half", false);
        assert!(reads(&mut asked, &framed("half", way)), "{way:?}");
        match upload {
            Uploader::Http1 { client, .. } => drop(client),
            Uploader::Http2 { exchange, .. } => exchange.cancel(),
        }
        assert_eq!(asked.read_bytes(1).unwrap_or_default(), b"", "{way:?}");
    }
}

#[test]
fn what_is_no_body_is_told_to_the_client_and_cut_for_the_origin() {
    let mut parts = parts();
    let in_chunks = Way { http2: false, tls: false, length: None };
    for (bytes, status) in [("zz\r\n", 400), ("3\r\nabcdef\r\n", 400), ("401\r\n", 413)] {
        let mut upload = Uploader::begin(&parts, "/", in_chunks);
        let mut asked = parts.origin.accept().unwrap();
        asked.request_head().unwrap().unwrap();
        let Uploader::Http1 { client, .. } = &mut upload else { continue };
        client.send(bytes.as_bytes()).unwrap();
        if status == 413 {
            client.send(&[b'x'; 0x401]).unwrap();
        }
        assert_eq!(client.read_response("POST").unwrap().status, status, "{bytes:?}");
        let got = asked.read_bytes(10_000).unwrap_or_default();
        assert!(!got.ends_with(b"0\r\n\r\n"), "{bytes:?}");
    }
    for (length, bytes) in [(3, "abcdef"), (6, "abc")] {
        let way = Way { http2: true, tls: false, length: Some(length) };
        let upload = Uploader::begin(&parts, "/", way);
        let _asked = parts.origin.accept().unwrap();
        let Uploader::Http2 { mut exchange, _client } = upload else { continue };
        // Whatever the client library thinks of it.
        if exchange.send(bytes.as_bytes(), true).is_ok() {
            assert_eq!(exchange.head().unwrap().status, 400, "{length} {bytes}");
        }
    }
}

#[test]
fn a_client_that_falls_silent_is_given_up() {
    let mut parts = parts();
    let mut upload = Uploader::begin(&parts, "/impatient", Way { http2: false, tls: false, length: Some(10) });
    let mut asked = parts.origin.accept().unwrap();
    asked.request_head().unwrap().unwrap();
    upload.send("half", false);
    assert!(reads(&mut asked, b"half"));
    assert_eq!(asked.read_bytes(1).unwrap_or_default(), b"");
    let Uploader::Http1 { mut client, .. } = upload else { return };
    assert_eq!(client.read_to_end().unwrap_or_default(), b"", "as nginx, there is no answer to a 408");
    parts.site.wait_for_log("client timed out");
}

#[test]
fn a_client_sends_no_faster_than_the_origin_reads() {
    let mut parts = parts();
    let mut client = TcpStream::connect(parts.site.setup().other_address()).unwrap();
    client.set_write_timeout(Some(Duration::from_secs(1))).unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    const BYTES: usize = 64 << 20;
    write!(client, "POST /large HTTP/1.1\r\nHost: site.test\r\nContent-Length: {BYTES}\r\n\r\n").unwrap();
    let mut asked = parts.origin.accept().unwrap();
    asked.request_head().unwrap().unwrap();
    let piece = vec![b'x'; 64 << 10];
    let mut sent = 0;
    while sent < BYTES
        && let Ok(count) = client.write(&piece)
    {
        sent += count;
    }
    assert!(sent < BYTES, "nobody reads it, and the sockets on the way do not hold it");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut left = BYTES - sent;
            client.set_write_timeout(Some(PATIENCE)).unwrap();
            while left > 0 {
                left -= client.write(&piece[..left.min(piece.len())]).unwrap();
            }
        });
        assert_eq!(asked.read_bytes(BYTES).unwrap().len(), BYTES);
    });
    asked.send("HTTP/1.1 204 No Content\r\n\r\n").unwrap();
    let mut answer = [0; 12];
    client.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 204");
}

#[test]
fn the_next_origin_gets_what_came_with_the_head() {
    let mut parts = parts();
    let mut client = Client::connect(parts.site.setup().other_address()).unwrap();
    client.send(b"POST /next HTTP/1.1\r\nHost: site.test\r\nContent-Length: 6\r\n\r\none").unwrap();
    let mut asked = parts.origin.accept().unwrap();
    asked.request_head().unwrap().unwrap();
    assert!(reads(&mut asked, b"one"));
    drop(asked);
    let mut asked = parts.other.accept().unwrap();
    asked.request_head().unwrap().unwrap();
    client.send(b"two").unwrap();
    assert!(reads(&mut asked, b"onetwo"));
    asked.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").unwrap();
    assert_eq!(text(&client.read_response("POST").unwrap()), "ok");
}

#[test]
fn another_location_gets_a_body_that_has_come_as_a_body_whatever_is_in_it() {
    let mut parts = parts();
    let mut client = Client::connect(parts.site.setup().other_address()).unwrap();
    let inside = "0\r\n\r\nGET /admin HTTP/1.1\r\nHost: site.test\r\n\r\n";
    let head = "POST /again HTTP/1.1\r\nHost: site.test\r\nTransfer-Encoding: chunked";
    client.send(format!("{head}\r\n\r\n{:x}\r\n{inside}\r\n", inside.len()).as_bytes()).unwrap();
    let mut asked = parts.origin.accept().unwrap();
    asked.request_head().unwrap().unwrap();
    client.send(b"0\r\n\r\n").unwrap();
    assert!(reads(&mut asked, format!("{:x}\r\n{inside}\r\n0\r\n\r\n", inside.len()).as_bytes()));
    drop(asked);
    let mut asked = parts.other.accept().unwrap();
    let seen = asked.request().unwrap().unwrap();
    assert_eq!(seen.field("Transfer-Encoding"), None);
    assert_eq!(seen.field("Content-Length"), Some(inside.len().to_string().as_str()));
    assert_eq!(larder_testkit::text_of(&seen.body), inside);
    asked.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").unwrap();
    assert_eq!(text(&client.read_response("POST").unwrap()), "ok");
}

#[test]
fn no_other_origin_gets_the_rest_of_a_body() {
    let mut parts = parts();
    let mut client = Client::connect(parts.site.setup().other_address()).unwrap();
    client.send(b"POST /next HTTP/1.1\r\nHost: site.test\r\nContent-Length: 6\r\n\r\n").unwrap();
    let mut asked = parts.origin.accept().unwrap();
    asked.request_head().unwrap().unwrap();
    client.send(b"one").unwrap();
    assert!(reads(&mut asked, b"one"));
    drop(asked);
    assert_eq!(client.read_response("POST").unwrap().status, 502);
    assert!(parts.other.try_accept().unwrap().is_none());
}

#[test]
fn what_follows_a_body_is_the_next_request() {
    let mut parts = parts();
    let next = "GET /local HTTP/1.1\r\nHost: site.test\r\n\r\n";
    for (framing, before, last, body) in [
        ("Content-Length: 0\r\nExpect: 100-continue", "", "", ""),
        ("Content-Length: 3", "", "abc", "abc"),
        ("Content-Length: 6", "abc", "def", "abcdef"),
        ("Transfer-Encoding: chunked", "", "3\r\nabc\r\n0\r\n\r\n", "abc"),
        ("Transfer-Encoding: chunked", "3\r\nabc\r\n3", "\r\ndef\r\n0\r\n\r\n", "abcdef"),
    ] {
        let mut client = Client::connect(parts.site.setup().other_address()).unwrap();
        let mut begin = format!("POST / HTTP/1.1\r\nHost: site.test\r\n{framing}\r\n\r\n{before}");
        let mut asked = None;
        if !before.is_empty() {
            client.send(std::mem::take(&mut begin).as_bytes()).unwrap();
            asked = Some(parts.origin.accept().unwrap());
        }
        client.send(format!("{begin}{last}{next}").as_bytes()).unwrap();
        let mut asked = asked.unwrap_or_else(|| parts.origin.accept().unwrap());
        let seen = asked.request().unwrap().unwrap();
        assert_eq!(larder_testkit::text_of(&seen.body), body, "{framing} {before}");
        asked.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").unwrap();
        assert_eq!(text(&client.read_response("POST").unwrap()), "ok", "{framing} {before}");
        assert_eq!(text(&client.read_response("GET").unwrap()), "local", "{framing} {before}");
    }
}

#[test]
fn an_origin_that_is_asked_by_the_old_version_is_told_a_length() {
    let mut parts = parts();
    for way in ways(6) {
        let mut upload = Uploader::begin(&parts, "/old", way);
        upload.send("abc", false);
        upload.send("def", true);
        let mut asked = parts.origin.accept().unwrap();
        let head = asked.request_head().unwrap().unwrap();
        assert_eq!(head.field("Content-Length"), Some("6"), "{way:?}");
        assert!(reads(&mut asked, b"abcdef"), "{way:?}");
    }
}

#[test]
fn fastcgi_gets_records_as_they_come() {
    let mut parts = parts();
    for way in ways(8) {
        let mut upload = Uploader::begin(&parts, "/php", way);
        let mut asked = parts.origin.accept().unwrap();
        let mut stdin = |wanted: &str, is_end: bool| {
            loop {
                let head = asked.read_bytes(8).unwrap();
                let len = usize::from(u16::from_be_bytes([head[4], head[5]]));
                let content = asked.read_bytes(len).unwrap();
                asked.read_bytes(usize::from(head[6])).unwrap();
                // 5 is STDIN.
                if head[1] == 5 {
                    assert_eq!(
                        (larder_testkit::text_of(&content).as_str(), content.is_empty()),
                        (wanted, is_end),
                        "{way:?}"
                    );
                    return;
                }
            }
        };
        upload.send("half", false);
        stdin("half", false);
        upload.send("rest", true);
        stdin("rest", false);
        stdin("", true);
    }
}

#[test]
fn the_log_counts_what_went_both_ways() {
    let mut parts = parts();
    let head = "POST /log HTTP/1.1\r\nHost: site.test\r\nContent-Length: 9\r\n\r\n";
    let mut client = Client::connect(parts.site.setup().other_address()).unwrap();
    client.send(head.as_bytes()).unwrap();
    let mut asked = parts.origin.accept().unwrap();
    asked.request_head().unwrap().unwrap();
    client.send(b"123456789").unwrap();
    assert!(reads(&mut asked, b"123456789"));
    asked.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").unwrap();
    assert_eq!(client.read_response("POST").unwrap().status, 200);
    let sent = format!("POST /log HTTP/1.1\r\nHost: {}\r\nContent-Length: 9\r\n\r\n", parts.origin.address());
    parts.site.wait_for_text("log.txt", &format!("200 {} {}", head.len() + 9, sent.len() + 9));
}
