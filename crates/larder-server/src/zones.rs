//! Keeps the cache zones of a process, their memory and their disks across reloads.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;

use larder_cache::{How, Member, Memory, Placing, Selection, Shelves, Zone};
use larder_conf::model::{self, CachePath, LogLevel, PlacementRule};
use larder_http::Time;
use larder_store::{DiskEvent, DiskLimits, DiskOptions, DiskShelf};
use parking_lot::Mutex;

use crate::bans;
use crate::log::main::MainLog;
use crate::pressure::{self, Pressure};

/// What is kept from one configuration to the next.
#[derive(Default)]
pub struct ZonesKeeping {
    memory: Option<Arc<Memory>>,
    zones: HashMap<String, KeptZone>,
    /// The zones of a configuration that may still be rejected.
    next: HashMap<String, KeptZone>,
    disks: HashMap<PathBuf, DiskShelf>,
    /// The zone of each folder, which is told when the folder is cleared.
    owners: Owners,
}

type Owners = Arc<Mutex<HashMap<PathBuf, Weak<Zone>>>>;

#[derive(Clone)]
struct KeptZone {
    zone: Arc<Zone>,
    place: Place,
}

/// Where a zone's pages are. If that changes, it is a new zone.
#[derive(Clone, PartialEq, Eq)]
struct Place {
    placing: Option<Placing>,
    folders: Vec<PathBuf>,
    has_own_memory: bool,
}

/// A zone of the configuration: one path, or several under one placement.
struct Wanted<'a> {
    name: &'a str,
    placing: Option<Placing>,
    paths: Vec<&'a CachePath>,
}

impl ZonesKeeping {
    /// The zones of a configuration, by name and in its order. Zones that exist keep their pages. Nothing about them is
    /// changed, as the configuration may still be rejected: see [`open_disks`](Self::open_disks).
    pub fn zones(&mut self, http: &model::Http) -> Vec<(String, Arc<Zone>)> {
        let shared_bytes = shared_bytes(http);
        let memory = Arc::clone(self.memory.get_or_insert_with(|| Memory::new(shared_bytes)));
        let next: Vec<_> =
            wanted(http).iter().map(|wanted| (wanted.name.to_owned(), self.zone(wanted, &memory))).collect();
        let zones = next.iter().map(|(name, kept)| (name.clone(), Arc::clone(&kept.zone))).collect();
        self.next = next.into_iter().collect();
        zones
    }

    fn zone(&self, wanted: &Wanted<'_>, shared: &Arc<Memory>) -> KeptZone {
        let own_bytes = wanted.own_memory();
        let place = Place {
            placing: wanted.placing,
            folders: wanted.on_disk().map(|path| path.path.clone()).collect(),
            has_own_memory: own_bytes.is_some(),
        };
        if let Some(kept) = self.zones.get(wanted.name).filter(|kept| kept.place == place) {
            return kept.clone();
        }
        let memory = own_bytes.map_or_else(|| Arc::clone(shared), Memory::new);
        let zone = Zone::over(wanted.name, memory, wanted.inactive(), Shelves::none());
        zone.read_bans_by(bans::of_disk);
        KeptZone { zone, place }
    }

    /// Applies a configuration that has been accepted: gives its zones their limits and disks, and closes the disks
    /// that it no longer names.
    pub fn open_disks(&mut self, http: &model::Http, log: &MainLog, pressure: &Pressure) {
        self.zones = std::mem::take(&mut self.next);
        let mut memories: Vec<_> = self.memory.iter().map(|memory| (Arc::clone(memory), shared_bytes(http))).collect();
        for wanted in wanted(http) {
            if let (Some(kept), Some(bytes)) = (self.zones.get(wanted.name), wanted.own_memory()) {
                memories.push((Arc::clone(kept.zone.memory()), bytes));
            }
        }
        pressure.govern(http.memory_total, &memories);
        let mut disks = HashMap::new();
        let mut owners = HashMap::new();
        for wanted in wanted(http) {
            let Some(kept) = self.zones.get(wanted.name) else { continue };
            kept.zone.set_inactive(wanted.inactive());
            let members = wanted.on_disk().map(|path| {
                owners.insert(path.path.clone(), Arc::downgrade(&kept.zone));
                let shelf = match self.disks.remove(&path.path) {
                    Some(shelf) => {
                        shelf.adjust(limits(path));
                        shelf
                    }
                    None => open(path, kept.zone.memory(), log, &self.owners),
                };
                disks.insert(path.path.clone(), shelf.clone());
                Member {
                    shelf,
                    name: path.path.to_string_lossy().into_owned(),
                    weight: path.max_bytes.unwrap_or(u64::MAX) >> WEIGHT_SHIFT,
                }
            });
            let members = members.collect();
            kept.zone.set_shelves(Shelves::new(wanted.placing.unwrap_or(Placing::Hash), members));
        }
        *self.owners.lock() = owners;
        // Without the lock, as queued pages are written first.
        for (_, shelf) in std::mem::replace(&mut self.disks, disks) {
            std::thread::spawn(move || shelf.stop());
        }
    }

    /// Writes what is queued, and leaves every disk so that its pages are found again. Blocks on the disks.
    pub fn close_disks(&mut self) {
        for (_, shelf) in self.disks.drain() {
            shelf.stop();
        }
    }
}

impl<'a> Wanted<'a> {
    fn on_disk(&self) -> impl Iterator<Item = &'a CachePath> + '_ {
        self.paths.iter().copied().filter(|path| path.on_disk)
    }

    fn inactive(&self) -> Duration {
        self.paths.iter().map(|path| path.inactive).min().unwrap_or_default()
    }

