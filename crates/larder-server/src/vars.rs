//! What variables say of a request. One without a value appends nothing and returns false, which logs write as `-`.

use std::os::unix::ffi::OsStrExt as _;

use larder_http::proxy_protocol::Addresses;
use larder_http::{Coding, Known, Method, Version};

use crate::auth;
use crate::context::Cx;
use crate::exchange::{Choice, Exchange, RequestBody, Slot};
use crate::modules::{browser, secure_link, userid};

use crate::site::{Handler, Loc, Protocol, Scheme, UserVarSource};
use crate::variable::{Fixed, ProxyVar, Var};

mod date;
mod map;
mod path;
pub mod pattern;
mod slice;
#[cfg(test)]
mod tests;
mod text;
mod tls;

use date::Place;
pub use path::{append_filename, document_root, facts, links};

/// How deep variables may ask for each other before it counts as a cycle.
const DEPTH_MAX: u8 = 100;

/// Appends the value; false when there is none.
pub fn append(var: &Var, ex: &mut Exchange, cx: &Cx, out: &mut Vec<u8>) -> bool {
    match var {
        Var::Fixed(fixed) => append_fixed(*fixed, ex, cx, out),
        Var::Http(name) => append_joined(named(&ex.asked.head.fields, name), name, out),
        Var::SentHttp(name) => append_sent(ex, cx, name, out),
        Var::SentTrailer(name) => match &ex.reply.trailers {
            Some(fields) => append_joined(named(fields, name), name, out),
            None => false,
        },
        Var::UpstreamHttp(name) => match &ex.upstream.fields {
            Some(fields) => append_joined(named(fields, name), name, out),
            None => false,
        },
        Var::UpstreamCookie(name) => {
            let fields = ex.upstream.fields.as_ref();
            append_some(fields.and_then(|fields| set_cookie(fields.all_known(Known::SetCookie), name)), out)
        }
        Var::Cookie(name) => {
            let value = larder_http::cookie(ex.asked.head.fields.all_known(Known::Cookie), name.as_bytes());
            append_some(value, out)
        }
        Var::Arg(name) => append_some(arg(&ex.request.args, name.as_bytes()).filter(|_| !name.is_empty()), out),
        Var::Tls(var) => tls::append(*var, &ex.asked.client, out),
        Var::ProxyProtocol(var) => append_proxy(*var, ex, out),
        Var::ProxyTlv(name) => {
            append_some(ex.asked.client.proxy.as_ref().and_then(|header| header.tlv(name)).as_deref(), out)
        }
        Var::Slot(slot) => append_slot(*slot, ex, cx, out),
    }
}

fn append_proxy(var: ProxyVar, ex: &Exchange, out: &mut Vec<u8>) -> bool {
    let Some(header) = &ex.asked.client.proxy else { return false };
    let Addresses::Inet { source, destination } = &header.addresses else { return false };
    match var {
        ProxyVar::Addr => append_display(source.ip(), out),
        ProxyVar::Port => append_display(source.port(), out),
        ProxyVar::ServerAddr => append_display(destination.ip(), out),
        ProxyVar::ServerPort => append_display(destination.port(), out),
    }
}

fn append_some(value: Option<&[u8]>, out: &mut Vec<u8>) -> bool {
    let Some(value) = value else { return false };
    out.extend_from_slice(value);
    true
}

fn append_text(value: &str, out: &mut Vec<u8>) -> bool {
    append_some(Some(value.as_bytes()), out)
}

fn append_display(value: impl std::fmt::Display, out: &mut Vec<u8>) -> bool {
    use std::io::Write as _;
    write!(out, "{value}").is_ok()
}

