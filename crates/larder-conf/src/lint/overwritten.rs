//! Warns of a `map` whose variable decides about a cache, and which a `set` overwrites for all requests: the map has no
//! effect.

use crate::Span;
use crate::diagnostic::Diagnostic;
use crate::model::{Http, Rewrite, Template};
use crate::template;

use super::sources::texts;
use super::{Cached, variables};

pub(super) fn lint(http: &Http, cached: &[Cached<'_>], found: &mut Vec<Diagnostic>) {
    for map in &http.maps {
        let name = map.variable.as_str();
        let guarded: Vec<&Cached<'_>> =
            cached.iter().filter(|place| place.guard_variables().any(|guard| guard == name)).collect();
        let sets: Vec<Option<(Span, String)>> = guarded.iter().map(|place| set_for_all(place, name)).collect();
        // Where one cache still sees what the map says, the others may have been exempted.
        let Some(Some((span, value))) = sets.first() else { continue };
        if sets.iter().any(Option::is_none) {
            continue;
        }
        let mut warning = *Diagnostic::warning(format!(
            "\"set ${name}\" overwrites what the \"map\" says: no cache sees its value"
        ))
        .at(*span)
        .label(format!("from here on ${name} is \"{value}\" for every request"))
        .help(format!("remove this \"set\": a variable of a \"map\" has its \"default\" already; or give the \"map\" another name, and both to \"{}_no_cache\"", guarded.first().map_or("proxy", |place| place.prefix)));
        warning.related.push((map.span, "what this says is lost".to_owned()));
        found.push(warning);
    }
}

/// The `set` outside of any `if` that a request passes on its way to the cache, unless the value is read before or kept.
fn set_for_all(place: &Cached<'_>, name: &str) -> Option<(Span, String)> {
    let reads = |template: &Template| variables(template).any(|used| used == name);
    for step in place.server.script.iter().chain(&place.location.script) {
        match step {
            Rewrite::Set { name: set, value } if set == name && !reads(value) => {
                return Some((value.span, template::show(value)));
            }
            Rewrite::Set { value, .. } if reads(value) => return None,
            Rewrite::If { condition, .. } if texts(condition).into_iter().any(reads) => return None,
            Rewrite::Set { .. }
            | Rewrite::If { .. }
            | Rewrite::Rewrite { .. }
            | Rewrite::Return { .. }
            | Rewrite::Break => {}
        }
    }
    None
}
