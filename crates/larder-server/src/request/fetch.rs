//! Asks the origin: resolves its name, sends the request and its body, and ends the fetch if the client leaves.

use larder_conf::model::LogLevel;
use larder_http::{Method, status};
use parking_lot::Mutex;

use crate::context::Cx;
use crate::exchange::feed::{Feed, Refused};
use crate::exchange::{Exchange, RequestBody};
use crate::net::Inbound;
use crate::policy::{self, Question};
use crate::site::Origin;

use super::plan::Plan;
use super::{Step, Synth, answer, early_hints, origin_request, resolve};

/// Fetches for `ex`: the answer, or the failure, becomes the next step.
pub async fn fetch(mut plan: Plan, ex: &mut Exchange, cx: &Cx, from: &Inbound<'_>) -> Step {
    let Some(origin) = cx.origin(ex) else { return Step::Synth(Synth::Final(status::INTERNAL_SERVER_ERROR)) };
    let may_abort = |plan: &Plan| !is_kept(plan, origin) && !origin.backend.settings.model.ignore_client_abort;
    let abortable = may_abort(&plan);
    let looking = resolve::look_up(&origin.backend, ex, cx);
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
        Err(error) => return answer::failed(&error, plan, origin, ex, cx),
    };
    // A page that may be stored is fetched whole, whatever part of it this request wants.
    let fetches_whole = plan.storing.is_some();
    let Question { stores, as_get, validators } =
        policy::question(origin, plan.stale.as_deref(), fetches_whole, ex, cx);
    if !stores {
        plan.storing = None;
    }
    let asked = ex.request.method;
    if as_get {
        ex.request.method = Method::Get;
    }
    let request = origin_request::build(&origin.backend, resolved, fetches_whole, &validators, ex, cx);
    ex.request.method = asked;
    let request = match request {
        Ok(request) => request,
        Err(step) => return step,
    };
    let (mut hinting, hints) = early_hints::begin(&origin.backend, ex, cx, from);
    let unfinished = Mutex::default();
    let fetching = larder_origin::fetch_hinting(request, &unfinished, hints);
    // `question` may have found that the answer is not for the cache.
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
        Ok(answer) => answer::answered(answer, plan, origin, &validators, ex, cx),
        Err(error) => answer::failed(&error, plan, origin, ex, cx),
    }
}

/// Whether the answer is stored, so that the fetch goes on when the client leaves.
fn is_kept(plan: &Plan, origin: &Origin) -> bool {
    plan.storing.is_some() || origin.policy.file().is_some()
}

/// Passes on the body of the request, then waits for the client to leave if the fetch is to end with it (`minds`).
/// Returns why the fetch ends.
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

fn note_attempts(attempts: Vec<larder_origin::Attempt>, ex: &mut Exchange, cx: &Cx) {
    for attempt in attempts {
        let (error, stderr) = (attempt.error.clone(), attempt.stderr.clone());
        let address = attempt.address.clone();
        ex.tally.attempts.push(attempt);
        answer::log_stderr(stderr, &address, ex, cx);
        if let Some(error) = error {
            cx.local.logs.origin_error(cx, ex, LogLevel::Error, &address, format_args!("{error}"));
        }
    }
}
