//! Files without a name: the kernel deletes them when the last user is gone, whatever happens to the process.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{CWD, Mode, OFlags};

/// A new file on the file system of `dir`, without a name.
pub(super) fn unlinked_file(dir: &Path) -> io::Result<File> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    match rustix::fs::openat(CWD, dir, flags, Mode::RUSR | Mode::WUSR) {
        Ok(fd) => Ok(File::from(fd)),
        // Some file systems (NFS, older overlays) have no `O_TMPFILE`, and each returns another error.
        Err(_) => named_then_unlinked(dir),
    }
}

fn named_then_unlinked(dir: &Path) -> io::Result<File> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    for _ in 0..NAMES_MAX {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = dir.join(format!(".larder-{}-{number}", std::process::id()));
        let opened = OpenOptions::new().read(true).write(true).create_new(true).open(&path);
        match opened {
            Ok(file) => {
                fs::remove_file(&path)?;
                return Ok(file);
            }
            // Left by a process with the same pid that died between the two calls.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

/// How many names are tried before giving up.
const NAMES_MAX: usize = 16;

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;

    #[test]
    fn the_file_holds_bytes_and_has_no_name() {
        let dir = std::env::temp_dir();
        for file in [unlinked_file(&dir), named_then_unlinked(&dir)] {
            let file = file.expect("the folder for temporary files is writable");
            file.write_all_at(b"abc", 0).expect("there is room for it");
            let mut read = [0; 3];
            file.read_exact_at(&mut read, 0).expect("it was written");
            assert_eq!(&read, b"abc");
            let meta = file.metadata().expect("it is open");
            assert_eq!(std::os::unix::fs::MetadataExt::nlink(&meta), 0);
        }
    }

    #[test]
    fn a_folder_that_is_not_there_is_an_error() {
        assert!(unlinked_file(Path::new("/nowhere/at/all")).is_err());
    }
}
