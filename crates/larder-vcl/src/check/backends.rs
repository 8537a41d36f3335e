//! Backends: their fields, and which one is the default.

use std::net::IpAddr;

use larder_source::{Diagnostic, Span};

use super::cx::{Cx, Symbol};
use super::{fields, probes};
use crate::ast::{self, Field, FieldValue, Version};
use crate::functions::addresses::{address, host_and_port, is_host_name, port};
use crate::policy::{Backend, BackendId, Endpoint, ProbeId};

const FIELDS: [&str; 15] = [
    "host",
    "port",
    "path",
    "host_header",
    "connect_timeout",
    "first_byte_timeout",
    "between_bytes_timeout",
    "probe",
    "max_connections",
    "proxy_header",
    "preamble",
    "via",
    "authority",
    "wait_timeout",
    "wait_limit",
];

/// The fields that say where a backend is, and need each other to make sense.
#[derive(Default)]
struct Where {
    host: Option<(String, Span)>,
    port: Option<(String, Span)>,
    path: Option<(String, Span)>,
    host_header: Option<(String, Span)>,
    authority: Option<(String, Span)>,
}

/// Reads the fields of a backend whose name is declared.
pub fn backend(cx: &mut Cx, id: BackendId, declared: &ast::Backend) {
    let Some(fields) = &declared.fields else {
        return;
    };
    let mut backend = empty(&declared.name);
    let mut at = Where::default();
    fields::each(cx, fields, &FIELDS, |cx, name, field| {
        match name {
            "host" => at.host = Some((fields::word(cx, field)?, field.span)),
            "port" => at.port = Some((fields::word(cx, field)?, field.span)),
            "path" => at.path = Some((path(cx, field)?, field.span)),
            "host_header" => at.host_header = Some((fields::word(cx, field)?, field.span)),
            "authority" => at.authority = Some((fields::word(cx, field)?, field.span)),
            "connect_timeout" => backend.connect_timeout = Some(fields::duration(cx, field)?),
            "first_byte_timeout" => backend.first_byte_timeout = Some(fields::duration(cx, field)?),
            "between_bytes_timeout" => backend.between_bytes_timeout = Some(fields::duration(cx, field)?),
            "wait_timeout" => backend.wait_timeout = Some(fields::duration(cx, field)?),
            "wait_limit" => backend.wait_limit = Some(fields::count(cx, field)?),
            "max_connections" => backend.max_connections = Some(fields::count(cx, field)?),
            "proxy_header" => backend.proxy_header = Some(proxy_header(cx, field)?),
            "preamble" => backend.preamble = Some(preamble(cx, field)?),
            "probe" => backend.probe = Some(probe(cx, field)?),
            _ => backend.via = Some(via(cx, id, field)?),
        }
        Some(())
    });
    let has_place = fields.iter().any(|field| matches!(field.name.text.as_str(), "host" | "path"));
    if !has_place {
        cx.report(Diagnostic::error("a backend needs .host or .path").at(declared.name.span));
    }
    place(cx, &mut backend, &at);
    cx.policy.backends[id.0] = backend;
}

/// A backend that is nowhere.
pub fn empty(name: &ast::Word) -> Backend {
    Backend {
        name: name.text.clone(),
        span: name.span,
        endpoint: None,
        endpoint_span: name.span,
        host_header: String::new(),
        connect_timeout: None,
        first_byte_timeout: None,
        between_bytes_timeout: None,
        probe: None,
        max_connections: None,
        proxy_header: None,
        preamble: None,
        via: None,
        authority: None,
        wait_timeout: None,
        wait_limit: None,
    }
}

/// Where the backend is, and what it is called there.
fn place(cx: &mut Cx, backend: &mut Backend, at: &Where) {
    backend.endpoint = endpoint(cx, at);
    if let Some((_, span)) = at.host.as_ref().or(at.path.as_ref()) {
        backend.endpoint_span = *span;
    }
    let called = at.host_header.as_ref().or(at.host.as_ref());
    // What Varnish sends to a Unix socket that has no name.
    backend.host_header = called.map_or_else(|| "0.0.0.0".to_owned(), |(name, _)| name.clone());
    if backend.via.is_none() {
        return;
    }
    if let Some((_, span)) = at.path {
        return cx.report(Diagnostic::error("a backend has .via or .path, not both").at(span));
    }
    let Some((authority, span)) = at.authority.as_ref().or(called) else {
        return;
    };
    if address(authority, 0).is_some() {
        return cx.report(
            Diagnostic::error("the .authority for .via cannot be an address")
                .at(*span)
                .help("write a name as .authority, or \"\" to send none"),
        );
    }
    let host = authority.split(':').next().unwrap_or_default();
    backend.authority = (!host.is_empty()).then(|| host.to_owned());
}

