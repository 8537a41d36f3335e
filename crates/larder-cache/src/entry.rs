//! The index slot of a key: its variants, the fetches for it, and whether the disks were asked.

use std::borrow::Cow;
use std::iter;
use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use arc_swap::{ArcSwapOption, Guard};
use larder_http::Time;
use larder_store::{BodyState, Kept, Reservation, Seat};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::flight::{Flight, Offer, Outcome, Waiter};
use crate::key::KeyRef;
use crate::object::Object;
use crate::rules::Rules;
use crate::stats::Tally;
use crate::tags::TagHash;
use crate::vary::{Selecting, VaryKey};

/// One key's variants in memory, and what is known of those on disk and of those being fetched.
pub(crate) struct Entry {
    /// The era of its zone: see [`crate::Zone`].
    era: u64,
    tally: Arc<Tally>,
    hash: u128,
    key: Box<[u8]>,
    seat: Seat,
    /// The variants that hits are served from, without a lock. Empty once the entry has left its shelf.
    newest: ArcSwapOption<Variant>,
    /// When it was last used, in seconds since 1970. May be old by [`crate::Zone`]'s `use_step_secs`.
    used_at: AtomicU64,
    /// How many permits are out. An entry with one is busy, and not evicted.
    permits: AtomicUsize,
    /// The memory of the entry itself, without its objects.
    reservation: Reservation,
    /// Not held across an await, nor during a call of the shelf; taken before a flight's stage.
    state: Mutex<State>,
}

/// A node in the list of variants, newest first. A list is replaced, never changed.
pub(crate) struct Variant {
    pub(crate) object: Arc<Object>,
    pub(crate) older: Option<Arc<Variant>>,
}

/// The part of an entry under its lock: everything that may lead to a new variant.
#[derive(Default)]
struct State {
    /// How many lookups missed, for `min_uses`.
    uses: u32,
    /// How many are removing pages of it from the disks: nobody reads there meanwhile.
    closed: u32,
    flights: Vec<Arc<Flight>>,
    filling: Vec<Filling>,
    /// The `Vary` names of the newest object. A new flight is taken to vary by the same, until its response says.
    vary_names: Vec<Box<str>>,
    /// Until then no request waits for another's fetch, because the last response was not to be stored.
    uncacheable_until: Time,
    disk: Disk,
}

/// What is known of a key, without a use being noted.
#[derive(Debug, Default)]
pub struct Peek {
    /// The variants in memory, newest first, and those whose bodies have just become complete before them.
    pub variants: Vec<Arc<Object>>,
    /// How many lookups found no variant, for `min_uses`.
    pub misses: u32,
    /// How often it was found lately, as far as that was noted: it is more for what is used often.
    pub uses: u8,
    /// Whether a request is fetching it.
    pub is_being_fetched: bool,
    /// Until when requests do not wait for each other, because the last answer was not to be stored.
    pub uncacheable_until: Option<Time>,
    /// Whether a disk may have variants that are not in memory.
    pub may_be_on_disk: bool,
}

/// Whether the variants on disk are known.
#[derive(Default)]
enum Disk {
    /// Nothing.
    #[default]
    Unasked,
    /// A request is reading them, and notifies the others at the end.
    Reading(Arc<Notify>),
    /// Those that can be read are in memory.
    Known,
}

/// What a request has to do to know what is on disk.
pub(crate) enum Ask {
    /// Nothing: all variants on disk are in memory.
    Known,
    /// Read the disk, and notify the others.
    Read(Arc<Notify>),
    /// Wait: another request reads the disk.
    Wait(Arc<Notify>),
}

/// Until it is dropped, no lookup reads the pages of the entry from the disks.
#[must_use]
pub(crate) struct Closed<'a>(&'a Entry);

impl Drop for Closed<'_> {
    fn drop(&mut self) {
        self.0.state.lock().closed -= 1;
    }
}

/// Until it is dropped, its entry is at work.
#[must_use]
pub(crate) struct Busy(Arc<Entry>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.remove_permit();
    }
}

