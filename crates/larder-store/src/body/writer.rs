//! Writing a body.

use std::collections::VecDeque;
use std::io;
use std::iter;
use std::mem;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::{Bytes, BytesMut};
use tokio::runtime::Handle;

use crate::arena::{Arena, Extent, Span};
use crate::budget::{BUFFER_BYTES, Buffers, Reservation};

use super::buffered::{self, Buffered, take_first};
use super::offload::{self, Offload, Offloading};
use super::passage::Room;
use super::{ARENA_BYTES_MIN, CHUNK_BYTES, Chunk, End, Fill, Filling, Keep, SMALL_BYTES, Shared, Whole};

/// Why bytes were not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    /// Nobody needs more bytes: the body is not stored, and it has no readers left.
    #[error("nobody reads the body any more, and it is not stored")]
    Unwanted,
}

/// The writer of a body; there is only one. If it is dropped before [`finish`](Self::finish), the body fails.
pub struct BodyWriter {
    /// The buffers that it moves to, in place of the arena. They go before what is reserved for them.
    buffers: Option<Buffers>,
    /// The address of the buffer that was handed out last.
    reading_into: Option<usize>,
    shared: Arc<Shared>,
    fill: Arc<Fill>,
    arena: Option<&'static Arena>,
    /// How far a big stored body has moved to the arena.
    moving: Moving,
    /// The position up to which a stored body is in its final place: in the arena, or in allocations of exact size.
    settled_to: u64,
    /// The disks that it goes to if it is big.
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
    /// It is not big yet.
    Unbegun(&'static Arena),
    /// A part has moved. More is appended to the last extent until that is full.
    Begun(Span<'static>),
    /// It stays on the heap, or goes back there.
    Never,
}

impl BodyWriter {
    pub(super) fn new(shared: Arc<Shared>, fill: Arc<Fill>, arena: Option<&'static Arena>) -> Self {
        let moving = arena.map_or(Moving::Never, Moving::Unbegun);
        Self {
            buffers: None,
            reading_into: None,
            shared,
            fill,
            moving,
            arena,
            settled_to: 0,
            offload: None,
            ended: false,
        }
    }

    /// Adds `data` and wakes the readers. Never waits; call [`wait_for_room`](Self::wait_for_room) between appends.
    ///
    /// If the reservation of a stored body cannot grow, the body becomes unstored here.
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
            // It was stored until now: it does not wait for a first reader any more.
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

    /// Adds `data` even if there is no reader yet, whether the body is stored or not.
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
        let buffered_in = self.arena.filter(|_| self.buffers.is_some());
        if all_in_memory && let Some(whole) = filling.take_whole(buffered_in) {
            // Only the writer sets it, once.
            let _ = self.shared.whole.set(whole);
            self.shared.fill.lock().take();
        }
        drop(filling);
        self.fill.written.notify_waiters();
    }

    /// Ends the body as incomplete. Readers get what is there, and then `reason`.
    pub fn fail(mut self, reason: String) {
        self.end_failed(reason);
    }

    /// Whether all bytes so far are kept.
    pub fn is_stored(&self) -> bool {
        self.shared.stored.load(Ordering::Acquire)
    }

    /// Makes a stored body unstored, for a response that turns out not to be kept. It then waits for its first reader.
    pub fn unstore(&mut self) {
        self.shared.stored.store(false, Ordering::Release);
    }

    /// Whether anyone reads it now.
    pub fn has_readers(&self) -> bool {
        !self.fill.filling.lock().readers.is_empty()
    }

    /// Waits until it has no readers.
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

    /// Waits until the next append may come: at once for a stored body; for an unstored one, when there is room in
    /// memory, because readers took something or it was written to the file.
    ///
    /// If it is dropped before it is done, nothing is lost: a running write to the file goes on.
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

    /// Waits while much of a body that goes to disk is in memory, and no reader needs more. So a disk can catch up with
    /// a faster origin. Returns at once for every other body.
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

    /// The folder of the file of an unstored body, if it needed one, for the log; only returned once.
    pub fn take_spilled(&self) -> Option<PathBuf> {
        self.fill.filling.lock().passage.begun_in.take()
    }

    /// What went wrong with the file of an unstored body, for the log; only returned once.
    pub fn take_trouble(&self) -> Option<String> {
        self.fill.filling.lock().passage.trouble.take()
    }

    /// Makes sure that the reservation covers `more` bytes beyond those written. False if it cannot.
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
                None if self.buffers.is_some() => (filling.so_far as usize).saturating_sub(filling.lent) + more,
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
        // Without the lock, because making room drops other bodies.
        let grown = reservation.grow(missing);
        self.fill.filling.lock().reservation = Some(reservation);
        grown
    }

