//! `larder shadow`: tries larder with a configuration beside the server that runs, and says what differs.
//!
//! ```text
//! access log --\                     /--> the server that runs --\
//!               > sources -> queue -> replay                       > compare -> report
//! its mirror --/                     \--> larder, in here -------/
//! ```

mod adapted;
mod answer;
mod body;
mod compare;
mod learned;
mod line;
mod once;
pub mod options;
mod packed;
mod replay;
mod report;
mod sources;
#[cfg(test)]
mod tests;
mod wanted;

use std::hash::{BuildHasher as _, RandomState};
use std::io::{self, Write as _};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, ToSocketAddrs as _};
use std::os::fd::OwnedFd;
use std::process::ExitCode;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use larder_conf::model::ListenAddress;
use tokio::runtime::Builder;
use tokio::sync::oneshot;

use crate::ask_socket;
use crate::cli::Options;
use crate::configuration::{Configuration, Surroundings};
use crate::folders;
use crate::limits;
use crate::logs::{self, Links};
use crate::paths::Paths;
use crate::scratch::Scratch;
use crate::serving::{Descriptors, Server, ServingOptions};
use crate::signals::{Received, Signals};

use answer::Server as Peer;
use learned::Learned;
use line::Format;
use once::Once;
use options::Shadow;
use replay::{Echoes, Queue, Replay, lock};
use report::Report;
use sources::LogFile;

/// Compares until it is told to end, and returns whether all was alike.
pub fn run(asked: &Shadow) -> ExitCode {
    match compare_all(asked) {
        Ok(report) => {
            let text = if asked.is_json { format!("{:#}\n", report.as_json()) } else { report.as_text() };
            let is_told = io::stdout().write_all(text.as_bytes()).is_ok();
            let gap = report.gap(&asked.old);
            if let Some(gap) = &gap {
                eprintln!("larder shadow: {gap}");
            }
            match (report.compared, report.differing) {
                (0, _) => ExitCode::from(NOTHING),
                (_, 1..) => ExitCode::FAILURE,
                (_, 0) if gap.is_some() => ExitCode::from(NOTHING),
                (_, 0) if is_told => ExitCode::SUCCESS,
                (_, 0) => ExitCode::FAILURE,
            }
        }
        Err(why) => {
            eprintln!("larder shadow: {}", why.trim_end());
            ExitCode::from(NOTHING)
        }
    }
}

/// The exit status when nothing was compared, or less than what says nothing.
const NOTHING: u8 = 2;

/// Everything that is needed to compare.
struct Prepared {
    configuration: Configuration,
    /// Where the old server is, and larder.
    old: Peer,
    new: Peer,
    /// larder's socket, and the address that it is to believe it listens at.
    listening: (ListenAddress, OwnedFd),
    log: Option<(LogFile, Format)>,
    mirror: Option<TcpListener>,
    /// What larder writes; dropped last.
    scratch: Scratch,
}

fn compare_all(asked: &Shadow) -> Result<Report, String> {
    let prepared = prepare(asked)?;
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| format!("no runtime: {error}"))?;
    runtime.block_on(prepared.run(asked))
}

fn prepare(asked: &Shadow) -> Result<Prepared, String> {
    let url = &asked.old;
    let addresses = (url.host.as_str(), url.port).to_socket_addrs();
    let address = addresses.map_err(|error| format!("--old {}: {error}", url.authority))?.next();
    let address = address.ok_or_else(|| format!("--old {} has no address", url.authority))?;
    let options = Options {
        conf_file: asked.conf_file.clone(),
        prefix: asked.prefix.clone(),
        globals: asked.globals.clone(),
        ..Options::default()
    };
    let paths = Paths::new(&options);
    let mut configuration =
        Configuration::read(Surroundings::new(&paths, options.globals)).map_err(|rejected| rejected.rendered)?;
    let mut host_of_log = None;
    let log = match &asked.log {
        Some(path) => {
            let learned = Learned::of(&configuration.config, path);
            let format = learned.format(&configuration.config, asked.format.as_deref())?;
            host_of_log = learned.host;
            let file = LogFile::open(path, asked.once);
            Some((file.map_err(|error| format!("--log {}: {error}", path.display()))?, format))
        }
        None => None,
    };
    let bind = |at: SocketAddr| TcpListener::bind(at).map_err(|error| format!("cannot listen at {at}: {error}"));
    let mirror = asked.listen.map(bind).transpose()?;
    let scratch = Scratch::create().map_err(|failure| failure.to_string())?;
    let believed = adapted::adapt(&mut configuration.config, scratch.path(), address, url.is_secure);
    let believed = believed.map_err(|why| why.to_string())?;
    let loopback = if address.is_ipv6() { Ipv6Addr::LOCALHOST.into() } else { Ipv4Addr::LOCALHOST.into() };
    let socket = bind(SocketAddr::new(loopback, 0))?;
    let own = socket.local_addr().map_err(|error| error.to_string())?;
    let is_known = asked.host.is_some() || host_of_log.is_some();
    let host = asked.host.clone().or(host_of_log).or_else(|| learned::first_name(&configuration.config));
    let host = host.unwrap_or_else(|| url.authority.clone());
    let sites = configuration.config.http.servers.len();
    if sites > 1 && !is_known && log.as_ref().is_some_and(|(_, format)| !format.has_host()) {
        eprintln!(
            "larder shadow: the log does not say for which of {sites} servers a request was: all are taken to be for {host}; \
             name another by --host, or log $host"
        );
    }
    let tls = if url.is_secure { Some(answer::tls().map_err(|error| error.to_string())?) } else { None };
    let added: Arc<[_]> = asked.fields.clone().into();
    let peer = |address| Peer { address, host: host.clone().into_bytes(), added: Arc::clone(&added), tls: tls.clone() };
    Ok(Prepared {
        old: peer(address),
        new: peer(own),
        configuration,
        listening: (believed, socket.into()),
        log,
        mirror,
        scratch,
    })
}

