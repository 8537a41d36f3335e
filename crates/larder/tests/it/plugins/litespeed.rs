//! The plugins of LiteSpeed's cache, which say by fields of answers what is stored, for whom, and what goes: LiteSpeed Cache for
//! WordPress 7.9 (`litespeed-cache.php`, `control.cls.php`, `vary.cls.php`, `tag.cls.php`, `purge.cls.php`) and for PrestaShop
//! 1.5 (`Helper.php`, `Cache.php`, `VaryCookie.php`).

use larder_testkit::{Answer, FastCgiOrigin, FastCgiReply, Origin, Response};

use crate::site::{Setup, Site, cached, text};

const SITE: &str = "
    proxy_cache_path {DIR}/pages keys_zone=pages:1m inactive=1h;
    server {
        listen 127.0.0.1:{PORT};
        add_header X-Cache $upstream_cache_status;
        {MODE}
        proxy_cache pages;
        proxy_cache_key $request_uri;
        larder_litespeed on;
        location / { proxy_pass http://{ORIGIN}; }
        location /valid/ { proxy_pass http://{ORIGIN}; proxy_cache_valid 200 1h; }
        location /ignored/ { proxy_pass http://{ORIGIN}; proxy_ignore_headers Vary Set-Cookie; proxy_pass_header Set-Cookie; }
        location /off/ { proxy_pass http://{ORIGIN}; larder_litespeed off; }
        location /esi/ { proxy_pass http://{ORIGIN}; larder_esi surrogate; }
    }";

/// nginx's rules, and those of RFC 9111.
const MODES: [&str; 2] = ["", "larder_cache_mode rfc9111;"];

fn start(origin: &Origin, mode: &str) -> Site {
    Setup::new().name("ORIGIN", origin.address()).name("MODE", mode).start(SITE)
}

/// A page as WordPress with the plugin sends it to a visitor.
fn page(body: &str, control: &str) -> Answer {
    Answer::ok(body)
        .field("Content-Type", "text/html; charset=UTF-8")
        .field("Cache-Control", "no-cache, must-revalidate, max-age=0")
        .field("X-LiteSpeed-Cache-Control", control)
        .field("X-LiteSpeed-Tag", "b3a_Po.12,b3a_URL.6666cd76f96956469e7be39d750cc7d9,b3a_F,b3a_")
}

fn get(site: &Site, target: &str, cookie: &str) -> Response {
    site.ask("GET", target, &format!("Cookie: {cookie}\r\n"))
}

/// Whether the second of two requests with this cookie is a hit.
fn is_stored(site: &Site, target: &str, cookie: &str) -> bool {
    assert_eq!(cached(&get(site, target, cookie)), "MISS", "{target}");
    cached(&get(site, target, cookie)) == "HIT"
}

#[test]
fn the_field_decides_what_is_stored_before_all_others() {
    for mode in MODES {
        let origin = Origin::start().unwrap();
        let site = start(&origin, mode);
        for (number, (control, other, is_kept)) in [
            ("public,max-age=604800", ("Cache-Control", "no-store"), true),
            ("public,max-age=604800", ("X-Accel-Expires", "0"), true),
            ("public,max-age=604800", ("Expires", "Thu, 01 Jan 1970 00:00:00 GMT"), true),
            ("public,max-age=604800", ("Set-Cookie", "PrestaShop-1=a"), true),
            ("public,no-vary,max-age=604800", ("Set-Cookie", "_lscache_vary=a"), true),
            ("public,max-age=604800", ("Set-Cookie", "_lscache_vary=a"), false),
            ("public,max-age=604800", ("X-LiteSpeed-Vary", "value=guestm"), false),
            ("public,max-age=604800", ("Vary", "*"), false),
            ("public,max-age=0", ("X-Accel-Expires", "60"), false),
            ("private,max-age=1800", ("X-Accel-Expires", "60"), false),
            ("shared,private,max-age=1800", ("X-Accel-Expires", "60"), false),
            ("no-cache", ("X-Accel-Expires", "60"), false),
            ("no-store", ("X-Accel-Expires", "60"), false),
            ("public,max-age=60,esi=on", ("X-Accel-Expires", "60"), false),
            ("no-vary", ("X-Accel-Expires", "60"), true),
            ("public", ("X-Accel-Expires", "60"), false),
        ]
        .into_iter()
        .enumerate()
        {
            let path = format!("/{number}");
            origin.answer(path.as_str(), page("page", control).field(other.0, other.1));
            assert_eq!(is_stored(&site, &path, "a=1"), is_kept, "{mode} {control} {other:?}");
        }
        // The configuration has a time for what says none.
        origin.answer("/valid/a", page("page", "public"));
        assert!(is_stored(&site, "/valid/a", ""), "{mode}");
        // A confirmed or a broken answer does not make it last longer than it says.
        origin.answer("/off/a", page("page", "public,max-age=60"));
        let shown = site.get("/off/a");
        assert_eq!((cached(&shown), shown.field("X-LiteSpeed-Tag").is_some()), ("MISS", true));
        assert_eq!(cached(&site.get("/off/a")), "MISS", "{mode}");
    }
}

#[test]
fn visitors_get_the_variant_of_their_cookies() {
    for mode in MODES {
        let origin = Origin::start().unwrap();
        let site = start(&origin, mode);
        for prefix in ["/", "/ignored/"] {
            let path = format!("{prefix}page");
            for (cookie, body) in [
                ("wp-settings-1=x", "for guests"),
                ("_lscache_vary=5f4dcc; wordpress_logged_in_1=a", "for those who are logged in"),
                ("a=1; _lscache_vary=commenter", "for one with a comment"),
            ] {
                origin.answer(path.as_str(), page(body, "public,max-age=600"));
                assert!(is_stored(&site, &path, cookie), "{mode} {path} {cookie}");
            }
            for (cookie, body) in [
                ("", "for guests"),
                ("b=2;c=3", "for guests"),
                ("_lscache_vary=5f4dcc", "for those who are logged in"),
                ("_lscache_vary=commenter; a=7", "for one with a comment"),
            ] {
                let response = get(&site, &path, cookie);
                assert_eq!((cached(&response), &*text(&response)), ("HIT", body), "{mode} {path} {cookie}");
            }
            // To PHP it is the cookie.
            origin.answer(path.as_str(), page("for nobody", "no-cache"));
            assert_eq!(cached(&get(&site, &path, "_lscache.vary=5f4dcc")), "MISS");
        }
        // Cookies that the answer names.
        let priced = |body| page(body, "public,max-age=600").field("X-LiteSpeed-Vary", "cookie=currency,cookie=lang");
        for (cookie, body) in [("currency=EUR", "10 €"), ("currency=USD", "12 $"), ("", "10 coins")] {
            origin.answer("/price", priced(body));
            assert!(is_stored(&site, "/price", cookie), "{mode} {cookie}");
        }
        assert_eq!(text(&get(&site, "/price", "x=1; currency=USD")), "12 $");
        assert_eq!(text(&get(&site, "/price", "y=1")), "10 coins");
        let told = site.setup().larder_words(&["explain", "http://site.test/price", "-H", "Cookie: lang=de"]);
        let told = String::from_utf8(told.stdout).unwrap();
        let expected = "stored for other values of cookie _lscache_vary, cookie currency, cookie lang";
        assert!(told.contains(expected), "{told}");
    }
}

#[test]
fn a_stored_page_has_the_cookies_that_are_for_all_and_no_other() {
    for mode in MODES {
        let origin = Origin::start().unwrap();
        let site = start(&origin, mode);
        for path in ["/wp-login.php", "/ignored/wp-login.php"] {
            let cookie = "wordpress_test_cookie=WP%20Cookie%20check; path=/";
            let answer = page("log in", "public,max-age=600").field("LSC-Cookie", cookie);
            origin.answer(path, answer.field("Set-Cookie", "session=secret"));
            let set = |response: &Response| {
                let is_meant = |(name, _): &&(String, String)| name.eq_ignore_ascii_case("set-cookie");
                response.fields.iter().filter(is_meant).map(|(_, value)| value.clone()).collect::<Vec<_>>()
            };
            assert_eq!(set(&site.get(path)), ["session=secret", cookie], "{mode}");
            let hit = site.get(path);
            assert_eq!((cached(&hit), set(&hit)), ("HIT", vec![cookie.to_owned()]), "{mode} {path}");
        }
    }
}

#[test]
fn saving_a_post_purges_what_the_plugin_names() {
    let origin = Origin::start().unwrap();
    let site = start(&origin, "");
    let tagged = |tags| {
        Answer::ok("page").field("X-LiteSpeed-Cache-Control", "public,max-age=600").field("X-LiteSpeed-Tag", tags)
    };
    origin.answer("/", tagged("b3a_F,b3a_"));
    origin.answer("/hello/", tagged("b3a_Po.12,b3a_"));
    origin.answer("/other/", tagged("b3a_Po.2,b3a_"));
    for (number, (name, value, gone)) in [
        ("X-LiteSpeed-Purge", "public,b3a_Po.12,b3a_F;private,b3a_Po.2", &["/", "/hello/"][..]),
        ("X-LiteSpeed-Purge", "public,stale,tag=b3a_Po.12", &["/hello/"]),
        ("X-LiteSpeed-Purge2", "public,b3a_Po.2", &["/other/"]),
        ("X-LiteSpeed-Purge", "public,b3a_", &["/", "/hello/", "/other/"]),
        ("X-Litespeed-Purge2", "*", &["/", "/hello/", "/other/"]),
        ("X-LiteSpeed-Purge", "private,*", &[]),
    ]
    .into_iter()
    .enumerate()
    {
        for path in ["/", "/hello/", "/other/"] {
            site.get_until(path, "it is stored", |response| cached(response) == "HIT");
        }
        let save = format!("/wp-admin/post.php?{number}");
        let saved = Answer::status("302 Found").field("Location", "/wp-admin/").field(name, value);
        origin.answer(save.as_str(), saved.field("X-LiteSpeed-Cache-Control", "no-cache").body(""));
        let saved = site.ask("POST", &save, "Content-Length: 0\r\n");
        assert_eq!((saved.status, saved.field(name), saved.field("X-LiteSpeed-Cache-Control")), (302, None, None));
        let missed: Vec<_> =
            ["/", "/hello/", "/other/"].into_iter().filter(|path| cached(&site.get(path)) != "HIT").collect();
        assert_eq!(missed, gone, "{value}");
    }
}

#[test]
fn reasons_are_told() {
    for mode in MODES {
        let origin = Origin::start().unwrap();
        let site = start(&origin, mode);
        origin.answer("/private", page("mine", "private,max-age=60"));
        origin.answer("/blocks", page("<esi:include src=/a>", "public,max-age=60,esi=on"));
        origin.answer("/set", page("new", "public,max-age=60").field("Set-Cookie", "_lscache_vary=a"));
        for path in ["/private", "/blocks", "/set"] {
            site.get(path);
        }
        let told = String::from_utf8(site.setup().larder_words(&["why"]).stdout).unwrap();
        for reason in [
            "X-LiteSpeed-Cache-Control: private",
            "X-LiteSpeed-Cache-Control: esi=on, and larder_esi is off",
            "Set-Cookie of a cookie that the page varies by",
        ] {
            assert!(told.contains(reason), "{mode}: {told}");
        }
    }
}

#[test]
fn a_page_with_esi_is_put_together_where_larder_esi_is_on() {
    let origin = Origin::start().unwrap();
    let site = start(&origin, "");
    let block = "/esi/?lsesi=admin-bar&_control=private%2Cno-vary&_hash=1";
    let include = format!("<b><!-- lscwp --><esi:include src='{block}' cache-control='private,no-vary' /></b>");
    origin.answer("/esi/page", page(&include, "public,max-age=600,esi=on"));
    origin.answer(block, page("Ann's bar", "private,no-vary,max-age=1800"));
    for (status, bar) in [("MISS", "Ann's bar"), ("HIT", "Bob's bar"), ("HIT", "Eve's bar")] {
        origin.answer(block, page(bar, "private,no-vary,max-age=1800"));
        let response = site.get("/esi/page");
        assert_eq!((cached(&response), text(&response)), (status, format!("<b><!-- lscwp -->{bar}</b>")));
        assert_eq!(response.field("X-LiteSpeed-Cache-Control"), None);
    }
    let asked = origin.requests();
    assert_eq!(asked[0].field("X-LSCACHE"), Some("on,esi"));
}

#[test]
fn applications_are_told_of_the_cache_and_visitors_cannot_tell_them() {
    let origin = Origin::start().unwrap();
    origin.answer("*", Answer::ok("page"));
    let php = FastCgiOrigin::start_tcp().unwrap();
    php.answer("*", FastCgiReply::html("page"));
    let site = Setup::new().name("ORIGIN", origin.address()).name("PHP", php.address()).start(
        "
        proxy_cache_path {DIR}/pages keys_zone=pages:1m;
        server {
            listen 127.0.0.1:{PORT};
            location /on/ { proxy_pass http://{ORIGIN}; larder_litespeed on; }
            location /cached/ { proxy_pass http://{ORIGIN}; proxy_cache pages; }
            location /passed/ { proxy_pass http://{ORIGIN}; }
            location /own/ {
                proxy_pass http://{ORIGIN};
                larder_litespeed on;
                proxy_set_header x-lscache 2;
                proxy_set_header X-LSCACHE-Vary-Value $arg_device;
            }
            location /php/ {
                fastcgi_pass {PHP};
                fastcgi_param SCRIPT_NAME $uri;
                location /php/on/ { fastcgi_pass {PHP}; larder_litespeed on; }
                location /php/esi/ { fastcgi_pass {PHP}; larder_litespeed on; larder_esi surrogate; }
                location /php/cached/ { fastcgi_pass {PHP}; fastcgi_cache pages; fastcgi_cache_key $uri; }
            }
        }",
    );
    let fake = "X-LSCACHE: fake\r\nX-LSCACHE-Vary-Value: ismobile\r\n";
    for (path, cache, variant) in [
        ("/on/a", Some("on"), None),
        ("/cached/a", None, None),
        ("/passed/a", Some("fake"), Some("ismobile")),
        ("/own/a?device=x", Some("2"), Some("x")),
        ("/own/a", Some("2"), None),
    ] {
        site.ask("GET", path, fake);
        let seen = origin.requests().pop().unwrap();
        assert_eq!((seen.field("X-LSCACHE"), seen.field("X-LSCACHE-Vary-Value")), (cache, variant), "{path}");
    }
    for (path, field, param, edition) in [
        ("/php/on/a", None, Some("on"), Some("Openlitespeed (larder)")),
        ("/php/esi/a", Some("on,esi"), Some("on,esi"), None),
        ("/php/cached/a", None, None, None),
        ("/php/a", Some("fake"), None, None),
    ] {
        site.ask("GET", path, fake);
        let seen = php.requests().pop().unwrap();
        let found = (seen.param("HTTP_X_LSCACHE"), seen.param("X-LSCACHE"), seen.param("LSWS_EDITION"));
        assert_eq!(found, (field, param, edition), "{path}");
        let is_passed = path == "/php/a";
        assert_eq!(seen.param("HTTP_X_LSCACHE_VARY_VALUE"), is_passed.then_some("ismobile"), "{path}");
    }
}
