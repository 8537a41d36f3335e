//! One static program with its files, for any Linux.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::error::{DistError, io_at, run};
use super::program::Program;
use super::{VERSION, tree};

/// Makes it in `out`.
pub fn make(root: &Path, out: &Path, program: &Program) -> Result<PathBuf, DistError> {
    let folder = tempfile::tempdir().map_err(io_at(&std::env::temp_dir()))?;
    let name = format!("larder-{VERSION}-linux-{}", std::env::consts::ARCH);
    tree::lay(root, &folder.path().join(&name), program, &tree::DEBIAN)?;
    let made = out.join(format!("{name}.tar.gz"));
    let mut command = tar(folder.path(), &made);
    run(command.arg("--gzip").arg(&name), TAR)?;
    Ok(made)
}

/// A `tar` that packs what is named in `folder` into `made`: the same bytes for the same files.
pub fn tar(folder: &Path, made: &Path) -> Command {
    let mut command = Command::new("tar");
    command.args(["--create", "--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--mtime=@0"]);
    command.arg("--directory").arg(folder).arg("--file").arg(made);
    command
}

/// How to get it.
pub const TAR: &str = "apt-get install tar";
