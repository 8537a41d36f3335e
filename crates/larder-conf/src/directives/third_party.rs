//! Directives of third-party modules that many builds of nginx have: each error names the module and what to do
//! instead.

use super::DirectiveInfo;
use super::refused::{IN_ANOTHER, NEVER, OFF, family, refused};

const SET_MISC: &str = "the set-misc module";
const DIGEST: &str = "let the application make it; \"secure_link\" checks the MD5 of a link";
const RANDOM: &str = "use \"$request_id\", or \"split_clients\" to divide visitors";
const ENCODED: &str = "remove it, and let the application encode what it needs";
const TIME: &str = "use \"$time_iso8601\", \"$time_local\" or \"$msec\"";
const SESSION: &str = "the encrypted session module";
const NAXSI: &str = "Naxsi";
const NAXSI_ADVICE: &str = "keep nginx with Naxsi before larder, or remove its lines";
const ASK: &str = "use \"auth_request\" with a service that asks there";
const STATUS: &str = "use \"larder_metrics\" or \"stub_status\"";
const CHECK: &str = "the upstream check module (Tengine)";
const NO_CHECKS: &str = "remove it; \"max_fails\" and \"fail_timeout\" watch the origins";
const STICKY: &str = "use \"ip_hash\" or \"hash $cookie_name consistent\"";
const RESOLVE: &str = "use \"server NAME resolve\" in the \"upstream\", with a \"resolver\"";
const SECURITY: &str = "the security headers module";
const SUBSTITUTE: &str = "use \"sub_filter\" with the texts written out";
const SHRINK: &str = "remove it; compression saves more";
const CONNECT: &str = "the proxy_connect module";
const PROGRESS: &str = "the upload progress module";
const NO_PROGRESS: &str =
    "remove this line, which is enough: uploads work without it, and only the bar of progress is missing";

