//! Measures how much memory is used, and how much may be.

use std::fs;

use larder_conf::model::MemoryTotal;

use super::decide::Limit;
use super::groups::Group;

/// Measures the memory of this process and its limits.
pub struct Meter {
    machine: u64,
    groups: Vec<Group>,
    page_bytes: u64,
}

impl Meter {
    /// A meter for this process.
    pub fn new() -> Self {
        Self { machine: machine(), groups: Group::all(), page_bytes: rustix::param::page_size() as u64 }
    }

    /// All limits of the process now; a group's limit may change.
    pub fn limits(&self, total: MemoryTotal) -> Vec<Limit> {
        let cap = match total {
            MemoryTotal::Off => return Vec::new(),
            MemoryTotal::Auto => usable(self.machine),
            MemoryTotal::Bytes(bytes) => bytes,
        };
        let mut limits = vec![Limit { cap, used: self.process() }];
        limits.extend(
            self.groups
                .iter()
                .filter_map(|group| Some(Limit { cap: usable(group.limit(self.machine)?), used: group.used()? })),
        );
        limits
    }

    /// What the process uses: its own pages and its memory file, without the kernel's memory for its sockets.
    fn process(&self) -> u64 {
        let statm = fs::read_to_string("/proc/self/statm").unwrap_or_default();
        own_pages(&statm).saturating_mul(self.page_bytes).saturating_add(larder_store::memory_file_bytes())
    }
}

/// The memory for pages if the configuration gives none: a quarter of the machine's, as that has other things to do, or
/// half of the limit of the process or its groups, whichever is less. Bytes.
pub fn for_pages(total: MemoryTotal) -> u64 {
    let machine = machine();
    let groups = Group::all().iter().filter_map(|group| group.limit(machine)).min();
    let own = match total {
        MemoryTotal::Auto | MemoryTotal::Off => None,
        MemoryTotal::Bytes(bytes) => Some(bytes),
    };
    let least = groups.into_iter().chain(own).min().map_or(u64::MAX, |bytes| bytes / SHARE);
    (machine / MACHINE_SHARE).min(least).max(PAGES_BYTES_MIN)
}

/// The pages of a `statm` that are in memory and not of a file. A memory file that is not mapped is not counted.
fn own_pages(statm: &str) -> u64 {
    let mut numbers = statm.split_whitespace().skip(1).map_while(|word| word.parse::<u64>().ok());
    let (resident, shared) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    resident.saturating_sub(shared)
}

fn machine() -> u64 {
    let machine = rustix::system::sysinfo();
    machine.totalram.saturating_mul(u64::from(machine.mem_unit))
}

/// The part of a limit that may be used: what is taken between two looks must fit into the rest.
fn usable(whole: u64) -> u64 {
    whole - (whole / SPARE_SHARE).min(SPARE_BYTES_MAX)
}

const MACHINE_SHARE: u64 = 4;
const SHARE: u64 = 2;

/// The least memory that is of use to pages.
const PAGES_BYTES_MIN: u64 = 8 << 20;

const SPARE_SHARE: u64 = 10;
const SPARE_BYTES_MAX: u64 = 512 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_what_is_not_a_files() {
        for (statm, pages) in [("9000 500 120 3 0 90 0\n", 380), ("9000 100 120 3", 0), ("", 0), ("1 x", 0)] {
            assert_eq!(own_pages(statm), pages, "{statm}");
        }
    }

    #[test]
    fn a_tenth_is_left_and_never_too_much() {
        for (whole, left) in [(100, 10), (64 << 20, 6_710_886), (1 << 40, 512 << 20)] {
            assert_eq!(whole - usable(whole), left, "{whole}");
        }
    }

    #[test]
    fn what_the_configuration_says_is_a_limit_beside_those_of_the_system() {
        let meter = Meter { machine: 1 << 40, groups: Vec::new(), page_bytes: 4096 };
        assert_eq!(meter.limits(MemoryTotal::Off), []);
        let [limit] = meter.limits(MemoryTotal::Bytes(1 << 30))[..] else { panic!("there is one") };
        assert_eq!(limit.cap, 1 << 30);
        assert!(limit.used > 1 << 16, "this process takes some: {}", limit.used);
        assert_eq!(meter.limits(MemoryTotal::Auto)[0].cap, (1 << 40) - (512 << 20));
        assert_eq!(for_pages(MemoryTotal::Bytes(20 << 20)), 10 << 20);
        assert_eq!(for_pages(MemoryTotal::Bytes(16 << 20)), PAGES_BYTES_MIN);
        assert!(for_pages(MemoryTotal::Auto) >= PAGES_BYTES_MIN);
    }
}
