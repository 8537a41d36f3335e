//! Which parts of a page with ESI a visitor sees.

use super::nesting::Mark;
use super::variable::Visitor;

/// Where a delivery is in the page.
#[derive(Clone, Debug, Default)]
pub struct Flow {
    open: Vec<Level>,
    /// How many of the outer ones are seen.
    seen: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    /// A `choose`, and whether one of its branches was taken.
    Choose { is_taken: bool },
    /// Any other.
    Branch,
}

impl Flow {
    /// Whether what comes next is seen.
    pub fn shows(&self) -> bool {
        self.seen == self.open.len()
    }

    /// Whether nothing is open.
    pub fn is_outside(&self) -> bool {
        self.open.is_empty()
    }

    /// Goes past a mark.
    pub fn pass(&mut self, mark: &Mark, visitor: &Visitor<'_>) {
        let shows = self.shows();
        match mark {
            Mark::Choose => self.begin(Level::Choose { is_taken: false }, shows),
            Mark::When(test) => {
                let is_met = shows && self.is_open() && test.as_ref().is_some_and(|test| test.holds(visitor));
                self.branch(is_met)
            }
            Mark::Otherwise => {
                let is_met = shows && self.is_open();
                self.branch(is_met)
            }
            Mark::Try => self.begin(Level::Branch, shows),
            Mark::Attempt => self.begin(Level::Branch, shows),
            // Nobody asks yet whether the attempt has failed.
            Mark::Except => self.begin(Level::Branch, false),
            Mark::End => self.end(),
        }
    }

    /// Whether no branch was taken of the `choose` that is innermost.
    fn is_open(&self) -> bool {
        self.open.last() == Some(&Level::Choose { is_taken: false })
    }

    fn branch(&mut self, is_met: bool) {
        if is_met && let Some(last) = self.open.last_mut() {
            *last = Level::Choose { is_taken: true };
        }
        self.begin(Level::Branch, is_met);
    }

    fn begin(&mut self, level: Level, is_seen: bool) {
        if is_seen {
            self.seen += 1;
        }
        self.open.push(level);
    }

    fn end(&mut self) {
        self.open.pop();
        self.seen = self.seen.min(self.open.len());
    }
}
