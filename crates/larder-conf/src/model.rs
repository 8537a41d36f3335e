//! What a configuration means. Long because it is the one list of what larder can be told; it holds no logic.
//!
//! Every value is typed, every default filled in, every inheritance done.
//!
//! `build` makes it from the checked directive tree. The server turns it into running parts: it compiles
//! the regular expressions, resolves the names of variables, and reports what does not fit at the [`Span`]s
//! kept here. Levels inherit as in nginx: a scalar from the nearest level that sets it, a list (such as
//! `add_header`) as a whole, only where the level sets none of its own.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;

use crate::span::Span;

mod acme;
mod compress;
mod files;
mod http2;
mod modules;
mod proxy_protocol;
mod resolver;
mod subrequests;
mod tls;

pub use acme::{AcmeAccount, AcmeChallenge, AcmeEab, AcmeKeyType, AcmeOrder};
pub use compress::{Brotli, Compression, Gzip, GzipDisable, GzipProxied, MediaTypes, StaticForms, Zstd};
pub use files::tls_files;
pub use http2::Http2;
pub use modules::{
    Browser, Browsers, CharsetMap, LogFileCache, Modules, Mp4, SecureLink, SubFilter, UserId, UserIdExpires,
    UserIdFlags, UserIdMode, ValidReferers,
};
pub use proxy_protocol::ProxyProtocol;
pub use resolver::Resolver;
pub use subrequests::{Ssi, Subrequests};
pub use tls::{
    AskedAbout, CertificateCache, CertificatePair, Ocsp, OriginScheme, OriginTls, PemSource, Secret, SharedSessions,
    Stapling, Tls, TlsFile, TlsFilePurpose, TlsProtocols, TlsSessionCache, VerifyClient,
};

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
}

/// The main context: the process.
#[derive(Clone, Debug)]
pub struct Main {
    /// `user`: the user and group that the serving process becomes when started as root.
    pub user: Option<At<(String, Option<String>)>>,
    /// `worker_processes`: the number of worker threads.
    pub worker_processes: Workers,
    /// `worker_rlimit_nofile`; when absent larder raises the limit to the hard one.
    pub worker_rlimit_nofile: Option<u64>,
    /// `worker_shutdown_timeout`: how long old requests may take after a stop or a reload.
    pub worker_shutdown_timeout: Option<Duration>,
    /// `worker_connections`, for `$connections` arithmetic of nobody; read, and not a limit.
    pub worker_connections: Option<u64>,
    /// `pid`: where the process writes its number; `None` for the built-in path.
    pub pid: Option<PathBuf>,
    /// `error_log` of the main context, in order; empty means the built-in path.
    pub error_log: Vec<ErrorLog>,
    /// `ssl_object_cache_inheritable`: whether certificates and keys whose files look unchanged outlive a reload.
    pub inherits_certificates: bool,
    /// `daemon`.
    pub daemon: bool,
    /// `master_process`: whether a supervisor runs.
    pub master_process: bool,
    /// `working_directory`.
    pub working_directory: Option<PathBuf>,
    /// Where relative roots are, for those that come out of variables; all others are joined to it already.
    pub prefix: PathBuf,
    /// Where relative password files are, likewise.
    pub conf_prefix: PathBuf,
    /// `env`, as `NAME` or `NAME=value`.
    pub env: Vec<(String, Option<String>)>,
    /// Whether some `*_bind` is `transparent`, so that the serving process needs the right to it.
    pub binds_anywhere: bool,
}

/// The argument of `worker_processes`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workers {
    /// One a core.
    Auto,
    /// This many.
    Count(usize),
}

/// One `error_log`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorLog {
    /// Where the lines go.
    pub target: LogTarget,
    /// The least severe level that is written.
    pub level: LogLevel,
}

/// Where log lines go.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LogTarget {
    /// A file; relative names are joined to the prefix already.
    File(PathBuf),
    /// Standard error.
    Stderr,
    /// A syslog server.
    Syslog(Syslog),
}

/// The arguments of `syslog:`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Syslog {
    /// A UDP address or a path of a unix socket (without `unix:`).
    pub server: SyslogServer,
    /// 0 (kern) to 23 (local7).
    pub facility: u8,
    /// 0 (emerg) to 7 (debug), for access logs.
    pub severity: u8,
    /// The tag, `nginx` unless told.
    pub tag: String,
    /// Whether the host name is left out.
    pub nohostname: bool,
}

/// Where a syslog server listens.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum SyslogServer {
    /// `host:port`; port 514 unless given.
    Udp(String),
    /// A datagram unix socket.
    Unix(PathBuf),
}

/// nginx's levels, least severe last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LogLevel {
    /// The system cannot be used.
    Emerg,
    /// Something must be done at once.
    Alert,
    /// Critical.
    Crit,
    /// A request failed.
    Error,
    /// Something is odd.
    Warn,
    /// Of note.
    Notice,
    /// For information.
    Info,
    /// For those who look for a bug.
    Debug,
}

