//! Reads the memory limits of the process's control groups, and how much of them is used.

use std::fs;

/// A control group of the process, or a parent group, where memory can be limited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    folder: String,
    version: Version,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

impl Group {
    /// The groups of this process, of both versions of control groups, with or without a limit now.
    pub fn all() -> Vec<Self> {
        of(&fs::read_to_string("/proc/self/cgroup").unwrap_or_default())
    }

    /// The groups of a process whose `/proc/PID/cgroup` has this text.
    pub fn named_in(groups: &str) -> Vec<Self> {
        of(groups)
    }

    /// The limit in bytes, if there is one below `machine`.
    pub fn limit(&self, machine: u64) -> Option<u64> {
        self.limit_by(machine, |path| fs::read_to_string(path).ok())
    }

    /// The same where `read` reads the files.
    pub fn limit_by(&self, machine: u64, read: impl Fn(&str) -> Option<String>) -> Option<u64> {
        let files: &[&str] = match self.version {
            Version::One => &["memory.limit_in_bytes"],
            // Memory beyond `high` is throttled until nothing moves, so it is a limit too.
            Version::Two => &["memory.max", "memory.high"],
        };
        let found = files.iter().filter_map(|file| bytes(&read(&self.path(file))?));
        found.filter(|&bytes| bytes < machine).min()
    }

    /// Its folder.
    pub fn folder(&self) -> &str {
        &self.folder
    }

    /// How many bytes of the limit are used by all processes of the group, without what can be dropped because it is
    /// also on a disk: heaps, memory files, sockets, tables of the kernel.
    pub fn used(&self) -> Option<u64> {
        let (usage, fields): (&str, &[&str]) = match self.version {
            Version::One => ("memory.usage_in_bytes", &["total_inactive_file", "total_active_file"]),
            Version::Two => ("memory.current", &["inactive_file", "active_file", "slab_reclaimable"]),
        };
        let usage = bytes(&self.read(usage)?)?;
        Some(usage.saturating_sub(sum(&self.read("memory.stat")?, fields)))
    }

    fn read(&self, file: &str) -> Option<String> {
        fs::read_to_string(self.path(file)).ok()
    }

    fn path(&self, file: &str) -> String {
        format!("{}/{file}", self.folder)
    }
}

/// The groups that `/proc/self/cgroup` names, and all their parents. In a container the names may be the host's; then
/// only the topmost group is visible.
fn of(groups: &str) -> Vec<Group> {
    let mut found = Vec::new();
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        let (top, version) = match controllers {
            "" => ("/sys/fs/cgroup", Version::Two),
            _ if controllers.split(',').any(|name| name == "memory") => ("/sys/fs/cgroup/memory", Version::One),
            _ => continue,
        };
        let mut path = path.trim_end_matches('/');
        loop {
            found.push(Group { folder: format!("{top}{path}"), version });
            match path.rfind('/') {
                Some(at) => path = &path[..at],
                None => break,
            }
        }
    }
    found
}

/// Parses a number of bytes; `None` for `max`, which is no limit.
fn bytes(text: &str) -> Option<u64> {
    text.trim().parse().ok()
}

/// The sum of these lines of a `memory.stat` file.
fn sum(stat: &str, fields: &[&str]) -> u64 {
    let lines = stat.lines().filter_map(|line| line.split_once(' '));
    lines.filter(|(name, _)| fields.contains(name)).filter_map(|(_, value)| bytes(value)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_groups_of_the_process_limit_it() {
        use Version::{One, Two};
        for (groups, folders) in [
            ("0::/\n", &[("/sys/fs/cgroup", Two)][..]),
            (
                "0::/system.slice/larder.service\n",
                &[
                    ("/sys/fs/cgroup/system.slice/larder.service", Two),
                    ("/sys/fs/cgroup/system.slice", Two),
                    ("/sys/fs/cgroup", Two),
                ],
            ),
            ("5:cpu,memory:/a\n4:cpuset:/b\n", &[("/sys/fs/cgroup/memory/a", One), ("/sys/fs/cgroup/memory", One)]),
            ("nonsense\n1:memory\n", &[]),
        ] {
            let found = of(groups);
            let found: Vec<_> = found.iter().map(|group| (group.folder.as_str(), group.version)).collect();
            assert_eq!(found, folders, "{groups}");
        }
    }

    /// A group whose files are as given.
    fn group(version: Version, files: &[(&str, &str)]) -> (tempfile::TempDir, Group) {
        let folder = tempfile::tempdir().expect("a folder can be made");
        for (name, text) in files {
            fs::write(folder.path().join(name), text).expect("a file can be written");
        }
        let group = Group { folder: folder.path().display().to_string(), version };
        (folder, group)
    }

    #[test]
    fn a_limit_is_the_least_that_is_less_than_the_machine() {
        for (version, files, limit) in [
            (Version::Two, &[("memory.max", "max\n"), ("memory.high", "max\n")][..], None),
            (Version::Two, &[("memory.max", "1048576\n")], Some(1_048_576)),
            (Version::Two, &[("memory.max", "1048576\n"), ("memory.high", "4096\n")], Some(4096)),
            (Version::One, &[("memory.limit_in_bytes", "9223372036854771712\n")], None),
            (Version::One, &[("memory.limit_in_bytes", "67108864\n")], Some(67_108_864)),
            (Version::One, &[], None),
        ] {
            let (_folder, group) = group(version, files);
            assert_eq!(group.limit(1 << 40), limit, "{files:?}");
        }
    }

    #[test]
    fn what_is_on_a_disk_as_well_is_not_used() {
        let one = "cache 5\ninactive_file 7\ntotal_inactive_file 100\ntotal_active_file 20\ntotal_shmem 9\n";
        let two = "anon 1\nfile 500\ninactive_file 100\nactive_file 20\nslab_reclaimable 3\nshmem 50\n";
        for (version, files, used) in [
            (Version::One, [("memory.usage_in_bytes", "1000\n"), ("memory.stat", one)], 880),
            (Version::Two, [("memory.current", "1000\n"), ("memory.stat", two)], 877),
        ] {
            let (_folder, group) = group(version, &files);
            assert_eq!(group.used(), Some(used), "{version:?}");
        }
        let (_folder, gone) = group(Version::Two, &[]);
        assert_eq!(gone.used(), None);
    }
}