/// An object whose body is not complete yet, and the object that it will replace.
struct Filling {
    object: Arc<Object>,
    replaces: Option<Arc<Object>>,
}

impl Filling {
    /// Whether its body is complete and stored, so that it can become a variant, and it answers `request`.
    fn is_whole_for(&self, request: &Selecting<'_>, rules: &Rules) -> bool {
        let Object { body, vary, .. } = &*self.object;
        let is_whole = body.is_stored() && matches!(body.state(), BodyState::Complete { .. });
        is_whole && (rules.ignore_vary || vary.matches(request))
    }
}

/// What a request without a usable variant does.
pub(crate) enum Next {
    /// Look again: the entry has left its shelf, or has got a variant.
    Again,
    /// Fetch and do not store: the key has had fewer than `min_uses` lookups.
    Scarce,
    /// Fetch for itself, and store; others may do the same. There is no `lock`, or it does not apply now.
    Plain,
    /// Fetch for all requests that wait on the flight.
    Lead(Arc<Flight>),
    /// Wait for another request's fetch.
    Wait(Waiter),
    /// Fetch and do not store.
    Unstored,
}

/// What [`Entry::settle`] did with the objects that were filling.
#[derive(Default)]
pub(crate) struct Settled {
    pub(crate) stored: Vec<Arc<Object>>,
    /// Each replaced object with its successor, where the successor varies by other fields.
    pub(crate) replaced: Vec<(Arc<Object>, Arc<Object>)>,
    pub(crate) withdrawn: u64,
    /// Each object that found no room, with the one that it would have replaced.
    pub(crate) roomless: Vec<(Arc<Object>, Option<Arc<Object>>)>,
    /// Until what was stored waits for the disks: whoever drops it then removes there what is older.
    _busy: Option<Busy>,
}

impl Entry {
    pub(crate) fn new(
        era: u64,
        shelf_hash: u64,
        key: &KeyRef<'_>,
        now: Time,
        reservation: Reservation,
        tally: &Arc<Tally>,
    ) -> Self {
        tally.entries.fetch_add(1, Ordering::Relaxed);
        let seat = Seat::new(shelf_hash);
        // An entry without an object may be evicted first: no fetch is lost with it.
        seat.set_cost_micros(COST_OF_NOTHING);
        Self {
            era,
            tally: Arc::clone(tally),
            hash: key.hash(),
            key: key.bytes().into(),
            seat,
            newest: ArcSwapOption::empty(),
            used_at: AtomicU64::new(now.secs()),
            permits: AtomicUsize::new(0),
            reservation,
            state: Mutex::default(),
        }
    }

    /// The bytes that the entry of `key` takes, without its objects.
    pub(crate) fn overhead(key: &KeyRef<'_>) -> usize {
        size_of::<Self>() + ALLOCATIONS_BYTES + key.bytes().len()
    }

    /// Whether this is the entry of `key` in the zone of `era`, and still on its shelf.
    #[inline]
    pub(crate) fn is_live_at(&self, era: u64, key: &KeyRef<'_>) -> bool {
        self.hash == key.hash() && self.era == era && !self.is_gone() && *self.key == *key.bytes()
    }

    #[inline]
    pub(crate) fn is_gone(&self) -> bool {
        self.seat.is_gone()
    }

    pub(crate) fn is_at_work(&self) -> bool {
        // Acquire: who gave the last one back has done all that it was for.
        self.permits.load(Ordering::Acquire) > 0
    }

    /// Notes a use for the shelf's order.
    #[inline]
    pub(crate) fn touch(&self) {
        self.seat.touch();
    }

    /// Notes the time of a use, unless it was noted less than `step` seconds ago. Returns for how many seconds it was
    /// not used before that, if it noted one.
    #[inline]
    pub(crate) fn mark_used(&self, now: Time, step: u64) -> Option<u64> {
        let now = now.secs();
        let before = self.used_at.load(Ordering::Relaxed);
        if now < before.saturating_add(step) {
            return None;
        }
        self.used_at.store(now, Ordering::Relaxed);
        Some(now - before)
    }

    pub(crate) fn era(&self) -> u64 {
        self.era
    }

