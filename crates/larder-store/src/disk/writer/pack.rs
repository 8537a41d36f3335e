//! Packs records into batches and batches into segments, and does what follows when they are written.

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::{Buf, Bytes};

use super::{Job, Writer};
use crate::disk::body::DiskBody;
use crate::disk::buffer::AlignedBuffer;
use crate::disk::debt::{Debt, Due};
use crate::disk::footer::{BLOCK, Row};
use crate::disk::index::Slot;
use crate::disk::page::{Hold, LABEL_SHARE, Page, PageBody, Payable};
use crate::disk::queue::{Removal, SliceDone, Written};
use crate::disk::record::{HEADER_BYTES, Header, Kind, Span, aligned, encode_spans, sequence_of};
use crate::disk::removals::Added;
use crate::disk::segment::Segment;

/// Records that are written together.
pub(super) struct Batch {
    pub(super) buffer: AlignedBuffer,
    /// Where in the segment it goes.
    pub(super) at: u64,
    pub(super) fill: usize,
    after: Vec<After>,
}

/// The batch that is being written.
pub(super) struct InFlight {
    segment: Arc<Segment>,
    at: u64,
    len: usize,
    after: Vec<After>,
    /// It is the second try, after room was made.
    is_retry: bool,
}

/// What is to be done when a record is written.
enum After {
    Page {
        key: Box<[u8]>,
        hash: u64,
        slot: Slot,
        segment: Arc<Segment>,
        expires_at: u64,
        /// [`Writer::faults`] when its first part was packed. If that has changed, a part may be missing.
        faults: u64,
        is_again: bool,
        /// The bytes to count as stored; none for a page that is written again.
        bytes: u64,
        stored_at: u64,
        holds: Option<Box<dyn Hold>>,
        due: Option<Due>,
    },
    Slice {
        span: Span,
        done: SliceDone,
    },
    Tombstone {
        hash: u64,
        removal: Removal,
    },
}

/// A page that was replaced or removed while it was written.
struct Unwanted {
    key: Box<[u8]>,
    hash: u64,
    slot: Slot,
}

/// The error that a record will not be written.
#[derive(Debug)]
pub(super) struct Lost;

/// Where a record was put.
struct Packed {
    segment: Arc<Segment>,
    offset: u32,
    len: u32,
    body: Span,
}

/// A record without its body.
struct Label<'a> {
    kind: Kind,
    hash: u64,
    variant: u8,
    is_for_all: bool,
    key: &'a [u8],
    head: &'a [u8],
    stored_at: u64,
    expires_at: u64,
    cost_micros: u32,
}

/// Where the bytes of a body come from.
enum Source {
    Pieces(std::vec::IntoIter<Bytes>, Bytes),
    File { file: Arc<std::fs::File>, at: u64 },
}

impl Batch {
    pub(super) fn new(len: usize) -> Self {
        Self { buffer: AlignedBuffer::new(len), at: 0, fill: 0, after: Vec::new() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.fill == 0
    }

    /// Whether a page of this key and variant is in it.
    fn has(&self, hash: u64, variant: u8) -> bool {
        let is_it =
            |after: &After| matches!(after, After::Page { hash: h, slot, .. } if (*h, slot.variant) == (hash, variant));
        self.after.iter().any(is_it)
    }
}

fn is_wanted(holds: &Option<Box<dyn Hold>>) -> bool {
    holds.as_ref().is_none_or(|holds| holds.is_wanted())
}

impl Source {
    fn pieces(pieces: Vec<Bytes>) -> Self {
        Self::Pieces(pieces.into_iter(), Bytes::new())
    }

