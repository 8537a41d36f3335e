//! A configuration as running parts: every regular expression compiled, every name turned into a place in a list.
//!
//! Built by `assemble`; shared by all workers; never changed. A reload makes a new one.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use larder_cache::Zone;
use larder_conf::model::{self, Drops, ListenAddress};
use larder_origin::Group;
use larder_origin::resolver::Resolver;
use larder_tls::VerifyMode;

use crate::acme::Plan;
use crate::filter::charset::Charsets;
use crate::geo::Geo;
use crate::limit::{LimitConnZone, LimitReqZone};
use crate::log::main::MainLog;
use crate::map::Map;
use crate::regex::Regex;
use crate::resolvers::Followed;
use crate::split::Split;
use crate::text::{Part, Text};
use crate::tls::{ClientJudge, ServerTls};
use crate::variable::{self, Var};

mod modules;
pub mod origin_tls;

pub use modules::{Modules, SubFilter};

/// All that one configuration makes.
pub struct Site {
    /// Virtual servers, in order of writing.
    pub servers: Vec<VirtualServer>,
    /// Locations of all servers, with `if` and `limit_except` blocks among them.
    pub locations: Vec<Loc>,
    /// One for each address that is listened at.
    pub listeners: Vec<Listener>,
    /// What the variables with a slot come from.
    pub user_vars: Vec<UserVar>,
    /// `map` blocks.
    pub maps: Vec<MapPart>,
    /// `geo` blocks.
    pub geos: Vec<GeoPart>,
    /// `split_clients` blocks.
    pub splits: Vec<SplitPart>,
    /// Groups of origins: `upstream` blocks and single addresses.
    pub groups: Vec<Arc<Group>>,
    /// The key of each group's `hash`, where it has one.
    pub hash_keys: Vec<Option<Text>>,
    /// Groups by name, for addresses that come from variables.
    pub group_names: HashMap<String, usize>,
    /// Groups whose names are resolved again and again.
    pub followed: Vec<Arc<Followed>>,
    /// Where is told what no worker has to say, such as complaints about name servers.
    pub main_log: MainLog,
    /// Cache zones.
    pub zones: Vec<Arc<Zone>>,
    /// Zones by name.
    pub zone_names: HashMap<String, usize>,
    /// `limit_req` zones.
    pub limit_reqs: Vec<LimitPart<LimitReqZone>>,
    /// `limit_conn` zones.
    pub limit_conns: Vec<LimitPart<LimitConnZone>>,
    /// Access logs, one for each file, format and buffer.
    pub access_logs: Vec<AccessLog>,
    /// Error logs of the main context and every level that has its own.
    pub error_logs: Vec<Vec<model::ErrorLog>>,
    /// Whether `charset` is used anywhere; without it X-Accel-Charset does nothing, as in nginx.
    pub has_charsets: bool,
    /// Which certificates have to be issued.
    pub acme: Option<Plan>,
    /// Charsets by name, and what is made into what.
    pub charsets: Charsets,
    /// Whether HTTP/2 is spoken anywhere.
    pub speaks_http2: bool,
    /// Where relative roots are that come out of variables.
    pub prefix: PathBuf,
    /// Where relative password files are that come out of variables.
    pub conf_prefix: PathBuf,
    /// The name of this machine.
    pub hostname: String,
    /// How long old requests may take after a stop or a reload.
    pub shutdown_timeout: Option<Duration>,
}

impl Site {
    /// The variable of a name that comes at run time. A page that asks for many is rare enough for a search.
    pub fn variable(&self, name: &str) -> Option<Var> {
        let slot = self.user_vars.iter().position(|var| var.name == name);
        slot.map(Var::Slot).or_else(|| variable::built_in(name))
    }
}

/// A zone of limits.
pub struct LimitPart<T> {
    /// Its name.
    pub name: String,
    /// What is counted.
    pub key: Text,
    /// The counts.
    pub state: Arc<T>,
}

/// An address that is listened at, and the servers behind it.
pub struct Listener {
    /// The address.
    pub address: ListenAddress,
    /// The server for hosts that no name matches.
    pub default: usize,
    /// Which server a host means.
    pub names: NameTable,
    /// `ssl`: whether connections begin with a handshake.
    pub tls: bool,
    /// `http2`: whether all servers here speak HTTP/2.
    pub http2: bool,
    /// `proxy_protocol`: whether connections begin with whom they are from.
    pub proxy_protocol: bool,
}

