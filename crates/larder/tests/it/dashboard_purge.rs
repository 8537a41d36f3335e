//! Purges from the dashboard of `larder_status`: by whom, and by which requests.

use larder_testkit::{Answer, Browser, Origin, Response};
use serde_json::Value;

use crate::site::{Setup, Site, cached, eventually, text};

const SITE: &str = "
    proxy_cache_path {DIR}/pages keys_zone=pages:8m inactive=1h;
    server {
        listen 127.0.0.1:{PORT};
        server_name shop.test site.test;
        add_header X-Cache $upstream_cache_status;
        proxy_cache pages;
        proxy_cache_key $host$request_uri;
        proxy_cache_valid 200 1h;
        location / { proxy_pass http://{ORIGIN}; larder_purge_from 127.0.0.1; }
        location /theirs/ { proxy_pass http://{ORIGIN}; larder_purge_from 192.0.2.1 key=a-secret-of-others; }
        location /nobodys/ { proxy_pass http://{ORIGIN}; }
        location /locked/ { proxy_pass http://{ORIGIN}; larder_purge_from 127.0.0.1; auth_request /ask; }
        location /denied/ { proxy_pass http://{ORIGIN}; larder_purge_from 127.0.0.1; limit_except GET { deny all; } }
        location = /ask { internal; return 200; }
        location /status { larder_status; }
    }";

fn start() -> (Site, Origin) {
    let origin = Origin::start().unwrap();
    origin.answer("*", Answer::ok("page"));
    (Setup::new().name("ORIGIN", origin.address()).start(SITE), origin)
}

const OWN: &str = "X-Larder-Dashboard: 1\r\n";

fn post(site: &Site, host: &str, fields: &str, body: &str) -> Response {
    let (path, length) = ("/status/api/larder/1/purge", body.len());
    site.exchange(
        "POST",
        format!("POST {path} HTTP/1.1\r\nHost: {host}\r\n{fields}Content-Length: {length}\r\n\r\n{body}"),
    )
}

fn may(site: &Site, path: &str) -> bool {
    let told = site.get(&format!("/status/api/larder/1/purge?url=http%3A%2F%2Fshop.test{path}"));
    let told: Value = serde_json::from_str(&text(&told)).unwrap();
    told["may"].as_bool().unwrap()
}

fn fill(site: &Site, path: &str) {
    let get = || site.exchange("GET", format!("GET {path} HTTP/1.1\r\nHost: shop.test\r\n\r\n"));
    eventually("the page to be stored", || cached(&get()) == "HIT");
}

fn asked(site: &Site, path: &str) -> String {
    cached(&site.exchange("GET", format!("GET {path} HTTP/1.1\r\nHost: shop.test\r\n\r\n"))).to_owned()
}

#[test]
fn who_may_purge_a_page_may_from_the_dashboard_and_nobody_else() {
    let (site, origin) = start();
    let own = site.setup().address().to_string();
    for (path, allowed) in [
        ("/page", true),
        ("/theirs/page", false),
        ("/nobodys/page", false),
        ("/locked/page", false),
        ("/denied/page", false),
    ] {
        fill(&site, path);
        assert_eq!(may(&site, path), allowed, "{path}");
        let fields = format!("{OWN}Origin: http://{own}\r\nSec-Fetch-Site: same-origin\r\n");
        let told = post(&site, &own, &fields, &format!(r#"{{"url":"http://shop.test{path}"}}"#));
        let (status, went) = if allowed { (200, "MISS") } else { (403, "HIT") };
        assert_eq!((told.status, asked(&site, path).as_str()), (status, went), "{path}: {}", text(&told));
        let expected = if allowed { "Purged: 1 page" } else { "" };
        assert!(text(&told).contains(expected), "{}", text(&told));
    }
    let told = post(&site, &own, OWN, r#"{"url":"http://shop.test/theirs/page"}"#);
    assert!(text(&told).contains("larder_purge_from"), "{}", text(&told));
    fill(&site, "/page");
    let told = post(&site, &own, OWN, r#"{"url":"http://shop.test/page","soft":true}"#);
    assert_eq!((told.status, asked(&site, "/page").as_str()), (200, "EXPIRED"), "{}", text(&told));
    assert!(
        origin.requests().iter().all(|seen| seen.request_line.starts_with("GET ")),
        "no purge goes on to an origin"
    );
}

#[test]
fn what_another_site_may_have_sent_purges_nothing() {
    let (site, _origin) = start();
    let own = site.setup().address().to_string();
    let port = own.split(':').next_back().unwrap();
    fill(&site, "/page");
    let body = r#"{"url":"http://shop.test/page"}"#;
    for (host, fields) in [
        (own.as_str(), String::new()),
        (&own, "X-Larder-Dashboard: 0\r\n".to_owned()),
        (&own, format!("{OWN}Origin: http://evil.test\r\n")),
        (&own, format!("{OWN}Origin: null\r\n")),
        (&own, format!("{OWN}Origin: http://{own}\r\nSec-Fetch-Site: cross-site\r\n")),
        (&own, format!("{OWN}Sec-Fetch-Site: same-site\r\n")),
        // Its own name, which it lets lead here.
        (
            &format!("evil.test:{port}"),
            format!("{OWN}Origin: http://evil.test:{port}\r\nSec-Fetch-Site: same-origin\r\n"),
        ),
    ] {
        let told = post(&site, host, &fields, body);
        assert_eq!((told.status, asked(&site, "/page").as_str()), (403, "HIT"), "{host} {fields}: {}", text(&told));
    }
    for body in ["", "{}", r#"{"url":"/page","all":true}"#, "url=http://shop.test/page", "\u{fffd}"] {
        assert_eq!(post(&site, &own, OWN, body).status, 400, "{body}");
    }
    for url in ["ftp://a/", "http://shop.test:x/", "https://shop.test/page", "http://shop.test/a b", ""] {
        let told = post(&site, &own, OWN, &serde_json::json!({ "url": url }).to_string());
        assert_eq!(told.status, 403, "{url}: {}", text(&told));
    }
    assert_eq!(asked(&site, "/page"), "HIT");
    assert_eq!(site.ask("DELETE", "/status/api/larder/1/purge", "").status, 405);
    // A name of the server is no stranger's.
    assert_eq!(post(&site, "shop.test", OWN, body).status, 200);
}

#[test]
fn a_page_is_purged_by_keyboard_in_a_browser() {
    let (site, _origin) = start();
    let (tab, enter) = ("\u{e004}", "\u{e007}");
    fill(&site, "/page");
    fill(&site, "/theirs/page");
    let browser = Browser::start();
    browser.open(&format!("http://{}/status", site.setup().address()));
    let explain = |path: &str| {
        browser.says("document.getElementById('url').value = ''");
        browser.fill("#url", &format!("http://shop.test{path}"));
        browser.press(enter);
        let asked = "document.getElementById('purge').dataset.url";
        eventually("whether it may be purged", || browser.says(asked) == format!("http://shop.test{path}"));
    };
    let is_offered = || browser.says("!document.getElementById('purge').hidden") == "true";
    explain("/page");
    eventually("the button", is_offered);
    let mut presses = 0;
    while browser.says("document.activeElement.textContent") != "Purge" {
        presses += 1;
        assert!(presses < 10, "Tab leads to the button");
        browser.press(tab);
    }
    browser.press(enter);
    eventually("what has come of it", || {
        browser.says("document.getElementById('purged').textContent").contains("Purged: 1 page")
    });
    assert_eq!(asked(&site, "/page"), "MISS");
    explain("/theirs/page");
    assert!(!is_offered());
    assert_eq!(browser.console(), [""; 0]);
}
