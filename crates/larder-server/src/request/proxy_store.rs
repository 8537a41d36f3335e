//! `proxy_store` and `fastcgi_store`: an answer is kept as a file, where a later request finds it.
//!
//! Larder writes a temporary file and renames it when it is whole, so that nobody sees a part of it. Threads that may
//! wait for a disk do this.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use larder_http::{Fields, Known, Method, parse_date, status};

use crate::context::Cx;
use crate::exchange::Exchange;
use crate::site::{Origin, StorePath};

/// Where an answer goes, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    path: PathBuf,
    temp_dir: PathBuf,
    /// What owner, group and others may.
    mode: u32,
    modified: Option<SystemTime>,
}

/// Where the answer of the origin is to be kept; `None` where it is not: only whole pages of status 200 are, and only
/// where answers are buffered.
pub fn target(
    status: u16,
    fields: &Fields,
    is_buffered: bool,
    origin: &Origin,
    ex: &mut Exchange,
    cx: &Cx,
) -> Option<Target> {
    let store = origin.policy.file()?;
    if status != status::OK || ex.request.method == Method::Head || !is_buffered {
        return None;
    }
    let mut path = Vec::new();
    match store {
        StorePath::Root => {
            crate::vars::append_filename(ex, cx, &mut path);
        }
        StorePath::Text(text) => text.append(ex, cx, &mut path),
    }
    if path.is_empty() || ex.eval.evaluation.has_failed() {
        return None;
    }
    let path = cx.site().prefix.join(PathBuf::from(std::ffi::OsString::from_vec(path)));
    let model = &origin.backend.settings.model;
    let temp_dir = model.buffers.temp_path.clone().filter(|dir| dir.is_dir());
    let seconds = fields.get_known(Known::LastModified).and_then(parse_date);
    Some(Target {
        temp_dir: temp_dir.unwrap_or_else(|| path.parent().unwrap_or(Path::new("/")).to_owned()),
        path,
        mode: model.store_access,
        modified: seconds.map(|seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)),
    })
}

/// A file that is being written. Dropped before it has its place, it is gone.
pub struct StoredFile {
    target: Target,
    open: Option<Unnamed>,
}

/// A file under a temporary name.
struct Unnamed {
    file: File,
    name: TempName,
}

struct TempName(PathBuf);

impl Drop for TempName {
    fn drop(&mut self) {
        // It may have been renamed already. A file that cannot be removed stays in the folder for temporary files.
        let _ = fs::remove_file(&self.0);
    }
}

impl StoredFile {
    /// Nothing is made before the first bytes, or the end.
    pub fn new(target: Target) -> Self {
        Self { target, open: None }
    }

    /// Writes what came next.
    pub async fn append(&mut self, bytes: Bytes) -> io::Result<()> {
        let open = self.open.take();
        let dir = self.target.temp_dir.clone();
        let open = off_worker(move || {
            let mut open = match open {
                Some(open) => open,
                None => Unnamed::create(&dir)?,
            };
            open.file.write_all(&bytes)?;
            Ok(open)
        });
        self.open = Some(open.await?);
        Ok(())
    }

    /// Where it is to be.
    pub fn path(&self) -> &Path {
        &self.target.path
    }

    /// Renames the whole file to its path, replacing what is there.
    pub async fn finish(self) -> io::Result<()> {
        let Self { target, open } = self;
        off_worker(move || {
            let open = match open {
                Some(open) => open,
                None => Unnamed::create(&target.temp_dir)?,
            };
            open.place(&target)
        })
        .await
    }
}

async fn off_worker<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|gone| Err(io::Error::other(gone)))
}

impl Unnamed {
    fn create(dir: &Path) -> io::Result<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let path = dir.join(format!("larder-store-{}-{number}", std::process::id()));
            match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path) {
                Ok(file) => return Ok(Self { file, name: TempName(path) }),
                // Left by a process of the same number.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn place(self, target: &Target) -> io::Result<()> {
        let Self { file, name } = self;
        file.set_permissions(Permissions::from_mode(target.mode))?;
        if let Some(modified) = target.modified {
            file.set_modified(modified)?;
        }
        drop(file);
        match fs::rename(&name.0, &target.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                make_folders(target)?;
                fs::rename(&name.0, &target.path)
            }
            // On another file system: it is copied beside its path, and the copy renamed.
            Err(error) if error.kind() == io::ErrorKind::CrossesDevices => copy(&name.0, target),
            other => other,
        }
    }
}

/// Makes the folders above a file. As in nginx, whoever may read the file may enter them.
fn make_folders(target: &Target) -> io::Result<()> {
    let mode = target.mode | (target.mode & 0o444) >> 2;
    let Some(parent) = target.path.parent() else { return Ok(()) };
    DirBuilder::new().recursive(true).mode(mode).create(parent)
}

fn copy(from: &Path, target: &Target) -> io::Result<()> {
    make_folders(target)?;
    let beside = Unnamed::create(target.path.parent().unwrap_or(Path::new("/")))?;
    let Unnamed { mut file, name } = beside;
    io::copy(&mut File::open(from)?, &mut file)?;
    file.set_permissions(Permissions::from_mode(target.mode))?;
    if let Some(modified) = target.modified {
        file.set_modified(modified)?;
    }
    fs::rename(&name.0, &target.path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(dir: &Path, path: &str, mode: u32) -> Target {
        let modified = Some(SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000));
        Target { path: dir.join(path), temp_dir: dir.join("temp"), mode, modified }
    }

    #[tokio::test]
    async fn a_whole_answer_gets_its_place_its_folders_and_its_time() {
        let dir = ::tempfile::tempdir().expect("a temp dir can be made");
        fs::create_dir(dir.path().join("temp")).expect("made");
        for (path, mode, body) in [("a/b/page", 0o644, "text"), ("empty", 0o600, ""), ("a/b/page", 0o644, "again")] {
            let mut file = StoredFile::new(target(dir.path(), path, mode));
            for piece in body.as_bytes().chunks(2) {
                file.append(Bytes::copy_from_slice(piece)).await.expect("written");
            }
            file.finish().await.expect("placed");
            let at = dir.path().join(path);
            let facts = fs::metadata(&at).expect("it is there");
            assert_eq!(fs::read_to_string(&at).expect("read"), body, "{path}");
            assert_eq!(facts.permissions().mode() & 0o777, mode, "{path}");
            let since = facts.modified().expect("a time").duration_since(SystemTime::UNIX_EPOCH).expect("after 1970");
            assert_eq!(since.as_secs(), 1_000_000, "{path}");
        }
        assert_eq!(fs::read_dir(dir.path().join("temp")).expect("there").count(), 0);
    }

    #[tokio::test]
    async fn what_does_not_become_whole_leaves_nothing() {
        let dir = ::tempfile::tempdir().expect("a temp dir can be made");
        fs::create_dir(dir.path().join("temp")).expect("made");
        let mut file = StoredFile::new(target(dir.path(), "page", 0o600));
        file.append(Bytes::from_static(b"half")).await.expect("written");
        assert_eq!(fs::read_dir(dir.path().join("temp")).expect("there").count(), 1);
        drop(file);
        assert_eq!(fs::read_dir(dir.path().join("temp")).expect("there").count(), 0);
        assert!(!dir.path().join("page").exists());
    }
}