    /// Fills `into` with the next bytes.
    fn read(&mut self, into: &mut [u8]) -> io::Result<()> {
        match self {
            Self::Pieces(more, piece) => {
                let mut at = 0;
                while at < into.len() {
                    if piece.is_empty() {
                        *piece = more.next().ok_or(io::ErrorKind::UnexpectedEof)?;
                        continue;
                    }
                    let count = piece.len().min(into.len() - at);
                    into[at..at + count].copy_from_slice(&piece[..count]);
                    piece.advance(count);
                    at += count;
                }
                Ok(())
            }
            Self::File { file, at } => {
                read_exact_at(file, into, *at)?;
                *at += into.len() as u64;
                Ok(())
            }
        }
    }
}

impl Writer {
    /// Writes a page, or counts that it is not.
    pub(super) fn store(&mut self, page: Page, now: u64, due: Due) {
        if !is_wanted(&page.holds) {
            // The request that replaced or removed it has handled the older page too.
            return;
        }
        if !self.may_write() {
            if !self.work.owe(&page.holds, page.body.len(), now) {
                self.shared.counters.skipped_out.add(1);
            }
            self.not_stored(page.key, page.variant);
            return;
        }
        if page.holds.as_ref().is_some_and(|holds| holds.tested() < self.shared.bans.settled_number()) {
            // A ban was made while it was on its way, which it would escape behind it.
            self.not_stored(page.key, page.variant);
            return;
        }
        self.pack_page(page, now, Some(due));
    }

    /// Writes an owed page, if it is still in memory and needed.
    pub(super) fn pay(&mut self, debt: Debt) {
        match debt.owed.page() {
            Payable::Page(page) if page.expires_at <= self.shared.units.now() => {}
            Payable::Page(page) => {
                self.write_owed();
                self.store(page, debt.now, debt.due);
            }
            Payable::Replaced => {}
            Payable::Gone => self.shared.counters.skipped_queue.add(1),
        }
    }

    pub(super) fn store_slice(&mut self, pieces: Vec<Bytes>, done: SliceDone) {
        let len = pieces.iter().map(Bytes::len).sum();
        let label = Label {
            kind: Kind::Slice,
            hash: 0,
            variant: 0,
            is_for_all: false,
            key: &[],
            head: &[],
            stored_at: self.shared.units.now(),
            // It is unknown yet which page it belongs to, and how long that one is needed.
            expires_at: u64::MAX,
            cost_micros: 0,
        };
        if !self.may_write() {
            return done(None);
        }
        match self.pack(&label, &mut Source::pieces(pieces), len) {
            Ok(packed) => self.batch.after.push(After::Slice { span: packed.body, done }),
            Err(Lost) => {
                self.is_any_lost = true;
                done(None);
            }
        }
        self.submit_if_full();
    }

    /// Packs a tombstone. Returns it if that cannot be done.
    pub(super) fn pack_tombstone(&mut self, removal: Removal) -> Result<(), Removal> {
        if removal.key.len() as u64 > self.shared.segment_bytes.load(Ordering::Relaxed) / LABEL_SHARE {
            // No page has such a key.
            self.shared.removals.done(&removal.key, removal.ticket);
            return Ok(());
        }
        let hash = self.shared.hash(&removal.key);
        let label = Label {
            kind: Kind::Tombstone,
            hash,
            variant: removal.variant.unwrap_or(0),
            is_for_all: removal.variant.is_none(),
            key: &removal.key,
            head: &[],
            stored_at: removal.now,
            expires_at: 0,
            cost_micros: 0,
        };
        match self.pack(&label, &mut Source::pieces(Vec::new()), 0) {
            Ok(packed) => packed.segment.add_tombstone(),
            Err(Lost) => return Err(removal),
        }
        self.batch.after.push(After::Tombstone { hash, removal });
        self.submit_if_full();
        Ok(())
    }

