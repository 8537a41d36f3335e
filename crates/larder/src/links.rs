//! Opens what root makes and gives away: whoever may write to a folder on the way must not lead it elsewhere.
//!
//! A symbolic link is followed if root has made it, or the user whom larder runs as, since `/var/cache/nginx` may be on
//! another disk. One that another user has made is refused.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path};

use rustix::fs::{AtFlags, CWD, FileType, Gid, Mode, OFlags, Uid};
use rustix::io::Errno;

/// Opens a path with `flags`; `mode` is for a file that this makes. Only the links that are said above are followed.
pub fn open(path: &Path, flags: OFlags, mode: Mode) -> io::Result<OwnedFd> {
    let mut at = folder(OsStr::new("."))?;
    let mut left = parts(path);
    let mut links = 0;
    while let Some(name) = left.pop() {
        if name == "/" {
            at = folder(&name)?;
            continue;
        }
        let look = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let found = match rustix::fs::openat(&at, &name, look, Mode::empty()) {
            Ok(found) => found,
            // It may be made.
            Err(Errno::NOENT) if left.is_empty() => return last(&at, &name, flags, mode),
            Err(error) => return Err(error.into()),
        };
        let there = rustix::fs::fstat(&found)?;
        if FileType::from_raw_mode(there.st_mode) == FileType::Symlink {
            links += 1;
            if links > LINKS_MAX {
                return Err(Errno::LOOP.into());
            }
            if there.st_uid != 0 && there.st_uid != rustix::process::geteuid().as_raw() {
                return Err(refused(&name));
            }
            let target = OsString::from_vec(rustix::fs::readlinkat(&found, "", Vec::new())?.into_bytes());
            left.extend(parts(Path::new(&target)));
        } else if left.is_empty() {
            return last(&at, &name, flags, mode);
        } else {
            at = found;
        }
    }
    // A path of nothing but `/` and `.`.
    last(&at, OsStr::new("."), flags, mode)
}

/// Gives a file or folder that is open, in any way, to a user, and to a group if there is one.
pub fn give(file: impl AsFd, user: u32, group: Option<u32>) -> io::Result<()> {
    let group = group.map(Gid::from_raw);
    Ok(rustix::fs::chownat(file, "", Some(Uid::from_raw(user)), group, AtFlags::EMPTY_PATH)?)
}

fn last(at: &OwnedFd, name: &OsStr, flags: OFlags, mode: Mode) -> io::Result<OwnedFd> {
    // What has become a link since we have looked is not followed.
    Ok(rustix::fs::openat(at, name, flags | OFlags::NOFOLLOW | OFlags::CLOEXEC, mode)?)
}

fn folder(name: &OsStr) -> io::Result<OwnedFd> {
    Ok(rustix::fs::openat(CWD, name, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?)
}

/// The names of a path, the first one last.
fn parts(path: &Path) -> Vec<OsString> {
    let kept = path.components().filter(|part| *part != Component::CurDir);
    kept.map(|part| part.as_os_str().to_owned()).rev().collect()
}

fn refused(name: &OsStr) -> io::Error {
    io::Error::other(format!(
        "\"{}\" is a symbolic link that another user than root has made: remove it, or make it as root",
        name.display()
    ))
}

/// As many as Linux follows.
const LINKS_MAX: usize = 40;

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt, lchown, symlink};

    use super::*;

    fn folder_at(path: &Path) -> io::Result<u64> {
        let opened = open(path, OFlags::PATH | OFlags::DIRECTORY, Mode::empty())?;
        Ok(rustix::fs::fstat(opened)?.st_ino)
    }

    #[test]
    fn our_links_are_followed_and_those_of_others_are_not() {
        let place = tempfile::tempdir().unwrap();
        let path = |name: &str| place.path().join(name);
        fs::create_dir_all(path("a/b")).unwrap();
        symlink("a", path("relative")).unwrap();
        symlink(path("a"), path("absolute")).unwrap();
        symlink("../relative/./b/../b", path("a/through")).unwrap();
        symlink("loop", path("loop")).unwrap();
        let expected = fs::metadata(path("a/b")).unwrap().ino();
        for name in ["a/b", "relative/b", "absolute/b", "a/through", "a/../a/b/."] {
            assert_eq!(folder_at(&path(name)).unwrap(), expected, "{name}");
        }
        assert_eq!(folder_at(Path::new("/")).unwrap(), fs::metadata("/").unwrap().ino());
        assert_eq!(folder_at(Path::new("src")).unwrap(), fs::metadata("src").unwrap().ino());
        assert_eq!(folder_at(&path("loop")).unwrap_err().raw_os_error(), Some(40));
        assert!(folder_at(&path("none/a")).is_err());
        if !rustix::process::geteuid().is_root() {
            return;
        }
        lchown(path("relative"), Some(SOMEBODY), None).unwrap();
        for name in ["relative", "relative/b", "a/through"] {
            let said = folder_at(&path(name)).unwrap_err().to_string();
            assert!(said.contains("\"relative\" is a symbolic link that another user"), "{name}: {said}");
        }
        assert!(folder_at(&path("absolute/b")).is_ok());
    }

    #[test]
    fn a_file_is_made_and_given() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("a");
        let file = open(&path, OFlags::CREATE | OFlags::WRONLY, Mode::from_raw_mode(0o600)).unwrap();
        let own = rustix::process::geteuid();
        let user = if own.is_root() { SOMEBODY } else { own.as_raw() };
        give(&file, user, None).unwrap();
        let made = fs::metadata(&path).unwrap();
        assert_eq!((made.uid(), made.mode() & 0o777), (user, 0o600));
    }

    /// Any user but root.
    const SOMEBODY: u32 = 65534;
}
