//! What an origin's answer or failure leads to: a response, an error page, X-Accel-Redirect, or the stale page.
//!
//! The order of decisions is that of ngx_http_upstream: failures, `use_stale`, a 304 to our own question, `use_stale`
//! for its status, X-Accel-Redirect, `intercept_errors`.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use larder_cache::Object;
use larder_conf::model::LogLevel;
use larder_http::{Fields, Known, KnownSet, Method, ResponseHead, Version, status};
use larder_origin::{Answer, FailKind, FetchError};

use crate::context::Cx;
use crate::exchange::{CacheStatus, Cause, Exchange, Part};
use crate::policy::{self, Confirmed, Detour, Judgement, Keep, Lifetime, Validators, Why};
use crate::purges::{deeds, said};
use crate::records;
use crate::script;
use crate::site::{Backend, Origin};

use super::far_range::{self, Arriving};
use super::fill::{self, Passed};
use super::page::Page;
use super::part::{self, Completion, Joined};
use super::plan::{Plan, Storing};
use super::purge_by_origin::{self, Taken};
use super::{
    Content, Internal, Ranges, Response, Slow, Step, Synth, explained, head_update, lookup, reasons, response_fields,
    slice, store,
};

/// The origin gave no answer: the stale page, if the policy allows it, else 502 or 504, or 503 if its gate let nobody in.
pub fn failed(error: &FetchError, plan: Plan, origin: &Origin, ex: &mut Exchange, cx: &Cx) -> Step {
    if let Some(detour) = policy::failure(origin, !error.is_before_request(), ex, cx) {
        return instead(detour, plan, origin, ex, cx);
    }
    ex.upstream.refused_in = plan.storing.as_ref().map(Storing::zone);
    let kind = error.kind();
    let (why, cause) = match error {
        FetchError::Gate(_) => (Why::Gate, Cause::Gate),
        _ => (Why::Failed(kind), Cause::Failed),
    };
    let allowed = |object: &Arc<Object>| policy::may_be_stale(origin, object, why, ex, cx.now());
    if let Some(object) = plan.stale.filter(allowed).filter(|object| object.body.is_here()) {
        return deliver_stale(object, cause, plan.storing, ex, cx);
    }
    let status = match (kind, error) {
        (_, FetchError::Body(_)) => status::INTERNAL_SERVER_ERROR,
        (_, FetchError::Gate(refusal)) => {
            ex.upstream.cache_detail = Cause::Gate;
            ex.request.way.is_refused = true;
            let seconds = refusal.retry_after.as_secs() + u64::from(refusal.retry_after.subsec_nanos() > 0);
            ex.reply.fields.set("Retry-After", seconds.to_string().as_bytes());
            status::SERVICE_UNAVAILABLE
        }
        (FailKind::Timeout, _) => status::GATEWAY_TIMEOUT,
        (FailKind::Error | FailKind::InvalidHeader, _) => status::BAD_GATEWAY,
    };
    Step::Synth(Synth::Status(status))
}

/// Delivers the stale page in place of an answer that failed for this cause. Dropping the right to store wakes the waiters.
fn deliver_stale(object: Arc<Object>, cause: Cause, storing: Option<Storing>, ex: &mut Exchange, cx: &Cx) -> Step {
    drop(storing);
    ex.upstream.cache_status = Some(CacheStatus::Stale);
    ex.upstream.cache_detail = cause;
    cx.stats().stale.add(1);
    Step::Page(Page::stored(object))
}

