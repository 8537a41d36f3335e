//! Hashes that stand for what they were made of.

use std::array;
use std::hash::{BuildHasher, Hash, RandomState};

/// Two secrets of the process: no client can choose names whose hashes collide.
#[derive(Debug)]
pub struct Secrets([RandomState; 2]);

/// What stands for a name.
pub type Digest = (u64, u64);

impl Secrets {
    /// What stands for a name.
    pub fn digest(&self, name: impl Hash) -> Digest {
        let [first, second] = &self.0;
        (first.hash_one(&name), second.hash_one(&name))
    }
}

impl Default for Secrets {
    fn default() -> Self {
        Self(array::from_fn(|_| RandomState::new()))
    }
}
