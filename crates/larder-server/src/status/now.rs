//! What the dashboard shows of this moment.

use bytes::Bytes;
use larder_http::Time;
use larder_origin::Group;
use larder_origin::gate::GateStatus;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::clock;
use crate::context::Cx;
use crate::counts::{TimeSums, TlsSums};
use crate::dash::{DiskPoint, GatePoint, Point, Span, ZonePoint};
use crate::metrics;
use crate::misses::Seen;
use crate::php_status;

use super::{alarms, cluster};

/// Notes what was counted until now for the dashboard, and tells those who watch. To be called once a second.
pub fn tick(cx: &Cx, now: Time) {
    let dash = &cx.worker.shared.dash;
    dash.add(point(cx), now);
    php_status::tick(cx);
    if dash.is_watched() {
        dash.tell(event(cx));
    }
}

/// This moment as an event of a stream. Source: the HTML standard, "Server-sent events".
pub fn event(cx: &Cx) -> Bytes {
    // JSON in one line has no line break.
    Bytes::from(format!("data: {}\n\n", now(cx)))
}

/// This moment.
pub fn now(cx: &Cx) -> Value {
    cx.worker.shared.dash.php.watch(clock::steady());
    cx.worker.shared.dash.with_spans(|recent, minute| to_json(recent, minute, cx))
}

fn point(cx: &Cx) -> Point {
    let site = cx.site();
    let requests = |group: &Group| -> u64 { group.servers(Instant::now()).iter().map(|of| of.counts.requests).sum() };
    Point {
        at: clock::steady(),
        sums: cx.worker.shared_stats(),
        verdicts: site.counted.verdicts(),
        tls: site.counted.tls.sums(TlsSums::add),
        origin_requests: site.origins.groups.iter().map(|group| requests(group)).sum(),
        zones: site.caches.zones.iter().map(|zone| zone_point(zone)).collect(),
        gates: site.origins.gates().map(|(group, gate)| gate_point(group, &gate)).collect(),
    }
}

fn gate_point(group: &str, gate: &GateStatus) -> GatePoint {
    GatePoint { name: group.into(), overflows: gate.counts.overflows() }
}

fn zone_point(zone: &larder_cache::Zone) -> ZonePoint {
    let stats = zone.stats();
    let mut point = ZonePoint {
        name: zone.name().into(),
        purged: stats.purged,
        evicted: stats.evicted,
        refused: stats.refused,
        fetched: stats.misses + stats.scarce,
        evicted_wanted: stats.evicted_wanted,
        ..ZonePoint::default()
    };
    for shelf in zone.shelves().iter() {
        let disk = shelf.stats();
        point.disks.push(DiskPoint {
            written: disk.written,
            read_bytes: disk.read_bytes,
            reads: disk.read,
            write_times: disk.write_times,
            read_times: disk.read_times,
            evicted_wanted: disk.evicted_wanted,
        });
    }
    point
}

/// How many rows of what costs the origin most.
const COSTLY_MAX: usize = 12;

/// This moment. Rates are those of `recent`, times those of `minute`.
fn to_json(recent: &Span<'_>, minute: &Span<'_>, cx: &Cx) -> Value {
    let site = cx.site();
    let sums = cx.worker.shared_stats();
    let found = cx.worker.shared.pressure.found();
    let servers = origins(cx);
    let (busy, waiting) = (servers.iter().map(|of| of.busy).sum::<u64>(), waiting(cx));
    json!({
        "time": clock::now().0 as f64 / 1000.0,
        "process": {
            "host": site.hostname,
            "version": concat!("larder/", env!("CARGO_PKG_VERSION")),
            "pid": std::process::id(),
            "generation": site.loaded.generation,
            "uptime_seconds": cx.worker.shared.dash.uptime().as_secs_f64(),
        },
        "requests": {
            "total": sums.requests,
            "per_second": recent.per_second(|point| point.sums.requests),
            "bytes_per_second": recent.per_second(|point| point.sums.sent_bytes),
        },
        "connections": { "open": sums.active, "waiting": sums.waiting },
        "cache": { "share": recent.share(), "per_second": recent.asked_per_second() },
        "errors": {
            "client_per_second": recent.per_second(|point| point.sums.client_errors),
            "server_per_second": recent.per_second(|point| point.sums.server_errors),
        },
        "origin": {
            "per_second": recent.per_second(|point| point.origin_requests),
            "busy": busy,
            "waiting": waiting,
        },
        "times": {
            "cache": { "p50": minute.cache_quantile(0.5), "p99": minute.cache_quantile(0.99) },
            "origin": { "p50": minute.origin_quantile(0.5), "p99": minute.origin_quantile(0.99) },
        },
        "memory": { "bytes": found.used, "bytes_max": found.cap, "stage": metrics::stage(found.stage) },
        "tls": {
            "handshakes_per_second": recent.per_second(|point| point.tls.done),
            "resumed_share": minute.resumed_share(),
            "certificates": certificates(cx),
        },
        "pages": {
            "purged_per_second": recent.per_second(|point| point.zones.iter().map(|zone| zone.purged).sum()),
            "evicted_wanted": cx.site().caches.zones.iter().map(|zone| minute.zone_grown(zone.name(), ZonePoint::wanted)).sum::<u64>(),
            "evicted_per_second": recent.per_second(|point| point.zones.iter().map(|zone| zone.evicted).sum()),
        },
        "alarms": alarms::of(recent, minute, cx),
        "origins": servers.iter().map(Origin::to_json).collect::<Vec<_>>(),
        "gates": site.origins.gates().map(|(group, gate)| gate_to_json(group, &gate, recent)).collect::<Vec<_>>(),
        "zones": zones(recent, minute, cx),
        "cluster": cx.worker.shared.sharing.status().as_ref().map(cluster),
        "costly": cx.worker.shared.misses.summary(cx.now()).rows.iter().take(COSTLY_MAX).map(costly).collect::<Vec<_>>(),
    })
}

