//! How an unstored body gets from its writer to its readers: memory, then a file, then waiting. A file is only ever
//! appended to. When all readers are done with it, a new one replaces it. So bytes that are queued on a socket never
//! change.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{Chunk, Fill, Filling, Spill, UNSPILLED_BYTES_MAX, spill};

/// The state of a passage. Unused while the body is stored.
pub(super) struct Passage {
    /// The folder for a file, and the one in its place if it is not there.
    dirs: Option<(PathBuf, &'static Path)>,
    memory_max: u64,
    file_max: u64,
    file: Option<Spilled>,
    /// A write to the file is running.
    flushing: bool,
    /// The folder of the first file, until it is taken for the log.
    pub(super) begun_in: Option<PathBuf>,
    /// What went wrong with a file, until it is taken for the log.
    pub(super) trouble: Option<String>,
}

/// The part of a body that is in a file: positions from `start` to `end`.
struct Spilled {
    file: Arc<File>,
    start: u64,
    end: u64,
}

/// What the writer has to do before its next append.
pub(super) enum Room {
    /// Nothing.
    There,
    /// Write these bytes to a file.
    Flush(Flush),
    /// Wait until readers have taken something, or a write is done.
    Wait,
}

/// A write of everything that was in memory to the file.
pub(super) struct Flush {
    dirs: (PathBuf, &'static Path),
    file: Option<Arc<File>>,
    file_at: u64,
    from: u64,
    pieces: Vec<Chunk>,
}

impl Passage {
    pub(super) fn new(spill: Option<Spill>) -> Self {
        let (dirs, memory_max, file_max) = match spill {
            Some(spill) => (
                (spill.file_bytes_max > 0).then_some((spill.dir, spill.system_dir)),
                spill.memory_bytes_max.max(1) as u64,
                spill.file_bytes_max,
            ),
            None => (None, UNSPILLED_BYTES_MAX as u64, 0),
        };
        Self { dirs, memory_max, file_max, file: None, flushing: false, begun_in: None, trouble: None }
    }

    /// The position of the first byte in the file, if there is a file.
    pub(super) fn file_starts_at(&self) -> Option<u64> {
        self.file.as_ref().map(|spilled| spilled.start)
    }

    /// The file, the offset in it and the bytes there from position `at`.
    pub(super) fn in_file(&self, at: u64) -> Option<(Arc<File>, u64, u64)> {
        let spilled = self.file.as_ref()?;
        (spilled.start <= at && at < spilled.end)
            .then(|| (Arc::clone(&spilled.file), at - spilled.start, spilled.end - at))
    }
}

impl Filling {
    /// What the writer of this unstored body has to do before its next append.
    pub(super) fn room(&mut self) -> Room {
        let consumed = self.consumed_to();
        self.free_before(consumed);
        if let Some(offloading) = &mut self.offloading {
            offloading.let_go_before(consumed);
        }
        if self.in_memory() < self.passage.memory_max {
            return Room::There;
        }
        if self.passage.flushing {
            return Room::Wait;
        }
        let Some(dirs) = self.passage.dirs.clone() else {
            return Room::Wait;
        };
        // Memory begins where the file ends, unless the readers have passed the end of the file: then a new file begins
        // with the bytes that they still want.
        if self.passage.file.as_ref().is_some_and(|f| consumed >= f.end) {
            self.passage.file = None;
        }
        let spilled = self.passage.file.as_ref();
        let file_at = spilled.map_or(0, |f| f.end - f.start);
        let from = spilled.map_or(self.start, |f| f.end);
        if file_at + (self.so_far - from) > self.passage.file_max {
            return Room::Wait;
        }
        self.passage.flushing = true;
        Room::Flush(Flush {
            dirs,
            file: spilled.map(|f| Arc::clone(&f.file)),
            file_at,
            from,
            pieces: self.pieces.iter().map(|(_, piece)| piece.clone()).collect(),
        })
    }

    /// Notes a finished write, and frees the memory of what is in the file now.
    fn flushed(&mut self, flush: &Flush, file: Arc<File>) {
        let len: u64 = flush.pieces.iter().map(Chunk::len).sum();
        let end = flush.from + len;
        match &mut self.passage.file {
            Some(spilled) => spilled.end = end,
            None => {
                self.passage.file = Some(Spilled { file, start: flush.from, end });
                self.passage.begun_in.get_or_insert_with(|| flush.dirs.0.clone());
            }
        }
        self.free_before(end);
    }
}

impl Flush {
    /// Writes, and notes the result in `fill`. Blocks on the disk.
    ///
    /// If it fails, the body goes on without a file: from then on the writer waits for the readers.
    pub(super) fn run(self, fill: &Fill) {
        let written = self.write();
        let mut filling = fill.filling.lock();
        filling.passage.flushing = false;
        match written {
            Ok(file) => filling.flushed(&self, file),
            Err(error) => {
                filling.passage.trouble = Some(format!("{}: {error}", self.dirs.0.display()));
                filling.passage.dirs = None;
            }
        }
        drop(filling);
        fill.consumed.notify_waiters();
    }

    fn new_file(&self) -> io::Result<File> {
        let (dir, system_dir) = &self.dirs;
        match spill::unlinked_file(dir) {
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                // The first error says what is wrong.
                spill::unlinked_file(system_dir).map_err(|_| error)
            }
            other => other,
        }
    }

    fn write(&self) -> io::Result<Arc<File>> {
        let file = match &self.file {
            Some(file) => Arc::clone(file),
            None => Arc::new(self.new_file()?),
        };
        let mut at = self.file_at;
        for piece in &self.pieces {
            match piece {
                Chunk::Heap(bytes) => file.write_all_at(bytes, at)?,
                Chunk::Arena(extent) => file.write_all_at(&extent.read()?, at)?,
            }
            at += piece.len();
        }
        Ok(file)
    }
}
