//! Keys that are known by their hashes alone.

use std::collections::HashSet;
use std::sync::Arc;

/// A set of keys. It may have more than were put into it, which costs their pages a fetch, and never fewer.
#[derive(Clone, PartialEq, Eq)]
pub struct KeySet {
    seed: u64,
    /// `None`: nobody knows which, so that it is all.
    hashes: Option<Arc<HashSet<u64>>>,
}

impl KeySet {
    /// The keys of these hashes, on the shelf whose seed this is.
    pub(super) fn new(seed: u64, hashes: Option<HashSet<u64>>) -> Self {
        Self { seed, hashes: hashes.map(Arc::new) }
    }

    /// Whether `key` is among them.
    pub fn has(&self, key: &[u8]) -> bool {
        self.hashes.as_ref().is_none_or(|hashes| hashes.contains(&hash(key, self.seed)))
    }
}

impl std::fmt::Debug for KeySet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "KeySet({:?})", self.hashes.as_ref().map(|hashes| hashes.len()))
    }
}

/// The hash of a key on a shelf. Never 0, which is for no key.
pub(super) fn hash(key: &[u8], seed: u64) -> u64 {
    xxhash_rust::xxh3::xxh3_64_with_seed(key, seed).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_has_what_was_put_into_it_and_everything_where_nobody_knows() {
        let some = KeySet::new(7, Some(HashSet::from([hash(b"a", 7)])));
        assert_eq!((some.has(b"a"), some.has(b"b")), (true, false));
        assert!(KeySet::new(7, None).has(b"b"));
    }
}
