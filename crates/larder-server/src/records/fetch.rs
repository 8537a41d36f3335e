//! What the transaction log is told of fetches.

use std::io::Write as _;
use std::rc::Rc;

use larder_cache::Zone;
use larder_http::{Known, ResponseHead, list, parse_date, reason, status};
use larder_origin::{AnswerBody, Attempt, Line, Protocol, Usage};
use larder_vsl::{Kind, Tag};

use super::{fields, header_lines, request_head};
use crate::context::Cx;
use crate::exchange::{Exchange, Purpose, Report};
use crate::site::Policy;
use crate::vsl::Open;
use crate::xid;

/// A fetch begins, under the number that a VCL has given it, or under one that it gets now.
#[inline]
pub fn begin(xid: Option<u64>, ex: &mut Exchange, cx: &Cx) {
    if ex.log.is_on() {
        let why = if ex.vcl.fetch.is_uncacheable { "pass" } else { "fetch" };
        open(xid, why, ex, cx);
    }
}

/// A pipe begins.
pub fn begin_pipe(ex: &mut Exchange, cx: &Cx) {
    if ex.log.is_on() {
        ex.log.fetch = None;
        open(None, "pipe", ex, cx);
        request(ex);
    }
}

#[cold]
fn open(xid: Option<u64>, why: &'static str, ex: &mut Exchange, cx: &Cx) {
    let xid = xid.unwrap_or_else(xid::next);
    let is_refetch = ex.request.nested.purpose == Purpose::Refetch;
    let (parent, why) = match (ex.log.fetch.take(), &ex.log.client) {
        (Some(before), _) => {
            before.stamp("Retry");
            (before, "retry")
        }
        (None, Some(client)) => (Rc::clone(client), if is_refetch { "bgfetch" } else { why }),
        (None, None) => return,
    };
    parent.say(Tag::Link, format_args!("bereq {xid} {why}"));
    let open = Open::begin(&cx.worker.shared.log, Kind::BeReq, xid, format_args!("bereq {} {why}", parent.vxid()));
    open.stamp("Start");
    ex.log.fetch = Some(Rc::new(open));
    if let Some(Policy::Vcl(policy)) = cx.origin(ex).map(|origin| &origin.policy) {
        super::vcl(&policy.vcl, None, ex, cx);
    }
    if is_refetch {
        // Nobody's request waits for it.
        ex.log.client = None;
    }
}

/// The request that a VCL is to change.
pub fn request(ex: &Exchange) {
    let Some(open) = &ex.log.fetch else { return };
    let tags = [Tag::BereqMethod, Tag::BereqUrl, Tag::BereqProtocol, Tag::BereqHeader];
    request_head(open, &ex.vcl.fetch.bereq, tags);
}

/// The request as it goes out, where no VCL has written it.
pub fn written(protocol: &Protocol, ex: &Exchange) {
    let Some(open) = &ex.log.fetch else { return };
    let head = match protocol {
        Protocol::Http { head, .. } => head,
        Protocol::FastCgi { params, .. } => {
            open.put(Tag::BereqMethod, ex.asked.head.method_name());
            open.put(Tag::BereqUrl, ex.asked.head.target());
            open.put(Tag::BereqProtocol, b"FastCGI/1.0");
            // Names and values, each behind its length: what FastCGI calls parameters.
            for (name, value) in larder_origin::fastcgi::params(params) {
                open.header(Tag::BereqHeader, name, value);
            }
            return;
        }
    };
    let line = head.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let mut words = line.splitn(3, |byte| *byte == b' ');
    for tag in [Tag::BereqMethod, Tag::BereqUrl, Tag::BereqProtocol] {
        open.put(tag, words.next().unwrap_or_default());
    }
    header_lines(head).for_each(|line| open.put(Tag::BereqHeader, line));
}

