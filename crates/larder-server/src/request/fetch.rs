//! Asking the origin: its address, the request, the body of the request beside it, and who leaves meanwhile.

use std::sync::Arc;

use larder_cache::Object;
use larder_conf::model::LogLevel;
use larder_http::{Known, Method};
use parking_lot::Mutex;

use crate::context::Cx;
use crate::exchange::feed::{Feed, Refused};
use crate::exchange::{CacheStatus, Exchange, RequestBody};
use crate::net::Inbound;
use crate::site::{OriginPolicy, Protocol};
use crate::text::Text;

use super::origin_request::{self, Validators};
use super::plan::Plan;
use super::{Step, Synth, answer, early_hints, resolve};

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
        Err(error) => return answer::failed(&error, plan, policy, ex, cx),
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
        Ok(answer) => answer::answered(answer, plan, policy, &validators, ex, cx),
        Err(error) => answer::failed(&error, plan, policy, ex, cx),
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
        && policy.cache.as_ref().is_some_and(|cache| Text::any_true(&cache.no_cache, ex, cx))
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
