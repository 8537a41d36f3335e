//! A VCL in front of a location: what each of its subs decides, seen from both ends.

use std::time::{Duration, Instant};

use larder_testkit::{Answer, Origin, Response};

use crate::site::{Setup, Site, eventually, text};

/// A location in front of `{ORIGIN}`, with a VCL before it.
const SITE: &str = "
    proxy_cache_path {DIR}/pages keys_zone=pages:1m;
    access_log off;
    server {
        listen 127.0.0.1:{PORT};
        vcl {DIR}/site.vcl;
        {MORE}
        location / { proxy_pass http://{ORIGIN}; proxy_cache pages; }
    }";

/// A site whose VCL has these subs.
fn site(origin: &Origin, subs: &str) -> Site {
    with(origin, subs, "")
}

fn with(origin: &Origin, subs: &str, more: &str) -> Site {
    Setup::new()
        .one_worker()
        .name("ORIGIN", origin.address())
        .name("MORE", more)
        .file("site.vcl", format!("vcl 4.1;\nimport std;\n{subs}"))
        .start(SITE)
}

/// Status, a field of the response, and the body.
fn shown(response: &Response, field: &str) -> String {
    format!("{} {} {}", response.status, response.field(field).unwrap_or("-"), text(response))
}

#[test]
fn what_a_sub_returns_decides_about_the_request() {
    for (subs, requests) in [
        // A page is kept for two minutes, as Varnish keeps one that says nothing.
        ("sub vcl_deliver { set resp.http.X = obj.hits; }", &[("/", "", "200 0 page"), ("/", "", "200 1 page")][..]),
        // Who has a cookie is passed, by the builtin VCL.
        ("sub vcl_deliver { set resp.http.X = obj.hits; }", &[("/", "Cookie: a=b\r\n", "200 0 page"); 2]),
        (
            "sub vcl_recv { return (synth(404, \"Not here\")); } sub vcl_synth { set resp.http.X = resp.reason; set resp.body = \"b\"; return (deliver); }",
            &[("/", "", "404 Not here b")],
        ),
        (
            "sub vcl_recv { if (req.restarts == 0) { set req.url = \"/other\"; return (restart); } } sub vcl_deliver { set resp.http.X = req.restarts; }",
            &[("/", "", "200 1 other")],
        ),
        (
            "sub vcl_recv { return (restart); } sub vcl_synth { set resp.http.X = req.restarts; set resp.body = \"b\"; return (deliver); }",
            &[("/", "", "503 5 b")],
        ),
        // Another host is another page; a hash of its own makes them one.
        (
            "sub vcl_hash { hash_data(\"one\"); return (lookup); } sub vcl_deliver { set resp.http.X = obj.hits; }",
            &[("/", "", "200 0 page"), ("/other", "", "200 1 page")],
        ),
        (
            "sub vcl_hit { return (pass); } sub vcl_deliver { set resp.http.X = obj.hits; }",
            &[("/", "", "200 0 page"), ("/", "", "200 0 page")],
        ),
        (
            "sub vcl_miss { return (synth(410)); } sub vcl_synth { set resp.http.X = resp.reason; set resp.body = \"b\"; return (deliver); }",
            &[("/", "", "410 Gone b")],
        ),
        (
            "sub vcl_deliver { if (req.restarts < 1) { return (restart); } set resp.http.X = req.restarts; }",
            &[("/", "", "200 1 page")],
        ),
        (
            "sub vcl_recv { return (fail(\"broken\")); } sub vcl_synth { set resp.http.X = resp.reason; set resp.body = \"b\"; return (deliver); }",
            &[("/", "", "503 VCL failed b")],
        ),
        // What is changed of the request is what the origin is asked.
        (
            "sub vcl_recv { set req.url = regsub(req.url, \"^/x\", \"/other\"); } sub vcl_deliver { set resp.http.X = req.url; }",
            &[("/x", "", "200 /other other")],
        ),
        (
            "sub vcl_backend_response { set beresp.http.X = beresp.ttl + \" \" + beresp.grace; }",
            &[("/", "", "200 120.000 10.000 page")],
        ),
        (
            "sub vcl_backend_response { if (bereq.retries == 0) { set bereq.url = \"/other\"; return (retry); } set beresp.http.X = bereq.retries; }",
            &[("/", "", "200 1 other")],
        ),
        (
            "sub vcl_backend_response { return (error(418, \"No\")); } sub vcl_backend_error { set beresp.http.X = beresp.reason; set beresp.body = \"b\"; return (deliver); }",
            &[("/", "", "418 No b")],
        ),
        (
            "sub vcl_backend_fetch { return (abandon); } sub vcl_synth { set resp.http.X = resp.reason; set resp.body = \"b\"; return (deliver); }",
            &[("/", "", "503 Service Unavailable b")],
        ),
        // Neither shared nor waited for.
        (
            "sub vcl_backend_response { set beresp.uncacheable = true; } sub vcl_deliver { set resp.http.X = obj.hits + \" \" + req.is_hitmiss; }",
            &[("/", "", "200 0 false page"), ("/", "", "200 0 true page")],
        ),
        (
            "sub vcl_backend_response { return (pass(10s)); } sub vcl_deliver { set resp.http.X = obj.hits + \" \" + req.is_hitpass; }",
            &[("/", "", "200 0 false page"), ("/", "", "200 0 true page")],
        ),
        (
            "sub vcl_recv { set req.http.X-In = \"a\" + req.method; } sub vcl_deliver { set resp.http.X = req.http.X-In + std.toupper(req.http.host); }",
            &[("/", "", "200 aGETSITE.TEST page")],
        ),
    ] {
        let origin = Origin::start().expect("a port is free");
        origin.answer("/", Answer::ok("page"));
        origin.answer("/other", Answer::ok("other"));
        let site = site(&origin, subs);
        for (at, (path, fields, expected)) in requests.iter().enumerate() {
            let response = site.ask("GET", path, fields);
            assert_eq!(shown(&response, "X"), *expected, "request {at} of {subs}");
        }
    }
}

#[test]
fn a_stale_page_is_delivered_while_it_is_fetched() {
    let origin = Origin::start().expect("a port is free");
    origin.answer("/", Answer::ok("old"));
    origin.answer_then("/", Answer::ok("new"));
    let site = site(
        &origin,
        "sub vcl_backend_response { set beresp.ttl = 1ms; set beresp.grace = 1h; set beresp.http.X = bereq.is_bgfetch; }",
    );
    assert_eq!(shown(&site.get("/"), "X"), "200 false old");
    std::thread::sleep(std::time::Duration::from_millis(20));
    assert_eq!(shown(&site.get("/"), "X"), "200 false old", "nobody waits for an expired page in its grace");
    eventually("the page is fetched in the background", || shown(&site.get("/"), "X") == "200 true new");
}

#[test]
fn a_page_without_grace_is_asked_for_by_its_tag() {
    let origin = Origin::start().expect("a port is free");
    origin.answer("/", Answer::ok("page").field("ETag", "\"1\""));
    origin.answer_then("/", Answer::status("304 Not Modified").field("ETag", "\"1\"").field("X-New", "1"));
    let site = site(
        &origin,
        "sub vcl_backend_response { set beresp.ttl = 1ms; set beresp.grace = 0s; set beresp.keep = 1h;
                                    set beresp.http.X = beresp.was_304 + beresp.http.X-New; }",
    );
    assert_eq!(shown(&site.get("/"), "X"), "200 false page");
    std::thread::sleep(std::time::Duration::from_millis(20));
    assert_eq!(
        shown(&site.get("/"), "X"),
        "200 true1 page",
        "with the body that is there and the fields of the answer"
    );
    let asked = origin.requests();
    assert_eq!(asked[1].field("If-None-Match"), Some("\"1\""));
}

