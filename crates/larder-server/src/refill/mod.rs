//! Pages that are fetched without a visitor: after a purge (`larder_refill`), and before they are missed (`larder_warm`).
//!
//! ```text
//! a purge, on its thread ---> Wish (a zone's) --.
//! ahead.rs, on its thread: what is soon stale --+-> List, of the process: most hits first
//! sitemaps.rs, on the first worker -------------'
//! refiller.rs, on the first worker: the next page -> request/refill.rs: a request without a client -> a rest
//! ```

mod list;
mod rests;
mod sitemap;
mod tally;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use larder_cache::{Came, Refetchable, Watcher};
use larder_http::Time;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::clock;

use list::List;
use rests::Rests;
pub use sitemap::{BYTES_MAX as SITEMAP_BYTES_MAX, Sitemap};
pub use tally::{End, Sums, Tally};

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
    /// Why.
    pub reason: Reason,
    /// What tells of the pages of its sitemap, if one names it.
    pub pass: Option<Arc<Tally>>,
    /// How often it was tried.
    pub tries: u8,
    /// When it was put on the list.
    pub since: Time,
    /// The origin that its location asks, as soon as that is known.
    pub origin: Option<usize>,
    /// How requests for it come in, if that is known.
    pub came: Option<Came>,
}

/// Why a page is fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It was purged.
    Purged,
    /// It is asked for often, and fresh until then; one that is fresh for longer is left.
    Ahead(Time),
    /// A sitemap names it.
    Named,
}

impl Reason {
    /// How much of what may be stored it overrules.
    fn urgency(self) -> u8 {
        match self {
            Self::Named => 0,
            Self::Ahead(_) => 1,
            Self::Purged => 2,
        }
    }
}

/// What has become of all pages that were fetched so.
#[derive(Default)]
pub struct Tallies {
    /// After a purge.
    pub purged: Tally,
    /// Before they were stale.
    pub ahead: Tally,
    /// For a sitemap.
    pub named: Tally,
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
    /// What has become of those that were fetched.
    pub tallies: Tallies,
    /// The last pass through each sitemap, by its URL.
    pub passes: Mutex<BTreeMap<String, Pass>>,
}

/// A pass through a sitemap.
#[derive(Clone, Debug)]
pub struct Pass {
    /// When it began.
    pub began: Time,
    /// When all its pages were through; `None` while they are not.
    pub ended: Option<Time>,
    /// How many sitemaps were read: those of an index, too.
    pub maps: u64,
    /// How many pages they name.
    pub pages: u64,
    /// How many URLs in it are none of this server.
    pub foreign: u64,
    /// What has become of its pages.
    pub tally: Arc<Tally>,
    /// Why a sitemap could not be read: the first.
    pub trouble: Option<String>,
    /// Whether somebody is to look at that.
    pub is_alarm: bool,
}

impl Pass {
    /// How many of its pages have not been tried: they gave way to others, or wait.
    pub fn left(&self) -> u64 {
        self.pages.saturating_sub(self.tally.sums().all())
    }
}

impl Tallies {
    /// Those of pages that are fetched for this reason.
    pub fn of(&self, reason: Reason) -> &Tally {
        match reason {
            Reason::Purged => &self.purged,
            Reason::Ahead(_) => &self.ahead,
            Reason::Named => &self.named,
        }
    }
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

    /// Takes the next page whose origin does not rest and whose host has none out, until [`done`](Self::done). The error says
    /// when to look again; `None` if there is none.
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

    /// The page of a host that was taken is through.
    pub fn done(&self, host: &[u8]) {
        self.list.lock().done(host);
        self.come.notify_one();
    }

    /// How many pages wait for an origin that rests or has enough to do.
    pub fn resting_pages(&self) -> usize {
        self.list.lock().resting()
    }

    /// Waits until a page has come or is through.
    pub async fn moves(&self) {
        self.come.notified().await;
    }

    /// How many pages wait.
    pub fn waiting(&self) -> usize {
        self.list.lock().len()
    }

    /// Notes that an origin has enough to do at this time.
    pub fn busy(&self, origin: usize, now: Time) {
        self.rests.lock().busy(origin, now);
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

    fn purged(&self, pages: Vec<Refetchable>) {
        let (per_second, since) = (self.per_second, clock::now());
        self.refill
            .add(pages.into_iter().filter(is_for_all).map(|page| Page::of(page, Reason::Purged, per_second, since)));
    }
}

impl Page {
    /// One that is or was in the cache.
    pub fn of(page: Refetchable, reason: Reason, per_second: u32, since: Time) -> Self {
        let Refetchable { is_https, host, uri, hits, varies_by, came, fresh_until: _ } = page;
        let (fields, pass) = (varies_by, None);
        Self { is_https, host, uri, hits, fields, per_second, reason, pass, tries: 0, since, origin: None, came }
    }
}

/// Whether a page is not a variant by what says who asks.
pub fn is_for_all(page: &Refetchable) -> bool {
    page.varies_by.iter().all(|(name, value)| value.is_empty() || IMPERSONAL.contains(&&**name))
}

/// Whether an answer with this status says that its origin has trouble.
pub fn is_failure(status: u16) -> bool {
    status >= 500 || status == TOO_MANY_REQUESTS
}

/// Too Many Requests (RFC 6585): it has too much to do.
const TOO_MANY_REQUESTS: u16 = 429;
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
            let (host, uri) = ((*b"h").into(), (*b"/").into());
            let fresh_until = Time(0);
            let page = Refetchable { is_https: false, host, uri, hits: 1, fresh_until, came: None, varies_by };
            assert_eq!(is_for_all(&page), expected, "{name}: {value}");
        }
    }
}
