//! `larder_metrics`: the counters of the server, the caches and the disks, in the format of Prometheus.
//!
//! Source: Prometheus' "Exposition formats", the text format 0.0.4.

use std::fmt::{Display, Write};
use std::time::Duration;

use larder_cache::ZoneStats;
use larder_cluster::{ShareCounts, Status};
use larder_origin::ServerState;
use larder_origin::gate::{Class, GateStatus, WAIT_BOUNDS_MILLIS};
use larder_store::{DiskState, DiskStats};

use crate::clock;
use crate::context::Cx;
use crate::counts::{BOUNDS_MICROS, CacheSums, TimeSums, Traffic, TrafficSums, VERDICTS, VerdictSums, Zones};
use crate::dash::Pool;
use crate::php_status;
use crate::pressure::{Found, Stage};
use crate::stats::Sums;

/// The media type of the page.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// A metric of the server, of each zone or of each disk; `S` holds its counters.
struct Metric<S> {
    name: &'static str,
    kind: &'static str,
    help: &'static str,
    /// The name of its label; empty if it has a single value.
    label: &'static str,
    /// Its values, each with the label's value.
    values: fn(&S) -> Vec<(&'static str, u64)>,
}

/// Counters, and the labels that tell whose they are.
type Labelled<S> = (Vec<String>, S);

const fn counter<S>(name: &'static str, help: &'static str, values: fn(&S) -> Vec<(&'static str, u64)>) -> Metric<S> {
    Metric { name, kind: "counter", help, label: "", values }
}

const fn gauge<S>(name: &'static str, help: &'static str, values: fn(&S) -> Vec<(&'static str, u64)>) -> Metric<S> {
    Metric { name, kind: "gauge", help, label: "", values }
}

impl<S> Metric<S> {
    const fn by(self, label: &'static str) -> Self {
        Self { label, ..self }
    }
}

/// Writes the page of metrics.
pub fn page(cx: &Cx) -> String {
    let server = [(Vec::new(), cx.worker.shared_stats())];
    let (mut zones, mut disks) = (Vec::new(), Vec::new());
    for zone in &cx.site().caches.zones {
        let name = label("zone", zone.name());
        for disk in zone.shelves().iter() {
            disks.push((vec![name.clone(), label("path", disk.dir().display())], disk.stats()));
        }
        zones.push((vec![name], zone.stats()));
    }
    let mut out = String::new();
    SERVER.iter().for_each(|metric| write_metric(&mut out, metric, &server));
    let memory = [(Vec::new(), cx.worker.shared.pressure.found())];
    MEMORY.iter().for_each(|metric| write_metric(&mut out, metric, &memory));
    ZONE.iter().for_each(|metric| write_metric(&mut out, metric, &zones));
    DISK.iter().for_each(|metric| write_metric(&mut out, metric, &disks));
    write_disk_times(&mut out, &disks);
    write_gates(&mut out, cx);
    if let Some(status) = cx.worker.shared.sharing.status() {
        let labels = vec![label("cluster", &status.name), label("node", &status.node)];
        CLUSTER.iter().for_each(|metric| write_metric(&mut out, metric, &[(labels.clone(), status.clone())]));
        if let Some(share) = status.share {
            CLUSTER_SHARE.iter().for_each(|metric| write_metric(&mut out, metric, &[(labels.clone(), share)]));
        }
    }
    let tallies = &cx.worker.shared.refill.tallies;
    let fetched = [("purged", &tallies.purged), ("ahead", &tallies.ahead), ("sitemap", &tallies.named)];
    let fetched = fetched.map(|(why, tally)| (vec![label("why", why)], tally.sums()));
    if fetched.iter().any(|(_, sums)| sums.all() > 0) {
        write_metric(&mut out, &WARM, &fetched);
    }
    write_counted(&mut out, cx);
    cx.worker.shared.dash.php.watch(clock::steady());
    let pools = php_status::known(cx).into_iter();
    let pools: Vec<Labelled<Pool>> =
        pools.map(|(group, address, pool)| (vec![label("group", group), label("server", address)], pool)).collect();
    PHP.iter().for_each(|metric| write_metric(&mut out, metric, &pools));
    out
}

/// Writes how long disks took.
fn write_disk_times(out: &mut String, disks: &[Labelled<DiskStats>]) {
    let of = |times: fn(&DiskStats) -> TimeSums| {
        disks.iter().map(|(labels, disk)| (labels.clone(), times(disk))).collect::<Vec<_>>()
    };
    write_times(out, "larder_disk_read_seconds", "How long a read from the disk took.", &of(|disk| disk.read_times));
    write_times(out, "larder_disk_write_seconds", "How long a write of a batch took.", &of(|disk| disk.write_times));
}

/// Writes what is counted at the gates of groups.
fn write_gates(out: &mut String, cx: &Cx) {
    let gates = cx.site().origins.gates().map(|(group, gate)| (vec![label("group", group)], gate));
    let gates: Vec<Labelled<GateStatus>> = gates.collect();
    GATE.iter().for_each(|metric| write_metric(out, metric, &gates));
    let name = "larder_gate_wait_seconds";
    if !gates.is_empty() {
        let _ = writeln!(out, "# HELP {name} How long requests waited that came in then.\n# TYPE {name} histogram");
    }
    for (labels, gate) in &gates {
        let (labels, counts) = (labels.join(","), &gate.counts);
        let mut below = 0;
        for (held, bound) in counts.waits.iter().zip(WAIT_BOUNDS_MILLIS.map(Some).iter().chain([&None])) {
            below += held;
            let bound = bound.map_or_else(|| "+Inf".to_owned(), |millis| (millis as f64 / 1e3).to_string());
            let _ = writeln!(out, "{name}_bucket{{{labels},le=\"{bound}\"}} {below}");
        }
        let _ = writeln!(out, "{name}_sum{{{labels}}} {}\n{name}_count{{{labels}}} {below}", counts.wait.as_secs_f64());
    }
}

/// Writes what is counted of requests, by zone.
fn write_counted(out: &mut String, cx: &Cx) {
    let counted = &cx.site().counted;
    let mut took = Vec::new();
    for zone in counted.caches.iter() {
        let sums: CacheSums = zone.counts.sums(VerdictSums::add);
        took.extend(by_verdict(&[label("zone", &zone.name)], sums.iter().map(|sums| sums.times)));
    }
    write_times(out, "larder_request_seconds", "Time until the response began, by cache and what it said.", &took);
    let traffic = of_status_zones("server", &counted.servers).chain(of_status_zones("location", &counted.locations));
    let traffic: Vec<Labelled<TrafficSums>> = traffic.collect();
    STATUS_ZONE.iter().for_each(|metric| write_metric(out, metric, &traffic));
    let took: Vec<_> = traffic.iter().flat_map(|(labels, sums)| by_verdict(labels, sums.times)).collect();
    write_times(out, "larder_status_zone_request_seconds", "The same, by status_zone.", &took);
}

fn of_status_zones<'a>(of: &'a str, zones: &'a Zones<Traffic>) -> impl Iterator<Item = Labelled<TrafficSums>> + 'a {
    zones.iter().map(move |zone| (vec![label("of", of), label("zone", &zone.name)], zone.counts.sums(TrafficSums::add)))
}

/// The times of each verdict that there was.
fn by_verdict(labels: &[String], times: impl IntoIterator<Item = TimeSums>) -> Vec<Labelled<TimeSums>> {
    let labelled = |(verdict, times)| {
        let labels = labels.iter().cloned().chain([label("verdict", verdict)]);
        (labels.collect(), times)
    };
    let names = VERDICTS.iter().map(|(_, name)| *name);
    names.zip(times).filter(|(_, times)| times.count() > 0).map(labelled).collect()
}

/// Writes a histogram.
fn write_times(out: &mut String, name: &str, help: &str, all: &[Labelled<TimeSums>]) {
    if all.is_empty() {
        return;
    }
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} histogram");
    for (labels, times) in all {
        let labels = labels.join(",");
        let mut below = 0;
        for (held, bound) in times.buckets.iter().zip(BOUNDS_MICROS.map(Some).iter().chain([&None])) {
            below += held;
            let bound = bound.map_or_else(|| "+Inf".to_owned(), |micros| seconds(micros).to_string());
            let _ = writeln!(out, "{name}_bucket{{{labels},le=\"{bound}\"}} {below}");
        }
        let _ = writeln!(out, "{name}_sum{{{labels}}} {}\n{name}_count{{{labels}}} {below}", seconds(times.micros));
    }
}

fn seconds(micros: u64) -> f64 {
    micros as f64 / 1e6
}

/// Writes a label, without the characters that its value must not have.
fn label(name: &str, value: impl Display) -> String {
    let value = value.to_string().replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    format!("{name}=\"{value}\"")
}

/// Writes a metric with its values, if it has any.
fn write_metric<S>(out: &mut String, metric: &Metric<S>, all: &[Labelled<S>]) {
    let Metric { name, kind, help, .. } = metric;
    let mut lines = String::new();
    for (labels, stats) in all {
        for (label_value, value) in (metric.values)(stats) {
            let mut labels = labels.clone();
            if !metric.label.is_empty() {
                labels.push(label(metric.label, label_value));
            }
            let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
            // Writing to a string cannot fail.
            let _ = writeln!(lines, "{name}{labels} {value}");
        }
    }
    if !lines.is_empty() {
        let _ = write!(out, "# HELP {name} {help}\n# TYPE {name} {kind}\n{lines}");
    }
}

const SERVER: [Metric<Sums>; 4] = [
    counter("larder_connections_accepted_total", "Connections that were accepted.", |all| vec![("", all.accepted)]),
    counter("larder_requests_total", "Requests that began.", |all| vec![("", all.requests)]),
    counter("larder_files_from_memory_total", "Files that were found in memory.", |all| vec![("", all.files_kept)]),
    gauge("larder_connections", "Connections now.", |all: &Sums| {
        vec![("reading", all.reading), ("writing", all.writing), ("waiting", all.waiting)]
    })
    .by("state"),
];

const GATE: [Metric<GateStatus>; 4] = [
    gauge("larder_gate_limit", "How many requests may be at the origins of a group at once.", |gate: &GateStatus| {
        gate.limit.map(|limit| ("", limit.into())).into_iter().collect()
    }),
    gauge("larder_gate_running", "How many requests are.", |gate: &GateStatus| vec![("", gate.running.into())]),
    gauge("larder_gate_waiting", "How many requests wait for their turn.", |gate: &GateStatus| {
        Class::all().zip(gate.waiting).map(|(class, count)| (class.name(), count.into())).collect()
    })
    .by("class"),
    counter("larder_gate_requests_total", "Requests that came to the gate.", |gate: &GateStatus| {
        let counts = &gate.counts;
        vec![
            ("at_once", counts.admitted - counts.waited),
            ("waited", counts.waited),
            ("refused", counts.refused),
            ("displaced", counts.displaced),
            ("expired", counts.expired),
            ("left", counts.left),
        ]
    })
    .by("outcome"),
];

const CLUSTER: [Metric<Status>; 8] = [
    gauge("larder_cluster_up", "Whether the server of the cluster is of use.", |of: &Status| {
        vec![("", of.fault.is_none().into())]
    }),
    gauge("larder_cluster_uses_stored_pages", "Whether stored pages may be used.", |of: &Status| {
        vec![("", of.is_trusted.into())]
    }),
    gauge(
        "larder_cluster_behind_milliseconds",
        "How long ago all purges of others were carried out.",
        |of: &Status| of.heard_ago.map(|ago| ("", millis(ago))).into_iter().collect(),
    ),
    gauge("larder_cluster_lag_entries", "Purges in the log that this node has not carried out.", |of: &Status| {
        of.lag().map(|lag| ("", lag.entries)).into_iter().collect()
    }),
    gauge("larder_cluster_lag_milliseconds", "How long the oldest of them has been in the log.", |of: &Status| {
        of.lag().map(|lag| ("", millis(lag.time))).into_iter().collect()
    }),
    gauge("larder_cluster_nodes", "Nodes by whether they are there.", |of: &Status| {
        let away = of.nodes.iter().filter(|node| node.away.is_some()).count();
        let states = [("there", (of.nodes.len() - away) as u64), ("away", away as u64)];
        states.into_iter().filter(|_| of.lag().is_some()).collect()
    })
    .by("state"),
    gauge("larder_cluster_unsent", "Purges that wait for the server.", |of: &Status| vec![("", of.unsent as u64)]),
    counter("larder_cluster_purges_total", "Purges by who wished them.", |of: &Status| {
        vec![("here", of.sent), ("elsewhere", of.carried)]
    })
    .by("wished"),
];

const CLUSTER_SHARE: [Metric<ShareCounts>; 2] = [
    counter(
        "larder_cluster_share_looks_total",
        "Looks for a page of another node, by what they led to.",
        |of: &ShareCounts| {
            let ShareCounts { found, missing, waited, skipped, .. } = *of;
            vec![("found", found), ("missing", missing), ("waited", waited), ("skipped", skipped)]
        },
    )
    .by("result"),
    counter("larder_cluster_share_pages_total", "Pages that this node fetched for all.", |of: &ShareCounts| {
        vec![("stored", of.stored), ("not stored", of.unstored)]
    })
    .by("result"),
];

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

const WARM: Metric<crate::refill::Sums> = counter(
    "larder_warm_pages_total",
    "Pages that larder was to fetch without a visitor.",
    |sums: &crate::refill::Sums| sums.named().to_vec(),
)
.by("outcome");

const MEMORY: [Metric<Found>; 4] = [
    gauge("larder_memory_bytes", "Memory in use, of the limit that is nearest.", |found: &Found| {
        vec![("", found.used)]
    }),
    gauge("larder_memory_bytes_max", "What may be used of it.", |found: &Found| {
        found.cap.map(|cap| ("", cap)).into_iter().collect()
    }),
    gauge("larder_memory_stage", "1 for what gives way to it.", |found: &Found| vec![(stage(found.stage), 1)])
        .by("stage"),
    gauge("larder_memory_waiting", "Requests and connections that wait for memory.", |found: &Found| {
        vec![("", found.waiting)]
    }),
];

/// How short memory is, in a word.
pub fn stage(stage: Stage) -> &'static str {
    match stage {
        Stage::Ample => "ample",
        Stage::Less => "less",
        Stage::Full => "full",
        Stage::Waiting => "waiting",
    }
}

const STATUS_ZONE: [Metric<TrafficSums>; 6] = [
    counter("larder_status_zone_requests_total", "Requests that began.", |zone| vec![("", zone.requests)]),
    gauge("larder_status_zone_processing", "Requests now.", |zone| vec![("", zone.processing())]),
    counter("larder_status_zone_responses_total", "Responses, by the kind of their status.", |zone: &TrafficSums| {
        ["1xx", "2xx", "3xx", "4xx", "5xx"].into_iter().zip(zone.classes()).collect()
    })
    .by("status"),
    counter("larder_status_zone_discarded_total", "Requests that ended without a response.", |zone| {
        vec![("", zone.discarded)]
    }),
    counter("larder_status_zone_received_bytes_total", "Bytes from clients.", |zone| vec![("", zone.received)]),
    counter("larder_status_zone_sent_bytes_total", "Bytes to clients.", |zone| vec![("", zone.sent)]),
];

const ZONE: [Metric<ZoneStats>; 12] = [
    counter(
        "larder_cache_lookups_total",
        "Lookups, by what they found; wait: another's fetch, load: a disk.",
        |zone: &ZoneStats| {
            vec![
                ("hit", zone.hits),
                ("stale", zone.stale),
                ("updating", zone.updating),
                ("miss", zone.misses),
                ("wait", zone.waits),
                ("load", zone.loads),
                ("scarce", zone.scarce),
            ]
        },
    )
    .by("result"),
    counter("larder_cache_responses_total", "Responses of origins, by what became of them.", |zone: &ZoneStats| {
        vec![
            ("stored", zone.stored),
            ("freshened", zone.freshened),
            ("withdrawn", zone.withdrawn),
            ("uncacheable", zone.uncacheable),
        ]
    })
    .by("outcome"),
    counter("larder_cache_purged_total", "Pages that were purged.", |zone| vec![("", zone.purged)]),
    counter("larder_cache_loaded_total", "Pages that came back from a disk into memory.", |zone| {
        vec![("", zone.loaded)]
    }),
    counter("larder_cache_forms_total", "Compressed forms of pages, by what became of them.", |zone: &ZoneStats| {
        vec![("kept", zone.forms), ("unwanted", zone.forms_unwanted), ("refused", zone.forms_refused)]
    })
    .by("outcome"),
    gauge("larder_cache_entries", "Keys in memory.", |zone| vec![("", zone.entries as u64)]),
    gauge("larder_cache_memory_bytes", "Memory in use by all zones that share it with this one.", |zone| {
        vec![("", zone.bytes)]
    }),
    gauge("larder_cache_memory_bytes_max", "The most that it may be.", |zone| vec![("", zone.bytes_max)]),
    counter("larder_cache_memory_evicted_total", "Entries that left that memory to make room.", |zone| {
        vec![("", zone.evicted)]
    }),
    counter(
        "larder_cache_memory_evicted_wanted_total",
        "Pages that were fetched again while they would have been fresh, as they had left that memory to make room.",
        |zone| vec![("", zone.evicted_wanted)],
    ),
    counter("larder_cache_memory_inactive_total", "Entries that left it unused for the time of inactive.", |zone| {
        vec![("", zone.inactive)]
    }),
    counter("larder_cache_memory_refused_total", "Times that it had no room for something.", |zone| {
        vec![("", zone.refused)]
    }),
];

const DISK: [Metric<DiskStats>; 19] = [
    gauge("larder_disk_state", "1 for what the disk of a zone does.", |disk: &DiskStats| vec![(state(disk.state), 1)])
        .by("state"),
    gauge("larder_disk_bytes", "Bytes that the folder takes.", |disk| vec![("", disk.bytes)]),
    gauge("larder_disk_bytes_max", "max_size, where there is one.", |disk| {
        disk.bytes_max.map(|max| ("", max)).into_iter().collect()
    }),
    gauge("larder_disk_pages", "Pages that can be found.", |disk| vec![("", disk.objects as u64)]),
    gauge("larder_disk_index_bytes", "Memory of the index.", |disk| vec![("", disk.index_bytes)]),
    gauge("larder_disk_segments", "Segment files.", |disk| vec![("", disk.segments as u64)]),
    gauge("larder_disk_queued_bytes", "Bytes that wait to be written.", |disk| vec![("", disk.queued as u64)]),
    gauge("larder_disk_owed_pages", "Pages in memory that are still to be written.", |disk| {
        vec![("", disk.owed_pages)]
    }),
    gauge("larder_disk_owed_bytes", "Bytes of these.", |disk| vec![("", disk.owed_bytes)]),
    counter("larder_disk_written_bytes_total", "Bytes written.", |disk| vec![("", disk.written)]),
    counter(
        "larder_disk_pages_stored_total",
        "Pages written; again: as they were used before they left.",
        |disk: &DiskStats| vec![("new", disk.stored), ("again", disk.reinserted)],
    )
    .by("kind"),
    counter(
        "larder_disk_pages_skipped_total",
        "Pages that stayed in memory only, by what there was too little of.",
        |disk: &DiskStats| vec![("time", disk.skipped_queue), ("room", disk.skipped_room), ("disk", disk.skipped_out)],
    )
    .by("lack"),
    counter("larder_disk_pages_left_total", "Pages that left, by why.", |disk: &DiskStats| {
        vec![("evicted", disk.evicted), ("expired", disk.expired), ("removed", disk.removed)]
    })
    .by("reason"),
    counter(
        "larder_disk_evicted_wanted_total",
        "Pages that were fetched again while they could still have been used, as they had left to make room.",
        |disk| vec![("", disk.evicted_wanted)],
    ),
    counter("larder_disk_reads_total", "Pages read.", |disk| vec![("", disk.read)]),
    counter("larder_disk_read_bytes_total", "Bytes that the disk had to read.", |disk| vec![("", disk.read_bytes)]),
    counter("larder_disk_slow_reads_total", "Reads that took longer than a second.", |disk| {
        vec![("", disk.slow_reads)]
    }),
    counter("larder_disk_errors_total", "Reads and writes that failed.", |disk: &DiskStats| {
        vec![("read", disk.read_errors), ("write", disk.write_errors)]
    })
    .by("operation"),
    counter("larder_disk_corrupt_total", "Records that were not as they had been written.", |disk| {
        vec![("", disk.corrupt)]
    }),
];

const PHP: [Metric<Pool>; 3] = [
    gauge("larder_php_children", "Children of php-fpm.", |pool: &Pool| {
        vec![("busy", pool.busy), ("idle", pool.children.saturating_sub(pool.busy))]
    })
    .by("state"),
    gauge("larder_php_waiting", "Connections that wait for a child.", |pool| {
        pool.waiting.map(|waiting| ("", waiting)).into_iter().collect()
    }),
    counter("larder_php_exhausted_total", "Times that all children that there may be were busy.", |pool| {
        vec![("", pool.exhausted)]
    }),
];

/// Whether a server is asked, in a word; `is_sick` is what a VCL says of it.
pub fn server_state(state: ServerState, is_sick: bool) -> &'static str {
    match state {
        ServerState::Up if is_sick => "sick",
        ServerState::Up => "up",
        ServerState::Down => "down",
        ServerState::Unavailable => "unavailable",
    }
}

