//! Builds the model from the tree of directives, level by level.
//!
//! A level is what one pair of braces holds: `http`, a `server`, a `location`, an `if`. It starts as a copy of what it
//! inherits. First its own directives are applied in order, then the levels inside it start as copies of it. So, as in
//! nginx, the place of a directive within its level does not matter. A list replaces the inherited one when the level
//! first adds to it.

mod acme;
mod admin;
mod check;
mod http;
mod tls;

use std::sync::Arc;

use crate::Options;
use crate::contexts::Contexts;
use crate::cx::{Cx, Files, Naming};
use crate::diagnostic::Diagnostic;
use crate::directives::{self, Action, BlockKind, DirectiveInfo};
use crate::level::Seen;
use crate::model::{Config, Main};
use crate::tree::Directive;

/// Makes the model. What is wrong goes to `diagnostics`; the model is only good without errors among them.
pub fn build<'a>(
    tree: &[Directive],
    options: &'a Options,
    files: Files<'a>,
    naming: Naming,
    diagnostics: &'a mut Vec<Diagnostic>,
) -> Config {
    let mut cx = Cx::new(options, files, naming, diagnostics);
    let mut main = Main::new(options.prefix.clone(), options.conf_prefix.clone());
    let mut http_block: Option<&Directive> = None;
    let mut events_block: Option<&Directive> = None;
    let wrapped = wrap_vhost(tree, &mut cx);
    let outside: Vec<&Directive> = match &wrapped {
        Some((outside, _)) => outside.clone(),
        None => tree.iter().collect(),
    };
    let mut seen = Seen::default();
    for directive in outside {
        let Some(info) = admit(directive, Contexts::MAIN, &mut seen, &mut cx) else {
            continue;
        };
        match info.action {
            Action::Main(set) => apply(directive, &mut cx, |cx| set(&mut main, cx, directive)),
            Action::Block(BlockKind::Http) => once(&mut http_block, directive, &mut cx),
            Action::Block(BlockKind::Events) => once(&mut events_block, directive, &mut cx),
            _ => {}
        }
    }
    if let Some(events) = events_block {
        build_events(events, &mut main, &mut cx);
    }
    let (http, acme) = match (&wrapped, http_block) {
        (Some((_, inside)), _) => http::build(inside, &mut cx),
        (None, Some(block)) => http::build(&block.children(), &mut cx),
        (None, None) => http::build(&[], &mut cx),
    };
    main.binds_anywhere = cx.binds_anywhere;
    Config { main, http, acme, lines: Arc::default() }
}

/// Handles a file with `server` and the like at the top and no `http`, such as one of `sites-enabled`. Returns the
/// directives of the main context, and those that are read as if they stood in `http`.
fn wrap_vhost<'t>(tree: &'t [Directive], cx: &mut Cx<'_>) -> Option<(Vec<&'t Directive>, Vec<&'t Directive>)> {
    let belongs_to_http = |directive: &&Directive| {
        directives::stands_in(&directive.name.text, Contexts::HTTP)
            && !directives::stands_in(&directive.name.text, Contexts::MAIN)
    };
    let has_http = tree.iter().any(|directive| directive.name.text == "http");
    let has_server = tree.iter().any(|directive| belongs_to_http(&directive) && directive.block.is_some());
    if has_http || !has_server {
        return None;
    }
    let (inside, outside): (Vec<&Directive>, Vec<&Directive>) = tree.iter().partition(belongs_to_http);
    if let Some(first) = inside.first() {
        cx.report(
            Diagnostic::notice("the file has no \"http\" block; it is read as if it stood in one")
                .at(first.name.span)
                .label("this belongs into \"http\""),
        );
    }
    Some((outside, inside))
}

fn build_events(events: &Directive, main: &mut Main, cx: &mut Cx<'_>) {
    let mut seen = Seen::default();
    for directive in events.children() {
        let Some(info) = admit(directive, Contexts::EVENTS, &mut seen, cx) else {
            continue;
        };
        if let Action::Main(set) = info.action {
            apply(directive, cx, |cx| set(main, cx, directive));
        }
    }
}

