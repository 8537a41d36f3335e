//! The supervisor: does what needs root, and keeps a serving process running.
//!
//! ```text
//! Starting --Ready--> Running --QUIT, TERM, INT--> Ending --process gone--> exit 0
//!     `--- Refused, or the process died ---> exit 1
//! ```
//! At USR2 it starts another supervisor beside itself, from the new binary at its path; see [`crate::upgrade`].

use std::os::unix::net::UnixListener;
use std::process::ExitCode;
use std::time::Duration;

use larder_conf::model::LogLevel;
use nix::sys::signal::Signal;
use tokio::time::Instant;

use crate::ask_socket;
use crate::configuration::Configuration;
use crate::control::{ControlError, Message};
use crate::daemon::Waiting;
use crate::generation::{self, Generation, StartError};
use crate::inherit::Inherited;
use crate::invocation::Invocation;
use crate::limits;
use crate::log::{Console, Log};
use crate::logs;
use crate::oserror::CallFailed;
use crate::pidfile::PidFile;
use crate::process::{Ended, Past, Process, Standing, Terminal, ToldAt};
use crate::signals::{Received, Signals};
use crate::tell_socket::TellSocket;
use crate::transaction_log;
use crate::upgrade::{Neighbours, Successor, old_pid_path};

/// How a supervisor was started.
pub struct Beginning {
    /// Program and arguments.
    pub invocation: Invocation,
    /// Whether it has left the terminal.
    pub is_daemon: bool,
    /// The process that waits until it is ready.
    pub waiting: Option<Waiting>,
    /// The sockets of the process that it replaces.
    pub inherited: Option<Inherited>,
    /// What is to be told of the configuration.
    pub notices: String,
}

/// Supervises a serving process until told to end.
pub fn run(configuration: Configuration, log: Log, beginning: Beginning) -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            log.write(LogLevel::Emerg, &CallFailed::new("epoll_create", error).to_string());
            return ExitCode::FAILURE;
        }
    };
    runtime.block_on(supervise(configuration, log, beginning))
}

async fn supervise(configuration: Configuration, mut log: Log, mut beginning: Beginning) -> ExitCode {
    let signals = Signals::new().map_err(|error| CallFailed::new("sigaction", error).into());
    let notices = std::mem::take(&mut beginning.notices);
    let started = match signals {
        Ok(signals) => Supervisor::start(configuration, &log, beginning).await.map(|it| (it, signals)),
        Err(failure) => Err(failure),
    };
    match started {
        Ok((mut supervisor, mut signals)) => {
            log.redirect(supervisor.current.sinks());
            log.write_rendered(&notices);
            supervisor.log = log;
            supervisor.run(&mut signals).await
        }
        Err(failure) => {
            log.write_rendered(&notices);
            log.write_rendered(&failure.rendered());
            ExitCode::FAILURE
        }
    }
}

/// The state of the supervisor.
struct Supervisor {
    invocation: Invocation,
    log: Log,
    /// The number of worker threads. It never changes, because each worker has its own sockets.
    workers: usize,
    past: Past,
    current: Generation,
    /// A reload that the serving process has not answered.
    pending: Option<Generation>,
    /// HUP arrived while an earlier reload was running.
    reload_again: bool,
    process: Option<Process>,
    /// Processes that finish their requests, after WINCH.
    leaving: Vec<Process>,
    neighbours: Neighbours,
    phase: Phase,
    restart: Restart,
    pid_file: Option<PidFile>,
    /// Where the transaction log is told.
    log_socket: Option<(TellSocket, UnixListener)>,
    /// Where questions are answered.
    ask_socket: Option<(TellSocket, UnixListener)>,
    waiting: Option<Waiting>,
    terminal: Terminal,
}

/// The state in the diagram above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Starting,
    Running,
    /// Waits for the processes, and kills them after the deadline. Then it exits with this code.
    Ending {
        kill_at: Option<Instant>,
        code: u8,
    },
    Ended(u8),
}

