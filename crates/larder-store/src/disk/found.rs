//! Where pages lie, and pages that were read.

use std::sync::Arc;

use bytes::Bytes;

use super::body::DiskBody;
use super::segment::Segment;

/// Where the pages of one key lie. It keeps their segments while it exists, so use it at once.
pub struct Found {
    pub(super) hash: u64,
    pub(super) now: u64,
    pub(super) places: Vec<Place>,
}

/// Where one record lies.
#[derive(Clone)]
pub(super) struct Place {
    pub(super) segment: Arc<Segment>,
    pub(super) variant: u8,
    pub(super) offset: u32,
    /// With what aligns the next.
    pub(super) len: u32,
}

impl Found {
    pub(super) fn nothing(now: u64) -> Self {
        Self { hash: 0, now, places: Vec::new() }
    }

    /// Whether there is nothing to read.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// How many pages there may be.
    pub fn len(&self) -> usize {
        self.places.len()
    }
}

/// A page from a shelf: verified, and under the key that was asked for.
#[derive(Clone)]
pub struct Stored {
    /// What was stored as its head.
    pub head: Bytes,
    /// Its body.
    pub body: StoredBody,
    /// When it was stored.
    pub stored_at: u64,
    /// From when on it is of no use at all.
    pub expires_at: u64,
    /// What it cost to make.
    pub cost_micros: u32,
    /// Which of the pages under its key it is.
    pub variant: u8,
}

/// The body of a page from a shelf.
#[derive(Clone)]
pub enum StoredBody {
    /// It was short enough to be read with the page.
    Memory(Bytes),
    /// It is where it was.
    Disk(DiskBody),
}
