//! One cache, as a `*_cache_path` declares it.

use std::collections::{HashMap, HashSet};
use std::iter;
use std::mem;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use arc_swap::ArcSwap;
use larder_http::Time;
use larder_store::{
    BUFFERED_BYTES, Body, BodyWriter, Judge, NotKept, Reservation, SLOT_BYTES, Spill, WordedBan, body, body_with_disks,
};
use parking_lot::{Mutex, RwLock};

use crate::bans::{Asking, BanStats, Banned, Bans, Condition, Listed, Reader, Unread};
use crate::entry::{Entry, Peek, each};
use crate::key::{KeyRef, of_part, page_hash};
use crate::memory::Memory;
use crate::object::{Home, Object};
use crate::others::Others;
use crate::remembered::{Refusal, Remembered};
use crate::shelves::{self, Shelves};
use crate::stamps::{Moment, Stamps};
use crate::stats::{Counts, SharedCounts, Tally, ZoneStats};
use crate::tag_index::TagIndex;
use crate::tags::{self, TAGS_MAX, TagFields, TagHash, Tags};
use crate::watch::Watcher;

/// The limits of a zone with its own memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZoneLimits {
    /// How many bytes of memory it may take.
    pub bytes_max: u64,
    /// How long an unused entry stays.
    pub inactive: Duration,
}

/// One cache: entries by key in memory, and shelves on disk behind it.
pub struct Zone {
    /// Unique in the process, because one `Front` and one memory serve several zones.
    id: u64,
    /// A number in each of its entries. It changes when everything is dropped, so that no older entry is found.
    era: AtomicU64,
    name: Box<str>,
    memory: Arc<Memory>,
    shelves: ArcSwap<Shelves>,
    inactive_secs: AtomicU64,
    /// The time of an entry's last use is noted again only after this many seconds, so that a hot entry is rarely
    /// written. It is at most a sixteenth of `inactive`.
    use_step_secs: AtomicU64,
    bans: Bans<Object>,
    pub(crate) stamps: Stamps,
    pub(crate) remembered: Remembered,
    /// Held by the thread that takes over bans from shelves.
    taking_over: Mutex<()>,
    /// How bans on disk are read.
    read_ban: OnceLock<Reader<Object>>,
    tag_fields: ArcSwap<TagFields>,
    /// Who is told of purged pages.
    pub(crate) watcher: RwLock<Option<Arc<dyn Watcher>>>,
    /// Who tells other caches of purges.
    pub(crate) others: RwLock<Option<Arc<dyn Others>>>,
    pub(crate) counts: SharedCounts,
    /// Its part of the memory.
    tally: Arc<Tally>,
    /// The counts of each worker, and the sums of workers that are gone.
    workers: Mutex<Workers>,
}

/// What [`Zone::look_ahead`] has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lurked {
    /// How many pages were tested.
    pub tested: usize,
    /// How many of them were covered, and dropped.
    pub dropped: usize,
    /// How many bans were forgotten.
    pub forgotten: usize,
}

/// How many pages are tested between two pauses.
const AT_ONCE: usize = 16;

#[derive(Default)]
struct Workers {
    live: Vec<Arc<Counts>>,
    gone: ZoneStats,
}

impl Zone {
    /// An empty zone with memory of its own, and no disk.
    pub fn new(name: impl Into<Box<str>>, limits: ZoneLimits) -> Arc<Self> {
        Self::over(name, Memory::new(limits.bytes_max), limits.inactive, Shelves::none())
    }

    /// A zone in `memory`, with the pages of `shelves`. Entries that are not used for `inactive` are dropped.
    pub fn over(name: impl Into<Box<str>>, memory: Arc<Memory>, inactive: Duration, shelves: Shelves) -> Arc<Self> {
        let id = next_number();
        let zone = Arc::new(Self {
            id,
            era: AtomicU64::new(id),
            name: name.into(),
            memory,
            shelves: ArcSwap::from_pointee(shelves),
            inactive_secs: AtomicU64::new(inactive.as_secs()),
            use_step_secs: AtomicU64::new(use_step_secs(inactive)),
            bans: Bans::new(id),
            stamps: Stamps::new(),
            remembered: Remembered::default(),
            taking_over: Mutex::default(),
            read_ban: OnceLock::new(),
            tag_fields: ArcSwap::default(),
            watcher: RwLock::default(),
            others: RwLock::default(),
            counts: SharedCounts::default(),
            tally: Arc::default(),
            workers: Mutex::default(),
        });
        zone.memory.serve(&zone);
        zone.own(&zone.shelves());
        zone
    }