/// Fields of several lines become one value: joined with `; ` for cookies, with `, ` for others.
fn append_joined<'a>(values: impl Iterator<Item = &'a [u8]>, name: &str, out: &mut Vec<u8>) -> bool {
    let separator: &[u8] = if name.eq_ignore_ascii_case("cookie") { b"; " } else { b", " };
    let mut found = false;
    for value in values {
        if found {
            out.extend_from_slice(separator);
        }
        out.extend_from_slice(value);
        found = true;
    }
    found
}

fn append_sent(ex: &Exchange, cx: &Cx, name: &str, out: &mut Vec<u8>) -> bool {
    match name {
        // By the time nginx logs, it has let go of the connection, and says so.
        "connection" if ex.reply.status == 101 => append_text("upgrade", out),
        "connection" => {
            append_text(if ex.reply.framing.keep_alive && !ex.tally.is_logging { "keep-alive" } else { "close" }, out)
        }
        "keep-alive" => match cx.loc(ex).settings.keepalive_header {
            Some(seconds) if ex.reply.framing.keep_alive => append_display(format_args!("timeout={seconds}"), out),
            _ => false,
        },
        "content-length" => match ex.reply.framing.length {
            Some(length) => append_display(length, out),
            None => false,
        },
        "transfer-encoding" if ex.reply.framing.chunked => append_text("chunked", out),
        // `map $sent_http_content_type $expires` goes by the type as it is before `charset` adds to it.
        "content-type" if !ex.reply.bare_type.is_empty() => append_some(Some(&ex.reply.bare_type), out),
        _ => append_joined(named(&ex.reply.fields, name), name, out),
    }
}

/// The values of the fields of a variable's name. `name` has hyphens; a field matches with underscores too, as nginx
/// makes underscores of both.
fn named<'a>(fields: &'a larder_http::Fields, name: &'a str) -> impl Iterator<Item = &'a [u8]> {
    let same = |a: u8, b: u8| a.eq_ignore_ascii_case(&b) || (matches!(a, b'-' | b'_') && matches!(b, b'-' | b'_'));
    fields
        .iter()
        .filter(move |(field, _)| field.len() == name.len() && field.iter().zip(name.bytes()).all(|(&a, b)| same(a, b)))
        .map(|(_, value)| value)
}

/// The value of a cookie that a response sets.
fn set_cookie<'a>(lines: impl Iterator<Item = &'a [u8]>, name: &str) -> Option<&'a [u8]> {
    lines.into_iter().find_map(|line| {
        let pair = line.split(|&byte| byte == b';').next()?;
        let (before, rest) = pair.split_at_checked(name.len())?;
        if !before.eq_ignore_ascii_case(name.as_bytes()) {
            return None;
        }
        // nginx counts spaces alone: a name with a tab behind it is another one.
        let value = after_spaces(rest).strip_prefix(b"=")?;
        Some(after_spaces(value))
    })
}

fn after_spaces(mut text: &[u8]) -> &[u8] {
    while let [b' ', rest @ ..] = text {
        text = rest;
    }
    text
}

/// The value of an argument, as it was sent; names compare without case, as in nginx.
pub fn arg<'a>(args: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    args.split(|&byte| byte == b'&').find_map(|pair| {
        let at = pair.iter().position(|&byte| byte == b'=')?;
        pair[..at].eq_ignore_ascii_case(name).then(|| &pair[at + 1..])
    })
}

