//! The address of an origin and the URI that it gets: the URL of `proxy_pass` with its variables.

use std::borrow::Cow;
use std::net::ToSocketAddrs as _;

use larder_http::{Escape, escape_uri};
use larder_origin::Address;

use crate::context::Cx;
use crate::exchange::Exchange;
use crate::site::{Backend, CachePolicy, Scheme, Target};
use crate::text::Part;
use crate::variable::Var;
use crate::vars;

/// Sets `$proxy_host` before anything reads it, as a key may.
pub fn note_proxy_host(backend: &Backend, ex: &mut Exchange, cx: &Cx) {
    let mut host = std::mem::take(&mut ex.visit.proxy_host);
    host.clear();
    match &backend.target {
        Target::Group { host: named, .. } => host.extend_from_slice(named),
        Target::Variable(text) => {
            let url = text.value(ex, cx);
            let (place, _) = split_authority(Scheme::split(&url).1);
            host.extend_from_slice(place);
        }
        Target::Files => {}
    }
    ex.visit.proxy_host = host;
}

/// Appends nginx's key for `proxy_pass` without `proxy_cache_key`: scheme, host and URI as the origin gets them.
pub fn append_default_key(backend: &Backend, ex: &mut Exchange, cx: &Cx, out: &mut Vec<u8>) {
    match &backend.target {
        Target::Group { host, uri, .. } => {
            out.extend_from_slice(backend.scheme().prefix());
            out.extend_from_slice(host);
            append_origin_uri(uri.as_deref(), ex, cx, out);
        }
        Target::Variable(text) => {
            let url = text.value(ex, cx);
            let (scheme, rest) = Scheme::split(&url);
            let (place, uri) = split_authority(rest);
            out.extend_from_slice(scheme.prefix());
            out.extend_from_slice(place);
            match uri {
                Some(uri) => out.extend_from_slice(uri),
                None => append_origin_uri(None, ex, cx, out),
            }
        }
        Target::Files => append_origin_uri(None, ex, cx, out),
    }
}

/// Whether a variable that is meant stands in the key of this cache.
pub fn key_names(cache: &CachePolicy, backend: &Backend, is_meant: impl Fn(&Var) -> bool) -> bool {
    let text = match (&cache.key, &backend.target) {
        (Some(text), _) | (None, Target::Variable(text)) => text,
        (None, Target::Group { .. } | Target::Files) => return false,
    };
    text.parts().iter().any(|part| matches!(part, Part::Var(var) if is_meant(var)))
}

/// Splits `host:port/uri` or `unix:/path:/uri` into address and URI.
pub fn split_authority(rest: &[u8]) -> (&[u8], Option<&[u8]>) {
    if rest.starts_with(b"unix:") {
        let end = rest[5..].iter().position(|&byte| byte == b':').map(|at| at + 5);
        return match end {
            Some(end) if end + 1 < rest.len() => (&rest[..end], Some(&rest[end + 1..])),
            Some(end) => (&rest[..end], None),
            None => (rest, None),
        };
    }
    match rest.iter().position(|&byte| matches!(byte, b'/' | b'?')) {
        Some(at) => (&rest[..at], Some(&rest[at..])),
        None => (rest, None),
    }
}

/// Why `host:port` is no valid address, in nginx's words.
pub fn fault(text: &str) -> Option<&'static str> {
    if text.starts_with("unix:") {
        return None;
    }
    let after_host = match text.strip_prefix('[') {
        Some(inside) => inside.split_once(']')?.1,
        None => &text[text.find(':').unwrap_or(text.len())..],
    };
    if after_host.len() == text.len() {
        return Some("no host");
    }
    let port = after_host.strip_prefix(':')?;
    let is_port = port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse().is_ok_and(|port: u16| port > 0);
    (!is_port).then_some("invalid port")
}

/// The name under which an address from variables is kept: without a port, the scheme decides which one is meant.
pub fn known_as(address: &[u8], scheme: Option<Scheme>) -> Cow<'_, [u8]> {
    match scheme {
        Some(Scheme::Https) => [Scheme::Https.prefix(), address].concat().into(),
        Some(Scheme::Http) | None => address.into(),
    }
}

/// The address in a text that needs no resolving.
pub fn literal_address(text: &str, port: Option<u16>) -> Option<Address> {
    if let Some(path) = text.strip_prefix("unix:") {
        return Some(Address::Unix(path.into()));
    }
    let with_port = with_port(text, port);
    with_port.parse().ok().map(Address::Tcp)
}

/// The text, with `port` appended if it has none.
fn with_port(text: &str, port: Option<u16>) -> Cow<'_, str> {
    let has_port = text.rsplit(']').next().unwrap_or(text).contains(':');
    match port {
        Some(port) if !has_port => format!("{text}:{port}").into(),
        Some(_) | None => text.into(),
    }
}

