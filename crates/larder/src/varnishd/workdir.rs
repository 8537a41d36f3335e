//! The folder of a server: `-n`.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::oserror::CallFailed;
use crate::scratch::Scratch;

/// The folder, with what a server keeps in it.
#[derive(Debug)]
pub struct Workdir {
    path: PathBuf,
    /// Removed with its content when the server ends, if nobody has named it.
    scratch: Option<Scratch>,
}

impl Workdir {
    /// The folder that `-n` names, or a temporary one. A name without a slash is a folder in varnishd's.
    pub fn open(asked: Option<&Path>) -> Result<Workdir, CallFailed> {
        let Some(asked) = asked else {
            let scratch = Scratch::create()?;
            return Ok(Workdir { path: scratch.path().to_owned(), scratch: Some(scratch) });
        };
        let path = Path::new(VARNISHD_FOLDER).join(asked);
        DirBuilder::new()
            .recursive(true)
            .mode(0o755)
            .create(&path)
            .map_err(|error| CallFailed::on("mkdir", path.display(), error))?;
        Ok(Workdir { path, scratch: None })
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
        let bytes = random_letters().map_err(failed("read"))?;
        let mut file =
            OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path).map_err(failed("open"))?;
        file.write_all(format!("{bytes}\n").as_bytes()).map_err(failed("write"))?;
        Ok(path)
    }

    /// Notes where the CLI listens.
    pub fn note_cli(&self, addresses: &[String]) -> Result<(), CallFailed> {
        let path = self.path.join("_.cli");
        let text: String = addresses.iter().map(|address| format!("{address}\n")).collect();
        fs::write(&path, text).map_err(|error| CallFailed::on("write", path.display(), error))
    }
}

/// 32 letters that nobody can guess.
pub fn random_letters() -> io::Result<String> {
    let mut bytes = [0; 32];
    fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|byte| char::from(b'a' + byte % 26)).collect())
}

/// Where varnishd has the folders of its servers.
const VARNISHD_FOLDER: &str = "/var/lib/varnish";
