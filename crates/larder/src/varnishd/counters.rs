//! The counters that `larder varnishstat` shows, under Varnish's names.
//!
//! A name stands for what it stands for in Varnish. What has no meaning here, or is not counted, has no row: a 0 would be
//! taken for a count. docs/monitoring.md says what is missing.

use std::collections::HashSet;

use larder_cache::BanStats;
use larder_server::directors;
use larder_server::{Counted, CountedZone, Sums};

use super::state::State;
use super::storages::{Kind as StorageKind, Storage};
use super::vcls::Vcl;
use crate::varnishstat::point::{Format, Kind, Point};

/// What a counter of the server is taken from.
struct Seen {
    counted: Counted,
    /// The zone that has the pages.
    bans: BanStats,
    /// Sums over all zones.
    waits: u64,
    objects: u64,
    entries: u64,
    evicted: u64,
    /// Backends of all VCLs that are warm, and all VCLs.
    backends: u64,
    vcls: u64,
    /// The modules that these import, each once.
    modules: u64,
    workers: u64,
}

/// A counter of something: its name, what it is, where its value is, what it counts.
struct Row<S> {
    name: &'static str,
    kind: Kind,
    format: Format,
    value: fn(&S) -> u64,
    about: &'static str,
}

const fn counter<S>(name: &'static str, value: fn(&S) -> u64, about: &'static str) -> Row<S> {
    Row { name, kind: Kind::Counter, format: Format::Integer, value, about }
}

const fn gauge<S>(name: &'static str, value: fn(&S) -> u64, about: &'static str) -> Row<S> {
    Row { name, kind: Kind::Gauge, format: Format::Integer, value, about }
}

impl<S> Row<S> {
    const fn bytes(self) -> Self {
        Self { format: Format::Bytes, ..self }
    }

    const fn seconds(self) -> Self {
        Self { format: Format::Seconds, ..self }
    }

    /// The counter of what is named by `prefix`.
    fn point(&self, prefix: &str, of: &S) -> Point {
        Point {
            name: format!("{prefix}.{}", self.name),
            kind: self.kind,
            format: self.format,
            value: (self.value)(of),
            about: self.about.to_owned(),
        }
    }
}

/// All counters now.
pub fn all(state: &State) -> Vec<Point> {
    let mut points = vec![UPTIME.point("MGT", &state.began.elapsed().as_secs())];
    let Some(counted) = state.site.server().and_then(|server| server.counted()) else {
        // What the workers count begins anew with them.
        return points;
    };
    let vcls = state.site.vcls();
    let backends: Vec<(&str, Vec<directors::Counted>)> =
        vcls.iter().map(|(name, vcl)| (*name, vcl.objects.directors.counted())).collect();
    let loaded: Vec<&Vcl> = state.vcls.vcls().collect();
    let modules: HashSet<&str> = loaded.iter().flat_map(|vcl| vcl.modules.iter().copied()).collect();
    let sum = |of: fn(&CountedZone) -> u64| counted.zones.iter().map(of).sum();
    let seen = Seen {
        // Pages are in the first of the storages.
        bans: counted.zones.first().map(|zone| zone.bans).unwrap_or_default(),
        waits: sum(|zone| zone.stats.waits),
        objects: sum(|zone| zone.stats.objects as u64),
        entries: sum(|zone| zone.stats.entries as u64),
        evicted: sum(evicted),
        backends: backends.iter().map(|(_, backends)| backends.len() as u64).sum(),
        vcls: loaded.len() as u64,
        modules: modules.len() as u64,
        workers: state.site.workers() as u64,
        counted,
    };
    points.extend(MAIN.iter().map(|row| row.point("MAIN", &seen)));
    for storage in &state.site.fixed().storages {
        if let Some(zone) = seen.counted.zones.iter().find(|zone| zone.name == storage.name) {
            points.extend(of_storage(storage, zone));
        }
    }
    for (vcl, backends) in &backends {
        points.extend(backends.iter().flat_map(|backend| of_backend(vcl, backend)));
    }
    points
}

/// Pages that left to make room. Zones that share a memory have one number.
fn evicted(zone: &CountedZone) -> u64 {
    let from_memory = if zone.has_new_memory { zone.stats.evicted } else { 0 };
    from_memory + zone.disks.iter().map(|disk| disk.evicted).sum::<u64>()
}

/// Those of a storage. Where several share a memory, the first has what is said about it.
fn of_storage(storage: &Storage, zone: &CountedZone) -> Vec<Point> {
    match storage.kind {
        StorageKind::Memory { .. } if !zone.has_new_memory => Vec::new(),
        StorageKind::Memory { .. } => {
            let prefix = format!("SMA.{}", storage.name);
            MEMORY.iter().map(|row| row.point(&prefix, zone)).collect()
        }
        StorageKind::Disk { .. } => {
            let prefix = format!("SMF.{}", storage.name);
            let has_end = zone.disks.iter().all(|disk| disk.bytes_max.is_some());
            let rows = DISK.iter().filter(|row| has_end || row.name != "g_space");
            rows.map(|row| row.point(&prefix, zone)).collect()
        }
    }
}

