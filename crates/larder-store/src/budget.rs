//! The memory budget of a shelf: a hard limit, and reservations from it.

use std::fmt;
use std::mem;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use parking_lot::Mutex;

use crate::arena::Extent;
use crate::background;

/// Evicts things to get their bytes back.
pub(crate) trait MakeRoom: Send + Sync {
    /// Evicts one thing. Returns its size in bytes, or `None` if nothing can be evicted.
    ///
    /// The bytes may come back later: a page that is being sent keeps its own.
    fn evict_one(&self) -> Option<usize>;
}

/// A hard limit on bytes, and how many are reserved.
pub(crate) struct Budget {
    used: AtomicU64,
    max: AtomicU64,
    refused: AtomicU64,
    room: OnceLock<Weak<dyn MakeRoom>>,
    waste: Mutex<Waste>,
}

/// Freed memory that has not gone back to the system yet. It counts as used until then.
#[derive(Default)]
struct Waste {
    extents: Vec<Extent>,
    /// Whether a thread is giving it back; the thread ends when nothing is left.
    is_worked_on: bool,
}

impl Budget {
    pub(crate) fn new(max: u64) -> Arc<Self> {
        Arc::new(Self {
            used: AtomicU64::new(0),
            max: AtomicU64::new(max),
            refused: AtomicU64::new(0),
            room: OnceLock::new(),
            waste: Mutex::default(),
        })
    }

    /// Sets what makes room; later calls have no effect.
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

    /// How often bytes were requested in vain.
    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Reserves `bytes`, and evicts others if necessary.
    pub(crate) fn reserve(self: &Arc<Self>, bytes: usize) -> Option<Reservation> {
        self.take(0, bytes).then(|| Reservation { budget: Arc::clone(self), bytes })
    }

    /// Reserves `more` for a holder that has `held`, and evicts others if necessary. False if there is no room.
    fn take(&self, held: usize, more: usize) -> bool {
        let done = self.take_free(more) || self.take_by_evicting(held, more);
        if !done {
            self.refused.fetch_add(1, Ordering::Relaxed);
        }
        done
    }

    /// Reserves `more` if that fits, by one compare-and-add, so that no race lets `used` exceed the limit.
    fn try_take(&self, more: usize) -> bool {
        let max = self.max();
        self.used
            .try_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
                used.checked_add(more as u64).filter(|&sum| sum <= max)
            })
            .is_ok()
    }

    /// As [`try_take`](Self::try_take), but first gives freed memory back to the system if that is needed.
    fn take_free(&self, more: usize) -> bool {
        loop {
            if self.try_take(more) {
                return true;
            }
            if !self.free_some() {
                return false;
            }
        }
    }

    /// Gives one piece of freed memory back to the system. False if there is none.
    pub(crate) fn free_some(&self) -> bool {
        let Some(extent) = self.waste.lock().extents.pop() else { return false };
        let bytes = extent.footprint() as usize;
        drop(extent);
        self.give_back(bytes);
        true
    }

    /// Gives `extents` back to the system in a thread, because much memory would keep a worker busy for a while.
    fn free_later(self: &Arc<Self>, extents: Vec<Extent>) {
        {
            let mut waste = self.waste.lock();
            waste.extents.extend(extents);
            if mem::replace(&mut waste.is_worked_on, true) {
                return;
            }
        }
        let budget = Arc::clone(self);
        // If the system gives us no thread, do it here.
        if background::spawn("larder-free", move || budget.free_all()).is_err() {
            self.free_all();
        }
    }

    fn free_all(&self) {
        loop {
            while self.free_some() {}
            let mut waste = self.waste.lock();
            if waste.extents.is_empty() {
                *waste = Waste::default();
                return;
            }
        }
    }

    fn take_by_evicting(&self, held: usize, more: usize) -> bool {
        let wanted = held as u64 + more as u64;
        if wanted > self.max() / HOLDER_SHARE {
            return false;
        }
        let Some(room) = self.room.get().and_then(Weak::upgrade) else {
            return false;
        };
        // Evicted pages may still be sent to clients, and then give nothing back yet. The bound keeps one reservation
        // from emptying the shelf in that case.
        let evicted_max = more.saturating_mul(2).saturating_add(EVICT_SLACK_BYTES);
        let mut evicted = 0_usize;
        while evicted < evicted_max {
            let Some(bytes) = room.evict_one() else {
                return false;
            };
            evicted = evicted.saturating_add(bytes.max(1));
            if self.take_free(more) {
                return true;
            }
        }
        false
    }

    fn give_back(&self, bytes: usize) {
        self.used.fetch_sub(bytes as u64, Ordering::Relaxed);
    }
}

