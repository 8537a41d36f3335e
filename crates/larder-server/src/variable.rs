//! The names of nginx's variables. `vars.rs` computes their values.
//!
//! Source: the alphabetical index of variables in nginx's documentation.

/// A variable, by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Var {
    /// About the client and its connection.
    Client(ClientVar),
    /// About the request.
    Request(RequestVar),
    /// About files.
    File(FileVar),
    /// About the cache and origins.
    Upstream(UpstreamVar),
    /// About the response.
    Response(ResponseVar),
    /// About this machine.
    Server(ServerVar),
    /// About one of the smaller modules.
    Module(ModuleVar),
    /// `$http_NAME`, by the name of the field.
    Http(Box<str>),
    /// `$sent_http_NAME`.
    SentHttp(Box<str>),
    /// `$sent_trailer_NAME`.
    SentTrailer(Box<str>),
    /// `$upstream_http_NAME`.
    UpstreamHttp(Box<str>),
    /// `$upstream_cookie_NAME`.
    UpstreamCookie(Box<str>),
    /// `$cookie_NAME`.
    Cookie(Box<str>),
    /// `$arg_NAME`.
    Arg(Box<str>),
    /// One of `$ssl_*`.
    Tls(TlsVar),
    /// `$proxy_protocol_*`, as the PROXY protocol told it.
    ProxyProtocol(ProxyVar),
    /// `$proxy_protocol_tlv_NAME`.
    ProxyTlv(Box<str>),
    /// A variable of `set`, `map`, `geo`, `split_clients` or a named group.
    Slot(usize),
}

