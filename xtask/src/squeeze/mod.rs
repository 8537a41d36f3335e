//! `cargo xtask squeeze`: larder in a control group that has little memory, under what takes much.
//!
//! How and why it measures as it does is told in `docs/measuring.md`.

mod group;

use crate::load::configuration::add_nginx_arguments;
use crate::load::generator::{Expect, Generator, Plan, Protocol, Start};
use crate::load::idle::allow_descriptors;
use crate::load::options::{bytes, number, usage};
use crate::load::origin::{Origin, Page, Work};
use crate::load::process::{Process, end_of_logs, free_port};
use crate::load::{LoadError, build, cannot, end};
use crate::shelves::client::Client;
use group::{Group, Watch};
use lexopt::prelude::*;
use std::ffi::OsString;
use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const HELP: &str = "\
cargo xtask squeeze [OPTION...]

Starts larder in a control group with little memory and no word of it in the configuration, fills its cache with pages
that are asked for once, then asks for pages that are not cached over thousands of connections. Prints how often the
kernel killed a process, what failed and how much memory was used at most, and fails if anything was killed or failed.
Needs root and control groups.

  --limit N             bytes of the group (default: 64m)
  --fill SECONDS        how long the cache is filled (default: 12)
  --fillers N           connections that fill (default: 20)
  --connections N       connections that ask for pages that are not cached (default: 5000)
  --seconds N           for how long (default: 60)
  --delay MILLISECONDS  how long the origin takes for a page (default: 100; while the cache is filled: 0)
  --page N              bytes of a page (default: 20k)
  --larder PATH         the larder to measure (default: build it)
";

/// How long larder may take until it accepts connections.
const START_LIMIT: Duration = Duration::from_secs(20);

/// New connections a second: more at once would measure the queue of the listening socket.
const CONNECTS_A_SECOND: u32 = 2000;

struct Options {
    limit: u64,
    fill: Duration,
    fillers: usize,
    connections: usize,
    time: Duration,
    delay: Duration,
    page_bytes: usize,
    larder: Option<PathBuf>,
}

/// Measures as `arguments` say, and prints.
pub fn main(root: &Path, arguments: impl Iterator<Item = OsString>) -> ExitCode {
    end("squeeze", run(root, arguments))
}

fn run(root: &Path, arguments: impl Iterator<Item = OsString>) -> Result<(), LoadError> {
    let Some(options) = Options::parse(arguments)? else {
        print!("{HELP}");
        return Ok(());
    };
    // At both ends of larder are as many: its clients, and its connections to the origin.
    allow_descriptors(3 * options.connections)?;
    let group = Group::make(options.limit)?;
    let larder = match &options.larder {
        Some(larder) => larder.clone(),
        None => build(root)?,
    };
    let (quick, slow) = (Origin::start(Work::NONE)?, Origin::start(Work { delay: options.delay, ..Work::NONE })?);
    let folder = tempfile::tempdir_in(root.join("target")).map_err(cannot("make a folder"))?;
    let port = free_port()?;
    let text = configuration(folder.path(), port, [quick.port(), slow.port()]);
    fs::write(folder.path().join("nginx.conf"), text).map_err(cannot("write a configuration"))?;
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let process = start(&larder, &group, folder.path(), address)?;
    let before = process.pids();
    let watch = Watch::begin(&group);

    let megabytes = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    println!("control groups v{}, {:.0} MB", group.version(), megabytes(options.limit));
    let filled = fill(address, &options);
    filled.print("fill", megabytes(watch.take()));
    let crowd = crowd(address, &options)?;
    crowd.print("uncached", megabytes(watch.take()));
    let (kills, after) = (group.kills(), process.pids());
    let gone = before.iter().filter(|pid| !after.contains(pid)).count();
    println!(
        "killed {kills}, processes gone {gone}, failed {}, at most {:.1} MB with copies of files",
        filled.failed + crowd.failed,
        megabytes(group.peak()),
    );
    let log = fs::read_to_string(folder.path().join("error.log")).unwrap_or_default();
    log.lines().filter(|line| line.contains("memory")).for_each(|line| println!("  {line}"));
    if kills == 0 && gone == 0 && filled.failed + crowd.failed == 0 {
        return Ok(());
    }
    Err(LoadError::Server { server: "larder", fact: "did not bear it".into(), log: end_of_logs(folder.path()) })
}

