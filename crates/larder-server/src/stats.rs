//! Counters of each worker, and their sums.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

/// A counter that one thread writes and all may read.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `n`. Only the counter's owner calls this, so no locked instruction is needed.
    pub fn add(&self, n: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
    }

    /// Subtracts `n`; only the owner calls this.
    pub fn sub(&self, n: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_sub(n), Ordering::Relaxed);
    }

    /// The count.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The counters of one worker.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Stats {
    /// Connections accepted.
    pub accepted: Counter,
    /// Connections open.
    pub active: Counter,
    /// Connections whose request is being read.
    pub reading: Counter,
    /// Connections whose response is being made or sent, except those that are answered without waiting.
    pub writing: Counter,
    /// Requests.
    pub requests: Counter,
    /// Responses with a fresh object from the cache.
    pub hits: Counter,
    /// Responses for which the cache was asked and the origin had to be.
    pub misses: Counter,
    /// Responses with a stale object from the cache.
    pub stale: Counter,
    /// Files that were found in memory.
    pub files_kept: Counter,
}

/// The sums over all workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// See [`Stats`].
    pub accepted: u64,
    /// See [`Stats`].
    pub active: u64,
    /// See [`Stats`].
    pub reading: u64,
    /// See [`Stats`]; includes the caller's own request.
    pub writing: u64,
    /// Connections that wait for their next request.
    pub waiting: u64,
    /// See [`Stats`].
    pub requests: u64,
    /// See [`Stats`].
    pub files_kept: u64,
}

/// The counters of every worker of the process.
#[derive(Clone, Debug, Default)]
pub struct AllStats(Arc<Mutex<Vec<Arc<Stats>>>>);

impl AllStats {
    /// Counters for one more worker.
    pub fn add_worker(&self) -> Arc<Stats> {
        let stats = Arc::new(Stats::default());
        self.0.lock().push(Arc::clone(&stats));
        stats
    }

    /// The sums. `at_once` says that the caller's request is being answered without waiting, which no worker counts.
    pub fn sums(&self, at_once: bool) -> Sums {
        let mut sums = Sums::default();
        for stats in self.0.lock().iter() {
            sums.accepted += stats.accepted.get();
            sums.active += stats.active.get();
            sums.reading += stats.reading.get();
            sums.writing += stats.writing.get();
            sums.requests += stats.requests.get();
            sums.files_kept += stats.files_kept.get();
        }
        sums.writing += u64::from(at_once);
        sums.waiting = sums.active.saturating_sub(sums.reading + sums.writing);
        sums
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_that_neither_read_nor_write_wait() {
        let all = AllStats::default();
        let (one, two) = (all.add_worker(), all.add_worker());
        one.active.add(5);
        two.active.add(2);
        two.active.sub(1);
        one.writing.add(2);
        two.requests.add(9);
        let sums = all.sums(true);
        assert_eq!((sums.active, sums.writing, sums.waiting, sums.requests), (6, 3, 3, 9));
        assert_eq!(all.sums(false).writing, 2, "who asks is among those that are counted");
    }
}