/// Those with a name of their own.
pub static TABLE: &[DirectiveInfo] = &[
    refused("set_random", SET_MISC, RANDOM, NEVER),
    refused("set_rotate", SET_MISC, "use \"split_clients\"", NEVER),
    refused("set_if_empty", SET_MISC, "use a \"map\" with a value for the empty one", NEVER),
    refused("set_hashed_upstream", SET_MISC, "use \"hash\" in the \"upstream\"", NEVER),
    refused("set_md5", SET_MISC, DIGEST, NEVER),
    refused("set_sha1", SET_MISC, DIGEST, NEVER),
    refused("set_local_today", SET_MISC, TIME, NEVER),
    refused("set_cookie_flag", "the cookie flag module", "use \"proxy_cookie_flags\", or set the flags in PHP", NEVER),
    refused(
        "set_from_accept_language",
        "the accept language module",
        "use a \"map\" of \"$http_accept_language\"",
        NEVER,
    ),
    refused("set_encrypt_session", SESSION, IN_ANOTHER, NEVER),
    refused("set_decrypt_session", SESSION, IN_ANOTHER, NEVER),
    refused("set_iconv", "the iconv module", "use \"charset\" and \"source_charset\"", NEVER),
    refused("eval", "the eval module", "use \"auth_request\" and \"auth_request_set\", or SSI", NEVER),
    refused("fancyindex", "the fancyindex module", "use \"autoindex on\"", OFF),
    refused("auth_ldap", "the LDAP module", ASK, OFF),
    refused("auth_pam", "the PAM module", ASK, OFF),
    refused("auth_digest", "the digest module", "use \"auth_basic\" over TLS", OFF),
    refused("auth_gss", "the SPNEGO module", ASK, OFF),
    refused("ldap_server", "the LDAP module", ASK, NEVER),
    refused(
        "length_hiding",
        "the length hiding module",
        "remove it; \"larder_compress_private off\" keeps secrets out of what is compressed",
        OFF,
    ),
    refused("testcookie", "the testcookie module", "remove it, and limit robots with \"limit_req\"", OFF),
    refused("slowfs_cache", "the slowfs_cache module", "remove it; files that are read often stay in memory", OFF),
    refused(
        "concat",
        "the concat module (Tengine)",
        "let the application put its files together; HTTP/2 makes many cheap",
        OFF,
    ),
    refused("trim", "the trim module (Tengine)", SHRINK, OFF),
    refused("strip", "the strip module", SHRINK, OFF),
    refused("check", CHECK, NO_CHECKS, NEVER),
    refused("fair", "the upstream fair module", "use \"least_conn\" or \"least_time\"", NEVER),
    refused("consistent_hash", "the consistent hash module", "use \"hash KEY consistent\"", NEVER),
    refused("upstream_hash", "the upstream hash module", "use \"hash KEY consistent\"", NEVER),
    refused("jdomain", "the jdomain module", RESOLVE, NEVER),
    refused("dynamic_resolve", "Tengine", RESOLVE, NEVER),
    refused("security_headers", SECURITY, "write them out with \"add_header ... always\"", OFF),
    refused("hide_server_tokens", SECURITY, "use \"server_tokens off\"", OFF),
    refused("immutable", "the immutable module", "use \"expires max\" and \"add_header Cache-Control immutable\"", OFF),
    refused("dynamic_etag", "the dynamic ETag module", "remove it: what the application sends goes out as it is", OFF),
    refused("small_light", "the small light module", IN_ANOTHER, OFF),
    refused("vod", "the VOD module", IN_ANOTHER, NEVER),
    refused("hls", "NGINX Plus", IN_ANOTHER, NEVER),
    refused("waf", "ngx_waf", IN_ANOTHER, OFF),
    refused("array_split", "the array-var module", IN_ANOTHER, NEVER),
    refused("array_join", "the array-var module", IN_ANOTHER, NEVER),
    refused("proxy_connect", CONNECT, "larder is no forward proxy; keep nginx for it", NEVER),
    refused("proxy_connect_allow", CONNECT, "larder is no forward proxy; keep nginx for it", NEVER),
    refused("proxy_connect_address", CONNECT, "larder is no forward proxy; keep nginx for it", NEVER),
    refused("LearningMode", NAXSI, NAXSI_ADVICE, NEVER),
    refused("learning_mode", NAXSI, NAXSI_ADVICE, NEVER),
    refused("DeniedUrl", NAXSI, NAXSI_ADVICE, NEVER),
    refused("denied_url", NAXSI, NAXSI_ADVICE, NEVER),
    refused("CheckRule", NAXSI, NAXSI_ADVICE, NEVER),
    refused("check_rule", NAXSI, NAXSI_ADVICE, NEVER),
    refused("BasicRule", NAXSI, NAXSI_ADVICE, NEVER),
    refused("basic_rule", NAXSI, NAXSI_ADVICE, NEVER),
    refused("MainRule", NAXSI, NAXSI_ADVICE, NEVER),
    refused("main_rule", NAXSI, NAXSI_ADVICE, NEVER),
    refused("rules_enabled", NAXSI, NAXSI_ADVICE, NEVER),
    refused("rules_disabled", NAXSI, NAXSI_ADVICE, NEVER),
    refused("upload_progress", PROGRESS, NO_PROGRESS, NEVER),
    refused("track_uploads", PROGRESS, NO_PROGRESS, NEVER),
    refused(
        "report_uploads",
        PROGRESS,
        "remove its location: uploads work without it, and only the bar of progress is missing",
        NEVER,
    ),
];

