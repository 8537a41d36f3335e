//! TLS: towards clients (`ssl_*`) and towards origins (`proxy_ssl_*`).

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{At, Template};
use crate::span::Span;

/// `ssl_*` of a server. It is there for every server; whether it is spoken is said by [`super::Listen::ssl`].
#[derive(Clone, Debug)]
pub struct Tls {
    /// `ssl_certificate` and `ssl_certificate_key`, in order. Empty where certificates are ordered
    /// ([`super::Server::acme`]), where all handshakes are rejected, and where a server is served with what the
    /// default server of its address shows; never empty in a default server that does neither.
    pub certificates: Vec<CertificatePair>,
    /// `ssl_certificate_cache`: for certificates that come out of variables; `None` for `off`.
    pub certificate_cache: Option<CertificateCache>,
    /// `ssl_password_file`, joined to the folder of the configuration.
    pub password_file: Option<At<PathBuf>>,
    /// `ssl_protocols`.
    pub protocols: TlsProtocols,
    /// `ssl_ciphers`, an OpenSSL string; `None` for nginx's `HIGH:!aNULL:!MD5`.
    pub ciphers: Option<At<String>>,
    /// `ssl_prefer_server_ciphers`, off.
    pub prefer_server_ciphers: bool,
    /// `ssl_conf_command Ciphersuites`: the suites of TLS 1.3, separated by `:`.
    pub ciphersuites: Option<At<String>>,
    /// `ssl_ecdh_curve`, separated by `:`; `None` for `auto`.
    pub curves: Option<At<String>>,
    /// `ssl_session_cache`, `none`.
    pub session_cache: TlsSessionCache,
    /// `ssl_session_timeout`, 5 min.
    pub session_timeout: Duration,
    /// `ssl_session_tickets`, on.
    pub session_tickets: bool,
    /// `ssl_session_ticket_key`, in order: the first encrypts; empty for random ones.
    pub session_ticket_keys: Vec<At<PathBuf>>,
    /// `ssl_early_data`, off.
    pub early_data: bool,
    /// `ssl_buffer_size`, 16k: plaintext bytes of a record at most.
    pub buffer_bytes: usize,
    /// `ssl_reject_handshake`, off.
    pub reject_handshake: bool,
    /// `ssl_verify_client`, off.
    pub verify_client: VerifyClient,
    /// `ssl_verify_depth`, 1.
    pub verify_depth: u32,
    /// `ssl_client_certificate`: PEM of authorities, whose names are sent to the client.
    pub client_certificate: Option<At<PathBuf>>,
    /// `ssl_trusted_certificate`: PEM of authorities, whose names are not sent.
    pub trusted_certificate: Option<At<PathBuf>>,
    /// `ssl_crl`.
    pub crl: Option<At<PathBuf>>,
    /// `ssl_stapling`.
    pub stapling: Option<Stapling>,
    /// `ssl_ocsp`; `None` for `off`.
    pub ocsp: Option<Ocsp>,
}

impl Default for Tls {
    fn default() -> Self {
        Self {
            certificates: Vec::new(),
            certificate_cache: None,
            password_file: None,
            protocols: TlsProtocols::default(),
            ciphers: None,
            prefer_server_ciphers: false,
            ciphersuites: None,
            curves: None,
            session_cache: TlsSessionCache::None,
            session_timeout: Duration::from_secs(300),
            session_tickets: true,
            session_ticket_keys: Vec::new(),
            early_data: false,
            buffer_bytes: 16384,
            reject_handshake: false,
            verify_client: VerifyClient::Off,
            verify_depth: 1,
            client_certificate: None,
            trusted_certificate: None,
            crl: None,
            stapling: None,
            ocsp: None,
        }
    }
}

/// `ssl_ocsp`: authorities are asked whether certificates of clients are revoked.
#[derive(Clone, Debug)]
pub struct Ocsp {
    /// About which certificates.
    pub about: AskedAbout,
    /// `ssl_ocsp_responder`: an `http://` URL instead of the certificates' own.
    pub responder: Option<At<String>>,
    /// `ssl_ocsp_cache`: where answers are kept; `None` for `off`.
    pub cache: Option<SharedSessions>,
}

/// Which certificates of a client are asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AskedAbout {
    /// `on`: all but the one at the top.
    Chain,
    /// `leaf`: the client's own.
    Certificate,
}

/// A certificate (with its chain) and the key of it.
#[derive(Clone, Debug)]
pub struct CertificatePair {
    /// `ssl_certificate`.
    pub certificate: PemSource,
    /// `ssl_certificate_key`.
    pub key: PemSource,
}

impl CertificatePair {
    /// Whether one of them is only known when a client has said whom it wants.
    pub fn has_variables(&self) -> bool {
        matches!(self.certificate, PemSource::Variable(_)) || matches!(self.key, PemSource::Variable(_))
    }
}

/// Where PEM is found.
#[derive(Clone, Debug)]
pub enum PemSource {
    /// A file, joined to the folder of the configuration.
    File(At<PathBuf>),
    /// `data:`: the PEM itself. Never shown.
    Data(At<Secret>),
    /// Text with variables. What comes out is read as one without them is: `data:` and PEM, or a path, which is
    /// to be joined to the folder of the configuration. Empty means none.
    Variable(Template),
}

impl PemSource {
    /// Where it was written.
    pub fn span(&self) -> Span {
        match self {
            Self::File(path) => path.span,
            Self::Data(pem) => pem.span,
            Self::Variable(template) => template.span,
        }
    }

