//! Entity tags. A file's tag is its time of change and its length in hexadecimal, as in nginx; the tag of a body that
//! was changed is weak.

use std::fmt;
use std::ops::Deref;

use larder_http::{Fields, Known};

/// Two quotes, a dash, and two numbers of 16 digits.
const BYTES_MAX: usize = 3 + 2 * 16;

/// An entity tag with its quotes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct EtagText {
    bytes: [u8; BYTES_MAX],
    len: usize,
}

/// The tag of a file of `len` bytes that was changed `mtime` seconds after 1970.
pub fn etag(mtime: u64, len: u64) -> EtagText {
    let mut bytes = [0; BYTES_MAX];
    let mut at = 0;
    let mut put = |byte: u8| {
        bytes[at] = byte;
        at += 1;
    };
    put(b'"');
    put_hex(mtime, &mut put);
    put(b'-');
    put_hex(len, &mut put);
    put(b'"');
    EtagText { bytes, len: at }
}

/// The digits of a number, without the machinery of `format!`.
fn put_hex(number: u64, put: &mut impl FnMut(u8)) {
    let digits = (u64::BITS - number.leading_zeros()).div_ceil(4).max(1);
    for digit in (0..digits).rev() {
        put(b"0123456789abcdef"[(number >> (4 * digit) & 0xf) as usize]);
    }
}

impl Deref for EtagText {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl fmt::Debug for EtagText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(self))
    }
}

/// Makes the entity tag weak, as the body is no longer the same byte for byte.
pub fn weaken_etag(fields: &mut Fields) {
    if let Some(weak) = fields.get_known(Known::Etag).and_then(weakened) {
        if weak.is_empty() {
            fields.remove("ETag");
        } else {
            fields.set("ETag", &weak);
        }
    }
}

/// The weak form of an entity tag. It is empty if the tag is malformed and has to be removed; `None` if it is weak
/// already (ngx_http_weak_etag).
fn weakened(etag: &[u8]) -> Option<Vec<u8>> {
    match etag {
        [b'W', b'/', ..] => None,
        [b'"', ..] => Some([b"W/", etag].concat()),
        _ => Some(Vec::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_nginxs() {
        for (mtime, len, tag) in [
            (0, 0, "\"0-0\""),
            (15, 16, "\"f-10\""),
            (0x6553_f100, 615, "\"6553f100-267\""),
            (u64::MAX, u64::MAX, "\"ffffffffffffffff-ffffffffffffffff\""),
        ] {
            assert_eq!(&*etag(mtime, len), tag.as_bytes());
        }
    }

    #[test]
    fn a_validator_of_another_form_is_weak() {
        for (etag, weak) in [("\"a\"", Some("W/\"a\"")), ("W/\"a\"", None), ("a", Some(""))] {
            assert_eq!(weakened(etag.as_bytes()), weak.map(|weak| weak.as_bytes().to_vec()), "{etag}");
        }
    }
}
