//! The counters of a disk shelf.

use std::sync::atomic::{AtomicU64, Ordering};

use super::health::DiskState;
use crate::times::{SharedTimes, TimeSums};

/// A shelf's counters since it was opened, and its size now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskStats {
    /// Its state.
    pub state: DiskState,
    /// The bytes that it takes on disk, deleted files that are still being sent included.
    pub bytes: u64,
    /// The most it may take.
    pub bytes_max: Option<u64>,
    /// How many of `bytes` are in deleted files that are still being sent.
    pub lingering: u64,
    /// Pages that can be found.
    pub objects: usize,
    /// Memory that the index takes, and what remembers evicted pages.
    pub index_bytes: u64,
    /// Segment files.
    pub segments: usize,
    /// Bytes that wait to be written.
    pub queued: usize,
    /// Pages in memory that are not yet written, the queue included.
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
    /// Pages that were evicted with their segment.
    pub evicted: u64,
    /// Of those evicted for lack of room, how many were fetched again while they could still have been used.
    pub evicted_wanted: u64,
    /// Pages that were copied to a new segment because they were used.
    pub reinserted: u64,
    /// Pages that were found expired when they were read.
    pub expired: u64,
    /// Pages removed by key.
    pub removed: u64,
    /// Pages read.
    pub read: u64,
    /// Bytes read from the disk itself, not from the kernel's cache.
    pub read_bytes: u64,
    /// How long each of these reads took.
    pub read_times: TimeSums,
    /// How long each write of a batch took, until the disk or the kernel had it.
    pub write_times: TimeSums,
    /// Reads that failed.
    pub read_errors: u64,
    /// Writes, syncs and other changes that failed.
    pub write_errors: u64,
    /// Records whose checksum was wrong.
    pub corrupt: u64,
    /// Reads that took longer than a request waits for them.
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
    pub(super) evicted_wanted: Counter,
    pub(super) reinserted: Counter,
    pub(super) expired: Counter,
    pub(super) removed: Counter,
    pub(super) read: Counter,
    pub(super) read_bytes: Counter,
    pub(super) read_times: SharedTimes,
    pub(super) write_times: SharedTimes,
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
