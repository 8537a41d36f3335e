//! The existing segments, by sequence and by the number that the index has for them.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::{Mutex, RwLock};

use super::files::{Files, OpenFile};
use super::footer::{BLOCK, Row};
use super::space::{Charge, Space};

/// One segment. A holder can read from it; its bytes count as taken until the last holder drops it.
pub(super) struct Segment {
    pub(super) sequence: u64,
    pub(super) bytes: u64,
    pub(super) path: PathBuf,
    space: Arc<Space>,
    /// The file for reading. With very many segments, it is opened at the first use.
    reader: OnceLock<Arc<dyn OpenFile>>,
    charge: Mutex<Option<Charge>>,
    /// From when on all of its pages are expired.
    expires_max: AtomicU64,
    /// When a page of it was last used, in the units of the index.
    used_at: AtomicU16,
    /// When it was made or found.
    made_at: u64,
    tombstones: AtomicU32,
    /// It has records that hide older ones. If it were deleted before those, they would be found again.
    covers: AtomicBool,
    /// It has records that the index has dropped, and that would be found again at the next opening.
    haunted: AtomicBool,
    /// A bit for each block in which a body begins whose checksum was right.
    verified: OnceLock<Box<[AtomicU64]>>,
    /// The table of a segment that has no footer.
    rows: Mutex<Option<Vec<Row>>>,
}

impl Segment {
    pub(super) fn new(
        dir: &Path,
        sequence: u64,
        bytes: u64,
        charge: Charge,
        space: &Arc<Space>,
        unit: u16,
        now: u64,
    ) -> Self {
        Self {
            sequence,
            bytes,
            path: dir.join(segment_name(sequence)),
            space: Arc::clone(space),
            reader: OnceLock::new(),
            charge: Mutex::new(Some(charge)),
            expires_max: AtomicU64::new(0),
            used_at: AtomicU16::new(unit),
            made_at: now,
            tombstones: AtomicU32::new(0),
            covers: AtomicBool::new(false),
            haunted: AtomicBool::new(false),
            verified: OnceLock::new(),
            rows: Mutex::new(None),
        }
    }

    /// The number that the index knows it by.
    pub(super) fn number(&self) -> u32 {
        number_of(self.sequence)
    }

    /// Its file, if it is open.
    pub(super) fn open_reader(&self) -> Option<&Arc<dyn OpenFile>> {
        self.reader.get()
    }

    /// Its file, opened if necessary, which may wait for the disk.
    pub(super) fn reader(&self, files: &dyn Files) -> io::Result<&Arc<dyn OpenFile>> {
        if let Some(open) = self.reader.get() {
            return Ok(open);
        }
        let open = files.open(&self.path)?;
        Ok(self.reader.get_or_init(|| open))
    }

    /// Gives it its file.
    pub(super) fn set_reader(&self, file: Arc<dyn OpenFile>) {
        let _ = self.reader.set(file);
    }

    pub(super) fn made_at(&self) -> u64 {
        self.made_at
    }

    pub(super) fn expires_max(&self) -> u64 {
        self.expires_max.load(Ordering::Relaxed)
    }

    /// Notes that something in it is needed until `expires_at`.
    pub(super) fn lasts_until(&self, expires_at: u64) {
        if self.expires_max() < expires_at {
            self.expires_max.fetch_max(expires_at, Ordering::Relaxed);
        }
    }

    pub(super) fn used_at(&self) -> u16 {
        self.used_at.load(Ordering::Relaxed)
    }

    pub(super) fn touch(&self, unit: u16) {
        if self.used_at() != unit {
            self.used_at.store(unit, Ordering::Relaxed);
        }
    }

