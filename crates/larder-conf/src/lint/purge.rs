//! Warns of purges that purge nothing, or not all that they are for.

use crate::diagnostic::Diagnostic;
use crate::model::{
    Condition, Handler, Http, Location, MapKey, Matcher, Rewrite, Server, Template, TemplatePart, TryFallback,
};
use crate::template;

use super::sources::Sources;
use super::{Cached, each_location, each_step, variables};

pub(super) fn lint(http: &Http, cached: &[Cached<'_>], found: &mut Vec<Diagnostic>) {
    let sources = Sources::of(http);
    for server in &http.servers {
        each_location(&server.root, &mut |location| {
            if !key_of_nothing(server, location, cached, found) {
                key_without_query(http, location, cached, &sources, found);
            }
        });
    }
}

/// Warns of a `*_cache_purge ZONE KEY` whose key is that of no page, and says whether it has.
fn key_of_nothing(server: &Server, location: &Location, cached: &[Cached<'_>], found: &mut Vec<Diagnostic>) -> bool {
    let Handler::Purge { zone, key: Some(key), by: None } = &location.handler else { return false };
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
    let Some(first) = keys.first().filter(|_| is_known) else { return false };
    let (message, label) = match own_address(server, location, key) {
        Some(variable) => (
            format!("this purges no page: ${variable} is the address of the purge request itself"),
            format!("\"{}\" is in that address, and in that of no page", name_of(&location.matcher)),
        ),
        None => {
            let differ: Option<Vec<String>> =
                keys.iter().map(|page| first_difference(key, page, begins_by_slash(&location.matcher))).collect();
            let Some(what) = differ.as_deref().and_then(<[String]>::first) else { return false };
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
    true
}

/// Warns of a `*_cache_purge ZONE KEY` by the path alone, where pages with a query are stored under a key with it.
fn key_without_query(
    http: &Http,
    location: &Location,
    cached: &[Cached<'_>],
    sources: &Sources,
    found: &mut Vec<Diagnostic>,
) {
    let (Handler::Purge { zone, key: Some(key), by: None }, Matcher::Regex(_)) = (&location.handler, &location.matcher)
    else {
        return;
    };
    let is_path = |part: &TemplatePart| match part {
        TemplatePart::Literal(text) => !text.contains('?'),
        TemplatePart::Variable(name) => STEADY.contains(&name.as_str()),
        TemplatePart::Capture(_) => true,
    };
    let has_capture = key.parts.iter().any(|part| matches!(part, TemplatePart::Capture(_)));
    // What a rewrite or an "if" has captured may have the query.
    if !has_capture || !location.script.is_empty() || !key.parts.iter().all(is_path) {
        return;
    }
    let mut places =
        cached.iter().filter(|place| template::as_literal(place.zone).is_none_or(|name| name == zone.value)).peekable();
    let Some(first) = places.peek().and_then(|place| place.origin.cache.key.as_ref()) else { return };
    let asks_query = |name: &str| {
        sources.leaves(name).iter().any(|leaf| match *leaf {
            "request_uri" => tests_query(http),
            leaf => of_query(leaf),
        })
    };
    if !places.all(|place| {
        let has_query =
            |key: &Template| variables(key).any(|name| ["request_uri", "args", "query_string"].contains(&name));
        place.origin.cache.key.as_ref().is_some_and(has_query) && !place.guard_variables().any(asks_query)
    }) {
        return;
    }
    let mut warning = *Diagnostic::warning("no page with a query is purged here: the key ends before it")
        .at(key.span)
        .label("what a pattern of a location captures has no \"?p=2\", which is in the key of the page")
        .help(format!("write \"{}$is_args$args\"", template::show(key)));
    warning.related.push((first.span, "the key of the pages".to_owned()));
    found.push(warning);
}

fn of_query(name: &str) -> bool {
    ["args", "query_string", "is_args"].contains(&name) || name.starts_with("arg_")
}

/// Whether a pattern of a `map` or an `if` asks for a `?`, so that a variable made of `$request_uri` may mean the query.
fn tests_query(http: &Http) -> bool {
    let asks = |source: &str| source.contains(r"\?") || source.contains("[?]");
    let mut is_asked = http.maps.iter().flat_map(|map| &map.entries).any(|entry| match &entry.key {
        MapKey::Regex(pattern) => asks(&pattern.source),
        MapKey::Text(text) => text.contains('?'),
    });
    let mut visit = |step: &Rewrite| {
        if let Rewrite::If { condition: Condition::Match { pattern, .. }, .. } = step {
            is_asked |= asks(&pattern.source);
        }
    };
    for server in &http.servers {
        each_step(&server.script, &mut visit);
        each_location(&server.root, &mut |location| each_step(&location.script, &mut visit));
    }
    is_asked
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

/// Variables that a purge and its page have alike.
const STEADY: [&str; 6] = ["scheme", "request_method", "host", "http_host", "server_name", "server_port"];
