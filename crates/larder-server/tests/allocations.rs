//! A hit allocates nothing, and a passed request little. A hit: neither with a plain key nor with the rules of a WordPress recipe, logged or not, compressed
//! or not, over HTTP/1 or HTTP/2. That also tells whether the fields of a page were laid out before, as a field that
//! `add_header` adds to others is allocated.
//!
//! In a test binary of its own, as the counting allocator counts for the whole process.

use std::alloc::System;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[path = "../benches/site/mod.rs"]
mod site;

use site::{Blocks, Keep, KeepFrames, PAGE_BYTES, Site};

#[global_allocator]
static COUNTING: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// One test at a time: the allocator counts for all.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Hits in one measurement.
const HITS: usize = 500;
/// How often it is measured: the house-keeping of a worker, every quarter of a second, may fall into one.
const ROUNDS: usize = 8;

#[test]
fn a_hit_allocates_nothing() {
    let _alone = alone();
    for (name, bytes, http, location) in [
        ("a plain key", PAGE_BYTES, "access_log off;", ""),
        ("a page in the memory file", 100_000, "access_log off;", ""),
        ("a status in a field", PAGE_BYTES, "access_log off;", "add_header X-Cache $upstream_cache_status;"),
        (
            "the rules of a recipe",
            PAGE_BYTES,
            "access_log off; map $http_cookie $in { default 0; ~logged_in 1; }",
            RECIPE,
        ),
        // The client has a cookie of analytics.
        ("a profile", PAGE_BYTES, "access_log off; larder_profile woocommerce;", ""),
        ("a page compressed once", PAGE_BYTES, "access_log off; gzip on; gzip_vary on;", ""),
        (
            "an access log",
            PAGE_BYTES,
            "log_format l '$remote_addr [$time_local] \"$request\" $status $body_bytes_sent'; access_log /dev/null l;",
            "",
        ),
    ] {
        let site = Site::start(bytes, http, location);
        let mut client = Keep::connect(site.port());
        assert_eq!(fewest(|hits| client.get(hits)), 0, "{name}: allocations in {HITS} hits");
        let mut client = KeepFrames::connect(site.port(), bytes);
        assert_eq!(fewest(|hits| client.get(hits)), 0, "{name}: allocations in {HITS} hits over HTTP/2");
    }
}

