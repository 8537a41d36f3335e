//! Reading a body, while it fills and after.

use std::fmt;
use std::fs::File;
use std::io;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;

use crate::arena::Extent;

use crate::disk::{PinnedBody, Ready};

use super::buffered::Where;
use super::{CHUNK_BYTES, Chunk, End, Fill, Filling, Keep, Now, Shared, Whole, slice_of};

/// What a reader gets at a time.
#[derive(Clone, Debug)]
pub enum Piece {
    /// Bytes in memory; empty only if `max` was zero.
    Data(Bytes),
    /// Bytes in a file.
    File {
        /// The file. The bytes do not change while this is held.
        file: HeldFile,
        /// Where in the file they begin.
        offset: u64,
        /// Their number.
        len: usize,
    },
    /// Nothing yet: the writer has not written more, or a disk has to be waited for.
    Pending,
    /// The end of a complete body.
    End,
    /// The body is incomplete and ends here, for this reason.
    Failed(Arc<str>),
}

/// A file whose bytes do not change while this is held.
#[derive(Clone, Debug)]
pub struct HeldFile(Held);

/// What pins the bytes.
#[derive(Clone, Debug)]
enum Held {
    /// The file itself: it is only ever appended to.
    File(Arc<File>),
    /// Their place in the arena.
    Extent(Arc<Extent>),
    /// Their segment on a disk.
    Disk { file: Arc<File>, _pinned: Arc<PinnedBody> },
}

impl Deref for HeldFile {
    type Target = File;

    fn deref(&self) -> &File {
        match &self.0 {
            Held::File(file) => file,
            Held::Extent(extent) => extent.file(),
            Held::Disk { file, .. } => file,
        }
    }
}

/// A position in a body, from which it is read.
///
/// While an unstored body fills, it keeps the bytes that the reader has not read.
pub struct BodyReader {
    shared: Arc<Shared>,
    at: u64,
    /// Its place among the readers, if the body was not complete when the reader was made.
    place: Option<Place>,
    /// The part on disk that it is reading.
    disk: Option<DiskPart>,
    /// The number of the copy on disk that it reads; those before it could not be read.
    copy: usize,
}

/// A part of a body that is pinned on a disk.
#[derive(Clone)]
struct DiskPart {
    pinned: Arc<PinnedBody>,
    /// The position in the body at which it begins.
    start: u64,
    copy: usize,
}

impl DiskPart {
    fn has(&self, at: u64) -> bool {
        at.checked_sub(self.start).is_some_and(|within| within < self.pinned.len())
    }
}

/// The registration of a reader with a filling body.
struct Place {
    fill: Arc<Fill>,
    number: u64,
}