/// The addresses of an origin: a path, a literal address, or all that the system's resolver finds for a name, which may
/// block. Empty if there are none. `port` is the default.
pub fn addresses(text: &str, port: Option<u16>) -> Vec<Address> {
    if let Some(literal) = literal_address(text, port) {
        return vec![literal];
    }
    let Ok(found) = with_port(text, port).to_socket_addrs() else { return Vec::new() };
    let mut addresses = Vec::new();
    for address in found.map(Address::Tcp) {
        if !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    addresses
}

/// Appends the path and the arguments for the origin: what the client sent, unless something has changed them. A URI in
/// `proxy_pass` replaces the location's prefix.
pub fn append_origin_uri(replacement: Option<&[u8]>, ex: &Exchange, cx: &Cx, out: &mut Vec<u8>) {
    let loc = cx.loc(ex);
    match replacement {
        // After `rewrite ... break` the rewritten URI is sent.
        Some(_) if !ex.request.way.path_is_the_locations => append_path(&ex.request.uri, ex, out),
        Some(uri) => {
            let is_prefixed = !loc.matching.by_regex && !loc.matching.named;
            let prefix: &[u8] = if is_prefixed { &loc.matching.prefix } else { b"" };
            match ex.request.uri.strip_prefix(prefix) {
                Some(rest) => {
                    out.extend_from_slice(uri);
                    append_path(rest, ex, out);
                }
                // A policy has made it.
                None => append_path(&ex.request.uri, ex, out),
            }
        }
        None if !ex.request.way.uri_changed => {
            let target = ex.asked.head.target();
            return match vars::leaving_out(ex, cx) {
                Some(profile) => profile.append_kept_target(target, out),
                None => out.extend_from_slice(target),
            };
        }
        None => append_path(&ex.request.uri, ex, out),
    }
    match vars::leaving_out(ex, cx) {
        Some(profile) if !profile.keeps_some(&ex.request.args) => {}
        Some(profile) => {
            out.push(b'?');
            profile.append_kept(&ex.request.args, out);
        }
        None if ex.request.args.is_empty() => {}
        None => {
            out.push(b'?');
            out.extend_from_slice(&ex.request.args);
        }
    }
}

/// Appends a decoded path, encoded again if the client had encoded it or a rewrite made it.
fn append_path(path: &[u8], ex: &Exchange, out: &mut Vec<u8>) {
    if ex.request.way.internal || ex.asked.head.target().contains(&b'%') {
        escape_uri(path, Escape::Uri, out);
    } else {
        out.extend_from_slice(path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_has_a_host_and_its_port_is_a_number() {
        for (text, found) in [
            ("", Some("no host")),
            (":80", Some("no host")),
            ("a", None),
            ("a:80", None),
            ("a:", Some("invalid port")),
            ("a:0", Some("invalid port")),
            ("a:65536", Some("invalid port")),
            ("a:+1", Some("invalid port")),
            ("a:1:2", Some("invalid port")),
            ("[::1]", None),
            ("[::1]:80", None),
            ("[::1]:x", Some("invalid port")),
            ("unix:/run/a.sock", None),
        ] {
            assert_eq!(fault(text), found, "{text}");
        }
    }

    #[test]
    fn a_url_is_split_into_place_and_uri() {
        for (rest, place, uri) in [
            ("a:8080/b?c", "a:8080", Some("/b?c")),
            ("a", "a", None),
            ("a?b", "a", Some("?b")),
            ("[::1]:80/x", "[::1]:80", Some("/x")),
            ("unix:/run/a.sock", "unix:/run/a.sock", None),
            ("unix:/run/a.sock:", "unix:/run/a.sock", None),
            ("unix:/run/a.sock:/uri", "unix:/run/a.sock", Some("/uri")),
        ] {
            let (got_place, got_uri) = split_authority(rest.as_bytes());
            assert_eq!((got_place, got_uri), (place.as_bytes(), uri.map(str::as_bytes)), "{rest}");
        }
    }

    #[test]
    fn an_address_is_literal_or_a_path() {
        for (text, port, address) in [
            ("127.0.0.1:9000", None, Some("127.0.0.1:9000")),
            ("127.0.0.1", Some(80), Some("127.0.0.1:80")),
            ("127.0.0.1", Some(443), Some("127.0.0.1:443")),
            ("[::1]:81", Some(80), Some("[::1]:81")),
            ("[::1]", Some(80), Some("[::1]:80")),
            ("unix:/run/php.sock", None, Some("unix:/run/php.sock")),
            ("127.0.0.1", None, None),
            ("127.0.0.1:99999", Some(80), None),
        ] {
            let parsed = literal_address(text, port).map(|address| address.to_string());
            assert_eq!(parsed.as_deref(), address, "{text}");
        }
    }
}
