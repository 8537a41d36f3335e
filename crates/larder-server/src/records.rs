//! What the transaction log is told of requests, in the records and the order of Varnish (vsl(7)).
//!
//! `records/fetch.rs` has what it is told of fetches. Each function looks at one flag, or at one pointer of the exchange,
//! and does nothing if nobody listens.

pub mod fetch;

use std::fmt::Arguments;
use std::rc::Rc;
use std::sync::Arc;

use larder_cache::Object;
use larder_conf::model::ListenAddress;
use larder_http::{Coding, Fields, HeadError, Known, RequestHead, Time, reason};
use larder_vsl::{Kind, Tag};

use crate::context::Cx;
use crate::exchange::{Choice, Exchange};
use crate::site::{Policy, Vcl};
use crate::vsl::{Note, Open, Shown};
use crate::xid;

/// A request has come, whose head is in the exchange.
#[inline]
pub fn begin(ex: &mut Exchange, cx: &Cx) {
    if cx.worker.shared.log.is_heard() {
        begin_client(ex, cx);
        request(ex);
    }
}

/// Bytes have come that are no head, and why they are none.
pub fn garbage(bytes: &[u8], error: &HeadError, ex: &mut Exchange, cx: &Cx) {
    if cx.worker.shared.log.is_heard() {
        begin_client(ex, cx);
        if let Some(open) = &ex.log.client {
            if let HeadError::InvalidField { line, byte } = error {
                bogus(open, line, *byte);
            }
            let line = bytes.split(|byte| matches!(byte, b'\r' | b'\n')).next().unwrap_or_default();
            open.say(Tag::HttpGarbage, format_args!("{}", Shown(line)));
            if let Some(host) = ex.asked.head.fields.get_known(Known::Host).filter(|_| !cx.server(ex).takes_raw) {
                open.header(Tag::ReqHeader, b"Host", host);
            }
        }
    }
}

/// A line of a head that is no header from `byte` on, which `line` leads up to.
fn bogus(open: &Open, line: &str, byte: u8) {
    let tag = Tag::BogoHeader;
    match byte {
        // What follows a CR is told to be wrong.
        _ if line.ends_with('\r') => open.say(tag, format_args!("Header has ctrl char 0x0d")),
        _ if line.contains(':') => open.say(tag, format_args!("Header has ctrl char {byte:#04x}")),
        b'\r' | b'\n' => open.say(tag, format_args!("Header without ':' {}", Shown(line.as_bytes()))),
        b':' => open.say(tag, format_args!("Missing header name: {}", Shown(line.as_bytes()))),
        _ => open.say(tag, format_args!("Illegal char {byte:#04x} in header name")),
    }
}

#[cold]
fn begin_client(ex: &mut Exchange, cx: &Cx) {
    let connection = ex.asked.client.number();
    let xid = xid::next();
    session(connection, xid, ex, cx);
    begin_request(xid, format_args!("req {connection} rxreq"), ex, cx);
    if let Some(open) = &ex.log.client {
        open.stamp("Req");
    }
}

/// Tells what a connection has led to.
fn session(connection: u64, request: u64, ex: &Exchange, cx: &Cx) {
    let client = &ex.asked.client;
    let mut known = client.log.borrow_mut();
    let open = known.get_or_insert_with(|| {
        let version = if ex.asked.head.version == larder_http::Version::Http2 { "HTTP/2" } else { "HTTP/1" };
        let begin = format_args!("sess 0 {version}");
        let open = Open::begin(&cx.worker.shared.log, Kind::Session, connection, begin);
        let began = client.began.secs_f64();
        let (peer, name) = (address_and_port(client.peer), listener_name(ex, cx));
        open.say(Tag::SessOpen, format_args!("{peer} {name} {} {began:.6} 0", address_and_port(client.local)));
        Rc::new(open)
    });
    open.say(Tag::Link, format_args!("req {request} rxreq"));
}

/// A request inside `outer` begins, for this reason; its head is in `inner`.
pub fn begin_inside(outer: &Exchange, inner: &mut Exchange, reason: &str, cx: &Cx) {
    let Some(parent) = &outer.log.client else { return };
    let (xid, level) = (xid::next(), inner.vcl.client.esi_level.max(1));
    parent.say(Tag::Link, format_args!("req {xid} {reason} {level}"));
    begin_request(xid, format_args!("req {} {reason} {level}", parent.vxid()), inner, cx);
    request(inner);
}

