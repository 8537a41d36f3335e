//! Warns of an `alias` that ends in a slash in a location that does not: `/i../secret` then leads to a file beside the
//! folder.

use crate::diagnostic::Diagnostic;
use crate::model::{Location, Matcher};
use crate::template;

pub(super) fn lint(location: &Location, found: &mut Vec<Diagnostic>) {
    let (Matcher::Prefix { path, .. }, Some(alias)) = (&location.matcher, &location.alias) else { return };
    // An alias inherited from an outer location replaces that location's prefix.
    let is_own = location.alias_replaces == Some(path.len());
    let folder = template::show(alias);
    if !is_own || location.internal || path.ends_with('/') || !folder.ends_with('/') {
        return;
    }
    found.push(
        *Diagnostic::warning(format!("\"{path}../\" leads out of \"{folder}\""))
            .at(alias.span)
            .label(format!(
                "what follows \"{path}\" is put behind this, and begins with \"..\" where somebody wants it to"
            ))
            .help(format!("write \"location {path}/\", with a slash as in the alias")),
    );
}