    /// Packs a page. `due` is its debt if it is new; without it, the page is carried from an evicted segment.
    pub(super) fn pack_page(&mut self, mut page: Page, stored_at: u64, due: Option<Due>) {
        let (faults, bytes) = (self.faults, page.body.len());
        let (key, variant, expires_at) = (std::mem::take(&mut page.key), page.variant, page.expires_at);
        let holds = page.holds.take();
        let hash = self.shared.hash(&key);
        self.packing = Some((hash, variant));
        let packed = self.pack_whole(&key, hash, page, stored_at);
        self.packing = None;
        match packed {
            Ok(Packed { segment, offset, len, .. }) => {
                let slot = self.shared.slot(&segment, variant, offset, len);
                let is_again = due.is_none();
                let after = After::Page {
                    key,
                    hash,
                    slot,
                    segment,
                    expires_at,
                    faults,
                    is_again,
                    bytes,
                    stored_at,
                    holds,
                    due,
                };
                self.batch.after.push(after);
            }
            Err(Lost) => {
                // If there is no segment, it is not because of this page: it stays owed.
                self.is_paying = false;
                let is_owed = self.open.is_none() && self.work.owe(&holds, bytes, stored_at);
                self.shared.counters.skipped_room.add(u64::from(!is_owed));
                drop(due);
                // One that is being written may be older too.
                self.submit();
                self.await_write();
                self.not_stored(key, variant);
                // Last: until then, whoever drops the page knows that an older one may be found.
                drop(holds);
            }
        }
        self.submit_if_full();
    }

    /// Packs the record of a page, after the slices of its body if that is long.
    fn pack_whole(&mut self, key: &[u8], hash: u64, page: Page, stored_at: u64) -> Result<Packed, Lost> {
        let faults = self.faults;
        let segment_bytes = match self.shared.segment_bytes.load(Ordering::Relaxed) {
            // The limit was too small for one, and may have been raised.
            0 => self.settle_segment_bytes().ok_or(Lost)?,
            bytes => bytes,
        };
        let label_max = segment_bytes / LABEL_SHARE;
        if (key.len() + page.head.len()) as u64 > label_max {
            return Err(Lost);
        }
        let slice_bytes = self.shared.slice_bytes.load(Ordering::Relaxed) as u64;
        let len = page.body.len();
        let label = Label {
            kind: Kind::Page,
            hash,
            variant: page.variant,
            is_for_all: false,
            key,
            head: &page.head,
            stored_at,
            expires_at: page.expires_at,
            cost_micros: page.cost_micros,
        };
        let spans = match page.body {
            PageBody::Memory(pieces) => self.inline_or_slices(&label, Source::pieces(pieces), len, slice_bytes)?,
            PageBody::File { file, offset, .. } => {
                self.inline_or_slices(&label, Source::File { file, at: offset }, len, slice_bytes)?
            }
            PageBody::Disk(body) if !body.is_on(&self.shared) => return Err(Lost),
            PageBody::Disk(body) => Body::Spans(body.spans().to_vec()),
        };
        match spans {
            Body::Inline(packed) => Ok(packed),
            Body::Spans(spans) => {
                let body = DiskBody::of(&self.shared, spans);
                // A slice failed, or was evicted before the page was finished.
                if self.faults != faults || !body.is_here() {
                    return Err(Lost);
                }
                body.lasts_until(page.expires_at);
                let table = encode_spans(body.spans());
                if table.len() as u64 > label_max {
                    return Err(Lost);
                }
                let len = table.len();
                self.pack(&Label { kind: Kind::Spans, ..label }, &mut Source::pieces(vec![table.into()]), len)
            }
        }
    }

    fn inline_or_slices(
        &mut self,
        label: &Label<'_>,
        mut source: Source,
        len: u64,
        slice_bytes: u64,
    ) -> Result<Body, Lost> {
        if len <= slice_bytes {
            return Ok(Body::Inline(self.pack(label, &mut source, len as usize)?));
        }
        let mut spans = Vec::new();
        let mut left = len;
        while left > 0 {
            let count = left.min(self.slice_bytes_here(slice_bytes));
            let slice = Label { kind: Kind::Slice, key: &[], head: &[], ..*label };
            spans.push(self.pack(&slice, &mut source, count as usize)?.body);
            left -= count;
            self.submit_if_full();
        }
        Ok(Body::Spans(spans))
    }

    /// The length of the next slice. It uses the rest of a segment, unless that is very short.
    fn slice_bytes_here(&self, slice_bytes: u64) -> u64 {
        let end = self.batch.at as usize + self.batch.fill;
        let room = self.open.as_ref().map_or(0, |open| open.room(end).saturating_sub(HEADER_BYTES)) as u64;
        if room < slice_bytes / SLICE_PARTS { slice_bytes } else { slice_bytes.min(room) }
    }

