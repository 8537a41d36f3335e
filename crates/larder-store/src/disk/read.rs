//! Reads records. Everything is verified, and anything wrong is a miss.

use std::cell::Cell;
use std::io;

use bytes::Bytes;

use super::files::OpenFile;
use super::found::Place;
use super::record::{Header, Kind, Span, is_whole, parse_spans, sequence_of};
use super::segment::Segment;
use super::shared::Shared;
use std::sync::Arc;

/// Whether a read may wait for a disk.
#[derive(Clone, Copy, Debug)]
pub(super) enum Wait<'a> {
    Never,
    /// Notes here that the disk itself answered. A read from the page cache says nothing about the disk.
    Allowed(&'a Cell<bool>),
}

/// Why a record brought no page.
#[derive(Debug)]
pub(super) enum NoPage {
    /// It cannot be read without waiting.
    WouldBlock,
    /// It belongs to another key with the same hash.
    OtherKey,
    Expired,
    /// It was stored before a ban of its key.
    Banned,
    /// Parts of its body have been evicted.
    Gone,
    /// Its checksum or layout is wrong.
    Corrupt,
    Failed(io::Error),
}

/// A record that was read and verified.
pub(super) struct Record {
    pub(super) header: Header,
    pub(super) key: Bytes,
    pub(super) head: Bytes,
    pub(super) body: RecordBody,
}

pub(super) enum RecordBody {
    /// Verified.
    Memory(Bytes),
    /// Where it is; it is longer than requested.
    Spans(Vec<Span>),
}

/// Reads the record of a page. A body of up to `body_max` comes along, a longer one as the place it has.
pub(super) fn read_record(shared: &Shared, place: &Place, body_max: usize, wait: Wait<'_>) -> Result<Record, NoPage> {
    let file = open(shared, &place.segment, wait)?;
    let (at, len) = (u64::from(place.offset), place.len as usize);
    let first = if len <= body_max.saturating_add(FIRST_READ_BYTES) { len } else { FIRST_READ_BYTES };
    let mut bytes = vec![0; first];
    read_exact(shared, file, &mut bytes, at, wait)?;
    let sequence = sequence_of(place.segment.sequence, place.offset);
    let header = Header::parse(&bytes, shared.id(), sequence).ok_or(NoPage::Corrupt)?;
    if header.record_bytes() > len {
        return Err(NoPage::Corrupt);
    }
    let with_body = match header.kind {
        Kind::Page => header.body_bytes as usize <= body_max,
        Kind::Spans => true,
        Kind::Slice | Kind::Tombstone => return Err(NoPage::Corrupt),
    };
    let wanted = if with_body { header.record_bytes() } else { header.body_start() };
    if wanted > bytes.len() {
        let had = bytes.len();
        bytes.resize(wanted, 0);
        read_exact(shared, file, &mut bytes[had..], at + had as u64, wait)?;
    }
    if !is_whole(&bytes, &header) {
        return Err(NoPage::Corrupt);
    }
    // What is kept is as long as it needs to be.
    bytes.truncate(wanted);
    let bytes = Bytes::from(bytes);
    let head_start = header.body_start() - header.head_bytes as usize;
    let key = bytes.slice(super::record::HEADER_BYTES..head_start);
    let head = bytes.slice(head_start..header.body_start());
    let body = if with_body {
        let body = bytes.slice(header.body_start()..);
        if crc32c::crc32c(&body) != header.body_crc {
            return Err(NoPage::Corrupt);
        }
        match header.kind {
            Kind::Spans => RecordBody::Spans(parse_spans(&body).ok_or(NoPage::Corrupt)?),
            Kind::Page | Kind::Slice | Kind::Tombstone => RecordBody::Memory(body),
        }
    } else {
        RecordBody::Spans(vec![Span {
            segment: place.segment.sequence,
            offset: place.offset + header.body_start() as u32,
            len: header.body_bytes,
            crc: header.body_crc,
        }])
    };
    Ok(Record { header, key, head, body })
}

/// The bytes of `spans`, verified, in one piece.
pub(super) fn gather(shared: &Shared, spans: &[Span], wait: Wait<'_>) -> Result<Bytes, NoPage> {
    let mut bytes = vec![0; spans.iter().map(|span| span.len as usize).sum()];
    let mut rest = &mut bytes[..];
    for span in spans {
        let (into, behind) = rest.split_at_mut(span.len as usize);
        let segment = shared.live.get(span.segment).ok_or(NoPage::Gone)?;
        read_span(shared, &segment, span, into, wait)?;
        rest = behind;
    }
    Ok(Bytes::from(bytes))
}

/// Reads and verifies the bytes of one span, which must be as long as `into`.
pub(super) fn read_span(
    shared: &Shared,
    segment: &Segment,
    span: &Span,
    into: &mut [u8],
    wait: Wait<'_>,
) -> Result<(), NoPage> {
    read_exact(shared, open(shared, segment, wait)?, into, u64::from(span.offset), wait)?;
    if crc32c::crc32c(into) != span.crc {
        return Err(NoPage::Corrupt);
    }
    segment.set_verified(span.offset, span.len);
    Ok(())
}

fn open<'a>(shared: &Shared, segment: &'a Segment, wait: Wait<'_>) -> Result<&'a Arc<dyn OpenFile>, NoPage> {
    match wait {
        Wait::Never => segment.open_reader().ok_or(NoPage::WouldBlock),
        Wait::Allowed(_) => match segment.reader(&*shared.files) {
            Ok(file) => Ok(file),
            // An operator deleted the file.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(NoPage::Gone),
            Err(error) => Err(NoPage::Failed(error)),
        },
    }
}

fn read_exact(
    shared: &Shared,
    file: &Arc<dyn OpenFile>,
    into: &mut [u8],
    at: u64,
    wait: Wait<'_>,
) -> Result<(), NoPage> {
    // Not in the page cache, not supported by this file system, or an error that the reader threads will get again.
    let had = file.read_at_nowait(into, at).unwrap_or(0);
    let rest = into.get_mut(had..).unwrap_or_default();
    match wait {
        _ if rest.is_empty() => Ok(()),
        Wait::Never => Err(NoPage::WouldBlock),
        Wait::Allowed(has_answered) => {
            let began = shared.files.now();
            let read = file.read_at(rest, at + had as u64).map_err(NoPage::Failed)?;
            shared.counters.read_times.add_from(began, shared.files.now());
            shared.counters.read_bytes.add(read as u64);
            if read < rest.len() {
                return Err(NoPage::Corrupt);
            }
            has_answered.set(true);
            Ok(())
        }
    }
}

/// The first read of a record whose body stays on disk: header, key and usually the whole head.
const FIRST_READ_BYTES: usize = 8 * 1024;
