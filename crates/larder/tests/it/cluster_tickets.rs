//! `larder_cluster share=tickets`: a visitor resumes a session of TLS at any larder.

use larder_testkit::{Certificate, Certificates, Client, Redis, Tls};

use crate::site::{Setup, Site, eventually, get, get_on, text};
use crate::tls::{body, client, with};

const HTTP: &str = "
    larder_cluster redis://127.0.0.1:{REDIS} name=shop node={NODE} {SHARE};
    server {
        listen 127.0.0.1:{PORT} ssl;
        ssl_certificate site.crt; ssl_certificate_key site.key; {MORE}
        return 200 '$ssl_session_reused$ssl_early_data';
    }";

/// A Redis, and the certificate of all larders.
struct Cluster {
    redis: Redis,
    authority: Certificates,
    certificate: Certificate,
}

impl Cluster {
    fn new() -> Self {
        let authority = Certificates::new("Larder Test Authority");
        let certificate = authority.server(&["site.test"]);
        Self { redis: Redis::start(&[]), authority, certificate }
    }

    fn start(&self, node: &str, share: &str, more: &str) -> Site {
        let setup = with(Setup::new(), "site", &self.certificate).file("ticket.key", [7; 80]);
        let setup = with(setup, "site.test", &self.certificate);
        let setup = setup.name("REDIS", self.redis.port()).name("NODE", node).name("SHARE", share);
        setup.name("MORE", more).start(HTTP)
    }

    fn versions(&self) -> [Tls; 2] {
        let tls = || Tls::new("site.test", &self.authority);
        [tls().version_1_2(), tls().version_1_3()]
    }

    /// Whether a session that began at one larder goes on at the other, in TLS 1.2 and in 1.3.
    fn resumes(&self, from: &Site, at: &Site) -> [bool; 2] {
        self.versions().map(|tls| {
            let tls = tls.resuming();
            assert_eq!(body(from, &tls), ".");
            body(at, &tls) == "r"
        })
    }

    fn keys(&self) -> usize {
        self.redis.ask(&["KEYS", "larder:{shop}:tickets:*"]).len()
    }
}

const BOTH: [bool; 2] = [true, true];
const NEITHER: [bool; 2] = [false, false];

#[test]
fn a_session_goes_on_at_any_larder_also_without_the_server_and_at_one_that_starts_later() {
    let mut cluster = Cluster::new();
    let (one, other) = (cluster.start("web1", "", ""), cluster.start("web2", "share=tickets", ""));
    for (from, at) in [(&one, &other), (&other, &one), (&one, &one)] {
        eventually("the keys", || cluster.resumes(from, at) == BOTH);
    }
    // A visitor who came before has a ticket that is good everywhere, too.
    let visitors = cluster.versions().map(|tls| tls.resuming());
    visitors.iter().for_each(|tls| assert_eq!(body(&one, tls), "."));
    let late = cluster.start("web3", "", "");
    eventually("the keys", || cluster.resumes(&one, &late) == BOTH);
    visitors.iter().for_each(|tls| assert_eq!(body(&late, tls), "r"));
    cluster.redis.kill();
    assert_eq!((cluster.resumes(&one, &late), cluster.resumes(&late, &other)), (BOTH, BOTH));
    // It comes back without its data, and gets the keys that larders know.
    cluster.redis.start_again();
    eventually("the keys", || cluster.keys() == 2);
    let last = cluster.start("web4", "", "");
    eventually("the keys", || cluster.resumes(&one, &last) == BOTH);
    assert_eq!(one.count_in_log("sessions of TLS are resumed at this node alone"), 0, "{}", one.server().error_log());
}

