//! What the checks look at: a machine, the configuration that is to run there, and the server if it runs.

use std::cell::OnceCell;
use std::path::{Path, PathBuf};

use larder_conf::model::Config;

use super::php::Php;
use super::senses::Senses;
use crate::machine::{Machine, Unread};
use crate::paths::PID_FILE;
use crate::processes;
use crate::remark::Remark;
use crate::unit::Unit;

/// All that is looked at.
pub struct Patient<'a> {
    /// The machine.
    pub machine: &'a Machine,
    /// What can be tried there.
    pub senses: &'a dyn Senses,
    /// The configuration, if it can be read.
    pub config: Option<Config>,
    /// Its main file.
    pub conf_file: PathBuf,
    /// What is wrong with the configuration.
    pub errors: Vec<Remark>,
    /// What is likely to be wrong.
    pub warnings: Vec<Remark>,
    /// Whether disks are written to, to measure them.
    pub measures_disks: bool,
    /// Whether this process is root.
    pub is_root: bool,
    php: OnceCell<Php>,
}

/// The server, as it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Running {
    /// Its number.
    pub pid: u64,
}

impl<'a> Patient<'a> {
    /// A machine with nothing to serve.
    pub fn new(machine: &'a Machine, senses: &'a dyn Senses, conf_file: &Path) -> Patient<'a> {
        Patient {
            machine,
            senses,
            config: None,
            conf_file: conf_file.to_owned(),
            errors: Vec::new(),
            warnings: Vec::new(),
            measures_disks: true,
            is_root: rustix::process::geteuid().is_root(),
            php: OnceCell::new(),
        }
    }

    /// The php-fpm of the machine, and what of the configuration asks it.
    pub fn php(&self) -> &Php {
        self.php.get_or_init(|| Php::of(self.machine, self.config.as_ref()))
    }

    /// The larder that runs with this configuration. What else has written the pid file is none.
    pub fn running(&self) -> Option<Running> {
        let pid_file = self.config.as_ref().and_then(|config| config.main.pid.as_deref());
        let pid = self.machine.text(pid_file.unwrap_or(Path::new(PID_FILE))).ok()?.trim().parse().ok()?;
        processes::is_larder(self.machine, pid).then_some(Running { pid })
    }

    /// The name of the unit that runs it, or would.
    pub fn unit_name(&self) -> String {
        let group = self.running().and_then(|running| self.machine.text(format!("/proc/{}/cgroup", running.pid)).ok());
        let names = group.as_deref().unwrap_or_default().lines().filter_map(|line| line.rsplit('/').next());
        let own = names.into_iter().find(|name| name.ends_with(".service"));
        own.map_or_else(|| UNIT.to_owned(), str::to_owned)
    }

    /// That unit.
    pub fn unit(&self) -> Result<Option<Unit>, Unread> {
        Unit::read(self.machine, &self.unit_name())
    }

    /// The text of `/proc/PID/cgroup` of the server, or of this process.
    pub fn groups(&self) -> Result<String, Unread> {
        let pid = self.running().map_or_else(|| "self".to_owned(), |running| running.pid.to_string());
        self.machine.text(format!("/proc/{pid}/cgroup"))
    }

    /// A line of `/proc/meminfo`, in bytes.
    pub fn memory(&self, name: &str) -> Result<Option<u64>, Unread> {
        let text = self.machine.text("/proc/meminfo")?;
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        let kilobytes = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
        Ok(kilobytes.map(|kilobytes| kilobytes.saturating_mul(1024)))
    }

    /// The commands that set a key of the unit's `[Service]`.
    pub fn set_in_unit(&self, setting: &str) -> [String; 2] {
        let unit = self.unit_name();
        let folder = format!("/etc/systemd/system/{unit}.d");
        // A file for each key, so that one mend does not undo another.
        let key = setting.split('=').next().unwrap_or_default();
        [
            format!("mkdir -p {folder} && printf '[Service]\\n{setting}\\n' > {folder}/doctor-{key}.conf"),
            format!("systemctl daemon-reload && systemctl restart {}", unit.trim_end_matches(".service")),
        ]
    }

    /// What makes larder read its configuration again.
    pub fn reload(&self) -> String {
        format!("systemctl reload {}", self.unit_name().trim_end_matches(".service"))
    }
}

/// The command that sets a key of the kernel, also after the next start.
pub fn sysctl(key: &str, value: impl std::fmt::Display) -> String {
    format!("echo '{key} = {value}' > /etc/sysctl.d/90-{}.conf && sysctl --system", key.replace('.', "-"))
}

/// How many may wait in a queue of connections that a burst does not fill.
pub const BACKLOG_ENOUGH: u64 = 128;
const UNIT: &str = "larder.service";
