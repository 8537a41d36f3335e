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

/// Makes `Stats` and `Sums` of one list, so that no counter is left out of the sums.
macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// The counters of one worker.
        #[derive(Debug, Default)]
        #[repr(align(128))]
        pub struct Stats {
            $($(#[$doc])* pub $name: Counter,)*
        }

        /// The sums over all workers.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Sums {
            $($(#[$doc])* pub $name: u64,)*
            /// Connections that wait for their next request.
            pub waiting: u64,
        }

        impl Stats {
            /// What was counted so far.
            pub fn counted(&self) -> Sums {
                let mut sums = Sums::default();
                sums.add(self);
                sums
            }

            /// Takes back what was counted since; only the owner calls this.
            pub fn put_back(&self, counted: &Sums) {
                $(self.$name.0.store(counted.$name, Ordering::Relaxed);)*
            }
        }

        impl Sums {
            fn add(&mut self, stats: &Stats) {
                $(self.$name += stats.$name.get();)*
            }
        }
    };
}

counters! {
    /// Connections accepted.
    accepted,
    /// Connections open.
    active,
    /// Connections whose request is being read.
    reading,
    /// Connections whose response is being made or sent, except those that are answered without waiting; in the sums,
    /// the caller's own request is among them.
    writing,
    /// Requests.
    requests,
    /// Requests among them that cannot be read, or are none.
    bad_requests,
    /// Responses with a status from 400 to 499.
    client_errors,
    /// Responses with a status of 500 and above.
    server_errors,
    /// Responses with a fresh object from the cache.
    hits,
    /// Responses for which the cache was asked and the origin had to be.
    misses,
    /// Responses with a stale object from the cache.
    stale,
    /// Files that were found in memory.
    files_kept,
    /// Bytes of the heads of requests.
    request_head_bytes,
    /// Bytes of the bodies of requests, as far as they were read.
    request_body_bytes,
    /// Bytes of responses, with their heads.
    sent_bytes,
    /// Bytes of the bodies of responses.
    sent_body_bytes,
    /// Requests that are passed as a page in the cache says so (VCL).
    hits_for_pass,
    /// Requests that miss as a page in the cache says so (VCL).
    hits_for_miss,
    /// Requests that a VCL passes.
    passes,
    /// Requests that a VCL pipes.
    pipes,
    /// Requests that a VCL wanted to pipe while there were too many pipes.
    pipes_refused,
    /// Responses that a VCL made.
    synths,
    /// Subs of VCLs that failed.
    vcl_failures,
    /// Includes of ESI that were asked for.
    esi_includes,
    /// Bodies that were packed in gzip.
    packed,
    /// Bodies that were unpacked from gzip.
    unpacked,
    /// Bodies in gzip that were unpacked to see whether they can be.
    tested_packed,
    /// What was broken in pages with ESI, when they were read.
    esi_errors,
    /// Fetches that a VCL began, but for pipes.
    fetches,
    /// Answers that a VCL has not had shared, with those of passed requests.
    answers_uncacheable,
    /// Requests that have waited for the fetch of another until that was told.
    woken,
    /// Keys whose variants a VCL has purged or shortened.
    purges,
    /// Those variants.
    purged,
    /// Fetches in the background.
    refetches,
    /// Fetches of a VCL that brought no answer, or not all of its body.
    fetches_failed,
    /// Fetches of a VCL whose backend was sick, so that it was not asked.
    origins_sick,
    /// Fetches for which no origin could be asked, as all had as many requests as they may.
    origins_busy,
    /// Connections to origins that were made.
    origin_connections,
    /// Connections to origins that could not be made.
    origin_connections_failed,
    /// Requests over connections that were kept from earlier ones.
    origin_connections_reused,
    /// Requests that were sent again as such a connection was dead.
    origin_retries,
    /// Connections to origins that were kept behind an answer.
    origin_connections_kept,
    /// Requests sent to origins, or begun to be.
    origin_requests,
    /// Answers of origins to HEAD.
    answers_to_head,
    /// Answers below 200.
    answers_1xx,
    /// Answers with 204.
    answers_204,
    /// Answers with 304.
    answers_304,
    /// Other answers that come in chunks.
    answers_chunked,
    /// Other answers that say how long they are.
    answers_with_length,
    /// Other answers that say that they are empty.
    answers_empty,
    /// Other answers that end with the connection.
    answers_to_the_end,
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
        self.0.lock().iter().for_each(|stats| sums.add(stats));
        sums.writing += u64::from(at_once);
        sums.waiting = sums.active.saturating_sub(sums.reading + sums.writing);
        sums
    }
}

impl AllStats {
    /// The counters of each worker.
    pub fn each(&self) -> Vec<Sums> {
        let one = |stats: &Arc<Stats>| {
            let counted = stats.counted();
            Sums { waiting: counted.active.saturating_sub(counted.reading + counted.writing), ..counted }
        };
        self.0.lock().iter().map(one).collect()
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
