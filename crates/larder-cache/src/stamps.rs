//! Which keys were purged lately, for fetches that have no entry while they run: an entry that is purged knows of it
//! itself, and a fetch for nobody in particular gets its entry when its answer is there.
//!
//! A place of the table has the number of the last purge of one of its keys. So a page is refused too often, once in a
//! while, and never too seldom.

use std::sync::atomic::{AtomicU64, Ordering};

/// The purges of a zone, by key.
pub(crate) struct Stamps {
    newest: AtomicU64,
    /// Of keys by their beginnings, or all.
    of_many: AtomicU64,
    of_one: Box<[AtomicU64]>,
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
        Self { newest: AtomicU64::new(0), of_many: AtomicU64::new(0), of_one }
    }

    /// The number of the newest purge.
    pub(crate) fn newest(&self) -> u64 {
        self.newest.load(Ordering::Acquire)
    }

    /// Notes a purge of the keys with this hash, before they are dropped.
    pub(crate) fn purge(&self, hash: u64) {
        self.place(hash).fetch_max(self.next(), Ordering::AcqRel);
    }

    /// Notes a purge of who knows which keys, before they are dropped.
    pub(crate) fn purge_many(&self) {
        self.of_many.fetch_max(self.next(), Ordering::AcqRel);
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

/// 8 KB for a zone. With a hundred purges during a fetch, its page is refused for nothing once in ten times.
const PLACES: usize = 1024;
