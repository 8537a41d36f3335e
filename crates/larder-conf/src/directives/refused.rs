//! Directives that larder knows but does not have: each error names their module and what to do instead.

use super::{Action, Args, Contexts, DirectiveInfo, Refusal, repeated};

const ANY_ARGS: Args = Args::AtLeast(0);
const ANYWHERE: Contexts = Contexts(u16::MAX);

pub const fn refused(
    name: &'static str,
    module: &'static str,
    advice: &'static str,
    harmless_with: &'static [&'static str],
) -> DirectiveInfo {
    repeated(name, ANYWHERE, ANY_ARGS, Action::Refused(Refusal { module, advice, harmless_with }))
}

pub const OFF: &[&str] = &["off"];
pub const NEVER: &[&str] = &[];
const REMOVE: &str = "remove it, or keep nginx for this site";
pub const IN_ANOTHER: &str = "keep nginx for it, and send it what it is good at with \"proxy_pass\"";
const ACME: &str = "use \"larder_acme_account\" in \"http\" and \"larder_acme on\" in the server";
const PLUS: &str = "NGINX Plus";
const SRCACHE: &str = "the srcache module";
const REDIS: &str = "the redis modules";
const SET_MISC: &str = "the set-misc module";
const UNESCAPED: &str = "remove it; where it makes the key of a Redis or memcached location, remove that location: \"fastcgi_cache\" does its work";
const WITH_LOCATION: &str = "remove its location: \"fastcgi_cache\" looks pages up and stores them by itself";
const ESCAPED_KEY: &str = "remove it: \"fastcgi_cache_key\" takes the key as it is";
const LUA: &str = "the Lua module (OpenResty)";

pub static TABLE: &[DirectiveInfo] = &[
    refused("ssl_engine", "OpenSSL's engines", "keep the keys in files that only root can read", NEVER),
    refused("ssl_ech_file", "ngx_http_ssl_module", "remove it; clients then send the name in the open", NEVER),
    refused("ssl_key_log", PLUS, REMOVE, OFF),
    refused("proxy_ssl_key_log", PLUS, REMOVE, OFF),
    refused("zstd_dict_file", "the zstd module", "remove it; browsers do not have the dictionary", NEVER),
    refused("proxy_pass_trailers", "ngx_http_proxy_module", "remove it", OFF),
    refused("auth_jwt", PLUS, REMOVE, OFF),
    refused(
        "uwsgi_pass",
        "ngx_http_uwsgi_module",
        "run the application with an HTTP server and use \"proxy_pass\"",
        NEVER,
    ),
    refused(
        "scgi_pass",
        "ngx_http_scgi_module",
        "run the application with an HTTP server and use \"proxy_pass\"",
        NEVER,
    ),
    refused("grpc_pass", "ngx_http_grpc_module", IN_ANOTHER, NEVER),
    refused("memcached_pass", "ngx_http_memcached_module", "use \"proxy_cache\" or \"fastcgi_cache\"", NEVER),
    refused("tunnel_pass", "ngx_http_tunnel_module", IN_ANOTHER, NEVER),
    refused("perl", "ngx_http_perl_module", IN_ANOTHER, NEVER),
    refused("perl_set", "ngx_http_perl_module", IN_ANOTHER, NEVER),
    refused("perl_modules", "ngx_http_perl_module", IN_ANOTHER, NEVER),
    refused("perl_require", "ngx_http_perl_module", IN_ANOTHER, NEVER),
    refused("mail", "ngx_mail_core_module", "larder speaks HTTP only; keep nginx for mail", NEVER),
    refused("stream", "ngx_stream_core_module", "larder speaks HTTP only; keep nginx for TCP and UDP", NEVER),
    refused("rtmp", "the RTMP module", "larder speaks HTTP only; keep nginx for RTMP", NEVER),
    refused("xslt_stylesheet", "ngx_http_xslt_module", IN_ANOTHER, NEVER),
    refused("image_filter", "ngx_http_image_filter_module", IN_ANOTHER, OFF),
    refused("dav_methods", "ngx_http_dav_module", IN_ANOTHER, OFF),
    refused("post_action", "ngx_http_core_module", "remove it", OFF),
    refused("sticky", "ngx_http_upstream_sticky_module", "use \"ip_hash\" or \"hash $cookie_name consistent\"", NEVER),
    refused("health_check", PLUS, "remove it; \"max_fails\" and \"fail_timeout\" watch the origins", NEVER),
    refused("match", PLUS, "remove it with the \"health_check\" it is for", NEVER),
    refused("state", PLUS, "remove it", NEVER),
    refused("ntlm", PLUS, REMOVE, NEVER),
    refused("keyval", PLUS, "use a \"map\"", NEVER),
    refused("keyval_zone", PLUS, "use a \"map\"", NEVER),
    refused("limit_zone", "nginx before 1.1.8", "use \"limit_conn_zone\"", NEVER),
    refused("optimize_server_names", "nginx before 1.0", "use \"server_name_in_redirect\"", NEVER),
    refused("open_file_cache_retest", "nginx before 1.0", "use \"open_file_cache_valid\"", NEVER),
    refused("echo", "the echo module", "use \"return 200 text\"", NEVER),
    refused("modsecurity", "ModSecurity", IN_ANOTHER, OFF),
    refused("passenger_enabled", "Passenger", "run Passenger standalone and use \"proxy_pass\"", OFF),
    refused(
        "vhost_traffic_status_display",
        "the vhost traffic status module",
        "use \"larder_status\", \"larder_metrics\" or \"stub_status\"",
        NEVER,
    ),
    refused(
        "srcache_fetch",
        SRCACHE,
        "use \"fastcgi_cache ZONE\" with the same key in \"fastcgi_cache_key\"; docs/recipes.md has both side by side",
        NEVER,
    ),
    refused("srcache_store", SRCACHE, "remove it: what \"fastcgi_cache\" looks up it stores too", NEVER),
    refused("srcache_fetch_skip", SRCACHE, "use \"fastcgi_cache_bypass\"", &["0"]),
    refused("srcache_store_skip", SRCACHE, "use \"fastcgi_no_cache\"", &["0"]),
    refused("srcache_default_expire", SRCACHE, "use \"fastcgi_cache_valid 200 TIME\"", NEVER),
    refused(
        "srcache_response_cache_control",
        SRCACHE,
        "use \"fastcgi_ignore_headers Cache-Control Expires\" for \"off\", and nothing for \"on\"",
        &["on"],
    ),
];

