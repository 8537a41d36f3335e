//! How long a film and its tracks are, and how much of that is left.

use super::atom::{u32_at, u64_at};
use super::{Mp4Error, Wanted};

/// An atom that says how long something is: `mvhd`, `tkhd`, `mdhd`. Version 1 of each has times of 64 bits.
#[derive(Clone, Copy, Debug)]
pub struct Times<'a> {
    content: &'a [u8],
    /// How many ticks a second has, where it says that.
    pub timescale: u32,
    /// How many ticks it lasts.
    pub duration: u64,
    duration_at: usize,
    is_wide: bool,
}

impl<'a> Times<'a> {
    /// Reads one of which, in versions 0 and 1, the word before the duration is at `at` and which has at least `bytes`.
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
            // Shortened, it fits where it did before; and an edit list adds less than what was taken away.
            content[at..at + 4].copy_from_slice(&(duration as u32).to_be_bytes());
        }
        content
    }
}

/// So many milliseconds in ticks.
pub fn ticks(ms: u64, timescale: u32) -> u64 {
    u64::try_from(u128::from(ms) * u128::from(timescale) / 1000).unwrap_or(u64::MAX)
}

/// What is left of a duration that is cut at its end.
pub fn shortened(duration: u64, wanted: &Wanted, timescale: u32) -> u64 {
    match wanted.length_ms {
        0 => duration,
        length => duration.min(ticks(length, timescale)),
    }
}
