//! Small files in memory, by their state: who knows the state of a file now need not open and read it.
//!
//! A file is read when it is asked for the second time, if nobody has written to it for a while and its file system
//! keeps the times of changes. What was read is used for a few seconds and then read again, so that a change which no
//! time tells of, as a write through a memory map, is seen too. Each worker has its own, so there is no lock.

use std::os::unix::fs::FileExt as _;
use std::time::Duration;

use bytes::Bytes;
use larder_http::Time;

use super::{Opened, Stamp};
use crate::lru::Lru;

/// The longest file that is kept.
pub const FILE_BYTES_MAX: u64 = 64 * 1024;
/// How much memory the files of a worker take, with what is noted of each.
pub const KEPT_BYTES_MAX: usize = 8 * 1024 * 1024;
/// What one takes beside its bytes.
const ENTRY_BYTES: usize = 256;
/// How long a file must have been unchanged. Two writes within one tick of the file system's clock leave the same time,
/// so that a file which has just been written may change without a sign; there are clocks with ticks of a second.
const SETTLED_AFTER: Duration = Duration::from_secs(2);
/// How long what was read is used.
const READ_AGAIN_AFTER: Duration = Duration::from_secs(5);
/// One that was not used for so long leaves.
const UNUSED_MAX: Duration = Duration::from_secs(60);

/// The small files of a worker.
#[derive(Debug)]
pub struct KeptFiles {
    /// By device and inode.
    entries: Lru<Entry>,
    /// What all take.
    bytes: usize,
    bytes_max: usize,
}

#[derive(Debug)]
struct Entry {
    stamp: Stamp,
    /// What was in it, and when that was read; `None` for one that was asked for once.
    read: Option<(Bytes, Time)>,
    used: Time,
}

impl Default for KeptFiles {
    fn default() -> Self {
        Self { entries: Lru::default(), bytes: 0, bytes_max: KEPT_BYTES_MAX }
    }
}

impl KeptFiles {
    /// What is in the file of this state.
    pub fn get(&mut self, stamp: &Stamp, now: Time) -> Option<Bytes> {
        if stamp.len > FILE_BYTES_MAX {
            return None;
        }
        let entry = self.entries.touch(&key(stamp)).filter(|entry| entry.stamp == *stamp)?;
        entry.used = now;
        let (bytes, read) = entry.read.as_ref()?;
        (now >= *read && now.since(*read) < READ_AGAIN_AFTER).then(|| bytes.clone())
    }

    /// Returns what is in the file, and keeps it, if it is worth that.
    pub fn take(&mut self, opened: &Opened, now: Time) -> Option<Bytes> {
        let stamp = &opened.stamp;
        if !opened.is_regular || !(1..=FILE_BYTES_MAX).contains(&stamp.len) || !has_settled(stamp, now) {
            return None;
        }
        let key = key(stamp);
        let is_known = match self.entries.touch(&key) {
            // `open_file_cache` may still have an older state.
            Some(entry) if entry.stamp.changed > stamp.changed => return None,
            Some(entry) => entry.stamp == *stamp,
            None => false,
        };
        let read = if is_known { read(opened) } else { None };
        self.put(&key, Entry { stamp: *stamp, read: read.clone().map(|bytes| (bytes, now)), used: now });
        read
    }

    /// Has all files take no more than `bytes_max` from now on, and lets go of those that were not used for a while.
    pub fn tidy(&mut self, bytes_max: usize, now: Time) {
        self.bytes_max = bytes_max.min(KEPT_BYTES_MAX);
        while self.entries.oldest().is_some_and(|(_, entry)| now.since(entry.used) > UNUSED_MAX) {
            self.let_go();
        }
        self.make_room();
    }

    fn put(&mut self, key: &[u8], entry: Entry) {
        self.bytes += entry.cost();
        if let Some(before) = self.entries.insert(key, entry) {
            self.bytes -= before.cost();
        }
        self.make_room();
    }

    fn make_room(&mut self) {
        while self.bytes > self.bytes_max && self.let_go() {}
    }

    /// Lets go of the one that was not used for the longest time; false if there is none.
    fn let_go(&mut self) -> bool {
        let Some((_, entry)) = self.entries.pop_oldest() else { return false };
        self.bytes -= entry.cost();
        true
    }
}

