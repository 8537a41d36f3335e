//! The decision of the cache about a request: hit, stale, miss, wait, load or scarce.

use std::ops::Deref;
use std::sync::Arc;

use arc_swap::Guard;
use larder_http::Time;

use crate::entry::{Ask, Entry, Next, Variant};
use crate::flight::Waiter;
use crate::front::Front;
use crate::key::KeyRef;
use crate::loading::{Loading, Reading};
use crate::object::Object;
use crate::permit::Permit;
use crate::rules::Rules;
use crate::stats::Event;
use crate::vary::Selecting;
use crate::zone::Zone;

/// What the cache can do for a request.
#[derive(Debug)]
pub enum Verdict {
    /// A fresh object.
    Hit(HitRef),
    /// An object that is no longer fresh. Whether it may be served is the caller's decision.
    Stale {
        /// The object.
        object: HitRef,
        /// Another request is refetching it.
        updating: bool,
        /// The right to refetch it. Only one request has it, so it is `None` while `updating`.
        permit: Option<Permit>,
    },
    /// No object: fetch. With `None`, do not store the response.
    Miss(Option<Permit>),
    /// No object, but another request is fetching one.
    Wait(Waiter),
    /// No object in memory, but perhaps on disk: wait for the read, then look up again.
    Load(Loading),
    /// No object, and fewer than `min_uses` lookups so far: fetch, and do not store.
    Scarce,
}

impl Zone {
    /// Decides what the cache can do for a request of `key` at `now`. Never waits; a hit takes no lock and allocates
    /// nothing.
    ///
    /// Vary decides before freshness: a fresh page in another language is not a hit (RFC 9111 §4.1).
    pub fn lookup(
        self: &Arc<Self>,
        front: &mut Front,
        key: &KeyRef<'_>,
        request: &Selecting<'_>,
        rules: &Rules,
        now: Time,
    ) -> Verdict {
        let verdict = self.decide(front, key, request, rules, now);
        front.count(self, verdict.event());
        verdict
    }

    fn decide(
        self: &Arc<Self>,
        front: &mut Front,
        key: &KeyRef<'_>,
        request: &Selecting<'_>,
        rules: &Rules,
        now: Time,
    ) -> Verdict {
        for _ in 0..TRIES_MAX {
            let Some(entry) = front.entry(self.era(), key, || self.entry(key, now)) else {
                return Verdict::Miss(None);
            };
            if let Some(unused_secs) = entry.mark_used(now, self.use_step_secs()) {
                if unused_secs > self.unused_secs_max() && !entry.is_at_work() {
                    self.forget(key);
                    continue;
                }
                self.shelves().touch(key.bytes(), now);
            }
            let found = HitRef::newest(entry, request, rules);
            match found {
                Some(object) if object.is_fresh(now) => return Verdict::Hit(object),
                Some(object) if object.is_updating() => return Verdict::being_updated(object),
                Some(_) | None => {}
            }
            // A body may be complete although its permit is still out.
            if self.settle(entry) {
                continue;
            }
            if let Some(object) = found {
                match self.refetch(entry, object) {
                    Some(verdict) => return verdict,
                    None => continue,
                }
            }
            match self.ask_disk(entry, now) {
                Asked::Nothing => {}
                Asked::Found => continue,
                Asked::Wait(loading) => return Verdict::Load(loading),
            }
            let next = entry.fetch_or_wait(request, rules, now);
            if !matches!(next, Next::Again | Next::Wait(_)) {
                self.note_miss(entry, now);
            }
            match next {
                Next::Again => {}
                Next::Scarce => return Verdict::Scarce,
                Next::Plain => return Verdict::Miss(Some(Permit::plain(self, entry))),
                Next::Lead(flight) => {
                    return Verdict::Miss(Some(Permit::lead(self, entry, flight)));
                }
                Next::Wait(waiter) => return Verdict::Wait(waiter),
                Next::Unstored => return Verdict::Miss(None),
            }
        }
        // The entry was evicted on every try: there is no room for this key now.
        Verdict::Miss(None)
    }

    /// Counts a page that is fetched although it was here, and would still be fresh: there was no room for it.
    fn note_miss(&self, entry: &Entry, now: Time) {
        let was_in_memory = entry.take_evicted(now);
        // What left memory for a disk is fetched because it has left that too.
        let was_on_disk = self.shelves().note_miss(entry.key_bytes(), now);
        if was_in_memory && !was_on_disk {
            self.counts.evicted_wanted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        }
    }

    /// A stale object, with the permit for the first who asks. `None` when a refetch has replaced it: a mark that is
    /// set after the one who refetched took his away finds the new object in its place.
    fn refetch(self: &Arc<Self>, entry: &Arc<Entry>, object: HitRef) -> Option<Verdict> {
        if !object.start_updating() {
            return Some(Verdict::being_updated(object));
        }
        if !entry.has(object.object()) {
            object.stop_updating();
            return None;
        }
        let permit = Permit::refetch(self, entry, object.to_arc());
        Some(Verdict::Stale { object, updating: false, permit: Some(permit) })
    }

