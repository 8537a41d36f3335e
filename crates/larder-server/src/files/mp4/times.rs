//! The lengths of a film and its tracks, and how much of them is left.

use super::atom::{u32_at, u64_at};
use super::{Mp4Error, Wanted};

/// An atom with a duration: `mvhd`, `tkhd`, `mdhd`. In version 1 of each, times have 64 bits.
#[derive(Clone, Copy, Debug)]
pub struct Times<'a> {
    content: &'a [u8],
    /// Ticks a second, if the atom has that.
    pub timescale: u32,
    /// The duration in ticks.
    pub duration: u64,
    duration_at: usize,
    is_wide: bool,
}

impl<'a> Times<'a> {
    /// Parses an atom. For versions 0 and 1, `at` is the place of the word before the duration, and `bytes` the least
    /// length.
    pub fn parse(name: &'static str, content: &'a [u8], at: [usize; 2], bytes: [usize; 2]) -> Result<Self, Mp4Error> {
        let is_wide = content.first().is_some_and(|&version| version != 0);
        let (at, bytes) = if is_wide { (at[1], bytes[1]) } else { (at[0], bytes[0]) };
        let duration = if is_wide { u64_at(content, at + 4) } else { u32_at(content, at + 4).map(u64::from) };
        match (u32_at(content, at), duration) {
            (Some(timescale), Some(duration)) if content.len() >= bytes => {
                Ok(Self { content, timescale, duration, duration_at: at + 4, is_wide })
            }
            _ => Err(Mp4Error::TooSmall(name)),
        }
    }

    /// The same atom with another duration.
    pub fn with(&self, duration: u64) -> Vec<u8> {
        let mut content = self.content.to_vec();
        let at = self.duration_at;
        if self.is_wide {
            content[at..at + 8].copy_from_slice(&duration.to_be_bytes());
        } else {
            // A shorter duration fits where the longer one did; an edit list adds less than was cut off.
            content[at..at + 4].copy_from_slice(&(duration as u32).to_be_bytes());
        }
        content
    }
}

/// Milliseconds in ticks.
pub fn ticks(ms: u64, timescale: u32) -> u64 {
    u64::try_from(u128::from(ms) * u128::from(timescale) / 1000).unwrap_or(u64::MAX)
}

/// What is left of a duration whose end is cut off.
pub fn shortened(duration: u64, wanted: &Wanted, timescale: u32) -> u64 {
    match wanted.length_ms {
        0 => duration,
        length => duration.min(ticks(length, timescale)),
    }
}