    /// The path, where there is one that is known now.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::File(path) => Some(&path.value),
            Self::Data(_) | Self::Variable(_) => None,
        }
    }
}

/// Text that no message and no log shows.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(pub String);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret")
    }
}

/// `ssl_certificate_cache`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CertificateCache {
    /// `max=`: certificates kept.
    pub max: usize,
    /// `inactive=`, 10 s: how long unused ones are kept.
    pub inactive: Duration,
    /// `valid=`, 60 s: how long a file is believed not to have changed.
    pub valid: Duration,
}

/// Versions that are spoken. Those before TLS 1.2 never are, whatever is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TlsProtocols {
    /// `TLSv1.2`.
    pub tls1_2: bool,
    /// `TLSv1.3`.
    pub tls1_3: bool,
}

impl Default for TlsProtocols {
    fn default() -> Self {
        Self { tls1_2: true, tls1_3: true }
    }
}

/// `ssl_session_cache`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TlsSessionCache {
    /// `off`: clients are told that nothing is resumed by its id.
    Off,
    /// `none`: clients are told that it may be, and it is not.
    None,
    /// Sessions are kept. Here all workers share either.
    Kept {
        /// `builtin[:N]`: this many sessions of this server alone; 20480 unless told.
        builtin: Option<u64>,
        /// `shared:NAME:SIZE`.
        shared: Option<SharedSessions>,
    },
}

/// `shared:NAME:SIZE`: one for all servers that name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedSessions {
    /// The name; servers with the same one have the same size.
    pub name: At<String>,
    /// The size.
    pub bytes: usize,
}

/// `ssl_verify_client`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VerifyClient {
    /// No certificate is asked for.
    Off,
    /// A request without a good one is answered 400.
    On,
    /// One that is shown must be good.
    Optional,
    /// One that is shown need not come from an authority that is trusted.
    OptionalNoCa,
}

/// `ssl_stapling on` and its kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stapling {
    /// `ssl_stapling_file`: a DER answer of an OCSP responder, instead of asking one.
    pub file: Option<At<PathBuf>>,
    /// `ssl_stapling_responder`: an `http://` URL instead of the certificate's own.
    pub responder: Option<At<String>>,
    /// `ssl_stapling_verify`, off.
    pub verify: bool,
}

/// `proxy_ssl_*`: how an origin behind `https://` is spoken to.
#[derive(Clone, Debug)]
pub struct OriginTls {
    /// `proxy_ssl_session_reuse`, on.
    pub session_reuse: bool,
    /// `proxy_ssl_protocols`.
    pub protocols: TlsProtocols,
    /// `proxy_ssl_ciphers`, an OpenSSL string; `None` for `DEFAULT`.
    pub ciphers: Option<At<String>>,
    /// `proxy_ssl_conf_command Ciphersuites`.
    pub ciphersuites: Option<At<String>>,
    /// `proxy_ssl_name`; `None` for the host of `proxy_pass` (`$proxy_host`). A port behind it is not part of it.
    pub name: Option<Template>,
    /// `proxy_ssl_server_name`, off: whether the name is sent (SNI).
    pub server_name: bool,
    /// `proxy_ssl_verify`, off.
    pub verify: bool,
    /// `proxy_ssl_verify_depth`, 1.
    pub verify_depth: u32,
    /// `proxy_ssl_trusted_certificate`.
    pub trusted_certificate: Option<At<PathBuf>>,
    /// `proxy_ssl_crl`.
    pub crl: Option<At<PathBuf>>,
    /// `proxy_ssl_certificate` and its key: what we show the origin.
    pub certificate: Option<CertificatePair>,
    /// `proxy_ssl_certificate_cache`.
    pub certificate_cache: Option<CertificateCache>,
    /// `proxy_ssl_password_file`.
    pub password_file: Option<At<PathBuf>>,
}

impl Default for OriginTls {
    fn default() -> Self {
        Self {
            session_reuse: true,
            protocols: TlsProtocols::default(),
            ciphers: None,
            ciphersuites: None,
            name: None,
            server_name: false,
            verify: false,
            verify_depth: 1,
            trusted_certificate: None,
            crl: None,
            certificate: None,
            certificate_cache: None,
            password_file: None,
        }
    }
}

/// How an origin is spoken to, as far as the configuration says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OriginScheme {
    /// `http://`.
    Http,
    /// `https://`; without a port 443 is meant.
    Https,
    /// A variable says it.
    Variable,
}

/// A file that TLS needs, as [`super::tls_files`] lists them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFile {
    /// Where it is.
    pub path: PathBuf,
    /// What it is for.
    pub purpose: TlsFilePurpose,
    /// Where it is named.
    pub span: Span,
}

/// What a [`TlsFile`] is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TlsFilePurpose {
    /// `ssl_certificate`, `proxy_ssl_certificate`: PEM.
    Certificate,
    /// `ssl_certificate_key`, `proxy_ssl_certificate_key`: PEM, secret.
    Key,
    /// `ssl_password_file`, `proxy_ssl_password_file`: a password a line, secret.
    Passwords,
    /// `ssl_session_ticket_key`: 48 or 80 bytes, secret.
    TicketKey,
    /// `ssl_client_certificate`: PEM.
    ClientCertificate,
    /// `ssl_trusted_certificate`, `proxy_ssl_trusted_certificate`, `larder_acme_account trusted_certificate=`,
    /// `larder_cluster ca=`: PEM.
    TrustedCertificate,
    /// `ssl_crl`, `proxy_ssl_crl`: PEM.
    Crl,
    /// `ssl_stapling_file`: DER.
    StaplingAnswer,
}
