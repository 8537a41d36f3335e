//! `split_clients`: variables by shares, as for A/B tests.

use super::{Action, Args, DirectiveInfo, HTTP, block};
use crate::cx::Cx;
use crate::diagnostic::{Diagnostic, Outcome};
use crate::level::HttpParts;
use crate::model::SplitClients;
use crate::tree::{Directive, Word};
use crate::{template, values};

pub const TABLE: &[DirectiveInfo] = &[block("split_clients", HTTP, Args::Between(2, 2), Action::Http(split_clients))];

/// Parts are counted in hundredths of a percent.
const WHOLE: u32 = 10_000;

fn split_clients(http: &mut HttpParts, cx: &mut Cx<'_>, d: &Directive) -> Outcome {
    let mut split = SplitClients {
        span: d.span(),
        source: d.template(0)?,
        variable: template::variable_name(d.arg(1))?,
        parts: Vec::new(),
    };
    let mut sum = 0;
    for line in d.children() {
        match part(line) {
            Ok((share, value)) => {
                sum += share.unwrap_or(0);
                split.parts.push((share, value));
            }
            Err(diagnostic) => cx.report(diagnostic),
        }
        if sum > WHOLE {
            return Err(Diagnostic::error("percent total is greater than 100%").at(line.name.span));
        }
    }
    http.splits.push(split);
    Ok(())
}

fn part(line: &Directive) -> Outcome<(Option<u32>, crate::model::Template)> {
    if line.block.is_some() || line.args.len() != 1 {
        return Err(Diagnostic::error("invalid number of the split_clients parameters")
            .at(line.span())
            .label("a line is \"percent value;\""));
    }
    let share = match line.name.text.as_str() {
        "*" => None,
        _ => Some(percent(&line.name)?),
    };
    Ok((share, line.template(0)?))
}

fn percent(word: &Word) -> Outcome<u32> {
    let number = word.text.strip_suffix('%').and_then(|text| values::fixed_point(text, 2));
    match number.and_then(|number| u32::try_from(number).ok()) {
        Some(share @ 1..=WHOLE) => Ok(share),
        _ => Err(Diagnostic::error(format!("invalid percent value \"{}\"", word.text))
            .at(word.span)
            .label("it must be above 0% and at most 100%, with up to two decimals, or \"*\"")),
    }
}
