//! What the tests share: an authority, certificates, a client by rustls, and a wire between the ends.

use larder_tls::{CertifiedKey, Clock, Hello, ServerConfig, ServerOptions, Session, SessionError, State};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose, SignatureAlgorithm};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use std::io::{IoSlice, Read, Write};
use std::sync::Arc;

/// 2026-06-01, within the certificates' time.
pub const NOW: u64 = 1_780_272_000;

pub fn clock() -> Clock {
    Clock::new(|| NOW)
}

/// An authority that signs certificates for tests.
pub struct Authority {
    pub der: Vec<u8>,
    issuer: Issuer<'static, KeyPair>,
}

pub fn authority(name: &str) -> Authority {
    Authority::sign(name, None)
}

impl Authority {
    fn sign(name: &str, by: Option<&Authority>) -> Authority {
        let mut params = params(name, &[]);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().unwrap();
        let certificate = match by {
            Some(by) => params.signed_by(&key, &by.issuer).unwrap(),
            None => params.self_signed(&key).unwrap(),
        };
        Authority { der: certificate.der().to_vec(), issuer: Issuer::new(params, key) }
    }

    /// An authority below this one.
    pub fn sub(&self, name: &str) -> Authority {
        Self::sign(name, Some(self))
    }

    pub fn revocation_list(&self, serials: &[u64]) -> Vec<u8> {
        let revoked = serials.iter().map(|serial| rcgen::RevokedCertParams {
            serial_number: (*serial).into(),
            revocation_time: rcgen::date_time_ymd(2026, 1, 1),
            reason_code: None,
            invalidity_date: None,
        });
        let params = rcgen::CertificateRevocationListParams {
            this_update: rcgen::date_time_ymd(2026, 1, 1),
            next_update: rcgen::date_time_ymd(2027, 1, 1),
            crl_number: 1.into(),
            issuing_distribution_point: None,
            revoked_certs: revoked.collect(),
            key_identifier_method: rcgen::KeyIdMethod::Sha256,
        };
        params.signed_by(&self.issuer).unwrap().der().to_vec()
    }

    /// A certificate for `name` and its key, DER.
    pub fn leaf(&self, name: &str, algorithm: &'static SignatureAlgorithm) -> (Vec<u8>, Vec<u8>) {
        self.leaf_with(name, algorithm, |_| {})
    }

    pub fn leaf_with(
        &self,
        name: &str,
        algorithm: &'static SignatureAlgorithm,
        change: impl FnOnce(&mut CertificateParams),
    ) -> (Vec<u8>, Vec<u8>) {
        let mut params = params(name, &[name]);
        change(&mut params);
        let key = KeyPair::generate_for(algorithm).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        (certificate.der().to_vec(), key.serialize_der())
    }

    pub fn certified(&self, name: &str) -> CertifiedKey {
        let (certificate, key) = self.leaf(name, &rcgen::PKCS_ECDSA_P256_SHA256);
        CertifiedKey::from_der(vec![certificate], &key).unwrap()
    }
}

pub fn params(name: &str, names: &[&str]) -> CertificateParams {
    let mut params = CertificateParams::new(names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>()).unwrap();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params.not_before = rcgen::date_time_ymd(2025, 1, 1);
    params.not_after = rcgen::date_time_ymd(2030, 1, 1);
    params
}

/// A server of `example.com` and the authority its clients trust.
pub struct Site {
    pub authority: Authority,
    pub config: Arc<ServerConfig>,
}

pub fn site(change: impl FnOnce(&mut ServerOptions)) -> Site {
    let authority = authority("Test Authority");
    let mut options = ServerOptions::new(vec![authority.certified("example.com")], clock());
    change(&mut options);
    let (config, _) = ServerConfig::new(options).unwrap();
    Site { authority, config }
}

