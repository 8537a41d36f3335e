//! A worker thread, from its start to its end.

use std::cell::RefCell;
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::rc::{Rc, Weak};
use std::sync::{self, Arc};
use std::time::Duration;

use larder_cache::Front;
use larder_conf::model::{ListenAddress, LogLevel};
use tokio::runtime::LocalOptions;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use crate::clock;
use crate::context::Cx;
use crate::explain::{self, Explanation, Question};
use crate::files::kept::KEPT_BYTES_MAX;
use crate::listen::{self, ConnectionIds};
use crate::local::{End, Local};
use crate::logs::{LogFiles, Logs};
use crate::misses::{Gathered, Summary};
use crate::pressure::Stage;
use crate::probes;
use crate::purges::wanted::Pages;
use crate::refiller;
use crate::resolvers;
use crate::site::Site;
use crate::sitemaps;
use crate::status;
use crate::vsl::Audience;
use crate::worker::{self, Worker};
use crate::zones;

/// How often a worker checks its log buffers, and the first worker the cache.
const TICK: Duration = Duration::from_millis(250);
/// How many ticks lie between two searches of the cache for inactive pages.
const SWEEP_TICKS: u32 = 4;

/// How long requests that are cut off may take to end.
const CUT_OFF_MAX: Duration = Duration::from_millis(500);
/// How many threads a worker has for blocking work: slow password hashes, lookups of names. A hash may take megabytes,
/// so this bounds memory too.
const BLOCKING_THREADS: usize = 4;

/// What the threads of the process share.
#[derive(Clone, Default)]
pub struct Shared {
    /// What their workers share.
    pub workers: worker::Shared,
    /// The open log files.
    pub files: LogFiles,
    /// The numbers of connections.
    pub ids: ConnectionIds,
}

/// An order to a worker.
pub enum Command {
    /// Use this configuration for requests that begin from now on, and listen on these new sockets.
    Configure(Arc<Site>, Vec<(ListenAddress, OwnedFd)>),
    /// Drop this: all orders before have been carried out.
    Notice(mpsc::UnboundedSender<()>),
    /// Write the buffers of logs.
    Flush,
    /// Tell why requests of the last minutes were no hits.
    Misses(sync::mpsc::Sender<Gathered>),
    /// Tell what would be done with a request, where this was seen of others.
    Explain(Box<(Question, Summary)>, sync::mpsc::Sender<Result<Explanation, String>>),
    /// Tell where pages are.
    Pages(sync::mpsc::Sender<Pages>),
    /// What it does now, as JSON.
    Now(sync::mpsc::Sender<String>),
    /// Accept no more connections, and end when all requests are done.
    Quit,
    /// End now.
    Stop,
}

/// Runs a worker thread to its end.
pub fn run(
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
        .build_local(LocalOptions::default())
    {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("larder: [emerg] a worker cannot run: {error}");
            return;
        }
    };
    runtime.block_on(async move {
        Thread::begin(number, site, sockets, shared).work(commands).await;
    });
}

/// A running worker thread.
struct Thread {
    number: usize,
    worker: Rc<Worker>,
    shared: Shared,
    listening: HashMap<ListenAddress, Vec<AbortHandle>>,
    /// The tasks that follow the names of groups, and probe backends; one worker does it for all.
    following: Vec<AbortHandle>,
    /// Replaced configurations that may still be in use on this worker.
    replaced: Vec<Weak<Local>>,
    /// Replaced configurations that may still be in use on any worker; one worker logs for all that the last request is
    /// done.
    running_out: Vec<sync::Weak<Site>>,
    ticks: u32,
}

