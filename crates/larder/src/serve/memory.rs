//! How much memory there is for PHP.

use std::fs;

/// The available bytes: what is free on the machine, or what the cgroup still allows, whichever is less.
pub fn available_bytes() -> u64 {
    let machine = fs::read_to_string("/proc/meminfo").ok().and_then(|text| available_in(&text));
    let cgroup = fs::read_to_string("/sys/fs/cgroup/memory.max").ok().and_then(|text| text.trim().parse().ok());
    machine.unwrap_or(FALLBACK_BYTES).min(cgroup.unwrap_or(u64::MAX))
}

/// `MemAvailable` of `/proc/meminfo`.
fn available_in(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kilobytes.checked_mul(1024)
}

/// The number of PHP children for that memory.
pub fn php_children(bytes: u64) -> u64 {
    (bytes / CHILD_BYTES).clamp(CHILDREN_MIN, CHILDREN_MAX)
}

const FALLBACK_BYTES: u64 = 1 << 30;
/// What a PHP child of a larger application takes.
const CHILD_BYTES: u64 = 96 << 20;
const CHILDREN_MIN: u64 = 2;
const CHILDREN_MAX: u64 = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meminfo_is_read_and_children_stay_in_bounds() {
        for (text, expected) in [
            ("MemTotal: 9 kB\nMemAvailable:   2048 kB\n", Some(2 << 20)),
            ("MemAvailable: many kB\n", None),
            ("MemAvailable: 99999999999999999 kB\n", None),
            ("", None),
        ] {
            assert_eq!(available_in(text), expected, "{text}");
        }
        for (bytes, expected) in [(0, 2), (960 << 20, 10), (u64::MAX, 64)] {
            assert_eq!(php_children(bytes), expected);
        }
        assert!(available_bytes() > 0);
    }
}
