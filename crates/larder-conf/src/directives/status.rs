//! What is counted, and by which name: `status_zone`.

use super::{Action, DirectiveInfo, LOCATION, ONE, SERVER, directive};
use crate::contexts::Contexts;
use crate::cx::Cx;
use crate::diagnostic::{Diagnostic, Outcome};
use crate::level::Level;
use crate::tree::Directive;

pub const TABLE: &[DirectiveInfo] =
    &[directive("status_zone", SERVER.or(LOCATION).or(Contexts::IF_IN_LOCATION), ONE, Action::Level(status_zone))];

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
