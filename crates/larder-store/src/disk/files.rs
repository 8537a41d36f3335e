//! The file operations of a disk shelf, behind a trait so that tests can fail, cut and reorder them.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, IoSliceMut};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use rustix::fs::{AtFlags, CWD, FallocateFlags, FlockOperation, Mode, OFlags, StatxFlags};
use rustix::io::{Errno, ReadWriteFlags};

/// What a disk shelf does with a file system. Paths are absolute; a shelf stays in its own folder.
pub trait Files: Send + Sync {
    /// Makes the folder and its parents, unless they exist.
    fn make_dir(&self, dir: &Path) -> io::Result<()>;
    /// The names in the folder, in any order.
    fn list(&self, dir: &Path) -> io::Result<Vec<Listed>>;
    /// A new file for writing, with direct I/O if the file system has that. Fails if the file exists.
    fn create(&self, path: &Path) -> io::Result<Arc<dyn OpenFile>>;
    /// A file for reading, through the page cache.
    fn open(&self, path: &Path) -> io::Result<Arc<dyn OpenFile>>;
    /// An existing file, for appending to it.
    fn open_to_extend(&self, path: &Path) -> io::Result<Arc<dyn OpenFile>>;
    /// Renames a file, and replaces a file that has the new name.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file's name.
    fn unlink(&self, path: &Path) -> io::Result<()>;
    /// Makes the names in the folder durable.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
    /// The room on the file system that holds the folder.
    fn room(&self, dir: &Path) -> io::Result<DiskRoom>;
    /// The bytes that the folder itself takes, without what is in it.
    fn dir_bytes(&self, dir: &Path) -> io::Result<u64>;
    /// Changes when names in the folder are added or removed; `None` if the file system cannot say.
    fn stamp(&self, _dir: &Path) -> io::Result<Option<Stamp>> {
        Ok(None)
    }
    /// An exclusive lock on a file until the result is dropped. `None` while another process holds it.
    fn lock(&self, path: &Path, create: bool) -> io::Result<Option<Box<dyn Send + Sync>>>;
    /// The time, by a clock that never goes back.
    fn now(&self) -> Instant {
        Instant::now()
    }
    /// A random number that nobody can guess, for ids and seeds.
    fn random(&self) -> u64 {
        use std::hash::{BuildHasher, Hasher};
        let mut bytes = [0; 8];
        match rustix::rand::getrandom(&mut bytes[..], rustix::rand::GetRandomFlags::empty()) {
            Ok(8) => u64::from_le_bytes(bytes),
            // A sandbox may refuse it. Then use the standard library's, which is seeded once for the process.
            Ok(_) | Err(_) => std::collections::hash_map::RandomState::new().build_hasher().finish(),
        }
    }
}

/// An open file.
pub trait OpenFile: Send + Sync {
    /// Writes all of `bytes`. Aligned bytes at an aligned position may be written by direct I/O.
    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<()>;
    /// Reads until `into` is full or the file ends. Returns the number of bytes.
    fn read_at(&self, into: &mut [u8], at: u64) -> io::Result<usize>;
    /// Reads what is in the page cache, without waiting for a disk. An error or fewer bytes if that is not all.
    fn read_at_nowait(&self, into: &mut [u8], at: u64) -> io::Result<usize>;
    /// Makes the file `len` long, and allocates room for all of it.
    fn allocate(&self, len: u64) -> io::Result<()>;
    /// Makes what was written durable.
    fn sync(&self) -> io::Result<()>;
    /// The length.
    fn len(&self) -> io::Result<u64>;
    /// Whether nothing is in it.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
    /// The bytes it takes on the disk.
    fn allocated(&self) -> io::Result<u64>;
    /// The file for `sendfile`, if there is one.
    fn file(&self) -> Option<&Arc<File>>;
}

/// The identity of a folder, and when it was last changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// The file system it is on.
    pub device: u64,
    /// The mount by which it is reached; the kernel says it from Linux 5.8 on.
    pub mount: Option<u64>,
    /// The inode of the folder; a new folder of the same name has another one.
    pub inode: u64,
    /// Seconds and nanoseconds since 1970, as exact as the file system.
    pub changed_at: (i64, i64),
}

impl Stamp {
    /// Whether nothing was mounted or unmounted between the two, which may be of a folder and of one above it.
    pub fn is_in_place_of(&self, before: &Self) -> bool {
        match (self.mount, before.mount) {
            // A folder in the same mount may be another device, as a subvolume of btrfs.
            (Some(mount), Some(before)) => mount == before,
            (None, _) | (_, None) => self.device == before.device,
        }
    }
}

/// An entry of a folder.
#[derive(Clone, Debug)]
pub struct Listed {
    /// The name, without the folder.
    pub name: OsString,
    /// Whether it is a plain file.
    pub is_file: bool,
}

/// The room on a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskRoom {
    /// The size of the file system, in bytes.
    pub total: u64,
    /// The free bytes for users that are not root.
    pub free: u64,
}

