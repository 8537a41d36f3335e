//! Which version of each page the origin has, and which ones nodes may still answer with.
//!
//! The version of a page rises before the page is purged. As soon as a node is known to have carried the purge out, an older
//! version in an answer to a later request is wrong; after a soft purge it is if the answer says that it is fresh.

use super::pages::{PAGES, Purge};
use super::told::Told;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// The versions of all pages.
pub struct Versions {
    newest: Vec<AtomicU32>,
    /// What purges that were answered mean, whoever knows them.
    purged: Vec<Least>,
    nodes: Vec<Node>,
}

/// What a node may answer with.
struct Node {
    least: Vec<Least>,
    /// Purges that are in the log, and of which it is not known whether the node has read so far, with the time of the answer.
    open: Mutex<VecDeque<(Instant, Changed)>>,
}

/// The oldest version of a page that a node may answer with.
#[derive(Debug, Default)]
struct Least {
    /// At all.
    at_all: AtomicU32,
    /// As a fresh one.
    fresh: AtomicU32,
}

/// The same at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Floor {
    at_all: u32,
    fresh: u32,
}

/// The pages of a purge, with the version that each has had since.
#[derive(Debug, Clone)]
pub struct Changed {
    pages: Vec<(usize, u32)>,
    is_soft: bool,
}

/// What is known of a node that a purge names as away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Absence {
    /// It uses nothing stored until it has caught up.
    UsesNothing,
    /// It may answer with what it has until it has caught up.
    MayAnswer,
}

impl Versions {
    /// All pages are of the first version, and nothing is purged.
    pub fn new(nodes: usize) -> Versions {
        let least = || (0..PAGES).map(|_| Least::default()).collect();
        let node = || Node { least: least(), open: Mutex::default() };
        Versions {
            newest: (0..PAGES).map(|_| AtomicU32::new(1)).collect(),
            purged: least(),
            nodes: (0..nodes).map(|_| node()).collect(),
        }
    }

    /// The version that the origin has.
    pub fn newest(&self, page: usize) -> u32 {
        self.newest[page].load(Ordering::SeqCst)
    }

    /// Gives the pages of a purge, which is sent next, a new version.
    pub fn change(&self, purge: Purge) -> Changed {
        let next = |page: usize| (page, self.newest[page].fetch_add(1, Ordering::SeqCst) + 1);
        Changed { pages: purge.pages().into_iter().map(next).collect(), is_soft: purge.is_soft() }
    }

    /// Takes what `asker` has told of a purge that was sent to it at `sent`. `absence` is asked of nodes that are away.
    pub fn told(
        &self,
        changed: &Changed,
        asker: usize,
        sent: Instant,
        told: &Told,
        absence: impl Fn(usize) -> Absence,
    ) {
        raise(&self.purged, changed);
        self.nodes[asker].raise(changed);
        let Told::Log { of, away, behind } = told else { return };
        for (number, node) in self.nodes.iter().enumerate().filter(|(number, _)| *number != asker) {
            let knows = *of == self.nodes.len() && !away.contains(&number) && !behind.contains(&number);
            if knows {
                node.has_read(sent);
                node.raise(changed);
            } else if (away.contains(&number) || behind.contains(&number)) && absence(number) == Absence::UsesNothing {
                node.raise(changed);
            } else {
                node.open().push_back((Instant::now(), changed.clone()));
            }
        }
    }

    /// The log is lost: who had not read it has stale what it missed.
    pub fn log_is_lost(&self) {
        self.purged.iter().for_each(|least| least.at_all.store(0, Ordering::SeqCst));
        for node in &self.nodes {
            node.open().iter_mut().for_each(|(_, changed)| changed.is_soft = true);
        }
    }

    /// All nodes have carried out all purges that were answered.
    pub fn all_is_known(&self) {
        for node in &self.nodes {
            node.open().clear();
            for (purged, least) in self.purged.iter().zip(&node.least) {
                least.at_all.fetch_max(purged.at_all.load(Ordering::SeqCst), Ordering::SeqCst);
                least.fresh.fetch_max(purged.fresh.load(Ordering::SeqCst), Ordering::SeqCst);
            }
        }
    }

