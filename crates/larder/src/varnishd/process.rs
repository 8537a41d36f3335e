//! The process: it loads VCLs, serves one of them, and obeys the CLI and signals.

use std::io;
use std::os::unix::net::UnixListener as StdListener;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use larder_conf::model::LogLevel;
use larder_server::ask;
use larder_server::vsl::{self, Hub};
use larder_vsl::Tag;
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::mpsc;
use tokio::task::spawn_local;
use tokio::time::{Instant, sleep_until};

use super::check;
use super::cli::commands;
use super::cli::protocol::Status;
use super::cli::server::{self, Desk, Order, Secret};
use super::cli::words::Lines;
use super::counters;
use super::listen::{self, EndpointError};
use super::loaded::Vcls;
use super::options::{CliPlace, SecretPlace, Serve};
use super::orders;
use super::settings::Settings;
use super::site::{Fixed, Site};
use super::state::State;
use super::stats_socket::{self, Asked};
use super::workdir::{ASK_SOCKET, LOG_SOCKET, STATS_SOCKET, Workdir};
use crate::ask_socket::{self, NOBODY_ASKS};
use crate::daemon::Waiting;
use crate::generation::StartError;
use crate::hostname::hostname;
use crate::limits;
use crate::log::{Console, Log};
use crate::oserror::CallFailed;
use crate::pidfile::PidFile;
use crate::signals::{Received, Signals};
use crate::tell_socket::TellSocket;
use crate::varnishstat::point;

