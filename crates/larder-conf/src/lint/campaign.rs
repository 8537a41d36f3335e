//! Warns of a condition that lets every request with arguments past a cache, where the profile of the location leaves the
//! arguments of campaigns out of the key: who comes from a newsletter or an advertisement is never answered from it.

use crate::diagnostic::Diagnostic;
use crate::model::{Condition, Glob, Http, Map, MapKey, Profile, Rewrite, Says, Template, TemplatePart};
use crate::span::Span;

use super::answering::matches;
use super::{Cached, each_step, variables};

pub(super) fn lint(http: &Http, cached: &[Cached<'_>], found: &mut Vec<Diagnostic>) {
    for place in cached {
        let Some(profile) = &place.location.settings.profile.profile else { continue };
        let Some(query) = QUERIES.into_iter().find(|query| is_ignored(profile, query)) else { continue };
        let guards: Vec<&Template> = place.origin.cache.bypass.iter().chain(&place.origin.cache.no_cache).collect();
        for guard in &guards {
            if alone(guard).is_some_and(|name| tells(name, query)) {
                warn(place, query, guard.span, found);
            }
        }
        let is_guard = |name: &str| guards.iter().any(|guard| variables(guard).any(|own| own == name));
        for map in http.maps.iter().filter(|map| is_guard(&map.variable)) {
            if looked_up(map, query) == Some(true) && looked_up(map, "") == Some(false) {
                warn(place, query, map.source.span, found);
            }
        }
        for script in [&place.server.script, &place.location.script] {
            if let Some(span) = switched(script, query, &is_guard) {
                warn(place, query, span, found);
            }
        }
    }
}

fn warn(place: &Cached<'_>, query: &str, at: Span, found: &mut Vec<Diagnostic>) {
    let prefix = place.prefix;
    let has_arguments = place.key_variables().iter().any(|name| ["request_uri", "args", "query_string"].contains(name));
    let mend = match has_arguments {
        true => "leave it out: the key tells pages with other arguments apart, and the profile lets pass what is one visitor's".to_owned(),
        false => format!("leave it out, and put $is_args$args into \"{prefix}_cache_key\""),
    };
    found.push(
        *Diagnostic::warning(format!(
            "visitors with ?{query} and the like are never answered from this cache, though \"larder_profile\" leaves such \
             arguments out of the key"
        ))
        .at(at)
        .label("this holds for any argument, and the conditions see all of them")
        .help(mend),
    );
}

/// Where a script switches the cache off for a query, unless something in it takes that back.
fn switched(script: &[Rewrite], query: &str, is_guard: &impl Fn(&str) -> bool) -> Option<Span> {
    let mut at = None;
    each_step(script, &mut |step| {
        let Rewrite::If { condition, script, .. } = step else { return };
        let switches = |is_on: bool| {
            script.iter().any(
                |step| matches!(step, Rewrite::Set { name, value } if is_guard(name) && is_true(value) == Some(is_on)),
            )
        };
        let asked = asks_query(condition);
        if let Some(left) = asked
            && switches(true)
            && holds(condition, query) == Some(true)
            && holds(condition, "") == Some(false)
        {
            at = at.or(Some(left.span));
        }
        if asked.is_some() && switches(false) {
            at = None;
        }
    });
    at
}

/// The left side of a condition about the query.
fn asks_query(condition: &Condition) -> Option<&Template> {
    match condition {
        Condition::True(left) | Condition::Equal { left, .. } | Condition::Match { left, .. } => {
            alone(left).and_then(|name| value_of(name, "")).map(|_| left)
        }
        Condition::File { .. } => None,
    }
}

/// Whether a condition holds for a request with this query; `None` if nobody can tell.
fn holds(condition: &Condition, query: &str) -> Option<bool> {
    match condition {
        Condition::True(left) => value_of(alone(left)?, query).map(|value| is_on(&value)),
        Condition::Equal { left, right, negate } => {
            Some((value_of(alone(left)?, query)? == literal(right)?) != *negate)
        }
        Condition::Match { left, pattern, negate } => {
            Some(matches(pattern, &value_of(alone(left)?, query)?)? != *negate)
        }
        Condition::File { .. } => None,
    }
}

/// Whether a `map` of the query makes something that is true; `None` if nobody can tell.
fn looked_up(map: &Map, query: &str) -> Option<bool> {
    let value = value_of(alone(&map.source)?, query)?;
    let is_text = |key: &MapKey| matches!(key, MapKey::Text(text) if text.eq_ignore_ascii_case(&value));
    if let Some(entry) = map.entries.iter().find(|entry| is_text(&entry.key)) {
        return is_true(&entry.value);
    }
    for entry in &map.entries {
        if let MapKey::Regex(pattern) = &entry.key
            && matches(pattern, &value)?
        {
            return is_true(&entry.value);
        }
    }
    map.default.as_ref().map_or(Some(false), is_true)
}

/// Whether a variable is true for a request with this query, and not without one.
fn tells(name: &str, query: &str) -> bool {
    let is = |query| value_of(name, query).map(|value| is_on(&value));
    is(query) == Some(true) && is("") == Some(false)
}

/// What a variable of the query is for a page with it.
fn value_of(name: &str, query: &str) -> Option<String> {
    let mark = if query.is_empty() { "" } else { "?" };
    match name {
        "args" | "query_string" => Some(query.to_owned()),
        "is_args" => Some(mark.to_owned()),
        "request_uri" => Some(format!("{PAGE}{mark}{query}")),
        _ => None,
    }
}

/// The name of the variable that a text is.
fn alone(text: &Template) -> Option<&str> {
    match &text.parts[..] {
        [TemplatePart::Variable(name)] => Some(name),
        _ => None,
    }
}

fn literal(text: &Template) -> Option<String> {
    let part = |part: &TemplatePart| match part {
        TemplatePart::Literal(text) => Some(text.clone()),
        TemplatePart::Variable(_) | TemplatePart::Capture(_) => None,
    };
    text.parts.iter().map(part).collect()
}

fn is_true(text: &Template) -> Option<bool> {
    literal(text).map(|text| is_on(&text))
}

fn is_on(text: &str) -> bool {
    !matches!(text, "" | "0")
}

fn is_ignored(profile: &Profile, query: &str) -> bool {
    let name = query.split('=').next().unwrap_or_default();
    let names = |Glob { start, end }: &Glob| match end {
        None => name == start,
        Some(end) => {
            name.len() >= start.len() + end.len() && name.starts_with(start.as_str()) && name.ends_with(end.as_str())
        }
    };
    profile.rows.iter().any(|row| row.says == Says::IgnoredArgument && names(&row.pattern))
}

/// What a visitor comes with, who is shown the page without it.
const QUERIES: [&str; 3] = ["utm_source=news", "gclid=1", "fbclid=1"];
/// A page that no rule is about.
const PAGE: &str = "/a-page-of-the-site/";
