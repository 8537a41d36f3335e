//! `req`, `resp`, and who asks.

use std::net::SocketAddr;

use larder_http::proxy_protocol::Addresses;
use larder_http::{RequestHead, Version};
use larder_vcl::functions::reasons::reason as reason_of;
use larder_vcl::run::{Failure, Texts, Value};
use larder_vcl::vars::Variable;

use crate::directors::hash;
use crate::exchange::Exchange;
use crate::records::{endpoint, listener_name};

use super::super::headers::{self, keep_original};
use super::super::task::Run;
use super::super::{filters, seconds};
use super::{boolean, ip, misfit, of_first_line, real, status, text};

/// The value of a variable of the client's side; `None` if it is not one.
pub fn get(run: &Run<'_>, variable: Variable, texts: &mut Texts<'_>) -> Result<Option<Value>, Failure> {
    use Variable as V;
    let (ex, client) = (&*run.ex, &run.ex.vcl.client);
    Ok(Some(match variable {
        V::ReqMethod => return text(ex.asked.head.method_name(), texts),
        V::ReqTopMethod => return text(top(ex).method_name(), texts),
        V::ReqUrl => return text(ex.asked.head.target(), texts),
        V::ReqTopUrl => return text(top(ex).target(), texts),
        V::ReqProto => return text(proto(ex.asked.head.version), texts),
        V::ReqTopProto => return text(proto(top(ex).version), texts),
        V::ReqXid => Value::Int(client.xid as i64),
        V::SessXid => Value::Int(ex.asked.client.number() as i64),
        V::ReqRestarts => Value::Int(ex.request.way.restarts.into()),
        V::ReqBackendHint => Value::Id(client.hint.unwrap_or(default_backend(run))),
        V::ReqHashAlwaysMiss => Value::Bool(client.always_miss),
        V::ReqHashIgnoreBusy => Value::Bool(client.ignore_busy),
        V::ReqHashIgnoreVary => Value::Bool(client.ignore_vary),
        V::ReqIsHitmiss => Value::Bool(client.is_hitmiss),
        V::ReqIsHitpass => Value::Bool(client.is_hitpass),
        V::ReqGrace => Value::Real(client.grace.unwrap_or(-1.0)),
        V::ReqTtl | V::ReqMaxAge => Value::Real(client.max_age.unwrap_or(-1.0)),
        V::ReqTime => Value::Real(seconds(ex.asked.started)),
        V::ReqTopTime => Value::Real(seconds(client.top.as_ref().map_or(ex.asked.started, |top| top.started))),
        V::ReqEsi | V::RespDoEsi => Value::Bool(!client.skips_esi),
        V::ReqEsiLevel => Value::Int(client.esi_level.into()),
        V::ReqCanGzip => Value::Bool(headers::takes_gzip(ex)),
        V::ReqTrace => Value::Bool(false),
        V::ReqTransport => return text(if is_http2(ex) { b"H2" } else { b"HTTP/1" }, texts),
        V::ReqFilters | V::BereqFilters => return text(b"", texts),
        V::RespFilters => return text(filters::of_response(run.policy, ex).as_bytes(), texts),
        V::ReqStorage => Value::Id(None),
        V::ReqHash | V::BereqHash => Value::Blob(texts.keep(&hash::page_digest(&ex.upstream.cache_key))?),
        V::RespStatus => Value::Int(ex.reply.status.into()),
        V::RespReason => return text(reason(ex), texts),
        V::RespProto => return text(b"HTTP/1.1", texts),
        V::RespTime => Value::Real(run.now),
        V::RespIsStreaming => {
            Value::Bool(ex.vcl.page.as_ref().is_none_or(|page| page.body.whole().is_none()) && !client.is_hit)
        }
        _ => return peer(run, variable, texts),
    }))
}

fn peer(run: &Run<'_>, variable: Variable, texts: &mut Texts<'_>) -> Result<Option<Value>, Failure> {
    use Variable as V;
    let ex = &*run.ex;
    let connection = &ex.asked.client;
    Ok(match variable {
        V::ClientIp => ip(client_address(ex)),
        V::ClientIdentity => match &ex.vcl.client.identity {
            Some(identity) => text(identity, texts)?,
            None => text(client_address(ex).map_or("0.0.0.0".to_owned(), |a| a.ip().to_string()).as_bytes(), texts)?,
        },
        V::RemoteIp => ip(connection.peer),
        V::LocalIp => ip(connection.local),
        V::ServerIp => ip(told(ex).map(|(_, destination)| destination).or(connection.local)),
        V::ServerHostname => text(run.cx.site().hostname.as_bytes(), texts)?,
        V::ServerIdentity => text(run.policy.names.identity.as_bytes(), texts)?,
        V::LocalEndpoint => text(endpoint(&connection.bound).as_bytes(), texts)?,
        V::LocalSocket => text(listener_name(run.ex, run.cx).as_bytes(), texts)?,
        V::SessTimeoutIdle => Some(Value::Real(run.policy.parameters.timeout_idle)),
        V::SessTimeoutLinger => Some(Value::Real(0.05)),
        V::SessSendTimeout => Some(Value::Real(600.0)),
        V::SessIdleSendTimeout => Some(Value::Real(60.0)),
        _ => None,
    })
}

