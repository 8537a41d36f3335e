//! Machines that are as sick as a test wants them.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use larder_server::clock;
use tempfile::TempDir;

use super::checks::{self, CHECKS};
use super::examine;
use super::finding::Found;
use super::options::Doctor;
use super::senses::{Feature, Senses, Space, Writes};
use crate::machine::Machine;
use crate::serve::fpm::Address;

/// A machine that has nothing but what it was given.
pub struct Sick {
    root: TempDir,
    senses: Scripted,
    asked: Doctor,
}

/// What its senses say. A number is that of a system's error.
struct Scripted {
    now: u64,
    space: Result<Space, i32>,
    /// What folders have whose path has this in it.
    other_space: Option<(&'static str, Space)>,
    writes: Result<Writes, i32>,
    missing: Option<Feature>,
    /// What connecting to an address says whose text has this in it.
    refused: Option<(&'static str, i32)>,
    php: Option<String>,
}

impl Senses for Scripted {
    fn now(&self) -> u64 {
        self.now
    }

    fn space(&self, folder: &Path) -> io::Result<Space> {
        if let Some((part, space)) = self.other_space
            && folder.to_string_lossy().contains(part)
        {
            return Ok(space);
        }
        self.space.map_err(io::Error::from_raw_os_error)
    }

    fn writes(&self, _: &Path) -> io::Result<Writes> {
        self.writes.map_err(io::Error::from_raw_os_error)
    }

    fn has(&self, feature: Feature) -> io::Result<()> {
        match self.missing {
            Some(missing) if missing == feature => Err(io::Error::from_raw_os_error(38)),
            _ => Ok(()),
        }
    }

    fn connect(&self, address: &Address) -> io::Result<()> {
        match self.refused {
            Some((part, error)) if address.to_string().contains(part) => Err(io::Error::from_raw_os_error(error)),
            _ => Ok(()),
        }
    }

    fn ask_php(&self, _: &Address, _: &str) -> io::Result<Vec<u8>> {
        let answer = self.php.as_ref().map(|answer| answer.clone().into_bytes());
        answer.ok_or_else(|| io::Error::from_raw_os_error(111))
    }
}

/// What one check found.
#[derive(Debug)]
pub struct Seen(pub Found);

impl Seen {
    /// The worst, in its word.
    pub fn severity(&self) -> Option<&'static str> {
        self.0.worst().map(super::Severity::word)
    }

    /// As it is printed.
    pub fn text(&self) -> String {
        self.0.as_text()
    }
}

impl Sick {
    pub fn new() -> Sick {
        let quick = Writes { count: 9, median: Duration::from_millis(1), longest: Duration::from_millis(2) };
        let large = Space { free_bytes: 1 << 40, bytes: 1 << 41, free_inodes: None };
        let senses = Scripted {
            now: clock::now().secs(),
            space: Ok(large),
            other_space: None,
            writes: Ok(quick),
            missing: None,
            refused: None,
            php: None,
        };
        Sick { root: TempDir::new().unwrap(), senses, asked: Doctor::default() }
    }

    pub fn file(self, path: &str, text: &str) -> Sick {
        let path = self.root.path().join(path.trim_start_matches('/'));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        self
    }

    pub fn files(self, files: &[(&str, &str)]) -> Sick {
        files.iter().fold(self, |sick, (path, text)| sick.file(path, text))
    }

    pub fn mode(self, path: &str, mode: u32) -> Sick {
        let path = self.root.path().join(path.trim_start_matches('/'));
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        self
    }

    /// The configuration; it need not have `events`.
    pub fn config(self, text: &str) -> Sick {
        let events = if text.contains("events") { "" } else { "events {}\n" };
        self.file("/etc/larder/larder.conf", &format!("{events}{text}"))
    }

    pub fn at(mut self, now: u64) -> Sick {
        self.senses.now = now;
        self
    }

    pub fn space(mut self, space: Result<Space, i32>) -> Sick {
        self.senses.space = space;
        self
    }

    pub fn space_below(mut self, part: &'static str, space: Space) -> Sick {
        self.senses.other_space = Some((part, space));
        self
    }

    pub fn writes(mut self, writes: Result<Writes, i32>) -> Sick {
        self.senses.writes = writes;
        self
    }

    pub fn unmeasured(mut self) -> Sick {
        self.asked.spares_disks = true;
        self
    }

    pub fn without(mut self, missing: Option<Feature>) -> Sick {
        self.senses.missing = missing;
        self
    }

    pub fn refusing(mut self, part: &'static str, error: i32) -> Sick {
        self.senses.refused = Some((part, error));
        self
    }

    pub fn php(mut self, answer: Option<&str>) -> Sick {
        self.senses.php = answer.map(str::to_owned);
        self
    }

    /// What a check finds.
    pub fn look(&self, name: &str) -> Seen {
        let check = CHECKS.iter().find(|check| check.name == name).expect("there is such a check");
        self.seen(|patient, found| check.run(patient, found))
    }

