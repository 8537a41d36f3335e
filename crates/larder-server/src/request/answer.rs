//! What an origin's answer, or its silence, leads to: a response, an error page, another URI, or the stale copy.
//!
//! The order of decisions is that of ngx_http_upstream: failures, `use_stale`, a 304 to our own question, `use_stale`
//! for its status, X-Accel-Redirect, `intercept_errors`.

use std::sync::Arc;

use larder_cache::Object;
use larder_conf::model::{LogLevel, UseStale};
use larder_http::{Fields, Known, Method, Version};
use larder_origin::{Answer, FailKind, FetchError};

use crate::context::Cx;
use crate::exchange::{CacheStatus, Exchange};
use crate::script;
use crate::site::OriginPolicy;

use super::ahead::{self, Arriving};
use super::fill::{self, Passed};
use super::origin_request::Validators;
use super::page::{self, Page};
use super::plan::{Plan, Storing};
use super::{Content, Internal, Ranges, Response, Slow, Step, Synth, response_fields, slice, store};

/// The origin gave no answer: the stale page, if the directives allow it, else 502 or 504.
pub fn failed(error: &FetchError, plan: Plan, policy: &OriginPolicy, ex: &mut Exchange, cx: &Cx) -> Step {
    let kind = error.kind();
    let stale = policy.settings.model.cache_use_stale;
    let allowed = match kind {
        FailKind::Error => stale.error,
        FailKind::Timeout => stale.timeout,
        FailKind::InvalidHeader => stale.invalid_header,
    };
    let usable = plan.stale.filter(|object| allowed || object.may_serve_if_error(cx.now()));
    let usable = usable.filter(|object| object.body.is_here());
    if let Some(object) = usable {
        return instead(object, plan.storing, ex, cx);
    }
    let status = match (kind, error) {
        (_, FetchError::Body(_)) => 500,
        (FailKind::Timeout, _) => 504,
        (FailKind::Error | FailKind::InvalidHeader, _) => 502,
    };
    Step::Synth(Synth::Status(status))
}

/// The stale page in place of a failed or unwelcome answer. Dropping the right to store wakes whoever waits for it.
fn instead(object: Arc<Object>, storing: Option<Storing>, ex: &mut Exchange, cx: &Cx) -> Step {
    drop(storing);
    ex.upstream.cache_status = Some(CacheStatus::Stale);
    ex.upstream.cache_detail = "the origin failed";
    cx.stats().stale.add(1);
    Step::Page(Page::stored(object))
}

fn stale_covers(stale: UseStale, status: u16) -> bool {
    match status {
        500 => stale.http_500,
        502 => stale.http_502,
        503 => stale.http_503,
        504 => stale.http_504,
        403 => stale.http_403,
        404 => stale.http_404,
        429 => stale.http_429,
        _ => false,
    }
}

/// The origin answered.
pub fn answered(
    mut answer: Answer,
    mut plan: Plan,
    policy: &OriginPolicy,
    validators: &Validators,
    ex: &mut Exchange,
    cx: &Cx,
) -> Step {
    let status = answer.head.status;
    let address = ex.tally.attempts.last().map(|attempt| attempt.address.clone()).unwrap_or_default();
    for line in answer.body.stderr() {
        cx.local.logs.origin_error(
            cx,
            ex,
            LogLevel::Error,
            &address,
            format_args!("FastCGI sent in stderr: \"{line}\" while reading response header from upstream"),
        );
    }
    ignore_duplicates(&mut answer.head.fields, &address, ex, cx);
    ex.upstream.status = Some(status);
    ex.upstream.fields = Some(answer.head.fields.clone());
    let asked_for_304 = validators.etag.is_some() || validators.last_modified.is_some();
    if status == 304
        && asked_for_304
        && let Some(object) = plan.stale.take()
    {
        return revalidated(&answer.head.fields, &object, plan.storing, policy, ex, cx);
    }
    if plan.stale.is_some() {
        let covered = stale_covers(policy.settings.model.cache_use_stale, status);
        let failed = status >= 500 && plan.stale.as_ref().is_some_and(|object| object.may_serve_if_error(cx.now()));
        if (covered || failed)
            && let Some(object) = plan.stale.take().filter(|object| object.body.is_here())
        {
            return instead(object, plan.storing.take(), ex, cx);
        }
    }
    if let Some(to) = accel_redirect(&answer.head.fields, policy) {
        if let Some(storing) = plan.storing {
            storing.uncacheable(cx);
        }
        return redirected(to, &answer.head.fields, policy, ex, cx);
    }
    let intercepted = page::intercepted(status, policy, ex, cx);
    if let Some(step) = intercepted {
        let challenges: Vec<Vec<u8>> =
            answer.head.fields.all_known(Known::WwwAuthenticate).map(<[u8]>::to_vec).collect();
        fill::fill(answer, plan.storing, policy, ex, cx);
        for challenge in challenges {
            ex.reply.fields.push(b"WWW-Authenticate", &challenge);
        }
        return step;
    }
    respond(answer, plan.storing, policy, ex, cx)
}

/// Fields that come once: of a second line nginx takes no notice.
const SINGLE: [Known; 11] = [
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
];