/// When a new process is started after one that died.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Restart {
    /// How many died young in a row.
    young_deaths: u32,
    /// When to start it. `None` while one runs, or if none is wanted.
    at: Option<Instant>,
}

/// What the supervisor waits for.
enum Event {
    Signal(Received),
    Said(Message),
    /// The process's control socket has failed, or, without an error, was closed.
    Silent(Option<ControlError>),
    Time,
}

impl Supervisor {
    async fn start(configuration: Configuration, log: &Log, beginning: Beginning) -> Result<Supervisor, StartError> {
        // Descriptors in flight count against the limit of the sender.
        if let Err(error) = limits::raise_open_files(configuration.config.main.worker_rlimit_nofile) {
            let failure = CallFailed::new("setrlimit", error);
            log.write(LogLevel::Alert, &failure.to_string());
        }
        let workers = generation::worker_count(&configuration);
        let Beginning { invocation, is_daemon, waiting, inherited, notices: _ } = beginning;
        let (held, predecessor) = inherited.map_or((Vec::new(), None), |it| (it.listeners, it.predecessor));
        let current = Generation::open(configuration, workers, &held, log).await?;
        Ok(Supervisor {
            invocation,
            log: Log::new(Vec::new(), Console::Quiet),
            workers,
            past: Past::default(),
            current,
            pending: None,
            reload_again: false,
            process: None,
            leaving: Vec::new(),
            neighbours: Neighbours { predecessor, successor: None },
            phase: Phase::Starting,
            restart: Restart { young_deaths: 0, at: None },
            pid_file: None,
            log_socket: None,
            ask_socket: None,
            terminal: if is_daemon { Terminal::Left } else { Terminal::Kept },
            waiting,
        })
    }

    async fn run(&mut self, signals: &mut Signals) -> ExitCode {
        let configuration = &self.current.configuration;
        self.log_socket = transaction_log::listen(&configuration.config, &configuration.pid_path(), &self.log);
        self.ask_socket = ask_socket::listen(&configuration.pid_path(), &self.log);
        self.start_process().await;
        let code = loop {
            if let Phase::Ended(code) = self.phase {
                break code;
            }
            match self.next_event(signals).await {
                Event::Signal(received) => self.obey(received).await,
                Event::Said(message) => self.hear(message).await,
                Event::Silent(reason) => self.stop_listening(reason),
                Event::Time => self.be_on_time().await,
            }
        };
        self.neighbours.remove_unix(&self.current.listeners, &[]);
        self.pid_file = None;
        self.log_socket = None;
        self.ask_socket = None;
        self.log.write(LogLevel::Notice, "exit");
        ExitCode::from(code)
    }

