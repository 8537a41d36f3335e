//! Removing everything, and removals that could not be written.

use std::io;
use std::sync::atomic::Ordering;

use super::Writer;
use super::load::{CLEAR_FILE, OWED_FILE};
use crate::disk::bans::BANS_FILE;
use crate::disk::health::{DiskEvent, DiskState};

impl Writer {
    /// Removes all that was stored before. Nothing is found until that is done.
    ///
    /// A file says so first, so that a crash on the way leaves a folder that is cleared when it is opened.
    pub(super) fn clear(&mut self) {
        self.clears_due += 1;
        if self.lock.is_none() || !self.shared.health.reads() {
            // Done when the shelf is opened. Until then nothing is found.
            return;
        }
        self.submit();
        self.await_write();
        self.open = None;
        self.lose_batch();
        match self.clear_folder() {
            Ok(()) => self.cleared(),
            Err(error) => {
                self.shared.counters.write_errors.add(1);
                let why = format!("it cannot be cleared ({error}) and is left out until it can; look at the disk");
                self.shared.health.worsen(DiskState::Out, self.shared.units.now(), &why);
            }
        }
    }

    /// Takes away every segment, oldest first, and then the file that says that this is to be done.
    pub(super) fn clear_folder(&mut self) -> io::Result<()> {
        let (files, dir) = (&self.shared.files, &self.shared.dir);
        let marker = dir.join(CLEAR_FILE);
        match files.create(&marker) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
        files.sync_dir(dir)?;
        self.shared.index.sweep(|_| false);
        for segment in self.shared.live.all() {
            match files.unlink(&segment.path) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
            self.shared.live.remove(&segment);
        }
        files.sync_dir(dir)?;
        // What they are for is gone. New segments come after them, whatever is read of them again.
        self.shared.bans.clear();
        match files.unlink(&dir.join(BANS_FILE)) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        self.are_bans_unsaved = false;
        files.unlink(&marker)?;
        files.sync_dir(dir)?;
        self.is_unlink_unsynced = false;
        Ok(())
    }

    /// What is owed and carried is done with too; what was asked for later is in the queue.
    pub(super) fn cleared(&mut self) {
        self.carried.clear();
        self.carried_bytes = 0;
        self.unsynced_since = None;
        for removal in std::mem::take(&mut self.owed) {
            self.shared.removals.done(&removal.key, removal.ticket);
        }
        self.unmark_owed();
        self.shared.health.say(DiskEvent::Cleared { dir: self.shared.dir.clone() });
        self.shared.clears.fetch_sub(std::mem::take(&mut self.clears_due), Ordering::AcqRel);
    }

    /// Clears the shelf when an operator put the file there that asks for it.
    pub(super) fn obey_clear_file(&mut self) {
        let is_asked = self.shared.files.open(&self.shared.dir.join(CLEAR_FILE)).is_ok();
        if is_asked {
            self.shared.clears.fetch_add(1, Ordering::AcqRel);
            self.clear();
        }
    }

    /// Notes on the disk that removals are not: whoever opens the folder next has to clear it.
    ///
    /// It is tried once each time writing fails. A name may be made where a write fails: on a full disk, in a folder
    /// with a quota, beside a bad sector. Where that fails too (read-only, gone), a crash before the disk is well
    /// again brings removed pages back; nothing on that disk could prevent it.
    pub(super) fn mark_owed(&mut self) {
        if self.is_owed_marked || self.lock.is_none() || self.may_write() && self.full_until == 0 {
            return;
        }
        self.is_owed_marked = true;
        let (files, dir) = (&self.shared.files, &self.shared.dir);
        if files.create(&dir.join(OWED_FILE)).is_ok() {
            // If this fails the name is there all the same unless the power goes.
            let _ = files.sync_dir(dir);
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
