//! The nodes of a cluster as parents of each other: each page has a home among them, by consistent hash, and the origin is asked
//! there alone. The configuration is that of docs/cluster.md.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use larder_testkit::{
    Answer, Client, Origin, RaiseOnDrop, Redis, Response, Signal, free_port, is_running, signal_to, text_of,
};

use crate::site::{Setup, Site, eventually, text};

const HTTP: &str = "
    larder_cluster redis://127.0.0.1:{REDIS} name=shop node={NODE} timeout=20s;
    larder_cluster_away bypass;
    larder_cache_mode rfc9111;
    larder_cache_status on;
    proxy_cache_path {DIR}/home keys_zone=home:1m larder_disk=off;
    proxy_cache_path {DIR}/near keys_zone=near:1m larder_disk=off;
    proxy_cache_key $host$request_uri;
    proxy_cache_lock on;
    proxy_cache_lock_age 60s;
    proxy_cache_lock_timeout 60s;
    proxy_cache_use_stale updating error timeout;
    proxy_cache_background_update on;
    proxy_set_header Host $host;
    upstream nodes {
        hash $host$request_uri consistent;
        server {NODE1};
        server {NODE2};
        server {NODE3};
        keepalive 32;
    }
    server {
        listen 127.0.0.1:{PORT};
        server_name site.test;
        location / { proxy_pass http://nodes; proxy_cache near; proxy_connect_timeout 1s; }
    }
    server {
        listen 127.0.0.1:{PORT2};
        server_name site.test;
        larder_purge_from 127.0.0.1;
        location / { proxy_pass http://{ORIGIN}; proxy_cache home; }
    }";

/// Three nodes in front of an origin.
struct Nodes {
    _redis: Redis,
    origin: Origin,
    sites: Vec<Site>,
}

impl Nodes {
    fn start() -> Self {
        Self::start_with(HTTP)
    }

    fn start_with(http: &str) -> Self {
        let (redis, origin) = (Redis::start(&[]), Origin::start().unwrap());
        origin.answer("*", Answer::ok("page").field("Cache-Control", "max-age=3600"));
        let setups = [1, 2, 3].map(|_| Setup::new().one_worker());
        let homes = setups.each_ref().map(Setup::other_address);
        let mut sites = Vec::new();
        for (number, setup) in setups.into_iter().enumerate() {
            let setup = setup.name("NODE1", homes[0]).name("NODE2", homes[1]).name("NODE3", homes[2]);
            let setup = setup.name("NODE", format!("web{}", number + 1)).name("REDIS", redis.port());
            sites.push(setup.name("ORIGIN", origin.address()).start(http));
        }
        Self { _redis: redis, origin, sites }
    }

    /// Asks all of them for all these pages, at the same time.
    fn ask(&self, pages: &[String]) {
        std::thread::scope(|threads| {
            for site in &self.sites {
                threads.spawn(|| pages.iter().for_each(|page| drop(page_of(site, page))));
            }
        });
    }
}

fn pages(kind: &str) -> Vec<String> {
    (0..60).map(|number| format!("/{kind}/{number}")).collect()
}

fn page_of(site: &Site, page: &str) -> Response {
    let response = site.get(page);
    assert_eq!((response.status, &*text(&response)), (200, "page"), "{page}: {response:?}");
    response
}

/// The members of `Cache-Status`, in the order of RFC 9211: the cache nearest the origin first. Each a name, and how it answered.
fn hops(response: &Response) -> Vec<(String, String)> {
    let lines = response.fields.iter().filter(|(name, _)| name == "Cache-Status");
    let member = |value: &str| {
        let mut parameters = value.split("; ").map(str::to_owned);
        (parameters.next().unwrap_or_default(), parameters.next().unwrap_or_default())
    };
    lines.map(|(_, value)| member(value)).collect()
}

/// For how many seconds the page is fresh at each of them; below 0 if it is stale.
fn ttls(response: &Response) -> Vec<i64> {
    let lines = response.fields.iter().filter(|(name, _)| name == "Cache-Status");
    let ttl = |value: &str| value.split("; ").find_map(|parameter| parameter.strip_prefix("ttl=")?.parse().ok());
    lines.map(|(_, value)| ttl(value).unwrap_or_else(|| panic!("{value}"))).collect()
}

/// The node that keeps a page for all.
fn home_of(response: &Response) -> String {
    hops(response).first().map(|(name, _)| name.clone()).unwrap_or_default()
}

#[test]
fn the_origin_is_asked_once_for_each_page_and_both_hops_are_told() {
    let nodes = Nodes::start();
    let pages = pages("page");
    nodes.ask(&pages);
    nodes.ask(&pages);
    assert_eq!(nodes.origin.count(), pages.len());
    let mut homes = HashSet::new();
    for page in &pages {
        let all: Vec<Response> = nodes.sites.iter().map(|site| page_of(site, page)).collect();
        let home = home_of(&all[0]);
        for (number, response) in all.iter().enumerate() {
            let [(first, _), (last, way)] = &hops(response)[..] else { panic!("{response:?}") };
            assert_eq!((first, last, way), (&home, &format!("larder/web{}", number + 1), &"hit".to_owned()), "{page}");
        }
        homes.insert(home);
    }
    let all = [1, 2, 3].map(|number| format!("larder/web{number}"));
    assert_eq!(homes, HashSet::from(all), "each has some of the pages");
    // The first answer says what each hop has done.
    let first = page_of(&nodes.sites[0], "/new");
    let way = |response: &Response| hops(response).into_iter().map(|(_, way)| way).collect::<Vec<_>>();
    assert_eq!(way(&first), ["fwd=uri-miss", "fwd=uri-miss"]);
    assert_eq!(way(&page_of(&nodes.sites[1], "/new")), ["hit", "fwd=uri-miss"]);
    assert_eq!(way(&page_of(&nodes.sites[1], "/new")), ["hit", "hit"]);
}

#[test]
fn a_page_is_fresh_no_longer_for_being_kept_twice() {
    let nodes = Nodes::start();
    let page = Answer::ok("page").field("Cache-Control", "max-age=100").field("Age", "60");
    nodes.origin.answer("/aged", page);
    for site in &nodes.sites {
        for _ in 0..2 {
            let response = page_of(site, "/aged");
            assert!(ttls(&response).iter().all(|ttl| *ttl <= 40), "{response:?}");
        }
    }
}

#[test]
fn what_is_stale_at_its_home_is_not_fresh_at_another_node() {
    let nodes = Nodes::start();
    // A home answers with its stale page, or confirms that of the other node.
    for (path, has_tag) in [("/whole", false), ("/confirmed", true)] {
        let set = |text: &str| {
            let page = Answer::ok(text).field("Cache-Control", "max-age=3600");
            nodes.origin.answer(path, if has_tag { page.field("ETag", &format!("\"{text}\"")) } else { page });
        };
        set("old");
        nodes.sites.iter().for_each(|site| assert_eq!(text(&site.get(path)), "old"));
        set("new");
        let url = format!("http://site.test{path}");
        for zone in ["home", "near"] {
            let told = nodes.sites[0].setup().larder_words(&["purge", &url, "--soft", "--zone", zone]);
            assert!(text_of(&told.stdout).ends_with("Known on 3 of 3 nodes\n"), "{told:?}");
        }
        for site in &nodes.sites {
            eventually("the new page", || text(&site.get(path)) == "new");
        }
    }
}

#[test]
fn pages_go_by_tags_in_both_zones_where_homes_show_them() {
    let http = HTTP.replace("proxy_cache near;", "proxy_cache near; larder_cache_tags Cache-Tag;");
    let nodes =
        Nodes::start_with(&http.replace("proxy_cache home;", "proxy_cache home; larder_cache_tags Cache-Tag show;"));
    let set = |text: &str| {
        let page = Answer::ok(text).field("Cache-Control", "max-age=3600").field("Cache-Tag", "product-17");
        nodes.origin.answer("/product", page);
    };
    set("old");
    for site in &nodes.sites {
        let response = site.get("/product");
        assert_eq!((&*text(&response), response.field("cache-tag")), ("old", None), "{response:?}");
    }
    set("new");
    for zone in ["home", "near"] {
        let told = nodes.sites[0].setup().larder_words(&["purge", "--tag", "product-17", "--zone", zone]);
        assert!(text_of(&told.stdout).ends_with("Known on 3 of 3 nodes\n"), "{told:?}");
    }
    nodes.sites.iter().for_each(|site| assert_eq!(text(&site.get("/product")), "new"));
}

#[test]
fn the_pages_of_a_node_that_was_killed_are_answered_by_the_others() {
    let mut nodes = Nodes::start();
    let (known, new) = (pages("known"), pages("new"));
    nodes.ask(&known);
    let is_at_third = |page: &String| home_of(&page_of(&nodes.sites[0], page)) == "larder/web3";
    assert!(known.iter().any(is_at_third), "it has some");
    let mut third = nodes.sites.pop().expect("there are three");
    let serving = third.serving_process();
    // The supervisor first, which would start another.
    for process in [third.server().pid(), serving] {
        signal_to(process, Signal::Kill).unwrap();
    }
    third.server_mut().wait();
    eventually("the serving process to end", || !is_running(serving));
    let before = nodes.origin.count();
    nodes.ask(&known);
    assert_eq!(nodes.origin.count(), before, "what the others keep, they answer with");
    nodes.ask(&new);
    assert_eq!(nodes.origin.count(), before + new.len(), "each page has one home among those that are left");
    let homes: HashSet<String> = new.iter().map(|page| home_of(&page_of(&nodes.sites[1], page))).collect();
    assert_eq!(homes, HashSet::from(["larder/web1", "larder/web2"].map(str::to_owned)));
}

#[test]
fn stale_pages_are_served_while_no_home_answers() {
    let nodes = Nodes::start();
    nodes.origin.answer("/short", Answer::ok("page").field("Cache-Control", "max-age=1"));
    let site = &nodes.sites[0];
    assert_eq!(hops(&page_of(site, "/short")).len(), 2);
    // The others end, and the second listener of this one.
    let mut http = site.setup().fill(HTTP);
    http = http.replace(&format!("listen {};", site.setup().other_address()), "listen 127.0.0.1:{PORT3};");
    let Nodes { _redis, origin: _origin, mut sites } = nodes;
    let site = sites.remove(0);
    drop(sites);
    site.change_to(&http.replace("{PORT3}", &free_port().to_string()));
    site.get_until("/short", "it to be stale for long", |response| {
        assert_eq!((response.status, &*text(response)), (200, "page"), "{response:?}");
        // A second later it would have been fetched.
        ttls(response).pop() < Some(-2)
    });
}

#[test]
fn without_a_zone_of_its_own_for_visitors_one_purge_is_enough() {
    let nodes = Nodes::start_with(&HTTP.replace("proxy_cache near;", ""));
    for version in ["old", "new"] {
        nodes.origin.answer("/versions", Answer::ok(version).field("Cache-Control", "max-age=3600"));
        if version == "new" {
            let mut home = Client::connect(nodes.sites[2].setup().other_address()).unwrap();
            home.send(b"PURGE /versions HTTP/1.1\r\nHost: site.test\r\nConnection: close\r\n\r\n").unwrap();
            let told = text(&home.read_response("PURGE").unwrap());
            assert!(told.ends_with("Known on 3 of 3 nodes\n"), "{told}");
        }
        for site in nodes.sites.iter().chain(&nodes.sites) {
            let response = site.get("/versions");
            assert_eq!((&*text(&response), hops(&response).len()), (version, 1), "{response:?}");
        }
    }
    assert_eq!(nodes.origin.count(), 2);
}

#[test]
fn purged_in_both_zones_a_page_is_seen_nowhere_in_an_older_version() {
    const ROUNDS: usize = 40;
    let nodes = Nodes::start();
    let set = |version: usize| {
        let page = Answer::ok(version.to_string()).field("Cache-Control", "max-age=3600");
        nodes.origin.answer("/versions", page);
    };
    set(0);
    let (is_over, least, seen) = (AtomicBool::new(false), AtomicUsize::new(0), AtomicUsize::new(0));
    let look = |site: &Site| {
        let least = least.load(Ordering::SeqCst);
        let response = site.get("/versions");
        let version: usize = text(&response).parse().unwrap_or_else(|_| panic!("{response:?}"));
        assert!(version >= least, "{version} < {least}: {response:?}");
        seen.fetch_add(1, Ordering::Relaxed);
    };
    std::thread::scope(|threads| {
        let _over = RaiseOnDrop(&is_over);
        for site in &nodes.sites {
            threads.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    look(site);
                }
            });
        }
        for version in 1..=ROUNDS {
            set(version);
            let setup = nodes.sites[version % 3].setup();
            for zone in ["home", "near"] {
                let output = setup.larder_words(&["purge", "http://site.test/versions", "--zone", zone]);
                let told = text_of(&output.stdout);
                assert!(told.ends_with("Known on 3 of 3 nodes\n"), "{zone}: {told} {}", text_of(&output.stderr));
            }
            least.store(version, Ordering::SeqCst);
        }
        nodes.sites.iter().for_each(look);
    });
    assert!(seen.load(Ordering::Relaxed) > 3 * ROUNDS);
    // Without a zone it goes in both at once.
    set(1000);
    let output = nodes.sites[1].setup().larder_words(&["purge", "http://site.test/versions"]);
    assert!(output.status.success(), "{output:?}");
    nodes.sites.iter().for_each(|site| assert_eq!(text(&site.get("/versions")), "1000"));
}
