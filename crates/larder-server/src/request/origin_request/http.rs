//! A request as a head of HTTP/1: the fields of `proxy_set_header`, and the client's.

use bytes::Bytes;
use larder_http::{Escape, Fields, Known, KnownSet, Method, escape_uri};
use larder_origin::Protocol as Wire;

use crate::context::Cx;
use crate::exchange::{Exchange, RequestBody};
use crate::policy::Validators;
use crate::request::wire::{self, append_decimal, append_line, append_lines, append_one_line};
use crate::site::origin_head::{Given, SetLine};
use crate::site::{Backend, HttpParts};

use super::passed_on::{Extent, left_out, wire_body};

/// The request of `ex` for `uri`. `extent` says whose conditions it has.
pub fn http_request(
    parts: &HttpParts,
    backend: &Backend,
    extent: Extent,
    uri: &[u8],
    validators: &Validators,
    ex: &mut Exchange,
    cx: &Cx,
) -> (Wire, larder_origin::RequestBody) {
    let request = &backend.settings.model.request;
    if parts.is_written {
        return written_request(uri, ex, cx);
    }
    let set_body = parts.body.as_ref().map(|text| Bytes::from(text.value(ex, cx)));
    let length = length(set_body.as_ref(), request.pass_body, ex);
    let mut head = ex.eval.lend();
    append_request_line(parts, uri, length, &mut head, ex, cx);
    let set = append_set_fields(parts, &mut head, ex, cx);
    // HTTP/1.1 demands one, also where `proxy_set_header` has none to give, as for a client that sent none.
    if !set.host && (!parts.set.names.contains_known(Known::Host) || is_http_1_1(parts, length)) {
        match &parts.host_line {
            Some(line) => head.extend_from_slice(line),
            None => append_host(&ex.visit.proxy_host, &mut head),
        }
    }
    append_length(parts, length, &mut head);
    if extent.has_our_conditions() {
        append_conditions(parts, validators, &mut head);
    }
    if request.pass_headers {
        append_fields_of_client(parts, left_out(extent, ex), &ex.asked.head.fields, &mut head);
    }
    head.extend_from_slice(b"\r\n");
    let body = match set_body {
        Some(body) if body.is_empty() => larder_origin::RequestBody::None,
        Some(body) => larder_origin::RequestBody::Memory(body),
        None if request.pass_body => wire_body(&mut ex.request.body, true),
        None => larder_origin::RequestBody::None,
    };
    let wire = Wire::Http { head: cx.worker.buffers.shared(&head), upgrade: set.upgrade };
    ex.eval.take_back(head);
    (wire, body)
}

/// The request of `ex` with the head that a policy has written: all but the framing of its body is in it.
fn written_request(uri: &[u8], ex: &mut Exchange, cx: &Cx) -> (Wire, larder_origin::RequestBody) {
    let has_body = ex.vcl.fetch.has_body;
    let length = match ex.asked.head.method {
        _ if has_body => length(None, true, ex),
        Method::Get | Method::Head | Method::Delete | Method::Options | Method::Trace => Length::Silent,
        _ if ex.vcl.fetch.pipe.is_some() => Length::Silent,
        // Others are expected to have a body, if only an empty one (RFC 9110 §8.6).
        _ => Length::Bytes(0),
    };
    let mut head = ex.eval.lend();
    append_one_line(ex.asked.head.method_name(), &mut head);
    head.push(b' ');
    append_target(uri, &mut head);
    head.extend_from_slice(b" HTTP/1.1\r\n");
    const FRAMING: KnownSet = KnownSet::of(&[Known::ContentLength, Known::TransferEncoding]);
    append_lines(&ex.asked.head.fields, |known, _| !FRAMING.contains(known), &mut head);
    match length {
        Length::Silent => {}
        Length::Bytes(bytes) => append_line(b"Content-Length", bytes.to_string().as_bytes(), &mut head),
        Length::Chunked => append_line(b"Transfer-Encoding", b"chunked", &mut head),
    }
    head.extend_from_slice(b"\r\n");
    let body = if has_body { wire_body(&mut ex.request.body, true) } else { larder_origin::RequestBody::None };
    let upgrade = ex.asked.head.fields.contains_known(Known::Upgrade);
    let wire = Wire::Http { head: cx.worker.buffers.shared(&head), upgrade };
    ex.eval.take_back(head);
    (wire, body)
}

/// The field `Host` for the place of an origin.
pub fn append_host(host: &[u8], head: &mut Vec<u8>) {
    append_line(b"Host", if host.starts_with(b"unix:") { b"localhost" } else { host }, head);
}

/// How the head tells the end of the body.
#[derive(Clone, Copy)]
enum Length {
    /// There is none, and no field says so.
    Silent,
    /// `Content-Length`.
    Bytes(u64),
    /// The body ends with its last chunk.
    Chunked,
}

