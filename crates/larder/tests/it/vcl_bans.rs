//! Bans by a VCL: which pages are out of date, and which stay.

use std::thread;

use larder_testkit::{Answer, Origin};

use crate::site::{Setup, Site, text};

/// A site whose pages are in memory and on a disk, and whose clients may ban by `BAN`, with `X-Ban` as the expression.
fn site(origin: &Origin, subs: &str) -> Site {
    let recv = "sub vcl_recv {
        if (req.method == \"BAN\") {
            if (std.ban(req.http.X-Ban)) { return (synth(200, \"banned\")); }
            return (synth(400, std.ban_error()));
        }
    }";
    Setup::new()
        .name("ORIGIN", origin.address())
        .file("site.vcl", format!("vcl 4.1;\nimport std;\n{subs}\n{recv}"))
        .start(
            "proxy_cache_path {DIR}/pages keys_zone=pages:1m;
             server { listen 127.0.0.1:{PORT}; vcl {DIR}/site.vcl;
             location / { proxy_pass http://{ORIGIN}; proxy_cache pages; } }",
        )
}

/// An origin with two pages, each with a tag.
fn origin() -> Origin {
    let origin = Origin::start().expect("a port is free");
    for (path, tag) in [("/a", "red"), ("/b", "blue")] {
        origin.answer(path, Answer::ok("page").field("X-Tags", tag));
    }
    origin
}

#[test]
fn the_pages_that_a_ban_means_are_fetched_again_and_others_are_not() {
    for (ban, fetched) in [
        ("req.url ~ ^/a", ["/a"].as_slice()),
        ("req.url == /b && obj.http.x-tags == blue", &["/b"]),
        ("obj.http.x-tags ~ red", &["/a"]),
        ("obj.http.x-tags ~ red && obj.http.x-tags ~ blue", &[]),
        ("obj.status == 200", &["/a", "/b"]),
        ("obj.age > 1h", &[]),
        ("obj.ttl < 1h && req.http.host ~ .", &["/a", "/b"]),
        ("obj.http.none != x", &["/a", "/b"]),
    ] {
        let origin = origin();
        let site = site(&origin, "");
        for path in ["/a", "/b"] {
            site.ask("GET", path, "");
        }
        assert_eq!(site.ask("BAN", "/", &format!("X-Ban: {ban}\r\n")).status, 200, "{ban}");
        for path in ["/a", "/b", "/a", "/b"] {
            assert_eq!(text(&site.ask("GET", path, "")), "page", "{ban}");
        }
        let again: Vec<String> = origin
            .requests()
            .iter()
            .skip(2)
            .map(|seen| seen.request_line.split(' ').nth(1).unwrap_or_default().to_owned())
            .collect();
        assert_eq!(again, fetched, "{ban}");
    }
}

#[test]
fn a_ban_that_is_wrong_is_told_and_bans_nothing() {
    let origin = origin();
    let site = site(&origin, "sub vcl_deliver { ban(\"req.url ~ (\"); set resp.http.X-Hits = obj.hits; }");
    for (ban, expected) in [
        ("req.method == GET", "Unknown or unsupported field \"req.method\""),
        ("req.url ~ a b", "Expected && between conditions, found \"b\""),
        ("req.url ~ (", "Regex compile error: missing closing parenthesis"),
        ("obj.age > soon", "expected duration <n.nn>[ms|s|m|h|d|w|y] got \"soon\""),
    ] {
        let response = site.ask("BAN", "/", &format!("X-Ban: {ban}\r\n"));
        assert!(response.status_line.contains(&format!(" 400 {expected}")), "{ban}: {}", response.status_line);
    }
    assert_eq!(
        [0, 1].map(|_| site.ask("GET", "/a", "").field("X-Hits").map(str::to_owned)),
        [Some("0".into()), Some("1".into())]
    );
    assert!(site.server().error_log().contains("ban(): Regex compile error"));
}

#[test]
fn a_page_on_its_way_is_banned_unless_its_own_fetch_bans() {
    for (subs, by_hand, hits) in
        [("", true, "0"), ("sub vcl_backend_response { ban(\"obj.http.x-tags == red\"); }", false, "1")]
    {
        let origin = origin();
        let hold = origin.hold("/slow");
        origin.answer("/slow", Answer::ok("page").field("X-Tags", "red"));
        let site = site(&origin, &format!("{subs} sub vcl_deliver {{ set resp.http.X-Hits = obj.hits; }}"));
        thread::scope(|scope| {
            let first = scope.spawn(|| site.ask("GET", "/slow", ""));
            assert!(origin.wait_for(1), "the page is being fetched");
            if by_hand {
                site.ask("BAN", "/", "X-Ban: obj.http.x-tags == red\r\n");
            }
            drop(hold);
            assert_eq!(first.join().expect("it is answered").status, 200);
        });
        assert_eq!(site.ask("GET", "/slow", "").field("X-Hits"), Some(hits), "{subs}");
    }
}

#[test]
fn variants_are_banned_one_by_one_with_what_the_request_says() {
    let origin = Origin::start().expect("a port is free");
    origin.answer("/", Answer::ok("page").field("Vary", "X-Version"));
    let site = site(&origin, "");
    let ask = |version: &str| site.ask("GET", "/", &format!("X-Version: {version}\r\n"));
    for version in ["1", "2"] {
        ask(version);
    }
    site.ask("BAN", "/", "X-Ban: req.http.x-version == 1\r\n");
    for version in ["2", "1", "2", "1"] {
        ask(version);
    }
    let asked: Vec<_> = origin.requests().iter().map(|seen| seen.field("X-Version").map(str::to_owned)).collect();
    assert_eq!(asked, ["1", "2", "1"].map(|version| Some(version.to_owned())));
}