    /// The hash under which its shelf and the index of tags know it.
    pub(crate) fn shelf_hash(&self) -> u64 {
        self.seat.hash()
    }

    /// The half of the key's hash that a shelf uses.
    pub(crate) fn key_hash(&self) -> u64 {
        self.hash as u64
    }

    pub(crate) fn key_bytes(&self) -> &[u8] {
        &self.key
    }

    pub(crate) fn used_at(&self) -> u64 {
        self.used_at.load(Ordering::Relaxed)
    }

    /// The variants, without a write to a cache line that workers share.
    #[inline]
    pub(crate) fn variants(&self) -> Guard<Option<Arc<Variant>>> {
        self.newest.load()
    }

    pub(crate) fn variants_len(&self) -> usize {
        each(&self.newest.load()).count()
    }

    /// Whether a variant answers the request, fresh or not.
    fn answers(&self, request: &Selecting<'_>, rules: &Rules) -> bool {
        each(&self.newest.load()).any(|object| rules.ignore_vary || object.vary.matches(request))
    }

    /// Replaces the list of the variants, and returns the old one. The caller holds the lock.
    fn put(&self, list: Option<Arc<Variant>>) -> Option<Arc<Variant>> {
        let over = self.put_unnoted(list);
        self.note_tags(&over);
        over
    }

    /// The same, without the index of tags.
    fn put_unnoted(&self, list: Option<Arc<Variant>>) -> Option<Arc<Variant>> {
        let now = each(&list).count();
        let over = self.newest.swap(list);
        self.tally.objects.fetch_add(now, Ordering::Relaxed);
        self.tally.objects.fetch_sub(each(&over).count(), Ordering::Relaxed);
        over
    }

    /// Has the index of tags know the variants, after those in `over`.
    fn note_tags(&self, over: &Option<Arc<Variant>>) {
        let variants = self.newest.load();
        let (before, now) = (tags_of(over), tags_of(&variants));
        if !before.is_empty() || !now.is_empty() {
            self.tally.tags.change(self.seat.hash(), &before, &now);
        }
    }

    /// Whether a variant has this tag.
    pub(crate) fn has_tag(&self, tag: TagHash) -> bool {
        each(&self.newest.load()).any(|object| object.hold.tags.hashes().binary_search(&tag).is_ok())
    }

    /// Has the index of tags know the variants, whatever it knew.
    pub(crate) fn note_tags_again(&self) {
        for tag in tags_of(&self.newest.load()).iter() {
            self.tally.tags.insert_if(*tag, self.seat.hash(), || self.has_tag(*tag));
        }
    }

    /// Whether `object` is one of the variants.
    pub(crate) fn has(&self, object: &Arc<Object>) -> bool {
        each(&self.newest.load()).any(|variant| Arc::ptr_eq(variant, object))
    }

    /// What is known of the key now. Notes nothing.
    pub(crate) fn peek(&self, now: Time) -> Peek {
        let state = self.state.lock();
        let is_whole = |filling: &&Filling| {
            filling.object.body.is_stored() && matches!(filling.object.body.state(), BodyState::Complete { .. })
        };
        let new = state.filling.iter().rev().filter(is_whole).map(|filling| Arc::clone(&filling.object));
        Peek {
            variants: new.chain(each(&self.newest.load()).cloned()).collect(),
            misses: state.uses,
            uses: self.seat.uses(),
            is_being_fetched: self.is_at_work(),
            uncacheable_until: Some(state.uncacheable_until).filter(|until| now < *until),
            may_be_on_disk: !matches!(state.disk, Disk::Known),
        }
    }

    /// Whether a page of its key was evicted lately that would still be fresh, and none has come since. Told once.
    pub(crate) fn take_evicted(&self, now: Time) -> bool {
        u64::from(self.seat.take_left_until()) > now.secs() && self.newest.load().is_none()
    }

