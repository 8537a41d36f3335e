//! How often the origin is asked while all nodes are filled, each by a visitor of its own.

use super::asker::Asker;
use super::node::Node;
use super::pages::{self, PAGES};
use super::source::Source;
use crate::load::{LoadError, cannot};
use std::io;
use std::thread;

/// No more fetches than this for each page, where nodes share pages.
pub const FETCHES_MAX: f64 = 1.1;
/// Each node is so many pages ahead of the next: some pages are there when they are asked for, others are on their way.
const AHEAD: usize = 7;

/// The pages, and the fetches for them.
#[derive(Debug, Clone, Copy)]
pub struct Filled {
    /// How many pages each node was asked for.
    pub pages: u64,
    /// How often the origin was asked.
    pub fetches: u64,
}

/// Asks each node for all pages that stay fresh.
pub fn measure(nodes: &[Node], source: &Source) -> Result<Filled, LoadError> {
    let before = source.requests();
    let ask = |number: usize, node: &Node| -> io::Result<()> {
        let mut asker = Asker::new(node.address());
        for page in (0..PAGES).map(|page| (page + number * AHEAD) % PAGES).filter(|page| pages::is_lasting(*page)) {
            asker.get(&pages::path(page))?;
        }
        Ok(())
    };
    thread::scope(|threads| {
        let asking: Vec<_> =
            nodes.iter().enumerate().map(|(number, node)| threads.spawn(move || ask(number, node))).collect();
        asking.into_iter().try_for_each(|asking| asking.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
    .map_err(cannot("fill the nodes"))?;
    Ok(Filled { pages: lasting().count() as u64, fetches: source.requests() - before })
}

fn lasting() -> impl Iterator<Item = usize> {
    (0..PAGES).filter(|page| pages::is_lasting(*page))
}
