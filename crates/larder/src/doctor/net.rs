//! What the kernel does with connections before larder sees them.

use larder_conf::model::Config;

use super::finding::{Finding, Found};
use super::patient::{BACKLOG_ENOUGH, Patient, sysctl};
use crate::sockets;

/// `listen ... backlog=` against `net.core.somaxconn`, and whether queues were full.
pub fn backlog(patient: &Patient<'_>, found: &mut Found) {
    let Some(config) = &patient.config else { return };
    let plans = sockets::plan(config);
    short(patient, config, &plans, found);
    let Some(wanted) = plans.iter().map(sockets::Plan::backlog).filter_map(|own| u64::try_from(own).ok()).max() else {
        return;
    };
    match patient.machine.number("/proc/sys/net/core/somaxconn") {
        Ok(Some(most)) if most < wanted => found.add(
            Finding::warning(format!("listen asks for a backlog of {wanted}, net.core.somaxconn allows {most}"))
                .why(NOT_LET_IN)
                .mend(sysctl("net.core.somaxconn", wanted.max(SOMAXCONN_GOOD))),
        ),
        Ok(Some(most)) if !found.has_finding_now() => {
            found.fine(format!("{wanted} of {most} that the kernel allows"));
        }
        Ok(Some(_)) => {}
        Ok(None) => found.unknown("/proc/sys/net/core/somaxconn has no number"),
        Err(error) => found.unknown(error),
    }
    let Ok(counters) = patient.machine.text("/proc/net/netstat") else { return };
    if let Some(count) = counter(&counters, "TcpExt", "ListenOverflows").filter(|count| *count > 0) {
        found.add(
            Finding::note(format!("queues of listening sockets were full {count} times since the machine was started"))
                .why("those connections were dropped; it may have been another server")
                .mend("nstat -az TcpExtListenOverflows # grows while it happens"),
        );
    }
}

/// Addresses with a queue that a burst fills. A negative backlog is all that the kernel allows.
fn short(patient: &Patient<'_>, config: &Config, plans: &[sockets::Plan], found: &mut Found) {
    for plan in plans {
        let Some(own) = u64::try_from(plan.backlog()).ok().filter(|own| *own < BACKLOG_ENOUGH) else { continue };
        let mut listens = config.http.servers.iter().flat_map(|server| &server.listens);
        let asks = listens.find(|listen| listen.address == plan.address && listen.backlog == Some(plan.backlog()));
        let place = asks.and_then(|listen| config.lines.of(listen.span));
        let place = place.map_or_else(String::new, |(path, line)| format!("{}:{line}", path.display()));
        found.add(
            Finding::warning(format!("listen {plan} asks for a backlog of {own} ({place})"))
                .why(NOT_LET_IN)
                .mend(format!("# in {place}: without backlog= it is 511"))
                .mend(patient.reload()),
        );
    }
}

/// `net.ipv4.tcp_syncookies`.
pub fn syn_cookies(patient: &Patient<'_>, found: &mut Found) {
    match patient.machine.number("/proc/sys/net/ipv4/tcp_syncookies") {
        Ok(Some(0)) => found.add(
            Finding::warning("net.ipv4.tcp_syncookies is 0")
                .why("a flood of forged SYN fills the queue, and nobody else comes in")
                .mend(sysctl("net.ipv4.tcp_syncookies", 1)),
        ),
        Ok(Some(_)) => found.fine("on"),
        Ok(None) => found.unknown("/proc/sys/net/ipv4/tcp_syncookies has no number"),
        Err(error) => found.unknown(error),
    }
}

/// `net.ipv4.tcp_tw_recycle`, which old guides praise. Linux 4.12 has removed it.
pub fn tw_recycle(patient: &Patient<'_>, found: &mut Found) {
    match patient.machine.number("/proc/sys/net/ipv4/tcp_tw_recycle") {
        Ok(Some(0)) => found.fine("off"),
        Ok(_) => found.add(
            Finding::error("net.ipv4.tcp_tw_recycle is on")
                .why("of several visitors behind one router or mobile network, some cannot connect at all")
                .mend(sysctl("net.ipv4.tcp_tw_recycle", 0)),
        ),
        Err(error) if error.is_absent() && patient.machine.has("/proc/sys/net/ipv4".as_ref()) => {
            found.fine("the kernel has it no more");
        }
        Err(error) => found.unknown(error),
    }
    for pattern in ["/etc/sysctl.conf", "/etc/sysctl.d/*.conf"] {
        for file in patient.machine.files(pattern) {
            let Ok(text) = patient.machine.text(&file) else { continue };
            let names_it = |line: &&str| line.trim_start().starts_with("net.ipv4.tcp_tw_recycle");
            if let Some((at, _)) = text.lines().enumerate().find(|(_, line)| names_it(line)) {
                let file = file.display();
                found.add(
                    Finding::note(format!("{file}:{} sets net.ipv4.tcp_tw_recycle", at + 1))
                        .why("no kernel since 4.12 has it, and those before lose visitors by it")
                        .mend(format!("sed -i '/^ *net\\.ipv4\\.tcp_tw_recycle/d' {file}")),
                );
            }
        }
    }
}

