//! Warns of cookies that are hidden where people log in: their session never reaches them.

use crate::diagnostic::Diagnostic;
use crate::model::{Handler, Http, Location, Matcher, OriginSettings, Rewrite, Server};

use super::answering::takes_all_php;
use super::identity::{Identities, tells_a_session};
use super::sources::texts;
use super::{Cached, each_location, each_step, variables};

pub(super) fn lint(http: &Http, cached: &[Cached<'_>], found: &mut Vec<Diagnostic>) {
    let identities = Identities::of(http);
    for place in cached {
        let of_whom = match &place.location.matcher {
            matcher if takes_all_php(matcher) => "what all PHP answers",
            // Of files, or of an application where nobody logs in, unless the cache looks at who does.
            Matcher::Prefix { path, .. } if path == "/" && minds_sessions(place, &identities) => "all that is answered",
            _ => continue,
        };
        if !hides_cookies(place.origin) || refuses_forms(place) || is_elsewhere(place.server) {
            continue;
        }
        let prefix = place.prefix;
        found.push(
            *Diagnostic::warning(format!(
                "nobody can log in here: \"{prefix}_hide_header\" takes Set-Cookie from {of_whom}, to a login too"
            ))
            .at(place.zone.span)
            .label("what is stored here has no cookie even without that")
            .help(format!(
                "remove it, and let visitors with a session past the cache by \"{prefix}_no_cache\" and \
                 \"{prefix}_cache_bypass\"; where nobody logs in, say so by \"limit_except GET {{ deny all; }}\""
            )),
        );
    }
}

/// Whether the cache asks for the session of who asks.
fn minds_sessions(place: &Cached<'_>, identities: &Identities) -> bool {
    place.key_variables().into_iter().chain(place.guard_variables()).any(|name| tells_a_session(name, identities))
}

fn hides_cookies(origin: &OriginSettings) -> bool {
    origin.response.hide_headers.iter().any(|name| name.eq_ignore_ascii_case("set-cookie"))
}

/// Whether POST is kept out, so that there is no login.
fn refuses_forms(place: &Cached<'_>) -> bool {
    let mut is_refused = place.location.limit_except.is_some();
    let mut visit = |step: &Rewrite| {
        let Rewrite::If { condition, script, .. } = step else { return };
        let asks = texts(condition).into_iter().flat_map(variables).any(|name| name == "request_method");
        is_refused |=
            asks && script.iter().any(|step| matches!(step, Rewrite::Return { .. } | Rewrite::Rewrite { .. }));
    };
    each_step(&place.server.script, &mut visit);
    each_step(&place.location.script, &mut visit);
    is_refused
}

/// Whether another location of the server may give cookies, where people log in then.
fn is_elsewhere(server: &Server) -> bool {
    let mut is_there = false;
    each_location(&server.root, &mut |location: &Location| {
        let origin = match &location.handler {
            Handler::Proxy(_) => &location.settings.proxy.origin,
            Handler::FastCgi(_) => &location.settings.fastcgi.origin,
            _ => return,
        };
        is_there |= !hides_cookies(origin);
    });
    is_there
}
