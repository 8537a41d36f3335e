//! Locations: which requests come there, and what answers.

use std::collections::HashMap;
use std::sync::Arc;

use larder_conf::model;
use larder_origin::resolver::Resolver;

use crate::text::Text;

use super::modules::Modules;
use super::parts::{AccessParts, CompressionParts, FieldParts, FileParts, LocLogs, Pace, Subrequests};
use super::policy::{MethodPurge, Origin};
use super::script::Op;
use super::variables::NamedRegex;

/// A location, an `if` or `limit_except` block, or the level of a server.
pub struct Loc {
    /// Which requests come to it.
    pub matching: Matching,
    /// Scalars as they were read.
    pub settings: Arc<model::Settings>,
    /// What answers.
    pub handler: Handler,
    /// Rewrite directives.
    pub script: Vec<Op>,
    /// `try_files`.
    pub try_files: Option<TryFiles>,
    /// Where its files are.
    pub files: FileParts,
    /// Who may, and how often.
    pub access: AccessParts,
    /// Requests that it makes by itself.
    pub subrequests: Subrequests,
    /// How fast responses go out.
    pub pace: Pace,
    /// What becomes of fields.
    pub fields: FieldParts,
    /// `error_page`.
    pub error_pages: Vec<(Vec<u16>, model::ErrorPageStatus, Text)>,
    /// In which form bodies go out.
    pub compression: CompressionParts,
    /// Where lines go.
    pub logs: LocLogs,
    /// `resolver`.
    pub resolver: Option<Arc<Resolver>>,
    /// What the smaller modules are told.
    pub modules: Modules,
}

/// Which requests come to a location.
pub struct Matching {
    /// The prefix, or empty; of the location around it for an `if` or `limit_except` block.
    pub prefix: Box<[u8]>,
    /// `location ^~`.
    pub regex_stops: bool,
    /// `location =`.
    pub exact: bool,
    /// Whether the location is matched by a regular expression.
    pub by_regex: bool,
    /// Named locations cannot be asked for from outside.
    pub named: bool,
    /// `internal`.
    pub internal: bool,
    /// A redirect adds the `/` that the request lacks (prefix locations with a pass).
    pub auto_redirect: bool,
    /// Locations inside.
    pub inside: Tree,
}

/// The locations at one level.
#[derive(Default)]
pub struct Tree {
    /// `=`.
    pub exact: HashMap<Box<[u8]>, usize>,
    /// Prefixes, longest first.
    pub prefixes: Vec<(Box<[u8]>, usize)>,
    /// Exact paths that end in a `/` which a redirect adds.
    pub slashes: Vec<(Box<[u8]>, usize)>,
    /// Expressions in order.
    pub regexes: Vec<(NamedRegex, usize)>,
}

/// What answers.
pub enum Handler {
    /// Files.
    Static,
    /// `mp4`.
    Mp4,
    /// `flv`.
    Flv,
    /// An origin.
    Origin(Box<Origin>),
    /// `stub_status`.
    StubStatus,
    /// `larder_metrics`.
    Metrics,
    /// `empty_gif`.
    EmptyGif,
    /// `*_cache_purge` without an origin.
    Purge {
        /// The zone.
        zone: usize,
        /// What is dropped from it, unless all of it is.
        key: Option<Text>,
        /// Which requests do it; `None` for all.
        by: Option<MethodPurge>,
    },
}

impl Handler {
    /// The policy, if it is an origin that answers.
    pub fn origin(&self) -> Option<&Origin> {
        match self {
            Self::Origin(policy) => Some(policy),
            Self::Static
            | Self::Mp4
            | Self::Flv
            | Self::StubStatus
            | Self::Metrics
            | Self::EmptyGif
            | Self::Purge { .. } => None,
        }
    }
}

/// `try_files`.
pub struct TryFiles {
    /// What is looked for; the flag asks for a directory.
    pub files: Vec<(Text, bool)>,
    /// The last argument.
    pub fallback: TryFallback,
}

/// The last argument of `try_files`.
pub enum TryFallback {
    /// `=404`.
    Status(u16),
    /// `@name`.
    Named(Box<[u8]>),
    /// A URI.
    Uri(Text),
}
