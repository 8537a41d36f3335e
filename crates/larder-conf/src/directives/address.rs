//! Addresses of servers, wherever they stand.

use std::net::{IpAddr, SocketAddr};

use crate::diagnostic::{Diagnostic, Outcome};
use crate::tree::Word;
use crate::values;

/// `host`, `host:port`, `[IPv6]:port` or `unix:/path`.
pub fn check_address(word: &Word) -> Outcome {
    check_address_of("upstream", word)
}

/// The same, of something else than an `upstream`.
pub fn check_address_of(whose: &str, word: &Word) -> Outcome {
    let text = word.text.as_str();
    let wrong = |what: &str| {
        Diagnostic::error(format!("{what} in {whose} \"{text}\""))
            .at(word.span)
            .label("an address is host, host:port, [IPv6]:port or unix:/path")
    };
    if let Some(path) = text.strip_prefix("unix:") {
        return if path.is_empty() { Err(wrong("no path")) } else { Ok(()) };
    }
    if text.contains('/') {
        let diagnostic = wrong("invalid host");
        return Err(match text.contains("://") {
            true => diagnostic.help("leave out the scheme; it belongs to \"proxy_pass http://name\""),
            false => diagnostic,
        });
    }
    let (host, port) = match text.starts_with('[') {
        true => {
            let Some((host, rest)) = text[1..].split_once(']') else {
                return Err(wrong("invalid host"));
            };
            if host.parse::<std::net::Ipv6Addr>().is_err() {
                return Err(wrong("invalid IPv6 address"));
            }
            (host, rest.strip_prefix(':').or_else(|| (!rest.is_empty()).then_some("")))
        }
        false => match text.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    let is_port = |port: &str| values::number(port).is_some_and(|port| (1..=65535).contains(&port));
    match (host, port) {
        ("", _) => Err(wrong("no host")),
        (_, Some(port)) if !is_port(port) => Err(wrong("invalid port")),
        _ => Ok(()),
    }
}

/// Whether an address has a port or is a socket, so that no group need explain it.
pub fn is_complete(text: &str) -> bool {
    text.starts_with("unix:")
        || text.rsplit_once(':').is_some_and(|(host, _)| !host.contains(':') || host.ends_with(']'))
}

/// A literal address, with or without a port.
pub fn literal_address(text: &str, default_port: u16) -> Option<SocketAddr> {
    if let Ok(address) = text.parse::<SocketAddr>() {
        return (address.port() != 0).then_some(address);
    }
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    bare.parse::<IpAddr>().ok().map(|ip| SocketAddr::new(ip, default_port))
}
