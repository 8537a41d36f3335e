//! Which steps reach which subs, and whether what those do is allowed there.

use larder_source::{Diagnostic, Span};

use super::cx::{Cx, Deed, Use};
use crate::policy::SubId;
use crate::steps::{Action, STEPS, Step, Steps};

/// Checks all subs, and notes in the policy which steps reach each.
pub fn check(cx: &mut Cx) {
    let Some(order) = callees_first(cx) else {
        return;
    };
    let mut reported = Reported::default();
    for (step, ..) in STEPS {
        check_step(cx, step, &mut reported);
    }
    if cx.is_sound() {
        check_possible(cx, &order);
    }
}

/// All subs, each behind those that it calls. A circle is reported.
fn callees_first(cx: &mut Cx) -> Option<Vec<SubId>> {
    let count = cx.deeds.len();
    let mut callers: Vec<Vec<usize>> = vec![Vec::new(); count];
    let mut open: Vec<usize> = vec![0; count];
    for (caller, deeds) in cx.deeds.iter().enumerate() {
        open[caller] = deeds.calls.len();
        for (callee, _) in &deeds.calls {
            callers[callee.0].push(caller);
        }
    }
    let mut order: Vec<SubId> = (0..count).filter(|sub| open[*sub] == 0).map(SubId).collect();
    let mut at = 0;
    while at < order.len() {
        for caller in &callers[order[at].0] {
            open[*caller] -= 1;
            if open[*caller] == 0 {
                order.push(SubId(*caller));
            }
        }
        at += 1;
    }
    if order.len() == count {
        return Some(order);
    }
    report_circle(cx, &open);
    None
}

/// Reports one circle among the subs that still have open calls.
fn report_circle(cx: &mut Cx, open: &[usize]) {
    let mut is_seen = vec![false; open.len()];
    let Some(mut sub) = open.iter().position(|calls| *calls > 0) else {
        return;
    };
    // Each of them calls another of them, so that some sub comes a second time.
    while let Some((next, span)) = cx.deeds[sub].calls.iter().find(|(callee, _)| open[callee.0] > 0).copied() {
        is_seen[sub] = true;
        if is_seen[next.0] {
            let callee = &cx.policy.subs[next.0];
            let message = format!("the sub \"{}\" calls itself", callee.name);
            let diagnostic = Diagnostic::error(message).at(span).related(callee.span, "it is declared here");
            return cx.report(diagnostic);
        }
        sub = next.0;
    }
}

/// What was reported for another step already.
#[derive(Default)]
struct Reported(std::collections::HashSet<Span>);

/// Goes through all that a step reaches.
fn check_step(cx: &mut Cx, step: Step, reported: &mut Reported) {
    let first = cx.policy.steps[step as usize];
    let mut called_from: Vec<Option<Span>> = vec![None; cx.deeds.len()];
    let mut is_reached = vec![false; cx.deeds.len()];
    is_reached[first.0] = true;
    let mut queue = vec![first];
    let mut at = 0;
    while at < queue.len() {
        let sub = queue[at];
        at += 1;
        cx.policy.subs[sub.0].steps = cx.policy.subs[sub.0].steps.or(Steps::of(step));
        check_deeds(cx, sub, step, called_from[sub.0], reported);
        for (callee, span) in &cx.deeds[sub.0].calls {
            if !is_reached[callee.0] {
                is_reached[callee.0] = true;
                called_from[callee.0] = Some(*span);
                queue.push(*callee);
            }
        }
    }
}

/// Checks what one sub does, as a step reaches it.
fn check_deeds(cx: &mut Cx, sub: SubId, step: Step, called_from: Option<Span>, reported: &mut Reported) {
    let deeds = &cx.deeds[sub.0];
    let uses = deeds.uses.iter().filter(|found| !found.allowed.contains(step)).map(|found| forbidden(found, step));
    let returns = deeds.returns.iter().filter(|(action, _)| !step.actions().contains(action));
    let returns = returns.map(|(action, span)| wrong_return(*action, *span, step));
    let found: Vec<Box<Diagnostic>> = uses.chain(returns).collect();
    for diagnostic in found {
        let is_new = diagnostic.span.is_none_or(|span| reported.0.insert(span));
        if is_new {
            cx.report(match called_from {
                Some(span) => diagnostic.related(span, format!("{} gets there by this call", step.name())),
                None => diagnostic,
            });
        }
    }
}

fn forbidden(found: &Use, step: Step) -> Box<Diagnostic> {
    let name = &found.name;
    let message = match found.deed {
        Deed::Read => format!("{name} is not there in {}", step.name()),
        Deed::Set => format!("{name} cannot be set in {}", step.name()),
        Deed::Unset => format!("{name} cannot be unset in {}", step.name()),
        Deed::Call => format!("\"{name}\" cannot be used in {}", step.name()),
    };
    let possible = found.allowed.describe();
    let diagnostic = Diagnostic::error(message).at(found.span);
    let instead = sibling(name, step).map(|sibling| format!("; here is {sibling}")).unwrap_or_default();
    match found.deed {
        Deed::Read => diagnostic.help(format!("it is there {possible}{instead}")),
        Deed::Set | Deed::Unset => diagnostic.help(format!("that is possible {possible}{instead}")),
        Deed::Call => diagnostic.help(format!("it can be used {possible}")),
    }
}

/// What has the same meaning on the side of this step.
fn sibling(name: &str, step: Step) -> Option<String> {
    let rest = name.strip_prefix("req.").filter(|_| Steps::BACKEND.contains(step))?;
    let has_sibling = matches!(rest, "url" | "method" | "proto" | "xid") || rest.starts_with("http.");
    has_sibling.then(|| format!("bereq.{rest}"))
}

fn wrong_return(action: Action, span: Span, step: Step) -> Box<Diagnostic> {
    let message = format!("{} cannot return \"{}\"", step.name(), action.name());
    let diagnostic = Diagnostic::error(message).at(span);
    match crate::old::action(step.name(), action.name()) {
        Some(advice) => diagnostic.help(advice),
        None => {
            let names: Vec<_> = step.actions().iter().map(|action| action.name()).collect();
            diagnostic.help(format!("it may return {}", names.join(", ")))
        }
    }
}

/// Reports subs whose statements are never allowed together, and which therefore nothing can call.
fn check_possible(cx: &mut Cx, order: &[SubId]) {
    let mut possible = vec![Steps::ALL; order.len()];
    let mut is_reported = vec![false; order.len()];
    for sub in order {
        let deeds = &cx.deeds[sub.0];
        let uses = deeds.uses.iter().map(|found| found.allowed);
        let returns = deeds.returns.iter().map(|(action, _)| action.steps());
        let calls = deeds.calls.iter().map(|(callee, _)| possible[callee.0]);
        let steps = uses.chain(returns).chain(calls).fold(Steps::ALL, Steps::and);
        let is_told = deeds.calls.iter().any(|(callee, _)| is_reported[callee.0]);
        possible[sub.0] = steps;
        is_reported[sub.0] = steps.is_empty();
        if steps.is_empty() && !is_told {
            let found = &cx.policy.subs[sub.0];
            let message = format!("what the sub \"{}\" does is not allowed in any one step", found.name);
            let diagnostic = Diagnostic::error(message).at(found.span);
            cx.report(diagnostic);
        }
    }
}
