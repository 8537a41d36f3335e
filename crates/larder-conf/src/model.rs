//! What a configuration means. A file below for each module that reads a part of it.
//!
//! Every value is typed, every default filled in (it stands beside its field), every inheritance done.
//!
//! `build` makes it from the checked directive tree. The server turns it into running parts: it compiles
//! the regular expressions, resolves the names of variables, and reports what does not fit at the [`Span`]s
//! kept here. Levels inherit as in nginx: a scalar from the nearest level that sets it, a list (such as
//! `add_header`) as a whole, only where the level sets none of its own.

use std::sync::Arc;

use larder_source::Lines;

use crate::span::Span;

mod access;
mod acme;
mod body;
mod cache;
mod charset;
mod cluster;
mod compress;
mod connection;
mod errors;
mod fastcgi;
mod fields;
mod files;
mod gate;
mod http2;
mod limits;
mod location;
mod locations;
mod log;
mod maps;
mod modules;
mod origin;
mod parts;
mod process;
mod profile;
mod proxy;
mod proxy_protocol;
mod real_ip;
mod redirects;
mod resolver;
mod rewrite;
mod server;
mod server_name;
mod settings;
mod subrequests;
mod tls;
mod tls_files;
mod upstream;
mod vcl;
mod vcls;

pub use access::{Access, AccessRule, AccessWho};
pub use acme::{AcmeAccount, AcmeChallenge, AcmeEab, AcmeKeyType, AcmeOrder};
pub use body::{BodyInFile, ClientBody};
pub use cache::{
    BanRule, CacheMode, CachePath, CachePurge, CacheTags, CacheValid, Caching, Drops, MethodPurge, OriginCache,
    Placement, PlacementRule, PurgeFrom, PurgeRights, Purging, Sitemap, TAG_NAMES, UseStale, Warm,
};
pub use charset::{Charset, CharsetMap};
pub use cluster::{Cluster, ClusterAway, ClusterServer, ClusterShare, ClusterShelf};
pub use compress::{Brotli, Compression, Gzip, GzipDisable, GzipProxied, MediaTypes, StaticForms, Zstd};
pub use connection::{ClientConnection, KeepaliveDisable, LingeringClose};
pub use errors::{ErrorPage, ErrorPageStatus, ErrorPages};
pub use fastcgi::{FastCgi, FastCgiParam};
pub use fields::{AddHeader, Edits, Expires, FieldChange, FieldEdit, FieldSettings, ServerTokens};
pub use files::{Autoindex, AutoindexFormat, DisableSymlinks, Files, OpenFileCache};
pub use gate::{Gate, GateLimit, Gating, Queue};
pub use http2::Http2;
pub use limits::{Limit, LimitConnZone, LimitReq, LimitReqZone, Limits};
pub use location::{Handler, LimitExcept, Location, Matcher, Rewrite, TryFallback, TryFiles};
pub use locations::each_location;
pub use log::{
    AccessLog, AccessLogTarget, ErrorLog, LogEscape, LogFormat, LogLevel, LogTarget, Logs, Syslog, SyslogServer,
};
pub use maps::{Geo, Map, MapEntry, MapKey, SplitClients};
pub use modules::{
    Browser, Browsers, LogFileCache, Modules, Mp4, SecureLink, SubFilter, UserId, UserIdExpires, UserIdFlags,
    UserIdMode, ValidReferers,
};
pub use origin::{
    IgnoreHeaders, NextUpstream, NextUpstreamSettings, OriginBuffers, OriginConnection, OriginRequest, OriginResponse,
    OriginSettings, Store,
};
pub use parts::{IfModifiedSince, Parts};
pub use process::{Main, TransactionLog, TransactionLogPlace, Workers};
pub use profile::{Glob, Named, Part, Profile, ProfileRow, Profiled, Says};
pub use proxy::{Proxy, ProxyRedirect, ProxyRedirectRule, Rewriting};
pub use proxy_protocol::ProxyProtocol;
pub use real_ip::{RealIp, RealIpFrom};
pub use redirects::Redirects;
pub use resolver::{Resolver, Resolving};
pub use rewrite::{Condition, FileTest, RewriteFlag};
pub use server::{ClientLimits, Http, Listen, ListenAddress, MemoryTotal, Server};
pub use server_name::ServerName;
pub use settings::Settings;
pub use subrequests::{Esi, Ssi, Subrequests};
pub use tls::{
    AskedAbout, CertificateCache, CertificatePair, Ocsp, OriginScheme, OriginTls, PemSource, Secret, SharedSessions,
    Stapling, Tls, TlsFile, TlsFilePurpose, TlsProtocols, TlsSessionCache, VerifyClient,
};
pub use tls_files::tls_files;
pub use upstream::{Balance, Upstream, UpstreamServer};
pub use vcl::VclSettings;
pub use vcls::{VclUse, vcls};

/// A value together with the place it was written at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct At<T> {
    /// The value.
    pub value: T,
    /// Where it was written.
    pub span: Span,
}

/// A string that may hold variables, such as `$scheme://$host/a`, split into its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    /// The pieces in order; no two literals stand next to each other; empty for the empty string.
    pub parts: Vec<TemplatePart>,
    /// Where it was written.
    pub span: Span,
}

/// One piece of a [`Template`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TemplatePart {
    /// Text as it is.
    Literal(String),
    /// `$name` or `${name}`, without the dollar, in lower case as nginx compares them.
    Variable(String),
    /// `$1` to `$9`: a capture of the last regular expression that matched.
    Capture(u8),
}

/// A regular expression as written; PCRE2.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    /// The pattern, without `~` or `~*`.
    pub source: String,
    /// Whether case is ignored (`~*`).
    pub caseless: bool,
    /// Where it was written.
    pub span: Span,
}

/// A whole configuration.
#[derive(Clone, Debug)]
pub struct Config {
    /// The main context.
    pub main: Main,
    /// The `http` block. A configuration without one gets an empty one.
    pub http: Http,
    /// `larder_acme_account`; it is always there when a server has an [`AcmeOrder`].
    pub acme: Option<AcmeAccount>,
    /// Where the lines of its files begin, for those who ask a running server why it does something.
    pub lines: Arc<Lines>,
}
