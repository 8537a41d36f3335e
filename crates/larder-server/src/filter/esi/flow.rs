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
    Choose {
        is_taken: bool,
    },
    /// A `when` or `otherwise`.
    Branch,
    Try,
    Attempt,
    Except,
}

/// What a mark means for who delivers a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Nothing beside what [`Flow::shows`] says.
    None,
    /// A `try` begins.
    Try,
    /// What follows is its attempt.
    Attempt,
    /// What follows is its except.
    Except,
    /// The attempt or the except is whole.
    PartEnds,
    /// The `try` is whole.
    TryEnds,
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
    pub fn pass(&mut self, mark: &Mark, visitor: &Visitor<'_>) -> Turn {
        let shows = self.shows();
        let turn = match mark {
            Mark::Choose => self.begin(Level::Choose { is_taken: false }, shows),
            Mark::When(test) => {
                let is_met = shows && self.is_open() && test.as_ref().is_some_and(|test| test.holds(visitor));
                self.branch(is_met)
            }
            Mark::Otherwise => {
                let is_met = shows && self.is_open();
                self.branch(is_met)
            }
            Mark::Try => self.begin(Level::Try, shows),
            Mark::Attempt => self.begin(Level::Attempt, shows),
            Mark::Except => self.begin(Level::Except, shows),
            Mark::End => self.end(),
        };
        if shows || turn == Turn::PartEnds || turn == Turn::TryEnds { turn } else { Turn::None }
    }

    /// Whether no branch was taken of the `choose` that is innermost.
    fn is_open(&self) -> bool {
        self.open.last() == Some(&Level::Choose { is_taken: false })
    }

    fn branch(&mut self, is_met: bool) -> Turn {
        if is_met && let Some(last) = self.open.last_mut() {
            *last = Level::Choose { is_taken: true };
        }
        self.begin(Level::Branch, is_met)
    }

    fn begin(&mut self, level: Level, is_seen: bool) -> Turn {
        if is_seen {
            self.seen += 1;
        }
        self.open.push(level);
        match level {
            Level::Choose { .. } | Level::Branch => Turn::None,
            Level::Try => Turn::Try,
            Level::Attempt => Turn::Attempt,
            Level::Except => Turn::Except,
        }
    }

    fn end(&mut self) -> Turn {
        let shows = self.shows();
        let ended = self.open.pop();
        self.seen = self.seen.min(self.open.len());
        match ended {
            Some(Level::Attempt | Level::Except) if shows => Turn::PartEnds,
            Some(Level::Try) if shows => Turn::TryEnds,
            Some(Level::Choose { .. } | Level::Branch | Level::Try | Level::Attempt | Level::Except) | None => {
                Turn::None
            }
        }
    }
}
