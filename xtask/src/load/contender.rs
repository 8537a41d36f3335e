//! The servers that take part: their start, what they answer, and their end.

use super::bans;
use super::configuration::{self, Setup, Site, Source};
use super::generator::tls::Client;
use super::generator::{Expect, Generator, Plan, Start};
use super::kind::{Kind, version_of};
use super::origin::{PROBED, Page};
use super::php::{FEW_CHILDREN, Php};
use super::process::{Process, end_of_logs, free_port};
use super::scenario::Front;
use super::undo::{Undo, quoted};
use super::{LoadError, cannot, fetch};
use flate2::read::MultiGzDecoder;
use larder_testkit::Redis;
use std::fs;
use std::io::Read;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How long a server may take until it accepts connections.
const START_LIMIT: Duration = Duration::from_secs(20);

/// A server that runs, ended when dropped.
pub struct Contender {
    /// Which.
    pub kind: Kind,
    /// Its processes.
    pub process: Process,
    _php: Option<Php>,
    _redis: Option<Redis>,
    /// What it says of its version, and where it is, one line.
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
        // A server that is just ending may make a file the first time.
        undo.push(&format!("rm -rf {0} || {{ sleep 1; rm -rf {0}; }}", quoted(folder.path())))?;
        // Servers started as root drop to a user of their own, which has to pass through.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).map_err(cannot("open the folder"))?;
        let port = free_port()?;
        let php = match setup.source {
            Source::Cache | Source::Origin => None,
            Source::Gate => {
                Some(Php::start_at_socket(folder.path(), &configuration::root(folder.path())?, FEW_CHILDREN)?)
            }
            Source::Php { .. } => Some(Php::start(folder.path(), &configuration::root(folder.path())?)?),
            Source::Files(sizes) => {
                configuration::write_pages(&configuration::root(folder.path())?, sizes)?;
                None
            }
        };
        let redis = (kind == Kind::LarderCluster).then(|| Redis::start(&[]));
        let site = Site {
            folder: folder.path(),
            port,
            php_port: php.as_ref().map_or(0, Php::port),
            redis_port: redis.as_ref().map_or(0, Redis::port),
            setup,
        };

        let program = kind.program(&setup.programs)?;
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
        let version = format!("{}, {}", version_of(kind, &program), program.display());
        let mut contender = Contender {
            kind,
            process,
            _php: php,
            _redis: redis,
            version,
            front,
            quick,
            careful,
            compresses,
            port,
            folder,
            _undo: undo,
        };
        contender.wait_until(|at| TcpStream::connect(at).is_ok(), "accepts no connection")?;
        if setup.vcl.is_some() {
            // A backend is sick until it was probed, and then the answer has a length.
            let is_sick = |at| fetch::get(at, PROBED).is_ok_and(|answer| answer.status == 503);
            contender.wait_until(|at| !is_sick(at), "has no healthy backend")?;
        }
        if kind == Kind::LarderVclBans {
            bans::make(&contender.folder.path().join("work"))
                .map_err(|error| contender.fault(format!("takes no bans: {error}")))?;
        }
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
        // PHP's answers come in chunks, which only the generator reads, as do pages that are put together.
        let is_chunked = matches!(page, Page::Hello | Page::Esi(_));
        let body = if self.front == Front::Clear && !self.compresses && !is_chunked {
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

    fn wait_until(&mut self, is_so: impl Fn(SocketAddr) -> bool, otherwise: &str) -> Result<(), LoadError> {
        let started = Instant::now();
        while !is_so(self.address()) {
            if self.process.has_ended() {
                return Err(self.fault("ended at once".into()));
            }
            if started.elapsed() > START_LIMIT {
                return Err(self.fault(format!("{otherwise} after {START_LIMIT:?}")));
            }
            sleep(Duration::from_millis(20));
        }
        Ok(())
    }
}
