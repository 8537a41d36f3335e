//! `valid_referers`: which sites may link to a page.

use super::{Action, Args, Contexts, DirectiveInfo, LOCATION, SERVER, listen, repeated};
use crate::cx::Cx;
use crate::diagnostic::{Diagnostic, Outcome};
use crate::level::Level;
use crate::model::{At, Pattern, ServerName, ValidReferers};
use crate::tree::{Directive, Word};

const SL: Contexts = SERVER.or(LOCATION);

pub const TABLE: &[DirectiveInfo] = &[repeated("valid_referers", SL, Args::AtLeast(1), Action::Level(valid_referers))];

fn valid_referers(level: &mut Level, _: &mut Cx<'_>, d: &Directive) -> Outcome {
    let is_first = level.is_first;
    let place = &mut level.modules().referers;
    if is_first {
        // nginx inherits the expressions alone where a level names others.
        let patterns = place.take().map(|around| around.patterns).unwrap_or_default();
        *place = Some(ValidReferers { patterns, inherits_patterns: true, ..ValidReferers::default() });
    }
    let referers = place.get_or_insert_default();
    for word in &d.args {
        match word.text.as_str() {
            "none" => referers.none = true,
            "blocked" => referers.blocked = true,
            "server_names" => referers.server_names = true,
            "" => return Err(Diagnostic::error("invalid referer \"\"").at(word.span)),
            text => match text.strip_prefix('~') {
                Some("") => return Err(Diagnostic::error("empty regex in \"~\"").at(word.span)),
                Some(source) => {
                    if std::mem::take(&mut referers.inherits_patterns) {
                        referers.patterns.clear();
                    }
                    referers.patterns.push(Pattern { source: source.to_owned(), caseless: true, span: word.span });
                }
                None => name(referers, word)?,
            },
        }
    }
    Ok(())
}

fn name(referers: &mut ValidReferers, word: &Word) -> Outcome {
    let (host, path) = match word.text.find('/') {
        Some(at) => (&word.text[..at], Some(word.text[at..].to_owned())),
        None => (word.text.as_str(), None),
    };
    let host = host.to_ascii_lowercase();
    if !listen::is_name_or_wildcard(&host) || matches!(host.as_str(), "*" | "*." | ".") {
        return Err(Diagnostic::error(format!("invalid hostname or wildcard \"{host}\"")).at(word.span));
    }
    let parsed = match (host.strip_prefix("*."), host.strip_suffix(".*"), host.strip_prefix('.')) {
        (Some(rest), _, _) => ServerName::Suffix(format!(".{rest}")),
        (_, Some(rest), _) => ServerName::Prefix(format!("{rest}.")),
        (_, _, Some(rest)) => ServerName::Dotted(rest.to_owned()),
        _ => ServerName::Exact(host.clone()),
    };
    if referers.names.iter().any(|(known, _)| known.value == parsed) {
        return Err(Diagnostic::error(format!("conflicting parameter \"{host}\"")).at(word.span));
    }
    referers.names.push((At { value: parsed, span: word.span }, path));
    Ok(())
}
