//! The handle of a disk shelf. None of its calls waits for a disk, unless it says so.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::bans::{Bans, Judge, WordedBan};
use super::body::{DiskBody, PATIENCE};
use super::debt::Due;
use super::files::{Files, RealFiles};
use super::found::Found;
use super::health::{DiskEvent, DiskState, Health};
use super::index::Index;
use super::page::{LABEL_SHARE, Page};
use super::queue::{Ack, Command, NotKept, Queue};
use super::read::Wait;
use super::readers::Readers;
use super::record::Span;
use super::removals::Removals;
use super::segment::Live;
use super::shared::Shared;
use super::space::{DiskLimits, Space};
use super::stats::{Counters, DiskStats};
use super::stored::{Stored, read_all};
use super::units::Units;
use super::work::Work;
use super::writer;

/// How a disk shelf is opened.
pub struct DiskOptions {
    /// Its folder, which nothing else may use. It is made if necessary.
    pub dir: PathBuf,
    /// How much it may take.
    pub limits: DiskLimits,
    /// How many bytes may wait to be written before pages are skipped; usually 64 MiB.
    pub queue_bytes: usize,
    /// Called with events that an operator should know. Called on any thread; must not wait.
    pub events: Arc<dyn Fn(DiskEvent) + Send + Sync>,
}

/// Why a page is not stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Skipped {
    /// The queue is full.
    #[error("too much waits to be written")]
    QueueFull,
    /// It is too big for the shelf.
    #[error("it is too big for the shelf")]
    TooBig,
    /// The shelf stores nothing now: it failed, another process uses it, or it is stopped.
    #[error("the shelf does not store anything now")]
    Out,
}

/// A handle to a shelf on disk. Clones are handles to the same shelf. When the last one is dropped, the shelf writes
/// its queue and ends.
#[derive(Clone)]
pub struct DiskShelf {
    handle: Arc<Handle>,
}

struct Handle {
    work: Arc<Work>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.work.queue.push(Command::Stop(Box::new(|_| {})));
        self.work.shared.readers.stop();
    }
}

impl DiskShelf {
    /// Opens the shelf in a folder. Returns at once; pages on disk are found as soon as their tables have been read.
    pub fn open(options: DiskOptions) -> Self {
        Self::with_files(options, Arc::new(RealFiles))
    }

    /// As [`DiskShelf::open`], with other file operations.
    pub fn with_files(options: DiskOptions, files: Arc<dyn Files>) -> Self {
        let (removals_seed, seed) = (files.random(), files.random());
        let shared = Arc::new(Shared {
            files,
            health: Health::new(options.dir.clone(), options.events),
            dir: options.dir,
            limits: Mutex::new(options.limits),
            index: Index::new(),
            live: Live::default(),
            space: Arc::new(Space::default()),
            units: Units::new(options.limits.inactive),
            removals: Removals::new(removals_seed),
            bans: Bans::default(),
            readers: Readers::default(),
            counters: Counters::default(),
            ghost: Mutex::default(),
            clears: AtomicUsize::new(0),
            slice_bytes: AtomicUsize::new(SLICE_BYTES_UNKNOWN),
            segment_bytes: AtomicU64::new(0),
            id: AtomicU64::new(0),
            seed: AtomicU64::new(seed),
        });
        let work = Arc::new(Work {
            shared,
            queue: Queue::default(),
            queue_bytes_max: options.queue_bytes,
            owes: Arc::default(),
            is_ticking: AtomicBool::new(false),
        });
        writer::start(&work);
        Self { handle: Arc::new(Handle { work }) }
    }