/// A counter of `/proc/net/netstat`: a line with the names, then one with the numbers.
fn counter(text: &str, group: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(group)?.strip_prefix(':'));
    let at = lines.next()?.split_whitespace().position(|own| own == name)?;
    lines.next()?.split_whitespace().nth(at)?.parse().ok()
}

/// What kernels since 5.4 have.
const SOMAXCONN_GOOD: u64 = 4096;
const NOT_LET_IN: &str = "in a burst connections beyond it are dropped, and their visitors wait a second or more";

#[cfg(test)]
mod tests {
    use super::super::tests::Sick;

    #[test]
    fn the_backlog_is_what_the_kernel_allows() {
        for (listen, most, severity) in [
            ("listen 80;", "4096\n", None),
            ("listen 80;", "128\n", Some("warning")),
            ("listen 80 backlog=8192;", "4096\n", Some("warning")),
            ("listen 80 backlog=-1;", "4096\n", None),
            ("listen 80 backlog=128;", "4096\n", None),
            ("listen 80 backlog=2;", "4096\n", Some("warning")),
            ("listen 80; listen 81 backlog=2;", "4096\n", Some("warning")),
        ] {
            let sick = Sick::new().file("/proc/sys/net/core/somaxconn", most);
            let found = sick.config(&format!("http {{ server {{ {listen} }} }}")).look("backlog");
            assert_eq!(found.severity(), severity, "{listen} {most}: {found:?}");
        }
        let small = Sick::new().file("/proc/sys/net/core/somaxconn", "4096");
        let small = small.config("http { server {\nlisten 127.0.0.1:81 backlog=2; } }").look("backlog");
        let said = "listen 127.0.0.1:81 asks for a backlog of 2 (/etc/larder/larder.conf:3)";
        assert!(small.text().contains(said) && small.0.fine.is_empty(), "{small:?}");
        let unknown = Sick::new().config("http { server { listen 80; } }").look("backlog");
        assert!(unknown.severity().is_none() && unknown.text().contains("somaxconn cannot be read"));
    }

    #[test]
    fn full_queues_are_told() {
        for (count, severity) in [("0", None), ("12", Some("note"))] {
            let text = format!("TcpExt: A ListenOverflows B\nTcpExt: 5 {count} 6\nIpExt: A\nIpExt: 1\n");
            let sick = Sick::new().files(&[("/proc/sys/net/core/somaxconn", "4096"), ("/proc/net/netstat", &text)]);
            let found = sick.config("http { server { listen 80; } }").look("backlog");
            assert_eq!(found.severity(), severity, "{count}");
        }
    }

    #[test]
    fn syn_cookies_are_on() {
        for (value, severity) in [("0\n", Some("warning")), ("1\n", None), ("2\n", None), ("x", None)] {
            let found = Sick::new().file("/proc/sys/net/ipv4/tcp_syncookies", value).look("syn-cookies");
            assert_eq!(found.severity(), severity, "{value}");
        }
        assert!(!Sick::new().look("syn-cookies").0.unknown.is_empty());
    }

    #[test]
    fn nothing_of_old_guides_is_left() {
        let recycle = "/proc/sys/net/ipv4/tcp_tw_recycle";
        for (files, severity) in [
            (&[][..], None),
            (&[(recycle, "0\n")], None),
            (&[(recycle, "1\n")], Some("error")),
            (&[("/etc/sysctl.conf", "#net.ipv4.tcp_tw_recycle=1\n")], None),
            (&[("/etc/sysctl.d/9.conf", "a=1\nnet.ipv4.tcp_tw_recycle = 1\n")], Some("note")),
        ] {
            let found = Sick::new().files(files).look("tw-recycle");
            assert_eq!(found.severity(), severity, "{files:?}: {found:?}");
        }
        assert!(!Sick::new().look("tw-recycle").0.unknown.is_empty(), "without /proc nobody knows");
        let new = Sick::new().file("/proc/sys/net/ipv4/tcp_syncookies", "1").look("tw-recycle");
        assert!(new.text().contains("has it no more"), "{new:?}");
    }
}
