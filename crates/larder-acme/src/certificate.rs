//! A certificate with its chain and key, and what renewing needs to know of it.

use instant_acme::CertificateIdentifier;
use rcgen::{KeyPair, PublicKeyData};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use std::net::IpAddr;
use std::time::{Duration, SystemTime};
use x509_parser::extensions::GeneralName;
use x509_parser::time::ASN1Time;

/// A certificate whose key fits it.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Certificate {
    chain_pem: Vec<u8>,
    /// How many bytes of the chain are the certificate itself.
    leaf: usize,
    key_pem: Vec<u8>,
    names: Vec<String>,
    validity: Validity,
    /// What the CA's renewal information calls it (RFC 9773 §4.1); absent when it does not name its issuer's key.
    renewal_id: Option<CertificateIdentifier<'static>>,
}

/// From when until when a certificate may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Validity {
    pub(crate) not_before: SystemTime,
    pub(crate) not_after: SystemTime,
}

impl Validity {
    pub(crate) fn lifetime(self) -> Duration {
        self.not_after.duration_since(self.not_before).unwrap_or_default()
    }
}

/// Why some bytes are no certificate with its key.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CertificateError {
    #[error("there is no certificate in it")]
    NoCertificate,
    #[error("there is no private key in it")]
    NoKey,
    #[error("the certificate cannot be read: {0}")]
    Unreadable(String),
    #[error("the private key cannot be read: {0}")]
    UnreadableKey(rcgen::Error),
    #[error("the private key is not the one of the certificate")]
    KeyMismatch,
    #[error("its times are outside of what this system can count")]
    Times,
    #[error("the chain is longer than any that a client takes")]
    TooLong,
}

impl Certificate {
    /// Takes the blocks `CERTIFICATE` of `chain_pem`, the certificate itself first, and the first private key of
    /// `key_pem`. What stands around them is left out.
    pub(crate) fn new(chain_pem: &[u8], key_pem: &[u8]) -> Result<Self, CertificateError> {
        let chain = blocks(chain_pem, |label| label == "CERTIFICATE");
        let key_block = blocks(key_pem, |label| label.ends_with("PRIVATE KEY"));
        let key_block = first_block(&key_block).ok_or(CertificateError::NoKey)?;
        let leaf = first_block(&chain).ok_or(CertificateError::NoCertificate)?.len();
        if chain.len() > CHAIN_BYTES_MAX {
            return Err(CertificateError::TooLong);
        }
        let ders = CertificateDer::pem_slice_iter(chain.as_bytes()).collect::<Result<Vec<_>, _>>();
        let ders = ders.map_err(|error| CertificateError::Unreadable(error.to_string()))?;
        // A handshake sends all of them.
        let parsed = ders.iter().map(|der| match x509_parser::parse_x509_certificate(der) {
            Ok((&[], parsed)) => Ok(parsed),
            Ok(_) => Err(CertificateError::Unreadable("more stands behind it".to_owned())),
            Err(error) => Err(CertificateError::Unreadable(error.to_string())),
        });
        let parsed = parsed.collect::<Result<Vec<_>, _>>()?;
        let (Some(der), Some(parsed)) = (ders.first(), parsed.first()) else {
            return Err(CertificateError::NoCertificate);
        };
        let key = KeyPair::from_pem(key_block).map_err(CertificateError::UnreadableKey)?;
        if key.der_bytes() != &*parsed.public_key().subject_public_key.data {
            return Err(CertificateError::KeyMismatch);
        }
        let validity = Validity {
            not_before: time_of(parsed.validity().not_before).ok_or(CertificateError::Times)?,
            not_after: time_of(parsed.validity().not_after).ok_or(CertificateError::Times)?,
        };
        let names = names_of(parsed)?;
        let renewal_id = CertificateIdentifier::try_from(der).ok().map(CertificateIdentifier::into_owned);
        let (chain_pem, key_pem) = (chain.into_bytes(), key_block.as_bytes().to_vec());
        Ok(Self { chain_pem, leaf, key_pem, names, validity, renewal_id })
    }

    /// Reads what [`Certificate::file_text`] wrote.
    pub(crate) fn from_file(text: &[u8]) -> Result<Self, CertificateError> {
        Self::new(text, text)
    }

    /// One text for key and chain, so that one rename replaces both.
    pub(crate) fn file_text(&self) -> Vec<u8> {
        [self.key_pem.as_slice(), self.chain_pem.as_slice()].concat()
    }

    pub(crate) fn chain_pem(&self) -> &[u8] {
        &self.chain_pem
    }

    pub(crate) fn key_pem(&self) -> &[u8] {
        &self.key_pem
    }

    pub(crate) fn validity(&self) -> Validity {
        self.validity
    }

    /// What is larger for a certificate that is to be preferred, as it is newer. The same for two only if they are the same,
    /// whatever stands behind them in the chain.
    pub(crate) fn rank(&self) -> impl PartialOrd + '_ {
        (self.validity.not_before, self.validity.not_after, self.chain_pem.get(..self.leaf))
    }

    pub(crate) fn renewal_id(&self) -> Option<&CertificateIdentifier<'static>> {
        self.renewal_id.as_ref()
    }

    /// Whether it is for all of `names`, which are in an order's normal form.
    pub(crate) fn covers(&self, names: &[String]) -> bool {
        self.covered(names) == names.len()
    }

    /// How many of `names` it is for.
    pub(crate) fn covered(&self, names: &[String]) -> usize {
        names.iter().filter(|name| self.names.contains(name)).count()
    }
}

