//! Checks a VCL, and makes a policy of it.
//!
//! First all names are declared, so that their order does not matter but for modules, objects and the probes of backends;
//! then each declaration is checked; then what each sub does, in all steps that reach it.

mod acls;
mod backends;
mod calls;
mod cx;
mod expressions;
mod fields;
mod operators;
mod probes;
mod reach;
mod resolve;
mod statements;
mod upstreams;
mod values;

use std::collections::HashSet;

use larder_source::{Diagnostic, Span, nearest};

use self::cx::{Cx, Deeds, Symbol};
use crate::ast::{self, Declaration, Program, Word};
use crate::policy::{AclId, BackendId, Policy, ProbeId, Sub, SubId};
use crate::steps::{STEPS, Step, Steps};
use crate::{Options, RegexCheck, old, vmods};

/// The policy of a VCL, to which the builtin one is added. What is wrong with it is reported.
pub fn check(
    program: &Program,
    builtin: &Program,
    options: &Options,
    regex: RegexCheck,
    diagnostics: &mut Vec<Diagnostic>,
) -> Policy {
    let mut cx = Cx::new(program.version, options, regex, diagnostics);
    let places = declare(&mut cx, program, builtin);
    for (declaration, place) in program.declarations.iter().chain(&builtin.declarations).zip(places) {
        check_declaration(&mut cx, declaration, place);
    }
    // What is wrong with a name elsewhere may be why nothing refers to it.
    if cx.is_sound() {
        report_unused(&mut cx, options.allows_unused);
    }
    if cx.policy.default_backend.is_none() && !options.has_other_backends {
        let error = Diagnostic::error("there is no backend").help("write backend default { .host = \"127.0.0.1\"; }");
        cx.report(match program.version_span {
            Some(place) => error.at(place),
            None => error,
        });
    }
    reach::check(&mut cx);
    cx.policy
}

/// Where a declaration has its place in the policy; `None` if its name is not its own.
type Place = Option<Symbol>;

/// Declares all names but those of modules and objects.
fn declare(cx: &mut Cx, program: &Program, builtin: &Program) -> Vec<Place> {
    let reserved: HashSet<&str> = builtin
        .declarations
        .iter()
        .filter_map(|declaration| match declaration {
            Declaration::Sub(sub) => Some(sub.name.text.as_str()),
            _ => None,
        })
        .collect();
    for (step, ..) in STEPS {
        let name = Word { text: step.name().to_owned(), span: Span::NOWHERE, quoted: false };
        let sub = add_sub(cx, &name, true);
        cx.policy.steps.extend(sub);
    }
    let all = program.declarations.iter().chain(&builtin.declarations);
    all.map(|declaration| match declaration {
        Declaration::Backend(backend) => declare_backend(cx, &backend.name).map(Symbol::Backend),
        Declaration::Probe(probe) => declare_probe(cx, &probe.name).map(Symbol::Probe),
        Declaration::Acl(acl) => {
            let id = AclId(cx.policy.acls.len());
            if !cx.declare(&acl.name, Symbol::Acl(id), false) {
                return None;
            }
            cx.policy.acls.push(acls::empty(&acl.name));
            Some(Symbol::Acl(id))
        }
        Declaration::Sub(sub) => {
            cx.objects_to_come.extend(objects_of(&sub.body));
            declare_sub(cx, &sub.name, &reserved).map(Symbol::Sub)
        }
        Declaration::Import(_) | Declaration::Unused(_) => None,
    })
    .collect()
}

/// The names of all objects that statements make.
fn objects_of(all: &[ast::Statement]) -> Vec<String> {
    let inner = all.iter().map(|statement| match statement {
        ast::Statement::New { name, .. } => vec![name.text.to_ascii_lowercase()],
        ast::Statement::Block(inner) => objects_of(inner),
        ast::Statement::If { branches, otherwise } => {
            let blocks = branches.iter().map(|(_, block)| block).chain([otherwise]);
            blocks.flat_map(|block| objects_of(block)).collect()
        }
        ast::Statement::Set { .. }
        | ast::Statement::Unset(_)
        | ast::Statement::Call(_)
        | ast::Statement::Return { .. }
        | ast::Statement::Builtin { .. }
        | ast::Statement::Do(_) => Vec::new(),
    });
    inner.flatten().collect()
}

/// Declares a backend. The one of the name `default` is the default, else the first, which nothing has to refer to
/// then.
fn declare_backend(cx: &mut Cx, name: &Word) -> Option<BackendId> {
    let id = BackendId(cx.policy.backends.len());
    if name.text.eq_ignore_ascii_case("default") {
        let known = cx.policy.default_backend.map(|known| &cx.policy.backends[known.0]);
        if let Some(span) = known.filter(|known| known.name.eq_ignore_ascii_case("default")).map(|known| known.span) {
            let message = "the backend \"default\" is declared twice";
            return cx.fail(Diagnostic::error(message).at(name.span).related(span, "it is declared here first"));
        }
        cx.policy.default_backend = Some(id);
    } else if !cx.declare(name, Symbol::Backend(id), false) {
        return None;
    }
    cx.policy.default_backend = cx.policy.default_backend.or(Some(id));
    cx.policy.backends.push(backends::empty(name));
    Some(id)
}

fn declare_probe(cx: &mut Cx, name: &Word) -> Option<ProbeId> {
    let id = ProbeId(cx.policy.probes.len());
    if name.text.eq_ignore_ascii_case("default") {
        if let Some(first) = cx.policy.default_probe {
            let span = cx.policy.probes[first.0].span;
            let message = "the probe \"default\" is declared twice";
            return cx.fail(Diagnostic::error(message).at(name.span).related(span, "it is declared here first"));
        }
        cx.policy.default_probe = Some(id);
    } else if !cx.declare(name, Symbol::Probe(id), false) {
        return None;
    }
    let empty = probes::probe(cx, Some(&name.text), name.span, &[]);
    cx.policy.probes.push(empty);
    Some(id)
}

