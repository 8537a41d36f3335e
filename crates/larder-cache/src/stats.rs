//! The counters of a zone. Each worker counts its own hits; they are added up when the metrics are read.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::tag_index::TagIndex;

/// A zone's counters since it was made, and its size now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ZoneStats {
    /// Lookups answered by a fresh object.
    pub hits: u64,
    /// Lookups that found a stale object and got the permit to refetch it.
    pub stale: u64,
    /// Lookups that found a stale object while another refetched it.
    pub updating: u64,
    /// Lookups that found nothing, so that the request fetched.
    pub misses: u64,
    /// Lookups that had to wait for another request's fetch.
    pub waits: u64,
    /// Lookups that had to wait for a disk.
    pub loads: u64,
    /// Lookups of keys below `min_uses`.
    pub scarce: u64,
    /// Objects that became variants.
    pub stored: u64,
    /// Objects that their origin confirmed by a 304.
    pub freshened: u64,
    /// Objects that were begun but not kept: failed, too big, or purged meanwhile.
    pub withdrawn: u64,
    /// Responses that may not be stored.
    pub uncacheable: u64,
    /// Variants that were purged.
    pub purged: u64,
    /// Compressed forms that were made and kept.
    pub forms: u64,
    /// Forms that were no smaller than the body, or could not be made.
    pub forms_unwanted: u64,
    /// Forms that found no room.
    pub forms_refused: u64,
    /// Objects that were read from a disk.
    pub loaded: u64,
    /// Entries that were evicted, of all zones that share the memory.
    pub evicted: u64,
    /// Pages that were fetched again, after they had left memory for others, while they would still have been fresh; without
    /// those that a disk has lost as well.
    pub evicted_wanted: u64,
    /// Entries that were not used for `inactive`, of all zones that share the memory.
    pub inactive: u64,
    /// How often there was no room for something, for all zones that share the memory.
    pub refused: u64,
    /// Entries now.
    pub entries: usize,
    /// Variants of these entries now.
    pub objects: usize,
    /// Bytes now, of all zones that share the memory; dropped pages that are still being sent included.
    pub bytes: u64,
    /// The limit for `bytes`.
    pub bytes_max: u64,
}

/// The result of a lookup, to be counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    Hit,
    Stale,
    Updating,
    Miss,
    Wait,
    Load,
    Scarce,
}

/// One worker's counts for one zone. Only that worker writes them; they have cache lines of their own.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Counts {
    hits: AtomicU64,
    stale: AtomicU64,
    updating: AtomicU64,
    misses: AtomicU64,
    waits: AtomicU64,
    loads: AtomicU64,
    scarce: AtomicU64,
}

impl Counts {
    pub(crate) fn add(&self, event: Event) {
        let count = match event {
            Event::Hit => &self.hits,
            Event::Stale => &self.stale,
            Event::Updating => &self.updating,
            Event::Miss => &self.misses,
            Event::Wait => &self.waits,
            Event::Load => &self.loads,
            Event::Scarce => &self.scarce,
        };
        // There is one writer, so this needs no atomic add.
        count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// Adds these counts to `stats`.
    pub(crate) fn add_to(&self, stats: &mut ZoneStats) {
        stats.hits += self.hits.load(Ordering::Relaxed);
        stats.stale += self.stale.load(Ordering::Relaxed);
        stats.updating += self.updating.load(Ordering::Relaxed);
        stats.misses += self.misses.load(Ordering::Relaxed);
        stats.waits += self.waits.load(Ordering::Relaxed);
        stats.loads += self.loads.load(Ordering::Relaxed);
        stats.scarce += self.scarce.load(Ordering::Relaxed);
    }
}

/// Counters of events off the hit path, which all workers share.
#[derive(Debug, Default)]
pub(crate) struct SharedCounts {
    pub(crate) stored: AtomicU64,
    pub(crate) freshened: AtomicU64,
    pub(crate) withdrawn: AtomicU64,
    pub(crate) uncacheable: AtomicU64,
    pub(crate) purged: AtomicU64,
    pub(crate) evicted_wanted: AtomicU64,
    pub(crate) forms: AtomicU64,
    pub(crate) loaded: AtomicU64,
    pub(crate) forms_unwanted: AtomicU64,
    pub(crate) forms_refused: AtomicU64,
}

/// A zone's part of a memory that it may share with others.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Entries on the shelf.
    pub(crate) entries: AtomicUsize,
    /// Variants of these.
    pub(crate) objects: AtomicUsize,
    /// By which tags these are found.
    pub(crate) tags: TagIndex,
}
