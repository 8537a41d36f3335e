//! Drupal's Purge module with its HTTP purgers: purge_purger_http, and those of varnish_purge.

use super::{Cached, Page};

pub const NEWS: &[Page] = &[
    ("news.example", "/", &["Cache-Tags: config:block_list node:1 node:12 node_list"]),
    ("news.example", "/node/1", &["Cache-Tags: node:1 user:3"]),
    ("news.example", "/node/12", &["Cache-Tags: node:12 user:3"]),
    ("news.example", "/about", &["Cache-Tags: node:7"]),
    ("news.example", "/logo.svg", &[]),
    ("other.example", "/node/1", &["Cache-Tags: node:1 user:3"]),
];

/// As the VCL of the guide to purge_purger_http, with the header `Cache-Tags`: bans by tags, pages by `return (purge)`.
const TAGS: &str = r#"
sub vcl_recv {
    if (req.method == "PURGE") {
        if (!client.ip ~ purgers) { return (synth(405, "Not allowed.")); }
        return (purge);
    }
    if (req.method == "BAN") {
        if (!client.ip ~ purgers) { return (synth(405, "Not allowed.")); }
        if (req.http.Cache-Tags) { ban("obj.http.Cache-Tags ~ " + req.http.Cache-Tags); }
        else { return (synth(403, "Cache-Tags header missing.")); }
        return (synth(200, "Ban added."));
    }
}
sub vcl_backend_response {
    set beresp.http.X-Url = bereq.url;
    set beresp.http.X-Host = bereq.http.host;
}
sub vcl_deliver {
    unset resp.http.X-Url;
    unset resp.http.X-Host;
    unset resp.http.Cache-Tags;
}
"#;

/// What Guzzle sends for the purger: its user agent, and the configured header.
pub fn ban(target: &str, host: &str, fields: &str) -> String {
    format!("BAN {target} HTTP/1.1\nuser-agent: purge_purger_http module for Drupal 8.\n{fields}\nHost: {host}")
}

#[test]
fn pages_go_by_their_cache_tags() {
    let site = Cached::start(TAGS, NEWS);
    let everywhere = &["news.example/", "news.example/node/1", "other.example/node/1"];
    for (tags, gone) in [
        // The bundled purger joins its invalidations.
        (
            "node:7|user:3",
            &["news.example/about", "news.example/node/1", "news.example/node/12", "other.example/node/1"][..],
        ),
        // An expression without borders finds node:12 as well.
        ("node:1", &["news.example/", "news.example/node/1", "news.example/node/12", "other.example/node/1"]),
        (r"(^|\s)node:1(\s|$)", everywhere),
        ("config:block_list", &["news.example/"]),
        ("node:8", &[]),
    ] {
        let request = ban("/", "127.0.0.1:6081", &format!("cache-tags: {tags}"));
        site.purges(&request, "200 Ban added.", gone, "405 Not allowed.");
    }
    site.purges(&ban("/", "127.0.0.1:6081", "x: y"), "403 Cache-Tags header missing.", &[], "405 Not allowed.");
}

#[test]
fn a_url_goes_by_purge() {
    let site = Cached::start(TAGS, NEWS);
    let request = "PURGE /node/1 HTTP/1.1\nAccept-Encoding: gzip\nHost: news.example\nUser-Agent: GuzzleHttp/7";
    site.purges(request, "200 Purged", &["news.example/node/1"], "405 Not allowed.");
}

