//! Static files: opens a file safely, and decides what its answer looks like.
//!
//! [`open`] and [`stat`] respect `disable_symlinks`; [`cache`] is `open_file_cache`, [`kept`] has small files in memory.
//! [`mod@etag`], [`conditional`] and [`ranges`] decide about the head of the answer; [`autoindex`] lists a directory,
//! [`mp4`] cuts films.

pub mod autoindex;
pub mod cache;
pub mod conditional;
pub mod etag;
pub mod kept;
pub mod mp4;
pub mod ranges;

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use larder_conf::model::DisableSymlinks;
use larder_http::status;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use crate::log::errno_text;

/// How `disable_symlinks` applies to one path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LinkPolicy {
    /// Links are followed.
    Off,
    /// A link after the first `from_len` bytes of the path is an error.
    On {
        /// Where checking begins: 0, or the place of a slash in the path.
        from_len: usize,
    },
    /// A link is followed only if it and its target have the same owner.
    IfNotOwner {
        /// As in [`On`](Self::On).
        from_len: usize,
    },
}

impl LinkPolicy {
    /// The policy for `path`; `from` is the value of `from=`.
    ///
    /// As in nginx, a `from` that does not match whole leading components of the path is ignored; one that matches the
    /// whole path leaves nothing to check.
    pub fn new(setting: &DisableSymlinks, from: &[u8], path: &[u8]) -> Self {
        let from_len = match path.strip_prefix(from) {
            Some(b"") => return Self::Off,
            Some(_) if from.is_empty() => 0,
            Some([b'/', ..]) => from.len(),
            Some(_) if from.ends_with(b"/") => from.len() - 1,
            Some(_) | None => 0,
        };
        match setting {
            DisableSymlinks::Off => Self::Off,
            DisableSymlinks::On { .. } => Self::On { from_len },
            DisableSymlinks::IfNotOwner { .. } => Self::IfNotOwner { from_len },
        }
    }
}

/// What tells one state of a file from another: each change of its bytes or of its rights makes it another one, as far
/// as the file system keeps times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    device: u64,
    inode: u64,
    len: u64,
    /// Seconds and nanoseconds. Whoever writes may set this one,
    modified: (i64, i64),
    /// but this one is the system's.
    changed: (i64, i64),
}

impl Stamp {
    #[allow(clippy::unnecessary_cast, reason = "the types are not the same on every system")]
    fn of(stat: &Stat) -> Self {
        Self {
            device: stat.st_dev as u64,
            inode: stat.st_ino as u64,
            len: u64::try_from(stat.st_size).unwrap_or(0),
            modified: (stat.st_mtime as i64, stat.st_mtime_nsec as i64),
            changed: (stat.st_ctime as i64, stat.st_ctime_nsec as i64),
        }
    }
}

/// What is known about a file without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Bytes.
    pub len: u64,
    /// When it was last changed, in seconds since 1970; 0 for what is older.
    pub mtime: u64,
    /// The inode: if it differs, there is another file under the same name.
    pub inode: u64,
    /// A directory.
    pub is_dir: bool,
    /// A regular file. What is neither this nor a directory, such as a FIFO, is answered with 404.
    pub is_regular: bool,
    /// Its owner may execute it.
    pub is_executable: bool,
    /// Its state.
    pub stamp: Stamp,
}

impl Facts {
    fn of(stat: &Stat) -> Self {
        let kind = FileType::from_raw_mode(stat.st_mode);
        Self {
            len: u64::try_from(stat.st_size).unwrap_or(0),
            mtime: u64::try_from(stat.st_mtime).unwrap_or(0),
            inode: stat.st_ino,
            is_dir: kind == FileType::Directory,
            is_regular: kind == FileType::RegularFile,
            is_executable: Mode::from_raw_mode(stat.st_mode).contains(Mode::XUSR),
            stamp: Stamp::of(stat),
        }
    }
}

/// An open file and what is known about it.
#[derive(Clone, Debug)]
pub struct Opened {
    /// The file; for a directory, the directory.
    pub file: Arc<File>,
    /// Bytes.
    pub len: u64,
    /// When it was last changed, in seconds since 1970.
    pub mtime: u64,
    /// The inode.
    pub inode: u64,
    /// A directory.
    pub is_dir: bool,
    /// A regular file.
    pub is_regular: bool,
    /// Its owner may execute it.
    pub is_executable: bool,
    /// Its state.
    pub stamp: Stamp,
}

