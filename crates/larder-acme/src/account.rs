//! At which CA, as whom, and where what was obtained is kept.

use std::path::PathBuf;

/// The directory of Let's Encrypt.
pub const LETS_ENCRYPT: &str = "https://acme-v02.api.letsencrypt.org/directory";

/// The directory of Let's Encrypt for trying things out: generous limits, certificates nobody trusts.
pub const LETS_ENCRYPT_STAGING: &str = "https://acme-staging-v02.api.letsencrypt.org/directory";

/// An account at a CA, as configured.
///
/// The key of the account itself is always ECDSA P-256, which every CA takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// The URL of the CA's directory.
    pub directory: String,
    /// Where the CA may write to: mail addresses, with or without `mailto:`.
    pub contact: Vec<String>,
    /// The kind of key that certificates get.
    pub key_type: KeyType,
    /// Who we are to a CA that wants to know its customers (RFC 8555 §7.3.4).
    pub eab: Option<ExternalAccount>,
    /// The profile to order, such as Let's Encrypt's `shortlived`.
    pub profile: Option<String>,
    /// Where accounts, keys and certificates are kept; made if it is missing, with mode 0700.
    pub state_dir: PathBuf,
    /// PEM with the certificates that the CA's own HTTPS server is trusted by; without it, those of the system.
    pub trusted: Option<Vec<u8>>,
}

impl Account {
    /// An account at Let's Encrypt that needs nothing but a place for its state.
    pub fn new(state_dir: impl Into<PathBuf>) -> Self {
        Self {
            directory: LETS_ENCRYPT.into(),
            contact: Vec::new(),
            key_type: KeyType::default(),
            eab: None,
            profile: None,
            state_dir: state_dir.into(),
            trusted: None,
        }
    }

    /// The contacts as ACME wants them: URIs.
    pub(crate) fn contact_uris(&self) -> Vec<String> {
        let as_uri = |contact: &String| match contact.contains(':') {
            true => contact.clone(),
            false => format!("mailto:{contact}"),
        };
        self.contact.iter().map(as_uri).collect()
    }
}

/// The kind of key a certificate is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum KeyType {
    /// ECDSA over P-256: a handshake costs a tenth of RSA's.
    #[default]
    EcdsaP256,
    /// ECDSA over P-384.
    EcdsaP384,
    /// RSA of 2048 bits, for clients from before 2014.
    Rsa2048,
    /// RSA of 3072 bits.
    Rsa3072,
    /// RSA of 4096 bits.
    Rsa4096,
}

/// What binds our account to one that the CA has already, as its web site hands it out.
#[derive(Clone, PartialEq, Eq)]
pub struct ExternalAccount {
    key_id: String,
    key: Vec<u8>,
}

impl ExternalAccount {
    /// `key` is base64url or base64, padded or not, as CAs hand it out.
    pub fn new(key_id: impl Into<String>, key: &str) -> Result<Self, ExternalAccountError> {
        let key_id = key_id.into();
        if key_id.is_empty() {
            return Err(ExternalAccountError::NoKeyId);
        }
        let key = decode_base64(key.trim()).ok_or(ExternalAccountError::NotBase64)?;
        if key.len() < EXTERNAL_KEY_BYTES_MIN {
            return Err(ExternalAccountError::ShortKey { bytes: key.len() });
        }
        Ok(Self { key_id, key })
    }

    /// The name the CA gave the key.
    pub fn key_id(&self) -> &str {
        &self.key_id
    }

    pub(crate) fn key(&self) -> &[u8] {
        &self.key
    }
}

impl std::fmt::Debug for ExternalAccount {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ExternalAccount").field("key_id", &self.key_id).finish_non_exhaustive()
    }
}

/// Why an external account cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExternalAccountError {
    /// The key has no name.
    #[error("the external account has no key id; the CA hands it out together with the key")]
    NoKeyId,
    /// The key is no base64.
    #[error("the key of the external account is not base64; take it as the CA hands it out")]
    NotBase64,
    /// The key is cut off: HMAC-SHA256 wants 32 bytes.
    #[error("the key of the external account has {bytes} bytes, and at least {EXTERNAL_KEY_BYTES_MIN} are expected")]
    ShortKey {
        /// How many it has.
        bytes: usize,
    },
}

/// No CA hands out less than 128 bits.
const EXTERNAL_KEY_BYTES_MIN: usize = 16;

/// Decodes both alphabets of RFC 4648, since CAs hand out either.
fn decode_base64(text: &str) -> Option<Vec<u8>> {
    let text = text.trim_end_matches('=');
    let mut bytes = Vec::with_capacity(text.len() * 3 / 4);
    let (mut bits, mut bit_count) = (0u32, 0u32);
    for char in text.bytes() {
        let six = match char {
            b'A'..=b'Z' => char - b'A',
            b'a'..=b'z' => char - b'a' + 26,
            b'0'..=b'9' => char - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            _ => return None,
        };
        bits = (bits << 6 | u32::from(six)) & 0xffff;
        bit_count += 6;
        if bit_count >= 8 {
            bit_count -= 8;
            bytes.push((bits >> bit_count & 0xff) as u8);
        }
    }
    // Six bits left over are a character that means nothing: the text was cut.
    (bit_count < 6).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_of_an_external_account_is_base64_of_either_kind() {
        for (text, bytes) in [
            ("", Some(&b""[..])),
            ("Zg==", Some(b"f")),
            ("Zm8", Some(b"fo")),
            ("Zm9v", Some(b"foo")),
            ("-_8", Some(b"\xfb\xff")),
            ("+/8=", Some(b"\xfb\xff")),
            ("Z", None),
            ("Zm9vY", None),
            ("Zm 9v", None),
            ("Zm9v\u{e4}", None),
        ] {
            assert_eq!(decode_base64(text).as_deref(), bytes, "{text}");
        }
    }

    #[test]
    fn an_external_account_says_what_is_wrong_with_it() {
        let key = "zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W";
        for (key_id, key, error) in [
            ("kid-1", key, None),
            ("", key, Some(ExternalAccountError::NoKeyId)),
            ("kid-1", "not base64!", Some(ExternalAccountError::NotBase64)),
            ("kid-1", "Zm9v", Some(ExternalAccountError::ShortKey { bytes: 3 })),
        ] {
            assert_eq!(ExternalAccount::new(key_id, key).err(), error, "{key_id} {key}");
        }
    }

    #[test]
    fn the_key_of_an_external_account_is_not_printed() {
        let external = ExternalAccount::new("kid-1", "c2VjcmV0c2VjcmV0c2VjcmV0").expect("it is in order");
        assert_eq!(format!("{external:?}"), "ExternalAccount { key_id: \"kid-1\", .. }");
    }

    #[test]
    fn a_mail_address_becomes_a_uri() {
        let mut account = Account::new("/var/lib/larder/acme");
        account.contact = vec!["ops@example.org".into(), "mailto:a@example.org".into()];
        assert_eq!(account.contact_uris(), ["mailto:ops@example.org", "mailto:a@example.org"]);
    }
}