#[test]
fn a_larder_that_starts_without_the_server_is_alone_until_it_is_there_and_says_so_once() {
    let mut cluster = Cluster::new();
    let one = cluster.start("web1", "", "");
    eventually("the keys", || cluster.resumes(&one, &one) == BOTH && cluster.keys() == 2);
    cluster.redis.kill();
    let late = cluster.start("web2", "", "");
    assert_eq!((cluster.resumes(&late, &late), cluster.resumes(&one, &late)), (BOTH, NEITHER));
    late.wait_for_log("until then sessions of TLS are resumed at this node alone");
    cluster.redis.start_again();
    late.wait_for_log("has keys of session tickets again: sessions are resumed at any node");
    eventually("the keys", || cluster.resumes(&one, &late) == BOTH);
    assert_eq!(late.count_in_log("resumed at this node alone"), 1);
}

#[test]
fn only_what_is_to_be_shared_is_and_a_reload_changes_that() {
    let cluster = Cluster::new();
    let (one, other) = (cluster.start("web1", "share=off", ""), cluster.start("web2", "", ""));
    eventually("the keys", || cluster.keys() == 2);
    assert_eq!((cluster.resumes(&one, &one), cluster.resumes(&one, &other)), (BOTH, NEITHER));
    assert_eq!(cluster.resumes(&other, &one), NEITHER);
    one.change_to(&HTTP.replace("{SHARE}", ""));
    eventually("the keys", || cluster.resumes(&other, &one) == BOTH);
    one.change_to(&HTTP.replace("{SHARE}", "share=off"));
    eventually("keys of its own", || cluster.resumes(&other, &one) == NEITHER);
    assert_eq!(cluster.resumes(&one, &one), BOTH);
}

#[test]
fn keys_from_files_stay_and_other_certificates_open_nothing() {
    let cluster = Cluster::new();
    let files = "ssl_session_ticket_key ticket.key;";
    let (one, other) = (cluster.start("web1", "", files), cluster.start("web2", "", files));
    assert_eq!(cluster.resumes(&one, &other), BOTH);
    let random = cluster.start("web3", "", "");
    eventually("the keys", || cluster.keys() == 2);
    assert_eq!(cluster.resumes(&one, &random), NEITHER);
    // Connections bring the certificate: no private key guards tickets from who reads the Redis.
    for site in [&one, &other] {
        let by_name = "ssl_certificate $ssl_server_name.crt; ssl_certificate_key $ssl_server_name.key;";
        site.change_to(&HTTP.replace("ssl_certificate site.crt; ssl_certificate_key site.key; {MORE}", by_name));
    }
    assert_eq!((cluster.resumes(&one, &one), cluster.resumes(&one, &other)), (BOTH, NEITHER));
    let renewed = Cluster { certificate: cluster.authority.server(&["site.test"]), ..cluster };
    let another = renewed.start("web4", "", "");
    eventually("the keys", || renewed.resumes(&another, &another) == BOTH);
    assert_eq!(renewed.resumes(&random, &another), NEITHER);
}

#[test]
fn early_data_cannot_be_replayed_at_another_larder() {
    let cluster = Cluster::new();
    let (one, other) =
        (cluster.start("web1", "", "ssl_early_data on;"), cluster.start("web2", "", "ssl_early_data on;"));
    let plain = cluster.start("web3", "", "");
    eventually("the keys", || cluster.keys() == 2 && cluster.resumes(&plain, &plain) == BOTH);
    for (at, is_taken_wanted) in [(&one, true), (&other, false), (&plain, false)] {
        let tls = Tls::new("site.test", &cluster.authority).version_1_3().resuming().early();
        assert_eq!(body(&one, &tls), ".");
        let (mut client, is_taken) =
            Client::connect_early(at.setup().address(), &tls, get("/early").as_bytes()).unwrap();
        assert_eq!(is_taken, is_taken_wanted, "{}", at.server().error_log());
        let said = if is_taken { client.read_response("GET").unwrap() } else { get_on(&mut client, "/") };
        assert_eq!(text(&said), if is_taken { "r1" } else { "." });
    }
    // A ticket of a larder without early data allows none at one with it.
    let tls = Tls::new("site.test", &cluster.authority).version_1_3().resuming();
    assert_eq!(body(&plain, &tls), ".");
    assert!(!client(&one, &tls).tls().unwrap().is_resumed);
}
