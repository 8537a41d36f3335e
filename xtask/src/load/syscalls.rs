//! System calls per request, counted by perf, or by strace where perf may not.

use super::contender::Contender;
use super::idle::allow_descriptors;
use super::options::Options;
use super::origin::Origin;
use super::process::Process;
use super::throughput::{slice, warm_up};
use super::{LoadError, cannot};
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Calls rarer than this per request are not listed by name.
const LISTED_MIN: f64 = 0.005;

/// larder's thread that looks at memory a few times a second, whatever is asked for.
const MEASURING: &str = "memory";

/// How long a counter may take until it counts.
const START_LIMIT: Duration = Duration::from_secs(20);

/// Where the kernel lists what perf can count; the place depends on what is mounted.
const TRACEPOINTS: [&str; 2] = ["/sys/kernel/tracing/events/syscalls", "/sys/kernel/debug/tracing/events/syscalls"];

/// The calls that perf counts by name. Not all there are: each costs a descriptor for each thread, and Varnish has
/// hundreds.
const NAMED: [&str; 42] = [
    "accept4",
    "close",
    "connect",
    "epoll_ctl",
    "epoll_pwait",
    "epoll_pwait2",
    "epoll_wait",
    "fcntl",
    "futex",
    "getpeername",
    "getsockname",
    "getsockopt",
    "io_uring_enter",
    "ioctl",
    "lseek",
    "madvise",
    "mmap",
    "munmap",
    "newfstat",
    "newfstatat",
    "openat",
    "openat2",
    "poll",
    "pread64",
    "preadv2",
    "pwrite64",
    "read",
    "readv",
    "recvfrom",
    "recvmsg",
    "sendfile64",
    "sendmsg",
    "sendto",
    "setsockopt",
    "shutdown",
    "socket",
    "splice",
    "statx",
    "timerfd_settime",
    "unlink",
    "write",
    "writev",
];

/// What a counter saw: calls by name, `all` among them.
type Calls = BTreeMap<String, u64>;

/// Prints for every server and size how many system calls a request takes, and which.
pub fn measure(options: &Options, contenders: &[Contender], origin: &Origin) -> Result<(), LoadError> {
    let folder = tempfile::tempdir().map_err(cannot("make a folder"))?;
    let report = folder.path().join("counts");
    let with_perf = perf_works(&report);
    println!("{}: {}", options.scenario.name(), options.scenario.title());
    println!(
        "{} connections; counted by {}",
        options.connections,
        if with_perf { "perf" } else { "strace, which slows the server down and so changes its batches" }
    );
    for contender in contenders {
        for bytes in &options.sizes {
            warm_up(contender, options.source(), options.scenario.page(*bytes), origin)?;
            let counter = Counter::start(with_perf, &contender.process, &report)?;
            let (cell, _) = slice(options, contender, *bytes)?;
            let calls = counter.stop()?;
            print!("{}", rows(contender.kind.name(), *bytes, cell.count.requests, &calls));
        }
    }
    Ok(())
}

/// What is printed for one server and size.
fn rows(name: &str, bytes: usize, requests: u64, calls: &Calls) -> String {
    let per_request = |number: u64| number as f64 / requests as f64;
    let all = calls.get("all").copied().unwrap_or(0);
    let mut out =
        format!("{name:<16} {bytes:>8} bytes: {:.3} system calls a request ({requests} requests)\n", per_request(all));
    let mut named: Vec<_> = calls.iter().filter(|(name, _)| *name != "all").collect();
    named.sort_by_key(|(_, number)| std::cmp::Reverse(**number));
    let (listed, _): (Vec<_>, Vec<_>) = named.into_iter().partition(|(_, number)| per_request(**number) >= LISTED_MIN);
    let rest = all.saturating_sub(listed.iter().map(|(_, number)| **number).sum());
    let listed = listed.into_iter().map(|(name, number)| (name.as_str(), *number));
    let others = Some(("others", rest)).filter(|(_, number)| per_request(*number) >= LISTED_MIN);
    for (name, number) in listed.chain(others) {
        out.push_str(&format!("    {:>7.3} {name}\n", per_request(number)));
    }
    out
}

fn perf_works(report: &Path) -> bool {
    let tried = Command::new("perf")
        .args(["stat", "-x,", "-e", "raw_syscalls:sys_enter", "-o"])
        .arg(report)
        .args(["--", "true"])
        .output();
    let counted = tried.is_ok_and(|output| output.status.success());
    counted && perf_calls(&fs::read_to_string(report).unwrap_or_default()).get("all").is_some_and(|number| *number > 0)
}

/// A counter attached to the threads of a server.
enum Counter {
    /// `perf stat`, which counts until its own command ends: that is until `_until` is closed.
    Perf { perf: Child, _until: ChildStdin, report: PathBuf },
    /// `strace -c`, which counts until it is told to end.
    Strace { strace: Process, report: PathBuf },
}

impl Counter {
    /// Attaches to all threads but the measuring one, and returns when it counts.
    fn start(with_perf: bool, server: &Process, report: &Path) -> Result<Counter, LoadError> {
        let threads: Vec<_> = server.threads().into_iter().filter(|(_, name)| name != MEASURING).collect();
        let threads: Vec<String> = threads.into_iter().map(|(thread, _)| thread.to_string()).collect();
        if with_perf { Counter::start_perf(&threads, report) } else { Counter::start_strace(&threads, report) }
    }

