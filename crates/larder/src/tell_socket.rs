//! A socket at which a server tells something about itself: counters, the transaction log.

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

/// A socket that is listened at. Its file goes with it, unless another server has put its own there.
#[derive(Debug)]
pub struct TellSocket {
    path: PathBuf,
    /// Device and number of the file.
    file: (u64, u64),
}

impl TellSocket {
    /// Listens at a path, for the account that owns it and its group. A socket that is there is replaced: whoever listened
    /// at it has ended, or gives way.
    pub fn listen(path: &Path) -> io::Result<(TellSocket, UnixListener)> {
        match fs::symlink_metadata(path) {
            Ok(there) if !is_socket(&there) => return Err(io::ErrorKind::AlreadyExists.into()),
            Ok(_) => fs::remove_file(path)?,
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Err(_) => {}
        }
        let listener = UnixListener::bind(path)?;
        fs::set_permissions(path, fs::Permissions::from_mode(MODE))?;
        let made = fs::symlink_metadata(path)?;
        Ok((TellSocket { path: path.to_owned(), file: (made.dev(), made.ino()) }, listener))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

fn is_socket(there: &fs::Metadata) -> bool {
    std::os::unix::fs::FileTypeExt::is_socket(&there.file_type())
}

impl Drop for TellSocket {
    fn drop(&mut self) {
        let is_ours = fs::symlink_metadata(&self.path).is_ok_and(|there| (there.dev(), there.ino()) == self.file);
        if is_ours {
            // In a folder of root it stays, and tells nobody anything.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// What is told may be what clients have sent.
const MODE: u32 = 0o660;

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn a_socket_takes_the_place_of_one_that_was_left_and_of_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let (old, _listening) = TellSocket::listen(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o660);
        let (new, _new_listening) = TellSocket::listen(&path).unwrap();
        drop(old);
        assert!(UnixStream::connect(new.path()).is_ok(), "the new one is there");
        drop(new);
        assert!(!path.exists());
        fs::write(&path, "a file").unwrap();
        assert!(TellSocket::listen(&path).is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), "a file");
    }
}
