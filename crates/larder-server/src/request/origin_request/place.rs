//! Where a request goes: the group of origins, and the URI as the origin sees it.

use std::sync::Arc;

use larder_conf::model::LogLevel;
use larder_http::status;
use larder_origin::Group;

use crate::context::Cx;
use crate::exchange::Exchange;
use crate::request::{Step, Synth};
use crate::site::{Backend, Protocol, Scheme, Target};
use crate::target;

/// Where a request goes.
pub struct Place {
    /// The origins.
    pub group: Arc<Group>,
    /// The target of the HTTP request line; empty for FastCGI. A lent buffer.
    pub uri: Vec<u8>,
    /// In the clear or by TLS.
    pub scheme: Scheme,
}

/// The place of `proxy_pass` or `fastcgi_pass`. `resolved` are the origins that a name from variables was found to be.
pub fn place(backend: &Backend, resolved: Option<Arc<Group>>, ex: &mut Exchange, cx: &Cx) -> Result<Place, Step> {
    match &backend.target {
        Target::Group { group, host, uri } => {
            ex.visit.proxy_host.clear();
            ex.visit.proxy_host.extend_from_slice(host);
            let mut whole = ex.eval.lend();
            if matches!(backend.protocol, Protocol::Http(_)) {
                target::append_origin_uri(uri.as_deref(), ex, cx, &mut whole);
            }
            Ok(Place { group: Arc::clone(&cx.site().origins.groups[*group]), uri: whole, scheme: backend.scheme() })
        }
        Target::Variable(text) => {
            let value = text.value(ex, cx);
            variable_place(backend, &value, resolved, ex, cx)
        }
        // They have been asked before anybody makes a request of this.
        Target::Files => Err(Step::Synth(Synth::Final(status::INTERNAL_SERVER_ERROR))),
    }
}

/// A target that came from variables: `unix:/path`, `host:port`, the name of a group, or for `proxy_pass` a URL.
fn variable_place(
    backend: &Backend,
    value: &[u8],
    resolved: Option<Arc<Group>>,
    ex: &mut Exchange,
    cx: &Cx,
) -> Result<Place, Step> {
    let (scheme, address, uri) = match &backend.protocol {
        Protocol::FastCgi(_) => (None, value, None),
        Protocol::Http(_) => {
            let Some((scheme, rest)) = Scheme::of(value) else {
                let shown = String::from_utf8_lossy(value).into_owned();
                cx.local.logs.error(cx, ex, LogLevel::Error, format_args!("invalid URL prefix in \"{shown}\""));
                return Err(Step::Synth(Synth::Status(status::INTERNAL_SERVER_ERROR)));
            };
            let (address, uri) = target::split_authority(rest);
            (Some(scheme), address, uri)
        }
    };
    ex.visit.proxy_host.clear();
    ex.visit.proxy_host.extend_from_slice(address);
    let group = match resolved {
        Some(group) => group,
        None => named_group(address, scheme, ex, cx)?,
    };
    let mut whole = ex.eval.lend();
    match uri {
        // A URI that came from variables is sent as it is.
        Some(uri) => whole.extend_from_slice(uri),
        None => target::append_origin_uri(None, ex, cx, &mut whole),
    }
    Ok(Place { group, uri: whole, scheme: scheme.unwrap_or(Scheme::Http) })
}

/// The group that a place from variables means. A name has been looked up before ([`crate::request::resolve`]).
fn named_group(address: &[u8], scheme: Option<Scheme>, ex: &mut Exchange, cx: &Cx) -> Result<Arc<Group>, Step> {
    let site = cx.site();
    let text = String::from_utf8_lossy(address);
    if let Some(&index) = site.origins.names.get(&*text) {
        return Ok(Arc::clone(&site.origins.groups[index]));
    }
    let known = cx.local.groups.borrow().get(&*target::known_as(address, scheme)).and_then(|known| known.group.clone());
    if let Some(group) = known {
        return Ok(group);
    }
    let (what, status) = match (target::fault(&text), target::literal_address(&text, scheme.map(Scheme::port))) {
        (Some(what), _) => (what, status::INTERNAL_SERVER_ERROR),
        (None, Some(address)) => return Ok(Group::single(address)),
        (None, None) if scheme.is_none() && !text.contains(':') => ("no port", status::INTERNAL_SERVER_ERROR),
        (None, None) => ("host not found", status::BAD_GATEWAY),
    };
    cx.local.logs.error(cx, ex, LogLevel::Error, format_args!("{what} in upstream \"{text}\""));
    Err(Step::Synth(Synth::Status(status)))
}
