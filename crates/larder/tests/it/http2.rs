//! HTTP/2 as well-behaved clients speak it, over TLS and in the clear.

use std::net::TcpStream;
use std::time::{Duration, Instant};

use larder_testkit::{
    Answer, FastCgiOrigin, FastCgiReply, Frame, FrameKind, Framing, HandOrigin, Http2Client, Http2End, Http2Error,
    Http2Options, Http2Request, Origin, PATIENCE, RawEnd, RawHttp2, Signal, Tls,
};

use crate::relay::Relay;
use crate::site::{Setup, Site, cached, eventually, text};
use crate::tls::{certified, is_nginx};

/// `{ORIGIN}` by HTTP and `{FCGI}` by FastCGI, in the clear at `{PORT}` and with TLS at `{PORT2}`.
const SITE: &str = "
    proxy_cache_path {DIR}/pages keys_zone=pages:1m max_size=100m;
    server {
        listen 127.0.0.1:{PORT} http2;
        listen 127.0.0.1:{PORT2} ssl http2;
        {ONE}
        {MORE}
        location / { }
        location /says { return 200 '$request|$server_protocol|$scheme|$http2|$host|$request_method|$http_cookie'; }
        location /o/ { proxy_pass http://{ORIGIN}; proxy_http_version 1.1; }
        location /passed/ { proxy_pass http://{ORIGIN}; proxy_http_version 1.1; proxy_request_buffering off; proxy_buffering off; }
        location /stored/ {
            proxy_pass http://{ORIGIN};
            proxy_cache pages; proxy_cache_valid 200 1h; add_header X-Cache $upstream_cache_status;
        }
        location /f/ { fastcgi_pass {FCGI}; {PARAMS} }
    }";

/// Everything that a test may look at.
struct Parts {
    site: Site,
    origin: Origin,
    fcgi: FastCgiOrigin,
    tls: Tls,
}

fn parts(more: &str) -> Parts {
    parts_of(SITE, more, |setup| setup)
}

fn parts_of(http: &str, more: &str, add: impl FnOnce(Setup) -> Setup) -> Parts {
    let (authority, setup) = certified();
    let (origin, fcgi) = (Origin::start().unwrap(), FastCgiOrigin::start_tcp().unwrap());
    origin.answer("*", Answer::ok("ok"));
    fcgi.answer("*", FastCgiReply::html("ok"));
    let setup = setup.name("ORIGIN", origin.address()).name("FCGI", fcgi.address()).name("MORE", more);
    Parts { site: add(setup).start(http), origin, fcgi, tls: Tls::new("site.test", &authority) }
}

impl Parts {
    fn plain(&self) -> Http2Client {
        Http2Client::connect(self.site.setup().address()).unwrap()
    }

    fn safe(&self) -> Http2Client {
        Http2Client::connect_tls(self.site.setup().other_address(), &self.tls).unwrap()
    }

    /// A connection in the clear and one with TLS.
    fn both(&self) -> [(&'static str, Http2Client); 2] {
        [("http", self.plain()), ("https", self.safe())]
    }
}

/// Bytes that differ from place to place.
fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}

#[test]
fn a_request_reads_as_it_does_in_nginx() {
    let parts = parts("access_log access.log;");
    for (scheme, mut client) in parts.both() {
        let name = if scheme == "https" { "h2" } else { "h2c" };
        assert_eq!(client.tls().map(|facts| facts.alpn.as_str()), (scheme == "https").then_some("h2"));
        let request = Http2Request::get("/says?q").field("cookie", "a=1").field("cookie", "b=2");
        let said = client.exchange(&request).unwrap();
        assert_eq!(said.framing, Framing::Stream);
        assert_eq!(text(&said), format!("GET /says?q HTTP/2.0|HTTP/2.0|{scheme}|{name}|site.test|GET|a=1; b=2"));
        assert_eq!(said.field("content-length"), Some(said.body.len().to_string().as_str()));
        assert!(said.field("connection").is_none() && said.field("date").is_some() && said.field("server").is_some());
        let head = client.exchange(&Http2Request::get("/says").method("HEAD")).unwrap();
        assert_eq!((head.status, head.body.len()), (200, 0));
        assert_ne!(head.field("content-length"), Some("0"));
    }
    parts.site.wait_for_text("access.log", "\"GET /says?q HTTP/2.0\" 200");
}

#[test]
fn a_client_chooses_between_both_versions() {
    let parts = parts("");
    for (offered, chosen, said) in [
        (&["h2", "http/1.1"][..], "h2", ""),
        (&["http/1.1", "h2"], "h2", ""),
        (&["http/1.1"], "http/1.1", "GET /says HTTP/1.1|HTTP/1.1|https|"),
        (&[], "", "GET /says HTTP/1.1|HTTP/1.1|https|"),
    ] {
        let tls = parts.tls.clone().alpn(offered);
        let mut client = larder_testkit::Client::connect_tls(parts.site.setup().other_address(), &tls).unwrap();
        assert_eq!(client.tls().unwrap().alpn, chosen, "{offered:?}");
        if !said.is_empty() {
            assert!(text(&crate::site::get_on(&mut client, "/says")).starts_with(said), "{offered:?}");
        }
    }
    // Without `http2` on the listener it is not offered.
    let (authority, setup) = certified();
    let site = setup.start("server { listen 127.0.0.1:{PORT} ssl; {ONE} return 200 here; }");
    let tls = Tls::new("site.test", &authority).alpn(&["h2", "http/1.1"]);
    let client = larder_testkit::Client::connect_tls(site.setup().address(), &tls).unwrap();
    assert_eq!(client.tls().unwrap().alpn, "http/1.1");
}

#[test]
fn files_and_parts_of_them_come_as_over_http_1() {
    let large = pattern(3 << 20);
    let parts = parts_of(SITE, "", |setup| setup.file("www/large", &large).file("www/empty", ""));
    for (scheme, mut client) in parts.both() {
        let whole = client.get("/large").unwrap();
        assert!(whole.body == large, "{scheme}");
        let etag = whole.field("etag").unwrap().to_owned();
        for (request, status, wanted) in [
            (Http2Request::get("/large").field("range", "bytes=1000001-2000000"), 206, &large[1_000_001..=2_000_000]),
            (Http2Request::get("/large").field("if-none-match", &etag), 304, &[]),
            (Http2Request::get("/large").method("HEAD"), 200, &[]),
            (Http2Request::get("/empty"), 200, &[]),
        ] {
            let response = client.exchange(&request).unwrap();
            assert_eq!(response.status, status, "{scheme} {request:?}");
            assert!(response.body == wanted, "{scheme} {request:?}");
        }
        assert_eq!(client.get("/none").unwrap().status, 404);
        assert_eq!(client.exchange(&Http2Request::get("/empty").method("DELETE")).unwrap().status, 405);
    }
}

#[test]
fn uploads_reach_origins_whole_with_and_without_a_length() {
    let parts = parts("client_max_body_size 10m;");
    let large = pattern(3 << 20);
    for (scheme, mut client) in parts.both() {
        for body in [&large[..], b"small", b""] {
            for path in ["/o/p", "/passed/p", "/f/p"] {
                for has_length in [true, false] {
                    let case = format!("{scheme} {path} {} bytes, length told: {has_length}", body.len());
                    let mut request = Http2Request::get(path).method("POST").body(body);
                    if has_length {
                        request = request.field("content-length", &body.len().to_string());
                    }
                    let response = client.exchange(&request).unwrap_or_else(|error| panic!("{case}: {error}"));
                    assert_eq!((response.status, text(&response).as_str()), (200, "ok"), "{case}");
                    if path == "/f/p" {
                        let seen = parts.fcgi.requests().pop().unwrap();
                        assert!(seen.stdin == body, "{case}");
                        // nginx leaves the length of an empty body that was not told to itself.
                        if has_length || !body.is_empty() {
                            assert_eq!(seen.param("CONTENT_LENGTH"), Some(body.len().to_string().as_str()), "{case}");
                        }
                    } else {
                        let seen = parts.origin.requests().pop().unwrap();
                        assert!(seen.body == body, "{case}: {}", seen.body.len());
                        assert_eq!(seen.request_line, format!("POST {path} HTTP/1.1"), "{case}");
                    }
                }
            }
        }
    }
}

#[test]
fn an_upload_that_is_or_grows_too_large_is_refused() {
    let parts = parts("client_max_body_size 1k;");
    for (scheme, mut client) in parts.both() {
        let body = vec![b'a'; 5000];
        for request in [
            Http2Request::get("/o/p").method("POST").field("content-length", "5000").body(&body[..]),
            Http2Request::get("/o/p").method("POST").body(&body[..]),
        ] {
            let mut exchange = client.start_open(&request).unwrap();
            // The refusal may come before the body is out.
            drop(exchange.send(&body, true));
            assert_eq!(exchange.head().unwrap().status, 413, "{scheme} {request:?}");
        }
        assert_eq!(client.get("/says").unwrap().status, 200, "{scheme}: the connection goes on");
    }
    assert_eq!(parts.origin.count(), 0);
}

#[test]
fn streams_are_answered_as_they_are_ready() {
    let parts = parts("");
    for (number, (scheme, mut client)) in parts.both().into_iter().enumerate() {
        let hold = parts.origin.hold("/o/slow");
        let mut slow = client.start(&Http2Request::get("/o/slow")).unwrap();
        let asked = parts.origin.count();
        let many: Vec<_> =
            (0..100).map(|number| client.start(&Http2Request::get(&format!("/says?{number}"))).unwrap()).collect();
        for (number, exchange) in many.into_iter().enumerate() {
            let response = exchange.finish().unwrap();
            assert!(text(&response).starts_with(&format!("GET /says?{number} ")), "{scheme}");
        }
        assert!(parts.origin.wait_for(asked.max(number * 2 + 1)));
        hold.release();
        assert_eq!(slow.head().unwrap().status, 200);
        assert_eq!(text(&slow.finish().unwrap()), "ok");
        // One after the other, far more than may be open at once.
        for number in 0..500 {
            assert_eq!(client.get(&format!("/says?{number}")).unwrap().status, 200, "{scheme}");
        }
        assert_eq!(client.get("/o/more").unwrap().status, 200);
    }
}

#[test]
fn large_bodies_pass_through_small_windows_side_by_side() {
    let large = pattern(1 << 20);
    let parts = parts_of(SITE, "", |setup| setup.file("www/large", &large));
    parts.origin.answer("*", Answer::ok(large.clone()));
    for tls in [None, Some(&parts.tls)] {
        let setup = parts.site.setup();
        let address = if tls.is_some() { setup.other_address() } else { setup.address() };
        let options = Http2Options { stream_window_bytes: 3000, connection_window_bytes: 65_535 };
        let mut client = Http2Client::connect_with(address, tls, options).unwrap();
        let targets = ["/large", "/o/large", "/stored/large", "/passed/large", "/stored/large"];
        let mut exchanges: Vec<_> =
            targets.iter().map(|target| (client.start(&Http2Request::get(target)).unwrap(), Vec::new())).collect();
        // In turns, so that all of them are under way.
        let mut open = exchanges.len();
        let mut turns = 0;
        while open > 0 {
            open = 0;
            for (exchange, body) in &mut exchanges {
                if let Some(piece) = exchange.piece().unwrap() {
                    body.extend_from_slice(&piece);
                    open += 1;
                }
            }
            turns += 1;
            assert!(turns < 100_000, "the bodies end");
        }
        for ((_, body), target) in exchanges.iter().zip(targets) {
            assert!(*body == large, "{target}: {} bytes", body.len());
        }
    }
}

#[test]
fn who_does_not_read_stops_its_own_stream_alone() {
    let large = pattern(4 << 20);
    let parts = parts_of(SITE, "", |setup| setup.file("www/large", &large));
    for (scheme, mut client) in parts.both() {
        let mut stuck = client.start(&Http2Request::get("/large")).unwrap();
        stuck.piece_kept().unwrap();
        for number in 0..20 {
            assert_eq!(client.get(&format!("/says?{number}")).unwrap().status, 200, "{scheme}");
        }
        // What was given up makes no noise.
        stuck.cancel();
        assert!(client.get("/large").unwrap().body == large, "{scheme}");
    }
}

#[test]
fn pages_are_stored_and_hit_as_over_http_1() {
    let parts = parts("");
    parts.origin.answer("*", Answer::ok("page").field("Connection", "keep-alive").field("Keep-Alive", "timeout=5"));
    let mut plain = larder_testkit::Client::connect_tls(parts.site.setup().other_address(), &parts.tls).unwrap();
    assert_eq!(cached(&crate::site::get_on(&mut plain, "/stored/p")), "MISS");
    for (scheme, mut client) in parts.both() {
        let mut hit = client.get("/stored/p").unwrap();
        eventually("the page", || {
            hit = client.get("/stored/p").unwrap();
            cached(&hit) == "HIT"
        });
        assert_eq!(
            (hit.status, text(&hit).as_str(), hit.field("content-length")),
            (200, "page", Some("4")),
            "{scheme}"
        );
        assert!(hit.fields.iter().all(|(name, _)| *name == name.to_ascii_lowercase()), "{:?}", hit.fields);
        for field in ["connection", "keep-alive", "transfer-encoding", "proxy-connection", "upgrade"] {
            assert_eq!(hit.field(field), None, "{scheme} {field}");
        }
    }
    // nginx may have made the page more than once, as it has no lock here.
    assert!(parts.origin.count() <= 2);
}

#[test]
fn trailers_follow_the_body() {
    let parts = parts("add_trailer X-Sum $sent_http_content_type; add_trailer X-More yes;");
    for (scheme, mut client) in parts.both() {
        for target in ["/says", "/o/p", "/f/p"] {
            let response = client.get(target).unwrap();
            let names: Vec<&str> = response.trailers.iter().map(|(name, _)| name.as_str()).collect();
            let wanted: &[&str] =
                if response.field("content-type").is_some() { &["x-sum", "x-more"] } else { &["x-more"] };
            assert_eq!(names, wanted, "{scheme} {target}");
        }
    }
}

#[test]
fn an_origin_that_streams_is_heard_as_it_speaks() {
    let (authority, setup) = certified();
    let mut origin = HandOrigin::start().unwrap();
    let site = setup.name("ORIGIN", origin.address()).start(
        "server { listen 127.0.0.1:{PORT} ssl http2; {ONE}
            location / { proxy_pass http://{ORIGIN}; proxy_http_version 1.1; proxy_buffering off; proxy_read_timeout 1m; } }",
    );
    let mut client = Http2Client::connect_tls(site.setup().address(), &Tls::new("site.test", &authority)).unwrap();
    let mut exchange = client.start(&Http2Request::get("/events")).unwrap();
    let mut events = origin.accept().unwrap();
    events.request().unwrap().unwrap();
    events.send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n").unwrap();
    // nginx keeps a head until something follows it.
    if !is_nginx() {
        let head = exchange.head().unwrap();
        assert_eq!((head.status, head.field("transfer-encoding")), (200, None));
    }
    for number in 0..5 {
        events.send(format!("9\r\ndata: {number}\n\n\r\n")).unwrap();
        let mut said = Vec::new();
        while said.len() < 9 {
            said.extend(exchange.piece().unwrap().expect("the stream goes on"));
        }
        assert_eq!(said, format!("data: {number}\n\n").into_bytes());
    }
    // The client has heard enough: so has the origin.
    exchange.cancel();
    assert_eq!(events.read_bytes(1).unwrap_or_default(), b"", "the connection to the origin ends");
}

#[test]
fn a_response_that_breaks_off_is_not_taken_for_whole() {
    let mut origin = HandOrigin::start().unwrap();
    let site = Setup::new().name("ORIGIN", origin.address()).start(
        "server { listen 127.0.0.1:{PORT} http2; location / { proxy_pass http://{ORIGIN}; proxy_buffering off; }
                  location /here { return 200 here; } }",
    );
    let mut client = Http2Client::connect(site.setup().address()).unwrap();
    let mut exchange = client.start(&Http2Request::get("/p")).unwrap();
    let mut fetch = origin.accept().unwrap();
    fetch.request().unwrap().unwrap();
    fetch.send("HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nhalf").unwrap();
    assert_eq!(exchange.head().unwrap().status, 200);
    assert_eq!(exchange.piece().unwrap(), Some(b"half".to_vec()));
    drop(fetch);
    assert!(matches!(exchange.piece(), Err(Http2Error::Reset(_))), "a reset says that it is not whole");
    assert_eq!(text(&client.get("/here").unwrap()), "here", "and other streams go on");
}

#[test]
fn heads_that_are_too_large_or_wrong_are_refused_each_in_its_way() {
    let parts = parts("large_client_header_buffers 2 1k;");
    let long = "a".repeat(3000);
    let many = (0..60)
        .fold(Http2Request::get("/says"), |request, number| request.field(&format!("x-{number}"), &"v".repeat(60)));
    for (request, wanted) in [
        (Http2Request::get(&format!("/{long}")), &[414][..]),
        (Http2Request::get("/says").field("x-a", &long), &[400, 431]),
        (many, &[400, 431]),
        (Http2Request::get("/%zz"), &[400]),
        (Http2Request::get("/../../x"), &[400]),
        (Http2Request::get("/says").authority("a..b"), &[400]),
    ] {
        for (scheme, mut client) in parts.both() {
            let short = format!("{scheme} {:.20} {}", request.target, request.fields.len());
            match client.exchange(&request) {
                Ok(response) => assert!(wanted.contains(&response.status), "{short}: {}", response.status),
                // nginx ends the connection over one field that is too large, with ENHANCE_YOUR_CALM.
                Err(_) => assert_eq!(client.wait_for_end(), Some(Http2End::Code(11)), "{short}"),
            }
        }
    }
    // As much as fits is taken.
    let enough = (0..20)
        .fold(Http2Request::get("/says"), |request, number| request.field(&format!("x-{number}"), &"v".repeat(40)));
    for (scheme, mut client) in parts.both() {
        assert_eq!(client.exchange(&enough).unwrap().status, 200, "{scheme}");
        assert_eq!(client.get(&format!("/says?{}", "a".repeat(900))).unwrap().status, 200, "{scheme}");
    }
}

#[test]
fn a_connection_ends_gracefully_after_as_many_requests_as_told() {
    let parts = parts("keepalive_requests 5;");
    for (scheme, mut client) in parts.both() {
        let mut answered = 0;
        while let Ok(response) = client.get("/says") {
            assert_eq!(response.status, 200, "{scheme}");
            answered += 1;
            assert!(answered < 20, "{scheme}: a GOAWAY comes");
        }
        assert!((4..=6).contains(&answered), "{scheme}: {answered}");
        assert_eq!(client.wait_for_end(), Some(Http2End::Graceful), "{scheme}");
    }
}

#[test]
fn a_connection_that_idles_is_told_to_go() {
    let parts = parts("keepalive_timeout 300ms;");
    for (scheme, mut client) in parts.both() {
        client.get("/says").unwrap();
        assert_eq!(client.wait_for_end(), Some(Http2End::Graceful), "{scheme}");
    }
}

#[test]
fn a_graceful_stop_finishes_the_streams_under_way() {
    let mut origin = HandOrigin::start().unwrap();
    let (authority, setup) = certified();
    let mut site = setup
        .name("ORIGIN", origin.address())
        .start("server { listen 127.0.0.1:{PORT} ssl http2; {ONE} location / { proxy_pass http://{ORIGIN}; } }");
    let tls = Tls::new("site.test", &authority);
    let mut client = Http2Client::connect_tls(site.setup().address(), &tls).unwrap();
    let exchange = client.start(&Http2Request::get("/p")).unwrap();
    let mut fetch = origin.accept().unwrap();
    fetch.request().unwrap().unwrap();
    let idle = Http2Client::connect_tls(site.setup().address(), &tls).unwrap();
    site.signal(Signal::Quit);
    eventually("no more to be let in", || TcpStream::connect(site.setup().address()).is_err());
    assert_eq!(idle.wait_for_end(), Some(Http2End::Graceful));
    fetch.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nlast").unwrap();
    assert_eq!(text(&exchange.finish().unwrap()), "last");
    assert_eq!(client.wait_for_end(), Some(Http2End::Graceful));
    assert!(site.server_mut().wait().is_some_and(|status| status.success()));
}

#[test]
fn a_reload_finishes_the_streams_under_way_and_new_ones_are_of_the_new_configuration() {
    let mut origin = HandOrigin::start().unwrap();
    let http = "server { listen 127.0.0.1:{PORT} http2; location / { proxy_pass http://{ORIGIN}; }
                location /says { return 200 {LABEL}; } }";
    let site = Setup::new().name("ORIGIN", origin.address()).start(&http.replace("{LABEL}", "old"));
    let mut client = Http2Client::connect(site.setup().address()).unwrap();
    assert_eq!(text(&client.get("/says").unwrap()), "old");
    let exchange = client.start(&Http2Request::get("/p")).unwrap();
    let mut fetch = origin.accept().unwrap();
    fetch.request().unwrap().unwrap();
    site.setup().configure(&http.replace("{LABEL}", "new"));
    site.signal(Signal::Hup);
    eventually("the new configuration", || {
        let mut client = Http2Client::connect(site.setup().address()).unwrap();
        client.get("/says").is_ok_and(|response| text(&response) == "new")
    });
    fetch.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nlast").unwrap();
    assert_eq!(text(&exchange.finish().unwrap()), "last");
    // The old connection says goodbye, or serves on by the new configuration; nginx may not have come to either.
    if let Ok(response) = client.get("/says") {
        assert!(is_nginx() || text(&response) == "new");
    }
}

#[test]
fn a_client_that_gives_up_is_logged_as_such_and_leaves_the_others_alone() {
    let parts = parts("access_log access.log; proxy_ignore_client_abort off;");
    let hold = parts.origin.hold("/o/slow");
    let mut client = parts.safe();
    let slow = client.start(&Http2Request::get("/o/slow")).unwrap();
    assert!(parts.origin.wait_for(1));
    slow.cancel();
    assert_eq!(client.get("/says").unwrap().status, 200);
    parts.site.wait_for_text("access.log", "\"GET /o/slow HTTP/2.0\" 499");
    hold.release();
    assert_eq!(client.get("/o/p").unwrap().status, 200);
}

#[test]
fn expecting_to_be_told_to_go_on_is_no_reason_to_wait() {
    let parts = parts("");
    for (scheme, mut client) in parts.both() {
        let request = Http2Request::get("/o/p").method("POST").field("expect", "100-continue").body("body");
        assert_eq!(client.exchange(&request).unwrap().status, 200, "{scheme}");
        assert_eq!(parts.origin.requests().pop().unwrap().body, b"body", "{scheme}");
    }
}

#[test]
fn a_head_may_have_more_fields_than_a_frame_holds() {
    let parts = parts("large_client_header_buffers 8 32k;");
    let many: Vec<(String, String)> = (0..300).map(|number| (format!("x-{number}"), "v".repeat(100))).collect();
    let answer = many.iter().fold(Answer::ok("ok"), |answer, (name, value)| answer.field(name, value));
    parts.origin.answer("/o/many", answer);
    for (scheme, mut client) in parts.both() {
        let request = many.iter().fold(Http2Request::get("/o/p"), |request, (name, value)| request.field(name, value));
        assert_eq!(client.exchange(&request).unwrap().status, 200, "{scheme}");
        assert_eq!(parts.origin.requests().pop().unwrap().field("x-299").map(str::len), Some(100), "{scheme}");
    }
    // What comes back needs room in the origin's buffer too.
    let site = Setup::new().name("ORIGIN", parts.origin.address()).start(
        "server { listen 127.0.0.1:{PORT} http2;
            location / { proxy_pass http://{ORIGIN}; proxy_buffer_size 64k; proxy_buffers 8 64k; proxy_busy_buffers_size 64k; } }",
    );
    let mut client = Http2Client::connect(site.setup().address()).unwrap();
    let response = client.get("/o/many").unwrap();
    assert_eq!((response.status, response.field("x-299").map(str::len)), (200, Some(100)));
}

#[test]
fn who_speaks_http_1_where_http_2_is_also_spoken_in_the_clear_is_served_or_told() {
    let parts = parts("");
    let mut raw = RawHttp2::connect(parts.site.setup().address()).unwrap();
    raw.send(b"GET /says HTTP/1.1\r\nHost: site.test\r\nConnection: close\r\n\r\n").unwrap();
    let said = raw.read_text();
    // nginx before 1.25.1 took the port for HTTP/2 alone.
    if !is_nginx() {
        assert!(said.starts_with("HTTP/1.1 200 OK\r\n"), "{said}");
    }
    assert_eq!(parts.plain().get("/says").unwrap().status, 200);
}

#[test]
fn a_client_that_stops_reading_for_good_is_let_go() {
    let large = pattern(4 << 20);
    let parts = parts_of(SITE, "send_timeout 1s;", |setup| setup.file("www/large", &large));
    for (scheme, mut client) in parts.both() {
        let mut stuck = client.start(&Http2Request::get("/large")).unwrap();
        stuck.piece_kept().unwrap();
        // The window stays shut: the stream is given up, or the connection with it.
        let started = std::time::Instant::now();
        let end = loop {
            match stuck.piece_kept() {
                Ok(Some(_)) => {}
                Ok(None) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        assert!(end.is_err() && started.elapsed() < PATIENCE, "{scheme}: {end:?}");
    }
}

#[test]
fn equal_streams_take_turns_where_the_reader_is_slow() {
    /// How much is read of both pages together.
    const READ: usize = 3 << 20;
    // nginx sends a page from its cache in one go.
    if is_nginx() {
        return;
    }
    let parts = parts("");
    parts.origin.answer("*", Answer::ok(pattern(4 << 20)));
    for target in ["/stored/one", "/stored/two"] {
        eventually("the page", || cached(&parts.plain().get(target).unwrap()) == "HIT");
    }
    let mut raw = RawHttp2::open(parts.site.setup().address(), &[(4, 0x7fff_ffff)]).unwrap();
    raw.send_frame(&Frame::window_update(0, 0x7fff_0000)).unwrap();
    // In one piece: a page that is asked for first alone may be in the sockets before the other is asked for.
    let both = [(1, "/stored/one"), (3, "/stored/two")].map(|(stream, target)| Frame::get(stream, target).to_bytes());
    raw.send(&both.concat()).unwrap();
    let mut got = [0, 0];
    while got.iter().sum::<usize>() < READ {
        let frame = raw.read_frame().unwrap().expect("a frame");
        assert_ne!(frame.kind, FrameKind::Reset, "{got:?}");
        if frame.kind == FrameKind::Data {
            got[usize::from(frame.stream == 3)] += frame.payload.len();
            // The reader is what everything waits for.
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
    }
    assert!(got.iter().all(|bytes| *bytes >= READ / 3), "{got:?}");
}

#[test]
fn a_reader_that_is_slow_is_served_on_and_one_that_takes_nothing_is_let_go() {
    /// How long it goes on: several times the patience of the server.
    const TIME: Duration = Duration::from_secs(7);
    let large = pattern(4 << 20);
    let http = SITE.replace(" http2;", " http2 sndbuf=16k;");
    let parts = parts_of(&http, "send_timeout 2s;", |setup| setup.file("www/large", &large));
    // The kernel reports room in pieces of some 16 KB: several of them have to come while it waits.
    for (is_tls, rate, is_served) in [(false, 60_000, true), (true, 60_000, true), (false, 0, false), (true, 0, false)]
    {
        let setup = parts.site.setup();
        let relay = Relay::start(if is_tls { setup.other_address() } else { setup.address() });
        let raw = if is_tls {
            RawHttp2::connect_tls(relay.address(), &parts.tls)
        } else {
            RawHttp2::connect(relay.address())
        };
        let mut raw = raw.unwrap();
        raw.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").unwrap();
        raw.send_frame(&Frame::settings(&[(4, 0x7fff_ffff)])).unwrap();
        raw.send_frame(&Frame::window_update(0, 0x7fff_0000)).unwrap();
        relay.set_rate(rate);
        raw.send_frame(&Frame::get(1, "/large")).unwrap();
        let started = Instant::now();
        if is_served {
            let mut body = Vec::new();
            while started.elapsed() < TIME {
                let frame = raw.read_frame().unwrap().expect("it goes on");
                assert_ne!(frame.kind, FrameKind::Reset, "after {:?}", started.elapsed());
                if frame.kind == FrameKind::Data {
                    body.extend_from_slice(&frame.payload);
                }
            }
            assert!(body.len() < large.len() / 2, "it was slow: {}", body.len());
            relay.set_rate(usize::MAX);
            body.extend_from_slice(&raw.answer(1).unwrap().body);
            assert!(body == large, "{}", body.len());
        } else {
            // Time itself is what is tested.
            std::thread::sleep(TIME);
            relay.set_rate(usize::MAX);
            // What the sockets held is all that still comes.
            assert_ne!(raw.end_within(PATIENCE), RawEnd::Open, "with TLS: {is_tls}");
            assert!(relay.passed() < large.len() / 2, "{}", relay.passed());
        }
    }
}
