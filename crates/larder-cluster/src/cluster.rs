//! The parts together.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::carrier::{Carrier, Level};
use crate::contact::{Contact, Heard, Trust};
use crate::forget::{ForgetError, forget};
use crate::known::Known;
use crate::place::Place;
use crate::queue::Queue;
use crate::settings::Settings;
use crate::share::{Hear, Share, seldom};
use crate::shared::{Shared, Waiter};
use crate::status::Status;
use crate::{keeper, reader, writer};

/// A node of a cluster.
pub struct Cluster {
    shared: Arc<Shared>,
    share: Option<Arc<Share>>,
    threads: Mutex<Option<Threads>>,
}

/// What a node begins with.
pub struct Start {
    /// Its server and name.
    pub settings: Settings,
    /// Who carries purges out.
    pub carrier: Arc<dyn Carrier>,
    /// How far it had read.
    pub place: Option<Place>,
    /// The folder that keeps purges while the server is away; without one a crash loses them.
    pub unsent: Option<PathBuf>,
    /// What the node knew that goes on in this one; the default if none of this process read the same log.
    pub heard: Heard,
    /// What says whether stored pages may be used. No other node that runs has it.
    pub trust: Arc<Trust>,
}

struct Threads {
    reader: JoinHandle<()>,
    writer: JoinHandle<()>,
    keeper: JoinHandle<()>,
}

impl Cluster {
    /// Joins it. No stored page may be used until [`Start::trust`] says so.
    pub fn start(start: Start) -> io::Result<Arc<Self>> {
        let contact = Contact::new(start.settings.away, start.trust, start.heard);
        let queue = Queue::of_folder(start.unsent);
        let shared = Arc::new(Shared::new(start.settings, start.carrier, contact, start.place, queue));
        let share = shared.settings.share.map(|shelf| Share::start(&shared.settings, shelf, hear(&shared)));
        let share = share.transpose()?;
        let spawn = |name: &str, run: fn(&Shared)| {
            let shared = Arc::clone(&shared);
            thread::Builder::new().name(format!("cluster {name}")).spawn(move || run(&shared))
        };
        let threads = Threads {
            reader: spawn("reader", reader::run)?,
            writer: spawn("writer", writer::run)?,
            keeper: spawn("keeper", keeper::run)?,
        };
        Ok(Arc::new(Self { shared, share, threads: Mutex::new(Some(threads)) }))
    }

    /// The shelf that all share, if there is one.
    pub fn share(&self) -> Option<&Arc<Share>> {
        self.share.as_ref()
    }

    /// What it was started with.
    pub fn settings(&self) -> &Settings {
        &self.shared.settings
    }

    /// How far it has read.
    pub fn place(&self) -> Option<Place> {
        self.shared.place.lock().clone()
    }

    /// Up to when what is stored is accounted for.
    pub fn heard(&self) -> Heard {
        self.shared.contact.known()
    }

    /// How it is.
    pub fn status(&self) -> Status {
        let Shared { settings, contact, .. } = &*self.shared;
        let (nodes, looked_at) = {
            let looked = self.shared.looked.lock();
            (looked.nodes.clone(), looked.at)
        };
        Status {
            server: settings.shown(),
            name: settings.name.clone(),
            node: self.shared.node.lock().clone(),
            is_trusted: contact.is_trusted(),
            heard_ago: contact.heard_ago(),
            fault: contact.fault().map(|fault| fault.to_string()),
            is_read: !contact.is_away(),
            place: self.place().map(|place| place.at.to_string()),
            carried: self.shared.carried.load(Ordering::Relaxed),
            sent: self.shared.sent.load(Ordering::Relaxed),
            unsent: self.shared.work.lock().queue.len(),
            share: self.share.as_ref().map(|share| share.counts()),
            nodes,
            looked_ago: looked_at.map(|at| contact.now().saturating_sub(at)),
        }
    }

    /// Whether stored pages may be used: everything is carried out that others have purged, or the server is away and they
    /// may all the same.
    pub fn is_trusted(&self) -> bool {
        self.shared.contact.is_trusted()
    }

    /// Waits until that is known. False if it is not in time.
    pub fn wait(&self, time: Duration) -> bool {
        self.shared.contact.wait(time)
    }

    /// Tells other nodes of a purge. Does not wait.
    pub fn push(&self, zone: &str, words: &str) {
        self.shared.work.lock().queue.push(zone.to_owned(), words.to_owned());
        self.shared.woken.notify_all();
    }

    /// The number of the last purge of this node.
    pub fn newest(&self) -> u64 {
        self.shared.work.lock().queue.newest()
    }

    /// Waits until the purges up to this number are known on all nodes that are there, but not longer than
    /// [`Settings::timeout`].
    pub async fn known(&self, number: u64) -> Known {
        let time = self.shared.settings.timeout;
        let (tell, told) = oneshot::channel();
        self.shared.work.lock().waiters.push(Waiter::new(number, time, tell));
        self.shared.woken.notify_all();
        match tokio::time::timeout(time + LATE, told).await {
            Ok(Ok(known)) => known,
            Ok(Err(_)) | Err(_) => {
                let why = format!("{} does not answer", self.shared.settings.shown());
                Known::here_alone(why, self.shared.nodes())
            }
        }
    }

    /// Takes a node that is away off the list. Waits for the server.
    pub fn forget(&self, node: &str) -> Result<(), ForgetError> {
        forget(&self.shared, node)
    }

    /// Leaves the cluster, and has kept how far this node has read. From then on no stored page may be used.
    pub fn stop(&self) {
        let Some(threads) = self.threads.lock().take() else { return };
        let until = Instant::now() + STOP_MAX;
        self.shared.ending.end();
        self.shared.contact.end();
        wait_for(&threads.reader, until);
        self.shared.work.lock().is_leaving = true;
        self.shared.woken.notify_all();
        wait_for(&threads.keeper, until);
        wait_for(&threads.writer, until);
    }
}

/// Has what the shelf says of the server written to the log, once in a while. Whether that is away is the reader's to say.
fn hear(shared: &Arc<Shared>) -> Arc<Hear> {
    let shared = Arc::clone(shared);
    seldom(SAID_AGAIN, move |fault| {
        shared.say(Level::Warn, format_args!("keeps no page for the other nodes: it {fault}"));
    })
}

/// Waits for a thread, which may hang on a server that does not answer.
fn wait_for(thread: &JoinHandle<()>, until: Instant) {
    while !thread.is_finished() && Instant::now() < until {
        thread::sleep(JOIN_POLL);
    }
}

/// How often the same fault of the shelf is written to the log.
const SAID_AGAIN: Duration = Duration::from_secs(60);
/// How much longer a purge waits for the thread that knows.
const LATE: Duration = Duration::from_secs(2);
/// How long the end may take: less than a process that ends has left for its disks.
const STOP_MAX: Duration = Duration::from_millis(600);
const JOIN_POLL: Duration = Duration::from_millis(1);
