//! A file system in memory that fails, is killed, or loses its power, where a test says so.
//!
//! A [`World`] is the disk: it outlives its processes. [`Process`] is what one shelf is given; when it is killed,
//! everything it does fails from then on, and what it wrote stays. A power cut also takes back a random part of what
//! was not synced, by sectors and by names.
#![allow(dead_code)]

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, Weak};

use larder_store::{DiskRoom, Files, Hold, Listed, OpenFile, Owed, Page, Payable};

/// A number generator that gives the same numbers for the same seed.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}

/// What a process does to its files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    Create,
    Write,
    Read,
    Allocate,
    Sync,
    SyncDir,
    Rename,
    Unlink,
    Open,
    Other,
}

/// A disk.
pub struct World {
    state: Mutex<State>,
    /// The most that all files may take, checked whenever one takes more.
    pub bytes_max: u64,
    pub overruns: AtomicU64,
    pub segments_unlinked: AtomicU64,
    /// What `room` says is there in all.
    pub total: AtomicU64,
    /// What shelves draw their ids and seeds from.
    random: Mutex<Random>,
}

struct State {
    names: HashMap<PathBuf, Arc<Inode>>,
    durable_names: HashMap<PathBuf, Arc<Inode>>,
    handles: Vec<Weak<Handle>>,
}

struct Inode {
    content: Mutex<Content>,
    locked_by: Mutex<Weak<ProcessState>>,
}

#[derive(Default)]
struct Content {
    bytes: Vec<u8>,
    durable: Vec<u8>,
    dirty: BTreeSet<usize>,
    allocated: u64,
}

/// What one shelf sees of a [`World`].
#[derive(Clone)]
pub struct Process {
    world: Arc<World>,
    state: Arc<ProcessState>,
}

struct ProcessState {
    is_dead: AtomicBool,
    ops: AtomicU64,
    /// The operation at which it dies; before that it is done in part when it is a write.
    kill_at: AtomicU64,
    renames: AtomicU64,
    rules: Mutex<Vec<Rule>>,
    /// What waits until it is let go on, for paths that end so.
    held: Mutex<Option<(Op, &'static str)>>,
    released: Condvar,
    /// Everything can be read without the disk.
    is_in_memory: AtomicBool,
    /// Reads of the disk wait until it says otherwise.
    is_held: Mutex<bool>,
    let_go: Condvar,
}

/// Makes some operations fail.
#[derive(Clone, Debug)]
pub struct Rule {
    pub op: Op,
    /// Only for paths that end so.
    pub suffix: &'static str,
    pub errno: i32,
    /// How many times; then it is over.
    pub times: u64,
    /// As many are let through first.
    pub after: u64,
}

pub const EIO: i32 = 5;
pub const ENOSPC: i32 = 28;
pub const EROFS: i32 = 30;
const SECTOR: usize = 512;

impl World {
    pub fn new(bytes_max: u64) -> Arc<Self> {
        Self::seeded(bytes_max, 0)
    }

    /// A world whose shelves draw the same numbers for the same seed.
    pub fn seeded(bytes_max: u64, seed: u64) -> Arc<Self> {
        let state = State { names: HashMap::new(), durable_names: HashMap::new(), handles: Vec::new() };
        Arc::new(Self {
            state: Mutex::new(state),
            bytes_max,
            overruns: AtomicU64::new(0),
            segments_unlinked: AtomicU64::new(0),
            total: AtomicU64::new(1 << 40),
            random: Mutex::new(Random::new(!seed)),
        })
    }

    pub fn process(self: &Arc<Self>) -> Process {
        Process {
            world: Arc::clone(self),
            state: Arc::new(ProcessState {
                is_dead: AtomicBool::new(false),
                ops: AtomicU64::new(0),
                kill_at: AtomicU64::new(u64::MAX),
                renames: AtomicU64::new(0),
                rules: Mutex::default(),
                held: Mutex::default(),
                released: Condvar::new(),
                is_in_memory: AtomicBool::new(false),
                is_held: Mutex::new(false),
                let_go: Condvar::new(),
            }),
        }
    }

    /// The bytes that all files take, with those that have no name but are open in a process that lives.
    pub fn used(&self) -> u64 {
        let state = self.state.lock().unwrap();
        let open = state.handles.iter().filter_map(Weak::upgrade).filter(|handle| !handle.process.is_dead());
        let mut inodes: Vec<_> =
            state.names.values().cloned().chain(open.map(|open| Arc::clone(&open.inode))).collect();
        inodes.sort_by_key(Arc::as_ptr);
        inodes.dedup_by_key(|inode| Arc::as_ptr(inode));
        inodes.iter().map(|inode| inode.content.lock().unwrap().allocated).sum()
    }