/// What a disk does, in a word.
pub fn state(state: DiskState) -> &'static str {
    match state {
        DiskState::Opening => "opening",
        DiskState::Waiting => "waiting",
        DiskState::Serving => "serving",
        DiskState::ReadOnly => "read-only",
        DiskState::Out => "out",
        DiskState::Stopped => "stopped",
    }
}

#[cfg(test)]
mod tests {
    use crate::counts::Times;

    use super::*;

    #[test]
    fn labels_are_told_apart_whatever_is_in_them() {
        assert_eq!(label("zone", "a"), r#"zone="a""#);
        assert_eq!(label("path", "/b\\c\"d\ne"), r#"path="/b\\c\"d\ne""#);
    }

    #[test]
    fn a_metric_without_values_is_not_there() {
        let mut out = String::new();
        let metric = gauge::<Option<u64>>("m", "Something.", |value| value.iter().map(|&value| ("", value)).collect());
        write_metric(&mut out, &metric, &[]);
        write_metric(&mut out, &metric, &[(vec![label("zone", "a")], None)]);
        assert_eq!(out, "");
        write_metric(&mut out, &metric, &[(Vec::new(), Some(1)), (vec![label("zone", "a")], Some(2))]);
        assert_eq!(out, "# HELP m Something.\n# TYPE m gauge\nm 1\nm{zone=\"a\"} 2\n");
    }

    #[test]
    fn a_histogram_counts_what_is_not_above_each_bound() {
        let times = Times::default();
        [20, 20, 7_000_000, 999_000_000].into_iter().for_each(|micros| times.add(micros));
        let mut sums = TimeSums::default();
        times.add_to(&mut sums);
        let mut all = [TimeSums::default(); VERDICTS.len()];
        all[1] = sums;
        let mut out = String::new();
        write_times(&mut out, "m", "Times.", &by_verdict(&[label("zone", "a")], all));
        for line in [
            "# HELP m Times.\n# TYPE m histogram\nm_bucket{zone=\"a\",verdict=\"hit\",le=\"0.00001\"} 0\n",
            "m_bucket{zone=\"a\",verdict=\"hit\",le=\"0.000025\"} 2\n",
            "m_bucket{zone=\"a\",verdict=\"hit\",le=\"5\"} 2\nm_bucket{zone=\"a\",verdict=\"hit\",le=\"10\"} 3\n",
            "m_bucket{zone=\"a\",verdict=\"hit\",le=\"120\"} 3\nm_bucket{zone=\"a\",verdict=\"hit\",le=\"+Inf\"} 4\n",
            "m_sum{zone=\"a\",verdict=\"hit\"} 1006.00004\nm_count{zone=\"a\",verdict=\"hit\"} 4\n",
        ] {
            assert!(out.contains(line), "{line} in\n{out}");
        }
        assert!(!out.contains("verdict=\"miss\""), "what never was is not told");
    }
}
