//! The package for Debian, tried where it will be used: `packaging/trial` in a chroot of a suite, in a network and among
//! processes of its own.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::deb;
use super::error::{DistError, io_at, run};
use super::program::Program;
use super::tree;

/// What the trial needs in the chroot beside a minimal system.
const PACKAGES: &str = "php-fpm,php-cli,curl,logrotate,iproute2,procps,libgcc-s1,init-system-helpers";
/// What a hardened unit may be exposed to at most, in tenths, by `systemd-analyze security`.
const EXPOSURE_MAX: &str = "30";

/// Tries it in each suite.
pub fn run_in(root: &Path, out: &Path, program: &Program, suites: &[String]) -> Result<(), DistError> {
    let unit = root.join("packaging/larder.service");
    let threshold = format!("--threshold={EXPOSURE_MAX}");
    let mut security = Command::new("systemd-analyze");
    security.args(["security", "--offline=true", "--no-pager", &threshold]).arg(&unit);
    run(&mut security, "apt-get install systemd")?;
    let old = deb::make(root, out, program, "0")?;
    let new = deb::make(root, out, program, "1")?;
    for suite in suites {
        println!("dist: a chroot of {suite}");
        let folder = tempfile::tempdir_in(out).map_err(io_at(out))?;
        let at = folder.path().join(suite);
        let mut make = Command::new("mmdebstrap");
        make.args(["--quiet", "--mode=root", "--variant=minbase", &format!("--include={PACKAGES}"), suite]).arg(&at);
        run(&mut make, "apt-get install mmdebstrap")?;
        for (from, to) in [(&old, "old.deb"), (&new, "new.deb")] {
            tree::copy(from, &at.join(to), 0o644)?;
        }
        tree::copy(&root.join("packaging/trial"), &at.join("trial"), 0o755)?;
        // All that it starts ends with it; the kernel's files are those of its own processes.
        let mut unshare = Command::new("unshare");
        unshare.args(["--net", "--pid", "--mount", "--fork", "--kill-child"]);
        let mounts = "mount -t proc proc \"$0/proc\" && mount -t tmpfs tmpfs \"$0/run\" && exec chroot \"$0\" /trial";
        unshare.args(["sh", "-c", mounts]).arg(&at);
        run(&mut unshare, "apt-get install util-linux")?;
    }
    fs::remove_file(&old).map_err(io_at(&old))
}
