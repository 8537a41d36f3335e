//! Verifying the certificates of peers: chains, depth, revocation, and OpenSSL's words for what is wrong.

mod chain;
mod signature;

use crate::certificate::CertificateFacts;
use crate::clock::Clock;
use crate::error::TlsError;
pub(crate) use chain::is_signed;
use chain::{Judge, Purpose};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms};
use rustls::pki_types::{CertificateDer, ServerName, TrustAnchor, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};
use signature::{verify_tls12, verify_tls13};
use std::sync::Arc;
use webpki::{
    CertRevocationList, EndEntityCert, ExpirationPolicy, KeyUsage, OwnedCertRevocationList, RevocationCheckDepth,
    RevocationOptionsBuilder, UnknownStatusPolicy, anchor_from_trusted_cert,
};
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer as _;
use x509_parser::revocation_list::CertificateRevocationList;

/// What is asked of a client: `ssl_verify_client`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VerifyMode {
    /// `off`: no certificate is asked for.
    #[default]
    Off,
    /// `on`: requests without a good certificate are refused.
    On,
    /// `optional`: a certificate may be missing, but not be bad.
    Optional,
    /// `optional_no_ca`: nobody we know need have signed it.
    OptionalNoCa,
}

/// Which certificates of peers are good. Everything DER.
#[derive(Clone, Debug, Default)]
pub struct Verify {
    /// What is asked of clients; not used towards origins.
    pub mode: VerifyMode,
    /// `ssl_verify_depth`: how many authorities may stand between a certificate and one we trust.
    pub depth: u32,
    /// `ssl_client_certificate`: authorities that are trusted, and named to clients.
    pub authorities: Vec<Vec<u8>>,
    /// `ssl_trusted_certificate`: authorities that are trusted without being named.
    pub trusted: Vec<Vec<u8>>,
    /// `ssl_crl`: with any here, every certificate of a chain must be covered.
    pub revocation_lists: Vec<Vec<u8>>,
}

/// What became of a client's certificate: `$ssl_client_verify`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClientVerdict {
    /// There is none.
    #[default]
    None,
    /// It is good.
    Success,
    /// It is not, and this is why, in OpenSSL's words.
    Failed(&'static str),
}

impl ClientVerdict {
    /// Nobody we trust has signed it, which `optional_no_ca` forgives.
    fn is_untrusted(self) -> bool {
        matches!(self, Self::Failed(SELF_SIGNED | SELF_SIGNED_IN_CHAIN | NO_ISSUER | FIRST_UNVERIFIED))
    }
}

impl ClientVerdict {
    /// OpenSSL's number for what is wrong, which nginx logs: `client SSL certificate verify error: (18:self-signed certificate)`.
    pub fn code(self) -> u32 {
        let Self::Failed(reason) = self else {
            return 0;
        };
        match reason {
            NO_CRL => 3,
            "certificate signature failure" => 7,
            "CRL signature failure" => 8,
            NOT_YET_VALID => 9,
            EXPIRED => 10,
            "CRL is not yet valid" => 11,
            CRL_EXPIRED => 12,
            SELF_SIGNED => 18,
            SELF_SIGNED_IN_CHAIN => 19,
            NO_ISSUER => 20,
            FIRST_UNVERIFIED => 21,
            "certificate chain too long" => 22,
            "certificate revoked" => 23,
            "invalid CA certificate" => 24,
            "path length constraint exceeded" => 25,
            "unsuitable certificate purpose" => 26,
            "unhandled critical extension" => 34,
            "key usage does not include CRL signing" => 35,
            "permitted subtree violation" => 47,
            _ => 28,
        }
    }
}

impl std::fmt::Display for ClientVerdict {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::None => formatter.write_str("NONE"),
            Self::Success => formatter.write_str("SUCCESS"),
            Self::Failed(reason) => write!(formatter, "FAILED:{reason}"),
        }
    }
}

/// Why a request over this connection must be refused; nginx's statuses 496 and 495.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// "400 No required SSL certificate was sent".
    NoCertificate,
    /// "400 The SSL certificate error".
    BadCertificate,
}

impl VerifyMode {
    /// What nginx does about requests of a client with this verdict.
    pub fn refuses(self, verdict: ClientVerdict) -> Option<Refusal> {
        match (self, verdict) {
            (Self::Off, _) | (_, ClientVerdict::Success) => None,
            (Self::On, ClientVerdict::None) => Some(Refusal::NoCertificate),
            (Self::Optional | Self::OptionalNoCa, ClientVerdict::None) => None,
            (Self::OptionalNoCa, verdict) if verdict.is_untrusted() => None,
            (_, ClientVerdict::Failed(_)) => Some(Refusal::BadCertificate),
        }
    }
}

