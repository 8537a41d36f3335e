//! What `limit_req` counts, shared with other larders by `larder_cluster`.

use std::cmp::Reverse;
use std::sync::Arc;
use std::time::Duration;

use larder_cluster::{Counted, Level, LimitName, LimitUser, Limits, Others, Settings};
use larder_conf::model::LogLevel;
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};

use crate::clock;
use crate::cluster::log_level;
use crate::limit::LimitReqZone;
use crate::log::main::MainLog;
use crate::site::Site;

/// The zones that this process shares, if any.
#[derive(Default)]
pub struct LimitSharing(Mutex<Option<Running>>);

struct Running {
    settings: Settings,
    user: Arc<User>,
    node: Limits,
}

struct User {
    zones: Vec<SharedZone>,
    log: MainLog,
}

#[derive(Clone)]
struct SharedZone {
    name: Arc<str>,
    zone: Arc<LimitReqZone>,
}

impl LimitSharing {
    /// Shares what a configuration says.
    pub fn follow(&self, site: &Site, log: &MainLog) {
        let settings = site.caches.cluster.as_ref().filter(|_| site.caches.shares_limits);
        let zones = site.limits.requests.iter();
        let zones: Vec<_> =
            zones.map(|part| SharedZone { name: part.name.as_str().into(), zone: Arc::clone(&part.state) }).collect();
        let settings = settings.filter(|_| !zones.is_empty());
        let mut running = self.0.lock();
        if running.as_ref().is_some_and(|running| settings == Some(&running.settings) && running.user.has(&zones)) {
            return;
        }
        *running = None;
        let Some(settings) = settings else { return };
        let user = Arc::new(User { zones, log: log.clone() });
        match Limits::start(settings.clone(), Arc::clone(&user) as Arc<dyn LimitUser>) {
            Ok(node) => {
                user.zones.iter().for_each(|shared| shared.zone.share(true));
                *running = Some(Running { settings: settings.clone(), user, node });
            }
            Err(error) => log.write(LogLevel::Alert, format_args!("cluster: a thread cannot be started: {error}")),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.node.end();
        self.user.zones.iter().for_each(|shared| shared.zone.share(false));
    }
}

impl User {
    fn has(&self, zones: &[SharedZone]) -> bool {
        let is_same =
            |(one, other): (&SharedZone, &SharedZone)| one.name == other.name && Arc::ptr_eq(&one.zone, &other.zone);
        self.zones.len() == zones.len() && self.zones.iter().zip(zones).all(is_same)
    }
}

impl LimitUser for User {
    fn counted(&self, keys_max: usize) -> Vec<Counted> {
        let of_zone = |shared: &SharedZone| {
            let SharedZone { name, zone } = shared.clone();
            let told: Vec<_> = zone.take_told().collect();
            told.into_iter().map(move |(key, count)| (name.clone(), key, count))
        };
        let mut told: Vec<_> = self.zones.iter().flat_map(of_zone).collect();
        if told.len() > keys_max {
            told.sort_unstable_by_key(|(_, _, count)| Reverse(*count));
            told.truncate(keys_max);
        }
        let counted = told.into_iter().map(|(zone, key, count)| {
            let hash = hash(&key);
            Counted { name: LimitName { zone, hash }, key, count }
        });
        counted.collect()
    }

    fn learn(&self, counted: &Counted, others: Others) -> Option<Duration> {
        let SharedZone { zone, .. } = self.zones.iter().find(|shared| shared.name == counted.name.zone)?;
        let milli = |requests: u64| requests.saturating_mul(1000);
        let (requests, least) = match others {
            Others::Since(requests) => (requests, 0),
            Others::Before(requests, left) => {
                (0, milli(requests).min(zone.leaks(left)).saturating_add(milli(counted.count)))
            }
        };
        zone.add_others(&counted.key, requests, least, clock::now())
    }

    fn say(&self, level: Level, line: &str) {
        self.log.write(log_level(level), line);
    }
}

/// A key as the server has it: nobody can make another with the same.
fn hash(key: &[u8]) -> u128 {
    let digest: [u8; 32] = Sha256::digest(key).into();
    digest.iter().take(size_of::<u128>()).fold(0, |hash, byte| hash << 8 | u128::from(*byte))
}