/// Declares a sub, or finds the one of which this is another part.
fn declare_sub(cx: &mut Cx, name: &Word, reserved: &HashSet<&str>) -> Option<SubId> {
    let lower = name.text.to_ascii_lowercase();
    let is_of_vcl = reserved.contains(lower.as_str()) || Step::named(&lower).is_some();
    if let Some(sub) = cx.find_sub(&lower).filter(|_| is_of_vcl) {
        let first = &mut cx.policy.subs[sub.0];
        if first.span == Span::NOWHERE {
            first.span = name.span;
        }
        return Some(sub);
    }
    if lower.starts_with("vcl_") && !is_of_vcl {
        let message = format!("there is no sub \"{}\", and names with vcl_ are reserved", name.text);
        let diagnostic = Diagnostic::error(message).at(name.span);
        let mut known: Vec<&str> = reserved.iter().copied().collect();
        known.sort_unstable();
        let near = nearest(&lower, known.into_iter()).map(|near| format!("did you mean \"{near}\"?"));
        return cx.fail(match old::sub(&lower).map(str::to_owned).or(near) {
            Some(help) => diagnostic.help(help),
            None => diagnostic,
        });
    }
    add_sub(cx, name, is_of_vcl)
}

fn add_sub(cx: &mut Cx, name: &Word, is_used: bool) -> Option<SubId> {
    let id = SubId(cx.policy.subs.len());
    if !cx.declare(name, Symbol::Sub(id), is_used) {
        return None;
    }
    cx.policy.subs.push(Sub { name: name.text.clone(), span: name.span, body: Vec::new(), steps: Steps::NONE });
    cx.deeds.push(Deeds::default());
    Some(id)
}

/// Checks a declaration. If it has no place, its name was given before, which is reported.
fn check_declaration(cx: &mut Cx, declaration: &Declaration, place: Place) {
    match declaration {
        Declaration::Backend(backend) => {
            if let Some(Symbol::Backend(id)) = place {
                backends::backend(cx, id, backend);
            }
        }
        Declaration::Probe(probe) => {
            if let Some(Symbol::Probe(id)) = place {
                let found = probes::probe(cx, Some(&probe.name.text), probe.name.span, &probe.fields);
                cx.policy.probes[id.0] = found;
                cx.probes_above = id.0 + 1;
            }
        }
        Declaration::Acl(acl) => {
            if let Some(Symbol::Acl(id)) = place {
                let found = acls::acl(cx, acl);
                cx.policy.acls[id.0] = found;
            }
        }
        Declaration::Sub(sub) => {
            if let Some(Symbol::Sub(id)) = place {
                cx.sub = id;
                let body = statements::statements(cx, &sub.body);
                cx.policy.subs[id.0].body.extend(body);
            }
        }
        Declaration::Import(import) => self::import(cx, import),
        Declaration::Unused(name) => unused(cx, name),
    }
}

fn import(cx: &mut Cx, import: &ast::Import) {
    let name = &import.module;
    let alias = import.alias.as_ref().unwrap_or(name);
    let Some(module) = vmods::find(&name.text) else {
        cx.spoil(&alias.text);
        let known: Vec<&str> = vmods::modules().iter().map(|module| module.name).collect();
        let help = match nearest(&name.text, known.iter().copied()) {
            Some(near) => format!("did you mean \"{near}\"?"),
            None => format!("larder has {}", known.join(", ")),
        };
        return cx.report(Diagnostic::error(format!("there is no module \"{}\"", name.text)).at(name.span).help(help));
    };
    // The same import may be written again.
    if cx.find(&alias.text) == Some(Symbol::Module(module)) || !cx.declare(alias, Symbol::Module(module), true) {
        return;
    }
    let name = vmods::modules()[module].name;
    if !cx.policy.modules.contains(&name) {
        cx.policy.modules.push(name);
    }
}

fn unused(cx: &mut Cx, name: &Word) {
    match cx.find(&name.text) {
        Some(symbol @ (Symbol::Backend(_) | Symbol::Probe(_) | Symbol::Acl(_) | Symbol::Sub(_))) => {
            cx.refer_to(&name.text, symbol);
        }
        _ => {
            let message = format!("there is no backend, probe, ACL or sub \"{}\"", name.text);
            cx.report(Diagnostic::error(message).at(name.span));
        }
    }
}

/// Reports what nothing refers to: it is most often a name that is written wrong elsewhere.
fn report_unused(cx: &mut Cx, is_allowed: bool) {
    for declared in cx.declared() {
        let is_default = cx.policy.default_backend.is_some_and(|default| declared.symbol == Symbol::Backend(default));
        if declared.is_used || is_default {
            continue;
        }
        let name = match declared.symbol {
            Symbol::Backend(id) => cx.policy.backends[id.0].name.as_str(),
            Symbol::Probe(id) => cx.policy.probes[id.0].name.as_deref().unwrap_or_default(),
            Symbol::Acl(id) => &cx.policy.acls[id.0].name,
            Symbol::Sub(id) => &cx.policy.subs[id.0].name,
            Symbol::Object(_) | Symbol::Module(_) => continue,
        };
        let what = declared.symbol.describe();
        let message = format!("the {what} \"{name}\" is not used");
        let diagnostic = if is_allowed { Diagnostic::warning(message) } else { Diagnostic::error(message) };
        let help = format!("remove it, or write unused {name}; below it");
        cx.report(diagnostic.at(declared.span).help(help));
    }
}
