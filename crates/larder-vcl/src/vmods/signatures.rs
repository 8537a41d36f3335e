//! What the functions of the modules take and give, as text.
//!
//! A line is a function, a type of objects (`object`) or a method of the type above it (a point before its name).
//! Behind `in` stand the subs in which it may be called. A parameter in brackets is optional; others may have a
//! default.

/// All modules: their names and signatures.
pub const ALL: &[(&str, &str)] = &[
    ("std", STD),
    ("directors", DIRECTORS),
    ("cookie", COOKIE),
    ("purge", PURGE),
    ("header", HEADER),
    ("xkey", XKEY),
    ("var", VAR),
    ("vsthrottle", VSTHROTTLE),
    ("bodyaccess", BODYACCESS),
    ("unix", UNIX),
    ("blob", BLOB),
    ("proxy", PROXY),
    ("h2", H2),
    ("vtc", VTC),
    ("larder", LARDER),
];

const STD: &str = r#"
REAL random(REAL lo, REAL hi)
REAL round(REAL r)
VOID collect(HEADER hdr, STRING sep=", ")
STRING querysort(STRING)
STRING toupper(STRANDS s)
STRING tolower(STRANDS s)
STRING strstr(STRING s1, STRING s2)
BOOL fnmatch(STRING pattern, STRING subject, BOOL pathname=1, BOOL noescape=0, BOOL period=0)
STRING fileread(STRING)
BLOB blobread(STRING)
BOOL file_exists(STRING path)
BOOL healthy(BACKEND be)
INT port(IP ip)
DURATION duration([STRING s], [DURATION fallback], [REAL real], [INT integer])
BYTES bytes([STRING s], [BYTES fallback], [REAL real], [INT integer])
INT integer([STRING s], [INT fallback], [BOOL bool], [BYTES bytes], [DURATION duration], [REAL real], [TIME time])
IP ip(STRING s, [IP fallback], BOOL resolve=1, [STRING p])
REAL real([STRING s], [REAL fallback], [INT integer], [BOOL bool], [BYTES bytes], [DURATION duration], [TIME time])
TIME time([STRING s], [TIME fallback], [REAL real], [INT integer])
STRING strftime(TIME time, STRING format)
VOID log(STRANDS s)
VOID syslog(INT priority, STRANDS s)
VOID timestamp(STRING s)
BOOL syntax(REAL)
STRING getenv(STRING name)
BOOL cache_req_body(BYTES size) in vcl_recv
VOID late_100_continue(BOOL late) in vcl_recv
VOID set_ip_tos(INT tos) in client
VOID rollback(HTTP h) in backend vcl_recv vcl_pass vcl_hash vcl_purge vcl_miss vcl_hit vcl_deliver vcl_synth
BOOL ban(STRING)
STRING ban_error()
TIME now()
DURATION timed_call(SUB)
VOID rfc_ttl() in vcl_backend_response vcl_backend_refresh
"#;

const DIRECTORS: &str = "
object round_robin()
VOID .add_backend(BACKEND)
VOID .remove_backend(BACKEND)
BACKEND .backend()
object fallback(BOOL sticky=0)
VOID .add_backend(BACKEND)
VOID .remove_backend(BACKEND)
BACKEND .backend()
object random()
VOID .add_backend(BACKEND, REAL)
VOID .remove_backend(BACKEND)
BACKEND .backend()
object hash()
VOID .add_backend(BACKEND, REAL weight=1.0)
VOID .remove_backend(BACKEND)
BACKEND .backend(STRANDS)
object shard()
VOID .set_warmup(REAL probability=0.0)
VOID .set_rampup(DURATION duration=0)
VOID .associate(BLOB param=0)
BOOL .add_backend(BACKEND backend, [STRING ident], [DURATION rampup], [REAL weight])
BOOL .remove_backend([BACKEND backend=0], [STRING ident=0])
BOOL .clear()
BOOL .reconfigure(INT replicas=67)
INT .key(STRANDS)
BACKEND .backend([ENUM {HASH, URL, KEY, BLOB} by=HASH], [INT key], [BLOB key_blob], [INT alt=0], [REAL warmup=-1], \
[BOOL rampup=1], [ENUM {CHOSEN, IGNORE, ALL} healthy=CHOSEN], [BLOB param], [ENUM {NOW, LAZY} resolve])
VOID .debug(INT)
object shard_param()
VOID .clear() in vcl_pipe backend housekeeping
VOID .set([ENUM {HASH, URL, KEY, BLOB} by], [INT key], [BLOB key_blob], [INT alt], [REAL warmup], [BOOL rampup], \
[ENUM {CHOSEN, IGNORE, ALL} healthy]) in vcl_pipe backend housekeeping
STRING .get_by()
INT .get_key()
INT .get_alt()
REAL .get_warmup()
BOOL .get_rampup()
STRING .get_healthy()
BLOB .use() in vcl_pipe backend housekeeping
BACKEND lookup(STRING) in housekeeping
";

const COOKIE: &str = "
VOID clean()
VOID delete(STRING cookiename)
VOID filter(STRING filterstring)
VOID filter_re(REGEX expression)
VOID keep(STRING filterstring)
VOID keep_re(REGEX expression)
STRING format_date(TIME now, DURATION timedelta)
STRING get(STRING cookiename)
STRING get_re(REGEX expression)
STRING get_string()
BOOL isset(STRING cookiename)
VOID parse(STRING cookieheader)
VOID set(STRING cookiename, STRING value)
";