    fn work(&self) -> &Work {
        &self.handle.work
    }

    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.work().shared
    }

    /// Changes the limits. What no longer fits is evicted at the next [`DiskShelf::tick`].
    pub fn adjust(&self, limits: DiskLimits) {
        let shared = self.shared();
        *shared.limits.lock() = limits;
        shared.units.adjust(limits.inactive);
        self.wake();
    }

    /// Where the pages under `key` may be, newest first, up to 64. Counts as a use. Reads memory only, never waits.
    pub fn find(&self, key: &[u8], now: u64) -> Found {
        self.shared().find(key, now)
    }

    /// Whether there may be a page under `key`. Does not count as a use. Reads memory only, never waits.
    pub fn may_have(&self, key: &[u8]) -> bool {
        self.shared().may_have(key)
    }

    /// Notes that a page is fetched for which nothing was found here. True, and counted once, if the page was evicted
    /// lately for lack of room and could still be used. Reads memory only, never waits.
    pub fn note_miss(&self, key: &[u8], now: u64) -> bool {
        let shared = self.shared();
        let evicted = shared.ghost.lock().take(shared.hash(key));
        let was_wanted = evicted.is_some_and(|evicted| u64::from(evicted.useful_until) > now);
        shared.counters.evicted_wanted.add(u64::from(was_wanted));
        was_wanted
    }

    /// Notes that all pages that were evicted would have been removed by now.
    pub fn forget_evicted(&self) {
        self.shared().ghost.lock().make_all_useless();
    }

    /// Whether this variant of a page has been written, as far as the index tells. Does not count as a use. Reads memory
    /// only, never waits.
    pub fn has(&self, key: &[u8], variant: u8) -> bool {
        self.shared().has(key, variant)
    }

    /// Reads what was found, with bodies of up to `body_max`. `None` if it would have to wait.
    pub fn read_now(&self, key: &[u8], found: &Found, body_max: usize) -> Option<Vec<Stored>> {
        read_all(self.shared(), key, found, body_max, Wait::Never)
    }

    /// Reads what was found, on the shelf's threads. After a second it gives up and returns nothing.
    pub async fn read(&self, key: Box<[u8]>, found: Found, body_max: usize) -> Vec<Stored> {
        if found.is_empty() {
            return Vec::new();
        }
        let shared = Arc::clone(self.shared());
        let (told, outcome) = oneshot::channel();
        let is_taken = self.shared().readers.run(Box::new(move || {
            let has_answered = Cell::new(false);
            let read = read_all(&shared, &key, &found, body_max, Wait::Allowed(&has_answered));
            // Dropped before the answer: the caller may rely on the segments being unpinned.
            drop(found);
            // Whoever asked may have stopped waiting.
            let _ = told.send((read.unwrap_or_default(), has_answered.get()));
        }));
        if !is_taken {
            return Vec::new();
        }
        match tokio::time::timeout(PATIENCE, outcome).await {
            Ok(read) => {
                let (read, has_answered) = read.unwrap_or_default();
                if has_answered {
                    self.shared().health.read_well();
                }
                read
            }
            Err(_) => {
                let shared = self.shared();
                shared.counters.slow_reads.add(1);
                shared.health.read_slowly(shared.units.now());
                Vec::new()
            }
        }
    }

    /// Queues a page to be written. Never waits; the page can be found once it is written.
    ///
    /// Until then, the older page with the same key and variant is found. If the new page is not stored, now or later,
    /// the older one is removed, because it is out of date. `now` is noted as the time when the page was stored.
    ///
    /// A page that is refused because the queue is full or the shelf is out is owed, if [`Hold::owe`] says how to get
    /// it.
    pub fn store(&self, page: Page, now: u64) -> Result<(), Skipped> {
        let (work, shared) = (self.work(), self.shared());
        shared.units.tell(now);
        let segment = shared.segment_bytes.load(Ordering::Relaxed);
        let labels = (page.key.len() + page.head.len()) as u64;
        if page.body.len() > self.body_bytes_max() || (segment > 0 && labels > segment / LABEL_SHARE) {
            shared.counters.skipped_room.add(1);
            work.not_stored(&page.key, page.variant, now);
            return Err(Skipped::TooBig);
        }
        let bytes = page.body.fresh_bytes() + labels;
        if !shared.health.writes() {
            work.not_stored(&page.key, page.variant, now);
            if !work.owe(&page.holds, bytes, now) {
                shared.counters.skipped_out.add(1);
            }
            return Err(Skipped::Out);
        }
        let key = shared.removals.hash(&page.key);
        let due = Due::new(&work.owes, bytes);
        let command = Command::Store { page: Box::new(page), now, due };
        let queued = usize::try_from(bytes).unwrap_or(usize::MAX).saturating_add(COMMAND_BYTES);
        if let Err(refused) = self.add(command, queued) {
            if let Command::Store { page, now, due } = refused {
                drop(due);
                work.not_stored(&page.key, page.variant, now);
                if !work.owe(&page.holds, bytes, now) {
                    self.count_skipped();
                }
            }
            return Err(Skipped::QueueFull);
        }
        shared.removals.taken(key);
        Ok(())
    }

    /// Queues a part of a body that is still filling, of up to [`DiskShelf::slice_bytes`]. `done` is called with its
    /// place when it is written, or with `None` if it will not be. It is not called if this function fails.
    pub fn store_slice(&self, pieces: Vec<Bytes>, done: Box<dyn FnOnce(Option<Span>) + Send>) -> Result<(), Skipped> {
        let shared = self.shared();
        if !shared.health.writes() {
            shared.counters.skipped_out.add(1);
            return Err(Skipped::Out);
        }
        let bytes: usize = pieces.iter().map(Bytes::len).sum();
        if bytes > self.slice_bytes() {
            shared.counters.skipped_room.add(1);
            return Err(Skipped::TooBig);
        }
        self.add(Command::Slice { pieces, done }, bytes.saturating_add(COMMAND_BYTES)).map_err(|_| Skipped::QueueFull)
    }

    fn add(&self, command: Command, bytes: usize) -> Result<(), Command> {
        let work = self.work();
        work.queue.add(command, bytes, work.queue_bytes_max)
    }

    /// Counts a page as skipped for lack of time. Slices are offered repeatedly, so the caller counts when it gives up.
    pub(crate) fn count_skipped(&self) {
        self.shared().counters.skipped_queue.add(1);
    }

    /// The longest body of a page with the limits as they are now.
    pub fn body_bytes_max(&self) -> u64 {
        self.shared().limits().bytes_max.map_or(u64::MAX, |max| max / PAGE_SHARE)
    }

    /// The longest slice with the limits as they are now.
    pub fn slice_bytes(&self) -> usize {
        self.shared().slice_bytes.load(Ordering::Relaxed)
    }

    /// Removes one variant of a page, or all: at once for [`DiskShelf::find`], and durably once the removal is written.
    /// Also removes queued pages. Returns how many could be found.
    pub fn remove(&self, key: &[u8], variant: Option<u8>, now: u64) -> usize {
        self.work().remove(key, variant, now)
    }

    /// Notes that a page is not stored here: the older page with its key and variant is out of date, and is removed.
    pub fn not_stored(&self, key: &[u8], variant: u8, now: u64) {
        self.work().not_stored(key, variant, now);
    }

    /// Removes a variant of a page, if the index has it; otherwise it costs next to nothing.
    pub fn remove_found(&self, key: &[u8], variant: u8, now: u64) {
        self.work().remove_found(key, variant, now);
    }

    /// Removes every page whose key begins with `prefix`: at once for reads, and durably once the ban is on disk. Their
    /// room is free when their segments are deleted.
    pub fn ban(&self, prefix: &[u8], now: u64) {
        self.work().ban(prefix, now);
    }

    /// Gives the bans in words to an owner, who understands and numbers them.
    pub fn belong_to(&self, owner: u64, judge: Weak<dyn Judge>) {
        self.shared().bans.belong_to(owner, judge);
    }

    /// Notes a ban in words of the pages that were stored before it: at once, and durably once it is on disk. Reads tell
    /// its number; to test pages by it is up to the owner. A timeless one makes older ones of the same words unnecessary.
    pub fn ban_worded(&self, ban: WordedBan, is_timeless: bool) {
        self.work().ban_worded(ban, is_timeless);
    }

    /// Rises when there are bans in words without a number.
    pub fn bans_read(&self) -> u64 {
        self.shared().bans.reads()
    }

    /// The bans in words of an owner that have no number, the newest first; none of another's.
    pub fn unnumbered_bans(&self, owner: u64) -> Vec<WordedBan> {
        self.shared().bans.unnumbered(owner)
    }

    /// Has the owner number the bans in words that have no number, the newest first; 0 leaves one as it is. Reads wait
    /// meanwhile. Nothing happens for others.
    pub fn number_bans(&self, owner: u64, number: impl FnMut(&WordedBan) -> u64) {
        self.shared().bans.number(owner, number);
    }

    /// The least number of the bans in words that concern pages here; `None` if there are none.
    pub fn first_ban(&self) -> Option<u64> {
        self.shared().bans.first_number()
    }

    /// Waits until the bans so far are on the disk, and another process has left the folder. An error says why they
    /// cannot be written now.
    pub fn bans_kept(&self) -> impl Future<Output = Result<(), NotKept>> + Send + use<> {
        let (told, outcome) = oneshot::channel();
        self.work().queue.push(Command::KeepBans(Box::new(move |kept| {
            // Whoever asked may have stopped waiting.
            let _ = told.send(kept);
        })));
        let dir = self.dir().to_owned();
        async move { outcome.await.unwrap_or(Err(NotKept::Stopped(dir))) }
    }

    /// Removes everything, at once for [`DiskShelf::find`].
    pub fn clear(&self) {
        self.work().clear();
    }

    /// Lets the shelf do its upkeep. Call it about once a second; it never waits.
    ///
    /// From the first call on, ages and waits are measured by this `now` only. The `now` of other calls may be old, if
    /// a page took long.
    pub fn tick(&self, now: u64) {
        self.shared().units.tick(now);
        self.wake();
    }

    fn wake(&self) {
        let work = self.work();
        if !work.is_ticking.swap(true, Ordering::Relaxed) {
            work.queue.push(Command::Tick);
        }
    }

    /// Waits until all that was queued before is written and durable. True if nothing was lost since the last flush.
    pub fn flush(&self) -> impl Future<Output = bool> + Send + use<> {
        let (told, outcome) = oneshot::channel();
        self.work().queue.push(Command::Flush(ack(told)));
        async move { outcome.await.unwrap_or(false) }
    }

    /// [`DiskShelf::flush`] for a thread that may wait.
    pub fn flush_blocking(&self) -> bool {
        let (told, outcome) = std::sync::mpsc::channel();
        self.work().queue.push(Command::Flush(Box::new(move |done| {
            // Whoever asked may be gone.
            let _ = told.send(done);
        })));
        outcome.recv().unwrap_or(false)
    }

    /// Writes the queue, and for a few seconds owed pages; then seals the open segment and releases the folder. Waits
    /// for all of that.
    pub fn stop(&self) {
        let (told, outcome) = std::sync::mpsc::channel();
        self.work().queue.push(Command::Stop(Box::new(move |done| {
            // Whoever asked may be gone.
            let _ = told.send(done);
        })));
        // If the writer was stopped before, it has dropped the other end.
        let _ = outcome.recv();
        self.shared().readers.stop();
    }

    /// Counters since it was opened, and its size now.
    pub fn stats(&self) -> DiskStats {
        let (work, shared) = (self.work(), self.shared());
        let counters = &shared.counters;
        DiskStats {
            state: shared.health.state(),
            bytes: shared.space.used(),
            bytes_max: shared.limits().bytes_max,
            lingering: shared.space.lingering(),
            objects: shared.index.len(),
            index_bytes: shared.index.bytes() + shared.ghost.lock().bytes() as u64,
            segments: shared.live.len(),
            queued: work.queue.bytes(),
            owed_pages: work.owes.pages(),
            owed_bytes: work.owes.bytes(),
            stored: counters.stored.get(),
            written: counters.written.get(),
            skipped_queue: counters.skipped_queue.get(),
            skipped_room: counters.skipped_room.get(),
            skipped_out: counters.skipped_out.get(),
            evicted: counters.evicted.get(),
            evicted_wanted: counters.evicted_wanted.get(),
            reinserted: counters.reinserted.get(),
            expired: counters.expired.get(),
            removed: counters.removed.get(),
            read: counters.read.get(),
            read_bytes: counters.read_bytes.get(),
            read_times: counters.read_times.sums(),
            write_times: counters.write_times.sums(),
            read_errors: counters.read_errors.get(),
            write_errors: counters.write_errors.get(),
            corrupt: counters.corrupt.get(),
            slow_reads: counters.slow_reads.get(),
        }
    }

    /// Its folder.
    pub fn dir(&self) -> &Path {
        &self.shared().dir
    }

    /// Its state.
    pub fn state(&self) -> DiskState {
        self.shared().health.state()
    }

    /// Whether it neither reads nor writes.
    pub fn is_out(&self) -> bool {
        matches!(self.state(), DiskState::Out | DiskState::Stopped)
    }
}

impl DiskBody {
    /// The body that is made of `spans`, in this order.
    pub fn new(shelf: &DiskShelf, spans: Vec<Span>) -> Self {
        Self::of(shelf.shared(), spans)
    }

    /// Whether it lies on `shelf`.
    pub fn is_of(&self, shelf: &DiskShelf) -> bool {
        self.is_on(shelf.shared())
    }
}

/// Tells an asynchronous waiter.
fn ack(told: oneshot::Sender<bool>) -> Ack {
    Box::new(move |done| {
        // Whoever asked may have stopped waiting.
        let _ = told.send(done);
    })
}

/// One page takes at most one part in this many of the limit, so that it does not evict most others.
const PAGE_SHARE: u64 = 4;
/// What a command takes in the queue beside its bytes.
const COMMAND_BYTES: usize = 256;
/// The length of slices until the size of segments is known; it fits every shelf.
const SLICE_BYTES_UNKNOWN: usize = 8 * 1024;
