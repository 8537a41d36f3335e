//! `obj` and `obj_stale`: a page that was found.

use larder_cache::{Mark, Object};
use larder_vcl::functions::reasons::reason as reason_of;
use larder_vcl::run::{Failure, Texts, Value};
use larder_vcl::steps::Step;
use larder_vcl::vars::Variable;

use crate::bans::origin;
use crate::context::Cx;
use crate::site::VclPolicy;

use super::super::seconds;
use super::super::task::Run;

/// The value of a variable of a page; `None` if it is not one.
pub fn get(run: &Run<'_>, variable: Variable, texts: &mut Texts<'_>) -> Result<Option<Value>, Failure> {
    use Variable as V;
    let Some(page) = run.ex.vcl.page.as_deref() else { return Ok(fetched(variable, run)) };
    Ok(Some(match variable {
        V::ObjAge | V::ObjStaleAge => Value::Real(age(page, run.now)),
        V::ObjTime | V::ObjStaleTime => Value::Real(run.now - age(page, run.now)),
        V::ObjTtl | V::ObjStaleTtl => Value::Real(page.fresh_until.secs_f64() - found_at(run)),
        V::ObjGrace | V::ObjStaleGrace => Value::Real(page.stale_while_revalidate.as_secs_f64()),
        V::ObjKeep | V::ObjStaleKeep => Value::Real(keep(page)),
        V::ObjHits | V::ObjStaleHits => Value::Int(page.hits().into()),
        V::ObjStatus | V::ObjStaleStatus => Value::Int(page.status.into()),
        V::ObjReason | V::ObjStaleReason => Value::Text(Some(texts.keep(reason(page))?)),
        V::ObjProto | V::ObjStaleProto => Value::Text(Some(texts.keep(b"HTTP/1.1")?)),
        V::ObjUncacheable | V::ObjStaleUncacheable => Value::Bool(page.mark() != Mark::Page),
        V::ObjCanEsi | V::ObjStaleCanEsi => Value::Bool(page.esi_base().is_some()),
        V::ObjStorage | V::ObjStaleStorage => Value::Id(Some(0)),
        V::ObjStaleIsValid => Value::Bool(is_valid(run.policy, page, run.cx)),
        _ => return Ok(None),
    }))
}

/// What is said of a response that was not found, but fetched: it has the times that `vcl_backend_response` left it.
fn fetched(variable: Variable, run: &Run<'_>) -> Option<Value> {
    use Variable as V;
    let answer = &run.ex.vcl.fetch.answer;
    Some(match variable {
        V::ObjHits => Value::Int(0),
        V::ObjAge => Value::Real(run.now - answer.origin),
        V::ObjTime => Value::Real(answer.origin),
        V::ObjTtl => Value::Real(answer.fresh_until.max(answer.origin) - run.now),
        V::ObjGrace => Value::Real(answer.grace),
        V::ObjKeep => Value::Real(answer.keep),
        V::ObjUncacheable => Value::Bool(answer.is_uncacheable),
        V::ObjCanEsi => Value::Bool(answer.esi_base.is_some()),
        V::ObjStorage => Value::Id(Some(0)),
        _ => return None,
    })
}

/// When the page was found, by which it is fresh or not; at its delivery, and for a fetch, that is now.
fn found_at(run: &Run<'_>) -> f64 {
    match run.step {
        Step::Hit | Step::Miss | Step::Pass | Step::Purge | Step::Synth => seconds(run.ex.asked.started),
        _ => run.now,
    }
}

fn reason(page: &Object) -> &[u8] {
    if page.reason.is_empty() { reason_of(page.status).as_bytes() } else { &page.reason }
}

/// How old a page is at `now`, in seconds: with what its origin's `Age` said, which is kept with the page.
pub fn age(page: &Object, now: f64) -> f64 {
    now - origin(page)
}

/// Whether a page has not been purged since it was found: then no 304 makes it fresh.
pub fn is_valid(policy: &VclPolicy, stale: &Object, cx: &Cx) -> bool {
    policy.zone.is_some_and(|zone| cx.zone(zone).keeps(stale))
}

/// `obj.keep`: how long it stays behind its grace.
pub fn keep(page: &Object) -> f64 {
    page.stale_if_error.saturating_sub(page.stale_while_revalidate).as_secs_f64()
}
