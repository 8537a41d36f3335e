//! What `larder varnishlog` and `larder varnishncsa` share: they read the transactions of a server, put them in groups, and
//! show those that a query chooses.
//!
//! `options` reads the letters that both have, `source` is where transactions come from, `output` where texts go, and `run`
//! moves them until it is told to end. `regex` has the expressions of queries and filters, `text` finds words in records,
//! `handling` what the cache has made of a request, and `quote` keeps values on their line.

pub mod handling;
pub mod options;
pub mod output;
pub mod quote;
pub mod regex;
mod run;
mod source;
pub mod text;

pub use run::{Form, RunError, run};

use std::io::{self, Write};
use std::process::ExitCode;

use crate::daemon::{self, Waiting};
use crate::invocation::Invocation;

use options::{CommandLine, Reading};

/// One of the two programs; `S` is what its options say, with those that both have.
pub struct Program<S> {
    pub name: &'static str,
    /// What `-V` prints.
    pub version: &'static str,
    /// What `-h` prints.
    pub help: &'static str,
    /// Shows a log.
    pub show: fn(&S, Option<Waiting>) -> Result<(), RunError>,
}

impl<S: AsRef<Reading>> Program<S> {
    /// Does what the command line asks for. `waiting` is who started this process as a daemon.
    pub fn run(&self, asked: &CommandLine<S>, invocation: &Invocation, waiting: Option<Waiting>) -> ExitCode {
        let done = match asked {
            // Where Varnish's write them.
            CommandLine::Version => {
                eprint!("{}", self.version);
                Ok(())
            }
            CommandLine::Help => print(self.help),
            CommandLine::Show(show) if show.as_ref().as_ref().daemon && waiting.is_none() => {
                return daemon::start(invocation).unwrap_or_else(|failure| self.failed(&failure));
            }
            CommandLine::Show(show) => (self.show)(show, waiting),
        };
        done.map_or_else(|why| self.failed(&why), |()| ExitCode::SUCCESS)
    }

    fn failed(&self, why: &dyn std::fmt::Display) -> ExitCode {
        eprintln!("larder {}: {why}", self.name);
        ExitCode::FAILURE
    }
}

/// Writes a text to standard output, for those who asked for it.
fn print(text: &str) -> Result<(), RunError> {
    let written = io::stdout().write_all(text.as_bytes());
    written.map_err(|source| RunError::Output { name: "standard output".to_owned(), source })
}
