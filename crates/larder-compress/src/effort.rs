//! How much time a body is worth.

use larder_http::Coding;

use crate::params::Params;

/// How much time to spend on a whole body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// At this level, while somebody waits.
    Quick(u32),
    /// As hard as is worth the while when nobody waits: up to about half a millisecond a KB.
    Hard,
}

impl Effort {
    /// What that is for a body of `len` bytes.
    pub fn params(self, coding: Coding, len: u64) -> Params {
        let level = match self {
            Effort::Quick(level) => Params::new(coding, level).level,
            Effort::Hard => hard_level(coding, len),
        };
        Params::seeing(level, coding, len)
    }
}

/// Measured by `benches/levels.rs` on HTML, one core of a small cloud machine:
///
/// | | KB | ms | of the page | |
/// | -- | -- | -- | -- | -- |
/// | gzip 9 | 39 | 1 | 23.0 % | gzip 1: 31.7 % in 0.15 ms |
/// | br 8 | 39 | 2.5 | 21.3 % | br 4: 22.8 % in 0.75 ms |
/// | br 9 | 39 | 20 | 21.2 % | nearly all of the time goes into clearing 32 MB of tables |
/// | br 10 | 39 | 25 | 19.1 % | |
/// | br 11 | 39 | 80 | 18.7 % | |
/// | br 9 | 1200 | 57 | 2.5 % | br 10: 2.6 % in 730 ms |
/// | zstd 15 | 39 | 4.6 | 21.8 % | zstd 3: 24.3 % in 0.15 ms |
/// | zstd 19 | 39 | 23 | 21.6 % | |
/// | zstd 17 | 270 | 38 | 10.3 % | zstd 19: 10.1 % in 190 ms |
/// | zstd 12 | 1200 | 14 | 2.9 % | zstd 19: 2.9 % in 540 ms |
fn hard_level(coding: Coding, len: u64) -> u8 {
    const KB: u64 = 1024;
    match coding {
        Coding::Gzip => 9,
        Coding::Brotli if len <= 10 * KB => 11,
        Coding::Brotli if len <= 256 * KB => 10,
        Coding::Brotli => 9,
        Coding::Zstd if len <= 48 * KB => 19,
        Coding::Zstd if len <= 512 * KB => 17,
        Coding::Zstd => 12,
    }
}
