//! Removals whose tombstones are not on the disk yet: the removed pages must not be found meanwhile.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;

/// Removed keys, by a hash of this process, because the shelf's hash is unknown before it is open.
pub(super) struct Removals {
    seed: u64,
    count: AtomicUsize,
    next: AtomicU64,
    pending: Mutex<HashMap<u64, Vec<Pending>>>,
}

struct Pending {
    /// `None` for all variants.
    variant: Option<u8>,
    ticket: u64,
    /// No page of its key was accepted after it, so it removes all pages of the key.
    is_last: bool,
}

/// The result of [`Removals::add`].
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Added {
    /// Its tombstone has to be written; then call [`Removals::done`].
    Ticket(u64),
    /// A waiting removal already does the same.
    Already,
    TooMany,
}

impl Removals {
    pub(super) fn new(seed: u64) -> Self {
        Self { seed, count: AtomicUsize::new(0), next: AtomicU64::new(0), pending: Mutex::default() }
    }

    /// Hides a variant of `key`, or all, until [`Removals::done`] with the ticket. A page that is stored again and
    /// again while nothing can be written takes only one place.
    pub(super) fn add(&self, key: &[u8], variant: Option<u8>) -> Added {
        let hash = self.hash(key);
        let mut pending = self.pending.lock();
        let is_same = |pending: &Pending| pending.is_last && (pending.variant.is_none() || pending.variant == variant);
        if pending.get(&hash).is_some_and(|all| all.iter().any(is_same)) {
            return Added::Already;
        }
        if self.count.load(Ordering::Relaxed) >= PENDING_MAX {
            return Added::TooMany;
        }
        let ticket = self.next.fetch_add(1, Ordering::Relaxed);
        pending.entry(hash).or_default().push(Pending { variant, ticket, is_last: true });
        self.count.fetch_add(1, Ordering::Release);
        Added::Ticket(ticket)
    }

    /// Notes that a page with this hash was accepted for writing: later removals come after it.
    pub(super) fn taken(&self, hash: u64) {
        if self.count.load(Ordering::Acquire) == 0 {
            return;
        }
        if let Some(all) = self.pending.lock().get_mut(&hash) {
            all.iter_mut().for_each(|pending| pending.is_last = false);
        }
    }

    /// Notes that a tombstone was written, or is no longer needed.
    pub(super) fn done(&self, key: &[u8], ticket: u64) {
        let hash = self.hash(key);
        let mut pending = self.pending.lock();
        let Some(tickets) = pending.get_mut(&hash) else { return };
        let before = tickets.len();
        tickets.retain(|pending| pending.ticket != ticket);
        self.count.fetch_sub(before - tickets.len(), Ordering::Relaxed);
        if tickets.is_empty() {
            pending.remove(&hash);
        }
    }

    /// Which variants of `key` must not be found.
    pub(super) fn hidden(&self, key: &[u8]) -> Hidden {
        if self.count.load(Ordering::Acquire) == 0 {
            return Hidden(Vec::new());
        }
        let pending = self.pending.lock();
        Hidden(
            pending
                .get(&self.hash(key))
                .map(|all| all.iter().map(|pending| pending.variant).collect())
                .unwrap_or_default(),
        )
    }

    pub(super) fn hash(&self, key: &[u8]) -> u64 {
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

/// The most waiting removals. Beyond it, the whole shelf is cleared instead.
const PENDING_MAX: usize = 100_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn add(removals: &Removals, key: &[u8], variant: Option<u8>) -> u64 {
        match removals.add(key, variant) {
            Added::Ticket(ticket) => ticket,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_removed_variant_is_hidden_until_each_of_its_tombstones_is_written() {
        let removals = Removals::new(1);
        let one = add(&removals, b"a", Some(1));
        let all = add(&removals, b"a", None);
        let hides = |key: &[u8], variant| removals.hidden(key).hides(variant);
        assert_eq!((hides(b"a", 1), hides(b"a", 2), hides(b"b", 1)), (true, true, false));
        removals.done(b"a", all);
        assert_eq!((hides(b"a", 1), hides(b"a", 2)), (true, false));
        removals.done(b"a", one);
        removals.done(b"a", one);
        assert!(!hides(b"a", 1));
    }

    #[test]
    fn the_same_again_takes_no_place_unless_a_page_was_taken_in_between() {
        let removals = Removals::new(1);
        let one = add(&removals, b"a", Some(1));
        assert_eq!(removals.add(b"a", Some(1)), Added::Already);
        let (_, other) = (add(&removals, b"a", Some(2)), add(&removals, b"b", Some(1)));
        add(&removals, b"a", None);
        assert_eq!(removals.add(b"a", Some(3)), Added::Already, "all are removed");
        removals.taken(removals.hash(b"a"));
        let again = add(&removals, b"a", Some(1));
        removals.done(b"a", one);
        assert_eq!(removals.add(b"a", Some(1)), Added::Already);
        assert_eq!(removals.add(b"b", Some(1)), Added::Already);
        removals.done(b"a", again);
        removals.done(b"b", other);
        add(&removals, b"a", Some(1));
        add(&removals, b"b", Some(1));
    }

    #[test]
    fn there_is_a_bound() {
        let removals = Removals::new(1);
        for number in 0..PENDING_MAX {
            add(&removals, &number.to_le_bytes(), None);
        }
        assert_eq!(removals.add(b"a", None), Added::TooMany);
    }
}
