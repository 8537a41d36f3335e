//! Bans: they remove the pages that were stored before them, by the prefix of their keys or by what words say of them.
//!
//! The index has hashes of keys, not prefixes. So a page that is banned by its prefix is recognised when it is read: by
//! its key, and by its place in the log, which is before the ban. Of a ban in words the shelf knows its place alone: it
//! tells who reads a page which is the first one since, and keeps the words for the next process. A ban is forgotten when
//! all segments that are older than it are deleted.

use std::collections::{HashSet, VecDeque};
use std::sync::Weak;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::ban_room::{BAN_BYTES, COUNT_BYTES, HEAD_BYTES, Item, Room, WORDED_BYTES};
use super::bytes::{put_all, u32_at, u64_at};
use super::record::OFFSET_BITS;

/// A ban in words, which the owner of the shelf understands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WordedBan {
    /// Its number with the owner; 0 for one that was read from the disk, until the owner gives it one.
    pub number: u64,
    /// When it was made, in ms since 1970.
    pub made_at: u64,
    /// What it says.
    pub words: Box<str>,
}

/// Who understands the bans in words.
pub trait Judge: Send + Sync {
    /// Whether a page with this key and head is banned by the ban of this number or a later one, or may be.
    fn is_banned(&self, key: &[u8], head: &[u8], since: u64) -> bool;

    /// Bans were read from the disk, and no page yet: here is time to number and understand them.
    fn bans_read(&self) {}
}

/// What the bans say of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// A prefix of its key is banned.
    Banned,
    /// The number of the first ban in words since it was written; `None` if there is none.
    Since(Option<u64>),
}

/// The bans of a shelf.
#[derive(Default)]
pub(super) struct Bans {
    /// How many there are of both kinds; if there are none, a read takes no lock.
    count: AtomicUsize,
    worded: AtomicUsize,
    /// Rises when there are bans in words without a number.
    reads: AtomicU64,
    /// The highest number of a ban in words that has its place in the log.
    settled_number: AtomicU64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Bans that the writer has not reached yet, each with its ticket. They apply to all records.
    pending: Vec<(u64, Box<[u8]>)>,
    pending_worded: Vec<PendingWorded>,
    next_ticket: u64,
    settled: Vec<Ban>,
    /// By sequence.
    worded: VecDeque<Worded>,
    /// What all of them take in the file.
    room: Room,
    owner: u64,
    judge: Option<Weak<dyn Judge>>,
}

/// A ban of the records before `sequence`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Ban {
    sequence: u64,
    prefix: Box<[u8]>,
}

/// A ban in words of the records before `sequence`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Worded {
    sequence: u64,
    ban: WordedBan,
}

struct PendingWorded {
    ticket: u64,
    ban: WordedBan,
    /// It makes older ones of the same words unnecessary.
    is_timeless: bool,
}

impl Ban {
    fn covers(&self, key: &[u8], sequence: u64) -> bool {
        sequence < self.sequence && key.starts_with(&self.prefix)
    }
}

