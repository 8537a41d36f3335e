//! The program that is packed: built, stripped, and what it needs of a system.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::error::{DistError, io_at, output, run};

/// How it comes to its libraries.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Linking {
    /// From the system.
    Dynamic,
    /// They are in it.
    Static,
}

/// A stripped program.
pub struct Program {
    folder: tempfile::TempDir,
    bytes: Vec<u8>,
}

impl Program {
    /// Strips the one that is given, or one that is built for it.
    pub fn get(root: &Path, given: Option<&Path>, linking: Linking) -> Result<Self, DistError> {
        let path = match given {
            Some(given) => given.to_owned(),
            None => build(root, linking)?,
        };
        let folder = tempfile::tempdir().map_err(io_at(&std::env::temp_dir()))?;
        let stripped = folder.path().join("larder");
        run(Command::new("strip").arg("-o").args([&stripped, &path]), "apt-get install binutils")?;
        let bytes = fs::read(&stripped).map_err(io_at(&stripped))?;
        let needs_loader = loader(&bytes);
        if linking == Linking::Static && needs_loader {
            return Err(DistError::Program(format!("{} is not static", path.display())));
        }
        Ok(Self { folder, bytes })
    }

    /// Where it is.
    pub fn path(&self) -> PathBuf {
        self.folder.path().join("larder")
    }

    /// How long it is.
    pub fn bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// The oldest C library that has all it asks for, such as `2.34`.
    pub fn oldest_libc(&self) -> Result<String, DistError> {
        let newest = memchr::memmem::find_iter(&self.bytes, VERSION_PREFIX)
            .filter_map(|at| minor(self.bytes.get(at + VERSION_PREFIX.len()..)?))
            .max();
        let newest =
            newest.ok_or_else(|| DistError::Program("the program names no version of the C library".into()))?;
        Ok(format!("2.{newest}"))
    }
}

/// What versions of glibc's symbols begin with.
const VERSION_PREFIX: &[u8] = b"GLIBC_2.";

/// The number that the bytes begin with, up to the first that is no digit.
fn minor(bytes: &[u8]) -> Option<u32> {
    let digits = bytes.iter().take_while(|byte| byte.is_ascii_digit()).count();
    std::str::from_utf8(bytes.get(..digits)?).ok()?.parse().ok()
}

/// Whether the program names a loader, `/lib64/ld-linux-x86-64.so.2` or the like, in its head.
fn loader(bytes: &[u8]) -> bool {
    memchr::memmem::find(bytes.get(..4096).unwrap_or(bytes), b"/ld-").is_some()
}

/// Builds it. The static one has musl if this Rust has a library for it, and glibc's own archive otherwise.
fn build(root: &Path, linking: Linking) -> Result<PathBuf, DistError> {
    let target_folder = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["build", "--release", "--package", "larder", "--bin", "larder"]).current_dir(root);
    let folder = match linking {
        Linking::Dynamic => target_folder.join("release"),
        Linking::Static => {
            let target = static_target()?;
            println!("dist: the static program is built for {target}");
            command.args(["--target", &target]).env("RUSTFLAGS", "-C target-feature=+crt-static");
            target_folder.join(target).join("release")
        }
    };
    run(&mut command, "install Rust")?;
    Ok(folder.join("larder"))
}

/// The target of the static program.
fn static_target() -> Result<String, DistError> {
    let arch = std::env::consts::ARCH;
    let musl = format!("{arch}-unknown-linux-musl");
    let libraries =
        output(Command::new("rustc").args(["--print", "target-libdir", "--target", &musl]), "install Rust")?;
    let has_compiler = Command::new("musl-gcc").arg("--version").output().is_ok();
    let usable = Path::new(&libraries).is_dir() && has_compiler;
    Ok(if usable { musl } else { format!("{arch}-unknown-linux-gnu") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_ends_with_its_digits() {
        assert_eq!(minor(b"34\0GLIBC_2.2.5"), Some(34));
        assert_eq!(minor(b"2.5\0"), Some(2));
        assert_eq!(minor(b"PRIVATE"), None);
        assert_eq!(minor(b""), None);
    }
}
