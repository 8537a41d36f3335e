//! The right to store one response under a key.

use std::mem;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use larder_http::Time;

use crate::bans::{Banned, Tested};
use crate::entry::Entry;
use crate::flight::{Flight, Hurry, Outcome};
use crate::front::Front;
use crate::key::{self, KeyRef};
use crate::object::Object;
use crate::remembered::{NO_ROOM, too_large};
use crate::stamps::Moment;
use crate::url::Located;
use crate::zone::Zone;

/// The right to fill one variant of a key. Keep it until the body has ended.
///
/// ```text
/// out --begin--> begun --complete, or drop--> the object is a variant if its body is complete and stored
///  |--freshen---------------------------------> the new object is in the place of the old
///  |--share-----------------------------------> those who wait have the object, and nobody else
///  |--uncacheable-----------------------------> all who wait fetch for themselves
///  `--failed, or drop-------------------------> the next of those who wait tries
/// ```
/// If the body of the object fails, the object is withdrawn, and the older object stays. If there is no room for it,
/// the older object is dropped, because it is out of date.
pub struct Permit {
    zone: Arc<Zone>,
    entry: Arc<Entry>,
    /// When the fetch began: what is stored is tested by all bans that came later, and not kept after a purge of its key.
    since: Moment,
    role: Role,
}

/// What the permit is for; it decides what is done when the permit ends.
enum Role {
    /// To store a response; no request waits for it.
    Plain,
    /// To fetch for the requests that wait on the flight.
    Lead(Arc<Flight>),
    /// To replace this stale object, which is marked as updating.
    Refetch(Arc<Object>),
    /// Used: an object was begun. The mark of a refetch stays until the body has ended.
    Begun { refetch: Option<Arc<Object>> },
    /// Used up.
    Over,
}

impl Zone {
    /// A permit to store one response under `key` without a lookup, as for a bypassed cache.
    ///
    /// Nobody waits for it, and the last response to be complete wins. `None` when the zone has no room.
    pub fn permit(self: &Arc<Self>, front: &mut Front, key: &KeyRef<'_>, now: Time) -> Option<Permit> {
        let entry = front.entry(self.era(), key, || self.entry(key, now))?;
        Some(Permit::plain(self, entry))
    }
}

impl Permit {
    pub(crate) fn plain(zone: &Arc<Zone>, entry: &Arc<Entry>) -> Self {
        Self::new(zone, entry, Role::Plain)
    }

    pub(crate) fn lead(zone: &Arc<Zone>, entry: &Arc<Entry>, flight: Arc<Flight>) -> Self {
        Self::new(zone, entry, Role::Lead(flight))
    }

    /// For one who has just set the mark on `stale`.
    pub(crate) fn refetch(zone: &Arc<Zone>, entry: &Arc<Entry>, stale: Arc<Object>) -> Self {
        Self::new(zone, entry, Role::Refetch(stale))
    }

    fn new(zone: &Arc<Zone>, entry: &Arc<Entry>, role: Role) -> Self {
        entry.add_permit();
        Self { zone: Arc::clone(zone), entry: Arc::clone(entry), since: zone.moment(), role }
    }

    /// Whether requests wait for what it brings.
    pub fn is_awaited(&self) -> bool {
        match &self.role {
            // Each of those holds the flight, as do its entry and this permit.
            Role::Lead(flight) => Arc::strong_count(flight) > 2,
            Role::Plain | Role::Refetch(_) | Role::Begun { .. } | Role::Over => false,
        }
    }

    /// Has `leader` hear how good those are who wait for what it brings.
    pub fn hear(&self, leader: Hurry) {
        match &self.role {
            Role::Lead(flight) => flight.hear(leader),
            Role::Plain | Role::Refetch(_) | Role::Begun { .. } | Role::Over => {}
        }
    }

    /// When the fetch began.
    pub fn since(&self) -> Moment {
        self.since
    }

