//! Access logs with variables in their paths, and `open_log_file_cache`, which keeps some of them open.
//!
//! Without the cache, a log is opened for the lines of one turn of the loop, as nginx opens it for each line. So a
//! renamed file or a new folder is noticed at once. The previous file is kept for a while and gets the lines that the
//! new one refuses: logrotate makes a new file that we may not write at first.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use larder_conf::model::LogFileCache;
use larder_http::Time;

use super::access::{LogWriter, Target};
use super::sink::LogFile;

/// How many bytes one turn of the loop may log to a file before they are written at once.
pub const TURN_BYTES: usize = 16 * 1024;

/// How many logs are open at once without the cache.
const OPEN_MAX: usize = 256;

/// How long a file outside the cache is kept to take the lines that a new file of its name refuses.
const FALLBACK: Duration = Duration::from_secs(10);

/// The logs of one worker, by the path that their variables give.
#[derive(Default)]
pub struct NamedLogs {
    all: HashMap<Vec<u8>, Named>,
    /// Counts uses, to find the log that was not used for the longest time.
    clock: u64,
}

struct Named {
    /// `None` while the file is closed.
    writer: Option<LogWriter>,
    /// The cache that keeps it; `None` if it is open for this turn only.
    cache: Option<LogFileCache>,
    /// The number of uses since it was last inactive.
    uses: u64,
    /// The clock at the last use.
    used: u64,
    used_at: Time,
    opened_at: Time,
    /// Whether the file was opened in an earlier turn and is not cached: another file may have the name by now.
    is_old: bool,
}

impl NamedLogs {
    /// The log of this name, opened if needed; or the name, and why it cannot be opened.
    pub fn writer(
        &mut self,
        name: Vec<u8>,
        cache: Option<LogFileCache>,
        now: Time,
    ) -> Result<&mut LogWriter, (Vec<u8>, io::Error)> {
        self.clock += 1;
        if !self.all.contains_key(&name) {
            self.make_room(cache.map_or(OPEN_MAX, |cache| cache.max));
        }
        let fresh = Named { writer: None, cache, uses: 0, used: 0, used_at: now, opened_at: now, is_old: false };
        let path = name.clone();
        let named = self.all.entry(name).or_insert(fresh);
        named.cache = cache;
        if let Some(cache) = cache {
            if now.since(named.used_at) > cache.inactive {
                named.uses = 0;
            }
            if now.since(named.opened_at) > cache.valid {
                // Another file may have its name by now.
                named.writer = None;
            }
        }
        named.uses += 1;
        named.used = self.clock;
        named.used_at = now;
        let writer = match named.writer.take() {
            Some(writer) if !named.is_old => writer,
            before => match (LogFile::open(Path::new(OsStr::from_bytes(&path))), before) {
                (Ok(file), _) => {
                    named.opened_at = now;
                    LogWriter::new(Target::File(Arc::new(file)), Some(TURN_BYTES), None, None)
                }
                (Err(_), Some(before)) if now.since(named.opened_at) <= FALLBACK => before,
                (Err(error), _) => return Err((path, error)),
            },
        };
        named.is_old = false;
        Ok(named.writer.insert(writer))
    }

    /// Whether there is an entry for the log of this name.
    pub fn is_open(&self, name: &[u8]) -> bool {
        self.all.contains_key(name)
    }

    /// The logs that are open.
    pub fn open_ones(&mut self) -> impl Iterator<Item = &mut LogWriter> {
        self.all.values_mut().filter_map(|named| named.writer.as_mut())
    }

    /// Closes logs that are not used often enough to be cached, and forgets uncached ones that were not used lately.
    /// Their lines were written before.
    pub fn close_idle(&mut self, now: Time) {
        self.all.retain(|_, named| {
            let Some(cache) = named.cache else {
                named.is_old = true;
                return named.writer.is_some() && now.since(named.opened_at) <= FALLBACK;
            };
            if named.uses < cache.min_uses {
                named.writer = None;
            }
            true
        });
    }

    /// Forgets all logs.
    pub fn clear(&mut self) {
        self.all.clear();
    }

