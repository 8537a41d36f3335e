//! How many children php-fpm may have: against memory, and against the connections that larder keeps.

use super::super::finding::{Finding, Found};
use super::super::patient::Patient;
use super::super::words::size;
use super::pools::Pool;
use crate::processes;

/// All children of all pools, at the size that they have now, have to fit into the memory of the machine.
pub fn memory(patient: &Patient<'_>, found: &mut Found) {
    let php = patient.php();
    php.unread.iter().for_each(|why| found.unknown(why));
    for origin in php.without_pool(patient.machine) {
        found.unknown(format!(
            "no pool file that can be read listens at {} (asked in {})",
            origin.address, origin.place
        ));
    }
    let whole = match patient.memory("MemTotal") {
        Ok(Some(whole)) => whole,
        Ok(None) => return found.unknown("/proc/meminfo has no MemTotal"),
        Err(error) => return found.unknown(error),
    };
    let mut wanted = 0u64;
    let (mut largest, mut facts): (Option<(&Pool, u64, u64)>, Vec<String>) = (None, Vec::new());
    for pool in &php.pools {
        let Some(children) = pool.children_max() else { continue };
        let Some(bytes) = child_bytes(patient, pool) else {
            found.unknown(format!("{} has no worker now, so that the size of one is not known", pool.shown()));
            continue;
        };
        let all = children.saturating_mul(bytes);
        wanted = wanted.saturating_add(all);
        facts.push(format!("{}: {children} children of {} each", pool.shown(), size(bytes)));
        if largest.is_none_or(|(_, children, bytes)| all > children.saturating_mul(bytes)) {
            largest = Some((pool, children, bytes));
        }
    }
    let Some((pool, children, bytes)) = largest else { return };
    let room = whole - whole / SPARE_SHARE;
    if wanted <= room {
        facts.into_iter().for_each(|fact| found.fine(fact));
        return;
    }
    let others = wanted.saturating_sub(children.saturating_mul(bytes));
    let fitting = (room.saturating_sub(others) / bytes.max(1)).max(1);
    let what = format!(
        "{children} children of {}, {} each now, take {} with those of all pools; this machine has {}",
        pool.shown(),
        size(bytes),
        size(wanted),
        size(whole)
    );
    let finding = if wanted > whole { Finding::error(what) } else { Finding::warning(what) };
    let [change, reload] = pool.set("pm.max_children", fitting);
    let why =
        "under load the machine swaps, or the kernel ends the database; requests that wait in the queue cost nothing";
    found.add(finding.why(why).mend(change).mend(reload));
}

/// The memory of a child that no other has: the average of those that run.
fn child_bytes(patient: &Patient<'_>, pool: &Pool) -> Option<u64> {
    let title = format!("php-fpm: pool {}", pool.name);
    let all = &patient.php().processes;
    // Each version of PHP has a pool of the same name.
    let is_its = |pid: u64| {
        let parent = processes::parent(patient.machine, pid);
        let master = all.iter().find(|process| Some(process.pid) == parent);
        pool.version().zip(master).is_none_or(|(version, master)| master.title.contains(&format!("/{version}/")))
    };
    let processes = all.iter().filter(|process| process.title == title && is_its(process.pid));
    let sizes: Vec<u64> =
        processes.filter_map(|process| processes::memory(patient.machine, process.pid, "RssAnon")).collect();
    let count = u64::try_from(sizes.len()).ok().filter(|count| *count > 0)?;
    Some(sizes.iter().fold(0, |sum: u64, bytes| sum.saturating_add(*bytes)) / count)
}

/// A kept connection has a child for itself, also while it is idle.
pub fn connections(patient: &Patient<'_>, found: &mut Found) {
    for (origin, pool) in patient.php().asked(patient.machine) {
        let Some(children) = pool.children_max() else { continue };
        let kept = u64::try_from(origin.kept_connections).unwrap_or(u64::MAX);
        if kept >= children {
            let most = (children / 2).max(1);
            found.add(
                Finding::warning(format!(
                    "up to {kept} idle connections are kept to {}, which has {children} children",
                    pool.shown()
                ))
                .why("each of them occupies a child that does nothing, while other requests wait for one")
                .mend(format!("# in the upstream of {}: keepalive {most};", origin.place))
                .mend(patient.reload()),
            );
        }
        if let Some(most) = origin.connections_max.filter(|most| u64::from(*most) < children) {
            found.add(
                Finding::note(format!("max_conns={most} lets {children} children of {} never all work", pool.shown()))
                    .why("the others take memory for nothing")
                    .mend(format!("# in the upstream of {}: max_conns={children}", origin.place)),
            );
        }
    }
}

