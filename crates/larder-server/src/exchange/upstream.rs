//! What the cache and the origin said, until a location asks them again. As in nginx, variables and logs still have it
//! after an internal redirect has led to a file.

use std::sync::{Arc, Weak};

use larder_cache::Object;
use larder_http::{Fields, Time};

use super::Cause;

/// What the cache and the origin said.
#[derive(Clone, Default)]
pub struct Upstream {
    /// The cache's verdict; `None` if the cache was not asked.
    pub cache_status: Option<CacheStatus>,
    /// The zone that was asked, by its place in the site.
    pub zone: Option<usize>,
    /// The reason, for `Cache-Status`.
    pub cache_detail: Cause,
    /// The zone that the answer was to be stored in, if it was not.
    pub refused_in: Option<usize>,
    /// Whether the answer that has come is being stored, as far as its head tells.
    pub is_stored: bool,
    /// For what it has waited that another request fetched: a reason of RFC 9211 §2.2.
    pub waited_for: Option<&'static str>,
    /// Until when the delivered object is fresh, for `Cache-Status`.
    pub fresh_until: Option<Time>,
    /// The key that was looked up, for `Cache-Status` and logs.
    pub cache_key: Vec<u8>,
    /// Whether the cookies of the request change no page, as its profile knows: they are in no key and do not go to the origin
    /// with what may be stored, and pages do not vary by them.
    pub omits_cookies: bool,
    /// Whether the key reads one of the arguments that its profile leaves out, by `$arg_...`: their pages are told apart.
    pub key_reads_ignored: bool,
    /// Whether the origin was sent one of them, which the key does not have.
    pub sent_ignored: bool,
    /// Whether that is the key of a part.
    pub part: Part,
    /// How often other nodes were asked for the page.
    pub asks_of_nodes: u8,
    /// How many objects of this key a disk has lost since the lookup.
    pub lost_pages: u8,
    /// When this request stops waiting for another request's fetch.
    pub lock_until: Option<Time>,
    /// How often that time was over while others waited at the gate of the origin.
    pub line_waits: u8,
    /// Fields of the origin's answer, or of the object.
    pub fields: Option<Arc<Fields>>,
    /// Status of the origin's answer.
    pub status: Option<u16>,
    /// The page of the cache that the answer is, or becomes.
    pub page: Weak<Object>,
}

impl Upstream {
    /// The key of the page, be it that or a part of it that was looked up.
    pub fn page_key(&self) -> &[u8] {
        self.cache_key.strip_suffix(larder_cache::PART).unwrap_or(&self.cache_key)
    }

    /// Forgets all, before another location asks. The key keeps its memory.
    pub fn reset(&mut self) {
        let Self {
            cache_status,
            zone,
            cache_detail,
            refused_in,
            is_stored,
            waited_for,
            fresh_until,
            cache_key,
            omits_cookies,
            key_reads_ignored,
            sent_ignored,
            part,
            asks_of_nodes,
            lost_pages,
            lock_until,
            line_waits,
            fields,
            status,
            page,
        } = self;
        *cache_status = None;
        *zone = None;
        *cache_detail = Cause::None;
        *refused_in = None;
        *is_stored = false;
        *waited_for = None;
        *fresh_until = None;
        cache_key.clear();
        *omits_cookies = false;
        *key_reads_ignored = false;
        *sent_ignored = false;
        *part = Part::Unasked;
        *asks_of_nodes = 0;
        *lost_pages = 0;
        *lock_until = None;
        *line_waits = 0;
        *fields = None;
        *status = None;
        *page = Weak::new();
    }
}

/// Whether a part of a page is looked for that is kept alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Part {
    /// The page is.
    #[default]
    Unasked,
    /// The part is.
    Asked,
    /// The page is again, as there are no parts of it.
    Over,
}

/// The cache's verdict, in nginx's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheStatus {
    /// Not in the cache, or not usable.
    Miss,
    /// The configuration said not to look.
    Bypass,
    /// Stale, so fetched.
    Expired,
    /// Stale, and delivered nevertheless.
    Stale,
    /// Stale, and delivered while a refetch runs.
    Updating,
    /// Stale, and the origin has confirmed it.
    Revalidated,
    /// Delivered from the cache.
    Hit,
}

impl CacheStatus {
    /// The value of `$upstream_cache_status`.
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
