//! `secure_link`: links with a checksum and an expiry time.

use super::{Action, DirectiveInfo, HSL, LOCATION, ONE, directive};
use crate::cx::Cx;
use crate::diagnostic::{Diagnostic, Outcome};
use crate::level::Level;
use crate::tree::Directive;

pub const TABLE: &[DirectiveInfo] = &[
    directive("secure_link", HSL, ONE, Action::Level(link)),
    directive("secure_link_md5", HSL, ONE, Action::Level(md5)),
    directive("secure_link_secret", LOCATION, ONE, Action::Level(secret)),
];

fn link(level: &mut Level, _: &mut Cx<'_>, d: &Directive) -> Outcome {
    let template = d.template(0)?;
    forget_secret(level, d)?;
    level.modules().secure_link.link = Some(template);
    Ok(())
}

fn md5(level: &mut Level, _: &mut Cx<'_>, d: &Directive) -> Outcome {
    let template = d.template(0)?;
    forget_secret(level, d)?;
    level.modules().secure_link.md5 = Some(template);
    Ok(())
}

fn secret(level: &mut Level, _: &mut Cx<'_>, d: &Directive) -> Outcome {
    if level.seen.has("secure_link") || level.seen.has("secure_link_md5") {
        return Err(mixed(d));
    }
    let link = &mut level.modules().secure_link;
    link.link = None;
    link.md5 = None;
    link.secret = Some(d.text(0).to_owned());
    Ok(())
}

/// A secret that is inherited gives way to the other way; one of the same level is an error.
fn forget_secret(level: &mut Level, d: &Directive) -> Outcome {
    if level.seen.has("secure_link_secret") {
        return Err(mixed(d));
    }
    level.modules().secure_link.secret = None;
    Ok(())
}

fn mixed(d: &Directive) -> Box<Diagnostic> {
    Diagnostic::error("\"secure_link_secret\" cannot be mixed with \"secure_link\" and \"secure_link_md5\"")
        .at(d.span())
}
