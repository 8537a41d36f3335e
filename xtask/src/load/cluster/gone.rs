//! How long a page is seen after its purge was sent.

use super::asker::Asker;
use super::pages;
use super::source::version_of;
use super::storm::Storm;
use super::versions::Versions;
use std::io;
use std::time::{Duration, Instant};

/// How many purges are measured.
const ROUNDS: usize = 500;

/// How long each purge took until all nodes gave the new version, and until it was answered.
#[derive(Default)]
pub struct Gone {
    /// Until all nodes gave it.
    pub everywhere: Vec<Duration>,
    /// Until the answer.
    pub answered: Vec<Duration>,
}

/// Purges pages that all nodes have, and asks all nodes until each gives the new version.
pub fn measure(storm: &Storm) -> io::Result<Gone> {
    let mut gone = Gone::default();
    let mut askers: Vec<Asker> = storm.nodes.iter().map(|node| Asker::new(node.address())).collect();
    for round in 0..ROUNDS {
        let page = round * 31 + 1;
        for asker in &mut askers {
            while !asker.get(&pages::path(page))?.is_hit {}
        }
        let asked = round % askers.len();
        let mut purger = Asker::new(storm.nodes[asked].address());
        let version = next_version(&storm.versions, page);
        let sent = Instant::now();
        purger.send("PURGE", &pages::path(page), "", "")?;
        let mut left: Vec<usize> = (0..askers.len()).collect();
        while !left.is_empty() {
            let mut fault = None;
            left.retain(|node| match askers[*node].get(&pages::path(page)) {
                Ok(answer) => version_of(&answer.body).is_none_or(|seen| seen < version),
                Err(error) => {
                    fault = Some(error);
                    false
                }
            });
            if let Some(fault) = fault {
                return Err(fault);
            }
        }
        gone.everywhere.push(sent.elapsed());
        purger.receive()?;
        gone.answered.push(sent.elapsed());
    }
    Ok(gone)
}

fn next_version(versions: &Versions, page: usize) -> u32 {
    drop(versions.change(pages::Purge::Page(page)));
    versions.newest(page)
}

/// The value below which this part of all is.
pub fn quantile(times: &mut [Duration], part: f64) -> Duration {
    times.sort_unstable();
    let at = ((times.len() as f64 * part).ceil() as usize).clamp(1, times.len().max(1)) - 1;
    times.get(at).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_one_of_the_values() {
        let mut times: Vec<Duration> = (1..=100).rev().map(Duration::from_millis).collect();
        for (part, millis) in [(0.0, 1), (0.5, 50), (0.99, 99), (1.0, 100)] {
            assert_eq!(quantile(&mut times, part), Duration::from_millis(millis), "{part}");
        }
        assert_eq!(quantile(&mut [], 0.5), Duration::ZERO);
    }
}
