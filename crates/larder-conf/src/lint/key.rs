//! Warns when answers differ by something that the key does not contain: one visitor gets the page of another.
//!
//! The method is not checked: the empty answer to a HEAD is never stored, whatever the key.

use std::collections::BTreeSet;

use crate::diagnostic::Diagnostic;
use crate::model::{CacheMode, Handler, ServerName, Template};
use crate::template;

use super::{Cached, variables};

pub(super) fn lint(cached: &[Cached<'_>], found: &mut Vec<Diagnostic>) {
    for place in cached {
        never_again(place, found);
        body(place, found);
        scheme(place, found);
        host(place, cached, found);
        host_field(place, found);
    }
}

fn key_span(place: &Cached<'_>) -> crate::Span {
    place.origin.cache.key.as_ref().map_or(place.zone.span, |key| key.span)
}

fn has(place: &Cached<'_>, names: &[&str]) -> bool {
    place.key_variables().iter().any(|name| names.contains(name))
}

/// Warns of a key that no second request has.
fn never_again(place: &Cached<'_>, found: &mut Vec<Diagnostic>) {
    let kind = |name: &str| match name {
        _ if EACH_REQUEST.contains(&name) => Some("request"),
        _ if EACH_CONNECTION.contains(&name) => Some("connection"),
        _ => None,
    };
    let Some((name, each)) = place.key_variables().into_iter().find_map(|name| Some((name, kind(name)?))) else {
        return;
    };
    let but = if each == "request" { "" } else { " by another visitor" };
    found.push(
        *Diagnostic::warning(format!(
            "no page is found again{but}: the key has ${name}, which is another for each {each}"
        ))
        .at(key_span(place))
        .label("what is stored here is of no use to the next request, and fills the zone")
        .help(format!("take ${name} out of \"{}_cache_key\"", place.prefix)),
    );
}

/// Warns of cached answers to POST: two forms sent to one address have two answers.
fn body(place: &Cached<'_>, found: &mut Vec<Diagnostic>) {
    let is_post = |method: &String| method == "POST";
    // There POST is never stored.
    if matches!(place.location.settings.caching.mode, CacheMode::Rfc9111 { .. }) {
        return;
    }
    if !place.origin.cache.methods.iter().any(is_post) || has(place, &["request_body", "request_body_file"]) {
        return;
    }
    let prefix = place.prefix;
    found.push(
        *Diagnostic::warning(format!(
            "whatever is posted, the first answer is given to all: \"{prefix}_cache_methods\" has POST, and the key has \
             not what was sent"
        ))
        .at(key_span(place))
        .label("nothing here tells one form from another")
        .help(format!("take POST out of \"{prefix}_cache_methods\", or add $request_method and $request_body to the key")),
    );
}

/// Warns of a key without the scheme: an application that redirects to https, or writes links with the scheme, answers
/// differently by it.
fn scheme(place: &Cached<'_>, found: &mut Vec<Diagnostic>) {
    let listens = &place.server.listens;
    let both = listens.iter().any(|listen| listen.ssl) && listens.iter().any(|listen| !listen.ssl);
    let is_told = || {
        let settings = &place.location.settings;
        let headers = settings.proxy.set_headers.iter().map(|(_, value)| value);
        let params = settings.fastcgi.params.iter().map(|it| &it.value);
        let passed: Vec<&str> = match &place.location.handler {
            Handler::FastCgi(_) => params.flat_map(variables).collect(),
            _ => headers.flat_map(variables).collect(),
        };
        passed.iter().any(|name| SCHEME.contains(name))
    };
    let own = place.origin.cache.key.is_some();
    if !both || !own || has(place, &SCHEME) || !is_told() {
        return;
    }
    found.push(
        *Diagnostic::warning("a page made for http is shown to https, and the other way round")
            .at(key_span(place))
            .label("this server listens with and without TLS, tells the origin which, and the key has no $scheme")
            .help("add $scheme to the key; a redirect to https that is kept for both would else never end"),
    );
}

/// Warns of one page for several names: the first request decides for which name the page is made.
fn host(place: &Cached<'_>, cached: &[Cached<'_>], found: &mut Vec<Diagnostic>) {
    let is_for_key = |name: &&str| HOST.contains(name) || !KNOWN.contains(name);
    if place.key_variables().iter().any(is_for_key) || !tells_host(place) {
        return;
    }
    let zone = template::show(place.zone);
    let same_zone = cached.iter().filter(|other| {
        let same_key =
            other.origin.cache.key.as_ref().map(template::show) == place.origin.cache.key.as_ref().map(template::show);
        same_key && template::show(other.zone) == zone && tells_host(other)
    });
    let mut names = BTreeSet::new();
    let mut is_open = false;
    for other in same_zone {
        for name in &other.server.names {
            match &name.value {
                ServerName::Exact(name) if name.is_empty() || name == "_" || name == "localhost" => {}
                ServerName::Exact(name) => {
                    names.insert(name.as_str());
                }
                ServerName::Suffix(_) | ServerName::Prefix(_) | ServerName::Dotted(_) | ServerName::Regex(_) => {
                    is_open = true;
                }
                ServerName::Hostname => {}
            }
        }
    }
    if names.len() < 2 && !is_open {
        return;
    }
    let prefix = place.prefix;
    let mend = match &place.origin.cache.key {
        Some(_) => format!("add $host to \"{prefix}_cache_key\""),
        None => format!("write \"{prefix}_cache_key $scheme$host$request_uri;\""),
    };
    found.push(
        *Diagnostic::warning("a page of one host is shown for another: the key has no $host")
            .at(key_span(place))
            .label("the origin is told the host, and what it answers is kept without it")
            .help(mend),
    );
}

