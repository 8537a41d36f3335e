//! Sets of keys of which only the hashes are known.

use std::collections::HashSet;
use std::sync::Arc;

/// A set of keys. It has all keys that were put into it, and perhaps others, whose pages are then fetched needlessly.
#[derive(Clone, PartialEq, Eq)]
pub struct KeySet {
    seed: u64,
    /// `None` if it is unknown which keys: then it has all.
    hashes: Option<Arc<HashSet<u64>>>,
}

impl KeySet {
    /// The keys with these hashes, on the shelf with this seed.
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

/// The hash of a key on a shelf. Never 0, which means "no key".
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
