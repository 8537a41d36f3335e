//! A body: written once, read by many, while it fills and after.
//!
//! ```text
//! Filling --append--> Filling --finish--> Complete
//!    `---- fail, or writer dropped -----> Failed
//! ```
//! A *stored* body keeps every byte in memory, counted by its [`Reservation`]: a small one on the heap; one of
//! [`ARENA_BYTES_MIN`] or more in a memory file, to which it moves while it fills. If its length is among
//! [`BUFFERED_BYTES`] and known from the beginning, it fills buffers that are used again and again, and moves to a memory
//! file only when it is hit.
//!
//! If there is no reservation, or it cannot grow, the body is *unstored*: it only passes from the writer to its
//! readers. Bytes that a reader has not taken yet wait in a little memory, then in an unlinked file, and then the
//! writer waits. Bytes that all readers have taken are freed. An unstored body is never cached; its readers notice no
//! difference.
//!
//! A stored body that is too big for memory goes to disk while it fills: see [`Offload`].

mod buffered;
mod offload;
mod passage;
mod reader;
mod spill;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_offload;
mod writer;

use std::collections::VecDeque;
use std::fmt;
use std::fs::File;
use std::io;
use std::mem;
use std::ops::RangeInclusive;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::arena::{Arena, Extent};
use crate::budget::Reservation;
use crate::disk::PageBody;
use buffered::{Buffered, Where};
pub use offload::Offload;
use offload::{Offloading, OnDisk};
use passage::Passage;
pub use reader::{BodyReader, HeldFile, Piece};
pub use writer::{BodyError, BodyWriter};

/// Where the bytes of an unstored body wait for its readers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spill {
    /// The folder of the unlinked files, on a file system with enough room.
    pub dir: PathBuf,
    /// The folder in its place if it is not there. Few bodies need a file, so nobody looks for the first in advance.
    pub system_dir: &'static Path,
    /// How many bytes wait in memory before a file is used.
    pub memory_bytes_max: usize,
    /// How many bytes wait in a file before the writer has to wait; zero for no file.
    pub file_bytes_max: u64,
}

/// Makes a body and its writer.
///
/// With a reservation the body is stored; bytes that the reservation already holds are room for its first bytes.
pub fn body(reservation: Option<Reservation>, spill: Option<Spill>) -> (BodyWriter, Body) {
    body_in(Arena::shared(), reservation, spill)
}

/// Makes a body that goes to disk while it fills if it is big: by its length `len`, or once it has become big.
pub fn body_with_disks(
    reservation: Option<Reservation>,
    spill: Option<Spill>,
    offload: Offload,
    len: Option<u64>,
) -> (BodyWriter, Body) {
    let (mut writer, body) = body(reservation, spill);
    writer.offload_to(offload, len);
    (writer, body)
}

/// Makes a body that moves to `arena` if it is big; without an arena it stays on the heap.
fn body_in(
    arena: Option<&'static Arena>,
    reservation: Option<Reservation>,
    spill: Option<Spill>,
) -> (BodyWriter, Body) {
    let stored = AtomicBool::new(reservation.is_some());
    let fill = Arc::new(Fill {
        filling: Mutex::new(Filling {
            end: End::Open,
            pieces: VecDeque::new(),
            start: 0,
            so_far: 0,
            reservation,
            lent: 0,
            readers: Vec::new(),
            next_reader: 0,
            had_reader: false,
            passage: Passage::new(spill),
            offloading: None,
        }),
        written: Notify::new(),
        consumed: Notify::new(),
    });
    let shared = Shared { stored, fill: Mutex::new(Some(Arc::clone(&fill))), ..Shared::empty(false) };
    let shared = Arc::new(shared);
    (BodyWriter::new(Arc::clone(&shared), fill, arena), Body { shared })
}

/// A handle to a body, for reading it. A clone is a handle to the same body.
#[derive(Clone)]
pub struct Body {
    shared: Arc<Shared>,
}

/// How far a body is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BodyState {
    /// The writer has not finished.
    Filling {
        /// The bytes written so far.
        so_far: u64,
    },
    /// All bytes are there.
    Complete {
        /// The length of the body.
        len: u64,
    },
    /// The writer gave up, for this reason.
    Failed(Arc<str>),
}

impl Body {
    /// A complete body of `data`; stored if `reservation` covers it.
    ///
    /// For responses that larder makes itself. If the reservation cannot grow to the length, it is dropped.
    pub fn of(data: Bytes, reservation: Option<Reservation>) -> Self {
        let (mut writer, body) = body(reservation, None);
        writer.append_unread(data);
        writer.finish();
        body
    }

