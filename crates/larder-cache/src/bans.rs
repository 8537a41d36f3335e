//! Bans: conditions that make the pages unusable that were stored before them.
//!
//! Each ban has a number, and each page the number of the newest ban that it has been tested by; a page is new until
//! the fetch for it begins. A hit compares the two numbers. Only if they differ, the page is tested by the bans between,
//! with the request that came, as in Varnish.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use larder_http::{Fields, Time};
use parking_lot::RwLock;

/// What a ban says of a page `P`.
pub trait Condition<P>: Send + Sync {
    /// In words. Bans of the same words mean the same pages, but for the time.
    fn text(&self) -> &str;

    /// Whether it means the same pages whenever it is made, so that a later one of the same words takes its place.
    fn is_timeless(&self) -> bool;

    /// Whether it looks at the request for which a page is tested, so that nobody can test one beforehand.
    fn asks_request(&self) -> bool;

    /// Whether it holds for a page, as it was when the ban was made. What cannot be evaluated holds.
    fn holds(&self, page: &P, request: &Asking<'_>, made_at: Time) -> bool;
}

/// The request for which a page is tested.
#[derive(Clone, Copy)]
pub struct Asking<'a> {
    /// Path and query, as they are asked for.
    pub url: &'a [u8],
    /// The fields.
    pub fields: &'a Fields,
}

/// A ban, as operators see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// When it was made.
    pub made_at: Time,
    /// How many pages in memory have been tested by it and by none that came later.
    pub pages: u64,
    /// Whether a later one has taken its place.
    pub is_done: bool,
    /// What it says.
    pub text: String,
}

/// How many bans a zone has, and what they have done since the zone was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BanStats {
    /// Bans now.
    pub bans: u64,
    /// Those of them of which a later one has taken the place.
    pub done: u64,
    /// Those of them that look at requests.
    pub asking: u64,
    /// Bans that were made.
    pub added: u64,
    /// Bans that were forgotten.
    pub forgotten: u64,
    /// Bans whose place a later one of the same words took.
    pub replaced: u64,
    /// How often a page that was found was tested by a ban.
    pub tested: u64,
    /// Pages that were found, and dropped as a ban covers them.
    pub dropped: u64,
    /// How often a page was tested by a ban beforehand.
    pub tested_ahead: u64,
    /// Pages that were dropped beforehand.
    pub dropped_ahead: u64,
}

/// What the bans of a zone have done. Nothing of it happens on a hit that was tested already.
#[derive(Default)]
pub(crate) struct Counts {
    forgotten: AtomicU64,
    replaced: AtomicU64,
    tested: AtomicU64,
    pub(crate) dropped: AtomicU64,
    tested_ahead: AtomicU64,
    pub(crate) dropped_ahead: AtomicU64,
}

/// The bans of a zone.
pub(crate) struct Bans<P> {
    pub(crate) counts: Counts,
    /// The number of the newest; [`NONE_YET`] before the first.
    newest: AtomicU64,
    list: RwLock<List<P>>,
}

struct Ban<P> {
    number: u64,
    made_at: Time,
    condition: Arc<dyn Condition<P>>,
    is_done: AtomicBool,
}

struct List<P> {
    /// Oldest first.
    bans: VecDeque<Ban<P>>,
    /// How many bytes their words have.
    text_bytes: usize,
    /// The last of those that were cut off because there were too many. Who was not tested by it is out of date.
    cut: Option<(u64, Time)>,
}

impl<P> Ban<P> {
    /// Whether pages can be tested by it beforehand, if it was made until then.
    fn is_ready(&self, until: Time) -> bool {
        self.made_at <= until && !self.condition.asks_request() && !self.is_done.load(Ordering::Relaxed)
    }
}

/// The number of the newest ban that an object was tested by; 0 for one that came from a disk.
#[derive(Debug, Default)]
pub(crate) struct Tested(AtomicU64);

impl Tested {
    /// That of an object whose fetch began when this was the newest ban.
    pub(crate) fn by(number: u64) -> Self {
        Self(AtomicU64::new(number))
    }

    /// The number.
    #[inline]
    pub(crate) fn number(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    /// Notes that it was tested by all bans up to this number.
    pub(crate) fn raise(&self, number: u64) {
        self.0.fetch_max(number, Ordering::AcqRel);
    }
}

/// The number of a page that came from a disk: the bans that were made before it was stored do not concern it.
const BY_TIME: u64 = 0;
/// The number of a page before there was any ban.
const NONE_YET: u64 = 1;

impl<P> Default for Bans<P> {
    fn default() -> Self {
        Self {
            counts: Counts::default(),
            newest: AtomicU64::new(NONE_YET),
            list: RwLock::new(List { bans: VecDeque::new(), text_bytes: 0, cut: None }),
        }
    }
}

impl<P> Bans<P> {
    /// The number of the newest ban.
    #[inline]
    pub(crate) fn newest(&self) -> u64 {
        self.newest.load(Ordering::Acquire)
    }

    /// Adds a ban, and returns its number. Earlier ones of the same words are done.
    pub(crate) fn add(&self, condition: Arc<dyn Condition<P>>, now: Time) -> u64 {
        let mut list = self.list.write();
        let number = self.newest() + 1;
        if condition.is_timeless() {
            let is_same = |ban: &&Ban<P>| ban.condition.text() == condition.text();
            for ban in list.bans.iter().filter(is_same) {
                let was_done = ban.is_done.swap(true, Ordering::Relaxed);
                self.counts.replaced.fetch_add(u64::from(!was_done), Ordering::Relaxed);
            }
        }
        list.text_bytes += condition.text().len();
        list.bans.push_back(Ban { number, made_at: now, condition, is_done: AtomicBool::new(false) });
        while list.bans.len() > BANS_MAX || list.text_bytes > TEXT_BYTES_MAX && list.bans.len() > 1 {
            let Some(first) = list.bans.pop_front() else { break };
            list.text_bytes -= first.condition.text().len();
            self.counts.forgotten.fetch_add(1, Ordering::Relaxed);
            if !first.is_done.into_inner() {
                list.cut = Some((first.number, first.made_at));
            }
        }
        self.newest.store(number, Ordering::Release);
        number
    }

