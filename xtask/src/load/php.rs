//! A php-fpm for one server: so kept connections of one hold no child of another.

use super::process::{Process, end_of_logs, free_port};
use super::{LoadError, cannot};
use std::fs;
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Children, all started at once. More connections than these would wait for each other.
pub const CHILDREN: usize = 8;

/// How long it may take until it accepts connections.
const START_LIMIT: Duration = Duration::from_secs(20);

/// Where php-fpm is installed; the folders of `PATH` come first.
const FOLDERS: [&str; 2] = ["/usr/sbin", "/usr/local/sbin"];

/// The script, and what it answers.
const SCRIPT: &str = "<?php header('Content-Type: text/plain'); echo 'Hello, world';\n";
/// What `SCRIPT` answers.
pub const HELLO: &str = "Hello, world";
/// How long that is.
pub const HELLO_BYTES: usize = HELLO.len();
/// The script that takes a while.
const SLOW_SCRIPT: &str = "<?php usleep(50000); header('Content-Length: 5'); echo \"page\\n\";\n";
/// Children where visitors are to be too many.
pub const FEW_CHILDREN: usize = 4;

/// A running php-fpm, ended with its children when dropped.
pub struct Php {
    port: u16,
    process: Process,
}

impl Php {
    /// Writes the scripts into `site`, starts a php-fpm with its files in `folder`, and waits until it accepts.
    pub fn start(folder: &Path, site: &Path) -> Result<Php, LoadError> {
        let port = free_port()?;
        let is_there = move || TcpStream::connect(("127.0.0.1", port)).is_ok();
        Php::start_at(folder, site, &format!("127.0.0.1:{port}"), CHILDREN, is_there).map(|php| Php { port, ..php })
    }

    /// The same with other children, at a unix socket in `folder`.
    pub fn start_at_socket(folder: &Path, site: &Path, children: usize) -> Result<Php, LoadError> {
        let socket = socket(folder);
        let path = socket.clone();
        let is_there = move || UnixStream::connect(&path).is_ok();
        Php::start_at(folder, site, &socket.display().to_string(), children, is_there)
    }

    fn start_at(
        folder: &Path,
        site: &Path,
        listen: &str,
        children: usize,
        is_there: impl Fn() -> bool,
    ) -> Result<Php, LoadError> {
        let program = find().ok_or_else(|| LoadError::Missing("php-fpm".into()))?;
        for (name, script) in [("hello.php", SCRIPT), ("slow.php", SLOW_SCRIPT)] {
            fs::write(site.join(name), script).map_err(cannot("write a script"))?;
        }
        let as_root = rustix::process::geteuid().is_root();
        let file = folder.join("php-fpm.conf");
        let text = configuration(folder, listen, children, as_root);
        fs::write(&file, text).map_err(cannot("write a configuration"))?;
        let log = fs::File::create(folder.join("php-fpm.log")).map_err(cannot("make a log"))?;
        let mut command = Process::tied(&program);
        command.args(["--nodaemonize", "--force-stderr", "--fpm-config"]).arg(&file);
        if as_root {
            command.arg("--allow-to-run-as-root");
        }
        command.stdout(log.try_clone().map_err(cannot("share the log"))?).stderr(log);
        let process = Process::spawn(&mut command).map_err(|_| LoadError::Missing("setpriv".into()))?;
        let mut php = Php { port: 0, process };
        let started = Instant::now();
        while !is_there() {
            if php.process.has_ended() || started.elapsed() > START_LIMIT {
                let fact = format!("accepts no connection after {:?}", started.elapsed());
                return Err(LoadError::Server { server: "php-fpm", fact, log: end_of_logs(folder) });
            }
            sleep(Duration::from_millis(20));
        }
        Ok(php)
    }

    /// Where it listens, if not at a socket.
    pub fn port(&self) -> u16 {
        self.port
    }
}

/// The newest php-fpm of this machine.
fn find() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(FOLDERS.map(PathBuf::from));
    let files = folders.filter_map(|folder| fs::read_dir(folder).ok()).flatten().flatten().map(|entry| entry.path());
    files.filter_map(|path| Some((version(path.file_name()?.to_str()?)?, path))).max().map(|(_, path)| path)
}

/// The version in a name such as `php-fpm8.2`; plain `php-fpm` is the system's choice and goes first.
fn version(name: &str) -> Option<(u32, u32)> {
    let digits = name.strip_prefix("php-fpm")?;
    if digits.is_empty() {
        return Some((u32::MAX, 0));
    }
    let (major, minor) = digits.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// Where a php-fpm with a socket has it.
pub fn socket(folder: &Path) -> PathBuf {
    folder.join("php.sock")
}

fn configuration(folder: &Path, listen: &str, children: usize, as_root: bool) -> String {
    // Only root may change the user; php-fpm then asks for one.
    let user = if as_root { "user = root\ngroup = root\n" } else { "" };
    format!(
        "[global]
error_log = {folder}/php-fpm.log
daemonize = no
[load]
{user}listen = {listen}
listen.mode = 0666
listen.backlog = 511
pm = static
pm.max_children = {children}
",
        folder = folder.display(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_php_is_told_by_its_name() {
        for (name, expected) in [
            ("php-fpm", Some((u32::MAX, 0))),
            ("php-fpm8.2", Some((8, 2))),
            ("php-fpm8.2.1", None),
            ("php-fpm.conf", None),
            ("php8.2", None),
            ("php-fpm-healthcheck", None),
        ] {
            assert_eq!(version(name), expected, "{name}");
        }
    }

    #[test]
    fn the_pool_has_its_children_from_the_start() {
        let text = configuration(Path::new("/f"), "127.0.0.1:7", 8, true);
        assert!(text.contains("user = root\n") && text.contains("listen = 127.0.0.1:7\n"), "{text}");
        assert!(text.contains("pm = static\npm.max_children = 8\n"), "{text}");
        assert!(!configuration(Path::new("/f"), "127.0.0.1:7", 8, false).contains("user"));
    }
}