fn append_slot(slot: usize, ex: &mut Exchange, cx: &Cx, out: &mut Vec<u8>) -> bool {
    let source = cx.site().user_vars[slot].source;
    let known = ex.eval.slot(slot);
    if known == Slot::Unset
        && source == UserVarSource::Set
        && let Some(field) = &cx.site().user_vars[slot].otherwise
    {
        return append(field, ex, cx, out);
    }
    let volatile = match source {
        UserVarSource::Map(map) => cx.site().maps[map].volatile,
        UserVarSource::Geo(geo) => cx.site().geos[geo].volatile,
        UserVarSource::Set | UserVarSource::Split(_) => false,
    };
    let value = if known != Slot::Unset && !(volatile && known == Slot::Absent) {
        known
    } else if ex.eval.depth >= DEPTH_MAX {
        cx.local.logs.error(
            cx,
            ex,
            larder_conf::model::LogLevel::Error,
            format_args!("cycle while evaluating variable \"{}\"", cx.site().user_vars[slot].name),
        );
        ex.eval.evaluation.fail();
        return false;
    } else {
        ex.eval.depth += 1;
        let value = match source {
            UserVarSource::Set => Slot::Absent,
            UserVarSource::Map(index) => map::map(index, ex, cx),
            UserVarSource::Geo(index) => map::geo(index, ex, cx),
            UserVarSource::Split(index) => map::split(index, ex, cx),
        };
        ex.eval.depth -= 1;
        // What nobody has set yet may still be set by a later `set`, a volatile map or geo is asked anew each time, and what could
        // not be evaluated is no value for a request inside this one.
        if source != UserVarSource::Set && !volatile && !ex.eval.evaluation.has_failed() {
            ex.eval.set_slot(slot, value);
        }
        value
    };
    append_some(ex.eval.values.borrow().bytes(value), out)
}

/// The time in the form that a page has chosen.
fn append_date(place: Place, ex: &Exchange, cx: &Cx, out: &mut Vec<u8>) -> bool {
    let format = ex.request.nested.time_format.as_deref().map(String::from_utf8_lossy);
    let date = date::date(cx.now(), place, format.as_deref().unwrap_or(date::DEFAULT_FORMAT));
    append_some(date.as_deref().map(str::as_bytes), out)
}

/// How much smaller a body went out than it was, as nginx has it: two decimals, and nothing for what was not compressed.
fn append_ratio(coding: Coding, ex: &Exchange, out: &mut Vec<u8>) -> bool {
    match (ex.reply.choice, ex.tally.squeezed) {
        (Choice::Compress(chosen), Some((before, after @ 1..))) if chosen == coding => {
            let hundredths = before.saturating_mul(100) / after;
            append_display(format_args!("{}.{:02}", hundredths / 100, hundredths % 100), out)
        }
        _ => false,
    }
}

fn location<'a>(ex: &Exchange, cx: &'a Cx) -> &'a Loc {
    cx.loc(ex)
}

