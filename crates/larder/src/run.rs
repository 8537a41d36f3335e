//! Serves a configuration, as a daemon or in the foreground, with or without a supervisor.

use std::process::ExitCode;

use larder_conf::model::LogLevel;

use crate::cli::{NoEffect, Options};
use crate::configuration::{Configuration, Surroundings};
use crate::daemon::{self, Waiting};
use crate::inherit::{self, Inherited};
use crate::invocation::Invocation;
use crate::logs;
use crate::paths::Paths;
use crate::single;
use crate::sockets::{self, Listener};
use crate::supervise::{self, Beginning};

/// Who has started this process.
pub enum Caller {
    /// A person or a script. If a daemon is wanted, it has to be started.
    Outside,
    /// A larder process that waits until we are ready.
    Front(Waiting),
    /// The process that we replace. It is a daemon already, if one is wanted.
    Predecessor(Inherited),
}

/// Reads the configuration and serves it.
pub fn run(options: &Options, invocation: Invocation, caller: Caller) -> ExitCode {
    let paths = Paths::new(options);
    let log = logs::starting_log(&paths);
    let configuration = match Configuration::read(Surroundings::new(&paths, options.globals.clone())) {
        Ok(configuration) => configuration,
        Err(rejected) => {
            log.write_rendered(&rejected.rendered);
            return ExitCode::FAILURE;
        }
    };
    let is_daemon = configuration.config.main.daemon;
    // Written when the logs of the configuration are open.
    let mut notices = configuration.rendered_notices(NoEffect::Counted);
    let (waiting, inherited) = match caller {
        Caller::Outside if is_daemon => {
            // The supervisor reads the configuration again, and reports everything about it.
            return daemon::start(&invocation).unwrap_or_else(|failure| {
                log.write(LogLevel::Emerg, &failure.to_string());
                ExitCode::FAILURE
            });
        }
        Caller::Outside => (None, from_systemd(&configuration, &mut notices)),
        Caller::Front(waiting) => (Some(waiting), from_systemd(&configuration, &mut notices)),
        Caller::Predecessor(inherited) => (None, Some(inherited)),
    };
    match configuration.config.main.master_process {
        true => supervise::run(configuration, log, Beginning { invocation, is_daemon, waiting, inherited, notices }),
        false => single::run(configuration, log, single::Beginning { waiting, inherited, notices }),
    }
}

/// The sockets that systemd passes. Those that no `listen` names are closed again.
fn from_systemd(configuration: &Configuration, notices: &mut String) -> Option<Inherited> {
    let inherited = inherit::take_from_systemd()?;
    let plans = sockets::plan(&configuration.config);
    let unnamed = |listener: &&Listener| !plans.iter().any(|plan| plan.address == *listener.address());
    for listener in inherited.listeners.iter().filter(unnamed) {
        notices.push_str(&format!(
            "larder: [warn] systemd passes the socket {listener}, which no \"listen\" names: write one, or take its \
             ListenStream= away\n"
        ));
    }
    Some(inherited)
}
