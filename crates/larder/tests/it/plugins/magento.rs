//! Magento 2: `Magento\CacheInvalidate\Model\PurgeCache`, with the tags of `InvalidateVarnishObserver`.

use super::{Cached, Page};

/// As its varnish7.vcl: bans by a pattern of tags, or by the pool of a deployment.
const VCL: &str = r#"
import std;
sub vcl_recv {
    if (req.url ~ "\?.+&.+") { set req.url = std.querysort(req.url); }
    if (req.method == "PURGE") {
        if (client.ip !~ purgers) { return (synth(405, "Method not allowed")); }
        if (!req.http.X-Magento-Tags-Pattern && !req.http.X-Pool) {
            return (synth(400, "X-Magento-Tags-Pattern or X-Pool header required"));
        }
        if (req.http.X-Magento-Tags-Pattern) { ban("obj.http.X-Magento-Tags ~ " + req.http.X-Magento-Tags-Pattern); }
        if (req.http.X-Pool) { ban("obj.http.X-Pool ~ " + req.http.X-Pool); }
        return (synth(200, "Purged"));
    }
    return (hash);
}
sub vcl_backend_response { set beresp.grace = 3d; }
sub vcl_deliver { unset resp.http.X-Magento-Tags; }
"#;

pub const SHOP: &[Page] = &[
    ("shop.example", "/", &["X-Magento-Tags: store,cms_b,cms_p_2", "X-Pool: blue"]),
    ("shop.example", "/bags.html", &["X-Magento-Tags: store,cat_c_3,cat_c_p_3,cat_p_1,cat_p_12", "X-Pool: blue"]),
    ("shop.example", "/bag-12.html", &["X-Magento-Tags: store,cat_p_12", "X-Pool: green"]),
    ("shop.example", "/bag-1.html", &["X-Magento-Tags: store,cat_p_1"]),
    ("shop.example", "/robots.txt", &[]),
];

const REFUSED: &str = "405 Method not allowed";

/// What the socket adapter writes: the URI of the server, and its name as the host.
pub fn purge(field: &str) -> String {
    format!("PURGE / HTTP/1.1\n{field}\nHost: 127.0.0.1")
}

/// The pattern of some tags, as the observer joins them.
pub fn pattern(tags: &[&str]) -> String {
    let each = tags.iter().map(|tag| format!("((^|,){tag}(,|$))"));
    format!("X-Magento-Tags-Pattern: {}", each.collect::<Vec<_>>().join("|"))
}

#[test]
fn the_pages_of_a_product_a_category_or_a_pool_go() {
    let site = Cached::start(VCL, SHOP);
    for (field, gone) in [
        (pattern(&["cat_p_1"]), &["shop.example/bags.html", "shop.example/bag-1.html"][..]),
        (pattern(&["cat_p_12"]), &["shop.example/bags.html", "shop.example/bag-12.html"]),
        (pattern(&["cat_c_3", "cms_b"]), &["shop.example/", "shop.example/bags.html"]),
        (pattern(&["cat_p"]), &[]),
        ("X-Pool: blue".to_owned(), &["shop.example/", "shop.example/bags.html"]),
    ] {
        site.purges(&purge(&field), "200 Purged", gone, REFUSED);
    }
}

#[test]
fn a_flush_takes_all_that_has_tags() {
    let site = Cached::start(VCL, SHOP);
    let tagged: Vec<String> = SHOP
        .iter()
        .filter(|(_, _, fields)| !fields.is_empty())
        .map(|(host, path, _)| format!("{host}{path}"))
        .collect();
    let tagged: Vec<&str> = tagged.iter().map(String::as_str).collect();
    site.purges(&purge("X-Magento-Tags-Pattern: .*"), "200 Purged", &tagged, REFUSED);
    let missing = "400 X-Magento-Tags-Pattern or X-Pool header required";
    site.purges(&purge("X-Other: 1"), missing, &[], REFUSED);
}

#[test]
fn a_pattern_may_be_as_long_as_the_module_makes_it() {
    let site = Cached::start(VCL, SHOP);
    // The module cuts what it sends to 7680 bytes a request.
    let tags: Vec<String> = (1000..).map(|number| format!("cat_p_{number}")).take(7680 / 25).collect();
    let tags: Vec<&str> = tags.iter().map(String::as_str).chain(["cat_p_12"]).collect();
    let field = pattern(&tags);
    assert!((6000..7680).contains(&field.len()), "{}", field.len());
    let gone = &["shop.example/bags.html", "shop.example/bag-12.html"];
    site.purges(&purge(&field), "200 Purged", gone, REFUSED);
}
