//! Addresses in texts: those of backends and ACLs, and what `std.ip()` reads.

use std::net::{IpAddr, SocketAddr};

/// The address that a text has in digits, with its port or `default_port`: `1.2.3.4`, `1.2.3.4:80`, `1.2.3.4 80`, `::1`,
/// `[::1]:80`.
pub fn address(text: &str, default_port: u16) -> Option<SocketAddr> {
    let (host, port) = host_and_port(text)?;
    Some(SocketAddr::new(host.parse::<IpAddr>().ok()?, port.unwrap_or(default_port)))
}

/// A host, which may be a name, and the port behind it. `None` for what is no such thing.
pub fn host_and_port(text: &str) -> Option<(&str, Option<u16>)> {
    let (host, port) = if let Some(inside) = text.strip_prefix('[') {
        let (host, behind) = inside.split_once(']')?;
        match behind.as_bytes() {
            [] => (host, None),
            [b' ' | b':', ..] => (host, Some(&behind[1..])),
            _ => return None,
        }
    } else {
        match text.split_once(' ').or_else(|| text.split_once(':')) {
            // Several colons without brackets are an address of IPv6.
            Some((_, behind)) if !text.contains(' ') && behind.contains(':') => (text, None),
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        }
    };
    let port = match port {
        Some(text) => Some(self::port(text)?),
        None => None,
    };
    (!host.is_empty()).then_some((host, port))
}

/// Whether it can be the name of a host: labels with points between them.
pub fn is_host_name(text: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    let text = text.strip_suffix('.').unwrap_or(text);
    text.split('.').all(|label| !label.is_empty() && label.bytes().all(is_part))
}

/// A port, by its number or as one of two names.
pub fn port(text: &str) -> Option<u16> {
    match text {
        "http" => Some(80),
        "https" => Some(443),
        digits if digits.bytes().all(|byte| byte.is_ascii_digit()) => digits.parse().ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_may_have_ports() {
        for (text, expected) in [
            ("1.2.3.4", Some("1.2.3.4:80")),
            ("1.2.3.4:8080", Some("1.2.3.4:8080")),
            ("1.2.3.4 8080", Some("1.2.3.4:8080")),
            ("1.2.3.4:https", Some("1.2.3.4:443")),
            ("::1", Some("[::1]:80")),
            ("[::1]", Some("[::1]:80")),
            ("[::1]:81", Some("[::1]:81")),
            ("[::1] 81", Some("[::1]:81")),
            ("[::1]:https", Some("[::1]:443")),
            ("2001:db8::1", Some("[2001:db8::1]:80")),
            ("[::1", None),
            ("[::1]x", None),
            ("1.2.3.4:", None),
            ("1.2.3.4:+80", None),
            ("1.2.3.4:99999", None),
            ("1.2.3.4:gopher", None),
            ("1.2.3", None),
            (":80", None),
            ("localhost", None),
            ("1.2.3.4, 5.6.7.8", None),
            ("", None),
        ] {
            assert_eq!(address(text, 80).map(|address| address.to_string()).as_deref(), expected, "{text:?}");
        }
        assert_eq!(host_and_port("a.example:81"), Some(("a.example", Some(81))));
        assert_eq!(host_and_port("a.example 81"), Some(("a.example", Some(81))));
        assert_eq!(host_and_port("a.example"), Some(("a.example", None)));
    }

    #[test]
    fn names_of_hosts_have_labels() {
        for (text, expected) in [("a", true), ("a-b.c_d.", true), ("a..b", false), ("", false), ("a b", false)] {
            assert_eq!(is_host_name(text), expected, "{text:?}");
        }
    }
}
