//! The files that a VCL reads by `std.fileread()` and `std.blobread()`.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

/// Files by their paths, kept until the VCL goes, as in Varnish. A request may name any, so their number is bounded:
/// when they take too much, all are read anew.
#[derive(Debug, Default)]
pub struct ReadFiles(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    files: HashMap<PathBuf, Arc<[u8]>>,
    bytes: usize,
}

/// The bytes of a file, beyond which it is not read.
const FILE_BYTES_MAX: usize = 8 << 20;
/// The bytes of all files that are kept.
const KEPT_BYTES_MAX: usize = 64 << 20;
/// What a file takes beside its bytes.
const ENTRY_BYTES: usize = 256;

impl ReadFiles {
    /// The bytes of a regular file, read when it is asked for first. `None` if it cannot be read, is empty or too long.
    pub fn get(&self, path: &Path) -> Option<Arc<[u8]>> {
        if let Some(bytes) = self.0.lock().files.get(path) {
            return Some(Arc::clone(bytes));
        }
        let bytes: Arc<[u8]> = read(path)?.into();
        let mut kept = self.0.lock();
        let more = bytes.len() + path.as_os_str().len() + ENTRY_BYTES;
        if kept.bytes + more > KEPT_BYTES_MAX {
            *kept = Kept::default();
        }
        if kept.files.insert(path.to_owned(), Arc::clone(&bytes)).is_none() {
            kept.bytes += more;
        }
        Some(bytes)
    }
}

fn read(path: &Path) -> Option<Vec<u8>> {
    // Before it is opened: to open a pipe may wait.
    std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file)?;
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(FILE_BYTES_MAX as u64 + 1).read_to_end(&mut bytes).ok()?;
    (1..=FILE_BYTES_MAX).contains(&bytes.len()).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_once() {
        let folder = larder_testkit::Folder::new().expect("a temporary folder");
        let files = ReadFiles::default();
        let path = folder.join("text");
        assert_eq!(files.get(&path), None);
        for text in ["one", "two"] {
            folder.write("text", text).expect("the folder takes files");
            assert_eq!(files.get(&path).as_deref(), Some(&b"one"[..]));
        }
        folder.write("empty", "").expect("the folder takes files");
        for other in [folder.join("empty"), folder.path().to_owned(), "/dev/zero".into()] {
            assert_eq!(files.get(&other), None, "{other:?}");
        }
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let folder = larder_testkit::Folder::new().expect("a temporary folder");
        let files = ReadFiles::default();
        let long = vec![b'x'; FILE_BYTES_MAX];
        for number in 0..9 {
            let name = format!("long{number}");
            folder.write(&name, &long).expect("the folder takes files");
            assert!(files.get(&folder.join(&name)).is_some());
            assert!(files.0.lock().bytes <= KEPT_BYTES_MAX);
        }
        folder.write("longer", [&long[..], b"x"].concat()).expect("the folder takes files");
        assert_eq!(files.get(&folder.join("longer")), None);
    }
}