/// How much memory the whole process may take: `larder_memory_total`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MemoryTotal {
    /// A share of what the machine has, and of what its control groups may.
    #[default]
    Auto,
    /// So many bytes, within what its control groups may.
    Bytes(u64),
    /// Whatever it takes.
    Off,
}

/// The `http` block.
#[derive(Clone, Debug)]
pub struct Http {
    /// Settings at this level; servers have inherited from them already.
    pub settings: Arc<Settings>,
    /// `server` blocks in order.
    pub servers: Vec<Server>,
    /// `upstream` blocks by name.
    pub upstreams: Vec<Upstream>,
    /// `fastcgi_cache_path` and `proxy_cache_path`; both share one space of names.
    pub cache_paths: Vec<CachePath>,
    /// `larder_placement`; shares that space of names.
    pub placements: Vec<Placement>,
    /// `larder_memory`; `None` for a share of what the process may use.
    pub memory_bytes: Option<u64>,
    /// `larder_memory_total`.
    pub memory_total: MemoryTotal,
    /// `log_format` by name; `combined` is always there.
    pub log_formats: Vec<LogFormat>,
    /// `map` blocks.
    pub maps: Vec<Map>,
    /// `geo` blocks.
    pub geos: Vec<Geo>,
    /// `split_clients` blocks.
    pub splits: Vec<SplitClients>,
    /// `charset_map`.
    pub charset_maps: Vec<CharsetMap>,
    /// `limit_req_zone`.
    pub limit_req_zones: Vec<LimitReqZone>,
    /// `limit_conn_zone`.
    pub limit_conn_zones: Vec<LimitConnZone>,
}

/// A `server` block.
#[derive(Clone, Debug)]
pub struct Server {
    /// Where the block begins.
    pub span: Span,
    /// `listen`; without one, `*:80` (`*:8000` when not root).
    pub listens: Vec<Listen>,
    /// `server_name`; without one, the empty name.
    pub names: Vec<At<ServerName>>,
    /// The first of `names` as written, for `$server_name`; empty when there is none.
    pub first_name: String,
    /// Rewrite directives of the server level, run before a location is looked for.
    pub script: Vec<Rewrite>,
    /// Settings of the level, for requests that match no location.
    pub root: Location,
    /// `client_header_timeout` and the like, which belong to the server.
    pub client: ClientLimits,
    /// `ssl_*`.
    pub tls: Arc<Tls>,
    /// `http2` and `http2_*`.
    pub http2: Http2,
    /// `larder_acme`; only where the server listens with TLS and has no `ssl_certificate`.
    pub acme: Option<AcmeOrder>,
}

/// What a server demands of request heads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientLimits {
    /// `client_header_timeout`, 60 s.
    pub header_timeout: Duration,
    /// `client_header_buffer_size`, 1k.
    pub header_buffer_bytes: usize,
    /// `large_client_header_buffers`: number and size, 4 of 8k.
    pub large_header_buffers: (usize, usize),
    /// `ignore_invalid_headers`, on.
    pub ignore_invalid_headers: bool,
    /// `underscores_in_headers`, off.
    pub underscores_in_headers: bool,
    /// `merge_slashes`, on.
    pub merge_slashes: bool,
    /// `max_headers`, 1000.
    pub max_headers: usize,
}

/// A `listen`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listen {
    /// Where.
    pub address: ListenAddress,
    /// `default_server` or `default`.
    pub is_default: bool,
    /// `backlog=`.
    pub backlog: Option<i32>,
    /// `rcvbuf=` and `sndbuf=`, bytes.
    pub rcvbuf: Option<usize>,
    /// See `rcvbuf`.
    pub sndbuf: Option<usize>,
    /// `ipv6only=`; on unless told.
    pub ipv6only: bool,
    /// `so_keepalive=`.
    pub keepalive: Option<bool>,
    /// `deferred`.
    pub deferred: bool,
    /// `fastopen=`.
    pub fastopen: Option<i32>,
    /// `ssl`: TLS is spoken. As in nginx this and the next two hold for an address: where one server has
    /// them, all that listen there have.
    pub ssl: bool,
    /// `http2`: HTTP/2 may be spoken, over TLS by ALPN and without it by prior knowledge.
    pub http2: bool,
    /// `proxy_protocol`: a connection begins with a PROXY protocol header.
    pub proxy_protocol: bool,
    /// Whether options of the socket are given here; of all that listen at an address one may give them.
    pub has_options: bool,
    /// Where it was written.
    pub span: Span,
}

/// An address to listen at.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ListenAddress {
    /// IPv4 or IPv6; `0.0.0.0` stands for `*`.
    Tcp(SocketAddr),
    /// `unix:/path`.
    Unix(PathBuf),
}

