//! What a policy drops or shortens of the pages of a key, while other requests use them.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use larder_http::Time;

use crate::bans::{Stale, Tested};
use crate::entry::{Entry, each};
use crate::key::KeyRef;
use crate::object::{Hold, Object};
use crate::remembered::Ended;
use crate::untagged::Untagged;
use crate::zone::Zone;

/// How long a page may still be used at most. What it had less of, it keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shorter {
    /// How long it is fresh from now on.
    pub ttl: Duration,
    /// How long after that it may be served while a refetch runs; `None` leaves that.
    pub grace: Option<Duration>,
    /// How long after that it stays to be revalidated; `None` leaves that.
    pub keep: Option<Duration>,
}

impl Zone {
    /// Drops the variants of a key for which `is_meant` is true from memory and disk, and returns their number. Unlike
    /// after a [`purge`](Self::purge), a fetch whose answer is not there yet will be stored.
    ///
    /// Which variants there are on disk is known of those that were read: without that all are dropped there.
    pub fn purge_variants(&self, key: &KeyRef<'_>, is_meant: impl Fn(&Object) -> bool, now: Time) -> usize {
        let Some((entry, unread)) = self.closed(key, now) else { return self.purge_here(key, now) };
        let meant: Vec<Arc<Object>> = each(&entry.variants()).filter(|object| is_meant(object)).cloned().collect();
        for object in &meant {
            self.shelves().remove_variant(key.bytes(), object, now);
        }
        if !meant.is_empty() {
            self.remembered.purge(key.shelf_hash());
        }
        let variants = (meant.len() + entry.drop_meant(&is_meant)).max(unread);
        self.reweigh(&entry);
        self.counts.purged.fetch_add(variants as u64, Ordering::Relaxed);
        variants
    }

    /// Shortens the times of the variants of a key for which `is_meant` is true, and returns their number.
    ///
    /// The times of pages that are on disk and were not read cannot be changed there, nor those of a page that is still
    /// on its way: these are dropped.
    pub fn shorten(
        self: &Arc<Self>,
        key: &KeyRef<'_>,
        shorter: Shorter,
        is_meant: impl Fn(&Object) -> bool,
        now: Time,
    ) -> usize {
        let Some((entry, unread)) = self.closed(key, now) else { return self.purge_here(key, now) };
        let coming = entry.drop_coming(&is_meant);
        let meant: Vec<Arc<Object>> = each(&entry.variants()).filter(|object| is_meant(object)).cloned().collect();
        for old in &meant {
            let object = shorter.of(old, now);
            object.take_forms_of(old);
            let object = self.charged(&entry, object);
            if !object.is_charged() {
                self.not_kept(&entry, &object, Some(old));
            } else if entry.replace(old, &object) {
                self.shelve(&entry, &object);
            }
        }
        self.reweigh(&entry);
        (meant.len() + coming).max(unread)
    }

    /// What has ended a page of a key before its time, if no answer has come since then; of some thousand keys that is known.
    pub fn ended(&self, key: &KeyRef<'_>) -> Option<Ended> {
        self.remembered.ended(key.shelf_hash())
    }

    /// What has made a page stale.
    pub fn ended_by(&self, stale: Stale) -> Ended {
        self.remembered.ended_by(stale.since)
    }

    /// Puts a page that is stale for a ban in the place of `old`, unless that is stale already, and returns it. `None` if
    /// `old` is not a variant any more, or there is no room: then it is dropped.
    pub(crate) fn end_freshness(self: &Arc<Self>, old: &Arc<Object>, stale: Stale, now: Time) -> Option<Arc<Object>> {
        let entry = old.hold.home().and_then(|home| home.entry.upgrade())?;
        let since = stale.since.min(now);
        if !old.is_fresh(since) {
            old.hold.tested.raise(stale.tested);
            return entry.has(old).then(|| Arc::clone(old));
        }
        self.remembered.end_freshness(entry.key_hash(), stale.since);
        let by = Shorter { ttl: Duration::ZERO, grace: None, keep: None };
        let mut object = by.of(old, since);
        object.hold.tested = Tested::by(stale.tested);
        object.take_forms_of(old);
        let object = self.charged(&entry, object);
        if !object.is_charged() {
            self.lost(old, now);
            return None;
        }
        let is_exchanged = entry.exchange(old, &object);
        self.reweigh(&entry);
        is_exchanged.then_some(object)
    }

