//! What a policy drops or shortens of the pages of a key, while other requests use them.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use larder_http::Time;

use crate::entry::each;
use crate::key::KeyRef;
use crate::object::{Hold, Object};
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
    /// Drops every variant of a key from memory and disk, and returns their number. Unlike after a
    /// [`purge`](Self::purge), what is being fetched now will be stored.
    pub fn purge_stored(&self, key: &KeyRef<'_>, now: Time) -> usize {
        let Some(entry) = self.entry_there(key) else { return self.purge(key, now) };
        // Who is reading the disk would bring back what was there.
        if entry.close_disk().is_none() {
            return self.purge(key, now);
        }
        let in_memory = entry.variants_len();
        let on_disk = self.shelves().remove(key.bytes(), now);
        entry.drop_all();
        self.reweigh(&entry);
        let variants = in_memory.max(on_disk);
        self.counts.purged.fetch_add(variants as u64, Ordering::Relaxed);
        variants
    }

    /// Shortens the times of every variant of a key, and returns their number.
    ///
    /// The times of pages that are on disk and were not read cannot be changed there: these are dropped.
    pub fn shorten(self: &Arc<Self>, key: &KeyRef<'_>, shorter: Shorter, now: Time) -> usize {
        let Some(entry) = self.entry_there(key) else { return self.purge(key, now) };
        let on_disk = match entry.close_disk() {
            Some(true) => 0,
            Some(false) => self.shelves().remove(key.bytes(), now),
            None => return self.purge(key, now),
        };
        let variants: Vec<Arc<Object>> = each(&entry.variants()).cloned().collect();
        for old in &variants {
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
        variants.len().max(on_disk)
    }

    /// Shortens the times of one page, wherever it is a variant. False if it is none any more.
    pub fn shorten_one(self: &Arc<Self>, old: &Arc<Object>, shorter: Shorter, now: Time) -> bool {
        let Some(entry) = old.hold.home().and_then(|home| home.entry.upgrade()) else { return false };
        if !self.is_current(&entry, old) {
            return false;
        }
        let object = shorter.of(old, now);
        object.take_forms_of(old);
        let object = self.charged(&entry, object);
        let is_kept = object.is_charged() && entry.replace(old, &object);
        match is_kept {
            true => self.shelve(&entry, &object),
            false => self.not_kept(&entry, &object, Some(old)),
        }
        self.reweigh(&entry);
        true
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
