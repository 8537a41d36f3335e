//! Our end of a TLS connection to an origin: nginx's `proxy_ssl_*`.

use crate::choices::{self, Protocol};
use crate::ciphers;
use crate::clock::Clock;
use crate::error::{Notice, SessionError, TlsError};
use crate::key::CertifiedKey;
use crate::link::{Link, Read};
use crate::record::PLAINTEXT_BYTES_MAX;
use crate::verify::{Authorities, OriginVerifier, Verify};
use rustls::client::{Resumption, UnbufferedClientConnection};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::ServerName;
use rustls::sign::SingleCertAndKey;
use std::io::IoSlice;
use std::sync::Arc;

/// How many origins' sessions are kept for the next connection.
const SESSIONS_MAX: usize = 256;

/// nginx's `proxy_ssl_*` directives of one location.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// `proxy_ssl_verify`, with `proxy_ssl_trusted_certificate`, `_verify_depth` and `_crl`; `None` for `off`.
    pub verify: Option<Verify>,
    /// `proxy_ssl_server_name`: whether the origin is told the name.
    pub send_server_name: bool,
    /// `proxy_ssl_certificate` and its key.
    pub certificate: Option<CertifiedKey>,
    /// `proxy_ssl_protocols`; empty stands for all there are.
    pub protocols: Vec<Protocol>,
    /// `proxy_ssl_ciphers`.
    pub ciphers: Option<String>,
    /// `proxy_ssl_conf_command Ciphersuites`.
    pub tls13_ciphers: Option<String>,
    /// `proxy_ssl_session_reuse`.
    pub session_reuse: bool,
    /// The protocols above TLS, most wanted first. nginx offers none to an origin it speaks HTTP/1 with.
    pub alpn: Vec<Vec<u8>>,
    /// Where the time comes from.
    pub clock: Clock,
}

impl ClientOptions {
    /// nginx's defaults.
    pub fn new(clock: Clock) -> Self {
        Self {
            verify: None,
            send_server_name: false,
            certificate: None,
            protocols: Vec::new(),
            ciphers: None,
            tls13_ciphers: None,
            session_reuse: true,
            alpn: Vec::new(),
            clock,
        }
    }
}

/// What connections to origins have in common.
#[derive(Debug)]
pub struct ClientConfig {
    rustls: Arc<rustls::ClientConfig>,
    /// The same, without a name in the ClientHello: for what is no host name.
    nameless: Arc<rustls::ClientConfig>,
}

impl ClientConfig {
    /// A configuration, and what an operator should know about it.
    pub fn new(options: ClientOptions) -> Result<(Arc<Self>, Vec<Notice>), TlsError> {
        let mut notices = Vec::new();
        let versions = choices::versions(&options.protocols, "proxy_ssl_protocols", &mut notices)?;
        let suites = ciphers::suites(
            options.ciphers.as_deref(),
            options.tls13_ciphers.as_deref(),
            versions.contains(&&rustls::version::TLS12),
            "proxy_ssl_ciphers",
            &mut notices,
        )?;
        let groups = choices::groups(None, &mut notices)?;
        let provider =
            Arc::new(CryptoProvider { cipher_suites: suites, kx_groups: groups, ..aws_lc_rs::default_provider() });
        let algorithms = provider.signature_verification_algorithms;
        let authorities = match &options.verify {
            Some(verify) => Some(Arc::new(Authorities::new(verify, &provider)?)),
            None => None,
        };
        let builder = rustls::ClientConfig::builder_with_details(provider, Arc::new(options.clock.clone()))
            .with_protocol_versions(&versions)
            .map_err(|error| TlsError::Library(error.to_string().into()))?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(OriginVerifier { authorities, algorithms }));
        let mut config = match &options.certificate {
            Some(key) => builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(key.inner()))),
            None => builder.with_no_client_auth(),
        };
        config.alpn_protocols.clone_from(&options.alpn);
        config.enable_secret_extraction = true;
        config.enable_sni = options.send_server_name;
        config.resumption =
            if options.session_reuse { Resumption::in_memory_sessions(SESSIONS_MAX) } else { Resumption::disabled() };
        let mut nameless = config.clone();
        nameless.enable_sni = false;
        Ok((Arc::new(Self { rustls: Arc::new(config), nameless: Arc::new(nameless) }), notices))
    }
}

/// Our end of a TLS connection to an origin.
pub struct ClientSession {
    link: Link<UnbufferedClientConnection>,
}

impl ClientSession {
    /// A session with the origin `name`: `proxy_ssl_name`, by default the host of `proxy_pass`; a port is left out.
    ///
    /// A name that is none of a host can be connected to as long as nothing is verified.
    /// The first [`ClientSession::read`], of no bytes, makes the ClientHello.
    pub fn connect(config: &Arc<ClientConfig>, name: &str) -> Self {
        let host = host_of(name);
        let (rustls, name) = match ServerName::try_from(host.to_owned()) {
            Ok(name) => (config.rustls.clone(), Some(name)),
            Err(_) => (config.nameless.clone(), ServerName::try_from("name.invalid").ok()),
        };
        let connection = match name {
            Some(name) => UnbufferedClientConnection::new(rustls, name),
            None => Err(rustls::Error::HandshakeNotComplete),
        };
        Self { link: Link::new(connection, PLAINTEXT_BYTES_MAX) }
    }

    /// As [`crate::Session::read`].
    pub fn read(&mut self, incoming: &mut [u8], plain: &mut Vec<u8>, out: &mut Vec<u8>) -> Result<Read, SessionError> {
        self.link.read(incoming, plain, out)
    }

    /// As [`crate::Session::write`]. What is written before the handshake is over leaves when it is.
    pub fn write(&mut self, slices: &[IoSlice<'_>], out: &mut Vec<u8>) -> Result<(), SessionError> {
        self.link.write(slices, out)
    }

    /// As [`crate::Session::close`].
    pub fn close(&mut self, out: &mut Vec<u8>) {
        self.link.close(out);
    }

    /// Whether the handshake goes on.
    pub fn is_handshaking(&self) -> bool {
        self.link.is_handshaking()
    }

    /// The version agreed on: `TLSv1.3`. Empty before the handshake is over.
    pub fn protocol(&self) -> &'static str {
        self.link.facts().protocol()
    }

    /// The cipher agreed on, in OpenSSL's names.
    pub fn cipher(&self) -> &'static str {
        self.link.facts().cipher()
    }

    /// The protocol above TLS agreed on.
    pub fn alpn(&self) -> Option<&[u8]> {
        self.link.facts().alpn()
    }

    /// Whether an earlier session was resumed.
    pub fn is_resumed(&self) -> bool {
        self.link.facts().is_resumed
    }

    /// The origin's certificates, its own first, DER.
    pub fn certificates(&self) -> &[Box<[u8]>] {
        &self.link.facts().peer_certificates
    }
}

impl std::fmt::Debug for ClientSession {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("ClientSession").field("protocol", &self.protocol()).finish_non_exhaustive()
    }
}

/// The host of `host`, `host:port`, `[v6]` or `[v6]:port`.
fn host_of(name: &str) -> &str {
    if let Some(rest) = name.strip_prefix('[') {
        return rest.split_once(']').map_or(rest, |(host, _)| host);
    }
    match name.rsplit_once(':') {
        Some((host, port)) if !host.contains(':') && port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => name,
    }
}
