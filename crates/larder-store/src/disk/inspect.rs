//! Inspects the folder of a disk shelf, for `larder cache`. It only reads (but for `clear`), even while a process uses
//! it.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::bans::{BANS_FILE, Bans, WordedBan};
use super::debt::DebtNote;
use super::files::{Files, OpenFile, RealFiles};
use super::footer::{BLOCK, Row, SegmentHeader};
use super::record::{HEADER_BYTES, Header, Kind, Span, is_whole, parse_spans, sequence_of};
use super::segment::{segment_name, sequence_in};
use super::space::SEGMENT_MAX;
use super::superblock::Superblock;
use super::writer::{DEBT_FILE, SHELF_FILE, read_rows, scan};

/// The folder of a shelf.
pub struct Inspect {
    dir: PathBuf,
    superblock: Superblock,
    /// Newest first.
    segments: Vec<Found>,
    bans: Bans,
}

struct Found {
    sequence: u64,
    /// The size that it was made with.
    bytes: u64,
    file: Arc<dyn OpenFile>,
}

/// One record.
#[derive(Clone, Copy, Debug)]
pub struct RecordView<'a> {
    /// Its key; empty for a slice.
    pub key: &'a [u8],
    /// Its head, as it was stored.
    pub head: &'a [u8],
    /// Its variant number, which tells it from other pages of its key.
    pub variant: u8,
    /// What it is.
    pub kind: Kind,
    /// The sequence of its segment.
    pub segment: u64,
    /// Where in the segment it begins.
    pub offset: u32,
    /// The length of its body, in this record or in slices.
    pub body_len: u64,
    /// When it was stored.
    pub stored_at: u64,
    /// From when on it is useless, stale included.
    pub expires_at: u64,
    /// How long the origin took to make it, in microseconds.
    pub cost_micros: u32,
    /// Whether it is a page that can be found: not replaced, not removed, and with no part evicted.
    pub live: bool,
}

/// A damaged record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The segment.
    pub segment: u64,
    /// Where in it.
    pub offset: u32,
    /// What is wrong, in words.
    pub fact: &'static str,
}

/// The result of [`Inspect::verify`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Segment files.
    pub segments: usize,
    /// Of those, how many have no footer: the one that is being written, or that a crash left.
    pub unsealed: usize,
    /// Records, of all kinds.
    pub records: u64,
    /// Pages that can be found.
    pub live: u64,
    /// Bytes of records.
    pub bytes: u64,
    /// Damaged records.
    pub findings: u64,
}

impl Inspect {
    /// Opens a folder. Fails if it has no shelf of this format.
    pub fn open(dir: impl Into<PathBuf>) -> io::Result<Self> {
        let dir = dir.into();
        let files = RealFiles;
        let superblock = Superblock::parse(&start_of(&*files.open(&dir.join(SHELF_FILE))?)?)
            .map_err(|fault| io::Error::new(io::ErrorKind::InvalidData, fault))?;
        let mut segments = Vec::new();
        for listed in files.list(&dir)? {
            let Some(sequence) = listed.name.to_str().and_then(sequence_in) else { continue };
            // The process that uses the shelf may have deleted it meanwhile.
            let Ok(file) = files.open(&dir.join(segment_name(sequence))) else { continue };
            let Some(header) = SegmentHeader::parse(&start_of(&*file)?) else { continue };
            if header.shelf == superblock.id && header.sequence == sequence && header.bytes <= SEGMENT_MAX {
                segments.push(Found { sequence, bytes: header.bytes, file });
            }
        }
        segments.sort_by_key(|segment| std::cmp::Reverse(segment.sequence));
        let bans = Bans::default();
        if let Ok(file) = files.open(&dir.join(BANS_FILE)) {
            let mut bytes = vec![0; usize::try_from(file.len()?).unwrap_or(0)];
            let read = file.read_at(&mut bytes, 0)?;
            // If the bans cannot be read, the next process that opens the shelf clears it. Until then its pages are
            // there.
            let _ = bans.load(bytes.get(..read).unwrap_or_default(), superblock.id);
        }
        Ok(Self { dir, superblock, segments, bans })
    }

    /// The bans in words, oldest first.
    pub fn worded_bans(&self) -> Vec<WordedBan> {
        self.bans.all_worded()
    }

