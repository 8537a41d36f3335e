//! Traces of requests, read from files, with sizes and times drawn where a file has none.

use std::collections::HashMap;
use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;

use super::ReplayError;

/// What is asked for: a page, and what it takes to keep and to make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Thing {
    /// Tells it from others; spread over all bits.
    pub id: u64,
    /// The bytes it takes.
    pub bytes: u64,
    /// The microseconds that the origin takes to make it.
    pub micros: u32,
}

/// Requests in the order of their coming.
#[derive(Debug)]
pub struct Trace {
    /// Where it is from.
    pub name: String,
    things: Vec<Thing>,
    requests: Vec<u32>,
}

impl Trace {
    /// Requests for keys, with the bytes of the answer where they are known. The rest is drawn from the key.
    ///
    /// An answer of another size is another thing: a page that changed, or in another form.
    pub fn of(name: &str, requests: impl Iterator<Item = (u64, Option<u64>)>) -> Trace {
        let mut places = HashMap::new();
        let mut trace = Trace { name: name.to_owned(), things: Vec::new(), requests: Vec::new() };
        for (key, bytes) in requests {
            let at = *places.entry((key, bytes)).or_insert_with(|| {
                trace.things.push(thing(key, bytes));
                trace.things.len() as u32 - 1
            });
            trace.requests.push(at);
        }
        trace
    }

    /// What is asked for, request by request.
    pub fn requests(&self) -> impl Iterator<Item = &Thing> {
        self.requests.iter().filter_map(|&at| self.things.get(at as usize))
    }

    /// The number of requests.
    pub fn len(&self) -> usize {
        self.requests.len()
    }

    /// The number of things.
    pub fn things_len(&self) -> usize {
        self.things.len()
    }

    /// The bytes of all things.
    pub fn footprint(&self) -> u64 {
        self.things.iter().map(|thing| thing.bytes).sum()
    }

    /// The misses of a cache in which everything fits: the first request of each thing.
    pub fn firsts(&self) -> super::Misses {
        let mut seen = HashSet::new();
        super::misses(self, |thing| seen.insert(thing.id))
    }
}

/// Reads a file: lines of `time id size`, or 32-bit big-endian keys; packed by xz if its name ends in `.xz`.
pub fn read(path: &Path) -> Result<Trace, ReplayError> {
    let read = |source| ReplayError::Read { path: path.to_path_buf(), source };
    let bytes = match path.extension() {
        Some(end) if end == "xz" => unpacked(path).map_err(read)?,
        _ => fs::read(path).map_err(read)?,
    };
    parse(&name_of(path), &bytes).map_err(|fact| ReplayError::Form { path: path.to_path_buf(), fact })
}

fn name_of(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.trim_end_matches(".xz").trim_end_matches(".trace").to_owned()
}

fn unpacked(path: &Path) -> io::Result<Vec<u8>> {
    let output = Command::new("xz").arg("-dc").arg(path).output()?;
    if !output.status.success() {
        return Err(io::Error::other(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
    }
    Ok(output.stdout)
}

fn parse(name: &str, bytes: &[u8]) -> Result<Trace, String> {
    let is_text = bytes.iter().all(|byte| byte.is_ascii_digit() || byte.is_ascii_whitespace());
    if !is_text {
        let (keys, rest) = bytes.as_chunks::<4>();
        if !rest.is_empty() {
            return Err(format!("{} bytes, which are neither lines of numbers nor keys of four bytes", bytes.len()));
        }
        return Ok(Trace::of(name, keys.iter().map(|key| (u64::from(u32::from_be_bytes(*key)), None))));
    }
    let text = str::from_utf8(bytes).map_err(|error| error.to_string())?;
    let mut requests = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let request = match words[..] {
            [_, id, size] => id.parse().ok().zip(size.parse().ok()),
            _ => None,
        };
        let (id, size) = request.ok_or_else(|| format!("line {} is not `time id size`", index + 1))?;
        requests.push((id, Some(size)));
    }
    Ok(Trace::of(name, requests.into_iter()))
}

fn thing(key: u64, bytes: Option<u64>) -> Thing {
    let id = mix(key ^ mix(bytes.unwrap_or(0)));
    let drawn = || lognormal(id ^ SIZE_DRAW, SIZE_MEDIAN, SIZE_SIGMA).clamp(SIZE_MIN, SIZE_MAX) as u64;
    Thing {
        id,
        bytes: bytes.unwrap_or_else(drawn).max(1),
        micros: lognormal(id ^ TIME_DRAW, TIME_MEDIAN_MICROS, TIME_SIGMA).clamp(1.0, f64::from(u32::MAX)) as u32,
    }
}

/// A mixer that spreads numbers over all bits.
pub fn mix(number: u64) -> u64 {
    let mut x = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

/// A number between 0 and 1, neither of them, from the bits of `hash`.
pub fn uniform(hash: u64) -> f64 {
    ((hash >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
}

/// The same number for the same `seed` always.
fn lognormal(seed: u64, median: f64, sigma: f64) -> f64 {
    let (radius, turn) = (uniform(mix(seed)), uniform(mix(mix(seed))));
    let normal = (-2.0 * radius.ln()).sqrt() * (std::f64::consts::TAU * turn).cos();
    median * (sigma * normal).exp()
}

const SIZE_DRAW: u64 = 0x5151;
const SIZE_MEDIAN: f64 = 9_000.0;
const SIZE_SIGMA: f64 = 1.1;
const SIZE_MIN: f64 = 300.0;
const SIZE_MAX: f64 = 2_000_000.0;

const TIME_DRAW: u64 = 0x7171;
const TIME_MEDIAN_MICROS: f64 = 60_000.0;
const TIME_SIGMA: f64 = 1.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_are_read_and_others_are_not() {
        let keys = parse("keys", &[0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 1]).expect("three keys");
        assert_eq!((keys.len(), keys.things_len()), (3, 2));
        let lines = parse("lines", b"1 7 500\n2 8 300\n3 7 500\n4 7 501\n").expect("four lines");
        assert_eq!((lines.len(), lines.things_len(), lines.footprint()), (4, 3, 1301));
        assert_eq!(lines.firsts().objects, 0.75);
        for (bytes, fact) in [
            (&b"\x00\x01\x02"[..], "3 bytes, which are neither lines of numbers nor keys of four bytes"),
            (b"1 7 500\n2 8\n", "line 2 is not `time id size`"),
            (b"1 7 99999999999999999999999\n", "line 1 is not `time id size`"),
        ] {
            assert_eq!(parse("bad", bytes).map(|trace| trace.len()), Err(fact.to_owned()));
        }
    }

    #[test]
    fn draws_are_lognormal_and_the_same_every_time() {
        let mut sizes: Vec<u64> = (0..10_001).map(|key| thing(key, None).bytes).collect();
        let mut times: Vec<u32> = (0..10_001).map(|key| thing(key, Some(1)).micros).collect();
        sizes.sort_unstable();
        times.sort_unstable();
        assert!((8_500..9_500).contains(&sizes[5_000]), "{}", sizes[5_000]);
        assert!((57_000..63_000).contains(&times[5_000]), "{}", times[5_000]);
        let up = times[8_413] as f64 / times[5_000] as f64;
        assert!((up.ln() - TIME_SIGMA).abs() < 0.1, "a sigma above the median is {up} times the median");
        assert_eq!(thing(7, None), thing(7, None));
    }
}
