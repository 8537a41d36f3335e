//! `larder_gate` and `queue`: who is at the origin at once, who waits, and what becomes of the others.

use std::sync::mpsc;
use std::thread;

use larder_testkit::{Answer, Client, Origin, Response, Signal, text_of};
use serde_json::Value;

use crate::site::{Setup, Site, cached, eventually, get, text};

/// One request at the origin at once, and a status page.
const SITE: &str = "
    proxy_cache_path {DIR}/pages keys_zone=pages:1m;
    map $http_x_class $class { default $http_x_class; }
    upstream app { server {ORIGIN}; {GROUP} }
    server {
        listen 127.0.0.1:{PORT}; server_name site.test;
        add_header X-Cache $upstream_cache_status always;
        {LEVEL}
        location / { proxy_pass http://app; proxy_read_timeout 1h; }
        location /cached/ {
            proxy_pass http://app; proxy_read_timeout 1h; proxy_cache pages; proxy_cache_valid 200 1s;
        }
        location /by-page { proxy_pass http://app; proxy_read_timeout 1h; error_page 503 @later; }
        location @later { return 503 later; }
        location /by-app { proxy_pass http://app; proxy_read_timeout 1h; error_page 503 /sorry; }
        location /secret { auth_request /cached/auth; proxy_pass http://{ORIGIN}; }
        location /shop/ { larder_profile woocommerce; proxy_pass http://app; }
        location /by/ { larder_gate off; proxy_pass http://app; }
        location /api { larder_status; }
        location = /metrics { larder_metrics; }
    }";

fn start(origin: &Origin, group: &str, level: &str) -> Site {
    origin.answer("*", Answer::ok("page"));
    let names = Setup::new().name("ORIGIN", origin.address()).name("GROUP", group).name("LEVEL", level);
    names.start(SITE)
}

/// The gate, as it is told to programs.
fn gate(site: &Site) -> Value {
    let origins: Value = serde_json::from_str(&text(&site.get("/api/larder/1/origins"))).expect("JSON");
    let groups = origins.as_array().expect("a list");
    groups.iter().find(|group| group["name"] == "app").expect("the group").clone()
}

fn waits(site: &Site, count: u64) {
    eventually("so many to wait", || gate(site)["waiting"] == count);
}

fn send(site: &Site, target: &str, fields: &str) -> Client {
    let mut client = site.client();
    client.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n{fields}\r\n").as_bytes()).expect("it is read");
    client
}

fn response(client: &mut Client) -> Response {
    client.read_response("GET").expect("an answer")
}

/// What the origin was asked for, in order.
fn targets(origin: &Origin) -> Vec<String> {
    origin.requests().iter().filter_map(|seen| Some(seen.request_line.split(' ').nth(1)?.to_owned())).collect()
}

#[test]
fn one_is_at_the_origin_and_those_who_wait_have_their_turn_by_class() {
    let origin = Origin::start().unwrap();
    let held = origin.hold("/first");
    let site = start(&origin, "larder_gate 1;", "larder_gate_class $class;");
    let mut first = send(&site, "/first", "");
    assert!(origin.wait_for(1));
    let mut clients = Vec::new();
    for (at, (target, fields)) in [
        ("/crawler", "User-Agent: Googlebot/2.1 (+http://www.google.com/bot.html)\r\n"),
        ("/said-low", "X-Class: 7\r\n"),
        ("/visitor", ""),
        ("/basket", "Cookie: a=b; PHPSESSID=1\r\n"),
        ("/said-first", "X-Class: 0\r\n"),
    ]
    .into_iter()
    .enumerate()
    {
        clients.push(send(&site, target, fields));
        waits(&site, at as u64 + 1);
    }
    drop(held);
    assert_eq!(text(&response(&mut first)), "page");
    for client in &mut clients {
        assert_eq!(text(&response(client)), "page");
    }
    assert_eq!(targets(&origin), ["/first", "/said-first", "/basket", "/visitor", "/said-low", "/crawler"]);
    let told = gate(&site);
    assert_eq!((&told["gate"]["admitted"], &told["gate"]["waited"]), (&6.into(), &5.into()));
}

#[test]
fn an_overflow_is_503_with_the_time_to_come_again() {
    let origin = Origin::start().unwrap();
    let held = origin.hold("/first");
    let site = start(&origin, "larder_gate 1 queue=1;", "");
    let mut first = send(&site, "/first", "");
    assert!(origin.wait_for(1));
    let mut low = send(&site, "/low", "User-Agent: spider\r\n");
    waits(&site, 1);
    let mut visitor = send(&site, "/visitor", "");
    // The visitor has the place of the crawler.
    let displaced = response(&mut low);
    assert_eq!((displaced.status, displaced.field("Retry-After")), (503, Some("1")));
    drop(held);
    assert_eq!((response(&mut first).status, response(&mut visitor).status), (200, 200));
    assert_eq!(gate(&site)["gate"]["displaced"], 1);
}

#[test]
fn who_finds_the_queue_full_is_refused_and_who_passes_by_is_not() {
    let origin = Origin::start().unwrap();
    let held = origin.hold("/first");
    let site = start(&origin, "larder_gate 1 queue=1;", "");
    let mut first = send(&site, "/first", "");
    assert!(origin.wait_for(1));
    let mut second = send(&site, "/second", "");
    waits(&site, 1);
    let refused = site.get("/third");
    assert_eq!((refused.status, refused.field("Retry-After")), (503, Some("1")));
    assert_eq!(text(&site.get("/by/me")), "page");
    site.wait_for_log("found as many as may wait at the gate");
    let page = text(&site.get("/metrics"));
    for line in [
        "larder_gate_limit{group=\"app\"} 1\n",
        "larder_gate_running{group=\"app\"} 1\n",
        "larder_gate_waiting{group=\"app\",class=\"normal\"} 1\n",
        "larder_gate_requests_total{group=\"app\",outcome=\"refused\"} 1\n",
        "larder_gate_wait_seconds_count{group=\"app\"} 0\n",
    ] {
        assert!(page.contains(line), "{line} in {page}");
    }
    let explained = site.setup().larder_words(&["explain", "http://a/x", "-H", "Cookie: PHPSESSID=1"]);
    let explained = text_of(&explained.stdout);
    assert!(explained.contains("app: 1 of 1 are in, 1 of 1 wait; class high, by a cookie of a session"), "{explained}");
    let upstream: Value = serde_json::from_str(&text(&site.get("/api/9/http/upstreams/app"))).expect("JSON");
    assert_eq!(upstream["queue"], serde_json::json!({ "size": 1, "max_size": 1, "overflows": 1 }));
    drop(held);
    assert_eq!((response(&mut first).status, response(&mut second).status), (200, 200));
}

#[test]
fn the_profile_of_a_location_says_who_comes_first() {
    let origin = Origin::start().unwrap();
    let site = start(&origin, "larder_gate 1;", "");
    for (target, expected) in [
        ("/shop/checkout", "class high, by its path"),
        ("/shop/?add-to-cart=1", "class high, by an argument"),
        ("/shop/feed/", "class low, by its path"),
        ("/shop/", "class normal, by no rule"),
        ("/checkout", "class normal, by no rule"),
    ] {
        let explained = site.setup().larder_words(&["explain", &format!("http://a{target}")]);
        let explained = text_of(&explained.stdout);
        assert!(explained.contains(expected), "{target}: {explained}");
    }
}

#[test]
fn who_has_waited_long_enough_is_told_to_come_again() {
    let origin = Origin::start().unwrap();
    let held = origin.hold("/first");
    let site = start(&origin, "larder_gate 1 timeout=20ms;", "");
    let mut first = send(&site, "/first", "");
    assert!(origin.wait_for(1));
    let late = site.get("/second");
    assert_eq!((late.status, late.field("Retry-After")), (503, Some("1")));
    let by_page = site.get("/by-page");
    assert_eq!((by_page.status, by_page.field("Retry-After"), text(&by_page).as_str()), (503, Some("1"), "later"));
    assert_eq!(gate(&site)["gate"]["expired"], 2);
    drop(held);
    assert_eq!(response(&mut first).status, 200);
    assert_eq!(origin.count(), 1);
}

#[test]
fn an_error_page_behind_the_same_gate_does_not_wait_again() {
    let origin = Origin::start().unwrap();
    let held = origin.hold("/first");
    let site = start(&origin, "larder_gate 1 timeout=20ms;", "");
    let mut first = send(&site, "/first", "");
    assert!(origin.wait_for(1));
    let refused = site.get("/by-app");
    assert_eq!((refused.status, refused.field("Retry-After")), (503, Some("1")));
    site.wait_for_log("has its error page behind a gate, too, where it does not wait again");
    let told = &gate(&site)["gate"];
    assert_eq!((&told["expired"], &told["refused"]), (&1.into(), &1.into()));
    drop(held);
    assert_eq!(response(&mut first).status, 200);
    assert_eq!(text(&site.get("/by-app")), "page");
}

#[test]
fn a_stale_page_takes_the_place_of_an_overflow_unless_it_says_that_it_may_not() {
    let origin = Origin::start().unwrap();
    origin.answer("/cached/strict", Answer::ok("strict").field("Cache-Control", "must-revalidate"));
    let site = start(&origin, "larder_gate 1 queue=0;", "larder_explain_from 127.0.0.1;");
    for target in ["/cached/page", "/cached/strict", "/cached/auth"] {
        assert_eq!(cached(&site.get(target)), "MISS");
    }
    assert_eq!(site.get("/secret").status, 200);
    site.get_until("/cached/page", "the page to expire", |response| cached(response) != "HIT");
    site.get_until("/cached/strict", "the page to expire", |response| cached(response) != "HIT");
    // Both are stored anew, and stale when the gate is full.
    let held = origin.hold("/first");
    let count = origin.count();
    let mut first = send(&site, "/first", "");
    assert!(origin.wait_for(count + 1));
    let stale = site.get_until("/cached/page", "the page to expire", |response| cached(response) != "HIT");
    assert_eq!((stale.status, cached(&stale), text(&stale)), (200, "STALE", "page".to_owned()));
    assert_eq!(stale.field("X-Larder-Explain"), Some("a stale page, as there was no turn at the gate"));
    let strict = site.get_until("/cached/strict", "the page to expire", |response| cached(response) != "HIT");
    assert_eq!((strict.status, strict.field("Retry-After")), (503, Some("1")));
    // What lets somebody in has to be fresh.
    site.get_until("/cached/auth", "the page to expire", |response| cached(response) != "HIT");
    assert_eq!(site.get("/secret").status, 500);
    let absent = site.get("/cached/absent");
    assert_eq!((absent.status, cached(&absent)), (503, "MISS"));
    assert_eq!(absent.field("X-Larder-Explain"), Some("not cached: no turn at the gate"));
    drop(held);
    assert_eq!(response(&mut first).status, 200);
}

#[test]
fn a_client_that_leaves_the_queue_leaves_it_unless_others_wait_for_its_page() {
    let origin = Origin::start().unwrap();
    let held = origin.hold("/first");
    let site = start(&origin, "larder_gate 1;", "proxy_cache_lock on; proxy_cache_lock_timeout 1h;");
    let mut first = send(&site, "/first", "");
    assert!(origin.wait_for(1));
    for target in ["/passed", "/cached/alone"] {
        let gone = send(&site, target, "");
        waits(&site, 1);
        drop(gone);
        waits(&site, 0);
    }
    assert_eq!(gate(&site)["gate"]["left"], 2);
    let leader = send(&site, "/cached/shared", "");
    waits(&site, 1);
    let mut follower = send(&site, "/cached/shared", "");
    let api = || -> Value { serde_json::from_str(&text(&site.get("/api/larder/1/caches/pages"))).expect("JSON") };
    eventually("it to wait for the same page", || api()["lookups"]["wait"] == 1);
    drop(leader);
    drop(held);
    assert_eq!(response(&mut first).status, 200);
    assert_eq!(text(&response(&mut follower)), "page");
    assert_eq!(targets(&origin), ["/first", "/cached/shared"]);
}

#[test]
fn one_fetch_waits_for_all_who_want_its_page() {
    let origin = Origin::start().unwrap();
    let held = origin.hold("/first");
    let site = start(&origin, "larder_gate 1;", "proxy_cache_lock on; proxy_cache_lock_timeout 10ms;");
    let mut first = send(&site, "/first", "");
    assert!(origin.wait_for(1));
    let mut leader = send(&site, "/cached/page", "");
    waits(&site, 1);
    let mut follower = send(&site, "/cached/page", "");
    let api = || -> Value { serde_json::from_str(&text(&site.get("/api/larder/1/caches/pages"))).expect("JSON") };
    eventually("its time to be over", || api()["lookups"]["wait"].as_u64() > Some(2));
    assert_eq!(gate(&site)["waiting"], 1);
    drop(held);
    assert_eq!([&mut first, &mut leader, &mut follower].map(|client| response(client).status), [200, 200, 200]);
    assert!(gate(&site)["gate"]["refused"] == 0 && origin.count() <= 3);
}

#[test]
fn the_queue_of_nginx_plus_is_for_servers_with_all_their_connections() {
    let origin = Origin::start().unwrap();
    let held = origin.hold("/first");
    let names = Setup::new().name("ORIGIN", origin.address());
    origin.answer("*", Answer::ok("page"));
    let site = names.start(
        "upstream app { server {ORIGIN} max_conns=1; queue 1 timeout=1h; }
         upstream bare { server {ORIGIN} max_conns=1; }
         server {
            listen 127.0.0.1:{PORT}; server_name site.test;
            location / { proxy_pass http://app; }
            location /bare/ { proxy_pass http://bare; }
            location /api { larder_status; }
         }",
    );
    let mut first = send(&site, "/first", "");
    assert!(origin.wait_for(1));
    let mut second = send(&site, "/second", "");
    waits(&site, 1);
    let refused = site.get("/third");
    assert_eq!((refused.status, refused.field("Retry-After")), (503, Some("1")));
    // Without a queue nobody waits, as in nginx.
    let other = origin.hold("/bare/first");
    let mut bare = send(&site, "/bare/first", "");
    assert!(origin.wait_for(2));
    assert_eq!(site.get("/bare/second").status, 502);
    drop((held, other));
    assert_eq!([&mut first, &mut second, &mut bare].map(|client| response(client).status), [200, 200, 200]);
}

#[test]
fn behind_a_vcl_the_gate_of_the_locations_own_origin_holds() {
    let origin = Origin::start().unwrap();
    let held = origin.hold("/first");
    origin.answer("*", Answer::ok("page"));
    let setup = Setup::new().name("ORIGIN", origin.address());
    let site = setup.file("site.vcl", "vcl 4.1; sub vcl_recv { return (pass); }").start(
        "upstream app { server {ORIGIN}; larder_gate 1 queue=1 timeout=1h; }
         server {
            listen 127.0.0.1:{PORT}; server_name site.test;
            location / { vcl {DIR}/site.vcl; proxy_pass http://app; }
            location /api { larder_status; }
         }",
    );
    let mut first = send(&site, "/first", "");
    assert!(origin.wait_for(1));
    let mut second = send(&site, "/second", "");
    waits(&site, 1);
    assert_eq!(site.get("/third").status, 503);
    drop(held);
    assert_eq!([&mut first, &mut second].map(|client| response(client).status), [200, 200]);
    assert_eq!(targets(&origin), ["/first", "/second"]);
}

#[test]
fn a_reload_keeps_who_is_in_and_who_waits() {
    let origin = Origin::start().unwrap();
    let held = origin.hold("/first");
    let site = start(&origin, "larder_gate 1;", "");
    let mut first = send(&site, "/first", "");
    assert!(origin.wait_for(1));
    let mut second = send(&site, "/second", "");
    waits(&site, 1);
    site.reload();
    let mut third = send(&site, "/third", "");
    waits(&site, 2);
    drop(held);
    assert_eq!([&mut first, &mut second, &mut third].map(|client| response(client).status), [200, 200, 200]);
    assert_eq!(targets(&origin), ["/first", "/second", "/third"]);
}

#[test]
fn a_gate_that_a_reload_takes_away_lets_all_in() {
    let origin = Origin::start().unwrap();
    let held = origin.hold("*");
    let site = start(&origin, "larder_gate 1;", "");
    let mut clients: Vec<Client> = ["/first", "/second", "/third"]
        .into_iter()
        .enumerate()
        .map(|(at, target)| {
            let client = send(&site, target, "");
            if at == 0 {
                assert!(origin.wait_for(1));
            } else {
                waits(&site, at as u64);
            }
            client
        })
        .collect();
    site.change_to(&site.setup().fill(SITE).replace("larder_gate 1;", ""));
    assert!(origin.wait_for(3), "all are in");
    drop(held);
    assert!(clients.iter_mut().all(|client| response(client).status == 200));
}

#[test]
fn notices_are_in_the_log_of_the_configuration_at_the_start_and_at_a_reload() {
    for mode in ["on", "off"] {
        let text = |gate: &str| {
            format!(
                "daemon off; master_process {mode}; pcre_jit on; pid nginx.pid; error_log other.log info; events {{}}
                 http {{ access_log off; upstream app {{ server 127.0.0.1:1; {gate} }}
                 server {{ listen 127.0.0.1:{{PORT}}; location / {{ proxy_pass http://app; }} }} }}"
            )
        };
        let setup = Setup::new();
        setup.write_raw(&text("larder_gate 1;"));
        let site = setup.start_as_written();
        let notice = "[notice] one directive has no effect";
        site.wait_for_text("other.log", "one directive has no effect");
        assert_eq!(site.count_in_log(notice), 0, "{mode}");
        site.setup().write_raw(&text(""));
        site.signal(Signal::Hup);
        site.wait_for_text("other.log", "\"app\" has no gate any more: all requests go to it at once");
    }
}

#[test]
fn many_clients_of_all_workers_are_answered_through_a_narrow_gate() {
    let origin = Origin::start().unwrap();
    let site = start(&origin, "larder_gate 2;", "");
    let (sender, statuses) = mpsc::channel();
    thread::scope(|scope| {
        for client in 0..16 {
            let (sender, site) = (sender.clone(), &site);
            scope.spawn(move || {
                for turn in 0..20 {
                    let target = format!("/{client}/{turn}");
                    sender.send(site.exchange("GET", get(&target)).status).expect("somebody listens");
                }
            });
        }
    });
    drop(sender);
    assert_eq!(statuses.iter().filter(|status| *status == 200).count(), 320);
    let told = gate(&site);
    assert_eq!((&told["gate"]["running"], &told["waiting"]), (&0.into(), &0.into()));
    assert_eq!(told["gate"]["admitted"], 320);
}

/// A page that is longer than what is read ahead and on its way, with an include at its start.
fn long(start: &str) -> String {
    format!("{start}{}", "text ".repeat(2 << 20))
}

#[test]
fn a_fetch_comes_in_as_the_best_of_those_who_wait_for_it() {
    let origin = Origin::start().unwrap();
    let held = origin.hold("/first");
    let site = start(&origin, "larder_gate 1;", "proxy_cache_lock on; proxy_cache_lock_timeout 1h;");
    let mut first = send(&site, "/first", "");
    assert!(origin.wait_for(1));
    let mut crawler = send(&site, "/cached/page", "User-Agent: spider\r\n");
    waits(&site, 1);
    let mut visitor = send(&site, "/other", "");
    waits(&site, 2);
    let mut buyer = send(&site, "/cached/page", "Cookie: PHPSESSID=1\r\n");
    eventually("its page to be hurried", || gate(&site)["gate"]["waiting"]["high"] == 1);
    drop(held);
    assert_eq!([&mut first, &mut crawler, &mut visitor, &mut buyer].map(|client| response(client).status), [200; 4]);
    assert_eq!(targets(&origin), ["/first", "/cached/page", "/other"]);
}

#[test]
fn a_page_that_is_not_buffered_waits_for_no_fetch_that_waits_for_it() {
    let origin = Origin::start().unwrap();
    let held = origin.hold("/page");
    let page = html(&long("<!--# include virtual=\"/cached/part\" -->"));
    origin.answer("/page", page.field("X-Accel-Buffering", "no"));
    let level = "ssi on; proxy_cache_lock on; proxy_cache_lock_timeout 1h;
        proxy_cache_lock_age 1h; proxy_cache_key $uri;";
    let site = start(&origin, "larder_gate 1 timeout=1h;", level);
    let mut page = send(&site, "/page", "");
    assert!(origin.wait_for(1));
    let mut part = send(&site, "/cached/part", "");
    waits(&site, 1);
    drop(held);
    assert!(text(&response(&mut page)).starts_with("pagetext"));
    assert_eq!(text(&response(&mut part)), "page");
    assert_eq!(targets(&origin), ["/page", "/cached/part"]);
}

#[test]
fn a_background_fetch_of_what_such_a_page_includes_waits() {
    let origin = Origin::start().unwrap();
    let page = html(&long("<!--# include virtual=\"/cached/part\" -->"));
    origin.answer("/page", page.field("X-Accel-Buffering", "no"));
    let level = "ssi on; proxy_cache_use_stale updating; proxy_cache_background_update on; proxy_cache_key $uri;";
    let site = start(&origin, "larder_gate 1 timeout=1h;", level);
    assert_eq!(cached(&site.get("/cached/part")), "MISS");
    let held = origin.hold("/page");
    let mut client = send(&site, "/page", "");
    assert!(origin.wait_for(2));
    site.get_until("/cached/part", "the part to expire", |response| cached(response) == "STALE");
    let expired = || gate(&site)["gate"]["expired"].as_u64().expect("a number");
    // The page holds the only slot.
    eventually("the fetch to give up", || expired() == 1);
    drop(held);
    // The page is not read, so that it holds the slot on.
    eventually("the next one to give up", || expired() > 1);
    assert_eq!(targets(&origin), ["/cached/part", "/page"]);
    assert!(text(&response(&mut client)).starts_with("pagetext"));
}

fn html(text: &str) -> Answer {
    Answer::ok(text).field("Content-Type", "text/html")
}

#[test]
fn a_page_that_is_not_buffered_does_not_wait_for_what_it_includes() {
    for level in [
        "proxy_buffering off;",
        "proxy_max_temp_file_size 0;",
        "proxy_max_temp_file_size 64k; proxy_temp_file_write_size 32k;",
    ] {
        let origin = Origin::start().unwrap();
        let page = long("a<!--# include virtual=\"/part\" -->b");
        origin.answer("/page", html(&page));
        origin.answer("/part", html("<!--# include virtual=\"/inner\" -->"));
        let site = start(&origin, "larder_gate 1 timeout=1h;", &format!("ssi on; {level}"));
        let answer = text(&site.get("/page"));
        assert!(answer.starts_with("apageb"), "{level}: {:?}", answer.get(..40));
        assert_eq!(answer.len(), long("apageb").len(), "{level}");
        assert_eq!(targets(&origin), ["/page", "/part", "/inner"]);
    }
}

#[test]
fn a_part_that_is_not_buffered_does_not_keep_an_earlier_one_out() {
    let origin = Origin::start().unwrap();
    let held = origin.hold("/first");
    origin.answer("/by/page", html("<!--# include virtual=\"/low\" -->, <!--# include virtual=\"/high\" -->"));
    origin.answer("/high", Answer::ok(long("high")));
    let level = "ssi on; proxy_buffering off;
        location /low { larder_gate_class low; proxy_pass http://app; proxy_read_timeout 1h; }
        location /high { larder_gate_class high; proxy_pass http://app; proxy_read_timeout 1h; }";
    let site = start(&origin, "larder_gate 1 timeout=1h;", level);
    let mut first = send(&site, "/first", "");
    assert!(origin.wait_for(1));
    let mut page = send(&site, "/by/page", "");
    waits(&site, 2);
    drop(held);
    assert_eq!(response(&mut first).status, 200);
    assert!(text(&response(&mut page)).starts_with("page, hightext"));
    assert_eq!(targets(&origin), ["/first", "/by/page", "/high", "/low"]);
}
