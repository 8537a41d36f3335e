//! Queries (vsl-query(7)): which groups of transactions are shown.
//!
//! ```text
//! RespStatus >= 500 and not ReqHeader:cookie
//! {2+}Timestamp:Process[2] > 0.8
//! ```
//! `lex` makes words of a text, `parse` an expression of them, `run` tells whether it is true of a group.

mod lex;
mod number;
mod parse;
mod run;

use super::globs::TagSet;
use super::group::Group;
use super::pattern::{Compile, Pattern};

pub use lex::QueryError;

/// A query.
#[derive(Debug)]
pub struct Query(Expression);

/// What is true or false of a group.
#[derive(Debug)]
enum Expression {
    Any(Vec<Expression>),
    All(Vec<Expression>),
    Not(Box<Expression>),
    /// A record is like this.
    Record(Place, Test),
    /// A transaction has such a number.
    Vxid(Order, i64),
}

/// Where in a group to look.
#[derive(Debug)]
struct Place {
    level: Option<(Order, u32)>,
    tags: TagSet,
    prefix: Option<Vec<u8>>,
    /// Counted from 1.
    field: Option<usize>,
}

/// What is asked of a text.
#[derive(Debug)]
enum Test {
    /// That it is there.
    There,
    Whole(Order, i64),
    Fraction(Order, f64),
    /// That it is, or with `false` is not, this text.
    Text {
        is: bool,
        text: Vec<u8>,
        caseless: bool,
    },
    /// That this matches, or with `false` does not.
    Pattern(bool, Box<dyn Pattern>),
}

/// A comparison of two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Query {
    /// Reads a query: one a line, of which any may be true. With `caseless`, expressions and texts match in any case.
    pub fn parse(text: &[u8], caseless: bool, compile: Compile<'_>) -> Result<Self, QueryError> {
        parse::parse(text, caseless, compile).map(Self)
    }

    /// Whether it is true of a group.
    pub fn is_true_of(&self, group: &Group) -> bool {
        run::is_true(&self.0, group)
    }
}

impl Order {
    fn holds<T: PartialOrd>(self, left: T, right: T) -> bool {
        match self {
            Self::Equal => left == right,
            Self::NotEqual => left != right,
            Self::Less => left < right,
            Self::LessOrEqual => left <= right,
            Self::Greater => left > right,
            Self::GreaterOrEqual => left >= right,
        }
    }
}
