//! The package for Debian and Ubuntu.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::error::{DistError, io_at, output, run};
use super::program::Program;
use super::{VERSION, tree};

/// Makes it in `out`; `revision` is Debian's, behind the version.
pub fn make(root: &Path, out: &Path, program: &Program, revision: &str) -> Result<PathBuf, DistError> {
    let folder = tempfile::tempdir().map_err(io_at(&std::env::temp_dir()))?;
    let at = folder.path().join("larder");
    tree::lay(root, &at, program, &tree::DEBIAN)?;
    let arch = output(Command::new("dpkg").arg("--print-architecture"), DPKG)?;
    let version = format!("{VERSION}-{revision}");
    let libc = program.oldest_libc()?;
    let kib = kib_below(&at)?;
    let control = format!(
        "Package: larder\n\
         Version: {version}\n\
         Architecture: {arch}\n\
         Maintainer: The larder developers <larder@localhost>\n\
         Installed-Size: {kib}\n\
         Depends: libc6 (>= {libc}), libgcc-s1, init-system-helpers\n\
         Recommends: logrotate, ca-certificates\n\
         Suggests: php-fpm\n\
         Section: httpd\n\
         Priority: optional\n\
         Provides: httpd\n\
         Description: web server and page cache for PHP sites\n \
          One program in the place of nginx with its caches, Varnish and a TLS proxy. It\n \
          reads nginx.conf and VCL, caches pages in memory and on disk, speaks FastCGI to\n \
          php-fpm, and gets certificates by itself.\n"
    );
    tree::write(&at.join("DEBIAN/control"), control.as_bytes(), 0o644)?;
    for script in ["postinst", "prerm", "postrm"] {
        tree::copy(&root.join("packaging/deb").join(script), &at.join("DEBIAN").join(script), 0o755)?;
    }
    let conffiles: Vec<String> = files_below(&at.join("etc"))?
        .iter()
        .filter_map(|path| Some(format!("/{}\n", path.strip_prefix(&at).ok()?.display())))
        .collect();
    tree::write(&at.join("DEBIAN/conffiles"), conffiles.concat().as_bytes(), 0o644)?;
    let made = out.join(format!("larder_{version}_{arch}.deb"));
    run(Command::new("dpkg-deb").args(["--root-owner-group", "--build"]).args([&at, &made]), DPKG)?;
    Ok(made)
}

const DPKG: &str = "packages for Debian are made on Debian, apt-get install dpkg";

/// All files below a folder, by name.
fn files_below(folder: &Path) -> Result<Vec<PathBuf>, DistError> {
    let mut found = Vec::new();
    for path in tree::files_of(folder)? {
        match path.is_dir() {
            true => found.extend(files_below(&path)?),
            false => found.push(path),
        }
    }
    Ok(found)
}

fn kib_below(folder: &Path) -> Result<u64, DistError> {
    let mut bytes = 0;
    for path in files_below(folder)? {
        bytes += fs::metadata(&path).map_err(io_at(&path))?.len();
    }
    Ok(bytes.div_ceil(1024))
}
