//! The files of a package, where they go, and who may do what with them.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;

use super::error::{DistError, io_at};
use super::man;
use super::program::Program;

/// What differs between families of systems.
pub struct Family {
    /// The account that serves.
    pub account: &'static str,
    /// The group that reads logs.
    pub log_group: &'static str,
    /// The name of php-fpm's socket.
    pub php: &'static str,
    /// The folder of zsh's completions.
    pub zsh: &'static str,
}

/// Debian's.
pub const DEBIAN: Family = Family {
    account: "www-data",
    log_group: "adm",
    php: "/run/php/php-fpm.sock",
    zsh: "usr/share/zsh/vendor-completions",
};
/// Fedora's and RHEL's.
pub const FEDORA: Family =
    Family { account: "larder", log_group: "root", php: "/run/php-fpm/www.sock", zsh: "usr/share/zsh/site-functions" };

/// Lays out a package below `to`.
pub fn lay(root: &Path, to: &Path, program: &Program, family: &Family) -> Result<(), DistError> {
    let packaging = root.join("packaging");
    copy(&program.path(), &to.join("usr/sbin/larder"), 0o755)?;
    copy(&packaging.join("upgrade"), &to.join("usr/lib/larder/upgrade"), 0o755)?;
    let adapted = |name: &str, at: &str| {
        let from = packaging.join(name);
        let text = fs::read_to_string(&from).map_err(io_at(&from))?;
        let text = text
            .replace("/run/php/php-fpm.sock", family.php)
            .replace("0640 www-data adm", &format!("0640 {} {}", family.account, family.log_group))
            .replace("user www-data;", &format!("user {};", family.account));
        write(&to.join(at), text.as_bytes(), 0o644)
    };
    adapted("larder.service", "usr/lib/systemd/system/larder.service")?;
    adapted("larder.socket", "usr/lib/systemd/system/larder.socket")?;
    adapted("logrotate", "etc/logrotate.d/larder")?;
    for name in ["larder.conf", "mime.types", "fastcgi.conf", "sites/default.conf"] {
        adapted(&format!("etc/larder/{name}"), &format!("etc/larder/{name}"))?;
    }
    for (name, folder, file) in [
        ("larder.bash", "usr/share/bash-completion/completions", "larder"),
        ("_larder", family.zsh, "_larder"),
        ("larder.fish", "usr/share/fish/vendor_completions.d", "larder.fish"),
    ] {
        copy(&packaging.join("completions").join(name), &to.join(folder).join(file), 0o644)?;
    }
    for page in man::PAGES {
        let at = format!("usr/share/man/man{}/{}.{}.gz", page.section, page.name, page.section);
        write(&to.join(at), &packed(man::written(root, page)?.as_bytes())?, 0o644)?;
    }
    lay_docs(root, &to.join("usr/share/doc/larder"))
}

fn lay_docs(root: &Path, to: &Path) -> Result<(), DistError> {
    let docs = root.join("docs");
    for file in files_of(&docs)? {
        if file.extension().is_some_and(|ending| ending == "md") {
            copy(&file, &to.join(file.file_name().unwrap_or_default()), 0o644)?;
        }
    }
    // The index of the docs and the front page have one name.
    copy(&root.join("README.md"), &to.join("README.project.md"), 0o644)?;
    let changes = root.join("CHANGELOG.md");
    write(&to.join("changelog.gz"), &packed(&fs::read(&changes).map_err(io_at(&changes))?)?, 0o644)?;
    let license = root.join("LICENSE-MIT");
    let mit = fs::read_to_string(&license).map_err(io_at(&license))?;
    let terms = format!(
        "larder is licensed under the Apache License 2.0 (/usr/share/common-licenses/Apache-2.0 on Debian) or the MIT\n\
         license, as you like.\n\n{mit}"
    );
    write(&to.join("copyright"), terms.as_bytes(), 0o644)?;
    let drop_in = "nginx.service.d/larder.conf";
    copy(&root.join("packaging").join(drop_in), &to.join("examples").join(drop_in), 0o644)
}

/// The files of a folder, by name.
pub fn files_of(folder: &Path) -> Result<Vec<PathBuf>, DistError> {
    let entries = fs::read_dir(folder).map_err(io_at(folder))?;
    let mut files: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    files.sort();
    Ok(files)
}

/// Copies a file, with this mode.
pub fn copy(from: &Path, to: &Path, mode: u32) -> Result<(), DistError> {
    write(to, &fs::read(from).map_err(io_at(from))?, mode)
}

/// Writes a file, with this mode; its folders are open to all.
pub fn write(to: &Path, bytes: &[u8], mode: u32) -> Result<(), DistError> {
    let folder = to.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(folder).map_err(io_at(folder))?;
    fs::write(to, bytes).map_err(io_at(to))?;
    fs::set_permissions(to, fs::Permissions::from_mode(mode)).map_err(io_at(to))
}

/// gzip, without a time.
fn packed(bytes: &[u8]) -> Result<Vec<u8>, DistError> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    let done = encoder.write_all(bytes).and_then(|()| encoder.finish());
    done.map_err(io_at(Path::new("gzip")))
}
