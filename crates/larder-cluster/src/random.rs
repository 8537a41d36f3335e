//! Words that nobody had before.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};

/// 32 letters and digits that nobody had before. The standard library's tables of hashes are keyed by the system's random numbers.
pub(crate) fn random_word() -> String {
    let number = || RandomState::new().build_hasher().finish();
    format!("{:016x}{:016x}", number(), number())
}