    /// Its name in the configuration.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The memory it is in.
    pub fn memory(&self) -> &Arc<Memory> {
        &self.memory
    }

    /// Sets the time after which unused entries are dropped.
    pub fn set_inactive(&self, inactive: Duration) {
        self.inactive_secs.store(inactive.as_secs(), Ordering::Relaxed);
        self.use_step_secs.store(use_step_secs(inactive), Ordering::Relaxed);
    }

    /// Replaces its shelves. Pages in memory stay.
    pub fn set_shelves(self: &Arc<Self>, shelves: Shelves) {
        self.own(&shelves);
        {
            // Before requests see them, and have to do without the disk.
            let _taking_over = self.taking_over.lock();
            self.take_over_from(&shelves);
        }
        self.shelves.store(Arc::new(shelves));
        self.take_over_bans();
    }

    fn own(self: &Arc<Self>, shelves: &Shelves) {
        let judge: Weak<dyn Judge> = Arc::downgrade(self) as Weak<dyn Judge>;
        shelves.iter().for_each(|shelf| shelf.belong_to(self.id, Weak::clone(&judge)));
    }

    /// Its shelves on disk.
    pub fn shelves(&self) -> Arc<Shelves> {
        self.shelves.load_full()
    }

    /// Has purges by tag look at the fields of these names, in whatever case, also in pages that are here already. The index
    /// knows the tags of pages that come from now on, so the next purge by tag counts these alone.
    pub fn set_tag_fields(&self, names: &[&str]) {
        self.tag_fields.store(Arc::new(TagFields::of(names)));
    }

    /// Whether purges by tag look at any field.
    pub fn has_tags(&self) -> bool {
        self.tag_fields.load().names().next().is_some()
    }

    pub(crate) fn tag_fields(&self) -> TagFields {
        TagFields::clone(&self.tag_fields.load())
    }

    /// Takes `bytes` of its room for a body, letting others go if need be.
    pub fn reserve(&self, bytes: usize) -> Option<Reservation> {
        self.memory.reserve(bytes)
    }

    /// A body to store here under `key`. If `len`, its length, is known, room for it is reserved at once.
    ///
    /// If the zone has no room, the body is not stored. A body that is too big for memory goes to the disk while it
    /// fills, if there is a disk.
    pub fn body(&self, key: &[u8], len: Option<u64>, spill: Option<Spill>) -> (BodyWriter, Body) {
        let offload = self.shelves.load().offload(key, self.memory.bytes_max());
        let in_memory = len.filter(|&len| offload.as_ref().is_none_or(|offload| len < offload.bytes_min));
        let bytes = usize::try_from(in_memory.unwrap_or(0)).ok();
        let is_buffered = in_memory.is_some_and(|len| BUFFERED_BYTES.contains(&len));
        let (room, buffers) = match bytes {
            Some(bytes) if is_buffered => self.memory.reserve_with_buffers(bytes).unzip(),
            Some(bytes) => (self.reserve(bytes), None),
            None => (None, None),
        };
        let (mut writer, body) = match offload {
            Some(offload) => body_with_disks(room, spill, offload, len),
            None => body(room, spill),
        };
        if let Some(buffers) = buffers {
            writer.keep_in(buffers);
        }
        (writer, body)
    }

    /// The same as [`purge`](Self::purge), as a request may have changed the page. Nobody is told of it.
    pub fn invalidate(&self, key: &KeyRef<'_>, now: Time) -> usize {
        self.stamps.purge(page_hash(key.bytes(), key.shelf_hash()));
        self.purge_alone(key, now) + self.purge_alone(&KeyRef::new(&of_part(key.bytes())), now)
    }

