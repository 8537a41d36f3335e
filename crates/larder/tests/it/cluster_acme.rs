//! `larder_cluster share=acme`: one larder orders a certificate, all answer the CA, and all have it.

use larder_testkit::{Certificate, Certificates, Folder, Redis, Signal};

use crate::acme::{Authority, issued, shown};
use crate::site::{Setup, eventually, text};
use crate::tls::with;

/// A larder that orders.
const ORDERS: &str = "
    larder_cluster redis://127.0.0.1:{REDIS} name=shop node={NODE} share=acme;
    larder_acme_account email=admin@site.test directory={DIRECTORY} trusted_certificate={TRUSTED} state={STATE};
    server { listen 127.0.0.1:{PORT}; server_name site.test; deny all; return 301 https://$host$request_uri; }
    server { listen 127.0.0.1:{PORT2} ssl; server_name site.test www.site.test; larder_acme {HOW}; return 200 {NODE}; }";

/// One that does not.
const ANSWERS: &str = "
    larder_cluster redis://127.0.0.1:{REDIS} name=shop node={NODE} share=acme;
    server { listen 127.0.0.1:{PORT}; server_name site.test; return 301 https://$host$request_uri; }
    server { listen 127.0.0.1:{PORT2} ssl; server_name site.test www.site.test;
             ssl_certificate site.crt; ssl_certificate_key site.key; return 200 {NODE}; }";

/// A CA, a Redis, and a certificate that no CA knows.
struct Cluster {
    authority: Authority,
    redis: Redis,
    certificate: Certificate,
}

impl Cluster {
    fn new() -> Self {
        let certificate = Certificates::new("nobody").server(&["site.test"]);
        Self { authority: Authority::new(), redis: Redis::start(&[]), certificate }
    }

    /// A larder with a name and ports, which does not run yet. Its state outlives it.
    fn setup(&self, node: &str, how: &str, state: &Folder) -> Setup {
        let setup = with(Setup::new(), "site", &self.certificate);
        let setup = setup.name("REDIS", self.redis.port()).name("NODE", node).name("HOW", how);
        let setup = setup.name("DIRECTORY", self.authority.directory());
        let setup = setup.name("TRUSTED", self.authority.trusted().display());
        setup.name("STATE", state.join("acme").display())
    }

    fn keys(&self, what: &str) -> Vec<String> {
        self.redis.ask(&["KEYS", &format!("larder:{{shop}}:acme:{what}")])
    }

    /// The key of the certificate, once it is there.
    fn key_of_certificate(&self) -> String {
        eventually("the certificate in the Redis", || self.keys("certificate:*").len() == 1);
        self.keys("certificate:*").remove(0)
    }
}

fn folders<const N: usize>() -> [Folder; N] {
    std::array::from_fn(|_| Folder::new().expect("a temporary folder"))
}

#[test]
fn the_ca_may_ask_any_larder_by_http_and_all_have_the_certificate_of_one_order() {
    is_ordered_by_one_and_answered_by_another("http-01");
}

#[test]
fn the_ca_may_ask_any_larder_by_tls_and_all_have_the_certificate_of_one_order() {
    is_ordered_by_one_and_answered_by_another("tls-alpn-01");
}

fn is_ordered_by_one_and_answered_by_another(how: &str) {
    let (mut cluster, states) = (Cluster::new(), folders::<3>());
    let other = cluster.setup("web2", how, &states[1]);
    cluster.authority.run(&other);
    let other = other.start(ANSWERS);
    let one = cluster.setup("web1", how, &states[0]).start(ORDERS);
    let certificate = issued(&one, "site.test", "www.site.test");
    cluster.key_of_certificate();
    eventually("the right to order to be given up", || cluster.keys("lock:*").is_empty());
    // The other, and one that starts later, take it from there.
    other.change_to(ORDERS);
    let third = cluster.setup("web3", how, &states[2]).start(ORDERS);
    for site in [&other, &third] {
        assert_eq!(issued(site, "site.test", "www.site.test"), certificate);
        site.wait_for_log("acme: site.test (and 1 more): took the certificate of another larder, valid until ");
    }
    assert_eq!(cluster.authority.orders(), 1);
    // Each has it on its disk, and starts with it, whoever is away.
    drop(third);
    cluster.redis.kill();
    cluster.authority.end();
    let again = cluster.setup("web3", how, &states[2]).start(ORDERS);
    assert_eq!(shown(&again, "site.test"), certificate, "the first client is shown what is stored");
}

#[test]
fn larders_that_start_together_order_once_and_give_a_redis_that_lost_it_what_they_have() {
    let (mut cluster, states) = (Cluster::new(), folders::<3>());
    let one = cluster.setup("web1", "http-01", &states[0]);
    cluster.authority.run(&one);
    let one = one.start(ORDERS);
    let others = [1, 2].map(|at| cluster.setup(&format!("web{at}0"), "http-01", &states[at]).start(ORDERS));
    let certificate = issued(&one, "site.test", "www.site.test");
    others.iter().for_each(|site| assert_eq!(issued(site, "site.test", "www.site.test"), certificate));
    assert_eq!(cluster.authority.orders(), 1);
    drop(others);
    cluster.redis.ask(&["FLUSHALL"]);
    let again = cluster.setup("web20", "http-01", &states[2]).start(ORDERS);
    cluster.key_of_certificate();
    assert_eq!(shown(&again, "site.test"), certificate);
    assert_eq!(cluster.authority.orders(), 1);
}

#[test]
fn a_renewal_of_one_is_a_renewal_of_all() {
    let (mut cluster, states) = (Cluster::new(), folders::<2>());
    let one = cluster.setup("web1", "http-01", &states[0]);
    cluster.authority.run(&one);
    let short = ORDERS.replace("state=", "profile=short state=");
    let one = one.start(&short);
    let first = issued(&one, "site.test", "www.site.test");
    let other = cluster.setup("web2", "http-01", &states[1]).start(&short);
    eventually("another certificate on both", || {
        let now = shown(&one, "site.test");
        now != first && now == shown(&other, "site.test")
    });
}

#[test]
fn what_the_redis_has_is_used_only_if_it_is_a_certificate_with_its_key_for_these_names() {
    let (mut cluster, states) = (Cluster::new(), folders::<3>());
    let one = cluster.setup("web1", "http-01", &states[0]);
    cluster.authority.run(&one);
    let one = one.start(ORDERS);
    let first = issued(&one, "site.test", "www.site.test");
    let key = cluster.key_of_certificate();
    drop(one);
    let Certificate { pem, key_pem, .. } = &cluster.certificate;
    for (text, state, why) in [
        ("damaged".to_owned(), &states[1], "there is no private key in it"),
        (format!("{key_pem}{pem}"), &states[2], "it is not for all names of the order"),
    ] {
        cluster.redis.ask(&["SET", &key, &text]);
        // The CA comes to the ports of one larder only.
        let setup = cluster.setup("web2", "http-01", state);
        cluster.authority.end();
        cluster.authority.run(&setup);
        let other = setup.start(ORDERS);
        assert_ne!(issued(&other, "site.test", "www.site.test"), first);
        other.wait_for_log(&format!("what the cluster has as its certificate is not used: {why}"));
        assert_eq!(cluster.authority.orders(), 1);
        eventually("a good one in its place", || cluster.redis.ask(&["GET", &key]).concat() != text);
    }
}

#[test]
fn another_larders_challenge_is_answered_while_the_redis_is_there_and_the_site_answers_all_else() {
    let (mut cluster, [state]) = (Cluster::new(), folders::<1>());
    let site = cluster.setup("web1", "http-01", &state).start(ANSWERS);
    let token = "LoqXcYV8q5ONbJQxbmR7SCTNo3tiAXDfowyjxAjEuX0";
    let key = format!("larder:{{shop}}:acme:challenge:http-01:{token}");
    let path = |token: &str| format!("/.well-known/acme-challenge/{token}");
    cluster.redis.ask(&["SET", &key, "an answer"]);
    let answered = site.get(&path(token));
    assert_eq!((answered.status, text(&answered)), (200, "an answer".into()));
    // No token, no answer: the site's own.
    for other in ["none", "LoqXcYV8q5ONbJQxbmR7SCTNo3tiAXDfowyjxAjEuX1", "../../../etc/passwd-and-more-of-it", ""] {
        assert_ne!(site.get(&path(other)).status, 200, "{other}");
    }
    cluster.redis.signal(Signal::Stop);
    assert_eq!(site.get(&path(token)).status, 301);
    cluster.redis.signal(Signal::Continue);
    eventually("the answer", || site.get(&path(token)).status == 200);
    cluster.redis.kill();
    assert_eq!(site.get(&path(token)).status, 301);
}

#[test]
fn nothing_of_certificates_is_shared_unless_told() {
    let (mut cluster, states) = (Cluster::new(), folders::<2>());
    let alone = |text: &str| text.replace(" share=acme", "");
    let one = cluster.setup("web1", "http-01", &states[0]);
    cluster.authority.run(&one);
    let one = one.start(&alone(ORDERS));
    issued(&one, "site.test", "www.site.test");
    assert_eq!(cluster.keys("*").len(), 0);
    let token = "LoqXcYV8q5ONbJQxbmR7SCTNo3tiAXDfowyjxAjEuX0";
    cluster.redis.ask(&["SET", &format!("larder:{{shop}}:acme:challenge:http-01:{token}"), "an answer"]);
    let other = cluster.setup("web2", "http-01", &states[1]).start(&alone(ANSWERS));
    let path = format!("/.well-known/acme-challenge/{token}");
    assert_eq!(other.get(&path).status, 301);
    // A reload changes that, and back.
    other.change_to(ANSWERS);
    assert_eq!(text(&other.get(&path)), "an answer");
    other.change_to(&alone(ANSWERS));
    assert_eq!(other.get(&path).status, 301);
}
