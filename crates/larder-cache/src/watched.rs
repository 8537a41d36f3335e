//! Tells of pages in memory that may be fetched again: those that a purge meets, and those that are about to be stale.

use std::cmp::Reverse;
use std::sync::{Arc, Weak};

use crate::entry::{Entry, each};
use crate::object::{Mark, Object};
use crate::watch::{Refetchable, Watcher};
use crate::zone::Zone;

impl Zone {
    /// Has one be told of the pages that purges meet in memory; bans of other conditions meet none.
    pub fn watch_purges(&self, watcher: Option<Arc<dyn Watcher>>) {
        *self.watcher.write() = watcher;
    }

    pub(crate) fn is_watched(&self) -> bool {
        self.watcher.read().is_some()
    }

    fn watcher(&self) -> Option<Arc<dyn Watcher>> {
        self.watcher.read().clone()
    }

    /// A page has been purged.
    pub(crate) fn tell_purged(&self, page: &Object) {
        let Some(watcher) = self.watcher().filter(|watcher| watcher.wants(page.hits())) else { return };
        if let Some(page) = described(page) {
            watcher.purged(vec![page]);
        }
    }

    /// The pages of an entry that is to be dropped, for [`tell_all`](Self::tell_all).
    pub(crate) fn watched_of(&self, entry: &Entry) -> Vec<Refetchable> {
        each(&entry.variants()).filter_map(|page| described(page)).collect()
    }

    /// The pages for which `is_meant` is true that are to be dropped: those that are asked for most.
    pub(crate) fn watched(&self, is_meant: impl Fn(&Object) -> bool) -> Vec<Refetchable> {
        let Some(watcher) = self.watcher() else { return Vec::new() };
        let all = self.by_hits(|page| watcher.wants(page.hits()));
        let meant = all.iter().filter_map(Weak::upgrade).filter(|page| is_meant(page));
        meant.take(watcher.most()).filter_map(|page| described(&page)).collect()
    }

    /// The pages in memory for which `is_due` is true and whose URL is known: `most` of those that were delivered most, each
    /// once until it is stored or confirmed again. It visits every entry, as [`purge_prefix`](Self::purge_prefix) does.
    pub fn due(&self, most: usize, is_due: impl Fn(&Object) -> bool) -> Vec<Refetchable> {
        let all = self.by_hits(|page| !page.is_announced() && is_due(page));
        let told = all.iter().filter_map(Weak::upgrade).filter_map(|page| {
            let told = described(&page)?;
            page.announce();
            Some(told)
        });
        told.take(most).collect()
    }

    /// The pages in memory for which `is_meant` is true, those first that were delivered most.
    fn by_hits(&self, is_meant: impl Fn(&Object) -> bool) -> Vec<Weak<Object>> {
        let all = self.objects(is_meant);
        let mut all: Vec<_> = all.into_iter().filter_map(|page| Some((page.upgrade()?.hits(), page))).collect();
        all.sort_by_key(|(hits, _)| Reverse(*hits));
        all.into_iter().map(|(_, page)| page).collect()
    }

    /// These have been purged.
    pub(crate) fn tell_all(&self, pages: Vec<Refetchable>) {
        if let Some(watcher) = self.watcher().filter(|_| !pages.is_empty()) {
            watcher.purged(pages);
        }
    }
}

/// `None` if it is no page, or its key does not have its host, path and query: then the URL is that of the first visitor, who
/// may have chosen another one than others ask for.
fn described(page: &Object) -> Option<Refetchable> {
    if page.mark() != Mark::Page || !page.has_url_in_key() {
        return None;
    }
    let varies_by = page.vary.parts().map(|(name, value, sent)| (name.into(), sent.unwrap_or(value).into())).collect();
    page.with_url(|url| {
        let url = url?;
        let (host, uri) = (url.host.into(), url.uri.into());
        let (hits, fresh_until) = (page.hits(), page.fresh_until);
        let came = page.fetched().came;
        Some(Refetchable { is_https: url.is_https, host, uri, hits, fresh_until, came, varies_by })
    })
}
