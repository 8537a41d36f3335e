//! What a body promises that is too big for memory: every byte to every reader, whatever becomes of its disks.

use std::fs;
use std::future::Future;
use std::path::Path;
use std::sync::atomic::AtomicUsize;
use std::sync::mpsc;
use std::time::Duration;

use super::offload::Offload;
use super::*;
use crate::budget::Budget;
use crate::disk::{DiskEvent, DiskLimits, DiskOptions, DiskRoom, DiskShelf, Files, Listed, OpenFile, RealFiles};

/// An open shelf, and its folder.
struct Disk {
    shelf: DiskShelf,
    folder: tempfile::TempDir,
}

impl Disk {
    fn new(bytes_max: u64) -> Self {
        Self::with(bytes_max, 64 << 20, Arc::new(RealFiles))
    }

    fn with(bytes_max: u64, queue_bytes: usize, files: Arc<dyn Files>) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (told, opened) = mpsc::channel();
        let events = move |event| {
            if let DiskEvent::Opened { .. } = event {
                let _ = told.send(());
            }
        };
        let limits = DiskLimits { bytes_max: Some(bytes_max), free_min: 0, inactive: Duration::from_secs(600) };
        let options = DiskOptions { dir: folder.path().join("shelf"), limits, queue_bytes, events: Arc::new(events) };
        let shelf = DiskShelf::with_files(options, files);
        opened.recv().expect("it says that it is open");
        // It serves when it has taken what is told to it after that.
        assert!(shelf.flush_blocking());
        Self { shelf, folder }
    }

    /// Spoils every segment behind its first block.
    fn spoil(&self) {
        for entry in fs::read_dir(self.folder.path().join("shelf")).expect("the folder is there") {
            let path = entry.expect("an entry").path();
            if path.extension().is_some_and(|end| end == "segment") {
                let file = fs::OpenOptions::new().write(true).open(&path).expect("a segment can be opened");
                let len = file.metadata().expect("it has a length").len();
                file.write_all_at(&vec![0xAA; len as usize - 4096], 4096).expect("it can be written");
            }
        }
    }
}

fn run<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    runtime.expect("a runtime can be made").block_on(future)
}

/// Bytes that tell where they are.
fn pattern(from: u64, len: usize) -> Bytes {
    static ALL: OnceLock<Bytes> = OnceLock::new();
    let all = ALL.get_or_init(|| (0..LEN).map(|at| ((at >> 12) * 31 + at % 251) as u8).collect());
    all.slice(from as usize..from as usize + len)
}

fn offload(disks: &[&Disk]) -> Offload {
    let shelves = disks.iter().map(|disk| disk.shelf.clone()).collect();
    Offload { shelves, bytes_min: 1 << 20, memory_bytes_max: 2 << 20 }
}

fn make(budget: &Arc<Budget>, disks: &[&Disk], len: Option<u64>) -> (BodyWriter, Body) {
    body_with_disks(budget.reserve(0), None, offload(disks), len)
}

/// Appends up to position `to`, as fast as the disks take it.
async fn fill(writer: &mut BodyWriter, from: u64, to: u64) {
    let mut at = from;
    while at < to {
        writer.wait_for_disk().await;
        let len = (to - at).min(PART) as usize;
        writer.append(pattern(at, len)).expect("it is wanted");
        at += len as u64;
    }
}

/// Appends the rest of a body from position `from` as fast as its readers and the disks take it, and ends it.
async fn pass(mut writer: BodyWriter, from: u64) {
    for at in (from..LEN).step_by(PART as usize) {
        writer.wait_for_disk().await;
        writer.wait_for_room().await;
        writer.append(pattern(at, PART as usize)).expect("somebody reads it");
        tokio::task::yield_now().await;
    }
    writer.finish();
}

/// Reads up to position `to`, or the end, and compares.
async fn read(reader: &mut BodyReader, to: u64) -> Result<u64, String> {
    while reader.at() < to {
        let at = reader.at();
        let max = (to - at).min(100_000) as usize;
        let bytes = match reader.next(max).await {
            Piece::Data(bytes) => bytes,
            Piece::File { file, offset, len } => {
                let mut bytes = vec![0; len];
                file.read_exact_at(&mut bytes, offset).map_err(|error| error.to_string())?;
                Bytes::from(bytes)
            }
            Piece::End => return Ok(at),
            Piece::Failed(reason) => return Err(reason.to_string()),
            Piece::Pending => unreachable!("a reader that waits has a piece"),
        };
        assert!(bytes == pattern(at, bytes.len()), "wrong bytes at {at}");
    }
    Ok(reader.at())
}

