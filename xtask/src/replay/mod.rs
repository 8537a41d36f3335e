//! `cargo xtask replay`: what the memory shelf's order of leaving is worth, on request traces.
//!
//! The shelf is the real one, driven as the cache drives it; LRU, S3-FIFO and GDSF are models beside it. What the
//! numbers say is told in `docs/eviction.md`.

mod made;
mod models;
mod options;
mod report;
mod shelf;
mod trace;

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use models::{Gdsf, Lru, S3Fifo};
use options::Options;
use shelf::Shelf;
use trace::{Thing, Trace};

/// Why a trace was not replayed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The command line asks for something that is not there.
    #[error("{0}\nSee `cargo xtask replay --help`.")]
    Usage(String),
    /// A trace cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The trace.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A trace is not what it should be.
    #[error("{}: {fact}", path.display())]
    Form {
        /// The trace.
        path: PathBuf,
        /// What is wrong with it.
        fact: String,
    },
}

/// Replays as `arguments` say, and prints.
pub fn main(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    match run(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("replay: {error}");
            if let Some(reason) = std::error::Error::source(&error) {
                eprintln!("    because: {reason}");
            }
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: impl Iterator<Item = OsString>) -> Result<(), ReplayError> {
    let Some(options) = Options::parse(arguments)? else {
        print!("{}", options::HELP);
        return Ok(());
    };
    for path in &options.traces {
        let trace = match made::by_name(path) {
            Some(made) => made,
            None => trace::read(path)?,
        };
        let rows: Vec<report::Row> = options
            .percents
            .iter()
            .map(|&percent| report::Row {
                percent,
                misses: options.policies.iter().map(|policy| replay(&trace, *policy, percent)).collect(),
            })
            .collect();
        print!("{}", report::table(&trace, &options, &rows));
    }
    Ok(())
}

/// Who decides what leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// The one that was used least lately.
    Lru,
    /// Two queues and a ghost, by bytes.
    S3Fifo,
    /// The exact order that the shelf comes near, with a use noted in the order at once.
    Gdsf,
    /// The real memory shelf.
    Larder,
}

impl Policy {
    /// All of them, in the order of the tables.
    pub const ALL: [Policy; 4] = [Policy::Lru, Policy::S3Fifo, Policy::Gdsf, Policy::Larder];

    /// Its name on the command line and in tables.
    pub fn name(self) -> &'static str {
        match self {
            Policy::Lru => "lru",
            Policy::S3Fifo => "s3fifo",
            Policy::Gdsf => "gdsf",
            Policy::Larder => "larder",
        }
    }

    fn cache(self, bytes_max: u64) -> Box<dyn Cache> {
        match self {
            Policy::Lru => Box::new(Lru::new(bytes_max)),
            Policy::S3Fifo => Box::new(S3Fifo::new(bytes_max)),
            Policy::Gdsf => Box::new(Gdsf::new(bytes_max)),
            Policy::Larder => Box::new(Shelf::new(bytes_max)),
        }
    }
}

/// A cache under replay.
pub trait Cache {
    /// A request for `thing`: true if it is here. Otherwise it is fetched, and kept if there is room.
    fn ask(&mut self, thing: &Thing) -> bool;
}

/// The shares of all that was missed: requests, their bytes, the origin's time for them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Misses {
    /// Of the origin's time that serving everything without a cache would take.
    pub time: f64,
    /// Of the requests.
    pub objects: f64,
    /// Of the bytes asked for.
    pub bytes: f64,
}

/// Replays `trace` into a cache of `percent` of the bytes of all its things.
pub fn replay(trace: &Trace, policy: Policy, percent: f64) -> Misses {
    let bytes_max = trace.footprint() as f64 * percent / 100.0;
    let mut cache = policy.cache(bytes_max as u64);
    misses(trace, |thing| !cache.ask(thing))
}

/// What would be missed if the requests of which `is_miss` says so were.
pub fn misses(trace: &Trace, mut is_miss: impl FnMut(&Thing) -> bool) -> Misses {
    let mut missed = Misses { time: 0.0, objects: 0.0, bytes: 0.0 };
    let mut all = missed;
    for thing in trace.requests() {
        let share = if is_miss(thing) { 1.0 } else { 0.0 };
        let (time, bytes) = (f64::from(thing.micros), thing.bytes as f64);
        for (sum, share) in [(&mut all, 1.0), (&mut missed, share)] {
            sum.time += share * time;
            sum.objects += share;
            sum.bytes += share * bytes;
        }
    }
    Misses {
        time: missed.time / all.time.max(1.0),
        objects: missed.objects / all.objects.max(1.0),
        bytes: missed.bytes / all.bytes.max(1.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shelf_saves_more_of_the_origins_time_than_lru_and_s3_fifo() {
        // The share of the better model's misses that the shelf may have at most. It has 0.74 to 0.85 of them.
        for (trace, percent, share) in
            [(made::zipf(), 2.0, 0.9), (made::zipf(), 10.0, 0.9), (made::drift(), 5.0, 0.9), (made::crawl(), 5.0, 0.9)]
        {
            let [lru, s3fifo, larder] =
                [Policy::Lru, Policy::S3Fifo, Policy::Larder].map(|policy| replay(&trace, policy, percent));
            let better = lru.time.min(s3fifo.time);
            assert!(
                larder.time < better * share,
                "{} at {percent} %: lru {lru:?}, s3fifo {s3fifo:?}, larder {larder:?}",
                trace.name
            );
            assert!(
                larder.objects < lru.objects && larder.bytes < lru.bytes + 0.02,
                "{}: {lru:?} {larder:?}",
                trace.name
            );
        }
    }

    #[test]
    fn all_that_fits_is_missed_once() {
        let trace = made::zipf();
        for policy in Policy::ALL {
            let mut seen = std::collections::HashSet::new();
            assert_eq!(replay(&trace, policy, 200.0), misses(&trace, |thing| seen.insert(thing.id)), "{policy:?}");
        }
    }
}
