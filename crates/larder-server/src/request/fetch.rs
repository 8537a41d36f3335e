//! Asks the origin: resolves its name, sends the request and its body, and ends the fetch if the client leaves.

use std::future::{Future as _, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use larder_conf::model::LogLevel;
use larder_http::{Known, Method, status};
use larder_origin::{Answer, Attempt, Fetch, Fetching, Group, Interim, Line, Outcome, Protocol};
use tokio::sync::mpsc::UnboundedSender;

use crate::context::Cx;
use crate::exchange::feed::{Feed, Refused};
use crate::exchange::{Cause, Exchange, Part, RequestBody, Stage};
use crate::net::Inbound;
use crate::policy::{self, Question, Validators};
use crate::records;
use crate::site::{Origin, Target};

use super::early_hints::Gathered;
use super::origin_request::passed_on::Extent;
use super::plan::{Plan, Storing};
use super::written_url::{self, By};
use super::{
    Step, Synth, answer, early_hints, explained, gate, ignored, origin_request, own_files, part, reasons, refill,
    resolve,
};

/// A fetch that is under way.
pub struct Underway {
    plan: Plan,
    validators: Validators,
    /// How long the head of the request is.
    head_bytes: u64,
    fetching: Fetching,
    /// Interim responses that go out with the answer.
    gathered: Option<Gathered>,
    /// Whether it ends when the client leaves.
    is_abortable: bool,
    /// Whether it ends then too as long as it waits at a gate, and nobody waits for it.
    may_leave_gate: bool,
    /// Whether those who come to wait for its page bring it forward at a gate.
    is_hurried: bool,
}

/// How a fetch begins that is driven by whoever polls the connection.
pub enum Begun {
    /// It is under way.
    Underway(Box<Underway>),
    /// It has ended before it began.
    Over(Step),
    /// Something has to be waited for beside the origin: [`fetch`] does that.
    Beside(Plan),
}

/// Begins a fetch for `ex`, if nothing but the origin has to be waited for.
pub fn begin(plan: Plan, ex: &mut Exchange, cx: &Cx) -> Begun {
    let (plan, origin) = match prepared(plan, ex, cx) {
        Ok(prepared) => prepared,
        Err(step) => return Begun::Over(step),
    };
    if matches!(origin.backend.target, Target::Files) {
        return Begun::Over(from_files(plan, origin, ex, cx));
    }
    let is_alone = matches!(ex.request.body, RequestBody::None | RequestBody::Memory(_) | RequestBody::File(..))
        && !matches!(origin.backend.target, Target::Variable(_))
        && cx.loc(ex).modules.early_hints.is_empty()
        && cx.site().shutdown_timeout.is_none();
    if !is_alone {
        return Begun::Beside(plan);
    }
    let (gathered, hints) = early_hints::gather(&origin.backend, ex);
    match ask(plan, None, hints, origin, ex, cx) {
        Ok(mut underway) => {
            underway.gathered = gathered;
            Begun::Underway(underway)
        }
        Err(step) => Begun::Over(step),
    }
}

impl Underway {
    /// Ready when the head of the answer is there, or there will be none.
    pub fn poll(&mut self, task: &mut Context<'_>) -> Poll<Outcome> {
        let polled = self.fetching.poll(task);
        if !self.is_hurried
            && let Some(hurry) = self.fetching.hurry()
        {
            self.is_hurried = true;
            if let Some(storing) = &self.plan.storing {
                storing.hear(gate::leader(hurry));
            }
        }
        polled
    }

    /// Whether it ends when the client leaves.
    pub fn ends_with_client(&self) -> bool {
        self.is_abortable
            || self.may_leave_gate
                && self.fetching.is_waiting()
                && !self.plan.storing.as_ref().is_some_and(Storing::is_awaited)
    }

    /// Makes the answer, or the failure, the next step.
    pub fn conclude(mut self: Box<Self>, outcome: Outcome, ex: &mut Exchange, cx: &Cx) -> Step {
        let Some(origin) = cx.origin(ex) else { return no_origin() };
        if let Some(gathered) = self.gathered.take() {
            gathered.finish(&origin.backend, ex);
        }
        count_attempts(&outcome.attempts, self.head_bytes, origin, ex, cx);
        note_attempts(outcome.attempts, ex, cx);
        let step = match outcome.result {
            Ok(answer) => {
                records::fetch::answered(&answer.head, ex);
                count_answer(&answer, ex, cx);
                answer::answered(answer, self.plan, origin, &self.validators, ex, cx)
            }
            Err(error) => {
                records::fetch::failed(ex);
                answer::failed(&error, self.plan, origin, ex, cx)
            }
        };
        reasons::note(&step, ex, cx, explained::made_by);
        refill::note_failure(ex, cx);
        step
    }

    /// Ends it without an answer.
    pub fn give_up(self: Box<Self>, why: Refused, ex: &mut Exchange, cx: &Cx) -> Step {
        let attempts = self.fetching.give_up();
        if let Some(origin) = cx.origin(ex) {
            count_attempts(&attempts, self.head_bytes, origin, ex, cx);
        }
        note_attempts(attempts, ex, cx);
        why.step(ex, cx)
    }
}

/// Fetches for `ex`: the answer, or the failure, becomes the next step.
pub async fn fetch(plan: Plan, ex: &mut Exchange, cx: &Cx, from: &Inbound<'_>) -> Step {
    let (plan, origin) = match prepared(plan, ex, cx) {
        Ok(prepared) => prepared,
        Err(step) => return step,
    };
    if matches!(origin.backend.target, Target::Files) {
        return from_files(plan, origin, ex, cx);
    }
    let looking = resolve::look_up(&origin.backend, ex, cx);
    let resolved = match may_abort(&plan, origin) {
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
    let (mut hinting, hints) = early_hints::begin(&origin.backend, ex, cx, from);
    let mut underway = match ask(plan, resolved, hints, origin, ex, cx) {
        Ok(underway) => underway,
        Err(step) => return step,
    };
    let is_abortable = underway.is_abortable;
    let mut feed = ex.request.body.take_feed();
    let mut gone = pin!(from.gone());
    let fetching = poll_fn(|task| match underway.poll(task) {
        Poll::Ready(outcome) => Poll::Ready(Ok(outcome)),
        Poll::Pending if !is_abortable && underway.ends_with_client() => {
            gone.as_mut().poll(task).map(|()| Err(Refused::Unwanted))
        }
        Poll::Pending => Poll::Pending,
    });
    let outcome = match is_abortable || feed.is_some() || hinting.is_some() {
        false => fetching.await,
        true => tokio::select! {
            biased;
            outcome = fetching => outcome,
            refused = watch(feed.as_deref_mut(), from, is_abortable) => Err(refused),
            never = early_hints::pass(hinting.as_mut(), from) => match never {},
        },
    };
    if let Some(hinting) = hinting {
        hinting.finish(from, ex);
    }
    match outcome {
        Ok(outcome) => {
            if let Some(feed) = feed {
                ex.request.body = RequestBody::Passing(feed);
            }
            underway.conclude(outcome, ex, cx)
        }
        Err(refused) => underway.give_up(refused, ex, cx),
    }
}

/// Lets the policy make the fetch ready, and choose the origin.
fn prepared<'a>(plan: Plan, ex: &mut Exchange, cx: &'a Cx) -> Result<(Plan, &'a Origin), Step> {
    let origin = cx.origin(ex).ok_or_else(no_origin)?;
    match policy::prepare(origin, plan.stale.as_deref(), ex, cx) {
        Ok(()) => Ok((plan, cx.origin(ex).ok_or_else(no_origin)?)),
        Err(detour) => Err(answer::instead(detour, plan, origin, ex, cx)),
    }
}

/// Asks the files of the location, which answer at once.
fn from_files(plan: Plan, origin: &Origin, ex: &mut Exchange, cx: &Cx) -> Step {
    match own_files::ask(plan.stale.is_some(), ex, cx) {
        Ok(answer) => answer::answered(answer, plan, origin, &Validators::default(), ex, cx),
        Err(to) => {
            if let Some(storing) = plan.storing {
                ex.upstream.cache_detail = Cause::Other("the index is elsewhere");
                storing.uncacheable(ELSEWHERE_FOR, cx);
            }
            ex.vcl.origin = 0;
            Step::Redirect(to)
        }
    }
}

/// How long nobody waits for a page that another location answers.
const ELSEWHERE_FOR: Duration = Duration::from_secs(10);

/// Makes the request to the origin, of which nothing has been sent yet.
fn ask(
    mut plan: Plan,
    resolved: Option<Arc<Group>>,
    hints: Option<UnboundedSender<Interim>>,
    origin: &Origin,
    ex: &mut Exchange,
    cx: &Cx,
) -> Result<Box<Underway>, Step> {
    let may_store = plan.storing.is_some();
    let Question { stores, as_get, leaves_out, mut validators } =
        policy::question(origin, plan.stale.as_deref(), may_store, ex, cx);
    if !stores {
        plan.storing = None;
        plan.part = None;
    }
    validators.rest = plan.part.as_deref().and_then(part::rest_of);
    let asked = ex.request.method;
    if as_get {
        ex.request.method = Method::Get;
    }
    let is_written = policy::writes_requests(origin);
    let mut before = None;
    if is_written {
        let refused = |status| Step::Synth(Synth::Final(status));
        let by = By::of(&origin.backend);
        let worn = written_url::wear(by, ex, cx).map_err(refused)?;
        if by == By::Script
            && worn.had_another_path(ex)
            && let Err(status) = written_url::belongs(&worn, ex, cx)
        {
            written_url::take_off(worn, ex);
            ex.request.method = asked;
            return Err(refused(status));
        }
        before = Some(worn);
    }
    let extent = match may_store && !is_written {
        false => Extent::AsAsked,
        true if ex.upstream.part == Part::Asked => Extent::Range,
        // A page that may be stored is fetched whole, whatever part of it this request wants.
        true => Extent::Whole,
    };
    ex.eval.leaves_out = leaves_out;
    ex.eval.reads_ignored = false;
    let request = origin_request::build(&origin.backend, resolved, extent, &validators, ex, cx);
    ex.eval.leaves_out = false;
    let is_sent = |request: &Fetch| leaves_out && ignored::is_sent(&request.protocol, ex, cx);
    ex.upstream.sent_ignored = request.as_ref().is_ok_and(is_sent);
    if let Some(before) = before {
        written_url::take_off(before, ex);
    }
    ex.request.method = asked;
    let is_abortable = may_abort(&plan, origin);
    let may_leave_gate = !origin.backend.settings.model.ignore_client_abort;
    let mut request = request?;
    if !is_written {
        records::fetch::begin(None, ex, cx);
        records::fetch::written(&request.protocol, ex);
    }
    records::fetch::sent(ex);
    policy::limit(origin, &mut request, ex);
    if is_written && ex.vcl.fetch.has_body {
        // A body goes to one backend, once.
        request.retry.is_idempotent = false;
    }
    // The first fetch of a request notes its attempts where they are kept.
    let attempts = if ex.tally.attempts.is_empty() { std::mem::take(&mut ex.tally.attempts) } else { Vec::new() };
    let head_bytes = match &request.protocol {
        Protocol::Http { head, .. } => head.len() as u64,
        Protocol::FastCgi { .. } => 0,
    };
    let fetching = Fetching::new(request, hints, attempts);
    Ok(Box::new(Underway {
        plan,
        validators,
        head_bytes,
        fetching,
        gathered: None,
        is_abortable,
        may_leave_gate,
        is_hurried: false,
    }))
}

fn no_origin() -> Step {
    Step::Synth(Synth::Final(status::INTERNAL_SERVER_ERROR))
}

/// Whether the fetch ends when the client leaves.
fn may_abort(plan: &Plan, origin: &Origin) -> bool {
    !is_kept(plan, origin) && !origin.backend.settings.model.ignore_client_abort
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

/// Counts what came of asking origins. The head of a request to each has `head_bytes`.
fn count_attempts(attempts: &[Attempt], head_bytes: u64, origin: &Origin, ex: &Exchange, cx: &Cx) {
    let stats = cx.stats();
    for (at, attempt) in attempts.iter().enumerate() {
        match attempt.line {
            Line::Kept => {
                stats.origin_connections_reused.add(1);
                // The next attempt is there because this connection was dead.
                let is_retried = attempt.error.is_some() && at + 1 < attempts.len();
                stats.origin_retries.add(u64::from(is_retried));
            }
            Line::New if attempt.connect.is_some() => stats.origin_connections.add(1),
            Line::New => stats.origin_connections_failed.add(u64::from(attempt.error.is_some())),
            Line::None => {}
        }
        stats.origin_requests.add(u64::from(attempt.sent_bytes > 0));
        policy::count_attempt(origin, attempt, head_bytes, ex, cx);
    }
}

/// Counts an answer by how its body comes; one that goes through a pipe is not looked at.
fn count_answer(answer: &Answer, ex: &Exchange, cx: &Cx) {
    if ex.vcl.fetch.pipe.is_some() {
        return;
    }
    let stats = cx.stats();
    let is_head = match ex.vcl.fetch.stage {
        Stage::New => ex.request.method == Method::Head,
        Stage::Asking | Stage::Again => ex.vcl.fetch.bereq.method == Method::Head,
    };
    let counter = match (answer.head.status, answer.body.content_length()) {
        _ if is_head => &stats.answers_to_head,
        (..200, _) => &stats.answers_1xx,
        (status::NO_CONTENT, _) => &stats.answers_204,
        (status::NOT_MODIFIED, _) => &stats.answers_304,
        _ if answer.head.fields.contains_known(Known::TransferEncoding) => &stats.answers_chunked,
        (_, Some(0)) => &stats.answers_empty,
        (_, Some(_)) => &stats.answers_with_length,
        (_, None) => &stats.answers_to_the_end,
    };
    counter.add(1);
}

fn note_attempts(mut attempts: Vec<Attempt>, ex: &mut Exchange, cx: &Cx) {
    if ex.log.fetch.is_some() {
        let name = cx.origin(ex).and_then(|origin| policy::backend_name(origin, ex));
        records::fetch::asked(&attempts, name, ex);
    }
    for attempt in &attempts {
        if !attempt.stderr.is_empty() {
            answer::log_stderr(attempt.stderr.clone(), &attempt.address, ex, cx);
        }
        if let Some(error) = &attempt.error {
            cx.local.logs.origin_error(cx, ex, LogLevel::Error, &attempt.address, format_args!("{error}"));
        }
    }
    match ex.tally.attempts.is_empty() {
        true => ex.tally.attempts = attempts,
        false => ex.tally.attempts.append(&mut attempts),
    }
}
