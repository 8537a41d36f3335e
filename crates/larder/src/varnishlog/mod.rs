//! `larder varnishlog`: varnishlog's command line. It shows the transaction log of a running server.
//!
//! `options` reads the command line, `forms` has what is written; the rest it shares with varnishncsa (`crate::vsl`).

mod forms;
pub mod options;

use std::process::ExitCode;

use larder_vsl::Filter;

use crate::daemon::Waiting;
use crate::invocation::Invocation;
use crate::vsl::{self, Program, RunError, regex};

use forms::{Frames, Text};
use options::{Rule, Varnishlog, WrittenAs};

/// Does what the command line asks for. `waiting` is who started this process as a daemon.
pub fn run(asked: &Varnishlog, invocation: &Invocation, waiting: Option<Waiting>) -> ExitCode {
    let program = Program { name: "varnishlog", version: VERSION, help: HELP, show };
    program.run(asked, invocation, waiting)
}

fn show(show: &options::Show, waiting: Option<Waiting>) -> Result<(), RunError> {
    let mut filter = filter(show)?;
    match show.written_as {
        WrittenAs::Text => {
            vsl::run(&show.reading, &mut Text { filter, verbose: show.verbose, unbuffered: show.unbuffered }, waiting)
        }
        WrittenAs::Frames => {
            // Without these, nobody could group what was written.
            let wrong = |error: larder_vsl::GlobError| RunError::Option('i', error.to_string());
            filter.exclude(b"Link").and_then(|()| filter.include(b"Begin,Link,End")).map_err(wrong)?;
            vsl::run(&show.reading, &mut Frames::new(filter, show.unbuffered), waiting)
        }
    }
}

/// Which records are shown.
fn filter(show: &options::Show) -> Result<Filter, RunError> {
    let reading = &show.reading;
    let mut filter = Filter::of_sides(reading.client, reading.backend, reading.inner);
    for Rule { letter, value } in &show.rules {
        let taken = match letter {
            'i' => filter.include(value).map_err(|error| error.to_string()),
            'x' => filter.exclude(value).map_err(|error| error.to_string()),
            'I' => {
                let taken = filter.include_matching(value, reading.caseless, &regex::compile);
                taken.map_err(|error| error.to_string())
            }
            _ => {
                let taken = filter.exclude_matching(value, reading.caseless, &regex::compile);
                taken.map_err(|error| error.to_string())
            }
        };
        taken.map_err(|why| RunError::Option(*letter, why))?;
    }
    Ok(filter)
}

const VERSION: &str = concat!("varnishlog (in the form of varnish-7.1, by larder-", env!("CARGO_PKG_VERSION"), ")\n");

const HELP: &str = "\
Usage: larder varnishlog [options]

Shows the transaction log of a running server, as it comes; Ctrl-C ends it.

  -n FOLDER|SOCKET: the folder of the server, as with larder varnishd -n, or the socket of its log
  -d              : show what the server has kept, and end
  -r FILE         : read what varnishlog -w has written; - for standard input
  -t SECONDS|off  : how long to wait for a server that is not there. Default: 5
  -g GROUPING     : session, request, vxid or raw: what is shown together. Default: vxid
  -q QUERY        : only groups of which this is true, such as 'RespStatus >= 500'; of several, any
  -Q FILE         : the same, from a file with a query on each line
  -C              : texts and regular expressions match in any case
  -c, -b          : only transactions of clients; of backends
  -E              : with -c, requests inside of others (ESI), too
  -i TAGS         : only records with these tags, such as ReqURL,Resp*
  -x TAGS         : no records with these tags
  -I [TAGS:]REGEX : only records that match
  -X [TAGS:]REGEX : no records that match
  -k NUMBER       : end when so many groups were shown
  -R N[/TIME]     : show at most N groups in a time, such as 10/1m. Default time: 1s
  -L NUMBER       : how many transactions wait for what belongs to them. Default: 1000
  -T SECONDS      : how long they wait. Default: 120
  -v              : the number of its transaction on each record
  -w FILE         : write to a file, for -r; SIGHUP opens it again
  -A              : with -w, write text
  -a              : with -w, append
  -u              : write each group at once
  -D              : be a daemon; needs -w
  -P FILE         : the pid file
  -V, -h          : show the version; show this
";
