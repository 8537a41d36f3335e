//! Warns of purges that purge nothing, and of those that everybody may send.

use std::net::IpAddr;

use crate::diagnostic::Diagnostic;
use crate::model::{
    Handler, Http, ListenAddress, Location, Matcher, Rewrite, Server, Template, TemplatePart, TryFallback,
};
use crate::template;

use super::{Cached, each_location, each_step, variables};

pub(super) fn lint(http: &Http, cached: &[Cached<'_>], found: &mut Vec<Diagnostic>) {
    for server in &http.servers {
        each_location(&server.root, &mut |location| {
            key_of_nothing(server, location, cached, found);
            open_to_all(server, location, found);
        });
    }
}

/// Warns of a `*_cache_purge ZONE KEY` whose key is that of no page.
fn key_of_nothing(server: &Server, location: &Location, cached: &[Cached<'_>], found: &mut Vec<Diagnostic>) {
    let Handler::Purge { zone, key: Some(key), by: None } = &location.handler else { return };
    let keys: Vec<&Template> = cached
        .iter()
        .filter(|place| template::as_literal(place.zone).is_none_or(|name| name == zone.value))
        .filter_map(|place| place.origin.cache.key.as_ref())
        .collect();
    // A zone that is chosen by a variable, and the default key, may be any.
    let is_known = cached.iter().all(|place| {
        let is_other = template::as_literal(place.zone).is_some_and(|name| name != zone.value);
        is_other || place.origin.cache.key.is_some() && template::as_literal(place.zone).is_some()
    });
    let Some(first) = keys.first().filter(|_| is_known) else { return };
    let (message, label) = match own_address(server, location, key) {
        Some(variable) => (
            format!("this purges no page: ${variable} is the address of the purge request itself"),
            format!("\"{}\" is in that address, and in that of no page", name_of(&location.matcher)),
        ),
        None => {
            let differ: Option<Vec<String>> =
                keys.iter().map(|page| first_difference(key, page, begins_by_slash(&location.matcher))).collect();
            let Some(what) = differ.as_deref().and_then(<[String]>::first) else { return };
            ("this purges no page: the key is none that a page can have".to_owned(), what.clone())
        }
    };
    let meant = template::show(first).replace("${request_uri}", "$1${is_args}${args}").replace("${uri}", "$1");
    let mut warning = *Diagnostic::warning(message)
        .at(key.span)
        .label(label)
        .help(format!("write \"{meant}\" in a \"location ~ /purge(/.*)\", and purge by GET"));
    warning.related.push((first.span, "the key of the pages".to_owned()));
    found.push(warning);
}

/// The variable in the key that is the address of the purge request, if only purges have such an address.
fn own_address<'a>(server: &Server, location: &Location, key: &'a Template) -> Option<&'a str> {
    let word = match &location.matcher {
        Matcher::Prefix { path, .. } | Matcher::Exact(path) if path.len() > 1 => path.trim_matches('/'),
        Matcher::Regex(pattern) if pattern.source.contains("purge") => "purge",
        Matcher::Prefix { .. } | Matcher::Exact(_) | Matcher::Regex(_) | Matcher::Root | Matcher::Named(_) => {
            return None;
        }
    };
    let is_rewritten = location.script.iter().any(|step| !matches!(step, Rewrite::Return { .. } | Rewrite::Break));
    let is_address = |name: &&str| *name == "request_uri" || !is_rewritten && ["uri", "document_uri"].contains(name);
    let has_part = key.parts.iter().any(|part| matches!(part, TemplatePart::Capture(_)));
    variables(key).find(is_address).filter(|_| !has_part && !location.internal && !is_led_to(server, word))
}

/// Whether an internal redirect of the server leads to a location with this word in its name: then the request has
/// another address.
fn is_led_to(server: &Server, word: &str) -> bool {
    let mut targets: Vec<String> = Vec::new();
    let mut visit = |step: &Rewrite| {
        if let Rewrite::Rewrite { replacement, .. } = step {
            targets.push(template::show(replacement));
        }
    };
    each_step(&server.script, &mut visit);
    each_location(&server.root, &mut |location| each_step(&location.script, &mut visit));
    each_location(&server.root, &mut |location| {
        targets.extend(location.settings.errors.pages.iter().map(|page| template::show(&page.target)));
        if let Some(TryFallback::Uri(target)) = location.try_files.as_ref().map(|files| &files.fallback) {
            targets.push(template::show(target));
        }
    });
    targets.iter().any(|target| target.contains(word))
}

fn name_of(matcher: &Matcher) -> &str {
    match matcher {
        Matcher::Prefix { path, .. } | Matcher::Exact(path) | Matcher::Named(path) => path,
        Matcher::Regex(pattern) => &pattern.source,
        Matcher::Root => "/",
    }
}