fn of_backend(vcl: &str, backend: &directors::Counted) -> Vec<Point> {
    let prefix = format!("VBE.{vcl}.{}", backend.name);
    BACKEND.iter().map(|row| row.point(&prefix, backend)).collect()
}

const UPTIME: Row<u64> = counter("uptime", |seconds| *seconds, "How long the process runs").seconds();

/// Takes a counter of the workers.
macro_rules! sum {
    ($name:literal, $field:ident, $about:literal) => {
        counter($name, |seen: &Seen| sums(seen).$field, $about)
    };
}

fn sums(seen: &Seen) -> &Sums {
    &seen.counted.sums
}

const MAIN: [Row<Seen>; 69] = [
    counter("uptime", |seen: &Seen| seen.counted.uptime.as_secs(), "How long requests have been answered").seconds(),
    sum!("sess_conn", accepted, "Connections accepted"),
    sum!("s_sess", accepted, "Connections accepted"),
    sum!("client_req_400", bad_requests, "Requests that cannot be read"),
    counter("client_req", |seen| sums(seen).requests.saturating_sub(sums(seen).bad_requests), "Other requests"),
    sum!("esi_req", esi_includes, "Includes of ESI"),
    sum!("esi_errors", esi_errors, "Faults of ESI in pages"),
    counter("cache_hit", |seen| sums(seen).hits + sums(seen).stale, "Pages delivered from the cache"),
    sum!("cache_hit_grace", stale, "Pages delivered from the cache past their ttl"),
    sum!("cache_hitpass", hits_for_pass, "Requests passed because of a hit-for-pass"),
    sum!("cache_hitmiss", hits_for_miss, "Requests fetched because of a hit-for-miss"),
    sum!("cache_miss", misses, "Pages fetched, as the cache had none to deliver"),
    sum!("backend_conn", origin_connections, "Connections to backends made"),
    sum!("backend_unhealthy", origins_sick, "Fetches without a connection, as the backend is sick"),
    sum!("backend_busy", origins_busy, "Fetches without a connection, as the backend has too many"),
    sum!("backend_fail", origin_connections_failed, "Connections to backends that could not be made"),
    sum!("backend_reuse", origin_connections_reused, "Requests to backends over kept connections"),
    sum!("backend_recycle", origin_connections_kept, "Connections to backends kept behind an answer"),
    sum!("backend_retry", origin_retries, "Requests to backends sent again, as a kept connection was dead"),
    sum!("beresp_uncacheable", answers_uncacheable, "Answers for one client"),
    sum!("fetch_head", answers_to_head, "Answers to HEAD"),
    sum!("fetch_length", answers_with_length, "Answers with a Content-Length"),
    sum!("fetch_chunked", answers_chunked, "Answers in chunks"),
    sum!("fetch_eof", answers_to_the_end, "Answers that end with the connection"),
    sum!("fetch_none", answers_empty, "Answers with a Content-Length of 0"),
    sum!("fetch_1xx", answers_1xx, "Answers below 200"),
    sum!("fetch_204", answers_204, "Answers with 204"),
    sum!("fetch_304", answers_304, "Answers with 304"),
    sum!("fetch_failed", fetches_failed, "Fetches without an answer, or with a broken one"),
    counter("busy_sleep", |seen| seen.waits, "Lookups that waited for the fetch of another request"),
    sum!("busy_wakeup", woken, "Lookups that the fetch of another request has woken"),
    gauge("n_object", |seen| seen.objects, "Pages in memory, with what marks a hit-for-pass or hit-for-miss"),
    gauge("n_objecthead", |seen| seen.entries, "Keys in memory"),
    gauge("n_backend", |seen| seen.backends, "Backends of the VCLs that are warm"),
    counter("n_lru_nuked", |seen| seen.evicted, "Pages evicted to make room"),
    sum!("n_purges", purges, "Purges by a VCL"),
    sum!("n_obj_purged", purged, "Pages purged so"),
    sum!("n_gzip", packed, "Bodies packed"),
    sum!("n_gunzip", unpacked, "Bodies unpacked"),
    sum!("n_test_gunzip", tested_packed, "Bodies unpacked to see whether they can be"),
    gauge("threads", |seen| seen.workers, "Threads that answer requests"),
    gauge("n_pipe", |seen| u64::from(seen.counted.pipes), "Pipes now"),
    sum!("pipe_limited", pipes_refused, "Pipes refused because of pipe_sess_max"),
    sum!("s_pipe", pipes, "Requests piped"),
    sum!("s_pass", passes, "Requests passed"),
    sum!("s_fetch", fetches, "Fetches, but for pipes"),
    sum!("s_bgfetch", refetches, "Fetches in the background"),
    sum!("s_synth", synths, "Responses made by vcl_synth"),
    sum!("s_req_hdrbytes", request_head_bytes, "Bytes of heads of requests").bytes(),
    sum!("s_req_bodybytes", request_body_bytes, "Bytes of bodies of requests").bytes(),
    counter(
        "s_resp_hdrbytes",
        |seen: &Seen| sums(seen).sent_bytes.saturating_sub(sums(seen).sent_body_bytes),
        "Bytes of heads of responses",
    )
    .bytes(),
    sum!("s_resp_bodybytes", sent_body_bytes, "Bytes of bodies of responses").bytes(),
    counter("sess_closed", |seen| sums(seen).accepted.saturating_sub(sums(seen).active), "Connections closed"),
    sum!("backend_req", origin_requests, "Requests sent to backends"),
    gauge("n_vcl", |seen| seen.vcls, "VCLs loaded"),
    gauge("n_vcl_avail", |seen| seen.vcls, "VCLs that can be used"),
    gauge("vmods", |seen| seen.modules, "Modules that these import"),
    sum!("vcl_fail", vcl_failures, "Subs of VCLs that failed"),
    gauge("bans", |seen| seen.bans.bans, "Bans"),
    gauge("bans_completed", |seen| seen.bans.done, "Bans of which a later one has taken the place"),
    gauge("bans_obj", |seen| seen.bans.bans - seen.bans.asking, "Bans that look at pages alone"),
    gauge("bans_req", |seen| seen.bans.asking, "Bans that look at requests"),
    counter("bans_added", |seen| seen.bans.added, "Bans made"),
    counter("bans_deleted", |seen| seen.bans.forgotten, "Bans forgotten, as all pages were tested"),
    counter("bans_tested", |seen| seen.bans.tested, "Tests of pages that were found, by a ban each"),
    counter("bans_obj_killed", |seen| seen.bans.dropped, "Pages dropped by bans when they were found"),
    counter("bans_lurker_tested", |seen| seen.bans.tested_ahead, "Tests of pages by the lurker, by a ban each"),
    counter("bans_lurker_obj_killed", |seen| seen.bans.dropped_ahead, "Pages dropped by the lurker"),
    counter("bans_dups", |seen| seen.bans.replaced, "Bans whose place a later one of the same words took"),
];

