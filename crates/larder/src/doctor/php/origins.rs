//! Who is asked over FastCGI by a configuration, and under which terms.

use std::net::{Ipv4Addr, ToSocketAddrs};
use std::path::PathBuf;
use std::time::Duration;

use larder_conf::as_literal;
use larder_conf::model::{Config, Handler, Upstream, each_location};

use crate::machine::Machine;
use crate::serve::fpm::Address;

/// An address that is asked over FastCGI.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// Where.
    pub address: Address,
    /// `FILE:LINE` of the location that asks with the longest patience.
    pub place: String,
    /// How long it may be silent: the longest `fastcgi_read_timeout`.
    pub read_timeout: Duration,
    /// How many idle connections are kept; 0 without `fastcgi_keep_conn` and `upstream`.
    pub kept_connections: usize,
    /// `max_conns` of its `server`, if there is one.
    pub connections_max: Option<u32>,
}

/// All of them, each once. An address with variables is not known.
pub fn of(config: &Config) -> Vec<Origin> {
    let mut all: Vec<Origin> = Vec::new();
    for server in &config.http.servers {
        each_location(server, &mut |location| {
            let Handler::FastCgi(pass) = &location.handler else { return };
            let settings = &location.settings.fastcgi;
            let Some(name) = as_literal(pass) else { return };
            let place = config.lines.of(pass.span).map(|(path, line)| format!("{}:{line}", path.display()));
            let read_timeout = settings.origin.connection.read_timeout;
            let upstream = config.http.upstreams.iter().find(|upstream| upstream.name.value == name);
            for (address, connections_max) in addresses(name, upstream) {
                let kept = upstream.map_or(0, |upstream| upstream.keepalive);
                let origin = Origin {
                    address,
                    place: place.clone().unwrap_or_default(),
                    read_timeout,
                    kept_connections: if settings.keep_conn { kept } else { 0 },
                    connections_max,
                };
                match all.iter_mut().find(|known| known.address == origin.address) {
                    Some(known) => known.join(origin),
                    None => all.push(origin),
                }
            }
        });
    }
    all
}

impl Origin {
    fn join(&mut self, other: Origin) {
        if other.read_timeout > self.read_timeout {
            (self.read_timeout, self.place) = (other.read_timeout, other.place);
        }
        self.kept_connections = self.kept_connections.max(other.kept_connections);
        self.connections_max = self.connections_max.or(other.connections_max);
    }
}

/// Where this process finds what listens there.
pub fn here(address: &Address, machine: &Machine) -> Address {
    match address {
        Address::Unix(path) => Address::Unix(machine.outside(path)),
        Address::Tcp(address) if address.ip().is_unspecified() => {
            Address::Tcp((Ipv4Addr::LOCALHOST, address.port()).into())
        }
        Address::Tcp(address) => Address::Tcp(*address),
    }
}

fn addresses(name: &str, upstream: Option<&Upstream>) -> Vec<(Address, Option<u32>)> {
    match upstream {
        None => address(name).map(|address| (address, None)).into_iter().collect(),
        Some(upstream) => {
            let servers = upstream.servers.iter().filter(|server| !server.down);
            let found = servers.filter_map(|server| {
                let most = Some(server.max_conns).filter(|most| *most > 0);
                Some((address(&server.address.value)?, most))
            });
            found.collect()
        }
    }
}

/// An address of this machine. What is elsewhere is no pool that can be looked at, so names are not looked up.
pub fn address(text: &str) -> Option<Address> {
    if let Some(path) = text.strip_prefix("unix:") {
        return Some(Address::Unix(PathBuf::from(path.trim_end_matches(':'))));
    }
    let text = text.replacen("localhost:", "127.0.0.1:", 1);
    let is_number = text.starts_with(|first: char| first.is_ascii_digit() || first == '[');
    let mut found = is_number.then(|| text.to_socket_addrs().ok())??;
    found.next().map(Address::Tcp)
}
