//! What `larder explain` says of what is stored under a key, for people and for programs.

use larder_testkit::{Answer, Origin, text_of};
use serde_json::Value;

use crate::running_varnishd::Varnishd;
use crate::site::{Setup, Site, cached, eventually};

const SITE: &str =
    "proxy_cache_path {DIR}/pages keys_zone=p:1m max_size=8m; proxy_cache_key $host$request_uri; proxy_cache p;
    larder_cache_tags xkey; gzip on; gzip_types *; gzip_min_length 1; add_header X-Cache $upstream_cache_status;
    server { listen 127.0.0.1:{PORT}; server_name site.test;
        location / { proxy_pass http://{ORIGIN}; proxy_cache_background_update on; proxy_cache_use_stale updating; }
        location /no/ { proxy_pass http://{ORIGIN}; proxy_no_cache $arg_skip $upstream_http_x_mine; }
        location /unbuffered/ { proxy_pass http://{ORIGIN}; proxy_buffering off; }
    }";

fn site(origin: &Origin) -> Site {
    Setup::new().one_worker().name("ORIGIN", origin.address()).start(SITE)
}

fn explained(site: &Site, words: &[&str]) -> String {
    let output = site.setup().larder_words(&[&["explain"], words].concat());
    assert!(output.status.success(), "{words:?}: {}", text_of(&output.stderr));
    text_of(&output.stdout)
}

/// The rows about something, as programs get them.
fn rows(site: &Site, what: &str, words: &[&str]) -> Vec<Value> {
    let told: Value = serde_json::from_str(&explained(site, &[words, &["--json"]].concat())).unwrap();
    told["rows"].as_array().unwrap().iter().filter(|row| row["what"] == what).cloned().collect()
}

fn hit(site: &Site, target: &str) {
    site.get_until(target, "a hit", |response| cached(response) == "HIT");
}

#[test]
fn a_page_is_described_with_tags_forms_shelves_and_who_fetched_it() {
    let origin = Origin::start().unwrap();
    let page = Answer::ok("words ".repeat(500)).field("Cache-Control", "max-age=100, stale-if-error=60");
    let page = page.field("xkey", "shop \"b\", shop").field("Vary", "X-Lang").field("Content-Type", "text/plain");
    origin.answer("*", page);
    let site = site(&origin);
    site.ask("GET", "/page", "X-Lang: de\r\n");
    let gzipped = || site.ask("GET", "/page", "X-Lang: de\r\nAccept-Encoding: gzip\r\n");
    eventually("it is made", || gzipped().field("Content-Encoding") == Some("gzip"));
    let url = ["http://site.test/page", "-H", "X-Lang: de"];
    eventually("it is on disk, and its form is ready", || {
        let told = explained(&site, &url);
        told.contains(" on disk at ") && told.contains("also as gzip")
    });
    let told = explained(&site, &url);
    let folder = site.setup().path("pages").display().to_string();
    for part in [
        "  status 200, stored ".to_owned(),
        ", stale if the origin fails 60 s".to_owned(),
        format!(", in memory and on disk at {folder}, 3000 bytes as identity, also as gzip ("),
        format!(" ms from {} for a request", origin.address()),
        ", tags shop \\\"b\\\", for ".to_owned(),
        ", for x-lang: \"de\"\n".to_owned(),
    ] {
        assert!(told.contains(&part) || part.contains(" ms from") && told.contains(&part[4..]), "{part}: {told}");
    }
    let [page] = &rows(&site, "page", &url)[..] else { panic!("one page") };
    assert_eq!(page["tags"], serde_json::json!(["shop", "\"b\""]));
    assert_eq!((&page["status"], &page["in_memory"], &page["mark"]), (&200.into(), &true.into(), &"page".into()));
    assert_eq!((&page["on_disk"][0], &page["stale_if_error"]), (&folder.into(), &60.into()));
    assert_eq!(page["varies_on"], serde_json::json!([{ "field": "x-lang", "value": "de" }]));
    assert_eq!(page["forms"][0], serde_json::json!({ "form": "identity", "bytes": 3000 }));
    assert_eq!(page["forms"][1]["form"], "gzip");
    assert!(page["forms"][1]["bytes"].as_u64().is_some_and(|bytes| bytes > 0 && bytes < 1000), "{page}");
    assert_eq!(page["fetched_from"], origin.address().to_string());
    assert_eq!((&page["fetched_for"], &page["is_for_request"]), (&"request".into(), &true.into()));
    assert!(page["ttl"].as_i64().is_some_and(|ttl| (0..=100).contains(&ttl)), "{page}");
    // What the answer was under way is its age.
    assert!(page["lifetime"].as_i64().is_some_and(|lifetime| (95..=100).contains(&lifetime)), "{page}");
    let other = rows(&site, "page", &["http://site.test/page", "-H", "X-Lang: en"]);
    assert_eq!(other[0]["is_for_request"], false);
    let cache = &rows(&site, "cache", &url)[0];
    assert_eq!((&cache["zone"], &cache["variants_in_memory"]), (&"p".into(), &1.into()));
    assert!(cache["hits_at_least"].as_u64().is_some_and(|hits| hits > 0), "{cache}");
    // What a disk does not keep is not made up.
    let site = site.restart();
    hit(&site, "/page?read");
    site.ask("GET", "/page", "X-Lang: de\r\n");
    let [page] = &rows(&site, "page", &url)[..] else { panic!("one page") };
    assert_eq!((&page["fetched_from"], &page["fetched_for"]), (&Value::Null, &Value::Null));
    assert!(explained(&site, &url).contains(", read from disk since then"));
}

#[test]
fn a_page_that_was_fetched_in_the_background_says_so() {
    let origin = Origin::start().unwrap();
    origin.answer("*", Answer::ok("page").field("X-Accel-Expires", "1"));
    let site = site(&origin);
    site.get("/page");
    eventually("it is fetched anew", || {
        site.get("/page");
        rows(&site, "page", &["http://site.test/page"]).iter().any(|page| page["fetched_for"] == "background")
    });
    assert!(explained(&site, &["http://site.test/page"]).contains(" in the background"));
}

#[test]
fn the_last_answer_says_what_it_would_need() {
    let origin = Origin::start().unwrap();
    origin.answer("*", Answer::ok("page").field("Cache-Control", "max-age=100"));
    origin.answer("/cart", Answer::ok("cart").field("Set-Cookie", "PHPSESSID=1"));
    origin.answer("/none", Answer::ok("none"));
    origin.answer("/broken", Answer::status("503 Service Unavailable").body("down"));
    origin.answer("/turns", Answer::ok("1").field("Cache-Control", "private"));
    origin.answer_then("/turns", Answer::ok("2").field("Cache-Control", "max-age=100"));
    let mine = Answer::ok("mine").field("Cache-Control", "max-age=100").field("X-Mine", "1");
    origin.answer("/no/mine", mine);
    origin.answer("/no/x?skip=1", Answer::ok("skipped").field("Cache-Control", "max-age=100"));
    let site = site(&origin);
    for (target, sentence, needs) in [
        (
            "/cart",
            "not cached: Set-Cookie (PHPSESSID), says the last answer, ",
            "it would need no Set-Cookie, or proxy_ignore_headers",
        ),
        (
            "/none",
            "not cached: no lifetime: the answer says none, and proxy_cache_valid has none for 200, says the last answer, ",
            "it would need a time: Cache-Control: max-age=600, or proxy_cache_valid 200 10m",
        ),
        // These say nothing of the next one.
        ("/broken", "a miss: ", "it would need a status below 500"),
        (
            "/no/x?skip=1",
            "not cached: $arg_skip is \"1\", used by proxy_no_cache at ",
            "it would need $arg_skip to be empty or 0",
        ),
    ] {
        site.get(target);
        let told = explained(&site, &[&format!("http://site.test{target}")]);
        assert!(told.starts_with(sentence) && told.contains(needs), "{target}: {told}");
        let last = &rows(&site, "last answer", &[&format!("http://site.test{target}")])[0];
        assert_eq!(last["may_be_otherwise"], sentence.starts_with("a miss") || target.contains("skip"), "{last}");
        assert!(last["needs"].is_string() && last["ago"].is_u64() && last["status"].is_u64(), "{last}");
    }
    // What the configuration says is known before.
    assert_eq!(
        explained(&site, &["http://site.test/unbuffered/"]).lines().next(),
        Some("not cached: buffering is off")
    );
    // It is told all the same that the last answer was not stored.
    site.get("/no/mine");
    for (target, why) in [
        ("/broken", "no lifetime: the answer says none, and proxy_cache_valid has none for 503"),
        ("/no/mine", "proxy_no_cache $upstream_http_x_mine at nginx.conf:14"),
    ] {
        let told = explained(&site, &[&format!("http://site.test{target}")]);
        let sentence = told.lines().next().unwrap();
        assert!(sentence.starts_with("a miss: it is not stored"), "{told}");
        let last = sentence.split_once("; the answer is stored if it may be; the last one was not, ").unwrap().1;
        assert_eq!(last.split_once(" s ago: ").unwrap().1, why);
    }
    // It is forgotten when a page is stored.
    let url = "http://site.test/turns";
    site.get("/turns");
    assert!(explained(&site, &[url]).starts_with("not cached: Cache-Control: private, says the last answer, "));
    site.get("/turns");
    hit(&site, "/turns");
    let told = explained(&site, &[url]);
    assert!(told.starts_with("a hit: ") && !told.contains("last answer"), "{told}");
    assert!(rows(&site, "last answer", &["http://site.test/never"]).is_empty());
}

/// By RFC 9111, where one is there.
#[test]
fn the_field_that_ends_the_time_of_an_answer_is_named() {
    let origin = Origin::start().unwrap();
    let no_validator = ", and no ETag or Last-Modified";
    let answers = [
        ("/zero", "Cache-Control", "public, max-age=0", "Cache-Control: max-age=0"),
        ("/shared", "Cache-Control", "max-age=60, s-maxage=0", "Cache-Control: s-maxage=0"),
        ("/broken", "Cache-Control", "max-age=60.5", "Cache-Control: max-age without whole seconds"),
        ("/expires", "Expires", "0", "Expires: it does not lie ahead"),
        ("/targeted", "CDN-Cache-Control", "max-age=0", "cdn-cache-control: its max-age is over"),
    ];
    for (path, name, value, _) in answers {
        origin.answer(path, Answer::ok("page").field(name, value));
    }
    let aged = Answer::ok("page").field("Cache-Control", "max-age=60").field("Age", "90");
    origin.answer("/aged", aged);
    origin.answer("/confirmed", Answer::ok("page").field("Cache-Control", "max-age=0").field("ETag", "\"1\""));
    origin.answer("/no-cache", Answer::ok("page").field("Cache-Control", "no-cache").field("ETag", "\"1\""));
    origin.answer("/soft", Answer::ok("page").field("Cache-Control", "max-age=100"));
    let site = Setup::new().name("ORIGIN", origin.address()).start(
        "proxy_cache_path {DIR}/pages keys_zone=p:1m; proxy_cache_key $uri; proxy_cache p;
         server { listen 127.0.0.1:{PORT}; server_name shop.test;
            proxy_cache_valid 200 10m; larder_cache_mode rfc9111; larder_explain_from 127.0.0.1;
            location / { proxy_pass http://{ORIGIN}; proxy_cache_revalidate on; larder_purge_from 127.0.0.1; }
         }",
    );
    let aged = ("/aged", "", "", "Cache-Control: max-age, which its age is above");
    for (path, _, _, why) in answers.into_iter().chain([aged]) {
        let response = site.get(path);
        let expected = format!("not cached: {why}{no_validator}");
        assert_eq!(response.field("X-Larder-Explain"), Some(&*expected), "{path}");
        let row = rows(&site, "last answer", &[&format!("http://shop.test{path}")]).remove(0);
        assert_eq!(row["reason"], format!("{why}{no_validator}"), "{path}");
        assert_eq!(
            row["needs"], "a time, such as Cache-Control: max-age=600, or an ETag or Last-Modified to be confirmed by",
            "{path}"
        );
    }
    assert_eq!(site.get("/confirmed").field("X-Larder-Explain"), Some("a miss: not stored yet; the answer is stored"));
    let first = |path: &str, field: &str| {
        let told = explained(&site, &[&format!("http://shop.test{path}"), "-H", field]);
        told.lines().next().unwrap().to_owned()
    };
    // A page that can be confirmed has no time either.
    for (path, why) in [("/confirmed", "Cache-Control: max-age=0"), ("/no-cache", "Cache-Control: no-cache")] {
        site.get(path);
        assert_eq!(first(path, "X: 1"), format!("a miss: it is confirmed for each request: {why}"));
        let expected = format!("a miss: confirmed for each request: {why}; the answer is stored");
        assert_eq!(site.get(path).field("X-Larder-Explain"), Some(&*expected));
        let unchanged = Answer::status("304 Not Modified").field("ETag", "\"1\"");
        origin.answer(path, unchanged);
        let expected = format!("a hit: confirmed for each request: {why}");
        assert_eq!(site.get(path).field("X-Larder-Explain"), Some(&*expected));
    }
    // Nor has one that is purged softly.
    site.get("/soft");
    site.ask("PURGE", "/soft", "X-Purge-Soft: 1\r\n");
    let soft = first("/soft", "X: 1");
    assert!(soft.starts_with("a miss: it was purged softly, and is stale for "), "{soft}");
    // Some answers are for one visitor.
    let expected = "a miss: it is not stored; the answer is stored if it says that others may have it, as by \
                    Cache-Control: public";
    assert!(first("/other", "Authorization: Basic YTpi").starts_with(expected));
}

/// Reasons not to store an answer, and none to ask an origin.
#[test]
fn what_was_not_stored_lately_is_told_and_that_there_is_more() {
    let origin = Origin::start().unwrap();
    let private = |name: &str, value: &str| Answer::ok("page").field("Cache-Control", "max-age=100").field(name, value);
    origin.answer("*", Answer::ok("page").field("Cache-Control", "max-age=100"));
    origin.answer("/star", private("Vary", "*"));
    origin.answer("/varies", private("Vary", "X-Kind"));
    for name in ["a", "b", "c", "d", "e"] {
        origin.answer(format!("/{name}").as_str(), private("Set-Cookie", &format!("{name}=1")));
    }
    let site = site(&origin);
    let url = format!("http://{}/page", site.setup().address());
    let told = |site: &Site| {
        rows(site, "lately", &[&url]).iter().map(|row| row["text"].as_str().unwrap().to_owned()).collect()
    };
    for kind in ["1", "2"] {
        site.ask("GET", "/varies", &format!("X-Kind: {kind}\r\n"));
    }
    site.get("/star");
    let lately: Vec<String> = told(&site);
    assert_eq!(lately, ["1 times Vary: *, such as /star"]);
    let expected = "a miss: it is not stored; the answer is stored if it may be; others here were lately not stored, such as \
                    /star: Vary: *";
    assert_eq!(explained(&site, &[&url]).lines().next(), Some(expected));
    ["/a", "/b", "/c", "/d", "/e"].iter().for_each(|path| drop(site.get(path)));
    let lately: Vec<String> = told(&site);
    assert_eq!((lately.len(), &*lately[5]), (6, "and 1 more, which larder why tells"), "{lately:?}");
}

#[test]
fn conditions_are_told_to_programs_with_what_made_them_so() {
    let origin = Origin::start().unwrap();
    let site = Setup::new().one_worker().name("ORIGIN", origin.address()).start(
        "proxy_cache_path {DIR}/pages keys_zone=p:1m;
         server { listen 127.0.0.1:{PORT}; server_name site.test; set $skip 0; if ($http_cookie ~ sess) { set $skip 1; }
            location / { proxy_pass http://{ORIGIN}; proxy_cache p; proxy_cache_bypass $skip; } }",
    );
    let words = ["http://site.test/", "-H", "Cookie: a=1; sess=2"];
    let condition = &rows(&site, "condition", &words)[0];
    assert_eq!((&condition["directive"], &condition["condition"]), (&"proxy_cache_bypass".into(), &"$skip".into()));
    assert_eq!((&condition["value"], &condition["is_true"]), (&"1".into(), &true.into()));
    assert_eq!(condition["made_by"], "cookie sess sets $skip=1");
    assert_eq!((&condition["made_at"], &condition["at"]), (&"nginx.conf:11".into(), &"nginx.conf:12".into()));
    let none = &rows(&site, "condition", &["http://site.test/"])[0];
    assert_eq!((&none["is_true"], &none["value"]), (&false.into(), &"0".into()));
}

#[test]
fn what_a_condition_comes_from_is_told_through_maps_and_geos() {
    let site = Setup::new().start(
        "proxy_cache_path {DIR}/pages keys_zone=p:1m; proxy_cache_key '\"$host\"$request_uri'; proxy_cache p;
         map $http_cookie $logged_in { default 0; ~sess 1; }
         map $logged_in $skip { 1 yes; }
         geo $is_intern { 127.0.0.0/8 1; }
         server { listen 127.0.0.1:{PORT}; server_name site.test;
            location / { proxy_pass http://127.0.0.1:{PORT2}; proxy_cache_bypass $skip; }
            location /intern { proxy_pass http://127.0.0.1:{PORT2}; proxy_cache_bypass $is_intern; } }",
    );
    for (path, made) in [
        (
            "/",
            "cookie sess makes $logged_in=1 at nginx.conf:11, which makes $skip=yes at nginx.conf:12, used by proxy_cache_bypass at nginx.conf:15",
        ),
        (
            "/intern",
            "\"geo\" makes of 127.0.0.1 $is_intern=1 at nginx.conf:13, used by proxy_cache_bypass at nginx.conf:16",
        ),
    ] {
        let told = explained(&site, &[&format!("http://site.test{path}"), "-H", "Cookie: a=b; sess=1"]);
        assert_eq!(told.lines().next(), Some(&*format!("bypassed: {made}; the answer is stored if it may be")));
        // A key can be copied.
        assert!(told.contains(&format!("\nkey        \"site.test\"{path}\n")), "{told}");
    }
}

#[test]
fn a_vcl_says_the_same_of_its_pages() {
    let origin = Origin::start().unwrap();
    origin.answer("*", Answer::ok("page").field("Cache-Control", "max-age=100").field("xkey", "shop"));
    origin.answer("/cart", Answer::ok("cart").field("Set-Cookie", "PHPSESSID=1"));
    let (host, port) = (origin.address().ip(), origin.address().port());
    let vcl = format!("vcl 4.1;\nbackend default {{ .host = \"{host}\"; .port = \"{port}\"; }}\n");
    let varnishd = Varnishd::serve(&vcl, &[]);
    for url in ["/page", "/page", "/page", "/cart"] {
        varnishd.ask("GET", url);
    }
    let folder = varnishd.folder.join("run").display().to_string();
    let told = |url: &str| {
        let output = crate::site::run(&["explain", "-n", &folder, url]);
        assert!(output.status.success(), "{}", text_of(&output.stderr));
        text_of(&output.stdout)
    };
    let page = told("http://a/page");
    assert!(page.contains(", 2 hits") && page.contains(&format!(" from {} for a request", origin.address())), "{page}");
    assert!(page.contains(", fetched by request "), "{page}");
    let cart = told("http://a/cart");
    assert!(cart.starts_with("a miss: hit-for-miss, "), "{cart}");
    assert!(cart.contains("last answer") && cart.contains("; it would need vcl_backend_response to leave"), "{cart}");
}
