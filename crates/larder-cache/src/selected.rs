//! Purges of selected pages: by key, host, URL, tag, or all, hard or soft.
//!
//! A purge holds everywhere at once. What is in memory is visited and counted: by tag through the index, and by host or
//! URL page by page. All else is up to a ban of the same selection, with its place in the log of each disk: a page that is
//! read from a disk is tested by it, and so is one whose fetch began before the purge, when it has come. So a purge that
//! was noted by the disks outlives a restart, and pages that are on a disk alone are meant, and not counted.
//!
//! A hard purge of keys needs no ban: shelves remove keys themselves, and a fetch under a key that is gone is not stored.
//!
//! Hits pay as for any ban: two numbers are compared, and each page is tested once by each ban. Who visits pages holds a
//! lock for a single page at a time, or, to list all, for some hundred.
//!
//! A purge takes a place in the list of bans, that of an earlier one of the same words. The list has an end, 100,000 in
//! memory and 10,000 on each disk: beyond it the oldest go, with what was stored before them.

use std::sync::Arc;

use larder_http::Time;
use larder_store::NotKept;

use crate::bans::{Asking, Condition, Effect, Stale, Unread};
use crate::entry::{Entry, each};
use crate::key::{KeyRef, of_part, page_of};
use crate::object::Object;
use crate::selection::{How, Pattern, Selection, TooLong, UriTest, are_of_purge};
use crate::tags::{TagFields, TagHash};
use crate::untagged::Untagged;
use crate::zone::Zone;

/// The ban by which a purge of selected pages holds.
pub struct Purge {
    selection: Selection,
    how: How,
    /// Of the tags that are meant.
    tags: Vec<TagHash>,
    /// Where they are sought.
    tag_fields: TagFields,
    words: String,
}

/// What a purge has met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Purged {
    /// How many pages it has met in memory, and for a hard purge of a key on disk; each variant counts.
    pub pages: usize,
    /// Whether it may mean pages as well that are on a disk alone, which are not counted.
    pub is_also_on_disk: bool,
    /// Whether disks keep it as removals of pages, and not as a ban.
    is_removal: bool,
}

impl Purge {
    fn new(selection: Selection, how: How, tag_fields: TagFields) -> Result<Self, TooLong> {
        let words = selection.words(how, &tag_fields)?;
        Ok(Self::with_words(selection, how, tag_fields, words))
    }

    pub(crate) fn with_words(selection: Selection, how: How, tag_fields: TagFields, words: String) -> Self {
        let tags = match &selection {
            Selection::Tags(tags) => tags.iter().map(|tag| TagHash::of(tag)).collect(),
            Selection::All
            | Selection::Key(_)
            | Selection::KeyPrefix(_)
            | Selection::Host(_)
            | Selection::Url { .. } => Vec::new(),
        };
        Self { selection, how, tags, tag_fields, words }
    }

    /// The ban that a disk has kept in the words of a purge; `None` if they are another ban's. What cannot be read any more
    /// holds for all pages.
    pub fn of_disk(
        words: &str,
        compile: impl FnOnce(&str) -> Option<Arc<dyn Pattern>>,
    ) -> Option<Arc<dyn Condition<Object>>> {
        are_of_purge(words).then(|| match Selection::read(words, compile) {
            Some((selection, how, tag_fields)) => {
                Arc::new(Self::with_words(selection, how, tag_fields, words.to_owned())) as Arc<_>
            }
            None => Arc::new(Unread(words.to_owned())) as Arc<_>,
        })
    }

    /// Whether it means a page. What is unknown of a page may be what is asked for.
    fn means(&self, page: &Object) -> bool {
        match &self.selection {
            Selection::All => true,
            Selection::Key(key) => page.with_key(|own| own.is_none_or(|own| *page_of(own) == **key)),
            Selection::KeyPrefix(prefix) => page.with_key(|own| own.is_none_or(|own| own.starts_with(prefix))),
            Selection::Tags(_) => page.has_any_tag(&self.tags, &self.tag_fields),
            Selection::Host(host) => page.with_place(|place| place.is_none_or(|place| place.is_on(host))),
            Selection::Url { host, uri } => page.with_place(|place| {
                place.is_none_or(|place| host.as_ref().is_none_or(|host| place.is_on(host)) && uri.holds(&place))
            }),
        }
    }
}

