//! Who tells other caches of purges.

/// Who tells other caches of what is purged here.
pub trait Others: Send + Sync {
    /// Pages of this zone are about to be purged or banned, as these words say: in the thread of the purge, so do not wait.
    fn purged(&self, zone: &str, words: &str);
}
