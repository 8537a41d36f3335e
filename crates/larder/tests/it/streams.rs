//! Bodies on their way: while they are made, to those who take their time, and in parts.

use larder_testkit::{Answer, Client, Framing, HandConnection, HandOrigin, Origin, Response};

use crate::site::{Setup, Site, cached, eventually, get, get_on, text};

const SITE: &str = "
    proxy_cache_path {DIR}/pages keys_zone=pages:1m max_size=100m;
    server {
        listen 127.0.0.1:{PORT};
        add_header X-Cache $upstream_cache_status;
        proxy_http_version 1.1;
        proxy_cache_valid 200 1h;
        proxy_cache_lock on; proxy_cache_lock_timeout 1m; proxy_cache_lock_age 1m;
        location / { proxy_pass http://{ORIGIN}; proxy_cache pages; }
        location /slowly/ { proxy_pass http://{ORIGIN}; proxy_cache pages; limit_rate 32m; }
        location /uncached/ { proxy_pass http://{ORIGIN}; }
        location /here { return 200 here; }
    }";

/// A site with a fetch of `/p` under way: its head and `half` of eight bytes are out.
fn half_way(head: &str) -> (HandOrigin, Site, Client, HandConnection) {
    let mut origin = HandOrigin::start().unwrap();
    let site = Setup::new().one_worker().name("ORIGIN", origin.address()).start(SITE);
    let mut first = site.client();
    first.send(get("/p").as_bytes()).unwrap();
    let mut fetch = origin.accept().unwrap();
    fetch.request().unwrap().unwrap();
    fetch.send(format!("HTTP/1.1 200 OK\r\n{head}\r\n")).unwrap();
    first.read_head().unwrap();
    (origin, site, first, fetch)
}

/// Sends a request and reads the head of its answer.
fn begin(site: &Site, request: &str) -> (Client, Response) {
    let mut client = site.client();
    client.send(request.as_bytes()).unwrap();
    let head = client.read_head().unwrap();
    (client, head)
}

#[test]
fn whoever_comes_while_a_page_is_made_gets_what_he_asked_for() {
    let (_origin, site, mut first, mut fetch) = half_way("Content-Length: 8\r\nETag: \"v1\"\r\n");
    fetch.send("half").unwrap();
    assert_eq!(first.read_bytes(4).unwrap(), b"half");
    let request = |method: &str, fields: &str| format!("{method} /p HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
    // These need no more than the head.
    let (_, head) = begin(&site, &request("HEAD", ""));
    assert_eq!((head.status, head.field("Content-Length")), (200, Some("8")));
    let (_, not_modified) = begin(&site, &request("GET", "If-None-Match: \"v1\"\r\n"));
    assert_eq!(not_modified.status, 304);
    // These take the body as it comes.
    let (mut whole, mut whole_response) = begin(&site, &request("GET", ""));
    let (mut part, mut part_response) = begin(&site, &request("GET", "Range: bytes=2-5\r\n"));
    let (mut old, mut old_response) = begin(&site, "GET /p HTTP/1.0\r\n\r\n");
    assert_eq!(part_response.field("Content-Range"), Some("bytes 2-5/8"));
    fetch.send("rest").unwrap();
    for (client, response, body) in [
        (&mut whole, &mut whole_response, "halfrest"),
        (&mut part, &mut part_response, "lfre"),
        (&mut old, &mut old_response, "halfrest"),
    ] {
        client.read_body(response).unwrap();
        assert_eq!((text(response).as_str(), response.framing), (body, Framing::Length));
    }
}

#[test]
fn a_page_of_unknown_length_is_streamed_and_then_has_one() {
    let (_origin, site, mut first, mut fetch) = half_way("Transfer-Encoding: chunked\r\n");
    fetch.send("4\r\nhalf\r\n").unwrap();
    let (mut old, mut old_response) = begin(&site, "GET /p HTTP/1.0\r\n\r\n");
    let (mut new, mut new_response) = begin(&site, &get("/p"));
    fetch.send("4\r\nrest\r\n0\r\n\r\n").unwrap();
    old.read_body(&mut old_response).unwrap();
    assert_eq!((text(&old_response), old_response.framing), ("halfrest".to_owned(), Framing::Close));
    new.read_body(&mut new_response).unwrap();
    assert_eq!((text(&new_response), new_response.framing), ("halfrest".to_owned(), Framing::Chunked));
    assert_eq!(first.read_bytes(23).unwrap(), b"4\r\nhalf\r\n4\r\nrest\r\n0\r\n\r\n"[..].to_vec(), "as it came");
    let hit = site.get_until("/p", "the page to be whole", |response| response.field("Content-Length").is_some());
    assert_eq!((cached(&hit), hit.framing, text(&hit)), ("HIT", Framing::Length, "halfrest".to_owned()));
}

#[test]
fn a_fetch_that_breaks_off_cuts_everyone_short_and_leaves_nothing() {
    let (mut origin, site, mut first, mut fetch) = half_way("Content-Length: 8\r\n");
    fetch.send("half").unwrap();
    let (mut second, _) = begin(&site, &get("/p"));
    drop(fetch);
    for client in [&mut first, &mut second] {
        assert_eq!(client.read_bytes(8).unwrap(), b"half");
    }
    let mut third = site.client();
    third.send(get("/p").as_bytes()).unwrap();
    let mut again = origin.accept().unwrap();
    again.request().unwrap().unwrap();
    again.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngood").unwrap();
    assert_eq!(third.read_response("GET").unwrap().body, b"good");
}

#[test]
fn a_request_behind_a_body_under_way_waits_its_turn() {
    let mut origin = HandOrigin::start().unwrap();
    let site = Setup::new().name("ORIGIN", origin.address()).start(SITE);
    let mut client = site.client();
    client.send(format!("{}{}{}", get("/p"), get("/here"), get("/p")).as_bytes()).unwrap();
    let mut fetch = origin.accept().unwrap();
    fetch.request().unwrap().unwrap();
    fetch.send("HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nhalf").unwrap();
    let mut response = client.read_head().unwrap();
    fetch.send("rest").unwrap();
    client.read_body(&mut response).unwrap();
    assert_eq!(text(&response), "halfrest");
    assert_eq!(client.read_response("GET").unwrap().body, b"here");
    assert_eq!(client.read_response("GET").unwrap().body, b"halfrest");
}

/// Bytes that differ from place to place.
fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}

#[test]
fn a_slow_reader_gets_every_byte_in_its_place() {
    let origin = Origin::start().unwrap();
    let large = pattern(10 << 20);
    origin.answer("*", Answer::ok(large.clone()));
    let setup = Setup::new().name("ORIGIN", origin.address()).file("www/large", &large);
    let site = setup.start(&SITE.replace("location /here", "location /large { root {DIR}/www; } location /here"));
    for path in ["/p", "/slowly/p"] {
        site.get(path);
        site.get_until(path, "the page", |response| cached(response) == "HIT");
    }
    // More than a socket holds, from memory, from memory at a pace, from a temporary file, and from a file.
    for target in ["/p", "/slowly/p", "/uncached/p", "/large"] {
        for (range, wanted) in [("", &large[..]), ("Range: bytes=1000001-9000000\r\n", &large[1_000_001..=9_000_000])] {
            let mut slow = site.client();
            slow.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n{range}\r\n").as_bytes()).unwrap();
            let mut response = slow.read_head().unwrap();
            // The server runs into a full socket here: it has work for others and none for us.
            for _ in 0..20 {
                assert_eq!(site.get("/here").body, b"here");
            }
            slow.read_body(&mut response).unwrap();
            let is_ranged = response.status == 206;
            let wanted = if is_ranged { wanted } else { &large };
            assert_eq!(is_ranged, !range.is_empty() && target != "/uncached/p", "{target} {range}");
            assert!(response.body == wanted, "{target} {range}: {} bytes", response.body.len());
            assert_eq!(get_on(&mut slow, "/here").body, b"here", "{target} {range}");
        }
    }
}

#[test]
fn a_client_that_leaves_in_the_middle_of_an_upload_leaves_nothing_behind() {
    let origin = Origin::start().unwrap();
    origin.answer("*", Answer::ok("ok"));
    let site = Setup::new().name("ORIGIN", origin.address()).start(SITE);
    for _ in 0..20 {
        let mut client = site.client();
        client.send(b"POST /p HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\nhalf of it").unwrap();
    }
    for _ in 0..20 {
        let mut client = site.client();
        client.send(b"POST /p HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhalf").unwrap();
    }
    // Its own process still has nothing but listening sockets, this request, and what it opened at the start.
    let process = site.serving_process();
    let open = || std::fs::read_dir(format!("/proc/{process}/fd")).map_or(0, Iterator::count);
    eventually("the connections to be closed", || site.get("/here").status == 200 && open() < 40);
    assert_eq!(origin.count(), 0);
}