/// Hosts to servers, in nginx's order: exact, longest leading wildcard, longest trailing wildcard, first regular expression.
#[derive(Default)]
pub struct NameTable {
    /// Lower-case names.
    pub exact: HashMap<Vec<u8>, usize>,
    /// `.example.org`, longest first; the flag says whether `example.org` itself matches too.
    pub suffixes: Vec<(Vec<u8>, usize)>,
    /// `www.`, longest first.
    pub prefixes: Vec<(Vec<u8>, usize)>,
    /// Expressions in order of writing, with the slots of their named groups.
    pub regexes: Vec<(Arc<NamedRegex>, usize)>,
}

impl NameTable {
    /// The server for `host`, which is lower case and not empty. `matches` decides about regular expressions.
    pub fn find(&self, host: &[u8], mut matches: impl FnMut(&NamedRegex) -> bool) -> Option<usize> {
        if let Some(&server) = self.exact.get(host) {
            return Some(server);
        }
        let suffix = |(suffix, _): &&(Vec<u8>, usize)| host.len() > suffix.len() && host.ends_with(suffix);
        if let Some((_, server)) = self.suffixes.iter().find(suffix) {
            return Some(*server);
        }
        let prefix = |(prefix, _): &&(Vec<u8>, usize)| host.len() > prefix.len() && host.starts_with(prefix);
        if let Some((_, server)) = self.prefixes.iter().find(prefix) {
            return Some(*server);
        }
        self.regexes.iter().find(|(regex, _)| matches(regex)).map(|(_, server)| *server)
    }
}

/// A regular expression whose named groups set variables.
#[derive(Debug)]
pub struct NamedRegex {
    /// The expression.
    pub regex: Regex,
    /// Group and slot.
    pub slots: Vec<(usize, usize)>,
}

/// A `server` block.
pub struct VirtualServer {
    /// For `$server_name`.
    pub name: Box<[u8]>,
    /// Its own level, for requests that match no location.
    pub root: usize,
    /// Named locations.
    pub named: HashMap<Box<[u8]>, usize>,
    /// What it demands of request heads.
    pub client: model::ClientLimits,
    /// `http2` and `http2_*`.
    pub http2: model::Http2,
    /// `ssl_verify_client`, which holds also for one that shows another's certificate.
    pub verify: VerifyMode,
    /// By what it wants the certificates of clients to be judged.
    pub judge: Arc<ClientJudge>,
    /// How it speaks TLS; `None` for one that listens in the clear only.
    pub tls: Option<Arc<ServerTls>>,
}

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

/// An origin that answers, and what is decided about its answers.
pub struct Origin {
    /// Where it is, and how it is asked.
    pub backend: Backend,
    /// What is looked up, stored, and delivered though it is stale.
    pub policy: Policy,
}

/// Where an origin is, and how it is asked.
pub struct Backend {
    /// Tells the backends of a process apart: an object prepared for one is not delivered as it is for another.
    pub id: u64,
    /// Where.
    pub target: Target,
    /// In which protocol.
    pub protocol: Protocol,
    /// `*_bind`: the address of ours that it is asked from.
    pub bind: Option<Text>,
    /// `*_limit_rate`: how fast an answer is taken.
    pub limit_rate: Option<Text>,
    /// What the protocols have in common.
    pub settings: Arc<OriginShared>,
}

/// Who decides about a request that an origin may answer, and about its answer. The answers of each are in
/// [`policy`](crate::policy).
pub enum Policy {
    /// nginx's directives.
    Directives(Directives),
}

