//! Warns when the answer depends on who asks (a cookie or a password) and the cache does not know.

use std::collections::BTreeSet;

use crate::diagnostic::Diagnostic;
use crate::model::{AddHeader, Condition, Handler, Http, Matcher, Rewrite, Template};

use super::answering::takes_all_php;
use super::sources::Sources;
use super::{Cached, each_location, each_step, variables};

pub(super) fn lint(http: &Http, cached: &[Cached<'_>], found: &mut Vec<Diagnostic>) {
    let identities = Identities::of(http);
    let sources = Sources::of(http);
    // A profile knows who is one visitor.
    for place in cached.iter().filter(|place| place.location.settings.profile.profile.is_none()) {
        shared_cookies(place, &identities, &sources, found);
        stored_for_all(place, &identities, found);
        passed_on(place, &identities, found);
    }
    unused_switch(http, cached, found);
    unused_identity(http, cached, &identities, found);
}

/// Variables that tell visitors apart.
pub(super) struct Identities(BTreeSet<String>);

impl Identities {
    /// nginx's variables of this kind, and those that maps and `set` make of them.
    pub(super) fn of(http: &Http) -> Identities {
        let mut identities = Identities(BTreeSet::new());
        // One variable may be made of another: each round finds those that are one step further.
        loop {
            let before = identities.0.len();
            for map in &http.maps {
                if identities.has(&map.source) {
                    identities.0.insert(map.variable.clone());
                }
            }
            for server in &http.servers {
                identities.learn(&server.script, false);
                each_location(&server.root, &mut |location| identities.learn(&location.script, false));
            }
            if identities.0.len() == before {
                return identities;
            }
        }
    }

    fn learn(&mut self, script: &[Rewrite], is_for_some: bool) {
        for step in script {
            match step {
                Rewrite::Set { name, value } if is_for_some || self.has(value) => {
                    self.0.insert(name.clone());
                }
                Rewrite::If { condition, script, .. } => {
                    let asks = self.has(asked(condition));
                    self.learn(script, is_for_some || asks);
                }
                Rewrite::Set { .. } | Rewrite::Rewrite { .. } | Rewrite::Return { .. } | Rewrite::Break => {}
            }
        }
    }

    fn has(&self, template: &Template) -> bool {
        variables(template).any(|name| self.is_one(name))
    }

    fn is_one(&self, name: &str) -> bool {
        NAMES.contains(&name) || name.starts_with("cookie_") || self.0.contains(name)
    }
}

/// The text that a condition tests.
fn asked(condition: &Condition) -> &Template {
    match condition {
        Condition::True(asked) | Condition::Equal { left: asked, .. } | Condition::Match { left: asked, .. } => asked,
        Condition::File { path, .. } => path,
    }
}

/// Warns of a page that begins a session and is stored for all visitors; if the configuration says so, with its cookie.
fn shared_cookies(place: &Cached<'_>, identities: &Identities, sources: &Sources, found: &mut Vec<Diagnostic>) {
    let origin = place.origin;
    let names_cookie = |names: &[String]| names.iter().any(|name| name.eq_ignore_ascii_case("set-cookie"));
    let is_told_apart = place.key_variables().into_iter().any(|name| identities.is_one(name));
    let is_hidden = names_cookie(&origin.response.hide_headers);
    let is_meant = is_hidden || is_told_apart || is_for_files(&place.location.matcher);
    if !origin.ignore_headers.set_cookie || is_meant {
        return;
    }
    let prefix = place.prefix;
    if names_cookie(&origin.response.pass_headers) {
        return passed_cookies(place, found);
    }
    let guards: Vec<&str> = origin.cache.no_cache.iter().flat_map(variables).collect();
    if !guards.iter().all(|name| sources.is_apart_from_visitors(name)) {
        return;
    }
    let but = match guards.first() {
        None => String::new(),
        Some(name) => format!(", and ${name} of \"{prefix}_no_cache\" asks for no cookie"),
    };
    found.push(
        *Diagnostic::warning(format!(
            "answers with Set-Cookie are kept here for everybody: \"{prefix}_ignore_headers\" has Set-Cookie{but}"
        ))
        .at(place.zone.span)
        .label("what is made for one visitor is shown to all")
        .help(format!(
            "let visitors with a session past the cache by \"{prefix}_no_cache\" and \"{prefix}_cache_bypass\"{}",
            match takes_all_php(&place.location.matcher) {
                // There it would hide the cookie of a login too.
                true => String::new(),
                false => format!("; where nobody has one, as for files, say so by \"{prefix}_hide_header Set-Cookie\""),
            }
        )),
    );
}

/// Warns of a cookie that is stored with the page: every visitor without a session gets that of the first one. It does
/// not help that visitors with a session bypass the cache.
fn passed_cookies(place: &Cached<'_>, found: &mut Vec<Diagnostic>) {
    let is_of_cookies = |name: &str| name.starts_with("upstream_cookie_") || COOKIE_SET.contains(&name);
    if place.origin.cache.no_cache.iter().flat_map(variables).any(is_of_cookies) {
        return;
    }
    let prefix = place.prefix;
    found.push(
        *Diagnostic::warning(format!(
            "the cookie of one visitor is given to all: \"{prefix}_ignore_headers\" and \"{prefix}_pass_header\" both have \
             Set-Cookie"
        ))
        .at(place.zone.span)
        .label("the page is stored with the cookie that begins a session")
        .help(format!(
            "keep what begins a session out by \"{prefix}_no_cache $upstream_http_set_cookie\", or take Set-Cookie out of both"
        )),
    );
}

/// Whether a location is for files that are the same for all visitors, by the endings in its pattern.
fn is_for_files(matcher: &Matcher) -> bool {
    let Matcher::Regex(pattern) = matcher else { return false };
    let has = |words: &[&str]| words.iter().any(|word| pattern.source.to_ascii_lowercase().contains(word));
    pattern.source.ends_with('$') && has(&FILES) && !has(&PAGES)
}

/// Warns of a cache that logged-in visitors bypass, but whose answers to them are stored for everybody.
fn stored_for_all(place: &Cached<'_>, identities: &Identities, found: &mut Vec<Diagnostic>) {
    let origin = place.origin;
    let Some((bypass, name)) =
        origin.cache.bypass.iter().find_map(|one| Some((one, a_session(one, identities, true)?)))
    else {
        return;
    };
    let is_told_apart = place.key_variables().into_iter().any(|name| identities.is_one(name));
    if !origin.cache.no_cache.is_empty() || is_told_apart {
        return;
    }
    let prefix = place.prefix;
    found.push(
        *Diagnostic::warning(format!(
            "what is answered to visitors with ${name} is kept for everybody: \"{prefix}_cache_bypass\" without \
             \"{prefix}_no_cache\""
        ))
        .at(bypass.span)
        .label("this decides who is answered from the cache, not what goes into it")
        .help(format!("add \"{prefix}_no_cache ${name}\"")),
    );
}

/// A variable in the template that tells logged-in visitors from others.
fn a_session<'a>(template: &'a Template, identities: &Identities, has_login: bool) -> Option<&'a str> {
    for name in variables(template) {
        // It is part of the usual `fastcgi_params`, and is empty without a login.
        let is_idle = name == "remote_user" && !has_login;
        if tells_a_session(name, identities) && !is_idle {
            return Some(name);
        }
    }
    None
}

