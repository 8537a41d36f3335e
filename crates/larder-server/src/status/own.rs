//! What larder knows beside what NGINX Plus has a name for: `/api/larder/1`.

use std::sync::Arc;
use std::time::Duration;

use larder_origin::Group;
use larder_origin::gate::{GateStatus, WAIT_BOUNDS_MILLIS};
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use crate::context::Cx;
use crate::counts::{
    BOUNDS_MICROS, CacheSums, FROM_CACHE, FROM_ORIGIN, TimeSums, Traffic, TrafficSums, VERDICTS, Verdict, VerdictSums,
    Zones,
};
use crate::metrics;
use crate::refill::Tally;

use super::{Shape, Wrong, cluster, named, now, timestamp};

/// What there is.
const ROOTS: [&str; 13] = [
    "caches",
    "cluster",
    "explain",
    "hour",
    "latency",
    "live",
    "memory",
    "now",
    "origins",
    "process",
    "status_zones",
    "warm",
    "why",
];

/// What is at a path.
pub fn shape(path: &[&str], cx: &Cx) -> Result<Shape, Wrong> {
    let counted = &cx.site().counted;
    match path {
        [] => Ok(Shape::List(json!(ROOTS))),
        ["process"] => Ok(Shape::One(process(cx))),
        ["memory"] => Ok(Shape::One(memory(cx))),
        ["latency"] => Ok(Shape::One(latency(cx))),
        ["caches", rest @ ..] => named(caches(cx), rest, Wrong::NO_PATH),
        ["cluster"] => Ok(Shape::One(cx.worker.shared.sharing.status().as_ref().map(cluster).unwrap_or_default())),
        ["origins"] => Ok(Shape::Each(cx.site().origins.groups.iter().map(|group| origin(group, cx)).collect())),
        ["status_zones"] => {
            Ok(Shape::One(json!({ "servers": zones(&counted.servers), "locations": zones(&counted.locations) })))
        }
        ["status_zones", "servers", rest @ ..] => named(zones(&counted.servers), rest, Wrong::NO_PATH),
        ["status_zones", "locations", rest @ ..] => named(zones(&counted.locations), rest, Wrong::NO_PATH),
        ["now"] => Ok(Shape::One(now::now(cx))),
        ["hour"] => Ok(Shape::One(cx.worker.shared.dash.hour())),
        ["warm"] => Ok(Shape::One(warm(cx))),
        ["why"] => Ok(Shape::One(cx.worker.shared.misses.summary(cx.now()).to_json())),
        _ => Err(Wrong::NO_PATH),
    }
}

fn process(cx: &Cx) -> Value {
    let loaded = &cx.site().loaded;
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "pid": std::process::id(),
        "workers": cx.worker.stats_of_workers().len(),
        "generation": loaded.generation,
        "loaded": timestamp(loaded.at),
    })
}

/// What was fetched without a visitor.
fn warm(cx: &Cx) -> Value {
    let refill = &cx.worker.shared.refill;
    let passes = refill.passes.lock();
    let sitemaps = passes.iter().map(|(at, pass)| {
        json!({
            "url": at,
            "began": timestamp(pass.began), "ended": pass.ended.map(timestamp),
            "sitemaps": pass.maps, "pages": pass.pages, "foreign": pass.foreign, "left": pass.left(),
            "fetched": ends(&pass.tally), "trouble": pass.trouble,
        })
    });
    json!({
        "waiting": refill.waiting(),
        // Of these, those whose origin rests after a failure, or has visitors.
        "resting": refill.resting_pages(),
        "purged": ends(&refill.tallies.purged),
        "ahead": ends(&refill.tallies.ahead),
        "sitemap": ends(&refill.tallies.named),
        "sitemaps": sitemaps.collect::<Vec<_>>(),
    })
}

fn ends(tally: &Tally) -> Value {
    let ends = tally.sums().named().into_iter();
    ends.map(|(name, count)| (name.to_owned(), count.into())).collect::<Map<_, _>>().into()
}

fn memory(cx: &Cx) -> Value {
    let found = cx.worker.shared.pressure.found();
    json!({
        "bytes": found.used,
        "bytes_max": found.cap,
        "stage": metrics::stage(found.stage),
        "waiting": found.waiting,
    })
}

/// Of all cache zones together.
fn latency(cx: &Cx) -> Value {
    let all = cx.site().counted.verdicts().map(|sums| sums.times);
    let together = |verdicts: &[Verdict]| {
        let mut sums = TimeSums::default();
        verdicts.iter().for_each(|verdict| sums.add_sums(&all[*verdict as usize]));
        times(&sums)
    };
    json!({
        "bounds": BOUNDS_MICROS.map(|micros| micros as f64 / 1e6),
        "cache": together(&FROM_CACHE),
        "origin": together(&FROM_ORIGIN),
        "verdicts": by_verdict(&all),
    })
}

/// The times of each verdict that there was.
fn by_verdict(all: &[TimeSums; VERDICTS.len()]) -> Map<String, Value> {
    let seen = VERDICTS.iter().zip(all).filter(|(_, sums)| sums.count() > 0);
    seen.map(|((_, name), sums)| ((*name).to_owned(), times(sums))).collect()
}

/// Seconds.
fn times(sums: &TimeSums) -> Value {
    let quantile = |share| sums.quantile(share).map(|micros| micros / 1e6);
    json!({
        "count": sums.count(),
        "sum": sums.micros as f64 / 1e6,
        "p50": quantile(0.5),
        "p90": quantile(0.9),
        "p99": quantile(0.99),
        "buckets": sums.buckets,
    })
}