fn append_fixed(fixed: Fixed, ex: &mut Exchange, cx: &Cx, out: &mut Vec<u8>) -> bool {
    match fixed {
        Fixed::Args | Fixed::QueryString => {
            append_some(Some(&ex.request.args).filter(|args| !args.is_empty()).map(Vec::as_slice), out)
        }
        Fixed::BinaryRemoteAddr => match ex.remote_ip() {
            Some(std::net::IpAddr::V4(ip)) => append_some(Some(&ip.octets()), out),
            Some(std::net::IpAddr::V6(ip)) => append_some(Some(&ip.octets()), out),
            None => append_text("unix:", out),
        },
        // Chunks are counted with their frames, as nginx counts: all that is not the head.
        Fixed::BodyBytesSent if ex.reply.framing.chunked => {
            append_display(ex.tally.sent.0.saturating_sub(ex.reply.framing.head_bytes), out)
        }
        Fixed::BodyBytesSent => append_display(ex.tally.sent.1, out),
        Fixed::BytesSent => append_display(ex.tally.sent.0, out),
        Fixed::Connection => append_display(ex.asked.client.id, out),
        Fixed::ConnectionRequests => append_display(ex.asked.number, out),
        Fixed::ConnectionTime => append_millis(crate::worker::age(&ex.asked.client, cx.now()).as_millis(), out),
        Fixed::RequestTime => append_millis(cx.now().since(ex.asked.started).as_millis(), out),
        Fixed::ConnectionsActive => append_display(cx.worker.shared_stats().active, out),
        Fixed::ConnectionsReading => append_display(cx.worker.shared_stats().reading, out),
        Fixed::ConnectionsWriting => append_display(cx.worker.shared_stats().writing, out),
        Fixed::ConnectionsWaiting => append_display(cx.worker.shared_stats().waiting, out),
        Fixed::ContentLength => append_content_length(ex, out),
        Fixed::ContentType => append_joined(ex.asked.head.fields.all_known(Known::ContentType), "content-type", out),
        Fixed::DateGmt => append_date(Place::Gmt, ex, cx, out),
        Fixed::DateLocal => append_date(Place::Local, ex, cx, out),
        Fixed::DocumentRoot => path::append_document_root(ex, cx, out),
        Fixed::RealpathRoot => path::append_realpath_root(ex, cx, out),
        Fixed::RequestFilename => path::append_filename(ex, cx, out),
        Fixed::DocumentUri | Fixed::Uri => append_some(Some(&ex.request.uri), out),
        Fixed::FastcgiScriptName => path::append_script_name(ex, cx, out),
        Fixed::FastcgiPathInfo => path::append_path_info(ex, cx, out),
        Fixed::Host => {
            if ex.request.host.is_empty() {
                return append_some(Some(&cx.server(ex).name), out);
            }
            append_some(Some(&ex.request.host), out)
        }
        Fixed::Hostname => append_text(&cx.site().hostname, out),
        Fixed::Https => append_text(if ex.asked.client.is_secure() { "on" } else { "" }, out),
        Fixed::IsArgs => append_text(if ex.request.args.is_empty() { "" } else { "?" }, out),
        Fixed::LimitRate => append_display(ex.request.limits.rate.unwrap_or(0), out),
        Fixed::Msec => append_millis(u128::from(cx.now().0), out),
        Fixed::NginxVersion => append_text(crate::NGINX_VERSION, out),
        Fixed::Pid => append_display(std::process::id(), out),
        Fixed::Pipe => append_text(if cx.worker.is_pipelined.get() { "p" } else { "." }, out),
        Fixed::ProxyAddXForwardedFor => {
            if append_joined(ex.asked.head.fields.all_known(Known::XForwardedFor), "x-forwarded-for", out) {
                out.extend_from_slice(b", ");
            }
            append_remote_addr(ex, out)
        }
        Fixed::ProxyHost => {
            append_some(Some(&ex.visit.proxy_host).filter(|host| !host.is_empty()).map(Vec::as_slice), out)
        }
        Fixed::ProxyPort => {
            if ex.visit.proxy_host.is_empty() {
                return false;
            }
            let port = ex
                .visit
                .proxy_host
                .rsplit(|&b| b == b':')
                .next()
                .filter(|port| port.iter().all(u8::is_ascii_digit) && port.len() < ex.visit.proxy_host.len());
            let is_tls = matches!(&cx.loc(ex).handler,
                Handler::Origin(origin) if origin.backend.scheme() == Scheme::Https);
            append_some(Some(port.unwrap_or(if is_tls { b"443" } else { b"80" })), out)
        }
        Fixed::RealipRemoteAddr => match ex.asked.client.peer {
            Some(peer) => append_display(peer.ip(), out),
            None => append_text("unix:", out),
        },
        Fixed::RealipRemotePort => match ex.asked.client.peer {
            Some(peer) => append_display(peer.port(), out),
            None => true,
        },
        Fixed::RemoteAddr => append_remote_addr(ex, out),
        Fixed::RemotePort => match (ex.asked.real_ip, ex.asked.client.peer) {
            (Some((_, 0)), _) | (None, None) => true,
            (Some((_, port)), _) => append_display(port, out),
            (None, Some(peer)) => append_display(peer.port(), out),
        },
        Fixed::RemoteUser => {
            let credentials = auth::credentials(ex.asked.head.fields.get_known(Known::Authorization));
            append_some(credentials.as_ref().map(|credentials| credentials.user()), out)
        }
        Fixed::Request => append_some(Some(ex.asked.head.line()).filter(|line| !line.is_empty()), out),
        Fixed::RequestBody => match &ex.request.body {
            RequestBody::Memory(bytes) if !bytes.is_empty() => append_some(Some(bytes), out),
            _ => false,
        },
        Fixed::RequestBodyFile => match &ex.request.body {
            RequestBody::File(temp, _) => append_some(temp.path().map(|path| path.as_os_str().as_bytes()), out),
            RequestBody::None | RequestBody::Unread(_) | RequestBody::Memory(_) | RequestBody::Passing(_) => false,
        },
        Fixed::RequestCompletion => append_text(if ex.tally.is_complete { "OK" } else { "" }, out),
        Fixed::RequestId => {
            let id = *ex.eval.values.borrow_mut().request_id.get_or_insert_with(|| cx.worker.random_hex());
            append_some(Some(&id), out)
        }
        Fixed::RequestLength => {
            append_display(ex.asked.head.bytes() as u64 + body_bytes(&ex.request.body) + framing_bytes(ex), out)
        }
        // Of the client's request, also inside of it.
        Fixed::RequestMethod if ex.is_sub() => append_some(Some(ex.asked.head.method_name()), out),
        Fixed::RequestMethod => append_some(Some(method_name(ex)), out),
        Fixed::RequestUri => append_some(Some(ex.asked.head.target()).filter(|target| !target.is_empty()), out),
        Fixed::Scheme => append_text(if ex.asked.client.is_secure() { "https" } else { "http" }, out),
        Fixed::ServerAddr => match ex.asked.client.local {
            Some(local) => append_display(local.ip(), out),
            None => append_text("unix:", out),
        },
        Fixed::ServerName => append_some(Some(&cx.server(ex).name), out),
        Fixed::ServerPort => match ex.asked.client.local {
            Some(local) => append_display(local.port(), out),
            None => true,
        },
        Fixed::RequestPort => match request_port(ex) {
            Some(port) => append_display(port, out),
            None => true,
        },
        Fixed::IsRequestPort => append_text(if request_port(ex).is_some() { ":" } else { "" }, out),
        Fixed::ServerProtocol => append_text(ex.asked.head.version.name(), out),
        Fixed::SliceRange => slice::append_range(ex, cx, out),
        Fixed::Status => {
            let status = if ex.reply.status == 0 { ex.request.way.error_status.unwrap_or(0) } else { ex.reply.status };
            append_display(format_args!("{status:03}"), out)
        }
        Fixed::TimeIso8601 => cx.local.logs.stamp(cx.now(), |stamp| append_text(&stamp.iso8601, out)),
        Fixed::TimeLocal => cx.local.logs.stamp(cx.now(), |stamp| append_text(&stamp.local, out)),
        Fixed::UpstreamAddr => per_attempt(ex, out, |attempt, _, out| append_text(&attempt.address, out)),
        Fixed::UpstreamStatus => per_attempt(ex, out, |attempt, _, out| match attempt.status {
            Some(status) => append_display(status, out),
            None => append_text("-", out),
        }),
        Fixed::UpstreamResponseTime => {
            let report = ex.tally.report.clone();
            let is_logging = ex.tally.is_logging;
            per_attempt(ex, out, |attempt, last, out| {
                let report = report.as_ref().filter(|_| last);
                let body = report.and_then(|report| report.total.get());
                // Before the log is written, an answer that is still arriving has no time yet.
                let is_over = report.is_none() || body.is_some() || is_logging;
                append_duration(is_over.then(|| attempt.elapsed + body.unwrap_or_default()), out)
            })
        }
        Fixed::UpstreamConnectTime => per_attempt(ex, out, |attempt, _, out| append_duration(attempt.connect, out)),
        Fixed::UpstreamHeaderTime => per_attempt(ex, out, |attempt, _, out| append_duration(attempt.header, out)),
        Fixed::UpstreamResponseLength => {
            let report = ex.tally.report.clone();
            per_attempt(ex, out, |_, last, out| {
                append_display(report.as_ref().filter(|_| last).map_or(0, |report| report.body_bytes.get()), out)
            })
        }
        Fixed::UpstreamBytesReceived => {
            let report = ex.tally.report.clone();
            per_attempt(ex, out, |attempt, last, out| {
                let whole = report.as_ref().filter(|_| last).map_or(0, |report| report.received.get());
                append_display(attempt.received_bytes.max(whole), out)
            })
        }
        Fixed::UpstreamBytesSent => {
            let report = ex.tally.report.clone();
            per_attempt(ex, out, |attempt, last, out| {
                let whole = report.as_ref().filter(|_| last).and_then(|report| report.sent.get());
                append_display(attempt.sent_bytes.max(whole.unwrap_or(0)), out)
            })
        }
        Fixed::UpstreamCacheStatus => append_some(ex.upstream.cache_status.map(|status| status.name().as_bytes()), out),
        Fixed::CacheKey => {
            append_some(Some(&ex.upstream.cache_key).filter(|key| !key.is_empty()).map(Vec::as_slice), out)
        }
        Fixed::CacheDetail => {
            append_some(Some(ex.upstream.cache_detail.as_bytes()).filter(|detail| !detail.is_empty()), out)
        }
        Fixed::LimitReqStatus => append_some(ex.request.limits.req_status.map(str::as_bytes), out),
        Fixed::LimitConnStatus => append_some(ex.request.limits.conn_status.map(str::as_bytes), out),
        Fixed::Http2 => {
            let name = if ex.asked.client.is_secure() { "h2" } else { "h2c" };
            append_text(if ex.asked.head.version == Version::Http2 { name } else { "" }, out)
        }
        Fixed::Http3 => true,
        Fixed::GzipRatio => append_ratio(Coding::Gzip, ex, out),
        Fixed::BrotliRatio => append_ratio(Coding::Brotli, ex, out),
        Fixed::ZstdRatio => append_ratio(Coding::Zstd, ex, out),
        Fixed::InvalidReferer => {
            let referers = &location(ex, cx).texts.modules.referers;
            let referer = ex.asked.head.fields.get_known(Known::Referer);
            match referers.as_ref().map_or(Ok(true), |referers| referers.are_valid(referer)) {
                Ok(is_valid) => append_text(if is_valid { "" } else { "1" }, out),
                Err(error) => {
                    let referer = referer.unwrap_or_default().to_vec();
                    pattern::cannot_match(&error, &referer, ex, cx);
                    append_text("1", out)
                }
            }
        }
        Fixed::SecureLink => secure_link::append(ex, cx, out),
        Fixed::SecureLinkExpires => secure_link::append_expires(ex, cx, out),
        Fixed::ModernBrowser => append_browser(browser::Kind::Modern, ex, cx, out),
        Fixed::AncientBrowser => append_browser(browser::Kind::Ancient, ex, cx, out),
        Fixed::Msie => {
            let is_msie = ex.asked.head.fields.get_known(Known::UserAgent).is_some_and(browser::is_msie);
            append_text(if is_msie { "1" } else { "" }, out)
        }
        Fixed::UidGot => userid::append_got(ex, cx, out),
        Fixed::UidSet => userid::append_set(ex, cx, out),
        Fixed::UidReset => true,
        Fixed::TcpinfoRtt | Fixed::TcpinfoRttvar | Fixed::TcpinfoSndCwnd | Fixed::TcpinfoRcvSpace => false,
    }
}

