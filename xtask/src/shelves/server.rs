//! A server that is started, stopped and killed with one configuration and one folder.

use crate::load::configuration::add_nginx_arguments;
use crate::load::kind::{Kind, Programs};
use crate::load::process::{Process, end_of_logs, free_port};
use crate::load::{LoadError, cannot};
use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long a server may take until it accepts connections.
const START_LIMIT: Duration = Duration::from_secs(120);

/// How long it may take to end.
const STOP_LIMIT: Duration = Duration::from_secs(300);

/// What a server needs besides its configuration.
pub struct Site<'a> {
    /// Which.
    pub kind: Kind,
    /// Our binary, if it is ours.
    pub larder: Option<&'a Path>,
    /// Where it runs.
    pub cpu: usize,
    /// Where the origin listens.
    pub origin_port: u16,
    /// For its configuration and logs.
    pub folder: &'a Path,
    /// What the block `http` has besides the server, such as caches, in nginx's words.
    pub http: &'a str,
    /// What the location has, in nginx's words.
    pub location: &'a str,
}

/// A server that runs, or will run again. Ended when dropped.
pub struct Server {
    kind: Kind,
    program: PathBuf,
    cpu: usize,
    folder: PathBuf,
    port: u16,
    process: Option<Process>,
}

impl Server {
    /// Writes the configuration. Nothing runs yet.
    pub fn new(site: &Site<'_>) -> Result<Server, LoadError> {
        let program = site.kind.program(&Programs::with_larder(site.larder.map(Path::to_path_buf)))?;
        let port = free_port()?;
        fs::write(site.folder.join("nginx.conf"), configuration(site, port))
            .map_err(cannot("write a configuration"))?;
        Ok(Server { kind: site.kind, program, cpu: site.cpu, folder: site.folder.into(), port, process: None })
    }

    /// Starts it, waits until it accepts connections, and says when it was started.
    pub fn start(&mut self) -> Result<Instant, LoadError> {
        let output = fs::File::options().create(true).append(true).open(self.folder.join("output.log"));
        let output = output.map_err(cannot("make a log"))?;
        let mut command = Process::tied(Path::new("taskset"));
        command.args(["-c", &self.cpu.to_string()]).arg(&self.program);
        add_nginx_arguments(&mut command, &self.folder, &self.folder.join("nginx.conf"));
        command.stdout(output.try_clone().map_err(cannot("share the log"))?).stderr(output);
        let started = Instant::now();
        let mut process = Process::spawn(&mut command).map_err(|_| LoadError::Missing("setpriv".into()))?;
        while TcpStream::connect(self.address()).is_err() {
            if process.has_ended() {
                return Err(self.fault("ended at once".into()));
            }
            if started.elapsed() > START_LIMIT {
                return Err(self.fault(format!("accepts no connection after {START_LIMIT:?}")));
            }
            sleep(Duration::from_millis(1));
        }
        self.process = Some(process);
        Ok(started)
    }

    /// Ends it as an operator does, and says how long that took.
    pub fn stop(&mut self) -> Result<Duration, LoadError> {
        let took = self.process.take().map(|process| process.stop(STOP_LIMIT));
        match took {
            None => Ok(Duration::ZERO),
            Some(Some(took)) => Ok(took),
            Some(None) => Err(self.fault(format!("has not ended {STOP_LIMIT:?} after SIGTERM"))),
        }
    }

    /// Ends it as a crash does.
    pub fn kill(&mut self) {
        if let Some(process) = self.process.take() {
            process.kill();
        }
    }

    /// As in tables.
    pub fn name(&self) -> &'static str {
        self.kind.name()
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.port))
    }

    /// CPU time of its processes since they were started.
    pub fn cpu(&self) -> Duration {
        self.process.as_ref().map_or(Duration::ZERO, Process::cpu)
    }

    /// Memory of its processes.
    pub fn pss_bytes(&self) -> u64 {
        self.process.as_ref().map_or(0, Process::pss_bytes)
    }

    /// The error of an answer that is not what every server has to give.
    pub fn wrong(&self, fact: String) -> LoadError {
        LoadError::Answer { server: self.kind.name(), fact }
    }

    /// The error of a server that did something unexpected, with the end of its logs.
    pub fn fault(&self, fact: String) -> LoadError {
        LoadError::Server { server: self.kind.name(), fact, log: end_of_logs(&self.folder) }
    }

    /// All that it has written to its error log.
    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.join("error.log")).unwrap_or_default()
    }
}

/// What helps nginx where it waits for disks: a worker that waits is not the only one, and threads write and read for it.
const TUNED: &str = "aio threads;
    aio_write on;";

/// As many as a machine of a few cores has with `worker_processes auto`.
const TUNED_WORKERS: u32 = 4;

/// As people write it, with connections to the origin kept. `$upstream_cache_status` is in `X-Cache`.
fn configuration(site: &Site<'_>, port: u16) -> String {
    let Site { kind, origin_port, folder, http, location, .. } = site;
    let (workers, tuned) = if *kind == Kind::NginxTuned { (TUNED_WORKERS, TUNED) } else { (1, "") };
    let folder = folder.display();
    format!(
        "user root;
worker_processes {workers};
worker_rlimit_nofile 8192;
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
    default_type text/html;
    access_log off;
    sendfile on;
    tcp_nopush on;
    keepalive_timeout 65;
    keepalive_requests 10000000;
    {tuned}
    {http}
    upstream origin {{
        server 127.0.0.1:{origin_port};
        keepalive 64;
        keepalive_requests 10000000;
    }}
    server {{
        listen 127.0.0.1:{port};
        location / {{
            proxy_pass http://origin;
            proxy_http_version 1.1;
            proxy_set_header Connection \"\";
            proxy_cache_valid 200 1d;
            add_header X-Cache $upstream_cache_status always;
            {location}
        }}
    }}
}}
"
    )
}
