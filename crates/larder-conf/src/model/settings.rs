//! What holds at a level.

use std::sync::Arc;
use std::time::Duration;

use super::{
    AccessLog, AccessRule, At, ClientBody, ClientConnection, Compression, ErrorLog, ErrorPages, FastCgi, FieldSettings,
    Files, LimitReq, LogLevel, Modules, Parts, Proxy, RealIpFrom, Redirects, Resolver, Subrequests, Template,
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
    /// `log_subrequest`, off.
    pub log_subrequest: bool,
    /// `auth_delay`, 0.
    pub auth_delay: Duration,
    /// `satisfy any`.
    pub satisfy_any: bool,
    /// `allow` and `deny`, in order.
    pub access: Vec<AccessRule>,
    /// `auth_basic`; `None` for `off`.
    pub auth_basic: Option<Template>,
    /// `auth_basic_user_file`.
    pub auth_basic_user_file: Option<Template>,
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
    /// `error_page` and `recursive_error_pages`.
    pub errors: ErrorPages,
    /// Fields that are added to a response, or changed.
    pub fields: FieldSettings,
    /// How redirects of our own are written.
    pub redirects: Redirects,
    /// How much of a page is sent: conditions, ranges, slices.
    pub parts: Parts,
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
}