/// The request is answered anew, under another number.
pub fn restarted(ex: &mut Exchange, cx: &Cx) {
    ex.log.fetch = None;
    let xid = match ex.vcl.client.xid {
        // No VCL counts here.
        0 => return,
        _ => xid::next(),
    };
    match ex.log.client.take() {
        None => ex.vcl.client.xid = xid,
        Some(before) => {
            before.stamp("Restart");
            before.say(Tag::Link, format_args!("req {xid} restart"));
            begin_request(xid, format_args!("req {} restart", before.vxid()), ex, cx);
            drop(before);
            request(ex);
        }
    }
}

fn begin_request(xid: u64, begin: Arguments<'_>, ex: &mut Exchange, cx: &Cx) {
    let open = Open::begin(&cx.worker.shared.log, Kind::Request, xid, begin);
    ex.vcl.client.xid = xid;
    open.stamp("Start");
    let peer = address_and_port(ex.asked.real_ip.or(ex.asked.client.peer.map(|peer| (peer.ip(), peer.port()))));
    open.say(Tag::ReqStart, format_args!("{peer} {}", listener_name(ex, cx)));
    ex.log.client = Some(Rc::new(open));
}

/// The head of the request.
fn request(ex: &Exchange) {
    let Some(open) = &ex.log.client else { return };
    if let Some(url) = &ex.request.way.url {
        // The server asks for it.
        open.put(Tag::ReqMethod, b"GET");
        open.put(Tag::ReqUrl, url);
        open.put(Tag::ReqProtocol, b"HTTP/1.1");
        return fields(open, Tag::ReqHeader, &ex.asked.head.fields);
    }
    request_head(open, &ex.asked.head, [Tag::ReqMethod, Tag::ReqUrl, Tag::ReqProtocol, Tag::ReqHeader]);
}

/// A head of a request, by the tags for method, URL, protocol and headers.
fn request_head(open: &Open, head: &RequestHead, [method, url, protocol, header]: [Tag; 4]) {
    open.put(method, head.method_name());
    open.put(url, head.target());
    open.put(protocol, head.version.name().as_bytes());
    fields(open, header, &head.fields);
}

fn fields(open: &Open, tag: Tag, fields: &Fields) {
    for (name, value) in fields.iter() {
        open.header(tag, name, value);
    }
}

/// The fields that are about to be removed, as `is_meant` says by their names.
pub fn unset(open: &Open, tag: Tag, fields: &Fields, is_meant: impl Fn(&[u8]) -> bool) {
    for (name, value) in fields.iter().filter(|(name, _)| is_meant(name)) {
        open.header(tag, name, value);
    }
}

/// The fields with which a VCL begins beyond those of the client.
#[inline]
pub fn added_fields(ex: &Exchange, names: &[Known]) {
    if let Some(open) = &ex.log.client {
        tell_added(open, names, ex);
    }
}

#[cold]
fn tell_added(open: &Open, names: &[Known], ex: &Exchange) {
    for (_, name, value) in ex.asked.head.fields.iter_known().filter(|(known, _, _)| names.contains(known)) {
        open.header(Tag::ReqHeader, name, value);
    }
}

/// A URL that the server itself has made the request's.
#[inline]
pub fn url(ex: &Exchange) {
    if let Some(open) = &ex.log.client {
        open.put(Tag::ReqUrl, ex.asked.head.target());
    }
}

/// A VCL decides about the request, perhaps because another one has said so by this label.
#[inline]
pub fn vcl(vcl: &Arc<Vcl>, label: Option<&str>, ex: &Exchange, cx: &Cx) {
    if let Some(open) = ex.log.now() {
        tell_vcl(open, vcl, label, cx);
    }
}

#[cold]
fn tell_vcl(open: &Open, vcl: &Arc<Vcl>, label: Option<&str>, cx: &Cx) {
    let Some(used) = cx.site().origins.vcls.iter().find(|used| Arc::ptr_eq(&used.vcl, vcl)) else { return };
    match label {
        Some(label) => open.say(Tag::VclUse, format_args!("{} via {label}", used.name)),
        None => open.put(Tag::VclUse, used.name.as_bytes()),
    }
}

