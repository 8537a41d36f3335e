//! What `fastcgi_*` and `proxy_*` have in common.

use std::path::PathBuf;
use std::time::Duration;

use super::{CachePurge, CacheValid, Template, UseStale};

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
