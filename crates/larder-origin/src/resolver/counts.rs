//! What is counted of a resolver: how often name servers were asked, and what they said.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::Sort;

/// The counts, to which all workers add.
#[derive(Debug, Default)]
pub struct ResolverCounts {
    hosts: AtomicU64,
    services: AtomicU64,
    /// By the code of the answer (RFC 1035 §4.1.1), 0 to 5.
    answers: [AtomicU64; 6],
    timed_out: AtomicU64,
}

/// What was counted of a resolver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResolverSums {
    /// Questions for the addresses of a host.
    pub hosts: u64,
    /// Questions for the servers of a service.
    pub services: u64,
    /// Questions that were answered, by the code of the answer: no error, a wrong question, a failure, no such name, not
    /// implemented, refused.
    pub answers: [u64; 6],
    /// Those that nobody has answered in time; an answer with another code is none.
    pub timed_out: u64,
}

impl ResolverCounts {
    /// A name is asked for.
    pub(super) fn asked(&self, sort: Sort) {
        match sort {
            Sort::Host => &self.hosts,
            Sort::Service => &self.services,
        }
        .fetch_add(1, Relaxed);
    }

    /// The answer has this code, 0 if it is good.
    pub(super) fn answered(&self, code: u8) {
        if let Some(count) = self.answers.get(usize::from(code)) {
            count.fetch_add(1, Relaxed);
        }
    }

    /// Nobody has answered.
    pub(super) fn timed_out(&self) {
        self.timed_out.fetch_add(1, Relaxed);
    }

    /// What was counted.
    pub fn read(&self) -> ResolverSums {
        ResolverSums {
            hosts: self.hosts.load(Relaxed),
            services: self.services.load(Relaxed),
            answers: std::array::from_fn(|code| self.answers[code].load(Relaxed)),
            timed_out: self.timed_out.load(Relaxed),
        }
    }
}
