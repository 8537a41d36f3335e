//! A worker's own table of hot entries.

use std::sync::Arc;

use crate::entry::Entry;
use crate::key::KeyRef;
use crate::stats::{Counts, Event};
use crate::zone::Zone;

/// A worker's own small table from keys to entries of all zones, and its own counts.
///
/// A hot hit only needs this table: it takes no lock of the shelf, and writes no cache line that another worker reads.
/// An entry that has left its shelf is no longer found.
pub struct Front {
    /// Direct-mapped: each key has one slot, and a later key takes it from an earlier one.
    slots: Box<[Option<Arc<Entry>>]>,
    /// By zone. There are few zones, so a linear search is fastest.
    counts: Vec<(u64, Arc<Counts>)>,
}

impl Front {
    /// An empty table.
    pub fn new() -> Self {
        Self { slots: (0..SLOTS).map(|_| None).collect(), counts: Vec::new() }
    }

    /// The entry of `key` in the zone of `era`, from this table or else from `find`.
    pub(crate) fn entry(
        &mut self,
        era: u64,
        key: &KeyRef<'_>,
        find: impl FnOnce() -> Option<Arc<Entry>>,
    ) -> Option<&Arc<Entry>> {
        // The high half of the hash, because the shelf's index uses the low one.
        let at = ((key.hash() >> 64) as u64 ^ era) as usize % SLOTS;
        let slot = self.slots.get_mut(at)?;
        match slot {
            Some(entry) if entry.is_live_at(era, key) => entry.touch(),
            Some(_) | None => *slot = find(),
        }
        slot.as_ref()
    }

    /// Counts an event of a zone for this worker.
    pub(crate) fn count(&mut self, zone: &Zone, event: Event) {
        if let Some((_, counts)) = self.counts.iter().find(|(id, _)| *id == zone.id()) {
            counts.add(event);
            return;
        }
        let counts = zone.new_counts();
        counts.add(event);
        self.counts.push((zone.id(), counts));
    }

    /// Forgets entries that left their shelves, and the counts of zones that are gone.
    pub fn tidy(&mut self) {
        for slot in &mut self.slots {
            if slot.as_ref().is_some_and(|entry| entry.is_gone()) {
                *slot = None;
            }
        }
        self.counts.retain(|(_, counts)| Arc::strong_count(counts) > 1);
    }
}

impl Default for Front {
    fn default() -> Self {
        Self::new()
    }
}

/// 32 KB of pointers: it fits into a core's cache, and more pages are rarely hot at a time.
const SLOTS: usize = 4096;