    /// Whether it is filling, complete or failed.
    pub fn state(&self) -> BodyState {
        match self.shared.now() {
            Now::Whole(whole) => BodyState::Complete { len: whole.len },
            Now::OnDisk(on_disk) => BodyState::Complete { len: on_disk.len },
            Now::Fill(fill) => fill.filling.lock().state(),
        }
    }

    /// The whole body, if it is complete and in memory. Takes no lock.
    #[inline]
    pub fn whole(&self) -> Option<&Whole> {
        self.shared.whole.get()
    }

    /// Whether every byte so far is kept, under a reservation or on disk.
    #[inline]
    pub fn is_stored(&self) -> bool {
        self.shared.stored.load(Ordering::Acquire)
    }

    /// Whether a new reader would get the body from its first byte.
    pub fn has_its_start(&self) -> bool {
        match self.shared.now() {
            Now::Whole(_) => true,
            Now::OnDisk(on_disk) => on_disk.is_here(),
            Now::Fill(fill) => {
                let filling = fill.filling.lock();
                // It may have become complete between the two loads: then its pieces have moved.
                self.whole().is_some() || filling.start_is_here()
            }
        }
    }

    /// The bytes that it has reserved.
    pub fn reserved(&self) -> usize {
        match self.shared.now() {
            Now::Whole(whole) => whole.reserved(),
            Now::OnDisk(_) => 0,
            Now::Fill(fill) => {
                let filling = fill.filling.lock();
                self.whole().map_or_else(|| filling.reserved(), Whole::reserved)
            }
        }
    }

    /// A reader from the first byte.
    ///
    /// If an unstored body has already freed its start, the reader's first piece is [`Piece::Failed`].
    pub fn reader(&self) -> BodyReader {
        BodyReader::new(Arc::clone(&self.shared))
    }

    /// What went wrong with the file of an unstored body, for the log; only returned once.
    pub fn take_trouble(&self) -> Option<String> {
        match self.shared.now() {
            Now::Whole(_) | Now::OnDisk(_) => None,
            Now::Fill(fill) => fill.filling.lock().passage.trouble.take(),
        }
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Body").field("state", &self.state()).field("stored", &self.is_stored()).finish()
    }
}

/// A complete body in memory.
pub struct Whole {
    keep: Keep,
    len: u64,
    reservation: Option<Reservation>,
}

/// How a complete body is kept in memory.
enum Keep {
    /// On the heap, in order.
    Pieces(Box<[Bytes]>),
    /// In the arena, in order and without gaps; each but the last has [`CHUNK_BYTES`].
    Arena(Box<[Arc<Extent>]>),
    /// In buffers until it is hit, then in the arena.
    Buffered(Box<Buffered>),
}

/// Where the bytes of a complete body are. They stay there as long as the body lives, or this.
#[derive(Clone, Debug)]
pub enum Place<'a> {
    /// On the heap, in order: one piece up to [`SMALL_BYTES`], none if empty.
    Pieces(&'a [Bytes]),
    /// The same, of a body that may move to a memory file.
    Buffers(Arc<[Bytes]>),
    /// In a memory file, in order and without gaps.
    File {
        /// The file.
        file: &'a File,
        /// Where in the file they begin.
        offset: u64,
    },
}