const PURGE: &str = "
INT hard() in vcl_hit vcl_miss
INT soft(DURATION ttl=0, DURATION grace=-1, DURATION keep=-1) in vcl_hit vcl_miss
";

const HEADER: &str = "
VOID append(HEADER, STRANDS)
VOID copy(HEADER, HEADER)
STRING get(HEADER header, REGEX regex)
VOID remove(HEADER header, REGEX regex)
VOID regsub(HTTP, REGEX regex, STRING sub, BOOL all=0)
HEADER dyn(HTTP, STRING)
";

const XKEY: &str = "
INT purge(STRING keys)
INT softpurge(STRING keys)
";

const VAR: &str = "
VOID set(STRING key, STRING value)
STRING get(STRING)
VOID global_set(STRING, STRING)
STRING global_get(STRING)
VOID set_int(STRING key, INT value)
INT get_int(STRING key)
VOID set_string(STRING key, STRING value)
STRING get_string(STRING key)
VOID set_real(STRING key, REAL value)
REAL get_real(STRING key)
VOID set_duration(STRING key, DURATION value)
DURATION get_duration(STRING key)
VOID set_ip(STRING key, IP value)
IP get_ip(STRING key)
VOID set_backend(STRING key, BACKEND value)
BACKEND get_backend(STRING key)
VOID clear()
";

const VSTHROTTLE: &str = "
BOOL is_denied(STRING key, INT limit, DURATION period, DURATION block=0)
VOID return_token(STRING key, INT limit, DURATION period, DURATION block=0)
INT remaining(STRING key, INT limit, DURATION period, DURATION block=0)
DURATION blocked(STRING key, INT limit, DURATION period, DURATION block)
";

const BODYACCESS: &str = r#"
INT rematch_req_body(REGEX re)
VOID hash_req_body()
INT len_req_body()
VOID log_req_body(STRING prefix="", INT length=200)
"#;

const UNIX: &str = "
STRING user() in client backend
STRING group() in client backend
INT uid() in client backend
INT gid() in client backend
";

const BLOB: &str = "
BLOB decode(ENUM {IDENTITY, BASE64, BASE64URL, BASE64URLNOPAD, BASE64CF, HEX, URL} decoding=IDENTITY, \
INT length=0, STRANDS encoded)
STRING encode(ENUM {IDENTITY, BASE64, BASE64URL, BASE64URLNOPAD, BASE64CF, HEX, URL} encoding=IDENTITY, \
ENUM {LOWER, UPPER, DEFAULT} case=DEFAULT, BLOB blob)
STRING transcode(ENUM {IDENTITY, BASE64, BASE64URL, BASE64URLNOPAD, BASE64CF, HEX, URL} decoding=IDENTITY, \
ENUM {IDENTITY, BASE64, BASE64URL, BASE64URLNOPAD, BASE64CF, HEX, URL} encoding=IDENTITY, \
ENUM {LOWER, UPPER, DEFAULT} case=DEFAULT, INT length=0, STRANDS encoded)
BOOL same(BLOB, BLOB)
BOOL equal(BLOB, BLOB)
INT length(BLOB)
BLOB sub(BLOB, BYTES length, BYTES offset=0)
object blob(ENUM {IDENTITY, BASE64, BASE64URL, BASE64URLNOPAD, BASE64CF, HEX, URL} decoding=IDENTITY, STRANDS encoded)
BLOB .get()
STRING .encode(ENUM {IDENTITY, BASE64, BASE64URL, BASE64URLNOPAD, BASE64CF, HEX, URL} encoding=IDENTITY, \
ENUM {LOWER, UPPER, DEFAULT} case=DEFAULT)
";

const PROXY: &str = "
STRING alpn() in client
STRING authority() in client
BOOL is_ssl() in client
BOOL client_has_cert_sess() in client
BOOL client_has_cert_conn() in client
INT ssl_verify_result() in client
STRING ssl_version() in client
STRING client_cert_cn() in client
STRING ssl_cipher() in client
STRING cert_sign() in client
STRING cert_key() in client
";

const H2: &str = "
BOOL is() in client
DURATION rapid_reset([DURATION threshold]) in client
INT rapid_reset_limit([INT number]) in client
DURATION rapid_reset_period([DURATION duration]) in client
REAL rapid_reset_budget() in client
";

const VTC: &str = "
VOID barrier_sync(STRING addr, DURATION timeout=0)
BACKEND no_backend()
STEVEDORE no_stevedore()
IP no_ip()
VOID panic(STRANDS)
VOID sleep(DURATION)
VOID workspace_alloc(ENUM {client, backend, session, thread}, INT size)
BYTES workspace_reserve(ENUM {client, backend, session, thread}, INT size)
INT workspace_free(ENUM {client, backend, session, thread})
VOID workspace_snapshot(ENUM {client, backend, session, thread})
VOID workspace_reset(ENUM {client, backend, session, thread})
BOOL workspace_overflowed(ENUM {client, backend, session, thread})
VOID workspace_overflow(ENUM {client, backend, session, thread})
BLOB workspace_dump(ENUM {client, backend, session, thread}, ENUM {s, f, r}, BYTES off=0, BYTES len=64)
INT typesize(STRING)
BLOB proxy_header(ENUM {v1, v2} version, IP client, IP server, STRING authority=0)
VOID vsl(INT vxid, STRING tag, ENUM {c, b} side, STRANDS s)
VOID vsl_replay(STRANDS s)
";

const LARDER: &str = r#"
BACKEND upstream(STRING name)
"#;