    /// [`purge`](Self::purge), of which other caches are not told.
    pub(crate) fn purge_here(&self, key: &KeyRef<'_>, now: Time) -> usize {
        // The entry is held, as its pages know their URLs by it.
        let entry = self.is_watched().then(|| self.entry_there(key)).flatten();
        let watched = entry.as_ref().map_or_else(Vec::new, |entry| self.watched_of(entry));
        let variants = self.invalidate(key, now);
        self.tell_all(watched);
        variants
    }

    /// The same for the key of a page or that of a part.
    fn purge_alone(&self, key: &KeyRef<'_>, now: Time) -> usize {
        let in_memory = self.forget(key);
        self.memory.shelf().make_useless(Some(shelf_hash(key, self.era())));
        let on_disk = self.shelves.load().remove(key.bytes(), now);
        // In between, a lookup may have made a new entry and read the page that was still on disk.
        self.forget(key);
        let variants = in_memory.max(on_disk);
        if variants > 0 {
            self.remembered.purge(key.shelf_hash());
        }
        self.counts.purged.fetch_add(variants as u64, Ordering::Relaxed);
        variants
    }

    /// [`purge_prefix`](Self::purge_prefix), of which other caches are not told.
    pub(crate) fn purge_prefix_here(&self, prefix: &[u8], now: Time) -> usize {
        let is_meant = |key: &[u8]| key.starts_with(prefix);
        let watched = self.watched(|page| page.with_key(|key| key.is_some_and(is_meant)));
        self.stamps.purge_many(prefix);
        if prefix.is_empty() {
            self.forget_evicted();
        }
        let in_memory = self.forget_entries(|entry| is_meant(entry.key_bytes()));
        self.shelves.load().ban(prefix, now);
        // As in `purge`: in between, a lookup may have read a page that was still on disk.
        self.forget_all(is_meant);
        self.counts.purged.fetch_add(in_memory as u64, Ordering::Relaxed);
        self.tell_all(watched);
        in_memory
    }

    /// [`ban`](Self::ban), of which other caches are not told.
    pub(crate) fn ban_here(&self, condition: Arc<dyn Condition<Object>>, now: Time) -> u64 {
        let _order = self.bans.order.lock();
        // The shelves know it first: a page that was read from one without the ban is tested by it.
        let ban = WordedBan { number: self.bans.next(), made_at: now.0, words: condition.words().into() };
        self.shelves.load().ban_worded(&ban, condition.is_timeless());
        self.bans.add(condition, now)
    }

    /// Waits until the bans so far are on all disks. An error says why a disk cannot keep them now; they hold all the same.
    pub fn bans_kept(&self) -> impl Future<Output = Result<(), NotKept>> + Send + use<> {
        // Asked for before the first is waited for.
        let all: Vec<_> = self.shelves.load().iter().map(|shelf| shelf.bans_kept()).collect();
        async move {
            for kept in all {
                kept.await?;
            }
            Ok(())
        }
    }

    /// Has the bans on disk read that way; until then, each of them holds for all pages.
    pub fn read_bans_by(&self, reader: Reader<Object>) {
        // The first stays: there is one.
        let _ = self.read_ban.set(reader);
    }

    /// Takes over the bans that shelves have read from disk.
    pub(crate) fn take_over_bans(&self) {
        let shelves = self.shelves.load();
        if !shelves.are_bans_known() {
            let _taking_over = self.taking_over.lock();
            self.take_over_from(&shelves);
        }
    }

    /// As [`take_over_bans`](Self::take_over_bans), without waiting for another thread that does it. False if there is
    /// one: until it has done so, pages from disk may be banned.
    pub(crate) fn knows_bans(&self) -> bool {
        let shelves = self.shelves.load();
        if shelves.are_bans_known() {
            return true;
        }
        let Some(_taking_over) = self.taking_over.try_lock() else { return false };
        self.take_over_from(&shelves);
        true
    }

