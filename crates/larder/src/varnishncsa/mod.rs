//! `larder varnishncsa`: varnishncsa's command line. It writes a line for each request, as web servers do.
//!
//! `options` reads the command line, `format` a format, `fields` finds in a transaction what a format needs, and `line`
//! puts it together; the rest it shares with varnishlog (`crate::vsl`).

mod fields;
mod format;
mod line;
pub mod options;

use std::fs;
use std::process::ExitCode;

use jiff::tz::TimeZone;
use larder_vsl::{Filter, Group};

use crate::daemon::Waiting;
use crate::invocation::Invocation;
use crate::vsl::{self, Form, Program, RunError};

use format::{Format, USUAL_FORMAT};
use options::{FormatPlace, Show, Varnishncsa};

/// Does what the command line asks for. `waiting` is who started this process as a daemon.
pub fn run(asked: &Varnishncsa, invocation: &Invocation, waiting: Option<Waiting>) -> ExitCode {
    let program = Program { name: "varnishncsa", version: VERSION, help: HELP, show };
    program.run(asked, invocation, waiting)
}

fn show(show: &Show, waiting: Option<Waiting>) -> Result<(), RunError> {
    let (letter, text) = match &show.format {
        None => ('F', USUAL_FORMAT.as_bytes().to_vec()),
        Some(FormatPlace::Here(text)) => ('F', text.clone()),
        Some(FormatPlace::File(path)) => {
            let text = fs::read(path);
            let text = text.map_err(|source| RunError::OptionFile { letter: 'f', path: path.clone(), source })?;
            ('f', text.split(|byte| *byte == b'\n').next().unwrap_or_default().to_vec())
        }
    };
    if text.is_empty() {
        return Err(RunError::Option(letter, "the format is empty: write one, such as '%h %t \"%r\" %s'".to_owned()));
    }
    let zone = TimeZone::system();
    let format = Format::read(&text, show.json, &zone);
    let format = format.map_err(|error| RunError::Option(letter, error.to_string()))?;
    let reading = &show.reading;
    let filter = Filter::of_sides(reading.client, reading.backend, reading.inner);
    vsl::run(reading, &mut Lines { filter, format, zone }, waiting)
}

/// A line for each transaction of a group.
struct Lines {
    filter: Filter,
    format: Format,
    zone: TimeZone,
}

impl Form for Lines {
    fn filter(&self) -> &Filter {
        &self.filter
    }

    fn append(&mut self, group: &Group, out: &mut Vec<u8>) -> bool {
        let start = out.len();
        for member in &group.members {
            if let Some(fields) = fields::find(member, &self.format) {
                line::append(&self.format, &fields, &self.zone, out);
            }
        }
        out.len() > start
    }
}

const VERSION: &str = concat!("varnishncsa (in the form of varnish-7.1, by larder-", env!("CARGO_PKG_VERSION"), ")\n");

const HELP: &str = "\
Usage: larder varnishncsa [options]

Writes a line for each request to a running server, as it comes; Ctrl-C ends it.

  -n FOLDER|SOCKET: the folder of the server, as with larder varnishd -n, or the socket of its log
  -F FORMAT       : the format. Default: %h %l %u %t \"%r\" %s %b \"%{Referer}i\" \"%{User-agent}i\"
  -f FILE         : the same, from the first line of a file
  -j              : values are escaped as in JSON
  -c, -b          : requests of clients, which is the default; requests to backends
  -E              : with -c, requests inside of others (ESI), too
  -d              : what the server has kept, and end
  -r FILE         : read what varnishlog -w has written; - for standard input
  -t SECONDS|off  : how long to wait for a server that is not there. Default: 5
  -g GROUPING     : request or vxid: what a query is asked about. Default: vxid
  -q QUERY        : only groups of which this is true, such as 'RespStatus >= 500'; of several, any
  -Q FILE         : the same, from a file with a query on each line
  -C              : texts and regular expressions match in any case
  -k NUMBER       : end when so many groups were shown
  -R N[/TIME]     : show at most N groups in a time, such as 10/1m. Default time: 1s
  -L NUMBER       : how many transactions wait for what belongs to them. Default: 1000
  -w FILE         : write to a file; SIGHUP opens it again
  -a              : with -w, append
  -D              : be a daemon; needs -w
  -P FILE         : the pid file
  -V, -h          : show the version; show this
";
