//! Removing everything, and removals that could not be written.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Writer;
use super::load::{CLEAR_FILE, OWED_FILE};
use crate::disk::bans::BANS_FILE;
use crate::disk::health::{DiskEvent, DiskState};
use crate::disk::queue::Command;

impl Writer {
    /// Removes all that was stored before. Nothing is found until that is done.
    ///
    /// A file says so first, so that a crash on the way leaves a folder that is cleared when it is opened.
    pub(super) fn clear(&mut self) {
        self.clears_due += 1;
        if self.lock.is_none() || !self.shared.health.reads() {
            // Done when the shelf is opened. Until then nothing is found.
            return self.mark_owed();
        }
        if self.is_to_be_cleared() {
            // Another is behind it, perhaps for an operator, and is told by the same file when it is done.
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

    /// Whether a clear waits in the queue: it takes everything that comes before it, which need not be written.
    pub(super) fn is_to_be_cleared(&self) -> bool {
        self.shared.clears.load(Ordering::Acquire) > self.clears_due
    }

    /// Takes away every segment, oldest first, and then the file that says that this is to be done.
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
        // Whoever waits for the file to go may count on what is in memory being gone too.
        shared.health.say(DiskEvent::Cleared { dir: dir.clone() });
        match files.unlink(&marker) {
            Ok(()) => {}
            // The whole folder is being emptied by hand.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        files.sync_dir(dir)?;
        self.is_unlink_unsynced = false;
        Ok(())
    }

    /// What is owed and carried is done with too; what was asked for later is in the queue.
    pub(super) fn cleared(&mut self) {
        self.done_with_all();
        self.unmark_owed();
        self.is_clear_asked = false;
        self.shared.clears.fetch_sub(std::mem::take(&mut self.clears_due), Ordering::AcqRel);
    }

    /// What they are for is gone. New segments come after them, whatever is read of them again.
    pub(super) fn forget_bans(&mut self) {
        self.shared.bans.clear();
        self.bans_room = None;
        self.are_bans_due = false;
        self.are_bans_unsaved = false;
    }

    pub(super) fn done_with_all(&mut self) {
        self.carried.clear();
        self.carried_bytes = 0;
        self.unsynced_since = None;
        for removal in std::mem::take(&mut self.owed) {
            self.shared.removals.done(&removal.key, removal.ticket);
        }
    }

    /// Clears the shelf when an operator put the file there that asks for it.
    ///
    /// The clear goes to the end of the queue, since pages that wait there are older. Before that, those who have pages of
    /// the shelf in memory are told to drop them: what they bring from then on is newer, and stays. And before that,
    /// nothing is found any more, so that they do not read again what they dropped.
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

    /// Notes on the disk that removals are not: whoever opens the folder next has to clear it.
    ///
    /// It is tried once each time writing fails, and once more at the end. A name may be made where a write fails: on a
    /// full disk, in a folder with a quota, beside a bad sector. Where that fails too (read-only, gone), a crash before
    /// the disk is well again brings removed pages back; nothing on that disk could prevent it.
    pub(super) fn mark_owed(&mut self) {
        let may_be_written = match self.shared.health.state() {
            // Another process has the folder, or nobody yet; what is owed is written when it is had.
            DiskState::Opening | DiskState::Waiting => true,
            DiskState::Serving => self.full_until == 0,
            DiskState::ReadOnly | DiskState::Out | DiskState::Stopped => false,
        };
        if !self.is_owed_marked && !may_be_written && self.owes() {
            self.put_owed_file();
        }
    }

    /// Whether something was removed and is not on the disk.
    fn owes(&self) -> bool {
        let is_ban_owed = self.ban_ticket.is_some() || self.are_bans_due || self.are_bans_unsaved;
        !self.owed.is_empty() || is_ban_owed || self.is_clear_wanted()
    }

    /// Whether a clear is to be done: now, or when its turn comes, which after a stop it does not.
    fn is_clear_wanted(&self) -> bool {
        self.shared.clears.load(Ordering::Acquire) > 0
    }

    /// Without the lock too, which a shelf that is out has not got: it is looked for by whoever opens the folder.
    pub(super) fn put_owed_file(&mut self) {
        // One that is there already and is not ours is of a process that is over, and what that owed nobody knows.
        self.is_owed_marked |= self.put_file(OWED_FILE);
    }

    /// Makes an empty file in the folder. False when another made it.
    fn put_file(&self, name: &str) -> bool {
        let (files, dir) = (&self.shared.files, &self.shared.dir);
        let made = files.create(&dir.join(name));
        if made.is_ok() {
            // If this fails the name is there all the same unless the power goes.
            let _ = files.sync_dir(dir);
        }
        !made.is_err_and(|error| error.kind() == io::ErrorKind::AlreadyExists)
    }

    /// Leaves a note of what was removed and is not on the disk, now that nobody here is going to write it.
    pub(super) fn leave_note(&mut self) {
        if !self.owes() {
            return;
        }
        if self.shared.health.state() != DiskState::Waiting {
            return self.put_owed_file();
        }
        // Another process serves what was purged here, from the folder and from its memory: it is asked to drop all.
        // A single variant was replaced, by one in a memory that is over now; the other process' own is as good.
        let is_purged = self.owed.iter().any(|removal| removal.variant.is_none());
        if is_purged || self.ban_ticket.is_some() || self.is_clear_wanted() {
            self.put_file(CLEAR_FILE);
        }
    }

    /// Takes the note back when all removals are durable.
    pub(super) fn unmark_owed(&mut self) {
        if self.is_owed_marked && self.owed.is_empty() && !self.are_bans_unsaved {
            self.is_owed_marked = false;
            if self.shared.files.unlink(&self.shared.dir.join(OWED_FILE)).is_ok() {
                self.is_unlink_unsynced = true;
            }
        }
    }
}