/// The virtual server and the location that were found.
#[inline]
pub fn location(ex: &Exchange, cx: &Cx) {
    if let Some(open) = &ex.log.client {
        tell_location(open, ex, cx);
    }
}

#[cold]
fn tell_location(open: &Open, ex: &Exchange, cx: &Cx) {
    if cx.server(ex).takes_raw {
        // It is that of `larder varnishd`, which nobody has written.
        return;
    }
    open.note(|| Note::Location(ex.request.location, ex.request.uri.clone()));
    let loc = cx.loc(ex);
    open.put(Tag::Server, &cx.server(ex).name);
    open.put(Tag::Location, loc.matching.written.as_bytes());
}

/// Where the request is sent inside, as the words say.
#[inline]
pub fn rewritten(ex: &Exchange, to: Arguments<'_>) {
    if let Some(open) = &ex.log.client {
        open.note(|| {
            let text = to.to_string();
            Note::Said { what: "way", text, at: None }
        });
        open.say(Tag::Rewrite, to);
    }
}

/// A page that was found in the cache, or a mark in its place, by the tag for it.
#[inline]
pub fn found(tag: Tag, page: &Object, ex: &Exchange, cx: &Cx) {
    if let Some(open) = &ex.log.client {
        tell_found(open, tag, page, cx.now());
    }
}

#[cold]
fn tell_found(open: &Open, tag: Tag, page: &Object, now: Time) {
    let number = page.fields.get_known(Known::XVarnish).unwrap_or(b"0");
    let number = number.split(|byte| !byte.is_ascii_digit()).next().unwrap_or_default();
    let ttl = page.fresh_until.0 as f64 / 1000.0 - now.0 as f64 / 1000.0;
    match tag {
        Tag::Hit => {
            let grace = page.stale_while_revalidate.as_secs_f64();
            let keep = (page.stale_if_error.as_secs_f64() - grace).max(0.0);
            open.say(tag, format_args!("{} {ttl:.6} {grace:.6} {keep:.6}", Shown(number)));
        }
        _ => open.say(tag, format_args!("{} {ttl:.6}", Shown(number))),
    }
}

/// The head of the response, before a VCL changes it.
#[inline]
pub fn response(ex: &Exchange) {
    if let Some(open) = &ex.log.client {
        tell_response(open, ex);
    }
}

#[cold]
fn tell_response(open: &Open, ex: &Exchange) {
    open.put(Tag::RespProtocol, b"HTTP/1.1");
    status(open, ex.reply.status, &ex.reply.reason);
    fields(open, Tag::RespHeader, &ex.reply.fields);
}

fn status(open: &Open, status: u16, sent: &[u8]) {
    open.note_status(status);
    open.say(Tag::RespStatus, format_args!("{status}"));
    open.put(Tag::RespReason, if sent.is_empty() { reason(status).as_bytes() } else { sent });
}

/// The head of the response as it goes out; `lines` is it in HTTP/1, if the client speaks that. Of what a VCL has written,
/// only what was added since is new.
pub fn sent(lines: Option<&[u8]>, ex: &Exchange, cx: &Cx) {
    let Some(open) = &ex.log.client else { return };
    open.stamp("Process");
    if let Some(filters) = &ex.log.filters {
        open.put(Tag::Filters, filters);
    }
    let is_known = |name: &[u8]| ex.reply.fields.iter().any(|(own, _)| own.eq_ignore_ascii_case(name));
    let by_vcl = matches!(cx.origin(ex).map(|origin| &origin.policy), Some(Policy::Vcl(_)));
    if !by_vcl {
        open.put(Tag::RespProtocol, if lines.is_some() { b"HTTP/1.1" } else { b"HTTP/2.0" });
    }
    if !by_vcl || open.note_status(ex.reply.status) {
        status(open, ex.reply.status, &ex.reply.reason);
    }
    let Some(lines) = lines else {
        if !by_vcl {
            fields(open, Tag::RespHeader, &ex.reply.fields);
        }
        return;
    };
    for line in header_lines(lines) {
        let name = line.split(|byte| *byte == b':').next().unwrap_or_default();
        if !by_vcl || !is_known(name) {
            open.put(Tag::RespHeader, line);
        }
    }
}

/// The lines of the fields of a head of HTTP/1.
pub fn header_lines(head: &[u8]) -> impl Iterator<Item = &[u8]> {
    let lines = head.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    lines.skip(1).take_while(|line| !line.is_empty())
}