/// The length of the body: of `proxy_set_body`, or of the client's, which may not be known yet.
fn length(set_body: Option<&Bytes>, passes_body: bool, ex: &Exchange) -> Length {
    if let Some(body) = set_body {
        return Length::Bytes(body.len() as u64);
    }
    if !passes_body {
        return Length::Silent;
    }
    match &ex.request.body {
        RequestBody::None | RequestBody::Unread(_) => {
            let fields = &ex.asked.head.fields;
            let announced =
                fields.contains_known(Known::ContentLength) || fields.contains_known(Known::TransferEncoding);
            if announced { Length::Bytes(0) } else { Length::Silent }
        }
        RequestBody::Passing(feed) if feed.is_fresh() => feed.announced().map_or(Length::Chunked, Length::Bytes),
        RequestBody::Passing(_) => Length::Bytes(0),
        body @ (RequestBody::Memory(_) | RequestBody::File(..)) => Length::Bytes(body.read_bytes()),
    }
}

/// HTTP/1.0 knows no chunks; a body that began to come for another location may need them all the same.
fn is_http_1_1(parts: &HttpParts, length: Length) -> bool {
    parts.http_1_1 || matches!(length, Length::Chunked)
}

fn append_request_line(parts: &HttpParts, uri: &[u8], length: Length, head: &mut Vec<u8>, ex: &mut Exchange, cx: &Cx) {
    match &parts.method {
        Some(method) => method.with(ex, cx, |_, method| append_one_line(method, head)),
        None => head.extend_from_slice(crate::vars::method_name(ex)),
    }
    head.push(b' ');
    append_target(uri, head);
    head.extend_from_slice(if is_http_1_1(parts, length) { b" HTTP/1.1\r\n" } else { b" HTTP/1.0\r\n" });
}

/// `proxy_set_header`; a field that comes out empty is left out. Returns what there is of it; an `Upgrade` counts if the
/// client asked for another protocol, so that the origin may be asked for it.
fn append_set_fields(parts: &HttpParts, head: &mut Vec<u8>, ex: &mut Exchange, cx: &Cx) -> Given {
    let mut set = parts.set.has;
    for line in &parts.set.lines {
        match line {
            SetLine::Fixed(lines) => head.extend_from_slice(lines),
            SetLine::Value { start, has, text } => {
                let before = head.len();
                head.extend_from_slice(start);
                let value_at = head.len();
                text.append(ex, cx, head);
                if head.len() == value_at {
                    head.truncate(before);
                    continue;
                }
                wire::make_one_line(&mut head[value_at..]);
                head.extend_from_slice(b"\r\n");
                set = Given { host: set.host || has.host, upgrade: set.upgrade || has.upgrade };
            }
        }
    }
    Given { upgrade: set.upgrade && ex.asked.head.fields.contains_known(Known::Upgrade), ..set }
}

fn append_length(parts: &HttpParts, length: Length, head: &mut Vec<u8>) {
    let is_set = |known| parts.set.names.contains_known(known);
    match length {
        Length::Silent => {}
        Length::Bytes(bytes) if !is_set(Known::ContentLength) => {
            head.extend_from_slice(b"Content-Length: ");
            append_decimal(bytes, head);
            head.extend_from_slice(b"\r\n");
        }
        Length::Chunked if !is_set(Known::TransferEncoding) => append_line(b"Transfer-Encoding", b"chunked", head),
        Length::Bytes(_) | Length::Chunked => {}
    }
}

/// Asks whether the stored page is still good.
fn append_conditions(parts: &HttpParts, validators: &Validators, head: &mut Vec<u8>) {
    let is_set = |known| parts.set.names.contains_known(known);
    if let Some(value) = validators.last_modified.as_deref().filter(|_| !is_set(Known::IfModifiedSince)) {
        append_line(b"If-Modified-Since", value, head);
    }
    if let Some(value) = validators.etag.as_deref().filter(|_| !is_set(Known::IfNoneMatch)) {
        append_line(b"If-None-Match", value, head);
    }
    if let Some(rest) = &validators.rest {
        append_line(b"Range", &rest.range, head);
        append_line(b"If-Range", &rest.etag, head);
    }
}

/// The fields of a client that are about its connection, or frame its body.
const OF_CONNECTION: KnownSet = KnownSet::of(&[
    Known::Host,
    Known::Connection,
    Known::ProxyConnection,
    Known::ContentLength,
    Known::TransferEncoding,
    Known::Te,
    Known::KeepAlive,
    Known::Expect,
    Known::Upgrade,
]);

/// The client's fields, but for those of its connection, of its body's framing, and those that are set.
fn append_fields_of_client(parts: &HttpParts, left_out: KnownSet, fields: &Fields, head: &mut Vec<u8>) {
    let left_out = OF_CONNECTION.and(left_out);
    let is_passed = |known, name: &[u8]| !left_out.contains(known) && !parts.set.names.contains(known, name);
    append_lines(fields, is_passed, head);
}

/// Appends the target. Spaces and control bytes are escaped: a variable such as `$uri` holds them decoded, and behind
/// one a client could write a version or a request of its own. A target without a slash, such as `?a=1`, gets one.
fn append_target(target: &[u8], head: &mut Vec<u8>) {
    if target.first() != Some(&b'/') {
        head.push(b'/');
    }
    if target.iter().all(|byte| !is_escaped(*byte)) {
        return head.extend_from_slice(target);
    }
    for &byte in target {
        match byte {
            byte if is_escaped(byte) => escape_uri(&[byte], Escape::Uri, head),
            byte => head.push(byte),
        }
    }
}

fn is_escaped(byte: u8) -> bool {
    byte <= b' ' || byte == 0x7f
}
