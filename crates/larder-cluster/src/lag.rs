//! How far nodes are behind.

use std::collections::VecDeque;
use std::time::Duration;

use crate::place::EntryId;

/// How far a node is behind the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lag {
    /// How many entries it has not carried out.
    pub entries: u64,
    /// How long the oldest of these has been in the log.
    pub time: Duration,
    /// Whether both may be more: the node is further behind than anybody counts.
    pub is_more: bool,
}

/// The last entries that this node has read, those behind `after` of which none is missing, and the next ones.
pub(crate) struct Recent {
    after: EntryId,
    entries: VecDeque<EntryId>,
    /// The next ones, as far as they are counted.
    unread: VecDeque<EntryId>,
    /// Whether there may be more of them.
    is_more: bool,
    /// How many entries were read since they were counted.
    since_count: usize,
}

impl Default for Recent {
    /// Nothing is read.
    fn default() -> Self {
        Self::new(EntryId::default())
    }
}

impl Recent {
    fn new(after: EntryId) -> Self {
        let (entries, unread) = (VecDeque::new(), VecDeque::new());
        Self { after, entries, unread, is_more: true, since_count: COUNT_AFTER }
    }

    /// Nothing is known of what is before this place.
    pub fn begin_at(&mut self, place: EntryId) {
        if self.last() != place {
            *self = Self::new(place);
        }
    }

    /// The next entry is read.
    pub fn add(&mut self, entry: EntryId) {
        if self.entries.len() == COUNTED_MAX
            && let Some(first) = self.entries.pop_front()
        {
            self.after = first;
        }
        self.entries.push_back(entry);
        while self.unread.front().is_some_and(|unread| *unread <= entry) {
            self.unread.pop_front();
        }
        self.since_count = self.since_count.saturating_add(1);
    }

    /// All entries are read.
    pub fn caught_up(&mut self) {
        self.unread.clear();
        (self.is_more, self.since_count) = (false, COUNT_AFTER);
    }

    /// There are more entries. True if they are to be counted: the server has to send what is counted, so that nodes which all
    /// are behind would keep each other from reading.
    pub fn falls_behind(&mut self) -> bool {
        self.is_more = true;
        self.since_count >= COUNT_AFTER
    }

    /// The next entries, [`COUNTED_MAX`] at most, and whether there may be more.
    pub fn counted(&mut self, unread: VecDeque<EntryId>, is_more: bool) {
        (self.is_more, self.since_count) = (is_more, 0);
        self.unread = unread;
    }

    /// The last entry that is read, or where it begins.
    fn last(&self) -> EntryId {
        self.entries.back().copied().unwrap_or(self.after)
    }

    /// How far a node is behind that has read up to `place`, at the server's time `now`.
    pub fn lag(&self, place: EntryId, now: u64) -> Lag {
        let since = |entry: EntryId| Duration::from_millis(now.saturating_sub(entry.ms));
        let behind = |entries: &VecDeque<EntryId>| entries.len() - entries.partition_point(|entry| *entry <= place);
        let (known, further) = (behind(&self.entries), behind(&self.unread));
        let entries = (known + further) as u64;
        if place < self.after {
            return Lag { entries: entries + 1, time: since(self.after), is_more: true };
        }
        let oldest = match known {
            0 => self.unread.get(self.unread.len() - further),
            known => self.entries.get(self.entries.len() - known),
        };
        Lag { entries, time: oldest.map(|oldest| since(*oldest)).unwrap_or_default(), is_more: self.is_more }
    }
}

/// How many entries are counted.
pub(crate) const COUNTED_MAX: usize = 10_000;
/// After how many that were read those are counted again that were not: a third of the reading at most.
const COUNT_AFTER: usize = 3 * COUNTED_MAX;

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> EntryId {
        EntryId { ms, number: 0 }
    }

    fn lag(entries: u64, millis: u64, is_more: bool) -> Lag {
        Lag { entries, time: Duration::from_millis(millis), is_more }
    }

    #[test]
    fn what_a_node_has_not_read_is_counted_as_far_as_it_is_known() {
        let mut recent = Recent::default();
        recent.begin_at(at(10));
        for entry in [20, 30, 40] {
            recent.add(at(entry));
        }
        recent.caught_up();
        let of = |recent: &Recent, place| recent.lag(at(place), 100);
        for (place, expected) in [
            (40, lag(0, 0, false)),
            // It has read more than this node.
            (45, lag(0, 0, false)),
            (30, lag(1, 60, false)),
            (10, lag(3, 80, false)),
            (9, lag(4, 90, true)),
        ] {
            assert_eq!(of(&recent, place), expected, "{place}");
        }
        assert!(recent.falls_behind());
        recent.counted([at(50), at(60)].into(), false);
        for (place, expected) in
            [(40, lag(2, 50, false)), (20, lag(4, 70, false)), (50, lag(1, 40, false)), (60, lag(0, 0, false))]
        {
            assert_eq!(of(&recent, place), expected, "{place}");
        }
        recent.add(at(50));
        assert_eq!(of(&recent, 40), lag(2, 50, false));
        assert!(!recent.falls_behind(), "that was counted just now");
        assert_eq!(of(&recent, 50), lag(1, 40, true), "others may have come since");
        recent.counted(vec![at(60); COUNTED_MAX].into(), true);
        assert!(of(&recent, 50).is_more);
    }

    #[test]
    fn what_is_to_be_read_is_counted_again_when_much_was_read() {
        let mut recent = Recent::default();
        assert!(recent.falls_behind());
        recent.counted(VecDeque::new(), false);
        for entry in 1..=COUNT_AFTER as u64 {
            assert!(!recent.falls_behind());
            recent.add(at(entry));
        }
        assert!(recent.falls_behind());
        recent.counted(VecDeque::new(), false);
        recent.caught_up();
        assert!(recent.falls_behind(), "it is another time");
    }

    #[test]
    fn only_the_last_entries_are_kept_and_another_place_begins_anew() {
        let mut recent = Recent::default();
        let newest = COUNTED_MAX as u64 + 5;
        (1..=newest).for_each(|entry| recent.add(at(entry)));
        recent.caught_up();
        assert_eq!(recent.lag(at(5), newest), lag(COUNTED_MAX as u64, newest - 6, false));
        assert!(recent.lag(at(4), newest).is_more);
        recent.begin_at(at(newest));
        assert!(!recent.lag(at(5), newest).is_more, "it goes on");
        recent.begin_at(at(3));
        recent.caught_up();
        assert_eq!(recent.lag(at(3), 9), lag(0, 0, false));
        assert_eq!(recent.last(), at(3));
    }
}
