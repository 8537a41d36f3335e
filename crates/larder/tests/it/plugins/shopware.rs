//! Shopware 6: `VarnishReverseProxyGateway`, and the gateway with Redis of older versions.

use super::{Cached, Page};

/// As the VCL of shopware/varnish-shopware: tags by xkey, pages by `return (purge)`, and all by a ban.
const XKEY: &str = r#"
import xkey;
sub vcl_recv {
    if (req.method == "PURGE") {
        if (client.ip !~ purgers) { return (synth(403, "Forbidden")); }
        if (req.http.xkey) {
            set req.http.n-gone = xkey.purge(req.http.xkey);
            return (synth(200, "Invalidated " + req.http.n-gone + " objects"));
        }
        return (purge);
    }
    if (req.method == "BAN") {
        if (!client.ip ~ purgers) { return (synth(403, "Forbidden")); }
        ban("req.url ~ " + req.url);
        return (synth(200, "BAN URLs containing (" + req.url + ") done."));
    }
}
sub vcl_backend_response { set beresp.grace = 3d; }
sub vcl_deliver { unset resp.http.xkey; }
"#;

pub const SHOP: &[Page] = &[
    ("shop.example", "/", &["xkey: navigation-route-a1 cms-page-7 product-12"]),
    ("shop.example", "/bag", &["xkey: product-1 product-listing-route-a1"]),
    ("shop.example", "/hat", &["xkey: product-12"]),
    ("shop.example", "/hat?variant=2", &["xkey: product-12 product-13"]),
    ("shop.example", "/imprint", &[]),
];

pub fn purge(method: &str, target: &str, fields: &str) -> String {
    format!("{method} {target} HTTP/1.1\nHost: shop.example\nUser-Agent: GuzzleHttp/7\n{fields}")
}

#[test]
fn tags_go_by_xkey_pages_by_purge_and_all_by_ban() {
    let site = Cached::start(XKEY, SHOP);
    let all = &[
        "shop.example/",
        "shop.example/bag",
        "shop.example/hat",
        "shop.example/hat?variant=2",
        "shop.example/imprint",
    ];
    for (request, answer, gone) in [
        (purge("PURGE", "/", "xkey: product-1"), "200 Invalidated 1 objects", &["shop.example/bag"][..]),
        (
            purge("PURGE", "/", "xkey: product-12 product-9"),
            "200 Invalidated 3 objects",
            &["shop.example/", "shop.example/hat", "shop.example/hat?variant=2"],
        ),
        (purge("PURGE", "/", "xkey: product"), "200 Invalidated 0 objects", &[]),
        (purge("PURGE", "/hat", ""), "200 Purged", &["shop.example/hat"]),
        (purge("BAN", "/", ""), "200 BAN URLs containing (/) done.", all),
    ] {
        site.purges(&request, answer, gone, "403 Forbidden");
    }
}

/// As the guide of Shopware for servers without xkey: URLs by a ban.
const BANS: &str = r#"
sub vcl_recv {
    if (req.method == "BAN") {
        if (!client.ip ~ purgers) { return (synth(405, "Method not allowed")); }
        ban("req.url ~ " + req.url);
        return (synth(200, "BAN URLs containing (" + req.url + ") done."));
    }
}
"#;

/// And the one whose pages are delivered once more, while they are fetched again.
const SOFT: &str = r#"
import purge;
sub vcl_recv {
    if (req.method == "BAN") {
        if (!client.ip ~ purgers) { return (synth(405, "Method not allowed")); }
        return (hash);
    }
}
sub vcl_hit { if (req.method == "BAN") { call soft_purge_page; } }
sub vcl_miss { if (req.method == "BAN") { call soft_purge_page; } }
sub soft_purge_page {
    set req.http.purged = purge.soft(ttl = 0s, grace = 300s, keep = 3600s);
    return (synth(200));
}
sub vcl_backend_response { set beresp.grace = 6h; }
"#;

#[test]
fn urls_go_by_ban_where_there_is_no_xkey() {
    let both = &["shop.example/hat", "shop.example/hat?variant=2"][..];
    for (vcl, answer, gone, nothing) in [
        (BANS, "200 BAN URLs containing (/hat) done.", both, "200 BAN URLs containing (/none) done."),
        (SOFT, "200 OK", &["shop.example/hat"], "200 OK"),
    ] {
        let site = Cached::start(vcl, SHOP);
        site.purges(&purge("BAN", "/hat", ""), answer, gone, "405 Method not allowed");
        site.purges(&purge("BAN", "/none", ""), nothing, &[], "405 Method not allowed");
    }
}

#[test]
fn a_page_that_is_purged_softly_is_delivered_once_more() {
    let site = Cached::start(SOFT, SHOP);
    site.fill();
    assert_eq!(site.varnishd.play(&super::wire(&purge("BAN", "/hat", ""))).status, 200);
    assert_eq!(site.found("shop.example", "/hat"), "stale");
    crate::site::eventually("it is fetched", || site.found("shop.example", "/hat") == "hit");
}
