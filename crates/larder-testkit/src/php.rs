//! A php-fpm of the test's own.

use std::fs;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::server::{Signal, children_of, signal_to};
use crate::{Folder, PATIENCE};

/// A running php-fpm with one pool on a unix socket. Dropping it stops it.
#[derive(Debug)]
pub struct PhpFpm {
    child: Child,
    folder: Folder,
}

/// How the pool is made.
#[derive(Clone, Debug)]
pub struct PhpFpmOptions {
    /// The folder that scripts start in.
    pub docroot: PathBuf,
    /// `pm.max_children`, all started at once.
    pub children: usize,
    /// `pm.max_requests`, 0 for no limit.
    pub requests_max: u64,
    /// `request_terminate_timeout`.
    pub terminate_timeout: Option<Duration>,
    /// More lines for the pool, such as `php_value[memory_limit] = 64M`.
    pub pool_lines: String,
}

impl PhpFpmOptions {
    /// Two children and no limits.
    pub fn new(docroot: impl Into<PathBuf>) -> PhpFpmOptions {
        PhpFpmOptions {
            docroot: docroot.into(),
            children: 2,
            requests_max: 0,
            terminate_timeout: None,
            pool_lines: String::new(),
        }
    }
}

impl PhpFpm {
    /// The newest php-fpm of this machine, in `/usr/sbin` and `PATH`; `None` when it has none.
    pub fn find() -> Option<PathBuf> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders =
            std::env::split_paths(&path).chain([PathBuf::from("/usr/sbin"), PathBuf::from("/usr/local/sbin")]);
        let mut found: Vec<PathBuf> = folders
            .filter_map(|folder| fs::read_dir(folder).ok())
            .flatten()
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.file_name().and_then(|name| name.to_str()).is_some_and(is_php_fpm))
            .collect();
        found.sort_by_key(|path| path.file_name().map(ToOwned::to_owned));
        found.pop()
    }

    /// Starts one and waits until its socket takes connections.
    pub fn start(options: &PhpFpmOptions) -> io::Result<PhpFpm> {
        let binary = PhpFpm::find().ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "no php-fpm here"))?;
        let folder = Folder::new()?;
        folder.write("php-fpm.conf", configuration(folder.path(), options))?;
        let mut command = Command::new(binary);
        command.args(["-n", "-F", "-y"]).arg(folder.join("php-fpm.conf"));
        if rustix::process::geteuid().is_root() {
            command.arg("-R");
        }
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(fs::File::create(folder.join("stderr"))?)
            .spawn()?;
        let mut php = PhpFpm { child, folder };
        php.wait_until_ready()?;
        Ok(php)
    }

    fn wait_until_ready(&mut self) -> io::Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            if UnixStream::connect(self.socket()).is_ok() {
                return Ok(());
            }
            if let Some(status) = self.child.try_wait()? {
                return Err(io::Error::other(format!("php-fpm ended with {status}: {}", self.log())));
            }
            thread::sleep(Duration::from_millis(5));
        }
        Err(io::Error::other(format!("php-fpm is not ready: {}", self.log())))
    }

    /// The path of its socket.
    pub fn socket(&self) -> PathBuf {
        self.folder.join("php.sock")
    }

    /// The process number of its master.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Kills it, children and all, as a machine without memory left does.
    pub fn kill(&self) {
        let children = children_of(self.pid());
        // The master first: it would replace its children.
        for process in [self.pid()].into_iter().chain(children) {
            drop(signal_to(process, Signal::Kill));
        }
    }

    /// Its log so far.
    pub fn log(&self) -> String {
        ["stderr", "log"].iter().filter_map(|name| fs::read_to_string(self.folder.join(name)).ok()).collect()
    }
}

impl Drop for PhpFpm {
    fn drop(&mut self) {
        drop(signal_to(self.pid(), Signal::Term));
        let deadline = Instant::now() + Duration::from_secs(5);
        while Instant::now() < deadline && matches!(self.child.try_wait(), Ok(None)) {
            thread::sleep(Duration::from_millis(5));
        }
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// `php-fpm`, `php-fpm8.2`, `php8.2-fpm`.
fn is_php_fpm(name: &str) -> bool {
    let version =
        name.strip_prefix("php-fpm").or_else(|| name.strip_prefix("php").and_then(|rest| rest.strip_suffix("-fpm")));
    version.is_some_and(|version| version.chars().all(|character| character.is_ascii_digit() || character == '.'))
}

fn configuration(folder: &Path, options: &PhpFpmOptions) -> String {
    // Only root may change the user; php-fpm then asks for one, and root reads every docroot.
    let user = if rustix::process::geteuid().is_root() { "user = root\ngroup = root\n" } else { "" };
    let limit = options.terminate_timeout.map_or(0, |limit| limit.as_secs());
    format!(
        "[global]\nerror_log = {folder}/log\ndaemonize = no\n\
         [test]\n{user}listen = {folder}/php.sock\nlisten.mode = 0666\nlisten.backlog = 511\n\
         pm = static\npm.max_children = {children}\npm.max_requests = {requests}\n\
         request_terminate_timeout = {limit}\nclear_env = no\ncatch_workers_output = no\nchdir = {docroot}\n{lines}\n",
        folder = folder.display(),
        children = options.children,
        requests = options.requests_max,
        docroot = options.docroot.display(),
        lines = options.pool_lines,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_php_fpm_is_php_fpm() {
        for (name, is) in [
            ("php-fpm", true),
            ("php-fpm8.2", true),
            ("php8.4-fpm", true),
            ("php-fpm-exporter", false),
            ("php8.2", false),
        ] {
            assert_eq!(is_php_fpm(name), is, "{name}");
        }
    }

    #[test]
    fn php_fpm_starts_and_stops() {
        if PhpFpm::find().is_none() {
            return;
        }
        let folder = Folder::new().unwrap();
        let php = PhpFpm::start(&PhpFpmOptions::new(folder.path())).unwrap();
        let socket = php.socket();
        assert!(UnixStream::connect(&socket).is_ok());
        drop(php);
        assert!(UnixStream::connect(&socket).is_err());
    }
}