impl Entry {
    fn cost(&self) -> usize {
        ENTRY_BYTES + self.read.as_ref().map_or(0, |(bytes, _)| bytes.len())
    }
}

fn key(stamp: &Stamp) -> [u8; 16] {
    (u128::from(stamp.device) << 64 | u128::from(stamp.inode)).to_ne_bytes()
}

/// Whether the file was changed so long ago that its next change has another time.
fn has_settled(stamp: &Stamp, now: Time) -> bool {
    let (seconds, _) = stamp.changed;
    u64::try_from(seconds).is_ok_and(|seconds| seconds < now.secs().saturating_sub(SETTLED_AFTER.as_secs()))
}

/// Reads the file; `None` if it is no longer in the state in which it was opened.
fn read(opened: &Opened) -> Option<Bytes> {
    if !keeps_times(opened) {
        return None;
    }
    let mut bytes = vec![0; usize::try_from(opened.stamp.len).ok()?];
    opened.file.read_exact_at(&mut bytes, 0).ok()?;
    let after = rustix::fs::fstat(&opened.file).ok()?;
    (Stamp::of(&after) == opened.stamp).then(|| bytes.into())
}

/// The magic numbers of file systems in which only this machine writes, and which note when. Others may tell late what
/// another machine has done (NFS, FUSE), or have the times of the one who packed them (squashfs).
const KEEPING: [u64; 9] = [
    0xef53,      // ext2, ext3, ext4
    0x5846_5342, // XFS
    0x9123_683e, // Btrfs
    0x0102_1994, // tmpfs
    0x8584_58f6, // ramfs
    0x794c_7630, // overlayfs, of containers
    0xf2f5_2010, // F2FS
    0x2fc1_2fc1, // ZFS
    0xca45_1a4e, // bcachefs
];

#[allow(clippy::cast_sign_loss, clippy::unnecessary_cast, reason = "the type is not the same on every system")]
fn keeps_times(opened: &Opened) -> bool {
    rustix::fs::fstatfs(&opened.file).is_ok_and(|system| KEEPING.contains(&(system.f_type as u32 as u64)))
}

#[cfg(test)]
mod tests {
    use std::fs::{self, FileTimes, Permissions};
    use std::os::unix::ffi::OsStrExt as _;
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    use std::path::{Path, PathBuf};

    use super::*;
    use crate::clock;
    use crate::files::{LinkPolicy, open, stat};

    /// A folder on a file system that keeps times, and files that were written to it some time ago.
    struct Bench {
        dir: ::tempfile::TempDir,
        kept: KeptFiles,
        now: Time,
    }

    const LATER: Duration = Duration::from_secs(10);

    impl Bench {
        fn new() -> Self {
            let dir = ::tempfile::tempdir().expect("a temp dir can be made");
            Self { dir, kept: KeptFiles::default(), now: clock::now().plus(LATER) }
        }

        fn path(&self, name: &str) -> PathBuf {
            self.dir.path().join(name)
        }

        fn put(&self, name: &str, content: impl AsRef<[u8]>) {
            fs::write(self.path(name), content).expect("written");
        }

        /// What a request gets: from memory, or by opening the file.
        fn ask(&mut self, name: &str) -> (&'static str, String) {
            let path = self.path(name);
            let path = path.as_os_str().as_bytes();
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            let found = stat(path, &LinkPolicy::Off).ok().and_then(|facts| self.kept.get(&facts.stamp, self.now));
            if let Some(bytes) = found {
                return ("memory", text(&bytes));
            }
            match open(path, &LinkPolicy::Off) {
                Err(_) => ("error", String::new()),
                Ok(opened) => match self.kept.take(&opened, self.now) {
                    Some(bytes) => ("read", text(&bytes)),
                    None if opened.is_regular => ("file", fs::read_to_string(self.path(name)).unwrap_or_default()),
                    None => ("other", String::new()),
                },
            }
        }

