//! Variables about what the cache and the origin said.

use std::time::Duration;

use larder_origin::Attempt;

use crate::context::Cx;
use crate::exchange::{Exchange, Report};
use crate::site::{Handler, Scheme};
use crate::variable::UpstreamVar;

use super::append::{append_display, append_millis, append_some, append_text};

/// Appends the value; false if there is none.
pub fn append(var: UpstreamVar, ex: &Exchange, cx: &Cx, out: &mut Vec<u8>) -> bool {
    match var {
        UpstreamVar::ProxyHost => {
            append_some(Some(&ex.visit.proxy_host).filter(|host| !host.is_empty()).map(Vec::as_slice), out)
        }
        UpstreamVar::ProxyPort => append_proxy_port(ex, cx, out),
        UpstreamVar::UpstreamAddr => per_attempt(ex, out, |attempt, _, out| append_text(&attempt.address, out)),
        UpstreamVar::UpstreamStatus => per_attempt(ex, out, |attempt, _, out| match attempt.status {
            Some(status) => append_display(status, out),
            None => append_text("-", out),
        }),
        UpstreamVar::UpstreamResponseTime => append_response_time(ex, out),
        UpstreamVar::UpstreamConnectTime => {
            per_attempt(ex, out, |attempt, _, out| append_duration(attempt.connect, out))
        }
        UpstreamVar::UpstreamHeaderTime => per_attempt(ex, out, |attempt, _, out| append_duration(attempt.header, out)),
        UpstreamVar::UpstreamResponseLength => with_report(ex, out, |_, report, out| {
            append_display(report.map_or(0, |report| report.body_bytes.get()), out)
        }),
        UpstreamVar::UpstreamBytesReceived => with_report(ex, out, |attempt, report, out| {
            let whole = report.map_or(0, |report| report.received.get());
            append_display(attempt.received_bytes.max(whole), out)
        }),
        UpstreamVar::UpstreamBytesSent => with_report(ex, out, |attempt, report, out| {
            let whole = report.and_then(|report| report.ended.get()).map_or(0, |usage| usage.sent);
            append_display(attempt.sent_bytes.max(whole), out)
        }),
        UpstreamVar::UpstreamCacheStatus => {
            append_some(ex.upstream.cache_status.map(|status| status.name().as_bytes()), out)
        }
        UpstreamVar::CacheKey => append_some(Some(ex.upstream.page_key()).filter(|key| !key.is_empty()), out),
        UpstreamVar::CacheDetail => {
            append_some(Some(ex.upstream.cache_detail.words().as_bytes()).filter(|detail| !detail.is_empty()), out)
        }
    }
}

/// `$proxy_port`: as it is written in the address of the origin, else the usual one of its scheme.
fn append_proxy_port(ex: &Exchange, cx: &Cx, out: &mut Vec<u8>) -> bool {
    let host = &ex.visit.proxy_host;
    if host.is_empty() {
        return false;
    }
    let port = host.rsplit(|&b| b == b':').next();
    let port = port.filter(|port| port.iter().all(u8::is_ascii_digit) && port.len() < host.len());
    let is_tls = matches!(&cx.loc(ex).handler,
        Handler::Origin(origin) if origin.backend.scheme() == Scheme::Https);
    append_some(Some(port.unwrap_or(if is_tls { b"443" } else { b"80" })), out)
}

/// `$upstream_response_time`, to the end of the body.
fn append_response_time(ex: &Exchange, out: &mut Vec<u8>) -> bool {
    let is_logging = ex.tally.is_logging;
    with_report(ex, out, |attempt, report, out| {
        let time = match report.map(|report| report.total.get()) {
            None => Some(attempt.elapsed),
            Some(Some(body)) => Some(attempt.elapsed + body),
            // It is still arriving: the client has left, or the last bytes were sent before the end was read. Before the
            // log is written it has no time yet.
            Some(None) => is_logging.then(|| attempt.age()),
        };
        append_duration(time, out)
    })
}

/// [`per_attempt`], with the report about the body of the answer for the last one.
fn with_report(
    ex: &Exchange,
    out: &mut Vec<u8>,
    mut one: impl FnMut(&Attempt, Option<&Report>, &mut Vec<u8>) -> bool,
) -> bool {
    let report = ex.tally.report.get();
    per_attempt(ex, out, |attempt, last, out| one(attempt, report.filter(|_| last), out))
}

/// One value for each attempt, as `$upstream_addr` and its kin: `, ` between those of one fetch, ` : ` between the last
/// of one and the first of another, to which an internal redirect led.
fn per_attempt(ex: &Exchange, out: &mut Vec<u8>, mut one: impl FnMut(&Attempt, bool, &mut Vec<u8>) -> bool) -> bool {
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

fn append_duration(duration: Option<Duration>, out: &mut Vec<u8>) -> bool {
    match duration {
        Some(duration) => append_millis(duration.as_millis(), out),
        None => append_text("-", out),
    }
}

/// The value of a cookie that a response sets.
pub fn set_cookie<'a>(lines: impl Iterator<Item = &'a [u8]>, name: &str) -> Option<&'a [u8]> {
    lines.into_iter().find_map(|line| {
        let pair = line.split(|&byte| byte == b';').next()?;
        let (before, rest) = pair.split_at_checked(name.len())?;
        if !before.eq_ignore_ascii_case(name.as_bytes()) {
            return None;
        }
        // nginx skips spaces only: a name with a tab after it is another name.
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
