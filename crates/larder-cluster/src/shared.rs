//! What the threads of a cluster share.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use tokio::sync::oneshot;

use crate::carrier::{Carrier, Level};
use crate::contact::{Contact, Turn, Writing};
use crate::ending::Ending;
use crate::fault::Fault;
use crate::keys::Keys;
use crate::known::Known;
use crate::place::{EntryId, Place};
use crate::queue::Queue;
use crate::random::random_word;
use crate::settings::Settings;
use crate::status::NodeStatus;

/// What the threads share.
pub(crate) struct Shared {
    pub settings: Settings,
    pub keys: Keys,
    pub carrier: Arc<dyn Carrier>,
    pub contact: Contact,
    /// A random word: which process wished a purge.
    pub process: String,
    /// What this node is called now: two of the same name would hide each other.
    pub node: Mutex<String>,
    /// Everything up to it was carried out; `None` before there is any.
    pub place: Mutex<Option<Place>>,
    pub looked: Mutex<Looked>,
    pub work: Mutex<Work>,
    /// There is work for the writer.
    pub woken: Condvar,
    /// How many purges of others were carried out.
    pub carried: AtomicU64,
    /// How many purges of this node are in the log.
    pub sent: AtomicU64,
    /// Whether the node leaves.
    pub ending: Ending,
}

/// The nodes at the last look.
#[derive(Default)]
pub(crate) struct Looked {
    /// When that was; `None` before the first.
    pub at: Option<Duration>,
    /// By name.
    pub nodes: Vec<NodeStatus>,
}

/// What the writer has to do.
pub(crate) struct Work {
    pub queue: Queue,
    pub waiters: Vec<Waiter>,
    /// The last purge that is in the log, and its entry.
    pub last_sent: Option<(u64, EntryId)>,
    /// When the server may be tried again, after a fault.
    pub next_try: Instant,
    /// Whether the node leaves, and its reader has ended.
    pub is_leaving: bool,
}

/// Who waits until a purge is known everywhere.
pub(crate) struct Waiter {
    /// The number of the purge.
    pub number: u64,
    /// Its entry, once it is in the log.
    pub entry: Option<EntryId>,
    pub until: Instant,
    pub tell: oneshot::Sender<Known>,
}

impl Shared {
    pub fn new(
        settings: Settings,
        carrier: Arc<dyn Carrier>,
        contact: Contact,
        place: Option<Place>,
        queue: Queue,
    ) -> Self {
        Self {
            keys: Keys::of(&settings.name),
            node: Mutex::new(settings.node.clone()),
            settings,
            carrier,
            // The younger of two processes has the greater one, on one machine.
            process: format!("{:016x}{}", contact.now().as_nanos(), random_word()),
            contact,
            place: Mutex::new(place),
            looked: Mutex::default(),
            work: Mutex::new(Work {
                queue,
                waiters: Vec::new(),
                last_sent: None,
                next_try: Instant::now(),
                is_leaving: false,
            }),
            woken: Condvar::new(),
            carried: AtomicU64::new(0),
            sent: AtomicU64::new(0),
            ending: Ending::default(),
        }
    }

    /// Has noted up to where everything is carried out, where nodes share pages.
    pub fn note(&self) {
        if self.settings.share.is_some() {
            self.carrier.note(&|| self.reached());
        }
    }

    /// Up to where everything was carried out that is in the log, or was wished by this node. `None` if one of its purges is
    /// not in the log yet.
    fn reached(&self) -> Option<Place> {
        let place = self.place.lock().clone()?;
        let work = self.work.lock();
        let own = match (work.queue.newest(), work.last_sent) {
            (0, _) => EntryId::default(),
            (newest, Some((number, entry))) if number >= newest => entry,
            (_, Some(_) | None) => return None,
        };
        Some(Place { at: place.at.max(own), ..place })
    }

    /// The server is back: what waits is sent at once.
    pub fn try_now(&self) {
        self.work.lock().next_try = Instant::now();
        self.woken.notify_all();
    }

    /// The server, which is read, takes what this node writes, or refuses it. The log is told once.
    pub fn wrote(&self, what: Writing, refused: Option<&Fault>) {
        match self.contact.wrote(what, refused) {
            Some(Turn::Refused(fault)) => {
                let unsent = self.work.lock().queue.len();
                self.say(Level::Error, format!("{fault}; purges that wait for it: {unsent}"));
            }
            Some(Turn::Works(time)) => {
                self.say(Level::Warn, format!("takes purges again after {} s", time.as_secs()));
            }
            None => {}
        }
    }

    /// How many nodes there were at the last look; `None` before the first.
    pub fn nodes(&self) -> Option<usize> {
        let looked = self.looked.lock();
        looked.at.map(|_| looked.nodes.len())
    }

    /// Writes `cluster: SERVER FACT`.
    pub fn say(&self, level: Level, fact: impl std::fmt::Display) {
        self.carrier.say(level, &format!("cluster: {} {fact}", self.settings.shown()));
    }
}

/// How many entries the log keeps at least. Who is further behind than that has everything stale.
pub(crate) const LOG_ENTRIES: u32 = 250_000;
/// How long a node is there after its last word.
pub(crate) const BEAT_MS: u32 = 4000;
/// How long a node that is away is named.
pub(crate) const FORGOTTEN_MS: u64 = 24 * 3600 * 1000;
