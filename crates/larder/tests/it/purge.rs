//! Pages that a request drops: `*_cache_purge` as of the cache purge module, and as of NGINX Plus.

use larder_testkit::{Answer, FastCgiOrigin, FastCgiReply, Origin};

use crate::site::{Setup, Site, cached, eventually, text};

/// A PHP site as the WordPress plugin nginx-helper wants it: the server purges what is asked for below `/purge`.
const WORDPRESS: &str = r#"
    fastcgi_cache_path {DIR}/pages keys_zone=WORDPRESS:1m inactive=1h;
    fastcgi_cache_key "$scheme$request_method$host$request_uri";
    server {
        listen 127.0.0.1:{PORT};
        add_header X-Cache $upstream_cache_status;
        location ~ /purge(/.*) {
            allow 127.0.0.1;
            deny all;
            fastcgi_cache_purge WORDPRESS "$scheme$request_method$host$1$is_args$args";
        }
        location ~ /shut(/.*) {
            deny all;
            fastcgi_cache_purge WORDPRESS "$scheme$request_method$host$1";
        }
        location / {
            fastcgi_pass {FCGI};
            {PARAMS}
            fastcgi_cache WORDPRESS;
            fastcgi_cache_valid 200 1h;
        }
    }"#;

#[test]
fn a_plugin_purges_a_page_by_asking_for_it_below_purge() {
    let origin = FastCgiOrigin::start_tcp().unwrap();
    let site = Setup::new().name("FCGI", origin.address()).start(WORDPRESS);
    origin.answer("*", FastCgiReply::html("page"));
    for path in ["/", "/2026/hello-world/", "/?p=1", "/blog/feed/?a=1&b=2"] {
        site.get_until(path, "the page to be stored", |response| cached(response) == "HIT");
        let before = origin.count();
        let purged = site.ask("GET", &format!("/purge{path}"), "User-Agent: WordPress/6.8; http://site\r\n");
        assert_eq!((purged.status, purged.field("Content-Type")), (200, Some("text/html")), "{path}");
        assert!(text(&purged).contains("<h1>Successful purge</h1>"), "{}", text(&purged));
        let key = format!("httpGETsite.test{}", path.replace('&', "&amp;"));
        assert!(text(&purged).contains(&format!("<br>Key : {key}\r\n")), "{}", text(&purged));
        assert_eq!(cached(&site.get(path)), "MISS", "{path}");
        assert_eq!(origin.count(), before + 1, "{path}");
    }
    for path in ["/purge/never-seen/", "/purge/?p=2"] {
        assert_eq!(site.get(path).status, 404, "{path}");
    }
    assert_eq!(site.get("/shut/").status, 403);
    assert_eq!(cached(&site.get_until("/", "the page", |response| cached(response) == "HIT")), "HIT");
}