#[test]
fn a_hit_through_a_vcl_allocates_nothing() {
    let _alone = alone();
    for (name, vcl) in [
        // The client has a cookie, with which the builtin VCL passes it.
        ("the builtin one", "vcl 4.1; sub vcl_recv { unset req.http.Cookie; }"),
        (
            "that of a site",
            "vcl 4.1;
             sub vcl_recv { unset req.http.Cookie; if (req.url ~ \"^/admin\") { return (pass); } }
             sub vcl_deliver { set resp.http.X-Cache = \"HIT\"; unset resp.http.Via; }",
        ),
        (
            "that of a shop",
            "vcl 4.1;
             import std;
             acl known { \"127.0.0.2\"; \"10.0.0.0\"/8; }
             sub vcl_recv {
                 if (client.ip ~ known || req.method != \"GET\") { return (pass); }
                 if (std.healthy(req.backend_hint)) { set req.grace = 1m; set req.http.grace = \"short\"; }
                 set req.url = regsub(req.url, \"^http[s]?://\", \"\");
                 std.collect(req.http.Cookie, \";\");
                 if (req.url ~ \"(\\?|&)(gclid|utm_[a-z]+)=\") { set req.url = regsuball(req.url, \"gclid=[^&]+\", \"\"); }
                 unset req.http.Cookie;
                 return (hash);
             }
             sub vcl_hash { if (req.http.cookie ~ \"vary=\") { hash_data(req.http.cookie); } hash_data(req.http.X-Forwarded-Proto); }
             sub vcl_hit { if (obj.ttl >= 0s) { return (deliver); } }
             sub vcl_deliver {
                 if (obj.hits) { set resp.http.X-Cache = \"HIT\"; set resp.http.Grace = req.http.grace; }
                 if (resp.http.Cache-Control !~ \"private\") { set resp.http.Cache-Control = \"no-store, no-cache\"; }
                 unset resp.http.Age;
                 unset resp.http.X-Varnish;
                 unset resp.http.Via;
             }",
        ),
    ] {
        let blocks = Blocks { http: "access_log off;", vcl, ..Blocks::default() };
        let site = Site::with(PAGE_BYTES, blocks);
        let mut client = Keep::connect(site.port());
        assert_eq!(fewest(|hits| client.get(hits)), 0, "{name}: allocations in {HITS} hits");
    }
}

#[test]
fn a_hit_allocates_nothing_wherever_the_page_was_laid_out() {
    let _alone = alone();
    let blocks = Blocks {
        http: "access_log off;",
        location: "add_header X-Site one; add_header X-Cache $upstream_cache_status;",
        other: "add_header X-Site two;",
        ..Blocks::default()
    };
    let site = Site::with(PAGE_BYTES, blocks);
    let assert_none = |what: &str| {
        for (port, name) in [(site.port(), "the site"), (site.other_port(), "the other")] {
            let mut client = Keep::connect(port);
            assert_eq!(fewest(|hits| client.get(hits)), 0, "{what}: allocations in {HITS} hits of {name}");
            let mut client = KeepFrames::connect(port, PAGE_BYTES);
            assert_eq!(fewest(|hits| client.get(hits)), 0, "{what}: allocations in {HITS} hits of {name} over HTTP/2");
        }
    };
    assert_none("another add_header");
    site.reload(Blocks { location: "add_header X-Site three; add_header X-Cache $upstream_cache_status;", ..blocks });
    while !Keep::connect(site.port()).get_has("X-Site: three") {}
    assert!(Keep::connect(site.port()).get_has("X-Cache: HIT"), "pages outlive a reload");
    assert_none("after a reload");
}

#[test]
fn a_location_that_lays_each_hit_out_leaves_the_room_to_others() {
    let _alone = alone();
    let site = Site::with(
        PAGE_BYTES,
        Blocks {
            http: "access_log off;",
            location: "charset utf-8;",
            other: "add_header X-Site two;",
            ..Blocks::default()
        },
    );
    Keep::connect(site.port()).get(2);
    let mut client = Keep::connect(site.other_port());
    assert_eq!(fewest(|hits| client.get(hits)), 0, "allocations in {HITS} hits");
}

#[test]
fn a_hit_allocates_nothing_after_a_304() {
    let _alone = alone();
    let blocks = Blocks {
        http: "access_log off; proxy_cache_revalidate on;",
        location: "add_header X-Cache $upstream_cache_status;",
        origin: "if ($http_if_none_match) { add_header X-Accel-Expires 3600; return 304; }
                 add_header ETag '\"1\"'; add_header X-Accel-Expires @1;",
        ..Blocks::default()
    };
    // What is hidden after the reload is laid out by the 304, not at every hit from then on.
    for reloaded in ["", "proxy_hide_header X-Powered-By;"] {
        let site = Site::with(PAGE_BYTES, blocks);
        assert!(Keep::connect(site.port()).get_has("X-Cache: MISS"));
        let location = format!("{} {reloaded}", blocks.location);
        site.reload(Blocks { location: &location, other: "add_header X-Site two; return 200 x;", ..blocks });
        while !Keep::connect(site.other_port()).get_has("X-Site: two") {}
        let mut client = Keep::connect(site.port());
        assert!(client.get_has("X-Cache: REVALIDATED"));
        assert!(client.get_has("X-Cache: HIT"), "a 304 freshened it");
        assert_eq!(fewest(|hits| client.get(hits)), 0, "{reloaded}: allocations in {HITS} hits");
        let mut client = KeepFrames::connect(site.port(), PAGE_BYTES);
        assert_eq!(fewest(|hits| client.get(hits)), 0, "{reloaded}: allocations in {HITS} hits over HTTP/2");
    }
}

#[test]
fn a_hit_under_other_rules_is_laid_out_anew() {
    let _alone = alone();
    let site = Site::with(
        PAGE_BYTES,
        Blocks {
            http: "access_log off;",
            other: "add_header X-Site two; proxy_hide_header X-Powered-By;",
            ..Blocks::default()
        },
    );
    Keep::connect(site.port()).get(1);
    let mut client = Keep::connect(site.other_port());
    assert_ne!(fewest(|hits| client.get(hits)), 0, "there is room for what one of the two made");
}

/// What a passed request may allocate, an answer of 1 KB by kept connections. The numbers are what it does allocate.
#[test]
fn a_passed_request_allocates_little() {
    let _alone = alone();
    let http = origin(b"\r\n\r\n", &http_answer());
    let php = origin(&[1, 5, 0, 1, 0, 0, 0, 0], &fastcgi_answer());
    let upstream = format!(
        "access_log off; upstream http {{ server 127.0.0.1:{http}; keepalive 4; keepalive_requests 1000000; }}
         upstream php {{ server 127.0.0.1:{php}; keepalive 4; keepalive_requests 1000000; }}
         upstream gated {{ server 127.0.0.1:{php}; keepalive 4; keepalive_requests 1000000; larder_gate 4; }}"
    );
    for (name, most, location) in [
        ("by HTTP", 5, "proxy_pass http://http; proxy_http_version 1.1; proxy_set_header Connection '';"),
        (
            "by FastCGI",
            6,
            "fastcgi_pass php; fastcgi_keep_conn on; fastcgi_param SCRIPT_FILENAME /srv$uri;
             fastcgi_param REQUEST_METHOD $request_method; fastcgi_param QUERY_STRING $query_string;
             fastcgi_param REMOTE_ADDR $remote_addr; fastcgi_param SERVER_PROTOCOL $server_protocol;",
        ),
        (
            "by FastCGI through a gate",
            6,
            "fastcgi_pass gated; fastcgi_keep_conn on; fastcgi_param SCRIPT_FILENAME /srv$uri;
             fastcgi_param REQUEST_METHOD $request_method; fastcgi_param QUERY_STRING $query_string;
             fastcgi_param REMOTE_ADDR $remote_addr; fastcgi_param SERVER_PROTOCOL $server_protocol;",
        ),
    ] {
        let server = format!("location /2026/ {{ {location} }}");
        let site = Site::with(PAGE_BYTES, Blocks { http: &upstream, server: &server, ..Blocks::default() });
        let mut client = Keep::connect(site.port());
        let each = fewest(|requests| client.get(requests)) as f64 / HITS as f64;
        assert!(each <= f64::from(most), "{name}: {each} allocations a request, of which {most} are allowed");
    }
}

fn http_answer() -> Vec<u8> {
    let head = "HTTP/1.1 200 OK\r\nServer: nginx\r\nDate: Sun, 22 Nov 2026 10:00:00 GMT\r\nContent-Type: text/html\r\n\
                Content-Length: 1024\r\nLast-Modified: Sun, 22 Nov 2026 09:00:00 GMT\r\nConnection: keep-alive\r\n\
                ETag: \"65f-400\"\r\nAccept-Ranges: bytes\r\n\r\n";
    [head.as_bytes(), &[b'x'; PAGE_BYTES]].concat()
}

fn fastcgi_answer() -> Vec<u8> {
    let head = "X-Powered-By: PHP/8.2\r\nContent-type: text/html; charset=UTF-8\r\nContent-Length: 1024\r\n\r\n";
    let len = (head.len() + PAGE_BYTES) as u16;
    let padding = len.wrapping_neg() % 8;
    let mut answer = vec![1, 6, 0, 1, (len >> 8) as u8, len as u8, padding as u8, 0];
    answer.extend_from_slice(head.as_bytes());
    answer.resize(answer.len() + PAGE_BYTES + usize::from(padding), b'x');
    answer.extend_from_slice(&[1, 3, 0, 1, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    answer
}

/// An origin that answers each request, which ends with `end`, with `answer`, and allocates nothing for it.
fn origin(end: &'static [u8], answer: &[u8]) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let port = listener.local_addr().expect("it is bound").port();
    let answer: Arc<[u8]> = answer.into();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, answer) = (stream.expect("it accepts"), Arc::clone(&answer));
            thread::spawn(move || {
                let mut buffer = vec![0; 64 * 1024];
                let mut held = 0;
                while let Ok(read @ 1..) = stream.read(&mut buffer[held..]) {
                    held += read;
                    if buffer[..held].ends_with(end) {
                        held = 0;
                        if stream.write_all(&answer).is_err() {
                            return;
                        }
                    }
                }
            });
        }
    });
    port
}

#[test]
fn a_small_file_allocates_nothing() {
    let _alone = alone();
    // A file that nobody has written to for a while: one that this test is made of.
    let root = env!("CARGO_MANIFEST_DIR");
    let request = b"GET /src/lib.rs HTTP/1.1\r\nHost: example.org\r\nAccept-Encoding: gzip\r\n\r\n";
    for files in ["", "open_file_cache max=10;", "etag off;"] {
        let site = Site::start(PAGE_BYTES, "access_log off;", &format!("location /src/ {{ root {root}; {files} }}"));
        let mut client = Keep::connect(site.port());
        assert_eq!(fewest(|count| client.send(request, count)), 0, "{files}: allocations in {HITS} files");
    }
}

/// The fewest allocations that this many hits made.
fn fewest(mut get: impl FnMut(usize)) -> usize {
    get(1000);
    let count = |_| {
        let region = Region::new(COUNTING);
        get(HITS);
        region.change().allocations
    };
    (0..ROUNDS).map(count).min().unwrap_or(usize::MAX)
}

const RECIPE: &str = r#"
    set $skip 0;
    if ($request_method = POST) { set $skip 1; }
    if ($query_string != "") { set $skip 1; }
    if ($request_uri ~* "/wp-admin/|/xmlrpc.php|wp-.*.php|/feed/|index.php|sitemap(_index)?.xml") { set $skip 1; }
    if ($http_cookie ~* "comment_author|wordpress_[a-f0-9]+|wp-postpass|wordpress_no_cache|wordpress_logged_in") { set $skip 1; }
    proxy_cache_bypass $skip $in;
    proxy_no_cache $skip $in;
"#;
