//! Pieces of bytes in their order.

use std::collections::VecDeque;

use bytes::Bytes;

/// Pieces in their order, none empty. One piece needs no allocation beside its own.
#[derive(Debug, Default)]
pub(crate) struct Pieces {
    /// Empty if there is no piece.
    first: Bytes,
    /// Made for a second piece, and then kept.
    #[expect(clippy::box_collection, reason = "nearly all have one piece, and an empty queue is dropped by a call")]
    more: Option<Box<VecDeque<Bytes>>>,
}

impl Pieces {
    /// Appends a piece, unless it is empty.
    pub(crate) fn push(&mut self, piece: Bytes) {
        if self.first.is_empty() {
            self.first = piece;
        } else if !piece.is_empty() {
            self.more.get_or_insert_default().push_back(piece);
        }
    }

    /// Takes the first piece.
    pub(crate) fn pop(&mut self) -> Option<Bytes> {
        if self.first.is_empty() {
            return None;
        }
        let next = self.next();
        Some(std::mem::replace(&mut self.first, next))
    }

    /// The piece behind the first; empty if there is none.
    fn next(&mut self) -> Bytes {
        self.more.as_mut().and_then(|more| more.pop_front()).unwrap_or_default()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_empty()
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        usize::from(!self.first.is_empty()) + self.more.as_ref().map_or(0, |more| more.len())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Bytes> {
        let first = Some(&self.first).filter(|first| !first.is_empty());
        first.into_iter().chain(self.more.iter().flat_map(|more| more.iter()))
    }

    /// Drops this many bytes at the beginning.
    pub(crate) fn advance(&mut self, mut count: usize) {
        while count > 0 && !self.first.is_empty() {
            if count < self.first.len() {
                bytes::Buf::advance(&mut self.first, count);
                return;
            }
            count -= self.first.len();
            self.first = self.next();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_leave_in_their_order() {
        let mut pieces = Pieces::default();
        for piece in ["", "ab", "", "cd", "e"] {
            pieces.push(Bytes::from_static(piece.as_bytes()));
        }
        assert_eq!((pieces.len(), pieces.iter().count()), (3, 3));
        pieces.advance(3);
        assert_eq!(pieces.pop().as_deref(), Some(&b"d"[..]));
        pieces.push(Bytes::from_static(b"f"));
        assert_eq!(pieces.iter().map(|piece| &piece[..]).collect::<Vec<_>>(), [b"e", b"f"]);
        pieces.advance(2);
        assert!(pieces.is_empty() && pieces.pop().is_none() && pieces.iter().next().is_none());
        pieces.advance(1);
        assert_eq!(pieces.len(), 0);
    }
}
