//! Asking the origin, and what its answer leads to: a response, an error page, another URI, or the stale copy.
//!
//! The order of decisions is that of ngx_http_upstream: failures, `use_stale`, a 304 to our own question,
//! `intercept_errors`, X-Accel-Redirect, then whether to store. The body is taken off the origin by a task of its
//! own, as fast as it is made, so that a slow client holds no PHP child, and one that leaves takes nobody's page.

use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Waker};

use larder_cache::{Object, Permit, Rules};
use larder_conf::model::{LogLevel, UseStale};
use larder_http::{Fields, Known, Method, Time, Version};
use larder_origin::{Answer, FailKind, FetchError};
use larder_store::{Body, BodyReader, BodyWriter, Spill};
use parking_lot::Mutex;

use crate::context::Cx;
use crate::exchange::feed::{Feed, Refused};
use crate::exchange::{CacheStatus, Exchange, Report, RequestBody};
use crate::net::Inbound;
use crate::pump::{self, Wanted};
use crate::site::{OriginPolicy, Protocol};
use crate::tempfile;

use super::ahead::{self, Arriving};
use super::origin_request::{self, Validators};
use super::page::{self, Page};
use super::store::{self, Keeping};
use super::{
    Content, Internal, Ranges, Response, Slow, Step, Synth, early_hints, keep, lookup, resolve, response_fields, slice,
};

/// What a fetch is for.
pub struct Plan {
    /// Where its answer may be stored.
    pub storing: Option<Storing>,
    /// The stale page that is there, to be revalidated or delivered when the origin fails.
    pub stale: Option<Arc<Object>>,
}

/// The right to store the answer.
pub struct Storing {
    zone: usize,
    right: Right,
}

enum Right {
    Permit(Permit),
    /// To be asked for when there is something to store, under the exchange's key.
    Unasked,
}

impl Storing {
    /// By a permit that lookup gave.
    pub fn new(permit: Permit, zone: usize) -> Self {
        Self { zone, right: Right::Permit(permit) }
    }

    /// Without one: nobody waits for the answer.
    pub fn unasked(zone: usize) -> Self {
        Self { zone, right: Right::Unasked }
    }

    fn permit(self, policy: &OriginPolicy, ex: &Exchange, cx: &Cx) -> Option<Permit> {
        match self.right {
            Right::Permit(permit) => Some(permit),
            Right::Unasked => {
                let key = larder_cache::KeyRef::new(&ex.upstream.cache_key);
                let zone = lookup::zone_of(self.zone, cx);
                zone.permit(&mut cx.local.fronts[self.zone].borrow_mut(), &key, &rules(policy, ex, cx.now()), cx.now())
            }
        }
    }

    /// Tells those who wait that there will be nothing to share.
    fn uncacheable(self, cx: &Cx) {
        match self.right {
            Right::Permit(permit) => permit.uncacheable(cx.now()),
            Right::Unasked => {}
        }
    }
}

/// The rules of lookup in this location.
pub fn rules(policy: &OriginPolicy, ex: &Exchange, now: Time) -> Rules {
    let model = &policy.settings.model;
    Rules {
        min_uses: model.cache_min_uses,
        lock: model.cache_lock,
        lock_age: model.cache_lock_age,
        // One who has waited before waits no longer than what is left.
        lock_timeout: ex.upstream.lock_until.map_or(model.cache_lock_timeout, |until| until.since(now)),
        ignore_vary: model.ignore_headers.vary,
        ..Rules::default()
    }
}

