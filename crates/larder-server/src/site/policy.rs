//! What is decided about an origin's answers: where they are stored, under which key, and who may purge them.

use std::sync::Arc;

use ipnet::IpNet;
use larder_conf::model::Drops;

use crate::text::Text;

use super::origin::{Backend, OriginShared};
use super::vcl::VclPolicy;

/// An origin that answers, and the policy for its answers.
pub struct Origin {
    /// Where the origin is, and how it is asked. Several VCLs of a location may ask the same one.
    pub backend: Arc<Backend>,
    /// What is looked up, what is stored, and what is delivered stale.
    pub policy: Policy,
}

/// Who decides about a request to an origin, and about the answer. The decisions of each variant are in
/// [`policy`](crate::policy).
pub enum Policy {
    /// nginx's directives.
    Directives(Directives),
    /// RFC 9111, for what nginx's directives leave to it.
    Rfc9111(Rfc9111Policy),
    /// A VCL.
    Vcl(VclPolicy),
    /// The policy of the tests in [`policy`](crate::policy).
    #[cfg(test)]
    Written,
}

impl Policy {
    /// The directives that say how pages are cached; `None` where a VCL says it.
    pub fn directives(&self) -> Option<&Directives> {
        match self {
            Self::Directives(policy) | Self::Rfc9111(Rfc9111Policy { directives: policy, .. }) => Some(policy),
            Self::Vcl(_) => None,
            #[cfg(test)]
            Self::Written => None,
        }
    }

    /// Whether pages are stored and reused by RFC 9111.
    pub fn is_rfc9111(&self) -> bool {
        matches!(self, Self::Rfc9111(_))
    }

    /// `*_store`: where answers are stored as files, if they are.
    pub fn file(&self) -> Option<&StorePath> {
        match self {
            Self::Directives(policy) | Self::Rfc9111(Rfc9111Policy { directives: policy, .. }) => policy.store.as_ref(),
            Self::Vcl(_) => None,
            #[cfg(test)]
            Self::Written => None,
        }
    }
}

/// RFC 9111, for what nginx's directives leave to it.
pub struct Rfc9111Policy {
    /// The directives: zone, key, exceptions, how requests wait for each other.
    pub directives: Directives,
    /// Whether `Cache-Control` of a request counts.
    pub honours_requests: bool,
    /// `larder_targeted_cache_control`, in lower case, the strongest first.
    pub targets: Arc<[Box<str>]>,
}

/// nginx's directives on caching and storing.
pub struct Directives {
    /// The settings as they were read.
    pub settings: Arc<OriginShared>,
    /// The cache; `None` if there is none.
    pub cache: Option<CachePolicy>,
    /// `*_store`.
    pub store: Option<StorePath>,
    /// `larder_litespeed`.
    pub litespeed: LiteSpeed,
}

/// Whether answers say what is stored as to LiteSpeed's cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LiteSpeed {
    /// They do not.
    Off,
    /// They do.
    On {
        /// Whether `larder_esi` has pages read for ESI.
        reads_esi: bool,
    },
}

/// Where answers are stored as files (`*_store`).
pub enum StorePath {
    /// At the path of the URI below the root.
    Root,
    /// At this path.
    Text(Text),
}

/// How answers are cached.
pub struct CachePolicy {
    /// The zone.
    pub zone: ZoneChoice,
    /// The key; `None` for the default key of `proxy_pass`.
    pub key: Option<Text>,
    /// `*_cache_bypass`.
    pub bypass: Vec<Text>,
    /// `*_no_cache`.
    pub no_cache: Vec<Text>,
    /// `*_cache_purge`.
    pub purge: Option<PurgePolicy>,
}

/// Which requests purge a page instead of fetching it.
pub enum PurgePolicy {
    /// Requests with a method.
    Method(MethodPurge),
    /// Requests for which one of these is true.
    When(Vec<Text>),
}

/// Requests with a method that purge pages.
pub struct MethodPurge {
    /// The method, such as `PURGE`.
    pub method: Box<[u8]>,
    /// What they purge: the page of the key, or the whole zone.
    pub drops: Drops,
    /// The client networks that may purge; `None` for all.
    pub from: Option<Vec<IpNet>>,
}

/// The cache zone of a `*_cache`.
pub enum ZoneChoice {
    /// This zone, by its place in the site.
    Fixed(usize),
    /// The zone that variables name; `off` and the empty string mean none.
    Variable(Text),
}
