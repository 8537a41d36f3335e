//! Resolves the name in a `proxy_pass` with variables, at request time: by `resolver`, or else by the system.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use larder_conf::model::LogLevel;
use larder_http::Time;
use larder_origin::resolver::Resolver;
use larder_origin::{Address, Balance, FetchError, Group, Keepalive, Server};

use crate::context::Cx;
use crate::exchange::Exchange;
use crate::local::{KnownGroup, VARIABLE_GROUPS_MAX};
use crate::site::{Backend, Protocol, Scheme, Target};

use crate::target::{addresses, fault, known_as, literal_address, split_authority};

/// How long the address of a name is used; the system's resolver does not tell.
const NAME_KEPT: Duration = Duration::from_secs(30);
/// How long a name that was not found is not asked for again.
const FAILURE_KEPT: Duration = Duration::from_secs(5);

/// Resolves the name in a target with variables. Returns what `resolver` found. `None` when the target holds no name,
/// or when the system was asked: the worker keeps its answer.
pub async fn look_up(backend: &Backend, ex: &mut Exchange, cx: &Cx) -> Result<Option<Arc<Group>>, FetchError> {
    let Target::Variable(text) = &backend.target else { return Ok(None) };
    let value = text.value(ex, cx);
    let (scheme, address) = match &backend.protocol {
        Protocol::Http(_) => {
            let (scheme, rest) = Scheme::split(&value);
            (Some(scheme), split_authority(rest).0)
        }
        Protocol::FastCgi(_) => (None, &value[..]),
    };
    let port = scheme.map(Scheme::port);
    let name = String::from_utf8_lossy(address).into_owned();
    if cx.site().origins.names.contains_key(&name) || fault(&name).is_some() {
        return Ok(None);
    }
    let loc = cx.loc(ex);
    if literal_address(&name, port).is_none()
        && let Some(resolver) = &loc.resolver
        && let Some((host, port)) = host_and_port(&name, port)
    {
        let found = by_resolver(resolver, &name, host, port, loc.settings.resolving.timeout).await;
        if let Err(error) = &found {
            cx.local.logs.error(cx, ex, LogLevel::Error, format_args!("{error}"));
        }
        return found.map(Some);
    }
    by_system(known_as(address, scheme).into_owned(), name, port, loc.settings.resolving.timeout, cx).await;
    Ok(None)
}

/// Asks the name servers of `resolver`. As in nginx the group lives as long as its request: a server that failed for
/// one request may be asked by the next.
async fn by_resolver(
    resolver: &Arc<Resolver>,
    name: &str,
    host: &str,
    port: u16,
    timeout: Duration,
) -> Result<Arc<Group>, FetchError> {
    let found = resolver.resolve(host, timeout).await?;
    let server = |ip| Server::new(Address::Tcp(SocketAddr::new(ip, port)));
    let servers = found.addresses.into_iter().map(server).collect();
    Ok(Group::new(name, servers, Balance::RoundRobin, Keepalive::NONE))
}

/// Asks the system on a thread, so that the worker goes on, and keeps the answer for a while.
async fn by_system(known_as: Vec<u8>, name: String, port: Option<u16>, timeout: Duration, cx: &Cx) {
    let now = cx.now();
    if cx.local.groups.borrow().get(&known_as).is_some_and(|known| known.until > now) {
        return;
    }
    let (found, until) = match literal_address(&name, port) {
        Some(literal) => (vec![literal], Time(u64::MAX)),
        None => {
            let asked = name.clone();
            // A job that no request waits for any more does not begin.
            let mut looking = Abandoned(tokio::task::spawn_blocking(move || addresses(&asked, port)));
            let found =
                tokio::time::timeout(timeout, &mut looking.0).await.ok().and_then(Result::ok).unwrap_or_default();
            let kept = if found.is_empty() { FAILURE_KEPT } else { NAME_KEPT };
            (found, cx.now().plus(kept))
        }
    };
    let mut groups = cx.local.groups.borrow_mut();
    if groups.len() >= VARIABLE_GROUPS_MAX {
        groups.clear();
    }
    let servers: Vec<Server> = found.into_iter().map(Server::new).collect();
    let group = (!servers.is_empty()).then(|| Group::new(name, servers, Balance::RoundRobin, Keepalive::NONE));
    groups.insert(known_as, KnownGroup { group, until });
}

/// A job that is taken back when it is dropped, unless it has begun.
struct Abandoned<T>(tokio::task::JoinHandle<T>);

impl<T> Drop for Abandoned<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// `host:port` in two, or the port that is meant without one. `None` for what has neither or is no port.
fn host_and_port(name: &str, port: Option<u16>) -> Option<(&str, u16)> {
    match name.rsplit_once(':') {
        Some((host, port)) => Some((host, port.parse().ok().filter(|&port| port > 0)?)),
        None => Some((name, port?)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_a_port_of_its_own_or_that_of_its_scheme() {
        for (name, port, expected) in [
            ("a.example", Some(80), Some(("a.example", 80))),
            ("a.example:81", Some(80), Some(("a.example", 81))),
            ("a.example:81", None, Some(("a.example", 81))),
            ("a.example", None, None),
            ("a.example:", Some(80), None),
            ("a.example:0", Some(80), None),
            ("a.example:65536", Some(80), None),
        ] {
            assert_eq!(host_and_port(name, port), expected, "{name} {port:?}");
        }
    }
}