/// Names of modules with many directives, by how they begin.
pub static PREFIXES: &[DirectiveInfo] = &[
    refused("acme_", "the ACME module", ACME, NEVER),
    family("uwsgi_", "nothing comes of it without uwsgi_pass"),
    family("scgi_", "nothing comes of it without scgi_pass"),
    family("grpc_", "nothing comes of it without grpc_pass"),
    family("memcached_", "nothing comes of it without memcached_pass"),
    family("tunnel_", "nothing comes of it without tunnel_pass"),
    family("xslt_", "nothing comes of it without xslt_stylesheet"),
    family("xml_", "nothing comes of it without xslt_stylesheet"),
    family("image_filter_", "nothing comes of it without image_filter"),
    family("passenger_", "nothing comes of it without passenger_enabled"),
    family("lua_", "nothing comes of it without code in Lua"),
    refused("geoip_", "ngx_http_geoip_module", "use \"geo\" with the ranges you need", NEVER),
    refused("geoip2", "the GeoIP2 module", "use \"geo\" with the ranges you need", NEVER),
    refused("js_", "the njs module", IN_ANOTHER, NEVER),
    refused("auth_jwt_", PLUS, REMOVE, NEVER),
    refused("echo_", "the echo module", "use \"return 200 text\"", NEVER),
    refused(
        "srcache_",
        SRCACHE,
        "use the \"fastcgi_cache_*\" directives; docs/recipes.md has both side by side",
        NEVER,
    ),
    refused("redis", REDIS, WITH_LOCATION, NEVER),
    refused("memc_", "the memc module", WITH_LOCATION, NEVER),
    refused("set_escape_uri", SET_MISC, ESCAPED_KEY, NEVER),
    refused("set_unescape_uri", SET_MISC, UNESCAPED, NEVER),
    refused("set_by_lua", LUA, IN_ANOTHER, NEVER),
    refused("modsecurity_", "ModSecurity", IN_ANOTHER, NEVER),
    family("vhost_traffic_status", "nothing comes of it without vhost_traffic_status_display"),
    family("ssl_dyn_rec_", "the size of TLS records is chosen by itself"),
    family("upload_progress_", "nothing comes of it without upload_progress"),
    refused("upload_", "the upload module", IN_ANOTHER, NEVER),
    refused("push_stream_", "the push stream module", IN_ANOTHER, NEVER),
    refused("nchan_", "Nchan", IN_ANOTHER, NEVER),
    refused("otel_", "the OpenTelemetry module", "remove it", NEVER),
    refused("opentracing", "the OpenTracing module", "remove it", NEVER),
    refused("health_check_", PLUS, "remove it", NEVER),
];

/// All that ends as code in Lua does.
pub static BY_LUA: DirectiveInfo = refused("by_lua", LUA, IN_ANOTHER, NEVER);

pub const fn family(prefix: &'static str, why: &'static str) -> DirectiveInfo {
    repeated(prefix, ANYWHERE, ANY_ARGS, Action::Harmless(why))
}
