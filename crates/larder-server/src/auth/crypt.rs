//! Checks a password against its hash: the formats of nginx itself, and those of crypt(3) on Debian.
//!
//! | begins with           | is                          | from                |
//! | --------------------- | --------------------------- | ------------------- |
//! | `{PLAIN}`             | the password                | nginx               |
//! | `{SHA}`, `{SSHA}`     | SHA-1, with a salt          | nginx               |
//! | `$apr1$`              | MD5 1000 times              | Apache's `htpasswd` |
//! | `$1$`                 | the same                    | crypt(3)            |
//! | `$5$`, `$6$`          | SHA-256 and SHA-512, rounds | crypt(3)            |
//! | `$2a$` `$2b$` `$2y$`  | bcrypt                      | `htpasswd -B`       |
//! | `$y$`                 | yescrypt                    | Debian's default    |
//! | 13 characters, no `$` | DES 25 times                | crypt(3)            |
//!
//! The other formats of libxcrypt (`$gy$`, `$7$`, `$sha1$`, `$md5`, `$3$`, `_`) are reported as not supported.

use md5::{Digest, Md5};
use sha_crypt::{PasswordHashRef, PasswordVerifier, ShaCrypt};
use sha1::Sha1;
use subtle::ConstantTimeEq;
use yescrypt::Yescrypt;

use super::des::{self, DIGITS};

/// The digits of base64 (RFC 4648 §4).
const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const SHA1_BYTES: usize = 20;
/// MD5 crypt uses no more of the salt.
const MD5_SALT_BYTES_MAX: usize = 8;
const MD5_ROUNDS: usize = 1000;

/// The result of checking a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The password is right.
    Match,
    /// The password is wrong, or no password can match (`!`, `*`).
    Mismatch,
    /// The format of the hash is unknown.
    Unsupported,
}

impl From<bool> for Outcome {
    fn from(is_match: bool) -> Self {
        if is_match { Self::Match } else { Self::Mismatch }
    }
}

/// Checks `password` against `hash`. As in C, both end at a NUL.
pub(super) fn verify(hash: &[u8], password: &[u8]) -> Outcome {
    let (hash, password) = (until_nul(hash), until_nul(password));
    if let Some(plain) = hash.strip_prefix(b"{PLAIN}") {
        return is_equal(plain, password).into();
    }
    if let Some(encoded) = hash.strip_prefix(b"{SHA}") {
        return is_equal(encoded, &encode_base64(&Sha1::digest(password))).into();
    }
    if let Some(encoded) = hash.strip_prefix(b"{SSHA}") {
        return verify_ssha(encoded, password).into();
    }
    for magic in [&b"$apr1$"[..], b"$1$"] {
        if let Some(rest) = hash.strip_prefix(magic) {
            let salt = rest.split(|&byte| byte == b'$').next().unwrap_or_default();
            let salt = &salt[..salt.len().min(MD5_SALT_BYTES_MAX)];
            return is_equal(hash, &md5_crypt(magic, salt, password)).into();
        }
    }
    let Ok(text) = std::str::from_utf8(hash) else {
        return Outcome::Mismatch;
    };
    match form_of(hash).as_str() {
        "$5$" | "$6$" => verify_mcf(&ShaCrypt::default(), text, password).into(),
        "$y$" => verify_mcf(&Yescrypt::default(), text, password).into(),
        "$2a$" | "$2b$" | "$2y$" => bcrypt::verify(password, text).unwrap_or(false).into(),
        "DES" => des::crypt(password, hash).is_some_and(|made| is_equal(hash, &made)).into(),
        // Files made from /etc/shadow have these for locked accounts.
        "" | "*" | "!" => Outcome::Mismatch,
        _ => Outcome::Unsupported,
    }
}

/// Whether [`verify`] takes more than a millisecond.
pub(super) fn is_slow(hash: &[u8]) -> bool {
    matches!(form_of(hash).as_str(), "$5$" | "$6$" | "$y$" | "$2a$" | "$2b$" | "$2y$")
}

