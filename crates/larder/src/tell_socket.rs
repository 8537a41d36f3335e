//! A socket at which a server tells something about itself: counters, the transaction log.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};

use crate::links;

/// A socket that is listened at. Its file goes with it, unless another server has put its own there.
#[derive(Debug)]
pub struct TellSocket {
    path: PathBuf,
    /// The file. Its path may lead to another one by now, where others may write to the folder.
    file: OwnedFd,
    has_replaced: bool,
}

impl TellSocket {
    /// Listens at a path, for the account that owns it and its group. A socket that is there is replaced: whoever listened
    /// at it has ended, or gives way.
    pub fn listen(path: &Path) -> io::Result<(TellSocket, UnixListener)> {
        Self::listen_for(path, OWN_AND_GROUP)
    }

    /// The same for the account alone.
    pub fn listen_privately(path: &Path) -> io::Result<(TellSocket, UnixListener)> {
        Self::listen_for(path, OWN)
    }

    fn listen_for(path: &Path, mode: u32) -> io::Result<(TellSocket, UnixListener)> {
        let has_replaced = is_listened_at(path);
        match fs::symlink_metadata(path) {
            Ok(there) if !is_socket(&there) => return Err(io::ErrorKind::AlreadyExists.into()),
            Ok(_) => fs::remove_file(path)?,
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Err(_) => {}
        }
        let listener = UnixListener::bind(path)?;
        let file = rustix::fs::open(path, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
        let made = rustix::fs::fstat(&file)?;
        let is_socket = FileType::from_raw_mode(made.st_mode) == FileType::Socket;
        if !is_socket || made.st_uid != rustix::process::geteuid().as_raw() {
            return Err(io::Error::other("another user has put something in its place"));
        }
        let by_descriptor = format!("/proc/self/fd/{}", file.as_raw_fd());
        fs::set_permissions(by_descriptor, fs::Permissions::from_mode(mode))?;
        Ok((TellSocket { path: path.to_owned(), file, has_replaced }, listener))
    }

    /// Gives it to a user and a group.
    pub fn give(&self, user: u32, group: u32) -> io::Result<()> {
        links::give(&self.file, user, Some(group))
    }

    /// Whether somebody else was listening there.
    pub fn has_replaced(&self) -> bool {
        self.has_replaced
    }

    /// Whether its file is there.
    pub fn is_there(&self) -> bool {
        let (Ok(there), Ok(ours)) = (fs::symlink_metadata(&self.path), rustix::fs::fstat(&self.file)) else {
            return false;
        };
        (there.dev(), there.ino()) == (ours.st_dev, ours.st_ino)
    }

    /// Gives its file another path, as [`listen`](Self::listen) takes one: those who connect there reach the same listener.
    pub fn move_to(&mut self, path: &Path) -> io::Result<()> {
        if !self.is_there() {
            return Err(io::Error::other("its socket is not there any more"));
        }
        match fs::symlink_metadata(path) {
            Ok(there) if !is_socket(&there) => return Err(io::ErrorKind::AlreadyExists.into()),
            Ok(_) => {}
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Err(_) => {}
        }
        fs::rename(&self.path, path)?;
        path.clone_into(&mut self.path);
        Ok(())
    }

    /// Removes its file, so that nobody new connects.
    pub fn remove(&self) {
        if self.is_there() {
            // In a folder of root it stays, and tells nobody anything.
            let _ = fs::remove_file(&self.path);
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Whether somebody accepts connections there, or will when there is room.
fn is_listened_at(path: &Path) -> bool {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let Ok(address) = SocketAddrUnix::new(path) else { return false };
    let Ok(client) = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None) else { return false };
    matches!(connect(&client, &address), Ok(()) | Err(Errno::AGAIN))
}

fn is_socket(there: &fs::Metadata) -> bool {
    std::os::unix::fs::FileTypeExt::is_socket(&there.file_type())
}

impl Drop for TellSocket {
    fn drop(&mut self) {
        self.remove();
    }
}

/// What is told may be what clients have sent.
const OWN_AND_GROUP: u32 = 0o660;
/// For what can be asked, or ordered.
const OWN: u32 = 0o600;

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn what_takes_its_place_is_not_given_away() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let (path, ours) = (folder.path().join("s"), folder.path().join("ours"));
        fs::write(&ours, "").unwrap();
        let (socket, _listening) = TellSocket::listen(&path).unwrap();
        socket.give(65534, 65534).unwrap();
        assert_eq!(fs::symlink_metadata(&path).unwrap().uid(), 65534);
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink(&ours, &path).unwrap();
        socket.give(65534, 65534).unwrap();
        assert_eq!((fs::metadata(&ours).unwrap().uid(), fs::symlink_metadata(&path).unwrap().uid()), (0, 0));
        drop(socket);
        assert!(path.is_symlink());
    }

    #[test]
    fn a_socket_takes_the_place_of_one_that_was_left_and_of_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let (old, _listening) = TellSocket::listen(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o660);
        let (mut new, _new_listening) = TellSocket::listen(&path).unwrap();
        let private = folder.path().join("p");
        let (_private, _) = TellSocket::listen_privately(&private).unwrap();
        assert_eq!(fs::metadata(&private).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(new.has_replaced() && !old.has_replaced() && new.is_there() && !old.is_there());
        drop(old);
        assert!(UnixStream::connect(new.path()).is_ok(), "the new one is there");
        let other = folder.path().join("t");
        fs::write(&other, "a file").unwrap();
        assert!(new.move_to(&other).is_err() && new.path() == path);
        fs::remove_file(&other).unwrap();
        new.move_to(&other).unwrap();
        assert!(UnixStream::connect(&other).is_ok() && !path.exists(), "it has moved");
        new.move_to(&path).unwrap();
        drop(new);
        assert!(!path.exists());
        fs::write(&path, "a file").unwrap();
        assert!(TellSocket::listen(&path).is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), "a file");
    }
}