/// Warns of a key with the requested name while the origin gets the field `Host`, which may have a port, or another
/// name if the request line had one.
fn host_field(place: &Cached<'_>, found: &mut Vec<Diagnostic>) {
    let variables_of_key = place.key_variables();
    let is_apart = variables_of_key.iter().any(|name| NAMES.contains(name))
        && variables_of_key.iter().all(|name| NAMES.contains(name) || KNOWN.contains(name));
    if !is_apart {
        return;
    }
    let settings = &place.location.settings;
    let is_field = |value: &&Template| variables(value).any(|name| name == "http_host");
    let told = match &place.location.handler {
        Handler::FastCgi(_) => settings.fastcgi.params.iter().map(|it| &it.value).find(is_field),
        _ => settings.proxy.set_headers.iter().map(|(_, value)| value).find(is_field),
    };
    let Some(told) = told else { return };
    let mut warning = *Diagnostic::warning(
        "the origin is told $http_host, which anybody may write, and what it answers is kept without it",
    )
    .at(told.span)
    .label("with \"Host: shop.test:1337\" a page with links to that port is kept for all")
    .help("write $host here, or $http_host in the key");
    warning.related.push((key_span(place), "the key has another name of the host".to_owned()));
    found.push(warning);
}

/// Whether the origin is told the requested name.
fn tells_host(place: &Cached<'_>) -> bool {
    let settings = &place.location.settings;
    match &place.location.handler {
        // The fields of the request are always passed on, and PHP reads that one.
        Handler::FastCgi(_) => true,
        _ => settings.proxy.set_headers.iter().any(|(name, value)| {
            name.eq_ignore_ascii_case("host") && variables(value).any(|name| HOST.contains(&name))
        }),
    }
}

const EACH_REQUEST: [&str; 2] = ["request_id", "msec"];
const EACH_CONNECTION: [&str; 3] = ["connection", "remote_port", "realip_remote_port"];
const SCHEME: [&str; 4] = ["scheme", "https", "server_port", "http_x_forwarded_proto"];
/// Variables of the host that are not the field.
const NAMES: [&str; 2] = ["host", "server_name"];
const HOST: [&str; 3] = ["host", "http_host", "server_name"];
/// Variables in a key that do not depend on the host. Any other variable may.
const KNOWN: [&str; 11] = [
    "scheme",
    "proxy_host",
    "proxy_port",
    "request_method",
    "request_uri",
    "uri",
    "args",
    "is_args",
    "query_string",
    "https",
    "server_port",
];
