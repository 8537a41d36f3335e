//! How long a node takes to carry out what it has missed.

use super::asker::Asker;
use super::node::Node;
use super::pages::{self, PAGES};
use crate::load::{LoadError, cannot, pageless};
use larder_cluster::Cluster;
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How many purges it misses.
pub const MISSED: usize = 100_000;
/// How many wait to be sent at once, of those that a node keeps one by one.
const WAITING_MAX: usize = 10_000;
/// How long a measurement may take.
const LIMIT: Duration = Duration::from_secs(300);

/// What is missed.
pub const KINDS: [&str; 4] = ["a page by its key", "a page by its URL", "a tag", "a ban"];

/// The purge of this number, as nodes tell each other.
fn words(kind: usize, number: usize) -> String {
    match kind {
        0 => format!("purge hard key site.test{}", pages::path(number % PAGES)),
        1 => format!("purge hard url site.test is {}?{number}", pages::path(number % PAGES)),
        2 => format!("purge hard tag xkey other{number}"),
        _ => format!("obj.http.X-Kind == other{number}"),
    }
}

/// How long a node took.
#[derive(Debug, Clone, Copy)]
pub struct Took {
    /// One that was stopped (`SIGSTOP`) and has its pages in memory, after it went on.
    pub paused: Duration,
    /// One that was off, from its start until it uses what it has on disk.
    pub off: Duration,
    /// The same if it has missed nothing.
    pub off_in_vain: Duration,
}

/// Has a node miss purges of this kind, and measures.
pub fn measure(node: &Node, teller: &Teller, kind: usize) -> Result<Took, LoadError> {
    let off_in_vain = {
        node.stop()?;
        start(node)?
    };
    let mut asker = Asker::new(node.address());
    fill(&mut asker, node)?;
    let before = carried(&mut asker, node)?;
    node.pause(true);
    teller.tell(kind, 0)?;
    node.pause(false);
    let began = Instant::now();
    while carried(&mut asker, node)? - before < MISSED as u64 {
        if began.elapsed() > LIMIT {
            return Err(node.fault(format!("has not caught up within {LIMIT:?}")));
        }
        sleep(Duration::from_millis(5));
    }
    let paused = began.elapsed();
    fill(&mut asker, node)?;
    node.stop()?;
    teller.tell(kind, MISSED)?;
    Ok(Took { paused, off: start(node)?, off_in_vain })
}

/// Has a node store all pages.
fn fill(asker: &mut Asker, node: &Node) -> Result<(), LoadError> {
    for page in 0..PAGES {
        let answer = asker.get(&pages::path(page)).map_err(cannot("fill a node"))?;
        if answer.status != 200 {
            return Err(node.fault(format!("has status {} for a page", answer.status)));
        }
    }
    Ok(())
}

/// Starts a node, and says how long it takes until it uses what it has stored.
fn start(node: &Node) -> Result<Duration, LoadError> {
    let began = Instant::now();
    node.run()?;
    let mut asker = Asker::new(node.address());
    while !status(&mut asker, node)?.contains("\"uses_stored_pages\":true") {
        if began.elapsed() > LIMIT {
            return Err(node.fault(format!("uses nothing stored within {LIMIT:?}")));
        }
        sleep(Duration::from_millis(1));
    }
    Ok(began.elapsed())
}

fn status(asker: &mut Asker, node: &Node) -> Result<String, LoadError> {
    let answer = asker.get("/api/larder/1/cluster").map_err(cannot("ask a node how it is"))?;
    match answer.status {
        200 => Ok(String::from_utf8_lossy(&answer.body).into_owned()),
        status => Err(node.fault(format!("has status {status} for how it is"))),
    }
}

/// How many purges of others it has carried out.
fn carried(asker: &mut Asker, node: &Node) -> Result<u64, LoadError> {
    let text = status(asker, node)?;
    let number = text
        .split_once("\"carried_out\":")
        .and_then(|(_, rest)| rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok());
    number.ok_or_else(|| node.fault(format!("does not say how many purges it has carried out: {text}")))
}

/// A node of our own that has no pages, and purges.
pub struct Teller(Arc<Cluster>);

impl Teller {
    /// Joins.
    pub fn join(server_port: u16) -> Result<Teller, LoadError> {
        Ok(Teller(pageless::join(server_port, "load", "teller", Duration::from_secs(1), None)?))
    }

    /// Sends [`MISSED`] purges, and waits until they are in the log.
    fn tell(&self, kind: usize, first: usize) -> Result<(), LoadError> {
        let began = Instant::now();
        for number in first..first + MISSED {
            while self.0.status().unsent > WAITING_MAX {
                self.rest(began)?;
            }
            self.0.push("pages", &words(kind, number));
        }
        while self.0.status().unsent > 0 {
            self.rest(began)?;
        }
        Ok(())
    }

    fn rest(&self, began: Instant) -> Result<(), LoadError> {
        if began.elapsed() > LIMIT {
            let said = format!("{:?}", self.0.status().fault);
            return Err(LoadError::Tool { tool: "redis-server", said });
        }
        sleep(Duration::from_millis(1));
        Ok(())
    }
}

impl Drop for Teller {
    fn drop(&mut self) {
        self.0.stop();
    }
}