impl BodyReader {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        let place = match shared.now() {
            Now::Whole(_) | Now::OnDisk(_) => None,
            Now::Fill(fill) => {
                let number = fill.filling.lock().add_reader();
                fill.consumed.notify_waiters();
                Some(Place { fill, number })
            }
        };
        let mut reader = Self { shared, at: 0, place, disk: None, copy: 0 };
        // This pins it.
        reader.disk = reader.whole_on_disk();
        reader
    }

    /// Whether all bytes so far are kept.
    pub fn is_stored(&self) -> bool {
        self.shared.stored.load(Ordering::Acquire)
    }

    /// The position of the next byte.
    pub fn at(&self) -> u64 {
        self.at
    }

    /// Moves to a position; one beyond the end means the end. Moving back works if the bytes are still kept.
    pub fn skip_to(&mut self, position: u64) {
        self.at = position;
        self.note_position();
    }

    /// The next piece of at most `max` bytes; the position moves past it.
    pub fn try_next(&mut self, max: usize) -> Piece {
        let piece = self.peek(max);
        match &piece {
            Piece::Data(data) => self.at += data.len() as u64,
            Piece::File { len, .. } => self.at += *len as u64,
            Piece::Pending | Piece::End | Piece::Failed(_) => return piece,
        }
        self.note_position();
        piece
    }

    /// The next piece of at most `max` bytes, if it is in memory; else the position stays.
    pub fn next_in_memory(&mut self, max: usize) -> Option<Bytes> {
        match self.peek(max) {
            Piece::Data(data) => {
                self.at += data.len() as u64;
                self.note_position();
                Some(data)
            }
            Piece::File { .. } | Piece::Pending | Piece::End | Piece::Failed(_) => None,
        }
    }

    /// Waits for the next piece of at most `max` bytes; never [`Piece::Pending`].
    ///
    /// If it is dropped before it is done, the position has not moved.
    pub async fn next(&mut self, max: usize) -> Piece {
        let mut waits = 0;
        loop {
            match self.try_next(max) {
                Piece::Pending => {}
                piece => return piece,
            }
            if let Some(part) = self.cold_part().cloned() {
                match part.pinned.warm(self.at - part.start).await {
                    Ok(bytes) => match self.try_next(max) {
                        // It has left the page cache again, or this file system cannot say that it is there.
                        Piece::Pending if !bytes.is_empty() => return self.take(bytes, max),
                        Piece::Pending => {}
                        piece => return piece,
                    },
                    Err(error) => {
                        waits += 1;
                        let may_wait = error.kind() == io::ErrorKind::TimedOut && waits < WAITS_MAX;
                        if !self.give_up_copy(&error) && !may_wait {
                            return Piece::Failed(Arc::from(format!("the body cannot be read from its disk: {error}")));
                        }
                    }
                }
                continue;
            }
            let Some(fill) = self.place.as_ref().map(|place| Arc::clone(&place.fill)) else {
                return Piece::End;
            };
            let written = fill.written.notified();
            tokio::pin!(written);
            // Enabled before the second check, so that an append in between is not missed.
            written.as_mut().enable();
            match self.try_next(max) {
                Piece::Pending if self.cold_part().is_some() => {}
                Piece::Pending => written.await,
                piece => return piece,
            }
        }
    }

    /// Takes up to `max` of `bytes`, which are those at its position.
    fn take(&mut self, mut bytes: Bytes, max: usize) -> Piece {
        bytes.truncate(max);
        self.at += bytes.len() as u64;
        self.note_position();
        Piece::Data(bytes)
    }

    fn peek(&mut self, max: usize) -> Piece {
        if let Some(whole) = self.shared.whole.get() {
            return whole.piece_at(self.at, max);
        }
        if let Some(part) = &self.disk
            && part.has(self.at)
        {
            return part.piece_at(self.at, max);
        }
        let Some(place) = &self.place else {
            // Without a place, the body was complete when the reader was made.
            return self.peek_on_disk();
        };
        let filling = place.fill.filling.lock();
        // It may have become complete between the two loads: then its pieces have moved.
        if let Some(whole) = self.shared.whole.get() {
            return whole.piece_at(self.at, max);
        }
        match filling.piece_at(self.at, max) {
            Some(piece) => piece,
            None => {
                let found = filling.offloading.as_ref().and_then(|disks| disks.slice_at(self.at, self.copy));
                drop(filling);
                match found {
                    Some((copy, pinned, start)) => {
                        let part = DiskPart { pinned, start, copy };
                        let piece = part.piece_at(self.at, max);
                        self.disk = Some(part);
                        piece
                    }
                    None => Piece::Failed(Arc::from("the start of the body is no longer kept")),
                }
            }
        }
    }

    /// The next piece beyond the pinned part, for a body that was complete.
    fn peek_on_disk(&self) -> Piece {
        match self.shared.on_disk.get() {
            Some(on_disk) if self.at < on_disk.len => Piece::Failed(Arc::from("the disk has let go of the body")),
            Some(_) | None => Piece::End,
        }
    }

    fn whole_on_disk(&self) -> Option<DiskPart> {
        let (copy, pinned) = self.shared.on_disk.get()?.pin(self.copy)?;
        Some(DiskPart { pinned, start: 0, copy })
    }

    /// The part on disk that has to be read into the page cache before its next piece can be sent.
    fn cold_part(&self) -> Option<&DiskPart> {
        self.disk.as_ref().filter(|part| self.shared.whole.get().is_none() && part.has(self.at))
    }

    /// Goes on with the next copy, because this one cannot be read. False if there is none: then it stays at this one.
    fn give_up_copy(&mut self, error: &io::Error) -> bool {
        let Some(copy) = self.disk.as_ref().map(|part| part.copy) else { return false };
        let next = match &self.place {
            None => {
                let on_disk = self.shared.on_disk.get();
                on_disk.and_then(|on_disk| {
                    on_disk.note_fault(copy, error);
                    let (copy, pinned) = on_disk.pin(copy + 1)?;
                    Some(DiskPart { pinned, start: 0, copy })
                })
            }
            Some(place) => {
                let filling = place.fill.filling.lock();
                let found = filling.offloading.as_ref().and_then(|disks| disks.slice_at(self.at, copy + 1));
                found.map(|(copy, pinned, start)| DiskPart { pinned, start, copy })
            }
        };
        let Some(next) = next else { return false };
        self.copy = next.copy;
        self.disk = Some(next);
        true
    }

    /// Tells the writer how far this reader is, if the body is unstored and still fills.
    fn note_position(&self) {
        let Some(Place { fill, number }) = &self.place else {
            return;
        };
        if self.shared.whole.get().is_some() {
            return;
        }
        let is_offloading = {
            let mut filling = fill.filling.lock();
            filling.move_reader(*number, self.at);
            filling.offloading.is_some()
        };
        if is_offloading || !self.shared.stored.load(Ordering::Acquire) {
            fill.consumed.notify_waiters();
        }
    }
}

