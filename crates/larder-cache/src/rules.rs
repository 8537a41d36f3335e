//! What is set for lookups.

use std::time::Duration;

/// What the policy says about a lookup. The names are those of nginx's `*_cache_*`; so are the defaults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    /// `min_uses`: lookups of a key before a response is stored.
    pub min_uses: u32,
    /// `lock`: one fetches, the others wait.
    pub lock: bool,
    /// `lock_age`: how long a fetch may take before one more sets out.
    pub lock_age: Duration,
    /// `lock_timeout`: how long one waits before fetching without storing. Zero: not at all.
    pub lock_timeout: Duration,
    /// Every variant answers every request.
    pub ignore_vary: bool,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            min_uses: 1,
            lock: false,
            lock_age: Duration::from_secs(5),
            lock_timeout: Duration::from_secs(5),
            ignore_vary: false,
        }
    }
}
