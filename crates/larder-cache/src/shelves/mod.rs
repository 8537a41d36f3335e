//! The shelves on disk of a zone: which of them has a page, and what is written there.
//!
//! With *hash*, each page has one shelf, chosen by its key in proportion to the shelves' sizes; if a shelf fails, only
//! its share is lost. With *mirror*, each page is on two shelves. The choice is weighted rendezvous hashing, so adding
//! or removing a shelf moves no page between the others. When a page's shelf changes, its old copy stays where it was,
//! and is not looked for there. But that shelf may become the page's own again; so a page is removed or replaced on
//! every shelf.

pub(crate) mod head;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use bytes::Bytes;
use larder_http::Time;
use larder_store::{
    Body, DiskBody, DiskShelf, DiskState, Found, Hold, Offload, Owed, Page, PageBody, Payable, Reservation, Stored,
    StoredBody, WordedBan,
};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::entry::Entry;
use crate::object::Object;
use crate::vary::VaryKey;
use crate::zone::Zone;

/// The object of a head as on disk, with an empty body. `None` if the head is of another
/// version.
pub fn object_of_head(head: &[u8]) -> Option<Object> {
    head::decode(head, Body::of(Bytes::new(), None))
}

/// How pages are spread over the shelves of a zone: `larder_placement`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placing {
    /// Each page is on one shelf, chosen by its key.
    Hash,
    /// Each page is on two shelves.
    Mirror,
}

/// One of the shelves of a zone.
#[derive(Clone)]
pub struct Member {
    /// Its handle.
    pub shelf: DiskShelf,
    /// Identifies it, the same in every run: its folder.
    pub name: String,
    /// Its size, in the same unit for all; a shelf of twice the weight gets twice the pages.
    pub weight: u64,
}

/// The shelves of a zone; a zone in memory only has none.
pub struct Shelves {
    placing: Placing,
    members: Box<[(u64, Member)]>,
    /// For each, [`DiskShelf::bans_read`] when the zone took over its bans.
    known_bans: Box<[AtomicU64]>,
}

/// Where the shelves have something under a key, in the order in which it is tried. Hints: reading may find nothing.
pub(crate) struct FoundOn {
    on: Vec<(DiskShelf, Found)>,
    /// Longer bodies are not read into memory.
    body_bytes_max: usize,
    /// The number of the zone's newest ban before.
    pub(crate) newest_ban: u64,
}

impl Shelves {
    /// No shelf.
    pub fn none() -> Self {
        Self { placing: Placing::Hash, members: Box::default(), known_bans: Box::default() }
    }

    /// A set of shelves.
    pub fn new(placing: Placing, members: Vec<Member>) -> Self {
        let known_bans = members.iter().map(|_| AtomicU64::new(0)).collect();
        let seeded = members.into_iter().map(|member| (xxh3_64(member.name.as_bytes()), member));
        Self { placing, members: seeded.collect(), known_bans }
    }

    /// All shelves.
    pub fn iter(&self) -> impl Iterator<Item = &DiskShelf> {
        self.members.iter().map(|(_, member)| &member.shelf)
    }

    /// Whether the zone is in memory only.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// The shelves where a key belongs, the best first.
    pub(crate) fn of(&self, key: &[u8]) -> impl Iterator<Item = &DiskShelf> {
        self.ranked(key).take(self.copies())
    }

    /// The shelves where a key does not belong. They may have an old copy, from before a shelf was added, removed or
    /// resized.
    fn strays(&self, key: &[u8]) -> impl Iterator<Item = &DiskShelf> {
        // Most zones have no such shelf; then the ranking is not computed.
        let others = (self.members.len() > self.copies()).then(|| self.ranked(key).skip(self.copies()));
        others.into_iter().flatten()
    }

    /// How many copies of a page there are.
    fn copies(&self) -> usize {
        match self.placing {
            Placing::Hash => 1,
            Placing::Mirror => 2,
        }
    }

