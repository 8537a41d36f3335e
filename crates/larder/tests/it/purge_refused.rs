//! Purges that are refused, and what else comes of them.

use larder_testkit::{Answer, Frame, FrameKind, Origin, RawHttp2, request_block};

use crate::site::{Setup, Site, cached, eventually, text};

const SITE: &str = "
    proxy_cache_path {DIR}/pages keys_zone=pages:1m larder_disk=off;
    server {
        listen 127.0.0.1:{PORT};
        http2 on;
        add_header X-Cache $upstream_cache_status;
        set_real_ip_from 127.0.0.1;
        real_ip_header X-Client;
        proxy_cache pages;
        proxy_cache_key $host$request_uri;
        proxy_cache_valid 200 1h;
        location / { larder_purge_from 192.0.2.7; larder_purge_by_origin on; mirror /copy; proxy_pass http://{ORIGIN}; }
        location /banned/ { larder_ban pages BAN $http_x_ban from 192.0.2.7; mirror /copy; proxy_pass http://{ORIGIN}; }
        location /keyed/ { proxy_cache_purge PURGE from 192.0.2.7; mirror /copy; proxy_pass http://{ORIGIN}; }
        location /both/ {
            larder_purge_from 192.0.2.9;
            proxy_cache_purge PURGE from 192.0.2.7;
            mirror /copy;
            proxy_pass http://{ORIGIN};
        }
        location /answered/ { larder_purge_from 192.0.2.7; return 200 hi; proxy_pass http://{ORIGIN}; }
        location /closed/ { larder_purge_from 192.0.2.7; return 405; proxy_pass http://{ORIGIN}; }
        location = /copy { internal; proxy_cache off; proxy_pass http://{ORIGIN}; }
    }";

fn site() -> (Site, Origin) {
    let origin = Origin::start().unwrap();
    origin.answer("*", Answer::ok("page"));
    let site = Setup::new().name("ORIGIN", origin.address()).start(SITE);
    (site, origin)
}

fn fill(site: &Site, path: &str) {
    site.get_until(path, "the page to be stored", |response| cached(response) == "HIT");
}

/// As a client of IPv4 has it where `listen [::]:80 ipv6only=off` takes it.
#[test]
fn a_client_of_ipv4_may_purge_whatever_its_address_is_written_as() {
    let (site, _origin) = site();
    for (method, path, fields) in
        [("PURGE", "/a", ""), ("BAN", "/banned/a", "X-Ban: obj.status == 200\r\n"), ("PURGE", "/keyed/a", "")]
    {
        for (client, status, found) in [
            ("192.0.2.8", 403, "HIT"),
            ("::ffff:192.0.2.8", 403, "HIT"),
            ("::ffff:192.0.2.7", 200, "MISS"),
            ("192.0.2.7", 200, "MISS"),
        ] {
            fill(&site, path);
            let told = site.ask(method, path, &format!("X-Client: {client}\r\n{fields}"));
            assert_eq!((told.status, cached(&site.get(path))), (status, found), "{method} {path} {client}");
        }
    }
}

#[test]
fn a_purge_that_is_refused_is_not_mirrored() {
    let (site, origin) = site();
    let copies = |method: &str| {
        let line = format!("{method} /copy HTTP/1.1");
        origin.requests().iter().filter(|seen| seen.request_line == line).count()
    };
    for (method, path) in
        [("PURGE", "/a"), ("BAN", "/a"), ("BAN", "/banned/a"), ("PURGE", "/keyed/a"), ("PURGE", "/both/a")]
    {
        let before = [copies(method), copies("GET")];
        let fields = if method == "BAN" { "X-Ban: obj.status == 200\r\n" } else { "" };
        assert_eq!(site.ask(method, path, &format!("X-Client: 192.0.2.8\r\n{fields}")).status, 403, "{method} {path}");
        // A copy that is sent after this one comes behind it.
        site.get("/later");
        eventually("a copy", || copies("GET") > before[1]);
        assert_eq!(copies(method), before[0], "{method} {path}");
        let told = site.ask(method, path, &format!("X-Client: 192.0.2.7\r\n{fields}"));
        assert!(matches!(told.status, 200 | 404), "{method} {path} {}", told.status);
        eventually("a copy", || copies(method) > before[0]);
    }
}

#[test]
fn what_a_terminal_obeys_is_spelled_out() {
    let (site, origin) = site();
    let told = site.ask("PURGE", "/a", "X-Client: 192.0.2.7\r\nX-Purge-Method: q\x1b[31m\u{9b}\u{202e}\r\n");
    let spelled = r"q\u{1b}[31m\u{9b}\u{202e}";
    assert!(told.status == 400 && text(&told).contains(spelled), "{}", text(&told));
    site.wait_for_log(spelled);
    origin.answer("/b", Answer::ok("b").field("X-Larder-Purge", "foo\x1b[31m"));
    site.get("/b");
    site.wait_for_log(r"nothing is purged");
    site.wait_for_log(r"foo\u{1b}[31m");
    fill(&site, "/a");
    let told = site.ask("BAN", "/a", "X-Client: 192.0.2.7\r\nX-Host: a\u{9b}\r\nX-Url: b\r\n");
    assert_eq!(text(&told), "Banned: page.host ~ a\\u{9b} && page.url ~ b\n");
    assert!(!site.server().error_log().contains(['\x1b', '\u{9b}', '\u{202e}']));
}

#[test]
fn a_return_that_answers_a_purge_is_told() {
    let (site, _origin) = site();
    let why = "nothing is purged: \"return\" answers before that";
    for (method, path, status, lines) in
        [("GET", "/answered/a", 200, 0), ("PURGE", "/closed/a", 405, 0), ("PURGE", "/answered/a", 200, 1)]
    {
        assert_eq!(site.ask(method, path, "X-Client: 192.0.2.7\r\n").status, status, "{method} {path}");
        eventually("the log", || site.count_in_log(why) >= lines);
        assert_eq!(site.count_in_log(why), lines, "{method} {path}");
    }
}

/// In HPACK.
const STATUS_400: u8 = 0x80 | 12;

#[test]
fn a_request_that_is_not_whole_purges_nothing() {
    let (site, _origin) = site();
    fill(&site, "/a");
    let mut client = site.client();
    client
        .send(b"PURGE /a HTTP/1.1\r\nHost: site.test\r\nX-Client: 192.0.2.7\r\nContent-Length: 9\r\n\r\nfour")
        .unwrap();
    drop(client);
    site.wait_for_log("client prematurely closed connection");
    assert_eq!(cached(&site.get("/a")), "HIT");

    // RFC 9113 §8.1.1.
    let mut raw = RawHttp2::open(site.setup().address(), &[]).unwrap();
    let fields = [
        (":method", "PURGE"),
        (":scheme", "http"),
        (":authority", "site.test"),
        (":path", "/a"),
        ("x-client", "192.0.2.7"),
        ("content-length", "9"),
    ];
    raw.send_frame(&Frame::new(FrameKind::Headers, 4, 1, request_block(&fields))).unwrap();
    raw.send_frame(&Frame::new(FrameKind::Data, 1, 1, *b"four")).unwrap();
    // It is answered 400, or reset.
    let mut frames = std::iter::from_fn(|| raw.read_frame().unwrap()).filter(|frame| frame.stream == 1);
    let first = frames.next().expect("the connection stays open");
    assert!(first.kind == FrameKind::Reset || first.payload.first() == Some(&STATUS_400), "{first:?}");
    assert_eq!(cached(&site.get("/a")), "HIT");
    let whole = site.ask("PURGE", "/a", "X-Client: 192.0.2.7\r\nContent-Length: 0\r\n");
    assert_eq!((whole.status, cached(&site.get("/a"))), (200, "MISS"));
}
