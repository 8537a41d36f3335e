//! How much of a page is sent.

/// How much of a page is sent: conditions, ranges, slices.
#[derive(Clone, Debug)]
pub struct Parts {
    /// `if_modified_since`, exact.
    pub if_modified_since: IfModifiedSince,
    /// `max_ranges`; `None` for no limit.
    pub max_ranges: Option<u32>,
    /// `slice`; 0 for off.
    pub slice_bytes: u64,
}

impl Default for Parts {
    fn default() -> Self {
        Self { if_modified_since: IfModifiedSince::Exact, max_ranges: None, slice_bytes: 0 }
    }
}

/// `if_modified_since`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IfModifiedSince {
    /// Ignored.
    Off,
    /// Equal dates.
    Exact,
    /// Not newer than.
    Before,
}
