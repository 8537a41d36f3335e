//! Visitors at all nodes, and purges, while nodes and the server fail.

use super::asker::Asker;
use super::node::Node;
use super::pages::{self, PAGES, Purge};
use super::source::version_of;
use super::told::Told;
use super::versions::{Absence, Versions};
use crate::load::LoadError;
use crate::load::generator::Answer;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How many are purged in a second.
pub const PURGES_A_SECOND: u64 = 200;
/// Who purges: each waits until its purge is known, which takes 300 ms while a node does not answer.
const PURGERS: usize = 128;
/// Visitors at each node, and how long each rests after an answer.
const VISITORS: usize = 3;
const REST: Duration = Duration::from_millis(3);
/// How long who has met a dead node rests.
const REST_AT_DEAD: Duration = Duration::from_millis(20);
/// Half of all requests are for so many pages.
const LIKED: usize = 1000;
/// So many wrong answers and failures are told.
const TOLD_MAX: usize = 20;

/// What all threads share.
pub struct Storm {
    /// The nodes.
    pub nodes: Vec<Node>,
    /// What they may answer with.
    pub versions: Arc<Versions>,
    /// Whether a node that is away uses nothing stored: `larder_cluster_away bypass`.
    pub is_strict: bool,
    /// The node that is not asked to purge, as it is stopped; `usize::MAX` for none.
    pub stopped: AtomicUsize,
    /// What happens now, for what is told of wrong answers.
    pub phase: Mutex<&'static str>,
    /// It is over.
    pub is_over: AtomicBool,
    /// What has come of it.
    pub counts: Counts,
}

/// What has come of it.
#[derive(Default)]
pub struct Counts {
    /// Answers to visitors.
    pub answers: AtomicU64,
    /// Those from caches, that say they are fresh.
    pub hits: AtomicU64,
    /// Those that are older than they may be.
    pub wrong: AtomicU64,
    /// Requests that failed.
    pub failed: AtomicU64,
    /// Purges that were answered.
    pub purges: AtomicU64,
    /// Those that hold, and that a disk of this machine had not noted within five seconds.
    pub late: AtomicU64,
    /// Those that were known everywhere, and how long that took, in microseconds.
    pub everywhere: Mutex<Vec<u64>>,
    /// Those that were known on the asked node alone.
    pub alone: AtomicU64,
    /// The first wrong answers and failures.
    told: Mutex<Vec<String>>,
    /// Answers and wrong ones in each phase.
    pub phases: Mutex<Vec<(&'static str, u64, u64)>>,
}

impl Storm {
    /// Runs visitors and purges while `happen` has its way.
    pub fn run(&self, happen: impl FnOnce() -> Result<(), LoadError>) -> Result<(), LoadError> {
        let next = AtomicU64::new(0);
        let began = Instant::now();
        thread::scope(|threads| {
            for number in 0..self.nodes.len() * VISITORS {
                threads.spawn(move || self.visit(number));
            }
            for number in 0..PURGERS {
                let next = &next;
                threads.spawn(move || self.purge_on(number, next, began));
            }
            let ended = happen();
            self.is_over.store(true, Ordering::SeqCst);
            ended
        })
    }

    /// Asks every node for every page.
    pub fn look_at_all(&self) {
        thread::scope(|threads| {
            for node in 0..self.nodes.len() {
                threads.spawn(move || {
                    let mut asker = Asker::new(self.nodes[node].address());
                    (0..PAGES).for_each(|page| self.look(&mut asker, node, page));
                });
            }
        });
    }

    /// The first things that went wrong.
    pub fn told(&self) -> Vec<String> {
        self.counts.told.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What happens from now on.
    pub fn enter(&self, phase: &'static str) {
        eprintln!("{phase}");
        *self.phase.lock().unwrap_or_else(PoisonError::into_inner) = phase;
        self.counts.phases.lock().unwrap_or_else(PoisonError::into_inner).push((phase, 0, 0));
    }

    fn phase(&self) -> &'static str {
        *self.phase.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn visit(&self, number: usize) {
        let node = number % self.nodes.len();
        let mut asker = Asker::new(self.nodes[node].address());
        let mut chance = number as u64 + 1;
        while !self.is_over.load(Ordering::SeqCst) {
            // xorshift64
            chance ^= chance << 13;
            chance ^= chance >> 7;
            chance ^= chance << 17;
            let most = if chance >> 63 == 0 { PAGES } else { LIKED };
            let page = (chance >> 20) as usize % most * (PAGES / most);
            self.look(&mut asker, node, page);
            thread::sleep(if self.nodes[node].deaths().0 { REST_AT_DEAD } else { REST });
        }
    }

    /// Gets a page, which must not be older than it may be.
    fn look(&self, asker: &mut Asker, node: usize, page: usize) {
        let (floor, phase) = (self.versions.floor(node, page), self.phase());
        let Some(answer) = self.answered(node, || asker.get(&pages::path(page))) else { return };
        let count = |counter: &AtomicU64| counter.fetch_add(1, Ordering::Relaxed);
        let version = version_of(&answer.body).unwrap_or(0);
        let is_wrong = !floor.allows(version, answer.is_hit);
        if is_wrong {
            count(&self.counts.wrong);
            let fresh = if answer.is_hit { " as fresh" } else { "" };
            self.tell(format!("{phase}: web{} gave page {page} in version {version}{fresh}, {floor:?}", node + 1));
        }
        count(&self.counts.answers);
        self.counts.hits.fetch_add(u64::from(answer.is_hit), Ordering::Relaxed);
        let mut phases = self.counts.phases.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, answers, wrong)) = phases.iter_mut().find(|(name, ..)| *name == phase) {
            (*answers, *wrong) = (*answers + 1, *wrong + u64::from(is_wrong));
        }
    }

