//! The folder of a server: `-n`.
//!
//! varnishadm finds the CLI in it as it finds varnishd's, by an index of files:
//!
//! ```text
//! _.pid               the number of the process, locked while it runs
//! _.secret            the secret of the CLI, unless -S names another file
//! _.log               the socket at which the transaction log is told
//! _.stats             the socket at which the counters are told
//! _.ask               the socket at which `larder why` asks
//! _.vsm_mgt/_.index   "# PID 1", then "+ FILE 0 BYTES Arg -T" and the same with -S
//! _.vsm_mgt/_.cli     where the CLI is, a line "ADDRESS PORT" for each address, and a zero byte
//! _.vsm_mgt/_.secret  where the secret is, and a zero byte
//! ```

//!
//! The account that serves may own the folder, and root writes into it: what is there already is never followed to
//! another place.

use std::fs::{DirBuilder, File};
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;

use crate::links;
use crate::oserror::CallFailed;
use crate::pidfile;
use crate::scratch::Scratch;

/// The folder, with what a server keeps in it.
#[derive(Debug)]
pub struct Workdir {
    path: PathBuf,
    /// The same, open.
    folder: OwnedFd,
    /// Its [`INDEX_FOLDER`], open.
    index: OwnedFd,
    /// Removed with its content when the server ends, if nobody can know the folder.
    _scratch: Option<Scratch>,
    /// Locked while this server runs.
    _pid: File,
}

impl Workdir {
    /// The folder at the [`place`] that `-n` names; without a name, a temporary one if larder was not started by root.
    pub fn open(asked: Option<&Path>) -> Result<Workdir, CallFailed> {
        let is_root = nix::unistd::geteuid().is_root();
        let (path, scratch) = match asked {
            None if !is_root => {
                let scratch = Scratch::create()?;
                (scratch.path().to_owned(), Some(scratch))
            }
            _ => (place(asked), None),
        };
        DirBuilder::new()
            .recursive(true)
            .mode(0o755)
            .create(path.join(INDEX_FOLDER))
            .map_err(|error| CallFailed::on("mkdir", path.display(), error))?;
        let open = |path: &Path| {
            let opened = links::open(path, OFlags::PATH | OFlags::DIRECTORY, Mode::empty());
            opened.map_err(|error| CallFailed::on("open", path.display(), error))
        };
        let (folder, index) = (open(&path)?, open(&path.join(INDEX_FOLDER))?);
        Ok(Workdir { _pid: lock(&folder, &path)?, path, folder, index, _scratch: scratch })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a secret that nobody can guess, for those who may read files of this user.
    pub fn new_secret(&self) -> Result<PathBuf, CallFailed> {
        let letters = random_letters().map_err(|error| CallFailed::on("read", "_.secret", error))?;
        make(&self.folder, "_.secret", 0o600, format!("{letters}\n").as_bytes())?;
        Ok(self.path.join("_.secret"))
    }

    /// Notes where the CLI and its secret are.
    pub fn note_cli(&self, addresses: &[SocketAddr], secret: Option<&Path>) -> Result<(), CallFailed> {
        let lines: String = addresses.iter().map(|address| format!("{} {}\n", address.ip(), address.port())).collect();
        let mut index = format!("# {} 1\n", std::process::id());
        index.push_str(&self.segment("_.cli", "-T", lines.as_bytes())?);
        if let Some(secret) = secret {
            let secret = std::path::absolute(secret).unwrap_or_else(|_| secret.to_owned());
            index.push_str(&self.segment("_.secret", "-S", secret.as_os_str().as_bytes())?);
        }
        self.write("_.index", index.as_bytes())
    }

    /// Writes a text for those who look into the index, and returns its line there.
    fn segment(&self, name: &str, option: &str, text: &[u8]) -> Result<String, CallFailed> {
        self.write(name, &[text, b"\0"].concat())?;
        Ok(format!("+ {name} 0 {} Arg {option}\n", text.len() + 1))
    }

    /// Writes a file as a whole: whoever looks sees all of it or none.
    fn write(&self, name: &str, bytes: &[u8]) -> Result<(), CallFailed> {
        let new = format!("{name}.new");
        make(&self.index, &new, 0o644, bytes)?;
        let renamed = rustix::fs::renameat(&self.index, &new, &self.index, name);
        renamed.map_err(|error| CallFailed::on("rename", new, error))
    }
}

/// Makes a file in place of one of that name.
fn make(folder: &OwnedFd, name: &str, mode: u32, bytes: &[u8]) -> Result<(), CallFailed> {
    match rustix::fs::unlinkat(folder, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(error) => return Err(CallFailed::on("unlink", name, error)),
    }
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let made = rustix::fs::openat(folder, name, flags, Mode::from_raw_mode(mode));
    let mut file = File::from(made.map_err(|error| CallFailed::on("open", name, error))?);
    file.write_all(bytes).map_err(|error| CallFailed::on("write", name, error))
}

/// The folder that `-n` names, in varnishd's if it has no slash in front. Without a name it is that of a server which root
/// has started.
pub fn place(asked: Option<&Path>) -> PathBuf {
    Path::new(VARNISHD_FOLDER).join(asked.unwrap_or(Path::new(USUAL_NAME)))
}

/// Says that a folder is ours, unless another server runs in it.
fn lock(folder: &OwnedFd, path: &Path) -> Result<File, CallFailed> {
    let failed = |call| move |error: io::Error| CallFailed::on(call, path.join("_.pid").display(), error);
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = rustix::fs::openat(folder, "_.pid", flags, Mode::from_raw_mode(0o644));
    let refused = || failed("open")(io::Error::other("it is a link, or no file: remove it"));
    let mut file = match opened {
        Ok(file) => File::from(file),
        Err(Errno::LOOP) => return Err(refused()),
        Err(error) => return Err(failed("open")(error.into())),
    };
    let there = file.metadata().map_err(failed("fstat"))?;
    if !there.is_file() || there.nlink() > 1 {
        return Err(refused());
    }
    pidfile::lock_and_write(&mut file, &path.join("_.pid"), "another server runs in this folder: name one with -n")?;
    Ok(file)
}

/// 32 letters that nobody can guess.
pub fn random_letters() -> io::Result<String> {
    let mut bytes = [0; 32];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|byte| char::from(b'a' + byte % 26)).collect())
}

