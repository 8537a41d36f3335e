//! Bodies in memory: they can be sent without waiting for anything but the client.

use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;

use bytes::Bytes;
use larder_store::{Place, Whole};

use super::buffers::ensure;

/// A body in memory.
pub enum InMemory<'a> {
    /// In one piece.
    Bytes(&'a [u8]),
    /// This range of a stored body.
    Stored(&'a Whole, Range<u64>),
}

impl InMemory<'_> {
    /// Its length, bytes.
    pub fn bytes(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::Stored(_, range) => range.end - range.start,
        }
    }

    /// Passes its pieces to `each`, in order. A memory file is read through `buffer`.
    pub fn for_each(&self, buffer: &mut Vec<u8>, mut each: impl FnMut(&[u8])) -> io::Result<()> {
        let (whole, range) = match self {
            Self::Bytes(bytes) => {
                each(bytes);
                return Ok(());
            }
            Self::Stored(whole, range) => (whole, range),
        };
        match whole.place() {
            Place::Pieces(pieces) => each_part(pieces, range, each),
            Place::Buffers(pieces) => each_part(&pieces, range, each),
            Place::File { file, offset } => {
                ensure(buffer, STEP_BYTES);
                let mut at = range.start;
                while at < range.end {
                    let step = usize::try_from(range.end - at).unwrap_or(STEP_BYTES).min(STEP_BYTES);
                    file.read_exact_at(&mut buffer[..step], offset + at)?;
                    each(&buffer[..step]);
                    at += step as u64;
                }
            }
        }
        Ok(())
    }
}

fn each_part(pieces: &[Bytes], range: &Range<u64>, mut each: impl FnMut(&[u8])) {
    let mut at = 0;
    for piece in pieces {
        each(part(piece, range, at));
        at += piece.len() as u64;
    }
}

/// How much of a memory file is read at once: it fits the caches of one core.
const STEP_BYTES: usize = 32 * 1024;

/// The part of a piece that lies in `range`; the piece begins at `at` of the body.
pub fn part<'a>(piece: &'a [u8], range: &Range<u64>, at: u64) -> &'a [u8] {
    let start = range.start.saturating_sub(at).min(piece.len() as u64) as usize;
    let end = range.end.saturating_sub(at).min(piece.len() as u64) as usize;
    piece.get(start..end).unwrap_or_default()
}
