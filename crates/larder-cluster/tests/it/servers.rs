//! Servers with TLS, behind Sentinels, and in a Redis Cluster.

use larder_cluster::{Server, Settings};
use larder_testkit::{Certificates, Folder, Redis, Signal, free_port};

use crate::node::{Node, settings};

#[test]
fn tls_goes_by_the_authority_that_is_named() {
    let (authority, other) = (Certificates::new("ours"), Certificates::new("other"));
    let certificate = authority.server(&["127.0.0.1"]);
    let folder = Folder::new().expect("it can be made");
    let file = |name: &str, text: &str| folder.write(name, text).expect("there is room").display().to_string();
    let (pem, key) = (file("c.pem", &certificate.pem), file("c.key", &certificate.key_pem));
    let redis = Redis::start(&[
        "tls-port {port}",
        &format!("tls-cert-file {pem}"),
        &format!("tls-key-file {key}"),
        "tls-auth-clients no",
    ]);
    let with = |authority: &Certificates| Settings {
        tls: true,
        ca: Some(authority.authority_pem().into_bytes()),
        ..settings(&redis, "a")
    };
    let node = Node::start_with(with(&authority), None, None).settled();
    assert!(node.purge("purge hard all").is_everywhere(), "{:?}", node.seen().lines);
    let node = Node::start_with(with(&other), None, None).settled();
    let line = node.until_said("cannot be reached");
    assert!(line.contains("rediss://127.0.0.1:") && line.contains("certificate"), "{line}");
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
    wrong.until_said("a Sentinel knows no primary called \"another\"");
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
