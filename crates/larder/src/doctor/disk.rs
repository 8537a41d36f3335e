//! The folders of cached pages: what they lie on, how much room there is, and how long a write takes. Room for what else
//! larder writes.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use larder_conf::model::{CachePath, Config};
use larder_server::tempfile;

use super::finding::{Finding, Found};
use super::patient::Patient;
use super::senses::Space;
use super::words::{size, time};
use crate::shell::quoted;
use crate::{levels, logs};

/// A mounted file system.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Mount {
    place: String,
    kind: String,
    source: String,
    is_read_only: bool,
}

/// The zones that keep pages on a disk.
fn zones<'a>(patient: &'a Patient<'_>) -> impl Iterator<Item = &'a CachePath> {
    let config = patient.config.iter();
    config.flat_map(|config| &config.http.cache_paths).filter(|zone| zone.on_disk)
}

/// On which kind of file system pages lie.
pub fn place(patient: &Patient<'_>, found: &mut Found) {
    let mounts = match patient.machine.text("/proc/self/mountinfo") {
        Ok(text) => mounts(&text),
        Err(error) => return found.unknown(error),
    };
    for zone in zones(patient) {
        let (path, name) = (zone.path.display(), &zone.zone.value);
        let Some(mount) = mount_of(&mounts, &patient.machine.followed(&zone.path)) else {
            found.unknown(format!("no mounted file system has {path}"));
            continue;
        };
        if let Some(setting) = locked(patient, &zone.path) {
            let what = format!("{} has {path} (zone {name}) read-only, by {setting}", patient.unit_name());
            let finding = Finding::error(what).why("no page is written, and none is found after a restart");
            let mend = patient.set_in_unit(&format!("ReadWritePaths={path}"));
            found.add(mend.into_iter().fold(finding, Finding::mend));
            continue;
        }
        let kind = mount.kind.as_str();
        if mount.is_read_only {
            found.add(
                Finding::error(format!("{path} (zone {name}) lies on {}, which is mounted read-only", mount.place))
                    .why("no page is written, and none is found after a restart")
                    .mend(format!("mount -o remount,rw {}", quoted(&mount.place))),
            );
        } else if ["tmpfs", "ramfs"].contains(&kind) {
            found.add(
                Finding::warning(format!("{path} (zone {name}) lies on a {kind}, which is memory"))
                    .why("pages are in memory twice, and gone after a start of the machine")
                    .mend(format!("# in the *_cache_path of {name}: a folder on a disk, or larder_disk=off"))
                    .mend(patient.reload()),
            );
        } else if ["nfs", "nfs4", "cifs", "smb3", "9p", "ceph", "glusterfs"].contains(&kind) || kind.starts_with("fuse")
        {
            found.add(
                Finding::warning(format!("{path} (zone {name}) lies on {} ({kind}), another machine's", mount.source))
                    .why("if the network stalls, pages are fetched from the origin as if there were no disk")
                    .mend(format!("# in the *_cache_path of {name}: a folder on a disk of this machine")),
            );
        } else if kind == "overlay" {
            found.add(
                Finding::note(format!("{path} (zone {name}) lies in the writable layer of a container"))
                    .why("its pages go with the container")
                    .mend(format!("docker run -v larder-pages:{path} ...")),
            );
        } else {
            found.fine(format!("{path}: {kind} on {}", mount.source));
        }
    }
}

