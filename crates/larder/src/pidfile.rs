//! The pid file: how a running larder is found.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::oserror::CallFailed;

/// A pid file that we wrote. It is removed when this is dropped.
#[derive(Debug)]
pub struct PidFile {
    path: PathBuf,
    /// Locked as long as this is there.
    _lock: Option<File>,
}

impl PidFile {
    /// Writes our pid to `path`, and overwrites what an earlier process left there.
    pub fn write(path: &Path) -> Result<PidFile, CallFailed> {
        let failed = |call| move |error: io::Error| CallFailed::on(call, path.display(), error);
        let mut file =
            OpenOptions::new().write(true).create(true).truncate(true).mode(MODE).open(path).map_err(failed("open"))?;
        // One write, so that a script which polls for the file sees all digits or none.
        let line = format!("{}\n", std::process::id());
        file.write_all(line.as_bytes()).map_err(failed("write"))?;
        Ok(PidFile { path: path.to_owned(), _lock: None })
    }

    /// Writes our pid to `path` and locks the file, as the programs of Varnish do. Another process that holds the lock
    /// keeps its file.
    pub fn write_locked(path: &Path) -> Result<PidFile, CallFailed> {
        let failed = |call| move |error: io::Error| CallFailed::on(call, path.display(), error);
        let options = OpenOptions::new().write(true).create(true).truncate(false).mode(MODE).open(path);
        let mut file = options.map_err(failed("open"))?;
        let busy = "another process runs with this pid file: end it, or name another file with -P";
        lock_and_write(&mut file, path, busy)?;
        Ok(PidFile { path: path.to_owned(), _lock: Some(file) })
    }

    /// Renames it, and replaces a file that has that name.
    pub fn rename(&mut self, to: &Path) -> Result<(), CallFailed> {
        fs::rename(&self.path, to).map_err(|error| CallFailed::on("rename", self.path.display(), error))?;
        to.clone_into(&mut self.path);
        Ok(())
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Locks a file and writes our pid to it; `busy` says what to do if another process holds the lock.
pub fn lock_and_write(file: &mut File, path: &Path, busy: &'static str) -> Result<(), CallFailed> {
    let failed = |call| move |error: io::Error| CallFailed::on(call, path.display(), error);
    file.try_lock().map_err(|error| match error {
        TryLockError::WouldBlock => failed("lock")(io::Error::other(busy)),
        TryLockError::Error(error) => failed("lock")(error),
    })?;
    let line = format!("{}\n", std::process::id());
    file.set_len(0).and_then(|()| file.write_all(line.as_bytes())).map_err(failed("write"))
}

impl Drop for PidFile {
    fn drop(&mut self) {
        // Another larder may have written its own file since; that one is not removed.
        if matches!(read(&self.path), Ok(pid) if pid.unsigned_abs() == std::process::id()) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Tries whether a pid file could be written to `path`, and leaves nothing behind.
pub fn try_write(path: &Path) -> Result<(), CallFailed> {
    let is_new = !path.exists();
    OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(MODE)
        .open(path)
        .map_err(|error| CallFailed::on("open", path.display(), error))?;
    if is_new {
        let _ = fs::remove_file(path);
    }
    Ok(())
}

/// Why a pid file cannot be used. The texts are nginx's.
#[derive(Debug, thiserror::Error)]
pub enum PidFileError {
    /// It cannot be read.
    #[error(transparent)]
    Call(#[from] CallFailed),
    /// It holds something else.
    #[error("invalid PID number \"{text}\" in \"{}\"", path.display())]
    Invalid {
        /// What it holds.
        text: String,
        /// Its place.
        path: PathBuf,
    },
}

/// The pid in the file at `path`.
pub fn read(path: &Path) -> Result<i32, PidFileError> {
    let failed = |call| move |error: io::Error| CallFailed::on(call, path.display(), error);
    let mut bytes = Vec::new();
    let file = fs::File::open(path).map_err(failed("open"))?;
    file.take(PID_BYTES_MAX).read_to_end(&mut bytes).map_err(failed("read"))?;
    let text = String::from_utf8_lossy(&bytes);
    let text = text.trim_end_matches(['\n', '\r']);
    match text.parse() {
        Ok(pid) if pid > 0 => Ok(pid),
        _ => Err(PidFileError::Invalid { text: text.to_owned(), path: path.to_owned() }),
    }
}

/// The path of a socket beside a pid file: `a.vsl` for `a.pid`, and `a.1.vsl` for `a.1` or any other name, so that it is
/// never the pid file, and `a.2` has its own.
pub fn beside(pid_path: &Path, extension: &str) -> PathBuf {
    match pid_path.extension() {
        Some(own) if own == "pid" => pid_path.with_extension(extension),
        _ => {
            let mut name = pid_path.as_os_str().to_owned();
            name.push(".");
            name.push(extension);
            name.into()
        }
    }
}

const MODE: u32 = 0o644;
const PID_BYTES_MAX: u64 = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_number_is_there_until_it_is_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.pid");
        fs::write(&path, "1234567 and much that a crash left behind").unwrap();
        let file = PidFile::write(&path).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), format!("{}\n", std::process::id()));
        assert_eq!(read(file.path()).unwrap().unsigned_abs(), std::process::id());
        drop(file);
        assert!(!path.exists());
    }

    #[test]
    fn a_renamed_file_goes_from_its_new_place() {
        let folder = tempfile::tempdir().unwrap();
        let (path, old) = (folder.path().join("a.pid"), folder.path().join("a.pid.oldbin"));
        let mut file = PidFile::write(&path).unwrap();
        file.rename(&old).unwrap();
        fs::write(&path, "1\n").unwrap();
        assert_eq!(read(&old).unwrap().unsigned_abs(), std::process::id());
        file.rename(&path).unwrap();
        assert_eq!(read(&path).unwrap().unsigned_abs(), std::process::id(), "it takes the place back");
        file.rename(&old).unwrap();
        drop(file);
        assert!(!old.exists());
    }

    #[test]
    fn each_pid_file_has_a_socket_of_its_own() {
        for (pid, expected) in [
            ("/run/larder.pid", "/run/larder.vsl"),
            ("/run/k.1", "/run/k.1.vsl"),
            ("/run/k.2", "/run/k.2.vsl"),
            ("/run/x.vsl", "/run/x.vsl.vsl"),
            ("/run/larder", "/run/larder.vsl"),
            ("/run/.pid", "/run/.pid.vsl"),
            ("/run/a.b.pid", "/run/a.b.vsl"),
        ] {
            assert_eq!(beside(Path::new(pid), "vsl"), Path::new(expected), "{pid}");
        }
    }

    #[test]
    fn the_file_of_another_process_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.pid");
        let file = PidFile::write(&path).unwrap();
        fs::write(&path, "1\n").unwrap();
        drop(file);
        assert!(path.exists());
    }

