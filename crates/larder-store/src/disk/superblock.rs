//! `larder.shelf`: the identity of a shelf, written once when it is made.

use super::bytes::{put_all, u32_at, u64_at};

/// The file that makes a folder a shelf, and whose lock says that it is in use.
///
/// | at | bytes | what                                                        |
/// | -- | ----- | ----------------------------------------------------------- |
/// |  0 |     8 | magic, `LRDSHELF`                                           |
/// |  8 |     4 | version of the format                                       |
/// | 12 |     4 | CRC-32C of bytes 16 to 64                                   |
/// | 16 |     8 | id: random; every segment and record of the shelf carries it |
/// | 24 |     8 | seed: random; keys are hashed with it                       |
/// | 32 |     8 | size of its segments when it was made                       |
/// | 40 |    24 | zero                                                        |
///
/// Zeros follow up to 4096 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Superblock {
    pub(super) id: u64,
    pub(super) seed: u64,
    pub(super) segment_bytes: u64,
}

/// Why bytes are not a superblock of this format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum SuperblockError {
    #[error("it has format {0}, and this is format {VERSION}")]
    Version(u32),
    #[error("its checksum is wrong")]
    Damaged,
    #[error("it does not begin as a shelf does")]
    NotOurs,
}

impl Superblock {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut block = vec![0; SUPERBLOCK_BYTES];
        put_all(
            &mut block[16..],
            &[&self.id.to_le_bytes(), &self.seed.to_le_bytes(), &self.segment_bytes.to_le_bytes()],
        );
        let crc = crc32c::crc32c(&block[16..64]);
        put_all(&mut block, &[MAGIC, &VERSION.to_le_bytes(), &crc.to_le_bytes()]);
        block
    }

    pub(super) fn parse(block: &[u8]) -> Result<Self, SuperblockError> {
        if block.get(..8) != Some(MAGIC) {
            return Err(SuperblockError::NotOurs);
        }
        let damaged = SuperblockError::Damaged;
        let version = u32_at(block, 8).ok_or(damaged)?;
        if version != VERSION {
            return Err(SuperblockError::Version(version));
        }
        if u32_at(block, 12).ok_or(damaged)? != crc32c::crc32c(block.get(16..64).ok_or(damaged)?) {
            return Err(damaged);
        }
        Ok(Self {
            id: u64_at(block, 16).ok_or(damaged)?,
            seed: u64_at(block, 24).ok_or(damaged)?,
            segment_bytes: u64_at(block, 32).ok_or(damaged)?,
        })
    }
}

pub(super) const SUPERBLOCK_BYTES: usize = 4096;
const MAGIC: &[u8; 8] = b"LRDSHELF";
const VERSION: u32 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_and_nothing_else() {
        let block = Superblock { id: 7, seed: 9, segment_bytes: 65536 };
        let bytes = block.encode();
        assert_eq!(bytes.len(), SUPERBLOCK_BYTES);
        assert_eq!(Superblock::parse(&bytes), Ok(block));
        for (at, error) in [
            (0, SuperblockError::NotOurs),
            (8, SuperblockError::Version(0)),
            (20, SuperblockError::Damaged),
            (63, SuperblockError::Damaged),
        ] {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            assert_eq!(Superblock::parse(&changed), Err(error), "byte {at}");
        }
        for len in [0, 7, 11, 63] {
            assert!(Superblock::parse(&bytes[..len]).is_err(), "{len} bytes");
        }
    }
}