/// A name in `server_name`, lower-cased.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerName {
    /// `example.org`; also the empty name `""`.
    Exact(String),
    /// `*.example.org`: the suffix with its dot, `.example.org`. Does not match `example.org` itself.
    Suffix(String),
    /// `www.*`: the prefix with its dot, `www.`.
    Prefix(String),
    /// `.example.org`: that name (`example.org`) and every name below.
    Dotted(String),
    /// `~pattern`; captures become variables.
    Regex(Pattern),
    /// `$hostname`.
    Hostname,
}

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

/// What happens after a `rewrite` that matched. A replacement that begins with `http://`, `https://` or
/// `$scheme` without a flag is [`RewriteFlag::Redirect`] already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RewriteFlag {
    /// Go on with the next directive.
    None,
    /// Stop, and look for a location anew.
    Last,
    /// Stop, and stay in this location.
    Break,
    /// Answer 302.
    Redirect,
    /// Answer 301.
    Permanent,
}

/// The condition of an `if`.
#[derive(Clone, Debug)]
pub enum Condition {
    /// `if ($a)`: neither empty nor `0`.
    True(Template),
    /// `=` and `!=`.
    Equal {
        /// The left side, a variable.
        left: Template,
        /// The right side.
        right: Template,
        /// `!=`.
        negate: bool,
    },
    /// `~`, `~*`, `!~`, `!~*`.
    Match {
        /// The left side, a variable.
        left: Template,
        /// The expression.
        pattern: Pattern,
        /// `!~`, `!~*`.
        negate: bool,
    },
    /// `-f`, `-d`, `-e`, `-x` and their negations.
    File {
        /// Which question.
        test: FileTest,
        /// The path.
        path: Template,
        /// With `!`.
        negate: bool,
    },
}

/// A question about a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileTest {
    /// `-f`: a file.
    File,
    /// `-d`: a directory.
    Directory,
    /// `-e`: anything.
    Exists,
    /// `-x`: executable.
    Executable,
}

