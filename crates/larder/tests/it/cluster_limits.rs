//! `larder_cluster share=limits`: larders let through together what one would.

use larder_testkit::Redis;

use crate::site::{Setup, Site, eventually};

const HTTP: &str = "
    larder_cluster redis://127.0.0.1:{REDIS} name=shop node={NODE} share={SHARE};
    limit_req_zone $arg_who zone=login:1m rate=1r/m;
    server {
        listen 127.0.0.1:{PORT};
        location / { limit_req zone=login burst=9 nodelay; proxy_pass http://127.0.0.1:{PORT2}; }
        location /other { proxy_pass http://127.0.0.1:{PORT2}; }
    }
    server { listen 127.0.0.1:{PORT2}; return 204; }";

struct Cluster {
    redis: Redis,
    sites: Vec<Site>,
}

impl Cluster {
    fn start(share: &str) -> Self {
        let redis = Redis::start(&[]);
        let start = |node: &&str| {
            let setup = Setup::new().name("REDIS", redis.port()).name("NODE", node).name("SHARE", share);
            setup.start(HTTP)
        };
        let sites = ["web1", "web2", "web3"].iter().map(start).collect();
        Self { redis, sites }
    }

    /// How many of 60 requests are let through, one after the other, by the larders in turn. If that is told, the next
    /// request comes after it was.
    fn passed(&self, who: &str, is_told: bool) -> usize {
        let before = if is_told { self.told() } else { 0 };
        let mut passed = 0;
        for site in self.sites.iter().cycle().take(60) {
            if is_passed(site, who) {
                passed += 1;
                if is_told {
                    eventually("the request to be told of", || self.told() == before + passed);
                }
            }
        }
        passed
    }

    /// How many requests the Redis knows of.
    fn told(&self) -> usize {
        let keys = self.redis.ask(&["KEYS", "larder:{shop}:limits:login:*"]);
        keys.iter().map(|key| self.redis.ask(&["GET", key])[0].parse::<usize>().unwrap()).sum()
    }
}

fn is_passed(site: &Site, who: &str) -> bool {
    match site.get(&format!("/?who={who}")).status {
        204 => true,
        503 => false,
        status => panic!("{status}: {}", site.server().error_log()),
    }
}

#[test]
fn larders_let_through_together_about_what_one_would() {
    let cluster = Cluster::start("limits");
    let passed = cluster.passed("ann", true);
    // The rate gives one more a minute; each larder but one may let one through before it knows of the others'.
    assert!((10..=13).contains(&passed), "{passed}");
    assert!(is_passed(&cluster.sites[0], "bob"), "somebody else");
    assert_eq!(cluster.sites[0].get("/other?who=ann").status, 204);
    // No address or name is in the Redis.
    let keys = cluster.redis.ask(&["KEYS", "*"]);
    assert!(keys.iter().all(|key| !key.contains("ann")), "{keys:?}");
}

#[test]
fn larders_that_share_no_limits_count_alone() {
    let cluster = Cluster::start("tickets");
    let passed = cluster.passed("ann", false);
    assert!((30..=33).contains(&passed), "{passed}");
    assert_eq!(cluster.told(), 0);
    // A reload has them shared, and another one not.
    for (share, is_told) in [("limits,tickets", true), ("off", false)] {
        let before = cluster.told();
        cluster.sites.iter().for_each(|site| site.change_to(&HTTP.replace("{SHARE}", share)));
        let passed = cluster.sites.iter().filter(|site| is_passed(site, share)).count();
        assert_eq!(passed, 3);
        if is_told {
            eventually("the requests to be told of", || cluster.told() == before + 3);
        } else {
            assert_eq!(cluster.told(), before);
        }
    }
}

#[test]
fn without_the_server_larders_limit_alone_and_together_again_when_it_is_back() {
    let mut cluster = Cluster::start("limits");
    assert!(is_passed(&cluster.sites[0], "ann"));
    eventually("the request to be told of", || cluster.told() == 1);
    cluster.redis.kill();
    let passed = cluster.passed("bob", false);
    assert!((30..=33).contains(&passed), "{passed}");
    for site in &cluster.sites {
        site.wait_for_log("until then \"limit_req\" counts the requests of this node alone");
    }
    cluster.redis.start_again();
    for site in &cluster.sites {
        site.wait_for_log("is back: \"limit_req\" counts the requests of all nodes");
    }
    let passed = cluster.passed("eve", true);
    assert!((10..=13).contains(&passed), "{passed}");
}
