//! Memory and processors: what control groups allow, against what the configuration takes.

use larder_conf::model::{MemoryTotal, Workers};
use larder_server::MemoryGroup;

use super::finding::{Finding, Found};
use super::patient::Patient;
use super::words::size;
use crate::machine::Unread;

/// What pages may take, against the limits of the control groups and the memory of the machine.
pub fn limits(patient: &Patient<'_>, found: &mut Found) {
    let Some(config) = &patient.config else { return };
    let machine = match patient.memory("MemTotal") {
        Ok(Some(bytes)) => bytes,
        Ok(None) => return found.unknown("/proc/meminfo has no MemTotal"),
        Err(error) => return found.unknown(error),
    };
    let group = match patient.groups() {
        Ok(text) => least_group(patient, &text, machine),
        Err(error) => {
            found.unknown(error);
            None
        }
    };
    let own = config.http.cache_paths.iter().filter_map(|zone| zone.memory_bytes);
    let wanted = own.chain(config.http.memory_bytes).fold(0u64, u64::saturating_add);
    let (limit, whose) = match &group {
        Some((bytes, folder)) => (*bytes, format!("control group {folder}")),
        None => (machine, "memory of this machine".to_owned()),
    };
    if let MemoryTotal::Bytes(total) = config.http.memory_total
        && total > limit
    {
        found.add(
            Finding::warning(format!("larder_memory_total is {}, the {whose} is {}", size(total), size(limit)))
                .why("the kernel ends larder before it sees that memory is short")
                .mend(format!(
                    "# in {}: larder_memory_total {}m;",
                    patient.conf_file.display(),
                    (limit / 10 * 8) >> 20
                )),
        );
    }
    let room = limit / 10 * 8;
    if wanted > room {
        let what = format!("pages may take {} of memory, the {whose} is {}", size(wanted), size(limit));
        let finding = if wanted > limit { Finding::error(what) } else { Finding::warning(what) };
        let finding = finding
            .why("near the limit larder gives pages up, and then has requests wait; the memory is never all used")
            .mend(format!(
                "# in {}: larder_memory and larder_memory= of {}m together",
                patient.conf_file.display(),
                room >> 20
            ));
        found.add(match group {
            Some(_) => {
                let setting = format!("MemoryMax={}M", (wanted / 10).saturating_mul(13) >> 20);
                patient.set_in_unit(&setting).into_iter().fold(finding, Finding::mend)
            }
            None => finding.mend(patient.reload()),
        });
    } else if limit < MEMORY_MIN {
        let finding = Finding::warning(format!("the {whose} is {}", size(limit)))
            .why("beside requests there is hardly memory for pages");
        found.add(match group {
            Some(_) => patient.set_in_unit("MemoryMax=512M").into_iter().fold(finding, Finding::mend),
            None => finding,
        });
    } else {
        found.fine(format!(
            "{} of {} ({whose})",
            if wanted > 0 { size(wanted) } else { "its share".to_owned() },
            size(limit)
        ));
    }
}

/// The least limit, and the folder of its group.
fn least_group(patient: &Patient<'_>, groups: &str, machine: u64) -> Option<(u64, String)> {
    let limits = MemoryGroup::named_in(groups).into_iter().filter_map(|group| {
        let bytes = group.limit_by(machine, |path| patient.machine.text(path).ok())?;
        Some((bytes, group.folder().to_owned()))
    });
    limits.min()
}

/// `cpu.max` against the workers.
pub fn processors(patient: &Patient<'_>, found: &mut Found) {
    let Some(config) = &patient.config else { return };
    let groups = match patient.groups() {
        Ok(text) => text,
        Err(error) => return found.unknown(error),
    };
    let Some((share, folder)) = least_share(patient, &groups) else {
        return found.fine("no control group limits them");
    };
    let workers = match config.main.worker_processes {
        // Which counts what the group allows.
        Workers::Auto => 1,
        Workers::Count(count) => count,
    };
    let allowed = share.ceil().max(1.0) as usize;
    if share < 1.0 {
        let setting = "CPUQuota=100%";
        let finding = Finding::warning(format!("{folder} allows {share:.2} of a processor"))
            .why("when that is used up, all requests stand still for the rest of each tenth of a second");
        found.add(patient.set_in_unit(setting).into_iter().fold(finding, Finding::mend));
    } else if workers > allowed {
        found.add(
            Finding::warning(format!("worker_processes is {workers}, and {folder} allows {share:.1} processors"))
                .why("workers that run at the same time use it up early, and then all stand still for a while")
                .mend(format!("# in {}: worker_processes auto;", patient.conf_file.display()))
                .mend(patient.reload()),
        );
    } else {
        found.fine(format!("{share:.1} processors, by {folder}"));
    }
}

fn least_share(patient: &Patient<'_>, groups: &str) -> Option<(f64, String)> {
    let mut least: Option<(f64, String)> = None;
    // Groups of version 2 have all controllers in one tree, which is that of memory.
    for group in MemoryGroup::named_in(groups) {
        let file = format!("{}/cpu.max", group.folder());
        let Ok(text) = patient.machine.text(&file) else { continue };
        let mut numbers = text.split_whitespace().map(str::parse::<f64>);
        let (Some(Ok(quota)), Some(Ok(period))) = (numbers.next(), numbers.next()) else { continue };
        let share = quota / period;
        if share.is_finite() && least.as_ref().is_none_or(|(known, _)| share < *known) {
            least = Some((share, file));
        }
    }
    least
}

