//! `larder varnishd`: varnishd's command line. It serves what a VCL says, or checks the VCL.
//!
//! `options` reads the command line and `process` is what runs: it writes a configuration (`nginx_conf`) around the VCL
//! that is active, serves it (`site`), and obeys the CLI (`cli`, `orders`).

mod backends;
mod bans;
mod care;
mod check;
mod cli;
mod counters;
mod jail;
pub mod listen;
mod loaded;
mod log_settings;
pub mod nginx_conf;
pub mod options;
mod orders;
mod param_texts;
mod params;
mod process;
pub mod settings;
mod site;
mod state;
mod stats_socket;
pub mod storages;
mod vcl_lists;
pub mod vcls;
pub mod workdir;

use std::io::{self, Write as _};
use std::process::ExitCode;

use larder_vcl::BUILTIN;
use tokio::runtime::Builder;
use tokio::task::LocalSet;

use crate::daemon::{self, Waiting};
use crate::invocation::Invocation;
use crate::oserror::CallFailed;

use options::{Serve, Varnishd};
use process::ProcessError;

/// Does what the command line asks for. `waiting` is who started this process as a daemon.
pub fn run(asked: &Varnishd, invocation: &Invocation, waiting: Option<Waiting>) -> ExitCode {
    match asked {
        Varnishd::Version => {
            say(&format!("varnishd (larder-{})\n", env!("CARGO_PKG_VERSION")));
            ExitCode::SUCCESS
        }
        Varnishd::Help => {
            say(HELP);
            ExitCode::SUCCESS
        }
        Varnishd::Builtin => match io::stdout().write_all(BUILTIN.as_bytes()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => failed(&format!("cannot write the builtin VCL: {error}")),
        },
        Varnishd::Check(check) => match check::run(check) {
            true => ExitCode::SUCCESS,
            false => ExitCode::FAILURE,
        },
        Varnishd::Serve(serve) if !serve.in_foreground && waiting.is_none() => {
            daemon::start(invocation).unwrap_or_else(|failure| failed(&failure.to_string()))
        }
        Varnishd::Serve(serve) => match self::serve(serve, waiting) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => failed(&error.to_string()),
        },
    }
}

fn serve(serve: &Serve, waiting: Option<Waiting>) -> Result<(), ProcessError> {
    let runtime =
        Builder::new_current_thread().enable_all().build().map_err(|error| CallFailed::new("epoll_create", error))?;
    LocalSet::new().block_on(&runtime, process::run(serve, waiting))
}

fn failed(why: &str) -> ExitCode {
    // Diagnostics say already who speaks.
    let speaker = if why.starts_with("larder: ") { "" } else { "larder: " };
    say(&format!("{speaker}{}\n", why.trim_end()));
    ExitCode::FAILURE
}

/// Writes to standard error. Whoever closed it is told by the exit code all the same.
fn say(text: &str) {
    let _ = io::stderr().write_all(text.as_bytes());
}

const HELP: &str = "\
Usage: larder varnishd (-f FILE... | -b ADDRESS) [options]

Serves what a VCL says, with the options of varnishd. Without -F it is a daemon.

  -a [NAME=]ADDRESS[,PROXY] : where to listen: :80, HOST:PORT, [IPV6]:PORT, or the path of a socket, then with
                    user=, group= and mode=. Default: :80
  -b ADDRESS      : the builtin VCL before a backend: HOST[:PORT], or the path of a Unix socket
  -f FILE         : a VCL; of several, the last is active. -f '' begins without one
  -s [NAME=]KIND  : a storage: malloc[,SIZE], default[,SIZE] or file,PATH[,SIZE]
  -p NAME=VALUE   : a parameter
  -t SECONDS      : the same as -p default_ttl
  -r NAME,...     : parameters that the CLI may not set
  -T ADDRESS      : where the CLI is; none for nowhere. Default: a free port of localhost
  -M ADDRESS      : a manager, to which the CLI connects
  -S FILE         : the secret of the CLI; none for none. Default: a new one, in the folder of -n
  -I FILE         : commands of the CLI that are carried out first
  -l SIZE         : how much of the transaction log is kept; nothing if it is not said
  -n FOLDER       : the folder of this server; a name is a folder in /var/lib/varnish
  -i NAME         : the name of this server
  -j KIND         : the account that serves: unix[,user=NAME] or none
  -P FILE         : the pid file
  -F              : stay in the foreground
  -C              : check the VCL, and exit
  -V              : show the version
  -x builtin      : show the builtin VCL

-E, -h and -W are read and mean nothing here; -d is refused.
";