/// The setting by which the unit keeps a folder from being written to.
fn locked(patient: &Patient<'_>, path: &Path) -> Option<String> {
    let unit = patient.unit().ok()??;
    let paths = unit.all("ReadWritePaths");
    let mut open = paths.iter().flat_map(|setting| setting.value.split_whitespace());
    if open.any(|open| path.starts_with(open.trim_start_matches(['-', '+']))) {
        return None;
    }
    let value = |key: &str| unit.last(key).map(|setting| setting.value.as_str()).unwrap_or_default();
    let is_below = |folders: &[&str]| folders.iter().any(|folder| path.starts_with(folder));
    let homes = ["/home", "/root", "/run/user"];
    let system: &[&str] = match value("ProtectSystem") {
        "yes" | "true" | "1" | "on" => &["/usr", "/boot", "/efi"],
        "full" => &["/usr", "/boot", "/efi", "/etc"],
        "strict" => &["/"],
        _ => &[],
    };
    // systemd opens the folders of CacheDirectory= and its kin.
    let has_own =
        ["CacheDirectory", "StateDirectory", "LogsDirectory"].into_iter().zip(["/var/cache", "/var/lib", "/var/log"]);
    let mut own =
        has_own.flat_map(|(key, top)| value(key).split_whitespace().map(move |name| Path::new(top).join(name)));
    if own.any(|own| path.starts_with(own)) {
        return None;
    }
    match value("ProtectHome") {
        "" | "no" | "false" | "0" | "off" => {}
        home if is_below(&homes) => return Some(format!("ProtectHome={home}")),
        _ => {}
    }
    is_below(system).then(|| format!("ProtectSystem={}", value("ProtectSystem")))
}

/// Whether there is room for what the zones may take, and for logs and temporary files at all.
pub fn room(patient: &Patient<'_>, found: &mut Found) {
    let mounts = patient.machine.text("/proc/self/mountinfo").map(|text| mounts(&text)).unwrap_or_default();
    let top_of = |path: &Path| {
        let path = patient.machine.followed(path);
        mount_of(&mounts, &path).map_or_else(|| path.display().to_string(), |mount| mount.place.clone())
    };
    // A full disk is told once.
    let mut seen = BTreeSet::new();
    for zone in zones(patient) {
        let (path, name) = (zone.path.display(), &zone.zone.value);
        let Some(folder) = there(patient, &zone.path) else {
            found.unknown(format!("{path} (zone {name}) is not there yet"));
            continue;
        };
        let space = match patient.senses.space(&patient.machine.outside(folder)) {
            Ok(space) => space,
            Err(error) => {
                found.unknown(format!("the room of {path}: {error}"));
                continue;
            }
        };
        let top = top_of(folder);
        seen.insert(top.clone());
        inodes(&space, &format!("{path} (zone {name})"), folder, found);
        // What the zone has already is not free, and counts for it.
        let taken = taken(patient, &zone.path);
        let possible = space.free_bytes.saturating_add(taken);
        let wanted = zone.max_bytes.unwrap_or(0);
        if space.free_bytes < BYTES_MIN {
            found.add(
                Finding::error(format!("{} are free for {path} (zone {name})", size(space.free_bytes)))
                    .why("the disk is full: logs and databases on it fail, and no page is written")
                    .mend(largest(&top)),
            );
        } else if wanted > possible {
            found.add(
                Finding::warning(format!(
                    "zone {name} may take {} in {path}, where {} are left for it",
                    size(wanted),
                    size(possible)
                ))
                .why("larder stops before the disk is full, but whatever else grows there fills it")
                .mend(format!("# in the *_cache_path of {name}: max_size={}m", (possible / 10 * 8) >> 20))
                .mend(patient.reload()),
            );
        } else {
            found.fine(format!("{path}: {} of {} free", size(space.free_bytes), size(space.bytes)));
        }
    }
    for (path, (what, why)) in patient.config.as_ref().map(written).unwrap_or_default() {
        let shown = format!("{} ({what})", path.display());
        let folder = path.ancestors().find(|folder| patient.machine.has(folder)).unwrap_or(&path);
        let top = top_of(folder);
        if !seen.insert(top.clone()) {
            continue;
        }
        let space = match patient.senses.space(&patient.machine.outside(folder)) {
            Ok(space) => space,
            Err(error) => {
                found.unknown(format!("the room of {shown}: {error}"));
                continue;
            }
        };
        inodes(&space, &shown, folder, found);
        // One that is small may be as it should be.
        if space.free_bytes < BYTES_MIN.min(space.bytes / SPARE_SHARE) {
            let finding = Finding::error(format!("{} are free for {shown}", size(space.free_bytes)));
            found.add(finding.why(why).mend(largest(&top)));
        } else {
            found.fine(format!("{shown}: {} of {} free", size(space.free_bytes), size(space.bytes)));
        }
    }
}

