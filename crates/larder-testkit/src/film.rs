//! MP4 films of known samples, written and read by hand: what a server makes of one can be held against what was in it.

/// A sample: a picture, or some sound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// How many ticks of its track it lasts.
    pub duration: u32,
    /// How many ticks after its turn it is shown.
    pub offset: u32,
    /// Whether it can be shown without those before it.
    pub is_key: bool,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// A track.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Track {
    /// How many ticks a second has.
    pub timescale: u32,
    /// Its samples.
    pub samples: Vec<Sample>,
    /// How many of them lie in each chunk; the last says it for all that follow.
    pub per_chunk: Vec<usize>,
    /// How many ticks at the beginning are hidden by an edit list.
    pub hidden: u64,
}

/// How a film is written.
#[derive(Clone, Copy, Debug, Default)]
pub struct Layout {
    /// `mdat` before `moov`.
    pub data_first: bool,
    /// `co64` and the atoms of version 1.
    pub is_wide: bool,
    /// `mdat` has a size of 64 bits.
    pub long_sizes: bool,
    /// All samples of a track are as large as its first, and `stsz` says so once.
    pub is_uniform: bool,
    /// A composition offset for each sample.
    pub has_offsets: bool,
    /// Atoms that nobody asked for, between the others.
    pub has_extras: bool,
}

/// A film.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Film {
    /// How many ticks a second of the whole has.
    pub timescale: u32,
    /// Its tracks.
    pub tracks: Vec<Track>,
}

impl Film {
    /// A film of so many seconds: pictures of different sizes, four a second, every fifth of which is a key frame, and
    /// sound, ten a second.
    pub fn of_seconds(seconds: usize) -> Self {
        let pictures = (0..seconds * 4).map(|number| Sample {
            duration: if number % 8 == 3 { 300 } else { 250 },
            offset: (number % 3) as u32 * 250,
            is_key: number % 5 == 0,
            bytes: marked(b'p', number, 20 + number % 7 * 5),
        });
        let sounds = (0..seconds * 10).map(|number| Sample {
            duration: 4410,
            offset: 0,
            is_key: true,
            bytes: marked(b's', number, 16),
        });
        let track = |timescale, samples, per_chunk: &[usize]| Track {
            timescale,
            samples,
            per_chunk: per_chunk.to_vec(),
            hidden: 0,
        };
        Self {
            timescale: 1000,
            tracks: vec![track(1000, pictures.collect(), &[3, 3, 5, 4, 4, 1]), track(44100, sounds.collect(), &[7])],
        }
    }

    /// The film as a file.
    pub fn write(&self, layout: Layout) -> Vec<u8> {
        let ftyp = atom(b"ftyp", &[b"isom\0\0\x02\0isommp41"]);
        let free = if layout.has_extras { atom(b"free", &[b"nothing"]) } else { Vec::new() };
        let data_head = if layout.long_sizes { 16 } else { 8 };
        let data: Vec<u8> = self.tracks.iter().flat_map(Track::data).collect();
        // The length of `moov` does not depend on where the data is.
        let moov_bytes = self.moov(0, layout).len();
        let before = ftyp.len() + free.len() + if layout.data_first { 0 } else { moov_bytes };
        let moov = self.moov(before + data_head, layout);
        let mdat = if layout.long_sizes {
            [&[0, 0, 0, 1], &b"mdat"[..], &(data.len() as u64 + 16).to_be_bytes(), &data].concat()
        } else {
            atom(b"mdat", &[&data])
        };
        match layout.data_first {
            true => [ftyp, free, mdat, moov].concat(),
            false => [ftyp, free, moov, mdat].concat(),
        }
    }

    fn moov(&self, data_at: usize, layout: Layout) -> Vec<u8> {
        let longest = self.tracks.iter().map(|track| self.scaled(track)).max().unwrap_or(0);
        let mvhd = atom(b"mvhd", &[&times(longest, &self.timescale.to_be_bytes(), 80, layout.is_wide)]);
        let mut at = data_at;
        let mut all = mvhd;
        if layout.has_extras {
            all.extend(atom(b"udta", &[b"about this film"]));
        }
        for track in &self.tracks {
            all.extend(track.trak(self.scaled(track), at, layout));
            at += track.data().len();
        }
        atom(b"moov", &[&all])
    }

    fn scaled(&self, track: &Track) -> u64 {
        track.duration() * u64::from(self.timescale) / u64::from(track.timescale)
    }

    /// Reads a film, as a player would; `None` for what is none.
    pub fn read(file: &[u8]) -> Option<Self> {
        let moov = find(file, b"moov")?;
        let mvhd = find(moov, b"mvhd")?;
        let timescale = number(mvhd, if mvhd[0] == 0 { 12 } else { 20 })?;
        let tracks = list(moov).into_iter().filter(|(name, _)| name == b"trak");
        let tracks: Option<Vec<Track>> = tracks.map(|(_, content)| Track::read(content, file)).collect();
        Some(Self { timescale, tracks: tracks? })
    }
}

impl Track {
    /// How many ticks it lasts.
    pub fn duration(&self) -> u64 {
        self.samples.iter().map(|sample| u64::from(sample.duration)).sum()
    }