    /// Takes over bans while [`Zone::taking_over`] is held. To read 10,000 of them takes a while, so that happens without
    /// the locks of pages and bans.
    fn take_over_from(&self, shelves: &Shelves) {
        for (shelf, known) in shelves.with_known_bans() {
            let reads = shelf.bans_read();
            if known.load(Ordering::Acquire) == reads {
                continue;
            }
            let found = shelf.unnumbered_bans(self.id);
            let numbers = self.bans.numbers_of(found.iter().map(|ban| (Time(ban.made_at), &*ban.words)));
            let (new, mut numbered) = (found.iter().zip(&numbers), HashMap::new());
            let new: Vec<&WordedBan> = new.filter(|(_, number)| number.is_none()).map(|(ban, _)| ban).collect();
            let conditions = new.iter().map(|ban| (Time(ban.made_at), self.read_words(&ban.words))).collect();
            let _order = self.bans.order.lock();
            let known_before = found.iter().zip(&numbers).filter_map(|(ban, number)| Some((ban, (*number)?)));
            for (ban, number) in known_before.chain(new.into_iter().zip(self.bans.take_over(conditions))) {
                // The lower one: with it a page is tested by both.
                let least = numbered.entry((ban.made_at, &*ban.words)).or_insert(number);
                *least = number.min(*least);
            }
            // What was read from disk meanwhile has its turn next time.
            shelf.number_bans(self.id, |ban| numbered.get(&(ban.made_at, &*ban.words)).copied().unwrap_or(0));
            known.store(reads, Ordering::Release);
        }
    }

    /// The ban that these words say.
    pub(crate) fn read_words(&self, words: &str) -> Arc<dyn Condition<Object>> {
        self.read_ban.get().map_or_else(unread, |read| read(words))
    }

    /// The number of the newest ban.
    pub fn newest_ban(&self) -> u64 {
        self.bans.newest()
    }

    /// Now, for who begins a fetch without a permit.
    pub fn moment(&self) -> Moment {
        Moment { ban: self.newest_ban(), purge: self.stamps.newest() }
    }

    /// Keeps from now on what is purged for so long that it can be told whether it means a page of another cache:
    /// see [`Permit::take_in`](crate::Permit::take_in).
    pub fn keep_purges(&self) {
        self.stamps.keep();
    }

    /// By which bans a page was tested that was read from a shelf: see [`Bans::tested_before`].
    pub(crate) fn tested_before(&self, first: Option<u64>, newest: u64) -> Option<u64> {
        self.bans.tested_before(first, newest)
    }

    /// What bans have made of a page that was found, which [`enforce`](Self::enforce) carries out; `None` for one that is
    /// as it was.
    #[inline]
    pub fn banned(&self, object: &Object, request: &Asking<'_>) -> Option<Banned> {
        self.bans.cover(object, &object.hold.tested, request)
    }

    /// Has a page be what bans have made of it: drops it from memory and disk, or puts one in its place that is stale. The
    /// next lookup finds that, or another, or none.
    pub fn enforce(self: &Arc<Self>, banned: Banned, object: &Arc<Object>, now: Time) {
        match banned {
            Banned::Gone => {
                self.bans.counts.dropped.fetch_add(1, Ordering::Relaxed);
                self.drop_covered(object, now);
            }
            Banned::Stale(stale) => drop(self.make_stale(object, stale, now)),
        }
    }

    /// Makes a page that has just become a variant what bans have made of it since its fetch began, and writes it to the
    /// shelves if it may be used.
    pub(crate) fn keep(self: &Arc<Self>, entry: &Arc<Entry>, object: &Arc<Object>) {
        match self.looked_ahead(object) {
            None => self.shelve(entry, object),
            Some(banned @ Banned::Gone) => self.enforce(banned, object, object.stored_at),
            Some(Banned::Stale(stale)) => {
                if let Some(stale) = self.end_freshness(object, stale, object.stored_at) {
                    self.shelve(entry, &stale);
                }
            }
        }
    }

    /// What the bans that look at no request have made of a page since its fetch began.
    pub(crate) fn looked_ahead(&self, object: &Object) -> Option<Banned> {
        let tested = &object.hold.tested;
        let is_new = tested.number() == self.newest_ban();
        if is_new { None } else { self.bans.look_ahead(object, tested, Time(u64::MAX), Time(u64::MAX)) }
    }

    fn drop_covered(&self, object: &Arc<Object>, now: Time) {
        self.remember_purge(object);
        self.lost(object, now);
        self.counts.purged.fetch_add(1, Ordering::Relaxed);
    }