    /// Packs one record.
    fn pack(&mut self, label: &Label<'_>, source: &mut Source, body_bytes: usize) -> Result<Packed, Lost> {
        let len = HEADER_BYTES + label.key.len() + label.head.len() + body_bytes;
        let padded = aligned(len);
        self.make_room(padded)?;
        let Some(open) = self.open.as_mut() else { return Err(Lost) };
        let offset = (self.batch.at as usize + self.batch.fill) as u32;
        let record = &mut self.batch.buffer.bytes_mut()[self.batch.fill..self.batch.fill + padded];
        let (front, body) = record.split_at_mut(len - body_bytes);
        let mut body_crc = 0;
        // In parts, so that the checksum finds the copied bytes in the CPU's cache.
        for part in body[..body_bytes].chunks_mut(COPY_BYTES) {
            if source.read(part).is_err() {
                return Err(Lost);
            }
            body_crc = crc32c::crc32c_append(body_crc, part);
        }
        body[body_bytes..].fill(0);
        let header = Header {
            kind: label.kind,
            variant: label.variant,
            is_for_all: label.is_for_all,
            key_bytes: label.key.len() as u32,
            head_bytes: label.head.len() as u32,
            body_bytes: body_bytes as u32,
            sequence: sequence_of(open.segment.sequence, offset),
            stored_at: label.stored_at,
            expires_at: label.expires_at,
            cost_micros: label.cost_micros,
            body_crc,
            shelf: self.shared.id(),
        };
        let (first, labels) = front.split_at_mut(HEADER_BYTES);
        first.copy_from_slice(&header.encode(label.key, label.head));
        let (key, head) = labels.split_at_mut(label.key.len());
        key.copy_from_slice(label.key);
        head.copy_from_slice(label.head);
        self.batch.fill += padded;
        open.rows.push(Row {
            hash: label.hash,
            stored_at: label.stored_at,
            expires_at: label.expires_at,
            offset,
            len: padded as u32,
            cost_micros: label.cost_micros,
            kind: label.kind,
            variant: label.variant,
            is_for_all: label.is_for_all,
        });
        open.segment.lasts_until(label.expires_at);
        let body = Span {
            segment: open.segment.sequence,
            offset: offset + (len - body_bytes) as u32,
            len: body_bytes as u32,
            crc: body_crc,
        };
        Ok(Packed { segment: Arc::clone(&open.segment), offset, len: padded as u32, body })
    }

    /// Makes room for a record of `len` in the batch and the open segment.
    fn make_room(&mut self, len: usize) -> Result<(), Lost> {
        for _ in 0..ROTATIONS_MAX {
            let faults = self.faults;
            if let Some(open) = &self.open {
                if open.fits(self.batch.at as usize + self.batch.fill, len) {
                    if self.batch.fill + len + BLOCK <= self.batch.buffer.len() {
                        return Ok(());
                    }
                    // A record that is longer than the buffer can ever be.
                    if self.batch.is_empty() {
                        return Err(Lost);
                    }
                    self.submit();
                } else {
                    self.seal();
                }
            } else {
                self.rotate()?;
                self.write_carried();
            }
            // Records that were packed before may be lost, and this one may need them.
            if self.faults != faults {
                return Err(Lost);
            }
        }
        Err(Lost)
    }

    /// Writes the carried pages to the segment that was just made.
    ///
    /// They come before the record that the segment was made for: that may be a newer page of the same key, or its
    /// removal, and the last record in the log counts.
    pub(super) fn write_carried(&mut self) {
        for carried in std::mem::take(&mut self.carried) {
            self.carried_bytes -= carried.bytes;
            self.pack_page(carried.page, carried.stored_at, None);
        }
    }

    /// Notes that an accepted page is not stored: the older one is out of date, and is removed before anything else is
    /// done.
    fn not_stored(&mut self, key: Box<[u8]>, variant: u8) {
        self.is_any_lost = true;
        self.remove_older(key, variant);
    }

