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
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

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
    /// The origin that its location asks, as soon as that is known.
    pub origin: Option<usize>,
}

/// The pages of a process that wait to be fetched, and the origins that rest.
#[derive(Default)]
pub struct Refill {
    list: Mutex<List>,
    rests: Mutex<Rests>,
    /// When pages that wait too long are to be dropped, ms since 1970.
    sweep_at: AtomicU64,
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

    /// Takes the next page whose origin does not rest. The error says when one can be taken; `None` if there is none.
    pub fn take(&self, now: Time) -> Option<Result<Page, Time>> {
        let mut list = self.list.lock();
        if self.sweep_at.load(Ordering::Relaxed) <= now.0 {
            self.sweep_at.store(now.0 + SWEEP_EVERY_MS, Ordering::Relaxed);
            list.drop_older(Time(now.0.saturating_sub(WAIT_MAX_MS)));
        }
        let rests = self.rests.lock();
        let next = list.take(now, |origin| rests.resting(origin, now));
        if next.is_none() {
            self.is_busy.store(false, Ordering::Relaxed);
        }
        next
    }

    /// Notes that an origin has failed.
    pub fn failed(&self, origin: usize, now: Time) {
        self.rests.lock().failed(origin, now);
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
        self.refill.add(pages.into_iter().filter(is_for_all).map(|page| {
            let PurgedPage { is_https, host, uri, hits, varies_by } = page;
            Page { is_https, host, uri, hits, fields: varies_by, per_second, tries: 0, since, origin: None }
        }));
    }
}

/// Whether a page is not a variant by what says who asks.
fn is_for_all(page: &PurgedPage) -> bool {
    page.varies_by.iter().all(|(name, value)| value.is_empty() || IMPERSONAL.contains(&&**name))
}

/// Fields that say what a visitor can read and wants, and not who it is.
const IMPERSONAL: [&str; 9] = [
    "accept",
    "accept-charset",
    "accept-encoding",
    "accept-language",
    "save-data",
    "sec-ch-ua-mobile",
    "upgrade-insecure-requests",
    "x-forwarded-proto",
    "x-requested-with",
];

/// How long a page waits at most, in ms: an hour.
const WAIT_MAX_MS: u64 = 3_600_000;
/// How often pages that have waited that long are looked for, in ms.
const SWEEP_EVERY_MS: u64 = 60_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variant_by_who_asks_is_nobodys() {
        for (name, value, expected) in [
            ("accept-language", "de", true),
            ("cookie", "", true),
            ("cookie", "a=b", false),
            ("authorization", "Basic x", false),
            ("cookie:cart", "5", false),
            ("x-token", "x", false),
            ("x-forwarded-for", "10.1.2.3", false),
        ] {
            let varies_by = vec![(name.into(), value.as_bytes().into())];
            let page = PurgedPage { is_https: false, host: (*b"h").into(), uri: (*b"/").into(), hits: 1, varies_by };
            assert_eq!(is_for_all(&page), expected, "{name}: {value}");
        }
    }
}
