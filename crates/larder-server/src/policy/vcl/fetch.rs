//! The request to a backend: `vcl_backend_fetch`.

use std::sync::Arc;

use larder_cache::{Mark, Object};
use larder_conf::model::LogLevel;
use larder_http::{Fields, Known, Method, RequestHead, status};
use larder_origin::gate::Queueing;
use larder_origin::{Attempt, Limits, Line};
use larder_vcl::steps::{Action, Step};

use crate::context::Cx;
use crate::directors::{Counts, Judge};
use crate::exchange::{AnswerTask, BodyUse, Exchange, RequestBody, Stage};
use crate::pipes::Pipe;
use crate::policy::{Detour, Question, Validators};
use crate::records;
use crate::site::VclPolicy;

use super::answer::backend_error;
use super::directors;
use super::headers::{Onward, retain_passed_on};
use super::retry::{is_body_gone, log_body_gone};
use super::run::run;
use super::variables::page::is_valid;
use super::variables::span;
use super::{seconds, xids};

/// What the backend is asked; the rest is in the request that was prepared.
pub fn question(stores: bool) -> Question {
    Question { stores, as_get: false, leaves_out: false, validators: Validators::default() }
}

/// Makes the request for the backend, and runs `vcl_backend_fetch`. Does nothing if that has been done.
pub fn prepare(policy: &VclPolicy, stale: Option<&Object>, ex: &mut Exchange, cx: &Cx) -> Result<(), Detour> {
    match ex.vcl.fetch.stage {
        Stage::Asking => return Ok(()),
        Stage::New => begin(policy, stale, ex, cx),
        Stage::Again => {
            ex.vcl.fetch.bereq.fields.remove("X-Varnish");
        }
    }
    xids::number_fetch(ex);
    records::fetch::begin(Some(ex.vcl.fetch.xid), ex, cx);
    let fetch = &mut ex.vcl.fetch;
    fetch.bereq.fields.push(b"X-Varnish", fetch.xid.to_string().as_bytes());
    fetch.resolved = None;
    fetch.connect_timeout = None;
    fetch.first_byte_timeout = None;
    fetch.between_bytes_timeout = None;
    fetch.answer = AnswerTask { do_stream: true, is_uncacheable: fetch.is_uncacheable, ..AnswerTask::default() };
    records::fetch::request(ex);
    let ended = run(policy, Step::BackendFetch, ex, cx);
    match ended.action {
        Action::Fetch => {}
        Action::Error => return Err(backend_error(policy, ended.status, ended.reason, ex, cx)),
        _ => return Err(Detour::Fail),
    }
    if is_body_gone(ex) {
        log_body_gone(ex, cx);
        return Err(backend_error(policy, 0, None, ex, cx));
    }
    match address(policy, ex, cx) {
        Ok(()) => Ok(()),
        Err(nowhere) => {
            cx.local.logs.error(cx, ex, LogLevel::Error, format_args!("{nowhere}"));
            Err(backend_error(policy, 0, None, ex, cx))
        }
    }
}

/// How long the fetch may take, by what a sub says or else the backend has. Returns who may wait for a
/// connection; what the location serves without the VCL says that itself.
pub fn limit(policy: &VclPolicy, limits: &mut Limits, ex: &Exchange) -> Option<Queueing> {
    let fetch = &ex.vcl.fetch;
    let backend = fetch.resolved.and_then(|number| policy.vcl.policy.backends.get(number as usize));
    let between = backend.and_then(|backend| backend.between_bytes_timeout);
    limits.read_body = between.unwrap_or_else(|| span(policy.parameters.between_bytes_timeout));
    let set = &policy.parameters;
    limits.unfolds = true;
    if backend.is_some() {
        limits.head_bytes_max = set.http_resp_size;
        limits.line_bytes_max = Some(set.http_resp_hdr_len);
    }
    let own_limit = backend.and_then(|backend| backend.wait_limit);
    let most = own_limit.map_or(set.backend_wait_limit, |most| u32::try_from(most).unwrap_or(u32::MAX));
    let time = backend.and_then(|backend| backend.wait_timeout).unwrap_or_else(|| span(set.backend_wait_timeout));
    for (said, limit) in [
        (fetch.connect_timeout, &mut limits.connect),
        (fetch.first_byte_timeout, &mut limits.read),
        (fetch.between_bytes_timeout, &mut limits.read_body),
    ] {
        if let Some(seconds) = said {
            *limit = span(seconds);
        }
    }
    backend.map(|_| Queueing { most, time })
}