    /// The answer of a node, with status 200. All else is a failure, unless the node is dead or dies meanwhile, or its disk is
    /// slow.
    fn answered(&self, node: usize, ask: impl FnOnce() -> io::Result<Answer>) -> Option<Answer> {
        let (_, before) = self.nodes[node].deaths();
        let fault = match ask() {
            Ok(answer) if answer.status == 200 => return Some(answer),
            Ok(answer) => {
                let text = String::from_utf8_lossy(&answer.body);
                if answer.status == 500 && text.contains("holds, but is not on disk yet") {
                    self.counts.late.fetch_add(1, Ordering::Relaxed);
                    return None;
                }
                format!("status {}: {}", answer.status, text.trim_end())
            }
            Err(error) => error.to_string(),
        };
        let (is_dead, deaths) = self.nodes[node].deaths();
        if !is_dead && deaths == before {
            self.counts.failed.fetch_add(1, Ordering::Relaxed);
            self.tell(format!("{}: web{} failed: {fault}", self.phase(), node + 1));
        }
        None
    }

    fn tell(&self, line: String) {
        let mut told = self.counts.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.len() < TOLD_MAX {
            told.push(line);
        }
    }

    /// Purges at the times of the numbers it takes.
    fn purge_on(&self, purger: usize, next: &AtomicU64, began: Instant) {
        let mut askers: Vec<[Asker; 2]> =
            self.nodes.iter().map(|node| [Asker::new(node.address()), Asker::new(node.admin_address())]).collect();
        let mut deaths = self.deaths();
        while !self.is_over.load(Ordering::SeqCst) {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let due = began + Duration::from_micros(number * 1_000_000 / PURGES_A_SECOND);
            thread::sleep(due.saturating_duration_since(Instant::now()));
            let is_there = |node: &usize| !self.nodes[*node].deaths().0 && self.stopped.load(Ordering::SeqCst) != *node;
            let all = (0..self.nodes.len()).map(|node| (purger + number as usize + node) % self.nodes.len());
            let Some(node) = all.into_iter().find(is_there) else { continue };
            if self.nodes[node].deaths() != deaths[node] {
                // A connection to the process before.
                askers[node].iter_mut().for_each(Asker::close);
                deaths = self.deaths();
            }
            let _ = self.purge(&mut askers[node], node, Purge::of(number as usize));
        }
    }

    /// Purges at a node, and returns what it has told.
    pub fn purge(&self, askers: &mut [Asker; 2], node: usize, purge: Purge) -> Option<Told> {
        let dead_before = self.deaths();
        let changed = self.versions.change(purge);
        let sent = Instant::now();
        let text = self.ask_to_purge(askers, node, purge)?;
        let told = Told::of(&text);
        let dead_after = self.deaths();
        self.counts.purges.fetch_add(1, Ordering::Relaxed);
        if told.is_everywhere(self.nodes.len()) {
            let micros = sent.elapsed().as_micros() as u64;
            self.counts.everywhere.lock().unwrap_or_else(PoisonError::into_inner).push(micros);
        }
        if told == Told::Alone {
            self.counts.alone.fetch_add(1, Ordering::Relaxed);
        }
        let is_away = |node: usize| match &told {
            Told::Log { away, .. } => away.contains(&node),
            Told::Alone | Told::Nothing => false,
        };
        let absence = |node: usize| {
            // One that was dead all the time reads the log before it uses what it has.
            let was_dead = dead_before[node] == dead_after[node] && dead_before[node].0;
            match was_dead || self.is_strict && is_away(node) {
                true => Absence::UsesNothing,
                false => Absence::MayAnswer,
            }
        };
        self.versions.told(&changed, node, sent, &told, absence);
        Some(told)
    }

    fn ask_to_purge(&self, [site, admin]: &mut [Asker; 2], node: usize, purge: Purge) -> Option<String> {
        let answer = match (purge, purge.request()) {
            (_, Some((method, path, fields))) => self.answered(node, || site.ask(method, &path, &fields, ""))?,
            (Purge::PageByApi(page), _) => {
                let body = format!("{{\"urls\":[\"http://site.test{}\"]}}", pages::path(page));
                self.answered(node, || admin.ask("POST", "/purge", "", &body))?
            }
            (Purge::TagByCommand(tag), _) => return self.nodes[node].command(&["--tag", &format!("t{tag}")]),
            _ => return None,
        };
        Some(String::from_utf8_lossy(&answer.body).into_owned())
    }

    fn deaths(&self) -> Vec<(bool, u64)> {
        self.nodes.iter().map(Node::deaths).collect()
    }
}
