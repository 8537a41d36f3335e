//! Paths: the built-in ones, and those that the command line sets.

use std::path::{Path, PathBuf};

use crate::cli::Options;
use crate::machine::Machine;
use crate::processes;

/// The folder that relative names in a configuration begin from.
pub const PREFIX: &str = "/usr/share/larder";
/// The folder of the built-in logs.
pub const LOG_FOLDER: &str = "/var/log/larder";
/// The error log, if the configuration names none.
pub const ERROR_LOG: &str = "/var/log/larder/error.log";
/// The pid file, if the configuration names none.
pub const PID_FILE: &str = "/run/larder.pid";

const NGINX_CONF_FILE: &str = "/etc/nginx/nginx.conf";
const CONF_FILE: &str = "/etc/larder/larder.conf";

/// The configuration without `-c`: nginx's if it exists.
pub fn default_conf_file() -> &'static Path {
    let nginx = Path::new(NGINX_CONF_FILE);
    if nginx.exists() { nginx } else { Path::new(CONF_FILE) }
}

/// The same on a machine.
pub fn default_conf_file_of(machine: &Machine) -> PathBuf {
    let nginx = Path::new(NGINX_CONF_FILE);
    if machine.has(nginx) { nginx.to_owned() } else { CONF_FILE.into() }
}

/// The configuration of the larder that runs on a machine, if root has started it, with a whole name and the built-in pid file.
pub fn running_conf_file(machine: &Machine) -> Option<PathBuf> {
    let pid = machine.number(PID_FILE).ok()??;
    // An old pid file may have the number of anybody's process by now.
    if !processes::is_larder_of_root(machine, pid) {
        return None;
    }
    let words = machine.text(format!("/proc/{pid}/cmdline")).ok()?;
    let mut words = words.split('\0').skip_while(|word| *word != "-c").skip(1);
    words.next().filter(|file| file.starts_with('/')).map(PathBuf::from)
}

/// The paths of this run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paths {
    /// What relative names are joined to.
    pub prefix: PathBuf,
    /// The main configuration file.
    pub conf_file: PathBuf,
    /// The folder of `conf_file`, which includes are relative to.
    pub conf_prefix: PathBuf,
    /// Where errors go until the configuration says otherwise.
    pub error_log: DefaultLog,
}

/// Where errors go until the configuration says otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DefaultLog {
    /// A file.
    File(PathBuf),
    /// `-e stderr`.
    Stderr,
}

impl Paths {
    /// The paths that `options` set. As in nginx, they are relative to the prefix, and the prefix to the current
    /// folder.
    pub fn new(options: &Options) -> Paths {
        Self::with_default(options, || default_conf_file().to_owned())
    }

    /// The same for who means a larder that runs: without `-c`, `-p` and `-g` it is the one with the built-in pid file.
    pub fn of_running(options: &Options) -> Paths {
        let is_asked_for = options.prefix.is_some() || options.globals.is_some();
        let running = || Machine::at(Path::new("/")).ok().and_then(|machine| running_conf_file(&machine));
        Self::with_default(options, || {
            (!is_asked_for).then(running).flatten().unwrap_or_else(|| default_conf_file().to_owned())
        })
    }

    fn with_default(options: &Options, default: impl FnOnce() -> PathBuf) -> Paths {
        let prefix = options.prefix.clone().unwrap_or_else(|| PREFIX.into());
        let conf_file = options.conf_file.as_ref().map_or_else(default, |file| prefix.join(file));
        let error_log = match &options.error_log {
            Some(word) if word.as_os_str() == "stderr" => DefaultLog::Stderr,
            Some(file) => DefaultLog::File(prefix.join(file)),
            None => DefaultLog::File(ERROR_LOG.into()),
        };
        Paths { conf_prefix: conf_file.parent().map(Path::to_owned).unwrap_or_default(), prefix, conf_file, error_log }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_is_relative_to_the_prefix() {
        let paths = Paths::new(&Options {
            prefix: Some("t/".into()),
            conf_file: Some("conf/a.conf".into()),
            error_log: Some("error.log".into()),
            ..Options::default()
        });
        assert_eq!(paths.conf_file, Path::new("t/conf/a.conf"));
        assert_eq!(paths.conf_prefix, Path::new("t/conf"));
        assert_eq!(paths.error_log, DefaultLog::File("t/error.log".into()));
    }

    #[test]
    fn the_larder_that_runs_is_found_by_its_pid_file() {
        let root = tempfile::tempdir().unwrap();
        let machine = Machine::at(root.path()).unwrap();
        assert_eq!(running_conf_file(&machine), None, "none runs");
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("run/larder.pid", "7\n");
        assert_eq!(running_conf_file(&machine), None, "it has ended");
        write("proc/7/cmdline", "larder\0-c\0/a.conf\0");
        for (name, account) in [("sh", "0\t0\t0\t0"), ("larder", "1000\t1000\t1000\t1000"), ("larder", "1000\t0\t0\t0")]
        {
            write("proc/7/comm", &format!("{name}\n"));
            write("proc/7/status", &format!("Uid:\t{account}\n"));
            assert_eq!(running_conf_file(&machine), None, "{name} of {account}");
        }
        write("proc/7/status", "Uid:\t0\t0\t0\t0\n");
        for (words, expected) in [
            ("larder\0-c\0/etc/larder/larder.conf\0", Some("/etc/larder/larder.conf")),
            ("larder\0-g\0daemon off;\0-c\0/a.conf\0", Some("/a.conf")),
            ("larder\0-c\0a.conf\0", None),
            ("larder\0-c\0", None),
            ("larder\0", None),
        ] {
            write("proc/7/cmdline", words);
            assert_eq!(running_conf_file(&machine).as_deref(), expected.map(Path::new), "{words:?}");
        }
    }

    #[test]
    fn an_absolute_name_stays_and_stderr_is_a_word() {
        let paths = Paths::new(&Options {
            conf_file: Some("/a/b.conf".into()),
            error_log: Some("stderr".into()),
            ..Options::default()
        });
        assert_eq!(paths.prefix, Path::new(PREFIX));
        assert_eq!(paths.conf_prefix, Path::new("/a"));
        assert_eq!(paths.error_log, DefaultLog::Stderr);
    }
}