    /// Decides what a request without a usable variant does.
    pub(crate) fn fetch_or_wait(&self, request: &Selecting<'_>, rules: &Rules, now: Time) -> Next {
        let mut state = self.state.lock();
        // A body may have become complete since the caller looked; variants are installed under this lock.
        if self.is_gone() || self.answers(request, rules) {
            return Next::Again;
        }
        state.uses = state.uses.saturating_add(1);
        if state.uses < rules.min_uses && self.newest.load().is_none() {
            return Next::Scarce;
        }
        if !rules.lock || now < state.uncacheable_until {
            return Next::Plain;
        }
        let in_flight = state.flights.iter().find_map(|f| Some((f, f.offer(request)?)));
        let Some((flight, offer)) = in_flight else {
            // A flight ends when its body is complete, a moment before the object becomes a variant.
            if state.filling.iter().any(|filling| filling.is_whole_for(request, rules)) {
                return Next::Again;
            }
            let known = VaryKey::with_names(state.vary_names.clone(), request);
            let flight = Flight::start(known, now);
            state.flights.push(Arc::clone(&flight));
            return Next::Lead(flight);
        };
        if offer == Offer::Stream {
            // If the body no longer grows, later requests must not all wait for it: one of them fetches too.
            if flight.has_stalled(rules.lock_age, now) {
                return Next::Plain;
            }
            return Next::Wait(Waiter::new(flight, offer, rules, Duration::MAX));
        }
        let age = now.since(flight.started_at());
        if age >= rules.lock_age {
            flight.join(now);
            return Next::Lead(Arc::clone(flight));
        }
        if rules.lock_timeout.is_zero() {
            return Next::Unstored;
        }
        Next::Wait(Waiter::new(flight, offer, rules, rules.lock_age - age))
    }

    /// Publishes an object whose body may still be filling. With `kept`, it becomes a variant when it is complete.
    pub(crate) fn begin(
        &self,
        object: &Arc<Object>,
        replaces: Option<Arc<Object>>,
        flight: Option<&Arc<Flight>>,
        kept: bool,
    ) {
        let mut state = self.state.lock();
        state.vary_names = object.vary.names().map(Box::from).collect();
        if kept {
            state.filling.push(Filling { object: Arc::clone(object), replaces });
        }
        if let Some(flight) = flight {
            flight.fill(object);
        }
    }

    /// Makes objects with a complete body variants, and drops those that failed.
    pub(crate) fn settle(self: &Arc<Self>) -> Settled {
        let mut settled = Settled::default();
        let mut state = self.state.lock();
        state.flights.retain(|flight| flight.is_open());
        if state.filling.is_empty() {
            return settled;
        }
        settled._busy = Some(self.busy());
        let mut over = Vec::new();
        for filling in mem::take(&mut state.filling) {
            match (self.is_gone(), filling.object.body.is_stored(), filling.object.body.state()) {
                (false, true, BodyState::Complete { .. }) => {
                    settled.stored.push(Arc::clone(&filling.object));
                    if let Some(old) = filling.replaces.as_ref().filter(|old| old.vary != filling.object.vary) {
                        settled.replaced.push((Arc::clone(old), Arc::clone(&filling.object)));
                    }
                    over.push(self.install(&mut state, filling));
                }
                (false, true, BodyState::Filling { .. }) => state.filling.push(filling),
                (false, false, _) => {
                    settled.withdrawn += 1;
                    settled.roomless.push((filling.object, filling.replaces));
                }
                (true, _, _) | (_, _, BodyState::Failed(_)) => {
                    settled.withdrawn += 1;
                }
            }
        }
        drop(state);
        // Bodies are freed after the lock is released.
        drop(over);
        settled
    }

    /// Makes `object`, whose body is complete, a variant.
    pub(crate) fn remember(&self, object: &Arc<Object>) {
        let mut state = self.state.lock();
        if self.is_gone() {
            return;
        }
        let over = self.install(&mut state, Filling { object: Arc::clone(object), replaces: None });
        drop(state);
        drop(over);
    }