    pub(super) fn add_tombstone(&self) {
        self.tombstones.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn set_covers(&self) {
        self.covers.store(true, Ordering::Relaxed);
    }

    pub(super) fn set_haunted(&self) {
        self.haunted.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_haunted(&self) -> bool {
        self.haunted.load(Ordering::Relaxed)
    }

    /// Whether it hides an older record that would be found at the next opening without it.
    pub(super) fn hides_older(&self) -> bool {
        self.tombstones.load(Ordering::Relaxed) > 0 || self.covers.load(Ordering::Relaxed)
    }

    /// Whether the body of `len` bytes at `offset` was already verified.
    pub(super) fn is_verified(&self, offset: u32, len: u32) -> bool {
        self.verified.get().zip(verified_bit(offset, len)).is_some_and(|(bits, (word, bit))| {
            bits.get(word).is_some_and(|bits| bits.load(Ordering::Relaxed) & bit != 0)
        })
    }

    /// Notes that a body was verified.
    pub(super) fn set_verified(&self, offset: u32, len: u32) {
        let bits = self.verified.get_or_init(|| {
            let words = (self.bytes as usize / BLOCK).div_ceil(64);
            (0..words).map(|_| AtomicU64::new(0)).collect()
        });
        if let Some((word, bit)) = verified_bit(offset, len)
            && let Some(bits) = bits.get(word)
        {
            bits.fetch_or(bit, Ordering::Relaxed);
        }
    }

    /// Keeps the table in memory, of a segment without a table on disk.
    pub(super) fn keep_rows(&self, rows: Vec<Row>) {
        *self.rows.lock() = Some(rows);
    }

    /// The table that was kept.
    pub(super) fn kept_rows(&self) -> Option<Vec<Row>> {
        self.rows.lock().clone()
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        if let Some(charge) = self.charge.get_mut().take() {
            self.space.close(self.reader.take(), charge);
        }
    }
}

/// Two bodies never share a bit: only those of a block or more have one, and they begin in different blocks.
fn verified_bit(offset: u32, len: u32) -> Option<(usize, u64)> {
    let block = offset as usize / BLOCK;
    (len as usize >= BLOCK).then_some((block / 64, 1 << (block % 64)))
}

/// The segments of a shelf, by number and by age.
#[derive(Default)]
pub(super) struct Live(RwLock<Sorted>);

#[derive(Default)]
struct Sorted {
    by_number: HashMap<u32, Arc<Segment>>,
    by_age: BTreeMap<u64, Arc<Segment>>,
}

impl Live {
    /// The segment of a number.
    pub(super) fn numbered(&self, number: u32) -> Option<Arc<Segment>> {
        self.0.read().by_number.get(&number).cloned()
    }

    /// The segment of a sequence.
    pub(super) fn get(&self, sequence: u64) -> Option<Arc<Segment>> {
        self.0.read().by_number.get(&number_of(sequence)).filter(|segment| segment.sequence == sequence).cloned()
    }

    /// Whether this very segment is there. One of the same sequence that was found again is another.
    pub(super) fn has(&self, segment: &Arc<Segment>) -> bool {
        self.0.read().by_age.get(&segment.sequence).is_some_and(|there| Arc::ptr_eq(there, segment))
    }

    /// Whether all of `sequences` are there.
    pub(super) fn has_all(&self, sequences: &[u64]) -> bool {
        let sorted = self.0.read();
        sequences.iter().all(|sequence| {
            sorted.by_number.get(&number_of(*sequence)).is_some_and(|segment| segment.sequence == *sequence)
        })
    }

    pub(super) fn add(&self, segment: &Arc<Segment>) {
        let mut sorted = self.0.write();
        sorted.by_number.insert(segment.number(), Arc::clone(segment));
        sorted.by_age.insert(segment.sequence, Arc::clone(segment));
    }

    pub(super) fn remove(&self, segment: &Segment) {
        let mut sorted = self.0.write();
        if sorted.by_age.remove(&segment.sequence).is_some() {
            sorted.by_number.remove(&segment.number());
        }
    }

    pub(super) fn oldest(&self) -> Option<Arc<Segment>> {
        self.0.read().by_age.first_key_value().map(|(_, segment)| Arc::clone(segment))
    }

    /// All of them, oldest first.
    pub(super) fn all(&self) -> Vec<Arc<Segment>> {
        self.0.read().by_age.values().cloned().collect()
    }

    pub(super) fn len(&self) -> usize {
        self.0.read().by_age.len()
    }

    /// Drops all of them; their files stay.
    pub(super) fn clear(&self) {
        let sorted = std::mem::take(&mut *self.0.write());
        drop(sorted);
    }
}

/// The low bits of a sequence, which is what the index has room for.
pub(super) fn number_of(sequence: u64) -> u32 {
    sequence as u32 & 0xf_ffff
}

/// The name of the file of a segment.
pub(super) fn segment_name(sequence: u64) -> String {
    format!("{sequence:016x}{SEGMENT_SUFFIX}")
}

/// The sequence in the name of a segment's file.
pub(super) fn sequence_in(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(SEGMENT_SUFFIX)?;
    let is_plain = digits.len() == 16 && digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    is_plain.then(|| u64::from_str_radix(digits, 16).ok())?
}

const SEGMENT_SUFFIX: &str = ".segment";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_segment_says_its_sequence() {
        for (name, sequence) in [
            ("0000000000000000.segment", Some(0)),
            ("00000000000000ff.segment", Some(255)),
            ("00000000000000FF.segment", None),
            ("+00000000000000f.segment", None),
            ("ff.segment", None),
            ("0000000000000000", None),
            ("d41d8cd98f00b204e9800998ecf8427e", None),
        ] {
            assert_eq!(sequence_in(name), sequence, "{name}");
        }
        assert_eq!(sequence_in(&segment_name(u64::MAX)), Some(u64::MAX));
    }
}
