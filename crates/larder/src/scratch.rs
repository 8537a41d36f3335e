//! A private folder for sockets and temporary files.

use std::fs::{self, DirBuilder};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use crate::oserror::CallFailed;

/// A folder that only our user may enter. Dropping this removes it with its content.
#[derive(Debug)]
pub struct Scratch(PathBuf);

impl Scratch {
    /// Makes one in the folder for temporary files.
    pub fn create() -> Result<Scratch, CallFailed> {
        Scratch::create_in(&place())
    }

    fn create_in(place: &Path) -> Result<Scratch, CallFailed> {
        // Everybody may write to that folder, so nobody must be able to guess the name.
        let seed = RandomState::new().hash_one(std::process::id()) as u32;
        for attempt in 0..TRIES {
            let name = format!("larder-{}-{:08x}", std::process::id(), seed.wrapping_add(attempt));
            let path = place.join(name);
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(Scratch(path)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && attempt + 1 < TRIES => {}
                Err(error) => return Err(CallFailed::on("mkdir", path.display(), error)),
            }
        }
        Err(CallFailed::on("mkdir", place.display(), io::Error::from(io::ErrorKind::AlreadyExists)))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // It is among temporary files, so the system removes one day what cannot be removed now.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The folder for temporary files; `/tmp` if the name of a socket would become too long otherwise.
fn place() -> PathBuf {
    let place = std::env::temp_dir();
    match place.as_os_str().as_bytes().len() <= PLACE_BYTES_MAX && place.is_absolute() {
        true => place,
        false => PathBuf::from("/tmp"),
    }
}

const TRIES: u32 = 100;
/// The longest path for it, because the name of a unix socket has at most 107 bytes.
const PLACE_BYTES_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_scratch_folder_is_ours_alone_and_goes() {
        let place = tempfile::tempdir().unwrap();
        let scratch = Scratch::create_in(place.path()).unwrap();
        let path = scratch.path().to_owned();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
        fs::create_dir(path.join("cache")).unwrap();
        fs::write(path.join("cache/a"), "").unwrap();
        drop(scratch);
        assert!(!path.exists());
        assert!(Scratch::create_in(&path).is_err());
    }
}