/// Fetches for `ex`.
pub async fn fetch(mut plan: Plan, ex: &mut Exchange, cx: &Cx, from: &Inbound<'_>) -> Step {
    let Some(policy) = cx.origin(ex) else { return Step::Synth(Synth::Final(500)) };
    let may_abort = |plan: &Plan| !is_kept(plan, policy) && !policy.settings.model.ignore_client_abort;
    let abortable = may_abort(&plan);
    let looking = resolve::look_up(policy, ex, cx);
    let resolved = match abortable {
        false => looking.await,
        true => tokio::select! {
            biased;
            found = looking => found,
            () = from.gone() => return Refused::Unwanted.step(ex, cx),
        },
    };
    let resolved = match resolved {
        Ok(resolved) => resolved,
        Err(error) => return failed(&error, plan, policy, ex, cx),
    };
    let validators = validators(&plan, policy);
    // A page that may be stored is fetched whole, whatever part of it this request wants.
    let asked = ex.request.method;
    let is_storing = plan.storing.is_some();
    if is_storing && asked == Method::Head && converts_head(policy) {
        if is_passed(policy, ex, cx) {
            plan.storing = None;
        } else {
            ex.request.method = Method::Get;
        }
    }
    let request = origin_request::build(policy, resolved, is_storing, &validators, ex, cx);
    ex.request.method = asked;
    let request = match request {
        Ok(request) => request,
        Err(step) => return step,
    };
    let (mut hinting, hints) = early_hints::begin(policy, ex, cx, from);
    let unfinished = Mutex::default();
    let fetching = larder_origin::fetch_hinting(request, &unfinished, hints);
    // It may have been found out that the answer is not for the cache.
    let abortable = may_abort(&plan);
    let mut feed = ex.request.body.take_feed();
    let outcome = match abortable || feed.is_some() || hinting.is_some() {
        false => Ok(fetching.await),
        true => tokio::select! {
            biased;
            outcome = fetching => Ok(outcome),
            refused = watch(feed.as_deref_mut(), from, abortable) => Err(refused),
            never = early_hints::pass(hinting.as_mut(), from) => match never {},
        },
    };
    if let Some(hinting) = hinting {
        hinting.finish(from, ex);
    }
    let outcome = match outcome {
        Ok(outcome) => outcome,
        Err(refused) => {
            note_attempts(std::mem::take(&mut *unfinished.lock()), ex, cx);
            return refused.step(ex, cx);
        }
    };
    if let Some(feed) = feed {
        ex.request.body = RequestBody::Passing(feed);
    }
    note_attempts(outcome.attempts, ex, cx);
    match outcome.result {
        Ok(answer) => answered(answer, plan, policy, &validators, ex, cx),
        Err(error) => failed(&error, plan, policy, ex, cx),
    }
}

/// Whether the answer is wanted even if the client leaves.
fn is_kept(plan: &Plan, policy: &OriginPolicy) -> bool {
    plan.storing.is_some() || policy.store.is_some()
}

/// Passes on the body of the request, then waits for the client to leave, if anybody minds; why it ends the fetch.
async fn watch(feed: Option<&mut Feed>, from: &Inbound<'_>, minds: bool) -> Refused {
    if let (Some(feed), Some(source)) = (feed, from.source())
        && let Err(refused) = feed.run(source).await
    {
        return refused;
    }
    if !minds {
        return std::future::pending().await;
    }
    from.gone().await;
    Refused::Unwanted
}

/// Whether a HEAD is fetched as a GET, so that what is stored has its body.
///
/// nginx has a directive for `proxy_pass` only; with FastCGI it would store the empty answer to a HEAD. Where it is off
/// that is stored for `proxy_pass` too, so that the key has to tell HEAD from GET.
pub fn converts_head(policy: &OriginPolicy) -> bool {
    match policy.protocol {
        Protocol::Http(_) => policy.settings.model.cache_convert_head,
        Protocol::FastCgi(_) => true,
    }
}

/// Whether a FastCGI answer is neither looked for nor stored, so that a HEAD may stay one: applications answer it without
/// making the page.
fn is_passed(policy: &OriginPolicy, ex: &mut Exchange, cx: &Cx) -> bool {
    matches!(policy.protocol, Protocol::FastCgi(_))
        && ex.upstream.cache_status == Some(CacheStatus::Bypass)
        && policy.cache.as_ref().is_some_and(|cache| origin_request::any_true(&cache.no_cache, ex, cx))
}

