//! A worker's own way to what is hot.

use std::sync::Arc;

use crate::entry::Entry;
use crate::key::KeyRef;
use crate::stats::{Counts, Event};
use crate::zone::Zone;

/// A worker's own small table from keys to entries, of all zones, and its own counts.
///
/// A hot hit goes through it alone: it touches no lock of the shelf and writes no cache line that another
/// worker reads. An entry that left its shelf is not found here any more.
pub struct Front {
    /// Direct-mapped: a key has one place, and the last to come has it.
    slots: Box<[Option<Arc<Entry>>]>,
    /// By zone; few, so a walk is the fastest search.
    counts: Vec<(u64, Arc<Counts>)>,
}

impl Front {
    /// An empty table.
    pub fn new() -> Self {
        Self { slots: (0..SLOTS).map(|_| None).collect(), counts: Vec::new() }
    }

    /// The entry of `key` in the zone of `era`, from here or else from `find`.
    pub(crate) fn entry(
        &mut self,
        era: u64,
        key: &KeyRef<'_>,
        find: impl FnOnce() -> Option<Arc<Entry>>,
    ) -> Option<&Arc<Entry>> {
        // The high half of the hash: the shelf's index goes by the low one.
        let at = ((key.hash() >> 64) as u64 ^ era) as usize % SLOTS;
        let slot = self.slots.get_mut(at)?;
        match slot {
            Some(entry) if entry.is_live_at(era, key) => entry.touch(),
            Some(_) | None => *slot = find(),
        }
        slot.as_ref()
    }

    /// Counts an event of a zone.
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

/// 32 KB of pointers: within a core's own caches, and more pages than are hot at a time.
const SLOTS: usize = 4096;
