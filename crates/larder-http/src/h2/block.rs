//! A field block that comes in several frames.

use super::priority::Dependency;

/// A field block of which more is to come.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) section: Section,
    pub(super) bytes: Vec<u8>,
    pub(super) frames: u32,
}

impl Block {
    pub fn heap_bytes(&self) -> usize {
        size_of::<Block>() + self.bytes.capacity()
    }
}

/// What a HEADERS frame says beside its fields.
#[derive(Clone, Copy, Debug)]
pub(super) struct Section {
    pub(super) stream: u32,
    pub(super) ends: bool,
    pub(super) dependency: Option<Dependency>,
}
