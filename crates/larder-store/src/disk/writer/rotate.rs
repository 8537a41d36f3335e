//! Making, sealing and giving up segments.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Writer;
use super::evict::Reason;
use super::pack::{Lost, is_full};
use crate::disk::files::OpenFile;
use crate::disk::footer::{BLOCK, Row, SegmentHeader, encode_footer, footer_start};
use crate::disk::health::{DiskEvent, DiskState};
use crate::disk::record::ALIGN;
use crate::disk::segment::{Segment, number_of, segment_name};
use crate::disk::space::{NoSegment, segment_bytes};

/// The segment that is being written.
pub(super) struct OpenSegment {
    pub(super) segment: Arc<Segment>,
    /// For writing.
    pub(super) file: Arc<dyn OpenFile>,
    pub(super) rows: Vec<Row>,
}

impl OpenSegment {
    /// Whether a record of `len` fits between `end` and the footer that will then be needed.
    pub(super) fn fits(&self, end: usize, len: usize) -> bool {
        len <= self.room(end)
    }

    /// The longest record that fits there.
    pub(super) fn room(&self, end: usize) -> usize {
        let footer = footer_start(self.segment.bytes as usize, self.rows.len() + 1);
        footer.map_or(0, |footer| footer.saturating_sub(end) / ALIGN * ALIGN)
    }
}

impl Writer {
    /// Makes a new segment and opens it; the oldest are evicted for it if necessary.
    pub(super) fn rotate(&mut self) -> Result<(), Lost> {
        self.await_write();
        let now = self.shared.units.now();
        if !self.may_write() || self.is_full(now) {
            return Err(Lost);
        }
        let Some(bytes) = self.settle_segment_bytes() else { return Err(Lost) };
        let sequence = self.next_sequence;
        // A number must mean only one segment. Numbers repeat after a million segments.
        if let Some(other) = self.shared.live.numbered(number_of(sequence))
            && !self.evict(&other, Reason::Room { with_carry: false })
        {
            return Err(Lost);
        }
        let path = self.shared.dir.join(segment_name(sequence));
        let (mut is_retried, mut in_vain) = (false, 0);
        let made = loop {
            let limits = self.shared.limits();
            let (before, files) = (self.shared.space.used(), Arc::clone(&self.shared.files));
            match self.shared.space.create(&*files, &path, bytes, &limits) {
                Ok(made) => break Some(made),
                Err(NoSegment::NoRoom) => {
                    // An evicted segment may still be being sent, and then gives nothing back. That must not empty the
                    // shelf.
                    if in_vain >= EVICTIONS_IN_VAIN_MAX {
                        break None;
                    }
                    if !self.evict_oldest(true) {
                        self.shared.health.complain(NO_ROOM);
                        break None;
                    }
                    in_vain += usize::from(self.shared.space.used() >= before);
                }
                Err(NoSegment::Failed(error)) if is_full(&error) && !is_retried => {
                    is_retried = true;
                    self.evict_oldest(true);
                }
                Err(NoSegment::Failed(error)) => {
                    self.cannot_write(&error);
                    break None;
                }
            }
        };
        let Some((file, charge)) = made else { return self.no_segment() };
        self.next_sequence = sequence + 1;
        let shared = &self.shared;
        let segment =
            Arc::new(Segment::new(&shared.dir, sequence, bytes, charge, &shared.space, shared.units.unit(), now));
        let opened = shared.files.open(&segment.path).map(|reader| segment.set_reader(reader));
        // Its name is durable before anything in it counts as durable; so are the unlinks until now.
        let named = opened.and_then(|()| shared.files.sync_dir(&shared.dir));
        if let Err(error) = named {
            drop(file);
            let _ = self.shared.files.unlink(&segment.path);
            self.cannot_write(&error);
            return self.no_segment();
        }
        self.is_unlink_unsynced = false;
        self.fit_buffers(bytes as usize);
        let header = SegmentHeader { shelf: self.shared.id(), sequence, bytes };
        let block = &mut self.batch.buffer.bytes_mut()[..BLOCK];
        block.fill(0);
        header.encode(block);
        self.batch.at = 0;
        self.batch.fill = BLOCK;
        self.shared.live.add(&segment);
        self.open = Some(OpenSegment { segment, file, rows: Vec::new() });
        Ok(())
    }

    /// Drops the carried pages, because no segment could be made for them.
    fn no_segment(&mut self) -> Result<(), Lost> {
        self.carried.clear();
        self.carried_bytes = 0;
        Err(Lost)
    }

