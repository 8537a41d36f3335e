//! `larder_ban`: requests that ban pages of a zone.

use super::{Action, Args, DirectiveInfo, HSL, access, directive};
use crate::cx::{Cx, Reference};
use crate::diagnostic::{Diagnostic, Outcome};
use crate::level::Level;
use crate::model::{At, BanRule, PurgeFrom};
use crate::tree::Directive;

pub const TABLE: &[DirectiveInfo] = &[directive("larder_ban", HSL, Args::AtLeast(1), Action::Level(ban))];

/// `ZONE METHOD TEXT from all|ADDRESS...`, or `off`.
fn ban(level: &mut Level, cx: &mut Cx<'_>, d: &Directive) -> Outcome {
    if d.args.len() == 1 && d.text(0) == "off" {
        level.modules().ban = None;
        return Ok(());
    }
    let [zone, method, _, from, who @ ..] = d.args.as_slice() else {
        return Err(Diagnostic::error("invalid number of arguments in \"larder_ban\" directive")
            .at(d.span())
            .help(FORM));
    };
    // A method that visitors use would ban in place of answering them, and would hide the location.
    let is_method = method.text.bytes().all(|byte| byte.is_ascii_uppercase() || matches!(byte, b'-' | b'_'));
    if !is_method || VISITORS.contains(&method.text.as_str()) {
        return Err(Diagnostic::error(format!("invalid method \"{}\"", method.text))
            .at(method.span)
            .label("it must be a method in capitals that visitors do not use, such as BAN"));
    }
    if from.text != "from" || who.is_empty() {
        return Err(Diagnostic::error(format!("invalid parameter \"{}\", expected \"from\" and addresses", from.text))
            .at(from.span)
            .label("who may ban has to be said: \"from\" and addresses, or \"from all\"")
            .help(FORM));
    }
    let from = match who {
        [all] if all.text == "all" => PurgeFrom::All,
        nets => PurgeFrom::Nets(nets.iter().map(|word| access::network(cx, d, word)).collect::<Outcome<_>>()?),
    };
    let zone = At { value: zone.text.clone(), span: zone.span };
    cx.references.push(Reference::CacheZone(zone.clone(), "larder_ban"));
    level.modules().ban = Some(BanRule { zone, method: method.text.clone(), text: d.template(2)?, from });
    Ok(())
}

const FORM: &str = "write \"larder_ban ZONE BAN $http_x_ban from ADDRESS\", or \"larder_ban off\"";
const VISITORS: [&str; 8] = ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "CONNECT", "TRACE"];
