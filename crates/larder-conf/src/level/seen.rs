//! Which directives have stood in a level.

use crate::span::Span;

/// The directives that a level has had, and where first.
#[derive(Debug, Default)]
pub struct Seen {
    names: Vec<(&'static str, Span)>,
}

impl Seen {
    /// Where the first of that name stands.
    pub fn first(&self, name: &str) -> Option<Span> {
        self.names.iter().find(|(known, _)| *known == name).map(|(_, span)| *span)
    }

    /// Whether the level has had a directive of that name.
    pub fn has(&self, name: &str) -> bool {
        self.first(name).is_some()
    }

    /// Notes a directive of that name.
    pub fn add(&mut self, name: &'static str, span: Span) {
        self.names.push((name, span));
    }
}
