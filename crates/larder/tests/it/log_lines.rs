//! What a line of the access log says of a request that took its time, or did not come to its end.

use std::time::Duration;

use larder_testkit::{Answer, HandOrigin, Origin, PATIENCE};

use crate::site::{Setup, Site, get, get_on, text};
use crate::tls::is_nginx;

#[test]
fn the_time_of_a_request_counts_from_the_first_byte_of_its_head() {
    let site = Site::start(
        "log_format time '$request_uri $request_time';
         access_log access.log time;
         server { listen 127.0.0.1:{PORT}; location / { return 200 x; } location = /active { stub_status; } }",
    );
    let seconds = |uri: &str| {
        site.wait_for_text("access.log", uri);
        let log = site.server().access_log();
        let line = log.lines().find(|line| line.starts_with(uri)).unwrap_or_default();
        line.split(' ').nth(1).and_then(|time| time.parse::<f64>().ok()).unwrap_or_else(|| panic!("{log}"))
    };
    let mut client = site.client();
    // The first request of a connection, and one behind another.
    for uri in ["/first", "/second"] {
        let request = get(uri);
        let (half, rest) = request.split_at(request.len() / 2);
        client.send(half.as_bytes()).unwrap();
        site.get_until("/active", "the head to begin", |response| text(response).contains("Reading: 1 "));
        // It is time itself that is measured here.
        std::thread::sleep(Duration::from_millis(300));
        client.send(rest.as_bytes()).unwrap();
        assert_eq!(client.read_response("GET").unwrap().status, 200);
        assert!(seconds(uri) >= 0.2, "{uri}: {}", seconds(uri));
    }
    // The time between two requests is nobody's.
    std::thread::sleep(Duration::from_millis(300));
    get_on(&mut client, "/third");
    let idle_and_reading = 0.3;
    assert!(seconds("/third") < idle_and_reading, "{}", seconds("/third"));
}

