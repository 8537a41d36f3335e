//! Packages, tried where they will be used: `packaging/trial` in a chroot of a suite, and `packaging/trial-image` beside
//! the root of an image, in a network and among processes of their own.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::error::{DistError, io_at, run, run_quietly};
use super::kind::{Kind, Tried};
use super::tree;

/// What the trial needs in the chroot beside a minimal system.
const PACKAGES: &str = "php-fpm,php-cli,curl,logrotate,iproute2,procps,libgcc-s1,init-system-helpers";
/// Suites of Ubuntu, which has php-fpm among what it does not support itself.
const UBUNTU: [&str; 4] = ["jammy", "noble", "questing", "resolute"];
/// What a hardened unit may be exposed to at most, in tenths, by `systemd-analyze security`.
const EXPOSURE_MAX: &str = "30";

/// Tries them in each suite.
pub fn run_in(root: &Path, out: &Path, tried: &[Tried], suites: &[String]) -> Result<(), DistError> {
    check_unit(root)?;
    let (images, installed): (Vec<&Tried>, Vec<&Tried>) = tried.iter().partition(|it| it.kind == Kind::Oci);
    for image in images {
        println!("dist: the image");
        try_image(root, out, &image.new)?;
    }
    for suite in suites.iter().filter(|_| !installed.is_empty()) {
        println!("dist: a chroot of {suite}");
        let folder = tempfile::tempdir_in(out).map_err(io_at(out))?;
        let at = folder.path().join(suite);
        make_chroot(suite, &at, installed.iter().any(|it| it.kind == Kind::Rpm))?;
        tree::copy(&root.join("packaging/trial"), &at.join("trial"), 0o755)?;
        for it in &installed {
            let kind = it.kind.name();
            tree::copy(&it.old, &at.join(format!("old.{kind}")), 0o644)?;
            tree::copy(&it.new, &at.join(format!("new.{kind}")), 0o644)?;
            let mounts =
                "mount -t proc proc \"$0/proc\" && mount -t tmpfs tmpfs \"$0/run\" && exec chroot \"$0\" /trial \"$1\"";
            run(apart().args(["sh", "-c", mounts]).arg(&at).arg(kind), UTIL_LINUX)?;
        }
    }
    for it in tried.iter().filter(|it| it.old != it.new) {
        fs::remove_file(&it.old).map_err(io_at(&it.old))?;
    }
    Ok(())
}

fn check_unit(root: &Path) -> Result<(), DistError> {
    let threshold = format!("--threshold={EXPOSURE_MAX}");
    let mut security = Command::new("systemd-analyze");
    security.args(["security", "--offline=true", "--no-pager", &threshold]).arg(root.join("packaging/larder.service"));
    run(&mut security, "apt-get install systemd")
}

/// A minimal system of this suite, with what the trial needs.
fn make_chroot(suite: &str, at: &Path, with_rpm: bool) -> Result<(), DistError> {
    let more = if with_rpm { ",rpm,passwd" } else { "" };
    let mut make = Command::new("mmdebstrap");
    if UBUNTU.contains(&suite) {
        make.arg("--components=main,universe");
    }
    make.args(["--mode=root", "--variant=minbase", &format!("--include={PACKAGES}{more}"), suite]).arg(at);
    run_quietly(&mut make, "apt-get install mmdebstrap").map_err(|failure| match failure {
        DistError::Failed(why) => DistError::NoSuite { suite: suite.to_owned(), why },
        other => other,
    })
}

/// Tries an image: the folder of its files is the root of its process.
fn try_image(root: &Path, out: &Path, image: &Path) -> Result<(), DistError> {
    let folder = tempfile::tempdir_in(out).map_err(io_at(out))?;
    run(apart().arg(root.join("packaging/trial-image")).arg(image).arg(folder.path()), UTIL_LINUX)
}

/// A command that runs another in a network, and among processes and mounts, of its own: all that it starts ends with it.
fn apart() -> Command {
    let mut unshare = Command::new("unshare");
    unshare.args(["--net", "--pid", "--mount", "--fork", "--kill-child"]);
    unshare
}

const UTIL_LINUX: &str = "apt-get install util-linux";