#[test]
fn a_purge_drops_the_page_of_every_form() {
    let origin = Origin::start().expect("a port is free");
    origin.answer("/", Answer::ok("page").field("Vary", "X-Kind"));
    let site = site(&origin, "sub vcl_recv { if (req.method == \"PURGE\") { return (purge); } }");
    for kind in ["a", "b", "a", "b"] {
        site.ask("GET", "/", &format!("X-Kind: {kind}\r\n"));
    }
    assert_eq!(origin.count(), 2);
    let purged = site.ask("PURGE", "/", "");
    assert_eq!(purged.status_line, "HTTP/1.1 200 Purged");
    for kind in ["a", "b"] {
        site.ask("GET", "/", &format!("X-Kind: {kind}\r\n"));
    }
    assert_eq!(origin.count(), 4);
}

#[test]
fn what_the_client_has_already_is_not_sent_again() {
    let origin = Origin::start().expect("a port is free");
    origin.answer("/", Answer::ok("page").field("ETag", "\"1\""));
    let site = site(&origin, "sub vcl_deliver { if (req.http.X-Other) { set resp.http.ETag = \"W/2\"; } }");
    site.get("/");
    for (fields, status) in [
        ("If-None-Match: \"1\"\r\n", 304),
        ("If-None-Match: W/\"1\"\r\n", 304),
        ("If-None-Match: \"2\"\r\n", 200),
        // What vcl_deliver has made of the tag counts.
        ("If-None-Match: \"1\"\r\nX-Other: 1\r\n", 200),
    ] {
        assert_eq!(site.ask("GET", "/", fields).status, status, "{fields}");
    }
}

