//! Opens the log files of a configuration, while we are still root.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};

use larder_conf::model::{AccessLogTarget, Config, ErrorLog, LogLevel, LogTarget};
use rustix::fs::{Mode, OFlags};

use crate::account::Account;
use crate::levels;
use crate::links;
use crate::log::{Console, Log, Sink, Target};
use crate::oserror::CallFailed;
use crate::paths::{self, DefaultLog, Paths};

/// Which symbolic links on the way to a log are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Links {
    /// All, as by nginx.
    All,
    /// Those of [`crate::links`].
    OfRoot,
}

/// A log file that is open for appending.
pub type OpenLog = (PathBuf, OwnedFd);

/// Every file that `config` logs to, each once.
pub fn files(config: &Config) -> BTreeSet<PathBuf> {
    let main = config.main.error_log.iter().map(|log| &log.target);
    let levels = levels::settings(config).into_iter().flat_map(|settings| {
        let errors = settings.logs.error.iter().map(|log| &log.target);
        let access = settings.logs.access.iter().filter_map(|log| match &log.target {
            AccessLogTarget::Fixed(target) => Some(target),
            AccessLogTarget::Variable(_) => None,
        });
        errors.chain(access)
    });
    let file = |target: &LogTarget| match target {
        LogTarget::File(path) => Some(path.clone()),
        LogTarget::Stderr | LogTarget::Syslog(_) => None,
    };
    main.chain(levels).filter_map(file).collect()
}

/// Opens all of `files`, and creates those that do not exist.
pub fn open_all(files: &BTreeSet<PathBuf>, links: Links) -> Result<Vec<OpenLog>, CallFailed> {
    let open = |path: &PathBuf| match links {
        Links::All => open(path),
        Links::OfRoot => open_safely(path),
    };
    files.iter().map(|path| Ok((path.clone(), open(path)?.into()))).collect()
}

/// Gives log files to `owner`.
pub fn give_all(logs: &[OpenLog], owner: &Account) -> Result<(), CallFailed> {
    logs.iter().try_for_each(|(path, descriptor)| {
        let copy = descriptor.try_clone().map_err(|error| CallFailed::on("dup", path.display(), error))?;
        give(&copy.into(), path, Some(owner))
    })
}

/// Reopens all of `logs` by their paths, after a rotation, and gives the files to `owner`.
///
/// A log that cannot be opened keeps its old descriptor, and the reason is returned.
pub fn reopen_all(logs: &mut [OpenLog], owner: Option<&Account>) -> Vec<CallFailed> {
    let mut failures = Vec::new();
    for (path, descriptor) in logs {
        let opened = open(path).and_then(|file| {
            give(&file, path, owner)?;
            Ok(file)
        });
        match opened {
            Ok(file) => *descriptor = file.into(),
            Err(failure) => failures.push(failure),
        }
    }
    failures
}

/// Gives a log file to `owner`, as nginx does. Not a pipe or a terminal.
fn give(file: &File, path: &Path, owner: Option<&Account>) -> Result<(), CallFailed> {
    let Some(owner) = owner else { return Ok(()) };
    let failed = |call| move |error| CallFailed::on(call, path.display(), error);
    let metadata = file.metadata().map_err(failed("fstat"))?;
    if metadata.is_file() && metadata.uid() != owner.uid {
        fchown(file, Some(owner.uid), None).map_err(failed("chown"))?;
    }
    Ok(())
}

fn open(path: &Path) -> Result<File, CallFailed> {
    if let Some(file) = standard(path) {
        return Ok(file);
    }
    if path.starts_with(paths::LOG_FOLDER) {
        // If larder was put in place of nginx without a package, nothing has made its log folder. If this fails,
        // opening the file reports why.
        let _ = fs::create_dir_all(paths::LOG_FOLDER);
    }
    OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o644)
        .open(path)
        .map_err(|error| CallFailed::on("open", path.display(), error))
}

/// The same in a folder where others may write: neither a link of theirs nor a second name of a file of root's is opened.
fn open_safely(path: &Path) -> Result<File, CallFailed> {
    if let Some(file) = standard(path) {
        return Ok(file);
    }
    let failed = |error| CallFailed::on("open", path.display(), error);
    let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::NONBLOCK;
    let file = File::from(links::open(path, flags, Mode::from_raw_mode(0o644)).map_err(failed)?);
    match file.metadata() {
        Ok(there) if there.is_file() && there.nlink() == 1 => Ok(file),
        Ok(_) => Err(failed(io::Error::other("it is a link, or no file: remove it"))),
        Err(error) => Err(failed(error)),
    }
}

