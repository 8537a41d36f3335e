//! Paths: the built-in ones, and those that the command line sets.

use std::path::{Path, PathBuf};

use crate::cli::Options;
use crate::machine::Machine;

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
        let prefix = options.prefix.clone().unwrap_or_else(|| PREFIX.into());
        let conf_file = match &options.conf_file {
            Some(file) => prefix.join(file),
            None => default_conf_file().to_owned(),
        };
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