fn costly(row: &Seen) -> Value {
    let example = &row.example;
    json!({
        "count": row.count, "reason": row.reason, "place": row.place, "example": &*example.url, "url": example.whole_url(),
    })
}

/// A server of a group of origins.
struct Origin {
    group: String,
    server: String,
    state: &'static str,
    busy: u64,
    busy_max: Option<u64>,
    fails: u64,
    php: Value,
}

impl Origin {
    fn to_json(&self) -> Value {
        let Self { group, server, state, busy, busy_max, fails, php } = self;
        json!({
            "group": group, "server": server, "state": state, "busy": busy, "busy_max": busy_max, "fails": fails, "php": php,
        })
    }
}

fn origins(cx: &Cx) -> Vec<Origin> {
    let mut all = Vec::new();
    for (number, group) in cx.site().origins.groups.iter().enumerate() {
        let is_sick = cx.site().origins.is_sick(group);
        for of in &group.servers(Instant::now()) {
            all.push(Origin {
                group: group.name().to_owned(),
                server: of.server.address.to_string(),
                state: metrics::server_state(of.state, is_sick),
                busy: of.running as u64,
                busy_max: Some(of.server.max_conns as u64).filter(|most| *most > 0),
                fails: of.counts.fails,
                php: php_status::to_json(number, &of.server.address, cx),
            });
        }
    }
    all
}

fn gate_to_json(group: &str, gate: &GateStatus, recent: &Span<'_>) -> Value {
    let waiting = gate.waiting_all();
    json!({
        "group": group,
        "state": if waiting > 0 { "queue" } else { "open" },
        "running": gate.running,
        "limit": gate.limit,
        "waiting": waiting,
        "classes": gate.by_class(),
        "queue_max": gate.queue_max,
        "overflows_per_second": recent.overflows_per_second(group),
    })
}

/// Requests that wait for a server of a group.
fn waiting(cx: &Cx) -> u64 {
    cx.site().origins.groups.iter().map(|group| group.waiting() as u64).sum()
}

/// Each cache, and behind it its disks.
fn zones(recent: &Span<'_>, minute: &Span<'_>, cx: &Cx) -> Vec<Value> {
    let mut all = Vec::new();
    for zone in &cx.site().caches.zones {
        let stats = zone.stats();
        all.push(json!({
            "name": zone.name(),
            "state": "memory",
            "bytes": stats.bytes,
            "bytes_max": stats.bytes_max,
            "pages": stats.objects,
            "evicted_per_second": recent.zone_per_second(zone.name(), |zone| zone.evicted),
            "evicted_wanted": minute.zone_grown(zone.name(), |zone| zone.evicted_wanted),
            "refused_per_second": recent.zone_per_second(zone.name(), |zone| zone.refused),
        }));
        for (number, shelf) in zone.shelves().iter().enumerate() {
            let (at, disk) = ((zone.name(), number), shelf.stats());
            all.push(json!({
                "name": shelf.dir().display().to_string(),
                "state": metrics::state(disk.state),
                "bytes": disk.bytes,
                "bytes_max": disk.bytes_max,
                "pages": disk.objects,
                "written_per_second": recent.disk_per_second(at, |disk| disk.written),
                "read_bytes_per_second": recent.disk_per_second(at, |disk| disk.read_bytes),
                "reads_per_second": recent.disk_per_second(at, |disk| disk.reads),
                "write": quantiles(&minute.disk_times(at, |disk| disk.write_times)),
                "read": quantiles(&minute.disk_times(at, |disk| disk.read_times)),
                "evicted_wanted": minute.disk_grown(at, |disk| disk.evicted_wanted),
            }));
        }
    }
    all
}

/// Seconds.
fn quantiles(times: &TimeSums) -> Value {
    let quantile = |share| times.quantile(share).map(|micros| micros / 1e6);
    json!({ "p50": quantile(0.5), "p99": quantile(0.99) })
}

fn certificates(cx: &Cx) -> Vec<Value> {
    let now = cx.now().secs() as f64;
    let ends = cx.site().certificates.iter();
    ends.map(|one| json!({ "name": one.name, "days": (one.not_after as f64 - now) / 86_400.0 })).collect()
}