/// The folders that larder writes to beside caches, what for, and what comes of it if they are full.
fn written(config: &Config) -> BTreeMap<PathBuf, (&'static str, &'static str)> {
    let built_in = || Some(PathBuf::from(tempfile::SYSTEM_DIR));
    let temporary = levels::settings(config).into_iter().flat_map(|settings| {
        let buffers = [&settings.fastcgi.origin, &settings.proxy.origin].map(|origin| &origin.buffers.temp_path);
        buffers.into_iter().chain([&settings.body.temp_path]).filter_map(move |path| path.clone().or_else(built_in))
    });
    let temporary = temporary.map(|path| (path, TEMPORARY));
    let logs = logs::files(config).into_iter().filter_map(|log| Some((log.parent()?.to_owned(), LOGS)));
    // /dev/stdout is no file.
    let is_on_disk = |path: &PathBuf| !path.starts_with("/dev") && !path.starts_with("/proc");
    temporary.chain(logs).filter(|(path, _)| is_on_disk(path)).collect()
}

fn inodes(space: &Space, shown: &str, folder: &Path, found: &mut Found) {
    if space.free_inodes.is_some_and(|free| free < INODES_MIN) {
        found.add(
            Finding::error(format!("the file system of {shown} has no free inodes"))
                .why("no file can be made there, however many bytes are free")
                .mend(format!("df -i {}", quoted(&folder.display().to_string()))),
        );
    }
}

/// The command that shows what takes most room of a file system.
fn largest(top: &str) -> String {
    format!("du -xh {} | sort -h | tail", quoted(top))
}

/// How long a write takes until it is on the disk.
pub fn speed(patient: &Patient<'_>, found: &mut Found) {
    let mounts = patient.machine.text("/proc/self/mountinfo").map(|text| mounts(&text)).unwrap_or_default();
    let mut measured = BTreeSet::new();
    for zone in zones(patient) {
        let path = zone.path.display();
        let is_new = match mount_of(&mounts, &zone.path) {
            Some(mount) => measured.insert(mount.place.clone()),
            None => true,
        };
        if !is_new {
            continue;
        }
        if !patient.measures_disks {
            found.unknown(format!("{path} was not measured, as was asked for"));
            continue;
        }
        if !patient.machine.has(&zone.path) {
            found.unknown(format!("{path} is not there yet"));
            continue;
        }
        let writes = match patient.senses.writes(&patient.machine.outside(&zone.path)) {
            Ok(writes) => writes,
            Err(error) => {
                let hint = if patient.is_root { "" } else { ": be root" };
                found.unknown(format!("{path} cannot be written to ({error}){hint}"));
                continue;
            }
        };
        let fact = format!(
            "a write of 4 KB to {path} takes {} (longest of {}: {})",
            time(writes.median),
            writes.count,
            time(writes.longest)
        );
        let why = "a page that is not read within a second is fetched from the origin, as if it were not there";
        let mend = "iostat -x 5 # who else writes, and whether the disk is ill: smartctl -H";
        if writes.longest >= READ_PATIENCE {
            found.add(Finding::error(fact).why(why).mend(mend));
        } else if writes.median >= SLOW || writes.longest >= SLOW_ONCE {
            found.add(Finding::warning(fact).why(why).mend(mend));
        } else {
            found.fine(fact);
        }
    }
}

/// The folder, or what will hold it.
fn there<'a>(patient: &Patient<'_>, path: &'a Path) -> Option<&'a Path> {
    path.ancestors().take(2).find(|folder| patient.machine.has(folder))
}

/// The bytes of the segments of a zone.
fn taken(patient: &Patient<'_>, path: &Path) -> u64 {
    let files = patient.machine.files(&format!("{}/*.segment", path.display()));
    let bytes = files.iter().filter_map(|file| patient.machine.outside(file).metadata().ok());
    bytes.map(|metadata| metadata.len()).sum()
}