const SELF_SIGNED: &str = "self-signed certificate";
const SELF_SIGNED_IN_CHAIN: &str = "self-signed certificate in certificate chain";
const NO_ISSUER: &str = "unable to get local issuer certificate";
const FIRST_UNVERIFIED: &str = "unable to verify the first certificate";
const EXPIRED: &str = "certificate has expired";
const NOT_YET_VALID: &str = "certificate is not yet valid";
const NO_CRL: &str = "unable to get certificate CRL";
const CRL_EXPIRED: &str = "CRL has expired";
const UNREADABLE: &str = "certificate rejected";

/// What decides about chains.
#[derive(Debug)]
pub(crate) struct Authorities {
    anchors: Vec<TrustAnchor<'static>>,
    /// The trusted certificates themselves: OpenSSL also takes one of them as the peer's own.
    trusted: Vec<Vec<u8>>,
    /// `None` with lists that webpki does not read, such as those of version 1.
    revocation: Option<Vec<CertRevocationList<'static>>>,
    revocation_lists: Vec<Vec<u8>>,
    depth: usize,
    algorithms: WebPkiSupportedAlgorithms,
}

impl Authorities {
    pub(crate) fn new(verify: &Verify, provider: &CryptoProvider) -> Result<Self, TlsError> {
        let trusted: Vec<Vec<u8>> = verify.authorities.iter().chain(&verify.trusted).cloned().collect();
        let mut anchors = Vec::new();
        for der in &trusted {
            match anchor_from_trusted_cert(&CertificateDer::from(der.as_slice())) {
                Ok(anchor) => anchors.push(anchor.to_owned()),
                Err(error) => return Err(TlsError::Authority(error.to_string().into())),
            }
        }
        let mut revocation = Some(Vec::new());
        for der in &verify.revocation_lists {
            if let Err(error) = CertificateRevocationList::from_der(der) {
                return Err(TlsError::Revocation(error.to_string().into()));
            }
            match OwnedCertRevocationList::from_der(der) {
                Ok(list) => revocation.iter_mut().for_each(|lists| lists.push(CertRevocationList::Owned(list.clone()))),
                Err(_) => revocation = None,
            }
        }
        let algorithms = provider.signature_verification_algorithms;
        let revocation_lists = verify.revocation_lists.clone();
        Ok(Self { anchors, trusted, revocation, revocation_lists, depth: verify.depth as usize, algorithms })
    }

    /// The trusted certificates, DER.
    pub(crate) fn trusted(&self) -> &[Vec<u8>] {
        &self.trusted
    }

    /// Whether `leaf`, shown with `others`, leads to a trusted authority; if not, OpenSSL's reason.
    fn check(
        &self,
        leaf: &[u8],
        others: &[CertificateDer<'_>],
        now: UnixTime,
        purpose: Purpose,
    ) -> Result<(), &'static str> {
        if self.is_plainly_good(leaf, others, now, purpose) {
            return Ok(());
        }
        let judge = Judge {
            trusted: &self.trusted,
            revocation_lists: &self.revocation_lists,
            depth: self.depth,
            purpose,
            now_secs: i64::try_from(now.as_secs()).unwrap_or(i64::MAX),
        };
        judge.check(leaf, others)
    }

    /// Whether webpki finds nothing wrong. What it does not like may still be good for OpenSSL.
    fn is_plainly_good(&self, leaf: &[u8], others: &[CertificateDer<'_>], now: UnixTime, purpose: Purpose) -> bool {
        let Some(lists) = &self.revocation else { return false };
        let der = CertificateDer::from(leaf);
        let Ok(leaf_certificate) = EndEntityCert::try_from(&der) else { return false };
        let lists: Vec<&CertRevocationList<'_>> = lists.iter().collect();
        let revocation = RevocationOptionsBuilder::new(&lists).ok().map(|builder| {
            builder
                .with_depth(RevocationCheckDepth::Chain)
                .with_status_policy(UnknownStatusPolicy::Deny)
                .with_expiration_policy(ExpirationPolicy::Enforce)
                .build()
        });
        let depth = self.depth;
        let within_depth = |path: &webpki::VerifiedPath<'_>| {
            if path.intermediate_certificates().count() > depth {
                return Err(webpki::Error::MaximumPathDepthExceeded);
            }
            Ok(())
        };
        let usage = match purpose {
            Purpose::Client => KeyUsage::client_auth(),
            Purpose::Server => KeyUsage::server_auth(),
        };
        let algorithms = self.algorithms.all;
        leaf_certificate
            .verify_for_usage(algorithms, &self.anchors, others, now, usage, revocation, Some(&within_depth))
            .is_ok()
    }

    /// The verdict about a client's chain.
    pub(crate) fn judge_client(&self, chain: &[Box<[u8]>], clock: &Clock) -> ClientVerdict {
        let Some((leaf, others)) = chain.split_first() else {
            return ClientVerdict::None;
        };
        let others: Vec<CertificateDer<'_>> = others.iter().map(|der| CertificateDer::from(&**der)).collect();
        match self.check(leaf, &others, clock.unix_time(), Purpose::Client) {
            Ok(()) => ClientVerdict::Success,
            Err(reason) => ClientVerdict::Failed(reason),
        }
    }
}

