//! The writer of a shelf: one thread decides, and another one writes for it.
//!
//! ```text
//! commands -> pack.rs: batch --submit--> [write thread] --settle--> index, callbacks
//!              | no room in the segment
//!              `-> rotate.rs: seal the open segment, evict the oldest, make a new one
//! load.rs: the lock, the superblock, and what is there when the shelf is opened
//! ```
//! While one batch is written, the next is packed. The writer does everything else itself, one thing after the other.

mod ban;
mod clear;
mod evict;
mod load;
mod look;
mod note;
mod pack;
mod rotate;
mod scan;

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use crate::background;

use super::buffer::AlignedBuffer;
use super::debt::DebtNote;
use super::files::OpenFile;
use super::health::DiskState;
use super::page::Page;
use super::queue::{Ack, BansKept, Command, Next, Removal, Written};
use super::shared::Shared;
use super::space::Charge;
use super::units::have_passed;
use super::work::Work;
use look::Seen;
use pack::{Batch, InFlight};
use rotate::OpenSegment;

pub use load::CLEAR_FILE;
pub(super) use load::SHELF_FILE;
pub(super) use note::DEBT_FILE;
pub(super) use scan::{read_rows, scan};

/// Starts the threads of a shelf, which opens itself on them.
pub(super) fn start(work: &Arc<Work>) {
    let (jobs, taken) = sync_channel::<Job>(1);
    let (for_writer, for_disk) = (Arc::clone(work), Arc::clone(work));
    let started = background::spawn("larder-disk-io", move || write_batches(&for_disk, &taken)).and_then(|_| {
        let decide = move || {
            // If it panics, waiters are told, and pages are misses.
            let _over = Over(Arc::clone(&for_writer));
            Writer::new(for_writer, jobs).run();
        };
        background::spawn("larder-disk", decide)
    });
    if let Err(error) = started {
        work.shared.health.worsen(DiskState::Out, 0, &format!("no thread could be started for it ({error})"));
        work.queue.close();
    }
}

/// Ends a shelf whose writer has ended, whatever the reason.
struct Over(Arc<Work>);

impl Drop for Over {
    fn drop(&mut self) {
        self.0.shared.health.set(DiskState::Stopped);
        self.0.queue.close();
    }
}

/// A batch to be written.
struct Job {
    file: Arc<dyn OpenFile>,
    at: u64,
    buffer: AlignedBuffer,
    len: usize,
}

fn write_batches(work: &Work, jobs: &Receiver<Job>) {
    while let Ok(Job { file, at, buffer, len }) = jobs.recv() {
        let began = work.shared.files.now();
        let result = file.write_at(&buffer.bytes()[..len], at);
        if result.is_ok() {
            work.shared.counters.write_times.add_from(began, work.shared.files.now());
        }
        // Closed here, because the writer may delete the segment next, and its bytes count until it is closed.
        drop(file);
        work.queue.put_written(Written { buffer, result });
    }
}