impl Opened {
    fn new(file: Arc<File>, facts: Facts) -> Self {
        let Facts { len, mtime, inode, is_dir, is_regular, is_executable, stamp } = facts;
        Self { file, len, mtime, inode, is_dir, is_regular, is_executable, stamp }
    }
}

/// Why a file could not be opened. [`OpenError::log_text`] has nginx's words for the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// No such file, or a part of the path is not a directory.
    #[error("not found{}", errno_text(.0.errno()))]
    NotFound(Failure),
    /// Not readable by us.
    #[error("forbidden{}", errno_text(.0.errno()))]
    Forbidden(Failure),
    /// The path or a part of it is longer than the system allows.
    #[error("name too long{}", errno_text(.0.errno()))]
    NameTooLong(Failure),
    /// Too many links, or a link that may not be followed.
    #[error("a link that may not be followed{}", errno_text(.0.errno()))]
    Loop(Failure),
    /// Any other error: too many open files, a failing disk.
    #[error("cannot open{}", errno_text(.0.errno()))]
    Other(Failure),
}

/// The system call that failed, and its error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// As nginx names it: `open()`, `openat()`, `stat()`.
    pub call: &'static str,
    errno: i32,
}

impl Failure {
    /// The number of the error.
    pub fn errno(&self) -> i32 {
        self.errno
    }
}

impl OpenError {
    fn new(call: &'static str, errno: Errno) -> Self {
        let failure = Failure { call, errno: errno.raw_os_error() };
        match errno {
            Errno::NOENT | Errno::NOTDIR => Self::NotFound(failure),
            Errno::NAMETOOLONG => Self::NameTooLong(failure),
            Errno::ACCESS => Self::Forbidden(failure),
            Errno::LOOP | Errno::MLINK => Self::Loop(failure),
            _ => Self::Other(failure),
        }
    }

    /// The same failure of another call.
    pub fn by(self, call: &'static str) -> Self {
        let failure = |failure: Failure| Failure { call, ..failure };
        match self {
            Self::NotFound(which) => Self::NotFound(failure(which)),
            Self::Forbidden(which) => Self::Forbidden(failure(which)),
            Self::NameTooLong(which) => Self::NameTooLong(failure(which)),
            Self::Loop(which) => Self::Loop(failure(which)),
            Self::Other(which) => Self::Other(failure(which)),
        }
    }

    /// Which call failed.
    pub fn failure(&self) -> &Failure {
        match self {
            Self::NotFound(failure)
            | Self::Forbidden(failure)
            | Self::NameTooLong(failure)
            | Self::Loop(failure)
            | Self::Other(failure) => failure,
        }
    }

    /// Whether a part of the path is a file instead of a directory.
    pub fn is_below_a_file(&self) -> bool {
        self.failure().errno() == Errno::NOTDIR.raw_os_error()
    }

    /// The status that nginx sends.
    pub fn status(&self) -> u16 {
        match self {
            Self::NotFound(_) | Self::NameTooLong(_) => status::NOT_FOUND,
            Self::Forbidden(_) | Self::Loop(_) => status::FORBIDDEN,
            Self::Other(_) => status::INTERNAL_SERVER_ERROR,
        }
    }

    /// The line for the log: `open() "/a/b" failed (2: No such file or directory)`. Logged at `error`,
    /// [`OpenError::Other`] at `crit`.
    pub fn log_text(&self, path: &[u8]) -> String {
        let Failure { call, errno } = self.failure();
        format!("{call} \"{}\" failed{}", String::from_utf8_lossy(path), errno_text(*errno))
    }
}

/// Opens `path` for reading and follows links as `links` allows. Never waits for the other end of a FIFO.
pub fn open(path: &[u8], links: &LinkPolicy) -> Result<Opened, OpenError> {
    let fd = open_fd(path, links)?;
    let stat = rustix::fs::fstat(&fd).map_err(|errno| OpenError::new("fstat()", errno))?;
    Ok(Opened::new(Arc::new(File::from(fd)), Facts::of(&stat)))
}