    fn seen(&self, look: impl FnOnce(&super::Patient<'_>, &mut Found)) -> Seen {
        let machine = Machine::at(self.root.path()).unwrap();
        let patient = examine(&self.asked, &machine, &self.senses);
        let mut found = Found::default();
        look(&patient, &mut found);
        Seen(found)
    }
}

#[test]
fn a_machine_without_anything_is_looked_at_to_the_end() {
    let seen = Sick::new().config("").seen(|patient, found| *found = checks::all(patient));
    assert_eq!(seen.severity(), None, "{seen:?}");
    assert!(seen.0.unknown.len() > 5, "{seen:?}");
    let nothing = Sick::new().seen(|patient, found| *found = checks::all(patient));
    assert_eq!(nothing.severity(), Some("error"), "{nothing:?}");
}

#[test]
fn whatever_the_files_say_all_is_looked_at_to_the_end() {
    let http = "user www; http { larder_memory 1g; proxy_cache_path /var/cache/pages keys_zone=p:1m;
        server { listen 443 ssl; ssl_certificate /etc/site.pem; ssl_certificate_key /etc/site.pem;
                 location / { fastcgi_pass unix:/run/php.sock; fastcgi_keep_conn on; } } }";
    let pool = "[www]\nlisten=/run/php.sock\npm.status_path=/s\npm.max_children=18446744073709551615\n";
    const MUCH: &str =
        "php-fpm: pool www\nPPid: 7\nRssAnon: 18014398509481983 kB\nMemTotal: 18014398509481983 kB\nPPid: 7";
    let paths = [
        "/proc/self/limits",
        "/proc/self/cgroup",
        "/proc/self/mountinfo",
        "/proc/meminfo",
        "/proc/net/netstat",
        "/proc/7/comm",
        "/proc/7/cmdline",
        "/proc/7/status",
        "/proc/9/status",
        "/proc/7/cgroup",
        "/proc/sys/fs/nr_open",
        "/proc/sys/fs/file-nr",
        "/proc/sys/net/core/somaxconn",
        "/proc/sys/net/ipv4/tcp_syncookies",
        "/proc/sys/net/ipv4/tcp_tw_recycle",
        "/proc/sys/kernel/osrelease",
        "/sys/kernel/mm/transparent_hugepage/enabled",
        "/sys/fs/cgroup/cpu.max",
        "/sys/fs/cgroup/memory.max",
        "/etc/passwd",
        "/etc/group",
        "/etc/site.pem",
        "/etc/php/8.2/fpm/php.ini",
        "/etc/php/8.2/fpm/pool.d/b.conf",
        "/lib/systemd/system/larder.service",
        "/run/larder.pid",
    ];
    for text in [
        "",
        "\0",
        "7",
        "\u{e9}\u{e9}=\u{e9}",
        "[",
        "=",
        "-1 0",
        "0 0 0",
        "18446744073709551615 1",
        " - ",
        "a:b:c:d",
        "0::/../..\n",
        MUCH,
    ] {
        let sick = Sick::new().file("/etc/php/8.2/fpm/pool.d/a.conf", pool).file("/run/php.sock", "").config(http);
        let sick = sick.files(&[("/proc/9/comm", "php"), ("/proc/9/cmdline", "php-fpm: pool www")]);
        let sick = paths.iter().fold(sick, |sick, path| sick.file(path, text)).php(Some(text));
        let seen = sick.seen(|patient, found| *found = checks::all(patient));
        assert!(!seen.text().is_empty(), "{text:?}");
    }
}

#[test]
fn names_are_there_once_and_each_check_has_something_to_say() {
    let mut names: Vec<&str> = CHECKS.iter().map(|check| check.name).collect();
    names.sort_unstable();
    assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/doctor.md")).unwrap();
    for name in names {
        assert!(page.contains(&format!("| `{name}`")), "docs/doctor.md has no row for {name}");
    }
}

#[test]
fn the_configuration_is_that_of_who_runs() {
    let sick = |cmdline: &str| {
        let files = [
            ("/run/larder.pid", "7\n"),
            ("/proc/7/comm", "larder\n"),
            ("/proc/7/status", "Uid:\t0\t0\t0\t0\n"),
            ("/proc/7/cmdline", cmdline),
            ("/etc/nginx/nginx.conf", ""),
        ];
        Sick::new().files(&files)
    };
    for (sick, expected) in [
        (sick("larder\0-c\0/srv/a.conf\0"), "/srv/a.conf"),
        (sick("larder\0"), "/etc/nginx/nginx.conf"),
        (Sick::new(), "/etc/larder/larder.conf"),
    ] {
        sick.seen(|patient, _| assert_eq!(patient.conf_file, Path::new(expected)));
    }
}

#[test]
fn what_may_not_be_read_is_not_known() {
    let http = "http { server { listen 443 ssl; ssl_certificate /etc/key.pem; ssl_certificate_key /etc/key.pem; } }";
    let machine = Machine::at(Path::new("/")).unwrap();
    let mut patient = super::Patient::new(&machine, &super::Tried, Path::new("/none"));
    patient.errors = vec![crate::remark::Remark {
        severity: larder_conf::Severity::Error,
        message: "cannot load certificate key \"/etc/key.pem\": Permission denied".to_owned(),
        span: None,
        place: None,
        label: None,
        help: Some(http.to_owned()),
    }];
    for (is_root, status) in [(true, 2), (false, 0)] {
        patient.is_root = is_root;
        let mut found = Found::default();
        super::configuration::look(&patient, &mut found);
        assert_eq!(found.status(), status);
        assert_eq!(found.unknown.is_empty(), is_root);
    }
}
