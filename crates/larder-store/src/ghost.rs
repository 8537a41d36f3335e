//! Remembers what was evicted lately: how often it was used, and until when it could have been.

/// The fingerprints of evicted things, with what is known of each, in rows of a cache line each.
///
/// A full row forgets its oldest, so roughly the things that were evicted longest ago are forgotten. One lookup in some
/// ten millions finds the fingerprint of another key, which is harmless.
#[derive(Default)]
pub(crate) struct Ghost {
    rows: Vec<[Mark; ROW]>,
}

/// What is remembered of an evicted thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Evicted {
    /// How often it was used, up to 15.
    pub(crate) uses: u8,
    /// Until when it could have been used, seconds since 1970; 0 if it was of no use.
    pub(crate) useful_until: u32,
}

/// One evicted thing.
#[derive(Clone, Copy, Default)]
struct Mark {
    /// The fingerprint in the upper bits, the uses in the lowest. [`EMPTY`] in an empty place only, because an evicted
    /// thing was used at least once.
    print: u32,
    useful_until: u32,
}

impl Ghost {
    /// Remembers that `hash` was evicted. There is room for about `len`, the number of things on the shelf.
    pub(crate) fn push(&mut self, hash: u64, evicted: Evicted, len: usize) {
        self.fit(len);
        let print = print_of(hash) | u32::from(evicted.uses).clamp(1, USES_MASK);
        if let Some(row) = self.row(hash) {
            let at = row.iter().position(|mark| mark.print == EMPTY || mark.is_of(hash)).unwrap_or(ROW - 1);
            row[..=at].rotate_right(1);
            row[0] = Mark { print, useful_until: evicted.useful_until };
        }
    }

    /// Forgets `hash`, and returns what is remembered of it if it was evicted lately.
    pub(crate) fn take(&mut self, hash: u64) -> Option<Evicted> {
        let row = self.row(hash)?;
        let at = row.iter().position(|mark| mark.is_of(hash))?;
        let Mark { print, useful_until } = row[at];
        row[at..].rotate_left(1);
        row[ROW - 1] = Mark::default();
        Some(Evicted { uses: (print & USES_MASK) as u8, useful_until })
    }

    /// Notes that `hash` is of no use any more: it would have been removed by now.
    pub(crate) fn make_useless(&mut self, hash: u64) {
        let row = self.row(hash).into_iter().flatten();
        row.filter(|mark| mark.is_of(hash)).for_each(|mark| mark.useful_until = 0);
    }

    /// The same of everything.
    pub(crate) fn make_all_useless(&mut self) {
        self.rows.iter_mut().flatten().for_each(|mark| mark.useful_until = 0);
    }

    /// The memory that it takes.
    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&*self.rows)
    }

    /// Makes as many rows as `len` things need. This loses what was remembered; it only happens while a shelf grows.
    fn fit(&mut self, len: usize) {
        let rows = len.div_ceil(ROW).next_power_of_two();
        if rows > self.rows.len() || rows * SLACK < self.rows.len() {
            self.rows = vec![[Mark::default(); ROW]; rows];
        }
    }

    fn row(&mut self, hash: u64) -> Option<&mut [Mark; ROW]> {
        // The number of rows is a power of two. The fingerprint takes the bits above these.
        let at = hash as usize & self.rows.len().wrapping_sub(1);
        self.rows.get_mut(at)
    }
}

impl Mark {
    fn is_of(&self, hash: u64) -> bool {
        self.print != EMPTY && self.print & !USES_MASK == print_of(hash)
    }
}

fn print_of(hash: u64) -> u32 {
    (hash >> 32) as u32 & !USES_MASK
}

/// Marks in a row.
const ROW: usize = 8;

/// Four bits hold the uses.
const USES_MASK: u32 = 15;

/// The fingerprint of an empty place in a row.
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
        let evicted = |uses: u8| Evicted { uses, useful_until: 100 + u32::from(uses) };
        assert_eq!(ghost.take(hash(1)), None);
        for number in 1..=9 {
            ghost.push(hash(number), evicted(number as u8), ROW);
        }
        for (number, uses) in [(1, None), (2, Some(2)), (2, None), (9, Some(9)), (10, None)] {
            assert_eq!(ghost.take(hash(number)), uses.map(evicted), "{number}");
        }
        ghost.push(hash(3), evicted(7), ROW);
        let both = (ghost.take(hash(3)), ghost.take(hash(3)));
        assert_eq!(both, (Some(evicted(7)), None), "the newer mark replaces the older");
    }

    #[test]
    fn what_is_of_no_use_keeps_its_uses() {
        let mut ghost = Ghost::default();
        for number in 1..=3 {
            ghost.push(hash(number), Evicted { uses: 5, useful_until: 100 }, ROW);
        }
        ghost.make_useless(hash(2));
        assert_eq!(ghost.take(hash(2)), Some(Evicted { uses: 5, useful_until: 0 }));
        assert_eq!(ghost.take(hash(1)), Some(Evicted { uses: 5, useful_until: 100 }));
        ghost.make_all_useless();
        assert_eq!(ghost.take(hash(3)), Some(Evicted { uses: 5, useful_until: 0 }));
    }

    #[test]
    fn about_as_many_are_remembered_as_are_here() {
        let mut ghost = Ghost::default();
        let spread = |number: u64| number.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29);
        for number in 0..5000 {
            ghost.push(spread(number), Evicted { uses: 1, useful_until: 0 }, 1000);
        }
        assert!((0..2000).all(|number| ghost.take(spread(number)).is_none()), "long gone");
        let lately = (4500..5000).filter(|&number| ghost.take(spread(number)).is_some()).count();
        assert!(lately > 450, "{lately} of the last 500");
        assert!(ghost.rows.len() * ROW <= 2048);
    }
}
