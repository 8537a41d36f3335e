//! A folder in whose place there is suddenly another one.

mod real;
mod simulated;

use std::io;
use std::path::Path;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};

use larder_store::{DiskEvent, DiskOptions, DiskRoom, DiskShelf, Files, Listed, OpenFile, RealFiles, Stamp};
use real::{MB, Site, page};

/// What the machine says of a folder, with another mount.
struct Mounts {
    files: RealFiles,
    /// `None` for a file system that cannot say when a folder changed.
    mount: Arc<Mutex<Option<u64>>>,
}

impl Files for Mounts {
    fn stamp(&self, dir: &Path) -> io::Result<Option<Stamp>> {
        let stamp = self.files.stamp(dir)?;
        let mount = *self.mount.lock().unwrap();
        Ok(stamp.zip(mount).map(|(stamp, mount)| Stamp { mount: Some(mount), ..stamp }))
    }
    fn make_dir(&self, dir: &Path) -> io::Result<()> {
        self.files.make_dir(dir)
    }
    fn list(&self, dir: &Path) -> io::Result<Vec<Listed>> {
        self.files.list(dir)
    }
    fn create(&self, path: &Path) -> io::Result<Arc<dyn OpenFile>> {
        self.files.create(path)
    }
    fn open(&self, path: &Path) -> io::Result<Arc<dyn OpenFile>> {
        self.files.open(path)
    }
    fn open_to_extend(&self, path: &Path) -> io::Result<Arc<dyn OpenFile>> {
        self.files.open_to_extend(path)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.files.rename(from, to)
    }
    fn unlink(&self, path: &Path) -> io::Result<()> {
        self.files.unlink(path)
    }
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.files.sync_dir(dir)
    }
    fn room(&self, dir: &Path) -> io::Result<DiskRoom> {
        self.files.room(dir)
    }
    fn dir_bytes(&self, dir: &Path) -> io::Result<u64> {
        self.files.dir_bytes(dir)
    }
    fn lock(&self, path: &Path, create: bool) -> io::Result<Option<Box<dyn Send + Sync>>> {
        self.files.lock(path, create)
    }
}

/// What is gone suddenly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gone {
    Folder,
    All,
    Segments,
}

#[test]
fn a_folder_is_emptied_by_hand_only_if_nothing_was_mounted_or_unmounted() {
    for (what, before, after, expected) in [
        (Gone::All, Some(1), Some(1), Some(true)),
        (Gone::Segments, Some(1), Some(1), Some(true)),
        (Gone::Folder, Some(1), Some(1), Some(true)),
        (Gone::All, Some(1), Some(2), None),
        // The folder of another shelf is in its place.
        (Gone::Segments, Some(1), Some(2), None),
        // What was mounted above it is gone, or it was behind a link.
        (Gone::Folder, Some(1), Some(2), Some(false)),
        (Gone::All, None, None, Some(false)),
    ] {
        let site = Site::new(64 * MB);
        let folder = site.dir.path().join("shelf");
        let (told, noticed) = channel();
        let told = Mutex::new(told);
        let events = move |event: DiskEvent| {
            let seen = match event {
                DiskEvent::Emptied { is_in_place, .. } => Some(is_in_place),
                DiskEvent::Afresh { .. } => None,
                _ => return,
            };
            told.lock().unwrap().send(seen).expect("the test listens");
        };
        let mount = Arc::new(Mutex::new(before));
        let files = Mounts { files: RealFiles, mount: Arc::clone(&mount) };
        let options = DiskOptions { dir: folder.clone(), events: Arc::new(events), ..site.options() };
        let shelf = DiskShelf::with_files(options, Arc::new(files));
        shelf.store(page("a", 0, "body"), 1000).expect("there is room");
        assert!(shelf.flush_blocking());
        *mount.lock().unwrap() = after;
        if what == Gone::Folder {
            std::fs::remove_dir_all(&folder).expect("it is there");
        } else {
            for entry in std::fs::read_dir(&folder).expect("it is there") {
                let path = entry.expect("it can be listed").path();
                if what == Gone::All || !path.ends_with("larder.shelf") {
                    std::fs::remove_file(path).expect("it is ours");
                }
            }
        }
        let seen = noticed.recv().expect("it looks by itself");
        assert_eq!(seen, expected, "{what:?} {before:?} {after:?}");
        shelf.stop();
    }
}
