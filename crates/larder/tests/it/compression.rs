//! Compression as clients meet it. What nginx has is asked of nginx too; Brotli, zstd and stored forms are larder's own.

use larder_testkit::{Answer, Framing, HandOrigin, Http2Client, Http2Request, Origin, Response, gzipped, unpacked};

use crate::site::{Setup, Site, cached, eventually, text};
use crate::tls::is_nginx;

/// Types that a bare configuration does not know.
const TYPES: &str = "types { text/html html; text/css css; application/javascript js; image/png png; text/plain txt; }";

/// Files with gzip, and `{ORIGIN}`, cached under `/stored/`.
const SITE: &str = "
    {TYPES}
    proxy_cache_path {DIR}/pages keys_zone=pages:1m max_size=100m;
    gzip on; gzip_types text/css;
    {MORE}
    server {
        listen 127.0.0.1:{PORT};
        listen 127.0.0.1:{PORT2} http2;
        add_header X-Cache $upstream_cache_status;
        location / { }
        location /o/ { proxy_pass http://{ORIGIN}; proxy_http_version 1.1; }
        location /passed/ { proxy_pass http://{ORIGIN}; proxy_http_version 1.1; proxy_buffering off; }
        location /stored/ {
            proxy_pass http://{ORIGIN}; proxy_set_header Accept-Encoding '';
            proxy_cache pages; proxy_cache_valid 200 {LIFE}; proxy_cache_lock on;
        }
    }";

/// A page of the kind that compresses well.
fn page() -> String {
    (0..400).map(|number| format!("<p class=\"line\">This is line {number} of the page.</p>\n")).collect()
}

fn compressing(more: &str) -> (Site, Origin) {
    compressing_for(more, "1h")
}

fn compressing_for(more: &str, life: &str) -> (Site, Origin) {
    let origin = Origin::start().unwrap();
    let answer = Answer::ok(page()).field("Content-Type", "text/html").field("ETag", "\"v1\"");
    origin.answer("*", answer.field("Accept-Ranges", "bytes"));
    let setup = Setup::new()
        .name("TYPES", TYPES)
        .name("ORIGIN", origin.address())
        .name("MORE", more)
        .name("LIFE", life)
        .file("www/page.html", page())
        .file("www/style.css", page())
        .file("www/code.js", page())
        .file("www/picture.png", page())
        .file("www/small.html", "small");
    (setup.start(SITE), origin)
}

/// GET with an `Accept-Encoding`, or without one where it is empty.
fn get(site: &Site, target: &str, accepts: &str) -> Response {
    ask(site, target, &accept(accepts))
}

fn ask(site: &Site, target: &str, fields: &str) -> Response {
    site.ask("GET", target, fields)
}

fn accept(codings: &str) -> String {
    if codings.is_empty() { String::new() } else { format!("Accept-Encoding: {codings}\r\n") }
}

fn coding(response: &Response) -> &str {
    response.field("Content-Encoding").unwrap_or("-")
}

/// The page that a response carries, unpacked.
fn page_of(response: &Response) -> String {
    larder_testkit::text_of(&unpacked(coding(response), &response.body))
}

#[test]
fn every_hit_says_how_long_it_is_fresh_in_whatever_form_it_goes_out() {
    let (site, _origin) = compressing("larder_cache_status on;");
    get(&site, "/stored/p", "");
    site.get_until("/stored/p", "the page", |response| cached(response) == "HIT");
    for fields in [
        "Accept-Encoding: gzip\r\n",
        "Accept-Encoding: gzip\r\n",
        "",
        "Range: bytes=0-9\r\n",
        "If-None-Match: \"v1\"\r\n",
    ] {
        let status = ask(&site, "/stored/p", fields).field("Cache-Status").map(str::to_owned);
        assert!(status.iter().any(|status| status.starts_with("larder; hit; ttl=3")), "{fields}: {status:?}");
    }
}

#[test]
fn what_is_compressed_is_what_nginx_compresses() {
    let (site, _origin) = compressing("gzip_disable Robot;");
    for (target, fields, wanted) in [
        ("/page.html", "Accept-Encoding: gzip\r\n", "gzip"),
        ("/page.html", "Accept-Encoding: deflate, gzip;q=0.5\r\n", "gzip"),
        ("/page.html", "Accept-Encoding: GZIP\r\n", "gzip"),
        ("/page.html", "Accept-Encoding: gzip;q=0\r\n", "-"),
        ("/page.html", "Accept-Encoding: gzip;q=0.0\r\n", "-"),
        ("/page.html", "Accept-Encoding: deflate\r\n", "-"),
        ("/page.html", "Accept-Encoding: identity\r\n", "-"),
        ("/page.html", "", "-"),
        ("/style.css", "Accept-Encoding: gzip\r\n", "gzip"),
        ("/code.js", "Accept-Encoding: gzip\r\n", "-"),
        ("/picture.png", "Accept-Encoding: gzip\r\n", "-"),
        ("/small.html", "Accept-Encoding: gzip\r\n", "-"),
        ("/page.html", "Accept-Encoding: gzip\r\nVia: 1.1 proxy\r\n", "-"),
        ("/page.html", "Accept-Encoding: gzip\r\nUser-Agent: robot/1\r\n", "-"),
        ("/page.html", "Accept-Encoding: gzip\r\nUser-Agent: Human/1\r\n", "gzip"),
        ("/o/p", "Accept-Encoding: gzip\r\n", "gzip"),
        ("/passed/p", "Accept-Encoding: gzip\r\n", "gzip"),
        ("/stored/p", "Accept-Encoding: gzip\r\n", "gzip"),
        ("/stored/p", "Accept-Encoding: gzip\r\n", "gzip"),
        ("/stored/p", "", "-"),
    ] {
        let response = ask(&site, target, fields);
        assert_eq!((response.status, coding(&response)), (200, wanted), "{target} {fields:?}");
        let is_page = target != "/small.html";
        assert_eq!(page_of(&response), if is_page { page() } else { "small".to_owned() }, "{target} {fields:?}");
        assert!(wanted == "-" || response.body.len() < page().len() / 4, "{target} {}", response.body.len());
    }
    let old = site.exchange("GET", "GET /page.html HTTP/1.0\r\nAccept-Encoding: gzip\r\n\r\n");
    assert_eq!(coding(&old), "-");
}

#[test]
fn a_compressed_answer_says_so_in_all_its_fields() {
    let (site, _origin) = compressing("gzip_vary on;");
    for target in ["/page.html", "/o/p", "/stored/p"] {
        let plain = get(&site, target, "");
        let packed = get(&site, target, "gzip");
        let etag = plain.field("ETag").unwrap();
        assert_eq!(packed.field("ETag"), Some(format!("W/{etag}").as_str()), "{target}");
        assert_eq!(packed.field("Last-Modified"), plain.field("Last-Modified"), "{target}");
        assert_eq!((packed.field("Vary"), plain.field("Vary")), (Some("Accept-Encoding"), Some("Accept-Encoding")));
        assert_eq!(packed.field("Accept-Ranges"), None, "{target}");
        if let Some(length) = packed.field("Content-Length") {
            assert_eq!(length, packed.body.len().to_string(), "{target}");
        }
        assert_eq!(page_of(&packed), page());
        let head = site.ask("HEAD", target, &accept("gzip"));
        assert_eq!((head.status, coding(&head), head.body.len()), (200, "gzip", 0), "{target}");
        assert_ne!(head.field("Content-Length"), Some(page().len().to_string().as_str()), "{target}");
        // Both validators are good for both forms: they are weak. What is not stored is asked of the origin each time.
        if target == "/o/p" {
            continue;
        }
        for etag in [etag.to_owned(), format!("W/{etag}")] {
            for accepts in ["gzip", ""] {
                let response = ask(&site, target, &format!("{}If-None-Match: {etag}\r\n", accept(accepts)));
                assert_eq!((response.status, coding(&response)), (304, "-"), "{target} {etag} {accepts}");
            }
        }
    }
    assert_eq!(get(&site, "/picture.png", "gzip").field("Vary"), None, "what is never compressed does not vary");
}

#[test]
fn a_part_is_a_part_of_the_page_and_never_of_a_form() {
    let (site, _origin) = compressing("");
    get(&site, "/stored/p", "");
    site.get_until("/stored/p", "the page", |response| cached(response) == "HIT");
    for target in ["/page.html", "/stored/p"] {
        let part = ask(&site, target, "Range: bytes=100-199\r\n");
        assert_eq!(part.status, 206, "{target}");
        assert_eq!(text(&part), page()[100..200], "{target}");
        let whole = ask(&site, target, "Range: bytes=100-199\r\nAccept-Encoding: gzip\r\n");
        match (whole.status, coding(&whole)) {
            (200, "gzip") => assert_eq!(page_of(&whole), page(), "{target}"),
            (206, "-") => assert_eq!(text(&whole), page()[100..200], "{target}"),
            other => panic!("{target}: {other:?}"),
        }
    }
}

#[test]
fn statuses_and_codings_of_the_origin_are_respected() {
    let (site, origin) = compressing("gzip_proxied any;");
    let html = |status: &str| Answer::status(status).field("Content-Type", "text/html").body(page());
    for (target, answer, wanted) in [
        ("/o/forbidden", html("403 Forbidden"), "gzip"),
        ("/o/none", html("404 Not Found"), "gzip"),
        ("/o/broken", html("500 Internal Server Error"), "-"),
        ("/o/moved", html("301 Moved Permanently").field("Location", "/"), "-"),
        ("/o/made", html("201 Created"), "-"),
        ("/o/image", Answer::ok(page()).field("Content-Type", "image/png"), "-"),
        ("/o/typed", Answer::ok(page()).field("Content-Type", "text/css; charset=utf-8"), "gzip"),
        ("/o/untyped", Answer::ok(page()), "-"),
        ("/o/packed", Answer::ok("BR").field("Content-Type", "text/html").field("Content-Encoding", "br"), "br"),
    ] {
        origin.answer(target, answer);
        let response = get(&site, target, "gzip");
        assert_eq!(coding(&response), wanted, "{target}");
        if wanted != "br" {
            assert_eq!(page_of(&response), page(), "{target}");
        }
    }
}

#[test]
fn what_comes_in_pieces_can_be_read_in_pieces() {
    let mut origin = HandOrigin::start().unwrap();
    let site = Setup::new().name("ORIGIN", origin.address()).start(
        "gzip on; gzip_types text/event-stream;
         server { listen 127.0.0.1:{PORT};
            location / { proxy_pass http://{ORIGIN}; proxy_http_version 1.1; proxy_buffering off; } }",
    );
    let mut client = site.client();
    client.send(b"GET /events HTTP/1.1\r\nHost: site.test\r\nAccept-Encoding: gzip\r\n\r\n").unwrap();
    let mut events = origin.accept().unwrap();
    events.request().unwrap().unwrap();
    events.send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n").unwrap();
    let mut said = String::new();
    let mut received = Vec::new();
    let mut head = None;
    for number in 0..4 {
        let event = format!("data: {number}\n\n");
        said.push_str(&event);
        events.send(format!("{:x}\r\n{event}\r\n", event.len())).unwrap();
        let head = head.get_or_insert_with(|| client.read_head().unwrap());
        assert_eq!((coding(head), head.field("Transfer-Encoding")), ("gzip", Some("chunked")));
        // Chunk after chunk, until what came says it all; a server that kept something back would leave us waiting.
        while larder_testkit::text_of(&unpacked("gzip", &received)) != said {
            received.extend(chunk(&mut client));
        }
    }
    events.send("0\r\n\r\n").unwrap();
    loop {
        let last = chunk(&mut client);
        if last.is_empty() {
            break;
        }
        received.extend(last);
    }
    assert_eq!(larder_testkit::text_of(&unpacked("gzip", &received)), said);
}

/// One chunk off a connection.
fn chunk(client: &mut larder_testkit::Client) -> Vec<u8> {
    let mut size = Vec::new();
    while !size.ends_with(b"\r\n") {
        let byte = client.read_bytes(1).unwrap();
        assert!(!byte.is_empty(), "the body goes on");
        size.extend(byte);
    }
    let size = usize::from_str_radix(larder_testkit::text_of(&size).trim(), 16).unwrap();
    let mut bytes = client.read_bytes(size + 2).unwrap();
    bytes.truncate(size);
    bytes
}

#[test]
fn large_bodies_are_compressed_as_they_pass() {
    let (site, origin) = compressing("");
    let large: String = (0..60_000).map(|number| format!("line {number} of a long answer\n")).collect();
    let answer = Answer::ok(large.clone()).field("Content-Type", "text/html");
    for target in ["/o/large", "/passed/large", "/stored/large"] {
        origin.answer(target, answer.clone());
        for _ in 0..2 {
            let response = get(&site, target, "gzip");
            assert_eq!(coding(&response), "gzip", "{target}");
            assert!(page_of(&response) == large, "{target}");
        }
        let plain = get(&site, target, "");
        assert!(text(&plain) == large, "{target}");
    }
}

#[test]
fn files_packed_beforehand_are_sent_to_who_takes_them() {
    let packed = |text: &str| gzipped(text.as_bytes());
    let site = Setup::new()
        .name("TYPES", TYPES)
        .file("www/page.html", "the page as it is")
        .file("www/page.html.gz", packed("the page packed beforehand"))
        .file("www/other.html", "no packed one")
        .file("www/always/only.html.gz", packed("there is no other"))
        .file("www/unpack/only.html.gz", packed("there is no other"))
        .start(
            "{TYPES} gzip_static on; gzip_vary on;
             server { listen 127.0.0.1:{PORT};
                location / { }
                location /always/ { gzip_static always; }
                location /unpack/ { gzip_static always; gunzip on; } }",
        );
    for (target, accepts, wanted, said) in [
        ("/page.html", "gzip", "gzip", "the page packed beforehand"),
        ("/page.html", "", "-", "the page as it is"),
        ("/page.html", "br", "-", "the page as it is"),
        ("/other.html", "gzip", "-", "no packed one"),
        ("/always/only.html", "gzip", "gzip", "there is no other"),
        ("/always/only.html", "", "gzip", "there is no other"),
        ("/unpack/only.html", "gzip", "gzip", "there is no other"),
        ("/unpack/only.html", "", "-", "there is no other"),
    ] {
        let response = get(&site, target, accepts);
        assert_eq!((response.status, coding(&response)), (200, wanted), "{target} {accepts}");
        assert_eq!(page_of(&response), said, "{target} {accepts}");
        assert!(response.field("Content-Type").is_some_and(|kind| kind.starts_with("text/html")), "{target}");
        if wanted == "gzip" {
            assert_eq!(response.field("Content-Length"), Some(response.body.len().to_string().as_str()), "{target}");
        }
    }
    // A packed file is a file: it has validators and parts of its own.
    let etag = get(&site, "/page.html", "gzip").field("ETag").unwrap().to_owned();
    assert!(!etag.starts_with("W/"), "{etag}");
    let again = ask(&site, "/page.html", &format!("Accept-Encoding: gzip\r\nIf-None-Match: {etag}\r\n"));
    assert_eq!(again.status, 304);
    // So it is in nginx since 1.23.4.
    if is_nginx() {
        return;
    }
    let whole = get(&site, "/page.html", "gzip");
    assert_eq!(whole.field("Accept-Ranges"), Some("bytes"));
    let total = whole.body.len();
    let first = format!("bytes 0-9/{total}");
    let none = format!("bytes */{total}");
    for (range, status, content_range, body) in [
        ("bytes=0-9", 206, Some(first.as_str()), Some(&whole.body[..10])),
        ("bytes=100000-", 416, Some(none.as_str()), None),
        ("items=0-9", 200, None, Some(&whole.body[..])),
    ] {
        let part = ask(&site, "/page.html", &format!("Accept-Encoding: gzip\r\nRange: {range}\r\n"));
        assert_eq!((part.status, part.field("Content-Range")), (status, content_range), "{range}");
        assert!(body.is_none_or(|body| part.body == body && coding(&part) == "gzip"), "{range}");
    }
    let unpacked = ask(&site, "/unpack/only.html", "Range: bytes=0-3\r\n");
    assert_eq!((unpacked.status, page_of(&unpacked).as_str()), (200, "there is no other"));
}

#[test]
fn what_the_origin_packed_is_unpacked_for_who_cannot() {
    let (site, origin) = compressing("gunzip on; gzip_proxied any;");
    let answer =
        Answer::ok(gzipped(page().as_bytes())).field("Content-Type", "text/html").field("Content-Encoding", "gzip");
    for target in ["/o/packed", "/passed/packed", "/stored/packed"] {
        origin.answer(target, answer.clone().field("ETag", "\"v1\""));
        for (accepts, wanted) in [("gzip", "gzip"), ("", "-"), ("gzip", "gzip"), ("gzip;q=0", "-")] {
            let response = get(&site, target, accepts);
            assert_eq!(coding(&response), wanted, "{target} {accepts}");
            assert_eq!(page_of(&response), page(), "{target} {accepts}");
            assert!(wanted == "gzip" || response.framing == Framing::Chunked || response.framing == Framing::Length);
        }
    }
}

#[test]
fn compression_is_the_same_over_http_2() {
    let (site, _origin) = compressing("gzip_vary on;");
    let mut client = Http2Client::connect(site.setup().other_address()).unwrap();
    for target in ["/page.html", "/o/p", "/passed/p", "/stored/p", "/stored/p"] {
        let packed = client.exchange(&Http2Request::get(target).field("accept-encoding", "gzip, deflate, br")).unwrap();
        assert_eq!((packed.status, coding(&packed)), (200, "gzip"), "{target}");
        assert_eq!(page_of(&packed), page(), "{target}");
        assert_eq!((packed.field("vary"), packed.field("transfer-encoding")), (Some("Accept-Encoding"), None));
        let plain = client.get(target).unwrap();
        assert_eq!((coding(&plain), text(&plain)), ("-", page()), "{target}");
    }
}

#[test]
fn an_answer_is_packed_once_for_many_who_ask_for_different_forms_at_once() {
    let more = if is_nginx() { "" } else { "brotli on; zstd on;" };
    let (site, origin) = compressing(more);
    let hold = origin.hold("/stored/p");
    std::thread::scope(|scope| {
        let visits: Vec<_> =
            ["gzip", "br", "zstd", "", "gzip, br", "gzip", "br", "zstd", "identity", "gzip;q=0.1, zstd"]
                .into_iter()
                .map(|accepts| {
                    let site = &site;
                    scope.spawn(move || (accepts, get(site, "/stored/p", accepts)))
                })
                .collect();
        assert!(origin.wait_for(1));
        hold.release();
        for visit in visits {
            let (accepts, response) = visit.join().unwrap();
            assert!(
                coding(&response) == "-" || accepts.contains(coding(&response)),
                "{accepts}: {}",
                coding(&response)
            );
            assert_eq!(page_of(&response), page(), "{accepts}");
        }
    });
    assert_eq!(origin.count(), 1, "all forms are of the one page");
}

#[test]
fn a_new_page_has_new_forms() {
    let (site, origin) = compressing_for("", "1s");
    for version in 1..=3 {
        let text = page().replace("line", &format!("version {version}"));
        origin.answer("/stored/p", Answer::ok(text.clone()).field("Content-Type", "text/html"));
        eventually("the new version", || page_of(&get(&site, "/stored/p", "gzip")) == text);
        assert_eq!(page_of(&get(&site, "/stored/p", "")), text, "no form is older than another");
        assert_eq!(page_of(&get(&site, "/stored/p", "gzip")), text);
    }
}

#[test]
fn a_stored_page_keeps_its_forms() {
    if is_nginx() {
        return;
    }
    let (site, origin) = compressing("brotli on; zstd on; gzip_vary on;");
    get(&site, "/stored/p", "");
    site.get_until("/stored/p", "the page", |response| cached(response) == "HIT");
    for accepts in ["gzip", "br", "zstd"] {
        let mut kept = get(&site, "/stored/p", accepts);
        eventually("a form with a length", || {
            kept = get(&site, "/stored/p", accepts);
            kept.framing == Framing::Length && coding(&kept) == accepts
        });
        assert_eq!((cached(&kept), page_of(&kept)), ("HIT", page()), "{accepts}");
        assert_eq!(kept.field("ETag"), Some("W/\"v1\""), "{accepts}");
        assert_eq!(kept.field("Vary"), Some("Accept-Encoding"), "{accepts}");
    }
    assert_eq!(origin.count(), 1);
}

#[test]
fn the_coding_that_the_client_likes_best_is_chosen() {
    if is_nginx() {
        return;
    }
    let (site, _origin) = compressing("brotli on; zstd on; brotli_types text/css; zstd_types text/css;");
    for target in ["/page.html", "/style.css", "/o/p", "/stored/p", "/stored/p"] {
        for (accepts, wanted) in [
            ("gzip", &["gzip"][..]),
            ("br", &["br"]),
            ("zstd", &["zstd"]),
            ("gzip, deflate, br, zstd", &["br", "zstd"]),
            ("br;q=0.5, gzip", &["gzip"]),
            ("zstd;q=0.2, br;q=0.3, gzip;q=0.1", &["br"]),
            ("br;q=0, zstd;q=0, gzip;q=0", &["-"]),
            ("identity", &["-"]),
            ("", &["-"]),
        ] {
            let response = get(&site, target, accepts);
            assert!(wanted.contains(&coding(&response)), "{target} {accepts}: {}", coding(&response));
            assert_eq!(page_of(&response), page(), "{target} {accepts}");
        }
    }
}

#[test]
fn brotli_and_zstd_files_packed_beforehand_are_sent_too() {
    if is_nginx() {
        return;
    }
    let site = Setup::new()
        .name("TYPES", TYPES)
        .file("www/page.html", "as it is")
        .file("www/page.html.br", "br bytes")
        .file("www/page.html.zst", "zstd bytes")
        .file("www/page.html.gz", "gzip bytes")
        .start("{TYPES} gzip_static on; brotli_static on; zstd_static on; server { listen 127.0.0.1:{PORT}; }");
    for (accepts, wanted, said) in [
        ("gzip", "gzip", "gzip bytes"),
        ("br", "br", "br bytes"),
        ("zstd", "zstd", "zstd bytes"),
        ("", "-", "as it is"),
        ("br;q=0, gzip", "gzip", "gzip bytes"),
    ] {
        let response = get(&site, "/page.html", accepts);
        assert_eq!((coding(&response), text(&response).as_str()), (wanted, said), "{accepts}");
    }
}

#[test]
fn what_is_for_one_client_alone_can_be_left_as_it_is() {
    if is_nginx() {
        return;
    }
    for (more, is_left) in [("larder_compress_private off;", true), ("", false)] {
        let (site, origin) = compressing(more);
        let html = || Answer::ok(page()).field("Content-Type", "text/html");
        for (target, answer) in [
            ("/o/cookie", html().field("Set-Cookie", "a=b")),
            ("/o/private", html().field("Cache-Control", "private")),
            ("/o/no-store", html().field("Cache-Control", "no-store")),
        ] {
            origin.answer(target, answer);
            let response = get(&site, target, "gzip");
            assert_eq!(coding(&response), if is_left { "-" } else { "gzip" }, "{more} {target}");
            assert_eq!(page_of(&response), page());
        }
        assert_eq!(coding(&get(&site, "/stored/p", "gzip")), "gzip", "what all may see is not private");
    }
}

#[test]
fn what_is_too_large_for_a_form_is_unpacked_at_every_hit() {
    /// Past what is restored as a whole.
    const LENGTH: usize = 17 << 20;
    let (site, origin) = compressing("gunzip on; gzip_proxied any;");
    let packed = gzipped(&vec![b'a'; LENGTH]);
    origin.answer("*", Answer::ok(packed.clone()).field("Content-Type", "text/html").field("Content-Encoding", "gzip"));
    eventually("the page", || cached(&get(&site, "/stored/p", "gzip")) == "HIT");
    // The first hits may come before it is known how large the page is.
    for _ in 0..4 {
        let restored = get(&site, "/stored/p", "");
        assert_eq!((cached(&restored), coding(&restored)), ("HIT", "-"));
        assert!(restored.body.len() == LENGTH && restored.body.iter().all(|byte| *byte == b'a'));
    }
    let kept = get(&site, "/stored/p", "gzip");
    assert_eq!((coding(&kept), kept.body == packed), ("gzip", true));
}

#[test]
fn without_stored_forms_each_hit_is_packed_as_it_passes() {
    if is_nginx() {
        return;
    }
    let (site, _origin) = compressing("gzip_vary on; larder_compress_stored off;");
    for accepts in ["gzip", "gzip", "", "gzip", ""] {
        let response = get(&site, "/stored/p", accepts);
        assert_eq!(coding(&response), if accepts.is_empty() { "-" } else { "gzip" }, "{accepts}");
        assert_eq!((page_of(&response), response.field("Vary")), (page(), Some("Accept-Encoding")), "{accepts}");
    }
    assert_eq!(cached(&get(&site, "/stored/p", "gzip")), "HIT");
}
