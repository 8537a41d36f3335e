//! Rules that cannot be evaluated: a pattern that reaches its limit lets nobody through.

use larder_testkit::{Answer, Origin};

use crate::site::{Setup, text};

/// An expression that takes too many steps on [`TEXT`], which does not match.
const PATTERN: &str = "(a+)+$";
const TEXT: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!";

#[test]
fn long_texts_are_matched_as_in_nginx() {
    let site = Setup::new().start(
        "map $args $is_bad { default 0; \"~(<|%3C).*script.*(>|%3E)\" 1; }
         server {
            listen 127.0.0.1:{PORT};
            if ($args ~ \"^x=(<|%3C).*script.*(>|%3E)\") { return 403; }
            location ~ ^/capture/([^/]+/)*private/ { return 403; }
            location ~ ^/dots/(?:.*/)*\\.ht { return 403; }
            location /map { if ($is_bad) { return 403; } return 200; }
            location / { return 200; }
         }",
    );
    for target in [
        format!("/capture/{}private/", "a/".repeat(1500)),
        format!("/dots/.ht{}", "/a".repeat(20)),
        format!("/?x=<script>{}", "script".repeat(600)),
        format!("/map?q=<script>{}", "script".repeat(600)),
    ] {
        assert_eq!(site.get(&target).status, 403, "{}", &target[..20]);
    }
}

#[test]
fn a_rule_that_gives_no_answer_lets_nobody_through() {
    let origin = Origin::start().unwrap();
    origin.answer("*", Answer::ok("through"));
    let site = Setup::new().name("ORIGIN", origin.address()).name("PATTERN", PATTERN).start(
        "proxy_cache_path cache keys_zone=pages:1m;
         map $args $is_good { default 1; ~{PATTERN} 0; }
         map $args $is_bad { default 0; ~{PATTERN} 1; }
         map $args $realm { default off; ~{PATTERN} closed; }
         server {
            listen 127.0.0.1:{PORT};
            error_page 418 /teapot;
            location ~ ^/location/{PATTERN} { return 403; }
            location /if { if ($args ~ {PATTERN}) { return 403; } proxy_pass http://{ORIGIN}; }
            location /unless { if ($args !~ {PATTERN}) { proxy_pass http://{ORIGIN}; } return 403; }
            location /rewrite { rewrite {PATTERN} /forbidden last; proxy_pass http://{ORIGIN}; }
            location /map { if ($is_bad) { return 403; } proxy_pass http://{ORIGIN}; }
            location /header { proxy_set_header X-Good $is_good; proxy_pass http://{ORIGIN}; }
            location /key { proxy_cache pages; proxy_cache_valid 1m; proxy_cache_key $uri$is_bad; proxy_pass http://{ORIGIN}; }
            location /realm { auth_basic $realm; auth_basic_user_file /nowhere; proxy_pass http://{ORIGIN}; }
            location /referer {
                valid_referers ~{PATTERN};
                if ($invalid_referer = \"\") { return 403; }
                proxy_pass http://{ORIGIN};
            }
            location /teapot { proxy_pass http://{ORIGIN}; }
            location / { proxy_pass http://{ORIGIN}; }
         }
         server {
            listen 127.0.0.1:{PORT};
            server_name ~^{PATTERN};
            return 403;
         }",
    );
    let with_host = |host: &str| {
        site.exchange("GET", format!("GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")).status
    };
    let referer = format!("Referer: http://example.com/{TEXT}\r\n");
    let mut failures = 0;
    for (target, fields) in [
        (format!("/location/{TEXT}"), ""),
        (format!("/if?{TEXT}"), ""),
        (format!("/unless?{TEXT}"), ""),
        (format!("/rewrite/{TEXT}"), ""),
        (format!("/map?{TEXT}"), ""),
        (format!("/header?{TEXT}"), ""),
        (format!("/key?{TEXT}"), ""),
        (format!("/realm?{TEXT}"), ""),
        ("/referer".to_owned(), &*referer),
    ] {
        assert_eq!(site.ask("GET", &target, fields).status, 500, "{target}");
        failures += 1;
        assert_eq!(site.count_in_log("match limit exceeded"), failures, "{target}");
    }
    assert_eq!(with_host(&TEXT.replace('!', "_")), 500);
    assert_eq!(origin.count(), 0, "nothing of it reached the origin");
    assert!(site.server().error_log().contains("[alert] "));
    // The same rules judge what they can judge.
    assert_eq!(site.get("/if?b").status, 200);
    assert_eq!(site.get("/if?aaa").status, 403);
    assert_eq!(with_host("aaa"), 403);
}

#[test]
fn the_page_of_the_error_is_judged_too() {
    let site = Setup::new().name("PATTERN", PATTERN).file("www/sorry.html", "sorry").start(
        "server {
            listen 127.0.0.1:{PORT};
            error_page 500 /sorry.html;
            location /open { if ($args ~ {PATTERN}) { return 403; } return 200 through; }
         }
         server {
            listen 127.0.0.1:{PORT};
            server_name strict.test;
            error_page 500 /sorry.html;
            if ($args ~ {PATTERN}) { return 403; }
            if ($request_uri ~ {PATTERN}) { return 403; }
         }",
    );
    let response = site.get(&format!("/open?{TEXT}"));
    assert_eq!((response.status, &*text(&response)), (500, "sorry"));
    let target = format!("/x?{TEXT}");
    let strict = format!("GET {target} HTTP/1.1\r\nHost: strict.test\r\nConnection: close\r\n\r\n");
    let response = site.exchange("GET", strict);
    assert_eq!(response.status, 500);
    assert!(text(&response).contains("Internal Server Error"), "{}", text(&response));
}

#[test]
fn a_page_whose_rule_for_storing_gives_no_answer_is_not_stored() {
    let origin = Origin::start().unwrap();
    origin.answer("*", Answer::ok("page").field("X-Kind", TEXT));
    let site = Setup::new().one_worker().name("ORIGIN", origin.address()).name("PATTERN", PATTERN).start(
        "proxy_cache_path cache keys_zone=pages:1m;
         map $upstream_http_x_kind $is_personal { default 0; ~{PATTERN} 1; }
         server {
            listen 127.0.0.1:{PORT};
            location / {
                proxy_cache pages; proxy_cache_valid 1m; proxy_no_cache $is_personal; proxy_pass http://{ORIGIN};
            }
         }",
    );
    assert_eq!(site.get("/page").status, 500);
    assert_eq!(site.get("/page").status, 500);
    assert_eq!(origin.count(), 2, "it was asked for each time");
}
