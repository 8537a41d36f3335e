//! The writer of a shelf: one thread that decides, and one that writes for it.
//!
//! ```text
//! commands -> pack.rs: batch --submit--> [write thread] --settle--> index, callbacks
//!              | no room in the segment
//!              `-> rotate.rs: seal the open segment, evict the oldest, make a new one
//! load.rs: the lock, the superblock, and what is there when the shelf is opened
//! ```
//!
//! While one batch is written the next is packed. All else the writer does itself, one after the other.

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
use super::queue::{Ack, Command, Next, Removal, Written};
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
            // Should it panic, those who wait for it are told, and pages are misses.
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
        let result = file.write_at(&buffer.bytes()[..len], at);
        // The writer may give the segment up next, and its bytes count until all have closed it.
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
    /// Held while the folder is this process'.
    lock: Option<Box<dyn Send + Sync>>,
    open: Option<OpenSegment>,
    batch: Batch,
    /// The other buffer, when no write is under way.
    spare: Option<AlignedBuffer>,
    in_flight: Option<InFlight>,
    next_sequence: u64,
    /// Tombstones that could not be written yet; they go before everything else.
    owed: Vec<Removal>,
    /// [`load::OWED_FILE`] says on the disk that there are such.
    is_owed_marked: bool,
    /// Pages of evicted segments that are to be written again, and their bytes.
    carried: Vec<Carried>,
    carried_bytes: usize,
    /// Failed writes in a row; and all, so that a page can tell whether one hit it.
    faults_in_row: u32,
    faults: u64,
    /// Something that was taken since the last flush was not written.
    is_any_lost: bool,
    /// Nothing is stored before then, because the disk is full.
    full_until: u64,
    /// When something was written first that is not durable yet.
    unsynced_since: Option<u64>,
    /// A name was taken away, by this process or by one before it, and the folder not synced since.
    is_unlink_unsynced: bool,
    is_too_small_said: bool,
    is_foreign_said: bool,
    /// Clears that were asked for and are not done.
    clears_due: usize,
    /// One of the clears that wait is for the file that asks for it.
    is_clear_asked: bool,
    /// Where the look for segments that nobody needs goes on.
    next_look: u64,
    /// What was last seen of the folder.
    seen: Seen,
    /// The folder is not there any more, or is no shelf; and that for no file system being where its own was.
    is_folder_gone: bool,
    is_unmounted: bool,
    /// What is owed is being written: the last page found a segment, or nobody knows.
    is_paying: bool,
    /// What the folder says of that.
    noted: Option<DebtNote>,
    /// The hash and the variant of the page that is being packed.
    packing: Option<(u64, u8)>,
    /// The last ban that was asked for, while it has no place in the log.
    ban_ticket: Option<u64>,
    /// Bans have their place in the log, and are to be written with those that come right behind them.
    are_bans_due: bool,
    /// The bans could not be written as they are.
    are_bans_unsaved: bool,
    /// The room that their file takes, and the one that takes its place.
    bans_room: Option<Charge>,
    new_bans_room: Option<Charge>,
}

/// A page that leaves one segment for another.
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
            is_unmounted: false,
            is_paying: true,
            noted: None,
            packing: None,
            ban_ticket: None,
            are_bans_due: false,
            are_bans_unsaved: false,
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
                // Counted from the last try: commands come all the time.
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
            Command::Ban { ticket, prefix } => self.ban(ticket, &prefix),
            Command::Clear => self.clear(),
            Command::Tick => {
                self.work.is_ticking.store(false, Ordering::Relaxed);
                self.tick();
            }
            Command::Flush(ack) => {
                self.write_owed();
                self.save_due_bans();
                let is_done = self.flush();
                ack(is_done && self.owed.is_empty() && !self.are_bans_unsaved);
            }
            // `run` takes it.
            Command::Stop(ack) => ack(false),
        }
    }

    /// Whether segments may be written now.
    fn may_write(&self) -> bool {
        self.lock.is_some() && self.shared.health.writes()
    }

    /// Whether there is a disk for what is owed, as far as is known.
    fn may_pay(&self) -> bool {
        self.is_paying && self.may_write() && self.full_until == 0
    }

    /// Writes the tombstones that are owed.
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

    /// Writes all that is packed and makes it durable. True when it is.
    fn flush(&mut self) -> bool {
        let faults = self.faults;
        self.submit();
        self.await_write();
        if !self.owed.is_empty() {
            // Of pages that were replaced while they were written.
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

    /// Sees to it that no name that was taken away comes back.
    fn sync_unlinks(&mut self) -> io::Result<()> {
        if self.is_unlink_unsynced {
            self.shared.files.sync_dir(&self.shared.dir)?;
            self.is_unlink_unsynced = false;
        }
        Ok(())
    }

    /// What is to be done each second or so.
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
                // A page now and then would else put off the write of those before it.
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

    /// Tries again to write what is owed, if that could not be done; else lets go of what left memory meanwhile.
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

    /// Whether the disk was full a moment ago. A time further ahead was noted before the clock was set back.
    fn is_full(&self, now: u64) -> bool {
        self.full_until > now && self.full_until - now <= FULL_SECONDS
    }

    /// Tries whether the disk takes writes again: with what is owed, or with the next page.
    fn probe_writing(&mut self) {
        self.shared.health.set(DiskState::Serving);
        // One more failure and it is out again.
        self.faults_in_row = FAULTS_MAX - 1;
        if self.open.is_none() && self.rotate().is_ok() {
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
            // What was evicted does not come back after a stop, whatever becomes of the machine.
            is_done &= self.sync_unlinks().is_ok();
        }
        self.leave_note();
        self.open = None;
        self.shared.health.set(DiskState::Stopped);
        self.work.queue.close();
        // A successor may remove segments: their room is free only when nobody has them open.
        self.shared.forget();
        // Its end is what a successor waits for: nothing is written after it.
        self.lock = None;
        ack(is_done);
    }
}

/// How long a batch that is not full waits for more.
const LINGER: Duration = Duration::from_millis(100);
/// How often it is looked whether somebody else took something out of the folder.
const LOOK: Duration = Duration::from_millis(500);
/// When the disk is full, nothing is tried for as long.
const FULL_SECONDS: u64 = 10;
/// How long what is owed is written when the shelf is stopped; the rest was in memory only.
const PAID_AT_STOP: Duration = Duration::from_secs(3);
/// How often a lock that another process has is tried.
const LOCK_RETRY: Duration = Duration::from_millis(250);
/// What was written is durable after as many seconds.
const SYNC_SECONDS: u64 = 5;
/// How often it is tried whether a failed disk works again.
const PROBE_SECONDS: u64 = 10;
/// As many failed writes in a row end the writing.
const FAULTS_MAX: u32 = 3;
