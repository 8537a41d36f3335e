//! Where pages lie.

use std::sync::Arc;

use super::segment::Segment;

/// Where the pages of one key are. It pins their segments, so use it at once.
pub struct Found {
    pub(super) hash: u64,
    pub(super) now: u64,
    pub(super) places: Vec<Place>,
}

/// Where one record is.
#[derive(Clone)]
pub(super) struct Place {
    pub(super) segment: Arc<Segment>,
    pub(super) variant: u8,
    pub(super) offset: u32,
    /// The length, padding included.
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

    /// How many pages there may be; reading may find fewer.
    pub fn len(&self) -> usize {
        self.places.len()
    }
}
