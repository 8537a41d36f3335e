//! `cargo xtask restart`: how long a cache of many pages takes to be there again after a stop and after a crash.

use super::client::{Client, ask_each};
use super::disks::{Disks, Layout, Mounted, Sizes};
use super::options::{RESTART_HELP, Restart};
use super::server::{Server, Site};
use super::table::{Table, megabytes, time};
use super::watch::used_by;
use crate::load::kind::{Kind, Programs, version_of};
use crate::load::origin::{Origin, Page, Work};
use crate::load::report::median;
use crate::load::undo::{Undo, quoted};
use crate::load::{LoadError, build, cannot, end, stay_on};
use std::ffi::OsString;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long all pages of the sample may take to be hits after the fill, while nothing else goes on.
const SETTLE_LIMIT: Duration = Duration::from_secs(30);

/// How often is asked again for what is no hit yet.
const ASK_AGAIN: Duration = Duration::from_millis(2);

/// How often a log is read while nothing else is left to wait for.
const LOG_AGAIN: Duration = Duration::from_millis(100);

/// What a page may take besides its body: a head, and blocks that are not full.
const FILE_BYTES: u64 = 7 * 1024;
/// The least that a cache may take.
const BYTES_LEAST: u64 = 64 << 20;
/// Folders of `levels=1:2`, and more.
const FOLDERS_MAX: u64 = 10_000;
/// What ext4 keeps of a file.
const INODE_BYTES: u64 = 256;
/// What the file system has for itself.
const DISK_SPARE: u64 = 1 << 30;

/// How long the pages are fresh: longer than all starts take.
const FRESH_SECONDS: u32 = 7 * 86_400;

/// The fill says how far it is after so many pages.
const TELL_EVERY: u64 = 100_000;

const HEADING: [&str; 9] = [
    "server",
    "started again after",
    "ending took",
    "accepts connections",
    "first hit",
    "all of the sample hit",
    "knows its pages again",
    "says it knows",
    "memory (PSS) MB",
];

/// Measures as `arguments` say, and prints.
pub fn main(root: &Path, arguments: impl Iterator<Item = OsString>) -> ExitCode {
    end("restart", run(root, arguments))
}

fn run(root: &Path, arguments: impl Iterator<Item = OsString>) -> Result<(), LoadError> {
    let Some(mut options) = Restart::parse(root, arguments)? else {
        print!("{RESTART_HELP}");
        return Ok(());
    };
    if options.shared.servers.contains(&Kind::Larder) && options.shared.larder.is_none() {
        options.shared.larder = Some(build(root)?);
    }
    if options.is_cold && !rustix::process::geteuid().is_root() {
        return Err(LoadError::Usage("--cold needs root".into()));
    }
    stay_on(options.shared.generator_cpu)?;
    let origin = Origin::start(Work { fresh_seconds: FRESH_SECONDS, ..Work::NONE })?;
    let mut starts = Table::new(&HEADING);
    let mut fills =
        Table::new(&["server", "filled in", "pages/s", "on disk MB", "memory (PSS) MB", "hits of the sample"]);
    for kind in &options.shared.servers {
        measure(&options, *kind, &origin, &mut fills, &mut starts)?;
    }
    print!("{}\n{}", fills.text(options.shared.is_markdown), starts.text(options.shared.is_markdown));
    println!(
        "\n{} pages of {} bytes, a sample of {}; times are from exec{}",
        options.objects,
        options.shared.page_bytes,
        options.sample,
        if options.is_cold { ", the kernel's caches emptied before" } else { "" }
    );
    for kind in &options.shared.servers {
        println!(
            "{}: {}",
            kind.name(),
            version_of(*kind, &kind.program(&Programs::with_larder(options.shared.larder.clone()))?)
        );
    }
    Ok(())
}

/// How a server ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    Stop,
    Crash,
}

impl Ending {
    fn name(self) -> &'static str {
        match self {
            Ending::Stop => "a stop",
            Ending::Crash => "kill -9",
        }
    }
}

