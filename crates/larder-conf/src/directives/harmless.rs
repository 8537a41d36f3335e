//! Directives that tune what larder tunes itself or does not need. Each is accepted and reported once.

use super::{Action, Args, Contexts, DirectiveInfo, EVENTS, HS, HSL, HTTP, LOCATION, MAIN, ONE, SERVER, repeated};

const SELF: Action = Action::Harmless("larder finds the right value by itself");
const IO: Action = Action::Harmless("larder sends and reads files in the way that pays");
const MEMORY: Action = Action::Harmless("memory is managed without pools of that kind");
const EVENT_LOOP: Action = Action::Harmless("there is one event loop a core, and nothing to tune about it");
const OLD_BROWSERS: Action = Action::Harmless("the browsers it was for are gone");
const STORED: Action = Action::Harmless("larder buffers request bodies and answers in its own way");
/// Where the rewrite module lets its switches stand.
const REWRITE: Contexts = HSL.or(Contexts::IF_IN_SERVER).or(Contexts::IF_IN_LOCATION);

pub const TABLE: &[DirectiveInfo] = &[
    repeated("use", EVENTS, ONE, EVENT_LOOP),
    repeated("multi_accept", EVENTS, Args::Flag, EVENT_LOOP),
    repeated("accept_mutex", EVENTS, Args::Flag, EVENT_LOOP),
    repeated("accept_mutex_delay", EVENTS, ONE, EVENT_LOOP),
    repeated("debug_connection", EVENTS, ONE, Action::Harmless("debug logging is not by connection")),
    repeated("epoll_events", EVENTS, ONE, EVENT_LOOP),
    repeated("worker_aio_requests", EVENTS, ONE, EVENT_LOOP),
    repeated("timer_resolution", MAIN, ONE, EVENT_LOOP),
    repeated("lock_file", MAIN, ONE, Action::Harmless("no lock between processes is needed")),
    repeated("worker_cpu_affinity", MAIN, Args::AtLeast(1), EVENT_LOOP),
    repeated("worker_priority", MAIN, ONE, Action::Harmless("set it from outside, with nice or in the unit file")),
    repeated("worker_rlimit_core", MAIN, ONE, Action::Harmless("set it from outside, in the unit file")),
    repeated("debug_points", MAIN, ONE, Action::Harmless("it is for those who debug nginx")),
    repeated("thread_pool", MAIN, Args::Between(2, 3), IO),
    repeated("pcre_jit", MAIN, Args::Flag, Action::Harmless("patterns are always compiled to machine code")),
    repeated("quic_bpf", MAIN, Args::Flag, Action::Harmless("HTTP/3 is not spoken yet")),
    repeated("google_perftools_profiles", MAIN, ONE, Action::Harmless("it is for those who profile nginx")),
    repeated("variables_hash_max_size", HTTP, ONE, SELF),
    repeated("variables_hash_bucket_size", HTTP, ONE, SELF),
    repeated("server_names_hash_max_size", HTTP, ONE, SELF),
    repeated("server_names_hash_bucket_size", HTTP, ONE, SELF),
    repeated("map_hash_max_size", HTTP, ONE, SELF),
    repeated("map_hash_bucket_size", HTTP, ONE, SELF),
    repeated("types_hash_max_size", HSL, ONE, SELF),
    repeated("types_hash_bucket_size", HSL, ONE, SELF),
    repeated("proxy_headers_hash_max_size", HSL, ONE, SELF),
    repeated("proxy_headers_hash_bucket_size", HSL, ONE, SELF),
    repeated("connection_pool_size", HS, ONE, MEMORY),
    repeated("request_pool_size", HS, ONE, MEMORY),
    repeated("tcp_nopush", HSL, Args::Flag, IO),
    repeated("tcp_nodelay", HSL, Args::Flag, IO),
    repeated("sendfile_max_chunk", HSL, ONE, IO),
    repeated("aio", HSL, ONE, IO),
    repeated("aio_write", HSL, Args::Flag, IO),
    repeated("directio", HSL, ONE, IO),
    repeated("directio_alignment", HSL, ONE, IO),
    repeated("read_ahead", HSL, ONE, IO),
    repeated("send_lowat", HSL, ONE, IO),
    repeated("output_buffers", HSL, Args::Between(2, 2), IO),
    repeated("postpone_output", HSL, ONE, IO),
    repeated("open_file_cache_events", HSL, Args::Flag, IO),
    repeated("client_body_in_single_buffer", HSL, Args::Flag, STORED),
    repeated("client_body_early_read", HS, Args::AtLeast(1), STORED),
    repeated("keepalive_min_timeout", HSL, ONE, Action::Harmless("connections are closed without losing a request")),
    repeated("msie_padding", HSL, Args::Flag, OLD_BROWSERS),
    repeated("msie_refresh", HSL, Args::Flag, OLD_BROWSERS),
    repeated("degradation", HTTP, ONE, MEMORY),
    repeated("degrade", HSL, ONE, MEMORY),
    repeated("rewrite_log", REWRITE, Args::Flag, Action::Harmless("steps of rewriting are not logged")),
    repeated(
        "uninitialized_variable_warn",
        REWRITE,
        Args::Flag,
        Action::Harmless("a variable without a value is empty, without a word"),
    ),
    repeated("fastcgi_temp_file_write_size", HSL, ONE, IO),
    repeated("proxy_temp_file_write_size", HSL, ONE, IO),
    repeated("fastcgi_send_lowat", HSL, ONE, IO),
    repeated("proxy_send_lowat", HSL, ONE, IO),
    repeated("fastcgi_socket_rcvbuf", HSL, ONE, IO),
    repeated("fastcgi_socket_sndbuf", HSL, ONE, IO),
    repeated("proxy_socket_rcvbuf", HSL, ONE, IO),
    repeated("proxy_socket_sndbuf", HSL, ONE, IO),
    repeated("referer_hash_max_size", SERVER.or(LOCATION), ONE, SELF),
    repeated("referer_hash_bucket_size", SERVER.or(LOCATION), ONE, SELF),
    repeated(
        "pagespeed",
        REWRITE.or(HTTP),
        Args::AtLeast(1),
        Action::Lost("pages go out as the application made them"),
    ),
    repeated("dav_access", HSL, Args::Between(1, 3), NO_DAV),
    repeated("create_full_put_path", HSL, Args::Flag, NO_DAV),
    repeated("min_delete_depth", HSL, ONE, NO_DAV),
];

const NO_DAV: Action = Action::Harmless("no method is handled without dav_methods");
