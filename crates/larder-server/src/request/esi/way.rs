//! What a visitor gets of a page with ESI: branches are chosen, and variables filled in.

use std::borrow::Cow;

use bytes::Bytes;

use crate::exchange::Exchange;
use crate::filter::esi::{Event, Flow, Include, Mark, Place, Variable, Visitor};

/// Something that goes into the whole.
pub enum Item<'a> {
    /// Bytes.
    Text(Bytes),
    /// What an include brings.
    Include(Cow<'a, Include>),
    /// What counts as an include that has failed, for this reason.
    Broken(&'static str),
}

/// What was found in a page.
pub enum Found<'a> {
    /// Bytes.
    Text(Bytes),
    /// An include.
    Include(Cow<'a, Include>),
    /// A variable.
    Variable(&'a Variable, Place),
    /// A mark.
    Mark(&'a Mark),
}

/// How far a delivery is.
#[derive(Default)]
pub struct Way {
    flow: Flow,
}

impl Way {
    /// One that begins where `flow` is.
    pub fn from(flow: Flow) -> Self {
        Self { flow }
    }

    /// Takes what comes next; returns what goes in now.
    pub fn take<'a>(&mut self, found: Found<'a>, visitor: &Visitor<'_>) -> Option<Item<'a>> {
        match found {
            Found::Mark(mark) => {
                self.flow.pass(mark, visitor);
                None
            }
            _ if !self.flow.shows() => None,
            Found::Text(bytes) => Some(Item::Text(bytes)),
            Found::Include(include) => Some(seen(include, visitor)),
            Found::Variable(variable, place) => Some(Item::Text(variable.shown(place, visitor).into())),
        }
    }
}

/// What an include is for a visitor.
fn seen<'a>(include: Cow<'a, Include>, visitor: &Visitor<'_>) -> Item<'a> {
    if include.written.is_none() {
        return Item::Include(include);
    }
    match include.seen_by(visitor) {
        Ok(seen) => Item::Include(Cow::Owned(seen.into_owned())),
        Err(why) => Item::Broken(why),
    }
}

impl<'a> From<&'a Event> for Found<'a> {
    fn from(event: &'a Event) -> Self {
        match event {
            Event::Text(bytes) => Self::Text(bytes.clone()),
            Event::Include(include) => Self::Include(Cow::Borrowed(include)),
            Event::Variable(variable, place) => Self::Variable(variable, *place),
            Event::Mark(mark) => Self::Mark(mark),
        }
    }
}

/// What variables say of the request of a page.
pub fn visitor(page: &Exchange) -> Visitor<'_> {
    let head = &page.asked.head;
    Visitor { fields: &head.fields, named: head.target_host(), target: head.target() }
}
