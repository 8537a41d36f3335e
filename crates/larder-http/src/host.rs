//! Normalises hosts, as nginx does before it compares them with `server_name`.

use std::ops::Range;

use crate::h1::error::HeadError;

/// The parts that [`normalise_host`] found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HostParts {
    /// Where the host is in the output: in lower case, without port and without a dot at its end. An IPv6 address keeps
    /// its brackets.
    pub host: Range<usize>,
    /// The port, if one is given.
    pub port: Option<u16>,
}

/// Adds the host of a `Host` field or of a target to `out`, in lower case. Like nginx, it refuses an empty host, two
/// dots in a row, a port above 65535, and brackets that are not closed; and every byte that RFC 3986 does not allow in
/// a host.
pub fn normalise_host(text: &[u8], out: &mut Vec<u8>) -> Result<HostParts, HeadError> {
    let (host, port) = split(text).ok_or(HeadError::InvalidHost)?;
    let start = out.len();
    out.extend_from_slice(host);
    out[start..].make_ascii_lowercase();
    Ok(HostParts { host: start..out.len(), port })
}

/// The port that [`normalise_host`] finds.
pub fn host_port(text: &[u8]) -> Option<u16> {
    split(text)?.1
}

/// Whether [`normalise_host`] would accept it.
pub(crate) fn is_valid_host(text: &[u8]) -> bool {
    split(text).is_some()
}

/// The host without the dot at its end, and the port.
fn split(text: &[u8]) -> Option<(&[u8], Option<u16>)> {
    let (host, rest) = match text {
        [b'[', inside @ ..] => {
            let name_len = name_len(inside, &IN_BRACKETS)?;
            text.split_at(if inside.get(name_len) == Some(&b']') { name_len + 2 } else { return None })
        }
        _ => text.split_at(name_len(text, &IN_NAME)?),
    };
    let port = match rest {
        [] | [b':'] => None,
        [b':', digits @ ..] => Some(u16::try_from(crate::decimal(digits)?).ok()?),
        _ => return None,
    };
    let host = host.strip_suffix(b".").unwrap_or(host);
    (!host.is_empty()).then_some((host, port))
}

/// How many bytes from the start are allowed in a name; `None` if two dots in a row are among them.
fn name_len(text: &[u8], is_allowed: &[bool; 256]) -> Option<usize> {
    let mut before = 0;
    for (at, &byte) in text.iter().enumerate() {
        if !is_allowed[usize::from(byte)] {
            return Some(at);
        }
        if byte == b'.' && before == b'.' {
            return None;
        }
        before = byte;
    }
    Some(text.len())
}

/// RFC 3986 `reg-name`.
static IN_NAME: [bool; 256] = letters_digits_and(b"-._~!$&'()*+,;=%");
/// RFC 3986 `IP-literal`.
static IN_BRACKETS: [bool; 256] = letters_digits_and(b":-._~!$&'()*+,;=");

const fn letters_digits_and(others: &[u8]) -> [bool; 256] {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = (byte as u8).is_ascii_alphanumeric();
        byte += 1;
    }
    let mut at = 0;
    while at < others.len() {
        table[others[at] as usize] = true;
        at += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_lose_case_port_and_last_dot() {
        for (text, host, port) in [
            ("example.org", "example.org", None),
            ("Example.ORG:8080", "example.org", Some(8080)),
            ("example.org.", "example.org", None),
            ("example.org.:80", "example.org", Some(80)),
            ("example.org:", "example.org", None),
            ("example.org:0", "example.org", Some(0)),
            ("example.org:65535", "example.org", Some(65535)),
            ("a_b~c%41", "a_b~c%41", None),
            (".example.org", ".example.org", None),
            ("127.0.0.1:80", "127.0.0.1", Some(80)),
            ("[::1]", "[::1]", None),
            ("[2001:DB8::1]:443", "[2001:db8::1]", Some(443)),
        ] {
            let mut out = b"before".to_vec();
            let parts = normalise_host(text.as_bytes(), &mut out).expect("the host is valid");
            assert_eq!(String::from_utf8_lossy(&out[parts.host]), host, "{text}");
            assert_eq!(parts.port, port, "{text}");
        }
    }

    #[test]
    fn what_cannot_be_a_host_is_refused() {
        for text in [
            "",
            ".",
            ":80",
            ".:80",
            "a..b",
            "a b",
            "a/b",
            "a\\b",
            "a@b",
            "a?b",
            "a#b",
            "a\0b",
            "a\tb",
            "é",
            "a:b",
            "a:80:80",
            "a:65536",
            "a:-1",
            "a:+1",
            "a:99999999999999999999",
            "[::1",
            "[::1]x",
            "[::1]:x",
            "[a/b]",
            "[[::1]]",
            "::1",
            "[a..b]",
            "<a>",
            "a\"",
            "a,b c",
        ] {
            let mut out = Vec::new();
            assert_eq!(normalise_host(text.as_bytes(), &mut out), Err(HeadError::InvalidHost), "{text:?}");
            assert!(out.is_empty());
        }
    }
}
