//! `moov`: the length of the film, and its tracks. What a player does not need is left out.

use super::atom::{self, Seen, each_in};
use super::times::{Times, shortened, ticks};
use super::track::Track;
use super::{Cut, Mp4Error, Places, Wanted};

/// The parts of `moov` that are kept.
#[derive(Debug)]
pub struct Movie<'a> {
    /// `mvhd`, with the new length.
    header: Option<Vec<u8>>,
    tracks: Vec<Track<'a>>,
}

impl<'a> Movie<'a> {
    /// Parses the content of `moov`.
    pub fn parse(moov: &'a [u8], wanted: &Wanted) -> Result<Self, Mp4Error> {
        let mut movie = Self { header: None, tracks: Vec::new() };
        // Ticks a second, for everything but the tracks' own times.
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

    /// Cuts the tracks, and writes all that goes before the samples.
    pub fn write(&self, places: &Places, len: u64, wanted: &Wanted) -> Result<Cut, Mp4Error> {
        let mut out = Vec::new();
        atom::copy(b"ftyp", places.ftyp.as_deref(), &mut out);
        let mut offsets = Vec::with_capacity(self.tracks.len());
        // The part of the file with the samples of all tracks.
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
        // The byte at `start` of the file follows directly after all of this.
        let moved = (out.len() as u64).wrapping_sub(start);
        for offsets in offsets {
            offsets.shift(moved, &mut out);
        }
        Ok(Cut::Part(out, start..end))
    }
}
