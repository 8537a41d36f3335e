//! Aligned memory for direct I/O, in safe code.

use super::footer::BLOCK;

/// Bytes that begin at a multiple of [`BLOCK`] in memory.
pub(super) struct AlignedBuffer {
    bytes: Vec<u8>,
    start: usize,
    len: usize,
}

impl AlignedBuffer {
    /// A buffer of zeros.
    pub(super) fn new(len: usize) -> Self {
        let bytes = vec![0; len + BLOCK];
        // The vector is never grown, so its bytes stay where they are.
        let start = bytes.as_ptr().align_offset(BLOCK).min(BLOCK);
        Self { bytes, start, len }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[self.start..self.start + self.len]
    }

    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.start + self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_begins_at_a_block() {
        for len in [1, 4096, 70_000] {
            let buffer = AlignedBuffer::new(len);
            assert_eq!(buffer.bytes().as_ptr().align_offset(BLOCK), 0);
            assert_eq!(buffer.bytes().len(), len);
        }
    }
}
