//! The same purges where nginx's directives cache: `larder_purge_from` takes them without a VCL.
//!
//! What the plugins send is what the tests with VCLs play. The number of pages in an answer is that of those in memory.

use std::collections::BTreeSet;

use larder_testkit::{Answer, Client, Origin, Response};

use super::{Page, drupal, fos, magento, reason, shopware, wire, wordpress};
use crate::purge_from::purged;
use crate::site::{Setup, Site, cached, eventually, text};

/// A site whose pages are in the cache when a purge comes.
struct Cached {
    origin: Origin,
    site: Site,
    pages: &'static [Page],
    /// The fields with tags, which visitors do not get.
    hidden: &'static [&'static str],
}

const SITE: &str = "
    proxy_cache_path {DIR}/pages keys_zone=pages:1m inactive=1h;
    server {
        listen 127.0.0.1:{PORT};
        listen 127.0.0.1:{PORT2} proxy_protocol;
        set_real_ip_from 127.0.0.1;
        real_ip_header proxy_protocol;
        add_header X-Cache $upstream_cache_status;
        larder_purge_from 127.0.0.1;
        {MORE}
        location / {
            proxy_pass http://{ORIGIN};
            proxy_set_header Host $http_host;
            proxy_cache pages;
            proxy_cache_key $scheme$request_method$host$request_uri;
            proxy_cache_valid 200 1h;
            proxy_cache_use_stale updating;
            proxy_cache_background_update on;
        }
    }";

impl Cached {
    /// Serves these pages, whose tags are in the usual fields.
    fn start(pages: &'static [Page]) -> Cached {
        Self::with("", pages, &["xkey", "Cache-Tags", "X-Magento-Tags", "Surrogate-Key"])
    }

