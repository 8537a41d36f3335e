//! Certificates, keys and revocation lists in PEM, in one text or several.

use super::block::{blocks, sequence_length};
use super::{KeyError, labelled_key, legacy};
use rustls::pki_types::PrivateKeyDer;

/// The certificates in a text, DER, in its order. What is not a certificate is skipped.
pub fn certificates(text: &[u8]) -> Result<Vec<Vec<u8>>, KeyError> {
    let labels = ["CERTIFICATE", "X509 CERTIFICATE", "TRUSTED CERTIFICATE"];
    let blocks = blocks(text, |label| labels.contains(&label))?;
    Ok(blocks
        .into_iter()
        .map(|block| if block.label == labels[2] { first_value(block.der) } else { block.der })
        .collect())
}

/// The revocation lists in a text, DER, in its order.
pub fn revocation_lists(text: &[u8]) -> Result<Vec<Vec<u8>>, KeyError> {
    Ok(blocks(text, |label| label == "X509 CRL")?.into_iter().map(|block| block.der).collect())
}

/// The first private key in a text, decrypted with the first password that fits.
pub(super) fn private_key(text: &[u8], passwords: &[Vec<u8>]) -> Result<PrivateKeyDer<'static>, KeyError> {
    let blocks = blocks(text, |label| label.ends_with("PRIVATE KEY"))?;
    let block = blocks.into_iter().next().ok_or(KeyError::NoKey)?;
    if block.label == "ENCRYPTED PRIVATE KEY" {
        return encrypted_pkcs8(&block.der, passwords);
    }
    let is_encrypted = block.headers.iter().any(|(name, value)| *name == "Proc-Type" && value.ends_with("ENCRYPTED"));
    let der = if is_encrypted { legacy::decrypt(&block, passwords)? } else { block.der };
    labelled_key(block.label, der).ok_or(KeyError::Unsupported)
}

/// PKCS#8 with a password (RFC 5958 §3, RFC 8018).
fn encrypted_pkcs8(der: &[u8], passwords: &[Vec<u8>]) -> Result<PrivateKeyDer<'static>, KeyError> {
    let info = pkcs8::EncryptedPrivateKeyInfo::try_from(der).map_err(|_| {
        // The crate reads no further than to an algorithm it does not know.
        if sequence_length(der) == Some(der.len()) {
            KeyError::Encryption("an unknown algorithm".into())
        } else {
            KeyError::Damaged("ENCRYPTED PRIVATE KEY".into())
        }
    })?;
    if passwords.is_empty() {
        return Err(KeyError::NeedsPassword);
    }
    for password in passwords {
        match info.decrypt(password) {
            Ok(document) => {
                return labelled_key("PRIVATE KEY", document.as_bytes().to_vec()).ok_or(KeyError::Unsupported);
            }
            Err(pkcs8::Error::EncryptedPrivateKey(pkcs8::pkcs5::Error::UnsupportedAlgorithm { oid })) => {
                return Err(KeyError::Encryption(oid.to_string().into()));
            }
            Err(_) => {}
        }
    }
    Err(KeyError::WrongPassword)
}

/// `openssl x509 -trustout` puts its own settings behind the certificate: only the first DER value counts.
fn first_value(mut der: Vec<u8>) -> Vec<u8> {
    if let Some(length) = sequence_length(&der) {
        der.truncate(length);
    }
    der
}
