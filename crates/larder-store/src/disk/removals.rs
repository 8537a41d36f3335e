//! Removals that have no tombstone on the disk yet: what they remove must not be found all the same.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;

/// Removed keys, by a hash that is this process' own, since the shelf's is not known before it is open.
pub(super) struct Removals {
    seed: u64,
    count: AtomicUsize,
    next: AtomicU64,
    pending: Mutex<HashMap<u64, Vec<Pending>>>,
}

/// The variant, or all; and the ticket.
type Pending = (Option<u8>, u64);

impl Removals {
    pub(super) fn new(seed: u64) -> Self {
        Self { seed, count: AtomicUsize::new(0), next: AtomicU64::new(0), pending: Mutex::default() }
    }

    /// Hides a variant of `key`, or all, until [`Removals::done`] with the ticket. `None`: too many wait.
    pub(super) fn add(&self, key: &[u8], variant: Option<u8>) -> Option<u64> {
        let mut pending = self.pending.lock();
        if self.count.load(Ordering::Relaxed) >= PENDING_MAX {
            return None;
        }
        let ticket = self.next.fetch_add(1, Ordering::Relaxed);
        pending.entry(self.hash(key)).or_default().push((variant, ticket));
        self.count.fetch_add(1, Ordering::Release);
        Some(ticket)
    }

    /// A tombstone is written, or what it was for is gone.
    pub(super) fn done(&self, key: &[u8], ticket: u64) {
        let hash = self.hash(key);
        let mut pending = self.pending.lock();
        let Some(tickets) = pending.get_mut(&hash) else { return };
        let before = tickets.len();
        tickets.retain(|(_, pending)| *pending != ticket);
        self.count.fetch_sub(before - tickets.len(), Ordering::Relaxed);
        if tickets.is_empty() {
            pending.remove(&hash);
        }
    }

    /// Which variants of `key` are not to be found.
    pub(super) fn hidden(&self, key: &[u8]) -> Hidden {
        if self.count.load(Ordering::Acquire) == 0 {
            return Hidden(Vec::new());
        }
        let pending = self.pending.lock();
        Hidden(
            pending
                .get(&self.hash(key))
                .map(|all| all.iter().map(|(variant, _)| *variant).collect())
                .unwrap_or_default(),
        )
    }

    fn hash(&self, key: &[u8]) -> u64 {
        xxhash_rust::xxh3::xxh3_64_with_seed(key, self.seed)
    }
}

/// The variants of a key that were removed.
pub(super) struct Hidden(Vec<Option<u8>>);

impl Hidden {
    pub(super) fn hides(&self, variant: u8) -> bool {
        self.0.iter().any(|hidden| hidden.is_none_or(|hidden| hidden == variant))
    }
}

/// Beyond as many, the whole shelf is cleared instead.
const PENDING_MAX: usize = 100_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_removed_variant_is_hidden_until_each_of_its_tombstones_is_written() {
        let removals = Removals::new(1);
        let one = removals.add(b"a", Some(1)).expect("there is room");
        let all = removals.add(b"a", None).expect("there is room");
        let hides = |key: &[u8], variant| removals.hidden(key).hides(variant);
        assert_eq!((hides(b"a", 1), hides(b"a", 2), hides(b"b", 1)), (true, true, false));
        removals.done(b"a", all);
        assert_eq!((hides(b"a", 1), hides(b"a", 2)), (true, false));
        removals.done(b"a", one);
        removals.done(b"a", one);
        assert!(!hides(b"a", 1));
    }

    #[test]
    fn there_is_a_bound() {
        let removals = Removals::new(1);
        for _ in 0..PENDING_MAX {
            removals.add(b"a", None);
        }
        assert_eq!(removals.add(b"a", None), None);
    }
}