impl Site {
    /// A client's configuration that trusts the site.
    pub fn client(&self, versions: &[&'static rustls::SupportedProtocolVersion]) -> ClientConfig {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from(self.authority.der.clone())).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        ClientConfig::builder_with_details(provider, Arc::new(clock()))
            .with_protocol_versions(versions)
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth()
    }
}

pub const TLS13: &[&rustls::SupportedProtocolVersion] = &[&rustls::version::TLS13];
pub const TLS12: &[&rustls::SupportedProtocolVersion] = &[&rustls::version::TLS12];

/// A client by rustls and our server, with what is on the wire between them.
pub struct Ends {
    pub client: ClientConnection,
    pub server: Option<Session>,
    pub accept: Box<dyn Fn(Hello) -> Session>,
    /// From the client, not used up yet.
    pub incoming: Vec<u8>,
    /// Plaintext the server has read.
    pub plain: Vec<u8>,
    /// Plaintext the client has read.
    pub answer: Vec<u8>,
    /// The server's error.
    pub error: Option<SessionError>,
    /// What the server sent last.
    pub sent: Vec<u8>,
    /// How many bytes the wire carries at once, from the client.
    pub piece: usize,
    pub state: Option<State>,
}

pub fn ends(client: &Arc<ClientConfig>, server: &Arc<ServerConfig>) -> Ends {
    let name = ServerName::try_from("example.com").unwrap();
    let server = server.clone();
    Ends {
        client: ClientConnection::new(client.clone(), name).unwrap(),
        server: None,
        accept: Box::new(move |hello| Session::accept(&server, hello)),
        incoming: Vec::new(),
        plain: Vec::new(),
        answer: Vec::new(),
        error: None,
        sent: Vec::new(),
        piece: usize::MAX,
        state: None,
    }
}

impl Ends {
    pub fn server(&mut self) -> &mut Session {
        self.server.as_mut().expect("the ClientHello is there")
    }

    /// Carries what the client wants to send to the server. Says whether there was anything.
    pub fn carry_to_server(&mut self) -> bool {
        let mut wire = Vec::new();
        while self.client.wants_write() {
            self.client.write_tls(&mut wire).unwrap();
        }
        for piece in wire.chunks(self.piece) {
            self.incoming.extend_from_slice(piece);
            self.serve();
        }
        !wire.is_empty()
    }

    /// Lets the server work on what is there.
    pub fn serve(&mut self) {
        if self.error.is_some() {
            return;
        }
        if self.server.is_none() {
            match Hello::read(&self.incoming) {
                Ok(Some(hello)) => self.server = Some((self.accept)(hello)),
                Ok(None) => return,
                Err(error) => {
                    self.sent.extend(error.alert().into_iter().flatten());
                    self.error = Some(SessionError::Handshake(error.to_string().into()));
                    return;
                }
            }
        }
        let session = self.server.as_mut().unwrap();
        match session.read(&mut self.incoming, &mut self.plain, &mut self.sent) {
            Ok(read) => {
                self.incoming.drain(..read.consumed);
                self.state = Some(read.state);
            }
            Err(error) => self.error = Some(error),
        }
    }

    /// Carries what the server sent to the client. Says whether there was anything.
    pub fn carry_to_client(&mut self) -> Result<bool, rustls::Error> {
        let sent = std::mem::take(&mut self.sent);
        let mut wire = &sent[..];
        while !wire.is_empty() {
            self.client.read_tls(&mut wire).unwrap();
            self.client.process_new_packets()?;
            let mut bytes = vec![0; 64 * 1024];
            while let Ok(length @ 1..) = self.client.reader().read(&mut bytes) {
                self.answer.extend_from_slice(&bytes[..length]);
            }
        }
        Ok(!sent.is_empty())
    }

    /// Carries bytes until both are silent.
    pub fn settle(&mut self) -> Result<(), rustls::Error> {
        while self.carry_to_server() | self.carry_to_client()? {}
        Ok(())
    }

    /// A handshake that must succeed, and a word each way.
    pub fn converse(&mut self) {
        self.settle().unwrap();
        assert_eq!(self.error, None);
        assert!(!self.client.is_handshaking());
        self.client.writer().write_all(b"question").unwrap();
        self.settle().unwrap();
        assert_eq!(self.error, None);
        assert_eq!(self.plain, b"question");
        self.write(&[b"ans", b"", b"wer"]);
        self.settle().unwrap();
        assert_eq!(self.answer, b"answer");
        assert_eq!(self.state, Some(State::Open));
        self.plain.clear();
        self.answer.clear();
    }

    pub fn write(&mut self, parts: &[&[u8]]) {
        let slices: Vec<IoSlice<'_>> = parts.iter().map(|part| IoSlice::new(part)).collect();
        let mut sent = std::mem::take(&mut self.sent);
        self.server().write(&slices, &mut sent).unwrap();
        self.sent = sent;
    }
}
