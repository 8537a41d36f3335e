//! What a disk shelf counts.

use std::sync::atomic::{AtomicU64, Ordering};

use super::health::DiskState;

/// What a shelf has counted since it was opened, and what it holds now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskStats {
    /// What it does.
    pub state: DiskState,
    /// The bytes it takes on its disk, those of files that left the folder and are still being sent among them.
    pub bytes: u64,
    /// The most it may take.
    pub bytes_max: Option<u64>,
    /// Bytes of the above in files that left the folder and are still being sent.
    pub lingering: u64,
    /// Pages that can be found.
    pub objects: usize,
    /// Memory that the index takes.
    pub index_bytes: u64,
    /// Segment files.
    pub segments: usize,
    /// Bytes that wait to be written.
    pub queued: usize,
    /// Pages that are in memory and are still to be written, those that wait in the queue among them.
    pub owed_pages: u64,
    /// The bytes of these.
    pub owed_bytes: u64,
    /// Pages written.
    pub stored: u64,
    /// Bytes written, with all overhead.
    pub written: u64,
    /// Pages not stored because too much waited to be written.
    pub skipped_queue: u64,
    /// Pages not stored because there was no room, or they were too big.
    pub skipped_room: u64,
    /// Pages not stored because the shelf was out.
    pub skipped_out: u64,
    /// Pages that left with their segment.
    pub evicted: u64,
    /// Pages that were written again because they were used.
    pub reinserted: u64,
    /// Pages that were found expired when they were read.
    pub expired: u64,
    /// Pages removed by key.
    pub removed: u64,
    /// Pages read.
    pub read: u64,
    /// Reads that failed.
    pub read_errors: u64,
    /// Writes, syncs and other changes that failed.
    pub write_errors: u64,
    /// Records that were not as they had been written.
    pub corrupt: u64,
    /// Reads that took longer than anybody waits for a cache.
    pub slow_reads: u64,
}

/// The counters behind [`DiskStats`].
#[derive(Default)]
pub(super) struct Counters {
    pub(super) stored: Counter,
    pub(super) written: Counter,
    pub(super) skipped_queue: Counter,
    pub(super) skipped_room: Counter,
    pub(super) skipped_out: Counter,
    pub(super) evicted: Counter,
    pub(super) reinserted: Counter,
    pub(super) expired: Counter,
    pub(super) removed: Counter,
    pub(super) read: Counter,
    pub(super) read_errors: Counter,
    pub(super) write_errors: Counter,
    pub(super) corrupt: Counter,
    pub(super) slow_reads: Counter,
}

/// A number that only grows.
#[derive(Default)]
pub(super) struct Counter(AtomicU64);

impl Counter {
    pub(super) fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    pub(super) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
