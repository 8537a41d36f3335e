//! A page with ESI that was read once: its text and its includes, in order.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use larder_compress::{Effort, Segment};

use crate::filter::esi::{Event, Findings, Include, Mark, Parser, Place, Rules, Variable};

/// A page that was read.
#[derive(Debug)]
pub struct Read {
    /// By which rules.
    pub rules: Rules,
    is_packed: bool,
    /// What was wrong with it.
    pub findings: Findings,
    is_plain: bool,
    /// What is in it.
    pub parts: Vec<Part>,
}

/// A part of a page.
#[derive(Debug)]
pub enum Part {
    /// Bytes of its body, which is in no coding.
    Text(Range<usize>),
    /// Text of a page that is stored in gzip.
    Packed(Arc<Segment>),
    /// An include.
    Include(Include),
    /// A variable.
    Variable(Variable, Place),
    /// What follows is for some visitors, or depends on others.
    Mark(Mark),
}

impl Part {
    /// Whether it is an include.
    pub fn is_include(&self) -> bool {
        matches!(self, Self::Include(_))
    }

    /// How much text it is.
    pub fn text_bytes(&self) -> usize {
        match self {
            Self::Text(range) => range.len(),
            Self::Packed(segment) => segment.len() as usize,
            Self::Include(_) | Self::Variable(..) | Self::Mark(_) => 0,
        }
    }
}

/// Varnish's `gzip_level`.
pub const EFFORT: Effort = Effort::Quick(6);
/// How much of a page is read at once, so that what is found in it takes little memory.
pub const READ_BYTES: usize = 16 * 1024;

impl Read {
    /// Reads a page, of which the text is packed if `is_packed` says so. `None` if it cannot be, for lack of memory.
    pub fn of(body: &Bytes, is_packed: bool, rules: Rules) -> Option<Self> {
        let mut reading = Reading { body, parts: Vec::new(), text: Vec::new(), is_packed, at: 0 };
        let mut parser = Parser::new(rules);
        let mut events = Vec::new();
        for start in (0..body.len()).step_by(READ_BYTES) {
            parser.feed(&body.slice(start..body.len().min(start + READ_BYTES)), &mut events);
            reading.take(&mut events)?;
        }
        let findings = parser.finish(&mut events);
        reading.take(&mut events)?;
        reading.pack()?;
        let text: usize = reading.parts.iter().map(Part::text_bytes).sum();
        let is_plain = reading.parts.len() <= 1 && text == body.len();
        Some(Self { rules, is_packed, findings, is_plain, parts: reading.parts })
    }

    /// Whether there is nothing in it but its text.
    pub fn is_plain(&self) -> bool {
        self.is_plain
    }

    /// Whether these rules would lead to the same parts, of a page that is packed or is not.
    pub fn is_by(&self, rules: Rules, is_packed: bool) -> bool {
        self.rules == rules && self.is_packed == is_packed
    }

    /// The bytes on the heap.
    pub fn heap_bytes(&self) -> usize {
        let of_part = |part: &Part| match part {
            Part::Text(_) => 0,
            Part::Packed(segment) => size_of_val(&**segment) + segment.packed_len(),
            Part::Include(include) => include.heap_bytes(),
            Part::Variable(variable, _) => variable.heap_bytes(),
            Part::Mark(Mark::When(Some(test))) => size_of_val(&**test) + test.heap_bytes(),
            Part::Mark(_) => 0,
        };
        self.parts.capacity() * size_of::<Part>() + self.parts.iter().map(of_part).sum::<usize>()
    }
}

/// A page while it is read.
struct Reading<'a> {
    body: &'a Bytes,
    parts: Vec<Part>,
    /// Text that is still to be packed.
    text: Vec<u8>,
    is_packed: bool,
    /// How far its text goes.
    at: usize,
}

impl Reading<'_> {
    fn take(&mut self, events: &mut Vec<Event>) -> Option<()> {
        for event in events.drain(..) {
            let part = match event {
                Event::Text(bytes) if self.is_packed => {
                    self.text.extend_from_slice(&bytes);
                    continue;
                }
                Event::Text(bytes) => {
                    self.add(&bytes)?;
                    continue;
                }
                Event::Include(include) => Part::Include(include),
                Event::Variable(variable, place) => Part::Variable(variable, place),
                Event::Mark(mark) => Part::Mark(mark),
            };
            self.pack()?;
            self.parts.push(part);
        }
        Some(())
    }

    /// Adds text by its place: where it lies, or the next where the page says the same, if the parser has held it.
    fn add(&mut self, bytes: &Bytes) -> Option<()> {
        let lies_at = (bytes.as_ptr() as usize).checked_sub(self.body.as_ptr() as usize);
        let start = match lies_at.filter(|at| at + bytes.len() <= self.body.len()) {
            Some(at) => at,
            None => self.at + memchr::memmem::find(&self.body[self.at..], bytes)?,
        };
        let end = start + bytes.len();
        self.at = end;
        match self.parts.last_mut() {
            Some(Part::Text(last)) if last.end == start => last.end = end,
            _ => self.parts.push(Part::Text(start..end)),
        }
        Some(())
    }

    fn pack(&mut self) -> Option<()> {
        if !self.text.is_empty() {
            self.parts.push(Part::Packed(Arc::new(Segment::of(&self.text, EFFORT).ok()?)));
            self.text.clear();
        }
        Some(())
    }
}
