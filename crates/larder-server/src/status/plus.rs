//! What is counted, in the shape of NGINX Plus' API.
//!
//! Source: ngx_http_api_module, its versions 1 to 9. What larder has not is not there, or zero where clients want a number.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use larder_http::{Time, status};
use larder_origin::resolver::ResolverSums;
use larder_origin::{BOUNDS_MILLIS, Group, ServerState, ServerStatus};
use larder_store::DiskState;
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use crate::context::Cx;
use crate::counts::{CacheSums, TlsSums, Traffic, TrafficSums, Verdict, VerdictSums, Zones};
use crate::limit::Outcome;
use crate::stats::Sums;

use super::{Shape, Wrong, named, timestamp};

/// A question in a version of the API.
pub struct Plus<'a> {
    pub version: u8,
    /// The address that the request came to.
    pub address: &'a str,
    pub now: Time,
    pub cx: &'a Cx,
}

/// Since which version there are these.
const WITH_LOCATION_ZONES: u8 = 5;
const WITH_RESOLVERS: u8 = 5;
const WITH_LIMITS: u8 = 6;
const WITH_CODES: u8 = 7;
const WITH_SSL_OF_ZONES: u8 = 8;
const WITH_SSL_FAILURES: u8 = 8;
const WITH_WORKERS: u8 = 9;
const WITH_HISTOGRAMS: u8 = 9;

const fn missing(text: &'static str, code: &'static str) -> Wrong {
    Wrong::new(status::NOT_FOUND, text, code)
}

const NO_SLAB: Wrong = missing("slab not found", "SlabNotFound");
const NO_SERVER_ZONE: Wrong = missing("server zone not found", "ServerZoneNotFound");
const NO_LOCATION_ZONE: Wrong = missing("location zone not found", "LocationZoneNotFound");
const NO_CACHE: Wrong = missing("cache not found", "CacheNotFound");
const NO_LIMIT_CONN: Wrong = missing("limit_conn not found", "LimitConnNotFound");
const NO_LIMIT_REQ: Wrong = missing("limit_req not found", "LimitReqNotFound");
const NO_UPSTREAM: Wrong = missing("upstream not found", "UpstreamNotFound");
const NO_SERVER: Wrong = missing("server not found", "UpstreamServerNotFound");
const BAD_SERVER_ID: Wrong = Wrong::new(status::BAD_REQUEST, "invalid server ID", "UpstreamBadServerId");
const NO_KEYVAL: Wrong = missing("keyval not found", "KeyvalNotFound");
const NO_RESOLVER: Wrong = missing("resolver zone not found", "ResolverZoneNotFound");
const NO_WORKER: Wrong = missing("worker not found", "WorkerNotFound");

