//! The answer of a backend: `vcl_backend_response`, `vcl_backend_refresh`, `vcl_backend_error`.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use larder_cache::{Mark, Object, VaryKey, selecting};
use larder_conf::model::LogLevel;
use larder_http::{Fields, Known, Method, ResponseHead, list, status};
use larder_vcl::functions::reasons::reason as reason_of;
use larder_vcl::steps::{Action, Step};

use crate::context::Cx;
use crate::exchange::{Cause, Exchange, FetchTask};
use crate::policy::{Detour, Judgement, Keep, Kept, Lifetime};
use crate::records;
use crate::site::VclPolicy;

use super::headers::{Onward, collect, is_gzip, is_name, retain_passed_on, weaken_tag};
use super::recode::vary_by_coding;
use super::retry::{Retry, again, note_sent};
use super::run::{Ended, run};
use super::times::set_times;
use super::{filters, parts, seconds, time, variables};

/// What an answer leads to. Its head becomes what the VCL makes of it.
pub fn judge(
    policy: &VclPolicy,
    head: &mut ResponseHead,
    stale: Option<&Arc<Object>>,
    ex: &mut Exchange,
    cx: &Cx,
) -> Judgement {
    if ex.vcl.fetch.pipe.is_some() {
        return Judgement::Response;
    }
    note_sent(ex);
    ex.vcl.fetch.beresp = std::mem::take(head);
    if ex.vcl.fetch.beresp.fields.len() > policy.parameters.fields_max() {
        cx.local.logs.error(cx, ex, LogLevel::Error, format_args!("the answer has too many headers (http_max_hdr)"));
        return Judgement::Instead(backend_error(policy, 0, None, ex, cx));
    }
    measure(policy, ex, cx);
    let is_304 = ex.vcl.fetch.beresp.status == status::NOT_MODIFIED && !ex.vcl.fetch.is_uncacheable;
    let refreshed = match is_304 {
        true => refresh(policy, stale, ex, cx),
        false => None,
    };
    let ended = refreshed.unwrap_or_else(|| run(policy, Step::BackendResponse, ex, cx));
    let answer = &mut ex.vcl.fetch.answer;
    match ended.action {
        Action::Deliver => {}
        Action::Pass => {
            answer.is_hitpass = true;
            answer.is_uncacheable = true;
            // Without a duration it passes for as long as the answer would have been fresh.
            if let Some(duration) = ended.duration {
                answer.fresh_until = seconds(cx.now()) + duration;
                (answer.grace, answer.keep) = (0.0, 0.0);
            }
            records::fetch::ttl(records::fetch::HFP, seconds(cx.now()), ex);
        }
        Action::Retry => {
            return Judgement::Instead(match again(policy, ex, cx) {
                Retry::Again => Detour::Again,
                Retry::BodyGone => Detour::Fail,
                Retry::TooOften => {
                    cx.local.logs.error(cx, ex, LogLevel::Error, format_args!("Too many retries, delivering 503"));
                    backend_error(policy, 0, None, ex, cx)
                }
            });
        }
        Action::Error => return Judgement::Instead(backend_error(policy, ended.status, ended.reason, ex, cx)),
        _ => return Judgement::Instead(Detour::Fail),
    }
    let was_304 = ex.vcl.fetch.answer.was_304;
    if policy.parameters.http_range_support && !was_304 {
        let FetchTask { bereq, beresp, .. } = &ex.vcl.fetch;
        if let Some(fault) = parts::fault(&bereq.fields, beresp.status, &beresp.fields) {
            cx.local.logs.error(cx, ex, LogLevel::Error, format_args!("{fault}"));
            return Judgement::Instead(backend_error(policy, 0, None, ex, cx));
        }
    }
    count_shared(ex, cx);
    if ex.log.fetch.is_some() {
        ex.log.filters = Some(filters::of_answer(policy, ex));
    }
    *head = finished(ex);
    if policy.parameters.http_gzip_support && !was_304 && stays_gzip(head, ex) {
        vary_by_coding(Arc::make_mut(&mut head.fields));
    }
    if was_304 { Judgement::Confirmed } else { Judgement::Response }
}

/// Counts an answer that is for one client.
fn count_shared(ex: &Exchange, cx: &Cx) {
    let fetch = &ex.vcl.fetch;
    cx.stats().answers_uncacheable.add(u64::from(fetch.is_uncacheable || fetch.answer.is_uncacheable));
}

/// Whether a body comes in gzip and is not unpacked for the cache: it is unpacked for who does not take it.
fn stays_gzip(head: &ResponseHead, ex: &Exchange) -> bool {
    let has_body = ex.vcl.fetch.bereq.method != Method::Head && head.fields.content_length() != Some(0);
    has_body && is_gzip(head) && head.status != status::PARTIAL_CONTENT && !ex.vcl.fetch.answer.do_gunzip
}

