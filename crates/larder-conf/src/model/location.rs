//! `location`, and the directives of the rewrite module, which may hold one.

use std::sync::Arc;

use super::{At, Condition, MethodPurge, OriginScheme, Pattern, RewriteFlag, Settings, Template, TemplatePart};
use crate::span::Span;

/// A `location`, or an `if` or `limit_except` block seen as one.
#[derive(Clone, Debug)]
pub struct Location {
    /// How it is matched; [`Matcher::Root`] for a server's own level.
    pub matcher: Matcher,
    /// Where the block begins.
    pub span: Span,
    /// What holds in it, inherited already.
    pub settings: Arc<Settings>,
    /// What answers; never inherited from a location to one inside it, but into `if` and `limit_except`.
    pub handler: Handler,
    /// Rewrite directives, in order.
    pub script: Vec<Rewrite>,
    /// `try_files`; not inherited.
    pub try_files: Option<TryFiles>,
    /// `internal`; not inherited.
    pub internal: bool,
    /// `alias`, in place of `settings.root`. As in nginx it is inherited, also by locations inside, until a
    /// `root` ends it.
    pub alias: Option<Template>,
    /// How many bytes of the URI the alias stands for: the length of the name of the location that `alias`
    /// was written in. `None` where that is a regular expression, whose alias is the whole path.
    pub alias_replaces: Option<usize>,
    /// `limit_except`: the methods that are not limited, and what holds for all others.
    pub limit_except: Option<LimitExcept>,
    /// Locations inside this one.
    pub locations: Vec<Location>,
}

impl Location {
    /// Whether `root` or `alias` says where its files are, there or outside.
    pub fn says_where_files_are(&self) -> bool {
        self.alias.is_some() || self.settings.files.root.span != Span::NOWHERE
    }

    /// Whether nothing has to answer behind its rewrites: a `return` does, or `try_files` leads elsewhere.
    pub fn answers_by_itself(&self) -> bool {
        self.try_files.is_some() || self.script.iter().any(|rewrite| matches!(rewrite, Rewrite::Return { .. }))
    }
}

/// A directive of the rewrite module, in order of writing.
#[derive(Clone, Debug)]
pub enum Rewrite {
    /// `set $name value`.
    Set {
        /// Without the dollar.
        name: String,
        /// What it becomes.
        value: Template,
    },
    /// `if (...) { ... }`.
    If {
        /// When the block holds.
        condition: Condition,
        /// The rewrite directives inside.
        script: Vec<Rewrite>,
        /// The location that the block makes, when inside a location. Its own `script` is empty.
        location: Option<Box<Location>>,
    },
    /// `rewrite pattern replacement [flag]`.
    Rewrite {
        /// Matched against the URI.
        pattern: Pattern,
        /// What it becomes. A trailing `?` has been taken off and `append_args` cleared.
        replacement: Template,
        /// Whether the arguments of the request are added.
        append_args: bool,
        /// What happens next.
        flag: RewriteFlag,
    },
    /// `return code [text]` or `return URL`.
    Return {
        /// The status; 302 where only a URL was given.
        status: u16,
        /// Body or URL.
        text: Option<Template>,
        /// The place.
        span: Span,
    },
    /// `break`.
    Break,
}

/// `limit_except METHODS { ... }`.
#[derive(Clone, Debug)]
pub struct LimitExcept {
    /// Upper-case names; `GET` allows `HEAD` too.
    pub methods: Vec<String>,
    /// What holds for the other methods.
    pub location: Box<Location>,
}

/// How a location is matched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Matcher {
    /// The server level itself, or an `if` or `limit_except` block.
    Root,
    /// `location = /path`.
    Exact(String),
    /// `location /path`; `regex_stops` with `^~`: do not try regular expressions when this is the longest.
    Prefix {
        /// The prefix.
        path: String,
        /// `^~`.
        regex_stops: bool,
    },
    /// `location ~` and `~*`.
    Regex(Pattern),
    /// `location @name`; the name has its `@`.
    Named(String),
}

/// What answers requests in a location.
#[derive(Clone, Debug)]
pub enum Handler {
    /// Files under `root` or `alias`.
    Static,
    /// `mp4`.
    Mp4,
    /// `flv`.
    Flv,
    /// `fastcgi_pass`.
    FastCgi(Template),
    /// `proxy_pass`.
    Proxy(Template),
    /// `stub_status`.
    StubStatus,
    /// `larder_metrics`.
    Metrics,
    /// The admin API, in a server whose `listen` has `larder_admin`.
    Admin,
    /// `larder_status`, `api`.
    Status,
    /// `empty_gif`.
    EmptyGif,
    /// `*_cache_purge` without an origin: `ZONE KEY`, or a method beside a `*_cache`.
    Purge {
        /// The zone.
        zone: At<String>,
        /// What is dropped from it, unless all of it is.
        key: Option<Template>,
        /// Which requests do it; `None` for all.
        by: Option<MethodPurge>,
    },
}

impl Handler {
    /// How the origin of a `proxy_pass` is spoken to; `None` for what is no `proxy_pass`.
    pub fn origin_scheme(&self) -> Option<OriginScheme> {
        match self {
            Self::Proxy(pass) => Some(match pass.parts.first() {
                Some(TemplatePart::Literal(text)) if begins_with(text, "https://") => OriginScheme::Https,
                Some(TemplatePart::Literal(text)) if begins_with(text, "http://") => OriginScheme::Http,
                _ => OriginScheme::Variable,
            }),
            Self::Static
            | Self::Mp4
            | Self::Flv
            | Self::FastCgi(_)
            | Self::StubStatus
            | Self::Metrics
            | Self::Admin
            | Self::Status
            | Self::EmptyGif
            | Self::Purge { .. } => None,
        }
    }
}

fn begins_with(text: &str, scheme: &str) -> bool {
    text.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme))
}

/// `try_files`.
#[derive(Clone, Debug)]
pub struct TryFiles {
    /// All arguments but the last. One that ends in `/` asks for a directory.
    pub files: Vec<Template>,
    /// The last argument.
    pub fallback: TryFallback,
}

/// The last argument of `try_files`.
#[derive(Clone, Debug)]
pub enum TryFallback {
    /// `=404`.
    Status(u16),
    /// `@name`.
    Named(At<String>),
    /// A URI, with arguments perhaps.
    Uri(Template),
}