macro_rules! variables {
    ($(#[$doc:meta])* $group:ident: $($variant:ident $name:literal),* $(,)?) => {
        $(#[$doc])*
        #[allow(missing_docs)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $group { $($variant),* }

        impl $group {
            /// The names, without the dollar.
            pub const NAMES: &[&str] = &[$($name),*];

            /// The variable of this name.
            pub fn of(name: &str) -> Option<Self> {
                match name { $($name => Some(Self::$variant),)* _ => None }
            }
        }
    };
}

variables! {
    /// Variables about the client and its connection.
    ClientVar:
    BinaryRemoteAddr "binary_remote_addr", Connection "connection", ConnectionRequests "connection_requests",
    ConnectionTime "connection_time", Https "https", Pipe "pipe", ProxyAddXForwardedFor "proxy_add_x_forwarded_for",
    RealipRemoteAddr "realip_remote_addr", RealipRemotePort "realip_remote_port", RemoteAddr "remote_addr",
    RemotePort "remote_port", RemoteUser "remote_user", Scheme "scheme", ServerAddr "server_addr",
    ServerPort "server_port", TcpinfoRtt "tcpinfo_rtt", TcpinfoRttvar "tcpinfo_rttvar",
    TcpinfoSndCwnd "tcpinfo_snd_cwnd", TcpinfoRcvSpace "tcpinfo_rcv_space",
}

variables! {
    /// Variables about the request.
    RequestVar:
    Args "args", ContentLength "content_length", ContentType "content_type", DocumentUri "document_uri",
    Host "host", Http2 "http2", Http3 "http3", IsArgs "is_args", IsRequestPort "is_request_port",
    LimitConnStatus "limit_conn_status", LimitRate "limit_rate", LimitReqStatus "limit_req_status",
    ProfileClass "larder_profile_class", QueryString "query_string", Request "request", RequestBody "request_body", RequestBodyFile "request_body_file",
    RequestId "request_id", RequestLength "request_length", RequestMethod "request_method",
    RequestPort "request_port", RequestTime "request_time", RequestUri "request_uri", ServerName "server_name",
    ServerProtocol "server_protocol", SliceRange "slice_range", Uri "uri",
}

variables! {
    /// Variables about files: roots, names, and the parts of a script's path.
    FileVar:
    DocumentRoot "document_root", FastcgiPathInfo "fastcgi_path_info", FastcgiScriptName "fastcgi_script_name",
    RealpathRoot "realpath_root", RequestFilename "request_filename",
}

variables! {
    /// Variables about what the cache and origins said.
    UpstreamVar:
    CacheDetail "larder_cache_detail", CacheKey "larder_cache_key", ProxyHost "proxy_host", ProxyPort "proxy_port",
    UpstreamAddr "upstream_addr", UpstreamBytesReceived "upstream_bytes_received",
    UpstreamBytesSent "upstream_bytes_sent", UpstreamCacheStatus "upstream_cache_status",
    UpstreamConnectTime "upstream_connect_time", UpstreamHeaderTime "upstream_header_time",
    UpstreamResponseLength "upstream_response_length", UpstreamResponseTime "upstream_response_time",
    UpstreamStatus "upstream_status",
}

variables! {
    /// Variables about the response.
    ResponseVar:
    BodyBytesSent "body_bytes_sent", BrotliRatio "brotli_ratio", BytesSent "bytes_sent", GzipRatio "gzip_ratio",
    RequestCompletion "request_completion", Status "status", ZstdRatio "zstd_ratio",
}

variables! {
    /// Variables about this machine, its time and its counters.
    ServerVar:
    ConnectionsActive "connections_active", ConnectionsReading "connections_reading",
    ConnectionsWaiting "connections_waiting", ConnectionsWriting "connections_writing", DateGmt "date_gmt",
    DateLocal "date_local", Hostname "hostname", Msec "msec", NginxVersion "nginx_version", Pid "pid",
    TimeIso8601 "time_iso8601", TimeLocal "time_local",
}

variables! {
    /// Variables of the smaller modules.
    ModuleVar:
    AncientBrowser "ancient_browser", InvalidReferer "invalid_referer", ModernBrowser "modern_browser", Msie "msie",
    SecureLink "secure_link", SecureLinkExpires "secure_link_expires", UidGot "uid_got", UidReset "uid_reset",
    UidSet "uid_set",
}

variables! {
    /// Variables about TLS.
    TlsVar:
    AlpnProtocol "ssl_alpn_protocol", Cipher "ssl_cipher", Ciphers "ssl_ciphers", ClientCert "ssl_client_cert",
    ClientEscapedCert "ssl_client_escaped_cert", ClientFingerprint "ssl_client_fingerprint",
    ClientIssuer "ssl_client_i_dn", ClientIssuerLegacy "ssl_client_i_dn_legacy",
    ClientRawCert "ssl_client_raw_cert", ClientSubject "ssl_client_s_dn",
    ClientSubjectLegacy "ssl_client_s_dn_legacy", ClientSerial "ssl_client_serial", ClientEnd "ssl_client_v_end",
    ClientRemain "ssl_client_v_remain", ClientStart "ssl_client_v_start", ClientVerify "ssl_client_verify",
    Curve "ssl_curve", Curves "ssl_curves", EarlyData "ssl_early_data", Protocol "ssl_protocol",
    ServerName "ssl_server_name", SessionId "ssl_session_id", SessionReused "ssl_session_reused",
}

/// The variable of a name that the configuration does not define. `None` if there is none.
pub fn built_in(name: &str) -> Option<Var> {
    fixed(name).or_else(|| proxy_protocol(name)).or_else(|| prefixed(name))
}

/// Every fixed name, for suggestions in errors.
pub fn names<'a>() -> impl Iterator<Item = &'a str> {
    let groups = [
        ClientVar::NAMES,
        RequestVar::NAMES,
        FileVar::NAMES,
        UpstreamVar::NAMES,
        ResponseVar::NAMES,
        ServerVar::NAMES,
        ModuleVar::NAMES,
        TlsVar::NAMES,
    ];
    groups.into_iter().flatten().copied()
}

fn fixed(name: &str) -> Option<Var> {
    let client = || ClientVar::of(name).map(Var::Client);
    let request = || RequestVar::of(name).map(Var::Request);
    let file = || FileVar::of(name).map(Var::File);
    let upstream = || UpstreamVar::of(name).map(Var::Upstream);
    let response = || ResponseVar::of(name).map(Var::Response);
    let server = || ServerVar::of(name).map(Var::Server);
    let module = || ModuleVar::of(name).map(Var::Module);
    let tls = || TlsVar::of(name).map(Var::Tls);
    let of_request = client().or_else(request).or_else(file).or_else(tls);
    of_request.or_else(upstream).or_else(response).or_else(server).or_else(module)
}

fn proxy_protocol(name: &str) -> Option<Var> {
    let rest = name.strip_prefix("proxy_protocol_")?;
    match rest.strip_prefix("tlv_") {
        Some(tlv) => Some(Var::ProxyTlv(tlv.into())),
        None => ProxyVar::of(rest).map(Var::ProxyProtocol),
    }
}

/// The variable of a name with a variable part, such as `http_NAME`.
fn prefixed(name: &str) -> Option<Var> {
    // nginx turns `_` into `-` to compare names, and finds no field for a name that is written with a dash.
    let field = |rest: &str| match rest.contains('-') {
        true => Box::default(),
        false => rest.replace('_', "-").into_boxed_str(),
    };
    let prefixed = |prefix: &str| name.strip_prefix(prefix).filter(|rest| !rest.is_empty());
    if let Some(rest) = prefixed("sent_http_") {
        return Some(Var::SentHttp(field(rest)));
    }
    if let Some(rest) = prefixed("sent_trailer_") {
        return Some(Var::SentTrailer(field(rest)));
    }
    if let Some(rest) = prefixed("upstream_http_") {
        return Some(Var::UpstreamHttp(field(rest)));
    }
    if let Some(rest) = prefixed("upstream_cookie_") {
        return Some(Var::UpstreamCookie(rest.into()));
    }
    if let Some(rest) = prefixed("http_") {
        return Some(Var::Http(field(rest)));
    }
    if let Some(rest) = prefixed("cookie_") {
        return Some(Var::Cookie(rest.into()));
    }
    // As in nginx, each prefix may have an empty name, which finds nothing.
    name.strip_prefix("arg_").map(|rest| Var::Arg(rest.into()))
}

/// Whether `set` may change a variable of nginx.
pub fn is_changeable(name: &str) -> bool {
    matches!(name, "uid_reset" | "invalid_referer" | "modern_browser" | "ancient_browser" | "msie")
}

/// Names like `$http_*` and `$sent_http_*` that nginx knows as variables of their own (ngx_http_core_variables).
const NAMED_FIELDS: [&str; 15] = [
    "http_cookie",
    "http_host",
    "http_referer",
    "http_user_agent",
    "http_via",
    "http_x_forwarded_for",
    "sent_http_cache_control",
    "sent_http_connection",
    "sent_http_content_length",
    "sent_http_content_type",
    "sent_http_keep_alive",
    "sent_http_last_modified",
    "sent_http_link",
    "sent_http_location",
    "sent_http_transfer_encoding",
];

/// Whether `set` may define a variable of this name. A name that begins like `$http_` or the like may be defined, and
/// is then no field, cookie or argument any more.
pub fn may_be_set(name: &str) -> bool {
    match built_in(name) {
        None => true,
        Some(
            Var::Http(_)
            | Var::SentHttp(_)
            | Var::SentTrailer(_)
            | Var::UpstreamHttp(_)
            | Var::UpstreamCookie(_)
            | Var::Cookie(_)
            | Var::Arg(_),
        ) => !NAMED_FIELDS.contains(&name),
        Some(
            Var::Client(_)
            | Var::Request(_)
            | Var::File(_)
            | Var::Upstream(_)
            | Var::Response(_)
            | Var::Server(_)
            | Var::Module(_)
            | Var::Tls(_)
            | Var::ProxyProtocol(_)
            | Var::ProxyTlv(_)
            | Var::Slot(_),
        ) => false,
    }
}

/// Whether a `Text` with this variable reads fields of the response or of the origin.
pub fn reads_fields(var: &Var) -> bool {
    match var {
        Var::SentHttp(_) | Var::SentTrailer(_) | Var::UpstreamHttp(_) | Var::UpstreamCookie(_) => true,
        Var::Client(_)
        | Var::Request(_)
        | Var::File(_)
        | Var::Upstream(_)
        | Var::Response(_)
        | Var::Server(_)
        | Var::Module(_)
        | Var::Http(_)
        | Var::Cookie(_)
        | Var::Arg(_)
        | Var::Tls(_)
        | Var::ProxyProtocol(_)
        | Var::ProxyTlv(_) => false,
        // A map can read anything.
        Var::Slot(_) => true,
    }
}

/// The parts of a PROXY protocol header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyVar {
    /// The client's address.
    Addr,
    /// The client's port.
    Port,
    /// The address that the client connected to.
    ServerAddr,
    /// The port that the client connected to.
    ServerPort,
}

impl ProxyVar {
    /// The part of this name, after `proxy_protocol_`.
    fn of(name: &str) -> Option<Self> {
        match name {
            "addr" => Some(Self::Addr),
            "port" => Some(Self::Port),
            "server_addr" => Some(Self::ServerAddr),
            "server_port" => Some(Self::ServerPort),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_understood() {
        for (name, var) in [
            ("uri", Some(Var::Request(RequestVar::Uri))),
            ("http_x_forwarded_for", Some(Var::Http("x-forwarded-for".into()))),
            ("sent_http_etag", Some(Var::SentHttp("etag".into()))),
            ("upstream_http_x_a", Some(Var::UpstreamHttp("x-a".into()))),
            ("upstream_cookie_sid", Some(Var::UpstreamCookie("sid".into()))),
            ("cookie_wp_x", Some(Var::Cookie("wp_x".into()))),
            ("arg_page", Some(Var::Arg("page".into()))),
            ("http_", None),
            ("arg_", Some(Var::Arg("".into()))),
            ("sent_trailer_x_a", Some(Var::SentTrailer("x-a".into()))),
            ("nonsense", None),
        ] {
            assert_eq!(built_in(name), var, "{name}");
        }
        for name in names() {
            assert!(built_in(name).is_some(), "{name}");
        }
    }

    #[test]
    fn what_is_only_named_like_a_field_may_be_set() {
        for (name, may_be) in [
            ("mine", true),
            ("http_host_with_default", true),
            ("cookie_kind", true),
            ("arg_page_number", true),
            ("upstream_http_x", true),
            ("http_host", false),
            ("sent_http_location", false),
            ("uri", false),
            ("ssl_protocol", false),
            ("proxy_protocol_addr", false),
        ] {
            assert_eq!(may_be_set(name), may_be, "{name}");
        }
    }
}