/// The request is over.
#[inline]
pub fn finished(ex: &mut Exchange, cx: &Cx) {
    if ex.log.client.is_some() {
        finish(ex, cx);
    }
}

#[cold]
fn finish(ex: &mut Exchange, cx: &Cx) {
    fetch::given_up(ex);
    let Some(open) = ex.log.client.take() else { return };
    if ex.is_sub() && open.note_status(ex.reply.status) {
        // It goes into another response.
        tell_response(&open, ex);
    }
    if !cx.server(ex).takes_raw {
        if ex.tally.sent.0 == 0 && !ex.is_sub() && ex.reply.status > 0 && open.note_status(ex.reply.status) {
            // No response has gone out: it has the status that the access log tells, such as 444 and 499.
            open.say(Tag::RespStatus, format_args!("{}", ex.reply.status));
        }
        tell_cache(&open, ex);
    }
    open.stamp("Resp");
    if let (Some((before, after)), Some(what)) = (ex.tally.squeezed, gzip_of(ex.reply.choice)) {
        open.say(Tag::Gzip, format_args!("{what} D - {before} {after}"));
    }
    let (head, body) = (ex.asked.head.bytes() as u64, ex.request.body.read_bytes());
    let (sent, sent_body) = ex.tally.sent;
    let sent_head = sent.saturating_sub(sent_body);
    open.say(Tag::ReqAcct, format_args!("{head} {body} {} {sent_head} {sent_body} {sent}", head + body));
}

/// What was done to the body on its way to the client, as a record says it.
fn gzip_of(choice: Choice) -> Option<char> {
    match choice {
        Choice::Compress(Coding::Gzip) => Some('G'),
        Choice::Restore(Coding::Gzip) => Some('U'),
        Choice::Compress(_) | Choice::Restore(_) | Choice::AsItIs | Choice::AsItIsHere => None,
    }
}

/// What the cache said, or why it was not asked.
fn tell_cache(open: &Open, ex: &Exchange) {
    let (status, why) = (ex.upstream.cache_status, ex.upstream.cache_detail.words());
    let Some(status) = status.map(|status| status.name()).or((!why.is_empty()).then_some("PASS")) else { return };
    let key = if ex.upstream.cache_key.is_empty() { Shown(b"-") } else { Shown(&ex.upstream.cache_key) };
    // Visitors write keys: in a field of its own none ends early, and leads on to a reason of its own.
    let key = key.to_string().replace(' ', "\\x20");
    let dash = if why.is_empty() { "" } else { " - " };
    open.say(Tag::Cache, format_args!("{status} {key}{dash}{why}"));
}

fn address_and_port(address: Option<impl Into<Address>>) -> Address {
    address.map_or(Address::None, Into::into)
}

/// An address as the log writes it: with a blank before its port.
enum Address {
    None,
    Of(std::net::IpAddr, u16),
}

impl From<std::net::SocketAddr> for Address {
    fn from(address: std::net::SocketAddr) -> Self {
        Self::Of(address.ip(), address.port())
    }
}

impl From<(std::net::IpAddr, u16)> for Address {
    fn from((ip, port): (std::net::IpAddr, u16)) -> Self {
        Self::Of(ip, port)
    }
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::None => f.write_str("0.0.0.0 0"),
            Self::Of(ip, port) => write!(f, "{} {port}", ip.to_canonical()),
        }
    }
}

/// The name of the listener: as a VCL knows it, or else `a` and its number, as varnishd names them.
pub fn listener_name(ex: &Exchange, cx: &Cx) -> String {
    let bound = &ex.asked.client.bound;
    let address = endpoint(bound);
    if let Some(Policy::Vcl(policy)) = cx.origin(ex).map(|origin| &origin.policy)
        && let Some((name, _)) = policy.names.endpoints.iter().find(|(_, own)| **own == *address)
    {
        return name.to_string();
    }
    let place = cx.site().listeners.iter().position(|listener| listener.address == *bound);
    format!("a{}", place.unwrap_or(0))
}

/// An address that is listened at, in words.
pub fn endpoint(bound: &ListenAddress) -> String {
    match bound {
        ListenAddress::Tcp(address) => address.to_string(),
        ListenAddress::Unix(path) => path.display().to_string(),
    }
}