/// What holds at a level: all that `http`, `server` and `location` have in common, inherited.
#[derive(Clone, Debug)]
pub struct Settings {
    /// `root`; `html` under the prefix unless told.
    pub root: Template,
    /// `index`; `index.html` unless told.
    pub index: Vec<Template>,
    /// `types`: extension (lower case, no dot) to type.
    pub types: Arc<HashMap<String, String>>,
    /// `default_type`, `text/plain`.
    pub default_type: String,
    /// `charset`; `None` for `off`.
    pub charset: Option<Template>,
    /// `charset_types`; `*` stands for all.
    pub charset_types: Vec<String>,
    /// `override_charset`.
    pub override_charset: bool,
    /// `client_max_body_size`, 1m; `None` for 0: no limit.
    pub client_max_body_bytes: Option<u64>,
    /// `client_body_buffer_size`, 16k: more goes to a file.
    pub client_body_buffer_bytes: usize,
    /// `client_body_timeout`, 60 s.
    pub client_body_timeout: Duration,
    /// `client_body_temp_path`; `None` for the built-in one.
    pub client_body_temp_path: Option<PathBuf>,
    /// How many letters of a file's name each level of folders below takes; 0 for no level.
    pub client_body_temp_levels: [usize; 3],
    /// `client_body_in_file_only`.
    pub client_body_in_file_only: BodyInFile,
    /// `keepalive_timeout`: how long an idle connection is kept, 75 s; zero closes at once.
    pub keepalive_timeout: Duration,
    /// The second argument: the `Keep-Alive: timeout=` to send, in seconds.
    pub keepalive_header: Option<u64>,
    /// `keepalive_requests`, 1000.
    pub keepalive_requests: u64,
    /// `keepalive_time`, 1 h.
    pub keepalive_time: Duration,
    /// `keepalive_disable`, msie6.
    pub keepalive_disable: KeepaliveDisable,
    /// `send_timeout`, 60 s between two writes.
    pub send_timeout: Duration,
    /// `lingering_close`.
    pub lingering_close: LingeringClose,
    /// `lingering_time`, 30 s.
    pub lingering_time: Duration,
    /// `lingering_timeout`, 5 s.
    pub lingering_timeout: Duration,
    /// `reset_timedout_connection`.
    pub reset_timedout_connection: bool,
    /// `limit_rate`, bytes a second; `0` for none.
    pub limit_rate: Option<Template>,
    /// `limit_rate_after`.
    pub limit_rate_after: Option<Template>,
    /// `error_page`, in order.
    pub error_pages: Vec<ErrorPage>,
    /// `recursive_error_pages`.
    pub recursive_error_pages: bool,
    /// `log_not_found`, on.
    pub log_not_found: bool,
    /// `log_subrequest`, off.
    pub log_subrequest: bool,
    /// `open_file_cache`: how many and how long unused; `None` for `off`.
    pub open_file_cache: Option<(usize, Duration)>,
    /// `open_file_cache_valid`, 60 s.
    pub open_file_cache_valid: Duration,
    /// `open_file_cache_min_uses`, 1.
    pub open_file_cache_min_uses: u32,
    /// `open_file_cache_errors`, off.
    pub open_file_cache_errors: bool,
    /// `disable_symlinks`.
    pub disable_symlinks: DisableSymlinks,
    /// `auth_delay`, 0.
    pub auth_delay: Duration,
    /// `satisfy any`.
    pub satisfy_any: bool,
    /// `server_tokens`.
    pub server_tokens: ServerTokens,
    /// `etag`, on.
    pub etag: bool,
    /// `if_modified_since`, exact.
    pub if_modified_since: IfModifiedSince,
    /// `max_ranges`; `None` for no limit.
    pub max_ranges: Option<u32>,
    /// `slice`; 0 for off.
    pub slice_bytes: u64,
    /// `chunked_transfer_encoding`, on.
    pub chunked_transfer_encoding: bool,
    /// `absolute_redirect`, on.
    pub absolute_redirect: bool,
    /// `server_name_in_redirect`, off.
    pub server_name_in_redirect: bool,
    /// `port_in_redirect`, on.
    pub port_in_redirect: bool,
    /// `allow` and `deny`, in order.
    pub access: Vec<AccessRule>,
    /// `auth_basic`; `None` for `off`.
    pub auth_basic: Option<Template>,
    /// `auth_basic_user_file`.
    pub auth_basic_user_file: Option<Template>,
    /// `add_header`, in order.
    pub add_headers: Vec<AddHeader>,
    /// `add_trailer`, in order.
    pub add_trailers: Vec<AddHeader>,
    /// `more_set_headers` and its kin.
    pub edits: Edits,
    /// `expires`.
    pub expires: Option<Expires>,
    /// `autoindex`; `None` for off.
    pub autoindex: Option<Autoindex>,
    /// `access_log`, in order; empty for `off`.
    pub access_logs: Vec<AccessLog>,
    /// `error_log` of this level or the nearest above; empty means the main context's.
    pub error_log: Vec<ErrorLog>,
    /// `limit_req`, in order.
    pub limit_reqs: Vec<LimitReq>,
    /// `limit_req_status`, 503.
    pub limit_req_status: u16,
    /// `limit_req_log_level`.
    pub limit_req_log_level: LogLevel,
    /// `limit_req_dry_run`.
    pub limit_req_dry_run: bool,
    /// `limit_conn`: zone and number.
    pub limit_conns: Vec<(At<String>, u32)>,
    /// `limit_conn_status`, 503.
    pub limit_conn_status: u16,
    /// `limit_conn_log_level`.
    pub limit_conn_log_level: LogLevel,
    /// `limit_conn_dry_run`.
    pub limit_conn_dry_run: bool,
    /// `set_real_ip_from`.
    pub real_ip_from: Vec<RealIpFrom>,
    /// `real_ip_header`, `X-Real-IP`; `proxy_protocol` as written when `real_ip_proxy_protocol`.
    pub real_ip_header: String,
    /// `real_ip_header proxy_protocol`: the address comes from the PROXY protocol header.
    pub real_ip_proxy_protocol: bool,
    /// `real_ip_recursive`.
    pub real_ip_recursive: bool,
    /// `resolver`; without one the system is asked when a name comes from a variable.
    pub resolver: Option<Arc<Resolver>>,
    /// `resolver_timeout`, 30 s.
    pub resolver_timeout: Duration,
    /// `sendfile`; read, and larder does what pays.
    pub sendfile: bool,
    /// `fastcgi_*`.
    pub fastcgi: Arc<FastCgi>,
    /// `proxy_*`.
    pub proxy: Arc<Proxy>,
    /// `gzip`, `brotli`, `zstd` and their kind.
    pub compression: Arc<Compression>,
    /// SSI, `add_*_body`, `auth_request`, `mirror`.
    pub subrequests: Arc<Subrequests>,
    /// `http2_chunk_size`, 8k: bytes of a body in a frame at most.
    pub http2_chunk_bytes: usize,
    /// What the smaller modules are told: `sub_filter`, `userid` and the like.
    pub modules: Arc<Modules>,
    /// `larder_cache_status on`: send `Cache-Status` (RFC 9211).
    pub cache_status_header: bool,
}

/// `client_body_in_file_only`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyInFile {
    /// When a body does not fit into memory.
    Off,
    /// Always, and the file stays.
    On,
    /// Always, while the request lasts.
    Clean,
}

/// The browsers of `keepalive_disable`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeepaliveDisable {
    /// Internet Explorer up to 6, after a POST.
    pub msie6: bool,
    /// Safari on a Mac.
    pub safari: bool,
}

