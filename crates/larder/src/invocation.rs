//! How this process was called, so that a new binary can be called the same way.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// A program and its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invocation {
    /// The absolute path of the program.
    pub program: PathBuf,
    /// The arguments after its name.
    pub words: Vec<OsString>,
}

impl Invocation {
    /// The invocation of this process, which was called by `name`, with `words`.
    pub fn new(name: &OsStr, words: Vec<OsString>) -> Invocation {
        Invocation { program: locate(name), words }
    }

    /// The name of its processes in `ps`, `pidof` and `start-stop-daemon --name`.
    pub fn process_name(&self) -> &OsStr {
        self.program.file_name().unwrap_or(OsStr::new("larder"))
    }
}

/// The path of the program that was called by `name`, as the shell finds it. Links are not resolved, because an upgrade
/// may change the link.
fn locate(name: &OsStr) -> PathBuf {
    if name.as_bytes().contains(&b'/') {
        return std::path::absolute(name).unwrap_or_else(|_| name.into());
    }
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&folders).map(|folder| folder.join(name)).find(|path| path.is_file());
    found.or_else(|| std::env::current_exe().ok()).unwrap_or_else(|| Path::new(name).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_is_found_from_every_folder() {
        let here = std::env::current_dir().unwrap();
        for (name, expected) in [
            ("/usr/sbin/nginx", PathBuf::from("/usr/sbin/nginx")),
            ("./larder", here.join("larder")),
            ("target/larder", here.join("target/larder")),
            ("no-such-program-anywhere", std::env::current_exe().unwrap()),
        ] {
            assert_eq!(locate(OsStr::new(name)), expected, "{name}");
        }
        let shell = locate(OsStr::new("sh"));
        assert!(shell.is_absolute() && shell.ends_with("sh"), "{}", shell.display());
    }

    #[test]
    fn processes_are_named_as_they_were_called() {
        for (name, expected) in [("/usr/sbin/nginx", "nginx"), ("/usr/bin/larder", "larder"), ("/", "larder")] {
            assert_eq!(Invocation::new(OsStr::new(name), Vec::new()).process_name(), expected);
        }
    }
}
