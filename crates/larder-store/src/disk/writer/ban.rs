//! Bans on the disk: written as soon as no other ban follows at once. If they cannot be written, a file says that the
//! folder cannot be trusted.

use std::io;
use std::path::Path;
use std::sync::Arc;

use super::{Carried, Writer};
use crate::disk::bans::{BANS_FILE, BANS_FILE_NEW};
use crate::disk::files::{Files, OpenFile};
use crate::disk::health::DiskState;
use crate::disk::queue::{BansKept, NotKept};
use crate::disk::record::{OFFSET_BITS, sequence_of};
use crate::disk::space::{Charge, NoSegment, charged_for};

impl Writer {
    /// Applies a ban to pages that this writer holds, and notes that it has to be written.
    pub(super) fn ban(&mut self, ticket: u64) {
        self.ban_ticket = Some(ticket);
        // These pages have left their old segment, and would be written after the ban, and after those that get their
        // place with it: bans of several threads may come here in another order than that of their tickets.
        let bans = &self.shared.bans;
        self.carried.retain(|Carried { page, bytes, .. }| {
            let is_banned = bans.judge(&page.key, &page.head, u64::MAX);
            self.carried_bytes -= if is_banned { *bytes } else { 0 };
            !is_banned
        });
        self.settle_bans();
        self.mark_owed();
    }

    /// Whether a ban is not on the disk yet.
    pub(super) fn owes_bans(&self) -> bool {
        self.ban_ticket.is_some() || self.are_bans_due || self.bans_fault.is_some()
    }

    /// Gives due bans their place in the log. Until the folder is open, they apply to everything.
    pub(super) fn settle_bans(&mut self) {
        let Some(ticket) = self.ban_ticket.filter(|_| self.lock.is_some()) else { return };
        self.ban_ticket = None;
        let next = match &self.open {
            Some(open) => sequence_of(open.segment.sequence, (self.batch.at as usize + self.batch.fill) as u32),
            None => self.next_sequence << OFFSET_BITS,
        };
        self.shared.bans.settle(ticket, next);
        self.are_bans_due = true;
        // The file is written as a whole, so several bans that come together share one write. Their number is bounded:
        // too many clear the shelf.
        if !self.shared.bans.is_any_pending() {
            self.save_bans();
        }
    }

    /// Writes the bans, and tells whether they are on the disk; while another process uses the folder, when it has left.
    pub(super) fn tell_kept(&mut self, told: BansKept) {
        self.save_due_bans();
        let kept = self.kept();
        if matches!(kept, Err(NotKept::InUse(_))) && self.bans_awaited.len() < AWAITED_MAX {
            return self.bans_awaited.push(told);
        }
        told(kept);
    }

    fn kept(&self) -> Result<(), NotKept> {
        let dir = &self.shared.dir;
        if let Some(why) = &self.bans_fault {
            let (file, why) = (dir.join(BANS_FILE), why.clone());
            return Err(NotKept::Failed { file, why, is_noted: self.is_owed_noted });
        }
        // Too many bans become a clear.
        if !self.owes_bans() && self.clears_due == 0 {
            return Ok(());
        }
        Err(match self.shared.health.state() {
            DiskState::Waiting => NotKept::InUse(dir.clone()),
            DiskState::Stopped => NotKept::Stopped(dir.clone()),
            DiskState::Opening | DiskState::Serving | DiskState::ReadOnly | DiskState::Out => NotKept::Out(dir.clone()),
        })
    }

    /// Writes the bans that have waited for others.
    pub(super) fn save_due_bans(&mut self) {
        if self.are_bans_due {
            self.save_bans();
        }
    }

    /// Forgets bans that hide nothing any more, and tries again to write bans that could not be written.
    pub(super) fn keep_bans(&mut self) {
        let oldest = self.shared.live.oldest().map(|segment| segment.sequence);
        if self.shared.bans.prune(oldest) || self.are_bans_due || self.bans_fault.is_some() {
            self.save_bans();
        }
    }

