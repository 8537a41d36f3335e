//! Which entries in memory have pages with a tag, so that a purge by tag visits these alone.
//!
//! A pair of tag and entry takes 16 bytes and what is free in its chunk: sorted pairs need no links, and chunks that grow
//! by an eighth leave little free. A change moves half a chunk at most. The pairs of one tag are spread over [`PARTS`]
//! locks by their entries, so that those of a tag that all pages have wait for each other no more than others. Hits look at
//! none of it.

use std::sync::OnceLock;

use parking_lot::Mutex;

use crate::tags::TagHash;

/// The pairs of a zone. Nothing until the first.
#[derive(Debug, Default)]
pub(crate) struct TagIndex {
    shards: OnceLock<Box<[Mutex<Pairs>]>>,
}

/// A tag, and the hash of an entry in its memory shelf.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Pair(TagHash, u64);

/// Sorted pairs, in chunks of up to [`CHUNK`], of which none is empty.
#[derive(Debug, Default)]
struct Pairs {
    chunks: Vec<Vec<Pair>>,
}

impl TagIndex {
    /// Notes that an entry has the tags `now` instead of `before`. Both are sorted.
    pub(crate) fn change(&self, entry: u64, before: &[TagHash], now: &[TagHash]) {
        for tag in now.iter().filter(|tag| before.binary_search(tag).is_err()) {
            self.shard(*tag, entry).lock().insert(Pair(*tag, entry));
        }
        for tag in before.iter().filter(|tag| now.binary_search(tag).is_err()) {
            self.shard(*tag, entry).lock().remove(&[Pair(*tag, entry)]);
        }
    }

    /// Removes pairs of a tag and an entry, unless `has` says of the number beside a pair that this entry has the tag, which
    /// runs under a lock. It locks each part of the index once, and moves what stays there once, so many at a time cost
    /// little.
    pub(crate) fn remove_all(&self, pairs: &[(TagHash, u64, u32)], has: impl Fn(u32, TagHash) -> bool) {
        let Some(shards) = self.shards.get() else { return };
        let mut pairs: Vec<_> = pairs.iter().map(|(tag, at, of)| (place(*tag, *at), Pair(*tag, *at), *of)).collect();
        pairs.sort_unstable();
        let mut gone = Vec::new();
        for together in pairs.chunk_by(|one, next| one.0 == next.0) {
            let Some(shard) = together.first().and_then(|(place, ..)| shards.get(*place)) else { return };
            let mut shard = shard.lock();
            gone.clear();
            gone.extend(together.iter().filter(|(_, pair, of)| !has(*of, pair.0)).map(|(_, pair, _)| *pair));
            shard.remove(&gone);
        }
    }

    /// Adds an entry to those of a tag if `is_there` says that it has the tag, which runs under a lock.
    pub(crate) fn insert_if(&self, tag: TagHash, entry: u64, is_there: impl FnOnce() -> bool) {
        let mut shard = self.shard(tag, entry).lock();
        if is_there() {
            shard.insert(Pair(tag, entry));
        }
    }

    /// The hashes of the entries that have a tag.
    pub(crate) fn entries_of(&self, tag: TagHash) -> Vec<u64> {
        let mut entries = Vec::new();
        for part in self.shards.get().and_then(|shards| shards.chunks(PARTS).nth(slot(tag))).unwrap_or_default() {
            part.lock().of(tag, &mut entries);
        }
        entries
    }

    /// How many pairs there are, and how many bytes they take.
    pub(crate) fn size(&self) -> (usize, usize) {
        let all = self.shards.get().map_or(&[][..], |shards| &**shards);
        all.iter().fold((size_of_val(all), 0), |(bytes, pairs), shard| {
            let shard = shard.lock();
            let chunks = shard.chunks.iter();
            let in_chunks: usize = chunks.map(|chunk| chunk.capacity() * size_of::<Pair>() + ALLOCATION_BYTES).sum();
            let len: usize = shard.chunks.iter().map(Vec::len).sum();
            (bytes + in_chunks + shard.chunks.capacity() * size_of::<Vec<Pair>>(), pairs + len)
        })
    }

    fn shard(&self, tag: TagHash, entry: u64) -> &Mutex<Pairs> {
        let shards = self.shards.get_or_init(|| (0..SLOTS * PARTS).map(|_| Mutex::default()).collect());
        &shards[place(tag, entry)]
    }
}