/// What was seen of one start.
#[derive(Debug, Clone, Default)]
struct Start {
    ending_took: Option<Duration>,
    accepts: Duration,
    first_hit: Option<Duration>,
    /// How many of the sample were hits, and when the last of them was.
    hits: usize,
    last_hit: Duration,
    /// When its log said that it knows its pages again.
    knows: Option<Duration>,
    /// How many, if the log says that.
    records: Option<u64>,
    pss_bytes: u64,
    /// Requests before the first hit that had no answer, because the connection was refused or reset.
    unanswered: u64,
}

/// Fills one server's cache, and ends and starts it.
fn measure(
    options: &Restart,
    kind: Kind,
    origin: &Origin,
    fills: &mut Table,
    starts: &mut Table,
) -> Result<(), LoadError> {
    let shared = &options.shared;
    let bytes_max = (options.objects * (shared.page_bytes as u64 + FILE_BYTES)).max(BYTES_LEAST);
    let Ground { cache, folder, .. } = &Ground::prepare(options, bytes_max)?;
    let zone_mib = (options.objects * 160).div_ceil(1_000_000).max(10);
    let http = format!(
        "proxy_cache_path {} levels=1:2 keys_zone=pages:{zone_mib}m max_size={bytes_max} inactive=1d use_temp_path=off;",
        cache.display(),
    );
    let mut server = Server::new(&Site {
        kind,
        larder: shared.larder.as_deref(),
        cpu: shared.server_cpu,
        origin_port: origin.port(),
        folder,
        http: &http,
        location: "proxy_cache pages;",
    })?;
    server.start()?;
    origin.close(false);
    let started = Instant::now();
    fill(server.address(), options).map_err(|error| server.fault(format!("failed: {error}")))?;
    let took = started.elapsed();
    // From here on, what is no hit is no page.
    origin.close(true);
    let sample = sample(options.objects, options.sample);
    let mut asked = Sample::new(&server, &sample, shared.page_bytes)?;
    while !asked.missing.is_empty() && started.elapsed() < took + SETTLE_LIMIT {
        asked.ask(&server)?;
        sleep(ASK_AGAIN);
    }
    fills.push(vec![
        kind.name().into(),
        time(took),
        format!("{:.0}", options.objects as f64 / took.as_secs_f64()),
        megabytes(used_by(cache) as f64),
        megabytes(server.pss_bytes() as f64),
        format!("{} of {}", asked.hits, options.sample),
    ]);
    drop(asked);
    for ending in [Ending::Stop, Ending::Crash] {
        let mut seen = Vec::new();
        for round in 1..=shared.rounds {
            eprintln!("{}: started again after {}, round {round} of {}", kind.name(), ending.name(), shared.rounds);
            seen.push(start_again(options, &mut server, ending, &sample)?);
        }
        let row = text(options, kind, ending, &seen);
        // All of this takes long; what there is already is seen.
        eprintln!("{}", row.join(" | "));
        starts.push(row);
    }
    server.stop()?;
    Ok(())
}

/// Where a server and its cache are, taken away when dropped.
struct Ground {
    cache: PathBuf,
    folder: PathBuf,
    // In this order: what is mounted goes before its disk.
    _mounted: Option<Mounted>,
    _disks: Option<Disks>,
    _undo: Option<Undo>,
}

impl Ground {
    /// A new file system for root, otherwise a new folder: making a million files in one that is old and full of others
    /// takes twenty times as long.
    fn prepare(options: &Restart, bytes_max: u64) -> Result<Ground, LoadError> {
        let dir = &options.shared.dir;
        if rustix::process::geteuid().is_root() {
            let files = options.objects * 5 / 4 + FOLDERS_MAX;
            let bytes = bytes_max + files * INODE_BYTES + DISK_SPARE;
            let disks = Disks::make(dir, Sizes { count: 1, bytes, files, rate: 0, dirty: 0 })?;
            let mounted = disks.mount(Layout::One)?;
            let folder = disks.folder().join("server");
            fs::create_dir(&folder).map_err(cannot("make a folder"))?;
            let cache = mounted.paths.iter().map(|path| path.join("cache")).collect();
            return Ok(Ground { cache, folder, _mounted: Some(mounted), _disks: Some(disks), _undo: None });
        }
        let mut undo = Undo::begin()?;
        fs::create_dir_all(dir).map_err(cannot("make the folder for the caches"))?;
        let folder = tempfile::Builder::new().prefix("restart-").tempdir_in(dir).map_err(cannot("make a folder"))?;
        let folder = folder.keep();
        undo.push(&format!("rm -rf --one-file-system {}", quoted(&folder)))?;
        Ok(Ground { cache: folder.join("cache"), folder, _mounted: None, _disks: None, _undo: Some(undo) })
    }
}

