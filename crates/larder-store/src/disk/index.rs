//! The index: where each page is on the disk. It takes 16 bytes of memory a page, and is only a hint: reads verify.
//!
//! A shard is one table, sorted by tag: a slot is at its home, or as near after it as smaller tags leave room. A probe
//! ends at the first empty slot or greater tag. Removing closes the gap, so there are no tombstones, and the table may
//! be nearly full.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;

/// Slots by hash. A lock is held only for the length of a probe.
pub(super) struct Index {
    shards: Box<[Mutex<Shard>]>,
    len: AtomicUsize,
    table_bytes: AtomicU64,
}

/// What is known of a page without reading it.
///
/// | bits | what                                                                  |
/// | ---- | --------------------------------------------------------------------- |
/// |   44 | tag: the part of the hash that the shard does not say                 |
/// |    8 | variant                                                               |
/// |   20 | the low bits of the sequence of its segment                           |
/// |   22 | place / 64                                                            |
/// |   20 | length / 64; never 0, so that no slot is 0                            |
/// |   12 | when it was last used, in sixteenths of the time after which unused pages go |
/// |    2 | how often it was used since it was written, up to 3                   |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot {
    pub(super) variant: u8,
    /// [`super::live::number_of`] the segment.
    pub(super) number: u32,
    pub(super) offset: u32,
    pub(super) len: u32,
    pub(super) used_at: u16,
    pub(super) uses: u8,
}

impl Index {
    pub(super) fn new() -> Self {
        Self {
            shards: (0..SHARDS).map(|_| Mutex::new(Shard::new())).collect(),
            len: AtomicUsize::new(0),
            table_bytes: AtomicU64::new(0),
        }
    }

