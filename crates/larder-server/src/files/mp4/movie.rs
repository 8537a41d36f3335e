//! `moov`: how long the film is, and its tracks. What a player does not need to show it is left out.

use super::atom::{self, Seen, each_in, u32_at, u64_at};
use super::track::Track;
use super::{Cut, Mp4Error, Places, Wanted};

/// What is kept of `moov`.
#[derive(Debug)]
pub struct Movie<'a> {
    /// `mvhd`, of the new length.
    header: Option<Vec<u8>>,
    tracks: Vec<Track<'a>>,
}

impl<'a> Movie<'a> {
    /// Reads what is in `moov`.
    pub fn parse(moov: &'a [u8], wanted: &Wanted) -> Result<Self, Mp4Error> {
        let mut movie = Self { header: None, tracks: Vec::new() };
        // How many ticks a second has, for all that is not a track's own.
        let mut timescale = 0;
        each_in(moov, |name, content| {
            match name {
                b"mvhd" if movie.header.is_some() => return Err(Mp4Error::Duplicate("mvhd")),
                b"mvhd" => {
                    let times = Times::parse("mvhd", content, [12, 20], [100, 112])?;
                    timescale = times.timescale;
                    let start = ticks(wanted.start_ms, timescale);
                    let left = times.duration.checked_sub(start).ok_or(Mp4Error::StartTooLate)?;
                    movie.header = Some(times.with(shortened(left, wanted, timescale)));
                }
                b"trak" => movie.tracks.extend(Track::parse(content, timescale, wanted)?),
                b"cmov" => return Err(Mp4Error::Compressed),
                _ => {}
            }
            Ok(Seen::All)
        })?;
        if movie.tracks.is_empty() { Err(Mp4Error::Missing("trak")) } else { Ok(movie) }
    }

    /// Cuts the tracks and writes all that goes before the samples.
    pub fn write(&self, places: &Places, len: u64, wanted: &Wanted) -> Result<Cut, Mp4Error> {
        let mut out = Vec::new();
        atom::copy(b"ftyp", places.ftyp.as_deref(), &mut out);
        let mut offsets = Vec::with_capacity(self.tracks.len());
        // Where in the file the samples of all tracks lie.
        let (mut start, mut end) = (len, 0);
        atom::write(b"moov", &mut out, |out| {
            atom::copy(b"mvhd", self.header.as_deref(), out);
            for track in &self.tracks {
                let written = track.write(len, wanted, out)?;
                if let Some(data) = written.data {
                    start = start.min(data.start);
                    end = end.max(data.end.unwrap_or(places.data_end));
                }
                offsets.push(written.offsets);
            }
            Ok::<(), Mp4Error>(())
        })?;
        if end <= start {
            return Err(Mp4Error::Empty);
        }
        if start >= places.data_end {
            return Err(Mp4Error::StartOut("mdat atom"));
        }
        match u32::try_from(end - start + 8) {
            Ok(size) => {
                out.extend_from_slice(&size.to_be_bytes());
                out.extend_from_slice(b"mdat");
            }
            Err(_) => {
                out.extend_from_slice(b"\0\0\0\x01mdat");
                out.extend_from_slice(&(end - start + 16).to_be_bytes());
            }
        }
        // What lay at `start` comes right behind all of this.
        let moved = (out.len() as u64).wrapping_sub(start);
        for offsets in offsets {
            offsets.shift(moved, &mut out);
        }
        Ok(Cut::Part(out, start..end))
    }
}

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
