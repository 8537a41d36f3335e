//! The generator: wrk, on a CPU of its own, and what it says.

use super::{LoadError, cannot};
use std::process::Command;

/// What wrk counted in one run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Count {
    /// Responses read to their end.
    pub requests: u64,
    /// How long it really took.
    pub seconds: f64,
    /// 99 of 100 answers took no longer than this, in seconds.
    pub p99_seconds: f64,
}

/// A wrk command for `url`: one thread, `connections` connections, `seconds` seconds.
fn command(url: &str, connections: usize, seconds: u64, cpu: usize) -> Vec<String> {
    // wrk ends when this process does.
    let mut words: Vec<String> = ["setpriv", "--pdeathsig", "TERM", "taskset", "-c"].map(String::from).to_vec();
    words.push(cpu.to_string());
    words.push("wrk".into());
    words.push("-t1".into());
    words.push(format!("-c{connections}"));
    words.push(format!("-d{seconds}s"));
    words.push("--latency".into());
    words.push(url.into());
    words
}

/// An error if there is no wrk here, before anything else takes its time.
pub fn look_for() -> Result<(), LoadError> {
    // It prints its version and fails; that it runs is enough.
    Command::new("wrk").arg("-v").output().map(drop).map_err(|_| LoadError::Missing("wrk".into()))
}

/// Runs wrk. A failed request or a status other than 2xx and 3xx is an error: such a run measures something else.
pub fn run(url: &str, connections: usize, seconds: u64, cpu: usize) -> Result<Count, LoadError> {
    let words = command(url, connections, seconds, cpu);
    let (program, arguments) = words.split_first().ok_or_else(|| LoadError::Missing("wrk".into()))?;
    let output = Command::new(program).args(arguments).output().map_err(cannot("run wrk"))?;
    if output.status.code() == Some(127) {
        return Err(LoadError::Missing("wrk".into()));
    }
    parse(&String::from_utf8_lossy(&output.stdout))
}

/// Reads what wrk prints at its end.
pub fn parse(said: &str) -> Result<Count, LoadError> {
    let not_understood = || LoadError::Tool { tool: "wrk", said: said.to_string() };
    if said.contains("Non-2xx") || said.contains("Socket errors") {
        return Err(not_understood());
    }
    let line = said.lines().find(|line| line.contains(" requests in ")).ok_or_else(not_understood)?;
    let (requests, rest) = line.trim().split_once(" requests in ").ok_or_else(not_understood)?;
    let requests = requests.parse().map_err(|_| not_understood())?;
    let time = rest.split(',').next().unwrap_or_default();
    let seconds = duration_seconds(time).ok_or_else(not_understood)?;
    let p99 = said.lines().find_map(|line| line.trim().strip_prefix("99%"));
    let p99_seconds = p99.and_then(|time| duration_seconds(time.trim())).ok_or_else(not_understood)?;
    if requests == 0 {
        return Err(not_understood());
    }
    Ok(Count { requests, seconds, p99_seconds })
}

/// A time as wrk prints it: `2.00s`, `1.50m`, `900.12ms`.
fn duration_seconds(text: &str) -> Option<f64> {
    let at = text.find(|char: char| char.is_ascii_alphabetic())?;
    let (digits, unit) = text.split_at(at);
    let scale = match unit {
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return None,
    };
    Some(digits.parse::<f64>().ok()? * scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_without_failures_is_counted() {
        let whole = "Running 2s test @ http://127.0.0.1:80/
  1 threads and 64 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency   661.21us  102.04us   1.93ms   86.99%
    Req/Sec    95.95k     4.79k  100.26k    90.00%
  Latency Distribution
     50%  643.00us
     75%  662.00us
     90%  716.00us
     99%    1.25ms
  123456 requests in 2.00s, 1.50GB read
Requests/sec:  61728.00
Transfer/sec:    768.00MB
";
        for (said, requests, seconds, p99_seconds) in [
            (whole, 123_456, 2.0, 0.00125),
            ("     99%  250.00us\n  7 requests in 1.50m, 1KB read\n", 7, 90.0, 0.00025),
            ("     99%    1.50s \n  7 requests in 2.00s, 1KB read\n", 7, 2.0, 1.5),
        ] {
            let count = parse(said).expect("it is a run");
            assert_eq!((count.requests, count.seconds), (requests, seconds), "{said}");
            assert!((count.p99_seconds - p99_seconds).abs() < 1e-9, "{said}");
        }
    }

    #[test]
    fn a_run_with_failures_is_none() {
        for said in [
            "",
            "     99%    1.00ms\n  0 requests in 2.00s, 0.00B read\n",
            "     99%    1.00ms\n  9 requests in 2.00s, 1KB read\n  Non-2xx or 3xx responses: 3\n",
            "     99%    1.00ms\n  9 requests in 2.00s, 1KB read\n  Socket errors: connect 0, read 1, write 0, timeout 0\n",
            "     99%    1.00ms\n  x requests in 2.00s, 1KB read\n",
            "     99%    1.00xs\n  9 requests in 2.00s, 1KB read\n",
            "  9 requests in 2.00s, 1KB read\n",
        ] {
            assert!(parse(said).is_err(), "{said}");
        }
    }
}
