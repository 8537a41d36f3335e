//! Warns of an operator without a space before it: it becomes a part of the name, and the condition tests a variable
//! that never exists.

use crate::diagnostic::Diagnostic;
use crate::model::{Condition, Rewrite, TemplatePart};

use super::each_step;

pub(super) fn lint(script: &[Rewrite], found: &mut Vec<Diagnostic>) {
    each_step(script, &mut |step| {
        let Rewrite::If { condition: Condition::True(asked), .. } = step else { return };
        let [TemplatePart::Variable(name)] = &asked.parts[..] else { return };
        if !name.contains(['=', '~', '!']) {
            return;
        }
        found.push(
            *Diagnostic::warning(format!(
                "\"${name}\" is the name of one variable, and what it asks for is never there"
            ))
            .at(asked.span)
            .label("an operator is a word of its own")
            .help("put spaces around the operator"),
        );
    });
}
