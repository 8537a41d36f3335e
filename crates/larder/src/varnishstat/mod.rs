//! `larder varnishstat`: varnishstat's command line. It shows the counters of a running `larder varnishd`.
//!
//! `options` reads the command line, `ask` asks the server, `point` is what that tells, and `forms` and `screen` show it.

mod ask;
mod filter;
mod forms;
pub mod options;
pub mod point;
mod screen;

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use larder_server::clock;

use crate::varnishd::workdir;

use options::{Form, Show, Varnishstat};
use point::Point;

/// Does what the command line asks for.
pub fn run(asked: &Varnishstat) -> ExitCode {
    let done = match asked {
        // Where varnishstat writes them.
        Varnishstat::Version => io::stderr().write_all(VERSION.as_bytes()).map_err(|error| error.to_string()),
        Varnishstat::Help => print(HELP),
        Varnishstat::Show(show) => self::show(show),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("larder varnishstat: {why}");
            ExitCode::FAILURE
        }
    }
}

fn show(show: &Show) -> Result<(), String> {
    let socket = workdir::place(show.folder.as_deref()).join(workdir::STATS_SOCKET);
    let all = ask::waiting(&socket, show.patience).map_err(|error| error.to_string())?;
    let meant = all.iter().filter(|point| show.filter.takes(&point.name));
    match show.form {
        Form::Screen if io::stdout().is_terminal() => screen::run(&socket, &show.filter, all),
        Form::Screen => {
            eprintln!("larder varnishstat: the output is no terminal, so the counters are printed once, as with -1");
            print(&forms::once(meant, uptime(&all)))
        }
        Form::Once => print(&forms::once(meant, uptime(&all))),
        Form::Json => print(&forms::json(meant, &stamp())),
        Form::Xml => print(&forms::xml(meant, &stamp())),
        Form::List => print(&forms::list(meant)),
    }
}

fn print(text: &str) -> Result<(), String> {
    io::stdout().write_all(text.as_bytes()).map_err(|error| format!("cannot write the counters: {error}"))
}

/// How long the server has been serving, in seconds; 0 if it does not serve.
fn uptime(points: &[Point]) -> u64 {
    points.iter().find(|point| point.name == "MAIN.uptime").map_or(0, |point| point.value)
}

/// The local time: `2026-11-26T00:01:22`.
fn stamp() -> String {
    let seconds = i64::try_from(clock::now().secs()).unwrap_or_default();
    let now = Timestamp::from_second(seconds).unwrap_or_default().to_zoned(TimeZone::system());
    now.strftime("%Y-%m-%dT%H:%M:%S").to_string()
}

/// Exporters look for a number of varnishstat in it, to know which form of JSON they get.
const VERSION: &str = concat!("varnishstat (in the form of varnish-7.1, by larder-", env!("CARGO_PKG_VERSION"), ")\n");

const HELP: &str = "\
Usage: larder varnishstat [options]

Shows the counters of a running \"larder varnishd\", refreshed each second; q or Ctrl-C ends it.

  -1              : print the counters once
  -j              : print them as JSON
  -x              : print them as XML
  -l              : list their names
  -f GLOB         : only the counters of this name; -f ^GLOB leaves some out. The first that matches decides
  -I GLOB         : the same as -f GLOB
  -X GLOB         : the same as -f ^GLOB
  -n FOLDER       : the folder of the server, as with larder varnishd -n
  -t SECONDS|off  : how long to wait for a server that is not there. Default: 5
  -V              : show the version
  -h              : show this

-r is read and means nothing here.
";
