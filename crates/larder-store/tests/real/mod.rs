//! A shelf on the file system of this machine, and what a test says of its pages.
#![allow(dead_code)]

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use larder_store::{DiskEvent, DiskLimits, DiskOptions, DiskShelf, Page, PageBody, Stored, StoredBody};
use tempfile::TempDir;

pub const MB: u64 = 1 << 20;

pub struct Site {
    pub dir: TempDir,
    pub events: Arc<Mutex<Vec<DiskEvent>>>,
    pub limits: DiskLimits,
}

impl Site {
    pub fn new(bytes_max: u64) -> Self {
        let limits = DiskLimits { bytes_max: Some(bytes_max), free_min: 0, inactive: Duration::from_secs(1600) };
        Self { dir: TempDir::new().expect("a folder"), events: Arc::default(), limits }
    }

    pub fn options(&self) -> DiskOptions {
        let events = Arc::clone(&self.events);
        DiskOptions {
            dir: self.dir.path().into(),
            limits: self.limits,
            queue_bytes: 64 << 20,
            events: Arc::new(move |event| events.lock().unwrap().push(event)),
        }
    }

    /// What is wanted of all that was said so far.
    pub fn all<T>(&self, wanted: impl Fn(DiskEvent) -> Option<T>) -> Vec<T> {
        self.events.lock().unwrap().iter().cloned().filter_map(wanted).collect()
    }

    pub fn open(&self) -> DiskShelf {
        let shelf = DiskShelf::open(self.options());
        assert!(shelf.flush_blocking(), "{:?}", self.events.lock().unwrap());
        shelf
    }
}

pub fn page(key: &str, variant: u8, body: impl Into<Bytes>) -> Page {
    Page {
        key: key.as_bytes().into(),
        variant,
        head: Bytes::from(format!("head of {key}")),
        body: PageBody::Memory(vec![body.into()]),
        expires_at: 1_000_000,
        cost_micros: 77,
        holds: None,
    }
}

/// Bytes that differ from place to place.
pub fn bytes(len: usize, seed: u64) -> Bytes {
    let mut random = crate::simulated::Random::new(seed);
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        bytes.extend(random.next().to_le_bytes());
    }
    bytes.truncate(len);
    bytes.into()
}

pub fn read(shelf: &DiskShelf, key: &str, now: u64) -> Vec<Stored> {
    let found = shelf.find(key.as_bytes(), now);
    wait(shelf.read(key.as_bytes().into(), found, usize::MAX))
}

pub fn body_of(stored: &Stored) -> &Bytes {
    match &stored.body {
        StoredBody::Memory(bytes) => bytes,
        StoredBody::Disk(_) => panic!("the body was asked for"),
    }
}

pub fn wait<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime").block_on(future)
}

pub fn du(dir: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let inside = std::fs::read_dir(dir).expect("the folder is there").flatten();
    let files: u64 = inside.filter_map(|entry| entry.metadata().ok()).map(|meta| meta.blocks() * 512).sum();
    files + std::fs::metadata(dir).expect("the folder is there").blocks() * 512
}
