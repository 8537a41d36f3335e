//! Bans: conditions that make the pages unusable that were stored before them.
//!
//! Each ban has a number, and each page the number of the newest ban that it has been tested by; a page is new until
//! the fetch for it begins. A hit compares the two numbers. Only if they differ, the page is tested by the bans between,
//! with the request that came, as in Varnish.
//!
//! A zone with shelves has its bans on all of them, each at its place in the log: that is what tells which bans a page
//! from there was stored before, and not the time, which may have been set back.
//!
//! A ban drops pages, or ends their freshness: such a page is stale from then on, whether it was in memory when the ban was
//! made, on a disk, or on its way.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use larder_http::{Fields, Time};
use parking_lot::{Mutex, RwLock};
use xxhash_rust::xxh3::xxh3_64;

/// What a ban says of a page `P`.
pub trait Condition<P>: Send + Sync {
    /// What it says, as operators see it.
    fn text(&self) -> &str;

    /// What it says, so that it can be read again: see [`Reader`]. Bans of the same words mean the same pages, but for
    /// the time.
    fn words(&self) -> &str {
        self.text()
    }

    /// About how much memory it takes, in bytes.
    fn bytes(&self) -> usize {
        self.text().len()
    }

    /// Whether it means the same pages whenever it is made, so that a later one of the same words takes its place.
    fn is_timeless(&self) -> bool;

    /// Whether it looks at the request for which a page is tested, so that nobody can test one beforehand.
    fn asks_request(&self) -> bool;

    /// What becomes of the pages for which it holds.
    fn effect(&self) -> Effect {
        Effect::Drop
    }

    /// Whether to test a page takes less than a µs, so that thousands of such bans hold up nobody.
    fn is_quick(&self) -> bool {
        false
    }

    /// Whether it holds for a page, as it was when the ban was made. What cannot be evaluated holds.
    fn holds(&self, page: &P, request: &Asking<'_>, made_at: Time) -> bool;
}

/// What becomes of the pages that a ban means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// They may not be used any more.
    Drop,
    /// They are stale from the time of the ban on.
    EndFreshness,
}

/// What bans have made of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Banned {
    /// It may not be used any more.
    Gone,
    /// It is stale.
    Stale(Stale),
}

/// A page that is stale for a ban.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stale {
    /// From when on.
    pub since: Time,
    /// The number of the newest ban that it was tested by.
    pub(crate) tested: u64,
}

impl Stale {
    /// The earlier one of both.
    fn earlier(so_far: Option<Time>, since: Time) -> Option<Time> {
        Some(so_far.map_or(since, |so_far| so_far.min(since)))
    }
}

/// Makes a condition of its words, as a disk has kept them.
pub type Reader<P> = fn(&str) -> Arc<dyn Condition<P>>;

/// A ban that cannot be read, with what is said of it. It holds for all pages.
pub struct Unread(pub String);

impl<P> Condition<P> for Unread {
    fn text(&self) -> &str {
        &self.0
    }

    fn is_timeless(&self) -> bool {
        false
    }

    fn asks_request(&self) -> bool {
        false
    }

    fn holds(&self, _: &P, _: &Asking<'_>, _: Time) -> bool {
        true
    }
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
    /// Held while a ban gets its number and goes to the shelves, so that all have them in the same order.
    pub(crate) order: Mutex<()>,
    /// The number of a page before there was any ban. Those of bans that shelves had before are below it.
    base: u64,
    /// The number of the newest; `base` before the first.
    newest: AtomicU64,
    list: RwLock<List<P>>,
}

struct Ban<P> {
    number: u64,
    /// The hash of its words.
    hash: u64,
    made_at: Time,
    condition: Arc<dyn Condition<P>>,
    is_done: AtomicBool,
}

struct List<P> {
    /// Oldest first.
    bans: VecDeque<Ban<P>>,
    /// How much memory they take, in bytes.
    bytes: usize,
    /// The number of the last of those that were cut off because there were too many. Who was not tested by it is out of
    /// date.
    cut: u64,
}

