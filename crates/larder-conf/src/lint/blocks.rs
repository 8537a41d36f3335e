//! Warns of an `if` in a location: a request that matches is served by the block alone, and the location's other
//! directives are lost.

use crate::diagnostic::Diagnostic;
use crate::model::{Condition, Handler, Location, Rewrite, RewriteFlag, Template, TryFallback};
use crate::template;

pub(super) fn lint(location: &Location, found: &mut Vec<Diagnostic>) {
    let blocks: Vec<Block<'_>> = location.script.iter().filter_map(Block::of).collect();
    lost_files(location, &blocks, found);
    lost_block(location, &blocks, found);
}

/// An `if` of a location.
struct Block<'a> {
    condition: &'a Condition,
    script: &'a [Rewrite],
    location: &'a Location,
}

impl<'a> Block<'a> {
    fn of(step: &'a Rewrite) -> Option<Block<'a>> {
        match step {
            Rewrite::If { condition, script, location: Some(location) } => Some(Block { condition, script, location }),
            _ => None,
        }
    }

    /// Whether a matching request may stay in this location: the block neither answers nor redirects it.
    fn falls_through(&self) -> bool {
        !self.script.iter().any(|step| match step {
            Rewrite::Return { .. } => true,
            Rewrite::Rewrite { flag, .. } => match flag {
                RewriteFlag::Last | RewriteFlag::Redirect | RewriteFlag::Permanent => true,
                RewriteFlag::None | RewriteFlag::Break => false,
            },
            Rewrite::Set { .. } | Rewrite::If { .. } | Rewrite::Break => false,
        })
    }

    /// A directive of the block, other than those of the rewrite module.
    fn content(&self, outer: &Location) -> Option<&'static str> {
        let (inner, around) = (&self.location.settings, &outer.settings);
        let spans =
            |headers: &[crate::model::AddHeader]| -> Vec<_> { headers.iter().map(|it| it.value.span).collect() };
        if pass(&self.location.handler) != pass(&outer.handler) {
            return Some("the answer");
        }
        if spans(&inner.fields.add_headers) != spans(&around.fields.add_headers) {
            return Some("add_header");
        }
        (inner.files.root != around.files.root).then_some("root")
    }
}

/// The address that the handler passes requests to.
fn pass(handler: &Handler) -> Option<&Template> {
    match handler {
        Handler::FastCgi(pass) | Handler::Proxy(pass) => Some(pass),
        _ => None,
    }
}

/// Warns of lost `try_files`: a block has none and does not inherit it.
fn lost_files(location: &Location, blocks: &[Block<'_>], found: &mut Vec<Diagnostic>) {
    let Some(files) = &location.try_files else { return };
    // `=404` is a guard, and the block mostly keeps the same requests out.
    let leads = match &files.fallback {
        TryFallback::Status(_) => return,
        TryFallback::Named(name) => format!("@{}", name.value.trim_start_matches('@')),
        TryFallback::Uri(uri) => template::show(uri),
    };
    let Some(block) = blocks.iter().find(|block| block.falls_through()) else { return };
    found.push(
        *Diagnostic::warning("\"try_files\" of this location does nothing for who matches this \"if\"")
            .at(condition_span(block.condition))
            .label(format!("a request that matches never comes to \"{leads}\""))
            .help("decide above: \"set\" a variable in an \"if\" of the server, or use a \"map\""),
    );
}

/// Warns of two blocks that match together: only the last one's directives apply.
fn lost_block(location: &Location, blocks: &[Block<'_>], found: &mut Vec<Diagnostic>) {
    for (number, block) in blocks.iter().enumerate() {
        let Some(content) = block.content(location).filter(|_| block.falls_through()) else { continue };
        let later = blocks.iter().skip(number + 1).find(|later| {
            later.content(location).is_some() && later.falls_through() && !exclude(block.condition, later.condition)
        });
        if let Some(later) = later {
            let mut warning = *Diagnostic::warning("of two \"if\" blocks that match, only the last one has an effect")
                .at(condition_span(later.condition))
                .label(format!("who matches this one loses {content} of the one before"))
                .help("use a \"map\" for each value, and the variables in one place");
            warning.related.push((condition_span(block.condition), "the one before".to_owned()));
            found.push(warning);
        }
    }
}

/// Whether the two conditions exclude each other: one variable, two values.
fn exclude(one: &Condition, other: &Condition) -> bool {
    match (one, other) {
        (
            Condition::Equal { left, right, negate: false },
            Condition::Equal { left: other_left, right: other_right, negate: false },
        ) => left.parts == other_left.parts && right.parts != other_right.parts,
        _ => false,
    }
}

fn condition_span(condition: &Condition) -> crate::Span {
    match condition {
        Condition::True(asked) | Condition::Equal { left: asked, .. } | Condition::Match { left: asked, .. } => {
            asked.span
        }
        Condition::File { path, .. } => path.span,
    }
}