/// Why the process ends without having been told to.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    /// The system refused something.
    #[error(transparent)]
    Call(#[from] CallFailed),
    /// A configuration cannot be served.
    #[error("{}", .0.rendered().trim_end())]
    Start(#[from] StartError),
    /// An address cannot be listened at.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    /// A command of the start was refused, or there is something wrong with an option.
    #[error("{0}")]
    Refused(String),
}

/// Serves until told to end. Needs a `LocalSet` around it.
pub async fn run(asked: &Serve, waiting: Option<Waiting>) -> Result<(), ProcessError> {
    let mut signals = Signals::new().map_err(|error| CallFailed::new("sigaction", error))?;
    let mut log = Log::new(Vec::new(), Console::Told);
    if let Err(error) = limits::raise_open_files(None) {
        log.write(LogLevel::Warn, &CallFailed::new("setrlimit", error).to_string());
    }
    say_what_has_no_effect(&asked.settings, &log);
    let user = asked.jail.user().map_err(ProcessError::Refused)?;
    let workdir = Workdir::open(asked.folder.as_deref())?;
    let pid_file = asked.pid_file.as_deref().map(PidFile::write).transpose()?;
    let (listeners, secret) = open_cli(asked, &workdir)?;
    let (asks, mut asked_for_stats) = mpsc::channel(ASKS_MAX);
    let path = workdir.path().join(STATS_SOCKET);
    let stats_socket =
        tell(&path, "larder varnishstat will find no counters", &log, |listener| tell_stats(listener, asks));
    let transactions = Hub::new(asked.settings.log());
    let (path, hub) = (workdir.path().join(LOG_SOCKET), Arc::clone(&transactions));
    let log_socket = tell(&path, "larder varnishlog will find no log", &log, |listener| vsl::serve(listener, hub));
    let (path, desk) = (workdir.path().join(ASK_SOCKET), Arc::<ask::Desk>::default());
    let listening = TellSocket::listen_privately(&path);
    let ask_socket = tell_by(listening, &path, NOBODY_ASKS, &log, |listener| ask_socket::answer(listener, &desk));
    let sockets = stats_socket.into_iter().chain(log_socket).chain(ask_socket).collect();
    let fixed = fixed(asked, &workdir, sockets, transactions, desk)?;
    let site = Site::open(fixed, &asked.settings, user.as_deref(), &log).await?;
    log.redirect(site.sinks());
    let (settings, read_only) = (asked.settings.clone(), asked.read_only.clone());
    let mut state = State { began: Instant::now(), settings, read_only, vcls: Vcls::default(), site, log };
    if let Err(error) = begin(&mut state, asked).await {
        state.site.close();
        return Err(error);
    }
    let (orders, mut received) = mpsc::channel(ORDERS_MAX);
    let desk = Rc::new(Desk { secret, storage: banner_storages(asked), orders, open: 0.into() });
    for listener in listeners {
        spawn_local(server::accept(listener, Rc::clone(&desk)));
    }
    if let Some(manager) = &asked.manager {
        spawn_local(server::call(manager.clone(), Rc::clone(&desk)));
    }
    if let Some(waiting) = waiting {
        waiting.leave_terminal()?;
    }
    loop {
        tokio::select! {
            biased;
            signal = signals.next() => match signal {
                Received::Terminate | Received::Interrupt | Received::Quit => break,
                Received::Reload | Received::Reopen | Received::Upgrade | Received::Leave | Received::Child => {}
            },
            Some(order) = received.recv() => obey(&mut state, order).await,
            Some(asked) = asked_for_stats.recv() => {
                // Whoever has left hears nothing.
                let _ = asked.send(point::write(&counters::all(&state)));
            }
            () = rest(state.vcls.next_rest(state.times())) => {
                if let Err(failure) = orders::serve_again(&mut state).await {
                    state.log.write(LogLevel::Error, failure.trim_end());
                }
            }
        }
    }
    state.site.stop(&state.log).await;
    state.site.close();
    drop(pid_file);
    Ok(())
}

/// Listens at a socket of the folder, for `serve` to tell what is `told`. The server goes on without it.
fn tell(path: &Path, told: &str, log: &Log, serve: impl FnOnce(StdListener) -> io::Result<()>) -> Option<TellSocket> {
    tell_by(TellSocket::listen(path), path, told, log, serve)
}

/// The same for a socket that is listened at.
fn tell_by(
    listening: io::Result<(TellSocket, StdListener)>,
    path: &Path,
    told: &str,
    log: &Log,
    serve: impl FnOnce(StdListener) -> io::Result<()>,
) -> Option<TellSocket> {
    let listening = listening.and_then(|(socket, listener)| serve(listener).map(|()| socket));
    let say = |error| {
        let why = CallFailed::on("bind", path.display(), error);
        log.write(LogLevel::Warn, &format!("{told}: {why}"));
    };
    listening.map_err(say).ok()
}

/// Tells the counters, from when the process listens to `asks`.
fn tell_stats(listener: StdListener, asks: mpsc::Sender<Asked>) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    spawn_local(stats_socket::accept(UnixListener::from_std(listener)?, asks));
    Ok(())
}

/// Waits until the next VCL is to rest.
async fn rest(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}

fn say_what_has_no_effect(settings: &Settings, log: &Log) {
    let names = settings.without_effect();
    if !names.is_empty() {
        let names = names.join(", ");
        log.write(LogLevel::Warn, &format!("these parameters of varnishd change nothing here: {names}"));
    }
}

/// What the command line says about the whole life of the process.
fn fixed(
    asked: &Serve,
    workdir: &Workdir,
    sockets: Vec<TellSocket>,
    transactions: Arc<Hub>,
    desk: Arc<ask::Desk>,
) -> Result<Fixed, EndpointError> {
    // Nobody reads the standard error of a daemon.
    let log = (!asked.in_foreground).then(|| workdir.path().join("error.log"));
    Ok(Fixed {
        endpoints: listen::resolve(&asked.endpoints)?,
        storages: asked.storages.clone(),
        folder: workdir.path().to_owned(),
        identity: asked.identity.clone().unwrap_or_else(hostname),
        log: log.as_ref().map_or("stderr".to_owned(), |path| path.display().to_string()),
        sockets,
        transactions,
        desk,
    })
}

