//! The processes of a machine.

use rustix::process::geteuid;

use crate::machine::Machine;

/// A process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// Its number.
    pub pid: u64,
    /// Its short name.
    pub name: String,
    /// Its command line, with spaces between the words; some write there what they do.
    pub title: String,
}

/// All that `/proc` shows.
pub fn all(machine: &Machine) -> Vec<Process> {
    let named = |path: std::path::PathBuf| {
        let pid = path.parent()?.file_name()?.to_str()?.parse().ok()?;
        let name = machine.text(&path).ok()?.trim().to_owned();
        let title = machine.text(path.with_file_name("cmdline")).unwrap_or_default();
        let title = title.trim_end_matches(['\0', ' ']).replace('\0', " ");
        Some(Process { pid, name, title })
    };
    machine.files("/proc/[0-9]*/comm").into_iter().filter_map(named).collect()
}

/// A line of `/proc/PID/status` in bytes, such as `RssAnon`.
pub fn memory(machine: &Machine, pid: u64, line: &str) -> Option<u64> {
    status(machine, pid, line)?.strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// The number of the process that started it.
pub fn parent(machine: &Machine, pid: u64) -> Option<u64> {
    status(machine, pid, "PPid")?.parse().ok()
}

/// Whether it is a larder.
pub fn is_larder(machine: &Machine, pid: u64) -> bool {
    machine.text(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim() == "larder")
}

/// Whether it is a larder that root runs.
pub fn is_larder_of_root(machine: &Machine, pid: u64) -> bool {
    is_larder(machine, pid) && is_of_root(machine, pid)
}

/// Whether root runs it: nobody else chooses what it is called.
fn is_of_root(machine: &Machine, pid: u64) -> bool {
    is_of(machine, pid, 0)
}

/// Whether root runs it, or the account of this process.
pub fn is_trusted(machine: &Machine, pid: u64) -> bool {
    is_of_root(machine, pid) || is_of(machine, pid, geteuid().as_raw())
}

fn is_of(machine: &Machine, pid: u64, account: u32) -> bool {
    let account = account.to_string();
    status(machine, pid, "Uid").is_some_and(|accounts| accounts.split_whitespace().all(|one| one == account))
}

fn status(machine: &Machine, pid: u64, line: &str) -> Option<String> {
    let status = machine.text(format!("/proc/{pid}/status")).ok()?;
    let value = status.lines().find_map(|own| own.strip_prefix(line)?.strip_prefix(':'))?;
    Some(value.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    #[test]
    fn processes_are_those_of_proc() {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in [
            ("proc/7/comm", "php-fpm8.2\n"),
            ("proc/7/cmdline", "php-fpm: pool www\0\0\0"),
            ("proc/7/status", "Name:\tx\nPPid:\t3\nRssAnon:\t  2048 kB\n"),
            ("proc/sys/comm", "no"),
        ] {
            fs::create_dir_all(root.path().join(path).parent().unwrap()).unwrap();
            fs::write(root.path().join(path), text).unwrap();
        }
        let machine = Machine::at(root.path()).unwrap();
        let process = Process { pid: 7, name: "php-fpm8.2".to_owned(), title: "php-fpm: pool www".to_owned() };
        assert_eq!(all(&machine), [process]);
        assert_eq!((memory(&machine, 7, "RssAnon"), memory(&machine, 7, "VmRSS")), (Some(2 << 20), None));
        assert_eq!((parent(&machine, 7), parent(&machine, 8)), (Some(3), None));
        let this = all(&Machine::at(Path::new("/")).unwrap());
        assert!(this.iter().any(|process| process.pid == u64::from(std::process::id())));
    }
}
