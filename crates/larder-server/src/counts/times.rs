//! How long requests took.

use larder_store::{TIME_BUCKETS, TimeSums, bucket_of};

use crate::stats::Counter;

/// The times that one worker has seen.
#[derive(Debug)]
pub struct Times {
    buckets: [Counter; TIME_BUCKETS],
    micros: Counter,
}

impl Default for Times {
    fn default() -> Self {
        Self { buckets: std::array::from_fn(|_| Counter::default()), micros: Counter::default() }
    }
}

impl Times {
    /// Counts one; only the owner calls this.
    pub fn add(&self, micros: u64) {
        self.buckets[bucket_of(micros)].add(1);
        self.micros.add(micros);
    }

    /// Adds these to `sums`.
    pub fn add_to(&self, sums: &mut TimeSums) {
        sums.buckets.iter_mut().zip(&self.buckets).for_each(|(sum, bucket)| *sum += bucket.get());
        sums.micros += self.micros.get();
    }
}
