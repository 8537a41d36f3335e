//! A hit allocates nothing: neither with a plain key nor with the rules of a WordPress recipe, logged or not, compressed
//! or not, over HTTP/1 or HTTP/2.
//!
//! In a test binary of its own, as the counting allocator counts for the whole process.

use std::alloc::System;

use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[path = "../benches/site/mod.rs"]
mod site;

use site::{Keep, KeepFrames, PAGE_BYTES, Site};

#[global_allocator]
static COUNTING: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Hits in one measurement.
const HITS: usize = 500;
/// How often it is measured: the house-keeping of a worker, every quarter of a second, may fall into one.
const ROUNDS: usize = 8;

#[test]
fn a_hit_allocates_nothing() {
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