/// What is left for everything else: one part in this many.
const SPARE_SHARE: u64 = 5;

#[cfg(test)]
mod tests {
    use super::super::super::tests::Sick;

    const WORKERS: &[(&str, &str)] = &[
        ("/proc/7/comm", "php-fpm8.2"),
        ("/proc/7/cmdline", "php-fpm: pool www\0\0"),
        ("/proc/7/status", "RssAnon:\t102400 kB\n"),
        ("/proc/8/comm", "php-fpm8.2"),
        ("/proc/8/cmdline", "php-fpm: pool www"),
        ("/proc/8/status", "RssAnon:\t 51200 kB\n"),
        ("/proc/meminfo", "MemTotal: 1048576 kB\n"),
    ];

    fn machine(children: &str) -> Sick {
        let pool = format!("[www]\nlisten = /run/php.sock\npm.max_children = {children}\n");
        Sick::new().files(WORKERS).file("/etc/php/8.2/fpm/pool.d/www.conf", &pool)
    }

    #[test]
    fn children_that_do_not_fit_are_told() {
        for (children, severity) in [("5", None), ("11", Some("warning")), ("14", Some("error")), ("x", None)] {
            let found = machine(children).look("php-memory");
            assert_eq!(found.severity(), severity, "{children}: {found:?}");
        }
        let said = machine("14").look("php-memory").text();
        assert!(said.contains("75 MB each now") && said.contains("pm.max_children = 10|'"), "{said}");
    }

    #[test]
    fn a_pool_of_another_version_has_other_children() {
        let another = [
            ("/proc/6/comm", "php-fpm7.4"),
            ("/proc/6/cmdline", "php-fpm: master process (/etc/php/7.4/fpm/php-fpm.conf)"),
            ("/proc/9/comm", "php-fpm7.4"),
            ("/proc/9/cmdline", "php-fpm: pool www"),
            ("/proc/9/status", "PPid:\t6\nRssAnon:\t 1024000 kB\n"),
        ];
        let said = machine("5").files(&another).look("php-memory").text();
        assert!(said.contains("5 children of 75 MB each"), "{said}");
    }

    #[test]
    fn what_is_not_there_is_not_known() {
        let without = Sick::new().file("/proc/meminfo", "MemTotal: 4 kB\n");
        let pool = without.file("/etc/php/8.2/fpm/pool.d/www.conf", "[www]\nlisten=/a\npm.max_children=4000\n");
        let found = pool.look("php-memory");
        assert_eq!(found.severity(), None);
        assert!(found.text().contains("no worker now"), "{found:?}");
        let http = "http { server { location / { fastcgi_pass unix:/run/other.sock; } } }";
        let found = machine("5").config(http).look("php-memory");
        assert!(
            found.text().contains("listens at unix:/run/other.sock (asked in /etc/larder/larder.conf:"),
            "{found:?}"
        );
    }

    #[test]
    fn kept_connections_leave_children_to_others() {
        let http = |keep: &str, upstream: &str| {
            format!(
                "http {{ upstream php {{ server unix:/run/php.sock {upstream} }}
                 server {{ location / {{ fastcgi_pass php; fastcgi_keep_conn {keep}; }} }} }}"
            )
        };
        for (keep, upstream, severity) in [
            ("on", ";", Some("warning")),
            ("on", "; keepalive 2;", None),
            ("off", ";", None),
            ("off", "max_conns=2;", Some("note")),
            ("off", "max_conns=20;", None),
        ] {
            let found = machine("5").config(&http(keep, upstream)).look("php-connections");
            assert_eq!(found.severity(), severity, "{keep} {upstream}: {found:?}");
        }
    }
}