    /// What a node may answer with to a request that is sent now.
    pub fn floor(&self, node: usize, page: usize) -> Floor {
        let least = &self.nodes[node].least[page];
        Floor { at_all: least.at_all.load(Ordering::SeqCst), fresh: least.fresh.load(Ordering::SeqCst) }
    }
}

fn raise(all: &[Least], changed: &Changed) {
    for (page, version) in &changed.pages {
        all[*page].fresh.fetch_max(*version, Ordering::SeqCst);
        if !changed.is_soft {
            all[*page].at_all.fetch_max(*version, Ordering::SeqCst);
        }
    }
}

impl Node {
    fn raise(&self, changed: &Changed) {
        raise(&self.least, changed);
    }

    /// It has carried out what was in the log at this time.
    fn has_read(&self, until: Instant) {
        loop {
            let changed = {
                let mut open = self.open();
                if open.front().is_none_or(|(answered, _)| *answered >= until) {
                    return;
                }
                open.pop_front()
            };
            if let Some((_, changed)) = changed {
                self.raise(&changed);
            }
        }
    }

    fn open(&self) -> MutexGuard<'_, VecDeque<(Instant, Changed)>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Floor {
    /// Whether an answer may have this version.
    pub fn allows(self, version: u32, is_fresh: bool) -> bool {
        version >= self.at_all && (!is_fresh || version >= self.fresh)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What nodes 1 and 2 may answer with of page 7, after purges that node 0 was asked for: `(version, as fresh)`.
    fn floors(versions: &Versions) -> [(u32, u32); 2] {
        [1, 2].map(|node| versions.floor(node, 7)).map(|floor| (floor.at_all, floor.fresh))
    }

    fn purge(versions: &Versions, purge: Purge, away: &[usize], absence: Absence) {
        let changed = versions.change(purge);
        let told = Told::Log { of: 3, away: away.to_vec(), behind: Vec::new() };
        versions.told(&changed, 0, Instant::now(), &told, |_| absence);
    }

    #[test]
    fn a_node_may_answer_with_what_it_has_until_it_is_known_to_have_read_on() {
        let versions = Versions::new(3);
        purge(&versions, Purge::Page(7), &[], Absence::MayAnswer);
        assert_eq!(floors(&versions), [(2, 2), (2, 2)]);
        purge(&versions, Purge::PageSoftly(7), &[], Absence::MayAnswer);
        assert_eq!(floors(&versions), [(2, 3), (2, 3)]);
        purge(&versions, Purge::Page(7), &[2], Absence::MayAnswer);
        assert_eq!(floors(&versions), [(4, 4), (2, 3)]);
        purge(&versions, Purge::Page(7), &[2], Absence::UsesNothing);
        assert_eq!(floors(&versions), [(5, 5), (5, 5)]);
        purge(&versions, Purge::Page(7), &[2], Absence::MayAnswer);
        versions.log_is_lost();
        purge(&versions, Purge::Page(8), &[], Absence::MayAnswer);
        assert_eq!(floors(&versions), [(6, 6), (5, 6)]);
        let changed = versions.change(Purge::Page(7));
        versions.told(&changed, 0, Instant::now(), &Told::Alone, |_| Absence::UsesNothing);
        assert_eq!(floors(&versions), [(6, 6), (5, 6)]);
        versions.all_is_known();
        assert_eq!(floors(&versions), [(7, 7), (7, 7)]);
        drop(versions.change(Purge::Page(7)));
        purge(&versions, Purge::PageSoftly(7), &[1], Absence::MayAnswer);
        versions.all_is_known();
        assert_eq!(floors(&versions), [(7, 9), (7, 9)]);
    }

    #[test]
    fn an_old_version_is_allowed_if_it_does_not_say_it_is_fresh() {
        let floor = Floor { at_all: 3, fresh: 5 };
        for (version, is_fresh, is_allowed) in
            [(2, false, false), (3, false, true), (4, true, false), (5, true, true), (4, false, true)]
        {
            assert_eq!(floor.allows(version, is_fresh), is_allowed, "{version} {is_fresh}");
        }
    }
}
