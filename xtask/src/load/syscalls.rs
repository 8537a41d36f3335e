//! System calls per hit, counted by perf, or by strace where perf may not.

use super::contender::Contender;
use super::options::Options;
use super::origin::{Origin, Page};
use super::process::Process;
use super::throughput::warm_up;
use super::wrk::{self, Count};
use super::{LoadError, cannot};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

/// Calls rarer than this per hit are not listed by name.
const LISTED_MIN: f64 = 0.005;

/// The calls counted by name. Not all there are: each costs perf a descriptor for each thread, and Varnish has hundreds.
const NAMED: [&str; 24] = [
    "accept4",
    "close",
    "epoll_ctl",
    "epoll_pwait",
    "epoll_wait",
    "futex",
    "io_uring_enter",
    "ioctl",
    "madvise",
    "newfstatat",
    "openat",
    "poll",
    "pread64",
    "preadv2",
    "read",
    "recvfrom",
    "recvmsg",
    "sendfile64",
    "sendmsg",
    "sendto",
    "setsockopt",
    "shutdown",
    "write",
    "writev",
];

/// What a counter saw: calls by name, `all` among them.
type Calls = BTreeMap<String, u64>;

/// Prints for every server and size how many system calls a hit takes, and which.
pub fn measure(options: &Options, contenders: &[Contender], origin: &Origin) -> Result<(), LoadError> {
    let folder = tempfile::tempdir().map_err(cannot("make a folder"))?;
    let report = folder.path().join("counts");
    let with_perf = perf_works(&report);
    println!(
        "counted by {}",
        if with_perf { "perf" } else { "strace, which slows the server down and so changes its batches" }
    );
    for contender in contenders {
        for bytes in &options.sizes {
            warm_up(contender, options.source(), Page::Plain(*bytes), origin)?;
            let (count, calls) = if with_perf {
                by_perf(options, contender, *bytes, &report)?
            } else {
                by_strace(options, contender, *bytes, &report)?
            };
            print_row(contender, *bytes, count, &calls);
        }
    }
    Ok(())
}

fn print_row(contender: &Contender, bytes: usize, count: Count, calls: &Calls) {
    let per_hit = |number: u64| number as f64 / count.requests as f64;
    let all = calls.get("all").copied().unwrap_or(0);
    println!(
        "{:<13} {bytes:>8} bytes: {:.3} system calls a hit ({} hits)",
        contender.kind.name(),
        per_hit(all),
        count.requests
    );
    let mut named: Vec<_> =
        calls.iter().filter(|(name, number)| *name != "all" && per_hit(**number) >= LISTED_MIN).collect();
    named.sort_by_key(|(_, number)| std::cmp::Reverse(**number));
    for (name, number) in named {
        println!("    {:>7.3} {name}", per_hit(*number));
    }
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

/// `perf stat` attached to the server's processes while wrk runs as its command.
fn by_perf(options: &Options, contender: &Contender, bytes: usize, report: &Path) -> Result<(Count, Calls), LoadError> {
    let pids: Vec<String> = contender.process.pids().iter().map(u32::to_string).collect();
    let words = wrk::command(
        &contender.url(Page::Plain(bytes)),
        options.connections,
        options.slice_seconds,
        options.generator_cpu,
    );
    let named = NAMED.map(|name| format!("syscalls:sys_enter_{name}")).join(",");
    let events = format!("raw_syscalls:sys_enter,{named}");
    let output = Command::new("perf")
        .args(["stat", "-x,", "-e", &events, "-p", &pids.join(","), "-o"])
        .arg(report)
        .arg("--")
        .args(words)
        .output()
        .map_err(cannot("run perf"))?;
    let count = wrk::parse(&String::from_utf8_lossy(&output.stdout))?;
    let said = fs::read_to_string(report).map_err(cannot("read what perf counted"))?;
    Ok((count, perf_calls(&said)))
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

/// strace attached to the server's processes, told to end when wrk has.
fn by_strace(
    options: &Options,
    contender: &Contender,
    bytes: usize,
    report: &Path,
) -> Result<(Count, Calls), LoadError> {
    let mut command = Command::new("strace");
    command.args(["-f", "-c", "-o"]).arg(report);
    for pid in contender.process.pids() {
        command.args(["-p", &pid.to_string()]);
    }
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut strace = Process::spawn(&mut command).map_err(|_| LoadError::Missing("strace".into()))?;
    // strace says nothing when it has attached; the server is slow only once it has, so a short run shows nothing.
    sleep(Duration::from_secs(1));
    if strace.has_ended() {
        return Err(LoadError::Missing("strace (it may not attach: are you root?)".into()));
    }
    let count = wrk::run(
        &contender.url(Page::Plain(bytes)),
        options.connections,
        options.slice_seconds,
        options.generator_cpu,
    )?;
    drop(strace);
    let said = fs::read_to_string(report).map_err(cannot("read what strace counted"))?;
    Ok((count, strace_calls(&said)))
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