    /// Serves these pages with `more` directives.
    fn with(more: &str, pages: &'static [Page], hidden: &'static [&'static str]) -> Cached {
        let origin = Origin::start().unwrap();
        for (_, path, fields) in pages {
            let answer = fields.iter().filter_map(|field| field.split_once(": "));
            let answer = answer.fold(Answer::ok("page"), |answer, (name, value)| answer.field(name, value));
            origin.answer(*path, answer);
        }
        let site = Setup::new().name("ORIGIN", origin.address()).name("MORE", more).start(SITE);
        Cached { origin, site, pages, hidden }
    }

    fn play(&self, request: &str) -> Response {
        self.site.exchange(request.split(' ').next().unwrap_or_default(), wire(request))
    }

    /// A purger sends the request: these pages, each host and path, are fetched again, and no other, and the answer says
    /// how many they are. A stranger sends the same: it is refused, and nothing happens to a page.
    fn purges(&self, request: &str, gone: &[&str]) {
        let told = self.takes(request, gone);
        assert_eq!(told.lines().next(), Some(purged(gone.len()).trim_end()), "{request}");
    }

    /// The same for what is answered before pages are looked at.
    fn bans(&self, request: &str, ban: &str, gone: &[&str]) {
        assert_eq!(self.takes(request, gone), format!("Banned: {ban}\n"), "{request}");
    }

    fn takes(&self, request: &str, gone: &[&str]) -> String {
        self.fill();
        let mut stranger = Client::connect(self.site.setup().other_address()).unwrap();
        stranger.send(format!("PROXY TCP4 192.0.2.7 192.0.2.1 4711 80\r\n{}", wire(request)).as_bytes()).unwrap();
        assert_eq!(reason(&stranger.read_response("PURGE").unwrap()), "403 Forbidden", "a stranger: {request}");
        assert_eq!(self.missed(), BTreeSet::new(), "a stranger: {request}");
        let response = self.play(request);
        assert_eq!(
            (response.status, response.field("Content-Type")),
            (200, Some("text/plain")),
            "{request}: {}",
            text(&response)
        );
        assert_eq!(self.missed(), gone.iter().map(|page| (*page).to_owned()).collect(), "{request}");
        text(&response)
    }

    fn fill(&self) {
        for (host, path, _) in self.pages {
            eventually("it is in the cache", || self.found(host, path) == "HIT");
        }
    }

    fn missed(&self) -> BTreeSet<String> {
        let missed = self.pages.iter().filter(|(host, path, _)| self.found(host, path) != "HIT");
        missed.map(|(host, path, _)| format!("{host}{path}")).collect()
    }

    fn found(&self, host: &str, path: &str) -> String {
        let asked = self.origin.count();
        let response = self.play(&format!("GET {path} HTTP/1.1\nHost: {host}\n"));
        assert_eq!((response.status, response.body.as_slice()), (200, &b"page"[..]), "{host}{path}");
        assert!(self.hidden.iter().all(|name| response.field(name).is_none()), "{:?}", response.fields);
        let found = cached(&response).to_owned();
        // A stale page is fetched in the background.
        assert!(found != "MISS" || self.origin.count() > asked, "{host}{path}");
        found
    }
}

const BLOG: &[Page] = &[
    ("blog.example", "/", &[]),
    ("blog.example", "/hello-world/", &[]),
    ("blog.example", "/hello-world/?replytocom=7", &[]),
    ("blog.example", "/category/news/", &[]),
    ("shop.example", "/", &[]),
];

#[test]
fn wordpress_purges_a_page_or_all_of_a_blog() {
    let site = Cached::start(BLOG);
    for (target, gone) in [
        ("/", &["blog.example/"][..]),
        ("/hello-world/", &["blog.example/hello-world/"]),
        ("/hello-world/?replytocom=7", &["blog.example/hello-world/?replytocom=7"]),
        ("/not-there/", &[]),
    ] {
        site.purges(&wordpress::purge("blog.example", target, "default"), gone);
    }
    let all = &[
        "blog.example/",
        "blog.example/hello-world/",
        "blog.example/hello-world/?replytocom=7",
        "blog.example/category/news/",
    ];
    let below = &["blog.example/category/news/"];
    site.purges(&wordpress::purge("blog.example", "/category/.*", "regex"), below);
    site.purges(&wordpress::purge("blog.example", "/.*", "regex"), all);
    // W3 Total Cache sends no method of its own.
    site.purges("PURGE /.* HTTP/1.1\nHost: blog.example", all);
    site.purges("PURGE /category/* HTTP/1.1\nHost: blog.example", below);
}

#[test]
fn nginx_helper_asks_for_a_page_below_purge() {
    let site = Cached::start(BLOG);
    let helper = |path: &str| {
        let request =
            format!("GET /purge{path} HTTP/1.1\nHost: blog.example\nUser-Agent: WordPress/6.8; http://blog.example");
        site.fill();
        let response = site.play(&request);
        assert_eq!(response.status, 200, "{}", text(&response));
        (text(&response).lines().next().unwrap_or_default().to_owned(), site.missed())
    };
    for (path, gone) in [
        ("/hello-world/", &["blog.example/hello-world/"][..]),
        ("/hello-world/?replytocom=7", &["blog.example/hello-world/?replytocom=7"]),
        ("/", &["blog.example/"]),
        ("/never-seen/", &[]),
    ] {
        let gone: BTreeSet<String> = gone.iter().map(|page| (*page).to_owned()).collect();
        assert_eq!(helper(path), (purged(gone.len()).trim_end().to_owned(), gone), "{path}");
    }
}

#[test]
fn magento_purges_by_tags_and_by_pool() {
    let site = Cached::start(magento::SHOP);
    for (tags, gone) in [
        (&["cat_p_1"][..], &["shop.example/bags.html", "shop.example/bag-1.html"][..]),
        (&["cat_p_12"], &["shop.example/bags.html", "shop.example/bag-12.html"]),
        (&["cat_c_3", "cms_b"], &["shop.example/", "shop.example/bags.html"]),
        (&["cat_p"], &[]),
    ] {
        site.purges(&magento::purge(&magento::pattern(tags)), gone);
    }
    let tagged = &["shop.example/", "shop.example/bags.html", "shop.example/bag-12.html", "shop.example/bag-1.html"];
    let all = "obj.lines.X-Magento-Tags ~ .*";
    site.bans(&magento::purge("X-Magento-Tags-Pattern: .*"), all, tagged);
    let pool = r"obj.lines.X-Pool ~ (^|[\s,])(blue)([\s,]|$)";
    site.bans(&magento::purge("X-Pool: blue"), pool, &["shop.example/", "shop.example/bags.html"]);
    // As long as the module makes them.
    let many: Vec<String> = (1000..).map(|number| format!("cat_p_{number}")).take(7680 / 25).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).chain(["cat_p_12"]).collect();
    site.purges(&magento::purge(&magento::pattern(&many)), &["shop.example/bags.html", "shop.example/bag-12.html"]);
}

