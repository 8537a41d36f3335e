//! Fields that are ready to be sent.

/// Fields that are ready to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prepared {
    /// A fingerprint of the rules they were made by; of no use under others.
    pub rules: u64,
    /// As lines of HTTP/1.
    pub lines: Box<[u8]>,
    /// As a field block of HTTP/2; empty where that was not spoken when the page was stored.
    pub block: Box<[u8]>,
}

impl Prepared {
    /// The bytes on the heap.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.lines.len() + self.block.len()
    }
}
