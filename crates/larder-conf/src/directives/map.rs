//! `map`: variables from other variables.

use std::collections::HashSet;

use super::{Action, Args, DirectiveInfo, HTTP, block};
use crate::cx::Cx;
use crate::diagnostic::{Diagnostic, Outcome};
use crate::level::HttpParts;
use crate::model::{Map, MapEntry, MapKey, Pattern};
use crate::template;
use crate::tree::Directive;

pub const TABLE: &[DirectiveInfo] = &[block("map", HTTP, Args::Between(2, 2), Action::Http(map))];

fn map(http: &mut HttpParts, cx: &mut Cx<'_>, d: &Directive) -> Outcome {
    let mut map = Map {
        span: d.span(),
        source: d.template(0)?,
        variable: template::variable_name(d.arg(1))?,
        hostnames: false,
        volatile: false,
        default: None,
        entries: Vec::new(),
    };
    let mut seen = HashSet::new();
    for line in d.children() {
        if let Err(diagnostic) = entry(&mut map, &mut seen, line) {
            cx.report(diagnostic);
        }
    }
    http.maps.push(map);
    Ok(())
}

fn entry(map: &mut Map, seen: &mut HashSet<String>, line: &Directive) -> Outcome {
    let name = &line.name;
    if line.block.is_some() {
        return Err(Diagnostic::error("unexpected \"{\"").at(name.span).label(LINE));
    }
    match (name.text.as_str(), line.args.len()) {
        ("hostnames", 0) => {
            map.hostnames = true;
            return Ok(());
        }
        ("volatile", 0) => {
            map.volatile = true;
            return Ok(());
        }
        (_, 1) => {}
        _ => {
            return Err(Diagnostic::error("invalid number of the map parameters").at(line.span()).label(LINE));
        }
    }
    let value = line.template(0)?;
    if name.text == "default" {
        return match map.default.replace(value) {
            Some(_) => Err(Diagnostic::error("duplicate default map parameter").at(name.span)),
            None => Ok(()),
        };
    }
    let key = match name.text.strip_prefix('~') {
        Some(pattern) => {
            let (source, caseless) = match pattern.strip_prefix('*') {
                Some(source) => (source, true),
                None => (pattern, false),
            };
            MapKey::Regex(Pattern { source: source.to_owned(), caseless, span: name.span })
        }
        None => {
            let text = name.text.strip_prefix('\\').unwrap_or(&name.text).to_lowercase();
            if map.hostnames && !is_hostname_or_wildcard(&text) {
                return Err(Diagnostic::error(format!("invalid hostname or wildcard \"{text}\"")).at(name.span));
            }
            if !seen.insert(text.clone()) {
                return Err(Diagnostic::error(format!("conflicting parameter \"{text}\""))
                    .at(name.span)
                    .label("the map has this value already; case does not matter"));
            }
            MapKey::Text(text)
        }
    };
    map.entries.push(MapEntry { key, value, span: line.span() });
    Ok(())
}

const LINE: &str = "a line in a map is \"value result;\"; what has spaces, \";\" or \"{\" needs quotes";

fn is_hostname_or_wildcard(text: &str) -> bool {
    let rest = text.strip_prefix("*.").or_else(|| text.strip_suffix(".*")).or_else(|| text.strip_prefix('.'));
    let rest = rest.unwrap_or(text);
    !rest.contains('*') && !rest.contains("..")
}
