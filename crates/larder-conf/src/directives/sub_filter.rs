//! `sub_filter`: texts that are replaced in bodies.

use super::{Action, Args, DirectiveInfo, HSL, compression, directive, http, repeated};
use crate::cx::Cx;
use crate::diagnostic::{Diagnostic, Outcome};
use crate::level::Level;
use crate::tree::Directive;

/// As many texts as nginx looks for at once.
const PAIRS_MAX: usize = 255;

pub const TABLE: &[DirectiveInfo] = &[
    repeated("sub_filter", HSL, Args::Between(2, 2), Action::Level(sub_filter)),
    repeated(
        "sub_filter_types",
        HSL,
        Args::AtLeast(1),
        Action::Level(|l, cx, d| {
            let is_first = l.is_first;
            compression::types(is_first, &mut l.modules().sub_filter.types, cx, d)
        }),
    ),
    directive(
        "sub_filter_once",
        HSL,
        Args::Flag,
        Action::Level(|l, _, d| http::set(&mut l.modules().sub_filter.once, d.flag())),
    ),
    directive(
        "sub_filter_last_modified",
        HSL,
        Args::Flag,
        Action::Level(|l, _, d| http::set(&mut l.modules().sub_filter.last_modified, d.flag())),
    ),
];

fn sub_filter(level: &mut Level, _: &mut Cx<'_>, d: &Directive) -> Outcome {
    let is_first = level.is_first;
    let pairs = &mut level.modules().sub_filter.pairs;
    if is_first {
        pairs.clear();
    }
    if d.text(0).is_empty() {
        return Err(Diagnostic::error("empty search pattern").at(d.arg(0).span));
    }
    if pairs.len() == PAIRS_MAX {
        return Err(Diagnostic::error(format!("number of search patterns exceeds {PAIRS_MAX}")).at(d.span()));
    }
    pairs.push((d.template(0)?, d.template(1)?));
    Ok(())
}
