//! From bytes to an exchange: the head is parsed, the virtual server chosen, the URI made normal.

use larder_conf::model::LogLevel;
use larder_http::{Framing, HeadError, HeadLimits, HeadPlace, HeadStatus, Method, Time, status};
use larder_tls::{ClientVerdict, Refusal, VerifyMode};

use crate::context::Cx;
use crate::exchange::{Exchange, RequestBody, Secured};
use crate::records;
use crate::site::{Listener, VirtualServer};
use crate::vars::pattern;

use super::{Entrance, Step, Synth, acme_challenge};

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
    let default = &site.servers[listener.default];
    let limits = limits(default);
    ex.asked.started = now;
    enter(listener.default, ex, cx);
    let mut parsed = larder_http::parse_request(buf, &mut ex.asked.head, &limits);
    if parsed.is_err()
        && default.unfolds
        && let Some(unfolded) = larder_http::unfold(buf)
    {
        parsed = larder_http::parse_request(&unfolded, &mut ex.asked.head, &limits);
    }
    match parsed {
        Ok(HeadStatus::Partial) => Received::Partial,
        Ok(HeadStatus::Complete { consumed }) => {
            records::begin(ex, cx);
            for (name, _) in ex.asked.head.ignored().iter() {
                let name = String::from_utf8_lossy(name);
                cx.local.logs.error(
                    cx,
                    ex,
                    LogLevel::Info,
                    format_args!("client sent invalid header line: \"{name}\" while reading client request headers"),
                );
            }
            Received::Head { consumed, step: first_step(begin(listener, ex, cx), listener, ex, cx) }
        }
        Err(error) => {
            records::garbage(buf, &error, ex, cx);
            Received::Head { consumed: buf.len(), step: refuse(&error, listener, ex, cx) }
        }
    }
}

/// The first step of a request that nobody has sent, by its head: of a walk, or of a refill. No log is told of it.
pub fn begin_unseen(
    head: &[u8],
    listener: &Listener,
    ex: &mut Exchange,
    cx: &Cx,
    now: Time,
) -> Result<Step, HeadError> {
    ex.asked.started = now;
    enter(listener.default, ex, cx);
    let limits = limits(&cx.site().servers[listener.default]);
    match larder_http::parse_request(head, &mut ex.asked.head, &limits)? {
        HeadStatus::Complete { .. } => {}
        HeadStatus::Partial => return Err(HeadError::InvalidRequest),
    }
    begin(listener, ex, cx)?;
    Ok(first_step(Ok(()), listener, ex, cx))
}

/// What is demanded of request heads that come to this server.
pub fn limits(server: &VirtualServer) -> HeadLimits {
    let client = &server.client;
    let (buffers, buffer_bytes) = client.large_header_buffers;
    let line_bytes = buffer_bytes.max(client.header_buffer_bytes);
    // The first buffer comes on top of the large ones.
    let head_bytes = client.header_buffer_bytes.saturating_add(buffers.saturating_mul(buffer_bytes));
    HeadLimits {
        // As in Varnish, the length of a URL has no limit of its own where a VCL takes requests as they come.
        line_bytes: if server.takes_raw { head_bytes } else { line_bytes },
        head_bytes,
        field_bytes: line_bytes,
        max_fields: client.max_headers,
        ignore_invalid: client.ignore_invalid_headers,
        underscores: client.underscores_in_headers,
        strict_fields: server.takes_raw,
    }
}

/// The first step of a request that came by HTTP/2, whose head is in the exchange; `ends` says that it has no body.
pub fn begin_stream(
    listener: &Listener,
    refused: Option<HeadError>,
    ends: bool,
    ex: &mut Exchange,
    cx: &Cx,
    now: Time,
) -> Step {
    ex.asked.started = now;
    enter(listener.default, ex, cx);
    records::begin(ex, cx);
    let begun = match refused {
        Some(error) => Err(error),
        None => begin(listener, ex, cx),
    };
    if ends {
        ex.request.body = RequestBody::None;
    } else if matches!(ex.request.body, RequestBody::None) {
        // Whatever was announced, its end is still to come.
        let announced = ex.asked.head.fields.contains_known(larder_http::Known::ContentLength);
        ex.request.body = RequestBody::Unread(announced.then_some(0));
    }
    ex.reply.framing.keep_alive = true;
    if begun.is_ok() && !listener.http2 && !cx.server(ex).http2.enabled {
        let why = "client attempted to request the server name for which the negotiated protocol is disabled";
        cx.local.logs.error(cx, ex, LogLevel::Info, format_args!("{why} while reading client request headers"));
        return Step::Synth(Synth::Status(status::MISDIRECTED_REQUEST));
    }
    first_step(begun, listener, ex, cx)
}

