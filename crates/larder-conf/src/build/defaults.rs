//! What holds where nothing is said: nginx's defaults.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::Options;
use crate::model::{
    Access, At, Brotli, Browsers, Charset, ClientBody, ClientConnection, ClientLimits, Compression, ErrorPages,
    FastCgi, FieldSettings, Files, Gzip, GzipProxied, Http2, Limits, LogEscape, LogFormat, Logs, Main, MediaTypes,
    Modules, Mp4, OriginSettings, Parts, Proxy, ProxyProtocol, ProxyRedirect, ProxyRedirectRule, RealIp, Redirects,
    Resolving, SecureLink, Settings, Ssi, StaticForms, SubFilter, Subrequests, UserId, UserIdExpires, UserIdFlags,
    UserIdMode, Workers, Zstd,
};
use crate::span::Span;
use crate::template;

use super::tls;

const PAGE_BYTES: usize = 4096;

const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub fn main(options: &Options) -> Main {
    Main {
        user: None,
        worker_processes: Workers::Auto,
        worker_rlimit_nofile: None,
        worker_shutdown_timeout: None,
        worker_connections: None,
        pid: None,
        error_log: Vec::new(),
        inherits_certificates: false,
        daemon: true,
        master_process: true,
        working_directory: None,
        prefix: options.prefix.clone(),
        conf_prefix: options.conf_prefix.clone(),
        binds_anywhere: false,
        env: Vec::new(),
    }
}

pub fn client() -> ClientLimits {
    ClientLimits {
        header_timeout: secs(60),
        header_buffer_bytes: 1024,
        large_header_buffers: (4, 8192),
        ignore_invalid_headers: true,
        underscores_in_headers: false,
        merge_slashes: true,
        max_headers: 1000,
    }
}

pub fn http2() -> Http2 {
    Http2 { enabled: false, max_concurrent_streams: 128, body_preread_bytes: 65536 }
}

fn compression() -> Compression {
    const MIN_BYTES: u64 = 20;
    let types = || MediaTypes::Listed(vec!["text/html".to_owned()]);
    Compression {
        gzip: Gzip {
            enabled: false,
            level: 1,
            min_bytes: MIN_BYTES,
            types: types(),
            http_1_0: false,
            proxied: GzipProxied { off: true, ..GzipProxied::default() },
            disable: Vec::new(),
            files: StaticForms::Off,
        },
        brotli: Brotli {
            enabled: false,
            level: 6,
            window_log: 19,
            min_bytes: MIN_BYTES,
            types: types(),
            files: StaticForms::Off,
        },
        zstd: Zstd { enabled: false, level: 1, min_bytes: MIN_BYTES, types: types(), files: StaticForms::Off },
        gunzip: false,
        vary: false,
        private: true,
        stored: true,
    }
}

fn subrequests() -> Subrequests {
    let types = || MediaTypes::Listed(vec!["text/html".to_owned()]);
    Subrequests {
        ssi: Ssi { enabled: false, silent_errors: false, last_modified: false, value_bytes: 255, types: types() },
        before_body: None,
        after_body: None,
        addition_types: types(),
        auth_request: None,
        auth_request_set: Vec::new(),
        mirrors: Vec::new(),
        mirror_body: true,
        output_buffer_bytes: PAGE_BYTES,
    }
}

/// The format `combined`.
pub fn combined() -> LogFormat {
    let text = "$remote_addr - $remote_user [$time_local] \"$request\" $status $body_bytes_sent \
                \"$http_referer\" \"$http_user_agent\"";
    LogFormat {
        name: At { value: "combined".to_owned(), span: Span::NOWHERE },
        escape: LogEscape::Default,
        format: template::parse_template(text, Span::NOWHERE).expect("every dollar in it begins a name"),
    }
}

pub fn settings(prefix: &Path) -> Settings {
    Settings {
        files: Files::new(
            template::literal(&prefix.join("html").to_string_lossy(), Span::NOWHERE),
            template::literal("index.html", Span::NOWHERE),
        ),
        body: ClientBody::default(),
        connection: ClientConnection::default(),
        errors: ErrorPages::default(),
        fields: FieldSettings::default(),
        redirects: Redirects::default(),
        parts: Parts::default(),
        access: Access::default(),
        limits: Limits::default(),
        logs: Logs::default(),
        real_ip: RealIp::default(),
        resolving: Resolving::default(),
        fastcgi: Arc::new(FastCgi {
            origin: OriginSettings::default(),
            params: Vec::new(),
            index: None,
            split_path_info: None,
            keep_conn: false,
            catch_stderr: Vec::new(),
        }),
        proxy: Arc::new(Proxy {
            origin: OriginSettings::default(),
            http_1_1: true,
            set_headers: Vec::new(),
            set_body: None,
            method: None,
            redirect: ProxyRedirect::Rules(vec![ProxyRedirectRule::Default]),
            cookie_domains: Vec::new(),
            cookie_paths: Vec::new(),
            cookie_flags: Vec::new(),
            tls: tls::origin(),
            proxy_protocol: ProxyProtocol::Off,
        }),
        compression: Arc::new(compression()),
        subrequests: Arc::new(subrequests()),
        modules: Arc::new(modules()),
    }
}

fn modules() -> Modules {
    Modules {
        sub_filter: SubFilter {
            pairs: Vec::new(),
            types: MediaTypes::Listed(vec!["text/html".to_owned()]),
            once: true,
            last_modified: false,
        },
        charset: Charset::default(),
        referers: None,
        user_id: UserId {
            mode: UserIdMode::Off,
            service: None,
            name: "uid".to_owned(),
            domain: String::new(),
            path: "/".to_owned(),
            expires: UserIdExpires::Off,
            flags: UserIdFlags::default(),
            p3p: String::new(),
            mark: None,
        },
        secure_link: SecureLink::default(),
        browsers: Browsers {
            modern: Vec::new(),
            unlisted_is_modern: false,
            ancient: Vec::new(),
            netscape4: false,
            modern_value: "1".to_owned(),
            ancient_value: "1".to_owned(),
        },
        random_index: false,
        early_hints: Vec::new(),
        mp4: Mp4 { buffer_bytes: 512 * 1024, max_buffer_bytes: 10 * 1024 * 1024, start_key_frame: false },
        log_file_cache: None,
    }
}
