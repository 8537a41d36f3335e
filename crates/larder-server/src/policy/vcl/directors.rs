//! Directors and other objects, as a request asks them.

use larder_conf::model::LogLevel;
use larder_vcl::policy::ObjectId;
use larder_vcl::run::{Failure, Texts, Value};
use larder_vcl::steps::{Step, Steps};
use larder_vcl::vmods::MethodId;

use crate::context::Cx;
use crate::directors::{Asker, Number};
use crate::exchange::Exchange;
use crate::objects::Caller;
use crate::site::VclPolicy;

use super::seconds;
use super::task::Run;

/// The backend that a director chooses.
pub fn resolve(run: &mut Run<'_>, backend: Number) -> Option<Number> {
    let share = || share(run.cx);
    let asker = asker(run.step, run.ex, &share, run.cx);
    run.policy.vcl.objects.directors.resolve(backend, &asker)
}

/// A request that asks a director.
pub fn asker<'a>(step: Step, ex: &'a Exchange, share: &'a dyn Fn() -> f64, cx: &Cx) -> Asker<'a> {
    let is_fetch = is_fetch(step);
    Asker {
        now: seconds(cx.now()),
        share,
        page: is_fetch.then_some(&ex.upstream.cache_key),
        url: url(step, ex),
        task: is_fetch.then_some(&ex.vcl.fetch.shards),
    }
}

/// Calls a method of an object.
pub fn call(
    run: &mut Run<'_>,
    object: ObjectId,
    method: MethodId,
    args: &[Value],
    texts: &mut Texts<'_>,
) -> Result<Value, Failure> {
    let (cx, ex, step, now) = (run.cx, &mut *run.ex, run.step, run.now);
    let share = || share(cx);
    let mut caller = Caller {
        step,
        now,
        share: &share,
        page: is_fetch(step).then_some(&ex.upstream.cache_key),
        url: if Steps::BACKEND.contains(step) { ex.vcl.fetch.bereq.target() } else { ex.asked.head.target() },
        task: is_fetch(step).then_some(&mut ex.vcl.fetch.shards),
        notes: Vec::new(),
    };
    let value = run.policy.vcl.objects.call((object, method), args, &mut caller, texts);
    for note in caller.notes {
        cx.local.logs.error(cx, ex, LogLevel::Notice, format_args!("{note}"));
    }
    value
}

/// Makes the changes of shard directors that a sub has left.
#[inline]
pub fn settle(policy: &VclPolicy, ex: &Exchange, cx: &Cx) {
    // Most VCLs have no objects.
    if !policy.vcl.policy.objects.is_empty() {
        settle_all(policy, ex, cx);
    }
}

fn settle_all(policy: &VclPolicy, ex: &Exchange, cx: &Cx) {
    for note in policy.vcl.objects.directors.settle() {
        cx.local.logs.error(cx, ex, LogLevel::Notice, format_args!("{note}"));
    }
}

/// Whether a sub belongs to a fetch, or to a pipe, which is one.
fn is_fetch(step: Step) -> bool {
    Steps::BACKEND.or(Steps::of(Step::Pipe)).contains(step)
}

/// `bereq.url` or `req.url`, as the side has it.
fn url(step: Step, ex: &Exchange) -> &[u8] {
    if Steps::BACKEND.contains(step) { ex.vcl.fetch.bereq.target() } else { ex.asked.head.target() }
}

/// A random number of at least 0 and less than 1.
pub fn share(cx: &Cx) -> f64 {
    // As many bits as the fraction of a number has.
    (cx.worker.random() >> 11) as f64 / (1_u64 << 53) as f64
}
