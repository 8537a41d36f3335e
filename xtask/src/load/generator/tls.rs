//! The client side of TLS 1.3: what is offered, what is checked, and records in and out.

use super::super::certificate::Certificate;
use aws_lc_rs::agreement::{self, PrivateKey, UnparsedPublicKey};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{
    ClientSessionStore, Resumption, Tls12ClientSessionValue, Tls13ClientSessionValue, UnbufferedClientConnection,
};
use rustls::crypto::aws_lc_rs::{cipher_suite, default_provider, kx_group};
use rustls::crypto::{ActiveKeyExchange, CryptoProvider, SharedSecret, SupportedKxGroup};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::unbuffered::{ConnectionState, EncodeError, EncryptError, UnbufferedStatus};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, HandshakeKind, NamedGroup, RootCertStore,
    SignatureScheme,
};
use std::str::FromStr;
use std::sync::{Arc, Mutex, OnceLock};

/// More tickets than this are not kept.
const TICKETS_MAX: usize = 100_000;

/// What the key exchange may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Group {
    /// X25519 alone.
    X25519,
    /// X25519 with ML-KEM-768 where the server has it, else X25519: what browsers offer today.
    X25519MlKem768,
}

impl FromStr for Group {
    type Err = String;

    fn from_str(name: &str) -> Result<Group, String> {
        match name.to_ascii_lowercase().as_str() {
            "x25519" => Ok(Group::X25519),
            "x25519mlkem768" => Ok(Group::X25519MlKem768),
            _ => Err(format!("`{name}` is none of x25519, x25519mlkem768")),
        }
    }
}

/// What a client of one server uses for all its connections.
#[derive(Clone)]
pub struct Client {
    config: Arc<ClientConfig>,
    tickets: Arc<Tickets>,
}

impl Client {
    /// A client that checks the chain and the signature, as browsers do. It never resumes.
    pub fn careful(certificate: &Certificate, group: Group, protocol: &[u8]) -> Result<Client, Error> {
        let mut roots = RootCertStore::empty();
        roots.add(certificate.root.clone())?;
        let provider =
            Arc::new(CryptoProvider { kx_groups: vec![kx_group::X25519MLKEM768, kx_group::X25519], ..provider(group) });
        let builder =
            ClientConfig::builder_with_provider(provider).with_protocol_versions(&[&rustls::version::TLS13])?;
        let mut config = builder.with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = vec![protocol.to_vec()];
        config.resumption = Resumption::disabled();
        Ok(Client { config: Arc::new(config), tickets: Arc::default() })
    }

    /// A client that costs little: it has one key pair for all handshakes and, instead of checking a signature, sees
    /// that the certificate is the one it knows. The server's work is the same.
    pub fn quick(certificate: &Certificate, group: Group, protocol: &[u8], resumes: bool) -> Result<Client, Error> {
        let provider = Arc::new(provider(group));
        let tickets = Arc::new(Tickets::default());
        let verifier = Arc::new(Known { leaf: certificate.leaf.clone(), provider: Arc::clone(&provider) });
        let builder =
            ClientConfig::builder_with_provider(provider).with_protocol_versions(&[&rustls::version::TLS13])?;
        let mut config = builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth();
        config.alpn_protocols = vec![protocol.to_vec()];
        config.resumption = if resumes { Resumption::store(tickets.clone()) } else { Resumption::disabled() };
        Ok(Client { config: Arc::new(config), tickets })
    }

    /// Forgets the tickets of earlier connections.
    pub fn forget_tickets(&self) {
        self.tickets.lock().clear();
    }
}

fn provider(group: Group) -> CryptoProvider {
    let kx_groups: Vec<&'static dyn SupportedKxGroup> = match group {
        Group::X25519 => vec![&OneKeyPair],
        Group::X25519MlKem768 => vec![kx_group::X25519MLKEM768, &OneKeyPair],
    };
    CryptoProvider {
        cipher_suites: vec![
            cipher_suite::TLS13_AES_128_GCM_SHA256,
            cipher_suite::TLS13_AES_256_GCM_SHA384,
            cipher_suite::TLS13_CHACHA20_POLY1305_SHA256,
        ],
        kx_groups,
        ..default_provider()
    }
}

/// X25519 with the same key pair every time, which saves half of the client's work and no secret: there is none.
#[derive(Debug)]
struct OneKeyPair;

static KEY_PAIR: OnceLock<Option<(PrivateKey, Vec<u8>)>> = OnceLock::new();

