//! Warns of `larder_cluster_share` where `*_cache_lock` is off: larders that miss a page at once all fetch it.

use crate::diagnostic::Diagnostic;
use crate::model::{Http, OriginSettings, Settings};

use super::Cached;

pub(super) fn lint(http: &Http, cached: &[Cached<'_>], found: &mut Vec<Diagnostic>) {
    if http.cluster.as_ref().is_none_or(|cluster| cluster.shelf.is_none()) {
        return;
    }
    for place in cached {
        let (origin, prefix, own) = (place.origin, place.prefix, &place.location.settings);
        // A part of a page is not shared, and a VCL has locks of its own.
        let is_shared = own.parts.slice_bytes == 0 && own.modules.vcl.file.is_none();
        // Who has switched it off here means it.
        let is_on_around = [&http.settings, &place.server.root.settings].iter().any(|it| of(prefix, it).cache.lock);
        if origin.cache.lock || is_on_around || !is_shared {
            continue;
        }
        let stale = match origin.cache.use_stale.updating {
            true => String::new(),
            false => format!(
                ", and for pages that expire \"{prefix}_cache_use_stale updating error timeout;\" and \
                 \"{prefix}_cache_background_update on;\""
            ),
        };
        found.push(
            *Diagnostic::warning(
                "\"larder_cluster_share\" is on, and nobody waits here for the larder that fetches a page: all who miss it fetch it",
            )
            .at(place.zone.span)
            .label(format!("\"{prefix}_cache_lock\" of this cache is off, as it is by default"))
            .help(format!("add \"{prefix}_cache_lock on;\"{stale}")),
        );
    }
}

fn of<'a>(prefix: &str, settings: &'a Settings) -> &'a OriginSettings {
    match prefix {
        "proxy" => &settings.proxy.origin,
        _ => &settings.fastcgi.origin,
    }
}