/// A complete body of [`LEN`] on these disks.
async fn on_disks(budget: &Arc<Budget>, disks: &[&Disk]) -> Body {
    let (mut writer, body) = make(budget, disks, Some(LEN));
    fill(&mut writer, 0, LEN).await;
    writer.finish();
    for disk in disks {
        assert!(disk.shelf.flush().await);
    }
    assert!(body.is_stored() && body.is_here());
    body
}

#[test]
fn it_is_read_whole_while_it_fills_and_after() {
    run(async {
        for len in [None, Some(LEN)] {
            let disk = Disk::new(128 << 20);
            let budget = Budget::new(16 << 20);
            let (mut writer, body) = make(&budget, &[&disk], len);
            fill(&mut writer, 0, 6 << 20).await;
            let (mut slow, mut along) = (body.reader(), body.reader());
            for step in 4..=LEN / STEP {
                fill(&mut writer, (step - 1) * STEP, step * STEP).await;
                assert_eq!(read(&mut slow, (step - 2) * STEP).await, Ok((step - 2) * STEP));
                assert_eq!(read(&mut along, (step - 1) * STEP).await, Ok((step - 1) * STEP));
                assert!(budget.used() <= 2 << 20, "{} bytes in memory", budget.used());
            }
            writer.finish();
            assert!(disk.shelf.flush().await);
            let mut late = body.reader();
            for reader in [&mut slow, &mut along, &mut late] {
                assert_eq!(read(reader, u64::MAX).await, Ok(LEN));
            }
            drop((slow, along, late));
            assert!(body.is_stored() && body.is_here());
            assert_eq!((body.state(), body.disk_len()), (BodyState::Complete { len: LEN }, Some(LEN)));
            assert_eq!((budget.used(), body.reserved()), (0, 0), "nothing of it is in memory");
        }
    });
}

#[test]
fn a_reader_that_is_as_fast_as_the_writer_gets_every_byte() {
    run(async {
        let disk = Disk::new(128 << 20);
        let budget = Budget::new(16 << 20);
        let (writer, body) = make(&budget, &[&disk], None);
        let mut early = body.reader();
        let write = pass(writer, 0);
        let ((), read) = tokio::join!(write, read(&mut early, u64::MAX));
        assert_eq!(read, Ok(LEN));
    });
}

#[test]
fn any_part_of_it_can_be_read() {
    run(async {
        let disk = Disk::new(128 << 20);
        let budget = Budget::new(16 << 20);
        let body = on_disks(&budget, &[&disk]).await;
        let slice = disk.shelf.slice_bytes() as u64;
        let mut reader = body.reader();
        for (from, to) in [(5, 10), (slice - 1, slice + 1), (LEN - 1, LEN), (3 * slice, 5 * slice), (0, LEN)] {
            reader.skip_to(from);
            assert_eq!(read(&mut reader, to).await, Ok(to), "{from} to {to}");
        }
        reader.skip_to(LEN + 1);
        assert!(matches!(reader.next(10).await, Piece::End));
    });
}

#[test]
fn a_writer_that_fails_or_leaves_gives_readers_what_there_is() {
    run(async {
        for leaves in [false, true] {
            let disk = Disk::new(128 << 20);
            let budget = Budget::new(16 << 20);
            let (mut writer, body) = make(&budget, &[&disk], None);
            fill(&mut writer, 0, 6 << 20).await;
            let mut reader = body.reader();
            if leaves {
                drop(writer);
            } else {
                writer.fail("the origin failed".to_owned());
            }
            assert_eq!(read(&mut reader, 6 << 20).await, Ok(6 << 20));
            assert!(read(&mut reader, u64::MAX).await.is_err());
            drop((reader, body));
            // What is on its way to the disk holds on to it.
            disk.shelf.flush().await;
            assert_eq!(budget.used(), 0);
        }
    });
}

#[test]
fn a_shelf_that_is_stopped_meanwhile_costs_the_storing_and_holds_nobody_up() {
    run(async {
        let disk = Disk::new(128 << 20);
        let budget = Budget::new(16 << 20);
        let (mut writer, body) = make(&budget, &[&disk], None);
        fill(&mut writer, 0, 6 << 20).await;
        let mut reader = body.reader();
        let shelf = disk.shelf.clone();
        let stopping = std::thread::spawn(move || shelf.stop());
        let write = pass(writer, 6 << 20);
        let ((), read) = tokio::join!(write, read(&mut reader, u64::MAX));
        assert_eq!(read, Ok(LEN));
        stopping.join().expect("a stop ends");
        assert!(!body.is_stored());
    });
}

