//! A request as a head of HTTP/1: the fields of `proxy_set_header`, and the client's.

use bytes::Bytes;
use larder_http::{Escape, Known, escape_uri};
use larder_origin::Protocol as Wire;

use crate::context::Cx;
use crate::exchange::{Exchange, RequestBody};
use crate::policy::Validators;
use crate::request::wire::append_one_line;
use crate::site::{Backend, HttpParts};

use super::passed_on::{CONDITIONAL, wire_body};

/// The request of `ex` for `uri`. With `caches` its conditions are ours.
pub fn http_request(
    parts: &HttpParts,
    backend: &Backend,
    caches: bool,
    uri: &[u8],
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
        Some(method) => method.with(ex, cx, |_, method| append_one_line(method, &mut head)),
        None => head.extend_from_slice(crate::vars::method_name(ex)),
    }
    head.push(b' ');
    append_target(uri, &mut head);
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
    append_one_line(value, head);
    head.extend_from_slice(b"\r\n");
}
