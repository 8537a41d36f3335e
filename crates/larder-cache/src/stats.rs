//! What a zone counts. Hits are counted by each worker for itself, and added up when someone asks.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// What a zone counted since it was made, and what it holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ZoneStats {
    /// Lookups answered by a fresh object.
    pub hits: u64,
    /// Lookups that found a stale object and got the permit to refetch it.
    pub stale: u64,
    /// Lookups that found a stale object while another refetched it.
    pub updating: u64,
    /// Lookups that found nothing and were to fetch.
    pub misses: u64,
    /// Lookups that were to wait for another's fetch.
    pub waits: u64,
    /// Lookups that were to wait for a disk.
    pub loads: u64,
    /// Lookups of keys that were not asked for often enough yet.
    pub scarce: u64,
    /// Objects that became variants.
    pub stored: u64,
    /// Objects that were confirmed by their origin.
    pub freshened: u64,
    /// Objects that were begun and could not be kept: failed, too big, or purged meanwhile.
    pub withdrawn: u64,
    /// Responses that were not to be stored.
    pub uncacheable: u64,
    /// Variants that were purged.
    pub purged: u64,
    /// Forms of bodies that were made and kept.
    pub forms: u64,
    /// Forms that were no smaller than the body, or could not be made.
    pub forms_unwanted: u64,
    /// Forms that there was no room for.
    pub forms_refused: u64,
    /// Objects that were read from a disk.
    pub loaded: u64,
    /// Entries that left to make room, of all zones that share the memory.
    pub evicted: u64,
    /// Entries that nobody used for the time of `inactive`, likewise.
    pub inactive: u64,
    /// Times there was no room for something, likewise.
    pub refused: u64,
    /// Entries now.
    pub entries: usize,
    /// Bytes now, of all zones that share the memory; pages that left and are still being sent included.
    pub bytes: u64,
    /// The most bytes there may be.
    pub bytes_max: u64,
}

/// What a lookup came to.
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

/// One worker's counts for one zone; written by that worker only, on cache lines of their own.
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
        // One writer, so no locked instruction.
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

/// What happens off the hit path, counted for all workers together.
#[derive(Debug, Default)]
pub(crate) struct SharedCounts {
    pub(crate) stored: AtomicU64,
    pub(crate) freshened: AtomicU64,
    pub(crate) withdrawn: AtomicU64,
    pub(crate) uncacheable: AtomicU64,
    pub(crate) purged: AtomicU64,
    pub(crate) forms: AtomicU64,
    pub(crate) loaded: AtomicU64,
    pub(crate) forms_unwanted: AtomicU64,
    pub(crate) forms_refused: AtomicU64,
}

/// What a zone has of the memory that it may share.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Entries on the shelf.
    pub(crate) entries: AtomicUsize,
}