#[test]
fn drupal_bans_by_cache_tags_and_urls() {
    let site = Cached::start(drupal::NEWS);
    let tags = |tags: &str| drupal::ban("/", "127.0.0.1:6081", &format!("cache-tags: {tags}"));
    let whole = &["news.example/", "news.example/node/1", "other.example/node/1"];
    for (request, gone) in [
        (
            tags("node:7|user:3"),
            &["news.example/about", "news.example/node/1", "news.example/node/12", "other.example/node/1"][..],
        ),
        // Unlike with a VCL, node:12 stays.
        (tags("node:1"), whole),
        (tags(r"(^|\s)node:1(\s|$)"), whole),
        (tags("config:block_list"), &["news.example/"]),
        (tags("node:7 node:12"), &["news.example/", "news.example/about", "news.example/node/12"]),
        (tags("node:8"), &[]),
        (
            "PURGE /node/1 HTTP/1.1\nAccept-Encoding: gzip\nHost: news.example\nUser-Agent: GuzzleHttp/7".to_owned(),
            &["news.example/node/1"],
        ),
        (drupal::ban("/node/*", "news.example", "Accept: */*"), &["news.example/node/1", "news.example/node/12"]),
        ("URIBAN /node/1 HTTP/1.1\nHost: other.example".to_owned(), &["other.example/node/1"]),
    ] {
        site.purges(&request, gone);
    }
    let by_headers = drupal::ban("/", "news.example", "x-ban-url: /node/\nx-ban-host: news.example");
    let ban = "page.host ~ news.example && page.url ~ /node/";
    site.bans(&by_headers, ban, &["news.example/node/1", "news.example/node/12"]);
}

#[test]
fn shopware_purges_by_xkey_by_url_and_all() {
    let site = Cached::start(shopware::SHOP);
    let all = &[
        "shop.example/",
        "shop.example/bag",
        "shop.example/hat",
        "shop.example/hat?variant=2",
        "shop.example/imprint",
    ];
    for (request, gone) in [
        (shopware::purge("PURGE", "/", "xkey: product-1"), &["shop.example/bag"][..]),
        (
            shopware::purge("PURGE", "/", "xkey: product-12 product-9"),
            &["shop.example/", "shop.example/hat", "shop.example/hat?variant=2"],
        ),
        (shopware::purge("PURGE", "/", "xkey: product"), &[]),
        (shopware::purge("PURGE", "/hat", ""), &["shop.example/hat"]),
        (shopware::purge("BAN", "/hat", ""), &["shop.example/hat", "shop.example/hat?variant=2"]),
        (shopware::purge("BAN", "/", ""), all),
    ] {
        site.purges(&request, gone);
    }
}

