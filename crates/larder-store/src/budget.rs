//! The memory budget of a shelf: a hard limit, and reservations from it.

use std::fmt;
use std::mem;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use bytes::BytesMut;
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
    /// Buffers of [`BUFFER_BYTES`] for the next bodies: new memory costs the kernel several times a copy.
    buffers: Vec<BytesMut>,
    /// The least number of buffers that there were since the last [`Budget::free_idle`].
    idle: usize,
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

    /// As [`reserve`](Self::reserve), with buffers that were used before for as much of it as there are.
    pub(crate) fn reserve_with_buffers(self: &Arc<Self>, bytes: usize) -> Option<(Reservation, Buffers)> {
        let mut reused = Reused { buffers: Vec::new(), max: bytes / BUFFER_BYTES };
        let taken = self.take_into(0, bytes, &mut reused);
        let buffers = reused.buffers;
        let reservation = |bytes| Reservation { budget: Arc::clone(self), bytes };
        if !taken {
            // They go back one by one.
            buffers.into_iter().for_each(|buffer| reservation(BUFFER_BYTES).take_back(buffer));
            return None;
        }
        Some((reservation(bytes), Buffers(buffers)))
    }

    /// Reserves `more` for a holder that has `held`, and evicts others if necessary. False if there is no room.
    fn take(&self, held: usize, more: usize) -> bool {
        self.take_into(held, more, &mut Reused::default())
    }

    /// As [`take`](Self::take); what is `reused` is a part of it.
    fn take_into(&self, held: usize, more: usize, reused: &mut Reused) -> bool {
        let done = self.take_free(more, reused) || self.take_by_evicting(held, more, reused);
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

    /// As [`try_take`](Self::try_take), but takes buffers that are there, and gives other freed memory back to the
    /// system if that is needed.
    fn take_free(&self, more: usize, reused: &mut Reused) -> bool {
        loop {
            self.reuse(reused);
            if self.try_take(more - reused.bytes()) {
                return true;
            }
            if !self.free_some() {
                return false;
            }
        }
    }

    /// Moves buffers to a holder; they stay counted.
    fn reuse(&self, reused: &mut Reused) {
        let missing = reused.max - reused.buffers.len();
        if missing > 0 {
            let mut waste = self.waste.lock();
            let left = waste.buffers.len().saturating_sub(missing);
            reused.buffers.extend(waste.buffers.drain(left..));
            waste.idle = waste.idle.min(left);
        }
    }

    /// Gives one piece of freed memory back to the system. False if there is none.
    pub(crate) fn free_some(&self) -> bool {
        let Some(extent) = self.waste.lock().extents.pop() else { return self.free_buffer() };
        let bytes = extent.footprint() as usize;
        drop(extent);
        self.give_back(bytes);
        true
    }

    fn free_buffer(&self) -> bool {
        let Some(buffer) = self.waste.lock().buffers.pop() else { return false };
        drop(buffer);
        self.give_back(BUFFER_BYTES);
        true
    }

    /// Gives the buffers back to the system that nobody needed since the last call.
    pub(crate) fn free_idle(&self) {
        let idle = {
            let mut waste = self.waste.lock();
            let idle = waste.idle.min(waste.buffers.len());
            waste.idle = waste.buffers.len() - idle;
            idle
        };
        for _ in 0..idle {
            self.free_buffer();
        }
    }

    /// The bytes of buffers that wait for the next bodies.
    fn buffers_max(&self) -> usize {
        usize::try_from(self.max() / BUFFERS_SHARE).unwrap_or(usize::MAX).min(BUFFERS_BYTES_MAX) / BUFFER_BYTES
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
            let mut waste = self.waste.lock();
            let Some(extent) = waste.extents.pop() else {
                waste.extents = Vec::new();
                waste.is_worked_on = false;
                return;
            };
            drop(waste);
            let bytes = extent.footprint() as usize;
            drop(extent);
            self.give_back(bytes);
        }
    }

    fn take_by_evicting(&self, held: usize, more: usize, reused: &mut Reused) -> bool {
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
            if self.take_free(more, reused) {
                return true;
            }
        }
        false
    }

    fn give_back(&self, bytes: usize) {
        self.used.fetch_sub(bytes as u64, Ordering::Relaxed);
    }
}

