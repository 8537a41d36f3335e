//! A node that notes what it is to do.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use larder_cluster::{Away, Carrier, Cluster, Heard, Known, Level, Place, Server, Settings, Start, Status, Trust};
use larder_testkit::{PATIENCE, Redis};

/// What a node was told.
#[derive(Default)]
pub struct Notes {
    seen: Mutex<Seen>,
    changed: Condvar,
}

/// What a node was told.
#[derive(Clone, Default)]
pub struct Seen {
    /// Purges of others, as `ZONE: WORDS`.
    pub purges: Vec<String>,
    /// Those that people are told of, as `NODE: ZONE: WORDS`.
    pub told: Vec<String>,
    /// How long ago each was said.
    pub ages: Vec<Duration>,
    /// How often everything became stale.
    pub stale: usize,
    /// Lines for the log.
    pub lines: Vec<String>,
    /// Whether it was asked to keep a place.
    pub has_kept: bool,
    /// The last place that was kept.
    pub place: Option<Place>,
    /// Up to where everything was carried out, by the last note.
    pub reached: Option<Place>,
    /// Whether purges of `/held` are carried out.
    pub is_released: bool,
}

impl Notes {
    fn add(&self, note: impl FnOnce(&mut Seen)) {
        note(&mut self.seen.lock().unwrap());
        self.changed.notify_all();
    }
}

impl Carrier for Notes {
    fn carry_out(&self, zone: &str, words: &str, ago: Duration) -> bool {
        if words.ends_with("/held") {
            let seen = self.seen.lock().unwrap();
            drop(self.changed.wait_timeout_while(seen, PATIENCE, |seen| !seen.is_released).unwrap());
        }
        self.add(|seen| {
            seen.purges.push(format!("{zone}: {words}"));
            seen.ages.push(ago);
        });
        words.contains(" url ")
    }

    fn tell(&self, zone: &str, words: &str, node: Option<&str>) {
        self.add(|seen| seen.told.push(format!("{}: {zone}: {words}", node.unwrap_or("-"))));
    }

    fn count_as_stale(&self) {
        self.add(|seen| seen.stale += 1);
    }

    fn keep(&self, place: &Place) -> bool {
        let mut is_first = false;
        self.add(|seen| {
            is_first = !seen.has_kept;
            seen.has_kept = true;
            if !is_first {
                seen.place = Some(place.clone());
            }
        });
        // A disk may need a while.
        !is_first
    }

    fn note(&self, place: &dyn Fn() -> Option<Place>) {
        let reached = place();
        self.add(|seen| seen.reached = reached);
    }

    fn say(&self, level: Level, line: &str) {
        self.add(|seen| seen.lines.push(format!("{level:?} {line}")));
    }
}

/// A node.
pub struct Node {
    pub cluster: Arc<Cluster>,
    pub notes: Arc<Notes>,
}

impl Node {
    /// Starts one of this name that has read nothing yet.
    pub fn start(redis: &Redis, name: &str) -> Self {
        Self::start_with(settings(redis, name), None, None)
    }

    /// Starts one that had read so far.
    pub fn start_with(settings: Settings, place: Option<Place>, unsent: Option<PathBuf>) -> Self {
        Self::start_heard(settings, place, unsent, Heard::default())
    }

    /// Starts one that goes on where another of this process had read so far.
    pub fn start_heard(settings: Settings, place: Option<Place>, unsent: Option<PathBuf>, heard: Heard) -> Self {
        let notes = Arc::new(Notes::default());
        let carrier = Arc::clone(&notes) as Arc<dyn Carrier>;
        let trust = Arc::new(Trust::always(clock));
        let start = Start { settings, carrier, place, unsent, heard, trust };
        Self { cluster: Cluster::start(start).expect("threads start"), notes }
    }

    /// Waits until it has caught up, or knows that it cannot.
    pub fn settled(self) -> Self {
        assert!(self.cluster.wait(PATIENCE), "nothing happens: {:?}", self.seen().lines);
        self
    }

    /// What it was told.
    pub fn seen(&self) -> Seen {
        self.notes.seen.lock().unwrap().clone()
    }

    /// Has it carry out what it holds.
    pub fn release(&self) {
        self.notes.add(|seen| seen.is_released = true);
    }

    /// Waits until what it was told is so.
    pub fn until(&self, is_so: impl Fn(&Seen) -> bool) -> Seen {
        let seen = self.notes.seen.lock().unwrap();
        let (seen, time) = self.notes.changed.wait_timeout_while(seen, PATIENCE, |seen| !is_so(seen)).unwrap();
        assert!(!time.timed_out(), "it never comes: {:?} {:?}", seen.purges, seen.lines);
        seen.clone()
    }

    /// Waits for a line of the log with this text.
    pub fn until_said(&self, text: &str) -> String {
        let seen = self.until(|seen| seen.lines.iter().any(|line| line.contains(text)));
        seen.lines.into_iter().find(|line| line.contains(text)).expect("it was there")
    }

    /// Waits until stored pages may be used, or may not.
    pub fn until_trusted(&self, is_trusted: bool) {
        let until = Instant::now() + PATIENCE;
        while self.cluster.is_trusted() != is_trusted {
            assert!(Instant::now() < until, "it is never so: {:?}", self.seen().lines);
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Purges, and waits until that is known.
    pub fn purge(&self, words: &str) -> Known {
        self.cluster.push("pages", words);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("it can be built");
        runtime.block_on(self.cluster.known(self.cluster.newest()))
    }
}

impl Node {
    /// Purges until that is known everywhere.
    pub fn until_known(&self, words: &str) {
        let until = Instant::now() + PATIENCE;
        loop {
            let known = self.purge(words);
            if known.is_everywhere() {
                return;
            }
            assert!(Instant::now() < until, "{}", known.text());
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.cluster.stop();
    }
}

/// Those of a node of this name.
pub fn settings(redis: &Redis, name: &str) -> Settings {
    Settings {
        servers: vec![Server { host: "127.0.0.1".to_owned(), port: redis.port() }],
        tls: false,
        ca: None,
        user: None,
        password: None,
        database: 0,
        sentinel: None,
        name: "shop".to_owned(),
        node: name.to_owned(),
        timeout: Duration::from_secs(20),
        away: Away::Serve,
        share: None,
    }
}

/// Waits until the status of a node is so.
pub fn until(node: &Node, is_so: impl Fn(&Status) -> bool) -> Status {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let status = node.cluster.status();
        if is_so(&status) {
            return status;
        }
        assert!(Instant::now() < deadline, "it is never so: {status:#?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A folder's files, by name.
pub fn files(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("it is there");
    entries.map(|entry| entry.expect("it is read").file_name().to_string_lossy().into_owned()).collect()
}

/// Goes on while the machine sleeps.
pub fn clock() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    Duration::new(now.tv_sec.try_into().unwrap(), now.tv_nsec.try_into().unwrap())
}
