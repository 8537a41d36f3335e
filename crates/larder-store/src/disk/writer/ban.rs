//! Bans on the disk: each is durable before the writer goes on, or the folder says that it cannot be trusted.

use std::io;

use super::Writer;
use crate::disk::bans::{BANS_FILE, BANS_FILE_NEW};
use crate::disk::record::{OFFSET_BITS, sequence_of};

impl Writer {
    /// Takes the bans into account that were asked for up to now.
    pub(super) fn ban(&mut self, ticket: u64, prefix: &[u8]) {
        self.ban_ticket = Some(ticket);
        // They left their segment before, and would come after the ban.
        self.carried.retain(|carried| {
            let is_banned = carried.page.key.starts_with(prefix);
            self.carried_bytes -= if is_banned { carried.bytes } else { 0 };
            !is_banned
        });
        self.settle_bans();
        self.mark_owed();
    }

    /// Gives the bans that are due their place in the log. Without the folder they hold for everything until it is open.
    pub(super) fn settle_bans(&mut self) {
        let Some(ticket) = self.ban_ticket.filter(|_| self.lock.is_some()) else { return };
        self.ban_ticket = None;
        let next = match &self.open {
            Some(open) => sequence_of(open.segment.sequence, (self.batch.at as usize + self.batch.fill) as u32),
            None => self.next_sequence << OFFSET_BITS,
        };
        self.shared.bans.settle(ticket, next);
        self.save_bans();
    }

    /// Forgets bans that hide nothing any more, and tries again to write those that could not be written.
    pub(super) fn keep_bans(&mut self) {
        let oldest = self.shared.live.oldest().map(|segment| segment.sequence);
        if self.shared.bans.prune(oldest) || self.are_bans_unsaved {
            self.save_bans();
        }
    }

    fn save_bans(&mut self) {
        match self.write_bans() {
            Ok(()) => {
                self.are_bans_unsaved = false;
                self.unmark_owed();
            }
            Err(error) => {
                self.shared.counters.write_errors.add(1);
                if !self.are_bans_unsaved {
                    let why = format!("what was purged by its beginning cannot be noted in it ({error})");
                    self.shared.health.complain(&why);
                }
                self.are_bans_unsaved = true;
                self.put_owed_file();
            }
        }
    }

    fn write_bans(&mut self) -> io::Result<()> {
        let (files, dir) = (&self.shared.files, &self.shared.dir);
        let (path, new) = (dir.join(BANS_FILE), dir.join(BANS_FILE_NEW));
        let gone = |path| match files.unlink(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other,
        };
        match self.shared.bans.encode(self.shared.id()) {
            None => gone(&path)?,
            Some(bytes) => {
                gone(&new)?;
                let file = files.create(&new)?;
                file.write_at(&bytes, 0)?;
                file.sync()?;
                files.rename(&new, &path)?;
            }
        }
        files.sync_dir(dir)
    }

    /// Reads what is noted in the folder. False when that cannot be trusted, so that the folder is to be cleared.
    pub(super) fn load_bans(&mut self) -> io::Result<bool> {
        let shared = &self.shared;
        let file = match shared.files.open(&shared.dir.join(BANS_FILE)) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
            Err(error) => return Err(error),
        };
        let mut bytes = vec![0; usize::try_from(file.len()?).unwrap_or(0).min(BANS_BYTES_MAX)];
        let read = file.read_at(&mut bytes, 0)?;
        bytes.truncate(read);
        let is_good = shared.bans.load(&bytes, shared.id());
        // All segments may have left meanwhile: what comes now must not be taken for older.
        self.next_sequence = self.next_sequence.max(shared.bans.next_segment());
        Ok(is_good)
    }
}

/// More is not read: it is as much as there can be.
const BANS_BYTES_MAX: usize = 80 << 20;
