//! Keys encrypted the way of PEM before PKCS#8: `Proc-Type: 4,ENCRYPTED` and `DEK-Info` (RFC 1421 §4.6.1).
//!
//! OpenSSL makes the key by MD5 from the password and the first eight bytes of the initialisation
//! vector, with one round: weak, but what old installations have.

use super::KeyError;
use super::block::{Block, sequence_length};
use aes::{Aes128, Aes192, Aes256};
use cbc::cipher::block_padding::Pkcs7;
use cbc::cipher::{BlockCipher, BlockDecryptMut, KeyInit, KeyIvInit};
use des::TdesEde3;
use md5::{Digest, Md5};

/// The DER inside `block`.
pub(super) fn decrypt(block: &Block<'_>, passwords: &[Vec<u8>]) -> Result<Vec<u8>, KeyError> {
    let damaged = || KeyError::Damaged(block.label.into());
    let dek = block.headers.iter().find(|(name, _)| *name == "DEK-Info").ok_or_else(damaged)?.1;
    let (cipher, iv) = dek.split_once(',').ok_or_else(damaged)?;
    let (key_bytes, iv_bytes, open): (usize, usize, Open) = match cipher.trim() {
        "AES-128-CBC" => (16, 16, decrypt_with::<Aes128>),
        "AES-192-CBC" => (24, 16, decrypt_with::<Aes192>),
        "AES-256-CBC" => (32, 16, decrypt_with::<Aes256>),
        "DES-EDE3-CBC" => (24, 8, decrypt_with::<TdesEde3>),
        other => return Err(KeyError::Encryption(other.into())),
    };
    let iv = decode_hex(iv.trim()).filter(|iv| iv.len() == iv_bytes).ok_or_else(damaged)?;
    if passwords.is_empty() {
        return Err(KeyError::NeedsPassword);
    }
    passwords
        .iter()
        .filter_map(|password| open(&derive(password, &iv[..8], key_bytes), &iv, &block.der))
        // One wrong password in 256 leaves a padding that looks right: the DER must begin with a sequence of its length.
        .find(|der| sequence_length(der) == Some(der.len()))
        .ok_or(KeyError::WrongPassword)
}

type Open = fn(&[u8], &[u8], &[u8]) -> Option<Vec<u8>>;

fn decrypt_with<C: BlockCipher + BlockDecryptMut + KeyInit>(key: &[u8], iv: &[u8], text: &[u8]) -> Option<Vec<u8>> {
    cbc::Decryptor::<C>::new_from_slices(key, iv).ok()?.decrypt_padded_vec_mut::<Pkcs7>(text).ok()
}

/// OpenSSL's `EVP_BytesToKey` with MD5 and one round.
fn derive(password: &[u8], salt: &[u8], length: usize) -> Vec<u8> {
    let mut key: Vec<u8> = Vec::with_capacity(length + 16);
    while key.len() < length {
        let mut hash = Md5::new();
        hash.update(&key[key.len().saturating_sub(16)..]);
        hash.update(password);
        hash.update(salt);
        key.extend_from_slice(&hash.finalize());
    }
    key.truncate(length);
    key
}

fn decode_hex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> = text.chars().map(|digit| digit.to_digit(16).map(|digit| digit as u8)).collect();
    let digits = digits?;
    let pairs = digits.chunks_exact(2);
    pairs.remainder().is_empty().then(|| pairs.map(|pair| pair[0] << 4 | pair[1]).collect())
}