    /// Replaces `old` by `object`, whose body is complete. False if the entry has left its shelf.
    pub(crate) fn replace(&self, old: &Arc<Object>, object: &Arc<Object>) -> bool {
        let mut state = self.state.lock();
        if self.is_gone() {
            return false;
        }
        state.vary_names = object.vary.names().map(Box::from).collect();
        let filling = Filling { object: Arc::clone(object), replaces: Some(Arc::clone(old)) };
        let over = self.install(&mut state, filling);
        drop(state);
        drop(over);
        true
    }

    /// Says how to find out what is on disk. Only one request at a time is told to read.
    pub(crate) fn ask_disk(&self) -> Ask {
        let mut state = self.state.lock();
        match &state.disk {
            _ if state.closed > 0 => Ask::Known,
            Disk::Known => Ask::Known,
            Disk::Reading(over) => Ask::Wait(Arc::clone(over)),
            Disk::Unasked => {
                let over = Arc::new(Notify::new());
                state.disk = Disk::Reading(Arc::clone(&over));
                Ask::Read(over)
            }
        }
    }

    /// Whether the reading that will notify `over` still runs.
    pub(crate) fn is_being_read(&self, over: &Arc<Notify>) -> bool {
        matches!(&self.state.lock().disk, Disk::Reading(now) if Arc::ptr_eq(now, over))
    }

    /// Gives the reading up, so that the next request reads. Has no effect if the reading has ended.
    pub(crate) fn end_reading(&self, over: &Arc<Notify>) {
        let mut state = self.state.lock();
        if matches!(&state.disk, Disk::Reading(now) if Arc::ptr_eq(now, over)) {
            state.disk = Disk::Unasked;
        }
    }

    /// Adds objects that were read from disk, newest first, after the variants in memory, which are newer. Nothing if the
    /// reading that will notify `over` is void.
    pub(crate) fn install_read(&self, over: &Arc<Notify>, objects: Vec<Arc<Object>>) {
        let mut state = self.state.lock();
        if !matches!(&state.disk, Disk::Reading(now) if Arc::ptr_eq(now, over)) {
            return;
        }
        state.disk = Disk::Known;
        if self.is_gone() || objects.is_empty() {
            return;
        }
        let current = self.newest.load_full();
        let mut all: Vec<Arc<Object>> = each(&current).cloned().collect();
        for object in objects.into_iter().filter(|object| object.is_charged()) {
            if all.len() < VARIANTS_MAX && !all.iter().any(|newer| newer.vary == object.vary) {
                all.push(object);
            }
        }
        state.vary_names = all.first().map_or_else(Vec::new, |newest| newest.vary.names().map(Box::from).collect());
        if let Some(newest) = all.first() {
            self.note_cost(newest.cost_micros);
        }
        let over = self.put(list_of(all));
        drop(state);
        drop((over, current));
    }

    /// For one who is about to drop what is on disk: nobody reads it from now on. Returns whether all variants there are
    /// in memory; `None` if a request is reading them now.
    pub(crate) fn close_disk(&self) -> Option<bool> {
        let mut state = self.state.lock();
        match state.disk {
            Disk::Known => Some(true),
            Disk::Unasked => {
                state.disk = Disk::Known;
                Some(false)
            }
            Disk::Reading(_) => None,
        }
    }

    /// Drops the variants for which `is_meant` is true, and such pages that are on their way. Returns the number of
    /// these.
    pub(crate) fn drop_meant(&self, is_meant: impl Fn(&Object) -> bool) -> usize {
        let coming = self.drop_coming(&is_meant);
        let state = self.state.lock();
        let current = self.newest.load_full();
        let rest: Vec<Arc<Object>> = each(&current).filter(|object| !is_meant(object)).cloned().collect();
        let over = (rest.len() < each(&current).count()).then(|| self.put(list_of(rest)));
        drop(state);
        drop((over, current));
        coming
    }

    /// Puts `object` in the place of `old`, with the same body and `Vary`. False if `old` is not a variant any more.
    pub(crate) fn exchange(&self, old: &Arc<Object>, object: &Arc<Object>) -> bool {
        let state = self.state.lock();
        let current = self.newest.load_full();
        if self.is_gone() || !each(&current).any(|variant| Arc::ptr_eq(variant, old)) {
            return false;
        }
        let exchanged = |variant| Arc::clone(if Arc::ptr_eq(variant, old) { object } else { variant });
        let over = self.put(list_of(each(&current).map(exchanged).collect()));
        drop(state);
        drop((over, current));
        true
    }

