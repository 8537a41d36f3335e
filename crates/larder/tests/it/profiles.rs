//! `larder_profile`: what is personal, which arguments make no page of their own, and how that is told. Real WordPress and
//! MediaWiki are in `tests/wordpress` and `tests/mediawiki`; the applications here are scripted by their documentation.

use larder_testkit::{Answer, Origin, Response, text_of};

use crate::site::{Setup, Site, cached, run, text};

/// The worst that sites write: what the answer says of caching does not count.
const SHOP: &str = "proxy_cache_path {DIR}/pages keys_zone=p:1m; proxy_cache p; proxy_cache_valid 200 301 404 1h;
    proxy_cache_key $scheme$host$request_uri; proxy_ignore_headers Cache-Control Expires Set-Cookie;
    add_header X-Cache $upstream_cache_status always; add_header X-Class $larder_profile_class;
    server { listen 127.0.0.1:{PORT}; {MORE}
        location / { proxy_pass http://{ORIGIN}; }
    }";

fn shop(more: &str) -> (Site, Origin) {
    let origin = Origin::start().unwrap();
    let page = Answer::ok("page").field("Content-Type", "text/html").field("Set-Cookie", "seen=1");
    origin.answer("*", page);
    let setup = Setup::new().name("ORIGIN", origin.address()).file("own.profile", "keyed cookie language\n");
    (setup.start(&SHOP.replace("{MORE}", more)), origin)
}

fn with_cookie(site: &Site, target: &str, cookie: &str) -> Response {
    site.ask("GET", target, &format!("Cookie: {cookie}\r\n"))
}

/// The request lines that the origin got, without their version.
fn asked(origin: &Origin) -> Vec<String> {
    let line = |line: &str| line.rsplit_once(' ').expect("it has a version").0.to_owned();
    origin.requests().iter().map(|seen| line(&seen.request_line)).collect()
}

#[test]
fn a_cart_is_its_owners_and_all_others_share_pages() {
    let (site, origin) = shop("larder_profile woocommerce;");
    // Who has something in the cart came first, and has filled nothing.
    let cart = "woocommerce_items_in_cart=1; woocommerce_cart_hash=f00; wp_woocommerce_session_5b769bc2=7%7C%7C1";
    assert_eq!(cached(&with_cookie(&site, "/hat/", cart)), "BYPASS");
    assert_eq!(cached(&site.get("/hat/")), "MISS");
    assert_eq!(cached(&site.get("/hat/")), "HIT");
    assert_eq!(cached(&with_cookie(&site, "/hat/", "_ga=GA1.1.2; sbjs_first=x; tk_ai=woo; CookieConsent=1")), "HIT");
    for cookie in [
        cart,
        "wordpress_logged_in_5b769bc2=anna",
        "wp-postpass_5b769bc2=x",
        "comment_author_5b769bc2=Carla",
        "_ga=1; pll_language=de",
        "PHPSESSID=1",
    ] {
        assert_eq!(cached(&with_cookie(&site, "/hat/", cookie)), "BYPASS", "{cookie}");
    }
    for target in [
        "/cart/",
        "/de/checkout/",
        "/my-account/orders/",
        "/hat/?add-to-cart=5",
        "/?wc-ajax=get_refreshed_fragments",
        "/x?pre%76iew=true",
        "/%63art/",
    ] {
        for _ in 0..2 {
            assert_eq!(cached(&site.get(target)), "BYPASS", "{target}");
        }
    }
    assert_eq!(cached(&site.ask("GET", "/hat/", "Authorization: Basic YTpi\r\n")), "BYPASS");
    assert_eq!(cached(&site.ask("HEAD", "/hat/", "")), "HIT");
    assert_eq!(cached(&site.get("/hat/")), "HIT");
    assert_eq!(asked(&origin).iter().filter(|line| *line == "GET /hat/").count(), 9, "{:?}", asked(&origin));
}

#[test]
fn the_session_of_magento_goes_on_with_pages_that_all_share() {
    let (site, origin) = shop("larder_profile magento;");
    assert_eq!(cached(&with_cookie(&site, "/hat.html", "PHPSESSID=mine; form_key=2")), "MISS");
    let seen = origin.requests();
    let cookie = seen.last().and_then(|request| request.field("Cookie"));
    assert!(cookie.is_some_and(|cookie| cookie.contains("PHPSESSID=mine")), "without it PHP begins another: {seen:?}");
    assert_eq!(cached(&with_cookie(&site, "/hat.html", "PHPSESSID=yours")), "HIT");
    assert_eq!(cached(&site.get("/hat.html")), "HIT");
}

#[test]
fn arguments_of_campaigns_make_no_pages_and_reach_no_page_that_is_kept() {
    for key in ["$scheme$host$request_uri", "$host$uri$is_args$args", "$host$uri?$query_string"] {
        let (site, origin) = shop(&format!("larder_profile wordpress; proxy_cache_key {key};"));
        assert_eq!(cached(&site.get("/a/?utm_source=<script>&b=2&gclid=3&c=4")), "MISS");
        assert_eq!(cached(&site.get("/a/?b=2&c=4")), "HIT");
        assert_eq!(cached(&site.get("/a/?b=2&fbclid=x&c=4")), "HIT");
        // The order stays.
        assert_eq!(cached(&site.get("/a/?c=4&b=2")), "MISS");
        assert_eq!(cached(&site.get("/a/?utm_campaign=news")), "MISS");
        assert_eq!(cached(&site.get("/a/")), "HIT");
        // What is for one visitor goes to the origin as it came.
        assert_eq!(cached(&with_cookie(&site, "/a/?utm_source=x&b=2", "wordpress_logged_in_1=x")), "BYPASS");
        site.ask("POST", "/a/?utm_source=x", "Content-Length: 0\r\n");
        assert_eq!(
            asked(&origin),
            ["GET /a/?b=2&c=4", "GET /a/?c=4&b=2", "GET /a/", "GET /a/?utm_source=x&b=2", "POST /a/?utm_source=x",]
        );
    }
}

#[test]
fn the_default_key_and_a_url_with_variables_leave_them_out_too() {
    let origin = Origin::start().unwrap();
    origin.answer("*", Answer::ok("page"));
    for pass in
        ["http://{ORIGIN}", "http://{ORIGIN}/x/", "http://{ORIGIN}$request_uri", "http://{ORIGIN}$uri$is_args$args"]
    {
        let site = Setup::new().name("ORIGIN", origin.address()).start(&format!(
            "proxy_cache_path {{DIR}}/pages keys_zone=p:1m; proxy_cache p; proxy_cache_valid 200 1h; larder_profile common;
            add_header X-Cache $upstream_cache_status;
            server {{ listen 127.0.0.1:{{PORT}}; location / {{ proxy_pass {pass}; }} }}"
        ));
        origin.rewind();
        assert_eq!(cached(&site.get("/a?utm_source=1&b=2")), "MISS", "{pass}");
        assert_eq!(cached(&site.get("/a?b=2&gclid=3")), "HIT", "{pass}");
        assert_eq!(cached(&site.get("/a?gclid=3")), "MISS", "{pass}");
        let own = if pass.ends_with("/x/") { "/x" } else { "" };
        assert_eq!(asked(&origin), [format!("GET {own}/a?b=2"), format!("GET {own}/a")], "{pass}");
    }
}

#[test]
fn a_page_is_purged_by_its_url_with_and_without_campaigns() {
    for how in ["", "scheme=all"] {
        let (site, _origin) = shop(&format!("larder_profile wordpress; larder_purge_from 127.0.0.1 {how};"));
        for purged in ["/a/", "/a/?utm_source=other"] {
            site.get("/a/?utm_source=x");
            assert_eq!(cached(&site.get("/a/")), "HIT");
            let answer = site.ask("PURGE", purged, "");
            assert!(text(&answer).contains("Purged: 1 page"), "{how} {purged}: {}", text(&answer));
            assert_eq!(cached(&site.get("/a/")), "MISS", "{how} {purged}");
        }
        // Of another page nothing goes.
        for purged in ["/a/?utm_source=other", "http://site.test/a/?gclid=1"] {
            assert_eq!(cached(&site.get("/a/?b=1")), "MISS");
            assert_eq!(cached(&site.get("/a/")), "HIT");
            let output = site.setup().larder_words(&["purge", purged]);
            assert!(output.status.success(), "{}", text_of(&output.stderr));
            assert_eq!(cached(&site.get("/a/")), "MISS", "{how} {purged}: {}", text_of(&output.stdout));
            assert_eq!(cached(&site.get("/a/?b=1")), "HIT");
            site.setup().larder_words(&["purge", "/a/?b=1"]);
        }
    }
}

#[test]
fn files_are_the_same_whatever_cookies_come_and_are_fetched_without_them() {
    let (site, origin) = shop("larder_profile wordpress;");
    let css = Answer::ok("css").field("Content-Type", "text/css").field("Vary", "Cookie");
    origin.answer("/wp-content/themes/x/a.css", css);
    let member = "wordpress_logged_in_1=x";
    assert_eq!(cached(&with_cookie(&site, "/wp-content/themes/x/a.css", member)), "MISS");
    assert_eq!(cached(&with_cookie(&site, "/wp-content/themes/x/a.css", "wordpress_logged_in_1=y")), "HIT");
    assert_eq!(cached(&site.get("/wp-content/themes/x/a.css?utm_source=x")), "HIT");
    // Whoever makes somebody open the URL of a file that is not there gets nothing of theirs.
    with_cookie(&site, "/wp-content/themes/x/page.css", member);
    assert!(origin.requests().iter().all(|seen| seen.field("Cookie").is_none()), "{:?}", origin.requests());
    for target in ["/my-account/a.css", "/wp-content/uploads/a.jpg", "/wp-content/themes/x/a.css?preview=true"] {
        assert_eq!(cached(&with_cookie(&site, target, member)), "BYPASS", "{target}");
    }
    assert_eq!(origin.requests().last().and_then(|seen| seen.field("Cookie")), Some(member));
}

#[test]
fn pages_that_vary_by_cookies_are_shared_by_those_whose_cookies_mean_nothing() {
    for mode in ["nginx", "rfc9111"] {
        let (site, origin) = shop(&format!(
            "larder_profile drupal {{DIR}}/own.profile; larder_cache_mode {mode};
            proxy_cache_key $host$request_uri$cookie_language; proxy_set_header X-Told $http_cookie;"
        ));
        origin.answer(
            "*",
            Answer::ok("page").field("Vary", "Cookie, Accept-Encoding").field("Cache-Control", "max-age=60"),
        );
        assert_eq!(cached(&with_cookie(&site, "/node/1", "_ga=1")), "MISS", "{mode}");
        assert_eq!(cached(&with_cookie(&site, "/node/1", "_ga=2; has_js=1")), "HIT", "{mode}");
        assert_eq!(cached(&site.get("/node/1")), "HIT", "{mode}");
        assert_eq!(cached(&with_cookie(&site, "/node/1", "SSESSx=1; _ga=1")), "BYPASS", "{mode}");
        // A cookie of the key goes on, and with it the others.
        assert_eq!(cached(&with_cookie(&site, "/node/1", "language=de; _ga=1")), "MISS", "{mode}");
        assert_eq!(cached(&with_cookie(&site, "/node/1", "language=de; _ga=1")), "HIT", "{mode}");
        assert_eq!(cached(&site.get("/node/1")), "HIT", "{mode}");
        let seen = origin.requests();
        let cookies: Vec<_> = seen.iter().map(|seen| (seen.field("Cookie"), seen.field("X-Told"))).collect();
        let (session, language) = (Some("SSESSx=1; _ga=1"), Some("language=de; _ga=1"));
        assert_eq!(cookies, [(None, None), (session, session), (language, language)], "{mode}");
    }
}

#[test]
fn where_only_files_are_for_all_the_rest_is_passed() {
    let (site, origin) = shop("larder_profile nextcloud;");
    origin.answer("/core/css/a.css", Answer::ok("css").field("Content-Type", "text/css"));
    let cookies = "ocabc=1; oc_sessionPassphrase=2";
    assert_eq!(cached(&with_cookie(&site, "/core/css/a.css", cookies)), "MISS");
    assert_eq!(cached(&with_cookie(&site, "/core/css/a.css", cookies)), "HIT");
    for target in ["/", "/core/preview.png?fileId=3", "/apps/files/", "/remote.php/dav/files/anna/a.css"] {
        assert_eq!(cached(&site.get(target)), "BYPASS", "{target}");
    }
}

#[test]
fn a_file_has_the_time_of_its_row_where_nothing_else_says_one_and_that_is_wanted() {
    let origin = Origin::start().unwrap();
    let css = |target: &str, more: &[(&str, &str)]| {
        let answer = Answer::ok("css").field("Content-Type", "text/css").field("ETag", "\"1\"");
        origin.answer(target, more.iter().fold(answer, |answer, (name, value)| answer.field(name, value)));
    };
    css("/wp-includes/a.css", &[]);
    css("/wp-includes/b.css", &[("Cache-Control", "max-age=0")]);
    css("/elsewhere.css", &[]);
    for mode in ["nginx", "rfc9111"] {
        let site = Setup::new().name("ORIGIN", origin.address()).start(&format!(
            "proxy_cache_path {{DIR}}/pages keys_zone=p:1m; proxy_cache p; proxy_cache_key $uri$is_args$args;
            larder_cache_status on; larder_cache_mode {mode};
            server {{ listen 127.0.0.1:{{PORT}}; larder_profile wordpress lifetimes;
                location / {{ proxy_pass http://{{ORIGIN}}; }}
                location /never/ {{ proxy_pass http://{{ORIGIN}}/; proxy_cache_valid 200 0; }}
                location /unasked/ {{ larder_profile wordpress; proxy_pass http://{{ORIGIN}}/; }} }}"
        ));
        let is_stored = |target: &str| {
            let answer = site.get(target);
            let said = answer.field("Cache-Status").expect("it is switched on");
            let ttl = said.split_once("stored; ttl=").and_then(|(_, rest)| rest.split(';').next()?.parse().ok());
            ttl.is_some_and(|ttl: u64| ttl > 29 * 24 * 60 * 60)
        };
        assert!(is_stored("/wp-includes/a.css"), "{mode}");
        for target in ["/wp-includes/b.css", "/elsewhere.css", "/never/wp-includes/a.css", "/unasked/wp-includes/a.css"]
        {
            assert!(!is_stored(target), "{mode} {target}");
        }
    }
}

#[test]
fn what_is_written_beside_a_profile_still_holds() {
    let (site, _origin) = shop(
        "larder_profile wordpress; set $skip 0; if ($args) { set $skip 1; } proxy_cache_bypass $skip; proxy_no_cache $skip;
        location /unknown/ { larder_profile off; proxy_pass http://{ORIGIN}; }",
    );
    assert_eq!(cached(&site.get("/a?utm_source=x")), "BYPASS");
    assert_eq!(cached(&site.get("/a?utm_source=x")), "BYPASS");
    assert_eq!(cached(&site.get("/a")), "MISS");
    for expected in ["MISS", "HIT"] {
        assert_eq!(cached(&with_cookie(&site, "/unknown/", "wordpress_logged_in_1=x")), expected);
    }
}

#[test]
fn a_map_is_of_the_whole_request_for_conditions_and_of_what_counts_for_the_key() {
    let origin = Origin::start().unwrap();
    origin.answer("*", Answer::ok("page"));
    let maps = "map $args $campaign { default \"\"; ~utm_ 1; } map $cookie__ga $measured { default \"\"; ~. 1; }";
    let more = "larder_profile common; proxy_cache_key $uri$campaign$measured; proxy_cache_bypass $arg_fresh$campaign;
        add_header X-Cache $upstream_cache_status; add_header X-Campaign $campaign;";
    let setup = Setup::new().name("ORIGIN", origin.address());
    let site = setup.start(&format!("{maps} {}", SHOP.replace("{MORE}", more)));
    assert_eq!(cached(&site.get("/a")), "MISS");
    let asked = with_cookie(&site, "/a?utm_source=x", "_ga=1");
    assert_eq!((cached(&asked), asked.field("X-Campaign")), ("BYPASS", Some("1")));
    assert_eq!(cached(&with_cookie(&site, "/a", "_ga=1")), "HIT");
}

#[test]
fn what_the_answer_decides_is_decided_when_it_is_there() {
    let origin = Origin::start().unwrap();
    origin.answer("/account", Answer::ok("mine").field("Set-Cookie", "id=1").field("Cache-Control", "max-age=100"));
    origin.answer("/page", Answer::ok("page").field("Cache-Control", "max-age=100"));
    let maps = "map $upstream_http_set_cookie $has_cookie { \"\" 0; default 1; } map $upstream_status $is_odd { 200 0; default 1; }";
    let more = "{PROFILE} proxy_ignore_headers Set-Cookie; proxy_cache_bypass $http_pragma; proxy_no_cache $has_cookie;
        location /page { proxy_pass http://{ORIGIN}; proxy_no_cache $is_odd; }";
    for profile in ["", "larder_profile common;"] {
        let setup = Setup::new().name("ORIGIN", origin.address()).name("PROFILE", profile);
        let site = setup.start(&format!("{maps} {}", SHOP.replace("{MORE}", more)));
        for method in ["GET", "HEAD"] {
            assert_eq!(cached(&site.ask(method, "/account", "Pragma: no-cache\r\n")), "BYPASS");
            assert_eq!(cached(&site.get("/account")), "MISS", "{profile} {method}: it has Set-Cookie");
        }
        // Fetched past the cache, a page that the answer lets be stored takes the place of the old one; with a profile it is
        // fetched as for all.
        let cookies = "Pragma: no-cache\r\nCookie: _ga=of-one\r\n";
        assert_eq!(cached(&site.ask("GET", "/page?utm_source=x", cookies)), "BYPASS");
        let sent = origin.requests().last().map(|seen| (seen.request_line.clone(), seen.field("Cookie").is_some()));
        let (next, expected) = match profile {
            "" => ("/page?utm_source=x", ("GET /page?utm_source=x HTTP/1.1".to_owned(), true)),
            _ => ("/page", ("GET /page HTTP/1.1".to_owned(), false)),
        };
        assert_eq!(sent, Some(expected), "{profile}");
        assert_eq!(cached(&site.get(next)), "HIT", "{profile}");
    }
}

#[test]
fn what_the_request_refuses_goes_past_the_cache_as_it_came() {
    let (site, origin) = shop(
        "larder_profile wordpress; proxy_cache_bypass $http_pragma; proxy_no_cache $http_pragma $upstream_http_x_private;",
    );
    assert_eq!(cached(&site.ask("GET", "/a?utm_source=x", "Pragma: no-cache\r\n")), "BYPASS");
    assert_eq!(asked(&origin), ["GET /a?utm_source=x"]);
    assert_eq!(cached(&site.get("/a")), "MISS");
}

#[test]
fn no_page_is_kept_that_was_made_with_an_ignored_argument() {
    let origin = Origin::start().unwrap();
    origin.answer("*", Answer::ok("page"));
    let maps = "map $arg_utm_source $theme { default plain; ~. dark; } map $arg_gclid $lead { default no; ~. yes; }";
    let asks = "&utm_source=%3Cscript%3E&gclid=123";
    for (inside, is_kept) in [
        ("proxy_pass http://{ORIGIN};", true),
        ("set $page $request_uri; proxy_pass http://{ORIGIN}/index?url=$page;", false),
        ("set $from $arg_utm_source; proxy_set_header X-From $from; proxy_pass http://{ORIGIN};", false),
        ("proxy_set_header X-From $arg_utm_source; proxy_pass http://{ORIGIN};", false),
        ("proxy_set_header X-Asked $request; proxy_pass http://{ORIGIN};", false),
        ("proxy_set_header X-Theme $theme; proxy_pass http://{ORIGIN};", false),
        ("proxy_set_header X-URL $request_uri; proxy_pass http://{ORIGIN};", true),
        // What the key tells apart is meant.
        ("proxy_set_header X-Theme $theme; proxy_cache_key $request_uri$theme; proxy_pass http://{ORIGIN};", true),
        ("set $page $request_uri; proxy_cache_key $page; proxy_pass http://{ORIGIN}/index?url=$page;", true),
        // A condition has read the map before, with the arguments.
        ("if ($lead) { set $x 1; } proxy_set_header X-Lead $lead; proxy_pass http://{ORIGIN};", false),
    ] {
        let setup = Setup::new().name("ORIGIN", origin.address());
        let site = setup.start(&format!(
            "{maps} proxy_cache_path {{DIR}}/pages keys_zone=p:1m; proxy_cache p; proxy_cache_valid 200 1h;
            proxy_cache_key $uri$is_args$args; larder_profile common; larder_cache_status on;
            server {{ listen 127.0.0.1:{{PORT}}; location / {{ {inside} }} }}"
        ));
        let status = |answer: &Response| answer.field("Cache-Status").unwrap_or_default().to_owned();
        let first = status(&site.get(&format!("/a?b=1{asks}")));
        assert_eq!(first.contains("stored"), is_kept, "{inside}: {first}");
        assert_eq!(first.contains("an ignored argument went to the origin"), !is_kept, "{inside}: {first}");
        // Without one it is kept, and answers for those with one.
        site.get("/a?b=1");
        let again = status(&site.get("/a?b=1"));
        assert!(again.contains("hit"), "{inside}: {again}");
        let sent = origin.requests().len();
        let theirs = status(&site.get(&format!("/a?b=1{asks}")));
        assert!(theirs.contains("hit") || is_kept, "{inside}: {theirs}");
        assert_eq!(origin.requests().len(), sent, "{inside}: {theirs}");
    }
}

#[test]
fn who_buys_has_a_class_of_its_own() {
    let (site, _origin) =
        shop("larder_profile woocommerce; location /none { larder_profile off; proxy_pass http://{ORIGIN}; }");
    for (target, fields, expected) in [
        ("/", "", "normal"),
        ("/checkout/", "", "high"),
        ("/feed/", "", "low"),
        ("/checkout/", "User-Agent: AhrefsBot/7.0\r\n", "low"),
        ("/none/checkout/", "", "normal"),
    ] {
        assert_eq!(site.ask("GET", target, fields).field("X-Class"), Some(expected), "{target} {fields}");
    }
}

#[test]
fn larder_explain_and_why_name_the_row() {
    let origin = Origin::start().unwrap();
    origin.answer("*", Answer::ok("page"));
    let more = "server_name site.test; larder_profile wordpress {DIR}/own.profile;";
    let setup = Setup::new().name("ORIGIN", origin.address());
    let setup = setup.file("own.profile", "# our shop\npersonal cookie basket\nignored cookie a\n");
    let site = setup.start(&SHOP.replace("{MORE}", more));
    let told = |words: &[&str]| {
        let output = site.setup().larder_words(words);
        assert!(output.status.success(), "{words:?}: {}", text_of(&output.stderr));
        text_of(&output.stdout)
    };
    let url = format!("http://site.test:{}/a/", site.setup().address().port());
    let own = site.setup().path("own.profile").display().to_string();
    for (cookie, expected, place) in [
        ("a=1; wordpress_logged_in_f=secret", "cookie wordpress_logged_in_*", " (wordpress.profile:10)".to_owned()),
        ("basket=secret", "cookie basket", format!(" ({own}:2)")),
        ("colour=secret", "cookie colour, which it does not know", String::new()),
    ] {
        let explained = told(&["explain", &url, "-H", &format!("Cookie: {cookie}")]);
        let sentence = format!("not cached: profile wordpress and {own}: {expected}{place}\n");
        assert!(explained.starts_with(&sentence), "{explained}");
        assert!(!explained.contains("secret"), "{explained}");
        with_cookie(&site, "/a/", cookie);
        let why = told(&["why"]);
        assert!(why.contains(&format!("profile wordpress and {own}: {expected} from site.test /{place}\n")), "{why}");
    }
    for (target, reason) in [("/b/?utm_source=x", ""), ("/b/?utm_source=x&c=1", " (URL with a query)")] {
        let said = site.get(target);
        assert_eq!(cached(&said), "MISS", "{target}");
        let why = told(&["why"]);
        assert!(why.contains(&format!("not stored yet from site.test /{reason}\n")), "{target}: {why}");
    }
    let explained = told(&["explain", &url]);
    let says = format!(" wordpress and {own}: a page for all");
    assert!(explained.lines().any(|row| row.starts_with("profile ") && row.ends_with(&says)), "{explained}");
}

#[test]
fn auto_finds_the_application_and_says_so_and_a_reload_looks_again() {
    let folder = |setup: &Setup| std::fs::create_dir_all(setup.path("www/wp-content/plugins/woocommerce")).unwrap();
    let origin = Origin::start().unwrap();
    origin.answer("*", Answer::ok("page"));
    let setup = Setup::new().name("ORIGIN", origin.address());
    folder(&setup);
    std::fs::write(setup.path("www/wp-load.php"), "").unwrap();
    let site = setup.start(&SHOP.replace("{MORE}", "root {DIR}/www; larder_profile auto;"));
    let root = site.setup().path("www").display().to_string();
    site.wait_for_log(&format!("larder_profile auto finds in {root}: wordpress (it has wp-load.php) in "));
    assert_eq!(cached(&with_cookie(&site, "/", "wordpress_logged_in_1=x")), "BYPASS");
    assert_eq!(cached(&site.get("/?add-to-cart=5")), "MISS");
    std::fs::write(site.setup().path("www/wp-content/plugins/woocommerce/woocommerce.php"), "").unwrap();
    site.reload();
    site.wait_for_log("woocommerce (it has wp-content/plugins/woocommerce/woocommerce.php)");
    assert_eq!(cached(&site.get("/?add-to-cart=5")), "BYPASS");
    for gone in ["wp-load.php", "wp-content/plugins/woocommerce/woocommerce.php"] {
        std::fs::remove_file(site.setup().path("www").join(gone)).unwrap();
    }
    site.reload();
    site.wait_for_log(&format!("larder_profile auto does nothing: no application was found in {root}"));
    assert_eq!(cached(&with_cookie(&site, "/new", "wordpress_logged_in_1=x")), "MISS");
}

#[test]
fn larder_profile_prints_what_can_be_copied() {
    let told = |words: &[&str]| {
        let output = run(words);
        (output.status.success(), text_of(&output.stdout), text_of(&output.stderr))
    };
    let (is_well, list, _) = told(&["profile"]);
    assert!(is_well && list.contains("woocommerce  WooCommerce, on top of WordPress\n"), "{list}");
    let folder = larder_testkit::Folder::new().unwrap();
    for line in list.lines() {
        let name = line.split_whitespace().next().expect("each line has a name");
        let (is_well, own, _) = told(&["profile", name]);
        assert!(is_well && own.starts_with("about "), "{name}: {own}");
        folder.write("copy.profile", &own).unwrap();
        let path = folder.join("copy.profile").display().to_string();
        let (is_well, said, _) = told(&["profile", &path]);
        assert!(is_well && said.starts_with(&format!("{path} is a profile: ")), "{name}: {said}");
    }
    folder.write("wrong.profile", "personal cookie a\npersonal cookies b\n").unwrap();
    let path = folder.join("wrong.profile").display().to_string();
    let (is_well, _, said) = told(&["profile", &path]);
    assert!(!is_well && said.contains(&format!("at \"cookies\" in {path}:2\n")), "{said}");
    let (is_well, _, said) = told(&["profile", "wordpres"]);
    assert!(!is_well && said.contains("there is no profile \"wordpres\": there are common, php, wordpress,"), "{said}");
    let path = folder.path().display().to_string();
    assert_eq!(told(&["profile", &path]).1, format!("no application was found in {path}\n"));
    folder.write("LocalSettings.php", "").unwrap();
    assert_eq!(told(&["profile", &path]).1, "mediawiki: it has LocalSettings.php\n");
}