    fn save_bans(&mut self) {
        if self.lock.is_none() {
            // It is done when the shelf is opened.
            return;
        }
        self.are_bans_due = false;
        match self.write_bans() {
            Ok(()) => {
                if self.bans_fault.take().is_some() && self.shared.health.state() == DiskState::Serving {
                    self.shared.health.recover();
                }
                self.unmark_owed();
            }
            Err(error) => {
                self.shared.counters.write_errors.add(1);
                if self.bans_fault.is_none() {
                    let why = format!("a purge by a beginning, or a ban, cannot be noted in {BANS_FILE} ({error})");
                    self.shared.health.complain(&why);
                }
                self.bans_fault = Some(error.to_string());
                self.put_owed_file();
            }
        }
    }

    fn write_bans(&mut self) -> io::Result<()> {
        let shared = Arc::clone(&self.shared);
        let (files, dir) = (&*shared.files, &shared.dir);
        let (path, new) = (dir.join(BANS_FILE), dir.join(BANS_FILE_NEW));
        // A power cut must not bring back a segment whose bans this file has no more.
        self.sync_unlinks()?;
        unlink_if_there(files, &new)?;
        self.new_bans_room = None;
        match shared.bans.encode(shared.id()) {
            None => {
                unlink_if_there(files, &path)?;
                self.bans_room = None;
            }
            Some(bytes) => {
                let (file, room) = self.create_bans(&new, bytes.len() as u64)?;
                self.new_bans_room = Some(room);
                file.write_at(&bytes, 0)?;
                file.sync()?;
                files.rename(&new, &path)?;
                self.bans_room = self.new_bans_room.take();
            }
        }
        files.sync_dir(dir)
    }

    /// Makes a new file for bans beside the old one, and evicts the oldest segments for it if necessary.
    fn create_bans(&mut self, path: &Path, bytes: u64) -> io::Result<(Arc<dyn OpenFile>, Charge)> {
        let shared = Arc::clone(&self.shared);
        for _ in 0..EVICTIONS_MAX {
            match shared.space.create(&*shared.files, path, bytes, &shared.limits()) {
                Ok(made) => return Ok(made),
                Err(NoSegment::Failed(error)) => return Err(error),
                Err(NoSegment::NoRoom) => {}
            }
            let before = shared.space.used();
            // An evicted segment may still be being sent, and then gives nothing back. That must not empty the shelf.
            if !self.evict_oldest(false) || shared.space.used() >= before {
                break;
            }
        }
        Err(io::ErrorKind::StorageFull.into())
    }

    /// Reads the bans in the folder. False if they cannot be read, so that the folder has to be cleared.
    pub(super) fn load_bans(&mut self) -> io::Result<bool> {
        let shared = &self.shared;
        (self.bans_room, self.new_bans_room) = (None, None);
        // Left by a process that was killed while it wrote the file.
        unlink_if_there(&*shared.files, &shared.dir.join(BANS_FILE_NEW))?;
        let file = match shared.files.open(&shared.dir.join(BANS_FILE)) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
            Err(error) => return Err(error),
        };
        self.bans_room = Some(shared.space.charge(charged_for(file.len()?.max(file.allocated()?))));
        let mut bytes = vec![0; usize::try_from(file.len()?).unwrap_or(0).min(BANS_BYTES_MAX)];
        let read = file.read_at(&mut bytes, 0)?;
        bytes.truncate(read);
        let is_good = shared.bans.load(&bytes, shared.id());
        shared.bans.tell_read();
        // All segments may have been evicted meanwhile; new ones must not count as older than the bans.
        self.next_sequence = self.next_sequence.max(shared.bans.next_segment());
        Ok(is_good)
    }
}

fn unlink_if_there(files: &dyn Files, path: &Path) -> io::Result<()> {
    match files.unlink(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// The most who wait for a folder that another process uses; others are told so.
const AWAITED_MAX: usize = 1024;
/// The most segments that are evicted at once for bans: more than their part of the limit.
const EVICTIONS_MAX: usize = 16;
/// The longest possible file of bans; more is not read.
const BANS_BYTES_MAX: usize = 80 << 20;
