//! The kernel: what larder uses of it and is not there.

use larder_conf::model::ListenAddress;

use super::finding::{Finding, Found};
use super::patient::Patient;
use super::senses::Feature;

/// A feature, how much its absence hurts, and what comes of it.
struct Use {
    feature: Feature,
    name: &'static str,
    lacks: fn(String) -> Finding,
    why: &'static str,
}

/// io_uring and kTLS are not among them: larder's own disk threads and TLS records do without.
const USES: [Use; 4] = [
    Use {
        feature: Feature::MemoryFile,
        name: "memfd_create",
        lacks: Finding::error,
        why: "bodies of 48 KB and more have no place in memory: larder keeps such pages on disk only, or not at all",
    },
    Use {
        feature: Feature::SharedPort,
        name: "SO_REUSEPORT",
        lacks: Finding::error,
        why: "each worker accepts at a socket of its own: larder does not start with several",
    },
    Use {
        feature: Feature::SealedMemoryFile,
        name: "MFD_NOEXEC_SEAL (Linux 6.3)",
        lacks: Finding::note,
        why: "the memory file could be run as a program; with vm.memfd_noexec=2 it would be refused",
    },
    Use {
        feature: Feature::OpenWithin,
        name: "openat2 (Linux 5.6)",
        lacks: Finding::note,
        why: "larder doctor --root and larder import --root follow links out of that root",
    },
];

/// What is used and missing.
pub fn features(patient: &Patient<'_>, found: &mut Found) {
    let version = patient.machine.text("/proc/sys/kernel/osrelease");
    let version = version.map_or_else(|_| "a version that is not known".to_owned(), |text| text.trim().to_owned());
    let mut used = Vec::new();
    for one in &USES {
        match patient.senses.has(one.feature) {
            Ok(()) => used.push(one.name),
            Err(error) => {
                let missing = (one.lacks)(format!("the kernel ({version}) has no {}: {error}", one.name));
                found.add(
                    missing.why(one.why).mend("uname -r # a newer kernel, or less strict a filter of system calls"),
                );
            }
        }
    }
    found.fine(format!("{version}: {}; io_uring and kTLS are not needed", used.join(", ")));
}

/// Whether there is IPv6, if the configuration listens there.
pub fn ipv6(patient: &Patient<'_>, found: &mut Found) {
    let Some(config) = &patient.config else { return };
    let listens = config.http.servers.iter().flat_map(|server| &server.listens);
    let wants = listens.into_iter().any(|listen| matches!(&listen.address, ListenAddress::Tcp(tcp) if tcp.is_ipv6()));
    let has = patient.machine.has("/proc/net/if_inet6".as_ref());
    if !patient.machine.has("/proc/net".as_ref()) {
        return found.unknown("/proc/net is not there");
    }
    match (wants, has) {
        (true, false) => found.add(
            Finding::error("the configuration listens at an address of IPv6, which this kernel has not")
                .why("larder does not start: bind() fails")
                .mend("sed -i '/listen \\[/d' FILE # or: sysctl -w net.ipv6.conf.all.disable_ipv6=0"),
        ),
        (false, true) if !config.http.servers.is_empty() => found.add(
            Finding::note("this machine has IPv6, and no server listens at it")
                .why("if the names of the site have AAAA records, those visitors fail or wait")
                .mend(format!("# beside each `listen 80;` in {}: listen [::]:80;", patient.conf_file.display())),
        ),
        (true, true) | (false, _) => found.fine(if has { "used" } else { "not there, and not asked for" }),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::Sick;
    use super::*;

    #[test]
    fn what_is_missing_is_told_with_what_it_costs() {
        for (missing, severity) in [
            (None, None),
            (Some(Feature::MemoryFile), Some("error")),
            (Some(Feature::SharedPort), Some("error")),
            (Some(Feature::SealedMemoryFile), Some("note")),
            (Some(Feature::OpenWithin), Some("note")),
        ] {
            let found = Sick::new().without(missing).file("/proc/sys/kernel/osrelease", "5.10\n").look("kernel");
            assert_eq!(found.severity(), severity, "{missing:?}");
            assert!(found.text().contains("5.10"));
        }
    }

    #[test]
    fn listening_needs_the_family() {
        for (http, has, severity) in [
            ("http { server { listen 80; listen [::]:80; } }", true, None),
            ("http { server { listen [::]:80; } }", false, Some("error")),
            ("http { server { listen 80; } }", true, Some("note")),
            ("http { server { listen 80; } }", false, None),
        ] {
            let sick = Sick::new().file("/proc/net/tcp", "");
            let sick = if has { sick.file("/proc/net/if_inet6", "x") } else { sick };
            assert_eq!(sick.config(http).look("ipv6").severity(), severity, "{http} {has}");
        }
    }
}
