//! What the handles, readers and the writer of one shelf have in common.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::bans::{BANS_SHARE, Bans};
use super::debt::{Debt, Due, Sums};
use super::files::Files;
use super::found::{Found, Place};
use super::health::{DiskState, Health};
use super::index::{Index, Slot};
use super::keys;
use super::page::Hold;
use super::queue::{Command, Queue, Removal};
use super::readers::Readers;
use super::removals::{Added, Removals};
use super::segment::{Live, Segment};
use super::space::{DiskLimits, Space};
use super::stats::Counters;
use super::units::Units;

pub(super) struct Shared {
    pub(super) files: Arc<dyn Files>,
    pub(super) dir: PathBuf,
    pub(super) limits: Mutex<DiskLimits>,
    pub(super) health: Health,
    pub(super) queue: Queue,
    pub(super) queue_bytes_max: usize,
    pub(super) index: Index,
    pub(super) live: Live,
    pub(super) space: Arc<Space>,
    pub(super) units: Units,
    pub(super) removals: Removals,
    pub(super) bans: Bans,
    pub(super) readers: Readers,
    pub(super) counters: Counters,
    pub(super) owes: Arc<Sums>,
    /// A clear was asked for and is not done: nothing is found.
    pub(super) clears: AtomicUsize,
    /// A tick waits in the queue.
    pub(super) is_ticking: AtomicBool,
    /// How long an inline body and a slice may be.
    pub(super) slice_bytes: AtomicUsize,
    /// The most that one segment may hold now; 0 before the shelf is open.
    pub(super) segment_bytes: AtomicU64,
    /// From the superblock: what every record carries, and what keys are hashed with.
    pub(super) id: AtomicU64,
    pub(super) seed: AtomicU64,
}

impl Shared {
    /// The hash of a key on this shelf. Never 0, which is for no key.
    pub(super) fn hash(&self, key: &[u8]) -> u64 {
        keys::hash(key, self.seed())
    }

    pub(super) fn seed(&self) -> u64 {
        self.seed.load(Ordering::Relaxed)
    }

    pub(super) fn id(&self) -> u64 {
        self.id.load(Ordering::Relaxed)
    }

    pub(super) fn limits(&self) -> DiskLimits {
        *self.limits.lock()
    }

    /// Where the pages under `key` lie, newest first. Looks at memory only.
    pub(super) fn find(&self, key: &[u8], now: u64) -> Found {
        let unit = self.units.tell(now);
        if !self.health.reads() || self.clears.load(Ordering::Acquire) > 0 {
            return Found::nothing(now);
        }
        let hash = self.hash(key);
        let hidden = self.removals.hidden(key);
        let mut places: Vec<Place> = Vec::new();
        self.index.find(hash, unit, |slot| {
            if hidden.hides(slot.variant) || self.units.is_inactive(slot.used_at) || places.len() == VARIANTS_MAX {
                return false;
            }
            let Some(segment) = self.live.numbered(slot.number) else { return false };
            segment.touch(unit);
            places.push(Place { segment, variant: slot.variant, offset: slot.offset, len: slot.len });
            true
        });
        places.sort_by_key(|place| std::cmp::Reverse((place.segment.sequence, place.offset)));
        Found { hash, now, places }
    }

    /// Takes a record out of the index that cannot be read. It stays on the disk until its segment goes.
    pub(super) fn drop_place(&self, hash: u64, place: &Place) {
        if self.index.remove_at(hash, place.variant, place.segment.number(), place.offset).is_some() {
            place.segment.set_haunted();
        }
    }

    /// Removes pages from what can be found, and asks for a tombstone.
    pub(super) fn remove(&self, key: &[u8], variant: Option<u8>, now: u64) -> usize {
        self.units.tell(now);
        // Hidden first: what is put into the index from now on, of older pages, is hidden too.
        let added = self.removals.add(key, variant);
        let removed = self.index.remove(self.hash(key), variant);
        match added {
            Added::Ticket(ticket) => {
                self.counters.removed.add(removed as u64);
                self.queue.push(Command::Remove(Removal { key: key.into(), variant, now, ticket }));
            }
            Added::Already => self.counters.removed.add(removed as u64),
            // One that is due already is enough while nothing is stored.
            Added::TooMany if self.health.writes() || self.clears.load(Ordering::Acquire) == 0 => self.clear(),
            Added::TooMany => {}
        }
        removed
    }

    /// Hides every page whose key begins with `prefix`.
    pub(super) fn ban(&self, prefix: &[u8], now: u64) {
        self.units.tell(now);
        let bytes_max = self.limits().bytes_max.map_or(u64::MAX, |max| max / BANS_SHARE);
        match self.bans.add(prefix, bytes_max) {
            Some(ticket) => self.queue.push(Command::Ban { ticket, prefix: prefix.into() }),
            None => self.clear(),
        }
    }

    /// A page is not stored: an older one under its key is out of date all the same, and goes.
    pub(super) fn not_stored(&self, key: &[u8], variant: u8, now: u64) {
        if self.is_unknown() {
            self.remove(key, Some(variant), now);
        } else {
            self.remove_found(key, variant, now);
        }
    }

    /// A page is not written now: it is owed, if whoever keeps it can give it again. False when it is not.
    pub(super) fn owe(&self, holds: &Option<Box<dyn Hold>>, bytes: u64, now: u64) -> bool {
        let Some(owed) = holds.as_ref().and_then(|holds| holds.owe()) else { return false };
        let debt = Debt { owed, now, due: Due::new(&self.owes, bytes) };
        let over = self.queue.owe(debt, self.limits().bytes_max.unwrap_or(u64::MAX));
        self.counters.skipped_queue.add(over.len() as u64);
        true
    }

    /// Removes a variant of a page, if the index has it.
    pub(super) fn remove_found(&self, key: &[u8], variant: u8, now: u64) {
        if self.index.get(self.hash(key), variant).is_some() {
            self.remove(key, Some(variant), now);
        }
    }

    /// Whether there may be pages that are not in the index: those are out of date too when they come to it.
    pub(super) fn is_unknown(&self) -> bool {
        match self.health.state() {
            DiskState::Opening | DiskState::Waiting | DiskState::Out => true,
            DiskState::Serving | DiskState::ReadOnly | DiskState::Stopped => false,
        }
    }

    /// Hides everything until the writer has removed it.
    pub(super) fn clear(&self) {
        self.clears.fetch_add(1, Ordering::AcqRel);
        self.queue.push(Command::Clear);
    }

    /// The slot of a record in `segment`.
    pub(super) fn slot(&self, segment: &Segment, variant: u8, offset: u32, len: u32) -> Slot {
        Slot { variant, number: segment.number(), offset, len, used_at: self.units.unit(), uses: 0 }
    }

    /// Lets go of everything that is known of the folder.
    pub(super) fn forget(&self) {
        self.index.sweep(|_| false);
        self.live.clear();
    }
}

/// As many variants of one key are looked at.
const VARIANTS_MAX: usize = 64;
