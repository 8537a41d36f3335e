//! Warns of `*_cache_lock` without `*_cache_use_stale updating`: when a page expires, all who request it at that moment
//! still reach the origin.

use crate::diagnostic::Diagnostic;

use super::Cached;

pub(super) fn lint(cached: &[Cached<'_>], found: &mut Vec<Diagnostic>) {
    for place in cached {
        let (origin, prefix) = (place.origin, place.prefix);
        if !origin.cache.lock || origin.cache.use_stale.updating {
            continue;
        }
        found.push(
            *Diagnostic::warning(format!(
                "\"{prefix}_cache_lock\" is for pages that are not there yet: when one expires, all who ask for it go to the \
                 origin at once"
            ))
            .at(place.zone.span)
            .label(format!("\"{prefix}_cache_use_stale\" of this cache has no \"updating\""))
            .help(format!(
                "add \"{prefix}_cache_use_stale updating error timeout;\" and \"{prefix}_cache_background_update on;\""
            )),
        );
    }
}
