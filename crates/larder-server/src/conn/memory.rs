//! Bodies that are in memory: they go out without waiting for anything but the client.

use std::ops::Range;

use larder_cache::Form;
use larder_store::Whole;

use crate::request::deliver::Outgoing;

/// The body of a response when all of it is in memory: its bytes can go out without waiting for anything but the client.
pub fn in_memory(outgoing: &Outgoing) -> Option<InMemory<'_>> {
    let (whole, range) = match outgoing {
        Outgoing::Nothing => return Some(InMemory::Bytes(&[])),
        Outgoing::Bytes(bytes) => return Some(InMemory::Bytes(bytes)),
        Outgoing::Hit(object, range) => (object.body.whole()?, range),
        Outgoing::Stored(object, range) => (object.body.whole()?, range),
        Outgoing::HitForm(form) => return all_of(form),
        Outgoing::Form(form) => return all_of(form),
        Outgoing::File(..)
        | Outgoing::Stream { .. }
        | Outgoing::Recoded { .. }
        | Outgoing::Trailed(..)
        | Outgoing::Parts(..) => return None,
    };
    Some(InMemory::Pieces(whole, range.clone()))
}

fn all_of(form: &Form) -> Option<InMemory<'_>> {
    let whole = form.body.whole()?;
    Some(InMemory::Pieces(whole, 0..whole.len()))
}

/// A body that is in memory.
pub enum InMemory<'a> {
    /// In one piece.
    Bytes(&'a [u8]),
    /// This part of a stored one.
    Pieces(&'a Whole, Range<u64>),
}

impl InMemory<'_> {
    /// How many bytes it has.
    pub fn bytes(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::Pieces(_, range) => range.end - range.start,
        }
    }

    /// Hands its pieces to `each`, in order.
    pub fn for_each(&self, mut each: impl FnMut(&[u8])) {
        match self {
            Self::Bytes(bytes) => each(bytes),
            Self::Pieces(whole, range) => {
                let mut at = 0;
                for piece in whole.pieces() {
                    each(part(piece, range, at));
                    at += piece.len() as u64;
                }
            }
        }
    }
}

/// The part of a piece that begins at `at` of the body which lies in `range`.
pub fn part<'a>(piece: &'a [u8], range: &Range<u64>, at: u64) -> &'a [u8] {
    let start = range.start.saturating_sub(at).min(piece.len() as u64) as usize;
    let end = range.end.saturating_sub(at).min(piece.len() as u64) as usize;
    piece.get(start..end).unwrap_or_default()
}
