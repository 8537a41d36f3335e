//! The table of all checks.

use super::finding::Found;
use super::patient::Patient;
use super::php::{children, opcache, queue, status, timeouts};
use super::{certificates, clock, configuration, disk, files, kernel, memory, net};

/// A check: a name, which findings bear, and what looks.
pub struct Check {
    /// Its name.
    pub name: &'static str,
    look: fn(&Patient<'_>, &mut Found),
}

/// All of them, in the order in which they are told.
pub const CHECKS: &[Check] = &[
    check("configuration", configuration::look),
    check("certificates", certificates::look),
    check("open-files", files::look),
    check("backlog", net::backlog),
    check("syn-cookies", net::syn_cookies),
    check("tw-recycle", net::tw_recycle),
    check("ipv6", kernel::ipv6),
    check("php-socket", queue::sockets),
    check("php-memory", children::memory),
    check("php-connections", children::connections),
    check("php-timeouts", timeouts::look),
    check("php-backlog", queue::backlog),
    check("php-status", status::look),
    check("php-opcache", opcache::look),
    check("disk-place", disk::place),
    check("disk-room", disk::room),
    check("disk-speed", disk::speed),
    check("memory", memory::limits),
    check("processors", memory::processors),
    check("huge-pages", memory::huge_pages),
    check("kernel", kernel::features),
    check("clock", clock::look),
];

const fn check(name: &'static str, look: fn(&Patient<'_>, &mut Found)) -> Check {
    Check { name, look }
}

/// What all checks find.
pub fn all(patient: &Patient<'_>) -> Found {
    let mut found = Found::default();
    for check in CHECKS {
        check.run(patient, &mut found);
    }
    found
}

impl Check {
    /// Looks.
    pub fn run(&self, patient: &Patient<'_>, found: &mut Found) {
        found.begin(self.name);
        (self.look)(patient, found);
    }
}