/// Which backends were asked. What went wrong with them is told by the error log.
pub fn asked(attempts: &[Attempt], name: Option<&str>, ex: &Exchange) {
    let Some(open) = &ex.log.fetch else { return };
    for attempt in attempts {
        let (address, port) = match attempt.address.rsplit_once(':') {
            Some((address, port)) if !attempt.address.starts_with("unix:") => (address, port),
            _ => (&*attempt.address, "0"),
        };
        let address = address.trim_start_matches('[').trim_end_matches(']');
        let how = match attempt.line {
            Line::Kept => "reuse",
            Line::New if attempt.connect.is_some() => "connect",
            Line::New | Line::None => continue,
        };
        let name = name.unwrap_or(&attempt.address);
        open.say(Tag::BackendOpen, format_args!("- {name} {address} {port} - - {how}"));
        if attempt.error.is_some() {
            let is_late = attempt.status == Some(status::GATEWAY_TIMEOUT);
            line_over(open, name, false, if is_late { "Receive timeout" } else { "Received bad req/resp" });
        }
    }
}

/// The request goes out.
pub fn sent(ex: &Exchange) {
    if let Some(open) = &ex.log.fetch {
        open.stamp("Fetch");
    }
}

/// The head of an answer.
pub fn answered(head: &ResponseHead, ex: &Exchange) {
    if let Some(client) = &ex.log.client {
        client.stamp("Fetch");
    }
    let Some(open) = &ex.log.fetch else { return };
    open.stamp("Beresp");
    made(open, head);
}

/// There is no answer.
pub fn failed(ex: &Exchange) {
    for open in [&ex.log.client, &ex.log.fetch].into_iter().flatten() {
        open.stamp(if open.vxid() == ex.vcl.client.xid { "Fetch" } else { "Beresp" });
    }
}

/// The head of an answer that the server makes up.
pub fn made_up(ex: &mut Exchange) {
    let Some(open) = &ex.log.fetch else { return };
    ex.log.filters = None;
    open.stamp("Error");
    made(open, &ex.vcl.fetch.beresp);
}

fn made(open: &Open, head: &ResponseHead) {
    open.put(Tag::BerespProtocol, b"HTTP/1.1");
    open.say(Tag::BerespStatus, format_args!("{}", head.status));
    let reason = if head.reason.is_empty() { reason(head.status).as_bytes() } else { &head.reason };
    open.put(Tag::BerespReason, reason);
    fields(open, Tag::BerespHeader, &head.fields);
}

/// Who sets the times of an answer first: its fields.
pub const RFC: &str = "RFC";
/// Who sets them then.
pub const VCL: &str = "VCL";
/// What says that requests are passed for that time.
pub const HFP: &str = "HFP";

/// The times of an answer: who has set them, and the time now, in seconds since 1970.
pub fn ttl(who: &'static str, now: f64, ex: &Exchange) {
    let Some(open) = &ex.log.fetch else { return };
    let answer = &ex.vcl.fetch.answer;
    let (grace, keep, origin) = (answer.grace, answer.keep, answer.origin);
    let kind = if answer.is_uncacheable { "uncacheable" } else { "cacheable" };
    let ttl = answer.fresh_until - now;
    open.put_with(Tag::Ttl, |out| {
        // Writing to memory does not fail.
        let _ = write!(out, "{who} {ttl:.0} {grace:.0} {keep:.0} ");
        let _ = if who == RFC { write!(out, "{now:.0} {origin:.0} ") } else { write!(out, "{origin:.0} ") };
        if who == RFC {
            let fields = &ex.vcl.fetch.beresp.fields;
            let date = |known| fields.get_known(known).and_then(parse_date).unwrap_or(0);
            let max_age = fields.get_known(Known::CacheControl).and_then(max_age).unwrap_or(0);
            let _ = write!(out, "{} {} {max_age} ", date(Known::Date), date(Known::Expires));
        }
        out.extend_from_slice(kind.as_bytes());
    });
}

/// The number of `max-age` in a `Cache-Control`.
fn max_age(value: &[u8]) -> Option<u64> {
    let says = list::members(value).find(|member| member.len() > 8 && member[..8].eq_ignore_ascii_case(b"max-age="))?;
    std::str::from_utf8(&says[8..]).ok()?.parse().ok()
}

/// Whom an answer came from, and what is told of its body.
pub struct Told {
    open: Rc<Open>,
    /// The name of the backend; `None` if none was asked.
    backend: Option<Box<str>>,
    /// As in [`Recording`](crate::exchange::Recording).
    replaced: Option<(Usage, u64)>,
}

