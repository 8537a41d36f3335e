//! The servers that take part: their configurations, their start and their end.

use super::certificate::Certificate;
use super::generator::tls::{Client, Group};
use super::generator::{Expect, Generator, Plan, Start};
use super::origin::Page;
use super::process::Process;
use super::scenario::Front;
use super::undo::{Undo, quoted};
use super::{LoadError, cannot, fetch};
use flate2::read::MultiGzDecoder;
use std::fs;
use std::io::Read;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;
use std::thread::sleep;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How long a server may take until it accepts connections.
const START_LIMIT: Duration = Duration::from_secs(20);

/// Which server, and with which settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Debian's nginx as people run it: an access log, no `open_file_cache`.
    Nginx,
    /// Debian's nginx at its best: `open_file_cache`, no log.
    NginxTuned,
    /// Debian's Varnish with its memory storage.
    Varnish,
    /// larder with the very file of `Nginx`.
    Larder,
    /// larder with the very file of `NginxTuned`.
    LarderTuned,
}

impl Kind {
    const ALL: [Kind; 5] = [Kind::Nginx, Kind::NginxTuned, Kind::Varnish, Kind::Larder, Kind::LarderTuned];

    /// As on the command line and in tables.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Nginx => "nginx",
            Kind::NginxTuned => "nginx-tuned",
            Kind::Varnish => "varnish",
            Kind::Larder => "larder",
            Kind::LarderTuned => "larder-tuned",
        }
    }

    /// Whether it can be reached so: Varnish has no TLS.
    pub fn speaks(self, front: Front) -> bool {
        self != Kind::Varnish || !front.is_tls()
    }

    /// The file that is started; `larder` is where ours is.
    pub fn program(self, larder: Option<&Path>) -> Result<PathBuf, LoadError> {
        match self {
            Kind::Nginx | Kind::NginxTuned => Ok("/usr/sbin/nginx".into()),
            Kind::Varnish => Ok("/usr/sbin/varnishd".into()),
            Kind::Larder | Kind::LarderTuned => {
                let path = larder.ok_or_else(|| LoadError::Missing("larder".into()))?;
                path.canonicalize().map_err(|_| LoadError::Usage(format!("there is no larder at {}", path.display())))
            }
        }
    }

    /// Whether the binary under measurement is ours.
    pub fn is_larder(self) -> bool {
        matches!(self, Kind::Larder | Kind::LarderTuned)
    }
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(name: &str) -> Result<Kind, String> {
        let names = Kind::ALL.map(Kind::name);
        let found = Kind::ALL.into_iter().find(|kind| kind.name() == name);
        found.ok_or_else(|| format!("`{name}` is none of {}", names.join(", ")))
    }
}

/// What all servers of a measurement have in common.
pub struct Setup<'a> {
    /// Our binary, if it takes part.
    pub larder: Option<PathBuf>,
    /// Where the servers run.
    pub server_cpu: usize,
    /// Connections they have to bear at a time.
    pub connections: usize,
    /// Where the origin listens.
    pub origin_port: u16,
    /// How visitors reach them.
    pub front: Front,
    /// Whether they compress.
    pub compresses: bool,
    /// Further settings of the location, in nginx's words.
    pub location: &'a str,
    /// What they prove to be, where there is TLS.
    pub certificate: &'a Certificate,
    /// What is offered in the handshakes.
    pub group: Group,
    /// Whether the generator's clients resume.
    pub resumes: bool,
}

/// A server that runs, ended when dropped.
pub struct Contender {
    /// Which.
    pub kind: Kind,
    /// Its processes.
    pub process: Process,
    /// What it says of its version, one line.
    pub version: String,
    /// How visitors reach it.
    pub front: Front,
    /// The generator's client, if there is TLS.
    pub quick: Option<Client>,
    careful: Option<Client>,
    compresses: bool,
    port: u16,
    folder: TempDir,
    /// Removes the folder when this process is ended without a chance to do it.
    _undo: Undo,
}

