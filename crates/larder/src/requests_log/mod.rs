//! `larder log`: follows the requests of a running server, a line for each.
//!
//! It reads the log that varnishlog reads (`crate::vsl`). `options` reads the command line, `seen` puts a request together,
//! `chosen` says whether it is shown, and `line` how.

mod chosen;
mod line;
pub mod options;
mod seen;

use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::process::ExitCode;

use jiff::tz::TimeZone;
use larder_vsl::{Filter, Group};

use crate::ask;
use crate::configuration::{self, Configuration, Rejected};
use crate::invocation::Invocation;
use crate::transaction_log;
use crate::vsl::options::{CommandLine, Place};
use crate::vsl::{self, Form, Program, RunError};

use chosen::Chosen;
use line::Look;
use options::{Log, Server, Show};

/// Does what the command line asks for.
pub fn run(asked: Log, invocation: &Invocation) -> ExitCode {
    let asked = match asked {
        CommandLine::Show(mut show) => {
            match show.server.as_ref().map(socket).transpose() {
                Ok(None) => {}
                Ok(Some(Some(path))) => show.reading.place = Place::Server(Some(path)),
                Ok(Some(None)) => {
                    eprintln!("larder log: the configuration has \"larder_transaction_log off\": there is no log");
                    return ExitCode::FAILURE;
                }
                // It says who tells it, for each of its lines.
                Err(rejected) => {
                    eprint!("{}", rejected.rendered);
                    return ExitCode::FAILURE;
                }
            }
            CommandLine::Show(show)
        }
        other => other,
    };
    Program { name: "log", version: "", help: HELP, show: |show: &Show, _| show_log(show) }
        .run(&asked, invocation, None)
}

/// The socket at which a server tells its log; `None` if it tells none.
fn socket(server: &Server) -> Result<Option<PathBuf>, Rejected> {
    match server {
        Server::PidFile(path) => Ok(Some(transaction_log::beside_pid_file(path))),
        Server::Configuration(place) => {
            let config = Configuration::glance(&ask::surroundings(place))?;
            Ok(transaction_log::path(&config, &configuration::pid_file(&config)))
        }
    }
}

fn show_log(show: &Show) -> Result<(), RunError> {
    let chosen = Chosen::new(show.wanted.clone()).map_err(RunError::Match)?;
    let is_for_people = !show.json;
    let has_colours = is_for_people && io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let look = match is_for_people {
        true => Look::Text { zone: TimeZone::system(), has_colours },
        false => Look::Json,
    };
    vsl::run(&show.reading, &mut Lines { filter: Filter::default(), chosen, look }, None)
}

/// A line for each request that is chosen.
struct Lines {
    filter: Filter,
    chosen: Chosen,
    look: Look,
}

impl Form for Lines {
    fn filter(&self) -> &Filter {
        &self.filter
    }

    fn append(&mut self, group: &Group, out: &mut Vec<u8>) -> bool {
        let Some(seen) = seen::see(group).filter(|seen| self.chosen.takes(seen)) else { return false };
        line::append(&seen, &self.look, out);
        true
    }
}

const HELP: &str = "\
Usage: larder log [options]

Follows the requests of a running server, a line for each when it has ended; Ctrl-C ends it.

Requests, of which all has to be true, and any of an option that is given several times:
  --host HOST      : for this host
  --url PREFIX     : whose path and query begin so
  --match REGEX    : in whose path and query the regular expression is found
  --method METHOD  : with this method
  --status STATUS  : with this status, such as 404, 5xx or 500-503
  --cache WORD     : of which the cache said hit, miss, expired, stale, updating, revalidated, bypass or pass;
                     hitmiss, hitpass, pipe or synth with a VCL; none where it was not asked
  --from ADDRESS   : of clients with this address, or in this network
  --slow TIME      : that took at least so long, such as 500ms or 2s
  --failed         : with an error, or a status of 500 and above
  -q QUERY         : of which this is true, in the words of varnishlog, such as 'ReqHeader:User-Agent ~ bot'

Server:
  -c, -p, -g       : its configuration, as for \"larder -h\"
  --pid FILE       : its pid file
  -n FOLDER|SOCKET : a \"larder varnishd\", by its folder; or the socket of the log
  -r FILE          : none: read what \"larder varnishlog -w\" has written; - for standard input

  -d, --kept       : show what the server has kept, and end
  -k NUMBER        : end when so many were shown
  --json           : a JSON object for each
  -h               : this help
";