fn endpoint(cx: &mut Cx, at: &Where) -> Option<Endpoint> {
    let (text, span) = match (&at.host, &at.path) {
        (Some((host, span)), None) => (host, *span),
        (None, Some((path, _))) => return Some(Endpoint::Unix(path.clone())),
        (Some(_), Some((_, span))) => {
            return cx.fail(Diagnostic::error("a backend has .host or .path, not both").at(*span));
        }
        // That neither is there was reported.
        (None, None) => return None,
    };
    let Some((host, own_port)) = host_and_port(text).filter(|(host, _)| is_host(host)) else {
        return cx.fail(Diagnostic::error(format!("\"{text}\" is no address and no name of a host")).at(span));
    };
    if let (Some(own_port), Some((_, port_span))) = (own_port, &at.port) {
        let message = format!("the port stands in .host and in .port: {own_port} and another");
        let help = "leave out one of them";
        return cx.fail(Diagnostic::error(message).at(span).related(*port_span, "it is given again here").help(help));
    }
    let port = match &at.port {
        None => own_port.unwrap_or(80),
        Some((text, span)) => match port(text) {
            Some(port) => port,
            None => {
                let message = format!("\"{text}\" is no port");
                return cx.fail(Diagnostic::error(message).at(*span).help("a port is a number from 0 to 65535"));
            }
        },
    };
    Some(Endpoint::Tcp { host: host.to_owned(), port })
}

/// Whether it can be the name of a host, or is an address.
fn is_host(host: &str) -> bool {
    is_host_name(host) || host.parse::<IpAddr>().is_ok()
}

fn path(cx: &mut Cx, field: &Field) -> Option<String> {
    if cx.version < Version::V41 {
        let message = "a backend has .path since VCL 4.1";
        return cx.fail(Diagnostic::error(message).at(field.name.span).help("write vcl 4.1; in the first line"));
    }
    /// What the system has room for.
    const PATH_BYTES_MAX: usize = 107;
    let path = fields::word(cx, field)?;
    match path.starts_with('/') || (path.starts_with('@') && path.len() > 1) {
        true if path.len() > PATH_BYTES_MAX => {
            fields::wrong(cx, field, &format!("a path of at most {PATH_BYTES_MAX} bytes"))
        }
        true => Some(path),
        false => fields::wrong(cx, field, "a path from \"/\" on, or an abstract name with \"@\" before it,"),
    }
}

fn proxy_header(cx: &mut Cx, field: &Field) -> Option<u8> {
    match fields::count(cx, field)? {
        1 => Some(1),
        2 => Some(2),
        _ => fields::wrong(cx, field, "1 or 2"),
    }
}

fn preamble(cx: &mut Cx, field: &Field) -> Option<Vec<u8>> {
    match &field.value {
        FieldValue::Blob(bytes) => Some(bytes.clone()),
        _ => fields::wrong(cx, field, "a blob such as :aGVsbG8=:"),
    }
}

/// A probe in braces, or one that is declared above.
fn probe(cx: &mut Cx, field: &Field) -> Option<ProbeId> {
    let name = match &field.value {
        FieldValue::Probe(inner) => {
            let probe = probes::probe(cx, None, field.name.span, inner);
            cx.policy.probes.push(probe);
            return Some(ProbeId(cx.policy.probes.len() - 1));
        }
        FieldValue::Name(name) => name,
        _ => return fields::wrong(cx, field, "{ or the name of a probe"),
    };
    let symbol = match cx.policy.default_probe {
        Some(probe) if name.text.eq_ignore_ascii_case("default") => Some(Symbol::Probe(probe)),
        _ => cx.find(&name.text),
    };
    match symbol {
        Some(Symbol::Probe(id)) if id.0 < cx.probes_above => {
            cx.refer_to(&name.text, Symbol::Probe(id));
            Some(id)
        }
        Some(Symbol::Probe(id)) => {
            let span = cx.policy.probes[id.0].span;
            let message = format!("the probe \"{}\" is declared below", name.text);
            cx.fail(Diagnostic::error(message).at(name.span).related(span, "it has to stand above the backend"))
        }
        Some(other) => {
            let message = format!("\"{}\" is no probe, but {}", name.text, other.described());
            cx.fail(Diagnostic::error(message).at(name.span))
        }
        None => cx.fail(Diagnostic::error(format!("there is no probe \"{}\"", name.text)).at(name.span)),
    }
}

/// The proxy of a backend: one that is declared above, and is not reached by a proxy itself.
fn via(cx: &mut Cx, id: BackendId, field: &Field) -> Option<BackendId> {
    let FieldValue::Name(name) = &field.value else {
        return fields::wrong(cx, field, "the name of a backend");
    };
    let Some(Symbol::Backend(via)) = cx.find(&name.text).filter(|symbol| match symbol {
        Symbol::Backend(via) => via.0 < id.0,
        _ => false,
    }) else {
        let message = format!("no backend \"{}\" is declared above", name.text);
        return cx.fail(Diagnostic::error(message).at(name.span));
    };
    if cx.policy.backends[via.0].via.is_some() {
        return cx.fail(Diagnostic::error("a backend with .via cannot be the .via of another").at(name.span));
    }
    cx.refer_to(&name.text, Symbol::Backend(via));
    Some(via)
}