impl Contender {
    /// Starts the server on the servers' CPU and waits until it accepts connections.
    pub fn start(kind: Kind, setup: &Setup<'_>) -> Result<Contender, LoadError> {
        let folder = tempfile::Builder::new().prefix("load-").tempdir().map_err(cannot("make a folder"))?;
        let mut undo = Undo::begin()?;
        undo.push(&format!("rm -rf {}", quoted(folder.path())))?;
        // Servers started as root drop to a user of their own, which has to pass through.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).map_err(cannot("open the folder"))?;
        let port = free_port()?;
        let site = Site { folder: folder.path(), port, setup };

        let program = kind.program(setup.larder.as_deref())?;
        let log = fs::File::create(folder.path().join("output.log")).map_err(cannot("make a log"))?;
        let mut command = Process::tied(Path::new("taskset"));
        command.args(["-c", &setup.server_cpu.to_string()]).arg(&program);
        site.configure(kind, &mut command)?;
        command.stdout(log.try_clone().map_err(cannot("share the log"))?).stderr(log);
        let process = Process::spawn(&mut command).map_err(|_| LoadError::Missing("setpriv".into()))?;

        let (front, compresses) = (setup.front, setup.compresses);
        let client = |made: Result<Client, rustls::Error>| {
            made.map_err(|error| LoadError::Tool { tool: "rustls", said: error.to_string() })
        };
        let (mut quick, mut careful) = (None, None);
        if front.is_tls() {
            quick = Some(client(Client::quick(setup.certificate, setup.group, front.alpn(), setup.resumes))?);
            careful = Some(client(Client::careful(setup.certificate, setup.group, front.alpn()))?);
        }
        let version = version_of(kind, &program);
        let mut contender =
            Contender { kind, process, version, front, quick, careful, compresses, port, folder, _undo: undo };
        contender.wait_until_it_accepts()?;
        Ok(contender)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.port))
    }

    /// The address of a page, for wrk.
    pub fn url(&self, page: Page) -> String {
        format!("http://{}{}", self.address(), page.path())
    }

    /// Visitors with kept connections who ask again and again, as many as `visitors`.
    pub fn plan<'a>(&self, path: &'a str, expect: Expect, visitors: usize) -> Plan<'a> {
        Plan {
            address: self.address(),
            tls: self.quick.clone(),
            protocol: self.front.protocol(1),
            path,
            accepts_gzip: self.compresses,
            expect,
            visitors,
            requests_each: u64::MAX,
            requests_per_connection: u64::MAX,
            pause: None,
            start: Start::AtOnce,
            keeps_bodies: false,
        }
    }

    /// Fetches a page as visitors will, at the warm-up or to see that the server still answers, and compares its body
    /// with the origin's. Certificate and signature are checked.
    pub fn get(&self, page: Page) -> Result<(), LoadError> {
        let body = if self.front == Front::Clear && !self.compresses {
            let answer = fetch::get(self.address(), &page.path())
                .map_err(|error| self.fault(format!("does not answer: {error}")))?;
            if answer.status != 200 {
                return Err(self.wrong(format!("status {} for {}", answer.status, page.path())));
            }
            answer.body
        } else {
            self.get_by_generator(page)?
        };
        if body != page.body() {
            return Err(self.wrong(format!("{} bytes that are not those of {}", body.len(), page.path())));
        }
        Ok(())
    }

    fn get_by_generator(&self, page: Page) -> Result<Vec<u8>, LoadError> {
        let expect = if self.compresses { Expect::Gzip(page.bytes()) } else { Expect::Bytes(page.bytes()) };
        let path = page.path();
        let plan = Plan { tls: self.careful.clone(), keeps_bodies: true, ..self.plan(&path, expect, 1) };
        let mut one = Generator::new(plan).map_err(cannot("wait for a connection"))?;
        one.warm_up().map_err(|reason| self.fault(format!("does not answer: {reason}")))?;
        if !self.compresses {
            return Ok(one.last_body().to_vec());
        }
        let mut body = Vec::new();
        let most = page.bytes() as u64 + 1;
        let unpacked = MultiGzDecoder::new(one.last_body()).take(most).read_to_end(&mut body);
        unpacked.map_err(|error| self.wrong(format!("gzip that cannot be read: {error}")))?;
        Ok(body)
    }

    /// The error of an answer that is not what every server has to give.
    pub fn wrong(&self, fact: String) -> LoadError {
        LoadError::Answer { server: self.kind.name(), fact }
    }

    /// The error of a server that did something unexpected, with the end of its logs.
    pub fn fault(&self, fact: String) -> LoadError {
        LoadError::Server { server: self.kind.name(), fact, log: end_of_logs(self.folder.path()) }
    }

    fn wait_until_it_accepts(&mut self) -> Result<(), LoadError> {
        let started = Instant::now();
        while TcpStream::connect(self.address()).is_err() {
            if self.process.has_ended() {
                return Err(self.fault("ended at once".into()));
            }
            if started.elapsed() > START_LIMIT {
                return Err(self.fault(format!("accepts no connection after {START_LIMIT:?}")));
            }
            sleep(Duration::from_millis(20));
        }
        Ok(())
    }
}

/// What a configuration has to name.
struct Site<'a> {
    folder: &'a Path,
    port: u16,
    setup: &'a Setup<'a>,
}

