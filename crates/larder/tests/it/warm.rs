//! `larder_warm`: pages are fetched before a visitor misses them.

use larder_testkit::{Answer, Origin, Route, gzipped};

use crate::site::{Setup, Site, cached, eventually, text};

const SITE: &str = "
    proxy_cache_path {DIR}/pages keys_zone=pages:1m larder_disk=off;
    error_log {DIR}/error.log info;
    larder_warm 100 per second {MORE};
    upstream app { server {ORIGIN}; larder_gate 1; }
    server {
        listen 127.0.0.1:{PORT};
        server_name site.test www.site.test;
        add_header X-Cache $upstream_cache_status;
        proxy_cache pages;
        proxy_cache_key $scheme$host$request_uri;
        proxy_cache_valid 200 404 500 1h;
        proxy_set_header X-Cookie $http_cookie;
        larder_purge_from 127.0.0.1;
        location / { proxy_pass http://app; }
        location /cold/ { proxy_pass http://app; larder_warm off; }
        location /personal/ { proxy_pass http://app; proxy_no_cache 1; }
        location /sitemaps/ { proxy_pass http://app; proxy_cache off; }
        location /denied/ { proxy_pass http://app; allow 127.0.0.1; deny all; }
        location = /sitemap.xml { return 301 http://www.site.test/sitemaps/index.xml; }
        location = /static.xml { root {DIR}; }
        error_page 500 503 /error.html;
        location = /error.html { root {DIR}; }
        location /api/ { larder_status; }
        location = /metrics { larder_metrics; }
    }
    server { listen 127.0.0.1:{PORT}; server_name other.test; location / { proxy_pass http://app; } }";

fn start(origin: &Origin, more: &str) -> Site {
    let list = "<urlset><url><loc>http://site.test/of-a-file</loc></url></urlset>";
    let setup = Setup::new().one_worker().name("ORIGIN", origin.address()).file("static.xml", list);
    setup.start(&SITE.replace("{MORE}", more))
}

/// An origin of pages that are fresh for so many seconds, and have something to purge them by.
fn pages(secs: u32) -> Origin {
    let origin = Origin::start().unwrap();
    let page = Answer::ok("page").field("Cache-Control", &format!("max-age={secs}")).field("Surrogate-Key", "all");
    origin.answer("*", page);
    origin
}

fn count(origin: &Origin, target: &str) -> usize {
    origin.requests().iter().filter(|seen| seen.request_line.split(' ').nth(1) == Some(target)).count()
}

fn visit(site: &Site, path: &str, hits: usize) {
    site.get_until(path, "the page to be stored", |response| cached(response) == "HIT");
    (1..hits).for_each(|_| assert_eq!(cached(&site.get(path)), "HIT", "{path}"));
}

#[test]
fn what_is_asked_for_often_is_fetched_before_it_is_stale() {
    let origin = pages(8);
    let site = start(&origin, "");
    visit(&site, "/often", 5);
    visit(&site, "/seldom", 1);
    // Where nothing is warmed it can be watched how time goes on.
    let is_over = |path| eventually("a page to be stale", || cached(&site.get(path)) == "EXPIRED");
    visit(&site, "/cold/often", 5);
    assert_eq!((count(&origin, "/often"), count(&origin, "/seldom")), (1, 1));
    eventually("the page to be fetched anew", || count(&origin, "/often") == 2);
    assert_eq!(cached(&site.get("/often")), "HIT");
    visit(&site, "/cold/later", 1);
    is_over("/cold/often");
    assert_eq!(cached(&site.get("/seldom")), "EXPIRED");
    // It was asked for once since then, and is left to visitors now.
    is_over("/cold/later");
    assert_eq!((count(&origin, "/often"), cached(&site.get("/often"))), (2, "EXPIRED"));
    let told = text(&site.get("/api/larder/1/warm"));
    assert!(told.contains(r#""ahead":{"failed":0,"stored":1,"there":0,"unstored":0}"#), "{told}");
    let metrics = text(&site.get("/metrics"));
    assert!(metrics.contains("larder_warm_pages_total{why=\"ahead\",outcome=\"stored\"} 1\n"), "{metrics}");
}

#[test]
fn a_failure_takes_no_pages_place() {
    let origin = pages(8);
    let site = start(&origin, "");
    visit(&site, "/often", 5);
    origin.answer("*", Answer::status("500 Broken").body("broken"));
    eventually("the page to be asked for anew", || count(&origin, "/often") == 2);
    assert_eq!(cached(&site.get("/often")), "HIT");
    // Tried three times, with rests between.
    site.wait_for_log("not warmed: http://site.test/often: the origin answered with 500");
}

#[test]
fn nothing_is_fetched_while_the_gate_has_visitors() {
    let origin = pages(3600);
    let site = start(&origin, "ahead=off");
    visit(&site, "/a", 3);
    let hold = origin.hold("/personal/a");
    std::thread::scope(|scope| {
        scope.spawn(|| site.get("/personal/a"));
        eventually("the visitor to be at the origin", || count(&origin, "/personal/a") == 1);
        let before = count(&origin, "/a");
        assert_eq!(site.ask("PURGE", "/a", "").status, 200);
        eventually("the page to wait", || text(&site.get("/api/larder/1/warm")).contains(r#""waiting":1"#));
        // Its turn came, and it went back.
        std::thread::sleep(std::time::Duration::from_secs(1));
        assert_eq!(count(&origin, "/a"), before);
        assert_eq!(site.count_in_log("refilled"), 0);
        drop(hold);
    });
    site.wait_for_log("refilled 1 of 1 pages");
    assert_eq!(cached(&site.get("/a")), "HIT");
}

fn xml(body: &str) -> Answer {
    Answer::ok(body).field("Content-Type", "application/xml")
}

#[test]
fn the_pages_of_a_sitemap_are_there_before_anybody_asks() {
    let origin = pages(3600);
    origin.answer(
        "/sitemaps/index.xml",
        xml("<sitemapindex><sitemap><loc>http://site.test/sitemaps/a.xml</loc></sitemap>\
             <sitemap><loc>http://site.test/sitemaps/b.xml.gz</loc></sitemap>\
             <sitemap><loc>http://site.test/sitemaps/gone.xml</loc></sitemap>\
             <sitemap><loc>http://elsewhere.test/c.xml</loc></sitemap></sitemapindex>"),
    );
    origin.answer(
        "/sitemaps/a.xml",
        xml("<urlset><url><loc>http://site.test/a?b=1&amp;c=2</loc></url><url><loc>http://other.test/x</loc></url>\
             <url><loc>http://site.test/personal/</loc></url><url><loc>http://site.test/denied/a</loc></url>\
             <url><loc>http://site.test/cold/</loc></url><url><loc>http://site.test/x HTTP/1.1</loc></url></urlset>"),
    );
    let packed = b"<urlset><url><loc>http://www.site.test/\xc3\xa9</loc></url><url><loc>http://site.test/known</loc></url></urlset>";
    origin.answer("/sitemaps/b.xml.gz", Answer::ok(gzipped(packed)).field("Content-Type", "application/x-gzip"));
    origin.answer("/sitemaps/gone.xml", Answer::status("404 Gone").body("gone"));
    let site = start(&origin, "sitemap=/sitemap.xml");
    visit(&site, "/known", 1);
    let known = origin.count();
    site.wait_for_log(
        "warmed http://site.test/sitemap.xml: 6 pages of 3 sitemaps, 2 fetched, 1 already there, 3 not to be stored, \
         3 of other servers left out",
    );
    site.wait_for_log("[error]");
    site.wait_for_log("the sitemap http://site.test/sitemaps/gone.xml cannot be read: the answer is a 404");
    site.wait_for_log("not warmed: http://site.test/cold/: its location has neither larder_warm nor larder_refill");
    site.wait_for_log("not warmed: http://site.test/denied/a: not everybody may ask for it");
    // The other server has none, which is no trouble of anybody.
    site.wait_for_log("[info]");
    site.wait_for_log("larder_warm finds no sitemap at http://other.test/sitemap.xml: its line 1 is no URL");
    let shown = site.setup().larder_words(&["top"]).stdout;
    let shown = String::from_utf8_lossy(&shown).into_owned();
    assert!(
        shown.contains("ALARM      larder_warm: the sitemap http://site.test/sitemap.xml cannot be read: "),
        "{shown}"
    );
    assert!(origin.count() > known);
    assert_eq!(cached(&site.get("/a?b=1&c=2")), "HIT");
    let french = "GET /%C3%A9 HTTP/1.1\r\nHost: www.site.test\r\nConnection: close\r\n\r\n";
    assert_eq!(cached(&site.exchange("GET", french)), "HIT");
    assert_eq!(count(&origin, "/denied/a") + count(&origin, "/x") + count(&origin, "/cold/"), 0);
    for seen in origin.requests().iter().filter(|seen| !seen.request_line.contains("/known")) {
        assert!(seen.field("X-Cookie").is_none(), "{seen:?}");
    }
    let told = text(&site.get("/api/larder/1/warm"));
    assert!(told.contains(r#""url":"http://site.test/sitemap.xml""#) && told.contains(r#""pages":6"#), "{told}");
}

#[test]
fn what_is_no_sitemap_is_told_and_nothing_else_happens() {
    let origin = pages(3600);
    origin.answer("/sitemaps/login", Answer::ok("<html><title>Log in</title>"));
    origin.answer("/sitemaps/text", Answer::ok("http://site.test/a\nno page"));
    let site = start(&origin, "sitemap=http://site.test/sitemaps/login sitemap=http://site.test/sitemaps/text");
    site.wait_for_log(
        "the sitemap http://site.test/sitemaps/login cannot be read: it is HTML or other XML, and neither \"urlset\" nor \"sitemapindex\"",
    );
    site.wait_for_log("warmed http://site.test/sitemaps/login: 0 pages of 0 sitemaps, 0 fetched");
    site.wait_for_log("the sitemap http://site.test/sitemaps/text cannot be read: its line 2 is no URL");
    assert_eq!(count(&origin, "/a"), 0);
}

#[test]
fn a_sitemap_may_be_a_file_and_an_escape_in_one_is_not_written_to_a_terminal() {
    let origin = pages(3600);
    origin.answer(
        "/sitemaps/moved",
        Answer::status("302 Moved").field("Location", "http://evil.test/\u{1b}[2J").body("moved"),
    );
    let site = start(&origin, "sitemap=http://site.test/static.xml sitemap=http://site.test/sitemaps/moved");
    site.wait_for_log("warmed http://site.test/static.xml: 1 pages of 1 sitemap, 1 fetched in ");
    assert_eq!(cached(&site.get("/of-a-file")), "HIT");
    site.wait_for_log("the sitemap http://site.test/sitemaps/moved cannot be read: it has moved to http://evil.test/");
    assert!(!site.server().error_log().contains('\u{1b}'));
}

#[test]
fn an_origin_that_fails_rests_though_an_error_page_takes_its_place() {
    let origin = pages(3600);
    let list: String = (0..40).map(|number| format!("http://site.test/page/{number}\n")).collect();
    origin.answer("/sitemaps/list", Answer::ok(list));
    let site = Setup::new().one_worker().name("ORIGIN", origin.address()).file("error.html", "sorry");
    let http = SITE
        .replace("{MORE}", "sitemap=http://site.test/sitemaps/list")
        .replace("proxy_cache pages;", "proxy_cache pages; proxy_intercept_errors on;");
    origin.answer("*", Answer::status("503 Busy").body("busy"));
    let site = site.start(&http);
    eventually("the first page", || origin.count() >= 2);
    // It rests a second then, and two after the next failure.
    let began = std::time::Instant::now();
    eventually("the second page", || origin.count() >= 4);
    assert!(began.elapsed() >= std::time::Duration::from_millis(2500), "{:?}", began.elapsed());
    drop(site);
}

/// As behind a proxy that takes TLS off: visitors say so, and the site leads all others to https.
#[test]
fn pages_are_fetched_as_for_their_visitors_where_tls_ends_before() {
    let origin = Origin::start().unwrap();
    let secured = |page: &str| Answer::ok(page).field("Cache-Control", "max-age=3600").field("Surrogate-Key", "all");
    for path in ["/a", "/b", "/wp-sitemap.xml"] {
        let lead = Answer::status("301 Moved").field("Location", &format!("https://site.test{path}"));
        origin.answer(path, lead.body("moved").field("Cache-Control", "max-age=3600"));
        let body = if path == "/wp-sitemap.xml" { "https://site.test/a\nhttps://site.test/b\n" } else { "page" };
        origin.answer(Route { path: path.to_owned(), when: Some("X-Forwarded-Proto".to_owned()) }, secured(body));
    }
    let site = Setup::new().one_worker().name("ORIGIN", origin.address()).start(
        "proxy_cache_path {DIR}/pages keys_zone=pages:1m larder_disk=off;
         error_log {DIR}/error.log info;
         server {
             listen 127.0.0.1:{PORT}; server_name site.test; add_header X-Cache $upstream_cache_status;
             larder_warm 100 per second sitemap=/wp-sitemap.xml; larder_purge_from 127.0.0.1;
             location / {
                 proxy_pass http://{ORIGIN}; proxy_cache pages; proxy_cache_key $scheme$host$request_uri;
                 proxy_set_header Host $http_host;
             }
         }
         server { listen 127.0.0.1:{PORT2}; server_name status; location / { return 404; } }",
    );
    site.wait_for_log("warmed http://site.test/wp-sitemap.xml: 2 pages of 1 sitemap, 2 fetched in ");
    for seen in origin.requests().iter().filter(|seen| !seen.request_line.contains("sitemap")) {
        assert_eq!((seen.field("Host"), seen.field("X-Forwarded-Proto")), (Some("site.test"), Some("https")));
    }
    let page = site.get("/a");
    assert_eq!((page.status, cached(&page)), (200, "HIT"));
    let before = origin.count();
    assert_eq!(site.ask("PURGE", "/", "Surrogate-Key: all\r\n").status, 200);
    site.wait_for_log("refilled 2 of 2 pages");
    for seen in origin.requests().iter().skip(before) {
        assert_eq!((seen.field("Host"), seen.field("X-Forwarded-Proto")), (Some("site.test"), Some("https")));
    }
    assert_eq!((site.get("/b").status, cached(&site.get("/b"))), (200, "HIT"));
    // One whose visitor came otherwise is not led to itself.
    assert_eq!(site.ask("PURGE", "/a", "").status, 200);
    site.wait_for_log("refilled 1 of 1 pages");
    assert_eq!(site.get("/a").status, 200);
}