/// What the two keys have different where neither can be the other; `None` where they may be equal.
fn first_difference(purge: &Template, page: &Template, part_is_path: bool) -> Option<String> {
    let (purge, page) = (template::joined(purge.clone()), template::joined(page.clone()));
    let apart = |one: &TemplatePart, other: &TemplatePart| match (begins(one, part_is_path), begins(other, false)) {
        (Some(one), Some(other)) => !one.meets(&other),
        _ => false,
    };
    let (mut ours, mut theirs) = (purge.parts.into_iter(), page.parts.into_iter());
    loop {
        let (one, other) = (ours.next()?, theirs.next()?);
        match (&one, &other) {
            (TemplatePart::Literal(a), TemplatePart::Literal(b)) => {
                let same = a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count();
                let (a, b) = (a.get(same..)?, b.get(same..)?);
                if !a.is_empty() && !b.is_empty() {
                    return Some(format!("\"{a}\" stands where the key of the pages has \"{b}\""));
                }
                // What is left of the longer one is compared with what follows the shorter.
                if !a.is_empty() || !b.is_empty() {
                    let (rest, next) = if a.is_empty() { (b, ours.next()?) } else { (a, theirs.next()?) };
                    let rest = TemplatePart::Literal(rest.to_owned());
                    let is_apart = if a.is_empty() { apart(&next, &rest) } else { apart(&rest, &next) };
                    return is_apart.then(|| clash(&one, &other));
                }
            }
            (TemplatePart::Variable(name), _) if one == other && STEADY.contains(&name.as_str()) => {}
            _ => return apart(&one, &other).then(|| clash(&one, &other)),
        }
    }
}

fn clash(one: &TemplatePart, other: &TemplatePart) -> String {
    format!("{} stands where the key of the pages has {}", shown(one), shown(other))
}

fn shown(part: &TemplatePart) -> String {
    match part {
        TemplatePart::Literal(text) => format!("\"{text}\""),
        TemplatePart::Variable(name) => format!("${name}"),
        TemplatePart::Capture(number) => format!("${number}"),
    }
}

/// What a part of a key begins with.
enum Begin {
    /// `GET`.
    Capital,
    /// A name of a host or a scheme.
    Name,
    Slash,
    Literal(char),
}

impl Begin {
    fn meets(&self, other: &Begin) -> bool {
        match (self, other) {
            (Begin::Literal(one), Begin::Literal(other)) => one == other,
            (Begin::Literal(one), class) | (class, Begin::Literal(one)) => match class {
                Begin::Capital => one.is_ascii_uppercase(),
                Begin::Name => {
                    one.is_ascii_lowercase() || one.is_ascii_digit() || !one.is_ascii() || "[_-.".contains(*one)
                }
                Begin::Slash => *one == '/',
                Begin::Literal(_) => true,
            },
            (Begin::Capital, Begin::Capital) | (Begin::Name, Begin::Name) | (Begin::Slash, Begin::Slash) => true,
            (Begin::Capital | Begin::Name | Begin::Slash, Begin::Capital | Begin::Name | Begin::Slash) => false,
        }
    }
}

/// `part_is_path`: whether `$1` begins with a slash.
fn begins(part: &TemplatePart, part_is_path: bool) -> Option<Begin> {
    match part {
        TemplatePart::Literal(text) => text.chars().next().map(Begin::Literal),
        TemplatePart::Variable(name) => match name.as_str() {
            "request_method" => Some(Begin::Capital),
            "scheme" | "host" => Some(Begin::Name),
            "request_uri" | "uri" | "document_uri" => Some(Begin::Slash),
            _ => None,
        },
        TemplatePart::Capture(number) => (*number == 1 && part_is_path).then_some(Begin::Slash),
    }
}

/// Whether the first group of a pattern begins with a slash, as in `/purge(/.*)`.
fn begins_by_slash(matcher: &Matcher) -> bool {
    let Matcher::Regex(pattern) = matcher else { return false };
    let group = pattern.source.split_once('(').filter(|(before, _)| !before.ends_with('\\'));
    group.is_some_and(|(_, group)| group.starts_with('/') && !pattern.source.contains('|'))
}

/// Warns of a `larder_purge_from` that lets every visitor purge.
fn open_to_all(server: &Server, location: &Location, found: &mut Vec<Diagnostic>) {
    let settings = &location.settings;
    let Some(rights) = &settings.purging.from else { return };
    let Some(net) = rights.nets.iter().find(|net| net.prefix_len() == 0) else { return };
    let access = &settings.access;
    let is_closed = access.rules.iter().any(|rule| !rule.allow)
        || access.auth_basic.is_some()
        || settings.subrequests.auth_request.is_some();
    let is_of_this_machine = server.listens.iter().all(|listen| match &listen.address {
        ListenAddress::Tcp(address) => match address.ip() {
            IpAddr::V4(address) => address.is_loopback() || address.is_private(),
            IpAddr::V6(address) => address.is_loopback(),
        },
        ListenAddress::Unix(_) => true,
    });
    if is_closed || is_of_this_machine || !is_asked(location) {
        return;
    }
    found.push(
        *Diagnostic::warning(format!("everybody may purge here: \"larder_purge_from\" has {net}"))
            .at(rights.span)
            .label("one request empties the cache, and the origin makes all pages anew")
            .help("name the addresses that purge, or a secret with \"key=\"; or close the location by \"allow\" and \"deny\""),
    );
}

/// Whether a request may come to a location and find it answering by something else than a `return`.
fn is_asked(location: &Location) -> bool {
    let is_covered = matches!(location.matcher, Matcher::Root)
        && location.locations.iter().any(|inner| matches!(&inner.matcher, Matcher::Prefix { path, .. } if path == "/"));
    !is_covered && !location.script.iter().any(|step| matches!(step, Rewrite::Return { .. }))
}

/// Variables that a purge and its page have alike.
const STEADY: [&str; 6] = ["scheme", "request_method", "host", "http_host", "server_name", "server_port"];