    /// Removes the page in the index, before anything else is done.
    fn remove_older(&mut self, key: Box<[u8]>, variant: u8) {
        let shared = &self.shared;
        if shared.index.remove(shared.hash(&key), Some(variant)) == 0 && !shared.is_unknown() {
            return;
        }
        match shared.removals.add(&key, Some(variant)) {
            Added::Ticket(ticket) => {
                let now = shared.units.now();
                self.owed.push(Removal { key, variant: Some(variant), now, ticket });
            }
            Added::Already => {}
            Added::TooMany => self.work.clear(),
        }
    }

    fn submit_if_full(&mut self) {
        if self.batch.fill >= BATCH_BYTES {
            self.submit();
        }
    }

    /// Passes the batch to the write thread, after that has done the one before.
    pub(super) fn submit(&mut self) {
        if self.batch.is_empty() {
            return;
        }
        self.await_write();
        // The batch before may have failed, and this one with it. Its waiters have to be told.
        let Some(open) = &self.open else { return self.lose_batch() };
        if self.batch.is_empty() {
            return;
        }
        // Taken last: if it were lost on an early return, nothing could ever be written again.
        let spare = self.spare.take().unwrap_or_else(|| AlignedBuffer::new(self.batch.buffer.len()));
        let len = self.batch.fill.next_multiple_of(BLOCK);
        self.batch.buffer.bytes_mut()[self.batch.fill..len].fill(0);
        let buffer = std::mem::replace(&mut self.batch.buffer, spare);
        let at = self.batch.at;
        self.in_flight = Some(InFlight {
            segment: Arc::clone(&open.segment),
            at,
            len,
            after: std::mem::take(&mut self.batch.after),
            is_retry: false,
        });
        self.batch.at = at + len as u64;
        self.batch.fill = 0;
        let file = Arc::clone(&open.file);
        self.send(Job { file, at, buffer, len });
    }

    fn send(&mut self, job: Job) {
        if let Err(unsent) = self.jobs.send(job) {
            // The write thread has died; its batch is lost, as after any failure.
            let result = Err(io::ErrorKind::BrokenPipe.into());
            self.settle(Written { buffer: unsent.0.buffer, result });
        }
    }

    /// Waits until no write runs.
    pub(super) fn await_write(&mut self) {
        while self.in_flight.is_some() {
            let written = self.work.queue.written();
            self.settle(written);
        }
    }

    /// Does what follows when a batch is written.
    pub(super) fn settle(&mut self, written: Written) {
        let Some(in_flight) = self.in_flight.take() else {
            self.spare = Some(written.buffer);
            return;
        };
        match written.result {
            Ok(()) => {
                self.spare = Some(written.buffer);
                self.wrote(in_flight);
            }
            Err(error) if is_full(&error) && !in_flight.is_retry => {
                let file = self.open.as_ref().map(|open| Arc::clone(&open.file));
                match file.filter(|_| self.evict_oldest(false)) {
                    Some(file) => {
                        let job = Job { file, at: in_flight.at, len: in_flight.len, buffer: written.buffer };
                        self.in_flight = Some(InFlight { is_retry: true, ..in_flight });
                        self.send(job);
                    }
                    None => self.not_written(in_flight, written.buffer, &error),
                }
            }
            Err(error) => self.not_written(in_flight, written.buffer, &error),
        }
    }

    fn wrote(&mut self, in_flight: InFlight) {
        self.shared.counters.written.add(in_flight.len as u64);
        self.faults_in_row = 0;
        self.full_until = 0;
        self.is_paying = true;
        self.shared.health.recover();
        let now = self.shared.units.now();
        self.unsynced_since.get_or_insert(now);
        let unwanted: Vec<Unwanted> = in_flight.after.into_iter().filter_map(|after| self.finish(after)).collect();
        for page in unwanted {
            self.remove_unwanted(page);
        }
    }