impl Condition<Object> for Purge {
    fn text(&self) -> &str {
        &self.words
    }

    fn bytes(&self) -> usize {
        let regex = match &self.selection {
            Selection::Url { uri: UriTest::Matches(pattern), .. } => pattern.bytes(),
            Selection::All
            | Selection::Key(_)
            | Selection::KeyPrefix(_)
            | Selection::Host(_)
            | Selection::Tags(_)
            | Selection::Url { uri: UriTest::Is(_) | UriTest::Like(_) | UriTest::Begins(_), .. } => 0,
        };
        // Its words, and what was made of them.
        size_of::<Self>() + self.words.len() * 2 + size_of_val(&*self.tags) + regex
    }

    fn is_timeless(&self) -> bool {
        // Of soft ones as well: grace counts from the last one.
        true
    }

    fn asks_request(&self) -> bool {
        false
    }

    fn effect(&self) -> Effect {
        match self.how {
            How::Hard => Effect::Drop,
            How::Soft => Effect::EndFreshness,
        }
    }

    fn is_quick(&self) -> bool {
        match &self.selection {
            Selection::All | Selection::Key(_) | Selection::KeyPrefix(_) | Selection::Host(_) => true,
            Selection::Tags(tags) => tags.len() <= QUICK_TAGS_MAX,
            Selection::Url { .. } => false,
        }
    }

    fn holds(&self, page: &Object, _: &Asking<'_>, _: Time) -> bool {
        self.means(page)
    }
}

impl Zone {
    /// Whether a disk could note such a purge.
    pub fn can_purge(&self, selection: &Selection, how: How) -> Result<(), TooLong> {
        selection.words(how, &self.tag_fields()).map(drop)
    }

    /// Purges selected pages, everywhere before it returns: in memory, on disks, and those that are being fetched.
    /// [`purge_kept`](Self::purge_kept) says when a restart does not forget it.
    ///
    /// By tag it visits the pages with that tag, by key one, and else every page in memory: call it on a thread that has no
    /// requests.
    pub fn purge_selected(self: &Arc<Self>, selection: Selection, how: How, now: Time) -> Result<Purged, TooLong> {
        let has_disks = !self.shelves().is_empty();
        Ok(match (&selection, how) {
            (Selection::Key(key), How::Hard) => {
                Purged { pages: self.purge(&KeyRef::new(key), now), is_also_on_disk: false, is_removal: true }
            }
            (Selection::KeyPrefix(prefix), How::Hard) => {
                Purged { pages: self.purge_prefix(prefix, now), is_also_on_disk: has_disks, is_removal: false }
            }
            (Selection::All, How::Hard) => {
                Purged { pages: self.purge_prefix(b"", now), is_also_on_disk: has_disks, is_removal: false }
            }
            (
                Selection::Key(_)
                | Selection::KeyPrefix(_)
                | Selection::All
                | Selection::Host(_)
                | Selection::Tags(_)
                | Selection::Url { .. },
                _,
            ) => {
                let purge = Purge::new(selection, how, self.tag_fields())?;
                self.tell_words(|| Some(purge.words.clone()));
                let pages = self.purge_by_ban(purge, now);
                Purged { pages, is_also_on_disk: has_disks, is_removal: false }
            }
        })
    }

    /// Bans what a purge means, and visits the pages that are in memory. Returns how many it has met there.
    pub(crate) fn purge_by_ban(self: &Arc<Self>, purge: Purge, now: Time) -> usize {
        let purge = Arc::new(purge);
        // From here on it holds; what follows counts, and gives memory back.
        let number = self.ban_here(Arc::clone(&purge) as Arc<dyn Condition<Object>>, now);
        if matches!(purge.selection, Selection::All) {
            self.forget_evicted();
        }
        let pages = self.visit(&purge, number, now);
        self.note_purged(pages);
        pages
    }