    /// Has what is stored be meant by all bans and purges since then, instead of since the lookup: the fetch began earlier.
    pub fn fetched_since(&mut self, began: Moment) {
        let Moment { ban, purge } = self.since;
        self.since = Moment { ban: ban.min(began.ban), purge: purge.min(began.purge) };
    }

    /// Spares what is stored the test by these bans, which were made by who fetched it, unless there was another one
    /// between.
    pub fn spare(&mut self, bans: RangeInclusive<u64>) {
        if self.since.ban + 1 >= *bans.start() {
            self.since.ban = self.since.ban.max(*bans.end());
        }
    }

    /// Whether the key was purged since the fetch began.
    fn is_purged(&self) -> bool {
        // A part is purged with its page.
        let hash = key::page_hash(self.entry.key_bytes(), self.entry.key_hash());
        self.zone.stamps.is_purged(hash, self.since.purge)
    }

    /// Publishes an object whose head is known and may be stored. Waiting requests stream from its body, and when the
    /// body is complete, the object becomes a variant.
    ///
    /// If the zone has no room for the head, or the body is not stored, the object is only shared with the requests
    /// that wait now. The object that it would have replaced is dropped, because it is out of date.
    pub fn begin(&mut self, mut object: Object) -> Arc<Object> {
        object.hold.tested = Tested::by(self.since.ban);
        let object = self.zone.charged(&self.entry, object);
        self.begin_charged(&object);
        object
    }

    fn begin_charged(&mut self, object: &Arc<Object>) {
        let is_purged = self.is_purged();
        let kept = object.is_charged() && object.body.is_stored() && !is_purged;
        let (flight, refetch) = match mem::replace(&mut self.role, Role::Over) {
            Role::Plain | Role::Over => (None, None),
            Role::Lead(flight) => (Some(flight), None),
            Role::Refetch(stale) => (None, Some(stale)),
            // A second object of one permit: the first one goes on without it.
            Role::Begun { refetch } => (None, refetch),
        };
        self.entry.begin(object, refetch.clone(), flight.as_ref(), kept);
        match kept {
            true => self.zone.remembered.store(self.entry.key_hash()),
            false => drop(self.zone.counts.withdrawn.fetch_add(1, Ordering::Relaxed)),
        }
        if !kept && !is_purged {
            self.zone.not_kept(&self.entry, object, refetch.as_ref());
        }
        self.role = Role::Begun { refetch };
        self.zone.reweigh(&self.entry);
    }

    /// Stores a page of another cache, whose body is whole, as if its fetch had begun here at `since`. Gives the permit back
    /// if a purge or a ban since then means the page, or there is no room for it; or if it is stale, where a stale page is here.
    ///
    /// Who waits gets it if it is fresh; otherwise the next of them looks up again, and finds it.
    pub fn take_in(mut self, mut object: Object, since: Moment, now: Time) -> Result<(), Self> {
        let key = self.entry.key_bytes();
        let hash = key::page_hash(key, self.entry.key_hash());
        if self.zone.stamps.was_purged(key::page_of(key), hash, since.purge) || self.is_purged() {
            return Err(self);
        }
        object.hold.tested = Tested::by(since.ban);
        let object = self.zone.charged(&self.entry, object);
        let banned = self.zone.looked_ahead(&object);
        if banned == Some(Banned::Gone) || !object.is_charged() || !object.body.is_stored() {
            return Err(self);
        }
        match banned.is_none() && object.is_fresh(now) {
            true => self.begin_charged(&object),
            false if matches!(self.role, Role::Refetch(_)) => return Err(self),
            false => Self::plain(&self.zone, &self.entry).begin_charged(&object),
        }
        Ok(())
    }

    /// Makes the begun object a variant, if its body is complete. Dropping the permit does the same.
    pub fn complete(self) {}

