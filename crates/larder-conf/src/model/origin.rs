//! What `fastcgi_*` and `proxy_*` have in common.

use std::path::PathBuf;
use std::time::Duration;

use super::{OriginCache, Template};

/// What `fastcgi_*` and `proxy_*` have in common.
#[derive(Clone, Debug)]
pub struct OriginSettings {
    /// How its connections are made and how long they may be silent.
    pub connection: OriginConnection,
    /// What it is sent.
    pub request: OriginRequest,
    /// What is done with its answer.
    pub response: OriginResponse,
    /// How much of an answer waits for the client, and where.
    pub buffers: OriginBuffers,
    /// `*_next_upstream` and its limits.
    pub next_upstream: NextUpstreamSettings,
    /// `*_ignore_headers`.
    pub ignore_headers: IgnoreHeaders,
    /// `*_ignore_client_abort`, off.
    pub ignore_client_abort: bool,
    /// `*_cache`, `*_cache_*` and `*_no_cache`.
    pub cache: OriginCache,
    /// `*_store`, off. Where it is on, `cache.zone` is `None`, and the other way round.
    pub store: Store,
    /// `*_store_access`: what owner, group and others may, `user:rw`.
    pub store_access: u32,
}

impl Default for OriginSettings {
    fn default() -> Self {
        Self {
            connection: OriginConnection::default(),
            request: OriginRequest::default(),
            response: OriginResponse::default(),
            buffers: OriginBuffers::default(),
            next_upstream: NextUpstreamSettings::default(),
            ignore_headers: IgnoreHeaders::default(),
            ignore_client_abort: false,
            cache: OriginCache::default(),
            store: Store::Off,
            store_access: 0o600,
        }
    }
}

/// How connections to an origin are made.
#[derive(Clone, Debug)]
pub struct OriginConnection {
    /// `*_connect_timeout`, 60 s.
    pub connect_timeout: Duration,
    /// `*_send_timeout`, 60 s.
    pub send_timeout: Duration,
    /// `*_read_timeout`, 60 s.
    pub read_timeout: Duration,
    /// `*_socket_keepalive`, off.
    pub socket_keepalive: bool,
    /// `*_bind`.
    pub bind: Option<Template>,
    /// `*_bind ... transparent`: the address need not be one of ours.
    pub bind_transparent: bool,
}

impl Default for OriginConnection {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(60),
            send_timeout: Duration::from_secs(60),
            read_timeout: Duration::from_secs(60),
            socket_keepalive: false,
            bind: None,
            bind_transparent: false,
        }
    }
}

/// What an origin is sent of a request.
#[derive(Clone, Copy, Debug)]
pub struct OriginRequest {
    /// `*_pass_request_headers`, on.
    pub pass_headers: bool,
    /// `*_pass_request_body`, on.
    pub pass_body: bool,
    /// `*_request_buffering`, on.
    pub buffering: bool,
}

impl Default for OriginRequest {
    fn default() -> Self {
        Self { pass_headers: true, pass_body: true, buffering: true }
    }
}

/// What is done with the answer of an origin.
#[derive(Clone, Debug)]
pub struct OriginResponse {
    /// `*_buffering`, on.
    pub buffering: bool,
    /// `*_hide_header`, lower-case, beside the built-in ones.
    pub hide_headers: Vec<String>,
    /// `*_pass_header`, lower-case: taken from the built-in ones that are hidden.
    pub pass_headers: Vec<String>,
    /// `*_intercept_errors`, off.
    pub intercept_errors: bool,
    /// `*_force_ranges`, off.
    pub force_ranges: bool,
    /// `*_limit_rate`, bytes a second.
    pub limit_rate: Option<Template>,
}

impl Default for OriginResponse {
    fn default() -> Self {
        Self {
            buffering: true,
            hide_headers: Vec::new(),
            pass_headers: Vec::new(),
            intercept_errors: false,
            force_ranges: false,
            limit_rate: None,
        }
    }
}

/// How much of the answer of an origin waits for the client, and where.
#[derive(Clone, Debug)]
pub struct OriginBuffers {
    /// `*_buffer_size`: the head must fit, 4k.
    pub head_bytes: usize,
    /// The number of `*_buffers`, 8. A response may hold `count` times `bytes` in memory, but at least `head_bytes`,
    /// before a file is used.
    pub count: usize,
    /// The size of each of `*_buffers`, 4k.
    pub bytes: usize,
    /// `*_busy_buffers_size`; read and checked.
    pub busy_bytes: Option<usize>,
    /// `*_max_temp_file_size`, 1024m.
    pub max_temp_file_bytes: u64,
    /// `*_temp_path`; `None` for the built-in one.
    pub temp_path: Option<PathBuf>,
}

impl Default for OriginBuffers {
    fn default() -> Self {
        Self {
            head_bytes: 4096,
            count: 8,
            bytes: 4096,
            busy_bytes: None,
            max_temp_file_bytes: 1 << 30,
            temp_path: None,
        }
    }
}

/// When the next origin of a group is asked.
#[derive(Clone, Copy, Debug)]
pub struct NextUpstreamSettings {
    /// `*_next_upstream`; `error timeout` unless told.
    pub on: NextUpstream,
    /// `*_next_upstream_tries`, 0 for no limit.
    pub tries: u32,
    /// `*_next_upstream_timeout`, `None` for no limit.
    pub timeout: Option<Duration>,
}

impl Default for NextUpstreamSettings {
    fn default() -> Self {
        Self { on: NextUpstream { error: true, timeout: true, ..NextUpstream::default() }, tries: 0, timeout: None }
    }
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

impl IgnoreHeaders {
    /// All.
    pub const ALL: Self = Self {
        x_accel_redirect: true,
        x_accel_expires: true,
        x_accel_limit_rate: true,
        x_accel_buffering: true,
        x_accel_charset: true,
        expires: true,
        cache_control: true,
        set_cookie: true,
        vary: true,
    };
}