    fn data(&self) -> Vec<u8> {
        self.samples.iter().flat_map(|sample| sample.bytes.clone()).collect()
    }

    fn trak(&self, duration: u64, data_at: usize, layout: Layout) -> Vec<u8> {
        let tkhd = atom(b"tkhd", &[&times(duration, &[0, 0, 0, 1, 0, 0, 0, 0], 60, layout.is_wide)]);
        let mdhd = atom(b"mdhd", &[&times(self.duration(), &self.timescale.to_be_bytes(), 4, layout.is_wide)]);
        let hdlr = atom(b"hdlr", &[b"\0\0\0\0\0\0\0\0vide and a name\0"]);
        let vmhd = atom(b"vmhd", &[b"\0\0\0\x01\0\0\0\0\0\0\0\0"]);
        let dinf = atom(b"dinf", &[&atom(b"dref", &[b"\0\0\0\0\0\0\0\0"])]);
        let extra = if layout.has_extras { atom(b"edts", &[&atom(b"elst", &[&[0; 8]])]) } else { Vec::new() };
        let minf = atom(b"minf", &[&vmhd, &dinf, &self.tables(data_at, layout)]);
        atom(b"trak", &[&tkhd, &extra, &atom(b"mdia", &[&mdhd, &hdlr, &minf])])
    }

    fn tables(&self, data_at: usize, layout: Layout) -> Vec<u8> {
        let stsd = atom(b"stsd", &[b"\0\0\0\0\0\0\0\x01\0\0\0\x10avc1\0\0\0\0\0\0\0\x01"]);
        let stts = table(b"stts", runs(self.samples.iter().map(|sample| sample.duration)));
        let keys = (1..).zip(&self.samples).filter(|(_, sample)| sample.is_key).map(|(number, _)| number);
        let stss = match self.samples.iter().all(|sample| sample.is_key) {
            true => Vec::new(),
            false => table(b"stss", keys.map(|number| vec![number]).collect()),
        };
        let ctts = match layout.has_offsets {
            true => table(b"ctts", runs(self.samples.iter().map(|sample| sample.offset))),
            false => Vec::new(),
        };
        let chunks = self.chunks();
        let counts = chunks.iter().map(|chunk| chunk.len() as u32);
        let mut first = 1;
        let stsc = runs(counts).into_iter().map(|run| {
            let entry = vec![first, run[1], 1];
            first += run[0];
            entry
        });
        let stsc = table(b"stsc", stsc.collect());
        let sizes = self.samples.iter().map(|sample| sample.bytes.len() as u32);
        let count = (self.samples.len() as u32).to_be_bytes();
        let uniform = if layout.is_uniform { self.samples.first().map_or(0, |s| s.bytes.len() as u32) } else { 0 };
        let each: Vec<u8> = sizes.flat_map(u32::to_be_bytes).collect();
        let each = if layout.is_uniform { &[][..] } else { &each };
        let stsz = atom(b"stsz", &[&[0; 4], &uniform.to_be_bytes(), &count, each]);
        let mut at = data_at as u64;
        let offsets = chunks.iter().map(|chunk| {
            let offset = at;
            at += chunk.iter().map(|sample| sample.bytes.len() as u64).sum::<u64>();
            offset
        });
        let places = match layout.is_wide {
            true => table(b"co64", offsets.map(|at| vec![(at >> 32) as u32, at as u32]).collect()),
            false => table(b"stco", offsets.map(|at| vec![at as u32]).collect()),
        };
        atom(b"stbl", &[&stsd, &stts, &stss, &ctts, &stsc, &stsz, &places])
    }

    fn chunks(&self) -> Vec<&[Sample]> {
        let mut rest = &self.samples[..];
        let mut chunks = Vec::new();
        let mut counts = self.per_chunk.iter();
        let mut count = 1;
        while !rest.is_empty() {
            count = counts.next().copied().unwrap_or(count);
            let (chunk, after) = rest.split_at(count.min(rest.len()));
            chunks.push(chunk);
            rest = after;
        }
        chunks
    }

