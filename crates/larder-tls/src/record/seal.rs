//! Plaintext to records.

use super::key::{DirectionKey, TAG_BYTES, Version};
use super::{APPLICATION_DATA, HANDSHAKE, HEADER_BYTES, KeySource, PLAINTEXT_BYTES_MAX, Records};
use crate::error::SessionError;
use std::io::IoSlice;

/// A KeyUpdate that asks for none in return (RFC 8446 §4.6.3).
const KEY_UPDATE: [u8; 5] = [24, 0, 0, 1, 0];

impl<K: KeySource> Records<K> {
    /// Encrypts `slices`, gathered into records of at most `fragment` bytes, to the end of `out`.
    ///
    /// Allocates nothing when `out` has room: 29 bytes a record beyond the plaintext.
    pub(crate) fn write(
        &mut self,
        slices: &[IoSlice<'_>],
        fragment: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), SessionError> {
        if self.closed {
            return Err(SessionError::Closed);
        }
        let fragment = fragment.clamp(1, PLAINTEXT_BYTES_MAX);
        let mut left: usize = slices.iter().map(|slice| slice.len()).sum();
        let overhead = HEADER_BYTES + self.write.explicit_bytes(self.version) + 1 + TAG_BYTES;
        out.reserve(left + left.div_ceil(fragment) * overhead);
        let mut slices = Slices::new(slices);
        while left > 0 {
            if self.write.sequence >= self.records_max {
                self.update_write_key(out)?;
            }
            let length = left.min(fragment);
            record(&mut self.write, self.version, APPLICATION_DATA, &mut slices, length, out)?;
            left -= length;
        }
        Ok(())
    }

    /// Tells the peer that new keys follow, and takes them. TLS 1.2 has no such message: the connection ends.
    pub(super) fn update_write_key(&mut self, out: &mut Vec<u8>) -> Result<(), SessionError> {
        if self.version == Version::Tls12 {
            self.close(out);
            return Err(SessionError::KeysExhausted);
        }
        record(&mut self.write, self.version, HANDSHAKE, &mut Slices::of(&KEY_UPDATE), KEY_UPDATE.len(), out)?;
        let secrets = self.source.next_write().map_err(SessionError::from)?;
        self.write = DirectionKey::new(&secrets, 0)?;
        Ok(())
    }
}

/// Appends one record of type `kind` with the next `length` bytes of `text`.
pub(super) fn record(
    key: &mut DirectionKey,
    version: Version,
    kind: u8,
    text: &mut Slices<'_>,
    length: usize,
    out: &mut Vec<u8>,
) -> Result<(), SessionError> {
    if key.sequence == u64::MAX {
        return Err(SessionError::KeysExhausted);
    }
    let explicit = key.explicit_bytes(version);
    let nonce = key.nonce();
    let start = out.len();
    match version {
        Version::Tls13 => {
            let [high, low] = ((length + 1 + TAG_BYTES) as u16).to_be_bytes();
            let header = [APPLICATION_DATA, 3, 3, high, low];
            out.extend_from_slice(&header);
            text.copy(length, out);
            out.push(kind);
            let tag = key.seal(nonce, &header, &mut out[start + HEADER_BYTES..])?;
            out.extend_from_slice(&tag);
        }
        Version::Tls12 => {
            let [high, low] = ((explicit + length + TAG_BYTES) as u16).to_be_bytes();
            out.extend_from_slice(&[kind, 3, 3, high, low]);
            out.extend_from_slice(&nonce[nonce.len() - explicit..]);
            text.copy(length, out);
            let associated = key.associated_tls12(kind, length);
            let tag = key.seal(nonce, &associated, &mut out[start + HEADER_BYTES + explicit..])?;
            out.extend_from_slice(&tag);
        }
    }
    Ok(())
}

/// Slices, read as one run of bytes.
pub(crate) struct Slices<'a> {
    first: &'a [u8],
    rest: &'a [IoSlice<'a>],
}

impl<'a> Slices<'a> {
    pub(crate) fn new(slices: &'a [IoSlice<'a>]) -> Self {
        Self { first: &[], rest: slices }
    }

    pub(crate) fn of(bytes: &'a [u8]) -> Self {
        Self { first: bytes, rest: &[] }
    }

    /// Appends the next `length` bytes, or what is left, to `out`.
    pub(crate) fn copy(&mut self, mut length: usize, out: &mut Vec<u8>) {
        while length > 0 {
            if self.first.is_empty() {
                let Some((next, rest)) = self.rest.split_first() else {
                    return;
                };
                self.first = next;
                self.rest = rest;
                continue;
            }
            let (now, later) = self.first.split_at(length.min(self.first.len()));
            out.extend_from_slice(now);
            self.first = later;
            length -= now.len();
        }
    }
}
