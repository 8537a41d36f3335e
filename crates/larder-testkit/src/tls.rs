//! How a client speaks TLS, and what came of it.

use std::io;
use std::sync::{Arc, OnceLock};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, Tls12Resumption, WebPkiServerVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, HandshakeKind, ProtocolVersion, RootCertStore,
    SignatureScheme, SupportedProtocolVersion,
};

use crate::certificates::{Certificate, Certificates, KeyKind};

const ONLY_1_2: &[&SupportedProtocolVersion] = &[&rustls::version::TLS12];
const ONLY_1_3: &[&SupportedProtocolVersion] = &[&rustls::version::TLS13];

/// A client's wishes for TLS. Connections made with one value, or with clones of it, share its sessions.
#[derive(Clone, Debug)]
pub struct Tls {
    name: String,
    roots: Arc<RootCertStore>,
    alpn: Vec<Vec<u8>>,
    versions: &'static [&'static SupportedProtocolVersion],
    resumption: Resumption,
    identity: Option<Certificate>,
    signatures: Option<KeyKind>,
    sends_name: bool,
    is_checking: bool,
    sends_early: bool,
    /// Sessions may be resumed only under the configuration that made them, so there is one.
    config: OnceLock<Arc<ClientConfig>>,
}

/// What a handshake came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFacts {
    /// `TLSv1.3` or `TLSv1.2`.
    pub version: &'static str,
    /// The protocol that was chosen, or nothing.
    pub alpn: String,
    /// Whether a session was resumed.
    pub is_resumed: bool,
    /// The server's certificate as DER.
    pub certificate: Vec<u8>,
    /// The cipher suite in IANA's name, such as `TLS13_AES_128_GCM_SHA256` as rustls writes it.
    pub cipher: String,
}

impl TlsFacts {
    pub(crate) fn of(connection: &ClientConnection) -> TlsFacts {
        let version = match connection.protocol_version() {
            Some(ProtocolVersion::TLSv1_3) => "TLSv1.3",
            Some(ProtocolVersion::TLSv1_2) => "TLSv1.2",
            _ => "none",
        };
        let certificate = connection.peer_certificates().and_then(<[_]>::first);
        TlsFacts {
            version,
            alpn: connection.alpn_protocol().map(crate::text_of).unwrap_or_default(),
            is_resumed: connection.handshake_kind() == Some(HandshakeKind::Resumed),
            certificate: certificate.map(|certificate| certificate.to_vec()).unwrap_or_default(),
            cipher: connection
                .negotiated_cipher_suite()
                .map(|suite| format!("{:?}", suite.suite()))
                .unwrap_or_default(),
        }
    }
}

