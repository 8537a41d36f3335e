//! The package for Fedora, RHEL and their kin.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::error::{DistError, io_at, run};
use super::program::Program;
use super::{VERSION, tree};

/// Makes it in `out`; `release` is the packager's, behind the version.
pub fn make(root: &Path, out: &Path, program: &Program, release: &str) -> Result<PathBuf, DistError> {
    let folder = tempfile::tempdir().map_err(io_at(&std::env::temp_dir()))?;
    let files = folder.path().join("files");
    tree::lay(root, &files, program, &tree::FEDORA)?;
    let sysusers = format!("u {} - \"larder\" /var/cache/larder\n", tree::FEDORA.account);
    tree::write(&files.join("usr/lib/sysusers.d/larder.conf"), sysusers.as_bytes(), 0o644)?;
    let spec_from = root.join("packaging/rpm/larder.spec");
    let spec = std::fs::read_to_string(&spec_from).map_err(io_at(&spec_from))?;
    let spec = spec
        .replace("@VERSION@", VERSION)
        .replace("@RELEASE@", release)
        .replace("@FILES@", &files.display().to_string())
        .replace("@ACCOUNT@", tree::FEDORA.account);
    let spec_at = folder.path().join("larder.spec");
    tree::write(&spec_at, spec.as_bytes(), 0o644)?;
    let top = format!("_topdir {}", folder.path().join("rpmbuild").display());
    let to = format!("_rpmdir {}", out.display());
    let mut command = Command::new("rpmbuild");
    command.args(["-bb", "--quiet", "--define", &top, "--define", &to]).arg(&spec_at);
    run(&mut command, "apt-get install rpm")?;
    let arch = std::env::consts::ARCH;
    Ok(out.join(arch).join(format!("larder-{VERSION}-{release}.{arch}.rpm")))
}