impl Policy {
    /// Whether answers are kept as files too: `*_store`.
    pub fn stores_files(&self) -> bool {
        match self {
            Self::Directives(policy) => policy.store.is_some(),
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

impl Backend {
    /// The scheme of the target, as far as it is written out.
    pub fn scheme(&self) -> Scheme {
        match (&self.protocol, &self.target) {
            (Protocol::Http(parts), Target::Group { .. }) => parts.scheme,
            (Protocol::Http(_), Target::Variable(text)) => match text.parts().first() {
                Some(Part::Literal(start)) => Scheme::split(start).0,
                Some(Part::Var(_) | Part::Capture(_)) | None => Scheme::Http,
            },
            (Protocol::FastCgi(_), _) => Scheme::Http,
        }
    }
}

/// Where answers are kept as files.
pub enum StorePath {
    /// Where the file of the URI would be.
    Root,
    /// At this path.
    Text(Text),
}

/// Settings and what is derived from them once.
pub struct OriginShared {
    /// As they were read.
    pub model: model::OriginSettings,
    /// Fields of the origin that are not passed on; lower case.
    pub hidden: Vec<Box<[u8]>>,
}

/// Where an origin is.
pub enum Target {
    /// A group.
    Group {
        /// Its place in the site.
        group: usize,
        /// Host as written in `proxy_pass`, for `$proxy_host` and the default `Host`.
        host: Box<[u8]>,
        /// The URI in `proxy_pass`, in place of the location's prefix.
        uri: Option<Box<[u8]>>,
    },
    /// A URL or address that comes from variables.
    Variable(Text),
}

/// The protocol of an origin, with what its requests are made of.
pub enum Protocol {
    /// FastCGI.
    FastCgi(FastCgiParts),
    /// HTTP.
    Http(HttpParts),
}

/// Whether an HTTP origin is spoken to in TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// `http://`.
    Http,
    /// `https://`.
    Https,
}

impl Scheme {
    /// The scheme of a URL, in any case, and what follows it.
    pub fn of(url: &[u8]) -> Option<(Self, &[u8])> {
        let [http, https] = [Self::Http, Self::Https].map(Self::prefix);
        match url {
            _ if starts_ignoring_case(url, http) => Some((Self::Http, &url[http.len()..])),
            _ if starts_ignoring_case(url, https) => Some((Self::Https, &url[https.len()..])),
            _ => None,
        }
    }

    /// The scheme of a URL that came from variables, and what follows it. One without is logged when it is asked.
    pub fn split(url: &[u8]) -> (Self, &[u8]) {
        Self::of(url).unwrap_or((Self::Http, url))
    }

    /// `http://` or `https://`.
    pub const fn prefix(self) -> &'static [u8] {
        match self {
            Self::Http => b"http://",
            Self::Https => b"https://",
        }
    }

    /// The port that is meant where none is written.
    pub const fn port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }
}

fn starts_ignoring_case(text: &[u8], start: &[u8]) -> bool {
    text.get(..start.len()).is_some_and(|found| found.eq_ignore_ascii_case(start))
}

/// What a FastCGI request is made of.
pub struct FastCgiParts {
    /// Names, values, and whether an empty value is left out.
    pub params: Vec<(Box<[u8]>, Text, bool)>,
    /// `fastcgi_index`.
    pub index: Option<Box<[u8]>>,
    /// `fastcgi_split_path_info`.
    pub split: Option<Regex>,
    /// `fastcgi_keep_conn`.
    pub keep: bool,
    /// `fastcgi_catch_stderr`.
    pub catch_stderr: Vec<Vec<u8>>,
}

/// What an HTTP request to an origin is made of.
pub struct HttpParts {
    /// `proxy_set_header`.
    pub headers: Vec<(Box<[u8]>, Text)>,
    /// `proxy_set_body`.
    pub body: Option<Text>,
    /// `proxy_method`.
    pub method: Option<Text>,
    /// HTTP/1.1.
    pub http_1_1: bool,
    /// Of a target that is written out; one from variables says it itself.
    pub scheme: Scheme,
    /// `proxy_ssl_*`, where it may be wanted.
    pub tls: Option<origin_tls::OriginTls>,
    /// `larder_proxy_protocol`.
    pub proxy_protocol: model::ProxyProtocol,
    /// `proxy_redirect`.
    pub redirects: Vec<Redirect>,
    /// `proxy_cookie_domain`.
    pub cookie_domains: Vec<(Find, Text)>,
    /// `proxy_cookie_path`.
    pub cookie_paths: Vec<(Find, Text)>,
    /// `proxy_cookie_flags`.
    pub cookie_flags: Vec<(Find, Vec<Text>)>,
}

/// One rule of `proxy_redirect`.
pub enum Redirect {
    /// From the URL of `proxy_pass` to the prefix of the location.
    Default,
    /// From and to.
    Replace(Find, Text),
}

