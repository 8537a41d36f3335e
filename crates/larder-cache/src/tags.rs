//! The tags of a page: names that its origin gave it in fields of the answer, to purge it by.
//!
//! Of each tag a page keeps a hash, keyed with a secret of the process. The fields themselves are stored with the page, on
//! disk as well; so a disk needs to keep no tags, and whatever fields a purge looks at, pages of every age have the tags
//! that these say.

use std::sync::Arc;

use larder_http::Fields;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::key;

/// Which fields of an answer have tags, such as `xkey` or `Surrogate-Key`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TagFields(Arc<[Box<str>]>);

impl TagFields {
    /// The fields of these names, in whatever case.
    pub(crate) fn of(names: &[&str]) -> Self {
        Self(names.iter().map(|name| Box::from(*name)).collect())
    }

    /// Their names.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|name| &**name)
    }

    fn are(&self, others: &Self) -> bool {
        Arc::ptr_eq(&self.0, &others.0) || self == others
    }
}

/// The hash of a tag; see [`Tags`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TagHash(pub(crate) u64);

impl TagHash {
    /// In place of the tags of a page that has too many: every tag means it.
    pub(crate) const ANY: Self = Self(0);

    /// That of a tag.
    pub(crate) fn of(tag: &[u8]) -> Self {
        Self(xxh3_64_with_seed(tag, key::seed()).max(1))
    }
}

/// The tags of a page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tags {
    /// The fields that they are from.
    by: TagFields,
    /// Sorted, none twice.
    hashes: Box<[TagHash]>,
}

impl Tags {
    /// The tags in `fields`. Beyond [`TAGS_MAX`] tags or [`TAG_BYTES_MAX`] bytes every tag means the page, so that it is
    /// purged too often rather than too seldom.
    pub(crate) fn of(fields: &Fields, by: &TagFields) -> Self {
        let mut hashes = Vec::new();
        let mut bytes = 0;
        for tag in by.names().flat_map(|name| fields.get_all(name)).flat_map(split) {
            bytes += tag.len();
            if hashes.len() == TAGS_MAX || bytes > TAG_BYTES_MAX {
                return Self { by: by.clone(), hashes: Box::new([TagHash::ANY]) };
            }
            hashes.push(TagHash::of(tag));
        }
        hashes.sort_unstable();
        hashes.dedup();
        Self { by: by.clone(), hashes: hashes.into() }
    }

    /// Whether they are from these fields.
    pub(crate) fn are_by(&self, fields: &TagFields) -> bool {
        self.by.are(fields)
    }

    /// Whether one of these tags is among them, or may be.
    pub(crate) fn has_any(&self, tags: &[TagHash]) -> bool {
        self.hashes.first() == Some(&TagHash::ANY) || tags.iter().any(|tag| self.hashes.binary_search(tag).is_ok())
    }

    /// Their hashes, sorted; [`TagHash::ANY`] alone for a page that has too many.
    pub(crate) fn hashes(&self) -> &[TagHash] {
        &self.hashes
    }

    /// What they take on the heap.
    pub(crate) fn heap_bytes(&self) -> usize {
        size_of_val(&*self.hashes)
    }
}

/// The tags in the value of a field: spaces, tabs and commas separate them.
pub fn split(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|byte| matches!(byte, b' ' | b'\t' | b',')).filter(|tag| !tag.is_empty())
}

/// The most tags of a page, each counted as often as it is named.
pub const TAGS_MAX: usize = 1000;
/// The most bytes that the tags of a page have together.
pub const TAG_BYTES_MAX: usize = 16 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn tags(lines: &[(&str, &str)]) -> Tags {
        let mut fields = Fields::new();
        lines.iter().for_each(|(name, value)| fields.push(name.as_bytes(), value.as_bytes()));
        Tags::of(&fields, &TagFields::of(&["xkey", "Surrogate-Key"]))
    }

    #[test]
    fn a_page_has_the_tags_that_the_named_fields_say() {
        for (lines, has, hasnt) in [
            (&[("xkey", "a")][..], &["a"][..], &["b", "A", ""][..]),
            (&[("XKey", "a b,c"), ("surrogate-key", " d ,\te ,")], &["a", "b", "c", "d", "e"], &["a b", "d "]),
            (&[("xkey", "a a"), ("xkey", "a")], &["a"], &[]),
            (&[("key", "a"), ("xkey", " , ")], &[], &["a", ""]),
        ] {
            let tags = tags(lines);
            assert_eq!(tags.hashes().len(), has.len(), "{lines:?}");
            let is_there = |tag: &&str| tags.has_any(&[TagHash::of(tag.as_bytes())]);
            assert!(has.iter().all(is_there) && !hasnt.iter().any(is_there), "{lines:?}");
        }
    }

    #[test]
    fn every_tag_means_a_page_with_too_many() {
        let many = |count: usize| (0..count).map(|number| number.to_string()).collect::<Vec<_>>().join(" ");
        let long = |len: usize| "x".repeat(len);
        for (value, is_too_much) in [
            (many(TAGS_MAX), false),
            (many(TAGS_MAX + 1), true),
            (long(TAG_BYTES_MAX), false),
            (long(TAG_BYTES_MAX + 1), true),
        ] {
            let tags = tags(&[("xkey", &value)]);
            assert_eq!(tags.has_any(&[TagHash::of(b"another")]), is_too_much, "{} bytes", value.len());
            assert_eq!(tags.hashes() == [TagHash::ANY], is_too_much);
        }
    }
}