impl<P> Ban<P> {
    fn new(number: u64, made_at: Time, condition: Arc<dyn Condition<P>>, is_done: bool) -> Self {
        let hash = xxh3_64(condition.words().as_bytes());
        Self { number, hash, made_at, condition, is_done: AtomicBool::new(is_done) }
    }

    /// Whether it was made until then; one of the future is from before the clock was set back.
    fn is_old(&self, until: Time, now: Time) -> bool {
        self.made_at <= until || self.made_at > now
    }

    /// Whether pages can be tested by it beforehand, if it was made until then.
    fn is_ready(&self, until: Time, now: Time) -> bool {
        self.is_old(until, now) && !self.condition.asks_request() && !self.is_done.load(Ordering::Relaxed)
    }
}

/// The number of the newest ban that an object was tested by; 0 for one that was tested by none.
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

    /// Notes that it was tested by the ban of this number, if it was by the one before.
    pub(crate) fn follow(&self, number: u64) {
        // It fails if that is not so, or others have tested it meanwhile.
        let _ = self.0.compare_exchange(number - 1, number, Ordering::AcqRel, Ordering::Relaxed);
    }

    /// Notes that it was tested by all bans up to this number.
    pub(crate) fn raise(&self, number: u64) {
        self.0.fetch_max(number, Ordering::AcqRel);
    }
}

/// The most bans of one zone: half of them in this process, half of them those that shelves had before.
const NUMBERS: u64 = 1 << 40;

impl<P> Bans<P> {
    /// None yet. Zones with other ids have other numbers.
    pub(crate) fn new(zone: u64) -> Self {
        let base = (zone + 1).wrapping_mul(NUMBERS);
        Self {
            counts: Counts::default(),
            order: Mutex::new(()),
            base,
            newest: AtomicU64::new(base),
            list: RwLock::new(List { bans: VecDeque::new(), bytes: 0, cut: 0 }),
        }
    }

    /// The number of the newest ban.
    #[inline]
    pub(crate) fn newest(&self) -> u64 {
        self.newest.load(Ordering::Acquire)
    }

    /// The number of the next ban, while [`Bans::order`] is held.
    pub(crate) fn next(&self) -> u64 {
        self.newest() + 1
    }

    /// Adds a ban, and returns its number. Earlier ones of the same words are done. For this, [`Bans::order`] is held.
    pub(crate) fn add(&self, condition: Arc<dyn Condition<P>>, now: Time) -> u64 {
        let ban = Ban::new(self.next(), now, Arc::clone(&condition), false);
        let (number, hash) = (ban.number, ban.hash);
        let mut list = self.list.write();
        list.bytes += condition.bytes();
        list.bans.push_back(ban);
        self.cut(&mut list);
        self.newest.store(number, Ordering::Release);
        drop(list);
        if condition.is_timeless() {
            // Not before: until the new one is there, the old one holds. Who tests pages need not wait for this.
            let list = self.list.read();
            let is_same =
                |ban: &&Ban<P>| ban.hash == hash && ban.number < number && ban.condition.words() == condition.words();
            for ban in list.bans.iter().filter(is_same) {
                let was_done = ban.is_done.swap(true, Ordering::Relaxed);
                self.counts.replaced.fetch_add(u64::from(!was_done), Ordering::Relaxed);
            }
        }
        number
    }

