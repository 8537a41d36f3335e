//! Whole bodies at once.

use larder_http::Coding;

use crate::decoder::{DecodeError, Decoded, Decoder};
use crate::effort::Effort;
use crate::encoder::{EncodeError, Encoder};

/// Compresses the body that `pieces` make up.
///
/// Every body gets an encoder of its own: one that is kept for the next saves 10 µs of some hundred.
pub fn compress<'a>(
    pieces: impl Iterator<Item = &'a [u8]> + Clone,
    coding: Coding,
    effort: Effort,
) -> Result<Vec<u8>, EncodeError> {
    let len: u64 = pieces.clone().map(|piece| piece.len() as u64).sum();
    let mut encoder = Encoder::of_len(coding, effort.params(coding, len), len)?;
    let mut out = Vec::with_capacity(usize::try_from(len / USUAL_RATIO).unwrap_or(0));
    for piece in pieces {
        encoder.encode(piece, &mut out)?;
    }
    encoder.finish(&mut out)?;
    Ok(out)
}

/// Why a whole body could not be restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RestoreError {
    /// The bytes are no such stream.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// It is longer than the caller can use.
    #[error("the body is longer than {bytes_max} bytes when it is restored")]
    TooLong {
        /// What the caller can use.
        bytes_max: usize,
    },
}

/// Restores the body whose compressed form `pieces` make up, if it is no longer than `bytes_max`.
pub fn restore<'a>(
    pieces: impl Iterator<Item = &'a [u8]>,
    coding: Coding,
    bytes_max: usize,
) -> Result<Vec<u8>, RestoreError> {
    let mut decoder = Decoder::new(coding)?;
    let mut out = Vec::new();
    for mut piece in pieces {
        // One more than may come, to see that it does.
        let left = bytes_max.saturating_add(1) - out.len();
        match decoder.decode(&mut piece, &mut out, left)? {
            Decoded::NeedsInput if out.len() <= bytes_max => {}
            Decoded::NeedsInput | Decoded::Full => return Err(RestoreError::TooLong { bytes_max }),
        }
    }
    decoder.finish()?;
    Ok(out)
}

/// What a page shrinks by, about; for the first allocation only.
const USUAL_RATIO: u64 = 4;
