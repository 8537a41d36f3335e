//! What others do to the folder: it is emptied, or a segment is deleted, by hand.
//!
//! That is how many purge, so whoever keeps pages in memory is told. A folder notes when names in it came or went, so that
//! a look costs one call.

use std::collections::HashSet;
use std::io;
use std::path::Path;
use std::sync::Arc;

use super::Writer;
use super::load::SHELF_FILE;
use crate::disk::files::Stamp;
use crate::disk::health::{DiskEvent, DiskState};
use crate::disk::keys::KeySet;
use crate::disk::record::Kind;
use crate::disk::segment::{Segment, sequence_in};

/// What is known of the folder.
#[derive(Default)]
pub(super) struct Seen {
    stamp: Option<Stamp>,
    /// The folder is to be listed with as many looks.
    listings_due: u32,
    /// When it was last listed, in seconds as told.
    listed_at: u64,
}

impl Writer {
    /// Looks whether somebody else took away what is ours.
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
            // A disk that cannot say is looked at again.
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
        // A successor would find no lock, and segments that it does not know.
        if self.is_deleted(&shared.dir.join(SHELF_FILE)) {
            self.is_folder_gone = true;
            // Another disk in its place, or none: nobody purged anything.
            self.is_unmounted = before.zip(stamp).is_some_and(|(before, now)| before.device != now.device);
            return;
        }
        let named: HashSet<u64> = listed.iter().filter_map(|listed| sequence_in(listed.name.to_str()?)).collect();
        let all = shared.live.all();
        // Looked for by its name too: a listing of a network file system may leave out what is there.
        let is_deleted = |segment: &&Arc<Segment>| !named.contains(&segment.sequence) && self.is_deleted(&segment.path);
        let deleted: Vec<_> = all.iter().filter(is_deleted).cloned().collect();
        if deleted.len() == all.len() {
            self.is_folder_gone = !deleted.is_empty();
        } else if !deleted.is_empty() {
            self.drop_deleted(&deleted);
        }
    }

    /// Lets go of segments whose files were deleted, which could be read until they are closed, and says whose pages that
    /// concerns.
    fn drop_deleted(&mut self, deleted: &[Arc<Segment>]) {
        let mut hashes = Some(HashSet::new());
        for segment in deleted {
            if self.is_open(segment) {
                self.seal();
            }
            let rows = self.rows_of(segment);
            // Of a page in slices any may be here. Where they do not say whose they are, its body is in no memory.
            let of_pages = rows.map(|rows| rows.into_iter().filter(|row| row.kind != Kind::Tombstone && row.hash != 0));
            hashes = hashes.zip(of_pages).map(|(mut hashes, rows)| {
                hashes.extend(rows.map(|row| row.hash));
                hashes
            });
            self.evict(segment, false);
        }
        let shared = &self.shared;
        let keys = KeySet::new(shared.seed(), hashes);
        shared.health.say(DiskEvent::Deleted { dir: shared.dir.clone(), segments: deleted.len(), keys });
    }

    fn is_deleted(&self, path: &Path) -> bool {
        self.shared.files.open(path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
    }

    /// Forgets a folder that is no shelf any more, and makes one of it again.
    ///
    /// Nothing is found from here on that was stored before. Who keeps it in memory drops it when he is told, and wants
    /// nothing of it written then that waits in the queue. So all that comes after that stays, and nothing before it.
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
        // What comes meanwhile waits until it is open.
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

/// How often the folder is listed where it cannot say that it has changed.
const LISTING_SECONDS: u64 = 60;
/// The folder is listed with as many looks after each change: of several within a short time it may note one, and on some
/// file systems that time is two seconds.
const LISTINGS_AFTER_CHANGE: u32 = 4;
