//! Records: a shelf writes them one after the other into its segments.

use super::bytes::{put_all, u8_at, u32_at, u64_at};

/// A record, little-endian, at a multiple of 64 in its segment. A new layout takes a new magic.
///
/// | at | bytes | what                                                            |
/// | -- | ----- | --------------------------------------------------------------- |
/// |  0 |     4 | magic, `LRD1`                                                   |
/// |  4 |     4 | CRC-32C of bytes 8 to 64, key and head                          |
/// |  8 |     1 | kind: 1 page, 2 page of spans, 3 slice, 4 tombstone             |
/// |  9 |     1 | variant                                                         |
/// | 10 |     1 | 1: a tombstone for every variant of its key; else 0             |
/// | 11 |     1 | zero                                                            |
/// | 12 |     4 | length of the key                                               |
/// | 16 |     4 | length of the head                                              |
/// | 20 |     4 | length of the body: bytes, or a table of spans                  |
/// | 24 |     8 | sequence: the segment's, times 2^22, plus the place in it / 64  |
/// | 32 |     8 | stored at, seconds since 1970                                   |
/// | 40 |     8 | expires at: of no use at all from then on                       |
/// | 48 |     4 | what it cost to make, in microseconds                           |
/// | 52 |     4 | CRC-32C of the body                                             |
/// | 56 |     8 | the id of the shelf                                             |
/// | 64 |       | key, head, body                                                 |
/// The sequence makes a record invalid that is read from a wrong place. The secret id makes a record invalid that an
/// attacker has put into a body, for a scan to find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) kind: Kind,
    pub(super) variant: u8,
    pub(super) is_for_all: bool,
    pub(super) key_bytes: u32,
    pub(super) head_bytes: u32,
    pub(super) body_bytes: u32,
    pub(super) sequence: u64,
    pub(super) stored_at: u64,
    pub(super) expires_at: u64,
    pub(super) cost_micros: u32,
    pub(super) body_crc: u32,
    pub(super) shelf: u64,
}

/// What a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A page whose body is in the record.
    Page,
    /// A page whose body is a list of [`Span`]s.
    Spans,
    /// A part of a body, without a key.
    Slice,
    /// A page was removed.
    Tombstone,
}

impl Kind {
    pub(super) fn code(self) -> u8 {
        match self {
            Kind::Page => 1,
            Kind::Spans => 2,
            Kind::Slice => 3,
            Kind::Tombstone => 4,
        }
    }

    pub(super) fn of(code: u8) -> Option<Self> {
        Some(match code {
            1 => Kind::Page,
            2 => Kind::Spans,
            3 => Kind::Slice,
            4 => Kind::Tombstone,
            _ => return None,
        })
    }
}

impl Header {
    /// The first bytes of the record of `key` and `head`.
    pub(super) fn encode(&self, key: &[u8], head: &[u8]) -> [u8; HEADER_BYTES] {
        debug_assert_eq!((key.len(), head.len()), (self.key_bytes as usize, self.head_bytes as usize));
        let mut bytes = [0; HEADER_BYTES];
        put_all(
            &mut bytes[8..],
            &[
                &[self.kind.code(), self.variant, u8::from(self.is_for_all), 0],
                &self.key_bytes.to_le_bytes(),
                &self.head_bytes.to_le_bytes(),
                &self.body_bytes.to_le_bytes(),
                &self.sequence.to_le_bytes(),
                &self.stored_at.to_le_bytes(),
                &self.expires_at.to_le_bytes(),
                &self.cost_micros.to_le_bytes(),
                &self.body_crc.to_le_bytes(),
                &self.shelf.to_le_bytes(),
            ],
        );
        let crc = crc_of(&bytes, key, head);
        put_all(&mut bytes, &[MAGIC, &crc.to_le_bytes()]);
        bytes
    }

    /// Reads the first bytes of a record that should be the one of `sequence` on `shelf`. Only [`is_whole`] says
    /// whether they are undamaged.
    pub(super) fn parse(bytes: &[u8], shelf: u64, sequence: u64) -> Option<Self> {
        if bytes.get(..4)? != MAGIC {
            return None;
        }
        let header = Self {
            kind: Kind::of(u8_at(bytes, 8)?)?,
            variant: u8_at(bytes, 9)?,
            is_for_all: u8_at(bytes, 10)? == 1,
            key_bytes: u32_at(bytes, 12)?,
            head_bytes: u32_at(bytes, 16)?,
            body_bytes: u32_at(bytes, 20)?,
            sequence: u64_at(bytes, 24)?,
            stored_at: u64_at(bytes, 32)?,
            expires_at: u64_at(bytes, 40)?,
            cost_micros: u32_at(bytes, 48)?,
            body_crc: u32_at(bytes, 52)?,
            shelf: u64_at(bytes, 56)?,
        };
        (header.shelf == shelf && header.sequence == sequence).then_some(header)
    }

    /// Where the body begins, counted from the start of the record.
    pub(super) fn body_start(&self) -> usize {
        HEADER_BYTES + self.key_bytes as usize + self.head_bytes as usize
    }

    /// The length of the record without padding.
    pub(super) fn record_bytes(&self) -> usize {
        self.body_start() + self.body_bytes as usize
    }

    /// Key and head of a record in `bytes`, which begin with this header.
    pub(super) fn key_and_head<'a>(&self, bytes: &'a [u8]) -> Option<(&'a [u8], &'a [u8])> {
        let key_end = HEADER_BYTES + self.key_bytes as usize;
        Some((bytes.get(HEADER_BYTES..key_end)?, bytes.get(key_end..self.body_start())?))
    }
}

