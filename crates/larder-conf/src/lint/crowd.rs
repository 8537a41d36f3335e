//! Warns of `*_cache_lock` and `*_cache_background_update` without `*_cache_use_stale updating`: when a page expires, all
//! who request it at that moment still reach the origin, or wait.

use crate::diagnostic::Diagnostic;
use crate::model::{CacheMode, UseStale};

use super::Cached;

pub(super) fn lint(cached: &[Cached<'_>], found: &mut Vec<Diagnostic>) {
    for place in cached {
        let (origin, prefix) = (place.origin, place.prefix);
        if origin.cache.use_stale.updating {
            continue;
        }
        if !origin.cache.lock {
            waiting(place, found);
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

/// Warns of a background update that never runs, unless it may be meant for pages whose origin allows it.
fn waiting(place: &Cached<'_>, found: &mut Vec<Diagnostic>) {
    let (origin, prefix) = (place.origin, place.prefix);
    let may_be_allowed = matches!(place.location.settings.caching.mode, CacheMode::Nginx)
        && !origin.ignore_headers.cache_control
        && origin.cache.use_stale == UseStale::default();
    if !origin.cache.background_update || may_be_allowed {
        return;
    }
    found.push(
        *Diagnostic::warning(format!(
            "\"{prefix}_cache_background_update\" has nothing to do: who asks for a page that has expired waits for the new one"
        ))
        .at(place.zone.span)
        .label(format!("\"{prefix}_cache_use_stale\" of this cache has no \"updating\""))
        .help(format!("add \"updating\" to \"{prefix}_cache_use_stale\"")),
    );
}
