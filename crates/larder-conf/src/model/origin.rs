//! What `fastcgi_*` and `proxy_*` have in common.

use std::path::PathBuf;
use std::time::Duration;

use super::{OriginCache, Template};

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
    /// `*_cache`, `*_cache_*` and `*_no_cache`.
    pub cache: OriginCache,
    /// `*_store`, off. Where it is on, `cache.zone` is `None`, and the other way round.
    pub store: Store,
    /// `*_store_access`: what owner, group and others may, `user:rw`.
    pub store_access: u32,
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
