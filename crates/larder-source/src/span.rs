//! Places in configuration files: a file and a range of its bytes.

/// A place in one of the [`Sources`](crate::Sources): bytes `start` to `end` of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Span {
    /// Which file, by its number in the sources.
    pub file: u32,
    /// The first byte.
    pub start: u32,
    /// The byte after the last.
    pub end: u32,
}

impl Span {
    /// For what nobody wrote.
    pub const NOWHERE: Self = Self { file: u32::MAX, start: 0, end: 0 };
}
