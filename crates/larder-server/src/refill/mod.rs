//! Pages that are fetched again after a purge: `larder_refill`.
//!
//! ```text
//! a purge, on its thread -> Wish (a zone's) -> List, of the process: most hits first
//! refiller.rs, on the first worker: the next page -> request/refill.rs: a request without a client -> a rest
//! ```
//! Whoever else knows which pages are to be in the cache adds them to the list in the same way.

mod list;
mod rests;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use larder_cache::{PurgedPage, Watcher};
use larder_http::Time;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::clock;

use list::List;
use rests::Rests;

/// A page that is to be fetched.
#[derive(Clone, Debug)]
pub struct Page {
    /// Whether it is asked for by https.
    pub is_https: bool,
    /// The host, without a port.
    pub host: Box<[u8]>,
    /// Path and query.
    pub uri: Box<[u8]>,
    /// How often it was asked for.
    pub hits: u32,
    /// The fields of the request that it varies by, with their values.
    pub fields: Vec<(Box<str>, Box<[u8]>)>,
    /// How many pages like it are fetched in a second at most.
    pub per_second: u32,
    /// How often it was tried.
    pub tries: u8,
    /// When it was put on the list.
    pub since: Time,
}

/// The pages of a process that wait to be fetched, and the origins that rest.
#[derive(Default)]
pub struct Refill {
    list: Mutex<List>,
    rests: Mutex<Rests>,
    /// Whether pages wait, so that failures of visitors' fetches are noted.
    is_busy: AtomicBool,
    come: Notify,
}

impl Refill {
    /// Puts pages on the list.
    pub fn add(&self, pages: impl IntoIterator<Item = Page>) {
        let mut list = self.list.lock();
        pages.into_iter().for_each(|page| list.add(page));
        drop(list);
        self.is_busy.store(true, Ordering::Relaxed);
        self.come.notify_one();
    }

    /// Waits until there are pages.
    pub async fn come(&self) {
        while self.list.lock().is_empty() {
            self.come.notified().await;
        }
    }

    /// Takes the next page whose host does not rest. The error says when the next one can be taken; `None` if there is none.
    pub fn take(&self, now: Time) -> Option<Result<Page, Time>> {
        let mut list = self.list.lock();
        list.drop_older(Time(now.0.saturating_sub(WAIT_MAX_MS)));
        let next = list.take(now);
        if next.is_none() {
            self.is_busy.store(false, Ordering::Relaxed);
        }
        next
    }

    /// Has the pages of a host wait until then.
    pub fn rest_host(&self, host: &[u8], until: Time) {
        self.list.lock().rest(host, until);
    }

    /// Notes that an origin has failed, and returns until when it rests.
    pub fn failed(&self, origin: usize, now: Time) -> Time {
        self.rests.lock().failed(origin, now)
    }

    /// The same for a visitor's fetch.
    pub fn visitor_failed(&self, origin: usize, now: Time) {
        if self.is_busy.load(Ordering::Relaxed) {
            self.failed(origin, now);
        }
    }

    /// Notes that an origin has answered a refill.
    pub fn succeeded(&self, origin: usize) {
        self.rests.lock().succeeded(origin);
    }

    /// Until when an origin rests, if it does.
    pub fn resting(&self, origin: usize, now: Time) -> Option<Time> {
        self.rests.lock().resting(origin, now)
    }

    /// Who puts the purged pages of a zone on the list.
    pub fn wish(self: &Arc<Self>, per_second: u32) -> Arc<dyn Watcher> {
        Arc::new(Wish { refill: Arc::clone(self), per_second })
    }
}

/// The wish of a zone.
struct Wish {
    refill: Arc<Refill>,
    per_second: u32,
}

impl Watcher for Wish {
    fn wants(&self, hits: u32) -> bool {
        self.refill.list.lock().has_room(hits)
    }

    fn most(&self) -> usize {
        list::PAGES_MAX
    }

    fn purged(&self, pages: Vec<PurgedPage>) {
        let (per_second, since) = (self.per_second, clock::now());
        self.refill.add(pages.into_iter().map(|page| {
            let PurgedPage { is_https, host, uri, hits, varies_by } = page;
            Page { is_https, host, uri, hits, fields: varies_by, per_second, tries: 0, since }
        }));
    }
}

/// How long a page waits at most, in ms: an hour.
const WAIT_MAX_MS: u64 = 3_600_000;

/// How long the first rest after a failure is; each further one is twice as long.
pub const REST_MIN: Duration = Duration::from_secs(1);
/// How long a rest is at most.
pub const REST_MAX: Duration = Duration::from_secs(60);
