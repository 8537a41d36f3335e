//! The folder of a server: `-n`.
//!
//! varnishadm finds the CLI in it as it finds varnishd's, by an index of files:
//!
//! ```text
//! _.pid               the number of the process, locked while it runs
//! _.secret            the secret of the CLI, unless -S names another file
//! _.log               the socket at which the transaction log is told
//! _.stats             the socket at which the counters are told
//! _.vsm_mgt/_.index   "# PID 1", then "+ FILE 0 BYTES Arg -T" and the same with -S
//! _.vsm_mgt/_.cli     where the CLI is, a line "ADDRESS PORT" for each address, and a zero byte
//! _.vsm_mgt/_.secret  where the secret is, and a zero byte
//! ```

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::oserror::CallFailed;
use crate::scratch::Scratch;

/// The folder, with what a server keeps in it.
#[derive(Debug)]
pub struct Workdir {
    path: PathBuf,
    /// Removed with its content when the server ends, if nobody can know the folder.
    scratch: Option<Scratch>,
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
        Ok(Workdir { _pid: lock(&path)?, path, scratch })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it goes when the server ends.
    pub fn is_temporary(&self) -> bool {
        self.scratch.is_some()
    }

    /// Writes a secret that nobody can guess, for those who may read files of this user.
    pub fn new_secret(&self) -> Result<PathBuf, CallFailed> {
        let path = self.path.join("_.secret");
        let failed = |call| move |error: io::Error| CallFailed::on(call, "_.secret", error);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed("unlink")(error)),
            Ok(()) | Err(_) => {}
        }
        let letters = random_letters().map_err(failed("read"))?;
        let mut file =
            OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path).map_err(failed("open"))?;
        file.write_all(format!("{letters}\n").as_bytes()).map_err(failed("write"))?;
        Ok(path)
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
        let folder = self.path.join(INDEX_FOLDER);
        let (path, new) = (folder.join(name), folder.join(format!("{name}.new")));
        fs::write(&new, bytes).map_err(|error| CallFailed::on("write", new.display(), error))?;
        fs::rename(&new, &path).map_err(|error| CallFailed::on("rename", path.display(), error))
    }
}

/// The folder that `-n` names, in varnishd's if it has no slash in front. Without a name it is that of a server which root
/// has started.
pub fn place(asked: Option<&Path>) -> PathBuf {
    Path::new(VARNISHD_FOLDER).join(asked.unwrap_or(Path::new(USUAL_NAME)))
}

/// Says that a folder is ours, unless another server runs in it.
fn lock(folder: &Path) -> Result<File, CallFailed> {
    let path = folder.join("_.pid");
    let failed = |call| move |error: io::Error| CallFailed::on(call, folder.join("_.pid").display(), error);
    let options = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o644).open(&path);
    let mut file = options.map_err(failed("open"))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            return Err(failed("lock")(io::Error::other("another server runs in this folder: name one with -n")));
        }
        Err(TryLockError::Error(error)) => return Err(failed("lock")(error)),
    }
    file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id())).map_err(failed("write"))?;
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
const INDEX_FOLDER: &str = "_.vsm_mgt";

#[cfg(test)]
mod tests {
    use super::*;

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