    /// The hashes of the entries in memory that have pages with a tag.
    pub(crate) fn entries_of(&self, tag: TagHash) -> Vec<u64> {
        self.tally.tags.entries_of(tag)
    }

    /// Its index of tags.
    pub(crate) fn tags(&self) -> &TagIndex {
        &self.tally.tags
    }

    /// How many pairs of entry and tag are in the index, and how many bytes they take.
    pub fn tags_indexed(&self) -> (usize, usize) {
        let (bytes, pairs) = self.tally.tags.size();
        (pairs, bytes)
    }

    pub(crate) fn note_purged(&self, pages: usize) {
        self.counts.purged.fetch_add(pages as u64, Ordering::Relaxed);
    }

    /// The pages in memory for which `is_meant` is true, which runs under a lock.
    pub(crate) fn objects(&self, is_meant: impl Fn(&Object) -> bool) -> Vec<Weak<Object>> {
        let (era, mut all) = (self.era(), Vec::new());
        self.memory.shelf().sweep_all(|entry| {
            if entry.era() == era {
                let variants = entry.variants();
                all.extend(each(&variants).filter(|object| is_meant(object)).map(Arc::downgrade));
            }
            true
        });
        all
    }

    /// Tests the pages in memory by the bans made until then that look at no request, and drops those that are covered;
    /// then forgets the bans by which all were tested, and that no shelf needs. Calls `pause` after a few pages each, and
    /// gives up when that returns false. It visits every entry, as [`purge_prefix`](Self::purge_prefix) does.
    pub fn look_ahead(self: &Arc<Self>, until: Time, now: Time, mut pause: impl FnMut() -> bool) -> Lurked {
        let mut lurked = Lurked::default();
        if !self.bans.has_work(until, now) {
            return lurked;
        }
        let (era, newest) = (self.era(), self.newest_ban());
        let all = self.objects(|object| object.hold.tested.number() != newest);
        for some in all.chunks(AT_ONCE) {
            for object in some.iter().filter_map(Weak::upgrade) {
                lurked.tested += 1;
                match self.bans.look_ahead(&object, &object.hold.tested, until, now) {
                    None => {}
                    Some(Banned::Gone) => {
                        self.bans.counts.dropped_ahead.fetch_add(1, Ordering::Relaxed);
                        self.drop_covered(&object, now);
                        lurked.dropped += 1;
                    }
                    Some(Banned::Stale(stale)) => drop(self.make_stale(&object, stale, now)),
                }
            }
            if !pause() {
                return lurked;
            }
        }
        let on_disk = self.shelves.load().iter().filter_map(|shelf| shelf.first_ban()).min();
        let mut least =
            on_disk.map_or(newest, |first| newest.min(first.saturating_sub(1))).min(self.bans.last_of(until, now));
        if !self.bans.has_until(least) {
            return lurked;
        }
        self.memory.shelf().sweep_all(|entry| {
            if entry.era() == era {
                let variants = entry.variants();
                least = each(&variants).map(|object| object.hold.tested.number()).fold(least, u64::min);
            }
            true
        });
        lurked.forgotten = self.bans.forget_until(least);
        lurked
    }

    /// How many bans there are, and what they have done.
    pub fn ban_stats(&self) -> BanStats {
        self.take_over_bans();
        self.bans.stats()
    }

    /// All bans, newest first. It visits every entry, as [`purge_prefix`](Self::purge_prefix) does.
    pub fn bans(&self) -> Vec<Listed> {
        self.take_over_bans();
        let (era, mut pages) = (self.era(), HashMap::<u64, u64>::new());
        self.memory.shelf().sweep_all(|entry| {
            if entry.era() == era {
                each(&entry.variants()).for_each(|object| *pages.entry(object.hold.tested.number()).or_default() += 1);
            }
            true
        });
        self.bans.listed(|number| pages.get(&number).copied().unwrap_or_default())
    }