    /// Asks the disks for an entry without a variant for the request. Reads what the kernel has cached.
    fn ask_disk(self: &Arc<Self>, entry: &Arc<Entry>, now: Time) -> Asked {
        let shelves = self.shelves();
        if shelves.is_empty() {
            return Asked::Nothing;
        }
        let (over, is_mine) = match entry.ask_disk() {
            Ask::Known => return Asked::Nothing,
            Ask::Read(over) => (over, true),
            Ask::Wait(over) => (over, false),
        };
        if is_mine {
            // So that it is not evicted meanwhile.
            entry.add_permit();
        }
        let reading = Reading { zone: Arc::clone(self), entry: Arc::clone(entry), over, is_mine };
        if !is_mine {
            return Asked::Wait(Loading { reading, found: None });
        }
        // Asked before `find`: if a shelf is opened in between, the next lookup looks at it.
        let are_open = shelves.are_open(entry.key_bytes());
        if !self.knows_bans() {
            // As if the shelves were still being opened.
            return Asked::Nothing;
        }
        let Some(found) = shelves.find(entry.key_bytes(), now, self.read_bytes_max(), self.newest_ban()) else {
            if are_open {
                entry.install_read(&reading.over, Vec::new());
            }
            return Asked::Nothing;
        };
        match found.read_now(entry.key_bytes()) {
            None => Asked::Wait(Loading { reading, found: Some(found) }),
            Some(stored) => {
                let is_there = !stored.is_empty();
                self.install(&reading, stored, found.newest_ban);
                if is_there { Asked::Found } else { Asked::Nothing }
            }
        }
    }

    /// Makes complete objects of `entry` variants. True if there is a new one.
    pub(crate) fn settle(self: &Arc<Self>, entry: &Arc<Entry>) -> bool {
        use std::sync::atomic::Ordering::Relaxed;
        let settled = entry.settle();
        if !settled.stored.is_empty() || settled.withdrawn > 0 {
            self.counts.stored.fetch_add(settled.stored.len() as u64, Relaxed);
            self.counts.withdrawn.fetch_add(settled.withdrawn, Relaxed);
            self.reweigh(entry);
        }
        for (old, new) in &settled.replaced {
            self.shelves().remove_variant(entry.key_bytes(), old, new.stored_at);
        }
        for (object, replaces) in &settled.roomless {
            self.not_kept(entry, object, replaces.as_ref());
        }
        settled.stored.iter().for_each(|object| self.keep(entry, object));
        !settled.stored.is_empty()
    }
}

/// The result of asking the disks.
enum Asked {
    Nothing,
    /// There was something, and it is in memory now.
    Found,
    Wait(Loading),
}

impl Verdict {
    fn being_updated(object: HitRef) -> Self {
        Self::Stale { object, updating: true, permit: None }
    }

    fn event(&self) -> Event {
        match self {
            Self::Hit(_) => Event::Hit,
            Self::Stale { updating: false, .. } => Event::Stale,
            Self::Stale { updating: true, .. } => Event::Updating,
            Self::Miss(_) => Event::Miss,
            Self::Wait(_) => Event::Wait,
            Self::Load(_) => Event::Load,
            Self::Scarce => Event::Scarce,
        }
    }
}

/// An object that is held without touching a reference count that workers share.
///
/// Use it for a response that is written at once, and [`to_arc`](Self::to_arc) for longer.
pub struct HitRef {
    variants: Guard<Option<Arc<Variant>>>,
    /// How many newer variants come before it in the list.
    depth: usize,
}

impl HitRef {
    /// The newest variant that answers the request.
    fn newest(entry: &Entry, request: &Selecting<'_>, rules: &Rules) -> Option<Self> {
        let variants = entry.variants();
        let depth =
            crate::entry::each(&variants).position(|object| rules.ignore_vary || object.vary.matches(request))?;
        Some(Self { variants, depth })
    }

    /// The object, to be kept for any time.
    pub fn to_arc(&self) -> Arc<Object> {
        Arc::clone(self.object())
    }

    #[inline]
    fn object(&self) -> &Arc<Object> {
        crate::entry::each(&self.variants)
            .nth(self.depth)
            .expect("the list is a snapshot, in which the object was found at this depth")
    }
}

impl Deref for HitRef {
    type Target = Object;

    #[inline]
    fn deref(&self) -> &Object {
        self.object()
    }
}

impl std::fmt::Debug for HitRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("HitRef").field(self.object()).finish()
    }
}

/// How often a lookup starts again because the entry was evicted or changed in between.
const TRIES_MAX: usize = 8;
