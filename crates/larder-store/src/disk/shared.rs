//! What the handles, readers, bodies and the writer of one shelf have in common: all but what is to be written.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::bans::Bans;
use super::files::Files;
use super::footer::Row;
use super::found::{Found, Place};
use super::health::{DiskState, Health};
use super::index::{Index, Slot};
use super::keys;
use super::readers::Readers;
use super::removals::Removals;
use super::segment::{Live, Segment};
use super::space::{DiskLimits, Space};
use super::stats::Counters;
use super::units::Units;
use crate::ghost::{Evicted, Ghost};

pub(super) struct Shared {
    pub(super) files: Arc<dyn Files>,
    pub(super) dir: PathBuf,
    pub(super) limits: Mutex<DiskLimits>,
    pub(super) health: Health,
    pub(super) index: Index,
    pub(super) live: Live,
    pub(super) space: Arc<Space>,
    pub(super) units: Units,
    pub(super) removals: Removals,
    pub(super) bans: Bans,
    pub(super) readers: Readers,
    pub(super) counters: Counters,
    /// What was evicted for lack of room. Of the last [`GHOST_MAX`] pages at most.
    pub(super) ghost: Mutex<Ghost>,
    /// A clear was asked for and is not done: nothing is found.
    pub(super) clears: AtomicUsize,
    /// How long an inline body and a slice may be.
    pub(super) slice_bytes: AtomicUsize,
    /// The most that one segment may hold now; 0 before the shelf is open.
    pub(super) segment_bytes: AtomicU64,
    /// The shelf's id from the superblock, which every record carries. Then the seed for hashes of keys.
    pub(super) id: AtomicU64,
    pub(super) seed: AtomicU64,
}

impl Shared {
    /// The hash of a key on this shelf. Never 0, which means "no key".
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

    /// Where the pages under `key` are, newest first. Reads memory only.
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

    /// Whether there may be a page under `key`. Does not count as a use. While the disk cannot be read, there may be.
    pub(super) fn may_have(&self, key: &[u8]) -> bool {
        if !self.health.reads() || self.clears.load(Ordering::Acquire) > 0 {
            return true;
        }
        let hidden = self.removals.hidden(key);
        let mut has = false;
        self.index.find(self.hash(key), 0, |slot| {
            has |= !hidden.hides(slot.variant);
            false
        });
        has
    }

    /// Whether the index has this variant. Does not count as a use.
    pub(super) fn has(&self, key: &[u8], variant: u8) -> bool {
        let is_here = self.health.reads() && self.clears.load(Ordering::Acquire) == 0;
        is_here && !self.removals.hidden(key).hides(variant) && self.index.get(self.hash(key), variant).is_some()
    }

    /// Remembers a page that leaves for lack of room.
    pub(super) fn remember_evicted(&self, row: &Row, slot: &Slot) {
        if self.units.is_inactive(slot.used_at) {
            return;
        }
        // A page stays for `inactive` after it can be used.
        let useful_until = row.expires_at.saturating_sub(self.limits().inactive.as_secs());
        let useful_until = u32::try_from(useful_until).unwrap_or(u32::MAX);
        let len = self.index.len().min(GHOST_MAX);
        self.ghost.lock().push(row.hash, Evicted { uses: slot.uses, useful_until }, len);
    }

    /// Notes that what was evicted under a key would have been removed by now.
    pub(super) fn make_evicted_useless(&self, key: &[u8]) {
        self.ghost.lock().make_useless(self.hash(key));
    }

    /// Removes a record that cannot be read from the index. It stays on disk until its segment is deleted.
    pub(super) fn drop_place(&self, hash: u64, place: &Place) {
        if self.index.remove_at(hash, place.variant, place.segment.number(), place.offset).is_some() {
            place.segment.set_haunted();
        }
    }

    /// Whether there may be pages that are not in the index: those are out of date too when they come to it.
    pub(super) fn is_unknown(&self) -> bool {
        match self.health.state() {
            DiskState::Opening | DiskState::Waiting | DiskState::Out => true,
            DiskState::Serving | DiskState::ReadOnly | DiskState::Stopped => false,
        }
    }

    /// The slot of a record in `segment`.
    pub(super) fn slot(&self, segment: &Segment, variant: u8, offset: u32, len: u32) -> Slot {
        Slot { variant, number: segment.number(), offset, len, used_at: self.units.unit(), uses: 0 }
    }

    /// Forgets everything about the folder.
    pub(super) fn forget(&self) {
        self.index.sweep(|_| false);
        self.live.clear();
    }
}

/// How many evicted pages are remembered at most: 8 MB.
const GHOST_MAX: usize = 1 << 20;
/// The most variants of one key that are looked at.
const VARIANTS_MAX: usize = 64;