#[test]
fn a_body_is_packed_once_and_unpacked_for_who_does_not_take_it() {
    let origin = Origin::start().expect("a port is free");
    let page = "hello ".repeat(100);
    origin.answer("/", Answer::ok(page.clone()).field("ETag", "\"1\""));
    let site = site(&origin, "sub vcl_backend_response { set beresp.do_gzip = true; }");
    let packed = site.ask("GET", "/", "Accept-Encoding: gzip\r\n");
    assert_eq!((packed.field("Content-Encoding"), packed.field("ETag")), (Some("gzip"), Some("W/\"1\"")));
    assert!(packed.body.len() < page.len() / 4);
    let plain = site.ask("GET", "/", "");
    assert_eq!((plain.field("Content-Encoding"), text(&plain)), (None, page));
    assert_eq!(origin.count(), 1);
}

#[test]
fn a_post_is_passed_with_its_body_and_what_the_subs_say() {
    let origin = Origin::start().expect("a port is free");
    origin.answer("/form", Answer::ok("thanks"));
    let site = site(&origin, "sub vcl_backend_fetch { set bereq.http.X-Length = bereq.http.Content-Length; }");
    let request = "POST /form HTTP/1.1\r\nHost: a\r\nContent-Length: 7\r\n\r\na=1&b=2";
    assert_eq!(text(&site.exchange("POST", request)), "thanks");
    let asked = &origin.requests()[0];
    assert_eq!((&asked.body[..], asked.field("X-Length")), (&b"a=1&b=2"[..], Some("7")));
}

#[test]
fn what_cannot_be_evaluated_lets_nobody_through() {
    let origin = Origin::start().expect("a port is free");
    origin.answer("/", Answer::ok("page"));
    for subs in [
        // A line break in a header would be two.
        "import blob; sub vcl_recv { set req.http.X = blob.encode(blob = blob.decode(HEX, encoded = \"610d0a62\")); }",
        "sub vcl_recv { set req.http.X = 1 / std.integer(req.http.Nothing, 0); }",
        "sub vcl_recv { if (req.url ~ \"^(/+)+$\") { return (pass); } }",
    ] {
        let site = site(&origin, subs);
        let path = "/".repeat(4000) + "!";
        let response = site.ask("GET", &path, "");
        assert_eq!(response.status_line, "HTTP/1.1 503 VCL failed", "{subs}");
        assert!(!response.keeps_connection());
        site.wait_for_log("VCL failed in vcl_recv: ");
    }
    assert_eq!(origin.count(), 0);
}

