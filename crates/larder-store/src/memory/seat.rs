//! What the shelf notes in each thing that it keeps: its place, its uses, and the cost of a miss.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};

use super::slab::NOWHERE;
use super::worth::USES_MAX;

/// What the shelf notes in a thing that it keeps: its hash, its place, its cost, and how often it was used lately.
///
/// It is a field of the thing, so that a holder can note a use without the shelf.
pub struct Seat {
    hash: u64,
    /// Microseconds of origin time that a miss costs; 0 is unknown.
    cost_micros: AtomicU32,
    /// Uses since it was put on the shelf or last looked at, saturating at [`NEW_USES_MAX`].
    uses: AtomicU8,
    gone: AtomicBool,
    /// If an earlier thing of its key was evicted lately: until when that could have been used, seconds since 1970.
    left_until: AtomicU32,
    /// The node on the ladder, or [`NOWHERE`]. Written under the lock of the ladder only.
    node: AtomicU32,
}

impl Seat {
    /// The seat of a thing that is not on a shelf yet.
    pub fn new(hash: u64) -> Self {
        Self {
            hash,
            cost_micros: AtomicU32::new(0),
            uses: AtomicU8::new(0),
            gone: AtomicBool::new(false),
            left_until: AtomicU32::new(0),
            node: AtomicU32::new(NOWHERE),
        }
    }

    /// The hash of the key.
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// What a miss costs, in microseconds of origin time; 0 if unknown.
    pub fn cost_micros(&self) -> u32 {
        self.cost_micros.load(Ordering::Relaxed)
    }

    /// Sets what a miss costs, in microseconds of origin time. 0 means unknown, which counts as typical.
    ///
    /// The shelf reads it when the thing is put there, at [`super::MemoryShelf::reweigh`], and when it chooses what to
    /// evict.
    pub fn set_cost_micros(&self, micros: u32) {
        self.cost_micros.store(micros, Ordering::Relaxed);
    }

    /// Notes a use. Of a hot thing it writes nothing, because the count has reached its maximum.
    #[inline]
    pub fn touch(&self) {
        let uses = self.uses.load(Ordering::Relaxed);
        // If two threads lose an update, that costs one count of eleven; an atomic add would cost every hit.
        if uses < NEW_USES_MAX {
            self.uses.store(uses + 1, Ordering::Relaxed);
        }
    }

    /// Whether the shelf has dropped it.
    #[inline]
    pub fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Acquire)
    }

    pub(super) fn set_gone(&self) {
        self.gone.store(true, Ordering::Release);
    }

    /// How many uses were noted since the shelf has last looked at it, up to the most that count.
    pub fn uses(&self) -> u8 {
        self.uses.load(Ordering::Relaxed)
    }

    /// If an earlier thing of its key was evicted lately: until when that could have been used, in seconds since 1970;
    /// else 0. Told once.
    pub fn take_left_until(&self) -> u32 {
        // Of most there is nothing to be told, and nothing is written.
        if self.left_until.load(Ordering::Relaxed) == 0 { 0 } else { self.left_until.swap(0, Ordering::Relaxed) }
    }

    pub(super) fn set_left_until(&self, until: u32) {
        self.left_until.store(until, Ordering::Relaxed);
    }

    pub(super) fn set_uses(&self, uses: u8) {
        self.uses.store(uses, Ordering::Relaxed);
    }

    pub(super) fn node(&self) -> Option<u32> {
        let node = self.node.load(Ordering::Relaxed);
        (node != NOWHERE).then_some(node)
    }

    pub(super) fn set_node(&self, node: Option<u32>) {
        self.node.store(node.unwrap_or(NOWHERE), Ordering::Relaxed);
    }
}

impl fmt::Debug for Seat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Seat")
            .field("hash", &self.hash)
            .field("cost_micros", &self.cost_micros())
            .field("uses", &self.uses())
            .field("gone", &self.is_gone())
            .finish_non_exhaustive()
    }
}

/// The most uses that are counted between two looks: together with the fetch, as many as count at all.
const NEW_USES_MAX: u8 = USES_MAX - 1;