impl fmt::Debug for BodyReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BodyReader(at {})", self.at)
    }
}

impl Drop for BodyReader {
    fn drop(&mut self) {
        if let Some(Place { fill, number }) = &self.place {
            fill.filling.lock().remove_reader(*number);
            fill.consumed.notify_waiters();
        }
    }
}

impl Whole {
    /// Up to `max` bytes at `at`, from one part.
    fn piece_at(&self, at: u64, max: usize) -> Piece {
        if at >= self.len {
            return Piece::End;
        }
        let found = match &self.keep {
            Keep::Pieces(pieces) => in_pieces(pieces, at, max),
            Keep::Arena(extents) => in_extents(extents, at, max),
            Keep::Buffered(buffered) => match buffered.place() {
                Where::Heap(pieces) => in_pieces(&pieces, at, max),
                Where::File(extents) => in_extents(extents, at, max),
            },
        };
        // The parts add up to the length.
        found.unwrap_or(Piece::End)
    }
}

fn in_pieces(pieces: &[Bytes], at: u64, max: usize) -> Option<Piece> {
    let mut start = 0;
    pieces.iter().find_map(|piece| {
        let (from, end) = (start, start + piece.len() as u64);
        start = end;
        (at < end).then(|| Piece::Data(slice_of(piece, from, at, max)))
    })
}

fn in_extents(extents: &[Arc<Extent>], at: u64, max: usize) -> Option<Piece> {
    let number = at / CHUNK_BYTES as u64;
    let extent = usize::try_from(number).ok().and_then(|number| extents.get(number));
    extent.map(|extent| in_arena(extent, number * CHUNK_BYTES as u64, at, max))
}

/// Up to `max` bytes from position `at` of a part that begins at `start`. `at` must be inside.
fn in_arena(extent: &Arc<Extent>, start: u64, at: u64, max: usize) -> Piece {
    let from = at - start;
    let len = usize::try_from(extent.len() - from).unwrap_or(usize::MAX).min(max);
    Piece::File { file: HeldFile(Held::Extent(Arc::clone(extent))), offset: extent.offset() + from, len }
}

impl DiskPart {
    /// Up to `max` bytes at `at`; pending if they have to be read into the page cache first.
    fn piece_at(&self, at: u64, max: usize) -> Piece {
        match self.pinned.ready(at - self.start, max.min(DISK_PIECE_BYTES_MAX)) {
            Ready::File { file, offset, len } => {
                Piece::File { file: HeldFile(Held::Disk { file, _pinned: Arc::clone(&self.pinned) }), offset, len }
            }
            Ready::Cold => Piece::Pending,
            Ready::End => Piece::End,
        }
    }
}

impl Filling {
    /// Up to `max` bytes at `at` in memory. `None` if they are on disk, or not kept.
    fn piece_at(&self, at: u64, max: usize) -> Option<Piece> {
        if at >= self.so_far {
            return Some(match &self.end {
                End::Open => Piece::Pending,
                End::Finished => Piece::End,
                End::Failed(reason) => Piece::Failed(Arc::clone(reason)),
            });
        }
        if let Some((file, offset, len)) = self.passage.in_file(at) {
            let len = usize::try_from(len).unwrap_or(usize::MAX).min(max);
            return Some(Piece::File { file: HeldFile(Held::File(file)), offset, len });
        }
        let after = self.pieces.partition_point(|&(start, _)| start <= at);
        let found = after.checked_sub(1).and_then(|i| self.pieces.get(i));
        found.map(|(start, chunk)| match chunk {
            Chunk::Heap(piece) => Piece::Data(slice_of(piece, *start, at, max)),
            Chunk::Arena(extent) => in_arena(extent, *start, at, max),
        })
    }

    fn add_reader(&mut self) -> u64 {
        let number = self.next_reader;
        self.next_reader += 1;
        self.readers.push((number, 0));
        self.had_reader = true;
        number
    }

    fn move_reader(&mut self, number: u64, at: u64) {
        if let Some(reader) = self.readers.iter_mut().find(|(n, _)| *n == number) {
            reader.1 = at;
        }
    }

    fn remove_reader(&mut self, number: u64) {
        self.readers.retain(|(n, _)| *n != number);
    }
}

/// The longest piece from a disk. Only its ends are known to be in the page cache, and a slow client may take long to
/// get all of it.
const DISK_PIECE_BYTES_MAX: usize = 64 * 1024;

/// How often one piece waits for a disk that takes too long.
const WAITS_MAX: usize = 8;