/// Where varnishd has the folders of its servers.
const VARNISHD_FOLDER: &str = "/var/lib/varnish";
/// The folder of a server without a name.
const USUAL_NAME: &str = "varnishd";
/// The name of the socket at which the counters are told.
pub const STATS_SOCKET: &str = "_.stats";
/// The name of the socket at which the transaction log is told.
pub const LOG_SOCKET: &str = "_.log";
/// The name of the socket at which questions are answered.
pub const ASK_SOCKET: &str = "_.ask";
const INDEX_FOLDER: &str = "_.vsm_mgt";

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn files_that_links_in_the_folder_lead_to_stay_as_they_are() {
        let folder = tempfile::tempdir().unwrap();
        let (path, ours) = (folder.path().join("a"), folder.path().join("ours"));
        fs::create_dir_all(path.join(INDEX_FOLDER)).unwrap();
        fs::write(&ours, "ours").unwrap();
        let pid = path.join("_.pid");
        for hard in [false, true] {
            if hard { fs::hard_link(&ours, &pid) } else { symlink(&ours, &pid) }.unwrap();
            let said = Workdir::open(Some(&path)).unwrap_err().to_string();
            assert!(said.contains("it is a link, or no file: remove it"), "{said}");
            fs::remove_file(&pid).unwrap();
        }
        for name in ["_.secret", "_.vsm_mgt/_.cli", "_.vsm_mgt/_.cli.new", "_.vsm_mgt/_.index.new"] {
            symlink(&ours, path.join(name)).unwrap();
        }
        let workdir = Workdir::open(Some(&path)).unwrap();
        workdir.new_secret().unwrap();
        workdir.note_cli(&[], None).unwrap();
        assert_eq!(fs::read_to_string(&ours).unwrap(), "ours");
        assert!(path.join("_.secret").symlink_metadata().unwrap().is_file());
    }

    #[test]
    fn a_folder_that_another_user_has_linked_is_refused() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let (path, elsewhere) = (folder.path().join("a"), folder.path().join("elsewhere"));
        fs::create_dir_all(&path).unwrap();
        fs::create_dir_all(&elsewhere).unwrap();
        symlink(&elsewhere, path.join(INDEX_FOLDER)).unwrap();
        assert!(Workdir::open(Some(&path)).is_ok());
        std::os::unix::fs::lchown(path.join(INDEX_FOLDER), Some(65534), None).unwrap();
        let said = Workdir::open(Some(&path)).unwrap_err().to_string();
        assert!(said.contains("is a symbolic link that another user than root has made"), "{said}");
    }

    #[test]
    fn a_folder_has_one_server_and_says_where_its_cli_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/b");
        let workdir = Workdir::open(Some(&path)).unwrap();
        let error = Workdir::open(Some(&path)).unwrap_err().to_string();
        assert!(error.contains("another server runs in this folder"), "{error}");
        let addresses = ["127.0.0.1:6082", "[::1]:6082"].map(|address| address.parse().unwrap());
        workdir.note_cli(&addresses, Some(Path::new("/s"))).unwrap();
        let read = |name: &str| fs::read_to_string(path.join(INDEX_FOLDER).join(name)).unwrap();
        let pid = std::process::id();
        assert_eq!(read("_.index"), format!("# {pid} 1\n+ _.cli 0 25 Arg -T\n+ _.secret 0 3 Arg -S\n"));
        assert_eq!((read("_.cli").as_str(), read("_.secret").as_str()), ("127.0.0.1 6082\n::1 6082\n\0", "/s\0"));
        let secrets = [(); 2].map(|()| fs::read_to_string(workdir.new_secret().unwrap()).unwrap());
        assert!(secrets[0] != secrets[1] && secrets[0].len() == 33, "{secrets:?}");
        drop(workdir);
        assert!(Workdir::open(Some(&path)).is_ok());
    }
}
