//! What is to be done on a shelf: orders to its writer, and what of them everybody is to see at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::ban_room::BANS_SHARE;
use super::bans::WordedBan;
use super::debt::{Debt, Due, Sums};
use super::page::Hold;
use super::queue::{Command, Queue, Removal};
use super::removals::Added;
use super::shared::Shared;

/// The way from the handles of a shelf to its writer.
pub(super) struct Work {
    pub(super) shared: Arc<Shared>,
    pub(super) queue: Queue,
    pub(super) queue_bytes_max: usize,
    pub(super) owes: Arc<Sums>,
    /// A tick waits in the queue.
    pub(super) is_ticking: AtomicBool,
}

impl Work {
    /// Removes pages from what can be found, and asks for a tombstone.
    pub(super) fn remove(&self, key: &[u8], variant: Option<u8>, now: u64) -> usize {
        self.shared.units.tell(now);
        // Hidden first: what is put into the index from now on, of older pages, is hidden too.
        let added = self.shared.removals.add(key, variant);
        self.shared.make_evicted_useless(key);
        let removed = self.shared.index.remove(self.shared.hash(key), variant);
        match added {
            Added::Ticket(ticket) => {
                self.shared.counters.removed.add(removed as u64);
                self.queue.push(Command::Remove(Removal { key: key.into(), variant, now, ticket }));
            }
            Added::Already => self.shared.counters.removed.add(removed as u64),
            // One that is due already is enough while nothing is stored.
            Added::TooMany if self.shared.health.writes() || self.shared.clears.load(Ordering::Acquire) == 0 => {
                self.clear()
            }
            Added::TooMany => {}
        }
        removed
    }

    /// Hides every page whose key begins with `prefix`.
    pub(super) fn ban(&self, prefix: &[u8], now: u64) {
        self.shared.units.tell(now);
        match self.shared.bans.add(prefix, self.bans_bytes_max()) {
            Some(ticket) => self.queue.push(Command::Ban { ticket }),
            None => self.clear(),
        }
    }

    /// Notes a ban in words.
    pub(super) fn ban_worded(&self, ban: WordedBan, is_timeless: bool) {
        match self.shared.bans.add_worded(ban, is_timeless, self.bans_bytes_max()) {
            Some(ticket) => self.queue.push(Command::Ban { ticket }),
            None => self.clear(),
        }
    }

    fn bans_bytes_max(&self) -> u64 {
        self.shared.limits().bytes_max.map_or(u64::MAX, |max| max / BANS_SHARE)
    }

    /// A page is not stored: an older one under its key is out of date all the same, and goes.
    pub(super) fn not_stored(&self, key: &[u8], variant: u8, now: u64) {
        if self.shared.is_unknown() {
            self.remove(key, Some(variant), now);
        } else {
            self.remove_found(key, variant, now);
        }
    }

    /// A page is not written now: it is owed, if whoever keeps it can give it again. False when it is not.
    pub(super) fn owe(&self, holds: &Option<Box<dyn Hold>>, bytes: u64, now: u64) -> bool {
        let Some(owed) = holds.as_ref().and_then(|holds| holds.owe()) else { return false };
        let debt = Debt { owed, now, due: Due::new(&self.owes, bytes) };
        let over = self.queue.owe(debt, self.shared.limits().bytes_max.unwrap_or(u64::MAX));
        self.shared.counters.skipped_queue.add(over.len() as u64);
        true
    }

    /// Removes a variant of a page, if the index has it.
    pub(super) fn remove_found(&self, key: &[u8], variant: u8, now: u64) {
        if self.shared.index.get(self.shared.hash(key), variant).is_some() {
            self.remove(key, Some(variant), now);
        }
    }

    /// Hides everything until the writer has removed it.
    pub(super) fn clear(&self) {
        self.shared.clears.fetch_add(1, Ordering::AcqRel);
        self.shared.ghost.lock().make_all_useless();
        self.queue.push(Command::Clear);
    }
}
