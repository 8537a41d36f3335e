//! Starts the workers of a process and controls them: a new configuration, new log files, the end.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use larder_cache::{BanStats, Memory, Zone, ZoneStats};
use larder_conf::Diagnostic;
use larder_conf::model::{Config, ListenAddress, LogLevel};
use larder_store::DiskStats;
use parking_lot::Mutex;
use tokio::sync::mpsc;

use crate::acme::Issuing;
use crate::ahead::Ahead;
use crate::ask::Desk;
use crate::assemble::{self, Keeping};
use crate::bans;
use crate::clock;
use crate::cluster::Moment;
use crate::explain;
use crate::limit_sharing::LimitSharing;
use crate::log::main::MainLog;
use crate::logs::{LogFiles, Logs};
use crate::lurker::Lurker;
use crate::material::Material;
use crate::refiller;
use crate::site::{Site, Vcl};
use crate::stats::Sums;
use crate::ticket_sharing::TicketSharing;
use crate::vsl::{Hub, Settings};
use crate::worker_thread::{self, Command, Shared};

/// How long a process that ends keeps its disks while requests are still running, and how often it checks whether all
/// are done. Less than the supervisor's patience after a TERM, so that what is queued for the disks is still written.
const DISKS_KEPT: Duration = Duration::from_secs(1);
const JOIN_POLL: Duration = Duration::from_millis(2);

/// What the supervisor passed to the process: sockets and files that the process has no right to open.
#[derive(Debug, Default)]
pub struct Descriptors {
    /// Listening sockets: one for each worker, or another number from a predecessor. On a reload, sockets of addresses
    /// that are already listened at are not needed and are closed.
    pub listeners: Vec<(ListenAddress, Vec<OwnedFd>)>,
    /// Log files by their paths.
    pub logs: Vec<(PathBuf, OwnedFd)>,
}

/// How the process serves.
#[derive(Clone)]
pub struct ServingOptions {
    /// The number of workers.
    pub workers: usize,
    /// How many processes have died that served before this one.
    pub respawned: u32,
    /// How many configurations were served before this one, by them.
    pub reloads: u32,
    /// Where transactions are told.
    pub log: Arc<Hub>,
    /// Where questions about what is done are asked.
    pub desk: Arc<Desk>,
}

/// The workers of this process.
pub struct Serving {
    workers: Vec<(mpsc::UnboundedSender<Command>, JoinHandle<()>)>,
    shared: Shared,
    main_log: MainLog,
    issuing: Issuing,
    tickets: TicketSharing,
    limits: LimitSharing,
    lurker: Arc<Lurker>,
    ahead: Arc<Ahead>,
    began: Instant,
    last: Mutex<Last>,
}

/// What the workers, and the zones of the configuration, have counted.
#[derive(Clone, Debug)]
pub struct Counted {
    /// The sums over all workers.
    pub sums: Sums,
    /// How long they have been serving.
    pub uptime: Duration,
    /// Pipes of VCLs now.
    pub pipes: u32,
    /// The zones, in the order of the configuration.
    pub zones: Vec<CountedZone>,
}

/// What a zone has counted.
#[derive(Clone, Debug)]
pub struct CountedZone {
    /// Its name.
    pub name: String,
    /// Its counters and its size. What is about its memory holds for all zones that share it.
    pub stats: ZoneStats,
    /// Whether no zone before it has the same memory.
    pub has_new_memory: bool,
    /// Its bans.
    pub bans: BanStats,
    /// Its disks.
    pub disks: Vec<DiskStats>,
}

/// The state that a reload starts from.
struct Last {
    site: Arc<Site>,
    keeping: Keeping,
}