/// The body is taken, and stored in the zone of this name, if it is. What is told of it from now on is told by whoever
/// takes it.
pub fn body(
    length: Option<u64>,
    is_chunked: bool,
    zone: Option<&Zone>,
    backend: Option<&str>,
    ex: &mut Exchange,
) -> Option<Told> {
    let open = ex.log.fetch.take()?;
    open.stamp("Process");
    if let Some(filters) = ex.log.filters.take() {
        open.put(Tag::Filters, &filters);
    }
    if let Some(zone) = zone {
        open.say(
            Tag::Storage,
            format_args!("{} {}", if zone.shelves().is_empty() { "malloc" } else { "file" }, zone.name()),
        );
    }
    let kind = match length {
        Some(0) => "0 none",
        Some(_) => "3 length",
        None if is_chunked => "2 chunked",
        None => "4 eof",
    };
    open.say(Tag::FetchBody, format_args!("{kind} stream"));
    Some(Told { open, backend: backend.map(Box::from), replaced: ex.log.replaced.take() })
}

/// The body is over, perhaps as it failed.
pub fn over(told: &Told, error: Option<&str>, report: &Report) {
    let Told { open, backend, replaced } = told;
    if let Some(error) = error {
        open.put(Tag::FetchError, error.as_bytes());
    }
    let length = report.body_bytes.get();
    let (usage, body) = replaced.unwrap_or((report.ended.get().unwrap_or_default(), length));
    if let (Some(backend), None) = (backend, replaced) {
        let why = if error.is_some() { "Failure receiving req.body" } else { ASKED_TO_CLOSE };
        line_over(open, backend, usage.is_kept, why);
    }
    open.stamp("BerespBody");
    open.say(Tag::Length, format_args!("{length}"));
    account(open, usage, body);
}

/// The answer of a backend was looked at, and another takes its place, or none; `body_bytes` of its body have come.
pub fn replaced(answer: &AnswerBody, body_bytes: u64, backend: Option<&str>, ex: &mut Exchange) {
    let Some(open) = &ex.log.fetch else { return };
    let usage = answer.usage();
    if usage.sent == 0 {
        // No backend has made it.
        return;
    }
    line_over(open, backend.unwrap_or("-"), usage.is_kept, ASKED_TO_CLOSE);
    ex.log.replaced = Some((usage, body_bytes));
}

/// A fetch has ended without a body.
pub fn given_up(ex: &mut Exchange) {
    if let (Some(open), Some((usage, body))) = (ex.log.fetch.take(), ex.log.replaced.take()) {
        account(&open, usage, body);
    }
}

/// Why a connection is closed where nothing is wrong, as Varnish says it.
const ASKED_TO_CLOSE: &str = "Backend/VCL requested close";

/// What has become of a connection to a backend.
fn line_over(open: &Open, backend: &str, is_kept: bool, why: &str) {
    match is_kept {
        true => open.say(Tag::BackendClose, format_args!("- {backend} recycle")),
        false => open.say(Tag::BackendClose, format_args!("- {backend} close {why}")),
    }
}

fn account(open: &Open, usage: Usage, body: u64) {
    let Usage { received, received_head, sent, sent_head, .. } = usage;
    // What the server makes up itself has no head.
    let head = if received == 0 { 0 } else { received_head };
    let sent_body = sent.saturating_sub(sent_head);
    open.say(Tag::BereqAcct, format_args!("{sent_head} {sent_body} {sent} {head} {body} {}", head + body));
}

/// A body was packed or unpacked, whole.
pub fn gzip(what: Recoded, input: usize, output: usize, ex: &Exchange) {
    if let Some(open) = &ex.log.fetch {
        let what = match what {
            Recoded::Packed => 'G',
            Recoded::Unpacked => 'U',
            Recoded::Tested => 'u',
        };
        open.say(Tag::Gzip, format_args!("{what} F - {input} {output}"));
    }
}

/// What was done to a body.
#[derive(Clone, Copy)]
pub enum Recoded {
    /// It is in gzip now.
    Packed,
    /// It was.
    Unpacked,
    /// It is and was, and can be unpacked.
    Tested,
}