/// One location for each form beside a cache.
const SITE: &str = r#"
    proxy_cache_path {DIR}/pages keys_zone=pages:1m inactive=1h;
    map $request_method $is_purge { PURGE 1; default 0; }
    server {
        listen 127.0.0.1:{PORT};
        add_header X-Cache $upstream_cache_status;
        proxy_cache_valid 200 1h;
        proxy_cache pages;
        location /all/ { proxy_pass http://{ORIGIN}; proxy_cache_key $uri; proxy_cache_purge PURGE from all; }
        location /mine/ { proxy_pass http://{ORIGIN}; proxy_cache_key $uri; proxy_cache_purge on from 127.0.0.0/8; }
        location /theirs/ { proxy_pass http://{ORIGIN}; proxy_cache_key $uri; proxy_cache_purge BAN from 192.0.2.1; }
        location /method/ {
            proxy_pass http://{ORIGIN};
            proxy_cache_key $request_method$uri;
            proxy_cache_purge PURGE;
        }
        location /plus/ { proxy_pass http://{ORIGIN}; proxy_cache_key $uri; proxy_cache_purge $is_purge $http_x_purge; }
        location /never/ { proxy_pass http://{ORIGIN}; proxy_cache_key $uri; proxy_cache_purge off; }
    }"#;

fn site(origin: &Origin) -> Site {
    origin.answer("*", Answer::ok("page"));
    Setup::new().name("ORIGIN", origin.address()).start(SITE)
}

fn fill(site: &Site, path: &str) {
    site.get_until(path, "the page to be stored", |response| cached(response) == "HIT");
}

#[test]
fn a_method_purges_what_its_location_would_have_asked_for() {
    let origin = Origin::start().unwrap();
    let site = site(&origin);
    for (path, method, status, after) in [
        ("/all/a", "PURGE", 200, "MISS"),
        ("/mine/a", "PURGE", 200, "MISS"),
        ("/theirs/a", "BAN", 403, "HIT"),
        ("/theirs/b", "GET", 200, "HIT"),
        ("/method/a", "PURGE", 200, "MISS"),
    ] {
        fill(&site, path);
        assert_eq!(site.ask(method, path, "").status, status, "{method} {path}");
        assert_eq!(cached(&site.get(path)), after, "{method} {path}");
    }
    assert_eq!(site.ask("PURGE", "/all/none", "").status, 404);
    // Without the directive a method is the origin's.
    assert_eq!(text(&site.ask("PURGE", "/never/a", "")), "page");
}

#[test]
fn a_condition_purges_and_an_asterisk_means_all_that_begins_so() {
    let origin = Origin::start().unwrap();
    let site = site(&origin);
    for path in ["/plus/a", "/plus/b/1", "/plus/b/2", "/plus/c"] {
        fill(&site, path);
    }
    for (method, path, fields, status) in [
        ("PURGE", "/plus/a", "", 204),
        ("PURGE", "/plus/a", "", 404),
        ("GET", "/plus/c", "X-Purge: 1\r\n", 204),
        ("PURGE", "/plus/b/*", "", 204),
    ] {
        let purged = site.ask(method, path, fields);
        assert_eq!((purged.status, purged.body.len()), (status, if status == 404 { purged.body.len() } else { 0 }));
    }
    for path in ["/plus/a", "/plus/b/1", "/plus/b/2", "/plus/c"] {
        assert_eq!(cached(&site.ask("GET", path, "X-Purge: 0\r\n")), "MISS", "{path}");
    }
}

/// As the plugin that asks for /purge_all wants it, and beside the cache.
const ALL: &str = r#"
    proxy_cache_path {DIR}/pages keys_zone=pages:1m inactive=1h;
    proxy_cache_path {DIR}/others keys_zone=others:1m inactive=1h;
    proxy_cache_key $scheme$request_method$host$request_uri;
    server {
        listen 127.0.0.1:{PORT};
        add_header X-Cache $upstream_cache_status;
        proxy_cache_valid 200 1h;
        location / { proxy_pass http://{ORIGIN}; proxy_cache pages; proxy_cache_purge PURGE purge_all from 127.0.0.1; }
        location /others/ { proxy_pass http://{ORIGIN}; proxy_cache others; }
        location /theirs/ { proxy_pass http://{ORIGIN}; proxy_cache pages; proxy_cache_purge on purge_all from 192.0.2.1; }
        location = /purge_all { proxy_cache pages; proxy_cache_purge GET purge_all from all; }
        location = /purge_all_shut { deny all; proxy_cache pages; proxy_cache_purge GET purge_all from all; }
        location /purge_one/ { proxy_cache pages; proxy_cache_key $scheme$request_method$host$arg_of; proxy_cache_purge on; }
    }"#;

#[test]
fn everything_in_a_zone_is_purged_by_one_request() {
    let origin = Origin::start().unwrap();
    origin.answer("*", Answer::ok("page"));
    let mut site = Setup::new().name("ORIGIN", origin.address()).start(ALL);
    for (method, purge, status, after) in [
        ("PURGE", "/any", 200, "MISS"),
        ("GET", "/purge_all", 200, "MISS"),
        ("GET", "/purge_all", 200, "MISS"),
        ("PURGE", "/theirs/x", 403, "HIT"),
        ("GET", "/purge_all_shut", 403, "HIT"),
        ("POST", "/purge_all", 404, "HIT"),
        ("GET", "/theirs/y", 200, "HIT"),
    ] {
        for path in ["/a", "/b/c?d=e", "/others/x"] {
            fill(&site, path);
        }
        let said = site.ask(method, purge, "");
        assert_eq!(said.status, status, "{method} {purge}");
        for path in ["/a", "/b/c?d=e"] {
            assert_eq!(cached(&site.get(path)), after, "{path} after {method} {purge}");
        }
        assert_eq!(cached(&site.get("/others/x")), "HIT", "{method} {purge}");
    }
    assert!(text(&site.get("/purge_all")).contains("<br>Key : httpGETsite.test/purge_all\r\n"));
    // A location without an origin purges single pages too.
    for (purge, status) in [("/purge_one/?of=/a", 200), ("/purge_one/?of=/a", 404)] {
        if status == 200 {
            fill(&site, "/a");
        }
        assert_eq!(site.ask("PURGE", purge, "").status, status, "{purge}");
    }
    assert_eq!(site.get("/purge_one/?of=/a").status, 404, "only the method purges");

    // What is on disk is gone too.
    for path in ["/a", "/b"] {
        fill(&site, path);
    }
    site = site.restart();
    eventually("the shelves to be open", || site.count_in_log("pages in") + site.count_in_log(" page in") >= 2);
    assert_eq!(site.get("/purge_all").status, 200);
    site = site.restart();
    site.get_until("/others/x", "the shelves to be open", |response| cached(response) == "HIT");
    assert_eq!(cached(&site.get("/a")), "MISS");
}

#[test]
fn what_was_purged_stays_away_after_a_restart_and_a_crash() {
    let origin = Origin::start().unwrap();
    let mut site = site(&origin);
    for path in ["/all/a/1", "/all/a/2", "/all/b", "/all/c"] {
        fill(&site, path);
    }
    // So that they are on disk before they are purged.
    site = site.restart();
    eventually("the shelf to be open", || site.count_in_log("4 pages") == 1);
    assert_eq!(site.ask("PURGE", "/all/a/*", "").status, 200);
    assert_eq!(site.ask("PURGE", "/all/b", "").status, 200);
    let mine = site.setup().path("pages").join("larder.bans");
    eventually("the ban to be noted", || mine.exists());
    site = site.crash();
    site.get_until("/all/c", "the shelf to be open", |response| cached(response) == "HIT");
    for path in ["/all/a/1", "/all/a/2"] {
        assert_eq!(cached(&site.get(path)), "MISS", "{path}");
        fill(&site, path);
    }
    site = site.restart();
    eventually("the shelf to be open", || site.count_in_log("pages in") >= 1);
    for path in ["/all/a/1", "/all/a/2", "/all/c"] {
        site.get_until(path, "a page that was stored after the purge", |response| cached(response) == "HIT");
    }
}

#[test]
fn a_page_that_is_fetched_while_it_is_purged_is_not_stored() {
    let origin = Origin::start().unwrap();
    let site = site(&origin);
    for (path, purge) in [("/all/one", "/all/one"), ("/all/many/x", "/all/many/*")] {
        let hold = origin.hold(path);
        let mut client = site.client();
        client.send(crate::site::get(path).as_bytes()).unwrap();
        eventually("the fetch", || origin.requests().iter().any(|seen| seen.request_line.contains(path)));
        site.ask("PURGE", purge, "");
        hold.release();
        assert_eq!(text(&client.read_response("GET").unwrap()), "page");
        assert_eq!(cached(&site.get(path)), "MISS", "{path}");
    }
}