    fn check(&self) {
        if self.used() + DIR_BYTES > self.bytes_max {
            self.overruns.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Takes back a random part of what was not synced. All processes must be dead.
    pub fn cut_power(&self, random: &mut Random) {
        let mut state = self.state.lock().unwrap();
        let mut paths: Vec<PathBuf> = state.names.keys().chain(state.durable_names.keys()).cloned().collect();
        paths.sort();
        paths.dedup();
        // Sorted, so that the same numbers decide about the same files.
        let mut names = BTreeMap::new();
        for path in paths {
            let (now, durable) = (state.names.get(&path).cloned(), state.durable_names.get(&path).cloned());
            let kept = if random.below(2) == 0 { now } else { durable };
            if let Some(inode) = kept {
                names.insert(path, inode);
            }
        }
        for inode in names.values() {
            let mut content = inode.content.lock().unwrap();
            for sector in std::mem::take(&mut content.dirty) {
                if random.below(2) == 0 {
                    let from = sector * SECTOR;
                    let to = (from + SECTOR).min(content.bytes.len());
                    let old: Vec<u8> = (from..to).map(|at| content.durable.get(at).copied().unwrap_or(0)).collect();
                    content.bytes[from..to].copy_from_slice(&old);
                }
            }
            content.durable = content.bytes.clone();
        }
        state.names = names.into_iter().collect();
        state.durable_names = state.names.clone();
    }

    /// Changes bytes of a file behind everybody's back.
    pub fn damage(&self, path: &Path, at: usize) {
        let state = self.state.lock().unwrap();
        let inode = state.names.get(path).expect("the file is there");
        inode.content.lock().unwrap().bytes[at] ^= 0x55;
    }

    pub fn names(&self) -> Vec<PathBuf> {
        let mut names: Vec<_> = self.state.lock().unwrap().names.keys().cloned().collect();
        names.sort();
        names
    }

    /// The length of a file.
    pub fn len(&self, path: &Path) -> Option<u64> {
        let state = self.state.lock().unwrap();
        state.names.get(path).map(|inode| inode.content.lock().unwrap().bytes.len() as u64)
    }

    /// The number of segment files.
    pub fn segments(&self) -> usize {
        self.names().iter().filter(|name| name.extension().is_some_and(|end| end == "segment")).count()
    }

    pub fn put(&self, path: &Path, bytes: &[u8]) {
        let inode = Arc::new(Inode {
            content: Mutex::new(Content { bytes: bytes.to_vec(), durable: bytes.to_vec(), ..Content::default() }),
            locked_by: Mutex::new(Weak::new()),
        });
        let mut state = self.state.lock().unwrap();
        state.names.insert(path.into(), Arc::clone(&inode));
        state.durable_names.insert(path.into(), inode);
    }

    pub fn remove_all(&self) {
        let mut state = self.state.lock().unwrap();
        state.names.clear();
        state.durable_names.clear();
    }
}

impl Process {
    /// Everything fails from now on.
    pub fn kill(&self) {
        self.state.is_dead.store(true, Ordering::SeqCst);
    }

    pub fn kill_at(&self, op: u64) {
        self.state.kill_at.store(op, Ordering::SeqCst);
    }

    pub fn is_dead(&self) -> bool {
        self.state.is_dead.load(Ordering::SeqCst)
    }

    pub fn ops(&self) -> u64 {
        self.state.ops.load(Ordering::SeqCst)
    }

    /// How many files took the place of others.
    pub fn renames(&self) -> u64 {
        self.state.renames.load(Ordering::SeqCst)
    }

    pub fn fail(&self, rule: Rule) {
        self.state.rules.lock().unwrap().push(rule);
    }

    /// Says whether the page cache holds all there is, or nothing.
    pub fn set_in_memory(&self, is_in_memory: bool) {
        self.state.is_in_memory.store(is_in_memory, Ordering::SeqCst);
    }

    /// Lets reads of the disk wait, or go on.
    pub fn hold_reads(&self, is_held: bool) {
        *self.state.is_held.lock().unwrap() = is_held;
        self.state.let_go.notify_all();
    }

    pub fn heal(&self) {
        self.state.rules.lock().unwrap().clear();
    }

    /// Operations of this kind wait from now on, on paths that end so.
    pub fn hold(&self, op: Op, suffix: &'static str) {
        *self.state.held.lock().unwrap() = Some((op, suffix));
    }

    /// They go on.
    pub fn release(&self) {
        *self.state.held.lock().unwrap() = None;
        self.state.released.notify_all();
    }

    /// Counts an operation, and says whether it is done. `Err` with true: it is a write that is done in part.
    fn step(&self, op: Op, path: &Path) -> Result<(), (io::Error, bool)> {
        let is_held = |held: &mut Option<(Op, &str)>| {
            held.is_some_and(|(held, suffix)| held == op && path.to_string_lossy().ends_with(suffix))
        };
        drop(self.state.released.wait_while(self.state.held.lock().unwrap(), is_held).unwrap());
        let dead = || io::Error::from_raw_os_error(EIO);
        if self.is_dead() {
            return Err((dead(), false));
        }
        if op != Op::Read && op != Op::Other && op != Op::Open {
            let number = self.state.ops.fetch_add(1, Ordering::SeqCst);
            if number == self.state.kill_at.load(Ordering::SeqCst) {
                self.kill();
                return Err((dead(), true));
            }
        }
        let mut rules = self.state.rules.lock().unwrap();
        let name = path.to_string_lossy();
        let rule = rules.iter_mut().find(|rule| rule.op == op && name.ends_with(rule.suffix) && rule.times > 0);
        match rule {
            Some(rule) if rule.after > 0 => {
                rule.after -= 1;
                Ok(())
            }
            Some(rule) => {
                rule.times -= 1;
                Err((io::Error::from_raw_os_error(rule.errno), false))
            }
            None => Ok(()),
        }
    }

    fn does(&self, op: Op, path: &Path) -> io::Result<()> {
        self.step(op, path).map_err(|(error, _)| error)
    }

    fn handle(&self, inode: Arc<Inode>, path: &Path, is_new: bool) -> Arc<dyn OpenFile> {
        let handle = Arc::new(Handle { process: self.clone(), inode, path: path.into(), is_new });
        let mut state = self.world.state.lock().unwrap();
        state.handles.retain(|handle| handle.strong_count() > 0);
        state.handles.push(Arc::downgrade(&handle));
        handle
    }

    fn named(&self, path: &Path) -> io::Result<Arc<Inode>> {
        let state = self.world.state.lock().unwrap();
        state.names.get(path).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl Files for Process {
    fn make_dir(&self, dir: &Path) -> io::Result<()> {
        self.does(Op::Other, dir)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<Listed>> {
        self.does(Op::Other, dir)?;
        let state = self.world.state.lock().unwrap();
        let inside = state.names.keys().filter(|path| path.parent() == Some(dir));
        let name = |path: &PathBuf| path.file_name().map(OsString::from).expect("a file has a name");
        Ok(inside.map(|path| Listed { name: name(path), is_file: true }).collect())
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn OpenFile>> {
        self.does(Op::Create, path)?;
        let mut state = self.world.state.lock().unwrap();
        if state.names.contains_key(path) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let inode = Arc::new(Inode { content: Mutex::default(), locked_by: Mutex::new(Weak::new()) });
        state.names.insert(path.into(), Arc::clone(&inode));
        drop(state);
        Ok(self.handle(inode, path, true))
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn OpenFile>> {
        self.does(Op::Open, path)?;
        Ok(self.handle(self.named(path)?, path, false))
    }

    fn open_to_extend(&self, path: &Path) -> io::Result<Arc<dyn OpenFile>> {
        self.open(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.does(Op::Rename, to)?;
        let mut state = self.world.state.lock().unwrap();
        let inode = state.names.remove(from).ok_or(io::ErrorKind::NotFound)?;
        state.names.insert(to.into(), inode);
        self.state.renames.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }

    fn unlink(&self, path: &Path) -> io::Result<()> {
        self.does(Op::Unlink, path)?;
        let mut state = self.world.state.lock().unwrap();
        state.names.remove(path).ok_or(io::ErrorKind::NotFound)?;
        if path.extension().is_some_and(|end| end == "segment") {
            self.world.segments_unlinked.fetch_add(1, Ordering::SeqCst);
        }
        Ok(())
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.does(Op::SyncDir, dir)?;
        let mut state = self.world.state.lock().unwrap();
        state.durable_names = state.names.clone();
        Ok(())
    }

    fn room(&self, dir: &Path) -> io::Result<DiskRoom> {
        self.does(Op::Other, dir)?;
        let total = self.world.total.load(Ordering::Relaxed);
        Ok(DiskRoom { total, free: total.saturating_sub(self.world.used()) })
    }

    fn dir_bytes(&self, dir: &Path) -> io::Result<u64> {
        self.does(Op::Other, dir)?;
        Ok(DIR_BYTES)
    }

    fn lock(&self, path: &Path, create: bool) -> io::Result<Option<Box<dyn Send + Sync>>> {
        self.does(Op::Other, path)?;
        let inode = match self.named(path) {
            Err(error) if create && error.kind() == io::ErrorKind::NotFound => {
                self.create(path)?;
                self.named(path)?
            }
            other => other?,
        };
        let mut locked_by = inode.locked_by.lock().unwrap();
        if locked_by.upgrade().is_some_and(|other| !other.is_dead.load(Ordering::SeqCst)) {
            return Ok(None);
        }
        *locked_by = Arc::downgrade(&self.state);
        drop(locked_by);
        Ok(Some(Box::new(Unlock(inode))))
    }

    fn random(&self) -> u64 {
        self.world.random.lock().unwrap().next()
    }
}

struct Unlock(Arc<Inode>);

impl Drop for Unlock {
    fn drop(&mut self) {
        *self.0.locked_by.lock().unwrap() = Weak::new();
    }
}

struct Handle {
    process: Process,
    inode: Arc<Inode>,
    path: PathBuf,
    /// It was made by this, so nothing in it is written twice. Who extends it may replace a torn footer.
    is_new: bool,
}

impl Handle {
    fn copy(&self, into: &mut [u8], at: u64) -> usize {
        let content = self.inode.content.lock().unwrap();
        let bytes = content.bytes.get(at as usize..).unwrap_or_default();
        let len = bytes.len().min(into.len());
        into[..len].copy_from_slice(&bytes[..len]);
        len
    }

    fn write(&self, bytes: &[u8], at: u64) {
        let mut content = self.inode.content.lock().unwrap();
        let (from, to) = (at as usize, at as usize + bytes.len());
        if content.bytes.len() < to {
            content.bytes.resize(to, 0);
        }
        assert!(!self.is_new || content.bytes[from..to].iter().all(|byte| *byte == 0), "a segment is overwritten");
        content.bytes[from..to].copy_from_slice(bytes);
        content.dirty.extend(from / SECTOR..to.div_ceil(SECTOR));
        content.allocated = content.allocated.max(content.bytes.len() as u64);
    }
}

impl OpenFile for Handle {
    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        match self.process.step(Op::Write, &self.path) {
            Ok(()) => self.write(bytes, at),
            Err((error, is_partial)) => {
                if is_partial {
                    // As far as it came: any number of whole sectors.
                    let sectors = bytes.len() / SECTOR;
                    let some = (at as usize / SECTOR * 7 + sectors * 5) % (sectors + 1);
                    self.write(&bytes[..some * SECTOR], at);
                }
                return Err(error);
            }
        }
        self.process.world.check();
        Ok(())
    }

    fn read_at(&self, into: &mut [u8], at: u64) -> io::Result<usize> {
        let state = &self.process.state;
        drop(state.let_go.wait_while(state.is_held.lock().unwrap(), |is_held| *is_held).unwrap());
        self.process.does(Op::Read, &self.path)?;
        Ok(self.copy(into, at))
    }

    fn read_at_nowait(&self, into: &mut [u8], at: u64) -> io::Result<usize> {
        if self.process.is_dead() || !self.process.state.is_in_memory.load(Ordering::SeqCst) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(self.copy(into, at))
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        self.process.does(Op::Allocate, &self.path)?;
        let mut content = self.inode.content.lock().unwrap();
        content.bytes.resize(len as usize, 0);
        content.allocated = len;
        drop(content);
        self.process.world.check();
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.process.does(Op::Sync, &self.path)?;
        let mut content = self.inode.content.lock().unwrap();
        for sector in std::mem::take(&mut content.dirty) {
            let from = sector * SECTOR;
            let to = (from + SECTOR).min(content.bytes.len());
            let Content { bytes, durable, .. } = &mut *content;
            if durable.len() < to {
                durable.resize(to, 0);
            }
            durable[from..to].copy_from_slice(&bytes[from..to]);
        }
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.inode.content.lock().unwrap().bytes.len() as u64)
    }

    fn allocated(&self) -> io::Result<u64> {
        Ok(self.inode.content.lock().unwrap().allocated)
    }

    fn file(&self) -> Option<&Arc<File>> {
        None
    }
}

const DIR_BYTES: u64 = 4096;

/// A page that can be had again as long as it is there.
#[derive(Clone)]
pub struct Kept {
    page: Arc<dyn Fn() -> Page + Send + Sync>,
    pub is_there: Arc<AtomicBool>,
}

impl Kept {
    pub fn new(page: impl Fn() -> Page + Send + Sync + 'static) -> Self {
        Self { page: Arc::new(page), is_there: Arc::new(AtomicBool::new(true)) }
    }

    pub fn page(&self) -> Page {
        Page { holds: Some(Box::new(self.clone())), ..(self.page)() }
    }
}

impl Hold for Kept {
    fn owe(&self) -> Option<Box<dyn Owed>> {
        Some(Box::new(self.clone()))
    }
}

impl Owed for Kept {
    fn page(&self) -> Payable {
        if self.is_there() { Payable::Page(self.page()) } else { Payable::Gone }
    }

    fn is_there(&self) -> bool {
        self.is_there.load(Ordering::SeqCst)
    }
}
