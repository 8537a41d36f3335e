//! The larder binary: command line in, exit code out.

mod account;
mod cache;
mod check;
mod cli;
mod configuration;
mod control;
mod daemon;
mod folders;
mod generation;
mod levels;
mod limits;
mod loader;
mod log;
mod logs;
mod order;
mod oserror;
mod paths;
mod pidfile;
mod process;
mod run;
mod serve;
mod serving;
mod serving_process;
mod signals;
mod single;
mod sockets;
mod spawn;
mod supervise;
mod version;

use std::ffi::OsString;
use std::process::ExitCode;

use crate::cli::Command;
use crate::daemon::Waiting;
use crate::run::Caller;
use crate::spawn::Role;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    match Role::of(std::env::args_os()) {
        Role::Called(words) => called(words),
        Role::Supervisor(words) => supervisor(words),
        Role::Serving => serving_process::run(),
        Role::Tied(words) => failed(&spawn::become_tied(&words)),
    }
}

fn called(words: Vec<OsString>) -> ExitCode {
    match cli::parse(words.iter().cloned()) {
        Ok(Command::Show(show)) => {
            eprint!("{}", version::text(show));
            ExitCode::SUCCESS
        }
        Ok(Command::Run(options)) => run::run(&options, Caller::Outside(words)),
        Ok(Command::Test(test)) => check::run(&test),
        Ok(Command::Signal(order, options)) => order::run(order, &options),
        Ok(Command::Serve(serve)) => serve::run(&serve),
        Ok(Command::Cache(cache)) => cache::run(&cache),
        Err(error) => {
            eprintln!("larder: {error}");
            eprintln!("larder: \"larder -h\" shows what can be asked for");
            ExitCode::FAILURE
        }
    }
}

/// A process of ours started us with the words that it was called with, and waits.
fn supervisor(words: Vec<OsString>) -> ExitCode {
    spawn::set_process_name();
    let waiting = match Waiting::detach() {
        Ok(waiting) => waiting,
        Err(failure) => return failed(&failure),
    };
    match cli::parse(words) {
        Ok(Command::Run(options)) => run::run(&options, Caller::Front(waiting)),
        Ok(_) => failed(&"a supervisor is started by larder, not by hand"),
        Err(error) => failed(&error),
    }
}

fn failed(reason: &dyn std::fmt::Display) -> ExitCode {
    eprintln!("larder: [emerg] {reason}");
    ExitCode::FAILURE
}
