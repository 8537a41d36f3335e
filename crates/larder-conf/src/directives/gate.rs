//! `larder_gate`: how many requests are at a group of origins at once, and who waits; `queue` is NGINX Plus' word for a part
//! of it.

use std::time::Duration;

use super::{Action, Args, DirectiveInfo, HSL, ONE, UPSTREAM, directive};
use crate::cx::Cx;
use crate::diagnostic::{Diagnostic, Outcome};
use crate::level::Level;
use crate::model::{At, Gate, GateLimit, Queue, Upstream};
use crate::template::as_literal;
use crate::tree::{Directive, Word};
use crate::values;

pub const TABLE: &[DirectiveInfo] = &[
    directive("larder_gate", HSL, Args::AtLeast(1), Action::Level(of_level)),
    directive("larder_gate", UPSTREAM, Args::AtLeast(1), Action::Group(of_group)),
    directive("larder_gate_class", HSL, ONE, Action::Level(class)),
    directive("queue", UPSTREAM, Args::Between(1, 2), Action::Group(queue)),
];

/// What `larder_gate_class` takes.
const CLASSES: [&str; 13] = ["high", "normal", "low", "0", "1", "2", "3", "4", "5", "6", "7", "8", "9"];
/// More do not wait, but fill the memory.
const QUEUE_MAX: u32 = 1_000_000;

fn of_level(level: &mut Level, _: &mut Cx<'_>, d: &Directive) -> Outcome {
    level.gating().gate = Some(At { value: gate(d)?, span: d.span() });
    Ok(())
}

fn of_group(upstream: &mut Upstream, _: &mut Cx<'_>, d: &Directive) -> Outcome {
    upstream.gate = Some(At { value: gate(d)?, span: d.span() });
    one_of_both(upstream)
}

fn class(level: &mut Level, _: &mut Cx<'_>, d: &Directive) -> Outcome {
    let class = d.template(0)?;
    // An empty one leaves it to the rules that hold without the directive.
    if as_literal(&class).is_some_and(|word| !word.is_empty() && !CLASSES.contains(&word)) {
        let usual = "\"high\", \"normal\", \"low\", a digit, or variables that give one of these";
        return Err(d.invalid(d.arg(0), usual));
    }
    level.gating().class = Some(class);
    Ok(())
}

/// `NUMBER [timeout=TIME]`.
fn queue(upstream: &mut Upstream, _: &mut Cx<'_>, d: &Directive) -> Outcome {
    let most = d.number32(0)?;
    if !(1..=QUEUE_MAX).contains(&most) {
        return Err(d.invalid(d.arg(0), &format!("a number from 1 to {QUEUE_MAX}")));
    }
    let mut timeout = Duration::from_secs(60);
    if let Some(word) = d.args.get(1) {
        match word.text.split_once('=') {
            Some(("timeout", value)) => timeout = time(d, word, value)?,
            _ => return Err(d.unknown_parameter(word, &["timeout"])),
        }
    }
    upstream.queue = Some(At { value: Queue { most, timeout }, span: d.span() });
    one_of_both(upstream)
}

fn one_of_both(upstream: &Upstream) -> Outcome {
    match (&upstream.gate, &upstream.queue) {
        (Some(gate), Some(queue)) => {
            Err(Diagnostic::error("\"queue\" and \"larder_gate\" both say who waits in this \"upstream\"")
                .at(queue.span)
                .related(gate.span, "this is the gate")
                .help("leave out \"queue\", and write its numbers into \"larder_gate N queue=NUMBER timeout=TIME\""))
        }
        (Some(_) | None, _) => Ok(()),
    }
}

/// `NUMBER|auto|off|adaptive [queue=NUMBER] [timeout=TIME] [min=NUMBER] [max=NUMBER]`.
fn gate(d: &Directive) -> Outcome<Gate> {
    let first = d.arg(0);
    let limit = match first.text.as_str() {
        "off" => GateLimit::Off,
        "auto" => GateLimit::Auto,
        "adaptive" => GateLimit::Adaptive { min: 1, max: 200 },
        number => match values::number(number).and_then(|number| u32::try_from(number).ok()) {
            Some(number) if number > 0 => GateLimit::Fixed(number),
            Some(_) | None => return Err(d.invalid(first, "a number above zero, \"auto\", \"adaptive\" or \"off\"")),
        },
    };
    let mut gate = Gate { limit, ..Gate::AUTO };
    for word in &d.args[1..] {
        let number = |value: &str, least: u32| {
            let number = values::number(value).and_then(|number| u32::try_from(number).ok());
            number
                .filter(|number| (least..=QUEUE_MAX).contains(number))
                .ok_or_else(|| d.invalid_parameter_value(word, &format!("a number from {least} to {QUEUE_MAX}")))
        };
        match (word.text.split_once('='), &mut gate.limit) {
            (Some((_, _)), GateLimit::Off) => return Err(d.invalid_parameter(word)),
            (Some(("queue", value)), _) => gate.queue = number(value, 0)?,
            (Some(("timeout", value)), _) => gate.timeout = Some(time(d, word, value)?),
            (Some(("min", value)), GateLimit::Adaptive { min, .. }) => *min = number(value, 1)?,
            (Some(("max", value)), GateLimit::Adaptive { max, .. }) => *max = number(value, 1)?,
            _ => {
                let is_adaptive = matches!(limit, GateLimit::Adaptive { .. });
                let known: &[&str] =
                    if is_adaptive { &["queue", "timeout", "min", "max"] } else { &["queue", "timeout"] };
                return Err(d.unknown_parameter(word, known));
            }
        }
    }
    match gate.limit {
        GateLimit::Adaptive { min, max } if min > max => {
            Err(Diagnostic::error(format!("\"min={min}\" of \"larder_gate\" is above its \"max={max}\"")).at(d.span()))
        }
        GateLimit::Off | GateLimit::Auto | GateLimit::Fixed(_) | GateLimit::Adaptive { .. } => Ok(gate),
    }
}

fn time(d: &Directive, word: &Word, value: &str) -> Outcome<Duration> {
    values::time(value).ok_or_else(|| d.invalid_parameter_value(word, values::TIME))
}
