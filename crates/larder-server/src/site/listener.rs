//! Addresses that are listened at, and the virtual servers behind them.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use larder_conf::model::{self, ListenAddress};
use larder_tls::VerifyMode;

use crate::tls::{ClientJudge, ServerTls};

use super::variables::NamedRegex;

/// An address that is listened at, and the servers behind it.
pub struct Listener {
    /// The address.
    pub address: ListenAddress,
    /// The server for hosts that no name matches.
    pub default: usize,
    /// Which server a host means.
    pub names: NameTable,
    /// `ssl`: whether connections begin with a handshake.
    pub tls: bool,
    /// `http2`: whether all servers here speak HTTP/2.
    pub http2: bool,
    /// `proxy_protocol`: whether connections begin with whom they are from.
    pub proxy_protocol: bool,
}

/// Hosts to servers, in nginx's order: exact, longest leading wildcard, longest trailing wildcard, first regular expression.
#[derive(Default)]
pub struct NameTable {
    /// Lower-case names.
    pub exact: HashMap<Vec<u8>, usize>,
    /// `.example.org`, longest first; the flag says whether `example.org` itself matches too.
    pub suffixes: Vec<(Vec<u8>, usize)>,
    /// `www.`, longest first.
    pub prefixes: Vec<(Vec<u8>, usize)>,
    /// Expressions in order of writing, with the slots of their named groups.
    pub regexes: Vec<(Arc<NamedRegex>, usize)>,
}

impl NameTable {
    /// The server for `host`, which is lower case and not empty. `matches` decides about regular expressions.
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

/// A `server` block.
pub struct VirtualServer {
    /// For `$server_name`.
    pub name: Box<[u8]>,
    /// Its own level, for requests that match no location.
    pub root: usize,
    /// Named locations.
    pub named: HashMap<Box<[u8]>, usize>,
    /// What it demands of request heads.
    pub client: model::ClientLimits,
    /// `http2` and `http2_*`.
    pub http2: model::Http2,
    /// `ssl_verify_client`, which holds also for one that shows another's certificate.
    pub verify: VerifyMode,
    /// By what it wants the certificates of clients to be judged.
    pub judge: Arc<ClientJudge>,
    /// How it speaks TLS; `None` for one that listens in the clear only.
    pub tls: Option<Arc<ServerTls>>,
}

/// Finds the listener for a connection accepted at `local`: the exact address first, then the wildcard of its port.
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
}
