//! Zones of pages, and what a location does with its zone.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;

use super::{At, Template};
use crate::span::Span;

/// `fastcgi_cache_path` or `proxy_cache_path`.
#[derive(Clone, Debug)]
pub struct CachePath {
    /// The folder.
    pub path: PathBuf,
    /// The name in `keys_zone=`.
    pub zone: At<String>,
    /// The bytes in `keys_zone=`.
    pub keys_bytes: usize,
    /// `max_size=`.
    pub max_bytes: Option<u64>,
    /// `min_free=`.
    pub min_free_bytes: Option<u64>,
    /// `inactive=`, 10 min.
    pub inactive: Duration,
    /// `larder_memory=`: memory of its own; `None` for a part of what all zones share.
    pub memory_bytes: Option<u64>,
    /// `larder_disk=`: whether pages are kept in the folder too, or in memory only; yes.
    pub on_disk: bool,
}

/// `larder_placement`: one zone over the folders of several.
#[derive(Clone, Debug)]
pub struct Placement {
    /// The name of the zone.
    pub zone: At<String>,
    /// Which folder has which page.
    pub rule: PlacementRule,
    /// The zones whose folders it uses, two or more.
    pub members: Vec<At<String>>,
}

/// Which folder has which page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlacementRule {
    /// Each page has one, chosen by its key, in proportion to `max_size`.
    Hash,
    /// Each page is in two.
    Mirror,
}

/// `*_cache` and what else a location says about keeping the answers of its origin.
#[derive(Clone, Debug)]
pub struct OriginCache {
    /// `*_cache`: a zone, maybe by variable; `None` for `off`.
    pub zone: Option<Template>,
    /// `*_cache_key`. Without one `proxy_pass` uses the URL it asks for; for FastCGI it is an error where `zone` is
    /// set.
    pub key: Option<Template>,
    /// `*_cache_valid`, in order.
    pub valid: Vec<CacheValid>,
    /// `*_cache_bypass`.
    pub bypass: Vec<Template>,
    /// `*_no_cache`.
    pub no_cache: Vec<Template>,
    /// `*_cache_methods`, beside GET and HEAD; upper case.
    pub methods: Vec<String>,
    /// `*_cache_purge`, beside a cache; off.
    pub purge: CachePurge,
    /// `*_cache_min_uses`, 1.
    pub min_uses: u32,
    /// `*_cache_use_stale`.
    pub use_stale: UseStale,
    /// `*_cache_background_update`, off.
    pub background_update: bool,
    /// `*_cache_lock`, off.
    pub lock: bool,
    /// `*_cache_lock_age`, 5 s.
    pub lock_age: Duration,
    /// `*_cache_lock_timeout`, 5 s.
    pub lock_timeout: Duration,
    /// `*_cache_revalidate`, off.
    pub revalidate: bool,
    /// `*_cache_max_range_offset`, bytes.
    pub max_range_offset: Option<u64>,
    /// `proxy_cache_convert_head`, on.
    pub convert_head: bool,
}

impl Default for OriginCache {
    fn default() -> Self {
        Self {
            zone: None,
            key: None,
            valid: Vec::new(),
            bypass: Vec::new(),
            no_cache: Vec::new(),
            methods: Vec::new(),
            purge: CachePurge::Off,
            min_uses: 1,
            use_stale: UseStale::default(),
            background_update: false,
            lock: false,
            lock_age: Duration::from_secs(5),
            lock_timeout: Duration::from_secs(5),
            revalidate: false,
            max_range_offset: None,
            convert_head: true,
        }
    }
}

/// By which rules pages are cached.
#[derive(Clone, Debug)]
pub struct Caching {
    /// `larder_cache_mode`, `nginx`.
    pub mode: CacheMode,
    /// `larder_targeted_cache_control`, in lower case, the strongest first; empty for `off`.
    pub targets: Vec<String>,
}

impl Default for Caching {
    fn default() -> Self {
        Self { mode: CacheMode::Nginx, targets: vec!["cdn-cache-control".to_owned()] }
    }
}

/// `larder_cache_mode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheMode {
    /// As nginx documents it.
    Nginx,
    /// By RFC 9111.
    Rfc9111 {
        /// Whether `Cache-Control` of a request counts: without `ignore_requests`.
        honours_requests: bool,
    },
}

/// Which requests of a location with a cache drop a page in place of asking for it.
#[derive(Clone, Debug)]
pub enum CachePurge {
    /// None.
    Off,
    /// Those of a method.
    Method(MethodPurge),
    /// Those for which one of these is neither empty nor `0`.
    When(Vec<Template>),
}

/// Requests of a method that drop pages.
#[derive(Clone, Debug)]
pub struct MethodPurge {
    /// Its name, as it is sent.
    pub method: String,
    /// What goes.
    pub drops: Drops,
    /// Who may.
    pub from: PurgeFrom,
    /// Where it is written.
    pub span: Span,
}

/// What a purge drops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drops {
    /// The page of the key, or all whose keys begin so.
    Page,
    /// `purge_all`: everything in the zone.
    Zone,
}

