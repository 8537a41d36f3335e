//! Bodies that are sent from the disk.

use std::cell::Cell;
use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::oneshot;

use super::read::{NoPage, Wait, read_span};
use super::record::Span;
use super::segment::Segment;
use super::shared::Shared;

/// Where a body is on a shelf. It does not pin the body, which may be evicted before it is read.
#[derive(Clone)]
pub struct DiskBody {
    inner: Arc<Inner>,
}

struct Inner {
    shared: Arc<Shared>,
    spans: Box<[Span]>,
    /// Where each span begins in the body.
    starts: Box<[u64]>,
    len: u64,
    /// The segments of the spans, without duplicates.
    segments: Box<[u64]>,
}

impl DiskBody {
    pub(super) fn of(shared: &Arc<Shared>, spans: Vec<Span>) -> Self {
        let mut len = 0;
        let starts = spans
            .iter()
            .map(|span| {
                let start = len;
                len += u64::from(span.len);
                start
            })
            .collect();
        let mut segments: Vec<u64> = spans.iter().map(|span| span.segment).collect();
        segments.sort_unstable();
        segments.dedup();
        Self {
            inner: Arc::new(Inner {
                shared: Arc::clone(shared),
                spans: spans.into(),
                starts,
                len,
                segments: segments.into(),
            }),
        }
    }

    /// Its length.
    pub fn len(&self) -> u64 {
        self.inner.len
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether all of it is still on the shelf.
    pub fn is_here(&self) -> bool {
        self.inner.shared.live.has_all(&self.inner.segments)
    }

    /// Pins it until the result is dropped. `None` if a part is gone.
    pub fn pin(&self) -> Option<PinnedBody> {
        let live = &self.inner.shared.live;
        let segments = self.inner.segments.iter().map(|sequence| live.get(*sequence)).collect::<Option<_>>()?;
        Some(PinnedBody { body: self.clone(), segments, warmed: AtomicU32::new(u32::MAX) })
    }

    /// The parts it is made of.
    pub(super) fn spans(&self) -> &[Span] {
        &self.inner.spans
    }

    /// Whether it lies on the shelf of `shared`.
    pub(super) fn is_on(&self, shared: &Arc<Shared>) -> bool {
        Arc::ptr_eq(&self.inner.shared, shared)
    }

    /// Notes that it is needed until `expires_at`, and so are its segments. Reading it counts as a use of them.
    pub(super) fn lasts_until(&self, expires_at: u64) {
        let shared = &self.inner.shared;
        for segment in self.inner.segments.iter().filter_map(|sequence| shared.live.get(*sequence)) {
            segment.lasts_until(expires_at);
            segment.touch(shared.units.unit());
        }
    }
}

/// A body on disk that is pinned while this exists.
pub struct PinnedBody {
    body: DiskBody,
    /// In the order of the body's list.
    segments: Vec<Arc<Segment>>,
    /// The last span whose checksum was right; for spans that are too short for the segment to remember.
    warmed: AtomicU32,
}

/// What can be sent of a body on disk without waiting.
#[derive(Clone, Debug)]
pub enum Ready {
    /// These bytes of the file; they are in the page cache.
    File {
        /// The file.
        file: Arc<File>,
        /// Where in the file they begin.
        offset: u64,
        /// Their number.
        len: usize,
    },
    /// [`PinnedBody::warm`] has to read them first.
    Cold,
    /// The position is at the end of the body, or beyond.
    End,
}

impl PinnedBody {
    /// The length of the body.
    pub fn len(&self) -> u64 {
        self.body.len()
    }

    /// Whether the body has no bytes.
    pub fn is_empty(&self) -> bool {
        self.body.is_empty()
    }

    /// What can be sent without waiting from `at` on, up to `max` bytes.
    pub fn ready(&self, at: u64, max: usize) -> Ready {
        let Some((number, span, segment)) = self.span_at(at) else {
            return Ready::End;
        };
        let is_right = segment.is_verified(span.offset, span.len) || self.warmed.load(Ordering::Relaxed) == number;
        let within = at - self.body.inner.starts[number as usize];
        let Some((open, file)) = segment.open_reader().and_then(|open| Some((open, open.file()?))) else {
            return Ready::Cold;
        };
        let offset = u64::from(span.offset) + within;
        let len = usize::try_from(u64::from(span.len) - within).unwrap_or(usize::MAX).min(max);
        if !is_right || len == 0 {
            return Ready::Cold;
        }
        let mut byte = [0];
        for end in [offset, offset + len as u64 - 1] {
            if !matches!(open.read_at_nowait(&mut byte, end), Ok(1)) {
                return Ready::Cold;
            }
        }
        Ready::File { file: Arc::clone(file), offset, len }
    }