/// The file systems of this machine.
pub struct RealFiles;

impl Files for RealFiles {
    fn make_dir(&self, dir: &Path) -> io::Result<()> {
        use std::os::unix::fs::DirBuilderExt;
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<Listed>> {
        std::fs::read_dir(dir)?
            .map(|entry| {
                let entry = entry?;
                let is_file = entry.file_type()?.is_file();
                Ok(Listed { name: entry.file_name(), is_file })
            })
            .collect()
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn OpenFile>> {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR;
        let opened = match rustix::fs::openat(CWD, path, flags | OFlags::DIRECT, mode) {
            // Some file systems create the file before they refuse direct I/O; then the file is ours.
            Err(Errno::INVAL) => {
                let _ = rustix::fs::unlink(path);
                rustix::fs::openat(CWD, path, flags, mode)
            }
            other => other,
        };
        Ok(Arc::new(RealFile(Arc::new(File::from(opened?)))))
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn OpenFile>> {
        Ok(Arc::new(RealFile(Arc::new(File::open(path)?))))
    }

    fn open_to_extend(&self, path: &Path) -> io::Result<Arc<dyn OpenFile>> {
        Ok(Arc::new(RealFile(Arc::new(OpenOptions::new().write(true).open(path)?))))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::rename(from, to)
    }

    fn unlink(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        File::open(dir)?.sync_all()
    }

    fn room(&self, dir: &Path) -> io::Result<DiskRoom> {
        let all = rustix::fs::statvfs(dir)?;
        Ok(DiskRoom {
            total: all.f_blocks.saturating_mul(all.f_frsize),
            free: all.f_bavail.saturating_mul(all.f_frsize),
        })
    }

    fn dir_bytes(&self, dir: &Path) -> io::Result<u64> {
        Ok(std::fs::metadata(dir)?.blocks().saturating_mul(BLOCK_UNIT))
    }

    fn stamp(&self, dir: &Path) -> io::Result<Option<Stamp>> {
        let folder = std::fs::metadata(dir)?;
        let changed_at = (folder.mtime(), folder.mtime_nsec());
        let mount = rustix::fs::statx(CWD, dir, AtFlags::empty(), StatxFlags::MNT_ID).ok();
        let mount = mount.filter(|stat| stat.stx_mask & StatxFlags::MNT_ID.bits() != 0).map(|stat| stat.stx_mnt_id);
        Ok(Some(Stamp { device: folder.dev(), mount, inode: folder.ino(), changed_at }))
    }

    fn lock(&self, path: &Path, create: bool) -> io::Result<Option<Box<dyn Send + Sync>>> {
        let mut how = OpenOptions::new();
        let file = how.read(true).write(true).create(create).truncate(false).mode(0o600).open(path)?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
        // Another process may have replaced the file between the two calls: then lock the new one.
        let (locked, named) = (file.metadata()?, std::fs::metadata(path)?);
        let is_same = (locked.dev(), locked.ino()) == (named.dev(), named.ino());
        Ok(is_same.then(|| Box::new(file) as Box<dyn Send + Sync>))
    }
}

struct RealFile(Arc<File>);

impl OpenFile for RealFile {
    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        match self.0.write_all_at(bytes, at) {
            // It was opened for direct I/O, but this file system does not accept this write or its alignment.
            Err(error) if error.raw_os_error() == Some(Errno::INVAL.raw_os_error()) => {
                let flags = rustix::fs::fcntl_getfl(&*self.0)?;
                if !flags.contains(OFlags::DIRECT) {
                    return Err(error);
                }
                rustix::fs::fcntl_setfl(&*self.0, flags - OFlags::DIRECT)?;
                self.0.write_all_at(bytes, at)
            }
            other => other,
        }
    }

    fn read_at(&self, into: &mut [u8], at: u64) -> io::Result<usize> {
        let mut read = 0;
        while let Some(rest) = into.get_mut(read..).filter(|rest| !rest.is_empty()) {
            match self.0.read_at(rest, at + read as u64) {
                Ok(0) => break,
                Ok(count) => read += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(read)
    }

    fn read_at_nowait(&self, into: &mut [u8], at: u64) -> io::Result<usize> {
        let read = rustix::io::preadv2(&*self.0, &mut [IoSliceMut::new(into)], at, ReadWriteFlags::NOWAIT)?;
        Ok(read)
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        match rustix::fs::fallocate(&*self.0, FallocateFlags::empty(), 0, len) {
            // Room is then allocated by each write, and a full disk shows at a write.
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => self.0.set_len(len),
            other => Ok(other?),
        }
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn allocated(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.blocks().saturating_mul(BLOCK_UNIT))
    }

    fn file(&self) -> Option<&Arc<File>> {
        Some(&self.0)
    }
}

/// The unit of `st_blocks`, whatever the file system's block size is.
const BLOCK_UNIT: u64 = 512;