/// The lines of `/proc/self/mountinfo` (proc(5)).
fn mounts(text: &str) -> Vec<Mount> {
    let mount = |line: &str| {
        let (before, after) = line.split_once(" - ")?;
        let mut before = before.split(' ').skip(4);
        let (place, options) = (before.next()?, before.next()?);
        let mut after = after.split(' ');
        let (kind, source, of_system) = (after.next()?, after.next()?, after.next().unwrap_or_default());
        let is_read_only = [options, of_system].iter().any(|all| all.split(',').any(|option| option == "ro"));
        Some(Mount { place: unescaped(place), kind: kind.to_owned(), source: unescaped(source), is_read_only })
    };
    text.lines().filter_map(mount).collect()
}

/// Spaces and the like are `\040`.
fn unescaped(word: &str) -> String {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
        .iter()
        .fold(word.to_owned(), |word, (from, to)| word.replace(from, to))
}

/// The mount that has `path`: the last of the longest.
fn mount_of<'a>(mounts: &'a [Mount], path: &Path) -> Option<&'a Mount> {
    mounts.iter().filter(|mount| path.starts_with(&mount.place)).max_by_key(|mount| mount.place.len())
}

/// Less is a full disk.
const BYTES_MIN: u64 = 64 << 20;
const INODES_MIN: u64 = 100;
/// A file system of which less than one part in this many is free may be full soon.
const SPARE_SHARE: u64 = 20;
const LOGS: (&str, &str) = ("logs", "lines of the logs are lost, and so is whatever else is written there");
const TEMPORARY: (&str, &str) =
    ("temporary files", "uploads are answered 500, and pages that do not fit into their buffers are cut off");
