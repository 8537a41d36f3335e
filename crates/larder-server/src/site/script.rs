//! Rewrite directives, compiled.

use larder_conf::{Span, model};

use crate::text::{Text, written};

use super::variables::NamedRegex;

/// A rewrite directive.
pub enum Op {
    /// `set`, to a slot; with its place.
    Set(SetTarget, Text, Span),
    /// `if`: the rewrite directives inside, and the location that becomes the current one.
    If(Condition, Vec<Op>, Option<usize>, Box<Written>),
    /// `rewrite`.
    Rewrite(Box<RewriteOp>),
    /// `return`; with its place.
    Return(u16, Option<Text>, Span),
    /// `break`.
    Break,
}

/// A condition as it was written.
pub struct Written {
    /// Its words.
    pub text: String,
    /// Its place.
    pub span: Span,
}

impl Written {
    /// That of a condition.
    pub fn of(condition: &model::Condition) -> Self {
        let not = |negate: &bool| if *negate { "!" } else { "" };
        let (text, span) = match condition {
            model::Condition::True(text) => (written(text), text.span),
            model::Condition::Equal { left, right, negate } => {
                (format!("{} {}= \"{}\"", written(left), not(negate), written(right)), left.span)
            }
            model::Condition::Match { left, pattern, negate } => {
                let star = if pattern.caseless { "*" } else { "" };
                (format!("{} {}~{star} \"{}\"", written(left), not(negate), pattern.source), left.span)
            }
            model::Condition::File { test, path, negate } => {
                let letter = match test {
                    model::FileTest::File => "f",
                    model::FileTest::Directory => "d",
                    model::FileTest::Exists => "e",
                    model::FileTest::Executable => "x",
                };
                (format!("{}-{letter} {}", not(negate), written(path)), path.span)
            }
        };
        Self { text, span }
    }
}

/// What `set` changes.
pub enum SetTarget {
    /// A variable with a slot.
    Slot(usize),
    /// `$args`.
    Args,
    /// `$limit_rate`.
    LimitRate,
}

/// A `rewrite` directive.
pub struct RewriteOp {
    /// The pattern that the URI is matched against.
    pub regex: NamedRegex,
    /// The new URI.
    pub replacement: Text,
    /// Whether the request's query is appended.
    pub append_args: bool,
    /// What happens next.
    pub flag: model::RewriteFlag,
    /// Its place.
    pub span: Span,
}

/// The condition of an `if`.
pub enum Condition {
    /// Neither empty nor `0`.
    True(Text),
    /// Both are equal; with `false`, they differ.
    Equal(Text, Text, bool),
    /// The text matches; with `false`, it does not.
    Match(Text, NamedRegex, bool),
    /// The test of a file holds; with `false`, it does not.
    File(model::FileTest, Text, bool),
}
