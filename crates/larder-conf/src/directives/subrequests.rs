//! Subrequests: `ssi`, `add_before_body`, `add_after_body`, `auth_request`, `mirror` and their settings.

use super::{Action, Args, DirectiveInfo, HSL, HSLI, ONE, compression, directive, http, repeated};
use crate::cx::Cx;
use crate::diagnostic::{Diagnostic, Outcome};
use crate::level::Level;
use crate::model::Esi;
use crate::template;
use crate::tree::Directive;

pub const TABLE: &[DirectiveInfo] = &[
    // ngx_http_ssi_module.
    directive("ssi", HSLI, Args::Flag, Action::Level(|l, _, d| http::set(&mut l.subrequests().ssi.enabled, d.flag()))),
    directive(
        "ssi_silent_errors",
        HSL,
        Args::Flag,
        Action::Level(|l, _, d| http::set(&mut l.subrequests().ssi.silent_errors, d.flag())),
    ),
    directive(
        "ssi_last_modified",
        HSL,
        Args::Flag,
        Action::Level(|l, _, d| http::set(&mut l.subrequests().ssi.last_modified, d.flag())),
    ),
    directive(
        "ssi_value_length",
        HSL,
        ONE,
        Action::Level(|l, _, d| http::set(&mut l.subrequests().ssi.value_bytes, d.size(0))),
    ),
    repeated(
        "ssi_types",
        HSL,
        Args::AtLeast(1),
        Action::Level(|l, cx, d| {
            let is_first = l.is_first;
            compression::types(is_first, &mut l.subrequests().ssi.types, cx, d)
        }),
    ),
    directive("ssi_min_file_chunk", HSL, ONE, BUFFERS),
    directive("ssi_ignore_recycled_buffers", HSL, Args::Flag, BUFFERS),
    // Our own.
    directive("larder_esi", HSL, ONE, Action::Level(esi)),
    // ngx_http_addition_module.
    directive(
        "add_before_body",
        HSL,
        ONE,
        Action::Level(|l, _, d| {
            l.subrequests().before_body = uri(d);
            Ok(())
        }),
    ),
    directive(
        "add_after_body",
        HSL,
        ONE,
        Action::Level(|l, _, d| {
            l.subrequests().after_body = uri(d);
            Ok(())
        }),
    ),
    repeated(
        "addition_types",
        HSL,
        Args::AtLeast(1),
        Action::Level(|l, cx, d| {
            let is_first = l.is_first;
            compression::types(is_first, &mut l.subrequests().addition_types, cx, d)
        }),
    ),
    // ngx_http_auth_request_module.
    directive(
        "auth_request",
        HSL,
        ONE,
        Action::Level(|l, _, d| {
            l.subrequests().auth_request = Some(d.text(0).to_owned()).filter(|uri| uri != "off" && !uri.is_empty());
            Ok(())
        }),
    ),
    repeated("auth_request_set", HSL, Args::Between(2, 2), Action::Level(auth_request_set)),
    // ngx_http_mirror_module.
    repeated("mirror", HSL, ONE, Action::Level(mirror)),
    directive(
        "mirror_request_body",
        HSL,
        Args::Flag,
        Action::Level(|l, _, d| http::set(&mut l.subrequests().mirror_body, d.flag())),
    ),
    // ngx_http_core_module.
    directive(
        "subrequest_output_buffer_size",
        HSL,
        ONE,
        Action::Level(|l, _, d| http::set(&mut l.subrequests().output_buffer_bytes, d.size(0))),
    ),
];

const BUFFERS: Action = Action::Harmless("larder has no buffers of files to tune here");

fn esi(level: &mut Level, _: &mut Cx<'_>, d: &Directive) -> Outcome {
    level.subrequests().esi = match d.text(0) {
        "off" => Esi::Off,
        "on" => Esi::On,
        "surrogate" => Esi::Surrogate,
        other => {
            return Err(Diagnostic::error(format!("invalid value \"{other}\" in \"larder_esi\" directive"))
                .at(d.arg(0).span)
                .label("it must be \"off\", \"on\" or \"surrogate\""));
        }
    };
    Ok(())
}

/// A path; an empty one is none.
fn uri(d: &Directive) -> Option<String> {
    Some(d.text(0).to_owned()).filter(|uri| !uri.is_empty())
}

/// Those of a level replace all that it would inherit.
fn auth_request_set(level: &mut Level, _: &mut Cx<'_>, d: &Directive) -> Outcome {
    let name = template::variable_name(d.arg(0))?;
    let value = d.template(1)?;
    let is_first = level.is_first;
    let sets = &mut level.subrequests().auth_request_set;
    if is_first {
        sets.clear();
    }
    sets.push((name, value));
    Ok(())
}

/// `mirror off` stands alone in its level.
fn mirror(level: &mut Level, _: &mut Cx<'_>, d: &Directive) -> Outcome {
    let is_first = level.is_first;
    let mirrors = &mut level.subrequests().mirrors;
    let is_off = d.text(0) == "off";
    if !is_first && (is_off || mirrors.is_empty()) {
        return Err(d.duplicate());
    }
    if is_first {
        mirrors.clear();
    }
    if !is_off {
        mirrors.push(d.text(0).to_owned());
    }
    Ok(())
}
