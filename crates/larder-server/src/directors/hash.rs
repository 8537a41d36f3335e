//! The numbers of keys: those of Varnish, so that larder and a Varnish beside it choose the same backends.

use sha2::{Digest, Sha256};

/// The number of a text: the last four bytes of its SHA-256, the lowest first.
pub fn hash(text: &[u8]) -> u32 {
    let digest: [u8; 32] = Sha256::digest(text).into();
    let [.., a, b, c, d] = digest;
    u32::from_le_bytes([a, b, c, d])
}

/// The number of the key of a page: the first four bytes of its SHA-256, the highest first.
pub fn of_page(key: &[u8]) -> u32 {
    let [a, b, c, d, ..] = page_digest(key);
    u32::from_be_bytes([a, b, c, d])
}

/// `req.hash`
pub fn page_digest(key: &[u8]) -> [u8; 32] {
    Sha256::digest(key).into()
}

/// The number of a blob: its first four bytes, the highest first; a shorter one has zeros before it.
pub fn of_blob(blob: &[u8]) -> u32 {
    blob.iter().take(4).fold(0, |number, byte| number << 8 | u32::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_varnish() {
        // From directors_c00007.vtc, where these are the points of the replicas 0 to 24 of s1 to s3.
        for (name, points) in [
            ("s1", [0x03b6_b56a, 0x0e54_3430, 0x1013_6c05]),
            ("s2", [0x1112_f910, 0x2246_4ee9, 0x2363_bebb]),
            ("s3", [0x0669_86a7, 0x07e4_1e30, 0x0b74_9e7b]),
        ] {
            let all: Vec<u32> = (0..25).map(|replica| hash(format!("{name}{replica}").as_bytes())).collect();
            assert!(points.iter().all(|point| all.contains(point)), "{name}: {all:x?}");
        }
        for (blob, number) in
            [(&b""[..], 0), (b"\x01", 1), (b"\x01\x02\x03", 0x1_0203), (b"\x68\xb9\x02\xf7\xff", 0x68b9_02f7)]
        {
            assert_eq!(of_blob(blob), number, "{blob:?}");
        }
        // SHA-256 of nothing begins with e3b0c442.
        assert_eq!(of_page(b""), 0xe3b0_c442);
    }
}
