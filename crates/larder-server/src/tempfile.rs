//! Temporary files for request bodies that do not fit in memory. A file gets a name only when one is needed; without a
//! name it disappears when it is closed, even after a crash.

use std::fs::{DirBuilder, File};
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;

/// The folder for temporary files if the configuration names none. Not `TMPDIR`, as only the binary reads the
/// environment.
pub const SYSTEM_DIR: &str = "/tmp";

/// A file that is open for reading and writing.
#[derive(Debug)]
pub struct Temp {
    file: Arc<File>,
    place: Place,
    /// Its path, once it has one; `None` inside if it cannot get one.
    path: OnceLock<Option<PathBuf>>,
    stays: bool,
}

/// Where files are created.
#[derive(Clone, Debug)]
pub struct Place {
    /// The folder.
    pub dir: PathBuf,
    /// How many digits at the end of the file's name each level of folders takes; 0 for no level.
    pub levels: [usize; 3],
}

/// What happens to a file that has a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stay {
    /// It is deleted when it is no longer needed.
    WhileNeeded,
    /// It stays: the program that was told its name uses it.
    ForGood,
}

/// Why a file was created in the system's folder.
#[derive(Debug, thiserror::Error)]
#[error("cannot make a temporary file in \"{}\", used \"{}\" instead: {source}", wanted.display(), used.display())]
pub struct Fallback {
    /// The configured folder.
    pub wanted: PathBuf,
    /// The system's folder.
    pub used: PathBuf,
    /// The error in the configured folder.
    pub source: io::Error,
}

/// Creates a file in `place`, or in `system` if that fails: the folder is missing, not writable, or on a full disk. The
/// error is that of `system`.
pub fn create(place: &Place, system: &Path) -> io::Result<(Temp, Option<Fallback>)> {
    match create_in(place) {
        Ok(temp) => Ok((temp, None)),
        Err(source) => {
            let temp = create_in(&Place { dir: system.to_owned(), levels: [0; 3] })?;
            let fallback = Fallback { wanted: place.dir.clone(), used: system.to_owned(), source };
            Ok((temp, Some(fallback)))
        }
    }
}

fn create_in(place: &Place) -> io::Result<Temp> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    match rustix::fs::openat(CWD, &place.dir, flags, Mode::RUSR | Mode::WUSR) {
        // Some file systems have no files without a name, and old kernels take the flag for that of a directory.
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => create_named(place, Stay::WhileNeeded),
        other => {
            Ok(Temp { file: Arc::new(File::from(other?)), place: place.clone(), path: OnceLock::new(), stays: false })
        }
    }
}

/// Creates a file with a name in `place`, and the folders for it.
pub fn create_named(place: &Place, stay: Stay) -> io::Result<Temp> {
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let open = |path: &Path| rustix::fs::openat(CWD, path, flags, Mode::RUSR | Mode::WUSR);
    let (fd, path): (OwnedFd, PathBuf) = under_a_name(place, open)?;
    let path = OnceLock::from(Some(path));
    Ok(Temp { file: Arc::new(File::from(fd)), place: place.clone(), path, stays: stay == Stay::ForGood })
}

/// Calls `act` with one name after the other until one is free.
fn under_a_name<T>(place: &Place, act: impl Fn(&Path) -> Result<T, Errno>) -> Result<(T, PathBuf), Errno> {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let mut step = 1;
    for _ in 0..NAMES_TRIED {
        let path = place.path(NEXT.fetch_add(step, Ordering::Relaxed));
        let done = match act(&path) {
            Err(Errno::NOENT) => place.make_levels(&path).and_then(|()| act(&path)),
            done => done,
        };
        match done {
            // Files stay behind, and a new process counts from the beginning.
            Err(Errno::EXIST) => step = STEP_OVER,
            Err(errno) => return Err(errno),
            Ok(done) => return Ok((done, path)),
        }
    }
    Err(Errno::EXIST)
}

/// The most names that are tried.
const NAMES_TRIED: u32 = 1000;
/// How far to go on after a name that is taken, to skip others of the same time.
const STEP_OVER: u64 = 123_456;
/// The number of digits of a name.
const DIGITS: usize = 10;

impl Place {
    /// The path of the file of this number: `DIR/7/45/0000123457` for levels of one and two letters.
    fn path(&self, number: u64) -> PathBuf {
        let name = format!("{:0DIGITS$}", number % 10u64.pow(DIGITS as u32));
        let mut path = self.dir.clone();
        let mut end = name.len();
        for &letters in self.levels.iter().filter(|&&letters| letters > 0) {
            let start = end.saturating_sub(letters);
            path.push(&name[start..end]);
            end = start;
        }
        path.push(name);
        path
    }

    /// Creates the folders between the place and the file.
    fn make_levels(&self, path: &Path) -> Result<(), Errno> {
        let Some(parent) = path.parent().filter(|parent| *parent != self.dir) else { return Err(Errno::NOENT) };
        if !self.dir.is_dir() {
            return Err(Errno::NOENT);
        }
        let made = DirBuilder::new().recursive(true).mode(0o700).create(parent);
        made.map_err(|error| error.raw_os_error().map_or(Errno::IO, Errno::from_raw_os_error))
    }
}

