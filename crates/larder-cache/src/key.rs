//! The key of a page: what names it before `Vary` tells variants apart.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::OnceLock;

use xxhash_rust::xxh3::xxh3_128_with_seed;

/// A key that borrows its bytes, with their hash. The hash is keyed with a secret of the process, so that no client can
/// choose keys that collide. It only finds candidates: every hit compares all bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyRef<'a> {
    hash: u128,
    bytes: &'a [u8],
}

impl<'a> KeyRef<'a> {
    /// The key of these bytes.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { hash: xxh3_128_with_seed(bytes, seed()), bytes }
    }

    /// The hash of the bytes; it differs from process to process.
    #[inline]
    pub fn hash(&self) -> u128 {
        self.hash
    }

    /// The bytes.
    #[inline]
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The half of the hash that a shelf uses.
    #[inline]
    pub(crate) fn shelf_hash(&self) -> u64 {
        self.hash as u64
    }
}

/// What follows the key of a page in that of a part of it that is kept alone. No key of a page ends so: neither URLs nor
/// fields have a zero byte.
pub const PART: &[u8] = b"\0part";

/// The key of the page that a key is of: the key itself, or that of its page for a part.
pub(crate) fn page_of(key: &[u8]) -> &[u8] {
    key.strip_suffix(PART).unwrap_or(key)
}

/// The hash of the key of the page that a key with this hash is of.
pub(crate) fn page_hash(key: &[u8], hash: u64) -> u64 {
    match key.strip_suffix(PART) {
        None => hash,
        Some(page) => KeyRef::new(page).shelf_hash(),
    }
}

/// The key of the part of a page.
pub(crate) fn of_part(key: &[u8]) -> Vec<u8> {
    [key, PART].concat()
}

/// The secret of the process, from the random numbers that the standard library gets of the system.
pub(crate) fn seed() -> u64 {
    static SEED: OnceLock<u64> = OnceLock::new();
    *SEED.get_or_init(|| RandomState::new().hash_one(0_u8))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_bytes_make_equal_keys() {
        let key = KeyRef::new(b"GET/a");
        assert_eq!(key, KeyRef::new(b"GET/a"));
        assert_ne!(key.hash(), KeyRef::new(b"GET/b").hash());
        assert_eq!(KeyRef::new(b"").bytes(), b"");
    }
}
