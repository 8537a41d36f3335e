//! The socket at which a `larder serve` is asked. It has no pid file, so it is found by the address that it listens at, in a
//! folder of the account that has started it.

use std::fs::{self, DirBuilder};
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// An address as `--listen` has it: a port alone is one of this machine's, and `*` means all addresses.
pub fn address(text: &str) -> Option<SocketAddr> {
    let spelled_out = match text.split_once(':') {
        None => format!("127.0.0.1:{text}"),
        Some(("*" | "", port)) => format!("0.0.0.0:{port}"),
        Some(("localhost", port)) => format!("127.0.0.1:{port}"),
        Some(_) => text.to_owned(),
    };
    spelled_out.parse::<SocketAddr>().ok().filter(|address| address.port() != 0)
}

/// Where the socket of the `larder serve` is that listens at an address. An error if the folder is another account's.
pub fn path(listen: SocketAddr) -> io::Result<PathBuf> {
    path_in(&folder(), listen)
}

/// The same, with its folder made.
pub fn make_path(listen: SocketAddr) -> io::Result<PathBuf> {
    let folder = folder();
    match DirBuilder::new().mode(0o700).create(&folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        Ok(()) | Err(_) => {}
    }
    path_in(&folder, listen)
}

fn path_in(folder: &Path, listen: SocketAddr) -> io::Result<PathBuf> {
    let there = fs::symlink_metadata(folder)?;
    // In a folder that everybody may write to, another account may have been first.
    let is_ours = there.is_dir() && there.uid() == rustix::process::geteuid().as_raw() && there.mode() & 0o022 == 0;
    match is_ours {
        true => Ok(folder.join(format!("{listen}.ask"))),
        false => Err(io::Error::other("the folder is not this account's alone: remove it")),
    }
}

/// The folder of this account: in `/run` for root, else in `$XDG_RUNTIME_DIR`, or else among the temporary files.
fn folder() -> PathBuf {
    let account = rustix::process::geteuid();
    if account.is_root() {
        return "/run/larder-serve".into();
    }
    match std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|place| place.is_absolute() && place.is_dir()) {
        Some(place) => place.join("larder-serve"),
        None => std::env::temp_dir().join(format!("larder-serve-{}", account.as_raw())),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn a_folder_that_others_may_write_to_is_not_used() {
        let place = tempfile::tempdir().unwrap();
        let (folder, link) = (place.path().join("ours"), place.path().join("link"));
        let listen = "[::1]:81".parse().unwrap();
        assert!(path_in(&folder, listen).is_err(), "it is not there");
        DirBuilder::new().mode(0o700).create(&folder).unwrap();
        assert_eq!(path_in(&folder, listen).unwrap(), folder.join("[::1]:81.ask"));
        symlink(&folder, &link).unwrap();
        assert!(path_in(&link, listen).is_err());
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o770)).unwrap();
        assert!(path_in(&folder, listen).is_err());
    }
}
