//! A log file: each write appends complete lines, and the file can be replaced while it is in use.

use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arc_swap::ArcSwap;
use larder_conf::model::LogLevel;
use larder_http::Time;

use super::io_error_text;

/// The mode of a new log file, as in nginx.
const MODE: u32 = 0o644;

/// A log file. All workers share it; writing takes no lock.
#[derive(Debug)]
pub struct LogFile {
    path: PathBuf,
    file: ArcSwap<File>,
    /// Whether the last line was written only in part, so that the next write begins with a line feed.
    is_torn: AtomicBool,
    /// The second after which a full disk is tried again.
    full_at: AtomicU64,
    /// The second of the last failure that was reported.
    told_at: AtomicU64,
}

/// Why lines were lost; reported at most once a second for each file. The words are nginx's, for the error log at
/// `alert`.
#[derive(Debug, thiserror::Error)]
pub enum Trouble {
    /// The write failed.
    #[error("write() to \"{}\" failed{}", path.display(), io_error_text(source))]
    Failed {
        /// The log's path.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// Only a part was written.
    #[error("write() to \"{}\" was incomplete: {written} of {len}", path.display())]
    Incomplete {
        /// The log's path.
        path: PathBuf,
        /// How many bytes were written.
        written: usize,
        /// How many bytes should have been written.
        len: usize,
    },
    /// A syslog server could not be reached.
    #[error("send() failed{} while logging to syslog, server: {server}", io_error_text(source))]
    Syslog {
        /// The server's address.
        server: String,
        /// The system's error.
        source: io::Error,
    },
}

impl Trouble {
    /// The level of the report: lower for a syslog server that is away.
    pub fn level(&self) -> LogLevel {
        match self {
            Self::Failed { .. } | Self::Incomplete { .. } => LogLevel::Alert,
            Self::Syslog { .. } => LogLevel::Error,
        }
    }
}

impl LogFile {
    /// Opens the log, and creates the file if it is missing.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self::from_file(path, append_to(path)?))
    }

    /// A log that another process has opened for appending.
    pub fn from_file(path: &Path, file: File) -> Self {
        Self {
            path: path.to_owned(),
            file: ArcSwap::from_pointee(file),
            is_torn: AtomicBool::new(false),
            full_at: AtomicU64::new(u64::MAX),
            told_at: AtomicU64::new(u64::MAX),
        }
    }

    /// The log's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reopens the path, as after a rotation. If that fails, the old file stays in use.
    pub fn reopen(&self) -> io::Result<()> {
        self.swap(append_to(&self.path)?);
        Ok(())
    }

    /// Writes to `file` from now on. A write in progress ends in the old file.
    pub fn swap(&self, file: File) {
        self.file.store(Arc::new(file));
        self.is_torn.store(false, Ordering::Relaxed);
        self.full_at.store(u64::MAX, Ordering::Relaxed);
    }

    /// Appends `lines`, which end with a line feed, in one write, so that lines of several workers never mix.
    ///
    /// Lines that cannot be written are lost: a log never fails a request. A full disk is not tried again within the
    /// same second.
    pub fn append(&self, lines: &[u8], now: Time) -> Result<(), Trouble> {
        if lines.is_empty() || self.full_at.load(Ordering::Relaxed) == now.secs() {
            return Ok(());
        }
        let file = self.file.load();
        let mend: &[u8] = if self.is_torn.swap(false, Ordering::Relaxed) { b"\n" } else { b"" };
        let len = mend.len() + lines.len();
        let trouble = match write_once(&file, mend, lines) {
            Ok(written) if written == len => return Ok(()),
            Ok(written) => {
                self.is_torn.store(true, Ordering::Relaxed);
                Trouble::Incomplete { path: self.path.clone(), written, len }
            }
            Err(source) => {
                self.is_torn.store(!mend.is_empty(), Ordering::Relaxed);
                if source.kind() == io::ErrorKind::StorageFull {
                    self.full_at.store(now.secs(), Ordering::Relaxed);
                }
                Trouble::Failed { path: self.path.clone(), source }
            }
        };
        if self.told_at.swap(now.secs(), Ordering::Relaxed) == now.secs() {
            return Ok(());
        }
        Err(trouble)
    }
}

