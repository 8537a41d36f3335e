//! A location: which requests it matches, and what answers them.

use std::collections::HashMap;
use std::sync::Arc;

use larder_conf::model;
use larder_origin::resolver::Resolver;

use crate::profile::Profile;
use crate::text::Text;

use super::modules::Modules;
use super::parts::{AccessParts, CompressionParts, FieldParts, FileParts, LocLogs, Pace, Subrequests};
use super::policy::{CachePolicy, MethodPurge, Origin, Policy, ZoneChoice};
use super::script::Op;
use super::variables::NamedRegex;

/// A location, an `if` or `limit_except` block, or a server's own level.
pub struct Loc {
    /// Which requests it matches.
    pub matching: Matching,
    /// The settings that need no compiling, as they were read.
    pub settings: Arc<model::Settings>,
    /// What answers its requests.
    pub handler: Handler,
    /// Its rewrite directives.
    pub script: Vec<Op>,
    /// `try_files`.
    pub try_files: Option<TryFiles>,
    /// Where its files are.
    pub files: FileParts,
    /// Who has access, and how often.
    pub access: AccessParts,
    /// The subrequests that it makes.
    pub subrequests: Subrequests,
    /// The rate of its responses.
    pub pace: Pace,
    /// How it changes header fields.
    pub fields: FieldParts,
    /// `error_page`.
    pub error_pages: Vec<(Vec<u16>, model::ErrorPageStatus, Text)>,
    /// How it compresses bodies.
    pub compression: CompressionParts,
    /// Its logs.
    pub logs: LocLogs,
    /// `resolver`.
    pub resolver: Option<Arc<Resolver>>,
    /// The settings of the smaller modules.
    pub modules: Modules,
    /// What is known of the application: `larder_profile`.
    pub profile: Option<Arc<Profile>>,
    /// `status_zone`, by its place among those of locations.
    pub zone: Option<usize>,
}

/// Which requests a location matches.
pub struct Matching {
    /// The prefix, or empty. An `if` or `limit_except` block has that of the location around it.
    pub prefix: Box<[u8]>,
    /// `location ^~`.
    pub regex_stops: bool,
    /// `location = ...`.
    pub exact: bool,
    /// Whether the location has a regular expression.
    pub by_regex: bool,
    /// Whether it is a named location, which clients cannot request.
    pub named: bool,
    /// `internal`.
    pub internal: bool,
    /// Whether a redirect adds the missing `/` at the end of a path (prefix locations that pass to an origin).
    pub auto_redirect: bool,
    /// The locations inside this one.
    pub inside: Tree,
    /// How it is written: `^~ /images/`, `~ \.php$`.
    pub written: Box<str>,
}

/// The locations at one level.
#[derive(Default)]
pub struct Tree {
    /// `=`.
    pub exact: HashMap<Box<[u8]>, usize>,
    /// Prefixes, the longest first.
    pub prefixes: Vec<(Box<[u8]>, usize)>,
    /// Paths to which a redirect adds a `/`.
    pub slashes: Vec<(Box<[u8]>, usize)>,
    /// Regular expressions, in order of writing.
    pub regexes: Vec<(NamedRegex, usize)>,
}

impl Tree {
    /// Whether there are no locations.
    pub fn is_empty(&self) -> bool {
        self.exact.is_empty() && self.prefixes.is_empty() && self.regexes.is_empty()
    }
}

/// What answers the requests of a location.
pub enum Handler {
    /// Static files.
    Static,
    /// `mp4`.
    Mp4,
    /// `flv`.
    Flv,
    /// An origin, by way of the cache if there is one.
    Origin(Box<Origin>),
    /// A VCL. These are its backends, by their numbers, each with the VCL as its policy; behind them what the location
    /// serves without the VCL, if that is an origin.
    Vcl(Box<[Origin]>),
    /// `stub_status`.
    StubStatus,
    /// `larder_metrics`.
    Metrics,
    /// The admin API.
    Admin,
    /// `larder_status`.
    Status,
    /// `empty_gif`.
    EmptyGif,
    /// `*_cache_purge` without an origin.
    Purge {
        /// The cache zone, by its place in the site.
        zone: usize,
        /// The key that is purged; `None` if the whole zone is.
        key: Option<Text>,
        /// Which requests purge; `None` for all.
        by: Option<MethodPurge>,
    },
}

impl Handler {
    /// The origin and its policy, if an origin answers.
    pub fn origin(&self) -> Option<&Origin> {
        match self {
            Self::Origin(policy) => Some(policy),
            Self::Vcl(origins) => origins.first(),
            Self::Static
            | Self::Mp4
            | Self::Flv
            | Self::StubStatus
            | Self::Metrics
            | Self::Admin
            | Self::Status
            | Self::EmptyGif
            | Self::Purge { .. } => None,
        }
    }
}

impl Handler {
    /// Where it keeps pages, if it does.
    pub fn keeps(&self) -> Option<Keeps<'_>> {
        match self {
            Self::Origin(origin) => {
                let cache = origin.policy.directives()?.cache.as_ref()?;
                Some(match &cache.zone {
                    ZoneChoice::Fixed(zone) => Keeps::Zone(*zone),
                    ZoneChoice::Variable(_) => Keeps::Named(cache),
                })
            }
            Self::Vcl(origins) => match &origins.first()?.policy {
                Policy::Vcl(vcl) => vcl.zone.map(Keeps::Zone),
                Policy::Directives(_) | Policy::Rfc9111(_) => None,
                #[cfg(test)]
                Policy::Written => None,
            },
            Self::Purge { zone, .. } => Some(Keeps::Zone(*zone)),
            Self::Static
            | Self::Mp4
            | Self::Flv
            | Self::StubStatus
            | Self::Metrics
            | Self::Admin
            | Self::Status
            | Self::EmptyGif => None,
        }
    }
}

/// Where a location keeps pages.
pub enum Keeps<'a> {
    /// In this zone, by its place in the site.
    Zone(usize),
    /// In the zone that variables name.
    Named(&'a CachePolicy),
}

/// `try_files`.
pub struct TryFiles {
    /// The paths to check; the flag says that a directory is wanted.
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
