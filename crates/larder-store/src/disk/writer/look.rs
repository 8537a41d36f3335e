//! Notices when an operator empties the folder or deletes a segment, which is how many sites purge. The zone is then
//! told to drop its pages in memory. A folder's time of change shows whether names were added or removed, so a look
//! costs one system call.

use std::collections::HashSet;
use std::io;
use std::path::Path;
use std::sync::Arc;

use super::Writer;
use super::evict::Reason;
use super::load::SHELF_FILE;
use crate::disk::files::Stamp;
use crate::disk::health::{DiskEvent, DiskState};
use crate::disk::keys::KeySet;
use crate::disk::record::Kind;
use crate::disk::segment::{Segment, sequence_in};

/// What was seen of the folder at the last look.
#[derive(Default)]
pub(super) struct Seen {
    stamp: Option<Stamp>,
    /// At how many more looks the folder has to be listed.
    listings_due: u32,
    /// When it was last listed, in seconds.
    listed_at: u64,
}

impl Writer {
    /// Looks whether somebody has deleted files of this shelf.
    pub(super) fn look_around(&mut self) {
        if self.lock.is_none() || !self.shared.health.reads() {
            return;
        }
        let shared = Arc::clone(&self.shared);
        let stamp = match shared.files.stamp(&shared.dir) {
            Ok(stamp) => stamp,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.is_folder_gone = true;
                return;
            }
            // If the disk cannot say, the next look asks again.
            Err(_) => None,
        };
        if stamp.is_some() && stamp != self.seen.stamp {
            self.seen.listings_due = LISTINGS_AFTER_CHANGE;
        }
        let before = std::mem::replace(&mut self.seen.stamp, stamp);
        let now = shared.units.now();
        if self.seen.listings_due == 0 && now.abs_diff(self.seen.listed_at) < LISTING_SECONDS {
            return;
        }
        self.seen.listings_due = self.seen.listings_due.saturating_sub(1);
        self.seen.listed_at = now;
        let Ok(listed) = shared.files.list(&shared.dir) else { return };
        // Without this file, another process would find no lock, and segments that it does not know.
        if self.is_deleted(&shared.dir.join(SHELF_FILE)) {
            self.is_folder_gone = true;
            // Another disk was mounted over it, or it was unmounted: that is no purge.
            self.is_unmounted = before.zip(stamp).is_some_and(|(before, now)| before.device != now.device);
            return;
        }
        let named: HashSet<u64> = listed.iter().filter_map(|listed| sequence_in(listed.name.to_str()?)).collect();
        let all = shared.live.all();
        // Checked by its name too, because a listing of a network file system may be incomplete.
        let is_deleted = |segment: &&Arc<Segment>| !named.contains(&segment.sequence) && self.is_deleted(&segment.path);
        let deleted: Vec<_> = all.iter().filter(is_deleted).cloned().collect();
        if deleted.len() == all.len() {
            self.is_folder_gone = !deleted.is_empty();
        } else if !deleted.is_empty() {
            self.drop_deleted(&deleted);
        }
    }

    /// Drops segments whose files were deleted (open ones could still be read), and reports the keys of their pages.
    fn drop_deleted(&mut self, deleted: &[Arc<Segment>]) {
        let mut hashes = Some(HashSet::new());
        for segment in deleted {
            if self.is_open(segment) {
                self.seal();
            }
            let rows = self.rows_of(segment);
            // A page may have slices here that do not say whose they are; the body of such a page is in no memory.
            let of_pages = rows.map(|rows| rows.into_iter().filter(|row| row.kind != Kind::Tombstone && row.hash != 0));
            hashes = hashes.zip(of_pages).map(|(mut hashes, rows)| {
                hashes.extend(rows.map(|row| row.hash));
                hashes
            });
            self.evict(segment, Reason::Useless);
        }
        let shared = &self.shared;
        let keys = KeySet::new(shared.seed(), hashes);
        shared.health.say(DiskEvent::Deleted { dir: shared.dir.clone(), segments: deleted.len(), keys });
    }

    fn is_deleted(&self, path: &Path) -> bool {
        self.shared.files.open(path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
    }

    /// Forgets a folder that is no longer a shelf, and makes it a shelf again.
    ///
    /// From here on nothing older is found. The zone drops its pages in memory when it is told, and the queued ones
    /// with them. So pages that are stored after that stay, and none before it.
    pub(super) fn begin_anew(&mut self) {
        self.is_folder_gone = false;
        let is_unmounted = std::mem::take(&mut self.is_unmounted);
        let shared = Arc::clone(&self.shared);
        if shared.health.state() == DiskState::Stopped {
            return;
        }
        self.await_write();
        self.open = None;
        self.lock = None;
        // New pages wait until it is open.
        shared.health.set(DiskState::Opening);
        self.lose_batch();
        shared.forget();
        self.done_with_all();
        self.forget_bans();
        self.seen = Seen::default();
        let dir = shared.dir.clone();
        shared.health.say(match is_unmounted {
            true => DiskEvent::Afresh { dir, reason: "another file system is in the place of its own".to_owned() },
            false => DiskEvent::Emptied { dir },
        });
        self.open_shelf();
    }
}

/// How often the folder is listed if the file system does not report changes.
const LISTING_SECONDS: u64 = 60;
/// After a change, the folder is listed at this many looks. Of several changes within a short time (two seconds on some
/// file systems), the time of change may only show one.
const LISTINGS_AFTER_CHANGE: u32 = 4;