    /// Reads the span at `at` into the page cache and verifies it. The shelf's threads do it; waits at most
    /// a second.
    ///
    /// Returns the bytes from `at` on. The caller needs them if [`PinnedBody::ready`] does not find them afterwards:
    /// they may have left the page cache, and not every file system can tell.
    pub async fn warm(&self, at: u64) -> io::Result<Bytes> {
        let Some((number, span, segment)) = self.span_at(at) else { return Ok(Bytes::new()) };
        let within = at - self.body.inner.starts[number as usize];
        let shared = Arc::clone(&self.body.inner.shared);
        let (span, segment) = (*span, Arc::clone(segment));
        let (told, outcome) = oneshot::channel();
        let work = Arc::clone(&shared);
        let is_taken = shared.readers.run(Box::new(move || {
            let mut bytes = vec![0; span.len as usize];
            let has_answered = Cell::new(false);
            let wait = Wait::Allowed(&has_answered);
            let read = read_span(&work, &segment, &span, &mut bytes, wait).map_err(|why| fault(&work, why));
            // The caller may have stopped waiting.
            let _ = told.send(read.map(|()| (Bytes::from(bytes), has_answered.get())));
        }));
        if !is_taken {
            return Err(io::ErrorKind::ResourceBusy.into());
        }
        match tokio::time::timeout(PATIENCE, outcome).await {
            Ok(Ok(read)) => {
                let (bytes, has_answered) = read?;
                if has_answered {
                    shared.health.read_well();
                }
                self.warmed.store(number, Ordering::Relaxed);
                Ok(bytes.slice(within as usize..))
            }
            Ok(Err(_)) => Err(io::ErrorKind::BrokenPipe.into()),
            Err(_) => {
                shared.counters.slow_reads.add(1);
                shared.health.read_slowly(shared.units.now());
                Err(io::ErrorKind::TimedOut.into())
            }
        }
    }

    /// Reads bytes from `at` on into `into`, up to the end of what [`PinnedBody::ready`] would give; for callers that
    /// cannot send from a file. Fails if they are not in the page cache.
    pub fn read(&self, at: u64, into: &mut [u8]) -> io::Result<usize> {
        let Some((number, span, segment)) = self.span_at(at) else { return Ok(0) };
        if !segment.is_verified(span.offset, span.len) && self.warmed.load(Ordering::Relaxed) != number {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let within = at - self.body.inner.starts[number as usize];
        let len = usize::try_from(u64::from(span.len) - within).unwrap_or(usize::MAX).min(into.len());
        let open = segment.open_reader().ok_or(io::ErrorKind::WouldBlock)?;
        open.read_at_nowait(&mut into[..len], u64::from(span.offset) + within)
    }

    fn span_at(&self, at: u64) -> Option<(u32, &Span, &Arc<Segment>)> {
        let inner = &*self.body.inner;
        if at >= inner.len {
            return None;
        }
        let number = inner.starts.partition_point(|start| *start <= at) - 1;
        let span = inner.spans.get(number)?;
        let segment = inner.segments.binary_search(&span.segment).ok()?;
        Some((number as u32, span, self.segments.get(segment)?))
    }
}

impl std::fmt::Debug for PinnedBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PinnedBody({})", self.len())
    }
}

/// Counts the fault, and turns it into an error.
fn fault(shared: &Shared, why: NoPage) -> io::Error {
    match why {
        NoPage::Failed(error) => {
            shared.counters.read_errors.add(1);
            shared.health.read_failed(shared.units.now(), &error);
            error
        }
        NoPage::Corrupt => {
            shared.counters.corrupt.add(1);
            io::ErrorKind::InvalidData.into()
        }
        NoPage::Gone | NoPage::Expired | NoPage::Banned | NoPage::OtherKey => io::ErrorKind::NotFound.into(),
        NoPage::WouldBlock => io::ErrorKind::WouldBlock.into(),
    }
}

/// How long a request waits for a disk. Then it fetches instead.
pub(super) const PATIENCE: Duration = Duration::from_secs(1);
