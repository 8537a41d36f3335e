//! Warns of a `*_cache` in a location that asks no such origin, and has none inside it that does: it keeps nothing.

use crate::diagnostic::Diagnostic;
use crate::model::{Handler, Http, Location, OriginSettings, Rewrite, Settings};
use crate::span::Span;

pub(super) fn lint(http: &Http, found: &mut Vec<Diagnostic>) {
    for server in &http.servers {
        within(&server.root, found);
    }
}

/// Looks at the locations inside one; what a server says is for all of its locations.
fn within(around: &Location, found: &mut Vec<Diagnostic>) {
    for location in &around.locations {
        for kind in [PROXY, FASTCGI] {
            compare(&kind, &around.settings, location, found);
        }
        within(location, found);
    }
}

/// `proxy` or `fastcgi`.
struct Kind {
    prefix: &'static str,
    settings: fn(&Settings) -> &OriginSettings,
    is_asked: fn(&Handler) -> bool,
}

const PROXY: Kind = Kind {
    prefix: "proxy",
    settings: |settings| &settings.proxy.origin,
    is_asked: |handler| matches!(handler, Handler::Proxy(_) | Handler::Purge { .. }),
};
const FASTCGI: Kind = Kind {
    prefix: "fastcgi",
    settings: |settings| &settings.fastcgi.origin,
    is_asked: |handler| matches!(handler, Handler::FastCgi(_) | Handler::Purge { .. }),
};

fn compare(kind: &Kind, outer: &Settings, location: &Location, found: &mut Vec<Diagnostic>) {
    let Some(zone) = zone_of(kind, &location.settings) else { return };
    if zone_of(kind, outer) == Some(zone) || is_used(kind, location, zone) {
        return;
    }
    let prefix = kind.prefix;
    let (label, help) = match &location.handler {
        Handler::Proxy(_) => ("it is for \"fastcgi_pass\"", "write \"proxy_cache\"".to_owned()),
        Handler::FastCgi(_) => ("it is for \"proxy_pass\"", "write \"fastcgi_cache\"".to_owned()),
        _ => (
            "where \"try_files\" or a rewrite leads, it does not hold",
            format!("put it into the location that has \"{prefix}_pass\""),
        ),
    };
    found.push(
        *Diagnostic::warning(format!("\"{prefix}_cache\" keeps nothing here: there is no \"{prefix}_pass\""))
            .at(zone)
            .label(label)
            .help(help),
    );
}

fn zone_of(kind: &Kind, settings: &Settings) -> Option<Span> {
    (kind.settings)(settings).cache.zone.as_ref().map(|zone| zone.span)
}

/// Whether the location, one inside it, or one of its blocks keeps answers in what is written at `zone`. Behind a VCL
/// nobody knows.
fn is_used(kind: &Kind, location: &Location, zone: Span) -> bool {
    let is_here = (kind.is_asked)(&location.handler) && zone_of(kind, &location.settings) == Some(zone);
    let in_block = location.script.iter().any(|step| match step {
        Rewrite::If { location: Some(block), .. } => is_used(kind, block, zone),
        _ => false,
    });
    let in_limit = location.limit_except.as_ref().is_some_and(|limit| is_used(kind, &limit.location, zone));
    let is_inside = location.locations.iter().any(|inner| is_used(kind, inner, zone));
    is_here || in_block || in_limit || is_inside || location.settings.modules.vcl.file.is_some()
}