    /// The number of slots.
    pub(super) fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }

    /// The memory it takes.
    pub(super) fn bytes(&self) -> u64 {
        self.table_bytes.load(Ordering::Relaxed) + (SHARDS * size_of::<Mutex<Shard>>()) as u64
    }

    /// Calls `each` with every slot of `hash`. Slots for which it is true are marked as used at `unit`.
    pub(super) fn find(&self, hash: u64, unit: u16, mut each: impl FnMut(&Slot) -> bool) {
        let tag = tag_of(hash);
        let mut shard = self.shard(hash).lock();
        let mut at = shard.first(tag);
        while let Some(packed) = shard.slots.get_mut(at).filter(|packed| is_of(**packed, tag)) {
            let mut slot = unpack(*packed);
            if each(&slot) {
                slot.used_at = unit;
                slot.uses = (slot.uses + 1).min(USES_MAX);
                *packed = pack(tag, &slot);
            }
            at += 1;
        }
    }

    /// The slot of one variant; does not count as a use.
    pub(super) fn get(&self, hash: u64, variant: u8) -> Option<Slot> {
        let tag = tag_of(hash);
        let shard = self.shard(hash).lock();
        shard.position(tag, variant).map(|at| unpack(shard.slots[at]))
    }

    /// Puts a slot, and returns the one of the same variant that it replaces.
    pub(super) fn put(&self, hash: u64, slot: &Slot) -> Option<Slot> {
        let tag = tag_of(hash);
        self.change(hash, |shard| match shard.position(tag, slot.variant) {
            Some(at) => Some(unpack(std::mem::replace(&mut shard.slots[at], pack(tag, slot)))),
            None => {
                shard.insert(tag, slot);
                None
            }
        })
    }

    /// Puts a slot if its variant has none. Otherwise returns the one that is there.
    pub(super) fn put_if_absent(&self, hash: u64, slot: &Slot) -> Option<Slot> {
        let tag = tag_of(hash);
        self.change(hash, |shard| match shard.position(tag, slot.variant) {
            Some(at) => Some(unpack(shard.slots[at])),
            None => {
                shard.insert(tag, slot);
                None
            }
        })
    }

    /// Removes one variant, or all. Returns how many there were.
    pub(super) fn remove(&self, hash: u64, variant: Option<u8>) -> usize {
        let tag = tag_of(hash);
        self.change(hash, |shard| {
            let mut removed = 0;
            let mut at = shard.first(tag);
            while let Some(&packed) = shard.slots.get(at).filter(|packed| is_of(**packed, tag)) {
                if variant.is_none_or(|variant| unpack(packed).variant == variant) {
                    shard.close(at);
                    removed += 1;
                } else {
                    at += 1;
                }
            }
            removed
        })
    }

    /// Removes a variant if it is still at that place.
    pub(super) fn remove_at(&self, hash: u64, variant: u8, number: u32, offset: u32) -> Option<Slot> {
        let tag = tag_of(hash);
        self.change(hash, |shard| {
            let at = shard.position(tag, variant)?;
            let slot = unpack(shard.slots[at]);
            (slot.number == number && slot.offset == offset).then(|| {
                shard.close(at);
                slot
            })
        })
    }

    /// Removes every slot for which `keep` is false, and returns how many. Locks one shard at a time.
    pub(super) fn sweep(&self, mut keep: impl FnMut(&Slot) -> bool) -> usize {
        let mut removed = 0;
        for shard in &self.shards {
            removed += self.change_shard(shard, |shard| {
                let before = shard.len;
                let kept: Vec<u128> =
                    shard.slots.iter().copied().filter(|&packed| packed != 0 && keep(&unpack(packed))).collect();
                if kept.len() < before {
                    shard.rebuild(&kept, capacity_for(kept.len()));
                }
                before - kept.len()
            });
        }
        removed
    }

    fn shard(&self, hash: u64) -> &Mutex<Shard> {
        &self.shards[(hash >> SHARD_SHIFT) as usize]
    }

    fn change<T>(&self, hash: u64, work: impl FnOnce(&mut Shard) -> T) -> T {
        self.change_shard(self.shard(hash), work)
    }

    /// Runs `work` under the lock of `shard`, and updates the sums.
    fn change_shard<T>(&self, shard: &Mutex<Shard>, work: impl FnOnce(&mut Shard) -> T) -> T {
        let mut shard = shard.lock();
        let (len, bytes) = (shard.len, shard.bytes());
        let result = work(&mut shard);
        shard.fit();
        // Wrapping: the difference may be negative.
        self.len.fetch_add(shard.len.wrapping_sub(len), Ordering::Relaxed);
        self.table_bytes.fetch_add(shard.bytes().wrapping_sub(bytes), Ordering::Relaxed);
        result
    }
}

/// Slots, packed, sorted by tag with gaps (zeros) between them.
struct Shard {
    slots: Vec<u128>,
    /// Homes are below this; slots that are pushed further go after it.
    capacity: usize,
    len: usize,
}

impl Shard {
    fn new() -> Self {
        Self { slots: Vec::new(), capacity: 0, len: 0 }
    }

    fn bytes(&self) -> u64 {
        (self.slots.capacity() * size_of::<u128>()) as u64
    }

    /// Where the slots of `tag` begin, or would begin.
    fn first(&self, tag: u64) -> usize {
        let mut at = home(tag, self.capacity);
        while self.slots.get(at).is_some_and(|&packed| packed != 0 && packed_tag(packed) < tag) {
            at += 1;
        }
        at
    }

    fn position(&self, tag: u64, variant: u8) -> Option<usize> {
        let first = self.first(tag);
        let run = self.slots.get(first..)?.iter().take_while(|packed| is_of(**packed, tag));
        run.enumerate().find(|(_, packed)| unpack(**packed).variant == variant).map(|(at, _)| first + at)
    }