/// Gives the request the place where it goes: the backend that its director chooses.
fn address(policy: &VclPolicy, ex: &mut Exchange, cx: &Cx) -> Result<(), Nowhere> {
    let directors = &policy.vcl.objects.directors;
    let name = |number: u32| directors.name(number).unwrap_or_default().to_owned();
    let asked = ex.vcl.fetch.backend.ok_or(Nowhere::NoBackend)?;
    let share = || directors::share(cx);
    let asker = directors::asker(Step::BackendFetch, ex, &share, cx);
    let number = directors.resolve(asked, &asker).ok_or_else(|| Nowhere::NoneHealthy(name(asked)))?;
    ex.vcl.fetch.resolved = Some(number);
    if !directors.is_healthy(number) {
        cx.stats().origins_sick.add(1);
        directors.count(number, |counts| &counts.sick, 1);
        return Err(Nowhere::Sick(name(number)));
    }
    let number = number as usize;
    let fetch = &mut ex.vcl.fetch;
    match policy.vcl.policy.backends.get(number) {
        Some(backend) if !fetch.bereq.fields.contains_known(Known::Host) => {
            fetch.bereq.fields.push(b"Host", backend.host_header.as_bytes());
        }
        Some(_) => {}
        // What the location serves without the VCL has no number there.
        None => {}
    }
    fetch.stage = Stage::Asking;
    ex.vcl.origin = policy.first + number;
    Ok(())
}

/// Counts what came of asking the backend of this fetch.
pub fn count_attempt(policy: &VclPolicy, attempt: &Attempt, head_bytes: u64, ex: &Exchange, cx: &Cx) {
    let Some(number) = ex.vcl.fetch.resolved else { return };
    let directors = &policy.vcl.objects.directors;
    match attempt.line {
        Line::None => {
            // It has no address, or as many requests as it may.
            let backend = policy.vcl.policy.backends.get(number as usize);
            if backend.is_some_and(|backend| backend.max_connections.is_some()) {
                cx.stats().origins_busy.add(1);
                directors.count(number, |counts| &counts.busy, 1);
            }
        }
        Line::New if attempt.connect.is_none() && attempt.error.is_some() => {
            directors.count(number, |counts| &counts.failed, 1);
        }
        Line::New | Line::Kept => {}
    }
    if attempt.sent_bytes > 0 {
        directors.count(number, |counts| &counts.requests, 1);
        directors.count(number, |counts| &counts.request_head_bytes, attempt.sent_bytes.min(head_bytes));
    }
}

/// The counters of the backend of this fetch.
pub fn counts(policy: &VclPolicy, ex: &Exchange) -> Option<Arc<Counts>> {
    policy.vcl.objects.directors.counts(ex.vcl.fetch.resolved?)
}

/// Why a request goes to no backend.
#[derive(Debug, thiserror::Error)]
enum Nowhere {
    /// None was given.
    #[error("no backend")]
    NoBackend,
    /// A director has chosen none.
    #[error("no healthy backend: the director \"{0}\" returned none")]
    NoneHealthy(String),
    /// The backend is sick.
    #[error("no healthy backend: \"{0}\" is sick")]
    Sick(String),
}

