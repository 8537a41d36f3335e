//! A complete body in buffers on the heap, which are used again for the next bodies. It moves to a memory file when it
//! is sent again.
//!
//! Memory that was never used costs the kernel several times what a copy costs, and memory that was used can only be
//! used again if no socket has it: `sendfile` queues the memory itself. Most big pages are stored and not requested
//! again before they leave. So they are sent by copying the first time, while they fill, and only those that are hit
//! get memory that `sendfile` can send from.

use std::collections::VecDeque;
use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use parking_lot::Mutex;

use super::CHUNK_BYTES;
use crate::arena::{Arena, Extent};
use crate::budget::{BUFFER_BYTES, Reservation};

/// A part of a full buffer. The buffer is used again when the last reader of its last part is done.
struct Lent {
    bytes: Bytes,
    /// The room of the whole buffer. Taken when this is dropped.
    room: Option<Arc<Reservation>>,
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let bytes = mem::take(&mut self.bytes);
        let Some(room) = self.room.take() else { return };
        match Arc::try_unwrap(room) {
            // It fails for a reader that came while it was filled; then the memory is free when that one is done.
            Ok(room) => drop(bytes.try_into_mut().map(|buffer| room.take_back(buffer))),
            // In this order: the room may go with it, if another part is dropped at the same time.
            Err(shared) => drop((bytes, shared)),
        }
    }
}

/// The parts of a full buffer, which own the room that it takes.
pub(super) fn lent(parts: Vec<Bytes>, room: Reservation) -> impl Iterator<Item = Bytes> {
    debug_assert_eq!((parts.iter().map(Bytes::len).sum(), room.bytes()), (BUFFER_BYTES, BUFFER_BYTES));
    let room = Arc::new(room);
    parts.into_iter().map(move |bytes| Bytes::from_owner(Lent { bytes, room: Some(Arc::clone(&room)) }))
}

/// Whether `parts` lie one after the other from `start` on, the address of a buffer.
pub(super) fn are_in_a_row(parts: &[Bytes], start: usize) -> bool {
    let mut at = start;
    parts.iter().all(|part| {
        let is_next = part.as_ptr().addr() == at;
        at += part.len();
        is_next
    })
}

/// A complete body that was in buffers when it was stored.
pub(super) struct Buffered {
    /// `None` once it is in the file.
    pieces: Mutex<Option<Arc<[Bytes]>>>,
    /// The buffers' part of the bytes.
    lent: usize,
    arena: &'static Arena,
    is_moving: AtomicBool,
    in_file: OnceLock<InFile>,
}

/// The body in the memory file.
struct InFile {
    /// In order and without gaps; each but the last has [`CHUNK_BYTES`].
    extents: Box<[Arc<Extent>]>,
    room: Reservation,
}

/// Where such a body is.
pub(super) enum Where<'a> {
    Heap(Arc<[Bytes]>),
    File(&'a [Arc<Extent>]),
}

impl Buffered {
    pub(super) fn new(pieces: Vec<Bytes>, lent: usize, arena: &'static Arena) -> Self {
        let pieces = Mutex::new(Some(Arc::from(pieces)));
        Self { pieces, lent, arena, is_moving: AtomicBool::new(false), in_file: OnceLock::new() }
    }

    /// Where it is now. It stays there as long as the result is held.
    pub(super) fn place(&self) -> Where<'_> {
        if let Some(in_file) = self.in_file.get() {
            return Where::File(&in_file.extents);
        }
        let pieces = self.pieces.lock().clone();
        match (pieces, self.in_file.get()) {
            (Some(pieces), _) => Where::Heap(pieces),
            (None, Some(in_file)) => Where::File(&in_file.extents),
            (None, None) => unreachable!("the buffers are let go of after the file has the bytes"),
        }
    }

    /// The bytes that are reserved for it beside those of the body.
    pub(super) fn reserved(&self) -> usize {
        self.in_file.get().map_or(self.lent, |in_file| in_file.room.bytes())
    }

    /// Moves it to the memory file, if there is room. `room` is of the same shelf. Whoever reads the buffers goes on.
    pub(super) fn move_to_file(&self, room: &Reservation, len: u64) {
        if self.in_file.get().is_some() || self.is_moving.swap(true, Ordering::AcqRel) {
            return;
        }
        if let Some(in_file) = self.copy(room, len) {
            // Only the one who is moving it sets it.
            let _ = self.in_file.set(in_file);
            let pieces = self.pieces.lock().take();
            drop(pieces);
        }
        // Without room, the next request tries again.
        self.is_moving.store(false, Ordering::Release);
    }

    fn copy(&self, room: &Reservation, len: u64) -> Option<InFile> {
        let Where::Heap(pieces) = self.place() else { return None };
        let room = room.another(usize::try_from(self.arena.footprint(len)).ok()?)?;
        let mut span = self.arena.span(len)?;
        let mut pieces: VecDeque<Bytes> = pieces.iter().cloned().collect();
        let mut extents = Vec::with_capacity(pieces.len().div_ceil(CHUNK_BYTES / BUFFER_BYTES));
        while !pieces.is_empty() {
            extents.push(Arc::new(span.write(&take_first(&mut pieces, CHUNK_BYTES)).ok()?));
        }
        Some(InFile { extents: extents.into(), room })
    }
}

impl Drop for Buffered {
    fn drop(&mut self) {
        if let Some(InFile { extents, mut room }) = self.in_file.take() {
            room.let_go(extents.into_iter().filter_map(Arc::into_inner).collect());
        }
    }
}

/// Removes the first `len` bytes from `pieces` and returns them.
pub(super) fn take_first(pieces: &mut VecDeque<Bytes>, len: usize) -> Vec<Bytes> {
    let mut first = Vec::new();
    let mut left = len;
    while left > 0
        && let Some(mut piece) = pieces.pop_front()
    {
        if piece.len() > left {
            let rest = piece.split_off(left);
            pieces.push_front(rest);
        }
        left -= piece.len();
        first.push(piece);
    }
    first
}