/// `lingering_close`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LingeringClose {
    /// Never wait for more data.
    Off,
    /// When a client may still be sending.
    On,
    /// Always.
    Always,
}

/// `server_tokens`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerTokens {
    /// With the version.
    On,
    /// Without it.
    Off,
    /// With the version and the build.
    Build,
}

/// `if_modified_since`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IfModifiedSince {
    /// Ignored.
    Off,
    /// Equal dates.
    Exact,
    /// Not newer than.
    Before,
}

/// `disable_symlinks`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DisableSymlinks {
    /// All may be followed.
    Off,
    /// None may.
    On {
        /// `from=`: the part of the path that is not checked.
        from: Option<Template>,
    },
    /// Only where link and target have one owner.
    IfNotOwner {
        /// See above.
        from: Option<Template>,
    },
}

/// One `error_page`.
#[derive(Clone, Debug)]
pub struct ErrorPage {
    /// For which statuses.
    pub statuses: Vec<u16>,
    /// The status to answer with.
    pub answer: ErrorPageStatus,
    /// `@name`, a URI, or a URL that is redirected to.
    pub target: Template,
}

/// The `=` of an `error_page`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorPageStatus {
    /// None given: the status that led here.
    Keep,
    /// `=`: what the page itself answers.
    OfTarget,
    /// `=200`.
    Fixed(u16),
}

/// `allow` or `deny`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessRule {
    /// `allow`.
    pub allow: bool,
    /// Whom.
    pub who: AccessWho,
}

/// Whom an access rule is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AccessWho {
    /// `all`.
    All,
    /// `unix:`.
    Unix,
    /// An address or a block.
    Net(IpNet),
}

/// `set_real_ip_from`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RealIpFrom {
    /// `unix:`.
    Unix,
    /// An address or a block.
    Net(IpNet),
}

/// `add_header` or `add_trailer`.
#[derive(Clone, Debug)]
pub struct AddHeader {
    /// As written.
    pub name: String,
    /// Nothing is added when it comes out empty.
    pub value: Template,
    /// With any status.
    pub always: bool,
}

/// What `more_set_headers`, `more_set_input_headers` and their kin do, those of the levels above first.
#[derive(Clone, Debug, Default)]
pub struct Edits {
    /// To the fields of a request, when the rewrites of its location are done.
    pub request: Vec<FieldEdit>,
    /// To the fields of a response of whatever status, before `add_header`.
    pub response: Vec<FieldEdit>,
}

/// A change of a field.
#[derive(Clone, Debug)]
pub struct FieldEdit {
    /// As written, without the `*`.
    pub name: String,
    /// What is done.
    pub change: FieldChange,
    /// `-s`: only responses of these statuses; empty for all.
    pub statuses: Vec<u16>,
    /// `-t`: only messages of these types; empty for all.
    pub types: Vec<String>,
}

/// What is done to a field.
#[derive(Clone, Debug)]
pub enum FieldChange {
    /// It gets this value, once; one that comes out empty takes it away.
    Set(Template),
    /// The same where it is there.
    Replace(Template),
    /// One more of this value.
    Append(Template),
    /// It is taken away.
    Clear,
    /// So is whatever begins with the name.
    ClearAllThatBegin,
}

/// `expires`.
#[derive(Clone, Debug)]
pub enum Expires {
    /// `epoch`.
    Epoch,
    /// `max`.
    Max,
    /// Seconds from now; negative is `no-cache`.
    After(i64),
    /// `modified +N`: seconds from the last modification.
    Modified(i64),
    /// `@15h30m`: seconds of the day.
    Daily(u32),
    /// A variable with one of the above, or `off`; whether `modified` stands before it.
    Variable(Template, bool),
}

/// `autoindex on` and its forms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Autoindex {
    /// `autoindex_exact_size`, on.
    pub exact_size: bool,
    /// `autoindex_localtime`, off.
    pub localtime: bool,
    /// `autoindex_format`.
    pub format: AutoindexFormat,
}

/// `autoindex_format`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AutoindexFormat {
    /// A page.
    Html,
    /// `<list>`.
    Xml,
    /// An array.
    Json,
    /// A callback.
    Jsonp,
}

/// `access_log`.
#[derive(Clone, Debug)]
pub struct AccessLog {
    /// Where the lines go.
    pub target: AccessLogTarget,
    /// The name of a `log_format`, checked to exist.
    pub format: At<String>,
    /// `buffer=`, bytes.
    pub buffer_bytes: Option<usize>,
    /// `flush=`.
    pub flush: Option<Duration>,
    /// `gzip`: how hard, from 1 to 9; what is gathered becomes a member of a gzip file.
    pub gzip: Option<u8>,
    /// `if=`.
    pub condition: Option<Template>,
}

