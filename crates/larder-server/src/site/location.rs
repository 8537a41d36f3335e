//! Locations: what answers there, and how it looks.

use std::collections::HashMap;
use std::sync::Arc;

use larder_conf::model;
use larder_origin::resolver::Resolver;

use crate::regex::Regex;
use crate::text::Text;

use super::modules::Modules;
use super::policy::{MethodPurge, Origin};
use super::script::{Op, SetTarget};
use super::variables::NamedRegex;

/// A location, an `if` or `limit_except` block, or the level of a server.
pub struct Loc {
    /// The prefix, or empty; of the location around it for an `if` or `limit_except` block.
    pub prefix: Box<[u8]>,
    /// `location ^~`.
    pub regex_stops: bool,
    /// `location =`.
    pub exact: bool,
    /// Named locations cannot be asked for from outside.
    pub named: bool,
    /// A redirect adds the `/` that the request lacks (prefix locations with a pass).
    pub auto_redirect: bool,
    /// Whether any response may be compressed or restored here.
    pub compresses: bool,
    /// Scalars as they were read.
    pub settings: Arc<model::Settings>,
    /// Strings and lists, compiled.
    pub texts: LocTexts,
    /// What answers.
    pub handler: Handler,
    /// Rewrite directives.
    pub script: Vec<Op>,
    /// `try_files`.
    pub try_files: Option<TryFiles>,
    /// `internal`.
    pub internal: bool,
    /// `alias`.
    pub alias: Option<Text>,
    /// How many bytes of the URI the alias stands for; `None` for all.
    pub alias_replaces: Option<usize>,
    /// Whether the location is matched by a regular expression.
    pub by_regex: bool,
    /// What is put together with other responses here; `None` where nothing is.
    pub composing: Option<Box<Composing>>,
    /// `auth_request`.
    pub auth_request: Option<Box<AuthRequest>>,
    /// `mirror`: paths of where copies of requests go.
    pub mirrors: Vec<Box<[u8]>>,
    /// `limit_except`.
    pub limit_except: Option<(Vec<String>, usize)>,
    /// Locations inside.
    pub inside: Tree,
}

/// How responses are put together: `ssi`, `add_before_body`, `add_after_body`.
pub struct Composing {
    /// Whether pages are read for commands.
    pub ssi: bool,
    /// What goes around them.
    pub around: Around,
}

/// What is put around the document.
#[derive(Clone, Debug, Default)]
pub struct Around {
    /// The path of what goes before it.
    pub before: Option<Box<[u8]>>,
    /// The path of what goes behind it.
    pub after: Option<Box<[u8]>>,
}

/// `auth_request`.
pub struct AuthRequest {
    /// Who is asked.
    pub uri: Box<[u8]>,
    /// `auth_request_set`.
    pub sets: Vec<(SetTarget, Text)>,
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

/// The compiled part of a level's settings.
pub struct LocTexts {
    /// `root`.
    pub root: Text,
    /// `index`.
    pub index: Vec<Text>,
    /// `from=` of `disable_symlinks`.
    pub links_from: Option<Text>,
    /// `charset`.
    pub charset: Option<Text>,
    /// `limit_rate`.
    pub limit_rate: Option<Text>,
    /// `limit_rate_after`.
    pub limit_rate_after: Option<Text>,
    /// `resolver`.
    pub resolver: Option<Arc<Resolver>>,
    /// `error_page`.
    pub error_pages: Vec<(Vec<u16>, model::ErrorPageStatus, Text)>,
    /// `auth_basic`.
    pub auth_basic: Option<(Text, Option<Text>)>,
    /// `add_header`.
    pub add_headers: Vec<(Box<[u8]>, Text, bool)>,
    /// `add_trailer`.
    pub add_trailers: Vec<(Box<[u8]>, Text, bool)>,
    /// `more_set_headers` and its kin.
    pub edits: Edits,
    /// The variable of `expires`.
    pub expires: Option<Text>,
    /// `access_log`: log and condition.
    pub access_logs: Vec<(usize, Option<Text>)>,
    /// Which of the site's error logs.
    pub error_log: usize,
    /// `limit_req`: zone, burst and delay in requests.
    pub limit_reqs: Vec<(usize, u64, Option<u64>)>,
    /// `limit_conn`: zone and number.
    pub limit_conns: Vec<(usize, u32)>,
    /// Whether headers or logs ask for fields of the response or of the origin, so that a hit must lay them out.
    pub reads_fields: bool,
    /// Expressions of `gzip_disable`.
    pub gzip_disable: Vec<Regex>,
    /// What the smaller modules are told.
    pub modules: Modules,
}

/// What `more_set_headers`, `more_set_input_headers` and their kin do.
#[derive(Default)]
pub struct Edits {
    /// To requests.
    pub request: Vec<Edit>,
    /// To responses.
    pub response: Vec<Edit>,
}

/// A change of a field.
pub struct Edit {
    /// The name, or how it begins.
    pub name: Box<str>,
    /// What is done.
    pub change: EditChange,
    /// Only responses of these statuses; empty for all.
    pub statuses: Vec<u16>,
    /// Only messages of these types; empty for all.
    pub types: Vec<Box<[u8]>>,
}

/// What is done to a field.
pub enum EditChange {
    /// It gets this value, once.
    Set(Text),
    /// The same where it is there.
    Replace(Text),
    /// One more of this value.
    Append(Text),
    /// It is taken away.
    Clear,
    /// So is whatever begins with the name.
    ClearAllThatBegin,
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
