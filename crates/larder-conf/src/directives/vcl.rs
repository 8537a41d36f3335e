//! `vcl` and `vcl_parameter`.

use super::tls::file;
use super::{Action, Args, DirectiveInfo, HSL, ONE, directive, repeated};
use crate::cx::Cx;
use crate::diagnostic::Outcome;
use crate::level::Level;
use crate::model::At;
use crate::tree::Directive;

pub const TABLE: &[DirectiveInfo] = &[
    directive("vcl", HSL, ONE, Action::Level(vcl)),
    repeated("vcl_parameter", HSL, Args::Between(2, 2), Action::Level(parameter)),
];

fn vcl(level: &mut Level, cx: &mut Cx<'_>, d: &Directive) -> Outcome {
    level.modules().vcl.file = match d.text(0) {
        "off" => None,
        _ => Some(file(cx, d)?),
    };
    Ok(())
}

/// Adds to what outer levels have set. What the names and values may be is known to whoever reads the VCL.
fn parameter(level: &mut Level, _: &mut Cx<'_>, d: &Directive) -> Outcome {
    let name = At { value: d.text(0).to_owned(), span: d.arg(0).span };
    level.modules().vcl.parameters.push((name, d.text(1).to_owned()));
    Ok(())
}
