//! Warns of a cache beside `*_buffering off`: answers that are not buffered are not stored.

use crate::diagnostic::Diagnostic;
use crate::model::{Handler, Http, Location, OriginSettings, Settings};

pub(super) fn lint(http: &Http, found: &mut Vec<Diagnostic>) {
    for server in &http.servers {
        within(&http.settings, &server.root, found);
    }
}

fn within(outer: &Settings, location: &Location, found: &mut Vec<Diagnostic>) {
    match &location.handler {
        Handler::Proxy(_) => compare("proxy", &outer.proxy.origin, &location.settings.proxy.origin, found),
        Handler::FastCgi(_) => compare("fastcgi", &outer.fastcgi.origin, &location.settings.fastcgi.origin, found),
        _ => {}
    }
    for inner in &location.locations {
        within(&location.settings, inner, found);
    }
}

fn compare(prefix: &str, outer: &OriginSettings, origin: &OriginSettings, found: &mut Vec<Diagnostic>) {
    let Some(zone) = &origin.cache.zone else { return };
    let is_inherited = outer.cache.zone.as_ref().is_some_and(|it| it.span == zone.span);
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
