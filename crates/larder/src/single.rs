//! `master_process off`: one process that opens sockets and logs, serves, handles signals, and keeps its user.

use std::os::fd::OwnedFd;
use std::process::ExitCode;

use larder_conf::model::LogLevel;
use tokio::runtime::Builder;

use crate::ask_socket;
use crate::configuration::Configuration;
use crate::daemon::Waiting;
use crate::generation::{self, Generation, StartError};
use crate::inherit::Inherited;
use crate::limits;
use crate::log::{Console, Log};
use crate::logs;
use crate::oserror::CallFailed;
use crate::pidfile::PidFile;
use crate::serving::{Server, ServingOptions};
use crate::signals::{Received, Signals};
use crate::tell_socket::TellSocket;
use crate::transaction_log;
use crate::upgrade::Neighbours;

/// What the process begins with.
pub struct Beginning {
    /// Who waits until it serves.
    pub waiting: Option<Waiting>,
    /// Sockets that are open already.
    pub inherited: Option<Inherited>,
    /// What is to be told of the configuration.
    pub notices: String,
}

/// Serves until told to end.
pub fn run(configuration: Configuration, mut log: Log, beginning: Beginning) -> ExitCode {
    let outcome = match Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime.block_on(serve(configuration, &mut log, beginning)),
        Err(error) => Err(CallFailed::new("epoll_create", error).into()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            log.write_rendered(&failure.rendered());
            ExitCode::FAILURE
        }
    }
}

async fn serve(configuration: Configuration, log: &mut Log, beginning: Beginning) -> Result<(), StartError> {
    let Beginning { waiting, inherited, notices } = beginning;
    let mut signals = Signals::new().map_err(|error| CallFailed::new("sigaction", error))?;
    let mut single = Single::start(configuration, log, inherited, &notices).await?;
    single.pid_file = Some(PidFile::write(&single.generation.configuration.pid_path())?);
    if let Some(waiting) = waiting {
        waiting.tell()?;
    }
    loop {
        tokio::select! {
            biased;
            received = signals.next() => single.obey(received).await,
            () = single.server.ended() => break,
        }
    }
    drop(single.pid_file.take());
    drop(single.log_socket.take());
    drop(single.ask_socket.take());
    single.neighbours.remove_unix(&single.generation.listeners, &[]);
    single.log.write(LogLevel::Notice, "exit");
    Ok(())
}

/// The state of the process.
struct Single {
    generation: Generation,
    server: Server,
    workers: usize,
    log: Log,
    neighbours: Neighbours,
    /// Where the transaction log is told.
    log_socket: Option<TellSocket>,
    /// Where questions are answered.
    ask_socket: Option<TellSocket>,
    pid_file: Option<PidFile>,
}

impl Single {
    async fn start(
        configuration: Configuration,
        log: &mut Log,
        inherited: Option<Inherited>,
        notices: &str,
    ) -> Result<Single, StartError> {
        if let Err(error) = limits::raise_open_files(configuration.config.main.worker_rlimit_nofile) {
            log.write(LogLevel::Alert, &CallFailed::new("setrlimit", error).to_string());
        }
        let workers = generation::worker_count(&configuration);
        let (held, predecessor) = inherited.map_or((Vec::new(), None), |it| (it.listeners, it.predecessor));
        let neighbours = Neighbours { predecessor, successor: None };
        let generation = match Generation::open(configuration, workers, &held, log).await {
            Ok(generation) => generation,
            Err(failure) => {
                log.write_rendered(notices);
                return Err(failure);
            }
        };
        log.redirect(generation.sinks());
        log.write_rendered(notices);
        let configuration = &generation.configuration;
        if let Some(folder) = &configuration.config.main.working_directory {
            std::env::set_current_dir(folder).map_err(|error| CallFailed::on("chdir", folder.display(), error))?;
        }
        let descriptors = generation.descriptors().map_err(|error| CallFailed::new("dup", error))?;
        let (log_socket, listener) =
            transaction_log::listen(&configuration.config, &configuration.pid_path(), log).unzip();
        let (ask_socket, asked) = ask_socket::listen(&configuration.pid_path(), log).unzip();
        let log_of_transactions = transaction_log::hub(&configuration.config, listener.map(OwnedFd::from));
        let desk = ask_socket::serve(asked.map(OwnedFd::from));
        let options = ServingOptions { workers, respawned: 0, reloads: 0, log: log_of_transactions, desk };
        let server = Server::start(configuration.config.clone(), &configuration.material, descriptors, options)
            .map_err(|diagnostics| configuration.reject(&diagnostics))?;
        let log = Log::new(generation.sinks(), Console::Quiet);
        Ok(Single { log, generation, server, workers, neighbours, log_socket, ask_socket, pid_file: None })
    }

