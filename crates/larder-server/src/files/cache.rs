//! `open_file_cache`: keeps open files, directories and failures to open, by path. Each worker has its own, so there is
//! no lock.

use std::time::Duration;

use larder_http::Time;

use super::{Facts, LinkPolicy, OpenError, Opened, open, stat};
use crate::lru::Lru;

/// The most unused entries that one call removes, besides one that has to make room.
const EXPIRED_AT_ONCE: usize = 2;

/// The cache of one `open_file_cache`.
#[derive(Debug)]
pub struct FileCache {
    entries: Lru<Entry>,
    max: usize,
    inactive: Duration,
}

#[derive(Debug)]
struct Entry {
    state: State,
    policy: LinkPolicy,
    uses: u32,
    /// When the file was opened, or last found to be unchanged.
    checked: Time,
    used: Time,
}

#[derive(Debug)]
enum State {
    /// Requested, but not often enough to be kept open.
    Counted,
    /// A file or directory.
    Open(Opened),
    /// The file does not exist or may not be read.
    Failed(OpenError),
}

impl FileCache {
    /// A cache of `max` entries; each is removed when it was not used for `inactive`.
    pub fn new(max: usize, inactive: Duration) -> Self {
        Self { entries: Lru::default(), max: max.max(1), inactive }
    }

