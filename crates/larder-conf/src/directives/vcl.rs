//! `vcl`, `vcl_parameter` and their kin.

use super::tls::file;
use super::{Action, Args, DirectiveInfo, HS, HSL, ONE, directive, repeated};
use crate::cx::Cx;
use crate::diagnostic::{Diagnostic, Outcome};
use crate::level::Level;
use crate::model::At;
use crate::tree::Directive;

pub const TABLE: &[DirectiveInfo] = &[
    directive("vcl", HSL, ONE, Action::Level(vcl)),
    repeated("vcl_parameter", HSL, Args::Between(2, 2), Action::Level(parameter)),
    directive("vcl_identity", HSL, ONE, Action::Level(identity)),
    repeated("vcl_endpoint", HSL, Args::Between(2, 2), Action::Level(endpoint)),
    repeated("vcl_label", HSL, Args::Between(2, 2), Action::Level(label)),
    repeated("vcl_name", HSL, Args::Between(2, 2), Action::Level(name)),
    directive("vcl_raw_requests", HS, Args::Flag, Action::Level(raw_requests)),
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

/// Adds to what outer levels have set, and takes the place of their line for the same name.
fn label(level: &mut Level, cx: &mut Cx<'_>, d: &Directive) -> Outcome {
    let name = d.text(0);
    let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte));
    if !is_name {
        let message = format!("\"{name}\" cannot be a label: a letter, then letters, digits, _ and -");
        return Err(Diagnostic::error(message).at(d.arg(0).span));
    }
    let file = At { value: cx.conf_path(d.text(1)), span: d.arg(1).span };
    level.modules().vcl.labels.push((name.to_owned(), file));
    Ok(())
}

/// Adds to what outer levels have set.
fn name(level: &mut Level, cx: &mut Cx<'_>, d: &Directive) -> Outcome {
    level.modules().vcl.names.push((d.text(0).to_owned(), cx.conf_path(d.text(1))));
    Ok(())
}

fn raw_requests(level: &mut Level, _: &mut Cx<'_>, d: &Directive) -> Outcome {
    level.modules().vcl.raw_requests = d.flag()?;
    Ok(())
}

/// Adds to what outer levels have set. What the names and values may be is known to whoever reads the VCL.
fn parameter(level: &mut Level, _: &mut Cx<'_>, d: &Directive) -> Outcome {
    let name = At { value: d.text(0).to_owned(), span: d.arg(0).span };
    level.modules().vcl.parameters.push((name, d.text(1).to_owned()));
    Ok(())
}