    /// The size of the next segment, from the limits as they are now.
    pub(super) fn settle_segment_bytes(&mut self) -> Option<u64> {
        let shared = &self.shared;
        let limits = shared.limits();
        let told = shared.segment_bytes.load(Ordering::Relaxed);
        let size = segment_bytes(limits.bytes_max, 0, (told > 0).then_some(told));
        match size {
            Some(size) => {
                shared.segment_bytes.store(size, Ordering::Relaxed);
                let slice = (size / SLICE_SHARE).min(SLICE_MAX) as usize / BLOCK * BLOCK;
                shared.slice_bytes.store(slice, Ordering::Relaxed);
            }
            None if !self.is_too_small_said => {
                self.is_too_small_said = true;
                let bytes_max = limits.bytes_max.unwrap_or(0);
                shared.health.say(DiskEvent::TooSmall { dir: shared.dir.clone(), bytes_max });
            }
            None => {}
        }
        size
    }

    /// Ends the open segment with its footer, after everything in it is durable.
    pub(super) fn seal(&mut self) {
        self.submit();
        self.await_write();
        let Some(open) = self.open.as_ref() else { return };
        let segment = Arc::clone(&open.segment);
        if open.rows.is_empty() {
            self.open = None;
            self.discard(&segment);
            return;
        }
        let sealed = self.write_footer(open);
        match sealed {
            Ok(()) => {
                self.open = None;
                self.unsynced_since = None;
                self.unmark_owed();
            }
            Err(error) => self.give_up(&error),
        }
    }

    fn write_footer(&self, open: &OpenSegment) -> io::Result<()> {
        let segment = &open.segment;
        open.file.sync()?;
        let footer = encode_footer(segment.bytes as usize, self.shared.id(), segment.sequence, &open.rows)
            .ok_or(io::ErrorKind::InvalidData)?;
        self.write_aligned(&*open.file, &footer, segment.bytes - footer.len() as u64)?;
        open.file.sync()
    }

    /// Writes whole blocks from any place in memory.
    fn write_aligned(&self, file: &dyn OpenFile, bytes: &[u8], at: u64) -> io::Result<()> {
        let mut buffer = crate::disk::buffer::AlignedBuffer::new(bytes.len().min(FOOTER_PART_BYTES));
        let mut at = at;
        for part in bytes.chunks(FOOTER_PART_BYTES) {
            let aligned = &mut buffer.bytes_mut()[..part.len()];
            aligned.copy_from_slice(part);
            file.write_at(aligned, at)?;
            at += part.len() as u64;
        }
        Ok(())
    }

    /// Stops writing to the open segment. Its pages can still be read.
    pub(super) fn give_up(&mut self, error: &io::Error) {
        if let Some(open) = self.open.take() {
            open.segment.keep_rows(open.rows);
        }
        self.unsynced_since = None;
        self.lose_batch();
        self.cannot_write(error);
    }

    /// Handles a failed write: a full disk, or one more fault.
    fn cannot_write(&mut self, error: &io::Error) {
        let shared = &self.shared;
        let now = shared.units.now();
        self.faults += 1;
        shared.counters.write_errors.add(1);
        if is_full(error) {
            self.full_until = now.saturating_add(super::FULL_SECONDS);
            shared.health.complain(&format!("{error}; pages are not stored until there is room on its disk again"));
            return;
        }
        self.faults_in_row += 1;
        if error.kind() == io::ErrorKind::NotFound {
            self.is_folder_gone = true;
        } else if error.kind() == io::ErrorKind::ReadOnlyFilesystem {
            let why = "its file system is read-only; pages are read from it and not stored, until it can be written";
            shared.health.worsen(DiskState::ReadOnly, now, why);
        } else if self.faults_in_row >= super::FAULTS_MAX {
            let why = format!("writing fails ({error}); pages are read from it and not stored; look at the disk");
            shared.health.worsen(DiskState::ReadOnly, now, &why);
        }
    }

    /// Deletes a segment in which nothing was ever found.
    pub(super) fn discard(&mut self, segment: &Segment) {
        self.shared.live.remove(segment);
        if self.shared.files.unlink(&segment.path).is_ok() {
            self.is_unlink_unsynced = true;
        }
    }
}

/// The message when nothing is left to evict.
const NO_ROOM: &str = "its file system has no room for it beyond what is to stay free; pages are kept in memory only until \
                       there is; delete something there, or lower min_free";

/// The most segments that are evicted for a new one without giving their bytes back.
const EVICTIONS_IN_VAIN_MAX: usize = 2;
/// An inline body or a slice takes at most one part in this many of a segment.
const SLICE_SHARE: u64 = 4;
/// An inline body or a slice takes at most this many bytes.
const SLICE_MAX: u64 = 1 << 20;
/// The footer is written in parts of this length.
const FOOTER_PART_BYTES: usize = 1 << 20;
