//! Which host, path and method an origin is told.

use larder_testkit::{Answer, FastCgiOrigin, FastCgiReply, HandOrigin, Origin, Tls};

use crate::site::{Setup, text};
use crate::tls::{certified, client};

#[test]
fn the_host_of_the_target_replaces_the_field_everywhere() {
    let (origin, fcgi) = (Origin::start().unwrap(), FastCgiOrigin::start_tcp().unwrap());
    origin.answer("*", Answer::ok("ok"));
    fcgi.answer("*", FastCgiReply::html("ok"));
    let site = Setup::new().name("ORIGIN", origin.address()).name("FCGI", fcgi.address()).start(
        "server {
            listen 127.0.0.1:{PORT};
            server_name named.test;
            location /raw { proxy_set_header Host $http_host; proxy_pass http://{ORIGIN}; }
            location /f { fastcgi_pass {FCGI}; {PARAMS} }
            location /own { fastcgi_pass {FCGI}; fastcgi_param HTTP_HOST own.test; {PARAMS} }
            location /told { return 200 \"$host|$http_host|$request_port\"; }
         }",
    );
    for (line, field, raw, fastcgi, told) in [
        ("http://Site.test/", "Host: evil.test\r\n", "Site.test", "site.test", "site.test|Site.test|"),
        ("http://site.test:81/", "Host: site.test\r\n", "site.test:81", "site.test:81", "site.test|site.test:81|81"),
        ("/", "Host: Site.test.:81\r\n", "Site.test.:81", "site.test:81", "site.test|Site.test.:81|81"),
    ] {
        let send = |path: &str| {
            let head = format!("GET {line}{path} HTTP/1.1\r\n{field}Connection: close\r\n\r\n");
            text(&site.exchange("GET", head))
        };
        send("raw");
        send("f");
        assert_eq!(origin.requests().last().unwrap().field("Host"), Some(raw), "{line} {field}");
        assert_eq!(fcgi.requests().last().unwrap().param("HTTP_HOST"), Some(fastcgi), "{line} {field}");
        assert_eq!(send("told"), told, "{line} {field}");
        send("own");
        assert_eq!(fcgi.requests().last().unwrap().param("HTTP_HOST"), Some("own.test"));
    }
    // A client of HTTP/1.0 may say none, and gets the name of the server it reached.
    site.exchange("GET", "GET /f HTTP/1.0\r\n\r\n");
    assert_eq!(fcgi.requests().last().unwrap().param("HTTP_HOST"), Some("named.test"));
}

#[test]
fn a_target_is_a_path_whatever_variables_hold() {
    let origin = Origin::start().unwrap();
    origin.answer("*", Answer::ok("ok"));
    let site = Setup::new().name("ORIGIN", origin.address()).start(
        "upstream group { server {ORIGIN}; }
         server {
            listen 127.0.0.1:{PORT};
            location /v { proxy_pass http://group$uri; }
            location /suffix { set $suffix ?$query_string; proxy_pass http://group$suffix; }
            location / { proxy_pass http://group; }
         }",
    );
    for (target, seen) in [
        ("/v/a%20HTTP/1.0", "/v/a%20HTTP/1.0"),
        ("/v/a%09b%0d%0ac%7f%01", "/v/a%09b%0D%0Ac%7F%01"),
        ("/suffix?a=1", "/?a=1"),
        ("http://site.test?x=1", "/?x=1"),
        ("http://site.test", "/"),
        ("/a%20b?c%20d", "/a%20b?c%20d"),
    ] {
        assert_eq!(site.get(target).status, 200, "{target}");
        let requests = origin.requests();
        let line = &requests.last().unwrap().request_line;
        assert_eq!(line.split(' ').collect::<Vec<_>>()[..2], ["GET", seen], "{target}: {line}");
        assert_eq!(line.split(' ').count(), 3, "{target}: {line}");
    }
}

#[test]
fn an_origin_of_http_1_1_is_always_told_a_host() {
    let origin = Origin::start().unwrap();
    origin.answer("*", Answer::ok("ok"));
    let site = Setup::new().name("ORIGIN", origin.address()).start(
        "server {
            listen 127.0.0.1:{PORT};
            proxy_set_header Host $http_host;
            location / { proxy_http_version 1.1; proxy_pass http://{ORIGIN}; }
            location /old { proxy_http_version 1.0; proxy_pass http://{ORIGIN}; }
         }",
    );
    assert_eq!(site.exchange("GET", "GET / HTTP/1.0\r\n\r\n").status, 200);
    assert_eq!(origin.requests().last().unwrap().field("Host"), Some(&*origin.address().to_string()));
    site.exchange("GET", "GET /old HTTP/1.0\r\n\r\n");
    assert_eq!(origin.requests().last().unwrap().field("Host"), None);
}

#[test]
fn the_method_that_was_sent_says_whether_a_body_follows() {
    let mut origin = HandOrigin::start().unwrap();
    let site = Setup::new().one_worker().name("ORIGIN", origin.address()).start(
        "upstream kept { server {ORIGIN}; keepalive 8; }
         server {
            listen 127.0.0.1:{PORT};
            proxy_http_version 1.1; proxy_set_header Connection \"\";
            location /get { proxy_method GET; proxy_pass http://kept; }
            location / { proxy_pass http://kept; }
         }",
    );
    // A GET was sent for a HEAD: what comes late is its body, and nobody else's answer.
    let mut client = site.client();
    client.send(b"HEAD /get/x HTTP/1.1\r\nHost: site.test\r\n\r\n").unwrap();
    let mut fetch = origin.accept().unwrap();
    assert!(fetch.request().unwrap().unwrap().request_line.starts_with("GET "));
    let late = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil";
    fetch.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", late.len()).as_bytes()).unwrap();
    assert_eq!(client.read_response("HEAD").unwrap().status, 200);
    let mut next = site.client();
    next.send(b"GET /next HTTP/1.1\r\nHost: site.test\r\n\r\n").unwrap();
    // The connection is not free before its body has come: the next request takes another.
    let mut other = origin.accept().unwrap();
    assert!(other.request().unwrap().unwrap().request_line.contains(" /next "));
    fetch.send(late.as_bytes()).unwrap();
    other.send(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngood").unwrap();
    assert_eq!(text(&next.read_response("GET").unwrap()), "good");
}

#[test]
fn a_connection_whose_answer_announces_a_body_that_may_not_come_is_not_kept() {
    let mut origin = HandOrigin::start().unwrap();
    let site = Setup::new().one_worker().name("ORIGIN", origin.address()).start(
        "upstream kept { server {ORIGIN}; keepalive 8; }
         server {
            listen 127.0.0.1:{PORT};
            location / { proxy_http_version 1.1; proxy_set_header Connection \"\"; proxy_pass http://kept; }
         }",
    );
    let mut client = site.client();
    for (method, answer) in [
        ("HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n"),
        ("HEAD", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"),
        ("GET", "HTTP/1.1 304 Not Modified\r\nContent-Length: 4\r\n\r\n"),
    ] {
        client.send(format!("{method} /a HTTP/1.1\r\nHost: site.test\r\n\r\n").as_bytes()).unwrap();
        let mut fetch = origin.accept().unwrap();
        fetch.request().unwrap().unwrap();
        fetch.send(answer.as_bytes()).unwrap();
        client.read_response(method).unwrap();
        // What comes late has nobody to go to.
        drop(fetch.send(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"));
        assert!(fetch.request().is_ok_and(|next| next.is_none()), "{method} {answer}: the connection is closed");
    }
    // One that announces nothing is kept.
    client.send(b"GET /a HTTP/1.1\r\nHost: site.test\r\n\r\n").unwrap();
    let mut fetch = origin.accept().unwrap();
    for _ in 0..2 {
        fetch.request().unwrap().unwrap();
        fetch.send(b"HTTP/1.1 304 Not Modified\r\n\r\n").unwrap();
        assert_eq!(client.read_response("GET").unwrap().status, 304);
        client.send(b"GET /a HTTP/1.1\r\nHost: site.test\r\n\r\n").unwrap();
    }
    fetch.request().unwrap().unwrap();
    fetch.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").unwrap();
    assert_eq!(text(&client.read_response("GET").unwrap()), "ok");
}

#[test]
fn origins_are_asked_by_http_1_1_and_kept_unless_told() {
    let origin = Origin::start().unwrap();
    origin.answer("*", Answer::ok("ok"));
    let site = Setup::new().one_worker().name("ORIGIN", origin.address()).start(
        "upstream kept { server {ORIGIN}; }
         upstream left { server {ORIGIN}; keepalive 0; }
         server {
            listen 127.0.0.1:{PORT};
            location /kept { proxy_pass http://kept; }
            location /left { proxy_pass http://left; }
            location /address { proxy_pass http://{ORIGIN}; }
            location /old { proxy_http_version 1.0; proxy_pass http://kept; }
         }",
    );
    for (target, version, connections) in
        [("/kept", "1.1", 1), ("/left", "1.1", 3), ("/address", "1.1", 3), ("/old", "1.0", 1)]
    {
        let before = origin.count();
        for _ in 0..3 {
            assert_eq!(site.get(target).status, 200);
        }
        let seen = &origin.requests()[before..];
        assert_eq!(seen[0].request_line, format!("GET {target} HTTP/{version}"));
        assert_eq!(seen[0].field("Connection"), None, "{target}");
        let made: std::collections::BTreeSet<_> = seen.iter().map(|seen| seen.connection).collect();
        // The answer decides: this origin answers HTTP/1.0 by HTTP/1.1, without `Connection: close`.
        assert_eq!(made.len(), connections, "{target}: {made:?}");
    }
}

/// Two servers, of which the first is the default; each says who it is, and what it thinks was asked for.
const EARLY: &str = "error_page 400 414 494 505 =200 /bad;
     server {
        listen 127.0.0.1:{PORT} {LISTEN};
        server_name first.test;
        location / { return 200 fine; }
        location = /bad { return 200 \"first|$host|$request_uri|\"; }
     }
     server {
        listen 127.0.0.1:{PORT} {LISTEN};
        server_name asked.test;
        location / { return 200 fine; }
        location = /bad { return 200 \"asked|$host|$request_uri|\"; }
     }";

/// A head with an early error, and who answers it with what.
fn early_errors() -> [(String, &'static str); 9] {
    let host = "Host: asked.test";
    [
        (format!("GET /%zz HTTP/1.1\r\n{host}\r\n"), "first|first.test||"),
        (format!("GET /%2e%2e/.. HTTP/1.1\r\n{host}\r\n"), "first|first.test||"),
        (format!("GET http://asked.test/%zz HTTP/1.1\r\n{host}\r\n"), "first|first.test||"),
        (format!("GET /{} HTTP/1.1\r\n{host}\r\n", "x".repeat(9000)), "first|first.test||"),
        (format!("GET /a HTTP/1.1\r\n{host}\r\nX: {}\r\n", "x".repeat(9000)), "asked|asked.test|/a|"),
        (format!("GET /a HTTP/1.1\r\nX: {}\r\n{host}\r\n", "x".repeat(9000)), "first|first.test|/a|"),
        (format!("GET /a HTTP/1.1\r\n{host}\r\nContent-Length: 1\r\nContent-Length: 1\r\n"), "asked|asked.test|/a|"),
        (format!("GET /a HTTP/1.1\r\n{host}\r\nX: a\0b\r\n"), "asked|asked.test|/a|"),
        ("GET http://asked.test/a HTTP/1.1\r\nX: a\0b\r\nHost: first.test\r\n".to_owned(), "asked|asked.test|/a|"),
    ]
}

#[test]
fn an_early_error_is_answered_by_the_server_that_is_known_by_then() {
    let site = Setup::new().name("LISTEN", "").start(EARLY);
    for (head, says) in early_errors() {
        let response = site.exchange("GET", format!("{head}\r\n"));
        assert_eq!(text(&response), says, "{}", &head[..head.len().min(80)]);
    }
}

#[test]
fn an_early_error_over_tls_is_answered_by_the_server_of_the_handshake() {
    let (authority, setup) = certified();
    let site = setup.name("LISTEN", "ssl").start(&format!("{{ONE}} {EARLY}"));
    for (name, first) in [("asked.test", "asked|asked.test"), ("other.test", "first|first.test")] {
        for (head, says) in early_errors() {
            let mut client = client(&site, &Tls::new(name, &authority).unchecked());
            client.send(format!("{head}\r\n").as_bytes()).unwrap();
            let response = client.read_response("GET").unwrap();
            let says = says.replace("first|first.test", first);
            assert_eq!(text(&response), says, "{name} {}", &head[..head.len().min(80)]);
        }
    }
}
