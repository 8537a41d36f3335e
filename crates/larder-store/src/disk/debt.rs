//! What a shelf owes: pages that are in memory and not yet on the disk, because the disk was too slow.
//!
//! An owed page may be evicted from memory, replaced or removed; then it is not written. The others are written when
//! the writer has nothing else to do, oldest first. While pages are owed, new pages queue behind them: so the log has
//! the order in which pages were stored, which is the order in which they are evicted.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::page::Owed;

/// How much a shelf owes. It writes this into its folder, for `larder cache`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DebtNote {
    /// Pages in memory that are not yet written.
    pub pages: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl DebtNote {
    /// A text of fixed length.
    pub(super) fn encode(self) -> String {
        format!("{:>20} {:>20}\n", self.pages, self.bytes)
    }

    pub(super) fn parse(text: &[u8]) -> Option<Self> {
        let mut numbers = std::str::from_utf8(text).ok()?.split_ascii_whitespace().map(str::parse);
        let note = Self { pages: numbers.next()?.ok()?, bytes: numbers.next()?.ok()? };
        numbers.next().is_none().then_some(note)
    }
}

/// How much is owed.
#[derive(Default)]
pub(super) struct Sums {
    pages: AtomicU64,
    bytes: AtomicU64,
}

impl Sums {
    pub(super) fn note(&self) -> DebtNote {
        DebtNote { pages: self.pages(), bytes: self.bytes() }
    }

    pub(super) fn pages(&self) -> u64 {
        self.pages.load(Ordering::Relaxed)
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

/// One page's part of [`Sums`], until the page is written or given up.
pub(super) struct Due {
    sums: Arc<Sums>,
    bytes: u64,
}

impl Due {
    pub(super) fn new(sums: &Arc<Sums>, bytes: u64) -> Self {
        sums.pages.fetch_add(1, Ordering::Relaxed);
        sums.bytes.fetch_add(bytes, Ordering::Relaxed);
        Self { sums: Arc::clone(sums), bytes }
    }
}

impl Drop for Due {
    fn drop(&mut self) {
        self.sums.pages.fetch_sub(1, Ordering::Relaxed);
        self.sums.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// An owed page, and when it was stored.
pub(super) struct Debt {
    pub(super) owed: Box<dyn Owed>,
    pub(super) now: u64,
    pub(super) due: Due,
}

/// The owed pages, oldest first.
#[derive(Default)]
pub(super) struct Debts {
    list: VecDeque<Debt>,
    bytes: u64,
}

impl Debts {
    /// Adds one. Returns the oldest ones that are too many for a disk of `bytes_max`: the disk would evict them before
    /// it has written the later ones.
    pub(super) fn add(&mut self, debt: Debt, bytes_max: u64) -> Vec<Debt> {
        self.bytes += debt.due.bytes;
        self.list.push_back(debt);
        let mut over = Vec::new();
        while self.list.len() > DEBTS_MAX || self.bytes > bytes_max {
            over.extend(self.next());
        }
        over
    }

    /// Removes and returns the oldest.
    pub(super) fn next(&mut self) -> Option<Debt> {
        let debt = self.list.pop_front()?;
        self.bytes -= debt.due.bytes;
        Some(debt)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Puts `older` before these.
    pub(super) fn put_back(&mut self, mut older: Self) {
        older.list.append(&mut self.list);
        older.bytes += self.bytes;
        *self = older;
    }

    /// Removes and returns the pages that are no longer in memory.
    pub(super) fn prune(&mut self) -> Vec<Debt> {
        let mut over = Vec::new();
        for _ in 0..self.list.len() {
            match self.next() {
                Some(debt) if debt.owed.is_there() => {
                    self.bytes += debt.due.bytes;
                    self.list.push_back(debt);
                }
                gone => over.extend(gone),
            }
        }
        over
    }
}

/// The most owed pages. Beyond it, the oldest are given up.
const DEBTS_MAX: usize = 65_536;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::page::Payable;

    struct Page(bool);

    impl Owed for Page {
        fn page(&self) -> Payable {
            Payable::Gone
        }

        fn is_there(&self) -> bool {
            self.0
        }
    }

    fn debt(sums: &Arc<Sums>, now: u64, bytes: u64) -> Debt {
        Debt { owed: Box::new(Page(now.is_multiple_of(2))), now, due: Due::new(sums, bytes) }
    }

    #[test]
    fn a_note_is_read_as_it_was_written() {
        for note in [DebtNote { pages: 1, bytes: 0 }, DebtNote { pages: u64::MAX, bytes: u64::MAX }] {
            assert_eq!((note.encode().len(), DebtNote::parse(note.encode().as_bytes())), (42, Some(note)));
        }
        for text in ["", "1", "1 2 3", "one 2", "-1 2"] {
            assert_eq!(DebtNote::parse(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn the_oldest_come_first_and_go_when_they_are_too_many() {
        let sums = Arc::new(Sums::default());
        let mut debts = Debts::default();
        for now in 0..10 {
            assert!(debts.add(debt(&sums, now, 10), 100).is_empty());
        }
        let over = debts.add(debt(&sums, 10, 15), 100);
        assert_eq!(over.iter().map(|debt| debt.now).collect::<Vec<_>>(), [0, 1]);
        drop(over);
        assert_eq!((sums.pages(), sums.bytes()), (9, 95));
        let older = std::mem::take(&mut debts);
        debts.add(debt(&sums, 11, 1), 100);
        debts.put_back(older);
        assert_eq!(debts.prune().len(), 5);
        let left: Vec<u64> = std::iter::from_fn(|| debts.next()).map(|debt| debt.now).collect();
        assert_eq!((left, sums.pages(), sums.bytes()), (vec![2, 4, 6, 8, 10], 0, 0));
        for now in 0..=DEBTS_MAX as u64 {
            let over = debts.add(debt(&sums, now, 0), 0);
            assert_eq!(over.len(), usize::from(now == DEBTS_MAX as u64));
        }
    }
}
