//! Whether a disk shelf works, and the events that it reports when that changes.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};

use super::keys::KeySet;

/// The state of a disk shelf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskState {
    /// It is being opened; pages of tables that have been read can be found.
    Opening,
    /// Another process uses its folder.
    Waiting,
    /// It reads and writes.
    Serving,
    /// Writing failed; it still reads.
    ReadOnly,
    /// It failed, and neither reads nor writes until it can be opened again.
    Out,
    /// It was stopped.
    Stopped,
}

/// Something that an operator should know about a disk shelf. Its text is a sentence that says what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DiskEvent {
    /// All of its tables have been read.
    Opened {
        /// The folder.
        dir: PathBuf,
        /// Pages found.
        records: u64,
        /// Segment files.
        segments: usize,
    },
    /// The folder has files that do not belong to the shelf.
    Foreign {
        /// The folder.
        dir: PathBuf,
        /// How many names.
        names: usize,
        /// One of them.
        example: String,
    },
    /// Another process uses the folder; it is opened when that process releases it.
    Waiting {
        /// The folder.
        dir: PathBuf,
    },
    /// The old content cannot be used; the shelf begins empty.
    Afresh {
        /// The folder.
        dir: PathBuf,
        /// What was wrong.
        reason: String,
    },
    /// The limit is too small to store anything.
    TooSmall {
        /// The folder.
        dir: PathBuf,
        /// The limit.
        bytes_max: u64,
    },
    /// Something does not work, and requests are answered without it. The text says what.
    Degraded(String),
    /// It works again.
    Recovered {
        /// The folder.
        dir: PathBuf,
    },
    /// A file in its folder asks to remove everything: from now on nothing older is found on it.
    Clearing {
        /// The folder.
        dir: PathBuf,
    },
    /// Everything was removed, as asked.
    Cleared {
        /// The folder.
        dir: PathBuf,
    },
    /// Somebody emptied or deleted the folder: from now on nothing older is found on it.
    Emptied {
        /// The folder.
        dir: PathBuf,
        /// Whether it is known that nothing was mounted over it or unmounted.
        is_in_place: bool,
    },
    /// Somebody deleted segments: the pages in them are no longer found.
    Deleted {
        /// The folder.
        dir: PathBuf,
        /// How many segments.
        segments: usize,
        /// The keys of pages that were wholly or partly in them.
        keys: KeySet,
    },
}

impl DiskEvent {
    /// Whether an operator should do something about it.
    pub fn is_problem(&self) -> bool {
        match self {
            Self::Afresh { .. } | Self::TooSmall { .. } | Self::Degraded(_) => true,
            Self::Opened { .. }
            | Self::Foreign { .. }
            | Self::Waiting { .. }
            | Self::Recovered { .. }
            | Self::Clearing { .. }
            | Self::Cleared { .. }
            | Self::Emptied { .. }
            | Self::Deleted { .. } => false,
        }
    }
}

impl fmt::Display for DiskEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Opened { dir, records, segments } => {
                write!(f, "cache {} is open with {records} pages in {segments} segments", dir.display())
            }
            Self::Foreign { dir, names, example } => write!(
                f,
                "cache {} shares its folder with {names} other files or folders, such as \"{example}\"; they are left \
                 alone and not counted, and may be deleted if they are another server's cache",
                dir.display()
            ),
            Self::Waiting { dir } => write!(
                f,
                "cache {} is in use by another process; pages are served from memory until that one has stopped",
                dir.display()
            ),
            Self::Afresh { dir, reason } => write!(f, "cache {} begins empty: {reason}", dir.display()),
            Self::TooSmall { dir, bytes_max } => write!(
                f,
                "cache {} stores nothing, because its max_size of {bytes_max} bytes is less than 512k; raise it",
                dir.display()
            ),
            Self::Degraded(sentence) => f.write_str(sentence),
            Self::Recovered { dir } => write!(f, "cache {} works again", dir.display()),
            Self::Clearing { dir } => write!(f, "cache {} is being cleared, as a file in it asks", dir.display()),
            Self::Cleared { dir } => write!(f, "cache {} was cleared", dir.display()),
            Self::Emptied { dir, .. } => write!(
                f,
                "cache {} was emptied by hand; its pages are dropped, from memory too, and it begins anew",
                dir.display()
            ),
            Self::Deleted { dir, segments, .. } => write!(
                f,
                "cache {} lost {segments} segments, which were deleted by hand; their pages are dropped, from memory too",
                dir.display()
            ),
        }
    }
}

/// Where events go.
pub(super) type Events = Arc<dyn Fn(DiskEvent) + Send + Sync>;

/// The state of a shelf, and the fault counts that may change it.
pub(super) struct Health {
    state: AtomicU8,
    /// `Degraded` was reported, and `Recovered` not yet.
    is_said: AtomicBool,
    /// A leaky count of failed reads: each adds [`FAULT_WEIGHT`], each good read takes one off. Then the same of slow
    /// reads.
    read_faults: AtomicU32,
    slow_reads: AtomicU32,
    /// When it became worse.
    since: AtomicU64,
    dir: PathBuf,
    events: Events,
}

