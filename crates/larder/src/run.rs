//! Serving what a configuration describes, as a daemon or in the foreground, supervised or not.

use std::ffi::OsString;
use std::process::ExitCode;

use larder_conf::Severity;
use larder_conf::model::LogLevel;

use crate::cli::Options;
use crate::configuration::{Configuration, Surroundings};
use crate::daemon::{self, Waiting};
use crate::logs;
use crate::paths::Paths;
use crate::{single, supervise};

/// Who runs.
pub enum Caller {
    /// A person or a script, with these words; a daemon is still to be started if one is wanted.
    Outside(Vec<OsString>),
    /// A process of ours that waits until we are ready.
    Front(Waiting),
}

/// Reads the configuration and does as it says.
pub fn run(options: &Options, caller: Caller) -> ExitCode {
    let paths = Paths::new(options);
    let log = logs::starting_log(&paths);
    let configuration = match Configuration::read(Surroundings::new(&paths, options.globals.clone())) {
        Ok(configuration) => configuration,
        Err(rejected) => {
            log.write_rendered(&rejected.rendered);
            return ExitCode::FAILURE;
        }
    };
    let waiting = match caller {
        Caller::Outside(words) if configuration.config.main.daemon => {
            // The supervisor reads the configuration again, and says all that is to be said about it.
            return daemon::start(&words).unwrap_or_else(|failure| {
                log.write(LogLevel::Emerg, &failure.to_string());
                ExitCode::FAILURE
            });
        }
        Caller::Outside(_) => None,
        Caller::Front(waiting) => Some(waiting),
    };
    for severity in [Severity::Warning, Severity::Notice] {
        log.write_rendered(&configuration.rendered_notices(severity));
    }
    match configuration.config.main.master_process {
        true => supervise::run(configuration, log, waiting),
        false => single::run(configuration, log, waiting),
    }
}