/// What Varnish finds out about an answer before any sub sees it.
fn measure(policy: &VclPolicy, ex: &mut Exchange, cx: &Cx) {
    let now = seconds(cx.now());
    let fetch = &mut ex.vcl.fetch;
    let fields = Arc::make_mut(&mut fetch.beresp.fields);
    if !fields.contains_known(Known::Date) {
        fields.push(b"Date", &larder_http::format_date(cx.now().secs()));
    }
    collect(fields, Known::CacheControl);
    collect(fields, Known::Vary);
    fetch.answer.time = now;
    fetch.answer.origin = set_times(policy, fetch, now);
    records::fetch::ttl(records::fetch::RFC, now, ex);
}

/// `vcl_backend_refresh`. `None` if `vcl_backend_response` comes next.
fn refresh(policy: &VclPolicy, stale: Option<&Arc<Object>>, ex: &mut Exchange, cx: &Cx) -> Option<Ended> {
    let Some(stale) = stale else {
        let message = "304 response but not conditional fetch";
        cx.local.logs.error(cx, ex, LogLevel::Error, format_args!("{message}"));
        return Some(Ended::plain(Action::Error));
    };
    ex.vcl.fetch.answer.was_304 = true;
    ex.vcl.page = Some(Arc::clone(stale));
    let ended = run(policy, Step::BackendRefresh, ex, cx);
    let beresp = &mut ex.vcl.fetch.beresp;
    let fields = Arc::make_mut(&mut beresp.fields);
    match ended.action {
        Action::Merge => {
            fields.remove("Content-Encoding");
            fields.remove("Content-Length");
            take_missing(fields, &stale.fields, |known| !matches!(known, Known::Age | Known::Via));
        }
        Action::Beresp => {
            for known in [Known::ContentLength, Known::ContentEncoding, Known::LastModified, Known::Etag] {
                match stale.fields.get_known(known) {
                    Some(value) => fields.set(known.name(), value),
                    None if matches!(known, Known::ContentLength | Known::ContentEncoding) => {
                        fields.remove(known.name());
                    }
                    None => {}
                }
            }
        }
        Action::ObjStale => *fields = stale.fields.clone(),
        _ => return Some(ended),
    }
    if stale.etag.as_deref().is_some_and(|tag| tag.starts_with(b"W/")) {
        // The body may not be the one that a new strong tag stands for: it was packed or unpacked.
        weaken_tag(fields);
    }
    fields.remove("X-Varnish");
    beresp.status = stale.status;
    beresp.reason = stale.reason.to_vec().into();
    None
}

/// Adds the fields of a stored page whose names are not there.
fn take_missing(fields: &mut Fields, stored: &Fields, is_wanted: impl Fn(Known) -> bool) {
    let missing: Vec<(Vec<u8>, Vec<u8>)> = stored
        .iter_known()
        .filter(|(known, name, _)| is_wanted(*known) && !fields.contains(&String::from_utf8_lossy(name)))
        .map(|(_, name, value)| (name.to_vec(), value.to_vec()))
        .collect();
    for (name, value) in missing {
        fields.push(&name, &value);
    }
}

/// The answer as the VCL has left it, without what is not kept. A page to keep says by whom it was fetched, and how old
/// it was.
fn finished(ex: &mut Exchange) -> ResponseHead {
    let fetch = &mut ex.vcl.fetch;
    let mut head = std::mem::take(&mut fetch.beresp);
    let onward = if fetch.answer.is_uncacheable { Onward::Answer } else { Onward::Insert };
    let fields = Arc::make_mut(&mut head.fields);
    retain_passed_on(fields, onward);
    if onward == Onward::Insert {
        fields.set_sound(Known::XVarnish, "X-Varnish", fetch.xid.to_string().as_bytes());
        let age = fetch.answer.time - fetch.answer.origin;
        if age >= 1.0 {
            fields.set_sound(Known::Age, "Age", (age as u64).to_string().as_bytes());
        }
    }
    head
}

/// No backend has answered.
pub fn failure(policy: &VclPolicy, was_sent: bool, ex: &mut Exchange, cx: &Cx) -> Detour {
    if ex.vcl.fetch.pipe.is_some() {
        return Detour::Fail;
    }
    if was_sent {
        note_sent(ex);
    }
    backend_error(policy, 0, None, ex, cx)
}