impl Bans {
    /// Bans a prefix for all records, until [`Bans::settle`] with the ticket. With too many bans, or a file longer than
    /// `bytes_max`, the oldest go, and with them everything that was stored before them. `None` if not even that makes
    /// room.
    pub(super) fn add(&self, prefix: &[u8], bytes_max: u64) -> Option<u64> {
        let mut state = self.state.lock();
        let is_replaced = |item: Item<'_>| match item {
            Item::Prefix(narrower) => narrower.starts_with(prefix),
            Item::Words(_) => prefix.is_empty(),
        };
        if prefix.len() > PREFIX_BYTES_MAX || !state.make_room(Item::Prefix(prefix), is_replaced, bytes_max) {
            return None;
        }
        let ticket = state.take_ticket();
        state.pending.push((ticket, prefix.into()));
        state.room.take(Item::Prefix(prefix));
        self.note_len(&state);
        Some(ticket)
    }

    /// Bans in words for all records, until [`Bans::settle`] with the ticket. Room is made as by [`Bans::add`].
    pub(super) fn add_worded(&self, ban: WordedBan, is_timeless: bool, bytes_max: u64) -> Option<u64> {
        let mut state = self.state.lock();
        let is_replaced = |item: Item<'_>| match item {
            Item::Prefix(_) => false,
            Item::Words(words) => is_timeless && *words == *ban.words,
        };
        if !state.make_room(Item::Words(&ban.words), is_replaced, bytes_max) {
            return None;
        }
        let ticket = state.take_ticket();
        state.room.take(Item::Words(&ban.words));
        state.pending_worded.push(PendingWorded { ticket, ban, is_timeless });
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
            if prefix.is_empty() {
                state.worded.retain(|worded| worded.sequence > sequence);
            }
            state.settled.push(Ban { sequence, prefix });
        }
        let due: Vec<_> = state.pending_worded.extract_if(.., |pending| pending.ticket <= ticket).collect();
        let (mut timeless, mut newest_first) = (HashSet::new(), Vec::with_capacity(due.len()));
        for PendingWorded { ban, is_timeless, .. } in due.into_iter().rev() {
            self.settled_number.fetch_max(ban.number, Ordering::AcqRel);
            // Of those of the same words the last stays.
            if !is_timeless || timeless.insert(ban.words.clone()) {
                newest_first.push(Worded { sequence, ban });
            }
        }
        // Mostly there is one, and to compare with that is faster than to hash all.
        let is_replaced = |words: &str| match timeless.len() {
            0..=HASHED_MIN => timeless.iter().any(|later| **later == *words),
            _ => timeless.contains(words),
        };
        state.worded.retain(|worded| !is_replaced(&worded.ban.words));
        state.worded.extend(newest_first.into_iter().rev());
        self.note_all(&mut state);
    }

    /// Whether there are bans that the writer has not reached yet.
    pub(super) fn is_any_pending(&self) -> bool {
        let state = self.state.lock();
        !(state.pending.is_empty() && state.pending_worded.is_empty())
    }

    /// The number of the first ban in words since the record at `sequence` was written; `None` if there is none.
    pub(super) fn first_since(&self, sequence: u64) -> Option<u64> {
        if self.worded.load(Ordering::Acquire) == 0 {
            return None;
        }
        self.state.lock().first_since(sequence)
    }

    /// The least number of all bans in words.
    pub(super) fn first_number(&self) -> Option<u64> {
        self.first_since(0)
    }

    /// The highest number of a ban in words that has its place in the log. What comes behind it, and was not tested by
    /// it, would escape it.
    pub(super) fn settled_number(&self) -> u64 {
        self.settled_number.load(Ordering::Acquire)
    }

    /// Whether the record of `key` with this head, at `sequence`, is banned by either kind, or may be. At the last sequence
    /// that is by those bans that have no place yet.
    pub(super) fn judge(&self, key: &[u8], head: &[u8], sequence: u64) -> bool {
        let state = self.state.lock();
        if state.covers(key, sequence) {
            return true;
        }
        let Some(since) = state.first_since(sequence) else { return false };
        // Whose number it is: the shelf may belong to another in a moment.
        let judge = state.judge.as_ref().and_then(Weak::upgrade);
        drop(state);
        judge.is_none_or(|judge| judge.is_banned(key, head, since))
    }

    /// Tells the judge that bans were read.
    pub(super) fn tell_read(&self) {
        // Without the lock, as it has locks of its own.
        let judge = self.state.lock().judge.as_ref().and_then(Weak::upgrade);
        if let Some(judge) = judge {
            judge.bans_read();
        }
    }

    /// Rises when there are bans in words without a number.
    pub(super) fn reads(&self) -> u64 {
        self.reads.load(Ordering::Acquire)
    }

    /// Gives the bans in words to an owner, who has to give them numbers if it had them not before.
    pub(super) fn belong_to(&self, owner: u64, judge: Weak<dyn Judge>) {
        let mut state = self.state.lock();
        state.judge = Some(judge);
        if std::mem::replace(&mut state.owner, owner) != owner {
            state.each_worded(|ban| ban.number = 0);
            self.reads.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// The bans in words of an owner that have no number, the newest first.
    pub(super) fn unnumbered(&self, owner: u64) -> Vec<WordedBan> {
        let mut state = self.state.lock();
        let mut found = Vec::new();
        if state.owner == owner {
            state.each_worded(|ban| {
                if ban.number == 0 {
                    found.push(ban.clone());
                }
            });
        }
        found
    }

    /// Has the owner number the bans in words that have no number, the newest first; 0 leaves one as it is. Nothing
    /// happens for others.
    pub(super) fn number(&self, owner: u64, mut number: impl FnMut(&WordedBan) -> u64) {
        let mut state = self.state.lock();
        if state.owner == owner {
            state.each_worded(|ban| {
                if ban.number == 0 {
                    ban.number = number(ban);
                }
            });
        }
    }

    /// The bans in words that have their place, oldest first.
    pub(super) fn all_worded(&self) -> Vec<WordedBan> {
        self.state.lock().worded.iter().map(|worded| worded.ban.clone()).collect()
    }

    /// Whether the record of `key` at `sequence` is banned by its prefix.
    pub(super) fn cover(&self, key: &[u8], sequence: u64) -> bool {
        self.verdict(key, sequence) == Verdict::Banned
    }

    /// What is said of the record of `key` at `sequence`, by both kinds at the same moment: a ban of all keys takes the
    /// place of those in words. It holds if the segment of the record is still there afterwards; otherwise its bans may
    /// have been forgotten.
    pub(super) fn verdict(&self, key: &[u8], sequence: u64) -> Verdict {
        if self.count.load(Ordering::Acquire) == 0 {
            return Verdict::Since(None);
        }
        let state = self.state.lock();
        match state.covers(key, sequence) {
            true => Verdict::Banned,
            false => Verdict::Since(state.first_since(sequence)),
        }
    }

    /// Forgets the bans that only concern segments before `oldest`. True if there were any.
    pub(super) fn prune(&self, oldest: Option<u64>) -> bool {
        if self.count.load(Ordering::Acquire) == 0 {
            return false;
        }
        let mut state = self.state.lock();
        let before = state.len();
        let is_needed = |sequence: u64| oldest.is_some_and(|oldest| sequence > oldest << OFFSET_BITS);
        state.settled.retain(|ban| is_needed(ban.sequence));
        state.worded.retain(|worded| is_needed(worded.sequence));
        self.note_all(&mut state);
        before > state.len()
    }

    /// Forgets the bans that the writer has reached.
    pub(super) fn clear(&self) {
        let mut state = self.state.lock();
        state.settled.clear();
        state.worded.clear();
        self.note_all(&mut state);
    }

    /// The first segment that new records may use, so that no ban covers them.
    pub(super) fn next_segment(&self) -> u64 {
        let state = self.state.lock();
        let sequences = state.settled.iter().map(|ban| ban.sequence);
        let sequences = sequences.chain(state.worded.iter().map(|worded| worded.sequence));
        sequences.map(|sequence| (sequence >> OFFSET_BITS) + 1).max().unwrap_or(0)
    }

    /// The bans that the writer has reached, as bytes for [`BANS_FILE`]. `None` if there are none.
    ///
    /// | at | bytes | what                                             |
    /// | -- | ----- | ------------------------------------------------ |
    /// |  0 |     4 | magic, `LRB1`; `LRB2` with bans in words          |
    /// |  4 |     4 | CRC-32C of everything after it                   |
    /// |  8 |     8 | the id of the shelf                              |
    /// | 16 |     4 | how many there are                               |
    /// | 20 |       | of each: its sequence, 8; the length of its prefix, 4; the prefix |
    /// |    |     4 | with bans in words: how many                     |
    /// |    |       | of each: its sequence, 8; when it was made, in ms since 1970, 8; the length of its words, 4; the words |
    pub(super) fn encode(&self, shelf: u64) -> Option<Vec<u8>> {
        let state = self.state.lock();
        if state.settled.is_empty() && state.worded.is_empty() {
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
        if !state.worded.is_empty() {
            bytes.extend_from_slice(&(state.worded.len() as u32).to_le_bytes());
        }
        for Worded { sequence, ban } in &state.worded {
            bytes.extend_from_slice(&sequence.to_le_bytes());
            bytes.extend_from_slice(&ban.made_at.to_le_bytes());
            bytes.extend_from_slice(&(ban.words.len() as u32).to_le_bytes());
            bytes.extend_from_slice(ban.words.as_bytes());
        }
        let crc = crc32c::crc32c(&bytes[8..]);
        let magic = if state.worded.is_empty() { MAGIC } else { MAGIC_WORDED };
        put_all(&mut bytes, &[magic, &crc.to_le_bytes()]);
        Some(bytes)
    }

    /// Adds the bans of a file. False if it cannot be read: then it is unknown what was banned.
    pub(super) fn load(&self, bytes: &[u8], shelf: u64) -> bool {
        let Some((bans, worded)) = decode(bytes, shelf) else { return false };
        let mut state = self.state.lock();
        for ban in bans {
            if !state.settled.contains(&ban) {
                state.settled.push(ban);
            }
        }
        let has_worded = !worded.is_empty();
        let place_of = |worded: &Worded| (worded.sequence, worded.ban.made_at, worded.ban.words.clone());
        let known: HashSet<_> = state.worded.iter().map(place_of).collect();
        state.worded.extend(worded.into_iter().filter(|new| !known.contains(&place_of(new))));
        // Linear for two lists in order.
        state.worded.make_contiguous().sort_by_key(|worded| worded.sequence);
        self.note_all(&mut state);
        if has_worded {
            self.reads.fetch_add(1, Ordering::AcqRel);
        }
        true
    }

    /// Notes what is there, after more than one was added.
    fn note_all(&self, state: &mut State) {
        state.count_room();
        self.note_len(state);
    }

    fn note_len(&self, state: &State) {
        self.worded.store(state.worded.len() + state.pending_worded.len(), Ordering::Release);
        self.count.store(state.len(), Ordering::Release);
    }
}

impl State {
    fn take_ticket(&mut self) -> u64 {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        ticket
    }

    fn len(&self) -> usize {
        self.pending.len() + self.settled.len() + self.pending_worded.len() + self.worded.len()
    }

    fn covers(&self, key: &[u8], sequence: u64) -> bool {
        self.pending.iter().any(|(_, prefix)| key.starts_with(prefix))
            || self.settled.iter().any(|ban| ban.covers(key, sequence))
    }

    fn first_since(&self, sequence: u64) -> Option<u64> {
        let later = self.worded.iter().rev().take_while(|worded| worded.sequence > sequence);
        later.map(|worded| worded.ban.number).chain(self.pending_worded.iter().map(|pending| pending.ban.number)).min()
    }

    /// Makes room for a ban, which takes the place of some that are settled: the oldest become one of everything before
    /// them, as many as need be. False if that is not enough.
    fn make_room(&mut self, new: Item<'_>, is_replaced: impl Fn(Item<'_>) -> bool, bytes_max: u64) -> bool {
        let mut room = self.room;
        room.take(new);
        if room.fits(bytes_max) {
            return true;
        }
        self.placed().filter(|(_, item)| is_replaced(*item)).for_each(|(_, item)| room.give_back(item));
        if room.fits(bytes_max) {
            return true;
        }
        let mut oldest: Vec<_> = self.placed().filter(|(_, item)| !is_replaced(*item)).collect();
        oldest.sort_by_key(|(sequence, _)| *sequence);
        room.take(Item::Prefix(b""));
        let mut given_up = 0;
        for (sequence, item) in oldest {
            room.give_back(item);
            given_up = sequence;
            if room.fits(bytes_max) {
                break;
            }
        }
        let is_enough = room.fits(bytes_max);
        if is_enough {
            self.give_up_before(given_up);
        }
        is_enough
    }

    fn count_room(&mut self) {
        let pending = self.pending.iter().map(|(_, prefix)| Item::Prefix(prefix));
        let pending = pending.chain(self.pending_worded.iter().map(|pending| Item::Words(&pending.ban.words)));
        let mut room = Room::default();
        pending.chain(self.placed().map(|(_, item)| item)).for_each(|item| room.take(item));
        self.room = room;
    }

    /// The bans that have their place, each with that.
    fn placed(&self) -> impl Iterator<Item = (u64, Item<'_>)> {
        let prefixes = self.settled.iter().map(|ban| (ban.sequence, Item::Prefix(&ban.prefix)));
        prefixes.chain(self.worded.iter().map(|worded| (worded.sequence, Item::Words(&worded.ban.words))))
    }

    /// Bans all records before `sequence`, in place of the bans that only concern these.
    fn give_up_before(&mut self, sequence: u64) {
        self.settled.retain(|ban| ban.sequence > sequence);
        self.worded.retain(|worded| worded.sequence > sequence);
        self.settled.push(Ban { sequence, prefix: Box::default() });
        self.count_room();
    }

    /// All bans in words, the newest first.
    fn each_worded(&mut self, mut call: impl FnMut(&mut WordedBan)) {
        self.pending_worded.iter_mut().rev().for_each(|pending| call(&mut pending.ban));
        self.worded.iter_mut().rev().for_each(|worded| call(&mut worded.ban));
    }
}

/// The bans in a file, of both kinds. A file of another shelf has none.
fn decode(bytes: &[u8], shelf: u64) -> Option<(Vec<Ban>, Vec<Worded>)> {
    let head = bytes.get(..HEAD_BYTES)?;
    let has_worded = head.starts_with(MAGIC_WORDED);
    if !has_worded && !head.starts_with(MAGIC) || u32_at(head, 4)? != crc32c::crc32c(bytes.get(8..)?) {
        return None;
    }
    let (mut bans, mut worded) = (Vec::new(), Vec::new());
    if u64_at(head, 8)? != shelf {
        return Some((bans, worded));
    }
    let mut at = HEAD_BYTES;
    for _ in 0..u32_at(head, 16)? {
        let (sequence, len) = (u64_at(bytes, at)?, u32_at(bytes, at + 8)? as usize);
        at += BAN_BYTES;
        bans.push(Ban { sequence, prefix: bytes.get(at..at.checked_add(len)?)?.into() });
        at += len;
    }
    if has_worded {
        let count = u32_at(bytes, at)?;
        at += COUNT_BYTES;
        for _ in 0..count {
            let (sequence, made_at) = (u64_at(bytes, at)?, u64_at(bytes, at + 8)?);
            let len = u32_at(bytes, at + 16)? as usize;
            at += WORDED_BYTES;
            let words = str::from_utf8(bytes.get(at..at.checked_add(len)?)?).ok()?.into();
            worded.push(Worded { sequence, ban: WordedBan { number: 0, made_at, words } });
            at += len;
        }
    }
    Some((bans, worded))
}

/// The file with the bans of a shelf; without bans there is no file.
pub(super) const BANS_FILE: &str = "larder.bans";
/// The name of that file until it is complete.
pub(super) const BANS_FILE_NEW: &str = "larder.bans.new";
/// Of more new bans in words than this, each old one is looked up.
const HASHED_MIN: usize = 8;
/// The longest prefix. A longer one clears the whole shelf.
const PREFIX_BYTES_MAX: usize = 64 * 1024;
const MAGIC: &[u8; 4] = b"LRB1";
const MAGIC_WORDED: &[u8; 4] = b"LRB2";

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::ban_room::{BANS_MAX, WORDED_MAX};
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

    fn worded(number: u64, words: &str) -> WordedBan {
        WordedBan { number, made_at: number * 1000, words: words.into() }
    }

    /// Adds a ban in words, and gives it its place.
    fn settle_worded(bans: &Bans, number: u64, words: &str, sequence: u64) {
        let ticket = bans.add_worded(worded(number, words), true, u64::MAX).expect("there is room");
        bans.settle(ticket, sequence);
    }

    #[test]
    fn the_first_ban_in_words_since_a_record_is_told() {
        let bans = Bans::default();
        assert_eq!(bans.first_since(0), None);
        settle_worded(&bans, 11, "a", 5);
        settle_worded(&bans, 12, "b", 7);
        let ticket = bans.add_worded(worded(13, "c"), true, u64::MAX).expect("there is room");
        assert_eq!([4, 5, 6, 7, 9].map(|at| bans.first_since(at)), [11, 12, 12, 13, 13].map(Some));
        assert_eq!((bans.settled_number(), bans.first_number()), (12, Some(11)));
        bans.settle(ticket, 9);
        assert_eq!((bans.first_since(8), bans.first_since(9), bans.settled_number()), (Some(13), None, 13));
        // One of the same words makes the older one unnecessary.
        settle_worded(&bans, 14, "a", 11);
        assert_eq!([4, 10, 11].map(|at| bans.first_since(at)), [Some(12), Some(14), None]);
        // What bans everything does so too.
        let ticket = bans.add(b"", u64::MAX).expect("there is room");
        bans.settle(ticket, 12);
        assert_eq!((bans.first_since(0), bans.cover(b"/", 11), bans.cover(b"/", 12)), (None, true, false));
    }

    #[test]
    fn no_record_falls_between_a_ban_in_words_and_the_ban_of_everything_that_takes_its_place() {
        let bans = Bans::default();
        settle_worded(&bans, 11, "a", 5);
        assert_eq!(bans.verdict(b"/", 4), Verdict::Since(Some(11)));
        let ticket = bans.add(b"", u64::MAX).expect("there is room");
        assert_eq!(bans.verdict(b"/", 4), Verdict::Banned);
        bans.settle(ticket, 7);
        assert_eq!(
            [4, 6, 7].map(|at| bans.verdict(b"/", at)),
            [Verdict::Banned, Verdict::Banned, Verdict::Since(None)]
        );
    }

    #[test]
    fn bans_in_words_come_back_without_numbers_and_damage_is_noticed() {
        let bans = Bans::default();
        settle_worded(&bans, 11, "obj.http.x ~ a", 5 << OFFSET_BITS);
        settle_worded(&bans, 12, "", 9 << OFFSET_BITS);
        settle_worded(&bans, 13, "at the same place", 9 << OFFSET_BITS);
        let ticket = bans.add(b"/a", u64::MAX).expect("there is room");
        bans.settle(ticket, 7);
        let bytes = bans.encode(77).expect("there are bans");
        let back = Bans::default();
        assert!(back.load(&bytes, 77) && back.load(&bytes, 77), "twice is once");
        assert_eq!(back.encode(77), Some(bytes.clone()));
        assert_eq!((back.next_segment(), back.reads(), back.first_since(0)), (10, 2, Some(0)));
        let mut number = 100;
        let mut told = Vec::new();
        let mut give = |ban: &WordedBan| {
            told.push((ban.made_at, ban.words.to_string()));
            number -= 1;
            number
        };
        back.number(1, &mut give);
        assert_eq!(back.first_since(0), Some(0), "who does not own the shelf numbers nothing");
        back.belong_to(1, Weak::<Nobody>::new());
        back.number(1, &mut give);
        back.number(1, &mut give);
        let expected = [(13_000, "at the same place"), (12_000, ""), (11_000, "obj.http.x ~ a")];
        assert_eq!(told, expected.map(|(at, words)| (at, words.to_owned())), "newest first, once each");
        assert_eq!([0, 5 << OFFSET_BITS, 9 << OFFSET_BITS].map(|at| back.first_since(at)), [Some(97), Some(98), None]);
        back.belong_to(2, Weak::<Nobody>::new());
        assert_eq!((back.first_since(0), back.reads()), (Some(0), 4), "another owner has other numbers");
        for len in 0..bytes.len() {
            assert!(!Bans::default().load(&bytes[..len], 77), "{len} bytes");
        }
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x10;
            assert!(!Bans::default().load(&damaged, 77), "byte {at}");
        }
        assert!(back.prune(Some(5)) && back.prune(Some(9)) && back.encode(77).is_none());
    }

    /// Says that nothing is banned but by what has no number, and notes what it was asked.
    #[derive(Default)]
    struct Asked(Mutex<Vec<u64>>);

    impl Judge for Asked {
        fn is_banned(&self, _: &[u8], _: &[u8], since: u64) -> bool {
            self.0.lock().push(since);
            since == 0
        }
    }

    #[test]
    fn a_page_that_is_carried_is_judged_by_whoever_numbered_the_bans_and_by_all_that_have_no_place() {
        let (first, second) = (Arc::new(Asked::default()), Arc::new(Asked::default()));
        let weak = |judge: &Arc<Asked>| Arc::downgrade(judge) as Weak<dyn Judge>;
        let bans = Bans::default();
        bans.belong_to(1, weak(&first));
        settle_worded(&bans, 11, "a", 5);
        assert_eq!([4, 5].map(|at| bans.judge(b"/a", b"", at)), [false; 2]);
        let ticket = bans.add_worded(worded(12, "b"), true, u64::MAX).expect("there is room");
        assert_eq!([4, 5, u64::MAX].map(|at| bans.judge(b"/a", b"", at)), [false; 3]);
        assert_eq!(*first.0.lock(), [11, 11, 12, 12]);
        bans.belong_to(2, weak(&second));
        assert!(bans.judge(b"/a", b"", u64::MAX));
        assert_eq!((first.0.lock().len(), &second.0.lock()[..]), (4, &[0][..]));
        bans.add(b"/a", u64::MAX).expect("there is room");
        bans.settle(ticket, 9);
        assert_eq!([&b"/a"[..], b"/b"].map(|key| bans.judge(key, b"", u64::MAX)), [true, false]);
        drop(second);
        assert!(bans.judge(b"/b", b"", 4), "nobody knows");
    }

    struct Nobody;

    impl Judge for Nobody {
        fn is_banned(&self, _: &[u8], _: &[u8], _: u64) -> bool {
            false
        }
    }

    #[test]
    fn beyond_the_bound_the_oldest_bans_in_words_become_one_of_everything_before_them() {
        let bans = Bans::default();
        settle_worded(&bans, 1, "x ~ 1", 10);
        for number in 2..WORDED_MAX as u64 {
            bans.add_worded(worded(number, &format!("x ~ {number}")), true, u64::MAX).expect("there is room");
        }
        settle_worded(&bans, WORDED_MAX as u64, "x", 20);
        assert_eq!((bans.first_since(0), bans.cover(b"/", 0)), (Some(1), false));
        settle_worded(&bans, 1_000_000, "x ~ y", 1_000_000);
        assert_eq!((bans.first_since(0), bans.cover(b"/", 9), bans.cover(b"/", 10)), (Some(2), true, false));
        // So do those that would make the file too long; with one alone there is nothing to give up.
        let bans = Bans::default();
        for number in 1..=3 {
            settle_worded(&bans, number, &"x".repeat(100 + number as usize), number * 10);
        }
        let bytes = bans.encode(77).expect("there are some").len() as u64;
        let ticket = bans.add_worded(worded(4, "y"), true, bytes).expect("there is room");
        bans.settle(ticket, 40);
        assert_eq!((bans.first_since(0), bans.cover(b"/", 9), bans.cover(b"/", 10)), (Some(2), true, false));
        assert!(bans.encode(77).expect("there are some").len() as u64 <= bytes);
        assert_eq!(Bans::default().add_worded(worded(1, "too long"), true, 30), None);
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
        assert!(bans.add(b"b", bytes + 13).is_some() && !bans.cover(b"/", 4), "there is room for both");
        let (ticket, is_given_up) = (bans.add(b"c", bytes), bans.cover(b"/", 4));
        assert_eq!((is_given_up, bans.cover(b"/", 5)), (true, false), "the oldest makes room");
        bans.settle(ticket.expect("there is room"), 9);
        assert!(bans.encode(77).expect("there are some").len() as u64 <= bytes);
        assert_eq!(bans.add(&[b'd'; 100], 100), None);
    }

    #[test]
    fn what_a_ban_takes_the_place_of_makes_room_for_it_and_nothing_else_goes() {
        let bans = Bans::default();
        for number in 0..BANS_MAX as u64 {
            let ticket = bans.add(format!("/{number:03}/").as_bytes(), u64::MAX).expect("there is room");
            bans.settle(ticket, 1 + number);
        }
        for (prefix, at) in [("/999/", 2000), ("/99", 3000)] {
            let ticket = bans.add(prefix.as_bytes(), u64::MAX).expect("there is room");
            bans.settle(ticket, at);
            assert!(!bans.cover(b"/other", 0) && bans.cover(b"/999/", at - 1), "{prefix}");
        }
        let bans = Bans::default();
        for number in 1..=3 {
            settle_worded(&bans, number, &format!("x ~ {number}"), number * 10);
        }
        let bytes_max = bans.encode(77).expect("there are some").len() as u64;
        let ticket = bans.add_worded(worded(4, "x ~ 2"), true, bytes_max).expect("there is room");
        bans.settle(ticket, 40);
        assert_eq!((bans.first_since(0), bans.cover(b"/", 0)), (Some(1), false));
        // One of everything takes the place of all.
        assert!(bans.add(b"", HEAD_BYTES as u64 + 12).is_some());
    }
}