/// The beginning of a hash that shows its format: `$6$`, `{MD5}`, `_`; `DES` for the format without a prefix.
pub(super) fn form_of(hash: &[u8]) -> String {
    let end = match hash {
        [] => 0,
        [b'$', rest @ ..] => memchr::memchr2(b'$', b',', rest).map_or(1, |end| end + 2),
        [b'{', rest @ ..] => memchr::memchr(b'}', rest).map_or(1, |end| end + 2),
        _ if hash.len() == des::HASH_BYTES && hash.iter().all(|byte| DIGITS.contains(byte)) => {
            return "DES".to_owned();
        }
        _ => 1,
    };
    String::from_utf8_lossy(&hash[..end]).into_owned()
}

/// `{SSHA}`: base64 of SHA-1 over password and salt, then the salt.
fn verify_ssha(encoded: &[u8], password: &[u8]) -> bool {
    let Some(decoded) = decode_base64(encoded) else {
        return false;
    };
    let Some((_, salt)) = decoded.split_at_checked(SHA1_BYTES) else {
        return false;
    };
    let digest = Sha1::new().chain_update(password).chain_update(salt).finalize();
    is_equal(encoded, &encode_base64(&[&digest, salt].concat()))
}

fn verify_mcf(verifier: &impl PasswordVerifier<PasswordHashRef>, hash: &str, password: &[u8]) -> bool {
    PasswordHashRef::new(hash).is_ok_and(|hash| verifier.verify_password(password, hash).is_ok())
}

/// MD5 crypt by Poul-Henning Kamp; Apache's differs only in its `magic`. The odd steps are part of the format.
fn md5_crypt(magic: &[u8], salt: &[u8], password: &[u8]) -> Vec<u8> {
    let inner = Md5::new().chain_update(password).chain_update(salt).chain_update(password).finalize();
    let mut outer = Md5::new().chain_update(password).chain_update(magic).chain_update(salt);
    for at in (0..password.len()).step_by(inner.len()) {
        outer.update(&inner[..inner.len().min(password.len() - at)]);
    }
    let mut bits = password.len();
    while bits > 0 {
        let byte = if bits & 1 == 1 { Some(&0) } else { password.first() };
        outer.update(byte.map_or(&[][..], std::slice::from_ref));
        bits >>= 1;
    }
    let mut sum: [u8; 16] = outer.finalize().into();
    for round in 0..MD5_ROUNDS {
        let mut hash = Md5::new();
        let is_odd = round % 2 == 1;
        hash.update(if is_odd { password } else { &sum });
        if round % 3 != 0 {
            hash.update(salt);
        }
        if round % 7 != 0 {
            hash.update(password);
        }
        hash.update(if is_odd { &sum } else { password });
        sum = hash.finalize().into();
    }

    let mut out = [magic, salt, b"$"].concat();
    for [a, b, c] in [[0, 6, 12], [1, 7, 13], [2, 8, 14], [3, 9, 15], [4, 10, 5]] {
        append_digits(u32::from_be_bytes([0, sum[a], sum[b], sum[c]]), 4, &mut out);
    }
    append_digits(sum[11].into(), 2, &mut out);
    out
}

/// Appends a number, six bits a digit, the lowest first.
fn append_digits(mut value: u32, digits: usize, out: &mut Vec<u8>) {
    for _ in 0..digits {
        out.push(DIGITS[(value & 0x3f) as usize]);
        value >>= 6;
    }
}

fn is_equal(a: &[u8], b: &[u8]) -> bool {
    a.ct_eq(b).into()
}

fn until_nul(text: &[u8]) -> &[u8] {
    &text[..memchr::memchr(0, text).unwrap_or(text.len())]
}

/// Encodes base64 with padding.
pub(crate) fn encode_base64(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let byte = |n: usize| u32::from(chunk.get(n).copied().unwrap_or(0));
        let group = byte(0) << 16 | byte(1) << 8 | byte(2);
        for digit in 0..4 {
            let is_there = digit <= chunk.len();
            out.push(if is_there { BASE64[(group >> (18 - 6 * digit) & 0x3f) as usize] } else { b'=' });
        }
    }
    out
}

