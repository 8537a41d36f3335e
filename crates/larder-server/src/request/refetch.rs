//! A fetch in the background (stale while revalidate): the client has the stale page already.

use std::sync::Arc;

use larder_cache::Object;

use crate::context::Cx;
use crate::exchange::{CacheStatus, Exchange, Purpose};
use crate::net::Inbound;

use super::plan::{Plan, Storing};
use super::{Slow, Step, share};

/// Starts the fetch of a page that is stale, on this worker, for the request in `ex`. Nobody waits for it.
pub fn spawn(storing: Storing, stale: Arc<Object>, ex: &Exchange, cx: &Cx) {
    cx.stats().refetches.add(1);
    let mut copy = ex.for_refetch();
    copy.upstream.cache_status = Some(CacheStatus::Expired);
    copy.request.nested.purpose = Purpose::Refetch;
    copy.visit.slicing = copy.visit.slicing.for_refetch();
    let first: Step = match share::is_asked_for(&storing, &copy, cx) {
        true => Slow::Share(Box::new(share::Sought { storing, stale: Some(stale) })).into(),
        false => Plan::new(Some(storing), Some(stale)).into(),
    };
    let cx = cx.clone();
    let running = cx.worker.seats.begin();
    tokio::task::spawn_local(async move {
        let _running = running;
        // The response has no reader; `pump` fills the object.
        drop(super::run(first, &mut copy, &cx, Inbound::Nobody).await);
    });
}

/// `step`, if it leads to an answer that is stored; a refetch aborts at any other.
pub fn only_of_refetches(step: Step) -> Step {
    match step {
        Step::Slow(Slow::Fetch(plan)) if plan.storing.is_some() => Slow::Fetch(plan).into(),
        Step::Slow(slow @ (Slow::Gather(_) | Slow::Share(_))) => slow.into(),
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
