//! The serving process: gets everything over its standard input, gives up its privileges, and serves.

use std::os::fd::OwnedFd;
use std::process::ExitCode;

use larder_conf::model::LogLevel;
use tokio::runtime::Builder;

use crate::ask_socket;
use crate::configuration::Configuration;
use crate::control::{Channel, Configure, ControlError, Message};
use crate::limits;
use crate::oserror::CallFailed;
use crate::serving::{Descriptors, Server, ServingOptions};
use crate::signals::{Received, Signals};
use crate::spawn;
use crate::transaction_log;

/// Serves until told to end.
pub fn run() -> ExitCode {
    spawn::set_process_name(std::ffi::OsStr::new("larder"));
    match Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime.block_on(serve()),
        Err(error) => failed(&CallFailed::new("epoll_create", error)),
    }
}

/// Reports an error on standard error, because the supervisor cannot be reached.
fn failed(reason: &dyn std::fmt::Display) -> ExitCode {
    eprintln!("larder: [emerg] {reason}");
    ExitCode::FAILURE
}

async fn serve() -> ExitCode {
    let (mut signals, mut channel) = match open() {
        Ok(open) => open,
        Err(failure) => return failed(&failure),
    };
    let first = tokio::select! {
        first = channel.receive() => first,
        () = told_to_end(&mut signals) => return ExitCode::SUCCESS,
    };
    let started = match first {
        Ok(Some((Message::Configure(configure), descriptors))) => start(*configure, descriptors),
        Ok(_) => return failed(&"this process is started by larder, not by hand"),
        Err(error) => return failed(&error),
    };
    match started {
        Ok(server) => {
            // If this fails, the supervisor is gone, which the loop will notice.
            let _ = channel.send(&Message::Ready, &[]).await;
            Loop { server, channel: Some(channel) }.run(&mut signals).await;
            ExitCode::SUCCESS
        }
        Err(reason) => {
            let _ = channel.send(&Message::Refused(reason), &[]).await;
            ExitCode::FAILURE
        }
    }
}

fn open() -> Result<(Signals, Channel), CallFailed> {
    let signals = Signals::new().map_err(|error| CallFailed::new("sigaction", error))?;
    let socket = spawn::take_stdin_socket()?;
    let channel = Channel::new(socket).map_err(|error| CallFailed::new("getsockopt", error))?;
    Ok((signals, channel))
}

async fn told_to_end(signals: &mut Signals) {
    while !matches!(signals.next().await, Received::Quit | Received::Terminate | Received::Interrupt) {}
}

/// Gives up privileges and starts the workers. An error is text of several lines.
fn start(configure: Configure, descriptors: Vec<OwnedFd>) -> Result<Server, String> {
    let one_line = |failure: CallFailed| format!("larder: [emerg] {failure}\n");
    let workers = usize::try_from(configure.workers).unwrap_or(usize::MAX);
    let (respawned, reloads) = (configure.respawned, configure.reloads);
    if let Some(account) = &configure.account {
        account.become_it().map_err(one_line)?;
    }
    let mut descriptors = descriptors;
    let log_socket = configure.has_log_socket.then(|| descriptors.pop()).flatten();
    let ask_socket = configure.has_ask_socket.then(|| descriptors.pop()).flatten();
    let (configuration, descriptors) = unpack(configure, descriptors)?;
    let main = &configuration.config.main;
    if let Some(folder) = &main.working_directory {
        std::env::set_current_dir(folder)
            .map_err(|error| one_line(CallFailed::on("chdir", folder.display(), error)))?;
    }
    let (log, desk) = (transaction_log::hub(&configuration.config, log_socket), ask_socket::serve(ask_socket));
    let options = ServingOptions { workers, respawned, reloads, log, desk };
    Server::start(configuration.config.clone(), &configuration.material, descriptors, options)
        .map_err(|diagnostics| configuration.render(&diagnostics))
}

/// The configuration and the descriptors of a message.
fn unpack(configure: Configure, descriptors: Vec<OwnedFd>) -> Result<(Configuration, Descriptors), String> {
    let files = configure.loader();
    let configuration =
        Configuration::from_memory(configure.surroundings, files).map_err(|rejected| rejected.rendered)?;
    let mut descriptors = descriptors.into_iter();
    let mut listeners = Vec::with_capacity(configure.listeners.len());
    for (address, count) in configure.listeners {
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        listeners.push((address, descriptors.by_ref().take(count).collect()));
    }
    let logs = configure.logs.into_iter().zip(descriptors).collect();
    Ok((configuration, Descriptors { listeners, logs }))
}

/// The state of the serving process.
struct Loop {
    server: Server,
    /// `None` after the supervisor is gone.
    channel: Option<Channel>,
}

impl Loop {
    async fn run(mut self, signals: &mut Signals) {
        loop {
            let heard = async {
                match &mut self.channel {
                    Some(channel) => channel.receive().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                received = signals.next() => self.obey(received),
                () = self.server.ended() => return,
                heard = heard => self.hear(heard).await,
            }
        }
    }

    /// Obeys signals to end, from the supervisor or, if that is gone, from an operator. Other signals are for the
    /// supervisor, and only reach us if a terminal sends them to all processes.
    fn obey(&mut self, received: Received) {
        match received {
            Received::Quit => self.server.quit(),
            Received::Terminate | Received::Interrupt => self.server.stop(),
            Received::Reload | Received::Reopen | Received::Upgrade | Received::Leave | Received::Child => {}
        }
    }

    async fn hear(&mut self, heard: Result<Option<(Message, Vec<OwnedFd>)>, ControlError>) {
        match heard {
            Ok(Some((Message::Configure(configure), descriptors))) => {
                let answer = match self.reload(*configure, descriptors) {
                    Ok(()) => {
                        self.server.settled().await;
                        Message::Ready
                    }
                    Err(reason) => Message::Refused(reason),
                };
                if let Some(channel) = &self.channel {
                    // If this fails, the supervisor is gone, which is noticed next.
                    let _ = channel.send(&answer, &[]).await;
                }
            }
            Ok(Some((Message::Reopen(logs), descriptors))) => {
                self.reopen(logs.into_iter().zip(descriptors).collect());
            }
            Ok(Some((Message::Ready | Message::Refused(_), _))) => {
                self.server.log(LogLevel::Alert, "the supervisor answered, which is not its place");
            }
            Ok(None) => self.be_alone("the supervisor is gone"),
            Err(error) => self.be_alone(&error.to_string()),
        }
    }

    /// Goes on without a supervisor: reload, reopening of logs and restart no longer work.
    fn be_alone(&mut self, why: &str) {
        self.channel = None;
        self.server.log(
            LogLevel::Alert,
            &format!("{why}: serving goes on, but without reload, reopening of logs and restart; end this process and start larder"),
        );
    }

    fn reload(&self, configure: Configure, descriptors: Vec<OwnedFd>) -> Result<(), String> {
        let (configuration, descriptors) = unpack(configure, descriptors)?;
        // The supervisor, which may do more, says so if that fails.
        let _ = limits::raise_open_files(configuration.config.main.worker_rlimit_nofile);
        let reloaded = self.server.reload(configuration.config.clone(), &configuration.material, descriptors);
        reloaded.map_err(|diagnostics| configuration.render(&diagnostics))?;
        self.server.keep_log(&configuration.config);
        Ok(())
    }

    fn reopen(&self, logs: Vec<crate::logs::OpenLog>) {
        self.server.reopen(logs);
    }
}