/// The state of the thread that decides.
pub(in crate::disk) struct Writer {
    work: Arc<Work>,
    /// Its, at hand.
    shared: Arc<Shared>,
    jobs: SyncSender<Job>,
    /// The lock on the folder, while this process uses it.
    lock: Option<Box<dyn Send + Sync>>,
    open: Option<OpenSegment>,
    batch: Batch,
    /// The other buffer, while no write runs.
    spare: Option<AlignedBuffer>,
    in_flight: Option<InFlight>,
    next_sequence: u64,
    /// Tombstones that could not be written yet; they are written before everything else.
    owed: Vec<Removal>,
    /// [`load::OWED_FILE`] on the disk says that there are owed tombstones.
    is_owed_marked: bool,
    /// The file was there when it was last made.
    is_owed_noted: bool,
    /// Used pages of evicted segments that are to be written again, and their bytes.
    carried: Vec<Carried>,
    carried_bytes: usize,
    /// Failed writes in a row; then all failed writes, so that a page can tell whether one of them hit it.
    faults_in_row: u32,
    faults: u64,
    /// Something that was accepted since the last flush was not written.
    is_any_lost: bool,
    /// Nothing is stored before then, because the disk is full.
    full_until: u64,
    /// When the oldest write that is not durable yet was made.
    unsynced_since: Option<u64>,
    /// A file was unlinked, by this process or one before it, and the folder was not synced since.
    is_unlink_unsynced: bool,
    is_too_small_said: bool,
    is_foreign_said: bool,
    /// How many clears are asked for and not done.
    clears_due: usize,
    /// One of these clears was asked for by [`load::CLEAR_FILE`].
    is_clear_asked: bool,
    /// Where the search for useless segments goes on.
    next_look: u64,
    /// What was last seen of the folder.
    seen: Seen,
    /// The folder is gone, or is no shelf any more.
    is_folder_gone: bool,
    /// Whether owed pages are being written: the last one found a segment, or none was tried.
    is_paying: bool,
    /// What [`note::DEBT_FILE`] says about that.
    noted: Option<DebtNote>,
    /// The hash and the variant of the page that is being packed.
    packing: Option<(u64, u8)>,
    /// The ticket of the last ban, while it has no place in the log.
    ban_ticket: Option<u64>,
    /// Bans have their place in the log, and are to be written together with those that follow at once.
    are_bans_due: bool,
    /// Why the current bans could not be written.
    bans_fault: Option<String>,
    /// Who waits for the bans of this process, while another one uses the folder.
    bans_awaited: Vec<BansKept>,
    /// The room of the file of bans.
    bans_room: Option<Charge>,
    new_bans_room: Option<Charge>,
}

/// A page that is copied from an evicted segment to a new one.
struct Carried {
    page: Page,
    stored_at: u64,
    bytes: usize,
}

impl Writer {
    fn new(work: Arc<Work>, jobs: SyncSender<Job>) -> Self {
        Self {
            shared: Arc::clone(&work.shared),
            work,
            jobs,
            lock: None,
            open: None,
            batch: Batch::new(0),
            spare: Some(AlignedBuffer::new(0)),
            in_flight: None,
            next_sequence: 0,
            owed: Vec::new(),
            is_owed_marked: false,
            is_owed_noted: false,
            carried: Vec::new(),
            carried_bytes: 0,
            faults_in_row: 0,
            faults: 0,
            is_any_lost: false,
            full_until: 0,
            unsynced_since: None,
            is_unlink_unsynced: false,
            is_too_small_said: false,
            is_foreign_said: false,
            clears_due: 0,
            is_clear_asked: false,
            next_look: 0,
            seen: Seen::default(),
            is_folder_gone: false,
            is_paying: true,
            noted: None,
            packing: None,
            ban_ticket: None,
            are_bans_due: false,
            bans_fault: None,
            bans_awaited: Vec::new(),
            bans_room: None,
            new_bans_room: None,
        }
    }

    fn run(mut self) {
        self.open_shelf();
        let (mut tried_at, mut looked_at) = (Instant::now(), Instant::now());
        loop {
            if self.is_folder_gone {
                self.begin_anew();
            }
            let until_look = (looked_at + LOOK).saturating_duration_since(Instant::now());
            if until_look.is_zero() {
                looked_at = Instant::now();
                self.look_around();
                continue;
            }
            let patience = if self.shared.health.state() == DiskState::Waiting {
                // Counted from the last try, because commands come all the time.
                let left = (tried_at + LOCK_RETRY).saturating_duration_since(Instant::now());
                if left.is_zero() {
                    self.open_shelf();
                    tried_at = Instant::now();
                    continue;
                }
                left
            } else if !self.batch.is_empty() && self.in_flight.is_none() {
                LINGER
            } else {
                LOOK
            };
            match self.work.queue.next(patience.min(until_look), self.may_pay()) {
                Next::Debt(debt) => self.pay(debt),
                Next::Written(written) => self.settle(written),
                Next::Timeout if self.in_flight.is_none() => self.submit(),
                Next::Timeout => {}
                Next::Command(Command::Stop(ack)) => return self.stop(ack),
                Next::Command(command) => self.obey(command),
            }
        }
    }