/// The backend that is asked if the VCL names no other, by its number in the VCL.
pub fn default_backend(run: &Run<'_>) -> Option<u32> {
    run.policy.default_backend.and_then(|at| u32::try_from(at).ok())
}

/// The client's address as text goes into `X-Forwarded-For`.
pub fn client_address(ex: &Exchange) -> Option<SocketAddr> {
    let real = ex.asked.real_ip.map(|(ip, port)| SocketAddr::new(ip, port));
    real.or_else(|| told(ex).map(|(source, _)| source)).or(ex.asked.client.peer)
}

/// What a proxy said of both ends of the connection.
fn told(ex: &Exchange) -> Option<(SocketAddr, SocketAddr)> {
    match ex.asked.client.proxy.as_ref()?.addresses {
        Addresses::Inet { source, destination } => Some((source, destination)),
        Addresses::Unknown | Addresses::Unix { .. } => None,
    }
}

fn is_http2(ex: &Exchange) -> bool {
    ex.asked.head.version == Version::Http2
}

/// The request at the top of the includes, which may be this one.
fn top(ex: &Exchange) -> &RequestHead {
    ex.vcl.client.top.as_ref().map_or(&ex.asked.head, |top| &top.head)
}

fn proto(version: Version) -> &'static [u8] {
    match version {
        Version::Http10 => b"HTTP/1.0",
        Version::Http11 => b"HTTP/1.1",
        Version::Http2 => b"HTTP/2.0",
    }
}

fn reason(ex: &Exchange) -> &[u8] {
    match ex.reply.reason.is_empty() {
        true => reason_of(ex.reply.status).as_bytes(),
        false => &ex.reply.reason,
    }
}

/// Sets a variable of the client's side. False if it is not one.
pub fn set(run: &mut Run<'_>, variable: Variable, value: Value, texts: &mut Texts<'_>) -> Result<bool, Failure> {
    use Variable as V;
    let bytes = match value {
        Value::Text(text) => texts.bytes(text),
        Value::Blob(blob) => texts.bytes(Some(blob)),
        _ => b"",
    };
    let ex = &mut *run.ex;
    match variable {
        V::ReqMethod => set_method(of_first_line(variable, bytes)?, ex),
        V::ReqUrl => set_url(of_first_line(variable, bytes)?, ex),
        V::ReqBackendHint => match value {
            Value::Id(backend) => ex.vcl.client.hint = Some(backend),
            _ => return Err(misfit(variable)),
        },
        V::ReqHashAlwaysMiss => ex.vcl.client.always_miss = boolean(variable, value)?,
        V::ReqHashIgnoreBusy => ex.vcl.client.ignore_busy = boolean(variable, value)?,
        V::ReqHashIgnoreVary => ex.vcl.client.ignore_vary = boolean(variable, value)?,
        V::ReqGrace => ex.vcl.client.grace = Some(real(variable, value)?),
        V::ReqTtl | V::ReqMaxAge => ex.vcl.client.max_age = Some(real(variable, value)?),
        V::ClientIdentity => ex.vcl.client.identity = Some(bytes.to_vec()),
        V::RespStatus => {
            ex.reply.status = status(variable, value)?;
            ex.reply.reason.clear();
        }
        V::RespReason => {
            let reason = of_first_line(variable, bytes)?;
            ex.reply.reason.clear();
            ex.reply.reason.extend_from_slice(reason);
        }
        V::RespBody => {
            ex.vcl.body.clear();
            ex.vcl.body.extend_from_slice(bytes);
        }
        // An include cannot turn it off in this way, as in Varnish.
        V::ReqEsi if ex.vcl.client.esi_level > 0 => {}
        V::ReqEsi => ex.vcl.client.skips_esi = !boolean(variable, value)?,
        V::RespDoEsi => {
            filters::check_free(ex)?;
            ex.vcl.client.skips_esi = !boolean(variable, value)?;
        }
        V::RespFilters => filters::fix(bytes, ex)?,
        V::ReqProto
        | V::ReqTrace
        | V::ReqStorage
        | V::RespProto
        | V::SessTimeoutIdle
        | V::SessTimeoutLinger
        | V::SessSendTimeout
        | V::SessIdleSendTimeout => {}
        _ => return Ok(false),
    }
    Ok(true)
}

fn set_method(method: &[u8], ex: &mut Exchange) {
    keep_original(ex);
    let target = ex.asked.head.target().to_vec();
    ex.asked.head.ask(method, &target);
    ex.request.method = ex.asked.head.method;
}

/// Sets `req.url`.
fn set_url(url: &[u8], ex: &mut Exchange) {
    if url == ex.asked.head.target() {
        return;
    }
    keep_original(ex);
    let method = ex.asked.head.method_name().to_vec();
    ex.asked.head.ask(&method, url);
}
