//! Where bytes are cut.

/// The most pieces.
const PIECES_MAX: usize = 12;

/// A generator of numbers that begins with what `data` says, so that a finding is found again.
pub struct Numbers(u64);

impl Numbers {
    pub fn of(data: &[u8]) -> Numbers {
        // FNV-1a; never zero.
        let hash = data
            .iter()
            .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
        Numbers(hash | 1)
    }

    /// A number below `limit`, or 0.
    pub fn below(&mut self, limit: usize) -> usize {
        // xorshift64*
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let number = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33;
        (number as usize).checked_rem(limit).unwrap_or(0)
    }
}

/// Cuts `data` into pieces, at places that it chooses itself; some may be empty.
pub fn pieces(data: &[u8]) -> Vec<&[u8]> {
    let mut numbers = Numbers::of(data);
    let mut cuts: Vec<usize> = (0..numbers.below(PIECES_MAX)).map(|_| numbers.below(data.len() + 1)).collect();
    cuts.sort_unstable();
    cuts.push(data.len());
    let mut start = 0;
    cuts.into_iter().map(|end| &data[std::mem::replace(&mut start, end)..end]).collect()
}

/// The lengths of what has come after each of [`pieces`], the last one all of it.
pub fn prefixes(data: &[u8]) -> Vec<usize> {
    let mut len = 0;
    pieces(data)
        .into_iter()
        .map(|piece| {
            len += piece.len();
            len
        })
        .collect()
}
