//! How much memory there is for pages, where the configuration does not say.

use std::fs;

/// A quarter of the machine, which has other things to do, or half of what the process's cgroup may use, whichever is
/// less. Bytes.
pub fn for_pages() -> u64 {
    let machine = rustix::system::sysinfo();
    let machine = machine.totalram.saturating_mul(u64::from(machine.mem_unit));
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let group = limit_files(&groups).iter().filter_map(|path| limit(&fs::read_to_string(path).ok()?)).min();
    (machine / MACHINE_SHARE).min(group.map_or(u64::MAX, |group| group / GROUP_SHARE)).max(BYTES_MIN)
}

/// The files that limit the process, from what `/proc/self/cgroup` says: those of its groups, and of all above, in both
/// versions of cgroups. In a container the names may be those outside: then only the top is there.
fn limit_files(groups: &str) -> Vec<String> {
    let mut files = Vec::new();
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        let (top, file) = match controllers {
            "" => ("/sys/fs/cgroup", "memory.max"),
            _ if controllers.split(',').any(|name| name == "memory") => {
                ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
            }
            _ => continue,
        };
        let mut path = path.trim_end_matches('/');
        loop {
            files.push(format!("{top}{path}/{file}"));
            match path.rfind('/') {
                Some(at) => path = &path[..at],
                None => break,
            }
        }
    }
    files
}

/// Bytes; `None` for `max`, which is no limit.
fn limit(text: &str) -> Option<u64> {
    text.trim().parse().ok()
}

const MACHINE_SHARE: u64 = 4;
const GROUP_SHARE: u64 = 2;

/// Less is of no use.
const BYTES_MIN: u64 = 8 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_groups_of_the_process_limit_it() {
        for (groups, files) in [
            ("0::/\n", &["/sys/fs/cgroup/memory.max"][..]),
            (
                "0::/system.slice/larder.service\n",
                &[
                    "/sys/fs/cgroup/system.slice/larder.service/memory.max",
                    "/sys/fs/cgroup/system.slice/memory.max",
                    "/sys/fs/cgroup/memory.max",
                ],
            ),
            (
                "5:cpu,memory:/a\n4:cpuset:/b\n",
                &["/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.limit_in_bytes"],
            ),
            ("nonsense\n1:memory\n", &[]),
        ] {
            assert_eq!(limit_files(groups), files, "{groups}");
        }
    }

    #[test]
    fn a_limit_is_a_number_of_bytes() {
        for (text, bytes) in [("max\n", None), ("1048576\n", Some(1_048_576)), ("", None)] {
            assert_eq!(limit(text), bytes, "{text}");
        }
        assert!(for_pages() >= BYTES_MIN);
    }
}