    /// Drops the keys for which `is_meant` is true from memory, and returns their number. A running fetch will not be
    /// stored.
    ///
    /// It visits every entry, as [`purge_prefix`](Self::purge_prefix) does.
    pub fn forget_all(&self, is_meant: impl Fn(&[u8]) -> bool) -> usize {
        let era = self.era();
        self.memory.shelf().sweep_all(|entry| entry.era() != era || !is_meant(entry.key_bytes()))
    }

    /// Drops the entries for which `is_meant` is true from memory, as a purge, and returns how many variants they had.
    fn forget_entries(&self, is_meant: impl Fn(&Entry) -> bool) -> usize {
        let (era, mut variants) = (self.era(), 0);
        self.memory.shelf().sweep_all(|entry| {
            let goes = entry.era() == era && is_meant(entry);
            if goes && entry.variants_len() > 0 {
                variants += entry.variants_len();
                self.remembered.purge(entry.key_hash());
            }
            !goes
        });
        variants
    }

    /// A page found no room: the page that it would have replaced is out of date, and is dropped from memory and disk.
    pub(crate) fn not_kept(&self, entry: &Arc<Entry>, object: &Object, replaces: Option<&Arc<Object>>) {
        let shelves = self.shelves.load();
        entry.drop_replaced(object, replaces);
        for vary in iter::once(&object.vary).chain(replaces.map(|old| &old.vary)) {
            shelves.not_stored(entry.key_bytes(), vary, object.stored_at);
        }
        // As in a purge: between the two a lookup may have read what was still on a disk.
        entry.drop_replaced(object, replaces);
    }

    /// Drops a key from memory, and returns the number of its variants there.
    pub fn forget(&self, key: &KeyRef<'_>) -> usize {
        let hash = shelf_hash(key, self.era());
        let Some(entry) = self.memory.shelf().get(hash, key.bytes()) else {
            return 0;
        };
        let variants = entry.variants_len();
        self.memory.shelf().remove(hash, key.bytes());
        variants
    }

    /// Drops everything of this zone from memory. A running fetch will not be stored.
    pub fn clear_memory(&self) {
        let gone = self.era.swap(next_number(), Ordering::AcqRel);
        // Old entries are no longer found; this frees them. A sweep goes from where the last one stopped to the end, so
        // the second one covers what is before. What other threads sweep meanwhile is freed by them.
        for _ in 0..2 {
            self.memory.shelf().sweep(usize::MAX, |entry| entry.era() != gone);
        }
    }

    /// Its counters and its size.
    pub fn stats(&self) -> ZoneStats {
        let memory = self.memory.stats();
        let mut stats = self.workers.lock().sum();
        stats.stored = self.counts.stored.load(Ordering::Relaxed);
        stats.freshened = self.counts.freshened.load(Ordering::Relaxed);
        stats.withdrawn = self.counts.withdrawn.load(Ordering::Relaxed);
        stats.uncacheable = self.counts.uncacheable.load(Ordering::Relaxed);
        stats.purged = self.counts.purged.load(Ordering::Relaxed);
        stats.forms = self.counts.forms.load(Ordering::Relaxed);
        stats.forms_unwanted = self.counts.forms_unwanted.load(Ordering::Relaxed);
        stats.forms_refused = self.counts.forms_refused.load(Ordering::Relaxed);
        stats.loaded = self.counts.loaded.load(Ordering::Relaxed);
        stats.entries = self.tally.entries.load(Ordering::Relaxed);
        stats.objects = self.tally.objects.load(Ordering::Relaxed);
        stats.evicted = memory.evicted;
        stats.evicted_wanted = self.counts.evicted_wanted.load(Ordering::Relaxed);
        stats.inactive = memory.swept;
        stats.refused = memory.refused;
        stats.bytes = memory.used;
        stats.bytes_max = memory.bytes_max;
        stats
    }

    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    #[inline]
    pub(crate) fn era(&self) -> u64 {
        self.era.load(Ordering::Acquire)
    }

    pub(crate) fn new_counts(&self) -> Arc<Counts> {
        let counts = Arc::new(Counts::default());
        self.workers.lock().live.push(Arc::clone(&counts));
        counts
    }

    /// The entry of `key`, if there is one.
    pub(crate) fn entry_there(&self, key: &KeyRef<'_>) -> Option<Arc<Entry>> {
        self.memory.shelf().get(shelf_hash(key, self.era()), key.bytes())
    }