/// Buffers that a holder takes over as a part of what it reserves.
#[derive(Default)]
struct Reused {
    buffers: Vec<BytesMut>,
    max: usize,
}

impl Reused {
    fn bytes(&self) -> usize {
        self.buffers.len() * BUFFER_BYTES
    }
}

/// Buffers of [`BUFFER_BYTES`] that were used before, for what is reserved.
#[derive(Default)]
pub struct Buffers(Vec<BytesMut>);

impl Buffers {
    /// An empty buffer: one that was used before, or a new one.
    pub(crate) fn next(&mut self) -> BytesMut {
        self.0.pop().unwrap_or_else(|| BytesMut::with_capacity(BUFFER_BYTES))
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

    /// Takes `bytes` off it, for another holder. `None` if it has less.
    pub(crate) fn split(&mut self, bytes: usize) -> Option<Self> {
        let left = self.bytes.checked_sub(bytes)?;
        self.bytes = left;
        Some(Self { budget: Arc::clone(&self.budget), bytes })
    }

    /// As [`Budget::reserve`], from the same shelf.
    pub(crate) fn another(&self, bytes: usize) -> Option<Self> {
        self.budget.reserve(bytes)
    }

    /// Keeps a buffer of [`BUFFER_BYTES`], which is all that is reserved, for the next body; or frees it. `buffer` may be
    /// what is left of it, if nobody has another part.
    pub(crate) fn take_back(mut self, mut buffer: BytesMut) {
        buffer.clear();
        if !buffer.try_reclaim(BUFFER_BYTES) {
            return;
        }
        let mut waste = self.budget.waste.lock();
        if waste.buffers.len() < self.budget.buffers_max() {
            waste.buffers.push(buffer);
            self.bytes = 0;
        }
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

/// The length of the buffers that bodies are kept in.
pub(crate) const BUFFER_BYTES: usize = 64 * 1024;

/// How many bytes of buffers wait for the next bodies at most: several bodies that were evicted at once.
const BUFFERS_BYTES_MAX: usize = 16 << 20;

/// The same limit as a share of the shelf: one part in this many. The smaller limit counts.
const BUFFERS_SHARE: u64 = 16;

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

    /// Reserves a body of this many buffers, of which `used` were used before, and fills them.
    fn fill(budget: &Arc<Budget>, count: usize, used: usize) -> Vec<(BytesMut, Reservation)> {
        let (mut room, mut buffers) = budget.reserve_with_buffers(count * BUFFER_BYTES).expect("there is room");
        assert_eq!(buffers.0.len(), used);
        let one = || (buffers.next(), room.split(BUFFER_BYTES).expect("it was reserved"));
        std::iter::repeat_with(one).take(count).collect()
    }

    fn free(body: Vec<(BytesMut, Reservation)>) {
        body.into_iter().for_each(|(buffer, room)| room.take_back(buffer));
    }

    #[test]
    fn a_buffer_is_used_again_and_counts_meanwhile() {
        let budget = Budget::new(32 * BUFFER_BYTES as u64);
        let bytes = |count: usize| (count * BUFFER_BYTES) as u64;
        free(fill(&budget, 20, 0));
        assert_eq!(budget.used(), bytes(2), "a part of the shelf at most is kept for the next");
        let second = fill(&budget, 4, 2);
        assert_eq!(budget.used(), bytes(4));
        free(second);
        // Who needs room for something else gets theirs.
        let other = budget.reserve(31 * BUFFER_BYTES).expect("one buffer has to go");
        assert_eq!((budget.used(), budget.refused()), (bytes(32), 0));
        assert!(budget.reserve_with_buffers(2 * BUFFER_BYTES).is_none());
        assert_eq!(budget.used(), bytes(32), "what was found too little stays");
        drop(other);
        budget.free_idle();
        assert_eq!(budget.used(), bytes(1), "it was used a moment ago");
        budget.free_idle();
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn a_sum_beyond_the_integers_is_refused() {
        let budget = Budget::new(u64::MAX);
        let _all = budget.reserve(usize::MAX).expect("fits exactly");
        assert!(budget.reserve(1).is_none());
    }
}