    /// Has nothing that was evicted until now count as wanted.
    pub(crate) fn forget_evicted(&self) {
        self.memory().shelf().make_useless(None);
        self.shelves().iter().for_each(|shelf| shelf.forget_evicted());
    }

    /// Waits until the disks have noted a purge, so that a restart does not forget it. An error says why one cannot now; it
    /// holds all the same.
    pub fn purge_kept(&self, purged: &Purged) -> impl Future<Output = Result<(), NotKept>> + Send + use<> {
        // Asked for before the first is waited for.
        let bans = (!purged.is_removal).then(|| self.bans_kept());
        let shelves = self.shelves();
        let removals = shelves.iter().filter(|_| purged.is_removal);
        let removals: Vec<_> = removals.map(|shelf| (shelf.dir().to_owned(), shelf.flush())).collect();
        async move {
            if let Some(bans) = bans {
                bans.await?;
            }
            for (dir, kept) in removals {
                if !kept.await {
                    return Err(NotKept::Out(dir));
                }
            }
            Ok(())
        }
    }

    /// Has the pages in memory that a purge means be what its ban makes of them, and returns their number.
    fn visit(self: &Arc<Self>, purge: &Purge, ban: u64, now: Time) -> usize {
        let mut untagged = Untagged::default();
        let pages = self.visit_all(purge, ban, &mut untagged, now);
        self.settle_tags(&mut untagged);
        pages
    }

    fn visit_all(self: &Arc<Self>, purge: &Purge, ban: u64, untagged: &mut Untagged, now: Time) -> usize {
        let mut visit = |entry: &Arc<Entry>| self.visit_entry(entry, purge, ban, untagged, now);
        match &purge.selection {
            Selection::Key(key) => {
                let mut there = |key: &[u8]| self.entry_there(&KeyRef::new(key)).map_or(0, |entry| visit(&entry));
                there(key) + there(&of_part(key))
            }
            Selection::Tags(_) => {
                let mut hashes: Vec<u64> =
                    purge.tags.iter().chain([&TagHash::ANY]).flat_map(|tag| self.entries_of(*tag)).collect();
                hashes.sort_unstable();
                hashes.dedup();
                hashes.into_iter().flat_map(|hash| self.memory().shelf().all_at(hash)).map(|entry| visit(&entry)).sum()
            }
            Selection::All | Selection::KeyPrefix(_) | Selection::Host(_) | Selection::Url { .. } => {
                let all = self.objects(|object| object.hold.tested.number() < ban);
                let visit = |object: Arc<Object>| match purge.means(&object) {
                    true => usize::from(self.become_banned(&object, purge.how, ban, untagged, now)),
                    false => {
                        object.hold.tested.follow(ban);
                        0
                    }
                };
                all.iter().filter_map(|object| object.upgrade()).map(visit).sum()
            }
        }
    }

    fn visit_entry(
        self: &Arc<Self>,
        entry: &Arc<Entry>,
        purge: &Purge,
        ban: u64,
        untagged: &mut Untagged,
        now: Time,
    ) -> usize {
        let is_meant = |object: &&Arc<Object>| object.hold.tested.number() < ban && purge.means(object);
        let meant: Vec<Arc<Object>> = each(&entry.variants()).filter(is_meant).cloned().collect();
        meant.iter().filter(|object| self.become_banned(object, purge.how, ban, untagged, now)).count()
    }

    /// Drops a page from memory, or has one take its place that is stale. False if it is not there any more.
    fn become_banned(
        self: &Arc<Self>,
        object: &Arc<Object>,
        how: How,
        ban: u64,
        untagged: &mut Untagged,
        now: Time,
    ) -> bool {
        let is_purged = match how {
            How::Hard => self.drop_from_memory(object, untagged, now),
            How::Soft => {
                // Unless it was tested by all before, it is by all again.
                let tested = object.hold.tested.number();
                let tested = if tested + 1 == ban { ban } else { tested };
                self.make_stale(object, Stale { since: now, tested }, now)
            }
        };
        if is_purged {
            self.tell_purged(object);
        }
        is_purged
    }
}

/// With more tags a purge takes longer to test a page than others.
const QUICK_TAGS_MAX: usize = 64;