fn validators(plan: &Plan, policy: &OriginPolicy) -> Validators {
    // Other statuses are no pages that a 304 could confirm.
    let is_page = |object: &&Arc<Object>| matches!(object.status, 200 | 206);
    let Some(object) = plan.stale.as_ref().filter(is_page).filter(|_| policy.settings.model.cache_revalidate) else {
        return Validators::default();
    };
    Validators {
        last_modified: object.fields.get_known(Known::LastModified).map(<[u8]>::to_vec),
        etag: object.fields.get_known(Known::Etag).map(<[u8]>::to_vec),
    }
}

fn note_attempts(attempts: Vec<larder_origin::Attempt>, ex: &mut Exchange, cx: &Cx) {
    for attempt in attempts {
        let (error, stderr) = (attempt.error.clone(), attempt.stderr.clone());
        let address = attempt.address.clone();
        ex.tally.attempts.push(attempt);
        for line in stderr {
            cx.local.logs.origin_error(
                cx,
                ex,
                LogLevel::Error,
                &address,
                format_args!("FastCGI sent in stderr: \"{line}\" while reading response header from upstream"),
            );
        }
        if let Some(error) = error {
            cx.local.logs.origin_error(cx, ex, LogLevel::Error, &address, format_args!("{error}"));
        }
    }
}

