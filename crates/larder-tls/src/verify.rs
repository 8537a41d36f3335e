//! Verifying the certificates of peers: chains, depth, revocation, and OpenSSL's words for what is wrong.

use crate::certificate::CertificateFacts;
use crate::clock::Clock;
use crate::error::TlsError;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, TrustAnchor, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};
use std::sync::Arc;
use webpki::{
    CertRevocationList, EndEntityCert, ExpirationPolicy, KeyUsage, OwnedCertRevocationList, RevocationCheckDepth,
    RevocationOptionsBuilder, UnknownStatusPolicy, anchor_from_trusted_cert,
};
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer as _;

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
            "unable to get certificate CRL" => 3,
            "certificate signature failure" => 7,
            "CRL signature failure" => 8,
            NOT_YET_VALID => 9,
            EXPIRED => 10,
            "CRL has expired" => 12,
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
const UNREADABLE: &str = "certificate rejected";

/// What decides about chains.
#[derive(Debug)]
pub(crate) struct Authorities {
    anchors: Vec<TrustAnchor<'static>>,
    /// The trusted certificates themselves: OpenSSL also takes one of them as the peer's own.
    trusted: Vec<Vec<u8>>,
    revocation: Vec<CertRevocationList<'static>>,
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
        let mut revocation = Vec::new();
        for der in &verify.revocation_lists {
            match OwnedCertRevocationList::from_der(der) {
                Ok(list) => revocation.push(CertRevocationList::Owned(list)),
                Err(error) => return Err(TlsError::Revocation(error.to_string().into())),
            }
        }
        let algorithms = provider.signature_verification_algorithms;
        Ok(Self { anchors, trusted, revocation, depth: verify.depth as usize, algorithms })
    }

    /// Whether `chain`, the peer's own certificate first, leads to a trusted authority; if not, OpenSSL's reason.
    fn check(
        &self,
        leaf: &[u8],
        others: &[CertificateDer<'_>],
        now: UnixTime,
        usage: KeyUsage,
    ) -> Result<(), &'static str> {
        let seconds = now.as_secs();
        if self.trusted.iter().any(|trusted| trusted == leaf) {
            let facts = CertificateFacts::read(leaf).map_err(|_| UNREADABLE)?;
            return validity(&facts, seconds);
        }
        let der = CertificateDer::from(leaf);
        let leaf_certificate = match EndEntityCert::try_from(&der) {
            Ok(certificate) => certificate,
            Err(error) => return Err(reason(&error)),
        };
        let lists: Vec<&CertRevocationList<'_>> = self.revocation.iter().collect();
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
        let result = leaf_certificate.verify_for_usage(
            self.algorithms.all,
            &self.anchors,
            others,
            now,
            usage,
            revocation,
            Some(&within_depth),
        );
        match result {
            Ok(_) => Ok(()),
            Err(webpki::Error::UnknownIssuer | webpki::Error::CaUsedAsEndEntity) => {
                Err(untrusted(leaf, others, seconds))
            }
            Err(error) => Err(reason(&error)),
        }
    }

    /// The verdict about a client's chain.
    pub(crate) fn judge_client(&self, chain: &[Box<[u8]>], clock: &Clock) -> ClientVerdict {
        let Some((leaf, others)) = chain.split_first() else {
            return ClientVerdict::None;
        };
        let others: Vec<CertificateDer<'_>> = others.iter().map(|der| CertificateDer::from(&**der)).collect();
        match self.check(leaf, &others, clock.unix_time(), KeyUsage::client_auth()) {
            Ok(()) => ClientVerdict::Success,
            Err(reason) => ClientVerdict::Failed(reason),
        }
    }
}

/// Which of OpenSSL's words fits a chain that leads to nobody we trust.
fn untrusted(leaf: &[u8], others: &[CertificateDer<'_>], now: u64) -> &'static str {
    let Ok(leaf) = CertificateFacts::read(leaf) else {
        return UNREADABLE;
    };
    if let Err(reason) = validity(&leaf, now) {
        return reason;
    }
    if leaf.is_self_issued {
        return SELF_SIGNED;
    }
    let others: Vec<CertificateFacts> = others.iter().filter_map(|der| CertificateFacts::read(der).ok()).collect();
    if !others.iter().any(|other| other.subject == leaf.issuer) {
        return FIRST_UNVERIFIED;
    }
    if others.iter().any(|other| other.is_self_issued) { SELF_SIGNED_IN_CHAIN } else { NO_ISSUER }
}

fn validity(facts: &CertificateFacts, now: u64) -> Result<(), &'static str> {
    let now = i64::try_from(now).unwrap_or(i64::MAX);
    if now < facts.not_before {
        return Err(NOT_YET_VALID);
    }
    if now > facts.not_after {
        return Err(EXPIRED);
    }
    Ok(())
}

/// OpenSSL's `X509_verify_cert_error_string` for the errors of our library.
fn reason(error: &webpki::Error) -> &'static str {
    use webpki::Error as E;
    match error {
        E::CertExpired { .. } => EXPIRED,
        E::CertNotValidYet { .. } => NOT_YET_VALID,
        E::CertRevoked => "certificate revoked",
        E::CrlExpired { .. } => "CRL has expired",
        E::UnknownRevocationStatus | E::IssuerNotCrlSigner => "unable to get certificate CRL",
        E::InvalidCrlSignatureForPublicKey => "CRL signature failure",
        E::InvalidSignatureForPublicKey => "certificate signature failure",
        E::MaximumPathDepthExceeded => "certificate chain too long",
        E::PathLenConstraintViolated => "path length constraint exceeded",
        E::NameConstraintViolation => "permitted subtree violation",
        E::RequiredEkuNotFoundContext(_) => "unsuitable certificate purpose",
        E::EndEntityUsedAsCa => "invalid CA certificate",
        E::UnsupportedCriticalExtension => "unhandled critical extension",
        E::UnknownIssuer => NO_ISSUER,
        _ => UNREADABLE,
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
        let subjects = verify.authorities.iter().filter_map(subject).collect();
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
        verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
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
        authorities.check(leaf, others, now, KeyUsage::server_auth()).map_err(|reason| refusal(reason.to_owned()))?;
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
        verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// Whether a certificate names the host. One without names for hosts is judged by its common name, as OpenSSL does.
fn is_for(leaf: &CertificateDer<'_>, name: &ServerName<'_>) -> bool {
    let Ok(certificate) = EndEntityCert::try_from(leaf) else {
        return false;
    };
    if certificate.verify_is_valid_for_subject_name(name).is_ok() {
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