    /// Does not store the pages on their way for which `is_meant` is true, and returns their number. Who waits for them
    /// gets them.
    pub(crate) fn drop_coming(&self, is_meant: impl Fn(&Object) -> bool) -> usize {
        let mut state = self.state.lock();
        let (gone, stay): (Vec<_>, Vec<_>) =
            mem::take(&mut state.filling).into_iter().partition(|filling| is_meant(&filling.object));
        state.filling = stay;
        drop(state);
        gone.len()
    }

    /// Drops a variant that can no longer be read, and asks the disks again once they are open. `None` if it is not a
    /// variant.
    pub(crate) fn drop_variant(&self, lost: &Arc<Object>) -> Option<Closed<'_>> {
        let closed = self.let_go(lost)?;
        let mut state = self.state.lock();
        if matches!(state.disk, Disk::Known) {
            state.disk = Disk::Unasked;
        }
        drop(state);
        Some(closed)
    }

    /// Drops a variant, and closes the disks until the caller has removed there what it took the place of. `None` if it is
    /// not a variant.
    pub(crate) fn let_go(&self, object: &Arc<Object>) -> Option<Closed<'_>> {
        self.drop_one(object, |list| self.put(list))
    }

    /// The same, and leaves the index of tags to `note`, which gets the tags of all variants before and now.
    pub(crate) fn let_go_and_note(
        &self,
        object: &Arc<Object>,
        note: impl FnOnce(&[TagHash], &[TagHash]),
    ) -> Option<Closed<'_>> {
        self.drop_one(object, |list| {
            let over = self.put_unnoted(list);
            note(&tags_of(&over), &tags_of(&self.newest.load()));
            over
        })
    }

    /// Drops a variant by `put`, which gets the list of the others.
    fn drop_one(
        &self,
        object: &Arc<Object>,
        put: impl FnOnce(Option<Arc<Variant>>) -> Option<Arc<Variant>>,
    ) -> Option<Closed<'_>> {
        let mut state = self.state.lock();
        let current = self.newest.load_full();
        let rest: Vec<Arc<Object>> = each(&current).filter(|other| !Arc::ptr_eq(other, object)).cloned().collect();
        if rest.len() == each(&current).count() {
            return None;
        }
        let over = put(list_of(rest));
        state.closed += 1;
        // What is being read may be older than what is dropped here.
        if matches!(state.disk, Disk::Reading(_)) {
            state.disk = Disk::Unasked;
        }
        drop(state);
        drop((over, current));
        Some(Closed(self))
    }

    /// Drops what `object` would have replaced, if there had been room for it.
    pub(crate) fn drop_replaced(&self, object: &Object, replaces: Option<&Arc<Object>>) {
        let state = self.state.lock();
        let current = self.newest.load_full();
        let rest: Vec<Arc<Object>> =
            each(&current).filter(|old| !is_replaced(old, object, replaces)).cloned().collect();
        let over = (rest.len() < each(&current).count()).then(|| self.put(list_of(rest)));
        drop(state);
        drop((over, current));
    }

    /// Ends a flight that brought no object.
    pub(crate) fn end(&self, flight: &Arc<Flight>, outcome: Outcome) {
        self.state.lock().flights.retain(|f| !Arc::ptr_eq(f, flight));
        flight.end(outcome);
    }

    /// Remembers that the response was not to be stored.
    pub(crate) fn set_uncacheable_until(&self, until: Time) {
        self.state.lock().uncacheable_until = until;
    }

    pub(crate) fn add_permit(&self) {
        self.permits.fetch_add(1, Ordering::Relaxed);
    }

    /// Keeps it busy, as a permit does.
    pub(crate) fn busy(self: &Arc<Self>) -> Busy {
        self.add_permit();
        Busy(Arc::clone(self))
    }

    pub(crate) fn remove_permit(&self) {
        self.permits.fetch_sub(1, Ordering::Release);
    }

    /// Notes what a fetch cost, as a running mean, because a single fetch is a noisy measure.
    fn note_cost(&self, micros: u32) {
        let before = self.seat.cost_micros();
        let cost = match (before, micros) {
            (0 | COST_OF_NOTHING, _) => micros,
            (_, 0) => before,
            _ => before - before / 4 + micros / 4,
        };
        self.seat.set_cost_micros(cost);
    }

    /// Puts a complete object in front of the variants. Returns the old list, to be dropped after the lock is released.
    fn install(&self, state: &mut State, new: Filling) -> Option<Arc<Variant>> {
        state.uncacheable_until = Time::default();
        self.note_cost(new.object.cost_micros);
        let stays = |old: &&Arc<Object>| !is_replaced(old, &new.object, new.replaces.as_ref());
        let current = self.newest.load();
        let stay: Vec<Arc<Object>> = each(&current).filter(stays).take(VARIANTS_MAX - 1).cloned().collect();
        let older = list_of(stay);
        drop(current);
        self.put(Some(Arc::new(Variant { object: new.object, older })))
    }
}