/// Asks clients for a certificate and takes any: what is wrong with it is a fact for the request, as with nginx.
///
/// The client still proves that it has the certificate's key.
#[derive(Debug)]
pub(crate) struct AnyClient {
    subjects: Vec<DistinguishedName>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl AnyClient {
    /// Only the authorities of `ssl_client_certificate` are named to the client.
    pub(crate) fn new(verify: &Verify, provider: &CryptoProvider) -> Self {
        let subject = |der: &Vec<u8>| {
            let der = CertificateDer::from(der.as_slice());
            anchor_from_trusted_cert(&der).ok().map(|anchor| DistinguishedName::in_sequence(anchor.subject.as_ref()))
        };
        let mut subjects: Vec<DistinguishedName> = Vec::new();
        for subject in verify.authorities.iter().filter_map(subject) {
            // Each name once, as OpenSSL sends them.
            if !subjects.iter().any(|known| known.as_ref() == subject.as_ref()) {
                subjects.push(subject);
            }
        }
        Self { subjects, algorithms: provider.signature_verification_algorithms }
    }
}

impl ClientCertVerifier for AnyClient {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &self.subjects
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// `proxy_ssl_verify`: the certificate of an origin.
#[derive(Debug)]
pub(crate) struct OriginVerifier {
    /// `None` takes any certificate.
    pub(crate) authorities: Option<Arc<Authorities>>,
    pub(crate) algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for OriginVerifier {
    fn verify_server_cert(
        &self,
        leaf: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(authorities) = &self.authorities else {
            return Ok(ServerCertVerified::assertion());
        };
        authorities.check(leaf, others, now, Purpose::Server).map_err(|reason| refusal(reason.to_owned()))?;
        if !is_for(leaf, name) {
            return Err(refusal(format!("certificate does not match \"{}\"", name.to_str())));
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// Whether a certificate names the host. One without names for hosts is judged by its common name, as OpenSSL does.
fn is_for(leaf: &CertificateDer<'_>, name: &ServerName<'_>) -> bool {
    // One of version 1 has no names but the common one.
    let certificate = EndEntityCert::try_from(leaf);
    if certificate.is_ok_and(|certificate| certificate.verify_is_valid_for_subject_name(name).is_ok()) {
        return true;
    }
    let ServerName::DnsName(wanted) = name else {
        return false;
    };
    let names_nobody = CertificateFacts::read(leaf).is_ok_and(|facts| facts.names.is_empty());
    names_nobody
        && X509Certificate::from_der(leaf).is_ok_and(|(_, certificate)| {
            let mut common = certificate.subject().iter_common_name().filter_map(|name| name.as_str().ok());
            common.any(|common| common.eq_ignore_ascii_case(wanted.as_ref()))
        })
}

/// An error with our own words that sends the alert for a bad certificate.
fn refusal(text: String) -> Error {
    #[derive(Debug, thiserror::Error)]
    #[error("{0}")]
    struct Reason(String);
    rustls::CertificateError::Other(rustls::OtherError(Arc::new(Reason(text)))).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};

    #[test]
    fn a_certificate_without_names_is_for_its_common_name_alone() {
        for (attribute, value, is_good) in [
            (DnType::CommonName, "victim.test", true),
            (DnType::CommonName, "VICTIM.test", true),
            (DnType::CommonName, "other.test", false),
            (DnType::CommonName, "x,CN=victim.test", false),
            (DnType::CommonName, "x+CN=victim.test", false),
            (DnType::OrganizationName, "x,CN=victim.test", false),
            (DnType::OrganizationName, "x+CN=victim.test", false),
            (DnType::OrganizationName, "victim.test", false),
        ] {
            let case = format!("{attribute:?} {value}");
            let mut params = CertificateParams::default();
            params.distinguished_name = DistinguishedName::new();
            params.distinguished_name.push(attribute, value);
            let certificate =
                params.self_signed(&KeyPair::generate().expect("a key can be made")).expect("it is sound");
            let name = ServerName::try_from("victim.test").expect("it is a name");
            assert_eq!(is_for(certificate.der(), &name), is_good, "{case}");
        }
    }

    #[test]
    fn a_common_name_counts_for_nothing_beside_other_names() {
        let mut params = CertificateParams::new(vec!["other.test".to_owned()]).expect("it is a name");
        params.distinguished_name.push(DnType::CommonName, "victim.test");
        let certificate = params.self_signed(&KeyPair::generate().expect("a key can be made")).expect("it is sound");
        for (name, is_good) in [("other.test", true), ("victim.test", false)] {
            let name = ServerName::try_from(name).expect("it is a name");
            assert_eq!(is_for(certificate.der(), &name), is_good, "{name:?}");
        }
    }
}
