//! `larder_cluster`: what is purged at one larder is gone at the others, whatever happens to them and to the Redis.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use larder_testkit::{Answer, Certificates, Origin, RaiseOnDrop, Redis, Signal, signal_to};

use crate::site::{Setup, Site, cached, eventually, text};

const HTTP: &str = "
    larder_cluster redis://127.0.0.1:{REDIS} name=shop node={NODE} timeout=20s;
    proxy_cache_path {DIR}/pages keys_zone=pages:1m inactive=1h;
    larder_ban pages BAN $http_x_ban from 127.0.0.1;
    larder_purge_from 127.0.0.1;
    server {
        listen 127.0.0.1:{PORT};
        add_header X-Cache $upstream_cache_status;
        add_header X-Detail $larder_cache_detail;
        proxy_cache pages;
        proxy_cache_key $host$uri;
        proxy_cache_valid 200 1h;
        larder_purge_by_origin on;
        location / { proxy_pass http://{ORIGIN}; }
        location /module/ { proxy_pass http://{ORIGIN}; larder_purge_from off; proxy_cache_purge PURGE from 127.0.0.1; }
        location /vcl/ { proxy_pass http://{ORIGIN}; larder_purge_from off; vcl {DIR}/a.vcl; }
    }
    server { listen 127.0.0.1:{PORT2} larder_admin; larder_purge_from 127.0.0.1; }";

const VCL: &str = "vcl 4.1;
    import purge;
    sub vcl_recv {
        if (req.method == \"PURGE\") { return (purge); }
        if (req.method == \"FORGET\") { ban(\"obj.http.X-Kind == \" + req.http.X-Kind); return (synth(200)); }
        return (hash);
    }
    sub vcl_hit { if (req.http.X-Purge) { purge.hard(); return (synth(200)); } }
    sub vcl_backend_response { set beresp.ttl = 1h; }
    sub vcl_deliver {
        if (obj.hits > 0) { set resp.http.X-Cache = \"HIT\"; } else { set resp.http.X-Cache = \"MISS\"; }
    }";

/// A Redis, an origin, and larders in front of it.
struct Cluster {
    redis: Redis,
    origin: Origin,
}

impl Cluster {
    fn new(lines: &[&str]) -> Self {
        let origin = Origin::start().unwrap();
        origin.answer("*", Answer::ok("page").field("xkey", "all news").field("X-Kind", "shoe"));
        origin.answer("/purges", Answer::ok("purges").field("X-Larder-Purge", "tag=news"));
        Self { redis: Redis::start(lines), origin }
    }

    fn setup(&self, node: &str) -> Setup {
        let setup = Setup::new().name("ORIGIN", self.origin.address()).name("REDIS", self.redis.port());
        setup.name("NODE", node).file("a.vcl", VCL)
    }

    fn start(&self, node: &str) -> Site {
        self.setup(node).start(HTTP)
    }
}

fn fill(site: &Site, paths: &[&str]) {
    for path in paths {
        site.get_until(path, "the page to be stored", |response| cached(response) == "HIT");
    }
}

/// Waits until the disk of the zone is open once more than so often.
fn until_open(site: &Site, times: usize) {
    eventually("the disk to be open", || site.count_in_log(OPEN) > times);
}

const OPEN: &str = "is open with";

/// The first request is not answered from what is stored.
fn is_gone(site: &Site, path: &str, why: &str) {
    assert_ne!(cached(&site.get(path)), "HIT", "{why}: {path}\n{}", site.server().error_log());
}

fn is_there(site: &Site, path: &str, why: &str) {
    assert_eq!(cached(&site.get(path)), "HIT", "{why}: {path}");
}

fn explained(site: &Site, path: &str) -> String {
    let output = site.setup().larder_words(&["explain", &format!("http://site.test{path}")]);
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn what_is_purged_in_any_way_is_gone_on_the_others() {
    let cluster = Cluster::new(&[]);
    let (here, other) = (cluster.start("web1"), cluster.start("web2"));
    let larder = |words: &[&str]| {
        let output = here.setup().larder_words(&[&["purge"], words].concat());
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let admin = |body: &str| {
        let mut client = larder_testkit::Client::connect(here.setup().other_address()).unwrap();
        let length = body.len();
        let request =
            format!("POST /purge HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}");
        client.send(request.as_bytes()).unwrap();
        text(&client.read_response("POST").unwrap())
    };
    let ask = |method: &str, path: &str, fields: &str| {
        let response = here.ask(method, path, fields);
        assert_eq!(response.status, 200, "{method} {path}: {}", text(&response));
        text(&response)
    };
    type Way<'a> = (&'a str, &'a str, Box<dyn Fn() -> String + 'a>);
    let ways: [Way<'_>; 14] = [
        ("a page", "/a", Box::new(|| ask("PURGE", "/a", ""))),
        ("a tag", "/a", Box::new(|| ask("PURGEKEYS", "/a", "xkey-purge: news\r\n"))),
        ("a tag, softly", "/a", Box::new(|| ask("PURGEKEYS", "/a", "xkey-softpurge: news\r\n"))),
        ("a regular expression", "/a", Box::new(|| ask("PURGE", "/a.*", "X-Purge-Method: regex\r\n"))),
        ("a ban", "/a", Box::new(|| ask("BAN", "/a", "X-Ban: obj.http.X-Kind == shoe\r\n"))),
        ("the module", "/module/a", Box::new(|| ask("PURGE", "/module/a", ""))),
        ("the module, by prefix", "/module/a", Box::new(|| ask("PURGE", "/module/*", ""))),
        ("a VCL", "/vcl/a", Box::new(|| ask("PURGE", "/vcl/a", ""))),
        ("a ban of a VCL", "/vcl/a", Box::new(|| ask("FORGET", "/vcl/a", "X-Kind: shoe\r\n"))),
        ("the module of a VCL", "/vcl/a", Box::new(|| ask("GET", "/vcl/a", "X-Purge: 1\r\n"))),
        ("an answer of the origin", "/a", Box::new(|| ask("POST", "/purges", "Content-Length: 0\r\n"))),
        ("the command", "/a", Box::new(|| larder(&["--all"]))),
        ("the command, by tag", "/a", Box::new(|| larder(&["--tag", "news"]))),
        ("the API", "/a", Box::new(|| admin("{\"urls\":[\"http://site.test/a\"]}"))),
    ];
    for (why, path, purge) in ways {
        for site in [&here, &other] {
            fill(site, &[path]);
        }
        let told = purge();
        is_gone(&other, path, why);
        is_gone(&here, path, why);
        match why {
            "a VCL" | "a ban of a VCL" | "the module of a VCL" | "the module" | "the module, by prefix" => {}
            "an answer of the origin" => {}
            "the API" => {
                assert!(
                    told.contains("\"cluster\":{\"away\":[],\"behind\":[],\"fault\":null,\"known\":2,\"nodes\":2"),
                    "{told}"
                )
            }
            _ => assert!(told.ends_with("Known on 2 of 2 nodes\n"), "{why}: {told}"),
        }
    }
    fill(&other, &["/b"]);
    std::fs::write(here.setup().path("pages/larder.clear"), "").unwrap();
    other.get_until("/b", "the clear to reach the others", |response| cached(response) != "HIT");
}

#[test]
fn a_folder_that_is_emptied_by_hand_empties_the_zone_of_all_unless_it_is_one_of_several() {
    let placed = HTTP.replace(
        "proxy_cache_path {DIR}/pages keys_zone=pages:1m inactive=1h;",
        "proxy_cache_path {DIR}/pages keys_zone=one:1m max_size=1g; proxy_cache_path {DIR}/two keys_zone=two:1m max_size=1g;
         larder_placement pages hash one two;",
    );
    for (http, is_told) in [(HTTP, true), (&*placed, false)] {
        let cluster = Cluster::new(&[]);
        let (here, other) = (cluster.setup("web1").start(http), cluster.setup("web2").start(http));
        for site in [&here, &other] {
            until_open(site, if is_told { 0 } else { 1 });
            fill(site, &["/a"]);
        }
        for entry in std::fs::read_dir(here.setup().path("pages")).unwrap() {
            std::fs::remove_file(entry.unwrap().path()).unwrap();
        }
        here.wait_for_log("was emptied by hand");
        assert!(text(&here.ask("PURGE", "/other", "")).ends_with("Known on 2 of 2 nodes\n"));
        match is_told {
            true => [&here, &other].iter().for_each(|site| is_gone(site, "/a", "it was emptied")),
            // Here it may be in the other folder.
            false => is_there(&other, "/a", "nothing was told"),
        }
        let lines = |site: &Site| site.count_in_log(", zone pages: all\n");
        assert_eq!((lines(&here), lines(&other)), (0, usize::from(is_told)));
        assert_eq!(other.count_in_log("was emptied by hand"), 0);
    }
}

#[test]
fn the_log_says_what_was_purged_for_which_node() {
    let cluster = Cluster::new(&[]);
    let (here, other) = (cluster.start("web1"), cluster.start("web2"));
    assert_eq!(here.ask("PURGEKEYS", "/a", "xkey-softpurge: news\r\n").status, 200);
    assert_eq!(here.ask("BAN", "/a", "X-Ban: obj.http.X-Kind == shoe\r\n").status, 200);
    for line in [
        "[info] ",
        "cluster: purged by the node web1, zone pages: tags news, softly\n",
        "cluster: banned by the node web1, zone pages: obj.http.X-Kind == shoe\n",
    ] {
        other.wait_for_log(line);
    }
    // What anybody may have written who can write to the Redis.
    cluster.redis.ask(&[
        "XADD",
        "larder:{shop}:log",
        "*",
        "i",
        "x web\u{1b}[31m",
        "z",
        "pages",
        "w",
        "obj.status == 1\n2026 [alert]",
    ]);
    other.wait_for_log(r"cluster: banned by the node web\x1b[31m, zone pages: obj.status == 1\n2026 [alert]");
    cluster.redis.ask(&["XADD", "larder:{shop}:log", "*", "i", "x web9", "z", "none", "w", "purge hard all"]);
    assert!(text(&here.ask("PURGE", "/last", "")).ends_with("Known on 2 of 2 nodes\n"));
    assert_eq!(here.count_in_log("by the node web1"), 0, "{}", here.server().error_log());
    assert_eq!(other.count_in_log("by the node web9"), 0, "it has no such zone");
}

#[test]
fn how_a_node_is_is_told_by_status_metrics_and_alarms() {
    let mut cluster = Cluster::new(&[]);
    let counted = HTTP.replace(
        "location / {",
        "location /api { larder_status; } location = /metrics { larder_metrics; } location / {",
    );
    let counted = counted.replace("listen 127.0.0.1:{PORT};", "listen 127.0.0.1:{PORT}; server_name site.test;");
    let (here, other) = (cluster.setup("web1").start(&counted), cluster.start("web2"));
    let status = || serde_json::from_str::<serde_json::Value>(&text(&here.get("/api/larder/1/cluster"))).unwrap();
    let told = status();
    assert_eq!(
        (&told["name"], &told["node"], &told["fault"]),
        (&"shop".into(), &"web1".into(), &serde_json::Value::Null)
    );
    assert!(told["uses_stored_pages"] == true && told["heard_ago"].is_number() && told["place"].is_string(), "{told}");
    assert_eq!(other.ask("PURGE", "/a", "").status, 200);
    assert_eq!(here.ask("PURGE", "/b", "").status, 200);
    eventually("both purges", || status()["carried_out"] == 1 && status()["sent"] == 1);
    let metrics = text(&here.get("/metrics"));
    for line in ["larder_cluster_up{cluster=\"shop\",node=\"web1\"} 1\n", ",wished=\"elsewhere\"} 1\n"] {
        assert!(metrics.contains(line), "{line} in {metrics}");
    }
    cluster.redis.kill();
    eventually("the fault", || status()["fault"].is_string());
    let shown = here.setup().larder_words(&["top"]).stdout;
    let shown = String::from_utf8_lossy(&shown).into_owned();
    assert!(shown.contains("ALARM      larder_cluster: redis://127.0.0.1:"), "{shown}");
    assert_eq!(status()["uses_stored_pages"], true, "as nothing else is said");
    // Without a cluster there is nothing.
    here.change_to(&counted.replace("larder_cluster redis", "# larder_cluster redis"));
    eventually("no cluster", || text(&here.get("/api/larder/1/cluster")) == "null");
    assert!(!text(&here.get("/metrics")).contains("larder_cluster"));
}

#[test]
fn a_node_that_was_off_or_killed_uses_nothing_that_was_purged_meanwhile() {
    let cluster = Cluster::new(&[]);
    let here = cluster.start("web1");
    let mut other = cluster.start("web2");
    for is_killed in [false, true] {
        fill(&other, &["/purged", "/kept"]);
        // The disk has the pages, and the place in the log.
        let opened = other.count_in_log(OPEN);
        other = other.restart();
        until_open(&other, opened);
        is_there(&other, "/purged", "the disk");
        let setup = if is_killed {
            let serving = other.serving_process();
            let mut server = other;
            for process in [server.server().pid(), serving] {
                signal_to(process, Signal::Kill).unwrap();
            }
            server.server_mut().wait();
            eventually("the serving process to end", || !larder_testkit::is_running(serving));
            server.stop()
        } else {
            other.stop()
        };
        let known = text(&here.ask("PURGE", "/purged", ""));
        let expected = if is_killed { "Known on 1 of 2 nodes; " } else { "Known on 1 of 1 node\n" };
        assert!(known.contains(expected), "{known}");
        other = setup.start_as_written();
        until_open(&other, opened + 1);
        is_gone(&other, "/purged", "it was off");
        is_there(&other, "/kept", "it was off");
        assert_eq!(other.count_in_log("is stale"), 1, "{}", other.server().error_log());
    }
}

#[test]
fn a_node_without_its_place_in_the_log_has_everything_stale() {
    let mut cluster = Cluster::new(&[]);
    let site = cluster.start("web1");
    fill(&site, &["/a"]);
    let setup = site.stop();
    cluster.redis.kill();
    cluster.redis.start_again();
    let site = setup.start_as_written();
    until_open(&site, 1);
    site.wait_for_log("has lost its data, or is another server: what was stored until now is stale");
    assert_eq!(cached(&site.get("/a")), "EXPIRED");
    fill(&site, &["/a"]);
}

#[test]
fn without_the_server_nodes_serve_on_and_purges_are_sent_later() {
    for lines in [&["appendonly yes", "appendfsync always"][..], &[]] {
        let mut cluster = Cluster::new(lines);
        let (here, other) = (cluster.start("web1"), cluster.start("web2"));
        for site in [&here, &other] {
            fill(site, &["/a", "/b"]);
        }
        cluster.redis.kill();
        let told = here.ask("PURGE", "/a", "");
        assert_eq!(told.status, 200);
        let told = text(&told);
        assert!(told.contains("Purged: 1 page\nKnown on this node alone: redis://127.0.0.1:"), "{told}");
        assert!(told.contains("The others are told when that is mended."), "{told}");
        is_gone(&here, "/a", "its own purge");
        is_there(&here, "/b", "the server is away");
        is_there(&other, "/a", "the server is away");
        // The one that knows of it is restarted.
        let opened = here.count_in_log(OPEN);
        let here = here.restart();
        until_open(&here, opened);
        let stale = "is of no use since the start of this node, and what was purged before is not known: ";
        here.wait_for_log(stale);
        assert_eq!(cached(&here.get("/b")), "EXPIRED", "it may have missed a purge");
        fill(&here, &["/b"]);
        // After a reload it is the same process, which has missed none.
        let unreachable = here.count_in_log("cannot be reached");
        here.change_to(&HTTP.replace("timeout=20s", "timeout=19s"));
        eventually("the next node to notice", || here.count_in_log("cannot be reached") > unreachable);
        is_there(&here, "/b", "a reload");
        assert_eq!(here.count_in_log(stale), 1, "{}", here.server().error_log());
        cluster.redis.start_again();
        other.get_until("/a", "the purge to arrive", |response| cached(response) != "HIT");
        here.wait_for_log("is back after");
    }
}

#[test]
fn what_stored_pages_may_do_without_the_server_is_as_told() {
    let mut cluster = Cluster::new(&[]);
    let with = |node: &str, away: &str| cluster.setup(node).start(&format!("larder_cluster_away {away};{HTTP}"));
    let (stale, bypass) = (with("web1", "stale=2s"), with("web2", "bypass"));
    for site in [&stale, &bypass] {
        fill(site, &["/a", "/vcl/a"]);
    }
    cluster.redis.kill();
    bypass.get_until("/a", "the node to notice", |response| cached(response) == "BYPASS");
    is_gone(&bypass, "/vcl/a", "a VCL");
    for path in ["/a", "/vcl/a"] {
        let told = explained(&bypass, path);
        assert!(
            told.starts_with("bypassed: away from the cluster, and larder_cluster_away lets no stored page"),
            "{told}"
        );
        assert!(told.contains("\npage "), "the page is there all the same: {told}");
    }
    stale.wait_for_log("what is stored is stale");
    let told = explained(&stale, "/a");
    assert!(told.starts_with("a miss: it is stale for ") && told.contains("purges of the cluster may have"), "{told}");
    let response = stale.get("/a");
    assert_eq!(response.field("X-Detail"), Some("stale by larder_cluster"), "{}", cached(&response));
    // It is stored anew, and a purge is told as one.
    fill(&stale, &["/a"]);
    stale.ask("PURGE", "/a", "");
    assert_eq!(stale.get("/a").field("X-Detail"), Some("purged"));
    cluster.redis.start_again();
    bypass.wait_for_log("is back after");
    fill(&bypass, &["/a"]);
    assert!(explained(&bypass, "/a").starts_with("a hit: "));
}

#[test]
fn a_process_that_stood_still_knows_at_once_that_it_was_away() {
    let cluster = Cluster::new(&[]);
    let here = cluster.start("web1");
    let other = cluster.setup("web2").start(&format!("larder_cluster_away bypass;{}", HTTP.replace("20s", "100ms")));
    fill(&other, &["/a"]);
    let serving = other.serving_process();
    signal_to(serving, Signal::Stop).unwrap();
    // Purges wait for it until its word is four seconds old.
    let told = text(&here.ask("PURGE", "/a", ""));
    assert!(told.ends_with("; away: web2 since 4 s\n") || told.contains("away: web2 since"), "{told}");
    signal_to(serving, Signal::Continue).unwrap();
    is_gone(&other, "/a", "it stood still");
}

#[test]
fn a_reload_joins_moves_and_leaves() {
    let cluster = Cluster::new(&[]);
    let here = cluster.start("web1");
    let alone = HTTP.replace("larder_cluster ", "# ");
    let other = cluster.setup("web2").start(&alone);
    fill(&other, &["/a"]);
    // Nobody knows what was purged before.
    other.change_to(HTTP);
    other.wait_for_log("has this node from now on");
    is_gone(&other, "/a", "what was stored before");
    fill(&other, &["/a"]);
    // The same cluster: pages stay.
    other.change_to(&format!("{HTTP} # the same"));
    is_there(&other, "/a", "a reload");
    assert!(text(&here.ask("PURGE", "/a", "")).ends_with("Known on 2 of 2 nodes\n"));
    is_gone(&other, "/a", "after a reload");
    fill(&other, &["/a"]);
    other.change_to(&alone);
    assert!(text(&here.ask("PURGE", "/a", "")).ends_with("Known on 1 of 1 node\n"));
    is_there(&other, "/a", "it has left");
}

#[test]
fn the_supervisor_reads_the_authority_and_a_wrong_password_is_said() {
    let authority = Certificates::new("ours");
    let certificate = authority.server(&["127.0.0.1"]);
    let files = larder_testkit::Folder::new().unwrap();
    let file = |name: &str, text: &str| files.write(name, text).unwrap().display().to_string();
    let (pem, key) = (file("c.pem", &certificate.pem), file("c.key", &certificate.key_pem));
    let (pem, key) = (format!("tls-cert-file {pem}"), format!("tls-key-file {key}"));
    let cluster = Cluster::new(&["tls-port {port}", &pem, &key, "tls-auth-clients no", "requirepass p@ss"]);
    let with = |password: &str| {
        HTTP.replace("redis://", &format!("rediss://:{password}@")).replace("name=shop", "name=shop ca=ca.pem")
    };
    let site = cluster.setup("web1").file("ca.pem", authority.authority_pem()).start(&with("p%40ss"));
    assert!(text(&site.ask("PURGE", "/", "")).ends_with("Known on 1 of 1 node\n"), "{}", site.server().error_log());
    site.change_to(&with("wrong"));
    site.wait_for_log(
        "refuses the password: mend \"USER:PASSWORD@\" in \"larder_cluster\"; if the server has forgotten the user",
    );
    assert!(!site.server().error_log().contains("wrong@"));
    fill(&site, &["/served"]);
    // A file that is not there is an error of the configuration.
    let setup = cluster.setup("web2");
    setup.configure(&with("p%40ss"));
    let output = setup.larder(&["-t"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("ca.pem"), "{said}");
}

/// The version of each page at the origin, and the one below which nobody may see it any more.
struct Versions {
    newest: Vec<AtomicUsize>,
    least: Vec<AtomicUsize>,
}

#[test]
fn what_is_known_everywhere_is_seen_nowhere_whatever_happens_meanwhile() {
    storm(HTTP);
}

#[test]
fn nor_is_it_where_nodes_share_pages() {
    storm(&format!("larder_cluster_share on;{HTTP}"));
}

/// Purges and asks, while nodes and the Redis fail, and looks for a page of before a purge that was known everywhere.
fn storm(http: &str) {
    const PAGES: usize = 40;
    const PURGES: usize = 700;
    let mut cluster = Cluster::new(&["appendonly yes", "appendfsync always"]);
    let http = http.replace("timeout=20s", "timeout=200ms");
    let start = |node: usize| cluster.setup(&format!("web{node}")).one_worker().start(&http);
    let sites: Vec<Site> = (1..=5).map(start).collect();
    let zeros = || (0..PAGES).map(|_| AtomicUsize::new(0)).collect();
    let versions = Versions { newest: zeros(), least: zeros() };
    let set = |origin: &Origin, page: usize, version: usize| {
        origin.answer(format!("/{page}").as_str(), Answer::ok(format!("{version}")));
    };
    (0..PAGES).for_each(|page| set(&cluster.origin, page, 0));
    let (is_over, seen) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|threads| {
        let _over = RaiseOnDrop(&is_over);
        for reader in 0..2 {
            let (sites, versions, is_over, seen) = (&sites, &versions, &is_over, &seen);
            threads.spawn(move || {
                let mut number = reader;
                while !is_over.load(Ordering::Relaxed) {
                    number += 7;
                    look(&sites[number % sites.len()], number / 5 % PAGES, versions, seen);
                }
            });
        }
        let (mut everywhere, mut sites_stopped) = (0, None);
        for number in 0..PURGES {
            let page = number * 13 % PAGES;
            let version = versions.newest[page].fetch_add(1, Ordering::SeqCst) + 1;
            set(&cluster.origin, page, version);
            match number {
                100 => signal_to(sites[4].serving_process(), Signal::Kill).unwrap(),
                200 => {
                    let process = sites[3].serving_process();
                    signal_to(process, Signal::Stop).unwrap();
                    sites_stopped = Some(process);
                }
                260 => signal_to(sites_stopped.expect("it was stopped"), Signal::Continue).unwrap(),
                350 => cluster.redis.kill(),
                400 => cluster.redis.start_again(),
                500 => drop(cluster.redis.ask(&["FLUSHALL"])),
                _ => {}
            }
            // Not by one that is stopped, or is being started.
            let told = ask_quietly(&sites[number % 3], "PURGE", &format!("/{page}"));
            if told.is_some_and(|told| told.ends_with("Known on 5 of 5 nodes\n")) {
                versions.least[page].fetch_max(version, Ordering::SeqCst);
                everywhere += 1;
            }
        }
        assert!(everywhere > PURGES / 2, "{everywhere}");
        // What waits anywhere is sent, and everybody is back.
        for site in &sites {
            eventually("a purge of each to be known everywhere", || {
                ask_quietly(site, "PURGE", "/none").is_some_and(|told| told.ends_with("Known on 5 of 5 nodes\n"))
            });
        }
        for (least, newest) in versions.least.iter().zip(&versions.newest) {
            least.store(newest.load(Ordering::SeqCst), Ordering::SeqCst);
        }
        for site in &sites {
            (0..PAGES).for_each(|page| look(site, page, &versions, &seen));
        }
    });
    assert!(seen.load(Ordering::Relaxed) > 1000);
}

/// Gets a page, which must not be older than what was known to be gone everywhere before.
fn look(site: &Site, page: usize, versions: &Versions, seen: &AtomicUsize) {
    let least = versions.least[page].load(Ordering::SeqCst);
    // One that is stopped or killed does not answer.
    let Some(version) = ask_quietly(site, "GET", &format!("/{page}")) else { return };
    let version: usize = version.parse().unwrap_or_else(|_| panic!("{version}"));
    assert!(version >= least, "page {page}: {version} < {least}\n{}", site.server().error_log());
    seen.fetch_add(1, Ordering::Relaxed);
}

/// The body of an answer, if there is one in time.
fn ask_quietly(site: &Site, method: &str, target: &str) -> Option<String> {
    let mut client = larder_testkit::Client::connect(site.setup().address()).ok()?;
    client.set_patience(Duration::from_secs(2));
    client
        .send(format!("{method} {target} HTTP/1.1\r\nHost: site.test\r\nConnection: close\r\n\r\n").as_bytes())
        .ok()?;
    let response = client.read_response(method).ok()?;
    (response.status == 200).then(|| text(&response))
}