/// Where an access log goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AccessLogTarget {
    /// A fixed place.
    Fixed(LogTarget),
    /// A path with variables.
    Variable(Template),
}

/// `log_format`.
#[derive(Clone, Debug)]
pub struct LogFormat {
    /// The name.
    pub name: At<String>,
    /// `escape=`.
    pub escape: LogEscape,
    /// The arguments joined.
    pub format: Template,
}

/// `escape=`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogEscape {
    /// `\xHH`.
    Default,
    /// JSON strings.
    Json,
    /// As it is.
    None,
}

/// `map`.
#[derive(Clone, Debug)]
pub struct Map {
    /// Where it begins.
    pub span: Span,
    /// What is looked up.
    pub source: Template,
    /// The variable it makes, without the dollar.
    pub variable: String,
    /// `hostnames`.
    pub hostnames: bool,
    /// `volatile`.
    pub volatile: bool,
    /// `default`; empty unless told.
    pub default: Option<Template>,
    /// The entries, in order, includes read in.
    pub entries: Vec<MapEntry>,
}

/// A line in a `map`.
#[derive(Clone, Debug)]
pub struct MapEntry {
    /// What the source is compared with.
    pub key: MapKey,
    /// What the variable becomes.
    pub value: Template,
    /// Where it is.
    pub span: Span,
}

/// The left side of a line in a `map`.
#[derive(Clone, Debug)]
pub enum MapKey {
    /// A string, compared without case.
    Text(String),
    /// A regular expression.
    Regex(Pattern),
}

/// `geo`.
#[derive(Clone, Debug)]
pub struct Geo {
    /// Where it begins.
    pub span: Span,
    /// The address; `$remote_addr` unless told.
    pub source: Option<Template>,
    /// The variable it makes, without the dollar.
    pub variable: String,
    /// `default`.
    pub default: String,
    /// `proxy`: whose `X-Forwarded-For` is believed.
    pub proxies: Vec<IpNet>,
    /// `proxy_recursive`.
    pub proxy_recursive: bool,
    /// Blocks and values; the longest prefix decides.
    pub nets: Vec<(IpNet, String)>,
    /// `volatile`: looked up each time.
    pub volatile: bool,
    /// With `ranges`: first and last IPv4 or IPv6 address, both inclusive; the last one written decides.
    pub ranges: Vec<(std::net::IpAddr, std::net::IpAddr, String)>,
}

/// `split_clients`.
#[derive(Clone, Debug)]
pub struct SplitClients {
    /// Where it begins.
    pub span: Span,
    /// What is hashed.
    pub source: Template,
    /// The variable it makes, without the dollar.
    pub variable: String,
    /// Hundredths of a percent (1 to 10000) and values, in order; `None` for `*`, the rest.
    pub parts: Vec<(Option<u32>, Template)>,
}

/// `limit_req_zone`.
#[derive(Clone, Debug)]
pub struct LimitReqZone {
    /// The name.
    pub name: At<String>,
    /// What is counted.
    pub key: Template,
    /// Bytes of state.
    pub bytes: usize,
    /// Thousandths of a request a second: `1r/s` is 1000, `30r/m` is 500.
    pub rate_milli: u64,
}

/// `limit_conn_zone`.
#[derive(Clone, Debug)]
pub struct LimitConnZone {
    /// The name.
    pub name: At<String>,
    /// What is counted.
    pub key: Template,
    /// Bytes of counts.
    pub bytes: usize,
}

/// `limit_req`.
#[derive(Clone, Debug)]
pub struct LimitReq {
    /// The zone.
    pub zone: At<String>,
    /// `burst=`, requests.
    pub burst: u64,
    /// `delay=`; `None` for `nodelay`.
    pub delay: Option<u64>,
}

/// `upstream`: a group of origins.
#[derive(Clone, Debug)]
pub struct Upstream {
    /// The name.
    pub name: At<String>,
    /// The servers.
    pub servers: Vec<UpstreamServer>,
    /// How one is chosen.
    pub balance: Balance,
    /// `keepalive`: idle connections kept, 32 as in nginx since 1.29.7.
    pub keepalive: usize,
    /// `keepalive_requests`, 1000.
    pub keepalive_requests: u64,
    /// `keepalive_timeout`, 60 s.
    pub keepalive_timeout: Duration,
    /// `keepalive_time`, 1 h.
    pub keepalive_time: Duration,
    /// `resolver`: in place of that of `http`.
    pub resolver: Option<Arc<Resolver>>,
    /// `resolver_timeout`: in place of that of `http`.
    pub resolver_timeout: Option<Duration>,
}