impl Temp {
    /// The open file.
    pub fn file(&self) -> &Arc<File> {
        &self.file
    }

    /// The file's path. The file gets a name on the first call.
    pub fn path(&self) -> Option<&Path> {
        let give = || {
            let from = format!("/proc/self/fd/{}", self.file.as_raw_fd());
            let link = |path: &Path| rustix::fs::linkat(CWD, &from, CWD, path, AtFlags::SYMLINK_FOLLOW);
            under_a_name(&self.place, link).ok().map(|((), path)| path)
        };
        self.path.get_or_init(give).as_deref()
    }
}

impl Drop for Temp {
    fn drop(&mut self) {
        if !self.stays
            && let Some(Some(path)) = self.path.get()
        {
            // The program that was told the name may have moved the file away.
            let _ = std::fs::remove_file(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Seek, Write};

    use super::*;

    fn works(temp: &Temp) -> bool {
        let mut file = &**temp.file();
        let mut read = String::new();
        file.write_all(b"body").expect("written");
        file.rewind().expect("rewound");
        file.read_to_string(&mut read).expect("read");
        read == "body"
    }

    fn is_empty(dir: &Path) -> bool {
        std::fs::read_dir(dir).expect("there").next().is_none()
    }

    fn flat(dir: &Path) -> Place {
        Place { dir: dir.to_owned(), levels: [0; 3] }
    }

    #[test]
    fn a_file_has_a_name_from_when_it_is_asked_for_until_it_is_closed() {
        let dir = ::tempfile::tempdir().expect("a temp dir can be made");
        let (temp, fallback) = create(&flat(dir.path()), Path::new("/nowhere")).expect("made");
        assert!(fallback.is_none());
        assert!(works(&temp));
        let path = temp.path().expect("it gets a name").to_owned();
        assert_eq!(temp.path(), Some(&*path), "it keeps its name");
        assert_eq!(std::fs::read(&path).expect("there"), b"body");
        drop(temp);
        assert!(is_empty(dir.path()));
    }

    #[test]
    fn a_file_that_stays_stays() {
        let dir = ::tempfile::tempdir().expect("a temp dir can be made");
        for (stay, is_there) in [(Stay::WhileNeeded, false), (Stay::ForGood, true)] {
            let temp = create_named(&flat(dir.path()), stay).expect("made");
            let path = temp.path().expect("it has a name").to_owned();
            assert!(works(&temp) && path.exists());
            drop(temp);
            assert_eq!(path.exists(), is_there, "{stay:?}");
        }
    }

    #[test]
    fn levels_are_folders_from_the_end_of_the_name() {
        for (levels, path) in [
            ([0, 0, 0], "/t/0000123457"),
            ([1, 0, 0], "/t/7/0000123457"),
            ([1, 2, 0], "/t/7/45/0000123457"),
            ([2, 2, 6], "/t/57/34/000012/0000123457"),
        ] {
            let place = Place { dir: "/t".into(), levels };
            assert_eq!(place.path(123_457), Path::new(path));
        }
        let dir = ::tempfile::tempdir().expect("a temp dir can be made");
        let place = Place { dir: dir.path().to_owned(), levels: [1, 2, 0] };
        let named = create_named(&place, Stay::WhileNeeded).expect("made");
        let asked = create(&place, Path::new("/nowhere")).expect("made").0;
        for temp in [named, asked] {
            let path = temp.path().expect("it has a name");
            assert_eq!(path.strip_prefix(dir.path()).expect("below").components().count(), 3, "{}", path.display());
        }
    }

    #[test]
    fn names_that_are_taken_are_passed_over() {
        let dir = ::tempfile::tempdir().expect("a temp dir can be made");
        let first = create_named(&flat(dir.path()), Stay::ForGood).expect("made");
        let name =
            first.path().expect("it has a name").file_name().expect("a file").to_str().expect("digits").to_owned();
        let number: u64 = name.parse().expect("a number");
        for number in number..number + 50 {
            std::fs::write(flat(dir.path()).path(number), "").expect("written");
        }
        assert!(works(&create_named(&flat(dir.path()), Stay::WhileNeeded).expect("made")));
    }

    #[test]
    fn the_systems_directory_is_the_second_choice() {
        let dir = ::tempfile::tempdir().expect("a temp dir can be made");
        let file = dir.path().join("file");
        std::fs::write(&file, "").expect("written");
        for (wanted, errno) in [(Path::new("/nowhere"), Errno::NOENT), (&file, Errno::NOTDIR)] {
            let (temp, fallback) = create(&flat(wanted), dir.path()).expect("made");
            let fallback = fallback.expect("the first choice cannot be had");
            assert_eq!((&*fallback.wanted, &*fallback.used), (wanted, dir.path()));
            assert_eq!(fallback.source.raw_os_error(), Some(errno.raw_os_error()), "{}", wanted.display());
            assert!(works(&temp));
        }
        assert!(create(&flat(Path::new("/nowhere")), Path::new("/nowhere")).is_err());
    }
}
