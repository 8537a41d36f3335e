//! Servers with TLS, behind Sentinels, and in a Redis Cluster.

use larder_cluster::{Server, Settings};
use larder_testkit::{Certificate, Certificates, Folder, KeyKind, Lifetime, Redis, Signal, free_port};

use crate::node::{Node, settings};

/// A server that speaks TLS alone, with this certificate.
fn with_tls(certificate: &Certificate, folder: &Folder) -> Redis {
    with_tls_and("tls-auth-clients no", certificate, folder)
}

fn with_tls_and(line: &str, certificate: &Certificate, folder: &Folder) -> Redis {
    let name = certificate.serial;
    let file = |end: &str, text: &str| folder.write(&format!("{name}.{end}"), text).expect("there is room");
    let (pem, key) = (file("pem", &certificate.pem), file("key", &certificate.key_pem));
    Redis::start(&[
        "tls-port {port}",
        &format!("tls-cert-file {}", pem.display()),
        &format!("tls-key-file {}", key.display()),
        line,
    ])
}

/// Those of a node that speaks TLS.
fn trusting(authority: &Certificates, redis: &Redis) -> Settings {
    Settings { tls: true, ca: Some(authority.authority_pem().into_bytes()), ..settings(redis, "a") }
}

#[test]
fn tls_goes_by_the_authority_that_is_named() {
    let (authority, other) = (Certificates::new("ours"), Certificates::new("other"));
    let folder = Folder::new().expect("it can be made");
    let redis = with_tls(&authority.server(&["127.0.0.1"]), &folder);
    let node = Node::start_with(trusting(&authority, &redis), None, None).settled();
    assert!(node.purge("purge hard all").is_everywhere(), "{:?}", node.seen().lines);
    for settings in [trusting(&other, &redis), Settings { ca: None, ..trusting(&other, &redis) }] {
        let node = Node::start_with(settings, None, None).settled();
        let line = node.until_said(
            "cannot be reached: an unknown authority has signed its certificate: name the authority's file as \"ca=\"",
        );
        assert!(line.starts_with("Error cluster: rediss://127.0.0.1:"), "{line}");
    }
}

#[test]
fn a_certificate_that_cannot_be_used_is_said() {
    let authority = Certificates::new("ours");
    let folder = Folder::new().expect("it can be made");
    for (certificate, line) in [
        (
            authority.server(&["redis.test", "10.0.0.1"]),
            "its certificate is for \"redis.test\", \"10.0.0.1\", and not for \"127.0.0.1\": call the server so",
        ),
        (
            authority.server_with(&["127.0.0.1"], KeyKind::Ecdsa, Lifetime::Over),
            "its certificate has expired: renew it, unless the clock of this machine is wrong",
        ),
        (authority.own(), "its certificate is that of an authority: have it sign another one for the server"),
    ] {
        let redis = with_tls(&certificate, &folder);
        let node = Node::start_with(trusting(&authority, &redis), None, None).settled();
        node.until_said(line);
    }
}

#[test]
fn a_server_that_wants_to_see_a_certificate_is_said() {
    let authority = Certificates::new("ours");
    let folder = Folder::new().expect("it can be made");
    let ca = folder.write("ca.pem", authority.authority_pem()).expect("there is room");
    let line = format!("tls-ca-cert-file {}", ca.display());
    let redis = with_tls_and(&line, &authority.server(&["127.0.0.1"]), &folder);
    let node = Node::start_with(trusting(&authority, &redis), None, None).settled();
    node.until_said("it demands a certificate of larder, which has none: write \"tls-auth-clients no\"");
}

#[test]
fn tls_on_one_side_alone_is_said() {
    let authority = Certificates::new("ours");
    let folder = Folder::new().expect("it can be made");
    let (secure, plain) = (with_tls(&authority.server(&["127.0.0.1"]), &folder), Redis::start(&["requirepass secret"]));
    let node = Node::start_with(trusting(&authority, &plain), None, None).settled();
    node.until_said("it speaks no TLS: write \"redis://\" for \"rediss://\"");
    for password in [None, Some("secret".to_owned())] {
        let node = Node::start_with(Settings { password, ..settings(&secure, "a") }, None, None).settled();
        node.until_said("it speaks TLS: write \"rediss://\" for \"redis://\"");
    }
}

