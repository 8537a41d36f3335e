//! Counts the bytes that a shelf takes on its disk, so that `max_size` and `min_free` are never exceeded.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;

use super::files::{Files, OpenFile};
use super::superblock::SUPERBLOCK_BYTES;

/// How much of its disk a shelf may take, and how long it keeps unused pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskLimits {
    /// The most that the files of the shelf and its folder may take, as `du` counts. `None`: no limit.
    pub bytes_max: Option<u64>,
    /// How many bytes the shelf leaves free on the file system.
    pub free_min: u64,
    /// Pages that were not used for so long are dropped.
    pub inactive: Duration,
}

/// The bytes that segments and bans take. A file counts from before it is made until its last descriptor is closed.
#[derive(Default)]
pub(super) struct Space {
    used: AtomicU64,
    /// Deleted files that are still being sent from.
    lingering: Mutex<Vec<(Weak<File>, Charge)>>,
}

/// The bytes of one file. Dropping it gives them back.
pub(super) struct Charge {
    space: Arc<Space>,
    bytes: u64,
}

/// Why a segment or another file was not made.
#[derive(Debug)]
pub(super) enum NoSegment {
    /// The limits leave no room for it now.
    NoRoom,
    Failed(io::Error),
}

impl Space {
    /// The bytes that count.
    pub(super) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// The bytes of deleted files that are still open.
    pub(super) fn lingering(&self) -> u64 {
        self.reap();
        self.lingering.lock().iter().map(|(_, charge)| charge.bytes).sum()
    }

    /// Counts an existing file.
    pub(super) fn charge(self: &Arc<Self>, bytes: u64) -> Charge {
        self.used.fetch_add(bytes, Ordering::Relaxed);
        Charge { space: Arc::clone(self), bytes }
    }

    /// Makes a file, for a segment or for bans, if the limits leave room for all of it.
    ///
    /// It holds one lock for the process, because shelves may share a file system. Other programs may write to it
    /// meanwhile; so it checks the limits again after it has allocated the room.
    pub(super) fn create(
        self: &Arc<Self>,
        files: &dyn Files,
        path: &Path,
        bytes: u64,
        limits: &DiskLimits,
    ) -> Result<(Arc<dyn OpenFile>, Charge), NoSegment> {
        let dir = path.parent().unwrap_or(Path::new("."));
        let _alone = ONE_AT_A_TIME.lock();
        self.reap();
        let charged = charged_for(bytes);
        if !self.fits(files, dir, charged, limits).map_err(NoSegment::Failed)? {
            return Err(NoSegment::NoRoom);
        }
        let file = files.create(path).map_err(NoSegment::Failed)?;
        // Counted from here on; dropping it gives the bytes back on every return.
        let mut charge = self.charge(charged);
        let made = file.allocate(bytes).and_then(|()| {
            let real = charged_for(file.allocated()?);
            if real > charged {
                charge = self.charge(real);
            }
            self.fits(files, dir, 0, limits)
        });
        match made {
            Ok(true) => Ok((file, charge)),
            Ok(false) => {
                drop(file);
                files.unlink(path).map_err(NoSegment::Failed)?;
                Err(NoSegment::NoRoom)
            }
            Err(error) => {
                drop(file);
                // The first error says more than an error of this call.
                let _ = files.unlink(path);
                Err(NoSegment::Failed(error))
            }
        }
    }

    /// Whether the limits hold when `more` bytes are taken.
    pub(super) fn fits(&self, files: &dyn Files, dir: &Path, more: u64, limits: &DiskLimits) -> io::Result<bool> {
        if let Some(max) = limits.bytes_max {
            let wanted = self.used() + more + files.dir_bytes(dir)? + SUPERBLOCK_BYTES as u64 + FOLDER_MARGIN;
            if wanted > max {
                return Ok(false);
            }
        }
        if limits.free_min == 0 && more == 0 {
            return Ok(true);
        }
        Ok(files.room(dir)?.free >= limits.free_min.saturating_add(more))
    }