/// The origin answered: counts and logs that, asks the policy to judge, and does what it says.
pub fn answered(
    mut answer: Answer,
    mut plan: Plan,
    origin: &Origin,
    validators: &Validators,
    ex: &mut Exchange,
    cx: &Cx,
) -> Step {
    if let Some(taken) = purge_by_origin::taken(&mut answer.head.fields, ex, cx) {
        ex.upstream.status = Some(answer.head.status);
        return Slow::PurgeFirst(Box::new(PurgeFirst { taken, answer, plan, validators: validators.clone() })).into();
    }
    let status = answer.head.status;
    if !answer.body.is_silent() {
        log_stderr(answer.body.stderr(), address_of_last(ex), ex, cx);
    }
    ignore_duplicates(&mut answer.head.fields, ex, cx);
    policy::received(origin, &mut answer.head, ex, cx);
    ex.upstream.status = Some(status);
    ex.upstream.fields = Some(Arc::clone(&answer.head.fields));
    head_update::apply(&answer.head, &plan, origin, ex, cx);
    part::grow_up(&mut answer, ex);
    let joined = match part::complete(&mut answer, &mut plan, ex, cx) {
        Completion::Failed => {
            note_replaced(&answer, 0, origin, ex, cx);
            drop(answer);
            return plan.into();
        }
        Completion::Page(joined) => Some(joined),
        Completion::Other => None,
    };
    match (policy::judge(origin, &mut answer.head, plan.stale.as_ref(), validators, ex, cx), plan.stale) {
        (Judgement::Instead(detour), stale) => {
            // Its connection is free, or closed, before another fetch begins.
            note_replaced(&answer, 0, origin, ex, cx);
            drop(answer);
            instead(detour, Plan { stale, ..plan }, origin, ex, cx)
        }
        (Judgement::Astray, _) => Plan { stale: None, ..plan }.into(),
        (Judgement::Confirmed, Some(object)) => revalidated(&answer.head, &object, plan.storing, origin, ex, cx),
        (Judgement::Stale, Some(object)) => deliver_stale(object, Cause::Failed, plan.storing, ex, cx),
        (Judgement::Redirect { to, uncacheable_for }, _) => {
            if let Some(storing) = plan.storing {
                ex.upstream.cache_detail = Cause::Other("x-accel-redirect");
                ex.upstream.refused_in = Some(storing.zone());
                storing.uncacheable(uncacheable_for, cx);
            }
            redirected(to, &answer.head.fields, &origin.backend, ex, cx)
        }
        (Judgement::ErrorPage, _) => {
            let challenges: Vec<Vec<u8>> =
                answer.head.fields.all_known(Known::WwwAuthenticate).map(<[u8]>::to_vec).collect();
            fill::fill(answer, plan.storing, joined, origin, ex, cx);
            for challenge in challenges {
                ex.reply.fields.push(b"WWW-Authenticate", &challenge);
            }
            Step::Synth(Synth::Status(status))
        }
        (Judgement::Response | Judgement::Confirmed | Judgement::Stale, stale) => {
            if policy::gathers(origin, ex) && answer.body.content_length() != Some(0) {
                return Slow::Gather(Box::new(Gather { answer, plan: Plan { stale, ..plan } })).into();
            }
            respond(answer, plan.storing, joined, origin, ex, cx)
        }
    }
}

/// An answer that goes on when what its origin purges by it is purged, so that whoever gets it finds no page from before.
pub struct PurgeFirst {
    taken: Taken,
    answer: Answer,
    plan: Plan,
    validators: Validators,
}

/// Purges, and goes on. Disks note it later.
pub async fn purge_first(first: PurgeFirst, ex: &mut Exchange, cx: &Cx) -> Step {
    let PurgeFirst { taken: Taken { deeds, said }, answer, plan, validators } = first;
    let now = cx.now();
    let done = tokio::task::spawn_blocking(move || deeds::carry_out(deeds, now)).await;
    ex.tally.has_purged |= cx.worker.shared.sharing.is_shared();
    let (level, told) =
        match done.map_err(|error| error.to_string()).and_then(|done| done.map_err(|error| error.to_string())) {
            Ok(done) => (LogLevel::Info, said::line_by_origin(&said, &done)),
            Err(why) => (LogLevel::Error, format!("\"larder_purge_by_origin\": {why}")),
        };
    cx.local.logs.error(cx, ex, level, format_args!("{told}"));
    let Some(origin) = cx.origin(ex) else { return Step::Synth(Synth::Final(status::INTERNAL_SERVER_ERROR)) };
    let step = answered(answer, plan, origin, &validators, ex, cx);
    reasons::note(&step, ex, cx, explained::made_by);
    step
}

/// An answer of which the body is awaited before it is delivered.
pub struct Gather {
    answer: Answer,
    plan: Plan,
}