    /// What is known of a key at `now`. Unlike a lookup it notes no use, reads no disk and leaves no trace.
    pub fn peek(&self, key: &KeyRef<'_>, now: Time) -> Peek {
        let entry = self.memory.shelf().peek(shelf_hash(key, self.era()), key.bytes());
        let found = entry.map(|entry| entry.peek(now));
        let mut peek = found.unwrap_or_else(|| Peek { may_be_on_disk: true, ..Peek::default() });
        // While a disk is not open, a lookup finds nothing there.
        let shelves = self.shelves.load();
        peek.may_be_on_disk &= shelves.are_open(key.bytes()) && shelves.may_have(key.bytes());
        peek
    }

    /// Notes why an answer under a key was not stored; `status` is its, if it has come, and `is_passing` as in [`Refusal`].
    pub fn remember_refusal(&self, key: &KeyRef<'_>, status: Option<u16>, why: &str, is_passing: bool, at: Time) {
        self.remembered.refuse(key.shelf_hash(), status, why, is_passing, at);
    }

    /// The last answer under a key, if it was not stored and is remembered: those of some hundred keys are.
    pub fn refusal(&self, key: &KeyRef<'_>) -> Option<Refusal> {
        self.remembered.refusal(key.shelf_hash())
    }

    /// Whether the last answer under a key was too large, as far as that is remembered.
    pub fn is_too_large(&self, key: &KeyRef<'_>) -> bool {
        self.remembered.is_too_large(key.shelf_hash())
    }

    /// Whether there can be room for a body of this length under `key`.
    pub fn can_hold(&self, key: &[u8], bytes: u64) -> bool {
        bytes <= self.memory.bytes_max() / 2 || self.shelves.load().can_hold(key, bytes)
    }

    /// Notes that a purge or a ban ends the use of a page.
    pub(crate) fn remember_purge(&self, object: &Object) {
        if let Some(entry) = object.hold.home().and_then(|home| home.entry.upgrade()) {
            self.remembered.purge(entry.key_hash());
        }
    }

    /// The folders of the shelves on which a page is, beside memory. Reads no disk, and notes no use.
    pub fn shelves_with(&self, key: &KeyRef<'_>, object: &Object) -> Vec<PathBuf> {
        self.shelves.load().with(key.bytes(), &object.vary)
    }

    /// The tags of a page, in the order of its fields.
    pub fn tags_of(&self, object: &Object) -> Vec<Vec<u8>> {
        let by = self.tag_fields.load();
        let all = by.names().flat_map(|name| object.fields.get_all(name)).flat_map(tags::split);
        let mut tags: Vec<Vec<u8>> = all.take(TAGS_MAX).map(<[u8]>::to_vec).collect();
        let mut seen = HashSet::new();
        tags.retain(|tag| seen.insert(tag.clone()));
        tags
    }

    /// The entry of `key`, made if there is none. `None` if there is no room for it.
    pub(crate) fn entry(&self, key: &KeyRef<'_>, now: Time) -> Option<Arc<Entry>> {
        let era = self.era();
        let (shelf, hash) = (self.memory.shelf(), shelf_hash(key, era));
        if let Some(entry) = shelf.get(hash, key.bytes()) {
            return Some(entry);
        }
        let bytes = Entry::overhead(key) + SLOT_BYTES;
        let reservation = self.reserve(bytes)?;
        let make = || Arc::new(Entry::new(era, hash, key, now, reservation, &self.tally));
        Some(shelf.get_or_insert_with(hash, key.bytes(), make))
    }

    /// Notes what an object can be purged by, and reserves memory for its head. If there is no room, the object is not
    /// charged, and must not be kept.
    pub(crate) fn charged(self: &Arc<Self>, entry: &Arc<Entry>, mut object: Object) -> Arc<Object> {
        object.hold.tags = Tags::of(&object.fields, &self.tag_fields.load());
        object.hold.located = mem::take(&mut object.hold.located).under(entry.key_bytes());
        if let Some(head) = self.reserve(object.head_bytes()) {
            object.charge(head, Home { zone: Arc::downgrade(self), entry: Arc::downgrade(entry) });
        }
        Arc::new(object)
    }

