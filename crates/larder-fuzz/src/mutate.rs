//! Seeds changed at random, the same way each time.

use crate::pieces::Numbers;

/// The most bytes of what comes out, unless a seed is longer.
const BYTES_MAX: usize = 4096;
/// The most changes at once.
const CHANGES_MAX: usize = 6;
/// Bytes and words that parsers decide by.
const WORDS: [&[u8]; 48] = [
    b"\r\n",
    b"\n",
    b"\r",
    b"\r\n\r\n",
    b"\0",
    b" ",
    b"\t",
    b":",
    b",",
    b";",
    b"=",
    b"\"",
    b"%",
    b"%2e",
    b"%00",
    b"/../",
    b"//",
    b"/./",
    b"?",
    b"#",
    b"\\",
    b"\xff",
    b"\x80",
    b"\x7f",
    b"0",
    b"-1",
    b"9223372036854775807",
    b"18446744073709551616",
    b"ffffffffffffffff",
    b"0\r\n\r\n",
    b"HTTP/1.1",
    b"HTTP/1.0",
    b"GET / ",
    b"Host: a\r\n",
    b"Content-Length: 5\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"Connection: close\r\n",
    b"{",
    b"}",
    b"$",
    b"'",
    b"<!--#",
    b"-->",
    b"\0\0\0\0",
    b"\xff\xff\xff\xff",
    b"\x01\x06\0\x01",
    b"\xc0\x0c",
    b"*",
];

/// Changes seeds.
pub struct Mutator {
    numbers: Numbers,
}

impl Mutator {
    /// One whose changes follow from `seed`.
    pub fn new(seed: &[u8]) -> Mutator {
        Mutator { numbers: Numbers::of(seed) }
    }

    /// One of the seeds, changed, perhaps with a part of another.
    pub fn next(&mut self, seeds: &[Vec<u8>]) -> Vec<u8> {
        let Some(seed) = seeds.get(self.numbers.below(seeds.len())) else {
            return Vec::new();
        };
        let mut data = seed.clone();
        for _ in 0..=self.numbers.below(CHANGES_MAX) {
            self.change(&mut data, seeds);
        }
        data.truncate(BYTES_MAX.max(seed.len()));
        data
    }

    fn change(&mut self, data: &mut Vec<u8>, seeds: &[Vec<u8>]) {
        let at = self.numbers.below(data.len() + 1);
        let len = self.numbers.below(16).min(data.len() - at);
        match self.numbers.below(9) {
            0 if at < data.len() => data[at] ^= 1 << self.numbers.below(8),
            1 if at < data.len() => data[at] = self.numbers.below(256) as u8,
            2 if at < data.len() => data[at] = data[at].wrapping_add(1),
            3 => data.insert(at, self.numbers.below(256) as u8),
            4 => drop(data.drain(at..at + len)),
            5 => {
                let part = data[at..at + len].repeat(1 + self.numbers.below(4));
                data.splice(at..at, part);
            }
            6 => data.truncate(at),
            7 => {
                let other = &seeds[self.numbers.below(seeds.len())];
                let from = self.numbers.below(other.len() + 1);
                let to = from + self.numbers.below(other.len() - from + 1);
                data.splice(at..at, other[from..to].iter().copied());
            }
            _ => {
                let word = WORDS[self.numbers.below(WORDS.len())];
                data.splice(at..at, word.iter().copied());
            }
        }
    }
}