impl Plus<'_> {
    /// What is at a path.
    pub fn shape(&self, path: &[&str]) -> Result<Shape, Wrong> {
        let since = |version| self.version >= version;
        match path {
            [] => Ok(Shape::List(json!(self.roots()))),
            ["nginx"] => Ok(Shape::One(self.nginx())),
            ["processes"] => Ok(Shape::One(json!({ "respawned": self.cx.worker.shared.respawned }))),
            ["connections"] => Ok(Shape::One(connections(&self.cx.worker.shared_stats()))),
            ["slabs", rest @ ..] => named(Map::new(), rest, NO_SLAB),
            ["ssl"] => {
                let sums: TlsSums = self.cx.site().counted.tls.sums(TlsSums::add);
                Ok(Shape::One(self.ssl(&sums)))
            }
            ["resolvers", rest @ ..] if since(WITH_RESOLVERS) => named(self.resolvers(), rest, NO_RESOLVER),
            ["workers", rest @ ..] if since(WITH_WORKERS) => self.workers(rest),
            ["http", rest @ ..] => self.http(rest),
            _ => Err(Wrong::NO_PATH),
        }
    }

    fn roots(&self) -> Vec<&str> {
        let all = [
            ("nginx", 1),
            ("processes", 1),
            ("connections", 1),
            ("slabs", 1),
            ("http", 1),
            ("resolvers", WITH_RESOLVERS),
            ("ssl", 1),
            ("workers", WITH_WORKERS),
        ];
        all.into_iter().filter(|(_, since)| self.version >= *since).map(|(name, _)| name).collect()
    }

    fn http(&self, path: &[&str]) -> Result<Shape, Wrong> {
        let since = |version| self.version >= version;
        let site = self.cx.site();
        match path {
            [] => {
                let all = [
                    ("requests", 1),
                    ("server_zones", 1),
                    ("location_zones", WITH_LOCATION_ZONES),
                    ("caches", 1),
                    ("limit_conns", WITH_LIMITS),
                    ("limit_reqs", WITH_LIMITS),
                    ("keyvals", 1),
                    ("upstreams", 1),
                ];
                Ok(Shape::List(all.into_iter().filter(|(_, from)| since(*from)).map(|(name, _)| name).collect()))
            }
            ["requests"] => Ok(Shape::One(requests(&self.cx.worker.shared_stats()))),
            ["server_zones", rest @ ..] => named(self.zones(&site.counted.servers, true), rest, NO_SERVER_ZONE),
            ["location_zones", rest @ ..] if since(WITH_LOCATION_ZONES) => {
                named(self.zones(&site.counted.locations, false), rest, NO_LOCATION_ZONE)
            }
            ["caches", rest @ ..] => named(self.caches(), rest, NO_CACHE),
            ["limit_conns", rest @ ..] if since(WITH_LIMITS) => named(self.limit_conns(), rest, NO_LIMIT_CONN),
            ["limit_reqs", rest @ ..] if since(WITH_LIMITS) => named(self.limit_reqs(), rest, NO_LIMIT_REQ),
            ["keyvals", rest @ ..] => named(Map::new(), rest, NO_KEYVAL),
            ["upstreams", rest @ ..] => self.upstreams(rest),
            _ => Err(Wrong::NO_PATH),
        }
    }

    fn nginx(&self) -> Value {
        let loaded = &self.cx.site().loaded;
        json!({
            "version": crate::NGINX_VERSION,
            "build": concat!("larder-", env!("CARGO_PKG_VERSION")),
            "address": self.address,
            "generation": loaded.generation,
            "load_timestamp": timestamp(loaded.at),
            "timestamp": timestamp(self.now),
            "pid": std::process::id(),
            "ppid": std::os::unix::process::parent_id(),
        })
    }

    fn resolvers(&self) -> Map<String, Value> {
        let zone = |sums: ResolverSums| {
            let [noerror, formerr, servfail, nxdomain, notimp, refused] = sums.answers;
            json!({
                "requests": { "name": sums.hosts, "srv": sums.services, "addr": 0 },
                "responses": {
                    "noerror": noerror, "formerr": formerr, "servfail": servfail, "nxdomain": nxdomain, "notimp": notimp,
                    "refused": refused, "timedout": sums.timed_out, "unknown": 0,
                },
            })
        };
        let all = self.cx.site().counted.resolvers.iter();
        all.map(|(name, counts)| (name.clone(), zone(counts.read()))).collect()
    }

    fn workers(&self, rest: &[&str]) -> Result<Shape, Wrong> {
        let worker = |(id, sums): (usize, Sums)| {
            json!({
                "id": id,
                "pid": std::process::id(),
                "connections": connections(&sums),
                "http": { "requests": requests(&sums) },
            })
        };
        let mut all = self.cx.worker.stats_of_workers().into_iter().enumerate().map(worker);
        match rest {
            [] => Ok(Shape::Each(all.collect())),
            [id] => id.parse().ok().and_then(|id| all.nth(id)).map(Shape::One).ok_or(NO_WORKER),
            _ => Err(Wrong::NO_PATH),
        }
    }

    fn zones(&self, zones: &Zones<Traffic>, of_servers: bool) -> Map<String, Value> {
        let zone = |sums: TrafficSums| {
            let mut zone = json!({
                "requests": sums.requests,
                "responses": self.responses(&sums.statuses, sums.classes()),
                "discarded": sums.discarded,
                "received": sums.received,
                "sent": sums.sent,
            });
            if of_servers {
                zone["processing"] = sums.processing().into();
            }
            if of_servers && self.version >= WITH_SSL_OF_ZONES {
                zone["ssl"] = self.ssl(&sums.tls);
            }
            zone
        };
        zones.iter().map(|one| (one.name.clone(), zone(one.counts.sums(TrafficSums::add)))).collect()
    }

    fn responses(&self, statuses: &BTreeMap<u16, u64>, classes: [u64; 5]) -> Value {
        let mut responses: Map<String, Value> =
            ["1xx", "2xx", "3xx", "4xx", "5xx"].into_iter().map(str::to_owned).zip(classes.map(Value::from)).collect();
        if self.version >= WITH_CODES {
            let codes: Map<String, Value> =
                statuses.iter().map(|(status, count)| (status.to_string(), (*count).into())).collect();
            responses.insert("codes".to_owned(), codes.into());
        }
        responses.insert("total".to_owned(), statuses.values().sum::<u64>().into());
        responses.into()
    }

    fn ssl(&self, sums: &TlsSums) -> Value {
        let mut ssl = json!({
            "handshakes": sums.done,
            "handshakes_failed": sums.failed,
            "session_reuses": sums.resumed,
        });
        if self.version >= WITH_SSL_FAILURES {
            ssl["no_common_protocol"] = sums.no_protocol.into();
            ssl["no_common_cipher"] = sums.no_cipher.into();
            ssl["handshake_timeout"] = sums.timed_out.into();
            ssl["peer_rejected_cert"] = sums.certificate_refused.into();
            ssl["verify_failures"] = json!({
                "no_cert": sums.without_certificate,
                "expired_cert": sums.expired_certificates,
                "revoked_cert": sums.revoked_certificates,
                // It is about origins, and clients of the API read it here too.
                "hostname_mismatch": 0,
                "other": sums.bad_certificates,
            });
        }
        ssl
    }

    fn caches(&self) -> Map<String, Value> {
        let site = self.cx.site();
        let mut all = Map::new();
        for (zone, counted) in site.caches.zones.iter().zip(site.counted.caches.iter()) {
            let sums: CacheSums = counted.counts.sums(VerdictSums::add);
            let memory = zone.stats();
            let disks: Vec<_> = zone.shelves().iter().map(|disk| disk.stats()).collect();
            let mut cache = Map::new();
            // A zone without disks has its share of the memory only.
            let (size, size_max) = match disks.is_empty() {
                true => (memory.bytes, Some(memory.bytes_max)),
                false => (
                    disks.iter().map(|disk| disk.bytes).sum(),
                    disks.iter().map(|disk| disk.bytes_max).sum::<Option<u64>>(),
                ),
            };
            cache.insert("size".to_owned(), size.into());
            if let Some(size_max) = size_max {
                cache.insert("max_size".to_owned(), size_max.into());
            }
            let is_loading = |state| matches!(state, DiskState::Opening | DiskState::Waiting);
            cache.insert("cold".to_owned(), disks.iter().any(|disk| is_loading(disk.state)).into());
            for (verdict, name, writes) in [
                (Verdict::Hit, "hit", false),
                (Verdict::Stale, "stale", false),
                (Verdict::Updating, "updating", false),
                (Verdict::Revalidated, "revalidated", false),
                (Verdict::Miss, "miss", true),
                (Verdict::Expired, "expired", true),
                (Verdict::Bypass, "bypass", true),
            ] {
                let sums = &sums[verdict as usize];
                let mut told = json!({ "responses": sums.responses, "bytes": sums.bytes });
                if writes {
                    told["responses_written"] = sums.stored.into();
                    told["bytes_written"] = sums.stored_bytes.into();
                }
                cache.insert(name.to_owned(), told);
            }
            all.insert(zone.name().to_owned(), cache.into());
        }
        all
    }

    fn limit_conns(&self) -> Map<String, Value> {
        let limits = self.cx.site().limits.connections.iter();
        limits
            .map(|limit| {
                let outcomes = &limit.state.outcomes;
                let told = json!({
                    "passed": outcomes.of(Outcome::Passed),
                    "rejected": outcomes.of(Outcome::Rejected),
                    "rejected_dry_run": outcomes.of(Outcome::RejectedDry),
                });
                (limit.name.clone(), told)
            })
            .collect()
    }

    fn limit_reqs(&self) -> Map<String, Value> {
        let limits = self.cx.site().limits.requests.iter();
        limits
            .map(|limit| {
                let outcomes = &limit.state.outcomes;
                let told = json!({
                    "passed": outcomes.of(Outcome::Passed),
                    "delayed": outcomes.of(Outcome::Delayed),
                    "rejected": outcomes.of(Outcome::Rejected),
                    "delayed_dry_run": outcomes.of(Outcome::DelayedDry),
                    "rejected_dry_run": outcomes.of(Outcome::RejectedDry),
                });
                (limit.name.clone(), told)
            })
            .collect()
    }

    fn upstreams(&self, rest: &[&str]) -> Result<Shape, Wrong> {
        let origins = &self.cx.site().origins;
        let group = |name: &str| origins.names.get(name).map(|group| &origins.groups[*group]).ok_or(NO_UPSTREAM);
        match rest {
            [] => {
                let mut names: Vec<&String> = origins.names.keys().collect();
                names.sort();
                let told = names.into_iter().map(|name| Ok((name.clone(), self.upstream(group(name)?))));
                Ok(Shape::Named(told.collect::<Result<_, Wrong>>()?))
            }
            [name] => Ok(Shape::One(self.upstream(group(name)?))),
            [name, "servers"] => {
                let servers = group(name)?.servers(Instant::now());
                Ok(Shape::Each(servers.iter().enumerate().map(|(id, server)| configured(id, server)).collect()))
            }
            [name, "servers", id] => {
                let servers = group(name)?.servers(Instant::now());
                let id: usize = id.parse().map_err(|_| BAD_SERVER_ID)?;
                servers.get(id).map(|server| Shape::One(configured(id, server))).ok_or(NO_SERVER)
            }
            _ => Err(Wrong::NO_PATH),
        }
    }

    fn upstream(&self, group: &Arc<Group>) -> Value {
        let servers = group.servers(Instant::now());
        let is_sick = self.cx.site().origins.is_sick(group);
        let peers: Vec<Value> = servers.iter().enumerate().map(|(id, server)| self.peer(id, server, is_sick)).collect();
        let mut told = json!({ "peers": peers, "keepalive": group.idle(), "zombies": 0, "zone": group.name() });
        if let Some(gate) = group.gate().map(|gate| gate.status()) {
            let counts = gate.counts;
            let overflows = counts.refused + counts.displaced;
            told["queue"] = json!({ "size": gate.waiting_all(), "max_size": gate.queue_max, "overflows": overflows });
        }
        told
    }

    fn peer(&self, id: usize, of: &ServerStatus, is_sick: bool) -> Value {
        let ServerStatus { server, state, running, counts } = of;
        let statuses: BTreeMap<u16, u64> = counts.statuses.iter().copied().collect();
        let class = |digit: u16| statuses.range(digit * 100..(digit + 1) * 100).map(|(_, count)| count).sum();
        let ago = |time: Duration| timestamp(Time(self.now.0.saturating_sub(millis(time))));
        let mut peer = json!({
            "id": id,
            "server": server.address.to_string(),
            "name": server.name,
            "backup": server.backup,
            "weight": server.weight,
            "state": match state {
                ServerState::Up if is_sick => "unhealthy",
                ServerState::Up => "up",
                ServerState::Down => "down",
                ServerState::Unavailable => "unavail",
            },
            "active": running,
            "requests": counts.requests,
            "responses": self.responses(&statuses, [1, 2, 3, 4, 5].map(class)),
            "sent": counts.sent,
            "received": counts.received,
            "fails": counts.fails,
            "unavail": counts.unavailable,
            "health_checks": { "checks": 0, "fails": 0, "unhealthy": 0 },
            "downtime": millis(counts.downtime),
        });
        if server.max_conns > 0 {
            peer["max_conns"] = server.max_conns.into();
        }
        for (name, time) in [("header_time", counts.header_time), ("response_time", counts.response_time)] {
            if let Some(time) = time {
                peer[name] = millis(time).into();
            }
        }
        for (name, time) in [("downstart", counts.down_for), ("selected", counts.selected_ago)] {
            if let Some(time) = time {
                peer[name] = ago(time).into();
            }
        }
        if self.version >= WITH_HISTOGRAMS {
            let bounds = BOUNDS_MILLIS.iter().map(u64::to_string).chain(["inf".to_owned()]);
            let buckets: Map<String, Value> = bounds.zip(counts.buckets.map(Value::from)).collect();
            peer["response_time_hist"] = json!({
                "count": counts.buckets.iter().sum::<u64>(),
                "sum": millis(counts.response_sum),
                "buckets": buckets,
            });
        }
        peer
    }
}

/// A server as the configuration has it.
fn configured(id: usize, of: &ServerStatus) -> Value {
    let server = &of.server;
    json!({
        "id": id,
        "server": server.address.to_string(),
        "weight": server.weight,
        "max_conns": server.max_conns,
        "max_fails": server.max_fails,
        "fail_timeout": format!("{}s", server.fail_timeout.as_secs()),
        "slow_start": "0s",
        "route": "",
        "backup": server.backup,
        "down": server.down,
    })
}

fn connections(sums: &Sums) -> Value {
    json!({
        "accepted": sums.accepted,
        "dropped": 0,
        "active": sums.active.saturating_sub(sums.waiting),
        "idle": sums.waiting,
    })
}

fn requests(sums: &Sums) -> Value {
    json!({ "total": sums.requests, "current": sums.reading + sums.writing })
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
