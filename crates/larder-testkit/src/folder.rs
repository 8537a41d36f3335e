//! Temporary folders that a server which drops privileges can read, with names short enough for unix sockets.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// A temporary folder, mode 0755; gone when dropped.
#[derive(Debug)]
pub struct Folder {
    folder: tempfile::TempDir,
}

impl Folder {
    /// Makes an empty one under `/tmp`, whatever `TMPDIR` says: a unix socket path holds 107 bytes.
    pub fn new() -> io::Result<Folder> {
        let folder = tempfile::Builder::new().prefix("ldr").tempdir_in("/tmp")?;
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755))?;
        Ok(Folder { folder })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// A path in it.
    pub fn join(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a file in it, making the folders that lead to it.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> io::Result<PathBuf> {
        let path = self.join(name);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(&path, content)?;
        Ok(path)
    }

    /// Removes everything in it, and keeps the folder itself.
    pub fn clear(&self) -> io::Result<()> {
        for entry in fs::read_dir(self.path())? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                fs::remove_dir_all(entry.path())?;
            } else {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_short_readable_and_gone_after_use() {
        let folder = Folder::new().unwrap();
        let path = folder.path().to_owned();
        assert!(path.as_os_str().len() < 30, "{path:?}");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o755);
        folder.write("a/b.txt", "x").unwrap();
        folder.clear().unwrap();
        assert_eq!(fs::read_dir(&path).unwrap().count(), 0);
        drop(folder);
        assert!(!path.exists());
    }
}