/// A disk that turns takes 10 ms; one that takes longer for half of its writes is busy or ill.
const SLOW: Duration = Duration::from_millis(25);
const SLOW_ONCE: Duration = Duration::from_millis(300);
/// How long larder waits for a page from a disk.
const READ_PATIENCE: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::super::senses::{Space, Writes};
    use super::super::tests::Sick;
    use super::*;

    const ROOT: &str = "27 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n";

    fn machine(mounts: &str) -> Sick {
        let http = "http { proxy_cache_path /var/cache/pages keys_zone=pages:1m max_size=2g; }";
        Sick::new().file("/proc/self/mountinfo", mounts).file("/var/cache/pages/x", "").config(http)
    }

    #[test]
    fn pages_lie_on_a_disk() {
        for (mount, severity) in [
            ("", None),
            ("28 27 0:1 / /var/cache rw - tmpfs tmpfs rw\n", Some("warning")),
            ("28 27 0:1 / /var/cachet rw - tmpfs tmpfs rw\n", None),
            ("28 27 0:1 / /var rw - nfs4 nas:/x rw\n", Some("warning")),
            ("28 27 0:1 / /var rw - fuse.sshfs x rw\n", Some("warning")),
            ("28 27 0:1 / /var ro,relatime - ext4 /dev/vdb rw\n", Some("error")),
            ("28 27 0:1 / / rw - overlay overlay rw\n", Some("note")),
        ] {
            let found = machine(&format!("{ROOT}{mount}")).look("disk-place");
            assert_eq!(found.severity(), severity, "{mount}: {found:?}");
        }
        let memory = "http { proxy_cache_path /run/p keys_zone=p:1m larder_disk=off; }";
        let found = Sick::new().file("/proc/self/mountinfo", ROOT).config(memory).look("disk-place");
        assert!(found.0.findings.is_empty() && found.0.unknown.is_empty());
        assert!(!Sick::new().look("disk-place").0.unknown.is_empty());
        assert_eq!(unescaped("/a\\040b"), "/a b");
    }

    #[test]
    fn the_unit_lets_pages_be_written() {
        let unit = "[Service]\nProtectSystem=full\nProtectHome=read-only\nCacheDirectory=larder\n";
        for (path, more, severity) in [
            ("/var/cache/larder/pages", "", None),
            ("/srv/pages", "", None),
            ("/home/cache", "", Some("error")),
            ("/etc/pages", "", Some("error")),
            ("/home/cache", "ReadWritePaths=/srv /home/cache\n", None),
            ("/home/cache", "ProtectHome=no\n", None),
            ("/srv/pages", "ProtectSystem=strict\n", Some("error")),
            ("/var/cache/larder/pages", "ProtectSystem=strict\n", None),
        ] {
            let http = format!("http {{ proxy_cache_path {path} keys_zone=p:1m; }}");
            let files = [
                ("/lib/systemd/system/larder.service", unit),
                ("/etc/systemd/system/larder.service.d/a.conf", more),
                ("/proc/self/mountinfo", ROOT),
            ];
            let found = Sick::new().files(&files).config(&http).look("disk-place");
            assert_eq!(found.severity(), severity, "{path} {more}: {found:?}");
        }
    }

    #[test]
    fn there_is_room_for_the_pages() {
        let space = |free_bytes, free_inodes| Space { free_bytes, bytes: 10 << 30, free_inodes };
        for (space, severity) in [
            (Ok(space(5 << 30, Some(1000))), None),
            (Ok(space(5 << 30, None)), None),
            (Ok(space(5 << 30, Some(0))), Some("error")),
            (Ok(space(1 << 30, Some(1000))), Some("warning")),
            (Ok(space(1 << 20, Some(1000))), Some("error")),
            (Err(5), None),
        ] {
            let is_known = space.is_ok();
            let found = machine(ROOT).space(space).look("disk-room");
            assert_eq!(found.severity(), severity, "{space:?}: {found:?}");
            assert_eq!(found.0.unknown.is_empty(), is_known);
        }
    }

    #[test]
    fn there_is_room_for_logs_and_temporary_files() {
        let mounts = format!("{ROOT}28 27 0:1 / /full rw - ext4 /dev/vdb rw\n");
        let full = |bytes| Space { free_bytes: 1 << 10, bytes, free_inodes: None };
        for (http, bytes, severity) in [
            ("error_log /full/e.log; http { server { access_log off; } }", 1 << 30, Some("error")),
            ("error_log /full/e.log; http { server { access_log off; } }", 1 << 12, None),
            ("http { server { access_log /full/a.log; } }", 1 << 30, Some("error")),
            ("http { server { location / { client_body_temp_path /full/new; } } }", 1 << 30, Some("error")),
            ("http { server { location / { proxy_temp_path /full; } } }", 1 << 30, Some("error")),
            ("http { server { access_log /dev/full/a.log; } }", 1 << 30, None),
            ("error_log stderr; http { server { access_log off; } }", 1 << 30, None),
        ] {
            let sick = Sick::new().file("/proc/self/mountinfo", &mounts).file("/full/x", "").file("/dev/full/x", "");
            let found = sick.config(http).space_below("/full", full(bytes)).look("disk-room");
            assert_eq!(found.severity(), severity, "{http}: {found:?}");
            assert!(severity.is_none() || found.text().contains("du -xh /full |"), "{found:?}");
        }
        // Once for each disk.
        let both = "error_log /full/e.log; http { server { access_log /full/b/a.log; proxy_temp_path /full/t; } }";
        let sick = Sick::new().file("/proc/self/mountinfo", &mounts).file("/full/b/x", "");
        let found = sick.config(both).space_below("/full", full(1 << 30)).look("disk-room");
        assert_eq!(found.0.findings.len(), 1, "{found:?}");
    }

    #[test]
    fn a_slow_disk_is_told() {
        let writes = |median, longest| Writes {
            count: 9,
            median: Duration::from_millis(median),
            longest: Duration::from_millis(longest),
        };
        for (writes, severity) in [
            (Ok(writes(1, 20)), None),
            (Ok(writes(30, 40)), Some("warning")),
            (Ok(writes(1, 400)), Some("warning")),
            (Ok(writes(1, 1500)), Some("error")),
            (Err(13), None),
        ] {
            let found = machine(ROOT).writes(writes).look("disk-speed");
            assert_eq!(found.severity(), severity, "{writes:?}: {found:?}");
        }
        let found = machine(ROOT).writes(Ok(writes(1, 1500))).unmeasured().look("disk-speed");
        assert!(found.severity().is_none() && found.text().contains("not measured"), "{found:?}");
    }
}