const MEMORY: [Row<CountedZone>; 3] = [
    counter("c_fail", |zone| zone.stats.refused, "Times that there was no room"),
    gauge("g_bytes", |zone: &CountedZone| zone.stats.bytes, "Bytes in use").bytes(),
    gauge("g_space", |zone: &CountedZone| zone.stats.bytes_max.saturating_sub(zone.stats.bytes), "Bytes free").bytes(),
];

const DISK: [Row<CountedZone>; 2] = [
    gauge("g_bytes", bytes_on_disk, "Bytes on the disk").bytes(),
    gauge(
        "g_space",
        |zone: &CountedZone| {
            let bytes_max: u64 = zone.disks.iter().filter_map(|disk| disk.bytes_max).sum();
            bytes_max.saturating_sub(bytes_on_disk(zone))
        },
        "Bytes free",
    )
    .bytes(),
];

fn bytes_on_disk(zone: &CountedZone) -> u64 {
    zone.disks.iter().map(|disk| disk.bytes).sum()
}

const BACKEND: [Row<directors::Counted>; 10] = [
    // As in Varnish, one without a probe has it too: prometheus_varnish_exporter finds the newest VCL by it.
    Row {
        name: "happy",
        kind: Kind::Bits,
        format: Format::Bits,
        value: |backend| backend.happy,
        about: "Good answers to the probe, the newest in the lowest bit",
    },
    counter("bereq_hdrbytes", |backend: &directors::Counted| backend.request_head_bytes, "Bytes of heads of requests")
        .bytes(),
    counter(
        "bereq_bodybytes",
        |backend: &directors::Counted| backend.request_body_bytes,
        "Bytes of bodies of requests",
    )
    .bytes(),
    counter("beresp_hdrbytes", |backend: &directors::Counted| backend.answer_head_bytes, "Bytes of heads of answers")
        .bytes(),
    counter("beresp_bodybytes", |backend: &directors::Counted| backend.answer_body_bytes, "Bytes of bodies of answers")
        .bytes(),
    gauge("conn", |backend| backend.running, "Connections in use"),
    counter("req", |backend| backend.requests, "Requests sent"),
    counter("unhealthy", |backend| backend.sick, "Fetches without a connection, as it is sick"),
    counter("busy", |backend| backend.busy, "Fetches without a connection, as it has too many"),
    counter("fail", |backend| backend.failed, "Connections that could not be made"),
];
