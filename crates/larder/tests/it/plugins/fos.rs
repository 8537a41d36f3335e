//! FOSHttpCache (Symfony, Ibexa): `ProxyClient\Varnish`, with the VCL of its resources/config/varnish.

use larder_testkit::Answer;

use super::{Cached, Page, wire};
use crate::site::eventually;

const PURGE: &str = r#"
sub fos_purge_recv {
    if (req.method == "PURGE") {
        if (!client.ip ~ purgers) { return (synth(405, "Not allowed")); }
        return (purge);
    }
}
sub vcl_recv { call fos_purge_recv; }
"#;

const BAN: &str = r#"
sub fos_ban_recv {
    if (req.method == "BAN") {
        if (!client.ip ~ purgers) { return (synth(405, "Not allowed")); }
        if (req.http.X-Cache-Tags) {
            ban("obj.http.X-Host ~ " + req.http.X-Host + " && obj.http.X-Url ~ " + req.http.X-Url
                + " && obj.http.content-type ~ " + req.http.X-Content-Type
                + " && obj.http.X-Cache-Tags ~ " + req.http.X-Cache-Tags);
        } else {
            ban("obj.http.X-Host ~ " + req.http.X-Host + " && obj.http.X-Url ~ " + req.http.X-Url
                + " && obj.http.content-type ~ " + req.http.X-Content-Type);
        }
        return (synth(200, "Banned"));
    }
}
sub vcl_recv { call fos_ban_recv; }
sub vcl_backend_response {
    set beresp.http.X-Url = bereq.url;
    set beresp.http.X-Host = bereq.http.host;
}
sub vcl_deliver {
    if (!resp.http.X-Cache-Debug) {
        unset resp.http.X-Url;
        unset resp.http.X-Host;
        unset resp.http.X-Cache-Tags;
    }
}
"#;

const REFRESH: &str = r#"
sub vcl_recv {
    if (req.http.Cache-Control ~ "no-cache" && client.ip ~ purgers) { set req.hash_always_miss = true; }
}
"#;

const XKEY: &str = r#"
import xkey;
sub vcl_recv {
    if (req.method == "PURGEKEYS") {
        if (!client.ip ~ purgers) { return (synth(405, "Not allowed")); }
        if (!req.http.xkey-purge && !req.http.xkey-softpurge) {
            return (synth(400, "Neither header XKey-Purge or XKey-SoftPurge set"));
        }
        set req.http.n-gone = 0;
        set req.http.n-softgone = 0;
        if (req.http.xkey-purge) { set req.http.n-gone = xkey.purge(req.http.xkey-purge); }
        if (req.http.xkey-softpurge) { set req.http.n-softgone = xkey.softpurge(req.http.xkey-softpurge); }
        return (synth(200, "Purged "+req.http.n-gone+" objects, expired "+req.http.n-softgone+" objects"));
    }
}
sub vcl_backend_response { set beresp.grace = 1h; }
sub vcl_deliver { if (!resp.http.X-Cache-Debug) { unset resp.http.xkey; } }
"#;

const HTML: &str = "Content-Type: text/html; charset=UTF-8";

pub const SITE: &[Page] = &[
    ("a.example", "/", &[HTML, "X-Cache-Tags: home,article-1", "xkey: home article-1"]),
    ("a.example", "/article/1", &[HTML, "X-Cache-Tags: article-1,author-3", "xkey: article-1 author-3"]),
    ("a.example", "/article/12", &[HTML, "X-Cache-Tags: article-12", "xkey: article-12"]),
    ("a.example", "/article/1.json", &["Content-Type: application/json", "X-Cache-Tags: article-1", "xkey: article-1"]),
    ("b.example", "/article/12", &[HTML, "X-Cache-Tags: article-12", "xkey: article-12"]),
];

#[test]
fn a_url_goes_by_purge() {
    let site = Cached::start(PURGE, SITE);
    let request = "PURGE /article/1 HTTP/1.1\nHost: a.example\nUser-Agent: Symfony HttpClient";
    site.purges(request, "200 Purged", &["a.example/article/1"], "405 Not allowed");
}