impl Tls {
    /// Asks for the server `name`, and believes what `authority` signed.
    pub fn new(name: &str, authority: &Certificates) -> Tls {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from(authority.authority_der())).expect("the authority's certificate is sound");
        Tls {
            name: name.to_owned(),
            roots: Arc::new(roots),
            alpn: Vec::new(),
            versions: rustls::ALL_VERSIONS,
            resumption: Resumption::disabled(),
            identity: None,
            signatures: None,
            sends_name: true,
            is_checking: true,
            sends_early: false,
            config: OnceLock::new(),
        }
    }

    /// Offers these protocols, such as `h2` and `http/1.1`.
    pub fn alpn(mut self, protocols: &[&str]) -> Tls {
        self.alpn = protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
        self.anew()
    }

    /// Speaks TLS 1.2 alone.
    pub fn version_1_2(mut self) -> Tls {
        self.versions = ONLY_1_2;
        self.anew()
    }

    /// Speaks TLS 1.3 alone.
    pub fn version_1_3(mut self) -> Tls {
        self.versions = ONLY_1_3;
        self.anew()
    }

    /// Resumes sessions, by whatever the server gave for it.
    pub fn resuming(mut self) -> Tls {
        self.resumption = Resumption::in_memory_sessions(16);
        self.anew()
    }

    /// Resumes sessions of TLS 1.2 by their number, which the server has to have kept.
    pub fn resuming_by_number(mut self) -> Tls {
        self.resumption = Resumption::in_memory_sessions(16).tls12_resumption(Tls12Resumption::SessionIdOnly);
        self.anew()
    }

    /// Shows this certificate when the server asks for one.
    pub fn identity(mut self, certificate: &Certificate) -> Tls {
        self.identity = Some(certificate.clone());
        self.anew()
    }

    /// Believes signatures of keys of this kind alone.
    pub fn signed_by(mut self, kind: KeyKind) -> Tls {
        self.signatures = Some(kind);
        self.anew()
    }

    /// Does not say which server is asked for.
    pub fn without_name(mut self) -> Tls {
        self.sends_name = false;
        self.anew()
    }

    /// Takes any certificate.
    pub fn unchecked(mut self) -> Tls {
        self.is_checking = false;
        self.anew()
    }

    /// Sends early data where a resumed session allows it: see [`crate::Client::connect_early`].
    pub fn early(mut self) -> Tls {
        self.sends_early = true;
        self.anew()
    }

    /// The server that is asked for.
    pub fn name(&self) -> &str {
        &self.name
    }

    fn anew(mut self) -> Tls {
        self.config = OnceLock::new();
        self
    }

    pub(crate) fn connection(&self) -> io::Result<ClientConnection> {
        ClientConnection::new(self.config(), self.server_name()).map_err(io::Error::other)
    }

    pub(crate) fn server_name(&self) -> ServerName<'static> {
        ServerName::try_from(self.name.clone()).expect("a test names servers by names")
    }

    pub(crate) fn config(&self) -> Arc<ClientConfig> {
        Arc::clone(self.config.get_or_init(|| Arc::new(self.build())))
    }

    fn build(&self) -> ClientConfig {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(self.versions)
            .expect("the provider has both versions")
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Verifier::new(self, provider)));
        let mut config = match &self.identity {
            None => builder.with_no_client_auth(),
            Some(identity) => {
                let key = PrivateKeyDer::try_from(identity.key_der.clone()).expect("the key is PKCS#8");
                let chain = vec![CertificateDer::from(identity.der.clone())];
                let key = aws_lc_rs::sign::any_supported_type(&key).expect("the key is one of ours");
                // Without a look at the certificate, which may be of version 1.
                let shown = SingleCertAndKey::from(CertifiedKey::new(chain, key));
                builder.with_client_cert_resolver(Arc::new(shown))
            }
        };
        config.alpn_protocols.clone_from(&self.alpn);
        config.enable_sni = self.sends_name;
        config.resumption = self.resumption.clone();
        config.enable_early_data = self.sends_early;
        config
    }
}

/// The usual checks, or none, with fewer signatures to choose from.
#[derive(Debug)]
struct Verifier {
    usual: Arc<WebPkiServerVerifier>,
    is_checking: bool,
    signatures: Option<KeyKind>,
}

impl Verifier {
    fn new(tls: &Tls, provider: Arc<CryptoProvider>) -> Verifier {
        let usual = WebPkiServerVerifier::builder_with_provider(Arc::clone(&tls.roots), provider)
            .build()
            .expect("there is one authority at least");
        Verifier { usual, is_checking: tls.is_checking, signatures: tls.signatures }
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if !self.is_checking {
            return Ok(ServerCertVerified::assertion());
        }
        self.usual.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.usual.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.usual.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        let all = self.usual.supported_verify_schemes();
        let is_wanted = |scheme: &SignatureScheme| {
            let is_ecdsa = format!("{scheme:?}").starts_with("ECDSA");
            self.signatures.is_none_or(|kind| is_ecdsa == (kind == KeyKind::Ecdsa))
        };
        all.into_iter().filter(is_wanted).collect()
    }
}
