//! Warns of a cache that stores nothing, by `*_buffering off` or a `*_no_cache` that always holds.

use crate::diagnostic::Diagnostic;
use crate::model::{Handler, Http, Location, OriginSettings, Settings, Template};
use crate::template;

use super::Cached;

pub(super) fn lint(http: &Http, cached: &[Cached<'_>], found: &mut Vec<Diagnostic>) {
    for server in &http.servers {
        within(&http.settings, &server.root, cached, found);
    }
}

fn within(outer: &Settings, location: &Location, cached: &[Cached<'_>], found: &mut Vec<Diagnostic>) {
    match &location.handler {
        Handler::Proxy(_) => compare("proxy", &outer.proxy.origin, &location.settings.proxy.origin, cached, found),
        Handler::FastCgi(_) => {
            compare("fastcgi", &outer.fastcgi.origin, &location.settings.fastcgi.origin, cached, found)
        }
        _ => {}
    }
    for inner in &location.locations {
        within(&location.settings, inner, cached, found);
    }
}

fn compare(
    prefix: &str,
    outer: &OriginSettings,
    origin: &OriginSettings,
    cached: &[Cached<'_>],
    found: &mut Vec<Diagnostic>,
) {
    let Some(zone) = &origin.cache.zone else { return };
    let is_inherited = outer.cache.zone.as_ref().is_some_and(|it| it.span == zone.span);
    never_stored(prefix, zone, origin, is_inherited && !holds_always(&outer.cache.no_cache), cached, found);
    // Switched off where the cache is inherited, it is meant to keep these answers out.
    if origin.response.buffering || is_inherited && outer.response.buffering {
        return;
    }
    found.push(
        *Diagnostic::warning(format!("nothing is stored here: \"{prefix}_buffering\" is off"))
            .at(zone.span)
            .label("answers that are not buffered go to one visitor alone")
            .help(format!("remove \"{prefix}_buffering off\"; or \"{prefix}_cache off\", if answers are to stream")),
    );
}

/// Warns of a `*_no_cache` that always holds, unless it is meant: where the cache is inherited or bypassed, or where another
/// location fills it.
fn never_stored(
    prefix: &str,
    zone: &Template,
    origin: &OriginSettings,
    is_kept_out: bool,
    cached: &[Cached<'_>],
    found: &mut Vec<Diagnostic>,
) {
    let cache = &origin.cache;
    let Some(always) = cache.no_cache.iter().find(|one| is_always(one)) else { return };
    let fills = |place: &&Cached<'_>| {
        template::show(place.zone) == template::show(zone) && !holds_always(&place.origin.cache.no_cache)
    };
    if is_kept_out || holds_always(&cache.bypass) || cached.iter().find(fills).is_some() {
        return;
    }
    let mut warning = *Diagnostic::warning(format!("nothing is stored here: \"{prefix}_no_cache\" always holds"))
        .at(always.span)
        .label(format!("\"{}\" is neither empty nor \"0\", whoever asks", template::show(always)))
        .help("name a variable that is \"1\" for what is not to be stored, or remove it");
    warning.related.push((zone.span, "the cache that stays empty".to_owned()));
    found.push(warning);
}

fn holds_always(conditions: &[Template]) -> bool {
    conditions.iter().any(is_always)
}

/// Whether this is a text, and neither empty nor `0`.
fn is_always(condition: &Template) -> bool {
    template::as_literal(condition).is_some_and(|text| !text.is_empty() && text != "0")
}
