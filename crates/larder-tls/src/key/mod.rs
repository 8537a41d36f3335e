//! Certificates with their keys: PEM in, what a handshake needs out.

mod block;
mod legacy;
mod pem;

use crate::certificate::{CertificateError, CertificateFacts, public_key};
use ::aws_lc_rs::hmac;
use arc_swap::ArcSwap;
pub use pem::{certificates as pem_certificates, revocation_lists as pem_revocation_lists};
use rustls::crypto::aws_lc_rs::sign::any_supported_type;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs1KeyDer, PrivatePkcs8KeyDer, PrivateSec1KeyDer};
use rustls::sign;
use std::sync::Arc;

/// A certificate chain and the key of its first certificate. Cheap to clone.
#[derive(Clone, Debug)]
pub struct CertifiedKey {
    inner: Arc<sign::CertifiedKey>,
    /// The same with what is stapled to it now; of all clones.
    shown: Arc<ArcSwap<sign::CertifiedKey>>,
    seed: Seed,
}

/// What only those know who have the private key: an HMAC-SHA-256 of it.
#[derive(Clone, Copy)]
pub(crate) struct Seed(pub [u8; 32]);

/// Why a certificate and its key cannot be used. Never holds anything secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// The certificate's file holds no certificate.
    #[error("no certificate in the file of the certificate")]
    NoCertificate,
    /// The key's file holds no private key.
    #[error("no private key in the file of the key")]
    NoKey,
    /// A PEM block that is not what it says it is.
    #[error("a damaged PEM block \"{0}\"")]
    Damaged(Box<str>),
    /// A certificate that cannot be read.
    #[error("certificate {index} of the file cannot be read: {source}")]
    Certificate {
        /// Its place in the file, from 1.
        index: usize,
        /// What is wrong with it.
        source: CertificateError,
    },
    /// The key is not the certificate's.
    #[error("key values mismatch: the private key does not belong to the first certificate of the file")]
    Mismatch,
    /// The key is encrypted, and there is no password.
    #[error("the private key is encrypted and there is no ssl_password_file for it")]
    NeedsPassword,
    /// None of the passwords opens the key.
    #[error("no password of ssl_password_file decrypts the private key")]
    WrongPassword,
    /// The key is encrypted in a way we do not read.
    #[error(
        "the private key is encrypted with {0}, which is not supported; convert it with: openssl pkcs8 -topk8 -in OLD -out NEW"
    )]
    Encryption(Box<str>),
    /// The key is of a kind the library cannot sign with.
    #[error(
        "the private key is of a kind that is not supported; RSA (2048 to 8192 bits), ECDSA (P-256, P-384, P-521) and Ed25519 are"
    )]
    Unsupported,
}

impl CertifiedKey {
    /// Reads a chain and a key as nginx reads `ssl_certificate` and `ssl_certificate_key`.
    ///
    /// Both may be the same text. The first certificate is the server's own; the others follow in the file's order.
    /// The key is PKCS#8, PKCS#1 or SEC1, encrypted or not; the passwords are tried in turn.
    pub fn from_pem(certificate: &[u8], key: &[u8], passwords: &[Vec<u8>]) -> Result<Self, KeyError> {
        let chain = pem::certificates(certificate)?;
        if chain.is_empty() {
            return Err(KeyError::NoCertificate);
        }
        let key = pem::private_key(key, passwords)?;
        Self::from_parts(chain, key)
    }

    /// A chain, the server's own certificate first, and a key, both DER. The key may be PKCS#8, PKCS#1 or SEC1.
    pub fn from_der(chain: Vec<Vec<u8>>, key: &[u8]) -> Result<Self, KeyError> {
        if chain.is_empty() {
            return Err(KeyError::NoCertificate);
        }
        let key = PrivateKeyDer::try_from(key).map_err(|_| KeyError::Unsupported)?.clone_key();
        Self::from_parts(chain, key)
    }

    fn from_parts(chain: Vec<Vec<u8>>, key: PrivateKeyDer<'static>) -> Result<Self, KeyError> {
        for (index, certificate) in chain.iter().enumerate() {
            CertificateFacts::read(certificate).map_err(|source| KeyError::Certificate { index: index + 1, source })?;
        }
        let seed = Seed::of(&key);
        let key = any_supported_type(&key).map_err(|_| KeyError::Unsupported)?;
        // By our own reader, as the library's knows no certificates before version 3, which it would serve all the same.
        let of_certificate = chain.first().and_then(|certificate| public_key(certificate));
        let of_key = key.public_key();
        if of_key.is_some_and(|of_key| of_certificate.is_some_and(|of_certificate| *of_certificate != *of_key)) {
            return Err(KeyError::Mismatch);
        }
        let certified = sign::CertifiedKey::new(chain.into_iter().map(CertificateDer::from).collect(), key);
        Ok(Self::of(certified, seed))
    }

    fn of(certified: sign::CertifiedKey, seed: Seed) -> Self {
        let inner = Arc::new(certified);
        Self { shown: Arc::new(ArcSwap::new(Arc::clone(&inner))), inner, seed }
    }

    /// Staples another OCSP response (DER) from now on, also where clones of this are in use. Empty bytes staple nothing.
    pub fn staple(&self, response: &[u8]) {
        let mut certified = sign::CertifiedKey::clone(&self.inner);
        certified.ocsp = (!response.is_empty()).then(|| response.to_vec());
        self.shown.store(Arc::new(certified));
    }

    /// The same with an OCSP response (DER) that is stapled to every handshake. Empty bytes staple nothing.
    #[must_use]
    pub fn with_ocsp(&self, response: &[u8]) -> Self {
        let mut inner = sign::CertifiedKey::clone(&self.inner);
        inner.ocsp = (!response.is_empty()).then(|| response.to_vec());
        Self::of(inner, self.seed)
    }

    /// What the server's own certificate says.
    pub fn facts(&self) -> CertificateFacts {
        // It was read when this was made.
        self.inner.cert.first().and_then(|certificate| CertificateFacts::read(certificate).ok()).unwrap_or_default()
    }

    /// The chain as DER, the server's own certificate first.
    pub fn chain(&self) -> impl Iterator<Item = &[u8]> {
        self.inner.cert.iter().map(AsRef::as_ref)
    }

    /// What only those know who have the private key.
    pub(crate) fn seed(&self) -> Seed {
        self.seed
    }

    /// What the handshakes of now are made with.
    pub(crate) fn inner(&self) -> Arc<sign::CertifiedKey> {
        self.shown.load_full()
    }
}

impl Seed {
    fn of(key: &PrivateKeyDer<'_>) -> Self {
        let purpose = hmac::Key::new(hmac::HMAC_SHA256, b"larder session tickets of a cluster");
        let mut seed = [0; 32];
        seed.copy_from_slice(hmac::sign(&purpose, key.secret_der()).as_ref());
        Self(seed)
    }
}

impl std::fmt::Debug for Seed {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Seed")
    }
}

/// The three encodings of an unencrypted key, by the PEM label that announces them.
fn labelled_key(label: &str, der: Vec<u8>) -> Option<PrivateKeyDer<'static>> {
    match label {
        "PRIVATE KEY" => Some(PrivatePkcs8KeyDer::from(der).into()),
        "RSA PRIVATE KEY" => Some(PrivatePkcs1KeyDer::from(der).into()),
        "EC PRIVATE KEY" => Some(PrivateSec1KeyDer::from(der).into()),
        _ => None,
    }
}
