//! A shelf that all nodes share, and the right to fetch a page for all: one fetch for many nodes.
//!
//! ```text
//! look -> GET page -> There
//!              `-> SET lock NX PX, GET page -> Mine: fetch it, then `store` or `give_up`
//!                                          `-> Anothers: look again soon, until it is there or the lock is gone
//! ```
//! What is asked has a deadline of some milliseconds, and a server that is slow is left alone for a while: then every node
//! fetches for itself. A lock that is lost, as its time is over or the server has forgotten it, costs a further fetch.
//!
//! Values are bytes, and whether one may be used is judged by who knows what they are: see [`Look::There`].

mod line;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use redis::Value;

use crate::keys::{Keys, PageName};
use crate::settings::Settings;
use crate::shared::random_word;

use line::{Limits, Line};

pub use line::Hear;

/// The shelf.
pub struct Share {
    keys: Keys,
    looks: Arc<Line>,
    stores: Arc<Line>,
    bytes_max: usize,
    /// How many looks in a row came too late.
    late: AtomicU64,
    counts: Counts,
}

/// What a look finds.
#[derive(Debug, PartialEq, Eq)]
pub enum Look {
    /// A value. It may be of before a purge, or of another page with the same hash.
    There(Vec<u8>),
    /// Nothing, and this node is to fetch it.
    Mine(Lock),
    /// Nothing, and another node fetches it.
    Anothers,
    /// Nothing that can be shared: each node fetches for itself.
    Alone,
    /// The server is away or slow.
    Skipped,
}

/// The right of a node to fetch a page for all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lock {
    page: PageName,
    token: String,
}

/// What was counted.
#[derive(Debug, Default)]
struct Counts {
    found: AtomicU64,
    missing: AtomicU64,
    waited: AtomicU64,
    skipped: AtomicU64,
    stored: AtomicU64,
    unstored: AtomicU64,
}

/// What was counted since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShareCounts {
    /// Looks that found a value.
    pub found: u64,
    /// Looks that found none, so that this node fetched.
    pub missing: u64,
    /// Looks that found another node fetching.
    pub waited: u64,
    /// Looks that the server did not answer in time, or was not asked.
    pub skipped: u64,
    /// Values that were sent.
    pub stored: u64,
    /// Values that were not: too large, or too much waited.
    pub unstored: u64,
}

impl Share {
    /// Begins, with values up to this size. `said` hears why the server is of no use, and `None` when it is again.
    pub fn start(settings: &Settings, bytes_max: usize, said: Arc<Hear>) -> std::io::Result<Arc<Self>> {
        let looks = Limits { questions: 10_000, bytes: 16 << 20, together: 64 };
        let stores = Limits { questions: 10_000, bytes: STORES_BYTES_MAX.max(bytes_max), together: 16 };
        Ok(Arc::new(Self {
            keys: Keys::of(&settings.name),
            looks: Line::start("share looks", settings.clone(), looks, Arc::clone(&said))?,
            stores: Line::start("share stores", settings.clone(), stores, said)?,
            bytes_max,
            late: AtomicU64::new(0),
            counts: Counts::default(),
        }))
    }

    /// How large a value may be.
    pub fn bytes_max(&self) -> usize {
        self.bytes_max
    }

    /// Looks for a page, and takes the right to fetch it if it is not there and nobody has that.
    pub async fn look(&self, page: &PageName) -> Look {
        let (name, lock) = (self.keys.page(page), self.keys.lock(page));
        let mut get = redis::pipe();
        get.cmd("GET").arg(&name);
        match self.answers(get).await.as_deref() {
            Some([Value::BulkString(value)]) => return self.found(value),
            Some([Value::Nil]) => {}
            _ => return self.skipped(),
        }
        let token = random_word();
        let mut take = redis::pipe();
        take.cmd("SET").arg(&lock).arg(&token).arg("NX").arg("PX").arg(LOCK_MS);
        // It may have come since.
        take.cmd("GET").arg(&name);
        match self.answers(take).await.as_deref() {
            Some([taken, Value::BulkString(value)]) => {
                if *taken == Value::Okay {
                    self.release(&lock);
                }
                self.found(value)
            }
            Some([Value::Okay, Value::Nil]) => {
                self.counts.missing.fetch_add(1, Ordering::Relaxed);
                Look::Mine(Lock { page: page.clone(), token })
            }
            Some([Value::Nil, Value::Nil]) => {
                self.counts.waited.fetch_add(1, Ordering::Relaxed);
                Look::Anothers
            }
            _ => self.skipped(),
        }
    }

