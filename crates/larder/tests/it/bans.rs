//! Bans that outlive a restart, and those of `larder_ban`.

use larder_testkit::{Answer, Origin, text_of};

use crate::site::{Setup, Site, cached, eventually, run, text};

/// Zones on disk, one of which a request may ban from.
const SITE: &str = r#"
    proxy_cache_path {DIR}/pages keys_zone=pages:1m inactive=1h max_size=64m;
    proxy_cache_path {DIR}/others keys_zone=others:1m inactive=1h max_size=64m;
    larder_ban pages BAN $http_x_ban from 127.0.0.0/8;
    server {
        listen 127.0.0.1:{PORT};
        add_header X-Cache $upstream_cache_status;
        proxy_cache_valid 200 1h;
        proxy_cache_key $uri;
        location / { proxy_pass http://{ORIGIN}; proxy_cache pages; }
        location /others/ { proxy_pass http://{ORIGIN}; proxy_cache others; }
        location /theirs/ { root {DIR}; larder_ban pages BAN $http_x_ban from 192.0.2.1; }
        location /off/ { proxy_pass http://{ORIGIN}; larder_ban off; }
        location /tags/ { root {DIR}; larder_ban pages BANTAGS "obj.http.x-tags == $http_x_tag" from all; }
    }"#;

/// Pages with a tag each.
fn site(origin: &Origin) -> Site {
    for (path, tag) in [("/red", "red"), ("/blue", "blue"), ("/others/red", "red"), ("/green", "green")] {
        origin.answer(path, Answer::ok("page").field("X-Tags", tag));
    }
    origin.answer("/off/", Answer::ok("passed"));
    Setup::new().name("ORIGIN", origin.address()).start(SITE)
}

fn fill(site: &Site, paths: &[&str]) {
    for path in paths {
        site.get_until(path, "the page to be stored", |response| cached(response) == "HIT");
    }
}

fn ban(site: &Site, words: &str) -> (u16, String) {
    let response = site.ask("BAN", "/", &format!("X-Ban: {words}\r\n"));
    (response.status, text(&response))
}

#[test]
fn a_request_bans_what_its_header_says_in_the_zone_that_is_told() {
    let origin = Origin::start().unwrap();
    let site = site(&origin);
    let all = ["/red", "/blue", "/others/red"];
    fill(&site, &all);
    assert_eq!(ban(&site, "obj.http.x-tags ~ red"), (200, "Banned: obj.http.x-tags ~ red\n".to_owned()));
    assert_eq!(all.map(|path| cached(&site.get(path)).to_owned()), ["MISS", "HIT", "HIT"]);
    fill(&site, &all);
    assert_eq!(ban(&site, "req.url ~ ^/b").0, 200);
    assert_eq!(all.map(|path| cached(&site.get(path)).to_owned()), ["HIT", "MISS", "HIT"]);
    fill(&site, &all);
    // From any location, by the method that it says.
    assert_eq!(site.ask("BANTAGS", "/tags/", "X-Tag: red\r\n").status, 200);
    assert_eq!(all.map(|path| cached(&site.get(path)).to_owned()), ["MISS", "HIT", "HIT"]);
}

#[test]
fn who_may_not_ban_or_says_what_is_no_ban_bans_nothing() {
    let origin = Origin::start().unwrap();
    let site = site(&origin);
    fill(&site, &["/red"]);
    for (words, why) in [
        ("", "No ban conditions found."),
        ("obj.http.x-tags", "Expected comparison operator."),
        ("req.method == GET", "Unknown or unsupported field \"req.method\""),
        ("req.url ~ (", "Regex compile error: missing closing parenthesis"),
        ("obj.http.x-tags ~ \u{0}\u{ff}", "400"),
    ] {
        let (status, said) = ban(&site, words);
        assert_eq!(status, 400, "{words}");
        assert!(said.contains(why), "{words}: {said}");
    }
    assert!(site.server().error_log().contains("\"larder_ban\": Expected comparison operator."));
    let all = "X-Ban: obj.status == 200\r\n";
    assert_eq!(site.ask("BAN", "/theirs/", all).status, 403);
    assert_eq!(text(&site.ask("BAN", "/off/", all)), "passed");
    assert_eq!(site.ask("BANTAGS", "/", "X-Tag: red\r\n").status, 404, "another location's method goes to the origin");
    assert_eq!(cached(&site.get("/red")), "HIT");
}

#[test]
fn who_bans_is_told_that_the_disk_cannot_note_it_and_it_holds_all_the_same() {
    let origin = Origin::start().unwrap();
    let mut site = site(&origin);
    fill(&site, &["/red", "/blue", "/green"]);
    // So that they are on disk before they are banned.
    site = site.restart();
    eventually("the shelf to be open", || site.count_in_log("3 pages") == 1);
    // Where a folder has its name, the list cannot be written.
    let in_the_way = site.setup().path("pages/larder.bans.new");
    std::fs::create_dir(&in_the_way).unwrap();
    let (status, said) = ban(&site, "obj.http.x-tags != green");
    let why = format!(
        "The ban holds, but is not on disk yet: {} cannot be",
        site.setup().path("pages/larder.bans").display()
    );
    assert_eq!((status, said.starts_with(&why)), (500, true), "{said}");
    assert!(site.server().error_log().contains(&format!("\"larder_ban\": {why}")));
    assert_eq!(cached(&site.get("/red")), "MISS");
    std::fs::remove_dir(in_the_way).unwrap();
    assert_eq!(ban(&site, "req.url == /nowhere").0, 200);
    site = site.crash();
    site.get_until("/green", "the shelf to be open", |response| cached(response) == "HIT");
    assert_eq!(cached(&site.get("/blue")), "MISS");
    let listed = run(&["cache", "bans", "pages", "-c", site.setup().path("nginx.conf").to_str().unwrap()]);
    assert!(text_of(&listed.stdout).ends_with("/pages: 2 bans\n"));
}

#[test]
fn what_was_banned_stays_away_after_a_restart_and_a_crash() {
    for is_crash in [false, true] {
        let origin = Origin::start().unwrap();
        let mut site = site(&origin);
        fill(&site, &["/red", "/blue"]);
        // So that they are on disk before they are banned, and in memory no more.
        site = site.restart();
        eventually("the shelf to be open", || site.count_in_log("2 pages") == 1);
        assert_eq!(ban(&site, "obj.http.x-tags == red").0, 200);
        assert_eq!(ban(&site, "req.url == /nowhere").0, 200);
        let listed = run(&["cache", "bans", "pages", "-c", site.setup().path("nginx.conf").to_str().unwrap()]);
        let listed = text_of(&listed.stdout);
        let lines: Vec<&str> =
            listed.lines().filter_map(|line| line.split_once("Z ").map(|(_, words)| words)).collect();
        assert_eq!(lines, ["req.url == /nowhere", "obj.http.x-tags == red"], "{listed}");
        assert!(listed.ends_with("/pages: 2 bans\n"), "{listed}");
        // It comes after the bans.
        origin.answer("/late", Answer::ok("late").field("X-Tags", "red"));
        site.get("/late");
        site = match is_crash {
            true => {
                eventually("the page to be written", || {
                    std::fs::read_dir(site.setup().path("pages")).unwrap().any(|entry| {
                        let bytes = std::fs::read(entry.unwrap().path()).unwrap_or_default();
                        bytes.windows(5).any(|bytes| bytes == b"/late")
                    })
                });
                site.crash()
            }
            false => site.restart(),
        };
        site.get_until("/blue", "the shelf to be open", |response| cached(response) == "HIT");
        assert_eq!(cached(&site.get("/red")), "MISS", "{is_crash}");
        assert_eq!(cached(&site.get("/late")), "HIT", "{is_crash}");
        // What was fetched since stays.
        fill(&site, &["/red"]);
        site = site.restart();
        for path in ["/red", "/blue", "/late"] {
            site.get_until(path, "the shelf to be open", |response| cached(response) == "HIT");
        }
    }
}