/// `larder_purge_from`, `larder_cache_tags`, `larder_purge_by_origin`, `larder_litespeed`, `larder_refill` and `larder_warm`:
/// what purges what is cached here, and what is fetched without a visitor.
#[derive(Clone, Debug, Default)]
pub struct Purging {
    /// `larder_purge_from`; `None` for `off`.
    pub from: Option<PurgeRights>,
    /// `larder_cache_tags`; `None` if nothing is said.
    pub tags: Option<CacheTags>,
    /// `larder_purge_by_origin`, off.
    pub by_origin: bool,
    /// `larder_litespeed`, off: answers say what is stored, and purge, as to LiteSpeed's cache.
    pub litespeed: bool,
    /// How many purged pages are fetched again in a second at most, by `larder_refill` or else `larder_warm`; `None` if none is.
    pub refill: Option<NonZeroU32>,
    /// `larder_refill`, in the words of which `refill` is then.
    pub has_refill: bool,
    /// `larder_warm`; `None` for `off`.
    pub warm: Option<Warm>,
    /// Whether deliveries of pages are counted, as one of both asks for it.
    pub counts_hits: bool,
}

/// `larder_warm`: pages are fetched before a visitor misses them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warm {
    /// How many in a second at most.
    pub per_second: NonZeroU32,
    /// `ahead=`: pages are fetched anew in the last part of their life, in percent, 10; `None` for `off`.
    pub ahead_percent: Option<u8>,
    /// `hits=`: how often a page was delivered since it was stored, to be fetched anew, 3.
    pub hits: u32,
    /// `sitemap=`: whose pages are fetched.
    pub sitemaps: Vec<Sitemap>,
    /// `every=`: how long after a sitemap was read it is read again, 1 h.
    pub every: Duration,
}

/// `sitemap=` of `larder_warm`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sitemap {
    /// A path of a server.
    Path {
        /// Path and query.
        uri: String,
        /// Whether it is said for all servers, of which some may have none.
        is_for_all: bool,
    },
    /// A URL.
    Url {
        /// Whether it is asked for by https.
        is_https: bool,
        /// The host, in lower case.
        host: String,
        /// The port, if it is said.
        port: Option<u16>,
        /// Path and query.
        uri: String,
    },
}

/// Who may purge where visitors come in: those who come from one of the networks, and those who know a secret.
#[derive(Clone, Debug)]
pub struct PurgeRights {
    /// Where it is written.
    pub span: Span,
    /// Networks.
    pub nets: Vec<IpNet>,
    /// `key=`.
    pub secrets: Vec<String>,
    /// `scheme=all`: a page goes by its URL, in both schemes.
    pub all_schemes: bool,
}

/// `larder_cache_tags`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheTags {
    /// The fields of answers that have the tags of a page; none for `off`.
    pub names: Vec<String>,
    /// `show`: whether visitors get them.
    pub shown: bool,
}

impl Purging {
    /// The fields of answers that have the tags of a page. Without `larder_cache_tags` the usual ones where somebody may
    /// purge by them.
    pub fn tag_names(&self) -> Vec<&str> {
        match &self.tags {
            Some(tags) => tags.names.iter().map(String::as_str).collect(),
            None if self.from.is_some() || self.is_by_origin() => TAG_NAMES.to_vec(),
            None => Vec::new(),
        }
    }

    /// Whether answers of origins purge.
    pub fn is_by_origin(&self) -> bool {
        self.by_origin || self.litespeed
    }

    /// Those of them that visitors do not get.
    pub fn hidden_names(&self) -> Vec<&str> {
        if self.tags.as_ref().is_some_and(|tags| tags.shown) { Vec::new() } else { self.tag_names() }
    }
}

/// The fields in which content systems send the tags of a page.
pub const TAG_NAMES: [&str; 7] =
    ["Surrogate-Key", "Cache-Tag", "Cache-Tags", "xkey", "X-Magento-Tags", "X-LiteSpeed-Tag", "Edge-Cache-Tag"];

/// `larder_ban`: requests that ban pages of a zone.
#[derive(Clone, Debug)]
pub struct BanRule {
    /// The zone.
    pub zone: At<String>,
    /// The method of these requests, as it is sent.
    pub method: String,
    /// What the ban says.
    pub text: Template,
    /// Who may.
    pub from: PurgeFrom,
}

/// Who may drop pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PurgeFrom {
    /// Everybody who gets as far.
    All,
    /// Clients of these networks; the others are answered 403.
    Nets(Vec<IpNet>),
}

/// `*_cache_valid`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheValid {
    /// `None` for `any`. Without statuses, 200, 301 and 302 are meant and written out here.
    pub status: Option<u16>,
    /// How long; zero is not cached.
    pub ttl: Duration,
    /// Where the status is written, or the time alone.
    pub span: Span,
}

/// `*_cache_use_stale`. The field names are nginx's words.
#[allow(missing_docs)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct UseStale {
    pub error: bool,
    pub timeout: bool,
    pub invalid_header: bool,
    pub updating: bool,
    pub http_500: bool,
    pub http_502: bool,
    pub http_503: bool,
    pub http_504: bool,
    pub http_403: bool,
    pub http_404: bool,
    pub http_429: bool,
}
