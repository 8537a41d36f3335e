//! The larder binary: command line in, exit code out.

mod account;
mod amounts;
mod ask;
mod ask_socket;
mod cache;
mod check;
mod cli;
mod cluster_status;
mod configuration;
mod control;
mod daemon;
mod doctor;
mod folders;
mod fpm_pools;
mod generation;
mod hostname;
mod import;
mod inherit;
mod invocation;
mod levels;
mod limits;
mod links;
mod loader;
mod log;
mod logs;
mod machine;
mod option_words;
mod order;
mod oserror;
mod paths;
mod pidfile;
mod process;
mod processes;
mod profile;
mod remark;
mod requests_log;
mod run;
mod scratch;
mod serve;
mod serve_socket;
mod serving;
mod serving_process;
mod shadow;
mod shell;
mod signals;
mod single;
mod sockets;
mod spawn;
mod supervise;
mod tell_socket;
mod terminal;
mod told;
mod top;
mod transaction_log;
mod unit;
mod upgrade;
mod varnishd;
mod varnishlog;
mod varnishncsa;
mod varnishstat;
mod vcls;
mod version;
mod vsl;

use std::process::ExitCode;

use crate::ask::options::What;
use crate::cli::{CliError, Command};
use crate::daemon::Waiting;
use crate::invocation::Invocation;
use crate::run::Caller;
use crate::spawn::Role;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    match Role::of(std::env::args_os()) {
        Role::Called(invocation) => called(invocation),
        Role::Supervisor(invocation) => supervisor(invocation),
        Role::Serving => serving_process::run(),
        Role::Tied(words) => failed(&spawn::become_tied(&words)),
    }
}

fn called(invocation: Invocation) -> ExitCode {
    match cli::parse(invocation.words.iter().cloned()) {
        Ok(Command::Show(show)) => {
            eprint!("{}", version::text(show));
            ExitCode::SUCCESS
        }
        Ok(Command::Run(options)) => {
            let caller = inherit::take().map_or(Caller::Outside, Caller::Predecessor);
            run::run(&options, invocation, caller)
        }
        Ok(Command::Test(test)) => check::run(&test),
        Ok(Command::Signal(order, options)) => order::run(order, &options),
        Ok(Command::Serve(serve)) => serve::run(&serve),
        Ok(Command::Cache(cache)) => cache::run(&cache),
        Ok(Command::Ask(asked)) if asked.what == What::Now => top::run(&asked),
        Ok(Command::Ask(asked)) if asked.what == What::Cluster => cluster_status::run(&asked),
        Ok(Command::Ask(asked)) => ask::run(&asked),
        Ok(Command::Log(asked)) => requests_log::run(asked, &invocation),
        Ok(Command::Doctor(asked)) => doctor::run(&asked),
        Ok(Command::Import(asked)) => import::run(&asked, &invocation.program),
        Ok(Command::Profile(what)) => profile::run(what.as_deref()),
        Ok(Command::Shadow(asked)) => shadow::run(&asked),
        Ok(Command::Varnishd(asked)) => varnishd::run(&asked, &invocation, None),
        Ok(Command::Varnishstat(asked)) => varnishstat::run(&asked),
        Ok(Command::Varnishlog(asked)) => varnishlog::run(&asked, &invocation, None),
        Ok(Command::Varnishncsa(asked)) => varnishncsa::run(&asked, &invocation, None),
        Err(error) => {
            let help = match error {
                CliError::Varnishd(_) => "larder varnishd -?".to_owned(),
                CliError::Varnishstat(_) => "larder varnishstat -h".to_owned(),
                CliError::Varnishlog(_) => "larder varnishlog -h".to_owned(),
                CliError::Varnishncsa(_) => "larder varnishncsa -h".to_owned(),
                CliError::Log(_) => "larder log -h".to_owned(),
                CliError::Ask(verb, _) => format!("larder {} -h", verb.name()),
                CliError::Doctor(_) => "larder doctor -h".to_owned(),
                CliError::Import(_) => "larder import -h".to_owned(),
                CliError::Shadow(_) => "larder shadow -h".to_owned(),
                _ => "larder -h".to_owned(),
            };
            eprintln!("larder: {error}");
            eprintln!("larder: \"{help}\" shows what can be asked for");
            // Where 1 and 2 say what was found, neither may mean that nobody looked.
            match error {
                CliError::Doctor(_) => ExitCode::from(3),
                CliError::Import(_) | CliError::Shadow(_) => ExitCode::from(2),
                _ => ExitCode::FAILURE,
            }
        }
    }
}

/// Runs as the supervisor of a daemon: the process that started us waits until we are ready.
fn supervisor(invocation: Invocation) -> ExitCode {
    spawn::set_process_name(invocation.process_name());
    let waiting = match Waiting::detach() {
        Ok(waiting) => waiting,
        Err(failure) => return failed(&failure),
    };
    match cli::parse(invocation.words.iter().cloned()) {
        Ok(Command::Run(options)) => run::run(&options, invocation, Caller::Front(waiting)),
        Ok(Command::Varnishd(asked)) => varnishd::run(&asked, &invocation, Some(waiting)),
        Ok(Command::Varnishlog(asked)) => varnishlog::run(&asked, &invocation, Some(waiting)),
        Ok(Command::Varnishncsa(asked)) => varnishncsa::run(&asked, &invocation, Some(waiting)),
        Ok(_) => failed(&"a supervisor is started by larder, not by hand"),
        Err(error) => failed(&error),
    }
}

fn failed(reason: &dyn std::fmt::Display) -> ExitCode {
    eprintln!("larder: [emerg] {reason}");
    ExitCode::FAILURE
}
