//! The workers of a process, and what may be asked of them: another configuration, other log files, an end.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::rc::{Rc, Weak};
use std::sync::{self, Arc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use larder_cache::Front;
use larder_conf::Diagnostic;
use larder_conf::model::{Config, ListenAddress, LogLevel};
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use crate::acme::Issuing;
use crate::assemble::{self, Keeping};
use crate::clock;
use crate::context::Cx;
use crate::listen::{self, ConnectionIds};
use crate::local::{End, Local};
use crate::log::main::MainLog;
use crate::logs::{LogFiles, Logs};
use crate::material::Material;
use crate::resolvers;
use crate::site::Site;
use crate::worker::{self, Worker};
use crate::zones;

/// How often a worker looks at its buffers, and the first of them at the cache.
const TICK: Duration = Duration::from_millis(250);
/// How many ticks lie between two looks at the cache for what nobody uses.
const SWEEP_TICKS: u32 = 4;

/// How long a process that ends keeps its disks for requests that take long, and how often it looks whether all are
/// done. Less than the supervisor's patience after a TERM, so that what is queued for them is still written.
const DISKS_KEPT: Duration = Duration::from_secs(1);
/// How long requests that are cut off may take to end.
const CUT_OFF_MAX: Duration = Duration::from_millis(500);
const JOIN_POLL: Duration = Duration::from_millis(2);

/// How many threads a worker has for what takes long: slow password hashes, names to look up. A hash may take
/// megabytes, so that this bounds memory too.
const BLOCKING_THREADS: usize = 4;

/// What the process was given: sockets and files that were opened with rights it does not have.
#[derive(Debug, Default)]
pub struct Descriptors {
    /// Sockets that listen: one for each worker, or fewer or more from a predecessor with other numbers. On a reload
    /// those of addresses that are listened at already are not needed and closed.
    pub listeners: Vec<(ListenAddress, Vec<OwnedFd>)>,
    /// Log files by their paths.
    pub logs: Vec<(PathBuf, OwnedFd)>,
}

/// How to serve.
#[derive(Clone, Debug)]
pub struct ServingOptions {
    /// How many workers.
    pub workers: usize,
}

/// The workers of this process.
pub struct Serving {
    workers: Vec<(mpsc::UnboundedSender<Command>, JoinHandle<()>)>,
    shared: Shared,
    main_log: MainLog,
    issuing: Issuing,
    last: Mutex<Last>,
}

/// What a reload begins from.
struct Last {
    site: Arc<Site>,
    keeping: Keeping,
}

#[derive(Clone, Default)]
struct Shared {
    workers: worker::Shared,
    files: LogFiles,
    ids: ConnectionIds,
}

enum Command {
    Configure(Arc<Site>, Vec<(ListenAddress, OwnedFd)>),
    Flush,
    Quit,
    Stop,
}

impl Serving {
    /// Starts the workers under `config`.
    pub fn start(
        config: Config,
        material: &Material,
        descriptors: Descriptors,
        options: ServingOptions,
    ) -> Result<Self, Vec<Diagnostic>> {
        let mut keeping = Keeping::default();
        let site = Arc::new(assemble::assemble(&config, material, &mut keeping)?);
        let shared = Shared::default();
        shared.files.adopt(descriptors.logs.into_iter().map(|(path, fd)| (path, File::from(fd))));
        let (logs, trouble) = Logs::new(&site, &shared.files);
        let main_log = keeping.main_log.clone();
        main_log.follow(logs.main_log());
        for line in trouble {
            main_log.write(LogLevel::Alert, line);
        }
        keeping.zones.open_disks(&config.http, &main_log, &shared.workers.pressure);
        shared.workers.pressure.watch(main_log.clone());
        // Before anybody connects, so that what was issued before is shown to the first.
        let issuing = Issuing::new(Arc::clone(&shared.workers.challenges), keeping.issued().clone(), main_log.clone());
        issuing.follow(site.acme.as_ref());
        let count = options.workers.max(1);
        let mut workers = Vec::with_capacity(count);
        for (number, mine) in share(descriptors.listeners, count).into_iter().enumerate() {
            let (sender, receiver) = mpsc::unbounded_channel();
            let (site, shared) = (Arc::clone(&site), shared.clone());
            let thread = std::thread::Builder::new()
                .name(format!("worker {number}"))
                .spawn(move || run(number, site, mine, shared, receiver))
                .map_err(|error| vec![*Diagnostic::error(format!("a worker thread cannot be started: {error}"))])?;
            workers.push((sender, thread));
        }
        Ok(Self { workers, shared, main_log, issuing, last: Mutex::new(Last { site, keeping }) })
    }

    /// Serves `config` from now on. Requests under way finish under the old one, connections and pages stay.
    pub fn reload(&self, config: Config, material: &Material, descriptors: Descriptors) -> Result<(), Vec<Diagnostic>> {
        let mut last = self.last.lock();
        let site = Arc::new(assemble::assemble(&config, material, &mut last.keeping)?);
        self.shared.files.adopt(descriptors.logs.into_iter().map(|(path, fd)| (path, File::from(fd))));
        self.main_log.follow(Logs::new(&site, &self.shared.files).0.main_log());
        last.keeping.zones.open_disks(&config.http, &self.main_log, &self.shared.workers.pressure);
        self.issuing.follow(site.acme.as_ref());
        let mut sockets = share(descriptors.listeners, self.workers.len());
        for ((sender, _), sockets) in self.workers.iter().zip(sockets.iter_mut()) {
            // A worker that has ended is the process's end; nobody is left to configure.
            let _ = sender.send(Command::Configure(Arc::clone(&site), std::mem::take(sockets)));
        }
        last.site = site;
        Ok(())
    }

    /// Writes to these files from now on, in place of those of the same paths.
    pub fn reopen(&self, logs: Vec<(PathBuf, OwnedFd)>) {
        self.tell(|| Command::Flush);
        self.shared.files.adopt(logs.into_iter().map(|(path, fd)| (path, File::from(fd))));
    }

    /// The log files, which can be put in place of each other while the workers end.
    pub fn log_files(&self) -> LogFiles {
        self.shared.files.clone()
    }

    /// Takes no new connections, closes idle ones, and ends when the rest is done or `worker_shutdown_timeout` over.
    pub fn quit(&self) {
        self.issuing.end();
        self.tell(|| Command::Quit);
    }

    /// Ends now.
    pub fn stop(&self) {
        self.issuing.end();
        self.tell(|| Command::Stop);
    }

    /// Returns when all workers have ended, and what was stored is on disk.
    ///
    /// The disks are let go of after a while even if a client takes long, or never ends: another process may wait for
    /// them, which was started by a new binary. Bodies that are being sent go on.
    pub fn join(self) {
        let began = Instant::now();
        while began.elapsed() < DISKS_KEPT && !self.workers.iter().all(|(_, thread)| thread.is_finished()) {
            std::thread::sleep(JOIN_POLL);
        }
        self.last.into_inner().keeping.zones.close_disks();
        for (sender, thread) in self.workers {
            // A worker that panicked has said so on standard error.
            let _ = thread.join();
            drop(sender);
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

/// One socket of each address for each worker. Where there are fewer sockets than workers, as for unix sockets, the
/// workers share the last one; where there are more, some workers have several, as the kernel gives every socket its
/// part of the connections.
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

fn local(site: &Arc<Site>, files: &LogFiles) -> Rc<Local> {
    let (logs, trouble) = Logs::new(site, files);
    for line in trouble {
        logs.main(LogLevel::Alert, line);
    }
    Rc::new(Local {
        site: Arc::clone(site),
        fronts: site.caches.zones.iter().map(|_| RefCell::new(Front::new())).collect(),
        logs,
        files: RefCell::default(),
        groups: RefCell::default(),
        end: End::default(),
    })
}

/// A worker thread, to its end.
fn run(
    number: usize,
    site: Arc<Site>,
    sockets: Vec<(ListenAddress, OwnedFd)>,
    shared: Shared,
    commands: mpsc::UnboundedReceiver<Command>,
) {
    let runtime = match tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .max_blocking_threads(BLOCKING_THREADS)
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("larder: [emerg] a worker cannot run: {error}");
            return;
        }
    };
    let tasks = tokio::task::LocalSet::new();
    tasks.block_on(&runtime, work(number, site, sockets, shared, commands));
}

async fn work(
    number: usize,
    site: Arc<Site>,
    sockets: Vec<(ListenAddress, OwnedFd)>,
    shared: Shared,
    mut commands: mpsc::UnboundedReceiver<Command>,
) {
    let worker = Worker::new(local(&site, &shared.files), shared.workers.clone());
    let gate = Rc::clone(&worker.gate);
    tokio::task::spawn_local(async move {
        loop {
            gate.more().await;
            gate.let_in();
        }
    });
    let mut listening: HashMap<ListenAddress, Vec<AbortHandle>> = HashMap::new();
    start_listening(sockets, &mut listening, &worker, &shared.ids);
    // One worker follows the names of groups for all.
    let mut following = if number == 0 { resolvers::follow(&site.origins.followed) } else { Vec::new() };
    // A reload ends it; nothing here keeps it.
    drop(site);
    let mut tick = tokio::time::interval(TICK);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut ticks = 0_u32;
    let mut replaced: Vec<Weak<Local>> = Vec::new();
    // One worker says for all that nobody needs a configuration any more.
    let mut running_out: Vec<sync::Weak<Site>> = Vec::new();
    loop {
        let command = tokio::select! {
            command = commands.recv() => command,
            () = worker.lines() => {
                worker.write_lines(clock::now());
                continue;
            }
            _ = tick.tick() => {
                ticks = ticks.wrapping_add(1);
                keep_house(number, ticks, &worker.cx());
                say_what_ran_out(&mut running_out, &worker.cx());
                continue;
            }
        };
        match command {
            Some(Command::Configure(site, sockets)) => {
                worker.cx().local.logs.flush(clock::now(), true);
                replaced.retain(|local| local.strong_count() > 0);
                replaced.push(Rc::downgrade(&worker.cx().local));
                end_in_time(&worker);
                if number == 0 {
                    running_out.push(Arc::downgrade(&worker.cx().local.site));
                }
                worker.configure(local(&site, &shared.files));
                if number == 0 {
                    following.drain(..).for_each(|task| task.abort());
                    following = resolvers::follow(&site.origins.followed);
                }
                let wanted: Vec<&ListenAddress> = site.listeners.iter().map(|listener| &listener.address).collect();
                listening.retain(|address, tasks| {
                    let stays = wanted.contains(&address) || sockets.iter().any(|(socket, _)| socket == address);
                    if !stays {
                        tasks.iter().for_each(AbortHandle::abort);
                    }
                    stays
                });
                start_listening(sockets, &mut listening, &worker, &shared.ids);
            }
            Some(Command::Flush) => worker.cx().local.logs.flush(clock::now(), true),
            Some(Command::Quit) => {
                listening.drain().flat_map(|(_, tasks)| tasks).for_each(|task| task.abort());
                // Connections that the kernel has accepted for us but we have not are taken before the end.
                tokio::task::yield_now().await;
                // A task of its own: who has only just connected gets a moment, and nobody waits for that alone.
                let closing = Rc::clone(&worker);
                tokio::task::spawn_local(async move { closing.seats.close(clock::now()).await });
                let timeout = worker.cx().site().shutdown_timeout;
                let lines = async {
                    loop {
                        worker.lines().await;
                        worker.write_lines(clock::now());
                    }
                };
                let ended = worker.seats.all_ended();
                let stopped = async {
                    while let Some(command) = commands.recv().await {
                        if matches!(command, Command::Stop) {
                            return;
                        }
                    }
                    std::future::pending().await
                };
                let limit = async {
                    match timeout {
                        Some(timeout) => tokio::time::sleep(timeout).await,
                        None => std::future::pending().await,
                    }
                };
                tokio::select! {
                    () = ended => {}
                    () = lines => {}
                    () = stopped => {}
                    () = limit => {
                        let current = worker.cx().local;
                        replaced.iter().filter_map(Weak::upgrade).chain([current]).for_each(|local| local.end.come());
                        // They have their log lines to write, and nothing to wait for.
                        let _ = tokio::time::timeout(CUT_OFF_MAX, worker.seats.all_ended()).await;
                    }
                }
                break;
            }
            Some(Command::Stop) | None => break,
        }
    }
    worker.write_lines(clock::now());
    worker.cx().local.logs.flush(clock::now(), true);
}

/// Ends what still runs under the configuration at hand when its `worker_shutdown_timeout` is over, which begins now.
fn end_in_time(worker: &Rc<Worker>) {
    let old = worker.cx().local;
    let Some(timeout) = old.site.shutdown_timeout else { return };
    let (worker, old, now) = (Rc::clone(worker), Rc::downgrade(&old), clock::now());
    tokio::task::spawn_local(async move {
        tokio::time::sleep(timeout).await;
        worker.seats.close_older(now);
        if let Some(old) = old.upgrade() {
            old.end.come();
        }
    });
}

/// Says of each configuration that was replaced, once, that its last request is done on all workers. Who waits for the
/// end of nginx's old worker processes looks for these words.
fn say_what_ran_out(replaced: &mut Vec<sync::Weak<Site>>, cx: &Cx) {
    replaced.retain(|site| {
        let is_used = site.strong_count() > 0;
        if !is_used {
            cx.local.logs.main(
                LogLevel::Notice,
                "no request is left under an old configuration: what would be nginx's old worker process exited with code 0",
            );
        }
        is_used
    });
}

fn start_listening(
    sockets: Vec<(ListenAddress, OwnedFd)>,
    listening: &mut HashMap<ListenAddress, Vec<AbortHandle>>,
    worker: &Rc<Worker>,
    ids: &ConnectionIds,
) {
    let is_new = |(address, _): &(ListenAddress, OwnedFd)| !listening.contains_key(address);
    let new: Vec<_> = sockets.into_iter().filter(is_new).collect();
    for (address, fd) in new {
        let task = tokio::task::spawn_local(listen::accept(address.clone(), fd, Rc::clone(worker), ids.clone()));
        listening.entry(address).or_default().push(task.abort_handle());
    }
}

/// What is done now and then: log buffers are written, and what nobody uses leaves the cache.
fn keep_house(number: usize, ticks: u32, cx: &Cx) {
    let now = cx.now();
    cx.local.logs.flush(now, false);
    if !ticks.is_multiple_of(SWEEP_TICKS) {
        return;
    }
    for front in &cx.local.fronts {
        front.borrow_mut().tidy();
    }
    if number == 0 {
        zones::keep_house(&cx.site().caches.zones, now);
    }
}