/// The origin gave no answer: the stale page, if the directives allow it, else 502 or 504.
fn failed(error: &FetchError, plan: Plan, policy: &OriginPolicy, ex: &mut Exchange, cx: &Cx) -> Step {
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

fn answered(
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
        store_and_pump(answer, plan.storing, policy, ex, cx);
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
            lookup::zone_of(storing.zone, cx).lost(object, cx.now());
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

/// Whether a URI leads out of its folder, or holds a NUL (ngx_http_parse_unsafe_uri).
pub fn climbs(uri: &[u8]) -> bool {
    let path = uri.split(|&byte| byte == b'?').next().unwrap_or_default();
    let mut decoded = Vec::new();
    larder_http::unescape(path, &mut decoded);
    decoded.contains(&0) || decoded.split(|&byte| byte == b'/').any(|segment| segment == b"..")
}

/// X-Accel-Redirect: go where it says, with the few fields of the answer that go along.
fn redirected(to: Vec<u8>, fields: &Fields, policy: &OriginPolicy, ex: &mut Exchange, cx: &Cx) -> Step {
    response_fields::obey(fields, policy, ex, cx);
    if climbs(&to) {
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
    let Passed { body, reader, stored } = store_and_pump(answer, storing, policy, ex, cx);
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

/// A body that is on its way.
struct Passed {
    body: Body,
    /// For the response. It was there before the first byte: a body that finds no room is kept for its readers only.
    reader: BodyReader,
    /// Whether it is being stored.
    stored: bool,
}

/// Decides about storing, and starts the task that takes the body.
fn store_and_pump(
    answer: Answer,
    storing: Option<Storing>,
    policy: &OriginPolicy,
    ex: &mut Exchange,
    cx: &Cx,
) -> Passed {
    let length = answer.body.content_length();
    let is_buffered = is_buffered(policy, &answer.head.fields);
    let kept =
        keep::target(answer.head.status, &answer.head.fields, is_buffered, policy, ex, cx).map(keep::Keeping::new);
    let mut permit = None;
    let (writer, body) = match storing {
        None => larder_store::body(None, Some(spill(policy, &answer.head.fields))),
        Some(storing) => match store::keeping(answer.head.status, &answer.head.fields, policy, ex, cx) {
            Keeping::No(why) => {
                ex.upstream.cache_detail = why;
                // A failure is no reason for everyone who waits to ask at once: the next one tries.
                if answer.head.status < 500 {
                    storing.uncacheable(cx);
                }
                larder_store::body(None, Some(spill(policy, &answer.head.fields)))
            }
            keeping => {
                let zone = Arc::clone(lookup::zone_of(storing.zone, cx));
                let (mut writer, body) =
                    zone.body(&ex.upstream.cache_key, length, Some(spill(policy, &answer.head.fields)));
                if let Some(mut right) = storing.permit(policy, ex, cx) {
                    match store::object(&answer, body.clone(), keeping, policy, ex, cx) {
                        Some(object) => {
                            right.begin(object);
                            permit = Some(right);
                        }
                        None => right.uncacheable(cx.now()),
                    }
                }
                if permit.is_none() {
                    // No disk is to be filled with it.
                    writer.unstore();
                }
                (writer, body)
            }
        },
    };
    let report = Rc::new(Report::default());
    ex.tally.report = Some(Rc::clone(&report));
    let stored = permit.is_some();
    let wanted = Wanted { permit, kept, pace: pace(policy, is_buffered, ex, cx) };
    let reader = body.reader();
    start(answer, writer, report, wanted, ex, cx);
    Passed { body, reader, stored }
}

/// How fast the body may be taken: `*_limit_rate`, which nginx keeps to where it buffers.
fn pace(policy: &OriginPolicy, is_buffered: bool, ex: &mut Exchange, cx: &Cx) -> Option<pump::Pace> {
    let text = policy.limit_rate.as_ref().filter(|_| is_buffered)?;
    let rate = text.with(ex, cx, |_, value| crate::limit::parse_rate(value))?;
    pump::Pace::new(rate)
}

fn start(answer: Answer, writer: BodyWriter, report: Rc<Report>, wanted: Wanted, ex: &Exchange, cx: &Cx) {
    let address = ex.tally.attempts.last().map(|attempt| attempt.address.clone()).unwrap_or_default();
    let complaint = pump::Complaint { logs: cx.clone(), context: cx.local.logs.context(cx, ex, &address) };
    let running = cx.worker.exchange_begins();
    let is_wanted = wanted.permit.is_some() && writer.is_stored();
    let mut pumping = Box::pin(async move {
        let _running = running;
        pump::pump(answer, writer, &report, wanted, &complaint).await;
    });
    // A page that came with its head is stored before anybody gets it, and can ask for it again.
    let is_over = is_wanted && pumping.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready();
    if !is_over {
        tokio::task::spawn_local(pumping);
    }
}

/// Whether an answer is buffered: as its origin says, or else the directive.
fn is_buffered(policy: &OriginPolicy, fields: &Fields) -> bool {
    let model = &policy.settings.model;
    let told = fields.get_known(Known::XAccelBuffering).filter(|_| !model.ignore_headers.x_accel_buffering);
    match told {
        Some(value) if value.eq_ignore_ascii_case(b"no") => false,
        Some(value) if value.eq_ignore_ascii_case(b"yes") => true,
        _ => model.buffering,
    }
}

/// Where the body waits when the client is slower than the origin: memory for `*_buffers`, then a file, unless
/// buffering is off or the origin says so.
fn spill(policy: &OriginPolicy, fields: &Fields) -> Spill {
    let model = &policy.settings.model;
    let buffering = is_buffered(policy, fields);
    let memory = model.buffers.0.saturating_mul(model.buffers.1).max(model.buffer_bytes);
    Spill {
        dir: model.temp_path.clone().filter(|dir| dir.is_dir()).unwrap_or_else(|| tempfile::SYSTEM_DIR.into()),
        memory_bytes_max: if buffering { memory } else { model.buffer_bytes },
        file_bytes_max: if buffering { model.max_temp_file_bytes } else { 0 },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uri_that_leaves_its_folder_climbs() {
        for (uri, climbing) in [
            ("/protected/a.pdf", false),
            ("/a..b/c", false),
            ("/a/../b", true),
            ("/..", true),
            ("/%2e%2e/etc/passwd", true),
            ("/a%00b", true),
            ("/a?x=/../b", false),
        ] {
            assert_eq!(climbs(uri.as_bytes()), climbing, "{uri}");
        }
    }

    #[test]
    fn use_stale_covers_the_statuses_it_names() {
        let stale = UseStale { http_500: true, http_404: true, error: true, ..UseStale::default() };
        for (status, covered) in [(500, true), (404, true), (502, false), (503, false), (200, false), (418, false)] {
            assert_eq!(stale_covers(stale, status), covered, "{status}");
        }
    }
}