    /// All shelves, the best for a key first.
    fn ranked(&self, key: &[u8]) -> impl Iterator<Item = &DiskShelf> {
        let mut order: Vec<(f64, &DiskShelf)> = match &*self.members {
            [(_, only)] => vec![(0.0, &only.shelf)],
            members => members.iter().map(|(seed, member)| (score(*seed, member.weight, key), &member.shelf)).collect(),
        };
        order.sort_by(|(a, _), (b, _)| b.total_cmp(a));
        order.into_iter().map(|(_, shelf)| shelf)
    }

    /// Whether the shelves can find everything under `key` now. A shelf that is still being opened, or has failed, may
    /// find more later.
    pub(crate) fn are_open(&self, key: &[u8]) -> bool {
        self.of(key).all(|shelf| match shelf.state() {
            DiskState::Serving | DiskState::ReadOnly | DiskState::Stopped => true,
            DiskState::Opening | DiskState::Waiting | DiskState::Out => false,
        })
    }

    /// Asks the indexes for `key`, which counts as a use. No I/O.
    pub(crate) fn find(&self, key: &[u8], now: Time, body_bytes_max: usize, newest_ban: u64) -> Option<FoundOn> {
        if self.members.is_empty() {
            return None;
        }
        let found = self.of(key).map(|shelf| (shelf.clone(), shelf.find(key, now.secs())));
        let on: Vec<_> = found.filter(|(_, found)| !found.is_empty()).collect();
        (!on.is_empty()).then_some(FoundOn { on, body_bytes_max, newest_ban })
    }

    /// Notes that a key is fetched. True if one of its shelves has evicted a page of it lately that could still be used.
    pub(crate) fn note_miss(&self, key: &[u8], now: Time) -> bool {
        // Each of them is told.
        self.of(key).filter(|shelf| shelf.note_miss(key, now.secs())).count() > 0
    }

    /// Whether there may be something under `key`. Does not count as a use. No I/O.
    pub(crate) fn may_have(&self, key: &[u8]) -> bool {
        self.of(key).any(|shelf| shelf.may_have(key))
    }

    /// The folders of the shelves that have this variant of `key`. Does not count as a use. No I/O.
    pub(crate) fn with(&self, key: &[u8], vary: &VaryKey) -> Vec<PathBuf> {
        let shelves = self.of(key).filter(|shelf| shelf.has(key, vary.fingerprint()));
        shelves.map(|shelf| shelf.dir().to_owned()).collect()
    }

    /// Whether one of the shelves of `key` takes a body of this length.
    pub(crate) fn can_hold(&self, key: &[u8], bytes: u64) -> bool {
        self.of(key).any(|shelf| bytes <= shelf.body_bytes_max())
    }

    /// Notes a use of the pages under `key`.
    pub(crate) fn touch(&self, key: &[u8], now: Time) {
        self.of(key).for_each(|shelf| drop(shelf.find(key, now.secs())));
    }

    /// Writes a complete object to the shelves of its key. If a shelf cannot take it, the older page there is dropped,
    /// because it is out of date.
    pub(crate) fn store(&self, entry: &Arc<Entry>, object: &Arc<Object>, useless_at: Time, now: Time) {
        if self.members.is_empty() {
            return;
        }
        let key = entry.key_bytes();
        self.remove_strays(key, object.vary.fingerprint(), now);
        let record = Record { entry: Arc::clone(entry), object: Arc::clone(object), useless_at, now };
        let shelves: Vec<DiskShelf> = self.of(key).cloned().collect();
        if object.body.whole().is_some() {
            shelves.iter().for_each(|shelf| record.store_on(shelf));
            return;
        }
        // The older page is out of date at once, even while the last slices are still being written.
        for shelf in shelves.iter().filter(|shelf| object.body.on(shelf).is_none()) {
            shelf.remove(key, Some(object.vary.fingerprint()), now.secs());
        }
        object.body.when_on_disk(move |_| {
            // If it was replaced or purged meanwhile, it must not be written after that.
            if record.is_current() {
                shelves.iter().for_each(|shelf| record.store_on(shelf));
            }
            record.reweigh();
        });
    }

