//! The bytes of a shelf: who holds how many, and never more than allowed.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

/// Lets go of things so that the bytes they held come back.
pub(crate) trait MakeRoom: Send + Sync {
    /// Lets go of one thing. Gives the bytes it weighed, or `None` when nothing can leave.
    ///
    /// The bytes may come back later than this returns: a page that is being sent holds its own.
    fn evict_one(&self) -> Option<usize>;
}

/// A hard limit on bytes, and the bytes taken from it.
pub(crate) struct Budget {
    used: AtomicU64,
    max: AtomicU64,
    refused: AtomicU64,
    room: OnceLock<Weak<dyn MakeRoom>>,
}

impl Budget {
    pub(crate) fn new(max: u64) -> Arc<Self> {
        Arc::new(Self {
            used: AtomicU64::new(0),
            max: AtomicU64::new(max),
            refused: AtomicU64::new(0),
            room: OnceLock::new(),
        })
    }

    /// Says who makes room; later calls change nothing.
    pub(crate) fn set_room(&self, room: Weak<dyn MakeRoom>) {
        let _ = self.room.set(room);
    }

    pub(crate) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    pub(crate) fn max(&self) -> u64 {
        self.max.load(Ordering::Relaxed)
    }

    pub(crate) fn set_max(&self, max: u64) {
        self.max.store(max, Ordering::Relaxed);
    }

    /// How often bytes were asked for in vain.
    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// A part of `bytes`, made by letting others go if need be.
    pub(crate) fn reserve(self: &Arc<Self>, bytes: usize) -> Option<Reservation> {
        self.take(0, bytes).then(|| Reservation { budget: Arc::clone(self), bytes })
    }

    /// Adds `more` to a holder that has `held`. True when it was done.
    fn take(&self, held: usize, more: usize) -> bool {
        let done = self.try_take(more) || self.take_by_evicting(held, more);
        if !done {
            self.refused.fetch_add(1, Ordering::Relaxed);
        }
        done
    }

    /// One compare-and-add against the limit: no race lets `used` pass it.
    fn try_take(&self, more: usize) -> bool {
        let max = self.max();
        self.used
            .try_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
                used.checked_add(more as u64).filter(|&sum| sum <= max)
            })
            .is_ok()
    }

    fn take_by_evicting(&self, held: usize, more: usize) -> bool {
        let wanted = held as u64 + more as u64;
        if wanted > self.max() / HOLDER_SHARE {
            return false;
        }
        let Some(room) = self.room.get().and_then(Weak::upgrade) else {
            return false;
        };
        // What leaves may still be on its way to clients and give nothing back yet. The bound keeps one
        // request for room from emptying the shelf in that case.
        let evicted_max = more.saturating_mul(2).saturating_add(EVICT_SLACK_BYTES);
        let mut evicted = 0_usize;
        while evicted < evicted_max {
            let Some(bytes) = room.evict_one() else {
                return false;
            };
            evicted = evicted.saturating_add(bytes.max(1));
            if self.try_take(more) {
                return true;
            }
        }
        false
    }

    fn give_back(&self, bytes: usize) {
        self.used.fetch_sub(bytes as u64, Ordering::Relaxed);
    }
}

/// Bytes taken from the budget of a shelf; they go back when it is dropped.
///
/// It belongs to what uses the memory, so a page that left the shelf counts until its last reader is done.
pub struct Reservation {
    budget: Arc<Budget>,
    bytes: usize,
}

impl Reservation {
    /// The bytes held.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Takes `more` bytes, letting others go if need be. False when that cannot be done; then nothing changed.
    ///
    /// One holder gets at most half of the shelf once others would have to leave for it.
    pub fn grow(&mut self, more: usize) -> bool {
        let done = self.budget.take(self.bytes, more);
        if done {
            self.bytes += more;
        }
        done
    }

    /// The bytes of the whole shelf.
    pub(crate) fn shelf_bytes_max(&self) -> u64 {
        self.budget.max()
    }

    /// Gives back what is held beyond `bytes`.
    pub fn shrink_to(&mut self, bytes: usize) {
        if bytes < self.bytes {
            self.budget.give_back(self.bytes - bytes);
            self.bytes = bytes;
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.budget.give_back(self.bytes);
    }
}

impl fmt::Debug for Reservation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Reservation({})", self.bytes)
    }
}

/// Nobody makes others leave to hold more than one part in this many.
const HOLDER_SHARE: u64 = 2;

/// How much more than twice the bytes asked for may be let go in one go.
const EVICT_SLACK_BYTES: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_taken_never_pass_the_limit_and_come_back() {
        let budget = Budget::new(100);
        let mut first = budget.reserve(40).expect("40 of 100 fit");
        let second = budget.reserve(60).expect("40 + 60 fit exactly");
        assert_eq!(budget.used(), 100);
        assert!(budget.reserve(1).is_none());
        assert!(!first.grow(1));
        drop(second);
        assert!(first.grow(10));
        assert_eq!((first.bytes(), budget.used()), (50, 50));
        first.shrink_to(5);
        first.shrink_to(70);
        assert_eq!((first.bytes(), budget.used()), (5, 5));
        drop(first);
        assert_eq!(budget.used(), 0);
        assert_eq!(budget.refused(), 2);
    }

    #[test]
    fn a_sum_beyond_the_integers_is_refused() {
        let budget = Budget::new(u64::MAX);
        let _all = budget.reserve(usize::MAX).expect("fits exactly");
        assert!(budget.reserve(1).is_none());
    }
}