/// The port that the client names in its `Host`.
fn request_port(ex: &Exchange) -> Option<u16> {
    let host = ex.asked.head.fields.get_known(Known::Host)?;
    larder_http::normalise_host(host, &mut Vec::new()).ok()?.port
}

/// The value of a kind of browser, where it is that of the client.
fn append_browser(kind: browser::Kind, ex: &Exchange, cx: &Cx, out: &mut Vec<u8>) -> bool {
    let browsers = &location(ex, cx).settings.modules.browsers;
    if browser::kind(browsers, ex.asked.head.fields.get_known(Known::UserAgent)) != kind {
        return true;
    }
    append_text(
        match kind {
            browser::Kind::Modern => &browsers.modern_value,
            browser::Kind::Ancient => &browsers.ancient_value,
        },
        out,
    )
}

fn append_remote_addr(ex: &Exchange, out: &mut Vec<u8>) -> bool {
    match ex.remote_ip() {
        Some(ip) => append_display(ip, out),
        None => append_text("unix:", out),
    }
}

/// Seconds with three digits after the dot.
fn append_millis(millis: u128, out: &mut Vec<u8>) -> bool {
    append_display(format_args!("{}.{:03}", millis / 1000, millis % 1000), out)
}

fn append_duration(duration: Option<std::time::Duration>, out: &mut Vec<u8>) -> bool {
    match duration {
        Some(duration) => append_millis(duration.as_millis(), out),
        None => append_text("-", out),
    }
}

