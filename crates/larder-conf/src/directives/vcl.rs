//! `vcl`, `vcl_parameter` and their kin.

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
    directive("vcl_identity", HSL, ONE, Action::Level(identity)),
    repeated("vcl_endpoint", HSL, Args::Between(2, 2), Action::Level(endpoint)),
];

fn vcl(level: &mut Level, cx: &mut Cx<'_>, d: &Directive) -> Outcome {
    level.modules().vcl.file = match d.text(0) {
        "off" => None,
        _ => Some(file(cx, d)?),
    };
    Ok(())
}

fn identity(level: &mut Level, _: &mut Cx<'_>, d: &Directive) -> Outcome {
    level.modules().vcl.identity = Some(d.text(0).to_owned());
    Ok(())
}

fn endpoint(level: &mut Level, _: &mut Cx<'_>, d: &Directive) -> Outcome {
    level.modules().vcl.endpoints.push((d.text(0).to_owned(), d.text(1).to_owned()));
    Ok(())
}

/// Adds to what outer levels have set. What the names and values may be is known to whoever reads the VCL.
fn parameter(level: &mut Level, _: &mut Cx<'_>, d: &Directive) -> Outcome {
    let name = At { value: d.text(0).to_owned(), span: d.arg(0).span };
    level.modules().vcl.parameters.push((name, d.text(1).to_owned()));
    Ok(())
}
