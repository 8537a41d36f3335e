//! One cache, as a `*_cache_path` declares it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use larder_http::Time;
use larder_store::{Body, BodyWriter, MemoryShelf, Reservation, SLOT_BYTES, ShelfLimits, Spill, body};
use parking_lot::Mutex;

use crate::entry::Entry;
use crate::front::Front;
use crate::key::KeyRef;
use crate::lookup::Rules;
use crate::permit::Permit;
use crate::stats::{Counts, SharedCounts, ZoneStats};

/// The limits of a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZoneLimits {
    /// The bytes it may hold.
    pub bytes_max: u64,
    /// How long an entry stays that nobody uses.
    pub inactive: Duration,
}

/// A cache: entries under keys, on a shelf in memory.
pub struct Zone {
    /// Told apart from every other zone of the process, so that one `Front` serves them all.
    id: u64,
    name: Box<str>,
    shelf: MemoryShelf<Entry>,
    inactive_secs: AtomicU64,
    /// How old the noted time of the last use must be before it is noted again: seldom, so that a hot entry
    /// is not written; often enough that it is off by a sixteenth of `inactive` at most.
    use_step_secs: AtomicU64,
    pub(crate) counts: SharedCounts,
    /// The counts of each worker, and below them what workers counted that are gone.
    workers: Mutex<Workers>,
}

#[derive(Default)]
struct Workers {
    live: Vec<Arc<Counts>>,
    gone: ZoneStats,
}

impl Zone {
    /// An empty zone.
    pub fn new(name: impl Into<Box<str>>, limits: ZoneLimits) -> Arc<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Arc::new(Self {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            name: name.into(),
            shelf: MemoryShelf::new(ShelfLimits { bytes_max: limits.bytes_max }),
            inactive_secs: AtomicU64::new(limits.inactive.as_secs()),
            use_step_secs: AtomicU64::new(use_step_secs(limits.inactive)),
            counts: SharedCounts::default(),
            workers: Mutex::default(),
        })
    }

    /// Its name in the configuration.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Takes new limits; what it holds stays as far as it fits.
    pub fn adjust(&self, limits: ZoneLimits) {
        let secs = limits.inactive.as_secs();
        self.inactive_secs.store(secs, Ordering::Relaxed);
        let step = use_step_secs(limits.inactive);
        self.use_step_secs.store(step, Ordering::Relaxed);
        self.shelf.adjust(ShelfLimits { bytes_max: limits.bytes_max });
    }

    /// A permit to store one response under `key` without a lookup, as for a bypassed cache.
    ///
    /// Nobody waits for it, and the last response to be complete wins. `None` when the zone has no room.
    pub fn permit(self: &Arc<Self>, front: &mut Front, key: &KeyRef<'_>, rules: &Rules, now: Time) -> Option<Permit> {
        let entry = front.entry(self.id, key, || self.entry(key, now))?;
        Some(Permit::plain(self, entry, rules))
    }

    /// Takes `bytes` of its room for a body, letting others go if need be.
    pub fn reserve(&self, bytes: usize) -> Option<Reservation> {
        self.shelf.reserve(bytes)
    }

    /// A body to store here. `len` is what is known of its length, for room taken at once.
    ///
    /// It is unstored from the start when the zone has no room for it.
    pub fn body(&self, len: Option<u64>, spill: Option<Spill>) -> (BodyWriter, Body) {
        let len = usize::try_from(len.unwrap_or(0)).ok();
        body(len.and_then(|len| self.shelf.reserve(len)), spill)
    }

    /// Drops every variant of a key and gives their number. A fetch that runs will not be stored.
    pub fn purge(&self, key: &KeyRef<'_>) -> usize {
        let Some(entry) = self.shelf.get(key.shelf_hash(), key.bytes()) else {
            return 0;
        };
        let variants = entry.variants_len();
        self.shelf.remove(key.shelf_hash(), key.bytes());
        self.counts.purged.fetch_add(variants as u64, Ordering::Relaxed);
        variants
    }

    /// Lets go of some of what nobody used for the time of `inactive`; for a timer of about a second.
    pub fn sweep(&self, now: Time) {
        // The noted time may be older than the last use by as much as a step.
        let inactive = self.inactive_secs.load(Ordering::Relaxed) + self.use_step_secs();
        let now = now.secs();
        self.shelf.sweep(SWEEP_ENTRIES, |entry| entry.is_at_work() || now.saturating_sub(entry.used_at()) <= inactive);
    }

    /// What it has counted, and what it holds.
    pub fn stats(&self) -> ZoneStats {
        let shelf = self.shelf.stats();
        let mut stats = self.workers.lock().sum();
        stats.stored = self.counts.stored.load(Ordering::Relaxed);
        stats.freshened = self.counts.freshened.load(Ordering::Relaxed);
        stats.withdrawn = self.counts.withdrawn.load(Ordering::Relaxed);
        stats.uncacheable = self.counts.uncacheable.load(Ordering::Relaxed);
        stats.purged = self.counts.purged.load(Ordering::Relaxed);
        stats.forms = self.counts.forms.load(Ordering::Relaxed);
        stats.forms_unwanted = self.counts.forms_unwanted.load(Ordering::Relaxed);
        stats.forms_refused = self.counts.forms_refused.load(Ordering::Relaxed);
        stats.evicted = shelf.evicted;
        stats.inactive = shelf.swept;
        stats.refused = shelf.refused;
        stats.entries = shelf.len;
        stats.bytes = shelf.used;
        stats.bytes_max = shelf.bytes_max;
        stats
    }

    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    pub(crate) fn new_counts(&self) -> Arc<Counts> {
        let counts = Arc::new(Counts::default());
        self.workers.lock().live.push(Arc::clone(&counts));
        counts
    }

    /// The entry of `key`, a new one if need be; `None` when there is no room for it.
    pub(crate) fn entry(&self, key: &KeyRef<'_>, now: Time) -> Option<Arc<Entry>> {
        let hash = key.shelf_hash();
        if let Some(entry) = self.shelf.get(hash, key.bytes()) {
            return Some(entry);
        }
        let bytes = Entry::overhead(key) + SLOT_BYTES;
        let reservation = self.shelf.reserve(bytes)?;
        Some(self.shelf.get_or_insert_with(hash, key.bytes(), || Arc::new(Entry::new(self.id, key, now, reservation))))
    }

    /// Tells the shelf that an entry's weight changed. Not to be called with an entry locked.
    pub(crate) fn reweigh(&self, entry: &Entry) {
        self.shelf.reweigh(entry);
    }

    #[inline]
    pub(crate) fn use_step_secs(&self) -> u64 {
        self.use_step_secs.load(Ordering::Relaxed)
    }

    #[cfg(test)]
    pub(crate) fn shelf(&self) -> &MemoryShelf<Entry> {
        &self.shelf
    }
}

impl Workers {
    fn sum(&mut self) -> ZoneStats {
        let gone = &mut self.gone;
        self.live.retain(|counts| {
            let live = Arc::strong_count(counts) > 1;
            if !live {
                counts.add_to(gone);
            }
            live
        });
        let mut sum = self.gone;
        self.live.iter().for_each(|counts| counts.add_to(&mut sum));
        sum
    }
}

impl std::fmt::Debug for Zone {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Zone").field("name", &self.name).finish_non_exhaustive()
    }
}

fn use_step_secs(inactive: Duration) -> u64 {
    (inactive.as_secs() / 16).max(1)
}

/// How many entries one sweep looks at.
const SWEEP_ENTRIES: usize = 16 * 1024;