/// Makes the request for the backend of that of the client.
fn begin(policy: &VclPolicy, stale: Option<&Object>, ex: &mut Exchange, cx: &Cx) {
    cx.stats().fetches.add(1);
    let is_passed = ex.vcl.fetch.is_uncacheable;
    copy_request(if is_passed { Onward::Pass } else { Onward::Fetch }, ex);
    let hint = ex.vcl.client.hint;
    let has_body = !matches!(ex.request.body, RequestBody::None) && ex.vcl.client.body != BodyUse::Dropped;
    let default = policy.default_backend.and_then(|at| u32::try_from(at).ok());
    let fetch = &mut ex.vcl.fetch;
    fetch.started = seconds(cx.now());
    fetch.backend = hint.unwrap_or(default);
    fetch.has_body = has_body;
    if !is_passed {
        let target = fetch.bereq.target().to_vec();
        fetch.bereq.ask(b"GET", &target);
        if policy.parameters.http_gzip_support {
            fetch.bereq.fields.set("Accept-Encoding", b"gzip");
        }
        if let Some(stale) = stale.filter(|stale| may_be_revalidated(policy, stale, cx)) {
            if let Some(date) = strong_date(&stale.fields) {
                fetch.bereq.fields.set("If-Modified-Since", date);
            }
            if let Some(tag) = stale.fields.get_known(Known::Etag) {
                fetch.bereq.fields.set("If-None-Match", tag);
            }
        }
    }
    if !has_body {
        announce_no_body(&mut fetch.bereq);
    }
    fetch.original.copy_from(&fetch.bereq);
}

/// Says that there is no body, which a method that is expected to have one says by its length (RFC 9110 §8.6).
fn announce_no_body(bereq: &mut RequestHead) {
    match bereq.method {
        Method::Get | Method::Head | Method::Delete | Method::Options | Method::Trace => {
            bereq.fields.remove("Content-Length");
        }
        _ => bereq.fields.set("Content-Length", b"0"),
    }
}

/// `Last-Modified`, if the page could not have changed again within that second (RFC 9110 §8.8.2.2).
fn strong_date(fields: &Fields) -> Option<&[u8]> {
    let modified = fields.get_known(Known::LastModified)?;
    let sent = fields.get_known(Known::Date).and_then(larder_http::parse_date)?;
    (larder_http::parse_date(modified)? < sent).then_some(modified)
}

/// The client's request without what is not passed on.
fn copy_request(onward: Onward, ex: &mut Exchange) {
    let bereq = &mut ex.vcl.fetch.bereq;
    bereq.copy_from(&ex.asked.head);
    retain_passed_on(&mut bereq.fields, onward);
    // Where the request line of a client names a host, that of ours does not.
    let (method, target) = (bereq.method_name().to_vec(), bereq.target().to_vec());
    bereq.ask(&method, &target);
}

/// Whether a 304 would make a page fresh: it is one, and is still kept.
fn may_be_revalidated(policy: &VclPolicy, stale: &Object, cx: &Cx) -> bool {
    let is_kept = stale.staleness(cx.now()) < stale.stale_if_error.max(stale.stale_while_revalidate);
    stale.mark() == Mark::Page && stale.status == status::OK && is_kept && is_valid(policy, stale, cx)
}

/// Makes the request that `vcl_pipe` sees.
pub fn begin_pipe(policy: &VclPolicy, ex: &mut Exchange, cx: &Cx) {
    copy_request(Onward::Pass, ex);
    let default = policy.default_backend.and_then(|at| u32::try_from(at).ok());
    let xid = ex.vcl.client.xid;
    let upgrade = ex.asked.head.fields.get_known(Known::Upgrade).map(<[u8]>::to_vec);
    let fetch = &mut ex.vcl.fetch;
    fetch.xid = xid;
    fetch.started = seconds(cx.now());
    fetch.backend = ex.vcl.client.hint.unwrap_or(default);
    fetch.bereq.fields.push(b"X-Varnish", xid.to_string().as_bytes());
    match upgrade {
        // What a pipe is for today.
        Some(upgrade) => {
            fetch.bereq.fields.push(b"Upgrade", &upgrade);
            fetch.bereq.fields.push(b"Connection", b"upgrade");
        }
        None => fetch.bereq.fields.push(b"Connection", b"close"),
    }
    records::fetch::begin_pipe(ex, cx);
}

/// Sends the request of [`begin_pipe`] as `vcl_pipe` has left it.
pub fn pipe(policy: &VclPolicy, pipe: Pipe, ex: &mut Exchange, cx: &Cx) {
    ex.vcl.fetch.is_uncacheable = true;
    ex.vcl.fetch.has_body = !matches!(ex.request.body, RequestBody::None);
    ex.vcl.fetch.pipe = Some(pipe);
    ex.vcl.fetch.answer = AnswerTask { do_stream: true, is_uncacheable: true, ..AnswerTask::default() };
    // Without a place the fetch begins as any other, and finds out.
    let _ = address(policy, ex, cx);
}