impl Kept for Entry {
    fn key(&self) -> &[u8] {
        &self.key
    }

    fn weight(&self) -> usize {
        let state = self.state.lock();
        let filling: usize = state.filling.iter().map(|f| f.object.reserved()).sum();
        let variants: usize = each(&self.newest.load()).map(|o| o.reserved()).sum();
        self.reservation.bytes() + filling + variants
    }

    fn seat(&self) -> &Seat {
        &self.seat
    }

    fn is_busy(&self) -> bool {
        self.is_at_work()
    }

    fn useful_until(&self) -> u64 {
        each(&self.newest.load()).map(|object| object.fresh_until.secs()).max().unwrap_or(0)
    }

    /// Drops all objects. Running fetches go on for the requests that wait for them, but are not stored.
    fn leave(&self) {
        let mut state = self.state.lock();
        let filling = mem::take(&mut state.filling);
        let variants = self.put(None);
        drop(state);
        drop((filling, variants));
        self.tally.entries.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Whether `new` takes the place of `old`. `replaces` is the object that `new` was fetched to replace.
fn is_replaced(old: &Arc<Object>, new: &Object, replaces: Option<&Arc<Object>>) -> bool {
    old.vary == new.vary || replaces.is_some_and(|gone| Arc::ptr_eq(gone, old))
}

/// The tags of all variants, sorted.
fn tags_of(variants: &Option<Arc<Variant>>) -> Cow<'_, [TagHash]> {
    let mut of_each = each(variants).map(|object| object.hold.tags.hashes()).filter(|tags| !tags.is_empty());
    let first = of_each.next().unwrap_or_default();
    let Some(second) = of_each.next() else { return Cow::Borrowed(first) };
    let mut all: Vec<TagHash> = [first, second].into_iter().chain(of_each).flatten().copied().collect();
    all.sort_unstable();
    all.dedup();
    Cow::Owned(all)
}

/// The list of these objects, newest first.
fn list_of(objects: Vec<Arc<Object>>) -> Option<Arc<Variant>> {
    objects.into_iter().rev().fold(None, |older, object| Some(Arc::new(Variant { object, older })))
}

/// The objects of a list, newest first.
pub(crate) fn each(newest: &Option<Arc<Variant>>) -> impl Iterator<Item = &Arc<Object>> {
    iter::successors(newest.as_deref(), |variant| variant.older.as_deref()).map(|variant| &variant.object)
}

/// The most variants of one key; beyond it the oldest is dropped. More come from a `Vary` on a field that differs for
/// every client, such as `User-Agent`, and get no hits.
pub(crate) const VARIANTS_MAX: usize = 64;

/// The fetch cost of an entry without objects, in µs: less than any fetch. Zero would mean "unknown".
const COST_OF_NOTHING: u32 = 1;

/// Bytes for the counts of the `Arc`, what the state points to, and what the allocator adds.
const ALLOCATIONS_BYTES: usize = 112;
