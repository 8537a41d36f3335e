//! The request as the origin gets it: FastCGI parameters or an HTTP head, from the exchange.

pub mod layers;

use std::borrow::Cow;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use larder_conf::model::LogLevel;
use larder_http::{Escape, Fields, Known, Method, escape_uri, status};
use larder_origin::{Bind, Fetch, Group, Limits, Protocol as Wire, Retry, RetryRules, fastcgi};

use crate::context::Cx;
use crate::exchange::{Exchange, RequestBody};
use crate::policy::Validators;
use crate::site::{Backend, FastCgiParts, HttpParts, Protocol, Scheme, Target};
use crate::target;
use crate::variable::{RequestVar, Var};

use super::{Step, Synth};

/// Fields that ask for a part of a page or for a condition on it. A fetch for the cache leaves them out, as it
/// needs the whole page.
const CONDITIONAL: [Known; 6] = [
    Known::IfModifiedSince,
    Known::IfUnmodifiedSince,
    Known::IfNoneMatch,
    Known::IfMatch,
    Known::Range,
    Known::IfRange,
];

/// Where the request goes, with the URI as the origin sees it (for HTTP).
struct Place {
    group: Arc<Group>,
    uri: Vec<u8>,
    scheme: Scheme,
}

/// Serialises the request of `ex` for the origin of `backend`. With `caches` the answer may be stored, so the whole
/// page is asked for. `resolved` are the origins that a name from variables was found to be.
pub fn build(
    backend: &Backend,
    resolved: Option<Arc<Group>>,
    caches: bool,
    validators: &Validators,
    ex: &mut Exchange,
    cx: &Cx,
) -> Result<Fetch, Step> {
    let place = place(backend, resolved, ex, cx)?;
    let model = &backend.settings.model;
    let (protocol, body) = match &backend.protocol {
        Protocol::FastCgi(parts) => fastcgi_request(parts, backend, caches, validators, ex, cx),
        Protocol::Http(parts) => http_request(parts, backend, caches, &place, validators, ex, cx),
    };
    let method_is_head = match &protocol {
        Wire::FastCgi { .. } => ex.request.method == Method::Head,
        // The method that was sent, which `proxy_method` may have chosen, says whether a body follows the head.
        Wire::Http { head, .. } => head.get(..5).is_some_and(|method| method.eq_ignore_ascii_case(b"HEAD ")),
    };
    let keep = match &backend.protocol {
        Protocol::FastCgi(parts) => parts.keep,
        Protocol::Http(_) => true,
    };
    let next = model.next_upstream.on;
    let statuses = [
        (next.http_500, 500),
        (next.http_502, 502),
        (next.http_503, 503),
        (next.http_504, 504),
        (next.http_403, 403),
        (next.http_404, 404),
        (next.http_429, 429),
    ];
    // For `ip_hash`; a client by a Unix socket has no address.
    let mut hash_key = match ex.remote_ip() {
        Some(IpAddr::V4(ip)) => ip.octets().to_vec(),
        Some(IpAddr::V6(ip)) => ip.octets().to_vec(),
        None => Vec::new(),
    };
    if let Target::Group { group, .. } = backend.target
        && let Some(text) = &cx.site().origins.hash_keys[group]
    {
        hash_key = text.value(ex, cx);
    }
    let bind = local_address(backend, ex, cx);
    let (tls, preface) = match &backend.protocol {
        Protocol::FastCgi(_) => (None, None),
        Protocol::Http(parts) => {
            let tls = match (&parts.tls, place.scheme) {
                (Some(tls), Scheme::Https) => Some(tls.of(ex, cx)?),
                (None, _) | (_, Scheme::Http) => None,
            };
            (tls, layers::preface(parts.proxy_protocol, ex))
        }
    };
    // Nothing of a request that is to be refused reaches an origin.
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
        limits: Limits {
            connect: model.connection.connect_timeout,
            send: model.connection.send_timeout,
            read: model.connection.read_timeout,
            head_bytes_max: model.buffers.head_bytes,
            bind,
            tcp_keepalive: model.connection.socket_keepalive,
        },
        retry: Retry {
            rules: RetryRules {
                error: next.error,
                timeout: next.timeout,
                invalid_header: next.invalid_header,
                non_idempotent: next.non_idempotent,
                statuses: statuses.iter().filter(|(on, _)| *on).map(|(_, status)| *status).collect(),
            },
            tries: model.next_upstream.tries,
            timeout: model.next_upstream.timeout,
            is_idempotent: !matches!(ex.request.method, Method::Post | Method::Lock | Method::Patch),
        },
        keep,
        method_is_head,
    })
}