/// Decodes base64 as nginx does: ignores all that follows the first `=`, and bits beyond the last whole byte.
pub(crate) fn decode_base64(text: &[u8]) -> Option<Vec<u8>> {
    let digits = &text[..memchr::memchr(b'=', text).unwrap_or(text.len())];
    if digits.len() % 4 == 1 {
        return None;
    }
    let mut out = Vec::with_capacity(digits.len() / 4 * 3 + 2);
    let (mut bits, mut count) = (0_u32, 0);
    for digit in digits {
        let value = BASE64.iter().position(|known| known == digit)?;
        bits = bits << 6 | value as u32;
        count += 6;
        if count >= 8 {
            count -= 8;
            out.push((bits >> count) as u8);
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Made with `htpasswd`, `openssl passwd` and Debian's crypt(3), and accepted by nginx 1.22. The password is `pass
    /// word` where no other is given.
    const HASHES: &[(&str, &str)] = &include!("hashes.in");

    #[test]
    fn each_form_takes_its_password_and_no_other() {
        for (hash, password) in HASHES {
            assert_eq!(verify(hash.as_bytes(), password.as_bytes()), Outcome::Match, "{hash}");
            let other = format!("x{password}");
            assert_eq!(verify(hash.as_bytes(), other.as_bytes()), Outcome::Mismatch, "{hash}");
        }
    }

    #[test]
    fn a_hash_that_was_changed_takes_nothing() {
        for (hash, password) in HASHES.iter().filter(|(hash, _)| !is_slow(hash.as_bytes())) {
            for at in 0..hash.len() {
                let mut changed = hash.as_bytes().to_vec();
                changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
                assert_ne!(verify(&changed, password.as_bytes()), Outcome::Match, "{hash} at {at}");
            }
            for end in 0..hash.len() {
                assert_ne!(verify(&hash.as_bytes()[..end], password.as_bytes()), Outcome::Match, "{hash} to {end}");
            }
        }
    }

    #[test]
    fn what_is_no_hash_takes_nothing() {
        for (hash, outcome) in [
            ("", Outcome::Mismatch),
            ("*", Outcome::Mismatch),
            ("!", Outcome::Mismatch),
            ("!!", Outcome::Mismatch),
            ("$6$", Outcome::Mismatch),
            ("$6$rounds=1$a$b", Outcome::Mismatch),
            ("$2y$99$aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", Outcome::Mismatch),
            ("$2y$", Outcome::Mismatch),
            ("$y$j9T$", Outcome::Mismatch),
            ("$y$zzzzzzzzzzzz$a$b", Outcome::Mismatch),
            ("{SSHA}short", Outcome::Mismatch),
            ("{SHA}", Outcome::Mismatch),
            ("$1$", Outcome::Mismatch),
            ("$", Outcome::Unsupported),
            ("$gy$j9T$a$b", Outcome::Unsupported),
            ("$md5,rounds=9$a$$b", Outcome::Unsupported),
            ("{MD5}abc", Outcome::Unsupported),
            ("password", Outcome::Unsupported),
            ("_J9..rasmBYk8r9AiWNc", Outcome::Unsupported),
        ] {
            assert_eq!(verify(hash.as_bytes(), b"password"), outcome, "{hash}");
        }
        assert_eq!(verify(b"\xff\xfe", b""), Outcome::Mismatch);
    }

    #[test]
    fn passwords_end_at_a_nul() {
        assert_eq!(verify(b"{PLAIN}pass", b"pass\0word"), Outcome::Match);
    }

    #[test]
    fn base64_is_there_and_back() {
        for (bytes, text) in [
            (&b""[..], ""),
            (b"f", "Zg=="),
            (b"fo", "Zm8="),
            (b"foo", "Zm9v"),
            (b"foob", "Zm9vYg=="),
            (b"\xff\xfb\xf0", "//vw"),
        ] {
            assert_eq!(encode_base64(bytes), text.as_bytes());
            assert_eq!(decode_base64(text.as_bytes()).as_deref(), Some(bytes), "{text}");
            let unpadded = text.trim_end_matches('=');
            assert_eq!(decode_base64(unpadded.as_bytes()).as_deref(), Some(bytes), "{unpadded}");
        }
        for text in ["Zg*=", "Z", "Zm9vY", "Z g="] {
            assert_eq!(decode_base64(text.as_bytes()), None, "{text}");
        }
    }
}