    fn insert(&mut self, tag: u64, slot: &Slot) {
        if (self.len + 1) * 10 > self.capacity * 9 {
            let grown = (self.capacity + self.capacity / 4).max(capacity_for(self.len + 1));
            let slots = std::mem::take(&mut self.slots);
            self.rebuild(&slots, grown);
        }
        let at = self.first(tag);
        let gap = match self.slots[at..].iter().position(|&packed| packed == 0) {
            Some(distance) => at + distance,
            None => {
                self.slots.reserve_exact(TAIL);
                self.slots.resize(self.slots.len() + TAIL, 0);
                self.slots.len() - TAIL
            }
        };
        self.slots.copy_within(at..gap, at + 1);
        self.slots[at] = pack(tag, slot);
        self.len += 1;
    }

    /// Removes the slot at `at`, and moves the slots after it that are not at home.
    fn close(&mut self, at: usize) {
        let behind = self.slots[at + 1..].iter().enumerate();
        let end = behind
            .map(|(distance, &packed)| (at + 1 + distance, packed))
            .find(|&(place, packed)| packed == 0 || home(packed_tag(packed), self.capacity) == place)
            .map_or(self.slots.len(), |(place, _)| place);
        self.slots.copy_within(at + 1..end, at);
        self.slots[end - 1] = 0;
        self.len -= 1;
    }

    /// Shrinks a table that has become too empty.
    fn fit(&mut self) {
        if self.capacity > CAPACITY_MIN && self.len * 100 < self.capacity * SHRINK_BELOW_PERCENT {
            let slots = std::mem::take(&mut self.slots);
            self.rebuild(&slots, capacity_for(self.len));
        }
    }

    /// A table of `capacity` with the slots of `sorted`, without its gaps.
    fn rebuild(&mut self, sorted: &[u128], capacity: usize) {
        let mut slots = Vec::new();
        slots.reserve_exact(capacity + TAIL);
        slots.resize(capacity + TAIL, 0);
        let (mut next, mut len) = (0, 0);
        for &packed in sorted.iter().filter(|packed| **packed != 0) {
            let at = next.max(home(packed_tag(packed), capacity));
            if at >= slots.len() {
                slots.reserve_exact(TAIL);
                slots.resize(slots.len() + TAIL, 0);
            }
            slots[at] = packed;
            next = at + 1;
            len += 1;
        }
        *self = Self { slots, capacity, len };
    }
}

/// Room for `len` at three quarters full.
fn capacity_for(len: usize) -> usize {
    (len * 4).div_ceil(3).max(CAPACITY_MIN)
}

/// Where a tag stands in a table: the order of tags is the order of homes.
fn home(tag: u64, capacity: usize) -> usize {
    ((u128::from(tag) * capacity as u128) >> TAG_BITS) as usize
}

fn tag_of(hash: u64) -> u64 {
    (hash << (64 - SHARD_SHIFT)) >> (64 - TAG_BITS)
}

fn packed_tag(packed: u128) -> u64 {
    (packed >> (128 - TAG_BITS)) as u64
}

fn is_of(packed: u128, tag: u64) -> bool {
    packed != 0 && packed_tag(packed) == tag
}

fn pack(tag: u64, slot: &Slot) -> u128 {
    debug_assert!(slot.len >= 64 && slot.len.is_multiple_of(64) && slot.offset.is_multiple_of(64));
    debug_assert!(slot.len / 64 < 1 << 20 && slot.offset / 64 < 1 << 22 && slot.number < 1 << 20);
    u128::from(tag) << 84
        | u128::from(slot.variant) << 76
        | u128::from(slot.number) << 56
        | u128::from(slot.offset / 64) << 34
        | u128::from(slot.len / 64) << 14
        | u128::from(slot.used_at & UNIT_MASK) << 2
        | u128::from(slot.uses & USES_MAX)
}

fn unpack(packed: u128) -> Slot {
    Slot {
        variant: (packed >> 76) as u8,
        number: (packed >> 56) as u32 & 0xf_ffff,
        offset: ((packed >> 34) as u32 & 0x3f_ffff) * 64,
        len: ((packed >> 14) as u32 & 0xf_ffff) * 64,
        used_at: (packed >> 2) as u16 & UNIT_MASK,
        uses: packed as u8 & USES_MAX,
    }
}

