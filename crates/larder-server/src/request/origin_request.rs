//! The request as the origin gets it: FastCGI parameters or an HTTP head, from the exchange.

pub mod fastcgi;
pub mod http;
pub mod layers;
pub mod passed_on;
pub mod place;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use larder_conf::model::LogLevel;
use larder_http::Method;
use larder_origin::{Bind, Fetch, Group, Limits, Protocol as Wire, Retry};

use crate::context::Cx;
use crate::exchange::Exchange;
use crate::policy::Validators;
use crate::site::{Backend, HashBy, OriginShared, Protocol, Scheme, Target};

use super::{Step, esi, gate};

use fastcgi::fastcgi_request;
use http::http_request;
use passed_on::Extent;
use place::place;

/// Serialises the request of `ex` for the origin of `backend`. `resolved` are the origins that a name from variables was found to be.
pub fn build(
    backend: &Backend,
    resolved: Option<Arc<Group>>,
    extent: Extent,
    validators: &Validators,
    ex: &mut Exchange,
    cx: &Cx,
) -> Result<Fetch, Step> {
    let place = place(backend, resolved, ex, cx)?;
    let own = esi::announce(ex, cx);
    let (protocol, body) = match &backend.protocol {
        Protocol::FastCgi(parts) => fastcgi_request(parts, backend, extent, validators, ex, cx),
        Protocol::Http(parts) => http_request(parts, backend, extent, &place.uri, validators, ex, cx),
    };
    esi::withdraw(own, ex);
    ex.eval.take_back(place.uri);
    let method_is_head = is_head(&protocol, ex);
    let hash_key = hash_key(backend, ex, cx);
    let gate = gate::asks(backend, &place.group, ex, cx);
    let bind = local_address(backend, ex, cx);
    let (tls, preface) = match &backend.protocol {
        Protocol::FastCgi(_) => (None, None),
        Protocol::Http(parts) => {
            let tls = match (&parts.tls, place.scheme) {
                (Some(tls), Scheme::Https) => Some(tls.of(ex, cx)?),
                (None, _) | (_, Scheme::Http) => None,
            };
            (tls, layers::preface(&parts.preamble, parts.proxy_protocol, ex))
        }
    };
    // A pattern or a variable could not be evaluated: the request is refused before an origin sees any of it.
    if let Some(refusal) = ex.eval.evaluation.refuse() {
        return Err(Step::Synth(refusal.into()));
    }
    Ok(Fetch {
        group: place.group,
        hash_key,
        protocol,
        body,
        tls,
        preface,
        limits: limits(backend, bind),
        retry: retry(&backend.settings, ex.request.method),
        keep: match &backend.protocol {
            Protocol::FastCgi(parts) => parts.keep,
            Protocol::Http(_) => true,
        },
        gate,
        method_is_head,
    })
}

/// Whether the origin gets a HEAD, so that no body follows the head of its answer.
fn is_head(request: &Wire, ex: &Exchange) -> bool {
    match request {
        Wire::FastCgi { .. } => ex.request.method == Method::Head,
        // The method that was sent: `proxy_method` may have chosen it.
        Wire::Http { head, .. } => head.get(..5).is_some_and(|method| method.eq_ignore_ascii_case(b"HEAD ")),
    }
}

/// What `hash` or `ip_hash` chooses an origin by; a client by a Unix socket has no address.
fn hash_key(backend: &Backend, ex: &mut Exchange, cx: &Cx) -> Vec<u8> {
    let by = match backend.target {
        Target::Group { group, .. } => &cx.site().origins.hash_by[group],
        // Which group it is, variables tell.
        Target::Variable(_) | Target::Files => &HashBy::Address,
    };
    match (by, ex.remote_ip()) {
        (HashBy::Nothing, _) | (HashBy::Address, None) => Vec::new(),
        (HashBy::Text(text), _) => text.value(ex, cx),
        (HashBy::Address, Some(IpAddr::V4(ip))) => ip.octets().to_vec(),
        (HashBy::Address, Some(IpAddr::V6(ip))) => ip.octets().to_vec(),
    }
}

/// Timeouts and sizes: `*_connect_timeout` and its kin.
fn limits(backend: &Backend, bind: Option<Bind>) -> Limits {
    let model = &backend.settings.model;
    Limits {
        connect: model.connection.connect_timeout,
        send: model.connection.send_timeout,
        read: model.connection.read_timeout,
        read_body: model.connection.read_timeout,
        head_bytes_max: model.buffers.head_bytes,
        line_bytes_max: None,
        bind,
        unfolds: false,
        tcp_keepalive: model.connection.socket_keepalive,
    }
}

/// When the next origin is asked: `*_next_upstream`.
fn retry(settings: &OriginShared, method: Method) -> Retry {
    let next = &settings.model.next_upstream;
    Retry {
        rules: settings.retried,
        tries: next.tries,
        timeout: next.timeout,
        is_idempotent: !matches!(method, Method::Post | Method::Lock | Method::Patch),
    }
}

/// The local address of `proxy_bind`. An invalid one is logged, and the system chooses, as in nginx.
fn local_address(backend: &Backend, ex: &mut Exchange, cx: &Cx) -> Option<Bind> {
    let transparent = backend.settings.model.connection.bind_transparent;
    backend.bind.as_ref()?.with(ex, cx, |ex, value| {
        if matches!(value, b"" | b"off") {
            return None;
        }
        let address = parse_local(value);
        if address.is_none() {
            let shown = String::from_utf8_lossy(value);
            cx.local.logs.error(cx, ex, LogLevel::Error, format_args!("invalid local address \"{shown}\""));
        }
        address.map(|address| Bind { address, transparent })
    })
}

/// An address with or without a port; without one the system chooses it.
fn parse_local(value: &[u8]) -> Option<SocketAddr> {
    let text = std::str::from_utf8(value).ok()?;
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    let address = || text.parse().ok().filter(|address: &SocketAddr| address.port() != 0);
    bare.parse().map(|ip: IpAddr| SocketAddr::new(ip, 0)).ok().or_else(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_of_ours_may_have_a_port() {
        for (value, address) in [
            ("127.0.0.1", Some("127.0.0.1:0")),
            ("127.0.0.1:8080", Some("127.0.0.1:8080")),
            ("::1", Some("[::1]:0")),
            ("[::1]", Some("[::1]:0")),
            ("[::1]:8080", Some("[::1]:8080")),
            ("unix:", None),
            ("localhost", None),
            ("127.0.0.1:", None),
            ("127.0.0.1:0", None),
        ] {
            let expected = address.map(|address| address.parse().expect("it is an address"));
            assert_eq!(parse_local(value.as_bytes()), expected, "{value}");
        }
        assert_eq!(parse_local(b"\xff"), None);
    }
}