/// Transparent huge pages.
pub fn huge_pages(patient: &Patient<'_>, found: &mut Found) {
    let chosen = |file: &str| -> Result<Option<String>, Unread> {
        let text = patient.machine.text(format!("/sys/kernel/mm/transparent_hugepage/{file}"))?;
        Ok(text.split_whitespace().find_map(|word| Some(word.strip_prefix('[')?.strip_suffix(']')?.to_owned())))
    };
    let (enabled, defrag, shared) = match (chosen("enabled"), chosen("defrag"), chosen("shmem_enabled")) {
        (Ok(enabled), defrag, shared) => (enabled, defrag.ok().flatten(), shared.ok().flatten()),
        (Err(error), ..) => {
            return match error.is_absent() && patient.machine.has("/sys/kernel/mm".as_ref()) {
                true => found.fine("the kernel has none"),
                false => found.unknown(error),
            };
        }
    };
    let set = |file: &str, word: &str| format!("echo {word} > /sys/kernel/mm/transparent_hugepage/{file}");
    let is = |value: &Option<String>, word: &str| value.as_deref() == Some(word);
    if is(&shared, "always") || is(&shared, "force") {
        found.add(
            Finding::warning("huge pages are used for all memory files (shmem_enabled)")
                .why(
                    "larder's has pages of 48 KB that come and go, and gets 2 MB at a time: more is taken than is used",
                )
                .mend(set("shmem_enabled", "advise")),
        );
    }
    if is(&enabled, "always") && is(&defrag, "always") {
        found.add(
            Finding::warning(
                "huge pages are made at once, wherever memory is asked for (enabled and defrag are always)",
            )
            .why("a request waits while the kernel moves memory together; larder and php-fpm take more than they use")
            .mend(set("defrag", "madvise"))
            .mend(set("enabled", "madvise")),
        );
    } else if !found.has_finding_now() {
        found.fine(enabled.unwrap_or_else(|| "not known to be on".to_owned()));
    }
}

/// With less there is no room for pages.
const MEMORY_MIN: u64 = 96 << 20;

#[cfg(test)]
mod tests {
    use super::super::tests::Sick;

    fn machine(http: &str, files: &[(&str, &str)]) -> Sick {
        let common = [("/proc/meminfo", "MemTotal: 4194304 kB\n"), ("/proc/self/cgroup", "0::/a.service\n")];
        Sick::new().files(&common).files(files).config(http)
    }

    #[test]
    fn pages_fit_into_the_memory_that_is_allowed() {
        let group = "/sys/fs/cgroup/a.service/memory.max";
        for (http, files, severity) in [
            ("http { larder_memory 1g; }", &[][..], None),
            ("http { larder_memory 3800m; }", &[], Some("warning")),
            ("http { larder_memory 5g; }", &[], Some("error")),
            ("http { larder_memory 1g; }", &[(group, "1100000000\n")], Some("warning")),
            ("http { larder_memory 1g; }", &[(group, "max\n")], None),
            ("http { larder_memory 1g; }", &[("/sys/fs/cgroup/memory.max", "536870912\n")], Some("error")),
            ("http { proxy_cache_path /a keys_zone=a:1m larder_memory=3g; larder_memory 2g; }", &[], Some("error")),
            ("", &[(group, "33554432\n")], Some("warning")),
            ("http { larder_memory_total 2g; }", &[(group, "1073741824\n")], Some("warning")),
            ("http { larder_memory_total 512m; }", &[(group, "1073741824\n")], None),
        ] {
            let found = machine(http, files).look("memory");
            assert_eq!(found.severity(), severity, "{http} {files:?}: {found:?}");
        }
        assert!(!Sick::new().config("").look("memory").0.unknown.is_empty());
    }

    #[test]
    fn workers_do_not_use_up_their_share() {
        let file = "/sys/fs/cgroup/a.service/cpu.max";
        for (main, text, severity) in [
            ("", "max 100000\n", None),
            ("", "200000 100000\n", None),
            ("", "50000 100000\n", Some("warning")),
            ("worker_processes 8;", "200000 100000\n", Some("warning")),
            ("worker_processes 2;", "150000 100000\n", None),
            ("", "x", None),
        ] {
            let found = machine(main, &[(file, text)]).look("processors");
            assert_eq!(found.severity(), severity, "{main} {text}: {found:?}");
        }
    }

    #[test]
    fn huge_pages_are_for_those_who_ask() {
        let path = |file: &str| format!("/sys/kernel/mm/transparent_hugepage/{file}");
        for (enabled, defrag, shared, severity) in [
            ("always [madvise] never", "always defer [madvise] never", "always [never]", None),
            ("[always] madvise never", "always defer [madvise] never", "[never]", None),
            ("[always] madvise never", "[always] defer madvise never", "[never]", Some("warning")),
            ("always [madvise] never", "[madvise]", "[always] never", Some("warning")),
        ] {
            let sick = Sick::new().file(&path("enabled"), enabled).file(&path("defrag"), defrag);
            let found = sick.file(&path("shmem_enabled"), shared).look("huge-pages");
            assert_eq!(found.severity(), severity, "{enabled} {defrag} {shared}: {found:?}");
        }
        assert!(!Sick::new().look("huge-pages").0.unknown.is_empty(), "without /sys nobody knows");
        let none = Sick::new().file("/sys/kernel/mm/x", "").look("huge-pages");
        assert!(none.text().contains("the kernel has none"), "{none:?}");
    }
}