    fn obey(&mut self, command: Command) {
        self.leave_if_out();
        match command {
            Command::Store { .. } if self.is_to_be_cleared() => {}
            Command::Slice { done, .. } if self.is_to_be_cleared() => done(None),
            Command::Store { page, now, due } => {
                self.write_owed();
                self.store(*page, now, due);
            }
            Command::Slice { pieces, done } => {
                self.write_owed();
                self.store_slice(pieces, done);
            }
            Command::Remove(removal) => {
                self.owed.push(removal);
                self.write_owed();
            }
            Command::Ban { ticket } => self.ban(ticket),
            Command::KeepBans(told) => self.tell_kept(told),
            Command::Clear => self.clear(),
            Command::Tick => {
                self.work.is_ticking.store(false, Ordering::Relaxed);
                self.tick();
            }
            Command::Flush(ack) => {
                self.write_owed();
                self.save_due_bans();
                let is_done = self.flush();
                ack(is_done && self.owed.is_empty() && self.bans_fault.is_none());
            }
            // `run` takes it.
            Command::Stop(ack) => ack(false),
        }
    }

    /// Whether segments may be written now.
    fn may_write(&self) -> bool {
        self.lock.is_some() && self.shared.health.writes()
    }

    /// Whether owed pages can be written, as far as is known.
    fn may_pay(&self) -> bool {
        self.is_paying && self.may_write() && self.full_until == 0
    }

    /// Writes the owed tombstones.
    fn write_owed(&mut self) {
        if self.owed.is_empty() {
            return;
        }
        if !self.may_write() {
            return self.mark_owed();
        }
        let mut owed = std::mem::take(&mut self.owed).into_iter();
        while self.may_write()
            && let Some(removal) = owed.next()
        {
            if let Err(removal) = self.pack_tombstone(removal) {
                self.owed.push(removal);
                break;
            }
        }
        // Others may have come back while these were packed.
        self.owed.extend(owed);
        self.owed.sort_by_key(|removal| removal.ticket);
        if !self.owed.is_empty() {
            self.mark_owed();
        }
    }

    /// Writes all that is packed and makes it durable. True if that worked.
    fn flush(&mut self) -> bool {
        let faults = self.faults;
        self.submit();
        self.await_write();
        if !self.owed.is_empty() {
            // Tombstones of pages that were replaced while they were written.
            self.write_owed();
            self.submit();
            self.await_write();
        }
        self.sync();
        let is_any_lost = std::mem::take(&mut self.is_any_lost);
        self.lock.is_some() && self.faults == faults && self.unsynced_since.is_none() && !is_any_lost
    }

    /// Makes what was written durable.
    fn sync(&mut self) {
        let Some(open) = self.open.as_ref().filter(|_| self.unsynced_since.is_some()) else {
            return;
        };
        let synced = open.file.sync().and_then(|()| self.sync_unlinks());
        match synced {
            Ok(()) => {
                self.unsynced_since = None;
                self.unmark_owed();
            }
            Err(error) => self.give_up(&error),
        }
    }

    /// Makes unlinks durable.
    fn sync_unlinks(&mut self) -> io::Result<()> {
        if self.is_unlink_unsynced {
            self.shared.files.sync_dir(&self.shared.dir)?;
            self.is_unlink_unsynced = false;
        }
        Ok(())
    }

