//! A certificate for the servers under measurement: ECDSA P-256 for `localhost`, through an intermediate, as sites have.

use super::{LoadError, cannot};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, PKCS_ECDSA_P256_SHA256};
use rustls::pki_types::CertificateDer;
use std::fs;
use std::path::{Path, PathBuf};

/// A chain and its key, on disk for the servers and in memory for the generator.
pub struct Certificate {
    /// What the servers prove to be.
    pub leaf: CertificateDer<'static>,
    /// What a careful client trusts.
    pub root: CertificateDer<'static>,
    chain_pem: String,
    key_pem: String,
}

impl Certificate {
    /// Makes a root, an intermediate and a leaf with new keys.
    pub fn make() -> Result<Certificate, LoadError> {
        let made = make().map_err(|error| LoadError::Tool { tool: "rcgen", said: error.to_string() })?;
        Ok(made)
    }

    /// The leaf and the intermediate.
    pub fn chain_pem(&self) -> &str {
        &self.chain_pem
    }

    /// The leaf's key.
    pub fn key_pem(&self) -> &str {
        &self.key_pem
    }

    /// Writes the chain and the key to files in `folder` and says where.
    pub fn write(&self, folder: &Path) -> Result<(PathBuf, PathBuf), LoadError> {
        let (chain, key) = (folder.join("chain.pem"), folder.join("key.pem"));
        fs::write(&chain, self.chain_pem()).map_err(cannot("write the certificate"))?;
        fs::write(&key, self.key_pem()).map_err(cannot("write the key"))?;
        Ok((chain, key))
    }
}

fn make() -> Result<Certificate, rcgen::Error> {
    let key = || KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256);
    let root = CertifiedIssuer::self_signed(authority("Load root"), key()?)?;
    let between = CertifiedIssuer::signed_by(authority("Load intermediate"), key()?, &root)?;
    let mut params = CertificateParams::new(vec!["localhost".to_string()])?;
    params.distinguished_name.push(DnType::CommonName, "localhost");
    let leaf_key = key()?;
    let leaf = params.signed_by(&leaf_key, &between)?;
    Ok(Certificate {
        leaf: leaf.der().clone(),
        root: root.der().clone(),
        chain_pem: format!("{}{}", leaf.pem(), between.pem()),
        key_pem: leaf_key.serialize_pem(),
    })
}

fn authority(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params
}
