//! Reads signatures.

use super::signatures::ALL;
use super::{Default, Function, Module, Object, Parameter};
use crate::steps::{Step, Steps};
use crate::types::Type;

/// Reads the signatures of a module. They are ours, and a test reads them all.
pub fn module(name: &'static str, text: &'static str) -> Module {
    debug_assert!(ALL.iter().any(|(known, _)| *known == name));
    let mut module = Module { name, functions: Vec::new(), objects: Vec::new() };
    for line in text.lines().filter(|line| !line.is_empty()) {
        let (kind, rest) = line.split_once(' ').expect("a signature begins with a type");
        if kind == "object" {
            let (name, parameters, _) = signature(rest);
            module.objects.push(Object { name, parameters, methods: Vec::new() });
            continue;
        }
        let returns = Type::of_signature(kind).expect("a signature begins with a type");
        let (name, parameters, steps) = signature(rest);
        match name.strip_prefix('.') {
            None => module.functions.push(Function { name, returns, parameters, steps }),
            Some(name) => {
                let object = module.objects.last_mut().expect("a method stands below its object");
                object.methods.push(Function { name, returns, parameters, steps });
            }
        }
    }
    module
}

/// `NAME(PARAMETERS) [in STEPS]`
fn signature(text: &'static str) -> (&'static str, Vec<Parameter>, Steps) {
    let (name, rest) = text.split_once('(').expect("a signature has parameters");
    let (parameters, rest) = rest.rsplit_once(')').expect("a signature has parameters");
    let steps = match rest.strip_prefix(" in ") {
        None => Steps::ALL,
        Some(words) => words.split(' ').fold(Steps::NONE, |steps, word| steps.or(side(word))),
    };
    (name, split(parameters).map(parameter).collect(), steps)
}

fn side(word: &str) -> Steps {
    match word {
        "client" => Steps::CLIENT,
        "backend" => Steps::BACKEND,
        "housekeeping" => Steps::HOUSEKEEPING,
        _ => Steps::of(Step::named(word).expect("it is a step or a side")),
    }
}

/// Splits at commas that stand neither in braces nor in quotes.
fn split(text: &'static str) -> impl Iterator<Item = &'static str> {
    let (mut in_braces, mut in_quotes) = (false, false);
    let parts = text.split(move |char| {
        match char {
            '{' => in_braces = true,
            '}' => in_braces = false,
            '"' => in_quotes = !in_quotes,
            _ => {}
        }
        char == ',' && !in_braces && !in_quotes
    });
    parts.map(str::trim).filter(|part| !part.is_empty())
}

/// `[TYPE NAME=DEFAULT]`, of which the type alone has to be there.
fn parameter(text: &'static str) -> Parameter {
    let inner = text.strip_prefix('[').and_then(|inner| inner.strip_suffix(']'));
    let is_optional = inner.is_some();
    let text = inner.unwrap_or(text);
    let (ty, rest) = text.split_once(' ').unwrap_or((text, ""));
    let ty = Type::of_signature(ty).expect("a parameter begins with a type");
    let (words, rest) = match rest.strip_prefix('{').and_then(|rest| rest.split_once('}')) {
        None => (Vec::new(), rest),
        Some((words, rest)) => (words.split(',').map(str::trim).collect(), rest),
    };
    let (name, default) = match rest.split_once('=') {
        None => (rest.trim(), None),
        Some((name, default)) => (name.trim(), Some(self::default(default, &words))),
    };
    Parameter { ty, name: (!name.is_empty()).then_some(name), words, default, is_optional }
}

fn default(text: &'static str, words: &[&'static str]) -> Default {
    if let Some(text) = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')) {
        return Default::Text(text);
    }
    match words.iter().position(|word| *word == text) {
        Some(at) => Default::Word(at),
        None => Default::Number(text.parse().expect("a default is a string, a word or a number")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{find, function, method, modules, object};
    use super::*;

    #[test]
    fn all_signatures_are_read() {
        for module in modules() {
            assert!(!module.functions.is_empty() || !module.objects.is_empty(), "{}", module.name);
            let of_objects = module.objects.iter().flat_map(|object| &object.methods);
            for function in module.functions.iter().chain(of_objects) {
                for parameter in &function.parameters {
                    assert_eq!(parameter.ty == Type::Enum, !parameter.words.is_empty(), "{}", function.name);
                }
            }
        }
    }

    #[test]
    fn a_signature_says_types_names_defaults_and_subs() {
        let std = find("std").expect("it is there");
        let collect = function(std, "collect").expect("it is there").function();
        assert_eq!(collect.returns, Type::Void);
        assert_eq!(collect.parameters[1].name, Some("sep"));
        assert_eq!(collect.parameters[1].default, Some(Default::Text(", ")));
        let log = function(std, "log").expect("it is there").function();
        assert_eq!((log.parameters[0].ty, log.steps), (Type::String, Steps::ALL));
        let cache = function(std, "cache_req_body").expect("it is there").function();
        assert_eq!(cache.steps, Steps::of(Step::Recv));

        let shard = object(find("directors").expect("it is there"), "shard").expect("it is there");
        let backend = method(shard, "backend").expect("it is there").method();
        let by = &backend.parameters[0];
        assert_eq!((by.name, by.is_optional, &by.default), (Some("by"), true, &Some(Default::Word(0))));
        assert_eq!(by.words, ["HASH", "URL", "KEY", "BLOB"]);
    }
}
