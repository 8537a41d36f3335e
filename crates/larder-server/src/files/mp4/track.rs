//! `trak`: the samples of one track, and how its tables are cut.
//!
//! ```text
//! stts  how long each sample lasts      -> which samples lie in the time that is wanted
//! stss  which are key frames            -> the one to begin with
//! stsc  how many samples a chunk has    -> which chunks, and which samples of the first and the last of them
//! stsz  how large each sample is        -> how far into these chunks
//! stco  where each chunk lies           -> which part of the file
//! ```

use std::ops::Range;

use super::atom::{self, Seen, each_in};
use super::table::{self, Table, cut_runs};
use super::times::{Times, shortened, ticks};
use super::{Mp4Error, Wanted};

/// The parts of a track that are kept.
#[derive(Debug, Default)]
pub struct Track<'a> {
    /// `tkhd` with the new length, and that length.
    header: Option<(Vec<u8>, u64)>,
    media: Option<Times<'a>>,
    media_duration: u64,
    handler: Option<&'a [u8]>,
    video: Option<&'a [u8]>,
    sound: Option<&'a [u8]>,
    references: Option<&'a [u8]>,
    descriptions: Option<&'a [u8]>,
    times: Option<Table<'a, 2>>,
    keys: Option<Table<'a, 1>>,
    compositions: Option<Table<'a, 2>>,
    runs: Option<Table<'a, 3>>,
    sizes: Option<Sizes<'a>>,
    chunks: Option<Chunks<'a>>,
}

/// The sizes of the samples.
#[derive(Debug)]
enum Sizes<'a> {
    /// All samples have this size; and their number.
    Uniform {
        flags: [u8; 4],
        bytes: u32,
        count: u32,
    },
    Each(Table<'a, 1>),
}