#[test]
fn a_backend_of_the_vcl_and_the_location_itself_are_asked_by_name() {
    let (own, other) = (Origin::start().expect("a port is free"), Origin::start().expect("a port is free"));
    own.answer("/", Answer::ok("own"));
    own.answer("/other", Answer::ok("own"));
    other.answer("/other", Answer::ok("other"));
    let subs = format!(
        "backend other {{ .host = \"{}\"; .port = \"{}\"; .host_header = \"back.example\"; }}
         sub vcl_recv {{ if (req.url == \"/other\") {{ set req.backend_hint = other; }} }}
         sub vcl_backend_fetch {{ unset bereq.http.Host; }}
         sub vcl_backend_response {{ set beresp.http.X = beresp.backend.name; }}",
        other.address().ip(),
        other.address().port()
    );
    let site = site(&own, &subs);
    assert_eq!(text(&site.get("/")), "own");
    assert_eq!(shown(&site.get("/other"), "X"), "200 other other");
    let asked = &other.requests()[0];
    assert_eq!((asked.request_line.as_str(), asked.field("Host")), ("GET /other HTTP/1.1", Some("back.example")));
}

#[test]
fn a_vcl_that_is_wrong_never_replaces_one_that_runs() {
    let origin = Origin::start().expect("a port is free");
    origin.answer("/", Answer::ok("page"));
    let site = site(&origin, "sub vcl_deliver { set resp.http.X = \"one\"; }");
    assert_eq!(shown(&site.get("/"), "X"), "200 one page");
    let file = site.setup().path("site.vcl");
    std::fs::write(&file, "vcl 4.1;\nsub vcl_deliver { set resp.htp.X = \"two\"; }\n").expect("it can be written");
    site.signal(larder_testkit::Signal::Hup);
    site.wait_for_log("there is no \"resp.htp.X\"");
    assert_eq!(shown(&site.get("/"), "X"), "200 one page");
    std::fs::write(&file, "vcl 4.1;\nsub vcl_deliver { set resp.http.X = \"two\"; }\n").expect("it can be written");
    site.reload();
    assert_eq!(shown(&site.get("/"), "X"), "200 two page");
}

#[test]
fn parameters_are_those_of_varnishd() {
    let origin = Origin::start().expect("a port is free");
    origin.answer("/", Answer::ok("page"));
    let site = with(
        &origin,
        "sub vcl_backend_response { set beresp.http.X = beresp.ttl + \" \" + beresp.grace + \" \" + param.max_restarts; }",
        "vcl_parameter default_ttl 5m; vcl_parameter default_grace 1h; vcl_parameter max_restarts 7;",
    );
    assert_eq!(shown(&site.get("/"), "X"), "200 300.000 3600.000 7 page");
}

#[test]
fn a_first_line_that_is_none_is_a_failure() {
    let origin = Origin::start().expect("a port is free");
    origin.answer("/", Answer::ok("page"));
    for set in [
        "sub vcl_recv { set req.method = req.http.X-None; }",
        "sub vcl_recv { set req.method = \"GET /admin\"; }",
        "sub vcl_recv { set req.url = req.http.X-None; }",
        "sub vcl_backend_fetch { set bereq.method = \"\"; }",
        "sub vcl_backend_fetch { set bereq.url = \"\"; }",
        "sub vcl_backend_response { set beresp.reason = {\"a\nb\"}; }",
        "sub vcl_deliver { set resp.reason = \"\"; }",
        "sub vcl_recv { return (synth(200, {\"a\nb\"})); }",
    ] {
        let site = with(&origin, set, "");
        let response = site.get("/");
        assert_eq!(response.status, 503, "{set}");
    }
}

#[test]
fn connection_of_an_answer_takes_nothing_away_that_tells_who_may_share_it() {
    let origin = Origin::start().expect("a port is free");
    let named = Answer::ok("page").field("Cache-Control", "max-age=60").field("Vary", "X-A").field("X-Hop", "here");
    origin.answer("/", named.field("Connection", "vary, set-cookie, x-hop").field("Set-Cookie", "a=1"));
    let site = with(&origin, "sub vcl_backend_response { if (bereq.http.X-A) { set beresp.ttl = 1m; } }", "");
    for value in ["1", "2"] {
        let response = site.ask("GET", "/", &format!("X-A: {value}\r\n"));
        let kept = ["Vary", "Set-Cookie", "X-Hop"].map(|name| response.field(name).is_some());
        assert_eq!(kept, [true, true, false], "{value}");
    }
    assert_eq!(origin.requests().len(), 2, "each has a page of its own");
}

#[test]
fn what_larder_cannot_do_is_told_when_the_vcl_is_loaded() {
    for (text, part) in [
        ("sub vcl_recv { set req.filters = \"gzip\"; }", "set req.filters is not built yet"),
        ("sub vcl_backend_fetch { set bereq.filters = \"gzip\"; }", "set bereq.filters is not built yet"),
    ] {
        let setup =
            Setup::new().name("ORIGIN", "127.0.0.1:1").name("MORE", "").file("site.vcl", format!("vcl 4.1;\n{text}\n"));
        setup.configure(SITE);
        let output = setup.larder(&["-t"]);
        let said = larder_testkit::text_of(&output.stderr);
        assert!(!output.status.success() && said.contains(part) && said.contains("site.vcl:2"), "{part}: {said}");
    }
}

#[test]
fn a_body_that_has_gone_to_an_origin_is_never_sent_as_none() {
    let origin = Origin::start().expect("a port is free");
    origin.answer("/form", Answer::ok("thanks"));
    let again = "sub vcl_deliver { if (req.restarts == 0) { return (restart); } }";
    let body = "x".repeat(300_000);
    let request = format!("POST /form HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    let lost = with(&origin, again, "proxy_request_buffering off;");
    assert_eq!(lost.exchange("POST", &request).status, 503);
    lost.wait_for_log("the body of the request has gone to a backend already");
    assert_eq!(origin.count(), 1);
    let kept = site(&origin, &format!("sub vcl_recv {{ std.cache_req_body(1MB); }} {again}"));
    assert_eq!(text(&kept.exchange("POST", &request)), "thanks");
    let asked = origin.requests();
    assert_eq!((asked.len(), asked[1].body.len(), asked[2].body.len()), (3, body.len(), body.len()));
}

#[test]
fn a_body_that_was_read_whole_goes_to_one_origin_only_too() {
    let origin = Origin::start().expect("a port is free");
    origin.answer("/form", Answer::raw("").then(larder_testkit::Then::Close));
    origin.answer("/odd", Answer::ok("odd"));
    let again = "sub vcl_backend_error { if (bereq.retries == 0) { return (retry); } }
        sub vcl_backend_response { if (bereq.retries == 0) { return (retry); } }";
    let post = |path: &str| format!("POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\na=b");
    let lost = site(&origin, again);
    for path in ["/form", "/odd"] {
        let before = origin.count();
        assert_eq!(lost.exchange("POST", post(path)).status, 503, "{path}");
        assert_eq!(origin.count(), before + 1, "{path}");
    }
    lost.wait_for_log("the body of the request has gone to a backend already");
    let kept = site(&origin, &format!("sub vcl_recv {{ std.cache_req_body(1KB); }} {again}"));
    let before = origin.count();
    assert_eq!(text(&kept.exchange("POST", post("/odd"))), "odd");
    let asked = origin.requests();
    assert_eq!(asked.len(), before + 2);
    assert!(asked[before..].iter().all(|request| request.body == b"a=b"));
}

#[test]
fn a_body_that_the_vcl_has_dropped_is_not_there_after_a_restart() {
    let origin = Origin::start().expect("a port is free");
    origin.answer("/", Answer::ok("page"));
    let site = site(
        &origin,
        "sub vcl_recv { set req.http.Try = req.restarts; return (pass); }
        sub vcl_backend_fetch {
            set bereq.http.Length = bereq.http.Content-Length;
            if (bereq.http.Try == \"0\") { unset bereq.body; }
        }
        sub vcl_deliver { if (req.restarts == 0) { return (restart); } }",
    );
    for (method, lengths) in [("GET", ["3", ""]), ("POST", ["3", "0"])] {
        let before = origin.count();
        let request = format!("{method} / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\na=b");
        assert_eq!(text(&site.exchange(method, request)), "page");
        let asked = &origin.requests()[before..];
        assert!(asked.iter().all(|request| request.body.is_empty()), "{method}");
        assert_eq!([0, 1].map(|at| asked[at].field("Length").unwrap_or_default()), lengths, "{method}");
    }
}

#[test]
fn there_are_as_many_pipes_as_may_be() {
    let origin = Origin::start().expect("a port is free");
    origin.answer("/", Answer::ok("page"));
    let held = origin.hold("/");
    let site = with(&origin, "sub vcl_recv { return (pipe); }", "vcl_parameter pipe_sess_max 1;");
    let mut first = site.client();
    first.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    assert!(origin.wait_for(1));
    assert_eq!(site.exchange("GET", "GET / HTTP/1.1\r\nHost: a\r\n\r\n").status, 503);
    site.wait_for_log("too many pipes (pipe_sess_max)");
    held.release();
    assert_eq!(first.read_response("GET").unwrap().status, 200);
    eventually("the pipe is over", || site.exchange("GET", "GET / HTTP/1.1\r\nHost: a\r\n\r\n").status == 200);
}

#[test]
fn an_answer_has_the_bytes_that_a_parameter_allows() {
    let origin = Origin::start().expect("a port is free");
    for (path, bytes) in [("/fits", 38), ("/long", 39)] {
        origin.answer(path, Answer::ok("page").field("X", &"x".repeat(bytes - 1)));
    }
    let many: String = (0..12).map(|at| format!("X-{at}: {}\r\n", "x".repeat(20))).collect();
    origin.answer("/large", Answer::raw(format!("HTTP/1.1 200 OK\r\n{many}Content-Length: 0\r\n\r\n")));
    let backend = format!("backend own {{ .host = \"127.0.0.1\"; .port = \"{}\"; }}", origin.address().port());
    let site = with(
        &origin,
        &format!("{backend} sub vcl_recv {{ set req.backend_hint = own; }}"),
        "vcl_parameter http_resp_size 256; vcl_parameter http_resp_hdr_len 40;",
    );
    for (path, status) in [("/fits", 200), ("/long", 503), ("/large", 503)] {
        assert_eq!(site.get(path).status, status, "{path}");
    }
}

#[test]
fn what_was_fresh_when_the_request_came_is_a_hit() {
    let origin = Origin::start().expect("a port is free");
    origin.answer("/", Answer::ok("page"));
    let site = site(
        &origin,
        "import vtc;
        sub vcl_recv { if (req.http.Sleep) { vtc.sleep(3s); } }
        sub vcl_backend_response { set beresp.ttl = 3s; set beresp.grace = 0s; }",
    );
    for more in ["", "Sleep: 1\r\n"] {
        let request = format!("GET / HTTP/1.1\r\nHost: a\r\n{more}\r\n");
        assert_eq!(text(&site.exchange("GET", request)), "page");
    }
    assert_eq!(origin.count(), 1);
}

/// A request whose page is that of this host.
const REQUEST: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

#[test]
fn all_who_wait_for_a_fetch_are_told_that_it_has_failed() {
    for (name, times) in [("miss", ""), ("stale", "set beresp.ttl = 1ms; set beresp.grace = 0s; set beresp.keep = 1h;")]
    {
        let origin = Origin::start().expect("a port is free");
        origin.answer("/", Answer::ok("page"));
        let site = site(
            &origin,
            &format!(
                "sub vcl_recv {{ std.log(\"asked\"); }} sub vcl_backend_response {{ {times} }}
                sub vcl_backend_error {{ set beresp.http.X = bereq.xid; }}"
            ),
        );
        if !times.is_empty() {
            assert_eq!(site.exchange("GET", REQUEST).status, 200);
            let stored = Instant::now();
            eventually("it is stale", || stored.elapsed() > Duration::from_millis(5));
        }
        let (before, asked) = (origin.count(), || site.count_in_log("asked"));
        let asked_before = asked();
        origin.answer("/", Answer::raw("").then(larder_testkit::Then::Close));
        let held = origin.hold("/");
        let visits: Vec<_> = (0..8)
            .map(|_| {
                let mut client = site.client();
                client.send(REQUEST.as_bytes()).expect("larder takes requests");
                client
            })
            .collect();
        eventually("all wait", || asked() == asked_before + 8);
        held.release();
        let answers: Vec<_> = visits.into_iter().map(|mut visit| visit.read_response("GET").unwrap()).collect();
        let number = answers[0].field("X").expect("the error has it").to_owned();
        for answer in &answers {
            assert_eq!((answer.status, answer.field("X")), (503, Some(&number[..])), "{name}");
        }
        assert_eq!(origin.count(), before + 1, "{name}");
        // Nobody else is told.
        origin.answer("/", Answer::ok("again"));
        assert_eq!(text(&site.exchange("GET", REQUEST)), "again", "{name}");
    }
}

#[test]
fn a_304_that_is_for_one_visitor_is_for_nobody_else() {
    let kept = "set beresp.ttl = 1ms; set beresp.grace = 0s; set beresp.keep = 1h;";
    for (name, more) in [("a cookie", "Set-Cookie: SID=first"), ("no time", "Cache-Control: no-store")] {
        let origin = Origin::start().expect("a port is free");
        origin.answer("/", Answer::ok("page").field("ETag", "\"a\""));
        let site = site(
            &origin,
            &format!(
                "sub vcl_recv {{ std.log(\"asked\"); return (hash); }}
                sub vcl_backend_response {{ if (beresp.was_304 || beresp.http.ETag) {{ {kept} }} }}"
            ),
        );
        assert_eq!(site.exchange("GET", REQUEST).status, 200);
        let stored = Instant::now();
        eventually("it is stale", || stored.elapsed() > Duration::from_millis(5));
        let (before, asked) = (origin.count(), || site.count_in_log("asked"));
        let asked_before = asked();
        origin.answer("/", Answer::raw(format!("HTTP/1.1 304 Not Modified\r\n{more}\r\nX-For: one\r\n\r\n")));
        origin.answer_then("/", Answer::ok("alone"));
        let held = origin.hold("/");
        let visits: Vec<_> = (0..3)
            .map(|_| {
                let mut client = site.client();
                client.send(REQUEST.as_bytes()).expect("larder takes requests");
                client
            })
            .collect();
        eventually("all wait", || asked() == asked_before + 3);
        held.release();
        let answers: Vec<_> = visits.into_iter().map(|mut visit| visit.read_response("GET").unwrap()).collect();
        let is_first = |answer: &&Response| answer.field("X-For").is_some();
        assert_eq!(answers.iter().filter(is_first).map(text).collect::<Vec<_>>(), ["page"], "{name}");
        assert!(answers.iter().filter(|answer| !is_first(answer)).all(|answer| text(answer) == "alone"), "{name}");
        assert!(origin.count() >= before + 2, "{name}");
    }
}

#[test]
fn a_304_may_say_that_a_page_varies() {
    let origin = Origin::start().expect("a port is free");
    origin.answer("/", Answer::ok("page").field("ETag", "\"a\""));
    let site = site(
        &origin,
        "sub vcl_recv { return (hash); }
        sub vcl_backend_response {
            set beresp.ttl = 1h; set beresp.grace = 0s; set beresp.keep = 1h;
            if (beresp.status == 200 && !beresp.was_304 && !beresp.http.Vary) { set beresp.ttl = 1ms; }
            return (deliver);
        }",
    );
    let get = |cookie: &str| text(&site.ask("GET", "/", &format!("Cookie: {cookie}\r\n")));
    assert_eq!(get("one"), "page");
    origin.answer("/", Answer::raw("HTTP/1.1 304 Not Modified\r\nVary: Cookie\r\n\r\n"));
    eventually("it is stale", || {
        get("one");
        origin.count() > 1
    });
    let before = origin.count();
    assert_eq!((get("one"), origin.count()), ("page".to_owned(), before));
    origin.answer("/", Answer::ok("of two").field("Vary", "Cookie"));
    assert_eq!((get("two"), origin.count()), ("of two".to_owned(), before + 1));
    assert_eq!((get("one"), get("two"), origin.count()), ("page".to_owned(), "of two".to_owned(), before + 1));
}

#[test]
fn a_request_that_purges_and_begins_again_misses() {
    let origin = Origin::start().expect("a port is free");
    origin.answer("/", Answer::ok("page"));
    let site = site(
        &origin,
        "sub vcl_recv { if (req.method == \"PURGE\") { return (purge); } }
        sub vcl_hash { if (req.method == \"PURGE\") { hash_data(\"another page\"); } }
        sub vcl_purge { set req.method = \"GET\"; return (restart); }",
    );
    for (method, fetches) in [("GET", 1), ("GET", 1), ("PURGE", 2), ("GET", 2)] {
        let request = format!("{method} / HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(text(&site.exchange(method, &request)), "page");
        assert_eq!(origin.count(), fetches, "{method}");
    }
}

#[test]
fn a_status_that_is_no_end_is_a_failure() {
    let origin = Origin::start().expect("a port is free");
    origin.answer("/", Answer::ok("page"));
    for subs in [
        "sub vcl_deliver { set resp.status = 101; }",
        "sub vcl_deliver { set resp.status = 1005; }",
        "sub vcl_deliver { set resp.status = 70000; }",
        "sub vcl_deliver { return (synth(std.integer(\"100\", 0))); }",
        "sub vcl_deliver { return (synth(std.integer(\"-1\", 0))); }",
    ] {
        let site = site(&origin, subs);
        assert_eq!(site.get("/").status_line, "HTTP/1.1 503 VCL failed", "{subs}");
    }
    let site = site(&origin, "sub vcl_deliver { set resp.status = 1404; }");
    assert_eq!(site.get("/").status_line, "HTTP/1.1 404 Not Found");
}

#[test]
fn lines_of_a_head_may_go_on_in_the_next_one_unless_they_frame_the_message() {
    let origin = Origin::start().expect("a port is free");
    let folded = "HTTP/1.1 200 OK\r\nX: a,\r\n  b\r\nContent-Length: 4\r\n\r\npage";
    origin.answer("/", Answer::raw(folded).then(larder_testkit::Then::Close));
    let site = site(&origin, "sub vcl_deliver { set resp.http.X = resp.http.X + \" \" + req.http.Y; }");
    for (line, status, expected) in [
        ("Y: 1\r\n 2", 200, Some("a,    b 1   2")),
        ("Y:\n\t1\n\t2", 200, Some("a,    b 1  2")),
        ("Host: a\r\n b", 400, None),
        ("Transfer-Encoding:\r\n chunked", 400, None),
    ] {
        let host = if line.starts_with("Host") { "" } else { "Host: a\r\n" };
        let response = site.exchange("GET", format!("GET / HTTP/1.1\r\n{host}{line}\r\nConnection: close\r\n\r\n"));
        assert_eq!((response.status, response.field("X")), (status, expected), "{line:?}");
    }
}