fn first_step(begun: Result<(), HeadError>, listener: &Listener, ex: &mut Exchange, cx: &Cx) -> Step {
    match begun {
        // TRACE echoes fields that scripts may not see, and CONNECT is for forward proxies: nginx refuses both.
        Ok(()) if matches!(ex.request.method, Method::Trace | Method::Connect) => {
            ex.reply.framing.keep_alive = false;
            Step::Synth(Synth::Status(if is_well_formed(ex) { status::NOT_ALLOWED } else { status::BAD_REQUEST }))
        }
        Ok(()) => match unwelcome(ex, cx) {
            None => acme_challenge::answer(ex, cx).unwrap_or(Step::Route(Entrance::Server)),
            Some((status, why)) => {
                cx.local.logs.error(cx, ex, LogLevel::Info, format_args!("{why} while reading client request headers"));
                Step::Synth(Synth::Status(status))
            }
        },
        Err(error) => refuse(&error, listener, ex, cx),
    }
}

/// Whether a TRACE names a path, and a CONNECT a host and a port (RFC 9112, section 3.2.3).
fn is_well_formed(ex: &Exchange) -> bool {
    let target = ex.asked.head.line().split(|&byte| byte == b' ').nth(1).unwrap_or_default();
    let is_path = target.starts_with(b"/");
    match ex.request.method {
        Method::Connect => {
            !is_path && target.rsplit(|&byte| byte == b':').next().is_some_and(is_port) && target.contains(&b':')
        }
        _ => is_path,
    }
}

fn is_port(text: &[u8]) -> bool {
    !text.is_empty() && text.iter().all(u8::is_ascii_digit)
}

/// Why the connection forbids the request, if it does (ngx_http_process_request): HTTP in the clear on a port for TLS,
/// no client certificate where the server wants one, or a certificate that was checked for another server or by
/// another server's authorities.
fn unwelcome(ex: &Exchange, cx: &Cx) -> Option<(u16, String)> {
    let tls = match &ex.asked.client.secured {
        Secured::Not | Secured::Said => return None,
        Secured::PlainOnTls => {
            return Some((status::PLAIN_TO_HTTPS, "client sent plain HTTP request to HTTPS port".to_owned()));
        }
        Secured::Tls(tls) => tls,
    };
    let server = cx.server(ex);
    let mode = server.verify;
    if mode == VerifyMode::Off {
        return None;
    }
    let session = tls.session.borrow();
    if session.server_name().is_some() && server.name != tls.server {
        let why = "client attempted to request the server name different from the one that was negotiated";
        return Some((status::MISDIRECTED_REQUEST, why.to_owned()));
    }
    let verdict = session.client_verdict();
    if verdict != ClientVerdict::None && server.judge != tls.judge {
        let why = "client attempted to request a server that judges its certificate by other files than were used";
        return Some((status::MISDIRECTED_REQUEST, why.to_owned()));
    }
    match mode.refuses(verdict)? {
        Refusal::NoCertificate => Some((status::NO_CERT, "client sent no required SSL certificate".to_owned())),
        Refusal::BadCertificate => {
            let text = verdict.to_string();
            let reason = text.strip_prefix("FAILED:").unwrap_or(&text);
            Some((status::CERT_ERROR, format!("client SSL certificate verify error: ({}:{reason})", verdict.code())))
        }
    }
}

