//! PEM blocks: certificates, keys and revocation lists in one text or several.

use super::{KeyError, labelled_key, legacy};
use rustls::pki_types::PrivateKeyDer;

/// A block between `-----BEGIN LABEL-----` and `-----END LABEL-----`.
pub(super) struct Block<'a> {
    pub(super) label: &'a str,
    /// Lines `Name: value` before the content (RFC 1421).
    pub(super) headers: Vec<(&'a str, &'a str)>,
    pub(super) der: Vec<u8>,
}

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

/// The blocks whose label is `wanted`. Text outside of blocks is commentary.
fn blocks(text: &[u8], wanted: impl Fn(&str) -> bool) -> Result<Vec<Block<'_>>, KeyError> {
    let mut found = Vec::new();
    // A file may have a byte-order mark or comments in any encoding: lines that are no text are commentary too.
    let mut lines = text.split(|byte| *byte == b'\n').map(|line| std::str::from_utf8(line).unwrap_or("").trim());
    while let Some(line) = lines.next() {
        let Some(label) = line.find("-----BEGIN ").and_then(|at| line[at + 11..].strip_suffix("-----")) else {
            continue;
        };
        let damaged = || KeyError::Damaged(label.into());
        let mut headers: Vec<(&str, &str)> = Vec::new();
        let mut base64 = String::new();
        loop {
            let line = lines.next().ok_or_else(damaged)?;
            if let Some(end) = line.strip_prefix("-----END ") {
                if end.strip_suffix("-----") != Some(label) {
                    return Err(damaged());
                }
                break;
            }
            match line.split_once(':') {
                Some((name, value)) => headers.push((name.trim(), value.trim())),
                None => base64.push_str(line),
            }
        }
        if wanted(label) {
            let der = decode_base64(base64.as_bytes()).ok_or_else(damaged)?;
            found.push(Block { label, headers, der });
        }
    }
    Ok(found)
}

/// Base64 with its padding (RFC 4648 §4). White space between is skipped.
fn decode_base64(text: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let (mut group, mut digits, mut padding) = (0_u32, 0, 0);
    for byte in text.iter().filter(|byte| !byte.is_ascii_whitespace()) {
        let digit = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            b'=' => {
                padding += 1;
                continue;
            }
            _ => return None,
        };
        if padding > 0 {
            return None;
        }
        group = group << 6 | u32::from(digit);
        digits += 1;
        if digits == 4 {
            bytes.extend_from_slice(&group.to_be_bytes()[1..]);
            (group, digits) = (0, 0);
        }
    }
    match (digits, padding) {
        (0, 0) => {}
        (2, 2) => bytes.push((group >> 4) as u8),
        (3, 1) => bytes.extend_from_slice(&((group >> 2) as u16).to_be_bytes()),
        _ => return None,
    }
    Some(bytes)
}

/// `openssl x509 -trustout` puts its own settings behind the certificate: only the first DER value counts.
fn first_value(mut der: Vec<u8>) -> Vec<u8> {
    if let Some(length) = sequence_length(&der) {
        der.truncate(length);
    }
    der
}

/// How long the DER sequence is that begins with `der`, its header included.
pub(super) fn sequence_length(der: &[u8]) -> Option<usize> {
    match *der {
        [0x30, short @ 0..=0x7f, ..] => Some(2 + usize::from(short)),
        [0x30, 0x81, a, ..] => Some(3 + usize::from(a)),
        [0x30, 0x82, a, b, ..] => Some(4 + usize::from(u16::from_be_bytes([a, b]))),
        _ => None,
    }
}
