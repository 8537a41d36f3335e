//! What a `server` block says about TLS, as rustls wants it.

use crate::cache::{CacheView, SessionCache};
use crate::choices::{self, Protocol};
use crate::ciphers;
use crate::clock::Clock;
use crate::error::{Notice, TlsError};
use crate::key::CertifiedKey;
use crate::record::PLAINTEXT_BYTES_MAX;
use crate::tickets::{TicketKeys, TicketView};
use crate::verify::{AnyClient, Authorities, Verify, VerifyMode};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::server::{ClientHello, NoServerSessionStorage, ResolvesServerCert, WebPkiClientVerifier};
use rustls::{SignatureAlgorithm, SupportedCipherSuite, sign};
use std::sync::Arc;

/// How many sessions a configuration with early data and no cache of its own keeps.
const EARLY_DATA_SESSIONS: usize = 20_480;

/// nginx's `ssl_*` directives of one server.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// `ssl_certificate` and its key, one for each kind of key. May be empty where every connection brings its own.
    pub certificates: Vec<CertifiedKey>,
    /// What else a session rests on: the names of certificates that come from variables.
    pub context: Vec<Vec<u8>>,
    /// `ssl_protocols`; empty stands for all there are.
    pub protocols: Vec<Protocol>,
    /// `ssl_ciphers`.
    pub ciphers: Option<String>,
    /// `ssl_conf_command Ciphersuites`.
    pub tls13_ciphers: Option<String>,
    /// `ssl_ecdh_curve`.
    pub curves: Option<String>,
    /// `ssl_prefer_server_ciphers`.
    pub prefer_server_ciphers: bool,
    /// The protocols above TLS, most wanted first. A client that offers others only is refused, as by nginx.
    pub alpn: Vec<Vec<u8>>,
    /// `ssl_session_cache`; `None` for `off` and `none`.
    pub session_cache: Option<Arc<SessionCache>>,
    /// `ssl_session_timeout`.
    pub session_timeout_seconds: u64,
    /// `ssl_session_tickets` and `ssl_session_ticket_key`; `None` for `off`.
    pub tickets: Option<Arc<TicketKeys>>,
    /// How much early data a client may send; 0 is `ssl_early_data off`.
    ///
    /// Early data rests on the session cache, not on tickets: a session is taken once, so it cannot be replayed.
    pub early_data_bytes_max: u32,
    /// `ssl_verify_client` and what belongs to it.
    pub verify: Verify,
    /// `ssl_buffer_size`: how much plaintext a record holds at most.
    pub record_bytes_max: usize,
    /// Where the time comes from.
    pub clock: Clock,
}

impl ServerOptions {
    /// nginx's defaults, with these certificates.
    pub fn new(certificates: Vec<CertifiedKey>, clock: Clock) -> Self {
        Self {
            certificates,
            context: Vec::new(),
            protocols: Vec::new(),
            ciphers: None,
            tls13_ciphers: None,
            curves: None,
            prefer_server_ciphers: false,
            alpn: Vec::new(),
            session_cache: None,
            session_timeout_seconds: 300,
            tickets: None,
            early_data_bytes_max: 0,
            verify: Verify { depth: 1, ..Verify::default() },
            record_bytes_max: PLAINTEXT_BYTES_MAX,
            clock,
        }
    }
}

/// What a server needs for its handshakes. Shared by its connections.
#[derive(Debug)]
pub struct ServerConfig {
    pub(crate) rustls: Arc<rustls::ServerConfig>,
    pub(crate) authorities: Option<Authorities>,
    pub(crate) mode: VerifyMode,
    pub(crate) record_bytes_max: usize,
    pub(crate) clock: Clock,
}

impl ServerConfig {
    /// A configuration, and what an operator should know about it.
    pub fn new(options: ServerOptions) -> Result<(Arc<Self>, Vec<Notice>), TlsError> {
        let mut notices = Vec::new();
        let versions = choices::versions(&options.protocols, "ssl_protocols", &mut notices)?;
        let suites = ciphers::suites(
            options.ciphers.as_deref(),
            options.tls13_ciphers.as_deref(),
            versions.contains(&&rustls::version::TLS12),
            "ssl_ciphers",
            &mut notices,
        )?;
        let groups = choices::groups(options.curves.as_deref(), &mut notices)?;
        let provider = Arc::new(CryptoProvider {
            cipher_suites: suites.clone(),
            kx_groups: groups,
            ..aws_lc_rs::default_provider()
        });
        let (authorities, verifier) = match options.verify.mode {
            VerifyMode::Off => (None, WebPkiClientVerifier::no_client_auth()),
            VerifyMode::On | VerifyMode::Optional | VerifyMode::OptionalNoCa => {
                let verifier: Arc<dyn rustls::server::danger::ClientCertVerifier> =
                    Arc::new(AnyClient::new(&options.verify, &provider));
                (Some(Authorities::new(&options.verify, &provider)?), verifier)
            }
        };
        let spoken = suites.into_iter().filter(|suite| versions.contains(&suite.version())).collect();
        let certificates = Certificates::new(&options.certificates, spoken);
        let mut config = rustls::ServerConfig::builder_with_details(provider, Arc::new(options.clock.clone()))
            .with_protocol_versions(&versions)
            .map_err(|error| TlsError::Library(error.to_string().into()))?
            .with_client_cert_verifier(verifier)
            .with_cert_resolver(Arc::new(certificates));
        config.alpn_protocols.clone_from(&options.alpn);
        config.ignore_client_order = options.prefer_server_ciphers;
        config.enable_secret_extraction = true;
        let has_early_data = options.early_data_bytes_max > 0;
        let context = context(&options);
        let timeout_seconds = options.session_timeout_seconds;
        let cache = options
            .session_cache
            .clone()
            .or_else(|| has_early_data.then(|| SessionCache::builtin(EARLY_DATA_SESSIONS, options.clock.clone())));
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        if let Some(cache) = cache {
            config.session_storage = Arc::new(CacheView { cache, context, timeout_seconds });
            config.send_tls13_tickets = TICKETS;
        }
        if let Some(keys) = options.tickets.clone().filter(|_| !has_early_data) {
            keys.keep_for(timeout_seconds);
            let bond = bond(&options.certificates);
            config.ticketer = Arc::new(TicketView { keys, context, bond, timeout_seconds });
            config.send_tls13_tickets = TICKETS;
        }
        if has_early_data {
            config.max_early_data_size = options.early_data_bytes_max;
            config.send_half_rtt_data = true;
        }
        let config = Self {
            rustls: Arc::new(config),
            authorities,
            mode: options.verify.mode,
            record_bytes_max: options.record_bytes_max.clamp(1, PLAINTEXT_BYTES_MAX),
            clock: options.clock,
        };
        Ok((Arc::new(config), notices))
    }