/// Ends the server, starts it, and asks until all is as it was or the time is over.
fn start_again(options: &Restart, server: &mut Server, ending: Ending, sample: &[u64]) -> Result<Start, LoadError> {
    let mut seen = Start::default();
    match ending {
        Ending::Stop => seen.ending_took = Some(server.stop()?),
        Ending::Crash => server.kill(),
    }
    if options.is_cold {
        rustix::fs::sync();
        fs::write("/proc/sys/vm/drop_caches", "3").map_err(cannot("empty the kernel's caches"))?;
    }
    let log_before = server.log().len();
    let started = server.start()?;
    seen.accepts = started.elapsed();
    let limit = started + options.wait;

    let known = Page::Unique(options.objects / 2, options.shared.page_bytes);
    let mut client = None;
    while seen.first_hit.is_none() && Instant::now() < limit {
        let connected = client.take().map_or_else(|| Client::connect(server.address(), false), Ok);
        let asked = connected.and_then(|mut client: Client| Ok((client.ask(known)?, client)));
        match asked {
            Ok((answer, _)) if answer.is_hit && answer.bytes == known.bytes() => {
                seen.first_hit = Some(started.elapsed());
                break;
            }
            Ok((_, connection)) => client = Some(connection),
            // Whoever asks a server that begins asks again; how often that had to be is printed.
            Err(error) => {
                eprintln!("{}: no answer {} after its start: {error}", server.name(), time(started.elapsed()));
                seen.unanswered += 1;
            }
        }
        sleep(ASK_AGAIN);
    }
    let mut asked = Sample::new(server, sample, options.shared.page_bytes)?;
    let mut knows_again = || -> bool {
        if seen.knows.is_none() {
            let log = server.log();
            let new = log.get(log_before..).unwrap_or(&log);
            if let Some(records) = said(new) {
                seen.knows = Some(started.elapsed());
                seen.records = records;
            }
        }
        seen.knows.is_some()
    };
    loop {
        let before = asked.hits;
        asked.ask(server)?;
        if asked.hits > before {
            seen.last_hit = started.elapsed();
        }
        let is_all = asked.missing.is_empty();
        // What is missing when it knows all its pages again is lost: it is asked for once more after that.
        let is_over = knows_again() && (is_all || asked.hits == before);
        if is_over || Instant::now() > limit {
            break;
        }
        sleep(if is_all { LOG_AGAIN } else { ASK_AGAIN });
    }
    seen.hits = asked.hits;
    seen.pss_bytes = server.pss_bytes();
    Ok(seen)
}

/// What a server says in its log when it knows its pages again, and how many these are if it says so.
///
/// nginx: `http file cache: /path 3906.250M, bsize: 4096`, of its loader; larder: `cache /path is open with 1000000 pages
/// in 12 segments`.
fn said(log: &str) -> Option<Option<u64>> {
    let mut lines = log.lines();
    lines.find_map(|line| {
        if line.contains("http file cache: ") && line.contains(" bsize: ") {
            return Some(None);
        }
        let (_, rest) = line.split_once(" is open with ")?;
        let (number, _) = rest.split_once(" pages")?;
        number.parse().ok().map(Some)
    })
}

/// Pages that are asked for until each was a hit.
struct Sample {
    missing: Vec<Page>,
    hits: usize,
    client: Client,
}

impl Sample {
    fn new(server: &Server, numbers: &[u64], bytes: usize) -> Result<Sample, LoadError> {
        let missing = numbers.iter().map(|number| Page::Unique(*number, bytes)).collect();
        let client = Client::connect(server.address(), false);
        let client = client.map_err(|error| server.fault(format!("does not answer: {error}")))?;
        Ok(Sample { missing, hits: 0, client })
    }