/// The end of ours that the origin is asked from. One that is none is logged, and the system chooses, as in nginx.
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

fn place(backend: &Backend, resolved: Option<Arc<Group>>, ex: &mut Exchange, cx: &Cx) -> Result<Place, Step> {
    match &backend.target {
        Target::Group { group, host, uri } => {
            ex.visit.proxy_host.clear();
            ex.visit.proxy_host.extend_from_slice(host);
            let mut whole = Vec::new();
            if matches!(backend.protocol, Protocol::Http(_)) {
                target::append_origin_uri(uri.as_deref(), ex, cx, &mut whole);
            }
            Ok(Place { group: Arc::clone(&cx.site().origins.groups[*group]), uri: whole, scheme: backend.scheme() })
        }
        Target::Variable(text) => {
            let value = text.value(ex, cx);
            variable_place(backend, &value, resolved, ex, cx)
        }
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
    let mut whole = Vec::new();
    match uri {
        // A URI that came from variables is sent as it is.
        Some(uri) => whole.extend_from_slice(uri),
        None => target::append_origin_uri(None, ex, cx, &mut whole),
    }
    Ok(Place { group, uri: whole, scheme: scheme.unwrap_or(Scheme::Http) })
}

/// The group that a place from variables means. A name has been looked up before ([`super::resolve`]).
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

/// The body for the origin; `announced` says that its head tells the length where that is known.
fn wire_body(body: &mut RequestBody, announced: bool) -> larder_origin::RequestBody {
    match body {
        RequestBody::None | RequestBody::Unread(_) => larder_origin::RequestBody::None,
        RequestBody::Memory(bytes) => larder_origin::RequestBody::Memory(bytes.clone()),
        RequestBody::File(temp, len) => larder_origin::RequestBody::File { file: Arc::clone(temp.file()), len: *len },
        RequestBody::Passing(feed) => feed.open(announced),
    }
}

fn fastcgi_request(
    parts: &FastCgiParts,
    backend: &Backend,
    caches: bool,
    validators: &Validators,
    ex: &mut Exchange,
    cx: &Cx,
) -> (Wire, larder_origin::RequestBody) {
    let mut params = BytesMut::with_capacity(1024);
    let mut set = Vec::new();
    for (name, value, if_not_empty) in &parts.params {
        let value = value.value(ex, cx);
        if let Some(field) = name.strip_prefix(b"HTTP_") {
            set.push(field);
        }
        // A field that is set to nothing is not passed at all: `fastcgi_param HTTP_PROXY "";`.
        if value.is_empty() && (*if_not_empty || name.starts_with(b"HTTP_")) {
            continue;
        }
        fastcgi::push_param(&mut params, name, &value);
    }
    if !set.contains(&&b"HOST"[..]) {
        let mut value = Vec::new();
        for part in [RequestVar::Host, RequestVar::IsRequestPort, RequestVar::RequestPort] {
            crate::vars::append(&Var::Request(part), ex, cx, &mut value);
        }
        if !value.is_empty() {
            fastcgi::push_param(&mut params, b"HTTP_HOST", &value);
        }
    }
    if caches {
        if let Some(value) = &validators.last_modified {
            fastcgi::push_param(&mut params, b"HTTP_IF_MODIFIED_SINCE", value);
        }
        if let Some(value) = &validators.etag {
            fastcgi::push_param(&mut params, b"HTTP_IF_NONE_MATCH", value);
        }
    }
    if backend.settings.model.request.pass_headers {
        push_fields(&mut params, &set, caches, &ex.asked.head.fields);
    }
    let body = if backend.settings.model.request.pass_body {
        wire_body(&mut ex.request.body, false)
    } else {
        larder_origin::RequestBody::None
    };
    (Wire::FastCgi { params: params.freeze(), catch_stderr: parts.catch_stderr.clone() }, body)
}

/// The request's fields as `HTTP_*` parameters, several lines of one name joined, those that `fastcgi_param` sets
/// left out, and the host, which is a parameter by itself. Of two names that make the same parameter the first counts.
///
/// In one pass: a client may send as many fields as `max_headers` allows.
fn push_fields(params: &mut BytesMut, set: &[&[u8]], caches: bool, fields: &Fields) {
    const PREFIX: &[u8] = b"HTTP_";
    let mut places: HashMap<Vec<u8>, usize> = HashMap::new();
    let mut values: Vec<(&[u8], Cow<'_, [u8]>)> = Vec::new();
    for (known, name, value) in fields.iter_known() {
        if known == Known::Host || (caches && CONDITIONAL.contains(&known)) {
            continue;
        }
        let mut param = PREFIX.to_vec();
        param.extend(name.iter().map(|&byte| if byte == b'-' { b'_' } else { byte.to_ascii_uppercase() }));
        if set.contains(&&param[PREFIX.len()..]) {
            continue;
        }
        match places.entry(param) {
            Entry::Vacant(place) => {
                place.insert(values.len());
                values.push((name, Cow::Borrowed(value)));
            }
            Entry::Occupied(place) => {
                let (first, joined) = &mut values[*place.get()];
                if first.eq_ignore_ascii_case(name) {
                    let separator: &[u8] = if known == Known::Cookie { b"; " } else { b", " };
                    joined.to_mut().extend_from_slice(separator);
                    joined.to_mut().extend_from_slice(value);
                }
            }
        }
    }
    let mut in_order: Vec<_> = places.into_iter().collect();
    in_order.sort_unstable_by_key(|(_, place)| *place);
    for ((param, _), (_, value)) in in_order.iter().zip(&values) {
        fastcgi::push_param(params, param, value);
    }
}

fn http_request(
    parts: &HttpParts,
    backend: &Backend,
    caches: bool,
    place: &Place,
    validators: &Validators,
    ex: &mut Exchange,
    cx: &Cx,
) -> (Wire, larder_origin::RequestBody) {
    let model = &backend.settings.model;
    let set_body = parts.body.as_ref().map(|text| Bytes::from(text.value(ex, cx)));
    let body_bytes = match (&set_body, &ex.request.body) {
        (Some(body), _) => Some(body.len() as u64),
        (None, _) if !model.request.pass_body => None,
        (None, RequestBody::None | RequestBody::Unread(_)) => {
            let announced = ex.asked.head.fields.contains_known(Known::ContentLength)
                || ex.asked.head.fields.contains_known(Known::TransferEncoding);
            announced.then_some(0)
        }
        (None, RequestBody::Passing(feed)) => match feed.is_fresh() {
            true => feed.announced(),
            false => Some(0),
        },
        (None, body) => Some(crate::vars::body_bytes(body)),
    };
    let is_set = |name: &str| parts.headers.iter().any(|(set, _)| set.eq_ignore_ascii_case(name.as_bytes()));
    let is_passing = model.request.pass_body && matches!(ex.request.body, RequestBody::Passing(_));
    let in_chunks = is_passing && body_bytes.is_none() && set_body.is_none();
    let mut head = Vec::with_capacity(512);
    match &parts.method {
        Some(method) => method.with(ex, cx, |_, method| super::wire::append_one_line(method, &mut head)),
        None => head.extend_from_slice(crate::vars::method_name(ex)),
    }
    head.push(b' ');
    append_target(&place.uri, &mut head);
    // HTTP/1.0 knows no chunks; a body that began to come for another location may need them all the same.
    head.extend_from_slice(if parts.http_1_1 || in_chunks { b" HTTP/1.1\r\n" } else { b" HTTP/1.0\r\n" });

    let mut upgrade = false;
    let mut has_host = false;
    for (name, value) in &parts.headers {
        let value = value.value(ex, cx);
        if !value.is_empty() {
            has_host |= name.eq_ignore_ascii_case(b"host");
            upgrade |= name.eq_ignore_ascii_case(b"upgrade") && ex.asked.head.fields.contains_known(Known::Upgrade);
            push_line(&mut head, name, &value);
        }
    }
    // HTTP/1.1 demands one, also where `proxy_set_header` has none to give, as for a client that sent none.
    if !has_host && (!is_set("Host") || parts.http_1_1 || in_chunks) {
        let host = std::mem::take(&mut ex.visit.proxy_host);
        push_line(&mut head, b"Host", if host.starts_with(b"unix:") { b"localhost" } else { &host });
        ex.visit.proxy_host = host;
    }
    if let Some(bytes) = body_bytes.filter(|_| !is_set("Content-Length")) {
        push_line(&mut head, b"Content-Length", bytes.to_string().as_bytes());
    }
    if in_chunks && !is_set("Transfer-Encoding") {
        push_line(&mut head, b"Transfer-Encoding", b"chunked");
    }
    if caches {
        if let Some(value) = validators.last_modified.as_deref().filter(|_| !is_set("If-Modified-Since")) {
            push_line(&mut head, b"If-Modified-Since", value);
        }
        if let Some(value) = validators.etag.as_deref().filter(|_| !is_set("If-None-Match")) {
            push_line(&mut head, b"If-None-Match", value);
        }
    }
    if model.request.pass_headers {
        for (known, name, value) in ex.asked.head.fields.iter_known() {
            let own = matches!(
                known,
                Known::Host
                    | Known::Connection
                    | Known::ProxyConnection
                    | Known::ContentLength
                    | Known::TransferEncoding
                    | Known::Te
                    | Known::KeepAlive
                    | Known::Expect
                    | Known::Upgrade
            );
            if own || (caches && CONDITIONAL.contains(&known)) || is_set(std::str::from_utf8(name).unwrap_or("")) {
                continue;
            }
            push_line(&mut head, name, value);
        }
    }
    head.extend_from_slice(b"\r\n");
    let body = match set_body {
        Some(body) if body.is_empty() => larder_origin::RequestBody::None,
        Some(body) => larder_origin::RequestBody::Memory(body),
        None if model.request.pass_body => wire_body(&mut ex.request.body, true),
        None => larder_origin::RequestBody::None,
    };
    (Wire::Http { head: Bytes::from(head), upgrade }, body)
}

/// The target as it is, but for what ends a target or a line and came in by a variable such as `$uri`: behind it a visitor
/// could write a version or a request of his own. It is escaped, as it was when he sent it. A target begins with a slash
/// also where the client or a variable has only arguments.
fn append_target(target: &[u8], head: &mut Vec<u8>) {
    if target.first() != Some(&b'/') {
        head.push(b'/');
    }
    for &byte in target {
        match byte {
            0..=b' ' | 0x7f => escape_uri(&[byte], Escape::Uri, head),
            byte => head.push(byte),
        }
    }
}

fn push_line(head: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    head.extend_from_slice(name);
    head.extend_from_slice(b": ");
    super::wire::append_one_line(value, head);
    head.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The parameters of these fields, as `NAME=value` each.
    fn params(fields: &[(&str, &str)], set: &[&[u8]], caches: bool) -> Vec<String> {
        let mut list = Fields::new();
        fields.iter().for_each(|(name, value)| list.push(name.as_bytes(), value.as_bytes()));
        let mut wire = BytesMut::new();
        push_fields(&mut wire, set, caches, &list);
        let mut params = Vec::new();
        while !wire.is_empty() {
            let lengths = wire.split_to(2);
            let name = wire.split_to(lengths[0].into());
            let value = wire.split_to(lengths[1].into());
            params.push(format!("{}={}", String::from_utf8_lossy(&name), String::from_utf8_lossy(&value)));
        }
        params
    }

    #[test]
    fn fields_become_parameters_in_their_order_and_lines_of_one_name_are_joined() {
        let fields = [
            ("Host", "a"),
            ("X-A", "1"),
            ("Cookie", "a=1"),
            ("x-a", "2"),
            ("X_A", "another name"),
            ("Range", "bytes=0-1"),
            ("cookie", "b=2"),
            ("Proxy", "no"),
            ("X-A", ""),
            ("Proxy", "nor this"),
        ];
        let common = ["HTTP_X_A=1, 2, ", "HTTP_COOKIE=a=1; b=2"];
        assert_eq!(params(&fields, &[b"PROXY"], true), common);
        let rest = ["HTTP_RANGE=bytes=0-1", "HTTP_PROXY=no, nor this"];
        assert_eq!(params(&fields, &[], false), [&common[..], &rest[..]].concat());
        assert!(params(&[], &[], false).is_empty());
        // As many as there may be are no more work each than a few.
        let many: Vec<String> = (0..20_000).map(|number| format!("x-{number}")).collect();
        let many: Vec<(&str, &str)> = many.iter().map(|name| (&**name, "v")).collect();
        let made = params(&many, &[], false);
        assert_eq!((made.len(), &*made[19_999]), (20_000, "HTTP_X_19999=v"));
    }

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