    /// Puts what was fetched there for so long, and gives the right back.
    pub fn store(&self, lock: &Lock, value: &[u8], time: Duration) {
        if value.len() > self.bytes_max || value.is_empty() {
            return self.give_up(lock, true);
        }
        self.put(lock, value, time);
    }

    /// Gives the right back without a page. `is_alone`: for a while each node fetches for itself, as the page cannot be shared.
    pub fn give_up(&self, lock: &Lock, is_alone: bool) {
        self.counts.unstored.fetch_add(1, Ordering::Relaxed);
        match is_alone {
            true => self.put(lock, b"", ALONE),
            false => self.release(&self.keys.lock(&lock.page)),
        }
    }

    /// What was counted.
    pub fn counts(&self) -> ShareCounts {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let Counts { found, missing, waited, skipped, stored, unstored } = &self.counts;
        ShareCounts {
            found: of(found),
            missing: of(missing),
            waited: of(waited),
            skipped: of(skipped),
            stored: of(stored),
            unstored: of(unstored),
        }
    }

    fn put(&self, lock: &Lock, value: &[u8], time: Duration) {
        let time = u64::try_from(time.as_millis()).unwrap_or(u64::MAX).clamp(1, TIME_MS_MAX);
        let mut put = redis::pipe();
        put.cmd("SET").arg(self.keys.page(&lock.page)).arg(value).arg("PX").arg(time);
        put.cmd("DEL").arg(self.keys.lock(&lock.page));
        let is_put = self.stores.put(put, value.len());
        if !value.is_empty() {
            let count = if is_put { &self.counts.stored } else { &self.counts.unstored };
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A lock of another node goes, too, if this one's time was over: that costs a fetch.
    fn release(&self, lock: &str) {
        let mut release = redis::pipe();
        release.cmd("DEL").arg(lock);
        self.stores.put(release, 0);
    }

    async fn answers(&self, commands: redis::Pipeline) -> Option<Vec<Value>> {
        let told = self.looks.ask(commands)?;
        match tokio::time::timeout(DEADLINE, told).await {
            Ok(Ok(answers)) => {
                self.late.store(0, Ordering::Relaxed);
                Some(answers)
            }
            Ok(Err(_)) => None,
            Err(_) => {
                if self.late.fetch_add(1, Ordering::Relaxed) + 1 >= LATE_MAX {
                    self.late.store(0, Ordering::Relaxed);
                    self.looks.rest(SLOW_REST);
                }
                None
            }
        }
    }

    fn found(&self, value: &[u8]) -> Look {
        if value.is_empty() {
            return Look::Alone;
        }
        self.counts.found.fetch_add(1, Ordering::Relaxed);
        Look::There(value.to_vec())
    }

    fn skipped(&self) -> Look {
        self.counts.skipped.fetch_add(1, Ordering::Relaxed);
        Look::Skipped
    }

    /// Whether the server is left alone for now.
    pub fn rests(&self) -> bool {
        self.looks.rests()
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.looks.end();
        self.stores.end();
    }
}

/// How long an answer is waited for.
const DEADLINE: Duration = Duration::from_millis(5);
/// After so many late answers in a row the server is left alone.
const LATE_MAX: u64 = 3;
/// For so long.
const SLOW_REST: Duration = Duration::from_secs(1);
/// How long a node may fetch for all.
const LOCK_MS: u64 = 10_000;
/// How long each node fetches for itself what cannot be shared.
const ALONE: Duration = Duration::from_secs(10);
/// A longer time is none that the server takes: ten years.
const TIME_MS_MAX: u64 = 10 * 365 * 24 * 3600 * 1000;
/// How many bytes wait to be stored.
const STORES_BYTES_MAX: usize = 64 << 20;