impl Serving {
    /// Starts the workers with `config`.
    pub fn start(
        config: Config,
        material: &Material,
        descriptors: Descriptors,
        options: ServingOptions,
    ) -> Result<Self, Vec<Diagnostic>> {
        let mut keeping = Keeping::after(options.reloads);
        let site = Arc::new(assemble::assemble(&config, material, &mut keeping)?);
        let mut shared = Shared::default();
        shared.workers.log = options.log;
        shared.workers.respawned = options.respawned;
        shared.workers.explain = Some(explain::in_words);
        shared.files.adopt(descriptors.logs.into_iter().map(|(path, fd)| (path, File::from(fd))));
        let (logs, trouble) = Logs::new(&site, &shared.files);
        let main_log = keeping.main_log.clone();
        main_log.follow(logs.main_log());
        for line in trouble {
            main_log.write(LogLevel::Alert, line);
        }
        keeping.zones.open_disks(&config.http, &main_log, &shared.workers.pressure);
        let (cluster, zones) = (site.caches.cluster.as_ref(), &site.caches.zones);
        shared.workers.sharing.follow(cluster, zones, &main_log, Moment::Start);
        let tickets = TicketSharing::default();
        tickets.follow(&site.caches, &main_log);
        let limits = LimitSharing::default();
        limits.follow(&site, &main_log);
        shared.workers.pressure.watch(main_log.clone());
        // Before the first client connects, so that it already gets the certificates that were issued earlier.
        let others = Arc::clone(&shared.workers.acme_sharing);
        others.follow(site.caches.sharing_certificates(), &main_log);
        let challenges = Arc::clone(&shared.workers.challenges);
        let issuing = Issuing::new(challenges, keeping.issued().clone(), others, main_log.clone());
        issuing.follow(site.acme.as_ref());
        let lurker = Lurker::start();
        lurker.follow(&site.caches);
        refiller::follow(&site, &shared.workers.refill);
        let ahead = Ahead::start(Arc::clone(&shared.workers.refill));
        ahead.follow(&site);
        let count = options.workers.max(1);
        let mut workers = Vec::with_capacity(count);
        for (number, mine) in share(descriptors.listeners, count).into_iter().enumerate() {
            let (sender, receiver) = mpsc::unbounded_channel();
            let (site, shared) = (Arc::clone(&site), shared.clone());
            let thread = std::thread::Builder::new()
                .name(format!("worker {number}"))
                .spawn(move || worker_thread::run(number, site, mine, shared, receiver))
                .map_err(|error| vec![*Diagnostic::error(format!("a worker thread cannot be started: {error}"))])?;
            workers.push((sender, thread));
        }
        let sharing = Arc::clone(&shared.workers.sharing);
        options.desk.follow(workers.iter().map(|(sender, _)| sender.clone()).collect(), main_log.clone(), sharing);
        let (began, last) = (Instant::now(), Mutex::new(Last { site, keeping }));
        Ok(Self { workers, shared, main_log, issuing, tickets, limits, lurker, ahead, began, last })
    }

    /// Serves `config` from now on. Running requests finish under the old configuration; connections and pages stay.
    pub fn reload(&self, config: Config, material: &Material, descriptors: Descriptors) -> Result<(), Vec<Diagnostic>> {
        let mut last = self.last.lock();
        let site = Arc::new(assemble::assemble(&config, material, &mut last.keeping)?);
        self.shared.files.adopt(descriptors.logs.into_iter().map(|(path, fd)| (path, File::from(fd))));
        self.main_log.follow(Logs::new(&site, &self.shared.files).0.main_log());
        last.keeping.zones.open_disks(&config.http, &self.main_log, &self.shared.workers.pressure);
        let (cluster, zones) = (site.caches.cluster.as_ref(), &site.caches.zones);
        self.shared.workers.sharing.follow(cluster, zones, &self.main_log, Moment::Reload);
        self.tickets.follow(&site.caches, &self.main_log);
        self.limits.follow(&site, &self.main_log);
        self.shared.workers.acme_sharing.follow(site.caches.sharing_certificates(), &self.main_log);
        self.issuing.follow(site.acme.as_ref());
        self.lurker.follow(&site.caches);
        refiller::follow(&site, &self.shared.workers.refill);
        self.ahead.follow(&site);
        let mut sockets = share(descriptors.listeners, self.workers.len());
        for ((sender, _), sockets) in self.workers.iter().zip(sockets.iter_mut()) {
            // If a worker has ended, the process ends too, so nobody is left to configure.
            let _ = sender.send(Command::Configure(Arc::clone(&site), std::mem::take(sockets)));
        }
        last.site = site;
        Ok(())
    }

    /// Keeps the transaction log in this way from now on.
    pub fn keep_log(&self, settings: Settings) {
        self.shared.workers.log.set(settings);
    }

    /// Returns when all workers have carried out the orders that were given before.
    pub async fn settled(&self) {
        let (done, mut noticed) = mpsc::unbounded_channel();
        self.tell(|| Command::Notice(done.clone()));
        drop(done);
        // Nobody sends anything; the channel ends with the last sender.
        while noticed.recv().await.is_some() {}
    }

    /// Writes logs to these files from now on, instead of the files of the same paths.
    pub fn reopen(&self, logs: Vec<(PathBuf, OwnedFd)>) {
        self.tell(|| Command::Flush);
        self.shared.files.adopt(logs.into_iter().map(|(path, fd)| (path, File::from(fd))));
    }

