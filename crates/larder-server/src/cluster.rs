//! Purges shared with other larders, as `larder_cluster` says: which zones take part, and from where in the log they read.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use larder_cache::{Others, Zone};
use larder_cluster::{
    Away, Carrier, Cluster, ForgetError, Heard, Known, Level, Place, Server, Settings, Share, Shelf, Start, Status,
    Trust,
};
use larder_conf::model::{self, ClusterAway, LogLevel};
use larder_http::Time;
use parking_lot::{Mutex, RwLock};

use self::reached::Reached;
use crate::bans;
use crate::clock;
use crate::log::main::MainLog;
use crate::purges::said;

mod reached;

/// This process as a node of its cluster, or of none.
pub struct Sharing {
    /// Whether stored pages may be used.
    trust: Arc<Trust>,
    node: ArcSwapOption<Cluster>,
    zones: Arc<Zones>,
}

/// The zones of the configuration, for the threads of the cluster.
#[derive(Default)]
struct Zones {
    by_name: RwLock<HashMap<String, Arc<Zone>>>,
    /// Of the zones in `by_name`, which is locked first.
    reached: Mutex<Reached>,
    log: Mutex<MainLog>,
    /// What was warned of last.
    warned: Mutex<String>,
}

/// When a configuration is taken over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// Before the first request: a zone that is in memory alone has no page.
    Start,
    /// Later.
    Reload,
}

impl Default for Sharing {
    /// No node.
    fn default() -> Self {
        let trust = Arc::new(Trust::always(clock::since_boot));
        Self { trust, node: ArcSwapOption::empty(), zones: Arc::default() }
    }
}

impl Sharing {
    /// Whether stored pages may be used now.
    #[inline]
    pub fn is_trusted(&self) -> bool {
        self.trust.is_given()
    }

    /// How this node is; `None` without a cluster.
    pub fn status(&self) -> Option<Status> {
        Some(self.node.load_full()?.status())
    }

    /// The shelf that all nodes share, if there is one and this node may use what it has stored.
    pub fn shelf(&self) -> Option<Arc<Share>> {
        let node = self.node.load();
        let share = node.as_ref()?.share()?;
        self.is_trusted().then(|| Arc::clone(share))
    }

    /// Up to where in the log this node has carried out everything.
    pub fn place(&self) -> Option<Place> {
        self.node.load().as_ref()?.place()
    }

    /// When a fetch would have begun in a zone of this name that now is as old as one that began at this place of the log.
    /// `None` if nobody knows.
    pub fn moment_at(&self, zone: &str, place: &Place) -> Option<larder_cache::Moment> {
        let _zones = self.zones.by_name.read();
        self.zones.reached.lock().moment(zone, place)
    }

    /// Whether there are other larders to tell.
    pub fn is_shared(&self) -> bool {
        self.node.load().is_some()
    }

    /// Waits until all nodes that are there know what was purged until now, but not long. `None` without a cluster.
    pub async fn known(&self) -> Option<Known> {
        let node = self.node.load_full()?;
        Some(node.known(node.newest()).await)
    }

    /// Has the cluster forget a node that is away. Waits for its server; an error says why it does not. `None` without a cluster.
    pub fn forget_node(&self, node: &str) -> Option<Result<(), ForgetError>> {
        Some(self.node.load_full()?.forget(node))
    }

