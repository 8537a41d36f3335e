//! A fetch in the background: the visitor has the stale page already, and the new one is made once.

use crate::context::Cx;
use crate::exchange::{CacheStatus, Exchange};

use super::fetch::{self, Plan};

/// Starts the fetch that `plan` describes, on this worker, for the request in `ex`. Nobody waits for it.
pub fn spawn(plan: Plan, ex: &Exchange, cx: &Cx) {
    let mut copy = ex.for_refetch();
    copy.upstream.cache_status = Some(CacheStatus::Expired);
    copy.visit.slicing = copy.visit.slicing.for_refetch();
    let cx = cx.clone();
    let running = cx.worker.exchange_begins();
    tokio::task::spawn_local(async move {
        let _running = running;
        // What it would deliver has no reader; the object is filled on its own.
        let _ = fetch::fetch(plan, &mut copy, &cx, None).await;
    });
}