impl Whole {
    /// Where its bytes are.
    #[inline]
    pub fn place(&self) -> Place<'_> {
        match &self.keep {
            Keep::Pieces(pieces) => Place::Pieces(pieces),
            Keep::Arena(extents) => Self::place_of(extents),
            Keep::Buffered(buffered) => match buffered.place() {
                Where::Heap(pieces) => Place::Buffers(pieces),
                Where::File(extents) => Self::place_of(extents),
            },
        }
    }

    fn place_of(extents: &[Arc<Extent>]) -> Place<'_> {
        match extents.first() {
            Some(first) => Place::File { file: first.file(), offset: first.offset() },
            None => Place::Pieces(&[]),
        }
    }

    /// As [`place`](Self::place), to send it by `sendfile` if it is big: this moves it to a memory file, if there is
    /// room.
    #[inline]
    pub fn place_to_send(&self) -> Place<'_> {
        if let (Keep::Buffered(buffered), Some(room)) = (&self.keep, &self.reservation) {
            buffered.move_to_file(room, self.len);
        }
        self.place()
    }

    /// The bytes in all.
    #[inline]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// All bytes in one piece: those of the body, if they lie so. It only fails as [`to_vec`](Self::to_vec) does.
    pub fn to_bytes(&self) -> io::Result<Bytes> {
        match self.place() {
            Place::Pieces([bytes]) => Ok(bytes.clone()),
            Place::Buffers(pieces) if pieces.len() == 1 => Ok(pieces[0].clone()),
            Place::Pieces(_) | Place::Buffers(_) | Place::File { .. } => self.to_vec().map(Bytes::from),
        }
    }

    /// A copy of all bytes. It only fails if the kernel cannot read its own memory file.
    pub fn to_vec(&self) -> io::Result<Vec<u8>> {
        match self.place() {
            Place::Pieces(pieces) => Ok(pieces.concat()),
            Place::Buffers(pieces) => Ok(pieces.concat()),
            Place::File { file, offset } => {
                let mut bytes = vec![0; self.len as usize];
                file.read_exact_at(&mut bytes, offset)?;
                Ok(bytes)
            }
        }
    }

    /// Its bytes for a record on disk. They do not change while this body lives.
    pub fn for_disk(&self) -> PageBody {
        match &self.keep {
            Keep::Pieces(pieces) => PageBody::Memory(pieces.to_vec()),
            Keep::Arena(extents) => self.for_disk_from(extents),
            Keep::Buffered(buffered) => match buffered.place() {
                Where::Heap(pieces) => PageBody::Memory(pieces.to_vec()),
                Where::File(extents) => self.for_disk_from(extents),
            },
        }
    }

    fn for_disk_from(&self, extents: &[Arc<Extent>]) -> PageBody {
        match extents.first() {
            Some(first) => PageBody::File { file: first.shared_file(), offset: first.offset(), len: self.len },
            None => PageBody::Memory(Vec::new()),
        }
    }

    fn reserved(&self) -> usize {
        let own = self.reservation.as_ref().map_or(0, Reservation::bytes);
        match &self.keep {
            Keep::Pieces(_) | Keep::Arena(_) => own,
            Keep::Buffered(buffered) => own + buffered.reserved(),
        }
    }
}

impl Drop for Whole {
    fn drop(&mut self) {
        if let Some(reservation) = &mut self.reservation
            && let Keep::Arena(extents) = &mut self.keep
            && extents.len() > 1
        {
            reservation.let_go(mem::take(extents).into_iter().filter_map(Arc::into_inner).collect());
        }
    }
}

/// Up to `max` bytes from position `at` of a piece that begins at `start`. `at` must be inside.
fn slice_of(piece: &Bytes, start: u64, at: u64, max: usize) -> Bytes {
    let from = (at - start) as usize;
    let to = from.saturating_add(max).min(piece.len());
    piece.slice(from..to)
}

/// What the handles of one body share. It is small, because every page in memory has one.
struct Shared {
    stored: AtomicBool,
    /// Set by `finish` if all bytes are in memory. From then on readers take no lock.
    whole: OnceLock<Whole>,
    /// Set once all bytes are on disk, for a body that is too big for memory.
    on_disk: OnceLock<Box<OnDisk>>,
    /// Dropped here once one of the two is set; earlier readers still hold it.
    fill: Mutex<Option<Arc<Fill>>>,
}

/// What a body is made of now.
enum Now<'a> {
    Whole(&'a Whole),
    OnDisk(&'a OnDisk),
    Fill(Arc<Fill>),
}

impl Shared {
    fn empty(stored: bool) -> Self {
        Self {
            stored: AtomicBool::new(stored),
            whole: OnceLock::new(),
            on_disk: OnceLock::new(),
            fill: Mutex::new(None),
        }
    }

    fn now(&self) -> Now<'_> {
        let complete = || {
            let on_disk = || self.on_disk.get().map(|on_disk| Now::OnDisk(on_disk));
            self.whole.get().map(Now::Whole).or_else(on_disk)
        };
        if let Some(complete) = complete() {
            return complete;
        }
        let fill = self.fill.lock().clone();
        match (fill, complete()) {
            (_, Some(complete)) => complete,
            (Some(fill), None) => Now::Fill(fill),
            (None, None) => unreachable!("the filling is let go of after the body is complete"),
        }
    }

    fn unstore(&self) {
        self.stored.store(false, Ordering::Release);
    }
}

/// A body that is not whole, and the tasks that wait for it.
struct Fill {
    /// Not held while bytes are copied or written to a file, nor across an await.
    filling: Mutex<Filling>,
    /// Notified on every append and at the end.
    written: Notify,
    /// Notified when readers of an unstored body take something, and when a reader is made or dropped.
    consumed: Notify,
}

/// How the writing ended, if it has.
enum End {
    Open,
    Finished,
    Failed(Arc<str>),
}

