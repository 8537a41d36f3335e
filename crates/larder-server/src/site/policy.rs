//! What is decided about pages: where they are kept, under which key, and who may drop them.

use std::sync::Arc;

use ipnet::IpNet;
use larder_conf::model::Drops;

use crate::text::Text;

use super::origin::{Backend, OriginShared};

/// An origin that answers, and what is decided about its answers.
pub struct Origin {
    /// Where it is, and how it is asked.
    pub backend: Backend,
    /// What is looked up, stored, and delivered though it is stale.
    pub policy: Policy,
}

/// Who decides about a request that an origin may answer, and about its answer. The answers of each are in
/// [`policy`](crate::policy).
pub enum Policy {
    /// nginx's directives.
    Directives(Directives),
    /// The one of the tests of [`policy`](crate::policy).
    #[cfg(test)]
    Written,
}

impl Policy {
    /// Where answers are kept as files too: `*_store`.
    pub fn file(&self) -> Option<&StorePath> {
        match self {
            Self::Directives(policy) => policy.store.as_ref(),
            #[cfg(test)]
            Self::Written => None,
        }
    }
}

/// The directives of nginx that say what is kept, and how.
pub struct Directives {
    /// As they were read.
    pub settings: Arc<OriginShared>,
    /// The cache, where there is one.
    pub cache: Option<CachePolicy>,
    /// `*_store`.
    pub store: Option<StorePath>,
}

/// Where answers are kept as files.
pub enum StorePath {
    /// Where the file of the URI would be.
    Root,
    /// At this path.
    Text(Text),
}

/// How answers are kept.
pub struct CachePolicy {
    /// The zone.
    pub zone: ZoneChoice,
    /// The key; `None` for the default one of `proxy_pass`.
    pub key: Option<Text>,
    /// `*_cache_bypass`.
    pub bypass: Vec<Text>,
    /// `*_no_cache`.
    pub no_cache: Vec<Text>,
    /// `*_cache_purge`.
    pub purge: Option<PurgePolicy>,
}

/// Which requests drop a page in place of asking for it.
pub enum PurgePolicy {
    /// Those of a method.
    Method(MethodPurge),
    /// Those for which one of these is true.
    When(Vec<Text>),
}

/// Requests of a method that drop pages.
pub struct MethodPurge {
    /// Its name.
    pub method: Box<[u8]>,
    /// What goes.
    pub drops: Drops,
    /// The networks of those who may; `None` for everybody.
    pub from: Option<Vec<IpNet>>,
}

/// The zone of a `*_cache`.
pub enum ZoneChoice {
    /// Always the same one.
    Fixed(usize),
    /// By variable; `off` and the empty string mean none.
    Variable(Text),
}
