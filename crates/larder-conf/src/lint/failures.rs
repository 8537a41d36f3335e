//! Warns of `*_cache_valid any` for long: the answer of an origin that fails once is shown to all.

use std::time::Duration;

use crate::diagnostic::Diagnostic;
use crate::model::Http;

use super::Cached;
use super::sources::Sources;

pub(super) fn lint(http: &Http, cached: &[Cached<'_>], found: &mut Vec<Diagnostic>) {
    let sources = Sources::of(http);
    for place in cached {
        let (cache, prefix) = (&place.origin.cache, place.prefix);
        // The first one that names a status or "any" decides.
        let Some(at) = cache.valid.iter().position(|valid| valid.status.is_none()) else { continue };
        let Some((any, named)) = cache.valid.get(..=at).and_then(<[_]>::split_last) else { continue };
        let is_limited = named.iter().any(|valid| valid.status.is_some_and(|status| status >= 500));
        let sees_status = |name: &str| {
            let of_answers = ["upstream_", "sent_http_", "status"];
            sources.leaves(name).iter().any(|leaf| of_answers.iter().any(|start| leaf.starts_with(start)))
        };
        let is_kept_out = cache.no_cache.iter().flat_map(super::variables).any(sees_status);
        if any.ttl <= SHORT || is_limited || is_kept_out {
            continue;
        }
        found.push(
            *Diagnostic::warning(format!(
                "a failure of the origin is kept for {}: \"{prefix}_cache_valid any\" is for 500 and 503, too",
                shown(any.ttl)
            ))
            .at(any.span)
            .label("who comes while it fails has all others see it")
            .help(format!(
                "name what is to be kept, as \"{prefix}_cache_valid 404 1m;\"; or write \"{prefix}_cache_valid 500 502 503 504 \
                 1s;\" before it"
            )),
        );
    }
}

/// As it is written in a configuration.
fn shown(ttl: Duration) -> String {
    let seconds = ttl.as_secs();
    let units = [(86_400, 'd'), (3600, 'h'), (60, 'm')];
    let unit = units.iter().find(|(length, _)| seconds.is_multiple_of(*length));
    unit.map_or_else(|| format!("{seconds}s"), |(length, name)| format!("{}{name}", seconds / length))
}

/// For so long nobody minds: nginx's own manual has a minute.
const SHORT: Duration = Duration::from_secs(60);