/// What a rewriting of a field looks for.
pub enum Find {
    /// A text, at the beginning.
    Text(Text),
    /// An expression.
    Regex(NamedRegex),
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

/// A rewrite directive.
pub enum Op {
    /// `set`, to a slot.
    Set(SetTarget, Text),
    /// `if`: the rewrite directives inside, and the location that holds then.
    If(Condition, Vec<Op>, Option<usize>),
    /// `rewrite`.
    Rewrite(Box<RewriteOp>),
    /// `return`.
    Return(u16, Option<Text>),
    /// `break`.
    Break,
}

/// What `set` changes.
pub enum SetTarget {
    /// A slot.
    Slot(usize),
    /// `$args`.
    Args,
    /// `$limit_rate`.
    LimitRate,
}

/// A `rewrite`.
pub struct RewriteOp {
    /// Matched against the URI.
    pub regex: NamedRegex,
    /// What it becomes.
    pub replacement: Text,
    /// Whether the arguments of the request are added.
    pub append_args: bool,
    /// What happens next.
    pub flag: model::RewriteFlag,
}

/// The condition of an `if`.
pub enum Condition {
    /// Neither empty nor `0`.
    True(Text),
    /// Equal, or not.
    Equal(Text, Text, bool),
    /// Matches, or not.
    Match(Text, NamedRegex, bool),
    /// A question about a file, or its contrary.
    File(model::FileTest, Text, bool),
}

/// A variable with a slot.
pub struct UserVar {
    /// Without the dollar.
    pub name: String,
    /// Where its value comes from when nothing has set it.
    pub source: UserVarSource,
    /// What `set` makes may be named like a field, cookie or argument, and is that while nothing has set it.
    pub otherwise: Option<Var>,
}

/// See [`UserVar`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UserVarSource {
    /// Only `set` and named groups.
    Set,
    /// A `map`.
    Map(usize),
    /// A `geo`.
    Geo(usize),
    /// A `split_clients`.
    Split(usize),
}

/// A `map`.
pub struct MapPart {
    /// What is looked up.
    pub source: Text,
    /// The strings.
    pub table: Map,
    /// The expressions, by entry.
    pub regexes: Vec<NamedRegex>,
    /// The values, by entry.
    pub values: Vec<Text>,
    /// The value when nothing matches.
    pub default: Text,
    /// Looked up anew every time.
    pub volatile: bool,
}

/// A `geo`.
pub struct GeoPart {
    /// The address; the client's when none is given.
    pub source: Option<Text>,
    /// The table.
    pub table: Geo,
    /// The values, by entry.
    pub values: Vec<Box<[u8]>>,
    /// The value when no entry is about the address.
    pub default: Box<[u8]>,
    /// Whose `X-Forwarded-For` is believed.
    pub proxies: Option<crate::realip::Trusted>,
    /// Whether it is believed recursively.
    pub recursive: bool,
    /// Whether the value is asked for anew each time.
    pub volatile: bool,
}

/// A `split_clients`.
pub struct SplitPart {
    /// What is hashed.
    pub source: Text,
    /// The shares.
    pub table: Split,
    /// The values.
    pub values: Vec<Text>,
}

/// An access log and how its lines look.
pub struct AccessLog {
    /// Where to.
    pub target: AccessLogTarget,
    /// The line.
    pub format: Vec<crate::text::Part>,
    /// How values are escaped.
    pub escape: model::LogEscape,
    /// `buffer=` and `flush=`.
    pub buffer: Option<(usize, Option<Duration>)>,
    /// `gzip`.
    pub gzip: Option<u8>,
}

/// Where an access log goes.
pub enum AccessLogTarget {
    /// A fixed place.
    Fixed(model::LogTarget),
    /// A path with variables.
    Variable(Text),
}

/// Finds the listener for a connection accepted at `local`: the exact address first, then the wildcard of its port.
pub fn listener_for(listeners: &[Listener], bound: &ListenAddress, local: Option<SocketAddr>) -> Option<usize> {
    let exact = local.and_then(|local| listeners.iter().position(|l| l.address == ListenAddress::Tcp(local)));
    exact.or_else(|| listeners.iter().position(|l| l.address == *bound))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listeners(addresses: &[&str]) -> Vec<Listener> {
        let listener = |address: &&str| Listener {
            address: ListenAddress::Tcp(address.parse().expect("the address is literal")),
            default: 0,
            names: NameTable::default(),
            tls: false,
            http2: false,
            proxy_protocol: false,
        };
        addresses.iter().map(listener).collect()
    }

    #[test]
    fn the_exact_address_comes_before_the_wildcard_of_its_port() {
        let all = listeners(&["0.0.0.0:80", "127.0.0.1:80", "0.0.0.0:81"]);
        let wildcard = |port: u16| ListenAddress::Tcp(([0, 0, 0, 0], port).into());
        for (bound, local, place) in [
            (wildcard(80), "127.0.0.1:80", Some(1)),
            (wildcard(80), "10.0.0.1:80", Some(0)),
            (wildcard(81), "127.0.0.1:81", Some(2)),
            (wildcard(82), "127.0.0.1:82", None),
        ] {
            let local = local.parse().expect("the address is literal");
            assert_eq!(listener_for(&all, &bound, Some(local)), place, "{local}");
        }
    }
}
