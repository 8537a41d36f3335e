//! What is counted: `status_zone`, and `larder_status`, which tells it. NGINX Plus calls that `api`.

use super::{Action, Args, DirectiveInfo, LOCATION, NONE, ONE, SERVER, directive};
use crate::contexts::Contexts;
use crate::cx::Cx;
use crate::diagnostic::{Diagnostic, Outcome};
use crate::level::Level;
use crate::model::Handler;
use crate::tree::Directive;

pub const TABLE: &[DirectiveInfo] = &[
    directive("status_zone", SERVER.or(LOCATION).or(Contexts::IF_IN_LOCATION), ONE, Action::Level(status_zone)),
    directive(
        "larder_status",
        LOCATION,
        NONE,
        Action::Level(|l, _, _| {
            l.handler = Handler::Status;
            Ok(())
        }),
    ),
    directive("api", LOCATION, Args::Between(0, 1), Action::Level(api)),
];

/// `api [write=off]`.
fn api(level: &mut Level, _: &mut Cx<'_>, d: &Directive) -> Outcome {
    match d.args.first() {
        None => {}
        Some(word) if word.text == "write=off" => {}
        Some(word) if word.text == "write=on" => {
            return Err(Diagnostic::error("nothing can be changed by \"api\"").at(word.span).help(
                "leave \"write=on\" out: what is counted can be read; origins are changed in the configuration",
            ));
        }
        Some(word) => return Err(d.invalid(word, "\"write=off\"")),
    }
    level.handler = Handler::Status;
    Ok(())
}

/// A zone of the server, or of the location and those inside it; `off` for none.
fn status_zone(level: &mut Level, _: &mut Cx<'_>, d: &Directive) -> Outcome {
    let word = d.arg(0);
    if word.text.is_empty() {
        return Err(Diagnostic::error("invalid zone name \"\"").at(word.span).label("it must be a name, such as shop"));
    }
    let zone = Some(word.text.clone()).filter(|zone| zone != "off");
    match level.context == Contexts::SERVER {
        true => level.server_zone = zone,
        false => level.modules().status_zone = zone,
    }
    Ok(())
}