    /// The same, and has the disks have it that wait for the other one. False if that is not a variant any more.
    pub(crate) fn make_stale(self: &Arc<Self>, old: &Arc<Object>, stale: Stale, now: Time) -> bool {
        let Some(entry) = old.hold.home().and_then(|home| home.entry.upgrade()) else { return false };
        // Asked before it is exchanged: a disk that then comes to it skips it, and waits for nothing more.
        let busy = entry.is_at_work().then(|| entry.busy());
        let Some(object) = self.end_freshness(old, stale, now) else { return false };
        if busy.is_some() {
            self.keep(&entry, &object);
        }
        true
    }

    /// Drops a page from memory, for a ban that covers it on the disks. False if it is not a variant any more.
    pub(crate) fn drop_from_memory(&self, object: &Arc<Object>, untagged: &mut Untagged, now: Time) -> bool {
        let Some(entry) = object.hold.home().and_then(|home| home.entry.upgrade()) else { return false };
        // One that waits for a disk is not written any more, and the older one there may not be covered. Asked before it is
        // dropped: a disk that then comes to it skips it, and waits for nothing more.
        let may_wait = entry.is_at_work();
        let note = |before: &[_], now: &[_]| untagged.add(&entry, before, now);
        let Some(closed) = entry.let_go_and_note(object, note) else { return false };
        self.remembered.purge(entry.key_hash());
        if may_wait {
            self.shelves().remove_variant(entry.key_bytes(), object, now);
        }
        drop(closed);
        self.reweigh(&entry);
        if untagged.is_full() {
            self.settle_tags(untagged);
        }
        true
    }

    /// Whether there is a page under `key`, or may be one on disk, or one is being fetched.
    pub fn may_have(&self, key: &KeyRef<'_>) -> bool {
        let is_here = |entry: &Arc<Entry>| entry.is_at_work() || entry.variants_len() > 0;
        self.entry_there(key).is_some_and(|entry| is_here(&entry)) || self.shelves().may_have(key.bytes())
    }

    /// The entry of a key, of which all variants are in memory and none is read from a disk: those that were not are
    /// dropped there, and counted. `None` if there is no such entry.
    fn closed(&self, key: &KeyRef<'_>, now: Time) -> Option<(Arc<Entry>, usize)> {
        let entry = self.entry_there(key)?;
        let unread = match entry.close_disk()? {
            true => 0,
            false => self.shelves().remove(key.bytes(), now),
        };
        Some((entry, unread))
    }
}

impl Shorter {
    /// The same page with its new times.
    fn of(&self, old: &Object, now: Time) -> Object {
        let keep = old.stale_if_error.saturating_sub(old.stale_while_revalidate);
        let grace = self.grace.map_or(old.stale_while_revalidate, |grace| grace.min(old.stale_while_revalidate));
        let keep = self.keep.map_or(keep, |shorter| shorter.min(keep));
        Object {
            status: old.status,
            reason: old.reason.clone(),
            fields: old.fields.clone(),
            body: old.body.clone(),
            stored_at: old.stored_at,
            fresh_until: old.fresh_until.min(now.plus(self.ttl)),
            stale_while_revalidate: grace,
            stale_if_error: grace + keep,
            last_modified: old.last_modified,
            etag: old.etag.clone(),
            vary: old.vary.clone(),
            cost_micros: old.cost_micros,
            prepared: old.prepared.clone(),
            hold: Hold::like(&old.hold),
        }
    }
}
