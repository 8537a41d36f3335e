//! The two ends of a segment: the block before its records, and the table after them.

use super::bytes::{put_all, u8_at, u32_at, u64_at};
use super::record::{ALIGN, Kind};

/// The first block of a segment.
///
/// | at | bytes | what                          |
/// | -- | ----- | ----------------------------- |
/// |  0 |     8 | magic, `LRDSEG01`             |
/// |  8 |     4 | CRC-32C of bytes 12 to 64     |
/// | 12 |     4 | zero                          |
/// | 16 |     8 | the id of the shelf           |
/// | 24 |     8 | the sequence of the segment   |
/// | 32 |     8 | the size of the segment       |
///
/// Zeros follow up to 4096 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SegmentHeader {
    pub(super) shelf: u64,
    pub(super) sequence: u64,
    pub(super) bytes: u64,
}

impl SegmentHeader {
    /// Writes the block to `into`, which is zeros.
    pub(super) fn encode(&self, into: &mut [u8]) {
        put_all(&mut into[16..], &[&self.shelf.to_le_bytes(), &self.sequence.to_le_bytes(), &self.bytes.to_le_bytes()]);
        let crc = crc32c::crc32c(&into[12..64]);
        put_all(into, &[SEGMENT_MAGIC, &crc.to_le_bytes()]);
    }

    pub(super) fn parse(block: &[u8]) -> Option<Self> {
        if block.get(..8)? != SEGMENT_MAGIC || u32_at(block, 8)? != crc32c::crc32c(block.get(12..64)?) {
            return None;
        }
        Some(Self { shelf: u64_at(block, 16)?, sequence: u64_at(block, 24)?, bytes: u64_at(block, 32)? })
    }
}

/// Whether a block begins like a segment, of whatever shelf.
pub(super) fn is_segment(block: &[u8]) -> bool {
    block.get(..6) == SEGMENT_MAGIC.get(..6)
}

/// One record in the table of a segment.
///
/// | at | bytes | what                                   |
/// | -- | ----- | -------------------------------------- |
/// |  0 |     8 | hash of the key; 0 for a slice of none |
/// |  8 |     8 | stored at                              |
/// | 16 |     8 | expires at                             |
/// | 24 |     4 | place / 64                             |
/// | 28 |     4 | length / 64                            |
/// | 32 |     4 | cost in microseconds                   |
/// | 36 |     1 | kind                                   |
/// | 37 |     1 | variant                                |
/// | 38 |     1 | 1: for every variant                   |
/// | 39 |     1 | zero                                   |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) hash: u64,
    pub(super) stored_at: u64,
    pub(super) expires_at: u64,
    pub(super) offset: u32,
    pub(super) len: u32,
    pub(super) cost_micros: u32,
    pub(super) kind: Kind,
    pub(super) variant: u8,
    pub(super) is_for_all: bool,
}

impl Row {
    fn encode(&self) -> [u8; ROW_BYTES] {
        let mut row = [0; ROW_BYTES];
        put_all(
            &mut row,
            &[
                &self.hash.to_le_bytes(),
                &self.stored_at.to_le_bytes(),
                &self.expires_at.to_le_bytes(),
                &(self.offset / ALIGN as u32).to_le_bytes(),
                &(self.len / ALIGN as u32).to_le_bytes(),
                &self.cost_micros.to_le_bytes(),
                &[self.kind.code(), self.variant, u8::from(self.is_for_all), 0],
            ],
        );
        row
    }

    fn parse(row: &[u8]) -> Option<Self> {
        Some(Self {
            hash: u64_at(row, 0)?,
            stored_at: u64_at(row, 8)?,
            expires_at: u64_at(row, 16)?,
            offset: u32_at(row, 24)?.checked_mul(ALIGN as u32)?,
            len: u32_at(row, 28)?.checked_mul(ALIGN as u32)?,
            cost_micros: u32_at(row, 32)?,
            kind: Kind::of(u8_at(row, 36)?)?,
            variant: u8_at(row, 37)?,
            is_for_all: u8_at(row, 38)? == 1,
        })
    }
}

/// The last bytes of a sealed segment. They are written after everything else is durable.
///
/// | at | bytes | what                                    |
/// | -- | ----- | --------------------------------------- |
/// |  0 |     8 | magic, `LRDEND01`                       |
/// |  8 |     4 | CRC-32C of bytes 12 to 64               |
/// | 12 |     4 | CRC-32C of the table                    |
/// | 16 |     8 | the id of the shelf                     |
/// | 24 |     8 | the sequence of the segment             |
/// | 32 |     4 | where the table begins                  |
/// | 36 |     4 | the number of its rows                  |
/// | 40 |    24 | zero                                    |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Trailer {
    pub(super) table_at: u32,
    pub(super) rows: u32,
    table_crc: u32,
}