fn append_content_length(ex: &Exchange, out: &mut Vec<u8>) -> bool {
    match &ex.request.body {
        RequestBody::Memory(bytes) => append_display(bytes.len(), out),
        RequestBody::File(_, len) => append_display(len, out),
        RequestBody::None | RequestBody::Unread(_) | RequestBody::Passing(_) => {
            append_some(ex.asked.head.fields.get_known(Known::ContentLength), out)
        }
    }
}

/// How many bytes of the request's body have been read.
pub fn body_bytes(body: &RequestBody) -> u64 {
    match body {
        RequestBody::None | RequestBody::Unread(_) => 0,
        RequestBody::Memory(bytes) => bytes.len() as u64,
        RequestBody::File(_, len) => *len,
        RequestBody::Passing(feed) => feed.received(),
    }
}

/// How many bytes the framing of the request's body took.
fn framing_bytes(ex: &Exchange) -> u64 {
    match &ex.request.body {
        RequestBody::Passing(feed) => feed.framing_bytes(),
        RequestBody::None | RequestBody::Unread(_) | RequestBody::Memory(_) | RequestBody::File(..) => {
            ex.request.chunk_bytes
        }
    }
}

/// The name of the method that counts now.
pub fn method_name(ex: &Exchange) -> &[u8] {
    match (ex.request.method, ex.asked.head.method) {
        (now, sent) if now == sent => ex.asked.head.method_name(),
        (Method::Head, _) => b"HEAD",
        _ => b"GET",
    }
}

/// One value for each attempt, as `$upstream_addr` and its kin: `, ` between those of one fetch, ` : ` between the last
/// of one and the first of another, to which an internal redirect led.
fn per_attempt(
    ex: &Exchange,
    out: &mut Vec<u8>,
    mut one: impl FnMut(&larder_origin::Attempt, bool, &mut Vec<u8>) -> bool,
) -> bool {
    for (n, attempt) in ex.tally.attempts.iter().enumerate() {
        match (n, attempt.begins) {
            (0, _) => {}
            (_, true) => out.extend_from_slice(b" : "),
            (_, false) => out.extend_from_slice(b", "),
        }
        one(attempt, n + 1 == ex.tally.attempts.len(), out);
    }
    !ex.tally.attempts.is_empty()
}

/// `fastcgi_*` of the location, when it passes to FastCGI.
fn fastcgi<'a>(ex: &Exchange, cx: &'a Cx) -> Option<&'a crate::site::FastCgiParts> {
    match &location(ex, cx).handler.origin()?.backend.protocol {
        Protocol::FastCgi(parts) => Some(parts),
        Protocol::Http(_) => None,
    }
}