    /// Returns what [`open`] returns, or returned a while ago.
    ///
    /// An entry is trusted for `valid`. Then the path is checked again: if the inode is the same, the file stays open
    /// and only its length and time are read anew. A file is kept open from its `min_uses`-th use on. Failures are kept
    /// only with `errors`.
    pub fn open(
        &mut self,
        path: &[u8],
        policy: &LinkPolicy,
        valid: Duration,
        min_uses: u32,
        errors: bool,
        now: Time,
    ) -> Result<Opened, OpenError> {
        let Some(entry) = self.entries.touch(path) else {
            let result = open(path, policy);
            self.expire(now);
            if result.is_ok() || errors {
                self.make_room();
                let state = State::of(&result, 1, min_uses);
                self.entries.insert(path, Entry { state, policy: *policy, uses: 1, checked: now, used: now });
            }
            return result;
        };
        entry.uses = entry.uses.saturating_add(1);
        entry.used = now;
        // nginx counts in whole seconds: with `valid=1s`, an entry is trusted until the second second begins.
        let is_valid = now.secs().saturating_sub(entry.checked.secs()) < valid.as_secs() && entry.policy == *policy;
        let result = match &entry.state {
            State::Open(opened) if is_valid => Ok(opened.clone()),
            State::Failed(error) if is_valid => Err(*error),
            State::Open(opened) => {
                entry.checked = now;
                reopen(opened, path, policy)
            }
            State::Counted | State::Failed(_) => {
                entry.checked = now;
                open(path, policy)
            }
        };
        entry.policy = *policy;
        entry.state = State::of(&result, entry.uses, min_uses);
        if result.is_err() && !errors {
            self.entries.remove(path);
        }
        self.expire(now);
        result
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether the cache is empty.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn make_room(&mut self) {
        while self.entries.len() >= self.max {
            self.entries.pop_oldest();
        }
    }

    fn expire(&mut self, now: Time) {
        for _ in 0..EXPIRED_AT_ONCE {
            match self.entries.oldest() {
                Some((_, entry)) if now.since(entry.used) > self.inactive => self.entries.pop_oldest(),
                _ => return,
            };
        }
    }
}

impl State {
    /// Directories are kept from the first use on, as in nginx: only their existence matters.
    fn of(result: &Result<Opened, OpenError>, uses: u32, min_uses: u32) -> Self {
        match result {
            Ok(opened) if opened.is_dir || uses >= min_uses => Self::Open(opened.clone()),
            Ok(_) => Self::Counted,
            Err(error) => Self::Failed(*error),
        }
    }
}

/// The file at `path` now: the same one with its new length and time, or another one.
fn reopen(opened: &Opened, path: &[u8], policy: &LinkPolicy) -> Result<Opened, OpenError> {
    let facts: Facts = stat(path, policy)?;
    if facts.inode == opened.inode && facts.is_dir == opened.is_dir {
        return Ok(Opened::new(opened.file.clone(), facts));
    }
    open(path, policy)
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt;
    use std::path::PathBuf;
    use std::sync::Arc;

    use super::*;

    struct Bench {
        dir: ::tempfile::TempDir,
        cache: FileCache,
        min_uses: u32,
        errors: bool,
    }

    impl Bench {
        fn new(max: usize, min_uses: u32, errors: bool) -> Self {
            let dir = ::tempfile::tempdir().expect("a temp dir can be made");
            Self { dir, cache: FileCache::new(max, Duration::from_secs(20)), min_uses, errors }
        }

        fn path(&self, name: &str) -> PathBuf {
            self.dir.path().join(name)
        }

        /// Puts another file under the name, by renaming as a deployment does.
        fn put(&self, name: &str, content: &str) {
            std::fs::write(self.path("new"), content).expect("written");
            std::fs::rename(self.path("new"), self.path(name)).expect("renamed");
        }

        /// Opens at `secs`, with `valid=10s`.
        fn open(&mut self, name: &str, secs: u64) -> Result<Opened, OpenError> {
            let path = self.path(name);
            self.cache.open(
                path.as_os_str().as_bytes(),
                &LinkPolicy::Off,
                Duration::from_secs(10),
                self.min_uses,
                self.errors,
                Time::from_secs(secs),
            )
        }
    }

    #[test]
    fn a_file_is_believed_while_it_is_valid() {
        let mut bench = Bench::new(10, 1, false);
        bench.put("f", "one");
        let first = bench.open("f", 0).expect("there");
        bench.put("f", "four");
        for (secs, len, same) in [(9, 3, true), (10, 4, false)] {
            let again = bench.open("f", secs).expect("there");
            assert_eq!((again.len, Arc::ptr_eq(&again.file, &first.file)), (len, same), "at {secs}");
        }
    }

    #[test]
    fn the_same_inode_stays_open_and_its_length_is_taken_anew() {
        let mut bench = Bench::new(10, 1, false);
        bench.put("f", "one");
        let first = bench.open("f", 0).expect("there");
        std::fs::write(bench.path("f"), "longer").expect("written");
        assert_eq!(bench.open("f", 5).expect("there").len, 3);
        let again = bench.open("f", 10).expect("there");
        assert_eq!(again.len, 6);
        assert!(Arc::ptr_eq(&again.file, &first.file));
    }

    #[test]
    fn a_file_seen_too_seldom_is_opened_each_time() {
        let mut bench = Bench::new(10, 3, false);
        bench.put("f", "one");
        let opened: Vec<Opened> = (0..4).map(|_| bench.open("f", 0).expect("there")).collect();
        let same: Vec<bool> = opened.windows(2).map(|pair| Arc::ptr_eq(&pair[0].file, &pair[1].file)).collect();
        assert_eq!(same, [false, false, true], "kept from the third use on");
    }

    #[test]
    fn failures_are_kept_when_asked_for() {
        for (errors, found_at_once) in [(false, true), (true, false)] {
            let mut bench = Bench::new(10, 1, errors);
            assert!(bench.open("f", 0).is_err());
            bench.put("f", "one");
            assert_eq!(bench.open("f", 1).is_ok(), found_at_once, "errors {errors}");
            assert!(bench.open("f", 10).is_ok(), "errors {errors}");
        }
    }

    #[test]
    fn a_file_that_went_away_is_forgotten() {
        let mut bench = Bench::new(10, 1, false);
        bench.put("f", "one");
        assert!(bench.open("f", 0).is_ok());
        std::fs::remove_file(bench.path("f")).expect("removed");
        assert!(bench.open("f", 9).is_ok());
        assert!(bench.open("f", 10).is_err());
        assert!(bench.cache.is_empty());
    }

    #[test]
    fn there_are_never_more_than_max() {
        let mut bench = Bench::new(2, 1, false);
        for name in ["a", "b", "c"] {
            bench.put(name, name);
            assert!(bench.open(name, 0).is_ok());
            assert!(bench.open("a", 0).is_ok());
            assert!(bench.cache.len() <= 2);
        }
        let a = bench.path("a");
        assert!(bench.cache.entries.touch(a.as_os_str().as_bytes()).is_some(), "the one used most stays");
    }

    #[test]
    fn what_is_not_used_is_let_go() {
        let mut bench = Bench::new(10, 1, false);
        for name in ["a", "b", "c"] {
            bench.put(name, name);
            assert!(bench.open(name, 0).is_ok());
        }
        for (secs, left) in [(20, 3), (21, 1)] {
            assert!(bench.open("a", secs).is_ok());
            assert_eq!(bench.cache.len(), left, "at {secs}");
        }
    }

    #[test]
    fn another_policy_is_another_question() {
        let mut bench = Bench::new(10, 1, false);
        bench.put("f", "one");
        std::os::unix::fs::symlink("f", bench.path("link")).expect("linked");
        assert!(bench.open("link", 0).is_ok());
        let path = bench.path("link");
        let refused = bench.cache.open(
            path.as_os_str().as_bytes(),
            &LinkPolicy::On { from_len: 0 },
            Duration::from_secs(10),
            1,
            false,
            Time::from_secs(1),
        );
        assert!(matches!(refused, Err(OpenError::Loop(_))));
    }
}