    /// Whether a process uses the shelf.
    pub fn is_in_use(&self) -> io::Result<bool> {
        Ok(RealFiles.lock(&self.dir.join(SHELF_FILE), false)?.is_none())
    }

    /// How much the process that uses the shelf owes to the disk, as it noted within the last second. `None` for
    /// nothing.
    pub fn debt(&self) -> io::Result<Option<DebtNote>> {
        let Ok(file) = RealFiles.open(&self.dir.join(DEBT_FILE)) else { return Ok(None) };
        // A process that has ended owes nothing.
        let note = DebtNote::parse(&start_of(&*file)?).filter(|note| note.pages > 0);
        Ok(note.filter(|_| self.is_in_use().unwrap_or(true)))
    }

    /// Calls `each` with every record whose header, key and head are undamaged, newest first.
    pub fn records(&self, mut each: impl FnMut(RecordView<'_>)) -> io::Result<()> {
        self.walk(|_, record| {
            if let Ok(view) = record {
                each(view);
            }
        })?;
        Ok(())
    }

    /// Reads everything and checks every checksum.
    pub fn verify(&self, mut each: impl FnMut(Finding)) -> io::Result<Report> {
        let mut report = Report { segments: self.segments.len(), ..Report::default() };
        for segment in &self.segments {
            let there = segment.file.len()?;
            if there < segment.bytes {
                report.findings += 1;
                let fact = "the file ends here, and was longer";
                each(Finding { segment: segment.sequence, offset: there as u32, fact });
            }
        }
        report.unsealed = self.walk(|segment, record| match record {
            Ok(view) => {
                report.records += 1;
                report.live += u64::from(view.live);
                report.bytes += (HEADER_BYTES + view.key.len() + view.head.len()) as u64;
                if let Some(fact) = self.body_fault(segment, &view, &mut report.bytes) {
                    report.findings += 1;
                    each(Finding { segment: segment.sequence, offset: view.offset, fact });
                }
            }
            Err(finding) => {
                report.findings += 1;
                each(finding);
            }
        })?;
        Ok(report)
    }

    /// Deletes every segment. Fails with [`io::ErrorKind::ResourceBusy`] if a process uses the shelf.
    pub fn clear(&self) -> io::Result<()> {
        let Some(_lock) = RealFiles.lock(&self.dir.join(SHELF_FILE), false)? else {
            return Err(io::ErrorKind::ResourceBusy.into());
        };
        // Listed again, because there may be new ones. Oldest first, so that no older page can be found if this is cut
        // off.
        let listed = RealFiles.list(&self.dir)?;
        let mut sequences: Vec<u64> =
            listed.iter().filter_map(|listed| listed.name.to_str().and_then(sequence_in)).collect();
        sequences.sort_unstable();
        for sequence in sequences {
            RealFiles.unlink(&self.dir.join(segment_name(sequence)))?;
        }
        RealFiles.sync_dir(&self.dir)
    }

    /// The folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Calls `each` with every record, newest first; `live` says whether it is replaced, removed or evicted. Returns
    /// the number of segments without a footer.
    fn walk(&self, mut each: impl FnMut(&Found, Result<RecordView<'_>, Finding>)) -> io::Result<usize> {
        let mut newer: HashSet<(u64, Option<u8>)> = HashSet::new();
        let mut unsealed = 0;
        for segment in &self.segments {
            for row in self.rows(segment, &mut unsealed)?.iter().rev() {
                let in_force = (row.hash, (!row.is_for_all).then_some(row.variant));
                let live = match row.kind {
                    Kind::Page | Kind::Spans => !newer.contains(&(row.hash, None)) && newer.insert(in_force),
                    Kind::Tombstone => {
                        newer.insert(in_force);
                        false
                    }
                    Kind::Slice => false,
                };
                let bytes = self.front(segment, row)?;
                let is_banned = |(header, bytes): &(Header, Vec<u8>)| {
                    header.key_and_head(bytes).is_some_and(|(key, _)| self.bans.cover(key, header.sequence))
                };
                let is_here = |(header, bytes): &(Header, Vec<u8>)| self.is_whole_here(header, bytes);
                let live = live && !bytes.as_ref().is_some_and(is_banned) && bytes.as_ref().is_none_or(is_here);
                let view = bytes.as_ref().and_then(|(header, bytes)| view(segment, row, header, bytes, live));
                let finding = Finding {
                    segment: segment.sequence,
                    offset: row.offset,
                    fact: "the record is not as it was written",
                };
                each(segment, view.ok_or(finding));
            }
        }
        Ok(unsealed)
    }

    fn rows(&self, segment: &Found, unsealed: &mut usize) -> io::Result<Vec<Row>> {
        let id = self.superblock.id;
        if let Some(rows) = read_rows(&*segment.file, id, segment.sequence, segment.bytes)? {
            return Ok(rows);
        }
        *unsealed += 1;
        let mut rows = Vec::new();
        let hash = |key: &[u8]| xxhash_rust::xxh3::xxh3_64_with_seed(key, self.superblock.seed).max(1);
        scan(&*segment.file, id, segment.sequence, segment.bytes, hash, |row, _, _| rows.push(row))?;
        Ok(rows)
    }

    /// Header, key and head of a record, and the table of its spans. `None` if they are damaged.
    fn front(&self, segment: &Found, row: &Row) -> io::Result<Option<(Header, Vec<u8>)>> {
        let at = u64::from(row.offset);
        let mut bytes = vec![0; HEADER_BYTES];
        let read = segment.file.read_at(&mut bytes, at)?;
        let header = Header::parse(&bytes[..read], self.superblock.id, sequence_of(segment.sequence, row.offset));
        let Some(header) = header.filter(|header| header.record_bytes() <= row.len as usize) else {
            return Ok(None);
        };
        let with_table = header.kind == Kind::Spans;
        let len = if with_table { header.record_bytes() } else { header.body_start() };
        bytes.resize(len, 0);
        let read = segment.file.read_at(&mut bytes, at)?;
        Ok((read == len && is_whole(&bytes, &header)).then_some((header, bytes)))
    }

    /// What is wrong with the body of a record, if anything.
    fn body_fault(&self, segment: &Found, view: &RecordView<'_>, bytes: &mut u64) -> Option<&'static str> {
        let row_at = u64::from(view.offset);
        let mut first = [0; HEADER_BYTES];
        segment.file.read_at(&mut first, row_at).ok()?;
        let header = Header::parse(&first, self.superblock.id, sequence_of(segment.sequence, view.offset))?;
        let mut body = vec![0; header.body_bytes as usize];
        let is_read = matches!(
            segment.file.read_at(&mut body, row_at + header.body_start() as u64),
            Ok(read) if read == body.len()
        );
        *bytes += body.len() as u64;
        if !is_read || crc32c::crc32c(&body) != header.body_crc {
            return Some("the body is not as it was written");
        }
        None
    }

    /// Whether every part of a body is in an existing segment. The oldest segment is evicted first, with the parts in
    /// it, and then the page is a miss.
    fn is_whole_here(&self, header: &Header, bytes: &[u8]) -> bool {
        let is_there = |span: &Span| self.segments.iter().any(|segment| segment.sequence == span.segment);
        header.kind != Kind::Spans
            || bytes.get(header.body_start()..).and_then(parse_spans).is_some_and(|spans| spans.iter().all(is_there))
    }
}

fn view<'a>(segment: &Found, row: &Row, header: &Header, bytes: &'a [u8], live: bool) -> Option<RecordView<'a>> {
    let (key, head) = header.key_and_head(bytes)?;
    let body_len = match header.kind {
        Kind::Spans => parse_spans(bytes.get(header.body_start()..)?)?.iter().map(|span| u64::from(span.len)).sum(),
        Kind::Page | Kind::Slice | Kind::Tombstone => u64::from(header.body_bytes),
    };
    Some(RecordView {
        key,
        head,
        variant: header.variant,
        kind: header.kind,
        segment: segment.sequence,
        offset: row.offset,
        body_len,
        stored_at: header.stored_at,
        expires_at: header.expires_at,
        cost_micros: header.cost_micros,
        live,
    })
}

fn start_of(file: &dyn OpenFile) -> io::Result<Vec<u8>> {
    let mut block = vec![0; BLOCK];
    let read = file.read_at(&mut block, 0)?;
    block.truncate(read);
    Ok(block)
}
