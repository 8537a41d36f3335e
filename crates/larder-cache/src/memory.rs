//! The memory that zones keep their pages in.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use larder_http::Time;
use larder_store::{Buffers, MemoryShelf, Reservation, ShelfLimits, ShelfStats};
use parking_lot::Mutex;

use crate::entry::Entry;
use crate::zone::Zone;

/// Memory with a hard limit, for one zone or for several. Zones that share it compete: the pages that are worth most
/// stay, whichever zone they belong to.
pub struct Memory {
    shelf: MemoryShelf<Entry>,
    bytes_max: AtomicU64,
    zones: Mutex<Vec<Weak<Zone>>>,
}

impl Memory {
    /// Empty memory with a limit of `bytes_max`, for pages and everything that is kept with them.
    pub fn new(bytes_max: u64) -> Arc<Self> {
        Arc::new(Self {
            shelf: MemoryShelf::new(ShelfLimits { bytes_max }),
            bytes_max: AtomicU64::new(bytes_max),
            zones: Mutex::default(),
        })
    }

    /// Changes the limit, and evicts what no longer fits. Bodies that are being sent are freed when they have been
    /// sent.
    pub fn adjust(&self, bytes_max: u64) {
        self.bytes_max.store(bytes_max, Ordering::Relaxed);
        self.shelf.adjust(ShelfLimits { bytes_max });
    }

    /// Drops some of the entries that were not used for `inactive` of their zone, or whose zone is gone. A timer calls
    /// it about once a second. Lookups do not depend on it: they ignore an entry that was not used for so long.
    pub fn sweep(&self, now: Time) {
        let mut limits = Vec::new();
        self.zones.lock().retain(|zone| {
            let zone = zone.upgrade();
            limits.extend(zone.as_ref().map(|zone| (zone.era(), zone.unused_secs_max())));
            zone.is_some()
        });
        let now = now.secs();
        self.shelf.free_idle();
        self.shelf.sweep(SWEEP_ENTRIES, |entry| {
            let limit = limits.iter().find(|(era, _)| *era == entry.era());
            let is_used = limit.is_some_and(|(_, secs)| now.saturating_sub(entry.used_at()) <= *secs);
            entry.is_at_work() || is_used
        });
    }

    /// The bytes that pages take, dropped ones that are still being sent included.
    pub fn used(&self) -> u64 {
        self.shelf.used()
    }

    /// Its size and its counters.
    pub fn stats(&self) -> ShelfStats {
        self.shelf.stats()
    }

    pub(crate) fn bytes_max(&self) -> u64 {
        self.bytes_max.load(Ordering::Relaxed)
    }

    pub(crate) fn shelf(&self) -> &MemoryShelf<Entry> {
        &self.shelf
    }

    pub(crate) fn reserve(&self, bytes: usize) -> Option<Reservation> {
        self.shelf.reserve(bytes)
    }

    /// As [`reserve`](Self::reserve), with buffers that were used before.
    pub(crate) fn reserve_with_buffers(&self, bytes: usize) -> Option<(Reservation, Buffers)> {
        self.shelf.reserve_with_buffers(bytes)
    }

    pub(crate) fn serve(&self, zone: &Arc<Zone>) {
        self.zones.lock().push(Arc::downgrade(zone));
    }
}

impl std::fmt::Debug for Memory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Memory").field("stats", &self.stats()).finish_non_exhaustive()
    }
}

/// How many entries one sweep looks at.
const SWEEP_ENTRIES: usize = 16 * 1024;
