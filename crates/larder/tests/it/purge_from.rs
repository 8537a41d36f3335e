//! `larder_purge_from` and `larder_cache_tags`: who may purge, what goes, and what visitors see of it. What plugins send is
//! in `plugins/by_directives.rs`.

use larder_testkit::{Answer, Origin};

use crate::site::{Setup, Site, cached, eventually, text};

fn start(origin: &Origin, http: &str) -> Site {
    Setup::new().name("ORIGIN", origin.address()).start(http)
}

fn tagged(body: &str) -> Answer {
    Answer::ok(body).field("Surrogate-Key", "all one").field("X-Tags", "all")
}

/// How an answer begins that has met so many pages.
pub fn purged(pages: usize) -> String {
    format!("Purged: {pages} {}\n", if pages == 1 { "page" } else { "pages" })
}

fn fill(site: &Site, paths: &[&str]) {
    for path in paths {
        site.get_until(path, "the page to be stored", |response| cached(response) == "HIT");
    }
}

const RIGHTS: &str = "
    proxy_cache_path {DIR}/pages keys_zone=pages:1m inactive=1h;
    server {
        listen 127.0.0.1:{PORT};
        add_header X-Cache $upstream_cache_status;
        proxy_cache pages;
        proxy_cache_key $uri;
        proxy_cache_valid 200 1h;
        location /mine/ { proxy_pass http://{ORIGIN}; larder_purge_from 192.0.2.1 127.0.0.0/8; }
        location /theirs/ { proxy_pass http://{ORIGIN}; larder_purge_from 192.0.2.1; }
        location /key/ { proxy_pass http://{ORIGIN}; larder_purge_from 192.0.2.1 key=correct-horse-battery key=another-long-secret; }
        location /unset/ { proxy_pass http://{ORIGIN}; larder_purge_from off; }
        location /both/ {
            proxy_pass http://{ORIGIN};
            larder_purge_from 192.0.2.1;
            proxy_cache_purge PURGE from 127.0.0.1;
            larder_ban pages BAN $http_x_ban from 127.0.0.1;
        }
    }";

#[test]
fn those_may_purge_that_come_from_a_network_or_know_a_secret() {
    let origin = Origin::start().unwrap();
    origin.answer("*", Answer::ok("page"));
    let site = start(&origin, RIGHTS);
    for (method, path, fields, status, after) in [
        ("PURGE", "/mine/a", "", 200, "MISS"),
        ("PURGE", "/theirs/a", "", 403, "HIT"),
        ("BAN", "/theirs/a", "", 403, "HIT"),
        ("URIBAN", "/theirs/a", "", 403, "HIT"),
        ("PURGEKEYS", "/theirs/a", "xkey-purge: a\r\n", 403, "HIT"),
        ("PURGE", "/theirs/a", "X-Larder-Key: correct-horse-battery\r\n", 403, "HIT"),
        ("PURGE", "/key/a", "", 403, "HIT"),
        ("PURGE", "/key/a", "X-Larder-Key: correct-horse-batterz\r\n", 403, "HIT"),
        ("PURGE", "/key/a", "X-Larder-Key:\r\n", 403, "HIT"),
        ("PURGE", "/key/a", "X-Larder-Key: correct-horse-battery\r\n", 200, "MISS"),
        ("PURGE", "/key/a", "Authorization: Bearer another-long-secret\r\n", 200, "MISS"),
        ("PURGE", "/key/a", "x-purge-key: another-long-secret\r\n", 200, "MISS"),
        ("PURGE", "/key/a", "Fastly-Key: another-long-secret\r\n", 200, "MISS"),
        ("PURGE", "/key/a", "x-invalidate-token: another-long-secret\r\n", 200, "MISS"),
        // What else is allowed goes on.
        ("PURGE", "/both/a", "", 200, "MISS"),
        ("BAN", "/both/a", "X-Ban: obj.status == 200\r\n", 200, "MISS"),
        ("BAN", "/both/a", "", 400, "HIT"),
        ("URIBAN", "/both/a", "", 403, "HIT"),
    ] {
        fill(&site, &[path]);
        assert_eq!(site.ask(method, path, fields).status, status, "{method} {path} {fields}");
        assert_eq!(cached(&site.get(path)), after, "{method} {path} {fields}");
    }
}

#[test]
fn without_the_directive_methods_and_paths_are_the_origins() {
    let origin = Origin::start().unwrap();
    origin.answer("*", Answer::ok("page").field("xkey", "a"));
    let site = start(&origin, RIGHTS);
    for method in ["PURGE", "BAN", "URIBAN", "PURGEKEYS"] {
        assert_eq!(text(&site.ask(method, "/unset/a", "")), "page", "{method}");
    }
    assert_eq!(site.get("/unset/a").field("xkey"), Some("a"));
    // A stranger's page below /purge is one like any other.
    let site = start(&origin, &RIGHTS.replace("location /theirs/", "location /purge/"));
    assert_eq!((text(&site.get("/purge/a")), cached(&site.get("/purge/a"))), ("page".to_owned(), "HIT"));
    assert_eq!(site.ask("POST", "/purge/a", "Content-Length: 0\r\n").status, 200);
}

const SHOWN: &str = "
    proxy_cache_path {DIR}/pages keys_zone=pages:1m inactive=1h;
    proxy_cache_path {DIR}/others keys_zone=others:1m inactive=1h;
    server {
        listen 127.0.0.1:{PORT};
        add_header X-Cache $upstream_cache_status;
        proxy_cache pages;
        proxy_cache_key $uri;
        proxy_cache_valid 200 1h;
        location /plain/ { proxy_pass http://{ORIGIN}; }
        location /purged/ { proxy_pass http://{ORIGIN}; larder_purge_from 127.0.0.1; }
        location /shown/ { proxy_pass http://{ORIGIN}; larder_purge_from 127.0.0.1; larder_cache_tags show; }
        location /passed/ { proxy_pass http://{ORIGIN}; larder_purge_from 127.0.0.1; proxy_pass_header surrogate-key; }
        location /named/ { proxy_pass http://{ORIGIN}; larder_cache_tags X-Tags; }
        location /off/ { proxy_pass http://{ORIGIN}; larder_purge_from 127.0.0.1; larder_cache_tags off; }
    }
    server {
        listen 127.0.0.1:{PORT2};
        server_name untagged;
        proxy_cache others;
        location / { proxy_pass http://{ORIGIN}; larder_purge_from 127.0.0.1; larder_cache_tags off; }
    }";

#[test]
fn visitors_do_not_see_the_tags_that_pages_are_purged_by() {
    let origin = Origin::start().unwrap();
    origin.answer("*", tagged("page"));
    let site = start(&origin, SHOWN);
    for (path, key, tags) in [
        ("/plain/a", Some("all one"), Some("all")),
        ("/purged/a", None, Some("all")),
        ("/shown/a", Some("all one"), Some("all")),
        ("/passed/a", Some("all one"), Some("all")),
        ("/named/a", Some("all one"), None),
        ("/off/a", Some("all one"), Some("all")),
    ] {
        let miss = site.get(path);
        let hit = site.get_until(path, "the page to be stored", |response| cached(response) == "HIT");
        for response in [&miss, &hit] {
            assert_eq!((response.field("Surrogate-Key"), response.field("X-Tags")), (key, tags), "{path}");
        }
    }
    let mut other = larder_testkit::Client::connect(site.setup().other_address()).unwrap();
    other.send(b"PURGE / HTTP/1.1\r\nHost: a\r\nSurrogate-Key: one\r\n\r\n").unwrap();
    let off = other.read_response("PURGE").unwrap();
    let why = "Nothing is purged: no page of the server \"untagged\" has tags: see \"larder_cache_tags\"\n";
    assert_eq!((off.status, &*text(&off)), (400, why));
}

/// A purge may come in where the name of its field is not said.
#[test]
fn the_tags_of_all_locations_of_a_server_are_known_to_its_purges() {
    let origin = Origin::start().unwrap();
    origin.answer("*", tagged("page"));
    let site = start(&origin, SHOWN);
    for (path, pages) in [("/purged/", 1), ("/off/", 1)] {
        fill(&site, &["/named/a"]);
        let told = text(&site.ask("PURGE", path, "X-Tags: all\r\n"));
        assert!(told.starts_with(&purged(pages)), "{path} {told}");
        assert_eq!(cached(&site.get("/named/a")), "MISS", "{path}");
    }
}

/// With a key by scheme the page of the other scheme stays.
#[test]
fn a_page_goes_in_all_schemes_where_that_is_said() {
    let origin = Origin::start().unwrap();
    origin.answer("*", Answer::ok("page"));
    let keyed = RIGHTS.replace("proxy_cache_key $uri", "proxy_cache_key $http_x_scheme$uri");
    let with_all = keyed.replace("192.0.2.1 127.0.0.0/8", "127.0.0.0/8 scheme=all");
    for (http, purge, after) in [
        (&keyed, "PURGE", ["MISS", "HIT"]),
        (&with_all, "PURGE", ["MISS", "MISS"]),
        (&with_all, "URLPURGE", ["MISS", "MISS"]),
    ] {
        let site = start(&origin, http);
        let found = |scheme: &str| cached(&site.ask("GET", "/mine/a", &format!("X-Scheme: {scheme}\r\n"))).to_owned();
        for scheme in ["http", "https"] {
            eventually("the page to be stored", || found(scheme) == "HIT");
        }
        assert_eq!(site.ask(purge, "/mine/a", "X-Scheme: http\r\n").status, 200);
        assert_eq!(["http", "https"].map(found), after, "{purge} {http}");
    }
}

/// A page of one key, in whatever way its visitors write its URL, is banned and purged by what purgers write.
#[test]
fn no_visitor_keeps_a_page_by_another_spelling() {
    let origin = Origin::start().unwrap();
    origin.answer("*", Answer::ok("page"));
    let http = RIGHTS.replace("proxy_cache_key $uri", "proxy_cache_key $host$uri");
    let site = start(&origin, &http);
    let address = site.setup().address().to_string();
    let ask = |method: &str, host: &str, path: &str, fields: &str| {
        let request = format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\n{fields}Connection: close\r\n\r\n");
        site.exchange(method, request)
    };
    let odd = ["127.0.0.1", &address, "127.0.0.1:1"];
    for (method, path, fields) in [
        ("BAN", "/mine/", "X-Host: ^127\\.0\\.0\\.1$\r\nX-Url: ^/mine/a$\r\n"),
        ("BAN", "/mine/", "X-Host: 127.0.0.1:1\r\nX-Url: ^/mine/a$\r\n"),
        ("BAN", "/mine/", "X-Url: ^/mine/a$\r\n"),
        ("PURGE", "/mine/a", "X-Purge-Scheme: all\r\n"),
        ("PURGE", "/mine/a*", ""),
        ("URIBAN", "/mine/a", ""),
    ] {
        for (at, target) in ["/mine/%61", "//mine/a", "/mine/x/../a", "/mine/a?x", "/mine/a"].iter().enumerate() {
            // The first and each later one, whoever it is.
            eventually("the page to be stored", || cached(&ask("GET", odd[at % 3], target, "")) == "HIT");
            assert_eq!(ask(method, "127.0.0.1", path, fields).status, 200, "{method} {path} {fields}");
            let again = ask("GET", odd[(at + 1) % 3], target, "");
            assert_eq!(cached(&again), "MISS", "{method} {path} {fields}: {target}");
            eventually("the page to be stored", || cached(&ask("GET", odd[0], "/mine/a", "")) == "HIT");
        }
    }
}

const KEYS: &str = "
    proxy_cache_path {DIR}/pages keys_zone=pages:1m inactive=1h;
    server {
        listen 127.0.0.1:{PORT};
        larder_purge_from 127.0.0.1;
        add_header X-Cache $upstream_cache_status always;
        proxy_cache pages;
        proxy_cache_valid 200 404 1h;
        set $said $host;
        location /default/ { proxy_pass http://{ORIGIN}; }
        location /named/ { proxy_pass http://$http_x_app; }
        location /path/ { proxy_pass http://{ORIGIN}; proxy_cache_key $scheme$uri; }
        location /sent/ { proxy_pass http://{ORIGIN}; proxy_cache_key $request_uri; }
        location /set/ { proxy_pass http://{ORIGIN}; proxy_cache_key $said$request_uri; }
        location /host/ { proxy_pass http://{ORIGIN}; proxy_cache_key $host$request_uri; }
        location /field/ { proxy_pass http://{ORIGIN}; proxy_cache_key $http_host$request_uri; }
        location /led/ { proxy_pass http://{ORIGIN}; proxy_cache off; proxy_intercept_errors on; error_page 404 /inner/404; }
        location /inner/ { internal; proxy_pass http://{ORIGIN}; proxy_cache_key $host$request_uri; }
        location /inner/own/ { internal; proxy_pass http://{ORIGIN}; proxy_cache_key $host$uri; }
    }";

/// Who asks first says under which host such a page is stored.
#[test]
fn a_page_whose_key_has_no_host_is_on_every_host() {
    let origin = Origin::start().unwrap();
    origin.answer("*", Answer::ok("page"));
    let site = start(&origin, KEYS);
    let app = format!("X-App: {}\r\n", origin.address());
    let ask = |method: &str, host: &str, path: &str, fields: &str| {
        let request = format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\n{app}{fields}Connection: close\r\n\r\n");
        site.exchange(method, request)
    };
    for (path, is_shared) in [
        ("/default/a", true),
        ("/named/a", true),
        ("/path/a", true),
        ("/sent/a", true),
        ("/set/a", false),
        ("/host/a", false),
        ("/field/a", false),
    ] {
        for (method, purged, fields) in [
            ("GET", format!("/purge{path}"), ""),
            ("PURGE", path.to_owned(), "X-Purge-Scheme: all\r\n"),
            ("PURGE", format!("{path}*"), ""),
            ("PURGE", "/".to_owned(), "X-Purge-Method: host\r\n"),
            ("BAN", "/".to_owned(), "X-Host: ^a.test$\r\nX-Url: ^/\r\n"),
        ] {
            eventually("a page of another host", || cached(&ask("GET", "b.test", path, "")) == "HIT");
            assert_eq!(ask(method, "a.test", &purged, fields).status, 200, "{method} {purged}");
            // Of a variable nobody can tell.
            let expected = if is_shared || path == "/set/a" { "MISS" } else { "HIT" };
            assert_eq!(cached(&ask("GET", "b.test", path, "")), expected, "{method} {purged} {fields}");
        }
    }
}

/// Where the key is of what visitors ask for, so is the page.
#[test]
fn a_page_that_an_origin_or_an_error_has_led_to_is_where_its_key_says() {
    let origin = Origin::start().unwrap();
    let led_to = |path: &str| Answer::ok("").field("X-Accel-Redirect", path);
    origin.answer("*", Answer::ok("page"));
    for (path, answer) in [
        ("/led/a", led_to("/inner/a")),
        ("/led/own", led_to("/inner/own/a")),
        ("/led/absent", Answer::status("404 Not Found")),
    ] {
        origin.answer(path, answer);
    }
    let site = start(&origin, KEYS);
    for (path, method, purge, fields, after) in [
        ("/led/a", "PURGE", "/led/a", "", "MISS"),
        ("/led/absent", "PURGE", "/led/absent", "", "MISS"),
        ("/led/own", "PURGE", "/led/own", "", "HIT"),
        // Nobody asks for it there.
        ("/led/own", "BAN", "/", "X-Url: ^/inner/own/a$\r\n", "MISS"),
    ] {
        // The last of all origins that were asked.
        let found = || cached(&site.get(path)).rsplit(' ').next().unwrap_or_default().to_owned();
        eventually("the page to be stored", || found() == "HIT");
        assert_eq!(site.ask(method, purge, fields).status, 200);
        assert_eq!(found(), after, "{path} {purge} {fields}");
    }
}

const SEVERAL: &str = "
    proxy_cache_path {DIR}/pages keys_zone=pages:1m inactive=1h;
    proxy_cache_path {DIR}/others keys_zone=others:1m inactive=1h;
    proxy_cache_valid 200 1h;
    proxy_cache_key $host$request_uri;
    add_header X-Cache $upstream_cache_status;
    larder_purge_from 127.0.0.1;
    server {
        listen 127.0.0.1:{PORT};
        server_name first.test;
        location / { proxy_pass http://{ORIGIN}; proxy_cache pages; }
    }
    server {
        listen 127.0.0.1:{PORT};
        server_name second.test{NAMES};
        location / { proxy_pass http://{ORIGIN}; proxy_cache others; }
    }
    server {
        listen 127.0.0.1:{PORT};
        server_name third.test;
        location / { root {DIR}; }
    }";

/// Plugins that only know the address of the cache ask for it as a host.
#[test]
fn a_purge_that_names_no_server_is_not_another_sites() {
    let origin = Origin::start().unwrap();
    origin.answer("*", tagged("page"));
    let site = Setup::new().name("ORIGIN", origin.address()).name("NAMES", "").start(SEVERAL);
    let ask = |site: &Site, method: &str, host: &str, path: &str, fields: &str| {
        let request = format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\n{fields}Connection: close\r\n\r\n");
        site.exchange(method, request)
    };
    let found = |site: &Site, host: &str| cached(&ask(site, "GET", host, "/a", "")).to_owned();
    let hosts = ["first.test", "second.test"];
    let fill = |site: &Site| hosts.iter().for_each(|host| eventually("a page", || found(site, host) == "HIT"));
    let why = "Nothing is purged: no \"server_name\" is \"127.0.0.1\", so that the server \"first.test\" was asked, \
               which does not know the pages of \"second.test\": add the name to the server that is meant, or let that \
               listen for purges at an address of its own\n";
    for (method, fields) in [("PURGE", "Surrogate-Key: one\r\n"), ("BAN", ""), ("BAN", "X-Ban: obj.status == 200\r\n")]
    {
        fill(&site);
        let refused = ask(&site, method, "127.0.0.1", "/", fields);
        assert_eq!((refused.status, &*text(&refused)), (400, why), "{method} {fields}");
        assert_eq!(hosts.map(|host| found(&site, host)), ["HIT", "HIT"], "{method} {fields}");
    }
    // What means one host cannot mean another site.
    assert_eq!(ask(&site, "PURGE", "127.0.0.1", "/a", "").status, 200);
    let third = ask(&site, "PURGE", "third.test", "/a", "");
    let why = "Nothing is purged: no location of the server \"third.test\" has a cache\n";
    assert_eq!((third.status, &*text(&third)), (400, why));
    drop(site);
    let site = Setup::new().name("ORIGIN", origin.address()).name("NAMES", " 127.0.0.1").start(SEVERAL);
    fill(&site);
    assert_eq!(ask(&site, "PURGE", "127.0.0.1", "/", "Surrogate-Key: one\r\n").status, 200);
    assert_eq!(hosts.map(|host| found(&site, host)), ["HIT", "MISS"]);
}

#[test]
fn a_refused_purge_says_so_to_the_client_and_to_the_log() {
    let origin = Origin::start().unwrap();
    origin.answer("*", Answer::ok("page"));
    let site = start(&origin, RIGHTS);
    for (path, fields, why) in [
        ("/theirs/a", "", "the client's address may not purge, and it sent no secret"),
        ("/key/a", "X-Larder-Key: another\r\n", "the client's address may not purge, and the secret is another"),
    ] {
        let refused = site.ask("PURGE", path, fields);
        let text = text(&refused);
        assert_eq!(
            (refused.status, refused.field("Content-Type"), &*text),
            (403, Some("text/plain"), "403: this client may not purge (larder_purge_from)\n")
        );
        site.wait_for_log(&format!("access forbidden by \"larder_purge_from\": {why}"));
    }
}

#[test]
fn a_log_says_what_was_purged() {
    let origin = Origin::start().unwrap();
    origin.answer("*", tagged("page"));
    let site = Setup::new().name("ORIGIN", origin.address()).start(SITE);
    for (method, path, fields, line) in [
        ("PURGE", "/", "Surrogate-Key: one a\"b\r\n", r#"purged: tags one a\"b: 0 pages"#),
        ("BAN", "/", "X-Ban: obj.http.x == a\r\n", "banned: obj.http.x == a"),
        ("PURGE", "/b*", "X-Purge-Soft: 1\r\n", "purged: URLs like /b*, softly: 0 pages"),
    ] {
        assert_eq!(site.ask(method, path, fields).status, 200, "{fields}");
        site.wait_for_log(line);
    }
}

const SITE: &str = "
    proxy_cache_path {DIR}/pages keys_zone=pages:1m inactive=1h;
    proxy_cache_path {DIR}/others keys_zone=others:1m inactive=1h;
    proxy_cache_path {DIR}/foreign keys_zone=foreign:1m inactive=1h;
    map $uri $zone { ~^/chosen/a pages; default others; }
    proxy_cache_valid 200 1h;
    add_header X-Cache $upstream_cache_status;
    server {
        listen 127.0.0.1:{PORT};
        larder_purge_from 127.0.0.1;
        proxy_cache_key $scheme$request_method$host$request_uri;
        location / { proxy_pass http://{ORIGIN}; proxy_cache pages; }
        location /others/ { proxy_pass http://{ORIGIN}; proxy_cache others; }
        location /mobile/ { proxy_pass http://{ORIGIN}; proxy_cache pages; proxy_cache_key $http_x_device$uri; }
        location /heads/ { proxy_pass http://{ORIGIN}; proxy_cache pages; proxy_cache_convert_head off; }
        location /sliced/ {
            slice 1k;
            proxy_set_header Range $slice_range;
            proxy_pass http://{ORIGIN};
            proxy_cache pages;
            proxy_cache_key $uri$slice_range;
            proxy_cache_valid 200 206 1h;
        }
        location /front/ { index index.php; root {DIR}/www; }
        location ~ index.php { proxy_pass http://{ORIGIN}; proxy_cache pages; }
    }
    server {
        listen 127.0.0.1:{PORT2};
        location / { proxy_pass http://{ORIGIN}; proxy_cache foreign; proxy_cache_key $host$request_uri; }
    }";

#[test]
fn a_server_purges_what_its_own_locations_cache() {
    let origin = Origin::start().unwrap();
    origin.answer("*", tagged("page"));
    let site = start(&origin, SITE);
    let mut foreign = larder_testkit::Client::connect(site.setup().other_address()).unwrap();
    let mut foreign = |wanted: &str| {
        eventually("the page of the other server", || cached(&crate::site::get_on(&mut foreign, "/a")) == wanted);
    };
    for (method, path, fields, pages) in [
        ("PURGE", "/", "X-Purge-Method: all\r\n", 2),
        ("PURGE", "/", "Surrogate-Key: one\r\n", 2),
        ("PURGE", "/*", "", 2),
        ("PURGE", "/others/a", "X-Purge-Scheme: all\r\n", 1),
        ("PURGE", "/o", "X-Purge-Method: prefix\r\n", 1),
        ("BAN", "/", "", 2),
    ] {
        fill(&site, &["/a", "/others/a"]);
        foreign("HIT");
        let told = text(&site.ask(method, path, fields));
        assert!(told.starts_with(&purged(pages)), "{method} {path} {fields} {told}");
        let missed = ["/a", "/others/a"].iter().filter(|path| cached(&site.get(path)) == "MISS").count();
        assert_eq!(missed, pages, "{method} {path} {fields}");
        foreign("HIT");
    }
}

#[test]
fn a_page_goes_in_all_that_is_stored_of_it() {
    let origin = Origin::start().unwrap();
    origin.answer("*", Answer::ok("page").field("Vary", "X-Kind"));
    let site = start(&origin, SITE);
    let found = |method: &str, path: &str, fields: &str| cached(&site.ask(method, path, fields)).to_owned();
    for (path, requests, purge, pages) in [
        ("/a", &[("GET", ""), ("GET", "X-Kind: b\r\n")][..], "", 2),
        ("/heads/a", &[("GET", ""), ("HEAD", "")], "", 2),
        // The key has what the purge does not send.
        ("/mobile/a", &[("GET", "X-Device: m\r\n"), ("GET", "X-Device: d\r\n")], "X-Purge-Scheme: all\r\n", 2),
    ] {
        for (method, fields) in requests {
            eventually("it is stored", || found(method, path, fields) == "HIT");
        }
        let told = text(&site.ask("PURGE", path, purge));
        assert!(told.starts_with(&purged(pages)), "{path} {told}");
        for (method, fields) in requests {
            assert_eq!(found(method, path, fields), "MISS", "{path} {fields}");
        }
    }
}

#[test]
fn a_page_is_found_behind_an_index_and_in_slices() {
    let origin = Origin::start().unwrap();
    let ranged = |range: &str| {
        Answer::status("206 Partial Content").field("Content-Range", range).field("ETag", "\"1\"").body(vec![
            b'x';
            if range.contains("0-1023") {
                1024
            } else {
                76
            }
        ])
    };
    origin.answer("*", Answer::ok("page"));
    origin.answer("/sliced/a", ranged("bytes 0-1023/1100"));
    origin.answer_then("/sliced/a", ranged("bytes 1024-1099/1100"));
    let setup = Setup::new().name("ORIGIN", origin.address()).file("www/front/index.php", "<?php");
    let site = setup.start(SITE);
    fill(&site, &["/front/"]);
    let told = text(&site.ask("PURGE", "/front/", ""));
    assert!(told.starts_with("Purged: 1 page\n"), "{told}");
    assert_eq!(cached(&site.get("/front/")), "MISS");
    assert_eq!(site.get("/sliced/a").body.len(), 1100);
    let before = origin.count();
    assert_eq!((site.get("/sliced/a").body.len(), origin.count()), (1100, before));
    let told = text(&site.ask("PURGE", "/sliced/a", ""));
    assert!(told.starts_with("Purged: 2 pages\n"), "{told}");
}

#[test]
fn what_is_wrong_purges_nothing_and_says_why() {
    let origin = Origin::start().unwrap();
    origin.answer("*", tagged("page"));
    let site = start(&origin, SITE);
    fill(&site, &["/a"]);
    for (method, path, fields, why) in [
        ("PURGE", "/a(", "X-Purge-Method: regex\r\n", "Regex compile error"),
        ("PURGE", "/a", "X-Purge-Method: (\r\n", "it may be default, exact"),
        ("PURGE", "/(.*", "", "Regex compile error"),
        ("BAN", "/(", "", "Regex compile error"),
        ("BAN", "/", "X-Url: (\r\n", "Regex compile error"),
        ("BAN", "/", "X-Host: (\r\nX-Url: a\r\n", "Regex compile error"),
        ("BAN", "/", "Cache-Tags: a[\r\n", "Regex compile error"),
        ("BAN", "/", "X-Ban: obj.http.a\r\n", "Expected comparison operator"),
        ("PURGE", "/a", "xkey: ,\r\n", "\"xkey\" is empty"),
        ("BAN", "/", "X-Ban-Tags: foo\r\n", "larder does not know the field \"X-Ban-Tags\" of a BAN"),
        ("PURGE", "/", "X-Invalidate: foo\r\n", "larder does not know the field \"X-Invalidate\" of a PURGE"),
        // One of two is right.
        ("PURGEKEYS", "/a", "xkey-purge: one\r\nxkey-softpurge: ,\r\n", "\"xkey-softpurge\" is empty"),
        ("PURGE", "/a", "X-Magento-Tags-Pattern: (one\r\nX-Pool: a\r\n", "Regex compile error"),
    ] {
        let refused = site.ask(method, path, fields);
        let told = text(&refused);
        assert_eq!(refused.status, 400, "{method} {path} {fields} {told}");
        assert!(told.starts_with("Nothing is purged: ") && told.contains(why), "{fields} {told}");
        assert_eq!(cached(&site.get("/a")), "HIT", "{method} {path} {fields}");
    }
    site.wait_for_log("nothing is purged: Regex compile error");
}

/// Pages that only a disk has, and that were stored before the directive was there.
#[test]
fn tags_reach_pages_on_disk_and_those_from_before_a_reload() {
    let origin = Origin::start().unwrap();
    origin.answer("*", tagged("page"));
    let without = SITE.replace("larder_purge_from 127.0.0.1;", "");
    let site = start(&origin, &without);
    fill(&site, &["/a", "/b"]);
    site.change_to(SITE);
    let told = text(&site.ask("PURGE", "/", "Surrogate-Key: one\r\n"));
    assert!(told.contains("What is on disk alone is purged too"), "{told}");
    assert_eq!(cached(&site.get("/a")), "MISS");
    fill(&site, &["/a", "/b"]);
    let site = site.restart();
    eventually("the shelf to be open", || site.count_in_log("2 pages") == 1);
    assert_eq!(cached(&site.get("/b")), "HIT", "it is from disk");
    let site = site.restart();
    eventually("the shelf to be open", || site.count_in_log("2 pages") == 2);
    assert_eq!(site.ask("PURGE", "/", "Surrogate-Key: one\r\n").status, 200);
    assert_eq!([cached(&site.get("/a")), cached(&site.get("/b"))], ["MISS", "MISS"]);
    fill(&site, &["/a"]);
    assert_eq!(site.ask("PURGE", "/", "Surrogate-Key: two\r\n").status, 200);
    assert_eq!(cached(&site.get("/a")), "HIT");
}

const VCL: &str = "
    proxy_cache_path {DIR}/pages keys_zone=pages:1m inactive=1h;
    server {
        listen 127.0.0.1:{PORT};
        larder_purge_from 127.0.0.1;
        location / { vcl {DIR}/site.vcl; proxy_pass http://{ORIGIN}; proxy_cache pages; proxy_cache_key $uri; }
    }";

#[test]
fn pages_behind_a_vcl_go_without_a_word_in_it() {
    let origin = Origin::start().unwrap();
    origin.answer("*", tagged("page").field("Cache-Control", "max-age=3600"));
    let vcl = "vcl 4.1;\nsub vcl_deliver { set resp.http.X-Cache = obj.hits; }";
    let site = Setup::new().name("ORIGIN", origin.address()).file("site.vcl", vcl).start(VCL);
    for (path, fields) in [("/a", ""), ("/", "Surrogate-Key: one\r\n"), ("/*", "")] {
        site.get_until("/a", "the page to be stored", |response| cached(response) != "0");
        let told = text(&site.ask("PURGE", path, fields));
        assert!(told.starts_with("Purged: 1 page\n"), "{path} {fields} {told}");
        assert_eq!(cached(&site.get("/a")), "0", "{path} {fields}");
    }
}

const BY_ORIGIN: &str = "
    proxy_cache_path {DIR}/pages keys_zone=pages:1m inactive=1h;
    server {
        listen 127.0.0.1:{PORT};
        add_header X-Cache $upstream_cache_status;
        proxy_cache pages;
        proxy_cache_key $host$request_uri;
        proxy_cache_valid 200 1h;
        location / { proxy_pass http://{ORIGIN}; larder_purge_by_origin on; }
        location /off/ { proxy_pass http://{ORIGIN}; }
    }";

#[test]
fn an_origin_purges_by_its_answer_before_the_visitor_gets_that() {
    let origin = Origin::start().unwrap();
    origin.answer("*", tagged("page"));
    let site = start(&origin, BY_ORIGIN);
    let pages = ["/a", "/blog/1", "/blog/2"];
    for (number, (field, value, gone)) in [
        ("X-Larder-Purge", "tag=one", &pages[..]),
        ("X-Larder-Purge", "tag=none url=/a", &["/a"]),
        ("X-Larder-Purge", "url=/blog/*", &["/blog/1", "/blog/2"]),
        ("X-LiteSpeed-Purge", "public,/blog/1", &["/blog/1"]),
        ("X-LiteSpeed-Purge", "*", &pages),
        ("X-Larder-Purge", "all", &pages),
        ("X-Larder-Purge", "tag=one everything", &[]),
    ]
    .into_iter()
    .enumerate()
    {
        fill(&site, &pages);
        let path = format!("/save/{number}");
        origin.answer(
            path.as_str(),
            Answer::status("303 See Other").field("Location", "/a").field(field, value).body(""),
        );
        let saved = site.ask("POST", &path, "Content-Length: 0\r\n");
        assert_eq!((saved.status, saved.field(field)), (303, None), "{value}");
        let missed: Vec<_> = pages.into_iter().filter(|path| cached(&site.get(path)) == "MISS").collect();
        assert_eq!(missed, gone, "{value}");
    }
    site.wait_for_log("\"larder_purge_by_origin\": nothing is purged: \"X-Larder-Purge: everything\" is unknown");
    site.wait_for_log("purged by the origin: tags one: 3 pages");
    fill(&site, &pages);
    origin.answer("/off/save", Answer::ok("saved").field("X-Larder-Purge", "all"));
    assert_eq!(site.ask("POST", "/off/save", "Content-Length: 0\r\n").field("X-Larder-Purge"), Some("all"));
    assert!(pages.iter().all(|path| cached(&site.get(path)) == "HIT"));
}

/// In whatever answer, and of whatever age.
#[test]
fn no_visitor_sees_what_an_origin_purges_by() {
    let origin = Origin::start().unwrap();
    let fields =
        [("X-Larder-Purge", "url=/none"), ("X-LiteSpeed-Purge", "tag=none"), ("X-LiteSpeed-Purge2", "tag=none")];
    let purging = |answer: Answer| fields.iter().fold(answer, |answer, (name, value)| answer.field(name, value));
    origin.answer("*", purging(Answer::ok("page")).field("Cache-Control", "max-age=100"));
    let hints: String = fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    origin.answer(
        "/hinted",
        Answer::raw(format!(
            "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n{hints}\r\nHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\npage"
        )),
    );
    let http = "
        proxy_cache_path {DIR}/pages keys_zone=pages:1m inactive=1h;
        server {
            listen 127.0.0.1:{PORT};
            {ON}
            proxy_cache pages;
            proxy_cache_key $host$request_uri;
            larder_cache_mode rfc9111;
            add_header X-Cache $upstream_cache_status;
            early_hints 1;
            location / { proxy_pass http://{ORIGIN}; proxy_pass_header X-Larder-Purge; }
            location /vcl/ { vcl {DIR}/site.vcl; proxy_pass http://{ORIGIN}; }
        }";
    let vcl = "vcl 4.1;\nsub vcl_deliver { if (obj.hits > 0) { set resp.http.X-Cache = \"HIT\"; } }";
    let off = Setup::new().name("ORIGIN", origin.address()).name("ON", "").file("site.vcl", vcl);
    let site = off.start(http);
    for path in ["/page", "/vcl/page"] {
        let before = site.get_until(path, "it to be stored", |response| cached(response) == "HIT");
        assert_eq!(before.field("X-LiteSpeed-Purge"), Some("tag=none"), "{path}");
    }
    site.change_to(&http.replace("{ON}", "larder_purge_by_origin on;"));
    for path in ["/page", "/vcl/page"] {
        let hit = site.get(path);
        assert_eq!(cached(&hit), "HIT", "{path}");
        let shown: Vec<_> = fields.iter().filter(|(name, _)| hit.field(name).is_some()).collect();
        assert!(shown.is_empty(), "{path}: {shown:?}");
    }
    let mut client = site.client();
    client.send(crate::site::get("/hinted").as_bytes()).unwrap();
    let hint = client.read_head().unwrap();
    let shown: Vec<_> = fields.iter().filter(|(name, _)| hint.field(name).is_some()).collect();
    assert_eq!((hint.status, hint.field("Link"), shown), (103, Some("</a>"), vec![]));
}