/// Which of all shards a pair is in.
fn place(tag: TagHash, entry: u64) -> usize {
    slot(tag) * PARTS + (entry >> 60) as usize % PARTS
}

/// The place of a tag's shards.
fn slot(tag: TagHash) -> usize {
    (tag.0 >> 58) as usize % SLOTS
}

impl Pairs {
    /// The first chunk that does not end before `pair`.
    fn at(&self, pair: Pair) -> usize {
        self.chunks.partition_point(|chunk| chunk.last().is_some_and(|last| *last < pair))
    }

    fn insert(&mut self, pair: Pair) {
        // Behind all: at the end of the last.
        let at = self.at(pair).min(self.chunks.len().saturating_sub(1));
        let Some(chunk) = self.chunks.get_mut(at) else { return self.chunks.push(vec![pair]) };
        let Err(place) = chunk.binary_search(&pair) else { return };
        if chunk.len() == chunk.capacity() {
            chunk.reserve_exact((chunk.len() / GROWTH_SHARE).max(GROWTH_MIN));
        }
        chunk.insert(place, pair);
        if chunk.len() > CHUNK {
            let upper = chunk.split_off(CHUNK / 2);
            chunk.shrink_to_fit();
            self.chunks.insert(at + 1, upper);
        }
    }

    /// Removes pairs, which are sorted.
    fn remove(&mut self, mut pairs: &[Pair]) {
        while let Some(first) = pairs.first() {
            let at = self.at(*first);
            let Some(chunk) = self.chunks.get_mut(at) else { return };
            let in_chunk = pairs.partition_point(|pair| chunk.last().is_some_and(|last| pair <= last));
            let (here, rest) = pairs.split_at(in_chunk);
            pairs = rest;
            if cut(chunk, here) {
                self.tidy(at);
            }
        }
    }

    /// Gives back what is free in a chunk that pairs were removed from, and in the list of chunks.
    fn tidy(&mut self, at: usize) {
        let Some(chunk) = self.chunks.get_mut(at) else { return };
        let len = chunk.len();
        if len == 0 {
            self.chunks.remove(at);
        } else {
            if chunk.capacity() > len + len / SLACK_SHARE + SLACK_MIN {
                chunk.shrink_to(len + len / GROWTH_SHARE);
            }
            if len < CHUNK / 4 {
                self.join(at);
            }
        }
        if self.chunks.capacity() > self.chunks.len() * 4 {
            self.chunks.shrink_to_fit();
        }
    }

    /// Joins a small chunk with the one behind it, or before it, if both fit well into one.
    fn join(&mut self, at: usize) {
        let fits = |lower: usize| match self.chunks.get(lower..).unwrap_or_default() {
            [one, other, ..] => one.len() + other.len() <= CHUNK / 4 * 3,
            [] | [_] => false,
        };
        let Some(lower) = [Some(at), at.checked_sub(1)].into_iter().flatten().find(|lower| fits(*lower)) else {
            return;
        };
        let upper = self.chunks.remove(lower + 1);
        if let Some(chunk) = self.chunks.get_mut(lower) {
            chunk.reserve_exact(upper.len());
            chunk.extend(upper);
        }
    }

    /// Adds the entries of a tag.
    fn of(&self, tag: TagHash, entries: &mut Vec<u64>) {
        let chunks = self.chunks.iter().skip(self.at(Pair(tag, 0)));
        let pairs = chunks.flatten().skip_while(|pair| pair.0 < tag);
        entries.extend(pairs.take_while(|pair| pair.0 == tag).map(|pair| pair.1));
    }
}

/// Takes pairs out of a chunk, of which each is moved at most once; both are sorted. False if there was none of them.
fn cut(chunk: &mut Vec<Pair>, pairs: &[Pair]) -> bool {
    let (mut kept, mut looked) = (0, 0);
    for pair in pairs {
        let Ok(place) = chunk.get(looked..).unwrap_or_default().binary_search(pair) else { continue };
        chunk.copy_within(looked..looked + place, kept);
        kept += place;
        looked += place + 1;
    }
    let is_changed = looked > kept;
    if is_changed {
        chunk.copy_within(looked.., kept);
        chunk.truncate(chunk.len() - (looked - kept));
    }
    is_changed
}