    /// Takes part as a configuration says, whose zones have their disks.
    pub fn follow(&self, settings: Option<&Settings>, zones: &[Arc<Zone>], log: &MainLog, moment: Moment) {
        *self.zones.log.lock() = log.clone();
        let running = self.node.load_full();
        let Some(settings) = settings else {
            self.forget();
            return;
        };
        if settings.share.is_some() {
            zones.iter().for_each(|zone| zone.keep_purges());
        }
        let before = self.zones.replace(zones);
        if let Some(node) = running.as_ref().filter(|node| node.settings() == settings) {
            // Nobody knows how far they had read.
            for zone in zones.iter().filter(|zone| !is_among(&before, zone)) {
                make_stale(zone);
                share(zone, node);
            }
            return;
        }
        let place = match &running {
            Some(node) => {
                node.stop();
                zones.iter().filter(|zone| !is_among(&before, zone)).for_each(make_stale);
                node.place()
            }
            None => place_of(zones, moment),
        };
        let carrier = Arc::clone(&self.zones) as Arc<dyn Carrier>;
        let goes_on = running.filter(|node| reads_the_same_log(node.settings(), settings));
        let heard = goes_on.map_or_else(Heard::default, |node| node.heard());
        let unsent = zones.iter().find_map(|zone| folders(zone).into_iter().next());
        let trust = Arc::clone(&self.trust);
        let start = Start { settings: settings.clone(), carrier, place, unsent, heard, trust };
        match Cluster::start(start) {
            Ok(node) => {
                zones.iter().for_each(|zone| share(zone, &node));
                self.node.store(Some(Arc::clone(&node)));
                if moment == Moment::Start && !node.wait(START_MAX) {
                    let fact =
                        "cluster: what others have purged is still being caught up: until then nothing stored is used";
                    log.write(LogLevel::Warn, fact);
                }
            }
            Err(error) => {
                self.forget();
                log.write(LogLevel::Alert, format_args!("cluster: its threads cannot be started: {error}"));
            }
        }
    }

    /// Leaves the cluster, and has kept how far this node has read.
    pub fn stop(&self) {
        if let Some(node) = self.node.load_full() {
            node.stop();
            self.zones.by_name.read().values().for_each(|zone| zone.tell_others(None));
        }
    }

    /// Takes no part any more; what is stored may be used.
    fn forget(&self) {
        self.stop();
        self.node.store(None);
        self.trust.give();
        self.zones.by_name.write().clear();
    }
}

impl Zones {
    /// Takes these in place of those that it had, and returns them.
    fn replace(&self, zones: &[Arc<Zone>]) -> HashMap<String, Arc<Zone>> {
        let now: HashMap<_, _> = zones.iter().map(|zone| (zone.name().to_owned(), Arc::clone(zone))).collect();
        let mut by_name = self.by_name.write();
        let before = std::mem::replace(&mut *by_name, now);
        let gone = before.values().filter(|zone| !is_among(&by_name, zone));
        gone.for_each(|zone| self.reached.lock().forget(zone.name()));
        drop(by_name);
        before
    }

    /// Writes a line, unless it was the last one.
    fn warn_once(&self, line: String) {
        let mut warned = self.warned.lock();
        if *warned != line {
            self.log.lock().write(LogLevel::Warn, &line);
            *warned = line;
        }
    }
}

impl Carrier for Zones {
    fn carry_out(&self, zone: &str, words: &str, ago: Duration) -> bool {
        let Some(zone) = self.by_name.read().get(zone).cloned() else { return false };
        let now = clock::now();
        let made_at = Time(now.0.saturating_sub(u64::try_from(ago.as_millis()).unwrap_or(u64::MAX)));
        zone.carry_out(words, |regex| bans::pattern(regex).ok(), made_at, now)
    }

    fn tell(&self, zone: &str, words: &str, node: Option<&str>) {
        let log = self.log.lock();
        if log.wants(LogLevel::Info) && self.by_name.read().contains_key(zone) {
            log.write(LogLevel::Info, format_args!("cluster: {}", said::line_by_node(zone, words, node)));
        }
    }

    fn count_as_stale(&self) {
        let zones: Vec<_> = self.by_name.read().values().cloned().collect();
        zones.iter().for_each(make_stale);
    }

    fn keep(&self, place: &Place) -> bool {
        let mut is_kept = true;
        let zones: Vec<_> = self.by_name.read().values().cloned().collect();
        for zone in zones.iter().filter(|zone| !zone.shelves().is_empty()) {
            // If it cannot be kept now, the purges since the last place are carried out again after a start.
            if !bans::all_kept_blocking(zone) {
                is_kept = false;
                continue;
            }
            for folder in folders(zone) {
                if let Err(error) = place.keep_in(&folder) {
                    is_kept = false;
                    let folder = folder.display();
                    let fact = format!("cluster: {folder} does not keep which purges are carried out: {error}");
                    self.warn_once(fact);
                }
            }
        }
        is_kept
    }