/// Returns what [`open`] would find, without opening it if `links` allows that: for `try_files` and `if (-f ...)`.
pub fn stat(path: &[u8], links: &LinkPolicy) -> Result<Facts, OpenError> {
    let stat = match links {
        LinkPolicy::Off => {
            let name = name_of(path, "stat()")?;
            rustix::fs::statat(CWD, name, AtFlags::empty()).map_err(|errno| OpenError::new("stat()", errno))?
        }
        LinkPolicy::On { .. } | LinkPolicy::IfNotOwner { .. } => {
            let fd = open_fd(path, links)?;
            rustix::fs::fstat(&fd).map_err(|errno| OpenError::new("fstat()", errno))?
        }
    };
    Ok(Facts::of(&stat))
}

/// How a file is opened. Non-blocking matters only for FIFOs.
const READ: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::CLOEXEC);
/// How a directory on the way is opened: the right to search it is sufficient.
const SEARCH: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

fn open_fd(path: &[u8], links: &LinkPolicy) -> Result<OwnedFd, OpenError> {
    match *links {
        LinkPolicy::Off => openat(CWD, path, READ, "open()"),
        LinkPolicy::On { from_len } => {
            open_checked(path, from_len, |at, name, flags| openat(at, name, flags | OFlags::NOFOLLOW, "openat()"))
        }
        LinkPolicy::IfNotOwner { from_len } => open_checked(path, from_len, open_if_owned),
    }
}

/// Walks along `path`; `step` opens one component at a time.
///
/// A link in the middle is `ENOTDIR` (404) and one at the end is `ELOOP` (403), as the kernel reports them and nginx
/// answers.
fn open_checked(
    path: &[u8],
    from_len: usize,
    step: impl Fn(rustix::fd::BorrowedFd<'_>, &[u8], OFlags) -> Result<OwnedFd, OpenError>,
) -> Result<OwnedFd, OpenError> {
    let (start, rest): (Option<OwnedFd>, &[u8]) = match (path.split_at_checked(from_len), path) {
        (Some((from @ [_, ..], [b'/', rest @ ..])), _) => (Some(openat(CWD, from, SEARCH, "open()")?), rest),
        (_, [b'/', rest @ ..]) => (Some(openat(CWD, b"/", SEARCH, "openat()")?), rest),
        _ => (None, path),
    };
    let mut at = start;
    let (dirs, last) = match memchr::memrchr(b'/', rest) {
        Some(slash) => (&rest[..slash], &rest[slash + 1..]),
        None => (&b""[..], rest),
    };
    for component in dirs.split(|&byte| byte == b'/').filter(|component| !component.is_empty()) {
        let dir = at.as_ref().map_or(CWD, AsFd::as_fd);
        at = Some(step(dir, component, SEARCH)?);
    }
    let dir = at.as_ref().map_or(CWD, AsFd::as_fd);
    if last.is_empty() {
        // A trailing slash asks for the directory itself, opened anew for reading.
        return openat(dir, b".", READ, "openat()");
    }
    step(dir, last, READ)
}

/// Opens `name`, then compares the owners of the name and of the opened file. They are compared even if the name is no
/// link now, as it may have changed between the two calls.
fn open_if_owned(at: rustix::fd::BorrowedFd<'_>, name: &[u8], flags: OFlags) -> Result<OwnedFd, OpenError> {
    let fd = openat(at, name, flags, "openat()")?;
    let entry =
        rustix::fs::statat(at, name, AtFlags::SYMLINK_NOFOLLOW).map_err(|errno| OpenError::new("openat()", errno))?;
    let target = rustix::fs::fstat(&fd).map_err(|errno| OpenError::new("openat()", errno))?;
    if entry.st_uid != target.st_uid {
        return Err(OpenError::new("openat()", Errno::LOOP));
    }
    Ok(fd)
}

fn openat(
    at: rustix::fd::BorrowedFd<'_>,
    name: &[u8],
    flags: OFlags,
    call: &'static str,
) -> Result<OwnedFd, OpenError> {
    let name = name_of(name, call)?;
    loop {
        match rustix::fs::openat(at, name, flags, Mode::empty()) {
            Err(Errno::INTR) => {}
            other => return other.map_err(|errno| OpenError::new(call, errno)),
        }
    }
}

/// `path` as passed to the kernel, which gets a copy on the stack. A path with a NUL names no file.
fn name_of<'a>(path: &'a [u8], call: &'static str) -> Result<&'a [u8], OpenError> {
    if memchr::memchr(0, path).is_some() { Err(OpenError::new(call, Errno::NOENT)) } else { Ok(path) }
}

#[cfg(test)]
mod tests;