    /// How a body that is too big for `memory_bytes` goes to disk while it fills. `None` if there is no disk.
    pub(crate) fn offload(&self, key: &[u8], memory_bytes: u64) -> Option<Offload> {
        let bytes_min = BIG_BYTES.min(memory_bytes / BIG_SHARE);
        let shelves: Vec<DiskShelf> = self.of(key).cloned().collect();
        let memory_bytes_max = bytes_min.saturating_mul(WAITING_SHARE);
        (!shelves.is_empty()).then_some(Offload { shelves, bytes_min, memory_bytes_max })
    }

    /// Drops everything under `key`. Returns the number of variants of the shelf that had most.
    pub(crate) fn remove(&self, key: &[u8], now: Time) -> usize {
        for shelf in self.strays(key) {
            shelf.remove(key, None, now.secs());
        }
        self.of(key).map(|shelf| shelf.remove(key, None, now.secs())).max().unwrap_or(0)
    }

    /// Drops everything whose key begins with `prefix`.
    pub(crate) fn ban(&self, prefix: &[u8], now: Time) {
        self.iter().for_each(|shelf| shelf.ban(prefix, now.secs()));
    }

    /// Notes a ban in words.
    pub(crate) fn ban_worded(&self, ban: &WordedBan, is_timeless: bool) {
        self.iter().for_each(|shelf| shelf.ban_worded(ban.clone(), is_timeless));
    }

    /// All shelves, each with what was known of its bans.
    pub(crate) fn with_known_bans(&self) -> impl Iterator<Item = (&DiskShelf, &AtomicU64)> {
        self.iter().zip(&self.known_bans)
    }

    /// Whether the zone has taken over the bans of all shelves.
    pub(crate) fn are_bans_known(&self) -> bool {
        self.with_known_bans().all(|(shelf, known)| known.load(Ordering::Acquire) == shelf.bans_read())
    }

    /// Drops a variant.
    pub(crate) fn remove_variant(&self, key: &[u8], object: &Object, now: Time) {
        for shelf in self.of(key) {
            shelf.remove(key, Some(object.vary.fingerprint()), now.secs());
        }
        self.remove_strays(key, object.vary.fingerprint(), now);
    }

    /// Notes that a page with this `Vary` was not kept: the older page is out of date, and is dropped.
    pub(crate) fn not_stored(&self, key: &[u8], vary: &VaryKey, now: Time) {
        self.of(key).for_each(|shelf| shelf.not_stored(key, vary.fingerprint(), now.secs()));
        self.remove_strays(key, vary.fingerprint(), now);
    }

    fn remove_strays(&self, key: &[u8], variant: u8, now: Time) {
        self.strays(key).for_each(|shelf| shelf.remove_found(key, variant, now.secs()));
    }
}

impl FoundOn {
    /// Reads the pages, if the kernel has them cached. `None` if a disk would have to be waited for.
    pub(crate) fn read_now(&self, key: &[u8]) -> Option<Vec<Stored>> {
        let mut all = Vec::new();
        for (shelf, found) in &self.on {
            all.append(&mut shelf.read_now(key, found, body_bytes_for(&all, self.body_bytes_max))?);
        }
        Some(all)
    }

    /// Reads the pages, and waits for the disks. Empty if they are gone, or the disks take too long.
    pub(crate) async fn read(self, key: &[u8]) -> Vec<Stored> {
        let mut all = Vec::new();
        for (shelf, found) in self.on {
            all.append(&mut shelf.read(key.into(), found, body_bytes_for(&all, self.body_bytes_max)).await);
        }
        all
    }
}

/// The largest body to read from one more disk: zero if an earlier disk had something. The other disk is then read only
/// to see whether it has a newer page, because the first was out for a while; its bodies are nearly always the same.
fn body_bytes_for(so_far: &[Stored], body_bytes_max: usize) -> usize {
    if so_far.is_empty() { body_bytes_max } else { 0 }
}

