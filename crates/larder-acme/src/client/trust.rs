//! Whom to believe that they are the CA.

use rustls::crypto::aws_lc_rs;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use std::fs;
use std::path::Path;
use std::sync::Arc;

/// Why nobody can be believed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TrustError {
    #[error("none of {} is there; install the package ca-certificates, or name a file with the CA's own", BUNDLES.join(", "))]
    NoBundle,
    #[error("there is no usable certificate in {place}")]
    NoCertificate { place: String },
    #[error("TLS cannot be set up: {0}")]
    Tls(#[from] rustls::Error),
}

/// TLS towards the CA, believing what `trusted` signs, or else what the system believes.
pub(crate) fn config(trusted: Option<&[u8]>) -> Result<ClientConfig, TrustError> {
    let roots = match trusted {
        Some(pem) => roots(pem, "the file of trusted certificates")?,
        None => {
            let bundle = BUNDLES.iter().find_map(|path| Some((path, fs::read(Path::new(path)).ok()?)));
            let (path, pem) = bundle.ok_or(TrustError::NoBundle)?;
            roots(&pem, path)?
        }
    };
    let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()));
    let builder = builder.with_safe_default_protocol_versions()?;
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

/// Where distributions keep their bundle: Debian, Fedora, SUSE, Alpine.
const BUNDLES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// A bundle may have certificates that rustls does not take; the others count.
fn roots(pem: &[u8], place: &str) -> Result<RootCertStore, TrustError> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(CertificateDer::pem_slice_iter(pem).filter_map(Result::ok));
    match roots.is_empty() {
        true => Err(TrustError::NoCertificate { place: place.into() }),
        false => Ok(roots),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::placeholder::placeholder;
    use std::time::SystemTime;

    #[test]
    fn trust_needs_a_certificate() {
        let made = placeholder(&["ca.example".into()], SystemTime::UNIX_EPOCH).expect("the name is in order");
        assert!(config(Some(made.cert_pem.as_bytes())).is_ok());
        for pem in ["", "garbage", made.key_pem.as_str()] {
            let error = config(Some(pem.as_bytes())).expect_err("there is no certificate in it");
            assert_eq!(error.to_string(), "there is no usable certificate in the file of trusted certificates");
        }
    }
}