    fn start_perf(threads: &[String], report: &Path) -> Result<Counter, LoadError> {
        let known = TRACEPOINTS.map(Path::new).into_iter().find(|folder| folder.is_dir());
        let is_known = |name: &&str| known.is_none_or(|folder| folder.join(format!("sys_enter_{name}")).is_dir());
        let named = NAMED.into_iter().filter(is_known).map(|name| format!("syscalls:sys_enter_{name}"));
        let events: Vec<String> = std::iter::once("raw_syscalls:sys_enter".to_string()).chain(named).collect();
        // Where they are not allowed, perf says itself that it lacks descriptors.
        let _ = allow_descriptors(threads.len() * events.len());
        let mut command = Command::new("perf");
        command.args(["stat", "-x,", "-e", &events.join(","), "-t", &threads.join(","), "-o"]).arg(report);
        command.args(["--", "sh", "-c", "echo counting; exec cat >/dev/null"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut perf = command.spawn().map_err(cannot("run perf"))?;
        let mut line = String::new();
        if let Some(said) = perf.stdout.take() {
            BufReader::new(said).read_line(&mut line).map_err(cannot("read from perf"))?;
        }
        match perf.stdin.take() {
            Some(until) if line == "counting\n" => Ok(Counter::Perf { perf, _until: until, report: report.into() }),
            Some(_) | None => Err(LoadError::Tool { tool: "perf", said: line }),
        }
    }

    /// Threads that start later are not counted; with `-f`, those that measure would be.
    fn start_strace(threads: &[String], report: &Path) -> Result<Counter, LoadError> {
        let mut command = Process::tied(Path::new("strace"));
        command.args(["-c", "-o"]).arg(report);
        for thread in threads {
            command.args(["-p", thread]);
        }
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut strace = Process::spawn(&mut command).map_err(|_| LoadError::Missing("strace".into()))?;
        let started = Instant::now();
        while !threads.iter().all(|thread| is_traced(thread)) {
            if strace.has_ended() || started.elapsed() > START_LIMIT {
                return Err(LoadError::Missing("strace (it may not attach: are you root?)".into()));
            }
            sleep(Duration::from_millis(10));
        }
        Ok(Counter::Strace { strace, report: report.into() })
    }

    fn stop(self) -> Result<Calls, LoadError> {
        let (report, read): (PathBuf, fn(&str) -> Calls) = match self {
            Counter::Perf { mut perf, _until: until, report } => {
                drop(until);
                perf.wait().map_err(cannot("wait for perf"))?;
                (report, perf_calls)
            }
            Counter::Strace { strace, report } => {
                drop(strace);
                (report, strace_calls)
            }
        };
        let said = fs::read_to_string(report).map_err(cannot("read what was counted"))?;
        Ok(read(&said))
    }
}

/// Whether somebody traces this thread.
fn is_traced(thread: &str) -> bool {
    let status = fs::read_to_string(format!("/proc/{thread}/status")).unwrap_or_default();
    let tracer = status.lines().find_map(|line| line.strip_prefix("TracerPid:"));
    tracer.is_some_and(|pid| pid.trim() != "0")
}

/// Reads `perf stat -x,`: the number, an empty unit, the event, and more.
fn perf_calls(said: &str) -> Calls {
    let rows = said.lines().filter_map(|line| {
        let mut fields = line.split(',');
        let number = fields.next()?.parse().ok()?;
        let event = fields.nth(1)?;
        let name = if event == "raw_syscalls:sys_enter" { "all" } else { event.rsplit("sys_enter_").next()? };
        Some((name.to_string(), number))
    });
    rows.collect()
}

/// Reads the table of `strace -c`: `% time, seconds, usecs/call, calls, [errors,] syscall`.
fn strace_calls(said: &str) -> Calls {
    let rows = said.lines().filter_map(|line| {
        let words: Vec<_> = line.split_whitespace().collect();
        let name = if words.last()? == &"total" { "all" } else { words.last()? };
        Some((name.to_string(), words.get(3)?.parse().ok()?))
    });
    rows.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_of_the_calls_is_told() {
        let calls = [("all", 4100), ("writev", 2000), ("recvfrom", 1500), ("futex", 4), ("lseek", 0)];
        let text = rows("larder", 1024, 1000, &calls.map(|(name, number)| (name.to_string(), number)).into());
        let words: Vec<_> = text.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>()).collect();
        assert_eq!(words, [["2.000", "writev"], ["1.500", "recvfrom"], ["0.600", "others"]]);
        assert!(text.contains(" 1024 bytes: 4.100 system calls a request (1000 requests)\n"), "{text}");
    }

    #[test]
    fn counters_are_read() {
        let perf = "# started on\n\n144,,raw_syscalls:sys_enter,1000,100.00,,\n20,,syscalls:sys_enter_writev,1000,100.00,,\n<not counted>,,syscalls:sys_enter_x,0,0.00,,\n";
        assert_eq!(perf_calls(perf), Calls::from([("all".into(), 144), ("writev".into(), 20)]));
        let strace = "% time     seconds  usecs/call     calls    errors syscall\n------ ----------- ----------- --------- --------- ----------------\n 60.00    0.000006           0         8         2 recvfrom\n 40.00    0.000000           0         1           writev\n------ ----------- ----------- --------- --------- ----------------\n100.00    0.000626           4       143        18 total\n";
        assert_eq!(
            strace_calls(strace),
            Calls::from([("all".into(), 143), ("recvfrom".into(), 8), ("writev".into(), 1)])
        );
    }
}