impl Trailer {
    pub(super) fn parse(bytes: &[u8], shelf: u64, sequence: u64) -> Option<Self> {
        let is_ours = bytes.get(..8)? == TRAILER_MAGIC
            && u32_at(bytes, 8)? == crc32c::crc32c(bytes.get(12..TRAILER_BYTES)?)
            && u64_at(bytes, 16)? == shelf
            && u64_at(bytes, 24)? == sequence;
        is_ours.then_some(Self {
            table_crc: u32_at(bytes, 12)?,
            table_at: u32_at(bytes, 32)?,
            rows: u32_at(bytes, 36)?,
        })
    }

    /// The length of the table.
    pub(super) fn table_bytes(&self) -> usize {
        self.rows as usize * ROW_BYTES
    }

    /// The rows in `table`. `None` if its checksum is wrong.
    pub(super) fn rows(&self, table: &[u8]) -> Option<Vec<Row>> {
        if table.len() != self.table_bytes() || crc32c::crc32c(table) != self.table_crc {
            return None;
        }
        table.chunks_exact(ROW_BYTES).map(Row::parse).collect()
    }
}

/// Where the footer with `rows` rows begins in a segment of `segment_bytes`. `None` if it does not fit.
pub(super) fn footer_start(segment_bytes: usize, rows: usize) -> Option<usize> {
    let footer = rows.checked_mul(ROW_BYTES)?.checked_add(TRAILER_BYTES)?;
    Some(segment_bytes.checked_sub(footer)? / BLOCK * BLOCK)
}

/// The end of a segment from `footer_start` on: table, zeros, trailer.
pub(super) fn encode_footer(segment_bytes: usize, shelf: u64, sequence: u64, rows: &[Row]) -> Option<Vec<u8>> {
    let start = footer_start(segment_bytes, rows.len())?;
    let mut footer = vec![0; segment_bytes - start];
    for (row, into) in rows.iter().zip(footer.chunks_exact_mut(ROW_BYTES)) {
        into.copy_from_slice(&row.encode());
    }
    let table_crc = crc32c::crc32c(footer.get(..rows.len() * ROW_BYTES)?);
    let trailer_at = footer.len() - TRAILER_BYTES;
    let trailer = footer.get_mut(trailer_at..)?;
    put_all(
        &mut trailer[12..],
        &[
            &table_crc.to_le_bytes(),
            &shelf.to_le_bytes(),
            &sequence.to_le_bytes(),
            &(start as u32).to_le_bytes(),
            &(rows.len() as u32).to_le_bytes(),
        ],
    );
    let crc = crc32c::crc32c(&trailer[12..]);
    put_all(trailer, &[TRAILER_MAGIC, &crc.to_le_bytes()]);
    Some(footer)
}

/// The alignment of direct writes, and of the two ends of a segment.
pub(super) const BLOCK: usize = 4096;
/// The length of the trailer.
pub(super) const TRAILER_BYTES: usize = 64;
/// The length of one row.
pub(super) const ROW_BYTES: usize = 40;
const SEGMENT_MAGIC: &[u8; 8] = b"LRDSEG01";
const TRAILER_MAGIC: &[u8; 8] = b"LRDEND01";

#[cfg(test)]
mod tests {
    use super::*;

    fn row(number: u32) -> Row {
        Row {
            hash: u64::from(number) * 77,
            stored_at: 1,
            expires_at: 2,
            offset: number * 64,
            len: 128,
            cost_micros: 3,
            kind: Kind::Slice,
            variant: 9,
            is_for_all: false,
        }
    }

    #[test]
    fn a_footer_is_read_as_written_and_any_changed_bit_is_noticed() {
        let size = 65536;
        let rows: Vec<_> = (1..=5).map(row).collect();
        let footer = encode_footer(size, 7, 8, &rows).expect("it fits");
        let read = |footer: &[u8]| {
            let trailer = Trailer::parse(&footer[footer.len() - TRAILER_BYTES..], 7, 8)?;
            assert_eq!(trailer.table_at as usize, size - footer.len());
            trailer.rows(footer.get(..trailer.table_bytes())?)
        };
        assert_eq!(read(&footer), Some(rows));
        let table_bits = 5 * ROW_BYTES * 8;
        let trailer_bits = (footer.len() - TRAILER_BYTES) * 8;
        for bit in (0..table_bits).chain(trailer_bits..footer.len() * 8) {
            let mut changed = footer.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(read(&changed), None, "bit {bit}");
        }
    }

    #[test]
    fn a_footer_of_too_many_rows_does_not_fit() {
        for (rows, start) in [(0, Some(61440)), (100, Some(61440)), (101, Some(57344)), (1636, Some(0)), (1637, None)] {
            assert_eq!(footer_start(65536, rows), start, "{rows}");
        }
    }

    #[test]
    fn a_segment_header_is_read_as_written() {
        let header = SegmentHeader { shelf: 1, sequence: 2, bytes: 3 };
        let mut block = [0; BLOCK];
        header.encode(&mut block);
        assert_eq!(SegmentHeader::parse(&block), Some(header));
        block[40] = 1;
        assert_eq!(SegmentHeader::parse(&block), None);
    }
}