/// A page, and its body on the other disks that have the same page.
pub(crate) type Copies = (Stored, Vec<DiskBody>);

/// Groups the copies of the same page on several disks.
pub(crate) fn together(all: Vec<Stored>) -> Vec<Copies> {
    let mut pages: Vec<Copies> = Vec::with_capacity(all.len());
    for stored in all {
        match (pages.iter_mut().find(|(page, _)| page.head == stored.head && page.variant == stored.variant), stored) {
            (Some((page, copies)), Stored { body, first_ban, .. }) => {
                page.first_ban = earlier(page.first_ban, first_ban);
                if let StoredBody::Disk(body) = body {
                    copies.push(body);
                }
            }
            (None, stored) => pages.push((stored, Vec::new())),
        }
    }
    pages
}

/// The earlier of two numbers, of which either may be missing.
fn earlier(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    one.into_iter().chain(other).min()
}

/// An object that is to be written to a shelf.
#[derive(Clone)]
struct Record {
    entry: Arc<Entry>,
    object: Arc<Object>,
    useless_at: Time,
    now: Time,
}

impl Record {
    fn store_on(&self, shelf: &DiskShelf) {
        // If the shelf refuses the page, it drops the older one and counts that.
        let _ = self.page(self.object.body.on(shelf)).map(|page| shelf.store(page, self.now.secs()));
        // If it was replaced or purged meanwhile, the shelf may have been told that first.
        if !self.is_current() {
            shelf.remove(self.entry.key_bytes(), Some(self.object.vary.fingerprint()), self.now.secs());
        }
    }

    /// The page to write, with the body from memory, or with the body that is already `on_disk`.
    fn page(&self, on_disk: Option<DiskBody>) -> Option<Page> {
        let object = &self.object;
        let body = match object.body.whole() {
            Some(whole) => Some(whole.for_disk()),
            None => on_disk.clone().map(PageBody::Disk),
        };
        body.map(|body| Page {
            key: self.entry.key_bytes().into(),
            variant: object.vary.fingerprint(),
            head: Bytes::from(head::encode(object)),
            body,
            expires_at: self.useless_at.secs(),
            cost_micros: object.cost_micros,
            holds: Some(Box::new(InQueue::new(self.clone(), on_disk))),
        })
    }

    fn is_current(&self) -> bool {
        self.zone().is_some_and(|zone| zone.is_current(&self.entry, &self.object))
    }

    /// Tells memory that the body no longer takes any.
    fn reweigh(&self) {
        if let Some(zone) = self.zone() {
            zone.reweigh(&self.entry);
        }
    }

    fn zone(&self) -> Option<Arc<Zone>> {
        self.object.hold.home()?.zone.upgrade()
    }
}

/// A page that waits in the queue to be written. Until then its memory counts, and its entry is not evicted, because
/// the disk would still answer with the older page.
struct InQueue {
    record: Record,
    on_disk: Option<DiskBody>,
}

impl InQueue {
    fn new(record: Record, on_disk: Option<DiskBody>) -> Self {
        record.entry.add_permit();
        Self { record, on_disk }
    }
}

impl Hold for InQueue {
    /// True even if its zone is gone, as for a page that is on disk.
    fn is_wanted(&self) -> bool {
        let Record { entry, object, .. } = &self.record;
        let is_of_now = self.record.zone().is_none_or(|zone| zone.era() == entry.era());
        is_of_now && !entry.is_gone() && entry.has(object)
    }

    fn tested(&self) -> u64 {
        self.record.object.hold.tested.number()
    }

    fn owe(&self) -> Option<Box<dyn Owed>> {
        let Record { entry, object, useless_at, now } = &self.record;
        let room = self.record.zone()?.reserve(OWED_BYTES)?;
        Some(Box::new(OwedPage {
            entry: Arc::downgrade(entry),
            object: Arc::downgrade(object),
            useless_at: *useless_at,
            now: *now,
            on_disk: self.on_disk.clone(),
            _room: room,
        }))
    }
}