#[test]
fn what_a_stopped_shelf_throws_away_is_told() {
    run(async {
        // Many times, as it is about what is handed over after the last command that the shelf does.
        for _ in 0..20 {
            let disk = Disk::new(128 << 20);
            let budget = Budget::new(16 << 20);
            let (mut writer, body) = make(&budget, &[&disk], Some(LEN));
            let shelf = disk.shelf.clone();
            let stopping = std::thread::spawn(move || shelf.stop());
            for at in (0..3 << 20).step_by(PART as usize) {
                // Nobody reads, so that it waits as long as a slice may be on its way.
                writer.wait_for_disk().await;
                if writer.append(pattern(at, PART as usize)).is_err() {
                    break;
                }
            }
            stopping.join().expect("a stop ends");
            writer.wait_for_disk().await;
            drop((writer, body));
            assert_eq!(budget.used(), 0);
        }
    });
}

#[test]
fn a_copy_takes_over_where_another_is_gone_or_spoiled() {
    run(async {
        for spoiled in [false, true] {
            let (one, two) = (Disk::new(128 << 20), Disk::new(128 << 20));
            let budget = Budget::new(16 << 20);
            let body = on_disks(&budget, &[&one, &two]).await;
            if spoiled {
                one.spoil();
            } else {
                one.shelf.clear();
                one.shelf.flush().await;
            }
            for _ in 0..2 {
                assert!(body.is_here());
                assert_eq!(read(&mut body.reader(), u64::MAX).await, Ok(LEN), "spoiled: {spoiled}");
            }
            assert!(body.on(&two.shelf).is_some());
        }
    });
}

#[test]
fn a_spoiled_body_is_not_served_again() {
    run(async {
        let disk = Disk::new(128 << 20);
        let budget = Budget::new(16 << 20);
        let body = on_disks(&budget, &[&disk]).await;
        disk.spoil();
        assert!(read(&mut body.reader(), u64::MAX).await.is_err());
        assert!(!body.is_here());
        assert!(body.on(&disk.shelf).is_none());
    });
}

#[test]
fn where_every_queue_is_full_it_passes_through_unstored() {
    run(async {
        let disk = Disk::with(128 << 20, 1000, Arc::new(RealFiles));
        let budget = Budget::new(16 << 20);
        let (mut writer, body) = make(&budget, &[&disk], None);
        let mut early = body.reader();
        let write = async {
            for at in (0..LEN).step_by(PART as usize) {
                writer.wait_for_disk().await;
                writer.wait_for_room().await;
                writer.append(pattern(at, PART as usize)).expect("somebody reads it");
            }
            writer.finish();
        };
        let ((), read) = tokio::join!(write, read(&mut early, u64::MAX));
        assert_eq!(read, Ok(LEN));
        assert!(!body.is_stored() && !body.is_here());
        assert_eq!(disk.shelf.stats().skipped_queue, 1, "a page, however often its slices were offered");
        drop((early, body));
        assert_eq!(budget.used(), 0);
    });
}

#[test]
fn a_body_that_a_shelf_would_refuse_is_not_written_to_it() {
    run(async {
        let disk = Disk::new(32 << 20);
        let budget = Budget::new(64 << 20);
        for len in [None, Some(LEN)] {
            let before = disk.shelf.stats().written;
            let (writer, body) = make(&budget, &[&disk], len);
            let mut reader = body.reader();
            let write = pass(writer, 0);
            let ((), read) = tokio::join!(write, read(&mut reader, u64::MAX));
            assert_eq!(read, Ok(LEN));
            disk.shelf.flush().await;
            let written = disk.shelf.stats().written - before;
            assert!(written <= if len.is_some() { 0 } else { 9 << 20 }, "{written} bytes");
        }
    });
}

#[test]
fn what_an_unstored_body_had_on_disk_is_given_back_as_it_is_read() {
    run(async {
        let disk = Disk::new(32 << 20);
        let budget = Budget::new(16 << 20);
        let (mut writer, body) = make(&budget, &[&disk], None);
        fill(&mut writer, 0, 6 << 20).await;
        assert!(disk.shelf.flush().await);
        let mut reader = body.reader();
        writer.unstore();
        assert_eq!(read(&mut reader, 6 << 20).await, Ok(6 << 20));
        writer.wait_for_room().await;
        disk.shelf.clear();
        disk.shelf.flush().await;
        assert!(!body.has_its_start());
        assert!(disk.shelf.stats().lingering <= 2 << 20, "{} bytes linger", disk.shelf.stats().lingering);
    });
}

