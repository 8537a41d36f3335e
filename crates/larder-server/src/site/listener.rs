//! The addresses that are listened at, and the virtual servers at each.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;

use larder_conf::model::{self, ListenAddress};
use larder_tls::VerifyMode;

use crate::tls::{ClientJudge, ServerTls};

use super::variables::NamedRegex;

/// An address that is listened at, and its virtual servers.
pub struct Listener {
    /// The address as written in `listen`.
    pub address: ListenAddress,
    /// The server of requests whose host matches no name, by its place in the site.
    pub default: usize,
    /// The server of each host.
    pub names: NameTable,
    /// Whether the host decides about the server: not where all names are those of the default one.
    pub by_host: bool,
    /// `ssl`: whether connections begin with a handshake.
    pub tls: bool,
    /// `http2`: whether all servers at this address speak HTTP/2.
    pub http2: bool,
    /// `proxy_protocol`: whether connections begin with a header of the PROXY protocol.
    pub proxy_protocol: bool,
}

/// Maps hosts to servers, in nginx's order: exact name, longest leading wildcard, longest trailing wildcard, first
/// regular expression.
#[derive(Default)]
pub struct NameTable {
    /// Lower-case names.
    pub exact: HashMap<Vec<u8>, usize>,
    /// `.example.org` for `*.example.org` and `.example.org`, longest first; `example.org` itself is in `exact`.
    pub suffixes: Vec<(Vec<u8>, usize)>,
    /// `www.`, longest first.
    pub prefixes: Vec<(Vec<u8>, usize)>,
    /// Regular expressions as they were written, with the slots of their named groups.
    pub regexes: Vec<(Arc<NamedRegex>, usize)>,
}

impl NameTable {
    /// The server for `host`, which is lower case and not empty. `matches` evaluates regular expressions.
    pub fn find(&self, host: &[u8], mut matches: impl FnMut(&NamedRegex) -> bool) -> Option<usize> {
        if let Some(&server) = self.exact.get(host) {
            return Some(server);
        }
        let suffix = |(suffix, _): &&(Vec<u8>, usize)| host.len() > suffix.len() && host.ends_with(suffix);
        if let Some((_, server)) = self.suffixes.iter().find(suffix) {
            return Some(*server);
        }
        let prefix = |(prefix, _): &&(Vec<u8>, usize)| host.len() > prefix.len() && host.starts_with(prefix);
        if let Some((_, server)) = self.prefixes.iter().find(prefix) {
            return Some(*server);
        }
        self.regexes.iter().find(|(regex, _)| matches(regex)).map(|(_, server)| *server)
    }
}

impl NameTable {
    /// The servers that have a name, each as often as it has.
    pub fn servers(&self) -> impl Iterator<Item = usize> {
        let lists = self.suffixes.iter().chain(&self.prefixes).map(|(_, server)| *server);
        self.exact.values().copied().chain(lists).chain(self.regexes.iter().map(|(_, server)| *server))
    }

    /// Whether some host leads to another server than this one. Regular expressions are always asked, as their groups are
    /// variables.
    pub fn leads_away_from(&self, server: usize) -> bool {
        let lists = self.suffixes.iter().chain(&self.prefixes).map(|(_, server)| server);
        !self.regexes.is_empty() || self.exact.values().chain(lists).any(|named| *named != server)
    }
}

/// A `server` block.
pub struct VirtualServer {
    /// For `$server_name`.
    pub name: Box<[u8]>,
    /// Its first name that is a host.
    pub host: Option<Box<str>>,
    /// The location of the server's own level, for requests that match none of its locations.
    pub root: usize,
    /// The places of all its locations.
    pub locations: Range<usize>,
    /// Named locations (`@name`).
    pub named: HashMap<Box<[u8]>, usize>,
    /// `status_zone`, by its place among those of servers.
    pub zone: Option<usize>,
    /// The limits on request heads.
    pub client: model::ClientLimits,
    /// Whether lines of heads may go on in the next one: where a VCL is in front of the whole server, as in Varnish.
    pub unfolds: bool,
    /// `vcl_raw_requests`, where a VCL is in front of the whole server.
    pub takes_raw: bool,
    /// `http2` and `http2_*`.
    pub http2: model::Http2,
    /// `ssl_verify_client`. It holds also when another server's certificate was shown.
    pub verify: VerifyMode,
    /// What clients' certificates are checked against.
    pub judge: Arc<ClientJudge>,
    /// The TLS settings; `None` for a server that listens in the clear only.
    pub tls: Option<Arc<ServerTls>>,
}

/// The listener of a connection accepted at `local`: the exact address first, then the wildcard with its port.
pub fn listener_for(listeners: &[Listener], bound: &ListenAddress, local: Option<SocketAddr>) -> Option<usize> {
    let exact = local.and_then(|local| listeners.iter().position(|l| l.address == ListenAddress::Tcp(local)));
    exact.or_else(|| listeners.iter().position(|l| l.address == *bound))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listeners(addresses: &[&str]) -> Vec<Listener> {
        let listener = |address: &&str| Listener {
            address: ListenAddress::Tcp(address.parse().expect("the address is literal")),
            default: 0,
            names: NameTable::default(),
            by_host: false,
            tls: false,
            http2: false,
            proxy_protocol: false,
        };
        addresses.iter().map(listener).collect()
    }

    #[test]
    fn the_exact_address_comes_before_the_wildcard_of_its_port() {
        let all = listeners(&["0.0.0.0:80", "127.0.0.1:80", "0.0.0.0:81"]);
        let wildcard = |port: u16| ListenAddress::Tcp(([0, 0, 0, 0], port).into());
        for (bound, local, place) in [
            (wildcard(80), "127.0.0.1:80", Some(1)),
            (wildcard(80), "10.0.0.1:80", Some(0)),
            (wildcard(81), "127.0.0.1:81", Some(2)),
            (wildcard(82), "127.0.0.1:82", None),
        ] {
            let local = local.parse().expect("the address is literal");
            assert_eq!(listener_for(&all, &bound, Some(local)), place, "{local}");
        }
    }

    #[test]
    fn a_host_decides_only_between_servers() {
        for (servers, by_host) in [
            ("server { }", false),
            ("server { server_name a *.b c.* .d; }", false),
            ("server { server_name a; } server { server_name b; }", true),
            ("server { } server { server_name *.b; }", true),
            ("server { } server { server_name b.*; }", true),
            ("server { } server { }", false),
            ("server { server_name ~^(?<name>a); }", true),
            ("server { server_name a; } server { listen 8080 default_server; } server { listen 8080; }", false),
        ] {
            let site = crate::assemble::site_of(&format!("events {{}} http {{ {servers} }}"));
            assert_eq!(site.listeners[0].by_host, by_host, "{servers}");
        }
    }
}
