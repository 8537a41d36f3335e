//! A fetch in the background (stale while revalidate): the client has the stale page already.

use crate::context::Cx;
use crate::exchange::{CacheStatus, Exchange, Purpose};
use crate::net::Inbound;

use super::plan::Plan;
use super::{Slow, Step};

/// Starts the fetch that `plan` describes, on this worker, for the request in `ex`. Nobody waits for it.
pub fn spawn(plan: Plan, ex: &Exchange, cx: &Cx) {
    cx.stats().refetches.add(1);
    let mut copy = ex.for_refetch();
    copy.upstream.cache_status = Some(CacheStatus::Expired);
    copy.request.nested.purpose = Purpose::Refetch;
    copy.visit.slicing = copy.visit.slicing.for_refetch();
    let cx = cx.clone();
    let running = cx.worker.seats.begin();
    tokio::task::spawn_local(async move {
        let _running = running;
        // The response has no reader; `pump` fills the object.
        drop(super::run(plan.into(), &mut copy, &cx, Inbound::Nobody).await);
    });
}

/// `step`, if it leads to an answer that is stored; a refetch aborts at any other.
pub fn only_of_refetches(step: Step) -> Step {
    match step {
        Step::Slow(Slow::Fetch(plan)) if plan.storing.is_some() => Slow::Fetch(plan).into(),
        Step::Slow(Slow::Gather(gather)) => Slow::Gather(gather).into(),
        Step::Slow(Slow::PurgeFirst(first)) => Slow::PurgeFirst(first).into(),
        Step::Slow(_)
        | Step::Route(_)
        | Step::Find
        | Step::Redirect(_)
        | Step::Handle
        | Step::Restart
        | Step::Lookup
        | Step::LookInZone(_)
        | Step::Page(_)
        | Step::Synth(_)
        | Step::Deliver(_)
        | Step::Send(_)
        | Step::Part(_)
        | Step::Abort => Step::Abort,
    }
}