#[test]
fn foshttpcache_bans_by_parts_and_purges_keys() {
    let site = Cached::start(fos::SITE);
    site.purges("PURGE /article/1 HTTP/1.1\nHost: a.example\nUser-Agent: Symfony HttpClient", &["a.example/article/1"]);
    let articles = &["a.example/article/1", "a.example/article/12", "a.example/article/1.json", "b.example/article/12"];
    site.purges(&fos::ban(".*", "^/article", ".*", None), articles);
    for (request, ban, gone) in [
        (
            fos::ban("^(b.example|c.example)$", ".*", ".*", None),
            "page.host ~ ^(b.example|c.example)$",
            &["b.example/article/12"][..],
        ),
        (
            fos::ban(".*", "^/article", "application/json", None),
            "page.url ~ ^/article && obj.http.content-type ~ application/json",
            &["a.example/article/1.json"],
        ),
        (
            fos::ban(".*", ".*", ".*", Some(r"(^|,)(article\-1)(,|$)")),
            r"obj.lines.X-Cache-Tags ~ (^|[\s,])(article\-1)([\s,]|$)",
            &["a.example/", "a.example/article/1", "a.example/article/1.json"],
        ),
    ] {
        site.bans(&request, ban, gone);
    }
    let keys = |fields: &str| format!("PURGEKEYS / HTTP/1.1\nHost: 127.0.0.1\n{fields}");
    site.purges(&keys("xkey-purge: article-12"), &["a.example/article/12", "b.example/article/12"]);
    site.purges(&keys("xkey-softpurge: home author-3"), &["a.example/", "a.example/article/1"]);
    site.fill();
    site.play(&keys("xkey-softpurge: home"));
    assert_eq!(site.found("a.example", "/"), "STALE", "it is delivered once more");
    eventually("it is fetched", || site.found("a.example", "/") == "HIT");
}

/// Its ban says that the host and the URL do not matter; the tags do, in whatever field it is set to send them.
#[test]
fn a_ban_by_parts_and_tags_means_what_both_mean() {
    let site = Cached::start(fos::SITE);
    let ban = |host: &str, tags: &str| format!("{}xkey: {tags}", fos::ban(host, ".*", ".*", None));
    site.purges(&ban(".*", r"(^|,)(author\-3)(,|$)"), &["a.example/article/1"]);
    site.bans(
        &ban("^b.example$", r"(^|,)(article\-12)(,|$)"),
        r"page.host ~ ^b.example$ && obj.lines.xkey ~ (^|[\s,])(article\-12)([\s,]|$)",
        &["b.example/article/12"],
    );
}

const LINES: &[Page] = &[
    ("a.example", "/1", &["Cache-Tags: node:1", "Cache-Tags: user:1"]),
    ("a.example", "/2", &["Cache-Tags: node:1", "Cache-Tags: user:2 term:7"]),
    ("a.example", "/3", &["xkey: a+b"]),
    ("a.example", "/4", &["xkey: aab a"]),
];

#[test]
fn tags_of_several_lines_go_and_what_is_special_in_expressions_is_a_tag() {
    let site = Cached::start(LINES);
    let two = "PURGE / HTTP/1.1\nHost: a.example\nxkey: a+b\nCache-Tags: (^|\\s)user:[12](\\s|$)";
    let told = site.takes(two, &["a.example/1", "a.example/2", "a.example/3"]);
    assert!(told.starts_with("Banned: obj.lines.Cache-Tags ~ (^|\\s)user:[12](\\s|$)\nPurged: 1 page"), "{told}");
    site.bans(
        "BAN / HTTP/1.1\nHost: a.example\nCache-Tags: term:.$",
        "obj.lines.Cache-Tags ~ term:.$",
        &["a.example/2"],
    );
    site.purges("PURGE / HTTP/1.1\nHost: a.example\nxkey: a*", &[]);
    site.purges(
        "PURGE / HTTP/1.1\nHost: a.example\nCache-Tags: user:1\nCache-Tags: term:7",
        &["a.example/1", "a.example/2"],
    );
}

/// The tags of FOSHttpCache are tags where they are named.
#[test]
fn tags_of_a_field_that_is_named_go_by_the_index() {
    let site = Cached::with("larder_cache_tags X-Cache-Tags;", fos::SITE, &["X-Cache-Tags"]);
    let gone = &["a.example/", "a.example/article/1", "a.example/article/1.json"];
    site.purges(&fos::ban(".*", ".*", ".*", Some(r"(^|,)(article\-1)(,|$)")), gone);
    site.purges("BAN / HTTP/1.1\nHost: a.example\nX-Cache-Tags: author-3", &["a.example/article/1"]);
}

