//! What goes through TLS, and what comes to its port that is no TLS.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use larder_testkit::{Answer, Client, Framing, HandOrigin, Origin, PATIENCE, Signal, Tls};

use crate::relay::Relay;
use crate::site::{eventually, get, get_on, text};
use crate::tls::{body, certified, client, is_nginx, site};

/// Bytes that differ from place to place.
fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}

#[test]
fn bodies_come_through_whole_whatever_they_are_made_of() {
    let (authority, setup) = certified();
    let origin = Origin::start().unwrap();
    let large = pattern(5 << 20);
    origin.answer("*", Answer::ok(large.clone()));
    let site = setup.name("ORIGIN", origin.address()).file("www/large", &large).file("www/small", "small").start(
        "proxy_cache_path {DIR}/pages keys_zone=pages:1m max_size=100m;
         server { listen 127.0.0.1:{PORT} ssl; {ONE}
            location / { }
            location /stored { proxy_pass http://{ORIGIN}; proxy_cache pages; proxy_cache_valid 200 1h; }
            location /fetched { proxy_pass http://{ORIGIN}; }
            location /paced { proxy_pass http://{ORIGIN}; limit_rate 16m; } }",
    );
    let tls = Tls::new("site.test", &authority);
    for tls in [tls.clone().version_1_3(), tls.version_1_2()] {
        let mut client = client(&site, &tls);
        for target in ["/large", "/stored", "/stored", "/fetched", "/paced"] {
            let response = get_on(&mut client, target);
            assert!(response.body == large && response.framing == Framing::Length, "{target}");
            assert_eq!(get_on(&mut client, "/small").body, b"small", "{target}");
        }
        let part = "GET /large HTTP/1.1\r\nHost: site.test\r\nRange: bytes=1000001-4000000\r\n\r\n";
        client.send(part.as_bytes()).unwrap();
        assert!(client.read_response("GET").unwrap().body == large[1_000_001..=4_000_000]);
    }
}

#[test]
fn a_slow_reader_gets_every_byte_and_nobody_waits_for_it() {
    let (authority, setup) = certified();
    let large = pattern(10 << 20);
    let site = setup
        .file("www/large", &large)
        .start("server { listen 127.0.0.1:{PORT} ssl; {ONE} location / { } location /here { return 200 here; } }");
    let tls = Tls::new("site.test", &authority);
    let mut slow = client(&site, &tls);
    slow.send(get("/large").as_bytes()).unwrap();
    let mut response = slow.read_head().unwrap();
    for _ in 0..20 {
        let mut other = client(&site, &tls);
        assert_eq!(get_on(&mut other, "/here").body, b"here");
    }
    slow.read_body(&mut response).unwrap();
    assert!(response.body == large);
    assert_eq!(get_on(&mut slow, "/here").body, b"here");
}

#[test]
fn uploads_reach_the_origin_whole() {
    let (authority, setup) = certified();
    let origin = Origin::start().unwrap();
    origin.answer("*", Answer::ok("ok"));
    let site = setup.name("ORIGIN", origin.address()).start(
        "client_max_body_size 10m;
         server { listen 127.0.0.1:{PORT} ssl; {ONE}
            location / { proxy_pass http://{ORIGIN}; proxy_http_version 1.1; }
            location /passed { proxy_pass http://{ORIGIN}; proxy_http_version 1.1; proxy_request_buffering off; } }",
    );
    let large = pattern(3 << 20);
    let mut client = client(&site, &Tls::new("site.test", &authority));
    for (number, target) in ["/p", "/passed"].iter().enumerate() {
        let head = format!("POST {target} HTTP/1.1\r\nHost: site.test\r\nContent-Length: {}\r\n\r\n", large.len());
        client.send(head.as_bytes()).unwrap();
        client.send(&large).unwrap();
        assert_eq!(client.read_response("POST").unwrap().status, 200, "{target}");
        assert!(origin.requests()[number].body == large, "{target}");
    }
}

#[test]
fn requests_in_one_record_are_answered_in_order() {
    let (site, tls) = site("server { listen 127.0.0.1:{PORT} ssl; {ONE} return 200 $request_uri; }");
    let mut client = client(&site, &tls);
    client.send((0..50).map(|number| get(&format!("/{number}"))).collect::<String>().as_bytes()).unwrap();
    for number in 0..50 {
        assert_eq!(text(&client.read_response("GET").unwrap()), format!("/{number}"));
    }
}

#[test]
fn what_comes_in_pieces_goes_on_in_pieces() {
    let (authority, setup) = certified();
    let mut origin = HandOrigin::start().unwrap();
    let site = setup.name("ORIGIN", origin.address()).start(
        "server { listen 127.0.0.1:{PORT} ssl; {ONE}
            location / { proxy_pass http://{ORIGIN}; proxy_http_version 1.1; proxy_buffering off; } }",
    );
    let mut client = client(&site, &Tls::new("site.test", &authority));
    client.send(get("/events").as_bytes()).unwrap();
    let mut events = origin.accept().unwrap();
    events.request().unwrap().unwrap();
    events.send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n").unwrap();
    client.read_head().unwrap();
    for number in 0..5 {
        events.send(format!("9\r\ndata: {number}\n\n\r\n")).unwrap();
        assert_eq!(client.read_bytes(14).unwrap(), format!("9\r\ndata: {number}\n\n\r\n").into_bytes());
    }
}

#[test]
fn an_end_is_said_before_it_comes() {
    let (site, tls) = site("server { listen 127.0.0.1:{PORT} ssl; {ONE} return 200 here; }");
    // A reader that was not told of the end could not tell it from a cut.
    let mut closing = client(&site, &tls);
    closing.send(b"GET / HTTP/1.1\r\nHost: site.test\r\nConnection: close\r\n\r\n").unwrap();
    closing.read_response("GET").unwrap();
    assert_eq!(closing.read_to_end().unwrap(), b"");
    let mut old = client(&site, &tls);
    old.send(b"GET / HTTP/1.0\r\nHost: site.test\r\n\r\n").unwrap();
    assert_eq!(old.read_response("GET").unwrap().body, b"here");
    assert_eq!(old.read_to_end().unwrap(), b"");
    // A client's own end is answered.
    let mut leaving = client(&site, &tls);
    get_on(&mut leaving, "/");
    leaving.finish().unwrap();
    assert!(leaving.is_closed_within(PATIENCE));
}

#[test]
fn a_graceful_stop_finishes_what_is_under_way() {
    let (authority, setup) = certified();
    let mut origin = HandOrigin::start().unwrap();
    let mut site = setup
        .name("ORIGIN", origin.address())
        .start("server { listen 127.0.0.1:{PORT} ssl; {ONE} location / { proxy_pass http://{ORIGIN}; } }");
    let tls = Tls::new("site.test", &authority);
    let mut busy = client(&site, &tls);
    busy.send(get("/p").as_bytes()).unwrap();
    let mut fetch = origin.accept().unwrap();
    fetch.request().unwrap().unwrap();
    site.signal(Signal::Quit);
    eventually("no more to be let in", || TcpStream::connect(site.setup().address()).is_err());
    fetch.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nlast").unwrap();
    let last = busy.read_response("GET").unwrap();
    assert_eq!((text(&last).as_str(), last.keeps_connection()), ("last", false));
    assert!(site.server_mut().wait().is_some_and(|status| status.success()));
}

#[test]
fn a_request_in_the_clear_to_the_port_of_tls_is_told_so() {
    let (site, _) = site(
        "server { listen 127.0.0.1:{PORT} ssl; {ONE} return 200 here; }
         server { listen 127.0.0.1:{PORT2} ssl; server_name site.test; {ONE}
                  error_page 497 =301 https://$host:{PORT2}$request_uri;
                  location / { return 200 here; } }",
    );
    let response = site.get("/p");
    assert_eq!((response.status, response.keeps_connection()), (400, false));
    assert!(text(&response).contains("The plain HTTP request was sent to HTTPS port"), "{}", text(&response));
    let mut client = Client::connect(site.setup().other_address()).unwrap();
    client.send(get("/p?q").as_bytes()).unwrap();
    let response = client.read_response("GET").unwrap();
    let port = site.setup().other_address().port();
    assert_eq!(response.status, 301);
    assert_eq!(response.field("Location"), Some(format!("https://site.test:{port}/p?q").as_str()));
}

#[test]
fn one_server_speaks_both_and_sends_to_the_safe_side() {
    let (site, tls) = site(
        "server { listen 127.0.0.1:{PORT2}; server_name site.test; return 301 https://$host$request_uri; }
         server { listen 127.0.0.1:{PORT} ssl; server_name site.test; {ONE} root {DIR}/www;
                  location / { try_files $uri $uri/ =404; } }",
    );
    let mut plain = Client::connect(site.setup().other_address()).unwrap();
    assert_eq!(get_on(&mut plain, "/p?q").field("Location"), Some("https://site.test/p?q"));
    // A redirect that the server makes itself keeps scheme and port.
    std::fs::create_dir_all(site.setup().path("www/folder")).unwrap();
    let port = site.setup().address().port();
    let moved = get_on(&mut client(&site, &tls), "/folder");
    assert_eq!(moved.status, 301);
    assert_eq!(moved.field("Location"), Some(format!("https://site.test:{port}/folder/").as_str()));
}

#[test]
fn noise_and_silence_cost_their_own_connection_alone() {
    let (site, tls) = site(
        "client_header_timeout 1s;
         server { listen 127.0.0.1:{PORT} ssl; {ONE} return 200 here; }",
    );
    let long_record = [&[0x16, 3, 1, 0x40, 0x00][..], &[1; 2000]].concat();
    let cut_hello = [0x16, 3, 1, 0, 200, 1, 0, 0, 196, 3, 3];
    let alert = [0x15, 3, 3, 0, 2, 2, 40];
    let data_first = [0x17, 3, 3, 0, 3, 1, 2, 3];
    for noise in [&b"\0\0\0\0"[..], b"\xff\xff\xff\xff\xff\xff", &long_record, &cut_hello, &alert, &data_first, b""] {
        let mut socket = TcpStream::connect(site.setup().address()).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket.write_all(noise).unwrap();
        let mut answer = Vec::new();
        drop(socket.read_to_end(&mut answer));
        // An alert, nothing, or what who speaks HTTP without TLS is told.
        let is_fitting = answer.first().is_none_or(|first| *first == 0x15) || answer.starts_with(b"HTTP/1.1 400 ");
        assert!(is_fitting, "to {noise:x?}: {answer:x?}");
        assert_eq!(body(&site, &tls), "here", "{noise:x?}");
    }
    // Somebody who leaves in the middle.
    for _ in 0..20 {
        drop(TcpStream::connect(site.setup().address()).unwrap().write_all(&cut_hello));
    }
    assert_eq!(body(&site, &tls), "here");
}

#[test]
fn a_connection_that_idles_is_closed_in_time() {
    let (site, tls) = site("keepalive_timeout 500ms; server { listen 127.0.0.1:{PORT} ssl; {ONE} return 200 here; }");
    let mut client = client(&site, &tls);
    get_on(&mut client, "/");
    assert!(client.is_closed_within(Duration::from_secs(10)));
}

/// PROXY protocol, version 1, from a client far away.
const V1: &[u8] = b"PROXY TCP4 192.0.2.7 198.51.100.1 56324 443\r\n";

/// The same as version 2.
fn v2() -> Vec<u8> {
    let mut header = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c".to_vec();
    header.extend_from_slice(&[192, 0, 2, 7, 198, 51, 100, 1]);
    header.extend_from_slice(&56_324_u16.to_be_bytes());
    header.extend_from_slice(&443_u16.to_be_bytes());
    header
}

#[test]
fn the_proxy_protocol_before_tls_says_who_asks() {
    let (authority, setup) = certified();
    let site = setup.start(
        "set_real_ip_from 127.0.0.1; real_ip_header proxy_protocol;
         server { listen 127.0.0.1:{PORT} ssl proxy_protocol; {ONE} listen 127.0.0.1:{PORT2} proxy_protocol;
                  return 200 '$remote_addr:$remote_port $proxy_protocol_addr:$proxy_protocol_port $proxy_protocol_server_addr:$proxy_protocol_server_port $realip_remote_addr'; }",
    );
    let said = "192.0.2.7:56324 192.0.2.7:56324 198.51.100.1:443 127.0.0.1";
    let tls = Tls::new("site.test", &authority);
    for header in [V1.to_vec(), v2()] {
        let mut client = Client::connect_tls_after(site.setup().address(), &tls, &header).unwrap();
        assert_eq!(text(&get_on(&mut client, "/")), said);
        assert_eq!(text(&get_on(&mut client, "/")), said, "for the whole connection");
        let mut plain = Client::connect(site.setup().other_address()).unwrap();
        plain.send(&header).unwrap();
        assert_eq!(text(&get_on(&mut plain, "/")), said);
        // A header may come in any pieces; nginx takes it whole or not at all.
        if is_nginx() {
            continue;
        }
        let mut pieces = Client::connect(site.setup().other_address()).unwrap();
        for byte in [&header[..], get("/").as_bytes()].concat() {
            pieces.send(&[byte]).unwrap();
        }
        assert_eq!(text(&pieces.read_response("GET").unwrap()), said);
    }
    // Nobody speaks for a health check but itself.
    let local = b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0";
    let mut plain = Client::connect(site.setup().other_address()).unwrap();
    plain.send(local).unwrap();
    assert!(text(&get_on(&mut plain, "/")).starts_with("127.0.0.1:"));
}

#[test]
fn who_lacks_the_proxy_protocol_where_it_is_due_is_sent_away() {
    let (authority, setup) = certified();
    let site = setup.start(
        "server { listen 127.0.0.1:{PORT} ssl proxy_protocol; {ONE} listen 127.0.0.1:{PORT2} proxy_protocol; return 200 here; }",
    );
    assert!(Client::connect_tls(site.setup().address(), &Tls::new("site.test", &authority)).is_err());
    for noise in [
        &b"GET / HTTP/1.1\r\nHost: site.test\r\n\r\n"[..],
        b"PROXY TCP4 no\r\n",
        b"\r\n\r\n\0\r\nQUIT\n\xff\0\0\0\0\0\0\0\0\0\0\0\0",
    ] {
        let mut client = Client::connect(site.setup().other_address()).unwrap();
        client.send(noise).unwrap();
        assert_eq!(client.read_to_end().unwrap_or_default(), b"", "{noise:x?}");
    }
    site.wait_for_log("broken header");
}

#[test]
fn a_client_that_has_said_all_it_will_say_still_gets_its_answer() {
    let (authority, setup) = certified();
    let mut origin = HandOrigin::start().unwrap();
    let site = setup
        .name("ORIGIN", origin.address())
        .start("server { listen 127.0.0.1:{PORT} ssl; {ONE} location / { proxy_pass http://{ORIGIN}; } }");
    let tls = Tls::new("site.test", &authority);
    for tls in [tls.clone().version_1_3(), tls.version_1_2()] {
        // The end of the client's half of TLS arrives, that of its half of TCP does not.
        let relay = Relay::start(site.setup().address());
        let mut client = Client::connect_tls(relay.address(), &tls).unwrap();
        client.send(get("/slow").as_bytes()).unwrap();
        let mut fetch = origin.accept().unwrap();
        fetch.request().unwrap().unwrap();
        client.finish().unwrap();
        // Longer than it takes to see that a client has left.
        std::thread::sleep(Duration::from_millis(500));
        fetch.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nslow").unwrap();
        let response = client.read_response("GET").unwrap();
        assert_eq!((response.status, text(&response).as_str()), (200, "slow"));
        // Nothing more can come, so it ends.
        assert!(client.is_closed_within(PATIENCE));
    }
}

#[test]
fn who_has_said_nothing_counts_as_a_connection_and_holds_up_no_stop() {
    let (site, tls) =
        site("server { listen 127.0.0.1:{PORT} ssl; {ONE} client_header_timeout 10m; location / { stub_status; } }");
    let silent = TcpStream::connect(site.setup().address()).unwrap();
    eventually("it to be counted", || body(&site, &tls).starts_with("Active connections: 2 "));
    site.signal(Signal::Quit);
    // The end of the connection is the end of the server's wait for it.
    silent.set_read_timeout(Some(PATIENCE)).unwrap();
    assert_eq!((&silent).read(&mut [0; 1]).unwrap(), 0);
}