impl Health {
    pub(super) fn new(dir: PathBuf, events: Events) -> Self {
        Self {
            state: AtomicU8::new(code(DiskState::Opening)),
            is_said: AtomicBool::new(false),
            read_faults: AtomicU32::new(0),
            slow_reads: AtomicU32::new(0),
            since: AtomicU64::new(0),
            dir,
            events,
        }
    }

    pub(super) fn state(&self) -> DiskState {
        match self.state.load(Ordering::Acquire) {
            0 => DiskState::Opening,
            1 => DiskState::Waiting,
            2 => DiskState::Serving,
            3 => DiskState::ReadOnly,
            4 => DiskState::Out,
            _ => DiskState::Stopped,
        }
    }

    pub(super) fn set(&self, state: DiskState) {
        self.state.store(code(state), Ordering::Release);
    }

    /// Whether pages can be found.
    pub(super) fn reads(&self) -> bool {
        match self.state() {
            DiskState::Opening | DiskState::Serving | DiskState::ReadOnly => true,
            DiskState::Waiting | DiskState::Out | DiskState::Stopped => false,
        }
    }

    /// Whether pages are accepted for writing.
    pub(super) fn writes(&self) -> bool {
        match self.state() {
            DiskState::Opening | DiskState::Serving => true,
            DiskState::ReadOnly | DiskState::Waiting | DiskState::Out | DiskState::Stopped => false,
        }
    }

    /// Changes to a worse state, and reports once why.
    pub(super) fn worsen(&self, state: DiskState, now: u64, why: &str) {
        if self.state() == DiskState::Stopped {
            return;
        }
        self.since.store(now, Ordering::Relaxed);
        self.set(state);
        self.complain(why);
    }

    /// Reports once that something does not work.
    pub(super) fn complain(&self, why: &str) {
        if !self.is_said.swap(true, Ordering::Relaxed) {
            self.say(DiskEvent::Degraded(format!("cache {}: {why}", self.dir.display())));
        }
    }

    /// Reports that it works again, if it was reported that it does not.
    pub(super) fn recover(&self) {
        if self.is_said.swap(false, Ordering::Relaxed) {
            self.say(DiskEvent::Recovered { dir: self.dir.clone() });
        }
    }

    /// When it last became worse.
    pub(super) fn since(&self) -> u64 {
        self.since.load(Ordering::Relaxed)
    }

    /// Sets the time from which the next attempt is counted.
    pub(super) fn set_since(&self, now: u64) {
        self.since.store(now, Ordering::Relaxed);
    }

    pub(super) fn say(&self, event: DiskEvent) {
        (self.events)(event);
    }

    /// Notes a read from the disk that was in time. Not for reads from the page cache, which would hide a dead disk.
    pub(super) fn read_well(&self) {
        for faults in [&self.read_faults, &self.slow_reads] {
            // Does nothing at zero.
            let _ = faults.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |weight| weight.checked_sub(1));
        }
    }

    /// Notes a failed read.
    pub(super) fn read_failed(&self, now: u64, error: &std::io::Error) {
        if self.is_one_too_many(&self.read_faults) {
            self.worsen(
                DiskState::Out,
                now,
                &format!("reading fails ({error}); it is left out and tried again every 10 s; look at the disk"),
            );
        }
    }

    /// Notes a read that took too long.
    pub(super) fn read_slowly(&self, now: u64) {
        if self.is_one_too_many(&self.slow_reads) {
            self.worsen(
                DiskState::Out,
                now,
                "reads take longer than a second; it is left out and tried again every 10 s; look at the disk",
            );
        }
    }

    /// Counts a fault. True if it takes the shelf out.
    fn is_one_too_many(&self, faults: &AtomicU32) -> bool {
        // A read that ends while the shelf is out began before that, and does not count later.
        if !self.reads() || faults.fetch_add(FAULT_WEIGHT, Ordering::Relaxed) + FAULT_WEIGHT < FAULTS_MAX * FAULT_WEIGHT
        {
            return false;
        }
        faults.store(0, Ordering::Relaxed);
        true
    }
}

fn code(state: DiskState) -> u8 {
    match state {
        DiskState::Opening => 0,
        DiskState::Waiting => 1,
        DiskState::Serving => 2,
        DiskState::ReadOnly => 3,
        DiskState::Out => 4,
        DiskState::Stopped => 5,
    }
}

/// This many failed or slow reads in a row take the shelf out.
const FAULTS_MAX: u32 = 8;
/// How much a fault counts; a good read counts minus one. So more than one fault among this many good reads also takes
/// the shelf out in time. A good disk with a few bad sectors has fewer.
const FAULT_WEIGHT: u32 = 8;
