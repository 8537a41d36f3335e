//! How many files larder may have open.

use larder_conf::model::{Main, Workers};

use super::finding::{Finding, Found};
use super::patient::{Patient, sysctl};

/// The limit of the server that runs, or else of its unit, against what it needs.
pub fn look(patient: &Patient<'_>, found: &mut Found) {
    let Some(config) = &patient.config else { return };
    let kernel_max = patient.machine.number(NR_OPEN).ok().flatten();
    if let (Some(wanted), Some(most)) = (config.main.worker_rlimit_nofile, kernel_max)
        && wanted > most
    {
        found.add(
            Finding::error(format!("worker_rlimit_nofile {wanted} is more than the kernel allows a process: {most}"))
                .why("the limit is not raised, and stays what the unit says")
                .mend(sysctl("fs.nr_open", wanted)),
        );
    }
    system_wide(patient, found);
    let Some((limit, whose)) = limit(patient, &config.main, found) else { return };
    let needed = needed(&config.main).max(FILES_MIN);
    if limit >= needed {
        let shown = if limit == u64::MAX { "no limit".to_owned() } else { format!("{limit} files") };
        found.fine(format!("{shown}, by {whose}"));
        return;
    }
    let what = format!("larder may have {limit} files open, by {whose}; it should have {needed}");
    let finding = if limit < FILES_LEAST { Finding::error(what) } else { Finding::warning(what) };
    let finding = finding.why(
        "each visitor takes one, one that waits for an origin two; beyond the limit nobody is accepted until others leave",
    );
    found.add(match config.main.worker_rlimit_nofile {
        Some(own) if own == limit => finding
            .mend(format!("# in {}: worker_rlimit_nofile {};", patient.conf_file.display(), needed.max(FILES_GOOD)))
            .mend(patient.reload()),
        _ => {
            let setting = format!("LimitNOFILE={}", needed.max(FILES_GOOD));
            patient.set_in_unit(&setting).into_iter().fold(finding, Finding::mend)
        }
    });
}

/// The limit and who sets it. `None` if it is not known, which is said.
fn limit(patient: &Patient<'_>, main: &Main, found: &mut Found) -> Option<(u64, String)> {
    if let Some(running) = patient.running() {
        // The serving process has what its parent has.
        match patient.machine.text(format!("/proc/{}/limits", running.pid)) {
            Ok(text) => return Some((soft_limit(&text)?, format!("the running server ({})", running.pid))),
            Err(error) => found.unknown(error),
        }
    }
    if let Some(own) = main.worker_rlimit_nofile {
        return Some((own, "worker_rlimit_nofile".to_owned()));
    }
    match patient.unit() {
        Ok(Some(unit)) => {
            let setting = unit.last("LimitNOFILE");
            return Some(match setting {
                // `soft:hard`; larder raises the soft one.
                Some(setting) => {
                    let hard = setting.value.rsplit(':').next().unwrap_or_default();
                    let limit = if hard == "infinity" { u64::MAX } else { hard.parse().ok()? };
                    (limit, format!("{}:{}", setting.file.display(), setting.line))
                }
                None => (SYSTEMD_FILES, format!("systemd, as {} says nothing", patient.unit_name())),
            });
        }
        Ok(None) => {}
        Err(error) => found.unknown(error),
    }
    match patient.machine.text("/proc/self/limits") {
        Ok(text) => Some((hard_limit(&text)?, "this shell".to_owned())),
        Err(error) => {
            found.unknown(error);
            None
        }
    }
}

/// What the connections need that the configuration speaks of, with one to an origin each. `worker_connections` is no
/// limit here, but says what somebody reckons with.
fn needed(main: &Main) -> u64 {
    let workers = match main.worker_processes {
        Workers::Auto => 1,
        Workers::Count(count) => u64::try_from(count).unwrap_or(1).max(1),
    };
    main.worker_connections.unwrap_or(0).saturating_mul(workers)
}

fn system_wide(patient: &Patient<'_>, found: &mut Found) {
    let Ok(text) = patient.machine.text(FILE_NR) else { return };
    let numbers: Vec<u64> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    if let [open, _, most] = numbers[..]
        && open > most / 5 * 4
    {
        found.add(
            Finding::warning(format!("{open} files are open on this machine, of {most} at most"))
                .why("beyond that every program fails to open files, larder among them")
                .mend(sysctl("fs.file-max", most.saturating_mul(2))),
        );
    }
}

