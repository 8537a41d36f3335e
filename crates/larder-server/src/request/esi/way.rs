//! What a visitor gets of a page with ESI: branches are chosen, variables filled in, and each `try` gathered as a whole.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use larder_compress::Segment;

use crate::exchange::Exchange;
use crate::filter::esi::{Event, Fault, Flow, Include, Mark, Place, Turn, Variable, Visitor};

/// How much of a page the attempt or the except of a `try` may be, with all that lies in it: it is kept until the `try` ends.
const PART_BYTES_MAX: usize = 1 << 20;
/// What a piece of one counts beside its text.
const PIECE_BYTES: usize = 256;

/// Something that goes into the whole.
pub enum Item<'a> {
    /// Bytes.
    Text(Bytes),
    /// Text that is in gzip.
    Packed(Arc<Segment>),
    /// What an include brings.
    Include(Cow<'a, Include>),
    /// What counts as an include that has failed, for this reason.
    Broken(Fault),
    /// An attempt, or what stands in for it.
    Try(Box<Tried>),
}

/// A `try` that was read.
#[derive(Default)]
pub struct Tried {
    /// What goes in if no include of it fails.
    pub attempt: Vec<Item<'static>>,
    /// What goes in else.
    pub except: Vec<Item<'static>>,
}

/// What was found in a page.
pub enum Found<'a> {
    /// Bytes.
    Text(Bytes),
    /// Text that is in gzip.
    Packed(Arc<Segment>),
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
    /// The `try`s that are gathered, each in the one before it.
    trying: Vec<Trying>,
    /// How much was gathered of a part of the outermost.
    part_bytes: usize,
}

#[derive(Default)]
struct Trying {
    tried: Tried,
    /// Whether its except is read, and not its attempt.
    is_excepted: bool,
}

impl Trying {
    fn part(&mut self) -> &mut Vec<Item<'static>> {
        if self.is_excepted { &mut self.tried.except } else { &mut self.tried.attempt }
    }
}

impl Way {
    /// One that begins where `flow` is, outside of any `try`.
    pub fn from(flow: Flow) -> Self {
        Self { flow, ..Self::default() }
    }

    /// Takes what comes next; returns what goes in now.
    pub fn take<'a>(&mut self, found: Found<'a>, visitor: &Visitor<'_>) -> Option<Item<'a>> {
        let item = match found {
            Found::Mark(mark) => {
                let turn = self.flow.pass(mark, visitor);
                return self.turn(turn);
            }
            _ if !self.flow.shows() => return None,
            Found::Text(bytes) => Item::Text(bytes),
            Found::Packed(segment) => Item::Packed(segment),
            Found::Include(include) => seen(include, visitor),
            Found::Variable(variable, place) => Item::Text(variable.shown(place, visitor).into()),
        };
        match self.trying.is_empty() {
            true => Some(item),
            false => {
                self.gather(item);
                None
            }
        }
    }

    fn turn(&mut self, turn: Turn) -> Option<Item<'static>> {
        let is_outermost = self.trying.len() == 1;
        match (turn, self.trying.last_mut()) {
            (Turn::Try, _) => self.trying.push(Trying::default()),
            (Turn::Attempt | Turn::Except, Some(trying)) => {
                trying.is_excepted = turn == Turn::Except;
                if is_outermost {
                    self.part_bytes = 0;
                }
            }
            (Turn::TryEnds, Some(_)) => {
                let item = Item::Try(Box::new(self.trying.pop()?.tried));
                if self.trying.is_empty() {
                    return Some(item);
                }
                self.gather(item);
            }
            (Turn::None | Turn::PartEnds, _) | (Turn::Attempt | Turn::Except | Turn::TryEnds, None) => {}
        }
        None
    }

    /// Keeps an item until its `try` has ended. A part that is too long fails instead.
    fn gather(&mut self, item: Item<'_>) {
        let bytes = match &item {
            Item::Text(bytes) => bytes.len(),
            Item::Packed(segment) => segment.len() as usize,
            Item::Include(include) => include.heap_bytes(),
            // What is in it was counted.
            Item::Broken(_) | Item::Try(_) => 0,
        };
        let had_room = self.part_bytes <= PART_BYTES_MAX;
        self.part_bytes = self.part_bytes.saturating_add(bytes + PIECE_BYTES);
        if self.part_bytes <= PART_BYTES_MAX {
            if let Some(trying) = self.trying.last_mut() {
                trying.part().push(item.into_owned());
            }
        } else if had_room && let Some((outermost, others)) = self.trying.split_first_mut() {
            *outermost.part() = vec![Item::Broken("an <esi:attempt> or <esi:except> of more than 1 MB".into())];
            others.iter_mut().for_each(|other| other.tried = Tried::default());
        }
    }
}

impl Item<'_> {
    fn into_owned(self) -> Item<'static> {
        match self {
            // It would keep all of the piece that it lies in.
            Self::Text(bytes) => Item::Text(Bytes::copy_from_slice(&bytes)),
            Self::Packed(segment) => Item::Packed(segment),
            Self::Include(include) => Item::Include(Cow::Owned(include.into_owned())),
            Self::Broken(why) => Item::Broken(why),
            Self::Try(tried) => Item::Try(tried),
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
    let around = page.request.nested.place;
    Visitor { fields: &head.fields, named: head.target_host(), target: head.target(), around }
}