/// Where the chunks lie in the file.
#[derive(Clone, Copy, Debug)]
enum Chunks<'a> {
    Narrow(Table<'a, 1>),
    Wide(Table<'a, 2>),
}

/// A track that has been written.
pub struct Written {
    /// Where the track's samples begin, and end if that is known; `None` if it has none.
    pub data: Option<Data>,
    /// Where its chunk offsets were written.
    pub offsets: Offsets,
}

/// A part of the file.
pub struct Data {
    /// Where it begins.
    pub start: u64,
    /// Where it ends; `None` at the end of all samples.
    pub end: Option<u64>,
}

/// The chunk offsets in the written bytes. They get their final values when the length of these bytes is known.
pub struct Offsets {
    lie: Range<usize>,
    is_wide: bool,
}

impl Offsets {
    /// Adds `by` to each offset, wrapping at its number of bits.
    pub fn shift(&self, by: u64, out: &mut [u8]) {
        let offsets = &mut out[self.lie.clone()];
        if self.is_wide {
            for offset in offsets.as_chunks_mut::<8>().0 {
                *offset = u64::from_be_bytes(*offset).wrapping_add(by).to_be_bytes();
            }
        } else {
            for offset in offsets.as_chunks_mut::<4>().0 {
                *offset = u32::from_be_bytes(*offset).wrapping_add(by as u32).to_be_bytes();
            }
        }
    }
}

impl<'a> Track<'a> {
    /// Parses the content of `trak`; `None` for a track that ends before the part begins.
    pub fn parse(content: &'a [u8], timescale: u32, wanted: &Wanted) -> Result<Option<Self>, Mp4Error> {
        let mut track = Self::default();
        let mut has_media = false;
        let seen = each_in(content, |name, content| match name {
            b"tkhd" => track.read_header(content, timescale, wanted),
            b"mdia" => once("mdia", &mut has_media).and_then(|()| track.read_media(content, wanted)),
            _ => Ok(Seen::All),
        })?;
        Ok((seen == Seen::All).then_some(track))
    }

    fn read_header(&mut self, content: &'a [u8], timescale: u32, wanted: &Wanted) -> Result<Seen, Mp4Error> {
        // The word before its duration is no timescale; the film's applies.
        let times = Times::parse("tkhd", content, [16, 24], [84, 96])?;
        let start = ticks(wanted.start_ms, timescale);
        let Some(left @ 1..) = times.duration.checked_sub(start) else { return Ok(Seen::Enough) };
        if self.header.is_some() {
            return Err(Mp4Error::Duplicate("tkhd"));
        }
        let duration = shortened(left, wanted, timescale);
        self.header = Some((times.with(duration), duration));
        Ok(Seen::All)
    }

    fn read_media(&mut self, content: &'a [u8], wanted: &Wanted) -> Result<Seen, Mp4Error> {
        let mut has_minf = false;
        each_in(content, |name, content| match name {
            b"mdhd" => {
                let times = Times::parse("mdhd", content, [12, 20], [24, 36])?;
                let start = ticks(wanted.start_ms, times.timescale);
                let Some(left @ 1..) = times.duration.checked_sub(start) else { return Ok(Seen::Enough) };
                self.media_duration = shortened(left, wanted, times.timescale);
                set("mdhd", &mut self.media, times)
            }
            b"hdlr" => set("hdlr", &mut self.handler, content),
            b"minf" => once("minf", &mut has_minf).and_then(|()| self.read_media_information(content)),
            _ => Ok(Seen::All),
        })
    }

    fn read_media_information(&mut self, content: &'a [u8]) -> Result<Seen, Mp4Error> {
        let mut has_stbl = false;
        each_in(content, |name, content| match name {
            b"vmhd" | b"smhd" if self.video.is_some() || self.sound.is_some() => Err(Mp4Error::Duplicate("vmhd/smhd")),
            b"vmhd" => set("vmhd", &mut self.video, content),
            b"smhd" => set("smhd", &mut self.sound, content),
            b"dinf" => set("dinf", &mut self.references, content),
            b"stbl" => once("stbl", &mut has_stbl).and_then(|()| self.read_tables(content)),
            _ => Ok(Seen::All),
        })
    }

    fn read_tables(&mut self, content: &'a [u8]) -> Result<Seen, Mp4Error> {
        each_in(content, |name, content| match name {
            b"stsd" if content.len() < 16 => Err(Mp4Error::TooSmall("stsd")),
            b"stsd" => set("stsd", &mut self.descriptions, content),
            b"stts" => set("stts", &mut self.times, Table::parse("stts", content, 4)?),
            b"stss" => set("stss", &mut self.keys, Table::parse("stss", content, 4)?),
            b"ctts" => set("ctts", &mut self.compositions, Table::parse("ctts", content, 4)?),
            b"stsc" => set("stsc", &mut self.runs, Table::parse("stsc", content, 4)?),
            b"stsz" => set("stsz", &mut self.sizes, Sizes::parse(content)?),
            b"stco" => set("stco/co64", &mut self.chunks, Chunks::Narrow(Table::parse("stco", content, 4)?)),
            b"co64" => set("stco/co64", &mut self.chunks, Chunks::Wide(Table::parse("co64", content, 4)?)),
            _ => Ok(Seen::All),
        })
    }

    /// Writes the requested part, for a file of `len` bytes; offsets are those in the file.
    pub fn write(&self, len: u64, wanted: &Wanted, out: &mut Vec<u8>) -> Result<Written, Mp4Error> {
        let times = self.times.ok_or(Mp4Error::Missing("stts"))?;
        let runs = self.runs.ok_or(Mp4Error::Missing("stsc"))?;
        let chunks = self.chunks.ok_or(Mp4Error::Missing("stco"))?;
        let timescale = self.media.map_or(0, |media| media.timescale);
        let samples = Samples::find(times, self.keys.filter(|_| wanted.from_key_frame), timescale, wanted)?;
        let lie = Lie::find(runs, chunks.len(), &samples)?;
        let data = self.data(&lie, &samples, chunks, len)?;
        atom::write(b"trak", out, |out| {
            if let Some((header, duration)) = &self.header {
                atom::copy(b"tkhd", Some(header), out);
                write_edits(*duration, samples.hidden, out);
            } else {
                write_edits(0, samples.hidden, out);
            }
            atom::write(b"mdia", out, |out| {
                let media = self.media.map(|media| media.with(self.media_duration.saturating_add(samples.hidden)));
                atom::copy(b"mdhd", media.as_deref(), out);
                atom::copy(b"hdlr", self.handler, out);
                atom::write(b"minf", out, |out| {
                    atom::copy(b"vmhd", self.video, out);
                    atom::copy(b"smhd", self.sound, out);
                    atom::copy(b"dinf", self.references, out);
                    atom::write(b"stbl", out, |out| {
                        atom::copy(b"stsd", self.descriptions, out);
                        let count = samples.count();
                        table::write(b"stts", times.flags, cut_runs(times, samples.start, count).into_iter(), out);
                        if let Some(keys) = self.keys {
                            table::write(b"stss", keys.flags, samples.of_those(keys), out);
                        }
                        if let Some(compositions) = self.compositions {
                            let cut = cut_runs(compositions, samples.start, count);
                            if !cut.is_empty() {
                                table::write(b"ctts", compositions.flags, cut.into_iter(), out);
                            }
                        }
                        table::write(b"stsc", runs.flags, lie.runs.iter().copied(), out);
                        if let Some(sizes) = &self.sizes {
                            sizes.write(&samples, out);
                        }
                        let offsets = chunks.write(&lie, data.as_ref().map(|data| data.start), out);
                        Ok(Written { data, offsets })
                    })
                })
            })
        })
    }

    /// The part of the file with the samples; `None` if there are none.
    fn data(&self, lie: &Lie, samples: &Samples, chunks: Chunks<'_>, len: u64) -> Result<Option<Data>, Mp4Error> {
        if let Some(sizes) = &self.sizes {
            if samples.start >= sizes.count() {
                return Err(Mp4Error::StartOut("stsz samples"));
            }
            if samples.end.is_some_and(|end| end > sizes.count()) {
                return Err(Mp4Error::EndOut("stsz samples"));
            }
        }
        let sum = |start: u64, end: u64| self.sizes.as_ref().map_or(0, |sizes| sizes.sum(start, end));
        if lie.chunks.start >= chunks.len() {
            return Err(Mp4Error::StartOut("stco chunks"));
        }
        if lie.chunks.is_empty() {
            return Ok(None);
        }
        let skipped = sum(samples.start.saturating_sub(lie.skipped), samples.start);
        let start = chunks.within(lie.chunks.start, skipped, len)?;
        let Some(end) = samples.end else { return Ok(Some(Data { start, end: None })) };
        let last = lie.chunks.end - 1;
        let end = if last == lie.chunks.start {
            start.saturating_add(sum(samples.start, end))
        } else {
            chunks.within(last, sum(end.saturating_sub(lie.in_last), end), len)?
        };
        if end > len {
            return Err(Mp4Error::Nonsense("too large mp4 end samples size"));
        }
        Ok(Some(Data { start, end: Some(end) }))
    }
}

fn set<T>(name: &'static str, place: &mut Option<T>, value: T) -> Result<Seen, Mp4Error> {
    if place.is_some() {
        return Err(Mp4Error::Duplicate(name));
    }
    *place = Some(value);
    Ok(Seen::All)
}

fn once(name: &'static str, is_there: &mut bool) -> Result<(), Mp4Error> {
    if std::mem::replace(is_there, true) { Err(Mp4Error::Duplicate(name)) } else { Ok(()) }
}

/// Writes an edit list that hides what comes before the start, from the key frame on.
fn write_edits(duration: u64, hidden: u64, out: &mut Vec<u8>) {
    if hidden == 0 {
        return;
    }
    atom::write(b"edts", out, |out| {
        atom::write(b"elst", out, |out| {
            // Version 1, one entry, at the usual speed.
            out.extend_from_slice(&[1, 0, 0, 0, 0, 0, 0, 1]);
            out.extend_from_slice(&duration.to_be_bytes());
            out.extend_from_slice(&hidden.to_be_bytes());
            out.extend_from_slice(&[0, 1, 0, 0]);
        });
    });
}

/// The samples that are sent, counted from 0.
#[derive(Debug)]
struct Samples {
    start: u64,
    /// `None` for all the rest.
    end: Option<u64>,
    /// How many ticks of them come before the requested start.
    hidden: u64,
}

impl Samples {
    fn find(
        times: Table<'_, 2>,
        keys: Option<Table<'_, 1>>,
        timescale: u32,
        wanted: &Wanted,
    ) -> Result<Self, Mp4Error> {
        let start = at_time(times, ticks(wanted.start_ms, timescale)).ok_or(Mp4Error::StartOut("stts samples"))?;
        let key = match keys {
            Some(keys) => key_before(keys, start)?,
            None => start,
        };
        let mut samples = Self { start: key, end: None, hidden: 0 };
        let before: u64 =
            cut_runs(times, key, Some(start - key)).iter().fold(0, |sum, &run| sum.saturating_add(long(run)));
        samples.hidden = before;
        if wanted.length_ms != 0 {
            // From the beginning of the first sent sample on.
            let rest = cut_runs(times, key, None);
            let time = ticks(wanted.length_ms, timescale).saturating_add(before);
            samples.end = Some(key + at_time_in(rest.into_iter(), time).unwrap_or_else(|count| count));
        }
        Ok(samples)
    }

    fn count(&self) -> Option<u64> {
        self.end.map(|end| end - self.start)
    }

    /// The entries of a table of sample numbers, which count from 1, for the samples that are sent.
    fn of_those(&self, keys: Table<'_, 1>) -> impl Iterator<Item = [u32; 1]> {
        let (start, end) = (self.start, self.end.unwrap_or(u64::MAX));
        keys.iter()
            .skip_while(move |[sample]| u64::from(*sample) <= start)
            .take_while(move |[sample]| u64::from(*sample) <= end)
            .map(move |[sample]| [sample.wrapping_sub(start as u32)])
    }
}

/// The duration of a run of samples.
fn long([samples, duration]: [u32; 2]) -> u64 {
    u64::from(samples) * u64::from(duration)
}

/// The sample shown at `time`.
fn at_time(times: Table<'_, 2>, time: u64) -> Option<u64> {
    at_time_in(times.iter(), time).ok()
}

/// The sample shown at `time`; the number of all samples if all have ended by then.
fn at_time_in(runs: impl Iterator<Item = [u32; 2]>, time: u64) -> Result<u64, u64> {
    let mut time = time;
    let mut sample = 0u64;
    for run @ [samples, duration] in runs {
        if time < long(run) {
            return Ok(sample + time / u64::from(duration));
        }
        time -= long(run);
        sample += u64::from(samples);
    }
    Err(sample)
}

/// The last key frame up to `sample`; `sample` itself if there is none.
fn key_before(keys: Table<'_, 1>, sample: u64) -> Result<u64, Mp4Error> {
    let mut key = sample;
    for [number] in keys.iter() {
        // Key frames are counted from 1.
        let number = u64::from(number).checked_sub(1).ok_or(Mp4Error::Nonsense("zero mp4 sync sample"))?;
        if number > sample {
            break;
        }
        key = number;
    }
    Ok(key)
}

/// The chunks that hold the samples.
#[derive(Debug)]
struct Lie {
    /// The chunks, counted from 0; there may be none.
    chunks: Range<u64>,
    /// How many samples of the first chunk are not sent.
    skipped: u64,
    /// How many samples of the last chunk are sent.
    in_last: u64,
    /// The runs of equal chunks, as they are written.
    runs: Vec<[u32; 3]>,
}

impl Lie {
    fn find(runs: Table<'_, 3>, chunks: u64, samples: &Samples) -> Result<Self, Mp4Error> {
        if runs.len() == 0 {
            return Err(Mp4Error::Missing("stsc"));
        }
        let (first, skipped) = in_chunk(runs, chunks, samples.start)?.ok_or(Mp4Error::StartOut("stsc chunks"))?;
        let (end, rest) = match samples.end {
            None => (chunks, 0),
            Some(end) if end == samples.start => (first, 0),
            Some(end) => in_chunk(runs, chunks, end)?.ok_or(Mp4Error::EndOut("stsc chunks"))?,
        };
        let end = if rest > 0 { end + 1 } else { end };
        let mut lie = Self { chunks: first..end, skipped, in_last: rest, runs: Vec::new() };
        for (part, [_, samples, id]) in each_run(runs, chunks) {
            let mut from = part.start.max(first);
            let to = part.end.min(end);
            if from >= to {
                continue;
            }
            let of_last = if to == end && rest > 0 { rest } else { u64::from(samples) };
            if to == end {
                lie.in_last = of_last;
            }
            if from == first && skipped > 0 {
                let until = if to == from + 1 { of_last } else { u64::from(samples) };
                lie.push(from, until.saturating_sub(skipped), id);
                from += 1;
            }
            if from < to && of_last < u64::from(samples) {
                if from < to - 1 {
                    lie.push(from, samples.into(), id);
                }
                lie.push(to - 1, of_last, id);
            } else if from < to {
                lie.push(from, samples.into(), id);
            }
        }
        Ok(lie)
    }

    fn push(&mut self, chunk: u64, samples: u64, id: u32) {
        // All of these are parts of 32-bit numbers; the first chunk is 1.
        self.runs.push([(chunk - self.chunks.start + 1) as u32, samples as u32, id]);
    }
}

/// The chunks of each run, counted from 0, and the run's entry.
fn each_run(runs: Table<'_, 3>, chunks: u64) -> impl Iterator<Item = (Range<u64>, [u32; 3])> {
    let next = runs.iter().skip(1).map(|[chunk, ..]| u64::from(chunk)).chain(std::iter::once(chunks + 1));
    runs.iter().zip(next).map(|(entry, next)| (u64::from(entry[0]).saturating_sub(1)..next.saturating_sub(1), entry))
}

/// The chunk of a sample, counted from 0, and how many of its samples come before it. One past the last sample is one
/// past the last chunk; `None` beyond that.
fn in_chunk(runs: Table<'_, 3>, chunks: u64, sample: u64) -> Result<Option<(u64, u64)>, Mp4Error> {
    let mut left = sample;
    let mut end = None;
    for (part, [chunk, samples, _]) in each_run(runs, chunks) {
        if part.end < part.start {
            return Err(Mp4Error::Nonsense("unordered mp4 stsc chunks"));
        }
        let samples = u64::from(samples);
        let count = (part.end - part.start).saturating_mul(samples);
        end = Some(part.end);
        if left >= count {
            left -= count;
            continue;
        }
        if chunk == 0 {
            return Err(Mp4Error::Nonsense("zero chunk in mp4 stsc"));
        }
        // This is less than their product, so neither is 0.
        return Ok(Some((part.start + left / samples, left % samples)));
    }
    Ok(end.filter(|_| left == 0).map(|end| (end, 0)))
}

impl<'a> Sizes<'a> {
    fn parse(content: &'a [u8]) -> Result<Self, Mp4Error> {
        let too_small = Mp4Error::TooSmall("stsz");
        let (Some(flags), Some(bytes), Some(count)) =
            (atom::array_at(content, 0), atom::u32_at(content, 4), atom::u32_at(content, 8))
        else {
            return Err(too_small);
        };
        match bytes {
            0 => Table::parse("stsz", content, 8).map(Self::Each),
            bytes => Ok(Self::Uniform { flags, bytes, count }),
        }
    }

    fn count(&self) -> u64 {
        match self {
            Self::Uniform { count, .. } => u64::from(*count),
            Self::Each(table) => table.len() as u64,
        }
    }

    /// The total size of the samples from `start` up to `end`, without that.
    fn sum(&self, start: u64, end: u64) -> u64 {
        match self {
            Self::Uniform { bytes, .. } => u64::from(*bytes).saturating_mul(end.saturating_sub(start)),
            Self::Each(table) => table.range(start, end).map(|[bytes]| u64::from(bytes)).sum(),
        }
    }

    fn write(&self, samples: &Samples, out: &mut Vec<u8>) {
        let end = samples.end.unwrap_or(u64::MAX).min(self.count());
        let count = end.saturating_sub(samples.start) as u32;
        atom::write(b"stsz", out, |out| match self {
            Self::Uniform { flags, bytes, .. } => {
                out.extend_from_slice(flags);
                out.extend_from_slice(&bytes.to_be_bytes());
                out.extend_from_slice(&count.to_be_bytes());
            }
            Self::Each(table) => {
                out.extend_from_slice(&table.flags);
                out.extend_from_slice(&[0; 4]);
                out.extend_from_slice(&count.to_be_bytes());
                for [bytes] in table.range(samples.start, end) {
                    out.extend_from_slice(&bytes.to_be_bytes());
                }
            }
        });
    }
}

impl Chunks<'_> {
    fn len(self) -> u64 {
        match self {
            Self::Narrow(table) => table.len() as u64,
            Self::Wide(table) => table.len() as u64,
        }
    }

    fn offset(self, chunk: u64) -> Option<u64> {
        match self {
            Self::Narrow(table) => table.get(chunk).map(|[offset]| u64::from(offset)),
            Self::Wide(table) => table.get(chunk).map(|[high, low]| u64::from(high) << 32 | u64::from(low)),
        }
    }

    /// The place `bytes` into a chunk, within a file of `len` bytes.
    fn within(self, chunk: u64, bytes: u64, len: u64) -> Result<u64, Mp4Error> {
        let at = self.offset(chunk).ok_or(Mp4Error::EndOut("stco chunks"))?.saturating_add(bytes);
        let max = match self {
            Self::Narrow(_) => len.min(u64::from(u32::MAX)),
            Self::Wide(_) => len,
        };
        if at > max { Err(Mp4Error::Nonsense("too large mp4 chunk offset")) } else { Ok(at) }
    }

    /// Writes the table; the first chunk begins at `start`.
    fn write(self, lie: &Lie, start: Option<u64>, out: &mut Vec<u8>) -> Offsets {
        let (first, end) = (lie.chunks.start, lie.chunks.end.max(lie.chunks.start));
        let is_wide = matches!(self, Self::Wide(_));
        let entry_bytes = if is_wide { 8 } else { 4 };
        match self {
            Self::Narrow(table) => table::write(b"stco", table.flags, table.range(first, end), out),
            Self::Wide(table) => table::write(b"co64", table.flags, table.range(first, end), out),
        }
        let bytes = usize::try_from((end.min(self.len()) - first.min(self.len())) * entry_bytes).unwrap_or(0);
        let lie = out.len() - bytes..out.len();
        if let Some(start) = start
            && let Some(offset) = out.get_mut(lie.start..lie.start + entry_bytes as usize)
        {
            let start = start.to_be_bytes();
            offset.copy_from_slice(&start[8 - entry_bytes as usize..]);
        }
        Offsets { lie, is_wide }
    }
}
