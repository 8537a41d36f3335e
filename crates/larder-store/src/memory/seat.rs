//! The shelf's marks on a thing it keeps.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};

/// The shelf's marks on a thing it keeps: its hash, its place, and how often it was used of late.
///
/// It lives inside the thing, so that whoever holds one can note a use without the shelf.
pub struct Seat {
    hash: u64,
    /// Uses since it came or was last passed over, saturating at [`USES_MAX`].
    uses: AtomicU8,
    gone: AtomicBool,
    /// The node in the queues, or [`NOWHERE`]. Written under the lock of the queues only.
    node: AtomicU32,
}

impl Seat {
    /// The seat of a thing that is not on a shelf yet.
    pub fn new(hash: u64) -> Self {
        Self { hash, uses: AtomicU8::new(0), gone: AtomicBool::new(false), node: AtomicU32::new(NOWHERE) }
    }

    /// The hash of the key.
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// Notes a use. A hot thing is only read: its count has reached the top.
    #[inline]
    pub fn touch(&self) {
        let uses = self.uses.load(Ordering::Relaxed);
        // A lost update of two threads costs one count of three, a locked add would cost every hit.
        if uses < USES_MAX {
            self.uses.store(uses + 1, Ordering::Relaxed);
        }
    }

    /// Whether the shelf has let go of it.
    #[inline]
    pub fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Acquire)
    }

    pub(super) fn set_gone(&self) {
        self.gone.store(true, Ordering::Release);
    }

    pub(super) fn uses(&self) -> u8 {
        self.uses.load(Ordering::Relaxed)
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
            .field("uses", &self.uses())
            .field("gone", &self.is_gone())
            .finish_non_exhaustive()
    }
}

/// The most uses that are told apart: two bits, as S3-FIFO has them.
const USES_MAX: u8 = 3;

const NOWHERE: u32 = u32::MAX;