    /// Whether a page, stored at this time, may not be used any more. One that may is not tested by the same bans again.
    #[inline]
    pub(crate) fn cover(&self, page: &P, tested: &Tested, stored_at: Time, request: &Asking<'_>) -> bool {
        tested.number() != self.newest() && self.test(page, tested, stored_at, request)
    }

    #[cold]
    fn test(&self, page: &P, tested: &Tested, stored_at: Time, request: &Asking<'_>) -> bool {
        let list = self.list.read();
        let concerns = |number: u64, made_at: Time| match tested.number() {
            BY_TIME => made_at >= stored_at,
            tested => number > tested,
        };
        let mut count = 0;
        let covers = |ban: &Ban<P>| {
            let is_done = ban.is_done.load(Ordering::Relaxed);
            count += u64::from(!is_done);
            !is_done && ban.condition.holds(page, request, ban.made_at)
        };
        let mut concerning = list.bans.iter().rev().take_while(|ban| concerns(ban.number, ban.made_at));
        let is_covered = concerning.any(covers) || list.cut.is_some_and(|(number, made_at)| concerns(number, made_at));
        self.counts.tested.fetch_add(count, Ordering::Relaxed);
        if !is_covered {
            let newest = list.bans.back().map_or(NONE_YET, |ban| ban.number);
            tested.raise(newest);
        }
        is_covered
    }

    /// Whether there are bans that pages can be tested by beforehand, made until then.
    pub(crate) fn has_work(&self, until: Time) -> bool {
        self.list.read().bans.iter().any(|ban| ban.is_ready(until))
    }

    /// Tests a page beforehand by the bans made until then that look at no request. True if one covers it.
    pub(crate) fn look_ahead(&self, page: &P, tested: &Tested, stored_at: Time, until: Time) -> bool {
        let list = self.list.read();
        let before = tested.number();
        let concerns = |ban: &&Ban<P>| match before {
            BY_TIME => ban.made_at >= stored_at,
            before => ban.number > before,
        };
        let request = Asking { url: b"", fields: &Fields::new() };
        // The last of those in a row that do not cover it.
        let (mut passed, mut is_in_a_row) = (before, true);
        for ban in list.bans.iter().filter(concerns) {
            if ban.is_done.load(Ordering::Relaxed) {
                // Another one stands in its place.
            } else if !ban.is_ready(until) {
                is_in_a_row = false;
            } else {
                self.counts.tested_ahead.fetch_add(1, Ordering::Relaxed);
                if ban.condition.holds(page, &request, ban.made_at) {
                    return true;
                }
            }
            if is_in_a_row {
                passed = ban.number;
            }
        }
        tested.raise(passed);
        false
    }

    /// The number of the last ban that was made until then.
    pub(crate) fn last_of(&self, until: Time) -> u64 {
        self.list.read().bans.iter().rev().find(|ban| ban.made_at <= until).map_or(BY_TIME, |ban| ban.number)
    }

    /// Forgets the bans up to this number, by which all pages were tested; the newest stays, so that operators see it.
    /// Whatever turns up that was not tested by them is out of date.
    pub(crate) fn forget_until(&self, number: u64) -> usize {
        let mut list = self.list.write();
        let mut count = 0;
        while list.bans.len() > 1 && list.bans.front().is_some_and(|first| first.number <= number) {
            let Some(first) = list.bans.pop_front() else { break };
            list.text_bytes -= first.condition.text().len();
            list.cut = Some((first.number, first.made_at));
            count += 1;
        }
        self.counts.forgotten.fetch_add(count as u64, Ordering::Relaxed);
        count
    }

    /// How many there are, and what they have done.
    pub(crate) fn stats(&self) -> BanStats {
        let list = self.list.read();
        let number_of = |is_meant: fn(&&Ban<P>) -> bool| list.bans.iter().filter(is_meant).count() as u64;
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        BanStats {
            bans: list.bans.len() as u64,
            done: number_of(|ban| ban.is_done.load(Ordering::Relaxed)),
            asking: number_of(|ban| ban.condition.asks_request()),
            added: self.newest() - NONE_YET,
            forgotten: count(&self.counts.forgotten),
            replaced: count(&self.counts.replaced),
            tested: count(&self.counts.tested),
            dropped: count(&self.counts.dropped),
            tested_ahead: count(&self.counts.tested_ahead),
            dropped_ahead: count(&self.counts.dropped_ahead),
        }
    }

    /// All of them, newest first. `pages_of` counts the pages whose newest ban has this number.
    pub(crate) fn listed(&self, pages_of: impl Fn(u64) -> u64) -> Vec<Listed> {
        let listed = |ban: &Ban<P>| Listed {
            made_at: ban.made_at,
            pages: pages_of(ban.number),
            is_done: ban.is_done.load(Ordering::Relaxed),
            text: ban.condition.text().to_owned(),
        };
        self.list.read().bans.iter().rev().map(listed).collect()
    }
}

/// How many bans there may be. Beyond that the oldest are forgotten, with all pages that they were not tried on.
const BANS_MAX: usize = 100_000;
/// How long the words of all bans may be.
const TEXT_BYTES_MAX: usize = 64 << 20;