/// A part of a body in memory.
#[derive(Clone)]
enum Chunk {
    /// On the heap.
    Heap(Bytes),
    /// In the arena, of [`CHUNK_BYTES`] unless it is the last.
    Arena(Arc<Extent>),
}

impl Chunk {
    fn len(&self) -> u64 {
        match self {
            Self::Heap(bytes) => bytes.len() as u64,
            Self::Arena(extent) => extent.len(),
        }
    }
}

/// A body while it fills, and after that if it is not [`Whole`].
struct Filling {
    end: End,
    /// The chunks in memory, each with its position; without gaps, from `start`.
    pieces: VecDeque<(u64, Chunk)>,
    /// The position of the first byte in memory; `so_far` if there is none.
    start: u64,
    so_far: u64,
    /// Of a stored body, it covers all bytes that are not `lent`; of an unstored one, those that are left from when it
    /// was stored.
    reservation: Option<Reservation>,
    /// The bytes in buffers that have their own reservations.
    lent: usize,
    /// The readers: number and position of each.
    readers: Vec<(u64, u64)>,
    next_reader: u64,
    had_reader: bool,
    passage: Passage,
    /// The part on disk, for a body that goes there.
    offloading: Option<Offloading>,
}

impl Filling {
    fn state(&self) -> BodyState {
        match &self.end {
            End::Open => BodyState::Filling { so_far: self.so_far },
            End::Finished => BodyState::Complete { len: self.so_far },
            End::Failed(reason) => BodyState::Failed(Arc::clone(reason)),
        }
    }

    fn reserved(&self) -> usize {
        self.lent + self.reservation.as_ref().map_or(0, Reservation::bytes)
    }

    fn in_memory(&self) -> u64 {
        self.so_far - self.start
    }

    fn start_is_here(&self) -> bool {
        let next = self.passage.file_starts_at().unwrap_or(self.start);
        let is_on_disk = self.offloading.as_ref().is_none_or(Offloading::has_its_start);
        next.min(self.start) <= self.on_disk_to() && is_on_disk
    }

    fn push(&mut self, data: Bytes) {
        let at = self.so_far;
        self.so_far += data.len() as u64;
        self.pieces.push_back((at, Chunk::Heap(data)));
    }

    /// Frees whole chunks in memory before `position`, and the bytes reserved for them.
    fn free_before(&mut self, position: u64) {
        let mut freed = Vec::new();
        while let Some((at, piece)) = self.pieces.front() {
            let end = at + piece.len();
            if end > position {
                break;
            }
            self.start = end;
            freed.extend(self.pieces.pop_front().and_then(extent_of));
        }
        let left = self.in_memory() as usize;
        self.lent = self.lent.min(left);
        if let Some(reservation) = &mut self.reservation {
            reservation.let_go(freed);
            reservation.shrink_to(left);
        }
    }

    /// The position before which an unstored body need not keep bytes: that of the slowest reader, or zero before the
    /// first reader came.
    fn consumed_to(&self) -> u64 {
        if !self.had_reader {
            return 0;
        }
        let slowest = self.readers.iter().map(|&(_, at)| at).min();
        slowest.unwrap_or(self.so_far)
    }
}

impl Drop for Filling {
    fn drop(&mut self) {
        if let Some(reservation) = &mut self.reservation {
            reservation.let_go(mem::take(&mut self.pieces).into_iter().filter_map(extent_of).collect());
        }
    }
}

/// The extent of a chunk in the arena, unless a reader still holds it.
fn extent_of((_, chunk): (u64, Chunk)) -> Option<Extent> {
    match chunk {
        Chunk::Heap(_) => None,
        Chunk::Arena(extent) => Arc::into_inner(extent),
    }
}

/// A complete stored body of this many bytes or more is kept in a memory file, if the system has them. For smaller
/// ones, `send` of a copy costs less than `sendfile` (measured: equal at 40 to 50 KB).
pub const ARENA_BYTES_MIN: u64 = 48 * 1024;

/// A stored body whose length is one of these and known from the beginning fills buffers that are used again. A longer
/// one would take long to move to a memory file when it is hit.
pub const BUFFERED_BYTES: RangeInclusive<u64> = ARENA_BYTES_MIN..=2 << 20;

/// A complete stored body of up to this many bytes that is not in a memory file is one piece.
pub const SMALL_BYTES: usize = 64 * 1024;

/// The size of the pieces of a bigger body.
pub const CHUNK_BYTES: usize = 256 * 1024;

/// How many bytes of an unstored body without a [`Spill`] wait in memory for its readers.
pub const UNSPILLED_BYTES_MAX: usize = 64 * 1024;
