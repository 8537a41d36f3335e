//! Bans: a purge by the prefix of keys. It removes the pages that were stored before it.
//!
//! The index has hashes of keys, not prefixes. So a banned page is recognised when it is read: by its key, and by its
//! place in the log, which is before the ban. A ban is forgotten when all segments that are older than it are deleted.

use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::bytes::{put_all, u32_at, u64_at};
use super::record::OFFSET_BITS;

/// The bans of a shelf.
#[derive(Default)]
pub(super) struct Bans {
    /// How many there are; if there are none, a read takes no lock.
    count: AtomicUsize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Bans that the writer has not reached yet, each with its ticket. They apply to all records.
    pending: Vec<(u64, Box<[u8]>)>,
    next_ticket: u64,
    settled: Vec<Ban>,
}

/// A ban of the records before `sequence`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Ban {
    sequence: u64,
    prefix: Box<[u8]>,
}

impl Ban {
    fn covers(&self, key: &[u8], sequence: u64) -> bool {
        sequence < self.sequence && key.starts_with(&self.prefix)
    }
}

impl Bans {
    /// Bans a prefix for all records, until [`Bans::settle`] with the ticket. `None` if there are too many bans, or
    /// their file would be longer than `bytes_max`.
    pub(super) fn add(&self, prefix: &[u8], bytes_max: u64) -> Option<u64> {
        let mut state = self.state.lock();
        let bytes = state.bytes() + BAN_BYTES + prefix.len();
        if state.len() >= BANS_MAX || prefix.len() > PREFIX_BYTES_MAX || bytes as u64 > bytes_max {
            return None;
        }
        let ticket = state.next_ticket;
        state.next_ticket += 1;
        state.pending.push((ticket, prefix.into()));
        self.note_len(&state);
        Some(ticket)
    }

    /// Limits the bans with this ticket and earlier ones to the records before `sequence`.
    pub(super) fn settle(&self, ticket: u64, sequence: u64) {
        let mut state = self.state.lock();
        let due: Vec<_> = state.pending.extract_if(.., |(pending, _)| *pending <= ticket).collect();
        for (_, prefix) in due {
            // A wider and later ban makes narrower ones unnecessary.
            state.settled.retain(|ban| !(ban.prefix.starts_with(&prefix) && ban.sequence <= sequence));
            state.settled.push(Ban { sequence, prefix });
        }
        self.note_len(&state);
    }

    /// Whether there are bans that the writer has not reached yet.
    pub(super) fn is_any_pending(&self) -> bool {
        !self.state.lock().pending.is_empty()
    }

    /// Whether the record of `key` at `sequence` is banned.
    pub(super) fn cover(&self, key: &[u8], sequence: u64) -> bool {
        if self.count.load(Ordering::Acquire) == 0 {
            return false;
        }
        let state = self.state.lock();
        state.pending.iter().any(|(_, prefix)| key.starts_with(prefix))
            || state.settled.iter().any(|ban| ban.covers(key, sequence))
    }

    /// Forgets the bans that only concern segments before `oldest`. True if there were any.
    pub(super) fn prune(&self, oldest: Option<u64>) -> bool {
        if self.count.load(Ordering::Acquire) == 0 {
            return false;
        }
        let mut state = self.state.lock();
        let before = state.settled.len();
        state.settled.retain(|ban| oldest.is_some_and(|oldest| ban.sequence > oldest << OFFSET_BITS));
        self.note_len(&state);
        before > state.settled.len()
    }

    /// Forgets the bans that the writer has reached.
    pub(super) fn clear(&self) {
        let mut state = self.state.lock();
        state.settled.clear();
        self.note_len(&state);
    }

    /// The first segment that new records may use, so that no ban covers them.
    pub(super) fn next_segment(&self) -> u64 {
        let state = self.state.lock();
        state.settled.iter().map(|ban| (ban.sequence >> OFFSET_BITS) + 1).max().unwrap_or(0)
    }

