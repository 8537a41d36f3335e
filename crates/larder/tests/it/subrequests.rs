//! Requests inside a request: SSI, additions, `auth_request`, `mirror`.

use std::time::Duration;

use larder_testkit::{Answer, Framing, HandOrigin, Http2Client, Http2Request, Origin, gzipped, unpacked};

use crate::site::{Setup, Site, cached, eventually, get, text};

const SITE: &str = "
    proxy_cache_path {DIR}/pages keys_zone=pages:1m;
    log_format inside '$uri $status $upstream_cache_status';
    server {
        listen 127.0.0.1:{PORT};
        http2 on;
        types { text/html html; }
        ssi on;
        root {DIR}/www;
        location / { }
        location /o/ { proxy_pass http://{ORIGIN}; }
        location /cached/ {
            proxy_pass http://{ORIGIN}; proxy_cache pages; proxy_cache_valid 1h;
            log_subrequest on; access_log {DIR}/inside.log inside;
        }
        location /gzip/ { alias {DIR}/www/; gzip on; gzip_min_length 1; }
        {MORE}
    }";

fn site(origin: impl ToString, more: &str, pages: &[(&str, &str)]) -> Site {
    let setup = Setup::new().one_worker().name("MORE", more).name("ORIGIN", origin);
    let with = |setup: Setup, (name, page): &(&str, &str)| setup.file(&format!("www/{name}"), page);
    pages.iter().fold(setup, with).start(SITE)
}

#[test]
fn the_page_goes_out_up_to_an_include_and_all_are_asked_for_at_once() {
    let mut origin = HandOrigin::start().unwrap();
    let page = "first<!--#include virtual=\"/o/a\" -->second<!--#include virtual=\"/o/b\" -->third";
    let site = site(origin.address(), "", &[("page.html", page)]);
    let mut client = site.client();
    client.send(get("/page.html").as_bytes()).unwrap();
    let mut response = client.read_head().unwrap();
    assert_eq!((response.status, response.field("Content-Length")), (200, None));
    assert_eq!(client.read_bytes(10).unwrap(), b"5\r\nfirst\r\n"[..]);
    let mut asked = [origin.accept().unwrap(), origin.accept().unwrap()];
    let mut targets = Vec::new();
    for connection in &mut asked {
        targets.push(connection.request().unwrap().unwrap().request_line);
    }
    let second = targets.iter().position(|line| line.contains("/o/b ")).unwrap();
    asked[second].send("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nB").unwrap();
    let first = &mut asked[1 - second];
    first.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nA").unwrap();
    assert_eq!(client.read_bytes(6).unwrap(), b"1\r\nA\r\n"[..], "what has come of it goes out");
    first.send("a").unwrap();
    client.read_body(&mut response).unwrap();
    assert_eq!(text(&response), "asecondBthird");
}

#[test]
fn an_include_may_be_a_cached_page_and_is_logged_where_that_is_asked_for() {
    let origin = Origin::start().unwrap();
    origin.answer("*", Answer::ok("part"));
    let page = "<!--#include virtual=\"/cached/x\" wait=\"yes\" --><!--#include virtual=\"/cached/x\" -->";
    let site = site(origin.address(), "", &[("page.html", page)]);
    for _ in 0..2 {
        assert_eq!(text(&site.get("/page.html")), "partpart");
    }
    assert_eq!(origin.count(), 1);
    site.wait_for_text("inside.log", "HIT\n/cached/x 200 HIT\n/cached/x 200 HIT\n");
    assert!(site.server().text("inside.log").starts_with("/cached/x 200 MISS\n"));
}

#[test]
fn what_breaks_off_ends_where_it_breaks_off() {
    let mut origin = HandOrigin::start().unwrap();
    let more = "location /document { proxy_pass http://{ORIGIN}; add_after_body /page.html; }";
    let page = "a<!--#include virtual=\"/o/x\" -->b";
    let site = site(origin.address(), more, &[("page.html", page)]);
    let broken = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 9\r\n\r\nbegun";
    let answer = |origin: &mut HandOrigin| {
        let mut fetch = origin.accept().unwrap();
        fetch.request().unwrap();
        fetch.send(broken).unwrap();
    };
    let mut client = site.client();
    client.send(get("/page.html").as_bytes()).unwrap();
    answer(&mut origin);
    assert_eq!(text(&client.read_response("GET").unwrap()), "abegunb", "the page goes on behind an include");
    let mut client = site.client();
    client.send(get("/document").as_bytes()).unwrap();
    answer(&mut origin);
    let all = client.read_to_end().unwrap();
    let all = String::from_utf8_lossy(&all);
    assert!(all.ends_with("\r\n\r\n5\r\nbegun\r\n"), "the whole does not go on behind its document: {all}");
}

#[test]
fn a_client_that_leaves_ends_what_was_asked_for_it_alone() {
    let mut origin = HandOrigin::start().unwrap();
    let site = site(origin.address(), "", &[("page.html", "a<!--#include virtual=\"/o/x\" -->b")]);
    let mut client = site.client();
    client.send(get("/page.html").as_bytes()).unwrap();
    let mut fetch = origin.accept().unwrap();
    fetch.request().unwrap();
    client.read_head().unwrap();
    drop(client);
    assert!(fetch.request().unwrap().is_none(), "its connection is closed");
}

#[test]
fn a_page_of_very_many_includes_is_put_together_in_order() {
    let include = |n: usize| format!("{n}<!--#include virtual=\"/part.html?n={n}\" -->\n");
    let page: String = (0..1000).map(include).collect();
    let outer = "<!--#include virtual=\"/page.html\" --><!--#include virtual=\"/page.html\" -->";
    let part = "(<!--#echo var=\"arg_n\" -->)";
    let site = site("127.0.0.1:1", "", &[("page.html", &page), ("outer.html", outer), ("part.html", part)]);
    let expected: String = (0..1000).map(|n| format!("{n}({n})\n")).collect();
    assert_eq!(text(&site.get("/page.html")), expected);
    assert_eq!(text(&site.get("/outer.html")), expected.repeat(2));
}

#[test]
fn the_whole_is_compressed_and_goes_by_http2() {
    let origin = Origin::start().unwrap();
    origin.answer("*", Answer::ok("from the origin"));
    let site = site(origin.address(), "", &[("page.html", "<p><!--#include virtual=\"/o/x\" --></p>")]);
    let response = site.ask("GET", "/gzip/page.html", "Accept-Encoding: gzip\r\nRange: bytes=0-1\r\n");
    assert_eq!((response.status, response.field("Content-Encoding")), (200, Some("gzip")));
    assert_eq!(unpacked("gzip", &response.body), b"<p>from the origin</p>");
    let seen = &origin.requests()[0];
    assert_eq!((seen.field("Accept-Encoding"), seen.field("Range")), (None, None));
    let response = Http2Client::connect(site.setup().address()).unwrap().get("/page.html").unwrap();
    assert_eq!((response.status, &response.body[..]), (200, &b"<p>from the origin</p>"[..]));
}

#[test]
fn what_comes_compressed_is_restored_where_gunzip_is_on() {
    let origin = Origin::start().unwrap();
    let packed = |text: &[u8]| Answer::ok(gzipped(text)).field("Content-Encoding", "gzip");
    origin.answer(
        "/page",
        packed(b"<p><!--#include virtual=\"/packed/part\" --></p>").field("Content-Type", "text/html"),
    );
    origin.answer("/part", packed(b"the part"));
    let site = site(origin.address(), "location /packed/ { gunzip on; proxy_pass http://{ORIGIN}/; }", &[]);
    for fields in ["", "Accept-Encoding: gzip\r\n"] {
        let response = site.ask("GET", "/packed/page", fields);
        assert_eq!((response.field("Content-Encoding"), text(&response)), (None, "<p>the part</p>".to_owned()));
    }
}

#[test]
fn a_body_waits_until_its_request_is_allowed() {
    let origin = Origin::start().unwrap();
    origin.answer("/o/auth", Answer::ok("").field("X-User", "somebody"));
    origin.answer("*", Answer::ok("done"));
    let more = "
        location = /o/auth { internal; proxy_pass http://{ORIGIN}; proxy_pass_request_body off; proxy_set_header Content-Length \"\"; }
        location /protected {
            auth_request /o/auth; auth_request_set $user $upstream_http_x_user;
            proxy_pass http://{ORIGIN}; proxy_set_header X-User $user;
        }";
    let site = site(origin.address(), more, &[]);
    let hold = origin.hold("/o/auth");
    let mut client = site.client();
    let post = "POST /protected HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n";
    client.send(post.as_bytes()).unwrap();
    assert!(origin.wait_for(1));
    hold.release();
    assert_eq!(client.read_head().unwrap().status, 100);
    client.send(b"body").unwrap();
    assert_eq!(text(&client.read_response("POST").unwrap()), "done");
    let request = Http2Request::get("/protected").method("POST").body("body");
    let response = Http2Client::connect(site.setup().address()).unwrap().exchange(&request).unwrap();
    assert_eq!(response.status, 200);
    for pair in origin.requests().chunks(2) {
        assert_eq!((pair[0].request_line.as_str(), &pair[0].body[..]), ("GET /o/auth HTTP/1.1", &b""[..]));
        assert_eq!((pair[0].field("Content-Length"), pair[1].field("X-User")), (None, Some("somebody")));
        assert_eq!((pair[1].request_line.as_str(), &pair[1].body[..]), ("POST /protected HTTP/1.1", &b"body"[..]));
    }
}

#[test]
fn a_cached_page_is_sent_to_those_who_are_allowed_only() {
    let origin = Origin::start().unwrap();
    origin.answer("*", Answer::ok("page"));
    let more = "
        location = /who { internal; if ($http_x_user = \"\") { return 401; } return 204; }
        location /members/ {
            auth_request /who; add_header X-Cache $upstream_cache_status;
            proxy_pass http://{ORIGIN}; proxy_cache pages; proxy_cache_valid 1h;
        }";
    let site = site(origin.address(), more, &[]);
    let member = || site.ask("GET", "/members/x", "X-User: a\r\n");
    assert_eq!(cached(&member()), "MISS");
    eventually("the page to be stored", || cached(&member()) == "HIT");
    assert_eq!(site.get("/members/x").status, 401);
}

#[test]
fn a_mirror_that_is_slow_keeps_nobody_waiting() {
    let origin = Origin::start().unwrap();
    origin.answer("*", Answer::ok("answer"));
    let more = "
        location = /copy { internal; proxy_pass http://{ORIGIN}/copy; }
        location /mirrored { mirror /copy; proxy_pass http://{ORIGIN}; }";
    let site = site(origin.address(), more, &[]);
    let hold = origin.hold("/copy");
    let mut client = site.client();
    client.set_patience(Duration::from_secs(60));
    for _ in 0..2 {
        client.send(b"POST /mirrored HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody").unwrap();
        assert_eq!(text(&client.read_response("POST").unwrap()), "answer");
    }
    assert!(origin.wait_for(4));
    hold.release();
    let copies = origin.requests().into_iter().filter(|seen| seen.request_line.contains(" /copy ")).collect::<Vec<_>>();
    assert_eq!(copies.len(), 2);
    assert!(copies.iter().all(|seen| seen.request_line.starts_with("POST ") && seen.body == b"body"), "{copies:?}");
}

#[test]
fn who_asks_whether_a_request_is_allowed_purges_nothing_in_its_place() {
    let origin = Origin::start().unwrap();
    origin.answer("/auth", Answer::status("403 Forbidden"));
    origin.answer("*", Answer::ok("page"));
    let more = "
        location /plus/ {
            auth_request /plus-auth;
            proxy_pass http://{ORIGIN}; proxy_cache pages; proxy_cache_valid 1h; proxy_cache_key $request_uri;
            proxy_cache_purge $http_x_purge;
        }
        location = /plus-auth {
            internal; proxy_pass http://{ORIGIN}/auth; proxy_cache pages; proxy_cache_key $request_uri;
            proxy_cache_purge $http_x_purge;
        }";
    let site = site(origin.address(), more, &[]);
    assert_eq!(site.ask("PURGE", "/plus/*", "X-Purge: 1\r\n").status, 403);
}

#[test]
fn a_document_that_came_compressed_is_put_together_whole_whatever_part_is_asked_for() {
    let origin = Origin::start().unwrap();
    let document = "x".repeat(500_000) + "<!--# echo var=\"uri\" -->";
    let packed = std::process::Command::new("sh")
        .args(["-c", "head -c 500000 /dev/zero | tr '\\0' x > \"$0\"; printf '<!--# echo var=\"uri\" -->' >> \"$0\"; brotli -c \"$0\""])
        .arg(std::env::temp_dir().join(format!("larder-document-{}", std::process::id())))
        .output()
        .unwrap();
    assert!(packed.status.success() && packed.stdout.len() < 1000, "{packed:?}");
    origin.answer(
        "/packed",
        Answer::ok(packed.stdout).field("Content-Type", "text/html").field("Content-Encoding", "br"),
    );
    origin.answer("/plain", Answer::ok("<!--# echo var=\"uri\" -->").field("Content-Type", "text/html"));
    let more = "location ~ /p { ssi on; gunzip on; proxy_pass http://{ORIGIN}; }";
    let site = site(origin.address(), more, &[]);
    let whole = document.replace("<!--# echo var=\"uri\" -->", "/packed");
    assert!(text(&site.get("/packed")) == whole, "it is cut short");
    for range in ["bytes=100-", "bytes=0-1"] {
        let answer = site.ask("GET", "/plain", &format!("Range: {range}\r\n"));
        assert_eq!((answer.status, text(&answer)), (200, "/plain".to_owned()), "{range}");
    }
}

#[test]
fn a_body_that_goes_on_as_it_comes_or_into_a_file_is_there_for_the_copy_and_for_the_request() {
    let origin = Origin::start().unwrap();
    origin.answer("*", Answer::ok("done"));
    let more = "
        location = /copy { internal; proxy_pass http://{ORIGIN}/copy; }
        location = /allowed { internal; proxy_pass http://{ORIGIN}/allowed; client_body_in_file_only clean; }
        location /mirrored { mirror /copy; proxy_pass http://{ORIGIN}; proxy_http_version 1.1; proxy_request_buffering off; }
        location /filed { auth_request /allowed; proxy_pass http://{ORIGIN}; client_body_in_file_only clean; }";
    let site = site(origin.address(), more, &[]);
    for path in ["/mirrored", "/filed"] {
        let request = Http2Request::get(path).method("POST").body("body").field("content-length", "4");
        let response = Http2Client::connect(site.setup().address()).unwrap().exchange(&request).unwrap();
        assert_eq!(response.status, 200, "{path}");
    }
    assert!(origin.wait_for(4));
    for (path, body) in [(" /copy ", "body"), (" /mirrored ", "body"), (" /filed ", "body")] {
        let seen = origin.requests().into_iter().find(|seen| seen.request_line.contains(path)).unwrap();
        assert_eq!(String::from_utf8_lossy(&seen.body), body, "{path}");
    }
}

#[test]
fn a_value_that_is_twice_itself_again_and_again_has_an_end() {
    let twice = "<!--#set var=\"a\" value=\"$a$a\" -->".repeat(60);
    let page = format!("<!--#set var=\"a\" value=\"0123456789\" -->{twice}<!--#echo var=\"a\" -->");
    let error = "[an error occurred while processing the directive]";
    let site = site("127.0.0.1:1", "", &[("page.html", &page)]);
    let said = text(&site.get("/page.html"));
    assert_eq!(said.matches(error).count(), 60 - 14);
    assert_eq!(said.replace(error, ""), "0123456789".repeat(1 << 14));
    site.wait_for_text("error.log", "a value of more than 262144 bytes");
}

#[test]
fn a_page_and_a_request_include_so_much_and_no_more() {
    let twice = "a<!--#include virtual=\"/twice.html\" --><!--#include virtual=\"/twice.html\" -->";
    let many = "<!--#include virtual=\"/x.html\" -->".repeat(2_002);
    let pages = [("twice.html", twice), ("many.html", &*many), ("x.html", "x")];
    let site = site("127.0.0.1:1", "", &pages);
    let error = "[an error occurred while processing the directive]";
    let response = site.get("/many.html");
    assert_eq!(text(&response), "x".repeat(2_000) + error + error);
    // It would go on for ever.
    let response = site.get("/twice.html");
    assert_eq!(response.framing, Framing::Chunked);
    let said = text(&response).replace(error, "");
    assert!((1_000..=10_001).contains(&said.len()) && said.chars().all(|char| char == 'a'), "{} pages", said.len());
    for told in [
        "more than 2000 includes in one page while processing \"/many.html\"",
        "more than 10000 includes in one request",
    ] {
        site.wait_for_text("error.log", told);
        assert_eq!(site.server().text("error.log").matches(told).count(), 1, "{told}");
    }
}
