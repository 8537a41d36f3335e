//! A server's processes: their CPU time, their memory, their logs, their end.

use super::{LoadError, cannot};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long a server may take to end after SIGTERM, before SIGKILL.
const END_LIMIT: Duration = Duration::from_secs(10);

/// A process we started, and all it started itself. Ended, with its descendants, when dropped.
pub struct Process {
    child: Child,
}

impl Process {
    /// A command that runs `program` and has it told to end when this process does, however it does: nothing else would
    /// end it after a `kill -9`.
    pub fn tied(program: &Path) -> Command {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "TERM"]).arg(program);
        command
    }

    /// Starts `command` with nothing to read.
    pub fn spawn(command: &mut Command) -> io::Result<Process> {
        let child = command.stdin(Stdio::null()).spawn()?;
        Ok(Process { child })
    }

    /// Whether the process itself has ended.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().is_ok_and(|status| status.is_some())
    }

    /// The process and its descendants.
    pub fn pids(&self) -> Vec<u32> {
        tree(self.child.id(), &parents())
    }

    /// Sends a signal to all its processes.
    pub fn signal(&self, signal: Signal) {
        self.signal_all(&self.pids(), signal);
    }

    /// The threads of all its processes, each with its name.
    pub fn threads(&self) -> Vec<(u32, String)> {
        let tasks = self.pids().into_iter().filter_map(|pid| fs::read_dir(format!("/proc/{pid}/task")).ok());
        let named = tasks.flatten().flatten().filter_map(|task| {
            let name = fs::read_to_string(task.path().join("comm")).ok()?;
            Some((task.file_name().to_str()?.parse().ok()?, name.trim_end().to_string()))
        });
        named.collect()
    }

    /// CPU time that all threads of all its processes have used, user and system.
    ///
    /// From `schedstat`, whose first number is nanoseconds on a CPU; `stat` counts in ticks of 10 ms.
    pub fn cpu(&self) -> Duration {
        let mut nanoseconds = 0u64;
        for pid in self.pids() {
            let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else {
                continue;
            };
            for thread in threads.flatten() {
                let text = fs::read_to_string(thread.path().join("schedstat")).unwrap_or_default();
                let first = text.split_whitespace().next().and_then(|word| word.parse::<u64>().ok());
                nanoseconds += first.unwrap_or(0);
            }
        }
        Duration::from_nanos(nanoseconds)
    }

    /// Memory of all its processes in bytes, shared pages counted by their share.
    pub fn pss_bytes(&self) -> u64 {
        let rollups =
            self.pids().into_iter().filter_map(|pid| fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok());
        rollups.filter_map(|text| pss_in(&text)).sum()
    }

    /// Asks it to end, as an operator does, and says how long it took; `None` if it has not within `limit` and was killed.
    pub fn stop(mut self, limit: Duration) -> Option<Duration> {
        let asked = Instant::now();
        let pids = self.pids();
        self.signal_all(&pids[..1], Signal::TERM);
        while !self.has_ended() {
            if asked.elapsed() > limit {
                self.kill();
                return None;
            }
            sleep(Duration::from_millis(1));
        }
        Some(asked.elapsed())
    }

    /// Kills it and its descendants at once, as a crash does, and waits until none of them is left.
    pub fn kill(mut self) {
        let pids = self.pids();
        self.signal_all(&pids, Signal::KILL);
        let _ = self.child.wait();
        let asked = Instant::now();
        while pids.iter().any(|pid| is_running(*pid)) && asked.elapsed() < END_LIMIT {
            sleep(Duration::from_millis(1));
        }
    }

    fn signal_all(&self, pids: &[u32], signal: Signal) {
        for pid in pids {
            if let Some(pid) = i32::try_from(*pid).ok().and_then(Pid::from_raw) {
                // It may have ended meanwhile, which is what we want.
                let _ = kill_process(pid, signal);
            }
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.has_ended() {
            return;
        }
        let pids = self.pids();
        self.signal_all(&pids[..1], Signal::TERM);
        let asked = Instant::now();
        while !self.has_ended() && asked.elapsed() < END_LIMIT {
            sleep(Duration::from_millis(10));
        }
        if !self.has_ended() {
            self.signal_all(&pids, Signal::KILL);
        }
        let _ = self.child.wait();
    }
}

