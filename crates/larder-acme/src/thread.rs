//! The thread: one keeper an order, started and ended as the configuration changes.

use crate::account::Account;
use crate::keeper::Keeper;
use crate::log::{Level, Log, OnLog};
use crate::order::Order;
use crate::peers::FindPeers;
use crate::responses::Responses;
use crate::schedule::Timing;
use crate::shared::{OnCertificate, Shared, Status};
use crate::store::Store;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::fs::File;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use std::{io, thread};
use tokio::sync::{Semaphore, watch};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::sleep;

/// What the thread needs of the outside.
pub struct Hooks {
    /// Takes certificates as they come.
    pub on_certificate: Box<OnCertificate>,
    /// Takes log lines.
    pub on_log: Box<OnLog>,
    /// The time of day.
    pub now: Box<dyn Fn() -> SystemTime + Send + Sync>,
    /// Finds the other hosts that serve the same names.
    pub find_peers: Box<FindPeers>,
    /// How long to wait for what.
    pub timing: Timing,
}

/// Starts the thread that keeps the certificates of `orders`.
///
/// Certificates that are stored are handed to `on_certificate` before this returns. Fails only if the system gives no
/// thread; a CA or a state directory out of order is a matter of log lines and later tries.
pub fn spawn(account: Account, orders: Vec<Order>, responses: Arc<Responses>, hooks: Hooks) -> io::Result<Handle> {
    let log = Log::new(hooks.on_log);
    let shared = Arc::new(Shared {
        store: Store::new(&account.state_dir, &account.directory, log.clone()),
        account,
        responses,
        log,
        timing: hooks.timing,
        registering: tokio::sync::Mutex::default(),
        turns: Semaphore::new(TURNS),
        now: hooks.now,
        on_certificate: hooks.on_certificate,
        find_peers: hooks.find_peers,
        delivery: Mutex::default(),
        statuses: Mutex::default(),
    });
    shared.deliver_stored(&orders);
    let (wanted, wanted_here) = watch::channel(orders);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
    let thread = thread::Builder::new().name("larder-acme".into()).spawn({
        let shared = shared.clone();
        move || {
            runtime.block_on(run(&shared, wanted_here));
            // A name that is being looked up must not keep the process.
            runtime.shutdown_background();
        }
    })?;
    Ok(Handle { wanted, shared, thread })
}

/// The running thread. It ends when this is dropped.
pub struct Handle {
    wanted: watch::Sender<Vec<Order>>,
    shared: Arc<Shared>,
    thread: thread::JoinHandle<()>,
}

impl Handle {
    /// Keeps the certificates of `orders` from now on. Every stored one is handed to `on_certificate` before this
    /// returns, whether its order is new or not. An order that is waiting after a failure is tried again soon.
    pub fn reconfigure(&self, orders: Vec<Order>) {
        self.shared.deliver_stored(&orders);
        self.wanted.send_replace(orders);
    }

    /// The account that the thread was started with; for another one, start another thread.
    pub fn account(&self) -> &Account {
        &self.shared.account
    }

    /// How it stands with each order.
    pub fn status(&self) -> Vec<Status> {
        self.shared.statuses.lock().values().cloned().collect()
    }

    /// Ends the thread, and waits for that. What is under way at the CA goes on at the next start.
    pub fn stop(self) {
        drop(self.wanted);
        if self.thread.join().is_err() {
            self.shared.log.say(Level::Error, "the thread", "ended in a panic, which is a bug in larder");
        }
    }
}

impl std::fmt::Debug for Handle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Handle").field("account", &self.shared.account).finish_non_exhaustive()
    }
}

/// Speaking to the CA for many names at once only brings its limits nearer.
const TURNS: usize = 4;

/// How often to look whether another process has ended that holds the right to order.
const LOCK_EVERY: Duration = Duration::from_secs(10);

/// After a panic, which is a bug, the CA is left alone for this long.
const AFTER_PANIC: Duration = Duration::from_secs(3600);

struct Kept {
    order: Order,
    task: AbortHandle,
}

async fn run(shared: &Arc<Shared>, mut wanted: watch::Receiver<Vec<Order>>) {
    let Some(_lock) = lock(shared, &mut wanted).await else {
        return;
    };
    let mut keepers: HashMap<String, Kept> = HashMap::new();
    let mut tasks = JoinSet::new();
    let mut pause = Duration::ZERO;
    loop {
        let orders: HashMap<String, Order> =
            wanted.borrow_and_update().iter().map(|order| (order.id(), order.clone())).collect();
        keepers.retain(|id, kept| {
            let stays = orders.get(id) == Some(&kept.order) && !kept.task.is_finished();
            if !stays {
                kept.task.abort();
            }
            stays
        });
        for (id, order) in &orders {
            if keepers.contains_key(id) {
                continue;
            }
            shared.note(order, |_| ());
            let keeper = Keeper::new(shared.clone(), order.clone(), wanted.clone());
            let task = tasks.spawn(async move {
                sleep(pause).await;
                keeper.run().await;
            });
            keepers.insert(id.clone(), Kept { order: order.clone(), task });
        }
        shared.statuses.lock().retain(|id, _| orders.contains_key(id));
        pause = loop {
            tokio::select! {
                changed = wanted.changed() => match changed {
                    Ok(()) => break Duration::ZERO,
                    Err(_) => return,
                },
                Some(ended) = tasks.join_next() => if ended.is_err_and(|error| error.is_panic()) {
                    let fact = "a keeper ended in a panic, which is a bug in larder; it is started again in an hour";
                    shared.log.say(Level::Error, "the thread", fact);
                    break AFTER_PANIC;
                },
            }
        };
    }
}

/// The right to order at this CA out of this state directory; `None` when the thread should end.
async fn lock(shared: &Shared, wanted: &mut watch::Receiver<Vec<Order>>) -> Option<File> {
    let mut said = None;
    loop {
        let (fact, wait) = match shared.store.prepare().and_then(|()| shared.store.lock()) {
            Ok(Some(lock)) => return Some(lock),
            Ok(None) => ("another process orders; larder waits for its end".to_string(), LOCK_EVERY),
            Err(error) => (format!("{error}; nothing is ordered as long"), shared.timing.retry_first),
        };
        if said.as_ref() != Some(&fact) {
            let level = if wait == LOCK_EVERY { Level::Info } else { Level::Error };
            shared.log.say(level, &shared.account.state_dir.display().to_string(), &fact);
            said = Some(fact);
        }
        let ended = async { while wanted.changed().await.is_ok() {} };
        tokio::select! {
            () = sleep(wait) => {}
            () = ended => return None,
        }
    }
}