    /// The memory that the configuration gives to this zone alone. For a zone in memory only, `max_size` counts if
    /// nothing else is set.
    fn own_memory(&self) -> Option<u64> {
        let told: u64 = self.paths.iter().filter_map(|path| path.memory_bytes).sum();
        let in_memory_only = self.paths.iter().filter(|path| !path.on_disk).find_map(|path| path.max_bytes);
        Some(told).filter(|&bytes| bytes > 0).or(in_memory_only)
    }
}

/// The memory shared by zones without their own.
fn shared_bytes(http: &model::Http) -> u64 {
    http.memory_bytes.unwrap_or_else(|| pressure::for_pages(http.memory_total))
}

fn wanted(http: &model::Http) -> Vec<Wanted<'_>> {
    let of_placements = http.placements.iter().map(|placement| Wanted {
        name: &placement.zone.value,
        placing: Some(match placement.rule {
            PlacementRule::Hash => Placing::Hash,
            PlacementRule::Mirror => Placing::Mirror,
        }),
        paths: http
            .cache_paths
            .iter()
            .filter(|path| placement.members.iter().any(|member| member.value == path.zone.value))
            .collect(),
    });
    let is_member = |path: &CachePath| {
        http.placements.iter().flat_map(|placement| &placement.members).any(|member| member.value == path.zone.value)
    };
    let alone = http.cache_paths.iter().filter(|path| !is_member(path));
    let alone = alone.map(|path| Wanted { name: &path.zone.value, placing: None, paths: vec![path] });
    alone.chain(of_placements).collect()
}

fn limits(path: &CachePath) -> DiskLimits {
    DiskLimits { bytes_max: path.max_bytes, free_min: free_min(path), inactive: path.inactive }
}

/// How much of the file system stays free. Without settings for that it is a share, so that a cache does not take the
/// disk from a database.
fn free_min(path: &CachePath) -> u64 {
    match (path.min_free_bytes, path.max_bytes) {
        (Some(bytes), _) => bytes,
        (None, Some(_)) => 0,
        (None, None) => rustix::fs::statvfs(&path.path)
            .map_or(0, |room| room.f_blocks.saturating_mul(room.f_frsize) / FREE_SHARE)
            .min(FREE_BYTES_MAX),
    }
}

fn open(path: &CachePath, memory: &Memory, log: &MainLog, owners: &Owners) -> DiskShelf {
    let (log, owners, folder) = (log.clone(), Arc::clone(owners), path.path.clone());
    let events = move |event: DiskEvent| {
        if let Some(zone) = owner(&owners, &folder) {
            follow(&zone, &event);
        }
        log.write(level(&event), event);
    };
    DiskShelf::open(DiskOptions {
        dir: path.path.clone(),
        limits: limits(path),
        queue_bytes: queue_bytes(memory.stats().bytes_max),
        events: Arc::new(events),
    })
}

/// The zone whose pages are in a folder.
fn owner(owners: &Owners, folder: &Path) -> Option<Arc<Zone>> {
    owners.lock().get(folder).and_then(Weak::upgrade)
}

/// Pages that were removed from a folder together must not stay in memory.
fn follow(zone: &Zone, event: &DiskEvent) {
    match event {
        DiskEvent::Clearing { .. } => {
            zone.tell_purge_as(&Selection::All, How::Hard, &[]);
            zone.clear_memory();
        }
        DiskEvent::Emptied { is_in_place, .. } => {
            // The other folders of a zone keep their pages.
            if *is_in_place && zone.shelves().iter().count() == 1 {
                zone.tell_purge_as(&Selection::All, How::Hard, &[]);
            }
            zone.clear_memory();
        }
        DiskEvent::Cleared { .. } => zone.clear_memory(),
        DiskEvent::Deleted { keys, .. } => {
            zone.forget_all(|key| keys.has(key));
        }
        DiskEvent::Opened { .. }
        | DiskEvent::Foreign { .. }
        | DiskEvent::Waiting { .. }
        | DiskEvent::Afresh { .. }
        | DiskEvent::TooSmall { .. }
        | DiskEvent::Degraded(_)
        | DiskEvent::Recovered { .. } => {}
    }
}

fn level(event: &DiskEvent) -> LogLevel {
    match event {
        DiskEvent::Degraded(_) => LogLevel::Crit,
        event if event.is_problem() => LogLevel::Warn,
        _ => LogLevel::Notice,
    }
}

/// Regular work for the zones of a configuration, about once a second.
pub fn keep_house(zones: &[Arc<Zone>], now: Time) {
    let mut swept: Vec<*const Memory> = Vec::new();
    for zone in zones {
        let memory = Arc::as_ptr(zone.memory());
        if !swept.contains(&memory) {
            swept.push(memory);
            zone.memory().sweep(now);
        }
        zone.shelves().iter().for_each(|shelf| shelf.tick(now.secs()));
    }
}

/// One part in this many of a file system stays free, and at most the bytes below.
const FREE_SHARE: u64 = 20;
const FREE_BYTES_MAX: u64 = 1 << 30;

/// How many bytes may wait for a disk; further pages stay in memory only. Waiting pages hold their memory, so a disk
/// that hangs must not get all of it.
fn queue_bytes(memory_bytes: u64) -> usize {
    usize::try_from(memory_bytes / QUEUE_SHARE).unwrap_or(usize::MAX).clamp(QUEUE_BYTES_MIN, QUEUE_BYTES_MAX)
}

const QUEUE_SHARE: u64 = 4;
const QUEUE_BYTES_MIN: usize = 1 << 20;
const QUEUE_BYTES_MAX: usize = 64 << 20;

/// Weights are compared in units of a megabyte.
const WEIGHT_SHIFT: u32 = 20;
