//! What a node knows of all nodes.

use std::time::Duration;

use larder_cluster::{Lag, NodeStatus, Status};
use larder_testkit::Redis;

use crate::node::{Node, settings, until};

const LOG: &str = "larder:{shop}:log";
const NODES: &str = "larder:{shop}:nodes";

fn named<'s>(status: &'s Status, name: &str) -> &'s NodeStatus {
    status.nodes.iter().find(|node| node.name == name).unwrap_or_else(|| panic!("{name} in {status:#?}"))
}

#[test]
fn each_node_knows_of_all_where_they_are_in_the_log() {
    let redis = Redis::start(&[]);
    let [a, b] = ["a", "b"].map(|name| Node::start(&redis, name).settled());
    // One that was there a minute ago, before a purge.
    let before = a.cluster.place().expect("it has one").at;
    a.purge("purge hard key /1");
    a.purge("purge hard key /2");
    let now: u64 = redis.ask(&["TIME"])[0].parse::<u64>().unwrap() * 1000;
    redis.ask(&["HSET", NODES, "ghost", &format!("{} {before}", now - 60_000)]);
    redis.ask(&["HSET", NODES, "older", &format!("{}", now - 60_000)]);
    let newest = redis.ask(&["XREVRANGE", LOG, "+", "-", "COUNT", "1"])[0].clone();
    for (node, own) in [(&a, "a"), (&b, "b")] {
        let at = |node: &NodeStatus| node.place.map(|place| place.to_string());
        let is_read = |node: &NodeStatus| node.lag == Some(Lag::default()) && at(node).as_ref() == Some(&newest);
        let status =
            until(node, |status| status.nodes.len() == 4 && [0, 1].iter().all(|at| is_read(&status.nodes[*at])));
        let names: Vec<&str> = status.nodes.iter().map(|node| &*node.name).collect();
        assert_eq!(names, ["a", "b", "ghost", "older"], "{status:?}");
        assert!(status.nodes.iter().all(|node| node.is_this == (node.name == own)), "{status:?}");
        assert!(named(&status, "a").away.is_none() && named(&status, "b").away.is_none());
        let ghost = named(&status, "ghost");
        assert!(ghost.away >= Some(Duration::from_secs(59)) && ghost.place == Some(before), "{ghost:?}");
        let lag = ghost.lag.expect("its place is known");
        assert!(lag.time > Duration::ZERO, "{lag:?}");
        // Who has joined later does not know what was before.
        assert!(lag.entries >= 2 && (!lag.is_more || own == "b"), "{own}: {lag:?}");
        let older = named(&status, "older");
        assert!(older.away.is_some() && older.place.is_none() && older.lag.is_none(), "{older:?}");
        assert_eq!(status.lag(), Some(Lag::default()));
        assert!(status.looked_ago.is_some());
    }
    drop(b);
    until(&a, |status| status.nodes.iter().all(|node| node.name != "b"));
}

#[test]
fn a_node_that_is_behind_says_by_how_much() {
    let redis = Redis::start(&[]);
    let a = Node::start(&redis, "a").settled();
    let place = a.cluster.place();
    // More than are counted. The node looks when it has read the first thousand, and stops in the second.
    for number in 0..12_000 {
        let page = if number == 1500 { "held".to_owned() } else { number.to_string() };
        a.cluster.push("pages", &format!("purge hard key /{page}"));
    }
    assert!(a.purge("purge hard key /last").fault.is_none());
    let b = Node::start_with(settings(&redis, "b"), place, None);
    let status = until(&b, |status| status.looked_ago.is_some());
    let lag = status.lag().expect("it is known");
    assert!(lag.is_more && lag.entries == 10_000, "{lag:?}");
    let of_a = named(&status, "a").lag;
    assert!(of_a.is_some_and(|lag| lag.is_more), "what this node has not read may be more than it counts: {of_a:?}");
    b.release();
    let status = until(&b, |status| status.lag() == Some(Lag::default()));
    assert_eq!(named(&status, "a").lag, Some(Lag::default()), "{status:?}");
}

#[test]
fn a_node_that_is_away_is_forgotten_and_one_that_is_there_is_not() {
    let mut redis = Redis::start(&[]);
    let [a, b] = ["a", "b"].map(|name| Node::start(&redis, name).settled());
    redis.ask(&["HSET", NODES, "dead", "1000000000000000"]);
    until(&a, |status| status.nodes.len() == 3);
    a.cluster.forget("dead").expect("it is away");
    for node in [&a, &b] {
        until(node, |status| status.nodes.len() == 2);
    }
    assert!(a.purge("purge hard all").is_everywhere());
    // Nor is it there for another reason.
    redis.ask(&["SET", "larder:{shop}:at:just-died", "abc 1-0"]);
    redis.ask(&["HSET", NODES, "just-died", "1000000000000000"]);
    for (name, why) in [
        ("a", "the node \"a\" is the one that was asked: when it ends in order it leaves the list"),
        ("b", "the node \"b\" is there, or was within the last 4 s: it would be in the list again"),
        ("just-died", "the node \"just-died\" is there, or was within the last 4 s"),
        ("dead", "no node is called \"dead\": \"larder cluster status\" names them"),
    ] {
        let error = a.cluster.forget(name).expect_err(name).to_string();
        assert!(error.starts_with(why), "{error}");
    }
    redis.ask(&["DEL", "larder:{shop}:at:just-died"]);
    b.cluster.forget("just-died").expect("its word is gone");
    redis.kill();
    let error = a.cluster.forget("dead").expect_err("nobody can tell").to_string();
    assert!(error.starts_with("redis://127.0.0.1:") && error.contains(" cannot be reached: "), "{error}");
}

#[test]
fn without_the_server_the_last_look_is_told_and_no_lag() {
    let mut redis = Redis::start(&[]);
    let a = Node::start(&redis, "a").settled();
    until(&a, |status| status.lag().is_some());
    redis.kill();
    let status = until(&a, |status| status.fault.is_some());
    assert_eq!((status.nodes.len(), status.lag()), (1, None));
    redis.start_again();
    until(&a, |status| status.lag() == Some(Lag::default()));
}
