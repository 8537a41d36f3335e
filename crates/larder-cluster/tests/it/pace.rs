//! How often nodes ask.

use std::time::Instant;

use larder_cluster::pace;
use larder_testkit::Redis;

use crate::node::Node;

#[test]
fn nodes_of_a_large_cluster_read_purges_together() {
    const NODES: usize = 200;
    const PURGES: usize = 200;
    let redis = Redis::start(&[]);
    let now = format!("{}000", redis.ask(&["TIME"])[0]);
    for other in 1..NODES {
        redis.ask(&["HSET", "larder:{shop}:nodes", &format!("other{other}"), &now]);
    }
    let node = Node::start(&redis, "a").settled();
    let (before, began) = (reads(&redis), Instant::now());
    for number in 0..PURGES {
        let words = format!("purge hard key {number}");
        redis.ask(&["XADD", "larder:{shop}:log", "*", "i", "other", "z", "pages", "w", &words]);
    }
    node.until(|seen| seen.purges.len() == PURGES);
    let took = began.elapsed();
    // Each that brings some comes a while after the last one, and one that waits in vain takes longer.
    let most = 4 + took.as_micros() / pace::between_reads(NODES).as_micros();
    let reads = reads(&redis) - before;
    assert!(u128::from(reads) <= most, "{reads} reads of {most} in {took:?}");
}

/// How often all nodes have read.
fn reads(redis: &Redis) -> u64 {
    let told = redis.ask(&["INFO", "commandstats"]).concat();
    let (_, rest) = told.split_once("cmdstat_xread:calls=").expect("a node reads");
    rest.split(',').next().and_then(|calls| calls.parse().ok()).expect("it is a number")
}