/// How a group chooses.
#[derive(Clone, Debug)]
pub enum Balance {
    /// In turn, by weight.
    RoundRobin,
    /// The fewest running.
    LeastConn,
    /// `least_time`: the shortest estimate.
    LeastTime {
        /// `last_byte` in place of `header`.
        last_byte: bool,
        /// `inflight`.
        inflight: bool,
    },
    /// By the client's address.
    IpHash,
    /// By a key; the flag is `consistent`.
    Hash(Template, bool),
    /// `random [two]`.
    Random {
        /// Of two picked, the one with fewer running.
        two: bool,
    },
}

/// A `server` of an `upstream`.
#[derive(Clone, Debug)]
pub struct UpstreamServer {
    /// `host:port`, `host`, or `unix:/path`, as written; no port means 80.
    pub address: At<String>,
    /// `weight=`, 1.
    pub weight: u32,
    /// `max_fails=`, 1; 0 never counts.
    pub max_fails: u32,
    /// `fail_timeout=`, 10 s.
    pub fail_timeout: Duration,
    /// `max_conns=`, 0 for none.
    pub max_conns: u32,
    /// `backup`.
    pub backup: bool,
    /// `down`.
    pub down: bool,
    /// `resolve`: the name is looked up again when its answer runs out.
    pub resolve: bool,
    /// `service=`: the name of a service, whose servers have SRV records.
    pub service: Option<String>,
}

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

/// What `fastcgi_*` and `proxy_*` have in common.
#[derive(Clone, Debug)]
pub struct OriginSettings {
    /// `*_connect_timeout`, 60 s.
    pub connect_timeout: Duration,
    /// `*_send_timeout`, 60 s.
    pub send_timeout: Duration,
    /// `*_read_timeout`, 60 s.
    pub read_timeout: Duration,
    /// `*_buffer_size`: the head must fit, 4k.
    pub buffer_bytes: usize,
    /// `*_buffers`: number and size, 8 of 4k; with `buffer_bytes`, what a response may hold in memory before a file is used.
    pub buffers: (usize, usize),
    /// `*_busy_buffers_size`; read and checked.
    pub busy_buffers_bytes: Option<usize>,
    /// `*_max_temp_file_size`, 1024m.
    pub max_temp_file_bytes: u64,
    /// `*_temp_path`; `None` for the built-in one.
    pub temp_path: Option<PathBuf>,
    /// `*_buffering`, on.
    pub buffering: bool,
    /// `*_request_buffering`, on.
    pub request_buffering: bool,
    /// `*_ignore_client_abort`, off.
    pub ignore_client_abort: bool,
    /// `*_intercept_errors`, off.
    pub intercept_errors: bool,
    /// `*_next_upstream`; `error timeout` unless told.
    pub next_upstream: NextUpstream,
    /// `*_next_upstream_tries`, 0 for no limit.
    pub next_upstream_tries: u32,
    /// `*_next_upstream_timeout`, `None` for no limit.
    pub next_upstream_timeout: Option<Duration>,
    /// `*_pass_request_headers`, on.
    pub pass_request_headers: bool,
    /// `*_pass_request_body`, on.
    pub pass_request_body: bool,
    /// `*_hide_header`, lower-case, beside the built-in ones.
    pub hide_headers: Vec<String>,
    /// `*_pass_header`, lower-case: taken from the built-in ones that are hidden.
    pub pass_headers: Vec<String>,
    /// `*_ignore_headers`.
    pub ignore_headers: IgnoreHeaders,
    /// `*_limit_rate`, bytes a second.
    pub limit_rate: Option<Template>,
    /// `*_force_ranges`, off.
    pub force_ranges: bool,
    /// `*_socket_keepalive`, off.
    pub socket_keepalive: bool,
    /// `*_bind`.
    pub bind: Option<Template>,
    /// `*_bind ... transparent`: the address need not be one of ours.
    pub bind_transparent: bool,
    /// `*_cache`: a zone, maybe by variable; `None` for `off`.
    pub cache: Option<Template>,
    /// `*_cache_key`. Without one `proxy_pass` uses the URL it asks for; for FastCGI it is an error where `cache` is
    /// set.
    pub cache_key: Option<Template>,
    /// `*_cache_valid`, in order.
    pub cache_valid: Vec<CacheValid>,
    /// `*_cache_bypass`.
    pub cache_bypass: Vec<Template>,
    /// `*_no_cache`.
    pub no_cache: Vec<Template>,
    /// `*_cache_methods`, beside GET and HEAD; upper case.
    pub cache_methods: Vec<String>,
    /// `*_cache_purge`, beside a cache; off.
    pub cache_purge: CachePurge,
    /// `*_cache_min_uses`, 1.
    pub cache_min_uses: u32,
    /// `*_cache_use_stale`.
    pub cache_use_stale: UseStale,
    /// `*_cache_background_update`, off.
    pub cache_background_update: bool,
    /// `*_cache_lock`, off.
    pub cache_lock: bool,
    /// `*_cache_lock_age`, 5 s.
    pub cache_lock_age: Duration,
    /// `*_cache_lock_timeout`, 5 s.
    pub cache_lock_timeout: Duration,
    /// `*_cache_revalidate`, off.
    pub cache_revalidate: bool,
    /// `*_cache_max_range_offset`, bytes.
    pub cache_max_range_offset: Option<u64>,
    /// `proxy_cache_convert_head`, on.
    pub cache_convert_head: bool,
    /// `*_store`, off. Where it is on, `cache` is off, and the other way round.
    pub store: Store,
    /// `*_store_access`: what owner, group and others may, `user:rw`.
    pub store_access: u32,
}

