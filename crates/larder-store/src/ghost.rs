//! Remembers what was evicted lately: a thing that comes back soon gets its old count of uses.

/// The fingerprints of evicted things, with their uses, in rows of a cache line each.
///
/// A full row forgets its oldest, so roughly the things that were evicted longest ago are forgotten. One lookup in some
/// ten millions finds the fingerprint of another key, which is harmless.
#[derive(Default)]
pub(crate) struct Ghost {
    rows: Vec<[u32; ROW]>,
}

impl Ghost {
    /// Remembers that `hash` was evicted after `uses`. There is room for about `len`, the number of things on the
    /// shelf.
    pub(crate) fn push(&mut self, hash: u64, uses: u8, len: usize) {
        self.fit(len);
        let print = mark(hash, uses);
        if let Some(row) = self.row(hash) {
            let at = row.iter().position(|&mark| mark == EMPTY || is_of(mark, hash)).unwrap_or(ROW - 1);
            row[..=at].rotate_right(1);
            row[0] = print;
        }
    }

    /// Forgets `hash`, and returns the uses that it had if it was evicted lately.
    pub(crate) fn take(&mut self, hash: u64) -> Option<u8> {
        let row = self.row(hash)?;
        let at = row.iter().position(|&mark| is_of(mark, hash))?;
        let uses = (row[at] & USES_MASK) as u8;
        row[at..].rotate_left(1);
        row[ROW - 1] = EMPTY;
        Some(uses)
    }

    /// Makes as many rows as `len` things need. This loses what was remembered; it only happens while a shelf grows.
    fn fit(&mut self, len: usize) {
        let rows = len.div_ceil(ROW).next_power_of_two();
        if rows > self.rows.len() || rows * SLACK < self.rows.len() {
            self.rows = vec![[EMPTY; ROW]; rows];
        }
    }

    fn row(&mut self, hash: u64) -> Option<&mut [u32; ROW]> {
        // The number of rows is a power of two. The fingerprint takes the bits above these.
        let at = hash as usize & self.rows.len().wrapping_sub(1);
        self.rows.get_mut(at)
    }
}

/// The fingerprint in the upper bits, the uses in the lowest. Never [`EMPTY`], because an evicted thing was used at
/// least once.
fn mark(hash: u64, uses: u8) -> u32 {
    (hash >> 32) as u32 & !USES_MASK | u32::from(uses).clamp(1, USES_MASK)
}

fn is_of(mark: u32, hash: u64) -> bool {
    mark != EMPTY && (mark ^ (hash >> 32) as u32) & !USES_MASK == 0
}

/// Marks in a row.
const ROW: usize = 8;

/// Four bits hold the uses.
const USES_MASK: u32 = 15;

/// An empty place in a row.
const EMPTY: u32 = 0;

/// With more than this many times the rows that it needs, the ghost shrinks.
const SLACK: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(number: u64) -> u64 {
        number << 36
    }

    #[test]
    fn the_oldest_is_forgotten_first_and_a_take_counts_once() {
        let mut ghost = Ghost::default();
        assert_eq!(ghost.take(hash(1)), None);
        for number in 1..=9 {
            ghost.push(hash(number), number as u8, ROW);
        }
        for (number, uses) in [(1, None), (2, Some(2)), (2, None), (9, Some(9)), (10, None)] {
            assert_eq!(ghost.take(hash(number)), uses, "{number}");
        }
        ghost.push(hash(3), 7, ROW);
        assert_eq!((ghost.take(hash(3)), ghost.take(hash(3))), (Some(7), None), "the newer mark replaces the older");
    }

    #[test]
    fn about_as_many_are_remembered_as_are_here() {
        let mut ghost = Ghost::default();
        let spread = |number: u64| number.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29);
        for number in 0..5000 {
            ghost.push(spread(number), 1, 1000);
        }
        assert!((0..2000).all(|number| ghost.take(spread(number)).is_none()), "long gone");
        let lately = (4500..5000).filter(|&number| ghost.take(spread(number)).is_some()).count();
        assert!(lately > 450, "{lately} of the last 500");
        assert!(ghost.rows.len() * ROW <= 2048);
    }
}