const TYPO3: &[Page] = &[
    ("a.example", "/", &["TYPO3-Pid: 1", "TYPO3-Sitename: 5f2c", "xkey: pageId_1 tx_news_7 siteId_5f2c"]),
    ("a.example", "/news", &["TYPO3-Pid: 12", "TYPO3-Sitename: 5f2c", "xkey: pageId_12 tx_news_7 tx_news_71"]),
    ("b.example", "/home", &["TYPO3-Pid: 1", "TYPO3-Sitename: 99ab"]),
    ("b.example", "/logo.svg", &[]),
];

/// What the extension varnish sends (`VarnishController::clearCache`), by curl; with tags, which pages have in `xkey`
/// (`FrontendSendHeader`), as it did at first and as it does since.
#[test]
fn typo3_purges_a_page_a_site_tags_or_all() {
    let site = Cached::start(TYPO3);
    let ban = |fields: &str| format!("BAN / HTTP/1.1\nHost: 127.0.0.1\nAccept: */*\n{fields}");
    for (fields, words, gone) in [
        (
            "Varnish-Ban-TYPO3-Pid: 1\nVarnish-Ban-TYPO3-Sitename: 5f2c",
            "obj.http.TYPO3-Pid == 1 && obj.http.TYPO3-Sitename == 5f2c",
            &["a.example/"][..],
        ),
        (
            "Varnish-Ban-All: 1\nVarnish-Ban-TYPO3-Sitename: 5f2c",
            "obj.http.TYPO3-Sitename == 5f2c",
            &["a.example/", "a.example/news"],
        ),
    ] {
        site.bans(&ban(fields), words, gone);
    }
    for field in ["Varnish-Ban-TYPO3-Tag", "xkey-purge"] {
        let by_tag = |tag: &str| ban(&format!("Varnish-Ban-TYPO3-Sitename: 5f2c\n{field}: {tag}"));
        site.purges(&by_tag("tx_news_7"), &["a.example/", "a.example/news"]);
        site.purges(&by_tag("tx_news_71"), &["a.example/news"]);
    }
    let all = &["a.example/", "a.example/news", "b.example/home", "b.example/logo.svg"];
    site.purges(&ban("Varnish-Ban-All: 1"), all);
}

const CDN: &[Page] = &[
    ("cdn.example", "/a", &["Surrogate-Key: one two"]),
    ("cdn.example", "/b", &["Surrogate-Key: two"]),
    ("cdn.example", "/c", &["Cache-Tag: three,two"]),
];

#[test]
fn purges_of_cdns_and_of_souin_and_mediawiki_are_taken() {
    let site = Cached::start(CDN);
    for (request, gone) in [
        ("PURGE /a HTTP/1.1\nHost: cdn.example\nAccept: application/json", &["cdn.example/a"][..]),
        (
            "PURGE /souin-api/souin HTTP/1.1\nHost: cdn.example\nSurrogate-Key: one, three",
            &["cdn.example/a", "cdn.example/c"],
        ),
        (
            "PURGE /souin-api/souin/flush HTTP/1.1\nHost: cdn.example",
            &["cdn.example/a", "cdn.example/b", "cdn.example/c"],
        ),
        // MediaWiki asks as of a proxy.
        (
            "PURGE http://cdn.example/b HTTP/1.1\nHost: cdn.example\nConnection: Keep-Alive\nUser-Agent: MediaWiki/1.43",
            &["cdn.example/b"],
        ),
        (
            "PURGE / HTTP/1.1\nHost: cdn.example\nX-Purge-Method: host",
            &["cdn.example/a", "cdn.example/b", "cdn.example/c"],
        ),
        ("PURGE / HTTP/1.1\nHost: other.example\nX-Purge-Method: host", &[]),
    ] {
        site.purges(request, gone);
    }
    site.fill();
    let soft = site.play("PURGE /b HTTP/1.1\nHost: cdn.example\nFastly-Soft-Purge: 1");
    assert_eq!(text(&soft).lines().next(), Some("Purged: 1 page"));
    assert_eq!(site.found("cdn.example", "/b"), "STALE");
    eventually("it is fetched", || site.found("cdn.example", "/b") == "HIT");
}

