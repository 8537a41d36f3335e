//! Files without a name, for bodies that do not fit in memory. They are gone when they are closed, whatever happens.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;

/// How many names are tried where the file system has no files without one.
const NAMES_TRIED: u32 = 100;

/// Where temporary files go unless the configuration names a directory. Not `TMPDIR`: only the binary reads the
/// environment.
pub const SYSTEM_DIR: &str = "/tmp";

/// A file that is open for reading and writing and has no name.
#[derive(Debug)]
pub struct Temp {
    /// The file.
    pub file: File,
    /// Why it is not where it was to be; worth a line in the log, once.
    pub fallback: Option<Fallback>,
}

/// Why a file was made in the system's directory.
#[derive(Debug, thiserror::Error)]
#[error("cannot make a temporary file in \"{}\", used \"{}\" instead: {source}", wanted.display(), used.display())]
pub struct Fallback {
    /// The directory that was configured.
    pub wanted: PathBuf,
    /// The directory of the system.
    pub used: PathBuf,
    /// What was wrong with the first.
    pub source: io::Error,
}

/// Makes a file in `dir`, or in `system` where that does not work: because it is not there, is not ours to write,
/// or is on a full disk. The error is that of `system`.
pub fn create(dir: &Path, system: &Path) -> io::Result<Temp> {
    match create_in(dir) {
        Ok(file) => Ok(Temp { file, fallback: None }),
        Err(source) => {
            let file = create_in(system)?;
            let fallback = Fallback { wanted: dir.to_owned(), used: system.to_owned(), source };
            Ok(Temp { file, fallback: Some(fallback) })
        }
    }
}

fn create_in(dir: &Path) -> io::Result<File> {
    let path = CString::new(dir.as_os_str().as_bytes())?;
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let fd = match rustix::fs::openat(CWD, &path, flags, Mode::RUSR | Mode::WUSR) {
        // Not every file system has files without a name, and old kernels take the flag for a directory's.
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => create_and_unlink(&path)?,
        other => other?,
    };
    Ok(File::from(fd))
}

/// A file under a name nobody else has, which it loses at once.
fn create_and_unlink(dir: &CString) -> Result<OwnedFd, Errno> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let search = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let dir = rustix::fs::openat(CWD, dir, search, Mode::empty())?;
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    for _ in 0..NAMES_TRIED {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("larder-{}-{number}", std::process::id());
        match rustix::fs::openat(&dir, &name, flags, Mode::RUSR | Mode::WUSR) {
            Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno),
            Ok(fd) => {
                rustix::fs::unlinkat(&dir, &name, AtFlags::empty())?;
                return Ok(fd);
            }
        }
    }
    Err(Errno::EXIST)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Seek, Write};

    use super::*;

    fn works(mut file: File) -> bool {
        let mut read = String::new();
        file.write_all(b"body").expect("written");
        file.rewind().expect("rewound");
        file.read_to_string(&mut read).expect("read");
        read == "body"
    }

    fn is_empty(dir: &Path) -> bool {
        std::fs::read_dir(dir).expect("there").next().is_none()
    }

    #[test]
    fn files_have_no_name() {
        let dir = ::tempfile::tempdir().expect("a temp dir can be made");
        let temp = create(dir.path(), Path::new("/nowhere")).expect("made");
        assert!(temp.fallback.is_none());
        assert!(is_empty(dir.path()));
        assert!(works(temp.file));
        let path = CString::new(dir.path().as_os_str().as_bytes()).expect("a path has no NUL");
        let fd = create_and_unlink(&path).expect("made");
        assert!(is_empty(dir.path()));
        assert!(works(File::from(fd)));
    }

    #[test]
    fn names_that_are_taken_are_passed_over() {
        let dir = ::tempfile::tempdir().expect("a temp dir can be made");
        let path = CString::new(dir.path().as_os_str().as_bytes()).expect("a path has no NUL");
        for number in 0..50 {
            std::fs::write(dir.path().join(format!("larder-{}-{number}", std::process::id())), "").expect("written");
        }
        assert!(works(File::from(create_and_unlink(&path).expect("made"))));
    }

    #[test]
    fn the_systems_directory_is_the_second_choice() {
        let dir = ::tempfile::tempdir().expect("a temp dir can be made");
        let file = dir.path().join("file");
        std::fs::write(&file, "").expect("written");
        for (wanted, errno) in [(Path::new("/nowhere"), Errno::NOENT), (&file, Errno::NOTDIR)] {
            let temp = create(wanted, dir.path()).expect("made");
            let fallback = temp.fallback.expect("the first choice cannot be had");
            assert_eq!((&*fallback.wanted, &*fallback.used), (wanted, dir.path()));
            assert_eq!(fallback.source.raw_os_error(), Some(errno.raw_os_error()), "{}", wanted.display());
            assert!(works(temp.file));
        }
        assert!(create(Path::new("/nowhere"), Path::new("/nowhere")).is_err());
    }
}
