//! Counts a client's request in the zones that it belongs to, when it begins and when it is over.

use crate::clock;
use crate::context::Cx;
use crate::counts::{Finished, Verdict};
use crate::exchange::{CacheStatus, Exchange, RequestBody};

/// A request has begun, whose server is known.
pub fn begun(ex: &Exchange, cx: &Cx) {
    cx.stats().requests.add(1);
    if let Some(zone) = cx.server(ex).zone {
        cx.local.counts.servers[zone].requests.add(1);
    }
}

/// Its response goes out from now on.
pub fn answered(ex: &mut Exchange, now: clock::Micros) {
    ex.tally.took_micros = Some(now.since(ex.asked.complete));
}

/// It is over.
pub fn finished(ex: &Exchange, cx: &Cx) {
    let stats = cx.stats();
    let head_bytes = ex.asked.head.bytes() as u64;
    let body_bytes = match ex.request.body {
        RequestBody::None => 0,
        _ => ex.request.body.read_bytes(),
    };
    let (sent, sent_body) = ex.tally.sent;
    stats.request_head_bytes.add(head_bytes);
    stats.request_body_bytes.add(body_bytes);
    stats.sent_bytes.add(sent);
    stats.sent_body_bytes.add(sent_body);
    match ex.reply.status {
        500.. if sent > 0 => stats.server_errors.add(1),
        400.. if sent > 0 => stats.client_errors.add(1),
        _ => {}
    }
    let verdict = verdict(ex);
    let request = Finished {
        verdict,
        status: (sent > 0).then_some(ex.reply.status),
        received: head_bytes + body_bytes,
        sent,
        page_bytes: page_bytes(verdict, ex),
        is_stored: ex.upstream.is_stored,
        took_micros: ex.tally.took_micros,
    };
    let counts = &cx.local.counts;
    let asked = ex.upstream.zone.filter(|_| !matches!(verdict, Verdict::Unasked | Verdict::Passed));
    // Behind the zones is the place for requests that ask none.
    if let Some(cache) = counts.caches.get(asked.unwrap_or(counts.caches.len().wrapping_sub(1))) {
        cache.finished(&request);
    }
    if let Some(zone) = cx.server(ex).zone {
        counts.servers[zone].finished(&request);
    }
    if let Some(zone) = cx.loc(ex).zone {
        counts.locations[zone].requests.add(1);
        counts.locations[zone].finished(&request);
    }
}

fn page_bytes(verdict: Verdict, ex: &Exchange) -> u64 {
    match verdict {
        Verdict::Unasked | Verdict::Hit | Verdict::Stale | Verdict::Updating | Verdict::Revalidated => ex.tally.sent.1,
        Verdict::Passed | Verdict::Miss | Verdict::Expired | Verdict::Bypass => {
            ex.tally.report.get().map_or(0, |report| report.body_bytes.get())
        }
    }
}

fn verdict(ex: &Exchange) -> Verdict {
    match ex.upstream.cache_status {
        None if ex.upstream.status.is_some() => Verdict::Passed,
        None => Verdict::Unasked,
        Some(CacheStatus::Hit) => Verdict::Hit,
        Some(CacheStatus::Stale) => Verdict::Stale,
        Some(CacheStatus::Updating) => Verdict::Updating,
        Some(CacheStatus::Revalidated) => Verdict::Revalidated,
        Some(CacheStatus::Miss) => Verdict::Miss,
        Some(CacheStatus::Expired) => Verdict::Expired,
        Some(CacheStatus::Bypass) => Verdict::Bypass,
    }
}
