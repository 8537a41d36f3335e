//! Tags of pages that a purge has dropped, until the index of tags forgets them: many at once cost far less than each by
//! itself.
//!
//! Meanwhile the index may name entries that have a tag no more, which who looks for pages tests anyhow. A page that comes
//! meanwhile stays in it: whether an entry has a tag is asked under the lock of the pair, and who stores a page makes it a
//! variant before he tells the index.

use std::sync::Arc;

use crate::entry::Entry;
use crate::tags::TagHash;
use crate::zone::Zone;

/// What the index of tags is to forget.
#[derive(Default)]
pub(crate) struct Untagged {
    entries: Vec<Arc<Entry>>,
    /// A tag, the hash of an entry, and its place in `entries`.
    pairs: Vec<(TagHash, u64, u32)>,
}

impl Untagged {
    /// Notes that an entry has the tags `now` instead of `before`, of which these are a part. Both are sorted.
    pub(crate) fn add(&mut self, entry: &Arc<Entry>, before: &[TagHash], now: &[TagHash]) {
        let Ok(at) = u32::try_from(self.entries.len()) else { return };
        let gone = before.iter().filter(|tag| now.binary_search(tag).is_err());
        self.pairs.extend(gone.map(|tag| (*tag, entry.shelf_hash(), at)));
        self.entries.push(Arc::clone(entry));
    }

    /// Whether there are so many that they are to be forgotten before more come.
    pub(crate) fn is_full(&self) -> bool {
        self.pairs.len() >= PAIRS_MAX || self.entries.len() >= PAIRS_MAX
    }
}

impl Zone {
    /// Has the index of tags forget what is in `untagged`, which is empty then.
    pub(crate) fn settle_tags(&self, untagged: &mut Untagged) {
        let Untagged { entries, pairs } = std::mem::take(untagged);
        let has = |at: u32, tag| entries.get(at as usize).is_some_and(|entry| entry.has_tag(tag));
        self.tags().remove_all(&pairs, has);
        // Another one may have come in its place, with the same hash.
        for gone in entries.iter().filter(|entry| entry.is_gone()) {
            self.memory().shelf().all_at(gone.shelf_hash()).iter().for_each(|entry| entry.note_tags_again());
        }
    }
}

/// So many pairs are forgotten at once: 2 MB.
const PAIRS_MAX: usize = 1 << 16;