/// The longest body that is gathered.
const GATHERED_BYTES_MAX: usize = 64 << 20;

/// Waits for the whole body; without it there is no answer.
pub async fn gather(gather: Gather, ex: &mut Exchange, cx: &Cx) -> Step {
    let Some(origin) = cx.origin(ex) else { return Step::Synth(Synth::Final(status::INTERNAL_SERVER_ERROR)) };
    let Gather { mut answer, plan } = gather;
    let mut whole = BytesMut::new();
    let failure = loop {
        match answer.body.next().await {
            Ok(None) => break None,
            Ok(Some(piece)) if whole.len() + piece.len() > GATHERED_BYTES_MAX => {
                break Some(format!("the body has more than {GATHERED_BYTES_MAX} bytes, and was to be whole at once"));
            }
            Ok(Some(piece)) => whole.extend_from_slice(&piece),
            Err(error) => break Some(error.to_string()),
        }
    };
    note_replaced(&answer, whole.len() as u64, origin, ex, cx);
    let mut head = std::mem::take(&mut answer.head);
    drop(answer);
    let made = match failure {
        None => policy::recode(origin, &mut head, whole.freeze(), ex, cx),
        Some(why) => Err(why),
    };
    let step = match made {
        Ok(body) => respond(Answer::made(head, body), plan.storing, None, origin, ex, cx),
        Err(why) => {
            cx.local.logs.origin_error(cx, ex, LogLevel::Error, address_of_last(ex), format_args!("{why}"));
            let detour = policy::failure(origin, true, ex, cx).unwrap_or(Detour::Fail);
            instead(detour, plan, origin, ex, cx)
        }
    };
    reasons::note(&step, ex, cx, explained::made_by);
    step
}

/// Counts an answer that goes no further, and tells the transaction log what has come of it.
fn note_replaced(answer: &Answer, body_bytes: u64, origin: &Origin, ex: &mut Exchange, cx: &Cx) {
    if let Some(counts) = policy::counts(origin, ex) {
        counts.note_answer(body_bytes, &answer.body);
    }
    cx.stats().origin_connections_kept.add(u64::from(answer.body.usage().is_kept));
    if ex.log.fetch.is_some() {
        let backend = fill::backend_of(origin, ex).map(str::to_owned);
        records::fetch::replaced(&answer.body, body_bytes, backend.as_deref(), ex);
    }
}

/// What takes the place of a fetch or of its answer.
pub fn instead(detour: Detour, plan: Plan, origin: &Origin, ex: &mut Exchange, cx: &Cx) -> Step {
    match detour {
        Detour::Again => plan.into(),
        Detour::Fail => {
            // Who waits for the page tries next.
            drop(plan);
            let turn = policy::abandoned(origin, ex, cx);
            lookup::turned(turn, ex)
        }
        Detour::Made(head, body) => {
            let answer = Answer::made(*head, body);
            respond(answer, plan.storing, None, origin, ex, cx)
        }
    }
}

/// Logs what a FastCGI origin wrote to its standard error before the head of its answer was there.
pub fn log_stderr(lines: impl IntoIterator<Item = String>, address: &str, ex: &Exchange, cx: &Cx) {
    for line in lines {
        let message = format_args!("FastCGI sent in stderr: \"{line}\" while reading response header from upstream");
        cx.local.logs.origin_error(cx, ex, LogLevel::Error, address, message);
    }
}

/// The address of the origin that was asked last; empty if none was.
fn address_of_last(ex: &Exchange) -> &str {
    ex.tally.attempts.last().map_or("", |attempt| &attempt.address)
}

/// Fields that come once: nginx ignores a second line.
const SINGLE: KnownSet = KnownSet::of(&[
    Known::Status,
    Known::ContentType,
    Known::Date,
    Known::LastModified,
    Known::Etag,
    Known::Server,
    Known::Location,
    Known::Refresh,
    Known::Expires,
    Known::XAccelExpires,
    Known::XAccelLimitRate,
]);

