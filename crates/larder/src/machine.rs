//! A machine as its files show it, read through the folder that stands for its `/`: this one, or one that is mounted.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use larder_source::Loader;
use rustix::fs::{Mode, OFlags, ResolveFlags};

use crate::loader;
use crate::oserror::Reason;

/// A machine. All paths that it takes and gives are as they are on that machine.
#[derive(Clone, Debug)]
pub struct Machine {
    root: PathBuf,
}

/// A file of a machine that could not be read.
#[derive(Debug, thiserror::Error)]
#[error("{} cannot be read {}", path.display(), Reason(source))]
pub struct Unread {
    /// Its name on that machine.
    pub path: PathBuf,
    /// What the system said.
    pub source: io::Error,
}

impl Unread {
    /// Whether there is no such file.
    pub fn is_absent(&self) -> bool {
        matches!(self.source.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
    }
}

impl Machine {
    /// The machine whose `/` is `root`.
    pub fn at(root: &Path) -> io::Result<Machine> {
        Ok(Machine { root: root.canonicalize()? })
    }

    /// Whether it is the one that this process runs on.
    pub fn is_this(&self) -> bool {
        self.root == Path::new("/")
    }

    /// Where this process finds what is there, its links followed: none of them leads out of the root.
    pub fn outside(&self, path: &Path) -> PathBuf {
        self.joined(&self.followed(path))
    }

    fn joined(&self, path: &Path) -> PathBuf {
        let below = path.components().filter(|part| matches!(part, Component::Normal(_)));
        below.fold(self.root.clone(), |whole, part| whole.join(part))
    }

    /// The bytes of a file, 16 MB at most.
    pub fn bytes(&self, path: &Path) -> Result<Vec<u8>, Unread> {
        let unread = |source| Unread { path: path.to_owned(), source };
        let file = File::from(self.open(path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY).map_err(unread)?);
        let mut bytes = Vec::new();
        file.take(BYTES_MAX + 1).read_to_end(&mut bytes).map_err(unread)?;
        if bytes.len() as u64 > BYTES_MAX {
            return Err(unread(io::ErrorKind::FileTooLarge.into()));
        }
        Ok(bytes)
    }

    /// The text of a file; what is not UTF-8 in it is shown as such.
    pub fn text(&self, path: impl AsRef<Path>) -> Result<String, Unread> {
        Ok(String::from_utf8_lossy(&self.bytes(path.as_ref())?).into_owned())
    }

    /// The number in a file that has nothing else; `None` if it has something else.
    pub fn number(&self, path: &str) -> Result<Option<u64>, Unread> {
        Ok(self.text(path)?.trim().parse().ok())
    }

    /// The files that match a pattern with a `/` in front, sorted.
    pub fn files(&self, pattern: &str) -> Vec<PathBuf> {
        if self.is_this() {
            return loader::glob(pattern);
        }
        let root = self.root.to_string_lossy();
        let escaped =
            root.chars().flat_map(|letter| "*?[\\".contains(letter).then_some('\\').into_iter().chain([letter]));
        let found = loader::glob(&escaped.chain(pattern.chars()).collect::<String>());
        found.iter().filter_map(|path| self.inside(path)).collect()
    }

    /// Whether there is something of that name.
    pub fn has(&self, path: &Path) -> bool {
        self.open(path, OFlags::PATH).is_ok()
    }

    /// Where a name leads when all links are followed; the name itself, if it leads nowhere.
    pub fn followed(&self, path: &Path) -> PathBuf {
        let opened = self.open(path, OFlags::PATH).ok();
        let end = opened.and_then(|file| std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).ok());
        end.and_then(|end| self.inside(&end)).unwrap_or_else(|| path.to_owned())
    }

    fn inside(&self, path: &Path) -> Option<PathBuf> {
        Some(Path::new("/").join(path.strip_prefix(&self.root).ok()?))
    }

    /// Opens a file; links lead from its root, not from ours.
    fn open(&self, path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
        let flags = flags | OFlags::CLOEXEC;
        if self.is_this() {
            return Ok(rustix::fs::open(path, flags, Mode::empty())?);
        }
        let root = rustix::fs::open(&self.root, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        match rustix::fs::openat2(&root, path, flags, Mode::empty(), ResolveFlags::IN_ROOT) {
            // Before Linux 5.6, and where a filter of system calls knows it not.
            Err(rustix::io::Errno::NOSYS | rustix::io::Errno::PERM) => {
                Ok(rustix::fs::open(self.joined(path), flags, Mode::empty())?)
            }
            opened => Ok(opened?),
        }
    }
}

impl Loader for Machine {
    fn read(&mut self, path: &Path) -> io::Result<Vec<u8>> {
        self.bytes(path).map_err(|unread| unread.source)
    }

    fn glob(&mut self, pattern: &str) -> io::Result<Vec<PathBuf>> {
        Ok(self.files(pattern))
    }
}

const BYTES_MAX: u64 = 16 << 20;

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_machine_is_read_within_its_root() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        fs::create_dir_all(root.join("etc/a*b")).unwrap();
        fs::write(root.join("etc/real"), "7\n").unwrap();
        symlink("/etc/real", root.join("etc/a*b/link")).unwrap();
        symlink("../../../../../../etc/real", root.join("etc/up")).unwrap();
        let machine = Machine::at(root).unwrap();
        assert!(!machine.is_this());
        for path in ["/etc/real", "/etc/a*b/link", "/etc/up", "/../etc/real"] {
            assert_eq!(machine.number(path).unwrap(), Some(7), "{path}");
        }
        assert_eq!(machine.followed(Path::new("/etc/up")), Path::new("/etc/real"));
        assert_eq!(machine.followed(Path::new("/none")), Path::new("/none"));
        assert_eq!(machine.files("/etc/*/l*"), [PathBuf::from("/etc/a*b/link")]);
        assert!(machine.has(Path::new("/etc")) && !machine.has(Path::new("/etc/none")));
        let unread = machine.text("/etc/none").unwrap_err();
        assert!(unread.is_absent());
        assert_eq!(unread.to_string(), "/etc/none cannot be read (2: No such file or directory)");
        assert!(!machine.text("/etc").unwrap_err().is_absent());
        assert_eq!(machine.outside(Path::new("/../a/./b")), machine.outside(Path::new("/a/b")));
        assert_eq!(machine.outside(Path::new("/etc/a*b/link")), machine.outside(Path::new("/etc/real")));
    }

    #[test]
    fn what_is_above_the_root_is_not_there() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("secret"), "x").unwrap();
        fs::create_dir(folder.path().join("root")).unwrap();
        symlink(folder.path().join("secret"), folder.path().join("root/link")).unwrap();
        let machine = Machine::at(&folder.path().join("root")).unwrap();
        assert!(machine.text("/link").is_err() && machine.text("/../secret").is_err());
    }
}