#[test]
fn a_sentinel_names_the_primary_and_the_next_one() {
    let mut first = Redis::start(&["repl-diskless-sync-delay 0"]);
    let second = Redis::start(&[&format!("replicaof 127.0.0.1 {}", first.port()), "repl-diskless-sync-delay 0"]);
    let sentinel = Redis::start_sentinel(&[
        &format!("sentinel monitor mymaster 127.0.0.1 {} 1", first.port()),
        "sentinel down-after-milliseconds mymaster 300",
        "sentinel failover-timeout mymaster 3000",
    ]);
    // The first of these is nobody.
    let nobody = Server { host: "127.0.0.1".to_owned(), port: 1 };
    let by_sentinel = |name: &str, primary: &str| {
        let mut settings = settings(&sentinel, name);
        settings.servers.insert(0, nobody.clone());
        Settings { sentinel: Some(primary.to_owned()), ..settings }
    };
    let node = Node::start_with(by_sentinel("a", "mymaster"), None, None).settled();
    assert!(node.purge("purge hard all").is_everywhere(), "{:?}", node.seen().lines);
    assert_eq!(first.ask(&["XLEN", "larder:{shop}:log"]), ["2"]);
    let wrong = Node::start_with(by_sentinel("b", "another"), None, None).settled();
    wrong.until_said(" is a Sentinel that knows no primary called \"another\": mend \"sentinel=\"");
    drop(wrong);
    // It has to know the replica before it can choose it.
    let until = std::time::Instant::now() + larder_testkit::PATIENCE;
    while sentinel.ask(&["SENTINEL", "replicas", "mymaster"]).is_empty() {
        assert!(std::time::Instant::now() < until, "the Sentinel never learns of the replica");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    first.kill();
    node.until_said("is back after");
    let known = node.purge("purge soft all");
    assert!(known.is_everywhere(), "{}", known.text());
    assert!(second.ask(&["XLEN", "larder:{shop}:log"])[0].parse::<u32>().is_ok_and(|entries| entries >= 2));
}

#[test]
fn a_sentinel_and_what_is_none_are_told_apart() {
    let redis = Redis::start(&[]);
    let node =
        Node::start_with(Settings { sentinel: Some("mymaster".to_owned()), ..settings(&redis, "a") }, None, None);
    node.settled().until_said(" is no Sentinel: leave \"sentinel=\" out of \"larder_cluster\", or name the Sentinels");
    let monitor = |name: &str| format!("sentinel monitor {name} 127.0.0.1 {} 1", redis.port());
    let one = Redis::start_sentinel(&[&monitor("first")]);
    let two = Redis::start_sentinel(&[&monitor("first"), &monitor("second")]);
    let secret = Redis::start_sentinel(&[&monitor("first"), "requirepass secret"]);
    for (sentinel, password, database, name) in [
        (&one, None, 0, "first"),
        (&one, None, 3, "first"),
        (&one, Some("secret"), 0, "first"),
        (&two, None, 0, "NAME"),
        (&secret, Some("secret"), 0, "first"),
    ] {
        let settings = Settings { password: password.map(str::to_owned), database, ..settings(sentinel, "a") };
        let node = Node::start_with(settings, None, None).settled();
        node.until_said(&format!(" is a Sentinel: add \"sentinel={name}\" to \"larder_cluster\""));
    }
}

#[test]
fn a_redis_cluster_sends_nodes_to_the_server_of_their_keys() {
    // The port by which they talk to each other: by itself it is one that the kernel gives to connections.
    let buses = [free_port(), free_port()];
    let servers = buses.map(|bus| {
        let bus = format!("cluster-port {bus}");
        Redis::start(&[
            "cluster-enabled yes",
            &bus,
            "cluster-config-file nodes.conf",
            "cluster-require-full-coverage no",
        ])
    });
    let [first, second] = &servers;
    // The keys of "shop" lie in one half, wherever that is.
    first.ask(&["CLUSTER", "ADDSLOTSRANGE", "0", "8191"]);
    second.ask(&["CLUSTER", "ADDSLOTSRANGE", "8192", "16383"]);
    first.ask(&["CLUSTER", "MEET", "127.0.0.1", &second.port().to_string(), &buses[1].to_string()]);
    let until = std::time::Instant::now() + larder_testkit::PATIENCE;
    while !servers.iter().all(|redis| {
        let info = redis.ask(&["CLUSTER", "INFO"]).concat();
        info.contains("cluster_slots_assigned:16384") && info.contains("cluster_state:ok")
    }) {
        assert!(std::time::Instant::now() < until, "the servers never meet");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let nodes = [Node::start(first, "a").settled(), Node::start(second, "b").settled()];
    let known = nodes[0].purge("purge hard all");
    assert_eq!(known.text(), "Known on 2 of 2 nodes", "{:?}", nodes[1].seen().lines);
}

#[test]
fn a_server_that_stands_still_is_away() {
    let redis = Redis::start(&[]);
    let node = Node::start(&redis, "a").settled();
    redis.signal(Signal::Stop);
    let known = node.purge("purge hard all");
    assert!(known.text().contains("does not answer"), "{}", known.text());
    node.until_said("cannot be reached: it does not answer in time");
    redis.signal(Signal::Continue);
    node.until_known("purge soft all");
}
