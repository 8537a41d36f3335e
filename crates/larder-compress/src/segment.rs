//! gzip that is put together of parts, each of which was compressed once and by itself.
//!
//! ```text
//! head | segment | segment | ... | the last block, which is empty | CRC-32 and length of all     (RFC 1952 §2.3)
//! ```
//! A segment is deflate (RFC 1951) in whole blocks, of which none is the last; it ends at a whole byte, and refers to
//! nothing before it.

use flate2::{Compress, Compression, Crc, Decompress, FlushCompress, FlushDecompress, Status};
use larder_http::Coding;

use crate::decoder::DecodeError;
use crate::effort::Effort;
use crate::encoder::{EncodeError, deflate};

/// A part of a gzip stream.
#[derive(Debug, Default)]
pub struct Segment {
    deflated: Vec<u8>,
    crc: Crc,
}

/// No name, no time, made under Unix.
const HEAD: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3];
/// The last block of a stream, without bytes.
const LAST_BLOCK: [u8; 2] = [3, 0];
/// How much is restored at a time.
const STEP_BYTES: usize = 16 * 1024;

impl Segment {
    /// Compresses `bytes`.
    pub fn of(bytes: &[u8], effort: Effort) -> Result<Self, EncodeError> {
        let mut segment = Self::default();
        if bytes.is_empty() {
            return Ok(segment);
        }
        let params = effort.params(Coding::Gzip, bytes.len() as u64);
        let level = Compression::new(params.level.into());
        let mut compress = Compress::new_with_window_bits(level, false, params.window_bits);
        deflate(&mut compress, bytes, FlushCompress::Sync, &mut segment.deflated)?;
        segment.deflated.shrink_to_fit();
        segment.crc.update(bytes);
        Ok(segment)
    }

    /// Appends the bytes that were compressed.
    pub fn restore(&self, out: &mut Vec<u8>) -> Result<(), DecodeError> {
        let mut inflate = Decompress::new(false);
        let mut rest = &self.deflated[..];
        let end = out.len() + self.crc.amount() as usize;
        while out.len() < end {
            out.reserve(STEP_BYTES.min(end - out.len()));
            let before = inflate.total_in();
            let status = inflate.decompress_vec(rest, out, FlushDecompress::Sync);
            let taken = (inflate.total_in() - before) as usize;
            rest = rest.get(taken..).unwrap_or_default();
            match status {
                Ok(Status::Ok) => {}
                Ok(Status::BufError | Status::StreamEnd) | Err(_) => return Err(DecodeError::Corrupt(Coding::Gzip)),
            }
        }
        Ok(())
    }

    /// How many bytes were compressed. gzip counts them by 32 bits.
    pub fn len(&self) -> u32 {
        self.crc.amount()
    }

    /// Whether there were none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes that it takes.
    pub fn packed_len(&self) -> usize {
        self.deflated.len()
    }
}

/// A gzip stream of segments.
#[derive(Debug)]
pub struct Joined {
    out: Vec<u8>,
    crc: Crc,
}

impl Default for Joined {
    fn default() -> Self {
        Self { out: HEAD.to_vec(), crc: Crc::new() }
    }
}

impl Joined {
    /// Adds a segment.
    pub fn push(&mut self, segment: &Segment) {
        self.out.extend_from_slice(&segment.deflated);
        self.crc.combine(&segment.crc);
    }

    /// How many bytes were compressed, by 32 bits.
    pub fn plain_len(&self) -> usize {
        self.crc.amount() as usize
    }

    /// How many bytes it takes so far, but for what was taken.
    pub fn len(&self) -> usize {
        self.out.len()
    }

    /// Whether it has no bytes but its head.
    pub fn is_empty(&self) -> bool {
        self.crc.amount() == 0
    }

    /// Takes what there is of the stream; what is added later goes on behind it.
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.out)
    }

    /// The stream, or what is left of it.
    pub fn finish(mut self) -> Vec<u8> {
        self.out.extend_from_slice(&LAST_BLOCK);
        self.out.extend_from_slice(&self.crc.sum().to_le_bytes());
        self.out.extend_from_slice(&self.crc.amount().to_le_bytes());
        self.out
    }
}

#[cfg(test)]
mod tests {
    use std::iter;

    use super::*;
    use crate::whole::restore;

    const EFFORT: Effort = Effort::Quick(6);

    #[test]
    fn what_is_joined_is_one_stream() {
        let long = b"of a page, a page, a page ".repeat(3_000);
        let noise: Vec<u8> = (0_u32..100_000).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        for parts in [
            &[][..],
            &[&b""[..]],
            &[b"a"],
            &[b"one", b"", b"two", b"one"],
            &[&long, b"x", &noise, &long],
            &[&noise[..1], &long[..40_000], &long],
        ] {
            let (mut joined, mut sent) = (Joined::default(), Joined::default());
            let mut taken = Vec::new();
            for part in parts {
                let segment = Segment::of(part, EFFORT).expect("it is compressed");
                let mut again = b"before ".to_vec();
                segment.restore(&mut again).expect("it is whole");
                assert_eq!((again, segment.len() as usize), ([b"before ", *part].concat(), part.len()));
                joined.push(&segment);
                sent.push(&segment);
                taken.extend(sent.take());
            }
            let stream = joined.finish();
            assert_eq!([taken, sent.finish()].concat(), stream, "it is the same in pieces");
            let restored = restore(iter::once(&stream[..]), Coding::Gzip, usize::MAX);
            assert_eq!(restored.expect("its sum and length are right"), parts.concat());
        }
    }

    #[test]
    fn a_segment_that_breaks_off_is_an_error() {
        let mut segment = Segment::of(&b"some text ".repeat(100), EFFORT).expect("it is compressed");
        segment.deflated.truncate(segment.packed_len() / 2);
        segment.restore(&mut Vec::new()).expect_err("a part of it is missing");
    }
}
