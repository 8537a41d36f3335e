//! From bytes to an exchange: the head is parsed, the virtual server chosen, the URI made normal.

use larder_conf::model::LogLevel;
use larder_http::{Framing, HeadError, HeadLimits, HeadStatus, Method, Time};

use crate::context::Cx;
use crate::exchange::{Exchange, RequestBody};
use crate::site::{Listener, NameTable};

use super::route::Entrance;
use super::{Step, Synth};

/// What a buffer held.
pub enum Received {
    /// Not a whole head yet.
    Partial,
    /// A head of `consumed` bytes, and what to do first.
    Head {
        /// How many bytes of the buffer it took.
        consumed: usize,
        /// The first step.
        step: Step,
    },
}

/// Reads a request head from `buf`. A bad one becomes the step that answers it and closes.
pub fn receive(buf: &[u8], listener: &Listener, ex: &mut Exchange, cx: &Cx, now: Time) -> Received {
    let site = cx.site();
    let client = &site.servers[listener.default].client;
    let (buffers, buffer_bytes) = client.large_header_buffers;
    let line_bytes = buffer_bytes.max(client.header_buffer_bytes);
    let limits = HeadLimits {
        line_bytes,
        // The first buffer comes on top of the large ones.
        head_bytes: client.header_buffer_bytes.saturating_add(buffers.saturating_mul(buffer_bytes)),
        field_bytes: line_bytes,
        max_fields: client.max_headers,
        ignore_invalid: client.ignore_invalid_headers,
        underscores: client.underscores_in_headers,
    };
    ex.started = now;
    ex.server = listener.default;
    ex.location = site.servers[listener.default].root;
    match larder_http::parse_request(buf, &mut ex.head, &limits) {
        Ok(HeadStatus::Partial) => Received::Partial,
        Ok(HeadStatus::Complete { consumed }) => {
            for (name, _) in ex.head.ignored().iter() {
                let name = String::from_utf8_lossy(name);
                cx.local.logs.error(
                    cx,
                    ex,
                    LogLevel::Info,
                    format_args!("client sent invalid header line: \"{name}\" while reading client request headers"),
                );
            }
            let step = match begin(listener, ex, cx) {
                // TRACE echoes what the client may not see, CONNECT is for other proxies: nginx refuses both.
                Ok(()) if matches!(ex.method, Method::Trace | Method::Connect) => {
                    ex.keep_alive = false;
                    let target = ex.head.line().split(|&byte| byte == b' ').nth(1).unwrap_or_default();
                    let is_path = target.starts_with(b"/");
                    Step::Synth(Synth::Status(if is_path { 405 } else { 400 }))
                }
                Ok(()) => Step::Route(Entrance::Server),
                Err(error) => refuse(&error, ex, cx),
            };
            Received::Head { consumed, step }
        }
        Err(error) => {
            let step = refuse(&error, ex, cx);
            Received::Head { consumed: buf.len(), step }
        }
    }
}

fn refuse(error: &HeadError, ex: &mut Exchange, cx: &Cx) -> Step {
    cx.local.logs.error(cx, ex, LogLevel::Info, format_args!("{error}"));
    ex.keep_alive = false;
    ex.head_is_bad = true;
    ex.method = if ex.head.method == Method::Head { Method::Head } else { Method::Get };
    Step::Synth(Synth::Status(error.status()))
}

fn begin(listener: &Listener, ex: &mut Exchange, cx: &Cx) -> Result<(), HeadError> {
    ex.method = ex.head.method;
    larder_http::check_host(&ex.head)?;
    let host = ex.head.target_host().or_else(|| ex.head.fields.get_known(larder_http::Known::Host));
    if let Some(host) = host {
        let parts = larder_http::normalise_host(host, &mut ex.host)?;
        ex.host.truncate(parts.host.end);
    }
    ex.server = server_for(listener, ex);
    ex.location = cx.site().servers[ex.server].root;
    let framing = larder_http::body_framing(&ex.head)?;
    ex.body = match framing {
        Framing::None | Framing::Length(0) => RequestBody::None,
        Framing::Length(bytes) => RequestBody::Unread(Some(bytes)),
        Framing::Chunked => RequestBody::Unread(None),
    };
    ex.keep_alive = larder_http::keep_alive_wanted(&ex.head);
    let merge = cx.site().servers[ex.server].client.merge_slashes;
    let parts = larder_http::normalise(ex.head.target(), merge, &mut ex.uri).map_err(|_| HeadError::InvalidRequest)?;
    if let Some(args) = parts.args {
        ex.args.extend_from_slice(&ex.head.target()[args]);
    }
    Ok(())
}

/// The virtual server for the host that is asked for (nginx: server names).
fn server_for(listener: &Listener, ex: &mut Exchange) -> usize {
    if ex.host.is_empty() {
        return listener.names.exact.get(&b""[..]).copied().unwrap_or(listener.default);
    }
    let host = std::mem::take(&mut ex.host);
    let server = by_name(&listener.names, &host, ex).unwrap_or(listener.default);
    ex.host = host;
    server
}

fn by_name(names: &NameTable, host: &[u8], ex: &mut Exchange) -> Option<usize> {
    if let Some(&server) = names.exact.get(host) {
        return Some(server);
    }
    if let Some((_, server)) =
        names.suffixes.iter().find(|(suffix, _)| host.len() > suffix.len() && host.ends_with(suffix))
    {
        return Some(*server);
    }
    if let Some((_, server)) =
        names.prefixes.iter().find(|(prefix, _)| host.len() > prefix.len() && host.starts_with(prefix))
    {
        return Some(*server);
    }
    names.regexes.iter().find(|(regex, _)| crate::script::matches(regex, host, ex)).map(|(_, server)| *server)
}