fn soft_limit(limits: &str) -> Option<u64> {
    words(limits)?.next()
}

fn hard_limit(limits: &str) -> Option<u64> {
    words(limits)?.nth(1)
}

fn words(limits: &str) -> Option<impl Iterator<Item = u64>> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    let number = |word: &str| if word == "unlimited" { Some(u64::MAX) } else { word.parse().ok() };
    Some(line.split_whitespace().filter_map(number))
}

const NR_OPEN: &str = "/proc/sys/fs/nr_open";
const FILE_NR: &str = "/proc/sys/fs/file-nr";
/// What systemd gives a service without `LimitNOFILE`: the hard limit of systemd 240 and later.
const SYSTEMD_FILES: u64 = 524_288;
/// With less, a busy hour is too much.
const FILES_MIN: u64 = 8192;
/// With less, a search engine is too much.
const FILES_LEAST: u64 = 1025;
/// What larder's own unit has.
const FILES_GOOD: u64 = 524_288;

#[cfg(test)]
mod tests {
    use super::super::tests::Sick;

    fn limits(soft: &str, hard: &str) -> String {
        format!("Limit  Soft Limit  Hard Limit  Units\nMax open files            {soft}                {hard}  files\n")
    }

    #[test]
    fn the_limit_of_who_runs_or_would_run_counts() {
        let running = |text: &str| {
            let files = [("/run/larder.pid", "7\n"), ("/proc/7/comm", "larder\n"), ("/proc/7/limits", text)];
            Sick::new().files(&files).config("")
        };
        assert_eq!(running(&limits("1024", "524288")).look("open-files").severity(), Some("error"));
        assert_eq!(running(&limits("4096", "524288")).look("open-files").severity(), Some("warning"));
        assert_eq!(running(&limits("524288", "524288")).look("open-files").severity(), None);
        let other = running(&limits("1024", "1024")).file("/proc/7/comm", "nginx\n").look("open-files");
        assert!(
            other.severity().is_none() && !other.0.unknown.is_empty(),
            "a process of another program is none of ours"
        );
        let unit = |text: &str| Sick::new().file("/lib/systemd/system/larder.service", text).config("");
        for (text, severity) in [
            ("[Service]\nLimitNOFILE=524288\n", None),
            ("[Service]\nLimitNOFILE=1024:524288\n", None),
            ("[Service]\nLimitNOFILE=4096\n", Some("warning")),
            ("[Service]\nLimitNOFILE=infinity\n", None),
            ("[Service]\n", None),
        ] {
            assert_eq!(unit(text).look("open-files").severity(), severity, "{text}");
        }
        let said = unit("[Service]\nLimitNOFILE=4096\n").look("open-files").text();
        assert!(said.contains("/etc/systemd/system/larder.service.d/") && said.contains("larder.service:2"), "{said}");
        let shell = Sick::new().file("/proc/self/limits", &limits("1024", "2048")).config("").look("open-files");
        assert!(shell.severity() == Some("warning") && shell.text().contains("this shell"), "{shell:?}");
        let nothing = Sick::new().config("").look("open-files");
        assert!(nothing.severity().is_none() && nothing.text().contains("/proc/self/limits cannot be read"));
    }

    #[test]
    fn what_is_configured_has_to_be_possible() {
        for (main, severity) in [
            ("worker_rlimit_nofile 100000;", None),
            ("worker_rlimit_nofile 4000000;", Some("error")),
            ("worker_rlimit_nofile 5000;", Some("warning")),
            ("worker_processes 4; events { worker_connections 50000; }", None),
            ("worker_rlimit_nofile 100000; worker_processes 4; events { worker_connections 50000; }", Some("warning")),
        ] {
            let unit = ("/lib/systemd/system/larder.service", "[Service]\n");
            let sick = Sick::new().files(&[unit, ("/proc/sys/fs/nr_open", "1048576\n")]).config(main);
            assert_eq!(sick.look("open-files").severity(), severity, "{main}");
        }
    }

    #[test]
    fn a_machine_that_runs_out_of_files_is_told() {
        let unit = ("/lib/systemd/system/larder.service", "[Service]\n");
        for (text, severity) in [("100 0 1000\n", None), ("900 0 1000\n", Some("warning")), ("x", None)] {
            let sick = Sick::new().files(&[unit, ("/proc/sys/fs/file-nr", text)]).config("");
            assert_eq!(sick.look("open-files").severity(), severity, "{text}");
        }
    }
}
