//! Requests that a page of another site has a browser make. Browsers reach a port of their machine too, in the name of any page
//! that they show, and they say so in `Origin` or `Sec-Fetch-Site`; unless the page's own name leads to this machine (DNS rebinding),
//! which the host of the request tells.

use std::net::{Ipv4Addr, Ipv6Addr};

use larder_http::Fields;

use crate::context::Cx;
use crate::exchange::Exchange;
use crate::site::NameTable;

/// Why a request is refused that a page has made; `None` for programs, and for a person who types an address.
pub fn by_any_page(fields: &Fields) -> Option<&'static str> {
    if fields.contains("Origin") {
        return Some("\"Origin\" says that a page in a browser has sent this");
    }
    let is_own = |site: &[u8]| matches!(site, b"none" | b"same-origin");
    (!fields.get_all("Sec-Fetch-Site").all(is_own)).then_some("\"Sec-Fetch-Site\" says that another site has sent this")
}

/// Whether the page of another site has made a request that only reads.
pub fn is_cross_site(fields: &Fields) -> bool {
    fields.get_all("Sec-Fetch-Site").any(|site| site == b"cross-site")
}

/// Whether the host of a request to an address of this machine alone is none that leads here by right.
pub fn has_foreign_host(ex: &Exchange, cx: &Cx) -> bool {
    let is_here_alone = ex.asked.client.local.is_some_and(|local| local.ip().to_canonical().is_loopback());
    is_here_alone && has_foreign_name(ex, cx)
}

/// Whether the host of a request is none that leads here by right: no address, not `localhost`, and no `server_name` of the server
/// that answers.
pub fn has_foreign_name(ex: &Exchange, cx: &Cx) -> bool {
    let names = ex.asked.client.listener(cx.site()).map(|listener| &listener.names);
    !is_address_or_localhost(&ex.request.host)
        && !names.is_some_and(|names| is_named(&ex.request.host, ex.request.server, names))
}

/// Browsers always name a host.
fn is_address_or_localhost(host: &[u8]) -> bool {
    let Ok(host) = str::from_utf8(host) else { return false };
    let in_brackets = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let is_address = match in_brackets {
        Some(inner) => inner.parse::<Ipv6Addr>().is_ok(),
        None => host.parse::<Ipv4Addr>().is_ok(),
    };
    // Browsers resolve names below it to this machine themselves (RFC 6761, section 6.3).
    is_address || host.is_empty() || host == "localhost" || host.ends_with(".localhost")
}

/// Whether a server has the host as its name, or below `*.` of one. `www.*` and regular expressions may be those of anybody.
fn is_named(host: &[u8], server: usize, names: &NameTable) -> bool {
    names.exact.get(host) == Some(&server)
        || names
            .suffixes
            .iter()
            .any(|(suffix, of)| *of == server && host.len() > suffix.len() && host.ends_with(suffix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_in_browsers_are_told_from_programs() {
        for (lines, is_refused, is_cross) in [
            (&[][..], false, false),
            (&[("Origin", "http://127.0.0.1:8089")], true, false),
            (&[("origin", "null")], true, false),
            (&[("Origin", "")], true, false),
            (&[("Sec-Fetch-Site", "none")], false, false),
            (&[("Sec-Fetch-Site", "same-origin")], false, false),
            (&[("Sec-Fetch-Site", "same-site")], true, false),
            (&[("Sec-Fetch-Site", "cross-site")], true, true),
            (&[("Sec-Fetch-Site", "none"), ("Sec-Fetch-Site", "cross-site")], true, true),
            (&[("Sec-Fetch-Site", "")], true, false),
        ] {
            let mut fields = Fields::new();
            lines.iter().for_each(|(name, value)| fields.push(name.as_bytes(), value.as_bytes()));
            assert_eq!((by_any_page(&fields).is_some(), is_cross_site(&fields)), (is_refused, is_cross), "{lines:?}");
        }
    }

    #[test]
    fn addresses_and_names_of_the_server_are_no_foreign_hosts() {
        let mut names = NameTable::default();
        names.exact.insert(b"status.example".to_vec(), 0);
        names.exact.insert(b"other.example".to_vec(), 1);
        names.suffixes.push((b".shop.example".to_vec(), 0));
        names.prefixes.push((b"www.".to_vec(), 0));
        for (host, is_own) in [
            ("127.0.0.1", true),
            ("[::1]", true),
            ("localhost", true),
            ("a.localhost", true),
            ("", true),
            ("status.example", true),
            ("a.shop.example", true),
            ("other.example", false),
            (".shop.example", false),
            ("evil.test", false),
            ("www.evil.test", false),
            ("127.0.0.1.evil.test", false),
            ("localhost.evil.test", false),
            ("[evil]", false),
            ("::1", false),
        ] {
            let host = host.as_bytes();
            assert_eq!(is_address_or_localhost(host) || is_named(host, 0, &names), is_own, "{}", host.escape_ascii());
        }
    }
}