/// As the VCL of Docksal, after that of Acquia, for the purger of varnish_purge without configuration: tags, URLs with `*`,
/// and a whole site, by the path of a BAN. Tags are separated by blanks in the header, and become one expression.
const PATHS: &str = r#"
import std;
sub vcl_recv {
    if (req.method != "BAN" && req.method != "PURGE") { return (hash); }
    if (client.ip !~ purgers) { return (synth(405, "Permission denied.")); }
    if (req.method == "PURGE") { return (purge); }
    if (req.url == "/tags" && req.http.Cache-Tags) {
        set req.http.Cache-Tags =
            "(^|\s)" + regsuball(std.tolower(req.http.Cache-Tags), "\ ", "(\\s|$)|(^|\\s)") + "(\s|$)";
        ban("obj.http.Cache-Tags ~ " + req.http.Cache-Tags);
        return (synth(200, "Tags banned."));
    }
    set req.url = std.tolower(req.url);
    if (req.url ~ "\*") {
        set req.url = regsuball(req.url, "\*", "\.*");
        ban("obj.http.X-Host == " + req.http.host + " && obj.http.X-Url ~ ^" + req.url + "$");
        return (synth(200, "WILDCARD URL banned."));
    }
    ban("obj.http.X-Host == " + req.http.host + " && obj.http.X-Url == " + req.url);
    return (synth(200, "URL banned."));
}
sub vcl_backend_response {
    set beresp.http.X-Url = bereq.url;
    set beresp.http.X-Host = bereq.http.host;
}
"#;

#[test]
fn tags_urls_and_whole_sites_go_by_the_path_of_a_ban() {
    let site = Cached::start(PATHS, NEWS);
    let tags = |tags: &str| ban("/tags", "127.0.0.1", &format!("Cache-Tags: {tags}\nAccept-Encoding: gzip"));
    let url = |url: &str| ban(url, "news.example", "Accept-Encoding: gzip");
    // The first one is not below itself: what the purger sends for everything becomes ^/..*$.
    let below = &["news.example/about", "news.example/logo.svg", "news.example/node/1", "news.example/node/12"];
    let all = &[&["news.example/"][..], below].concat();
    for (request, answer, gone) in [
        (tags("node:1"), "200 Tags banned.", &["news.example/", "news.example/node/1", "other.example/node/1"][..]),
        (tags("node:7 node:12"), "200 Tags banned.", &["news.example/", "news.example/about", "news.example/node/12"]),
        (url("/node/*"), "200 WILDCARD URL banned.", &["news.example/node/1", "news.example/node/12"]),
        (url("/about"), "200 URL banned.", &["news.example/about"]),
        (url("/.*"), "200 WILDCARD URL banned.", below),
        (url("/*"), "200 WILDCARD URL banned.", all),
    ] {
        site.purges(&request, answer, gone, "405 Permission denied.");
    }
}

/// As the readme of the module varnish_purge: the host and the URL of a ban in headers of their own.
const HEADERS: &str = r#"
sub vcl_recv {
    if (req.method == "PURGE") {
        if (!client.ip ~ purgers) { return (synth(405, "Method not allowed")); }
        ban("req.http.host == " + req.http.host + " && req.url ~ " + req.url);
        return (synth(200, "Ban added"));
    }
    if (req.method == "BAN") {
        if (!client.ip ~ purgers) { return (synth(405, "Method not allowed")); }
        if (req.http.x-ban-url && req.http.x-ban-host) {
            ban("obj.http.x-url ~ " + req.http.x-ban-url + " && obj.http.x-host ~ " + req.http.x-ban-host);
            return (synth(200, "Banned."));
        }
        if (req.http.x-ban-host) {
            ban("obj.http.x-host ~ " + req.http.x-ban-host);
            return (synth(200, "Banned."));
        }
    }
}
sub vcl_backend_response {
    set beresp.http.x-url = bereq.url;
    set beresp.http.x-host = bereq.http.host;
}
"#;

#[test]
fn a_ban_may_have_its_host_and_url_in_headers() {
    let site = Cached::start(HEADERS, NEWS);
    let curl = |fields: &str| format!("BAN / HTTP/1.1\nHost: news.example\nAccept: */*\n{fields}");
    for (request, answer, gone) in [
        (
            curl("x-ban-url:/node/*\nx-ban-host:news.example"),
            "200 Banned.",
            &["news.example/node/1", "news.example/node/12"][..],
        ),
        (curl("x-ban-host:other.example"), "200 Banned.", &["other.example/node/1"]),
        (
            "PURGE /node/1 HTTP/1.1\nHost: news.example\nAccept: */*".to_owned(),
            "200 Ban added",
            &["news.example/node/1", "news.example/node/12"],
        ),
    ] {
        site.purges(&request, answer, gone, "405 Method not allowed");
    }
}