    async fn obey(&mut self, received: Received) {
        if received != Received::Child {
            self.log.write(LogLevel::Notice, received.describe());
        }
        match received {
            Received::Reload => self.reload().await,
            Received::Quit | Received::Leave => self.server.quit(),
            Received::Terminate | Received::Interrupt => self.server.stop(),
            Received::Reopen => self.reopen(),
            Received::Upgrade => self.log.write(LogLevel::Error, "SIGUSR2 needs \"master_process on\""),
            Received::Child => {}
        }
    }

    async fn reload(&mut self) {
        match self.open_anew().await {
            Ok(generation) => {
                self.neighbours.remove_unix(&self.generation.listeners, &generation.listeners);
                self.log.redirect(generation.sinks());
                let old = std::mem::replace(&mut self.generation, generation).configuration;
                let new = &self.generation.configuration;
                let (old, new) = ((&old.config, &*old.pid_path()), (&new.config, &*new.pid_path()));
                transaction_log::follow(old, new, self.log_socket.as_ref(), &self.log);
                self.follow_pid_path();
            }
            Err(failure) => self.log.write_rendered(&failure.rendered()),
        }
    }

    /// The pid file and what is beside it go where the configuration says now.
    fn follow_pid_path(&mut self) {
        let path = self.generation.configuration.pid_path();
        if self.pid_file.as_ref().is_some_and(|file| file.path() != path) {
            match PidFile::write(&path) {
                Ok(file) => self.pid_file = Some(file),
                Err(failure) => self.log.write(LogLevel::Emerg, &failure.to_string()),
            }
        }
        ask_socket::follow(self.ask_socket.as_mut(), &path, &self.log);
    }

    async fn open_anew(&self) -> Result<Generation, StartError> {
        let configuration = self.generation.configuration.read_anew()?;
        if let Err(error) = limits::follow(&self.generation.configuration.config.main, &configuration.config.main) {
            self.log.write(LogLevel::Alert, &CallFailed::new("setrlimit", error).to_string());
        }
        self.log.write_rendered(&configuration.rendered_changes(&self.generation.configuration));
        let generation = Generation::open(configuration, self.workers, &self.generation.listeners, &self.log).await?;
        let descriptors = generation.descriptors().map_err(|error| CallFailed::new("dup", error))?;
        let configuration = &generation.configuration;
        let reloaded = self.server.reload(configuration.config.clone(), &configuration.material, descriptors);
        reloaded.map_err(|diagnostics| {
            self.neighbours.remove_unix(&generation.listeners, &self.generation.listeners);
            configuration.reject(&diagnostics)
        })?;
        self.server.keep_log(&configuration.config);
        self.server.settled().await;
        Ok(generation)
    }

    fn reopen(&mut self) {
        for failure in logs::reopen_all(&mut self.generation.logs, self.generation.account.as_ref()) {
            self.log.write(LogLevel::Emerg, &failure.to_string());
        }
        self.log.redirect(self.generation.sinks());
        match self.generation.log_descriptors() {
            Ok(descriptors) => self.server.reopen(descriptors),
            Err(error) => self.log.write(LogLevel::Alert, &CallFailed::new("dup", error).to_string()),
        }
    }
}