/// Leaves out second lines of fields that come once.
fn ignore_duplicates(fields: &mut Fields, address: &str, ex: &mut Exchange, cx: &Cx) {
    let mut complaints = Vec::new();
    let mut seen: [Option<Vec<u8>>; SINGLE.len()] = Default::default();
    fields.retain(|known, name, value| {
        let Some(place) = SINGLE.iter().position(|single| *single == known) else { return true };
        let Some(previous) = &seen[place] else {
            seen[place] = Some(value.to_vec());
            return true;
        };
        let shown = String::from_utf8_lossy;
        complaints.push(format!(
            "upstream sent duplicate header line: \"{name}: {}\", previous value: \"{name}: {}\", ignored while reading \
             response header from upstream",
            shown(value),
            shown(previous),
            name = shown(name),
        ));
        false
    });
    for complaint in complaints {
        cx.local.logs.origin_error(cx, ex, LogLevel::Warn, address, format_args!("{complaint}"));
    }
}

/// The origin confirmed the stored page.
fn revalidated(
    confirmation: &Fields,
    object: &Arc<Object>,
    storing: Option<Storing>,
    policy: &OriginPolicy,
    ex: &mut Exchange,
    cx: &Cx,
) -> Step {
    if !object.body.is_here() {
        // The disk let go of it while the origin was asked: now it is asked for all of it.
        if let Some(storing) = &storing {
            cx.zone(storing.zone()).lost(object, cx.now());
        }
        return Slow::Fetch(Box::new(Plan { storing, stale: None })).into();
    }
    let keeping = store::freshened(confirmation, object, policy, cx.now());
    let fresh = store::freshen(object, keeping, cx.now());
    let delivered = match storing.and_then(|storing| storing.permit(policy, ex, cx)) {
        Some(permit) => permit.freshen(object, fresh),
        None => Arc::clone(object),
    };
    ex.upstream.cache_status = Some(CacheStatus::Revalidated);
    Step::Page(Page::stored(delivered))
}

fn accel_redirect(fields: &Fields, policy: &OriginPolicy) -> Option<Vec<u8>> {
    if policy.settings.model.ignore_headers.x_accel_redirect {
        return None;
    }
    fields.get_known(Known::XAccelRedirect).filter(|uri| !uri.is_empty()).map(<[u8]>::to_vec)
}

/// X-Accel-Redirect: go where it says, with the few fields of the answer that go along.
fn redirected(to: Vec<u8>, fields: &Fields, policy: &OriginPolicy, ex: &mut Exchange, cx: &Cx) -> Step {
    response_fields::obey(fields, policy, ex, cx);
    if script::is_unsafe_uri(&to) {
        let shown = String::from_utf8_lossy(&to).into_owned();
        cx.local.logs.error(cx, ex, LogLevel::Error, format_args!("unsafe URI \"{shown}\" was detected"));
        return Step::Synth(Synth::Status(404));
    }
    ex.reply.fields.clear();
    let mut brought = Fields::new();
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
            brought.push(name, value);
        }
    }
    ex.reply.accel_fields = Some(brought).filter(|fields| !fields.is_empty());
    if ex.request.method != Method::Head {
        ex.request.method = Method::Get;
    }
    Step::Redirect(match to.first() {
        Some(b'@') => Internal::Named(to.into()),
        _ => Internal::Uri(to),
    })
}

/// Lays the answer out as the response, and starts taking its body.
fn respond(mut answer: Answer, storing: Option<Storing>, policy: &OriginPolicy, ex: &mut Exchange, cx: &Cx) -> Step {
    let fields = answer.head.fields.clone();
    ex.reply.status = answer.head.status;
    ex.reply.reason.clear();
    ex.reply.reason.extend_from_slice(&answer.head.reason);
    response_fields::lay_out(&fields, policy, ex, cx);
    if ex.reply.status == 101 {
        ex.reply.upgraded = answer.upgraded.take();
        // Nobody asked for it, as a script that says so itself; and there is no other protocol to switch to on a stream of
        // HTTP/2 (RFC 9113 §8.6).
        if ex.reply.upgraded.is_none() || ex.asked.head.version == Version::Http2 {
            ex.reply.upgraded = None;
            return Step::Synth(Synth::Status(502));
        }
        ex.reply.framing.keep_alive = false;
        return Step::Deliver(Response::own(Content::Nothing));
    }
    let conditional = storing.is_some();
    let last_modified = fields.get_known(Known::LastModified).and_then(larder_http::parse_date);
    let length = match ex.request.method {
        // The origin's word, as there is no body to count.
        Method::Head => fields.content_length(),
        _ => answer.body.content_length(),
    };
    if slice::is_wrong(length, ex, cx) {
        // Who waits for it tries by himself.
        return Step::Abort;
    }
    let status = answer.head.status;
    let Passed { body, reader, stored } = fill::fill(answer, storing, policy, ex, cx);
    if stored && ahead::is_far(&Arriving { status, fields: &fields, last_modified, body: &body }, policy, ex, cx) {
        ex.upstream.cache_detail = ahead::DETAIL;
        return Slow::Fetch(Box::new(Plan { storing: None, stale: None })).into();
    }
    let ranges = match stored {
        true => Ranges::Quiet,
        false if policy.settings.model.force_ranges => Ranges::Announced,
        false => Ranges::No,
    };
    let content = Content::Stream(reader, length);
    Step::Deliver(Response { content, last_modified, ranges, conditional })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn use_stale_covers_the_statuses_it_names() {
        let stale = UseStale { http_500: true, http_404: true, error: true, ..UseStale::default() };
        for (status, covered) in [(500, true), (404, true), (502, false), (503, false), (200, false), (418, false)] {
            assert_eq!(stale_covers(stale, status), covered, "{status}");
        }
    }
}