fn once<'t>(slot: &mut Option<&'t Directive>, directive: &'t Directive, cx: &mut Cx<'_>) {
    match slot {
        Some(first) => cx.report(directive.duplicate().related(first.name.span, "it stands here already")),
        None => *slot = Some(directive),
    }
}

/// What a directive is, if something has to be done with it. All that needs only be said is said here.
fn admit(directive: &Directive, context: Contexts, seen: &mut Seen, cx: &mut Cx<'_>) -> Option<&'static DirectiveInfo> {
    let name = &directive.name;
    let info = match directives::resolve(directive, context) {
        Ok(info) => info,
        Err(diagnostic) => {
            cx.report(directive.runs_on.clone().map_or(diagnostic, as_error));
            return None;
        }
    };
    match info.action {
        Action::Refused(refusal) => {
            let is_harmless = directive.args.len() == 1
                && refusal.harmless_with.iter().any(|harmless| directive.text(0).eq_ignore_ascii_case(harmless));
            if !is_harmless {
                cx.report(
                    Diagnostic::error(format!("\"{}\" is not available in this version of larder", name.text))
                        .at(name.span)
                        .label(format!("it belongs to {}", refusal.module))
                        .help(refusal.advice),
                );
            }
            None
        }
        Action::Harmless(why) => {
            let topic = if info.name.ends_with('_') { info.name } else { name.text.as_str() };
            cx.report_once(topic, || Diagnostic::no_effect(&name.text, why).at(name.span));
            None
        }
        // A module that is switched off is not missed.
        Action::Lost(_) if directive.args.len() == 1 && directive.text(0).eq_ignore_ascii_case("off") => None,
        Action::Lost(why) => {
            cx.report_once(&name.text, || {
                Diagnostic::notice(format!("\"{}\" is read and has no effect: {why}", name.text)).at(name.span)
            });
            None
        }
        Action::Obsolete(instead) => {
            cx.report_once(&name.text, || {
                let what = format!("the \"{}\" directive is obsolete, ", name.text);
                let how = instead.map_or("ignored".to_owned(), |new| format!("use the \"{new}\" directive instead"));
                Diagnostic::warning(what + &how).at(name.span)
            });
            None
        }
        Action::Main(_) | Action::Level(_) | Action::Http(_) | Action::Group(_) | Action::Script | Action::Block(_) => {
            if let Some(first) = seen.first(info.name) {
                if !info.repeats {
                    cx.report(
                        directive.duplicate().label("a level has it once").related(first, "it stands here already"),
                    );
                    return None;
                }
            } else {
                seen.add(info.name, name.span);
            }
            Some(info)
        }
    }
}

/// Runs a setter. If it fails where a `;` may be missing before the word at fault, that is reported instead. If it
/// succeeds, the missing `;` is only a guess.
fn apply(directive: &Directive, cx: &mut Cx<'_>, set: impl FnOnce(&mut Cx<'_>) -> Result<(), Box<Diagnostic>>) {
    let result = set(cx);
    match (result, directive.runs_on.clone()) {
        (Ok(()), None) => {}
        (Ok(()), Some(guess)) => cx.report(guess),
        (Err(diagnostic), None) => cx.report(diagnostic),
        (Err(diagnostic), Some(guess)) => {
            let is_before =
                guess.span.zip(diagnostic.span).is_some_and(|(g, d)| g.file == d.file && g.start <= d.start);
            cx.report(if is_before { as_error(guess) } else { diagnostic });
        }
    }
}

fn as_error(mut guess: Box<Diagnostic>) -> Box<Diagnostic> {
    guess.severity = crate::Severity::Error;
    guess.message = guess.message.replace("perhaps not", "not");
    guess.label = Some("a \";\" is missing here".to_owned());
    guess.related.iter_mut().for_each(|(_, why)| *why = "the next directive begins here".to_owned());
    guess
}
