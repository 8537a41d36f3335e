//! A shelf in memory: a sharded index, a hard budget, and eviction by the origin time that things save.
//!
//! A read locks one shard for the length of a probe, and writes nothing if the thing is hot. Adding and evicting a
//! thing takes the one lock of the ladder, which costs little compared with the fetch of every new thing.
//!
//! Locks are never nested, and [`Kept::leave`] is called with none held.

mod ladder;
mod seat;
mod slab;
#[cfg(test)]
mod tests;
mod worth;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use parking_lot::Mutex;

use crate::budget::{Budget, Buffers, MakeRoom, Reservation};
use ladder::Ladder;
pub use seat::Seat;

/// What a memory shelf keeps.
pub trait Kept: Send + Sync + 'static {
    /// The whole key; compared on every find.
    fn key(&self) -> &[u8];

    /// The bytes that it takes now, with all overhead; it should hold [`Reservation`]s for as many.
    fn weight(&self) -> usize;

    /// The shelf's own marks on it.
    fn seat(&self) -> &Seat;

    /// Whether it is busy and should not be evicted. Called under a lock, so it must only read.
    fn is_busy(&self) -> bool {
        false
    }

    /// Until when it can be used, in seconds since 1970; 0 if it is of no use. Called under a lock when it is evicted, so
    /// it must only read.
    fn useful_until(&self) -> u64 {
        0
    }

    /// Called once when the shelf has dropped it: free what it holds now, even if others have an `Arc` of it.
    fn leave(&self);
}

/// The limits of a shelf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShelfLimits {
    /// The bytes that may be reserved at any time.
    pub bytes_max: u64,
}

/// A shelf's counters since it was made, and its size now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShelfStats {
    /// Bytes reserved.
    pub used: u64,
    /// The most that may be reserved.
    pub bytes_max: u64,
    /// Things on the shelf.
    pub len: usize,
    /// Things put on it.
    pub inserted: u64,
    /// Things that came back soon after they were evicted.
    pub returned: u64,
    /// Things that were evicted.
    pub evicted: u64,
    /// Things that were removed by key.
    pub removed: u64,
    /// Things that a sweep did not keep.
    pub swept: u64,
    /// Reservations that could not be made or grown.
    pub refused: u64,
}

/// How many bytes the index, the ladder and the ghost take for one thing. For use in [`Kept::weight`].
///
/// The ladder takes 40, the index 10 to 21 and the ghost 8 to 16, depending on how full their tables are.
pub const SLOT_BYTES: usize = 80;

/// Things under keys, in memory.
pub struct MemoryShelf<V: Kept> {
    inner: Arc<Inner<V>>,
}

