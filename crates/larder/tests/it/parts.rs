//! Parts of pages that are kept alone, and completed: `larder_cache_mode rfc9111` where ranges go on to the origin.

use larder_testkit::{Answer, HandOrigin, Origin};

use crate::site::{Setup, Site, cached, text};

const SITE: &str = "
    proxy_cache_path {DIR}/pages keys_zone=pages:1m max_size=64m inactive=1h;
    larder_cache_mode rfc9111;
    server {
        listen 127.0.0.1:{PORT};
        add_header X-Cache $upstream_cache_status always;
        proxy_http_version 1.1;
        proxy_cache pages;
        proxy_cache_key $host$request_uri;
        proxy_cache_max_range_offset 0;
        proxy_cache_lock on; proxy_cache_lock_timeout 1m; proxy_cache_lock_age 1m;
        larder_purge_from 127.0.0.1;
        larder_cache_tags X-Tags;
        location / { proxy_pass http://{ORIGIN}; }
        location /whole/ { proxy_pass http://{ORIGIN}; proxy_cache_max_range_offset 1g; }
        location /changed/ {
            proxy_pass http://{ORIGIN};
            gzip on; gzip_min_length 1; gzip_types *; ssi on; ssi_types *; sub_filter 2 x; sub_filter_types *;
        }
        location /nginx/ { proxy_pass http://{ORIGIN}; larder_cache_mode nginx; proxy_cache_valid 200 206 1h; }
    }";

fn site(origin: &Origin) -> Site {
    Setup::new().one_worker().name("ORIGIN", origin.address()).start(SITE)
}

/// The page of which the parts are.
const PAGE: &str = "0123456789";

/// A 206 with what lies from `first` to `last`.
fn part(first: usize, last: usize) -> Answer {
    Answer::status("206 Partial Content")
        .field("Content-Range", &format!("bytes {first}-{last}/10"))
        .field("Cache-Control", "max-age=3600")
        .body(&PAGE[first..=last])
}

fn tagged(answer: Answer) -> Answer {
    answer.field("ETag", "\"1\"")
}

fn whole() -> Answer {
    Answer::ok(PAGE).field("Cache-Control", "max-age=3600")
}

/// Status, verdict and body for a range.
fn range(site: &Site, path: &str, range: &str) -> (u16, String, String) {
    let got = site.ask("GET", path, &format!("Range: bytes={range}\r\n"));
    (got.status, cached(&got).to_owned(), text(&got))
}

fn expected(status: u16, verdict: &str, body: &str) -> (u16, String, String) {
    (status, verdict.to_owned(), body.to_owned())
}

/// What the origin was asked for: `Range` and `If-Range` of each request.
fn ranges(origin: &Origin) -> Vec<[Option<String>; 2]> {
    let field = |seen: &larder_testkit::OriginSeen, name| seen.field(name).map(str::to_owned);
    origin.requests().iter().map(|seen| [field(seen, "Range"), field(seen, "If-Range")]).collect()
}

fn asks(range: &str, if_range: &str) -> [Option<String>; 2] {
    [range, if_range].map(|value| Some(value.to_owned()).filter(|value| !value.is_empty()))
}

#[test]
fn a_part_answers_what_lies_in_it() {
    let origin = Origin::start().unwrap();
    origin.answer("/a", part(5, 9));
    let site = site(&origin);
    let first = site.ask("GET", "/a", "Range: bytes=-5\r\n");
    assert_eq!((first.status, cached(&first), first.field("Content-Range")), (206, "MISS", Some("bytes 5-9/10")));
    assert_eq!(text(&first), "56789");
    for (asked, field, body) in [
        ("-5", "bytes 5-9/10", "56789"),
        ("6-8", "bytes 6-8/10", "678"),
        ("6-", "bytes 6-9/10", "6789"),
        ("-1", "bytes 9-9/10", "9"),
        ("9-20", "bytes 9-9/10", "9"),
    ] {
        let got = site.ask("GET", "/a", &format!("Range: bytes={asked}\r\n"));
        assert_eq!((got.status, cached(&got), text(&got)), (206, "HIT", body.to_owned()), "{asked}");
        assert_eq!(got.field("Content-Range"), Some(field));
        assert_eq!(got.field("Content-Length"), Some(&*body.len().to_string()));
        assert!(got.field("Age").is_some());
    }
    assert_eq!(ranges(&origin), [asks("bytes=-5", "")]);
    // Another part takes its place.
    origin.answer("/a", part(0, 5));
    for (asked, verdict, body) in [("0-5", "MISS", "012345"), ("4-5", "HIT", "45")] {
        assert_eq!(range(&site, "/a", asked), expected(206, verdict, body));
    }
    assert_eq!(ranges(&origin)[1..], [asks("bytes=0-5", "")]);
    // Several ranges, and what a client has already, are the origin's.
    for fields in ["Range: bytes=0-1,3-4\r\n", "Range: bytes=0-1\r\nIf-None-Match: \"2\"\r\n"] {
        let before = origin.count();
        site.ask("GET", "/a", fields);
        assert_eq!(origin.count(), before + 1, "{fields}");
    }
}

#[test]
fn a_part_is_never_taken_for_the_page() {
    let origin = Origin::start().unwrap();
    // It has all bytes but one; without a strong tag the rest is not asked for.
    for (path, etag) in [("/none", ""), ("/weak", "W/\"1\"")] {
        let add = |answer: Answer| if etag.is_empty() { answer } else { answer.field("ETag", etag) };
        origin.answer(path, add(part(0, 8)));
        origin.answer_then(path, add(whole()));
        let site = site(&origin);
        let before = origin.count();
        assert_eq!(range(&site, path, "0-8"), expected(206, "MISS", "012345678"));
        let page = site.get(path);
        assert_eq!((page.status, cached(&page), text(&page)), (200, "MISS", PAGE.to_owned()), "{path}");
        assert_eq!(page.field("Content-Range"), None);
        assert_eq!(ranges(&origin)[before..], [asks("bytes=0-8", ""), asks("", "")]);
        // From here on the page answers.
        assert_eq!(range(&site, path, "2-9"), expected(206, "HIT", "23456789"));
    }
}

#[test]
fn a_rest_with_a_cookie_or_in_another_coding_makes_no_page_for_all() {
    let origin = Origin::start().unwrap();
    let site = site(&origin);
    for (path, name, value, cookie) in
        [("/cookie", "Set-Cookie", "a=b", Some("a=b")), ("/coded", "Content-Encoding", "gzip", None)]
    {
        origin.answer(path, tagged(part(0, 3)));
        origin.answer_then(path, tagged(part(4, 9)).field(name, value));
        origin.answer_then(path, tagged(whole()));
        range(&site, path, "0-3");
        let page = site.get(path);
        assert_eq!((page.status, text(&page), page.field("Set-Cookie")), (200, PAGE.to_owned(), cookie), "{path}");
        let next = site.get(path);
        assert_eq!(
            (text(&next), next.field("Set-Cookie"), next.field("Content-Encoding")),
            (PAGE.to_owned(), None, None)
        );
    }
}

#[test]
fn a_page_is_completed_by_the_rest_of_its_part() {
    let origin = Origin::start().unwrap();
    let site = site(&origin);
    for (path, [first, last], rest, [from, to]) in
        [("/begins", [0, 3], "bytes=4-", [4, 9]), ("/ends", [6, 9], "bytes=0-5", [0, 5])]
    {
        let before = origin.count();
        origin.answer(path, tagged(part(first, last)).field("X-Old", "1").field("X-Both", "1"));
        origin.answer_then(path, tagged(part(from, to)).field("X-Both", "2"));
        range(&site, path, &format!("{first}-{last}"));
        let page = site.get(path);
        assert_eq!((page.status, cached(&page), text(&page)), (200, "MISS", PAGE.to_owned()), "{path}");
        let hit = site.get(path);
        assert_eq!((hit.status, cached(&hit), text(&hit)), (200, "HIT", PAGE.to_owned()), "{path}");
        for response in [&page, &hit] {
            assert_eq!(response.field("Content-Length"), Some("10"));
            assert_eq!(response.field("Content-Range"), None);
            // Those of the newer answer count (RFC 9111 §3.4).
            assert_eq!((response.field("X-Old"), response.field("X-Both")), (Some("1"), Some("2")));
        }
        assert_eq!(ranges(&origin)[before + 1..], [asks(rest, "\"1\"")], "{path}");
    }
    // One in the middle lacks two ranges.
    origin.answer("/middle", tagged(part(3, 5)));
    origin.answer_then("/middle", tagged(whole()));
    range(&site, "/middle", "3-5");
    assert_eq!(text(&site.get("/middle")), PAGE);
    assert_eq!(ranges(&origin).last(), Some(&asks("", "")));
}

#[test]
fn who_comes_while_a_page_is_completed_gets_it_too() {
    let mut origin = HandOrigin::start().unwrap();
    let site = Setup::new().one_worker().name("ORIGIN", origin.address()).start(SITE);
    let mut client = site.client();
    client.send(b"GET /a HTTP/1.1\r\nHost: site.test\r\nRange: bytes=0-3\r\n\r\n").unwrap();
    let mut fetch = origin.accept().unwrap();
    fetch.request().unwrap().unwrap();
    let head = "HTTP/1.1 206 Partial Content\r\nETag: \"1\"\r\nCache-Control: max-age=60\r\n";
    fetch.send(format!("{head}Content-Range: bytes 0-3/10\r\nContent-Length: 4\r\n\r\n0123")).unwrap();
    assert_eq!(text(&client.read_response("GET").unwrap()), "0123");
    client.send(b"GET /a HTTP/1.1\r\nHost: site.test\r\n\r\n").unwrap();
    let mut fetch = origin.accept().unwrap();
    let rest = fetch.request().unwrap().unwrap();
    assert_eq!((rest.field("Range"), rest.field("If-Range")), (Some("bytes=4-"), Some("\"1\"")));
    fetch.send(format!("{head}Content-Range: bytes 4-9/10\r\nContent-Length: 6\r\n\r\n45")).unwrap();
    let mut second = site.client();
    assert_eq!(client.read_head().unwrap().status, 200);
    assert_eq!(client.read_bytes(6).unwrap(), b"012345", "what is there goes out");
    second.send(b"GET /a HTTP/1.1\r\nHost: site.test\r\n\r\n").unwrap();
    fetch.send("6789").unwrap();
    assert_eq!(client.read_bytes(4).unwrap(), b"6789");
    let got = second.read_response("GET").unwrap();
    assert_eq!((got.status, text(&got)), (200, PAGE.to_owned()));
    second.send(b"GET /a HTTP/1.1\r\nHost: site.test\r\n\r\n").unwrap();
    assert_eq!(cached(&second.read_response("GET").unwrap()), "HIT");
    assert!(origin.try_accept().unwrap().is_none());
}

#[test]
fn a_rest_that_breaks_off_is_no_page_and_leaves_the_part() {
    let mut origin = HandOrigin::start().unwrap();
    let site = Setup::new().one_worker().name("ORIGIN", origin.address()).start(SITE);
    let mut client = site.client();
    client.send(b"GET /a HTTP/1.1\r\nHost: site.test\r\nRange: bytes=0-3\r\n\r\n").unwrap();
    let mut fetch = origin.accept().unwrap();
    fetch.request().unwrap().unwrap();
    let head = "HTTP/1.1 206 Partial Content\r\nETag: \"1\"\r\nCache-Control: max-age=60\r\n";
    fetch.send(format!("{head}Content-Range: bytes 0-3/10\r\nContent-Length: 4\r\n\r\n0123")).unwrap();
    assert_eq!(text(&client.read_response("GET").unwrap()), "0123");
    client.send(b"GET /a HTTP/1.1\r\nHost: site.test\r\n\r\n").unwrap();
    let mut fetch = origin.accept().unwrap();
    fetch.request().unwrap().unwrap();
    fetch.send(format!("{head}Content-Range: bytes 4-9/10\r\nContent-Length: 6\r\n\r\n45")).unwrap();
    drop(fetch);
    assert_eq!(client.read_head().unwrap().status, 200);
    assert_eq!(client.read_bytes(10).unwrap(), b"012345", "then the connection closes");
    assert_eq!(range(&site, "/a", "1-2"), expected(206, "HIT", "12"));
    site.client().send(b"GET /a HTTP/1.1\r\nHost: site.test\r\n\r\n").unwrap();
    let rest = origin.accept().unwrap().request().unwrap().unwrap();
    assert_eq!(rest.field("Range"), Some("bytes=4-"), "and the part may be completed once more");
}

#[test]
fn a_rest_of_another_page_is_not_joined() {
    let origin = Origin::start().unwrap();
    let site = site(&origin);
    let other = |answer: Answer| answer.field("ETag", "\"2\"");
    let longer = Answer::status("206 Partial Content").field("Content-Range", "bytes 4-10/11").body("4567890");
    let not_it = Answer::status("206 Partial Content").field("Content-Range", "bytes 5-9/10").body("56789");
    let cut = Answer::status("206 Partial Content").field("Content-Range", "bytes 4-9/10").body("4567");
    let beyond = Answer::status("416 Range Not Satisfiable").field("Content-Range", "bytes */3").body("");
    for (path, answer) in [
        ("/tag", other(part(4, 9))),
        ("/untold", part(4, 9)),
        ("/weak", part(4, 9).field("ETag", "W/\"1\"")),
        ("/longer", tagged(longer)),
        ("/not-it", tagged(not_it)),
        ("/cut", tagged(cut)),
        ("/beyond", beyond),
    ] {
        let before = origin.count();
        origin.answer(path, tagged(part(0, 3)));
        origin.answer_then(path, answer);
        origin.answer_then(path, other(Answer::ok("new").field("Cache-Control", "max-age=3600")));
        range(&site, path, "0-3");
        let page = site.get(path);
        assert_eq!((page.status, text(&page), page.field("ETag")), (200, "new".to_owned(), Some("\"2\"")), "{path}");
        assert_eq!(ranges(&origin)[before + 1..], [asks("bytes=4-", "\"1\""), asks("", "")], "{path}");
        assert_eq!(cached(&site.get(path)), "HIT", "{path}");
        // The part is no more.
        assert_eq!(range(&site, path, "0-1"), expected(206, "HIT", "ne"), "{path}");
    }
    // The origin says itself that it is another page.
    origin.answer("/told", tagged(part(0, 3)));
    origin.answer_then("/told", other(whole()));
    range(&site, "/told", "0-3");
    assert_eq!(text(&site.get("/told")), PAGE);
}

#[test]
fn what_a_206_says_has_to_agree_with_its_body() {
    let origin = Origin::start().unwrap();
    let site = site(&origin);
    let odd = |field: &str| {
        let answer = Answer::status("206 Partial Content").field("Cache-Control", "max-age=3600");
        if field.is_empty() { answer } else { answer.field("Content-Range", field) }.body("56789")
    };
    for (path, field) in [
        ("/longer", "bytes 4-9/10"),
        ("/shorter", "bytes 6-9/10"),
        ("/no-total", "bytes 5-9/*"),
        ("/backwards", "bytes 9-5/10"),
        ("/beyond", "bytes 5-9/9"),
        ("/huge", "bytes 5-18446744073709551619/18446744073709551620"),
        ("/absent", ""),
    ] {
        origin.answer(path, odd(field));
        for _ in 0..2 {
            assert_eq!(range(&site, path, "-5"), expected(206, "MISS", "56789"), "{path}");
        }
    }
}

#[test]
fn an_answer_that_is_no_part_is_the_page() {
    let origin = Origin::start().unwrap();
    let site = site(&origin);
    origin.answer("/a", whole());
    assert_eq!(range(&site, "/a", "2-3"), expected(206, "MISS", "23"));
    assert_eq!(cached(&site.get("/a")), "HIT");
    origin
        .answer("/beyond", Answer::status("416 Range Not Satisfiable").field("Cache-Control", "max-age=60").body("-"));
    origin.answer_then("/beyond", whole());
    assert_eq!(range(&site, "/beyond", "20-"), expected(416, "MISS", "-"));
    assert_eq!(text(&site.get("/beyond")), PAGE);
    // Where ranges do not go on, the page is fetched whole, as ever.
    origin.answer("/whole/a", whole());
    assert_eq!(range(&site, "/whole/a", "2-3"), expected(206, "MISS", "23"));
    assert_eq!(ranges(&origin).last(), Some(&asks("", "")));
    // And with nginx's directives alone the answer to a range is passed on.
    origin.answer("/nginx/a", part(2, 3));
    for _ in 0..2 {
        assert_eq!(range(&site, "/nginx/a", "2-3"), expected(206, "MISS", "23"));
    }
}

#[test]
fn purges_hold_for_parts() {
    let origin = Origin::start().unwrap();
    let site = site(&origin);
    origin.answer("/a", tagged(part(0, 3)).field("X-Tags", "news"));
    for (method, path, fields, after) in [
        ("PURGE", "/a", "", "MISS"),
        ("PURGE", "/a", "X-Purge-Method: prefix\r\n", "MISS"),
        ("PURGE", "/", "X-Purge-Method: all\r\n", "MISS"),
        ("PURGEKEYS", "/", "xkey-purge: news\r\n", "MISS"),
        ("PURGE", "/a", "Fastly-Soft-Purge: 1\r\n", "EXPIRED"),
        ("PURGEKEYS", "/", "xkey-softpurge: news\r\n", "EXPIRED"),
        ("PURGEKEYS", "/", "xkey-purge: sports\r\n", "HIT"),
    ] {
        site.ask("PURGE", "/a", "");
        assert_eq!(["", ""].map(|_| range(&site, "/a", "0-1").1), ["MISS", "HIT"]);
        assert_eq!(site.ask(method, path, fields).status, 200, "{method} {path} {fields}");
        assert_eq!(range(&site, "/a", "0-1").1, after, "{method} {path} {fields}");
    }
    // What makes a page invalid makes its part invalid.
    origin.answer("/b", part(0, 3));
    range(&site, "/b", "0-1");
    site.ask("POST", "/b", "Content-Length: 0\r\n");
    assert_eq!(range(&site, "/b", "0-1").1, "MISS");
    // Nor is what was purged completed.
    site.ask("PURGE", "/a", "");
    origin.answer("/a", whole());
    assert_eq!(text(&site.get("/a")), PAGE);
    assert_eq!(ranges(&origin).last(), Some(&asks("", "")));
}

#[test]
fn a_part_has_its_time_and_its_variants() {
    let origin = Origin::start().unwrap();
    let site = site(&origin);
    let stale = || {
        Answer::status("206 Partial Content")
            .field("Content-Range", "bytes 2-5/10")
            .field("Cache-Control", "no-cache")
            .field("ETag", "\"1\"")
            .body("2345")
    };
    origin.answer("/stale", stale());
    origin.answer_then("/stale", Answer::status("304 Not Modified").field("ETag", "\"1\"").field("X-New", "1"));
    assert_eq!(range(&site, "/stale", "2-5").1, "MISS");
    let confirmed = site.ask("GET", "/stale", "Range: bytes=3-4\r\n");
    assert_eq!((confirmed.status, cached(&confirmed), text(&confirmed)), (206, "REVALIDATED", "34".to_owned()));
    assert_eq!((confirmed.field("Content-Range"), confirmed.field("X-New")), (Some("bytes 3-4/10"), Some("1")));
    let asked = &origin.requests()[1];
    assert_eq!((asked.field("If-None-Match"), asked.field("Range")), (Some("\"1\""), Some("bytes=3-4")));

    origin.answer("/vary", part(0, 3).field("Vary", "Accept-Language"));
    let in_language = |language: &str| {
        let fields = format!("Range: bytes=0-1\r\nAccept-Language: {language}\r\n");
        cached(&site.ask("GET", "/vary", &fields)).to_owned()
    };
    assert_eq!(["de", "de", "en"].map(in_language), ["MISS", "HIT", "MISS"]);

    // A client with another version of the page gets none of the stored one.
    origin.answer("/if", tagged(part(0, 3)));
    range(&site, "/if", "0-3");
    let before = origin.count();
    for (tag, more) in [("\"1\"", 0), ("\"0\"", 1), ("W/\"1\"", 2)] {
        site.ask("GET", "/if", &format!("Range: bytes=0-1\r\nIf-Range: {tag}\r\n"));
        assert_eq!(origin.count(), before + more, "{tag}");
    }
    // What a request asks of caches counts.
    origin.answer("/asks", tagged(part(0, 3)));
    let absent = site.ask("GET", "/asks", "Range: bytes=0-1\r\nCache-Control: only-if-cached\r\n");
    assert_eq!(absent.status, 504);
    range(&site, "/asks", "0-3");
    let there = site.ask("GET", "/asks", "Range: bytes=0-1\r\nCache-Control: only-if-cached\r\n");
    assert_eq!((there.status, text(&there)), (206, "01".to_owned()));
    let absent = site.ask("GET", "/asks", "Range: bytes=0-5\r\nCache-Control: only-if-cached\r\n");
    assert_eq!(absent.status, 504, "it is not all there");
    // And what a response forbids.
    origin.answer(
        "/private",
        Answer::status("206 Partial Content")
            .field("Content-Range", "bytes 0-3/10")
            .field("Cache-Control", "private, max-age=60")
            .body("0123"),
    );
    for _ in 0..2 {
        assert_eq!(range(&site, "/private", "0-1").1, "MISS");
    }
}

#[test]
fn a_part_on_disk_is_a_part_after_a_restart_and_after_a_crash() {
    let origin = Origin::start().unwrap();
    let mut site = site(&origin);
    origin.answer("/a", tagged(part(0, 3)));
    origin.answer_then("/a", tagged(whole()));
    range(&site, "/a", "0-3");
    site = site.restart();
    let got = loop {
        // The shelf may still be reading what it has: what is fetched then is the page.
        let got = site.ask("GET", "/a", "Range: bytes=1-2\r\nCache-Control: only-if-cached\r\n");
        if got.status != 504 {
            break got;
        }
        std::thread::yield_now();
    };
    assert_eq!((got.status, cached(&got), text(&got)), (206, "HIT", "12".to_owned()));
    site = site.crash();
    let page = site.get("/a");
    assert_eq!((page.status, cached(&page), text(&page)), (200, "MISS", PAGE.to_owned()));
}

#[test]
fn a_range_far_ahead_of_a_fetch_is_fetched_once() {
    const TOTAL: usize = 3 << 20;
    let mut origin = HandOrigin::start().unwrap();
    let site = Setup::new().one_worker().name("ORIGIN", origin.address()).start(SITE);
    let mut first = site.client();
    first.send(b"GET /whole/film HTTP/1.1\r\nHost: site.test\r\n\r\n").unwrap();
    let mut fetch = origin.accept().unwrap();
    fetch.request().unwrap().unwrap();
    let head = "ETag: \"1\"\r\nAccept-Ranges: bytes\r\nCache-Control: max-age=60\r\n";
    fetch.send(format!("HTTP/1.1 200 OK\r\n{head}Content-Length: {TOTAL}\r\n\r\n0123")).unwrap();
    assert_eq!(first.read_head().unwrap().status, 200);
    let far = b"GET /whole/film HTTP/1.1\r\nHost: site.test\r\nRange: bytes=2000000-2000003\r\n\r\n";
    assert_eq!(first.read_bytes(4).unwrap(), b"0123", "larder has seen what is there");
    let mut second = site.client();
    second.send(far).unwrap();
    let mut ranged = origin.accept().unwrap();
    assert_eq!(ranged.request().unwrap().unwrap().field("Range"), Some("bytes=2000000-2000003"));
    let field = format!("Content-Range: bytes 2000000-2000003/{TOTAL}\r\nContent-Length: 4\r\n\r\nfilm");
    ranged.send(format!("HTTP/1.1 206 Partial Content\r\n{head}{field}")).unwrap();
    let got = second.read_response("GET").unwrap();
    assert_eq!((got.status, cached(&got), text(&got)), (206, "MISS", "film".to_owned()));
    for _ in 0..2 {
        second.send(far).unwrap();
        let got = second.read_response("GET").unwrap();
        assert_eq!((got.status, cached(&got), text(&got)), (206, "HIT", "film".to_owned()));
    }
    assert!(origin.try_accept().unwrap().is_none());
}

#[test]
fn a_hit_is_changed_as_the_answer_was() {
    let origin = Origin::start().unwrap();
    let site = site(&origin);
    origin.answer("/changed/a", part(0, 3).field("Content-Type", "text/html"));
    let fields = "Range: bytes=0-3\r\nAccept-Encoding: gzip\r\n";
    let first = site.ask("GET", "/changed/a", fields);
    let hit = site.ask("GET", "/changed/a", fields);
    assert_eq!((cached(&first), cached(&hit)), ("MISS", "HIT"));
    for name in ["Content-Range", "Content-Type", "Content-Encoding", "Content-Length"] {
        assert_eq!(first.field(name), hit.field(name), "{name}");
    }
    assert_eq!((first.status, text(&first)), (hit.status, text(&hit)));
}
