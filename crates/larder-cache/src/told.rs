//! Purges that hold in other caches as well: what is purged here is told to them, and what they purge is carried out here.
//!
//! Both go by the words in which disks keep purges and bans. What others have purged is not told again.
//!
//! A purge is told before it is carried out here: so who first looks at a [`Moment`](crate::Moment), and then asks how many
//! purges were told, knows that none beyond those came before that moment.

use std::sync::Arc;

use larder_http::Time;

use crate::bans::{Condition, Unread};
use crate::key::KeyRef;
use crate::object::Object;
use crate::others::Others;
use crate::selected::Purge;
use crate::selection::{How, Pattern, Selection, are_of_purge};
use crate::tags::TagFields;
use crate::zone::Zone;

impl Zone {
    /// Drops every variant of a key from memory and disk, and the part of it that is kept alone, and returns their number. A
    /// running fetch will not be stored.
    pub fn purge(&self, key: &KeyRef<'_>, now: Time) -> usize {
        self.tell_selected(&Selection::Key(key.bytes().into()), How::Hard, &TagFields::default());
        self.purge_here(key, now)
    }

    /// Drops every key that begins with `prefix`, from memory and disk, and returns how many variants were in memory. A
    /// running fetch will not be stored.
    ///
    /// It visits every entry in memory, so do not call it on a worker's thread. Pages on disk are hidden at once, and
    /// dropped when they are read.
    pub fn purge_prefix(&self, prefix: &[u8], now: Time) -> usize {
        let selection = if prefix.is_empty() { Selection::All } else { Selection::KeyPrefix(prefix.into()) };
        self.tell_selected(&selection, How::Hard, &TagFields::default());
        self.purge_prefix_here(prefix, now)
    }

    /// Makes the pages unusable that have been fetched until now and for which a condition holds, and returns the number
    /// of the ban. It costs nothing now: each page is tested when it is found. Shelves write it down soon, which
    /// [`bans_kept`](Self::bans_kept) waits for.
    pub fn ban(&self, condition: Arc<dyn Condition<Object>>, now: Time) -> u64 {
        self.tell_words(|| Some(condition.words().to_owned()));
        self.ban_here(condition, now)
    }

    /// Has others be told of purges and bans from now on, or nobody. What a request drops as it may have changed the page is not
    /// told.
    pub fn tell_others(&self, others: Option<Arc<dyn Others>>) {
        *self.others.write() = others;
    }

    /// Tells others of pages that are about to be purged in another way than by [`purge_selected`](Self::purge_selected);
    /// their tags are in these fields.
    pub fn tell_purge_as(&self, selection: &Selection, how: How, tag_fields: &[&str]) {
        self.tell_selected(selection, how, &TagFields::of(tag_fields));
    }

    pub(crate) fn tell_selected(&self, selection: &Selection, how: How, tag_fields: &TagFields) {
        self.tell_words(|| {
            let words = selection.words(how, tag_fields).or_else(|_| match selection {
                // More pages than are meant, and not fewer.
                Selection::Key(key) | Selection::KeyPrefix(key) => {
                    let start = key.get(..KEY_BYTES_MAX).unwrap_or(key);
                    Selection::KeyPrefix(start.into()).words(how, tag_fields)
                }
                Selection::All | Selection::Host(_) | Selection::Tags(_) | Selection::Url { .. } => {
                    Selection::All.words(how, tag_fields)
                }
            });
            words.ok()
        });
    }

    pub(crate) fn tell_words(&self, words: impl FnOnce() -> Option<String>) {
        let Some(others) = self.others.read().clone() else { return };
        if let Some(words) = words() {
            others.purged(self.name(), &words);
        }
    }

    /// Waits until the disks have noted all purges and bans so far, so that a restart does not forget them. False if one has not.
    pub fn purges_kept(&self) -> impl Future<Output = bool> + Send + use<> {
        // Asked for before the first is waited for.
        let bans = self.bans_kept();
        let removals: Vec<_> = self.shelves().iter().map(|shelf| shelf.flush()).collect();
        async move {
            let mut are_kept = bans.await.is_ok();
            for removal in removals {
                are_kept &= removal.await;
            }
            are_kept
        }
    }

    /// Makes what is stored stale, as purges of other caches may have been missed.
    pub fn count_as_stale(self: &Arc<Self>, now: Time) {
        self.remembered.doubt(now);
        self.carry_out("purge soft all", |_| None, now, now);
    }

    /// Carries out what another cache has purged or banned; doing it again changes nothing more. What cannot be read holds
    /// for all pages. `made_at` is when it was wished, by the clock of this machine.
    ///
    /// It visits the pages of a key or of a tag, and every page if all are meant; for others there is a ban, by which pages
    /// are tested when they are found. True if it stays in the list of bans, which has an end.
    pub fn carry_out(
        self: &Arc<Self>,
        words: &str,
        compile: impl FnOnce(&str) -> Option<Arc<dyn Pattern>>,
        made_at: Time,
        now: Time,
    ) -> bool {
        if !are_of_purge(words) {
            self.ban_here(self.read_words(words), made_at);
            return true;
        }
        let Some((selection, how, tag_fields)) = Selection::read(words, compile) else {
            self.ban_here(Arc::new(Unread(words.to_owned())), now);
            return true;
        };
        match (&selection, how) {
            (Selection::Key(key), How::Hard) => {
                self.purge_here(&KeyRef::new(key), now);
                false
            }
            (Selection::All, How::Hard) => {
                self.purge_prefix_here(b"", now);
                false
            }
            (Selection::Key(_) | Selection::Tags(_) | Selection::All, _) => {
                let purge = Purge::with_words(selection, how, tag_fields, words.to_owned());
                self.purge_by_ban(purge, now);
                true
            }
            (Selection::KeyPrefix(_) | Selection::Host(_) | Selection::Url { .. }, _) => {
                let purge = Purge::with_words(selection, how, tag_fields, words.to_owned());
                self.ban_here(Arc::new(purge) as Arc<dyn Condition<Object>>, now);
                true
            }
        }
    }
}

/// How much of a key is told at most: each byte may be noted as three.
const KEY_BYTES_MAX: usize = 16 << 10;