/// What the client sends for a ban: three headers, which match everything unless they are asked for, and that of the tags.
pub fn ban(host: &str, url: &str, kind: &str, tags: Option<&str>) -> String {
    let tags = tags.map(|tags| format!("X-Cache-Tags: {tags}")).unwrap_or_default();
    format!("BAN / HTTP/1.1\nHost: 127.0.0.1\nX-Host: {host}\nX-Url: {url}\nX-Content-Type: {kind}\n{tags}")
}

#[test]
fn hosts_paths_kinds_and_tags_go_by_ban() {
    let site = Cached::start(BAN, SITE);
    for (request, gone) in [
        (
            ban(".*", "^/article", ".*", None),
            &["a.example/article/1", "a.example/article/12", "a.example/article/1.json", "b.example/article/12"][..],
        ),
        (ban("^(b.example|c.example)$", ".*", ".*", None), &["b.example/article/12"]),
        (ban(".*", "^/article", "application/json", None), &["a.example/article/1.json"]),
        // As preg_quote() writes the tags.
        (
            ban(".*", ".*", ".*", Some(r"(^|,)(article\-1)(,|$)")),
            &["a.example/", "a.example/article/1", "a.example/article/1.json"],
        ),
        (ban(".*", ".*", ".*", Some(r"(^|,)(home|author\-3)(,|$)")), &["a.example/", "a.example/article/1"]),
        (ban(".*", ".*", ".*", Some("(^|,)(article)(,|$)")), &[]),
    ] {
        site.purges(&request, "200 Banned", gone, "405 Not allowed");
    }
}

#[test]
fn a_page_is_fetched_again_by_no_cache() {
    let site = Cached::start(REFRESH, SITE);
    let refresh = "GET /article/1 HTTP/1.1\nHost: a.example\nCache-Control: no-cache";
    site.is_refused(refresh, "200 OK");
    site.fill();
    site.origin.answer("/article/1", Answer::ok("page").field("X-Edition", "2").field("Cache-Control", "max-age=3600"));
    let edition = |request: &str| site.varnishd.play(&wire(request)).field("X-Edition").map(str::to_owned);
    assert_eq!(edition(&refresh.replace("Cache-Control: no-cache", "")), None, "the old one is in the cache");
    assert_eq!(edition(refresh).as_deref(), Some("2"));
    let before = site.origin.count();
    assert_eq!(edition(&refresh.replace("Cache-Control: no-cache", "")).as_deref(), Some("2"));
    assert_eq!(site.origin.count(), before, "the new one is in the cache");
}

#[test]
fn tags_go_by_xkey() {
    let site = Cached::start(XKEY, SITE);
    let keys = |fields: &str| format!("PURGEKEYS / HTTP/1.1\nHost: 127.0.0.1\n{fields}");
    for (fields, answer, gone) in [
        (
            "xkey-purge: article-12",
            "200 Purged 2 objects, expired 0 objects",
            &["a.example/article/12", "b.example/article/12"][..],
        ),
        (
            "xkey-softpurge: home author-3",
            "200 Purged 0 objects, expired 2 objects",
            &["a.example/", "a.example/article/1"],
        ),
        (
            "xkey-purge: home\nxkey-softpurge: author-3",
            "200 Purged 1 objects, expired 1 objects",
            &["a.example/", "a.example/article/1"],
        ),
        ("xkey: home", "400 Neither header XKey-Purge or XKey-SoftPurge set", &[]),
    ] {
        site.purges(&keys(fields), answer, gone, "405 Not allowed");
    }
    site.fill();
    site.varnishd.play(&wire(&keys("xkey-softpurge: home")));
    assert_eq!(site.found("a.example", "/"), "stale", "it is delivered once more");
    eventually("it is fetched", || site.found("a.example", "/") == "hit");
}

