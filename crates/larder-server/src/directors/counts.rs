//! What is counted of a backend of a VCL, for all workers. A hit asks no backend, so these may be shared.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use larder_origin::{AnswerBody, Usage};

use super::Directors;
use super::judge::Number;

/// The counters of a backend, since it was first declared.
#[derive(Debug, Default)]
pub struct Counts {
    /// Requests sent to it, or begun to be.
    pub requests: AtomicU64,
    /// Bytes of the heads of these.
    pub request_head_bytes: AtomicU64,
    /// Bytes of the bodies of requests that it has answered.
    pub request_body_bytes: AtomicU64,
    /// Bytes of the heads of its answers.
    pub answer_head_bytes: AtomicU64,
    /// Bytes of the bodies of its answers.
    pub answer_body_bytes: AtomicU64,
    /// Connections to it that could not be made.
    pub failed: AtomicU64,
    /// Fetches that did not ask it, as it is sick.
    pub sick: AtomicU64,
    /// Fetches that could not ask it, as it has `.max_connections` already.
    pub busy: AtomicU64,
}

impl Counts {
    /// Counts an answer that is over, with the bytes of its body, unless it was made here.
    pub fn note_answer(&self, body_bytes: u64, body: &AnswerBody) {
        let Usage { received, received_head, sent, sent_head, .. } = body.usage();
        if received > 0 {
            self.answer_head_bytes.fetch_add(received_head, Ordering::Relaxed);
            self.answer_body_bytes.fetch_add(body_bytes, Ordering::Relaxed);
            self.request_body_bytes.fetch_add(sent.saturating_sub(sent_head), Ordering::Relaxed);
        }
    }
}

/// What there is to count of a backend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counted {
    /// Its name, without that of the VCL.
    pub name: String,
    /// The last 64 answers to its probe, the newest in the lowest bit, set for a good one; 0 without a probe.
    pub happy: u64,
    /// Requests that it is busy with now.
    pub running: u64,
    /// See [`Counts`].
    pub requests: u64,
    /// See [`Counts`].
    pub request_head_bytes: u64,
    /// See [`Counts`].
    pub request_body_bytes: u64,
    /// See [`Counts`].
    pub answer_head_bytes: u64,
    /// See [`Counts`].
    pub answer_body_bytes: u64,
    /// See [`Counts`].
    pub failed: u64,
    /// See [`Counts`].
    pub sick: u64,
    /// See [`Counts`].
    pub busy: u64,
}

impl Directors {
    /// The counters of a backend; a director has none.
    pub fn counts(&self, backend: Number) -> Option<Arc<Counts>> {
        Some(self.backends.get(backend as usize)?.counts.load_full())
    }

    /// Adds to a counter of a backend; a director has none.
    pub fn count(&self, backend: Number, of: fn(&Counts) -> &AtomicU64, n: u64) {
        if let Some(backend) = self.backends.get(backend as usize) {
            of(&backend.counts.load()).fetch_add(n, Ordering::Relaxed);
        }
    }

    /// The counters of all backends, in the order of the VCL.
    pub fn counted(&self) -> Vec<Counted> {
        let there = self.backends.iter().filter(|backend| backend.was.1.is_some());
        let counted = |backend: &super::Backend| {
            let counts = backend.counts.load();
            let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
            let group = backend.group.load();
            let running = group.as_ref().map(|group| group.running()).unwrap_or_default();
            Counted {
                name: backend.name.clone(),
                happy: backend.health.window().map_or(0, |window| window.happy()),
                running: running.into_iter().map(u64::from).sum(),
                requests: of(&counts.requests),
                request_head_bytes: of(&counts.request_head_bytes),
                request_body_bytes: of(&counts.request_body_bytes),
                answer_head_bytes: of(&counts.answer_head_bytes),
                answer_body_bytes: of(&counts.answer_body_bytes),
                failed: of(&counts.failed),
                sick: of(&counts.sick),
                busy: of(&counts.busy),
            }
        };
        there.map(counted).collect()
    }
}

#[cfg(test)]
mod tests {
    use arc_swap::{ArcSwap, ArcSwapOption};
    use larder_vcl::policy::Endpoint;

    use super::super::{Backend, Health};
    use super::*;

    fn directors(backends: &[(&str, &str)]) -> Directors {
        let backend = |(name, path): &(&str, &str)| Backend {
            name: (*name).to_owned(),
            health: Health::new(None, 0.0),
            counts: ArcSwap::default(),
            group: ArcSwapOption::empty(),
            was: (None, Some(Endpoint::Unix((*path).to_owned()))),
        };
        Directors { backends: backends.iter().map(backend).collect(), ..Directors::default() }
    }

    #[test]
    fn the_next_vcl_goes_on_with_what_was_counted_of_the_same_backends() {
        let old = directors(&[("a", "/a"), ("b", "/b"), ("c", "/c")]);
        for number in 0..3 {
            old.count(number, |counts| &counts.requests, 1 + u64::from(number));
        }
        let new = directors(&[("new", "/a"), ("b", "/b"), ("c", "/elsewhere")]);
        new.take_over(&old);
        // A fetch that runs ends with the VCL that it began with.
        old.count(1, |counts| &counts.requests, 10);
        new.count(1, |counts| &counts.requests, 100);
        let requests = |directors: &Directors| -> Vec<u64> {
            directors.counted().iter().map(|backend| backend.requests).collect()
        };
        assert_eq!((requests(&old), requests(&new)), (vec![1, 112, 3], vec![0, 112, 0]));
        new.count(7, |counts| &counts.requests, 1);
    }
}
