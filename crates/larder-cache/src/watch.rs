//! Who is told of the pages that purges meet in memory, as they may be fetched again.

use larder_http::Time;

use crate::came::Came;

/// A page that may be fetched again, as it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refetchable {
    /// Whether it is asked for by https.
    pub is_https: bool,
    /// The host, without a port.
    pub host: Box<[u8]>,
    /// Path and query.
    pub uri: Box<[u8]>,
    /// How often it was delivered, where that is counted.
    pub hits: u32,
    /// Until when it was fresh.
    pub fresh_until: Time,
    /// How the request for it came in, if that is known.
    pub came: Option<Came>,
    /// The fields of the request that its `Vary` names, in lower case, with their values.
    pub varies_by: Vec<(Box<str>, Box<[u8]>)>,
}

/// Who is told of purged pages, when they are purged: in the thread of the purge.
pub trait Watcher: Send + Sync {
    /// Whether he wants to know of a page with so many hits.
    fn wants(&self, hits: u32) -> bool;

    /// How many pages of one purge he wants to know of at most.
    fn most(&self) -> usize;

    /// These were purged, the variants of a page together.
    fn purged(&self, pages: Vec<Refetchable>);
}