/// The context of a user is a header that a request of its own finds out; pages vary by it.
const CONTEXT: &str = r#"
sub vcl_recv {
    if (req.restarts == 0
        && (req.http.accept ~ "application/vnd.fos.user-context-hash" || req.http.X-User-Context-Hash)) {
        return (synth(400));
    }
    if (req.restarts == 0 && (req.method == "GET" || req.method == "HEAD")) {
        if (req.http.accept) { set req.http.X-Fos-Original-Accept = req.http.accept; }
        set req.http.accept = "application/vnd.fos.user-context-hash";
        set req.http.X-Fos-Original-Url = req.url;
        set req.url = "/_fos_user_context_hash";
        return (hash);
    }
    if (req.restarts > 0 && req.http.accept == "application/vnd.fos.user-context-hash") {
        set req.url = req.http.X-Fos-Original-Url;
        unset req.http.X-Fos-Original-Url;
        unset req.http.accept;
        if (req.http.X-Fos-Original-Accept) {
            set req.http.accept = req.http.X-Fos-Original-Accept;
            unset req.http.X-Fos-Original-Accept;
        }
        return (hash);
    }
}
sub vcl_hash {
    if (req.http.accept == "application/vnd.fos.user-context-hash") {
        hash_data(req.http.Cookie);
        hash_data(req.http.Authorization);
    }
}
sub vcl_backend_response {
    if (bereq.http.accept ~ "application/vnd.fos.user-context-hash" && beresp.status >= 500) { return (abandon); }
}
sub vcl_deliver {
    if (req.restarts == 0 && resp.http.content-type ~ "application/vnd.fos.user-context-hash") {
        set req.http.X-User-Context-Hash = resp.http.X-User-Context-Hash;
        return (restart);
    }
    if (!resp.http.X-Cache-Debug) {
        set resp.http.Vary = regsub(resp.http.Vary, "(?i),? *X-User-Context-Hash *", "");
        set resp.http.Vary = regsub(resp.http.Vary, "^, *", "");
        if (resp.http.Vary == "") { unset resp.http.Vary; }
        unset resp.http.X-User-Context-Hash;
    }
}
"#;

#[test]
fn pages_are_kept_apart_by_the_context_of_users_and_a_context_goes_by_its_tag() {
    let vcl = format!("{BAN}{CONTEXT}");
    let site = Cached::start(&vcl, &[]);
    let context = |session: &str, hash: &str| {
        Answer::ok("")
            .field("Content-Type", "application/vnd.fos.user-context-hash")
            .field("X-User-Context-Hash", hash)
            .field("X-Cache-Tags", &format!("fos_http_cache_hashlookup-{session}"))
            .field("Vary", "Cookie, Authorization")
            .field("Cache-Control", "max-age=3600")
    };
    let page = |text: &str| {
        Answer::ok(text)
            .field("Vary", "X-User-Context-Hash")
            .field("Cache-Control", "max-age=3600")
            .field("Content-Type", "text/html")
    };
    let lookup = "/_fos_user_context_hash";
    site.origin.answer(lookup, context("ann", "editors"));
    site.origin.answer_then(lookup, context("bob", "readers"));
    site.origin.answer_then(lookup, context("ann", "readers"));
    site.origin.answer("/page", page("for editors"));
    site.origin.answer_then("/page", page("for readers"));
    let get = |session: &str, more: &str| {
        site.varnishd.play(&wire(&format!("GET /page HTTP/1.1\nHost: a\nCookie: PHPSESSID={session}\n{more}")))
    };
    const HTML: &str = "Accept: text/html";
    for (session, text, asked) in
        [("ann", "for editors", 2), ("bob", "for readers", 4), ("ann", "for editors", 4), ("bob", "for readers", 4)]
    {
        let response = get(session, HTML);
        assert_eq!((response.status, response.body.as_slice()), (200, text.as_bytes()), "{session}");
        assert_eq!((response.field("Vary"), response.field("X-User-Context-Hash")), (None, None));
        assert_eq!(site.origin.count(), asked, "{session}");
    }
    let asked = site.origin.requests();
    let seen: Vec<_> = asked.iter().map(|seen| (seen.field("Accept"), seen.field("X-User-Context-Hash"))).collect();
    let of_lookup = (Some("application/vnd.fos.user-context-hash"), None);
    let of_page = |hash| (Some("text/html"), Some(hash));
    assert_eq!(seen, [of_lookup, of_page("editors"), of_lookup, of_page("readers")]);
    for forged in ["X-User-Context-Hash: editors", "Accept: application/vnd.fos.user-context-hash"] {
        assert_eq!(get("bob", forged).status, 400, "{forged}");
    }
    // Ann is an editor no longer.
    let logout = ban(".*", ".*", ".*", Some(r"(^|,)(fos_http_cache_hashlookup\-ann)(,|$)"));
    assert_eq!(site.varnishd.play(&wire(&logout)).status, 200);
    assert_eq!(get("ann", HTML).body, b"for readers");
    assert_eq!(site.origin.count(), 5, "her context alone was asked for again");
}