/// Those that belong together, by how their names begin. The first that fits counts.
pub static PREFIXES: &[DirectiveInfo] = &[
    refused("set_secure_random_", SET_MISC, RANDOM, NEVER),
    refused("set_hmac_", SET_MISC, DIGEST, NEVER),
    refused("set_quote_", SET_MISC, ENCODED, NEVER),
    refused("set_encode_", SET_MISC, ENCODED, NEVER),
    refused("set_decode_", SET_MISC, ENCODED, NEVER),
    refused("set_base32", SET_MISC, ENCODED, NEVER),
    refused("set_formatted_", SET_MISC, TIME, NEVER),
    refused("set_form_input", "the form input module", IN_ANOTHER, NEVER),
    refused("set_lang", "the lang module", "use a \"map\" of \"$http_accept_language\"", NEVER),
    refused("encrypted_session_", SESSION, IN_ANOTHER, NEVER),
    refused("array_map", "the array-var module", IN_ANOTHER, NEVER),
    refused(
        "ipscrub_",
        "the ipscrub module",
        "remove it, and log a \"map\" of \"$remote_addr\" that leaves the end of the address out",
        NEVER,
    ),
    family("length_hiding_", "nothing comes of it without length_hiding"),
    family("ssl_ct", "certificates carry their own proof of being logged"),
    family("spdy_", "SPDY is gone; HTTP/2 took its place"),
    family("fancyindex_", "nothing comes of it without fancyindex"),
    family("auth_ldap_", "nothing comes of it without auth_ldap"),
    family("auth_pam_", "nothing comes of it without auth_pam"),
    family("auth_digest_", "nothing comes of it without auth_digest"),
    family("auth_gss_", "nothing comes of it without auth_gss"),
    family("testcookie_", "nothing comes of it without testcookie"),
    family("slowfs_", "nothing comes of it without slowfs_cache"),
    family("concat_", "nothing comes of it without concat"),
    family("trim_", "nothing comes of it without trim"),
    family("security_headers_", "nothing comes of it without security_headers"),
    family("immutable_", "nothing comes of it without immutable"),
    family("dynamic_etag_", "nothing comes of it without dynamic_etag"),
    family("vod_", "nothing comes of it without vod"),
    family("proxy_connect_data_", "nothing comes of it without proxy_connect"),
    family("cache_purge_", "pages are purged at once, and the answer is a page of HTML"),
    refused("small_light_", "the small light module", IN_ANOTHER, OFF),
    refused("eval_", "the eval module", IN_ANOTHER, NEVER),
    refused("dav_ext_", "the dav-ext module", IN_ANOTHER, OFF),
    refused("check_", CHECK, NO_CHECKS, NEVER),
    refused("session_sticky", "the session sticky module (Tengine)", STICKY, NEVER),
    refused("dyups_", "the dyups module", RESOLVE, NEVER),
    refused("upsync", "the upsync module", RESOLVE, NEVER),
    refused("subs_filter", "the substitutions module", SUBSTITUTE, NEVER),
    refused("replace_filter", "the replace filter module", SUBSTITUTE, NEVER),
    refused("server_traffic_status", "the server traffic status module", STATUS, NEVER),
    refused("req_status", "Tengine", STATUS, NEVER),
    refused("statsd_", "the statsd module", STATUS, NEVER),
    refused("graphite_", "the graphite module", STATUS, NEVER),
    refused("influxdb", "the InfluxDB module", STATUS, NEVER),
    refused("kafka", "the Kafka module", "remove it, and let what ships logs read \"access_log\"", NEVER),
    refused("datadog_", "the Datadog module", "remove it", NEVER),
    refused(
        "sysguard",
        "the sysguard module (Tengine)",
        "remove it; \"limit_req\" and \"limit_conn\" keep load away",
        OFF,
    ),
    refused("limit_upstream_", "the limit upstream module", "use \"max_conns\" in the \"upstream\"", NEVER),
    refused("limit_traffic_rate", "the limit traffic rate module", "use \"limit_rate\"", NEVER),
    refused("ip2location_", "the IP2Location module", "use \"geo\" with the ranges you need", NEVER),
    refused("shib_request", "the Shibboleth module", ASK, OFF),
    refused("SecRules", NAXSI, NAXSI_ADVICE, NEVER),
    refused("LibInjection", NAXSI, NAXSI_ADVICE, NEVER),
    refused("libinjection_", NAXSI, NAXSI_ADVICE, NEVER),
    refused("naxsi_", NAXSI, NAXSI_ADVICE, NEVER),
    refused("ModSecurity", "ModSecurity", IN_ANOTHER, OFF),
    refused("app_protect_", "NGINX App Protect", IN_ANOTHER, OFF),
    refused("waf_", "ngx_waf", IN_ANOTHER, OFF),
    refused("rtmp_", "the RTMP module", "remove it, and keep nginx for RTMP", NEVER),
    refused("hls_", "NGINX Plus", IN_ANOTHER, NEVER),
    refused("ajp_", "the AJP module", "let the application server speak HTTP and use \"proxy_pass\"", NEVER),
    refused("mruby_", "the mruby module", IN_ANOTHER, NEVER),
    refused("drizzle_", "the drizzle module", IN_ANOTHER, NEVER),
    refused("postgres_", "the PostgreSQL module", IN_ANOTHER, NEVER),
    refused("rds_", "the rds modules", IN_ANOTHER, NEVER),
    refused("xss_", "the XSS module", IN_ANOTHER, OFF),
    refused("gridfs", "the GridFS module", IN_ANOTHER, NEVER),
    refused("mogilefs_", "the MogileFS module", IN_ANOTHER, NEVER),
    refused("aws_", "the AWS authentication module", IN_ANOTHER, NEVER),
];
