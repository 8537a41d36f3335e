//! Nodes in this process, which have no pages.

use crate::load::{LoadError, pageless};
use larder_cluster::{Cluster, Place};
use larder_testkit::Redis;
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long anything may take.
const LIMIT: Duration = Duration::from_secs(60);

/// A node. It leaves when dropped.
pub struct Node(pub Arc<Cluster>);

impl Node {
    /// Starts one that has read so far, and waits until it has caught up.
    pub fn start(redis: &Redis, number: usize, place: Option<Place>) -> Result<Node, LoadError> {
        let wait = Duration::from_secs(2);
        Ok(Node(pageless::join(redis.port(), "few", &format!("web{number}"), wait, place)?))
    }

    /// Waits until it has caught up.
    pub fn settled(self) -> Result<Node, LoadError> {
        match self.0.wait(LIMIT) {
            true => Ok(self),
            false => Err(failed("a node does not catch up")),
        }
    }

    /// Purges so many times, and waits until all of it is in the log.
    pub fn purge(&self, count: usize) -> Result<(), LoadError> {
        let began = Instant::now();
        for number in 0..count {
            self.0.push("pages", &words(number));
            while self.0.status().unsent > WAITING_MAX {
                rest(began)?;
            }
        }
        while self.0.status().unsent > 0 {
            rest(began)?;
        }
        Ok(())
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// A purge as a shop has many.
pub fn words(number: usize) -> String {
    format!("purge hard key httpsshop.example/category/product-{number:08}")
}

/// Stops all at once.
pub fn stop(nodes: Vec<Node>) {
    std::thread::scope(|threads| nodes.into_iter().for_each(|node| drop(threads.spawn(move || drop(node)))));
}

fn rest(began: Instant) -> Result<(), LoadError> {
    if began.elapsed() > LIMIT {
        return Err(failed("purges are not sent"));
    }
    sleep(Duration::from_micros(200));
    Ok(())
}

fn failed(fact: &str) -> LoadError {
    LoadError::Tool { tool: "redis-server", said: fact.into() }
}

/// How many purges wait to be sent at once, of those that a node keeps one by one.
const WAITING_MAX: usize = 10_000;
