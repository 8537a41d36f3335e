//! One fill: unique pages through one server, and what becomes of them, of the disks, and of somebody who asks for a hit.

use super::client::{Client, ask_each};
use super::disks::Mounted;
use super::server::Server;
use super::watch::{Sample, Watch, last_busy};
use crate::load::LoadError;
use crate::load::generator::tally::Waits;
use crate::load::origin::Page;
use rustix::process::setpriority_process;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

/// The page of the one who asks for a hit.
const VISITED: Page = Page::Plain(10 * 1024);
/// How often that one asks.
const VISITS: Duration = Duration::from_millis(5);
/// How long before the fill.
const IDLE: Duration = Duration::from_secs(1);
/// Priority of that one's thread, which shares a CPU with the origin and with those who fill.
const VISITOR_NICENESS: i32 = -15;
/// When the disks have done nothing worth counting for so long, they have what they get.
const QUIET: Duration = Duration::from_millis(600);
/// A part of their own speed that is nothing worth counting: journals and tables are written now and then.
const QUIET_SHARE: f64 = 0.05;
/// How long the disks may take after the last answer.
const DRAIN_LIMIT: Duration = Duration::from_secs(120);
/// Pages that are compared with the origin's after the fill.
const COMPARED: u64 = 8;

/// What is asked for.
pub struct Plan<'a> {
    /// How many pages.
    pub pages: u64,
    /// How long each is.
    pub page_bytes: usize,
    /// Connections that ask at a time.
    pub connections: usize,
    /// The file systems with the caches; without, there are none.
    pub mounted: Option<&'a Mounted>,
    /// The caches.
    pub folders: Vec<PathBuf>,
    /// What the caches may take together.
    pub bytes_max: u64,
    /// What the disks can do together, bytes a second.
    pub own_speed: f64,
}

/// What was seen.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// Bytes of pages a second, from the first request to the last answer.
    pub client_rate: f64,
    /// CPU time of the server for a page.
    pub cpu_each: Duration,
    /// What went to the disks, if there are any.
    pub disks: Option<Written>,
    /// Waits of the one who asks for a hit before the fill, half within and 99 % within.
    pub idle: [Duration; 2],
    /// The same during the fill.
    pub during: [Duration; 2],
    /// How many of these were no hits.
    pub no_hits: u64,
}

/// What went to the disks.
#[derive(Debug, Clone, Copy)]
pub struct Written {
    /// Bytes a second on all disks together, from the first request until the last page is on them or was left out.
    pub rate: f64,
    /// `rate` over the disks' own.
    pub share: f64,
    /// The most that the caches took at any time.
    pub used_most: u64,
    /// What they took in the end.
    pub used_last: u64,
}

/// Fills the caches of `server`, which runs and has nothing yet.
pub fn run(server: &Server, plan: &Plan<'_>) -> Result<Outcome, LoadError> {
    let address = server.address();
    let failed = |error: io::Error| server.fault(format!("failed: {error}"));
    let mut visitor = Visitor::arrive(address).map_err(failed)?;
    let idle = visitor.visit_until(&AtomicBool::new(false), Some(IDLE)).map_err(failed)?;
    let no_hits_before = visitor.no_hits;

    let devices = plan.mounted.map(|mounted| mounted.devices.clone()).unwrap_or_default();
    let watch = Watch::begin(plan.folders.clone(), devices, plan.bytes_max);
    while watch.samples().is_empty() {
        sleep(Duration::from_millis(1));
    }
    let (cpu_before, started) = (server.cpu(), Instant::now());
    let is_over = AtomicBool::new(false);
    let (filled, visited) = thread::scope(|scope| {
        let visiting = scope.spawn(|| visitor.visit_until(&is_over, None));
        let page = |number| Page::Unique(number, plan.page_bytes);
        let filled = ask_each(address, plan.connections, plan.pages, page, |_| ());
        is_over.store(true, Ordering::Relaxed);
        (filled.map(|()| started.elapsed()), visiting.join())
    });
    let took = filled.map_err(failed)?;
    let during = match visited {
        Ok(waits) => waits.map_err(failed)?,
        Err(_) => return Err(server.wrong("the thread that asks for hits ended".into())),
    };
    let cpu = server.cpu().saturating_sub(cpu_before);

    let disks = match plan.mounted {
        None => None,
        Some(mounted) => {
            mounted.sync()?;
            wait_until_quiet(&watch, plan.own_speed * QUIET_SHARE);
            written(&watch.samples(), started, plan.own_speed)
        }
    };
    drop(watch);
    compare(server, plan)?;
    let quantiles = |waits: Waits| waits.with_those_not_asked(VISITS).quantiles([0.5, 0.99]);
    Ok(Outcome {
        client_rate: (plan.pages * plan.page_bytes as u64) as f64 / took.as_secs_f64(),
        cpu_each: cpu / u32::try_from(plan.pages).unwrap_or(u32::MAX).max(1),
        disks,
        idle: quantiles(idle),
        during: quantiles(during),
        no_hits: visitor.no_hits - no_hits_before,
    })
}