/// Whether a variable tells who is logged in, and is not a switch such as `$cookie_nocache`.
pub(super) fn tells_a_session(name: &str, identities: &Identities) -> bool {
    match name.strip_prefix("cookie_") {
        Some(cookie) => SESSIONS.iter().any(|word| cookie.contains(word)),
        None => NAMES.contains(&name) || identities.0.contains(name),
    }
}

/// Warns of an origin that is told who asks while its answer is stored for everybody.
fn passed_on(place: &Cached<'_>, identities: &Identities, found: &mut Vec<Diagnostic>) {
    let settings = &place.location.settings;
    let pairs: Vec<(&str, &Template)> = match &place.location.handler {
        Handler::Proxy(_) => settings.proxy.set_headers.iter().map(|(name, value)| (name.as_str(), value)).collect(),
        Handler::FastCgi(_) => settings.fastcgi.params.iter().map(|it| (it.name.as_str(), &it.value)).collect(),
        _ => return,
    };
    let has_login = settings.access.auth_basic.is_some();
    let Some((header, value, name)) =
        pairs.into_iter().find_map(|(header, value)| Some((header, value, a_session(value, identities, has_login)?)))
    else {
        return;
    };
    let minds = place.key_variables().into_iter().chain(place.guard_variables()).any(|name| identities.is_one(name));
    if minds {
        return;
    }
    let prefix = place.prefix;
    let mut warning = *Diagnostic::warning(format!(
        "the origin is told who asks by {header}, and what it answers is kept for everybody: ${name} is neither in \
             the key nor in \"{prefix}_no_cache\""
    ))
    .at(value.span)
    .label("a page made for one visitor may be shown to others")
    .help(format!(
        "add \"{prefix}_no_cache ${name}\" and \"{prefix}_cache_bypass ${name}\", or ${name} to \"{prefix}_cache_key\""
    ));
    // What passes it on is mostly in the usual "fastcgi_params", and not to be changed there.
    if let (Some(login), "remote_user") = (&settings.access.auth_basic, name) {
        warning.related.push((login.span, "visitors log in by this".to_owned()));
    }
    found.push(warning);
}

