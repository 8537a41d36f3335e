//! A control group whose memory is limited, made for one run.

use crate::load::{LoadError, cannot};
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle, sleep};
use std::time::Duration;

/// Time between two looks at what is used.
const INTERVAL: Duration = Duration::from_millis(20);

/// How often, and how long between, the group is tried to be removed: its processes end a moment before it is empty.
const REMOVALS: u32 = 100;
const REMOVAL_PAUSE: Duration = Duration::from_millis(50);

/// Where the controller of memory is, in both versions.
const ONE: &str = "/sys/fs/cgroup/memory";
const TWO: &str = "/sys/fs/cgroup";

/// A group of version one or two. Removed when dropped, once nobody is in it.
pub struct Group {
    files: Files,
}

/// The files of a group.
#[derive(Clone)]
struct Files {
    folder: PathBuf,
    version: Version,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

impl Group {
    /// Makes one that may use `limit` bytes and no swap, or says why there is none.
    pub fn make(limit: u64) -> Result<Group, LoadError> {
        let name = format!("larder-squeeze-{}", std::process::id());
        let one = PathBuf::from(ONE).join("memory.limit_in_bytes");
        let two = fs::read_to_string(PathBuf::from(TWO).join("cgroup.controllers")).unwrap_or_default();
        let (top, version) = if one.exists() {
            (ONE, Version::One)
        } else if two.split_whitespace().any(|controller| controller == "memory") {
            let hands_down = fs::write(PathBuf::from(TWO).join("cgroup.subtree_control"), "+memory");
            hands_down.map_err(cannot("limit the memory of control groups (this needs root)"))?;
            (TWO, Version::Two)
        } else {
            return Err(LoadError::Usage("this system has no control groups that limit memory".into()));
        };
        let folder = PathBuf::from(top).join(name);
        fs::create_dir(&folder).map_err(cannot("make a control group (this needs root)"))?;
        let group = Group { files: Files { folder, version } };
        let (file, swap, none) = match version {
            Version::One => ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes", limit),
            Version::Two => ("memory.max", "memory.swap.max", 0),
        };
        fs::write(group.files.folder.join(file), limit.to_string()).map_err(cannot("limit a control group"))?;
        // Where there is no swap, or it is not counted, there may be no such file.
        let _ = fs::write(group.files.folder.join(swap), none.to_string());
        Ok(group)
    }

    /// Which version it is of.
    pub fn version(&self) -> u8 {
        match self.files.version {
            Version::One => 1,
            Version::Two => 2,
        }
    }

    /// A process that writes its id there is in the group, with all it starts.
    pub fn members(&self) -> PathBuf {
        self.files.folder.join("cgroup.procs")
    }

    /// How many processes the kernel has killed in it.
    pub fn kills(&self) -> u64 {
        let file = match self.files.version {
            Version::One => "memory.oom_control",
            Version::Two => "memory.events",
        };
        field(&fs::read_to_string(self.files.folder.join(file)).unwrap_or_default(), "oom_kill")
    }

    /// The most that was used, with what is only a copy of files and can be dropped.
    pub fn peak(&self) -> u64 {
        let file = match self.files.version {
            Version::One => "memory.max_usage_in_bytes",
            Version::Two => "memory.peak",
        };
        self.files.number(file)
    }
}

impl Files {
    /// What is used, without what can be dropped.
    fn held(&self) -> u64 {
        let (usage, fields): (_, &[&str]) = match self.version {
            Version::One => ("memory.usage_in_bytes", &["total_inactive_file", "total_active_file"]),
            Version::Two => ("memory.current", &["inactive_file", "active_file"]),
        };
        let stat = fs::read_to_string(self.folder.join("memory.stat")).unwrap_or_default();
        self.number(usage).saturating_sub(fields.iter().map(|name| field(&stat, name)).sum())
    }

    fn number(&self, file: &str) -> u64 {
        fs::read_to_string(self.folder.join(file)).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for _ in 0..REMOVALS {
            if fs::remove_dir(&self.files.folder).is_ok() {
                return;
            }
            sleep(REMOVAL_PAUSE);
        }
        eprintln!("{} is left behind", self.files.folder.display());
    }
}

/// The most that was held, found by looking again and again.
pub struct Watch {
    most: Arc<AtomicU64>,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    /// Looks at `group` until it is dropped.
    pub fn begin(group: &Group) -> Watch {
        let (most, is_over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let (into, over) = (Arc::clone(&most), Arc::clone(&is_over));
        let files = group.files.clone();
        let thread = thread::spawn(move || {
            while !over.load(Ordering::Relaxed) {
                into.fetch_max(files.held(), Ordering::Relaxed);
                sleep(INTERVAL);
            }
        });
        Watch { most, is_over, thread: Some(thread) }
    }

    /// The most since the last time.
    pub fn take(&self) -> u64 {
        self.most.swap(0, Ordering::Relaxed)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // It only looks.
            let _ = thread.join();
        }
    }
}

/// The number behind a name, in a file of one such pair a line.
fn field(text: &str, name: &str) -> u64 {
    let pairs = text.lines().filter_map(|line| line.split_once(' '));
    pairs.filter(|(found, _)| *found == name).find_map(|(_, value)| value.trim().parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_their_whole_name() {
        let text = "oom_kill_disable 0\nunder_oom 1\noom_kill 8\n";
        for (name, value) in [("oom_kill", 8), ("under_oom", 1), ("oom", 0), ("", 0)] {
            assert_eq!(field(text, name), value, "{name}");
        }
    }
}