impl Site<'_> {
    /// Writes the configuration of `kind` and adds to `command` what makes the server use it in the foreground.
    fn configure(&self, kind: Kind, command: &mut Command) -> Result<(), LoadError> {
        let (name, text) = match kind {
            Kind::Nginx | Kind::Larder => ("nginx.conf", self.nginx_conf(&self.stock())?),
            Kind::NginxTuned | Kind::LarderTuned => ("nginx.conf", self.nginx_conf(TUNED)?),
            Kind::Varnish => ("default.vcl", self.vcl()),
        };
        let file = self.folder.join(name);
        fs::write(&file, text).map_err(cannot("write a configuration"))?;
        match kind {
            Kind::Nginx | Kind::NginxTuned | Kind::Larder | Kind::LarderTuned => {
                add_nginx_arguments(command, self.folder, &file);
            }
            Kind::Varnish => {
                command.arg("-n").arg(self.folder.join("work")).arg("-F").arg("-f").arg(&file);
                command.args(["-s", "malloc,256m", "-a", &format!("127.0.0.1:{}", self.port)]);
                if self.setup.front.is_h2() {
                    command.args(["-p", "feature=+http2"]);
                }
            }
        }
        Ok(())
    }

    fn nginx_conf(&self, settings: &str) -> Result<String, LoadError> {
        let Site { folder, port, setup } = self;
        let Setup { connections, origin_port, location, .. } = setup;
        let parameters = setup.front.listen_parameters();
        let gzip = if setup.compresses { "gzip on;\n    gzip_vary on;" } else { "" };
        let tls = if setup.front.is_tls() { self.tls()? } else { String::new() };
        let folder = folder.display();
        // nginx closes idle connections once fewer than a sixteenth are left to it.
        let worker_connections = connections + connections / 8 + 200;
        Ok(format!(
            "worker_processes 1;
worker_rlimit_nofile {files};
pid {folder}/server.pid;
error_log {folder}/error.log;
events {{
    worker_connections {worker_connections};
}}
http {{
    client_body_temp_path {folder}/client_body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    default_type text/html;
    sendfile on;
    tcp_nopush on;
    keepalive_timeout 65;
    {settings}
    {gzip}
    proxy_cache_path {folder}/cache levels=1:2 keys_zone=pages:10m max_size=1g inactive=60m use_temp_path=off;
    server {{
        listen 127.0.0.1:{port}{parameters};
        server_name localhost;
        {tls}
        location / {{
            proxy_pass http://127.0.0.1:{origin_port};
            proxy_cache pages;
            proxy_cache_valid 200 60m;
            {location}
        }}
    }}
}}
",
            files = worker_connections * 2 + 200,
        ))
    }

    /// As nginx's manual has it: the session cache in shared memory, and tickets, which are on unless told otherwise.
    fn tls(&self) -> Result<String, LoadError> {
        let (chain, key) = self.setup.certificate.write(self.folder)?;
        Ok(format!(
            "ssl_certificate {};
        ssl_certificate_key {};
        ssl_protocols TLSv1.2 TLSv1.3;
        ssl_session_cache shared:SSL:10m;
        ssl_session_timeout 10m;",
            chain.display(),
            key.display()
        ))
    }

    fn stock(&self) -> String {
        format!("access_log {}/access.log;", self.folder.display())
    }

    fn vcl(&self) -> String {
        let gzip = if self.setup.compresses { "sub vcl_backend_response { set beresp.do_gzip = true; }\n" } else { "" };
        let port = self.setup.origin_port;
        format!("vcl 4.1;\nbackend default {{ .host = \"127.0.0.1\"; .port = \"{port}\"; }}\n{gzip}")
    }
}

const TUNED: &str = "access_log off;
    keepalive_requests 1000000;
    open_file_cache max=10000 inactive=60m;
    open_file_cache_valid 60m;";

pub fn version_of(kind: Kind, program: &Path) -> String {
    let flag = if kind == Kind::Varnish { "-V" } else { "-v" };
    let Ok(output) = Command::new(program).arg(flag).output() else {
        return String::new();
    };
    let text = [output.stdout, output.stderr].concat();
    String::from_utf8_lossy(&text).lines().next().unwrap_or_default().to_string()
}

/// What makes nginx, and larder in its place, run `file` in the foreground with its logs in `folder`.
pub fn add_nginx_arguments(command: &mut Command, folder: &Path, file: &Path) {
    command.arg("-p").arg(folder).arg("-c").arg(file);
    command.arg("-e").arg(folder.join("error.log")).args(["-g", "daemon off;"]);
}

/// The last lines of what a server that runs in `folder` has said.
pub fn end_of_logs(folder: &Path) -> String {
    let mut log = String::new();
    for name in ["output.log", "error.log"] {
        log.push_str(&fs::read_to_string(folder.join(name)).unwrap_or_default());
    }
    let lines: Vec<&str> = log.lines().collect();
    let last = lines.get(lines.len().saturating_sub(15)..).unwrap_or_default();
    last.join("\n")
}

/// A port that nobody has now. Another process may take it before the server does; then the start fails and says so.
pub fn free_port() -> Result<u16, LoadError> {
    let listener = TcpListener::bind("127.0.0.1:0").map_err(cannot("find a free port"))?;
    Ok(listener.local_addr().map_err(cannot("find a free port"))?.port())
}