/// Whether the checksum of header, key and head in `bytes` is right.
pub(super) fn is_whole(bytes: &[u8], header: &Header) -> bool {
    let (Some(first), Some((key, head))) = (bytes.first_chunk::<HEADER_BYTES>(), header.key_and_head(bytes)) else {
        return false;
    };
    u32_at(first, 4) == Some(crc_of(first, key, head))
}

fn crc_of(header: &[u8; HEADER_BYTES], key: &[u8], head: &[u8]) -> u32 {
    let crc = crc32c::crc32c(&header[8..]);
    crc32c::crc32c_append(crc32c::crc32c_append(crc, key), head)
}

/// A part of a body: where on the shelf it is, and its checksum.
///
/// | at | bytes | what                          |
/// | -- | ----- | ----------------------------- |
/// |  0 |     8 | the sequence of the segment   |
/// |  8 |     4 | the place in the segment      |
/// | 12 |     4 | length                        |
/// | 16 |     4 | CRC-32C                       |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The sequence of the segment.
    pub segment: u64,
    /// Where in the segment the bytes begin.
    pub offset: u32,
    /// Their number.
    pub len: u32,
    /// Their CRC-32C.
    pub crc: u32,
}

/// The table of `spans` as bytes.
pub(super) fn encode_spans(spans: &[Span]) -> Vec<u8> {
    let mut table = vec![0; spans.len() * SPAN_BYTES];
    for (span, row) in spans.iter().zip(table.chunks_exact_mut(SPAN_BYTES)) {
        put_all(
            row,
            &[
                &span.segment.to_le_bytes(),
                &span.offset.to_le_bytes(),
                &span.len.to_le_bytes(),
                &span.crc.to_le_bytes(),
            ],
        );
    }
    table
}

/// The spans in a table; `None` when it is no table.
pub(super) fn parse_spans(table: &[u8]) -> Option<Vec<Span>> {
    let (rows, rest) = table.as_chunks::<SPAN_BYTES>();
    if !rest.is_empty() {
        return None;
    }
    rows.iter()
        .map(|row| {
            Some(Span {
                segment: u64_at(row, 0)?,
                offset: u32_at(row, 8)?,
                len: u32_at(row, 12)?,
                crc: u32_at(row, 16)?,
            })
        })
        .collect()
}

/// The sequence of the record at `offset` of the segment `segment`.
pub(super) fn sequence_of(segment: u64, offset: u32) -> u64 {
    (segment << OFFSET_BITS) | u64::from(offset / ALIGN as u32)
}

/// Rounds up to where the next record may begin.
pub(super) fn aligned(bytes: usize) -> usize {
    bytes.next_multiple_of(ALIGN)
}

/// The bytes of a record before its key.
pub(super) const HEADER_BYTES: usize = 64;
/// Records begin at multiples of this.
pub(super) const ALIGN: usize = 64;
/// A place in a segment, in units of [`ALIGN`], has this many bits.
pub(super) const OFFSET_BITS: u32 = 22;
/// One row of a table of spans.
pub(super) const SPAN_BYTES: usize = 20;
const MAGIC: &[u8; 4] = b"LRD1";

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> Header {
        Header {
            kind: Kind::Page,
            variant: 3,
            is_for_all: false,
            key_bytes: 3,
            head_bytes: 4,
            body_bytes: 5,
            sequence: sequence_of(2, 128),
            stored_at: 10,
            expires_at: 20,
            cost_micros: 30,
            body_crc: crc32c::crc32c(b"hello"),
            shelf: 77,
        }
    }

    #[test]
    fn a_record_is_read_as_written_and_any_changed_bit_is_noticed() {
        let header = header();
        let bytes = [&header.encode(b"key", b"head")[..], b"keyhead", b"hello"].concat();
        assert_eq!(bytes.len(), header.record_bytes());
        let read = Header::parse(&bytes, 77, header.sequence).expect("it is whole");
        assert_eq!(read, header);
        assert!(is_whole(&bytes, &read));
        assert_eq!(read.key_and_head(&bytes), Some((&b"key"[..], &b"head"[..])));
        for bit in 0..header.body_start() * 8 {
            let mut changed = bytes.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            let found = Header::parse(&changed, 77, header.sequence);
            assert!(!found.is_some_and(|found| is_whole(&changed, &found)), "bit {bit}");
        }
        for len in 0..header.body_start() {
            let found = Header::parse(&bytes[..len], 77, header.sequence);
            assert!(!found.is_some_and(|found| is_whole(&bytes[..len], &found)), "{len} bytes");
        }
    }

    #[test]
    fn a_record_of_another_place_or_shelf_is_none() {
        let bytes = header().encode(b"key", b"head");
        for (shelf, sequence) in [(78, sequence_of(2, 128)), (77, sequence_of(3, 128)), (77, sequence_of(2, 192))] {
            assert_eq!(Header::parse(&bytes, shelf, sequence), None, "{shelf} {sequence}");
        }
    }

    #[test]
    fn spans_are_read_as_written() {
        let spans = [Span { segment: 1, offset: 2, len: 3, crc: 4 }, Span { segment: 5, offset: 6, len: 7, crc: 8 }];
        let table = encode_spans(&spans);
        assert_eq!(parse_spans(&table).as_deref(), Some(&spans[..]));
        assert_eq!(parse_spans(&table[1..]), None);
    }
}
