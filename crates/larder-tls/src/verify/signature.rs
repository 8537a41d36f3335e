//! Whether a peer has the key of its certificate, whatever the version of that is.

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{CertificateDer, SubjectPublicKeyInfoDer};
use rustls::{CertificateError, DigitallySignedStruct, Error};
use webpki::RawPublicKeyEntity;

use crate::certificate::public_key;

/// Under TLS 1.2.
pub(super) fn verify_tls12(
    message: &[u8],
    certificate: &CertificateDer<'_>,
    signature: &DigitallySignedStruct,
    supported: &WebPkiSupportedAlgorithms,
) -> Result<HandshakeSignatureValid, Error> {
    if webpki::EndEntityCert::try_from(certificate).is_ok() {
        return verify_tls12_signature(message, certificate, signature, supported);
    }
    // The library's own reader takes certificates of version 3 only.
    let key = key(certificate)?;
    let key = RawPublicKeyEntity::try_from(&key).map_err(|_| CertificateError::BadEncoding)?;
    let of_scheme = supported.mapping.iter().find(|(scheme, _)| *scheme == signature.scheme);
    let is_good = of_scheme.is_some_and(|(_, algorithms)| {
        algorithms.iter().any(|algorithm| key.verify_signature(*algorithm, message, signature.signature()).is_ok())
    });
    if is_good { Ok(HandshakeSignatureValid::assertion()) } else { Err(CertificateError::BadSignature.into()) }
}

/// Under TLS 1.3.
pub(super) fn verify_tls13(
    message: &[u8],
    certificate: &CertificateDer<'_>,
    signature: &DigitallySignedStruct,
    supported: &WebPkiSupportedAlgorithms,
) -> Result<HandshakeSignatureValid, Error> {
    verify_tls13_signature_with_raw_key(message, &key(certificate)?, signature, supported)
}

fn key<'a>(certificate: &'a CertificateDer<'_>) -> Result<SubjectPublicKeyInfoDer<'a>, Error> {
    public_key(certificate).map(SubjectPublicKeyInfoDer::from).ok_or(CertificateError::BadEncoding.into())
}
