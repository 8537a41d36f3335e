//! Reading a body, while it fills and after.

use std::fmt;
use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;

use super::{End, Fill, Filling, Now, Shared, Whole, slice_of};

/// What a reader gets at a time.
#[derive(Clone, Debug)]
pub enum Piece {
    /// Bytes in memory; never empty unless none were asked for.
    Data(Bytes),
    /// Bytes in a file. They stay as they are while the file is held.
    File {
        /// The file.
        file: Arc<File>,
        /// Where in it.
        offset: u64,
        /// How many.
        len: usize,
    },
    /// Nothing yet.
    Pending,
    /// That was all.
    End,
    /// The body ends here without being complete, for this reason.
    Failed(Arc<str>),
}

/// A position in a body.
///
/// While the body fills, its existence holds the bytes of an unstored body that it has not read.
pub struct BodyReader {
    shared: Arc<Shared>,
    at: u64,
    /// Its place among the readers, if the body was not whole when it came.
    place: Option<Place>,
}

/// One reader of a body that fills.
struct Place {
    fill: Arc<Fill>,
    number: u64,
}

impl BodyReader {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        let place = match shared.now() {
            Now::Whole(_) => None,
            Now::Fill(fill) => {
                let number = fill.filling.lock().add_reader();
                fill.consumed.notify_waiters();
                Some(Place { fill, number })
            }
        };
        Self { shared, at: 0, place }
    }

    /// The position of the next byte.
    pub fn at(&self) -> u64 {
        self.at
    }

    /// Goes to a position; one beyond the end is the end. Back is possible as far as the bytes are kept.
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

    /// The next piece of at most `max` bytes, once there is one; never [`Piece::Pending`].
    ///
    /// Dropped before it is done, it has moved nothing.
    pub async fn next(&mut self, max: usize) -> Piece {
        match self.try_next(max) {
            Piece::Pending => {}
            piece => return piece,
        }
        let Some(fill) = self.place.as_ref().map(|place| Arc::clone(&place.fill)) else {
            return Piece::End;
        };
        loop {
            let written = fill.written.notified();
            tokio::pin!(written);
            // Before the look, so that an append after it is not missed.
            written.as_mut().enable();
            match self.try_next(max) {
                Piece::Pending => written.await,
                piece => return piece,
            }
        }
    }

    fn peek(&self, max: usize) -> Piece {
        if let Some(whole) = self.shared.whole.get() {
            return whole.piece_at(self.at, max);
        }
        let Some(place) = &self.place else {
            // Without a place it came to a body that was whole.
            return Piece::End;
        };
        let filling = place.fill.filling.lock();
        // It may have become whole between the two looks: then its pieces have moved.
        match self.shared.whole.get() {
            Some(whole) => whole.piece_at(self.at, max),
            None => filling.piece_at(self.at, max),
        }
    }

    /// Tells the writer how far this reader is, where that matters: to an unstored body that still fills.
    fn note_position(&self) {
        let Some(Place { fill, number }) = &self.place else {
            return;
        };
        if self.shared.whole.get().is_some() {
            return;
        }
        fill.filling.lock().move_reader(*number, self.at);
        if !self.shared.stored.load(Ordering::Acquire) {
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
    fn piece_at(&self, at: u64, max: usize) -> Piece {
        if at >= self.len {
            return Piece::End;
        }
        Piece::Data(self.slice(at, max))
    }
}

impl Filling {
    fn piece_at(&self, at: u64, max: usize) -> Piece {
        if at >= self.so_far {
            return match &self.end {
                End::Open => Piece::Pending,
                End::Finished => Piece::End,
                End::Failed(reason) => Piece::Failed(Arc::clone(reason)),
            };
        }
        if let Some((file, offset, len)) = self.passage.in_file(at) {
            let len = usize::try_from(len).unwrap_or(usize::MAX).min(max);
            return Piece::File { file, offset, len };
        }
        let after = self.pieces.partition_point(|&(start, _)| start <= at);
        let found = after.checked_sub(1).and_then(|i| self.pieces.get(i));
        match found {
            Some((start, piece)) => Piece::Data(slice_of(piece, *start, at, max)),
            None => Piece::Failed(Arc::from("the start of the body is no longer kept")),
        }
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
