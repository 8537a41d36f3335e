//! How the elements of ESI that have others in them lie in each other: marks for whoever delivers the page.
//!
//! Source: ESI 1.0, sections 3.3, 3.4 and 3.7. What stands where it may not is left out with what is in it, so that nothing
//! shows that a `when` guards.

use super::element::Nest;
use super::expression::Test;

/// How deep they may lie in each other; what is deeper is left out.
pub const DEPTH_MAX: usize = 32;

/// A place in a page where something begins or ends that is decided at each delivery. They are nested: each but `End` begins
/// something, inside of what its name says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mark {
    /// `<esi:choose>`
    Choose,
    /// `<esi:when>`, with its test; without one it never holds.
    When(Option<Box<Test>>),
    /// `<esi:otherwise>`
    Otherwise,
    /// `<esi:try>`
    Try,
    /// `<esi:attempt>`
    Attempt,
    /// `<esi:except>`
    Except,
    /// The end of the innermost.
    End,
}

/// The elements that are open in a page while it is read.
#[derive(Debug, Default)]
pub struct Nesting {
    open: Vec<Open>,
    /// How many are open beyond the depth.
    too_deep: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Open {
    nest: Nest,
    /// Whether it is left out, with all that is in it.
    is_hidden: bool,
    /// For `choose`, whether its `otherwise` was there; for `try`, its `attempt`.
    has_first: bool,
    /// For `try`, whether its `except` was there.
    has_second: bool,
}

impl Nesting {
    /// Whether text and includes are parts of the page here.
    pub fn shows(&self) -> bool {
        self.open.last().is_none_or(|last| !last.is_hidden && !matches!(last.nest, Nest::Choose | Nest::Try))
            && self.too_deep == 0
    }

    /// Whether variables are read in the text here.
    pub fn is_in_vars(&self) -> bool {
        self.open.iter().any(|open| open.nest == Nest::Vars)
    }

    /// Whether all here is left out.
    pub fn hides(&self) -> bool {
        self.too_deep > 0 || self.open.last().is_some_and(|last| last.is_hidden)
    }

    /// Begins an element. `test` is that of a `when`. Returns what is wrong.
    pub fn begin(&mut self, nest: Nest, test: Option<Box<Test>>, mut mark: impl FnMut(Mark)) -> Option<&'static str> {
        if self.open.len() == DEPTH_MAX {
            self.too_deep = self.too_deep.saturating_add(1);
            return Some("elements of ESI that lie in each other too deep");
        }
        let hides = self.hides();
        let misplaced = if hides { None } else { self.misplaced(nest) };
        let is_hidden = hides || misplaced.is_some();
        self.open.push(Open { nest, is_hidden, has_first: false, has_second: false });
        if !is_hidden {
            match nest {
                Nest::Choose => mark(Mark::Choose),
                Nest::When => mark(Mark::When(test)),
                Nest::Otherwise => mark(Mark::Otherwise),
                Nest::Try => mark(Mark::Try),
                Nest::Attempt => mark(Mark::Attempt),
                Nest::Except => mark(Mark::Except),
                Nest::Vars | Nest::Inline => {}
            }
        }
        misplaced
    }

    /// Why an element may not stand here.
    fn misplaced(&mut self, nest: Nest) -> Option<&'static str> {
        let parent = self.open.last_mut();
        match (nest, parent) {
            (Nest::Inline, _) => Some("<esi:inline>, of which larder leaves the content out"),
            (Nest::When, Some(Open { nest: Nest::Choose, has_first: false, .. })) => None,
            (Nest::When, Some(Open { nest: Nest::Choose, .. })) => Some("<esi:when> behind <esi:otherwise>"),
            (Nest::Otherwise, Some(Open { nest: Nest::Choose, has_first, .. })) => {
                std::mem::replace(has_first, true).then_some("<esi:otherwise> twice in an <esi:choose>")
            }
            (Nest::When | Nest::Otherwise, _) => Some("<esi:when> or <esi:otherwise> outside of <esi:choose>"),
            (Nest::Attempt, Some(Open { nest: Nest::Try, has_first, .. })) => {
                std::mem::replace(has_first, true).then_some("<esi:attempt> twice in an <esi:try>")
            }
            (Nest::Except, Some(Open { nest: Nest::Try, has_second, .. })) => {
                std::mem::replace(has_second, true).then_some("<esi:except> twice in an <esi:try>")
            }
            (Nest::Attempt | Nest::Except, _) => Some("<esi:attempt> or <esi:except> outside of <esi:try>"),
            (_, Some(Open { nest: Nest::Choose | Nest::Try, .. })) => {
                Some("an element in <esi:choose> or <esi:try> itself")
            }
            (Nest::Choose | Nest::Try | Nest::Vars, _) => None,
        }
    }

    /// Ends an element, and what is still open in it. Returns what is wrong.
    pub fn end(&mut self, nest: Nest, mut mark: impl FnMut(Mark)) -> Option<&'static str> {
        if self.too_deep > 0 {
            self.too_deep -= 1;
            return None;
        }
        let Some(at) = self.open.iter().rposition(|open| open.nest == nest) else {
            return Some(unbegun(nest));
        };
        let fault = self.open.last().filter(|_| at + 1 < self.open.len()).map(|open| endless(open.nest));
        while self.open.len() > at {
            self.close(&mut mark);
        }
        fault
    }

    /// Ends all. Returns what is wrong.
    pub fn finish(&mut self, mut mark: impl FnMut(Mark)) -> Option<&'static str> {
        self.too_deep = 0;
        let fault = self.open.last().map(|open| endless(open.nest));
        while !self.open.is_empty() {
            self.close(&mut mark);
        }
        fault
    }

    fn close(&mut self, mark: &mut impl FnMut(Mark)) {
        match self.open.pop() {
            Some(Open { is_hidden: false, nest: Nest::Vars | Nest::Inline, .. }) | None => {}
            Some(Open { is_hidden, .. }) => {
                if !is_hidden {
                    mark(Mark::End);
                }
            }
        }
    }
}

fn endless(nest: Nest) -> &'static str {
    match nest {
        Nest::Choose => "<esi:choose> without its end",
        Nest::When => "<esi:when> without its end",
        Nest::Otherwise => "<esi:otherwise> without its end",
        Nest::Try => "<esi:try> without its end",
        Nest::Attempt => "<esi:attempt> without its end",
        Nest::Except => "<esi:except> without its end",
        Nest::Vars => "<esi:vars> without its end",
        Nest::Inline => "<esi:inline> without its end",
    }
}

fn unbegun(nest: Nest) -> &'static str {
    match nest {
        Nest::Choose => "</esi:choose> without its beginning",
        Nest::When => "</esi:when> without its beginning",
        Nest::Otherwise => "</esi:otherwise> without its beginning",
        Nest::Try => "</esi:try> without its beginning",
        Nest::Attempt => "</esi:attempt> without its beginning",
        Nest::Except => "</esi:except> without its beginning",
        Nest::Vars => "</esi:vars> without its beginning",
        Nest::Inline => "</esi:inline> without its beginning",
    }
}