/// Answers a bad head by the rules of the server that is known by then, as nginx does.
fn refuse(error: &HeadError, listener: &Listener, ex: &mut Exchange, cx: &Cx) -> Step {
    ex.request.host.clear();
    let is_known = match error.place() {
        HeadPlace::Line => {
            // A URI that cannot be read goes into no redirect.
            ex.asked.head.forget_target();
            ex.request.uri.clear();
            false
        }
        HeadPlace::Host => false,
        HeadPlace::Fields => {
            let says_host =
                ex.asked.head.target_host().is_some() || ex.asked.head.fields.contains_known(larder_http::Known::Host);
            says_host && choose_server(listener, ex, cx).is_ok()
        }
    };
    if !is_known {
        ex.request.host.clear();
        enter(first_server(listener, ex, cx), ex, cx);
    }
    cx.local.logs.error(cx, ex, LogLevel::Info, format_args!("{error}"));
    ex.reply.framing.keep_alive = false;
    ex.asked.head_is_bad = true;
    cx.stats().bad_requests.add(1);
    ex.request.method = if ex.asked.head.method == Method::Head { Method::Head } else { Method::Get };
    Step::Synth(Synth::Status(refusal(error.status(), ex, cx)))
}

/// The status of a request that cannot be read. Where a VCL takes requests as they come, it is what Varnish says.
pub fn refusal(status: u16, ex: &Exchange, cx: &Cx) -> u16 {
    match status {
        status::REQUEST_TIMEOUT | status::NOT_IMPLEMENTED if cx.server(ex).takes_raw => status::BAD_REQUEST,
        status => status,
    }
}

/// Puts a request at the root of a server.
fn enter(server: usize, ex: &mut Exchange, cx: &Cx) {
    ex.request.server = server;
    ex.request.location = cx.site().servers[server].root;
}

/// The server before a host is known: that of the TLS handshake, or the default of the address.
fn first_server(listener: &Listener, ex: &mut Exchange, cx: &Cx) -> usize {
    let name = match &ex.asked.client.secured {
        Secured::Not | Secured::PlainOnTls | Secured::Said => None,
        Secured::Tls(tls) => tls.session.borrow().server_name().map(|name| name.as_bytes().to_vec()),
    };
    let found = name.and_then(|name| listener.names.find(&name, |regex| pattern::matches(regex, &name, ex, cx)));
    found.unwrap_or(listener.default)
}

/// Finds out whose host is asked for, and the server for it, after a head that was refused.
fn choose_server(listener: &Listener, ex: &mut Exchange, cx: &Cx) -> Result<(), HeadError> {
    larder_http::copy_target_host(&mut ex.asked.head);
    if let Some(host) = ex.asked.head.fields.get_known(larder_http::Known::Host) {
        larder_http::normalise_host(host, &mut ex.request.host)?;
    }
    enter(server_for(listener, ex, cx), ex, cx);
    Ok(())
}

fn begin(listener: &Listener, ex: &mut Exchange, cx: &Cx) -> Result<(), HeadError> {
    ex.request.method = ex.asked.head.method;
    match larder_http::take_host(&mut ex.asked.head, &mut ex.request.host) {
        Err(HeadError::MissingHost | HeadError::MissingAuthority) if cx.server(ex).takes_raw => {}
        host => host?,
    }
    if listener.by_host {
        enter(server_for(listener, ex, cx), ex, cx);
    }
    let framing = larder_http::body_framing(&ex.asked.head)?;
    ex.request.body = match framing {
        Framing::None | Framing::Length(0) => RequestBody::None,
        Framing::Length(bytes) => RequestBody::Unread(Some(bytes)),
        Framing::Chunked => RequestBody::Unread(None),
    };
    ex.reply.framing.keep_alive = larder_http::keep_alive_wanted(&ex.asked.head);
    let merge = cx.server(ex).client.merge_slashes;
    let target = ex.asked.head.target();
    let parts = match larder_http::normalise(target, merge, &mut ex.request.uri) {
        Err(error) if cx.server(ex).takes_raw && error.is_of_the_path() => {
            larder_http::take_path(target, &mut ex.request.uri)
        }
        parts => parts.map_err(|_| HeadError::InvalidRequest)?,
    };
    if let Some(args) = parts.args {
        ex.request.args.extend_from_slice(&ex.asked.head.target()[args]);
    }
    Ok(())
}

/// The virtual server for the host that is asked for (nginx: server names).
fn server_for(listener: &Listener, ex: &mut Exchange, cx: &Cx) -> usize {
    if ex.request.host.is_empty() {
        return listener.names.exact.get(&b""[..]).copied().unwrap_or(listener.default);
    }
    let host = std::mem::take(&mut ex.request.host);
    let found = listener.names.find(&host, |regex| pattern::matches(regex, &host, ex, cx));
    ex.request.host = host;
    found.unwrap_or(listener.default)
}