fn write_once(mut file: &File, mend: &[u8], lines: &[u8]) -> io::Result<usize> {
    loop {
        let result = if mend.is_empty() {
            file.write(lines)
        } else {
            file.write_vectored(&[IoSlice::new(mend), IoSlice::new(lines)])
        };
        match result {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

fn append_to(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).mode(MODE).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_go_to_the_file_that_is_there_now() {
        let dir = ::tempfile::tempdir().expect("a temp dir can be made");
        let path = dir.path().join("a.log");
        let log = LogFile::open(&path).expect("opened");
        log.append(b"one\n", Time(0)).expect("written");
        std::fs::rename(&path, dir.path().join("a.log.1")).expect("rotated");
        log.append(b"two\n", Time(0)).expect("written");
        log.reopen().expect("opened anew");
        log.append(b"three\n", Time(0)).expect("written");
        let read = |name: &str| std::fs::read_to_string(dir.path().join(name)).expect("there");
        assert_eq!(read("a.log.1"), "one\ntwo\n");
        assert_eq!(read("a.log"), "three\n");
    }

    #[test]
    fn a_full_disk_is_told_of_and_tried_once_a_second() {
        let full = OpenOptions::new().write(true).open("/dev/full").expect("Linux has a full device");
        let log = LogFile::from_file(Path::new("/dev/full"), full);
        for (millis, is_told) in [(1000, true), (1500, false), (1999, false), (2000, true), (2001, false)] {
            let told = log.append(b"line\n", Time(millis)).err().map(|trouble| trouble.to_string());
            let words = is_told.then(|| "write() to \"/dev/full\" failed (28: No space left on device)".to_owned());
            assert_eq!(told, words, "at {millis}");
        }
    }

    #[test]
    fn a_file_that_cannot_be_written_is_told_of_once_a_second() {
        let dir = ::tempfile::tempdir().expect("a temp dir can be made");
        let path = dir.path().join("a.log");
        std::fs::write(&path, "").expect("written");
        let log = LogFile::from_file(&path, File::open(&path).expect("opened for reading"));
        for (millis, is_told) in [(0, true), (999, false), (1000, true)] {
            assert_eq!(log.append(b"line\n", Time(millis)).is_err(), is_told, "at {millis}");
        }
    }

    #[test]
    fn after_a_part_of_a_line_the_next_begins_anew() {
        let dir = ::tempfile::tempdir().expect("a temp dir can be made");
        let path = dir.path().join("a.log");
        std::fs::write(&path, "half a li").expect("written");
        let log = LogFile::open(&path).expect("opened");
        log.is_torn.store(true, Ordering::Relaxed);
        log.append(b"one\n", Time(0)).expect("written");
        log.append(b"two\n", Time(0)).expect("written");
        assert_eq!(std::fs::read_to_string(&path).expect("there"), "half a li\none\ntwo\n");
    }

    #[test]
    fn lines_of_many_threads_never_mix() {
        const LINES: usize = 500;
        let dir = ::tempfile::tempdir().expect("a temp dir can be made");
        let path = dir.path().join("a.log");
        let log = LogFile::open(&path).expect("opened");
        std::thread::scope(|scope| {
            for letter in ["a", "b", "c", "d"] {
                let log = &log;
                scope.spawn(move || {
                    let line = letter.repeat(300) + "\n";
                    for _ in 0..LINES {
                        log.append(line.as_bytes(), Time(0)).expect("written");
                    }
                });
            }
        });
        let text = std::fs::read_to_string(&path).expect("there");
        assert_eq!(text.lines().count(), 4 * LINES);
        assert!(text.lines().all(|line| line.len() == 300 && line.bytes().all(|byte| byte == line.as_bytes()[0])));
    }
}