impl Prepared {
    async fn run(self, asked: &Shadow) -> Result<Report, String> {
        let mut signals = Signals::new().map_err(|error| format!("sigaction: {error}"))?;
        // Without it, larder has as many files as a shell gives.
        let _ = limits::raise_open_files(None);
        let Prepared { configuration, old, new, listening: (believed, socket), log, mirror, scratch } = self;
        folders::make_all(&configuration.config, None).map_err(|failure| failure.to_string())?;
        let files = logs::open_all(&logs::files(&configuration.config), Links::All);
        let files = files.map_err(|failure| failure.to_string())?;
        let descriptors = Descriptors { listeners: vec![(believed, vec![socket])], logs: files };
        let serving =
            ServingOptions { workers: 1, respawned: 0, reloads: 0, log: Arc::default(), desk: ask_socket::serve(None) };
        let mut server = Server::start(configuration.config.clone(), &configuration.material, descriptors, serving)
            .map_err(|diagnostics| configuration.reject(&diagnostics).rendered)?;
        eprintln!(
            "larder shadow: {} runs beside {}, which goes on as it is; ^C ends this, and reports",
            configuration.surroundings.conf_file.display(),
            asked.old.authority
        );
        let report = Arc::new(Mutex::new(Report::default()));
        let finished = start(asked, (old, new), log, mirror, &report)?;
        tokio::pin!(finished);
        let end = async {
            match asked.lasts {
                Some(lasts) => tokio::time::sleep(lasts).await,
                None => std::future::pending().await,
            }
        };
        tokio::pin!(end);
        let mut progress = tokio::time::interval(PROGRESS);
        progress.tick().await;
        loop {
            tokio::select! {
                biased;
                received = signals.next() => match received {
                    Received::Terminate | Received::Interrupt | Received::Quit => break,
                    Received::Reopen => eprint!("{}", lock(&report).as_text()),
                    Received::Reload | Received::Upgrade | Received::Leave | Received::Child => {}
                },
                _ = &mut finished => break,
                () = &mut end => break,
                _ = progress.tick() => eprintln!("larder shadow: {}", lock(&report).line()),
            }
        }
        server.stop();
        server.ended().await;
        drop(scratch);
        let report = lock(&report).clone();
        Ok(report)
    }
}

/// Starts the threads that read and compare. Returns what says that there is nothing more to compare.
fn start(
    asked: &Shadow,
    (old, new): (Peer, Peer),
    log: Option<(LogFile, Format)>,
    mirror: Option<TcpListener>,
    report: &Arc<Mutex<Report>>,
) -> Result<oneshot::Receiver<()>, String> {
    let (to, from) = mpsc::sync_channel(QUEUE_MAX);
    let has_agent = log.as_ref().is_none_or(|(_, format)| format.has_agent());
    let echoes = (!has_agent).then(|| Arc::new(Mutex::new(Echoes::default())));
    let once = Arc::new(Once::new(&asked.skip));
    let queue = |waits, echoes| {
        let (to, report, once) = (to.clone(), Arc::clone(report), Arc::clone(&once));
        Queue { to, report, waits, echoes, once }
    };
    let failed = |error: io::Error| format!("no thread: {error}");
    if let Some((file, format)) = log {
        let (once, mut queue) = (asked.once, queue(asked.once, echoes.clone()));
        let follow = move || file.follow(&format, once, &mut queue);
        thread::Builder::new().name("log".to_owned()).spawn(follow).map_err(failed)?;
    }
    if let Some(listener) = mirror {
        let queue = queue(false, None);
        thread::Builder::new().name("mirror".to_owned()).spawn(|| sources::receive(listener, queue)).map_err(failed)?;
    }
    let (done, finished) = oneshot::channel();
    let replay = Replay {
        old,
        new,
        report: Arc::clone(report),
        echoes,
        rate: asked.rate,
        requests: asked.requests,
        mark: RandomState::new().hash_one(0),
        fresh: AtomicU64::new(0),
    };
    let work = move || {
        replay.run(&from);
        // Nobody waits any more if larder ends.
        let _ = done.send(());
    };
    thread::Builder::new().name("compare".to_owned()).spawn(work).map_err(failed)?;
    Ok(finished)
}

/// How many requests wait to be compared.
const QUEUE_MAX: usize = 1000;
const PROGRESS: Duration = Duration::from_secs(60);
