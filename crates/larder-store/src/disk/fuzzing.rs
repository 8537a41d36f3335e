//! The parsers of disk formats, for `larder-fuzz`.

use super::bans::Bans;
use super::bytes::{put_all, u64_at};
use super::footer::{BLOCK, SegmentHeader, TRAILER_BYTES, Trailer, encode_footer};
use super::record::{HEADER_BYTES, Header, encode_spans, is_whole, parse_spans};
use super::superblock::Superblock;

/// Parses bytes and writes the result again. `None` if they cannot be parsed.
pub type Rewrite = fn(&[u8]) -> Option<Vec<u8>>;

/// The disk formats. Each function first corrects the checksums.
pub const FORMATS: [(&str, Rewrite); 6] = [
    ("record", record),
    ("spans", spans),
    ("segment header", segment_header),
    ("footer", footer),
    ("bans", bans),
    ("superblock", superblock),
];

/// The shelf id in all inputs.
const SHELF: u64 = 7;
/// The segment's sequence in all inputs.
const SEQUENCE: u64 = 3;

/// A header, its key and its head.
fn record(bytes: &[u8]) -> Option<Vec<u8>> {
    let header = Header::parse(bytes, u64_at(bytes, 56)?, u64_at(bytes, 24)?)?;
    let (key, head) = header.key_and_head(bytes)?;
    let whole = [&header.encode(key, head), key, head].concat();
    assert!(is_whole(&whole, &header) && whole.len() == header.body_start() && header.record_bytes() >= whole.len());
    assert!(whole.len() >= HEADER_BYTES);
    Some(whole)
}

fn spans(bytes: &[u8]) -> Option<Vec<u8>> {
    let table = encode_spans(&parse_spans(bytes)?);
    assert_eq!(table, bytes, "a table of spans is read byte for byte");
    Some(table)
}

fn segment_header(bytes: &[u8]) -> Option<Vec<u8>> {
    let header = SegmentHeader::parse(&checked(bytes, 8, 12, 64)?)?;
    let mut block = vec![0; 64];
    header.encode(&mut block);
    Some(block)
}

/// A table, and the trailer at its end.
fn footer(bytes: &[u8]) -> Option<Vec<u8>> {
    let at = bytes.len().checked_sub(TRAILER_BYTES)?;
    let (before, trailer) = bytes.split_at(at);
    let mut trailer = trailer.to_vec();
    put_all(&mut trailer[16..], &[&SHELF.to_le_bytes(), &SEQUENCE.to_le_bytes()]);
    let rows = u32::from_le_bytes([trailer[36], trailer[37], trailer[38], trailer[39]]);
    let table = before.get(..(rows as usize).checked_mul(super::footer::ROW_BYTES)?)?;
    put_all(&mut trailer[12..], &[&crc32c::crc32c(table).to_le_bytes()]);
    let trailer = Trailer::parse(&checked(&trailer, 8, 12, TRAILER_BYTES)?, SHELF, SEQUENCE)?;
    encode_footer(BLOCK, SHELF, SEQUENCE, &trailer.rows(table)?)
}

fn bans(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = bytes.to_vec();
    put_all(bytes.get_mut(8..16)?, &[&SHELF.to_le_bytes()]);
    let bans = Bans::default();
    bans.load(&checked(&bytes, 4, 8, bytes.len())?, SHELF).then(|| bans.encode(SHELF))?
}

fn superblock(bytes: &[u8]) -> Option<Vec<u8>> {
    Superblock::parse(&checked(bytes, 12, 16, 64)?).ok().map(|block| block.encode())
}

/// `bytes` with the correct checksum of `from..to` at `at`.
fn checked(bytes: &[u8], at: usize, from: usize, to: usize) -> Option<Vec<u8>> {
    let crc = crc32c::crc32c(bytes.get(from..to)?);
    let mut bytes = bytes.to_vec();
    put_all(bytes.get_mut(at..at + 4)?, &[&crc.to_le_bytes()]);
    Some(bytes)
}