impl<V: Kept> MemoryShelf<V> {
    /// An empty shelf.
    pub fn new(limits: ShelfLimits) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
        let shards = (cores * SHARDS_PER_CORE).next_power_of_two();
        let inner = Arc::new(Inner {
            shards: (0..shards).map(|_| Shard::default()).collect(),
            ladder: Mutex::new(Ladder::new()),
            budget: Budget::new(limits.bytes_max),
            inserted: AtomicU64::new(0),
            returned: AtomicU64::new(0),
            evicted: AtomicU64::new(0),
            removed: AtomicU64::new(0),
            swept: AtomicU64::new(0),
        });
        let room: Arc<dyn MakeRoom> = inner.clone();
        inner.budget.set_room(Arc::downgrade(&room));
        Self { inner }
    }

    /// The thing under `key`; counts as a use. `hash` is the caller's hash of the key, always the same for the same
    /// key.
    pub fn get(&self, hash: u64, key: &[u8]) -> Option<Arc<V>> {
        let found = self.inner.find(hash, key)?;
        found.seat().touch();
        Some(found)
    }

    /// The things under keys of this hash, of which there is more than one hardly ever. Does not count as a use.
    pub fn all_at(&self, hash: u64) -> Vec<Arc<V>> {
        let table = self.inner.shard(hash).table.lock();
        let is_here = |kept: &&Arc<V>| kept.seat().hash() == hash && !kept.seat().is_gone();
        table.iter_hash(hash).filter(is_here).map(Arc::clone).collect()
    }

    /// The thing under `key`. Does not count as a use.
    pub fn peek(&self, hash: u64, key: &[u8]) -> Option<Arc<V>> {
        self.inner.find(hash, key)
    }

    /// The thing under `key`, which counts as a use. If there is none, puts the result of `make` there.
    ///
    /// `make` runs under a lock: it must not reserve, and its result has to have a fresh [`Seat`] of `hash`.
    pub fn get_or_insert_with(&self, hash: u64, key: &[u8], make: impl FnOnce() -> Arc<V>) -> Arc<V> {
        let made = {
            let mut table = self.inner.shard(hash).table.lock();
            match table.entry(hash, |v| is_at(&**v, hash, key), |v| v.seat().hash()) {
                Entry::Occupied(slot) if !slot.get().seat().is_gone() => {
                    slot.get().seat().touch();
                    return Arc::clone(slot.get());
                }
                // It is being evicted: the new one takes its place at once.
                Entry::Occupied(mut slot) => {
                    let made = make();
                    *slot.get_mut() = Arc::clone(&made);
                    made
                }
                Entry::Vacant(slot) => {
                    let made = make();
                    slot.insert(Arc::clone(&made));
                    made
                }
            }
        };
        debug_assert!(is_at(&*made, hash, key), "made for another key");
        self.inner.seat(&made);
        made
    }

    /// Removes the thing under `key`.
    pub fn remove(&self, hash: u64, key: &[u8]) -> Option<Arc<V>> {
        let found = self.inner.find(hash, key)?;
        if self.inner.let_go(&found) {
            self.inner.removed.fetch_add(1, Ordering::Relaxed);
            return Some(found);
        }
        None
    }

    /// Notes that what was evicted under this hash would have been removed by now, or with `None` all that was evicted.
    pub fn make_useless(&self, hash: Option<u64>) {
        self.inner.ladder.lock().make_useless(hash);
    }

    /// Reserves `bytes`, and evicts others if necessary. `None` if there is no room.
    pub fn reserve(&self, bytes: usize) -> Option<Reservation> {
        self.inner.budget.reserve(bytes)
    }

    /// As [`reserve`](Self::reserve), with buffers that were used before for as much of it as there are.
    pub fn reserve_with_buffers(&self, bytes: usize) -> Option<(Reservation, Buffers)> {
        self.inner.budget.reserve_with_buffers(bytes)
    }

    /// Gives memory back to the system that waits for the next bodies, and that none needed since the last call.
    pub fn free_idle(&self) {
        self.inner.budget.free_idle();
    }

    /// Tells the shelf that the weight or the cost of `kept` has changed.
    pub fn reweigh(&self, kept: &V) {
        let weight = kept.weight();
        self.inner.ladder.lock().reweigh(kept.seat(), weight);
    }

    /// Looks at up to `budget` things, from where the last call stopped, and drops those for which `keep` is false.
    /// Returns their number. `keep` runs under a lock and must only read.
    pub fn sweep(&self, budget: usize, mut keep: impl FnMut(&V) -> bool) -> usize {
        let mut left = budget;
        let mut gone = 0;
        while left > 0 {
            let look = left.min(SWEEP_AT_ONCE);
            left -= look;
            let (unkept, wrapped) = self.inner.ladder.lock().sweep(look, &mut keep);
            gone += unkept.iter().filter(|v| self.inner.let_go(v)).count();
            if wrapped {
                break;
            }
        }
        self.inner.swept.fetch_add(gone as u64, Ordering::Relaxed);
        gone
    }

    /// Looks at everything that is here now, whatever other threads sweep meanwhile, and drops the things for which
    /// `keep` is false. Returns their number. It may take long; `keep` is as in [`Self::sweep`].
    pub fn sweep_all(&self, mut keep: impl FnMut(&V) -> bool) -> usize {
        let (mut at, mut gone) = (Some(0), 0);
        while let Some(from) = at {
            let (unkept, next) = self.inner.ladder.lock().look_through(from, SWEEP_AT_ONCE, &mut keep);
            at = next;
            gone += unkept.iter().filter(|v| self.inner.let_go(v)).count();
        }
        self.inner.removed.fetch_add(gone as u64, Ordering::Relaxed);
        gone
    }

    /// Changes the limit, and evicts what no longer fits.
    ///
    /// Evicted things that others still hold give nothing back yet. A bound keeps that from emptying the shelf; a later
    /// call, or the next reservation, goes on.
    pub fn adjust(&self, limits: ShelfLimits) {
        self.inner.budget.set_max(limits.bytes_max);
        let over = |shelf: &Self| shelf.used().saturating_sub(limits.bytes_max);
        let mut left = over(self).saturating_mul(2);
        while over(self) > 0 {
            if self.inner.budget.free_some() {
                continue;
            }
            let evicted = if left > 0 { self.inner.evict_one() } else { None };
            let Some(bytes) = evicted else { return };
            left = left.saturating_sub(bytes.max(1) as u64);
        }
    }

    /// The reserved bytes, of things on the shelf and of dropped ones that are still in use.
    pub fn used(&self) -> u64 {
        self.inner.budget.used()
    }

    /// The number of things on the shelf.
    pub fn len(&self) -> usize {
        self.inner.ladder.lock().len()
    }

    /// Whether nothing is on the shelf.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The sum of the weights that the shelf knows.
    pub fn weight(&self) -> u64 {
        self.inner.ladder.lock().weight() as u64
    }

    /// Its counters and its size.
    pub fn stats(&self) -> ShelfStats {
        let inner = &*self.inner;
        ShelfStats {
            used: inner.budget.used(),
            bytes_max: inner.budget.max(),
            len: self.len(),
            inserted: inner.inserted.load(Ordering::Relaxed),
            returned: inner.returned.load(Ordering::Relaxed),
            evicted: inner.evicted.load(Ordering::Relaxed),
            removed: inner.removed.load(Ordering::Relaxed),
            swept: inner.swept.load(Ordering::Relaxed),
            refused: inner.budget.refused(),
        }
    }
}

