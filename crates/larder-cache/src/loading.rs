//! Loading a page from disk into memory: one request reads, the others wait for it.

use std::cmp::Reverse;
use std::iter;
use std::sync::Arc;

use larder_store::{Stored, StoredBody};
use tokio::sync::Notify;

use crate::bans::Tested;
use crate::entry::Entry;
use crate::object::Object;
use crate::shelves::{Copies, FoundOn, head, together};
use crate::zone::Zone;
use larder_store::Body;

/// A page on disk that has to be waited for. Afterwards, look up again.
pub struct Loading {
    pub(crate) reading: Reading,
    /// What the disks have, if this request reads it.
    pub(crate) found: Option<FoundOn>,
}

/// A read of what the disks have under a key.
pub(crate) struct Reading {
    pub(crate) zone: Arc<Zone>,
    pub(crate) entry: Arc<Entry>,
    pub(crate) over: Arc<Notify>,
    /// Whether this request reads, or waits for another that does.
    pub(crate) is_mine: bool,
}

impl Loading {
    /// Waits until the pages on disk are in memory. If it is dropped before that, the next request reads.
    pub async fn run(self) {
        let Self { reading, found } = self;
        match found {
            Some(found) => {
                let newest_ban = found.newest_ban;
                let stored = found.read(reading.entry.key_bytes()).await;
                reading.zone.install(&reading, stored, newest_ban);
            }
            None => reading.wait().await,
        }
    }
}

impl Reading {
    async fn wait(&self) {
        let over = self.over.notified();
        tokio::pin!(over);
        // Enabled before the check, so that an end in between is not missed.
        over.as_mut().enable();
        if self.entry.is_being_read(&self.over) {
            over.await;
        }
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        if self.is_mine {
            self.entry.end_reading(&self.over);
            self.over.notify_waiters();
            self.entry.remove_permit();
        }
    }
}

impl Zone {
    /// Makes the pages that were read variants, as far as there is room in memory. They are tested by the bans since they
    /// were written, and by those since `newest_ban`, which was the newest before they were read. A page before a ban that
    /// another thread is taking over is left out.
    pub(crate) fn install(self: &Arc<Self>, reading: &Reading, stored: Vec<Stored>, newest_ban: u64) {
        let entry = &reading.entry;
        // The shelves may have read bans meanwhile.
        let knows_bans = self.knows_bans();
        let is_judged = |page: &Copies| knows_bans || page.0.first_ban != Some(0);
        let pages = together(stored).into_iter().filter(is_judged);
        let mut objects: Vec<Arc<Object>> = pages.filter_map(|page| self.object_of(entry, page, newest_ban)).collect();
        // By this time, and not by position: a page that was copied to a new segment or another disk is no newer for
        // that.
        objects.sort_by_key(|object| Reverse(object.stored_at));
        self.counts.loaded.fetch_add(objects.len() as u64, std::sync::atomic::Ordering::Relaxed);
        entry.install_read(&reading.over, objects);
        self.reweigh(entry);
    }

    fn object_of(self: &Arc<Self>, entry: &Arc<Entry>, page: Copies, newest_ban: u64) -> Option<Arc<Object>> {
        let (stored, copies) = page;
        let tested = self.tested_before(stored.first_ban, newest_ban)?;
        let body = match stored.body {
            StoredBody::Memory(bytes) => {
                let room = self.reserve(bytes.len())?;
                Body::of(bytes, Some(room))
            }
            StoredBody::Disk(body) => Body::on_disk(iter::once(body).chain(copies)),
        };
        let mut object = head::decode(&stored.head, body).filter(|object| object.body.is_stored())?;
        object.hold.tested = Tested::by(tested);
        Some(self.charged(entry, object))
    }
}

impl std::fmt::Debug for Loading {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Loading").field("reads", &self.reading.is_mine).finish_non_exhaustive()
    }
}
