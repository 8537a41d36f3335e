//! A larder of the cluster.

use crate::load::configuration::add_nginx_arguments;
use crate::load::process::{Process, end_of_logs, free_port};
use crate::load::{LoadError, cannot};
use rustix::process::Signal;
use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long it may take until it takes connections: it first waits for what it has missed.
const START_LIMIT: Duration = Duration::from_secs(60);
/// How long it may take to end.
const STOP_LIMIT: Duration = Duration::from_secs(60);

/// What all nodes have in common.
pub struct Common<'a> {
    /// The program.
    pub larder: &'a Path,
    /// What `larder_cluster_away` says.
    pub away: &'a str,
    /// Whether nodes share pages.
    pub share: bool,
    /// Where the origin listens.
    pub origin_port: u16,
    /// Where the folders of the nodes are.
    pub folder: &'a Path,
}

/// A node, which runs or will run again. Ended when dropped.
pub struct Node {
    program: PathBuf,
    folder: PathBuf,
    port: u16,
    admin_port: u16,
    process: Mutex<Option<Process>>,
    /// Whether it is dead, as it was killed.
    is_dead: AtomicBool,
    /// How often it was killed.
    deaths: AtomicU64,
}

impl Node {
    /// Starts one. `number` counts from 0; `server_port` is where it finds the Redis.
    pub fn start(common: &Common<'_>, number: usize, server_port: u16) -> Result<Node, LoadError> {
        let folder = common.folder.join(format!("web{}", number + 1));
        fs::create_dir(&folder).map_err(cannot("make a folder"))?;
        let (port, admin_port) = (free_port()?, free_port()?);
        let text = configuration(common, &folder, number, [port, admin_port, server_port]);
        fs::write(folder.join("nginx.conf"), text).map_err(cannot("write a configuration"))?;
        let node = Node {
            program: common.larder.into(),
            folder,
            port,
            admin_port,
            process: Mutex::new(None),
            is_dead: AtomicBool::new(true),
            deaths: AtomicU64::new(0),
        };
        node.run()?;
        Ok(node)
    }

    /// Starts it, waits until it takes connections, and says how long that took.
    pub fn run(&self) -> Result<Duration, LoadError> {
        let output = fs::File::options().create(true).append(true).open(self.folder.join("output.log"));
        let output = output.map_err(cannot("make a log"))?;
        let mut command = Process::tied(&self.program);
        add_nginx_arguments(&mut command, &self.folder, &self.folder.join("nginx.conf"));
        command.stdout(output.try_clone().map_err(cannot("share the log"))?).stderr(output);
        let started = Instant::now();
        let mut process = Process::spawn(&mut command).map_err(|_| LoadError::Missing("setpriv".into()))?;
        while TcpStream::connect(self.address()).is_err() {
            if process.has_ended() || started.elapsed() > START_LIMIT {
                return Err(self.fault(format!("takes no connection after {:.0?}", started.elapsed())));
            }
            sleep(Duration::from_millis(1));
        }
        let took = started.elapsed();
        *self.process() = Some(process);
        self.is_dead.store(false, Ordering::SeqCst);
        Ok(took)
    }

    /// Ends it as a crash does.
    pub fn kill(&self) {
        self.deaths.fetch_add(1, Ordering::SeqCst);
        self.is_dead.store(true, Ordering::SeqCst);
        if let Some(process) = self.process().take() {
            process.kill();
        }
    }

    /// Ends it as an operator does.
    pub fn stop(&self) -> Result<(), LoadError> {
        self.deaths.fetch_add(1, Ordering::SeqCst);
        self.is_dead.store(true, Ordering::SeqCst);
        let process = self.process().take();
        match process.map(|process| process.stop(STOP_LIMIT)) {
            Some(None) => Err(self.fault(format!("has not ended {STOP_LIMIT:?} after SIGTERM"))),
            Some(Some(_)) | None => Ok(()),
        }
    }

    /// Stops all its processes where they are, or has them go on.
    pub fn pause(&self, is_paused: bool) {
        if let Some(process) = &*self.process() {
            process.signal(if is_paused { Signal::STOP } else { Signal::CONT });
        }
    }

    /// Whether it is dead now, and how often it was killed.
    pub fn deaths(&self) -> (bool, u64) {
        (self.is_dead.load(Ordering::SeqCst), self.deaths.load(Ordering::SeqCst))
    }

    /// Where its site is.
    pub fn address(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.port))
    }

    /// Where its API is.
    pub fn admin_address(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.admin_port))
    }

    /// Runs `larder purge` with these words, and returns what it says. `None` if it fails.
    pub fn command(&self, words: &[&str]) -> Option<String> {
        let prefix = format!("{}/", self.folder.display());
        let mut command = Command::new(&self.program);
        let output = command.arg("purge").args(words).args(["-p", &prefix, "-c", "nginx.conf"]).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// The error of a node that did something unexpected, with the end of its logs.
    pub fn fault(&self, fact: String) -> LoadError {
        LoadError::Server { server: "larder", fact, log: end_of_logs(&self.folder) }
    }

    fn process(&self) -> MutexGuard<'_, Option<Process>> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // One that is stopped would not end.
        self.pause(false);
    }
}

fn configuration(common: &Common<'_>, folder: &Path, number: usize, [port, admin, server]: [u16; 3]) -> String {
    let (folder, Common { away, origin_port, .. }) = (folder.display(), common);
    let share = if common.share { "on" } else { "off" };
    let name = number + 1;
    format!(
        "user root;
worker_processes 1;
pid {folder}/server.pid;
error_log {folder}/error.log notice;
events {{
    worker_connections 2048;
}}
http {{
    client_body_temp_path {folder}/client_body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    access_log off;
    keepalive_timeout 3600;
    keepalive_requests 10000000;
    larder_cluster redis://127.0.0.1:{server} name=load node=web{name} timeout=300ms;
    larder_cluster_away {away};
    larder_cluster_share {share};
    larder_purge_from 127.0.0.1;
    proxy_cache_path {folder}/pages keys_zone=pages:64m inactive=1h;
    upstream origin {{
        server 127.0.0.1:{origin_port};
        keepalive 32;
        keepalive_requests 10000000;
    }}
    server {{
        listen 127.0.0.1:{port};
        server_name site.test;
        add_header X-Cache $upstream_cache_status;
        proxy_cache pages;
        proxy_cache_key $host$request_uri;
        proxy_cache_valid 200 1h;
        proxy_cache_use_stale updating error timeout;
        proxy_cache_background_update on;
        proxy_cache_lock on;
        proxy_http_version 1.1;
        proxy_set_header Connection \"\";
        location / {{
            proxy_pass http://origin;
        }}
        location /api {{
            larder_status;
        }}
    }}
    server {{
        listen 127.0.0.1:{admin} larder_admin;
        larder_purge_from 127.0.0.1;
    }}
}}
"
    )
}
