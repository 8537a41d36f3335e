//! A worker thread, from its start to its end.

use std::cell::RefCell;
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::rc::{Rc, Weak};
use std::sync::{self, Arc};
use std::time::Duration;

use larder_cache::Front;
use larder_conf::model::{ListenAddress, LogLevel};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use crate::clock;
use crate::context::Cx;
use crate::listen::{self, ConnectionIds};
use crate::local::{End, Local};
use crate::logs::{LogFiles, Logs};
use crate::resolvers;
use crate::site::Site;
use crate::worker::{self, Worker};
use crate::zones;

/// How often a worker looks at its buffers, and the first of them at the cache.
const TICK: Duration = Duration::from_millis(250);
/// How many ticks lie between two looks at the cache for what nobody uses.
const SWEEP_TICKS: u32 = 4;

/// How long requests that are cut off may take to end.
const CUT_OFF_MAX: Duration = Duration::from_millis(500);
/// How many threads a worker has for what takes long: slow password hashes, names to look up. A hash may take
/// megabytes, so that this bounds memory too.
const BLOCKING_THREADS: usize = 4;

/// What the threads share.
#[derive(Clone, Default)]
pub struct Shared {
    /// What their workers do.
    pub workers: worker::Shared,
    /// Open log files.
    pub files: LogFiles,
    /// Numbers of connections.
    pub ids: ConnectionIds,
}

/// What a worker is asked for.
pub enum Command {
    /// Requests that begin from now on run under this configuration, and these sockets are new.
    Configure(Arc<Site>, Vec<(ListenAddress, OwnedFd)>),
    /// Buffers of logs are written.
    Flush,
    /// No connection is taken any more, and the worker ends when all is done.
    Quit,
    /// The worker ends now.
    Stop,
}

/// A worker thread, to its end.
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
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("larder: [emerg] a worker cannot run: {error}");
            return;
        }
    };
    let tasks = tokio::task::LocalSet::new();
    tasks.block_on(&runtime, async move {
        Thread::begin(number, site, sockets, shared).work(commands).await;
    });
}

/// A worker at work.
struct Thread {
    number: usize,
    worker: Rc<Worker>,
    shared: Shared,
    listening: HashMap<ListenAddress, Vec<AbortHandle>>,
    /// The tasks that follow the names of groups. One worker follows them for all.
    following: Vec<AbortHandle>,
    /// Configurations that were replaced and may still be in use.
    replaced: Vec<Weak<Local>>,
    /// The same of all workers. One says for all that nobody needs one any more.
    running_out: Vec<sync::Weak<Site>>,
    ticks: u32,
}

impl Thread {
    /// Begins to listen. Nothing here keeps `site`, which a reload ends.
    fn begin(number: usize, site: Arc<Site>, sockets: Vec<(ListenAddress, OwnedFd)>, shared: Shared) -> Self {
        let worker = Worker::new(local(&site, &shared.files), shared.workers.clone());
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
        thread
    }

    /// Does what it is asked for, and what is due, to the end.
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

    /// Runs requests under `site` from now on, and listens where it says.
    fn configure(&mut self, site: &Arc<Site>, sockets: Vec<(ListenAddress, OwnedFd)>) {
        let old = self.worker.local();
        old.logs.flush(clock::now(), true);
        self.replaced.retain(|local| local.strong_count() > 0);
        self.replaced.push(Rc::downgrade(&old));
        end_in_time(&self.worker);
        if self.number == 0 {
            self.running_out.push(Arc::downgrade(&old.site));
        }
        self.worker.configure(local(site, &self.shared.files));
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

    /// Listens at the addresses that are new.
    fn listen(&mut self, sockets: Vec<(ListenAddress, OwnedFd)>) {
        let is_new = |(address, _): &(ListenAddress, OwnedFd)| !self.listening.contains_key(address);
        let new: Vec<_> = sockets.into_iter().filter(is_new).collect();
        for (address, fd) in new {
            let accepting = listen::accept(address.clone(), fd, Rc::clone(&self.worker), self.shared.ids.clone());
            let task = tokio::task::spawn_local(accepting);
            self.listening.entry(address).or_default().push(task.abort_handle());
        }
    }

    /// Follows the names of the groups of `site`, and of no other.
    fn follow(&mut self, site: &Site) {
        if self.number == 0 {
            self.following.drain(..).for_each(|task| task.abort());
            self.following = resolvers::follow(&site.origins.followed);
        }
    }

    /// Takes no connection any more, and returns when what runs is done, or may not go on.
    async fn quit(&mut self, commands: &mut mpsc::UnboundedReceiver<Command>) {
        self.listening.drain().flat_map(|(_, tasks)| tasks).for_each(|task| task.abort());
        // Connections that the kernel has accepted for us but we have not are taken before the end.
        tokio::task::yield_now().await;
        let worker = &self.worker;
        // A task of its own: who has only just connected gets a moment, and nobody waits for that alone.
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
                // They have their log lines to write, and nothing to wait for.
                let _ = tokio::time::timeout(CUT_OFF_MAX, worker.seats.all_ended()).await;
            }
        }
    }

    /// What is done now and then: log buffers are written, and what nobody uses leaves the cache.
    fn keep_house(&mut self) {
        let (cx, now) = (self.worker.cx(), clock::now());
        self.ticks = self.ticks.wrapping_add(1);
        cx.local.logs.flush(now, false);
        if self.ticks.is_multiple_of(SWEEP_TICKS) {
            for front in &cx.local.fronts {
                front.borrow_mut().tidy();
            }
            if self.number == 0 {
                zones::keep_house(&cx.site().caches.zones, now);
            }
        }
        say_what_ran_out(&mut self.running_out, &cx);
    }
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
