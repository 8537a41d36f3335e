//! The key of one direction, and the nonces it is used with.

use crate::error::SessionError;
use aws_lc_rs::aead::{AES_128_GCM, AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use rustls::ConnectionTrafficSecrets;

/// What every AEAD we know adds.
pub(super) const TAG_BYTES: usize = 16;

/// The part of an AES-GCM nonce that TLS 1.2 writes into the record (RFC 5288 §3).
pub(super) const EXPLICIT_NONCE_BYTES: usize = 8;

/// The version, as far as records differ.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Version {
    Tls12,
    Tls13,
}

/// A key, its nonce base and how often it was used.
pub(super) struct DirectionKey {
    key: LessSafeKey,
    iv: [u8; 12],
    pub(super) sequence: u64,
    is_gcm: bool,
}

impl DirectionKey {
    pub(super) fn new(secrets: &ConnectionTrafficSecrets, sequence: u64) -> Result<Self, SessionError> {
        let (algorithm, key, iv, is_gcm) = match secrets {
            ConnectionTrafficSecrets::Aes128Gcm { key, iv } => (&AES_128_GCM, key, iv, true),
            ConnectionTrafficSecrets::Aes256Gcm { key, iv } => (&AES_256_GCM, key, iv, true),
            ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => (&CHACHA20_POLY1305, key, iv, false),
            _ => return Err(SessionError::Internal("a cipher without a record layer")),
        };
        let key =
            UnboundKey::new(algorithm, key.as_ref()).map_err(|_| SessionError::Internal("a key of a wrong length"))?;
        let iv = iv.as_ref().try_into().map_err(|_| SessionError::Internal("a nonce of a wrong length"))?;
        Ok(Self { key: LessSafeKey::new(key), iv, sequence, is_gcm })
    }

    /// How many bytes of nonce stand at the beginning of a record's payload.
    pub(super) fn explicit_bytes(&self, version: Version) -> usize {
        match version {
            Version::Tls12 if self.is_gcm => EXPLICIT_NONCE_BYTES,
            Version::Tls12 | Version::Tls13 => 0,
        }
    }

    /// The nonce of the next record: the base with the sequence number xored in (RFC 8446 §5.3).
    pub(super) fn nonce(&self) -> [u8; 12] {
        let mut nonce = self.iv;
        for (byte, sequence) in nonce[4..].iter_mut().zip(self.sequence.to_be_bytes()) {
            *byte ^= sequence;
        }
        nonce
    }

    /// The nonce of a record that brought `explicit` along: only the first four bytes are the key's (RFC 5288 §3).
    pub(super) fn nonce_with(&self, explicit: &[u8; EXPLICIT_NONCE_BYTES]) -> [u8; 12] {
        let mut nonce = self.iv;
        nonce[4..].copy_from_slice(explicit);
        nonce
    }

    /// Encrypts `text` in place and returns the tag. Counts one record.
    pub(super) fn seal(
        &mut self,
        nonce: [u8; 12],
        associated: &[u8],
        text: &mut [u8],
    ) -> Result<[u8; TAG_BYTES], SessionError> {
        let tag = self
            .key
            .seal_in_place_separate_tag(Nonce::assume_unique_for_key(nonce), Aad::from(associated), text)
            .map_err(|_| SessionError::Internal("a record that cannot be encrypted"))?;
        self.sequence += 1;
        tag.as_ref().try_into().map_err(|_| SessionError::Internal("a tag of a wrong length"))
    }

    /// Decrypts `text`, tag included, in place and returns the plaintext. Counts one record.
    pub(super) fn open<'t>(&mut self, nonce: [u8; 12], associated: &[u8], text: &'t mut [u8]) -> Option<&'t mut [u8]> {
        self.sequence = self.sequence.checked_add(1)?;
        self.key.open_in_place(Nonce::assume_unique_for_key(nonce), Aad::from(associated), text).ok()
    }

    /// What TLS 1.2 authenticates beside the text (RFC 5246 §6.2.3.3).
    pub(super) fn associated_tls12(&self, kind: u8, length: usize) -> [u8; 13] {
        let mut associated = [0; 13];
        associated[..8].copy_from_slice(&self.sequence.to_be_bytes());
        associated[8] = kind;
        associated[9] = 3;
        associated[10] = 3;
        associated[11..].copy_from_slice(&(length as u16).to_be_bytes());
        associated
    }
}