/// Pages as they are answered after the fill are the origin's, wherever they come from.
fn compare(server: &Server, plan: &Plan<'_>) -> Result<(), LoadError> {
    let failed = |error: io::Error| server.fault(format!("failed after the fill: {error}"));
    let mut client = Client::connect(server.address(), true).map_err(failed)?;
    for step in 0..COMPARED {
        let page = Page::Unique(step * plan.pages / COMPARED, plan.page_bytes);
        if client.ask(page).map_err(failed)?.body != page.body() {
            return Err(server.wrong(format!("{} is not the origin's page", page.path())));
        }
    }
    Ok(())
}

fn wait_until_quiet(watch: &Watch, rate_min: f64) {
    let since = Instant::now();
    while since.elapsed() < DRAIN_LIMIT {
        let samples = watch.samples();
        let last = samples.last().map(|sample| sample.at);
        let busy = last_busy(&samples, rate_min).map(|sample| sample.at);
        if last.zip(busy).is_some_and(|(last, busy)| last.saturating_duration_since(busy) >= QUIET) {
            return;
        }
        sleep(Duration::from_millis(50));
    }
}

fn written(samples: &[Sample], started: Instant, own_speed: f64) -> Option<Written> {
    let first = samples.first()?;
    let end = last_busy(samples, own_speed * QUIET_SHARE)?;
    let seconds = end.at.saturating_duration_since(started).as_secs_f64();
    let bytes = end.written.saturating_sub(first.written) as f64;
    let rate = if seconds > 0.0 { bytes / seconds } else { 0.0 };
    Some(Written {
        rate,
        share: rate / own_speed,
        used_most: samples.iter().map(|sample| sample.used).max()?,
        used_last: samples.last()?.used,
    })
}

/// One who asks for a page that is in the cache, again and again.
struct Visitor {
    client: Client,
    no_hits: u64,
}

impl Visitor {
    /// Opens a connection and brings the page into the cache, if there is one.
    fn arrive(address: SocketAddr) -> io::Result<Visitor> {
        let mut client = Client::connect(address, false)?;
        for _ in 0..3 {
            client.ask(VISITED)?;
        }
        Ok(Visitor { client, no_hits: 0 })
    }

    /// Asks every [`VISITS`] until told or until the time is over, and returns the waits.
    fn visit_until(&mut self, is_over: &AtomicBool, limit: Option<Duration>) -> io::Result<Waits> {
        setpriority_process(None, VISITOR_NICENESS)?;
        let mut waits = Waits::default();
        let started = Instant::now();
        let visited = loop {
            if is_over.load(Ordering::Relaxed) || limit.is_some_and(|limit| started.elapsed() > limit) {
                break Ok(());
            }
            let asked = Instant::now();
            match self.client.ask(VISITED) {
                Ok(answer) => self.no_hits += u64::from(!answer.is_hit),
                Err(error) => break Err(error),
            }
            waits.push(asked.elapsed());
            sleep(VISITS.saturating_sub(asked.elapsed()));
        };
        setpriority_process(None, 0)?;
        visited.map(|()| waits)
    }
}