    /// Takes the file of a deleted segment: its bytes count until the last reader has closed it.
    pub(super) fn close(&self, file: Option<Arc<dyn OpenFile>>, charge: Charge) {
        let sendable = file.as_ref().and_then(|file| file.file().cloned());
        drop(file);
        if let Some(sendable) = sendable {
            let weak = Arc::downgrade(&sendable);
            drop(sendable);
            if weak.strong_count() > 0 {
                self.lingering.lock().push((weak, charge));
            }
        }
    }

    /// Gives back the bytes of deleted files that are closed by now.
    fn reap(&self) {
        self.lingering.lock().retain(|(file, _)| file.strong_count() > 0);
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.space.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// What a file of `bytes` counts for.
pub(super) fn charged_for(bytes: u64) -> u64 {
    bytes + SEGMENT_MARGIN
}

/// The size of new segments: `told` by an existing shelf, or derived from the limit. `None` if the limit is too small.
pub(super) fn segment_bytes(bytes_max: Option<u64>, disk_bytes: u64, told: Option<u64>) -> Option<u64> {
    let told = told.map(|told| told.clamp(SEGMENT_MIN, SEGMENT_MAX).next_power_of_two());
    let Some(max) = bytes_max else {
        let size = (disk_bytes / UNLIMITED_SHARE).max(1).next_power_of_two();
        return Some(told.unwrap_or(size.clamp(UNLIMITED_MIN, SEGMENT_MAX)));
    };
    let power_below = |bytes: u64| 1_u64 << bytes.max(1).ilog2();
    let most = power_below(max / SEGMENTS_MIN);
    if most < SEGMENT_MIN {
        return None;
    }
    let wanted = (max / SEGMENTS_WANTED).max(1).next_power_of_two().clamp(SEGMENT_USUAL_MIN, SEGMENT_MAX);
    // An old size stays, unless the limit has changed very much.
    Some(told.filter(|told| max / told <= SEGMENTS_WANTED * 8).unwrap_or(wanted).min(most))
}

/// What a file system may take for one file beside its bytes: its extents, and its name in the folder.
const SEGMENT_MARGIN: u64 = 8 * 1024;
/// What the folder may grow by, and the small files of the shelf.
const FOLDER_MARGIN: u64 = 8 * 1024;
/// How many segments share a `max_size`. Fewer would evict more at once; more would slow the disk down, because each
/// segment costs a new file and several syncs.
const SEGMENTS_WANTED: u64 = 64;
/// Without a limit, a segment is one part in this many of the file system.
const UNLIMITED_SHARE: u64 = 4096;
const SEGMENTS_MIN: u64 = 8;
const SEGMENT_MIN: u64 = 64 * 1024;
const SEGMENT_USUAL_MIN: u64 = 256 * 1024;
const UNLIMITED_MIN: u64 = 16 << 20;
pub(super) const SEGMENT_MAX: u64 = 64 << 20;

/// Held from the check for room until the room is taken, for all shelves of the process.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_are_sized_by_the_limit() {
        let (kb, mb, gb) = (1 << 10, 1 << 20, 1 << 30);
        for (max, disk, told, size) in [
            (Some(mb), gb, None, Some(128 * kb)),
            (Some(600 * kb), gb, None, Some(64 * kb)),
            (Some(511 * kb), gb, None, None),
            (Some(0), gb, None, None),
            (Some(10 * mb), gb, None, Some(256 * kb)),
            (Some(gb), gb, None, Some(16 * mb)),
            (Some(10 * gb), gb, None, Some(64 * mb)),
            (Some(1000 * gb), gb, None, Some(64 * mb)),
            (Some(gb), gb, Some(4 * mb), Some(4 * mb)),
            (Some(gb), gb, Some(64 * kb), Some(16 * mb)),
            (Some(mb), gb, Some(4 * mb), Some(128 * kb)),
            (None, gb, None, Some(16 * mb)),
            (None, 100 * gb, None, Some(32 * mb)),
            (None, 10_000 * gb, None, Some(64 * mb)),
        ] {
            assert_eq!(segment_bytes(max, disk, told), size, "{max:?} {disk} {told:?}");
        }
    }
}