#[test]
fn only_a_response_that_was_sent_whole_is_complete() {
    let mut origin = HandOrigin::start().unwrap();
    let site = Setup::new().name("ORIGIN", origin.address()).file("www/large", vec![b'x'; 20 << 20]).start(
        "log_format done '$request_uri [$request_completion]';
         access_log access.log done;
         server {
            listen 127.0.0.1:{PORT};
            location / { root {DIR}/www; }
            location /text { return 200 text; }
            location /p { proxy_pass http://{ORIGIN}; proxy_buffering off; }
         }",
    );
    let mut client = site.client();
    for target in ["/text", "/large?whole", "/none"] {
        get_on(&mut client, target);
        site.wait_for_text("access.log", &format!("{target} [OK]"));
    }
    let mut leaving = site.client();
    leaving.send(get("/large?left").as_bytes()).unwrap();
    leaving.read_head().unwrap();
    drop(leaving);
    site.wait_for_text("access.log", "/large?left []");

    // That this one has left is seen although its origin is silent.
    let mut leaving = site.client();
    leaving.send(get("/p").as_bytes()).unwrap();
    let mut fetch = origin.accept().unwrap();
    fetch.request().unwrap().unwrap();
    fetch.send("HTTP/1.1 200 OK\r\nContent-Length: 20000000\r\n\r\nhalf").unwrap();
    leaving.read_head().unwrap();
    drop(leaving);
    site.wait_for_text("access.log", "/p []");
    drop(fetch);

    // Nor is one that the origin broke off.
    let mut cut = site.client();
    cut.send(get("/p?cut").as_bytes()).unwrap();
    let mut fetch = origin.accept().unwrap();
    fetch.request().unwrap().unwrap();
    fetch.send("HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nhalf").unwrap();
    drop(fetch);
    assert_eq!(cut.read_head().unwrap().status, 200);
    assert_eq!(cut.read_bytes(8).unwrap(), b"half");
    assert!(cut.is_closed_within(PATIENCE));
    site.wait_for_text("access.log", "/p?cut []");
}

#[test]
fn an_origin_whose_client_left_is_counted_up_to_then() {
    let mut origin = HandOrigin::start().unwrap();
    let site = Setup::new().name("ORIGIN", origin.address()).start(
        "log_format counts '$request_uri $upstream_bytes_sent $upstream_bytes_received $upstream_response_time.';
         access_log access.log counts;
         server { listen 127.0.0.1:{PORT}; location / { proxy_pass http://{ORIGIN}; proxy_buffering off; } }",
    );
    let head = "HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n";
    // Nothing has come, or the head and two pieces of the body.
    for (target, pieces) in [("/silent", &[][..]), ("/half", &[head, "half", "of"])] {
        let mut leaving = site.client();
        leaving.send(get(target).as_bytes()).unwrap();
        let mut fetch = origin.accept().unwrap();
        fetch.request().unwrap().unwrap();
        for (at, piece) in pieces.iter().enumerate() {
            fetch.send(piece).unwrap();
            match at {
                0 => assert_eq!(leaving.read_head().unwrap().status, 200),
                _ => assert_eq!(leaving.read_bytes(piece.len()).unwrap(), piece.as_bytes()),
            }
        }
        // It is time itself that is measured here.
        std::thread::sleep(Duration::from_millis(300));
        drop(leaving);
        site.wait_for_text("access.log", target);
        let log = site.server().access_log();
        let line = log.lines().find(|line| line.starts_with(target)).unwrap_or_default();
        let [_, sent, received, time] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{log}") };
        assert!(sent.parse::<usize>().is_ok_and(|sent| sent > 0), "{line}");
        assert_eq!(received, pieces.concat().len().to_string(), "{line}");
        assert!(time.trim_end_matches('.').parse::<f64>().is_ok_and(|time| time >= 0.2), "{line}");
    }
}

#[test]
fn lines_of_one_file_are_in_the_order_of_the_requests() {
    // Who serves has to be able to make the files.
    let site = Setup::new().main("daemon off; worker_processes 1; user root;").start(
        "log_format uri '$uri';
         log_format other 'other $uri';
         server {
            listen 127.0.0.1:{PORT};
            access_log {DIR}/fixed.log uri;
            access_log {DIR}/by-$host.log uri;
            location / { return 200 x; }
            location /other {
                access_log {DIR}/fixed.log other;
                access_log {DIR}/by-$host.log other;
                return 200 x;
            }
            location /own { access_log {DIR}/by-$host.log uri; access_log {DIR}/fixed.log uri; return 200 x; }
         }",
    );
    let uris = ["/a", "/other", "/own", "/b", "/other", "/own", "/last"];
    let mut client = site.client();
    client.send(uris.map(|uri| format!("GET {uri} HTTP/1.1\r\nHost: h\r\n\r\n")).concat().as_bytes()).unwrap();
    for uri in uris {
        assert_eq!(client.read_response("GET").unwrap().status, 200, "{uri}");
    }
    for log in ["fixed.log", "by-h.log"] {
        site.wait_for_text(log, "/last");
        let text = site.server().text(log);
        let expected = uris.map(|uri| if uri == "/other" { "other /other" } else { uri });
        assert_eq!(text.lines().collect::<Vec<_>>(), expected, "{log}");
    }
}

#[test]
fn an_answer_that_waits_in_a_file_is_told_of() {
    let origin = Origin::start().unwrap();
    origin.answer("*", Answer::ok("x".repeat(4 << 20)));
    let site = Setup::new().name("ORIGIN", origin.address()).start(
        "server {
            listen 127.0.0.1:{PORT} sndbuf=16k;
            location / { proxy_pass http://{ORIGIN}; proxy_buffers 4 4k; proxy_busy_buffers_size 8k; }
         }",
    );
    let mut slow = site.client();
    slow.send(get("/").as_bytes()).unwrap();
    slow.read_head().unwrap();
    // The origin has been read to its end meanwhile.
    site.wait_for_log("[warn]");
    site.wait_for_log("an upstream response is buffered to a temporary file");
}

#[test]
fn the_error_log_names_the_url_that_was_asked_for() {
    let gone = HandOrigin::start().unwrap().address();
    let site = Setup::new().name("ORIGIN", gone).start(
        "server {
            listen 127.0.0.1:{PORT};
            location /app/ { proxy_pass http://{ORIGIN}/; }
            location /as-it-is { proxy_pass http://{ORIGIN}; }
            location /rewritten { rewrite ^/rewritten(/.*) $1 break; proxy_pass http://{ORIGIN}; }
         }",
    );
    for (target, sent) in
        [("/app/drop?a=1", "/drop?a=1"), ("/as-it-is?b", "/as-it-is?b"), ("/rewritten/c?d=%20", "/c?d=%20")]
    {
        get_on(&mut site.client(), target);
        site.wait_for_log(&format!("upstream: \"http://{gone}{sent}\""));
    }
}

#[test]
fn a_line_is_what_its_format_says_whatever_the_response_tells_of_the_cache() {
    if is_nginx() {
        return;
    }
    let origin = Origin::start().unwrap();
    origin.answer("*", Answer::ok("page"));
    let site = Setup::new().one_worker().name("ORIGIN", origin.address()).start(
        "log_format line '$remote_addr \"$request\" $status $upstream_cache_status';
         access_log access.log line;
         proxy_cache_path {DIR}/pages keys_zone=pages:1m;
         larder_cache_status on;
         server {
            listen 127.0.0.1:{PORT};
            location / { proxy_pass http://{ORIGIN}; proxy_cache pages; proxy_cache_valid 200 1h; proxy_cache_lock on; }
         }",
    );
    for (target, line) in
        [("/p", "127.0.0.1 \"GET /p HTTP/1.1\" 200 MISS"), ("/p", "127.0.0.1 \"GET /p HTTP/1.1\" 200 HIT")]
    {
        let response = site.get(target);
        assert!(response.field("Cache-Status").is_some(), "{line}");
        site.wait_for_text("access.log", line);
        let log = site.server().access_log();
        assert_eq!(log.lines().last(), Some(line), "{log}");
    }
}