/// Our own standard output or error, if `path` is one of its names, such as `/dev/stderr`. It cannot be opened by name
/// if it is a socket or belongs to another user; and a file would get a second write position.
fn standard(path: &Path) -> Option<File> {
    let stdout = io::stdout();
    let stderr = io::stderr();
    let descriptor = match path.to_str()? {
        "/dev/stdout" => stdout.as_fd(),
        "/dev/stderr" => stderr.as_fd(),
        _ => return None,
    };
    descriptor.try_clone_to_owned().ok().map(File::from)
}

/// The log before the configuration is read: at `notice`, to the built-in path or `-e`.
pub fn starting_log(paths: &Paths) -> Log {
    let target = match &paths.error_log {
        DefaultLog::Stderr => Ok(Target::Stderr),
        DefaultLog::File(path) => open(path).map(Target::File),
    };
    let sink = |target| Sink { target, level: LogLevel::Notice };
    match target {
        Ok(target) => Log::new(vec![sink(target)], Console::Told),
        Err(failure) => {
            let log = Log::new(Vec::new(), Console::Told);
            log.write(LogLevel::Alert, &format!("could not open error log file: {failure}"));
            log
        }
    }
}

/// The sinks for `error_log`, with descriptors from `open`.
pub fn sinks(error_log: &[ErrorLog], open: &[OpenLog]) -> Vec<Sink> {
    let sink = |log: &ErrorLog| {
        let target = match &log.target {
            LogTarget::File(path) => Target::File(find(open, path)?),
            LogTarget::Stderr => Target::Stderr,
            LogTarget::Syslog(syslog) => Target::Syslog(syslog.clone()),
        };
        let level = log.level;
        Some(Sink { target, level })
    };
    error_log.iter().filter_map(sink).collect()
}

/// The file that replaces standard error once larder has started: the first error log, if it is a file, unless some
/// `error_log` is `stderr`.
pub fn stderr_file(config: &Config, open: &[OpenLog]) -> Option<File> {
    let main = &config.main.error_log;
    let levels = levels::settings(config).into_iter().flat_map(|settings| &settings.logs.error);
    if main.iter().chain(levels).any(|log| log.target == LogTarget::Stderr) {
        return None;
    }
    match &main.first()?.target {
        LogTarget::File(path) => find(open, path),
        LogTarget::Stderr | LogTarget::Syslog(_) => None,
    }
}

fn find(open: &[OpenLog], path: &Path) -> Option<File> {
    let (_, descriptor) = open.iter().find(|(name, _)| name == path)?;
    descriptor.try_clone().ok().map(File::from)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn a_log_that_others_may_put_a_link_in_place_of_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let (path, ours) = (folder.path().join("error.log"), folder.path().join("ours"));
        fs::write(&ours, "ours").unwrap();
        let files = BTreeSet::from([path.clone()]);
        fs::hard_link(&ours, &path).unwrap();
        let said = open_all(&files, Links::OfRoot).unwrap_err().to_string();
        assert!(said.contains("it is a link, or no file: remove it"), "{said}");
        fs::remove_file(&path).unwrap();
        assert!(open_all(&files, Links::OfRoot).is_ok() && path.is_file());
        if rustix::process::geteuid().is_root() {
            fs::remove_file(&path).unwrap();
            std::os::unix::fs::symlink(&ours, &path).unwrap();
            std::os::unix::fs::lchown(&path, Some(65534), None).unwrap();
            assert!(open_all(&files, Links::OfRoot).is_err());
            assert!(open_all(&files, Links::All).is_ok());
        }
    }

    #[test]
    fn a_reopened_log_goes_on_at_its_path() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.log");
        let mut logs = open_all(&BTreeSet::from([path.clone()]), Links::All).unwrap();
        assert!(path.exists());
        let write = |logs: &[OpenLog], text: &str| {
            find(logs, &path).unwrap().write_all(text.as_bytes()).unwrap();
        };
        write(&logs, "old");
        fs::rename(&path, folder.path().join("a.log.1")).unwrap();
        assert!(reopen_all(&mut logs, None).is_empty());
        write(&logs, "new");
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(fs::read_to_string(folder.path().join("a.log.1")).unwrap(), "old");
    }

    #[test]
    fn a_log_that_cannot_be_reopened_keeps_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("logs");
        fs::create_dir(&inner).unwrap();
        let path = inner.join("a.log");
        let mut logs = open_all(&BTreeSet::from([path.clone()]), Links::All).unwrap();
        fs::rename(&inner, folder.path().join("moved")).unwrap();
        assert_eq!(reopen_all(&mut logs, None).len(), 1);
        find(&logs, &path).unwrap().write_all(b"still").unwrap();
        assert_eq!(fs::read_to_string(folder.path().join("moved/a.log")).unwrap(), "still");
    }
}