    /// The bans that the writer has reached, as bytes for [`BANS_FILE`]. `None` if there are none.
    ///
    /// | at | bytes | what                                             |
    /// | -- | ----- | ------------------------------------------------ |
    /// |  0 |     4 | magic, `LRB1`                                    |
    /// |  4 |     4 | CRC-32C of everything after it                   |
    /// |  8 |     8 | the id of the shelf                              |
    /// | 16 |     4 | how many there are                               |
    /// | 20 |       | of each: its sequence, 8; the length of its prefix, 4; the prefix |
    pub(super) fn encode(&self, shelf: u64) -> Option<Vec<u8>> {
        let state = self.state.lock();
        if state.settled.is_empty() {
            return None;
        }
        let mut bytes = vec![0; HEAD_BYTES];
        let count = u32::try_from(state.settled.len()).unwrap_or(u32::MAX);
        put_all(&mut bytes[8..], &[&shelf.to_le_bytes(), &count.to_le_bytes()]);
        for ban in &state.settled {
            bytes.extend_from_slice(&ban.sequence.to_le_bytes());
            bytes.extend_from_slice(&(ban.prefix.len() as u32).to_le_bytes());
            bytes.extend_from_slice(&ban.prefix);
        }
        let crc = crc32c::crc32c(&bytes[8..]);
        put_all(&mut bytes, &[MAGIC, &crc.to_le_bytes()]);
        Some(bytes)
    }

    /// Adds the bans of a file. False if it cannot be read: then it is unknown what was banned.
    pub(super) fn load(&self, bytes: &[u8], shelf: u64) -> bool {
        let Some(bans) = decode(bytes, shelf) else { return false };
        let mut state = self.state.lock();
        for ban in bans {
            if !state.settled.contains(&ban) {
                state.settled.push(ban);
            }
        }
        self.note_len(&state);
        true
    }

    fn note_len(&self, state: &State) {
        self.count.store(state.len(), Ordering::Release);
    }
}

impl State {
    fn len(&self) -> usize {
        self.pending.len() + self.settled.len()
    }

    /// The length of the file with all bans.
    fn bytes(&self) -> usize {
        let pending = self.pending.iter().map(|(_, prefix)| prefix.len());
        let prefixes: usize = pending.chain(self.settled.iter().map(|ban| ban.prefix.len())).sum();
        HEAD_BYTES + self.len() * BAN_BYTES + prefixes
    }
}

/// The bans in a file. A file of another shelf has none.
fn decode(bytes: &[u8], shelf: u64) -> Option<Vec<Ban>> {
    let head = bytes.get(..HEAD_BYTES).filter(|head| head.starts_with(MAGIC))?;
    if u32_at(head, 4)? != crc32c::crc32c(bytes.get(8..)?) {
        return None;
    }
    if u64_at(head, 8)? != shelf {
        return Some(Vec::new());
    }
    let mut bans = Vec::new();
    let mut at = HEAD_BYTES;
    for _ in 0..u32_at(head, 16)? {
        let (sequence, len) = (u64_at(bytes, at)?, u32_at(bytes, at + 8)? as usize);
        at += BAN_BYTES;
        bans.push(Ban { sequence, prefix: bytes.get(at..at.checked_add(len)?)?.into() });
        at += len;
    }
    Some(bans)
}

