//! A certificate to start with, before the first real one is there.

use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};
use std::time::{Duration, SystemTime};

/// A self-signed certificate. Browsers refuse it, which is right: nobody vouches for it.
#[derive(Clone)]
pub struct Placeholder {
    /// The certificate, PEM.
    pub cert_pem: String,
    /// Its key, PKCS#8 PEM.
    pub key_pem: String,
}

/// Why there is no placeholder: one of the names does not fit a certificate.
#[derive(Debug, thiserror::Error)]
#[error("cannot make a placeholder certificate")]
pub struct PlaceholderError(#[from] rcgen::Error);

/// Makes a self-signed certificate for `names`, with a key of its own, around `now`.
pub fn placeholder(names: &[String], now: SystemTime) -> Result<Placeholder, PlaceholderError> {
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, "larder: no certificate yet");
    let since_1970 = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    params.not_before = rcgen::date_time_ymd(1970, 1, 1) + since_1970.saturating_sub(EARLIER);
    params.not_after = rcgen::date_time_ymd(1970, 1, 1) + since_1970 + LATER;
    let key = KeyPair::generate()?;
    let cert_pem = params.self_signed(&key)?.pem();
    Ok(Placeholder { cert_pem, key_pem: key.serialize_pem() })
}

/// Clients' clocks may be behind.
const EARLIER: Duration = Duration::from_secs(24 * 3600);
const LATER: Duration = Duration::from_secs(30 * 24 * 3600);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::certificate::Certificate;

    #[test]
    fn a_placeholder_is_for_its_names_and_around_now() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000);
        let names = ["example.org".to_string(), "192.0.2.1".to_string()];
        let made = placeholder(&names, now).expect("the names are in order");
        let certificate = Certificate::new(made.cert_pem.as_bytes(), made.key_pem.as_bytes()).expect("it is one");
        assert!(certificate.covers(&names));
        assert_eq!(certificate.validity().not_before, now - EARLIER);
        assert_eq!(certificate.validity().not_after, now + LATER);
    }
}
