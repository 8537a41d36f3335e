//! The clock of the machine: ages, lifetimes and certificates rest on it.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::finding::{Finding, Found};
use super::patient::Patient;
use crate::processes;

/// Whether the time can be right, and whether somebody keeps it so.
pub fn look(patient: &Patient<'_>, found: &mut Found) {
    let now = patient.senses.now();
    if now < PAST {
        found.add(
            Finding::error("the clock is years behind")
                .why("certificates are not valid yet, and nothing that origins say of dates is true")
                .mend(KEEP_IT),
        );
    }
    let changed = patient.machine.outside(&patient.conf_file).metadata().ok();
    let changed = changed.and_then(|metadata| u64::try_from(metadata.mtime()).ok()).unwrap_or(0);
    if changed > now.saturating_add(AHEAD) {
        found.add(
            Finding::warning(format!("{} is from the future", patient.conf_file.display()))
                .why("the clock was wrong when it was written, or is now: pages are kept for too long or not at all")
                .mend("timedatectl"),
        );
    }
    keeper(patient, found);
}

fn keeper(patient: &Patient<'_>, found: &mut Found) {
    if patient.machine.has(Path::new("/run/systemd/timesync/synchronized")) {
        return found.fine("kept by systemd-timesyncd");
    }
    let is_keeper = |name: &str| KEEPERS.contains(&name);
    let running = processes::all(patient.machine);
    if let Some(process) = running.iter().find(|process| is_keeper(&process.name)) {
        return found.fine(format!("kept by {}", process.name));
    }
    // A container has the clock of its machine, and cannot see who keeps it.
    let is_container = ["/.dockerenv", "/run/.containerenv", "/run/systemd/container"];
    if is_container.iter().any(|path| patient.machine.has(Path::new(path))) {
        return found.unknown("the clock of a container is that of the machine that runs it");
    }
    if running.is_empty() {
        return found.unknown("/proc shows no processes");
    }
    if running.iter().any(|process| process.name == "systemd-timesyn") {
        found.add(
            Finding::warning("systemd-timesyncd runs and has not got the time from anybody")
                .why("the clock drifts; UDP port 123 may be closed")
                .mend("timedatectl timesync-status"),
        );
        return;
    }
    found.add(
        Finding::warning("nothing keeps the clock: neither timesyncd nor chrony nor ntpd runs")
            .why("it drifts by seconds a week; lifetimes of pages and certificates are judged by it")
            .mend(KEEP_IT),
    );
}

const KEEP_IT: &str = "apt-get install systemd-timesyncd && timedatectl set-ntp true";
/// As the kernel cuts names: 15 letters.
const KEEPERS: [&str; 8] = ["chronyd", "ntpd", "openntpd", "ntpsec", "ntpd-rs", "ntp-daemon", "ptp4l", "VBoxService"];
/// 2026: no machine that runs this has an earlier time.
const PAST: u64 = 1_767_225_600;
/// What clocks of machines that share files differ by.
const AHEAD: u64 = 300;

#[cfg(test)]
mod tests {
    use larder_server::clock;

    use super::super::tests::Sick;

    #[test]
    fn somebody_keeps_the_clock() {
        let process = |name: &str| Sick::new().file("/proc/7/comm", &format!("{name}\n"));
        for (sick, severity) in [
            (process("chronyd"), None),
            (process("bash"), Some("warning")),
            (process("systemd-timesyn"), Some("warning")),
            (process("systemd-timesyn").file("/run/systemd/timesync/synchronized", ""), None),
            (process("bash").file("/.dockerenv", ""), None),
            (Sick::new(), None),
        ] {
            let found = sick.look("clock");
            assert_eq!(found.severity(), severity, "{found:?}");
        }
    }

    #[test]
    fn a_time_that_cannot_be_is_told() {
        let kept = || Sick::new().file("/proc/7/comm", "chronyd").config("");
        let now = clock::now().secs();
        for (at, severity) in
            [(now, None), (now + 9, None), (now - 3600, Some("warning")), (1_000_000_000, Some("error"))]
        {
            let found = kept().at(at).look("clock");
            assert_eq!(found.severity(), severity, "{at}: {found:?}");
        }
    }
}