/// The file with the bans of a shelf; without bans there is no file.
pub(super) const BANS_FILE: &str = "larder.bans";
/// The name of that file until it is complete.
pub(super) const BANS_FILE_NEW: &str = "larder.bans.new";
/// The most bans. Beyond it, the whole shelf is cleared instead.
const BANS_MAX: usize = 1000;
/// The longest prefix. A longer one clears the whole shelf.
const PREFIX_BYTES_MAX: usize = 64 * 1024;
/// The file takes at most one part in this many of `max_size`. If it would be longer, the whole shelf is cleared.
pub(super) const BANS_SHARE: u64 = 8;
const HEAD_BYTES: usize = 20;
/// The bytes of a ban in the file, without its prefix.
const BAN_BYTES: usize = 12;
const MAGIC: &[u8; 4] = b"LRB1";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ban_holds_for_everything_first_and_then_for_what_came_before() {
        let bans = Bans::default();
        assert!(!bans.cover(b"/a/b", 0));
        let ticket = bans.add(b"/a/", u64::MAX).expect("there is room");
        for (key, sequence, covered) in [("/a/b", 9, true), ("/a/", 1, true), ("/a", 1, false), ("/b", 1, false)] {
            assert_eq!(bans.cover(key.as_bytes(), sequence), covered, "pending, {key}");
        }
        bans.settle(ticket, 5);
        for (key, sequence, covered) in [("/a/b", 4, true), ("/a/b", 5, false), ("/b", 1, false)] {
            assert_eq!(bans.cover(key.as_bytes(), sequence), covered, "settled, {key} at {sequence}");
        }
    }

    #[test]
    fn only_what_was_asked_for_by_then_is_settled() {
        let bans = Bans::default();
        let first = bans.add(b"/a", u64::MAX).expect("there is room");
        bans.add(b"/b", u64::MAX).expect("there is room");
        bans.settle(first, 5);
        assert_eq!((bans.cover(b"/a", 9), bans.cover(b"/b", 9)), (false, true));
    }

    #[test]
    fn a_wider_ban_takes_the_place_of_those_inside_it() {
        let bans = Bans::default();
        for (prefix, sequence) in [("/a/1", 5), ("/a/2", 6), ("/b", 7), ("/a/", 8)] {
            let ticket = bans.add(prefix.as_bytes(), u64::MAX).expect("there is room");
            bans.settle(ticket, sequence);
        }
        assert_eq!(bans.state.lock().settled.len(), 2);
        assert!(bans.cover(b"/a/1", 7) && bans.cover(b"/b", 6) && !bans.cover(b"/b", 7));
    }

    #[test]
    fn a_ban_is_forgotten_with_the_last_segment_that_it_is_for() {
        let at = |segment: u64, place: u64| (segment << OFFSET_BITS) + place;
        let bans = Bans::default();
        let ticket = bans.add(b"/a", u64::MAX).expect("there is room");
        bans.settle(ticket, at(7, 3));
        assert_eq!(bans.next_segment(), 8);
        assert!(!bans.prune(Some(7)));
        assert!(bans.prune(Some(8)) && !bans.cover(b"/a", 0));
        assert!(!bans.prune(None));
    }

    #[test]
    fn bans_come_back_as_they_were_and_damage_is_noticed() {
        let bans = Bans::default();
        for (prefix, sequence) in [("/a", 5), ("", 4)] {
            let ticket = bans.add(prefix.as_bytes(), u64::MAX).expect("there is room");
            bans.settle(ticket, sequence);
        }
        let bytes = bans.encode(77).expect("there are bans");
        let back = Bans::default();
        assert!(back.load(&bytes, 77));
        assert_eq!(back.state.lock().settled, bans.state.lock().settled);
        for len in 0..bytes.len() {
            assert!(!Bans::default().load(&bytes[..len], 77), "{len} bytes");
        }
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x10;
            assert!(!Bans::default().load(&damaged, 77), "byte {at}");
        }
        let other = Bans::default();
        assert!(other.load(&bytes, 78) && !other.cover(b"/a", 0), "those of another shelf are none of ours");
    }

    #[test]
    fn there_is_a_bound() {
        let bans = Bans::default();
        for number in 0..BANS_MAX {
            assert!(bans.add(number.to_string().as_bytes(), u64::MAX).is_some());
        }
        assert_eq!(bans.add(b"one more", u64::MAX), None);
        let bans = Bans::default();
        let ticket = bans.add(&[b'a'; 100], 1000).expect("there is room");
        bans.settle(ticket, 5);
        let bytes = bans.encode(77).expect("there is one").len() as u64;
        assert_eq!((bans.add(b"b", bytes + 12), bans.add(b"b", bytes + 13)), (None, Some(1)));
    }
}
