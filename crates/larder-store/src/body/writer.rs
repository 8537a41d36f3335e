//! Writing a body.

use std::mem;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use tokio::runtime::Handle;

use super::passage::Room;
use super::{CHUNK_BYTES, End, Fill, Filling, SMALL_BYTES, Shared, Whole};

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
    /// The position up to which a stored body is in exact allocations.
    compact_to: u64,
    ended: bool,
}

impl BodyWriter {
    pub(super) fn new(shared: Arc<Shared>, fill: Arc<Fill>) -> Self {
        Self { shared, fill, compact_to: 0, ended: false }
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
        if stored {
            self.compact_full_chunks();
        }
        Ok(())
    }

    /// Ends the body: it is complete.
    pub fn finish(mut self) {
        self.ended = true;
        if self.is_stored() {
            let len = self.fill.filling.lock().so_far;
            self.compact(len);
        }
        let mut filling = self.fill.filling.lock();
        filling.end = End::Finished;
        let all_in_memory = filling.start == 0 && filling.passage.file_starts_at().is_none();
        if all_in_memory {
            let whole = filling.take_whole();
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
            let missing = (filling.so_far as usize + more).saturating_sub(held.bytes());
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

    /// Copies the pieces of full chunks into allocations of their exact size.
    fn compact_full_chunks(&mut self) {
        let so_far = self.fill.filling.lock().so_far;
        if so_far - self.compact_to >= CHUNK_BYTES as u64 {
            self.compact(so_far);
        }
    }

    /// Copies everything from `compact_to` up to `end`, which must be a piece's end.
    ///
    /// Pieces are slices of bigger buffers; kept as they are, a page would hold more than it counts for.
    /// Only the writer changes the pieces of a stored body, so the copy is made without the lock.
    fn compact(&mut self, end: u64) {
        let from = self.compact_to;
        let loose: Vec<Bytes> = {
            let filling = self.fill.filling.lock();
            let first = filling.pieces.partition_point(|&(at, _)| at < from);
            filling.pieces.iter().skip(first).map(|(_, p)| p.clone()).collect()
        };
        let exact = exact_chunks(&loose);
        let mut filling = self.fill.filling.lock();
        let first = filling.pieces.partition_point(|&(at, _)| at < from);
        filling.pieces.truncate(first);
        let mut at = from;
        for piece in exact {
            let next = at + piece.len() as u64;
            filling.pieces.push_back((at, piece));
            at = next;
        }
        debug_assert_eq!(at, end, "a copy keeps every byte");
        self.compact_to = end;
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

impl Filling {
    /// Takes the pieces and the reservation out, for a complete body that is all in memory.
    fn take_whole(&mut self) -> Whole {
        let pieces = mem::take(&mut self.pieces);
        let len = self.so_far;
        self.start = len;
        let mut reservation = self.reservation.take();
        if let Some(reservation) = &mut reservation {
            reservation.shrink_to(len as usize);
        }
        Whole { pieces: pieces.into_iter().map(|(_, piece)| piece).collect(), len, reservation }
    }
}

/// The same bytes in allocations of exactly their size: one up to [`SMALL_BYTES`], else chunks.
fn exact_chunks(loose: &[Bytes]) -> Vec<Bytes> {
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