    async fn next_event(&mut self, signals: &mut Signals) -> Event {
        let deadline = match self.phase {
            Phase::Ending { kill_at, .. } => kill_at,
            Phase::Starting | Phase::Running | Phase::Ended(_) => self.restart.at,
        };
        let time = async {
            match deadline {
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        let said = async {
            match self.process.as_mut().and_then(Process::channel) {
                Some(channel) => channel.receive().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            received = signals.next() => Event::Signal(received),
            said = said => match said {
                // The serving process sends no descriptors.
                Ok(Some((message, _))) => Event::Said(message),
                Ok(None) => Event::Silent(None),
                Err(error) => Event::Silent(Some(error)),
            },
            () = time => Event::Time,
        }
    }

    async fn obey(&mut self, received: Received) {
        if received != Received::Child {
            self.log.write(LogLevel::Notice, received.describe());
        }
        match received {
            Received::Reload => self.reload().await,
            Received::Quit => self.quit(),
            Received::Terminate | Received::Interrupt => self.terminate(),
            Received::Reopen => self.reopen().await,
            Received::Upgrade => self.upgrade(),
            Received::Leave => self.leave(),
            Received::Child => self.reap().await,
        }
    }

    async fn hear(&mut self, message: Message) {
        match message {
            Message::Ready => self.settle().await,
            Message::Refused(reason) => self.give_up(&reason).await,
            Message::Configure(_) | Message::Reopen(_) => {
                self.log.write(LogLevel::Alert, "the serving process gave an order, which is not its place");
            }
        }
    }

    /// The serving process answered `Ready`: it serves, or a reload has succeeded.
    async fn settle(&mut self) {
        if let Some(process) = &mut self.process {
            process.standing = Standing::Serving;
        }
        if let Some(pending) = self.pending.take() {
            self.neighbours.remove_unix(&self.current.listeners, &pending.listeners);
            let old = std::mem::replace(&mut self.current, pending);
            self.past.reloads = self.past.reloads.saturating_add(1);
            self.adopt(&old.configuration);
            self.log.write(LogLevel::Notice, "the new configuration holds");
        }
        if self.phase == Phase::Starting {
            self.become_ready();
        }
        if self.phase == Phase::Running && std::mem::take(&mut self.reload_again) {
            self.reload().await;
        }
    }

    /// Uses the log and the pid file of the current generation.
    fn adopt(&mut self, old: &Configuration) {
        self.log.redirect(self.current.sinks());
        let new = &self.current.configuration;
        let socket = self.log_socket.as_ref().map(|(socket, _)| socket);
        let (old, new) = ((&old.config, &*old.pid_path()), (&new.config, &*new.pid_path()));
        transaction_log::follow(old, new, socket, &self.log);
        self.redirect_stderr();
        if self.neighbours.successor.is_some() {
            // The pid file's path belongs to the new binary.
            return;
        }
        let path = self.current.configuration.pid_path();
        if self.pid_file.as_ref().is_some_and(|file| file.path() != path) {
            match PidFile::write(&path) {
                Ok(file) => self.pid_file = Some(file),
                Err(failure) => self.log.write(LogLevel::Emerg, &failure.to_string()),
            }
        }
        ask_socket::follow(self.ask_socket.as_mut().map(|(socket, _)| socket), &path, &self.log);
    }

    /// Redirects the standard error of a daemon to its log, because it has no terminal.
    fn redirect_stderr(&self) {
        if self.terminal == Terminal::Kept {
            return;
        }
        if let Some(file) = logs::stderr_file(&self.current.configuration.config, &self.current.logs)
            && let Err(error) = nix::unistd::dup2_stderr(&file)
        {
            self.log.write(LogLevel::Alert, &CallFailed::new("dup2", error).to_string());
        }
    }

    /// The first process serves: writes the pid file, and tells the waiting caller.
    fn become_ready(&mut self) {
        let told = PidFile::write(&self.current.configuration.pid_path()).and_then(|file| {
            self.pid_file = Some(file);
            self.waiting.take().map_or(Ok(()), Waiting::tell)
        });
        match told {
            Ok(()) => {
                self.phase = Phase::Running;
                self.log.set_console(Console::Quiet);
                self.redirect_stderr();
            }
            Err(failure) => {
                self.log.write(LogLevel::Emerg, &failure.to_string());
                self.fail();
            }
        }
    }

    /// The serving process answered `Refused`.
    async fn give_up(&mut self, reason: &str) {
        match self.pending.take() {
            Some(pending) => {
                self.neighbours.remove_unix(&pending.listeners, &self.current.listeners);
                self.refuse_reload(reason);
            }
            None => self.log.write_rendered(reason),
        }
        if self.phase == Phase::Running && std::mem::take(&mut self.reload_again) {
            self.reload().await;
        }
    }

    /// The start failed: ends the serving process, and exits with an error.
    fn fail(&mut self) {
        self.end(Signal::SIGKILL, None, 1);
    }

    async fn reload(&mut self) {
        if self.neighbours.successor.is_some() {
            // The new binary reads the configuration now. This HUP asks us to serve beside it again.
            if self.phase == Phase::Running && self.process.is_none() {
                self.start_process().await;
            }
            return;
        }
        let is_busy = self.process.as_ref().is_some_and(|process| process.standing == Standing::Starting);
        match self.phase {
            Phase::Ending { .. } | Phase::Ended(_) => return,
            Phase::Starting | Phase::Running if is_busy || self.pending.is_some() => {
                self.reload_again = true;
                return;
            }
            Phase::Starting | Phase::Running => {}
        }
        match self.open_anew().await {
            Ok(generation) => self.hand_over(generation).await,
            Err(failure) => self.refuse_reload(&failure.rendered()),
        }
    }

    /// Reads the configuration again, and opens what it needs in addition to what is open.
    async fn open_anew(&self) -> Result<Generation, StartError> {
        let configuration = self.current.configuration.read_anew()?;
        if let Err(error) = limits::follow(&self.current.configuration.config.main, &configuration.config.main) {
            self.log.write(LogLevel::Alert, &CallFailed::new("setrlimit", error).to_string());
        }
        self.log.write_rendered(&configuration.rendered_changes(&self.current.configuration));
        let generation = Generation::open(configuration, self.workers, &self.current.listeners, &self.log).await?;
        if generation::worker_count(&generation.configuration) != self.workers {
            self.log.write(LogLevel::Warn, "a new \"worker_processes\" takes effect when larder is started again");
        }
        if generation.account != self.current.account {
            self.log.write(
                LogLevel::Warn,
                "a new \"user\", or a new \"transparent\", takes effect when the serving process is started again",
            );
        }
        Ok(generation)
    }

    /// Sends a new generation to the serving process, or keeps it for the next one.
    async fn hand_over(&mut self, generation: Generation) {
        let Some(process) = &mut self.process else {
            self.neighbours.remove_unix(&self.current.listeners, &generation.listeners);
            let old = std::mem::replace(&mut self.current, generation);
            self.past.reloads = self.past.reloads.saturating_add(1);
            self.adopt(&old.configuration);
            return self.start_process().await;
        };
        match process.configure(&generation, (self.workers, self.past), ToldAt::default()).await {
            Ok(()) => self.pending = Some(generation),
            Err(error) => {
                self.neighbours.remove_unix(&generation.listeners, &self.current.listeners);
                self.refuse_reload(&format!("larder: [alert] {error}\n"));
            }
        }
    }

    /// Logs why the old configuration stays; in the foreground also to standard error.
    fn refuse_reload(&mut self, rendered: &str) {
        if self.terminal == Terminal::Kept {
            self.log.set_console(Console::Told);
        }
        self.log.write_rendered(rendered);
        self.log.write(LogLevel::Error, "the new configuration was refused; the old one goes on");
        self.log.set_console(Console::Quiet);
    }

    async fn reopen(&mut self) {
        for failure in logs::reopen_all(&mut self.current.logs, self.current.account.as_ref()) {
            self.log.write(LogLevel::Emerg, &failure.to_string());
        }
        self.log.redirect(self.current.sinks());
        self.redirect_stderr();
        for process in self.process.iter_mut().chain(&mut self.leaving) {
            if let Err(error) = process.reopen(&self.current.logs).await {
                self.log.write(LogLevel::Alert, &error.to_string());
            }
        }
    }

    /// QUIT: nothing new is accepted, and the process may finish its requests.
    fn quit(&mut self) {
        if let Phase::Ended(_) = self.phase {
            return;
        }
        self.neighbours.remove_unix(&self.current.listeners, &[]);
        self.current.listeners.clear();
        self.end(Signal::SIGQUIT, None, u8::from(self.phase == Phase::Starting));
    }

    fn terminate(&mut self) {
        if let Phase::Ended(_) = self.phase {
            return;
        }
        let kill_at = Instant::now() + TERMINATE_PATIENCE;
        self.end(Signal::SIGTERM, Some(kill_at), u8::from(self.phase == Phase::Starting));
    }

    fn end(&mut self, signal: Signal, kill_at: Option<Instant>, code: u8) {
        for process in self.process.iter_mut().chain(&mut self.leaving) {
            process.standing = Standing::Leaving;
            process.signal(signal);
        }
        self.phase = Phase::Ending { kill_at, code };
        self.end_when_alone();
    }

    /// Ends if all processes are gone.
    fn end_when_alone(&mut self) {
        if let Phase::Ending { code, .. } = self.phase
            && self.process.is_none()
            && self.leaving.is_empty()
        {
            self.phase = Phase::Ended(code);
        }
    }

    /// WINCH: the serving process ends, and we stay. A terminal sends it too when it is resized, so a larder with a
    /// terminal only obeys it while a binary is changed.
    fn leave(&mut self) {
        if self.phase != Phase::Running || (self.terminal == Terminal::Kept && !self.neighbours.is_any()) {
            return;
        }
        self.restart.at = None;
        let Some(mut process) = self.process.take() else { return };
        process.standing = Standing::Leaving;
        process.signal(Signal::SIGQUIT);
        self.leaving.push(process);
        self.forget_reload(
            "larder: [alert] the serving process was told to leave while it read the new configuration\n",
        );
    }

    /// USR2: starts the new binary beside us, with our sockets, and renames our pid file.
    fn upgrade(&mut self) {
        let Some(pid_file) = self.pid_file.as_mut().filter(|_| self.phase == Phase::Running) else { return };
        if self.neighbours.is_any() {
            let reason = "the binary is being changed already: end the old process or the new one first";
            return self.log.write(LogLevel::Notice, reason);
        }
        let path = pid_file.path().to_owned();
        if let Err(failure) = pid_file.rename(&old_pid_path(&path)) {
            return self.log.write(LogLevel::Alert, &failure.to_string());
        }
        // It reads the same configuration as a running reload, and needs the sockets that were opened for that.
        let listeners = &self.pending.as_ref().unwrap_or(&self.current).listeners;
        match Successor::start(&self.invocation, listeners) {
            Ok(successor) => {
                self.log.write(LogLevel::Notice, &format!("start new binary process {}", successor.id()));
                self.neighbours.successor = Some(successor);
            }
            Err(failure) => {
                self.log.write(LogLevel::Alert, &failure.to_string());
                self.take_place_back();
            }
        }
    }

    /// The new binary is gone: takes the pid file back.
    fn take_place_back(&mut self) {
        let path = self.current.configuration.pid_path();
        if let Some(Err(failure)) = self.pid_file.as_mut().map(|file| file.rename(&path)) {
            self.log.write(LogLevel::Alert, &failure.to_string());
        }
    }

    async fn be_on_time(&mut self) {
        match self.phase {
            Phase::Ending { code, .. } => {
                self.phase = Phase::Ending { kill_at: None, code };
                for process in self.process.iter_mut().chain(&mut self.leaving) {
                    process.signal(Signal::SIGKILL);
                }
            }
            Phase::Starting | Phase::Running => self.start_process().await,
            Phase::Ended(_) => {}
        }
    }

    fn stop_listening(&mut self, reason: Option<ControlError>) {
        if let Some(reason) = reason {
            self.log.write(LogLevel::Alert, &reason.to_string());
        }
        if let Some(process) = &mut self.process {
            process.close_channel();
        }
    }

    /// Starts a process for the current generation.
    async fn start_process(&mut self) {
        self.restart.at = None;
        let [log, ask] = [&self.log_socket, &self.ask_socket].map(|it| it.as_ref().map(|(_, listener)| listener));
        match Process::start(&self.current, (self.workers, self.past), self.terminal, ToldAt { log, ask }).await {
            Ok(process) => {
                let started = format!("start worker process {}", process.id());
                self.log.write(LogLevel::Notice, &started);
                self.process = Some(process);
            }
            Err(failure) => {
                self.log.write(LogLevel::Alert, &failure.to_string());
                self.after_death(Duration::ZERO);
            }
        }
    }

    /// A child ended: logs how, and does what follows.
    async fn reap(&mut self) {
        self.reap_leaving().await;
        self.reap_process().await;
        self.reap_successor().await;
        self.end_when_alone();
    }

    async fn reap_process(&mut self) {
        let Some(process) = &mut self.process else {
            return;
        };
        let Some(Ended { how, last_words }) = process.ended().await else {
            return;
        };
        let (age, id) = (process.age(), process.id());
        for message in last_words {
            self.hear(message).await;
        }
        self.process = None;
        self.log.write(how.level(), &format!("worker process {id} {how}"));
        self.forget_reload("larder: [alert] the serving process ended while it read the new configuration\n");
        match self.phase {
            Phase::Ending { .. } | Phase::Ended(_) => {}
            Phase::Starting | Phase::Running => self.after_death(age),
        }
        if self.phase == Phase::Running && std::mem::take(&mut self.reload_again) {
            self.reload().await;
        }
    }

    async fn reap_leaving(&mut self) {
        for mut process in std::mem::take(&mut self.leaving) {
            match process.ended().await {
                Some(Ended { how, .. }) => {
                    self.log.write(how.level(), &format!("worker process {} {how}", process.id()));
                }
                None => self.leaving.push(process),
            }
        }
    }

    /// If the new binary has ended, takes its place and serves again.
    async fn reap_successor(&mut self) {
        let Some(successor) = &mut self.neighbours.successor else { return };
        let Some(how) = successor.ended() else { return };
        self.log.write(how.level(), &format!("new binary process {} {how}", successor.id()));
        self.neighbours.successor = None;
        self.take_place_back();
        if self.phase == Phase::Running && self.process.is_none() && self.restart.at.is_none() {
            self.start_process().await;
        }
    }

    /// Gives up a reload that will not be answered.
    fn forget_reload(&mut self, why: &str) {
        if let Some(pending) = self.pending.take() {
            self.neighbours.remove_unix(&pending.listeners, &self.current.listeners);
            self.refuse_reload(why);
        }
    }

    /// A process has died at this age: plans another one, not too often, or fails the start.
    fn after_death(&mut self, age: Duration) {
        if self.phase == Phase::Starting {
            return self.fail();
        }
        self.past.deaths = self.past.deaths.saturating_add(1);
        self.restart = self.restart.after(age, Instant::now());
    }
}

impl Restart {
    /// At once after a process that lived longer than [`YOUNG`], or after the first one that died young; then with
    /// growing pauses.
    fn after(self, age: Duration, now: Instant) -> Restart {
        let young_deaths = match age < YOUNG {
            true => self.young_deaths.saturating_add(1),
            false => 0,
        };
        let pause = match young_deaths {
            0 | 1 => Duration::ZERO,
            more => RESTART_PAUSE_MIN.saturating_mul(1 << (more - 2).min(10)).min(RESTART_PAUSE_MAX),
        };
        Restart { young_deaths, at: Some(now + pause) }
    }
}

/// How long the process may take to end after TERM; about as in nginx.
const TERMINATE_PATIENCE: Duration = Duration::from_secs(2);
/// A process that dies before this age may die again at once.
const YOUNG: Duration = Duration::from_secs(1);
const RESTART_PAUSE_MIN: Duration = Duration::from_millis(100);
const RESTART_PAUSE_MAX: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_while_processes_die_young() {
        let now = Instant::now();
        let mut restart = Restart { young_deaths: 0, at: None };
        for (age, pause_ms) in [
            (60_000, 0),
            (10, 0),
            (10, 100),
            (10, 200),
            (10, 400),
            (999, 800),
            (10, 1600),
            (10, 3200),
            (10, 5000),
            (10, 5000),
            (1000, 0),
            (10, 0),
            (10, 100),
        ] {
            restart = restart.after(Duration::from_millis(age), now);
            assert_eq!(restart.at, Some(now + Duration::from_millis(pause_ms)), "{restart:?}");
        }
        restart.young_deaths = u32::MAX;
        assert_eq!(restart.after(Duration::ZERO, now).at, Some(now + RESTART_PAUSE_MAX));
    }
}