    /// The log files; they can be replaced even while the workers end.
    pub fn log_files(&self) -> LogFiles {
        self.shared.files.clone()
    }

    /// Accepts no new connections, closes idle ones, and ends when all requests are done or `worker_shutdown_timeout`
    /// is over.
    pub fn quit(&self) {
        self.issuing.end();
        self.tell(|| Command::Quit);
    }

    /// Ends at once.
    pub fn stop(&self) {
        self.issuing.end();
        self.tell(|| Command::Stop);
    }

    /// Returns when all workers have ended and all that was stored is on disk.
    ///
    /// The disks are released after a while even if a client is slow or never finishes: a process of a new binary may
    /// wait for them. Bodies that are being sent continue.
    pub fn join(self) {
        let began = Instant::now();
        while began.elapsed() < DISKS_KEPT && !self.workers.iter().all(|(_, thread)| thread.is_finished()) {
            std::thread::sleep(JOIN_POLL);
        }
        // Before the disks, which keep how far it has come.
        self.shared.workers.sharing.stop();
        self.last.into_inner().keeping.zones.close_disks();
        for (sender, thread) in self.workers {
            // A worker that panicked has reported it on standard error.
            let _ = thread.join();
            drop(sender);
        }
    }

    /// The VCLs that are served, with the files that the configuration names. `vcl.objects.directors` lists backends,
    /// and takes what an operator says about their health.
    pub fn vcls(&self) -> Vec<(PathBuf, Arc<Vcl>)> {
        let last = self.last.lock();
        last.site.origins.vcls.iter().map(|used| (used.file.clone(), Arc::clone(&used.vcl))).collect()
    }

    /// Bans in all zones what the words of the command `ban` say, and waits a while until their disks have noted it.
    pub async fn ban(&self, words: &[String]) -> Result<(), bans::BanFault> {
        let condition = bans::of_words(words).map_err(bans::BanFault::Refused)?;
        let zones = self.last.lock().site.caches.zones.clone();
        for zone in &zones {
            zone.ban(Arc::clone(&condition), clock::now());
        }
        Ok(bans::kept(&zones).await?)
    }

    /// The bans of all zones, zone by zone, newest first.
    pub fn bans(&self) -> Vec<larder_cache::Listed> {
        let zones = self.last.lock().site.caches.zones.clone();
        zones.iter().flat_map(|zone| zone.bans()).collect()
    }

    /// What was counted since the workers began.
    pub fn counted(&self) -> Counted {
        let zones = self.last.lock().site.caches.zones.clone();
        let mut memories: Vec<&Arc<Memory>> = Vec::new();
        let zone = |zone: &'_ Arc<Zone>| CountedZone {
            name: zone.name().to_owned(),
            stats: zone.stats(),
            bans: zone.ban_stats(),
            disks: zone.shelves().iter().map(|disk| disk.stats()).collect(),
            has_new_memory: true,
        };
        let mut counted: Vec<CountedZone> = zones.iter().map(zone).collect();
        for (zone, counted) in zones.iter().zip(&mut counted) {
            counted.has_new_memory = memories.iter().all(|known| !Arc::ptr_eq(known, zone.memory()));
            memories.push(zone.memory());
        }
        Counted {
            sums: self.shared.workers.stats.sums(false),
            uptime: self.began.elapsed(),
            pipes: self.shared.workers.pipes.count(),
            zones: counted,
        }
    }

    /// Writes to the main error log.
    pub fn log(&self, level: LogLevel, message: &str) {
        self.main_log.write(level, message);
    }

    fn tell(&self, command: impl Fn() -> Command) {
        for (sender, _) in &self.workers {
            let _ = sender.send(command());
        }
    }
}

/// Gives each worker one socket of each address. If there are fewer sockets than workers, as for unix sockets, workers
/// share the last one. If there are more, some workers get several, as the kernel gives every socket its share of the
/// connections.
fn share(listeners: Vec<(ListenAddress, Vec<OwnedFd>)>, workers: usize) -> Vec<Vec<(ListenAddress, OwnedFd)>> {
    let mut shares: Vec<Vec<_>> = (0..workers).map(|_| Vec::new()).collect();
    for (address, mut fds) in listeners {
        while let Some(last) = fds.last().filter(|_| fds.len() < workers) {
            match last.try_clone() {
                Ok(copy) => fds.push(copy),
                Err(_) => break,
            }
        }
        for (number, fd) in fds.into_iter().enumerate() {
            shares[number % workers].push((address.clone(), fd));
        }
    }
    shares
}