/// `fastcgi_*`.
#[derive(Clone, Debug)]
pub struct FastCgi {
    /// What it shares with `proxy_*`.
    pub origin: OriginSettings,
    /// `fastcgi_param`, in order.
    pub params: Vec<FastCgiParam>,
    /// `fastcgi_index`.
    pub index: Option<String>,
    /// `fastcgi_split_path_info`.
    pub split_path_info: Option<Pattern>,
    /// `fastcgi_keep_conn`, off.
    pub keep_conn: bool,
    /// `fastcgi_catch_stderr`, in order.
    pub catch_stderr: Vec<String>,
}

/// `fastcgi_param`.
#[derive(Clone, Debug)]
pub struct FastCgiParam {
    /// The name.
    pub name: String,
    /// The value.
    pub value: Template,
    /// `if_not_empty`.
    pub if_not_empty: bool,
}

/// `proxy_*`.
#[derive(Clone, Debug)]
pub struct Proxy {
    /// What it shares with `fastcgi_*`.
    pub origin: OriginSettings,
    /// `proxy_http_version`: whether it is 1.1, as nginx has it by default since 1.29.7.
    pub http_1_1: bool,
    /// `proxy_set_header`, in order.
    pub set_headers: Vec<(String, Template)>,
    /// `proxy_set_body`.
    pub set_body: Option<Template>,
    /// `proxy_method`.
    pub method: Option<Template>,
    /// `proxy_redirect`.
    pub redirect: ProxyRedirect,
    /// `proxy_cookie_domain`, in order.
    pub cookie_domains: Vec<(Rewriting, Template)>,
    /// `proxy_cookie_path`, in order.
    pub cookie_paths: Vec<(Rewriting, Template)>,
    /// `proxy_cookie_flags`, in order: which cookies, and the flags they get or lose.
    pub cookie_flags: Vec<(Rewriting, Vec<Template>)>,
    /// `proxy_ssl_*`, for origins behind `https://`.
    pub tls: OriginTls,
    /// `larder_proxy_protocol`, off.
    pub proxy_protocol: ProxyProtocol,
}

/// `proxy_redirect`.
#[derive(Clone, Debug)]
pub enum ProxyRedirect {
    /// `off`.
    Off,
    /// Rules in order; the first that matches is applied.
    Rules(Vec<ProxyRedirectRule>),
}

/// One `proxy_redirect`.
#[derive(Clone, Debug)]
pub enum ProxyRedirectRule {
    /// `default`: from the URL of `proxy_pass` to the location.
    Default,
    /// From and to.
    Replace(Rewriting, Template),
}

/// What is looked for by `proxy_redirect`, `proxy_cookie_domain` and `proxy_cookie_path`.
#[derive(Clone, Debug)]
pub enum Rewriting {
    /// A text.
    Text(Template),
    /// A regular expression.
    Regex(Pattern),
}

/// `*_store`: whether answers are kept as files.
#[derive(Clone, Debug)]
pub enum Store {
    /// `off`.
    Off,
    /// `on`: where `root` or `alias` has the file of the URI.
    Root,
    /// At this path.
    Path(Template),
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
}

/// What a purge drops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drops {
    /// The page of the key, or all whose keys begin so.
    Page,
    /// `purge_all`: everything in the zone.
    Zone,
}

/// Who may drop pages.
#[derive(Clone, Debug)]
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
}

/// `*_next_upstream`. The field names are nginx's words.
#[allow(missing_docs)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct NextUpstream {
    pub error: bool,
    pub timeout: bool,
    pub invalid_header: bool,
    pub non_idempotent: bool,
    pub http_500: bool,
    pub http_502: bool,
    pub http_503: bool,
    pub http_504: bool,
    pub http_403: bool,
    pub http_404: bool,
    pub http_429: bool,
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

/// `*_ignore_headers`. The field names are the header fields.
#[allow(missing_docs)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct IgnoreHeaders {
    pub x_accel_redirect: bool,
    pub x_accel_expires: bool,
    pub x_accel_limit_rate: bool,
    pub x_accel_buffering: bool,
    pub x_accel_charset: bool,
    pub expires: bool,
    pub cache_control: bool,
    pub set_cookie: bool,
    pub vary: bool,
}