    /// Removes a page that was replaced or removed while it was written, when it was not in the index yet. Its
    /// replacement may never be written. Not if something newer is in its place, or about to be.
    fn remove_unwanted(&mut self, Unwanted { key, hash, slot }: Unwanted) {
        let is_here = |now: Slot| (now.number, now.offset) == (slot.number, slot.offset);
        let is_newest = self.shared.index.get(hash, slot.variant).is_some_and(is_here);
        if is_newest && self.packing != Some((hash, slot.variant)) && !self.batch.has(hash, slot.variant) {
            self.remove_older(key, slot.variant);
        }
    }

    /// Finishes a written record. Returns the page if it is no longer wanted.
    fn finish(&mut self, after: After) -> Option<Unwanted> {
        let shared = &self.shared;
        match after {
            After::Page { key, hash, slot, segment, expires_at, faults, is_again, bytes, stored_at, holds, due } => {
                if faults == self.faults {
                    segment.lasts_until(expires_at);
                    if shared.index.put(hash, &slot).is_some() {
                        segment.set_covers();
                    }
                    if is_again { shared.counters.reinserted.add(1) } else { shared.counters.stored.add(1) }
                }
                if faults != self.faults {
                    self.work.owe(&holds, bytes, stored_at);
                    self.not_stored(key, slot.variant);
                } else if !is_wanted(&holds) {
                    return Some(Unwanted { key, hash, slot });
                }
                drop((holds, due));
            }
            After::Slice { span, done } => done(Some(span)),
            After::Tombstone { hash, removal } => {
                shared.index.remove(hash, removal.variant);
                shared.removals.done(&removal.key, removal.ticket);
            }
        }
        None
    }

    fn not_written(&mut self, in_flight: InFlight, buffer: AlignedBuffer, error: &io::Error) {
        self.spare = Some(buffer);
        let is_first = in_flight.at == 0;
        let segment = Arc::clone(&in_flight.segment);
        self.lose(in_flight.after);
        self.give_up(error);
        if is_first {
            // Not even its first block was written.
            self.discard(&segment);
        }
    }

    /// Discards the batch that is being packed.
    pub(super) fn lose_batch(&mut self) {
        self.batch.fill = 0;
        let after = std::mem::take(&mut self.batch.after);
        self.lose(after);
    }

    fn lose(&mut self, after: Vec<After>) {
        let mut owed = Vec::new();
        for after in after {
            match after {
                After::Page { key, slot, holds, bytes, stored_at, .. } => {
                    self.work.owe(&holds, bytes, stored_at);
                    self.not_stored(key, slot.variant);
                    drop(holds);
                }
                After::Slice { done, .. } => {
                    self.is_any_lost = true;
                    done(None);
                }
                After::Tombstone { removal, .. } => owed.push(removal),
            }
        }
        self.owed.append(&mut owed);
        self.owed.sort_by_key(|removal| removal.ticket);
    }

    /// Resizes the buffers for segments of `segment_bytes`. Only between segments.
    pub(super) fn fit_buffers(&mut self, segment_bytes: usize) {
        let record_max = self.shared.slice_bytes.load(Ordering::Relaxed) + 2 * segment_bytes / LABEL_SHARE as usize;
        let len = (BATCH_BYTES.min(segment_bytes) + record_max + 2 * BLOCK).next_multiple_of(BLOCK);
        if self.batch.buffer.len() != len {
            self.batch.buffer = AlignedBuffer::new(len);
            self.spare = Some(AlignedBuffer::new(len));
        }
    }
}

enum Body {
    Inline(Packed),
    Spans(Vec<Span>),
}

/// Whether an error says that the disk or the quota is full.
pub(super) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Reads of a memory file by position.
fn read_exact_at(file: &File, into: &mut [u8], at: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, into, at)
}

/// A slice is cut shorter than this part of its length for nothing.
const SLICE_PARTS: u64 = 16;
/// A batch of this length is written at once.
const BATCH_BYTES: usize = 1 << 20;
/// How many bytes are copied and checksummed at a time.
const COPY_BYTES: usize = 64 * 1024;
/// The most new segments that are tried for one record.
const ROTATIONS_MAX: usize = 4;