    /// The upkeep of about once a second.
    fn tick(&mut self) {
        let now = self.shared.units.now();
        self.keep_debts(now);
        match self.shared.health.state() {
            DiskState::Out if have_passed(PROBE_SECONDS, self.shared.health.since(), now) => {
                self.shared.health.set_since(now);
                self.open_shelf();
            }
            DiskState::ReadOnly if have_passed(PROBE_SECONDS, self.shared.health.since(), now) => {
                self.shared.health.set_since(now);
                self.probe_writing();
            }
            DiskState::Serving => {
                self.write_owed();
                // Otherwise, a page now and then would delay the write of those before it.
                self.submit();
                if self.unsynced_since.is_some_and(|since| have_passed(SYNC_SECONDS, since, now)) {
                    self.await_write();
                    self.sync();
                }
            }
            DiskState::Out | DiskState::ReadOnly | DiskState::Waiting | DiskState::Opening | DiskState::Stopped => {}
        }
        if self.lock.is_some() && self.shared.health.reads() {
            self.obey_clear_file();
            self.keep_limits();
            self.look_around();
            self.drop_useless();
            self.keep_bans();
            self.note_debt();
        }
    }

    /// Tries again to write owed pages, if that had failed. Otherwise drops debts whose pages have left memory.
    fn keep_debts(&mut self, now: u64) {
        if self.may_pay() || !self.work.queue.has_debts() {
            return;
        }
        let gone = self.work.queue.prune_debts();
        self.shared.counters.skipped_queue.add(gone.len() as u64);
        self.is_paying = true;
        // A page that comes while nothing is owed does the same.
        if !self.is_full(now) {
            self.full_until = 0;
        }
    }

    /// Whether the disk was full a moment ago. A time far in the future was noted before the clock was set back.
    fn is_full(&self, now: u64) -> bool {
        self.full_until > now && self.full_until - now <= FULL_SECONDS
    }

    /// Tries whether the disk can be written again: with owed tombstones, or with the next page.
    fn probe_writing(&mut self) {
        self.shared.health.set(DiskState::Serving);
        // One more failure, and writing stops again.
        self.faults_in_row = FAULTS_MAX - 1;
        if self.open.is_none() && self.rotate().is_ok() {
            self.write_carried();
            self.submit();
            self.await_write();
            self.sync();
        }
        self.write_owed();
    }

    fn stop(mut self, ack: Ack) {
        let began = Instant::now();
        while began.elapsed() < PAID_AT_STOP
            && self.may_pay()
            && let Some(debt) = self.work.queue.next_debt()
        {
            self.pay(debt);
        }
        self.write_owed();
        self.save_due_bans();
        let mut is_done = self.flush();
        self.seal();
        is_done &= self.unsynced_since.is_none();
        self.await_write();
        if self.lock.is_some() {
            self.take_note_away();
            // Evicted pages must not come back after a stop, even by a power cut.
            is_done &= self.sync_unlinks().is_ok();
        }
        self.leave_note();
        self.open = None;
        self.shared.health.set(DiskState::Stopped);
        self.work.queue.close();
        // A successor may remove segments: their room is free only when nobody has them open.
        self.shared.forget();
        // The next process waits for the lock: nothing is written after this.
        self.lock = None;
        ack(is_done);
    }
}

/// How long a batch that is not full waits for more.
const LINGER: Duration = Duration::from_millis(100);
/// How often the folder is checked for files that somebody deleted.
const LOOK: Duration = Duration::from_millis(500);
/// After the disk was full, nothing is written for this long.
const FULL_SECONDS: u64 = 10;
/// How long owed pages are written when the shelf is stopped. The rest is lost with the memory.
const PAID_AT_STOP: Duration = Duration::from_secs(3);
/// How often a lock is tried that another process holds.
const LOCK_RETRY: Duration = Duration::from_millis(250);
/// After this many seconds, written pages are made durable.
const SYNC_SECONDS: u64 = 5;
/// How often it is tried whether a failed disk works again.
const PROBE_SECONDS: u64 = 10;
/// After this many failed writes in a row, the shelf is read-only.
const FAULTS_MAX: u32 = 3;
