//! Opening a shelf: the lock, the superblock, and the tables of its segments.

use std::collections::HashSet;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Writer;
use super::note::DEBT_FILE;
use super::scan::{read_rows, scan};
use crate::disk::bans::{BANS_FILE, BANS_FILE_NEW};
use crate::disk::files::{Files, OpenFile};
use crate::disk::footer::{BLOCK, Row, SegmentHeader, encode_footer, is_segment};
use crate::disk::health::{DiskEvent, DiskState};
use crate::disk::record::Kind;
use crate::disk::segment::{Segment, sequence_in};
use crate::disk::space::{charged_for, segment_bytes};
use crate::disk::superblock::{SUPERBLOCK_BYTES, Superblock};
use crate::disk::user;

/// The file with the superblock.
pub(in crate::disk) const SHELF_FILE: &str = "larder.shelf";
/// Its name until it is complete.
const SHELF_FILE_NEW: &str = "larder.shelf.new";
/// A file of this name in the folder asks the shelf to remove everything. The shelf deletes it when that is done.
pub const CLEAR_FILE: &str = "larder.clear";
/// This file says that removals were lost, so that no page in the folder can be trusted.
pub(super) const OWED_FILE: &str = "larder.removals-lost";

/// What a cluster keeps beside the pages: how far it has read, and what it has to send.
const OF_CLUSTER: [&str; 3] = ["larder.place", "larder.place.new", "larder.unsent"];

/// Whether a name in the folder belongs to a shelf.
fn is_ours(name: &str) -> bool {
    matches!(name, SHELF_FILE | SHELF_FILE_NEW | CLEAR_FILE | OWED_FILE | BANS_FILE | BANS_FILE_NEW | DEBT_FILE)
        || OF_CLUSTER.contains(&name)
        || sequence_in(name).is_some()
}

/// Why a shelf is not open.
enum NotOpen {
    /// Another process uses it.
    InUse,
    Failed(String),
}

impl From<io::Error> for NotOpen {
    fn from(error: io::Error) -> Self {
        let mend = match error.kind() {
            io::ErrorKind::PermissionDenied => format!("; give it and its files to larder's user {}", user::own()),
            _ => String::new(),
        };
        Self::Failed(format!("it cannot be opened ({error}){mend}{TRIED_AGAIN}"))
    }
}

/// Explains why the folder could not be made.
fn not_made(error: io::Error) -> NotOpen {
    if error.kind() != io::ErrorKind::PermissionDenied {
        return error.into();
    }
    NotOpen::Failed(format!(
        "it cannot be made ({error}); make it for larder's user {}, or make its parent writable for that user, or, \
         where larder was started as root, reload{TRIED_AGAIN}",
        user::own()
    ))
}

/// The content of the folder.
struct Folder {
    /// Sequences of segments, ascending.
    segments: Vec<u64>,
    has_foreign: bool,
    is_to_clear: bool,
    has_owed: bool,
}

impl Writer {
    /// Opens the folder, for the first time or again. The state says whether it worked.
    pub(super) fn open_shelf(&mut self) {
        let shared = Arc::clone(&self.shared);
        let was = shared.health.state();
        match self.try_open() {
            Ok((records, segments)) => {
                self.note_home();
                shared.health.set(DiskState::Serving);
                shared.health.recover();
                shared.health.say(DiskEvent::Opened { dir: shared.dir.clone(), records, segments });
                self.settle_bans();
                self.save_due_bans();
                self.write_owed();
            }
            Err(NotOpen::InUse) => {
                shared.health.set(DiskState::Waiting);
                if was != DiskState::Waiting {
                    shared.health.say(DiskEvent::Waiting { dir: shared.dir.clone() });
                }
            }
            Err(NotOpen::Failed(why)) => {
                self.lock = None;
                shared.forget();
                shared.health.worsen(DiskState::Out, shared.units.now(), &why);
            }
        }
        if shared.health.state() != DiskState::Waiting {
            std::mem::take(&mut self.bans_awaited).into_iter().for_each(|told| self.tell_kept(told));
        }
    }