/// The time of last use has these bits, and wraps.
pub(super) const UNIT_MASK: u16 = 0xfff;
const USES_MAX: u8 = 3;
const SHARDS: usize = 256;
const SHARD_SHIFT: u32 = 56;
const TAG_BITS: u32 = 44;
/// Places after the last home; more are added when they are full.
const TAIL: usize = 8;
const CAPACITY_MIN: usize = 12;
const SHRINK_BELOW_PERCENT: usize = 60;

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    fn slot(variant: u8, offset: u32) -> Slot {
        Slot { variant, number: 5, offset: offset * 64, len: 64, used_at: 0, uses: 0 }
    }

    /// A sequence of numbers that look random and are always the same.
    fn mix(number: u64) -> u64 {
        let mut x = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x ^ (x >> 27)
    }

    #[test]
    fn it_holds_what_a_map_holds() {
        let index = Index::new();
        let mut map: HashMap<(u64, u8), u32> = HashMap::new();
        for step in 0..200_000_u64 {
            let random = mix(step);
            // Few hashes, some of them at the very end of their table, so that runs are long.
            let hash = match random % 4 {
                0 => u64::MAX - (random >> 8) % 32 * 4096,
                _ => mix((random >> 8) % 5000),
            };
            let variant = (random >> 40) as u8 % 3;
            match (random >> 50) % 4 {
                0 | 1 => {
                    let new = slot(variant, step as u32);
                    let old = index.put(hash, &new);
                    assert_eq!(old.map(|old| old.offset), map.insert((hash, variant), new.offset), "step {step}");
                }
                2 => {
                    let removed = index.remove(hash, Some(variant));
                    assert_eq!(removed, usize::from(map.remove(&(hash, variant)).is_some()), "step {step}");
                }
                _ => {
                    let found = index.get(hash, variant).map(|slot| slot.offset);
                    assert_eq!(found, map.get(&(hash, variant)).copied(), "step {step}");
                }
            }
            assert_eq!(index.len(), map.len());
        }
        let removed = index.sweep(|slot| slot.variant != 1);
        assert_eq!(removed, map.extract_if(|(_, variant), _| *variant == 1).count());
        for ((hash, variant), offset) in &map {
            assert_eq!(index.get(*hash, *variant).map(|slot| slot.offset), Some(*offset));
            assert_eq!(index.remove_at(*hash, *variant, 5, offset + 64), None);
            assert!(index.remove_at(*hash, *variant, 5, *offset).is_some());
        }
        assert_eq!(index.len(), 0);
    }

    #[test]
    fn at_most_32_bytes_an_object_while_it_grows_and_shrinks() {
        let index = Index::new();
        let most = 100_000;
        let check = |len: usize| {
            if len > 10_000 {
                assert!(index.bytes() <= 32 * len as u64, "{} bytes for {len}", index.bytes());
            }
        };
        for number in 0..most {
            index.put(mix(number as u64), &slot(0, 1));
            check(number + 1);
        }
        for number in 0..most {
            index.remove(mix(number as u64), None);
            check(most - number - 1);
        }
    }

    #[test]
    fn a_use_is_counted_up_to_three() {
        let index = Index::new();
        index.put(7, &slot(1, 1));
        index.put(7, &slot(2, 1));
        for unit in 1..=5 {
            index.find(7, unit, |slot| slot.variant == 2);
        }
        let uses = |variant| index.get(7, variant).map(|slot| (slot.used_at, slot.uses));
        assert_eq!((uses(1), uses(2)), (Some((0, 0)), Some((5, 3))));
    }

    #[test]
    fn all_variants_of_a_key_fit_at_the_end_of_a_table() {
        let index = Index::new();
        for variant in 0..=255 {
            index.put(u64::MAX, &slot(variant, 1));
        }
        let mut seen = 0;
        index.find(u64::MAX, 0, |_| {
            seen += 1;
            false
        });
        assert_eq!((seen, index.remove(u64::MAX, None), index.len()), (256, 256, 0));
    }
}