/// `vcl_backend_error`. The status 0 is that of a fetch that failed.
pub fn backend_error(policy: &VclPolicy, status: u16, reason: Option<Vec<u8>>, ex: &mut Exchange, cx: &Cx) -> Detour {
    cx.stats().fetches_failed.add(1);
    let fetch = &mut ex.vcl.fetch;
    let (status, reason) = match (status, reason) {
        (0, _) => (status::SERVICE_UNAVAILABLE, b"Backend fetch failed".to_vec()),
        (status, Some(reason)) => (status, reason),
        (status, None) => (status, reason_of(status).as_bytes().to_vec()),
    };
    let mut fields = Fields::new();
    fields.push(b"Date", &larder_http::format_date(cx.now().secs()));
    fields.push(b"Server", b"larder");
    fetch.beresp = ResponseHead { status, reason: reason.into(), fields: Arc::new(fields), ..ResponseHead::default() };
    let now = seconds(cx.now());
    let answer = &mut fetch.answer;
    (answer.origin, answer.time, answer.fresh_until) = (now, now, now);
    (answer.grace, answer.keep) = (0.0, 0.0);
    answer.was_304 = false;
    answer.is_made = true;
    answer.esi_base = None;
    ex.vcl.body.clear();
    ex.vcl.page = None;
    records::fetch::made_up(ex);
    let ended = run(policy, Step::BackendError, ex, cx);
    match ended.action {
        Action::Deliver => {
            count_shared(ex, cx);
            let body = Bytes::from(std::mem::take(&mut ex.vcl.body));
            let mut head = finished(ex);
            // A HEAD is told how long it would be.
            Arc::make_mut(&mut head.fields).set("Content-Length", body.len().to_string().as_bytes());
            Detour::Made(Box::new(head), body)
        }
        Action::Retry if again(policy, ex, cx) == Retry::Again => Detour::Again,
        _ => Detour::Fail,
    }
}

/// How long nobody waits for a page that has turned out to have no time.
const ALONE_FOR: Duration = Duration::from_secs(1);

/// What of an answer is stored: as the VCL has left its times.
pub fn keep(policy: &VclPolicy, head: &ResponseHead, ex: &Exchange, cx: &Cx) -> Keep {
    let answer = &ex.vcl.fetch.answer;
    let useful = answer.fresh_until - seconds(cx.now()) + answer.grace + answer.keep;
    let is_kept = useful > 0.0 && answer.fresh_until > answer.origin;
    if ex.vcl.fetch.is_uncacheable || !is_kept && !answer.is_made {
        // Who waits for it fetches alone: it may be for one client.
        return Keep::Not { why: Cause::NoTtl, uncacheable_for: Some(ALONE_FOR) };
    }
    let lifetime = Lifetime {
        fresh_until: time(answer.fresh_until),
        stale_while_revalidate: variables::span(answer.grace),
        stale_if_error: variables::span(answer.grace + answer.keep),
    };
    let fields = Fields::clone(&head.fields);
    let vary = vary(policy, &fields, ex);
    let mark = match (answer.is_hitpass, answer.is_uncacheable) {
        (true, _) => Mark::HitPass,
        (false, true) => Mark::HitMiss,
        (false, false) if vary.is_none() => Mark::HitMiss,
        (false, false) => Mark::Page,
    };
    let esi_base = answer.esi_base.clone();
    let kept = Kept { lifetime, fields, vary: vary.unwrap_or_else(VaryKey::none), esi_base };
    match mark {
        Mark::Page if !is_kept => Keep::Shared(kept),
        Mark::Page => {
            note_tags(policy, &kept.fields, ex, cx);
            Keep::Until(kept)
        }
        mark => Keep::Mark(mark, kept),
    }
}

/// A name that Varnish keeps with a page: at most 127 characters.
fn is_field_name(name: &[u8]) -> bool {
    name.len() <= 127 && is_name(name)
}

/// Notes which tags the page of a request has, for the module `xkey`.
pub fn note_tags(policy: &VclPolicy, fields: &Fields, ex: &Exchange, cx: &Cx) {
    if let Some(zone) = policy.zone.filter(|_| policy.vcl.has_tags()) {
        cx.worker.shared.vmods.tags.note(cx.zone(zone), &ex.upstream.cache_key, fields, cx.now());
    }
}

/// Which requests the page answers. With gzip, that a page comes in codings is no difference: larder has both.
fn vary(policy: &VclPolicy, fields: &Fields, ex: &Exchange) -> Option<VaryKey> {
    let request = selecting(&ex.asked.head.fields);
    let Some(names) = fields.get_known(Known::Vary) else { return Some(VaryKey::none()) };
    if !list::members(names).all(is_field_name) {
        return None;
    }
    if !policy.parameters.http_gzip_support {
        return VaryKey::of(fields, &request);
    }
    let others: Vec<&[u8]> =
        list::members(names).filter(|member| !member.eq_ignore_ascii_case(b"accept-encoding")).collect();
    let mut only = Fields::new();
    only.push(b"Vary", &others.join(&b", "[..]));
    if others.is_empty() { Some(VaryKey::none()) } else { VaryKey::of(&only, &request) }
}