    fn read(trak: &[u8], file: &[u8]) -> Option<Self> {
        let mdia = find(trak, b"mdia")?;
        let mdhd = find(mdia, b"mdhd")?;
        let stbl = find(find(mdia, b"minf")?, b"stbl")?;
        let durations = unrolled(find(stbl, b"stts")?)?;
        let offsets = find(stbl, b"ctts").and_then(unrolled);
        let keys = find(stbl, b"stss").map(|stss| numbers(&stss[8..]));
        let stsz = find(stbl, b"stsz")?;
        let count = number(stsz, 8)? as usize;
        let sizes = match number(stsz, 4)? {
            0 => numbers(&stsz[12..]),
            size => vec![size; count],
        };
        let chunks: Vec<u64> = match (find(stbl, b"stco"), find(stbl, b"co64")) {
            (Some(stco), None) => numbers(&stco[8..]).into_iter().map(u64::from).collect(),
            (None, Some(co64)) => {
                co64[8..].chunks_exact(8).map(|at| u64::from_be_bytes(at.try_into().unwrap_or_default())).collect()
            }
            _ => return None,
        };
        let runs = numbers(&find(stbl, b"stsc")?[8..]);
        let runs: Vec<&[u32]> = runs.chunks_exact(3).collect();
        if durations.len() != count || sizes.len() != count {
            return None;
        }
        let mut per_chunk = Vec::new();
        let mut samples = Vec::new();
        for (chunk, offset) in (1..).zip(chunks) {
            let run = runs.iter().rev().find(|run| run[0] <= chunk)?;
            per_chunk.push(run[1] as usize);
            let mut at = usize::try_from(offset).ok()?;
            for _ in 0..run[1] {
                let index = samples.len();
                let size = *sizes.get(index)? as usize;
                samples.push(Sample {
                    duration: *durations.get(index)?,
                    offset: offsets.as_ref().map_or(Some(0), |offsets| offsets.get(index).copied())?,
                    is_key: keys.as_ref().is_none_or(|keys| keys.contains(&(index as u32 + 1))),
                    bytes: file.get(at..at + size)?.to_vec(),
                });
                at += size;
            }
        }
        let hidden = find(trak, b"edts").and_then(|edts| find(edts, b"elst"));
        let hidden = hidden.filter(|elst| elst.len() >= 28).map_or(0, |elst| u64::from(number(elst, 20).unwrap_or(0)));
        let timescale = number(mdhd, if mdhd[0] == 0 { 12 } else { 20 })?;
        (samples.len() == count).then_some(Self { timescale, samples, per_chunk, hidden })
    }
}

/// Bytes that say whose they are.
fn marked(kind: u8, number: usize, len: usize) -> Vec<u8> {
    let mark = format!("{}{number:05}", char::from(kind));
    mark.bytes().chain(std::iter::repeat(b'.')).take(len).collect()
}

/// An atom.
pub fn atom(name: &[u8; 4], parts: &[&[u8]]) -> Vec<u8> {
    let content = parts.concat();
    [&(content.len() as u32 + 8).to_be_bytes()[..], name, &content].concat()
}

fn times(duration: u64, before: &[u8], after: usize, is_wide: bool) -> Vec<u8> {
    let after = vec![0; after];
    match is_wide {
        true => [&[1, 0, 0, 0], &[0; 16][..], before, &duration.to_be_bytes(), &after].concat(),
        false => [&[0; 4], &[0; 8][..], before, &(duration as u32).to_be_bytes(), &after].concat(),
    }
}

fn table(name: &[u8; 4], entries: Vec<Vec<u32>>) -> Vec<u8> {
    let count = (entries.len() as u32).to_be_bytes();
    let entries: Vec<u8> = entries.concat().into_iter().flat_map(u32::to_be_bytes).collect();
    atom(name, &[&[0; 4], &count, &entries])
}

/// How often each value comes in a row, and the value.
fn runs(values: impl Iterator<Item = u32>) -> Vec<Vec<u32>> {
    let mut runs: Vec<Vec<u32>> = Vec::new();
    for value in values {
        match runs.last_mut() {
            Some(run) if run[1] == value => run[0] += 1,
            _ => runs.push(vec![1, value]),
        }
    }
    runs
}

fn unrolled(table: &[u8]) -> Option<Vec<u32>> {
    let numbers = numbers(table.get(8..)?);
    Some(numbers.chunks_exact(2).flat_map(|run| std::iter::repeat_n(run[1], run[0] as usize)).collect())
}

fn numbers(bytes: &[u8]) -> Vec<u32> {
    bytes.chunks_exact(4).map(|number| u32::from_be_bytes(number.try_into().unwrap_or_default())).collect()
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4)?.try_into().ok().map(u32::from_be_bytes)
}

fn list(bytes: &[u8]) -> Vec<([u8; 4], &[u8])> {
    let mut atoms = Vec::new();
    let mut rest = bytes;
    while let (Some(size), Some(name)) = (number(rest, 0), rest.get(4..8)) {
        let (head, size) = match size {
            1 => (16, rest.get(8..16).map_or(0, |size| u64::from_be_bytes(size.try_into().unwrap_or_default()))),
            size => (8, u64::from(size)),
        };
        let Some(content) = rest.get(head..size as usize) else { break };
        atoms.push((name.try_into().unwrap_or_default(), content));
        rest = &rest[size as usize..];
    }
    atoms
}

fn find<'a>(bytes: &'a [u8], wanted: &[u8; 4]) -> Option<&'a [u8]> {
    list(bytes).into_iter().find(|(name, _)| name == wanted).map(|(_, content)| content)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let film = Film::of_seconds(3);
        for (data_first, is_wide) in [(false, false), (true, false), (false, true), (true, true)] {
            let layout = Layout {
                data_first,
                is_wide,
                long_sizes: is_wide,
                has_offsets: true,
                has_extras: true,
                ..Layout::default()
            };
            let read = Film::read(&film.write(layout)).unwrap();
            let samples = |film: &Film| film.tracks.iter().map(|track| track.samples.clone()).collect::<Vec<_>>();
            assert_eq!(samples(&read), samples(&film));
        }
    }
}