    #[test]
    fn a_locked_file_has_one_process() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.pid");
        fs::write(&path, "1234567 and much that a crash left behind").unwrap();
        let file = PidFile::write_locked(&path).unwrap();
        let said = PidFile::write_locked(&path).unwrap_err().to_string();
        assert!(said.contains("another process runs with this pid file"), "{said}");
        assert_eq!(fs::read_to_string(&path).unwrap(), format!("{}\n", std::process::id()));
        drop(file);
        assert!(!path.exists());
        assert!(PidFile::write_locked(&path).is_ok());
    }

    #[test]
    fn a_trial_leaves_things_as_they_were() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.pid");
        try_write(&path).unwrap();
        assert!(!path.exists());
        fs::write(&path, "1\n").unwrap();
        try_write(&path).unwrap();
        assert_eq!(read(&path).unwrap(), 1);
        assert!(try_write(&folder.path().join("no/a.pid")).is_err());
    }

    #[test]
    fn what_is_no_number_is_told_in_the_words_of_nginx() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.pid");
        let shown = path.display().to_string();
        let said = |path: &Path| read(path).unwrap_err().to_string();
        assert_eq!(said(&path), format!("open() \"{shown}\" failed (2: No such file or directory)"));
        for (text, quoted) in
            [("", ""), ("\n", ""), ("abc\n", "abc"), ("-5", "-5"), ("0", "0"), ("99999999999", "99999999999")]
        {
            fs::write(&path, text).unwrap();
            assert_eq!(said(&path), format!("invalid PID number \"{quoted}\" in \"{shown}\""));
        }
        fs::write(&path, b"\xff\xfe".repeat(400)).unwrap();
        assert!(said(&path).len() < 1000);
    }
}
