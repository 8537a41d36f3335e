//! `larder_cluster_share`: several larders fetch a page once.

use std::thread;
use std::time::Duration;

use larder_testkit::{Answer, Client, Origin, Redis, Signal, Then, signal_to};

use crate::site::{Setup, Site, cached, eventually, text};

const HTTP: &str = "
    larder_cluster redis://127.0.0.1:{REDIS} name=shop node={NODE} timeout=20s;
    larder_cluster_share on deadline=1s;
    proxy_cache_path {DIR}/pages keys_zone=pages:1m inactive=1h;
    larder_purge_from 127.0.0.1;
    server {
        listen 127.0.0.1:{PORT};
        server_name site.test;
        add_header X-Cache $upstream_cache_status;
        proxy_cache pages;
        proxy_cache_key $host$uri;
        proxy_cache_valid 200 1h;
        proxy_cache_lock on;
        location / { proxy_pass http://{ORIGIN}; }
        location /old/ {
            proxy_pass http://{ORIGIN};
            proxy_cache_revalidate on;
            proxy_cache_use_stale error updating;
        }
        location /hasty/ { proxy_pass http://{ORIGIN}; proxy_cache_lock_timeout 300ms; }
        location /vcl/ { proxy_pass http://{ORIGIN}; vcl {DIR}/a.vcl; }
        location = /metrics { larder_metrics; }
    }";

const VCL: &str = "vcl 4.1;
    sub vcl_backend_response { set beresp.ttl = 1h; if (bereq.url ~ \"private\") { set beresp.uncacheable = true; } }
    sub vcl_deliver {
        if (obj.hits > 0) { set resp.http.X-Cache = \"HIT\"; } else { set resp.http.X-Cache = \"MISS\"; }
    }";

/// A Redis, an origin, and larders in front of it.
struct Cluster {
    redis: Redis,
    origin: Origin,
}

impl Cluster {
    fn new() -> Self {
        let origin = Origin::start().unwrap();
        origin.answer("*", Answer::ok("page").field("xkey", "all").field("Last-Modified", DATE));
        Self { redis: Redis::start(&[]), origin }
    }

    fn start(&self, node: &str) -> Site {
        self.start_with(node, HTTP)
    }

    fn start_with(&self, node: &str, http: &str) -> Site {
        let setup = Setup::new().name("ORIGIN", self.origin.address()).name("REDIS", self.redis.port());
        setup.name("NODE", node).file("a.vcl", VCL).start(http)
    }

    /// How often the origin was asked for a page.
    fn asked(&self, path: &str) -> usize {
        self.origin.requests().iter().filter(|request| request.request_line.split(' ').nth(1) == Some(path)).count()
    }

    /// Waits until as many pages are on the shelf, or marks of those that cannot be.
    fn until_shelved(&self, count: usize) {
        eventually("the page to be on the shelf", || {
            self.redis.ask(&["KEYS", "*:lock:*"]).is_empty() && self.redis.ask(&["KEYS", "*:page:*"]).len() >= count
        });
    }
}

const DATE: &str = "Sun, 06 Nov 1994 08:49:37 GMT";

/// What is counted of the shelf.
fn count(site: &Site, what: &str) -> u64 {
    let metrics = text(&site.get("/metrics"));
    let line = metrics.lines().find(|line| line.starts_with("larder_cluster_share_") && line.contains(what));
    let value = line.and_then(|line| line.rsplit_once(' ')).map(|(_, value)| value.to_owned());
    value.unwrap_or_else(|| panic!("no {what} in {metrics}")).parse().unwrap()
}

#[test]
fn a_page_is_fetched_once_for_all_nodes() {
    let cluster = Cluster::new();
    let sites = ["web1", "web2", "web3"].map(|node| cluster.start(node));
    for (number, path) in ["/a", "/b", "/vcl/a"].iter().enumerate() {
        assert_eq!(text(&sites[0].get(path)), "page");
        cluster.until_shelved(number + 1);
        for site in &sites[1..] {
            let response = site.get(path);
            assert_eq!((cached(&response), text(&response)), ("HIT", "page".to_owned()), "{path}");
            assert_eq!(response.field("Last-Modified"), Some(DATE));
        }
        assert_eq!(cluster.asked(path), 1);
    }
    assert_eq!((count(&sites[0], "\"missing\""), count(&sites[1], "\"found\"")), (3, 3));
    // They are pages as any other: a purge at one is one at all, and what is on the shelf is as old as they are.
    cluster.origin.answer("/a", Answer::ok("new"));
    // The node that purges may judge pages from the moment before, until there is another purge.
    for path in ["/a", "/none"] {
        assert!(text(&sites[1].ask("PURGE", path, "")).ends_with("Known on 3 of 3 nodes\n"));
    }
    for site in &sites {
        assert_eq!(text(&site.get("/a")), "new");
        cluster.until_shelved(3);
    }
    assert_eq!(cluster.asked("/a"), 2);
    assert_eq!(cached(&sites[2].get("/b")), "HIT");
}

#[test]
fn those_who_come_at_once_wait_for_the_one_who_fetches() {
    let cluster = Cluster::new();
    let sites = ["web1", "web2", "web3"].map(|node| cluster.start(node));
    for (number, path) in ["/a", "/vcl/a"].iter().enumerate() {
        let has_asked = |site: &Site| count(site, "\"missing\"") + count(site, "\"waited\"") > number as u64;
        let hold = cluster.origin.hold(path);
        thread::scope(|threads| {
            let gets: Vec<_> = sites.iter().chain(&sites).map(|site| threads.spawn(|| text(&site.get(path)))).collect();
            eventually("others to wait", || cluster.asked(path) == 1 && sites.iter().all(has_asked));
            drop(hold);
            assert!(gets.into_iter().all(|get| get.join().unwrap() == "page"));
        });
        assert_eq!(cluster.asked(path), 1);
    }
}

#[test]
fn a_page_of_before_a_purge_is_not_taken_by_a_node_that_never_had_it() {
    let cluster = Cluster::new();
    let sites = ["web1", "web2", "web3"].map(|node| cluster.start(node));
    let ways: [(&str, &str, &str); 4] = [
        ("PURGE", "/a", ""),
        ("PURGEKEYS", "/a", "xkey-purge: all\r\n"),
        ("PURGEKEYS", "/a", "xkey-softpurge: all\r\n"),
        ("PURGE", "/a.*", "X-Purge-Method: regex\r\n"),
    ];
    for (number, (method, target, fields)) in ways.into_iter().enumerate() {
        let path = format!("/a{number}");
        let target = if target == "/a" { path.as_str() } else { target };
        cluster.origin.answer(path.as_str(), Answer::ok("old").field("xkey", "all"));
        assert_eq!(text(&sites[0].get(&path)), "old");
        cluster.until_shelved(1);
        cluster.origin.answer(path.as_str(), Answer::ok("new").field("xkey", "all"));
        let told = text(&sites[1].ask(method, target, fields));
        assert!(told.ends_with("Known on 3 of 3 nodes\n"), "{told}");
        assert_eq!(text(&sites[2].get(&path)), "new", "{method} {target} {fields}");
        assert_eq!(text(&sites[1].get(&path)), "new", "{method} {target} {fields}");
        cluster.redis.ask(&["DEL", &cluster.redis.ask(&["KEYS", "*:page:*"])[0]]);
    }
}

#[test]
fn each_variant_is_fetched_once() {
    let cluster = Cluster::new();
    cluster.origin.answer("/a", Answer::ok("page").field("Vary", "Accept-Language"));
    let (here, other) = (cluster.start("web1"), cluster.start("web2"));
    for (number, language) in ["de", "fr"].into_iter().enumerate() {
        let fields = format!("Accept-Language: {language}\r\n");
        assert_eq!(cached(&here.ask("GET", "/a", &fields)), "MISS");
        cluster.until_shelved(number + 2);
        assert_eq!(cached(&other.ask("GET", "/a", &fields)), "HIT");
        assert_eq!(cluster.asked("/a"), number + 1);
    }
    // By it, or past it.
    assert_eq!(cached(&other.ask("GET", "/a", "Accept-Language: fr\r\n")), "HIT");
}

#[test]
fn what_cannot_be_shared_is_fetched_by_each() {
    let cluster = Cluster::new();
    cluster.origin.answer("/private", Answer::ok("mine").field("Set-Cookie", "a=1"));
    cluster.origin.answer("/large", Answer::ok(vec![b'x'; 100_000]));
    cluster.origin.answer("/failing", Answer::status("500 No").body("no"));
    let http = HTTP.replace("share on", "share 64k");
    let (here, other) = (cluster.start_with("web1", &http), cluster.start_with("web2", &http));
    for (path, shelved) in [("/private", 1), ("/large", 2), ("/vcl/private", 3), ("/failing", 3)] {
        let first = here.get(path);
        cluster.until_shelved(shelved);
        assert_eq!(text(&other.get(path)), text(&first));
        assert_eq!(cluster.asked(path), 2, "{path}");
    }
    assert_eq!(cached(&other.get("/large")), "HIT");
}

#[test]
fn nobody_waits_for_what_cannot_be_shared_while_one_sees_whether_it_can_be_now() {
    let cluster = Cluster::new();
    let mine = || Answer::ok("mine").field("Set-Cookie", "a=1");
    cluster.origin.answer("/private", mine());
    let (here, other) = (cluster.start("web1"), cluster.start("web2"));
    assert_eq!(text(&here.get("/private")), "mine");
    cluster.until_shelved(1);
    let mark = cluster.redis.ask(&["KEYS", "*:page:*"])[0].clone();
    let left = || cluster.redis.ask(&["PTTL", &mark])[0].parse::<u64>().unwrap_or(0);
    assert!(left() > 15_000);
    for site in [&here, &other] {
        assert_eq!(text(&site.get("/private")), "mine");
    }
    assert_eq!(count(&here, "\"missing\"") + count(&other, "\"missing\""), 1, "a mark that is young is left alone");
    // Nobody sees its end, also if the page comes late.
    cluster.redis.ask(&["PEXPIRE", &mark, "14000"]);
    let hold = cluster.origin.hold("/private");
    thread::scope(|threads| {
        let gets = [&here, &other].map(|site| threads.spawn(|| text(&site.get("/private"))));
        eventually("both to ask", || cluster.asked("/private") == 5);
        assert_eq!(cluster.redis.ask(&["KEYS", "*:lock:*"]).len(), 1);
        drop(hold);
        assert!(gets.into_iter().all(|get| get.join().unwrap() == "mine"));
    });
    eventually("the mark to be renewed", || left() > 15_000);
    assert_eq!(count(&here, "\"missing\"") + count(&other, "\"missing\""), 2);
    assert_eq!(count(&here, "\"waited\"") + count(&other, "\"waited\""), 0);
}

#[test]
fn a_stale_page_is_confirmed_once() {
    let cluster = Cluster::new();
    cluster.origin.answer("/old/a", Answer::ok("old").field("ETag", "\"1\"").field("xkey", "all"));
    cluster.origin.answer_then("/old/a", Answer::status("304 Not Modified").field("ETag", "\"1\""));
    let (here, other) = (cluster.start("web1"), cluster.start("web2"));
    for site in [&here, &other] {
        assert_eq!(text(&site.get("/old/a")), "old");
        cluster.until_shelved(1);
    }
    assert_eq!(cluster.asked("/old/a"), 1);
    let told = text(&here.ask("PURGEKEYS", "/old/a", "xkey-softpurge: all\r\n"));
    assert!(told.ends_with("Known on 2 of 2 nodes\n"), "{told}");
    assert_eq!(cached(&here.get("/old/a")), "REVALIDATED");
    cluster.until_shelved(1);
    let response = other.get("/old/a");
    assert_eq!((cached(&response), text(&response)), ("HIT", "old".to_owned()));
    assert_eq!(cluster.asked("/old/a"), 2);
}

#[test]
fn a_node_that_has_nothing_delivers_what_others_had_when_the_origin_is_away() {
    let cluster = Cluster::new();
    let soon = Answer::ok("old").field("Cache-Control", "max-age=3, stale-if-error=600");
    cluster.origin.answer("/old/a", soon);
    cluster.origin.answer_then("/old/a", Answer::raw("").then(Then::Close));
    let (here, other) = (cluster.start("web1"), cluster.start("web2"));
    assert_eq!(text(&here.get("/old/a")), "old");
    cluster.until_shelved(1);
    here.get_until("/old/a", "it to be stale", |response| cached(response) == "STALE");
    let response = other.get("/old/a");
    assert_eq!((cached(&response), text(&response)), ("STALE", "old".to_owned()));
}

#[test]
fn a_server_that_is_slow_gone_or_lies_costs_a_fetch_and_no_answer() {
    let mut cluster = Cluster::new();
    let here = cluster.start("web1");
    let other = cluster.start_with("web2", &HTTP.replace("deadline=1s", "deadline=20ms"));
    assert_eq!(text(&here.get("/lie")), "page");
    cluster.until_shelved(1);
    let name = cluster.redis.ask(&["KEYS", "*:page:*"])[0].clone();
    for value in ["LDR\x01 what is this?", "x"] {
        cluster.redis.ask(&["SET", &name, value, "PX", "60000"]);
        assert_eq!(text(&other.get("/lie")), "page");
        other.ask("PURGE", "/lie", "");
    }
    cluster.redis.signal(Signal::Stop);
    for path in ["/a", "/b", "/c", "/d"] {
        assert_eq!(text(&other.get(path)), "page");
    }
    assert!(count(&other, "\"skipped\"") >= 4);
    cluster.redis.signal(Signal::Continue);
    cluster.redis.kill();
    assert_eq!(text(&other.get("/e")), "page");
    cluster.redis.start_again();
    other.wait_for_log("is back after");
    here.wait_for_log("is back after");
    let mut number = 0;
    eventually("pages to be shared again", || {
        number += 1;
        let path = format!("/again{number}");
        here.get(&path);
        thread::sleep(Duration::from_millis(20));
        cached(&other.get(&path)) == "HIT"
    });
}

#[test]
fn a_node_that_dies_while_it_fetches_holds_up_nobody_for_long() {
    let cluster = Cluster::new();
    let (here, other) = (cluster.start("web1"), cluster.start("web2"));
    let hold = cluster.origin.hold("/hasty/a");
    let mut client = Client::connect(here.setup().address()).unwrap();
    client.send(b"GET /hasty/a HTTP/1.1\r\nHost: site.test\r\n\r\n").unwrap();
    eventually("the first to ask", || cluster.asked("/hasty/a") == 1);
    signal_to(here.serving_process(), Signal::Kill).unwrap();
    thread::scope(|threads| {
        let get = threads.spawn(|| text(&other.get("/hasty/a")));
        eventually("the other to ask as well", || cluster.asked("/hasty/a") == 2);
        drop(hold);
        assert_eq!(get.join().unwrap(), "page");
    });
}

#[test]
fn a_node_that_starts_with_nothing_takes_what_others_have() {
    let cluster = Cluster::new();
    let here = cluster.start("web1");
    assert_eq!(text(&here.get("/a")), "page");
    assert!(text(&here.ask("PURGE", "/b", "")).ends_with("Known on 1 of 1 node\n"));
    assert_eq!(text(&here.get("/b")), "page");
    cluster.until_shelved(2);
    let other = cluster.start("web2");
    // Of before its time in the log nobody knows what was purged since; of after it, all do.
    assert_eq!(cached(&other.get("/a")), "MISS");
    assert_eq!(cached(&here.get("/c")), "MISS");
    cluster.until_shelved(3);
    other.get_until("/c", "it to be shared", |response| cached(response) == "HIT");
    assert_eq!(cluster.asked("/c"), 1);
    // And after a restart, from the shelf or from its own disk.
    let other = other.restart();
    assert_eq!(cached(&other.get("/c")), "HIT");
}

#[test]
fn a_head_and_a_range_are_answered_from_the_page_of_another() {
    let cluster = Cluster::new();
    let (here, other) = (cluster.start("web1"), cluster.start("web2"));
    for (method, path, fields) in [("HEAD", "/head", ""), ("GET", "/range", "Range: bytes=1-2\r\n")] {
        assert_eq!(text(&here.get(path)), "page");
        cluster.until_shelved(1);
        let response = other.ask(method, path, fields);
        assert_eq!(cached(&response), "HIT", "{method}");
        assert_eq!(cluster.asked(path), 1);
        assert_eq!(text(&response), if method == "HEAD" { "" } else { "ag" });
        cluster.redis.ask(&["DEL", &cluster.redis.ask(&["KEYS", "*:page:*"])[0]]);
    }
}