impl SupportedKxGroup for OneKeyPair {
    fn start(&self) -> Result<Box<dyn ActiveKeyExchange>, Error> {
        let made = KEY_PAIR.get_or_init(|| {
            let key = PrivateKey::generate(&agreement::X25519).ok()?;
            let public = key.compute_public_key().ok()?.as_ref().to_vec();
            Some((key, public))
        });
        let (key, public) = made.as_ref().ok_or(Error::FailedToGetRandomBytes)?;
        Ok(Box::new(Exchange { key, public }))
    }

    fn name(&self) -> NamedGroup {
        NamedGroup::X25519
    }
}

struct Exchange {
    key: &'static PrivateKey,
    public: &'static [u8],
}

impl ActiveKeyExchange for Exchange {
    fn complete(self: Box<Self>, peer: &[u8]) -> Result<SharedSecret, Error> {
        let peer = UnparsedPublicKey::new(&agreement::X25519, peer);
        agreement::agree(self.key, peer, rustls::PeerMisbehaved::InvalidKeyShare.into(), |secret| {
            Ok(SharedSecret::from(secret))
        })
    }

    fn pub_key(&self) -> &[u8] {
        self.public
    }

    fn group(&self) -> NamedGroup {
        NamedGroup::X25519
    }
}

/// Accepts one certificate and any signature by it.
#[derive(Debug)]
struct Known {
    leaf: CertificateDer<'static>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Known {
    fn verify_server_cert(
        &self,
        leaf: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if *leaf == self.leaf {
            return Ok(ServerCertVerified::assertion());
        }
        Err(CertificateError::ApplicationVerificationFailure.into())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// Tickets of one server, each used once, the newest first.
#[derive(Debug, Default)]
struct Tickets {
    kept: Mutex<Vec<Tls13ClientSessionValue>>,
}

impl Tickets {
    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Tls13ClientSessionValue>> {
        self.kept.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl ClientSessionStore for Tickets {
    fn set_kx_hint(&self, _: ServerName<'static>, _: NamedGroup) {}

    fn kx_hint(&self, _: &ServerName<'_>) -> Option<NamedGroup> {
        None
    }

    fn set_tls12_session(&self, _: ServerName<'static>, _: Tls12ClientSessionValue) {}

    fn tls12_session(&self, _: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        None
    }

    fn remove_tls12_session(&self, _: &ServerName<'static>) {}

    fn insert_tls13_ticket(&self, _: ServerName<'static>, ticket: Tls13ClientSessionValue) {
        let mut kept = self.lock();
        if kept.len() < TICKETS_MAX {
            kept.push(ticket);
        }
    }

    fn take_tls13_ticket(&self, _: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        self.lock().pop()
    }
}

/// What the two sides of a handshake agreed on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Agreement {
    /// As IANA names it.
    pub cipher: String,
    /// The group of the key exchange.
    pub group: String,
    /// Whether a ticket took the place of certificate and signature.
    pub is_resumed: bool,
}

/// One connection's TLS session.
pub struct Session {
    tls: UnbufferedClientConnection,
    /// The start of a record whose rest has not come.
    part: Vec<u8>,
    is_open: bool,
}

/// What came of some bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// The handshake goes on.
    Shaking,
    /// This completed the handshake.
    Opened,
    /// Open as before.
    Open,
    /// The peer sends nothing more.
    Closed,
}

impl Session {
    /// A new session, which writes its hello to `wire`.
    pub fn begin(client: &Client, wire: &mut Vec<u8>) -> Result<Session, Error> {
        let name = ServerName::try_from("localhost").map_err(|error| Error::General(error.to_string()))?;
        let tls = UnbufferedClientConnection::new(Arc::clone(&client.config), name)?;
        let mut session = Session { tls, part: Vec::new(), is_open: false };
        session.take(&mut [], wire, |_| Ok(()))?;
        Ok(session)
    }

    /// Whether the handshake is over.
    pub fn is_open(&self) -> bool {
        self.is_open
    }

    /// What was agreed on; `None` before the handshake is over.
    pub fn agreement(&self) -> Option<Agreement> {
        let suite = self.tls.negotiated_cipher_suite()?;
        let group = self.tls.negotiated_key_exchange_group()?;
        Some(Agreement {
            cipher: format!("{:?}", suite.suite()).replace("TLS13_", "TLS_"),
            group: format!("{:?}", group.name()),
            is_resumed: self.tls.handshake_kind() == Some(HandshakeKind::Resumed),
        })
    }

    /// Takes what came: plaintext goes to `plain`, what has to be sent to `wire`.
    pub fn take(
        &mut self,
        came: &mut [u8],
        wire: &mut Vec<u8>,
        plain: impl FnMut(&[u8]) -> Result<(), Error>,
    ) -> Result<Progress, Error> {
        if self.part.is_empty() {
            let (used, progress) = self.process(came, wire, plain)?;
            self.part.extend_from_slice(came.get(used..).unwrap_or_default());
            return Ok(progress);
        }
        let mut part = std::mem::take(&mut self.part);
        part.extend_from_slice(came);
        let (used, progress) = self.process(&mut part, wire, plain)?;
        part.drain(..used);
        self.part = part;
        Ok(progress)
    }

    fn process(
        &mut self,
        incoming: &mut [u8],
        wire: &mut Vec<u8>,
        mut plain: impl FnMut(&[u8]) -> Result<(), Error>,
    ) -> Result<(usize, Progress), Error> {
        let mut used = 0;
        loop {
            let rest = incoming.get_mut(used..).unwrap_or_default();
            let UnbufferedStatus { mut discard, state, .. } = self.tls.process_tls_records(rest);
            let progress = match state? {
                ConnectionState::ReadTraffic(mut traffic) => {
                    while let Some(record) = traffic.next_record() {
                        let record = record?;
                        discard += record.discard;
                        plain(record.payload)?;
                    }
                    None
                }
                ConnectionState::EncodeTlsData(mut data) => {
                    append(wire, |space| match data.encode(space) {
                        Ok(written) => Ok(written),
                        Err(EncodeError::InsufficientSize(size)) => Err(Some(size.required_size)),
                        Err(EncodeError::AlreadyEncoded) => Err(None),
                    })?;
                    None
                }
                // `wire` goes out in its order, so nothing that follows can overtake it.
                ConnectionState::TransmitTlsData(data) => {
                    data.done();
                    None
                }
                ConnectionState::BlockedHandshake => Some(Progress::Shaking),
                ConnectionState::WriteTraffic(_) if self.is_open => Some(Progress::Open),
                ConnectionState::WriteTraffic(_) => {
                    self.is_open = true;
                    Some(Progress::Opened)
                }
                ConnectionState::PeerClosed | ConnectionState::Closed => Some(Progress::Closed),
                other => return Err(Error::General(format!("a client never comes to {other:?}"))),
            };
            used += discard;
            if let Some(progress) = progress {
                return Ok((used, progress));
            }
        }
    }

    /// Encrypts `bytes` to `wire`. Only after the handshake.
    pub fn send(&mut self, bytes: &[u8], wire: &mut Vec<u8>) -> Result<(), Error> {
        match self.tls.process_tls_records(&mut []).state? {
            ConnectionState::WriteTraffic(mut traffic) => append(wire, |space| match traffic.encrypt(bytes, space) {
                Ok(written) => Ok(written),
                Err(EncryptError::InsufficientSize(size)) => Err(Some(size.required_size)),
                Err(EncryptError::EncryptExhausted) => Err(None),
            }),
            other => Err(Error::General(format!("nothing can be sent in {other:?}"))),
        }
    }

    /// Writes the end of what we send to `wire`.
    pub fn close(&mut self, wire: &mut Vec<u8>) -> Result<(), Error> {
        match self.tls.process_tls_records(&mut []).state? {
            ConnectionState::WriteTraffic(mut traffic) => {
                append(wire, |space| match traffic.queue_close_notify(space) {
                    Ok(written) => Ok(written),
                    Err(EncryptError::InsufficientSize(size)) => Err(Some(size.required_size)),
                    Err(EncryptError::EncryptExhausted) => Err(None),
                })
            }
            _ => Ok(()),
        }
    }
}

/// Appends what `write` writes; `write` says how much it needs when the space is too small, or `None` when it cannot.
fn append(wire: &mut Vec<u8>, mut write: impl FnMut(&mut [u8]) -> Result<usize, Option<usize>>) -> Result<(), Error> {
    let start = wire.len();
    let mut space = 512;
    loop {
        wire.resize(start + space, 0);
        match write(wire.get_mut(start..).unwrap_or_default()) {
            Ok(written) => {
                wire.truncate(start + written);
                return Ok(());
            }
            Err(Some(needed)) if needed > space => space = needed,
            Err(_) => {
                wire.truncate(start);
                return Err(Error::EncryptError);
            }
        }
    }
}