impl Drop for InQueue {
    fn drop(&mut self) {
        self.record.entry.remove_permit();
    }
}

/// A page that is owed to the disk: it is written later, if it is still in memory then.
struct OwedPage {
    entry: Weak<Entry>,
    object: Weak<Object>,
    useless_at: Time,
    now: Time,
    on_disk: Option<DiskBody>,
    /// Memory for this value, and for what remains of entry and object while weak references to them exist.
    _room: Reservation,
}

impl OwedPage {
    fn record(&self) -> Result<Record, Payable> {
        let entry = self.entry.upgrade().filter(|entry| !entry.is_gone()).ok_or(Payable::Gone)?;
        let object = self.object.upgrade().ok_or(Payable::Replaced)?;
        let record = Record { entry, object, useless_at: self.useless_at, now: self.now };
        let is_of_now = record.zone().is_some_and(|zone| zone.era() == record.entry.era());
        match (is_of_now, record.entry.has(&record.object)) {
            (true, true) => Ok(record),
            (true, false) => Err(Payable::Replaced),
            (false, _) => Err(Payable::Gone),
        }
    }
}

impl Owed for OwedPage {
    fn page(&self) -> Payable {
        match self.record() {
            Ok(record) => record.page(self.on_disk.clone()).map_or(Payable::Gone, Payable::Page),
            Err(why) => why,
        }
    }

    fn is_there(&self) -> bool {
        self.record().is_ok()
    }
}

/// The bytes that an owed page costs: its place on the list, and the allocations of entry and object, which live as
/// long as a weak reference.
const OWED_BYTES: usize = 256 + size_of::<Entry>() + size_of::<Object>();

/// Weighted rendezvous hashing: the highest score wins (Thaler and Ravishankar 1998; weights by `-w / ln h`).
fn score(seed: u64, weight: u64, key: &[u8]) -> f64 {
    let hash = xxh3_64_with_seed(key, seed);
    // Between 0 and 1, neither included.
    let uniform = ((hash >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
    -(weight.max(1) as f64) / uniform.ln()
}

/// A body of this length or more goes to disk while it fills, and is sent from there.
const BIG_BYTES: u64 = 8 << 20;

/// The same limit as a share of the memory: one part in this many. The smaller limit counts.
const BIG_SHARE: u64 = 8;

/// This many times that length may wait in memory for the disk.
const WAITING_SHARE: u64 = 2;

/// The longest body that is read from disk into memory together with its head, for a memory of `memory_bytes`.
pub(crate) fn read_bytes_max(memory_bytes: u64) -> usize {
    usize::try_from(memory_bytes / BIG_SHARE).unwrap_or(usize::MAX).min(READ_BYTES_MAX)
}

const READ_BYTES_MAX: usize = 256 * 1024;

impl std::fmt::Debug for Shelves {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names = self.members.iter().map(|(_, member)| &member.name);
        f.debug_list().entries(names).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_spread_by_weight_and_stay_where_they_are_when_a_shelf_goes() {
        let shelves = [(xxh3_64(b"/a"), 100), (xxh3_64(b"/b"), 200), (xxh3_64(b"/c"), 100)];
        let best = |shelves: &[(u64, u64)], key: &[u8]| {
            let scored = shelves.iter().enumerate().map(|(at, (seed, weight))| (score(*seed, *weight, key), at));
            scored.max_by(|(a, _), (b, _)| a.total_cmp(b)).expect("there are shelves").1
        };
        let mut counts = [0; 3];
        for n in 0..10_000 {
            let key = format!("http example.org /{n}");
            let chosen = best(&shelves, key.as_bytes());
            counts[chosen] += 1;
            let without_last = best(&shelves[..2], key.as_bytes());
            assert!(chosen == 2 || chosen == without_last, "{key}");
        }
        for (count, share) in counts.into_iter().zip([2500, 5000, 2500]) {
            assert!(i32::abs(count - share) < 200, "{counts:?}");
        }
    }
}
