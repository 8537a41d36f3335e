//! What holds at a level.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::{
    AccessLog, AccessRule, AddHeader, At, BodyInFile, Compression, Edits, ErrorLog, ErrorPage, Expires, FastCgi, Files,
    IfModifiedSince, KeepaliveDisable, LimitReq, LingeringClose, LogLevel, Modules, Proxy, RealIpFrom, Resolver,
    ServerTokens, Subrequests, Template,
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