/// Bytes reserved from the budget of a shelf. Dropping it gives them back.
///
/// What uses the memory owns the reservation, so an evicted page counts until its last reader is done.
pub struct Reservation {
    budget: Arc<Budget>,
    bytes: usize,
}

impl Reservation {
    /// The number of reserved bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Reserves `more` bytes, and evicts others if necessary. If there is no room, returns false and changes nothing.
    ///
    /// A holder of more than half of the shelf does not evict others.
    pub fn grow(&mut self, more: usize) -> bool {
        let done = self.budget.take(self.bytes, more);
        if done {
            self.bytes += more;
        }
        done
    }

    /// The limit of the whole shelf, in bytes.
    pub(crate) fn shelf_bytes_max(&self) -> u64 {
        self.budget.max()
    }

    /// Frees `extents`, which are a part of what is reserved. If they are many, they go back to the system in a thread,
    /// and count until then.
    pub(crate) fn let_go(&mut self, extents: Vec<Extent>) {
        let bytes: usize = extents.iter().map(|extent| extent.footprint() as usize).sum();
        if bytes > FREED_AT_ONCE_BYTES_MAX && bytes <= self.bytes {
            self.bytes -= bytes;
            self.budget.free_later(extents);
        }
    }

    /// Gives back what is reserved beyond `bytes`.
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

/// No holder evicts others to get more than one part in this many of the shelf.
const HOLDER_SHARE: u64 = 2;

/// More memory than this is given back in a thread: a MB takes 0.17 ms (measured).
const FREED_AT_ONCE_BYTES_MAX: usize = 1024 * 1024;

/// One reservation evicts at most twice its bytes and this much.
const EVICT_SLACK_BYTES: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::arena::Arena;

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

    /// `count` extents of 256 KiB, and the arena they are in.
    fn extents(count: usize) -> (Arena, Vec<Extent>) {
        let arena = Arena::new(1 << 40).expect("this system has memory files");
        let piece = Bytes::from(vec![7; EXTENT_BYTES]);
        let extents = {
            let mut span = arena.span((count * EXTENT_BYTES) as u64).expect("there are positions");
            let write = || span.write(std::slice::from_ref(&piece)).expect("there is memory");
            std::iter::repeat_with(write).take(count).collect()
        };
        (arena, extents)
    }

    const EXTENT_BYTES: usize = 256 * 1024;

    #[test]
    fn much_that_is_let_go_of_counts_until_it_is_given_back() {
        let budget = Budget::new(20 * EXTENT_BYTES as u64);
        let mut held = budget.reserve(20 * EXTENT_BYTES).expect("all of it is there");
        let (arena, extents) = extents(20);
        // As if a thread were at it that never gets its turn.
        budget.waste.lock().is_worked_on = true;
        held.let_go(extents);
        assert_eq!((held.bytes(), budget.used()), (0, 20 * EXTENT_BYTES as u64));
        drop(held);
        assert_eq!(arena.memory_bytes(), 20 * EXTENT_BYTES as u64);
        // Who needs room gives back as much as that takes, and nobody has to leave.
        let first = budget.reserve(1).expect("there is room behind what was let go of");
        assert_eq!(arena.memory_bytes(), 19 * EXTENT_BYTES as u64);
        assert_eq!(budget.used(), 19 * EXTENT_BYTES as u64 + 1);
        let rest = budget.reserve(20 * EXTENT_BYTES - 1).expect("all of it is there");
        assert_eq!(arena.memory_bytes(), 0);
        assert_eq!(budget.used(), 20 * EXTENT_BYTES as u64);
        drop((first, rest));
        assert_eq!((budget.used(), budget.refused()), (0, 0));
    }

    #[test]
    fn what_is_let_go_of_is_given_back_by_itself() {
        let budget = Budget::new(100 * EXTENT_BYTES as u64);
        for count in [5, 40, 5] {
            let mut held = budget.reserve(count * EXTENT_BYTES + 1).expect("it is there");
            let (arena, extents) = extents(count);
            held.let_go(extents);
            drop(held);
            while budget.used() > 0 {
                std::thread::yield_now();
            }
            assert_eq!(arena.memory_bytes(), 0);
        }
    }

    #[test]
    fn a_little_that_is_let_go_of_is_given_back_at_once() {
        let budget = Budget::new(1 << 30);
        let mut held = budget.reserve(4 * EXTENT_BYTES).expect("it is there");
        let (arena, extents) = extents(4);
        held.let_go(extents);
        assert_eq!(arena.memory_bytes(), 0);
        assert_eq!(held.bytes(), 4 * EXTENT_BYTES, "it goes back with what held it");
    }

    #[test]
    fn a_sum_beyond_the_integers_is_refused() {
        let budget = Budget::new(u64::MAX);
        let _all = budget.reserve(usize::MAX).expect("fits exactly");
        assert!(budget.reserve(1).is_none());
    }
}
