//! Configuration files from the disk, and the patterns of includes.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use larder_conf::Loader;
use larder_vcl::functions::wildcard::{self, Rules};

/// Reads files and folders of this machine.
#[derive(Debug, Default)]
pub struct DiskLoader {
    /// Files that are not read again if their stamp is the same.
    pub known: HashMap<PathBuf, (Stamp, Vec<u8>)>,
    /// The stamps of the files that were read.
    pub stamps: HashMap<PathBuf, Stamp>,
}

/// How nginx recognises an unchanged file: device, inode, and the second of the last change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    device: u64,
    inode: u64,
    changed_seconds: i64,
}

impl Loader for DiskLoader {
    fn read(&mut self, path: &Path) -> io::Result<Vec<u8>> {
        let file = File::open(path)?;
        let metadata = file.metadata()?;
        let stamp = Stamp { device: metadata.dev(), inode: metadata.ino(), changed_seconds: metadata.mtime() };
        self.stamps.insert(path.to_owned(), stamp);
        if let Some((_, bytes)) = self.known.get(path).filter(|(known, _)| *known == stamp) {
            return Ok(bytes.clone());
        }
        let mut bytes = Vec::new();
        file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > FILE_BYTES_MAX {
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, "a configuration file has 16 megabytes at most"));
        }
        Ok(bytes)
    }

    fn glob(&mut self, pattern: &str) -> io::Result<Vec<PathBuf>> {
        Ok(glob(pattern))
    }
}

/// The paths that match `pattern`, as in `glob(3)`: sorted by bytes, and hidden files only if the pattern has their
/// dot. A folder that cannot be read has no matches.
pub fn glob(pattern: &str) -> Vec<PathBuf> {
    let absolute = pattern.starts_with('/');
    let mut found = vec![PathBuf::from(if absolute { "/" } else { "" })];
    let mut parts = pattern.split('/').filter(|part| !part.is_empty()).peekable();
    while let Some(part) = parts.next() {
        let is_last = parts.peek().is_none();
        found = found.iter().flat_map(|folder| step(folder, part.as_bytes(), is_last)).take(MATCHES_MAX).collect();
    }
    found.sort_by(|a, b| a.as_os_str().as_bytes().cmp(b.as_os_str().as_bytes()));
    found
}

/// The names in `folder` that match a `part` of a pattern.
fn step(folder: &Path, part: &[u8], is_last: bool) -> Vec<PathBuf> {
    if !part.iter().any(|byte| b"*?[".contains(byte)) {
        let name: Vec<u8> = unescape(part);
        let path = folder.join(std::ffi::OsString::from_vec(name));
        // A dangling link is a match, as in glob(3).
        return if path.symlink_metadata().is_ok() { vec![path] } else { Vec::new() };
    }
    let place = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let Ok(entries) = place.read_dir() else {
        return Vec::new();
    };
    entries
        .filter_map(Result::ok)
        .map(|entry| entry.file_name())
        .filter(|name| !name.as_bytes().starts_with(b".") || part.starts_with(b"."))
        .filter(|name| matches(part, name.as_bytes()))
        .map(|name| folder.join(name))
        .filter(|path| is_last || path.is_dir())
        .collect()
}

fn unescape(part: &[u8]) -> Vec<u8> {
    let mut bytes = part.iter();
    let mut name = Vec::with_capacity(part.len());
    while let Some(byte) = bytes.next() {
        name.push(match byte {
            b'\\' => *bytes.next().unwrap_or(byte),
            byte => *byte,
        });
    }
    name
}

/// Whether a name matches a part of a pattern.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    wildcard::matches(pattern, name, Rules { pathname: false, noescape: false, period: false })
}

const FILE_BYTES_MAX: u64 = 16 << 20;
const MATCHES_MAX: usize = 100_000;

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn names_match_as_in_a_shell() {
        for (pattern, name, expected) in [
            ("*.conf", "a.conf", true),
            ("*.conf", ".conf", true),
            ("*.conf", "a.conf.bak", false),
            ("*a*b", "xaxxbab", true),
            ("*a*b", "xaxxba", false),
            ("?", "", false),
            ("?", "a", true),
            ("[a-c]x", "bx", true),
            ("[a-c]x", "dx", false),
            ("[!a-c]x", "dx", true),
            ("[^a-c]x", "ax", false),
            ("[]]", "]", true),
            ("[a-]", "-", true),
            ("[", "[", true),
            ("[a", "[a", true),
            ("[a", "a", false),
            ("\\*", "*", true),
            ("\\*", "a", false),
            ("", "", true),
            ("", "a", false),
            ("**", "", true),
        ] {
            assert_eq!(matches(pattern.as_bytes(), name.as_bytes()), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn a_pattern_finds_what_is_there_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        for file in ["b.conf", "a.conf", "B.conf", ".hidden.conf", "a.txt", "sub1/x.conf", "sub2/y.conf"] {
            let path = root.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        let shown = root.display().to_string();
        for (pattern, expected) in [
            ("*.conf", vec!["B.conf", "a.conf", "b.conf"]),
            ("./*.txt", vec!["./a.txt"]),
            (".h*", vec![".hidden.conf"]),
            ("*/*.conf", vec!["sub1/x.conf", "sub2/y.conf"]),
            ("sub[2-9]/y.conf", vec!["sub2/y.conf"]),
            ("a.conf", vec!["a.conf"]),
            ("c.conf", vec![]),
            ("no/*.conf", vec![]),
            ("*.conf/*", vec![]),
        ] {
            let expected: Vec<_> = expected.iter().map(|name| root.join(name)).collect();
            assert_eq!(glob(&format!("{shown}/{pattern}")), expected, "{pattern}");
        }
    }
}