        fn asks(&mut self, name: &str, times: usize) -> Vec<&'static str> {
            (0..times).map(|_| self.ask(name).0).collect()
        }
    }

    #[test]
    fn a_small_file_is_read_when_it_is_asked_for_again() {
        let mut bench = Bench::new();
        for (name, bytes, found) in [
            ("small", 10, ["file", "read", "memory"]),
            ("largest", FILE_BYTES_MAX as usize, ["file", "read", "memory"]),
            ("larger", FILE_BYTES_MAX as usize + 1, ["file", "file", "file"]),
            ("empty", 0, ["file", "file", "file"]),
        ] {
            bench.put(name, "x".repeat(bytes));
            assert_eq!(bench.asks(name, 3), found, "{name}");
        }
        fs::create_dir(bench.path("folder")).expect("made");
        assert_eq!(bench.asks("folder", 3), ["other"; 3]);
        assert_eq!(bench.asks("none", 3), ["error"; 3]);
    }

    #[test]
    fn a_file_that_has_just_been_written_is_not_kept() {
        for (later, found) in [(0, "file"), (1, "file"), (2, "file"), (3, "memory")] {
            let mut bench = Bench::new();
            bench.put("f", "one");
            let facts = stat(bench.path("f").as_os_str().as_bytes(), &LinkPolicy::Off).expect("there");
            bench.now = Time::from_secs(facts.stamp.changed.0 as u64 + later);
            assert_eq!(bench.asks("f", 3)[2], found, "{later} seconds later");
        }
        // Nor one from the future, as after a clock was set back.
        let mut bench = Bench::new();
        bench.put("f", "one");
        bench.now = Time::from_secs(1000);
        assert_eq!(bench.asks("f", 3), ["file"; 3]);
    }

    #[test]
    fn a_file_of_a_system_that_keeps_no_times_is_not_kept() {
        let opened = open(b"/proc/self/status", &LinkPolicy::Off).expect("there");
        assert!(!keeps_times(&opened));
    }

    /// Makes a change again until the clock of the file system has moved on.
    fn until_told(path: &Path, change: impl Fn()) {
        let stamp = || stat(path.as_os_str().as_bytes(), &LinkPolicy::Off).map(|facts| facts.stamp);
        let before = stamp();
        change();
        while stamp() == before {
            change();
        }
    }

    /// A name, a way to change what it names, and what the next request gets.
    type Change = (&'static str, fn(&Bench), (&'static str, &'static str));

    #[test]
    fn each_change_is_seen_by_the_next_request() {
        let changes: [Change; 12] = [
            ("nothing", |_| {}, ("memory", "one")),
            (
                "an editor's save: another file by the same name",
                |bench| {
                    bench.put("new", "two");
                    fs::rename(bench.path("new"), bench.path("site/f")).expect("renamed");
                },
                ("file", "two"),
            ),
            (
                "written in place, as long as before",
                |bench| until_told(&bench.path("site/f"), || bench.put("site/f", "two")),
                ("file", "two"),
            ),
            (
                "written in place, and the time of its last change set back",
                |bench| {
                    let path = bench.path("site/f");
                    let before = fs::metadata(&path).expect("there").modified().expect("kept");
                    until_told(&path, || {
                        bench.put("site/f", "two");
                        let file = fs::File::options().write(true).open(&path).expect("opened");
                        file.set_times(FileTimes::new().set_modified(before)).expect("set");
                    });
                },
                ("file", "two"),
            ),
            ("longer", |bench| bench.put("site/f", "one and more"), ("file", "one and more")),
            ("shorter", |bench| bench.put("site/f", "o"), ("file", "o")),
            ("empty", |bench| bench.put("site/f", ""), ("file", "")),
            ("gone", |bench| fs::remove_file(bench.path("site/f")).expect("removed"), ("error", "")),
            (
                "its folder gone",
                |bench| fs::rename(bench.path("releases/1"), bench.path("old")).expect("renamed"),
                ("error", ""),
            ),
            (
                "a link on the way to another folder, as a deployment does",
                |bench| {
                    symlink("releases/2", bench.path("next")).expect("linked");
                    fs::rename(bench.path("next"), bench.path("site")).expect("renamed");
                },
                ("file", "two"),
            ),
            (
                "a folder in its place",
                |bench| {
                    fs::remove_file(bench.path("site/f")).expect("removed");
                    fs::create_dir(bench.path("site/f")).expect("made");
                },
                ("other", ""),
            ),
            (
                "a link in its place",
                |bench| {
                    fs::remove_file(bench.path("site/f")).expect("removed");
                    symlink("../2/f", bench.path("site/f")).expect("linked");
                },
                ("file", "two"),
            ),
        ];
        for (what, change, found) in changes {
            let mut bench = Bench::new();
            for release in ["1", "2"] {
                fs::create_dir_all(bench.path("releases").join(release)).expect("made");
            }
            bench.put("releases/1/f", "one");
            bench.put("releases/2/f", "two");
            symlink("releases/1", bench.path("site")).expect("linked");
            assert_eq!(bench.asks("site/f", 3), ["file", "read", "memory"], "{what}");
            change(&bench);
            assert_eq!(bench.ask("site/f"), (found.0, found.1.to_owned()), "{what}");
        }
    }

    /// For root, who may read everything, the file is opened anew all the same.
    #[test]
    fn rights_are_asked_for_again_when_they_have_changed() {
        let mut bench = Bench::new();
        bench.put("f", "one");
        assert_eq!(bench.asks("f", 3)[2], "memory");
        let path = bench.path("f");
        until_told(&path, || fs::set_permissions(&path, Permissions::from_mode(0o000)).expect("set"));
        assert_ne!(bench.ask("f").0, "memory");
    }

    #[test]
    fn what_was_read_is_read_again_after_a_while() {
        let mut bench = Bench::new();
        bench.put("f", "one");
        assert_eq!(bench.asks("f", 3), ["file", "read", "memory"]);
        bench.now = bench.now.plus(READ_AGAIN_AFTER);
        assert_eq!(bench.asks("f", 2), ["read", "memory"]);
        // A clock that was set back ends it too.
        bench.now = clock::now().plus(Duration::from_secs(5));
        assert_eq!(bench.asks("f", 2), ["read", "memory"]);
    }

    #[test]
    fn a_file_that_changed_after_it_was_opened_is_not_read() {
        let mut bench = Bench::new();
        bench.put("f", "one");
        let path = bench.path("f");
        let opened = open(path.as_os_str().as_bytes(), &LinkPolicy::Off).expect("there");
        assert!(bench.kept.take(&opened, bench.now).is_none());
        until_told(&path, || bench.put("f", "two"));
        assert!(bench.kept.take(&opened, bench.now).is_none());
        // The new state is kept, and the old one, which `open_file_cache` may still have, does not displace it.
        assert_eq!(bench.asks("f", 3), ["file", "read", "memory"]);
        assert!(bench.kept.take(&opened, bench.now).is_none());
        assert_eq!(bench.ask("f"), ("memory", "two".to_owned()));
    }

    #[test]
    fn one_file_has_one_place_by_whatever_name() {
        let mut bench = Bench::new();
        bench.put("f", "one");
        fs::hard_link(bench.path("f"), bench.path("g")).expect("linked");
        symlink("f", bench.path("h")).expect("linked");
        assert_eq!((bench.ask("f").0, bench.ask("g").0, bench.ask("h").0), ("file", "read", "memory"));
    }

    #[test]
    fn the_bytes_are_bounded_and_what_is_not_used_leaves() {
        let mut bench = Bench::new();
        let room = 2 * (ENTRY_BYTES + 1000);
        bench.kept.tidy(room, bench.now);
        for name in ["a", "b", "c"] {
            bench.put(name, "x".repeat(1000));
            bench.asks(name, 2);
            assert!(bench.kept.bytes <= room, "{}", bench.kept.bytes);
        }
        assert_eq!((bench.ask("b").0, bench.ask("c").0), ("memory", "memory"), "the last used stay");
        bench.now = bench.now.plus(UNUSED_MAX);
        bench.ask("c");
        bench.kept.tidy(room, bench.now.plus(Duration::from_secs(1)));
        assert_eq!((bench.kept.entries.len(), bench.kept.bytes), (1, ENTRY_BYTES + 1000));
        // Without memory nothing is kept, and it goes on.
        bench.kept.tidy(0, bench.now);
        assert_eq!((bench.kept.entries.len(), bench.kept.bytes), (0, 0));
        assert_eq!(bench.asks("c", 3), ["file"; 3]);
        bench.kept.tidy(usize::MAX, bench.now);
        assert_eq!((bench.kept.bytes_max, bench.asks("c", 3)[2]), (KEPT_BYTES_MAX, "memory"));
    }
}