impl Thread {
    /// Starts a worker and listens. Does not keep `site`, so that a reload frees it.
    fn begin(number: usize, site: Arc<Site>, sockets: Vec<(ListenAddress, OwnedFd)>, shared: Shared) -> Self {
        let worker = Worker::new(local(number, &site, &shared.files), shared.workers.clone());
        let gate = Rc::clone(&worker.gate);
        tokio::task::spawn_local(async move {
            loop {
                gate.more().await;
                gate.let_in();
            }
        });
        let mut thread = Self {
            number,
            worker,
            shared,
            listening: HashMap::new(),
            following: Vec::new(),
            replaced: Vec::new(),
            running_out: Vec::new(),
            ticks: 0,
        };
        thread.listen(sockets);
        thread.follow(&site);
        if number == 0 {
            tokio::task::spawn_local(refiller::run(Rc::clone(&thread.worker)));
            tokio::task::spawn_local(sitemaps::run(Rc::clone(&thread.worker)));
        }
        thread.worker.misses.lock().tick(0, clock::now());
        thread
    }

    /// Handles orders and regular tasks until the worker ends.
    async fn work(mut self, mut commands: mpsc::UnboundedReceiver<Command>) {
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            let command = tokio::select! {
                command = commands.recv() => command,
                () = self.worker.lines() => {
                    self.worker.write_lines(clock::now());
                    continue;
                }
                _ = tick.tick() => {
                    self.keep_house();
                    continue;
                }
            };
            match command {
                Some(Command::Configure(site, sockets)) => self.configure(&site, sockets),
                Some(Command::Notice(done)) => drop(done),
                Some(Command::Misses(answer)) => {
                    let mut seen = Gathered::default();
                    self.worker.misses.lock().gather(self.worker.stats.hits.get(), clock::now(), &mut seen);
                    // Whoever does not wait any more hears nothing.
                    let _ = answer.send(seen);
                }
                Some(Command::Explain(asked, answer)) => {
                    let (question, seen) = &*asked;
                    let _ = answer.send(explain::explain(question, seen, Audience::Owner, &self.worker));
                }
                Some(Command::Now(answer)) => {
                    let _ = answer.send(status::now(&self.worker.cx()).to_string());
                }
                Some(Command::Pages(answer)) => {
                    let cx = self.worker.cx();
                    let caches = &cx.site().caches;
                    let (zones, profiles) = (caches.zones.clone(), caches.profiles.clone());
                    let _ = answer.send(Pages { zones, profiles });
                }
                Some(Command::Flush) => self.worker.cx().local.logs.flush(clock::now(), true),
                Some(Command::Quit) => {
                    self.quit(&mut commands).await;
                    break;
                }
                Some(Command::Stop) | None => break,
            }
        }
        self.worker.write_lines(clock::now());
        self.worker.cx().local.logs.flush(clock::now(), true);
    }

    /// Uses `site` for requests that begin from now on, and listens on the new sockets.
    fn configure(&mut self, site: &Arc<Site>, sockets: Vec<(ListenAddress, OwnedFd)>) {
        let old = self.worker.local();
        old.logs.flush(clock::now(), true);
        self.replaced.retain(|local| local.strong_count() > 0);
        self.replaced.push(Rc::downgrade(&old));
        end_in_time(&self.worker);
        if self.number == 0 {
            self.running_out.push(Arc::downgrade(&old.site));
        }
        self.worker.configure(local(self.number, site, &self.shared.files));
        self.follow(site);
        let wanted: Vec<&ListenAddress> = site.listeners.iter().map(|listener| &listener.address).collect();
        self.listening.retain(|address, tasks| {
            let stays = wanted.contains(&address) || sockets.iter().any(|(socket, _)| socket == address);
            if !stays {
                tasks.iter().for_each(AbortHandle::abort);
            }
            stays
        });
        self.listen(sockets);
    }

    /// Listens on the new sockets.
    fn listen(&mut self, sockets: Vec<(ListenAddress, OwnedFd)>) {
        let is_new = |(address, _): &(ListenAddress, OwnedFd)| !self.listening.contains_key(address);
        let new: Vec<_> = sockets.into_iter().filter(is_new).collect();
        for (address, fd) in new {
            let accepting = listen::accept(address.clone(), fd, Rc::clone(&self.worker), self.shared.ids.clone());
            let task = tokio::task::spawn_local(accepting);
            self.listening.entry(address).or_default().push(task.abort_handle());
        }
    }

    /// Follows the names of the groups in `site` and probes its backends, and those of no other configuration.
    fn follow(&mut self, site: &Site) {
        if self.number == 0 {
            self.following.drain(..).for_each(|task| task.abort());
            self.following = resolvers::follow(&site.origins.followed);
            let log = &self.worker.shared.log;
            self.following.extend(site.origins.vcls.iter().flat_map(|used| probes::follow(&used.probed, log)));
        }
    }

    /// Accepts no more connections, and returns when all requests are done or their time is up.
    async fn quit(&mut self, commands: &mut mpsc::UnboundedReceiver<Command>) {
        self.listening.drain().flat_map(|(_, tasks)| tasks).for_each(|task| task.abort());
        // Connections that the kernel has accepted for this worker are taken first.
        tokio::task::yield_now().await;
        let worker = &self.worker;
        // In a task of its own: a client that has just connected gets a moment, and nobody waits for that alone.
        let closing = Rc::clone(worker);
        tokio::task::spawn_local(async move { closing.seats.close(clock::now()).await });
        let timeout = worker.cx().site().shutdown_timeout;
        let lines = async {
            loop {
                worker.lines().await;
                worker.write_lines(clock::now());
            }
        };
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
            () = worker.seats.all_ended() => {}
            () = lines => {}
            () = stopped => {}
            () = limit => {
                let current = worker.local();
                self.replaced.iter().filter_map(Weak::upgrade).chain([current]).for_each(|local| local.end.come());
                // The requests that were cut off only have to write their log lines.
                let _ = tokio::time::timeout(CUT_OFF_MAX, worker.seats.all_ended()).await;
            }
        }
    }

    /// Does the regular tasks: writes log buffers, and removes inactive pages from the cache.
    fn keep_house(&mut self) {
        let (cx, now) = (self.worker.cx(), clock::now());
        self.ticks = self.ticks.wrapping_add(1);
        cx.local.logs.flush(now, false);
        if self.ticks.is_multiple_of(SWEEP_TICKS) {
            for front in &cx.local.fronts {
                front.borrow_mut().tidy();
            }
            self.worker.misses.lock().tick(self.worker.stats.hits.get(), now);
            self.worker.kept.borrow_mut().tidy(kept_bytes_max(self.shared.workers.pressure.found().stage), now);
            if self.number == 0 {
                zones::keep_house(&cx.site().caches.zones, now);
                status::tick(&cx, now);
            }
        }
        say_what_ran_out(&mut self.running_out, &cx);
    }
}

/// How much of the memory small files may take when memory is as short as this.
fn kept_bytes_max(stage: Stage) -> usize {
    match stage {
        Stage::Ample => KEPT_BYTES_MAX,
        Stage::Less => KEPT_BYTES_MAX / 8,
        Stage::Full | Stage::Waiting => 0,
    }
}

fn local(number: usize, site: &Arc<Site>, files: &LogFiles) -> Rc<Local> {
    let (logs, trouble) = Logs::new(site, files);
    for line in trouble {
        logs.main(LogLevel::Alert, line);
    }
    Rc::new(Local {
        site: Arc::clone(site),
        counts: site.counted.of_worker(number),
        fronts: site.caches.zones.iter().map(|_| RefCell::new(Front::new())).collect(),
        logs,
        files: RefCell::default(),
        groups: RefCell::default(),
        end: End::default(),
    })
}

/// Starts `worker_shutdown_timeout` for all that still runs under the current configuration, and ends it when that is
/// over.
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

/// Logs once for each replaced configuration that its last request is done on all workers. Scripts that wait for
/// nginx's old worker processes look for these words.
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