fn caches(cx: &Cx) -> Map<String, Value> {
    let site = cx.site();
    let zones = site.caches.zones.iter().zip(site.counted.caches.iter());
    zones
        .map(|(zone, counted)| {
            let sums: CacheSums = counted.counts.sums(VerdictSums::add);
            let stats = zone.stats();
            let told = json!({
                "verdicts": verdicts(&sums),
                "lookups": {
                    "hit": stats.hits, "stale": stats.stale, "updating": stats.updating, "miss": stats.misses,
                    "wait": stats.waits, "load": stats.loads, "scarce": stats.scarce,
                },
                "answers": {
                    "stored": stats.stored, "freshened": stats.freshened,
                    "withdrawn": stats.withdrawn, "uncacheable": stats.uncacheable,
                },
                "purged": stats.purged,
                "memory": {
                    "entries": stats.entries, "pages": stats.objects,
                    // Of all zones that share it.
                    "bytes": stats.bytes, "bytes_max": stats.bytes_max,
                    "evicted": stats.evicted, "evicted_wanted": stats.evicted_wanted, "inactive": stats.inactive, "refused": stats.refused,
                },
                "disks": zone.shelves().iter().map(|shelf| {
                    let disk = shelf.stats();
                    json!({
                        "path": shelf.dir().display().to_string(),
                        "state": metrics::state(disk.state),
                        "bytes": disk.bytes, "bytes_max": disk.bytes_max,
                        "pages": disk.objects, "segments": disk.segments, "index_bytes": disk.index_bytes,
                        "queued_bytes": disk.queued, "owed_pages": disk.owed_pages, "owed_bytes": disk.owed_bytes,
                        "written_bytes": disk.written, "pages_stored": disk.stored, "pages_stored_again": disk.reinserted,
                        "pages_skipped": {
                            "time": disk.skipped_queue, "room": disk.skipped_room, "disk": disk.skipped_out,
                        },
                        "pages_left": { "evicted": disk.evicted, "expired": disk.expired, "removed": disk.removed },
                        "evicted_wanted": disk.evicted_wanted,
                        "read_bytes": disk.read_bytes,
                        "times": { "read": times(&disk.read_times), "write": times(&disk.write_times) },
                        "reads": disk.read, "slow_reads": disk.slow_reads,
                        "errors": { "read": disk.read_errors, "write": disk.write_errors, "corrupt": disk.corrupt },
                    })
                }).collect::<Vec<_>>(),
            });
            (zone.name().to_owned(), told)
        })
        .collect()
}

fn verdicts(sums: &CacheSums) -> Map<String, Value> {
    let seen = VERDICTS.iter().zip(sums).filter(|(_, sums)| **sums != VerdictSums::default());
    seen.map(|((_, name), sums)| {
        let told = json!({
            "responses": sums.responses, "bytes": sums.bytes,
            "stored": sums.stored, "stored_bytes": sums.stored_bytes,
            "time": times(&sums.times),
        });
        ((*name).to_owned(), told)
    })
    .collect()
}

fn zones(zones: &Zones<Traffic>) -> Map<String, Value> {
    let zone = |sums: TrafficSums| {
        let statuses: Map<String, Value> =
            sums.statuses.iter().map(|(status, count)| (status.to_string(), (*count).into())).collect();
        json!({
            "requests": sums.requests, "processing": sums.processing(), "discarded": sums.discarded,
            "received": sums.received, "sent": sums.sent, "statuses": statuses, "times": by_verdict(&sums.times),
        })
    };
    zones.iter().map(|one| (one.name.clone(), zone(one.counts.sums(TrafficSums::add)))).collect()
}

/// The gate of a group. Times are seconds, and the bounds of `waits` those of `wait_bounds`.
fn gate(status: &GateStatus) -> Value {
    let counts = &status.counts;
    json!({
        "limit": status.limit, "running": status.running, "waiting": status.by_class(), "queue_max": status.queue_max,
        "time": status.time.as_secs_f64(),
        "admitted": counts.admitted, "waited": counts.waited, "refused": counts.refused,
        "displaced": counts.displaced, "expired": counts.expired, "left": counts.left,
        "wait": counts.wait.as_secs_f64(), "waits": counts.waits,
        "wait_bounds": WAIT_BOUNDS_MILLIS.map(|millis| millis as f64 / 1e3),
    })
}

/// A group of origins: a php-fpm, say.
fn origin(group: &Arc<Group>, cx: &Cx) -> Value {
    let seconds = |time: Duration| time.as_secs_f64();
    let is_sick = cx.site().origins.is_sick(group);
    let servers = group.servers(Instant::now());
    let servers = servers.iter().map(|of| {
        json!({
            "address": of.server.address.to_string(),
            "name": of.server.name,
            "state": metrics::server_state(of.state, is_sick),
            "busy": of.running,
            "busy_max": Some(of.server.max_conns).filter(|most| *most > 0),
            "requests": of.counts.requests, "fails": of.counts.fails, "unavailable": of.counts.unavailable,
            "sent": of.counts.sent, "received": of.counts.received,
            "header_time": of.counts.header_time.map(seconds), "response_time": of.counts.response_time.map(seconds),
            "selected_ago": of.counts.selected_ago.map(seconds),
            "down_for": of.counts.down_for.map(seconds), "downtime": seconds(of.counts.downtime),
        })
    });
    json!({
        "name": group.name(),
        "is_up": group.is_up(Instant::now()) && !is_sick,
        "idle_connections": group.idle(),
        "waiting": group.waiting(),
        "gate": group.gate().map(|gate| self::gate(&gate.status())),
        "servers": servers.collect::<Vec<_>>(),
    })
}