    /// The origin confirmed `old` by a 304: `object`, with the same body and new times, replaces it and takes its
    /// forms, and its URL unless it has one.
    pub fn freshen(mut self, old: &Arc<Object>, mut object: Object) -> Arc<Object> {
        object.hold.tested = Tested::by(self.since.ban);
        if object.hold.located == Located::Unknown {
            object.hold.located = old.hold.located.clone();
        }
        object.take_forms_of(old);
        let object = self.zone.charged(&self.entry, object);
        if object.is_charged() && !self.is_purged() && self.entry.replace(old, &object) {
            self.zone.counts.freshened.fetch_add(1, Ordering::Relaxed);
            self.zone.remembered.store(self.entry.key_hash());
            if old.vary != object.vary {
                self.zone.shelves().remove_variant(self.entry.key_bytes(), old, object.stored_at);
            }
            self.zone.keep(&self.entry, &object);
            self.zone.reweigh(&self.entry);
        }
        // Requests that waited for another variant look up again, and find what is here.
        self.give_up(Outcome::Failed);
        object
    }

    /// The response is not to be stored: all who wait fetch for themselves at once, and so does everyone who
    /// comes within this time.
    pub fn uncacheable(mut self, time: Duration, now: Time) {
        self.zone.counts.uncacheable.fetch_add(1, Ordering::Relaxed);
        let until = now.plus(time);
        self.entry.set_uncacheable_until(until);
        self.give_up(Outcome::Uncacheable);
    }

    /// Gives `object`, whose body is whole, to those who wait now, and keeps it for nobody else.
    pub fn share(mut self, object: Object) {
        let object = Arc::new(object);
        match mem::replace(&mut self.role, Role::Over) {
            Role::Lead(flight) => {
                flight.fill(&object);
                self.zone.settle(&self.entry);
            }
            Role::Refetch(stale) => {
                stale.share(object);
                stale.stop_updating();
            }
            role @ (Role::Plain | Role::Begun { .. } | Role::Over) => self.role = role,
        }
    }

    /// Remembers in place of a page what `object`, which has an empty body, stands for: all who wait fetch for
    /// themselves, and lookups find it until it is stale.
    pub fn remember(mut self, mut object: Object) {
        object.hold.tested = Tested::by(self.since.ban);
        let object = self.zone.charged(&self.entry, object);
        self.zone.counts.uncacheable.fetch_add(1, Ordering::Relaxed);
        if object.is_charged() && !self.is_purged() {
            self.entry.remember(&object);
            self.zone.reweigh(&self.entry);
        }
        self.give_up(Outcome::Uncacheable);
    }

    /// Notes that the body, of this length, has found no room at its end. `status` is that of its answer.
    pub fn remember_no_room(&self, status: u16, bytes: u64, now: Time) {
        let can_hold = self.zone.can_hold(self.entry.key_bytes(), bytes);
        let why = if can_hold { NO_ROOM.to_owned() } else { too_large(bytes) };
        self.zone.remembered.refuse(self.entry.key_hash(), Some(status), &why, can_hold, now);
    }

    /// The fetch brought nothing. Dropping the permit does the same.
    pub fn failed(self) {}

    /// Gives the right back, whatever its role, and tells waiting requests `outcome`.
    fn give_up(&mut self, outcome: Outcome) {
        match mem::replace(&mut self.role, Role::Over) {
            Role::Plain | Role::Over => {}
            Role::Lead(flight) => {
                let last = flight.give_up();
                // That a response may not be stored is told at once, even while another fetch runs.
                if last || outcome == Outcome::Uncacheable {
                    self.entry.end(&flight, outcome);
                }
            }
            Role::Refetch(stale) => stale.stop_updating(),
            Role::Begun { refetch } => {
                self.zone.settle(&self.entry);
                if let Some(stale) = refetch {
                    stale.stop_updating();
                }
            }
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.give_up(Outcome::Failed);
        self.entry.remove_permit();
    }
}

impl std::fmt::Debug for Permit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let role = match &self.role {
            Role::Plain => "plain",
            Role::Lead(_) => "lead",
            Role::Refetch(_) => "refetch",
            Role::Begun { .. } => "begun",
            Role::Over => "over",
        };
        write!(f, "Permit({role})")
    }
}
