//! `-s`: sends a signal to the process in the pid file.

use std::process::ExitCode;

use larder_conf::model::LogLevel;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::cli::{Options, Order};
use crate::configuration::{Configuration, Surroundings};
use crate::logs;
use crate::oserror::Reason;
use crate::paths::Paths;
use crate::pidfile;

/// Sends the signal, or prints why it cannot.
pub fn run(order: Order, options: &Options) -> ExitCode {
    let paths = Paths::new(options);
    let log = logs::starting_log(&paths);
    let surroundings = Surroundings::new(&paths, options.globals.clone());
    let path = match Configuration::pid_file(&surroundings) {
        Ok(path) => path,
        Err(rejected) => {
            log.write_rendered(&rejected.rendered);
            return ExitCode::FAILURE;
        }
    };
    log.write(LogLevel::Notice, "signal process started");
    let pid = match pidfile::read(&path) {
        Ok(pid) => pid,
        Err(failure) => {
            log.write(LogLevel::Error, &failure.to_string());
            return ExitCode::FAILURE;
        }
    };
    let signal = signal(order);
    match kill(Pid::from_raw(pid), signal) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let reason = std::io::Error::from(error);
            let number = signal as i32;
            log.write(LogLevel::Alert, &format!("kill({pid}, {number}) failed {}", Reason(&reason)));
            ExitCode::FAILURE
        }
    }
}

fn signal(order: Order) -> Signal {
    match order {
        Order::Stop => Signal::SIGTERM,
        Order::Quit => Signal::SIGQUIT,
        Order::Reload => Signal::SIGHUP,
        Order::Reopen => Signal::SIGUSR1,
    }
}