    /// What this server asks of its clients.
    pub fn verify_mode(&self) -> VerifyMode {
        self.mode
    }

    /// The same with another certificate, for one connection.
    pub(crate) fn with_certificate(&self, key: &CertifiedKey) -> Arc<rustls::ServerConfig> {
        let mut config = rustls::ServerConfig::clone(&self.rustls);
        config.cert_resolver = Arc::new(sign::SingleCertAndKey::from(key.inner()));
        Arc::new(config)
    }

    /// For a validation by tls-alpn-01 (RFC 8737): nothing but a handshake with this certificate.
    pub(crate) fn for_acme(&self, key: &CertifiedKey) -> Arc<rustls::ServerConfig> {
        let mut config = rustls::ServerConfig::clone(&self.rustls);
        config.cert_resolver = Arc::new(sign::SingleCertAndKey::from(key.inner()));
        config.alpn_protocols = vec![ACME_TLS.to_vec()];
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        config.max_early_data_size = 0;
        Arc::new(config)
    }
}

/// The protocol a certificate authority offers, alone, to validate by tls-alpn-01.
pub const ACME_TLS: &[u8] = b"acme-tls/1";

/// How many tickets a client of TLS 1.3 gets; OpenSSL's number. Browsers open a second connection now and then.
const TICKETS: usize = 2;

/// A digest of what a session rests on: a client verified by one server is not thereby verified for another.
fn context(options: &ServerOptions) -> [u8; 32] {
    let mut digest = ::aws_lc_rs::digest::Context::new(&::aws_lc_rs::digest::SHA256);
    let mut add = |bytes: &[u8]| {
        digest.update(&(bytes.len() as u64).to_be_bytes());
        digest.update(bytes);
    };
    for certificate in &options.certificates {
        certificate.chain().take(1).for_each(&mut add);
    }
    options.context.iter().for_each(|name| add(name));
    let verify = &options.verify;
    add(&[verify.mode as u8]);
    if verify.mode != VerifyMode::Off {
        add(&verify.depth.to_be_bytes());
        for list in [&verify.authorities, &verify.trusted, &verify.revocation_lists] {
            add(&(list.len() as u64).to_be_bytes());
            list.iter().for_each(|der| add(der));
        }
    }
    let mut context = [0; 32];
    context.copy_from_slice(digest.finish().as_ref());
    context
}

/// What only those know who have the private keys of a server; `None` if connections bring their own.
fn bond(certificates: &[CertifiedKey]) -> Option<[u8; 32]> {
    if certificates.is_empty() {
        return None;
    }
    let mut digest = ::aws_lc_rs::digest::Context::new(&::aws_lc_rs::digest::SHA256);
    certificates.iter().for_each(|key| digest.update(&key.seed().0));
    let mut bond = [0; 32];
    bond.copy_from_slice(digest.finish().as_ref());
    Some(bond)
}

/// The certificates of a server, the one that is cheapest to sign with first.
#[derive(Debug)]
struct Certificates {
    keys: Vec<CertifiedKey>,
    /// The suites of the versions that are spoken.
    suites: Vec<SupportedCipherSuite>,
}

impl Certificates {
    fn new(certificates: &[CertifiedKey], suites: Vec<SupportedCipherSuite>) -> Self {
        // Of one kind the last one counts, as with OpenSSL.
        let algorithm = |key: &CertifiedKey| key.inner().key.algorithm();
        let mut keys: Vec<CertifiedKey> = Vec::new();
        for key in certificates {
            keys.retain(|other| algorithm(other) != algorithm(key));
            keys.push(key.clone());
        }
        keys.sort_by_key(|key| algorithm(key) == SignatureAlgorithm::RSA);
        Self { keys, suites }
    }
}

impl ResolvesServerCert for Certificates {
    /// The first one whose signatures the client takes; else the first, for which rustls then says what is missing.
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<sign::CertifiedKey>> {
        let fits = |key: &Arc<sign::CertifiedKey>| {
            let algorithm = key.key.algorithm();
            let usable = |suite: &&SupportedCipherSuite| suite.usable_for_signature_algorithm(algorithm);
            key.key.choose_scheme(hello.signature_schemes()).is_some()
                && self.suites.iter().filter(usable).any(|suite| hello.cipher_suites().contains(&suite.suite()))
        };
        self.keys.iter().map(CertifiedKey::inner).find(fits).or(self.keys.first().map(CertifiedKey::inner))
    }
}