    /// Asks once for each that was no hit yet.
    fn ask(&mut self, server: &Server) -> Result<(), LoadError> {
        let mut still = Vec::new();
        for page in &self.missing {
            let answer = self.client.ask(*page).map_err(|error| server.fault(format!("does not answer: {error}")))?;
            match (answer.status, answer.is_hit && answer.bytes == page.bytes()) {
                (200, true) => self.hits += 1,
                // The origin is closed: a page that is no hit can come from nowhere.
                (200, false) => return Err(server.wrong(format!("a page of {} bytes that is no hit", answer.bytes))),
                (_, _) => still.push(*page),
            }
        }
        self.missing = still;
        Ok(())
    }
}

/// So many numbers below `objects`, the same in every run (xorshift), some of them twice if there are few.
fn sample(objects: u64, count: usize) -> Vec<u64> {
    let mut chance = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        chance ^= chance << 13;
        chance ^= chance >> 7;
        chance ^= chance << 17;
        chance % objects
    };
    std::iter::repeat_with(&mut next).take(count).collect()
}

/// Asks for every page once and says how far it is.
fn fill(address: SocketAddr, options: &Restart) -> io::Result<()> {
    let Restart { shared, objects, .. } = options;
    let tell = |answered: u64| {
        if answered.is_multiple_of(TELL_EVERY) {
            eprintln!("{answered} pages of {objects}");
        }
    };
    let page = |number| Page::Unique(number, shared.page_bytes);
    ask_each(address, shared.connections, *objects, page, tell)
}

fn text(options: &Restart, kind: Kind, ending: Ending, seen: &[Start]) -> Vec<String> {
    // A median only of what every round has.
    let of = |take: &dyn Fn(&Start) -> Option<Duration>| {
        let all: Option<Vec<f64>> = seen.iter().map(|start| take(start).map(|time| time.as_secs_f64())).collect();
        all.filter(|all| !all.is_empty()).map(|all| time(Duration::from_secs_f64(median(all.into_iter()))))
    };
    let never = || format!("not within {:?}", options.wait);
    let fewest = seen.iter().map(|start| start.hits).min().unwrap_or(0);
    let mut hit = of(&|start| Some(start.last_hit)).unwrap_or_default();
    if fewest < options.sample {
        hit = format!("{hit}, then {} never", options.sample - fewest);
    }
    let mut first_hit = of(&|start| start.first_hit).unwrap_or_else(never);
    let unanswered: u64 = seen.iter().map(|start| start.unanswered).sum();
    if unanswered > 0 {
        first_hit.push_str(&format!(" ({unanswered} connections failed)"));
    }
    let records = seen.iter().filter_map(|start| start.records).min();
    vec![
        kind.name().into(),
        ending.name().into(),
        of(&|start| start.ending_took).unwrap_or_default(),
        of(&|start| Some(start.accepts)).unwrap_or_default(),
        first_hit,
        hit,
        of(&|start| start.knows).unwrap_or_else(|| "does not say".into()),
        records.map_or_else(String::new, |records| format!("{records} pages")),
        megabytes(median(seen.iter().map(|start| start.pss_bytes as f64))),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_says_that_it_knows_its_pages_again() {
        for (log, found) in [
            ("", None),
            ("2026/01/01 [notice] 1#1: start worker processes\n", None),
            ("2026/01/01 [notice] 7#7: http file cache: /d/cache 3906.250M, bsize: 4096\n", Some(None)),
            ("a\n[notice] cache /d/c is open with 1000000 pages in 12 segments\n", Some(Some(1_000_000))),
            ("cache /d/c is open with 0 pages in 0 segments", Some(Some(0))),
            ("cache /d/c is open with some pages", None),
        ] {
            assert_eq!(said(log), found, "{log}");
        }
    }

    #[test]
    fn the_sample_is_of_all_pages_and_always_the_same() {
        let found = sample(1000, 200);
        assert_eq!(found, sample(1000, 200));
        assert!(found.iter().all(|number| *number < 1000));
        assert!(found.iter().any(|number| *number < 300) && found.iter().any(|number| *number > 700));
    }
}
