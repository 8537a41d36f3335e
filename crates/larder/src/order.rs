//! `-s`: sends a signal to the process in the pid file.

use std::fs;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use larder_conf::model::LogLevel;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::ask_socket::EXTENSION;
use crate::cli::{Options, Order};
use crate::configuration::{Configuration, Surroundings};
use crate::logs;
use crate::oserror::Reason;
use crate::paths::Paths;
use crate::pidfile::{self, beside};

/// Sends the signal, or prints why it cannot.
pub fn run(order: Order, options: &Options) -> ExitCode {
    let paths = Paths::of_running(options);
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
    if let Some(program) = stranger(pid, &path) {
        let pid_file = path.display();
        log.write(
            LogLevel::Error,
            &format!(
                "process {pid} of \"{pid_file}\" is {}, and no larder: name the configuration of the larder that runs with -c",
                program.display()
            ),
        );
        return ExitCode::FAILURE;
    }
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

/// The program of a process, if it is no larder: nginx often has the same pid file in its configuration.
fn stranger(pid: i32, pid_path: &Path) -> Option<PathBuf> {
    // Of a process of others the system says whether it may be sent a signal.
    let program = fs::read_link(format!("/proc/{pid}/exe")).ok()?;
    let is_ours = || std::env::current_exe().is_ok_and(|own| own == program);
    let is_named_so = program.file_name().is_some_and(|name| name.to_string_lossy().starts_with("larder"));
    // A larder by another name answers.
    let answers = || UnixStream::connect(beside(pid_path, EXTENSION)).is_ok();
    (!is_named_so && !is_ours() && !answers()).then_some(program)
}

fn signal(order: Order) -> Signal {
    match order {
        Order::Stop => Signal::SIGTERM,
        Order::Quit => Signal::SIGQUIT,
        Order::Reload => Signal::SIGHUP,
        Order::Reopen => Signal::SIGUSR1,
    }
}