/// What came of one kind of load.
struct Outcome {
    answers: u64,
    failed: u64,
    reasons: Vec<String>,
    took: Duration,
    slowest: Duration,
}

impl Outcome {
    fn print(&self, name: &str, held: f64) {
        println!(
            "{name}: {} answers in {:.0} s, the slowest after {:.2} s, {} failed, {held:.1} MB held at most",
            self.answers,
            self.took.as_secs_f64(),
            self.slowest.as_secs_f64(),
            self.failed,
        );
        self.reasons.iter().for_each(|reason| println!("  {reason}"));
    }
}

/// Asks for pages that are stored, each once.
fn fill(address: SocketAddr, options: &Options) -> Outcome {
    let began = Instant::now();
    let next = AtomicU64::new(0);
    let all = Mutex::new(Outcome {
        answers: 0,
        failed: 0,
        reasons: Vec::new(),
        took: Duration::ZERO,
        slowest: Duration::ZERO,
    });
    let one = || {
        let (mut client, mut answers, mut slowest) = (None, 0, Duration::ZERO);
        while began.elapsed() < options.fill {
            let asked = Instant::now();
            let page = Page::Unique(next.fetch_add(1, Ordering::Relaxed), options.page_bytes);
            let answer = match &mut client {
                Some(client) => Client::ask(client, page),
                none => Client::connect(address, false).and_then(|new| none.insert(new).ask(page)),
            };
            let fault = match answer {
                Ok(answer) if (answer.status, answer.bytes) == (200, page.bytes()) => None,
                Ok(answer) => Some(format!("status {} and {} bytes", answer.status, answer.bytes)),
                Err(error) => Some(error.to_string()),
            };
            slowest = slowest.max(asked.elapsed());
            match fault {
                None => answers += 1,
                Some(fault) => {
                    client = None;
                    all.lock().unwrap_or_else(std::sync::PoisonError::into_inner).fail(fault);
                    thread::sleep(Duration::from_millis(10));
                }
            }
        }
        let mut all = all.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        all.answers += answers;
        all.slowest = all.slowest.max(slowest);
    };
    thread::scope(|scope| (0..options.fillers).for_each(|_| drop(scope.spawn(one))));
    let all = all.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    Outcome { took: began.elapsed(), ..all }
}

impl Outcome {
    fn fail(&mut self, reason: String) {
        self.failed += 1;
        if self.reasons.len() < REASONS_MAX {
            self.reasons.push(reason);
        }
    }
}

const REASONS_MAX: usize = 5;

/// Asks again and again for a page that is not stored, over many connections.
fn crowd(address: SocketAddr, options: &Options) -> Result<Outcome, LoadError> {
    let path = format!("/uncached{}", Page::Plain(options.page_bytes).path());
    let plan = Plan {
        address,
        tls: None,
        protocol: Protocol::Http1,
        path: &path,
        accepts_gzip: false,
        expect: Expect::Bytes(options.page_bytes),
        visitors: options.connections,
        requests_each: u64::MAX,
        requests_per_connection: u64::MAX,
        pause: None,
        start: Start::Evenly(CONNECTS_A_SECOND),
        keeps_bodies: false,
    };
    let began = Instant::now();
    let mut visitors = Generator::new(plan).map_err(cannot("wait for connections"))?;
    let mut run = || {
        visitors.start()?;
        visitors.run(options.time)?;
        visitors.drain()
    };
    run().map_err(cannot("wait for connections"))?;
    let tally = visitors.take_tally();
    let [slowest] = tally.waits.quantiles([1.0]);
    Ok(Outcome {
        answers: tally.answers,
        failed: tally.failures,
        reasons: tally.reasons,
        took: began.elapsed(),
        slowest,
    })
}

