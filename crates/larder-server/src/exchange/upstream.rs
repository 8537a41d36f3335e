//! What the cache and the origin have said, until a location asks them again. Variables and logs have it still when an
//! internal redirect has led to a file, as in nginx.

use larder_http::{Fields, Time};

use super::emptied;

/// What the cache and the origin have said.
#[derive(Clone, Default)]
pub struct Upstream {
    /// What the cache did; `None` when it was not asked.
    pub cache_status: Option<CacheStatus>,
    /// Why, for `Cache-Status`.
    pub cache_detail: &'static str,
    /// Until when the stored page is fresh that is delivered, for `Cache-Status`.
    pub fresh_until: Option<Time>,
    /// The key that was looked up, for `Cache-Status` and logs.
    pub cache_key: Vec<u8>,
    /// How many of its pages a disk has lost since it looked.
    pub lost_pages: u8,
    /// When it stops waiting for another's fetch.
    pub lock_until: Option<Time>,
    /// Fields of the origin's answer, or of the object's.
    pub fields: Option<Fields>,
    /// Status of the origin's answer.
    pub status: Option<u16>,
}

impl Upstream {
    /// Forgets it, as another location asks. The key keeps its room.
    pub fn reset(&mut self) {
        *self = Self { cache_key: emptied(&mut self.cache_key), ..Self::default() };
    }
}

/// What the cache did, in nginx's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheStatus {
    /// Not there, or not usable.
    Miss,
    /// Told not to look.
    Bypass,
    /// There, but too old, so fetched.
    Expired,
    /// Too old, and delivered as it is.
    Stale,
    /// Stale, and delivered while a refetch runs.
    Updating,
    /// Too old, and the origin says it is still the same.
    Revalidated,
    /// There.
    Hit,
}

impl CacheStatus {
    /// As `$upstream_cache_status` has it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Miss => "MISS",
            Self::Bypass => "BYPASS",
            Self::Expired => "EXPIRED",
            Self::Stale => "STALE",
            Self::Updating => "UPDATING",
            Self::Revalidated => "REVALIDATED",
            Self::Hit => "HIT",
        }
    }
}