    /// If readers have taken the shelf out, the writer closes it too.
    pub(super) fn leave_if_out(&mut self) {
        if self.shared.health.state() == DiskState::Out && self.lock.is_some() {
            self.await_write();
            self.open = None;
            self.lose_batch();
            self.unsynced_since = None;
            self.lock = None;
            self.shared.forget();
            // Tombstones of the batch.
            self.mark_owed();
        }
    }

    fn try_open(&mut self) -> Result<(u64, usize), NotOpen> {
        let shared = Arc::clone(&self.shared);
        self.leave_if_out();
        shared.files.make_dir(&shared.dir).map_err(not_made)?;
        let disk_bytes = shared.files.room(&shared.dir)?.total;
        let told = segment_bytes(shared.limits().bytes_max, disk_bytes, None).unwrap_or(0);
        let (lock, superblock) = self.acquire(told)?;
        shared.id.store(superblock.id, Ordering::Relaxed);
        shared.seed.store(superblock.seed, Ordering::Relaxed);
        shared.segment_bytes.store(superblock.segment_bytes, Ordering::Relaxed);
        self.settle_segment_bytes();
        self.lock = Some(lock);
        self.faults_in_row = 0;
        self.full_until = 0;
        shared.health.set(DiskState::Opening);
        // The process before us may have been killed between an unlink and the sync of the folder. That file is not
        // seen here, but a power cut may bring it back.
        self.is_unlink_unsynced = true;
        let folder = self.look(true)?;
        self.next_sequence = self.next_sequence.max(folder.segments.last().map_or(1, |last| last + 1));
        let are_bans_known = self.load_bans()?;
        // Removals that this process owes need no clear: it knows them, and writes them.
        if !are_bans_known || folder.is_to_clear || self.clears_due > 0 || folder.has_owed && !self.is_owed_marked {
            self.find_segments(&folder.segments)?;
            self.clear_folder()?;
            // Left by a process that has ended and could not write its removals.
            let _ = shared.files.unlink(&shared.dir.join(OWED_FILE));
            self.cleared();
            return Ok((0, 0));
        }
        self.find_segments(&folder.segments)?;
        // Nobody else has these segments open now, so each evicted one gives its room back at once.
        self.keep_limits();
        self.load(&shared.live.all())
    }