/// Opens the CLI, and notes in the folder where it is.
fn open_cli(asked: &Serve, workdir: &Workdir) -> Result<(Vec<TcpListener>, Option<Secret>), ProcessError> {
    let places = match &asked.cli {
        CliPlace::Nowhere if asked.manager.is_none() => return Ok((Vec::new(), None)),
        CliPlace::Nowhere => Vec::new(),
        CliPlace::Anywhere => vec!["localhost:0".to_owned()],
        CliPlace::At(places) => places.clone(),
    };
    let listeners = server::listen(&places)?;
    let secret = match &asked.secret {
        SecretPlace::None => None,
        SecretPlace::Own => Some(Secret::read(workdir.new_secret()?)?),
        SecretPlace::File(path) => Some(Secret::read(path.clone())?),
    };
    let bound: Vec<_> = listeners.iter().filter_map(|listener| listener.local_addr().ok()).collect();
    workdir.note_cli(&bound, secret.as_ref().map(|secret| &*secret.path))?;
    Ok((listeners, secret))
}

fn banner_storages(asked: &Serve) -> String {
    asked.storages.iter().map(|storage| format!("-s{}", storage.name)).collect::<Vec<_>>().join(",")
}

/// Loads the VCLs of the command line, carries out the commands of `-I`, and begins to serve.
async fn begin(state: &mut State, asked: &Serve) -> Result<(), ProcessError> {
    let sources =
        asked.source.as_ref().map(|source| check::sources(source, &state.settings.vcl_path())).unwrap_or_default();
    for (number, source) in sources.iter().enumerate() {
        // As with varnishd, the last one is "boot", and active.
        let name = if number + 1 == sources.len() { "boot".to_owned() } else { format!("boot{number}") };
        let answer = orders::load(state, &name, source);
        if answer.status != Status::Ok {
            return Err(ProcessError::Refused(answer.text));
        }
        state.vcls.activate(&name, state.times().now);
    }
    if let Some(path) = &asked.commands {
        let text = std::fs::read(path).map_err(|error| CallFailed::on("open", path.display(), error))?;
        carry_out_all(state, &text).await?;
    }
    if state.vcls.active().is_some() && asked.source.is_some() && !state.site.is_running() {
        let answer = orders::start(state).await;
        if answer.status != Status::Ok {
            return Err(ProcessError::Refused(answer.text));
        }
    }
    Ok(())
}

/// Carries out the commands of a text. One that fails is the last, unless it is written with a `-` in front.
async fn carry_out_all(state: &mut State, text: &[u8]) -> Result<(), ProcessError> {
    let mut lines = Lines::default();
    for line in text.split(|byte| *byte == b'\n') {
        let (line, may_fail) = line.strip_prefix(b"-").map_or((line, false), |line| (line, true));
        let Some(words) = lines.take(line) else { continue };
        let words = words.map_err(|error| ProcessError::Refused(error.to_string()))?;
        let answer = match commands::verb(&words) {
            Ok(verb) => orders::carry_out(state, verb, &words).await,
            Err(answer) => answer,
        };
        if answer.status != Status::Ok && !may_fail {
            return Err(ProcessError::Refused(format!("-I: \"{}\": {}", words.join(" "), answer.text)));
        }
    }
    Ok(())
}

async fn obey(state: &mut State, order: Order) {
    let log = Arc::clone(&state.site.fixed().transactions);
    log.tell(Tag::Cli, format!("Rd {}", order.words.join(" ")).as_bytes());
    let answer = orders::carry_out(state, order.verb, &order.words).await;
    log.tell(Tag::Cli, format!("Wr {} {} {}", answer.status as u16, answer.text.len(), answer.text).as_bytes());
    // Whoever has left hears nothing.
    let _ = order.reply.send(answer);
}

/// How many commands may wait for the one that is carried out.
const ORDERS_MAX: usize = 16;
/// How many clients may wait for the counters to be read.
const ASKS_MAX: usize = 16;