fn names_of(parsed: &x509_parser::certificate::X509Certificate<'_>) -> Result<Vec<String>, CertificateError> {
    let extension =
        parsed.subject_alternative_name().map_err(|error| CertificateError::Unreadable(error.to_string()))?;
    let Some(extension) = extension else {
        return Ok(Vec::new());
    };
    let name_of = |name: &GeneralName<'_>| match name {
        GeneralName::DNSName(name) => Some(name.to_ascii_lowercase()),
        GeneralName::IPAddress(bytes) => match bytes.len() {
            4 => <[u8; 4]>::try_from(*bytes).ok().map(|octets| IpAddr::from(octets).to_string()),
            _ => <[u8; 16]>::try_from(*bytes).ok().map(|octets| IpAddr::from(octets).to_string()),
        },
        _ => None,
    };
    Ok(extension.value.general_names.iter().filter_map(name_of).collect())
}

fn time_of(time: ASN1Time) -> Option<SystemTime> {
    let seconds = u64::try_from(time.timestamp()).ok()?;
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds))
}

/// The PEM blocks of `text` whose label is wanted, one after the other; what is no UTF-8 or no block is left out.
fn blocks(text: &[u8], is_wanted: impl Fn(&str) -> bool) -> String {
    let mut kept = String::new();
    let mut block: Option<String> = None;
    for line in String::from_utf8_lossy(text).lines().map(str::trim) {
        if let Some(label) = line.strip_prefix("-----BEGIN ").and_then(|rest| rest.strip_suffix("-----")) {
            block = is_wanted(label).then(|| format!("{line}\n"));
        } else if let Some(lines) = &mut block {
            lines.push_str(line);
            lines.push('\n');
            if line.starts_with("-----END ") {
                kept.push_str(lines);
                block = None;
            }
        }
    }
    kept
}

fn first_block(blocks: &str) -> Option<&str> {
    const END: &str = "-----END ";
    let end = blocks.find(END)?;
    let line = blocks.get(end..)?.find('\n')?;
    blocks.get(..end + line + 1)
}

/// How long a chain may be, in bytes of PEM: what a handshake can send has 64 KB.
const CHAIN_BYTES_MAX: usize = 80 << 10;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::placeholder::placeholder;

    #[test]
    fn what_is_stored_is_read_back() {
        let names = ["example.org".to_string(), "2001:db8::1".to_string()];
        let made = placeholder(&names, SystemTime::UNIX_EPOCH).expect("the names are in order");
        let noisy = format!("subject=/CN=x\r\n{}junk\n{}", made.cert_pem, made.key_pem);
        let certificate = Certificate::new(noisy.as_bytes(), made.key_pem.as_bytes()).expect("it is one");
        assert_eq!(certificate.chain_pem(), made.cert_pem.replace("\r\n", "\n").as_bytes());
        assert_eq!(certificate.covered(&["example.org".into(), "www.example.org".into()]), 1);
        let again = Certificate::from_file(&certificate.file_text()).expect("it was written by us");
        assert!(again == certificate);
    }

    #[test]
    fn what_is_no_certificate_with_its_key_says_why() {
        let made = placeholder(&["a.example".into()], SystemTime::UNIX_EPOCH).expect("in order");
        let other = placeholder(&["a.example".into()], SystemTime::UNIX_EPOCH).expect("in order");
        let cut = &made.cert_pem[..made.cert_pem.len() / 2];
        let garbled = made.cert_pem.replace('M', "%");
        let [broken, no_certificate] = ["%%%%", "AAAA"]
            .map(|text| format!("{}-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n", made.cert_pem));
        for (chain, key, error) in [
            ("", made.key_pem.as_str(), "there is no certificate in it"),
            (cut, &made.key_pem, "there is no certificate in it"),
            (&garbled, &made.key_pem, "the certificate cannot be read"),
            (&broken, &made.key_pem, "the certificate cannot be read"),
            (&no_certificate, &made.key_pem, "the certificate cannot be read"),
            (&made.cert_pem.repeat(200), &made.key_pem, "the chain is longer than any"),
            (&made.cert_pem, "", "there is no private key in it"),
            (&made.cert_pem, "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", "key cannot be read"),
            (&made.cert_pem, &other.key_pem, "the private key is not the one of the certificate"),
        ] {
            let found = Certificate::new(chain.as_bytes(), key.as_bytes()).err().map(|error| error.to_string());
            assert!(found.as_ref().is_some_and(|found| found.contains(error)), "{found:?} is not {error}");
        }
    }

    #[test]
    fn foreign_bytes_never_panic() {
        let made = placeholder(&["a.example".into()], SystemTime::UNIX_EPOCH).expect("in order");
        let text = format!("{}{}", made.key_pem, made.cert_pem).into_bytes();
        for at in 0..text.len() {
            let _ = Certificate::from_file(&text[..at]);
            let mut flipped = text.clone();
            flipped[at] ^= 0x15;
            let _ = Certificate::from_file(&flipped);
        }
    }
}
