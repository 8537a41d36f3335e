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
    /// The folder when it was last seen to be this shelf.
    home: Option<Stamp>,
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
        self.seen.stamp = stamp;
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
            return;
        }
        let named: HashSet<u64> = listed.iter().filter_map(|listed| sequence_in(listed.name.to_str()?)).collect();
        let all = shared.live.all();
        // Checked by its name too, because a listing of a network file system may be incomplete.
        let is_deleted = |segment: &&Arc<Segment>| !named.contains(&segment.sequence) && self.is_deleted(&segment.path);
        let deleted: Vec<_> = all.iter().filter(is_deleted).cloned().collect();
        if !all.is_empty() && deleted.len() == all.len() {
            // Perhaps it is another shelf's folder: that of a disk which was mounted over it.
            self.is_folder_gone = true;
            return;
        }
        self.seen.home = stamp.or(self.seen.home);
        if !deleted.is_empty() {
            self.drop_deleted(&deleted);
        }
    }

    /// Notes where the folder is, which has just been opened.
    pub(super) fn note_home(&mut self) {
        self.seen.home = self.shared.files.stamp(&self.shared.dir).ok().flatten();
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
        let home = std::mem::take(&mut self.seen).home;
        shared.health.say(self.what_happened(home));
        self.open_shelf();
    }

    /// What became of a folder that was a shelf at `home`. Another disk that was mounted over it, or its own that was unmounted, is
    /// no purge.
    fn what_happened(&self, home: Option<Stamp>) -> DiskEvent {
        let (files, dir) = (&self.shared.files, &self.shared.dir);
        let mut found = dir.ancestors().map(|dir| files.stamp(dir)).enumerate();
        // A folder that is gone may have been behind a link, or on a disk that was mounted above it.
        let is_there =
            |stamp: &io::Result<_>| !stamp.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
        let found = found.find(|(_, stamp)| is_there(stamp));
        let (is_itself, now) = found.map_or((false, None), |(above, stamp)| (above == 0, stamp.ok().flatten()));
        let is_in_place = home.zip(now).map(|(home, now)| now.is_in_place_of(&home));
        let dir = dir.clone();
        match is_in_place {
            Some(false) if is_itself => {
                DiskEvent::Afresh { dir, reason: "another file system is in the place of its own".to_owned() }
            }
            is_in_place => DiskEvent::Emptied { dir, is_in_place: is_in_place == Some(true) },
        }
    }
}

/// How often the folder is listed if the file system does not report changes.
const LISTING_SECONDS: u64 = 60;
/// After a change, the folder is listed at this many looks. Of several changes within a short time (two seconds on some
/// file systems), the time of change may only show one.
const LISTINGS_AFTER_CHANGE: u32 = 4;
