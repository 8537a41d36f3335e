//! What has become of pages that were to be fetched.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counters of what has become of pages.
#[derive(Debug, Default)]
pub struct Tally {
    stored: AtomicU64,
    there: AtomicU64,
    unstored: AtomicU64,
    failed: AtomicU64,
}

/// The same at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// They were stored.
    pub stored: u64,
    /// They were there already.
    pub there: u64,
    /// They are not to be stored, or not everybody may ask for them.
    pub unstored: u64,
    /// Their origin failed.
    pub failed: u64,
}

/// What has become of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It was stored.
    Stored,
    /// It was there already.
    There,
    /// It is not to be stored, or not everybody may ask for it.
    Unstored,
    /// Its origin failed.
    Failed,
}

impl Tally {
    /// Counts one.
    pub fn add(&self, end: End) {
        let count = match end {
            End::Stored => &self.stored,
            End::There => &self.there,
            End::Unstored => &self.unstored,
            End::Failed => &self.failed,
        };
        count.fetch_add(1, Ordering::Relaxed);
    }

    /// What was counted so far.
    pub fn sums(&self) -> Sums {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Sums {
            stored: of(&self.stored),
            there: of(&self.there),
            unstored: of(&self.unstored),
            failed: of(&self.failed),
        }
    }
}

impl Sums {
    /// How many.
    pub fn all(&self) -> u64 {
        self.stored + self.there + self.unstored + self.failed
    }

    /// Each with its name.
    pub fn named(&self) -> [(&'static str, u64); 4] {
        let Self { stored, there, unstored, failed } = *self;
        [("stored", stored), ("there", there), ("unstored", unstored), ("failed", failed)]
    }

    /// What has come since `before`.
    pub fn since(&self, before: &Self) -> Self {
        Self {
            stored: self.stored - before.stored,
            there: self.there - before.there,
            unstored: self.unstored - before.unstored,
            failed: self.failed - before.failed,
        }
    }

    /// What is not stored, in words: `, 1 already there, 2 failed`.
    pub fn rest(&self) -> String {
        let Self { stored: _, there, unstored, failed } = self;
        let mut told = String::new();
        for (count, what) in [(there, "already there"), (unstored, "not to be stored"), (failed, "failed")] {
            if *count > 0 {
                told.push_str(&format!(", {count} {what}"));
            }
        }
        told
    }
}
