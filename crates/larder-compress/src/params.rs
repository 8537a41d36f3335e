//! Levels, windows, and what memory they take.

use larder_http::Coding;

/// How an encoder works. Both are brought into the range of the coding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Params {
    /// How hard it tries: gzip 1 to 9, brotli 0 to 11, zstd 1 to 19.
    ///
    /// Those of zstd above 19 differ by windows that no browser takes.
    pub level: u8,
    /// How far back it looks for what it saw before: 2 to this power, in bytes. gzip 9 to 15, brotli 17 to 22,
    /// zstd 10 to 23, which is the most that RFC 9659 lets a client meet.
    pub window_bits: u8,
}

impl Params {
    /// A level, with a window that is enough for nearly all pages and costs little while it waits for more.
    pub fn new(coding: Coding, level: u32) -> Self {
        let window_bits = match coding {
            Coding::Gzip => 15,
            // What ngx_brotli has: 512 KB.
            Coding::Brotli => 19,
            Coding::Zstd => 20,
        };
        let level = u8::try_from(level).unwrap_or(u8::MAX);
        Self { level, window_bits }.within(coding)
    }

    /// The same with the smallest window that sees all of a body of `len` bytes, if that is smaller.
    pub fn for_len(self, coding: Coding, len: u64) -> Self {
        let window_bits = self.window_bits.min(window_bits_of(len));
        Self { window_bits, ..self }.within(coding)
    }

    /// The same with the window that sees all of a body of `len` bytes, or the biggest of the coding.
    pub(crate) fn seeing(level: u8, coding: Coding, len: u64) -> Self {
        Self { level, window_bits: window_bits_of(len) }.within(coding)
    }

    /// The nearest that the coding has.
    pub(crate) fn within(self, coding: Coding) -> Self {
        let (levels, windows) = match coding {
            Coding::Gzip => (1..=9, 9..=15),
            // For windows of 16 bits and less this encoder has other tables, that take 20 ms to set up.
            Coding::Brotli => (0..=11, 17..=22),
            Coding::Zstd => (1..=19, 10..=23),
        };
        Self {
            level: self.level.clamp(*levels.start(), *levels.end()),
            window_bits: self.window_bits.clamp(*windows.start(), *windows.end()),
        }
    }
}

/// The smallest window that sees the start of `len` bytes from their end.
fn window_bits_of(len: u64) -> u8 {
    let bits = u64::BITS - len.saturating_add(WINDOW_GAP_BYTES).leading_zeros();
    // At most 64.
    bits as u8
}

/// deflate looks back this much less than its window, brotli 16 bytes less.
const WINDOW_GAP_BYTES: u64 = 262;

/// The memory that an encoder takes once it has seen more than its window: for deciding how many there may be.
///
/// No less than it is, and at most 2 MB and three times as much. A whole body of a known length takes less.
pub fn memory_bytes(coding: Coding, params: Params) -> usize {
    let Params { level, window_bits } = params.within(coding);
    let window = 1_usize << window_bits;
    match coding {
        Coding::Gzip => 4 * window + 256 * KB,
        Coding::Brotli => brotli_bytes(level, window),
        Coding::Zstd => zstd_bytes(level, window),
    }
}

/// As measured: the window, the commands of a block, and the tables of the level.
fn brotli_bytes(level: u8, window: usize) -> usize {
    match level {
        0 | 1 => 512 * KB,
        2 | 3 => 2 * window + 1024 * KB,
        4 => 8 * window + 1536 * KB,
        5 => 8 * window + 2048 * KB,
        6 => 8 * window + 3072 * KB,
        7 => 8 * window + 9216 * KB,
        8 => 8 * window + (17 << 10) * KB,
        9 => 8 * window + (36 << 10) * KB,
        _ => 10 * window + 6144 * KB,
    }
}

/// The window, two tables of four bytes a place, and what all levels have.
fn zstd_bytes(level: u8, window: usize) -> usize {
    // What zstd's own table of levels has for bodies of unknown length, by powers of two. A smaller window does not
    // make them smaller; a length that is known does.
    let (chain_bits, hash_bits) = match level {
        0 | 1 => (13, 14),
        2 => (15, 16),
        3 => (16, 17),
        4 => (18, 18),
        5 | 6 => (18, 19),
        7 | 8 => (19, 20),
        9 => (20, 21),
        10 | 11 => (21, 22),
        12 => (22, 23),
        13 => (22, 22),
        14 => (22, 23),
        15 => (23, 23),
        16 => (22, 22),
        17 | 18 => (23, 22),
        _ => (24, 22),
    };
    window + (4 << chain_bits) + (5 << hash_bits) + 1536 * KB
}

const KB: usize = 1024;
