//! Writing a body.

use std::collections::VecDeque;
use std::io;
use std::iter;
use std::mem;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use tokio::runtime::Handle;

use crate::arena::{Arena, Extent, Span};
use crate::budget::Reservation;

use super::offload::{self, Offload, Offloading};
use super::passage::Room;
use super::{ARENA_BYTES_MIN, CHUNK_BYTES, Chunk, End, Fill, Filling, Keep, SMALL_BYTES, Shared, Whole};

/// Why bytes were not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    /// The body is not stored, and its readers have left, or it was to be stored and has none.
    #[error("nobody reads the body any more, and it is not stored")]
    Unwanted,
}

/// The one who writes a body. Dropped before [`finish`](Self::finish), it fails the body.
pub struct BodyWriter {
    shared: Arc<Shared>,
    fill: Arc<Fill>,
    arena: Option<&'static Arena>,
    /// How far a big stored body has moved there.
    moving: Moving,
    /// The position up to which a stored body is where it stays: in the arena, or in exact allocations.
    settled_to: u64,
    /// Where it goes when it is big.
    offload: Option<Offload>,
    ended: bool,
}

/// How a stored body moves to the arena, a step at a time.
///
/// ```text
/// Unbegun --first step, or the finish--> Begun --no memory--> Never
///    `---- no positions, or no arena --------------------------^
/// ```
enum Moving {
    /// It is not yet big.
    Unbegun(&'static Arena),
    /// A part has moved, and more follows, behind the last extent while that is not full.
    Begun(Span<'static>),
    /// It stays in memory of our own, or goes back there.
    Never,
}

impl BodyWriter {
    pub(super) fn new(shared: Arc<Shared>, fill: Arc<Fill>, arena: Option<&'static Arena>) -> Self {
        let moving = arena.map_or(Moving::Never, Moving::Unbegun);
        Self { shared, fill, moving, arena, settled_to: 0, offload: None, ended: false }
    }

    /// Adds `data` and wakes the readers. Never waits; call [`wait_for_room`](Self::wait_for_room) between.
    ///
    /// A stored body whose reservation cannot grow becomes unstored here.
    pub fn append(&mut self, data: Bytes) -> Result<(), BodyError> {
        if data.is_empty() {
            return Ok(());
        }
        let more = data.len();
        let was_stored = self.is_stored();
        let stored = was_stored && self.grow(more);
        if was_stored && !stored {
            self.shared.stored.store(false, Ordering::Release);
            if let Some(offloading) = &mut self.fill.filling.lock().offloading {
                offloading.count_skipped();
            }
        }
        {
            let mut filling = self.fill.filling.lock();
            // It was for the shelf: who has not come to read it by now is not waited for.
            filling.had_reader |= was_stored && !stored;
            if !stored && filling.had_reader && filling.readers.is_empty() {
                return Err(BodyError::Unwanted);
            }
            filling.push(data);
        }
        self.fill.written.notify_waiters();
        if stored && !self.offload_full_slices() {
            self.settle_as_it_comes();
        }
        Ok(())
    }

    /// Adds `data` for readers that have yet to come, whether it is stored or not.
    pub(super) fn append_unread(&mut self, data: Bytes) {
        if data.is_empty() {
            return;
        }
        let stored = self.is_stored() && self.grow(data.len());
        if !stored {
            self.unstore();
        }
        let mut filling = self.fill.filling.lock();
        if !stored {
            filling.reservation = None;
        }
        filling.push(data);
    }

    /// Ends the body: it is complete.
    pub fn finish(mut self) {
        self.ended = true;
        let is_offloaded = self.fill.filling.lock().offloading.is_some();
        if is_offloaded {
            self.finish_on_disk();
            return;
        }
        if self.is_stored() {
            self.settle_all();
        }
        let mut filling = self.fill.filling.lock();
        filling.end = End::Finished;
        let all_in_memory = filling.start == 0 && filling.passage.file_starts_at().is_none();
        if all_in_memory && let Some(whole) = filling.take_whole() {
            // The one writer sets it, once.
            let _ = self.shared.whole.set(whole);
            self.shared.fill.lock().take();
        }
        drop(filling);
        self.fill.written.notify_waiters();
    }

    /// Ends the body: it stays incomplete. Readers get what is there, and then `reason`.
    pub fn fail(mut self, reason: String) {
        self.end_failed(reason);
    }

    /// Whether all bytes so far are kept under the reservation.
    pub fn is_stored(&self) -> bool {
        self.shared.stored.load(Ordering::Acquire)
    }

    /// Makes a stored body an unstored one, for a response that turned out not to be kept. It waits for its
    /// first reader then.
    pub fn unstore(&mut self) {
        self.shared.stored.store(false, Ordering::Release);
    }

    /// Whether anyone reads it now.
    pub fn has_readers(&self) -> bool {
        !self.fill.filling.lock().readers.is_empty()
    }

    /// Waits until nobody reads it; at once when nobody does.
    pub async fn readers_gone(&self) {
        loop {
            let consumed = self.fill.consumed.notified();
            tokio::pin!(consumed);
            consumed.as_mut().enable();
            if !self.has_readers() {
                return;
            }
            consumed.await;
        }
    }

    /// Waits until an append is welcome: at once for a stored body; for an unstored one when there is room
    /// in memory, made by the readers or by a file.
    ///
    /// Dropped before it is done, it has lost nothing: a write to the file goes on.
    pub async fn wait_for_room(&self) {
        loop {
            let consumed = self.fill.consumed.notified();
            tokio::pin!(consumed);
            consumed.as_mut().enable();
            if self.is_stored() {
                return;
            }
            let room = self.fill.filling.lock().room();
            match room {
                Room::There => return,
                Room::Wait => consumed.await,
                Room::Flush(flush) => {
                    let fill = Arc::clone(&self.fill);
                    match Handle::try_current() {
                        Ok(runtime) => {
                            runtime.spawn_blocking(move || flush.run(&fill));
                            consumed.await;
                        }
                        Err(_) => flush.run(&fill),
                    }
                }
            }
        }
    }

    /// Waits while a body that goes to disk has much in memory, and no reader wants more than is there: a disk may then
    /// catch up with an origin that is faster. At once for every other body.
    pub async fn wait_for_disk(&self) {
        loop {
            let consumed = self.fill.consumed.notified();
            tokio::pin!(consumed);
            consumed.as_mut().enable();
            if !self.is_stored() || !self.fill.filling.lock().may_wait_for_disk() {
                return;
            }
            consumed.await;
        }
    }

    /// What went wrong with the file of an unstored body, once, for the log.
    pub fn take_trouble(&self) -> Option<String> {
        self.fill.filling.lock().passage.trouble.take()
    }

    /// Makes sure the reservation covers `more` bytes beyond those written.
    fn grow(&self, more: usize) -> bool {
        let (mut reservation, missing) = {
            let mut filling = self.fill.filling.lock();
            let Some(held) = &filling.reservation else {
                return false;
            };
            let wanted = match &filling.offloading {
                // What is on disk takes no memory.
                Some(offloading) => {
                    let wanted = filling.in_memory() + more as u64;
                    if wanted > offloading.memory_bytes_max() || !offloading.is_possible() {
                        return false;
                    }
                    usize::try_from(wanted).unwrap_or(usize::MAX)
                }
                None => self.footprint(filling.so_far + more as u64),
            };
            let missing = wanted.saturating_sub(held.bytes());
            if missing == 0 {
                return true;
            }
            let Some(held) = filling.reservation.take() else {
                return false;
            };
            (held, missing)
        };
        // Without the lock: making room lets go of other bodies.
        let grown = reservation.grow(missing);
        self.fill.filling.lock().reservation = Some(reservation);
        grown
    }

    /// Says where the body goes when it is big. `len` is what is known of its length.
    pub(super) fn offload_to(&mut self, offload: Offload, len: Option<u64>) {
        let big = len.filter(|&len| len >= offload.bytes_min);
        self.offload = Some(offload).filter(|offload| !offload.shelves.is_empty());
        if let Some(len) = big {
            self.begin_offloading(len);
        }
    }

    /// From now on it goes to disk, if there is one that takes a body of `len`. What has moved to the arena comes back
    /// first.
    fn begin_offloading(&mut self, len: u64) {
        let Some(offload) = self.offload.take() else { return };
        let Some(offloading) = Offloading::begin(&offload, len).filter(|_| self.is_stored()) else { return };
        if self.back_to_heap().is_err() {
            return;
        }
        self.settled_to = 0;
        self.fill.filling.lock().offloading = Some(offloading);
    }

    /// Hands full slices over to the disks; false when the body does not go there.
    fn offload_full_slices(&mut self) -> bool {
        let (so_far, slice_bytes) = {
            let filling = self.fill.filling.lock();
            (filling.so_far, filling.offloading.as_ref().map(Offloading::slice_bytes))
        };
        let Some(slice_bytes) = slice_bytes else {
            if self.offload.as_ref().is_some_and(|offload| so_far >= offload.bytes_min) {
                self.begin_offloading(so_far);
                return self.fill.filling.lock().offloading.is_some() && self.offload_full_slices();
            }
            return false;
        };
        while so_far - self.settled_to >= slice_bytes {
            self.settle_slice(slice_bytes as usize);
        }
        offload::hand_over(&self.shared, &self.fill);
        true
    }

    /// Puts the next `bytes` in one allocation of exactly their size.
    fn settle_slice(&mut self, bytes: usize) {
        let mut loose = self.fill.loose(self.settled_to);
        let slice = take_first(&mut loose, bytes).concat();
        let settled = [Bytes::from(slice)].into_iter().chain(loose).map(Chunk::Heap);
        self.fill.replace(self.settled_to, self.settled_to, settled);
        self.settled_to += bytes as u64;
    }

    fn finish_on_disk(&mut self) {
        let left = self.fill.filling.lock().so_far - self.settled_to;
        if left > 0 && self.is_stored() {
            self.settle_slice(left as usize);
        }
        self.fill.filling.lock().end = End::Finished;
        self.fill.written.notify_waiters();
        if self.is_stored() {
            offload::hand_over(&self.shared, &self.fill);
            offload::settle(&self.shared, &self.fill);
        }
    }

    /// The memory that a stored body of `len` bytes takes. In the arena it takes whole pages.
    fn footprint(&self, len: u64) -> usize {
        let bytes = match self.arena {
            Some(arena) if len >= ARENA_BYTES_MIN => arena.footprint(len),
            Some(_) | None => len,
        };
        usize::try_from(bytes).unwrap_or(usize::MAX)
    }

    /// Puts what has come where it stays, so that a big body is not there twice in the end. What moves to the arena does
    /// so in small steps: its bytes are still in the processor's cache then, readers get it from there, and nobody who
    /// shares this thread waits for long.
    fn settle_as_it_comes(&mut self) {
        let so_far = self.fill.filling.lock().so_far;
        let loose = so_far - self.settled_to;
        let pages = self.arena.map_or(0, |arena| arena.whole_pages(loose));
        if loose >= MOVED_BYTES_MIN && pages > 0 && self.move_to_arena(self.settled_to + pages, None) {
            return;
        }
        if loose >= CHUNK_BYTES as u64 {
            self.compact(so_far);
        }
    }

    /// Puts all of a complete body where it stays.
    fn settle_all(&mut self) {
        let len = self.fill.filling.lock().so_far;
        if len >= ARENA_BYTES_MIN && self.move_to_arena(len, Some(len)) {
            return;
        }
        if self.back_to_heap().is_err() {
            // It can still be read, if anybody can: each chunk has its place.
            self.shared.stored.store(false, Ordering::Release);
            return;
        }
        self.compact(len);
    }

    /// Moves what is before `end` to the arena; false when it has no room. `end` is the length of all, `len`, or whole
    /// pages away from what has moved.
    fn move_to_arena(&mut self, end: u64, len: Option<u64>) -> bool {
        if let Moving::Unbegun(arena) = self.moving {
            let span = arena.span(len.unwrap_or_else(|| self.bytes_max()));
            self.moving = span.map_or(Moving::Never, Moving::Begun);
        }
        let Moving::Begun(span) = &mut self.moving else {
            return false;
        };
        while self.settled_to < end {
            let room = CHUNK_BYTES as u64 - self.settled_to % CHUNK_BYTES as u64;
            let bytes = (end - self.settled_to).min(room) as usize;
            let mut loose = self.fill.loose(self.settled_to);
            let Ok(extent) = span.write(&take_first(&mut loose, bytes)) else {
                self.moving = Moving::Never;
                return false;
            };
            let from = self.settled_to;
            self.settled_to += bytes as u64;
            let loose = loose.into_iter().map(Chunk::Heap);
            match self.fill.extent_before(from).filter(|_| room < CHUNK_BYTES as u64) {
                Some(begun) => {
                    begun.absorb(extent);
                    self.fill.replace(from, self.settled_to, loose);
                }
                None => self.fill.replace(from, from, iter::once(Chunk::Arena(Arc::new(extent))).chain(loose)),
            }
        }
        true
    }

    /// How long a stored body may become.
    fn bytes_max(&self) -> u64 {
        let filling = self.fill.filling.lock();
        filling.reservation.as_ref().map_or(0, Reservation::shelf_bytes_max).min(SPAN_BYTES_MAX)
    }

    /// Moves back what has moved to the arena.
    fn back_to_heap(&mut self) -> io::Result<()> {
        self.moving = Moving::Never;
        let moved: Vec<(usize, Arc<Extent>)> = {
            let filling = self.fill.filling.lock();
            let in_arena = |(number, (_, chunk)): (usize, &(u64, Chunk))| match chunk {
                Chunk::Arena(extent) => Some((number, Arc::clone(extent))),
                Chunk::Heap(_) => None,
            };
            filling.pieces.iter().enumerate().filter_map(in_arena).collect()
        };
        for (number, extent) in moved {
            let bytes = Bytes::from(extent.read()?);
            // Only the writer changes the pieces of a stored body, so that they have kept their numbers.
            if let Some((_, chunk)) = self.fill.filling.lock().pieces.get_mut(number) {
                *chunk = Chunk::Heap(bytes);
            }
        }
        Ok(())
    }

    /// Copies everything from `settled_to` up to `end`, which must be a piece's end.
    ///
    /// Pieces are slices of bigger buffers; kept as they are, a page would hold more than it counts for.
    fn compact(&mut self, end: u64) {
        let exact = exact_chunks(&self.fill.loose(self.settled_to));
        debug_assert_eq!(exact.iter().map(|piece| piece.len() as u64).sum::<u64>(), end - self.settled_to);
        self.fill.replace(self.settled_to, self.settled_to, exact.into_iter().map(Chunk::Heap));
        self.settled_to = end;
    }

    fn end_failed(&mut self, reason: String) {
        self.ended = true;
        self.fill.filling.lock().end = End::Failed(Arc::from(reason));
        self.fill.written.notify_waiters();
    }
}

impl Drop for BodyWriter {
    fn drop(&mut self) {
        if !self.ended {
            self.end_failed("the writer of the body went away".to_owned());
        }
    }
}

/// Only the writer changes the pieces of a stored body, so that it copies them without the lock in between.
impl Fill {
    /// What lies in memory of our own from position `from` on.
    fn loose(&self, from: u64) -> VecDeque<Bytes> {
        let filling = self.filling.lock();
        let first = filling.pieces.partition_point(|&(at, _)| at < from);
        let heap = |(_, chunk): &(u64, Chunk)| match chunk {
            Chunk::Heap(bytes) => Some(bytes.clone()),
            Chunk::Arena(_) => None,
        };
        filling.pieces.iter().skip(first).filter_map(heap).collect()
    }

    /// What lies in the arena right before position `end`.
    fn extent_before(&self, end: u64) -> Option<Arc<Extent>> {
        let filling = self.filling.lock();
        let after = filling.pieces.partition_point(|&(at, _)| at < end);
        match filling.pieces.get(after.checked_sub(1)?)? {
            (_, Chunk::Arena(extent)) => Some(Arc::clone(extent)),
            (_, Chunk::Heap(_)) => None,
        }
    }

    /// Puts the same bytes in the place of those from position `from` on. Before `begin` they are a part of the chunk
    /// before.
    fn replace(&self, from: u64, begin: u64, chunks: impl Iterator<Item = Chunk>) {
        let mut filling = self.filling.lock();
        let first = filling.pieces.partition_point(|&(at, _)| at < from);
        filling.pieces.truncate(first);
        let mut at = begin;
        for chunk in chunks {
            let next = at + chunk.len();
            filling.pieces.push_back((at, chunk));
            at = next;
        }
        debug_assert_eq!(at, filling.so_far, "a move keeps every byte");
    }
}

impl Filling {
    /// Takes the pieces and the reservation out, for a complete body that is all in memory. `None` for one that lies
    /// partly in the arena, as it was unstored while it moved there.
    fn take_whole(&mut self) -> Option<Whole> {
        let moved = self.pieces.iter().filter(|(_, chunk)| matches!(chunk, Chunk::Arena(_))).count();
        if moved > 0 && moved < self.pieces.len() {
            return None;
        }
        let len = self.so_far;
        self.start = len;
        let (mut heap, mut arena) = (Vec::new(), Vec::new());
        for (_, chunk) in mem::take(&mut self.pieces) {
            match chunk {
                Chunk::Heap(bytes) => heap.push(bytes),
                Chunk::Arena(extent) => arena.push(extent),
            }
        }
        let mut reservation = self.reservation.take();
        let keep = if arena.is_empty() {
            if let Some(reservation) = &mut reservation {
                reservation.shrink_to(len as usize);
            }
            Keep::Pieces(heap.into())
        } else {
            let footprint: u64 = arena.iter().map(|extent| extent.footprint()).sum();
            if let Some(reservation) = &mut reservation {
                reservation.shrink_to(footprint as usize);
            }
            Keep::Arena(arena.into())
        };
        Some(Whole { keep, len, reservation })
    }
}

/// Takes the first `len` bytes off `pieces`.
fn take_first(pieces: &mut VecDeque<Bytes>, len: usize) -> Vec<Bytes> {
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

/// The same bytes in allocations of exactly their size: one up to [`SMALL_BYTES`], else chunks.
fn exact_chunks(loose: &VecDeque<Bytes>) -> Vec<Bytes> {
    let mut left: usize = loose.iter().map(Bytes::len).sum();
    let chunk_max = if left <= SMALL_BYTES { SMALL_BYTES } else { CHUNK_BYTES };
    let mut chunks = Vec::with_capacity(left.div_ceil(chunk_max));
    let mut chunk = Vec::with_capacity(left.min(chunk_max));
    for piece in loose {
        let mut rest: &[u8] = piece;
        while !rest.is_empty() {
            let room = chunk.capacity() - chunk.len();
            let (now, later) = rest.split_at(room.min(rest.len()));
            chunk.extend_from_slice(now);
            rest = later;
            if chunk.len() == chunk.capacity() {
                left -= chunk.len();
                let full = mem::replace(&mut chunk, Vec::with_capacity(left.min(chunk_max)));
                chunks.push(Bytes::from(full));
            }
        }
    }
    chunks
}

/// So much of a body that fills moves to the arena at a time, and the rest at its end.
const MOVED_BYTES_MIN: u64 = 64 * 1024;

/// The positions that one body takes at most while its length is not known.
const SPAN_BYTES_MAX: u64 = 1 << 40;
