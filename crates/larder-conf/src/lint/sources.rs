//! What a variable is made of, over any number of steps.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::{Condition, Http, Rewrite, Template, TemplatePart};

use super::{each_location, variables};

/// The variables that each variable of `map`, `geo`, `split_clients` and `set` is made of, in one step.
pub(super) struct Sources(BTreeMap<String, BTreeSet<String>>);

impl Sources {
    pub(super) fn of(http: &Http) -> Sources {
        let mut sources = Sources(BTreeMap::new());
        for map in &http.maps {
            let values = map.entries.iter().map(|entry| &entry.value).chain(&map.default);
            for template in values.chain([&map.source]) {
                sources.add(&map.variable, template);
            }
        }
        // An address says something about who asks.
        for geo in &http.geos {
            sources.0.entry(geo.variable.clone()).or_default().insert("remote_addr".to_owned());
        }
        for split in &http.splits {
            sources.add(&split.variable, &split.source);
        }
        for server in &http.servers {
            sources.learn(&server.script, &[]);
            each_location(&server.root, &mut |location| sources.learn(&location.script, &[]));
        }
        sources
    }

    fn add(&mut self, name: &str, template: &Template) {
        self.0.entry(name.to_owned()).or_default().extend(variables(template).map(str::to_owned));
    }

    /// Learns of each `set`; `asked` is what the conditions around it test.
    fn learn<'a>(&mut self, script: &'a [Rewrite], asked: &[&'a Template]) {
        for step in script {
            match step {
                Rewrite::Set { name, value } => {
                    // A capture of a rewrite: nobody knows of what.
                    if asked.is_empty() && value.parts.iter().any(|part| matches!(part, TemplatePart::Capture(_))) {
                        self.0.entry(name.clone()).or_default().insert("1".to_owned());
                    }
                    for template in asked.iter().copied().chain([value]) {
                        self.add(name, template);
                    }
                }
                Rewrite::If { condition, script, .. } => {
                    let asked: Vec<&Template> = asked.iter().copied().chain(texts(condition)).collect();
                    self.learn(script, &asked);
                }
                Rewrite::Rewrite { .. } | Rewrite::Return { .. } | Rewrite::Break => {}
            }
        }
    }

    /// nginx's own variables that a variable is made of; itself, if it is one.
    pub(super) fn leaves<'a>(&'a self, name: &'a str) -> BTreeSet<&'a str> {
        let mut leaves = BTreeSet::new();
        let mut seen = BTreeSet::new();
        let mut left = vec![name];
        while let Some(name) = left.pop() {
            match self.0.get(name) {
                Some(_) if !seen.insert(name) => {}
                Some(made_of) => left.extend(made_of.iter().map(String::as_str)),
                None => {
                    leaves.insert(name);
                }
            }
        }
        leaves
    }

    /// Whether a variable depends on the method, the arguments and what a reload sends alone, or on nothing, so that it says
    /// nothing about who asks or what for.
    pub(super) fn is_apart_from_visitors(&self, name: &str) -> bool {
        self.leaves(name).into_iter().all(|name| PLAIN.contains(&name) || name.starts_with("arg_"))
    }
}

/// The texts that a condition compares.
pub(super) fn texts(condition: &Condition) -> Vec<&Template> {
    match condition {
        Condition::True(text) | Condition::Match { left: text, .. } | Condition::File { path: text, .. } => vec![text],
        Condition::Equal { left, right, .. } => vec![left, right],
    }
}

/// Variables of what is asked, and not of who asks. The URI is not among them: it may name all pages that are made for
/// one visitor. Browsers send `Pragma` and `Cache-Control` with a reload, whoever asks.
const PLAIN: [&str; 7] =
    ["request_method", "args", "query_string", "is_args", "scheme", "http_pragma", "http_cache_control"];
