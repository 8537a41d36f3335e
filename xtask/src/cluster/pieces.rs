//! What each step costs, measured.

use super::gauge::{Used, threads};
use super::model::{Counts, Pieces};
use super::nodes::{Node, stop, words};
use crate::load::{LoadError, cannot};
use larder_testkit::Redis;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How many purges are added, and read by so many nodes, to know what one costs of many.
const MANY: usize = 100_000;
const READERS: usize = 5;
/// How many nodes read one purge after the other, and how many.
const STEADY: (usize, usize) = (5, 2000);
/// How long the rest is measured for.
const TIME: Duration = Duration::from_secs(3);
/// How many wait.
const WAITING: usize = 20;
/// Nodes of which only the Redis knows are there for so long, in milliseconds.
const GHOST_MS: &str = "600000";

/// Measures all of it; `nodes` is how many are asked after by those who wait.
pub fn measure(nodes: usize) -> Result<Pieces, LoadError> {
    let redis = Redis::start(&[]);
    let first = Node::start(&redis, 0, None)?.settled()?;
    let place = first.0.place();
    let before = Used::by(&redis);
    first.purge(MANY)?;
    let added = Used::by(&redis).since(before);

    // Many at once: what reading costs once for all of them does not matter.
    let (before, cpu_before) = (Used::by(&redis), threads(READER));
    let started: Vec<Node> =
        (1..=READERS).map(|number| Node::start(&redis, number, place.clone())).collect::<Result<_, _>>()?;
    let readers = started.into_iter().map(Node::settled).collect::<Result<Vec<_>, _>>()?;
    let read = Used::by(&redis).since(before);
    let node_entry = (threads(READER) - cpu_before) / (READERS * MANY) as f64;
    let delivered = (READERS * MANY) as f64;
    let (deliver, deliver_bytes) = (read.cpu / delivered, read.sent / delivered);
    // The node that adds them reads them, too.
    let add = (added.cpu / MANY as f64 - deliver).max(0.0);
    stop(readers);
    drop(first);

    // One after the other: each is read alone.
    let (few, rate) = STEADY;
    let redis = Redis::start(&[]);
    let all = start(&redis, few)?;
    let (before, cpu_before) = (Used::by(&redis), threads(READER));
    let began = Instant::now();
    let mut sent = 0;
    while began.elapsed() < TIME {
        all[0].0.push("pages", &words(sent));
        sent += 1;
        sleep((began + Duration::from_secs_f64(sent as f64 / rate as f64)).saturating_duration_since(Instant::now()));
    }
    let steady = Used::by(&redis).since(before);
    let deliveries = steady.adds * few as f64;
    let read = (steady.cpu - steady.adds * add - deliveries * deliver).max(0.0) / steady.reads;
    let read_sent = (steady.sent - deliveries * deliver_bytes).max(0.0) / steady.reads;
    let node_read = (threads(READER) - cpu_before - deliveries * node_entry).max(0.0) / steady.reads;
    stop(all);
    let (poll, poll_of_one, poll_nodes) = (polls(nodes)?, polls(1)?, nodes);
    Ok(Pieces {
        add,
        deliver,
        deliver_bytes,
        read,
        read_sent,
        cycle: node_read + read,
        node_entry,
        node_read,
        poll,
        poll_of_one,
        poll_nodes,
    })
}