/// Leaves out second lines of fields that come once, and logs them.
fn ignore_duplicates(fields: &mut Arc<Fields>, ex: &Exchange, cx: &Cx) {
    if !fields.repeats(SINGLE) {
        return;
    }
    let all = Arc::clone(fields);
    let mut seen = KnownSet::default();
    Arc::make_mut(fields).retain(|known, name, value| {
        if !SINGLE.contains(known) || seen.insert(known) {
            return true;
        }
        let (name, value) = (String::from_utf8_lossy(name), String::from_utf8_lossy(value));
        let previous = String::from_utf8_lossy(all.get_known(known).unwrap_or_default());
        let message = format_args!(
            "upstream sent duplicate header line: \"{name}: {value}\", previous value: \"{name}: {previous}\", ignored \
             while reading response header from upstream",
        );
        cx.local.logs.origin_error(cx, ex, LogLevel::Warn, address_of_last(ex), message);
        false
    });
}

/// The origin confirmed the stored page.
fn revalidated(
    confirmation: &ResponseHead,
    object: &Arc<Object>,
    mut storing: Option<Storing>,
    origin: &Origin,
    ex: &mut Exchange,
    cx: &Cx,
) -> Step {
    if !object.body.is_here() {
        // The disk lost the body while the origin was asked: larder fetches the whole page.
        if let Some(storing) = &storing {
            cx.zone(storing.zone()).lost(object, cx.now());
        }
        return Plan::new(storing, None).into();
    }
    let backend = &origin.backend;
    let delivered = match policy::confirmed(origin, confirmation, object, ex, cx) {
        Confirmed::Until { lifetime, changed } => {
            let fresh = store::freshen(object, lifetime, changed, backend, cx);
            let for_all = storing.as_mut().and_then(Storing::take_for_all);
            match storing.and_then(|storing| storing.permit(ex, cx)) {
                Some(permit) => {
                    let fresh = permit.freshen(object, fresh);
                    if let Some(for_all) = for_all {
                        for_all.with(Arc::clone(&fresh)).store(cx);
                    }
                    fresh
                }
                None => Arc::new(fresh),
            }
        }
        Confirmed::Alone { fields, instead } => {
            if let Some(storing) = storing {
                keep_instead(instead, storing, confirmation, backend, ex, cx);
            }
            let used_up = Lifetime {
                fresh_until: cx.now(),
                stale_while_revalidate: Duration::ZERO,
                stale_if_error: Duration::ZERO,
            };
            Arc::new(store::freshen(object, used_up, Some((fields, object.vary.clone())), backend, cx))
        }
    };
    ex.upstream.cache_status = Some(CacheStatus::Revalidated);
    Step::Page(Page::stored(delivered))
}

/// Keeps what stands in the place of a page that turns out not to be shared: who waits for it fetches alone.
fn keep_instead(
    instead: Keep,
    mut storing: Storing,
    confirmation: &ResponseHead,
    backend: &Backend,
    ex: &mut Exchange,
    cx: &Cx,
) {
    match instead {
        Keep::Mark(mark, kept) => {
            storing.give_up_for_all();
            let (zone, answer) = (storing.zone(), Answer::made(confirmation.clone(), Bytes::new()));
            if let Some(permit) = storing.permit(ex, cx) {
                permit.remember(store::mark(mark, zone, &answer, kept, backend, ex, cx));
            }
        }
        Keep::Not { uncacheable_for: Some(time), .. } => storing.uncacheable(time, cx),
        // Dropping the right to store wakes the waiters.
        Keep::Not { uncacheable_for: None, .. } | Keep::Shared(_) | Keep::Until(_) => {}
    }
}

