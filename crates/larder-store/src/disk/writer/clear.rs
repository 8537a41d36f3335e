//! Clearing a shelf, and what happens with removals that could not be written.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Writer;
use super::load::{CLEAR_FILE, OWED_FILE};
use crate::disk::bans::BANS_FILE;
use crate::disk::health::{DiskEvent, DiskState};
use crate::disk::queue::Command;

impl Writer {
    /// Removes everything that was stored before. Nothing is found until that is done.
    ///
    /// A file in the folder says so first, so that after a crash the folder is cleared when it is next opened.
    pub(super) fn clear(&mut self) {
        self.clears_due += 1;
        if self.lock.is_none() || !self.shared.health.reads() {
            // It is done when the shelf is opened. Until then nothing is found.
            return self.mark_owed();
        }
        if self.is_to_be_cleared() {
            // Another clear follows, perhaps for an operator, who waits for the same file to go.
            return;
        }
        self.submit();
        self.await_write();
        self.open = None;
        self.lose_batch();
        match self.clear_folder() {
            Ok(()) => self.cleared(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.is_folder_gone = true,
            Err(error) => {
                self.shared.counters.write_errors.add(1);
                let why = format!("it cannot be cleared ({error}) and is left out until it can; look at the disk");
                self.shared.health.worsen(DiskState::Out, self.shared.units.now(), &why);
            }
        }
    }

    /// Whether a clear waits in the queue. What comes before it need not be written.
    pub(super) fn is_to_be_cleared(&self) -> bool {
        self.shared.clears.load(Ordering::Acquire) > self.clears_due
    }

    /// Deletes every segment, oldest first, and then the file that asks for it.
    pub(super) fn clear_folder(&mut self) -> io::Result<()> {
        let shared = Arc::clone(&self.shared);
        let (files, dir) = (&shared.files, &shared.dir);
        let marker = dir.join(CLEAR_FILE);
        match files.create(&marker) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
        files.sync_dir(dir)?;
        shared.index.sweep(|_| false);
        for segment in shared.live.all() {
            match files.unlink(&segment.path) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
            shared.live.remove(&segment);
        }
        files.sync_dir(dir)?;
        match files.unlink(&dir.join(BANS_FILE)) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        self.forget_bans();
        // Before the file goes: whoever waits for that relies on memory being cleared too.
        shared.health.say(DiskEvent::Cleared { dir: dir.clone() });
        match files.unlink(&marker) {
            Ok(()) => {}
            // An operator is emptying the folder.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        files.sync_dir(dir)?;
        self.is_unlink_unsynced = false;
        Ok(())
    }

    /// Forgets owed removals and carried pages too. Everything that was asked for later is still in the queue.
    pub(super) fn cleared(&mut self) {
        self.done_with_all();
        self.unmark_owed();
        self.is_clear_asked = false;
        self.shared.clears.fetch_sub(std::mem::take(&mut self.clears_due), Ordering::AcqRel);
    }

    /// Forgets bans, because the pages that they hide are gone. New segments come after them, even if the bans are read
    /// again.
    pub(super) fn forget_bans(&mut self) {
        self.shared.bans.clear();
        self.bans_room = None;
        self.are_bans_due = false;
        self.bans_fault = None;
    }

    pub(super) fn done_with_all(&mut self) {
        self.carried.clear();
        self.carried_bytes = 0;
        self.unsynced_since = None;
        for removal in std::mem::take(&mut self.owed) {
            self.shared.removals.done(&removal.key, removal.ticket);
        }
    }

    /// Clears the shelf if an operator has put the file there that asks for it.
    ///
    /// First, the shelf finds nothing any more, so that no page is read again. Then the zone is told to drop its pages
    /// in memory: pages that it stores from then on are newer, and stay. Last, the clear goes to the end of the queue,
    /// because pages that wait there are older.
    pub(super) fn obey_clear_file(&mut self) {
        let (files, dir) = (&self.shared.files, &self.shared.dir);
        if self.is_clear_asked || files.open(&dir.join(CLEAR_FILE)).is_err() {
            return;
        }
        self.is_clear_asked = true;
        self.shared.clears.fetch_add(1, Ordering::AcqRel);
        self.shared.health.say(DiskEvent::Clearing { dir: dir.clone() });
        self.work.queue.push(Command::Clear);
    }

    /// Makes a file on the disk that says that removals are not written, so that the next process that opens the folder
    /// clears it.
    ///
    /// This is tried once each time writing fails, and once more at the end. A file may be created where a write fails:
    /// on a full disk, in a folder with a quota, beside a bad sector. If that fails too (read-only, gone), a crash
    /// before the disk works again brings removed pages back; nothing on that disk could prevent it.
    pub(super) fn mark_owed(&mut self) {
        let may_be_written = match self.shared.health.state() {
            // The folder is not this process's yet; owed removals are written when it is.
            DiskState::Opening | DiskState::Waiting => true,
            DiskState::Serving => self.full_until == 0,
            DiskState::ReadOnly | DiskState::Out | DiskState::Stopped => false,
        };
        if !self.is_owed_marked && !may_be_written && self.owes() {
            self.put_owed_file();
        }
    }

    /// Whether a removal is not on the disk yet.
    fn owes(&self) -> bool {
        !self.owed.is_empty() || self.owes_bans() || self.is_clear_wanted()
    }

    /// Whether a clear is due, now or in the queue; after a stop, those in the queue are not done any more.
    fn is_clear_wanted(&self) -> bool {
        self.shared.clears.load(Ordering::Acquire) > 0
    }

    /// Makes the file even without the lock, which a shelf that is out does not have: the next process that opens the
    /// folder looks for it.
    pub(super) fn put_owed_file(&mut self) {
        let put = self.put_file(OWED_FILE);
        let was_there = put.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::AlreadyExists);
        self.is_owed_noted = put.is_ok() || was_there;
        // An existing file that is not ours is from a process that has ended, and what that owed is unknown.
        self.is_owed_marked |= !was_there;
    }

    /// Makes an empty file in the folder.
    fn put_file(&self, name: &str) -> io::Result<()> {
        let (files, dir) = (&self.shared.files, &self.shared.dir);
        files.create(&dir.join(name))?;
        // If this fails, the name is there all the same, unless there is a power cut.
        let _ = files.sync_dir(dir);
        Ok(())
    }

    /// Leaves a note that removals are not on the disk, now that this process will not write them.
    pub(super) fn leave_note(&mut self) {
        if !self.owes() {
            return;
        }
        if self.shared.health.state() != DiskState::Waiting {
            return self.put_owed_file();
        }
        // Another process serves pages that were purged here, from the folder and from its memory: it is asked to drop
        // everything. A removal of a single variant is no purge: the page was replaced by one in our memory, which is
        // gone now.
        let is_purged = self.owed.iter().any(|removal| removal.variant.is_none());
        if is_purged || self.ban_ticket.is_some() || self.is_clear_wanted() {
            // If it cannot be made, or is there, nothing more can be done.
            let _ = self.put_file(CLEAR_FILE);
        }
    }

    /// Deletes the note once all removals are durable.
    pub(super) fn unmark_owed(&mut self) {
        if self.is_owed_marked && self.owed.is_empty() && self.bans_fault.is_none() {
            self.is_owed_marked = false;
            if self.shared.files.unlink(&self.shared.dir.join(OWED_FILE)).is_ok() {
                self.is_unlink_unsynced = true;
            }
        }
    }
}