/// Tags are spread over this many places, and the pairs of each place over [`PARTS`] locks.
const SLOTS: usize = 64;
/// See [`SLOTS`].
const PARTS: usize = 16;
/// The most pairs of a chunk: 8 KB, of which a change moves half.
const CHUNK: usize = 512;
/// A full chunk grows by one part in this many of itself.
const GROWTH_SHARE: usize = 8;
/// A full chunk grows by this many pairs at least.
const GROWTH_MIN: usize = 2;
/// Of what was removed room for one part in this many of the rest is kept, and for this many pairs: with more of it, a
/// pair would take more than 24 bytes, and with less, to remove many would mostly move what is left.
const SLACK_SHARE: usize = 2;
/// See [`SLACK_SHARE`].
const SLACK_MIN: usize = 4;
/// What a chunk takes beside its pairs.
const ALLOCATION_BYTES: usize = 16;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn entries(index: &TagIndex, tag: TagHash) -> BTreeSet<u64> {
        let entries = index.entries_of(tag);
        let set: BTreeSet<u64> = entries.iter().copied().collect();
        assert_eq!(set.len(), entries.len(), "each is named once");
        set
    }

    #[test]
    fn an_entry_is_found_by_the_tags_that_it_has_now() {
        let index = TagIndex::default();
        let [a, b, c] = [b"a", b"b", b"c"].map(|tag| TagHash::of(tag));
        assert!(index.entries_of(a).is_empty());
        let sorted = |mut tags: Vec<TagHash>| {
            tags.sort_unstable();
            tags
        };
        index.change(1, &[], &sorted(vec![a, b]));
        index.change(2, &[], &[b]);
        index.change(1, &sorted(vec![b, a]), &sorted(vec![b, c]));
        let found = [a, b, c].map(|tag| entries(&index, tag).into_iter().collect::<Vec<_>>());
        assert_eq!(found, [vec![], vec![1, 2], vec![1]]);
        index.change(1, &sorted(vec![c, b]), &[]);
        assert_eq!((entries(&index, b), index.size().0 > 0, index.size().1), (BTreeSet::from([2]), true, 1));
    }

    /// Each step changes one of a thousand entries; there are tags that all have, and tags that one has.
    #[test]
    fn it_says_the_same_as_a_set_and_takes_no_more_than_24_bytes_a_pair() {
        let index = TagIndex::default();
        let mut model: BTreeSet<(TagHash, u64)> = BTreeSet::new();
        let mut random = 1_u64;
        let mut next = || {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            random >> 20
        };
        let tag_of = |number: u64| TagHash::of(&number.to_le_bytes());
        for step in 0..60_000_u64 {
            let entry = (next() % 20_000).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            let mut before: Vec<TagHash> = match step < 30_000 {
                true => Vec::new(),
                false => (0..4).map(|wide| tag_of(next() % 10_u64.pow(wide + 1))).collect(),
            };
            let wide = 1 + next() % 4;
            let mut now: Vec<TagHash> = (0..3).map(|_| tag_of(next() % 10_u64.pow(wide as u32))).collect();
            before.sort_unstable();
            now.sort_unstable();
            index.change(entry, &before, &now);
            for tag in before.iter().filter(|tag| !now.contains(tag)) {
                model.remove(&(*tag, entry));
            }
            // What it had already it was not told again.
            model.extend(now.iter().filter(|tag| !before.contains(tag)).map(|tag| (*tag, entry)));
        }
        // Many at once, of which some are there still.
        let many: Vec<(TagHash, u64, u32)> =
            model.iter().map(|(tag, entry)| (*tag, *entry, 0)).filter(|(tag, ..)| tag.0 % 3 == 0).collect();
        index.remove_all(&many, |_, tag| tag.0 % 2 == 0);
        let all = model.len();
        model.retain(|(tag, _)| tag.0 % 6 != 3);
        assert!(model.len() < all && many.len() > all - model.len(), "some are gone, some of the many are there still");
        for number in 0..10_000 {
            let tag = tag_of(number);
            let expected: BTreeSet<u64> = model.range((tag, 0)..=(tag, u64::MAX)).map(|pair| pair.1).collect();
            assert_eq!(entries(&index, tag), expected, "{number}");
        }
        let (bytes, pairs) = index.size();
        assert_eq!(pairs, model.len());
        assert!(bytes <= pairs * 24, "{bytes} bytes for {pairs} pairs");
        for (tag, entry) in model {
            index.change(entry, &[tag], &[]);
        }
        let (bytes, pairs) = index.size();
        assert!(pairs == 0 && bytes < 100_000, "{bytes} bytes for {pairs} pairs");
    }
}