/// X-Accel-Redirect: goes to its URI and keeps the few fields of the answer that nginx keeps.
fn redirected(to: Vec<u8>, fields: &Fields, backend: &Backend, ex: &mut Exchange, cx: &Cx) -> Step {
    response_fields::apply_x_accel_settings(fields, backend, ex, cx);
    if script::is_unsafe_uri(&to) {
        let shown = String::from_utf8_lossy(&to).into_owned();
        cx.local.logs.error(cx, ex, LogLevel::Error, format_args!("unsafe URI \"{shown}\" was detected"));
        return Step::Synth(Synth::Status(status::NOT_FOUND));
    }
    ex.reply.fields.clear();
    let mut accel_fields = Fields::new();
    for (known, name, value) in fields.iter_known() {
        if matches!(
            known,
            Known::ContentDisposition
                | Known::SetCookie
                | Known::CacheControl
                | Known::Expires
                | Known::ContentType
                | Known::AcceptRanges
        ) {
            ex.reply.fields.push(name, value);
            accel_fields.push(name, value);
        }
    }
    ex.reply.accel_fields = Some(accel_fields).filter(|fields| !fields.is_empty());
    if ex.request.method != Method::Head {
        ex.request.method = Method::Get;
    }
    Step::Redirect(match to.first() {
        Some(b'@') => Internal::Named(to.into()),
        _ => Internal::Uri(to),
    })
}

/// Lays the answer out as the response, and starts taking its body.
fn respond(
    mut answer: Answer,
    storing: Option<Storing>,
    joined: Option<Joined>,
    origin: &Origin,
    ex: &mut Exchange,
    cx: &Cx,
) -> Step {
    let fields = Arc::clone(&answer.head.fields);
    ex.reply.status = answer.head.status;
    ex.reply.reason.clear();
    ex.reply.reason.extend_from_slice(&answer.head.reason);
    response_fields::lay_out(&fields, &origin.backend, ex, cx);
    if ex.reply.status == status::SWITCHING_PROTOCOLS {
        ex.reply.upgraded = answer.upgraded.take();
        // The client did not ask to switch: a script made the 101 up. HTTP/2 has no upgrades (RFC 9113 §8.6).
        if ex.reply.upgraded.is_none() || ex.asked.head.version == Version::Http2 {
            ex.reply.upgraded = None;
            return Step::Synth(Synth::Status(status::BAD_GATEWAY));
        }
        ex.reply.framing.keep_alive = false;
        return Step::Deliver(Response::own(Content::NoBody));
    }
    let conditional = storing.is_some();
    let last_modified = fields.get_known(Known::LastModified).and_then(larder_http::parse_date);
    let length = match ex.request.method {
        // There is no body to count.
        Method::Head => fields.content_length(),
        _ => joined.as_ref().map(|joined| joined.total).or(answer.body.content_length()),
    };
    if slice::is_wrong(length, ex, cx) {
        // Waiters fetch for themselves.
        return Step::Abort;
    }
    let status = answer.head.status;
    let zone = storing.as_ref().map(Storing::zone);
    let (body, reader, stored) = match fill::fill(answer, storing, joined, origin, ex, cx) {
        Passed::Whole(bytes) => {
            let content = Content::Passed(bytes, length);
            return Step::Deliver(Response {
                content,
                last_modified,
                ranges: ranges(is_whole(ex), origin),
                conditional,
            });
        }
        Passed::File(file, len) => {
            let content = Content::File(file, len);
            return Step::Deliver(Response {
                content,
                last_modified,
                ranges: ranges(is_whole(ex), origin),
                conditional,
            });
        }
        Passed::Coming { body, reader, stored } => (body, reader, stored),
    };
    if stored
        && ex.upstream.part == Part::Unasked
        && far_range::is_passed(
            &Arriving { status, fields: &fields, last_modified, body: &body },
            &origin.backend,
            ex,
            cx,
        )
    {
        ex.upstream.cache_detail = Cause::RangeNotThere;
        return zone.and_then(|zone| part::instead(zone, origin, ex)).unwrap_or_else(|| Plan::pass().into());
    }
    let content = Content::Stream(reader, length);
    Step::Deliver(Response {
        content,
        last_modified,
        ranges: ranges(stored || ex.upstream.part == Part::Over, origin),
        conditional,
    })
}

/// Whether the origin was asked for a range and has answered with the page.
fn is_whole(ex: &Exchange) -> bool {
    ex.upstream.part == Part::Over
}

/// Which ranges may be asked for of an origin's answer.
fn ranges(is_stored: bool, origin: &Origin) -> Ranges {
    match is_stored {
        true => Ranges::Quiet,
        false if origin.backend.settings.model.response.force_ranges => Ranges::Announced,
        false => Ranges::No,
    }
}