    fn note(&self, place: &dyn Fn() -> Option<Place>) {
        let zones = self.by_name.read();
        let moments: Vec<_> = zones.values().map(|zone| (zone.name(), zone.moment())).collect();
        let Some(place) = place() else { return };
        let mut reached = self.reached.lock();
        moments.into_iter().for_each(|(zone, moment)| reached.note(zone, &place, moment));
    }

    fn say(&self, level: Level, line: &str) {
        self.log.lock().write(log_level(level), line);
    }
}

/// How much a line of the cluster matters, as the log says it.
pub fn log_level(level: Level) -> LogLevel {
    match level {
        Level::Info => LogLevel::Info,
        Level::Notice => LogLevel::Notice,
        Level::Warn => LogLevel::Warn,
        Level::Error => LogLevel::Error,
    }
}

/// Tells a node what is purged in a zone.
struct Teller(Arc<Cluster>);

impl Others for Teller {
    fn purged(&self, zone: &str, words: &str) {
        self.0.push(zone, words);
    }
}

fn share(zone: &Arc<Zone>, node: &Arc<Cluster>) {
    zone.tell_others(Some(Arc::new(Teller(Arc::clone(node)))));
}

fn is_among(zones: &HashMap<String, Arc<Zone>>, zone: &Arc<Zone>) -> bool {
    zones.get(zone.name()).is_some_and(|other| Arc::ptr_eq(other, zone))
}

/// Whether two nodes read the same log, as far as that can be told without its server.
fn reads_the_same_log(one: &Settings, other: &Settings) -> bool {
    let of = |of: &Settings| (of.servers.clone(), of.sentinel.clone(), of.database, of.name.clone());
    of(one) == of(other)
}

/// Makes what a zone has stale.
fn make_stale(zone: &Arc<Zone>) {
    zone.count_as_stale(clock::now());
}

fn folders(zone: &Zone) -> Vec<PathBuf> {
    zone.shelves().iter().map(|shelf| shelf.dir().to_owned()).collect()
}

/// From where the purges of others are read: the first of the places that zones keep. What a zone has that keeps none, or one
/// of another log, is stale.
fn place_of(zones: &[Arc<Zone>], moment: Moment) -> Option<Place> {
    let mut first: Option<Place> = None;
    for zone in zones {
        let folders = folders(zone);
        if folders.is_empty() && moment == Moment::Start {
            continue;
        }
        let places: Option<Vec<Place>> = folders.iter().map(|folder| Place::of_folder(folder)).collect();
        let place =
            places.and_then(|places| places.into_iter().reduce(earlier)).filter(|place| !place.epoch.is_empty());
        first = match (place, first) {
            (Some(place), None) => Some(place),
            (Some(place), Some(first)) if place.epoch == first.epoch => Some(earlier(place, first)),
            (Some(_) | None, first) => {
                make_stale(zone);
                first
            }
        };
    }
    first
}

/// The earlier of two places; one of no log if they are of two.
fn earlier(one: Place, other: Place) -> Place {
    match one.epoch == other.epoch {
        true => Place { at: one.at.min(other.at), ..one },
        false => Place { epoch: String::new(), at: Default::default() },
    }
}

/// What `larder_cluster` says, with the authority's certificate.
pub fn settings(cluster: &model::Cluster, ca: Option<Vec<u8>>) -> Settings {
    Settings {
        servers: cluster.servers.iter().map(|server| Server { host: server.host.clone(), port: server.port }).collect(),
        tls: cluster.tls,
        ca,
        user: cluster.user.clone(),
        password: cluster.password.as_ref().map(|password| password.0.clone()),
        database: cluster.database,
        sentinel: cluster.sentinel.clone(),
        name: cluster.name.clone(),
        node: cluster.node.clone(),
        timeout: cluster.timeout,
        away: match cluster.away {
            ClusterAway::Serve => Away::Serve,
            ClusterAway::Stale(time) => Away::Stale(time),
            ClusterAway::Bypass => Away::Bypass,
        },
        share: cluster.shelf.map(|shelf| Shelf { bytes_max: shelf.bytes, deadline: shelf.deadline }),
    }
}

/// How long the first request waits until the purges of others are caught up.
const START_MAX: Duration = Duration::from_secs(10);
