//! Warnings about a configuration that works as in nginx and is most likely a mistake: pages shown to the wrong
//! visitor, patterns that match too much, settings that are silently lost.
//!
//! Each rule gives a warning with the place, the danger, and the remedy. A rule that warns of good configurations is
//! worse than none: where the intention is unclear, a rule says nothing.

mod alias;
mod answering;
mod blocks;
mod campaign;
mod condition;
mod crowd;
mod failures;
mod headers;
mod identity;
mod idle;
mod key;
mod logins;
mod open_purge;
mod open_status;
mod overwritten;
mod pattern;
mod purge;
mod redirected;
mod shared;
mod sources;
mod unbuffered;

use crate::diagnostic::Diagnostic;
use crate::model::{Config, Handler, Http, Location, OriginSettings, Rewrite, Server, Template, TemplatePart};

#[cfg(test)]
mod tests;

/// Every likely mistake in `config`, in the order of the files.
pub fn lint(config: &Config) -> Vec<Diagnostic> {
    let http = &config.http;
    let cached = cached_places(http);
    let mut found: Vec<Diagnostic> = Vec::new();
    identity::lint(http, &cached, &mut found);
    key::lint(&cached, &mut found);
    overwritten::lint(http, &cached, &mut found);
    campaign::lint(http, &cached, &mut found);
    crowd::lint(&cached, &mut found);
    shared::lint(http, &cached, &mut found);
    failures::lint(http, &cached, &mut found);
    logins::lint(http, &cached, &mut found);
    purge::lint(http, &cached, &mut found);
    open_purge::lint(http, &mut found);
    open_status::lint(http, &mut found);
    redirected::lint(http, &cached, &mut found);
    unbuffered::lint(http, &cached, &mut found);
    idle::lint(http, &mut found);
    for server in &http.servers {
        headers::lint(http, server, &mut found);
        condition::lint(&server.script, &mut found);
        each_location(&server.root, &mut |location| {
            alias::lint(location, &mut found);
            pattern::lint(location, &mut found);
            condition::lint(&location.script, &mut found);
            blocks::lint(location, &mut found);
        });
    }
    found.sort_by_key(|one| one.span.map_or((0, 0), |span| (u64::from(span.file) + 1, span.start)));
    // A directive that several locations inherit is reported once.
    found.dedup_by(|a, b| a.span == b.span && a.message == b.message);
    found
}

/// A location that asks an origin and caches its answers.
struct Cached<'a> {
    server: &'a Server,
    location: &'a Location,
    origin: &'a OriginSettings,
    /// The zone in `*_cache`.
    zone: &'a Template,
    /// `proxy` or `fastcgi`: the first word of the origin's directives.
    prefix: &'static str,
}

impl Cached<'_> {
    /// The variables of the key, or of the default key.
    fn key_variables(&self) -> Vec<&str> {
        match &self.origin.cache.key {
            Some(key) => variables(key).collect(),
            None => DEFAULT_KEY.to_vec(),
        }
    }

    /// The variables that decide which requests bypass the cache, or what is stored.
    fn guard_variables(&self) -> impl Iterator<Item = &str> {
        self.origin.cache.bypass.iter().chain(&self.origin.cache.no_cache).flat_map(variables)
    }
}

/// The default `proxy_cache_key`.
const DEFAULT_KEY: [&str; 3] = ["scheme", "proxy_host", "request_uri"];

fn cached_places(http: &Http) -> Vec<Cached<'_>> {
    let mut places = Vec::new();
    for server in &http.servers {
        each_location(&server.root, &mut |location| {
            let (origin, prefix) = match &location.handler {
                Handler::Proxy(_) => (&location.settings.proxy.origin, "proxy"),
                Handler::FastCgi(_) => (&location.settings.fastcgi.origin, "fastcgi"),
                _ => return,
            };
            if let Some(zone) = &origin.cache.zone {
                places.push(Cached { server, location, origin, zone, prefix });
            }
        });
    }
    places
}

/// Calls `visit` with a location and all locations inside it.
fn each_location<'a>(location: &'a Location, visit: &mut dyn FnMut(&'a Location)) {
    visit(location);
    for inner in &location.locations {
        each_location(inner, visit);
    }
}

/// Calls `visit` with each step of a script, and with those in its blocks.
fn each_step<'a>(script: &'a [Rewrite], visit: &mut dyn FnMut(&'a Rewrite)) {
    for step in script {
        visit(step);
        if let Rewrite::If { script, .. } = step {
            each_step(script, visit);
        }
    }
}

/// The names of the variables in a template.
fn variables(template: &Template) -> impl Iterator<Item = &str> {
    template.parts.iter().filter_map(|part| match part {
        TemplatePart::Variable(name) => Some(name.as_str()),
        TemplatePart::Literal(_) | TemplatePart::Capture(_) => None,
    })
}
