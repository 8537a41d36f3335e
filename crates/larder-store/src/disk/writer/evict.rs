//! Eviction from a disk: always the oldest segment; pages in it that are used are copied to a new one.

use std::cell::Cell;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;

use super::scan::read_rows;
use super::{Carried, Writer};
use crate::disk::footer::{ROW_BYTES, Row};
use crate::disk::found::Place;
use crate::disk::index::Slot;
use crate::disk::page::{Page, PageBody};
use crate::disk::read::{RecordBody, Wait, gather, read_record};
use crate::disk::record::{HEADER_BYTES, Kind, aligned};
use crate::disk::segment::Segment;
use crate::disk::units::have_passed;

/// Why a segment is evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    /// The room is needed.
    Room {
        /// Whether used pages are carried to a new segment.
        with_carry: bool,
    },
    /// Nothing in it is needed, or somebody deleted its file.
    Useless,
}

impl Writer {
    /// Evicts the oldest sealed segment. False if there is none.
    pub(super) fn evict_oldest(&mut self, with_carry: bool) -> bool {
        let Some(oldest) = self.shared.live.oldest().filter(|oldest| !self.is_open(oldest)) else {
            return false;
        };
        self.evict(&oldest, Reason::Room { with_carry })
    }

    pub(super) fn is_open(&self, segment: &Segment) -> bool {
        self.open.as_ref().is_some_and(|open| open.segment.sequence == segment.sequence)
    }

    /// Evicts a segment with its pages, except those that are carried to a new one. True if its file is deleted.
    pub(super) fn evict(&mut self, segment: &Arc<Segment>, reason: Reason) -> bool {
        let rows = self.rows_of(segment);
        if let (Some(rows), Reason::Room { with_carry: true }) = (&rows, reason) {
            self.carry(segment, rows);
        }
        if let Err(error) = self.unlink(segment) {
            return self.cannot_unlink(&error);
        }
        self.shared.live.remove(segment);
        let number = segment.number();
        let gone = match rows {
            Some(rows) => rows
                .iter()
                .filter(|row| row.kind != Kind::Tombstone && row.kind != Kind::Slice)
                .filter_map(|row| {
                    let slot = self.shared.index.remove_at(row.hash, row.variant, number, row.offset)?;
                    if reason != Reason::Useless {
                        self.shared.remember_evicted(row, &slot);
                    }
                    Some(slot)
                })
                .count(),
            None => self.shared.index.sweep(|slot| slot.number != number),
        };
        self.shared.counters.evicted.add(gone as u64);
        true
    }

    /// Unlinks a segment, after earlier unlinks are durable.
    ///
    /// A power cut may bring back any file that was unlinked since the folder was last synced. If a segment that hides
    /// older records were gone, and the segment with those records came back, they would be found again. So segments
    /// are unlinked durably one by one, whatever they contain: while a shelf is opened, its tables have not been read,
    /// so that is unknown.
    pub(super) fn unlink(&mut self, segment: &Segment) -> io::Result<()> {
        self.sync_unlinks()?;
        match self.shared.files.unlink(&segment.path) {
            Ok(()) => self.is_unlink_unsynced = true,
            // An operator has deleted it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn cannot_unlink(&mut self, error: &io::Error) -> bool {
        self.shared.counters.write_errors.add(1);
        self.shared.health.complain(&format!("a segment cannot be removed ({error}); look at the folder"));
        false
    }

    pub(super) fn rows_of(&self, segment: &Segment) -> Option<Vec<Row>> {
        segment.kept_rows().or_else(|| {
            let file = segment.reader(&*self.shared.files).ok()?;
            read_rows(&**file, self.shared.id(), segment.sequence, segment.bytes).ok()?
        })
    }

    /// Carries used pages out of a segment that is evicted, as many as fit a fifth of a segment.
    fn carry(&mut self, segment: &Arc<Segment>, rows: &[Row]) {
        let now = self.shared.units.now();
        let room = self.shared.segment_bytes.load(Ordering::Relaxed) as usize / CARRY_SHARE;
        let mut elsewhere_left = ELSEWHERE_MAX;
        let mut last_hash = 0;
        for row in rows.iter().rev() {
            if self.carried_bytes >= room {
                return;
            }
            if row.kind == Kind::Tombstone || row.hash == 0 || row.hash == last_hash || row.expires_at <= now {
                continue;
            }
            let Some(slot) = self.shared.index.get(row.hash, row.variant).filter(|slot| slot.uses > 0) else {
                continue;
            };
            let is_own = slot.number == segment.number() && slot.offset == row.offset;
            // A page whose record is elsewhere but whose body is here: in slices, or in an older record.
            let may_be_body = row.kind == Kind::Slice || slot.len < row.len;
            if !(is_own || may_be_body && elsewhere_left > 0) {
                continue;
            }
            elsewhere_left -= usize::from(!is_own);
            last_hash = row.hash;
            if let Some(carried) = self.read_to_carry(segment, &slot, room - self.carried_bytes) {
                self.carried_bytes += carried.bytes;
                self.carried.push(carried);
            }
        }
    }

    /// The page of `slot`, if a part of it is in `segment` and it takes at most `room`.
    fn read_to_carry(&self, segment: &Arc<Segment>, slot: &Slot, room: usize) -> Option<Carried> {
        let shared = &self.shared;
        let place = Place {
            segment: shared.live.numbered(slot.number)?,
            variant: slot.variant,
            offset: slot.offset,
            len: slot.len,
        };
        let record = read_record(shared, &place, room, Wait::Allowed(&Cell::new(false))).ok()?;
        // Its new place comes behind the bans, so that it has to be tested by them now.
        if shared.bans.judge(&record.key, &record.head, record.header.sequence) {
            return None;
        }
        let body = match record.body {
            RecordBody::Memory(bytes) if place.segment.sequence == segment.sequence => bytes,
            RecordBody::Memory(_) => return None,
            RecordBody::Spans(spans) => {
                let len: usize = spans.iter().map(|span| span.len as usize).sum();
                let is_touched = place.segment.sequence == segment.sequence
                    || spans.iter().any(|span| span.segment == segment.sequence);
                if len > room || !is_touched {
                    return None;
                }
                gather(shared, &spans, Wait::Allowed(&Cell::new(false))).ok()?
            }
        };
        let bytes = aligned(HEADER_BYTES + body.len() + record.head.len() + record.key.len()) + ROW_BYTES;
        // The head is copied, so that it does not keep the body of its record in memory.
        let page = Page {
            key: record.key.as_ref().into(),
            variant: record.header.variant,
            head: Bytes::copy_from_slice(&record.head),
            body: PageBody::Memory(vec![body]),
            expires_at: record.header.expires_at,
            cost_micros: record.header.cost_micros,
            holds: None,
        };
        Some(Carried { page, stored_at: record.header.stored_at, bytes })
    }

    /// Evicts until the limits hold again; other programs on the disk, or an operator, may have broken them.
    pub(super) fn keep_limits(&mut self) {
        for _ in 0..EVICTIONS_A_TICK {
            let limits = self.shared.limits();
            let before = self.shared.space.used();
            match self.shared.space.fits(&*self.shared.files, &self.shared.dir, 0, &limits) {
                Ok(true) => return,
                Ok(false) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    self.is_folder_gone = true;
                    return;
                }
                // If the disk cannot say, it is asked again at the next tick.
                Err(_) => return,
            }
            if !self.evict_oldest(false) {
                // Only the open segment is left: it is evicted too.
                self.seal();
                if !self.evict_oldest(false) {
                    return;
                }
            }
            if self.shared.space.used() >= before && self.shared.space.lingering() > 0 {
                return;
            }
        }
    }

