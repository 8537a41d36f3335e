//! Which keys were purged lately, for fetches that have no entry while they run: an entry that is purged knows of it
//! itself, and a fetch for nobody in particular gets its entry when its answer is there.
//!
//! A place of the table has the number of the last purge of one of its keys. So a page is refused too often, once in a
//! while, and never too seldom.

use std::collections::{HashMap, VecDeque};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

/// The purges of a zone, by key.
pub(crate) struct Stamps {
    newest: AtomicU64,
    /// Of keys by their beginnings, or all.
    of_many: AtomicU64,
    of_one: Box<[AtomicU64]>,
    /// Those of a while, where pages come whose fetch began long ago.
    recent: OnceLock<Mutex<Recent>>,
}

/// The last purges.
struct Recent {
    /// The number of the last purge that is not among them any more.
    before: u64,
    /// Oldest first.
    purges: VecDeque<(u64, What)>,
    /// The last purge of each key among them, by its hash.
    of_one: HashMap<u64, u64>,
    /// The beginnings among them: few.
    beginnings: VecDeque<(u64, Box<[u8]>)>,
}

enum What {
    One(u64),
    Many,
}

/// When a fetch began, in bans and purges of its zone: those that come later mean what it brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// The number of the newest ban.
    pub(crate) ban: u64,
    /// That of the newest purge.
    pub(crate) purge: u64,
}

impl Stamps {
    pub(crate) fn new() -> Self {
        let of_one = (0..PLACES).map(|_| AtomicU64::new(0)).collect();
        Self { newest: AtomicU64::new(0), of_many: AtomicU64::new(0), of_one, recent: OnceLock::new() }
    }

    /// Keeps what is purged from now on for a while.
    pub(crate) fn keep(&self) {
        self.recent.get_or_init(|| Mutex::new(Recent::new(self.newest())));
    }

    /// The number of the newest purge.
    pub(crate) fn newest(&self) -> u64 {
        self.newest.load(Ordering::Acquire)
    }

    /// Notes a purge of the keys with this hash, before they are dropped.
    pub(crate) fn purge(&self, hash: u64) {
        let number = self.next();
        self.place(hash).fetch_max(number, Ordering::AcqRel);
        if let Some(recent) = self.recent.get() {
            recent.lock().add_one(number, hash);
        }
    }

    /// Notes a purge of all keys that begin so, before they are dropped.
    pub(crate) fn purge_many(&self, beginning: &[u8]) {
        let number = self.next();
        self.of_many.fetch_max(number, Ordering::AcqRel);
        if let Some(recent) = self.recent.get() {
            recent.lock().add_many(number, beginning);
        }
    }

    /// The same as [`is_purged`](Self::is_purged) for purges that may be long ago. One that is too long ago for us to know
    /// means every key.
    pub(crate) fn was_purged(&self, key: &[u8], hash: u64, since: u64) -> bool {
        match self.recent.get() {
            Some(recent) => recent.lock().means(key, hash, since),
            None => self.is_purged(hash, since),
        }
    }

    /// Whether a key with this hash was purged after the purge of this number, or may have been.
    pub(crate) fn is_purged(&self, hash: u64, since: u64) -> bool {
        self.of_many.load(Ordering::Acquire) > since || self.place(hash).load(Ordering::Acquire) > since
    }

    fn next(&self) -> u64 {
        self.newest.fetch_add(1, Ordering::AcqRel) + 1
    }

    fn place(&self, hash: u64) -> &AtomicU64 {
        &self.of_one[hash as usize % PLACES]
    }
}

impl Recent {
    fn new(before: u64) -> Self {
        Self { before, purges: VecDeque::new(), of_one: HashMap::new(), beginnings: VecDeque::new() }
    }

    fn add_one(&mut self, number: u64, hash: u64) {
        let last = self.of_one.entry(hash).or_default();
        *last = number.max(*last);
        self.add(number, What::One(hash));
    }

    fn add_many(&mut self, number: u64, beginning: &[u8]) {
        self.beginnings.push_back((number, beginning.into()));
        self.add(number, What::Many);
        while self.beginnings.len() > BEGINNINGS_MAX {
            self.forget_first();
        }
    }

    fn add(&mut self, number: u64, what: What) {
        self.purges.push_back((number, what));
        while self.purges.len() > RECENT_MAX {
            self.forget_first();
        }
    }

    fn forget_first(&mut self) {
        let Some((number, what)) = self.purges.pop_front() else { return };
        self.before = number.max(self.before);
        match what {
            What::Many => drop(self.beginnings.pop_front()),
            What::One(hash) if self.of_one.get(&hash) == Some(&number) => drop(self.of_one.remove(&hash)),
            // It was purged again.
            What::One(_) => {}
        }
    }

    fn means(&self, key: &[u8], hash: u64, since: u64) -> bool {
        since < self.before
            || self.of_one.get(&hash).is_some_and(|last| *last > since)
            || self.beginnings.iter().any(|(number, beginning)| *number > since && key.starts_with(beginning))
    }
}

/// How many purges are kept: with two to five MB they are those of some minutes, or of days.
const RECENT_MAX: usize = 50_000;
/// How many beginnings of keys are: each is compared with the key of a page that comes.
const BEGINNINGS_MAX: usize = 1000;
/// 8 KB for a zone. With a hundred purges during a fetch, its page is refused for nothing once in ten times.
const PLACES: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_of_long_ago_is_purged_by_what_means_it_and_by_what_nobody_knows_any_more() {
        let stamps = Stamps::new();
        stamps.purge(1);
        let start = stamps.newest();
        stamps.keep();
        assert!(stamps.was_purged(b"a", 2, start - 1), "it is from before the first that is kept");
        assert!(!stamps.was_purged(b"a", 1, start));
        stamps.purge(7);
        // One of the same place of the table.
        stamps.purge(8 + PLACES as u64);
        let then = stamps.newest();
        for (hash, since, is_meant) in [(7, start, true), (7, then, false), (8, start, false), (9, start, false)] {
            assert_eq!(stamps.was_purged(b"a", hash, since), is_meant, "{hash} since {since}");
        }
        stamps.purge_many(b"site/");
        for (key, is_meant) in [(&b"site/a"[..], true), (b"site", false), (b"other/", false)] {
            assert_eq!(stamps.was_purged(key, 3, then), is_meant, "{key:?}");
        }
        // It is forgotten in its turn, but not what was purged again.
        (0..RECENT_MAX as u64).for_each(|at| stamps.purge(100 + at % 10));
        let late = stamps.newest();
        stamps.purge(7);
        assert!(stamps.was_purged(b"a", 3, then), "nobody knows it any more");
        assert!(stamps.was_purged(b"a", 7, late) && !stamps.was_purged(b"a", 3, late));
        (0..=BEGINNINGS_MAX).for_each(|at| stamps.purge_many(at.to_string().as_bytes()));
        assert!(stamps.was_purged(b"x", 3, late));
        let recent = stamps.recent.get().expect("it keeps").lock();
        assert_eq!((recent.beginnings.len(), recent.purges.len()), (BEGINNINGS_MAX, BEGINNINGS_MAX));
        assert!(recent.of_one.is_empty());
    }
}
