//! How much of a page is sent.

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