    /// Lets the body fill `buffers`, and more of their kind, and move to the arena only when it is hit. For a body of
    /// which nothing was written yet, and whose length is reserved.
    pub fn keep_in(&mut self, buffers: Buffers) {
        self.buffers = self.arena.map(|_| buffers);
    }

    /// Memory to read what comes next into. If it is filled from its beginning, and appended in order, it is kept as it
    /// is; else it is copied. `None` for a body that does not fill a buffer.
    pub fn buffer(&mut self) -> Option<BytesMut> {
        let is_filled = self.is_stored() && self.fill.filling.lock().is_to_have(BUFFER_BYTES);
        let buffers = self.buffers.as_mut().filter(|_| is_filled)?;
        let loose = self.fill.loose(self.settled_to);
        let mut buffer = buffers.next();
        self.reading_into = Some(buffer.as_ptr().addr());
        if !loose.is_empty() {
            loose.iter().for_each(|piece| buffer.extend_from_slice(piece));
            let begun = Chunk::Heap(buffer.split().freeze());
            self.fill.replace(self.settled_to, self.settled_to, iter::once(begun));
        }
        Some(buffer)
    }

    /// Says where the body goes if it is big. `len` is its length, if known.
    pub(super) fn offload_to(&mut self, offload: Offload, len: Option<u64>) {
        let big = len.filter(|&len| len >= offload.bytes_min);
        self.offload = Some(offload).filter(|offload| !offload.shelves.is_empty());
        if let Some(len) = big {
            self.begin_offloading(len);
        }
    }

    /// Lets the body go to disk from now on, if there is a disk that takes a body of `len`. What has moved to the arena
    /// is first moved back.
    fn begin_offloading(&mut self, len: u64) {
        let Some(offload) = self.offload.take() else { return };
        let Some(offloading) = Offloading::begin(&offload, len).filter(|_| self.is_stored()) else { return };
        if self.back_to_heap().is_err() {
            return;
        }
        self.settled_to = 0;
        self.fill.filling.lock().offloading = Some(offloading);
    }

    /// Hands full slices over to the disks. False if the body does not go to disk.
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

    /// Copies the next `bytes` into one allocation of exactly their size.
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

    /// The memory that a stored body of `len` bytes takes; in the arena, whole pages.
    fn footprint(&self, len: u64) -> usize {
        let bytes = match self.arena {
            Some(arena) if len >= ARENA_BYTES_MIN => arena.footprint(len),
            Some(_) | None => len,
        };
        usize::try_from(bytes).unwrap_or(usize::MAX)
    }

    /// Moves what has arrived to its final place, so that a big body never has to be in memory twice. It moves to the
    /// arena in small steps: so the bytes are still in the CPU's cache, readers can be served from the arena, and other
    /// requests of this worker do not wait long.
    fn settle_as_it_comes(&mut self) {
        let so_far = self.fill.filling.lock().so_far;
        let loose = so_far - self.settled_to;
        if self.buffers.is_some() {
            return self.settle_in_buffers(so_far);
        }
        let pages = self.arena.map_or(0, |arena| arena.whole_pages(loose));
        if loose >= MOVED_BYTES_MIN && pages > 0 && self.move_to_arena(self.settled_to + pages, None) {
            return;
        }
        if loose >= CHUNK_BYTES as u64 {
            self.compact(so_far);
        }
    }

    /// Moves all of a complete body to its final place.
    fn settle_all(&mut self) {
        let len = self.fill.filling.lock().so_far;
        if self.buffers.is_some() {
            self.settle_in_buffers(len);
            return self.compact(len);
        }
        if len >= ARENA_BYTES_MIN && self.move_to_arena(len, Some(len)) {
            return;
        }
        if self.back_to_heap().is_err() {
            // Readers can still read it, because each chunk has its position.
            self.shared.stored.store(false, Ordering::Release);
            return;
        }
        self.compact(len);
    }