struct Inner<V: Kept> {
    shards: Box<[Shard<V>]>,
    ladder: Mutex<Ladder<V>>,
    budget: Arc<Budget>,
    inserted: AtomicU64,
    returned: AtomicU64,
    evicted: AtomicU64,
    removed: AtomicU64,
    swept: AtomicU64,
}

/// One part of the index. Aligned so that two locks never share a cache line.
#[repr(align(128))]
struct Shard<V> {
    table: Mutex<HashTable<Arc<V>>>,
}

impl<V> Default for Shard<V> {
    fn default() -> Self {
        Self { table: Mutex::new(HashTable::new()) }
    }
}

impl<V: Kept> Inner<V> {
    fn shard(&self, hash: u64) -> &Shard<V> {
        // hashbrown takes the bucket from the low bits and the tag from the top seven; these are between.
        let at = (hash >> 40) as usize & (self.shards.len() - 1);
        &self.shards[at]
    }

    fn find(&self, hash: u64, key: &[u8]) -> Option<Arc<V>> {
        let table = self.shard(hash).table.lock();
        table.find(hash, |v| is_at(&**v, hash, key)).filter(|v| !v.seat().is_gone()).map(Arc::clone)
    }

    /// Puts a thing that is in the index on its step.
    fn seat(&self, made: &Arc<V>) {
        let weight = made.weight();
        let returned = self.ladder.lock().push(made, weight);
        self.inserted.fetch_add(1, Ordering::Relaxed);
        if returned {
            self.returned.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Removes `kept` from the ladder and the index. False if another thread did so before.
    fn let_go(&self, kept: &Arc<V>) -> bool {
        if !self.ladder.lock().remove(kept.seat()) {
            return false;
        }
        self.forget(kept);
        true
    }

    /// Removes `kept` from the index, after it was removed from the ladder, and lets it free what it holds.
    fn forget(&self, kept: &Arc<V>) {
        let hash = kept.seat().hash();
        {
            let mut table = self.shard(hash).table.lock();
            if let Ok(slot) = table.find_entry(hash, |v| Arc::ptr_eq(v, kept)) {
                slot.remove();
            }
            // A table never shrinks by itself. After a burst of keys, shrinking it is worth a rehash.
            if table.capacity() > SHARD_SLACK && table.len() < table.capacity() / 4 {
                let room = table.len() * 2;
                table.shrink_to(room, |v| v.seat().hash());
            }
        }
        kept.leave();
    }
}

impl<V: Kept> MakeRoom for Inner<V> {
    fn evict_one(&self) -> Option<usize> {
        let (gone, weight) = self.ladder.lock().evict()?;
        self.forget(&gone);
        self.evicted.fetch_add(1, Ordering::Relaxed);
        Some(weight)
    }
}

fn is_at<V: Kept>(kept: &V, hash: u64, key: &[u8]) -> bool {
    kept.seat().hash() == hash && kept.key() == key
}

/// How many shards there are for each core: enough that two cores rarely need the same lock.
const SHARDS_PER_CORE: usize = 4;

/// How many things a sweep looks at before it releases the lock for others.
const SWEEP_AT_ONCE: usize = 128;

/// A shard's table of this capacity or less is never shrunk.
const SHARD_SLACK: usize = 64;