const BOOKS: &[Page] = &[
    ("api.example", "/books", &["Cache-Tags: /books,/books/1,/books/12"]),
    ("api.example", "/books/1", &["Cache-Tags: /books/1"]),
    ("api.example", "/books/12", &["Cache-Tags: /books/12"]),
];

/// `VarnishPurger` of API Platform 3 and of 2.6, and its `VarnishXKeyPurger`.
#[test]
fn api_platform_bans_by_the_tags_of_its_resources() {
    let site = Cached::start(BOOKS);
    let ban = |regex: &str| format!("BAN / HTTP/1.1\nHost: 127.0.0.1\nApiPlatform-Ban-Regex: {regex}");
    let one = &["api.example/books", "api.example/books/1"][..];
    for (request, gone) in [
        (ban(r"(/books/1)($|\,)"), one),
        (ban(r"(^|\,)/books/1($|\,)"), one),
        (ban(r"(/books|/authors/1)($|\,)"), &["api.example/books"]),
        (ban(r"((^|\,)/books/12($|\,))|((^|\,)/authors/1($|\,))"), &["api.example/books", "api.example/books/12"]),
        (ban(r"(/book)($|\,)"), &[]),
        ("PURGE / HTTP/1.1\nHost: 127.0.0.1\nxkey: /books/1".to_owned(), one),
    ] {
        site.purges(&request, gone);
    }
}

const PANEL: &[Page] = &[
    ("blog.example", "/", &["X-Cache-Tags: p-1,home", "Purge-Cache-Tags: node:1 front"]),
    ("blog.example", "/one", &["X-Cache-Tags: p-1", "Purge-Cache-Tags: node:1"]),
    ("blog.example", "/twelve", &["X-Cache-Tags: p-12", "Purge-Cache-Tags: node:12"]),
];

/// `purge_tags()` of CloudPanel's plugin and of Proxy Cache Purge 5.4, and the module `purge_purger_http_tagsheader` of
/// Drupal.
#[test]
fn tags_of_fields_that_nobody_names_are_banned() {
    let site = Cached::start(PANEL);
    let purge = |fields: &str| format!("PURGE / HTTP/1.1\nHost: blog.example\n{fields}");
    let tags = |field: &str, tags: &str| format!(r"obj.lines.{field} ~ (^|[\s,])({tags})([\s,]|$)");
    let first = &["blog.example/", "blog.example/one"][..];
    for (fields, ban, gone) in [
        ("X-Cache-Tags: p-1", tags("X-Cache-Tags", r"p\-1"), first),
        (
            "X-Purge-Method: tags\nX-Cache-Tags-Pattern: p-12|home",
            tags("X-Cache-Tags", r"p\-12|home"),
            &["blog.example/", "blog.example/twelve"],
        ),
        ("Purge-Cache-Tags: node:1", tags("Purge-Cache-Tags", r"node\:1"), first),
    ] {
        site.bans(&purge(fields), &ban, gone);
    }
    let matching = purge("X-Purge-Method: ban-regex\nX-Ban-Regex: ^/(one|t)");
    site.purges(&matching, &["blog.example/one", "blog.example/twelve"]);
    // Breeze, as for Cloudways.
    site.purges("URLPURGE /one HTTP/1.1\nHost: blog.example", &["blog.example/one"]);
    let all = &["blog.example/", "blog.example/one", "blog.example/twelve"];
    site.purges("PURGE /.* HTTP/1.1\nHost: blog.example", all);
}