/// What it costs Redis when one who waits asks how far so many nodes have read. Some wait at once, as each asks seldom.
fn polls(nodes: usize) -> Result<f64, LoadError> {
    let redis = Redis::start(&[]);
    let waiting = nodes.min(WAITING);
    let all = start(&redis, waiting)?;
    let now = redis.ask(&["TIME"]);
    let now = format!("{}000", now.first().map_or("0", String::as_str));
    for ghost in waiting..=nodes {
        let name = format!("ghost{ghost}");
        redis.ask(&["HSET", "larder:{few}:nodes", &name, &now]);
        // It has read nothing, so that who waits waits to the end.
        redis.ask(&["SET", &format!("larder:{{few}}:at:{name}"), "0 0-0", "PX", GHOST_MS]);
    }
    let idle = Used::by(&redis);
    sleep(TIME);
    let before = Used::by(&redis);
    let began = Instant::now();
    let wait = |node: &Node| -> Result<(), LoadError> {
        let runtime = runtime()?;
        while began.elapsed() < TIME {
            node.0.push("pages", &words(0));
            runtime.block_on(node.0.known(node.0.newest()));
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let waits: Vec<_> = all.iter().map(|node| scope.spawn(|| wait(node))).collect();
        waits.into_iter().try_for_each(|wait| wait.join().unwrap_or(Ok(())))
    })?;
    let took = began.elapsed().as_secs_f64();
    let used = Used::by(&redis).since(before);
    stop(all);
    let idle = before.since(idle).cpu / TIME.as_secs_f64();
    Ok((used.cpu - idle * took).max(0.0) / used.polls)
}

/// What came of real nodes.
pub struct Seen {
    /// Which part of a thread Redis has used.
    pub redis: f64,
    /// Which part of a thread each node has used, to read and to write.
    pub node: f64,
    /// What was done in a second.
    pub counts: Counts,
    /// How long a purge took until it was known everywhere, at the median.
    pub known: Duration,
}

/// Has so many nodes purge so often, all together. Each node waits for its purges, one at a time.
pub fn run(nodes: usize, rate: usize) -> Result<Seen, LoadError> {
    let redis = Redis::start(&[]);
    let all = start(&redis, nodes)?;
    let own = || threads(READER) + threads(WRITER);
    let (before, own_before) = (Used::by(&redis), own());
    let began = Instant::now();
    let every = Duration::from_secs_f64(nodes as f64 / rate as f64);
    let times = std::thread::scope(|scope| {
        let runs: Vec<_> = all.iter().map(|node| scope.spawn(move || purge_on(node, began, every))).collect();
        runs.into_iter().map(|run| run.join().unwrap_or_else(|_| Ok(Vec::new()))).collect::<Result<Vec<_>, _>>()
    })?;
    let took = began.elapsed().as_secs_f64();
    let (used, own) = (Used::by(&redis).since(before), own() - own_before);
    let mut times = times.concat();
    times.sort_unstable();
    stop(all);
    Ok(Seen {
        redis: used.cpu / took,
        node: own / took / nodes as f64,
        counts: Counts {
            adds: used.adds / took,
            deliveries: used.adds * nodes as f64 / took,
            reads: used.reads / took,
            polls: used.polls / took,
        },
        known: times.get(times.len() / 2).copied().unwrap_or_default(),
    })
}

/// Purges at a pace, and waits now and then until a purge is known: who is not asked by a purge in time goes on without it.
fn purge_on(node: &Node, began: Instant, every: Duration) -> Result<Vec<Duration>, LoadError> {
    let runtime = runtime()?;
    let (mut number, mut times) = (0, Vec::new());
    while began.elapsed() < TIME {
        let due = began + every * number;
        sleep(due.saturating_duration_since(Instant::now()));
        // Those that were due while the last one was waited for come with it.
        while began + every * number <= Instant::now() {
            node.0.push("pages", &words(number as usize));
            number += 1;
        }
        let sent = Instant::now();
        runtime.block_on(node.0.known(node.0.newest()));
        times.push(sent.elapsed());
    }
    Ok(times)
}

fn start(redis: &Redis, nodes: usize) -> Result<Vec<Node>, LoadError> {
    (0..nodes).map(|number| Node::start(redis, number, None)?.settled()).collect()
}

fn runtime() -> Result<tokio::runtime::Runtime, LoadError> {
    tokio::runtime::Builder::new_current_thread().enable_time().build().map_err(cannot("wait for purges"))
}

/// The threads of a node.
const READER: &str = "cluster reader";
const WRITER: &str = "cluster writer";