    /// The numbers of bans that a shelf had before, as far as another shelf has brought them already.
    pub(crate) fn numbers_of<'a>(&self, found: impl Iterator<Item = (Time, &'a str)>) -> Vec<Option<u64>> {
        let list = self.list.read();
        let known: HashMap<_, _> =
            list.bans.iter().map(|ban| ((ban.made_at.0, ban.condition.words()), ban.number)).collect();
        found.map(|(made_at, words)| known.get(&(made_at.0, words)).copied()).collect()
    }

    /// Takes over bans that a shelf had before, and returns their numbers; the newest come first. No page that was fetched
    /// since is tested by them. For this, [`Bans::order`] is held.
    pub(crate) fn take_over(&self, found: Vec<(Time, Arc<dyn Condition<P>>)>) -> Vec<u64> {
        let (first, are_done) = {
            // Those who test pages need not wait for this.
            let list = self.list.read();
            let mut later: HashSet<&str> = list.bans.iter().map(|ban| ban.condition.words()).collect();
            let are_done: Vec<bool> = found
                .iter()
                .map(|(_, condition)| !later.insert(condition.words()) && condition.is_timeless())
                .collect();
            (list.bans.front().map_or(self.base, |first| first.number.min(self.base)), are_done)
        };
        let mut list = self.list.write();
        let mut numbers = Vec::with_capacity(found.len());
        for (number, ((made_at, condition), is_done)) in (0..first).rev().zip(found.into_iter().zip(are_done)) {
            list.bytes += condition.bytes();
            list.bans.push_front(Ban::new(number, made_at, condition, is_done));
            numbers.push(number);
        }
        self.cut(&mut list);
        numbers
    }

    /// Cuts off the oldest bans if there are too many.
    fn cut(&self, list: &mut List<P>) {
        while list.bans.len() > BANS_MAX || list.bytes > BYTES_MAX && list.bans.len() > 1 {
            let Some(first) = list.bans.pop_front() else { break };
            list.bytes -= first.condition.bytes();
            self.counts.forgotten.fetch_add(1, Ordering::Relaxed);
            if !first.is_done.into_inner() {
                list.cut = list.cut.max(first.number);
            }
        }
    }

    /// What bans have made of a page; `None` for one that is as it was, which is not tested by the same bans again.
    #[inline]
    pub(crate) fn cover(&self, page: &P, tested: &Tested, request: &Asking<'_>) -> Option<Banned> {
        if tested.number() == self.newest() { None } else { self.test(page, tested, request) }
    }

    #[cold]
    fn test(&self, page: &P, tested: &Tested, request: &Asking<'_>) -> Option<Banned> {
        let list = self.list.read();
        let before = tested.number();
        let (mut count, mut since, mut is_gone) = (0, None, false);
        let later = list.bans.iter().rev().take_while(|ban| ban.number > before);
        for ban in later.filter(|ban| !ban.is_done.load(Ordering::Relaxed)) {
            count += 1;
            match ban.condition.holds(page, request, ban.made_at).then(|| ban.condition.effect()) {
                Some(Effect::Drop) => {
                    is_gone = true;
                    break;
                }
                Some(Effect::EndFreshness) => since = Stale::earlier(since, ban.made_at),
                None => {}
            }
        }
        self.counts.tested.fetch_add(count, Ordering::Relaxed);
        if is_gone || list.cut > before {
            return Some(Banned::Gone);
        }
        let newest = self.newest_of(&list);
        let Some(since) = since else {
            tested.raise(newest);
            return None;
        };
        Some(Banned::Stale(Stale { since, tested: newest }))
    }

    /// The number of a page from a shelf that says which is its first ban since; `newest` was the newest before it was read.
    /// `None` if another zone has numbered that ban, which the shelf belongs to by now: it may have bans that this one
    /// does not know.
    pub(crate) fn tested_before(&self, first: Option<u64>, newest: u64) -> Option<u64> {
        let Some(first) = first else { return Some(newest) };
        let is_own = first == 0 || first.abs_diff(self.base) < NUMBERS / 2;
        is_own.then(|| newest.min(first.saturating_sub(1)))
    }

    /// The number of a page that was tested by all of these.
    fn newest_of(&self, list: &List<P>) -> u64 {
        list.bans.back().map_or(self.base, |ban| ban.number.max(self.base))
    }

    /// Whether the ban of this number or a later one covers a page, or may: nobody asks for it, and nobody waits for many
    /// tests.
    pub(crate) fn may_cover(&self, page: &P, since: u64) -> bool {
        let list = self.list.read();
        let request = Asking { url: b"", fields: &Fields::new() };
        let later = list.bans.iter().rev().take_while(|ban| ban.number >= since);
        let (mut tests_left, mut quick_left) = (TESTS_MAX, QUICK_TESTS_MAX);
        for ban in later.filter(|ban| !ban.is_done.load(Ordering::Relaxed)) {
            let left = if ban.condition.is_quick() { &mut quick_left } else { &mut tests_left };
            let covers =
                |ban: &Ban<P>| ban.condition.asks_request() || ban.condition.holds(page, &request, ban.made_at);
            if *left == 0 || covers(ban) {
                return true;
            }
            *left -= 1;
        }
        list.cut >= since
    }

    /// Whether there are bans that pages can be tested by beforehand, made until then.
    pub(crate) fn has_work(&self, until: Time, now: Time) -> bool {
        self.list.read().bans.iter().any(|ban| ban.is_ready(until, now))
    }

    /// Tests a page beforehand by the bans made until then that look at no request. `None` for one that is as it was.
    pub(crate) fn look_ahead(&self, page: &P, tested: &Tested, until: Time, now: Time) -> Option<Banned> {
        let list = self.list.read();
        let before = tested.number();
        if list.cut > before {
            return Some(Banned::Gone);
        }
        let concerns = |ban: &&Ban<P>| ban.number > before;
        let request = Asking { url: b"", fields: &Fields::new() };
        // The last of those in a row that were tried, and do not drop it.
        let (mut passed, mut is_in_a_row, mut since) = (before, true, None);
        for ban in list.bans.iter().filter(concerns) {
            if ban.is_done.load(Ordering::Relaxed) {
                // Another one stands in its place.
            } else if !ban.is_ready(until, now) {
                is_in_a_row = false;
            } else {
                self.counts.tested_ahead.fetch_add(1, Ordering::Relaxed);
                match ban.condition.holds(page, &request, ban.made_at).then(|| ban.condition.effect()) {
                    Some(Effect::Drop) => return Some(Banned::Gone),
                    Some(Effect::EndFreshness) => since = Stale::earlier(since, ban.made_at),
                    None => {}
                }
            }
            if is_in_a_row {
                passed = ban.number;
            }
        }
        if let Some(since) = since {
            return Some(Banned::Stale(Stale { since, tested: passed }));
        }
        tested.raise(passed);
        None
    }

    /// The number of the last ban that was made until then.
    pub(crate) fn last_of(&self, until: Time, now: Time) -> u64 {
        self.list.read().bans.iter().rev().find(|ban| ban.is_old(until, now)).map_or(0, |ban| ban.number)
    }

    /// Whether there are bans up to this number that could be forgotten.
    pub(crate) fn has_until(&self, number: u64) -> bool {
        let list = self.list.read();
        list.bans.len() > 1 && list.bans.front().is_some_and(|first| first.number <= number)
    }

    /// Forgets the bans up to this number, by which all pages were tested; the newest stays, so that operators see it.
    /// Whatever turns up that was not tested by them is out of date.
    pub(crate) fn forget_until(&self, number: u64) -> usize {
        let mut list = self.list.write();
        let mut count = 0;
        while list.bans.len() > 1 && list.bans.front().is_some_and(|first| first.number <= number) {
            let Some(first) = list.bans.pop_front() else { break };
            list.bytes -= first.condition.bytes();
            list.cut = list.cut.max(first.number);
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
            added: self.newest() - self.base,
            forgotten: count(&self.counts.forgotten),
            replaced: count(&self.counts.replaced),
            tested: count(&self.counts.tested),
            dropped: count(&self.counts.dropped),
            tested_ahead: count(&self.counts.tested_ahead),
            dropped_ahead: count(&self.counts.dropped_ahead),
        }
    }

    #[cfg(test)]
    pub(crate) fn is_any_lock_held(&self) -> bool {
        self.list.try_read().is_none() || self.order.try_lock().is_none()
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
/// How many bans a page is tested by that nobody has asked for, and how many quick ones.
const TESTS_MAX: usize = 256;
/// See [`TESTS_MAX`].
const QUICK_TESTS_MAX: usize = 16_384;
/// How much memory all bans may take, in bytes: 100,000 with a regular expression or two each.
const BYTES_MAX: usize = 256 << 20;
