//! Warns of counters that everybody may read, and of a dashboard that nothing can be asked through.

use crate::diagnostic::Diagnostic;
use crate::model::{Handler, Http, Location, Matcher, Server};

use super::open_purge::{asks_who, has_secret, is_closed, is_of_this_machine, is_out_of_reach};
use super::sources::Sources;
use super::{each_location, each_step};

pub(super) fn lint(http: &Http, found: &mut Vec<Diagnostic>) {
    let sources = Sources::of(http);
    for server in &http.servers {
        let is_here_alone = is_of_this_machine(server);
        each_location(&server.root, &mut |location| {
            let Some(told) = Told::of(&location.handler) else { return };
            if matches!(told, Told::Status) {
                by_one_path(location, found);
            }
            if !is_here_alone && is_open(server, location, &sources) {
                found.push(
                    *Diagnostic::warning("everybody may read what is counted here: nothing says who")
                        .at(location.span)
                        .label(told.label())
                        .help("add \"allow\" with the addresses that read it, as 127.0.0.1, and \"deny all\"; or \"auth_basic\""),
                );
            }
        });
    }
}

/// What a location tells.
#[derive(Clone, Copy)]
enum Told {
    Status,
    Metrics,
}

impl Told {
    fn of(handler: &Handler) -> Option<Self> {
        match handler {
            Handler::Status => Some(Self::Status),
            Handler::Metrics => Some(Self::Metrics),
            Handler::Static
            | Handler::Mp4
            | Handler::Flv
            | Handler::FastCgi(_)
            | Handler::Proxy(_)
            | Handler::StubStatus
            | Handler::Admin
            | Handler::EmptyGif
            | Handler::Purge { .. } => None,
        }
    }

    fn label(self) -> &'static str {
        match self {
            Self::Status => {
                "\"larder_status\" tells addresses of origins, URLs of visitors, and why they are not cached"
            }
            Self::Metrics => "\"larder_metrics\" tells names of caches and their folders, and how busy the server is",
        }
    }
}

fn is_open(server: &Server, location: &Location, sources: &Sources) -> bool {
    !is_closed(location)
        && !is_out_of_reach(server, location)
        && !has_secret(&location.matcher)
        && !asks_who(&server.script, sources)
        && !asks_who(&location.script, sources)
}

/// Warns of a `larder_status` whose page is at one path, and nothing below it.
fn by_one_path(location: &Location, found: &mut Vec<Diagnostic>) {
    let Matcher::Exact(path) = &location.matcher else { return };
    let mut is_led_elsewhere = false;
    each_step(&location.script, &mut |_| is_led_elsewhere = true);
    if is_led_elsewhere {
        return;
    }
    found.push(
        *Diagnostic::warning(format!("\"larder_status\" answers nothing but \"{path}\" here"))
            .at(location.span)
            .label(format!("what its page asks for is below, as \"{}/larder/1/live\"", path.trim_end_matches('/')))
            .help(format!("write \"location {path}\" without \"=\"")),
    );
}