#[test]
fn hooks_are_called_once_and_never_keep_what_is_not_stored() {
    run(async {
        let called = Arc::new(AtomicUsize::new(0));
        let count = |called: &Arc<AtomicUsize>| {
            let called = Arc::clone(called);
            move |_: &Body| {
                called.fetch_add(1, Ordering::Relaxed);
            }
        };
        let disk = Disk::new(128 << 20);
        let budget = Budget::new(16 << 20);
        let (mut writer, body) = make(&budget, &[&disk], Some(LEN));
        fill(&mut writer, 0, LEN).await;
        writer.finish();
        body.when_on_disk(count(&called));
        assert!(disk.shelf.flush().await);
        assert_eq!(called.load(Ordering::Relaxed), 1);
        body.when_on_disk(count(&called));
        assert_eq!(called.load(Ordering::Relaxed), 2, "it is there already");
        // One that holds the body itself, which does not come to the disk as a whole.
        let (mut writer, body) = make(&budget, &[&disk], Some(LEN));
        fill(&mut writer, 0, LEN - PART).await;
        disk.shelf.stop();
        fill(&mut writer, LEN - PART, LEN).await;
        writer.finish();
        let held = body.clone();
        body.when_on_disk(move |_| drop(held));
        body.when_on_disk(count(&called));
        assert!(!body.is_stored());
        assert_eq!(called.load(Ordering::Relaxed), 2);
        drop(body);
        assert_eq!(budget.used(), 0);
    });
}

#[test]
fn a_file_system_that_cannot_say_what_is_in_memory_serves_all_the_same() {
    run(async {
        let disk = Disk::with(128 << 20, 64 << 20, Arc::new(Blind(RealFiles)));
        let budget = Budget::new(16 << 20);
        let body = on_disks(&budget, &[&disk]).await;
        assert_eq!(read(&mut body.reader(), u64::MAX).await, Ok(LEN));
    });
}

#[test]
fn a_body_of_bytes_at_hand_has_them_also_where_its_reservation_cannot_grow() {
    for len in [100, 50_000, 300_000] {
        let budget = Budget::new(len);
        let room = budget.reserve(len as usize / 2);
        let _others = budget.reserve(len as usize - len as usize / 2);
        let body = Body::of(pattern(0, len as usize), room);
        assert!(!body.is_stored());
        let whole = body.whole().expect("it is complete");
        assert_eq!(whole.to_vec().expect("it is in memory"), pattern(0, len as usize));
        assert_eq!(body.reserved(), 0);
    }
}

/// A file system without `RWF_NOWAIT`, as some network and older memory file systems are.
struct Blind(RealFiles);

struct BlindFile(Arc<dyn OpenFile>);

fn blind(file: Arc<dyn OpenFile>) -> Arc<dyn OpenFile> {
    Arc::new(BlindFile(file))
}

impl Files for Blind {
    fn make_dir(&self, dir: &Path) -> io::Result<()> {
        self.0.make_dir(dir)
    }
    fn list(&self, dir: &Path) -> io::Result<Vec<Listed>> {
        self.0.list(dir)
    }
    fn create(&self, path: &Path) -> io::Result<Arc<dyn OpenFile>> {
        self.0.create(path).map(blind)
    }
    fn open(&self, path: &Path) -> io::Result<Arc<dyn OpenFile>> {
        self.0.open(path).map(blind)
    }
    fn open_to_extend(&self, path: &Path) -> io::Result<Arc<dyn OpenFile>> {
        self.0.open_to_extend(path).map(blind)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.0.rename(from, to)
    }
    fn unlink(&self, path: &Path) -> io::Result<()> {
        self.0.unlink(path)
    }
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.0.sync_dir(dir)
    }
    fn room(&self, dir: &Path) -> io::Result<DiskRoom> {
        self.0.room(dir)
    }
    fn dir_bytes(&self, dir: &Path) -> io::Result<u64> {
        self.0.dir_bytes(dir)
    }
    fn lock(&self, path: &Path, create: bool) -> io::Result<Option<Box<dyn Send + Sync>>> {
        self.0.lock(path, create)
    }
}

impl OpenFile for BlindFile {
    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        self.0.write_at(bytes, at)
    }
    fn read_at(&self, into: &mut [u8], at: u64) -> io::Result<usize> {
        self.0.read_at(into, at)
    }
    fn read_at_nowait(&self, _into: &mut [u8], _at: u64) -> io::Result<usize> {
        Err(io::ErrorKind::Unsupported.into())
    }
    fn allocate(&self, len: u64) -> io::Result<()> {
        self.0.allocate(len)
    }
    fn sync(&self) -> io::Result<()> {
        self.0.sync()
    }
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }
    fn allocated(&self) -> io::Result<u64> {
        self.0.allocated()
    }
    fn file(&self) -> Option<&Arc<File>> {
        self.0.file()
    }
}

const LEN: u64 = 16 << 20;
const STEP: u64 = 2 << 20;
const PART: u64 = 64 << 10;
