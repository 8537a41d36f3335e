//! `http` and `server`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::{
    AcmeOrder, At, CachePath, CharsetMap, Cluster, Geo, Http2, LimitConnZone, LimitReqZone, Location, LogFormat, Map,
    Placement, Rewrite, ServerName, Settings, SplitClients, Tls, Upstream,
};
use crate::span::Span;

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
    /// `larder_cluster`.
    pub cluster: Option<Cluster>,
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
    /// The first of `names` that is a host, in lower case.
    pub host: Option<String>,
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
    /// `status_zone` of the server.
    pub status_zone: Option<String>,
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

impl Default for ClientLimits {
    fn default() -> Self {
        Self {
            header_timeout: Duration::from_secs(60),
            header_buffer_bytes: 1024,
            large_header_buffers: (4, 8192),
            ignore_invalid_headers: true,
            underscores_in_headers: false,
            merge_slashes: true,
            max_headers: 1000,
        }
    }
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
    /// `larder_admin`: the admin API answers here, and nothing else. All of a server's listens have it, or none.
    pub admin: bool,
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

impl ListenAddress {
    /// The address of one that has a port.
    pub fn tcp(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(address) => Some(*address),
            Self::Unix(_) => None,
        }
    }
}
