//! Which pages have which tags: what the module `xkey` purges by.
//!
//! A tag leads to the keys of pages, and not to the pages: what a page under a key has, it says itself. So nothing has to
//! be told when pages leave, and one that leaves memory and stays on a disk is still found. Keys that lead nowhere are
//! forgotten when their tag is used, and all when they may be half of the index.
//!
//! The index begins empty with the process. A page that was on a disk before is known again once it was stored, confirmed
//! or hit: until then no tag leads to it.

use std::collections::{HashMap, HashSet};
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Weak};

use larder_cache::{KeyRef, Object, Shorter, Zone};
use larder_http::{Fields, Time};
use parking_lot::Mutex;

use super::secrets::{Digest, Secrets};

/// The index of all zones.
#[derive(Debug, Default)]
pub struct Tags {
    index: Mutex<Index>,
    secrets: Secrets,
}

#[derive(Debug, Default)]
struct Index {
    pages: HashMap<Digest, HashMap<Page, Time>>,
    len: usize,
    /// At how many keys all are looked at.
    cleanup_at: usize,
}

/// Where a page may be.
#[derive(Clone, Debug)]
struct Page {
    zone: Weak<Zone>,
    key: Arc<[u8]>,
}

/// The fields of an answer that have tags; the second one as in older versions of the module.
pub const FIELDS: [&str; 2] = ["xkey", "X-HashTwo"];
/// With fewer keys the index is not looked through.
const CLEANUP_MIN: usize = 4096;
/// A key that was noted less than this many ms ago stays: its page may be about to come.
const COMING_MILLIS: u64 = 60_000;

impl Tags {
    /// Notes that the page with these fields is kept under `key`.
    pub fn note(&self, zone: &Arc<Zone>, key: &[u8], fields: &Fields, now: Time) {
        let digests: HashSet<Digest> = tags_of(fields).map(|tag| self.secrets.digest(tag)).collect();
        if digests.is_empty() {
            return;
        }
        let page = Page { zone: Arc::downgrade(zone), key: key.into() };
        let mut index = self.index.lock();
        for digest in digests {
            let noted = index.pages.entry(digest).or_default().insert(page.clone(), now);
            index.len += usize::from(noted.is_none());
        }
        index.clean_up(now);
    }

    /// Drops all pages with one of these tags, or with `shorter` ends their times; returns their number. A page counts
    /// once for each of its tags that is named, unless it is gone by then.
    pub fn purge(&self, tags: &[u8], shorter: Option<Shorter>, now: Time) -> usize {
        let mut purged = 0;
        for tag in split(tags) {
            let digest = self.secrets.digest(tag);
            let pages: Vec<Page> =
                self.index.lock().pages.get(&digest).map(|pages| pages.keys().cloned().collect()).unwrap_or_default();
            for page in &pages {
                let Some(zone) = page.zone.upgrade() else { continue };
                let has_tag = |object: &Object| tags_of(&object.fields).any(|own| own == tag);
                let key = KeyRef::new(&page.key);
                purged += match shorter {
                    None => zone.purge_variants(&key, has_tag, now),
                    Some(shorter) => zone.shorten(&key, shorter, |object| object.is_fresh(now) && has_tag(object), now),
                };
            }
            self.index.lock().forget(digest, now);
        }
        purged
    }
}

/// The tags that a page has.
fn tags_of(fields: &Fields) -> impl Iterator<Item = &[u8]> {
    FIELDS.into_iter().flat_map(|name| fields.get_all(name)).flat_map(split)
}

/// Tags are separated by commas and blanks.
pub fn split(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|byte| matches!(byte, b',' | b' ' | b'\t')).filter(|tag| !tag.is_empty())
}

impl Index {
    /// Forgets the keys of a tag that lead nowhere.
    fn forget(&mut self, digest: Digest, now: Time) {
        let Some(pages) = self.pages.get_mut(&digest) else { return };
        let before = pages.len();
        pages.retain(|page, noted| page.may_be_there(*noted, now));
        self.len -= before - pages.len();
        if pages.is_empty() {
            self.pages.remove(&digest);
        }
    }

    /// Forgets all keys that lead nowhere, when there are twice as many as the last time.
    fn clean_up(&mut self, now: Time) {
        if self.len < self.cleanup_at.max(CLEANUP_MIN) {
            return;
        }
        self.pages.retain(|_, pages| {
            pages.retain(|page, noted| page.may_be_there(*noted, now));
            !pages.is_empty()
        });
        self.len = self.pages.values().map(HashMap::len).sum();
        self.cleanup_at = self.len * 2;
    }
}

impl Page {
    fn may_be_there(&self, noted: Time, now: Time) -> bool {
        let is_coming = now.0.saturating_sub(noted.0) < COMING_MILLIS;
        self.zone.upgrade().is_some_and(|zone| is_coming || zone.may_have(&KeyRef::new(&self.key)))
    }
}

impl PartialEq for Page {
    fn eq(&self, other: &Self) -> bool {
        self.zone.ptr_eq(&other.zone) && self.key == other.key
    }
}

impl Eq for Page {}

impl Hash for Page {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.key.hash(state);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use larder_cache::ZoneLimits;

    use super::*;

    fn fields(lines: &[(&str, &str)]) -> Fields {
        let mut fields = Fields::new();
        lines.iter().for_each(|(name, value)| fields.push(name.as_bytes(), value.as_bytes()));
        fields
    }

    #[test]
    fn tags_are_separated_by_commas_and_blanks() {
        for (lines, expected) in [
            (&[("xkey", "a")][..], "a"),
            (&[("XKey", "a b,c"), ("x-hashtwo", " d ,\te ")], "a b c d e"),
            (&[("xkey", "")], ""),
            (&[("key", "a")], ""),
        ] {
            let fields = fields(lines);
            let tags: Vec<_> = tags_of(&fields).map(String::from_utf8_lossy).collect();
            assert_eq!(tags.join(" "), expected, "{lines:?}");
        }
    }

    #[test]
    fn keys_that_lead_nowhere_are_forgotten() {
        let zone = Zone::new("pages", ZoneLimits { bytes_max: 1 << 20, inactive: Duration::from_secs(60) });
        let tags = Tags::default();
        for number in 0..CLEANUP_MIN as u64 * 4 {
            tags.note(&zone, number.to_string().as_bytes(), &fields(&[("xkey", "a b")]), Time(number * 100));
            let len = tags.index.lock().len;
            assert!(len <= CLEANUP_MIN, "{len}");
        }
        let late = Time(1 << 40);
        assert_eq!(tags.purge(b"a, b", None, late), 0);
        let index = tags.index.lock();
        assert_eq!((index.len, index.pages.len()), (0, 0));
    }
}
