//! How long it took: a histogram with fixed bounds.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// The bounds of the buckets, microseconds; a time belongs to the first that is not below it. Behind the last one is a
/// bucket for all that took longer. Hits are at the lower end, and PHP at the upper one.
pub const BOUNDS_MICROS: [u64; 22] = [
    10,
    25,
    50,
    100,
    250,
    500,
    1_000,
    2_500,
    5_000,
    10_000,
    25_000,
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    25_000_000,
    60_000_000,
    120_000_000,
];

/// How many buckets there are.
pub const BUCKETS: usize = BOUNDS_MICROS.len() + 1;

/// Times that several threads note.
#[derive(Debug, Default)]
pub(crate) struct SharedTimes {
    buckets: [AtomicU64; BUCKETS],
    micros: AtomicU64,
}

impl SharedTimes {
    /// Counts what lasted from one moment to another.
    pub(crate) fn add_from(&self, began: Instant, ended: Instant) {
        self.add(ended.saturating_duration_since(began).as_micros().try_into().unwrap_or(u64::MAX));
    }

    fn add(&self, micros: u64) {
        self.buckets[bucket_of(micros)].fetch_add(1, Ordering::Relaxed);
        self.micros.fetch_add(micros, Ordering::Relaxed);
    }

    /// All until now.
    pub(crate) fn sums(&self) -> TimeSums {
        let mut sums = TimeSums { micros: self.micros.load(Ordering::Relaxed), ..TimeSums::default() };
        let counted = sums.buckets.iter_mut().zip(&self.buckets);
        counted.for_each(|(sum, bucket)| *sum = bucket.load(Ordering::Relaxed));
        sums
    }
}

/// In which bucket a time is.
pub fn bucket_of(micros: u64) -> usize {
    BOUNDS_MICROS.partition_point(|bound| *bound < micros)
}

/// Counted times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimeSums {
    /// How many were in each bucket.
    pub buckets: [u64; BUCKETS],
    /// Their sum, microseconds.
    pub micros: u64,
}

impl TimeSums {
    /// Adds other sums.
    pub fn add_sums(&mut self, other: &Self) {
        self.buckets.iter_mut().zip(other.buckets).for_each(|(sum, bucket)| *sum += bucket);
        self.micros += other.micros;
    }

    /// What these grew by since `before`.
    pub fn since(&self, before: &Self) -> Self {
        let mut grown = Self { micros: self.micros.saturating_sub(before.micros), ..Self::default() };
        let both = self.buckets.iter().zip(before.buckets);
        grown.buckets.iter_mut().zip(both).for_each(|(sum, (now, before))| *sum = now.saturating_sub(before));
        grown
    }

    /// How many there were.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// How long all but the slowest took: the time, in microseconds, below which `share` of them are, as if times were
    /// spread evenly within a bucket. `None` if there were none.
    pub fn quantile(&self, share: f64) -> Option<f64> {
        let count = self.count();
        let rank = share * count as f64;
        let mut below = 0;
        let (at, &held) = self.buckets.iter().enumerate().find(|(_, held)| {
            below += **held;
            **held > 0 && below as f64 >= rank
        })?;
        let lower = at.checked_sub(1).map_or(0, |before| BOUNDS_MICROS[before]);
        // Of what is above all bounds, nothing more is known.
        let Some(&upper) = BOUNDS_MICROS.get(at) else { return Some(lower as f64) };
        let part = (rank - (below - held) as f64) / held as f64;
        Some(lower as f64 + (upper - lower) as f64 * part.clamp(0.0, 1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sums(all: &[u64]) -> TimeSums {
        let times = SharedTimes::default();
        all.iter().for_each(|micros| times.add(*micros));
        times.sums()
    }

    #[test]
    fn a_time_is_in_the_bucket_whose_bound_it_does_not_pass() {
        for (micros, bucket) in
            [(0, 0), (10, 0), (11, 1), (25, 1), (1_000, 6), (1_001, 7), (120_000_000, 21), (u64::MAX, 22)]
        {
            let found = sums(&[micros]);
            assert_eq!(found.buckets.iter().position(|held| *held == 1), Some(bucket), "{micros}");
            assert_eq!((found.count(), found.micros), (1, micros));
        }
    }

    #[test]
    fn quantiles_are_read_off_the_buckets() {
        assert_eq!(sums(&[]).quantile(0.5), None);
        for (times, share, expected) in [
            (&[20, 20, 20, 20][..], 0.5, 17.5),
            (&[20, 20, 20, 20], 1.0, 25.0),
            (&[20, 20, 20, 2_000], 0.5, 20.0),
            (&[20, 20, 20, 2_000], 0.99, 2_440.0),
            (&[u64::MAX / 2], 0.5, 120_000_000.0),
        ] {
            let found = sums(times).quantile(share).expect("there are some");
            assert!((found - expected).abs() < 1e-6, "{times:?} at {share}: {found}");
        }
    }

    #[test]
    fn what_lasts_is_counted_in_microseconds() {
        let (times, began) = (SharedTimes::default(), Instant::now());
        times.add_from(began, began + std::time::Duration::from_micros(1_700));
        times.add_from(began + std::time::Duration::from_secs(1), began);
        assert_eq!(times.sums(), sums(&[1_700, 0]));
    }

    #[test]
    fn what_came_since_is_the_difference() {
        let before = sums(&[20, 2_000]);
        assert_eq!(sums(&[20, 20, 2_000, 60]).since(&before), sums(&[20, 60]));
        assert_eq!(before.since(&sums(&[20, 20, 2_000])), sums(&[]), "less than before is no growth");
    }
}
