//! What holds at a level.

use std::sync::Arc;
use std::time::Duration;

use super::{
    AccessLog, AccessRule, AddHeader, At, ClientBody, ClientConnection, Compression, Edits, ErrorLog, ErrorPage,
    Expires, FastCgi, Files, IfModifiedSince, LimitReq, LogLevel, Modules, Proxy, RealIpFrom, Resolver, ServerTokens,
    Subrequests, Template,
};

/// What holds at a level: all that `http`, `server` and `location` have in common, inherited.
#[derive(Clone, Debug)]
pub struct Settings {
    /// `charset`; `None` for `off`.
    pub charset: Option<Template>,
    /// `charset_types`; `*` stands for all.
    pub charset_types: Vec<String>,
    /// `override_charset`.
    pub override_charset: bool,
    /// `limit_rate`, bytes a second; `0` for none.
    pub limit_rate: Option<Template>,
    /// `limit_rate_after`.
    pub limit_rate_after: Option<Template>,
    /// `error_page`, in order.
    pub error_pages: Vec<ErrorPage>,
    /// `recursive_error_pages`.
    pub recursive_error_pages: bool,
    /// `log_subrequest`, off.
    pub log_subrequest: bool,
    /// `auth_delay`, 0.
    pub auth_delay: Duration,
    /// `satisfy any`.
    pub satisfy_any: bool,
    /// `server_tokens`.
    pub server_tokens: ServerTokens,
    /// `if_modified_since`, exact.
    pub if_modified_since: IfModifiedSince,
    /// `max_ranges`; `None` for no limit.
    pub max_ranges: Option<u32>,
    /// `slice`; 0 for off.
    pub slice_bytes: u64,
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
    /// Files that are served: `root`, `index`, `types` and the like.
    pub files: Files,
    /// What becomes of the body of a request: `client_body_*`.
    pub body: ClientBody,
    /// How long a connection to a client lasts, and how it is written to.
    pub connection: ClientConnection,
    /// `fastcgi_*`.
    pub fastcgi: Arc<FastCgi>,
    /// `proxy_*`.
    pub proxy: Arc<Proxy>,
    /// `gzip`, `brotli`, `zstd` and their kind.
    pub compression: Arc<Compression>,
    /// SSI, `add_*_body`, `auth_request`, `mirror`.
    pub subrequests: Arc<Subrequests>,
    /// What the smaller modules are told: `sub_filter`, `userid` and the like.
    pub modules: Arc<Modules>,
    /// `larder_cache_status on`: send `Cache-Status` (RFC 9211).
    pub cache_status_header: bool,
}