    /// Evicts segments that contain nothing that is needed.
    pub(super) fn drop_useless(&mut self) {
        let now = self.shared.units.now();
        let all = self.shared.live.all();
        let mut is_older_haunted = false;
        let mut left = USELESS_A_TICK;
        for (age, segment) in all.iter().enumerate() {
            let is_over = segment.expires_max() <= now || self.shared.units.is_inactive(segment.used_at());
            // Not before older segments whose records it hides: they would be found again after the next opening.
            let may_go = age == 0 || !(segment.hides_older() || is_older_haunted);
            is_older_haunted |= segment.is_haunted();
            if is_over && may_go && left > 0 && !self.is_open(segment) {
                left -= 1;
                self.evict(segment, Reason::Useless);
            } else if is_over && self.is_open(segment) && all.len() == 1 {
                self.seal();
            }
        }
        self.look_closer(&all);
    }

    /// Looks at every record of one old segment, whether it is needed: it may be expired, unused, replaced or removed.
    fn look_closer(&mut self, all: &[Arc<Segment>]) {
        let now = self.shared.units.now();
        let inactive = self.shared.limits().inactive.as_secs();
        let is_old = |segment: &&Arc<Segment>| have_passed(inactive, segment.made_at(), now);
        let next = all.iter().filter(is_old).find(|segment| segment.sequence >= self.next_look);
        let Some(segment) = next.filter(|segment| !self.is_open(segment)) else {
            self.next_look = 0;
            return;
        };
        self.next_look = segment.sequence + 1;
        let may_go = all.first().is_some_and(|oldest| oldest.sequence == segment.sequence)
            || !(segment.hides_older() || all.iter().any(|other| other.is_haunted()));
        if !may_go {
            return;
        }
        let Some(rows) = self.rows_of(segment) else { return };
        let is_needed = rows.iter().any(|row| {
            row.kind != Kind::Tombstone
                && row.expires_at > now
                && (row.hash == 0
                    || self.shared.index.get(row.hash, row.variant).is_some_and(|slot| {
                        // The page's record may be elsewhere, with its body here.
                        !self.shared.units.is_inactive(slot.used_at)
                    }))
        });
        if !is_needed {
            self.evict(segment, Reason::Useless);
        }
    }
}

/// Carried pages take at most one part in this many of a segment.
const CARRY_SHARE: usize = 5;
/// For one evicted segment, at most this many pages with records elsewhere are looked at.
const ELSEWHERE_MAX: usize = 256;
/// The most segments that one tick evicts to keep the limits.
const EVICTIONS_A_TICK: usize = 32;
/// The most segments that one tick evicts because nothing in them is needed.
const USELESS_A_TICK: usize = 4;
