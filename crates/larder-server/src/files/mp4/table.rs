//! The tables of a track: a number of entries, then the entries, each of several 32-bit numbers.

use super::Mp4Error;
use super::atom::{self, u32_at};

/// A table whose entries have `N` numbers.
#[derive(Clone, Copy, Debug)]
pub struct Table<'a, const N: usize> {
    /// Version and flags, which are kept.
    pub flags: [u8; 4],
    entries: &'a [[u8; 4]],
}

impl<'a, const N: usize> Table<'a, N> {
    /// Parses the table in the atom `name`; the number of entries is at `count_at`.
    pub fn parse(name: &'static str, content: &'a [u8], count_at: usize) -> Result<Self, Mp4Error> {
        let too_small = Mp4Error::TooSmall(name);
        let (Some(flags), Some(count)) = (atom::array_at(content, 0), u32_at(content, count_at)) else {
            return Err(too_small);
        };
        let numbers = content[count_at + 4..].as_chunks::<4>().0;
        let wanted = u64::from(count) * N as u64;
        match usize::try_from(wanted).ok().and_then(|wanted| numbers.get(..wanted)) {
            Some(entries) => Ok(Self { flags, entries }),
            None => Err(too_small),
        }
    }

    /// The number of entries.
    pub fn len(self) -> usize {
        self.entries.len() / N
    }

    /// The entries, in order.
    pub fn iter(self) -> impl Iterator<Item = [u32; N]> + use<'a, N> {
        self.entries.as_chunks::<N>().0.iter().map(|entry| entry.map(u32::from_be_bytes))
    }

    /// The entry at `index`.
    pub fn get(self, index: u64) -> Option<[u32; N]> {
        let index = usize::try_from(index).ok()?;
        self.entries.as_chunks::<N>().0.get(index).map(|entry| entry.map(u32::from_be_bytes))
    }

    /// The entries from `start` up to `end`, without that, as far as there are any.
    pub fn range(self, start: u64, end: u64) -> impl Iterator<Item = [u32; N]> + use<'a, N> {
        let end = usize::try_from(end).unwrap_or(usize::MAX).min(self.len());
        let start = usize::try_from(start).unwrap_or(usize::MAX).min(end);
        self.entries.as_chunks::<N>().0[start..end].iter().map(|entry| entry.map(u32::from_be_bytes))
    }
}

/// Writes a table.
pub fn write<const N: usize>(
    name: &[u8; 4],
    flags: [u8; 4],
    entries: impl Iterator<Item = [u32; N]>,
    out: &mut Vec<u8>,
) {
    atom::write(name, out, |out| {
        out.extend_from_slice(&flags);
        let at = out.len();
        out.extend_from_slice(&[0; 4]);
        let mut count = 0u32;
        for entry in entries {
            for number in entry {
                out.extend_from_slice(&number.to_be_bytes());
            }
            count += 1;
        }
        out[at..at + 4].copy_from_slice(&count.to_be_bytes());
    });
}

/// Cuts a table of runs, each with a number of samples and a value, to `count` samples from `start` on, or to all. As
/// in nginx, the last run may have 0 samples. The result is empty if the table ends before `start`.
pub fn cut_runs(table: Table<'_, 2>, start: u64, count: Option<u64>) -> Vec<[u32; 2]> {
    let mut runs = table.iter();
    let mut skip = start;
    let first = runs.by_ref().find_map(|[samples, value]| match u64::from(samples).checked_sub(skip) {
        // The rest of a run is not longer than the run.
        Some(rest @ 1..) => Some([rest as u32, value]),
        Some(0) | None => {
            skip -= u64::from(samples);
            None
        }
    });
    let mut left = count.unwrap_or(u64::MAX);
    let mut cut = Vec::new();
    for [samples, value] in first.into_iter().chain(runs) {
        if left < u64::from(samples) {
            cut.push([left as u32, value]);
            break;
        }
        left -= u64::from(samples);
        cut.push([samples, value]);
    }
    cut
}