    /// Forgets the log that was not used for the longest time, to make room for one more.
    fn make_room(&mut self, max: usize) {
        while self.all.len() >= max.max(1) {
            let oldest = self.all.iter().min_by_key(|(_, named)| named.used).map(|(name, _)| name.clone());
            let Some(oldest) = oldest else { return };
            self.all.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use jiff::tz::TimeZone;

    use super::super::stamp::Stamps;
    use super::*;

    struct Bench {
        dir: ::tempfile::TempDir,
        logs: NamedLogs,
        cache: Option<LogFileCache>,
    }

    impl Bench {
        fn new(cache: Option<LogFileCache>) -> Self {
            let dir = ::tempfile::tempdir().expect("a temp dir can be made");
            std::fs::create_dir(dir.path().join("a")).expect("made");
            Self { dir, logs: NamedLogs::default(), cache }
        }

        /// Logs a line, and ends the turn of the loop.
        fn log(&mut self, name: &str, secs: u64) -> bool {
            let path = self.dir.path().join("a").join(name).as_os_str().as_bytes().to_vec();
            let now = Time::from_secs(secs);
            let logged = match self.logs.writer(path, self.cache, now) {
                Ok(writer) => writer.line(now, &mut Stamps::new(TimeZone::UTC), |out| out.push(b'x')).is_ok(),
                Err(_) => false,
            };
            for writer in self.logs.open_ones() {
                writer.flush(now).expect("written");
            }
            self.logs.close_idle(now);
            logged
        }

        /// Moves the folder away: then only open files can be written.
        fn move_away(&self) {
            std::fs::rename(self.dir.path().join("a"), self.dir.path().join("b")).expect("moved");
        }
    }

    fn cache(max: usize, min_uses: u64) -> Option<LogFileCache> {
        let (inactive, valid) = (Duration::from_secs(20), Duration::from_secs(60));
        Some(LogFileCache { max, inactive, min_uses, valid })
    }

    #[test]
    fn only_what_the_cache_keeps_is_open_after_a_turn() {
        for (cache, before, after) in [
            (cache(3, 2), &["x", "x", "y"][..], &[("x", true), ("y", false)][..]),
            (
                cache(3, 2),
                &["x", "x", "y", "z", "z", "w", "w"],
                &[("y", false), ("z", true), ("w", true), ("x", false)],
            ),
            (cache(1, 1), &["x", "y"], &[("x", false)]),
        ] {
            let mut bench = Bench::new(cache);
            for name in before {
                assert!(bench.log(name, 0), "{name}");
            }
            bench.move_away();
            for (name, is_open) in after {
                assert_eq!(bench.log(name, 1), *is_open, "{name} of {before:?}");
            }
        }
    }

    #[test]
    fn a_log_that_is_not_kept_is_opened_for_each_turn_and_the_one_before_takes_what_it_does_not() {
        let mut bench = Bench::new(None);
        let lines = |bench: &Bench, path: &str| std::fs::read(bench.dir.path().join(path)).map_or(0, |log| log.len());
        bench.log("x", 0);
        std::fs::rename(bench.dir.path().join("a/x"), bench.dir.path().join("a/x.1")).expect("renamed");
        bench.log("x", 1);
        assert_eq!((lines(&bench, "a/x"), lines(&bench, "a/x.1")), (2, 2));
        bench.move_away();
        assert!(bench.log("x", 2));
        assert_eq!(lines(&bench, "b/x"), 4, "it cannot be opened");
        assert!(bench.log("y", 20).eq(&false) && !bench.log("x", 20), "there is none of late");
    }

    #[test]
    fn what_is_kept_is_looked_for_again_after_its_time() {
        for (secs, is_open) in [(10, true), (61, false)] {
            let mut bench = Bench::new(cache(3, 1));
            bench.log("x", 0);
            bench.move_away();
            assert_eq!(bench.log("x", secs), is_open, "after {secs}");
        }
    }

    #[test]
    fn uses_that_are_long_ago_do_not_count() {
        let mut bench = Bench::new(cache(3, 2));
        bench.log("x", 0);
        bench.log("x", 30);
        bench.move_away();
        assert!(!bench.log("x", 31), "it was used once within the time");
    }
}