    /// Copies what is before `end` to buffers, as far as it fills them, unless it was read into one.
    fn settle_in_buffers(&mut self, end: u64) {
        while end - self.settled_to >= BUFFER_BYTES as u64 {
            let Some(buffers) = &mut self.buffers else { return };
            // It covers all of the bytes, so also these.
            let room = self.fill.filling.lock().split_room(BUFFER_BYTES);
            let Some(room) = room else { return };
            let mut loose = self.fill.loose(self.settled_to);
            let mut parts = take_first(&mut loose, BUFFER_BYTES);
            let was_read_into = self.reading_into.take().is_some_and(|start| buffered::are_in_a_row(&parts, start));
            if !was_read_into || parts.len() > PARTS_MAX {
                let mut buffer = buffers.next();
                parts.drain(..).for_each(|part| buffer.extend_from_slice(&part));
                parts.push(buffer.freeze());
            }
            let settled = buffered::lent(parts, room).chain(loose).map(Chunk::Heap);
            self.fill.replace(self.settled_to, self.settled_to, settled);
            self.settled_to += BUFFER_BYTES as u64;
        }
    }

    /// Moves what is before `end` to the arena. False if there is no room. `end` is the length of the body, `len`, or
    /// whole pages beyond what has moved.
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

    /// Moves back to the heap what has moved to the arena.
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
            // Only the writer changes the pieces of a stored body, so their numbers are still the same.
            if let Some((_, chunk)) = self.fill.filling.lock().pieces.get_mut(number) {
                *chunk = Chunk::Heap(bytes);
            }
        }
        Ok(())
    }

    /// Copies everything from `settled_to` up to `end`, which must be the end of a piece, into allocations of exact
    /// size.
    ///
    /// Pieces are slices of bigger buffers; without the copy, a page would hold more memory than it counts.
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

/// Only the writer changes the pieces of a stored body, so it can copy them without the lock.
impl Fill {
    /// The pieces on the heap from position `from` on.
    fn loose(&self, from: u64) -> VecDeque<Bytes> {
        let filling = self.filling.lock();
        let first = filling.pieces.partition_point(|&(at, _)| at < from);
        let heap = |(_, chunk): &(u64, Chunk)| match chunk {
            Chunk::Heap(bytes) => Some(bytes.clone()),
            Chunk::Arena(_) => None,
        };
        filling.pieces.iter().skip(first).filter_map(heap).collect()
    }

    /// The extent in the arena that ends at position `end`.
    fn extent_before(&self, end: u64) -> Option<Arc<Extent>> {
        let filling = self.filling.lock();
        let after = filling.pieces.partition_point(|&(at, _)| at < end);
        match filling.pieces.get(after.checked_sub(1)?)? {
            (_, Chunk::Arena(extent)) => Some(Arc::clone(extent)),
            (_, Chunk::Heap(_)) => None,
        }
    }

    /// Replaces the chunks from position `from` on by `chunks`, which have the same bytes. The bytes before `begin`
    /// have been appended to the chunk before.
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
    /// Whether at least `bytes` are reserved that have no final place yet.
    fn is_to_have(&self, bytes: usize) -> bool {
        self.reservation.as_ref().is_some_and(|reservation| reservation.bytes() >= bytes)
    }

    /// Room for a buffer that keeps its own.
    fn split_room(&mut self, bytes: usize) -> Option<Reservation> {
        let room = self.reservation.as_mut()?.split(bytes)?;
        self.lent += bytes;
        Some(room)
    }

    /// Takes the pieces and the reservation out, for a complete body that is all in memory. `None` if it is only partly
    /// in the arena, because it became unstored while it moved there.
    fn take_whole(&mut self, buffered_in: Option<&'static Arena>) -> Option<Whole> {
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
        let lent = mem::take(&mut self.lent);
        let keep = if let Some(arena) = buffered_in {
            if let Some(reservation) = &mut reservation {
                reservation.shrink_to((len as usize).saturating_sub(lent));
            }
            Keep::Buffered(Box::new(Buffered::new(heap, lent, arena)))
        } else if arena.is_empty() {
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

/// The most parts in which a buffer is kept: an origin may send a byte at a time.
const PARTS_MAX: usize = 16;

/// How much of a filling body moves to the arena at a time; the rest moves at its end.
const MOVED_BYTES_MIN: u64 = 64 * 1024;

/// How many positions in the arena a body of unknown length gets.
const SPAN_BYTES_MAX: u64 = 1 << 40;
