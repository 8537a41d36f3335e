//! Numbers with units, and addresses.

use std::net::{IpAddr, SocketAddr};

use crate::ast::Digits;

/// The units of a DURATION, and their seconds.
pub const DURATION_UNITS: [(&str, f64); 7] =
    [("ms", 0.001), ("s", 1.0), ("m", 60.0), ("h", 3600.0), ("d", 86_400.0), ("w", 604_800.0), ("y", 31_536_000.0)];

/// What to say of a unit that is none of a DURATION.
pub const DURATION_HELP: &str = "a DURATION has one of the units ms, s, m, h, d, w and y";

/// What to say of a unit that is none of BYTES.
pub const BYTES_HELP: &str = "BYTES have one of the units B, KB, MB, GB, TB and PB";

/// The number as a fraction.
pub fn real(digits: Digits) -> f64 {
    match digits {
        // Fifteen digits are exact.
        Digits::Int(value) => value as f64,
        Digits::Real(value) => value,
    }
}

/// The seconds of a number with a unit of time.
pub fn seconds(digits: Digits, unit: &str) -> Option<f64> {
    let (_, factor) = DURATION_UNITS.iter().find(|(name, _)| *name == unit)?;
    Some(real(digits) * factor)
}

/// The bytes of a number with a unit of BYTES; a fraction of a byte is none.
pub fn bytes(digits: Digits, unit: &str) -> Option<i64> {
    const UNITS: [&str; 5] = ["k", "m", "g", "t", "p"];
    let unit = unit.to_ascii_lowercase();
    let value = real(digits);
    let factor = match unit.as_str() {
        "b" if value.fract() != 0.0 => return None,
        "b" | "bb" => 1.0,
        unit => {
            let power = UNITS.iter().position(|own| *own == unit.strip_suffix('b').unwrap_or(unit))?;
            1024_f64.powi(power as i32 + 1)
        }
    };
    // A number that is too large becomes the largest.
    Some((value * factor) as i64)
}

/// An address with its port, or with `default_port`: `1.2.3.4`, `1.2.3.4:80`, `1.2.3.4 80`, `::1`, `[::1]:80`.
pub fn address(text: &str, default_port: u16) -> Option<SocketAddr> {
    let (host, port) = host_and_port(text)?;
    Some(SocketAddr::new(host.parse::<IpAddr>().ok()?, port.unwrap_or(default_port)))
}

/// A host, which may be a name, and the port behind it.
pub fn host_and_port(text: &str) -> Option<(&str, Option<u16>)> {
    if text.parse::<IpAddr>().is_ok() {
        return Some((text, None));
    }
    if let Some((host, port)) = text.split_once(' ') {
        return Some((unbracketed(host), Some(self::port(port)?)));
    }
    if let Some((host, rest)) = text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        return match rest.strip_prefix(':') {
            Some(port) => Some((host, Some(self::port(port)?))),
            None => rest.is_empty().then_some((host, None)),
        };
    }
    match text.rsplit_once(':') {
        Some((host, port)) => Some((host, Some(self::port(port)?))),
        None => Some((text, None)),
    }
}

/// Whether it can be the name of a host: labels with points between them.
pub fn is_host_name(text: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    let text = text.strip_suffix('.').unwrap_or(text);
    text.split('.').all(|label| !label.is_empty() && label.bytes().all(is_part))
}

fn unbracketed(host: &str) -> &str {
    host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host)
}

/// A port, by its number or as one of two names.
pub fn port(text: &str) -> Option<u16> {
    match text {
        "http" => Some(80),
        "https" => Some(443),
        _ => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_those_of_varnish() {
        for (value, unit, expected) in [
            (1.5, "s", Some(1.5)),
            (2.0, "ms", Some(0.002)),
            (1.0, "y", Some(31_536_000.0)),
            (1.0, "S", None),
            (1.0, "kb", None),
        ] {
            assert_eq!(seconds(Digits::Real(value), unit), expected, "{value}{unit}");
        }
        for (value, unit, expected) in [
            (10.0, "B", Some(10)),
            (1.5, "b", None),
            (1.5, "KB", Some(1536)),
            (2.0, "m", Some(2 << 20)),
            (1.0, "PB", Some(1 << 50)),
            (1.0, "EB", None),
            (1.0, "kbb", None),
        ] {
            assert_eq!(bytes(Digits::Real(value), unit), expected, "{value}{unit}");
        }
    }

    #[test]
    fn addresses_have_ports_in_several_ways() {
        for (text, expected) in [
            ("1.2.3.4", Some("1.2.3.4:80")),
            ("1.2.3.4:8080", Some("1.2.3.4:8080")),
            ("1.2.3.4 8080", Some("1.2.3.4:8080")),
            ("::1", Some("[::1]:80")),
            ("[::1]:https", Some("[::1]:443")),
            ("[::1", None),
            ("localhost", None),
            ("1.2.3.4:x", None),
            ("", None),
        ] {
            assert_eq!(address(text, 80).map(|address| address.to_string()).as_deref(), expected, "{text}");
        }
    }
}
