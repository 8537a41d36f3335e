//! Reads a segment: its table, or, if it has none, its records one after the other.

use std::io;

use crate::disk::files::OpenFile;
use crate::disk::footer::{BLOCK, Row, TRAILER_BYTES, Trailer};
use crate::disk::record::{HEADER_BYTES, Header, Kind, aligned, is_whole, sequence_of};

/// The table of a sealed segment. `None` if it has none, or a damaged one.
pub(in crate::disk) fn read_rows(
    file: &dyn OpenFile,
    shelf: u64,
    sequence: u64,
    bytes: u64,
) -> io::Result<Option<Vec<Row>>> {
    let Some(trailer_at) = bytes.checked_sub(TRAILER_BYTES as u64) else { return Ok(None) };
    let mut end = [0; TRAILER_BYTES];
    if file.read_at(&mut end, trailer_at)? != end.len() {
        return Ok(None);
    }
    let Some(trailer) = Trailer::parse(&end, shelf, sequence) else { return Ok(None) };
    if u64::from(trailer.table_at) + trailer.table_bytes() as u64 > trailer_at {
        return Ok(None);
    }
    let mut table = vec![0; trailer.table_bytes()];
    if file.read_at(&mut table, u64::from(trailer.table_at))? != table.len() {
        return Ok(None);
    }
    let rows = trailer.rows(&table);
    Ok(rows.filter(|rows| rows.iter().all(|row| u64::from(row.offset) + u64::from(row.len) <= bytes && row.len > 0)))
}

/// Reads a segment record by record and checks every checksum. Passes on each undamaged record: the row that it would
/// have in the table, its header, key and head. After a damaged one, it goes on with the next block.
///
/// `hash` gives the hash of a key.
pub(in crate::disk) fn scan(
    file: &dyn OpenFile,
    shelf: u64,
    sequence: u64,
    bytes: u64,
    hash: impl Fn(&[u8]) -> u64,
    mut each: impl FnMut(Row, &Header, &[u8]),
) -> io::Result<()> {
    let mut window = Window { file, bytes: Vec::new(), at: 0, end: bytes as usize };
    let mut at = BLOCK;
    while at + HEADER_BYTES <= bytes as usize {
        let Some((header, record)) = whole_record(&mut window, at, shelf, sequence)? else {
            at = (at + 1).next_multiple_of(BLOCK);
            continue;
        };
        let len = aligned(header.record_bytes());
        let key = record.get(HEADER_BYTES..HEADER_BYTES + header.key_bytes as usize).unwrap_or_default();
        let row = Row {
            hash: if header.kind == Kind::Slice { 0 } else { hash(key) },
            stored_at: header.stored_at,
            expires_at: header.expires_at,
            offset: at as u32,
            len: len as u32,
            cost_micros: header.cost_micros,
            kind: header.kind,
            variant: header.variant,
            is_for_all: header.is_for_all,
        };
        each(row, &header, record);
        at += len;
    }
    Ok(())
}

/// The record at `at`, if all of its checksums are right.
fn whole_record<'a>(
    window: &'a mut Window<'_>,
    at: usize,
    shelf: u64,
    sequence: u64,
) -> io::Result<Option<(Header, &'a [u8])>> {
    let Some(header) = Header::parse(window.get(at, HEADER_BYTES)?, shelf, sequence_of(sequence, at as u32)) else {
        return Ok(None);
    };
    let record = window.get(at, header.record_bytes())?;
    let is_good = is_whole(record, &header)
        && record
            .get(header.body_start()..)
            .is_some_and(|body| body.len() == header.body_bytes as usize && crc32c::crc32c(body) == header.body_crc);
    Ok(is_good.then_some((header, record)))
}

/// A part of a file in memory that moves forward.
struct Window<'a> {
    file: &'a dyn OpenFile,
    bytes: Vec<u8>,
    at: usize,
    end: usize,
}

impl Window<'_> {
    /// The bytes from `at` on, `len` of them or as many as there are.
    fn get(&mut self, at: usize, len: usize) -> io::Result<&[u8]> {
        let len = len.min(self.end.saturating_sub(at));
        if at < self.at || at + len > self.at + self.bytes.len() {
            let wanted = len.max(WINDOW_BYTES).min(self.end.saturating_sub(at));
            self.bytes.resize(wanted, 0);
            self.at = at;
            let read = self.file.read_at(&mut self.bytes, at as u64)?;
            self.bytes.truncate(read);
        }
        let from = at - self.at;
        Ok(self.bytes.get(from..self.bytes.len().min(from + len)).unwrap_or_default())
    }
}

/// How many bytes are read at a time.
const WINDOW_BYTES: usize = 1 << 20;