/// Warns of a variable whose name says that it switches the cache off, and that no cache of the server reads.
fn unused_switch(http: &Http, cached: &[Cached<'_>], found: &mut Vec<Diagnostic>) {
    for server in &http.servers {
        let places: Vec<_> = cached.iter().filter(|place| std::ptr::eq(place.server, server)).collect();
        let Some(place) = places.first() else { continue };
        let mut said = BTreeSet::new();
        let mut visit = |step: &Rewrite| {
            let Rewrite::Set { name, value } = step else { return };
            let is_used = places
                .iter()
                .any(|place| place.guard_variables().chain(place.key_variables()).any(|used| used == name));
            if !SWITCHES.iter().any(|word| name.contains(word))
                || is_used
                || is_shown(http, server, name)
                || !said.insert(name.clone())
            {
                return;
            }
            let prefix = place.prefix;
            found.push(
                *Diagnostic::warning(format!("${name} is set and no cache of this server looks at it"))
                    .at(value.span)
                    .label("visitors that are to pass the cache are answered from it, and what they get is kept")
                    .help(format!("add \"{prefix}_cache_bypass ${name}\" and \"{prefix}_no_cache ${name}\"")),
            );
        };
        each_step(&server.script, &mut visit);
        each_location(&server.root, &mut |location| each_step(&location.script, &mut visit));
    }
}

/// Warns of a variable that a `map` makes of the session, by its name for a cache, and that no cache reads.
fn unused_identity(http: &Http, cached: &[Cached<'_>], identities: &Identities, found: &mut Vec<Diagnostic>) {
    let is_open = |place: &&Cached<'_>| {
        !place.key_variables().into_iter().chain(place.guard_variables()).any(|name| identities.is_one(name))
    };
    // Where all places look at the session by another variable, this one is a remnant.
    let Some(place) = cached.iter().find(is_open) else { return };
    for map in &http.maps {
        let name = &map.variable;
        let is_for_cache =
            KEYS.iter().any(|word| name.contains(word)) && !SWITCHES.iter().any(|word| name.contains(word));
        let is_used = http.maps.iter().any(|other| variables(&other.source).any(|source| source == name))
            || http.servers.iter().any(|server| is_shown(http, server, name))
            || cached.iter().any(|place| place.key_variables().contains(&name.as_str()));
        if !is_for_cache || is_used || !identities.has(&map.source) {
            continue;
        }
        let prefix = place.prefix;
        let mut warning = *Diagnostic::warning(format!(
            "${name} tells one session from another and is in no cache key: visitors with a session get the pages of each other"
        ))
        .at(map.source.span)
        .label("nothing that decides about a cache reads what is made of this")
        .help(format!("add ${name} to \"{prefix}_cache_key\", or \"{prefix}_cache_bypass ${name}\" and \"{prefix}_no_cache ${name}\""));
        warning.related.push((
            place.origin.cache.key.as_ref().map_or(place.zone.span, |key| key.span),
            "the cache of all".to_owned(),
        ));
        found.push(warning);
    }
}

/// Whether anything but a cache reads the variable: conditions, other variables, fields, parameters, conditions of logs.
/// Then that is its purpose.
fn is_shown(http: &Http, server: &crate::model::Server, name: &str) -> bool {
    let mut is_used = http.maps.iter().any(|map| variables(&map.source).any(|source| source == name));
    let mut step = |step: &Rewrite| {
        let value = match step {
            Rewrite::If { condition, .. } => asked(condition),
            Rewrite::Set { name: set, value } if set != name => value,
            _ => return,
        };
        is_used |= variables(value).any(|used| used == name);
    };
    each_step(&server.script, &mut step);
    each_location(&server.root, &mut |location| each_step(&location.script, &mut step));
    let mut is_sent = false;
    each_location(&server.root, &mut |location| {
        // `X-Cache-Skip` and the like are for whoever looks for mistakes.
        let is_for_all = |header: &&AddHeader| !header.name.to_ascii_lowercase().starts_with("x-");
        let headers = location.settings.fields.add_headers.iter().filter(is_for_all).map(|header| &header.value);
        let passed = location.settings.proxy.set_headers.iter().map(|(_, value)| value);
        let params = location.settings.fastcgi.params.iter().map(|param| &param.value);
        let logs = location.settings.logs.access.iter().filter_map(|log| log.condition.as_ref());
        is_sent |= headers.chain(passed).chain(params).chain(logs).flat_map(variables).any(|used| used == name);
    });
    is_used || is_sent
}

/// nginx's own variables that tell visitors apart.
const NAMES: [&str; 8] = [
    "http_authorization",
    "http_cookie",
    "remote_user",
    "http_x_api_key",
    "http_x_auth_token",
    "ssl_client_s_dn",
    "ssl_client_serial",
    "ssl_client_fingerprint",
];
/// Variables that tell whether an answer sets a cookie.
const COOKIE_SET: [&str; 2] = ["upstream_http_set_cookie", "sent_http_set_cookie"];
/// Parts of the names of session cookies.
const SESSIONS: [&str; 8] = ["sess", "sid", "auth", "login", "logged", "token", "user", "jwt"];
/// Endings of files that are the same for all visitors.
const FILES: [&str; 8] = ["css", "js", "png", "jpg", "jpe?g", "gif", "svg", "woff"];
/// Endings of pages that may be made for each visitor.
const PAGES: [&str; 4] = ["php", "htm", "json", "asp"];
/// Parts of the names of variables that are made for a key.
const KEYS: [&str; 2] = ["cache", "uid"];
/// Parts of the names of variables that make requests bypass a cache.
const SWITCHES: [&str; 5] = ["skip_cache", "skipcache", "no_cache", "nocache", "bypass"];
