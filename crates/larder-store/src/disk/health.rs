//! Whether a shelf works, and what it says when that changes.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};

use super::keys::KeySet;

/// What a shelf does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskState {
    /// It is being opened; what has been read of its tables can be found.
    Opening,
    /// Another process has it.
    Waiting,
    /// It reads and writes.
    Serving,
    /// It reads, and writing failed.
    ReadOnly,
    /// It failed, and neither reads nor writes until it can be opened anew.
    Out,
    /// It was stopped.
    Stopped,
}

/// Something an operator should know of a disk shelf. As text it is a sentence that says what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DiskEvent {
    /// Its tables are read.
    Opened {
        /// The folder.
        dir: PathBuf,
        /// Pages found.
        records: u64,
        /// Segment files.
        segments: usize,
    },
    /// The folder has files that are not the shelf's.
    Foreign {
        /// The folder.
        dir: PathBuf,
        /// How many names.
        names: usize,
        /// One of them.
        example: String,
    },
    /// Another process uses the folder; it is opened when that one lets go of it.
    Waiting {
        /// The folder.
        dir: PathBuf,
    },
    /// What was there could not be used, and the shelf begins empty.
    Afresh {
        /// The folder.
        dir: PathBuf,
        /// What was wrong.
        reason: String,
    },
    /// The limit is too small for anything to be stored.
    TooSmall {
        /// The folder.
        dir: PathBuf,
        /// The limit.
        bytes_max: u64,
    },
    /// Something does not work; requests are answered without it. The sentence says what.
    Degraded(String),
    /// What did not work works again.
    Recovered {
        /// The folder.
        dir: PathBuf,
    },
    /// Its folder says that everything is to be removed: nothing that was stored before is found on it any more.
    Clearing {
        /// The folder.
        dir: PathBuf,
    },
    /// Everything was removed, as was asked for.
    Cleared {
        /// The folder.
        dir: PathBuf,
    },
    /// The folder was emptied, or taken away, by somebody else: what was stored before is not found on it any more.
    Emptied {
        /// The folder.
        dir: PathBuf,
    },
    /// Somebody else took segments away: what lay in them is not found on it any more.
    Deleted {
        /// The folder.
        dir: PathBuf,
        /// How many.
        segments: usize,
        /// The keys of the pages of which something was in them.
        keys: KeySet,
    },
}

impl DiskEvent {
    /// Whether somebody should look after it.
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
            Self::Emptied { dir } => write!(
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

/// The state of a shelf, and what is counted until it changes.
pub(super) struct Health {
    state: AtomicU8,
    /// Degraded was said, and not yet that it is over.
    is_said: AtomicBool,
    /// What failed reads weigh, less the good ones since; and slow ones.
    read_faults: AtomicU32,
    slow_reads: AtomicU32,
    /// When it became worse, as told.
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

    /// Whether pages are taken to be written.
    pub(super) fn writes(&self) -> bool {
        match self.state() {
            DiskState::Opening | DiskState::Serving => true,
            DiskState::ReadOnly | DiskState::Waiting | DiskState::Out | DiskState::Stopped => false,
        }
    }

    /// Goes to a worse state, and says once why.
    pub(super) fn worsen(&self, state: DiskState, now: u64, why: &str) {
        if self.state() == DiskState::Stopped {
            return;
        }
        self.since.store(now, Ordering::Relaxed);
        self.set(state);
        self.complain(why);
    }

    /// Says once that something does not work.
    pub(super) fn complain(&self, why: &str) {
        if !self.is_said.swap(true, Ordering::Relaxed) {
            self.say(DiskEvent::Degraded(format!("cache {}: {why}", self.dir.display())));
        }
    }

    /// Says that it works again, if it was said that it does not.
    pub(super) fn recover(&self) {
        if self.is_said.swap(false, Ordering::Relaxed) {
            self.say(DiskEvent::Recovered { dir: self.dir.clone() });
        }
    }

    /// When it last became worse.
    pub(super) fn since(&self) -> u64 {
        self.since.load(Ordering::Relaxed)
    }

    /// A later time to count from until the next look.
    pub(super) fn set_since(&self, now: u64) {
        self.since.store(now, Ordering::Relaxed);
    }

    pub(super) fn say(&self, event: DiskEvent) {
        (self.events)(event);
    }

    /// The disk was read, in time. Not for what was in memory: that would hide a dead disk behind what it once gave.
    pub(super) fn read_well(&self) {
        for faults in [&self.read_faults, &self.slow_reads] {
            // Refused at none, which is as good.
            let _ = faults.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |weight| weight.checked_sub(1));
        }
    }

    /// A read failed.
    pub(super) fn read_failed(&self, now: u64, error: &std::io::Error) {
        if self.is_one_too_many(&self.read_faults) {
            self.worsen(
                DiskState::Out,
                now,
                &format!("reading fails ({error}); it is left out and tried again every 10 s; look at the disk"),
            );
        }
    }

    /// A read took too long.
    pub(super) fn read_slowly(&self, now: u64) {
        if self.is_one_too_many(&self.slow_reads) {
            self.worsen(
                DiskState::Out,
                now,
                "reads take longer than a second; it is left out and tried again every 10 s; look at the disk",
            );
        }
    }

    /// Counts a fault, and says whether it takes the shelf out.
    fn is_one_too_many(&self, faults: &AtomicU32) -> bool {
        // Those that end while it is out began before, and do not count when it is back.
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

/// As many failed or slow reads in a row take the shelf out;
const FAULTS_MAX: u32 = 8;
/// and so do more than one among as many good ones, before long. A few bad sectors on a disk that is well are fewer.
const FAULT_WEIGHT: u32 = 8;