fn start(larder: &Path, group: &Group, folder: &Path, address: SocketAddr) -> Result<Process, LoadError> {
    let output = fs::File::create(folder.join("output.log")).map_err(cannot("make a log"))?;
    let mut command = Command::new("setpriv");
    // It is in the group before it is larder, and told to end when this process does.
    command.args(["--pdeathsig", "TERM", "sh", "-c", "echo $$ > \"$0\" && exec \"$@\""]);
    command.arg(group.members()).arg(larder);
    add_nginx_arguments(&mut command, folder, &folder.join("nginx.conf"));
    command.stdout(output.try_clone().map_err(cannot("share the log"))?).stderr(output);
    let mut process = Process::spawn(&mut command).map_err(|_| LoadError::Missing("setpriv".into()))?;
    let started = Instant::now();
    while TcpStream::connect(address).is_err() {
        if process.has_ended() || started.elapsed() > START_LIMIT {
            let fact = format!("accepts no connection after {:.0?}", started.elapsed());
            return Err(LoadError::Server { server: "larder", fact, log: end_of_logs(folder) });
        }
        thread::sleep(Duration::from_millis(1));
    }
    Ok(process)
}

/// As people write it, without a word of memory. Below `/uncached` nothing is stored.
fn configuration(folder: &Path, port: u16, [quick, slow]: [u16; 2]) -> String {
    let folder = folder.display();
    format!(
        "user root;
worker_processes auto;
worker_rlimit_nofile 30000;
pid {folder}/server.pid;
error_log {folder}/error.log notice;
events {{
    worker_connections 12000;
}}
http {{
    client_body_temp_path {folder}/client_body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    proxy_cache_path {folder}/cache keys_zone=pages:10m max_size=300m;
    access_log off;
    keepalive_timeout 300;
    keepalive_requests 10000000;
    server {{
        listen 127.0.0.1:{port} backlog=4096;
        location / {{
            proxy_pass http://127.0.0.1:{quick};
            proxy_cache pages;
            proxy_cache_valid 200 1d;
        }}
        location /uncached/ {{
            proxy_pass http://127.0.0.1:{slow}/;
        }}
    }}
}}
"
    )
}

impl Options {
    fn parse(arguments: impl Iterator<Item = OsString>) -> Result<Option<Options>, LoadError> {
        let mut options = Options {
            limit: 64 << 20,
            fill: Duration::from_secs(12),
            fillers: 20,
            connections: 5000,
            time: Duration::from_secs(60),
            delay: Duration::from_millis(100),
            page_bytes: 20 * 1024,
            larder: None,
        };
        let mut parser = lexopt::Parser::from_args(arguments);
        while let Some(argument) = parser.next().map_err(usage)? {
            match argument {
                Long("limit") => {
                    let value = parser.value().map_err(usage)?.string().map_err(usage)?;
                    let wrong = || LoadError::Usage(format!("`{value}` is not a size such as 64m"));
                    options.limit = bytes(&value).filter(|bytes| *bytes >= 1 << 20).ok_or_else(wrong)?;
                }
                Long("fill") => options.fill = Duration::from_secs(number(&mut parser, 0, 3600)?),
                Long("fillers") => options.fillers = number(&mut parser, 1, 1000)?,
                Long("connections") => options.connections = number(&mut parser, 1, 50_000)?,
                Long("seconds") => options.time = Duration::from_secs(number(&mut parser, 0, 3600)?),
                Long("delay") => options.delay = Duration::from_millis(number(&mut parser, 0, 60_000)?),
                Long("page") => options.page_bytes = number(&mut parser, 20, 1 << 20)?,
                Long("larder") => options.larder = Some(parser.value().map_err(usage)?.into()),
                Short('h') | Long("help") => return Ok(None),
                other => return Err(usage(other.unexpected())),
            }
        }
        Ok(Some(options))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_understood() {
        let parse = |words: &[&str]| Options::parse(words.iter().map(OsString::from));
        let options = parse(&["--limit", "128m", "--connections", "10"]).expect("it is right").expect("no help");
        assert_eq!((options.limit, options.connections, options.fillers), (128 << 20, 10, 20));
        assert!(parse(&["--help"]).is_ok_and(|options| options.is_none()));
        for wrong in [&["--limit", "x"][..], &["--limit", "10"], &["--seconds"], &["more"]] {
            assert!(parse(wrong).is_err(), "{wrong:?}");
        }
    }
}
