//! `sub_filter` and the conversion of charsets: as bodies pass, from the cache, in ranges, and beside compression.

use std::time::Duration;

use larder_testkit::{Answer, HandOrigin, Http2Client, Http2Request, Origin, text_of, unpacked};

use crate::site::{Setup, Site, cached, text};

const SITE: &str = "
    proxy_cache_path {DIR}/pages keys_zone=pages:1m;
    charset_map one two { 58 59; }
    sub_filter_once off; sub_filter_types *;
    server {
        listen 127.0.0.1:{PORT};
        listen 127.0.0.1:{PORT2} http2;
        add_header X-Cache $upstream_cache_status;
        proxy_http_version 1.1; proxy_cache_valid 1h; proxy_cache_key $uri$is_args$args;
        location / { sub_filter needle thread; }
        location /gzip/ { alias {DIR}/www/; sub_filter needle thread; gzip on; gzip_types *; }
        location /o/ { sub_filter needle thread; proxy_pass http://{ORIGIN}/; proxy_buffering off; }
        location /stored/ { sub_filter needle $arg_with; proxy_cache pages; proxy_cache_key $uri; proxy_pass http://{ORIGIN}/; }
        location /stored/plain/ { rewrite ^/stored/plain/(.*) /stored/$1 break; proxy_cache pages; proxy_cache_key $uri; proxy_pass http://{ORIGIN}/; }
        location /unpacked/ { sub_filter needle thread; gunzip on; gzip on; gzip_types *; proxy_pass http://{ORIGIN}/; }
        location /charset/ { source_charset one; charset two; charset_types *; proxy_cache pages; proxy_pass http://{ORIGIN}/; }
    }";

/// A text of which much is found, longer than any buffer.
fn haystack() -> String {
    (0..40_000).map(|number| format!("hay {number} NEEDle needl nee\n")).collect()
}

fn replaced() -> String {
    haystack().replace("NEEDle", "thread")
}

fn site(origin: &str) -> Site {
    Setup::new().name("ORIGIN", origin).file("www/hay.txt", haystack()).start(SITE)
}

#[test]
fn a_long_body_is_searched_whole_over_every_protocol() {
    let origin = Origin::start().unwrap();
    origin.answer("*", Answer::ok(haystack()).field("Content-Type", "text/plain"));
    let site = site(&origin.address().to_string());
    let mut http2 = Http2Client::connect(site.setup().other_address()).unwrap();
    for target in ["/hay.txt", "/gzip/hay.txt", "/o/hay", "/stored/hay?with=thread", "/stored/hay?with=thread"] {
        for codings in ["", "Accept-Encoding: gzip\r\n"] {
            let response = site.ask("GET", target, codings);
            assert_eq!((response.status, response.field("Content-Length")), (200, None), "{target} {codings}");
            let coding = response.field("Content-Encoding").unwrap_or("-");
            assert_eq!(coding == "gzip", target.starts_with("/gzip") && !codings.is_empty(), "{target} {codings}");
            assert!(text_of(&unpacked(coding, &response.body)) == replaced(), "{target} {codings}");
        }
        let response = http2.exchange(&Http2Request::get(target)).unwrap();
        assert!(text(&response) == replaced(), "{target} over HTTP/2");
    }
}

#[test]
fn what_may_match_is_held_back_and_nothing_else() {
    let mut origin = HandOrigin::start().unwrap();
    let site = site(&origin.address().to_string());
    let mut client = site.client();
    client.send(b"GET /o/a HTTP/1.0\r\n\r\n").unwrap();
    let mut connection = origin.accept().unwrap();
    connection.request().unwrap().unwrap();
    connection.send("HTTP/1.1 200 OK\r\nContent-Length: 30\r\n\r\nhay nee").unwrap();
    client.read_head().unwrap();
    assert_eq!(client.read_bytes(4).unwrap(), b"hay ");
    connection.send("dl").unwrap();
    connection.send("e or need").unwrap();
    assert_eq!(client.read_bytes(10).unwrap(), b"thread or ");
    connection.send("y needle not").unwrap();
    assert_eq!(text_of(&client.read_to_end().unwrap()), "needy thread not");
}

#[test]
fn a_body_that_breaks_off_is_not_ended() {
    for (head, broken) in
        [("Content-Length: 100\r\n", "hay needle"), ("Transfer-Encoding: chunked\r\n", "ff\r\nhay needle")]
    {
        let mut origin = HandOrigin::start().unwrap();
        let site = site(&origin.address().to_string());
        let mut client = site.client();
        client.send(b"GET /o/a HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        let mut connection = origin.accept().unwrap();
        connection.request().unwrap().unwrap();
        connection.send(format!("HTTP/1.1 200 OK\r\n{head}\r\n{broken}")).unwrap();
        drop(connection);
        let got = text_of(&client.read_to_end().unwrap());
        let (_, body) = got.split_once("\r\n\r\n").expect("a head");
        assert!(body.contains("hay thread"), "{head}: {body:?}");
        assert!(!body.contains("\r\n0\r\n"), "{head}: {body:?}");
    }
}

#[test]
fn the_cache_keeps_what_the_origin_said() {
    let origin = Origin::start().unwrap();
    let answer = Answer::ok("a needle").field("Content-Type", "text/plain").field("ETag", "\"v\"");
    origin.answer("*", answer.field("Accept-Ranges", "bytes"));
    let site = site(&origin.address().to_string());
    for (target, body, etag, cache) in [
        ("/stored/p?with=pin", "a pin", None, "MISS"),
        ("/stored/p?with=nail", "a nail", None, "HIT"),
        ("/stored/plain/p", "a needle", Some("\"v\""), "HIT"),
        ("/stored/p", "a ", None, "HIT"),
    ] {
        let response = site.get(target);
        assert_eq!((text(&response).as_str(), cached(&response)), (body, cache), "{target}");
        assert_eq!(response.field("ETag"), etag, "{target}");
        let head = site.ask("HEAD", target, "");
        assert_eq!((head.field("Content-Length").is_some(), head.body.len()), (etag.is_some(), 0), "{target}");
    }
    let part = site.ask("GET", "/stored/p?with=pin", "Range: bytes=2-3\r\n");
    assert_eq!((part.status, text(&part).as_str()), (200, "a pin"), "what is replaced has no parts");
    let part = site.ask("GET", "/stored/plain/p", "Range: bytes=2-3\r\n");
    assert_eq!((part.status, text(&part).as_str()), (206, "ne"));
    assert_eq!(origin.count(), 1);
}

#[test]
fn a_compressed_answer_is_unpacked_replaced_and_packed_again() {
    let origin = Origin::start().unwrap();
    let packed = |body: &str| Answer::ok(larder_testkit::gzipped(body.as_bytes())).field("Content-Encoding", "gzip");
    origin.answer("*", packed(&haystack()).field("Content-Type", "text/plain"));
    let site = site(&origin.address().to_string());
    let plain = site.get("/unpacked/a");
    assert_eq!(plain.field("Content-Encoding"), None);
    assert!(text(&plain) == replaced());
    // Who takes it packed gets what the origin sent: nothing is looked for in it.
    let kept = site.ask("GET", "/unpacked/a", "Accept-Encoding: gzip\r\n");
    assert_eq!(kept.field("Content-Encoding"), Some("gzip"));
    assert!(text_of(&unpacked("gzip", &kept.body)) == haystack());
}

#[test]
fn parts_of_a_converted_page_are_converted() {
    let origin = Origin::start().unwrap();
    origin.answer("*", Answer::ok("aXbXcXdX").field("Content-Type", "text/plain").field("Accept-Ranges", "bytes"));
    let site = site(&origin.address().to_string());
    for round in ["fetched", "stored"] {
        let whole = site.get("/charset/p");
        assert_eq!(text(&whole), "aYbYcYdY", "{round}");
        assert_eq!(whole.field("Content-Length"), Some("8"), "{round}");
        assert_eq!(whole.field("Content-Type"), Some("text/plain; charset=two"), "{round}");
        site.get_until("/charset/p", "the page", |response| cached(response) == "HIT");
        let part = site.ask("GET", "/charset/p", "Range: bytes=1-3\r\n");
        assert_eq!((part.status, text(&part).as_str()), (206, "YbY"), "{round}");
        let parts = text(&site.ask("GET", "/charset/p", "Range: bytes=0-1,6-7\r\n"));
        assert!(parts.contains("\r\n\r\naY\r\n--") && parts.contains("\r\n\r\ndY\r\n--"), "{round}: {parts}");
        assert!(parts.contains("Content-Type: text/plain; charset=two\r\n"), "{round}: {parts}");
    }
}

#[test]
fn a_client_that_leaves_a_paced_response_is_not_waited_for() {
    let site = Site::start(
        "server { listen 127.0.0.1:{PORT}; location = /active { return 200 $connections_active; }
            location / { limit_rate 1; return 200 'slowly'; } }",
    );
    let mut client = site.client();
    client.set_patience(Duration::from_secs(20));
    client.send(b"GET / HTTP/1.0\r\n\r\n").unwrap();
    assert_eq!(client.read_bytes(1).unwrap(), b"H");
    drop(client);
    site.get_until("/active", "the one who asks, alone", |response| text(response) == "1");
}
