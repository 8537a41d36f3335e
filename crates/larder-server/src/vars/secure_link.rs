//! `$secure_link` and `$secure_link_expires` (ngx_http_secure_link_module).

use md5::{Digest, Md5};

use crate::auth::decode_base64;
use crate::context::Cx;
use crate::exchange::Exchange;

/// The longest checksum in base64, with its padding.
const ENCODED_BYTES_MAX: usize = 24;

/// Appends the value of `$secure_link`; false if the link is not valid.
pub fn append(ex: &mut Exchange, cx: &Cx, out: &mut Vec<u8>) -> bool {
    let loc = cx.loc(ex);
    if let Some(secret) = &loc.settings.modules.secure_link.secret {
        let Some(link) = by_secret(ex.asked.head.target(), secret.as_bytes()) else { return false };
        out.extend_from_slice(link);
        return true;
    }
    let Some((link, md5)) = &loc.modules.secure_link else { return false };
    let link = link.value(ex, cx);
    let Some(Link { encoded, expires }) = parts(&link) else { return false };
    let Some(checksum) = checksum(encoded) else { return false };
    if !is_equal(&checksum, &Md5::digest(md5.value(ex, cx))) {
        return false;
    }
    let is_over = expires.is_some_and(|(_, seconds)| seconds < cx.now().secs());
    out.push(if is_over { b'0' } else { b'1' });
    true
}

/// Appends the value of `$secure_link_expires`.
pub fn append_expires(ex: &mut Exchange, cx: &Cx, out: &mut Vec<u8>) -> bool {
    let Some((link, _)) = &cx.loc(ex).modules.secure_link else { return false };
    let link = link.value(ex, cx);
    match parts(&link).and_then(|link| link.expires) {
        Some((text, _)) => {
            out.extend_from_slice(text);
            true
        }
        None => false,
    }
}

/// A link with a checksum.
struct Link<'a> {
    /// The checksum.
    encoded: &'a [u8],
    /// When it expires: as written, and in seconds.
    expires: Option<(&'a [u8], u64)>,
}

/// Splits a link into its parts; `None` if its time is malformed.
fn parts(link: &[u8]) -> Option<Link<'_>> {
    let Some(comma) = memchr::memchr(b',', link) else { return Some(Link { encoded: link, expires: None }) };
    let text = &link[comma + 1..];
    let digits = std::str::from_utf8(text).ok().filter(|text| text.bytes().all(|digit| digit.is_ascii_digit()))?;
    let seconds = digits.parse::<u64>().ok().filter(|&seconds| seconds > 0)?;
    Some(Link { encoded: &link[..comma], expires: Some((text, seconds)) })
}

/// Decodes the sixteen bytes of base64url.
fn checksum(encoded: &[u8]) -> Option<[u8; 16]> {
    if encoded.len() > ENCODED_BYTES_MAX || encoded.iter().any(|byte| matches!(byte, b'+' | b'/')) {
        return None;
    }
    let usual = |byte: &u8| match byte {
        b'-' => b'+',
        b'_' => b'/',
        other => *other,
    };
    let usual: Vec<u8> = encoded.iter().map(usual).collect();
    decode_base64(&usual)?.try_into().ok()
}

/// The link in `/PREFIX/CHECKSUM/LINK`, if the checksum matches the link and the secret.
fn by_secret<'a>(target: &'a [u8], secret: &[u8]) -> Option<&'a [u8]> {
    let rest = target.get(1..)?;
    let rest = &rest[memchr::memchr(b'/', rest)? + 1..];
    let end = memchr::memchr(b'/', rest)?;
    let (digits, link) = (&rest[..end], &rest[end + 1..]);
    if digits.len() != 32 || link.is_empty() {
        return None;
    }
    let mut checksum = [0; 16];
    for (byte, pair) in checksum.iter_mut().zip(digits.chunks_exact(2)) {
        let pair = std::str::from_utf8(pair).ok().filter(|pair| pair.bytes().all(|digit| digit.is_ascii_hexdigit()))?;
        *byte = u8::from_str_radix(pair, 16).ok()?;
    }
    is_equal(&checksum, &Md5::new().chain_update(link).chain_update(secret).finalize()).then_some(link)
}

/// Compares in constant time.
fn is_equal(one: &[u8], other: &[u8]) -> bool {
    subtle::ConstantTimeEq::ct_eq(one, other).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_has_a_checksum_and_perhaps_a_time() {
        for (link, result) in [
            ("abc", Some(("abc", None))),
            ("abc,12", Some(("abc", Some(12)))),
            (",12", Some(("", Some(12)))),
            ("abc,", None),
            ("abc,0", None),
            ("abc,-1", None),
            ("abc,1,2", None),
        ] {
            let found = parts(link.as_bytes()).map(|link| (link.encoded, link.expires.map(|(_, seconds)| seconds)));
            assert_eq!(found, result.map(|(sum, time)| (sum.as_bytes(), time)), "{link}");
        }
    }

    #[test]
    fn a_checksum_is_sixteen_bytes_in_base64url() {
        for (encoded, is_one) in [
            ("q-5vpkjBkRXXtkUMXiJVHA==", true),
            ("q-5vpkjBkRXXtkUMXiJVHA", true),
            ("q+5vpkjBkRXXtkUMXiJVHA", false),
            ("q-5vpkjBkRXXtkUMXiJVHAQQ", false),
            ("q-5vpkjBkRXXtkUMXiJVHA-TOOLONG", false),
            ("short", false),
            ("", false),
        ] {
            assert_eq!(checksum(encoded.as_bytes()).is_some(), is_one, "{encoded}");
        }
    }

    #[test]
    fn a_link_with_a_secret_holds_its_own_checksum() {
        let digits: String = Md5::digest(b"a/b?csecret").iter().map(|byte| format!("{byte:02x}")).collect();
        let upper = digits.to_uppercase();
        for (target, link) in [
            (format!("/p/{digits}/a/b?c"), Some("a/b?c")),
            (format!("/p/{upper}/a/b?c"), Some("a/b?c")),
            (format!("/p/{digits}/a/b"), None),
            (format!("/p/{digits}/"), None),
            (format!("/p/{digits}"), None),
            (format!("/p/{}/a/b?c", "x".repeat(32)), None),
            ("/p".to_owned(), None),
            ("/".to_owned(), None),
            (String::new(), None),
        ] {
            assert_eq!(by_secret(target.as_bytes(), b"secret"), link.map(str::as_bytes), "{target}");
        }
    }
}