/// The `Pss:` line of a `smaps_rollup`, in bytes.
fn pss_in(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}

/// Every process of the machine with its parent.
fn parents() -> Vec<(u32, u32)> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter_map(|pid| Some((pid, parent_in(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)?))).collect()
}

/// Whether the process is there and not only its exit code.
fn is_running(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with(['Z', 'X']))
}

/// The parent in a `stat` line; the name before it is in parentheses and may hold anything.
fn parent_in(stat: &str) -> Option<u32> {
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(1)?.parse().ok()
}

/// `root` first, then its descendants.
fn tree(root: u32, parents: &[(u32, u32)]) -> Vec<u32> {
    let mut found = vec![root];
    let mut next = 0;
    while let Some(parent) = found.get(next).copied() {
        next += 1;
        for (pid, of) in parents {
            if *of == parent && !found.contains(pid) {
                found.push(*pid);
            }
        }
    }
    found
}

/// The last lines of what a server that runs in `folder` has said.
pub fn end_of_logs(folder: &Path) -> String {
    let mut log = String::new();
    for name in ["output.log", "error.log", "php-fpm.log"] {
        log.push_str(&fs::read_to_string(folder.join(name)).unwrap_or_default());
    }
    let lines: Vec<&str> = log.lines().collect();
    let last = lines.get(lines.len().saturating_sub(15)..).unwrap_or_default();
    last.join("\n")
}

/// A port that nobody has now. Another process may take it before the server does; then the start fails and says so.
pub fn free_port() -> Result<u16, LoadError> {
    let listener = TcpListener::bind("127.0.0.1:0").map_err(cannot("find a free port"))?;
    Ok(listener.local_addr().map_err(cannot("find a free port"))?.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descendants_are_found_however_deep() {
        let parents = [(2, 1), (3, 2), (4, 3), (5, 1), (6, 9)];
        for (root, found) in [(1, vec![1, 2, 5, 3, 4]), (3, vec![3, 4]), (6, vec![6]), (7, vec![7])] {
            assert_eq!(tree(root, &parents), found, "{root}");
        }
    }

    #[test]
    fn proc_files_are_read() {
        for (stat, parent) in
            [("7 (nginx) S 3 7 7", Some(3)), ("7 (a) b) R 12 7", Some(12)), ("7 (x)", None), ("", None)]
        {
            assert_eq!(parent_in(stat), parent, "{stat}");
        }
        assert_eq!(pss_in("x [rollup]\nRss:   9 kB\nPss:             284 kB\n"), Some(284 * 1024));
        assert_eq!(pss_in("Rss: 9 kB\n"), None);
    }

    #[test]
    fn a_process_is_counted_and_ended() {
        let process = Process::spawn(Command::new("sh").args(["-c", "while :; do :; done"])).expect("sh is everywhere");
        let started = Instant::now();
        while process.cpu() < Duration::from_millis(5) {
            assert!(started.elapsed() < END_LIMIT, "a busy process uses CPU time");
            sleep(Duration::from_millis(5));
        }
        let pid = process.child.id();
        drop(process);
        assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());
    }

    #[test]
    fn a_process_is_killed_with_its_children() {
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 1000 & sleep 1000"]);
        let process = Process::spawn(&mut command).expect("sh is everywhere");
        let started = Instant::now();
        while process.pids().len() < 3 {
            assert!(started.elapsed() < END_LIMIT, "two children are started");
            sleep(Duration::from_millis(5));
        }
        let pids = process.pids();
        process.kill();
        assert!(pids.into_iter().all(|pid| !is_running(pid)));
    }
}
