//! `larder_refill`: purged pages are fetched again without a visitor.

use std::time::{Duration, Instant};

use larder_testkit::{Answer, Origin, Signal, Then};

use crate::site::{Setup, Site, cached, eventually};

const SITE: &str = "
    proxy_cache_path {DIR}/pages keys_zone=pages:1m inactive=1h;
    limit_req_zone $binary_remote_addr zone=few:1m rate=1r/m;
    larder_refill 100 per second;
    server {
        listen 127.0.0.1:{PORT};
        add_header X-Cache $upstream_cache_status;
        proxy_cache pages;
        proxy_cache_key $scheme$host$request_uri;
        proxy_cache_valid 200 1h;
        proxy_set_header X-Host $host;
        larder_purge_from 127.0.0.1;
        access_log {DIR}/access.log;
        location / { proxy_pass http://{ORIGIN}; }
        location /denied/ { proxy_pass http://{ORIGIN}; allow 127.0.0.1; deny all; }
        location /off/ { proxy_pass http://{ORIGIN}; larder_refill off; }
        location /module/ {
            proxy_pass http://{ORIGIN};
            proxy_cache_key $host$uri;
            proxy_cache_purge PURGE from 127.0.0.1;
            larder_purge_from off;
        }
        location /secret/ { proxy_pass http://{ORIGIN}; auth_basic secret; auth_basic_user_file {DIR}/users; }
        location /edit/ { proxy_pass http://{ORIGIN}; proxy_cache off; larder_purge_by_origin on; }
        location /itself/ { proxy_pass http://{ORIGIN}; larder_purge_by_origin on; }
    }";

fn start(origin: &Origin, http: &str) -> Site {
    Setup::new().one_worker().file("users", "me:{PLAIN}mine\n").name("ORIGIN", origin.address()).start(http)
}

/// Stores pages, each with so many hits.
fn fill(site: &Site, pages: &[(&str, usize)]) {
    for (path, hits) in pages {
        site.get_until(path, "the page to be stored", |response| cached(response) == "HIT");
        (1..*hits).for_each(|_| drop(site.get(path)));
    }
}

fn targets(origin: &Origin, from: usize) -> Vec<String> {
    origin
        .requests()
        .iter()
        .skip(from)
        .map(|seen| seen.request_line.split(' ').nth(1).unwrap_or_default().to_owned())
        .collect()
}

#[test]
fn purged_pages_are_fetched_again_by_hits_and_without_what_says_who_asked() {
    let origin = Origin::start().unwrap();
    origin.answer("*", Answer::ok("page").field("Surrogate-Key", "all"));
    let site = start(&origin, SITE);
    fill(&site, &[("/few", 1), ("/most?a=b", 9), ("/some", 4), ("/denied/a", 2), ("/off/a", 7)]);
    let before = origin.count();
    assert_eq!(site.ask("PURGE", "/", "Surrogate-Key: all\r\nCookie: a=b\r\n").status, 200);
    site.wait_for_log("refilled 3 of 5 pages, 2 not to be stored");
    for (path, why) in [
        ("/denied/a", "not everybody may ask for it"),
        ("/off/a", "its location has neither larder_warm nor larder_refill"),
    ] {
        site.wait_for_log(&format!("not refilled: http://site.test{path}: {why}"));
    }
    assert_eq!(targets(&origin, before), ["/most?a=b", "/some", "/few"]);
    for seen in origin.requests().iter().skip(before) {
        assert!(seen.field("Cookie").is_none() && seen.field("Authorization").is_none(), "{seen:?}");
    }
    for (path, expected) in [("/most?a=b", "HIT"), ("/few", "HIT"), ("/denied/a", "MISS"), ("/off/a", "MISS")] {
        assert_eq!(cached(&site.get(path)), expected, "{path}");
    }
    // A soft purge, whose pages are there still.
    let before = origin.count();
    assert_eq!(site.ask("PURGE", "/some", "X-Purge-Soft: 1\r\n").status, 200);
    site.wait_for_log("refilled 1 of 1 pages");
    assert_eq!(targets(&origin, before), ["/some"]);
}

#[test]
fn no_more_are_fetched_in_a_second_than_it_says() {
    let origin = Origin::start().unwrap();
    origin.answer("*", Answer::ok("page").field("Surrogate-Key", "all"));
    let site = start(&origin, &SITE.replace("100 per second", "4 per second"));
    let pages: Vec<String> = (0..9).map(|number| format!("/{number}")).collect();
    fill(&site, &pages.iter().map(|path| (path.as_str(), 1)).collect::<Vec<_>>());
    let (began, before) = (Instant::now(), origin.count());
    assert_eq!(site.ask("PURGE", "/", "Surrogate-Key: all\r\n").status, 200);
    assert!(origin.wait_for(before + 9));
    // Eight times a quarter of a second lie between nine pages.
    assert!(began.elapsed() >= Duration::from_millis(1900), "{:?}", began.elapsed());
}

#[test]
fn an_origin_that_fails_rests_longer_each_time() {
    let origin = Origin::start().unwrap();
    origin.answer("*", Answer::ok("page").field("Surrogate-Key", "all"));
    let site = start(&origin, SITE);
    fill(&site, &[("/a", 2), ("/b", 1)]);
    origin.answer("*", Answer::status("503 Busy"));
    let (began, before) = (Instant::now(), origin.count());
    assert_eq!(site.ask("PURGE", "/", "Surrogate-Key: all\r\n").status, 200);
    // After a second, and two more; the end of the body of a failure is not waited for, here there is none.
    assert!(origin.wait_for(before + 3));
    assert!(began.elapsed() >= Duration::from_millis(2900), "{:?}", began.elapsed());
    origin.answer("*", Answer::ok("page").field("Surrogate-Key", "all"));
    eventually("the other page to be there", || cached(&site.get("/b")) == "HIT");
}

#[test]
fn the_list_outlives_a_reload() {
    let origin = Origin::start().unwrap();
    origin.answer("*", Answer::ok("page").field("Surrogate-Key", "all"));
    let site = start(&origin, &SITE.replace("100 per second", "2 per second"));
    fill(&site, &[("/a", 5), ("/b", 4), ("/c", 3), ("/d", 2)]);
    let before = origin.count();
    assert_eq!(site.ask("PURGE", "/", "Surrogate-Key: all\r\n").status, 200);
    assert!(origin.wait_for(before + 1));
    site.reload();
    site.wait_for_log("refilled 4 of 4 pages");
    assert_eq!(targets(&origin, before), ["/a", "/b", "/c", "/d"]);
}

#[test]
fn every_way_to_purge_has_its_pages_fetched_again() {
    let origin = Origin::start().unwrap();
    origin.answer("*", Answer::ok("page"));
    origin.answer("/edit/", Answer::ok("done").field("X-Larder-Purge", "url=/a"));
    let site = start(&origin, SITE);
    let ask = |method: &str, path: &str| site.ask(method, path, "").status;
    let say = |words: &[&str]| u16::from(site.setup().larder_words(&[&["purge"], words].concat()).status.success());
    type Way<'a> = (&'a str, &'a dyn Fn() -> u16, u16, &'a [&'a str]);
    let ways: [Way<'_>; 6] = [
        ("a plugin's PURGE", &|| ask("PURGE", "/a"), 200, &["/a"]),
        ("by the origin", &|| ask("POST", "/edit/"), 200, &["/a"]),
        ("the module's PURGE", &|| ask("PURGE", "/module/a"), 200, &["/module/a"]),
        ("the module's PURGE of what begins so", &|| ask("PURGE", "/module/*"), 200, &["/module/b", "/module/a"]),
        ("`larder purge URL`", &|| say(&["http://site.test/a"]), 1, &["/a"]),
        ("`larder purge --prefix`", &|| say(&["--prefix", "/module/"]), 1, &["/module/b", "/module/a"]),
    ];
    for (what, purge, status, expected) in ways {
        fill(&site, &[("/a", 3), ("/module/a", 2), ("/module/b", 5)]);
        let (before, runs) = (origin.count(), site.count_in_log("refilled "));
        assert_eq!(purge(), status, "{what}");
        eventually(what, || site.count_in_log("refilled ") > runs);
        let asked: Vec<_> = targets(&origin, before).into_iter().filter(|target| target != "/edit/").collect();
        assert_eq!(asked, expected, "{what}");
    }
}

#[test]
fn what_asks_for_a_password_is_not_fetched_and_what_purges_itself_is_so_once() {
    let origin = Origin::start().unwrap();
    origin.answer("*", Answer::ok("page").field("Surrogate-Key", "all"));
    let site = start(&origin, SITE);
    let me = "Authorization: Basic bWU6bWluZQ==\r\n";
    for path in ["/secret/a", "/itself/a"] {
        eventually("the page to be stored", || cached(&site.ask("GET", path, me)) == "HIT");
    }
    origin.answer("*", Answer::ok("page").field("Surrogate-Key", "all").field("X-Larder-Purge", "tag=all"));
    let before = origin.count();
    assert_eq!(site.ask("PURGE", "/", "Surrogate-Key: all\r\n").status, 200);
    site.wait_for_log("refilled 1 of 2 pages, 1 not to be stored");
    assert_eq!(targets(&origin, before), ["/itself/a"]);
    assert_eq!(cached(&site.ask("GET", "/secret/a", me)), "MISS");
}

#[test]
fn of_a_page_that_varies_the_variant_that_was_asked_for_most_is_fetched() {
    let origin = Origin::start().unwrap();
    origin.answer("*", Answer::ok("page").field("Vary", "Accept-Language, Cookie"));
    let site = start(&origin, SITE);
    for (language, cookie, hits) in [("de", "", 2), ("fr", "", 4), ("en", "", 3), ("en", "Cookie: a=b\r\n", 9)] {
        let fields = format!("Accept-Language: {language}\r\n{cookie}");
        eventually("the page to be stored", || cached(&site.ask("GET", "/a", &fields)) == "HIT");
        (1..hits).for_each(|_| drop(site.ask("GET", "/a", &fields)));
    }
    let before = origin.count();
    assert_eq!(site.ask("PURGE", "/a", "").status, 200);
    site.wait_for_log("refilled 1 of 1 pages");
    let requests = origin.requests();
    let seen: Vec<_> =
        requests.iter().skip(before).map(|seen| (seen.field("Accept-Language"), seen.field("Cookie"))).collect();
    assert_eq!(seen, [(Some("fr"), None)]);
}

#[test]
fn an_origin_that_gives_visitors_no_answer_rests_and_one_that_refuses_them_does_not() {
    let origin = Origin::start().unwrap();
    origin.answer("*", Answer::ok("page").field("Surrogate-Key", "all"));
    let site = start(&origin, &SITE.replace("100 per second", "1 per second"));
    for (path, answer) in
        [("/edit/busy", Answer::status("503 Busy").body("busy")), ("/edit/gone", Answer::raw(Vec::new()))]
    {
        fill(&site, &[("/a", 3), ("/b", 2)]);
        origin.answer(path, answer);
        let before = origin.count();
        assert_eq!(site.ask("PURGE", "/", "Surrogate-Key: all\r\n").status, 200);
        assert!(origin.wait_for(before + 1), "the first page");
        let asked = Instant::now();
        assert!(site.get(path).status >= 500);
        eventually("both pages", || targets(&origin, before).contains(&"/b".to_owned()));
        if path == "/edit/gone" {
            assert!(asked.elapsed() >= Duration::from_millis(950), "{:?}", asked.elapsed());
        }
        site.wait_for_log("refilled 2 of 2 pages");
    }
}

/// Two servers with one name, and keys in which nothing tells their pages apart.
const INSIDE: &str = "
    proxy_cache_path {DIR}/pages keys_zone=pages:1m larder_disk=off;
    proxy_cache pages;
    proxy_cache_key $scheme$host$uri$is_args$args;
    proxy_cache_valid 200 1h;
    add_header X-Cache $upstream_cache_status;
    larder_refill 100 per second;
    larder_purge_from 127.0.0.1;
    server { listen 127.0.0.1:{PORT}; server_name *.test; location / { proxy_pass http://{ORIGIN}; } }
    server { listen 127.0.0.1:{PORT2}; server_name site.test; location / { proxy_pass http://{ORIGIN}/inside; } }
    server { listen 127.0.0.1:{PORT2}; server_name other.test; location / { return 404; } }";

#[test]
fn a_page_is_fetched_from_the_server_that_it_was_made_by() {
    let origin = Origin::start().unwrap();
    origin.answer("*", Answer::ok("page").field("Surrogate-Key", "all"));
    let site = start(&origin, INSIDE);
    fill(&site, &[("/a", 2)]);
    let before = origin.count();
    assert_eq!(site.ask("PURGE", "/", "Surrogate-Key: all\r\n").status, 200);
    site.wait_for_log("refilled 1 of 1 pages");
    // And not from the one inside, which has that name at the other port.
    assert_eq!(targets(&origin, before), ["/a"]);
}

#[test]
fn a_url_that_the_first_visitor_has_chosen_is_not_asked_for_again() {
    let origin = Origin::start().unwrap();
    origin.answer("*", Answer::ok("page").field("Surrogate-Key", "all"));
    let http = SITE
        .replace("$scheme$host$request_uri", "$scheme$host$uri")
        .replace("listen 127", "server_name site.test; listen 127");
    let site = start(&origin, &http);
    fill(&site, &[("/a?click=1", 5), ("/b", 2)]);
    let before = origin.count();
    assert_eq!(site.ask("PURGE", "/", "Surrogate-Key: all\r\n").status, 200);
    site.wait_for_log("refilled 1 of 1 pages");
    assert_eq!(targets(&origin, before), ["/b"]);
    // A page of all hosts is that of the only server's name.
    let site = start(&origin, &http.replace("$scheme$host$uri", "$scheme$request_uri"));
    let before = origin.count();
    eventually("the page to be stored", || {
        let asked = "GET /a HTTP/1.1\r\nHost: evil.test\r\nConnection: close\r\n\r\n";
        cached(&site.exchange("GET", asked)) == "HIT"
    });
    assert_eq!(site.ask("PURGE", "/", "Surrogate-Key: all\r\n").status, 200);
    site.wait_for_log("refilled 1 of 1 pages");
    let requests = origin.requests();
    let hosts: Vec<_> = requests.iter().skip(before).map(|seen| seen.field("X-Host")).collect();
    assert_eq!(hosts, [Some("evil.test"), Some("site.test")]);
}

#[test]
fn what_is_not_kept_is_not_read_to_its_end_and_a_stop_waits_for_no_refill() {
    let origin = Origin::start().unwrap();
    origin.answer("*", Answer::ok("page").field("Surrogate-Key", "all"));
    let mut site = start(&origin, SITE);
    fill(&site, &[("/a", 9), ("/b", 5), ("/c", 2)]);
    let begun = |field: &str| {
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n{field}\r\nbegun");
        Answer::raw(head).then(Then::Hang)
    };
    origin.answer("/a", begun("Set-Cookie: a=b\r\n"));
    origin.answer("/b", begun(""));
    let before = origin.count();
    assert_eq!(site.ask("PURGE", "/", "Surrogate-Key: all\r\n").status, 200);
    site.wait_for_log("not refilled: http://site.test/a: it is not to be stored: Set-Cookie");
    assert!(origin.wait_for(before + 2), "the next page, whose end does not come");
    site.server().signal(Signal::Quit).unwrap();
    assert!(site.server_mut().wait().is_some_and(|status| status.success()));
}
