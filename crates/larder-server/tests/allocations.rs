//! A hit allocates nothing: neither with a plain key nor with the rules of a WordPress recipe, logged or not, compressed
//! or not, over HTTP/1 or HTTP/2. That also tells whether the fields of a page were laid out before, as a field that
//! `add_header` adds to others is allocated.
//!
//! In a test binary of its own, as the counting allocator counts for the whole process.

use std::alloc::System;
use std::sync::{Mutex, MutexGuard, PoisonError};

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