    /// The lock on the folder, and its superblock, which is made if there is none.
    fn acquire(&mut self, segment_bytes: u64) -> Result<(Box<dyn Send + Sync>, Superblock), NotOpen> {
        let (files, dir) = (Arc::clone(&self.shared.files), self.shared.dir.clone());
        let path = dir.join(SHELF_FILE);
        match files.lock(&path, false) {
            Ok(None) => Err(NotOpen::InUse),
            Ok(Some(lock)) => match Superblock::parse(&read_start(&*files, &path)?) {
                Ok(superblock) => Ok((lock, superblock)),
                Err(fault) => {
                    let reason = format!("{SHELF_FILE} cannot be used, because {fault}");
                    if self.look(false)?.has_foreign {
                        return Err(NotOpen::Failed(format!(
                            "{reason}, and the folder has other files too, so that nothing is touched; delete the \
                             segment files and {SHELF_FILE}, or use another folder"
                        )));
                    }
                    self.begin(segment_bytes, Some(reason))
                }
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.begin(segment_bytes, None),
            Err(error) => Err(error.into()),
        }
    }

    /// Makes the folder a new shelf, and deletes the segments of an older one.
    fn begin(
        &mut self,
        segment_bytes: u64,
        reason: Option<String>,
    ) -> Result<(Box<dyn Send + Sync>, Superblock), NotOpen> {
        let (files, dir) = (Arc::clone(&self.shared.files), self.shared.dir.clone());
        let (path, new) = (dir.join(SHELF_FILE), dir.join(SHELF_FILE_NEW));
        // Locked before it gets its name, so that a process which sees the name also sees the lock.
        let Some(lock) = files.lock(&new, true)? else { return Err(NotOpen::InUse) };
        if reason.is_none() && files.open(&path).is_ok() {
            // Another process was faster; the next try finds its shelf.
            return Err(NotOpen::InUse);
        }
        let folder = self.look(false)?;
        self.next_sequence = self.next_sequence.max(folder.segments.last().map_or(1, |last| last + 1));
        let mut are_lost = false;
        for sequence in &folder.segments {
            let segment = dir.join(crate::disk::segment::segment_name(*sequence));
            let start = read_start(&*files, &segment)?;
            if is_segment(&start) || start.iter().all(|byte| *byte == 0) {
                files.unlink(&segment)?;
                are_lost = true;
            }
        }
        let reason = reason.or_else(|| are_lost.then(|| "its larder.shelf was deleted".to_owned()));
        let superblock = Superblock { id: files.random(), seed: files.random(), segment_bytes };
        let file = files.open_to_extend(&new)?;
        file.write_at(&superblock.encode(), 0)?;
        file.sync()?;
        files.rename(&new, &path)?;
        files.sync_dir(&dir)?;
        if let Some(reason) = reason {
            self.shared.health.say(DiskEvent::Afresh { dir, reason });
        }
        Ok((lock, superblock))
    }

    /// Lists the folder, and reports files in it that are not ours.
    fn look(&mut self, is_to_say: bool) -> io::Result<Folder> {
        let dir = self.shared.dir.clone();
        let mut folder = Folder { segments: Vec::new(), has_foreign: false, is_to_clear: false, has_owed: false };
        let (mut names, mut example) = (0, String::new());
        for listed in self.shared.files.list(&dir)? {
            let name = listed.name.to_str().filter(|name| listed.is_file && is_ours(name));
            match name {
                Some(name) => {
                    folder.is_to_clear |= name == CLEAR_FILE;
                    folder.has_owed |= name == OWED_FILE;
                    if name == DEBT_FILE {
                        // Left by a process that was killed.
                        self.noted.get_or_insert_default();
                    }
                    folder.segments.extend(sequence_in(name));
                }
                None => {
                    names += 1;
                    example = listed.name.to_string_lossy().into_owned();
                }
            }
        }
        folder.segments.sort_unstable();
        folder.has_foreign = names > 0;
        if names > 0 && is_to_say && !self.is_foreign_said {
            self.is_foreign_said = true;
            self.shared.health.say(DiskEvent::Foreign { dir, names, example });
        }
        Ok(folder)
    }

    /// Registers the segments of this shelf, oldest first, and deletes unfinished ones.
    fn find_segments(&mut self, sequences: &[u64]) -> io::Result<()> {
        let shared = Arc::clone(&self.shared);
        for &sequence in sequences {
            let path = shared.dir.join(crate::disk::segment::segment_name(sequence));
            let file = match shared.files.open(&path) {
                Ok(file) => file,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            let mut block = vec![0; BLOCK];
            let read = file.read_at(&mut block, 0)?;
            block.truncate(read);
            let header = SegmentHeader::parse(&block)
                .filter(|header| header.shelf == shared.id() && header.sequence == sequence)
                .filter(|header| header.bytes <= crate::disk::space::SEGMENT_MAX);
            let Some(header) = header else {
                // There was a crash before its first block was written, or it belongs to another shelf and is useless.
                if is_segment(&block) || block.iter().all(|byte| *byte == 0) {
                    drop(file);
                    shared.files.unlink(&path)?;
                    self.is_unlink_unsynced = true;
                }
                continue;
            };
            let charge = shared.space.charge(charged_for(header.bytes.max(file.allocated()?)));
            let segment = Arc::new(Segment::new(
                &shared.dir,
                sequence,
                header.bytes,
                charge,
                &shared.space,
                shared.units.unit(),
                shared.units.now(),
            ));
            if sequences.len() <= OPEN_MAX {
                segment.set_reader(file);
            }
            // The index cannot tell the two apart: the older one is deleted.
            if let Some(other) = shared.live.numbered(segment.number()) {
                self.unlink(&other)?;
                shared.live.remove(&other);
            }
            shared.live.add(&segment);
        }
        Ok(())
    }

    /// Fills the index from the tables, newest first, so that the newest record of a page counts.
    fn load(&mut self, found: &[Arc<Segment>]) -> Result<(u64, usize), NotOpen> {
        let mut removed = HashSet::new();
        for segment in found.iter().rev() {
            match self.rows_or_scan(segment) {
                Ok(rows) => {
                    self.load_rows(segment, &rows, &mut removed);
                }
                Err(error) => {
                    self.shared.counters.read_errors.add(1);
                    if error.raw_os_error() != Some(rustix::io::Errno::IO.raw_os_error()) {
                        return Err(error.into());
                    }
                    // It is unknown what this segment removed or replaced, so nothing older may be found: a removed
                    // page must never be shown. If an older segment cannot be deleted, the later ones stay too, which
                    // may hide its records.
                    let mut is_all_gone = true;
                    for older in found.iter().filter(|older| older.sequence <= segment.sequence) {
                        self.shared.live.remove(older);
                        is_all_gone = is_all_gone && self.unlink(older).is_ok();
                    }
                    break;
                }
            }
        }
        Ok((self.shared.index.len() as u64, self.shared.live.len()))
    }

    fn load_rows(&self, segment: &Arc<Segment>, rows: &[Row], removed: &mut HashSet<(u64, Option<u8>)>) {
        let shared = &self.shared;
        for row in rows.iter().rev() {
            match row.kind {
                Kind::Tombstone => {
                    segment.add_tombstone();
                    removed.insert((row.hash, (!row.is_for_all).then_some(row.variant)));
                }
                Kind::Slice => segment.lasts_until(row.expires_at),
                Kind::Page | Kind::Spans => {
                    if removed.contains(&(row.hash, None)) || removed.contains(&(row.hash, Some(row.variant))) {
                        continue;
                    }
                    segment.lasts_until(row.expires_at);
                    let slot = shared.slot(segment, row.variant, row.offset, row.len);
                    let newer = shared.index.put_if_absent(row.hash, &slot);
                    if let Some(newer) = newer.and_then(|newer| shared.live.numbered(newer.number)) {
                        newer.set_covers();
                    }
                }
            }
        }
    }

    /// The table of a segment. If it has none, the records are scanned, and the segment is sealed if possible.
    fn rows_or_scan(&mut self, segment: &Arc<Segment>) -> io::Result<Vec<Row>> {
        let shared = Arc::clone(&self.shared);
        let file = segment.reader(&*shared.files)?;
        // A table that cannot be read may have records that can.
        if let Ok(Some(rows)) = read_rows(&**file, shared.id(), segment.sequence, segment.bytes) {
            return Ok(rows);
        }
        let mut rows = Vec::new();
        scan(
            &**file,
            shared.id(),
            segment.sequence,
            segment.bytes,
            |key| shared.hash(key),
            |row, _, _| rows.push(row),
        )?;
        if self.seal_again(segment, &rows).is_err() {
            // It is scanned again the next time.
            segment.keep_rows(rows.clone());
        }
        Ok(rows)
    }

    fn seal_again(&self, segment: &Segment, rows: &[Row]) -> io::Result<()> {
        let end = rows.last().map_or(BLOCK, |row| (row.offset + row.len) as usize);
        let footer = encode_footer(segment.bytes as usize, self.shared.id(), segment.sequence, rows)
            .filter(|footer| segment.bytes as usize - footer.len() >= end.next_multiple_of(BLOCK))
            .ok_or(io::ErrorKind::StorageFull)?;
        let file = self.shared.files.open_to_extend(&segment.path)?;
        file.sync()?;
        file.write_at(&footer, segment.bytes - footer.len() as u64)?;
        file.sync()
    }
}

/// The first block of a file.
fn read_start(files: &dyn Files, path: &Path) -> io::Result<Vec<u8>> {
    let mut block = vec![0; SUPERBLOCK_BYTES];
    let file: Arc<dyn OpenFile> = files.open(path)?;
    let read = file.read_at(&mut block, 0)?;
    block.truncate(read);
    Ok(block)
}

const TRIED_AGAIN: &str = "; it is left out and tried again every 10 s";

/// With more segments than this, files are only opened when they are first read.
const OPEN_MAX: usize = 4096;