    /// Drops an object whose body can no longer be read, from memory and disk. The next lookup finds another, or none.
    pub fn lost(&self, object: &Arc<Object>, now: Time) {
        let Some(entry) = object.hold.home().and_then(|home| home.entry.upgrade()) else { return };
        if let Some(closed) = entry.drop_variant(object) {
            self.shelves.load().remove_variant(entry.key_bytes(), object, now);
            drop(closed);
            self.reweigh(&entry);
        }
    }

    /// Whether a page that was found is still one of those of its key: it was neither purged nor replaced nor evicted.
    pub fn keeps(&self, object: &Object) -> bool {
        let Some(entry) = object.hold.home().and_then(|home| home.entry.upgrade()) else { return false };
        let is_there = each(&entry.variants()).any(|variant| std::ptr::eq(&**variant, object));
        is_there && entry.era() == self.era() && !entry.is_gone()
    }

    /// Whether `object` is a variant of `entry`, and `entry` is still the entry of its key.
    pub(crate) fn is_current(&self, entry: &Entry, object: &Arc<Object>) -> bool {
        entry.era() == self.era() && !entry.is_gone() && entry.has(object)
    }

    /// Writes an object that has become a variant to the shelves.
    pub(crate) fn shelve(&self, entry: &Arc<Entry>, object: &Arc<Object>) {
        let inactive = Duration::from_secs(self.inactive_secs.load(Ordering::Relaxed));
        let useful_for = inactive.max(object.stale_while_revalidate).max(object.stale_if_error);
        let useless_at = object.fresh_until.plus(useful_for);
        let shelves = self.shelves.load();
        // The disk would not know that it is to be tested: its place there is behind the bans.
        match object.hold.tested.number() == self.bans.newest() {
            true => shelves.store(entry, object, useless_at, object.stored_at),
            false => shelves.not_stored(entry.key_bytes(), &object.vary, object.stored_at),
        }
    }

    /// The longest body that is read from disk into memory together with its head.
    pub(crate) fn read_bytes_max(&self) -> usize {
        shelves::read_bytes_max(self.memory.bytes_max())
    }

    /// Tells the memory that the size of an entry changed. Do not call it while an entry is locked.
    pub(crate) fn reweigh(&self, entry: &Entry) {
        self.memory.shelf().reweigh(entry);
    }

    /// After how many seconds without a noted use an entry is inactive: `inactive` plus one step, because the noted
    /// time may be older than the last use by a step.
    pub(crate) fn unused_secs_max(&self) -> u64 {
        self.inactive_secs.load(Ordering::Relaxed) + self.use_step_secs()
    }

    #[inline]
    pub(crate) fn use_step_secs(&self) -> u64 {
        self.use_step_secs.load(Ordering::Relaxed)
    }

    #[cfg(test)]
    pub(crate) fn is_any_ban_locked(&self) -> bool {
        self.bans.is_any_lock_held()
    }

    #[cfg(test)]
    pub(crate) fn shelf(&self) -> &larder_store::MemoryShelf<Entry> {
        self.memory.shelf()
    }
}

fn unread() -> Arc<dyn Condition<Object>> {
    Arc::new(Unread("a ban on disk that cannot be read: all pages before it".to_owned()))
}

impl Judge for Zone {
    fn is_banned(&self, key: &[u8], head: &[u8], since: u64) -> bool {
        // One without a number has not been taken over.
        let Some(mut object) = shelves::object_of_head(head).filter(|_| since != 0) else { return true };
        object.hold.tags = Tags::of(&object.fields, &self.tag_fields.load());
        object.hold.located = mem::take(&mut object.hold.located).on_disk(key);
        self.bans.may_cover(&object, since)
    }

    fn bans_read(&self) {
        self.take_over_bans();
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

/// The hash of a key in the memory, where other zones may have the same key.
fn shelf_hash(key: &KeyRef<'_>, era: u64) -> u64 {
    key.shelf_hash() ^ era.wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

/// A number that no zone of this process has had.
fn next_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

fn use_step_secs(inactive: Duration) -> u64 {
    (inactive.as_secs() / 16).max(1)
}
